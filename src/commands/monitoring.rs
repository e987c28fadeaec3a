//! Monitoring of passes and queues: the pings of a service, the file of metrics, and the page. None of it
//! changes what a pass does or how it exits, and no later pass waits for it.

use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant as Monotonic};
use std::{fs, io};

use anyhow::{Context, Result, anyhow};
use backlog_schedule::{Instant, fnv1a64};
use backlog_store::system_error::{chain, words};
use backlog_store::{Clock, Counts, LineName, StateDir, secure_file};

use super::Console;
use super::assemble::line_policy;
use super::passes::own_interval;
use super::signals::Signals;
use crate::exit::{self, Exit};
use crate::options::{PassSettings, Queue};
use crate::ping::{MOST_WAIT, Pings};
use crate::report::{Labels, Metrics, QueueStatus, page};
use crate::terminal::Terminal;

const SLUG: usize = 80;
/// How often a wait for a service looks whether a signal has come.
const LOOK: Duration = Duration::from_millis(20);
/// How many passes may wait for their services at a time.
const MOST_PINGS: usize = 8;

/// What is reported of one pass, from before it opens its table until it has ended.
pub struct Monitoring<'a> {
    settings: &'a PassSettings,
    /// That of a new file of metrics.
    mode: u32,
    labels: Labels,
    run: String,
    complaints: Complaints,
    phase: Phase,
    has_metrics: bool,
    summary: String,
}

enum Phase {
    /// The line is not locked yet.
    Opening,
    /// Another pass has it, which reports itself.
    Busy,
    Running(Option<Pings>),
}

impl<'a> Monitoring<'a> {
    pub fn new(queue: &Queue, settings: &'a PassSettings, run: &str, terminal: &Terminal) -> Self {
        // As it was typed: a table that is gone must not have other labels than before.
        let line = LineName {
            queue: queue.name.clone(),
            table: queue.table_name().into(),
            policy: line_policy(queue, &settings.schedule),
        };
        Self {
            settings,
            labels: Labels::of_line(&queue.db.shown(), &line),
            mode: mode_of_reports([queue]),
            run: run.into(),
            complaints: Complaints { line, state: None, terminal: terminal.clone() },
            phase: Phase::Opening,
            has_metrics: false,
            summary: String::new(),
        }
    }

    pub fn find_busy(&mut self) {
        self.phase = Phase::Busy;
    }

    /// The line is locked, and its table is there.
    pub fn begin(&mut self, state: &StateDir) {
        self.complaints.state = Some(state.clone());
        self.phase = Phase::Running(self.pings().inspect(Pings::begin));
    }

    /// The last word on a pass that ran, for who reads its pings.
    pub fn sum_up(&mut self, summary: String) {
        self.summary = summary;
    }

    /// Writes the figures of the pass, as long as its line is locked: no later pass has any yet.
    pub fn measure(&mut self, exit: Exit, took: Duration, totals: Option<Counts>, now: Instant) {
        let Some(path) = self.settings.metrics.as_deref() else { return };
        self.has_metrics = true;
        let every = own_interval(&self.settings.schedule.policy);
        let (labels, exit) = (&self.labels, exit.code());
        let written = update_metrics(path, self.mode, |metrics| match self.phase {
            Phase::Busy => metrics.of_hung_line(labels, exit),
            Phase::Opening | Phase::Running(_) => {
                metrics.of_pass(labels, now, took, exit, every, totals);
            }
        });
        if let Err(error) = written {
            self.complaints.complain("unmeasured", &chain(&error), now);
        }
    }

    /// Reports how the pass has ended, once its line is free for the next one. What is not reported
    /// when this returns is left in `endings`.
    pub fn end(
        mut self,
        result: &Result<Exit>,
        took: Duration,
        clock: &Clock,
        endings: &mut Endings,
        signals: &Signals,
    ) {
        let exit = result.as_ref().map_or_else(exit::of, |exit| *exit);
        if matches!(self.phase, Phase::Busy) && exit == Exit::Done {
            return;
        }
        if let Err(error) = result {
            self.summary = format!("{}\n{}", chain(error), self.summary);
        }
        if !self.has_metrics {
            self.measure(exit, took, None, clock.now());
        }
        let begun = match std::mem::replace(&mut self.phase, Phase::Opening) {
            Phase::Running(pings) => pings,
            Phase::Opening | Phase::Busy => self.pings(),
        };
        if let Some(pings) = begun {
            pings.end(exit.code(), &self.summary);
            endings.add(pings, self.complaints, clock, signals);
        }
    }

    fn pings(&self) -> Option<Pings> {
        let (ping, proxies) = self.settings.ping.clone()?;
        Some(Pings::new(ping, proxies, slug(&self.complaints.line), self.run.clone()))
    }
}

/// The last pings of passes that have ended. The program waits for them before it ends, and for the oldest
/// one when there are many: each has a thread and a connection.
#[derive(Default)]
pub struct Endings {
    /// Each with what may be complained of, and when it was sent.
    pings: VecDeque<(Pings, Complaints, Monotonic)>,
    /// Whether a signal has ended a wait, so that nothing is waited for any more.
    is_over: bool,
}

impl Endings {
    fn add(&mut self, pings: Pings, complaints: Complaints, clock: &Clock, signals: &Signals) {
        if self.pings.len() >= MOST_PINGS {
            signals.await_for(|| self.wait_for_oldest(clock, signals, signals.count()));
        }
        self.pings.push_back((pings, complaints, clock.monotonic()));
    }

