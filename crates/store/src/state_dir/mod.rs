//! The state directory: the claims files, the locks of the crontab lines, the cursors, the record of
//! passes, what is known of failures, pauses, and the notes of passes at work. No record is lost with it.
//!
//! Beside a database it is `FILE.backlog`, with a server `~/.local/state/backlog`. A damaged file counts as
//! absent, except a pause. `lines` and `TABLE.claims` are empty: the kernel locks a byte of them per crontab
//! line and per record. `LINE.cursor` says where the next pass continues, `LINE.history` (history.rs) has
//! the last 1,500 to 3,000 passes, `TABLE.failures` the causes (failures.rs), `TABLE.paused` a pause
//! (pause.rs), and `passes` the marks of running passes (pass_note.rs). The time of `LINE.hung`,
//! `LINE.unreported` and the like is that of the last message, which is printed once an hour at most.

mod directory;
mod exact_id;
mod failures;
mod history;
mod pass_note;
mod pause;

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, anyhow, ensure};
use backlog_schedule::{Cursor, HOUR, Instant, Kept, Key, Position, Slot, Value, fnv1a64};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::claims::LineLock;
use crate::secure_file::is_same;
use crate::system_error::chain;
use directory::{CLAIMS, Directory, LINES, PASSES, Place, not_opened};
use history::tail;

pub use directory::Purpose;
pub use failures::{Failures, NewFailures};
pub use history::{Counts, LineHistory, LineName, PASSES_OF_A_DAY, PassEnd, PassEntry, PassRecord};
pub use pass_note::PassNote;
pub use pause::{Pause, PauseScope};

/// What the name of a line's cursor ends in.
const CURSOR: &str = ".cursor";

/// What is remembered of a line takes a multiple of this many bytes.
const STATE_LENGTH: usize = 256;

#[derive(Clone)]
pub struct StateDir {
    place: Place,
    /// What tells this database's files from those of others in the same directory.
    scope: String,
    /// Whether a pass goes on without it.
    is_optional: bool,
    /// The directory, once it was opened: all that comes later goes to the very same one. `None` if there
    /// is none to be used.
    opened: Arc<OnceLock<Option<Directory>>>,
}

impl StateDir {
    /// A directory of the user's choice, which several databases may share.
    pub fn shared(path: PathBuf, database: (PathBuf, Metadata)) -> Self {
        let scope = format!("{}-{} ", database.1.dev(), database.1.ino());
        Self::new(path, true, Some(database), scope)
    }

    /// For databases that are no files; `identity` tells one of them from others.
    pub fn own(path: PathBuf, identity: &str) -> Self {
        Self::new(path, true, None, format!("{identity} "))
    }

    /// The same without a directory.
    pub fn none(identity: &str) -> Self {
        let state = Self::own(PathBuf::new(), identity);
        Self { opened: Arc::new(None.into()), is_optional: true, ..state }
    }

    /// The directory beside a database, which is its own.
    pub fn beside(path: PathBuf, database: (PathBuf, Metadata)) -> Self {
        Self::new(path, false, Some(database), String::new())
    }

    fn new(
        path: PathBuf,
        is_named: bool,
        database: Option<(PathBuf, Metadata)>,
        scope: String,
    ) -> Self {
        let place = Place { path, is_named, database };
        Self { place, scope, is_optional: false, opened: Arc::default() }
    }

    /// The same directory, without which passes go on if it cannot be used.
    pub fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    /// Makes the directory, and returns whether there is one. The claims of a server's passes are safe
    /// without it.
    pub fn prepare(&self) -> Result<bool> {
        let Err(error) = self.made() else { return Ok(true) };
        if !self.is_optional {
            return Err(error);
        }
        let _ = self.opened.set(None);
        log::error!("{}", Self::missing(&error));
        Ok(false)
    }

    /// What is lost without a directory.
    fn missing(why: &anyhow::Error) -> String {
        format!(
            "no state directory: {}; without one the record of passes, the causes of failures, the \
             cursors of capped passes and the slots of missed ticks are lost: name one with --state-dir",
            chain(why)
        )
    }

