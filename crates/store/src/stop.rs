//! The stop of a pass: signals, its time limit and errors end the engine, the handlers and the store in stages.
//! A thread that polls waits for the descriptor of the next stage; any other thread checks the stage before new work.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant as Monotonic};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::clock::Clock;
use crate::mutex::lock;
use crate::secure_file::read_large;

/// Stage of a stop. It never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Running,
    /// No new work begins. Running handlers go on.
    Closing,
    /// Running handlers are ended at [`Stop::ends_at`].
    Ending,
    /// [`Stop::ends_at`] has become earlier.
    Hurried,
}

/// Time in which the same signal counts once: timeout(1) signals its child and then its group.
const ECHO: Duration = Duration::from_millis(200);

/// Checks for a signal to the pass after its handler was signalled, because it may arrive late on a busy machine.
const SIGNAL_CHECKS: usize = 10;
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

pub struct Stop {
    pub clock: Clock,
    /// Time for running handlers to end.
    pub grace: Duration,
    pub deadline: Option<Monotonic>,
    first_signal: Arc<OnceLock<(i32, Monotonic)>>,
    /// A descriptor for each stage but the first, readable once the stage is reached.
    stage_fds: [OwnedFd; 3],
    state: Mutex<State>,
}

struct State {
    stage: Stage,
    ends_at: Option<Monotonic>,
    parts: Vec<Arc<Stop>>,
}

impl Stop {
    pub fn new(
        clock: Clock,
        grace: Duration,
        max_runtime: Option<Duration>,
    ) -> io::Result<Arc<Self>> {
        let deadline = max_runtime.and_then(|limit| clock.monotonic().checked_add(limit));
        Self::with(clock, grace, deadline, Arc::default())
    }

    fn with(
        clock: Clock,
        grace: Duration,
        deadline: Option<Monotonic>,
        first_signal: Arc<OnceLock<(i32, Monotonic)>>,
    ) -> io::Result<Arc<Self>> {
        let fd = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(Arc::new(Self {
            clock,
            grace,
            deadline,
            first_signal,
            stage_fds: [fd()?, fd()?, fd()?],
            state: Mutex::new(State { stage: Stage::Running, ends_at: None, parts: Vec::new() }),
        }))
    }

    /// The stop of a part of the pass, which ends with the pass or before it.
    pub fn part(&self) -> io::Result<Arc<Self>> {
        let part = Self::with(self.clock, self.grace, None, self.first_signal.clone())?;
        let mut state = lock(&self.state);
        state.parts.push(part.clone());
        if state.stage >= Stage::Ending {
            part.end_by(state.ends_at);
        }
        Ok(part)
    }

    pub fn stage(&self) -> Stage {
        lock(&self.state).stage
    }

    /// A descriptor that is readable once the stage is above this one. `None` for the last stage.
    pub fn fd_above(&self, stage: Stage) -> Option<&OwnedFd> {
        self.stage_fds.get(stage as usize)
    }

    pub fn ends_at(&self) -> Option<Monotonic> {
        let late = self.deadline.filter(|_| self.is_past_deadline());
        let late = late.and_then(|deadline| deadline.checked_add(self.grace));
        lock(&self.state).ends_at.into_iter().chain(late).min()
    }

    pub fn is_past_deadline(&self) -> bool {
        self.deadline.is_some_and(|deadline| self.clock.until(deadline).is_zero())
    }

    pub fn is_stopping(&self) -> bool {
        self.stage() >= Stage::Ending || self.is_past_deadline()
    }

    pub fn begin_no_more(&self) {
        self.rise(&mut lock(&self.state), Stage::Closing);
    }

    pub fn end(&self) {
        self.end_within(self.grace);
    }

    pub fn end_within(&self, grace: Duration) {
        // An overflow means no end.
        self.end_by(self.clock.monotonic().checked_add(grace));
    }

