//! The path of a state directory, and the owners that are trusted with it.

use std::fs::Metadata;
use std::io::{self, ErrorKind::PermissionDenied};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use rustix::fs::{AtFlags, CWD, Mode, Stat, fstat, openat, statat};
use rustix::io::Errno;

use crate::secure_file::{
    Followed, GROUP_WRITE, OPEN_PATH, OTHERS_WRITE, Owner, acting_as, is_root, is_trusted,
};
use crate::system_error::words;

#[derive(Debug, Clone)]
pub struct Place {
    pub path: PathBuf,
    /// Whether the user has named it, or its name follows from that of the database.
    pub is_named: bool,
    /// The database, if it is a file: who may write that may take claims.
    pub database: Option<Metadata>,
}

impl Place {
    pub fn other_owner(&self) -> Option<Owner> {
        self.database.as_ref().map(Owner::of).filter(|owner| is_root() && owner.uid != 0)
    }

    /// Whether members of a group may write the database, and whether everybody may.
    fn is_shared(&self, gid: u32) -> (bool, bool) {
        self.database.as_ref().map_or((false, false), |database| {
            let everybody = database.mode() & OTHERS_WRITE != 0;
            let members = database.mode() & GROUP_WRITE != 0 && database.gid() == gid;
            (members || everybody, everybody)
        })
    }

    /// Whether it is of somebody who gains nothing by it: root, this user, who may write the database.
    pub fn may_own(&self, found: &Stat) -> bool {
        let owner = self.database.as_ref().map(MetadataExt::uid);
        let is_owners = owner == Some(found.st_uid);
        is_trusted(found.st_uid) || is_owners || self.is_shared(found.st_gid).0
    }

    /// Fails unless its owner may have one, and who can put files there can write the database.
    pub fn check(&self, found: &Stat) -> Result<()> {
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
        let mut owners = String::from("root's");
        if me != 0 {
            owners += &format!(" or user {me}'s");
        }
        let owner = self.database.as_ref().map_or(0, MetadataExt::uid);
        if owner != 0 && owner != me {
            owners += &format!(" or user {owner}'s, who owns the database");
        }
        owners
    }

    /// What is wrong with a file here that no pass has made.
    pub fn refused(&self, name: &str, why: &str) -> anyhow::Error {
        let path = self.path.join(name);
        anyhow!("could not use {}: {why}, which no pass has made; remove it", path.display())
    }

    pub fn not_opened(&self, error: &io::Error) -> anyhow::Error {
        let is_planted = !self.is_named && self.path.is_symlink();
        if is_planted || error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
            return anyhow!(
                "could not use {}: it is a symbolic link; remove it, or name a directory with \
                 --state-dir",
                self.path.display()
            );
        }
        not_opened(&self.path, error)
    }

    /// The directory that the state directory is in; `None` if that is not there.
    pub fn parent(&self) -> Result<Option<Followed>> {
        let opened =
            if self.is_named { Followed::new(&self.path) } else { self.parent_of_database() };
        match opened {
            Ok(parent) => Ok(Some(parent)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.not_opened(&error)),
        }
    }

    /// The very directory that the database was found in.
    fn parent_of_database(&self) -> io::Result<Followed> {
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        let name = self.path.file_name().unwrap_or_default();
        let directory = openat(CWD, parent, OPEN_PATH, Mode::empty())?;
        // It is called after the database.
        let database = Path::new(name).with_extension("");
        let found = statat(&directory, &database, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_same = |model: &Metadata| (model.dev(), model.ino()) == (found.st_dev, found.st_ino);
        if !self.database.as_ref().is_some_and(is_same) {
            return Err(io::Error::other("the database was moved or replaced just now; try again"));
        }
        Ok(Followed::unfound(directory, name.into()))
    }

    /// Does something in the parent directory with the rights that are due there, and tells it
    /// whose they are. The owner of the database may have none to a directory of root's.
    pub fn with_rights<T>(
        &self,
        parent: &Followed,
        act: impl Fn(u32) -> rustix::io::Result<T>,
    ) -> io::Result<T> {
        let (me, found) = (rustix::process::geteuid().as_raw(), fstat(&parent.directory)?);
        // A named directory is root's own business, unless it lies with the owner of the database.
        let acting = self.other_owner().filter(|owner| !self.is_named || found.st_uid == owner.uid);
        let uid = acting.map_or(me, |owner| owner.uid);
        let is_roots = acting.is_some() && found.st_uid == 0;
        acting_as(acting, || act(uid)).or_else(|error| match error.kind() == PermissionDenied {
            true if is_roots => acting_as(None, || act(me)),
            _ => Err(error),
        })
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
