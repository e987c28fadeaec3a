//! An open state directory, from which nobody gains what he could not do himself, though it often lies
//! where others may put things, and root's cron opens it. So it is opened once, without following a
//! link, and its owner and mode are looked at; its files are opened from that descriptor in the same
//! way, and are regular files of somebody who may have some there. If the database is another user's,
//! root does all of this with that user's rights.

use std::fs::{File, Metadata};
use std::io::ErrorKind::{AlreadyExists, NotFound, PermissionDenied};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use anyhow::{Result, anyhow, bail};
use rustix::fs::{
    Access, AtFlags, Dir, Gid, Mode, OFlags, Stat, Uid, accessat, fchmod, fchown, fstat, mkdirat,
    openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::LineState;
use super::place::{Place, not_opened};
use crate::secure_file::{self, Followed, GROUP_WRITE, OTHERS_WRITE, Owner};
use crate::secure_file::{acting_as, is_regular, is_root};
use crate::store::claims;

const OPEN_DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const OPEN_FILE: OFlags = secure_file::OPEN.union(OFlags::NOFOLLOW);
/// No file that is read is longer; a longer one is none of ours.
const MOST_READ: u64 = 64 * 1024;
/// How often something is tried again when others make and remove the file.
pub const TRIES: u32 = 5;

/// What is wrong with a file that also stands elsewhere.
const HARD_LINK: &str = "it has another name, a hard link";

pub const CURSOR: &str = ".cursor";
pub const HISTORY: &str = ".history";
pub const FAILURES: &str = ".failures";
pub const HUNG: &str = ".hung";
pub const UNREPORTED: &str = ".unreported";
pub const UNREAD: &str = ".unread";
pub const UNMEASURED: &str = ".unmeasured";
pub const PAUSED: &str = ".paused";
pub const PASSES: &str = "passes";
pub const CLAIMS: &str = ".claims";
/// The locks of the crontab lines: in version 0.1.0 one file for all databases of a directory.
pub const LINES: &str = "lines";

/// A state directory that is fit for use.
#[derive(Debug)]
pub struct Directory {
    place: Place,
    descriptor: OwnedFd,
    /// What tells it from all other directories of the machine.
    pub identity: String,
    /// Whether nobody but root can change what is in it.
    is_roots_alone: bool,
    /// With whose rights its files are opened and made, if not with one's own.
    acting: Option<Owner>,
}

/// The purpose that a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Read,
    /// To read and write it, if it is there.
    Write,
    /// The same; it is made where there is none.
    Make,
}

/// Seconds and nanoseconds, as the file system has them.
pub type FileTime = (i64, u64);

impl Directory {
    /// `None` if there is none. Fails if others could have put something there that does not belong.
    pub fn open(place: &Place) -> Result<Option<Self>> {
        let Some(parent) = place.parent()? else { return Ok(None) };
        match place.with_rights(&parent, |_| open(&parent)) {
            Ok(descriptor) => Self::of(place, descriptor).map(Some),
            Err(error) if error.kind() == NotFound => Ok(None),
            Err(error) => Err(place.not_opened(&error)),
        }
    }

    /// The same; makes it where there is none, with the owner and the mode of the database.
    pub fn make(place: &Place) -> Result<Self> {
        if let Some(found) = Self::open(place)? {
            return Ok(found);
        }
        let not_made = |error: io::Error| place.not_opened(&error);
        make_parents(place)?;
        let gone = || io::Error::other("the database is not there any more; try again");
        let parent = place.parent()?.ok_or_else(|| not_made(gone()))?;
        let made = place.with_rights(&parent, |uid| {
            mkdirat(&parent.directory, &parent.name, Mode::RWXU)?;
            let descriptor = open(&parent)?;
            if !is_new(&descriptor, uid)? {
                return Err(Errno::EXIST);
            }
            // The database's mode, and whoever may read may enter.
            let mode = place.database.as_ref().map_or(0o700, |database| {
                let mode = database.mode() & 0o777;
                mode | (mode & 0o444) >> 2
            });
            take_after(&descriptor, place, mode)?;
            Ok(descriptor)
        });
        match made {
            Ok(descriptor) => Self::of(place, descriptor),
            // Another pass was faster.
            Err(error) if error.kind() == AlreadyExists => {
                Self::open(place)?.ok_or_else(|| not_made(error))
            }
            Err(error) => Err(not_made(error)),
        }
    }

