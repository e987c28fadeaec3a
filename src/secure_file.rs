//! The one place that opens files. Where other users may have put something, a symbolic link counts only if
//! root or this user has made it, and neither a FIFO nor a device holds the program up.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
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
/// No file of certificates is longer.
const LONGEST_PEM: u64 = 64 * 1024 * 1024;

pub const GROUP_WRITE: u32 = 0o020;
pub const OTHERS_WRITE: u32 = 0o002;
const GROUP_READ: u32 = 0o040;
pub const STICKY: u32 = 0o1000;

/// What somebody else has put at a path must not block, become the terminal or stay open in a handler.
pub const OPEN: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const OPEN_PATH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How often, and after which pause, the lock of a directory is tried.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// As many links on a path as the kernel follows.
pub const MOST_LINKS: usize = 40;

/// Whether a user could send this process anywhere without a link: root and this user.
pub fn is_own(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether what was found is a file, and no FIFO, device, socket, link or directory.
pub fn is_regular(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
}

/// Whether both are of the same file, whatever its names are.
pub fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// The path that stands for something open, whatever has become of its name.
fn path_of(descriptor: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd()).into()
}

/// Reads a file that was named from its beginning to its end, without waiting for anything.
pub fn read(path: &Path) -> io::Result<(Vec<u8>, Metadata)> {
    read_to_end(open_regular(path, OFlags::RDONLY)?)
}

/// Reads a file that nobody has named, and returns the directory that it is in as well.
pub fn read_found(path: &Path) -> io::Result<(Vec<u8>, Metadata, Metadata)> {
    let followed = Followed::to_work_in(path)?;
    let (bytes, found) = read_to_end(followed.open(OFlags::RDONLY, 0)?.into())?;
    Ok((bytes, found, File::from(followed.directory).metadata()?))
}

/// Reads a file of certificates or keys in the same way as [`read`].
pub fn read_pem(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path, OFlags::RDONLY)?.take(LONGEST_PEM).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads what the kernel says of processes in /proc.
pub fn read_proc(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path.as_ref(), OFlags::RDONLY)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file that is there, without waiting for anything.
pub fn open_regular(path: &Path, flags: OFlags) -> io::Result<File> {
    let file = openat(CWD, path, flags | OPEN, Mode::empty())?;
    if !is_regular(&fstat(&file)?) {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(file.into())
}

/// Opens a file anew that is open, to read it from its beginning.
pub fn reopen(file: &File) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path_of(file), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

fn read_to_end(file: File) -> io::Result<(Vec<u8>, Metadata)> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::other(format!("it is longer than {LONGEST} bytes")));
    }
    Ok((bytes, found))
}

/// Opens a file to append to it, and makes it with this mode, less the umask, if there is none.
pub fn append(path: &Path, mode: u32) -> io::Result<File> {
    open(&Followed::to_work_in(path)?, OFlags::APPEND | OFlags::CREATE, mode)
}

pub fn create(path: &Path) -> io::Result<File> {
    open(&Followed::new(path)?, OFlags::TRUNC | OFlags::CREATE, 0o666)
}

/// Makes an empty file. Made by root, it belongs to the owner of its directory.
pub fn make(path: &Path) -> io::Result<()> {
    let followed = Followed::to_work_in(path)?;
    let file = followed.open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, 0o644)?;
    if is_root() {
        let found = fstat(&followed.directory)?;
        fchown(&file, Some(Uid::from_raw(found.st_uid)), Some(Gid::from_raw(found.st_gid)))?;
    }
    Ok(())
}

/// Replaces a file at once, so that nobody reads a half of it, or makes one with this mode, less the umask.
/// One that is there keeps its owner and its permissions, which may keep others from reading it. Nothing
/// is synced: what is replaced so is soon made again.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    Followed::new(path)?.replace(bytes, mode)
}

