//! The state directory: `FILE.backlog`, or `~/.local/state/backlog` with a server. Records survive its loss, but while
//! passes run it holds their claims. `lines` and `TABLE.claims` are empty files, in which the kernel locks a byte per
//! crontab line and per record. `passes` holds the tokens of running passes, `*.paused` a pause of a queue or a table,
//! and `state.db` cursors, the last 1,500 passes of each line, the causes of failures and requests of `stop`.

mod directory;
mod failing;
mod failures;
mod history;
mod lines;
mod pass_note;
mod passes;
mod pause;
mod state_db;
mod stop_requests;

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow, ensure};
use backlog_schedule::{HOUR, Instant, fnv1a64};
use rustix::fs::{Access, AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, accessat, futimens};

use super::claims::LineLock;
use crate::secure_file::is_same;
use crate::system_error::chain;
use directory::{CLAIMS, Directory, LINES, PASSES, Purpose, StateLocation, not_opened};
use state_db::StateDb;

pub use failing::Failing;
pub use failures::{NewFailures, StoredFailures};
pub use history::{INTERVAL_ENTRIES, LineHistory, PASSES_OF_A_DAY, SlowHandler};
pub use lines::{LineName, LineState};
pub use pass_note::PassNote;
pub use passes::{PassCounts, PassEnd, PassEntry, PassRecord, StoredLine};
pub use pause::{Pause, PauseScope};

#[derive(Clone, Default)]
pub struct StateDir {
    location: StateLocation,
    /// A prefix that separates the databases of a shared directory.
    scope: String,
    /// True if a pass continues without it.
    is_optional: bool,
    /// The directory, once it is opened. `None` inside if passes run without one.
    opened: Arc<OnceLock<Option<Directory>>>,
    state: Arc<Mutex<Option<Arc<StateDb>>>>,
    /// True if this process has reported that state.db cannot be used.
    has_reported: Arc<AtomicBool>,
}

impl StateDir {
    /// A directory that the user chose. Several databases may share it.
    pub fn shared(path: PathBuf, database: (PathBuf, Metadata)) -> Self {
        let scope = format!("{}-{} ", database.1.dev(), database.1.ino());
        let location = StateLocation { path, is_named: true, database: Some(database) };
        Self { location, scope, ..Self::default() }
    }

    /// A directory for the databases of servers. `identity` tells them apart.
    pub fn of_server(path: PathBuf, identity: &str) -> Self {
        let location = StateLocation { path, is_named: true, database: None };
        Self { location, scope: format!("{identity} "), ..Self::default() }
    }

    pub fn none(identity: &str) -> Self {
        let state = Self::of_server(PathBuf::new(), identity);
        Self { opened: Arc::new(None.into()), is_optional: true, ..state }
    }

    /// The directory of one database, beside it.
    pub fn beside(path: PathBuf, database: (PathBuf, Metadata)) -> Self {
        let location = StateLocation { path, is_named: false, database: Some(database) };
        Self { location, ..Self::default() }
    }

    pub fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    /// Creates the directory. Returns false if passes continue without one, which is safe if a server holds the claims.
    pub fn prepare(&self) -> Result<bool> {
        let Err(error) = self.create() else { return Ok(true) };
        if !self.is_optional {
            return Err(error);
        }
        let _ = self.opened.set(None);
        log::error!("{}", Self::missing(&error));
        Ok(false)
    }

    fn missing(why: &anyhow::Error) -> String {
        format!(
            "no state directory: {}; without one the history of passes, the causes of failures, \
             the position where a limited pass stopped and the missed ticks are lost: name one \
             with --state-dir",
            chain(why)
        )
    }

    /// True if passes run without a directory.
    pub fn is_none(&self) -> bool {
        matches!(self.opened.get(), Some(None))
    }

    pub fn is_of_a_server(&self) -> bool {
        self.location.database.is_none()
    }

    pub fn is_named(&self) -> bool {
        self.location.is_named
    }

    pub fn path(&self) -> &Path {
        &self.location.path
    }

    /// Fails if passes over `table` could not use or create their files. Returns a warning if they run without them.
    pub fn check_writable(&self, table: &str) -> Result<Option<String>> {
        match self.check_files(table) {
            Err(error) if self.is_optional => Ok(Some(Self::missing(&error))),
            checked => checked.map(|()| None),
        }
    }

