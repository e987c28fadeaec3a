//! The page: a document of HTML about queues, whole in itself. It takes data and makes a text of it.
//!
//! `page.html` is the template, which escapes what others have written and cuts it by the filter `short`;
//! `page.css` and `page.js` are in the page, and its policy allows these two by their hashes and nothing
//! else: no request goes out, and what slipped through as markup would do nothing. What grows with the data
//! is bounded, and many queues have less detail.

mod bars;

use anyhow::Result;
use backlog_schedule::{HOUR, Instant, Status, counted, last_error, span};
use backlog_store::Count;
use backlog_store::system_error::chain;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use super::failures::{group_json, samples};
use super::passes::{Passes, alarms, pass_in_words, sentences};
use super::screen::{Screen, grouped};
use super::status::{
    DueReport, QueueStatus, StatusReport, band_names, last_pass, of_status, pending, status_lines,
};
use super::template::{render, shortened};

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// How many of the last passes of a queue are bars, and how many are told in words.
pub const PASSES: usize = 60;
const IN_WORDS: usize = 10;
/// How many archived records of a queue are shown.
pub const ARCHIVED: usize = 50;
/// More statuses than these are summed up.
const MOST_STATUSES: usize = 12;
const NAME: usize = 80;
/// The number of causes, of archived records and of an error's characters on a page. The queues share it, so a page
/// of ten queues has at most 300,000 bytes.
const ROWS: usize = 100;
const CHARACTERS: usize = 1_000;

/// How often cron makes a page, where passes do not run less often.
const EVERY_SECS: i64 = 300;

/// A page of these queues.
pub fn page(queues: &[QueueStatus], now: Instant) -> Result<String> {
    let reports = queues.iter().filter_map(|(_, report)| report.as_ref().ok()?.due.as_ref());
    let every_secs = reports.map(|due| due.every_secs).fold(EVERY_SECS, i64::max);
    let screen = Screen { width: None, now };
    let title = match queues {
        [(name, _)] => format!("Backlog of {}", shortened(name, NAME)),
        several => format!("Backlog: {} queues", grouped(several.len() as u64)),
    };
    let (summary, is_well) = summary(queues, &screen);
    let share = |all: usize, least, most| (all / queues.len().max(1)).clamp(least, most);
    let (causes, archived) = (share(ROWS, 3, 20), share(ROWS, 3, ARCHIVED));
    let section = |(name, report): &QueueStatus| match report {
        Ok(report) => {
            let known = known(report, causes, archived, &screen);
            let option = shlex::try_quote(name).ok().filter(|_| queues.len() > 1);
            let option = option.map(|name| format!(" --queue {name}"));
            json!({ "name": name, "known": known, "option": option.unwrap_or_default() })
        }
        Err(error) => json!({ "name": name, "known": null, "error": chain(error) }),
    };
    let page = json!({
        "policy": policy(),
        "style": STYLE,
        "script": SCRIPT,
        "title": title,
        "made": now,
        "due": now.saturating_add(every_secs),
        "every": span(every_secs),
        "every_secs": every_secs,
        "summary": summary,
        "is_well": is_well,
        "version": env!("CARGO_PKG_VERSION"),
        "queues": queues.iter().map(section).collect::<Vec<_>>(),
        "error_length": share(CHARACTERS, 50, 200),
    });
    render("page.html", TEMPLATE, page)
}

