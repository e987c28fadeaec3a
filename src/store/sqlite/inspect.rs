//! Inspection of a SQLite table before it is worked off. Nothing here writes.

use rusqlite::{OptionalExtension, Row};

use super::errors::{is_refusal, words};
use super::sql::value;
use super::{SqliteDatabase, index_walk, query};
use crate::query::{Order, Query, Window};
use crate::record::Status;
use crate::store::inspection::is_lasting;
use crate::store::table::{quote, typed_id};
use crate::store::{Inspection, MissingIndex, Pending, StatusValue, Unread};
use crate::time::Instant;

impl SqliteDatabase {
    pub fn examined(&self, by_count: bool) -> Inspection {
        let mut unread = Unread::default();
        let mut pending = Pending::default();
        let read = self.read_pending(&mut pending);
        pending.is_cut = read.is_err();
        self.look(&mut unread, "the pending records", read);
        let journal_mode = self.look(&mut unread, "the journal mode", self.journal_mode());
        Inspection {
            aside: format!("journal mode {journal_mode}"),
            rows: self.look(&mut unread, "the number of rows", self.rows().map(Some)),
            values: self.look(&mut unread, "the statuses", self.status_values()),
            pending,
            triggers: self.look(&mut unread, "the triggers", self.triggers()),
            refused: self.look(&mut unread, "what is written", self.refused_writes()),
            missing: self.look(&mut unread, "indexes", self.missing_indexes(by_count).map(Some)),
            duplicate: self.look(&mut unread, "the ids", self.duplicate()),
            reuses_ids: self.look(&mut unread, "the table's key", self.reuses_ids()),
            unread,
        }
    }

    fn look<T: Default>(
        &self,
        unread: &mut Unread,
        place: &'static str,
        found: rusqlite::Result<T>,
    ) -> T {
        unread.or_nothing(place, found.map_err(|error| self.explain(&error, "read")))
    }

    fn rows(&self) -> rusqlite::Result<u64> {
        let count = format!("SELECT count(*) FROM {}", self.table.sql);
        self.connection.query_row(&count, [], |row| row.get(0)).map(i64::unsigned_abs)
    }

    fn journal_mode(&self) -> rusqlite::Result<String> {
        self.connection.pragma_query_value(None, "journal_mode", |it| it.get(0))
    }

