//! The SQL of the SQLite store, all of it. Names are quoted. Values are bound, except for
//! what the program itself makes, statuses and reckoned instants: those are literals, because
//! SQLite serves only literals from the partial index on pending rows.

use rusqlite::types::Value as Param;

use super::table::Table;
use super::{id_param, param};
use crate::instant::{DAY, EPOCH_MS, EPOCH_SECS, Instant};
use crate::record::Status;
use crate::selection::{Order, Selection, Window};

/// A name as SQL.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn status_in(table: &Table, statuses: &[Status]) -> String {
    let names: Vec<_> = statuses.iter().map(|status| format!("'{}'", status.name())).collect();
    format!("{} IN ({})", quote(&table.status.name), names.join(", "))
}

/// The very text of the partial index's condition, which SQLite looks for.
fn pending(table: &Table) -> String {
    status_in(table, &Status::PENDING)
}

fn order_by(table: &Table, order: Order) -> String {
    let direction = match order {
        Order::Newest => "DESC",
        Order::Oldest => "ASC",
    };
    let (inserted, id) = (quote(&table.inserted.name), quote(&table.id.name));
    format!("ORDER BY {inserted} {direction}, {id} {direction}")
}

/// The ids and dates of the records that can be due: one statement for each stretch of the
/// date column that can hold them, in the order asked for. Each takes a `LIMIT`.
pub fn due(table: &Table, selection: &Selection) -> Vec<String> {
    let conditions = match &selection.window {
        Window::Inserted { from, until } => {
            let mut stretches = stretches(*from, *until);
            if selection.order == Order::Oldest {
                stretches.reverse();
            }
            let inserted = quote(&table.inserted.name);
            let exact = inserted_within(table, *from, *until);
            let stretch = |stretch: &Stretch| format!("{} AND {exact}", stretch.sql(&inserted));
            stretches.iter().map(stretch).collect()
        }
        Window::Failed { before, future } => vec![failed_before(table, before, *future)],
    };
    conditions.iter().map(|condition| ids(table, selection, condition)).collect()
}

fn ids(table: &Table, selection: &Selection, condition: &str) -> String {
    let mut sql = format!(
        "SELECT {}, {} FROM {} WHERE {}",
        quote(&table.id.name),
        quote(&table.inserted.name),
        quote(&table.name),
        pending(table),
    );
    if selection.statuses != Status::PENDING {
        sql += &format!(" AND {}", status_in(table, &selection.statuses));
    }
    sql += &format!(" AND {condition}");
    if selection.after.is_some() {
        sql += &format!(" AND {}", behind(table, selection.order, ":after"));
    }
    if selection.up_to.is_some() {
        sql += &format!(" AND NOT {}", behind(table, selection.order, ":up_to"));
    }
    format!("{sql} {} LIMIT :limit", order_by(table, selection.order))
}

/// The parameters of each statement of [`due`].
pub fn due_params(selection: &Selection, limit: usize) -> Vec<(&'static str, Param)> {
    let mut params = vec![(":limit", Param::Integer(i64::try_from(limit).unwrap_or(i64::MAX)))];
    if let Some(key) = &selection.after {
        params.extend([(":after_date", param(&key.inserted)), (":after_id", id_param(&key.id))]);
    }
    if let Some(key) = &selection.up_to {
        params.extend([(":up_to_date", param(&key.inserted)), (":up_to_id", id_param(&key.id))]);
    }
    params
}

/// Whether a row comes after a key in the order. NULL sorts below everything.
fn behind(table: &Table, order: Order, key: &str) -> String {
    let (date, id) = (quote(&table.inserted.name), quote(&table.id.name));
    let (cmp, null_behind) = match order {
        Order::Newest => ("<", format!("{date} IS NULL AND {key}_date IS NOT NULL")),
        Order::Oldest => (">", format!("{date} IS NOT NULL AND {key}_date IS NULL")),
    };
    format!(
        "coalesce({date} {cmp} {key}_date OR ({null_behind}) \
         OR ({date} IS {key}_date AND {id} {cmp} {key}_id), 0)"
    )
}

/// A stretch of the date column in its own order, which an index on it can serve. Numbers sort
/// below text, so seconds, milliseconds and text lie in stretches of their own.
struct Stretch {
    from: String,
    to: String,
    kinds: &'static str,
}

