//! The picture: an SVG with a panel for each policy, a dot for each retry, and the load as bars below
//! the dots. All panels share one scale of time, records and load. It is light or dark as the reader's
//! screen is.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use backlog_schedule::{DAY, one_line, span};
use serde::Serialize;

use super::headline;
use crate::report::screen::{fitting, grouped};
use crate::report::template::render;
use crate::simulation::{Bins, Run, Scenario, Tried};

const TEMPLATE: &str = include_str!("picture.svg");

/// Most dots of a panel, about 20 kB: 100 records that are retried every five minutes for two hours. A panel with more
/// retries shows its bars alone.
const MOST_DOTS: usize = 2_500;
/// Further policies have no panel.
const MOST_PANELS: usize = 16;
/// Most bars of a panel, and of all panels together.
const BARS: usize = 240;
const ALL_BARS: usize = 2_400;
/// Characters of a name.
const NAME: usize = 48;

// Lengths in pixels, as in the template.
const PLOT_WIDTH: i64 = 904;
const PLOT_HEIGHT: i64 = 144;
const PANEL: i64 = 194;
const HEADER_AND_FOOTER: i64 = 148;
/// Distance of the dots from the upper and the lower end of the plot.
const PADDING: i64 = 5;
/// Least distance between two labels of loads; about how many times and records have labels.
const LABELS_APART: i64 = 22;
const TIMES: i64 = 12;
const RECORDS: usize = 4;
/// Units of a coordinate in a pixel, so that no coordinate needs a decimal point.
const PIXEL: i64 = 2;

/// The number of the first retry of each band of one colour.
const BANDS: [u32; 16] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 50, 100, 300, 1_000];

/// The data of the template.
#[derive(Serialize)]
struct Picture {
    title: String,
    height: i64,
    /// Length of a bar, in words.
    each: String,
    pixel: f64,
    keys: Vec<Key>,
    times: Vec<Label>,
    loads: Vec<Label>,
    records: Vec<Label>,
    unit: &'static str,
    since: &'static str,
    panels: Vec<Panel>,
}

/// A colour of the legend, by its place among those of the template.
#[derive(Serialize)]
struct Key {
    number: usize,
    first: u32,
    colour: usize,
}

/// A label of an axis, in pixels from the lower left corner of a plot.
#[derive(Serialize)]
struct Label {
    place: i64,
    label: String,
}

#[derive(Serialize)]
struct Panel {
    name: String,
    headline: String,
    note: String,
    bars: String,
    dots: Vec<Dots>,
}

#[derive(Serialize)]
struct Dots {
    key: usize,
    path: String,
}

pub fn picture(runs: &[Run], scenario: &Scenario) -> Result<String> {
    let shown = &runs[..runs.len().min(MOST_PANELS)];
    let most = BARS.min(ALL_BARS / shown.len().max(1));
    let bar_secs = round_secs(scenario.secs / i64::try_from(most).unwrap_or(i64::MAX));
    let most = usize::try_from(scenario.secs / bar_secs).unwrap_or(most).clamp(1, most);
    let bins = Bins::new(shown, scenario, most);
    let loads: Vec<_> = shown.iter().map(|run| bins.load(run)).collect();
    let peak = loads.iter().flatten().copied().max().unwrap_or(0).max(1);
    let scale = Scale { secs: scenario.secs, records: scenario.rows.len(), peak };
    let bands: BTreeSet<_> = shown.iter().flat_map(Run::retries).map(band_of).collect();
    let from = bands.first().copied().unwrap_or_default();
    let last = bands.last().map_or(0, |last| last - from);
    let panels = shown.iter().zip(&loads).map(|(run, load)| {
        let retries = run.retries().count();
        let has_dots = retries <= MOST_DOTS;
        let note = format!("(bars alone: {} retries)", grouped(retries as u64));
        Panel {
            name: escaped(&fitting(&run.policy.name(), NAME)),
            headline: headline(run, &bins, load),
            note: if has_dots { String::new() } else { note },
            bars: bars(load, &bins, &scale),
            dots: if has_dots { dots(run, from, &scale) } else { Vec::new() },
        }
    });
    // The bands that occur have the whole range of colours.
    let colour = |number: usize| number * (BANDS.len() - 1) / last.max(1);
    let key = |number| Key { number, first: BANDS[from + number], colour: colour(number) };
    let data = Picture {
        title: title(shown.len(), runs.len(), scenario),
        height: HEADER_AND_FOOTER + PANEL * shown.len() as i64,
        each: span(bins.secs),
        pixel: PIXEL as f64,
        keys: if bands.is_empty() { Vec::new() } else { (0..=last).map(key).collect() },
        times: scale.times(),
        loads: scale.loads(),
        records: scale.records(),
        unit: unit(scenario.secs).0,
        since: if scenario.is_cohort { "the first attempt" } else { "the start" },
        panels: panels.collect(),
    };
    render("picture.svg", TEMPLATE, data)
}

