//! The pauses of queues and tables: a file for each, which says since when no attempt is begun, until
//! when, by whom and why. A pass looks for the two that concern it, and only `backlog resume` removes
//! one that has not ended.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant as Monotonic};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::StateDir;
use super::directory::{Directory, FileTime, Purpose};
use crate::record::one_line;
use crate::system_error::chain;
use crate::time::{Clock, Instant};

/// The part of a database that a pause stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PauseScope {
    /// All lines of a queue, by its name.
    Queue(String),
    /// All lines of a table, whatever their queues are called.
    Table(String),
}

impl PauseScope {
    /// The scopes that a line of this queue and this table is in.
    fn of(queue: &str, table: &str) -> [Self; 2] {
        [Self::Queue(queue.into()), Self::Table(table.into())]
    }

    /// Whether a line of this queue and this table is in it.
    pub fn covers(&self, queue: &str, table: &str) -> bool {
        Self::of(queue, table).contains(self)
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

/// A pause, whose fields are the members of its file and of `status --json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// `None` if its file cannot be read, which `reason` says then.
    pub since: Option<Instant>,
    /// `None` if it goes on until somebody ends it.
    pub until: Option<Instant>,
    pub reason: Option<String>,
    /// The name of the user who began it.
    pub by: Option<String>,
}

impl Pause {
    /// Somebody has wanted a pause: until it is known which, it goes on.
    fn unread(why: String) -> Self {
        Self { reason: Some(why), ..Self::default() }
    }

    fn from_text(text: &[u8], path: &Path) -> Self {
        let read = serde_json::from_slice::<Self>(text).ok().filter(|it| it.since.is_some());
        read.unwrap_or_else(|| {
            let path = path.display();
            Self::unread(format!(
                "could not read {path}: it is damaged; `backlog resume` removes it"
            ))
        })
    }

    fn holds(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until > now)
    }

    /// `paused since 2026-11-21T00:00:00Z until 2026-11-21T02:00:00Z by joe: REASON`
    pub fn sentence(&self, shown: impl Fn(Instant) -> String) -> String {
        let Self { since, until, reason, by } = self;
        let mut sentence = String::from("paused");
        let instants = [("since", since), ("until", until)];
        for (word, at) in instants.into_iter().filter_map(|(word, at)| Some((word, (*at)?))) {
            sentence += &format!(" {word} {}", shown(at));
        }
        sentence.extend(by.iter().map(|by| format!(" by {by}")));
        sentence.extend(reason.iter().map(|reason| format!(": {reason}")));
        one_line(&sentence)
    }
}

impl StateDir {
    /// The pause that a line of this queue and this table obeys now.
    pub fn pause(&self, queue: &str, table: &str, now: Instant) -> Option<Pause> {
        obeyed(self.pauses(queue, table), now)
    }

    /// The pauses of this queue and this table, also those that have ended.
    fn pauses(&self, queue: &str, table: &str) -> Vec<Pause> {
        let scopes = PauseScope::of(queue, table);
        scopes.iter().filter_map(|scope| self.read_pause(scope)).collect()
    }

    /// The pause of a queue or a table, unless it has ended.
    pub fn pause_of(&self, scope: &PauseScope, now: Instant) -> Option<Pause> {
        self.read_pause(scope).filter(|pause| pause.holds(now))
    }

    fn read_pause(&self, scope: &PauseScope) -> Option<Pause> {
        // Who may not enter the directory is told so by whatever else he looks for there.
        let directory = self.opened().ok().flatten()?;
        let name = self.pause_name(scope);
        let read = directory.read(&name, Purpose::Read).transpose()?;
        let path = self.path().join(name);
        Some(read.map_or_else(
            |error| Pause::unread(chain(&error)),
            |text| Pause::from_text(&text, &path),
        ))
    }

    /// Pauses a queue or a table, in place of the pause that it may have.
    pub fn begin_pause(&self, scope: &PauseScope, pause: &Pause) -> Result<()> {
        let text = serde_json::to_vec(pause)?;
        self.made()?.rewrite(&self.pause_name(scope), &text)
    }