impl Stretch {
    fn sql(&self, column: &str) -> String {
        let Self { from, to, kinds } = self;
        format!("{column} >= {from} AND {column} < {to} AND typeof({column}) IN ({kinds})")
    }
}

/// The stretches that can hold an instant in the window, newest first as the column sorts. Text
/// is taken a day wider on either side, because its zone may differ from UTC.
fn stretches(from: Instant, until: Option<Instant>) -> Vec<Stretch> {
    let until = until.unwrap_or(Instant(i64::MAX));
    let text = Stretch {
        from: format!("'{}'", text_bound(from.saturating_sub(DAY))),
        // The character after the last digit.
        to: format!("'{}'", text_bound(until.saturating_add(2 * DAY))),
        kinds: "'text'",
    };
    let number = |unit: i64, range: &std::ops::Range<i64>| Stretch {
        from: from.0.saturating_mul(unit).clamp(range.start, range.end).to_string(),
        to: until.0.saturating_mul(unit).clamp(range.start, range.end).to_string(),
        kinds: "'integer', 'real'",
    };
    vec![text, number(1000, &EPOCH_MS), number(1, &EPOCH_SECS)]
}

/// A date that text is compared with; before the year 0 it is what sorts below all digits, after
/// the year 9999 what sorts above them.
fn text_bound(at: Instant) -> String {
    if at.0 < -62_167_219_200 {
        "/".into()
    } else if at.0 > 253_402_300_799 {
        ":".into()
    } else {
        at.date()
    }
}

fn inserted_within(table: &Table, from: Instant, until: Option<Instant>) -> String {
    let at = instant(&table.inserted.name);
    match until {
        Some(until) => format!("{at} >= {} AND {at} < {}", from.0, until.0),
        None => format!("{at} >= {}", from.0),
    }
}

fn instant(column: &str) -> String {
    format!("backlog_instant({})", quote(column))
}

/// The Fibonacci due test: the last failure against one constant for each count of failures.
fn failed_before(table: &Table, before: &[Instant], future: Instant) -> String {
    let (Some(failures), Some(last_failure), Some(longest)) =
        (&table.failures, &table.last_failure, before.last())
    else {
        return "0".into();
    };
    let failures = quote(&failures.name);
    let count = format!(
        "CASE WHEN typeof({failures}) IN ('integer', 'real') THEN CAST({failures} AS INTEGER) ELSE 0 END"
    );
    let arms: String = before
        .iter()
        .enumerate()
        .map(|(index, before)| format!(" WHEN {} THEN {}", index + 1, before.0))
        .collect();
    // BETWEEN is inclusive: waiting is from the bound up to the last second before the future.
    format!(
        "({} = 'NEW' OR coalesce({} NOT BETWEEN CASE max({count}, 1){arms} ELSE {} END AND {}, 1))",
        quote(&table.status.name),
        instant(&last_failure.name),
        longest.0,
        future.0 - 1,
    )
}

/// Pending rows whose date is none: id and date. Looked for where the index shows them at once:
/// NULL, blobs, text that begins with no plausible year, numbers out of range, and in
/// the window itself. What sorts as an old date is left to `status` to report.
pub fn undated(table: &Table, from: Instant, until: Option<Instant>) -> String {
    let column = quote(&table.inserted.name);
    let text = &stretches(from, until)[0];
    let places = [
        format!("{column} IS NULL"),
        format!("{column} >= x''"),
        format!("{column} >= ':' AND {column} < x''"),
        format!("{column} >= '' AND {column} < '1970'"),
        text.sql(&column),
        format!("{column} < {}", EPOCH_SECS.start),
        format!("{column} >= {} AND {column} < {}", EPOCH_SECS.end, EPOCH_MS.start),
        format!("{column} >= {} AND {column} < ''", EPOCH_MS.end),
    ];
    let arm = |place: &String| {
        format!(
            "SELECT {}, {column} FROM {} WHERE {} AND {place} AND {} IS NULL",
            quote(&table.id.name),
            quote(&table.name),
            pending(table),
            instant(&table.inserted.name),
        )
    };
    places.iter().map(arm).collect::<Vec<_>>().join(" UNION ALL ")
}

/// At most two rows with an id: the second shows that the id is not unique.
pub fn by_id(table: &Table) -> String {
    format!("SELECT * FROM {} WHERE {} = ?1 LIMIT 2", quote(&table.name), quote(&table.id.name))
}

