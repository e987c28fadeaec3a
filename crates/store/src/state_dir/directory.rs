//! An open state directory with a checked owner and mode. Its files are opened by its descriptor and checked, too.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, Metadata};
use std::io::ErrorKind::{NotFound, PermissionDenied};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::fs::{
    Access, AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat, Timespec, Timestamps,
    accessat, chmodat, fchmod, flock, fstat, futimens, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use crate::secure_file::{
    self, Followed, GROUP_WRITE, OPEN_PATH, OTHERS_WRITE, STICKY, file_type, give, is_root,
    is_trusted,
};
use crate::system_error::reason;

const OPEN_DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const OPEN_FILE: OFlags = secure_file::OPEN.union(OFlags::NOFOLLOW);
/// Maximum length of a file that is read.
const MOST_READ: u64 = 64 * 1024;
/// Mode of a file until it gets its owner.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

pub const PASSES: &str = "passes";
pub const CLAIMS: &str = ".claims";
/// The locks of the crontab lines. Its modification time is the time of the last report about [`STATE`].
pub const LINES: &str = "lines";
/// The SQLite database of all processes. Only state_db.rs opens it: closing a second descriptor drops its locks.
pub const STATE: &str = "state.db";
pub const STATE_JOURNAL: &str = "state.db-journal";
const STATE_DAMAGED: &str = "state.db.damaged";

#[derive(Debug, Clone, Default)]
pub struct StateLocation {
    pub path: PathBuf,
    /// True if the user named the path, so that links on it are followed. False beside a database.
    pub is_named: bool,
    /// The database, if it is a file. Its writers may take claims.
    pub database: Option<(PathBuf, Metadata)>,
}

#[derive(Debug)]
pub struct Directory {
    location: StateLocation,
    descriptor: OwnedFd,
    found: Stat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Read,
    /// Read and write a file that exists.
    Write,
    Create,
}

impl Directory {
    /// Opens the directory, if it exists. Fails if users who may not write the database can create files in it.
    pub fn open(location: &StateLocation) -> Result<Option<Self>> {
        let opened = location
            .parent()
            .and_then(|(parent, name)| Ok(openat(&parent, &name, OPEN_DIRECTORY, Mode::empty())?));
        match opened {
            Ok(descriptor) => {
                let found = fstat(&descriptor)?;
                location.check(&found)?;
                Ok(Some(Self { location: location.clone(), descriptor, found }))
            }
            Err(error) if error.kind() == NotFound => Ok(None),
            Err(error) => Err(location.not_opened(&error)),
        }
    }

    /// Opens the directory, or creates it with owner and mode of the database. Its owner can always write to it.
    pub fn create(location: &StateLocation) -> Result<Self> {
        if let Some(directory) = Self::open(location)? {
            let mode = Mode::from_raw_mode(directory.found.st_mode);
            if directory.is_mine() && !mode.contains(Mode::RWXU) {
                // If this fails, opening a file reports it.
                let _ = fchmod(&directory.descriptor, mode | Mode::RWXU);
            }
            return Ok(directory);
        }
        location.require_writable()?;
        location.create().map_err(|error| location.not_opened(&error))?;
        let gone = || io::Error::other("it was removed meanwhile; try again");
        Self::open(location)?.ok_or_else(|| location.not_opened(&gone()))
    }

    fn is_mine(&self) -> bool {
        self.found.st_uid == rustix::process::geteuid().as_raw()
    }

    /// Opens a file. `None` if it does not exist and is not created.
    pub fn file(&self, name: &str, purpose: Purpose) -> Result<Option<File>> {
        let access = if purpose == Purpose::Read { OFlags::RDONLY } else { OFlags::RDWR };
        let open = || openat(&self.descriptor, name, OPEN_FILE | access, Mode::empty());
        let file = match open() {
            Err(Errno::NOENT) if purpose == Purpose::Create => match self.create_file(name) {
                // Another pass was faster.
                Err(Errno::EXIST) => open(),
                created => created,
            },
            Err(Errno::NOENT) => return Ok(None),
            file => file,
        };
        let file = file.map_err(|errno| self.not_opened(name, &errno.into()))?;
        let found = fstat(&file)?;
        self.check_file(name, &found)?;
        // Other databases with their own writers may share a directory that a user named.
        let is_mine = is_root() || found.st_uid == rustix::process::geteuid().as_raw();
        if purpose != Purpose::Read && !self.location.is_named && is_mine {
            self.restrict(name, &found)?;
        }
        Ok(Some(file.into()))
    }

    /// Returns whether [`STATE`] exists. With `create`, creates it and its journal for writers of the database.
    pub fn prepare_state(&self, create: bool) -> Result<bool> {
        let mut exists = true;
        for name in [STATE, STATE_JOURNAL] {
            match self.stat(name)? {
                Some(found) if create => self.restrict(name, &found)?,
                Some(_) => {}
                None if create => match self.create_file(name) {
                    Ok(_) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(self.not_opened(name, &errno.into())),
                },
                None => exists &= name != STATE,
            }
        }
        if exists {
            self.require_access(STATE, Access::READ_OK)?;
        }
        Ok(exists)
    }

    /// Removes permissions that the database does not grant. A shared file keeps those that all databases grant.
    fn restrict(&self, name: &str, found: &Stat) -> Result<()> {
        let (mode, most) = (found.st_mode & 0o777, self.mode_of(name));
        if mode & !most == 0 {
            return Ok(());
        }
        chmodat(&self.descriptor, name, Mode::from_raw_mode(mode & most), AtFlags::empty())
            .map_err(|errno| self.not_opened(name, &errno.into()))
    }

    pub fn rename_damaged_state(&self) -> Result<()> {
        renameat(&self.descriptor, STATE, &self.descriptor, STATE_DAMAGED)
            .map_err(|errno| self.not_opened(STATE_DAMAGED, &errno.into()))?;
        self.remove(STATE_JOURNAL)
    }

    /// Calls `act` under a lock on a file that only writers of the database can open. `None` if another process has it.
    pub fn exclusively<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        let file = self.file(LINES, Purpose::Create)?;
        let locked = |file| flock(file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if !file.as_ref().is_some_and(locked) {
            return Ok(None);
        }
        act().map(Some)
    }

    /// The metadata of a file, if it exists. Fails if backlog did not create it.
    fn stat(&self, name: &str) -> Result<Option<Stat>> {
        match statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => self.check_file(name, &found).map(|()| Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.not_opened(name, &errno.into())),
        }
    }

    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let Some(file) = self.file(name, Purpose::Read)? else { return Ok(None) };
        let length = file.metadata().map_or(0, |found| found.len().min(MOST_READ));
        // One byte more, so that the second read finds the end.
        let mut text = Vec::with_capacity(usize::try_from(length).map_or(0, |length| length + 1));
        let read = file.take(MOST_READ).read_to_end(&mut text);
        read.map_err(|error| self.not_opened(name, &error))?;
        Ok(Some(text))
    }

    /// Fails if a pass could not use the files `own`, or create files.
    pub fn check_writable(&self, own: &[String]) -> Result<()> {
        let writable = Access::WRITE_OK | Access::EXEC_OK;
        match accessat(&self.descriptor, ".", writable, AtFlags::EACCESS) {
            Err(Errno::ACCESS) if self.is_mine() => {}
            found => found.map_err(|errno| self.location.not_opened(&errno.into()))?,
        }
        own.iter().try_for_each(|name| self.file(name, Purpose::Write).map(drop))?;
        if !self.prepare_state(false)? {
            return Ok(());
        }
        self.require_access(STATE, Access::WRITE_OK)
    }

    fn require_access(&self, name: &str, access: Access) -> Result<()> {
        let allowed = accessat(&self.descriptor, name, access, AtFlags::EACCESS);
        let path = self.location.path.join(name);
        allowed.with_context(|| match statat(&self.descriptor, name, AtFlags::empty()) {
            Ok(Stat { st_uid, st_mode, .. }) => {
                let (path, mode) = (path.display(), st_mode & 0o777);
                format!("could not open {path}, which belongs to user {st_uid} with mode {mode:o}")
            }
            Err(_) => format!("could not open {}", path.display()),
        })
    }

    fn not_opened(&self, name: &str, error: &io::Error) -> anyhow::Error {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::LOOP) => self.refused(name, "it is a symbolic link"),
            // A directory or a socket.
            Some(Errno::ISDIR | Errno::NXIO) => self.refused(name, "it is not a regular file"),
            _ => not_opened(&self.location.path.join(name), error),
        }
    }

    fn refused(&self, name: &str, why: &str) -> anyhow::Error {
        let path = self.location.path.join(name);
        anyhow!("could not use {}: {why}; backlog did not create it: remove it", path.display())
    }

    fn create_file(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OPEN_FILE | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = openat(&self.descriptor, name, flags, PRIVATE)?;
        self.location.hand_over(&file, self.mode_of(name))?;
        if name.ends_with(LINES) {
            let never = Timespec { tv_sec: 0, tv_nsec: 0 };
            futimens(&file, &Timestamps { last_access: never, last_modification: never })?;
        }
        Ok(file)
    }

    /// The mode of a new file: the mode of the database, but only its writers may block passes or read tokens.
    fn mode_of(&self, name: &str) -> u32 {
        let mode = self.location.mode() & 0o666;
        let writers = mode & 0o222;
        let is_of_passes =
            [PASSES, LINES, CLAIMS, STATE, STATE_JOURNAL].iter().any(|kind| name.ends_with(kind));
        let mode = if is_of_passes { writers | writers << 1 } else { mode };
        0o600 | mode
    }

    /// Refuses all but regular files with one name and a permitted owner. Root trusts others only with --trust-owner.
    fn check_file(&self, name: &str, found: &Stat) -> Result<()> {
        let is_trusting = is_root() && self.found.st_uid.max(self.location.owner()) != 0;
        let why = if file_type(found) == FileType::Symlink {
            "it is a symbolic link".into()
        } else if file_type(found) != FileType::RegularFile {
            "it is not a regular file".into()
        } else if found.st_nlink != 1 {
            "it has another name, a hard link".into()
        } else if !(self.location.may_own(found) || is_trusting) {
            format!("it belongs to user {}", found.st_uid)
        } else {
            return Ok(());
        };
        Err(self.refused(name, &why))
    }

    pub fn rewrite(&self, name: &str, content: &[u8]) -> Result<()> {
        let hand_over = |file: &OwnedFd| self.location.hand_over(file, self.mode_of(name));
        let new = format!("{name}.new");
        let mode = PRIVATE.bits();
        secure_file::write_and_rename(
            &self.descriptor,
            new.as_ref(),
            name.as_ref(),
            mode,
            hand_over,
            content,
        )
        .map_err(|error| self.not_opened(name, &error))
    }

    pub fn remove(&self, name: &str) -> Result<()> {
        match unlinkat(&self.descriptor, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.not_opened(name, &errno.into())),
        }
    }
}

