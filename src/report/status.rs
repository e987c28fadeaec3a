//! The status of a queue as text and as JSON, and of several queues in one table.

use std::collections::BTreeMap;
use std::iter;

use backlog_schedule::{Status, cut_line, one_line, rough_span, span};
use backlog_store::{Pause, StatusCount, chain};
use serde_json::{Value as Json, json};

use super::failures::{top_failures, top_failures_json};
use super::figures::{FIGURES, Figure, OldestRecord, Source, StatusLine, StatusReport};
use super::passes::{passes_json, passes_summary, passes_text};
use super::screen::{Screen, ScreenColumn, grouped, table};

/// Upper bounds of the age bands in days, at which the progressive schedule changes its frequency.
pub const BANDS: [i64; 6] = [1, 7, 14, 30, 180, 360];
pub(super) const BAND_NAMES: [&str; COLUMNS] =
    ["0-1d", "1-7d", "7-14d", "14-30d", "30-180d", "180-360d", "older", "undated"];
const COLUMNS: usize = BANDS.len() + 2;

/// Number of rows of each status by band. Our statuses come first, even without rows.
pub(super) fn status_lines(counts: &[StatusCount]) -> Vec<(String, [u64; COLUMNS])> {
    let mut by_status: BTreeMap<(bool, &str), [u64; COLUMNS]> = BTreeMap::new();
    for count in counts {
        let cells = by_status.entry((count.status == Status::Foreign, &count.text)).or_default();
        cells[count.band.unwrap_or(COLUMNS - 1)] += count.rows;
    }
    let ours = Status::OURS.map(Status::name);
    let of_ours =
        ours.map(|name| (name.into(), by_status.remove(&(false, name)).unwrap_or_default()));
    // An unmapped value with the name of one of our statuses is quoted.
    let quoted = |text: &str| if ours.contains(&text) { format!("'{text}'") } else { text.into() };
    let others = by_status.into_iter().map(|((_, text), cells)| (quoted(text), cells));
    of_ours.into_iter().chain(others).collect()
}

/// The records by status and age; on a narrow terminal by status alone.
fn counts_table(counts: &[StatusCount], screen: &Screen) -> String {
    let row = |(status, cells): (String, [u64; COLUMNS])| {
        let cells = cells.into_iter().chain([cells.iter().sum()]).map(|rows| rows.to_string());
        iter::once(cut_line(&status)).chain(cells).collect()
    };
    let rows: Vec<_> = status_lines(counts).into_iter().map(row).collect();
    let counts = |ages_from: usize, screen: Screen| {
        let ages = BAND_NAMES.map(|name| ScreenColumn::number(name, 0).wide(ages_from)).into_iter();
        let columns = iter::once(ScreenColumn::text("STATUS", 8)).chain(ages);
        table(columns.chain([ScreenColumn::number("total", 0)]).collect(), &rows, &screen)
    };
    let whole = counts(0, Screen { width: None, ..*screen });
    counts(whole.lines().map(|line| line.chars().count()).max().unwrap_or(0), *screen)
}

/// `never due  4 (too old for this line, or undated)`
fn figure_line(
    figure: &Figure,
    report: &StatusReport,
    screen: &Screen,
) -> Option<(&'static str, String)> {
    let value = figure.value(report).ok()??;
    let (label, note) = match figure.line.as_ref()? {
        StatusLine::IfAny(..) if value == 0 => return None,
        StatusLine::Always(label, note) | StatusLine::IfAny(label, note) => (label, note),
    };
    let schedule = report.due.as_ref().map_or(String::new(), |due| one_line(&due.line));
    let note = note.replace("{line}", &schedule).replace("{choice}", &report.choice);
    let note = if note.is_empty() { note } else { format!(" ({note})") };
    let oldest = figure.oldest(report).map(|oldest| oldest_text(oldest, screen));
    Some((label, oldest.unwrap_or_else(|| figure.format(value)) + &note))
}

/// `7, inserted 2026-11-20T23:00:00Z, 1h ago`
fn oldest_text(oldest: &Option<OldestRecord>, screen: &Screen) -> String {
    let Some(OldestRecord { id, date_inserted: at }) = oldest else { return "none".into() };
    let ago = span(screen.now.0.saturating_sub(at.0));
    format!("{id}, inserted {}, {ago} ago", screen.at(*at))
}

