//! Files at paths where other users may have put something else, and the identity of another user to
//! work on them with. A symbolic link, also one on the way, counts only if root or this user has made
//! it, and nothing that blocks holds up a program that is often root in somebody else's directory.

use std::collections::VecDeque;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use nix::unistd::{Group, User, getgrouplist, setfsgid, setfsuid};
use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Gid, Mode, OFlags, PROC_SUPER_MAGIC, Stat, Uid, fchmod,
    fchown, fcntl_getfl, fcntl_setfl, flock, fstat, fstatfs, openat, readlinkat, renameat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::process::getgroups;
use rustix::thread::set_thread_groups;

use crate::lock;

/// No file that tells the program what to do is longer.
const LONGEST: u64 = 1024 * 1024;

pub const GROUP_WRITE: u32 = 0o020;
pub const OTHERS_WRITE: u32 = 0o002;
const GROUP_READ: u32 = 0o040;
const OTHERS_READ: u32 = 0o004;
const STICKY: u32 = 0o1000;

/// Where the kernel keeps the access control list of a file.
const ACL: &str = "system.posix_acl_access";

/// What somebody else has put at a path must not block, become the terminal or stay open in a handler.
pub const OPEN: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
pub const OPEN_PATH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// How often, and after which pause, the lock of a directory is tried.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// As many links on a path as the kernel follows.
const MOST_LINKS: usize = 40;

/// Root and this user could send this process anywhere without a link.
pub fn is_trusted(uid: u32) -> bool {
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
pub fn path_of(descriptor: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd()).into()
}

/// Opens a file to append to it, and makes it with this mode, less the umask, if there is none.
pub fn append(path: &Path, mode: u32) -> io::Result<File> {
    open(path, OFlags::APPEND | OFlags::CREATE | OFlags::WRONLY, mode)
}

pub fn create(path: &Path) -> io::Result<File> {
    open(path, OFlags::TRUNC | OFlags::CREATE | OFlags::WRONLY, 0o666)
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
    let bytes = match followed.read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read?.0,
    };
    followed.replace(&change(&bytes)?, mode)
}