/// What is most urgent in all queues in one sentence, and whether all is well.
fn summary(queues: &[QueueStatus], screen: &Screen) -> (String, bool) {
    let known: Vec<_> = queues.iter().filter_map(|(_, report)| report.as_ref().ok()).collect();
    let queues_with = |count: usize, what| {
        (count > 0).then(|| format!("{what} {}", counted(count as u64, "queue")))
    };
    let records = |count: u64, is: &str, are: &str| match count {
        0 => None,
        1 => Some(format!("1 record {is}")),
        count => Some(format!("{} records {are}", grouped(count))),
    };
    let unknown = queues.len() - known.len();
    let alarming = known.iter().filter(|it| !alarms(&it.passes, screen).is_empty()).count();
    let failed = known.iter().map(|report| report.failed).sum();
    let archived = known.iter().map(|report| of_status(report, Status::Archived)).sum();
    let parts = [
        queues_with(unknown, "nothing is known of"),
        queues_with(alarming, "passes need attention in"),
        queues_with(known.iter().filter(|report| report.paused.is_some()).count(), "paused is"),
        records(failed, "has failed", "have failed"),
        records(archived, "is archived", "are archived"),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    let summary = if parts.is_empty() { "nothing has failed".into() } else { parts.join("; ") };
    (summary, unknown + alarming == 0 && failed == 0)
}

/// What is known of a queue.
fn known(report: &StatusReport, causes: usize, archived: usize, screen: &Screen) -> Json {
    let alarms = alarms(&report.passes, screen);
    let paused = report.paused.iter().map(|pause| pause.sentence(|at| screen.at(at)));
    let urgent: Vec<_> = paused.chain(alarms.iter().cloned()).collect();
    let ranked = report.failures.causes.ranked();
    let more = ranked.len().saturating_sub(causes);
    let causes = ranked.into_iter().take(causes).map(|(cause, group)| {
        let mut row = group_json((cause, group), "");
        row["samples"] = samples(group).into();
        row
    });
    let records = report.archived.iter().take(archived).map(|record| {
        json!({
            "id": record.id.full(),
            "inserted": record.inserted_at,
            "failed": record.last_failure_at,
            "error": record.last_error.as_deref().map_or("", last_error::bare),
        })
    });
    json!({
        "place": format!("table {} in {}", report.table, report.db),
        "urgent": urgent,
        "has_alarm": !alarms.is_empty(),
        "failed": report.failed,
        "pending": pending(report),
        "snoozed": report.snoozed,
        "in_hand": report.in_hand,
        "archived": of_status(report, Status::Archived),
        "last_pass": last_pass(report, screen),
        "due": report.due.as_ref().map(|due| attempts(due, screen)),
        "causes": causes.collect::<Vec<_>>(),
        "more_causes": more,
        "records": records.collect::<Vec<_>>(),
        "passes": passes(&report.passes, screen),
        "matrix": matrix(&report.counts),
    })
}

fn attempts(due: &DueReport, screen: &Screen) -> Json {
    let in_hours = |hours: i64| screen.now.saturating_add(hours * HOUR);
    let hours = due.by_hour.hours.iter().zip(0..).map(|(records, hour)| (in_hours(hour), records));
    let mut attempts = json!(due);
    attempts["is_by_age"] = due.is_by_age.into();
    attempts["next"] = due.by_hour.next.map(|at| screen.distance(at)).into();
    attempts["later"] = due.by_hour.later.into();
    attempts["waits"] = due.by_hour.hours.iter().any(|records| *records > 0).into();
    attempts["hours"] = json!(hours.collect::<Vec<_>>());
    attempts["chart"] = bars::hours(&due.by_hour.hours);
    attempts["ticks"] = json!([0, 6, 12, 18, 24].map(in_hours));
    attempts
}

fn passes(passes: &Passes, screen: &Screen) -> Json {
    let recent = passes.recent();
    let rows = recent.iter().take(IN_WORDS).map(|(entry, history)| {
        let (began, line) = (entry.last_began(), &history.line.policy);
        json!({ "began": began, "line": line, "what": pass_in_words(entry, history) })
    });
    let worker = passes.worker.as_ref();
    json!({
        "sentences": sentences(passes, screen),
        "errors": passes.errors,
        "worker": worker.map(|(user, host)| format!("passes of user {user} on {host}")),
        "count": recent.len(),
        "chart": bars::passes(&recent),
        "recent": rows.collect::<Vec<_>>(),
    })
}

/// The records by status and age; none of a table without records.
fn matrix(counts: &[Count]) -> Option<Json> {
    let mut lines = status_lines(counts);
    if lines.len() > MOST_STATUSES {
        let others = lines.split_off(MOST_STATUSES - 1);
        let sum = |band: usize| others.iter().map(|(_, cells)| cells[band]).sum();
        lines.push((format!("{} other statuses", others.len()), std::array::from_fn(sum)));
    }
    let sum = |band: usize| lines.iter().map(|(_, cells)| cells[band]).sum::<u64>();
    let totals: Vec<_> = (0..band_names().count()).map(sum).collect();
    let bands: Vec<_> = band_names().collect();
    let has_records = totals.iter().any(|records| *records > 0);
    has_records.then(|| json!({ "bands": bands, "rows": lines, "totals": totals }))
}

/// The Content-Security-Policy: the style and the script of the page, and nothing else.
fn policy() -> String {
    let [style, script] = [STYLE, SCRIPT].map(|text| STANDARD.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; \
         base-uri 'none'; form-action 'none'"
    )
}
