//! The only module that opens files. It follows no link of another user, and no FIFO or device blocks it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Gid, Mode, OFlags, PROC_SUPER_MAGIC, Stat, Uid, fchmod,
    fchown, fcntl_getfl, fcntl_setfl, flock, fstat, fstatfs, openat, readlinkat, renameat,
    unlinkat,
};
use rustix::io::Errno;

/// Size limit of configuration files.
const LONGEST: u64 = 1024 * 1024;
/// Size limit of certificates and of files in /proc.
const LONGEST_LARGE: u64 = 64 * LONGEST;

pub const GROUP_WRITE: u32 = 0o020;
pub const OTHERS_WRITE: u32 = 0o002;
pub const STICKY: u32 = 0o1000;

/// Flags against files of other users: they do not block, become the controlling terminal or stay open in a handler.
pub const OPEN: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
pub const OPEN_PATH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const OPEN_ENTRY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Maximum number of links on a path, as in the kernel.
const MOST_LINKS: usize = 40;

/// True for root and for this user, who need no link to make this process open another file.
pub fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub fn file_type(found: &Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode)
}

pub fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Reads a file that the user has named, without waiting.
pub fn read(path: &Path) -> io::Result<(Vec<u8>, Metadata)> {
    read_to_end(open_regular(path, OFlags::RDONLY)?)
}

/// Reads a file that the program has found, and returns the metadata of the file and of its directory.
pub fn read_with_directory(path: &Path) -> io::Result<(Vec<u8>, Metadata, Metadata)> {
    let followed = Followed::for_work(path)?;
    let (bytes, found) = read_to_end(followed.open(OFlags::RDONLY, 0)?.into())?;
    Ok((bytes, found, File::from(followed.directory).metadata()?))
}

pub fn read_large(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path.as_ref(), OFlags::RDONLY)?.take(LONGEST_LARGE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens an existing regular file, without waiting.
pub fn open_regular(path: &Path, flags: OFlags) -> io::Result<File> {
    let file = openat(CWD, path, flags | OPEN, Mode::empty())?;
    if file_type(&fstat(&file)?) == FileType::RegularFile {
        Ok(file.into())
    } else {
        Err(not_a_regular_file())
    }
}

/// Opens an open file again, to read it from the beginning.
pub fn reopen(file: &File) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

fn read_to_end(file: File) -> io::Result<(Vec<u8>, Metadata)> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(not_a_regular_file());
    }
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::other(format!("it is longer than {LONGEST} bytes")));
    }
    Ok((bytes, found))
}

/// Opens or creates a file to append to, with this mode minus the umask. A file that root creates belongs to the owner
/// of its directory. The path may also be a device of root or this user, or a link like /dev/stdout.
pub fn append(path: &Path, mode: u32) -> io::Result<File> {
    let followed = Followed::for_work(path)?;
    let file = match followed.open(OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE, mode) {
        // A FIFO without a reader.
        Err(Errno::NXIO) => return Err(not_a_regular_file()),
        file => file?,
    };
    let found = fstat(&file)?;
    // A FIFO is not allowed, because its reader may stop reading.
    let is_device = file_type(&found) == FileType::CharacterDevice && is_trusted(found.st_uid);
    if file_type(&found) != FileType::RegularFile && !is_device && !followed.is_proc_link {
        return Err(not_a_regular_file());
    }
    // For root the ownership rule applies instead, or was waived.
    if !is_root() && !followed.is_proc_link && followed.is_planted(&found)? {
        let uid = found.st_uid;
        return Err(io::Error::other(format!("it belongs to user {uid}; remove it")));
    }
    if followed.target.is_none() {
        followed.give_to_owner(&file)?;
    }
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file.into())
}

/// Creates a directory and those above it. Fails if a link on the way to it belongs to another user.
pub fn create_directories(path: &Path) -> io::Result<()> {
    let existing = path.ancestors().find(|path| path.symlink_metadata().is_ok());
    existing.map_or(Ok(()), |path| Followed::new(path).map(drop))?;
    std::fs::create_dir_all(path)
}

/// Creates an empty file. One that root creates belongs to the owner of its directory.
pub fn create(path: &Path) -> io::Result<()> {
    let followed = Followed::for_work(path)?;
    let file = followed.open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, 0o644)?;
    followed.give_to_owner(&file)
}

/// Replaces or creates a file atomically, without fsync. The owner and the permissions stay.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    Followed::new(path)?.replace(bytes, mode)
}

