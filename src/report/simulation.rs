//! Simulations: as a table, as charts in the terminal, as JSON lines, and as a picture with a panel
//! for each policy, a dot for each retry, and the load as bars below the dots.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
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
    let mut rows = vec![header.to_vec()];
    rows.extend(runs.iter().map(line));
    aligned(&rows)
}

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
        text += &format!("{scale:>7} |{}\n", drawn.trim_end());
    }
    let width = bars.len() * bar_width;
    let to = span(bar_secs.saturating_mul(bars.len() as i64));
    let each = format!("retries in each {}", span(bar_secs));
    let gap = width - 1 - to.len();
    text + &format!("{:>7} +{}\n         0{each:^gap$}{to}\n", "0", "-".repeat(width))
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

/// The load of each simulated day: all attempts, those in the busiest tick, and those of a tick.
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

const PICTURE: u32 = 1040;
const PANEL: u32 = 230;
const TITLE: u32 = 44;
const LEGEND: u32 = 46;
/// How many bars the load has at most.
const BARS: usize = 240;
/// More records or dots than these are shown by every so-and-so-many-th record.
const MOST_RECORDS: usize = 400;
const MOST_DOTS: usize = 20_000;
/// Retries from this number on have one colour.
const LAST_COLOUR: u32 = 24;

type Panel<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub fn picture(runs: &[Run], scenario: &Scenario) -> Result<String> {
    let mut svg = String::new();
    paint(&mut svg, runs, scenario).map_err(|error| anyhow!("could not draw: {error}"))?;
    Ok(svg)
}

fn paint(svg: &mut String, runs: &[Run], scenario: &Scenario) -> Result<()> {
    let panels = u32::try_from(runs.len())?;
    let height = TITLE + panels * PANEL + LEGEND;
    let root = SVGBackend::with_string(svg, (PICTURE, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (title, rest) = root.split_vertically(TITLE);
    let (body, legend) = rest.split_vertically(panels * PANEL);
    let what = format!(
        "The retries of {} failing records: one dot each, coloured by its number; the load as grey \
         bars",
        scenario.rows.len()
    );
    title.draw(&Text::new(what, (20, 14), ("sans-serif", 18)))?;
    for (run, area) in runs.iter().zip(body.split_evenly((runs.len(), 1))) {
        panel(&area, run, scenario)?;
    }
    colours(&legend)?;
    root.present()?;
    Ok(())
}

fn panel(area: &Panel, run: &Run, scenario: &Scenario) -> Result<()> {
    let (unit, unit_secs) = match scenario.secs {
        ..=600 => ("seconds", 1),
        601..=21_600 => ("minutes", 60),
        21_601..=432_000 => ("hours", 3_600),
        _ => ("days", DAY),
    };
    let in_units = |secs: i64| float(secs) / float(unit_secs);
    let records = scenario.rows.len();
    let Load { bars, bar_secs, begins_at } = simulation::load(run, scenario, BARS);
    let most = bars.iter().copied().max().unwrap_or(0).max(1);
    let retries = run.retries().count();
    let each = records.div_ceil(MOST_RECORDS).max(retries.div_ceil(MOST_DOTS)).max(1);
    let shown = if each > 1 { format!(" (one record in {each} is shown)") } else { String::new() };
    let title = format!("{}: {retries} retries{shown}", run.policy.name());
    let time = 0.0..in_units(scenario.secs);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 15))
        .margin(6)
        .margin_right(14)
        .x_label_area_size(34)
        .y_label_area_size(58)
        .right_y_label_area_size(58)
        .build_cartesian_2d(time.clone(), 0.0..float(i64::try_from(records)? + 1))?
        .set_secondary_coord(time, 0..most + most / 10 + 1);
    chart
        .configure_mesh()
        .disable_mesh()
        .x_desc(format!("{unit} since the first attempt"))
        .y_desc("record")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .x_labels(12)
        .y_labels(5)
        .label_style(("sans-serif", 12))
        .axis_desc_style(("sans-serif", 13))
        .draw()?;
    chart
        .configure_secondary_axes()
        .y_desc(format!("retries per {}", span(bar_secs)))
        .y_labels(4)
        .label_style(("sans-serif", 12))
        .axis_desc_style(("sans-serif", 13))
        .draw()?;
    let bar = |(count, number): (&usize, i64)| {
        let from = begins_at + number * bar_secs;
        let on_axis = |at: i64| in_units(at.clamp(0, scenario.secs));
        let corners = [(on_axis(from), 0), (on_axis(from + bar_secs), *count)];
        Rectangle::new(corners, RGBColor(200, 200, 200).filled())
    };
    let filled = bars.iter().zip(0..).filter(|(count, _)| **count > 0);
    chart.draw_secondary_series(filled.map(bar))?;
    let dots = run.retries().filter(|tried| (tried.row as usize).is_multiple_of(each));
    chart.draw_series(dots.map(|tried| {
        let place = (in_units(tried.at), f64::from(tried.row) + 1.0);
        Circle::new(place, 1.6, colour(tried.attempt - 1).filled())
    }))?;
    Ok(())
}

/// The colours of the retries, from the first to the last, in a row.
fn colours(area: &Panel) -> Result<()> {
    area.draw(&Text::new("number of the retry:", (60, 14), ("sans-serif", 14)))?;
    for retry in 1..=LAST_COLOUR {
        let x = 190 + i32::try_from(retry)? * 32;
        area.draw(&Circle::new((x, 20), 5, colour(retry).filled()))?;
        let more = if retry == LAST_COLOUR { "+" } else { "" };
        area.draw(&Text::new(format!("{retry}{more}"), (x + 8, 14), ("sans-serif", 12)))?;
    }
    Ok(())
}

/// From blue through green to red, as the retries go on.
fn colour(retry: u32) -> HSLColor {
    let place = f64::from(retry.clamp(1, LAST_COLOUR) - 1) / f64::from(LAST_COLOUR - 1);
    HSLColor(0.7 * (1.0 - place), 0.85, 0.42)
}

#[expect(clippy::cast_precision_loss, reason = "for a picture; far below 2^53")]
fn float(number: i64) -> f64 {
    number as f64
}
