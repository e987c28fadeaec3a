//! The cursor of a running pass: the place from which the next pass of its line goes on.
//!
//! By slots the cursor passes over records whose attempts have not come to their end: those are
//! listed beside it, with how often that has happened, until they do. So a pass that is killed costs
//! no record its slot, and none is tried twice for one that it has had.

use std::collections::HashMap;

use super::due_queue::{Plan, PlanKind};
use crate::query::{Cursor, Kept, Position, Slot};
use crate::record::{Id, Key, Record, Status};
use crate::schedule::Span;

/// How many bytes of ids are listed: with that a cursor is written in one page, which no kill can
/// cut in two. What is more than that is listed apart, and a cursor is noted that does not go past
/// it, for the case that the rest is lost.
const MOST_LISTED: usize = 2_048;
/// What an entry takes besides its id.
const ENTRY: usize = 48;

#[derive(Debug, Default)]
pub struct PassCursor {
    /// The slot, or the failed record, that the pass has come to in the order of its plan.
    last: Option<Position>,
    /// Records whose slots have come, and that are still to be tried for them.
    kept: HashMap<Id, Kept>,
    /// The last of so many records that got nowhere that the pass ends: the next one begins behind
    /// it.
    pub stuck: Option<Key>,
    /// Whether the plan is that of a limited pass.
    is_capped: bool,
    /// Whether a limited pass has come to a failed record.
    is_on_its_way: bool,
    /// Whether the next pass would go on from elsewhere than was last noted.
    is_news: bool,
}

impl PassCursor {
    /// That of a pass that is to work off a span, if it goes by slots, or to go on behind a failed
    /// record: where it comes to none, because new ones use up its limit, the next one goes on from
    /// there too.
    pub fn new(span: Option<Span>, plan: &Plan, kept: &HashMap<Id, Kept>) -> Self {
        let slot = span.map(|span| Position::Slot(span.after));
        let capped = if let PlanKind::Capped { cursor } = &plan.kind { Some(cursor) } else { None };
        let last = slot.or_else(|| capped?.clone().map(Position::Key));
        Self { last, kept: kept.clone(), is_capped: capped.is_some(), ..Self::default() }
    }

    pub fn handed_out(&mut self, record: &Record, slot: Option<Slot>) {
        if let Some(slot) = slot {
            self.keep(&record.id, slot).begun += 1;
        }
        self.passed(record, slot);
    }

    /// A record has its turn, whether or not it is handed out.
    pub fn passed(&mut self, record: &Record, slot: Option<Slot>) {
        let Some(slot) = slot else { return self.comes_to(record) };
        if self.last.as_ref().and_then(Position::slot).is_none_or(|last| last < slot) {
            self.last = Some(Position::Slot(slot));
        }
    }

    fn comes_to(&mut self, record: &Record) {
        if self.is_capped && record.status == Status::Error {
            // The first one counts at once, so that even a pass that is killed each time gets on.
            self.is_news |= !std::mem::replace(&mut self.is_on_its_way, true);
            self.last = Some(Position::Key(record.key()));
        }
    }

    /// A record's slot has come, and it is still to be tried for it.
    pub fn keep(&mut self, id: &Id, slot: Slot) -> &mut Kept {
        self.is_news = true;
        let kept = || Kept { id: id.clone(), slot, begun: 0 };
        self.kept.entry(id.clone()).or_insert_with(kept)
    }

    /// A record's attempt is over, or there is nothing to try.
    pub fn settled(&mut self, id: &Id) {
        self.is_news |= self.kept.remove(id).is_some();
    }

    /// A record was handed out and came back as if it had not been.
    pub fn came_back(&mut self, id: &Id) {
        if let Some(kept) = self.kept.get_mut(id) {
            self.is_news = true;
            kept.begun = kept.begun.saturating_sub(1);
        }
    }

    /// Where the next pass would go on if this one were killed now, if that is news.
    pub fn news(&mut self) -> Option<Cursor> {
        std::mem::take(&mut self.is_news).then(|| self.cursor(self.last.clone()))
    }

    /// Where the next pass is to go on. `span` is what this one was to work off.
    pub fn come_to(&self, span: Option<Span>, cut_short: bool) -> Cursor {
        match span {
            Some(span) if !cut_short => self.cursor(Some(Position::Slot(Slot::end_of(span.until)))),
            Some(_) | None => self.cursor(self.last.clone()),
        }
    }

    fn cursor(&self, last: Option<Position>) -> Cursor {
        let mut kept: Vec<_> = self.kept.values().cloned().collect();
        kept.sort_by(|one, other| one.slot.cmp(&other.slot).then(one.begun.cmp(&other.begun)));
        let mut bytes = 0;
        let first_beyond = kept.iter().position(|kept| {
            bytes += kept.id.text().len() + ENTRY;
            bytes > MOST_LISTED
        });
        let beyond = kept.split_off(first_beyond.unwrap_or(kept.len()));
        let (reached, ahead) = match (last, beyond.first().map(|kept| kept.slot.before())) {
            (Some(Position::Slot(last)), Some(before)) => {
                (Some(Position::Slot(last.min(before))), Some((last, beyond)))
            }
            (last, _) => (last, None),
        };
        Cursor { reached, kept, ahead, stuck: self.stuck.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Order;
    use crate::record::fixture;

    const SPAN: Span = Span { after: Slot { tick: 9, phase: 7 }, until: 12 };

    fn slot(tick: i64, phase: u64) -> Slot {
        Slot { tick, phase }
    }

    fn id(number: i64) -> Id {
        Id::Integer(number)
    }

    fn hand_out(running: &mut PassCursor, number: i64, slot: Slot) {
        let record = Record { id: id(number), status: Status::Error, ..fixture::record() };
        running.handed_out(&record, Some(slot));
    }

    fn by_slots() -> Plan {
        Plan { kind: PlanKind::Slots, ..Plan::full(Order::Newest) }
    }

    fn by_slots_cursor() -> PassCursor {
        PassCursor::new(Some(SPAN), &by_slots(), &HashMap::new())
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
            PassCursor::new(Some(Span { after: slot(10, 2), ..SPAN }), &by_slots(), &before);
        hand_out(&mut next, 1, slot(10, 1));
        let cursor = next.news().unwrap();
        assert_eq!(kept(&cursor), [(1, 2)]);
        assert_eq!(cursor.reached, Some(Position::Slot(slot(10, 2))), "it does not go back");
    }

    #[test]
    fn what_is_too_much_for_one_page_is_listed_apart() {
        let mut running = by_slots_cursor();
        for number in 1..=200 {
            hand_out(&mut running, number, slot(10, number.unsigned_abs()));
        }
        let cursor = running.news().unwrap();
        let listed = cursor.kept.len();
        assert!((20..100).contains(&listed), "{listed}");
        let reached = slot(10, listed as u64);
        assert_eq!(cursor.reached, Some(Position::Slot(reached)));
        let (ahead, rest) = cursor.ahead.unwrap();
        assert_eq!((ahead, listed + rest.len()), (slot(10, 200), 200));
    }
}