    /// Ends the pause of a queue or a table; says whether there was one that held.
    pub fn end_pause(&self, scope: &PauseScope, now: Instant) -> Result<bool> {
        let held = self.pause_of(scope, now).is_some();
        let remove = |directory: &Directory| directory.remove(&self.pause_name(scope));
        self.opened()?.map_or(Ok(()), remove).map(|()| held)
    }

    fn pause_name(&self, scope: &PauseScope) -> String {
        format!("{}.paused", self.file_name(&scope.to_string()))
    }
}

/// Of pauses that hold, the one that ends last.
fn obeyed(pauses: Vec<Pause>, now: Instant) -> Option<Pause> {
    let holding = pauses.into_iter().filter(|pause| pause.holds(now));
    holding.max_by_key(|pause| pause.until.map_or(i64::MAX, |until| until.0))
}

/// How long the time of the state directory must have stood still before it is trusted. File systems round
/// it, so that a later change in the same step leaves it as it was: most to a tick of the kernel's clock, FAT
/// to two seconds. A time without nanoseconds is taken for one that is rounded to seconds.
fn settled_after((_, nanos): FileTime) -> Duration {
    if nanos == 0 { Duration::from_secs(3) } else { Duration::from_millis(100) }
}

/// The check for a pause before each claim of a pass. It opens the two files of pauses again only when the
/// time of the state directory has changed since they were found missing.
pub struct PauseWatch {
    queue: String,
    table: String,
    seen: Option<Seen>,
}

/// The state directory as it was seen.
#[derive(Clone, Copy)]
struct Seen {
    modified_at: FileTime,
    /// When it was first seen so.
    since: Monotonic,
    /// Whether it was without a pause once its time was to be trusted.
    has_none: bool,
}

impl PauseWatch {
    pub fn new(queue: &str, table: &str) -> Self {
        Self { queue: queue.into(), table: table.into(), seen: None }
    }

    /// The pause that the line obeys now.
    pub fn pause(&mut self, state: &StateDir, clock: Clock) -> Option<Pause> {
        let modified_at = state.opened().ok().flatten()?.modified_at();
        let now = clock.monotonic();
        let seen = self.seen.filter(|seen| Some(seen.modified_at) == modified_at);
        if seen.is_some_and(|seen| seen.has_none) {
            return None;
        }
        let since = seen.map_or(now, |seen| seen.since);
        let pauses = state.pauses(&self.queue, &self.table);
        self.seen = modified_at.map(|modified_at| {
            let has_none = pauses.is_empty() && now - since >= settled_after(modified_at);
            Seen { modified_at, since, has_none }
        });
        obeyed(pauses, clock.now())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs::File;

    use super::*;

    const SINCE: Instant = Instant(1_795_219_200);

    fn until(secs: i64) -> Pause {
        Pause { since: Some(SINCE), until: Some(Instant(SINCE.0 + secs)), ..Pause::default() }
    }

    fn queue(name: &str) -> PauseScope {
        PauseScope::Queue(name.into())
    }

    #[test]
    fn a_line_obeys_the_pauses_of_its_queue_and_of_its_table_until_the_last_of_them_ends() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::own(dir.path().join("state"), "x");
        let ends = |queue, table, secs| {
            state
                .pause(queue, table, Instant(SINCE.0 + secs))
                .map(|it| it.until.unwrap().0 - SINCE.0)
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
        let other = StateDir::own(dir.path().join("state"), "y");
        assert_eq!(other.pause("mails", "t", SINCE), None);
        assert!(!other.end_pause(&queue("mails"), SINCE).unwrap());
        assert!(state.end_pause(&queue("mails"), SINCE).unwrap());
        assert!(!state.end_pause(&queue("mails"), SINCE).unwrap());
        assert_eq!(ends("mails", "u", 0), None);
    }

    thread_local! {
        static NOW: Cell<Monotonic> = Cell::new(some_time());
    }

    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn some_time() -> Monotonic {
        Monotonic::now()
    }

    /// A state directory whose time is what is set here, and the watch of a line.
    struct Watched {
        state: StateDir,
        watch: PauseWatch,
        directory: File,
        _dir: tempfile::TempDir,
    }

    impl Watched {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let state = StateDir::own(dir.path().join("state"), "x");
            let mut watch = PauseWatch::new("q", "t");
            assert_eq!(watch.pause(&state, clock(SINCE)), None, "there is no directory");
            state.begin_pause(&queue("other"), &until(60)).unwrap();
            let directory = File::open(state.path()).unwrap();
            Self { state, watch, directory, _dir: dir }
        }

        /// What it finds with this time of the directory, so long after the last look.
        fn finds(&mut self, modified_secs: u64, later: Duration) -> Option<Pause> {
            let modified = std::time::UNIX_EPOCH + Duration::from_secs(modified_secs);
            self.directory.set_modified(modified).unwrap();
            NOW.set(NOW.get() + later);
            self.watch.pause(&self.state, clock(SINCE))
        }
    }

