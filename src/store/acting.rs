//! The rights of another user for the file system, taken by one thread for a while.

use std::io;

use anyhow::{Context, Result};
use nix::unistd::{setfsgid, setfsuid};
use rustix::fs::{Gid, Uid};
use rustix::process::getgroups;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// A user and a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
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
    /// Takes the rights of an owner and of these groups besides the owner's.
    pub fn start(owner: Owner, others: &[Gid]) -> io::Result<Self> {
        let groups = getgroups()?;
        set_thread_groups(others)?;
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
    let _acting = owner.map(|owner| ActingAs::start(owner, &[])).transpose()?;
    Ok(act()?)
}

/// Does something with all the rights of an owner and no others, in a thread of its own: the right
/// to send signals goes by the user, not by the rights for the file system.
pub fn with_rights_of<T: Send>(owner: Owner, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let act = || {
        let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
        set_thread_groups(&[])
            .and_then(|()| set_thread_res_gid(gid, gid, gid))
            .and_then(|()| set_thread_res_uid(uid, uid, uid))
            .with_context(|| format!("could not take the rights of user {}", owner.uid))?;
        act()
    };
    std::thread::scope(|threads| {
        let ended = threads.spawn(act).join();
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
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
            assert!(ActingAs::start(other, &[]).is_err());
            assert_eq!(own(), before);
            return;
        }
        let acting = ActingAs::start(other, &[]).unwrap();
        assert_eq!(own(), (other, Vec::new(), 0));
        drop(acting);
        assert_eq!(own(), before);
        let within = with_rights_of(other, || Ok(own())).unwrap();
        assert_eq!(within, (other, Vec::new(), other.uid));
        assert_eq!(own(), before);
    }
}
