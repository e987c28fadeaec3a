//! Names, values and dates in SQLite. A column may hold numbers and text, so a search for dates reads several ranges.

use std::ops::RangeInclusive;

use backlog_schedule::{Instant, Order, Query, Value, Window};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Params, Row, params_from_iter};

use crate::clauses::Clauses;
use crate::date::{Format, ValueRange};
use crate::sql::{EVERY, due_params, number_has_phase};
use crate::table::{
    Cell, Cells, Column, ColumnType, Dialect, Table, Term, TermRole, WriteVerb, names, quote,
};

/// Maximum size of a last error that is read to be shown, in bytes.
const LONGEST_READ: usize = 1 << 20;

pub struct Sqlite;

impl Dialect for Sqlite {
    fn literal(&self, value: &Value) -> String {
        match value {
            Value::Null => "NULL".into(),
            Value::Integer(number) => number.to_string(),
            Value::Real(number) => format!("{number:?}"),
            Value::Text(text) | Value::Json(text) => format!("'{}'", text.replace('\'', "''")),
            Value::Bytes(bytes) => format!("CAST(x'{}' AS TEXT)", Value::Blob(bytes.clone())),
            Value::Blob(_) => format!("x'{value}'"),
            Value::Boolean(truth) => i64::from(*truth).to_string(),
        }
    }

    fn cell(&self, column: &Column) -> String {
        column.sql()
    }

    fn exact(&self, column: &Column) -> String {
        format!("{} COLLATE BINARY", column.sql())
    }

    /// To cut an error SQLite reads all of it, so a huge one is replaced by its length.
    fn prefix(&self, column: &Column, chars: usize) -> String {
        let column = quote(&column.name);
        format!(
            "CASE WHEN octet_length({column}) > {LONGEST_READ} \
             THEN '(' || octet_length({column}) || ' bytes, too long to be shown)' \
             ELSE substr({column}, 1, {chars}) END"
        )
    }

    fn truncated(&self, column: &Column, chars: usize) -> String {
        let column = column.sql();
        format!(
            "CASE WHEN octet_length({column}) > {chars} THEN substr({column}, 1, {chars}) ELSE {column} END"
        )
    }

    fn bind(&self, number: usize, _: &Column) -> String {
        format!("?{number}")
    }

    fn typed(&self, literal: &str, _: &Column) -> String {
        literal.into()
    }

    fn within(&self, table: &Table, window: &Window, order: Order) -> Vec<String> {
        let Some((from, until)) = window.inserted() else { return vec![EVERY.into()] };
        let mut ranges = table.dates.value_ranges(from, until);
        ranges.retain(|range| range.is_text || can_hold_numbers(&table.inserted));
        if order == Order::Oldest {
            ranges.reverse();
        }
        let column = table.inserted.sql();
        let conditions: Vec<_> = ranges.iter().map(|range| in_range(&column, range)).collect();
        // In the order of another column, the ranges are mixed, so one statement reads them all.
        if order == Order::Column && conditions.len() > 1 {
            return vec![format!("({})", conditions.join(" OR "))];
        }
        conditions
    }

    /// Only for integers: the program hashes text as fast. Columns other than row numbers can hold any value.
    fn has_phase(&self, id: &Column, phases: &RangeInclusive<u32>) -> Option<String> {
        let column = id.sql();
        let has =
            (id.column_type == ColumnType::Integer).then(|| number_has_phase(&column, phases))?;
        Some(match id.is_row_number {
            true => has,
            false => format!("({has}) IS NOT FALSE OR {column} IS NOT CAST({column} AS INTEGER)"),
        })
    }

    /// Ranges of NULL, text without a plausible year and blobs, and numbers out of range.
    fn undated(&self, table: &Table, _: &Window) -> Vec<String> {
        let column = table.inserted.sql();
        let mut ranges = vec![
            format!("{column} IS NULL"),
            // All blobs sort after text.
            format!("{column} >= ':'"),
            format!("{column} >= '' AND {column} < '1970-'"),
        ];
        if can_hold_numbers(&table.inserted) {
            let mut lower = String::new();
            for numbers in table.dates.numbers().map(Format::range) {
                ranges.push(format!("{lower}{column} < {}", numbers.start));
                lower = format!("{column} >= {} AND ", numbers.end);
            }
            ranges.push(format!("{lower}{column} < ''"));
        }
        let is_none = format!("backlog_instant({column}) IS NULL");
        ranges.iter().map(|range| format!("{range} AND {is_none}")).collect()
    }