    fn end_by(&self, at: Option<Monotonic>) {
        let mut state = lock(&self.state);
        let is_sooner = at.is_some_and(|at| state.ends_at.is_some_and(|before| at < before));
        state.ends_at = state.ends_at.into_iter().chain(at).min();
        self.rise(&mut state, if is_sooner { Stage::Hurried } else { Stage::Ending });
        state.parts.iter().for_each(|part| part.end_by(at));
    }

    /// Stops after a signal. A second signal ends the grace period, unless it is an echo of the first.
    pub fn signal(&self, signal: i32) {
        let now = self.clock.monotonic();
        let (first, at) = *self.first_signal.get_or_init(|| (signal, now));
        let is_first = signal == first && now.saturating_duration_since(at) <= ECHO;
        self.end_within(if is_first { self.grace } else { Duration::ZERO });
    }

    pub fn signalled(&self) -> Option<i32> {
        self.first_signal.get().map(|(signal, _)| *signal)
    }

    /// Waits up to 500 ms for a signal to the pass: a shutdown signals every process, perhaps a handler first.
    pub fn wait_for_signal(&self) -> bool {
        for _ in 0..SIGNAL_CHECKS {
            let ending = self.fd_above(Stage::Closing).filter(|_| self.stage() < Stage::Ending);
            let Some(ending) = ending else { break };
            let mut fds = [PollFd::new(ending, PollFlags::IN)];
            // An interrupted poll counts as a check too, because another thread may handle the signal later. The
            // continuation of a suspended process also interrupts it.
            let _ = poll(&mut fds, Timespec::try_from(SIGNAL_CHECK).ok().as_ref());
        }
        self.signalled().is_some()
    }

    /// Waits until running handlers have to be ended. Returns false if `over` becomes readable before.
    pub fn wait_for_end(&self, over: &OwnedFd) -> bool {
        loop {
            let stage = self.stage().max(Stage::Closing);
            let left = self.ends_at().map(|at| self.clock.until(at));
            if left.is_some_and(|left| left.is_zero()) {
                return true;
            }
            let mut fds = vec![PollFd::new(over, PollFlags::IN)];
            fds.extend(self.fd_above(stage).map(|fd| PollFd::new(fd, PollFlags::IN)));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            // An interrupted poll is repeated.
            let _ = poll(&mut fds, left.as_ref());
            if !fds[0].revents().is_empty() {
                return false;
            }
        }
    }

    fn rise(&self, state: &mut State, stage: Stage) {
        for fd in self.stage_fds.iter().take(stage as usize).skip(state.stage as usize) {
            // It fails only after 2^64 writes.
            let _ = io::write(fd, &1u64.to_ne_bytes());
        }
        state.stage = state.stage.max(stage);
    }
}

pub fn signal_name(signal: i32) -> String {
    match signal {
        SIGINT => "Ctrl-C".into(),
        SIGTERM => "SIGTERM".into(),
        SIGHUP => "SIGHUP".into(),
        _ => format!("signal {signal}"),
    }
}

/// Signals that this process ignores because of its parent (`nohup`) or its own runtime. The lowest bit is signal 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IgnoredSignals(pub u64);

impl IgnoredSignals {
    /// Reads SigIgn of this process, see proc_pid_status(5).
    pub fn of_this_process() -> Option<Self> {
        Self::from_status(&String::from_utf8_lossy(&read_large("/proc/self/status").ok()?))
    }

    fn from_status(status: &str) -> Option<Self> {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
        u64::from_str_radix(mask.trim(), 16).ok().map(Self)
    }

    pub fn contains(self, signal: i32) -> bool {
        (1..=64).contains(&signal) && self.0 >> (signal - 1) & 1 == 1
    }