impl StateLocation {
    /// Returns whether members of a group may write the database, and whether everybody may.
    fn is_shared(&self, gid: u32) -> (bool, bool) {
        self.database.as_ref().map_or((false, false), |(_, database)| {
            let everybody = database.mode() & OTHERS_WRITE != 0;
            let members = database.mode() & GROUP_WRITE != 0 && database.gid() == gid;
            (members || everybody, everybody)
        })
    }

    fn owner(&self) -> u32 {
        let me = rustix::process::geteuid().as_raw();
        self.database.as_ref().map_or(me, |(_, database)| database.uid())
    }

    /// True for root, this user and the database's owner, and for its group or everybody if they may write it.
    fn may_own(&self, found: &Stat) -> bool {
        let uid = found.st_uid;
        is_trusted(uid) || uid == self.owner() || self.is_shared(found.st_gid).0
    }

    /// Fails if the owner is wrong, or if users who may not write the database can create files here.
    fn check(&self, found: &Stat) -> Result<()> {
        let path = self.path.display();
        ensure!(
            is_root() || self.may_own(found),
            "could not use {path}: it is a directory of user {}, and must be root's or user {}'s; \
             remove it, or name another with --state-dir",
            found.st_uid,
            self.owner()
        );
        let (group, others) = self.is_shared(found.st_gid);
        let group = group || self.database.is_none();
        let (who, mode) = match found.st_mode {
            _ if is_root() => return Ok(()),
            mode if mode & OTHERS_WRITE != 0 && !others => ("everybody", "o-w"),
            mode if mode & GROUP_WRITE != 0 && !group => ("its group", "g-w"),
            _ => return Ok(()),
        };
        // A sticky directory is shared, so chmod would be wrong.
        let hint = if found.st_mode & STICKY != 0 {
            "name a private directory with --state-dir".into()
        } else {
            format!("chmod {mode} {path}, or name another directory with --state-dir")
        };
        bail!("could not use {path}: {who} can write to it, but not to the database; {hint}");
    }

