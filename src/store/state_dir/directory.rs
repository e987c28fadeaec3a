//! An open state directory, from which nobody gains what he could not do himself.
//!
//! The directory often lies where other users may put things, and root's cron opens it. So it is
//! opened once, without following a link, and its owner and mode are looked at; its files are
//! opened from that descriptor, without following a link either, and are regular files of somebody
//! who may have files there. If the database is another user's, root does all of this with that
//! user's rights.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use rustix::fs::{
    Access, AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat, Uid, accessat, fchmod, fchown,
    fstat, mkdirat, openat, renameat, unlinkat,
};
use rustix::io::Errno;

use super::acting::{Owner, acting_as};
use crate::secure_file::{self, is_root};
use crate::store::claims;

const OPEN_DIRECTORY: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);
/// A FIFO must not hold the pass up, nor a terminal become its own.
const OPEN_FILE: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
/// No file that is read is longer; a longer one is none of ours.
const MOST_READ: u64 = 64 * 1024;
/// So often may a file come and go while it is being opened.
const TRIES: u32 = 5;

const READ_WRITE: Mode = Mode::from_bits_retain(0o666);
const GROUP_WRITE: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// Where a state directory is, and whose.
#[derive(Debug, Clone)]
pub struct Place {
    pub path: PathBuf,
    /// Whether the user has named it, or its name follows from that of the database.
    pub is_named: bool,
    /// The database, if it is a file: who may write that may take claims.
    pub database: Option<Metadata>,
}

/// A state directory that is fit for use.
#[derive(Debug)]
pub struct Directory {
    place: Place,
    descriptor: OwnedFd,
    /// With whose rights its files are opened and made, if not with one's own.
    acting: Option<Owner>,
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Read,
    /// To read and write it, if it is there.
    Change,
    /// The same; it is made where there is none.
    Make,
}

impl Directory {
    /// Opens the directory; `None` if there is none. Fails if others could have put something
    /// there that this process should not touch.
    pub fn open(place: &Place) -> Result<Option<Self>> {
        let Some((parent, name)) = parent_of(place)? else { return Ok(None) };
        let opened =
            with_rights(place, &parent, |_| openat(&parent, &name, OPEN_DIRECTORY, Mode::empty()));
        match opened {
            Ok(descriptor) => Self::of(place, descriptor).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(place.not_opened(&error)),
        }
    }

