//! The rights of another user for the file system, taken by one thread for a while.

use std::io;

use nix::unistd::{setfsgid, setfsuid};
use rustix::fs::Gid;
use rustix::process::getgroups;
use rustix::thread::set_thread_groups;

/// A user and a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

/// The file-system rights of an owner: as long as this value lives, its thread opens and makes
/// files as that owner would, so that a link which the owner has planted leads nowhere that the
/// owner could not go. Only root can take them.
pub struct ActingAs {
    before: Owner,
    groups: Vec<Gid>,
}

impl ActingAs {
    pub fn start(owner: Owner) -> io::Result<Self> {
        let groups = getgroups()?;
        set_thread_groups(&[])?;
        // The group goes first: without root's user the right to change it is gone.
        let gid = setfsgid(owner.gid.into()).as_raw();
        let uid = setfsuid(owner.uid.into()).as_raw();
        // A refusal is no error of these calls. It is dropped below, which takes back what was not
        // refused.
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

/// What file-system rights this thread has: a number that stands for nobody changes nothing, and
/// both calls say what was in force.
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
