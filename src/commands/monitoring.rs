//! Monitoring: pings, metrics and the page. It changes neither what a pass does nor how it exits.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context, Result, anyhow};
use backlog_schedule::{Instant, fnv1a64};
use backlog_store::system_error::{chain, reason};
use backlog_store::{Clock, LineName, PassCounts, StateDir, secure_file};

use super::assemble::line_policy;
use super::signals::Signals;
use super::{Console, line_name};
use crate::exit::Exit;
use crate::options::{Event, PassSettings, Queue};
use crate::ping::{MAX_WAIT, Pings};
use crate::report::{Labels, Metrics, QueueStatus, page};
use crate::terminal::Terminal;

/// Maximum length of the name of a line in a URL, without its hash.
const SLUG: usize = 80;
/// Interval at which a wait for a service checks for signals.
const POLL: Duration = Duration::from_millis(20);

/// The monitoring of a pass, from before it opens its table until it has ended.
pub struct Monitoring<'a> {
    settings: &'a PassSettings<'a>,
    mode: u32,
    labels: Labels,
    run: String,
    errors: HourlyErrors,
    /// True if another pass, which reports its own end, has the line.
    pub is_busy: bool,
    pings: Option<Pings>,
    has_metrics: bool,
    /// The text of the last ping.
    pub summary: String,
}

impl<'a> Monitoring<'a> {
    pub fn new(queue: &Queue, settings: &'a PassSettings, run: &str, terminal: &Terminal) -> Self {
        // As it was typed: a table that cannot be opened has the same labels.
        let policy = line_policy(&settings.schedule, &queue.mapping.conditions, queue.shard);
        let line = line_name(queue, queue.table_name(), policy);
        Self {
            settings,
            labels: Labels::of_line(&queue.db.name(), &line),
            mode: mode_of_reports([queue]),
            run: run.into(),
            errors: HourlyErrors { line, state: None, terminal: terminal.clone() },
            is_busy: false,
            pings: None,
            has_metrics: false,
            summary: String::new(),
        }
    }

    /// Begins once the line is locked and its table is open.
    pub fn begin(&mut self, state: &StateDir) {
        self.errors.state = Some(state.clone());
        self.pings = self.new_pings().inspect(|pings| pings.send(Event::Start, ""));
    }

    pub fn state(&self) -> Option<StateDir> {
        self.errors.state.clone()
    }

    /// Writes the metrics of the pass, while its line is locked.
    pub fn write_metrics(
        &mut self,
        exit: Exit,
        took: Duration,
        totals: Option<PassCounts>,
        now: Instant,
    ) {
        let Some(path) = self.settings.options.metrics.as_deref() else { return };
        self.has_metrics = true;
        let every = self.settings.schedule.policy.pass_interval();
        let (labels, exit) = (&self.labels, exit.code());
        let written = update_metrics(path, self.mode, |metrics| match self.is_busy {
            true => metrics.of_hung_line(labels, exit),
            false => metrics.of_pass(labels, now, took, exit, every, totals),
        });
        if let Err(error) = written {
            self.errors.report("unmeasured", &chain(&error), now);
        }
    }

    /// Reports the end of the pass, once its line is free for the next one. `last_pings` waits for the answer.
    pub fn end(
        mut self,
        result: &Result<Exit>,
        took: Duration,
        clock: &Clock,
        last_pings: &mut LastPings,
    ) {
        let exit = result.as_ref().map_or_else(Exit::from, |exit| *exit);
        if self.is_busy && exit == Exit::Done {
            return;
        }
        if let Err(error) = result {
            self.summary = format!("{}\n{}", chain(error), self.summary);
        }
        if !self.has_metrics {
            self.write_metrics(exit, took, None, clock.now());
        }
        if let Some(pings) = self.pings.take().or_else(|| self.new_pings()) {
            pings.send(Event::End(exit.code()), &self.summary);
            last_pings.0.push((pings, self.errors));
        }
    }

    fn new_pings(&self) -> Option<Pings> {
        let (ping, proxies) = self.settings.ping.clone()?;
        Some(Pings::new(ping, proxies, slug(&self.errors.line), self.run.clone()))
    }
}

/// The last pings of passes that have ended. The program waits for them before it ends.
#[derive(Default)]
pub struct LastPings(Vec<(Pings, HourlyErrors)>);

impl LastPings {
    /// Waits for all pings until a signal comes or their time is over.
    pub fn wait(&mut self, clock: &Clock, signals: &Signals) {
        let (began_at, signals_before) = (clock.monotonic(), signals.count());
        let wait_for = |pings: &Pings| loop {
            let waited = clock.monotonic().saturating_duration_since(began_at);
            if let Some(result) = pings.result(POLL.min(MAX_WAIT.saturating_sub(waited))) {
                return result;
            }
            if signals.count() != signals_before {
                return Err("the program was stopped".into());
            }
            if waited >= MAX_WAIT {
                return Err(format!("no answer within {}", humantime::format_duration(MAX_WAIT)));
            }
        };
        signals.while_polled(|| {
            for (pings, errors) in self.0.drain(..) {
                if let Err(why) = wait_for(&pings) {
                    let why = format!("could not ping: {why}");
                    errors.report("unreported", &why, clock.now());
                }
            }
        });
    }
}

/// Errors that may repeat in each pass of a line. Under cron each is reported once an hour.
struct HourlyErrors {
    line: LineName,
    /// Keeps the time of each report, once the line is locked.
    state: Option<StateDir>,
    terminal: Terminal,
}

impl HourlyErrors {
    fn report(&self, kind: &str, why: &str, now: Instant) {
        if self.terminal.width.is_some() {
            return log::warn!("{why}");
        }
        let state = self.state.as_ref();
        if state.is_none_or(|state| state.may_print(&self.line, kind, now)) {
            log::error!("{why}");
        }
    }
}

/// The mode of a new report: group and others may read it if they may read all of the databases.
pub fn mode_of_reports<'a>(queues: impl IntoIterator<Item = &'a Queue>) -> u32 {
    let files = queues.into_iter().filter_map(|queue| queue.db.file());
    let modes = files.filter_map(|file| Some(fs::metadata(file).ok()?.mode()));
    modes.fold(0o644, |all, mode| all & (mode | 0o600))
}

/// Writes the page of these queues. Cron mails the errors that it shows.
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
        exit = exit.max(Exit::from(error));
    }
    let page = page(queues, console.clock.now())?;
    secure_file::replace(path, page.as_bytes(), mode)
        .with_context(|| format!("could not write {}", path.display()))?;
    Ok(exit)
}

/// Changes the metrics in a file that other lines may share. Refuses a file with other content.
pub fn update_metrics(path: &Path, mode: u32, change: impl FnOnce(&mut Metrics)) -> Result<()> {
    let updated = secure_file::update(path, mode, |bytes| {
        let mut metrics =
            Metrics::read(&String::from_utf8_lossy(bytes)).map_err(io::Error::other)?;
        change(&mut metrics);
        Ok(metrics.to_text().into_bytes())
    });
    let context = || format!("could not write the metrics {}", path.display());
    updated.map_err(|error| anyhow!(reason(&error))).with_context(context)
}

/// The name of a line in a URL: `mails-min-ndays-1-ndays-7`. A hash follows if that leaves anything out.
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
    fn names_of_lines_are_safe_in_urls() {
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