pub fn status_text(report: &StatusReport, screen: &Screen) -> String {
    let mut lines = Vec::new();
    for figure in FIGURES {
        lines.extend(figure_line(figure, report, screen));
        let due = report.due.as_ref().filter(|_| figure.name == "due");
        lines.extend(due.map(|due| ("oldest due", oldest_text(&due.oldest_due, screen))));
    }
    if let Some(due) = &report.due {
        let next = match due.next_due_at {
            None => "none".into(),
            Some(at) if at <= report.now => "now".into(),
            Some(at) => format!("{}, in {}", screen.at(at), span(at.0 - report.now.0)),
        };
        lines.push(("next due", next));
    } else {
        let how = "use --ndays, --fibonacci, --policy or --progressive to see";
        lines.push(("due now", how.into()));
    }
    let sentence = |pause: &Pause| pause.sentence(|at| screen.at(at), &report.choice);
    let paused = report.paused.iter().map(|pause| screen.wrap(&sentence(pause)));
    let lines = lines.iter().map(|(label, text)| screen.wrap(&format!("{label:<14}  {text}")));
    let lines: String = paused.chain(lines).collect();
    let (table, db) = (one_line(&report.table), one_line(&report.db));
    let passes = passes_text(&report.passes, screen);
    let now = screen.at(report.now);
    let failures = section(top_failures(&[("", &report.causes)], &report.choice, screen));
    let title = screen.wrap(&format!("{table} in {db} at {now}"));
    let counts = counts_table(&report.counts, screen);
    format!("{title}\n{counts}\n{lines}\n{passes}{failures}")
}

/// `{"NEW":{"total":3,"by_age":{"0-1d":3,...}},...}`
fn by_status(counts: &[StatusCount]) -> Json {
    let rows = status_lines(counts).into_iter().map(|(status, cells)| {
        let by_age: Json =
            BAND_NAMES.map(String::from).into_iter().zip(cells.map(Json::from)).collect();
        (status, json!({ "total": cells.iter().sum::<u64>(), "by_age": by_age }))
    });
    rows.collect()
}

pub type QueueStatus = (String, anyhow::Result<StatusReport>);

pub fn unknown_queue_json(queue: &str, error: &anyhow::Error) -> Json {
    json!({ "queue": queue, "error": chain(error) })
}

pub fn status_json((queue, report): &QueueStatus) -> Json {
    let report = match report {
        Ok(report) => report,
        Err(error) => return unknown_queue_json(queue, error),
    };
    let mut status = json!({
        "db": report.db,
        "table": report.table,
        "now": report.now,
        "statuses": by_status(&report.counts),
    });
    add_figures(&mut status, report, |source| matches!(source, Source::Oldest));
    if let Some(due) = &report.due {
        status["line"] = json!(due.line);
        add_figures(&mut status, report, |source| matches!(source, Source::Judged(_)));
        status["oldest_due"] = json!(due.oldest_due);
        status["oldest_due_secs"] = json!(due.oldest_due_secs);
        status["next_due_at"] = json!(due.next_due_at);
    }
    status["passes"] = passes_json(&report.passes);
    status["queue"] = json!(report.queue);
    add_figures(&mut status, report, |source| {
        matches!(source, Source::Pending(_) | Source::Statuses(_) | Source::LastDay(_))
    });
    status["failures"] = top_failures_json(&report.causes, &report.queue);
    status["paused"] = json!(report.paused);
    status
}

fn add_figures(status: &mut Json, report: &StatusReport, are_meant: fn(&Source) -> bool) {
    for figure in FIGURES.iter().filter(|figure| are_meant(&figure.source)) {
        let oldest = figure.oldest(report).map(|oldest| json!(oldest));
        status[figure.name] = oldest.unwrap_or_else(|| json!(figure.value(report).ok()));
    }
}

pub fn overview_text(queues: &[QueueStatus], choice: &str, screen: &Screen) -> String {
    let mut columns =
        vec![ScreenColumn::text("QUEUE", 10), ScreenColumn::number("PENDING", 7).wide(70)];
    columns.extend(AGES.map(|name| ScreenColumn::number(name, 6).wide(120)));
    columns.extend(figure_columns().map(|(_, column)| column));
    columns.push(ScreenColumn::text("LAST PASS", 9));
    let row = |(name, report): &QueueStatus| {
        let (mut row, last) = match report {
            Ok(report) => (overview_row(report), last_pass(report, screen)),
            Err(error) => (Vec::new(), one_line(&chain(error))),
        };
        row.insert(0, one_line(name));
        row.resize(columns.len() - 1, "-".into());
        row.push(last);
        row
    };
    let rows: Vec<_> = queues.iter().map(row).collect();
    let lines = table(columns, &rows, screen);
    let known =
        queues.iter().filter_map(|(name, report)| Some((name.as_str(), report.as_ref().ok()?)));
    let causes: Vec<_> = known.map(|(name, report)| (name, &report.causes)).collect();
    lines + &section(top_failures(&causes, choice, screen))
}

