//! Handlers that have outlived their pass: how they are known, and their end.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable that marks a handler, and whatever it starts, as belonging to a pass.
pub const TOKEN: &str = "BACKLOG_PASS";

/// The name of the hidden subcommand that is the watchdog.
pub const WATCHDOG: &str = "watchdog";

/// So many scans of /proc in a row must find nobody: a handler that was just being started shows
/// its environment a moment later.
const QUIET_LOOKS: u32 = 3;
/// Whoever is there after so many starts processes faster than they can be ended.
const MOST_LOOKS: u32 = 2_000;
const BETWEEN_LOOKS: std::time::Duration = std::time::Duration::from_millis(1);

/// The mark of a pass's descendants: the token in its environment, or the descriptor of a pipe.
pub struct Mark {
    variable: Vec<u8>,
    /// `pipe:[NUMBER]`, where it is known.
    pub descriptor: Option<PathBuf>,
    /// When the pass began, in ticks since the machine did: what is older is none of its own,
    /// whatever it carries.
    since: u64,
    /// Only processes of this user count, where the token is that user's word. It is the real user
    /// who may send a process signals.
    pub only_of: Option<u32>,
}

impl Mark {
    pub fn new(token: &str, since: u64) -> Self {
        let variable = format!("{TOKEN}={token}").into_bytes();
        Self { variable, descriptor: None, since, only_of: None }
    }

    /// Kills every process that carries the mark, and what those were just starting, and waits
    /// until all are dead.
    pub fn kill_all(&self) -> Result<()> {
        let mut quiet = 0;
        for _ in 0..MOST_LOOKS {
            quiet = if self.kill_found()? == 0 { quiet + 1 } else { 0 };
            if quiet == QUIET_LOOKS {
                return Ok(());
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        bail!("could not end the handlers of a killed pass: they keep starting others")
    }

    /// The same for those that are there now; says how many there were.
    fn kill_found(&self) -> Result<usize> {
        let mut killed = Vec::new();
        for entry in fs::read_dir("/proc").context("could not read /proc")? {
            let number = entry.ok().and_then(|entry| entry.file_name().to_str()?.parse().ok());
            let Some(pid) = number.and_then(Pid::from_raw) else { continue };
            // The descriptor is taken before the look, so that the signal cannot
            // reach another process that got the same number in between.
            let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            if self.is_on(pid) && pidfd_send_signal(&process, Signal::KILL).is_ok() {
                killed.push(process);
            }
        }
        // What is being killed loses its mark some time before it has done with its last system
        // call.
        for process in &killed {
            let mut end = [PollFd::new(process, PollFlags::IN)];
            retry_on_intr(|| poll(&mut end, None))
                .context("could not wait for the end of a handler")?;
        }
        Ok(killed.len())
    }

    fn is_on(&self, pid: Pid) -> bool {
        let proc = PathBuf::from(format!("/proc/{}", pid.as_raw_pid()));
        self.is_carried(&proc)
            && began_at(&proc).is_some_and(|began| began >= self.since)
            && self.only_of.is_none_or(|uid| real_user(&proc) == Some(uid))
    }

    fn is_carried(&self, proc: &Path) -> bool {
        let environment = fs::read(proc.join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|entry| entry == self.variable) {
            return true;
        }
        let Some(descriptor) = &self.descriptor else { return false };
        let descriptors = fs::read_dir(proc.join("fd")).into_iter().flatten().flatten();
        let inherited = descriptors
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .any(|target| target == *descriptor);
        inherited && !is_watchdog(proc)
    }
}

/// When a process began, in ticks since the machine did.
pub fn began_at(proc: &Path) -> Option<u64> {
    let stat = fs::read_to_string(proc.join("stat")).ok()?;
    // The name of the program stands in parentheses, and may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    // The 22nd field; the first behind the name is the 3rd.
    fields.split(' ').nth(19)?.parse().ok()
}

/// When this process began.
pub fn own_beginning() -> Result<u64> {
    began_at(Path::new("/proc/self")).context("could not read when this process began from /proc")
}

/// The user who started a process.
fn real_user(proc: &Path) -> Option<u32> {
    let status = fs::read_to_string(proc.join("status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().next()?.parse().ok()
}

/// What tells this time of the machine's life from others.
pub fn boot_id() -> Result<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    Ok(id.context("could not read the machine's boot id")?.trim().into())
}

/// Whether a process is a watchdog: this one, or that of a pass which a handler started. It ends by
/// itself, not before its own handlers.
fn is_watchdog(proc: &Path) -> bool {
    let command = format!("backlog\0{WATCHDOG}\0");
    fs::read(proc.join("cmdline")).is_ok_and(|it| it == command.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command};

    fn marked(token: &str) -> Child {
        Command::new("sleep").arg("60").env(TOKEN, token).spawn().unwrap()
    }

    fn is_alive(child: &mut Child) -> bool {
        child.try_wait().unwrap().is_none()
    }

    #[test]
    fn what_began_before_the_pass_is_not_killed() {
        let token = format!("older-{}", std::process::id());
        let mut child = marked(&token);
        let began = began_at(Path::new(&format!("/proc/{}", child.id()))).unwrap();
        Mark::new(&token, began + 1).kill_all().unwrap();
        assert!(is_alive(&mut child));
        Mark::new(&token, began).kill_all().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn only_processes_of_the_user_are_killed_on_his_word() {
        let token = format!("user-{}", std::process::id());
        let mut child = marked(&token);
        let me = rustix::process::getuid().as_raw();
        Mark { only_of: Some(me + 1), ..Mark::new(&token, 0) }.kill_all().unwrap();
        assert!(is_alive(&mut child));
        Mark { only_of: Some(me), ..Mark::new(&token, 0) }.kill_all().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
}
