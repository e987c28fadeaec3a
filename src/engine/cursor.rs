//! A crontab line, and the cursor of a running pass, from which the next pass of the line continues. By slots it moves
//! past records with running attempts, and lists them with the number of attempts begun, so that none loses its slot if
//! the pass is killed. If a fast pass is killed, some records may get a slot twice.

use std::collections::HashMap;

use backlog_schedule::{
    Capabilities, Cursor, DAY, DueRule, Id, Instant, Kept, Order, PassTime, Policy, Position,
    Record, Schedule, Slot, SortKey, Span, Status,
};

use super::PassLimits;
use super::due_queue::{PlanKind, SearchPlan};

#[derive(Debug, Clone)]
pub struct LineSchedule {
    pub schedule: Schedule,
    pub capabilities: Capabilities,
    pub cursor: Cursor,
    /// The [`slots_later`](Self::slots_later) of the last pass.
    pub later: Vec<Slot>,
}

impl LineSchedule {
    pub fn new(schedule: Schedule, capabilities: Capabilities) -> Self {
        Self { schedule, capabilities, cursor: Cursor::default(), later: Vec::new() }
    }

    /// The slot after which a pass begins. A slot that was reached too long ago was reached by a wrong clock.
    pub fn reached(&self, now: Instant) -> Option<Slot> {
        let every_secs = self.schedule.policy.every_secs();
        let ticks = now.saturating_sub(MOST_BEHIND).tick(every_secs)..=now.tick(every_secs);
        self.slots_reached().filter(|slot| ticks.contains(&slot.tick)).max()
    }

    /// Slots after `now` that earlier passes have reached: one of the clocks was wrong, so later passes get them.
    pub fn slots_later(&self, now: Instant) -> Vec<Slot> {
        let tick = now.tick(self.schedule.policy.every_secs());
        let mut later: Vec<_> = self.slots_reached().filter(|slot| slot.tick > tick).collect();
        later.sort_unstable();
        later.dedup();
        later.truncate(MOST_LATER);
        later
    }

    pub fn has_clock_gone_back(&self, now: Instant) -> bool {
        let last = self.slots_reached().next();
        last.is_some_and(|last| last.tick > now.tick(self.schedule.policy.every_secs()))
    }

    /// The slot that the last pass has reached, then the slots that it kept for later passes.
    fn slots_reached(&self) -> impl Iterator<Item = Slot> {
        let Capabilities { keeps_schedule, has_due_column, .. } = self.capabilities;
        let last = self.cursor.reached.as_ref().and_then(Position::slot);
        let reached = last.into_iter().chain(self.later.iter().copied());
        reached.filter(move |_| !keeps_schedule && !has_due_column)
    }

    pub fn catches_up(&self, now: Instant) -> bool {
        let tick = now.tick(self.schedule.policy.every_secs());
        self.reached(now).is_some_and(|slot| slot.tick < tick - 1)
    }

    pub fn pass_time(&self, now: Instant, drain: bool) -> PassTime {
        self.schedule.policy.pass_time(self.reached(now), now, drain)
    }

    pub fn due_rule(&self, now: Instant, drain: bool) -> DueRule {
        let time = self.pass_time(now, drain);
        let kept = self.cursor.kept.iter().filter(|kept| kept.begun < MOST_BEGUN);
        let kept = kept.map(|kept| (kept.id.clone(), kept.clone())).collect();
        DueRule { schedule: self.schedule.clone(), capabilities: self.capabilities, time, kept }
    }

    /// The searches of a pass. By slots, and with a limit, they continue from the last pass.
    pub fn plan(&self, order: Order, limits: &PassLimits) -> SearchPlan {
        let may_be_cut_short = limits.max_records.is_some()
            || limits.max_runtime.is_some()
            || limits.max_consecutive_failures.is_some();
        let kind = match &self.schedule.policy {
            _ if !limits.named.is_empty() => PlanKind::Named(limits.named.clone()),
            _ if self.capabilities.keeps_schedule || self.capabilities.has_due_column => {
                PlanKind::Full
            }
            Policy::Slots(_) => PlanKind::Slots,
            Policy::Age(_) | Policy::Counted(_) if may_be_cut_short => {
                let cursor = self.cursor.reached.as_ref().and_then(Position::key);
                PlanKind::Capped { cursor: cursor.cloned() }
            }
            Policy::Age(_) | Policy::Counted(_) => PlanKind::Full,
        };
        let (may_defer, stuck) = (!may_be_cut_short, self.cursor.stuck.clone());
        SearchPlan { order, kind, may_defer, stuck }
    }
}

/// Maximum age of a slot from which a pass continues.
const MOST_BEHIND: i64 = 366 * DAY;
/// Maximum number of slots after the clock that are kept: one for each jump of the clock.
const MOST_LATER: usize = 4;

/// Maximum number of attempts begun for one slot: the record may kill its passes.
const MOST_BEGUN: u32 = 3;

#[derive(Debug, Default)]
pub struct PassCursor {
    last: Option<Position>,
    kept: HashMap<Id, Kept>,
    pub stuck: Option<SortKey>,
    is_capped: bool,
    /// True if a limited pass has reached a failed record.
    has_reached_failed: bool,
    has_changed: bool,
}

impl PassCursor {
    /// Begins at the cursor of the last pass, which remains if new records use up the limit.
    pub fn new(span: Option<Span>, plan: &SearchPlan, kept: HashMap<Id, Kept>) -> Self {
        let slot = span.map(|span| Position::Slot(span.after));
        let capped = if let PlanKind::Capped { cursor } = &plan.kind { Some(cursor) } else { None };
        let last = slot.or_else(|| capped?.clone().map(Position::Key));
        Self { last, kept, is_capped: capped.is_some(), ..Self::default() }
    }

