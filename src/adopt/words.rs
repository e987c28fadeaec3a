//! The usual words of job tables: in the names of their columns, and as values of a status.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use backlog_store::Listed;
use serde::Deserialize;

/// The words of words.toml.
#[derive(Default, Deserialize)]
struct Words {
    names: BTreeMap<Role, String>,
    values: BTreeMap<Meaning, String>,
}

/// A test finds a file that cannot be read.
static WORDS: LazyLock<Words> =
    LazyLock::new(|| toml::from_str(include_str!("words.toml")).unwrap_or_default());

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Role {
    Status,
    Created,
    Done,
    Due,
    /// A date that may say when a record is due, or when an invoice is: only somebody who knows can say.
    PerhapsDue,
    /// The date of an attempt, which says nothing about how it ended.
    Tried,
    Updated,
    Attempts,
    MostAttempts,
    Error,
}

/// Letters and digits of a text, in lower case: `In Progress`, `IN_PROGRESS` and `inProgress` are one word.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The name of a date without what only says that it is one: `created` of `CreatedOnUtc`.
fn without_date(letters: &str) -> &str {
    const ENDS: [&str; 8] = ["utc", "gmt", "timestamp", "datetime", "date", "time", "at", "on"];
    let mut core = letters;
    while let Some(rest) = ENDS.iter().find_map(|end| core.strip_suffix(end)) {
        core = rest;
    }
    ["date", "time"].iter().find_map(|begin| core.strip_prefix(begin)).unwrap_or(core)
}

pub fn is_dated(name: &str) -> bool {
    let letters = letters(name);
    without_date(&letters) != letters
}

pub fn role(name: &str) -> Option<Role> {
    let letters = letters(name);
    let core = without_date(&letters);
    let is_named =
        |words: &str| words.split_whitespace().any(|word| word == letters || word == core);
    let by_word = WORDS.names.iter().find(|(_, words)| is_named(words)).map(|(role, _)| *role);
    let by_part = || match &*letters {
        name if name.contains("last") => Some(Role::Tried),
        name if name.starts_with("next") || name.contains("before") => Some(Role::PerhapsDue),
        _ if ["after", "until", "due"].iter().any(|end| core.ends_with(end)) => {
            Some(Role::PerhapsDue)
        }
        name if name.contains("status") || name.ends_with("state") => Some(Role::Status),
        // `timestamp`, and a truth such as `is_sent`
        _ if core.is_empty() => Some(Role::Created),
        name => {
            let of_truth = name.strip_prefix("is").and_then(role);
            of_truth.filter(|role| *role == Role::Done)
        }
    };
    by_word.or_else(by_part)
}

/// Whether a table has columns of a queue: one that says what is pending, and another one.
pub fn is_like_a_queue(table: &Listed) -> bool {
    let roles: Vec<_> = table.columns.iter().filter_map(|column| role(&column.name)).collect();
    let tells = [Role::Status, Role::Done, Role::Attempts];
    roles.len() > 1 && tells.iter().any(|role| roles.contains(role))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Meaning {
    New,
    Failed,
    Done,
    GivenUp,
    /// In somebody's hand, or called off.
    LeftAlone,
}

pub fn meaning(value: &str) -> Option<Meaning> {
    let letters = letters(value);
    let is_in = |words: &str| words.split_whitespace().any(|word| word == letters);
    WORDS.values.iter().find(|(_, words)| is_in(words)).map(|(meaning, _)| *meaning)
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
            ("DontSendBefore", Role::PerhapsDue),
            ("valid_until", Role::PerhapsDue),
            ("due_date", Role::PerhapsDue),
            ("next_birthday", Role::PerhapsDue),
            ("scheduled_date_gmt", Role::Due),
            ("ProcessedOn", Role::Done),
            ("is_sent", Role::Done),
            ("last_attempt_at", Role::Tried),
            ("max_attempts", Role::MostAttempts),
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