    pub fn iter(self) -> impl Iterator<Item = i32> {
        (1..=64).filter(move |signal| self.contains(*signal))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static AHEAD: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    #[expect(clippy::disallowed_methods, reason = "a stop is measured by the clock")]
    fn stop(max_runtime: Option<Duration>) -> Arc<Stop> {
        let monotonic = || Monotonic::now() + AHEAD.get();
        let clock = Clock { fixed: None, wall: || backlog_schedule::Instant(0), monotonic };
        Stop::new(clock, Duration::from_secs(10), max_runtime).unwrap()
    }

    fn is_rung(stop: &Stop, stage: Stage) -> bool {
        let mut fds = [PollFd::new(stop.fd_above(stage).unwrap(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
    }

    #[test]
    fn a_second_signal_leaves_no_grace_and_an_echo_of_the_first_leaves_it() {
        let stop = stop(None);
        assert!(!is_rung(&stop, Stage::Running) && !stop.is_stopping());
        stop.signal(15);
        let first = stop.ends_at().unwrap();
        assert_eq!((stop.stage(), stop.signalled()), (Stage::Ending, Some(15)));
        assert!(is_rung(&stop, Stage::Closing) && !is_rung(&stop, Stage::Ending));
        stop.signal(15);
        assert_eq!((stop.stage(), stop.ends_at()), (Stage::Ending, Some(first)));
        let other = self::stop(None);
        other.signal(15);
        other.signal(2);
        assert_eq!(other.stage(), Stage::Hurried, "another signal is no echo");
        AHEAD.set(2 * ECHO);
        stop.signal(15);
        assert_eq!(stop.stage(), Stage::Hurried);
        assert!(stop.ends_at().unwrap() < first && is_rung(&stop, Stage::Ending));
        assert!(stop.fd_above(Stage::Hurried).is_none());
    }

    #[test]
    fn a_part_ends_with_the_whole_and_may_end_before_it() {
        let whole = stop(None);
        let part = whole.part().unwrap();
        part.begin_no_more();
        assert_eq!((whole.stage(), part.stage()), (Stage::Running, Stage::Closing));
        part.end();
        assert!(!whole.is_stopping() && part.is_stopping());
        let first = part.ends_at();
        whole.end();
        assert_eq!((whole.stage(), part.stage()), (Stage::Ending, Stage::Ending));
        assert_eq!(part.ends_at(), first, "the earlier end counts");
        whole.end_within(Duration::ZERO);
        assert_eq!(part.stage(), Stage::Hurried);
    }

    #[test]
    fn the_time_limit_stops_a_pass_like_a_signal() {
        let stop = stop(Some(Duration::ZERO));
        assert!(stop.is_stopping() && stop.signalled().is_none());
        assert_eq!(stop.ends_at(), stop.deadline.unwrap().checked_add(stop.grace));
        assert_eq!(stop.stage(), Stage::Running, "until somebody reacts");
        stop.end();
        stop.signal(15);
        assert_eq!(stop.stage(), Stage::Ending, "a first signal leaves the grace that there is");
    }

    #[test]
    fn a_wait_for_the_end_ends_with_a_stop_or_with_the_pass() {
        let stop = stop(None);
        let over = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        std::thread::scope(|threads| {
            let waits = threads.spawn(|| stop.wait_for_end(&over));
            stop.begin_no_more();
            stop.end_within(Duration::ZERO);
            assert!(waits.join().unwrap());
        });
        let stop = self::stop(None);
        io::write(&over, &1u64.to_ne_bytes()).unwrap();
        assert!(!stop.wait_for_end(&over));
    }

    #[test]
    fn ignored_signals_are_read_as_the_kernel_shows_them() {
        let parse = |mask: &str| {
            let status = format!("SigBlk:\t0000000000000001\nSigIgn:\t{mask}\nSigCgt:\t0\n");
            IgnoredSignals::from_status(&status).map(|ignored| ignored.iter().collect::<Vec<_>>())
        };
        assert_eq!(parse("8000000000001001"), Some(vec![1, 13, 64]));
        assert_eq!(parse("0000000000000000"), Some(vec![]));
        assert_eq!(parse("soon"), None);
        assert_eq!(IgnoredSignals::from_status(""), None);
        assert!(!IgnoredSignals(u64::MAX).contains(0));
    }
}
