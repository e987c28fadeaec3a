//! Rights that a SQLite database is worked on with.
//!
//! SQLite makes its journals beside the database, by their paths, and as root gives them to its owner.
//! Whoever can put a link into the place of the directory could so have files of his made anywhere. So
//! root works on somebody else's database with that user's rights for the file system, unless nobody
//! but root can change the way to it. A database of root's in somebody else's directory is refused.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::secure_file::{self, ActingAs, GROUP_WRITE, OTHERS_WRITE, Owner, Resolved, is_root};

/// What SQLite adds to the name of a database for what it keeps beside it.
const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];

/// With whose rights a database is worked on.
#[derive(Debug, Clone)]
pub enum Rights {
    Own,
    /// One's own, where others can put something beside the database.
    OwnAmongOthers(PathBuf, Box<Metadata>),
    /// Those of the owner of the database, or of the directory that it is to be made in.
    Of(Owner),
}

impl Rights {
    /// Those over a database, or where one is to be made. Fails if they are of no use.
    pub fn over(database: &Resolved) -> Result<Self> {
        let Resolved { path, found, directory } = database;
        require_files(path, found.as_ref())?;
        let among_others = |found| Self::OwnAmongOthers(path.clone(), Box::new(found));
        let own = || found.clone().map_or(Self::Own, among_others);
        if secure_file::is_trusted_way(path) {
            return Ok(Self::Own);
        }
        if !is_root() {
            return Ok(own());
        }
        let whose = found.as_ref().unwrap_or(directory);
        if whose.uid() != 0 {
            return Ok(Self::Of(Owner::of(whose)));
        }
        // Its owner could put any file of root's into its place, and a journal beside it.
        if let Some((above, uid)) = secure_file::not_roots_above(path).filter(|_| found.is_some()) {
            let (shown, above) = (path.display(), above.display());
            bail!(
                "could not use {shown}: it is root's, in {above}, which belongs to user {uid}; \
                 chown {uid} {shown}, or move it into a directory of root's"
            );
        }
        Ok(own())
    }

    pub fn take(&self) -> Result<Option<ActingAs>> {
        match self {
            Self::Own => Ok(None),
            Self::OwnAmongOthers(path, found) => require_files(path, Some(found)).map(|()| None),
            Self::Of(owner) => ActingAs::start(*owner)
                .map(Some)
                .with_context(|| format!("could not take the rights of user {}", owner.uid)),
        }
    }
}

/// What is kept beside a database, by its name and an end.
pub fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Fails if something stands beside the database that SQLite would wait for, or would believe though
/// somebody put it there who may not write the database.
fn require_files(path: &Path, database: Option<&Metadata>) -> Result<()> {
    for end in BESIDE {
        let beside = beside(path, end);
        let Ok(found) = std::fs::symlink_metadata(&beside) else { continue };
        let shown = beside.display();
        ensure!(found.is_file(), "could not use {shown}: it is no regular file; remove it");
        let is_theirs = database.is_some_and(|database| {
            let is_shared = database.mode() & (GROUP_WRITE | OTHERS_WRITE) != 0;
            !is_shared && found.uid() != database.uid() && !secure_file::is_trusted(found.uid())
        });
        ensure!(
            !is_theirs,
            "could not use {shown}: it is of user {}, who may not write the database; remove it",
            found.uid()
        );
    }
    Ok(())
}
