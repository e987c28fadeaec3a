//! The keys of a queue's options, by the same names on the command line, in the environment and in
//! backlog.toml: `max_runtime`, `--max-runtime`, `BACKLOG_MAX_RUNTIME`.

use super::reference::{Key, SECTIONS};

/// Keys that are tables, and the keys in them.
pub const TABLES: [(&str, &[&str]); 5] = [
    ("status", &["column", "new", "error", "success", "archived"]),
    ("date_inserted", &["column", "sql", "format", "zone"]),
    ("failures", &["column", "counts"]),
    ("last_failure", &["column", "format"]),
    ("last_error", &["column", "max"]),
];

/// Paths, relative to the file in which they stand.
pub const PATHS: [&str; 5] = ["db", "state_dir", "joblog", "metrics", "ca_file"];

/// Options that are on or off.
pub const FLAGS: [&str; 5] = ["by_age", "fibonacci", "progressive", "stream", "strict"];

/// Options that choose when a record is due.
pub const CHOICES: [&str; 4] = ["ndays", "fibonacci", "policy", "progressive"];
/// Those that say more about the choice, and go with it.
pub const OF_THE_CHOICE: [&str; 4] = ["min_ndays", "by_age", "every", "spread"];

/// The command that handles the records, or a webhook in its place, and what says how they are run.
pub const EXEC: &str = "exec";
pub const POST: &str = "post";
pub const OF_A_COMMAND: [&str; 3] = ["stream", "window", EXEC];
pub const OF_A_WEBHOOK: [&str; 6] =
    [POST, "header", "allow_hosts", "secret_column", "idempotency_key", "ca_file"];
const GIVE_UP_ON: &str = "give_up_on";

/// Where all keys are told of: there are too many for a message.
const REFERENCE: &str = "docs/reference.md";

/// Those that are options. Every start looks for each of them.
fn options() -> impl Iterator<Item = &'static str> {
    all().filter(|key| !key.is_of_the_file).map(|key| key.name)
}

fn all() -> impl Iterator<Item = &'static Key> {
    SECTIONS.iter().flat_map(|(_, keys)| *keys)
}

/// The keys of backlog.toml and `--set` alone: the mapping, and the handler, typed behind `--`.
pub fn is_of_the_file(key: &str) -> bool {
    Key::named(key).is_some_and(|key| key.is_of_the_file)
}

pub fn long(key: &str) -> String {
    match key {
        "allow_hosts" => "allow-host".into(),
        "exec_on_archive" => "on-archive".into(),
        key => key.replace('_', "-"),
    }
}

pub fn key_of(long: &str) -> Option<&'static str> {
    let key = long.replace('-', "_");
    options().find(|option| match *option {
        "allow_hosts" => key == "allow_host",
        "exec_on_archive" => key == "on_archive",
        option => key == option,
    })
}

pub fn variable(long: &str) -> String {
    format!("BACKLOG_{}", long.to_ascii_uppercase().replace('-', "_"))
}

/// The long option that a variable stands for, if it were one.
pub fn long_of(variable: &str) -> Option<String> {
    let name = variable.strip_prefix("BACKLOG_")?;
    Some(name.to_ascii_lowercase().replace('_', "-"))
}

pub fn is_of_the_choice(key: &str) -> bool {
    CHOICES.contains(&key) || OF_THE_CHOICE.contains(&key)
}

/// Keys that count only with those of the same layer: they are gone where these are said above. Below
/// them is a command, or not.
pub fn gone(is_said: impl Fn(&str) -> bool, is_command_below: bool) -> Vec<&'static str> {
    let mut gone = Vec::new();
    if CHOICES.into_iter().any(&is_said) {
        gone.extend(CHOICES.iter().chain(&OF_THE_CHOICE));
    }
    // A webhook keeps what is said of webhooks elsewhere: a header that is not sent, as if there were
    // none, is a token that is missed in silence.
    if is_said(EXEC) {
        gone.extend(OF_A_COMMAND.iter().chain(&OF_A_WEBHOOK).chain([&GIVE_UP_ON]));
    } else if is_said(POST) {
        gone.extend(OF_A_COMMAND);
        gone.extend(is_command_below.then_some(GIVE_UP_ON));
    }
    gone
}

/// Fails if no key of a queue has this name.
pub fn require_known(name: &str) -> Result<(), String> {
    if Key::named(name).is_some() {
        return Ok(());
    }
    let of_option = key_of(&name.replace('_', "-"));
    let key = of_option.map_or_else(String::new, |key| format!("; the key of the option is {key}"));
    Err(format!("no key {name:?}{key}; {REFERENCE} has them all"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Args, Command};

    use super::*;
    use crate::options::{HandlerOptions, PassOptions, QueueOptions, ScheduleOptions};

    #[test]
    fn every_option_of_a_group_has_a_key_and_every_key_an_option() {
        let command = ScheduleOptions::augment_args(Command::new("backlog"));
        let command = PassOptions::augment_args(HandlerOptions::augment_args(command));
        let command = QueueOptions::augment_args(command);
        let longs = command.get_arguments().filter_map(|arg| arg.get_long().map(String::from));
        let mut longs: BTreeSet<_> = longs.collect();
        // They are options of every subcommand, and these two are no keys.
        longs.extend(["db", "state-dir"].map(String::from));
        for none in ["set", "where"] {
            assert!(longs.remove(none));
        }
        assert_eq!(longs, options().map(long).collect());
        assert!(options().all(|key| key_of(&long(key)) == Some(key)));
    }
}
