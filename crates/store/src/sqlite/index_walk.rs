//! The index walk: a skip scan over the counts of failures, so that a search reads only due records, not waiting ones.
//! For each count, the due records are a few ranges of an index on (FAILURES, STATUS, LAST_FAILURE).

use backlog_schedule::{Instant, Query, Status, Value, Window};
use rusqlite::{Connection, Result};

use super::dialect::Sqlite;
use crate::date::{Format, Spelling, text_bound};
use crate::sql::by_count;
use crate::table::{Column, Dialect, Table, quote};

/// The distinct counts of failures of a table, as a common table expression.
struct FailureCounts<'a> {
    connection: &'a Connection,
    table: &'a Table,
    failures: &'a Column,
    last_failure: &'a Column,
    /// Name of the expression. It is longer than the table's name, so it differs.
    name: String,
    /// Name of its column, which no column of the table has.
    n: String,
    /// The `WITH` clause, which goes from one count to the next, and to NULL after the last.
    sql: String,
}

impl<'a> FailureCounts<'a> {
    fn new(connection: &'a Connection, table: &'a Table) -> Option<Self> {
        let (failures, last_failure) = (table.failures.as_ref()?, table.last_failure.as_ref()?);
        let name = quote(&format!("counts of {}", table.name));
        let mut n = "n".to_string();
        while table.columns.iter().any(|column| column.name.eq_ignore_ascii_case(&n)) {
            n.push('n');
        }
        let (source, count) = (&table.sql, quote(&failures.name));
        let pending = table.status_in(&Status::PENDING);
        let sql = format!(
            "WITH RECURSIVE {name}({n}) AS (SELECT min({count}) FROM {source} WHERE {pending} UNION ALL \
             SELECT (SELECT min({count}) FROM {source} WHERE {pending} AND {count} > {n}) \
             FROM {name} WHERE {n} IS NOT NULL)"
        );
        Some(Self { connection, table, failures, last_failure, name, n, sql })
    }

    /// Returns true if an index leads from one count to the next.
    fn have_index(&self) -> Result<bool> {
        let Self { table, failures, name, n, sql, .. } = self;
        let (search, to_next) =
            (format!("SEARCH {} ", table.name), format!("({}>?)", failures.name));
        let steps = plan(self.connection, &format!("{sql} SELECT {n} FROM {name}"))?;
        Ok(steps.iter().any(|step| step.starts_with(&search) && step.ends_with(&to_next)))
    }

    /// Returns conditions, one per range, for last failures due or in the future. A text column compares as text.
    fn due_ranges(
        &self,
        before: &[Instant],
        future: Instant,
        text: &dyn Fn(Instant) -> String,
    ) -> Vec<String> {
        let (column, n) = (quote(&self.last_failure.name), &self.n);
        let is_none = format!("typeof({n}) NOT IN ('integer', 'real') OR {n} < 1");
        let bound = |literal: &dyn Fn(Instant) -> String| {
            let bounds: Vec<_> = before.iter().map(|at| literal(*at)).collect();
            by_count(&format!("CAST({n} AS INTEGER)"), &is_none, &bounds)
        };
        let is_number = format!("typeof({column}) IN ('integer', 'real')");
        let mut ranges = vec![
            format!("{column} IS NULL"),
            format!("{column} >= '' AND {column} < {} AND NOT {is_number}", bound(text)),
            format!("{column} >= {} AND NOT {is_number}", text(future)),
        ];
        let mut from = String::new();
        let formats = self.table.failure_dates.numbers();
        for format in formats.filter(|format| *format != Format::Compact) {
            let number = |at: Instant| format.number(at).to_string();
            ranges.push(format!("{from}{column} < {} AND {is_number}", bound(&number)));
            from = format!("{column} >= {} AND ", number(future));
        }
        ranges.push(format!("{from}{column} < '' AND {is_number}"));
        ranges
    }

