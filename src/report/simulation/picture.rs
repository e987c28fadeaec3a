//! The picture: an SVG with a panel for each policy, a dot for each retry, and the load as bars below
//! the dots. The panels share their axes, the load's too. It is light or dark as the reader's screen is.

use super::axis::{round_secs, unit};
use super::colours::{ColourScale, Theme};
use super::dots::{Sample, fair_share};
use super::headline::{headline, in_words, shortened};
use super::scales::{PIXEL, PLOT_HEIGHT, PLOT_WIDTH, Scales, compact};
use crate::record::one_line;
use crate::report::grouped;
use crate::simulation::{Bins, Run, Scenario};

/// What a web page has to spare for a picture, in bytes: beyond it fewer dots are drawn.
const MOST_BYTES: usize = 60_000;
const MOST_DOTS: usize = 5_000;
/// More policies have no panel.
const MOST_PANELS: usize = 16;
/// How many bars a panel has at most, and all together.
const BARS: usize = 240;
const ALL_BARS: usize = 2_400;
/// How much of a name is shown.
const NAME: usize = 48;

// Lengths in pixels. The plot of a panel stands below its headline.
const WIDTH: i64 = 1_040;
const HEADER: i64 = 104;
const PANEL: i64 = 194;
const FOOTER: i64 = 44;
const LEFT: i64 = 68;
const RIGHT: i64 = LEFT + PLOT_WIDTH;
const TOP: i64 = 28;
const BOTTOM: i64 = TOP + PLOT_HEIGHT;

pub fn picture(runs: &[Run], scenario: &Scenario) -> String {
    let picture = Picture::new(runs, scenario);
    let fewer = std::iter::successors(Some(MOST_DOTS), |dots| (*dots > 0).then_some(dots * 3 / 4));
    let mut svgs = fewer.map(|dots| picture.svg(dots));
    let mut svg = svgs.next().unwrap_or_default();
    while svg.len() > MOST_BYTES
        && let Some(smaller) = svgs.next()
    {
        svg = smaller;
    }
    svg
}

struct Picture<'a> {
    /// Those that are shown, and how many there are.
    runs: &'a [Run],
    of_runs: usize,
    scenario: &'a Scenario,
    bins: Bins,
    loads: Vec<Vec<usize>>,
    scales: Scales,
    colours: ColourScale,
}

impl<'a> Picture<'a> {
    fn new(runs: &'a [Run], scenario: &'a Scenario) -> Self {
        let (shown, of_runs) = (&runs[..runs.len().min(MOST_PANELS)], runs.len());
        let most = BARS.min(ALL_BARS / shown.len().max(1));
        let bar_secs = round_secs(scenario.secs / i64::try_from(most).unwrap_or(i64::MAX));
        let most = usize::try_from(scenario.secs / bar_secs).unwrap_or(most).clamp(1, most);
        let bins = Bins::new(shown, scenario, most);
        let loads: Vec<_> = shown.iter().map(|run| bins.load(run)).collect();
        let peak = loads.iter().flatten().copied().max().unwrap_or(0).max(1);
        let retries = shown.iter().flat_map(Run::retries);
        let colours = ColourScale::of(retries.map(|tried| tried.attempt - 1));
        let scales = Scales { secs: scenario.secs, records: scenario.rows.len(), peak };
        Self { runs: shown, of_runs, scenario, bins, loads, scales, colours }
    }

