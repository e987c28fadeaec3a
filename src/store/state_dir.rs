//! The state directory: the claims files, the locks of the crontab lines and the cursors.
//! Nothing in it that a person would miss.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use rustix::fs::{Access, access};
use serde::Deserialize;

use super::claims::LineLock;
use crate::hash::fnv1a64;
use crate::instant::Instant;
use crate::record::{Id, Key, Value};
use crate::selection::{Reached, Slot};

/// What is remembered of a line takes a multiple of this many bytes.
const STATE_LENGTH: usize = 256;

#[derive(Clone)]
pub struct StateDir {
    path: PathBuf,
    /// What new files take after: the database, if it is a file, so that whoever may write
    /// that may take claims.
    model: Option<Metadata>,
    /// What tells this database's files from those of others in the same directory.
    scope: String,
}

/// What is remembered of a crontab line from one pass to the next.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LineState {
    /// When the last pass began.
    pub began_at: Option<Instant>,
    /// Behind which slot it began, if it went by slots.
    pub began_behind: Option<Slot>,
    pub reached: Option<Reached>,
}

impl StateDir {
    /// A directory of the user's choice, which several databases may share. Nothing is made
    /// before the first file is needed. `model` is the metadata of the database.
    pub fn shared(path: PathBuf, model: Metadata) -> Self {
        let scope = format!("{}-{} ", model.dev(), model.ino());
        Self { path, model: Some(model), scope }
    }

    /// A directory of this user's, for databases that are no files; `identity` tells one of them
    /// from others.
    pub fn own(path: PathBuf, identity: &str) -> Self {
        Self { path, model: None, scope: format!("{identity} ") }
    }

    /// The directory beside a database, which is its own.
    pub fn beside(path: PathBuf, model: Metadata) -> Self {
        Self { path, model: Some(model), scope: String::new() }
    }

    /// Whether claims are a server's business, and only the rest is kept here.
    pub fn is_of_a_server(&self) -> bool {
        self.model.is_none()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fails if this user cannot write into the directory, or make it.
    pub fn check_writable(&self) -> Result<()> {
        let place = self.path.ancestors().find(|place| place.exists()).unwrap_or(Path::new("/"));
        let wanted = Access::WRITE_OK | Access::EXEC_OK;
        access(place, wanted).map_err(|error| not_opened(&self.path, &error.into()))?;
        let files = fs::read_dir(&self.path).into_iter().flatten().flatten();
        for file in files.map(|file| file.path()) {
            access(&file, Access::READ_OK | Access::WRITE_OK)
                .map_err(|error| not_opened(&file, &error.into()))?;
        }
        Ok(())
    }

    /// The file whose bytes are the claims on the records of `table`.
    pub fn claims_file(&self, table: &str) -> Result<File> {
        self.file(&format!("{}.claims", self.file_name(table)))
    }

    /// The lock of a crontab line; see [`LineLock::take`].
    pub fn lock_line(&self, line: &str, wait: bool) -> Result<Option<LineLock>> {
        let file = self.file("lines")?;
        LineLock::take(file, &format!("{}{line}", self.scope), wait)
            .with_context(|| format!("could not lock {}", self.path.join("lines").display()))
    }

    /// What the last pass of a line left; nothing if there was none.
    pub fn line_state(&self, line: &str) -> LineState {
        let text = fs::read(self.path.join(self.cursor_name(line))).unwrap_or_default();
        let json = serde_json::from_slice(&text).unwrap_or_default();
        state_from_json(&json)
    }

    /// Notes where a pass came to. Without it the next pass begins at the head again, which is
    /// no loss of records, so a failure is only a warning.
    pub fn save_line_state(&self, line: &str, state: &LineState) {
        // One write over what was there, which no kill can cut in two. Padded, so that
        // nothing of a longer one is left behind.
        let mut json = state_to_json(state).to_string();
        let length = json.len().next_multiple_of(STATE_LENGTH);
        json.extend(std::iter::repeat_n(' ', length - json.len()));
        let name = self.cursor_name(line);
        let saved = self.file(&name).and_then(|file| {
            file.write_all_at(json.as_bytes(), 0)?;
            if file.metadata()?.len() != length as u64 {
                file.set_len(length as u64)?;
            }
            Ok(())
        });
        if let Err(error) = saved {
            log::warn!("could not write the cursor {}: {error:#}", self.path.join(name).display());
        }
    }

    /// A file name that a person recognises and that no two names share.
    fn file_name(&self, name: &str) -> String {
        let readable: String = name
            .chars()
            .take(40)
            .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' })
            .collect();
        let hash = fnv1a64(format!("{}{name}", self.scope).as_bytes());
        format!("{readable}-{:08x}", hash >> 32)
    }

    fn cursor_name(&self, line: &str) -> String {
        format!("{}.cursor", self.file_name(line))
    }

    /// Makes the directory, with the owner of the database and its mode.
    fn make(&self) -> Result<()> {
        if self.path.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(&self.path).map_err(|error| not_opened(&self.path, &error))?;
        let mode = self.model.as_ref().map_or(0o700, dir_mode);
        self.take_after(&self.path, mode);
        Ok(())
    }

    fn file(&self, name: &str) -> Result<File> {
        let path = self.path.join(name);
        let mut options = File::options();
        options.read(true).write(true).mode(0o600);
        match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make()?;
                let file = options.create(true).truncate(false).open(&path);
                let file = file.map_err(|error| not_opened(&path, &error))?;
                let mode = self.model.as_ref().map_or(0o600, |model| model.mode() & 0o777);
                self.take_after(&path, mode);
                Ok(file)
            }
            opened => opened.map_err(|error| not_opened(&path, &error)),
        }
    }

    /// Gives a new file the model's owner and the mode. Only root can give a file away; for
    /// anybody else the file is their own, and that is right.
    fn take_after(&self, path: &Path, mode: u32) {
        if let Some(model) = &self.model {
            let _ = std::os::unix::fs::chown(path, Some(model.uid()), Some(model.gid()));
        }
        if let Err(error) = fs::set_permissions(path, fs::Permissions::from_mode(mode)) {
            log::warn!("could not set the mode of {}: {error}", path.display());
        }
    }
}

