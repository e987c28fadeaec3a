//! What may be said of a queue elsewhere than on the command line: in backlog.toml and in the
//! environment. An option has the same values in all three places.

use std::collections::BTreeMap;

use crate::cli::{Given, Typed};
use crate::handlers::{Header, without_login};
use crate::mapping::{Assignment, OnSuccess};
use crate::store;

/// A key of backlog.toml and the long option that it stands for.
#[derive(Clone, Copy)]
pub struct Key {
    pub key: &'static str,
    pub long: &'static str,
    pub kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Value,
    /// Relative to the file in which it stands.
    Path,
    /// Commas lie between values.
    Several,
    Flag,
    /// It may have a value.
    Either,
    /// A line each.
    Lines,
    /// A command and its arguments, as in a shell; in backlog.toml as words.
    Command,
}

const fn key(key: &'static str, long: &'static str, kind: Kind) -> Key {
    Key { key, long, kind }
}

pub const KEYS: [Key; 54] = [
    key("db", "db", Kind::Path),
    key("state_dir", "state-dir", Kind::Path),
    key("table", "table", Kind::Value),
    key("pgmq", "pgmq", Kind::Value),
    key("shard", "shard", Kind::Value),
    key("id", "id-column", Kind::Several),
    key("status.column", "status-column", Kind::Value),
    key("status.new", "new", Kind::Several),
    key("status.error", "error", Kind::Several),
    key("status.success", "success", Kind::Several),
    key("status.archived", "archived", Kind::Several),
    key("date_inserted.column", "date-column", Kind::Value),
    key("date_inserted.format", "date-format", Kind::Value),
    key("date_inserted.zone", "zone", Kind::Value),
    key("failures", "failures-column", Kind::Value),
    key("last_failure", "last-failure-column", Kind::Value),
    key("last_error", "last-error-column", Kind::Value),
    key("payload", "payload-column", Kind::Value),
    key("ndays", "ndays", Kind::Value),
    key("min_ndays", "min-ndays", Kind::Value),
    key("fibonacci", "fibonacci", Kind::Flag),
    key("policy", "policy", Kind::Value),
    key("progressive", "progressive", Kind::Either),
    key("by_age", "by-age", Kind::Flag),
    key("unit", "unit", Kind::Value),
    key("every", "every", Kind::Value),
    key("spread", "spread", Kind::Value),
    key("salt", "salt", Kind::Value),
    key("max_attempts", "max-attempts", Kind::Value),
    key("max_age", "max-age", Kind::Value),
    key("jobs", "jobs", Kind::Value),
    key("timeout", "timeout", Kind::Value),
    key("grace", "grace", Kind::Value),
    key("max_records", "max-records", Kind::Value),
    key("max_runtime", "max-runtime", Kind::Value),
    key("order", "order", Kind::Value),
    key("strict", "strict", Kind::Flag),
    key("joblog", "joblog", Kind::Path),
    key("max_consecutive_failures", "max-consecutive-failures", Kind::Value),
    key("rate", "rate", Kind::Value),
    key("exec_on_archive", "on-archive", Kind::Command),
    key("stream", "stream", Kind::Flag),
    key("window", "window", Kind::Value),
    key("window_bytes", "window-bytes", Kind::Value),
    key("restarts", "restarts", Kind::Value),
    key("post", "post", Kind::Value),
    key("header", "header", Kind::Lines),
    key("allow_hosts", "allow-host", Kind::Lines),
    key("secret_column", "secret-column", Kind::Value),
    key("key_prefix", "key-prefix", Kind::Value),
    key("idempotency_key", "idempotency-key", Kind::Value),
    key("ca_file", "ca-file", Kind::Path),
    key("give_up_on", "give-up-on", Kind::Several),
    key("give_up_on_4xx", "give-up-on-4xx", Kind::Flag),
];

/// All options that may be said elsewhere. In backlog.toml this one is `status = false`.
pub fn options() -> impl Iterator<Item = &'static Key> {
    const NO_STATUS_KEY: Key = key("status", NO_STATUS, Kind::Flag);
    KEYS.iter().chain([&NO_STATUS_KEY])
}

/// The key of an option.
pub fn key_of(long: &str) -> &str {
    KEYS.iter().find(|key| key.long == long).map_or(long, |key| key.key)
}

/// Options that choose when a record is due.
const CHOICES: [&str; 4] = ["ndays", "fibonacci", "policy", "progressive"];
/// The schedule of six lines, which `crontab` prints.
const CLASSIC: &str = "classic";
/// Those that say more about the choice, and go with it.
const OF_THE_CHOICE: [&str; 6] = ["min-ndays", "by-age", "unit", "every", "spread", "salt"];

/// The command that handles the records, which is no option, or a webhook in its place, and what
/// says how they are run.
const EXEC: &str = "exec";
const POST: &str = "post";
const OF_A_COMMAND: [&str; 6] =
    ["stream", "window", "window-bytes", "restarts", "give-up-on", EXEC];
const OF_A_WEBHOOK: [&str; 8] = [
    POST,
    "header",
    "allow-host",
    "secret-column",
    "key-prefix",
    "idempotency-key",
    "ca-file",
    "give-up-on-4xx",
];

/// Where there is no status column it has no values, and the other way round.
pub const NO_STATUS: &str = "no-status-column";
const OF_THE_STATUS: [&str; 5] = ["status-column", "new", "error", "success", "archived"];

