//! Metrics of crontab lines and tables for the textfile collector of node_exporter. Series of others stay in the file.
//! Format: <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use backlog_schedule::{DAY, Instant, one_line};
use backlog_store::{LineName, PassCounts};

use super::figures::{FIGURES, StatusReport};
use super::status::status_lines;

const PREFIX: &str = "backlog_";
/// Seconds without a pass after which a line is removed.
pub const GONE_AFTER: i64 = 30 * DAY;

const PASS_END: &str = "backlog_pass_timestamp_seconds";
const PASS_SUCCESS: &str = "backlog_pass_success_timestamp_seconds";
const PASS_EXIT: &str = "backlog_pass_exit_code";
const READABLE: &str = "backlog_table_readable";
const MADE: &str = "backlog_status_timestamp_seconds";

/// The families of series of passes, with their help. A total is a counter, the others are gauges.
const OF_PASSES: [(&str, &str); 6] = [
    (PASS_END, "When the last pass of the crontab line ended."),
    (PASS_SUCCESS, "When the last pass of the crontab line ended with exit 0, 0 for never."),
    ("backlog_pass_duration_seconds", "How long the last pass of the crontab line took."),
    (
        "backlog_pass_interval_seconds",
        "How often a pass of the crontab line is expected, if its schedule says so.",
    ),
    (PASS_EXIT, "Exit status of the last pass of the crontab line."),
    ("backlog_attempts_total", "Attempts of all passes of the crontab line, by outcome."),
];
const OF_TABLES: [(&str, &str); 3] = [
    (READABLE, "Whether the table could be read for these figures."),
    (MADE, "When the figures of the table were made."),
    ("backlog_records", "Records of the table, by status."),
];

/// All families. The collector takes a family from one file only, so passes and tables share none.
fn families() -> impl Iterator<Item = (&'static str, &'static str)> {
    let figures = FIGURES.iter().filter_map(|figure| figure.metric);
    OF_PASSES.into_iter().chain(OF_TABLES).chain(figures)
}

#[derive(Default)]
pub struct Labels(String);

impl Labels {
    pub fn of_table(db: &str, queue: &str, table: &str) -> Self {
        Self::default().with("db", db).with("queue", queue).with("table", table)
    }

    pub fn of_line(db: &str, LineName { queue, table, policy }: &LineName) -> Self {
        Self::of_table(db, queue, table).with("line", policy)
    }

    fn with(&self, name: &str, value: &str) -> Self {
        let value = one_line(value).replace('\\', r"\\").replace('"', "\\\"");
        let comma = if self.0.is_empty() { "" } else { "," };
        Self(format!("{}{comma}{name}=\"{value}\"", self.0))
    }
}

/// Series with their values, by family and labels.
#[derive(Default)]
pub struct Metrics(BTreeMap<(&'static str, String), String>);

impl Metrics {
    /// Reads the series of these families. Skips damaged lines and unknown `backlog_` families; refuses other lines.
    pub fn read(text: &str) -> Result<Self, &'static str> {
        let is_own = |line: &str| {
            let name = line.strip_prefix("# HELP ").or(line.strip_prefix("# TYPE "));
            name.unwrap_or(line).starts_with(PREFIX)
        };
        if !text.lines().all(is_own) {
            return Err("it has lines that backlog did not write; name another file");
        }
        let series = text.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once("} ")?;
            let (name, labels) = series.split_once('{')?;
            value.parse::<f64>().ok()?;
            let (family, _) = families().find(|(family, _)| *family == name)?;
            Some(((family, labels.into()), value.into()))
        });
        Ok(Self(series.collect()))
    }

    /// `every` is the expected interval in seconds. `totals` are the line's attempts, unknown after an early failure.
    pub fn of_pass(
        &mut self,
        labels: &Labels,
        ended_at: Instant,
        took: Duration,
        exit: u8,
        every: Option<i64>,
        totals: Option<PassCounts>,
    ) {
        self.forget_gone_lines(ended_at);
        if let Some(every) = every {
            self.set("backlog_pass_interval_seconds", labels, every);
        }
        self.set(PASS_END, labels, ended_at.0);
        if exit == 0 {
            self.set(PASS_SUCCESS, labels, ended_at.0);
        } else {
            // Otherwise a line that has never succeeded would look like an unknown line.
            self.0.entry((PASS_SUCCESS, labels.0.clone())).or_insert_with(|| "0".into());
        }
        self.set("backlog_pass_duration_seconds", labels, took.as_secs_f64());
        self.set(PASS_EXIT, labels, exit);
        let Some(totals) = totals else { return };
        for (outcome, count) in [
            ("succeeded", totals.succeeded),
            ("failed", totals.failed),
            ("snoozed", totals.snoozed),
            ("archived", totals.archived),
            ("interrupted", totals.interrupted),
        ] {
            self.set("backlog_attempts_total", &labels.with("outcome", outcome), count);
        }
    }

    /// Sets the series of a pass that did nothing, because the running one hangs.
    pub fn of_hung_line(&mut self, labels: &Labels, exit: u8) {
        self.set(PASS_EXIT, labels, exit);
    }

    /// Sets the series of a table. A table that could not be read has no report.
    pub fn of_table(&mut self, labels: &Labels, now: Instant, report: Option<&StatusReport>) {
        let Labels(table) = labels;
        // Series of a status or a schedule that no longer exists must go.
        self.0.retain(|(family, labels), _| is_of_passes(family) || !begins_with(labels, table));
        self.set(READABLE, labels, u8::from(report.is_some()));
        self.set(MADE, labels, report.map_or(now, |report| report.now).0);
        let Some(report) = report else { return };
        for (status, records) in status_lines(&report.counts) {
            let labels = labels.with("status", &status);
            self.set("backlog_records", &labels, records.iter().sum::<u64>());
        }
        let of_line = labels.with("line", report.line.as_deref().unwrap_or_default());
        for figure in FIGURES {
            let labels = if figure.needs_schedule() { &of_line } else { labels };
            if let Some((name, _)) = figure.metric
                && let Ok(Some(value)) = figure.value(report)
            {
                self.set(name, labels, value);
            }
        }
    }

    fn forget_gone_lines(&mut self, now: Instant) {
        let is_gone = |value: &str| value.parse().is_ok_and(|at: i64| at < now.0 - GONE_AFTER);
        let ends = self.0.iter().filter(|((family, _), _)| *family == PASS_END);
        let gone = ends.filter(|(_, end)| is_gone(end)).map(|((_, line), _)| line.clone());
        let gone: Vec<_> = gone.collect();
        self.0.retain(|(family, labels), _| {
            !is_of_passes(family) || !gone.iter().any(|line| begins_with(labels, line))
        });
    }

    fn set(&mut self, name: &'static str, labels: &Labels, value: impl std::fmt::Display) {
        self.0.insert((name, labels.0.clone()), format!("{value}"));
    }

    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (name, help) in families() {
            let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
            let series = self.0.iter().filter(|((family, _), _)| *family == name);
            for (at, ((_, labels), value)) in series.enumerate() {
                if at == 0 {
                    // Writing to a text does not fail.
                    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
                }
                let _ = writeln!(text, "{name}{{{labels}}} {value}");
            }
        }
        text
    }
}

