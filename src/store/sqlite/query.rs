//! The SQL with which the SQLite store reads, all of it. Names are quoted, values are bound, except
//! for statuses and reckoned instants: those are literals, quoted as such, because SQLite serves
//! only literals from a partial index.

use super::sql::{id_param, literal};
use crate::date::Stretch;
use crate::query::{Order, Query, Window};
use crate::record::{Key, Status, Value};
use crate::store::table::{Column, Holds, SHOWN_ERROR, SNOOZED, Table, distinct, quote};
use crate::time::Instant;

/// The bytes of the longest last error that is read where it is only shown.
const LONGEST_READ: usize = 1 << 20;

/// What a policy goes by, of the records that can be due, in the order asked for: one statement
/// for each stretch of the date column that can hold them.
pub fn due(table: &Table, selection: &Query) -> Vec<String> {
    let plain = |condition: &str| {
        format!(
            "SELECT {} FROM {} WHERE {}{condition}{}",
            facts(table, &selection.window),
            table.sql,
            table.of_statuses(&selection.statuses),
            bounds_and_order(table, selection),
        )
    };
    match &selection.window {
        Window::All | Window::Failed { .. } => vec![plain("")],
        Window::Inserted { from, until } => {
            let mut stretches = table.dates.stretches(*from, *until);
            stretches.retain(|it| it.is_text || can_hold_numbers(&table.inserted));
            if selection.order == Order::Oldest {
                stretches.reverse();
            }
            let column = quote(&table.inserted.name);
            stretches.iter().map(|it| plain(&format!(" AND {}", within(&column, it)))).collect()
        }
    }
}

/// The columns of [`super::reader`]'s facts, each once and in this order: the id, the insertion
/// date, the status, and FAILURES, LAST_FAILURE and the beginning of LAST_ERROR, as far as there
/// are any. The last three only where they are asked about, so that an index can do without the
/// row.
pub fn facts(table: &Table, window: &Window) -> String {
    let columns = fact_columns(table, window).into_iter().map(|it| quote(&it.name));
    let snoozed = table.notes_snoozes(window);
    // A longer one is no note of a snooze.
    let snoozed = snoozed.map(|it| {
        let column = quote(&it.name);
        format!(
            "CASE WHEN octet_length({column}) <= {LONGEST_READ} THEN substr({column}, 1, {SNOOZED}) END"
        )
    });
    columns.chain(snoozed).collect::<Vec<_>>().join(", ")
}

pub fn fact_columns<'a>(table: &'a Table, window: &Window) -> Vec<&'a Column> {
    let counts = matches!(window, Window::Failed { .. }) || !table.statuses.tell();
    let counter = [&table.failures, &table.last_failure].into_iter().flatten();
    let known = table.id.iter().chain([&table.inserted]).chain(&table.statuses.column);
    distinct(known.chain(counter.filter(|_| counts)))
}

pub fn bounds_and_order(table: &Table, selection: &Query) -> String {
    format!("{} {}", bounds(table, selection), table.order_by(selection.order))
}

fn bounds(table: &Table, selection: &Query) -> String {
    let mut sql = String::new();
    let mut first = 1;
    for (key, not) in [(&selection.after, ""), (&selection.up_to, "NOT ")] {
        if key.is_some() {
            sql += &format!(" AND {not}{}", behind(table, selection.order, first));
            first += 1 + table.id.len();
        }
    }
    sql
}

/// The parameters of each statement of [`due`]: a date and an id for each bound.
pub fn due_params(selection: &Query) -> Vec<Value> {
    let keys = selection.after.iter().chain(&selection.up_to);
    keys.flat_map(|Key { inserted, id }| {
        std::iter::once(inserted.clone()).chain(id.parts().iter().map(id_param))
    })
    .collect()
}

/// Whether a row comes after the key in the order whose parameters begin with this one. NULL sorts
/// below everything.
fn behind(table: &Table, order: Order, first: usize) -> String {
    let (date, ids, at) = (quote(&table.inserted.name), table.ids(), format!("?{first}"));
    let (cmp, null_behind) = match order {
        Order::Newest => ("<", format!("{date} IS NULL AND {at} IS NOT NULL")),
        Order::Oldest => (">", format!("{date} IS NOT NULL AND {at} IS NULL")),
    };
    let key_ids = (first + 1..).take(table.id.len()).map(|number| format!("?{number}"));
    let key_ids = key_ids.collect::<Vec<_>>().join(", ");
    format!(
        "coalesce({date} {cmp} {at} OR ({null_behind}) \
         OR ({date} IS {at} AND ({ids}) {cmp} ({key_ids})), 0)"
    )
}

/// A stretch of a column, which an index on it can serve. Numbers sort below text.
fn within(column: &str, stretch: &Stretch) -> String {
    let (from, to) = (literal(&stretch.from), literal(&stretch.to));
    let types = if stretch.is_text { "= 'text'" } else { "IN ('integer', 'real')" };
    format!("{column} >= {from} AND {column} < {to} AND typeof({column}) {types}")
}