    /// Fails if this user cannot write the database: no pass would run, and a new directory would be useless.
    pub fn require_writable(&self) -> Result<()> {
        let Some((path, found)) = &self.database else { return Ok(()) };
        let (database, mode) = (path.display(), found.mode() & 0o777);
        ensure!(
            mode & 0o222 != 0,
            "could not use {database}: it is read-only, with mode {mode:o}; chmod u+w {database}"
        );
        ensure!(
            accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok(),
            "could not write to {database}: attempt to write a readonly database; the file and its \
             directory must be writable for this user"
        );
        Ok(())
    }

    fn mode(&self) -> u32 {
        self.database.as_ref().map_or(0o700, |(_, database)| database.mode())
    }

    fn not_opened(&self, error: &io::Error) -> anyhow::Error {
        let path = self.path.display();
        if !self.is_named && self.path.is_symlink() {
            return anyhow!(
                "could not use {path}: it is a symbolic link; remove it, or name a directory with \
                 --state-dir"
            );
        }
        if self.database.is_none() {
            return anyhow!("could not open {path}: {}", reason(error));
        }
        not_opened(&self.path, error)
    }

    /// The parent directory, and the name in it. Links are followed only in a path that the user named.
    fn parent(&self) -> io::Result<(OwnedFd, OsString)> {
        if self.is_named {
            let followed = Followed::for_work(&self.path)?;
            return Ok((followed.directory, followed.name));
        }
        let above = self.path.parent().unwrap_or(Path::new("/"));
        let name = self.path.file_name().unwrap_or_default().into();
        Ok((openat(CWD, above, OPEN_PATH, Mode::empty())?, name))
    }

