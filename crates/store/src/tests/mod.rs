//! One suite for all stores. A store may lack a property for a stated reason; the suite fails if the store has it after
//! all. docs/architecture.md contains the table.

mod phases;
mod subjects;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use backlog_schedule::{
    Counter, DEFAULT_TIERS, Facts, Id, Instant, Order, PolicyOptions, Query, Record, Settlement,
    Slot, Slots, Span, Status, Tiers, Transition, Window, last_error,
};

use super::{Claim, ClaimRequest, Guards, ReadResult, RowWrite, Store, Until, WriteResult};
use subjects::{InMemory, OnServer, Seed, Sqlite, Subject};
use test_support::cluster::{Pgmq, cluster};

const NOW: Instant = Instant(1_795_232_400);
const DAY: i64 = 86_400;

type Check = fn(&mut dyn Subject);

/// The stores that lack a property, with the reasons.
type Lacking = &'static [(&'static str, &'static str)];

const PROPERTIES: [(&str, Check, Lacking); 26] = [
    ("a search finds the pending records, and no others", pending_is_found, &[]),
    ("a window by age loses nothing", windows_lose_nothing, &[]),
    (
        "a search for slots finds all of them",
        slots_are_found,
        &[("memory", "its agenda is read at once")],
    ),
    ("records come in the requested order", ordered, &[("memory", "simulations use an agenda")]),
    ("a search continues after its page", paged, &[("memory", "its agenda is read at once")]),
    ("an unknown id finds no record", absent, &[]),
    (
        "records are claimed by their ids",
        by_id,
        &[("pgmq", "a queue hands out messages in its own order")],
    ),
    ("no more candidates are claimed than requested", no_more, &[]),
    (
        "a record is claimed by one pass at a time",
        exclusive,
        &[("memory", "a simulation has one pass at a time")],
    ),
    ("a pass claims a record once", once, &[("memory", "a simulation has one pass at a time")]),
    ("a released record can be claimed by others", released, &[]),
    ("a released record is unchanged", as_it_was, &[]),
    (
        "a claim ends with its store",
        dies_with_its_store,
        &[
            ("memory", "there are no claims"),
            ("pgmq", "a message stays hidden for its time, 30 seconds"),
        ],
    ),
    ("a claim reads the record again", afresh, &[]),
    ("a success is written", success, &[]),
    ("a success keeps the count of failures", success_keeps_count, &[]),
    ("a failure is counted once", failure, &[]),
    (
        "a search by count sees snoozes",
        snoozed,
        &[("memory", "no simulated handler asks for time")],
    ),
    ("an attempt that does not count is undone", undone, &[]),
    ("an archived record is kept, and can be restored", archived, &[]),
    ("a row that the application finished stays unchanged", finished_elsewhere, &[]),
    ("a deleted row stays deleted", deleted, &[("memory", "nothing is deleted in a simulation")]),
    ("a round writes each row", rounds, &[]),
    (
        "a refused row does not prevent other writes",
        refused,
        &[("memory", "nothing is refused in a simulation")],
    ),
    (
        "a refused attempt does not prevent outcomes",
        refused_attempt,
        &[
            ("memory", "nothing is refused in a simulation"),
            ("pgmq", "the read of a message is its charge, and is never refused"),
        ],
    ),
    (
        "a repeated write is made once",
        repeated,
        &[("memory", "no session is lost in a simulation")],
    ),
];

const STORES: [&str; 4] = ["sqlite", "postgres", "pgmq", "memory"];

fn conforms(subject: &mut dyn Subject) {
    for (property, check, lacking) in PROPERTIES {
        match lacking.iter().find(|(store, _)| *store == subject.name()) {
            None => check(subject),
            Some((store, _)) => {
                let held = catch_unwind(AssertUnwindSafe(|| check(subject))).is_ok();
                assert!(!held, "{store} has this property now: {property}");
            }
        }
    }
}

