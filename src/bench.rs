//! Benchmark of the bookkeeping on a server: the engine with a handler that does nothing, beside
//! what pgmq does in batches, and beside the floor of a commit for each hundred rows. Run by
//! bench/run.py, never with the tests.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant as Monotonic;

use anyhow::Result;

use crate::clock::Clock;
use crate::cluster::{Cluster, Database};
use crate::engine::{self, Handlers, Observer, Pass, PassLimits, Plan, SettledAttempt};
use crate::handlers::{Script, Scripted};
use crate::mapping::Mapping;
use crate::query::{Cursor, Order};
use crate::record::{Id, Record, Settlement};
use crate::schedule::{AgeWindow, Look, Policy, Rules};
use crate::store::{
    Access, Claim, Location, Reader, Rehearsal, RowWrite, Server, Store, TOKEN, WriteResult,
};
use crate::time::{DAY, Instant};

const RECORDS: usize = 40_000;
const BATCH: usize = 100;
const NOW: Instant = Instant(1_795_232_400);

struct Silent;

impl Observer for Silent {
    fn selected(&mut self, _: usize) {}

    fn attempted(&mut self, _: &SettledAttempt) {}

    fn reached(&mut self, _: &Cursor) {}

    fn finished(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A store whose watchdog is not started: here that would be this benchmark once more.
struct Unguarded(Box<dyn Store + Send>);

impl Store for Unguarded {
    fn reader(&mut self) -> &mut dyn Reader {
        self.0.reader()
    }

    fn most_claims(&self) -> usize {
        self.0.most_claims()
    }

    fn claim(&mut self, ids: &[Id]) -> Result<Vec<(Id, Claim)>> {
        self.0.claim(ids)
    }

    fn release(&mut self, id: &Id) {
        self.0.release(id);
    }

    fn rest(&mut self) -> Result<()> {
        self.0.rest()
    }

    fn apply(&mut self, changes: &[RowWrite]) -> Result<Vec<WriteResult>> {
        self.0.apply(changes)
    }

    fn rehearse(
        &mut self,
        record: &Record,
        possible_writes: &[Vec<Settlement>],
    ) -> Result<Rehearsal> {
        self.0.rehearse(record, possible_writes)
    }

    fn start_watchdog(&mut self, _: &str) -> Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.0.finish()
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn clock() -> Clock {
    Clock::new(Some(NOW), || NOW, Monotonic::now)
}

fn pass(database: &Database, counts: bool) -> usize {
    let server = Arc::new(Server::new(&database.url(), &|_| None).unwrap());
    let opened = Location::Server(server).open(&Mapping::default(), Access::ReadWrite).unwrap();
    let state = opened.state_dir(Some(&std::env::temp_dir().join("backlog-bench"))).unwrap();
    let policy = Policy::Age(AgeWindow { min_secs: 0, max_secs: DAY });
    let rules = Rules { has_counter: counts, can_snooze: counts, ..Rules::default() };
    let moment = policy.moment(None, NOW, false);
    let pass = Pass {
        store: Box::new(Unguarded(opened.into_store(&state, clock()).unwrap())),
        look: Look { policy, rules, moment, shard: None, kept: HashMap::new() },
        limits: PassLimits::NONE,
        clock: clock(),
        plan: Plan::full(Order::Newest),
        token: format!("{TOKEN}-bench"),
        observer: Box::new(Silent),
    };
    let summary = engine::run(pass, |_| Ok(Handlers::only(Scripted(Script::After(0))))).unwrap();
    usize::try_from(summary.succeeded).unwrap()
}

/// What pgmq itself does: read a batch, archive it.
fn read_and_archive(database: &Database) -> usize {
    let mut client = database.client();
    let mut done = 0;
    loop {
        let batch = i32::try_from(BATCH).unwrap();
        let rows =
            client.query("SELECT msg_id FROM pgmq.read('bench', 30, $1)", &[&batch]).unwrap();
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        if ids.is_empty() {
            return done;
        }
        done += client
            .query("SELECT pgmq.archive('bench'::text, $1::bigint[])", &[&ids])
            .unwrap()
            .len();
    }
}

/// The least that can be done: a batch of rows is updated by a prepared statement.
fn update(database: &Database) -> usize {
    let mut client = database.client();
    let sql = "UPDATE floor SET status = 'SUCCESS' WHERE id > $1 AND id <= $2";
    let statement = client.prepare(sql).unwrap();
    let mut done = 0;
    for first in (0..RECORDS).step_by(BATCH) {
        let [from, to] = [first, first + BATCH].map(|id| i64::try_from(id).unwrap());
        done += client.execute(&statement, &[&from, &to]).unwrap();
    }
    usize::try_from(done).unwrap()
}

fn rate(what: &str, work: impl FnOnce() -> usize) {
    let clock = clock();
    let began = clock.monotonic();
    let done = work();
    let elapsed = clock.monotonic().saturating_duration_since(began);
    assert_eq!(done, RECORDS, "{what}");
    let rate = RECORDS as f64 / elapsed.as_secs_f64();
    std::io::stdout().write_all(format!("{what}\t{rate:.0}\n").as_bytes()).unwrap();
}

#[test]
#[ignore = "a measurement, for bench/run.py"]
fn postgres() {
    let cluster = Cluster::private(&["fsync=on", "max_wal_size=4GB"]).unwrap();
    let database = cluster.database();
    assert!(database.install_pgmq());
    for _ in 0..3 {
        database.sql("DROP TABLE IF EXISTS backlog, floor");
        database.sql(include_str!("../schema.postgres.sql"));
        database.sql(&format!(
            "CREATE TABLE floor AS SELECT id, 'NEW' AS status, now() AS date_inserted
             FROM generate_series(1::bigint, {RECORDS}) id; ALTER TABLE floor ADD PRIMARY KEY (id);
             SELECT pgmq.drop_queue('bench') FROM pgmq.meta; SELECT pgmq.create('bench');
             SELECT pgmq.send('bench', '{{}}'::jsonb) FROM generate_series(1, {RECORDS});
             INSERT INTO backlog (date_inserted)
             SELECT to_timestamp({} - n) FROM generate_series(1, {RECORDS}) n",
            NOW.0
        ));
        for table in ["backlog", "floor", "pgmq.q_bench"] {
            database.sql(&format!("VACUUM ANALYZE {table}"));
        }
        database.sql("CHECKPOINT");
        rate("floor: 100 rows a commit", || update(&database));
        rate("pgmq: read + archive of 100", || read_and_archive(&database));
        rate("backlog, no counter", || pass(&database, false));
        database.sql("UPDATE backlog SET status = 'NEW'");
        database.sql("VACUUM ANALYZE backlog");
        database.sql("CHECKPOINT");
        rate("backlog, failures counted", || pass(&database, true));
    }
}
