//! The status of a queue: its records by status and age, what is due, and its passes.

use std::collections::BTreeMap;
use std::iter;

use backlog_schedule::{
    Causes, HOUR, Id, Instant, Policy, Record, Status, Verdict, cut_line, json_line, one_line, span,
};
use backlog_store::system_error::chain;
use backlog_store::{Count, Pause};
use serde::{Serialize, Serializer};
use serde_json::json;

use super::failures::{top_failures, top_failures_json};
use super::passes::{Passes, passes_in_short, passes_json, passes_text};
use super::screen::{Column, Screen, grouped, padded, table};

/// Upper bounds of the age bands in days, at which the progressive schedule changes its frequency.
pub const BANDS: [i64; 6] = [1, 7, 14, 30, 180, 360];
/// The bands, older records, and undated ones.
pub(super) const COLUMNS: usize = BANDS.len() + 2;

/// The causes of a queue's failures. As JSON, the most frequent ones.
pub struct Failures {
    pub queue: String,
    pub causes: Causes,
}

impl Serialize for Failures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        top_failures_json(&self.causes, &self.queue).serialize(serializer)
    }
}

/// The state of a table. The fields are those of `status --json`.
#[derive(Serialize)]
pub struct StatusReport {
    pub db: String,
    pub table: String,
    pub now: Instant,
    #[serde(rename = "statuses", serialize_with = "by_status")]
    pub counts: Vec<Count>,
    pub oldest_pending: Option<Oldest>,
    /// By the chosen policy, if there is one.
    #[serde(flatten)]
    pub due: Option<DueReport>,
    #[serde(serialize_with = "as_json")]
    pub passes: Passes,
    pub queue: String,
    /// Pending records that their handler snoozed, and other failed ones.
    pub snoozed: u64,
    pub failed: u64,
    /// Pending records that a running pass most likely has in hand.
    pub in_hand: u64,
    pub failures: Failures,
    pub paused: Option<Pause>,
    /// The crontab line of the schedule, with its conditions.
    #[serde(skip)]
    pub line: Option<String>,
    /// The newest archived records.
    #[serde(skip)]
    pub archived: Vec<Record>,
}

#[derive(Serialize)]
pub struct Oldest {
    pub id: Id,
    pub date_inserted: Instant,
}

#[derive(Default, Serialize)]
pub struct DueReport {
    pub line: String,
    pub due: u64,
    pub waiting: u64,
    /// To be archived by the next pass.
    pub to_be_archived: u64,
    /// Pending, but never due by this policy.
    pub never_due: u64,
    pub oldest_due: Option<Oldest>,
    /// Time since the first of the due records became due, if it is known.
    pub oldest_due_secs: Option<i64>,
    pub next_due_at: Option<Instant>,
    #[serde(skip)]
    pub by_hour: ByHour,
    /// Whether the schedule is only cron's.
    #[serde(skip)]
    pub is_by_age: bool,
    /// The tick of the schedule.
    #[serde(skip)]
    pub every_secs: i64,
}

impl DueReport {
    pub fn new(policy: &Policy) -> Self {
        let is_by_age = matches!(policy, Policy::Age(_));
        let every_secs = policy.every_secs();
        Self { line: policy.line(), is_by_age, every_secs, ..Self::default() }
    }

    /// Counts a pending record, which has been due since `since` if it is due.
    pub fn add(&mut self, record: &Record, verdict: Verdict, since: Option<Instant>, now: Instant) {
        match verdict {
            Verdict::Due(_) => {
                self.due += 1;
                self.next_due_at = Some(now);
                keep_older(&mut self.oldest_due, record);
                let secs = since.map(|since| now.0.saturating_sub(since.0).max(0));
                self.oldest_due_secs = self.oldest_due_secs.max(secs);
            }
            Verdict::Archive(_) => self.to_be_archived += 1,
            Verdict::Wait { until } => {
                self.waiting += 1;
                self.by_hour.add(until, now);
                self.next_due_at = Some(self.next_due_at.map_or(until, |next| next.min(until)));
            }
            Verdict::Never(_) => self.never_due += 1,
        }
    }
}

/// Number of records that are due in each of the next hours, and after that.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByHour {
    pub hours: [u64; 24],
    pub later: u64,
    /// When the first of them is due.
    pub next: Option<Instant>,
}

impl ByHour {
    fn add(&mut self, until: Instant, now: Instant) {
        self.next = self.next.into_iter().chain([until]).min();
        let hour = until.0.saturating_sub(now.0).max(0) / HOUR;
        match usize::try_from(hour).ok().and_then(|hour| self.hours.get_mut(hour)) {
            Some(records) => *records += 1,
            None => self.later += 1,
        }
    }
}