    /// Returns true if the first and the last text of each count have this format, whose text sorts as time does.
    fn have_format(&self, errors: &str, spelling: &Spelling) -> Result<bool> {
        let Self { table, name, n, sql, .. } = self;
        let [count, column] = [self.failures, self.last_failure].map(|column| quote(&column.name));
        let [first, last] = ["ASC", "DESC"].map(|direction| {
            format!(
                "(SELECT {column} FROM {} WHERE {errors} AND {count} = {n} AND {column} >= '' \
                 AND {column} < x'' ORDER BY {column} {direction} LIMIT 1)",
                table.sql
            )
        });
        let is_in = |text: String| {
            let same = |at| spelling.write(at, &table.dates.zone).to_string() == text;
            table.failure_dates.read_text(&text).is_some_and(same)
        };
        let sql = format!("{sql} SELECT {first}, {last} FROM {name} WHERE {n} IS NOT NULL");
        let mut statement = self.connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let text = |index| row.get::<_, Option<String>>(index).unwrap_or_default();
            if !(0..2).filter_map(text).all(is_in) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns the walk in place of [`Table::due`], if an index serves it and the text of LAST_FAILURE sorts as time does.
pub fn walk(connection: &Connection, table: &Table, selection: &Query) -> Result<Option<String>> {
    let Window::Failed { before, future } = &selection.window else { return Ok(None) };
    let Some(counts) = FailureCounts::new(connection, table) else { return Ok(None) };
    let zone = &table.dates.zone;
    let spelling = Some(&counts.last_failure.spelling).filter(|spelling| spelling.is_text());
    let spelling = spelling.cloned().unwrap_or_default();
    let [new, errors] = [Status::New, Status::Error].map(|status| table.due_rows(&[status]));
    // Otherwise the counts do not lead to the failed records, or the order does not lead to the due ones.
    if !table.statuses.distinguish_failed()
        || !spelling.sorts(zone)
        || !counts.have_index()?
        || !counts.have_format(&errors, &spelling)?
    {
        return Ok(None);
    }
    let found = quote(&format!("found in {}", table.name));
    let (columns, source) = (table.facts(&selection.window), &table.sql);
    let (FailureCounts { name, n, sql, .. }, failures) = (&counts, quote(&counts.failures.name));
    let of_count = |condition: &str| {
        format!(
            "SELECT {columns} FROM {name} CROSS JOIN {source} WHERE {failures} IS {n} AND {condition}"
        )
    };
    let text = |at: Instant| {
        let format = |at: &Instant| spelling.write(*at, zone).to_string();
        Sqlite.literal(&Value::Text(text_bound(at, &format)))
    };
    let mut arms = Vec::new();
    if selection.statuses.contains(&Status::New) {
        arms.push(of_count(&new));
    }
    if selection.statuses.contains(&Status::Error) {
        let ranges = counts.due_ranges(before, *future, &text);
        arms.extend(ranges.iter().map(|range| of_count(&format!("{errors} AND {range}"))));
    }
    let arms = arms.join(" UNION ALL ");
    let (bounds, order) = (table.bounds(selection), table.order_by(selection.order));
    // Materialized, because otherwise SQLite would sort in each arm, and scan for that.
    Ok(Some(format!(
        "{sql}, {found} AS MATERIALIZED ({arms}) SELECT * FROM {found} WHERE 1{bounds} {order}"
    )))
}

pub fn has_index(connection: &Connection, table: &Table) -> Result<bool> {
    FailureCounts::new(connection, table).map_or(Ok(false), |counts| counts.have_index())
}

/// Returns the steps in which SQLite would run a statement with any parameters.
pub fn plan(connection: &Connection, sql: &str) -> Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
    statement.raw_query().mapped(|step| step.get(3)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::mapping::Mapping;
    use backlog_schedule::Order;
    use rusqlite::StatementStatus;

    const NOW: Instant = Instant(1_795_232_400);

    const SCHEMA: &str = include_str!("../../../../schema.sql");

    fn connection(rows: &str) -> (Connection, Table) {
        table_with(SCHEMA, rows)
    }

    fn table_with(schema: &str, rows: &str) -> (Connection, Table) {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(schema).unwrap();
        connection
            .execute_batch(&format!(
                "INSERT INTO BACKLOG (ID, STATUS, FAILURES, LAST_FAILURE) VALUES {rows}"
            ))
            .unwrap();
        let table =
            Table::find(&mut connection, &Mapping::default(), Clock::at(Instant(0))).unwrap();
        (connection, table)
    }

    fn selection() -> Query {
        // After one failure a minute, after two an hour, after three and more a day.
        let before = [60, 3_600, 86_400].map(|wait| NOW.saturating_sub(wait)).to_vec();
        Query {
            window: Window::Failed { before, future: NOW.saturating_add(60) },
            statuses: Status::PENDING.to_vec(),
            order: Order::Newest,
            after: None,
            up_to: None,
            limit: 100,
        }
    }

    fn ids(connection: &Connection, sql: &str) -> Vec<i64> {
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        let mut ids = rows.collect::<Result<Vec<_>, _>>().unwrap();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn each_count_has_its_own_bound_and_what_waits_is_not_read() {
        let at = |secs: i64| format!("'{}'", NOW.saturating_sub(secs));
        let rows = format!(
            "(1, 'NEW', 0, NULL), (2, 'NEW', 9, {now}), (3, 'ERROR', 0, NULL),
             (11, 'ERROR', 1, {minute}), (12, 'ERROR', 1, {over_a_minute}),
             (21, 'ERROR', 2, {over_a_minute}), (22, 'ERROR', 2, {over_an_hour}),
             (31, 'ERROR', 3, {over_an_hour}), (32, 'ERROR', 900, {over_a_day}),
             (33, 'ERROR', 900, {over_an_hour}), (41, 'ERROR', -1, {over_a_minute}),
             (51, 'ERROR', 9, {future}), (61, 'SUCCESS', 1, {over_a_day})",
            now = at(0),
            minute = at(60),
            over_a_minute = at(61),
            over_an_hour = at(3_601),
            over_a_day = at(86_401),
            future = at(-60),
        );
        let (connection, table) = connection(&rows);
        let sql = walk(&connection, &table, &selection()).unwrap().unwrap();
        assert_eq!(ids(&connection, &sql), [1, 2, 3, 12, 22, 32, 41, 51]);
    }

    #[test]
    fn what_waits_costs_nothing() {
        for (last_failure, schema) in [
            (format!("'{NOW}'"), SCHEMA.to_string()),
            (NOW.0.to_string(), SCHEMA.replace("LAST_FAILURE  TEXT", "LAST_FAILURE  INTEGER")),
        ] {
            let waiting =
                (1..=2_000).map(|id| format!("({id}, 'ERROR', {}, {last_failure})", id % 7));
            let (connection, table) = table_with(&schema, &waiting.collect::<Vec<_>>().join(", "));
            let sql = walk(&connection, &table, &selection()).unwrap().unwrap();
            let mut statement = connection.prepare(&sql).unwrap();
            assert_eq!(statement.query_map([], |_| Ok(())).unwrap().count(), 0);
            let steps = statement.get_status(StatementStatus::VmStep);
            assert!(steps < 4_000, "{steps} steps of the virtual machine");
        }
    }

    #[test]
    fn without_the_index_or_with_another_spelling_all_pending_rows_are_read() {
        let (connection, table) = connection("(1, 'ERROR', 1, '2026-11-21T05:40:00+02:00')");
        assert_eq!(walk(&connection, &table, &selection()).unwrap(), None);
        connection.execute_batch("UPDATE BACKLOG SET LAST_FAILURE = NULL").unwrap();
        assert!(walk(&connection, &table, &selection()).unwrap().is_some());
        connection.execute_batch("DROP INDEX BACKLOG_WAITING").unwrap();
        assert_eq!(walk(&connection, &table, &selection()).unwrap(), None);
    }
}
