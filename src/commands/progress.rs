//! The progress of a pass on a terminal: how many records are done, how many of them failed, how fast it
//! goes, and how long it still takes.

use std::time::{Duration, Instant as Monotonic};

use indicatif::ProgressBar;

use crate::report::grouped;
use crate::terminal::Terminal;
use crate::time::rough_span;

/// How often it is drawn at most.
const INTERVAL: Duration = Duration::from_millis(50);

pub struct Progress {
    bar: ProgressBar,
    width: usize,
    total: u64,
    done: u64,
    failed: u64,
    began: Monotonic,
    shown: Option<Monotonic>,
}

impl Progress {
    /// Of so many attempts; a hidden one if nobody is looking.
    pub fn new(terminal: &Terminal, total: u64, now: Monotonic) -> Self {
        let (bar, width) = terminal.progress(total);
        Self { bar, width, total, done: 0, failed: 0, began: now, shown: None }
    }

    pub fn attempted(&mut self, is_failure: bool, now: Monotonic) {
        self.done += 1;
        self.failed += u64::from(is_failure);
        let is_due = self.shown.is_none_or(|at| now.saturating_duration_since(at) >= INTERVAL);
        if !self.bar.is_hidden() && (is_due || self.done == self.total) {
            self.shown = Some(now);
            self.bar.set_position(self.done);
            self.bar.set_message(self.text(now.saturating_duration_since(self.began)));
        }
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// In full where that fits, or else as much as does.
    fn text(&self, elapsed: Duration) -> String {
        let rate = self.done as f64 / elapsed.as_secs_f64().max(0.001);
        let (done, failed) = (self.done, self.failed);
        // Others may have become due meanwhile.
        let total = self.total.max(done);
        let left = rough_span(((total - done) as f64 / rate).ceil() as i64);
        let [shown_done, shown_total, shown_failed] = [done, total, failed].map(grouped);
        let full =
            format!("{shown_done}/{shown_total}, {shown_failed} failed, {rate:.0}/s, {left} left");
        if full.chars().count() < self.width {
            return full;
        }
        let mut short = format!("{done}/{total}");
        for part in [format!(", {failed} failed"), format!(", {rate:.0}/s"), format!(", {left}")] {
            if short.len() + part.len() < self.width {
                short += &part;
            }
        }
        short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(width: usize, now: Monotonic) -> Progress {
        let bar = ProgressBar::hidden();
        Progress { bar, width, total: 5_000, done: 4_055, failed: 945, began: now, shown: None }
    }

    #[test]
    fn what_fits_is_said_and_no_more() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Monotonic::now();
        for (width, expected) in [
            (80, "4,055/5,000, 945 failed, 1014/s, 1 s left"),
            (40, "4055/5000, 945 failed, 1014/s, 1 s"),
            (20, "4055/5000, 1014/s"),
        ] {
            assert_eq!(progress(width, now).text(Duration::from_secs(4)), expected);
        }
    }
}