    /// Waits for all pings, each until a signal comes or its time is over.
    pub fn wait(&mut self, clock: &Clock, signals: &Signals) {
        let heard = signals.count();
        signals.await_for(|| {
            while !self.pings.is_empty() {
                self.wait_for_oldest(clock, signals, heard);
            }
        });
    }

    /// `heard` is the number of signals that have come before.
    fn wait_for_oldest(&mut self, clock: &Clock, signals: &Signals, heard: usize) {
        let Some((pings, complaints, sent_at)) = self.pings.pop_front() else { return };
        let result = loop {
            let passed = clock.monotonic().saturating_duration_since(sent_at);
            if let Some(result) = pings.result(LOOK.min(MOST_WAIT.saturating_sub(passed))) {
                break result;
            }
            self.is_over |= signals.count() != heard;
            if self.is_over {
                break Err("the program was stopped".into());
            }
            if passed >= MOST_WAIT {
                let most = humantime::format_duration(MOST_WAIT);
                break Err(format!("no answer within {most}"));
            }
        };
        if let Err(why) = result {
            let why = format!("could not ping: {why}");
            complaints.complain("unreported", &why, clock.now());
        }
    }
}

/// What is said of a line again and again: cron's mail has it once an hour.
struct Complaints {
    line: LineName,
    /// Where it stands what was complained of, once the line is locked.
    state: Option<StateDir>,
    terminal: Terminal,
}

impl Complaints {
    fn complain(&self, what: &str, why: &str, now: Instant) {
        if self.terminal.attended {
            return log::warn!("{why}");
        }
        let state = self.state.as_ref();
        if state.is_none_or(|state| state.may_complain(&self.line, what, now)) {
            log::error!("{why}");
        }
    }
}

/// The mode of a new file with what reports say of these queues: other users may read it, as Prometheus
/// must, and those of its group, if they may read all of the databases.
pub fn mode_of_reports<'a>(queues: impl IntoIterator<Item = &'a Queue>) -> u32 {
    let files = queues.into_iter().filter_map(|queue| queue.db.file());
    let modes = files.filter_map(|file| Some(fs::metadata(file).ok()?.mode()));
    modes.fold(0o644, |all, mode| all & (mode | 0o600))
}

/// Makes the page of these queues, a file of this mode if there is none. Of one that could not be looked at
/// standard error says so as well: that is what cron mails.
pub fn make_page(
    queues: &[QueueStatus],
    path: &Path,
    mode: u32,
    console: &mut Console<'_>,
) -> Result<Exit> {
    let mut exit = Exit::Done;
    for (queue, report) in queues {
        let Err(error) = report else { continue };
        console.terminal.name_queue(Some(queue.as_str()).filter(|_| queues.len() > 1));
        console.terminal.say_error(error);
        console.terminal.name_queue(None);
        exit = exit.max(exit::of(error));
    }
    let page = page(queues, console.clock.now())?;
    secure_file::replace(path, page.as_bytes(), mode)
        .with_context(|| format!("could not write {}", path.display()))?;
    Ok(exit)
}

/// Changes the figures in a file that other lines write as well, and that is made with this mode if there is
/// none. One with anything else in it is refused.
pub fn update_metrics(path: &Path, mode: u32, change: impl FnOnce(&mut Metrics)) -> Result<()> {
    let updated = secure_file::update(path, mode, |bytes| {
        let mut metrics =
            Metrics::read(&String::from_utf8_lossy(bytes)).map_err(io::Error::other)?;
        change(&mut metrics);
        Ok(metrics.to_text().into_bytes())
    });
    let shown = || format!("could not write the metrics {}", path.display());
    updated.map_err(|error| anyhow!(words(&error))).with_context(shown)
}

/// The name of a line as a service takes it: `mails-min-ndays-1-ndays-7`. Where that leaves anything out a
/// hash follows, so that no two lines have the same.
fn slug(LineName { queue, policy, .. }: &LineName) -> String {
    let dashed = |text: &str| {
        let text = text.to_ascii_lowercase();
        let parts = text.split(|c: char| !c.is_ascii_alphanumeric());
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
    };
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || " -.:,=/%".contains(c);
    let name = format!("{queue} {policy}");
    let mut slug = dashed(&name);
    let is_whole = dashed(queue) == *queue
        && policy.chars().all(is_plain)
        && !policy.contains(" --where ")
        && slug.len() <= SLUG;
    if !is_whole {
        slug.truncate(SLUG);
        slug += &format!("-{:08x}", fnv1a64(name.as_bytes()) >> 32);
    }
    slug
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_name_that_a_url_takes() {
        for (queue, policy, expected) in [
            ("default", "--progressive", "default-progressive"),
            ("e-mails", "--min-ndays 1 --ndays 7", "e-mails-min-ndays-1-ndays-7"),
            ("a b", "--ndays 7", "a-b-ndays-7-3898056a"),
            ("o", "--ndays 1 --where kind = 'ä'", "o-ndays-1-where-kind-da857408"),
        ] {
            let line =
                LineName { queue: queue.into(), policy: policy.into(), ..LineName::default() };
            assert_eq!(slug(&line), expected);
        }
    }
}
