//! The token of each running pass, in a locked slot of a file. A slot without a lock belongs to a killed pass.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, bail};

use crate::claims;
use crate::watchdog::{Mark, boot_id, own_start};

/// Length of a note, with a line break at the end, so that people can read the file.
const LENGTH: usize = 128;
const SLOTS: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Note {
    token: String,
    boot: String,
    since: u64,
    uid: u32,
}

/// The note of this pass. Dropping it clears the slot, unless the pass panics.
#[derive(Debug)]
pub struct PassNote {
    file: File,
    slot: usize,
}

impl Note {
    fn own(token: &str) -> Result<Vec<u8>> {
        let uid = rustix::process::geteuid().as_raw();
        Ok(padded(&format!("{token} {} {} {uid}", boot_id()?, own_start()?)))
    }

    /// `None` for an empty or damaged slot.
    fn parse(slot: &[u8]) -> Option<Self> {
        let words: Vec<_> = std::str::from_utf8(slot).ok()?.split_whitespace().collect();
        let [token, boot, since, uid, ..] = words[..] else { return None };
        let (since, uid) = (since.parse().ok()?, uid.parse().ok()?);
        Some(Self { token: token.into(), boot: boot.into(), since, uid })
    }

    /// Kills the handlers that the pass has left. Returns false for the pass of another user.
    fn end(&self) -> Result<bool> {
        let me = rustix::process::geteuid().as_raw();
        if self.uid != me && me != 0 {
            return Ok(false);
        }
        // No process survives a reboot.
        if self.boot == boot_id()? {
            log::warn!(
                "a pass was killed together with its watchdog: ending the handlers it has left"
            );
            Mark::new(&self.token, self.since).kill_all()?;
        }
        Ok(true)
    }
}

impl PassNote {
    pub fn write(file: File, token: &str) -> Result<Self> {
        let note = Note::own(token)?;
        let noted = notes(&file)?;
        // All slots after the end of the file are free.
        for slot in (0..SLOTS).filter(|slot| noted.get(*slot).is_none_or(Option::is_none)) {
            if !claims::lock_at(&file, offset(slot))? {
                continue;
            }
            // Another pass may have used the slot since it was read.
            if read(&file, slot)?.is_none() {
                file.write_all_at(&note, offset(slot)).context("could not note the pass")?;
                return Ok(Self { file, slot });
            }
            claims::unlock_at(&file, offset(slot));
        }
        bail!("could not note the pass: {SLOTS} others are running")
    }
}

impl Drop for PassNote {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = self.file.write_all_at(&padded(""), offset(self.slot));
        }
    }
}

/// Ends the handlers that killed passes of this user have left, and for root those of all users.
pub fn end_orphans(file: &File) -> Result<()> {
    for (slot, noted) in notes(file)?.iter().enumerate() {
        if noted.is_none() || !claims::lock_at(file, offset(slot))? {
            continue;
        }
        // Another pass may have ended them since the slot was read.
        let ended = read(file, slot)?.map_or(Ok(false), |note| note.end());
        if matches!(ended, Ok(true)) {
            file.write_all_at(&padded(""), offset(slot))
                .context("could not clear the note of a killed pass")?;
        }
        claims::unlock_at(file, offset(slot));
        ended?;
    }
    Ok(())
}

/// The notes in the slots, up to the end of the file.
fn notes(mut file: &File) -> Result<Vec<Option<Note>>> {
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.take((LENGTH * SLOTS) as u64).read_to_end(&mut bytes))
        .context("could not read the notes of running passes")?;
    Ok(bytes.chunks(LENGTH).map(Note::parse).collect())
}

fn read(file: &File, slot: usize) -> Result<Option<Note>> {
    Ok(notes(file)?.into_iter().nth(slot).flatten())
}

fn offset(slot: usize) -> u64 {
    (slot * LENGTH) as u64
}

fn padded(text: &str) -> Vec<u8> {
    format!("{text:<width$}\n", width = LENGTH - 1).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &std::path::Path) -> File {
        File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
    }

    #[test]
    fn a_note_is_cleared_by_its_pass_or_after_a_kill() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passes");
        let first = PassNote::write(file(&path), "one").unwrap();
        let second = PassNote::write(file(&path), "two").unwrap();
        assert_eq!((first.slot, second.slot), (0, 1));
        // The handlers of running passes go on.
        end_orphans(&file(&path)).unwrap();
        let noted = |slot| read(&file(&path), slot).unwrap().map(|note| note.token);
        assert_eq!((noted(0), noted(1)), (Some("one".into()), Some("two".into())));
        drop(first);
        assert_eq!(noted(0), None);
        // A killed pass.
        let dead = Note::own("dead").unwrap();
        second.file.write_all_at(&dead, offset(0)).unwrap();
        end_orphans(&file(&path)).unwrap();
        assert_eq!((noted(0), noted(1)), (None, Some("two".into())));
    }

    #[test]
    fn the_number_of_notes_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passes");
        let passes: Vec<_> =
            (0..SLOTS).map(|_| PassNote::write(file(&path), "x").unwrap()).collect();
        let error = PassNote::write(file(&path), "one too many").unwrap_err().to_string();
        assert_eq!(error, "could not note the pass: 256 others are running");
        drop(passes);
        PassNote::write(file(&path), "one").unwrap();
    }

    #[test]
    fn a_damaged_slot_has_no_note() {
        for damaged in ["", "x", "a b c d", "a b -1 0", "\u{fffd}"] {
            assert_eq!(Note::parse(damaged.as_bytes()), None, "{damaged}");
        }
        assert_eq!(Note::parse(b"\xff\xff 1 2 3"), None);
        let note = Note::own(&"f".repeat(32)).unwrap();
        assert_eq!(note.len(), LENGTH);
        assert_eq!(Note::parse(&note).unwrap().uid, rustix::process::geteuid().as_raw());
    }
}
