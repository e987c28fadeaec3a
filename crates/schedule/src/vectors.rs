//! Test vectors of the formulas: tests/fixtures/retry.csv.

use std::collections::BTreeMap;

use crate::backoff::{Backoff, Jitter};
use crate::hash::{draw, fnv1a64, phase, splitmix64};
use crate::id::Id;
use crate::query::Slot;
use crate::record::{Facts, Status};
use crate::slots::{DEFAULT_TIERS, Slots, Span, Tiers};
use crate::spec::{PolicyOptions, parse_policy};
use crate::time::Instant;
use crate::verdict::{Reason, Verdict};

/// A row of the file.
struct Row<'a> {
    params: BTreeMap<&'a str, &'a str>,
    id: &'a str,
    n: &'a str,
}

impl Row<'_> {
    fn number(&self, name: &str) -> i64 {
        self.params[name].parse().unwrap()
    }

    fn bits(&self) -> u64 {
        self.id.parse().unwrap()
    }

    fn integer_id(&self) -> Id {
        Id::Integer(self.bits().cast_signed())
    }

    fn n(&self) -> u32 {
        self.n.parse().unwrap()
    }

    /// The policy whose plain waits the row is about, one unit being a second and a tick unless
    /// the row says otherwise.
    fn backoff(&self) -> Backoff {
        let spec = match self.params["base"] {
            "constant" => "constant:delay=300s",
            "exponential" => "exponential:first=60s,base=2,offset=180s",
            "fibonacci" => "fibonacci:unit=1s",
            "geometric" => "geometric:first=1s,ratio=5/4,max=1440s",
            "doubling" => "exponential:first=1s,base=2,max=1440s",
            "quartic" => "sidekiq",
            "cubic" => "buckets",
            "pgmq" => "exponential:first=1s,base=2,max=60s",
            other => panic!("{other}"),
        };
        let spread = self.params.get("spread").map_or(100, |percent| percent.parse().unwrap());
        let every_secs = self.params.get("tick").map_or(1, |tick| tick.parse().unwrap());
        parse_policy(spec, None, PolicyOptions { every_secs, spread: Some(spread) }).unwrap()
    }

    /// A policy that draws its waits.
    fn drawn(&self, spec: &str) -> u64 {
        let backoff =
            parse_policy(spec, None, PolicyOptions { every_secs: 1, spread: None }).unwrap();
        assert!(matches!(backoff.jitter, Jitter::Drawn { .. }));
        backoff.drawn_ms(&self.integer_id(), self.n())
    }

    /// The default tiers, in ticks of five minutes.
    fn slots(&self) -> Slots {
        Slots::Progressive(tiers())
    }

    fn inserted_at(&self) -> Instant {
        Instant(self.number("inserted"))
    }
}

fn tiers() -> Tiers {
    Tiers::parse(DEFAULT_TIERS, PolicyOptions { every_secs: 300, spread: None }).unwrap()
}

fn value(function: &str, row: &Row) -> String {
    let hex = |bits: u64| format!("{bits:#018x}");
    match function {
        "splitmix64" => hex(splitmix64(row.bits())),
        "phase" => hex(phase(&row.integer_id())),
        "fnv1a64" => hex(fnv1a64(row.id.as_bytes())),
        "phase_text" => hex(phase(&Id::Text(row.id.into()))),
        "rnd64" => hex(draw(row.params["seed"].parse().unwrap(), &row.integer_id(), row.n())),
        "base" => (row.backoff().base.wait(row.n().into()) / 1000).to_string(),
        "glide" => row.backoff().exact_delay(&row.integer_id(), row.n()).to_string(),
        "glide_ticks" => row.backoff().exact_delay(&row.integer_id(), row.n()).to_string(),
        "glide_offset" => {
            let x = phase(&row.integer_id());
            row.backoff().offset(x, row.n().into()).to_string()
        }
        "age_count" => {
            let x = phase(&row.integer_id());
            row.backoff().count(x, row.number("age")).to_string()
        }
        "sidekiq" => (row.drawn("sidekiq") / 1000).to_string(),
        "buckets" => (row.drawn("buckets") / 1000).to_string(),
        "pgmq_ms" => row.drawn("exponential:first=1s,base=2,max=60s,jitter=30%").to_string(),
        "zaqar" => {
            // The specification's own linear divides by one more.
            let more = u32::from(row.params["kind"] == "linear_spec");
            let kind = row.params["kind"].trim_end_matches("_spec");
            let (min, max) = (row.params["min"], row.params["max"]);
            let retries = row.params["num"].parse::<u32>().unwrap() + more;
            let spec = format!("{kind}:min={min}s,max={max}s,retries={retries}");
            let options = PolicyOptions { every_secs: 1, spread: None };
            parse_policy(&spec, None, options)
                .unwrap()
                .base
                .wait(u64::from(row.n() - 1))
                .to_string()
        }
        "tier_phases" => {
            assert_eq!(row.params["m"], "1,12,144,288,1152,2304");
            let tiers = tiers();
            let offsets = tiers.offsets(phase(&row.integer_id()));
            offsets.map(|offset| offset.to_string()).collect::<Vec<_>>().join("|")
        }
        "next_slot" => {
            let after = Slot::end_of(row.number("k"));
            let next = row.slots().next(&row.integer_id(), row.inserted_at(), after);
            next.map_or("-1".into(), |slot| slot.tick.to_string())
        }
        "due" => {
            let span =
                Span { after: Slot::end_of(row.number("k_prev")), until: row.number("k_now") };
            let id = row.integer_id();
            let facts = Facts {
                id: &id,
                status: Status::Error,
                inserted_at: Some(row.inserted_at()),
                failures: 0,
                last_failure_at: None,
                due_at: None,
                max_attempts: None,
                snoozed_until: None,
                has_begun: false,
            };
            let due = matches!(
                row.slots().verdict(facts, span, Instant(0)),
                Verdict::Due(Reason::Slot(_))
            );
            u8::from(due).to_string()
        }
        other => panic!("{other}"),
    }
}