    fn inserted_at(&self, table: &Table) -> Option<String> {
        Some(format!("backlog_instant({})", table.inserted.sql()))
    }

    fn instant(&self, at: Instant) -> String {
        at.0.to_string()
    }

    fn is_null_last(&self, order: Order) -> bool {
        order == Order::Newest
    }

    fn needs_verbatim_condition(&self) -> bool {
        true
    }
}

/// Returns a condition that an index on the column can serve. Numbers sort below text.
fn in_range(column: &str, range: &ValueRange) -> String {
    let (from, to) = (Sqlite.literal(&range.from), Sqlite.literal(&range.to));
    let types = if range.is_text { "= 'text'" } else { "IN ('integer', 'real')" };
    format!("{column} >= {from} AND {column} < {to} AND typeof({column}) {types}")
}

/// A column of text converts numbers to text.
fn can_hold_numbers(column: &Column) -> bool {
    column.column_type != ColumnType::Text
}

pub fn bound<'a>(values: impl IntoIterator<Item = &'a Value>) -> impl Params {
    params_from_iter(values.into_iter().map(|value| {
        ToSqlOutput::Borrowed(match value {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) | Value::Json(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Text(bytes),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
            Value::Boolean(truth) => ValueRef::Integer((*truth).into()),
        })
    }))
}

pub fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(bytes) => Value::from_text(bytes),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

impl Cells for Row<'_> {
    fn cell(&self, _: &Column, index: usize) -> Cell<'_> {
        // Every statement selects the columns that are read.
        let found = self.get_ref(index).unwrap_or(ValueRef::Null);
        found.as_str().map_err(|_| value(found))
    }

    fn number(&self, index: usize) -> Option<i64> {
        self.get(index).unwrap_or_default()
    }

    fn truth(&self, index: usize) -> bool {
        self.get(index).unwrap_or_default()
    }
}

