//! The watchdog: a small process that outlives a killed pass by a few milliseconds.
//!
//! When a pass is killed, the kernel drops its claims at once, but its handlers live on beside the
//! next pass. So the watchdog of each pass holds a duplicate of the claims' file description, whose
//! locks live on with it, and reads from a socket whose other end only the pass has. When that is
//! closed, it kills all that carries the mark of the pass.
//!
//! The mark is twofold: a token in the environment, and a descriptor of a pipe that all descendants
//! of the pass inherit under the same number, also if they reset the environment, as `su -` does.
//! The token comes over the socket, because everybody can read a command line.
//!
//! Claims on a queue run out unless the pass extends them. So the pass also sends a deadline, at which
//! the watchdog ends the handlers of a pass that is stopped or suspended, and goes on watching.
//!
//! A watchdog that dies is replaced, and [`super::state_dir`] notes one that dies with its pass.

use std::fs;
use std::io::ErrorKind::{ConnectionReset, Interrupted};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, Stat, fstat};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd, retry_on_intr};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SendFlags, UCred, send};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, getppid, pidfd_open, pidfd_send_signal};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::stoppable::OwnedThread;
use crate::error::StoreError;
use crate::mutex::lock;
use crate::secure_file::read_large;
use crate::system_error::chain;

/// Where the inherited descriptor stands at least: out of the way of scripts that number theirs.
const MARKER_FROM: i32 = 30;

/// How often a watchdog is replaced, so that a pass does not spend its time on starting watchdogs.
const MAX_RESTARTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

pub struct Watchdog {
    // It ends before what it watches.
    _supervisor: OwnedThread,
    watch: Arc<Mutex<Watched>>,
}

struct Watched {
    child: Child,
    line: UnixStream,
    claims: Option<OwnedFd>,
    token: String,
    /// What the handlers inherit. This process has it open as well.
    marker: Option<OwnedFd>,
    /// The [boot time](boottime) at which the watchdog ends the handlers.
    deadline: Option<Duration>,
}

impl Watchdog {
    /// Starts a watchdog that keeps `claims` until every process of the pass is gone. It watches on return.
    pub fn start(claims: Option<OwnedFd>, token: &str) -> Result<Self> {
        let pipe = pipe_with(PipeFlags::CLOEXEC);
        let (pipe, _) = pipe.context("could not make the pipe that marks the handlers")?;
        // With a low limit of descriptors it stays where it is.
        let marker = fcntl_dupfd_cloexec(&pipe, MARKER_FROM).unwrap_or(pipe);
        let (child, line) = spawn(claims.as_ref(), token, &marker)?;
        // Not before now, so that the watchdog has it as its standard error only.
        fcntl_setfd(&marker, FdFlags::empty()).context("could not have the marker inherited")?;
        let (token, marker) = (token.into(), Some(marker));
        let watch = Watched { child, line, claims, token, marker, deadline: None };
        let watch = Arc::new(Mutex::new(watch));
        let seen = watch.clone();
        let supervisor = OwnedThread::start("watchdog", move |end| supervise(&seen, end))?;
        Ok(Self { _supervisor: supervisor, watch })
    }

    /// Sets the [boot time](boottime) at which the watchdog ends the handlers; `None` clears it.
    pub fn end_handlers_at(&self, deadline: Option<Duration>) {
        let mut watch = lock(&self.watch);
        watch.deadline = deadline;
        watch.send_deadline();
    }
}

impl Drop for Watched {
    /// Tells it that the pass ended well; nothing in a panic: handlers may still be running.
    fn drop(&mut self) {
        // In a panic the watchdog would take this process for a handler.
        self.marker = None;
        if !std::thread::panicking() {
            let _ = self.line.write_all(b".");
        }
        let _ = self.line.shutdown(Shutdown::Both);
        let _ = self.child.wait();
    }
}

