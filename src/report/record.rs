//! Records as text: rows of `list`, lines of dry runs, and explanations.

use std::iter;
use std::time::Duration;

use backlog_schedule::{
    AgeWindow, Attempt, Backoff, CATCH_UP, DAY, DueRule, End, Facts, Instant, Jitter, Obstacle,
    PassTime, Planned, Policy, Position, Reason, Record, RetryLimits, Slots, Span, Status, Tiers,
    Verdict, counted, cut_line, days, format_secs, json_line, last_error, one_line, phase,
    rough_span, span,
};
use backlog_store::{LineState, SlowHandler};
use serde_json::json;

use super::passes::{IS_CRON_RUNNING, LineReport, running_text};
use super::screen::{Screen, ScreenColumn, ScreenTable};
use crate::engine::SettledAttempt;

const ATTEMPTS: usize = 5;

pub fn verdict_line(
    record: &Record,
    verdict: Verdict,
    has_counter: bool,
    screen: &Screen,
) -> String {
    let (verb, why) = match verdict {
        Verdict::Due(_) => {
            let attempt = has_counter.then(|| format!(", attempt {}", record.next_attempt()));
            ("try", record.status.name().to_string() + &attempt.unwrap_or_default())
        }
        Verdict::Archive(End::Attempts) => {
            ("archive", format!("{} failed", counted(record.failures.into(), "attempt")))
        }
        Verdict::Archive(End::Age) => ("archive", "older than --max-age".into()),
        Verdict::Wait { until } => ("wait", format!("until {}", screen.when(until))),
        Verdict::Never(obstacle) => ("skip", obstacle_text(obstacle, record)),
    };
    dry_run_line(record, verb, &why)
}

pub fn dry_run_line(record: &Record, verb: &str, why: &str) -> String {
    format!("{:<10}  {verb:<7}  {why}\n", record.id.full())
}

pub fn next_attempt(record: &Record, verdict: Verdict, screen: &Screen) -> String {
    match verdict {
        Verdict::Due(_) => "in the next pass".into(),
        Verdict::Wait { until } => screen.when(until),
        Verdict::Archive(_) => "none: it is given up".into(),
        Verdict::Never(obstacle) => format!("none: {}", obstacle_text(obstacle, record)),
    }
}

/// `ERROR, exit 1: no route to host`
pub fn result_of(attempt: &SettledAttempt) -> String {
    let Attempt { outcome, exit, .. } = attempt.attempt;
    let Some(status) = attempt.status else {
        return "changed by the application while its handler ran".into();
    };
    let name = Some(outcome.name()).filter(|name| !["success", "failure"].contains(name));
    let exit = exit.filter(|exit| *exit != 0);
    let mut text = status.name().to_string();
    text.extend(name.map(|name| format!(", {name}")));
    text.extend(exit.map(|exit| format!(", exit {exit}")));
    text.extend(outcome.error().map(|error| format!(": {error}")));
    text
}

fn obstacle_text(obstacle: Obstacle, record: &Record) -> String {
    match obstacle {
        Obstacle::NotPending => return format!("is {}", cut_line(&record.status_text)),
        Obstacle::TooOld => "older than --ndays",
        Obstacle::OutOfSlots => "has no retries left",
        Obstacle::OtherShard => "in another shard",
        Obstacle::Undated => "its insertion date cannot be read",
        Obstacle::NoDueDate => "its due column holds no date; `backlog check` shows it",
    }
    .into()
}

pub fn list_table(with_verdict: bool, screen: Screen) -> ScreenTable {
    let mut columns = vec![
        ScreenColumn::text("ID", 10),
        ScreenColumn::text("STATUS", 8),
        ScreenColumn::text("INSERTED", 20).wide(60),
        ScreenColumn::number("FAILURES", 8).wide(100),
        ScreenColumn::text("LAST FAILURE", 20).wide(80),
    ];
    columns.extend(with_verdict.then_some(ScreenColumn::text("NEXT ATTEMPT", 20)));
    columns.push(ScreenColumn::text("LAST ERROR", 10));
    ScreenTable::new(columns, screen)
}

