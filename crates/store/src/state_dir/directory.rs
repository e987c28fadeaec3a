//! An open state directory, whose owner and mode were checked. Its files are opened relative to its
//! descriptor, and must be regular files of a permitted owner.

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
    self, Followed, GROUP_WRITE, OPEN_PATH, OTHERS_WRITE, STICKY, give, is_own, is_root, kind,
};
use crate::system_error::reason;

const OPEN_DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const OPEN_FILE: OFlags = secure_file::OPEN.union(OFlags::NOFOLLOW);
/// No file that is read is longer; a longer one is none of ours.
const MOST_READ: u64 = 64 * 1024;
/// The mode of a file until it is handed over.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

pub const PASSES: &str = "passes";
pub const CLAIMS: &str = ".claims";
/// The locks of the crontab lines. Its modification time is the time of the last message about [`STATE`].
pub const LINES: &str = "lines";
/// The SQLite database that passes share. Nothing else may open it (state_db.rs says why).
pub const STATE: &str = "state.db";
pub const STATE_JOURNAL: &str = "state.db-journal";
const STATE_DAMAGED: &str = "state.db.damaged";

/// The path of a state directory, and the database that it is for.
#[derive(Debug, Clone, Default)]
pub struct StateLocation {
    pub path: PathBuf,
    /// Whether links on the path are followed: unless it is beside a database.
    pub is_named: bool,
    /// The database, if it is a file: who may write that may take claims.
    pub database: Option<(PathBuf, Metadata)>,
}

/// A state directory that is fit for use.
#[derive(Debug)]
pub struct Directory {
    place: StateLocation,
    descriptor: OwnedFd,
    found: Stat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Read,
    /// To read and write it, if it is there.
    Write,
    /// The same; it is made where there is none.
    Make,
}

impl Directory {
    /// `None` if there is none. Fails if others could have put something there that does not belong.
    pub fn open(place: &StateLocation) -> Result<Option<Self>> {
        let opened = place
            .parent()
            .and_then(|(parent, name)| Ok(openat(&parent, &name, OPEN_DIRECTORY, Mode::empty())?));
        match opened {
            Ok(descriptor) => {
                let found = fstat(&descriptor)?;
                place.check(&found)?;
                Ok(Some(Self { place: place.clone(), descriptor, found }))
            }
            Err(error) if error.kind() == NotFound => Ok(None),
            Err(error) => Err(place.not_opened(&error)),
        }
    }

    /// The same; makes it with the owner and the mode of the database. Its owner may always write to it.
    pub fn make(place: &StateLocation) -> Result<Self> {
        if let Some(directory) = Self::open(place)? {
            let mode = Mode::from_raw_mode(directory.found.st_mode);
            if directory.is_mine() && !mode.contains(Mode::RWXU) {
                // What then cannot be opened says why.
                let _ = fchmod(&directory.descriptor, mode | Mode::RWXU);
            }
            return Ok(directory);
        }
        place.require_writable()?;
        place.make().map_err(|error| place.not_opened(&error))?;
        let gone = || io::Error::other("it is not there any more; try again");
        Self::open(place)?.ok_or_else(|| place.not_opened(&gone()))
    }

    fn is_mine(&self) -> bool {
        self.found.st_uid == rustix::process::geteuid().as_raw()
    }

    /// Opens a file; `None` if there is none, and none is to be made.
    pub fn file(&self, name: &str, purpose: Purpose) -> Result<Option<File>> {
        let access = if purpose == Purpose::Read { OFlags::RDONLY } else { OFlags::RDWR };
        let open = || openat(&self.descriptor, name, OPEN_FILE | access, Mode::empty());
        let file = match open() {
            Err(Errno::NOENT) if purpose == Purpose::Make => match self.create(name) {
                // Another pass was faster.
                Err(Errno::EXIST) => open(),
                made => made,
            },
            Err(Errno::NOENT) => return Ok(None),
            file => file,
        };
        let file = file.map_err(|errno| self.not_opened(name, &errno.into()))?;
        self.check_file(name, &fstat(&file)?)?;
        Ok(Some(file.into()))
    }