/// The model's mode, and whoever may read may enter.
fn dir_mode(model: &Metadata) -> u32 {
    let mode = model.mode() & 0o777;
    mode | (mode & 0o444) >> 2
}

/// What could not be done, and whose the place is, if that is why.
fn not_opened(path: &Path, error: &io::Error) -> anyhow::Error {
    let denied = [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem]
        .contains(&error.kind());
    let hint = if denied { whose(path) } else { None };
    anyhow!("could not open the claims {}: {error}{}", path.display(), hint.unwrap_or_default())
}

fn whose(path: &Path) -> Option<String> {
    let (place, found) =
        path.ancestors().find_map(|place| Some((place, fs::metadata(place).ok()?)))?;
    let place = if place == path { "it".into() } else { place.display().to_string() };
    Some(format!(
        "; {place} belongs to user {} with mode {:o}, this is user {}: run as that user, or give \
         every line of this table the same --state-dir, because passes with different ones do not \
         see each other's claims",
        found.uid(),
        found.mode() & 0o777,
        rustix::process::geteuid().as_raw(),
    ))
}

fn state_to_json(state: &LineState) -> serde_json::Value {
    let mut json = serde_json::json!({ "began_at": state.began_at.map(|at| at.0) });
    if let Some(slot) = state.began_behind {
        json["began_behind"] = slot_to_json(slot);
    }
    match &state.reached {
        None => {}
        Some(Reached::Slot(slot)) => json["slot"] = slot_to_json(*slot),
        Some(Reached::Key(key)) => {
            json["inserted"] = match &key.inserted {
                Value::Null => serde_json::Value::Null,
                Value::Integer(number) => (*number).into(),
                Value::Real(number) => (*number).into(),
                Value::Text(text) => text.as_str().into(),
                Value::Blob(bytes) => bytes.as_slice().into(),
                Value::Boolean(truth) => (*truth).into(),
                Value::Json(json) => json.as_str().into(),
            };
            json["id"] = serde_json::json!(key.id);
        }
    }
    json
}

fn state_from_json(json: &serde_json::Value) -> LineState {
    let slot = |name: &str| json.get(name).and_then(slot_from_json);
    LineState {
        began_at: json.get("began_at").and_then(serde_json::Value::as_i64).map(Instant),
        began_behind: slot("began_behind"),
        reached: slot("slot").map(Reached::Slot).or_else(|| key_from_json(json).map(Reached::Key)),
    }
}

fn slot_to_json(slot: Slot) -> serde_json::Value {
    serde_json::json!([slot.tick, slot.phase])
}

fn slot_from_json(json: &serde_json::Value) -> Option<Slot> {
    Some(Slot { tick: json.get(0)?.as_i64()?, phase: json.get(1)?.as_u64()? })
}

fn key_from_json(json: &serde_json::Value) -> Option<Key> {
    let (inserted, id) = (json.get("inserted")?, json.get("id")?);
    let inserted = match inserted.as_str() {
        _ if inserted.is_null() => Value::Null,
        Some(text) => Value::Text(text.into()),
        None if inserted.is_array() => Value::Blob(Vec::deserialize(inserted).ok()?),
        None => inserted.as_i64().map(Value::Integer).or(inserted.as_f64().map(Value::Real))?,
    };
    Some(Key { inserted, id: Id::deserialize(id).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_reads_back_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let model = fs::metadata(dir.path()).unwrap();
        let state = StateDir::beside(dir.path().join("state"), model);
        state.make().unwrap();
        assert_eq!(state.line_state("line"), LineState::default());
        let keys = [
            Value::Null,
            Value::Integer(i64::MIN),
            Value::Real(0.5),
            Value::Text("2026-11-21 '\n😀".into()),
            Value::Blob(vec![0, 255]),
        ]
        .into_iter()
        .flat_map(|inserted| {
            let (number, text) = (Id::Integer(i64::MAX), Id::Text("it's \"7\"".into()));
            [number.clone(), text.clone(), Id::Composite([number, text].into())]
                .map(|id| Reached::Key(Key { inserted: inserted.clone(), id }))
        });
        let slots = [Slot::end_of(i64::MIN), Slot { tick: 5_984_108, phase: 1 << 63 }];
        for reached in keys.chain(slots.map(Reached::Slot)) {
            let written = LineState {
                began_at: Some(Instant(1_795_232_400)),
                began_behind: Some(Slot::end_of(7)),
                reached: Some(reached),
            };
            state.save_line_state("line", &written);
            assert_eq!(state.line_state("line"), written);
        }
    }

    #[test]
    fn a_damaged_state_counts_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let model = fs::metadata(dir.path()).unwrap();
        let state = StateDir::beside(dir.path().into(), model);
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
            fs::write(dir.path().join(state.cursor_name("line")), damaged).unwrap();
            assert_eq!(state.line_state("line"), LineState::default(), "{damaged}");
        }
    }

    #[test]
    fn names_that_look_alike_have_files_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let model = || fs::metadata(dir.path()).unwrap();
        let state = StateDir::beside(dir.path().into(), model());
        assert_ne!(state.file_name("a/b"), state.file_name("a-b"));
        assert!(!state.file_name("../../etc").contains(['/', '.']));
        let other = StateDir::shared(dir.path().into(), model());
        assert_ne!(state.file_name("a"), other.file_name("a"));
    }
}
