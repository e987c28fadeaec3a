//! An open state directory. It is opened once, without following a link, and its owner and mode are
//! checked. Its files are opened from that descriptor in the same way: regular files of somebody who may
//! have some there. What root works on is checked before that (`ownership.rs`).

use std::fs::{File, Metadata};
use std::io::ErrorKind::{NotFound, PermissionDenied};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail, ensure};
use rustix::fs::{
    Access, AtFlags, CWD, Dir, Gid, Mode, OFlags, Stat, Uid, accessat, fchmod, fchown, fstat,
    mkdirat, openat, renameat, unlinkat,
};
use rustix::io::Errno;

use crate::secure_file::{self, Followed, GROUP_WRITE, OTHERS_WRITE, is_own, is_regular, is_root};
use crate::system_error::words;

const OPEN_DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const OPEN_FILE: OFlags = secure_file::OPEN.union(OFlags::NOFOLLOW);
/// No file that is read is longer; a longer one is none of ours.
const MOST_READ: u64 = 64 * 1024;
/// How often something is tried again when others make and remove the file.
pub const TRIES: u32 = 5;

pub const PASSES: &str = "passes";
pub const CLAIMS: &str = ".claims";
/// The locks of the crontab lines.
pub const LINES: &str = "lines";

/// The path of a state directory, and the database that it is for.
#[derive(Debug, Clone)]
pub struct Place {
    pub path: PathBuf,
    /// Whether the user has named it, or its name follows from that of the database.
    pub is_named: bool,
    /// The database, if it is a file: who may write that may take claims.
    pub database: Option<(PathBuf, Metadata)>,
}

/// A state directory that is fit for use.
#[derive(Debug)]
pub struct Directory {
    place: Place,
    descriptor: OwnedFd,
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
        match openat(&parent.directory, &parent.name, OPEN_DIRECTORY, Mode::empty()) {
            Ok(descriptor) => {
                place.check(&fstat(&descriptor)?)?;
                Ok(Some(Self { place: place.clone(), descriptor }))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(place.not_opened(&errno.into())),
        }
    }

    /// The same; makes it where there is none, with the owner and the mode of the database.
    pub fn make(place: &Place) -> Result<Self> {
        if let Some(found) = Self::open(place)? {
            return Ok(found);
        }
        place.require_writable()?;
        let not_made = |error: io::Error| place.not_opened(&error);
        make_parents(&place.path).map_err(not_made)?;
        let gone = || not_made(io::Error::other("it is not there any more; try again"));
        let parent = place.parent()?.ok_or_else(gone)?;
        match mkdirat(&parent.directory, &parent.name, Mode::RWXU) {
            Ok(()) => {
                let made = Self::open(place)?.ok_or_else(gone)?;
                // The database's mode, and whoever may read may enter.
                let mode = place.mode() & 0o777;
                let mode = 0o700 | mode | (mode & 0o444) >> 2;
                place.hand_over(&made.descriptor, mode).map_err(|errno| not_made(errno.into()))?;
                Ok(made)
            }
            // Another pass was faster.
            Err(Errno::EXIST) => Self::open(place)?.ok_or_else(gone),
            Err(errno) => Err(not_made(errno.into())),
        }
    }

    /// When something was last made, renamed or removed here, if that can be told.
    pub fn modified_at(&self) -> Option<FileTime> {
        fstat(&self.descriptor).ok().map(|found| (found.st_mtime, found.st_mtime_nsec))
    }

    /// Opens a file; `None` if there is none, and none is to be made.
    pub fn file(&self, name: &str, purpose: Purpose) -> Result<Option<File>> {
        let not_opened = |errno: Errno| self.not_opened(name, &errno.into());
        for _ in 0..TRIES {
            match self.open_file(name, purpose) {
                Ok(file) => return self.check_file(name, &file).map(|()| Some(file.into())),
                Err(Errno::NOENT) if purpose == Purpose::Make => {}
                Err(Errno::NOENT) => return Ok(None),
                Err(errno) => return Err(not_opened(errno)),
            }
            match self.create(name, name) {
                Err(Errno::EXIST) => {}
                made => return made.map(|file| Some(file.into())).map_err(not_opened),
            }
        }
        Err(self.not_opened(name, &io::Error::other("another process keeps removing it")))
    }

    /// False only if there is such a file, which this user may not read.
    pub fn may_read(&self, name: &str) -> bool {
        let found = accessat(&self.descriptor, name, Access::READ_OK, AtFlags::EACCESS);
        found != Err(Errno::ACCESS)
    }

    fn open_file(&self, name: &str, purpose: Purpose) -> rustix::io::Result<OwnedFd> {
        let access = if purpose == Purpose::Read { OFlags::RDONLY } else { OFlags::RDWR };
        openat(&self.descriptor, name, OPEN_FILE | access, Mode::empty())
    }

