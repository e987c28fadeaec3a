//! Log lines of an attempt: info when it begins, a warning when it fails, an error when it was the
//! last.

use crate::record::{Outcome, Record, Settlement, Transition, counted};
use crate::schedule::{DueRule, End, Policy};

pub fn begun(record: &Record, rule: &DueRule) {
    log::info!("processing record {}{}", record.id, attempt(record, rule));
}

/// `written` is `None` if the row was left to the application.
pub fn ended(record: &Record, outcome: &Outcome, written: Option<&Settlement>, rule: &DueRule) {
    // Most of this is never said, and then costs nothing.
    let (id, attempt) = (&record.id, || attempt(record, rule));
    let Some(settlement) = written else {
        log::warn!(
            "record {id} was changed or deleted by the application while its handler ran ({}); \
             the row is left as it is",
            outcome.name()
        );
        return;
    };
    let is_archived = settlement.transition == Transition::Archived;
    let when = || will_retry(record, settlement, rule);
    let after = || match rule.capabilities.has_counter {
        true => format!(" after {}", counted(record.next_attempt().into(), "attempt")),
        false => String::new(),
    };
    match outcome {
        Outcome::GiveUp { error } if is_archived => {
            log::error!("record {id} was given up by its handler{}; archived: {error}", attempt());
        }
        _ if is_archived => {
            let error = outcome.error().unwrap_or_default();
            log::error!("record {id} failed{}; archived: {error}", after());
        }
        Outcome::Snooze { error, .. } => {
            log::warn!("record {id} was snoozed, {}{}: {error}", when(), attempt());
        }
        Outcome::Failure { error }
        | Outcome::Unanswered { error, .. }
        | Outcome::GiveUp { error } => {
            if is_stranded(record, rule) {
                log::error!(
                    "record {id} failed{}, and is never due by its age, because its insertion \
                     date cannot be read: {error}",
                    attempt()
                );
            } else {
                log::warn!("record {id} failed, {}{}: {error}", when(), attempt());
            }
        }
        Outcome::Success => log::info!("record {id} succeeded{}", attempt()),
        Outcome::Interrupted => log::info!("record {id} was interrupted; it stays as it was"),
        // An error of the pass, which says it.
        Outcome::Unable { .. } => {}
    }
}

/// A record that somebody else got while its handler ran, because its claim was lost with a
/// connection or with its time.
pub fn lost(record: &Record, outcome: &Outcome) {
    let (id, name) = (&record.id, outcome.name());
    log::error!(
        "record {id}: its claim was lost while its handler ran, and somebody else has it now; this \
         handler's outcome ({name}) is not written"
    );
}

/// A record that is archived without another attempt.
pub fn expired(record: &Record, end: End) {
    let id = &record.id;
    match end {
        End::Attempts => {
            let attempts = counted(record.failures.into(), "attempt");
            log::error!("record {id} failed after {attempts}; archived");
        }
        End::Age => log::error!("record {id} is older than --max-age; archived"),
    }
}

/// Whether a record was tried because it was NEW, and will never be due again. Said as an error,
/// once, because no later pass sees the record.
fn is_stranded(record: &Record, rule: &DueRule) -> bool {
    record.inserted_at.is_none() && matches!(rule.schedule.policy, Policy::Slots(_))
}

/// `will retry at ...`, as far as the policy alone decides that.
fn will_retry(record: &Record, settlement: &Settlement, rule: &DueRule) -> String {
    match rule.retry_at(record, settlement) {
        Some(at) => format!("will retry at {at}"),
        None if matches!(rule.schedule.policy, Policy::Slots(_)) => {
            "has had all its retries".into()
        }
        None => "will retry".into(),
    }
}

/// ` (attempt 3/5)`, ` (attempt 3)` where attempts are not limited, nothing where they are not
/// counted.
fn attempt(record: &Record, rule: &DueRule) -> String {
    let attempt = record.next_attempt();
    match (rule.capabilities.has_counter, rule.schedule.limits.max_attempts) {
        (true, Some(most)) => format!(" (attempt {attempt}/{most})"),
        (true, None) => format!(" (attempt {attempt})"),
        (false, _) => String::new(),
    }
}