fn title(shown: usize, all: usize, scenario: &Scenario) -> String {
    let records = grouped(scenario.rows.len() as u64);
    let s = if records == "1" { "" } else { "s" };
    let policies = match all {
        1 => "1 policy".into(),
        all if all > shown => format!("{shown} of {all} policies"),
        all => format!("{all} policies"),
    };
    let time = span(scenario.secs);
    format!("Retries of {records} record{s} in {time} under {policies}")
}

fn band_of(tried: &Tried) -> usize {
    BANDS.partition_point(|first| *first < tried.attempt).saturating_sub(1)
}

/// The outline of the bars, from the left to the right.
fn bars(load: &[usize], bins: &Bins, scale: &Scale) -> String {
    let edge = |number: i64| scale.x((bins.begins_at + number * bins.secs).clamp(0, scale.secs));
    let mut path = format!("M{} 0", edge(0));
    let (mut from, mut height) = (edge(0), 0);
    for (count, number) in load.iter().zip(0..) {
        // The least load is still visible.
        let next = if *count > 0 { scale.height(*count).max(PIXEL) } else { 0 };
        if next != height {
            path += &format!("H{from}V{}", -next);
            height = next;
        }
        from = edge(number + 1);
    }
    path + &format!("H{from}V0z")
}

/// A path for each band, in which a line of no length is a dot.
fn dots(run: &Run, from: usize, scale: &Scale) -> Vec<Dots> {
    let mut dots = BTreeMap::<_, BTreeSet<_>>::new();
    for tried in run.retries() {
        let dot = (scale.x(tried.at), -scale.y(tried.row as usize));
        dots.entry(band_of(tried) - from).or_default().insert(dot);
    }
    dots.into_iter().map(|(key, dots)| Dots { key, path: path(&dots) }).collect()
}

/// Each dot relative to the one before it, which takes fewer digits.
fn path(dots: &BTreeSet<(i64, i64)>) -> String {
    let mut path = String::new();
    let (mut letter, mut from) = ('M', (0, 0));
    for dot in dots {
        let (x, y) = (dot.0 - from.0, dot.1 - from.1);
        // A minus sign separates two numbers as well as a blank.
        let blank = if y < 0 { "" } else { " " };
        path += &format!("{letter}{x}{blank}{y}h0");
        (letter, from) = ('m', *dot);
    }
    path
}

/// From times, records and loads to places in a plot.
struct Scale {
    secs: i64,
    records: usize,
    /// The highest load of all panels.
    peak: usize,
}

impl Scale {
    fn x(&self, at: i64) -> i64 {
        along(PLOT_WIDTH, at as f64 / self.secs.max(1) as f64)
    }

    /// The height of a load. The square root makes a hundred and one visible on one scale; it is usual for
    /// counts, whose scatter is then the same at every height (Tukey's rootogram).
    fn height(&self, count: usize) -> i64 {
        along(PLOT_HEIGHT, (count as f64 / self.peak as f64).sqrt())
    }

    fn y(&self, row: usize) -> i64 {
        let part = (row as f64 + 0.5) / self.records.max(1) as f64;
        PADDING * PIXEL + along(PLOT_HEIGHT - 2 * PADDING, part)
    }

    fn times(&self) -> Vec<Label> {
        let unit_secs = unit(self.secs).1;
        let step = round_secs((self.secs / TIMES).max(unit_secs));
        let times = (0..=self.secs / step).map(|number| number * step);
        let label = |at: i64| grouped((at / unit_secs).unsigned_abs());
        times.map(|at| Label { place: self.x(at) / PIXEL, label: label(at) }).collect()
    }

    /// Zero and round numbers, from the highest down as far as their labels do not touch.
    fn loads(&self) -> Vec<Label> {
        let round = round_numbers().map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        let round: Vec<_> = round.take_while(|count| *count <= self.peak).collect();
        let mut labels = vec![Label { place: 0, label: "0".into() }];
        let mut free_below = i64::MAX;
        for count in round.into_iter().rev() {
            let place = self.height(count) / PIXEL;
            if (LABELS_APART..=free_below).contains(&place) {
                labels.push(Label { place, label: compact(count) });
                free_below = place - LABELS_APART;
            }
        }
        labels
    }

    /// The first record, and round numbers.
    fn records(&self) -> Vec<Label> {
        let step = round_up(self.records.div_ceil(RECORDS) as u64);
        let step = usize::try_from(step).unwrap_or(self.records).max(1);
        let round = (1..=self.records / step).map(|number| number * step);
        let labelled = (1..=self.records.min(1)).chain(round.filter(|record| *record > 1));
        let place = |record| self.y(record - 1) / PIXEL;
        labelled.map(|record| Label { place: place(record), label: compact(record) }).collect()
    }
}