fn open(path: &Path, flags: OFlags, mode: u32) -> io::Result<File> {
    let followed = Followed::new(path)?;
    let file = followed.open(flags, mode).map_err(|errno| match errno {
        Errno::NXIO => io::Error::other("it is a FIFO that nobody reads from"),
        errno => errno.into(),
    })?;
    let found = fstat(&file)?;
    let uid = found.st_uid;
    if !is_regular(&found) && !followed.is_kernels && !is_trusted(uid) {
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
    pub fn new(path: &Path) -> io::Result<Self> {
        Self::walk(path, &mut |name, uid| {
            if is_trusted(uid) { Ok(()) } else { Err(planted(path, name, uid)) }
        })
    }

    /// Follows a path, and asks about the owner of each link on it.
    fn walk(path: &Path, ask: &mut dyn FnMut(&OsStr, u32) -> io::Result<()>) -> io::Result<Self> {
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
                ask(&name, state.st_uid)?;
                let target = readlinkat(&found, "", Vec::new())?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    directory = beginning(&target)?;
                }
                components(&target).rev().for_each(|it| left.push_front(it));
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
    pub fn unfound(directory: OwnedFd, name: OsString) -> Self {
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
        let name = self.beside(".lock");
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
    fn beside(&self, end: &str) -> OsString {
        [OsStr::new("."), &self.name, OsStr::new(end)].join(OsStr::new(""))
    }

    fn replace(&self, bytes: &[u8], mode: u32) -> io::Result<()> {
        let found = self.target.as_ref().map(fstat).transpose()?;
        let is_other = self.is_kernels || self.name == ".";
        if is_other || found.as_ref().is_some_and(|it| !is_regular(it)) {
            // /dev/null would be a file from then on.
            return Err(io::Error::other("it is no regular file"));
        }
        let new = self.beside(&format!(".{}.new", std::process::id()));
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

    pub fn read(&self) -> io::Result<(Vec<u8>, Standing)> {
        read_to_end(self.open(OFlags::RDONLY, 0)?)
    }
}

/// A path without links, and what it led to when it was looked up: both of one walk.
pub struct Resolved {
    pub path: PathBuf,
    pub found: Option<Metadata>,
    /// Whose the directory is that it is in.
    pub directory: Metadata,
}

/// Resolves a path. For root it fails if a link on it is of somebody who is neither root nor the
/// owner of what it leads to: it must not have root work on what its maker has no right to.
pub fn resolve(path: &Path) -> io::Result<Resolved> {
    let mut links = Vec::new();
    let followed = Followed::walk(path, &mut |name, uid| {
        links.push((name.to_owned(), uid));
        Ok(())
    })?;
    let real = std::fs::read_link(path_of(&followed.directory))?.join(&followed.name);
    let found = followed.target.map(|target| File::from(target).metadata()).transpose()?;
    let directory = File::from(followed.directory).metadata()?;
    let owner = found.as_ref().unwrap_or(&directory).uid();
    let foreign = links.iter().find(|(_, uid)| is_root() && *uid != owner && !is_trusted(*uid));
    match foreign {
        Some((name, uid)) => Err(planted(path, name, *uid)),
        None => Ok(Resolved { path: real, found, directory }),
    }
}

pub const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The names on a path, `..` among them: what is above a directory is known only when it is open.
fn components(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    let is_name = |it: &Component| matches!(it, Component::Normal(_) | Component::ParentDir);
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

/// Reads a regular file from its beginning to its end, without waiting for anything.
pub fn read(path: &Path) -> io::Result<(Vec<u8>, Standing)> {
    read_to_end(openat(CWD, path, OFlags::RDONLY | OPEN, Mode::empty())?)
}

/// No file of certificates is longer.
const LONGEST_PEM: u64 = 64 * 1024 * 1024;

/// Reads a file of certificates or keys in the same way.
pub fn read_pem(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path, OFlags::RDONLY)?.take(LONGEST_PEM).read_to_end(&mut bytes)?;
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

fn read_to_end(file: OwnedFd) -> io::Result<(Vec<u8>, Standing)> {
    let standing = Standing::of(&path_of(&file))?;
    if !standing.found.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    File::from(file).take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::other(format!("it is longer than {LONGEST} bytes")));
    }
    Ok((bytes, standing))
}

/// Whether nobody but root and this user can change what is on the way to a path without links: all
/// directories above it are theirs, and nobody else can put anything in the place of what is there.
pub fn is_trusted_way(path: &Path) -> bool {
    let is_theirs = |directory: &Path| {
        let is_last = path.parent() == Some(directory);
        std::fs::symlink_metadata(directory).is_ok_and(|found| {
            let is_shared = found.mode() & (GROUP_WRITE | OTHERS_WRITE) != 0;
            is_trusted(found.uid()) && (!is_shared || !is_last && found.mode() & STICKY != 0)
        })
    };
    path.ancestors().skip(1).all(is_theirs)
}

/// The first directory above a path that has no links which is not root's, and whose it is.
pub fn not_roots_above(path: &Path) -> Option<(PathBuf, u32)> {
    path.ancestors().skip(1).find_map(|directory| {
        let uid = std::fs::symlink_metadata(directory).ok()?.uid();
        (uid != 0).then(|| (directory.to_path_buf(), uid))
    })
}

pub struct Standing {
    found: Metadata,
    /// Whether its access control list may name more users than its mode shows.
    has_acl: bool,
}

impl Standing {
    pub fn of(path: &Path) -> io::Result<Self> {
        let has_acl = rustix::fs::getxattr_query(path, ACL).is_ok_and(|length| length > 0);
        Ok(Self { found: std::fs::metadata(path)?, has_acl })
    }

    pub fn uid(&self) -> u32 {
        self.found.uid()
    }

    /// Why it is not only root's and this user's, if so.
    pub fn why_untrusted(&self) -> Option<String> {
        let (uid, gid, mode) = (self.found.uid(), self.found.gid(), self.found.mode());
        if !is_trusted(uid) {
            Some(format!("belongs to user {uid}"))
        } else if self.found.is_dir() && mode & STICKY != 0 {
            // Others can make files there, but put none in the place of this one.
            None
        } else if mode & OTHERS_WRITE != 0 {
            Some("can be written by everybody".into())
        } else if mode & GROUP_WRITE != 0 && self.has_acl {
            // These bits are what any user in the list may do at most.
            Some("can be written by users in its access control list".into())
        } else {
            let is_shared = mode & GROUP_WRITE != 0 && !is_private(uid, gid);
            is_shared.then(|| format!("can be written by group {gid}"))
        }
    }

    pub fn is_readable_by_others(&self) -> bool {
        let mode = self.found.mode();
        let is_of_one = !self.has_acl && is_private(self.found.uid(), self.found.gid());
        mode & OTHERS_READ != 0 || mode & GROUP_READ != 0 && !is_of_one
    }
}

/// Whether a group is that of one user only: his own, with his name, and nobody else's.
fn is_private(uid: u32, gid: u32) -> bool {
    let (user, group) = (User::from_uid(uid.into()), Group::from_gid(gid.into()));
    let (Ok(Some(user)), Ok(Some(group))) = (user, group) else { return false };
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

impl Owner {
    pub fn of(found: &Metadata) -> Self {
        Self { uid: found.uid(), gid: found.gid() }
    }
}

/// The file-system rights of an owner, which its thread has as long as this value lives: a link which
/// the owner has planted leads nowhere that the owner could not go. Only root can take them.
#[derive(Debug)]
pub struct ActingAs {
    before: Owner,
    groups: Vec<Gid>,
}

impl ActingAs {
    /// Takes the rights of an owner, in place of one's own groups too.
    pub fn start(owner: Owner) -> io::Result<Self> {
        let (groups, of_owner) = (getgroups()?, groups_of(owner.uid)?);
        set_thread_groups(&of_owner)?;
        // In the order in which they are taken back the other way round.
        let gid = setfsgid(owner.gid.into()).as_raw();
        let uid = setfsuid(owner.uid.into()).as_raw();
        // A refusal is no error of these calls. What was not refused is taken back by the drop.
        let acting = Self { before: Owner { uid, gid }, groups };
        if current() == owner { Ok(acting) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

impl Drop for ActingAs {
    fn drop(&mut self) {
        setfsuid(self.before.uid.into());
        setfsgid(self.before.gid.into());
        // The process had them before, and has the right to them again.
        let _ = set_thread_groups(&self.groups);
    }
}

/// A number that stands for nobody changes nothing, and both calls say what was in force.
fn current() -> Owner {
    let nobody = u32::MAX;
    Owner { uid: setfsuid(nobody.into()).as_raw(), gid: setfsgid(nobody.into()).as_raw() }
}

/// Does something with the rights of an owner, if there is one, else with one's own.
pub fn acting_as<T>(
    owner: Option<Owner>,
    act: impl FnOnce() -> rustix::io::Result<T>,
) -> io::Result<T> {
    let _acting = owner.map(ActingAs::start).transpose()?;
    Ok(act()?)
}

/// The groups that a user is in; none of a user whom nobody knows.
fn groups_of(uid: u32) -> io::Result<Vec<Gid>> {
    static KNOWN: Mutex<Vec<(u32, Vec<Gid>)>> = Mutex::new(Vec::new());
    let mut known = lock(&KNOWN);
    if let Some((_, groups)) = known.iter().find(|(it, _)| *it == uid) {
        return Ok(groups.clone());
    }
    let groups = match User::from_uid(uid.into())? {
        None => Vec::new(),
        Some(user) => getgrouplist(&CString::new(user.name)?, user.gid)?,
    };
    let groups: Vec<_> = groups.into_iter().map(|group| Gid::from_raw(group.as_raw())).collect();
    known.push((uid, groups.clone()));
    Ok(groups)
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

    #[test]
    fn rights_are_taken_for_a_while() {
        let own = || (current(), getgroups().unwrap(), rustix::process::geteuid().as_raw());
        let before = own();
        let other = Owner { uid: 65_534, gid: 65_533 };
        if before.2 != 0 {
            // A refusal leaves all as it was.
            assert!(ActingAs::start(other).is_err());
            assert_eq!(own(), before);
            return;
        }
        let acting = ActingAs::start(other).unwrap();
        assert_eq!(own(), (other, groups_of(other.uid).unwrap(), 0));
        drop(acting);
        assert_eq!(own(), before);
    }
}
