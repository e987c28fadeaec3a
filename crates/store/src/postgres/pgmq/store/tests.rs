//! Leases that run out. The tests set the clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};

use backlog_schedule::{Counter, Settlement, Transition};

use super::*;
use crate::clock::Clock;
use crate::database::Access;
use crate::mapping::Mapping;
use crate::postgres::Server;
use crate::postgres::pgmq::open;
use test_support::cluster::{Database, Pgmq, cluster};

/// A queue with three messages, all read.
struct TestQueue {
    database: Database,
    store: PgmqStore,
    records: Vec<Arc<Record>>,
    secs: Arc<AtomicU64>,
    lost: Receiver<Vec<Id>>,
}

impl TestQueue {
    fn new() -> Option<Self> {
        let database = cluster()?.database();
        if !database.install_pgmq_version(Pgmq::V1_5_1) {
            return None;
        }
        database.sql("SELECT pgmq.create('jobs'); SELECT pgmq.send_batch('jobs', array_fill('{}'::jsonb, ARRAY[3]))");
        let server = Arc::new(Server::new(&database.url(), &|_| None).unwrap());
        let clock = Clock::at(Instant(1_795_232_400));
        let opened = open(&server, "jobs", &Mapping::default(), Access::ReadWrite, clock).unwrap();
        let queue = opened.engine.queue.clone().unwrap();
        let mut store = PgmqStore::new(queue, opened);
        let (secs, (ends, lost)) = (Arc::new(AtomicU64::new(100)), channel());
        let now = secs.clone();
        store.now = Box::new(move || Duration::from_secs(now.load(Ordering::SeqCst)));
        store.lost = Some(ends);
        let wanted = [1, 2, 3].map(Id::Integer);
        let held = |(_, claim)| if let Claim::Held(record) = claim { Some(record) } else { None };
        let records = store
            .claim(ClaimRequest::Next(&wanted, wanted.len()))
            .unwrap()
            .into_iter()
            .filter_map(held)
            .collect();
        Some(Self { database, store, records, secs, lost })
    }

    /// Runs a heartbeat at this time.
    fn beat_at(&mut self, secs: u64) {
        self.secs.store(secs, Ordering::SeqCst);
        self.store.keep_claims(false).unwrap();
    }

    /// The messages whose handlers were ended since the last call.
    fn ended(&self) -> Vec<i64> {
        let mut ended: Vec<_> =
            self.lost.try_iter().flatten().filter_map(|id| msg_id(&id)).collect();
        ended.sort_unstable();
        ended.dedup();
        ended
    }

    /// Writes an outcome of the record with this number.
    fn end(&mut self, number: usize, transition: Transition) -> WriteResult {
        let record = &self.records[number - 1];
        let at = Instant(1_795_232_400);
        let counter = Counter::Set { failures: 1, last_failure_at: at, last_error: None };
        let settlement = Settlement { transition, counter, at, not_before: None };
        let change = RowWrite { retry_at: Some(at), ..RowWrite::new(record, None, settlement) };
        self.store.round(&[change], &[]).unwrap().remove(0)
    }
}

#[test]
fn what_is_extended_in_time_stays_in_hand() {
    let Some(mut queue) = TestQueue::new() else { return };
    for secs in [110, 120, 130, 140] {
        queue.beat_at(secs);
    }
    assert_eq!(queue.ended(), [0; 0]);
    assert_eq!(queue.end(1, Transition::Failed), WriteResult::Written);
    assert_eq!(queue.store.deadline, Some(Lease::requested_at(Duration::from_secs(140))));
    assert_eq!(queue.end(2, Transition::Succeeded), WriteResult::Written);
    assert_eq!(queue.end(3, Transition::Succeeded), WriteResult::Written);
    assert_eq!(queue.store.deadline, None, "nothing is in hand, so that nothing is to be ended");
}

#[test]
fn a_lease_that_ran_out_is_lost_unless_its_handler_has_succeeded() {
    let Some(mut queue) = TestQueue::new() else { return };
    // The pass was stopped until here.
    queue.beat_at(140);
    assert_eq!(queue.ended(), [1, 2, 3]);
    queue.beat_at(141);
    assert_eq!(queue.ended(), [1, 2, 3], "a handler that was just starting hears it as well");
    assert_eq!(queue.end(1, Transition::Begun), WriteResult::ClaimLost);
    assert_eq!(queue.end(1, Transition::Failed), WriteResult::ClaimLost);
    assert_eq!(queue.end(2, Transition::Succeeded), WriteResult::Written);
    queue.database.sql("SELECT pgmq.set_vt('jobs', 3, -1); SELECT pgmq.read('jobs', 30, 1)");
    assert_eq!(queue.end(3, Transition::Succeeded), WriteResult::ClaimLost);
    let rows = "SELECT msg_id, read_ct FROM pgmq.q_jobs ORDER BY 1";
    assert_eq!(queue.database.query(rows), "1|1\n3|2");
}

#[test]
fn a_message_that_cannot_be_extended_ends_its_own_handler_only() {
    let Some(mut queue) = TestQueue::new() else { return };
    let mut application = queue.database.client();
    application
        .batch_execute("BEGIN; SELECT FROM pgmq.q_jobs WHERE msg_id = 2 FOR UPDATE")
        .unwrap();
    queue.beat_at(110);
    assert_eq!(queue.ended(), [0; 0], "the next heartbeat may extend it");
    queue.beat_at(120);
    assert_eq!(queue.ended(), [2]);
    queue.beat_at(130);
    application.batch_execute("ROLLBACK").unwrap();
    queue.beat_at(140);
    assert_eq!(queue.ended(), [2]);
    assert_eq!(queue.end(2, Transition::Failed), WriteResult::ClaimLost);
    assert_eq!(queue.end(1, Transition::Failed), WriteResult::Written);
}

#[test]
fn a_message_that_somebody_else_reads_ends_its_handler_at_the_next_heartbeat() {
    let Some(mut queue) = TestQueue::new() else { return };
    queue.database.sql("SELECT pgmq.set_vt('jobs', 3, -1)");
    queue.database.sql("SELECT pgmq.read('jobs', 30, 1); SELECT pgmq.delete('jobs', 1)");
    queue.beat_at(110);
    assert_eq!(queue.ended(), [3], "nobody else has what was deleted");
    queue.beat_at(120);
    queue.beat_at(130);
    assert_eq!(queue.ended(), [3]);
    assert_eq!(queue.end(1, Transition::Succeeded), WriteResult::ChangedMeanwhile);
    assert_eq!(queue.end(3, Transition::Failed), WriteResult::ClaimLost);
    assert_eq!(queue.end(2, Transition::Failed), WriteResult::Written);
}

#[test]
fn a_lease_is_over_five_seconds_before_the_message_is_visible_again() {
    let secs = Duration::from_secs;
    let lease = Lease::requested_at(secs(100));
    assert_eq!(lease.deadline, secs(125));
    // The heartbeats come at 110, 120 and 130 s.
    for (now, is_overdue, is_running_out, is_over) in [
        (100, false, false, false),
        (110, false, false, false),
        (113, true, false, false),
        (115, true, true, false),
        (124, true, true, false),
        (125, true, true, true),
        (160, true, true, true),
    ] {
        let now = secs(now);
        assert_eq!(lease.is_overdue(now), is_overdue, "{now:?}");
        assert_eq!(lease.is_running_out(now), is_running_out, "{now:?}");
        assert_eq!(lease.is_over(now), is_over, "{now:?}");
    }
    assert!(lease.is_over(secs(125) - GUARD));
}
