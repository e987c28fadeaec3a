//! The one place that opens files. No link of another user is followed, and no FIFO or device blocks.

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

/// No file that tells the program what to do is longer.
const LONGEST: u64 = 1024 * 1024;
/// No file of certificates is longer, nor what the kernel says of a process.
const LONGEST_LARGE: u64 = 64 * LONGEST;

pub const GROUP_WRITE: u32 = 0o020;
pub const OTHERS_WRITE: u32 = 0o002;
pub const STICKY: u32 = 0o1000;

/// What somebody else has put at a path must not block, become the terminal or stay open in a handler.
pub const OPEN: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
/// A directory in which others are opened.
pub const OPEN_PATH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How often, and after which pause, the lock of a file is tried.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// As many links on a path as the kernel follows.
const MOST_LINKS: usize = 40;

/// Whether a user could send this process anywhere without a link: root and this user.
pub fn is_own(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub fn kind(found: &Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode)
}

/// Whether both are of the same file, whatever its names are.
pub fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Reads a file that was named from its beginning to its end, without waiting for anything.
pub fn read(path: &Path) -> io::Result<(Vec<u8>, Metadata)> {
    read_to_end(open_regular(path, OFlags::RDONLY)?)
}

/// Reads a file that nobody has named, and returns the directory that it is in as well.
pub fn read_with_directory(path: &Path) -> io::Result<(Vec<u8>, Metadata, Metadata)> {
    let followed = Followed::for_work(path)?;
    let (bytes, found) = read_to_end(followed.open(OFlags::RDONLY, 0)?.into())?;
    Ok((bytes, found, File::from(followed.directory).metadata()?))
}

/// Reads a file of certificates or keys, or what the kernel says in /proc.
pub fn read_large(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path.as_ref(), OFlags::RDONLY)?.take(LONGEST_LARGE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file that is there, without waiting for anything.
pub fn open_regular(path: &Path, flags: OFlags) -> io::Result<File> {
    let file = openat(CWD, path, flags | OPEN, Mode::empty())?;
    if kind(&fstat(&file)?) == FileType::RegularFile {
        Ok(file.into())
    } else {
        Err(not_a_regular_file())
    }
}

/// Opens a file anew that is open, to read it from its beginning.
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

/// Opens or makes a file to append to, with this mode, less the umask. Made by root, it belongs to the
/// owner of its directory. It may be a device of root's or of this user's, or what /dev/stdout stands for.
pub fn append(path: &Path, mode: u32) -> io::Result<File> {
    let followed = Followed::for_work(path)?;
    let file = match followed.open(OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE, mode) {
        // A FIFO that nobody reads from.
        Err(Errno::NXIO) => return Err(not_a_regular_file()),
        file => file?,
    };
    let found = fstat(&file)?;
    // The reader of a FIFO need not go on.
    let is_device = kind(&found) == FileType::CharacterDevice && is_own(found.st_uid);
    if kind(&found) != FileType::RegularFile && !is_device && !followed.is_kernels {
        return Err(not_a_regular_file());
    }
    if followed.target.is_none() {
        followed.give_to_owner(&file)?;
    }
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file.into())
}

/// Makes an empty file. Made by root, it belongs to the owner of its directory.
pub fn make(path: &Path) -> io::Result<()> {
    let followed = Followed::for_work(path)?;
    let file = followed.open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, 0o644)?;
    followed.give_to_owner(&file)
}

/// Replaces or makes a file atomically. The owner and the permissions stay. Nothing is synced.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    Followed::new(path)?.replace(bytes, mode)
}

/// Replaces a file by what is made of it, in the same way; of several processes one after the other.
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

