//! Claims of records and locks of crontab lines: write locks on bytes of a side file, which stays empty (fcntl(2),
//! F_OFD_SETLK). A lock ends with the last descriptor of its open file description, at the latest when processes die.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::time::Duration;

use anyhow::{Result, bail};
use backlog_schedule::{Id, fnv1a64};
use nix::errno::Errno;
use nix::fcntl::FcntlArg::{F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW};
use nix::fcntl::fcntl;
use nix::libc;

use crate::error::StoreError;

pub struct Claims {
    pub file: File,
    /// Offsets of held locks, because the kernel grants one description a lock twice.
    held: HashSet<u64>,
}

impl Claims {
    pub fn new(file: File) -> Self {
        Self { file, held: HashSet::new() }
    }

    /// Claims the record, unless another process or this one holds it.
    pub fn claim(&mut self, id: &Id) -> Result<bool> {
        let offset = offset(id);
        Ok(!self.held.contains(&offset) && lock_at(&self.file, offset)? && self.held.insert(offset))
    }

    pub fn release(&mut self, id: &Id) {
        let offset = offset(id);
        if self.held.remove(&offset) {
            unlock_at(&self.file, offset);
        }
    }
}

/// The lock of one crontab line, held until this value is dropped.
pub struct LineLock {
    /// `None` if a session of a server holds the lock.
    _file: Option<File>,
}

impl LineLock {
    /// Locks the byte of the line. Returns `None` if the line has a pass and `wait` is false.
    pub fn take(file: File, offset: u64, wait: bool) -> Result<Option<Self>> {
        let is_locked =
            lock_after_killed(&file, offset)? || wait && lock_byte(&file, offset, true)?;
        Ok(is_locked.then_some(Self { _file: Some(file) }))
    }

    pub fn held_by_session() -> Self {
        Self { _file: None }
    }
}

/// Time for which a killed pass may leave its lock: a starting handler has its descriptors until its program begins.
const KILLED_WAIT: Duration = Duration::from_millis(200);
const KILLED_STEP: Duration = Duration::from_millis(4);

/// [`lock_at`], with a wait for the remains of a killed pass.
fn lock_after_killed(file: &File, offset: u64) -> Result<bool> {
    for _ in 0..KILLED_WAIT.as_millis() / KILLED_STEP.as_millis() {
        if lock_at(file, offset)? {
            return Ok(true);
        }
        std::thread::sleep(KILLED_STEP);
    }
    lock_at(file, offset)
}

/// Number of retries of a lock whose holder was gone before it could be identified.
const GONE_TRIES: u32 = 100;

/// Locks one byte. False if a pass has locked it. A read lock, maybe of a user who cannot write the file, is an error.
pub fn lock_at(file: &File, offset: u64) -> Result<bool> {
    for _ in 0..GONE_TRIES {
        if lock_byte(file, offset, false)? {
            return Ok(true);
        }
        let lock = conflicting_lock(file, offset)?;
        match i32::from(lock.l_type) {
            libc::F_WRLCK => return Ok(false),
            libc::F_RDLCK => {
                let process = if lock.l_pid > 0 {
                    format!(" (process {})", lock.l_pid)
                } else {
                    String::new()
                };
                bail!(StoreError::TryLater(format!(
                    "another program{process} holds a read lock on it, which no pass takes: find it with \
                     lslocks(8), end it and try again"
                )));
            }
            // The holder has just released it.
            _ => {}
        }
    }
    Ok(false)
}

/// True if a pass has a lock on one byte of a file. Takes no lock.
pub fn is_locked_at(file: &File, offset: u64) -> io::Result<bool> {
    Ok(i32::from(conflicting_lock(file, offset)?.l_type) == libc::F_WRLCK)
}

fn conflicting_lock(file: &File, offset: u64) -> io::Result<libc::flock> {
    let mut lock = flock(libc::F_WRLCK, offset);
    fcntl(file, F_OFD_GETLK(&mut lock))?;
    Ok(lock)
}

