//! Exploration of a database without a mapping, for `adopt`. It writes nothing, and interrupts reads of rows after 1 s.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use backlog_schedule::Value;

use super::engine::Engine;
use super::error::DbError;
use super::table::{CatalogTable, Cells, Column, ColumnType, joined, quote};
use super::tokens::{identifiers, tokens};

const TIME_LIMIT: Duration = Duration::from_secs(1);
/// Rows to read from each end of a table.
const ROWS: usize = 1_000;
/// Maximum number of distinct values of a column whose values are counted.
const MOST_VALUES: usize = 20;
/// Number of rows above which values are counted in a sample.
const COUNTED: u64 = 200_000;
/// Number of rows from each end of the table in that sample.
const SAMPLED: usize = 10_000;

pub trait Explore {
    fn label(&self) -> String;

    fn tables(&mut self) -> Result<Vec<CatalogTable>>;

    fn outline(&mut self, name: &str) -> Result<Outline>;
}

pub struct Outline {
    pub name: String,
    pub sql: String,
    pub columns: Vec<Explored>,
    pub keys: Vec<Vec<String>>,
    /// Other tables whose names have the same prefix.
    pub sisters: Vec<String>,
    /// Values are counted in a sample of the rows.
    pub is_large: bool,
    /// Number of rows that were read, from the beginning and then from the end of its key.
    pub rows: usize,
    pub is_whole: bool,
    /// The error if no row could be read.
    pub unread: Option<String>,
}

pub struct Explored {
    pub column: Column,
    pub cells: Vec<Value>,
    /// The values of a column with at most [`MOST_VALUES`] of them, the most frequent first. Then come the values named
    /// by its type, its CHECK constraints or its default. Empty if counting takes too long.
    pub values: Vec<ValueCount>,
}

pub struct ValueCount {
    pub value: Value,
    pub rows: u64,
    /// A CHECK constraint refuses it.
    pub is_refused: bool,
}

impl ValueCount {
    pub fn is_truth(&self) -> bool {
        matches!(self.value, Value::Null | Value::Boolean(_) | Value::Integer(0 | 1))
    }
}

pub struct TableKeys {
    /// The columns of each unique key without NULL, the primary key first.
    pub unique: Vec<Vec<String>>,
    /// Estimated number of rows, if the database has one.
    pub rows: Option<u64>,
    pub checks: Vec<String>,
}

impl TableKeys {
    fn is_large(&self) -> bool {
        self.rows.is_some_and(|rows| rows > COUNTED)
    }

    fn end(&self, table: &CatalogTable, columns: &str, direction: &str, rows: usize) -> String {
        let order = self.unique.first().map_or_else(String::new, |key| {
            let terms = key.iter().map(|name| format!("{} {direction}", quote(name)));
            format!(" ORDER BY {}", joined(terms, ", "))
        });
        format!("SELECT {columns} FROM {}{order} LIMIT {rows}", table.sql)
    }

    fn counted(&self, table: &CatalogTable, glimpse: &str) -> String {
        // With the key, UNION drops rows that are in both samples.
        let key = self.unique.first().into_iter().flatten().zip(0..);
        let key: String = key.map(|(name, at)| format!(", {} AS k{at}", quote(name))).collect();
        let value = format!("{glimpse} AS v{key}");
        let end = |direction| self.end(table, &value, direction, SAMPLED);
        let rows = match (self.is_large(), key.is_empty()) {
            (false, _) => format!("SELECT {value} FROM {}", table.sql),
            (true, true) => end("ASC"),
            (true, false) => format!(
                "SELECT * FROM ({}) AS a UNION SELECT * FROM ({}) AS b",
                end("ASC"),
                end("DESC")
            ),
        };
        let most = MOST_VALUES + 1;
        format!("SELECT v, count(*) FROM ({rows}) AS r GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {most}")
    }
}

pub trait Explorable: Engine {
    fn table_names(&mut self) -> Result<Vec<String>>;

    fn listed(&mut self, name: &str) -> Result<CatalogTable>;

    fn keys(&mut self, table: &CatalogTable) -> Result<TableKeys>;

    /// The beginning of a cell in SQL, or NULL for binary data.
    fn glimpse(column: &Column) -> String;
}

pub struct Explorer<E>(pub E);

impl<E: Explorable> Explore for Explorer<E> {
    fn label(&self) -> String {
        self.0.label()
    }

    fn tables(&mut self) -> Result<Vec<CatalogTable>> {
        self.0.table_names()?.iter().map(|name| self.0.listed(name)).collect()
    }

