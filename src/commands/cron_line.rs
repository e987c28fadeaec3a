//! A crontab line: how it looks at the records, and what its passes leave behind for the next one.

use anyhow::Result;

use crate::engine::{Plan, PlanKind};
use crate::options::{PassSettings, Queue, Schedule};
use crate::query::{Kept, Reached, Slot};
use crate::record::Status;
use crate::schedule::{Capabilities, Look, Policy};
use crate::store::{Database, LineLock, LineState, StateDir};
use crate::time::Instant;

pub struct CronLine {
    pub schedule: Schedule,
    pub capabilities: Capabilities,
    pub state: StateDir,
    pub name: String,
    /// Whether the store keeps the schedule itself.
    is_kept: bool,
    /// What the last pass left.
    pub last: LineState,
}

impl CronLine {
    pub fn new(queue: &Queue, schedule: &Schedule, database: &dyn Database) -> Result<Self> {
        let state = database.state_dir(queue.state_dir.as_deref())?;
        let name = name(queue, schedule, database);
        // Whoever only looks may have no right to the cursor.
        let last = state.line_state(&name).unwrap_or_else(|error| {
            log::warn!("{error:#}");
            LineState::default()
        });
        Ok(Self::standing(queue, state, name, last, schedule, database))
    }

    /// With its lock: two passes of one line never run at once. `None` if there is one, unless
    /// this is to `wait` for its end.
    pub fn locked(
        queue: &Queue,
        schedule: &Schedule,
        database: &dyn Database,
        wait: bool,
    ) -> Result<Option<(Self, LineLock)>> {
        let state = database.state_dir(queue.state_dir.as_deref())?;
        let name = name(queue, schedule, database);
        let Some(lock) = state.lock_line(&name, wait)? else { return Ok(None) };
        let last = state.line_state_of_pass(&name)?;
        Ok(Some((Self::standing(queue, state, name, last, schedule, database), lock)))
    }

    fn standing(
        queue: &Queue,
        state: StateDir,
        name: String,
        last: LineState,
        schedule: &Schedule,
        database: &dyn Database,
    ) -> Self {
        let table = database.table();
        let capabilities = table.counting().capabilities(table.can_be(Status::Archived));
        let is_kept = database.table().due_at.is_some();
        let schedule = Schedule { shard: queue.shard, ..schedule.clone() };
        let cursor = last.cursor.taken_up(table.id.len());
        let last = LineState { cursor, ..last };
        Self { schedule, capabilities, state, name, is_kept, last }
    }

    /// Where a pass by slots begins.
    pub fn reached(&self) -> Option<Slot> {
        self.last.cursor.reached.as_ref().and_then(Reached::slot)
    }

    /// What a pass would look at now.
    pub fn look(&self, now: Instant, drain: bool) -> Look {
        let time = self.schedule.policy.pass_time(self.reached(), now, drain);
        let kept = self.last.cursor.kept.iter().filter(|kept| kept.begun < Kept::MOST_BEGUN);
        let kept = kept.map(|kept| (kept.id.clone(), kept.clone())).collect();
        Look { schedule: self.schedule.clone(), capabilities: self.capabilities, time, kept }
    }

    /// The order of a pass. Where the last one came to counts only where a limit may cut the pass
    /// short, and for slots.
    pub fn plan(&self, settings: &PassSettings, now: Instant) -> Plan {
        let kind = match &self.schedule.policy {
            _ if self.is_kept => PlanKind::Full,
            Policy::Slots(slots) => {
                if self.reached().is_some_and(|slot| slot.tick > now.tick(slots.every_secs())) {
                    log::warn!("the last pass ran in the future: the clock was set back");
                }
                PlanKind::Slots
            }
            Policy::Age(_) | Policy::Counted(_) if settings.limits.may_cut_short() => {
                let cursor = self.last.cursor.reached.as_ref().and_then(Reached::key);
                PlanKind::Capped { cursor: cursor.cloned() }
            }
            Policy::Age(_) | Policy::Counted(_) => PlanKind::Full,
        };
        Plan { order: settings.order, kind, stuck: self.last.cursor.stuck.clone() }
    }
}

/// What tells a line from others: queue, table, policy, conditions and shard. The handler does not
/// count, because two lines with different ones would be after the same records.
fn name(queue: &Queue, schedule: &Schedule, database: &dyn Database) -> String {
    let mut name = format!("{} {} {}", queue.name, database.table().name, schedule.policy.line());
    for condition in &queue.mapping.conditions {
        name += &format!(" --where {condition}");
    }
    if let Some(shard) = &queue.shard {
        name += &format!(" --shard {shard}");
    }
    name
}
