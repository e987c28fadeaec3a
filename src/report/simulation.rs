//! Simulations as tables, as charts in the terminal, and as JSON lines.

use backlog_schedule::{DAY, Id, Instant, json_line, one_line, span};
use serde_json::json;

use super::picture::headline;
use super::screen::{Screen, ScreenColumn, fitting, table};
use crate::simulation::{Loads, Scenario, SimulatedRun, Tried};

/// Width of the columns of numbers, and minimum width of a name, on a terminal.
const NUMBERS: usize = 56;
const LEAST_NAME: usize = 16;

pub fn figures_table(runs: &[SimulatedRun], screen: &Screen) -> String {
    let numbers = ["attempts", "peak/tick", "idle ticks", "unevenness", "deviation"];
    let columns = numbers.map(|name| ScreenColumn::number(name, 0)).into_iter();
    let columns = [ScreenColumn::text("POLICY", 0)].into_iter().chain(columns).collect();
    let ratio = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.3}"));
    let most = screen.width.map_or(usize::MAX, |width| width.saturating_sub(NUMBERS));
    let row = |run: &SimulatedRun| {
        let figures = &run.figures;
        let idle = 100 * figures.idle_ticks / figures.ticks.max(1);
        vec![
            fitting(&one_line(&run.policy.name()), most.max(LEAST_NAME)),
            figures.attempts.to_string(),
            figures.peak.to_string(),
            format!("{} ({idle}%)", figures.idle_ticks),
            ratio(figures.evenness.map(|evenness| evenness.unevenness)),
            ratio(figures.evenness.map(|evenness| evenness.deviation)),
        ]
    };
    table(columns, &runs.iter().map(row).collect::<Vec<_>>(), screen)
}

/// `{"policy":"even","id":7,"attempt":2,"at":60,"delay":60}`; `before` is the attempt before it.
pub fn attempt_json(policy: &str, id: &Id, tried: &Tried, before: Option<i64>) -> String {
    json_line(&json!({
        "policy": policy,
        "id": id,
        "attempt": tried.attempt,
        "at": tried.at,
        "delay": before.map_or(0, |before| tried.at - before),
    }))
}

/// The load of each simulated day: its attempts, their number in the busiest tick, and the mean of a tick.
pub fn days_table(run: &SimulatedRun, scenario: &Scenario, screen: &Screen) -> String {
    let every = run.policy.every_secs();
    let day_of = |tried: &Tried| scenario.instant(tried.at).tick(DAY);
    let numbers = ["attempts", "peak/tick", "mean/tick"].map(|name| ScreenColumn::number(name, 0));
    let columns = [ScreenColumn::text("DAY", 0)].into_iter().chain(numbers).collect();
    let (start, end) = (scenario.start, scenario.instant(scenario.secs));
    let mut by_day = run.attempts.chunk_by(|one, other| day_of(one) == day_of(other)).peekable();
    let mut rows = Vec::new();
    for day in start.tick(DAY)..=end.tick(DAY) {
        let (from, to) = (start.max(Instant(day * DAY)), end.min(Instant((day + 1) * DAY - 1)));
        // The ticks that begin on this day.
        let ticks = to.tick(every) - Instant(from.0 - 1).tick(every);
        let tried = by_day.next_if(|tried| day_of(&tried[0]) == day).unwrap_or_default();
        let tick = |tried: &Tried| scenario.instant(tried.at).tick(every);
        let peak = tried.chunk_by(|one, other| tick(one) == tick(other)).map(<[_]>::len).max();
        let mean = i64::try_from(tried.len()).unwrap_or(i64::MAX) * 10 / ticks.max(1);
        rows.push(vec![
            Instant(day * DAY).date(),
            tried.len().to_string(),
            peak.unwrap_or(0).to_string(),
            format!("{}.{}", mean / 10, mean % 10),
        ]);
    }
    table(columns, &rows, screen)
}

/// Width of a chart in a pipe, and its minimum width on a terminal.
const WIDTH: usize = 72;
const LEAST_WIDTH: usize = 12;
const HEIGHT: usize = 6;
/// Width of the scale and the line to the left of the bars.
const MARGIN: usize = 9;
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub fn load_charts(runs: &[SimulatedRun], scenario: &Scenario, screen: &Screen) -> Vec<String> {
    let width = screen.width.map_or(WIDTH, |width| width.saturating_sub(MARGIN).max(LEAST_WIDTH));
    let Loads { secs, of_runs, peak, .. } = Loads::new(runs, scenario, width);
    // In a pipe, all bars have the same width; on a terminal, they fill it.
    let count = of_runs.first().map_or(1, Vec::len);
    let width = if screen.is_terminal() { width } else { width / count * count };
    let chart = |(run, load): (&SimulatedRun, &Vec<usize>)| {
        title(run, secs, load, screen) + &bars(load, peak, width) + &axis(secs, count, width)
    };
    runs.iter().zip(&of_runs).map(chart).collect()
}

/// `even: peak 58 in 15s`. The charts share the scale of the highest peak, so each title has its own peak.
fn title(run: &SimulatedRun, secs: i64, load: &[usize], screen: &Screen) -> String {
    let name = one_line(&run.policy.name());
    let name = screen.width.map_or(name.clone(), |width| fitting(&name, width.saturating_sub(1)));
    screen.wrap(&format!("{name}: {}", headline(run, secs, load)))
}

fn bars(load: &[usize], most: usize, width: usize) -> String {
    let row = |row: usize| {
        let filled = |column: usize| {
            let count = load[column * load.len() / width];
            // Any load above 0 has at least one eighth.
            let eighths = (count * HEIGHT * 8).div_ceil(most);
            EIGHTHS[eighths.saturating_sub(row * 8).min(8)]
        };
        let scale = if row + 1 == HEIGHT { most.to_string() } else { String::new() };
        let drawn: String = (0..width).map(filled).collect();
        format!("{scale:>7} |{}\n", drawn.trim_end())
    };
    (0..HEIGHT).rev().map(row).collect()
}

/// The axis from 0 to the end, with the length of a bar between them if there is room.
fn axis(secs: i64, count: usize, width: usize) -> String {
    let to = span(secs.saturating_mul(count as i64));
    let gap = width.saturating_sub(1 + to.len());
    let each = span(secs);
    let each = [format!("retries in each {each}"), format!("each {each}"), String::new()];
    let each = each.into_iter().find(|each| each.len() + 2 <= gap).unwrap_or_default();
    format!("{:>7} +{}\n         0{each:^gap$}{to}\n", "0", "-".repeat(width))
}