    /// Whether passes go on without a directory.
    pub fn is_none(&self) -> bool {
        matches!(self.opened.get(), Some(None))
    }

    /// Whether claims are a server's business, and only the rest is kept here.
    pub fn is_of_a_server(&self) -> bool {
        self.place.database.is_none()
    }

    /// Whether the user has named it, so that lines may have another.
    pub fn is_named(&self) -> bool {
        self.place.is_named
    }

    pub fn path(&self) -> &Path {
        &self.place.path
    }

    /// Fails if passes over `table` by this user could not use or make the directory and their files
    /// in it, or somebody could have put others there. Returns what is lost where they go on without it.
    /// Nothing is made.
    pub fn check_writable(&self, table: &str) -> Result<Option<String>> {
        match self.check_files(table) {
            Err(error) if self.is_optional => Ok(Some(Self::missing(&error))),
            checked => checked.map(|()| None),
        }
    }

    fn check_files(&self, table: &str) -> Result<()> {
        let path = self.path();
        ensure!(!self.is_none(), NO_HOME);
        if let Some(directory) = self.opened()? {
            if !self.place.is_named {
                return directory.check_writable(&directory.with_suffix("")?);
            }
            let [lines, passes] = [LINES, PASSES].map(|kind| self.own_name(kind));
            return directory.check_writable(&[lines, passes, self.claims_name(table)]);
        }
        self.place.require_writable()?;
        let above = path.ancestors().skip(1).find(|place| place.exists()).unwrap_or(Path::new("."));
        accessat(CWD, above, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
            .map_err(|errno| not_opened(path, &errno.into()))
    }

    /// The file of the claims on the records of `table`, and its place.
    pub fn claims_file(&self, table: &str) -> Result<(File, ClaimsPlace)> {
        let name = self.claims_name(table);
        let (file, path) = (self.file(&name)?, self.path().join(name));
        let held = file.metadata().context("could not look at the claims")?;
        Ok((file, ClaimsPlace { path, held }))
    }

    /// The lock of a crontab line; see [`LineLock::take`].
    pub fn lock_line(&self, line: &str, wait: bool) -> Result<Option<LineLock>> {
        let name = self.own_name(LINES);
        LineLock::take(self.file(&name)?, self.lock_of(line), wait)
            .with_context(|| format!("could not lock {}", self.path().join(name).display()))
    }

    /// Ends the handlers that passes killed together with their watchdogs have left, and fails where
    /// such may live on. Then notes a pass with this token, if it can. Called before anything is claimed.
    pub fn begin_pass(&self, token: &str) -> Result<Option<PassNote>> {
        if self.is_none() {
            return Ok(None);
        }
        let shared = self.file(&self.own_name(PASSES))?;
        pass_note::end_orphans(&shared)?;
        let noted = PassNote::write(shared, token).inspect_err(|error| {
            log::warn!(
                "{}: if this pass is killed together with its watchdog, the next one does not know of \
                 the handlers that it leaves",
                chain(error)
            );
        });
        Ok(noted.ok())
    }

    /// What the last pass of a line left; nothing if there was none. A pass is going to write it.
    pub fn line_state(&self, line: &str, purpose: Purpose) -> Result<LineState> {
        let Some(directory) = self.opened()? else { return Ok(LineState::default()) };
        let text = directory.read(&self.cursor_name(line), purpose)?;
        Ok(LineState::from_text(&text.unwrap_or_default()))
    }

    /// Notes where a pass came to. Else the next one begins at the head again, which loses no records.
    pub fn save_line_state(&self, line: &str, state: &LineState) {
        if self.is_none() {
            return;
        }
        // One write, which no kill can cut in two, padded so that nothing of a longer one is left.
        let mut text = state.to_text();
        let length = text.len().next_multiple_of(STATE_LENGTH);
        text += &" ".repeat(length - text.len());
        let name = self.cursor_name(line);
        let saved = self.file(&name).and_then(|file| {
            file.write_all_at(text.as_bytes(), 0)?;
            if file.metadata()?.len() != length as u64 {
                file.set_len(length as u64)?;
            }
            Ok(())
        });
        if let Err(error) = saved {
            let path = self.path().join(name);
            log::warn!("could not write the cursor {}: {}", path.display(), chain(&error));
        }
    }

    /// Whether passes may complain of something that they find wrong again and again, `what`: of each line once
    /// an hour, and each time where that cannot be noted.
    pub fn may_complain(&self, line: &LineName, what: &str, now: Instant) -> bool {
        if self.is_none() {
            return true;
        }
        let may = self.note_complaint(line, what, now);
        may.inspect_err(|error| log::warn!("{}", chain(error))).unwrap_or(true)
    }

    fn note_complaint(&self, line: &LineName, what: &str, now: Instant) -> Result<bool> {
        let file = self.file(&format!("{}.{what}", self.file_name(&line.to_string())))?;
        let (_, said) = tail(&file, 32)?;
        let said = std::str::from_utf8(&said).ok().and_then(|it| it.trim().parse::<Instant>().ok());
        let since = said.map(|said| now.0.saturating_sub(said.0));
        let may = since.is_none_or(|since| !(0..HOUR).contains(&since));
        if may {
            let said = format!("{now}\n");
            file.write_all_at(said.as_bytes(), 0)?;
            file.set_len(said.len() as u64)?;
        }
        Ok(may)
    }

    /// The place of a line's lock in its file.
    fn lock_of(&self, line: &str) -> u64 {
        fnv1a64(format!("{}{line}", self.scope).as_bytes()) >> 1
    }

    /// The name of a file that each database has one of.
    fn own_name(&self, kind: &str) -> String {
        if self.scope.is_empty() { kind.into() } else { format!("{}.{kind}", self.file_name("")) }
    }

    /// A file name that a person recognises and that no two names share.
    fn file_name(&self, name: &str) -> String {
        let legible = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        let readable: String = name.chars().take(40).map(legible).collect();
        let hash = fnv1a64(format!("{}{name}", self.scope).as_bytes());
        format!("{readable}-{:08x}", hash >> 32)
    }

    fn cursor_name(&self, line: &str) -> String {
        format!("{}{CURSOR}", self.file_name(line))
    }

    fn claims_name(&self, table: &str) -> String {
        format!("{}{CLAIMS}", self.file_name(table))
    }

    fn opened(&self) -> Result<Option<&Directory>> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened.as_ref());
        }
        match Directory::open(&self.place) {
            Ok(None) => Ok(None),
            Err(_) if self.is_optional => Ok(None),
            found => found.map(|found| self.opened.get_or_init(|| found).as_ref()),
        }
    }

    fn made(&self) -> Result<&Directory> {
        if self.opened.get().is_none() {
            let made = Directory::make(&self.place)?;
            self.opened.get_or_init(|| Some(made));
        }
        self.opened.get().and_then(Option::as_ref).context(NO_HOME)
    }

    fn file(&self, name: &str) -> Result<File> {
        let file = self.made()?.file(name, Purpose::Make)?;
        file.ok_or_else(|| anyhow!("could not make {}", self.path().join(name).display()))
    }
}