    /// Whether [`STATE`] exists. With `is_made`, creates it and its journal for writers of the database.
    pub fn find_state(&self, is_made: bool) -> Result<bool> {
        let mut exists = true;
        for name in [STATE, STATE_JOURNAL] {
            match self.look(name)? {
                Some(found) if is_made => self.restrict(name, &found)?,
                Some(_) => {}
                None if is_made => match self.create(name) {
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

    /// Several databases may share the directory: the file takes the permissions that all of them have.
    fn restrict(&self, name: &str, found: &Stat) -> Result<()> {
        let (mode, most) = (found.st_mode & 0o777, self.mode_of(name));
        if mode & !most == 0 {
            return Ok(());
        }
        chmodat(&self.descriptor, name, Mode::from_raw_mode(mode & most), AtFlags::empty())
            .map_err(|errno| self.not_opened(name, &errno.into()))
    }

    pub fn set_state_aside(&self) -> Result<()> {
        renameat(&self.descriptor, STATE, &self.descriptor, STATE_DAMAGED)
            .map_err(|errno| self.not_opened(STATE_DAMAGED, &errno.into()))?;
        self.remove(STATE_JOURNAL)
    }

    /// Calls `act` unless another process does so at the same time.
    pub fn alone<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        if flock(&self.descriptor, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(None);
        }
        let done = act();
        let _ = flock(&self.descriptor, FlockOperation::Unlock);
        done.map(Some)
    }

    /// A file that exists. Fails if backlog did not create it.
    fn look(&self, name: &str) -> Result<Option<Stat>> {
        match statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => self.check_file(name, &found).map(|()| Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.not_opened(name, &errno.into())),
        }
    }

    /// The beginning of a file; `None` if there is none.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let Some(file) = self.file(name, Purpose::Read)? else { return Ok(None) };
        let length = file.metadata().map_or(0, |found| found.len().min(MOST_READ));
        // One byte more, so that the end is found by the second read.
        let mut text = Vec::with_capacity(usize::try_from(length).map_or(0, |length| length + 1));
        let read = file.take(MOST_READ).read_to_end(&mut text);
        read.map_err(|error| self.not_opened(name, &error))?;
        Ok(Some(text))
    }

    /// Fails if a pass could not use its files, or make more.
    pub fn check_writable(&self, own: &[String]) -> Result<()> {
        let writable = Access::WRITE_OK | Access::EXEC_OK;
        match accessat(&self.descriptor, ".", writable, AtFlags::EACCESS) {
            Err(Errno::ACCESS) if self.is_mine() => {}
            found => found.map_err(|errno| self.place.not_opened(&errno.into()))?,
        }
        own.iter().try_for_each(|name| self.file(name, Purpose::Write).map(drop))?;
        if !self.find_state(false)? {
            return Ok(());
        }
        self.require_access(STATE, Access::WRITE_OK)
    }

    fn require_access(&self, name: &str, access: Access) -> Result<()> {
        let allowed = accessat(&self.descriptor, name, access, AtFlags::EACCESS);
        let path = self.place.path.join(name);
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
            // A directory, or a socket.
            Some(Errno::ISDIR | Errno::NXIO) => self.refused(name, "it is no regular file"),
            _ => not_opened(&self.place.path.join(name), error),
        }
    }

    /// The error for a file that backlog did not create.
    fn refused(&self, name: &str, why: &str) -> anyhow::Error {
        let path = self.place.path.join(name);
        anyhow!("could not use {}: {why}; backlog did not create it: remove it", path.display())
    }

    fn create(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OPEN_FILE | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = openat(&self.descriptor, name, flags, PRIVATE)?;
        self.place.hand_over(&file, self.mode_of(name))?;
        if name.ends_with(LINES) {
            let never = Timespec { tv_sec: 0, tv_nsec: 0 };
            futimens(&file, &Timestamps { last_access: never, last_modification: never })?;
        }
        Ok(file)
    }

    /// The mode of a new file is the database's. Only its writers may lock passes out or read tokens.
    fn mode_of(&self, name: &str) -> u32 {
        let mode = self.place.mode() & 0o666;
        let writers = mode & 0o222;
        let is_of_passes =
            [PASSES, LINES, CLAIMS, STATE, STATE_JOURNAL].iter().any(|kind| name.ends_with(kind));
        let mode = if is_of_passes { writers | writers << 1 } else { mode };
        0o600 | mode
    }

    /// Refuses a file of another user, and a hard link. Root trusts other owners with --trust-owner only.
    fn check_file(&self, name: &str, found: &Stat) -> Result<()> {
        let is_trusting = is_root() && self.found.st_uid.max(self.place.owner()) != 0;
        let why = if kind(found) == FileType::Symlink {
            "it is a symbolic link".into()
        } else if kind(found) != FileType::RegularFile {
            "it is no regular file".into()
        } else if found.st_nlink != 1 {
            "it has another name, a hard link".into()
        } else if !(self.place.may_own(found) || is_trusting) {
            format!("it belongs to user {}", found.st_uid)
        } else {
            return Ok(());
        };
        Err(self.refused(name, &why))
    }