pub fn unlock_at(file: &File, offset: u64) {
    // A locked range can always be unlocked.
    let _ = fcntl(file, F_OFD_SETLK(&flock(libc::F_UNLCK, offset)));
}

fn lock_byte(file: &File, offset: u64, wait: bool) -> io::Result<bool> {
    let lock = flock(libc::F_WRLCK, offset);
    loop {
        match fcntl(file, if wait { F_OFD_SETLKW(&lock) } else { F_OFD_SETLK(&lock) }) {
            Ok(_) => return Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => return Ok(false),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn flock(kind: libc::c_int, offset: u64) -> libc::flock {
    #[expect(clippy::cast_possible_truncation, reason = "F_WRLCK and SEEK_SET are small constants")]
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: offset.cast_signed(),
        l_len: 1,
        l_pid: 0,
    }
}

/// The byte of a record: its id, so that the kernel merges the locks of neighbours, or a hash of a text or negative id.
fn offset(id: &Id) -> u64 {
    match id {
        Id::Integer(id) if *id >= 0 => id.cast_unsigned(),
        Id::Integer(id) => fnv1a64(&id.to_le_bytes()) >> 1,
        Id::Text(_) | Id::Bytes(_) | Id::Composite(_) => fnv1a64(id.text().as_bytes()) >> 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &std::path::Path) -> Claims {
        let file =
            File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        Claims::new(file)
    }

    #[test]
    fn a_record_is_claimed_once_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("claims");
        let (mut first, mut second) = (open(&path), open(&path));
        let ids = [0, 7, i64::MAX, -1, i64::MIN].map(Id::Integer);
        let texts = ["", "7", "it's", "\n", "😀"].map(|id| Id::Text(id.into()));
        for id in ids.iter().chain(&texts) {
            assert!(first.claim(id).unwrap(), "{id:?}");
            assert!(!first.claim(id).unwrap(), "the same process, {id:?}");
            assert!(!second.claim(id).unwrap(), "another process, {id:?}");
        }
        for id in ids.iter().chain(&texts) {
            first.release(id);
            assert!(second.claim(id).unwrap(), "{id:?}");
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    }

    #[test]
    fn the_lock_of_a_killed_pass_may_outlive_it_for_a_moment() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        let take = || LineLock::take(open(&path).file, 7, false).unwrap();
        let held = take().unwrap();
        assert!(take().is_none(), "a pass that runs");
        let dying = std::thread::spawn(move || {
            std::thread::sleep(KILLED_STEP);
            drop(held);
        });
        assert!(take().is_some());
        dying.join().unwrap();
    }

    #[test]
    fn a_read_lock_is_no_claim_and_no_pass() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("claims");
        let mut claims = open(&path);
        let reader = File::open(&path).unwrap();
        let lock = flock(libc::F_RDLCK, 7);
        fcntl(&reader, F_OFD_SETLK(&lock)).unwrap();
        for error in [
            claims.claim(&Id::Integer(7)).map(drop).unwrap_err(),
            LineLock::take(open(&path).file, 7, false).map(drop).unwrap_err(),
            LineLock::take(open(&path).file, 7, true).map(drop).unwrap_err(),
        ] {
            assert!(error.to_string().contains("holds a read lock on it"), "{error}");
            assert!(StoreError::is_try_later(&error));
        }
        assert!(!is_locked_at(&claims.file, 7).unwrap());
        drop(reader);
        assert!(claims.claim(&Id::Integer(7)).unwrap());
    }

    #[test]
    fn a_claim_ends_with_its_holder_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("claims");
        let (mut first, mut second) = (open(&path), open(&path));
        assert!(first.claim(&Id::Integer(7)).unwrap());
        let duplicate = first.file.try_clone().unwrap();
        drop(first);
        assert!(!second.claim(&Id::Integer(7)).unwrap(), "a duplicate of the descriptor lives");
        drop(duplicate);
        assert!(second.claim(&Id::Integer(7)).unwrap());
    }
}
