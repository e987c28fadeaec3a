//! Bars: the last passes by what came of their records, and the next attempts by hour. They are stretched
//! to the width that the page has; what they say in numbers stands beside them as text.

use serde::Serialize;

use crate::report::by_hour::ByHour;
use crate::report::passes::came_to;
use crate::report::screen::grouped;
use crate::store::{Counts, LineHistory, PassEnd, PassEntry};
use crate::time::Instant;

use super::instants::Moment;

const HEIGHT: u64 = 100;
/// What is there at all is seen.
const LEAST: u64 = 2;
const WIDTH: usize = 10;
const GAP: usize = 2;

/// A chart, of which each part is a path of the bars of one class.
#[derive(Serialize)]
pub struct Chart {
    width: usize,
    height: u64,
    paths: Vec<Path>,
    /// The number that the highest bar stands for.
    highest: String,
}

#[derive(Serialize)]
struct Path {
    class: &'static str,
    /// What it means, in a legend.
    label: &'static str,
    outline: String,
}

impl Path {
    fn new((class, label): (&'static str, &'static str)) -> Self {
        Self { class, label, outline: String::new() }
    }

    /// A bar at a place, which stands on another so high.
    fn add(&mut self, place: usize, below: u64, height: u64) {
        if height > 0 {
            let (x, y, width) = (place * WIDTH + GAP / 2, HEIGHT - below, WIDTH - GAP);
            self.outline += &format!("M{x} {y}h{width}v-{height}h-{width}z");
        }
    }
}

fn scaled(count: u64, highest: u64) -> u64 {
    match count {
        0 => 0,
        _ => (count.saturating_mul(HEIGHT) / highest.max(1)).clamp(LEAST, HEIGHT),
    }
}

/// The records of each hour.
pub fn hours(by_hour: &ByHour) -> Chart {
    let highest = by_hour.hours.iter().copied().max().unwrap_or(0);
    let mut path = Path::new(("hour", "records"));
    for (place, count) in by_hour.hours.iter().enumerate() {
        path.add(place, 0, scaled(*count, highest));
    }
    let width = by_hour.hours.len() * WIDTH;
    Chart { width, height: HEIGHT, paths: vec![path], highest: grouped(highest) }
}

/// An hour in numbers.
#[derive(Serialize)]
pub struct Hour {
    from: Moment,
    records: String,
}

pub fn hours_in_numbers(by_hour: &ByHour, now: Instant) -> Vec<Hour> {
    let hours = by_hour.hours.iter().zip(0..);
    let hours = hours.map(|(records, number)| Hour {
        from: Moment::new(now.saturating_add(number * ByHour::SECS)),
        records: grouped(*records),
    });
    hours.collect()
}

/// Fewer passes than that are as narrow as so many.
const FEWEST: usize = 30;

/// What bars of passes mean, from what is drawn first to what stands in front of it.
const LEGEND: [(&str, &str); 7] = [
    ("running", "running"),
    ("broken", "killed, or could not work"),
    ("idle", "nothing was due, or paused"),
    ("succeeded", "succeeded"),
    ("failed", "failed"),
    ("archived", "archived"),
    ("other", "snoozed, or left as it was"),
];

/// The parts of a bar from below, as the legend names them.
fn parts(counts: &Counts) -> [(&'static str, u64); 4] {
    let Counts { succeeded, failed, snoozed, archived, interrupted, left } = *counts;
    let others = snoozed.saturating_add(interrupted).saturating_add(left);
    [("succeeded", succeeded), ("failed", failed), ("archived", archived), ("other", others)]
}

fn total(counts: &Counts) -> u64 {
    parts(counts).into_iter().map(|(_, count)| count).fold(0, u64::saturating_add)
}

/// A bar for each pass, the latest on the right.
pub fn passes(latest_first: &[(&PassEntry, &LineHistory)]) -> Chart {
    let highest = latest_first.iter().map(|(entry, _)| total(&entry.counts)).max().unwrap_or(0);
    let slots = latest_first.len().max(FEWEST);
    let mut paths = LEGEND.map(Path::new);
    let mut add = |class: &str, place, below, height| {
        let path = paths.iter_mut().find(|path| path.class == class);
        path.into_iter().for_each(|path| path.add(place, below, height));
    };
    for (number, (entry, history)) in latest_first.iter().enumerate() {
        let (place, mut below) = (slots - 1 - number, 0);
        match mark(entry, history) {
            Some(mark @ ("broken" | "running")) => add(mark, place, 0, HEIGHT),
            Some(mark) => add(mark, place, 0, LEAST),
            None => {}
        }
        for (class, count) in parts(&entry.counts) {
            let height = scaled(count, highest).min(HEIGHT - below);
            add(class, place, below, height);
            below += height;
        }
    }
    let paths = paths.into_iter().filter(|path| !path.outline.is_empty()).collect();
    Chart { width: slots * WIDTH, height: HEIGHT, paths, highest: grouped(highest) }
}

/// What a pass is marked as besides its counts.
fn mark(entry: &PassEntry, history: &LineHistory) -> Option<&'static str> {
    match entry.end {
        None if history.running() == Some(entry) => Some("running"),
        None | Some(PassEnd::Failed) => Some("broken"),
        Some(PassEnd::Idle | PassEnd::Paused) => Some("idle"),
        Some(PassEnd::Complete | PassEnd::MaxRuntime | PassEnd::Signal(_)) => {
            (total(&entry.counts) == 0).then_some("idle")
        }
    }
}

/// A pass in words.
pub fn pass_in_words(entry: &PassEntry, history: &LineHistory) -> String {
    if history.running() == Some(entry) { "running".into() } else { came_to(entry) }
}