    fn of(place: &Place, descriptor: OwnedFd) -> Result<Self> {
        let found = fstat(&descriptor).map_err(|errno| place.not_opened(&errno.into()))?;
        place.check(&found)?;
        let is_roots = found.st_uid == 0;
        let is_roots_alone = is_roots && found.st_mode & (GROUP_WRITE | OTHERS_WRITE) == 0;
        // What only root can change, nobody else has planted anything in.
        let is_own = is_roots_alone || is_roots && place.is_named;
        let acting = place.other_owner().filter(|_| !is_own);
        let identity = format!("{}-{}", found.st_dev, found.st_ino);
        Ok(Self { place: place.clone(), descriptor, identity, is_roots_alone, acting })
    }

    /// When something was last made, renamed or removed here, if that can be told.
    pub fn modified_at(&self) -> Option<FileTime> {
        fstat(&self.descriptor).ok().map(|found| (found.st_mtime, found.st_mtime_nsec))
    }

    /// The owner of the database, who can write here besides root, if this process is root.
    pub fn other_writer(&self) -> Option<u32> {
        let owner = self.place.database.as_ref().map_or(0, Metadata::uid);
        (is_root() && !self.is_roots_alone).then_some(owner)
    }

    /// Opens a file; `None` if there is none, and none is to be made.
    pub fn file(&self, name: &str, purpose: Purpose) -> Result<Option<File>> {
        let not_opened = |error: io::Error| self.not_opened(name, &error);
        for _ in 0..TRIES {
            let error = match self.open_file(name, purpose) {
                Ok(file) => return self.check_file(name, &file).map(|()| Some(file.into())),
                Err(error) => error,
            };
            // Whoever only looks leaves it as it is.
            let may_replace = error.kind() == PermissionDenied && purpose != Purpose::Read;
            if may_replace && self.is_roots(name) {
                self.replace(name)?;
            } else if error.kind() != NotFound {
                return Err(not_opened(error));
            } else if purpose != Purpose::Make {
                return Ok(None);
            } else {
                match self.act(|| self.create(name, name)) {
                    Err(error) if error.kind() == AlreadyExists => {}
                    made => return made.map(|file| Some(file.into())).map_err(not_opened),
                }
            }
        }
        Err(not_opened(io::Error::other("another process keeps removing it")))
    }

    /// False only if there is such a file, which this user may not read.
    pub fn may_read(&self, name: &str) -> bool {
        let found =
            self.act(|| accessat(&self.descriptor, name, Access::READ_OK, AtFlags::EACCESS));
        !found.is_err_and(|error| error.kind() == PermissionDenied)
    }

    fn open_file(&self, name: &str, purpose: Purpose) -> io::Result<OwnedFd> {
        let access = if purpose == Purpose::Read { OFlags::RDONLY } else { OFlags::RDWR };
        self.act(|| openat(&self.descriptor, name, OPEN_FILE | access, Mode::empty()))
    }

    /// The beginning of a file that is opened for some purpose; nothing if there is none.
    pub fn read(&self, name: &str, purpose: Purpose) -> Result<Vec<u8>> {
        Ok(self.read_if_there(name, purpose)?.unwrap_or_default())
    }

    /// The same; `None` if there is none.
    pub fn read_if_there(&self, name: &str, purpose: Purpose) -> Result<Option<Vec<u8>>> {
        let Some(file) = self.file(name, purpose)? else { return Ok(None) };
        let mut text = Vec::new();
        let read = file.take(MOST_READ).read_to_end(&mut text);
        read.map_err(|error| self.not_opened(name, &error))?;
        Ok(Some(text))
    }

    /// Fails if a pass could not use one of the files that are its own, or make more.
    pub fn check_writable(&self, own: &[String]) -> Result<()> {
        let writable = Access::WRITE_OK | Access::EXEC_OK;
        self.act(|| accessat(&self.descriptor, ".", writable, AtFlags::EACCESS))
            .map_err(|error| self.place.not_opened(&error))?;
        // They are left as they are.
        own.iter().try_for_each(|name| match self.open_file(name, Purpose::Write) {
            Ok(file) => self.check_file(name, &file),
            Err(error) if error.kind() == NotFound => Ok(()),
            // A pass replaces it.
            Err(_) if self.is_roots(name) => Ok(()),
            Err(error) => Err(self.not_opened(name, &error)),
        })
    }

