//! Misspelt names: which of the legal ones was meant, and a list of them that fits into a line.

use std::cmp::Reverse;

use strsim::damerau_levenshtein as slips;

/// A list of names may be so long, in characters.
const LINE: usize = 100;
/// So many of a longer one are named.
const NAMED: usize = 5;

/// The legal name that was meant, if one is near enough. The case does not count.
pub fn nearest<'a>(name: &str, legal: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = name.chars().count().div_ceil(3);
    // Names that have no letter in common are not near, however short they are.
    let is_near = |it: &&str| distance(name, it) <= most.min(it.chars().count() - 1);
    let legal = legal.into_iter().filter(|it| !it.is_empty());
    legal.filter(is_near).min_by_key(|it| (distance(name, it), slips(name, it)))
}

/// `; did you mean email?`, if one is near.
pub fn hint<'a>(name: &str, legal: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, legal).map_or_else(String::new, |it| format!("; did you mean {it}?"))
}

/// `email, orders`; of more than fit into a line the nearest to a name, if one was meant, or else the
/// first, and how many others there are.
pub fn listed<'a>(name: &str, legal: impl IntoIterator<Item = &'a str>) -> String {
    let mut legal: Vec<_> = legal.into_iter().collect();
    let line = legal.join(", ");
    if line.chars().count() <= LINE || legal.len() <= NAMED {
        return line;
    }
    if !name.is_empty() {
        legal.sort_by_key(|it| (distance(name, it), Reverse(it.len())));
    }
    format!("{} and {} more", legal[..NAMED].join(", "), legal.len() - NAMED)
}

/// `no queue "emial"; did you mean email?; legal are email, orders`
pub fn unknown<'a>(what: &str, name: &str, legal: impl IntoIterator<Item = &'a str>) -> String {
    let legal: Vec<_> = legal.into_iter().collect();
    let (hint, listed) = (hint(name, legal.iter().copied()), listed(name, legal));
    format!("no {what} {name:?}{hint}; legal are {listed}")
}

/// How many slips of the finger are between two names.
fn distance(name: &str, legal: &str) -> usize {
    slips(&name.to_lowercase(), &legal.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_what_was_meant() {
        let legal = ["ID", "PAYLOAD", "state", "app.orders", "w.db", ""];
        for (name, expected) in [
            ("PAYLOD", Some("PAYLOAD")),
            ("payload", Some("PAYLOAD")),
            ("idd", Some("ID")),
            ("STATUS", Some("state")),
            ("dbs", None),
            ("app.order", Some("app.orders")),
            ("nr", None),
            ("", None),
            ("nosuch", None),
        ] {
            assert_eq!(nearest(name, legal), expected, "{name}");
        }
        assert_eq!(nearest("u", ["t"]), None);
        assert_eq!(nearest("order", ["Orders", "orders"]), Some("orders"));
    }

    #[test]
    fn a_list_is_no_longer_than_a_line() {
        assert_eq!(listed("x", ["a", "b"]), "a, b");
        let many: Vec<_> = (0..40).map(|number| format!("column_{number}")).collect();
        let listed = listed("column_39x", many.iter().map(String::as_str));
        assert!(listed.starts_with("column_39, "), "{listed}");
        assert!(listed.ends_with(" and 35 more") && listed.len() <= LINE, "{listed}");
        let unknown = unknown("queue", "emial", ["email", "orders"]);
        assert_eq!(unknown, "no queue \"emial\"; did you mean email?; legal are email, orders");
    }
}
