//! Properties of every policy, whatever the record and however often it failed.

use std::collections::HashMap;

use proptest::prelude::*;

use crate::backoff::{Backoff, Jitter};
use crate::due_rule::DueRule;
use crate::id::Id;
use crate::policy::{PassTime, Policy, Schedule};
use crate::query::{Slot, Window};
use crate::record::{Capabilities, Facts, Status};
use crate::settle::RetryLimits;
use crate::slots::{DEFAULT_TIERS, Slots, Span, Tiers};
use crate::spec::{PolicyOptions, parse_policy};
use crate::time::{DAY, Instant};
use crate::verdict::Verdict;

const NOW: Instant = Instant(1_795_219_200);
const LONGEST_SECS: i64 = 30 * DAY;

/// One of each kind; their plain waits are whole minutes where the name says so.
const SPECS: [(&str, bool); 15] = [
    ("constant:delay=5m", true),
    ("fibonacci:unit=1m", true),
    ("exponential:first=1m,base=2,offset=3m", true),
    ("exponential:first=1s,base=2,max=60s,jitter=30%", false),
    ("exponential:first=1s,base=1.01,max=30days", false),
    ("linear:min=5s,max=260s,retries=10", false),
    ("linear:min=0s,max=1m,retries=5", false),
    ("arithmetic:min=5s,max=260s,retries=10", false),
    ("geometric:min=5s,max=260s,retries=10", false),
    ("exponential:min=1s,max=30days,retries=100", false),
    ("geometric:first=1m,ratio=5/4,max=24h", true),
    ("even", true),
    ("sidekiq", false),
    ("buckets", false),
    ("list:0s,10m,1h", true),
];

fn backoff(spec: &str, options: PolicyOptions) -> Backoff {
    parse_policy(spec, None, options).unwrap()
}

fn ids() -> impl Strategy<Value = Id> {
    prop_oneof![any::<i64>().prop_map(Id::Integer), ".{0,20}".prop_map(|id| Id::Text(id.into()))]
}

fn facts(id: &Id, failures: u32, failed_at: Instant) -> Facts<'_> {
    let (status, last_failure_at) = (Status::Error, Some(failed_at));
    Facts {
        id,
        status,
        inserted_at: Some(failed_at),
        failures,
        last_failure_at,
        due_at: None,
        max_attempts: None,
        snoozed_until: None,
        has_begun: false,
    }
}

/// Counts over all of u32, with the interesting ones more often.
fn counts() -> impl Strategy<Value = u32> {
    prop_oneof![0..200u32, any::<u32>(), u32::MAX - 2..=u32::MAX]
}