    pub fn handed_out(&mut self, record: &Record, slot: Option<Slot>) {
        if let Some(slot) = slot {
            self.keep(&record.id, slot).begun += 1;
        }
        self.passed(record, slot);
    }

    pub fn passed(&mut self, record: &Record, slot: Option<Slot>) {
        if let Some(slot) = slot {
            let last = self.last.as_ref().and_then(Position::slot);
            self.last = last.max(Some(slot)).map(Position::Slot);
        } else if self.is_capped && record.status == Status::Error {
            // The first position is saved at once, so that passes that are all killed make progress.
            self.has_changed |= !std::mem::replace(&mut self.has_reached_failed, true);
            self.last = Some(Position::Key(record.key()));
        }
    }

    pub fn keep(&mut self, id: &Id, slot: Slot) -> &mut Kept {
        self.has_changed = true;
        let kept = || Kept { id: id.clone(), slot, begun: 0 };
        self.kept.entry(id.clone()).or_insert_with(kept)
    }

    pub fn settled(&mut self, id: &Id) {
        self.has_changed |= self.kept.remove(id).is_some();
    }

    /// The attempt at a record did not take place.
    pub fn undone(&mut self, id: &Id) {
        if let Some(kept) = self.kept.get_mut(id) {
            self.has_changed = true;
            kept.begun = kept.begun.saturating_sub(1);
        }
    }

    /// The cursor to save in case the pass is killed, if it has changed.
    pub fn take_changed(&mut self) -> Option<Cursor> {
        std::mem::take(&mut self.has_changed).then(|| self.cursor(self.last.clone()))
    }

    pub fn at_end(&self, span: Option<Span>, cut_short: bool) -> Cursor {
        let end = span.filter(|_| !cut_short).map(|span| Slot::end_of(span.until));
        self.cursor(end.map(Position::Slot).or_else(|| self.last.clone()))
    }

    fn cursor(&self, reached: Option<Position>) -> Cursor {
        let mut kept: Vec<_> = self.kept.values().cloned().collect();
        kept.sort_by_key(|kept| (kept.slot, kept.begun));
        Cursor { reached, kept, stuck: self.stuck.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span { after: Slot { tick: 9, phase: 7 }, until: 12 };

    fn slot(tick: i64, phase: u64) -> Slot {
        Slot { tick, phase }
    }

    fn id(number: i64) -> Id {
        Id::Integer(number)
    }

    fn hand_out(running: &mut PassCursor, number: i64, slot: Slot) {
        let record =
            Record { id: id(number), status: Status::Error, ..Record::new(Id::Integer(7), None) };
        running.handed_out(&record, Some(slot));
    }

    fn by_slots() -> SearchPlan {
        SearchPlan { order: Order::Newest, kind: PlanKind::Slots, may_defer: true, stuck: None }
    }

    fn by_slots_cursor() -> PassCursor {
        PassCursor::new(Some(SPAN), &by_slots(), HashMap::new())
    }

    fn kept(cursor: &Cursor) -> Vec<(i64, u32)> {
        let number = |id: &Id| if let Id::Integer(number) = id { *number } else { 0 };
        cursor.kept.iter().map(|kept| (number(&kept.id), kept.begun)).collect()
    }

    #[test]
    fn a_complete_pass_reaches_the_end_of_its_span() {
        let end = Some(Position::Slot(Slot::end_of(12)));
        assert_eq!(by_slots_cursor().at_end(Some(SPAN), false).reached, end);
        let mut running = by_slots_cursor();
        hand_out(&mut running, 1, slot(10, 1));
        running.settled(&id(1));
        assert_eq!(running.at_end(Some(SPAN), false), Cursor { reached: end, ..Cursor::default() });
        assert_eq!(PassCursor::default().at_end(None, false), Cursor::default());
    }

    #[test]
    fn only_a_record_whose_attempt_did_not_take_place_keeps_its_slot() {
        let mut running = by_slots_cursor();
        let untouched = running.at_end(Some(SPAN), true);
        assert_eq!(untouched.reached, Some(Position::Slot(SPAN.after)), "nothing was tried");
        hand_out(&mut running, 1, slot(10, 5));
        hand_out(&mut running, 2, slot(11, 0));
        running.undone(&id(1));
        running.settled(&id(2));
        for cut_short in [true, false] {
            let cursor = running.at_end(Some(SPAN), cut_short);
            assert_eq!(kept(&cursor), [(1, 0)]);
            let reached = if cut_short { slot(11, 0) } else { Slot::end_of(12) };
            assert_eq!(cursor.reached, Some(Position::Slot(reached)));
        }
    }

    #[test]
    fn a_killed_pass_leaves_the_records_that_it_has_begun() {
        let mut running = by_slots_cursor();
        hand_out(&mut running, 1, slot(10, 1));
        hand_out(&mut running, 2, slot(10, 2));
        running.settled(&id(2));
        let cursor = running.take_changed().unwrap();
        assert_eq!(running.take_changed(), None);
        assert_eq!(kept(&cursor), [(1, 1)]);
        assert_eq!(cursor.reached, Some(Position::Slot(slot(10, 2))));

        let before = cursor.kept.into_iter().map(|kept| (kept.id.clone(), kept)).collect();
        let mut next =
            PassCursor::new(Some(Span { after: slot(10, 2), ..SPAN }), &by_slots(), before);
        hand_out(&mut next, 1, slot(10, 1));
        let cursor = next.take_changed().unwrap();
        assert_eq!(kept(&cursor), [(1, 2)]);
        assert_eq!(cursor.reached, Some(Position::Slot(slot(10, 2))), "it does not go back");
    }
}