fn along(pixels: i64, part: f64) -> i64 {
    ((pixels * PIXEL) as f64 * part).round() as i64
}

/// `150k` for 150,000: labels of an axis have little room.
fn compact(number: usize) -> String {
    let units = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    let unit = units.into_iter().find(|(unit, _)| number >= *unit && number.is_multiple_of(*unit));
    unit.map_or_else(|| grouped(number as u64), |(unit, name)| format!("{}{name}", number / unit))
}

/// Lengths of time that divide a clock.
const ROUND_SECS: [i64; 18] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, DAY];

/// 1, 2, 5, 10, 20, 50 and so on.
fn round_numbers() -> impl Iterator<Item = u64> {
    let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
    powers.flat_map(|power| [1, 2, 5].into_iter().filter_map(move |it| power.checked_mul(it)))
}

/// The smallest round number that is no less.
fn round_up(least: u64) -> u64 {
    round_numbers().find(|number| *number >= least).unwrap_or(least)
}

/// The smallest round length of time that is no less: above a day a round number of days.
fn round_secs(least: i64) -> i64 {
    let days = || i64::try_from(round_up(least.unsigned_abs().div_ceil(DAY.unsigned_abs())));
    let round = ROUND_SECS.into_iter().find(|secs| *secs >= least);
    round.unwrap_or_else(|| days().map_or(least, |days| days.saturating_mul(DAY)))
}

/// The unit in which an axis tells times until then, and its length.
fn unit(secs: i64) -> (&'static str, i64) {
    match secs {
        ..=600 => ("seconds", 1),
        601..=21_600 => ("minutes", 60),
        21_601..=432_000 => ("hours", 3_600),
        _ => ("days", DAY),
    }
}

/// As text in XML, which cannot hold every character of Unicode.
fn escaped(text: &str) -> String {
    let visible = one_line(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    visible.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        assert_eq!(escaped("a<b> & \u{7}\u{ffff}"), "a&lt;b&gt; &amp; \\u{7}\u{fffd}");
    }

    #[test]
    fn a_dot_is_relative_to_the_one_before_it() {
        let dots = [(30, -40), (10, -20), (30, -50), (10, -20)].into();
        assert_eq!(path(&dots), "M10-20h0m20-30h0m0 10h0");
    }

    #[test]
    fn retries_of_higher_numbers_share_a_band() {
        let band = |retry: u32| band_of(&Tried { row: 0, attempt: retry + 1, at: 0 });
        let bands = [1, 2, 5, 6, 7, 8, 999, 1_000, u32::MAX - 1].map(band);
        assert_eq!(bands, [0, 1, 4, 5, 5, 6, 14, 15, 15]);
    }

    #[test]
    fn axes_have_a_few_round_labels() {
        let names = |labels: Vec<Label>| {
            labels.into_iter().map(|it| it.label).collect::<Vec<_>>().join(" ")
        };
        let hour = Scale { secs: 3_600, records: 100, peak: 140 };
        assert_eq!(names(hour.times()), "0 5 10 15 20 25 30 35 40 45 50 55 60");
        assert_eq!(names(hour.loads()), "0 100 50 20 5");
        assert_eq!(names(hour.records()), "1 50 100");
        let least = Scale { secs: 0, records: 0, peak: 1 };
        assert_eq!(names(least.times()), "0");
        assert_eq!((names(least.loads()), names(least.records())), ("0 1".into(), String::new()));
        let most = Scale { secs: i64::MAX, records: usize::MAX, peak: usize::MAX };
        assert!(most.times().len() <= 13 && most.records().len() <= 6);
        // The peak has the whole height, and its hundredth a tenth.
        let height = |count| Scale { peak: 100, ..hour }.height(count);
        assert_eq!([0, 1, 100].map(height), [0, 29, PLOT_HEIGHT * PIXEL]);
    }

    #[test]
    fn steps_are_round() {
        let steps = [0, 1, 3, 7, 21, 50, 51, 5_001].map(round_up);
        assert_eq!(steps, [1, 1, 5, 10, 50, 50, 100, 10_000]);
        let secs = [0, 1, 3, 16, 61, 1_801, DAY, DAY + 1, 11 * DAY].map(round_secs);
        assert_eq!(secs, [1, 1, 5, 30, 120, 3_600, DAY, 2 * DAY, 20 * DAY]);
        assert_eq!(round_up(u64::MAX), u64::MAX);
    }

    #[test]
    fn labels_of_an_axis_are_short() {
        let labels = [0, 7, 999, 1_000, 1_500, 150_000, 2_000_000].map(compact);
        assert_eq!(labels, ["0", "7", "999", "1k", "1,500", "150k", "2M"]);
    }
}
