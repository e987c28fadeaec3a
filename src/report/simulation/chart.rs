//! Charts of the load in characters, as wide as the terminal, and as high for one policy as for
//! another with the same load.

use super::{headline, shortened};
use crate::record::one_line;
use crate::report::Screen;
use crate::simulation::{Bins, Run, Scenario};
use crate::time::span;

/// How many characters wide a chart is in a pipe.
const WIDTH: usize = 72;
/// And at least, whatever a terminal says.
const LEAST_WIDTH: usize = 12;
const HEIGHT: usize = 6;
/// What stands left of the bars: the scale, and a line.
const MARGIN: usize = 9;
/// A character filled from below in eighths.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A chart for each run.
pub fn load_charts(runs: &[Run], scenario: &Scenario, screen: &Screen) -> Vec<String> {
    let width = screen.width.map_or(WIDTH, |width| width.saturating_sub(MARGIN).max(LEAST_WIDTH));
    let bins = Bins::new(runs, scenario, width);
    let loads: Vec<_> = runs.iter().map(|run| bins.load(run)).collect();
    let most = loads.iter().flatten().copied().max().unwrap_or(0).max(1);
    // Bars are equally wide in a pipe; at a terminal they fill it.
    let width = if screen.is_terminal() { width } else { width / bins.count * bins.count };
    let chart = |(run, load): (&Run, &Vec<usize>)| {
        title(run, &bins, load, screen) + &bars(load, most, width) + &axis(&bins, width)
    };
    runs.iter().zip(&loads).map(chart).collect()
}

/// Each chart has its own peak in words, since the scale is that of the highest.
fn title(run: &Run, bins: &Bins, load: &[usize], screen: &Screen) -> String {
    let name = one_line(&run.policy.name());
    let name = screen.width.map_or(name.clone(), |width| shortened(&name, width.saturating_sub(1)));
    screen.wrap(&format!("{name}: {}", headline(run, bins, load)))
}

fn bars(load: &[usize], most: usize, width: usize) -> String {
    let row = |row: usize| {
        let filled = |column: usize| {
            let count = load[column * load.len() / width];
            // At least one eighth for what is there at all.
            let eighths = (count * HEIGHT * 8).div_ceil(most);
            EIGHTHS[eighths.saturating_sub(row * 8).min(8)]
        };
        let scale = if row + 1 == HEIGHT { most.to_string() } else { String::new() };
        let drawn: String = (0..width).map(filled).collect();
        format!("{scale:>7} |{}\n", drawn.trim_end())
    };
    (0..HEIGHT).rev().map(row).collect()
}

/// From 0 to the end, with the length of a bar between them as far as there is room.
fn axis(bins: &Bins, width: usize) -> String {
    let to = span(bins.secs.saturating_mul(bins.count as i64));
    let gap = width.saturating_sub(1 + to.len());
    let each = span(bins.secs);
    let each = [format!("retries in each {each}"), format!("each {each}"), String::new()];
    let each = each.into_iter().find(|each| each.len() + 2 <= gap).unwrap_or_default();
    format!("{:>7} +{}\n         0{each:^gap$}{to}\n", "0", "-".repeat(width))
}
