//! The usual words of job tables: in the names of their columns, and as values of a status.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use backlog_store::CatalogTable;
use serde::Deserialize;

/// The words of words.toml.
#[derive(Default, Deserialize)]
struct Words {
    names: BTreeMap<ColumnRole, String>,
    values: BTreeMap<Meaning, String>,
}

/// A test finds a file that cannot be read.
static WORDS: LazyLock<Words> =
    LazyLock::new(|| toml::from_str(include_str!("words.toml")).unwrap_or_default());

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum ColumnRole {
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

pub fn role(name: &str) -> Option<ColumnRole> {
    let letters = letters(name);
    let core = without_date(&letters);
    let is_named =
        |words: &str| words.split_whitespace().any(|word| word == letters || word == core);
    let by_word = WORDS.names.iter().find(|(_, words)| is_named(words)).map(|(role, _)| *role);
    let by_part = || match &*letters {
        name if name.contains("last") => Some(ColumnRole::Tried),
        name if name.starts_with("next") || name.contains("before") => Some(ColumnRole::PerhapsDue),
        _ if ["after", "until", "due"].iter().any(|end| core.ends_with(end)) => {
            Some(ColumnRole::PerhapsDue)
        }
        name if name.contains("status") || name.ends_with("state") => Some(ColumnRole::Status),
        // `timestamp`, and a truth such as `is_sent`
        _ if core.is_empty() => Some(ColumnRole::Created),
        name => {
            let of_truth = name.strip_prefix("is").and_then(role);
            of_truth.filter(|role| *role == ColumnRole::Done)
        }
    };
    by_word.or_else(by_part)
}

/// Whether a table has columns of a queue: one that says what is pending, and another one.
pub fn resembles_queue(table: &CatalogTable) -> bool {
    let roles: Vec<_> = table.columns.iter().filter_map(|column| role(&column.name)).collect();
    let tells = [ColumnRole::Status, ColumnRole::Done, ColumnRole::Attempts];
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
            ("created_at", ColumnRole::Created),
            ("OccurredOn", ColumnRole::Created),
            ("timecreated", ColumnRole::Created),
            ("date_entered", ColumnRole::Created),
            ("CreatedOnUtc", ColumnRole::Created),
            ("timestamp", ColumnRole::Created),
            ("run_at", ColumnRole::Due),
            ("next_attempt_at", ColumnRole::Due),
            ("nextattempttime", ColumnRole::Due),
            ("DontSendBefore", ColumnRole::PerhapsDue),
            ("valid_until", ColumnRole::PerhapsDue),
            ("due_date", ColumnRole::PerhapsDue),
            ("next_birthday", ColumnRole::PerhapsDue),
            ("scheduled_date_gmt", ColumnRole::Due),
            ("ProcessedOn", ColumnRole::Done),
            ("is_sent", ColumnRole::Done),
            ("last_attempt_at", ColumnRole::Tried),
            ("max_attempts", ColumnRole::MostAttempts),
            ("job_state", ColumnRole::Status),
            ("number_of_retries", ColumnRole::Attempts),
            ("error_message", ColumnRole::Error),
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
