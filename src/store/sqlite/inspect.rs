//! The survey of a SQLite table: what commands read of all of it. Nothing here writes.

use anyhow::Result;

use super::errors::{is_refusal, words};
use super::sql::value;
use super::{SqliteDatabase, index_walk, query};
use crate::record::{Record, Status};
use crate::store::acting::ActingAs;
use crate::store::sql::{SqlDatabase, duplicate, recent};
use crate::store::table::{Cells, Quoted, Table, names, quote};
use crate::store::{Count, Inspection, MissingIndex, Unread};
use crate::time::Instant;

impl SqlDatabase for SqliteDatabase {
    fn take_rights(&self) -> Result<Option<ActingAs>> {
        self.connection.rights.take()
    }

    fn each_row(&mut self, sql: &str, each: &mut dyn FnMut(&Table, &dyn Cells)) -> Result<()> {
        let read = self.rows(sql, [], |row| {
            each(&self.table, row);
            Ok(true)
        });
        self.reading(read).map(|_| ())
    }

    fn each_record(&mut self, from: &str, each: &mut dyn FnMut(Record) -> bool) -> Result<()> {
        let sql = format!("SELECT {} {from}", query::shown(&self.table));
        let read = self.rows(&sql, [], |row| Ok(self.record(row)?.is_none_or(&mut *each)));
        self.reading(read).map(|_| ())
    }

    fn count_by_age(&mut self, bounds: &[i64], now: Instant) -> Result<Vec<Count>> {
        let mut counts = Vec::new();
        let read = self.rows(&query::census(&self.table, bounds, now), [], |row| {
            let (raw, failed) = (value(row.get_ref(0)?), row.get(2)?);
            let (status, text) = self.table.statuses.of(Some(&raw), row.get(1)?, failed);
            let band: Option<i64> = row.get(3)?;
            let band = band.and_then(|band| usize::try_from(band).ok());
            counts.push(Count { status, text, band, rows: row.count(4) });
            Ok(true)
        });
        self.reading(read).map(|_| counts)
    }

    fn aside(&mut self, unread: &mut Unread) -> String {
        let mode = self.connection.pragma_query_value(None, "journal_mode", |it| it.get(0));
        let mode: String = unread.or_nothing("the journal mode", self.reading(mode));
        format!("journal mode {mode}")
    }

    fn inspect_further(&mut self, by_count: bool, found: &mut Inspection) {
        let duplicate = duplicate(self);
        let unread = &mut found.unread;
        found.triggers = unread.or_nothing("the triggers", self.reading(self.triggers()));
        let refused = self.reading(self.refused_writes());
        found.refused = unread.or_nothing("what is written", refused);
        let missing = self.reading(self.missing_indexes(by_count)).map(Some);
        found.missing = unread.or_nothing("indexes", missing);
        found.duplicate = unread.or_nothing("the ids", duplicate);
        let reuses_ids = self.reading(self.reuses_ids());
        found.reuses_ids = unread.or_nothing("the table's key", reuses_ids);
    }
}

impl SqliteDatabase {
    fn triggers(&self) -> rusqlite::Result<Vec<String>> {
        let mut statement = self.connection.prepare(
            "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 ORDER BY 1",
        )?;
        let names = statement.query_map([&self.table.name], |row| row.get(0))?;
        names.collect()
    }

    /// Whether the id is SQLite's own number of the row, without AUTOINCREMENT.
    fn reuses_ids(&self) -> rusqlite::Result<bool> {
        let [id] = &self.table.id[..] else { return Ok(false) };
        let (table, id) = (self.table.name.as_str(), id.name.as_str());
        let is_row_number = self.connection.query_row(
            "SELECT count(*) = 1 AND max(name = ?2 AND type = 'INTEGER' COLLATE NOCASE) \
             AND (SELECT NOT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?1) \
             FROM pragma_table_info(?1) WHERE pk > 0",
            [table, id],
            |row| row.get::<_, Option<bool>>(0),
        )?;
        if is_row_number != Some(true) {
            return Ok(false);
        }
        let (.., is_increasing) = self.connection.column_metadata(Some("main"), table, id)?;
        Ok(!is_increasing)
    }