fn supervise(watch: &Mutex<Watched>, end: &OwnedFd) {
    for _ in 0..MAX_RESTARTS {
        let Ok(line) = lock(watch).line.try_clone() else { break };
        // Nothing comes from a watchdog that watches, but its end.
        let mut events = [PollFd::new(&line, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
        if retry_on_intr(|| poll(&mut events, None)).is_err() || !events[1].revents().is_empty() {
            return;
        }
        log::warn!("the watchdog of the handlers died; starting another");
        if let Err(error) = lock(watch).replace() {
            log::warn!("{}; trying again", chain(&error));
            std::thread::sleep(PAUSE);
        }
    }
    log::error!(
        "no watchdog watches over the handlers: they would outlive this pass if it were killed"
    );
}

impl Watched {
    fn replace(&mut self) -> Result<()> {
        let _ = self.child.wait();
        if let Some(marker) = &self.marker {
            (self.child, self.line) = spawn(self.claims.as_ref(), &self.token, marker)?;
            self.send_deadline();
        }
        Ok(())
    }

    /// Does not wait for a watchdog that does not read. A dead one's successor gets the deadline at its start.
    fn send_deadline(&self) {
        let deadline = self.deadline.map_or_else(|| "-".into(), |at| at.as_millis().to_string());
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if let Err(error) = send(&self.line, format!("{deadline}\n").as_bytes(), flags) {
            log::debug!("the watchdog was not told of a deadline: {error}");
        }
    }
}

fn spawn(claims: Option<&OwnedFd>, token: &str, marker: &OwnedFd) -> Result<(Child, UnixStream)> {
    let duplicate =
        |fd: &OwnedFd| fd.try_clone().context("could not duplicate a descriptor for the watchdog");
    let (claims, its_marker) = (claims.map(duplicate).transpose()?, duplicate(marker)?);
    let (mut line, its_line) =
        UnixStream::pair().context("could not make a socket for the watchdog of the handlers")?;
    // This process's copy of the watchdog's end goes here, so that it sees when that ends.
    let child = Command::new("/proc/self/exe")
        .arg(WATCHDOG)
        .stdin(OwnedFd::from(its_line))
        .stdout(claims.map_or_else(Stdio::null, Stdio::from))
        .stderr(its_marker)
        .arg0("backlog")
        .env_clear()
        // A Ctrl-C at the terminal must not end the watchdog along with the pass.
        .process_group(0)
        .spawn()
        .context("could not start the watchdog of the handlers")?;
    let told = format!("{token} {} {}\n", own_beginning()?, marker.as_raw_fd());
    // Until it answers a signal would end the watchdog.
    line.write_all(told.as_bytes())
        .and_then(|()| line.read_exact(&mut [0]))
        .context("the watchdog of the handlers did not start")?;
    Ok((child, line))
}

/// What the watchdog does: waits for the end of the pass, and cleans up if it was not a good one.
pub fn run_watchdog() -> Result<()> {
    // Anybody but a pass could only have processes killed with it.
    let is_pass = |peer: UCred| Some(peer.pid) == getppid() && peer.uid == geteuid();
    let is_fifo = |it: Stat| FileType::from_raw_mode(it.st_mode) == FileType::Fifo;
    ensure!(
        socket_peercred(io::stdin()).is_ok_and(is_pass) && fstat(io::stderr()).is_ok_and(is_fifo),
        StoreError::Usage(
            "watchdog is started by `process` alone; there is nothing to watch over".into()
        )
    );
    // Whoever signals everything that is called backlog means the pass, which goes first.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        let ignored = signal_hook::flag::register(signal, Arc::default());
        ignored.context("could not ignore the signals that are meant for the pass")?;
    }
    let mut pass = BufReader::new(io::stdin());
    let mut told = String::new();
    pass.read_line(&mut told).context("could not read what to watch over")?;
    let words: Vec<_> = told.split_whitespace().collect();
    let [token, since, number] = words[..] else { bail!("nothing to watch over") };
    let mut mark = Mark::new(token, since.parse().context("nothing to watch over")?);
    let pipe = fs::read_link("/proc/self/fd/2").context("could not read the marker")?;
    mark.descriptor = Some((number.into(), pipe));
    // Whoever cannot be told that the watchdog watches has gone already: that is seen below.
    let _ = rustix::io::write(io::stdin(), b".");
    // The buffer is empty: the pass sends nothing more before it has read that byte.
    let pass =
        io::stdin().as_fd().try_clone_to_owned().context("could not duplicate the socket")?;
    watch(pass.into(), mark)
}

fn watch(mut pass: UnixStream, mut mark: Mark) -> Result<()> {
    let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC);
    let timer = timer.context("could not make a timer")?;
    let (mut unread, mut bytes) = (Vec::new(), [0; 4096]);
    loop {
        let mut events = [PollFd::new(&pass, PollFlags::IN), PollFd::new(&timer, PollFlags::IN)];
        retry_on_intr(|| poll(&mut events, None)).context("could not wait for the pass")?;
        // A message of the pass may move the deadline, so messages are read before the timer counts.
        if events[0].revents().is_empty() {
            set(&timer, None)?;
            mark.spared = getppid();
            // This fails if handlers keep starting others. Those are ended when the pass ends.
            let _ = mark.kill_all();
            mark.spared = None;
            continue;
        }
        match pass.read(&mut bytes) {
            Ok(0) => return mark.kill_all(),
            // It is reset if it was closed before all was read that was sent to it.
            Err(error) if error.kind() == ConnectionReset => return mark.kill_all(),
            Err(error) if error.kind() == Interrupted => {}
            Err(error) => return Err(error).context("could not wait for the end of the pass"),
            Ok(count) => unread.extend_from_slice(&bytes[..count]),
        }
        while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = unread.drain(..=end).collect();
            match str::from_utf8(&line).map(str::trim_end) {
                Ok("-") => set(&timer, None)?,
                Ok(line) => {
                    if let Ok(millis) = line.parse() {
                        set(&timer, Some(Duration::from_millis(millis)))?;
                    }
                }
                // Half a line is no deadline: the last one stands.
                Err(_) => {}
            }
        }
        if unread.first() == Some(&b'.') {
            return Ok(());
        }
    }
}

