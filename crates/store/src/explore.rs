//! Exploration of a database that nobody has described: its tables, their keys, and rows from both
//! ends of one. Nothing is written, and no statement takes longer than a second.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use backlog_schedule::Value;

use super::engine::Engine;
use super::error::DbError;
use super::table::{Cells, Column, Listed, quote};
use super::tokens::{identifiers, tokens};

/// The longest that a statement may take.
const MOST: Duration = Duration::from_secs(1);
/// Rows to read from each end of a table.
const ROWS: usize = 1_000;
/// Columns with more different values than this have none of them counted.
const MOST_VALUES: usize = 20;
/// Tables with more rows than this are counted by a sample.
const COUNTED: u64 = 200_000;
/// Rows of each end in that sample.
const SAMPLED: usize = 10_000;

/// A database that is looked at without a mapping.
pub trait Explore {
    fn place(&self) -> String;

    /// All tables with their columns.
    fn tables(&mut self) -> Result<Vec<Listed>>;

    fn outline(&mut self, name: &str) -> Result<Outline>;

    fn sample(&mut self, outline: &Outline) -> Sample;

    /// The values of a column with at most [`MOST_VALUES`] of them, the most frequent first, with the number
    /// of rows; behind them what the column may hold besides, as far as its type, its CHECK constraints or
    /// its default name it. Empty for other columns, and where counting takes too long.
    fn values(&mut self, outline: &Outline, column: &Column) -> Vec<Counted>;
}

/// A value of a column.
pub struct Counted {
    pub value: Value,
    pub rows: u64,
    /// Whether a CHECK constraint refuses to write it.
    pub is_refused: bool,
}

impl Counted {
    /// Whether it is yes or no, or NULL.
    pub fn is_truth(&self) -> bool {
        matches!(self.value, Value::Null | Value::Boolean(_) | Value::Integer(0 | 1))
    }
}

/// A table as the catalog has it.
pub struct Outline {
    pub name: String,
    pub sql: String,
    pub columns: Vec<Column>,
    /// The columns of the unique keys without NULL, that of the primary key first.
    pub keys: Vec<Vec<String>>,
    /// Estimated number of rows, if the database knows it without counting.
    pub rows: Option<u64>,
    /// The expressions of the CHECK constraints.
    pub checks: Vec<String>,
    /// The other tables whose names begin as its own.
    pub sisters: Vec<String>,
}

impl Outline {
    /// Whether values are counted in a sample of the rows only.
    pub fn is_large(&self) -> bool {
        self.rows.is_some_and(|rows| rows > COUNTED)
    }
}

/// Rows of a table, by columns: those of the first end of its key, and behind them those of the last.
#[derive(Default)]
pub struct Sample {
    pub rows: Vec<Vec<Value>>,
    /// Whether these are all rows.
    pub is_whole: bool,
    /// Why there are none, if they could not be read.
    pub unread: Option<String>,
}

/// An engine that can be explored.
pub trait Explorable: Engine {
    /// The names of all tables that are the user's.
    fn table_names(&mut self) -> Result<Vec<String>>;

    fn listed(&mut self, name: &str) -> Result<Listed>;

    fn outline(&mut self, table: Listed) -> Result<Outline>;

    /// The beginning of a cell; nothing of what is no text and no number.
    fn glimpse(column: &Column) -> String;
}

/// The tables of an engine, without one that is meant.
pub struct Explorer<E>(pub E);

impl<E: Explorable> Explorer<E> {
    /// What a statement hands out, unless it takes too long.
    fn read<T>(
        &mut self,
        sql: &str,
        of: impl FnMut(&E::Row<'_>) -> T + Send,
    ) -> Result<Vec<T>, DbError> {
        let Some(mut interrupt) = self.0.interrupter() else { return self.0.all(sql, &[], of) };
        let (done, is_done) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                while is_done.recv_timeout(MOST) == Err(RecvTimeoutError::Timeout) {
                    interrupt();
                }
            });
            let read = self.0.all(sql, &[], of);
            drop(done);
            read
        })
    }

    fn end(&mut self, outline: &Outline, direction: &str) -> Result<Vec<Vec<Value>>, DbError> {
        let columns: Vec<_> = outline.columns.iter().map(E::glimpse).collect();
        let sql = end(outline, &columns.join(", "), direction, ROWS);
        self.read(&sql, |row| {
            outline.columns.iter().zip(0..).map(|(column, at)| row.value(column, at)).collect()
        })
    }

    /// The values of a column with the number of rows, the most frequent first.
    fn counted(&mut self, outline: &Outline, column: &Column) -> Option<Vec<(Value, u64)>> {
        // The key tells the rows apart that are in both ends.
        let keys = outline.keys.first().into_iter().flatten().zip(0..);
        let keys: String = keys.map(|(name, at)| format!(", {} AS k{at}", quote(name))).collect();
        let value = format!("{} AS v{keys}", E::glimpse(column));
        let of_ends = ["ASC", "DESC"].map(|direction| {
            format!("SELECT * FROM ({}) AS part", end(outline, &value, direction, SAMPLED))
        });
        let rows = match (outline.is_large(), keys.is_empty()) {
            (false, _) => format!("SELECT {value} FROM {}", outline.sql),
            (true, true) => end(outline, &value, "ASC", SAMPLED),
            (true, false) => of_ends.join(" UNION "),
        };
        let sql = format!(
            "SELECT v, count(*) FROM ({rows}) AS r GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {}",
            MOST_VALUES + 1
        );
        self.read(&sql, |row| (row.value(column, 0), row.count(1))).ok()
    }

    /// Whether a CHECK constraint on this column alone refuses a value.
    fn is_refused(&mut self, outline: &Outline, column: &Column, value: &Value) -> bool {
        let Value::Text(text) = value else { return false };
        let literal = format!("'{}'", text.replace('\'', "''"));
        let name = quote(&column.name);
        let refuses = |check: &str| {
            let sql = format!(
                "SELECT coalesce(NOT ({check}), false) FROM (SELECT {literal} AS {name}) AS one"
            );
            self.read(&sql, |row| row.truth(0)).is_ok_and(|refused| refused == [true])
        };
        checks(outline, column).any(refuses)
    }
}