/// `in hand since 02:13, pid 4711, pass 9f...`. Only a slow handler has a known process.
pub fn in_hand(record: &Record, handler: Option<&SlowHandler>, screen: &Screen) -> String {
    let began_at = record.last_failure_at.filter(|_| record.facts().has_begun);
    match (handler, began_at) {
        (Some(SlowHandler { since, pid, run }), _) => {
            format!("in hand since {}, pid {pid}, pass {run}", screen.at(*since))
        }
        (None, Some(at)) => format!("in hand since {}", screen.at(at)),
        (None, None) => "in hand".into(),
    }
}

pub struct RecordView<'a> {
    pub record: &'a Record,
    pub has_counter: bool,
    pub in_hand: Option<String>,
    pub screen: &'a Screen,
}

impl RecordView<'_> {
    pub fn list_row(&self, verdict: Option<Verdict>) -> Vec<String> {
        let Self { record, has_counter, in_hand, screen } = self;
        let inserted = match record.inserted_at {
            Some(at) => screen.at(at),
            None => format!("?{}", one_line(&record.inserted.to_string())),
        };
        let next = verdict.map(|verdict| match verdict {
            _ if in_hand.is_some() => "-".into(),
            Verdict::Due(_) => "now".into(),
            Verdict::Wait { until } => screen.when(until),
            Verdict::Archive(_) => "none: given up".into(),
            Verdict::Never(_) => "-".into(),
        });
        let error = record.last_error.as_deref().map(one_line).unwrap_or_default();
        let mut cells = vec![
            record.id.full(),
            // The charge has set the status, and may be taken back.
            in_hand.as_ref().map_or(one_line(&record.status_text), |_| "in hand".into()),
            inserted,
            if *has_counter { record.failures.to_string() } else { "-".into() },
            record.last_failure_at.map_or_else(|| "-".into(), |at| screen.at(at)),
        ];
        cells.extend(next);
        cells.push(in_hand.clone().unwrap_or(error));
        cells
    }

    pub fn list_json(&self, verdict: Option<Verdict>) -> String {
        let record = self.record;
        let mut line = json!({
            "id": record.id,
            "status": record.status_text,
            "date_inserted": record.inserted_at,
            "failures": self.has_counter.then_some(record.failures),
            "last_failure": record.last_failure_at,
            "last_error": record.last_error,
        });
        if let Some(verdict) = verdict {
            let until = if let Verdict::Wait { until } = verdict { Some(until) } else { None };
            line["due"] = matches!(verdict, Verdict::Due(_)).into();
            line["next_attempt_at"] = json!(until);
        }
        json_line(&line)
    }

    pub fn explanation(
        &self,
        rule: &DueRule,
        last: &LineState,
        line: Option<&LineReport>,
    ) -> String {
        let Self { record, in_hand, screen, .. } = self;
        let (now, facts) = (rule.time.now, record.facts());
        let verdict = rule.verdict(facts);
        let (last_pass, because, verdict_now) = match in_hand {
            Some(_) => (Vec::new(), Vec::new(), "its handler is running".into()),
            None => (
                vec![self.last_pass(rule, last, line)],
                calculation(rule, facts, screen),
                self.verdict_now(verdict),
            ),
        };
        let running = line.and_then(|LineReport { history }| {
            let running = running_text(history, history.running()?, screen);
            Some(format!("{running}; nothing else of this line is tried meanwhile"))
        });
        let silent = line
            .and_then(|line| line.silent(now))
            .map(|secs| format!("none has begun for {}: {IS_CRON_RUNNING}", rough_span(secs)));
        [
            self.headline(rule.schedule.limits),
            lines("policy", &[rule.schedule.policy.options()]),
            lines("last pass", &last_pass),
            lines("a pass", running.as_slice()),
            lines("passes", silent.as_slice()),
            lines("now", &[format!("{}: {verdict_now}", screen.at(now))]),
            lines("because", &because),
            lines("next", &self.next_attempts(rule, last, verdict)),
        ]
        .concat()
    }

    fn next_attempts(&self, rule: &DueRule, last: &LineState, verdict: Verdict) -> Vec<String> {
        let Self { record, has_counter, in_hand, screen } = self;
        let (now, every) = (rule.time.now, rule.schedule.policy.every_secs());
        let began_at = last.began_at.filter(|at| *at <= now);
        let next_pass = began_at.map_or(now, |at| at.next_tick(every).max(now));
        let attempt = |planned: Planned| {
            let number = has_counter.then(|| format!(", attempt {}", planned.attempt));
            let end = if planned.is_last { "; if it fails, the record is archived" } else { "" };
            format!("{}{}{end}", screen.when(planned.at), number.unwrap_or_default())
        };
        let attempts = rule.forecast(record.facts(), next_pass).take(ATTEMPTS);
        let mut next: Vec<_> = attempts.map(attempt).collect();
        if let (true, Verdict::Wait { until }) = (next.is_empty(), verdict) {
            let until = screen.at(until);
            next.push(format!("had its last attempt; the first pass from {until} on archives it"));
        } else if next.len() > 1 {
            let fail = match in_hand {
                Some(_) => "this one and all of them fail",
                None => "each of them fails",
            };
            next.push(format!("if {fail}, and cron starts a pass in every tick"));
        }
        next
    }

    pub fn unscheduled(&self) -> String {
        let ended = Verdict::Never(Obstacle::NotPending);
        let ended = (!self.record.status.is_pending()).then(|| self.verdict_now(ended));
        self.headline(RetryLimits::default()) + &lines("now", ended.as_slice())
    }

    pub fn headline(&self, limits: RetryLimits) -> String {
        let Self { record, has_counter, in_hand, screen } = self;
        let inserted = record.inserted_at.map(|at| format!("inserted {}", screen.at(at)));
        if let Some(in_hand) = in_hand {
            // The attempt that runs is charged.
            let before = counted(record.failures.saturating_sub(1).into(), "attempt");
            let failed = has_counter.then(|| format!("{before} failed before"));
            let facts = [Some(in_hand.clone()), inserted, failed].into_iter().flatten();
            return format!("record {}: {}\n", record.id, facts.collect::<Vec<_>>().join(", "));
        }
        let failures = record.failures;
        let failed = || match limits.most_attempts(record.max_attempts) {
            Some(most) => format!("{failures} of {} failed", counted(most.into(), "attempt")),
            None => format!("{} failed", counted(failures.into(), "attempt")),
        };
        let last = match (has_counter, failures) {
            (false, _) => "failed last",
            // Only a snooze leaves ERROR with a count of 0: `restore` sets NEW.
            (true, 0) if record.status == Status::Error => "snoozed",
            (true, _) => "the last",
        };
        let facts = [
            Some(cut_line(&record.status_text)),
            inserted,
            has_counter.then(failed),
            record.last_failure_at.map(|at| format!("{last} at {}", screen.at(at))),
        ];
        let facts: Vec<_> = facts.into_iter().flatten().collect();
        let noted = record.last_error.as_deref();
        let snooze = noted.and_then(last_error::split_snooze);
        let error = snooze.map_or(noted, |(_, error)| Some(error));
        let error = error.map_or_else(String::new, |error| format!(": {}", cut_line(error)));
        let until = snooze.map(|(until, _)| screen.when(until));
        let snoozed = until.map(|until| format!("until {until}, as its handler asked"));
        let snoozed = lines("snoozed", snoozed.as_slice());
        format!("record {}: {}{error}\n{snoozed}", record.id, facts.join(", "))
    }

    /// The treatment of the record by the last pass of the line, as far as the row shows it.
    fn last_pass(&self, rule: &DueRule, last: &LineState, line: Option<&LineReport>) -> String {
        let Self { record, screen, .. } = self;
        // A pgmq message does not show it.
        let began_at = last.began_at.filter(|_| !rule.capabilities.keeps_schedule);
        let Some(at) = began_at else { return "none of this line is known".into() };
        let end = line.and_then(|line| line.end_of_last(at));
        let failed_at = record.last_failure_at.filter(|failed_at| *failed_at >= at);
        let what = match failed_at.map(|failed_at| (failed_at, screen.at(failed_at))) {
            None => self.untried(at, verdict_then(rule, last, at, record.facts())),
            Some((failed_at, text)) if end.is_some_and(|end| failed_at > end) => {
                format!("ended before the record was tried by hand or by another line at {text}")
            }
            Some((_, text)) if record.facts().has_begun => {
                format!("tried at {text}; the pass ended without an outcome of it")
            }
            Some((_, text)) => format!("tried; it failed or was put off at {text}"),
        };
        format!("{}: {what}", screen.when(at))
    }

    /// The reason why a pass that began at `at` did not try the record, by the verdict then.
    fn untried(&self, at: Instant, then: Verdict) -> String {
        let Self { record, screen, .. } = self;
        match then {
            Verdict::Archive(_) => "not tried: it was to be archived".into(),
            Verdict::Never(obstacle @ Obstacle::NotPending) => {
                let ended = obstacle_text(obstacle, record);
                format!("it {ended} now, so its row does not show whether that pass tried it")
            }
            _ if record.inserted_at.is_some_and(|inserted_at| inserted_at > at) => {
                "not tried: the record is younger than that".into()
            }
            Verdict::Due(_) => "was due; the row does not show whether it was tried".into(),
            Verdict::Wait { until } => format!("not tried: waited until {}", screen.at(until)),
            Verdict::Never(obstacle) => format!("not tried: {}", obstacle_text(obstacle, record)),
        }
    }

    fn verdict_now(&self, verdict: Verdict) -> String {
        match verdict {
            Verdict::Archive(End::Attempts) => {
                "had its last attempt; the next pass archives it".into()
            }
            Verdict::Archive(End::Age) => "older than --max-age; the next pass archives it".into(),
            Verdict::Wait { until } => format!("waits until {}", self.screen.when(until)),
            Verdict::Never(obstacle) => {
                format!("not tried: {}", obstacle_text(obstacle, self.record))
            }
            Verdict::Due(reason) => format!("due: {}", reason_text(reason)),
        }
    }
}

