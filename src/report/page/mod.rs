//! A self-contained HTML page from the JSON of `status --json` and `add_details`. The template escapes foreign texts
//! and cuts them with `short`. The Content-Security-Policy allows only the embedded style and script, by their hashes.

use anyhow::Result;
use backlog_schedule::{HOUR, Instant, last_error, span};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use super::failures::{group_json, sample_ids};
use super::figures::{FIGURES, StatusReport};
use super::passes::{pass_text, sentences};
use super::screen::Screen;
use super::status::{BAND_NAMES, QueueStatus, last_pass, status_json};
use super::template::render;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Number of the last passes that are drawn as bars, and of those described in words.
pub const PASSES: usize = 60;
const IN_WORDS: usize = 10;
pub const ARCHIVED: usize = 50;
/// Rows of causes and of records, and characters of an error, for all queues: ten queues stay below 300,000 bytes.
const ROWS: usize = 100;
const CHARACTERS: usize = 1_000;

/// Interval at which cron is expected to make the page, unless its passes are rarer.
const EVERY_SECS: i64 = 300;

pub fn page(queues: &[QueueStatus], now: Instant) -> Result<String> {
    let screen = Screen { width: None, now };
    let due = queues.iter().filter_map(|(_, report)| report.as_ref().ok()?.due.as_ref());
    let every_secs = due.filter_map(|due| due.every_secs).fold(EVERY_SECS, i64::max);
    let share = |all: usize, least, most| (all / queues.len().max(1)).clamp(least, most);
    let queue = |status: &QueueStatus| {
        let mut queue = status_json(status);
        if let (name, Ok(report)) = status {
            let option = shlex::try_quote(name).ok().filter(|_| queues.len() > 1);
            queue["option"] = option.map_or("".into(), |name| format!(" --queue {name}").into());
            add_details(&mut queue, report, &screen);
        }
        queue
    };
    let page = json!({
        "policy": security_policy(),
        "style": STYLE,
        "script": SCRIPT,
        "made": now,
        "due": now.saturating_add(every_secs),
        "every": span(every_secs),
        "every_secs": every_secs,
        "version": env!("CARGO_PKG_VERSION"),
        "bands": BAND_NAMES,
        "queues": queues.iter().map(queue).collect::<Vec<_>>(),
        "most_causes": share(ROWS, 3, 20),
        "most_archived": share(ROWS, 3, ARCHIVED),
        "error_length": share(CHARACTERS, 50, 200),
    });
    render("page.html", TEMPLATE, page)
}

fn add_details(queue: &mut Json, report: &StatusReport, screen: &Screen) {
    let figures = FIGURES.iter().map(|figure| (figure.name, figure.value(report).ok()));
    queue["figures"] = figures.map(|(name, value)| (name.to_string(), json!(value))).collect();
    queue["pause"] = report
        .paused
        .as_ref()
        .map(|pause| pause.sentence(|at| screen.at(at), &report.choice))
        .into();
    queue["last_pass"] = last_pass(report, screen).into();
    queue["sentences"] = json!(sentences(&report.passes, screen));
    let words = report.passes.recent().into_iter().take(IN_WORDS).map(|(entry, history)| {
        let (began, line) = (entry.last_began(), &history.line.policy);
        json!({ "began": began, "line": line, "what": pass_text(entry, history) })
    });
    queue["in_words"] = words.collect();
    let causes = report.causes.ranked().into_iter().map(|group| {
        let mut row = group_json(group, "", &[]);
        row["samples"] = sample_ids(group.1).into();
        row
    });
    queue["failures"] = causes.collect();
    let records = report.archived.iter().map(|record| {
        let error = record.last_error.as_deref().map_or("", last_error::bare);
        let (inserted, failed) = (record.inserted_at, record.last_failure_at);
        json!({ "id": record.id.full(), "inserted": inserted, "failed": failed, "error": error })
    });
    queue["archived"] = records.collect();
    if let Some(due) = &report.due {
        let hours = due.hours.iter().zip(0..);
        let hours = hours.map(|(records, hour)| (screen.now.saturating_add(hour * HOUR), records));
        queue["hours"] = json!(hours.collect::<Vec<_>>());
        queue["next"] = due.next_waiting_at.map(|at| screen.distance(at)).into();
        queue["is_by_age"] = due.every_secs.is_none().into();
    }
}

fn security_policy() -> String {
    let [style, script] = [STYLE, SCRIPT].map(|text| STANDARD.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; \
         base-uri 'none'; form-action 'none'"
    )
}