    /// Names of the files with this suffix, of all lines and databases.
    pub fn with_suffix(&self, suffix: &str) -> Result<Vec<String>> {
        let listed = self.act(|| {
            let here = openat(&self.descriptor, ".", OPEN_DIRECTORY, Mode::empty())?;
            let entries = Dir::read_from(here)?;
            entries.map(|it| Ok(it?.file_name().to_string_lossy().into())).collect()
        });
        let listed: Vec<String> = listed.map_err(|error| self.place.not_opened(&error))?;
        Ok(listed.into_iter().filter(|name| name.ends_with(suffix)).collect())
    }

    fn not_opened(&self, name: &str, error: &io::Error) -> anyhow::Error {
        let path = self.place.path.join(name);
        match (error.raw_os_error().map(Errno::from_raw_os_error), self.acting) {
            (Some(Errno::LOOP), _) => self.place.refused(name, "it is a symbolic link"),
            // A directory, or a socket.
            (Some(Errno::ISDIR | Errno::NXIO), _) => {
                self.place.refused(name, "it is no regular file")
            }
            (Some(Errno::ACCESS), Some(Owner { uid, .. })) => {
                let found = self.stat(name).ok();
                if found.as_ref().is_some_and(|found| found.st_nlink != 1) {
                    return self.place.refused(name, HARD_LINK);
                }
                let is_owners = found.is_some_and(|found| found.st_uid == uid);
                let hint = if is_owners { "chmod u+rw it" } else { "remove it" };
                anyhow!(
                    "could not open {}: root works there with the rights of user {uid}, who owns \
                     the database, and that user may not; {hint}",
                    path.display()
                )
            }
            _ => not_opened(&path, error),
        }
    }

    fn act<T>(&self, act: impl FnOnce() -> rustix::io::Result<T>) -> io::Result<T> {
        acting_as(self.acting, act)
    }

    /// Makes a file under a name, with the mode of the one that it is going to be.
    fn create(&self, name: &str, of: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OPEN_FILE | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = openat(&self.descriptor, name, flags, Mode::RUSR | Mode::WUSR)?;
        let mode = self.place.database.as_ref().map_or(0o600, Metadata::mode) & 0o666;
        let writers = mode & 0o222;
        take_after(
            &file,
            &self.place,
            match of {
                // Tokens are for those alone who may have the handlers ended that carry them.
                passes if passes.ends_with(PASSES) => 0o600 | (writers | writers << 1) & 0o660,
                // Who may read a file may take a read lock on it, which keeps passes out.
                locked if locked.ends_with(LINES) || locked.ends_with(CLAIMS) => {
                    0o600 | writers | writers << 1
                }
                _ => mode,
            },
        )?;
        Ok(file)
    }

    /// A file of somebody else's, or one that stands elsewhere as well, would be written for him.
    fn check_file(&self, name: &str, file: &OwnedFd) -> Result<()> {
        let found = fstat(file).map_err(|errno| self.not_opened(name, &errno.into()))?;
        let why = if !is_regular(&found) {
            "it is no regular file".into()
        } else if found.st_nlink != 1 {
            HARD_LINK.into()
        } else if !self.place.may_own(&found) {
            format!("it belongs to user {}", found.st_uid)
        } else {
            return Ok(());
        };
        Err(self.place.refused(name, &why))
    }

    /// Whether a file is one that root has left here before the database had its owner.
    fn is_roots(&self, name: &str) -> bool {
        self.acting.is_some() && self.stat(name).is_ok_and(|found| is_file_of_root(&found))
    }