/// The CHECK constraints on a column alone.
fn checks<'o>(outline: &'o Outline, column: &'o Column) -> impl Iterator<Item = &'o str> {
    let is_alone = |check: &&String| {
        let read = identifiers(check);
        let is_read = |it: &Column| read.iter().any(|name| name.eq_ignore_ascii_case(&it.name));
        outline.columns.iter().all(|it| is_read(it) == (it.name == column.name))
    };
    outline.checks.iter().filter(is_alone).map(String::as_str)
}

/// Rows of one end of a table.
fn end(outline: &Outline, columns: &str, direction: &str, rows: usize) -> String {
    let order = outline.keys.first().map(|key| {
        let terms: Vec<_> = key.iter().map(|name| format!("{} {direction}", quote(name))).collect();
        format!(" ORDER BY {}", terms.join(", "))
    });
    let order = order.unwrap_or_default();
    format!("SELECT {columns} FROM {}{order} LIMIT {rows}", outline.sql)
}

/// The texts in quotes in an expression of SQL.
fn literals(sql: &str) -> impl Iterator<Item = String> {
    let texts = tokens(sql).into_iter().map(|token| token.text);
    let texts = texts.filter_map(|text| text.strip_prefix('\'')?.strip_suffix('\''));
    texts.map(|text| text.replace("''", "'"))
}

impl<E: Explorable> Explore for Explorer<E> {
    fn place(&self) -> String {
        self.0.place()
    }

    fn tables(&mut self) -> Result<Vec<Listed>> {
        self.0.table_names()?.iter().map(|name| self.0.listed(name)).collect()
    }

    fn outline(&mut self, name: &str) -> Result<Outline> {
        let listed = self.0.listed(name)?;
        let mut outline = self.0.outline(listed)?;
        let prefix = outline.name.trim_end_matches(|c| c != '_');
        let mut sisters = self.0.table_names()?;
        sisters
            .retain(|name| !prefix.is_empty() && name.starts_with(prefix) && *name != outline.name);
        outline.sisters = sisters;
        Ok(outline)
    }

    fn sample(&mut self, outline: &Outline) -> Sample {
        let ends = ["ASC", "DESC"].map(|direction| self.end(outline, direction));
        let [Ok(mut rows), Ok(mut last)] = ends else {
            let why = ends.into_iter().find_map(Result::err).map(|error| error.words);
            return Sample { unread: why, ..Sample::default() };
        };
        let is_whole = rows.len() < ROWS;
        if !is_whole && !outline.keys.is_empty() {
            last.reverse();
            rows.extend(last);
        }
        Sample { rows, is_whole, unread: None }
    }

    fn values(&mut self, outline: &Outline, column: &Column) -> Vec<Counted> {
        let counted = self.counted(outline, column);
        let Some(mut values) = counted.filter(|values| values.len() <= MOST_VALUES) else {
            return Vec::new();
        };
        let of_checks = checks(outline, column).flat_map(literals);
        let labels = column.legal.iter().flatten().cloned().chain(of_checks);
        let labels = labels.chain(column.default.iter().flat_map(|default| literals(default)));
        for label in labels.map(Value::Text) {
            if column.holds.is_text() && values.iter().all(|(value, _)| *value != label) {
                values.push((label, 0));
            }
        }
        let refused = |(value, rows): (Value, u64)| {
            let is_refused = self.is_refused(outline, column, &value);
            Counted { value, rows, is_refused }
        };
        let values = values.into_iter().map(refused);
        values.filter(|counted| counted.rows > 0 || !counted.is_refused).collect()
    }
}