/// Sets `shape` to a key of the statement of these terms.
pub fn shape(shape: &mut String, verb: WriteVerb, terms: &[Term<'_>]) {
    shape.clear();
    shape.push(verb.shape());
    terms.iter().for_each(|term| term.shape(shape));
}

pub fn params<'a>(terms: &'a [Term<'_>]) -> impl Iterator<Item = &'a Value> {
    let own = terms.iter().filter(|term| !matches!(term.role, TermRole::Grow(_)));
    own.map(|term| term.value.as_ref())
}

/// Returns a statement that writes one row, unless somebody else has changed it.
pub fn write(table: &Table, verb: WriteVerb, terms: &[Term<'_>], or_abort: bool) -> String {
    let (name, clauses) = (&table.sql, clauses(table, terms));
    let begin = match verb {
        WriteVerb::Update if or_abort => {
            format!("UPDATE OR ABORT {name} SET {}", clauses.sets.join(", "))
        }
        WriteVerb::Update => format!("UPDATE {name} SET {}", clauses.sets.join(", ")),
        WriteVerb::Delete => format!("DELETE FROM {name}"),
        WriteVerb::Select => format!("SELECT 1 FROM {name}"),
    };
    format!("{begin} WHERE {}", clauses.condition())
}

/// Returns a query for the guards of one row, and for two truth values: as expected, and already written.
pub fn state(table: &Table, terms: &[Term<'_>]) -> String {
    let clauses = clauses(table, terms);
    let columns = names(table.guard_columns());
    let columns = if columns.is_empty() { columns } else { columns + ", " };
    let [guards, written, has_id] = [clauses.is_expected(), clauses.is_written(), clauses.has_id()];
    format!("SELECT {columns}{guards}, {written} FROM {} WHERE {has_id}", table.sql)
}

/// The clauses of a statement about one row, whose parameters have the numbers of their terms.
fn clauses(table: &Table, terms: &[Term<'_>]) -> Clauses {
    let status = table.statuses.column.as_ref().map(|column| &column.name);
    let (mut clauses, mut number) = (Clauses::default(), 0);
    for term in terms {
        let value = || {
            number += 1;
            format!("?{number}")
        };
        // A status is compared with the affinity of its column, other values without.
        clauses.add(term, "", value, |column, value| match Some(&term.column.name) == status {
            true => format!("{column} IS {value}"),
            false => format!("backlog_value({column}) IS {value}"),
        });
    }
    clauses
}

/// Returns a search of one row, whose rowid is the last parameter.
pub fn due_by_row_number(table: &Table, query: &Query) -> String {
    format!(
        "SELECT {} FROM {} NOT INDEXED WHERE rowid = ?{} AND {}{}",
        table.facts(&query.window),
        table.sql,
        due_params(query).len() + 1,
        table.due_rows(&query.statuses),
        table.bounds(query),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    use crate::clock::Clock;
    use crate::mapping::Mapping;
    use crate::sql::recent;
    use backlog_schedule::{DAY, Status};

    fn table(connection: &mut Connection) -> Table {
        connection.execute_batch(include_str!("../../../../schema.sql")).unwrap();
        Table::find(connection, &Mapping::default(), Clock::at(Instant(0))).unwrap()
    }

    fn plan(connection: &Connection, sql: &str) -> String {
        let sql = format!("EXPLAIN QUERY PLAN {sql}");
        let mut statement = connection.prepare(&sql).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(3)).unwrap();
        rows.collect::<Result<Vec<_>, _>>().unwrap().join("\n")
    }

    fn connection() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        let flags = rusqlite::functions::FunctionFlags::SQLITE_DETERMINISTIC;
        connection.create_scalar_function("backlog_instant", 1, flags, |_| Ok(0)).unwrap();
        connection
    }

    #[test]
    fn the_index_on_pending_rows_serves_every_selection_without_sorting() {
        let mut connection = connection();
        let table = table(&mut connection);
        let now = Instant(1_795_232_400);
        let windows = [
            Window::Inserted { from: now.saturating_sub(DAY), until: None },
            Window::Inserted { from: now.saturating_sub(DAY), until: Some(now) },
            Window::All,
        ];
        for window in windows {
            for order in [Order::Newest, Order::Oldest] {
                for statuses in [&Status::PENDING[..], &Status::PENDING[..1]] {
                    let selection = Query {
                        window: window.clone(),
                        statuses: statuses.to_vec(),
                        order,
                        after: None,
                        up_to: None,
                        limit: 10,
                    };
                    for sql in table.due(&selection) {
                        let plan = plan(&connection, &sql);
                        assert!(plan.contains("BACKLOG_PENDING"), "{sql}\n{plan}");
                        assert!(!plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_search_for_undated_rows_never_scans_the_table() {
        let mut connection = connection();
        // The column may be NULL; otherwise SQLite would skip the search.
        let schema = include_str!("../../../../schema.sql").replace("TEXT NOT NULL", "TEXT");
        connection.execute_batch(&schema).unwrap();
        let table =
            Table::find(&mut connection, &Mapping::default(), Clock::at(Instant(0))).unwrap();
        let plan = plan(&connection, &table.undated(&recent()));
        assert_eq!(
            plan.matches("SEARCH BACKLOG USING COVERING INDEX BACKLOG_PENDING").count(),
            3,
            "{plan}"
        );
    }

    #[test]
    fn values_cannot_break_out_of_their_quotes() {
        let text = |text: &str| Sqlite.literal(&Value::Text(text.into()));
        assert_eq!(text("it's '; --"), "'it''s ''; --'");
        assert_eq!(Sqlite.literal(&Value::Integer(i64::MIN)), "-9223372036854775808");
        assert_eq!(Sqlite.literal(&Value::Bytes(b"'\xff".into())), "CAST(x'27FF' AS TEXT)");
    }
}
