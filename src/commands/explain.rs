//! `backlog explain`: why a record is tried or not.

use anyhow::Result;
use backlog_schedule::{DueRule, Position, Record, Span, Status, one_line};
use backlog_store::LineState;
use backlog_store::system_error::chain;

use super::assemble::open_to_read;
use super::failures::Failed;
use super::{Console, GONE, find, state_dir};
use crate::exit::Exit;
use crate::options::{Resolved, unknown_schedule};
use crate::report::{self, LinePasses, Screen};

/// Number of next attempts that are shown.
const ATTEMPTS: usize = 5;

pub fn run(resolved: &Resolved<'_>, ids: &[String], console: &mut Console<'_>) -> Result<Exit> {
    let queue = resolved.queue()?;
    let (mut database, assembly) =
        open_to_read(&queue, resolved.schedule()?.as_ref(), console.clock)?;
    let passes = assembly.as_ref().and_then(|it| {
        let history = it.state.history(&it.name);
        let history = history.inspect_err(|error| log::warn!("{}", chain(error))).ok().flatten();
        history.map(|history| LinePasses { history })
    });
    let due = assembly.map(|it| {
        let last = it.last.unwrap_or_default().state;
        (it.line.due_rule(console.clock.now(), false), last)
    });
    let state = state_dir(&queue, &*database)?;
    if let Some(pause) = state.pause(&queue.name, &database.table().name, console.clock.now()) {
        let said = pause.sentence(|at| console.screen.at(at), &resolved.choice());
        console.out.write_all(console.screen.wrap(&said).as_bytes())?;
    }
    let columns = database.table().id.len();
    let has_counter = database.table().failures.is_some();
    let known = Failed::of(&queue, &*database)?;
    let joblog = resolved.text_of_passes("joblog");
    let joblog = joblog.map_or_else(String::new, |joblog| format!(": see the joblog {joblog}"));
    let deleted = database.table().deletes_finished.then(|| {
        format!("; on_success deletes the records that succeed, so it may have succeeded{joblog}")
    });
    let mut exit = Exit::Done;
    for id in ids {
        let mut found = find(&mut *database, id, columns)?;
        let unstored = found.as_mut().ok().and_then(|record| known.known.fill_in(record));
        let in_hand = found.as_ref().ok().and_then(|it| known.in_hand(it, &console.screen));
        let in_hand = in_hand.as_deref();
        let restores = |record: &&Record| {
            record.status == Status::Archived && database.table().require_told_archived().is_ok()
        };
        let back = found.as_ref().ok().filter(restores).map(|record| {
            format!("  way back    backlog restore{} {}\n", resolved.choice(), record.id.full())
        });
        let mut text = match (found, &due) {
            (Ok(record), Some((rule, last))) => {
                explanation(&record, rule, last, passes.as_ref(), in_hand, &console.screen)
            }
            (Ok(record), None) => {
                let known = report::unscheduled(&record, has_counter, in_hand, &console.screen);
                format!("{known}  {}\n", unknown_schedule())
            }
            (Err(why), _) => {
                exit = Exit::Failed;
                let deleted = deleted.as_deref().filter(|_| why == GONE).unwrap_or_default();
                format!("{}: {why}{deleted}\n", one_line(id))
            }
        };
        text += &back.unwrap_or_default();
        text += &unstored.map_or_else(String::new, report::unstored);
        let lines = text.lines().map(|line| console.screen.wrap(line));
        console.out.write_all(lines.collect::<String>().as_bytes())?;
    }
    Ok(exit)
}

fn explanation(
    record: &Record,
    rule: &DueRule,
    last: &LineState,
    line: Option<&LinePasses>,
    in_hand: Option<&str>,
    screen: &Screen,
) -> String {
    let (facts, policy) = (record.facts(), &rule.schedule.policy);
    let now = rule.time.now;
    let began_at = last.began_at.filter(|at| *at <= now);
    let next_pass = began_at.map_or(now, |at| at.next_tick(policy.every_secs()).max(now));
    // A message of a queue does not show what the last pass did.
    let last_pass = last.began_at.filter(|_| !rule.capabilities.keeps_schedule).map(|at| {
        // The verdict then, as far as the row still shows it.
        let mut time = policy.pass_time(None, at, false);
        let until = last.cursor.reached.as_ref().and_then(Position::slot).map(|slot| slot.tick);
        if let (Some(span), Some(after), Some(until)) = (&mut time.span, last.began_behind, until) {
            *span = Span { after, until };
        }
        (at, DueRule { time, ..rule.clone() }.verdict(facts))
    });
    let attempts: Vec<_> = rule.forecast(facts, next_pass).take(ATTEMPTS).collect();
    report::explanation(record, rule, last_pass, &attempts, line, in_hand, screen)
}
