//! Tables of records in columns. In a pipe a value is whole, unless it is longer than any id may be, and
//! one that is wider than its column pushes its line to the right. A terminal that is too narrow for all
//! columns goes without the least important ones, and cuts what still does not fit.

use super::screen::Screen;
use crate::record::cut_to;

pub struct Column {
    pub name: &'static str,
    /// What nearly every value needs.
    pub least: usize,
    pub is_number: bool,
    /// The narrowest terminal that has room for it.
    pub from_width: usize,
}

impl Column {
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

pub struct Columns {
    /// Those that are shown, with their places in a row and their widths.
    shown: Vec<(usize, Column, usize)>,
    screen: Screen,
}

/// How much of a terminal one column gets, and of a line in a pipe.
const MOST_OF_ONE: usize = 36;
const MOST_IN_PIPE: usize = 200;

/// No cell has more characters, also in a pipe: an id is never longer.
const MOST_OF_CELL: usize = 4096;

/// A cell with blanks before it or behind it up to a width. A format takes no width above 65,535.
pub fn padded(cell: &str, width: usize, to_the_right: bool) -> String {
    let cell = cut_to(cell.into(), MOST_OF_CELL, "...");
    let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
    if to_the_right { blanks + &cell } else { cell + &blanks }
}

impl Columns {
    /// As wide as their least widths and these first rows need.
    pub fn new(columns: Vec<Column>, first: &[Vec<String>], screen: Screen) -> Self {
        let is_shown = |column: &Column| screen.width.is_none_or(|it| it >= column.from_width);
        let width = |place: usize, column: &Column| {
            let longest = first.iter().map(|row| row[place].chars().count()).max().unwrap_or(0);
            let least = if screen.is_terminal() { column.name.len() } else { column.least };
            let most = if screen.is_terminal() { MOST_OF_ONE.max(least) } else { MOST_IN_PIPE };
            longest.max(least).max(column.name.len()).min(most)
        };
        let shown = columns.into_iter().enumerate().filter(|(_, column)| is_shown(column));
        let shown = shown.map(|(place, column)| {
            let width = width(place, &column);
            (place, column, width)
        });
        Self { shown: shown.collect(), screen }
    }

    pub fn header(&self) -> String {
        self.line(self.shown.iter().map(|(_, column, _)| column.name))
    }

    /// A line of the values of all columns, the shown ones in their widths but for the last.
    pub fn row(&self, values: &[String]) -> String {
        self.line(self.shown.iter().map(|(place, ..)| values[*place].as_str()))
    }

    fn line<'a>(&self, values: impl Iterator<Item = &'a str>) -> String {
        let last = self.shown.len().saturating_sub(1);
        let cells = self.shown.iter().zip(values).enumerate();
        let cells = cells.map(|(number, ((_, column, width), value))| match column.is_number {
            false if number == last => padded(value, 0, false),
            is_number => padded(value, *width, is_number),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        format!("{}\n", self.screen.fit(&line))
    }
}

/// A whole table: its header and all rows.
pub fn table(columns: Vec<Column>, rows: &[Vec<String>], screen: &Screen) -> String {
    let columns = Columns::new(columns, rows, *screen);
    columns.header() + &rows.iter().map(|row| columns.row(row)).collect::<String>()
}
