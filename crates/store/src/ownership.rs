//! The ownership rule, like StrictModes of sshd and safe.directory of git: root works only on files that root alone can
//! change. Other users could otherwise make root run and write what they want.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Group, User};
use rustix::fs::{FileType, Stat};

use crate::secure_file::{self, Followed, GROUP_WRITE, OTHERS_WRITE, STICKY, is_root};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerRule {
    /// The command fails before it opens a file.
    Enforced,
    /// `check` reports each file. It reads backlog.toml, and opens no database.
    Reported,
    /// `--trust-owner`: users who can change the files may act as root.
    Waived,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    /// A file that root may copy elsewhere.
    Config,
    File,
    Directory,
}

pub const ROOTS_CONFIG: &str = "/etc/backlog.toml";

/// The access of other users to a path, and its remedy.
type Problem = (String, String);

const BY_EVERYBODY: &str = "can be written by others";

/// The complaint, for root alone, about a file that others can change, directly or through a directory above it.
pub fn complaint(path: &Path, kind: PathKind) -> Option<String> {
    let (place, (what, remedy)) = if is_root() { examine(path, kind)? } else { return None };
    let copied = match kind {
        PathKind::Config => {
            format!("copy it for root (install -m 600 {} {ROOTS_CONFIG}), ", path.display())
        }
        PathKind::File | PathKind::Directory => String::new(),
    };
    Some(format!("{} {what}: {remedy}, {copied}or pass --trust-owner", place.display()))
}

/// The last file or directory on a path that others than root can change. The path need not exist.
fn examine(path: &Path, kind: PathKind) -> Option<(PathBuf, Problem)> {
    let move_it = format!("move {} into a directory of root's", path.display());
    let path = std::path::absolute(path).ok()?;
    let (mut last, mut directory) = (None, None);
    let _ = Followed::walk(&path, &mut |place, found| {
        last = problem(place, found).map(|problem| (place.to_owned(), problem)).or(last.take());
        if secure_file::file_type(found) == FileType::Directory {
            directory = Some((place.to_owned(), found.st_mode));
        }
        Ok(())
    });
    // In a sticky directory nobody can replace a database, but everybody can add a journal for it, or a pause.
    let is_meant = kind != PathKind::Directory || path.is_dir();
    let is_shared = |mode: u32| is_meant && mode & (GROUP_WRITE | OTHERS_WRITE) != 0;
    let shared = directory.filter(|(_, mode)| is_shared(*mode));
    last.or_else(|| shared.map(|(place, _)| (place, (BY_EVERYBODY.into(), move_it))))
}

fn problem(place: &Path, found: &Stat) -> Option<Problem> {
    let (mode, uid, gid) = (found.st_mode, found.st_uid, found.st_gid);
    let kind = secure_file::file_type(found);
    let is_examined =
        kind == FileType::RegularFile || kind == FileType::Directory && mode & STICKY == 0;
    if uid != 0 {
        let (user, how) = match user_name(uid) {
            Some(name) => {
                let how = format!(" (crontab -u {name} -e, or the user field of /etc/cron.d)");
                (name, how)
            }
            None => (format!("user {uid}"), String::new()),
        };
        Some((format!("belongs to {user}"), format!("run this as {user}{how}")))
    } else if is_examined && mode & OTHERS_WRITE != 0 {
        Some((BY_EVERYBODY.into(), format!("chmod o-w {}", place.display())))
    } else if is_examined && mode & GROUP_WRITE != 0 {
        let group = Group::from_gid(gid.into()).ok().flatten();
        let group = group.map_or_else(|| gid.to_string(), |group| group.name);
        Some((format!("can be written by group {group}"), format!("chmod g-w {}", place.display())))
    } else {
        None
    }
}

/// The warning about a database that only some users can write, in a directory that everybody can write.
pub fn shared_directory(database: &Path) -> Option<String> {
    let database = database.canonicalize().ok()?;
    let directory = database.parent()?;
    let is_open = |path: &Path| Some(fs::metadata(path).ok()?.mode() & OTHERS_WRITE != 0);
    let (is_shared, directory) = (is_open(directory)? && !is_open(&database)?, directory.display());
    is_shared.then(|| {
        format!(
            "everybody can put files into {directory}, also a journal that SQLite would apply to the database: \
             move it into another directory"
        )
    })
}

pub fn user_name(uid: u32) -> Option<String> {
    User::from_uid(uid.into()).ok().flatten().map(|user| user.name)
}
