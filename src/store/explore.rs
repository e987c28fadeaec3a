//! Exploration of a database that nobody has described: its tables, their keys, and rows from both
//! ends of one. Nothing is written, and no statement takes longer than a second.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::engine::Engine;
use super::error::DbError;
use super::table::{Cells, Column, Listed, quote};
use crate::record::Value;

/// The longest that a statement may take.
const MOST: Duration = Duration::from_secs(1);
/// How many rows of each end are looked at.
const ROWS: usize = 300;
/// More different values than this are those of no status.
const VALUES: usize = 20;
/// The rows of larger tables are not counted, but where that takes a second.
pub const COUNTED: u64 = 200_000;

/// A database that is looked at without a mapping.
pub trait Explore {
    fn place(&self) -> String;

    /// All tables with their columns.
    fn tables(&mut self) -> Result<Vec<Listed>>;

    fn outline(&mut self, name: &str) -> Result<Outline>;

    fn sample(&mut self, outline: &Outline) -> Sample;

    /// The values of a column, the most frequent first, and how many rows have each, if that is known.
    fn values(&mut self, outline: &Outline, column: &Column) -> Option<Vec<(Value, u64)>>;
}

/// A table as the catalog has it.
pub struct Outline {
    pub name: String,
    pub sql: String,
    pub columns: Vec<Column>,
    /// The columns of its unique keys without NULL, that of the primary key first.
    pub keys: Vec<Vec<String>>,
    /// About how many rows there are, if the database knows without counting them.
    pub rows: Option<u64>,
    /// The conditions of its indexes on a part of the rows, which is what the application looks for.
    pub parts: Vec<String>,
    /// The tables whose foreign keys lead to it, and those whose names begin as its own.
    pub related: Vec<String>,
}

/// Rows of a table, by columns: those of the first end of its key, and behind them those of the last.
#[derive(Default)]
pub struct Sample {
    pub rows: Vec<Vec<Value>>,
    /// For each row, whether the condition of each part of the table holds.
    pub parts: Vec<Vec<bool>>,
    /// Whether these are all that there are.
    pub is_whole: bool,
    /// Why there are none, if they could not be read.
    pub unread: Option<String>,
}

/// The keys of a table, about how many rows it has, the conditions of its indexes on a part of them, and
/// the tables that refer to it.
pub struct Keys {
    pub keys: Vec<Vec<String>>,
    pub rows: Option<u64>,
    pub parts: Vec<String>,
    pub referenced_by: Vec<String>,
}

/// An engine that can be explored.
pub trait Explorable: Engine {
    /// The names of all tables that are the user's.
    fn table_names(&mut self) -> Result<Vec<String>>;

    fn listed(&mut self, name: &str) -> Result<Listed>;

    fn keys(&mut self, table: &Listed) -> Result<Keys>;

    /// The beginning of a cell; nothing of what is no text and no number.
    fn glimpse(column: &Column) -> String;

    /// The most frequent values by the planner's statistics, and their share.
    fn statistics(&mut self, _: &Outline, _: &Column) -> Option<Vec<(Value, f64)>> {
        None
    }
}

/// The values of a row, and in which parts of the table it is.
type SampledRow = (Vec<Value>, Vec<bool>);

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

    fn end(&mut self, outline: &Outline, direction: &str) -> Result<Vec<SampledRow>, DbError> {
        let parts = outline.parts.iter().map(|it| format!("coalesce(({it}), false)"));
        let columns: Vec<_> = outline.columns.iter().map(E::glimpse).chain(parts).collect();
        let order = outline.keys.first().map(|key| {
            let terms: Vec<_> = key.iter().map(|it| format!("{} {direction}", quote(it))).collect();
            format!(" ORDER BY {}", terms.join(", "))
        });
        let sql = format!(
            "SELECT {} FROM {}{} LIMIT {ROWS}",
            columns.join(", "),
            outline.sql,
            order.unwrap_or_default()
        );
        let all = &outline.columns;
        self.read(&sql, |row| {
            let values = all.iter().zip(0..).map(|(it, index)| row.value(it, index)).collect();
            (values, (all.len()..columns.len()).map(|index| row.truth(index)).collect())
        })
    }
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
        let Keys { keys, rows, parts, referenced_by } = self.0.keys(&listed)?;
        let Listed { name, sql, columns, .. } = listed;
        let prefix = name.trim_end_matches(|c| c != '_');
        let is_sister = |it: &String| !prefix.is_empty() && it.starts_with(prefix) && *it != name;
        let sisters = self.0.table_names()?.into_iter().filter(is_sister);
        let related = referenced_by.into_iter().chain(sisters).collect();
        Ok(Outline { name, sql, columns, keys, rows, parts, related })
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
        let (rows, parts) = rows.into_iter().unzip();
        Sample { rows, parts, is_whole, unread: None }
    }

    fn values(&mut self, outline: &Outline, column: &Column) -> Option<Vec<(Value, u64)>> {
        let of_many = outline.rows.filter(|rows| *rows > COUNTED);
        if let Some((rows, shares)) = of_many.zip(self.0.statistics(outline, column)) {
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of a count that is an estimate itself"
            )]
            let count = |share: f64| (share * rows as f64) as u64;
            return Some(shares.into_iter().map(|(value, share)| (value, count(share))).collect());
        }
        let sql = format!(
            "SELECT {}, count(*) FROM {} GROUP BY 1 ORDER BY 2 DESC LIMIT {}",
            E::glimpse(column),
            outline.sql,
            VALUES + 1
        );
        let counted = self.read(&sql, |row| (row.value(column, 0), row.count(1))).ok()?;
        (counted.len() <= VALUES).then_some(counted)
    }
}
