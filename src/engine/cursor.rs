//! A crontab line, and the cursor of a running pass: the place from which the next pass of the line goes on.
//!
//! By slots the cursor goes past records whose attempts have not ended. They are listed beside it, with the number
//! of attempts begun: if the pass is killed, no record loses its slot. Only of a fast pass some get one twice.

use std::collections::HashMap;

use backlog_schedule::{
    Capabilities, Cursor, DAY, DueRule, Id, Instant, Kept, Order, PassTime, Policy, Position,
    Record, Schedule, Slot, SortKey, Span, Status,
};

use super::PassLimits;
use super::due_queue::{PlanKind, SearchPlan};

/// A crontab line: its schedule, what the table can do, and the cursor that its last pass left.
#[derive(Debug, Clone)]
pub struct CronLine {
    pub schedule: Schedule,
    pub capabilities: Capabilities,
    pub cursor: Cursor,
    /// See [`slots_later`](Self::slots_later): those that the last pass left.
    pub later: Vec<Slot>,
}

impl CronLine {
    pub fn new(schedule: Schedule, capabilities: Capabilities) -> Self {
        Self { schedule, capabilities, cursor: Cursor::default(), later: Vec::new() }
    }

    /// Where a pass by slots begins. A slot that was reached too long ago was reached by a wrong clock.
    pub fn reached(&self, now: Instant) -> Option<Slot> {
        let every_secs = self.schedule.policy.every_secs();
        let ticks = now.saturating_sub(MOST_BEHIND).tick(every_secs)..=now.tick(every_secs);
        self.slots_reached().filter(|slot| ticks.contains(&slot.tick)).max()
    }

    /// The slots after the clock of this pass that passes have reached: one of the clocks was wrong, so they are left to
    /// later passes.
    pub fn slots_later(&self, now: Instant) -> Vec<Slot> {
        let tick = now.tick(self.schedule.policy.every_secs());
        let mut later: Vec<_> = self.slots_reached().filter(|slot| slot.tick > tick).collect();
        later.sort_unstable();
        later.dedup();
        later.truncate(MOST_LATER);
        later
    }

    /// Whether the last pass has reached a slot after this instant.
    pub fn has_clock_gone_back(&self, now: Instant) -> bool {
        let last = self.slots_reached().next();
        last.is_some_and(|last| last.tick > now.tick(self.schedule.policy.every_secs()))
    }

    /// The slot that the last pass has reached, and those that it left to later passes.
    fn slots_reached(&self) -> impl Iterator<Item = Slot> {
        let Capabilities { keeps_schedule, has_due_column, .. } = self.capabilities;
        let last = self.cursor.reached.as_ref().and_then(Position::slot);
        let reached = last.into_iter().chain(self.later.iter().copied());
        reached.filter(move |_| !keeps_schedule && !has_due_column)
    }

    /// Whether a pass by slots makes up for missed ticks.
    pub fn makes_up(&self, now: Instant) -> bool {
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

    /// The order of a pass. By slots, and if a limit may cut it short, it goes on from the last one.
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
        let (is_unlimited, stuck) = (!may_be_cut_short, self.cursor.stuck.clone());
        SearchPlan { order, kind, is_unlimited, stuck }
    }
}

/// Maximum age of a slot from which a pass goes on.
const MOST_BEHIND: i64 = 366 * DAY;
/// Maximum number of slots after the clock that are kept: one for each jump of the clock.
const MOST_LATER: usize = 4;

/// Maximum number of attempts begun for one slot: the record may be what kills the passes.
const MOST_BEGUN: u32 = 3;
#[derive(Debug, Default)]
pub struct PassCursor {
    /// The slot or the failed record that the pass has come to.
    last: Option<Position>,
    /// Records whose slots have come and that are still to be tried.
    kept: HashMap<Id, Kept>,
    pub stuck: Option<SortKey>,
    is_capped: bool,
    /// Whether a limited pass has come to a failed record.
    is_on_its_way: bool,
    /// Whether the cursor has changed since it was last noted.
    is_news: bool,
}