    /// Those before one that cannot be read are taken into account.
    fn read_pending(&self, pending: &mut Pending) -> rusqlite::Result<()> {
        let table = &self.table;
        let sql = format!(
            "SELECT {}, {} FROM {} WHERE {}",
            table.ids(),
            quote(&table.inserted.name),
            table.sql,
            query::pending(table)
        );
        let mut statement = self.connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            pending.add(table, &table.id_values(row), &value(row.get_ref(table.id.len())?));
        }
        Ok(())
    }

    fn status_values(&self) -> rusqlite::Result<Vec<StatusValue>> {
        let table = &self.table;
        let Some(column) = &table.statuses.column else { return Ok(Vec::new()) };
        let column = quote(&column.name);
        let sql = format!(
            "SELECT {column}, count(*) FROM {} GROUP BY {column} COLLATE BINARY ORDER BY 2 DESC",
            table.sql
        );
        let mut statement = self.connection.prepare(&sql)?;
        let values = statement.query_map([], |row| {
            let rows = u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0);
            Ok(StatusValue::new(table, &value(row.get_ref(0)?), rows))
        })?;
        values.collect()
    }

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
        let sets: Vec<_> = written.map(|column| quote(&column.name)).collect();
        let sets: Vec<_> = sets.iter().map(|column| format!("{column} = {column}")).collect();
        let mut statements = Vec::new();
        if !sets.is_empty() {
            statements.push(format!("UPDATE {} SET {} WHERE 0", table.sql, sets.join(", ")));
        }
        if table.deletes_finished {
            statements.push(format!("DELETE FROM {} WHERE 0", table.sql));
        }
        let mut refused = Vec::new();
        for sql in statements {
            match self.connection.prepare(&sql) {
                Ok(_) => {}
                Err(error) if is_refusal(&error) => refused.push(words(&error)),
                Err(error) => return Err(error),
            }
        }
        Ok(refused)
    }

    /// An id that more than one row has.
    fn duplicate(&self) -> rusqlite::Result<Option<String>> {
        let ids = self.table.ids();
        let sql = format!(
            "SELECT {ids} FROM {} WHERE {} GROUP BY {ids} HAVING count(*) > 1 LIMIT 1",
            self.table.sql,
            self.table.has_ids()
        );
        let ids = |row: &Row<'_>| Ok(self.table.id_values(row));
        let found = self.connection.query_row(&sql, [], ids).optional()?;
        Ok(found.map(|ids| typed_id(&ids).unwrap_or_else(|shown| shown)))
    }

    /// The indexes without which a pass reads the whole table.
    fn missing_indexes(&self, by_count: bool) -> rusqlite::Result<Vec<MissingIndex>> {
        let table = &self.table;
        let name = &table.sql;
        let ids = table.ids();
        let mut missing = Vec::new();
        let long_ago = Window::Inserted { from: Instant(0), until: None };
        let selection = Query {
            window: long_ago,
            statuses: Status::PENDING.to_vec(),
            order: Order::Newest,
            after: None,
            up_to: None,
            limit: 1,
        };
        if self.scans(&query::due(table, &selection))? {
            let index = quote(&self.free_name(&format!("{}_backlog", table.name))?);
            let inserted = quote(&table.inserted.name);
            let create = format!("CREATE INDEX {index} ON {name} ({inserted}, {ids})");
            // Of the pending rows only, if what makes them so is something that an index can have.
            let only = match &table.statuses.column {
                Some(_) => Some(query::status_in(table, &Status::PENDING)),
                None => table.condition.clone().filter(|it| is_lasting(it)),
            };
            let partial = only.map(|only| format!("{create} WHERE {}", only.replace("\n)", ")")));
            let partial = partial.filter(|it| self.connection.prepare(it).is_ok());
            let statement = partial.unwrap_or(create);
            missing.push(MissingIndex { finds: "pending records", statement });
        }
        if by_count
            && let (Some(failures), Some(last_failure), Some(status)) =
                (&table.failures, &table.last_failure, &table.statuses.column)
            && table.statuses.tell()
            && !index_walk::is_served(&self.connection, table)?
        {
            let index = quote(&self.free_name(&format!("{}_backlog_waiting", table.name))?);
            let columns = [failures, status, last_failure].map(|column| quote(&column.name));
            missing.push(MissingIndex {
                finds: "what is due by its count of failures",
                statement: format!(
                    "CREATE INDEX {index} ON {name} ({}) WHERE {}",
                    columns.join(", "),
                    query::status_in(table, &Status::PENDING)
                ),
            });
        }
        if !self.finds_ids()? {
            let index = quote(&self.free_name(&format!("{}_backlog_id", table.name))?);
            let statement = format!("CREATE UNIQUE INDEX {index} ON {name} ({ids})");
            missing.push(MissingIndex { finds: "a record by its id", statement });
        }
        Ok(missing)
    }

    /// A name that nothing in the database has.
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

    /// Whether an index leads to an id. One in which other columns come first is read from one end
    /// to the other, or once for each value of those.
    fn finds_ids(&self) -> rusqlite::Result<bool> {
        let steps = self.steps(&query::of_id(&self.table, "1"))?;
        Ok(steps.iter().all(|step| step.starts_with("SEARCH") && !step.contains("(ANY(")))
    }

    /// Whether a statement reads the table from one end to the other, and in no order that an index
    /// has.
    fn scans(&self, statements: &[String]) -> rusqlite::Result<bool> {
        for sql in statements {
            let steps = self.steps(sql)?;
            if steps.iter().any(|step| step.starts_with("SCAN") && !step.contains(" INDEX ")) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How SQLite would carry out a statement.
    fn steps(&self, sql: &str) -> rusqlite::Result<Vec<String>> {
        let mut statement = self.connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
        let mut steps = statement.raw_query();
        let mut found = Vec::new();
        while let Some(step) = steps.next()? {
            found.push(step.get(3)?);
        }
        Ok(found)
    }
}