fn set(timer: &OwnedFd, at: Option<Duration>) -> Result<()> {
    let no_time = Timespec { tv_sec: 0, tv_nsec: 0 };
    let at = at.map_or(Ok(no_time), Timespec::try_from).context("no time to wait for")?;
    let time = Itimerspec { it_interval: no_time, it_value: at };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &time).context("could not set a timer")?;
    Ok(())
}

/// The variable that marks a handler, and whatever it starts, as belonging to a pass.
pub const TOKEN: &str = "BACKLOG_PASS";
pub const WATCHDOG: &str = "watchdog";

/// So many scans in a row must find nobody: who is just being started shows his mark a moment later.
const QUIET_LOOKS: u32 = 3;
/// Whoever is there after so many starts processes faster than they can be ended.
const MOST_LOOKS: u32 = 2_000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// The mark of a pass's descendants: the token in its environment, or the descriptor of a pipe.
pub struct Mark {
    variable: Vec<u8>,
    /// The descriptor's number, and `pipe:[NUMBER]`, where they are known.
    descriptor: Option<(String, PathBuf)>,
    /// When the pass began, in ticks since the machine did: what is older is none of its own.
    since: u64,
    /// A process that is not killed: the pass, while it lives. It has the descriptor open as well.
    spared: Option<Pid>,
}

impl Mark {
    pub fn new(token: &str, since: u64) -> Self {
        let variable = format!("{TOKEN}={token}").into_bytes();
        Self { variable, descriptor: None, since, spared: None }
    }

    /// Kills what carries the mark and what that was just starting, and waits until all are dead.
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
            // Taken before the look, so that the signal reaches no other process of this number.
            let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            if self.is_on(pid) && pidfd_send_signal(&process, Signal::KILL).is_ok() {
                killed.push(process);
            }
        }
        // What is being killed loses its mark before it has done with its last system call.
        for process in &killed {
            let mut end = [PollFd::new(process, PollFlags::IN)];
            retry_on_intr(|| poll(&mut end, None))
                .context("could not wait for the end of a handler")?;
        }
        Ok(killed.len())
    }

    fn is_on(&self, pid: Pid) -> bool {
        let proc = PathBuf::from(format!("/proc/{}", pid.as_raw_pid()));
        self.spared != Some(pid)
            && self.is_carried(&proc)
            && began_at(&proc).is_some_and(|began| began >= self.since)
    }

    fn is_carried(&self, proc: &Path) -> bool {
        let environment = read_large(proc.join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|entry| entry == self.variable) {
            return true;
        }
        let Some((number, pipe)) = &self.descriptor else { return false };
        // A watchdog ends by itself: this one, or that of a pass which a handler started.
        let is_watchdog = |it: Vec<u8>| it == format!("backlog\0{WATCHDOG}\0").into_bytes();
        fs::read_link(proc.join("fd").join(number)).is_ok_and(|target| target == *pipe)
            && !read_large(proc.join("cmdline")).is_ok_and(is_watchdog)
    }
}

/// When a process began, in ticks since the machine did.
pub fn began_at(proc: &Path) -> Option<u64> {
    let stat = String::from_utf8(read_large(proc.join("stat")).ok()?).ok()?;
    // The name of the program stands in parentheses, and may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    // The 22nd field; the first behind the name is the 3rd.
    fields.split(' ').nth(19)?.parse().ok()
}

pub fn own_beginning() -> Result<u64> {
    began_at(Path::new("/proc/self")).context("could not read when this process began from /proc")
}

/// The time since the machine started. It goes on during a suspension, as that of a server does.
pub fn boottime() -> Duration {
    let at = clock_gettime(ClockId::Boottime);
    Duration::new(at.tv_sec.unsigned_abs(), u32::try_from(at.tv_nsec).unwrap_or_default())
}

/// What tells this time of the machine's life from others.
pub fn boot_id() -> Result<String> {
    let id = read_large("/proc/sys/kernel/random/boot_id");
    let id = id.context("could not read the machine's boot id")?;
    Ok(String::from_utf8_lossy(&id).trim().into())
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
}
