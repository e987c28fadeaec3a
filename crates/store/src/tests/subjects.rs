//! The stores of the suite, each with a new table for each property.

use std::path::PathBuf;

use backlog_schedule::{Facts, Id, Record, Status, Transition};
use rusqlite::Connection;
use tempfile::TempDir;

use super::{DAY, NOW, settle};
use crate::clock::Clock;
use crate::mapping::Mapping;
use crate::{Access, Location, MemoryStore, Retry, Store};
use test_support::cluster::Database;

/// An initial row: id, status, age in days, failures.
pub type Seed = (i64, Status, i64, u32);

pub trait Subject {
    fn name(&self) -> &'static str;

    /// Creates the table for `open`.
    fn fill(&mut self, seeds: &[Seed]);

    fn open(&self) -> Box<dyn Store>;

    /// Finishes a record like the application or another consumer, without a claim.
    fn finish(&self, id: i64);

    fn delete(&self, id: i64);

    /// Makes the table refuse a status of a record.
    fn refuse(&self, id: i64, status: Status);
}

fn open(location: &Location) -> Box<dyn Store> {
    let database = location.open(&Mapping::default(), Access::ReadWrite, Clock::at(NOW)).unwrap();
    let state = database.state_dir(Some(&std::env::temp_dir().join("backlog-suite"))).unwrap();
    database.into_store(&state, Retry::new(None, Clock::at(NOW))).unwrap()
}

pub struct Sqlite {
    dir: TempDir,
    tables: u32,
}

impl Sqlite {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), tables: 0 }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join(format!("{}.db", self.tables))
    }

    fn run(&self, sql: &str) {
        Connection::open(self.path()).unwrap().execute_batch(sql).unwrap();
    }
}

impl Subject for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn fill(&mut self, seeds: &[Seed]) {
        self.tables += 1;
        self.run(include_str!("../../../../schema.sql"));
        for (id, status, days, failures) in seeds {
            self.run(&format!(
                "INSERT INTO BACKLOG (ID, STATUS, DATE_INSERTED, FAILURES) \
                 VALUES ({id}, '{}', '{}', {failures})",
                status.name(),
                NOW.saturating_sub(days * DAY)
            ));
        }
    }

    fn open(&self) -> Box<dyn Store> {
        let location = Location::File(self.path());
        let database =
            location.open(&Mapping::default(), Access::ReadWrite, Clock::at(NOW)).unwrap();
        let state = database.state_dir(None).unwrap();
        database.into_store(&state, Retry::new(None, Clock::at(NOW))).unwrap()
    }

    fn finish(&self, id: i64) {
        self.run(&format!("UPDATE BACKLOG SET STATUS = 'SUCCESS' WHERE ID = {id}"));
    }

    fn delete(&self, id: i64) {
        self.run(&format!("DELETE FROM BACKLOG WHERE ID = {id}"));
    }

    fn refuse(&self, id: i64, status: Status) {
        let status = status.name();
        self.run(&format!(
            "CREATE TRIGGER refuse BEFORE UPDATE ON BACKLOG \
             WHEN new.ID = {id} AND new.STATUS = '{status}' \
             BEGIN SELECT RAISE(ABORT, 'no'); END"
        ));
    }
}

#[derive(Default)]
pub struct InMemory {
    store: Option<MemoryStore>,
}

impl Subject for InMemory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn fill(&mut self, seeds: &[Seed]) {
        let row = |(id, status, days, failures): &Seed| Record {
            status: *status,
            failures: *failures,
            ..Record::new(Id::Integer(*id), Some(NOW.saturating_sub(days * DAY)))
        };
        let at_once = |_: Facts<'_>| Some(NOW);
        let rows = seeds.iter().map(row).collect();
        let store = MemoryStore::new(rows, at_once, Box::new(|_, now| Some(now)));
        store.set_now(NOW);
        self.store = Some(store);
    }

    fn open(&self) -> Box<dyn Store> {
        Box::new(self.store.clone().unwrap())
    }

    fn finish(&self, id: i64) {
        settle(&mut *self.open(), id, Transition::Succeeded);
    }

    fn delete(&self, id: i64) {
        panic!("record {id} cannot be deleted");
    }

    fn refuse(&self, id: i64, _: Status) {
        panic!("record {id} cannot be refused");
    }
}