impl PassCursor {
    /// Begins where the last pass ended: if new records use up the limit, the place stays as it was.
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
            // The first one is noted at once, so that passes which are killed each time make progress.
            self.is_news |= !std::mem::replace(&mut self.is_on_its_way, true);
            self.last = Some(Position::Key(record.key()));
        }
    }

    pub fn keep(&mut self, id: &Id, slot: Slot) -> &mut Kept {
        self.is_news = true;
        let kept = || Kept { id: id.clone(), slot, begun: 0 };
        self.kept.entry(id.clone()).or_insert_with(kept)
    }

    pub fn settled(&mut self, id: &Id) {
        self.is_news |= self.kept.remove(id).is_some();
    }

    /// Takes back that a record was handed out.
    pub fn came_back(&mut self, id: &Id) {
        if let Some(kept) = self.kept.get_mut(id) {
            self.is_news = true;
            kept.begun = kept.begun.saturating_sub(1);
        }
    }

    /// The cursor for the case that the pass is killed now, if it has changed.
    pub fn news(&mut self) -> Option<Cursor> {
        std::mem::take(&mut self.is_news).then(|| self.cursor(self.last.clone()))
    }

    /// The cursor at the end of a pass over `span`.
    pub fn come_to(&self, span: Option<Span>, cut_short: bool) -> Cursor {
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
        SearchPlan { order: Order::Newest, kind: PlanKind::Slots, is_unlimited: true, stuck: None }
    }

    fn by_slots_cursor() -> PassCursor {
        PassCursor::new(Some(SPAN), &by_slots(), HashMap::new())
    }

    fn kept(cursor: &Cursor) -> Vec<(i64, u32)> {
        let number = |id: &Id| if let Id::Integer(number) = id { *number } else { 0 };
        cursor.kept.iter().map(|kept| (number(&kept.id), kept.begun)).collect()
    }

    #[test]
    fn a_pass_that_did_all_has_come_to_the_end_of_its_span() {
        let end = Some(Position::Slot(Slot::end_of(12)));
        assert_eq!(by_slots_cursor().come_to(Some(SPAN), false).reached, end);
        let mut running = by_slots_cursor();
        hand_out(&mut running, 1, slot(10, 1));
        running.settled(&id(1));
        assert_eq!(
            running.come_to(Some(SPAN), false),
            Cursor { reached: end, ..Cursor::default() }
        );
        assert_eq!(PassCursor::default().come_to(None, false), Cursor::default());
    }

    #[test]
    fn what_came_back_keeps_its_slot_and_nothing_else_is_tried_for_one_twice() {
        let mut running = by_slots_cursor();
        let untouched = running.come_to(Some(SPAN), true);
        assert_eq!(untouched.reached, Some(Position::Slot(SPAN.after)), "nothing was tried");
        hand_out(&mut running, 1, slot(10, 5));
        hand_out(&mut running, 2, slot(11, 0));
        running.came_back(&id(1));
        running.settled(&id(2));
        for cut_short in [true, false] {
            let cursor = running.come_to(Some(SPAN), cut_short);
            assert_eq!(kept(&cursor), [(1, 0)]);
            let reached = if cut_short { slot(11, 0) } else { Slot::end_of(12) };
            assert_eq!(cursor.reached, Some(Position::Slot(reached)));
        }
    }

    #[test]
    fn a_pass_that_is_killed_leaves_what_it_has_begun_and_how_often() {
        let mut running = by_slots_cursor();
        hand_out(&mut running, 1, slot(10, 1));
        hand_out(&mut running, 2, slot(10, 2));
        running.settled(&id(2));
        let cursor = running.news().unwrap();
        assert_eq!(running.news(), None);
        assert_eq!(kept(&cursor), [(1, 1)]);
        assert_eq!(cursor.reached, Some(Position::Slot(slot(10, 2))));

        let before = cursor.kept.into_iter().map(|kept| (kept.id.clone(), kept)).collect();
        let mut next =
            PassCursor::new(Some(Span { after: slot(10, 2), ..SPAN }), &by_slots(), before);
        hand_out(&mut next, 1, slot(10, 1));
        let cursor = next.news().unwrap();
        assert_eq!(kept(&cursor), [(1, 2)]);
        assert_eq!(cursor.reached, Some(Position::Slot(slot(10, 2))), "it does not go back");
    }
}
