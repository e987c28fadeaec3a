//! Charts of the page: bars of the last passes by outcome, and of the next attempts by hour. The page
//! stretches them to its width and gives their numbers as text.

use backlog_store::{Counts, LineHistory, PassEnd, PassEntry};
use serde_json::{Value as Json, json};

use crate::report::screen::grouped;

const HEIGHT: u64 = 100;
/// The height of the smallest count above 0.
const LEAST: u64 = 2;
const WIDTH: usize = 10;
/// A chart has room for at least this many passes.
const FEWEST: usize = 30;

/// Classes of the bars of passes and their meanings, in the order in which they are drawn.
const LEGEND: [(&str, &str); 7] = [
    ("running", "running"),
    ("broken", "killed, or could not work"),
    ("idle", "nothing was due, or paused"),
    ("succeeded", "succeeded"),
    ("failed", "failed"),
    ("archived", "archived"),
    ("other", "snoozed, or left as it was"),
];

/// The outline of a bar that stands on another of the height `below`.
fn bar(place: usize, below: u64, height: u64) -> String {
    let (x, y) = (place * WIDTH + 1, HEIGHT - below);
    if height > 0 { format!("M{x} {y}h8v-{height}h-8z") } else { String::new() }
}

fn scaled(count: u64, highest: u64) -> u64 {
    let scaled = (count.saturating_mul(HEIGHT) / highest.max(1)).clamp(LEAST, HEIGHT);
    if count > 0 { scaled } else { 0 }
}

/// A bar for the records of each hour.
pub fn hours(records: &[u64]) -> Json {
    let highest = records.iter().copied().max().unwrap_or(0);
    let bars =
        records.iter().enumerate().map(|(hour, count)| bar(hour, 0, scaled(*count, highest)));
    let path = json!({ "class": "hour", "outline": bars.collect::<String>() });
    json!({ "width": records.len() * WIDTH, "paths": [path], "highest": grouped(highest) })
}

/// A bar for each pass, the latest on the right.
pub fn passes(latest_first: &[(&PassEntry, &LineHistory)]) -> Json {
    let total = |(entry, _): &(&PassEntry, _)| parts(&entry.counts).iter().sum();
    let highest = latest_first.iter().map(total).max().unwrap_or(0);
    let slots = latest_first.len().max(FEWEST);
    let mut outlines = LEGEND.map(|_| String::new());
    for (pass, place) in latest_first.iter().zip((0..slots).rev()) {
        let (entry, history) = pass;
        let [running, broken, idle, counts @ ..] = &mut outlines;
        match entry.end {
            None if history.running() == Some(*entry) => *running += &bar(place, 0, HEIGHT),
            None | Some(PassEnd::Failed) => *broken += &bar(place, 0, HEIGHT),
            Some(PassEnd::Idle | PassEnd::Paused) => *idle += &bar(place, 0, LEAST),
            Some(_) if total(pass) == 0 => *idle += &bar(place, 0, LEAST),
            Some(_) => {}
        }
        let mut below = 0;
        for (outline, count) in counts.iter_mut().zip(parts(&entry.counts)) {
            let height = scaled(count, highest).min(HEIGHT - below);
            *outline += &bar(place, below, height);
            below += height;
        }
    }
    let paths = LEGEND.into_iter().zip(outlines).filter(|(_, outline)| !outline.is_empty());
    let paths = paths.map(
        |((class, label), outline)| json!({ "class": class, "label": label, "outline": outline }),
    );
    let paths: Vec<_> = paths.collect();
    json!({ "width": slots * WIDTH, "paths": paths, "highest": grouped(highest) })
}

/// The parts of a bar from below, as the end of the legend names them.
fn parts(counts: &Counts) -> [u64; 4] {
    let Counts { succeeded, failed, snoozed, archived, interrupted, left } = *counts;
    [succeeded, failed, archived, snoozed.saturating_add(interrupted).saturating_add(left)]
}