#[test]
fn the_table_of_properties_is_in_the_documentation() {
    let mut table = format!("| property | {} |\n|---|---|---|---|---|\n", STORES.join(" | "));
    for (property, _, lacking) in PROPERTIES {
        let cell = |store: &&str| match lacking.iter().find(|(lacks, _)| lacks == store) {
            None => "yes".to_string(),
            Some((_, why)) => format!("no: {why}"),
        };
        let cells: Vec<_> = STORES.iter().map(cell).collect();
        table += &format!("| {property} | {} |\n", cells.join(" | "));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/architecture.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once("| property |").unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    let expected = format!("{before}{table}\n{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    assert!(page == expected, "UPDATE_DOCS=1 writes the table into docs/architecture.md");
}

#[test]
fn sqlite_conforms() {
    conforms(&mut Sqlite::new());
}

#[test]
fn memory_conforms() {
    conforms(&mut InMemory::default());
}

#[test]
fn postgres_conforms() {
    let Some(cluster) = cluster() else { return };
    conforms(&mut OnServer::new(cluster.database(), None));
}

#[test]
fn pgmq_conforms() {
    let Some(cluster) = cluster() else { return };
    for version in [Pgmq::Newest, Pgmq::V1_5_1] {
        let database = cluster.database();
        if database.install_pgmq_version(version) {
            conforms(&mut OnServer::new(database, Some("Jobs to do".into())));
        }
    }
}

// Properties.

fn pending_is_found(subject: &mut dyn Subject) {
    let seeds = [
        (1, Status::New, 0, 0),
        (2, Status::Error, 1, 2),
        (3, Status::Success, 0, 0),
        (4, Status::Archived, 0, 5),
        (5, Status::New, 400, 0),
    ];
    subject.fill(&seeds);
    assert_eq!(sorted(due(&mut *subject.open(), &all_pending())), [1, 2, 5]);
    subject.fill(&seeds);
    let only_new = Query { statuses: vec![Status::New], ..all_pending() };
    assert_eq!(sorted(due(&mut *subject.open(), &only_new)), [1, 5]);
    subject.fill(&seeds);
    let mut store = subject.open();
    let page = store.due(&all_pending(), &mut |facts| facts.id == &Id::Integer(2)).unwrap();
    assert_eq!(page.ids, [Id::Integer(2)], "the policy has the last word");
}

fn windows_lose_nothing(subject: &mut dyn Subject) {
    let seeds: Vec<Seed> = (0..20).map(|days| (days + 1, Status::Error, days, 1)).collect();
    for (from, until) in [(3, 0), (20, 5), (7, 6)] {
        subject.fill(&seeds);
        let [from, until] = [from, until].map(|days| NOW.saturating_sub(days * DAY));
        let query =
            Query { window: Window::Inserted { from, until: Some(until) }, ..all_pending() };
        let mut store = subject.open();
        let mut in_window =
            |facts: Facts<'_>| facts.inserted_at.is_some_and(|at| at >= from && at < until);
        let page = store.due(&query, &mut in_window).unwrap();
        let expected = seeds.iter().map(|(id, _, days, _)| (id, NOW.saturating_sub(days * DAY)));
        let expected: Vec<_> =
            expected.filter(|(_, at)| *at >= from && *at < until).map(|(id, _)| *id).collect();
        assert_eq!(sorted(numbers(&page.ids)), expected);
    }
}

fn slots_are_found(subject: &mut dyn Subject) {
    let ids = (1..=120).chain((1..=40).map(|n| (1 << 60) + (n << 22)));
    let seeds: Vec<Seed> = ids.map(|id| (id, Status::Error, id % 397, 1)).collect();
    subject.fill(&seeds);
    let options = PolicyOptions { every_secs: 300, spread: None };
    let slots = Slots::Progressive(Tiers::parse(DEFAULT_TIERS, options).unwrap());
    let mut found = 0;
    for tick in (0..40).map(|n| NOW.tick(300) + n * 61) {
        for after in [Slot::end_of(tick - 1), Slot::end_of(tick - 4), Slot { tick, phase: 1 << 63 }]
        {
            let span = Span { after, until: tick };
            let inserted = |id: i64| NOW.saturating_sub(id % 397 * DAY);
            let has_slot = |id: i64| {
                let next = slots.next(&Id::Integer(id), inserted(id), after);
                next.is_some_and(|slot| slot.tick <= tick)
            };
            let mut sent = 0;
            let query = Query {
                window: slots.window(span),
                statuses: vec![Status::Error],
                limit: usize::MAX,
                ..all_pending()
            };
            let mut store = subject.open();
            let page = store.due(&query, &mut |facts| {
                sent += 1;
                let Id::Integer(id) = facts.id else { panic!("{}", facts.id) };
                has_slot(*id)
            });
            let mut ids = numbers(&page.unwrap().ids);
            ids.sort_unstable();
            let wanted: Vec<_> =
                seeds.iter().map(|seed| seed.0).filter(|id| has_slot(*id)).collect();
            assert_eq!(ids, wanted, "{span:?}");
            // Besides, the database sends records younger than a day.
            let can_be_sent =
                seeds.iter().filter(|(id, _, age, _)| *age <= 1 || has_slot(*id)).count();
            // SQLite compares text by days.
            let days = if subject.name() == "sqlite" { seeds.len() / 20 } else { 0 };
            assert!(sent <= can_be_sent + days, "{sent} of {}", seeds.len());
            found += wanted.len();
        }
    }
    assert!(found > 100, "{found}");
}

fn ordered(subject: &mut dyn Subject) {
    let seeds = [(9, 2), (10, 1), (7, 1), (8, 3)].map(|(id, days)| (id, Status::New, days, 0));
    subject.fill(&seeds);
    assert_eq!(due(&mut *subject.open(), &all_pending()), [10, 7, 9, 8]);
    let oldest = Query { order: Order::Oldest, ..all_pending() };
    assert_eq!(due(&mut *subject.open(), &oldest), [8, 9, 7, 10]);
}

fn paged(subject: &mut dyn Subject) {
    for order in [Order::Newest, Order::Oldest] {
        let seeds: Vec<Seed> = (1..=7).map(|id| (id, Status::New, id / 3, 0)).collect();
        subject.fill(&seeds);
        let mut store = subject.open();
        let mut query = Query { order, limit: 2, ..all_pending() };
        let mut all = Vec::new();
        loop {
            let page = store.due(&query, &mut |_| true).unwrap();
            assert!(page.ids.len() <= 2);
            all.extend(numbers(&page.ids));
            match page.next {
                Some(key) => query.after = Some(key),
                None => break,
            }
        }
        let whole = Query { order, ..all_pending() };
        assert_eq!(all, due(&mut *subject.open(), &whole));
        assert_eq!(all.len(), 7);
    }
}

fn absent(subject: &mut dyn Subject) {
    subject.fill(&[(1, Status::New, 0, 0)]);
    let mut store = subject.open();
    for id in [Id::Integer(2), Id::Integer(-1), Id::Text("x".into())] {
        assert!(matches!(store.read(&id).unwrap(), ReadResult::Gone), "{id}");
    }
}

fn by_id(subject: &mut dyn Subject) {
    subject.fill(&[(1, Status::New, 0, 0), (2, Status::New, 1, 0), (3, Status::New, 2, 0)]);
    let mut store = subject.open();
    let ids = [3, 9, 2].map(Id::Integer);
    let claims = store.claim(ClaimRequest::Next(&ids, ids.len())).unwrap();
    let held: Vec<_> = claims.iter().map(|(id, claim)| (id.clone(), is_held(claim))).collect();
    let [three, nine, two] = ids;
    assert_eq!(held, [(three, true), (nine, false), (two, true)]);
}

fn no_more(subject: &mut dyn Subject) {
    let seeds: Vec<Seed> = (1..=9).map(|id| (id, Status::New, id, 0)).collect();
    subject.fill(&seeds);
    subject.finish(1);
    let ids: Vec<_> = (1..=9).map(Id::Integer).collect();
    let mut store = subject.open();
    let claims = store.claim(ClaimRequest::Next(&ids, 2)).unwrap();
    assert!((2..=9).contains(&claims.len()), "{claims:?}");
    let is_pending =
        |claim: &Claim| matches!(claim, Claim::Held(record) if record.status.is_pending());
    let held = claims.iter().filter(|(_, claim)| is_pending(claim)).count();
    assert!((1..=2).contains(&held), "{claims:?}");
}

fn exclusive(subject: &mut dyn Subject) {
    subject.fill(&[(1, Status::New, 0, 0)]);
    let (mut one, mut other) = (subject.open(), subject.open());
    assert!(claim(&mut *one, 1).is_some());
    assert!(claim(&mut *other, 1).is_none());
}

fn once(subject: &mut dyn Subject) {
    subject.fill(&[(1, Status::New, 0, 0)]);
    let mut store = subject.open();
    assert!(claim(&mut *store, 1).is_some());
    assert!(claim(&mut *store, 1).is_none());
}

fn released(subject: &mut dyn Subject) {
    subject.fill(&[(1, Status::New, 0, 0)]);
    let (mut one, mut other) = (subject.open(), subject.open());
    for _ in 0..2 {
        for store in [&mut one, &mut other] {
            assert!(claim(&mut **store, 1).is_some());
            store.release(&Id::Integer(1));
            store.flush(Until::Idle).unwrap();
        }
    }
}

fn as_it_was(subject: &mut dyn Subject) {
    subject.fill(&[(1, Status::New, 0, 0)]);
    let mut store = subject.open();
    claim(&mut *store, 1).unwrap();
    store.release(&Id::Integer(1));
    store.flush(Until::Idle).unwrap();
    assert_eq!(read_back(&mut *store, 1), (Status::New, 0));
}

fn dies_with_its_store(subject: &mut dyn Subject) {
    subject.fill(&[(1, Status::New, 0, 0)]);
    let (mut one, mut other) = (subject.open(), subject.open());
    claim(&mut *one, 1).unwrap();
    assert!(claim(&mut *other, 1).is_none());
    drop(one);
    // A server notices later that a client is gone, under load much later.
    let tries = if subject.name() == "postgres" { 20_000 } else { 100 };
    let is_free = (0..tries).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        claim(&mut *other, 1).is_some()
    });
    assert!(is_free);
}

