//! Benchmark of the bookkeeping on a server: the engine with a handler that does nothing, beside
//! what pgmq does in batches, and beside the floor of a commit for each hundred rows. Run by
//! bench/run.py.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on fails")]

use std::io::Write;
use std::time::Instant;

use backlog::bench::{NOW_SECS, pass};
use test_support::cluster::{Cluster, Database};

const RECORDS: usize = 40_000;
const BATCH: usize = 100;

fn backlog(database: &Database, counts: bool) -> usize {
    let state_dir = std::env::temp_dir().join("backlog-bench");
    usize::try_from(pass(&database.url(), &state_dir, counts).unwrap()).unwrap()
}

/// The queue functions of pgmq themselves: read a batch, archive it.
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
    #[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    let began = Instant::now();
    let done = work();
    let elapsed = began.elapsed();
    assert_eq!(done, RECORDS, "{what}");
    let rate = RECORDS as f64 / elapsed.as_secs_f64();
    std::io::stdout().write_all(format!("{what}\t{rate:.0}\n").as_bytes()).unwrap();
}

fn main() {
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
             SELECT to_timestamp({NOW_SECS} - n) FROM generate_series(1, {RECORDS}) n"
        ));
        for table in ["backlog", "floor", "pgmq.q_bench"] {
            database.sql(&format!("VACUUM ANALYZE {table}"));
        }
        database.sql("CHECKPOINT");
        rate("floor: 100 rows a commit", || update(&database));
        rate("pgmq: read + archive of 100", || read_and_archive(&database));
        rate("backlog, no counter", || backlog(&database, false));
        database.sql("UPDATE backlog SET status = 'NEW'");
        database.sql("VACUUM ANALYZE backlog");
        database.sql("CHECKPOINT");
        rate("backlog, failures counted", || backlog(&database, true));
    }
}