    fn check_files(&self, table: &str) -> Result<()> {
        let path = self.path();
        ensure!(!self.is_none(), NO_HOME);
        if let Some(directory) = self.open()? {
            let [lines, passes] = [LINES, PASSES].map(|kind| self.own_name(kind));
            return directory.check_writable(&[lines, passes, self.claims_name(table)]);
        }
        self.location.require_writable()?;
        let above = path.ancestors().skip(1).find(|path| path.exists()).unwrap_or(Path::new("."));
        accessat(CWD, above, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
            .map_err(|errno| not_opened(path, &errno.into()))
    }

    pub fn claims_file(&self, table: &str) -> Result<(File, ClaimsFile)> {
        let name = self.claims_name(table);
        let (file, path) = (self.file(&name)?, self.path().join(name));
        let opened = file.metadata().context("could not read the metadata of the claims")?;
        Ok((file, ClaimsFile { path, opened }))
    }

    pub fn lock_line(&self, line: &str, wait: bool) -> Result<Option<LineLock>> {
        let name = self.own_name(LINES);
        LineLock::take(self.file(&name)?, self.lock_of(line), wait)
            .with_context(|| format!("could not lock {}", self.path().join(name).display()))
    }

    /// Ends the handlers that killed passes have left, or fails. Then notes the pass with this token, if possible.
    pub fn begin_pass(&self, token: &str) -> Result<Option<PassNote>> {
        if self.is_none() {
            return Ok(None);
        }
        let name = self.own_name(PASSES);
        let shared = self.file(&name)?;
        let path = || self.path().join(name).display().to_string();
        pass_note::end_orphans(&shared).with_context(path)?;
        let noted = PassNote::write(shared, token).inspect_err(|error| {
            log::warn!(
                "{}: if this pass is killed together with its watchdog, the next one does not know of \
                 the handlers that it leaves",
                chain(error)
            );
        });
        Ok(noted.ok())
    }

    /// Returns true once an hour, to report an unusable state.db. The time of `lines` records it, also on a full disk.
    fn may_report_state(&self, now: Instant) -> bool {
        let at = |secs: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(secs);
        let noted = || -> Result<bool> {
            let lines = self.file(&self.own_name(LINES))?;
            let (now, last) = (at(u64::try_from(now.0)?), lines.metadata()?.modified()?);
            let hour = Duration::from_secs(HOUR.unsigned_abs());
            let may = now.duration_since(last).map_or(true, |since| since >= hour);
            // Only the owner can set another time than the present.
            let present = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            let present = Timestamps { last_access: present, last_modification: present };
            if may && lines.set_modified(now).is_err() {
                futimens(&lines, &present)?;
            }
            Ok(may)
        };
        !self.has_reported.swap(true, Ordering::Relaxed) && noted().unwrap_or(true)
    }

    /// The name of a file that exists once per database.
    fn own_name(&self, kind: &str) -> String {
        if self.scope.is_empty() { kind.into() } else { format!("{}.{kind}", self.file_name("")) }
    }

    /// A readable file name, which a hash makes unique.
    fn file_name(&self, name: &str) -> String {
        let legible = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        let readable: String = name.chars().take(40).map(legible).collect();
        let hash = fnv1a64(format!("{}{name}", self.scope).as_bytes());
        format!("{readable}-{:08x}", hash >> 32)
    }

    fn claims_name(&self, table: &str) -> String {
        format!("{}{CLAIMS}", self.file_name(table))
    }

    fn open(&self) -> Result<Option<&Directory>> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened.as_ref());
        }
        match Directory::open(&self.location) {
            Ok(None) => Ok(None),
            Err(_) if self.is_optional => Ok(None),
            found => found.map(|found| self.opened.get_or_init(|| found).as_ref()),
        }
    }

    fn create(&self) -> Result<&Directory> {
        if self.opened.get().is_none() {
            let created = Directory::create(&self.location)?;
            self.opened.get_or_init(|| Some(created));
        }
        self.opened.get().and_then(Option::as_ref).context(NO_HOME)
    }

    fn file(&self, name: &str) -> Result<File> {
        let file = self.create()?.file(name, Purpose::Create)?;
        file.ok_or_else(|| anyhow!("could not create {}", self.path().join(name).display()))
    }
}

/// The path of the claims of a table, and the file that this pass opened there.
pub struct ClaimsFile {
    pub path: PathBuf,
    opened: Metadata,
}

impl ClaimsFile {
    /// Fails if the path has another file by now, or none.
    pub fn require_in_place(&self) -> Result<()> {
        ensure!(
            std::fs::symlink_metadata(&self.path).is_ok_and(|now| is_same(&now, &self.opened)),
            "{} was moved, replaced or removed while the pass ran: other passes do not see its claims \
             any more, and may try its records at the same time",
            self.path.display()
        );
        Ok(())
    }
}

const NO_HOME: &str = "neither XDG_STATE_HOME nor HOME is set";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_alike_have_files_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let model = || (dir.path().into(), std::fs::metadata(dir.path()).unwrap());
        let state = StateDir::beside(dir.path().into(), model());
        assert_ne!(state.file_name("a/b"), state.file_name("a-b"));
        assert!(!state.file_name("../../etc").contains(['/', '.']));
        let other = StateDir::shared(dir.path().into(), model());
        assert_ne!(state.file_name("a"), other.file_name("a"));
    }
}