/// The expected text in the unit of [`value`]: the specification has six decimals of a second, the program whole
/// milliseconds.
fn expected(function: &str, text: &str) -> String {
    if function != "zaqar" {
        return text.into();
    }
    let micros: u64 = text.replace('.', "").parse().unwrap();
    ((micros + 500) / 1000).to_string()
}

/// The fields of a line of CSV. A field with commas is quoted.
fn fields(line: &str) -> Vec<&str> {
    let mut fields = Vec::new();
    let mut rest = Some(line);
    while let Some(text) = rest {
        let (field, after) = match text.strip_prefix('"') {
            Some(quoted) => {
                let (field, after) = quoted.split_once('"').unwrap();
                (field, after.strip_prefix(','))
            }
            None => text.split_once(',').map_or((text, None), |(field, rest)| (field, Some(rest))),
        };
        fields.push(field);
        rest = after;
    }
    fields
}

#[test]
fn every_row_has_the_expected_value() {
    let csv = include_str!("../../../tests/fixtures/retry.csv");
    let mut wrong = Vec::new();
    let mut rows = 0;
    for line in csv.lines().skip(1) {
        let [function, params, id, n, text] = fields(line)[..] else { panic!("{line}") };
        let params = params.split(';').filter_map(|param| param.split_once('=')).collect();
        let found = value(function, &Row { params, id, n });
        if found != expected(function, text) {
            wrong.push(format!("{line}: {found}"));
        }
        rows += 1;
    }
    assert_eq!(rows, 1_712);
    assert_eq!(wrong, Vec::<String>::new());
}

/// The reference is another program, in another language.
#[test]
fn the_reference_program_writes_the_same_values() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");
    let reference = std::process::Command::new("/usr/bin/python3")
        .args(["-B", "retry.py"])
        .current_dir(directory)
        .output()
        .unwrap();
    let csv = include_str!("../../../tests/fixtures/retry.csv");
    assert!(reference.status.success(), "{}", String::from_utf8_lossy(&reference.stderr));
    assert!(String::from_utf8_lossy(&reference.stdout) == csv, "retry.py prints another file");
}

#[test]
fn the_documents_list_the_first_six_delays_of_each_policy() {
    let mut rows = 0;
    for line in include_str!("../../../docs/schedules.md").lines() {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, spec, waits, ..] = cells[..] else { continue };
        let spec = spec.trim_matches('`');
        if waits.split(' ').count() != 6 || !waits.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let options = PolicyOptions { every_secs: 60, spread: None };
        let backoff = parse_policy(spec, None, options).unwrap();
        let expected = (1..=6).map(|failures| {
            // A delay of 0 ends with the next pass.
            let delay = |id| backoff.delay(&Id::Integer(id), failures).max(1);
            let delays = (1..=5000).map(delay);
            let (low, high) = (delays.clone().min().unwrap(), delays.max().unwrap());
            if low == high { low.to_string() } else { format!("{low}-{high}") }
        });
        assert_eq!(waits, expected.collect::<Vec<_>>().join(" "), "{spec}");
        rows += 1;
    }
    assert_eq!(rows, 11);
}
