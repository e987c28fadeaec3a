//! Simulations as a picture: a panel for each policy, a dot for each retry, the load as bars
//! below the dots.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::simulation::{self, Load, Run, Scenario};

const WIDTH: u32 = 1040;
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

/// The picture as an SVG document.
pub fn picture(runs: &[Run], scenario: &Scenario) -> Result<String> {
    let mut svg = String::new();
    paint(&mut svg, runs, scenario).map_err(|error| anyhow!("could not draw: {error}"))?;
    Ok(svg)
}

fn paint(svg: &mut String, runs: &[Run], scenario: &Scenario) -> Result<()> {
    let panels = u32::try_from(runs.len())?;
    let height = TITLE + panels * PANEL + LEGEND;
    let root = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (title, rest) = root.split_vertically(TITLE);
    let (body, legend) = rest.split_vertically(panels * PANEL);
    title.draw(&Text::new(
        format!(
            "The retries of {} failing records: one dot each, coloured by its number; the load \
             as grey bars",
            scenario.rows.len()
        ),
        (20, 14),
        ("sans-serif", 18),
    ))?;
    for (run, area) in runs.iter().zip(body.split_evenly((runs.len(), 1))) {
        panel(&area, run, scenario)?;
    }
    colours(&legend)?;
    root.present()?;
    Ok(())
}

/// The unit of the time axis for a simulation of so many seconds, and its length.
fn unit_of(secs: i64) -> (&'static str, i64) {
    match secs {
        ..=600 => ("seconds", 1),
        601..=21_600 => ("minutes", 60),
        21_601..=432_000 => ("hours", 3_600),
        _ => ("days", 86_400),
    }
}

fn panel(area: &Panel, run: &Run, scenario: &Scenario) -> Result<()> {
    let (unit, unit_secs) = unit_of(scenario.secs);
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
        .y_desc(format!("retries per {}", crate::time::span(bar_secs)))
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