/// The verdict of the last pass, which began at `at`, as far as the row still shows it.
fn verdict_then(rule: &DueRule, last: &LineState, at: Instant, facts: Facts<'_>) -> Verdict {
    let mut time = rule.schedule.policy.pass_time(None, at, false);
    let until = last.cursor.reached.as_ref().and_then(Position::slot).map(|slot| slot.tick);
    if let (Some(span), Some(after), Some(until)) = (&mut time.span, last.began_behind, until) {
        *span = Span { after, until };
    }
    DueRule { time, ..rule.clone() }.verdict(facts)
}

pub fn unstored(why: &str) -> String {
    lines("error", &[format!("could not be stored in the table: {why}")])
}

/// Lines with a label before the first.
fn lines(label: &str, all: &[String]) -> String {
    let labels = iter::once(label).chain(iter::repeat(""));
    labels.zip(all).map(|(label, line)| format!("  {label:<10}  {}\n", one_line(line))).collect()
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

fn calculation(rule: &DueRule, facts: Facts<'_>, screen: &Screen) -> Vec<String> {
    if !facts.status.is_pending() || rule.verdict(facts) == Verdict::Never(Obstacle::NoDueDate) {
        return Vec::new();
    }
    if let Some(at) = facts.due_at {
        let at = screen.at(at);
        let in_column =
            format!("its due column says {at}; a failure writes the next attempt there");
        let in_queue =
            format!("the queue shows it from {at} on; a failure puts that off by the policy");
        return vec![if rule.capabilities.has_due_column { in_column } else { in_queue }];
    }
    if rule.capabilities.has_due_column {
        return vec!["its due column is empty; a failure writes the next attempt there".into()];
    }
    let time = rule.time;
    match &rule.schedule.policy {
        Policy::Age(age) => vec![by_plain_age(age)],
        Policy::Counted(_) | Policy::Slots(_) if facts.status == Status::New => {
            vec!["a NEW record is due at every pass".into()]
        }
        Policy::Counted(backoff) => by_count(backoff, facts, screen),
        Policy::Slots(slots) => {
            let mut lines = match slots {
                Slots::Progressive(tiers) => progressive(tiers, facts, time.now),
                Slots::ByAge(backoff) => vec![by_age(backoff, facts, time)],
            };
            lines.extend(behind(slots, time, screen));
            lines
        }
    }
}

fn by_plain_age(age: &AgeWindow) -> String {
    let old = |secs| format!("{} {}", days(secs), if secs == DAY { "day" } else { "days" });
    let min = (age.min_secs > 0).then(|| format!("more than {} and ", old(age.min_secs)));
    format!(
        "each pass of this line tries what is {}at most {} old; how often it runs is up to cron",
        min.unwrap_or_default(),
        old(age.max_secs)
    )
}

/// The note about passes that catch up with missed slots.
fn behind(slots: &Slots, time: PassTime, screen: &Screen) -> Option<String> {
    let until = time.span?.until;
    (until < time.now.tick(slots.every_secs())).then(|| {
        format!(
            "passes of this line were missed; each pass makes up {CATCH_UP} ticks, and the next pass \
             gets to {}",
            screen.at(slots.instant(until.saturating_add(1)))
        )
    })
}

fn by_count(backoff: &Backoff, facts: Facts<'_>, screen: &Screen) -> Vec<String> {
    let Some(failed_at) = facts.last_failure_at else {
        return vec!["there is no last failure to count from, so it is due".into()];
    };
    let n = facts.failures.max(1) - 1;
    let wait = backoff.base.wait(n.into());
    let (this, next) = (wait_text(wait), wait_text(backoff.base.wait(u64::from(n) + 1)));
    let after = match facts.failures {
        0 => "after a snooze, as after failure 1,".into(),
        failures => format!("after failure {failures}"),
    };
    let waits = match &backoff.jitter {
        Jitter::Spread { percent: 0 } => format!("{after} it waits {this}"),
        Jitter::Spread { percent } => {
            let share = share(phase(facts.id), *percent);
            let difference = if n == 0 { "" } else { "the difference to " };
            format!(
                "{after} it waits {this} + {share} of {difference}the next wait, {next}; each record \
                 has its own percentage"
            )
        }
        Jitter::Drawn { widths, .. } => format!(
            "{after} a record waits from {this} to {}; drawn for this one: {}",
            wait_text(wait + widths.wait(n.into())),
            wait_text(backoff.drawn_ms(facts.id, n)),
        ),
    };
    let every = backoff.every_secs;
    let kept = format!(
        "rounded to {}: from {}, the tick of its last failure, to {}",
        ticks(backoff.delay(facts.id, facts.failures), every),
        screen.at(failed_at.tick_begin(every)),
        screen.at(backoff.next_attempt_at(facts.id, facts.failures, failed_at))
    );
    vec![waits, kept]
}

const UNDATED: &str = "its insertion date cannot be read, so it has no slots";

fn progressive(tiers: &Tiers, facts: Facts<'_>, now: Instant) -> Vec<String> {
    let Some(inserted_at) = facts.inserted_at else { return vec![UNDATED.into()] };
    let age = span(now.0.saturating_sub(inserted_at.0));
    let phase = phase(facts.id);
    let Some((max_age, interval, offset)) = tiers.tier(phase, inserted_at, now) else {
        return vec![format!("it is {age} old, older than every tier")];
    };
    let (max_age, every) = (span(max_age), format_secs(interval));
    let once = format!("it is {age} old: up to {max_age} it is tried once in every {every}");
    if interval == tiers.every_secs {
        return vec![once];
    }
    let (share, offset) = (share(phase, 100), format_secs(offset));
    let offset = format!(
        "its phase, {share} of the interval, puts it {offset} after each multiple of {every}"
    );
    vec![once, offset]
}

fn by_age(backoff: &Backoff, facts: Facts<'_>, time: PassTime) -> String {
    let (Some(inserted_at), Some(span)) = (facts.inserted_at, time.span) else {
        return UNDATED.into();
    };
    let every = backoff.every_secs;
    let age = span.until.saturating_sub(inserted_at.tick(every));
    let phase = phase(facts.id);
    let next = match backoff.retry_after(phase, age) {
        None => "there will be no more".into(),
        Some(next) => format!("the next one is due after {}", ticks(next, every)),
    };
    format!(
        "{} after it was inserted {} retries were due, whether or not they took place; {next}",
        ticks(age, every),
        backoff.retries_within(phase, age)
    )
}

/// `percent` times the fraction `phase` / 2^64.
fn share(phase: u64, percent: u8) -> String {
    let scaled = (u128::from(phase) * u128::from(percent) * 100) >> 64;
    format!("{}.{:02}%", scaled / 100, scaled % 100)
}

fn wait_text(ms: u64) -> String {
    humantime::format_duration(Duration::from_millis(ms)).to_string()
}

fn ticks(count: i64, every_secs: i64) -> String {
    format!("{} of {}", counted(count.unsigned_abs(), "tick"), format_secs(every_secs))
}
