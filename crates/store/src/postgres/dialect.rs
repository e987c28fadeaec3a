//! Names, values and dates in PostgreSQL. Values are transferred as text, so that unknown types work, too.

use std::ops::RangeInclusive;

use backlog_schedule::{DAY, Instant, MOST_PHASE, Order, Status, Value, WRITABLE, Window};
use serde::de::IgnoredAny;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::sql::{EVERY, NEVER, by_count, number_has_phase};
use crate::table::{Cell, Cells, Column, ColumnType, Dialect, Table, quote};

#[derive(Debug, Clone)]
pub enum Param {
    Text(Option<String>),
    Texts(Vec<Option<String>>),
    Integers(Vec<i64>),
}

impl Param {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Some(text.into()))
    }

    pub fn texts(texts: impl IntoIterator<Item: Into<String>>) -> Self {
        Self::Texts(texts.into_iter().map(|text| Some(text.into())).collect())
    }

    pub fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Self::Text(text) => (text, Type::TEXT),
            Self::Texts(texts) => (texts, Type::TEXT_ARRAY),
            Self::Integers(integers) => (integers, Type::INT8_ARRAY),
        }
    }
}

pub struct Request {
    pub sql: String,
    pub params: Vec<Param>,
}

pub struct Postgres;

impl Dialect for Postgres {
    /// Untyped: the server gives it the type of the other operand.
    fn literal(&self, value: &Value) -> String {
        param(value).map_or_else(|| "NULL".into(), |text| quoted(&text))
    }

    /// As text, from which a cast makes the same value again. Times have JSON's format.
    fn cell(&self, column: &Column) -> String {
        let name = column.sql();
        if matches!(column.column_type, ColumnType::Instant | ColumnType::LocalTime) {
            format!("(pg_catalog.to_json({name}) #>> '{{}}')")
        } else {
            format!("{name}::text")
        }
    }

    fn selected(&self, column: &Column, place: usize) -> String {
        format!("{} AS \"backlog {place}\"", self.cell(column))
    }

    fn prefix(&self, column: &Column, chars: usize) -> String {
        format!("pg_catalog.left({}, {chars}) AS \"backlog beginning\"", self.cell(column))
    }

    fn truncated(&self, column: &Column, chars: usize) -> String {
        let cell = self.cell(column);
        if column.column_type == ColumnType::Text {
            format!("pg_catalog.left({cell}, {chars})")
        } else {
            cell
        }
    }

    fn bind(&self, number: usize, column: &Column) -> String {
        format!("${number}::text::{}", column.declared)
    }

    fn typed(&self, literal: &str, column: &Column) -> String {
        format!("{literal}::{}", column.declared)
    }

    fn within(&self, table: &Table, window: &Window, _: Order) -> Vec<String> {
        vec![match window {
            Window::All => EVERY.into(),
            Window::Inserted { .. } | Window::Slots(_) => window
                .inserted()
                .map_or_else(|| EVERY.into(), |(from, until)| inserted(table, from, until)),
            Window::Failed { before, future } => failed(table, before, *future),
        }]
    }

    /// Includes NULL, so that the reader reports rows without an id.
    fn has_phase(&self, id: &Column, phases: &RangeInclusive<u32>) -> Option<String> {
        let has = if id.column_type == ColumnType::Integer {
            number_has_phase(&format!("{}::bigint", id.sql()), phases)
        } else if matches!(id.column_type, ColumnType::Text | ColumnType::Any) {
            text_has_phase(&self.cell(id), phases)
        } else {
            return None;
        };
        Some(if id.not_null { format!("({has})") } else { format!("({has}) IS NOT FALSE") })
    }

    fn undated(&self, table: &Table, window: &Window) -> Vec<String> {
        let column = table.inserted.sql();
        vec![match (table.inserted.column_type, window) {
            (ColumnType::Instant | ColumnType::LocalTime, _) => {
                format!("{} IS NOT TRUE", is_readable(&column))
            }
            (_, window) => match window.inserted() {
                Some((from, until)) => {
                    format!("NOT coalesce({}, false)", inserted(table, from, until))
                }
                None => NEVER.into(),
            },
        }]
    }

