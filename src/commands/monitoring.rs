//! Monitoring of a pass: the pings of a service, the file of metrics, and what cron's mail says of
//! archived records. None of it changes what the pass does or how it exits.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::assemble::{Assembly, line_policy};
use crate::exit;
use crate::exit::Exit;
use crate::options::{PassSettings, Queue};
#[cfg(feature = "webhook")]
use crate::ping::Pings;
use crate::report::{Labels, Metrics, PassFigures};
use crate::secure_file;
use crate::store::{Complaint, Counts, LineName, StateDir};
use crate::system_error::{chain, words};
use crate::time::Instant;

/// Prometheus runs as another user.
const READABLE: u32 = 0o644;
/// The longest name of a line in a URL.
const SLUG: usize = 80;

/// What is reported of one pass, from before it opens its table until it has ended.
pub struct Monitoring<'a> {
    settings: &'a PassSettings,
    db: String,
    line: LineName,
    run: String,
    /// Whether a person reads what is said.
    attended: bool,
    /// Where it stands what was complained of, once the line is locked.
    state: Option<StateDir>,
    /// Whether another pass of the line runs, which reports itself.
    pub is_busy: bool,
    has_metrics: bool,
    summary: String,
    #[cfg(feature = "webhook")]
    pings: Option<Pings>,
}

impl<'a> Monitoring<'a> {
    pub fn new(queue: &Queue, settings: &'a PassSettings, run: &str, attended: bool) -> Self {
        let table = queue.table_name().into();
        let policy = line_policy(queue, &settings.schedule);
        Self {
            settings,
            db: queue.db.identity(),
            line: LineName { queue: queue.name.clone(), table, policy },
            run: run.into(),
            attended,
            state: None,
            is_busy: false,
            has_metrics: false,
            summary: String::new(),
            #[cfg(feature = "webhook")]
            pings: None,
        }
    }

    /// The line is locked, and its table is there.
    pub fn begin(&mut self, assembly: &Assembly) {
        self.line = assembly.name.clone();
        self.state = Some(assembly.state.clone());
        #[cfg(feature = "webhook")]
        if let Some(pings) = self.pings() {
            pings.begin();
            self.pings = Some(pings);
        }
    }

    /// The last word on a pass that ran, for who reads its pings.
    pub fn sum_up(&mut self, summary: String) {
        self.summary = summary;
    }

    /// Writes the figures of the pass, as long as its line is locked: no later pass has any yet.
    pub fn measure(&mut self, exit: Exit, took: Duration, totals: Option<Counts>, now: Instant) {
        let Some(path) = self.settings.metrics.as_deref() else { return };
        self.has_metrics = true;
        let figures = PassFigures { ended_at: now, took, exit: exit.code(), totals };
        let labels = Labels::of_line(&self.db, &self.line);
        let written = update_metrics(path, |metrics| match self.is_busy {
            true => metrics.of_hung_line(&labels, figures.exit),
            false => metrics.of_pass(&labels, &figures),
        });
        written.unwrap_or_else(|error| self.complain(Complaint::Metrics, &chain(&error), now));
    }

    /// Reports how the pass has ended, once its line is free for the next one.
    pub fn end(mut self, result: &Result<Exit>, took: Duration, now: Instant) {
        let exit = result.as_ref().map_or_else(exit::of, |exit| *exit);
        if self.is_busy && exit == Exit::Done {
            return;
        }
        if let Err(error) = result {
            self.summary = format!("{}\n{}", chain(error), self.summary);
        }
        if !self.has_metrics {
            self.measure(exit, took, None, now);
        }
        #[cfg(feature = "webhook")]
        if let Some(pings) = self.pings.take().or_else(|| self.pings()) {
            let told = pings.end(exit.code(), &self.summary);
            told.unwrap_or_else(|error| {
                self.complain(Complaint::Ping, &format!("could not ping: {error}"), now);
            });
        }
    }

    #[cfg(feature = "webhook")]
    fn pings(&self) -> Option<Pings> {
        let (ping, proxies) = (self.settings.ping.clone()?, self.settings.proxies.clone());
        Some(Pings::new(ping, proxies, slug(&self.line), self.run.clone()))
    }

    /// Says that something was not reported: cron's mail has it once an hour.
    fn complain(&self, complaint: Complaint, why: &str, now: Instant) {
        if self.attended {
            return log::warn!("{why}");
        }
        let state = self.state.as_ref();
        let may = state.map_or(Ok(true), |state| state.may_complain(&self.line, complaint, now));
        if may.unwrap_or(true) {
            log::error!("{why}");
        }
    }
}

/// Changes the figures in a file that others write as well.
pub fn update_metrics(path: &Path, change: impl FnOnce(&mut Metrics)) -> Result<()> {
    let updated = secure_file::update(path, READABLE, |bytes| {
        let mut metrics = Metrics::read(&String::from_utf8_lossy(bytes));
        change(&mut metrics);
        metrics.to_text().into_bytes()
    });
    updated
        .map_err(|error| anyhow::anyhow!(words(&error)))
        .with_context(|| format!("could not write the metrics {}", path.display()))
}

/// The name of a line as a service takes it: `mails-min-ndays-1-ndays-7`.
fn slug(LineName { queue, policy, .. }: &LineName) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = format!("{queue} {policy}").chars().map(legal).collect();
    let parts: Vec<_> = name.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-").chars().take(SLUG).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_name_that_a_url_takes() {
        for (queue, policy, expected) in [
            ("default", "--progressive", "default-progressive"),
            ("E-Mails", "--min-ndays 1 --ndays 7", "e-mails-min-ndays-1-ndays-7"),
            ("o", "--ndays 1 --where kind = 'ä'", "o-ndays-1-where-kind"),
        ] {
            let line =
                LineName { queue: queue.into(), policy: policy.into(), ..LineName::default() };
            assert_eq!(slug(&line), expected);
        }
    }
}