/// The same, but a link in the place of the file is no file, nor is one of its directory followed.
pub fn replace_unfollowed(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let name = path.file_name().ok_or(Errno::ISDIR)?.to_owned();
    let above = path.parent().unwrap_or(Path::new("/"));
    let directory = openat(CWD, above, OPEN_PATH | OFlags::NOFOLLOW, Mode::empty())?;
    let target = match openat(&directory, &name, LOOK, Mode::empty()) {
        Err(Errno::NOENT) => None,
        found => Some(found?),
    };
    Followed { directory, name, target, is_kernels: false }.replace(bytes, mode)
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

fn open(followed: &Followed, flags: OFlags, mode: u32) -> io::Result<File> {
    let file = followed.open(flags | OFlags::WRONLY, mode).map_err(|errno| match errno {
        Errno::NXIO => io::Error::other("it is a FIFO that nobody reads from"),
        errno => errno.into(),
    })?;
    let found = fstat(&file)?;
    let uid = found.st_uid;
    if !is_regular(&found) && !followed.is_kernels && !is_own(uid) {
        // Its owner could let this process wait for ever.
        return Err(io::Error::other(format!("it is no regular file, but one of user {uid}")));
    }
    if FileType::from_raw_mode(found.st_mode) == FileType::Fifo && !followed.is_kernels {
        return Err(io::Error::other("it is a FIFO, whose reader need not go on"));
    }
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file.into())
}

/// Gives a new file the owner and the permissions of the one that it replaces. Where the group cannot be
/// kept another one must not have its rights.
fn take_after(file: &OwnedFd, found: &Stat) -> rustix::io::Result<()> {
    let own = fstat(file)?;
    let mut mode = found.st_mode & 0o777;
    let owner = (found.st_uid != own.st_uid).then(|| Uid::from_raw(found.st_uid));
    let group = (found.st_gid != own.st_gid).then(|| Gid::from_raw(found.st_gid));
    if owner.is_some() {
        // Only root can, and who may write the directory may replace the file all the same.
        let _ = fchown(file, owner, None);
    }
    if group.is_some() && fchown(file, None, group).is_err() {
        mode &= !(GROUP_READ | GROUP_WRITE);
    }
    fchmod(file, Mode::from_bits_retain(mode))
}

/// A path whose links were followed one by one, each of them one of root's or of this user's: what
/// it ends in, and the open directory that this is in. What is not there may yet be made.
pub struct Followed {
    pub directory: OwnedFd,
    pub name: OsString,
    /// What it ends in, if that is there. It is not open for reading or writing.
    target: Option<OwnedFd>,
    /// Whether the name is a link of the kernel's in /proc, which stands for something open.
    is_kernels: bool,
}

impl Followed {
    fn new(path: &Path) -> io::Result<Self> {
        Self::by(path, is_own)
    }

    /// The same for what a pass works with. Root's own rule is stricter, or was waived.
    pub fn to_work_in(path: &Path) -> io::Result<Self> {
        Self::by(path, |uid| is_root() || is_own(uid))
    }

    /// The place beside a file, in the very directory that this is found in.
    pub fn beside(path: &Path, file: &Metadata) -> io::Result<Self> {
        let above = path.parent().unwrap_or(Path::new("/"));
        let name = path.file_name().unwrap_or_default();
        let directory = openat(CWD, above, OPEN_PATH, Mode::empty())?;
        // It is called after the file.
        let found = openat(&directory, Path::new(name).with_extension(""), LOOK, Mode::empty())?;
        if !is_same(&File::from(found).metadata()?, file) {
            return Err(io::Error::other("the database was moved or replaced just now; try again"));
        }
        Ok(Self::unfound(directory, name.into()))
    }