/// A table on a server, or a queue there.
pub struct OnServer {
    database: Database,
    queue: Option<String>,
}

impl OnServer {
    pub fn new(database: Database, queue: Option<String>) -> Self {
        Self { database, queue }
    }

    fn table(&self) -> String {
        self.queue.as_ref().map_or_else(
            || "backlog".into(),
            |queue| format!("pgmq.\"q_{}\"", queue.to_lowercase()),
        )
    }
}

impl Subject for OnServer {
    fn name(&self) -> &'static str {
        if self.queue.is_some() { "pgmq" } else { "postgres" }
    }

    fn fill(&mut self, seeds: &[Seed]) {
        let Some(queue) = &self.queue else {
            self.database.sql("DROP TABLE IF EXISTS backlog");
            self.database.sql(include_str!("../../../../schema.postgres.sql"));
            for (id, status, days, failures) in seeds {
                self.database.sql(&format!(
                    "INSERT INTO backlog (id, status, date_inserted, failures) \
                     VALUES ({id}, '{}', '{}', {failures})",
                    status.name(),
                    NOW.saturating_sub(days * DAY)
                ));
            }
            return;
        };
        // In old versions drop_queue needs the extension.
        let name = queue.to_lowercase();
        self.database.sql(&format!(
            "DROP TABLE IF EXISTS pgmq.\"q_{name}\", pgmq.\"a_{name}\"; DELETE FROM pgmq.meta; \
             SELECT pgmq.create('{queue}')"
        ));
        for (id, status, days, failures) in seeds {
            self.database.sql(&format!(
                "INSERT INTO {} (msg_id, read_ct, enqueued_at, vt, message) OVERRIDING SYSTEM VALUE \
                 VALUES ({id}, {failures}, '{}', 'epoch', '{{}}')",
                self.table(),
                NOW.saturating_sub(days * DAY)
            ));
            if *status == Status::Archived {
                self.database.sql(&format!(
                    "UPDATE {} SET headers = '{{\"backlog_error\": \"why\"}}' WHERE msg_id = {id}",
                    self.table()
                ));
            }
            if !status.is_pending() {
                self.finish(*id);
            }
        }
    }

    fn open(&self) -> Box<dyn Store> {
        let url = self.database.url();
        open(&Location::from_url(&url, self.queue.as_deref(), &|_| None).unwrap())
    }

    fn finish(&self, id: i64) {
        self.database.sql(&match &self.queue {
            None => format!("UPDATE backlog SET status = 'SUCCESS' WHERE id = {id}"),
            Some(queue) => format!("SELECT pgmq.archive('{queue}', {id})"),
        });
    }

    fn delete(&self, id: i64) {
        let column = if self.queue.is_some() { "msg_id" } else { "id" };
        self.database.sql(&format!("DELETE FROM {} WHERE {column} = {id}", self.table()));
    }

    fn refuse(&self, id: i64, status: Status) {
        let status = status.name();
        let (table, condition) = match &self.queue {
            None => ("backlog".into(), format!("new.id = {id} AND new.status = '{status}'")),
            Some(queue) => {
                let archive = format!("pgmq.\"a_{}\"", queue.to_lowercase());
                (archive, format!("new.msg_id = {id}"))
            }
        };
        self.database.sql(&format!(
            "CREATE OR REPLACE FUNCTION no() RETURNS trigger LANGUAGE plpgsql \
             AS $$BEGIN RAISE 'no'; END$$; \
             CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW WHEN ({condition}) \
             EXECUTE FUNCTION no()"
        ));
    }
}
