//! Why a record is tried when it is, in words.

use super::list::obstacle_text;
use crate::instant::Instant;
use crate::policy::{End, Planned, Reason, Rules, Verdict};
use crate::record::{Record, Status, counted, one_line};

pub struct Explanation<'a> {
    pub record: &'a Record,
    /// The policy as it is typed.
    pub line: String,
    pub rules: Rules,
    pub now: Instant,
    pub last_pass: Option<(Instant, LastPass)>,
    pub verdict: Verdict,
    /// Why it is given up, if it is.
    pub end: Option<End>,
    pub reckoning: Vec<String>,
    pub attempts: Vec<Planned>,
}

/// What the last pass had to do with a record.
pub enum LastPass {
    Tried,
    NotPending,
    NotYetThere,
    /// As it stood then.
    Verdict(Verdict),
}

pub fn explanation(explanation: &Explanation) -> String {
    let Explanation { record, line, rules, now, .. } = explanation;
    let mut text = format!("record {}: {}\n", record.id, state(record, *rules));
    let mut say = |what: &str, words: &str| text += &format!("  {what:<10}  {words}\n");
    say("policy", line);
    match &explanation.last_pass {
        None => say("last pass", "none of this line is known"),
        Some((at, last)) => say("last pass", &format!("{at}: {}", last_pass(last, record))),
    }
    say("now", &format!("{now}: {}", verdict_now(explanation)));
    for (index, words) in explanation.reckoning.iter().enumerate() {
        say(if index == 0 { "because" } else { "" }, words);
    }
    if explanation.attempts.is_empty() && explanation.end.is_none() && record.status.is_pending() {
        say("next", "not to be foretold");
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

fn state(record: &Record, rules: Rules) -> String {
    let mut words = one_line(&record.status_text);
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
        words += &format!(", the last at {at}");
    }
    if let Some(error) = &record.last_error {
        words += &format!(": {}", one_line(error));
    }
    words
}

fn last_pass(last: &LastPass, record: &Record) -> String {
    match last {
        LastPass::Tried => "tried, and failed".into(),
        LastPass::NotPending => "not tried, or not any more: it is not pending".into(),
        LastPass::NotYetThere => "not tried: the record is younger than that".into(),
        LastPass::Verdict(Verdict::Due(Reason::New)) => {
            "was due, but not tried: the pass was cut short, another one held it, or its handler \
             asked for later"
                .into()
        }
        LastPass::Verdict(Verdict::Due(_)) => {
            "was due; the row does not show whether it was tried".into()
        }
        LastPass::Verdict(Verdict::Wait { until }) => format!("not tried: waited until {until}"),
        LastPass::Verdict(Verdict::Never(obstacle)) => {
            format!("not tried: {}", obstacle_text(*obstacle, record))
        }
    }
}

fn verdict_now(explanation: &Explanation) -> String {
    let record = explanation.record;
    match (explanation.end, explanation.verdict) {
        (Some(End::Attempts), _) => "had its last attempt; the next pass archives it".into(),
        (Some(End::Age), _) => "older than --max-age; the next pass archives it".into(),
        (None, Verdict::Due(reason)) => format!("due: {}", reason_text(reason)),
        (None, Verdict::Wait { until }) => format!("waits until {until}"),
        (None, Verdict::Never(obstacle)) if record.status == Status::Archived => {
            format!(
                "not tried: {}; `backlog restore` brings it back",
                obstacle_text(obstacle, record)
            )
        }
        (None, Verdict::Never(obstacle)) => {
            format!("not tried: {}", obstacle_text(obstacle, record))
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