fn afresh(subject: &mut dyn Subject) {
    subject.fill(&[(1, Status::New, 0, 0)]);
    let (mut one, mut other) = (subject.open(), subject.open());
    assert_eq!(due(&mut *one, &all_pending()), [1]);
    settle(&mut *other, 1, Transition::Succeeded);
    other.release(&Id::Integer(1));
    other.flush(Until::Idle).unwrap();
    let found = claim(&mut *one, 1);
    assert!(found.is_none_or(|record| record.status == Status::Success));
}

fn success(subject: &mut dyn Subject) {
    subject.fill(&[(1, Status::Error, 0, 2)]);
    let mut store = subject.open();
    settle(&mut *store, 1, Transition::Succeeded);
    assert_eq!(read_back(&mut *store, 1).0, Status::Success);
    assert_eq!(due(&mut *subject.open(), &all_pending()), [0; 0]);
}

fn success_keeps_count(subject: &mut dyn Subject) {
    subject.fill(&[(1, Status::Error, 0, 2)]);
    let mut store = subject.open();
    settle(&mut *store, 1, Transition::Succeeded);
    assert_eq!(read_back(&mut *store, 1), (Status::Success, 2));
}

fn failure(subject: &mut dyn Subject) {
    subject.fill(&[(1, Status::New, 0, 0)]);
    let mut store = subject.open();
    settle(&mut *store, 1, Transition::Failed);
    assert_eq!(read_back(&mut *store, 1), (Status::Error, 1));
}