fn overview_row(report: &StatusReport) -> Vec<String> {
    let mut ages = [0; AGES.len()];
    for count in report.counts.iter().filter(|count| count.status.is_pending()) {
        ages[count.band.map_or(3, |band| [0, 1, 2, 2, 3, 3, 3][band])] += count.rows;
    }
    let pending = iter::once(ages.iter().sum()).chain(ages);
    let figures = figure_columns().map(|(figure, _)| match figure.value(report) {
        Ok(Some(secs)) if figure.is_time() && secs > 0 => rough_span(secs),
        Ok(Some(_)) if figure.is_time() => "-".into(),
        Ok(Some(number)) => grouped(number.unsigned_abs()),
        Ok(None) | Err(_) => "-".into(),
    });
    pending.map(grouped).chain(figures).collect()
}

/// The figures that have a column. The columns that a narrow terminal leaves out are on the right.
fn figure_columns() -> impl Iterator<Item = (&'static Figure, ScreenColumn)> {
    let all = FIGURES.iter().filter_map(|figure| Some((figure, figure.column?)));
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(_, column)| column.from_width);
    all.into_iter()
}

const AGES: [&str; 4] = ["0-1d", "1-7d", "7-30d", "older"];

fn section(text: String) -> String {
    if text.is_empty() { text } else { format!("\n{text}") }
}

pub(super) fn last_pass(report: &StatusReport, screen: &Screen) -> String {
    match &report.paused {
        Some(Pause { until: Some(until), .. }) => format!("paused until {}", screen.at(*until)),
        Some(Pause { until: None, .. }) => "paused".into(),
        None => passes_summary(&report.passes, screen),
    }
}

#[cfg(test)]
mod tests {
    use backlog_schedule::{End, Id, Instant, Obstacle, Reason, Record, Verdict};
    use backlog_store::{Failing, LineHistory, PassEnd, PassEntry, Pause};

    use super::*;
    use crate::exit::Exit;
    use crate::report::figures::{DueReport, PendingRecord};
    use crate::report::metrics::{Labels, Metrics};
    use crate::report::page::page;
    use crate::report::passes::{LineReport, Passes};
    use crate::report::thresholds::Thresholds;

    const NOW: Instant = Instant(1_795_219_200);

    /// A report of which no two figures above 0 are the same.
    fn report() -> StatusReport {
        let mut report = StatusReport {
            queue: "mails".into(),
            db: "/mails.db".into(),
            table: "MAILS".into(),
            now: NOW,
            counts: Vec::new(),
            of_records: Default::default(),
            due: Some(DueReport { oldest_due_secs: Some(5_000), ..DueReport::default() }),
            line: Some("--ndays 1".into()),
            passes: Passes {
                now: NOW,
                failing: None,
                directory: "/state".into(),
                worker: None,
                errors: Vec::new(),
                lines: Vec::new(),
                recent: 0,
            },
            causes: Default::default(),
            paused: Some(Pause::default()),
            archived: Vec::new(),
            choice: String::new(),
        };
        let record = |verdict| PendingRecord {
            verdict,
            has_failed: false,
            is_snoozed: false,
            is_in_hand: false,
        };
        let failed = PendingRecord { has_failed: true, ..record(None) };
        for (number, record) in [
            (102, record(Some(Verdict::Due(Reason::New)))),
            (103, record(Some(Verdict::Wait { until: NOW }))),
            (104, record(Some(Verdict::Archive(End::Age)))),
            (105, record(Some(Verdict::Never(Obstacle::TooOld)))),
            (106, failed),
            (107, PendingRecord { is_snoozed: true, ..failed }),
            (108, PendingRecord { is_in_hand: true, ..record(None) }),
        ] {
            let inserted = Instant(NOW.0 - 7_000 + number);
            let of = Record { inserted_at: Some(inserted), ..Record::new(Id::Integer(7), None) };
            (0..number).for_each(|_| report.of_records.add(&of, record));
        }
        for (status, rows) in [(Status::New, 109), (Status::Error, 2), (Status::Archived, 112)] {
            let text = status.name().into();
            report.counts.push(StatusCount { status, text, band: Some(0), rows });
        }
        report
    }

