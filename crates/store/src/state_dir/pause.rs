//! The pauses of queues and tables. Each is a file, which `backlog resume` removes.

use std::fmt;

use anyhow::Result;
use backlog_schedule::{Instant, one_line};
use serde::{Deserialize, Serialize};

use super::StateDir;
use super::directory::Directory;
use crate::system_error::chain;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PauseScope {
    /// All lines of a queue, by its name.
    Queue(String),
    /// All lines of a table, of any queue.
    Table(String),
}

impl PauseScope {
    fn covering(queue: &str, table: &str) -> [Self; 2] {
        [Self::Queue(queue.into()), Self::Table(table.into())]
    }

    pub fn covers(&self, queue: &str, table: &str) -> bool {
        Self::covering(queue, table).contains(self)
    }
}

impl fmt::Display for PauseScope {
    /// `queue mails`, `table BACKLOG`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(name) => write!(f, "queue {name}"),
            Self::Table(name) => write!(f, "table {name}"),
        }
    }
}

/// A pause. Its fields are the members of its file and of `status --json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// `None` if the file cannot be read. Then `reason` is the error.
    pub since: Option<Instant>,
    /// `None` for a pause without end.
    pub until: Option<Instant>,
    pub reason: Option<String>,
    pub by: Option<String>,
}

impl Pause {
    /// The pause and the command that ends it. `choice` are the options that choose the queue.
    pub fn sentence(&self, format_instant: impl Fn(Instant) -> String, choice: &str) -> String {
        format!("{}; `backlog resume{choice}` ends it", self.text(format_instant))
    }

    /// `paused since 2026-11-21T00:00:00Z until 2026-11-21T02:00:00Z by joe: REASON`
    pub fn text(&self, format_instant: impl Fn(Instant) -> String) -> String {
        let Self { since, until, reason, by } = self;
        let mut sentence = String::from("paused");
        let instants = [("since", since), ("until", until)];
        for (word, at) in instants.into_iter().filter_map(|(word, at)| Some((word, (*at)?))) {
            sentence += &format!(" {word} {}", format_instant(at));
        }
        sentence.extend(by.iter().map(|by| format!(" by {by}")));
        sentence.extend(reason.iter().map(|reason| format!(": {reason}")));
        one_line(&sentence)
    }
}

impl StateDir {
    /// The pause of a line of this queue and this table. Of several, the one that ends last.
    pub fn pause(&self, queue: &str, table: &str, now: Instant) -> Option<Pause> {
        let scopes = PauseScope::covering(queue, table);
        let pauses = scopes.iter().filter_map(|scope| self.pause_of(scope, now));
        pauses.max_by_key(|pause| pause.until.map_or(i64::MAX, |until| until.0))
    }

    /// The pause of a queue or a table, unless it has ended.
    pub fn pause_of(&self, scope: &PauseScope, now: Instant) -> Option<Pause> {
        self.read_pause(scope).filter(|pause| pause.until.is_none_or(|until| until > now))
    }

    fn read_pause(&self, scope: &PauseScope) -> Option<Pause> {
        // An error of the directory is reported elsewhere.
        let directory = self.open().ok().flatten()?;
        let name = self.pause_name(scope);
        let read = directory.read(&name).transpose()?;
        let damaged =
            || format!("could not read {}: it is damaged", self.path().join(name).display());
        let pause = read.map_err(|error| chain(&error)).and_then(|text| {
            let pause = serde_json::from_slice::<Pause>(&text).ok();
            pause.filter(|pause| pause.since.is_some()).ok_or_else(damaged)
        });
        // Somebody began a pause, so an unreadable file is one without end.
        Some(pause.unwrap_or_else(|why| Pause { reason: Some(why), ..Pause::default() }))
    }

    pub fn begin_pause(&self, scope: &PauseScope, pause: &Pause) -> Result<()> {
        let text = serde_json::to_vec(pause)?;
        self.create()?.rewrite(&self.pause_name(scope), &text)
    }

    /// Ends the pause of a queue or a table. Returns whether one was in force.
    pub fn end_pause(&self, scope: &PauseScope, now: Instant) -> Result<bool> {
        let was_paused = self.pause_of(scope, now).is_some();
        let remove = |directory: &Directory| directory.remove(&self.pause_name(scope));
        self.open()?.map_or(Ok(()), remove).map(|()| was_paused)
    }

    fn pause_name(&self, scope: &PauseScope) -> String {
        format!("{}.paused", self.file_name(&scope.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE: Instant = Instant(1_795_219_200);

    fn until(secs: i64) -> Pause {
        Pause { since: Some(SINCE), until: Some(Instant(SINCE.0 + secs)), ..Pause::default() }
    }

    fn queue(name: &str) -> PauseScope {
        PauseScope::Queue(name.into())
    }

    #[test]
    fn a_line_is_paused_until_the_pauses_of_its_queue_and_its_table_have_ended() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::of_server(dir.path().join("state"), "x");
        let ends = |queue, table, secs| {
            state
                .pause(queue, table, Instant(SINCE.0 + secs))
                .map(|pause| pause.until.unwrap().0 - SINCE.0)
        };
        assert_eq!(ends("mails", "t", 0), None, "there is no directory");
        state.begin_pause(&queue("mails"), &until(60)).unwrap();
        state.begin_pause(&PauseScope::Table("t".into()), &until(120)).unwrap();
        assert_eq!(ends("mails", "t", 0), Some(120));
        assert_eq!(ends("mails", "u", 59), Some(60));
        assert_eq!(ends("mails", "u", 60), None);
        assert_eq!(ends("orders", "t", 60), Some(120));
        assert_eq!(ends("t", "mails", 0), None);
        // Another database in the same directory.
        let other = StateDir::of_server(dir.path().join("state"), "y");
        assert_eq!(other.pause("mails", "t", SINCE), None);
        assert!(!other.end_pause(&queue("mails"), SINCE).unwrap());
        assert!(state.end_pause(&queue("mails"), SINCE).unwrap());
        assert!(!state.end_pause(&queue("mails"), SINCE).unwrap());
        assert_eq!(ends("mails", "u", 0), None);
    }

    #[test]
    fn a_damaged_file_is_a_pause_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::of_server(dir.path().join("state"), "x");
        state.begin_pause(&queue("q"), &until(60)).unwrap();
        let path = state.path().join(state.pause_name(&queue("q")));
        for damaged in ["", "{", "{}", "[]", r#"{"since":"soon"}"#, r#"{"since":null}"#] {
            std::fs::write(&path, damaged).unwrap();
            let pause = state.pause("q", "t", Instant(i64::MAX)).unwrap();
            let text = pause.text(|at| at.to_string());
            assert!(
                text.starts_with(&format!("paused: could not read {}: ", path.display())),
                "{text}"
            );
        }
    }

    #[test]
    fn a_pause_is_described_on_one_line() {
        let pause = Pause {
            until: Some(Instant(SINCE.0 + 3_600)),
            reason: Some("first\nsecond".into()),
            by: Some("joe".into()),
            ..until(0)
        };
        assert_eq!(
            pause.text(|at| at.to_string()),
            "paused since 2026-11-21T00:00:00Z until 2026-11-21T01:00:00Z by joe: first\\nsecond"
        );
    }
}