fn snoozed(subject: &mut dyn Subject) {
    subject.fill(&[(1, Status::New, 0, 0)]);
    let mut store = subject.open();
    let until = NOW.saturating_add(86_400);
    let record = claim(&mut *store, 1).unwrap();
    let snoozed = Settlement {
        transition: Transition::Failed,
        counter: Counter::Set {
            failures: 0,
            last_failure_at: NOW,
            last_error: Some(last_error::snoozed(until, "it's busy")),
        },
        at: NOW,
        not_before: Some(until),
    };
    let charged = begin(&mut *store, &record);
    let write = RowWrite::new(&record, Some(&charged), snoozed);
    let write = RowWrite { retry_at: Some(until), ..write };
    assert_eq!(store.round(&[write], &[]).unwrap(), [WriteResult::Written]);
    let hour = NOW.saturating_add(3_600);
    let window = Window::Failed { before: vec![hour], future: hour };
    let mut seen = Vec::new();
    let page = store.due(&Query { window, ..all_pending() }, &mut |facts| {
        seen.push(facts.snoozed_until.or(facts.due_at));
        true
    });
    assert_eq!((numbers(&page.unwrap().ids), seen), (vec![1], vec![Some(until)]));
}

fn undone(subject: &mut dyn Subject) {
    subject.fill(&[(1, Status::New, 0, 0)]);
    let mut store = subject.open();
    settle(&mut *store, 1, Transition::Undone);
    assert_eq!(read_back(&mut *store, 1), (Status::New, 0));
}

