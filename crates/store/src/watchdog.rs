//! The watchdog: a small process that outlives a killed pass by a few milliseconds.
//!
//! When a pass is killed, the kernel releases its claims at once, but its handlers go on. So the watchdog has a
//! duplicate descriptor of the claims' file, or of the session's socket, which keeps the locks. It reads from a socket
//! whose other end only the pass has. When that end is closed, the watchdog kills all processes with the mark.
//!
//! The mark is a token in the environment, and a pipe that all descendants inherit under the same number, even if they
//! reset the environment, as `su -` does. The token comes over the socket, because all users can read a command line.
//!
//! Claims on pgmq messages expire, so the pass also sends a deadline, at which the watchdog ends the handlers of a pass
//! that is stopped or suspended. A dead watchdog is replaced; [`super::state_dir`] notes one that dies with its pass.

use std::fs;
use std::io::ErrorKind::{ConnectionReset, Interrupted};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
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

/// Lowest number of the inherited descriptor, above the ones that scripts use.
const MARKER_FROM: i32 = 30;

/// Maximum number of replacements, so that a pass does not spend all its time starting watchdogs.
const MAX_RESTARTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

pub struct Watchdog {
    // Dropped before the process that it watches.
    _supervisor: OwnedThread,
    watch: Arc<Mutex<Watched>>,
}

struct Watched {
    child: Child,
    socket: UnixStream,
    claims: Option<OwnedFd>,
    token: String,
    /// The descriptor that handlers inherit. This process has it open as well.
    marker: Option<OwnedFd>,
    deadline: Option<Duration>,
}

impl Watchdog {
    /// Starts a watchdog that keeps `claims` until every process of the pass has ended. It is ready on return.
    pub fn start(claims: Option<OwnedFd>, token: &str) -> Result<Self> {
        let pipe = pipe_with(PipeFlags::CLOEXEC);
        let (pipe, _) = pipe.context("could not make the pipe that marks the handlers")?;
        // With a low limit of descriptors its number stays as it is.
        let marker = fcntl_dupfd_cloexec(&pipe, MARKER_FROM).unwrap_or(pipe);
        let (child, socket) = spawn(claims.as_ref(), token, &marker)?;
        // Inherited only from now on: the watchdog already has it as standard error.
        fcntl_setfd(&marker, FdFlags::empty()).context("could not have the marker inherited")?;
        let (token, marker) = (token.into(), Some(marker));
        let watch = Watched { child, socket, claims, token, marker, deadline: None };
        let watch = Arc::new(Mutex::new(watch));
        let shared = watch.clone();
        let supervisor = OwnedThread::start("watchdog", move |end| supervise(&shared, end))?;
        Ok(Self { _supervisor: supervisor, watch })
    }

    /// Sets the [time since boot](since_boot) at which the watchdog ends the handlers; `None` clears it.
    pub fn end_handlers_at(&self, deadline: Option<Duration>) {
        let mut watch = lock(&self.watch);
        watch.deadline = deadline;
        watch.send_deadline();
    }
}

impl Drop for Watched {
    /// Tells the watchdog that the pass ended normally. A panic sends nothing, because handlers may still run.
    fn drop(&mut self) {
        // After a panic the watchdog would mistake this process for a handler.
        self.marker = None;
        if !std::thread::panicking() {
            let _ = self.socket.write_all(b".");
        }
        let _ = self.socket.shutdown(Shutdown::Both);
        let _ = self.child.wait();
    }
}

