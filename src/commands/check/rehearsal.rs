//! `check --rehearse`: writes everything that a pass may write for a record of each status, and rolls it back.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use backlog_schedule::{DueRule, Id, Order, Record, Schedule, Status};
use backlog_store::{
    Access, BoxedStore, Claim, ClaimRequest, Clock, Database, Ends, PossibleWrites, Rehearsal,
    Retry, Until,
};

use super::super::assemble::Assembly;
use super::super::open;
use crate::options::{HandlerSpec, Queue};
use crate::report::{Findings, Level};

const ABOUT: &str = "rehearsal";
/// Maximum wait for a locked database.
const WAIT: Duration = Duration::from_secs(30);
/// Maximum number of claims to try, because passes may hold some records.
const CANDIDATES: usize = 20;

pub fn check(
    findings: &mut Findings,
    queue: &Queue,
    schedule: Option<&Schedule>,
    handler: Option<&HandlerSpec>,
    clock: Clock,
) -> Result<()> {
    let Some(schedule) = schedule else {
        let why = "it needs a schedule: use --ndays, --policy, --fibonacci or --progressive";
        findings.warning(ABOUT, why);
        return Ok(());
    };
    let mut database = open(queue, Access::Pass(WAIT), clock)?;
    let mut assembly = Assembly::new(queue, schedule, &*database)?;
    assembly.line.capabilities.may_give_up = handler.is_some_and(HandlerSpec::gives_up);
    let rule = assembly.line.due_rule(clock.now(), false);
    let mut found = Vec::new();
    for status in Status::PENDING {
        let ids = candidates(&mut *database, queue, status)?;
        found.extend((!ids.is_empty()).then_some((status, ids)));
    }
    if found.is_empty() {
        findings.warning(ABOUT, "no record is pending: add one to rehearse a pass");
        return Ok(());
    }
    let mut store = database.into_store(&assembly.state, Retry::new(None, clock))?;
    for (status, ids) in found {
        let Some(record) = claimed(&mut store, &ids)? else {
            let name = status.name();
            let held = format!("passes hold the {name} records: try again when they are over");
            findings.warning(ABOUT, held);
            continue;
        };
        let outcome = rehearse(&mut store, &rule, &record, clock);
        let most = rule.schedule.limits.most_attempts(record.max_attempts);
        let wrong = store.rehearse_ends(&record, Ends::All(most));
        store.release(&record.id);
        let (level, text) = outcome?;
        findings.add(level, ABOUT, text);
        if let Some(wrong) = wrong? {
            findings.error(ABOUT, wrong);
        }
    }
    store.flush(Until::Durable)
}

fn candidates(database: &mut dyn Database, queue: &Queue, status: Status) -> Result<Vec<Id>> {
    let mut ids = Vec::new();
    let mut each = |record: Record| {
        ids.extend(Some(record.id).filter(|id| queue.holds(id)));
        let is_enough = ids.len() == CANDIDATES;
        Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    };
    let most = queue.shard.is_none().then_some(CANDIDATES as u64);
    database.scan(&[status], Order::Newest, most, &mut each)?;
    Ok(ids)
}

fn claimed(store: &mut BoxedStore, ids: &[Id]) -> Result<Option<Arc<Record>>> {
    for id in ids {
        for (_, claim) in store.claim(ClaimRequest::WithoutPayload(std::slice::from_ref(id)))? {
            if let Claim::Held(record) = claim {
                return Ok(Some(record));
            }
        }
    }
    Ok(None)
}

fn rehearse(
    store: &mut BoxedStore,
    rule: &DueRule,
    record: &Arc<Record>,
    clock: Clock,
) -> Result<(Level, String)> {
    let chains = rule.possible_writes(record, clock.now());
    let writes = PossibleWrites { record: record.clone(), chains };
    let without_errors = writes.without_errors();
    let mut rehearse = |writes| -> Result<_> {
        let rehearsed = store.rehearse(&[writes], &[])?.pop();
        Ok(rehearsed.unwrap_or(Rehearsal::ChangedMeanwhile))
    };
    let label = format!("record {} ({})", record.id, record.status.name());
    let refused = |why: &str| (Level::Error, format!("{label} would not be tried: {why}"));
    let changed = || (Level::Warning, format!("{label} was changed meanwhile: try again"));
    Ok(match rehearse(writes)? {
        Rehearsal::Taken => {
            (Level::Ok, format!("the table takes what a pass may write for {label}"))
        }
        Rehearsal::Locked(why) => refused(&why),
        Rehearsal::ChangedMeanwhile | Rehearsal::Blocked => changed(),
        Rehearsal::Refused(why) => match rehearse(without_errors)? {
            Rehearsal::Taken => {
                let text = "is written only without the text of an error";
                (Level::Warning, format!("{label} {text}: {why}"))
            }
            Rehearsal::Refused(_) | Rehearsal::Locked(_) => refused(&why),
            Rehearsal::ChangedMeanwhile | Rehearsal::Blocked => changed(),
        },
    })
}