    /// The same; makes it where there is none, with the owner and the mode of the database.
    pub fn make(place: &Place) -> Result<Self> {
        if let Some(found) = Self::open(place)? {
            return Ok(found);
        }
        let not_made = |error: io::Error| place.not_opened(&error);
        make_parents(place).map_err(not_made)?;
        let Some((parent, name)) = parent_of(place)? else {
            return Err(not_made(io::ErrorKind::NotFound.into()));
        };
        let made = with_rights(place, &parent, |uid| {
            mkdirat(&parent, &name, Mode::RWXU)?;
            let descriptor = openat(&parent, &name, OPEN_DIRECTORY, Mode::empty())?;
            if !is_new(&descriptor, uid)? {
                return Err(Errno::EXIST);
            }
            let mode = place.database.as_ref().map_or(0o700, dir_mode);
            take_after(&descriptor, place, mode)?;
            Ok(descriptor)
        });
        match made {
            Ok(descriptor) => Self::of(place, descriptor),
            // Another pass was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Self::open(place)?.ok_or_else(|| not_made(error))
            }
            Err(error) => Err(not_made(error)),
        }
    }

    fn of(place: &Place, descriptor: OwnedFd) -> Result<Self> {
        let found = fstat(&descriptor).map_err(|errno| place.not_opened(&errno.into()))?;
        place.check(&found)?;
        // What only root can change, nobody else has planted anything in.
        let is_roots = is_roots_alone(&found);
        let is_own = place.is_named && found.st_uid == 0;
        let acting = place.other_owner().filter(|_| !is_roots && !is_own);
        Ok(Self { place: place.clone(), descriptor, acting })
    }

    /// The user who can write here besides root, if this process is root: the owner of the database.
    pub fn other_writer(&self) -> Option<u32> {
        let is_roots = fstat(&self.descriptor).is_ok_and(|found| is_roots_alone(&found));
        let owner = self.place.database.as_ref().map_or(0, Metadata::uid);
        (is_root() && !is_roots).then_some(owner)
    }

    /// What tells this directory from all others of the machine.
    pub fn identity(&self) -> Result<String> {
        let found =
            fstat(&self.descriptor).map_err(|errno| self.place.not_opened(&errno.into()))?;
        Ok(format!("{}-{}", found.st_dev, found.st_ino))
    }

    /// Opens a file; `None` if there is none, and none is to be made.
    pub fn file(&self, name: &str, purpose: Purpose) -> Result<Option<File>> {
        let not_opened = |error: io::Error| not_opened(&self.place.path.join(name), &error);
        for _ in 0..TRIES {
            let access = match purpose {
                Purpose::Read => OFlags::RDONLY,
                Purpose::Change | Purpose::Make => OFlags::RDWR,
            };
            match self.act(|| openat(&self.descriptor, name, OPEN_FILE | access, Mode::empty())) {
                Ok(file) => {
                    self.check_file(name, &file)?;
                    return Ok(Some(File::from(file)));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if purpose != Purpose::Make {
                        return Ok(None);
                    }
                }
                Err(error)
                    if error.kind() == io::ErrorKind::PermissionDenied && self.is_roots(name) =>
                {
                    self.replace(name)?;
                    continue;
                }
                Err(error) if is_link(&error) => {
                    bail!("{}", self.place.refused(name, "is a symbolic link"))
                }
                Err(error) => return Err(not_opened(error)),
            }
            match self.act(|| self.create(name)) {
                Ok(file) => return Ok(Some(File::from(file))),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(not_opened(error)),
            }
        }
        Err(not_opened(io::Error::other("it comes and goes")))
    }

    /// The beginning of a file; nothing if there is none.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        if let Some(file) = self.file(name, Purpose::Read)? {
            let read = file.take(MOST_READ).read_to_end(&mut text);
            read.map_err(|error| not_opened(&self.place.path.join(name), &error))?;
        }
        Ok(text)
    }

    /// Fails if a pass could not use one of the files that are there, or make more.
    pub fn check_writable(&self) -> Result<()> {
        let writable = Access::WRITE_OK | Access::EXEC_OK;
        self.act(|| accessat(&self.descriptor, ".", writable, AtFlags::EACCESS))
            .map_err(|error| self.place.not_opened(&error))?;
        let listed = self.act(|| {
            let entries = Dir::read_from(&self.descriptor)?;
            entries
                .map(|entry| Ok(entry?.file_name().to_owned()))
                .collect::<Result<Vec<_>, Errno>>()
        });
        for name in listed.map_err(|error| self.place.not_opened(&error))? {
            match name.to_str() {
                Ok("." | "..") => {}
                Ok(name) => self.check_named(name)?,
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// The same of one file, which is left as it is.
    fn check_named(&self, name: &str) -> Result<()> {
        let flags = OPEN_FILE | OFlags::RDWR;
        match self.act(|| openat(&self.descriptor, name, flags, Mode::empty())) {
            Ok(file) => self.check_file(name, &file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) if is_link(&error) => {
                bail!("{}", self.place.refused(name, "is a symbolic link"))
            }
            // A pass replaces it.
            Err(_) if self.acting.is_some() && self.is_roots(name) => Ok(()),
            Err(error) => Err(not_opened(&self.place.path.join(name), &error)),
        }
    }

    fn act<T>(&self, act: impl FnOnce() -> rustix::io::Result<T>) -> io::Result<T> {
        acting_as(self.acting, act)
    }

    fn create(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OPEN_FILE | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = openat(&self.descriptor, name, flags, Mode::RUSR | Mode::WUSR)?;
        let mode = self.place.database.as_ref().map_or(0o600, Metadata::mode);
        take_after(&file, &self.place, mode & READ_WRITE.bits())?;
        Ok(file)
    }

    /// A file of somebody else's, or one that stands elsewhere as well, would be written for him.
    fn check_file(&self, name: &str, file: &OwnedFd) -> Result<()> {
        let path = || self.place.path.join(name);
        let found = fstat(file).map_err(|errno| not_opened(&path(), &errno.into()))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            bail!("{}", self.place.refused(name, "is no regular file"));
        }
        if found.st_nlink != 1 {
            bail!("{}", self.place.refused(name, "has another name, a hard link"));
        }
        if !self.place.may_own(&found) {
            let whose = format!("belongs to user {}", found.st_uid);
            bail!("{}", self.place.refused(name, &whose));
        }
        Ok(())
    }

    /// Whether a file that cannot be opened is one that root has left here before the database had
    /// its owner.
    fn is_roots(&self, name: &str) -> bool {
        let found = rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW);
        self.acting.is_some()
            && found.is_ok_and(|found| {
                found.st_uid == 0
                    && found.st_nlink == 1
                    && FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
            })
    }

    /// Puts a file of the database's owner, with the same content, in the place of one of root's,
    /// unless a pass has locks on that.
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
        let mut content = Vec::new();
        (&old).take(MOST_READ).read_to_end(&mut content).map_err(not_replaced)?;
        let new = format!("{name}.new");
        let placed = self.act(|| {
            let _ = unlinkat(&self.descriptor, new.as_str(), AtFlags::empty());
            let file = self.create(&new)?;
            rustix::io::write(&file, &content)?;
            renameat(&self.descriptor, new.as_str(), &self.descriptor, name)
        });
        placed.map_err(not_replaced)
    }

    /// Opens a file of root's as root. Nothing of it is opened before it is known to be one.
    fn open_roots(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = openat(&self.descriptor, name, flags, Mode::empty())?;
        let state = fstat(&found)?;
        if FileType::from_raw_mode(state.st_mode) != FileType::RegularFile || state.st_uid != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let path = format!("/proc/self/fd/{}", rustix::fd::AsRawFd::as_raw_fd(&found));
        File::options().read(true).write(true).open(path)
    }
}

