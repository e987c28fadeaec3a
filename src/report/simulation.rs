//! Simulations as a table, as charts in the terminal and as JSON lines.

use std::fmt::Write;

use serde_json::json;

use super::aligned;
use crate::record::{Id, json_line, one_line};
use crate::simulation::{self, Load, Run, Scenario, Tried};
use crate::time::{DAY, Instant, span};

/// How many characters wide and high a chart is.
const WIDTH: usize = 72;
const HEIGHT: usize = 6;
/// A character filled from below in eighths.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One line for each policy.
pub fn figures_table(runs: &[Run]) -> String {
    let header = ["POLICY", "attempts", "peak/tick", "idle ticks", "unevenness", "deviation"]
        .map(String::from);
    let ratio = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.3}"));
    let line = |run: &Run| {
        let figures = &run.figures;
        let idle = 100 * figures.idle_ticks / figures.ticks.max(1);
        vec![
            one_line(&run.policy.name()),
            figures.attempts.to_string(),
            figures.peak.to_string(),
            format!("{} ({idle}%)", figures.idle_ticks),
            ratio(figures.evenness.map(|it| it.unevenness)),
            ratio(figures.evenness.map(|it| it.deviation)),
        ]
    };
    aligned(&std::iter::once(header.to_vec()).chain(runs.iter().map(line)).collect::<Vec<_>>())
}

/// The retries over the time, as bars.
pub fn load_chart(run: &Run, scenario: &Scenario) -> String {
    let Load { bars, bar_secs, .. } = simulation::load(run, scenario, WIDTH);
    let (most, bar_width) = (bars.iter().copied().max().unwrap_or(0).max(1), WIDTH / bars.len());
    let mut text = format!("{}\n", one_line(&run.policy.name()));
    for row in (0..HEIGHT).rev() {
        let bar = |count: &usize| {
            // At least one eighth for what is there at all.
            let eighths = (count * HEIGHT * 8).div_ceil(most);
            let filled = EIGHTHS[eighths.saturating_sub(row * 8).min(8)];
            std::iter::repeat_n(filled, bar_width)
        };
        let scale = if row + 1 == HEIGHT { most.to_string() } else { String::new() };
        let drawn: String = bars.iter().flat_map(bar).collect();
        let _ = writeln!(text, "{scale:>7} |{}", drawn.trim_end());
    }
    let width = bars.len() * bar_width;
    let (from, to) = ("0", span(bar_secs.saturating_mul(bars.len() as i64)));
    let _ = writeln!(text, "{:>7} +{}", "0", "-".repeat(width));
    let gap = width - from.len() - to.len();
    let each = format!("retries in each {}", span(bar_secs));
    let _ = writeln!(text, "         {from}{each:^gap$}{to}");
    text
}

/// `{"policy":"even","id":7,"attempt":2,"at":60,"delay":60}`; `before` is when the record was
/// tried before, if it was.
pub fn attempt_json(policy: &str, id: &Id, tried: &Tried, before: Option<i64>) -> String {
    let delay = before.map_or(0, |before| tried.at - before);
    let line = json!({
        "policy": policy,
        "id": id,
        "attempt": tried.attempt,
        "at": tried.at,
        "delay": delay,
    });
    json_line(&line)
}

/// The load of each day, as far as it is simulated: all attempts, those in the busiest tick, and
/// how many a tick has.
pub fn days_table(run: &Run, scenario: &Scenario) -> String {
    let every = run.policy.every_secs();
    let day_of = |tried: &Tried| scenario.instant(tried.at).tick(DAY);
    let header = ["DAY", "attempts", "peak/tick", "mean/tick"].map(String::from).to_vec();
    let (start, end) = (scenario.start, scenario.instant(scenario.secs));
    let mut by_day = run.attempts.chunk_by(|one, other| day_of(one) == day_of(other)).peekable();
    let mut rows = vec![header];
    for day in start.tick(DAY)..=end.tick(DAY) {
        let (from, to) = (start.max(Instant(day * DAY)), end.min(Instant((day + 1) * DAY - 1)));
        // Those that begin in it.
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
    aligned(&rows)
}
