//! The scheme of a database URL.

pub fn split_scheme(text: &str) -> Option<(&str, &str)> {
    ["postgres://", "postgresql://"].into_iter().find_map(|scheme| {
        let (start, rest) = text.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some((start, rest))
    })
}

pub fn is_url(text: &str) -> bool {
    split_scheme(text).is_some()
}