/// Replaces a file with its changed content. A lock orders several processes.
pub fn update(
    path: &Path,
    mode: u32,
    change: impl FnOnce(&[u8]) -> io::Result<Vec<u8>>,
) -> io::Result<()> {
    let followed = Followed::new(path)?;
    let _lock = followed.lock();
    let bytes = match followed.open(OFlags::RDONLY, 0) {
        Err(Errno::NOENT) => Vec::new(),
        file => read_to_end(file?.into())?.0,
    };
    followed.replace(&change(&bytes)?, mode)
}

/// Writes a new file with this mode minus the umask, and renames it in the same directory.
pub fn write_and_rename(
    directory: &OwnedFd,
    new: &OsStr,
    name: &OsStr,
    mode: u32,
    hand_over: impl FnOnce(&OwnedFd) -> rustix::io::Result<()>,
    bytes: &[u8],
) -> io::Result<()> {
    // A killed process may have left it.
    let _ = unlinkat(directory, new, AtFlags::empty());
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OPEN;
    let file = openat(directory, new, flags, Mode::from_bits_retain(mode))?;
    let put = || {
        hand_over(&file)?;
        File::from(file).write_all(bytes)?;
        Ok(renameat(directory, new, directory, name)?)
    };
    put().inspect_err(|_: &io::Error| {
        let _ = unlinkat(directory, new, AtFlags::empty());
    })
}

/// Sets owner, group and mode as far as this user can. If the group differs, it gets only the permissions of others.
pub fn give(file: impl AsFd, uid: u32, gid: u32, mode: u32) -> rustix::io::Result<()> {
    let group = Some(Gid::from_raw(gid));
    if fchown(&file, Some(Uid::from_raw(uid)), group).is_err() {
        let _ = fchown(&file, None, group);
    }
    let is_kept = fstat(&file)?.st_gid == gid;
    let mode = if is_kept { mode } else { mode & !0o070 | (mode & 0o007) << 3 };
    fchmod(&file, Mode::from_bits_retain(mode & 0o777))
}

/// A path after its links were followed one by one: the open directory, and the name in it.
pub struct Followed {
    pub directory: OwnedFd,
    pub name: OsString,
    target: Option<Stat>,
    /// The name is a link in /proc to an open file.
    is_proc_link: bool,
}

impl Followed {
    /// True for a file that another user may have put into a directory that everybody can write.
    fn is_planted(&self, found: &Stat) -> io::Result<bool> {
        Ok(!is_trusted(found.st_uid) && fstat(&self.directory)?.st_mode & OTHERS_WRITE != 0)
    }

    fn give_to_owner(&self, file: &OwnedFd) -> io::Result<()> {
        if is_root() {
            let found = fstat(&self.directory)?;
            fchown(file, Some(Uid::from_raw(found.st_uid)), Some(Gid::from_raw(found.st_gid)))?;
        }
        Ok(())
    }

    /// Follows a path whose links belong to root or this user.
    fn new(path: &Path) -> io::Result<Self> {
        Self::walk(path, &mut |place, found| {
            if file_type(found) == FileType::Symlink && !is_trusted(found.st_uid) {
                return Err(foreign_link(path, place, found.st_uid));
            }
            Ok(())
        })
    }

    /// [`new`](Self::new) for files of a pass. For root the ownership rule applies instead, or was waived.
    pub fn for_work(path: &Path) -> io::Result<Self> {
        if is_root() { Self::walk(path, &mut |_, _| Ok(())) } else { Self::new(path) }
    }

    /// Follows a path, and passes each directory, link and file on it to `visit`.
    pub fn walk(
        path: &Path,
        visit: &mut dyn FnMut(&Path, &Stat) -> io::Result<()>,
    ) -> io::Result<Self> {
        let mut left: VecDeque<_> = components(path).collect();
        let beginning = if path.is_absolute() { "/" } else { "." };
        let mut directory = openat(CWD, beginning, OPEN_PATH, Mode::empty())?;
        let (mut place, mut links) = (PathBuf::new(), 0);
        while let Some(name) = left.pop_front() {
            if name != ".." || !place.pop() {
                place.push(&name);
            }
            let found = match openat(&directory, &name, OPEN_ENTRY, Mode::empty()) {
                Err(Errno::NOENT) if left.is_empty() => {
                    return Ok(Self { directory, name, target: None, is_proc_link: false });
                }
                found => found?,
            };
            let state = fstat(&found)?;
            visit(&place, &state)?;
            let is_link = file_type(&state) == FileType::Symlink;
            let is_proc_link = is_link && fstatfs(&found)?.f_type == PROC_SUPER_MAGIC;
            if is_link && !is_proc_link {
                links += 1;
                if links > MOST_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let target = readlinkat(&found, "", Vec::new())?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                components(&target).rev().for_each(|name| left.push_front(name));
                place.pop();
            } else if left.is_empty() {
                return Ok(Self { directory, name, target: Some(state), is_proc_link });
            } else {
                let link = if is_proc_link { OFlags::empty() } else { OFlags::NOFOLLOW };
                directory = openat(&directory, &name, OPEN_PATH | link, Mode::empty())?;
            }
        }
        Ok(Self { directory, name: ".".into(), target: None, is_proc_link: false })
    }