    fn outline(&mut self, name: &str) -> Result<Outline> {
        let table = self.0.listed(name)?;
        let keys = self.0.keys(&table)?;
        let prefix = table.name.trim_end_matches(|c| c != '_');
        let mut sisters = self.0.table_names()?;
        sisters
            .retain(|name| !prefix.is_empty() && name.starts_with(prefix) && *name != table.name);
        let glimpses: Vec<_> = table.columns.iter().map(E::glimpse).collect();
        let ends = ["ASC", "DESC"].map(|direction| {
            let sql = keys.end(&table, &glimpses.join(", "), direction, ROWS);
            self.read(&sql, |row| {
                table.columns.iter().zip(0..).map(|(column, at)| row.value(column, at)).collect()
            })
        });
        let (rows, unread) = match ends {
            [Ok(rows), Ok(last)] if rows.len() == ROWS && !keys.unique.is_empty() => {
                (rows.into_iter().chain(last.into_iter().rev()).collect::<Vec<Vec<_>>>(), None)
            }
            [Ok(rows), Ok(_)] => (rows, None),
            [Err(error), _] | [_, Err(error)] => (Vec::new(), Some(error.message)),
        };
        let columns = table.columns.iter().enumerate().map(|(at, column)| Explored {
            column: column.clone(),
            cells: rows.iter().filter_map(|row| row.get(at).cloned()).collect(),
            values: self.values(&table, &keys, column),
        });
        Ok(Outline {
            columns: columns.collect(),
            sisters,
            is_large: keys.is_large(),
            rows: rows.len(),
            is_whole: rows.len() < ROWS,
            unread,
            keys: keys.unique,
            name: table.name,
            sql: table.sql,
        })
    }
}

impl<E: Explorable> Explorer<E> {
    fn read<T>(
        &mut self,
        sql: &str,
        row: impl FnMut(&E::ResultRow<'_>) -> T + Send,
    ) -> Result<Vec<T>, DbError> {
        let mut interrupt = self.0.interrupter();
        let (done, is_done) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                while is_done.recv_timeout(TIME_LIMIT) == Err(RecvTimeoutError::Timeout) {
                    interrupt();
                }
            });
            let read = self.0.all(sql, &[], row);
            drop(done);
            read
        })
    }

    fn values(
        &mut self,
        table: &CatalogTable,
        keys: &TableKeys,
        column: &Column,
    ) -> Vec<ValueCount> {
        let is_key = keys.unique.iter().any(|key| key[..] == [column.name.clone()]);
        if matches!(column.column_type, ColumnType::Json | ColumnType::Bytes) || is_key {
            return Vec::new();
        }
        let counted = keys.counted(table, &E::glimpse(column));
        let counted = self.read(&counted, |row| (row.value(column, 0), row.count(1)));
        let Some(mut values) = counted.ok().filter(|values| values.len() <= MOST_VALUES) else {
            return Vec::new();
        };
        let checks: Vec<_> =
            keys.checks.iter().filter(|check| reads_only(check, table, column)).collect();
        let check_labels = checks.iter().flat_map(|check| literals(check));
        let labels = column.allowed_values.iter().flatten().cloned().chain(check_labels);
        let labels = labels.chain(column.default.iter().flat_map(|default| literals(default)));
        let labels = labels.map(Value::Text).filter(|_| column.column_type.is_text());
        let is_flag = column.declared.to_ascii_uppercase().starts_with("BOOL");
        let truths = match values.first().filter(|_| is_flag) {
            Some((Value::Integer(_), _)) => vec![Value::Integer(0), Value::Integer(1)],
            Some(_) => vec![Value::Boolean(false), Value::Boolean(true)],
            None => Vec::new(),
        };
        for label in labels.chain(truths).collect::<Vec<_>>() {
            if values.iter().all(|(value, _)| *value != label) {
                values.push((label, 0));
            }
        }
        let values = values.into_iter().map(|(value, rows)| {
            let is_refused = checks.iter().any(|check| self.refuses(check, column, &value));
            ValueCount { value, rows, is_refused }
        });
        values.filter(|counted| counted.rows > 0 || !counted.is_refused).collect()
    }

    fn refuses(&mut self, check: &str, column: &Column, value: &Value) -> bool {
        let Value::Text(text) = value else { return false };
        let literal = format!("'{}'", text.replace('\'', "''"));
        let name = quote(&column.name);
        let sql = format!(
            "SELECT coalesce(NOT ({check}), false) FROM (SELECT {literal} AS {name}) AS one"
        );
        self.read(&sql, |row| row.truth(0)).is_ok_and(|refused| refused == [true])
    }
}

fn reads_only(check: &str, table: &CatalogTable, column: &Column) -> bool {
    let read = identifiers(check);
    let is_read = |other: &Column| read.iter().any(|name| name.eq_ignore_ascii_case(&other.name));
    table.columns.iter().all(|other| is_read(other) == (other.name == column.name))
}

fn literals(sql: &str) -> impl Iterator<Item = String> {
    let texts = tokens(sql).into_iter().map(|token| token.text);
    let texts = texts.filter_map(|text| text.strip_prefix('\'')?.strip_suffix('\''));
    texts.map(|text| text.replace("''", "'"))
}