pub fn keep_older(oldest: &mut Option<Oldest>, record: &Record) {
    if let Some(date_inserted) = record.inserted_at
        && oldest.as_ref().is_none_or(|oldest| date_inserted < oldest.date_inserted)
    {
        *oldest = Some(Oldest { id: record.id.clone(), date_inserted });
    }
}

pub(super) fn of_status(report: &StatusReport, status: Status) -> u64 {
    report.counts.iter().filter(|count| count.status == status).map(|count| count.rows).sum()
}

pub(super) fn pending(report: &StatusReport) -> u64 {
    Status::PENDING.map(|status| of_status(report, status)).iter().sum()
}

/// The rows of each status by band. Our statuses come first, also without rows.
pub(super) fn status_lines(counts: &[Count]) -> Vec<(String, [u64; COLUMNS])> {
    let mut by_status: BTreeMap<(bool, &str), [u64; COLUMNS]> = BTreeMap::new();
    for count in counts {
        let cells = by_status.entry((count.status == Status::Foreign, &count.text)).or_default();
        cells[count.band.unwrap_or(COLUMNS - 1)] += count.rows;
    }
    let ours = Status::OURS.map(Status::name);
    let of_ours =
        ours.map(|name| (name.into(), by_status.remove(&(false, name)).unwrap_or_default()));
    // A value with the name of a status that is not mapped to it.
    let quoted = |text: &str| if ours.contains(&text) { format!("'{text}'") } else { text.into() };
    let others = by_status.into_iter().map(|((_, text), cells)| (quoted(text), cells));
    of_ours.into_iter().chain(others).collect()
}

pub(super) fn band_names() -> impl Iterator<Item = String> {
    let from = iter::once(0).chain(BANDS);
    let bands = from.zip(BANDS).map(|(from, to)| format!("{from}-{to}d"));
    bands.chain(["older".into(), "undated".into()])
}

/// The records by status and age, or by status alone on a narrow terminal.
fn counts_table(counts: &[Count], screen: &Screen) -> String {
    let header = iter::once("STATUS".into()).chain(band_names()).chain(["total".into()]);
    let mut rows: Vec<Vec<String>> = vec![header.collect()];
    for (status, cells) in status_lines(counts) {
        let cells = cells.into_iter().chain([cells.iter().sum()]).map(|rows| rows.to_string());
        rows.push(iter::once(cut_line(&status)).chain(cells).collect());
    }
    let table = aligned(&rows);
    let is_wide = |width| table.lines().any(|line| line.chars().count() > width);
    if !screen.width.is_some_and(is_wide) {
        return table;
    }
    rows.iter_mut().for_each(|row| drop(row.drain(1..=COLUMNS)));
    aligned(&rows)
}

/// Lines with the first column aligned to the left and the others to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, &width))| padded(cell, width, column > 0));
        cells.collect::<Vec<_>>().join("  ") + "\n"
    };
    rows.iter().map(line).collect()
}

pub fn status_text(report: &StatusReport, screen: &Screen) -> String {
    let shown = |Oldest { id, date_inserted: at }: &Oldest| {
        let ago = span(report.now.0.saturating_sub(at.0));
        format!("{id}, inserted {}, {ago} ago", screen.at(*at))
    };
    let oldest = |oldest: &Option<Oldest>| oldest.as_ref().map_or("none".into(), shown);
    let mut lines = vec![("oldest pending", oldest(&report.oldest_pending))];
    if let Some(due) = &report.due {
        lines.push(("due now", format!("{} ({})", due.due, one_line(&due.line))));
        lines.push(("oldest due", oldest(&due.oldest_due)));
        lines.push(("waiting", due.waiting.to_string()));
        if due.to_be_archived > 0 {
            lines.push(("to be archived", format!("{} (given up)", due.to_be_archived)));
        }
        if due.never_due > 0 {
            let rows = format!("{} (too old for this line, or undated)", due.never_due);
            lines.push(("never due", rows));
        }
        let next = match due.next_due_at {
            None => "never".into(),
            Some(at) if at <= report.now => "now".into(),
            Some(at) => format!("{}, in {}", screen.at(at), span(at.0 - report.now.0)),
        };
        lines.push(("next due", next));
    } else {
        let how = "say --ndays, --fibonacci, --policy or --progressive to see";
        lines.push(("due now", how.into()));
    }
    let paused = report.paused.iter().map(|pause| screen.wrap(&pause.sentence(|at| screen.at(at))));
    let lines = lines.iter().map(|(what, it)| screen.wrap(&format!("{what:<14}  {it}")));
    let lines: String = paused.chain(lines).collect();
    let (table, db) = (one_line(&report.table), one_line(&report.db));
    let passes = passes_text(&report.passes, screen);
    let now = screen.at(report.now);
    let failures = section(top_failures(&[("", &report.failures.causes)], screen));
    let title = screen.wrap(&format!("{table} in {db} at {now}"));
    let counts = counts_table(&report.counts, screen);
    format!("{title}\n{counts}\n{lines}\n{passes}{failures}")
}

