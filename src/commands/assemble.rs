//! Assembly of a pass, from the options and the table: the crontab line with what its last pass left
//! in the state directory. A pass, a dry run, a simulation, and what is said of the next pass all
//! begin here.

use anyhow::{Context, Result};

use crate::clock::Clock;
use crate::engine::{CronLine, Observer, Pass};
use crate::options::{PassSettings, Queue, Schedule};
use crate::record::Status;
use crate::stop::Stop;
use crate::store::{Database, Interruptible, LineLock, LineState, StateDir};
use crate::time::Instant;

/// The parts of a pass that are there before it begins.
pub struct Assembly {
    pub line: CronLine,
    pub state: StateDir,
    /// What tells the line from others in the state directory.
    pub name: String,
    /// What the last pass left.
    pub last: LineState,
}

impl Assembly {
    /// To look only: whoever does may have no right to the cursor.
    pub fn new(queue: &Queue, schedule: &Schedule, database: &dyn Database) -> Result<Self> {
        let state = database.state_dir(queue.state_dir.as_deref())?;
        let name = name(queue, schedule, database);
        let last = state.line_state(&name).unwrap_or_else(|error| {
            log::warn!("{error:#}");
            LineState::default()
        });
        Ok(Self::of(queue, state, name, last, schedule, database))
    }

    /// With the lock of the line: two passes of one line never run at once. `None` if there is one,
    /// unless this is to `wait` for its end.
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
        Ok(Some((Self::of(queue, state, name, last, schedule, database), lock)))
    }

    fn of(
        queue: &Queue,
        state: StateDir,
        name: String,
        last: LineState,
        schedule: &Schedule,
        database: &dyn Database,
    ) -> Self {
        let table = database.table();
        let last = LineState { cursor: last.cursor.taken_up(table.id.len()), ..last };
        let line = CronLine {
            schedule: Schedule { shard: queue.shard, ..schedule.clone() },
            capabilities: table.counting().capabilities(table.can_be(Status::Archived)),
            cursor: last.cursor.clone(),
            is_kept_by_store: table.due_at.is_some(),
        };
        Self { line, state, name, last }
    }

    /// The pass that begins now.
    pub fn pass(
        &self,
        database: Box<dyn Database>,
        settings: &PassSettings,
        now: Instant,
        clock: Clock,
        token: &str,
        observer: Box<dyn Observer + Send>,
    ) -> Result<Pass> {
        if self.line.is_ahead_of(now) {
            log::warn!("the last pass ran in the future: the clock was set back");
        }
        let limits = settings.limits.clone();
        let stop = Stop::new(clock, limits.grace, limits.max_runtime)
            .context("could not make an eventfd")?;
        let store = Interruptible::open(database, &self.state, stop.clone(), clock)?;
        Ok(Pass {
            store: Box::new(store),
            line: self.line.clone(),
            began_at: now,
            order: settings.order,
            limits,
            clock,
            stop,
            token: token.into(),
            observer,
        })
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
