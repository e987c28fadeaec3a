//! Lists of legal names in error messages.

/// Maximum number of characters of a list.
const LONGEST: usize = 300;

/// `email, orders`; a long list is cut and ends with the number of the other names.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.into_iter().collect();
    let mut length = 0;
    let fits = |name: &&&str| {
        length += name.chars().count() + 2;
        length <= LONGEST
    };
    let count = names.iter().take_while(fits).count().max(1).min(names.len());
    let list = names[..count].join(", ");
    if count == names.len() { list } else { format!("{list} and {} more", names.len() - count) }
}

/// `no queue "emial"; use one of email, orders`
pub fn unknown_name<'a>(
    what: &str,
    name: &str,
    legal: impl IntoIterator<Item = &'a str>,
) -> String {
    format!("no {what} {name:?}; use one of {}", listed(legal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_no_longer_than_a_message_can_hold() {
        assert_eq!(listed([]), "");
        assert_eq!(listed(["a", "b"]), "a, b");
        let many: Vec<_> = (0..40).map(|number| format!("column_{number:02}")).collect();
        let listed = listed(many.iter().map(String::as_str));
        assert!(listed.starts_with("column_00, column_01, "), "{listed}");
        assert!(listed.ends_with(", column_26 and 13 more"), "{listed}");
        let unknown = unknown_name("queue", "emial", ["email", "orders"]);
        assert_eq!(unknown, "no queue \"emial\"; use one of email, orders");
    }
}
