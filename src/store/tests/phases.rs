//! The phase of an id in the SQL of a server: that of the program, whatever type the column has.

use super::{NOW, selection};
use crate::hash::{MOST_PHASE, phase31};
use crate::mapping::Mapping;
use crate::query::{Query, SlotStretch, Window};
use crate::record::{Id, Status};
use crate::store::{Access, Location};
use crate::time::Instant;
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

/// Searches for each half, and for every other eighth, of the phases under several salts.
fn agree(location: &Location, rows: usize, what: &str) {
    let database = || location.open(&Mapping::default(), Access::ReadOnly).unwrap();
    let found = |window: Window| {
        let query = Query { window, statuses: vec![Status::Error], ..selection() };
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
    assert_eq!(all.len(), rows, "{what}");
    for salt in [0, 7, u64::MAX] {
        for (from, to) in [
            (0, MOST_PHASE / 2),
            (MOST_PHASE / 2 + 1, MOST_PHASE),
            (MOST_PHASE / 8 * 3, MOST_PHASE / 2),
        ] {
            let phases = from..=to;
            let stretch = SlotStretch { from: Instant(0), until: NOW, phases: phases.clone() };
            let window = Window::Slots { stretches: vec![stretch], salt };
            let wanted: Vec<_> =
                all.iter().filter(|id| phases.contains(&phase31(id, salt))).cloned().collect();
            assert_eq!(found(window), wanted, "{what}, salt {salt}, {phases:?}");
        }
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
fn postgres_reckons_phases_as_the_program_does() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    let numbers = |most: i64| {
        let fit = NUMBERS.iter().filter(|it| (-most - 1..=most).contains(*it));
        fit.map(ToString::to_string).collect::<Vec<_>>()
    };
    let texts = |texts: &[&str]| texts.iter().map(|it| quoted(it)).collect::<Vec<_>>();
    for (of, ids) in [
        ("bigint", numbers(i64::MAX)),
        ("integer", numbers(i32::MAX.into())),
        ("smallint", numbers(i16::MAX.into())),
        ("text", [texts(TEXTS), texts(UUIDS)].concat()),
        ("char(12)", texts(&TEXTS[1..])),
        ("uuid", texts(UUIDS)),
    ] {
        database.sql(&format!(
            "DROP TABLE IF EXISTS backlog; \
             CREATE TABLE backlog (id {of}, status text, date_inserted timestamptz); {}",
            insert(&ids)
        ));
        let location = Location::at(&database.url(), None, &|_| None).unwrap();
        agree(&location, ids.len(), of);
    }
}
