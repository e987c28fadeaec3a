//! The stop of a pass: signals, the end of its time and errors ask the engine, the handlers and the
//! store to end, in stages.
//!
//! One is handed down to everyone who works for a pass when he is made. Who polls waits for the
//! descriptor of the next stage; who does not looks at the stage before he begins something.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant as Monotonic};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::clock::Clock;
use crate::mutex::lock;
use crate::secure_file::read_large;

/// It only rises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Running,
    /// Nothing more is begun; what runs goes on to its end.
    Closing,
    /// What runs has until [`Stop::ends_at`], then it is ended.
    Ending,
    /// That has become sooner.
    Hurried,
}

/// For how long the same signal is the same order: timeout(1) signals its child and then its group.
const ECHO: Duration = Duration::from_millis(200);

/// How long a signal to the pass may come after one to its handler on a busy machine: some looks, and the time
/// between two.
const MOMENTS: usize = 10;
const MOMENT: Duration = Duration::from_millis(50);

pub struct Stop {
    pub clock: Clock,
    /// What running handlers get to end in.
    pub grace: Duration,
    /// When the pass is to stop without a signal.
    pub deadline: Option<Monotonic>,
    /// The parts have the same.
    first_signal: Arc<OnceLock<(i32, Monotonic)>>,
    /// Each stays readable once the stage has come: all but the first one.
    stage_fds: [OwnedFd; 3],
    state: Mutex<State>,
}

struct State {
    stage: Stage,
    ends_at: Option<Monotonic>,
    parts: Vec<Arc<Stop>>,
}

impl Stop {
    /// The stop of a pass whose time, if it is limited, begins now.
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

    /// The stop of a part, which ends with the whole and may be ended before it.
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

    /// Readable once the stage is above this one; `None` if no stage is.
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

    /// Whether the pass is to end, because of a signal or because its time is up.
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
        // Without an end that the clock can say there is none.
        self.end_by(self.clock.monotonic().checked_add(grace));
    }

    fn end_by(&self, at: Option<Monotonic>) {
        let mut state = lock(&self.state);
        let is_sooner = at.is_some_and(|at| state.ends_at.is_some_and(|before| at < before));
        state.ends_at = state.ends_at.into_iter().chain(at).min();
        self.rise(&mut state, if is_sooner { Stage::Hurried } else { Stage::Ending });
        state.parts.iter().for_each(|part| part.end_by(at));
    }

    /// A signal to stop has come; a second one leaves no grace, unless it is the echo of the first.
    pub fn signal(&self, signal: i32) {
        let now = self.clock.monotonic();
        let (first, at) = *self.first_signal.get_or_init(|| (signal, now));
        let is_first = signal == first && now.saturating_duration_since(at) <= ECHO;
        self.end_within(if is_first { self.grace } else { Duration::ZERO });
    }

    pub fn signalled(&self) -> Option<i32> {
        self.first_signal.get().map(|(signal, _)| *signal)
    }

    /// Whether a signal has told the pass to stop, or does so within a moment. A handler that a signal of another
    /// process has ended is judged only after that: a machine that stops signals every process, and the handler
    /// may be the first to notice.
    pub fn is_signalled_soon(&self) -> bool {
        for _ in 0..MOMENTS {
            let ending = self.fd_above(Stage::Closing).filter(|_| self.stage() < Stage::Ending);
            let Some(ending) = ending else { break };
            let mut fds = [PollFd::new(ending, PollFlags::IN)];
            // An interrupted poll counts as well: the signal that interrupts it is handled by another thread,
            // which may come later. So may one that a stopped process gets when it goes on.
            let _ = poll(&mut fds, Timespec::try_from(MOMENT).ok().as_ref());
        }
        self.signalled().is_some()
    }

    /// Waits until what runs is to be ended; false if `over` became readable before.
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
            // Who is interrupted looks once more, and that is all.
            let _ = poll(&mut fds, left.as_ref());
            if !fds[0].revents().is_empty() {
                return false;
            }
        }
    }

    fn rise(&self, state: &mut State, stage: Stage) {
        for fd in self.stage_fds.iter().take(stage as usize).skip(state.stage as usize) {
            // It fails only if it has been written to more often than anybody counts.
            let _ = io::write(fd, &1u64.to_ne_bytes());
        }
        state.stage = state.stage.max(stage);
    }
}

/// What a person calls the signal that stops a pass.
pub fn signal_name(signal: i32) -> String {
    match signal {
        SIGINT => "Ctrl-C".into(),
        SIGTERM => "SIGTERM".into(),
        SIGHUP => "SIGHUP".into(),
        _ => format!("signal {signal}"),
    }
}

/// The signals that this process ignores, as its parent had it do (`nohup`) or its own runtime: a set in
/// which the lowest bit is the first signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IgnoredSignals(pub u64);

impl IgnoredSignals {
    /// Those of this process, as the kernel shows them: proc_pid_status(5), SigIgn. None if it does not.
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
        /// How far the clock of a test has been put forward.
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
        assert_eq!(part.ends_at(), first, "what it was told first comes first");
        whole.end_within(Duration::ZERO);
        assert_eq!(part.stage(), Stage::Hurried);
    }

    #[test]
    fn the_end_of_the_time_asks_like_a_signal() {
        let stop = stop(Some(Duration::ZERO));
        assert!(stop.is_stopping() && stop.signalled().is_none());
        assert_eq!(stop.ends_at(), stop.deadline.unwrap().checked_add(stop.grace));
        assert_eq!(stop.stage(), Stage::Running, "until somebody heeds it");
        stop.end();
        stop.signal(15);
        assert_eq!(stop.stage(), Stage::Ending, "a first signal leaves the grace that there is");
    }

    #[test]
    fn who_waits_for_the_end_is_woken_by_an_order_or_when_all_is_over() {
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
        let of = |mask: &str| {
            let status = format!("SigBlk:\t0000000000000001\nSigIgn:\t{mask}\nSigCgt:\t0\n");
            IgnoredSignals::from_status(&status).map(|it| it.iter().collect::<Vec<_>>())
        };
        assert_eq!(of("8000000000001001"), Some(vec![1, 13, 64]));
        assert_eq!(of("0000000000000000"), Some(vec![]));
        assert_eq!(of("soon"), None);
        assert_eq!(IgnoredSignals::from_status(""), None);
        assert!(!IgnoredSignals(u64::MAX).contains(0));
    }
}
