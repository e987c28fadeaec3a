//! Names of hosts, as lists of them are compared with.

/// A host without the brackets of an IPv6 address and without the dot of a full name.
pub fn bare(host: &str) -> &str {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host.strip_suffix('.').unwrap_or(host))
}

/// Whether a name is below another, at any depth; none is below itself.
pub fn is_below(host: &str, name: &str) -> bool {
    let left = host.strip_suffix(name).filter(|_| !name.is_empty());
    left.is_some_and(|left| left.len() > 1 && left.ends_with('.'))
}

/// Whether a text is made of labels as names of hosts are, in ASCII.
pub fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let mut bytes = label.bytes();
        !label.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    text.split('.').all(is_label)
}