    /// `None` for a time zone with rules, which the server may not know.
    fn inserted_at(&self, table: &Table) -> Option<String> {
        let column = table.inserted.sql();
        let at = match (table.inserted.column_type, table.dates.zone.fixed_secs()) {
            (ColumnType::Instant, _) => column.clone(),
            (ColumnType::LocalTime, Some(ahead)) => {
                format!("({column}::timestamp AT TIME ZONE INTERVAL '{ahead} seconds')")
            }
            _ => return None,
        };
        Some(format!("CASE WHEN {} THEN {at} END", is_readable(&column)))
    }

    fn instant(&self, at: Instant) -> String {
        quoted(&at.to_string())
    }

    fn is_null_last(&self, order: Order) -> bool {
        order == Order::Oldest
    }

    fn needs_verbatim_condition(&self) -> bool {
        false
    }
}

/// Returns a condition for the hash of a text. Each comparison hashes the text, so the more selective one is first.
fn text_has_phase(text: &str, phases: &RangeInclusive<u32>) -> String {
    let (first, last) = (*phases.start(), *phases.end());
    let hash = format!("pg_catalog.sha256(pg_catalog.convert_to({text}, 'UTF8'))");
    let from = format!("{hash} >= '\\x{:08x}'", first << 1);
    let to = format!("{hash} < '\\x{:08x}'", (u64::from(last) + 1) << 1);
    match (last == MOST_PHASE, MOST_PHASE - last < first) {
        (true, _) => from,
        (false, true) => format!("{from} AND {to}"),
        (false, false) => format!("{to} AND {from}"),
    }
}

/// Returns a condition for a time in the years 1 to 9999, which can be parsed.
fn is_readable(column: &str) -> String {
    format!("({column} >= '0001-01-01' AND {column} < '10000-01-01')")
}

/// Returns a text as an SQL literal, for any setting of `standard_conforming_strings`.
fn quoted(text: &str) -> String {
    let text = text.replace('\'', "''");
    if text.contains('\\') {
        format!("E'{}'", text.replace('\\', "\\\\"))
    } else {
        format!("'{text}'")
    }
}

/// Returns a value as text that a cast turns into the value.
pub fn param(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Blob(_) => Some(format!("\\x{value}")),
        // No column can hold NUL.
        Value::Text(text) => Some(text.replace('\0', "")),
        Value::Integer(_)
        | Value::Real(_)
        | Value::Bytes(_)
        | Value::Boolean(_)
        | Value::Json(_) => Some(value.to_string()),
    }
}

/// Returns a condition for at least the rows that were inserted in a window.
fn inserted(table: &Table, from: Instant, until: Option<Instant>) -> String {
    let column = table.inserted.sql();
    let between = |from: Instant, until: Option<Instant>, format: fn(&Instant) -> String| {
        let bounds = [(">=", Some(from)), ("<", until)].into_iter();
        let terms = bounds.filter_map(|(cmp, at)| {
            let at = at.filter(|at| WRITABLE.contains(&at.0))?;
            Some(format!("{column} {cmp} {}", quoted(&format(&at))))
        });
        // A window with a lower bound leaves unreadable times to [`Dialect::undated`].
        let readable = WRITABLE.contains(&from.0).then(|| is_readable(&column));
        let terms = terms.chain(readable).collect::<Vec<_>>().join(" AND ");
        if terms.is_empty() { "true".into() } else { terms }
    };
    match table.inserted.column_type {
        ColumnType::Instant => between(from, until, Instant::to_string),
        // A day wider on either side, because local time differs from UTC.
        ColumnType::LocalTime => {
            let day = |at: Instant, days: i64| at.saturating_add(days * DAY);
            between(day(from, -1), until.map(|until| day(until, 2)), Instant::date)
        }
        ColumnType::Integer | ColumnType::Real | ColumnType::Decimal | ColumnType::Text => {
            let is_text = table.inserted.column_type == ColumnType::Text;
            // As bytes, independent of the column's collation.
            let column = format!("{column}{}", if is_text { " COLLATE \"C\"" } else { "" });
            // The server refuses to compare a column with a value beyond its type.
            let bound = |cmp: &str, value: &Value| {
                let fits = !table.inserted.is_too_small_for(value);
                fits.then(|| format!("{column} {cmp} {}", Postgres.literal(value)))
            };
            let ranges = table.dates.value_ranges(from, until).into_iter();
            let ranges = ranges.filter(|range| range.is_text == is_text);
            let terms = ranges.filter_map(|range| {
                let from = bound(">=", &range.from)?;
                Some(match bound("<", &range.to) {
                    Some(to) => format!("{from} AND {to}"),
                    None => from,
                })
            });
            let terms: Vec<_> = terms.collect();
            if terms.is_empty() { "false".into() } else { format!("({})", terms.join(" OR ")) }
        }
        ColumnType::Any => "true".into(),
        ColumnType::Boolean | ColumnType::Json | ColumnType::Bytes => "false".into(),
    }
}