    fn stat(&self, name: &str) -> rustix::io::Result<Stat> {
        statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Puts a file of the database's owner in the place of one of root's, unless a pass uses that.
    fn replace(&self, name: &str) -> Result<()> {
        let path = self.place.path.join(name);
        let not_replaced = |error: io::Error| not_opened(&path, &error);
        let old = self.open_roots(name).map_err(not_replaced)?;
        if !claims::lock_all(&old).map_err(not_replaced)? {
            let uid = self.acting.map_or(0, |owner| owner.uid);
            bail!(
                "could not open {path}: it belongs to root, and a pass is using it; once that has \
                 ended: chown {uid} {path}",
                path = path.display()
            );
        }
        // What root's file holds is for root to read: only a cursor goes on, as what it says.
        let mut content = Vec::new();
        if name.ends_with(CURSOR) {
            (&old).take(MOST_READ).read_to_end(&mut content).map_err(not_replaced)?;
            content = LineState::from_text(&content).to_text().into_bytes();
        }
        self.put(name, &content).map_err(not_replaced)
    }

    /// Puts a new file in the place of one, which is never there in part.
    pub fn rewrite(&self, name: &str, content: &[u8]) -> Result<()> {
        self.put(name, content).map_err(|error| self.not_opened(name, &error))
    }

    /// Removes a file, if there is one.
    pub fn remove(&self, name: &str) -> Result<()> {
        match self.act(|| unlinkat(&self.descriptor, name, AtFlags::empty())) {
            Err(error) if error.kind() != NotFound => Err(self.not_opened(name, &error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn put(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let new = format!("{name}.new");
        let file = self.act(|| {
            let _ = unlinkat(&self.descriptor, new.as_str(), AtFlags::empty());
            self.create(&new, name)
        })?;
        let written = File::from(file).write_all(content);
        let placed = written.and_then(|()| {
            self.act(|| renameat(&self.descriptor, new.as_str(), &self.descriptor, name))
        });
        placed.inspect_err(|_| {
            let _ = self.act(|| unlinkat(&self.descriptor, new.as_str(), AtFlags::empty()));
        })
    }

    /// Opens a file of root's as root. Nothing of it is opened before it is known to be one.
    fn open_roots(&self, name: &str) -> io::Result<File> {
        let found = openat(&self.descriptor, name, secure_file::LOOK, Mode::empty())?;
        if !is_file_of_root(&fstat(&found)?) {
            return Err(PermissionDenied.into());
        }
        File::options().read(true).write(true).open(secure_file::path_of(&found))
    }
}

fn open(parent: &Followed) -> rustix::io::Result<OwnedFd> {
    openat(&parent.directory, &parent.name, OPEN_DIRECTORY, Mode::empty())
}

/// Whether it is a file of root's that stands nowhere else.
fn is_file_of_root(found: &Stat) -> bool {
    is_regular(found) && found.st_uid == 0 && found.st_nlink == 1
}

/// Whether a directory is the one just made, and not one that somebody has moved into its place.
fn is_new(directory: &OwnedFd, uid: u32) -> rustix::io::Result<bool> {
    let found = fstat(directory)?;
    let is_ours = found.st_uid == uid && found.st_mode & 0o7777 & !0o2000 == Mode::RWXU.bits();
    let mut entries = Dir::read_from(directory)?;
    Ok(is_ours
        && entries.all(|it| it.is_ok_and(|it| matches!(it.file_name().to_bytes(), b"." | b".."))))
}

fn make_parents(place: &Place) -> Result<()> {
    let parent = place.path.parent().filter(|it| !it.as_os_str().is_empty() && !it.exists());
    let Some(parent) = parent else { return Ok(()) };
    let place = Place { path: parent.into(), is_named: true, database: place.database.clone() };
    make_parents(&place)?;
    let not_made = |error| place.not_opened(&error);
    let above = place.parent()?.ok_or_else(|| not_made(NotFound.into()))?;
    let mode = Mode::from_bits_retain(0o755);
    match place.with_rights(&above, |_| mkdirat(&above.directory, &above.name, mode)) {
        Err(error) if error.kind() != AlreadyExists => Err(not_made(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Gives what was just made a mode and the database's owner, if this is root, who alone can.
fn take_after(made: impl AsFd, place: &Place, mode: u32) -> rustix::io::Result<()> {
    let mut mode = mode;
    if let Some(database) = &place.database {
        let group = Gid::from_raw(database.gid());
        let owner = Some(Uid::from_raw(database.uid())).filter(|_| !place.is_named);
        if fchown(&made, owner, Some(group)).is_err() {
            let _ = fchown(&made, None, Some(group));
        }
        let is_of_its_group = fstat(&made)?.st_gid == database.gid();
        if !is_of_its_group && database.mode() & OTHERS_WRITE == 0 {
            mode &= !GROUP_WRITE;
        }
    }
    fchmod(&made, Mode::from_bits_retain(mode))
}