/// What workers of queues usually do.
const PGMQ_POLICY: &str = "exponential:first=1s,base=2,max=60s,jitter=30%";
const PGMQ_ATTEMPTS: &str = "5";

/// What is said of an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    On,
    /// Whatever a place with less weight says.
    Off,
    Value(String),
}

/// All that one place says of a queue.
#[derive(Debug, Clone, Default)]
pub struct Section {
    pub options: BTreeMap<&'static str, Said>,
    pub conditions: Vec<String>,
    pub exec: Option<Vec<String>>,
    pub on_success: Option<OnSuccess>,
    pub on_failure: Option<Vec<Assignment>>,
    pub on_archive: Option<Vec<Assignment>>,
}

impl Section {
    /// Sets an option as a variable of the environment has it.
    pub fn set(&mut self, key: &Key, value: &str) {
        let lower = value.to_ascii_lowercase();
        let is = |words: [&str; 4]| words.contains(&lower.as_str());
        let said = match key.kind {
            Kind::Flag | Kind::Either if is(["0", "false", "no", "off"]) => Said::Off,
            Kind::Flag => Said::On,
            Kind::Either if is(["1", "true", "yes", "on"]) => Said::On,
            Kind::Value
            | Kind::Path
            | Kind::Several
            | Kind::Either
            | Kind::Lines
            | Kind::Command => Said::Value(value.into()),
        };
        self.options.insert(key.long, said);
    }

    /// What counts for a queue of pgmq where nothing is said.
    pub fn of_pgmq() -> Self {
        let said = |value: &str| Said::Value(value.into());
        let options = [("policy", said(PGMQ_POLICY)), ("max-attempts", said(PGMQ_ATTEMPTS))];
        Self { options: options.into(), ..Self::default() }
    }

    pub fn says(&self, long: &str) -> bool {
        self.options.get(long).is_some_and(|said| *said != Said::Off)
    }

    /// The value of an option, if it has one.
    pub fn value(&self, long: &str) -> Option<&str> {
        match self.options.get(long) {
            Some(Said::Value(value)) => Some(value),
            Some(Said::On | Said::Off) | None => None,
        }
    }

    /// What in it is for nobody else to read, if there is such a thing.
    pub fn credential(&self) -> Option<&'static str> {
        let has_password = |url: &str| store::is_url(url) && store::without_password(url) != url;
        let has_login = |url: &str| without_login(url) != url;
        if self.value("db").is_some_and(has_password) {
            return Some("a password in `db`");
        }
        if self.value(POST).is_some_and(has_login) {
            return Some("a login in `post`");
        }
        let is_credential = |line: &str| Header::parse(line).is_ok_and(|it| it.is_credential());
        let headers = self.value("header")?;
        headers.lines().any(is_credential).then_some("a credential in `header`")
    }

    /// What counts where `self` goes before `other`. Whoever chooses when records are due chooses
    /// all of it.
    pub fn over(mut self, other: Self) -> Self {
        let gone = gone(|long| self.says(long) || long == EXEC && self.exec.is_some());
        for (long, value) in other.options {
            if !gone.contains(&long) {
                self.options.entry(long).or_insert(value);
            }
        }
        Self {
            options: self.options,
            conditions: if self.conditions.is_empty() { other.conditions } else { self.conditions },
            exec: self.exec.or(other.exec.filter(|_| !gone.contains(&EXEC))),
            on_success: self.on_success.or(other.on_success),
            on_failure: self.on_failure.or(other.on_failure),
            on_archive: self.on_archive.or(other.on_archive),
        }
    }

    /// The options that count beside a command line.
    pub fn beside(&self, typed: &Typed) -> Vec<Given> {
        let gone = gone(|long| typed.has(long) || long == EXEC && typed.has_handler());
        let counts = |long: &str| typed.knows(long) && !typed.has(long) && !gone.contains(&long);
        self.given().filter(|(long, _)| counts(long)).collect()
    }

    /// The options that are set, with their values if they take any.
    pub fn given(&self) -> impl Iterator<Item = Given> {
        self.options.iter().filter_map(|(long, said)| match said {
            Said::On => Some((*long, None)),
            Said::Off => None,
            Said::Value(value) => Some((*long, Some(value.clone()))),
        })
    }
}

/// Whether an option says when records are due.
pub fn is_of_the_choice(long: &str) -> bool {
    CHOICES.contains(&long) || OF_THE_CHOICE.contains(&long)
}

/// What does not count where it goes behind the options that are said.
fn gone(is_said: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let mut gone = Vec::new();
    if CHOICES.iter().chain(&[CLASSIC]).any(|choice| is_said(choice)) {
        gone.extend(CHOICES.iter().chain(&OF_THE_CHOICE));
    }
    // A webhook keeps what is said of webhooks elsewhere: a header that is not sent, as if there were
    // none, is a token that is missed in silence.
    if is_said(EXEC) {
        gone.extend(OF_A_COMMAND.iter().chain(&OF_A_WEBHOOK));
    } else if is_said(POST) {
        gone.extend(OF_A_COMMAND);
    }
    if is_said(NO_STATUS) {
        gone.extend(OF_THE_STATUS);
    }
    if OF_THE_STATUS.iter().any(|option| is_said(option)) {
        gone.push(NO_STATUS);
    }
    gone
}