    /// The beginning of a file that is opened for some purpose; `None` if there is none.
    pub fn read(&self, name: &str, purpose: Purpose) -> Result<Option<Vec<u8>>> {
        let Some(file) = self.file(name, purpose)? else { return Ok(None) };
        let mut text = Vec::new();
        let read = file.take(MOST_READ).read_to_end(&mut text);
        read.map_err(|error| self.not_opened(name, &error))?;
        Ok(Some(text))
    }

    /// Fails if a pass could not use one of the files that are its own, or make more.
    pub fn check_writable(&self, own: &[String]) -> Result<()> {
        let writable = Access::WRITE_OK | Access::EXEC_OK;
        accessat(&self.descriptor, ".", writable, AtFlags::EACCESS)
            .map_err(|errno| self.place.not_opened(&errno.into()))?;
        own.iter().try_for_each(|name| self.file(name, Purpose::Write).map(drop))
    }

    /// Names of the files with this suffix, of all lines and databases.
    pub fn with_suffix(&self, suffix: &str) -> Result<Vec<String>> {
        let listed = || -> rustix::io::Result<Vec<String>> {
            let entries = Dir::read_from(&self.descriptor)?;
            entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into())).collect()
        };
        let listed = listed().map_err(|errno| self.place.not_opened(&errno.into()))?;
        let is_meant = |name: &String| name.ends_with(suffix) && ![".", ".."].contains(&&**name);
        Ok(listed.into_iter().filter(is_meant).collect())
    }

    fn not_opened(&self, name: &str, error: &io::Error) -> anyhow::Error {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::LOOP) => self.refused(name, "it is a symbolic link"),
            // A directory, or a socket.
            Some(Errno::ISDIR | Errno::NXIO) => self.refused(name, "it is no regular file"),
            _ => not_opened(&self.place.path.join(name), error),
        }
    }

    /// What is wrong with a file here that no pass has made.
    fn refused(&self, name: &str, why: &str) -> anyhow::Error {
        let path = self.place.path.join(name);
        anyhow!("could not use {}: {why}, which no pass has made; remove it", path.display())
    }

    /// Makes a file under a name, with the mode of the one that it is going to be.
    fn create(&self, name: &str, of: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OPEN_FILE | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = openat(&self.descriptor, name, flags, Mode::RUSR | Mode::WUSR)?;
        let mode = self.place.mode() & 0o666;
        let writers = mode & 0o222;
        let mode = if of.ends_with(PASSES) {
            // Tokens are for those alone who may have the handlers ended that carry them.
            0o600 | (writers | writers << 1) & 0o660
        } else if of.ends_with(LINES) || of.ends_with(CLAIMS) {
            // Who may read a file may take a read lock on it, which keeps passes out.
            0o600 | writers | writers << 1
        } else {
            0o600 | mode
        };
        self.place.hand_over(&file, mode)?;
        Ok(file)
    }

    /// A file of somebody else's, or one that stands elsewhere as well, would be written for him.
    fn check_file(&self, name: &str, file: &OwnedFd) -> Result<()> {
        let found = fstat(file)?;
        let why = if !is_regular(&found) {
            "it is no regular file".into()
        } else if found.st_nlink != 1 {
            "it has another name, a hard link".into()
        } else if !self.place.may_own(&found) {
            format!("it belongs to user {}", found.st_uid)
        } else {
            return Ok(());
        };
        Err(self.refused(name, &why))
    }

    /// Puts a new file in the place of one, which is never there in part.
    pub fn rewrite(&self, name: &str, content: &[u8]) -> Result<()> {
        let new = format!("{name}.new");
        let _ = unlinkat(&self.descriptor, new.as_str(), AtFlags::empty());
        let put = || -> io::Result<()> {
            File::from(self.create(&new, name)?).write_all(content)?;
            Ok(renameat(&self.descriptor, new.as_str(), &self.descriptor, name)?)
        };
        put().map_err(|error| {
            let _ = unlinkat(&self.descriptor, new.as_str(), AtFlags::empty());
            self.not_opened(name, &error)
        })
    }

    /// Removes a file, if there is one.
    pub fn remove(&self, name: &str) -> Result<()> {
        match unlinkat(&self.descriptor, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.not_opened(name, &errno.into())),
        }
    }
}

impl Place {
    /// Whether members of a group may write the database, and whether everybody may.
    fn is_shared(&self, gid: u32) -> (bool, bool) {
        self.database.as_ref().map_or((false, false), |(_, database)| {
            let everybody = database.mode() & OTHERS_WRITE != 0;
            let members = database.mode() & GROUP_WRITE != 0 && database.gid() == gid;
            (members || everybody, everybody)
        })
    }

