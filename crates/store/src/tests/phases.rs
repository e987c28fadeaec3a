//! The phase of an id in SQL, which is the same as in the program for all types of columns.

use backlog_schedule::{Id, Instant, MOST_PHASE, Query, SlotStretch, Status, Window, phase31};

use super::{NOW, all_pending};
use crate::clock::Clock;
use crate::mapping::Mapping;
use crate::{Access, Location};
use test_support::cluster::cluster;

const NUMBERS: &[i64] = &[
    0,
    1,
    2,
    41,
    -1,
    -2,
    32_767,
    -32_768,
    2_147_483_647,
    -2_147_483_648,
    2_147_483_648,
    4_294_967_297,
    1_850_000_000_000_000_000,
    1_850_000_000_004_194_304,
    i64::MAX,
    i64::MIN,
];
const TEXTS: &[&str] = &["", "b", "B", "order-1", "é", "日本", "it's", "back\\slash", "00", " x"];
const UUIDS: &[&str] =
    &["3f2504e0-4f89-11d3-9a0c-0305e82c3301", "3F2504E0-4F89-11D3-9A0C-0305E82C3302"];

/// Searches for halves, eighths and several ranges of phases.
fn phases_agree(location: &Location, rows: usize, id_type: &str) {
    let database =
        || location.open(&Mapping::default(), Access::ReadOnly, Clock::at(Instant(0))).unwrap();
    let found = |window: Window| {
        let query = Query { window, statuses: vec![Status::Error], ..all_pending() };
        let mut phases = Vec::new();
        database()
            .due(&query, &mut |facts| {
                phases.push(facts.id.clone());
                true
            })
            .unwrap();
        phases.sort_by_key(Id::to_string);
        phases
    };
    let all = found(Window::All);
    assert_eq!(all.len(), rows, "{id_type}");
    let eighth = |number: u32| MOST_PHASE / 8 * number..=MOST_PHASE / 8 * (number + 1) - 1;
    for phases in [
        vec![0..=MOST_PHASE / 2],
        vec![MOST_PHASE / 2 + 1..=MOST_PHASE],
        vec![eighth(3)],
        vec![0..=MOST_PHASE / 4, MOST_PHASE / 4 * 3..=MOST_PHASE],
        vec![eighth(0), eighth(2), eighth(5)],
    ] {
        let stretch = SlotStretch { from: Instant(0), until: NOW, phases: phases.clone() };
        // An older tier without records.
        let older = SlotStretch { from: Instant(-1), until: Instant(0), phases: vec![eighth(1)] };
        let window = Window::Slots(vec![stretch, older]);
        let is_wanted = |id: &&Id| {
            let phase = phase31(id);
            phases.iter().any(|range| range.contains(&phase))
        };
        let wanted: Vec<_> = all.iter().filter(is_wanted).cloned().collect();
        assert_eq!(found(window), wanted, "{id_type}, {phases:?}");
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn insert(ids: &[String]) -> String {
    let rows: Vec<_> =
        ids.iter().map(|id| format!("({id}, 'ERROR', '2026-11-20 10:00:00')")).collect();
    format!("INSERT INTO BACKLOG VALUES {}", rows.join(", "))
}

#[test]
fn postgres_calculates_phases_like_the_program() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    let numbers = |most: i64| {
        let fit = NUMBERS.iter().filter(|number| (-most - 1..=most).contains(*number));
        fit.map(ToString::to_string).collect::<Vec<_>>()
    };
    let texts = |texts: &[&str]| texts.iter().map(|text| quoted(text)).collect::<Vec<_>>();
    for (id_type, ids) in [
        ("bigint", numbers(i64::MAX)),
        ("integer", numbers(i32::MAX.into())),
        ("smallint", numbers(i16::MAX.into())),
        ("text", [texts(TEXTS), texts(UUIDS)].concat()),
        ("char(12)", texts(&TEXTS[1..])),
        ("uuid", texts(UUIDS)),
    ] {
        database.sql(&format!(
            "DROP TABLE IF EXISTS backlog; \
             CREATE TABLE backlog (id {id_type}, status text, date_inserted timestamptz); {}",
            insert(&ids)
        ));
        let location = Location::from_url(&database.url(), None, &|_| None).unwrap();
        phases_agree(&location, ids.len(), id_type);
    }
}

#[test]
fn sqlite_calculates_phases_of_numbers_like_the_program() {
    let directory = tempfile::tempdir().unwrap();
    for (id_type, is_number) in [
        ("INTEGER PRIMARY KEY", true),
        ("INT PRIMARY KEY", false),
        ("INTEGER PRIMARY KEY DESC", false),
    ] {
        let path = directory.path().join(id_type);
        let connection = rusqlite::Connection::open(&path).unwrap();
        let numbers: Vec<_> = NUMBERS.iter().map(ToString::to_string).collect();
        let table = format!("CREATE TABLE backlog (id {id_type}, status text, date_inserted text)");
        connection.execute_batch(&format!("{table}; {}", insert(&numbers))).unwrap();
        let location = Location::File(path);
        phases_agree(&location, NUMBERS.len(), id_type);
        let inserted =
            connection.execute_batch(&insert(&[quoted("b"), "x'00'".into(), "0.5".into()]));
        assert_eq!(inserted.is_err(), is_number, "{id_type}");
        // The database sends these, because only the program calculates their phases.
        let stretch = SlotStretch { from: Instant(0), until: NOW, phases: vec![0..=0] };
        let window = Window::Slots(vec![stretch]);
        let query = Query { window, statuses: vec![Status::Error], ..all_pending() };
        let mut database =
            location.open(&Mapping::default(), Access::ReadOnly, Clock::at(Instant(0))).unwrap();
        let mut sent = 0;
        let page = database.due(&query, &mut |_| {
            sent += 1;
            false
        });
        let others =
            sent - NUMBERS.iter().filter(|number| phase31(&Id::Integer(**number)) == 0).count();
        assert_eq!(
            others as u64 + page.unwrap().unusable,
            if is_number { 0 } else { 3 },
            "{id_type}"
        );
    }
}
