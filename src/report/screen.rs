//! The screen of a report: a terminal, with local time and lines that fit, or a pipe, with UTC and whole values. A wide
//! value in a pipe moves the rest of its line. A narrow terminal leaves out minor columns and cuts long lines.

use backlog_schedule::{DAY, Instant, cut_to, one_line, rough_span};
use chrono::{DateTime, Datelike, Local};
use indicatif::HumanCount;

const BRIEF: usize = 50;

#[derive(Debug, Clone, Copy)]
pub struct Screen {
    /// In characters; `None` for a pipe.
    pub width: Option<usize>,
    pub now: Instant,
}

impl Screen {
    pub fn is_terminal(&self) -> bool {
        self.width.is_some()
    }

    /// An instant: on a terminal `02:36:00` in local time, with the date if it is not today.
    pub fn at(&self, at: Instant) -> String {
        if !self.is_terminal() {
            return at.to_string();
        }
        let local = |at: Instant| Some(DateTime::from_timestamp(at.0, 0)?.with_timezone(&Local));
        let (Some(then), Some(now)) = (local(at), local(self.now)) else { return at.to_string() };
        let format = if then.date_naive() == now.date_naive() {
            "%H:%M:%S"
        } else if then.year() == now.year() || (at.0 - self.now.0).abs() < 180 * DAY {
            "%b %d %H:%M"
        } else {
            "%Y-%m-%d"
        };
        then.format(format).to_string()
    }

    /// An instant, on a terminal with its distance from now: `02:36:00, 58 s ago`.
    pub fn when(&self, at: Instant) -> String {
        match self.width {
            Some(_) => format!("{}, {}", self.at(at), self.distance(at)),
            None => self.at(at),
        }
    }

    pub fn distance(&self, at: Instant) -> String {
        match at.0.saturating_sub(self.now.0) {
            0 => "now".into(),
            secs if secs > 0 => format!("in {}", rough_span(secs)),
            secs => format!("{} ago", rough_span(secs.saturating_neg())),
        }
    }

    /// A line that fits the terminal, with hidden characters escaped.
    pub fn fit(&self, line: &str) -> String {
        let line = one_line(line.trim_end());
        self.width.map_or_else(|| line.clone(), |width| fitting(&line, width))
    }

    pub fn brief(&self, text: &str) -> String {
        let text = one_line(text);
        if self.is_terminal() { cut_to(text, BRIEF, "…") } else { text }
    }

    pub fn wrap(&self, sentence: &str) -> String {
        wrapped(sentence, self.width.unwrap_or(usize::MAX))
    }
}

/// A sentence in lines of this width. The lines after the first are indented.
pub fn wrapped(sentence: &str, width: usize) -> String {
    let (mut text, mut column) = (String::new(), 0);
    // Two blanks between a label and its value stay.
    for word in one_line(sentence.trim_end()).split_inclusive(' ') {
        if column > 0 && column + word.trim_end().chars().count() > width {
            text.truncate(text.trim_end().len());
            text += "\n  ";
            column = 2;
        }
        text += word;
        column += word.chars().count();
    }
    text + "\n"
}

/// A text of at most this number of characters. Dots replace the rest.
pub fn fitting(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// A number with separated thousands: `4,055`.
pub fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}

#[derive(Clone, Copy)]
pub struct ScreenColumn {
    pub name: &'static str,
    /// Width that nearly every value needs.
    pub least: usize,
    pub is_number: bool,
    /// Minimum width of a terminal that shows the column.
    pub from_width: usize,
}

impl ScreenColumn {
    pub const fn text(name: &'static str, least: usize) -> Self {
        Self { name, least, is_number: false, from_width: 0 }
    }

    pub const fn number(name: &'static str, least: usize) -> Self {
        Self { name, least, is_number: true, from_width: 0 }
    }

    pub const fn wide(self, from_width: usize) -> Self {
        Self { from_width, ..self }
    }
}

/// A column is wide enough for its header and its first rows, up to a cap; in a pipe it has at least the width `least`.
pub struct ScreenTable {
    columns: Vec<ScreenColumn>,
    screen: Screen,
    /// Rows that are kept until the widths are known.
    first: Vec<Vec<String>>,
    /// The index and the width of each visible column.
    widths: Option<Vec<(usize, usize)>>,
}

/// Number of rows that determine the widths.
const FIRST: usize = 200;

/// Maximum width of a column on a terminal, and in a pipe.
const MOST_ON_TERMINAL: usize = 36;
const MOST_IN_PIPE: usize = 200;

/// Maximum number of characters of a cell. An id has 4,096 bytes, each of two digits or an escaped character.
const MOST_OF_CELL: usize = 8192;

/// A cell padded to a width. `format!` allows only widths up to 65,535.
fn padded(cell: &str, width: usize, to_the_right: bool) -> String {
    let cell = cut_to(cell.into(), MOST_OF_CELL, "...");
    let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
    if to_the_right { blanks + &cell } else { cell + &blanks }
}

impl ScreenTable {
    pub fn new(columns: Vec<ScreenColumn>, screen: Screen) -> Self {
        Self { columns, screen, first: Vec::new(), widths: None }
    }

    /// Adds a row, and returns the lines that can be written.
    pub fn add(&mut self, row: Vec<String>) -> String {
        if let Some(widths) = &self.widths {
            return self.line(widths, &row);
        }
        self.first.push(row);
        if self.first.len() < FIRST { String::new() } else { self.finish() }
    }

    pub fn finish(&mut self) -> String {
        if self.widths.is_some() {
            return String::new();
        }
        let rows = std::mem::take(&mut self.first);
        let is_terminal = self.screen.is_terminal();
        let width = |(index, column): (usize, &ScreenColumn)| {
            let longest = rows.iter().map(|row| row[index].chars().count()).max().unwrap_or(0);
            let least = if is_terminal { column.name.len() } else { column.least };
            let most = if is_terminal { MOST_ON_TERMINAL.max(least) } else { MOST_IN_PIPE };
            (index, longest.max(least).max(column.name.len()).min(most))
        };
        let width_of_screen = self.screen.width.unwrap_or(usize::MAX);
        let columns = self.columns.iter().enumerate();
        let visible = columns.filter(|(_, column)| column.from_width <= width_of_screen);
        let widths: Vec<_> = visible.map(width).collect();
        let header: Vec<String> = self.columns.iter().map(|column| column.name.into()).collect();
        let lines = [header].iter().chain(&rows).map(|row| self.line(&widths, row)).collect();
        self.widths = Some(widths);
        lines
    }

    fn line(&self, widths: &[(usize, usize)], row: &[String]) -> String {
        let cells = widths.iter().zip(1..).map(|((index, width), number)| {
            let is_number = self.columns[*index].is_number;
            let width = if number == widths.len() && !is_number { 0 } else { *width };
            padded(&row[*index], width, is_number)
        });
        format!("{}\n", self.screen.fit(&cells.collect::<Vec<_>>().join("  ")))
    }
}

/// A whole table. All rows determine the widths.
pub fn table(columns: Vec<ScreenColumn>, rows: &[Vec<String>], screen: &Screen) -> String {
    ScreenTable { first: rows.to_vec(), ..ScreenTable::new(columns, *screen) }.finish()
}
