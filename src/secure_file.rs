//! Files at paths where other users may have put something else.
//!
//! The program is often root, started in a directory of somebody else's. A symbolic link counts
//! only if root or this user has made it, and nothing that blocks holds it up.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Group, User};
use rustix::fs::{
    CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, fcntl_getfl, fcntl_setfl, fstat, fstatfs,
    openat, readlinkat,
};
use rustix::io::Errno;

/// As many links in a row as the kernel follows.
const MOST_LINKS: usize = 40;

const GROUP_WRITE: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Whether a user is root or this user: what they have made leads nowhere that they could not send
/// this process anyway.
pub fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Whether this process has root's rights.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Opens a file to append to it, and makes it with this mode, less the umask, if there is none.
pub fn append(path: &Path, mode: u32) -> io::Result<File> {
    open(path, OFlags::APPEND | OFlags::CREATE | OFlags::WRONLY, mode)
}

/// Opens a file to write it anew.
pub fn create(path: &Path) -> io::Result<File> {
    open(path, OFlags::TRUNC | OFlags::CREATE | OFlags::WRONLY, 0o666)
}

fn open(path: &Path, flags: OFlags, mode: u32) -> io::Result<File> {
    let path = followed(path)?;
    let is_kernels = path.parent().is_some_and(is_proc);
    // What stands in /proc instead of a link is the kernel's own.
    let no_follow = if is_kernels { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = flags | no_follow | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file =
        openat(CWD, &path, flags, Mode::from_bits_retain(mode)).map_err(|errno| match errno {
            Errno::LOOP => planted(&path, None),
            Errno::NXIO => io::Error::other("nobody reads from it"),
            errno => errno.into(),
        })?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file.into())
}

/// The path that a path stands for, if it ends in links: each must be root's or this user's. What
/// is not there stands for itself.
pub fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match openat(CWD, &path, flags, Mode::empty()) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(path),
            Err(errno) => return Err(errno.into()),
        };
        let state = fstat(&found)?;
        let is_link = FileType::from_raw_mode(state.st_mode) == FileType::Symlink;
        if !is_link || fstatfs(&found)?.f_type == PROC_SUPER_MAGIC {
            return Ok(path);
        }
        if !is_trusted(state.st_uid) {
            return Err(planted(&path, Some(state.st_uid)));
        }
        let target = readlinkat(&found, "", Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        path = path.parent().unwrap_or(Path::new("/")).join(target);
    }
    Err(Errno::LOOP.into())
}

fn planted(path: &Path, uid: Option<u32>) -> io::Error {
    let whose = uid.map_or_else(String::new, |uid| format!(" of user {uid}"));
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "{} is a symbolic link{whose}, which is followed only if root or this user has made it",
            path.display()
        ),
    )
}

fn is_proc(directory: &Path) -> bool {
    rustix::fs::statfs(directory).is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC)
}

/// Opens a file that is to be read from its beginning to its end, without waiting for anything,
/// and reads it. Only regular files of at most so many bytes are read.
pub fn read(path: &Path, most: u64) -> io::Result<(Vec<u8>, Metadata)> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty())?);
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    (&file).take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is longer than {most} bytes")));
    }
    Ok((bytes, found))
}

/// Why a file or directory is not only root's and this user's, if so.
pub fn distrust(found: &Metadata) -> Option<String> {
    if !is_trusted(found.uid()) {
        return Some(format!("belongs to user {}", found.uid()));
    }
    if found.is_dir() && found.mode() & STICKY != 0 {
        // Others can make files there, but put none in the place of this one.
        return None;
    }
    if found.mode() & OTHERS_WRITE != 0 {
        return Some("can be written by everybody".into());
    }
    let is_shared = found.mode() & GROUP_WRITE != 0 && !is_private(found.uid(), found.gid());
    is_shared.then(|| format!("can be written by group {}", found.gid()))
}

/// Whether a group is that of one user only: his own, with his name, and nobody else's.
pub fn is_private(uid: u32, gid: u32) -> bool {
    let user = User::from_uid(uid.into()).ok().flatten();
    let group = Group::from_gid(gid.into()).ok().flatten();
    let (Some(user), Some(group)) = (user, group) else { return false };
    let is_his = user.gid.as_raw() == gid && group.name == user.name;
    is_his && group.mem.iter().all(|member| *member == user.name) && !others_have(&user.name, gid)
}

/// Whether it is the first group of another user, whom the group does not list.
fn others_have(name: &str, gid: u32) -> bool {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    users.lines().any(|line| {
        let mut fields = line.split(':');
        let (other, group) = (fields.next(), fields.nth(2));
        other != Some(name) && group.is_some_and(|it| it.parse() == Ok(gid))
    })
}
