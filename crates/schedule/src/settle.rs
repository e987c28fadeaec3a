//! Settlements: the values that are written at the start and at the end of an attempt.

use crate::last_error::{OPEN, UNSENT, begun, escape_snooze, snoozed};
use crate::record::{
    Capabilities, Counter, Facts, Outcome, Reach, Record, Settlement, Status, Transition,
};
use crate::time::{Instant, WRITABLE};

#[derive(Debug, Clone, Copy, Default)]
pub struct RetryLimits {
    pub max_attempts: Option<u32>,
    /// True if a maximum in the row overrides it.
    pub is_per_record: bool,
    pub max_age_secs: Option<i64>,
}

impl RetryLimits {
    pub fn limits_attempts(&self) -> bool {
        self.max_attempts.is_some() || self.is_per_record
    }

    /// Maximum number of attempts of a record. `own` is the maximum in its row.
    pub fn most_attempts(&self, own: Option<u32>) -> Option<u32> {
        own.filter(|_| self.is_per_record).or(self.max_attempts)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Attempts,
    Age,
}

/// The limit that a failed record reached without being archived: a pass was killed, a limit lowered, or it grew old.
pub fn exhausted(facts: Facts<'_>, limits: RetryLimits, now: Instant) -> Option<End> {
    if facts.status != Status::Error {
        return None;
    }
    // The age comes first: a record that is too old is archived at once, and one without attempts only when it is due.
    if too_old(facts.inserted_at, limits, now) {
        return Some(End::Age);
    }
    let most = limits.most_attempts(facts.max_attempts);
    most.is_some_and(|most| facts.failures >= most).then_some(End::Attempts)
}

fn too_old(inserted_at: Option<Instant>, limits: RetryLimits, now: Instant) -> bool {
    let limit = limits.max_age_secs.map(|max_age| now.saturating_sub(max_age));
    limit.zip(inserted_at).is_some_and(|(limit, inserted_at)| inserted_at < limit)
}

/// The charge: an attempt is counted as failed before it runs, so that it counts even if it kills the pass.
pub fn charge(record: &Record, now: Instant, capabilities: Capabilities) -> Settlement {
    let attempt = record.next_attempt();
    let last_error = begun(attempt, now);
    let last_error = match capabilities.series {
        Some(source) => record.series(source).unanswered(OPEN, &last_error),
        None => last_error,
    };
    let counter = failed(attempt, now, last_error);
    Settlement { transition: Transition::Begun, counter, at: now, not_before: None }
}

pub fn settle(
    record: &Record,
    outcome: &Outcome,
    now: Instant,
    capabilities: Capabilities,
    limits: RetryLimits,
) -> Settlement {
    let attempt = record.next_attempt();
    let (transition, failures, not_before) = match outcome {
        Outcome::Success => return not_counted(Transition::Succeeded, now),
        Outcome::Interrupted | Outcome::Unable { .. } => {
            return not_counted(Transition::Undone, now);
        }
        Outcome::Snooze { after, .. } if capabilities.can_snooze => {
            // No later date can be written.
            let not_before = after.map(|after| now.later(after).min(Instant(*WRITABLE.end())));
            (Transition::Failed, record.failures, not_before)
        }
        // The record is not at fault.
        Outcome::Unanswered { reach: Reach::Nobody { counts: false }, .. } => {
            (Transition::Failed, record.failures, None)
        }
        Outcome::GiveUp { .. } if capabilities.can_archive => (Transition::Archived, attempt, None),
        Outcome::Failure { .. }
        | Outcome::Unanswered { .. }
        | Outcome::Snooze { .. }
        | Outcome::GiveUp { .. } => {
            let most = limits.most_attempts(record.max_attempts);
            let last = most.is_some_and(|most| attempt >= most)
                || too_old(record.inserted_at, limits, now);
            (if last { Transition::Archived } else { Transition::Failed }, attempt, None)
        }
    };
    let error = outcome.error().unwrap_or_default();
    let series = capabilities.series.map(|source| record.series(source));
    let error = match (series, outcome) {
        (None, _) => error.into(),
        (Some(series), Outcome::Unanswered { reach, .. }) => {
            series.unanswered(if *reach == Reach::MayHaveWorked { OPEN } else { UNSENT }, error)
        }
        (Some(series), _) => series.answered(error, now),
    };
    let error = escape_snooze(&error);
    let error = match not_before {
        Some(until) => snoozed(until, &error),
        None => error,
    };
    Settlement { transition, counter: failed(failures, now, error), at: now, not_before }
}

/// Archives a record without another attempt.
pub fn expire(now: Instant) -> Settlement {
    not_counted(Transition::Archived, now)
}

fn not_counted(transition: Transition, now: Instant) -> Settlement {
    Settlement { transition, counter: Counter::AsBefore, at: now, not_before: None }
}

fn failed(failures: u32, last_failure_at: Instant, last_error: String) -> Counter {
    Counter::Set { failures, last_failure_at, last_error: Some(last_error) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::Id;
    use crate::last_error::{SeriesSource, snoozed_until};

    const NOW: Instant = Instant(1_795_232_400);
    const COUNTED: Capabilities = Capabilities {
        keeps_schedule: false,
        has_due_column: false,
        has_counter: true,
        notes_begun: true,
        can_snooze: true,
        shows_failed: true,
        can_archive: true,
        may_give_up: false,
        series: None,
    };
    const NONE: RetryLimits =
        RetryLimits { max_attempts: None, is_per_record: false, max_age_secs: None };
    const THREE: RetryLimits = RetryLimits { max_attempts: Some(3), ..NONE };

    fn record(status: Status, failures: u32) -> Record {
        let status_text = status.name().into();
        Record { status, status_text, failures, ..Record::new(Id::Integer(7), None) }
    }

    fn failure() -> Outcome {
        Outcome::Failure { error: "refused".into() }
    }

    fn written(transition: Transition, failures: u32) -> Settlement {
        let counter = failed(failures, NOW, "refused".into());
        Settlement { transition, counter, at: NOW, not_before: None }
    }

    #[test]
    fn success_takes_the_charge_back() {
        let settlement = settle(&record(Status::Error, 2), &Outcome::Success, NOW, COUNTED, THREE);
        assert_eq!(settlement, not_counted(Transition::Succeeded, NOW));
    }

    #[test]
    fn the_last_attempt_archives_and_no_earlier_one_does() {
        for (failures, transition) in
            [(0, Transition::Failed), (1, Transition::Failed), (2, Transition::Archived)]
        {
            let settlement =
                settle(&record(Status::Error, failures), &failure(), NOW, COUNTED, THREE);
            assert_eq!(settlement, written(transition, failures + 1));
        }
        let settlement = settle(&record(Status::Error, u32::MAX), &failure(), NOW, COUNTED, NONE);
        assert_eq!(settlement, written(Transition::Failed, u32::MAX));
    }

    #[test]
    fn the_maximum_in_a_row_overrides_the_option() {
        let limits = RetryLimits { is_per_record: true, ..THREE };
        for (own, failures, transition) in [
            (Some(2), 1, Transition::Archived),
            (Some(5), 2, Transition::Failed),
            (None, 2, Transition::Archived),
        ] {
            let record = Record { max_attempts: own, ..record(Status::Error, failures) };
            let settlement = settle(&record, &failure(), NOW, COUNTED, limits);
            assert_eq!(settlement.transition, transition, "{own:?}");
            let most = own.unwrap_or(3);
            let spent = Record { failures: most, ..record };
            assert_eq!(exhausted(spent.facts(), limits, NOW), Some(End::Attempts));
        }
    }

    #[test]
    fn a_snooze_is_charged_only_if_the_table_cannot_hold_it() {
        let snooze = Outcome::Snooze { error: "refused".into(), after: None };
        let settlement = settle(&record(Status::Error, 2), &snooze, NOW, COUNTED, THREE);
        assert_eq!(settlement, written(Transition::Failed, 2));
        let undated = Capabilities { can_snooze: false, ..COUNTED };
        let settlement = settle(&record(Status::Error, 1), &snooze, NOW, undated, THREE);
        assert_eq!(settlement, written(Transition::Failed, 2));
    }

    #[test]
    fn a_snooze_with_a_duration_notes_its_end() {
        let after = Some(std::time::Duration::from_millis(600_001));
        let snooze = Outcome::Snooze { error: "refused".into(), after };
        let settlement = settle(&record(Status::New, 0), &snooze, NOW, COUNTED, THREE);
        assert_eq!(settlement.not_before, Some(NOW.saturating_add(601)));
        let Counter::Set { last_error: Some(last_error), .. } = settlement.counter else {
            unreachable!()
        };
        assert_eq!(snoozed_until(&last_error), settlement.not_before);
    }

    #[test]
    fn a_snooze_beyond_all_dates_ends_with_the_last_of_them() {
        let snooze =
            Outcome::Snooze { error: "refused".into(), after: Some(std::time::Duration::MAX) };
        let settlement = settle(&record(Status::New, 0), &snooze, NOW, COUNTED, THREE);
        let Counter::Set { last_error: Some(last_error), .. } = settlement.counter else {
            unreachable!()
        };
        assert_eq!(last_error, "snoozed until 9999-12-31T23:59:59Z: refused");
        assert_eq!(snoozed_until(&last_error), settlement.not_before);
    }

    #[test]
    fn a_record_that_the_handler_gives_up_is_archived_and_charged() {
        let hopeless = Outcome::GiveUp { error: "refused".into() };
        let settlement = settle(&record(Status::New, 0), &hopeless, NOW, COUNTED, THREE);
        assert_eq!(settlement, written(Transition::Archived, 1));
        let unable = Capabilities { can_archive: false, ..COUNTED };
        let settlement = settle(&record(Status::New, 0), &hopeless, NOW, unable, NONE);
        assert_eq!(settlement, written(Transition::Failed, 1));
    }

    #[test]
    fn an_attempt_that_did_not_take_place_leaves_the_record_as_it_was() {
        for outcome in
            [Outcome::Interrupted, Outcome::Unable { error: "not found".into(), ends_pass: true }]
        {
            for status in Status::PENDING {
                let settlement = settle(&record(status, 1), &outcome, NOW, COUNTED, THREE);
                assert_eq!(settlement, not_counted(Transition::Undone, NOW));
                assert_eq!(settlement.status(status), status);
            }
        }
    }

    #[test]
    fn only_a_record_that_was_tried_can_have_run_out_of_attempts() {
        let exhausted = |status, failures| exhausted(record(status, failures).facts(), THREE, NOW);
        assert_eq!(exhausted(Status::Error, 3), Some(End::Attempts));
        assert_eq!(exhausted(Status::Error, 2), None);
        assert_eq!(exhausted(Status::New, 3), None);
    }

    #[test]
    fn a_record_too_old_is_archived_only_after_a_failure() {
        let limits = RetryLimits { max_age_secs: Some(100), ..NONE };
        let aged = |status, age| Record {
            inserted_at: Some(NOW.saturating_sub(age)),
            ..record(status, 9)
        };
        for (age, over) in [(100, None), (101, Some(End::Age))] {
            assert_eq!(exhausted(aged(Status::Error, age).facts(), limits, NOW), over);
            assert_eq!(exhausted(aged(Status::New, age).facts(), limits, NOW), None);
            let settlement =
                settle(&aged(Status::New, age), &failure(), NOW, Capabilities::default(), limits);
            assert_eq!(settlement.transition == Transition::Archived, over.is_some());
        }
        assert_eq!(exhausted(record(Status::Error, 9).facts(), limits, NOW), None, "undated");
        let both = RetryLimits { max_attempts: Some(3), ..limits };
        let end = exhausted(aged(Status::Error, 101).facts(), both, NOW);
        assert_eq!(end, Some(End::Age), "not only once it is due");
    }

    /// An event in a record's life: the end of an attempt, or an edit between two.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        Answered,
        Snoozed,
        Unknown,
        Unsent,
        Killed,
        Stopped,
        Restored,
        Renewed,
    }

    /// A record's life under one set of rules.
    struct Life {
        record: Record,
        capabilities: Capabilities,
    }

    impl Life {
        fn write(&mut self, settlement: Settlement) {
            self.record.status = settlement.status(self.record.status);
            if let Counter::Set { failures, last_failure_at, last_error } = settlement.counter {
                if self.capabilities.has_counter {
                    self.record.failures = failures;
                }
                if self.capabilities.can_snooze {
                    self.record.last_failure_at = Some(last_failure_at);
                }
                self.record.last_error = last_error;
            }
        }

        /// The series of the attempt with this event, if it is sent.
        fn live(&mut self, event: Event, now: Instant) -> Option<Option<i64>> {
            let before = self.record.clone();
            let number = before.series(self.capabilities.series.unwrap()).number;
            let error = || "HTTP 500: no".to_string();
            let after = Some(std::time::Duration::from_secs(60));
            let unanswered = |reach| Outcome::Unanswered { error: error(), reach };
            let outcome = match event {
                Event::Answered => Outcome::Failure { error: error() },
                Event::Snoozed => Outcome::Snooze { error: error(), after },
                Event::Unknown => unanswered(Reach::MayHaveWorked),
                Event::Unsent => unanswered(Reach::NotSent),
                Event::Stopped => return Some(number),
                Event::Killed => {
                    if self.capabilities.has_counter {
                        self.write(charge(&before, now, self.capabilities));
                    }
                    return Some(number);
                }
                Event::Restored => {
                    (self.record.failures, self.record.last_failure_at) = (0, None);
                    return None;
                }
                Event::Renewed => {
                    self.record.last_failure_at = None;
                    return None;
                }
            };
            self.write(settle(&before, &outcome, now, self.capabilities, NONE));
            (!matches!(event, Event::Unsent)).then_some(number)
        }
    }

    fn event() -> impl Strategy<Value = (Event, i64)> {
        let event = prop_oneof![
            3 => Just(Event::Answered),
            1 => Just(Event::Snoozed),
            3 => Just(Event::Unknown),
            1 => Just(Event::Unsent),
            1 => Just(Event::Killed),
            1 => Just(Event::Stopped),
            1 => Just(Event::Restored),
            1 => Just(Event::Renewed),
        ];
        // Within a second, and with a clock that is set back.
        (event, prop_oneof![Just(0), Just(1), -5_i64..100])
    }

    proptest! {
        #[test]
        fn a_series_lasts_until_an_answer_and_never_comes_again(
            events in proptest::collection::vec(event(), 1..40),
            has_counter: bool,
            is_dated: bool,
            last_error in prop_oneof![
                Just(None),
                Just(Some(String::new())),
                Just(Some("n/a".to_string())),
                Just(Some("next key 7: x".to_string())),
                Just(Some("outcome unknown".to_string())),
            ],
        ) {
            let is_exact = has_counter && is_dated;
            let source = if is_exact { SeriesSource::LastFailure } else { SeriesSource::LastError };
            let capabilities = Capabilities {
                has_counter,
                can_snooze: is_dated,
                series: Some(source),
                ..COUNTED
            };
            let mut life = Life { record: Record { last_error, ..Record::new(Id::Integer(7), None) }, capabilities };
            let (mut now, mut over) = (NOW, Vec::new());
            let mut current: Option<Option<i64>> = None;
            for (event, later) in events {
                now = now.saturating_add(later);
                let sent = life.live(event, now);
                if matches!(event, Event::Restored | Event::Renewed) {
                    // A person begins anew, with any key that had no answer.
                    current = None;
                }
                let Some(number) = sent else { continue };
                prop_assert!(!over.contains(&number), "{event:?} {number:?} {over:?}");
                if let Some(current) = current {
                    prop_assert_eq!(current, number, "{:?}", event);
                }
                current = Some(number);
                if matches!(event, Event::Answered | Event::Snoozed) {
                    over.extend(current.take());
                }
            }
        }
    }

    #[test]
    fn a_handler_that_does_not_go_by_series_leaves_no_mark() {
        let attempted = record(Status::Error, 2);
        let [counted, not_counted] = [true, false].map(|counts| Reach::Nobody { counts });
        for (reach, failures, at_most) in [
            (Reach::MayHaveWorked, 3, Transition::Archived),
            (Reach::NotSent, 3, Transition::Archived),
            (counted, 3, Transition::Archived),
            (not_counted, 2, Transition::Failed),
        ] {
            let outcome = Outcome::Unanswered { error: "refused".into(), reach };
            let settled = |limits| settle(&attempted, &outcome, NOW, COUNTED, limits);
            assert_eq!(settled(NONE), written(Transition::Failed, failures));
            assert_eq!(settled(THREE), written(at_most, failures));
        }
        let Counter::Set { last_error: Some(last_error), .. } =
            charge(&attempted, NOW, COUNTED).counter
        else {
            unreachable!()
        };
        let expected = "attempt 3 began at 2026-11-21T03:40:00Z and has not reported back";
        assert_eq!(last_error, expected);
    }
}