    /// Whether it is of somebody who gains nothing by it: root, this user, who may write the database.
    fn may_own(&self, found: &Stat) -> bool {
        let owner = self.database.as_ref().map(|(_, database)| database.uid());
        let is_owners = owner == Some(found.st_uid);
        is_root() || is_own(found.st_uid) || is_owners || self.is_shared(found.st_gid).0
    }

    /// Fails unless its owner may have one, and who can put files there can write the database.
    fn check(&self, found: &Stat) -> Result<()> {
        let shown = self.path.display();
        if !self.may_own(found) {
            bail!(
                "could not use {shown}: it is a directory of user {}, and must be {}; remove it, or \
                 name another with --state-dir",
                found.st_uid,
                self.rightful_owners()
            );
        }
        let (group, others) = self.is_shared(found.st_gid);
        let group = group || self.database.is_none();
        let (who, mode) = match found.st_mode {
            _ if is_root() => return Ok(()),
            mode if mode & OTHERS_WRITE != 0 && !others => ("everybody", "o-w"),
            mode if mode & GROUP_WRITE != 0 && !group => ("its group", "g-w"),
            _ => return Ok(()),
        };
        // A directory for everybody's files is not to be taken away from them.
        let hint = if found.st_mode & Mode::SVTX.bits() != 0 {
            "name a directory of its own with --state-dir".into()
        } else {
            format!("chmod {mode} {shown}, or name another directory with --state-dir")
        };
        bail!("could not use {shown}: {who} can write to it, but not to the database; {hint}");
    }

    /// `root's or user 1000's, who owns the database`
    fn rightful_owners(&self) -> String {
        let me = rustix::process::geteuid().as_raw();
        let mut owners = format!("root's or user {me}'s");
        let owner = self.database.as_ref().map_or(0, |(_, database)| database.uid());
        if owner != 0 && owner != me {
            owners += &format!(" or user {owner}'s, who owns the database");
        }
        owners
    }

    /// Fails if the database is a file that this user cannot write: no pass gets so far, and a directory
    /// that it left behind would be of no use to the next.
    fn require_writable(&self) -> Result<()> {
        let Some((path, found)) = &self.database else { return Ok(()) };
        if found.mode() & 0o222 == 0 {
            bail!(
                "could not use {0}: it is read-only, with mode {1:o}; chmod u+w {0}",
                path.display(),
                found.mode() & 0o777
            );
        }
        let is_writable = accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok();
        ensure!(
            is_writable,
            "could not write to {}: attempt to write a readonly database; the file and its directory \
             must be writable for this user",
            path.display()
        );
        Ok(())
    }

    /// The mode of the database; of a server's passes nobody else may see anything.
    fn mode(&self) -> u32 {
        self.database.as_ref().map_or(0o700, |(_, database)| database.mode())
    }

    fn not_opened(&self, error: &io::Error) -> anyhow::Error {
        let is_planted = !self.is_named && self.path.is_symlink();
        if is_planted || error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
            return anyhow!(
                "could not use {}: it is a symbolic link; remove it, or name a directory with \
                 --state-dir",
                self.path.display()
            );
        }
        if self.database.is_none() {
            return anyhow!("could not open {}: {}", self.path.display(), words(error));
        }
        not_opened(&self.path, error)
    }

    /// The directory that the state directory is in; `None` if that is not there.
    fn parent(&self) -> Result<Option<Followed>> {
        let opened = match &self.database {
            Some((_, database)) if !self.is_named => Followed::beside(&self.path, database),
            _ => Followed::to_work_in(&self.path),
        };
        match opened {
            Ok(parent) => Ok(Some(parent)),
            Err(error) if error.kind() == NotFound => Ok(None),
            Err(error) => Err(self.not_opened(&error)),
        }
    }

    /// Gives what was just made a mode and the database's group, and where this is root its owner.
    fn hand_over(&self, made: impl AsFd, mode: u32) -> rustix::io::Result<()> {
        let mut mode = mode;
        if let Some((_, database)) = &self.database {
            let (uid, gid) = (Uid::from_raw(database.uid()), Gid::from_raw(database.gid()));
            if fchown(&made, Some(uid), Some(gid)).is_err() {
                let _ = fchown(&made, None, Some(gid));
            }
            let is_of_its_group = fstat(&made)?.st_gid == database.gid();
            if !is_of_its_group && database.mode() & OTHERS_WRITE == 0 {
                mode &= !GROUP_WRITE;
            }
        }
        fchmod(&made, Mode::from_bits_retain(mode))
    }
}

fn make_parents(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty() && !it.exists());
    let Some(parent) = parent else { return Ok(()) };
    make_parents(parent)?;
    let above = Followed::to_work_in(parent)?;
    match mkdirat(&above.directory, &above.name, Mode::from_bits_retain(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// What could not be done, and whose the place is, if that is why.
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
    anyhow!("could not open {}: {}{hint}", path.display(), words(error))
}