proptest! {
    #[test]
    fn delays_stay_within_their_bounds(
        id in ids(),
        failures in counts(),
        every_secs in prop_oneof![Just(1i64), Just(60), Just(300), 1..100_000i64],
        percent in prop_oneof![Just(None), (0..=100u8).prop_map(Some)],
    ) {
        let options = PolicyOptions { every_secs, spread: percent };
        for (spec, _) in SPECS {
            if spec.contains("jitter") && percent.is_some() {
                continue;
            }
            let backoff = backoff(spec, options);
            let (wait, least) = (backoff.delay(&id, failures), backoff.least_delay(failures));
            // A drawn wait adds at most 30 % to the longest, and the tick rounds.
            let most = LONGEST_SECS * 13 / 10 / every_secs + 2;
            prop_assert!((0..=most).contains(&wait), "{spec}: {wait}");
            prop_assert!(least <= wait, "{spec}: {least} > {wait}");
            let next = backoff.next_attempt_at(&id, failures, NOW);
            prop_assert!(next >= Instant(NOW.tick(every_secs) * every_secs));
        }
    }

    #[test]
    fn waits_in_whole_ticks_never_become_shorter(
        id in ids(),
        failures in prop_oneof![2..100u32, any::<u32>().prop_map(|f| f.clamp(2, u32::MAX - 1))],
        percent in 0..=100u8,
    ) {
        let options = PolicyOptions { every_secs: 60, spread: Some(percent) };
        for (spec, _) in SPECS.iter().filter(|(_, whole)| *whole) {
            let backoff = backoff(spec, options);
            let (this, next) = (backoff.delay(&id, failures), backoff.delay(&id, failures + 1));
            // The two roundings can take a tick each way.
            prop_assert!(this <= next + 1, "{spec}: {this}, then {next}");
            let base = |n: u32| i64::try_from(backoff.base.wait(n.into()) / 60_000).unwrap();
            let (low, high) = (base(failures - 1), base(failures));
            prop_assert!((low..=high + 1).contains(&this), "{spec}: {this} of {low}..{high}");
        }
    }

    #[test]
    fn a_cohort_tiles_the_time(
        phase in any::<u64>(),
        n in prop_oneof![0..200u64, any::<u32>().prop_map(u64::from)],
    ) {
        let options = PolicyOptions { every_secs: 60, spread: Some(100) };
        for (spec, _) in SPECS.iter().filter(|(_, whole)| *whole) {
            let backoff = backoff(spec, options);
            let ticks = |n: u64| i64::try_from(backoff.base.sum(n) / 60_000).unwrap();
            let (from, to) = (ticks(n), ticks(n + 1));
            // Retry n extends from the lowest phase to the highest, and the next one follows without a gap.
            prop_assert_eq!(backoff.offset(0, n), from, "{}", spec);
            prop_assert_eq!(backoff.offset(u64::MAX, n), (to - 1).max(from), "{}", spec);
            prop_assert!((from..to.max(from + 1)).contains(&backoff.offset(phase, n)), "{}", spec);
        }
    }

    #[test]
    fn a_record_outside_the_window_is_never_due(
        id in ids(),
        failures in 0..60u32,
        every_secs in 1..20_000i64,
        waited in -100_000..4_000_000i64,
    ) {
        for (spec, _) in SPECS {
            let options = PolicyOptions { every_secs, spread: None };
            let backoff = backoff(spec, options);
            let failed_at = Instant(NOW.0 - waited);
            let Window::Failed { before, future } = backoff.window(NOW) else { unreachable!() };
            let step = (failures.max(1) as usize).min(before.len()) - 1;
            let selected = failed_at < before[step] || failed_at >= future;
            let due = matches!(
                backoff.verdict(facts(&id, failures, failed_at), NOW),
                Verdict::Due(_)
            );
            prop_assert!(selected || !due, "{spec}");
            // Without jitter, all selected records are due.
            if matches!(backoff.jitter, Jitter::Spread { percent: 0 }) {
                prop_assert_eq!(selected, due, "{}", spec);
            }
        }
    }

    #[test]
    fn retries_by_age_are_counted_up_to_that_age(
        id in ids(),
        percent in 0..=100u8,
        every_secs in prop_oneof![Just(1i64), Just(60), 1..5_000i64],
        age in 0..200_000i64,
    ) {
        let options = PolicyOptions { every_secs, spread: Some(percent) };
        for (spec, _) in SPECS.iter().filter(|(spec, _)| !spec.contains("jitter")) {
            let backoff = backoff(spec, options);
            let phase = crate::hash::phase(&id);
            let count = backoff.retries_within(phase, age);
            let next = backoff.retry_after(phase, age).unwrap();
            prop_assert!(next > age, "{spec}");
            prop_assert_eq!(backoff.retries_within(phase, next - 1), count, "{}", spec);
            prop_assert!(backoff.retries_within(phase, next) > count, "{spec}");
        }
    }

    /// By slots also while the passes catch up after a pause.
    #[test]
    fn passes_try_a_record_at_the_forecast_instants(
        id in ids(),
        by_age in any::<bool>(),
        slept in prop_oneof![Just(1i64), 1..3_000i64],
        age in 0..400 * DAY,
    ) {
        let options = PolicyOptions { every_secs: 300, spread: None };
        let slots = if by_age {
            Slots::ByAge(backoff("even", options))
        } else {
            Slots::Progressive(Tiers::parse(DEFAULT_TIERS, options).unwrap())
        };
        let policy = Policy::Slots(slots.clone());
        let inserted_at = Some(Instant(NOW.0 - age));
        let facts = Facts { inserted_at, ..facts(&id, 1, NOW) };
        let reached = Some(Slot::end_of(NOW.tick(300) - slept));
        let time = policy.pass_time(reached, NOW, false);
        let rule =
            DueRule {
                schedule: Schedule {
                    policy: policy.clone(),
                    limits: RetryLimits::default(),
                    shard: None,
                },
                capabilities: Capabilities::default(),
                time,
                kept: HashMap::new(),
            };
        let forecast: Vec<_> = rule.forecast(facts, NOW).take(4).map(|next| next.at).collect();
        // A pass in every tick, each from the cursor of the last.
        let last = forecast.last().copied().unwrap_or(NOW);
        let (mut reached, mut now, mut tried) = (reached, NOW, Vec::new());
        while now <= last.min(Instant(NOW.0 + 40 * DAY)) {
            let time = policy.pass_time(reached, now, false);
            if matches!(policy.verdict(facts, time), Verdict::Due(_)) {
                tried.push(now);
            }
            reached = time.span.map(|span| Slot::end_of(span.until));
            now = now.saturating_add(300);
        }
        let forecast: Vec<_> =
            forecast.into_iter().filter(|at| *at <= Instant(NOW.0 + 40 * DAY)).collect();
        prop_assert_eq!(tried, forecast);
    }
}