/// Returns a condition for at least the rows that can be due by their count of failures.
fn failed(table: &Table, before: &[Instant], future: Instant) -> String {
    let (Some(failures), Some(last_failure)) = (&table.failures, &table.last_failure) else {
        return EVERY.into();
    };
    let can_compare = last_failure.column_type == ColumnType::Instant
        && failures.column_type == ColumnType::Integer;
    if !can_compare || before.is_empty() {
        return EVERY.into();
    }
    let (count, at) = (quote(&failures.name), quote(&last_failure.name));
    let literal = |at: &Instant| {
        let at = Instant(at.0.clamp(*WRITABLE.start(), *WRITABLE.end()));
        format!("{}::timestamptz", quoted(&at.to_string()))
    };
    let bounds: Vec<_> = before.iter().map(literal).collect();
    let bound = by_count(&count, &format!("{count} < 1"), &bounds);
    let new = table.statuses.distinguish_failed().then(|| table.status_in(&[Status::New]));
    let new = new.map_or_else(String::new, |new| format!("{new} OR "));
    format!(
        "({new}{count} IS NULL OR {at} IS NULL OR {at} < {bound} OR {at} >= {})",
        literal(&future)
    )
}

/// Returns the number of the change or id that a row belongs to.
pub fn number(row: &Row, index: usize) -> Option<usize> {
    usize::try_from(row.count(index)).ok()
}

impl Cells for Row {
    fn cell(&self, column: &Column, index: usize) -> Cell<'_> {
        match self.get(index) {
            Some(text) if column.column_type.is_text() => Ok(text),
            text => Err(value(column, text)),
        }
    }

    fn number(&self, index: usize) -> Option<i64> {
        self.get(index)
    }

    fn truth(&self, index: usize) -> bool {
        self.get(index)
    }
}

pub fn value(column: &Column, text: Option<&str>) -> Value {
    let Some(text) = text else { return Value::Null };
    let number = || text.parse().ok().map(Value::Integer);
    // NaN is not JSON.
    let is_json = || serde_json::from_str::<IgnoredAny>(text).is_ok();
    let json = || is_json().then(|| Value::Json(text.into()));
    let held = match column.column_type {
        ColumnType::Integer => number(),
        ColumnType::Decimal => number().or_else(json),
        ColumnType::Real => {
            text.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Real)
        }
        ColumnType::Boolean => Some(Value::Boolean(text == "true")),
        ColumnType::Json => json(),
        ColumnType::Bytes => bytes(text).map(Value::Blob),
        ColumnType::Text | ColumnType::Instant | ColumnType::LocalTime | ColumnType::Any => None,
    };
    held.unwrap_or_else(|| Value::Text(text.into()))
}

/// Parses bytes in the server's format, `\x00ff`.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?;
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_break_out_of_their_quotes() {
        assert_eq!(quoted("it's '; --"), "'it''s ''; --'");
        assert_eq!(quoted(r"\'; --"), r"E'\\''; --'");
    }

    #[test]
    fn bytes_come_back_as_they_were() {
        let bytes = Value::Blob(vec![0, 15, 255]);
        let text = param(&bytes).unwrap();
        assert_eq!(text, "\\x000FFF");
        assert_eq!(super::bytes(&text), Some(vec![0, 15, 255]));
        assert_eq!(super::bytes("\\x0"), None);
    }
}
