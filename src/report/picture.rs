//! The picture of a simulation: an SVG with a panel for each policy, on one scale. Dots are retries, bars the load.

use std::collections::BTreeMap;

use anyhow::Result;
use backlog_schedule::{DAY, one_line, span};
use serde_json::json;

use super::screen::{fitting, grouped};
use super::template::render;
use crate::simulation::{Loads, Scenario, SimulatedRun, Tried};

/// The extension `.xml` makes the template escape the names of policies.
const TEMPLATE: (&str, &str) = ("picture.xml", include_str!("picture.svg"));

/// Maximum number of dots in a panel, about 20 kB. A panel with more retries shows its bars alone.
const MOST_DOTS: usize = 2_500;
const BARS: usize = 240;
/// Maximum number of labels on the axis of time, besides the first.
const TIMES: i64 = 12;
const NAME: usize = 48;

/// The size of a plot in half pixels, the unit of all coordinates.
const WIDTH: i64 = 1_808;
const HEIGHT: i64 = 288;
/// Height of the smallest load above 0, and distance of the dots from the edges of the plot.
const LEAST: i64 = 2;
const PADDING: i64 = 10;

/// The number of the first retry of each colour.
const BANDS: [u32; 16] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 50, 100, 300, 1_000];

pub fn picture(runs: &[SimulatedRun], scenario: &Scenario) -> Result<String> {
    let bar_secs = round_secs(scenario.secs / BARS as i64);
    let most = usize::try_from(scenario.secs / bar_secs).unwrap_or(BARS).clamp(1, BARS);
    let loads = Loads::new(runs, scenario, most);
    let axes = Axes { secs: scenario.secs, records: scenario.rows.len(), peak: loads.peak };
    let bands = || runs.iter().flat_map(SimulatedRun::retries).map(band_of);
    let first = bands().min().unwrap_or(0);
    let panel = |(run, load): (&SimulatedRun, &Vec<usize>)| {
        let retries = run.retries().count();
        let has_dots = retries <= MOST_DOTS;
        json!({
            "name": fitting(&one_line(&run.policy.name()), NAME),
            "headline": headline(run, loads.secs, load),
            "hidden": if has_dots { 0 } else { retries },
            "bars": bars(load, &loads, &axes),
            "dots": if has_dots { dots(run, first, &axes) } else { BTreeMap::new() },
        })
    };
    let panels: Vec<_> = runs.iter().zip(&loads.of_runs).map(panel).collect();
    let data = json!({
        "count": scenario.rows.len(),
        "span": span(scenario.secs),
        "each": span(loads.secs),
        "keys": bands().max().map_or(&[][..], |last| &BANDS[first..=last]),
        "times": axes.times(),
        "loads": axes.loads(),
        "records": axes.record_labels(),
        "since": if scenario.is_cohort { "the first attempt" } else { "the start" },
        "panels": panels,
    });
    render(TEMPLATE.0, TEMPLATE.1, data)
}

/// `peak 58 in 15s, nothing for 16m 29s`: the highest load, and the longest time without a retry, from two bins on.
pub fn headline(run: &SimulatedRun, secs: i64, load: &[usize]) -> String {
    let Some(peak) = load.iter().copied().max().filter(|peak| *peak > 0) else {
        return "no retries".into();
    };
    let idle = Some(run.figures.longest_idle_secs).filter(|idle| *idle >= 2 * secs);
    let idle = idle.map_or_else(String::new, |idle| format!(", nothing for {}", span(idle)));
    format!("peak {} in {}{idle}", grouped(peak as u64), span(secs))
}

fn band_of(tried: &Tried) -> usize {
    BANDS.partition_point(|first| *first < tried.attempt).saturating_sub(1)
}

fn bars(load: &[usize], loads: &Loads, axes: &Axes) -> String {
    let edge = |number: i64| axes.x((loads.begins_at + number * loads.secs).clamp(0, axes.secs));
    let bar = |(count, number): (&usize, i64)| {
        let least = if *count > 0 { LEAST } else { 0 };
        format!("V{}H{}", -axes.height(*count).max(least), edge(number + 1))
    };
    let outline: String = load.iter().zip(0..).map(bar).collect();
    format!("M{} 0{outline}V0z", edge(0))
}

