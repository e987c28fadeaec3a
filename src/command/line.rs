//! A crontab line: how it looks at the records, and what its passes leave behind for the next one.

use anyhow::{Context, Result};

use crate::config::{PassSettings, Queue, Schedule};
use crate::engine::Plan;
use crate::instant::Instant;
use crate::policy::{Look, Policy, Rules};
use crate::selection::{Reached, Slot};
use crate::store::{Database, LineLock, LineState, StateDir};

pub struct Line {
    pub policy: Policy,
    pub rules: Rules,
    pub state: StateDir,
    /// What tells it from other lines: queue, table and policy. The handler does not count, because
    /// two lines with different ones would be after the same records.
    pub name: String,
    /// What the last pass left.
    pub last: LineState,
}

impl Line {
    pub fn new(queue: &Queue, schedule: &Schedule, database: &Database) -> Result<Self> {
        let state = state_dir(queue, database)?;
        let policy = schedule.policy.clone();
        let name = format!("{} {} {}", queue.name, database.table.name, policy.line());
        let last = state.line_state(&name);
        Ok(Self { policy, rules: schedule.rules(database.table.has_counter()), state, name, last })
    }

    /// Two passes of one line never run at once. `None` if there is one, unless this is to
    /// `wait` for its end.
    pub fn lock(&mut self, wait: bool) -> Result<Option<LineLock>> {
        let lock = self.state.lock_line(&self.name, wait)?;
        // Meanwhile the other one may have got on.
        self.last = self.state.line_state(&self.name);
        Ok(lock)
    }

    /// Where a pass by slots begins.
    pub fn reached(&self) -> Option<Slot> {
        self.last.reached.as_ref().and_then(Reached::slot)
    }

    /// What a pass would look at now.
    pub fn look(&self, now: Instant, drain: bool) -> Look {
        let moment = self.policy.moment(self.reached(), now, drain);
        Look { policy: self.policy.clone(), rules: self.rules, moment }
    }

    /// The order of a pass. Where the last one came to counts only where a limit may cut the pass
    /// short, and for slots.
    pub fn plan(&self, settings: &PassSettings, now: Instant) -> Plan {
        let order = settings.order;
        match &self.policy {
            Policy::Slots(slots) => {
                let reached = self.reached();
                if reached.is_some_and(|slot| slot.tick > now.tick(slots.every_secs())) {
                    log::warn!("the last pass ran in the future: the clock was set back");
                }
                Plan::Slots { order, reached }
            }
            Policy::Age(_) | Policy::Counted(_) if settings.limits.may_cut_short() => {
                let cursor = self.last.reached.as_ref().and_then(Reached::key);
                Plan::Capped { order, cursor: cursor.cloned() }
            }
            Policy::Age(_) | Policy::Counted(_) => Plan::Full { order },
        }
    }
}

/// Where the claims on a database's records are, and what its lines leave behind.
pub fn state_dir(queue: &Queue, database: &Database) -> Result<StateDir> {
    let model = std::fs::metadata(&database.path)
        .with_context(|| format!("could not read {}", database.path.display()))?;
    Ok(match &queue.state_dir {
        Some(path) => StateDir::shared(path.clone(), model),
        None => StateDir::beside(database.default_state_dir(), model),
    })
}
