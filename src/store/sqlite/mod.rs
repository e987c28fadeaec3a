//! The SQLite store: the table in a file, the claims in a side file.

mod database;
mod durable;
mod query;
mod table;

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use rusqlite::types::ValueRef;
use rusqlite::{Error as SqlError, Params, ToSql, TransactionBehavior};

pub use database::{Database, create};

use super::claims::Claims;
use super::guard::Guard;
use super::state_dir::StateDir;
use super::{Applied, Change, Count, Found, Page, Reader, Store};
use crate::instant::Instant;
use crate::record::{Id, Key, Record, Row, Settlement, Status, Value};
use crate::selection::{Order, Selection, Window};
use database::{is_busy, is_constraint};
use durable::{LogSync, SharedClaims};

/// How often a settlement is tried again when the database stays locked; each try waits for
/// [`database::BUSY_TIMEOUT`]. An outcome is not given up lightly.
const SETTLE_TRIES: u32 = 10;

/// A table together with the means to claim its records.
pub struct SqliteStore {
    guard: Option<Guard>,
    claims: SharedClaims,
    /// In WAL mode; otherwise every commit is durable by itself.
    log_sync: Option<LogSync>,
    database: Database,
}

impl SqliteStore {
    pub fn new(database: Database, state: &StateDir) -> Result<Self> {
        let claims = Claims::new(state.claims_file(&database.table.name)?);
        let claims = Arc::new(Mutex::new(claims));
        Ok(Self { guard: None, claims, log_sync: None, database })
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&mut self, changes: &[Change]) -> rusqlite::Result<Vec<Applied>> {
        let table = &self.database.table;
        let sql = query::update(table);
        let tx =
            self.database.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut update = tx.prepare_cached(&sql)?;
        let mut applied = Vec::with_capacity(changes.len());
        for change in changes {
            applied.push(match update.execute(table.update_values(change))? {
                0 => Applied::ChangedMeanwhile,
                1 => Applied::Written,
                _ => return Err(SqlError::StatementChangedRows(2)),
            });
        }
        drop(update);
        tx.commit()?;
        Ok(applied)
    }

    /// Like `write`, but waits out a lock for longer than one busy timeout.
    fn write_patiently(&mut self, changes: &[Change]) -> rusqlite::Result<Vec<Applied>> {
        let mut tries = 1;
        loop {
            match self.write(changes) {
                Err(error) if is_busy(&error) && tries < SETTLE_TRIES => {
                    log::warn!("{} is locked; trying again", self.database.path.display());
                    tries += 1;
                }
                result => return result,
            }
        }
    }
}

impl Store for SqliteStore {
    fn reader(&mut self) -> &mut dyn Reader {
        &mut self.database
    }

    fn claim(&mut self, id: &Id) -> Result<bool> {
        self.claims().claim(id).with_context(|| format!("could not claim record {id}"))
    }

    fn release(&mut self, id: &Id) {
        match &self.log_sync {
            Some(log_sync) => log_sync.release(id),
            None => self.claims().release(id),
        }
    }

    fn apply(&mut self, changes: &[Change]) -> Result<Vec<Applied>> {
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        match self.write_patiently(changes) {
            // One row that the table refuses must not take the others' outcomes with it.
            Err(error) if is_constraint(&error) => changes
                .iter()
                .map(|change| match self.write_patiently(std::slice::from_ref(change)) {
                    Ok(applied) => {
                        Ok(applied.into_iter().next().unwrap_or(Applied::ChangedMeanwhile))
                    }
                    Err(error) if is_constraint(&error) => Ok(Applied::Refused(error.to_string())),
                    Err(error) => Err(self.database.explain(&error, "write to")),
                })
                .collect(),
            result => result.map_err(|error| self.database.explain(&error, "write to")),
        }
    }

    fn prove(&mut self, record: &Record, chains: &[Vec<Settlement>]) -> Result<()> {
        let database = &mut self.database;
        let (table, path) = (&database.table, &database.path);
        let sql = query::update(table);
        let tx = database
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| database::explain(path, &error, "write to"))?;
        for chain in chains {
            tx.execute_batch("SAVEPOINT proof")?;
            let mut expected = record.status;
            for settlement in chain {
                let change = Change { record, expected, settlement: settlement.clone() };
                let proof = tx.prepare_cached(&sql)?.execute(table.update_values(&change));
                if let Err(error) = proof {
                    if !is_constraint(&error) {
                        return Err(database::explain(path, &error, "write to"));
                    }
                    bail!(
                        "table {} refuses {} = '{}' for record {}: {error}; no handler was started",
                        table.name,
                        table.status.name,
                        settlement.status.name(),
                        record.id,
                    );
                }
                expected = settlement.status;
            }
            tx.execute_batch("ROLLBACK TO proof")?;
        }
        tx.rollback()?;
        Ok(())
    }

    fn begin(&mut self, token: &str) -> Result<()> {
        let guard = Guard::start(self.claims().as_fd(), token)?;
        self.guard = Some(guard);
        if let Some(log) = self.database.write_ahead_log()? {
            self.log_sync = Some(LogSync::start(log, self.claims.clone())?);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.log_sync.as_mut().map_or(Ok(()), LogSync::finish)
    }
}

impl Reader for Database {
    fn has_counter(&self) -> bool {
        self.table.has_counter()
    }

