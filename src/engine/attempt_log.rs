//! Log lines of an attempt: info when it begins, a warning when it fails, an error when it was the
//! last.

use crate::record::{Outcome, Record, Settlement, Transition, counted};
use crate::schedule::{End, Look, Policy};

pub fn begun(record: &Record, look: &Look) {
    log::info!("processing record {}{}", record.id, attempt(record, look));
}

/// `written` is `None` if the row was left to the application.
pub fn ended(record: &Record, outcome: &Outcome, written: Option<&Settlement>, look: &Look) {
    // Most of this is never said, and then costs nothing.
    let (id, attempt) = (&record.id, || attempt(record, look));
    let Some(settlement) = written else {
        log::warn!(
            "record {id} was changed or deleted by the application while its handler ran ({}); \
             the row is left as it is",
            outcome.name()
        );
        return;
    };
    match (outcome, settlement.transition) {
        (Outcome::GiveUp { error }, Transition::Archived) => {
            log::error!("record {id} was given up by its handler{}; archived: {error}", attempt());
        }
        (
            Outcome::Failure { error }
            | Outcome::Unanswered { error, .. }
            | Outcome::Snooze { error, .. },
            Transition::Archived,
        ) => {
            let after = if look.capabilities.has_counter {
                format!(" after {}", counted(record.next_attempt().into(), "attempt"))
            } else {
                String::new()
            };
            log::error!("record {id} failed{after}; archived: {error}");
        }
        (
            Outcome::Failure { error }
            | Outcome::Unanswered { error, .. }
            | Outcome::GiveUp { error },
            _,
        ) if is_stranded(record, look) => {
            log::error!(
                "record {id} failed{}, and is never due by its age, because its insertion date \
                 cannot be read: {error}",
                attempt()
            );
        }
        (
            Outcome::Failure { error }
            | Outcome::Unanswered { error, .. }
            | Outcome::GiveUp { error },
            _,
        ) => {
            let when = || will_retry(record, settlement, look);
            log::warn!("record {id} failed, {}{}: {error}", when(), attempt());
        }
        (Outcome::Snooze { error, .. }, _) => {
            let when = || will_retry(record, settlement, look);
            log::warn!("record {id} was snoozed, {}{}: {error}", when(), attempt());
        }
        (Outcome::Success, _) => log::info!("record {id} succeeded{}", attempt()),
        (Outcome::Interrupted, _) => log::info!("record {id} was interrupted; it stays as it was"),
        // An error of the pass, which says it.
        (Outcome::Unable { .. }, _) => {}
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
fn is_stranded(record: &Record, look: &Look) -> bool {
    record.inserted_at.is_none() && matches!(look.schedule.policy, Policy::Slots(_))
}

/// `will retry at ...`, as far as the policy alone decides that.
fn will_retry(record: &Record, settlement: &Settlement, look: &Look) -> String {
    match look.retry_at(record, settlement) {
        Some(at) => format!("will retry at {at}"),
        None if matches!(look.schedule.policy, Policy::Slots(_)) => {
            "has had all its retries".into()
        }
        None => "will retry".into(),
    }
}

/// ` (attempt 3/5)`, ` (attempt 3)` where attempts are not limited, nothing where they are not
/// counted.
fn attempt(record: &Record, look: &Look) -> String {
    let attempt = record.next_attempt();
    match (look.capabilities.has_counter, look.schedule.limits.max_attempts) {
        (true, Some(most)) => format!(" (attempt {attempt}/{most})"),
        (true, None) => format!(" (attempt {attempt})"),
        (false, _) => String::new(),
    }
}
