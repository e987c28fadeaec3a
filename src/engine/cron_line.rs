//! A crontab line as its passes see it: they go on from each other.

use super::PassLimits;
use super::due_queue::{Plan, PlanKind};
use crate::query::{Cursor, Kept, Order, Position, Slot};
use crate::record::Capabilities;
use crate::schedule::{DueRule, PassTime, Policy, Schedule};
use crate::time::Instant;

/// A crontab line: its schedule, what the table can do, and the cursor that its last pass left.
#[derive(Debug, Clone)]
pub struct CronLine {
    pub schedule: Schedule,
    pub capabilities: Capabilities,
    pub cursor: Cursor,
}

impl CronLine {
    /// A line that has had no pass yet.
    pub fn new(schedule: Schedule, capabilities: Capabilities) -> Self {
        Self { schedule, capabilities, cursor: Cursor::default() }
    }

    /// Where a pass by slots begins.
    pub fn reached(&self) -> Option<Slot> {
        self.cursor.reached.as_ref().and_then(Position::slot)
    }

    pub fn pass_time(&self, now: Instant, drain: bool) -> PassTime {
        self.schedule.policy.pass_time(self.reached(), now, drain)
    }

    /// What a pass would look at now.
    pub fn due_rule(&self, now: Instant, drain: bool) -> DueRule {
        let time = self.pass_time(now, drain);
        let kept = self.cursor.kept.iter().filter(|kept| kept.begun < Kept::MOST_BEGUN);
        let kept = kept.map(|kept| (kept.id.clone(), kept.clone())).collect();
        DueRule { schedule: self.schedule.clone(), capabilities: self.capabilities, time, kept }
    }

    /// The order of a pass. Where the last one came to counts only where a limit may cut the pass
    /// short, and for slots.
    pub fn plan(&self, order: Order, limits: &PassLimits) -> Plan {
        let kind = match &self.schedule.policy {
            _ if self.capabilities.keeps_schedule => PlanKind::Full,
            Policy::Slots(_) => PlanKind::Slots,
            Policy::Age(_) | Policy::Counted(_) if limits.may_cut_short() => {
                let cursor = self.cursor.reached.as_ref().and_then(Position::key);
                PlanKind::Capped { cursor: cursor.cloned() }
            }
            Policy::Age(_) | Policy::Counted(_) => PlanKind::Full,
        };
        Plan { order, kind, stuck: self.cursor.stuck.clone() }
    }

    /// Whether the last pass by slots came to a time that has not come yet.
    pub fn is_ahead_of(&self, now: Instant) -> bool {
        let tick = now.tick(self.schedule.policy.every_secs());
        self.reached().is_some_and(|slot| slot.tick > tick)
    }
}
