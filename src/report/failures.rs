//! The causes of failures, with the number, the ids and the dates of their records.

use std::cmp::Reverse;

use backlog_schedule::{Cause, CauseGroup, Causes, Id, Status, json_line, one_line};
use serde_json::{Value as Json, json};

use super::screen::{Screen, ScreenColumn, grouped, table};

/// Maximum number of causes below a status or a summary.
const TOP: usize = 5;

fn columns() -> Vec<ScreenColumn> {
    vec![
        ScreenColumn::text("GROUP", 8),
        ScreenColumn::number("RECORDS", 7),
        ScreenColumn::text("SINCE", 20).wide(60),
        ScreenColumn::text("UNTIL", 20).wide(100),
        ScreenColumn::text("IDS", 12).wide(100),
        ScreenColumn::text("LAST ERROR", 10),
    ]
}

fn row((cause, group): &(&Cause, &CauseGroup), screen: &Screen) -> Vec<String> {
    let at = |at: Option<_>| at.map_or_else(|| "-".into(), |at| screen.at(at));
    vec![
        cause.id(),
        grouped(group.records),
        at(group.since),
        at(group.until),
        sample_ids(group),
        one_line(&group.error),
    ]
}

/// Maximum number of characters of the sample ids, unless the first one is longer.
const IDS: usize = 24;

pub(super) fn sample_ids(group: &CauseGroup) -> String {
    let mut ids = group.samples.iter().map(Id::full);
    let (mut text, mut number) = (ids.next().unwrap_or_default(), 1);
    for id in ids {
        if text.len() + id.len() < IDS {
            text += &format!(" {id}");
            number += 1;
        }
    }
    if number < group.records { text + " ..." } else { text }
}

pub fn failures_text(causes: &Causes, screen: &Screen) -> String {
    if causes.is_empty() {
        return String::new();
    }
    let rows: Vec<_> = causes.ranked().iter().map(|group| row(group, screen)).collect();
    table(columns(), &rows, screen)
}

/// The most frequent causes of these queues. `choice` has the options that choose the queues in a printed command.
pub fn top_failures(queues: &[(&str, &Causes)], choice: &str, screen: &Screen) -> String {
    let mut groups = Vec::new();
    for (queue, causes) in queues {
        groups.extend(causes.ranked().into_iter().map(|group| (one_line(queue), group)));
    }
    if groups.is_empty() {
        return String::new();
    }
    groups.sort_by_key(|(_, (_, group))| Reverse(group.records));
    let more = match groups.len().saturating_sub(TOP) {
        0 => String::new(),
        more => format!("{more} more: `backlog failures{choice}`\n"),
    };
    groups.truncate(TOP);
    let queue_column = (queues.len() > 1).then(|| ScreenColumn::text("QUEUE", 10));
    let rows = groups.into_iter().map(|(queue, group)| {
        let queue = queue_column.as_ref().map(|_| queue);
        queue.into_iter().chain(row(&group, screen)).collect()
    });
    let rows: Vec<_> = rows.collect();
    table(queue_column.into_iter().chain(columns()).collect(), &rows, screen) + &more
}

pub(super) fn group_json(
    (cause, group): (&Cause, &CauseGroup),
    queue: &str,
    statuses: &[Status],
) -> Json {
    json!({
        "queue": queue,
        "group": cause.id(),
        "records": group.records,
        "since": group.since,
        "until": group.until,
        "ids": group.samples,
        "error": group.error,
        "pattern": cause.text(),
        "statuses": statuses.iter().map(|status| status.name()).collect::<Vec<_>>(),
    })
}

pub fn failures_json(causes: &Causes, queue: &str, statuses: &[Status]) -> String {
    let groups = causes.ranked().into_iter().map(|group| group_json(group, queue, statuses));
    groups.map(|group| json_line(&group)).collect()
}

pub fn top_failures_json(causes: &Causes, queue: &str) -> Json {
    let groups = causes.ranked().into_iter().take(TOP);
    groups.map(|group| group_json(group, queue, &Status::PENDING)).collect()
}
