//! What the log says of an attempt: info when it begins, a warning when it fails, an error when
//! it was the last.

use crate::policy::{Policy, Rules};
use crate::record::{Counter, Outcome, Record, Settlement, Status, counted};

pub fn begun(record: &Record, rules: Rules) {
    log::info!("processing record {} (attempt {})", record.id, of_max(record, rules));
}

/// `written` is `None` if the row was left to the application.
pub fn ended(
    record: &Record,
    outcome: &Outcome,
    written: Option<&Settlement>,
    policy: &Policy,
    rules: Rules,
) {
    let (id, attempt) = (&record.id, of_max(record, rules));
    let Some(settlement) = written else {
        log::warn!(
            "record {id} was changed or deleted by the application while its handler ran ({}); \
             the row is left as it is",
            outcome.name()
        );
        return;
    };
    match (outcome, settlement.status) {
        (Outcome::Failure { error } | Outcome::Snooze { error }, Status::Archived) => {
            let attempts = counted(record.next_attempt().into(), "attempt");
            log::error!("record {id} failed after {attempts}; archived: {error}");
        }
        (Outcome::Failure { error }, _) => {
            let when = will_retry(settlement, policy);
            log::warn!("record {id} failed, {when} (attempt {attempt}): {error}");
        }
        (Outcome::Snooze { error }, _) => {
            let when = will_retry(settlement, policy);
            log::warn!("record {id} was snoozed, {when} (attempt {attempt}): {error}");
        }
        (Outcome::Success, _) => log::info!("record {id} succeeded (attempt {attempt})"),
        (Outcome::Interrupted, _) => log::warn!("record {id} was interrupted; it stays as it was"),
        // An error of the pass, which says it.
        (Outcome::Unable { .. }, _) => {}
    }
}

/// `will retry at ...`, as far as the policy alone decides that.
fn will_retry(settlement: &Settlement, policy: &Policy) -> String {
    let next = match &settlement.counter {
        Counter::Set { failures, last_failure_at, .. } => {
            policy.next_attempt_at(*failures, *last_failure_at)
        }
        Counter::AsBefore => None,
    };
    next.map_or("will retry".into(), |at| format!("will retry at {at}"))
}

/// `3/5`, or `3` where attempts are not limited.
fn of_max(record: &Record, rules: Rules) -> String {
    let attempt = record.next_attempt();
    match (rules.has_counter, rules.max_attempts) {
        (true, Some(most)) => format!("{attempt}/{most}"),
        _ => attempt.to_string(),
    }
}