    /// Follows a path whose links have such owners.
    fn by(path: &Path, is_owner: fn(u32) -> bool) -> io::Result<Self> {
        let beginning = |path: &Path| {
            let directory = if path.is_absolute() { "/" } else { "." };
            openat(CWD, directory, OPEN_PATH, Mode::empty())
        };
        let mut left: VecDeque<_> = components(path).collect();
        let mut directory = beginning(path)?;
        let mut links = 0;
        while let Some(name) = left.pop_front() {
            let found = match openat(&directory, &name, LOOK, Mode::empty()) {
                Ok(found) => found,
                Err(Errno::NOENT) if left.is_empty() => {
                    return Ok(Self::unfound(directory, name));
                }
                Err(errno) => return Err(errno.into()),
            };
            let state = fstat(&found)?;
            let is_link = FileType::from_raw_mode(state.st_mode) == FileType::Symlink;
            let is_kernels = is_link && fstatfs(&found)?.f_type == PROC_SUPER_MAGIC;
            if is_link && !is_kernels {
                links += 1;
                if links > MOST_LINKS {
                    return Err(Errno::LOOP.into());
                }
                if !is_owner(state.st_uid) {
                    return Err(planted(path, &name, state.st_uid));
                }
                let target = readlinkat(&found, "", Vec::new())?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    directory = beginning(&target)?;
                }
                components(&target).rev().for_each(|name| left.push_front(name));
            } else if left.is_empty() {
                return Ok(Self { directory, name, target: Some(found), is_kernels });
            } else if is_kernels {
                directory = openat(&directory, &name, OPEN_PATH, Mode::empty())?;
            } else {
                directory = found;
            }
        }
        Ok(Self::unfound(directory, ".".into()))
    }

    /// A name in a directory, behind which nothing was looked for or found.
    fn unfound(directory: OwnedFd, name: OsString) -> Self {
        Self { directory, name, target: None, is_kernels: false }
    }

    /// Opens what the path ends in, without waiting for anything.
    fn open(&self, flags: OFlags, mode: u32) -> rustix::io::Result<OwnedFd> {
        let no_follow = if self.is_kernels { OFlags::empty() } else { OFlags::NOFOLLOW };
        let mode = Mode::from_bits_retain(mode);
        openat(&self.directory, &self.name, flags | no_follow | OPEN, mode)
    }

    /// Locks the file against other processes of this user that update it, until the descriptor is closed.
    /// The lock is on a file of its own, which nobody else can open: the directory everybody may lock. Who
    /// cannot make it, or waits in vain, goes without: at worst the figures of another line are those of
    /// its last pass but one.
    fn lock(&self) -> Option<OwnedFd> {
        let name = self.hidden(".lock");
        let flags = OFlags::CREATE | OFlags::NOFOLLOW | OFlags::RDWR | OPEN;
        let file = openat(&self.directory, &name, flags, Mode::RUSR | Mode::WUSR).ok()?;
        for _ in 0..LOCK_TRIES {
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return Some(file);
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        None
    }

    /// The name of a hidden file of this process's in the same directory.
    fn hidden(&self, end: &str) -> OsString {
        [OsStr::new("."), &self.name, OsStr::new(end)].join(OsStr::new(""))
    }

    fn replace(&self, bytes: &[u8], mode: u32) -> io::Result<()> {
        let found = self.target.as_ref().map(fstat).transpose()?;
        let is_other = self.is_kernels || self.name == ".";
        if is_other || found.as_ref().is_some_and(|found| !is_regular(found)) {
            // /dev/null would be a file from then on.
            return Err(io::Error::other("it is no regular file"));
        }
        let new = self.hidden(&format!(".{}.new", std::process::id()));
        // Of a process that was killed and had the same number.
        let _ = unlinkat(&self.directory, &new, AtFlags::empty());
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OPEN;
        let file = openat(&self.directory, &new, flags, Mode::from_bits_retain(mode))?;
        let kept = found.map_or(Ok(()), |found| take_after(&file, &found));
        let written = kept.map_err(io::Error::from).and_then(|()| self.put(&new, file, bytes));
        written.inspect_err(|_| {
            let _ = unlinkat(&self.directory, &new, AtFlags::empty());
        })
    }

    /// Writes a new file in the same directory, and gives it the name that the path ends in.
    fn put(&self, new: &OsStr, file: OwnedFd, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::from(file);
        file.write_all(bytes)?;
        Ok(renameat(&self.directory, new, &self.directory, &self.name)?)
    }
}

/// The names on a path, `..` among them: what is above a directory is known only when it is open.
pub fn components(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    let is_name = |part: &Component| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().filter(is_name).map(|name| name.as_os_str().to_owned())
}

fn planted(path: &Path, name: &OsStr, uid: u32) -> io::Error {
    let path_shown = path.display();
    let which = if path.ends_with(name) {
        path_shown.to_string()
    } else {
        format!("{} on the way to {path_shown}", name.display())
    };
    let why = format!(
        "{which} is a symbolic link of user {uid}, which is followed only if root or this user has \
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