impl Place {
    /// The owner of the database, if root is at work for somebody else.
    fn other_owner(&self) -> Option<Owner> {
        let database = self.database.as_ref()?;
        let owner = Owner { uid: database.uid(), gid: database.gid() };
        (is_root() && owner.uid != 0).then_some(owner)
    }

    /// Whether somebody may have a file or a directory here without being able to gain anything:
    /// root, this user, the owner of the database, and whoever else may write that.
    fn may_own(&self, found: &Stat) -> bool {
        let me = rustix::process::geteuid().as_raw();
        found.st_uid == 0
            || found.st_uid == me
            || self.database.as_ref().is_some_and(|database| {
                let is_of_its_group =
                    database.mode() & GROUP_WRITE != 0 && found.st_gid == database.gid();
                let is_everybodys = database.mode() & OTHERS_WRITE != 0;
                found.st_uid == database.uid() || is_of_its_group || is_everybodys
            })
    }

    /// Fails unless the directory is somebody's who may have one, and nobody can put files into it
    /// who cannot write the database.
    fn check(&self, found: &Stat) -> Result<()> {
        let shown = self.path.display();
        let me = rustix::process::geteuid().as_raw();
        if !self.may_own(found) {
            let owners = match &self.database {
                Some(database) if database.uid() != me && database.uid() != 0 => {
                    format!("root, user {me} or user {}, whose the database is", database.uid())
                }
                Some(_) | None if me == 0 => "root".into(),
                Some(_) | None => format!("root or user {me}"),
            };
            bail!(
                "{shown} is a directory of user {}, not of {owners}: remove it, or name another \
                 with --state-dir",
                found.st_uid
            );
        }
        let (group, others) = match &self.database {
            None => (true, false),
            Some(database) => {
                let others = database.mode() & OTHERS_WRITE != 0;
                let group = database.mode() & GROUP_WRITE != 0 && database.gid() == found.st_gid;
                (group || others, others)
            }
        };
        let who = match found.st_mode {
            mode if mode & OTHERS_WRITE != 0 && !others => Some(("everybody", "o-w")),
            mode if mode & GROUP_WRITE != 0 && !group => Some(("its group", "g-w")),
            _ => None,
        };
        if let Some((who, mode)) = who {
            // A directory for everybody's files is not to be taken away from them.
            let mend = if found.st_mode & Mode::SVTX.bits() != 0 {
                "name a directory of its own with --state-dir".into()
            } else {
                format!("chmod {mode} {shown}, or name another directory with --state-dir")
            };
            bail!("{who} can write into {shown}, but not into the database: {mend}");
        }
        Ok(())
    }

    /// What is wrong with a file here that nobody of us has made.
    fn refused(&self, name: &str, why: &str) -> String {
        let path = self.path.join(name);
        format!("{path} {why}, which no pass has made: remove it", path = path.display())
    }

