//! The due records in the order in which a pass tries them: ids only, read once, a page at a time.

use std::collections::VecDeque;

use anyhow::Result;

use crate::instant::Instant;
use crate::policy::{End, Look, Reason, Span, Verdict};
use crate::record::{Id, Key, Status};
use crate::selection::{Order, Selection, Slot, Window};
use crate::store::Reader;

/// How many ids are read at once. More are continued by key.
const PAGE: usize = 1_000_000;

/// How many are looked at again at once, where another pass was faster.
const AHEAD: usize = 64;

/// In what order a pass goes through the due records.
#[derive(Debug, Clone)]
pub enum Plan {
    /// All of them, in the table's order.
    Full { order: Order },
    /// A limit may cut the pass short: NEW go before ERROR, and ERROR go on behind the last one
    /// that such a pass tried, so that no block of failing records keeps the others from being
    /// tried.
    Capped { order: Order, cursor: Option<Key> },
    /// NEW first, then ERROR in the order of their slots.
    Slots { order: Order },
}

/// One selection of a pass.
#[derive(Debug)]
struct Search {
    selection: Selection,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Due,
    /// To be sorted by slot.
    Slots,
    /// Not due, but grown too old: to be archived.
    TooOld,
}

impl Plan {
    fn order(&self) -> Order {
        match self {
            Self::Full { order } | Self::Capped { order, .. } | Self::Slots { order } => *order,
        }
    }

    pub fn is_capped(&self) -> bool {
        matches!(self, Self::Capped { .. })
    }

    fn searches(&self, look: &Look) -> VecDeque<Search> {
        let search = |statuses: &[Status], kind: Kind| Search {
            selection: Selection {
                window: look.policy.window(look.moment, statuses),
                statuses: statuses.to_vec(),
                order: self.order(),
                after: None,
                up_to: None,
                // What is to be sorted is read at once.
                limit: if kind == Kind::Slots { usize::MAX } else { PAGE },
            },
            kind,
        };
        let new = || search(&[Status::New], Kind::Due);
        let errors = |after: Option<&Key>, up_to: Option<&Key>| {
            let mut errors = search(&[Status::Error], Kind::Due);
            errors.selection.after = after.cloned();
            errors.selection.up_to = up_to.cloned();
            errors
        };
        let mut searches: VecDeque<_> = match self {
            Self::Full { .. } => [search(&Status::PENDING, Kind::Due)].into(),
            Self::Capped { cursor: None, .. } => [new(), errors(None, None)].into(),
            Self::Capped { cursor: Some(key), .. } => {
                [new(), errors(Some(key), None), errors(None, Some(key))].into()
            }
            Self::Slots { .. } if look.moment.span.is_some_and(Span::is_empty) => [new()].into(),
            Self::Slots { .. } => [new(), search(&[Status::Error], Kind::Slots)].into(),
        };
        if let Some(max_age) = look.rules.max_age_secs {
            let mut too_old = search(&[Status::Error], Kind::TooOld);
            let until = look.moment.now.saturating_sub(max_age);
            too_old.selection.window =
                Window::Inserted { from: Instant(i64::MIN), until: Some(until) };
            searches.push_back(too_old);
        }
        searches
    }
}

impl Kind {
    fn wants(self, verdict: Verdict) -> bool {
        match self {
            Self::Due | Self::Slots => {
                matches!(verdict, Verdict::Due(_) | Verdict::Archive(End::Attempts))
            }
            Self::TooOld => verdict == Verdict::Archive(End::Age),
        }
    }
}

/// Where a record stands among those that are due by slots. What is given up goes first.
fn place(verdict: Verdict) -> Slot {
    match verdict {
        Verdict::Due(Reason::Slot(slot)) => slot,
        Verdict::Due(_) | Verdict::Archive(_) | Verdict::Wait { .. } | Verdict::Never(_) => {
            Slot::end_of(i64::MIN)
        }
    }
}

/// The ids, read from the table as they are needed.
pub struct Candidates {
    look: Look,
    searches: VecDeque<Search>,
    ids: VecDeque<Id>,
    order: Order,
}

impl Candidates {
    pub fn new(plan: &Plan, look: Look) -> Self {
        let searches = plan.searches(&look);
        Self { look, searches, ids: VecDeque::new(), order: plan.order() }
    }

    /// The candidates of a drain's next round: what was busy, then what is due now. Without
    /// `errors` only NEW records count.
    pub fn again(&self, look: Look, busy: Vec<Id>, errors: bool) -> Self {
        let plan = if errors {
            Plan::Full { order: self.order }
        } else {
            Plan::Capped { order: self.order, cursor: None }
        };
        let mut candidates = Self::new(&plan, look);
        if !errors {
            candidates.searches.truncate(1);
        }
        candidates.ids = busy.into();
        candidates
    }

    /// How many ids have been read and not been taken.
    pub fn known(&self) -> usize {
        self.ids.len()
    }

    pub fn next(&mut self, reader: &mut dyn Reader) -> Result<Option<Id>> {
        Ok(self.next_few(1, reader)?.pop())
    }

    /// At most `most`; none if there is no more.
    pub fn next_few(&mut self, most: usize, reader: &mut dyn Reader) -> Result<Vec<Id>> {
        let any = self.any(reader)?;
        let few = if any { most.min(self.ids.len()) } else { 0 };
        Ok(self.ids.drain(..few).collect())
    }

    /// Leaves out, of those that come next, what other passes have finished since they were read.
    pub fn look_ahead(&mut self, reader: &mut dyn Reader) -> Result<()> {
        let ahead = AHEAD.min(self.ids.len());
        if let Some(pending) = reader.still_pending(&self.ids.make_contiguous()[..ahead])? {
            self.ids.drain(..ahead);
            pending.into_iter().rev().for_each(|id| self.ids.push_front(id));
        }
        Ok(())
    }

    /// Whether there is another one.
    pub fn any(&mut self, reader: &mut dyn Reader) -> Result<bool> {
        while self.ids.is_empty() && !self.searches.is_empty() {
            // All searches at once, so that what a pass tries as NEW is not found again as
            // ERROR. Where a page is full, the rest of its search is read later.
            for search in std::mem::take(&mut self.searches) {
                self.read(search, reader)?;
            }
        }
        Ok(!self.ids.is_empty())
    }

    fn read(&mut self, search: Search, reader: &mut dyn Reader) -> Result<()> {
        let Search { selection, kind } = search;
        let mut slots = Vec::new();
        let look = &self.look;
        let page = reader.due(&selection, &mut |facts| {
            let verdict = look.verdict(facts);
            let is_wanted = kind.wants(verdict);
            if is_wanted && kind == Kind::Slots {
                slots.push(place(verdict));
            }
            is_wanted
        })?;
        if kind == Kind::Slots {
            let mut by_slot: Vec<_> = slots.into_iter().zip(page.ids).collect();
            by_slot.sort_by_key(|(slot, _)| *slot);
            self.ids.extend(by_slot.into_iter().map(|(_, id)| id));
        } else {
            self.ids.extend(page.ids);
        }
        if let Some(key) = page.next {
            let selection = Selection { after: Some(key), ..selection };
            self.searches.push_back(Search { selection, kind });
        }
        Ok(())
    }
}