/// Writes a new file with this mode, less the umask, and gives it a name in the same directory.
pub fn put(
    directory: &OwnedFd,
    new: &OsStr,
    name: &OsStr,
    mode: u32,
    hand_over: impl FnOnce(&OwnedFd) -> rustix::io::Result<()>,
    bytes: &[u8],
) -> io::Result<()> {
    // Of a process that was killed.
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

/// Gives a file an owner, a group and a mode, as far as this user can: only root gives files away. Where
/// the group cannot be kept another one gets only what everybody may do.
pub fn give(file: impl AsFd, uid: u32, gid: u32, mode: u32) -> rustix::io::Result<()> {
    let group = Some(Gid::from_raw(gid));
    if fchown(&file, Some(Uid::from_raw(uid)), group).is_err() {
        let _ = fchown(&file, None, group);
    }
    let is_kept = fstat(&file)?.st_gid == gid;
    let mode = if is_kept { mode } else { mode & !0o070 | (mode & 0o007) << 3 };
    fchmod(&file, Mode::from_bits_retain(mode & 0o777))
}

/// A path whose links were followed one by one: the open directory, and the name in it.
pub struct Followed {
    pub directory: OwnedFd,
    pub name: OsString,
    /// What it ends in, if that is there.
    target: Option<Stat>,
    /// Whether the name is a link of the kernel's in /proc, which stands for something open.
    is_kernels: bool,
}

impl Followed {
    fn give_to_owner(&self, file: &OwnedFd) -> io::Result<()> {
        if is_root() {
            let found = fstat(&self.directory)?;
            fchown(file, Some(Uid::from_raw(found.st_uid)), Some(Gid::from_raw(found.st_gid)))?;
        }
        Ok(())
    }

    /// Follows a path whose links are of root's or of this user's.
    fn new(path: &Path) -> io::Result<Self> {
        Self::walk(path, &mut |place, found| {
            if kind(found) == FileType::Symlink && !is_own(found.st_uid) {
                return Err(planted(path, place, found.st_uid));
            }
            Ok(())
        })
    }

    /// The same for what a pass works with. Root's own rule is stricter, or was waived.
    pub fn for_work(path: &Path) -> io::Result<Self> {
        if is_root() { Self::walk(path, &mut |_, _| Ok(())) } else { Self::new(path) }
    }

    /// Follows a path, and shows each directory, link and file on it.
    pub fn walk(
        path: &Path,
        see: &mut dyn FnMut(&Path, &Stat) -> io::Result<()>,
    ) -> io::Result<Self> {
        let mut left: VecDeque<_> = components(path).collect();
        let beginning = if path.is_absolute() { "/" } else { "." };
        let mut directory = openat(CWD, beginning, OPEN_PATH, Mode::empty())?;
        let (mut place, mut links) = (PathBuf::new(), 0);
        while let Some(name) = left.pop_front() {
            if name != ".." || !place.pop() {
                place.push(&name);
            }
            let found = match openat(&directory, &name, LOOK, Mode::empty()) {
                Err(Errno::NOENT) if left.is_empty() => {
                    return Ok(Self { directory, name, target: None, is_kernels: false });
                }
                found => found?,
            };
            let state = fstat(&found)?;
            see(&place, &state)?;
            let is_link = kind(&state) == FileType::Symlink;
            let is_kernels = is_link && fstatfs(&found)?.f_type == PROC_SUPER_MAGIC;
            if is_link && !is_kernels {
                links += 1;
                if links > MOST_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let target = readlinkat(&found, "", Vec::new())?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                components(&target).rev().for_each(|name| left.push_front(name));
                place.pop();
            } else if left.is_empty() {
                return Ok(Self { directory, name, target: Some(state), is_kernels });
            } else {
                let link = if is_kernels { OFlags::empty() } else { OFlags::NOFOLLOW };
                directory = openat(&directory, &name, OPEN_PATH | link, Mode::empty())?;
            }
        }
        Ok(Self { directory, name: ".".into(), target: None, is_kernels: false })
    }

    fn open(&self, flags: OFlags, mode: u32) -> rustix::io::Result<OwnedFd> {
        let link = if self.is_kernels { OFlags::empty() } else { OFlags::NOFOLLOW };
        openat(&self.directory, &self.name, flags | link | OPEN, Mode::from_bits_retain(mode))
    }

    /// Locks the file, by one of its own that nobody else can open, against other updates of this
    /// user. Without the lock, the figures of a line may be those of its last pass but one.
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

    /// The name of a hidden file of this process's in the same directory.
    fn hidden(&self, end: &str) -> OsString {
        [OsStr::new("."), &self.name, OsStr::new(end)].join(OsStr::new(""))
    }

    fn replace(&self, bytes: &[u8], mode: u32) -> io::Result<()> {
        let found = self.target.as_ref();
        let is_other = found.is_some_and(|found| kind(found) != FileType::RegularFile);
        if is_other || self.name == "." {
            // /dev/null would be a file from then on.
            return Err(not_a_regular_file());
        }
        let keep = |file: &OwnedFd| match found {
            Some(found) => give(file, found.st_uid, found.st_gid, found.st_mode),
            None => Ok(()),
        };
        let new = self.hidden(&format!(".{}.new", std::process::id()));
        put(&self.directory, &new, &self.name, mode, keep, bytes)
    }
}

/// The names on a path, `..` among them: what is above a directory is known only when it is open.
fn components(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    let is_name = |part: &Component| *part != Component::CurDir;
    path.components().filter(is_name).map(|name| name.as_os_str().to_owned())
}

pub fn not_a_regular_file() -> io::Error {
    io::Error::other("it is no regular file")
}

fn planted(path: &Path, place: &Path, uid: u32) -> io::Error {
    let (is_it, place, shown) = (place == path, place.display(), path.display());
    let way = if is_it { String::new() } else { format!(" on the way to {shown}") };
    let why = format!(
        "{place}{way} is a symbolic link of user {uid}, which is followed only if root or this user has \
         made it; name what it leads to"
    );
    io::Error::new(io::ErrorKind::PermissionDenied, why)
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
        // What a killed process has left, and what leads elsewhere.
        let left = format!(".page.{}.new", std::process::id());
        symlink(path("elsewhere"), path(&left)).unwrap();
        symlink("page", path("link")).unwrap();
        replace(&path("link"), b"two", 0o644).unwrap();
        assert_eq!((fs::read(path("page")).unwrap(), mode("page")), (b"two".to_vec(), 0o640));
        assert_eq!(io::read_to_string(reader).unwrap(), "one");
        assert!(path("link").is_symlink());
        let mut names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["link", "page"]);
    }

    #[test]
    fn what_is_no_file_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        for (path, why) in [
            (dir.path().to_path_buf(), "no regular file"),
            ("/dev/null".into(), "no regular file"),
            (".".into(), "no regular file"),
            ("/proc/self/fd/1".into(), "no regular file"),
            (dir.path().join("none/page"), "No such file"),
        ] {
            let error = replace(&path, b"", 0o644).unwrap_err();
            assert!(error.to_string().contains(why), "{}: {error}", path.display());
        }
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