    fn svg(&self, most_dots: usize) -> String {
        let height = HEADER + PANEL * self.runs.len() as i64 + FOOTER;
        let retries: Vec<_> = self.runs.iter().map(|run| run.retries().count()).collect();
        let fair_share = fair_share(&retries, most_dots);
        let panels: String =
            (0..self.runs.len()).map(|number| self.panel(number, fair_share)).collect();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"title description\">\n\
             <title id=\"title\">{}</title>\n<desc id=\"description\">{}</desc>\n{}\
             <defs>\n{}</defs>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n\
             {}{panels}{}</svg>\n",
            self.title(),
            self.description(),
            self.style(),
            self.frame(),
            self.header(),
            self.footer(height - FOOTER),
        )
    }

    fn title(&self) -> String {
        let records = grouped(self.scenario.rows.len() as u64);
        let s = if records == "1" { "" } else { "s" };
        let policies = match self.of_runs {
            1 => "1 policy".into(),
            of if of > self.runs.len() => format!("{} of {of} policies", self.runs.len()),
            of => format!("{of} policies"),
        };
        let time = in_words(self.scenario.secs);
        format!("Retries of {records} record{s} in {time} under {policies}")
    }

    fn description(&self) -> String {
        let panel = |number| format!("{}: {}", self.name(number), self.headline(number));
        (0..self.runs.len()).map(panel).collect::<Vec<_>>().join("; ")
    }

    fn name(&self, number: usize) -> String {
        escaped(&shortened(&self.runs[number].name, NAME))
    }

    fn headline(&self, number: usize) -> String {
        headline(&self.runs[number], &self.bins, &self.loads[number])
    }

    /// Properties of classes alone: not every reader of SVG knows variables.
    fn style(&self) -> String {
        let colours = |theme| {
            let rule = |(number, colour)| format!(".c{number}{{stroke:{colour}}}");
            self.colours.on(theme).enumerate().map(rule).collect::<String>()
        };
        format!(
            "<style>\n{STYLE}\n{}\n@media (prefers-color-scheme: dark) {{\n{DARK}\n{}\n}}\n</style>\n",
            colours(Theme::Light),
            colours(Theme::Dark)
        )
    }

    fn header(&self) -> String {
        let each = in_words(self.bins.secs);
        let bars = format!("grey bars are the retries in each {each}, on a square-root scale");
        format!(
            "<text class=\"title\" x=\"{LEFT}\" y=\"28\">{}</text>\n\
             <text x=\"{LEFT}\" y=\"50\">A dot is a retry, coloured by its number; {bars} that all \
             panels share.</text>\n{}",
            self.title(),
            self.legend()
        )
    }

    /// The colours with the numbers at which they begin.
    fn legend(&self) -> String {
        let bands = self.colours.bands();
        let is_one_each = bands.iter().all(|(first, last)| first == last);
        let (from, width) = (LEFT + 132, if is_one_each { 28 } else { 46 });
        let mut legend = format!("<text x=\"{LEFT}\" y=\"76\">number of the retry</text>\n");
        let mut labels = String::new();
        for ((first, _), number) in bands.iter().zip(0..) {
            let x = from + number * width;
            legend += &format!("<path class=\"key c{number}\" d=\"M{x} 66h{width}\"/>");
            let middle = x + width / 2;
            labels += &format!(
                "<text class=\"middle\" x=\"{middle}\" y=\"86\">{}</text>",
                compact(*first as usize)
            );
        }
        if let Some((_, last)) = bands.last().filter(|_| !is_one_each) {
            let x = from + bands.len() as i64 * width + 8;
            labels += &format!("<text x=\"{x}\" y=\"86\">to {}</text>", grouped(u64::from(*last)));
        }
        legend + "\n" + &labels + "\n"
    }

    /// The axes of every panel.
    fn frame(&self) -> String {
        let mut grid = String::new();
        for at in self.scales.times() {
            grid += &format!("M{} {TOP}v{PLOT_HEIGHT}", LEFT + self.scales.x(at) / PIXEL);
        }
        let mut labels = String::new();
        for count in self.scales.loads_labelled() {
            let y = BOTTOM - self.scales.height(count) / PIXEL;
            grid += &format!("M{LEFT} {y}h{PLOT_WIDTH}");
            let (x, y, count) = (RIGHT + 8, y + 4, compact(count));
            labels += &format!("<text x=\"{x}\" y=\"{y}\">{count}</text>");
        }
        for record in self.scales.records_labelled() {
            let (x, y) = (LEFT - 8, BOTTOM - self.scales.y(record - 1) / PIXEL + 4);
            labels +=
                &format!("<text class=\"end\" x=\"{x}\" y=\"{y}\">{}</text>", compact(record));
        }
        let axis = |x: i64, text: &str| {
            let y = TOP + PLOT_HEIGHT / 2;
            let turned = format!("transform=\"translate({x} {y})rotate(-90)\"");
            format!("<text class=\"middle\" {turned}>{text}</text>")
        };
        let load = axis(WIDTH - 10, &format!("retries in {}", in_words(self.bins.secs)));
        format!(
            "<g id=\"frame\"><path class=\"grid\" d=\"{grid}\"/>\n{labels}\n{}{load}</g>\n",
            axis(18, "record")
        )
    }

    fn footer(&self, y: i64) -> String {
        let (unit, unit_secs) = unit(self.scenario.secs);
        let label = |at: i64| {
            let (x, time) =
                (LEFT + self.scales.x(at) / PIXEL, grouped((at / unit_secs).unsigned_abs()));
            format!("<text class=\"middle\" x=\"{x}\" y=\"{}\">{time}</text>", y + 2)
        };
        let labels: String = self.scales.times().map(label).collect();
        let since = if self.scenario.is_cohort { "the first attempt" } else { "the start" };
        let (x, y) = (LEFT + PLOT_WIDTH / 2, y + 24);
        format!(
            "{labels}\n<text class=\"middle\" x=\"{x}\" y=\"{y}\">{unit} since {since}</text>\n"
        )
    }

    fn panel(&self, number: usize, fair_share: usize) -> String {
        let run = &self.runs[number];
        let sample = Sample::new(run, self.scenario.rows.len(), fair_share);
        let (name, headline, note) = (self.name(number), self.headline(number), sample.in_words());
        let place = |row: usize, at: i64| (self.scales.x(at), -self.scales.y(row));
        format!(
            "<g transform=\"translate(0 {})\"><use href=\"#frame\"/>\n\
             <text class=\"headline\" x=\"{LEFT}\" y=\"16\"><tspan class=\"name\">{name}</tspan>: \
             {headline} <tspan class=\"note\">{note}</tspan></text>\n\
             <g transform=\"translate({LEFT} {BOTTOM})scale({})\">\n<path class=\"load\" d=\"{}\"/>\n\
             <g class=\"dots\">\n{}</g></g>\n<path class=\"axis\" d=\"M{LEFT} {BOTTOM}h{PLOT_WIDTH}\"/></g>\n",
            HEADER + PANEL * number as i64,
            1.0 / PIXEL as f64,
            self.bars(&self.loads[number]),
            sample.paths(run, &self.colours, place),
        )
    }

    /// The outline of the bars, from the left to the right.
    fn bars(&self, load: &[usize]) -> String {
        let edge = |number: i64| {
            let at = self.bins.begins_at + number * self.bins.secs;
            self.scales.x(at.clamp(0, self.scenario.secs))
        };
        let mut path = format!("M{} 0", edge(0));
        let (mut from, mut height) = (edge(0), 0);
        for (count, number) in load.iter().zip(0..) {
            // What is there at all is seen.
            let next = if *count > 0 { self.scales.height(*count).max(PIXEL) } else { 0 };
            if next != height {
                path += &format!("H{from}V{}", -next);
                height = next;
            }
            from = edge(number + 1);
        }
        path + &format!("H{from}V0z")
    }
}

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#57606a}
.title{font-size:17px;font-weight:600;fill:#1f2328}.headline{font-size:14px;fill:#1f2328}
.name{font-weight:600}.note{fill:#57606a}.middle{text-anchor:middle}.end{text-anchor:end}
.paper{fill:#fff}.load{fill:#d5dae0}.grid{stroke:#eaeef2}.axis{stroke:#8c959f}
path{fill:none}.key{stroke-width:8}.dots{stroke-width:7;stroke-linecap:round}";
const DARK: &str = "text,.note{fill:#9198a1}.title,.headline{fill:#f0f6fc}
.paper{fill:#0d1117}.load{fill:#3d444d}.grid{stroke:#21262d}.axis{stroke:#656c76}";

/// As text in XML, which cannot hold every character of Unicode.
fn escaped(text: &str) -> String {
    let visible = one_line(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    visible.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_have_written_is_text() {
        assert_eq!(escaped("a<b> & \u{7}\u{ffff}"), "a&lt;b&gt; &amp; \\u{7}\u{fffd}");
    }
}