/// `{"NEW":{"total":3,"by_age":{"0-1d":3,...}},...}`
fn by_status<S: Serializer>(counts: &[Count], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(status_lines(counts).into_iter().map(|(status, cells)| {
        let total: u64 = cells.iter().sum();
        let bands: serde_json::Map<_, _> = band_names().zip(cells.map(Into::into)).collect();
        (status, json!({ "total": total, "by_age": bands }))
    }))
}

fn as_json<S: Serializer>(passes: &Passes, serializer: S) -> Result<S::Ok, S::Error> {
    passes_json(passes).serialize(serializer)
}

/// A queue and its status, or the error.
pub type QueueStatus = (String, anyhow::Result<StatusReport>);

/// The line of a queue that cannot be read, among several.
pub fn unknown_queue_json(queue: &str, error: &anyhow::Error) -> String {
    json_line(&json!({ "queue": queue, "error": chain(error) }))
}

/// A line for each queue of backlog.toml, and the most frequent causes of failures.
pub fn overview_text(queues: &[QueueStatus], screen: &Screen) -> String {
    let rows: Vec<_> = queues.iter().map(|queue| overview_row(queue, screen)).collect();
    let columns = vec![
        Column::text("QUEUE", 10),
        Column::number("PENDING", 7).wide(70),
        Column::number("0-1d", 6).wide(120),
        Column::number("1-7d", 6).wide(120),
        Column::number("7-30d", 6).wide(120),
        Column::number("older", 6).wide(120),
        Column::number("DUE", 6),
        Column::number("FAILED", 6),
        Column::number("SNOOZED", 7).wide(70),
        Column::text("OLDEST DUE", 10).wide(70),
        Column::text("LAST PASS", 9),
    ];
    let lines = table(columns, &rows, screen);
    let known = queues.iter().filter_map(|(name, it)| Some((name.as_str(), it.as_ref().ok()?)));
    let causes: Vec<_> = known.map(|(name, it)| (name, &it.failures.causes)).collect();
    lines + &section(top_failures(&causes, screen))
}

fn section(text: String) -> String {
    if text.is_empty() { text } else { format!("\n{text}") }
}

fn overview_row((name, report): &QueueStatus, screen: &Screen) -> Vec<String> {
    let mut row = vec![one_line(name)];
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            row.extend(iter::repeat_n(String::from("-"), 9));
            row.push(one_line(&chain(error)));
            return row;
        }
    };
    let ages = pending_by_age(&report.counts);
    let due = report.due.as_ref();
    row.push(grouped(ages.iter().sum()));
    row.extend(ages.map(grouped));
    row.push(due.map_or_else(|| "-".into(), |due| grouped(due.due)));
    row.extend([report.failed, report.snoozed].map(grouped));
    let oldest = due.and_then(|due| due.oldest_due.as_ref());
    row.push(oldest.map_or_else(|| "-".into(), |it| screen.distance(it.date_inserted)));
    row.push(last_pass(report, screen));
    row
}

/// The state of a queue's passes in short: paused, or the last one.
pub(super) fn last_pass(report: &StatusReport, screen: &Screen) -> String {
    match &report.paused {
        Some(Pause { until: Some(until), .. }) => format!("paused until {}", screen.at(*until)),
        Some(Pause { until: None, .. }) => "paused".into(),
        None => passes_in_short(&report.passes, screen),
    }
}

/// Pending records up to an age of a day, a week, 30 days, and older or undated ones.
fn pending_by_age(counts: &[Count]) -> [u64; 4] {
    let mut ages = [0; 4];
    for count in counts.iter().filter(|count| count.status.is_pending()) {
        let age = match count.band {
            Some(band @ (0 | 1)) => band,
            Some(2 | 3) => 2,
            Some(_) | None => 3,
        };
        ages[age] += count.rows;
    }
    ages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_begins_with_its_first_second_and_ends_before_the_next() {
        let mut by_hour = ByHour::default();
        for until in [0, 1, 3_599, 3_600, 86_399, 86_400, i64::MAX] {
            by_hour.add(Instant(until), Instant(0));
        }
        assert_eq!((by_hour.hours[0], by_hour.hours[1], by_hour.hours[23]), (3, 1, 1));
        assert_eq!((by_hour.hours.iter().sum::<u64>(), by_hour.later), (5, 2));
        assert_eq!(by_hour.next, Some(Instant(0)));
    }
}