fn archived(subject: &mut dyn Subject) {
    subject.fill(&[(1, Status::Error, 0, 4)]);
    let mut store = subject.open();
    settle(&mut *store, 1, Transition::Archived);
    store.release(&Id::Integer(1));
    assert_eq!(read_back(&mut *store, 1), (Status::Archived, 5));
    let claims = store.claim(ClaimRequest::Named(&[Id::Integer(1)])).unwrap();
    let [(_, Claim::Held(record))] = &claims[..] else { panic!("{claims:?}") };
    let settlement = Settlement {
        transition: Transition::Renewed,
        counter: Counter::Reset,
        at: NOW,
        not_before: None,
    };
    let write = RowWrite::new(record, None, settlement);
    assert_eq!(store.round(&[write], &[]).unwrap(), [WriteResult::Written]);
    store.release(&Id::Integer(1));
    assert_eq!(read_back(&mut *store, 1), (Status::New, 0));
    assert!(claim(&mut *store, 1).is_some());
}

fn finished_elsewhere(subject: &mut dyn Subject) {
    subject.fill(&[(1, Status::New, 0, 0)]);
    let mut store = subject.open();
    let record = claim(&mut *store, 1).unwrap();
    subject.finish(1);
    let write = RowWrite::new(&record, None, settlement(&record, Transition::Failed));
    assert_eq!(store.round(&[write], &[]).unwrap(), [WriteResult::ChangedMeanwhile]);
    assert_eq!(read_back(&mut *store, 1).0, Status::Success);
}

fn deleted(subject: &mut dyn Subject) {
    subject.fill(&[(1, Status::New, 0, 0)]);
    let mut store = subject.open();
    let record = claim(&mut *store, 1).unwrap();
    subject.delete(1);
    let write = RowWrite::new(&record, None, settlement(&record, Transition::Succeeded));
    assert_eq!(store.round(&[write], &[]).unwrap(), [WriteResult::ChangedMeanwhile]);
    store.release(&Id::Integer(1));
    store.flush(Until::Idle).unwrap();
    assert!(claim(&mut *store, 1).is_none());
}

