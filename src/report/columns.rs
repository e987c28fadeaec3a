//! Tables of records in columns. In a pipe every value is whole, and a longer one pushes its line to the
//! right. A terminal that is too narrow for all columns goes without the least important ones, and cuts
//! what still does not fit.

use super::screen::Screen;

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

/// How much of a terminal one column gets.
const MOST_OF_ONE: usize = 36;

impl Columns {
    /// As wide as their least widths and these first rows need.
    pub fn new(columns: Vec<Column>, first: &[Vec<String>], screen: Screen) -> Self {
        let is_shown = |column: &Column| screen.width.is_none_or(|it| it >= column.from_width);
        let width = |place: usize, column: &Column| {
            let longest = first.iter().map(|row| row[place].chars().count()).max().unwrap_or(0);
            let least = if screen.is_terminal() { column.name.len() } else { column.least };
            let most = if screen.is_terminal() { MOST_OF_ONE.max(least) } else { usize::MAX };
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
            _ if number == last && !column.is_number => value.to_string(),
            true => format!("{value:>width$}"),
            false => format!("{value:<width$}"),
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