/// The place where passes look for the claims of a table, and the file that this pass found there.
pub struct ClaimsPlace {
    pub path: PathBuf,
    held: Metadata,
}

impl ClaimsPlace {
    /// Fails if that file is not there any more.
    pub fn require_in_place(&self) -> Result<()> {
        ensure!(
            std::fs::symlink_metadata(&self.path).is_ok_and(|now| is_same(&now, &self.held)),
            "{} was moved, replaced or removed while the pass ran: other passes do not see its claims \
             any more, and may try its records at the same time",
            self.path.display()
        );
        Ok(())
    }
}

/// What the next pass of a crontab line goes on from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LineState {
    pub began_at: Option<Instant>,
    /// Behind which slot it began, if it went by slots.
    pub began_behind: Option<Slot>,
    pub cursor: Cursor,
    /// Slots that passes have reached and that lie after the clock of the last one.
    pub later: Vec<Slot>,
    /// When it was looked last whether any row has a status that is mapped.
    pub unmapped_sought_at: Option<Instant>,
}

impl LineState {
    /// A line of JSON, and a second one that may be lost: a write of more than a page can be cut by
    /// a kill. Both say how far on they lead, so that none is taken for one of another time.
    fn to_text(&self) -> String {
        let Cursor { reached, kept, ahead, stuck } = &self.cursor;
        let slot = |slot: Slot| json!([slot.tick, slot.phase]);
        let listed = |kept: &[Kept]| -> Json {
            kept.iter()
                .map(|it| json!([exact_id::to_json(&it.id), it.slot.tick, it.slot.phase, it.begun]))
                .collect()
        };
        let key = reached.as_ref().and_then(Position::key).map(key_to_json).unwrap_or_default();
        let said = json!({
            "began_at": self.began_at.map(|at| at.0),
            "began_behind": self.began_behind.map(slot),
            "unmapped_sought_at": self.unmapped_sought_at.map(|at| at.0),
            "slot": reached.as_ref().and_then(Position::slot).map(slot),
            "inserted": key["inserted"],
            "id": key["id"],
            "stuck": stuck.as_ref().map(key_to_json),
            "kept": listed(kept),
            "later": self.later.iter().map(|it| slot(*it)).collect::<Vec<_>>(),
            "ahead": ahead.as_ref().map(|(at, _)| slot(*at)),
        });
        let more =
            ahead.as_ref().map(|(at, kept)| json!({ "ahead": slot(*at), "kept": listed(kept) }));
        format!("{said}{}", more.map_or_else(String::new, |more| format!("\n{more}")))
    }