    fn not_opened(&self, error: &io::Error) -> anyhow::Error {
        let is_planted =
            !self.is_named && self.path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        if is_planted || is_link(error) {
            let shown = self.path.display();
            return anyhow!(
                "{shown} is a symbolic link: remove it, or name a directory with --state-dir"
            );
        }
        not_opened(&self.path, error)
    }
}

/// Whether nobody but root can change what is in a directory.
fn is_roots_alone(found: &Stat) -> bool {
    found.st_uid == 0 && found.st_mode & (GROUP_WRITE | OTHERS_WRITE) == 0
}

/// Whether a path was refused because it ends in a link.
fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// The directory that the state directory is in, and its name there; `None` if that is not there.
fn parent_of(place: &Place) -> Result<Option<(OwnedFd, PathBuf)>> {
    let path = if place.is_named {
        // Whoever may plant a link that is followed can do as much without it.
        secure_file::followed(&place.path).map_err(|error| place.not_opened(&error))?
    } else {
        place.path.clone()
    };
    let (parent, name) = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if parent.as_os_str().is_empty() => {
            (Path::new("."), name.into())
        }
        (Some(parent), Some(name)) => (parent, name.into()),
        _ => (path.as_path(), PathBuf::from(".")),
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(CWD, parent, flags, Mode::empty()) {
        Ok(parent) => Ok(Some((parent, name))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(place.not_opened(&errno.into())),
    }
}

/// Does something in the parent directory with the rights that are due there, and tells it whose
/// they are. The owner of the database may have none to a directory of root's.
fn with_rights<T>(
    place: &Place,
    parent: &OwnedFd,
    act: impl Fn(u32) -> rustix::io::Result<T>,
) -> io::Result<T> {
    let (me, found) = (rustix::process::geteuid().as_raw(), fstat(parent)?);
    // A named directory is root's own business, unless it lies with the owner of the database.
    let acting = place.other_owner().filter(|owner| !place.is_named || found.st_uid == owner.uid);
    let uid = acting.map_or(me, |owner| owner.uid);
    match acting_as(acting, || act(uid)) {
        Err(error)
            if error.kind() == io::ErrorKind::PermissionDenied
                && acting.is_some()
                && found.st_uid == 0 =>
        {
            acting_as(None, || act(me))
        }
        done => done,
    }
}

/// Whether a directory is the empty one that this process has just made, and not one that somebody
/// has moved into its place.
fn is_new(directory: &OwnedFd, uid: u32) -> rustix::io::Result<bool> {
    let found = fstat(directory)?;
    let is_ours = found.st_uid == uid && found.st_mode & 0o7777 & !0o2000 == Mode::RWXU.bits();
    let mut entries = Dir::read_from(directory)?;
    let is_self = |name: &[u8]| name == b"." || name == b"..";
    Ok(is_ours && entries.all(|entry| entry.is_ok_and(|it| is_self(it.file_name().to_bytes()))))
}

/// Makes the directories above the state directory, one in the other.
fn make_parents(place: &Place) -> io::Result<()> {
    let Some(parent) = place.path.parent().filter(|it| !it.as_os_str().is_empty()) else {
        return Ok(());
    };
    if parent.exists() {
        return Ok(());
    }
    let place = Place { path: parent.into(), is_named: true, database: place.database.clone() };
    make_parents(&place)?;
    let (above, name) =
        parent_of(&place).ok().flatten().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    match with_rights(&place, &above, |_| mkdirat(&above, &name, Mode::from_bits_retain(0o755))) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Gives what this process has just made the database's owner, as far as it may, and a mode. Only
/// root can give a file away; for anybody else it is their own, and that is right.
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

/// The database's mode, and whoever may read may enter.
fn dir_mode(database: &Metadata) -> u32 {
    let mode = database.mode() & 0o777;
    mode | (mode & 0o444) >> 2
}

/// What could not be done, and whose the place is, if that is why.
pub fn not_opened(path: &Path, error: &io::Error) -> anyhow::Error {
    let denied = [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem]
        .contains(&error.kind());
    let hint = if denied { whose(path) } else { None };
    anyhow!("could not open the claims {}: {error}{}", path.display(), hint.unwrap_or_default())
}

fn whose(path: &Path) -> Option<String> {
    let (place, found) =
        path.ancestors().find_map(|place| Some((place, std::fs::metadata(place).ok()?)))?;
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
