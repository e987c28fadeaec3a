//! The SQL of the SQLite store, all of it. Names are quoted. Values are bound, except for
//! what the program itself makes, statuses and reckoned instants: those are literals, because
//! SQLite serves only literals from the partial index on pending rows.

use rusqlite::types::Value as Param;

use super::table::Table;
use super::{id_param, param};
use crate::instant::{DAY, EPOCH_MS, EPOCH_SECS, Instant, WRITABLE};
use crate::record::Status;
use crate::selection::{Order, Selection, Window};

/// A name as SQL.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub fn status_in(table: &Table, statuses: &[Status]) -> String {
    // One alone is a narrower search than a list of one.
    if let [status] = statuses {
        return format!("{} = '{}'", quote(&table.status.name), status.name());
    }
    let names: Vec<_> = statuses.iter().map(|status| format!("'{}'", status.name())).collect();
    format!("{} IN ({})", quote(&table.status.name), names.join(", "))
}

/// The very text of the partial index's condition, which SQLite looks for.
pub fn pending(table: &Table) -> String {
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

/// What a policy goes by, of the records that can be due, in the order asked for: one statement
/// for each stretch of the date column that can hold them. FAILURES and LAST_FAILURE are among
/// the columns only where the window is about them, so that an index can do without the row.
pub fn due(table: &Table, selection: &Selection) -> Vec<String> {
    let plain = |condition: &str| {
        format!(
            "SELECT {} FROM {} WHERE {}{condition}{}",
            facts(table, &selection.window),
            quote(&table.name),
            statuses(table, &selection.statuses),
            bounds_and_order(table, selection),
        )
    };
    match &selection.window {
        Window::All | Window::Failed { .. } => vec![plain("")],
        Window::Inserted { from, until } => {
            let mut stretches = stretches(*from, *until);
            if selection.order == Order::Oldest {
                stretches.reverse();
            }
            let inserted = quote(&table.inserted.name);
            stretches.iter().map(|it| plain(&format!(" AND {}", it.sql(&inserted)))).collect()
        }
    }
}

/// The columns of [`super::reader`]'s facts.
pub fn facts(table: &Table, window: &Window) -> String {
    let (id, inserted, status) =
        (quote(&table.id.name), quote(&table.inserted.name), quote(&table.status.name));
    let counter = match (window, &table.failures, &table.last_failure) {
        (Window::Failed { .. }, Some(failures), Some(last_failure)) => {
            format!(", {}, {}", quote(&failures.name), quote(&last_failure.name))
        }
        _ => String::new(),
    };
    format!("{id}, {inserted}, {status}{counter}")
}

/// Pending statuses in words that the partial index knows.
fn statuses(table: &Table, statuses: &[Status]) -> String {
    if statuses == Status::PENDING {
        pending(table)
    } else if statuses.iter().all(|status| status.is_pending()) {
        format!("{} AND {}", pending(table), status_in(table, statuses))
    } else {
        status_in(table, statuses)
    }
}

/// Whether there is any row with one of these statuses.
pub fn any(table: &Table, of_statuses: &[Status]) -> String {
    format!("SELECT 1 FROM {} WHERE {} LIMIT 1", quote(&table.name), statuses(table, of_statuses))
}

/// A statement that can be prepared only if the user's condition is one whole expression: where
/// it is closed early and opened again, `1) OR (1`, this is none.
pub fn alone(table: &Table, condition: &str) -> String {
    format!("SELECT CASE WHEN {condition}\nTHEN 1 END FROM {}", quote(&table.name))
}

pub fn bounds_and_order(table: &Table, selection: &Selection) -> String {
    let mut sql = String::new();
    if let Some(condition) = &selection.condition {
        // On a line of its own, so that a comment in it ends there.
        sql += &format!(" AND ({condition}\n)");
    }
    if selection.after.is_some() {
        sql += &format!(" AND {}", behind(table, selection.order, ":after"));
    }
    if selection.up_to.is_some() {
        sql += &format!(" AND NOT {}", behind(table, selection.order, ":up_to"));
    }
    format!("{sql} {}", order_by(table, selection.order))
}

/// The parameters of each statement of [`due`].
pub fn due_params(selection: &Selection) -> Vec<(&'static str, Param)> {
    let mut params = Vec::new();
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
        from: format!("'{}'", text_bound(from.saturating_sub(DAY), &Instant::date)),
        // The character after the last digit.
        to: format!("'{}'", text_bound(until.saturating_add(2 * DAY), &Instant::date)),
        kinds: "'text'",
    };
    let number = |unit: i64, range: &std::ops::Range<i64>| Stretch {
        from: from.0.saturating_mul(unit).clamp(range.start, range.end).to_string(),
        to: until.0.saturating_mul(unit).clamp(range.start, range.end).to_string(),
        kinds: "'integer', 'real'",
    };
    vec![text, number(1000, &EPOCH_MS), number(1, &EPOCH_SECS)]
}

/// What text is compared with; before the year 0 it is what sorts below all digits, after the
/// year 9999 what sorts above them.
pub fn text_bound(at: Instant, shown: &dyn Fn(&Instant) -> String) -> String {
    if at.0 < *WRITABLE.start() {
        "/".into()
    } else if at.0 > *WRITABLE.end() {
        ":".into()
    } else {
        shown(&at)
    }
}

fn instant(column: &str) -> String {
    format!("backlog_instant({})", quote(column))
}

/// Rows with one of these statuses whose date is none: id and date. Looked for where the index
/// shows them at once: NULL, blobs, text that begins with no plausible year, numbers out of
/// range. Those that sort into a window are met there; what sorts as an old date is left to
/// `status` to report.
pub fn undated(table: &Table, of_statuses: &[Status]) -> String {
    let column = quote(&table.inserted.name);
    let places = [
        format!("{column} IS NULL"),
        format!("{column} >= x''"),
        format!("{column} >= ':' AND {column} < x''"),
        format!("{column} >= '' AND {column} < '1970'"),
        format!("{column} < {}", EPOCH_SECS.start),
        format!("{column} >= {} AND {column} < {}", EPOCH_SECS.end, EPOCH_MS.start),
        format!("{column} >= {} AND {column} < ''", EPOCH_MS.end),
    ];
    let arm = |place: &String| {
        format!(
            "SELECT {}, {column} FROM {} WHERE {} AND {place} AND {} IS NULL",
            quote(&table.id.name),
            quote(&table.name),
            statuses(table, of_statuses),
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
            Window::All,
        ];
        for window in windows {
            for order in [Order::Newest, Order::Oldest] {
                for statuses in [&Status::PENDING[..], &Status::PENDING[..1]] {
                    let selection = Selection {
                        window: window.clone(),
                        statuses: statuses.to_vec(),
                        condition: None,
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
        let plan = plan(&connection, &undated(&table, &Status::PENDING));
        assert_eq!(
            plan.matches("SEARCH BACKLOG USING COVERING INDEX BACKLOG_PENDING").count(),
            7,
            "{plan}"
        );
    }
}
