//! The explanation of a record: its verdict, the arithmetic behind it and the attempts to come, in
//! words.

use super::list::obstacle_text;
use super::reckoning::reckoning;
use crate::record::{Record, Status, counted, cut_line, one_line};
use crate::schedule::{End, Look, Obstacle, Planned, Reason, Rules, Verdict};
use crate::time::Instant;

pub struct Explanation<'a> {
    pub record: &'a Record,
    pub look: &'a Look,
    pub last_pass: Option<(Instant, LastPass)>,
    pub verdict: Verdict,
    pub attempts: Vec<Planned>,
}

/// The last pass as far as it had to do with a record.
pub enum LastPass {
    /// In that pass, or in another one since.
    Tried {
        failed_at: Instant,
    },
    NotPending,
    NotYetThere,
    /// As it stood then.
    Verdict(Verdict),
}

pub fn explanation(explanation: &Explanation) -> String {
    let Explanation { record, look, verdict, .. } = explanation;
    let (rules, now) = (look.rules, look.moment.now);
    let mut text = format!("record {}: {}\n", record.id, state(record, rules));
    let mut say = |what: &str, words: &str| text += &format!("  {what:<10}  {}\n", one_line(words));
    say("policy", &look.policy.line());
    match &explanation.last_pass {
        None => say("last pass", "none of this line is known"),
        Some((at, last)) => say("last pass", &format!("{at}: {}", last_pass(last, record))),
    }
    say("now", &format!("{now}: {}", verdict_now(explanation.verdict, record)));
    for (index, words) in reckoning(look, record.facts()).iter().enumerate() {
        say(if index == 0 { "because" } else { "" }, words);
    }
    if let (true, Verdict::Wait { until }) = (explanation.attempts.is_empty(), verdict) {
        say("next", &format!("had its last attempt; the first pass from {until} on archives it"));
    }
    for (index, planned) in explanation.attempts.iter().enumerate() {
        let number = if rules.has_counter {
            format!(", attempt {}", planned.attempt)
        } else {
            String::new()
        };
        let last = if planned.is_last { "; if it fails, the record is archived" } else { "" };
        say(if index == 0 { "next" } else { "" }, &format!("{}{number}{last}", planned.at));
    }
    if explanation.attempts.len() > 1 {
        say("", "if each of them fails, and cron starts a pass in every tick");
    }
    text
}

/// What can be told of a record of which it is not known when it is due.
pub fn unscheduled(record: &Record, rules: Rules) -> String {
    let mut text = format!("record {}: {}\n", record.id, state(record, rules));
    if !matches!(record.status, Status::New | Status::Error) {
        let never = verdict_now(Verdict::Never(Obstacle::NotPending), record);
        text += &format!("  {:<10}  {}\n", "now", one_line(&never));
    }
    text
}

fn state(record: &Record, rules: Rules) -> String {
    let mut words = cut_line(&record.status_text);
    if let Some(at) = record.inserted_at {
        words += &format!(", inserted {at}");
    }
    if rules.has_counter {
        words += &match rules.max_attempts {
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

fn last_pass(last: &LastPass, record: &Record) -> String {
    match last {
        LastPass::Tried { failed_at } => {
            format!("tried, in that pass or since: it failed or was put off at {failed_at}")
        }
        LastPass::NotPending => "not tried, or not any more: it is not pending".into(),
        LastPass::NotYetThere => "not tried: the record is younger than that".into(),
        LastPass::Verdict(Verdict::Due(Reason::New)) => {
            "was due, but not tried: the pass was cut short, another one held it, or its handler \
             asked for later"
                .into()
        }
        LastPass::Verdict(Verdict::Due(_) | Verdict::Archive(_)) => {
            "was due; the row does not show whether it was tried".into()
        }
        LastPass::Verdict(Verdict::Wait { until }) => format!("not tried: waited until {until}"),
        LastPass::Verdict(Verdict::Never(obstacle)) => {
            format!("not tried: {}", obstacle_text(*obstacle, record))
        }
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