/// A path for each colour. A line without length is a dot. Relative positions take fewer digits.
fn dots(run: &SimulatedRun, first: usize, axes: &Axes) -> BTreeMap<usize, String> {
    let mut paths = BTreeMap::new();
    for tried in run.retries() {
        let (path, last) = paths.entry(band_of(tried) - first).or_insert((String::new(), None));
        let dot = (axes.x(tried.at), -axes.y(tried.row as usize));
        let (letter, from) = last.replace(dot).map_or(('M', (0, 0)), |last| ('m', last));
        *path += &format!("{letter}{} {}h0", dot.0 - from.0, dot.1 - from.1);
    }
    paths.into_iter().map(|(band, (path, _))| (band, path)).collect()
}

/// Converts times, records and loads to coordinates. A label of an axis is its coordinate and its text.
struct Axes {
    secs: i64,
    records: usize,
    peak: usize,
}

impl Axes {
    fn x(&self, at: i64) -> i64 {
        along(WIDTH, at as f64 / self.secs.max(1) as f64)
    }

    /// The square root makes a hundred and one visible, and scatters counts alike at every height (Tukey's rootogram).
    fn height(&self, count: usize) -> i64 {
        along(HEIGHT, (count as f64 / self.peak as f64).sqrt())
    }

    fn y(&self, row: usize) -> i64 {
        let part = (row as f64 + 0.5) / self.records.max(1) as f64;
        PADDING + along(HEIGHT - 2 * PADDING, part)
    }

    fn times(&self) -> Vec<(i64, String)> {
        let step = round_secs(self.secs / TIMES);
        let times = (0..=self.secs / step).map(|number| number * step);
        times.map(|at| (self.x(at), span(at))).collect()
    }

    /// Labels at the foot, at half height, and at the top.
    fn loads(&self) -> Vec<(i64, String)> {
        let mut loads = vec![0, self.peak / 4, self.peak];
        loads.dedup();
        loads.into_iter().map(|count| (self.height(count), grouped(count as u64))).collect()
    }

    fn record_labels(&self) -> Vec<(i64, String)> {
        let mut records = vec![1, self.records];
        records.dedup();
        records.retain(|record| (1..=self.records).contains(record));
        records.into_iter().map(|record| (self.y(record - 1), grouped(record as u64))).collect()
    }
}

fn along(length: i64, part: f64) -> i64 {
    (length as f64 * part).round() as i64
}

/// The next greater length that is easy to read. Beyond the longest of them, the length stays.
fn round_secs(least: i64) -> i64 {
    const ROUND: [i64; 17] =
        [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200];
    const DAYS: [i64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];
    let round = ROUND.into_iter().chain(DAYS.map(|days| days * DAY));
    round.into_iter().find(|secs| *secs >= least).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_of_higher_numbers_share_a_band() {
        let band = |retry: u32| band_of(&Tried { row: 0, attempt: retry + 1, at: 0 });
        let bands = [1, 2, 5, 6, 7, 8, 999, 1_000, u32::MAX - 1].map(band);
        assert_eq!(bands, [0, 1, 4, 5, 5, 6, 14, 15, 15]);
    }

    #[test]
    fn axes_have_a_few_labels() {
        let names = |labels: Vec<(i64, String)>| {
            labels.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(" ")
        };
        let hour = Axes { secs: 3_600, records: 100, peak: 140 };
        assert_eq!(names(hour.times()), "0s 5m 10m 15m 20m 25m 30m 35m 40m 45m 50m 55m 1h");
        assert_eq!(names(hour.loads()), "0 35 140");
        assert_eq!(names(hour.record_labels()), "1 100");
        let least = Axes { secs: 0, records: 0, peak: 1 };
        assert_eq!([least.times(), least.loads()].map(names), ["0s", "0 1"]);
        assert_eq!(least.record_labels(), []);
        let most = Axes { secs: i64::MAX, records: usize::MAX, peak: usize::MAX };
        assert!(most.times().len() <= 13);
        // The peak has the whole height, and its hundredth a tenth.
        let height = |count| Axes { peak: 100, ..hour }.height(count);
        assert_eq!([0, 1, 100].map(height), [0, 29, HEIGHT]);
    }

    #[test]
    fn steps_are_round() {
        let secs = [0, 1, 3, 16, 61, 1_801, DAY, DAY + 1, 11 * DAY, 2_000 * DAY].map(round_secs);
        assert_eq!(secs, [1, 1, 5, 30, 120, 3_600, DAY, 2 * DAY, 20 * DAY, 2_000 * DAY]);
    }
}