    /// What a file says that may be damaged: what cannot be read counts as not said.
    fn from_text(text: &[u8]) -> Self {
        let lines = text.split(|byte| *byte == b'\n');
        let mut lines = lines.map(|it| serde_json::from_slice::<Json>(it).unwrap_or_default());
        let json = lines.next().unwrap_or_default();
        let slot = |name: &str| {
            let (tick, phase) = Deserialize::deserialize(json.get(name)?).ok()?;
            Some(Slot { tick, phase })
        };
        let instant = |name: &str| json.get(name).and_then(Json::as_i64).map(Instant);
        let key = || key_from_json(&json).map(Position::Key);
        let ahead =
            lines.next().filter(|it| it.get("ahead").is_some_and(|at| at == &json["ahead"]));
        let ahead = ahead.and_then(|it| Some((slot("ahead")?, kept_of(&it))));
        Self {
            began_at: instant("began_at"),
            began_behind: slot("began_behind"),
            cursor: Cursor {
                reached: slot("slot").map(Position::Slot).or_else(key),
                kept: kept_of(&json),
                ahead,
                stuck: json.get("stuck").and_then(key_from_json),
            },
            later: json.get("later").and_then(slots).unwrap_or_default(),
            unmapped_sought_at: instant("unmapped_sought_at"),
        }
    }
}

fn slots(json: &Json) -> Option<Vec<Slot>> {
    let slots = Vec::<(i64, u64)>::deserialize(json).ok()?.into_iter();
    Some(slots.map(|(tick, phase)| Slot { tick, phase }).collect())
}

fn kept_of(json: &Json) -> Vec<Kept> {
    let kept = json.get("kept").and_then(Json::as_array).into_iter().flatten();
    let kept = kept.filter_map(|it| <(Json, i64, u64, u32)>::deserialize(it).ok());
    let kept = kept.filter_map(|(id, tick, phase, begun)| {
        Some(Kept { id: exact_id::from_json(&id)?, slot: Slot { tick, phase }, begun })
    });
    kept.collect()
}

fn key_to_json(key: &Key) -> Json {
    let inserted = match &key.inserted {
        Value::Null => Json::Null,
        Value::Integer(number) => json!(number),
        Value::Real(number) => json!(number),
        Value::Text(text) | Value::Json(text) => json!(text),
        Value::Bytes(bytes) => json!({ "text": bytes }),
        Value::Blob(bytes) => json!(bytes),
        Value::Boolean(truth) => json!(truth),
    };
    json!({ "inserted": inserted, "id": exact_id::to_json(&key.id) })
}