    fn due(&mut self, selection: &Selection) -> Result<Page> {
        if let (Window::Inserted { from, until }, None) = (&selection.window, &selection.after) {
            self.report_undated(*from, *until)?;
        }
        let mut page = Page::default();
        let mut last = None;
        let mut unusable = Vec::new();
        for sql in query::due(&self.table, selection) {
            let room = selection.limit - page.ids.len();
            let mut statement = self.prepare(&sql)?;
            let params = query::due_params(selection, room);
            let params: Vec<_> =
                params.iter().map(|(name, value)| (*name, value as &dyn ToSql)).collect();
            let mut rows = statement.query(&params[..])?;
            while let Some(row) = rows.next()? {
                match id(row.get_ref(0)?) {
                    Ok(id) => {
                        page.ids.push(id);
                        last = Some(value(row.get_ref(1)?));
                    }
                    Err(problem) => unusable.push(problem),
                }
            }
            if page.ids.len() == selection.limit {
                break;
            }
        }
        for problem in unusable {
            self.report_once(problem);
        }
        if page.ids.len() == selection.limit {
            page.next =
                last.zip(page.ids.last().cloned()).map(|(inserted, id)| Key { inserted, id });
        }
        Ok(page)
    }

    fn read(&mut self, id: &Id) -> Result<Found> {
        let sql = query::by_id(&self.table);
        let mut found = self.records(&sql, [id_param(id)], 2)?;
        Ok(match (found.pop(), found.pop()) {
            (None, _) => Found::Gone,
            (Some(record), None) => Found::Record(Box::new(record)),
            (Some(_), Some(_)) => Found::Ambiguous,
        })
    }

    fn scan(
        &mut self,
        statuses: &[Status],
        order: Order,
        each: &mut dyn FnMut(Record) -> Result<()>,
    ) -> Result<()> {
        let sql = query::scan(&self.table, statuses, order);
        self.each_record(&sql, [], each)
    }

    fn census(&mut self, bounds: &[i64], now: Instant) -> Result<Vec<Count>> {
        let sql = query::census(&self.table, bounds, now);
        let mut statement = self.prepare(&sql)?;
        let counts = statement.query_map([], |row| {
            Ok(Count {
                status: value(row.get_ref(0)?).to_string(),
                band: row.get::<_, Option<i64>>(1)?.and_then(|band| usize::try_from(band).ok()),
                rows: u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0),
            })
        })?;
        counts.collect::<rusqlite::Result<_>>().map_err(|error| self.explain(&error, "read"))
    }
}

impl Database {
    fn report_once(&mut self, message: String) {
        if !self.reported.contains(&message) {
            log::warn!("{message}");
            self.reported.insert(message);
        }
    }

    /// Says which pending records no age can be told of: they are tried by no `--ndays`.
    fn report_undated(&mut self, from: Instant, until: Option<Instant>) -> Result<()> {
        let table = &self.table;
        let sql = query::undated(table, from, until);
        let mut statement = self.prepare(&sql)?;
        let mut rows = statement.query([])?;
        let mut count = 0;
        let mut first = None;
        while let Some(row) = rows.next()? {
            count += 1;
            first.get_or_insert((value(row.get_ref(0)?), value(row.get_ref(1)?)));
        }
        drop(rows);
        drop(statement);
        if let Some((id, inserted)) = first {
            let column = &self.table.inserted.name;
            let inserted =
                if inserted == Value::Null { "NULL".into() } else { format!("{inserted:?}") };
            self.report_once(format!(
                "{count} pending records are not tried, because their {column} cannot be read \
                 as a date; one is {id} with {inserted}"
            ));
        }
        Ok(())
    }

    fn prepare(&self, sql: &str) -> Result<rusqlite::CachedStatement<'_>> {
        self.connection.prepare_cached(sql).map_err(|error| self.explain(&error, "read"))
    }

    fn records(&self, sql: &str, params: impl Params, most: usize) -> Result<Vec<Record>> {
        let mut records = Vec::with_capacity(1);
        self.each_record(sql, params, &mut |record| {
            records.push(record);
            Ok(())
        })?;
        records.truncate(most);
        Ok(records)
    }

    fn each_record(
        &self,
        sql: &str,
        params: impl Params,
        each: &mut dyn FnMut(Record) -> Result<()>,
    ) -> Result<()> {
        let explain = |error| self.explain(&error, "read");
        let mut statement = self.prepare(sql)?;
        let columns = statement.column_names().map(String::from).collect::<Arc<[_]>>();
        let mut rows = statement.query(params).map_err(explain)?;
        while let Some(row) = rows.next().map_err(explain)? {
            let values = (0..columns.len())
                .map(|index| row.get_ref(index).map(value))
                .collect::<rusqlite::Result<_>>()
                .map_err(explain)?;
            match self.table.record(Row { columns: columns.clone(), values }) {
                Ok(record) => each(record)?,
                Err(problem) => log::warn!("{problem}"),
            }
        }
        Ok(())
    }
}

fn id_param(id: &Id) -> rusqlite::types::Value {
    match id {
        Id::Integer(id) => (*id).into(),
        Id::Text(id) => id.to_string().into(),
    }
}

fn id(value: ValueRef<'_>) -> Result<Id, String> {
    match value {
        ValueRef::Integer(id) => Ok(Id::Integer(id)),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Id::Text(text.into())),
            Err(_) => Err("a pending record is not tried, because its id is not UTF-8".into()),
        },
        ValueRef::Null => Err("a pending record is not tried, because its id is NULL".into()),
        ValueRef::Real(_) | ValueRef::Blob(_) => Err(format!(
            "a pending record is not tried, because its id is a {}; ids are integers or text",
            value.data_type()
        )),
    }
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(bytes) => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

fn param(value: &Value) -> rusqlite::types::Value {
    match value {
        Value::Null => rusqlite::types::Value::Null,
        Value::Integer(number) => (*number).into(),
        Value::Real(number) => (*number).into(),
        Value::Text(text) => text.clone().into(),
        Value::Blob(bytes) => bytes.clone().into(),
    }
}
