//! The usual words of job tables: names of columns, and values of a status.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use backlog_store::CatalogTable;
use serde::Deserialize;

#[derive(Default, Deserialize)]
struct Words {
    names: BTreeMap<Role, String>,
    values: BTreeMap<Meaning, String>,
}

/// A test shows that the file is not empty.
static WORDS: LazyLock<Words> =
    LazyLock::new(|| toml::from_str(include_str!("words.toml")).unwrap_or_default());

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Role {
    Status,
    Created,
    Done,
    Due,
    /// The date of the next attempt, or of something else, such as an invoice.
    MaybeDue,
    /// The date of the last attempt, whatever its outcome.
    Tried,
    Updated,
    Attempts,
    MaxAttempts,
    Error,
}

/// Normalizes a text: `In Progress`, `IN_PROGRESS` and `inProgress` are the same word.
fn normalized(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Removes the words for a date from a name: `CreatedOnUtc` becomes `created`.
fn without_date_words(name: &str) -> &str {
    const SUFFIXES: [&str; 8] = ["utc", "gmt", "timestamp", "datetime", "date", "time", "at", "on"];
    let mut core = name;
    while let Some(shorter) = SUFFIXES.iter().find_map(|suffix| core.strip_suffix(suffix)) {
        core = shorter;
    }
    ["date", "time"].iter().find_map(|prefix| core.strip_prefix(prefix)).unwrap_or(core)
}

pub fn has_date_words(name: &str) -> bool {
    let name = normalized(name);
    without_date_words(&name) != name
}

pub fn role(name: &str) -> Option<Role> {
    let name = normalized(name);
    let core = without_date_words(&name);
    let has_name = |words: &str| words.split_whitespace().any(|word| word == name || word == core);
    let by_word = WORDS.names.iter().find(|(_, words)| has_name(words)).map(|(role, _)| *role);
    let by_part = || match &*name {
        name if name.contains("last") => Some(Role::Tried),
        name if name.starts_with("next") || name.contains("before") => Some(Role::MaybeDue),
        _ if ["after", "until", "due"].iter().any(|end| core.ends_with(end)) => {
            Some(Role::MaybeDue)
        }
        name if name.contains("status") || name.ends_with("state") => Some(Role::Status),
        // `timestamp`
        _ if core.is_empty() => Some(Role::Created),
        // `is_sent`
        name => name.strip_prefix("is").and_then(role).filter(|role| *role == Role::Done),
    };
    by_word.or_else(by_part)
}

/// True for a table with at least two usual columns, one of which shows what is pending.
pub fn resembles_queue(table: &CatalogTable) -> bool {
    let roles: Vec<_> = table.columns.iter().filter_map(|column| role(&column.name)).collect();
    let needed = [Role::Status, Role::Done, Role::Attempts];
    roles.len() > 1 && needed.iter().any(|role| roles.contains(role))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Meaning {
    New,
    Failed,
    Done,
    GivenUp,
    /// In work, or cancelled.
    LeftAlone,
}

pub fn meaning(value: &str) -> Option<Meaning> {
    let value = normalized(value);
    let has_value = |words: &str| words.split_whitespace().any(|word| word == value);
    WORDS.values.iter().find(|(_, words)| has_value(words)).map(|(meaning, _)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_every_case() {
        for (name, expected) in [
            ("created_at", Role::Created),
            ("OccurredOn", Role::Created),
            ("timecreated", Role::Created),
            ("date_entered", Role::Created),
            ("CreatedOnUtc", Role::Created),
            ("timestamp", Role::Created),
            ("run_at", Role::Due),
            ("next_attempt_at", Role::Due),
            ("nextattempttime", Role::Due),
            ("DontSendBefore", Role::MaybeDue),
            ("valid_until", Role::MaybeDue),
            ("due_date", Role::MaybeDue),
            ("next_birthday", Role::MaybeDue),
            ("scheduled_date_gmt", Role::Due),
            ("ProcessedOn", Role::Done),
            ("is_sent", Role::Done),
            ("last_attempt_at", Role::Tried),
            ("max_attempts", Role::MaxAttempts),
            ("job_state", Role::Status),
            ("number_of_retries", Role::Attempts),
            ("error_message", Role::Error),
        ] {
            assert_eq!(role(name), Some(expected), "{name}");
        }
        for name in ["id", "payload", "process", "sender", "user_id", "attempts_left", "location"] {
            assert_eq!(role(name), None, "{name}");
        }
    }

    #[test]
    fn a_word_of_a_status_is_read_in_every_case() {
        assert_eq!(meaning("PENDING"), Some(Meaning::New));
        assert_eq!(meaning("In Progress"), Some(Meaning::LeftAlone));
        assert_eq!(meaning("not sent"), Some(Meaning::New));
        assert_eq!(meaning("flagged"), None);
    }

    #[test]
    fn no_word_of_a_status_means_two_things() {
        let all: Vec<_> =
            WORDS.values.values().flat_map(|words| words.split_whitespace()).collect();
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(all.len(), distinct.len());
    }
}
