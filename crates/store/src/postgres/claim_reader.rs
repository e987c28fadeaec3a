//! The claims of records: their second locks, and the columns that are read once these are granted.

use std::iter;
use std::sync::Arc;

use backlog_schedule::Record;
use tokio_postgres::Row;

use super::dialect::{Param, Postgres, Request, number};
use super::session::{Session, values_set_in_query};
use super::statements::{Given, LockRequest, NUMBER, UNLOCK, ids, numbers, unlock};
use crate::error::DbResult;
use crate::store::{Claim, MAX_VALUE_BYTES, too_large};
use crate::table::{Cells, Column, ColumnType, Dialect, RecordReader, Table, joined, quote};

/// A claim: the columns that it reads, in SQL and as their reader.
pub struct ClaimReader<'a> {
    table: &'a Table,
    takes_locks: bool,
    reader: RecordReader<'a>,
    columns: String,
    /// Condition of a row with a value that is too large, which is read as NULL.
    is_large: String,
}

impl<'a> ClaimReader<'a> {
    /// Behind a pooler it takes no locks, and sets the settings for values.
    pub fn new(table: &'a Table, takes_locks: bool) -> Self {
        let kept: Vec<_> =
            table.id.iter().chain(table.guard_columns()).map(|column| &column.name).collect();
        let cells = table.columns.iter().map(|column| {
            let cell = Postgres.cell(column);
            match is_large(column).filter(|_| !kept.contains(&&column.name)) {
                Some(large) => format!("CASE WHEN {large} THEN NULL ELSE {cell} END"),
                None => cell,
            }
        });
        let columns = joined(iter::once(table.head()).chain(cells), ", ");
        let large = joined(table.columns.iter().filter_map(is_large), " OR ");
        let is_large = if large.is_empty() { "false".into() } else { format!("({large}) IS TRUE") };
        Self { table, takes_locks, reader: RecordReader::all(table), columns, is_large }
    }

    pub fn without_payload(table: &'a Table, takes_locks: bool) -> Self {
        let reader = RecordReader::for_edit(table);
        let columns = reader.whole_sql();
        Self { table, takes_locks, reader, columns, is_large: "false".into() }
    }

    /// Frees the locks in `freed`, takes the second lock of each wanted record and reads the record if it is granted.
    /// The first locks were granted before.
    pub fn request(&self, wanted: &[LockRequest], freed: Vec<i64>) -> Request {
        let Self { table, columns, is_large, .. } = self;
        let mut params = vec![Param::Integers(freed)];
        params.extend(ids(table, wanted.iter().map(|wanted| wanted.id)));
        params.push(numbers(0..wanted.len()));
        params.push(Param::Integers(wanted.iter().map(|wanted| wanted.keys[1]).collect()));
        let mut given = Given::after(1);
        let has_id = given.ids(table);
        given.numbers();
        given.add("key", "bigint");
        let first = table.id.first().map_or_else(String::new, |column| quote(&column.name));
        let (rows, name) = (given.rows(), &table.sql);
        // The settings are evaluated with `held`, before any column of the table becomes text.
        let (granted, settings, set) = if self.takes_locks {
            ("pg_catalog.pg_try_advisory_lock(\"backlog key\")", String::new(), "")
        } else {
            let set = values_set_in_query();
            ("true", format!("settings AS MATERIALIZED (SELECT {set}), "), " CROSS JOIN settings")
        };
        // One row for each row found, or one if there is none.
        let sql = format!(
            "WITH freed AS MATERIALIZED ({UNLOCK}), {settings}\
             wanted AS MATERIALIZED (SELECT * FROM {rows}), \
             held AS MATERIALIZED (SELECT wanted.*, {granted} AS \"backlog granted\" \
             FROM wanted CROSS JOIN freed{set}) \
             SELECT {NUMBER}, \"backlog granted\", {name}.{first} IS NOT NULL, {is_large}, {columns} \
             FROM held AS \"backlog given\" LEFT JOIN {name} ON \"backlog granted\" AND {has_id}"
        );
        Request { sql, params }
    }

    /// Returns the results of `count` claims from the rows of a [`Self::request`].
    pub fn claims(&self, count: usize, rows: &[Row]) -> Vec<Claim> {
        let mut claims: Vec<_> = (0..count).map(|_| Claim::Busy).collect();
        for row in rows.iter().filter(|row| row.truth(1)) {
            let claim = number(row, 0).and_then(|index| claims.get_mut(index));
            let Some(claim) = claim else { continue };
            *claim = match claim {
                Claim::Busy => self.record(row).map_or(Claim::Gone, Claim::Held),
                Claim::Held(_)
                | Claim::Gone
                | Claim::NotAsked
                | Claim::Ambiguous
                | Claim::Unreadable(_) => Claim::Ambiguous,
            };
        }
        claims
    }

    fn record(&self, row: &Row) -> Option<Arc<Record>> {
        let record = row.truth(2).then(|| self.reader.record(row, 4)).flatten()?;
        Some(Arc::new(Record { too_large: row.truth(3).then(too_large), ..record }))
    }

    /// Claims each record by a statement of its own. Frees the second locks of unreadable ones, as locks outlive a
    /// failure.
    pub fn claim_singly(
        &self,
        session: &mut Session,
        wanted: &[LockRequest],
    ) -> DbResult<Vec<Claim>> {
        let free = |session: &mut Session, wanted: &[LockRequest]| match self.takes_locks {
            true => unlock(session, wanted.iter().map(|wanted| wanted.keys[1]).collect()),
            false => Ok(()),
        };
        free(session, wanted)?;
        let mut claims = Vec::with_capacity(wanted.len());
        for one in wanted.chunks(1) {
            match session.run(&self.request(one, Vec::new())) {
                Ok(rows) => claims.extend(self.claims(1, &rows)),
                Err(error) if error.is_of_one_row => {
                    free(session, one)?;
                    claims.push(Claim::Unreadable(error.message));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(claims)
    }
}

fn is_large(column: &Column) -> Option<String> {
    let name = column.sql();
    let measured = match column.column_type {
        ColumnType::Text | ColumnType::Bytes => name,
        // A few bytes of jsonb or of an array can be a long text.
        ColumnType::Json | ColumnType::Any => format!("{name}::text"),
        ColumnType::Integer
        | ColumnType::Real
        | ColumnType::Decimal
        | ColumnType::Boolean
        | ColumnType::Instant
        | ColumnType::LocalTime => return None,
    };
    Some(format!("pg_catalog.octet_length({measured}) > {MAX_VALUE_BYTES}"))
}
