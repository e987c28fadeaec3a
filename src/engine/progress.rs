//! How far a pass has come, for the next one of its line to go on from.

use crate::policy::Span;
use crate::record::{Record, Status};
use crate::selection::{Reached, Slot};

#[derive(Debug, Default)]
pub struct Progress {
    /// The failed record that was handed out last.
    reached: Option<Reached>,
    /// The first slot whose record was handed out and came back untouched.
    untouched: Option<Slot>,
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
        let is_first = self.reached.is_none();
        match slot {
            Some(slot) => self.reached = Some(Reached::Slot(slot)),
            None if is_capped && record.status == Status::Error => {
                self.reached = Some(Reached::Key(record.key()));
            }
            None => return None,
        }
        self.reached.as_ref().filter(|_| is_first)
    }

    /// A record's slot is still to come.
    pub fn came_back(&mut self, slot: Option<Slot>) {
        self.untouched = [self.untouched, slot].into_iter().flatten().min();
    }

    /// Where the next pass is to go on. `span` is what this one was to work off.
    pub fn come_to(&self, span: Option<Span>, cut_short: bool) -> Option<Reached> {
        match (span, self.untouched) {
            (Some(span), _) if !cut_short => Some(Reached::Slot(Slot::end_of(span.until))),
            (Some(_), Some(untouched)) => Some(Reached::Slot(untouched.before())),
            (_, _) => self.reached.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span { after: Slot { tick: 9, phase: 7 }, until: 12 };

    fn slot(tick: i64, phase: u64) -> Option<Slot> {
        Some(Slot { tick, phase })
    }

    #[test]
    fn a_pass_that_did_all_has_come_to_the_end_of_its_span() {
        let mut progress = Progress::default();
        assert_eq!(progress.come_to(Some(SPAN), false), Some(Reached::Slot(Slot::end_of(12))));
        progress.came_back(slot(10, 1));
        assert_eq!(progress.come_to(Some(SPAN), false), Some(Reached::Slot(Slot::end_of(12))));
        assert_eq!(progress.come_to(None, false), None);
    }

    #[test]
    fn a_pass_that_was_cut_short_has_come_to_what_is_untouched() {
        let mut progress = Progress::default();
        assert_eq!(progress.come_to(Some(SPAN), true), None, "nothing was tried");
        progress.came_back(slot(11, 0));
        progress.came_back(slot(10, 5));
        progress.came_back(None);
        let before = Reached::Slot(Slot { tick: 10, phase: 4 });
        assert_eq!(progress.come_to(Some(SPAN), true), Some(before));
    }
}
