//! The arithmetic behind a verdict, in words.

use std::time::Duration;

use crate::hash::phase;
use crate::record::{Facts, Status};
use crate::schedule::{
    AgeWindow, Backoff, CATCH_UP, Jitter, Look, Moment, Policy, Slots, Tiers, duration,
};
use crate::time::{DAY, Instant, days, span};

/// Why the policy has the record tried when it has: a few sentences, none for what is not
/// pending.
pub fn reckoning(look: &Look, facts: Facts<'_>) -> Vec<String> {
    let Look { policy, moment, .. } = look;
    let moment = *moment;
    if !facts.status.is_pending() {
        return Vec::new();
    }
    if let Some(at) = facts.due_at {
        return vec![format!(
            "the queue shows it from {at} on; a failure puts that off by the policy"
        )];
    }
    match policy {
        Policy::Age(age) => vec![by_plain_age(age)],
        Policy::Counted(_) | Policy::Slots(_) if facts.status == Status::New => {
            vec!["a NEW record is due at every pass".into()]
        }
        Policy::Counted(backoff) => counted(backoff, facts),
        Policy::Slots(slots) => {
            let mut words = match slots {
                Slots::Progressive(tiers) => progressive(tiers, facts, moment.now),
                Slots::ByAge(backoff) => by_age(backoff, facts, moment),
            };
            words.extend(behind(slots, moment));
            words
        }
    }
}

fn by_plain_age(age: &AgeWindow) -> String {
    let old = |secs| format!("{} {}", days(secs), if secs == DAY { "day" } else { "days" });
    let min = if age.min_secs > 0 {
        format!("more than {} and ", old(age.min_secs))
    } else {
        String::new()
    };
    let max = old(age.max_secs);
    format!(
        "each pass of this line tries what is {min}at most {max} old; how often it runs is up to cron"
    )
}

/// After a sleep slots are worked off later than they come.
fn behind(slots: &Slots, moment: Moment) -> Option<String> {
    let until = moment.span?.until;
    (until < moment.now.tick(slots.every_secs())).then(|| {
        format!(
            "passes of this line are behind and catch up, {CATCH_UP} ticks in each: the next one \
             comes to {}",
            slots.instant(until.saturating_add(1))
        )
    })
}

fn counted(backoff: &Backoff, facts: Facts<'_>) -> Vec<String> {
    let Some(failed_at) = facts.last_failure_at else {
        return vec!["there is no last failure to reckon from, so it is due".into()];
    };
    let n = facts.failures.max(1) - 1;
    let (this, next) = (backoff.plain.wait(n.into()), backoff.plain.wait(u64::from(n) + 1));
    let after = if facts.failures == 0 {
        "after a snooze, as after failure 1,".into()
    } else {
        format!("after failure {}", n + 1)
    };
    let wait = match &backoff.jitter {
        Jitter::Spread { percent: 0 } => format!("{after} it waits {}", wait_text(this)),
        Jitter::Spread { percent } => {
            let share = share(phase(facts.id, backoff.salt), *percent);
            let less =
                if n == 0 { String::new() } else { format!(" - {share} of {}", wait_text(this)) };
            format!(
                "{after} it waits {} + {share} of {}{less}: its own share of the way to the next wait",
                wait_text(this),
                wait_text(next),
            )
        }
        Jitter::Drawn { widths, .. } => format!(
            "{after} a record waits from {} to {}; drawn for this one: {}",
            wait_text(this),
            wait_text(this + widths.wait(n.into())),
            wait_text(backoff.drawn_ms(facts.id, n)),
        ),
    };
    let delay = backoff.delay(facts.id, facts.failures);
    let from = Instant(failed_at.tick(backoff.every_secs).saturating_mul(backoff.every_secs));
    vec![
        wait,
        format!(
            "kept as {}, from the tick of its last failure, {from}, to {}",
            ticks(delay, backoff.every_secs),
            backoff.next_attempt_at(facts.id, facts.failures, failed_at)
        ),
    ]
}

fn progressive(tiers: &Tiers, facts: Facts<'_>, now: Instant) -> Vec<String> {
    let Some(inserted_at) = facts.inserted_at else {
        return vec!["its insertion date cannot be read, so it has no slots".into()];
    };
    let age = now.0.saturating_sub(inserted_at.0);
    let phase = phase(facts.id, tiers.salt);
    let Some((max_age, interval, place)) = tiers.tier(phase, inserted_at, now) else {
        return vec![format!("it is {} old, older than every tier", span(age))];
    };
    let once = format!(
        "it is {} old: up to {} it is tried once in every {}",
        span(age),
        span(max_age),
        duration(interval)
    );
    if interval == tiers.every_secs {
        // In every tick: there is only one place.
        return vec![once];
    }
    let place = format!(
        "its phase, {} of the interval, puts it {} after each multiple of {}",
        share(phase, 100),
        duration(place),
        duration(interval)
    );
    vec![once, place]
}

fn by_age(backoff: &Backoff, facts: Facts<'_>, moment: Moment) -> Vec<String> {
    let (Some(inserted_at), Some(span)) = (facts.inserted_at, moment.span) else {
        return vec!["its insertion date cannot be read, so it has no slots".into()];
    };
    let every = backoff.every_secs;
    let age = span.until.saturating_sub(inserted_at.tick(every));
    let phase = phase(facts.id, backoff.salt);
    let count = backoff.count_of(phase, age);
    vec![format!(
        "{} after it was inserted {count} retries were due, whether or not they took place; {}",
        ticks(age, every),
        backoff.retry_after(phase, age).map_or("there will be no more".into(), |next| {
            format!("the next one is due after {}", ticks(next, every))
        }),
    )]
}

/// A fraction of 2^64 as per cent, as far as it counts.
fn share(phase: u64, percent: u8) -> String {
    let scaled = (u128::from(phase) * u128::from(percent) * 100) >> 64;
    format!("{}.{:02}%", scaled / 100, scaled % 100)
}

fn wait_text(ms: u64) -> String {
    humantime::format_duration(Duration::from_millis(ms)).to_string()
}

/// `1 tick of 5m`, `3 ticks of 1m`
fn ticks(count: i64, every_secs: i64) -> String {
    let noun = if count == 1 { "tick" } else { "ticks" };
    format!("{count} {noun} of {}", duration(every_secs))
}