    /// Why the table would refuse what a pass writes, as far as that shows before it is written: a
    /// mistake in a trigger's SQL, or something that a trigger may not use.
    fn refused_writes(&self) -> rusqlite::Result<Vec<String>> {
        let table = &self.table;
        let written = table.written_columns().into_iter().filter(|column| !column.is_generated);
        let sets = written.map(|column| format!("{0} = {0}", Quoted(&column.name)));
        let sets = sets.collect::<Vec<_>>().join(", ");
        let update = (!sets.is_empty()).then(|| format!("UPDATE {} SET {sets} WHERE 0", table.sql));
        let delete = table.deletes_finished.then(|| format!("DELETE FROM {} WHERE 0", table.sql));
        let mut refused = Vec::new();
        for sql in update.into_iter().chain(delete) {
            match self.connection.prepare(&sql) {
                Ok(_) => {}
                Err(error) if is_refusal(&error) => refused.push(words(&error)),
                Err(error) => return Err(error),
            }
        }
        Ok(refused)
    }

    /// The indexes without which a pass reads the whole table.
    fn missing_indexes(&self, by_count: bool) -> rusqlite::Result<Vec<MissingIndex>> {
        let Table { id, inserted, statuses, failures, last_failure, .. } = &self.table;
        let mut missing = Vec::new();
        if !self.finds_pending()? {
            let columns = names([inserted].into_iter().chain(id));
            let only = self.table.lasting_condition();
            missing.push(self.index("pending records", "INDEX", "backlog", &columns, only)?);
        }
        if let (Some(failures), Some(status), Some(last_failure)) =
            (failures, &statuses.column, last_failure)
            && (by_count && statuses.tell())
            && !index_walk::is_served(&self.connection, &self.table)?
        {
            let finds = "what is due by its count of failures";
            let columns = names([failures, status, last_failure]);
            let only = Some(self.table.status_in(&Status::PENDING));
            missing.push(self.index(finds, "INDEX", "backlog_waiting", &columns, only)?);
        }
        if !self.finds_ids()? {
            let ids = self.table.ids();
            let index =
                self.index("a record by its id", "UNIQUE INDEX", "backlog_id", &ids, None)?;
            missing.push(index);
        }
        Ok(missing)
    }

    /// An index of those rows only for which a condition holds, if SQLite takes that.
    fn index(
        &self,
        finds: &'static str,
        kind: &str,
        suffix: &str,
        columns: &str,
        only: Option<String>,
    ) -> rusqlite::Result<MissingIndex> {
        let Table { name, sql, .. } = &self.table;
        let name = quote(&self.free_name(&format!("{name}_{suffix}"))?);
        let create = format!("CREATE {kind} {name} ON {sql} ({columns})");
        let partial = only.map(|only| format!("{create} WHERE {only}"));
        let partial = partial.filter(|it| self.connection.prepare(it).is_ok());
        Ok(MissingIndex { finds, statement: partial.unwrap_or(create) })
    }

    /// Whether no pending record is found by reading the table from one end to the other, in no
    /// order that an index has.
    fn finds_pending(&self) -> rusqlite::Result<bool> {
        let is_scan = |step: &String| step.starts_with("SCAN") && !step.contains(" INDEX ");
        for sql in query::due(&self.table, &recent()) {
            if index_walk::plan(&self.connection, &sql)?.iter().any(is_scan) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether an index leads to an id. One in which other columns come first is read from one end
    /// to the other, or once for each value of those.
    fn finds_ids(&self) -> rusqlite::Result<bool> {
        let steps = index_walk::plan(&self.connection, &query::of_id(&self.table, "1"))?;
        Ok(steps.iter().all(|step| step.starts_with("SEARCH") && !step.contains("(ANY(")))
    }

    fn free_name(&self, name: &str) -> rusqlite::Result<String> {
        let mut statement = self
            .connection
            .prepare("SELECT 1 FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE")?;
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        for name in std::iter::once(name.to_string()).chain(numbered) {
            if !statement.exists([&name])? {
                return Ok(name);
            }
        }
        Ok(name.into())
    }
}
