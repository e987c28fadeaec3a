//! The explanation of a record: its verdict, the arithmetic behind it and the attempts to come, in
//! words.

use std::time::Duration;

use super::list::obstacle_text;
use crate::hash::phase;
use crate::record::{Facts, Record, Status, counted, cut_line, one_line};
use crate::schedule::{
    AgeWindow, Backoff, CATCH_UP, DueRule, End, Jitter, Obstacle, PassTime, Planned, Policy,
    Reason, RetryLimits, Slots, Tiers, Verdict, duration,
};
use crate::time::{DAY, Instant, days, span};

/// The explanation of a record under a rule. `last` is when the last pass began, and the verdict then.
pub fn explanation(
    record: &Record,
    rule: &DueRule,
    last: Option<(Instant, Verdict)>,
    attempts: &[Planned],
) -> String {
    let (now, verdict) = (rule.time.now, rule.verdict(record.facts()));
    let has_counter = rule.capabilities.has_counter;
    let mut text =
        format!("record {}: {}\n", record.id, state(record, has_counter, rule.schedule.limits));
    let mut say = |what: &str, words: &str| text += &format!("  {what:<10}  {}\n", one_line(words));
    say("policy", &rule.schedule.policy.line());
    match last {
        None => say("last pass", "none of this line is known"),
        Some((at, then)) => say("last pass", &format!("{at}: {}", last_pass(at, then, record))),
    }
    say("now", &format!("{now}: {}", verdict_now(verdict, record)));
    for (index, words) in arithmetic(rule, record.facts()).iter().enumerate() {
        say(if index == 0 { "because" } else { "" }, words);
    }
    if let (true, Verdict::Wait { until }) = (attempts.is_empty(), verdict) {
        say("next", &format!("had its last attempt; the first pass from {until} on archives it"));
    }
    for (index, planned) in attempts.iter().enumerate() {
        let number =
            if has_counter { format!(", attempt {}", planned.attempt) } else { String::new() };
        let last = if planned.is_last { "; if it fails, the record is archived" } else { "" };
        say(if index == 0 { "next" } else { "" }, &format!("{}{number}{last}", planned.at));
    }
    if attempts.len() > 1 {
        say("", "if each of them fails, and cron starts a pass in every tick");
    }
    text
}

/// What can be told of a record of which it is not known when it is due.
pub fn unscheduled(record: &Record, has_counter: bool) -> String {
    let mut text =
        format!("record {}: {}\n", record.id, state(record, has_counter, RetryLimits::default()));
    if !matches!(record.status, Status::New | Status::Error) {
        let never = verdict_now(Verdict::Never(Obstacle::NotPending), record);
        text += &format!("  {:<10}  {}\n", "now", one_line(&never));
    }
    text
}

fn state(record: &Record, has_counter: bool, limits: RetryLimits) -> String {
    let mut words = cut_line(&record.status_text);
    if let Some(at) = record.inserted_at {
        words += &format!(", inserted {at}");
    }
    if has_counter {
        words += &match limits.max_attempts {
            Some(most) => {
                format!(", {} of {} failed", record.failures, counted(most.into(), "attempt"))
            }
            None => format!(", {} failed", counted(record.failures.into(), "attempt")),
        };
    }
    if let Some(at) = record.last_failure_at {
        // Only a snooze leaves the one without the other.
        let what = if record.failures == 0 { "snoozed" } else { "the last" };
        words += &format!(", {what} at {at}");
    }
    if let Some(error) = &record.last_error {
        words += &format!(": {}", cut_line(error));
    }
    words
}

/// What the last pass, which began at `at`, had to do with the record, as far as the row still shows
/// it.
fn last_pass(at: Instant, then: Verdict, record: &Record) -> String {
    if let Some(failed_at) = record.last_failure_at.filter(|failed_at| *failed_at >= at) {
        return format!("tried, in that pass or since: it failed or was put off at {failed_at}");
    }
    match then {
        Verdict::Archive(_) | Verdict::Never(Obstacle::NotPending) => {
            "not tried, or not any more: it is not pending".into()
        }
        _ if record.inserted_at.is_some_and(|inserted_at| inserted_at > at) => {
            "not tried: the record is younger than that".into()
        }
        Verdict::Due(Reason::New) => {
            "was due, but not tried: the pass was cut short, another one held it, or its handler \
             asked for later"
                .into()
        }
        Verdict::Due(_) => "was due; the row does not show whether it was tried".into(),
        Verdict::Wait { until } => format!("not tried: waited until {until}"),
        Verdict::Never(obstacle) => format!("not tried: {}", obstacle_text(obstacle, record)),
    }
}

fn verdict_now(verdict: Verdict, record: &Record) -> String {
    match verdict {
        Verdict::Archive(End::Attempts) => "had its last attempt; the next pass archives it".into(),
        Verdict::Archive(End::Age) => "older than --max-age; the next pass archives it".into(),
        Verdict::Due(reason) => format!("due: {}", reason_text(reason)),
        Verdict::Wait { until } => format!("waits until {until}"),
        Verdict::Never(obstacle) => {
            let back = if record.status == Status::Archived {
                "; `backlog restore` brings it back"
            } else {
                ""
            };
            format!("not tried: {}{back}", obstacle_text(obstacle, record))
        }
    }
}

fn reason_text(reason: Reason) -> &'static str {
    match reason {
        Reason::New => "it is NEW",
        Reason::WithinAge => "its age is within the line's",
        Reason::WaitOver => "its wait is over",
        Reason::Slot(_) => "one of its slots has come",
        Reason::NoLastFailure => "there is no last failure to wait after",
        Reason::ClockSetBack => "its last failure lies in the future, so the clock was set back",
    }
}

/// Why the policy has the record tried when it has: a few sentences, none for what is not
/// pending.
fn arithmetic(rule: &DueRule, facts: Facts<'_>) -> Vec<String> {
    let (policy, time) = (&rule.schedule.policy, rule.time);
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
        Policy::Counted(backoff) => by_count(backoff, facts),
        Policy::Slots(slots) => {
            let mut words = match slots {
                Slots::Progressive(tiers) => progressive(tiers, facts, time.now),
                Slots::ByAge(backoff) => by_age(backoff, facts, time),
            };
            words.extend(behind(slots, time));
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
fn behind(slots: &Slots, time: PassTime) -> Option<String> {
    let until = time.span?.until;
    (until < time.now.tick(slots.every_secs())).then(|| {
        format!(
            "passes of this line are behind and catch up, {CATCH_UP} ticks in each: the next one \
             comes to {}",
            slots.instant(until.saturating_add(1))
        )
    })
}

fn by_count(backoff: &Backoff, facts: Facts<'_>) -> Vec<String> {
    let Some(failed_at) = facts.last_failure_at else {
        return vec!["there is no last failure to reckon from, so it is due".into()];
    };
    let n = facts.failures.max(1) - 1;
    let (this, next) = (backoff.base.wait(n.into()), backoff.base.wait(u64::from(n) + 1));
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

fn by_age(backoff: &Backoff, facts: Facts<'_>, time: PassTime) -> Vec<String> {
    let (Some(inserted_at), Some(span)) = (facts.inserted_at, time.span) else {
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
    format!("{} of {}", counted(count.unsigned_abs(), "tick"), duration(every_secs))
}