#[test]
fn the_longest_life_returns_at_once() {
    let options = PolicyOptions { every_secs: 60, spread: Some(100) };
    for (spec, _) in SPECS.iter().filter(|(spec, _)| !spec.contains("jitter")) {
        let backoff = backoff(spec, options);
        let last = i64::try_from(backoff.base.last() / 60_000).unwrap();
        assert!(backoff.delay(&Id::Integer(7), u32::MAX) <= last + 1, "{spec}");
    }
}

/// The ticks from `from` on in which passes try a record.
fn ticks(tiers: &Tiers, id: i64, inserted_at: Instant, from: i64) -> Vec<i64> {
    let phase = crate::hash::phase(&Id::Integer(id));
    let next = |tick: &i64| tiers.next(phase, inserted_at, *tick);
    std::iter::successors(tiers.next(phase, inserted_at, from - 1), next).collect()
}

fn tiers() -> Tiers {
    Tiers::parse(DEFAULT_TIERS, PolicyOptions { every_secs: 300, spread: None }).unwrap()
}

/// The intervals of the default tiers in ticks, and their maximum ages in seconds.
const INTERVALS: [(i64, i64); 6] = [
    (1, DAY),
    (12, 7 * DAY),
    (144, 14 * DAY),
    (288, 30 * DAY),
    (1_152, 180 * DAY),
    (2_304, 360 * DAY),
];

#[test]
fn a_record_that_never_succeeds_has_522_attempts_at_exactly_its_intervals() {
    let tiers = tiers();
    for id in 1..=500 {
        let inserted_at = Instant(NOW.0 + id * 7_919 % DAY);
        let ticks = ticks(&tiers, id, inserted_at, inserted_at.tick(300) + 1);
        // An interval that is cut off at the end of a tier may or may not hold the slot.
        assert!((520..=524).contains(&ticks.len()), "{}", ticks.len());
        let interval = |tick: i64| {
            let tier = INTERVALS.iter().find(|(_, age)| tick <= (inserted_at.0 + age) / 300);
            tier.unwrap().0
        };
        for pair in ticks.windows(2) {
            let (gap, old, new) = (pair[1] - pair[0], interval(pair[0]), interval(pair[1]));
            if old == new {
                assert_eq!(gap, new);
            } else {
                // At the next tier: at least the old interval, at most the new one.
                assert!(gap >= old && gap <= new, "{gap} between intervals of {old} and {new}");
            }
        }
    }
    let total: usize = (1..=500).map(|id| ticks(&tiers, id, NOW, NOW.tick(300) + 1).len()).sum();
    let mean = total as f64 / 500.0;
    assert!((mean - 522.0).abs() < 0.5, "{mean}");
}