    pub fn rewrite(&self, name: &str, content: &[u8]) -> Result<()> {
        let hand_over = |file: &OwnedFd| self.place.hand_over(file, self.mode_of(name));
        let new = format!("{name}.new");
        let mode = PRIVATE.bits();
        secure_file::put(&self.descriptor, new.as_ref(), name.as_ref(), mode, hand_over, content)
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
    /// Whether members of a group may write the database, and whether everybody may.
    fn is_shared(&self, gid: u32) -> (bool, bool) {
        self.database.as_ref().map_or((false, false), |(_, database)| {
            let everybody = database.mode() & OTHERS_WRITE != 0;
            let members = database.mode() & GROUP_WRITE != 0 && database.gid() == gid;
            (members || everybody, everybody)
        })
    }

    /// The user whose database it is for.
    fn owner(&self) -> u32 {
        let me = rustix::process::geteuid().as_raw();
        self.database.as_ref().map_or(me, |(_, database)| database.uid())
    }

    /// Whether its owner may write the database anyway: root, this user, the database's owner, or its group.
    fn may_own(&self, found: &Stat) -> bool {
        let uid = found.st_uid;
        is_own(uid) || uid == self.owner() || self.is_shared(found.st_gid).0
    }

    /// Fails if the owner is wrong, or if others than the writers of the database can create files here.
    fn check(&self, found: &Stat) -> Result<()> {
        let shown = self.path.display();
        ensure!(
            is_root() || self.may_own(found),
            "could not use {shown}: it is a directory of user {}, and must be root's or user {}'s; \
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
        // A sticky directory is shared: do not advise chmod.
        let hint = if found.st_mode & STICKY != 0 {
            "name a directory of its own with --state-dir".into()
        } else {
            format!("chmod {mode} {shown}, or name another directory with --state-dir")
        };
        bail!("could not use {shown}: {who} can write to it, but not to the database; {hint}");
    }

    /// Fails if this user cannot write the database: no pass would run, and a new directory would be useless.
    pub fn require_writable(&self) -> Result<()> {
        let Some((path, found)) = &self.database else { return Ok(()) };
        let (shown, mode) = (path.display(), found.mode() & 0o777);
        ensure!(
            mode & 0o222 != 0,
            "could not use {shown}: it is read-only, with mode {mode:o}; chmod u+w {shown}"
        );
        ensure!(
            accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok(),
            "could not write to {shown}: attempt to write a readonly database; the file and its \
             directory must be writable for this user"
        );
        Ok(())
    }

    /// The mode of the database; with a server 0700.
    fn mode(&self) -> u32 {
        self.database.as_ref().map_or(0o700, |(_, database)| database.mode())
    }

    fn not_opened(&self, error: &io::Error) -> anyhow::Error {
        let shown = self.path.display();
        if !self.is_named && self.path.is_symlink() {
            return anyhow!(
                "could not use {shown}: it is a symbolic link; remove it, or name a directory with \
                 --state-dir"
            );
        }
        if self.database.is_none() {
            return anyhow!("could not open {shown}: {}", reason(error));
        }
        not_opened(&self.path, error)
    }

    /// The parent directory, and the name in it. Links are followed only in a path that the user gave.
    fn parent(&self) -> io::Result<(OwnedFd, OsString)> {
        if self.is_named {
            let followed = Followed::for_work(&self.path)?;
            return Ok((followed.directory, followed.name));
        }
        let above = self.path.parent().unwrap_or(Path::new("/"));
        let name = self.path.file_name().unwrap_or_default().into();
        Ok((openat(CWD, above, OPEN_PATH, Mode::empty())?, name))
    }

    /// Makes the directory. Readers of the database may enter it.
    fn make(&self) -> io::Result<()> {
        let above = self.path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o755).create(above)?;
        let (parent, name) = self.parent()?;
        match mkdirat(&parent, &name, Mode::RWXU) {
            // Another pass was faster.
            Err(Errno::EXIST) => return Ok(()),
            made => made?,
        }
        let made = openat(&parent, &name, OPEN_DIRECTORY, Mode::empty())?;
        let mode = self.mode();
        Ok(self.hand_over(&made, 0o700 | mode | (mode & 0o444) >> 2)?)
    }

    /// Gives what was just made a mode and the database's owner and group.
    fn hand_over(&self, made: &OwnedFd, mode: u32) -> rustix::io::Result<()> {
        let database = self.database.as_ref().map(|(_, database)| database);
        let found = fstat(made)?;
        let (uid, gid) =
            database.map_or((found.st_uid, found.st_gid), |found| (found.uid(), found.gid()));
        give(made, uid, gid, mode)
    }
}

/// The error, with the owner of the place if permission is the cause.
pub fn not_opened(path: &Path, error: &io::Error) -> anyhow::Error {
    // An error of our own says what to do.
    let is_denied = error.kind() == PermissionDenied && error.raw_os_error().is_some();
    let mut above = path.ancestors().filter(|_| is_denied);
    let found = above.find_map(|place| Some((place, std::fs::metadata(place).ok()?)));
    let hint = found.map_or_else(String::new, |(place, found)| {
        let place = if place == path { "it".into() } else { place.display().to_string() };
        format!(
            "; {place} belongs to user {} with mode {:o}, this is user {}: run as that user, or \
             give every line of this table the same --state-dir, because passes with different ones \
             do not see each other's claims",
            found.uid(),
            found.mode() & 0o777,
            rustix::process::geteuid().as_raw(),
        )
    });
    anyhow!("could not open {}: {}{hint}", path.display(), reason(error))
}