fn rounds(subject: &mut dyn Subject) {
    let half = [(Status::New, 0), (Status::Error, 1)].into_iter().cycle();
    let seeds: Vec<Seed> =
        (1..=60).zip(half).map(|(id, (status, failures))| (id, status, id, failures)).collect();
    subject.fill(&seeds);
    let mut store = subject.open();
    let ids: Vec<_> = (1..=60).map(Id::Integer).collect();
    let claims = store.claim(ClaimRequest::Next(&ids, ids.len())).unwrap();
    let mut records: Vec<Arc<Record>> = Vec::new();
    for (_, claim) in claims {
        if let Claim::Held(record) = claim {
            records.push(record);
        }
    }
    assert_eq!(records.len(), 60);
    let transition = |record: &Record| match numbers(std::slice::from_ref(&record.id))[0] % 3 {
        0 => Transition::Succeeded,
        1 => Transition::Failed,
        _ => Transition::Archived,
    };
    let begin = |record| RowWrite::new(record, None, settlement(record, Transition::Begun));
    let begun = store.round(&records.iter().map(begin).collect::<Vec<_>>(), &[]).unwrap();
    let begun: Vec<Guards> = begun.into_iter().map(guards).collect();
    subject.finish(30);
    let end = |(record, charged)| {
        RowWrite::new(record, Some(charged), settlement(record, transition(record)))
    };
    let ended = store.round(&records.iter().zip(&begun).map(end).collect::<Vec<_>>(), &[]).unwrap();
    for (record, result) in records.iter().zip(ended) {
        let id = numbers(std::slice::from_ref(&record.id))[0];
        let (expected, status) = match transition(record) {
            _ if id == 30 => (WriteResult::ChangedMeanwhile, Status::Success),
            Transition::Succeeded => (WriteResult::Written, Status::Success),
            Transition::Failed => (WriteResult::Written, Status::Error),
            Transition::Archived | Transition::Begun | Transition::Undone | Transition::Renewed => {
                (WriteResult::Written, Status::Archived)
            }
        };
        assert_eq!((id, result), (id, expected));
        assert_eq!((id, read_back(&mut *store, id).0), (id, status));
        store.release(&record.id);
    }
    store.flush(Until::Durable).unwrap();
}

fn refused(subject: &mut dyn Subject) {
    let seeds: Vec<Seed> = (1..=3).map(|id| (id, Status::New, 0, 0)).collect();
    subject.fill(&seeds);
    subject.refuse(2, Status::Success);
    let mut store = subject.open();
    let records: Vec<_> = (1..=3).map(|id| claim(&mut *store, id).unwrap()).collect();
    let ends = |record| RowWrite::new(record, None, settlement(record, Transition::Succeeded));
    let mut writes: Vec<_> = records.iter().map(ends).collect();
    let [.., last] = &records[..] else { panic!("{records:?}") };
    writes[2] = RowWrite::new(last, None, settlement(last, Transition::Begun));
    let written = store.round(&writes, &[]).unwrap();
    let [WriteResult::Written, WriteResult::Refused(_), WriteResult::Charged(charged)] =
        &written[..]
    else {
        panic!("{written:?}")
    };
    let failed = RowWrite::new(last, Some(charged), settlement(last, Transition::Failed));
    let failed = RowWrite { retry_at: Some(NOW), ..failed };
    assert_eq!(store.round(&[failed], &[]).unwrap(), [WriteResult::Written]);
    let is_pending = |id| read_back(&mut *store, id).0.is_pending();
    assert_eq!([1, 2, 3].map(is_pending), [false, true, true]);
    assert_eq!(read_back(&mut *store, 3), (Status::Error, 1));
}

fn refused_attempt(subject: &mut dyn Subject) {
    subject.fill(&[(1, Status::New, 0, 0), (2, Status::New, 0, 0)]);
    let mut store = subject.open();
    let [first, second] = [1, 2].map(|id| claim(&mut *store, id).unwrap());
    let begun = begin(&mut *store, &first);
    subject.refuse(2, Status::Error);
    let success = settlement(&first, Transition::Succeeded);
    let outcome = RowWrite::new(&first, Some(&begun), success);
    let charge = RowWrite::new(&second, None, settlement(&second, Transition::Begun));
    let written = store.round(&[outcome, charge], &[]).unwrap();
    assert!(matches!(written[..], [WriteResult::Written, WriteResult::Refused(_)]), "{written:?}");
    assert_eq!(read_back(&mut *store, 1).0, Status::Success);
    assert_eq!(read_back(&mut *store, 2).0, Status::New);
}