    fn open(&self, flags: OFlags, mode: u32) -> rustix::io::Result<OwnedFd> {
        let link = if self.is_proc_link { OFlags::empty() } else { OFlags::NOFOLLOW };
        openat(&self.directory, &self.name, flags | link | OPEN, Mode::from_bits_retain(mode))
    }

    /// Locks out other updates, by a file that no other user can open. If that fails, metrics may be of an older pass.
    fn lock(&self) -> Option<OwnedFd> {
        let name = self.hidden(".lock");
        let flags = OFlags::CREATE | OFlags::NOFOLLOW | OFlags::RDWR | OPEN;
        let file = openat(&self.directory, &name, flags, Mode::RUSR | Mode::WUSR).ok()?;
        let is_locked = (0..LOCK_TRIES).any(|_| {
            let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
            locked.inspect_err(|_| std::thread::sleep(LOCK_PAUSE)).is_ok()
        });
        is_locked.then_some(file)
    }

    fn hidden(&self, end: &str) -> OsString {
        [OsStr::new("."), &self.name, OsStr::new(end)].join(OsStr::new(""))
    }

    fn replace(&self, bytes: &[u8], mode: u32) -> io::Result<()> {
        let found = self.target.as_ref();
        let is_other = found.is_some_and(|found| file_type(found) != FileType::RegularFile);
        if is_other || self.name == "." {
            // /dev/null would become a file.
            return Err(not_a_regular_file());
        }
        let is_planted = found.map_or(Ok(false), |found| self.is_planted(found))?;
        let keep = |file: &OwnedFd| match found.filter(|_| !is_planted) {
            Some(found) => give(file, found.st_uid, found.st_gid, found.st_mode),
            None => Ok(()),
        };
        let new = self.hidden(&format!(".{}.new", std::process::id()));
        write_and_rename(&self.directory, &new, &self.name, mode, keep, bytes)
    }
}

/// The names on a path. `..` stays, because the parent of a directory is known only when it is open.
fn components(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    let is_name = |part: &Component| *part != Component::CurDir;
    path.components().filter(is_name).map(|name| name.as_os_str().to_owned())
}

pub fn not_a_regular_file() -> io::Error {
    io::Error::other("it is not a regular file")
}

fn foreign_link(path: &Path, place: &Path, uid: u32) -> io::Error {
    let suffix =
        if place == path { String::new() } else { format!(" on the way to {}", path.display()) };
    let place = place.display();
    let message = format!(
        "{place}{suffix} is a symbolic link of user {uid}, which is followed only if root or this user owns it; \
         name its target"
    );
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_at_once_and_keeps_its_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let mode = |name: &str| fs::metadata(path(name)).unwrap().mode() & 0o777;
        replace(&path("page"), b"one", 0o600).unwrap();
        assert_eq!((fs::read(path("page")).unwrap(), mode("page")), (b"one".to_vec(), 0o600));
        fs::set_permissions(path("page"), fs::Permissions::from_mode(0o640)).unwrap();
        let reader = File::open(path("page")).unwrap();
        // The remains of a killed process, as a link.
        let left = format!(".page.{}.new", std::process::id());
        symlink(path("elsewhere"), path(&left)).unwrap();
        symlink("page", path("link")).unwrap();
        replace(&path("link"), b"two", 0o644).unwrap();
        assert_eq!((fs::read(path("page")).unwrap(), mode("page")), (b"two".to_vec(), 0o640));
        assert_eq!(io::read_to_string(reader).unwrap(), "one");
        assert!(path("link").is_symlink());
        let mut names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["link", "page"]);
    }

    #[test]
    fn only_regular_files_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        for (path, why) in [
            (dir.path().to_path_buf(), "not a regular file"),
            ("/dev/null".into(), "not a regular file"),
            (".".into(), "not a regular file"),
            ("/proc/self/fd/1".into(), "not a regular file"),
            (dir.path().join("none/page"), "No such file"),
        ] {
            let error = replace(&path, b"", 0o644).unwrap_err();
            assert!(error.to_string().contains(why), "{}: {error}", path.display());
        }
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