fn begins_with(labels: &str, prefix: &str) -> bool {
    labels.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
}

fn is_of_passes(family: &str) -> bool {
    OF_PASSES.iter().any(|(name, _)| *name == family)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(policy: &str) -> Labels {
        let name = LineName { queue: "mails".into(), table: "t".into(), policy: policy.into() };
        Labels::of_line("/a\"b\\.db", &name)
    }

    fn pass(metrics: &mut Metrics, policy: &str, at: i64, exit: u8, succeeded: Option<u64>) {
        let totals = succeeded.map(|succeeded| PassCounts { succeeded, ..PassCounts::default() });
        let took = Duration::from_millis(1_500);
        metrics.of_pass(&line(policy), Instant(at), took, exit, Some(60), totals);
    }

    #[test]
    fn lines_share_a_file_and_what_is_read_is_what_was_written() {
        let mut metrics = Metrics::default();
        pass(&mut metrics, "--ndays 1", 70, 0, Some(7));
        pass(&mut metrics, "--ndays 7", 70, 1, Some(2));
        let text = metrics.to_text();
        assert_eq!(Metrics::read(&text).unwrap().to_text(), text);
        let labels = r#"{db="/a\"b\\.db",queue="mails",table="t",line="--ndays 1""#;
        for series in [
            format!("backlog_pass_timestamp_seconds{labels}}} 70\n"),
            format!("backlog_pass_duration_seconds{labels}}} 1.5\n"),
            format!("backlog_attempts_total{labels},outcome=\"succeeded\"}} 7\n"),
        ] {
            assert!(text.contains(&series), "{series} is not in {text}");
        }
        assert_eq!(text.matches("# TYPE").count(), OF_PASSES.len());
        assert_eq!(text.matches("backlog_pass_success_timestamp_seconds{").count(), 2);
    }

    #[test]
    fn a_pass_that_failed_early_leaves_the_counters_and_the_last_success() {
        let mut metrics = Metrics::default();
        pass(&mut metrics, "--ndays 1", 70, 0, Some(7));
        pass(&mut metrics, "--ndays 1", 99, 75, None);
        let text = metrics.to_text();
        for series in ["success_timestamp_seconds", "attempts_total", "exit_code"] {
            assert!(text.contains(series));
        }
        let value = |name: &str| {
            let found = text.lines().find(|line| line.starts_with(name));
            found.and_then(|line| line.rsplit_once(' ')).map(|(_, value)| value)
        };
        assert_eq!(value("backlog_pass_success_timestamp_seconds{"), Some("70"));
        assert_eq!(value("backlog_pass_exit_code{"), Some("75"));
        assert!(text.contains("outcome=\"succeeded\"} 7\n"));
        // Finding a hung line does not count as a pass.
        metrics.of_hung_line(&line("--ndays 1"), 75);
        assert_eq!(metrics.to_text(), text);
    }

    #[test]
    fn damaged_lines_are_skipped_and_foreign_lines_refused() {
        let text = "backlog_pass_exit_code{db=\"a\"} lots\nbacklog_records 7\nbacklog_x{} 1\n";
        assert_eq!(Metrics::read(text).unwrap().to_text(), "");
        for text in ["x{} 1\n", "# HELP node_load1 x\n", "\n", "PATH=/bin\n"] {
            assert!(Metrics::read(text).is_err(), "{text}");
        }
        assert!(Metrics::read("").is_ok());
    }

    #[test]
    fn a_line_without_a_pass_for_a_month_is_gone() {
        let mut metrics = Metrics::default();
        pass(&mut metrics, "--ndays 1", 70, 0, Some(7));
        pass(&mut metrics, "--ndays 1 --where x", 70, 0, Some(7));
        pass(&mut metrics, "--ndays 1", 71 + GONE_AFTER, 0, Some(8));
        let text = metrics.to_text();
        assert!(text.contains("\"--ndays 1\"") && !text.contains("--where"), "{text}");
    }
}