/// A column of text makes text of every number.
fn can_hold_numbers(column: &Column) -> bool {
    column.holds != Holds::Text
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
    let mut places = vec![
        format!("{column} IS NULL"),
        format!("{column} >= x''"),
        format!("{column} >= ':' AND {column} < x''"),
        format!("{column} >= '' AND {column} < '1970-'"),
    ];
    if can_hold_numbers(&table.inserted) {
        let mut lower = String::new();
        for range in table.dates.ranges() {
            places.push(format!("{lower}{column} < {}", range.start));
            lower = format!("{column} >= {} AND ", range.end);
        }
        places.push(format!("{lower}{column} < ''"));
    }
    let (statuses, at) = (table.of_statuses(of_statuses), instant(&table.inserted.name));
    let arm = |place: &String| table.dated(&format!("{statuses} AND {place} AND {at} IS NULL"));
    places.iter().map(arm).collect::<Vec<_>>().join(" UNION ALL ")
}

/// The beginning of a last error, under its name. To cut it SQLite reads all of it, so of one that
/// no handler wrote it says only how long it is.
fn shown_error(column: &Column) -> String {
    let column = quote(&column.name);
    format!(
        "CASE WHEN octet_length({column}) > {LONGEST_READ} \
         THEN '(' || octet_length({column}) || ' bytes, too long to be shown)' \
         ELSE substr({column}, 1, {SHOWN_ERROR}) END AS {column}"
    )
}

/// Whether a row belongs to the queue, and what is shown of it, under the names of the columns.
pub fn shown(table: &Table) -> String {
    let known = table.known_columns().into_iter().map(|column| quote(&column.name));
    let error = table.last_error.as_ref().map(shown_error);
    [table.is_in_queue()].into_iter().chain(known).chain(error).collect::<Vec<_>>().join(", ")
}

/// What selects these columns of the row with an id.
pub fn of_id(table: &Table, columns: &str) -> String {
    let terms: Vec<_> = table.id.iter().map(|it| format!("{} = ?", quote(&it.name))).collect();
    format!("SELECT {columns} FROM {} WHERE {}", table.sql, terms.join(" AND "))
}

/// Whether the row with an id belongs to the queue, and every column: at the end, because there may
/// be one more at any time.
pub fn by_id(table: &Table) -> String {
    of_id(table, &format!("{}, *", table.is_in_queue()))
}

/// The numbers that SQLite itself has for the rows of a table, from one end or the other, without
/// reading more of them than that.
pub fn row_numbers(table: &Table, order: Order) -> String {
    format!("SELECT rowid FROM {} NOT INDEXED ORDER BY rowid {}", table.sql, order.direction())
}

/// The facts of the row with such a number, the last parameter, as far as the selection wants it.
pub fn due_by_row_number(table: &Table, selection: &Query) -> String {
    format!(
        "SELECT {} FROM {} NOT INDEXED WHERE rowid = ?{} AND {}{}",
        facts(table, &selection.window),
        table.sql,
        due_params(selection).len() + 1,
        table.of_statuses(&selection.statuses),
        bounds(table, selection),
    )
}

pub fn is_pending(table: &Table) -> String {
    format!("{} AND {}", of_id(table, "1"), table.pending())
}

/// How many rows there are: by status, whether they are in the queue, whether they have failed
/// before, and age.
pub fn census(table: &Table, bounds: &[i64], now: Instant) -> String {
    let arms = bounds.iter().map(|bound| now.saturating_sub(*bound).0).zip(0..);
    let arms: String = arms.map(|(from, band)| format!(" WHEN at >= {from} THEN {band}")).collect();
    let or_null = |column: &Option<Column>| {
        column.as_ref().map_or_else(|| "NULL".into(), |column| quote(&column.name))
    };
    let is_in = table.is_in_queue();
    let failed = if table.statuses.tell() {
        "NULL".into()
    } else {
        let (failures, last_failure) = (or_null(&table.failures), or_null(&table.last_failure));
        let inserted = quote(&table.inserted.name);
        format!("backlog_failed({failures}, {last_failure}, {inserted})")
    };
    format!(
        "SELECT status, is_in, failed, CASE WHEN at IS NULL THEN NULL{arms} ELSE {} END AS band, \
         count(*) FROM (SELECT {} AS status, {is_in} AS is_in, {failed} AS failed, {} AS at \
         FROM {} WHERE {}) GROUP BY status, is_in, failed, band",
        bounds.len(),
        or_null(&table.statuses.column),
        instant(&table.inserted.name),
        table.sql,
        table.of_the_queue(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    use crate::mapping::Mapping;
    use crate::time::DAY;

    fn table(connection: &mut Connection) -> Table {
        connection.execute_batch(include_str!("../../../schema.sql")).unwrap();
        Table::find(connection, &Mapping::default()).unwrap()
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
        let mut connection = connection();
        // Where the column may be NULL: elsewhere SQLite knows that it is not, and
        // looks for nothing.
        let schema = include_str!("../../../schema.sql").replace("TEXT NOT NULL", "TEXT");
        connection.execute_batch(&schema).unwrap();
        let table = Table::find(&mut connection, &Mapping::default()).unwrap();
        let plan = plan(&connection, &undated(&table, &Status::PENDING));
        assert_eq!(
            plan.matches("SEARCH BACKLOG USING COVERING INDEX BACKLOG_PENDING").count(),
            4,
            "{plan}"
        );
    }
}