    #[test]
    fn an_overview_says_that_nothing_succeeds() {
        let mut report = report();
        let last = PassEntry {
            ended: Some(NOW),
            end: Some(PassEnd::Complete),
            ..PassEntry::new("a".into(), NOW)
        };
        let history = LineHistory { entries: vec![last], ..LineHistory::default() };
        report.passes.lines.push(LineReport { history });
        let mut failing = Failing::default();
        failing.since = Instant(NOW.0 - 7_000);
        (report.paused, report.passes.failing) = (None, Some(failing));
        let overview =
            overview_text(&[("mails".into(), Ok(report))], "", &Screen { width: None, now: NOW });
        assert!(overview.contains("  now: no success since 2026-11-20T22:03:20Z\n"), "{overview}");
    }

    #[test]
    fn each_figure_has_the_same_value_in_all_its_outputs() {
        let queues = [("mails".into(), Ok(report()))];
        let report = queues[0].1.as_ref().unwrap();
        let screen = Screen { width: None, now: NOW };
        let (json, text) = (status_json(&queues[0]), status_text(report, &screen));
        let (overview, page) = (overview_text(&queues, "", &screen), page(&queues, NOW).unwrap());
        let mut metrics = Metrics::default();
        metrics.of_table(&Labels::of_table("db", "mails", "MAILS"), NOW, Some(report));
        let metrics = metrics.to_text();
        let expected = [
            ("due", 102),
            ("oldest_due", 5_000),
            ("waiting", 103),
            ("to_be_archived", 104),
            ("never_due", 105),
            ("pending", 111),
            ("oldest_pending", 7_000 - 102),
            ("failed", 106),
            ("snoozed", 107),
            ("in_hand", 108),
            ("archived", 112),
            ("failing", 0),
            ("archived_24h", 0),
            ("failed_24h", 0),
            ("succeeded_24h", 0),
            ("paused", 1),
            ("hung_lines", 0),
            ("overdue_lines", 0),
        ];
        for figure in FIGURES {
            let name = figure.name;
            let expected = expected.into_iter().find(|(row, _)| *row == name);
            let Some((_, value)) = expected else {
                assert_eq!(figure.value(report), Ok(None), "{name}: no pass has ever been");
                continue;
            };
            let unit = if figure.is_time() { "_secs" } else { "" };
            if matches!(figure.source, Source::Oldest) {
                assert_eq!(json[name]["id"], 7, "{name}: {json}");
            } else if figure.needs_schedule() || matches!(figure.source, Source::Pending(_)) {
                assert_eq!(json[format!("{name}{unit}")], value, "{name}: {json}");
            }
            if let Some((metric, help)) = figure.metric {
                let head = format!("# HELP {metric} {help}\n# TYPE {metric} gauge\n{metric}{{");
                let (_, series) = metrics.split_once(&head).expect(name);
                let (labels, number) = series.lines().next().unwrap().rsplit_once("} ").unwrap();
                assert_eq!(number, value.to_string(), "{metric}");
                assert_eq!(labels.contains("line=\"--ndays 1\""), figure.needs_schedule());
            }
            if let Some(StatusLine::Always(label, _) | StatusLine::IfAny(label, _)) = figure.line
                && value > 0
            {
                let is_age = matches!(figure.source, Source::Oldest);
                let shown = if is_age { "7".into() } else { figure.format(value) };
                assert!(text.contains(&format!("\n{label:<14}  {shown}")), "{label}: {text}");
            }
            if let Some(column) = figure.column {
                let end = overview.find(column.name).expect(name) + column.name.len();
                let row = overview.lines().nth(1).unwrap();
                let shown = if figure.is_time() { rough_span(value) } else { value.to_string() };
                assert!(
                    row.get(..end).unwrap().ends_with(&format!(" {shown}")),
                    "{name}: {overview}"
                );
            }
            let seconds = if figure.is_time() { "s" } else { "" };
            let limit = format!("{name}>={value}{seconds}");
            let limits = Thresholds::parse(None, Some(&limit)).unwrap();
            assert_eq!(limits.judge(&queues).0, Exit::Critical, "{limit}");
        }
        for (label, value) in [("Failed", 106), ("Waiting", 103), ("In hand", 108)] {
            let shown = format!("{label}</span> <span class=\"value\">{value}</span>");
            assert!(page.contains(&shown), "{label}: {page}");
        }
    }
}