#[test]
fn no_slot_is_lost_in_a_sleep_and_the_load_after_it_stays_within_four_times() {
    let tiers = tiers();
    let slots = Slots::Progressive(tiers.clone());
    let records: Vec<(i64, Instant)> =
        (1..=2_000).map(|id| (id, Instant(NOW.0 - id * 15_551 % (350 * DAY)))).collect();
    let start = NOW.tick(300);
    // The records that a pass tries.
    let tried = |reached: Slot, now: i64| {
        let span = slots.span(Some(reached), Instant(now * 300), false);
        let due = records.iter().filter(|(id, inserted_at)| {
            let next = slots.next(&Id::Integer(*id), *inserted_at, span.after);
            next.is_some_and(|slot| slot.tick <= span.until)
        });
        (due.map(|(id, _)| *id).collect::<Vec<_>>(), span)
    };
    for slept in [12, 288, 2_880] {
        let (mut reached, mut now) = (Slot::end_of(start), start + slept);
        let mut attempts = vec![0; records.len() + 1];
        let mut heaviest = 0;
        while reached.tick < now - 1 {
            let (due, Span { after, until }) = tried(reached, now);
            assert!(until - after.tick <= 4);
            heaviest = heaviest.max(due.len());
            due.into_iter().for_each(|id| attempts[usize::try_from(id).unwrap()] += 1);
            (reached, now) = (Slot::end_of(until), now + 1);
        }
        for (id, inserted_at) in &records {
            let slots = ticks(&tiers, *id, *inserted_at, start + 1);
            let due = slots.iter().take_while(|tick| **tick <= reached.tick).count();
            let tried = attempts[usize::try_from(*id).unwrap()];
            // Several slots of a record that is tried in each tick may fall into one pass.
            let young = inserted_at.0 + DAY > NOW.0;
            assert!(tried == due || young && tried * 4 >= due, "{id}: {tried} of {due}");
        }
        let normal = records.iter().map(|(_, inserted_at)| {
            let age = NOW.0 - inserted_at.0;
            let tier = INTERVALS.iter().find(|(_, max_age)| age <= *max_age);
            1.0 / tier.map_or(f64::MAX, |(interval, _)| *interval as f64)
        });
        let normal: f64 = normal.sum();
        // Four times the usual load, and a margin for chance.
        assert!((heaviest as f64) < 4.0 * normal + 12.0, "{heaviest} of {normal}");
    }
}

#[test]
fn a_hundred_thousand_records_are_an_even_load() {
    const DAYS: i64 = 8;
    let tiers = tiers();
    let (from, length) = (NOW.tick(300), DAYS * DAY / 300);
    let mut load = vec![0u32; usize::try_from(length).unwrap()];
    // Inserted evenly, so that at each instant 100,000 are pending, of every age.
    let count = 100_000 * (360 + DAYS) / 360;
    for id in 1..=count {
        let inserted_at = Instant(NOW.0 - 360 * DAY + id * (360 + DAYS) * DAY / count);
        let first = from.max(inserted_at.tick(300) + 1);
        for tick in ticks(&tiers, id, inserted_at, first) {
            let Some(load) = load.get_mut(usize::try_from(tick - from).unwrap()) else { break };
            *load += 1;
        }
    }
    let (peak, total) = (load.iter().max().copied().unwrap(), load.iter().sum::<u32>());
    let mean = f64::from(total) / length as f64;
    assert!((490.0..515.0).contains(&mean), "{mean}");
    assert!(f64::from(peak) <= 1.2 * mean, "{peak} of {mean}");
}

#[test]
fn a_pass_that_was_cut_short_goes_on_within_the_tick() {
    let slots = Slots::Progressive(tiers());
    let inserted_at = Instant(NOW.0 - 10 * 60);
    let mut all: Vec<Slot> = (1..=50)
        .filter_map(|id| slots.next(&Id::Integer(id), inserted_at, Slot::end_of(NOW.tick(300) - 1)))
        .collect();
    all.sort_unstable();
    for cut in [0, 1, 25, 49] {
        let left = (1..=50)
            .filter_map(|id| slots.next(&Id::Integer(id), inserted_at, all[cut]))
            .filter(|slot| slot.tick == NOW.tick(300));
        assert_eq!(left.count(), 49 - cut);
    }
}

#[test]
fn a_cursor_in_the_future_counts_as_none() {
    let slots = Slots::Progressive(tiers());
    let now = NOW.tick(300);
    let none = Span { after: Slot::end_of(now - 1), until: now };
    assert_eq!(slots.span(None, NOW, false), none);
    assert_eq!(slots.span(Some(Slot::end_of(now + 1)), NOW, false), none);
    let late = slots.span(Some(Slot::end_of(now - 100)), NOW, false);
    assert_eq!((late.after.tick, late.until), (now - 100, now - 96));
    assert_eq!(slots.span(Some(Slot::end_of(now - 100)), NOW, true).until, now);
}

#[test]
fn a_pass_time_without_slots_has_no_span() {
    let options = PolicyOptions { every_secs: 60, spread: None };
    let time = Policy::Counted(backoff("even", options)).pass_time(None, NOW, false);
    assert_eq!(time, PassTime { selected_at: NOW, now: NOW, span: None });
}