    /// By times of whole seconds.
    const SETTLED: Duration = Duration::from_secs(3);

    fn clock(now: Instant) -> Clock {
        Clock { fixed: Some(now), wall: || SINCE, monotonic: || NOW.get() }
    }

    #[test]
    fn a_pass_comes_to_know_of_a_pause_that_begins_at_any_time() {
        for (scope, later) in [(queue("q"), SETTLED / 2), (PauseScope::Table("t".into()), SETTLED)]
        {
            let mut watched = Watched::new();
            for _ in 0..4 {
                assert_eq!(watched.finds(1, later), None);
            }
            watched.state.begin_pause(&scope, &until(60)).unwrap();
            for _ in 0..4 {
                assert_eq!(watched.finds(2, later), Some(until(60)));
            }
            let over = clock(until(60).until.unwrap());
            assert_eq!(watched.watch.pause(&watched.state, over), None);
            assert_eq!(watched.finds(2, later), Some(until(60)), "its clock was set back");
            assert!(watched.state.end_pause(&scope, SINCE).unwrap());
            assert_eq!(watched.finds(3, later), None);
        }
    }

    #[test]
    fn the_time_of_the_directory_is_trusted_once_it_has_stood_still() {
        for (waits, found) in [(vec![SETTLED / 2], Some(until(60))), (vec![SETTLED; 2], None)] {
            let mut watched = Watched::new();
            assert_eq!(watched.finds(1, Duration::ZERO), None);
            for wait in waits {
                assert_eq!(watched.finds(1, wait), None);
            }
            // In the same step of the file system's clock.
            watched.state.begin_pause(&queue("q"), &until(60)).unwrap();
            assert_eq!(watched.finds(1, Duration::ZERO), found);
            assert_eq!(watched.finds(2, Duration::ZERO), Some(until(60)));
        }
    }

    #[test]
    fn times_of_less_than_a_second_are_trusted_sooner() {
        assert_eq!(settled_after((7, 0)), SETTLED);
        let tick = Duration::from_millis(10);
        assert!((2 * tick..SETTLED / 10).contains(&settled_after((7, 1))));
    }

    #[test]
    fn a_damaged_file_is_a_pause_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::own(dir.path().join("state"), "x");
        state.begin_pause(&queue("q"), &until(60)).unwrap();
        let path = state.path().join(state.pause_name(&queue("q")));
        for damaged in ["", "{", "{}", "[]", r#"{"since":"soon"}"#, r#"{"since":null}"#] {
            std::fs::write(&path, damaged).unwrap();
            let pause = state.pause("q", "t", Instant(i64::MAX)).unwrap();
            let said = pause.sentence(|at| at.to_string());
            assert!(
                said.starts_with(&format!("paused: could not read {}: ", path.display())),
                "{said}"
            );
        }
    }

    #[test]
    fn a_pause_is_said_on_one_line() {
        let pause = Pause {
            until: Some(Instant(SINCE.0 + 3_600)),
            reason: Some("first\nsecond".into()),
            by: Some("joe".into()),
            ..until(0)
        };
        assert_eq!(
            pause.sentence(|at| at.to_string()),
            "paused since 2026-11-21T00:00:00Z until 2026-11-21T01:00:00Z by joe: first\\nsecond"
        );
    }
}
