//! The identity of another user for the file system, taken by one thread for a while.

use std::ffi::CString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;

use nix::unistd::{User, getgrouplist, setfsgid, setfsuid};
use rustix::fs::Gid;
use rustix::process::getgroups;
use rustix::thread::set_thread_groups;

use crate::lock::lock;

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

/// The file-system rights of an owner: as long as this value lives, its thread opens and makes
/// files as that owner would, so that a link which the owner has planted leads nowhere that the
/// owner could not go. Only root can take them.
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
    use super::*;

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
