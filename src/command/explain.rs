//! `backlog explain`: why a record was or was not tried, and when it will be.

use std::io::Write;

use anyhow::Result;

use super::{find, open_for, process};
use crate::cli::Explain;
use crate::config::{self, Queue};
use crate::exit::{Exit, usage};
use crate::instant::Instant;
use crate::policy::{Forecast, Policy, Rules, exhausted, reckoning};
use crate::record::Record;
use crate::report::{self, Explanation, LastPass};
use crate::selection::Reached;
use crate::store::{LineState, Reader};

/// How many of the attempts to come are shown.
const ATTEMPTS: usize = 5;

pub fn run(queue: &Queue, args: &Explain, now: Instant, out: &mut dyn Write) -> Result<Exit> {
    let policy = config::policy(&args.schedule)?
        .ok_or_else(|| usage("under which policy? say the one of the crontab line"))?;
    let max_attempts = config::max_attempts(args.max_attempts, &queue.name, &policy)?;
    let mut database = open_for(queue, Some(&policy), max_attempts)?;
    let state = process::state_dir(queue, &database)?;
    let last = state.line_state(&process::line(queue, &policy, &database));
    let rules =
        Rules { has_counter: database.has_counter(), max_attempts, max_age_secs: args.max_age };
    let mut exit = Exit::Done;
    for id in &args.ids {
        match find(&mut database, id)? {
            Ok(record) => {
                let explanation = explain(&record, &policy, rules, &last, now);
                out.write_all(report::explanation(&explanation).as_bytes())?;
            }
            Err(why) => {
                writeln!(out, "{id}: {why}")?;
                exit = Exit::Failed;
            }
        }
    }
    Ok(exit)
}

fn explain<'a>(
    record: &'a Record,
    policy: &'a Policy,
    rules: Rules,
    last: &LineState,
    now: Instant,
) -> Explanation<'a> {
    let reached = match last.reached {
        Some(Reached::Slot(slot)) => Some(slot),
        Some(Reached::Key(_)) | None => None,
    };
    let moment = policy.moment(reached, now, false);
    let facts = record.facts();
    Explanation {
        record,
        line: policy.line(),
        rules,
        now,
        last_pass: last.began_at.map(|at| last_pass(record, policy, rules, at)),
        verdict: policy.verdict(facts, moment),
        end: exhausted(facts, rules, now),
        reckoning: reckoning(policy, facts, moment),
        attempts: Forecast::new(policy, rules, facts, moment).take(ATTEMPTS).collect(),
    }
}

/// What the last pass of the line, which began at `at`, had to do with the record, as far as the
/// row still shows it.
fn last_pass(record: &Record, policy: &Policy, rules: Rules, at: Instant) -> (Instant, LastPass) {
    let facts = record.facts();
    let words = if facts.last_failure_at.is_some_and(|failed_at| failed_at >= at) {
        LastPass::Tried
    } else if !facts.status.is_pending() || exhausted(facts, rules, at).is_some() {
        LastPass::NotPending
    } else if facts.inserted_at.is_some_and(|inserted_at| inserted_at > at) {
        LastPass::NotYetThere
    } else {
        // By slots the last pass has left its mark behind what it worked off: what is due by
        // now was not due then.
        LastPass::Verdict(policy.verdict(facts, policy.moment(None, at, false)))
    };
    (at, words)
}
