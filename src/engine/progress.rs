//! How far a pass has come, for the next one of its line to go on from.

use std::collections::BTreeSet;

use crate::policy::Span;
use crate::record::{Record, Status};
use crate::selection::{Reached, Slot};

#[derive(Debug, Default)]
pub struct Progress {
    /// The failed record that was handed out last.
    last: Option<Reached>,
    /// Slots whose records were handed out and are not settled: the first one of the pass is not
    /// among them. It counts at once, so that even a pass that is killed each time gets on.
    running: BTreeSet<Slot>,
    /// The first slot whose record was handed out and came back untouched.
    untouched: Option<Slot>,
    /// How far the pass had come when that was last noted.
    noted: Option<Slot>,
}

impl Progress {
    /// A record is handed out, in the order of the plan. Says how far that is if it is the first
    /// that counts.
    pub fn handed_out(
        &mut self,
        record: &Record,
        slot: Option<Slot>,
        is_capped: bool,
    ) -> Option<&Reached> {
        let is_first = self.last.is_none();
        match slot {
            Some(slot) => {
                if is_first {
                    self.noted = Some(slot);
                } else {
                    self.running.insert(slot);
                }
                self.last = Some(Reached::Slot(slot));
            }
            None if is_capped && record.status == Status::Error => {
                self.last = Some(Reached::Key(record.key()));
            }
            None => return None,
        }
        self.last.as_ref().filter(|_| is_first)
    }

    /// A record's attempt is over.
    pub fn settled(&mut self, slot: Option<Slot>) {
        if let Some(slot) = slot {
            self.running.remove(&slot);
        }
    }

    /// A record's slot is still to come.
    pub fn came_back(&mut self, slot: Option<Slot>) {
        self.settled(slot);
        self.untouched = [self.untouched, slot].into_iter().flatten().min();
    }

    /// Up to which slot everything is settled, if that is further than when this was last asked.
    pub fn advanced(&mut self) -> Option<Reached> {
        let slot = self.settled_up_to()?;
        if self.noted.is_some_and(|noted| noted >= slot) {
            return None;
        }
        self.noted = Some(slot);
        Some(Reached::Slot(slot))
    }

    fn settled_up_to(&self) -> Option<Slot> {
        let last = self.last.as_ref().and_then(Reached::slot)?;
        let open = self.running.first().copied().into_iter().chain(self.untouched).min();
        Some(open.map_or(last, Slot::before))
    }

    /// Where the next pass is to go on. `span` is what this one was to work off.
    pub fn come_to(&self, span: Option<Span>, cut_short: bool) -> Option<Reached> {
        match span {
            Some(span) if !cut_short => Some(Reached::Slot(Slot::end_of(span.until))),
            Some(_) => self.settled_up_to().map(Reached::Slot),
            None => self.last.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    const SPAN: Span = Span { after: Slot { tick: 9, phase: 7 }, until: 12 };

    fn slot(tick: i64, phase: u64) -> Option<Slot> {
        Some(Slot { tick, phase })
    }

    fn hand_out(progress: &mut Progress, slot: Option<Slot>) -> Option<Slot> {
        let record = Record { status: Status::Error, ..fixture::record() };
        progress.handed_out(&record, slot, false).and_then(Reached::slot)
    }

    #[test]
    fn a_pass_that_did_all_has_come_to_the_end_of_its_span() {
        let mut progress = Progress::default();
        let end = Some(Reached::Slot(Slot::end_of(12)));
        assert_eq!(progress.come_to(Some(SPAN), false), end);
        hand_out(&mut progress, slot(10, 1));
        progress.came_back(slot(10, 1));
        assert_eq!(progress.come_to(Some(SPAN), false), end);
        assert_eq!(Progress::default().come_to(None, false), None);
    }

    #[test]
    fn a_pass_that_was_cut_short_has_come_to_what_is_untouched() {
        let mut progress = Progress::default();
        assert_eq!(progress.come_to(Some(SPAN), true), None, "nothing was tried");
        for slot in [slot(10, 5), slot(11, 0)] {
            hand_out(&mut progress, slot);
        }
        progress.came_back(slot(11, 0));
        progress.came_back(slot(10, 5));
        progress.came_back(None);
        let before = Reached::Slot(Slot { tick: 10, phase: 4 });
        assert_eq!(progress.come_to(Some(SPAN), true), Some(before));
    }

    #[test]
    fn the_first_record_counts_at_once_and_the_others_when_they_are_settled() {
        let mut progress = Progress::default();
        assert_eq!(hand_out(&mut progress, slot(10, 1)), slot(10, 1));
        assert_eq!(progress.advanced(), None);
        for slot in [slot(10, 2), slot(10, 5), slot(11, 3)] {
            assert_eq!(hand_out(&mut progress, slot), None);
        }
        // Out of order: what still runs is not passed over.
        progress.settled(slot(10, 5));
        assert_eq!(progress.advanced(), None);
        progress.settled(slot(10, 2));
        assert_eq!(progress.advanced(), Some(Reached::Slot(Slot { tick: 11, phase: 2 })));
        assert_eq!(progress.advanced(), None);
        progress.settled(slot(11, 3));
        assert_eq!(progress.advanced(), slot(11, 3).map(Reached::Slot));
    }
}