fn supervise(watch: &Mutex<Watched>, end: &OwnedFd) {
    for _ in 0..MAX_RESTARTS {
        let Ok(socket) = lock(watch).socket.try_clone() else { break };
        // The socket becomes readable only when the watchdog ends.
        let mut events = [PollFd::new(&socket, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
        if retry_on_intr(|| poll(&mut events, None)).is_err() || !events[1].revents().is_empty() {
            return;
        }
        log::warn!("the watchdog of the handlers died; starting another");
        if let Err(error) = lock(watch).replace() {
            log::warn!("{}; trying again", chain(&error));
            std::thread::sleep(PAUSE);
        }
    }
    log::error!("the handlers have no watchdog: they would outlive this pass if it were killed");
}

impl Watched {
    fn replace(&mut self) -> Result<()> {
        let _ = self.child.wait();
        if let Some(marker) = &self.marker {
            (self.child, self.socket) = spawn(self.claims.as_ref(), &self.token, marker)?;
            self.send_deadline();
        }
        Ok(())
    }

    /// Sends the deadline without waiting for a watchdog that does not read. A replacement gets it at its start.
    fn send_deadline(&self) {
        let deadline = self.deadline.map_or_else(|| "-".into(), |at| at.as_millis().to_string());
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if let Err(error) = send(&self.socket, format!("{deadline}\n").as_bytes(), flags) {
            log::debug!("could not send a deadline to the watchdog: {error}");
        }
    }
}

fn spawn(claims: Option<&OwnedFd>, token: &str, marker: &OwnedFd) -> Result<(Child, UnixStream)> {
    let duplicate =
        |fd: &OwnedFd| fd.try_clone().context("could not duplicate a descriptor for the watchdog");
    let (claims, its_marker) = (claims.map(duplicate).transpose()?, duplicate(marker)?);
    let (mut socket, its_socket) =
        UnixStream::pair().context("could not make a socket for the watchdog of the handlers")?;
    // Drops this process's copy of the watchdog's socket, so that the connection closes when the watchdog dies.
    let child = Command::new("/proc/self/exe")
        .arg(WATCHDOG)
        .stdin(OwnedFd::from(its_socket))
        .stdout(claims.map_or_else(Stdio::null, Stdio::from))
        .stderr(its_marker)
        .arg0("backlog")
        .env_clear()
        // Ctrl-C must not end the watchdog together with the pass.
        .process_group(0)
        .spawn()
        .context("could not start the watchdog of the handlers")?;
    let message = format!("{token} {} {}\n", own_start()?, marker.as_raw_fd());
    // Until the watchdog answers it ignores no signals, and one would kill it.
    socket
        .write_all(message.as_bytes())
        .and_then(|()| socket.read_exact(&mut [0]))
        .context("the watchdog of the handlers did not start")?;
    Ok((child, socket))
}

/// Runs the watchdog: waits for the end of the pass, and kills its handlers unless it ended normally.
pub fn run_watchdog() -> Result<()> {
    // For anybody but a pass it would only be a means to kill processes.
    let is_pass = |peer: UCred| Some(peer.pid) == getppid() && peer.uid == geteuid();
    let is_fifo = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo;
    ensure!(
        socket_peercred(io::stdin()).is_ok_and(is_pass) && fstat(io::stderr()).is_ok_and(is_fifo),
        StoreError::Usage(
            "`backlog watchdog` is internal: only `backlog process` can start it".into()
        )
    );
    // A signal to all processes named backlog is meant for the pass, which ends first.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        let ignored = signal_hook::flag::register(signal, Arc::default());
        ignored.context("could not ignore the signals that are meant for the pass")?;
    }
    let mut pass = BufReader::new(io::stdin());
    let mut message = String::new();
    pass.read_line(&mut message).context("could not read the message of the pass")?;
    let fields: Vec<_> = message.split_whitespace().collect();
    let [token, since, number] = fields[..] else { bail!("no pass to watch") };
    let mut mark = Mark::new(token, since.parse().context("no pass to watch")?);
    let pipe = fs::read_link("/proc/self/fd/2").context("could not read the marker")?;
    mark.descriptor = Some((number.into(), pipe));
    // An error means that the pass has ended, which `watch` notices.
    let _ = rustix::io::write(io::stdin(), b".");
    // The buffer is empty: the pass sends nothing before it has read that byte.
    let pass =
        io::stdin().as_fd().try_clone_to_owned().context("could not duplicate the socket")?;
    watch(pass.into(), mark)
}

fn watch(mut pass: UnixStream, mut mark: Mark) -> Result<()> {
    let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC);
    let timer = timer.context("could not create a timer")?;
    let (mut unread, mut bytes) = (Vec::new(), [0; 4096]);
    loop {
        let mut events = [PollFd::new(&pass, PollFlags::IN), PollFd::new(&timer, PollFlags::IN)];
        retry_on_intr(|| poll(&mut events, None)).context("could not wait for the pass")?;
        // Messages go before the timer, because they may change the deadline.
        if events[0].revents().is_empty() {
            set(&timer, None)?;
            mark.spared = getppid();
            // This fails if handlers keep starting processes. Those are killed when the pass ends.
            let _ = mark.kill_all();
            mark.spared = None;
            continue;
        }
        match pass.read(&mut bytes) {
            Ok(0) => return mark.kill_all(),
            // The socket is reset if the pass closed it with unread data.
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
                // A damaged line leaves the last deadline in force.
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

pub const TOKEN: &str = "BACKLOG_PASS";
pub const WATCHDOG: &str = "watchdog";

/// Number of scans in a row that must find no process: a new process shows its mark a moment later.
const QUIET_SCANS: u32 = 3;
/// Maximum number of scans. If processes are still found then, handlers start them faster than they can be killed.
const MAX_SCANS: u32 = 2_000;
const SCAN_PAUSE: Duration = Duration::from_millis(1);

pub struct Mark {
    variable: Vec<u8>,
    /// The number of the descriptor and `pipe:[NUMBER]`, if known.
    descriptor: Option<(String, PathBuf)>,
    /// Start of the pass, in ticks since boot. Older processes are not its descendants.
    since: u64,
    /// A process that is not killed although it has the descriptor: the pass, while it runs.
    spared: Option<Pid>,
}

impl Mark {
    pub fn new(token: &str, since: u64) -> Self {
        let variable = format!("{TOKEN}={token}").into_bytes();
        Self { variable, descriptor: None, since, spared: None }
    }

    /// Kills all processes with the mark, also the ones that they are just starting, and waits until all are dead.
    pub fn kill_all(&self) -> Result<()> {
        let mut quiet = 0;
        for _ in 0..MAX_SCANS {
            quiet = if self.kill_found()? == 0 { quiet + 1 } else { 0 };
            if quiet == QUIET_SCANS {
                return Ok(());
            }
            std::thread::sleep(SCAN_PAUSE);
        }
        bail!("could not end the handlers of a killed pass: they keep starting others")
    }

    fn kill_found(&self) -> Result<usize> {
        let mut killed = Vec::new();
        for entry in fs::read_dir("/proc").context("could not read /proc")? {
            let number = entry.ok().and_then(|entry| entry.file_name().to_str()?.parse().ok());
            let Some(pid) = number.and_then(Pid::from_raw) else { continue };
            // Opened before the check, so that the signal cannot reach a new process with this number.
            let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            if self.is_on_process(pid) && pidfd_send_signal(&process, Signal::KILL).is_ok() {
                killed.push(process);
            }
        }
        // A killed process loses its mark before its last system call ends.
        for process in &killed {
            let mut end = [PollFd::new(process, PollFlags::IN)];
            retry_on_intr(|| poll(&mut end, None))
                .context("could not wait for the end of a handler")?;
        }
        Ok(killed.len())
    }

    fn is_on_process(&self, pid: Pid) -> bool {
        let proc = PathBuf::from(format!("/proc/{}", pid.as_raw_pid()));
        self.spared != Some(pid)
            && self.is_in(&proc)
            && started_at(&proc).is_some_and(|started| started >= self.since)
    }

    fn is_in(&self, proc: &Path) -> bool {
        let environment = read_large(proc.join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|entry| entry == self.variable) {
            return true;
        }
        // Another user's process was handed the pipe, and is no handler.
        let me = geteuid().as_raw();
        let is_mine = fs::metadata(proc).is_ok_and(|found| found.uid() == me);
        let Some((number, pipe)) = self.descriptor.as_ref().filter(|_| is_mine) else {
            return false;
        };
        // Watchdogs end without help: this one, and the watchdog of a pass that a handler started.
        let is_watchdog =
            |arguments: Vec<u8>| arguments == format!("backlog\0{WATCHDOG}\0").into_bytes();
        fs::read_link(proc.join("fd").join(number)).is_ok_and(|target| target == *pipe)
            && !read_large(proc.join("cmdline")).is_ok_and(is_watchdog)
    }
}

/// Start of a process, in ticks since boot.
pub fn started_at(proc: &Path) -> Option<u64> {
    let stat = String::from_utf8(read_large(proc.join("stat")).ok()?).ok()?;
    // The name of the program is in parentheses, and may contain any characters.
    let (_, fields) = stat.rsplit_once(") ")?;
    // The 22nd field; the first one after the name is the 3rd.
    fields.split(' ').nth(19)?.parse().ok()
}

pub fn own_start() -> Result<u64> {
    started_at(Path::new("/proc/self"))
        .context("could not read the start time of this process from /proc")
}

/// The time since boot, including the time for which the machine was suspended, during which a server's clock goes on.
pub fn since_boot() -> Duration {
    let at = clock_gettime(ClockId::Boottime);
    Duration::new(at.tv_sec.unsigned_abs(), u32::try_from(at.tv_nsec).unwrap_or_default())
}

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
    fn a_process_older_than_the_pass_is_not_killed() {
        let token = format!("older-{}", std::process::id());
        let mut child = marked(&token);
        let started = started_at(Path::new(&format!("/proc/{}", child.id()))).unwrap();
        Mark::new(&token, started + 1).kill_all().unwrap();
        assert!(is_alive(&mut child));
        Mark::new(&token, started).kill_all().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
}