fn key_from_json(json: &Json) -> Option<Key> {
    let (inserted, id) = (json.get("inserted")?, json.get("id")?);
    let inserted = match inserted.as_str() {
        _ if inserted.is_null() => Value::Null,
        Some(text) => Value::Text(text.into()),
        None if inserted.is_array() => Value::Blob(Vec::deserialize(inserted).ok()?),
        None if inserted.is_object() => Value::of_text(&Vec::deserialize(&inserted["text"]).ok()?),
        None => inserted.as_i64().map(Value::Integer).or(inserted.as_f64().map(Value::Real))?,
    };
    Some(Key { inserted, id: exact_id::from_json(id)? })
}

/// Why there is no usual place.
const NO_HOME: &str = "neither XDG_STATE_HOME nor HOME says where";

#[cfg(test)]
mod tests {
    use super::*;
    use backlog_schedule::Id;

    /// The directory beside a database.
    fn beside(dir: &Path) -> StateDir {
        let database = dir.join("x.db");
        std::fs::write(&database, "").unwrap();
        let found = std::fs::metadata(&database).unwrap();
        StateDir::beside(dir.join("x.db.backlog"), (database, found))
    }

    #[test]
    fn a_state_reads_back_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let state = beside(dir.path());

        assert_eq!(state.line_state("line", Purpose::Read).unwrap(), LineState::default());
        let keys = [
            Value::Null,
            Value::Integer(i64::MIN),
            Value::Real(0.5),
            Value::Text("2026-11-21 '\n😀".into()),
            Value::Bytes(vec![b'a', 255]),
            Value::Blob(vec![0, 255]),
        ]
        .into_iter()
        .flat_map(|inserted| {
            let (number, text) = (Id::Integer(i64::MAX), Id::Text("it's \"7\"".into()));
            let bytes = Id::Bytes([0, 255].into());
            let composite = Id::Composite([number.clone(), text.clone(), bytes.clone()].into());
            [number, text, bytes, composite]
                .map(|id| Position::Key(Key { inserted: inserted.clone(), id }))
        });
        let slots = [Slot::end_of(i64::MIN), Slot { tick: 5_984_108, phase: 1 << 63 }];
        let kept = |id, begun| Kept { id, slot: slots[1], begun };
        let kept = vec![kept(Id::Integer(-7), 0), kept(Id::Text("a,\"b\"".into()), 2)];
        for reached in keys.chain(slots.map(Position::Slot)) {
            let written = LineState {
                began_at: Some(Instant(1_795_232_400)),
                began_behind: Some(Slot::end_of(7)),
                cursor: Cursor {
                    ahead: reached.slot().map(|slot| (slot, kept.clone())),
                    stuck: reached.key().cloned(),
                    reached: Some(reached),
                    kept: kept.clone(),
                },
                later: vec![Slot { tick: 30_000_000, phase: 7 }],
                unmapped_sought_at: Some(Instant(1_795_232_401)),
            };
            state.save_line_state("line", &written);
            assert_eq!(state.line_state("line", Purpose::Read).unwrap(), written);
        }
    }

    #[test]
    fn a_damaged_state_counts_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let state = beside(dir.path());
        state.made().unwrap();
        for damaged in [
            "",
            "{",
            "{}",
            "[]",
            r#"{"inserted":[256],"id":7}"#,
            r#"{"inserted":1,"id":1.5}"#,
            r#"{"slot":1}"#,
            r#"{"slot":[1]}"#,
            r#"{"slot":[1,-1]}"#,
        ] {
            std::fs::write(state.path().join(state.cursor_name("line")), damaged).unwrap();
            assert_eq!(
                state.line_state("line", Purpose::Read).unwrap(),
                LineState::default(),
                "{damaged}"
            );
        }
    }

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