    /// Creates the directory. Readers of the database may enter it.
    fn create(&self) -> io::Result<()> {
        let above = self.path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o755).create(above)?;
        let (parent, name) = self.parent()?;
        match mkdirat(&parent, &name, Mode::RWXU) {
            // Another pass was faster.
            Err(Errno::EXIST) => return Ok(()),
            created => created?,
        }
        let created = openat(&parent, &name, OPEN_DIRECTORY, Mode::empty())?;
        let mode = self.mode();
        Ok(self.hand_over(&created, 0o700 | mode | (mode & 0o444) >> 2)?)
    }

    /// Gives a new file or directory a mode and the database's owner and group.
    fn hand_over(&self, created: &OwnedFd, mode: u32) -> rustix::io::Result<()> {
        let database = self.database.as_ref().map(|(_, database)| database);
        let found = fstat(created)?;
        let (uid, gid) =
            database.map_or((found.st_uid, found.st_gid), |found| (found.uid(), found.gid()));
        give(created, uid, gid, mode)
    }
}

/// The error, with the owner of the path if permission is the cause.
pub fn not_opened(path: &Path, error: &io::Error) -> anyhow::Error {
    // An error of our own has a hint already.
    let is_denied = error.kind() == PermissionDenied && error.raw_os_error().is_some();
    let mut above = path.ancestors().filter(|_| is_denied);
    let found = above.find_map(|above| Some((above, std::fs::metadata(above).ok()?)));
    let hint = found.map_or_else(String::new, |(existing, found)| {
        let existing = if existing == path { "it".into() } else { existing.display().to_string() };
        format!(
            "; {existing} belongs to user {} with mode {:o}, but this process runs as user {}: run it as that user, or \
             give every line of this table the same --state-dir, because passes with different ones \
             do not see each other's claims",
            found.uid(),
            found.mode() & 0o777,
            rustix::process::geteuid().as_raw(),
        )
    });
    anyhow!("could not open {}: {}{hint}", path.display(), reason(error))
}
