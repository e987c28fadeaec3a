//! Rights that a SQLite database is worked on with.
//!
//! SQLite makes its journals beside the database, by their paths, and as root it gives them to the
//! owner of the database. Whoever can put a link into the place of the directory could so have files
//! of his made anywhere. So root works on somebody else's database with that user's rights for the
//! file system, unless nobody but root can change what is on the way to it.

use std::ffi::CString;
use std::fs::Metadata;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use nix::unistd::{User, getgrouplist};
use rusqlite::Connection;
use rustix::fs::Gid;

use crate::secure_file::{self, is_root};
use crate::store::acting::{ActingAs, Owner};

/// What SQLite adds to the name of a database for what it keeps beside it.
const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];

/// With whose rights a database is worked on, if not with one's own.
#[derive(Debug, Clone)]
pub struct Rights(Option<(Owner, Vec<Gid>)>);

impl Rights {
    /// Those that are due over the database at a path that has no links.
    pub fn over(path: &Path, found: &Metadata) -> Result<Self> {
        let owner = Owner { uid: found.uid(), gid: found.gid() };
        if !is_root() || owner.uid == 0 || secure_file::is_roots_way(path) {
            return Ok(Self(None));
        }
        let user = User::from_uid(owner.uid.into())
            .with_context(|| format!("could not look up user {}", owner.uid))?;
        let groups = match user {
            // A user whom nobody knows is in no group.
            None => Vec::new(),
            Some(user) => {
                let groups = getgrouplist(&CString::new(user.name)?, user.gid);
                groups.with_context(|| {
                    format!("could not look up the groups of user {}", owner.uid)
                })?
            }
        };
        let groups = groups.into_iter().map(|group| Gid::from_raw(group.as_raw())).collect();
        Ok(Self(Some((owner, groups))))
    }

    /// One's own.
    pub fn own() -> Self {
        Self(None)
    }

    /// Takes them, for as long as the value lives.
    pub fn take(&self) -> Result<Option<ActingAs>> {
        let Some((owner, groups)) = &self.0 else { return Ok(None) };
        let acting = ActingAs::start(*owner, groups);
        acting.map(Some).with_context(|| format!("could not take the rights of user {}", owner.uid))
    }
}

/// Fails if something stands beside the database that SQLite would wait for.
pub fn require_files(path: &Path) -> Result<()> {
    for end in BESIDE {
        let mut beside = path.to_path_buf().into_os_string();
        beside.push(end);
        let found = std::fs::symlink_metadata(&beside);
        if found.is_ok_and(|found| !found.is_file()) {
            bail!(
                "could not use {}: it is no regular file; remove it",
                Path::new(&beside).display()
            );
        }
    }
    Ok(())
}

/// A connection that is closed with the rights that it was worked with: the last one removes files
/// beside the database.
pub struct Owned {
    connection: Option<Connection>,
    pub rights: Rights,
}

impl Owned {
    pub fn new(connection: Connection, rights: Rights) -> Self {
        Self { connection: Some(connection), rights }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // Without them it is left to the next one to tidy up.
        match self.rights.take() {
            Ok(_acting) => self.connection = None,
            Err(_) => std::mem::forget(self.connection.take()),
        }
    }
}

impl Deref for Owned {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        match &self.connection {
            Some(connection) => connection,
            None => unreachable!("it is taken when this is dropped"),
        }
    }
}

impl DerefMut for Owned {
    fn deref_mut(&mut self) -> &mut Connection {
        match &mut self.connection {
            Some(connection) => connection,
            None => unreachable!("it is taken when this is dropped"),
        }
    }
}