/// The one statement that writes to the table; see [`Table::update_values`]. A row
/// whose status is no longer the expected one is left alone, and so is another row that got the
/// id of a deleted one: its insertion date differs.
pub fn update(table: &Table) -> String {
    let columns = std::iter::once(&table.status).chain(table.counter_columns());
    let assignments: Vec<_> =
        columns.map(|column| format!("{} = ?", quote(&column.name))).collect();
    format!(
        "UPDATE {} SET {} WHERE {}",
        quote(&table.name),
        assignments.join(", "),
        as_expected(table)
    )
}

/// Whether the row is still there for [`update`] to change; see [`Table::expected_values`].
pub fn is_as_expected(table: &Table) -> String {
    format!("SELECT 1 FROM {} WHERE {}", quote(&table.name), as_expected(table))
}

fn as_expected(table: &Table) -> String {
    format!(
        "{} = ? AND {} = ? AND backlog_value({}) IS ?",
        quote(&table.id.name),
        quote(&table.status.name),
        quote(&table.inserted.name)
    )
}

pub fn scan(table: &Table, statuses: &[Status], order: Order) -> String {
    let condition = match statuses {
        [] => String::new(),
        statuses => format!(" WHERE {}", status_in(table, statuses)),
    };
    format!("SELECT * FROM {}{condition} {}", quote(&table.name), order_by(table, order))
}

pub fn census(table: &Table, bounds: &[i64], now: Instant) -> String {
    let arms: String = bounds
        .iter()
        .enumerate()
        .map(|(band, bound)| format!(" WHEN at >= {} THEN {band}", now.saturating_sub(*bound).0))
        .collect();
    format!(
        "SELECT status, CASE WHEN at IS NULL THEN NULL{arms} ELSE {} END AS band, count(*) \
         FROM (SELECT {} AS status, {} AS at FROM {}) GROUP BY status, band",
        bounds.len(),
        quote(&table.status.name),
        instant(&table.inserted.name),
        quote(&table.name),
    )
}

/// A new pending record with a payload; the id is the database's to give.
pub fn insert(table: &Table, payload: &str) -> String {
    format!(
        "INSERT INTO {} ({}, {}, {}) VALUES ('NEW', ?1, ?2)",
        quote(&table.name),
        quote(&table.status.name),
        quote(&table.inserted.name),
        quote(payload),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    fn table(connection: &Connection) -> Table {
        connection.execute_batch(include_str!("../../../schema.sql")).unwrap();
        Table::find(connection, "backlog").unwrap()
    }

    fn plan(connection: &Connection, sql: &str) -> String {
        let sql = format!("EXPLAIN QUERY PLAN {}", sql.replace(":limit", "10"));
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
    fn names_cannot_break_out_of_their_quotes() {
        assert_eq!(quote(r#"a"; DROP TABLE b; --"#), r#""a""; DROP TABLE b; --""#);
    }

    #[test]
    fn the_index_on_pending_rows_serves_every_selection_without_sorting() {
        let connection = connection();
        let table = table(&connection);
        let now = Instant(1_795_232_400);
        let windows = [
            Window::Inserted { from: now.saturating_sub(DAY), until: None },
            Window::Inserted { from: now.saturating_sub(DAY), until: Some(now) },
            Window::Failed { before: vec![now], future: now },
        ];
        for window in windows {
            for order in [Order::Newest, Order::Oldest] {
                for statuses in [&Status::PENDING[..], &Status::PENDING[..1]] {
                    let selection = Selection {
                        window: window.clone(),
                        statuses: statuses.to_vec(),
                        order,
                        after: None,
                        up_to: None,
                        limit: 10,
                    };
                    for sql in due(&table, &selection) {
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
        let connection = connection();
        // Where the column may be NULL: elsewhere SQLite knows that it is not, and
        // looks for nothing.
        let schema = include_str!("../../../schema.sql").replace("TEXT NOT NULL", "TEXT");
        connection.execute_batch(&schema).unwrap();
        let table = Table::find(&connection, "backlog").unwrap();
        let now = Instant(1_795_232_400);
        let plan = plan(&connection, &undated(&table, now.saturating_sub(DAY), None));
        assert_eq!(plan.matches("SEARCH BACKLOG USING INDEX BACKLOG_PENDING").count(), 8, "{plan}");
    }
}