fn repeated(subject: &mut dyn Subject) {
    subject.fill(&[(1, Status::New, 0, 0)]);
    let mut store = subject.open();
    let record = claim(&mut *store, 1).unwrap();
    let begun = begin(&mut *store, &record);
    let again = |write| RowWrite { is_repeated: true, ..write };
    let charge = RowWrite::new(&record, None, settlement(&record, Transition::Begun));
    assert_eq!(guards(store.round(&[again(charge)], &[]).unwrap().remove(0)), begun);
    for is_repeated in [false, true] {
        let success = settlement(&record, Transition::Succeeded);
        let write = RowWrite { is_repeated, ..RowWrite::new(&record, Some(&begun), success) };
        assert_eq!(store.round(&[write], &[]).unwrap(), [WriteResult::Written]);
    }
    assert_eq!(read_back(&mut *store, 1).0, Status::Success);
}

// Helpers.

fn all_pending() -> Query {
    Query {
        window: Window::All,
        statuses: Status::PENDING.to_vec(),
        order: Order::Newest,
        after: None,
        up_to: None,
        limit: 1_000,
    }
}

fn due(store: &mut dyn Store, query: &Query) -> Vec<i64> {
    let page = store.due(query, &mut |_| true).unwrap();
    assert_eq!(page.next, None);
    numbers(&page.ids)
}

fn numbers(ids: &[Id]) -> Vec<i64> {
    let number = |id: &Id| match id {
        Id::Integer(number) => *number,
        Id::Text(_) | Id::Bytes(_) | Id::Composite(_) => panic!("{id} is no number"),
    };
    ids.iter().map(number).collect()
}

fn sorted(mut numbers: Vec<i64>) -> Vec<i64> {
    numbers.sort_unstable();
    numbers
}

fn is_held(claim: &Claim) -> bool {
    matches!(claim, Claim::Held(_))
}

fn claim(store: &mut dyn Store, id: i64) -> Option<Arc<Record>> {
    let claims = store.claim(ClaimRequest::Next(&[Id::Integer(id)], 1)).unwrap();
    claims.into_iter().find_map(|(_, claim)| match claim {
        Claim::Held(record) => Some(record),
        Claim::Busy | Claim::NotAsked | Claim::Gone | Claim::Ambiguous | Claim::Unreadable(_) => {
            None
        }
    })
}

fn settlement(record: &Record, transition: Transition) -> Settlement {
    let failed = Counter::Set {
        failures: record.next_attempt(),
        last_failure_at: NOW,
        last_error: Some("it's broken".into()),
    };
    let counter = match transition {
        Transition::Begun | Transition::Failed | Transition::Archived => failed,
        Transition::Undone | Transition::Succeeded | Transition::Renewed => Counter::AsBefore,
    };
    Settlement { transition, counter, at: NOW, not_before: None }
}

/// Claims a record, and writes its charge and its outcome.
fn settle(store: &mut dyn Store, id: i64, end: Transition) {
    let record = claim(store, id).unwrap();
    let charged = begin(store, &record);
    let write = RowWrite::new(&record, Some(&charged), settlement(&record, end));
    let write = RowWrite { retry_at: Some(NOW), ..write };
    assert_eq!(store.round(&[write], &[]).unwrap(), [WriteResult::Written], "{end:?}");
}

fn begin(store: &mut dyn Store, record: &Arc<Record>) -> Guards {
    let write = RowWrite::new(record, None, settlement(record, Transition::Begun));
    let write = RowWrite { retry_at: Some(NOW), ..write };
    guards(store.round(&[write], &[]).unwrap().remove(0))
}

fn guards(result: WriteResult) -> Guards {
    match result {
        WriteResult::Charged(guards) => guards,
        WriteResult::Written
        | WriteResult::WrittenAfterLoss
        | WriteResult::ChangedMeanwhile
        | WriteResult::ClaimLost
        | WriteResult::Refused(_) => {
            panic!("{result:?}")
        }
    }
}

fn read_back(store: &mut dyn Store, id: i64) -> (Status, u32) {
    match store.read(&Id::Integer(id)).unwrap() {
        ReadResult::Record(record) => (record.status, record.failures),
        found @ (ReadResult::Gone | ReadResult::Ambiguous) => panic!("record {id}: {found:?}"),
    }
}
