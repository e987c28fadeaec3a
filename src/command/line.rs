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
    pub name: String,
    /// What the last pass left.
    pub last: LineState,
}

impl Line {
    pub fn new(queue: &Queue, schedule: &Schedule, database: &Database) -> Result<Self> {
        let state = state_dir(queue, database)?;
        let name = name(queue, schedule, database);
        Ok(Self::standing(state, name, schedule, database))
    }

    /// With its lock: two passes of one line never run at once. `None` if there is one, unless
    /// this is to `wait` for its end.
    pub fn locked(
        queue: &Queue,
        schedule: &Schedule,
        database: &Database,
        wait: bool,
    ) -> Result<Option<(Self, LineLock)>> {
        let state = state_dir(queue, database)?;
        let name = name(queue, schedule, database);
        let lock = state.lock_line(&name, wait)?;
        Ok(lock.map(|lock| (Self::standing(state, name, schedule, database), lock)))
    }

    fn standing(state: StateDir, name: String, schedule: &Schedule, database: &Database) -> Self {
        let rules = schedule.rules(database.table.counting());
        let last = state.line_state(&name);
        Self { policy: schedule.policy.clone(), rules, state, name, last }
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
                if self.reached().is_some_and(|slot| slot.tick > now.tick(slots.every_secs())) {
                    log::warn!("the last pass ran in the future: the clock was set back");
                }
                Plan::Slots { order }
            }
            Policy::Age(_) | Policy::Counted(_) if settings.limits.may_cut_short() => {
                let cursor = self.last.reached.as_ref().and_then(Reached::key);
                Plan::Capped { order, cursor: cursor.cloned() }
            }
            Policy::Age(_) | Policy::Counted(_) => Plan::Full { order },
        }
    }
}

/// What tells a line from others: queue, table, policy and conditions. The handler does not count,
/// because two lines with different ones would be after the same records.
fn name(queue: &Queue, schedule: &Schedule, database: &Database) -> String {
    let mut name = format!("{} {} {}", queue.name, database.table.name, schedule.policy.line());
    for condition in &queue.mapping.conditions {
        name += &format!(" --where {condition}");
    }
    name
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
