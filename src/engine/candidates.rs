//! The due records in the order in which a pass tries them: ids only, read once, a page at a time.

use std::collections::VecDeque;

use anyhow::Result;

use crate::instant::Instant;
use crate::policy::{End, Moment, Policy, Reason, Rules, Span, Verdict, exhausted};
use crate::record::{Facts, Id, Key, Status};
use crate::selection::{Order, Selection, Slot, Window};
use crate::store::Reader;

/// How many ids are read at once. More are continued by key.
const PAGE: usize = 1_000_000;

/// In what order a pass goes through the due records.
#[derive(Debug, Clone)]
pub enum Plan {
    /// All of them, in the table's order.
    Full { order: Order },
    /// A limit may cut the pass short: NEW go before ERROR, and ERROR go on behind the last one
    /// that such a pass tried, so that no block of failing records keeps the others from being
    /// tried.
    Capped { order: Order, cursor: Option<Key> },
    /// NEW first, then ERROR in the order of their slots, from where the last pass came to.
    Slots { order: Order, reached: Option<Slot> },
}

/// How a pass looks at records.
#[derive(Debug, Clone)]
pub struct Look {
    pub policy: Policy,
    pub rules: Rules,
    pub moment: Moment,
}

/// One selection of a pass.
#[derive(Debug)]
struct Stretch {
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
            Self::Full { order } | Self::Capped { order, .. } | Self::Slots { order, .. } => *order,
        }
    }

    pub fn is_capped(&self) -> bool {
        matches!(self, Self::Capped { .. })
    }

    /// Where a pass by slots begins.
    pub fn reached(&self) -> Option<Slot> {
        match self {
            Self::Slots { reached, .. } => *reached,
            Self::Full { .. } | Self::Capped { .. } => None,
        }
    }

    fn stretches(&self, look: &Look) -> VecDeque<Stretch> {
        let stretch = |statuses: &[Status], kind: Kind| Stretch {
            selection: Selection {
                window: look.policy.window(look.moment, statuses),
                statuses: statuses.to_vec(),
                condition: None,
                order: self.order(),
                after: None,
                up_to: None,
                // What is to be sorted is read at once.
                limit: if kind == Kind::Slots { usize::MAX } else { PAGE },
            },
            kind,
        };
        let new = || stretch(&[Status::New], Kind::Due);
        let errors = |after: Option<&Key>, up_to: Option<&Key>| {
            let mut errors = stretch(&[Status::Error], Kind::Due);
            errors.selection.after = after.cloned();
            errors.selection.up_to = up_to.cloned();
            errors
        };
        let mut stretches: VecDeque<_> = match self {
            Self::Full { .. } => [stretch(&Status::PENDING, Kind::Due)].into(),
            Self::Capped { cursor: None, .. } => [new(), errors(None, None)].into(),
            Self::Capped { cursor: Some(key), .. } => {
                [new(), errors(Some(key), None), errors(None, Some(key))].into()
            }
            Self::Slots { .. } if look.moment.span.is_some_and(Span::is_empty) => [new()].into(),
            Self::Slots { .. } => [new(), stretch(&[Status::Error], Kind::Slots)].into(),
        };
        if let Some(max_age) = look.rules.max_age_secs {
            let mut too_old = stretch(&[Status::Error], Kind::TooOld);
            let until = look.moment.now.saturating_sub(max_age);
            too_old.selection.window =
                Window::Inserted { from: Instant(i64::MIN), until: Some(until) };
            stretches.push_back(too_old);
        }
        stretches
    }
}

impl Look {
    pub fn verdict(&self, facts: Facts<'_>) -> Verdict {
        self.policy.verdict(facts, self.moment)
    }

    /// The slot of a record that is due by one, the lowest for any other that is to be dealt with.
    fn slot(&self, facts: Facts<'_>, kind: Kind) -> Option<Slot> {
        match (self.verdict(facts), kind) {
            (Verdict::Due(Reason::Slot(slot)), Kind::Due | Kind::Slots) => Some(slot),
            (Verdict::Due(_), Kind::Due | Kind::Slots) => Some(Slot::end_of(i64::MIN)),
            (Verdict::Wait { .. } | Verdict::Never(_), Kind::TooOld) => {
                let end = exhausted(facts, self.rules, self.moment.now);
                (end == Some(End::Age)).then_some(Slot::end_of(i64::MIN))
            }
            _ => None,
        }
    }
}

/// The ids, read from the table as they are needed.
pub struct Candidates {
    look: Look,
    stretches: VecDeque<Stretch>,
    ids: VecDeque<Id>,
    order: Order,
}

impl Candidates {
    pub fn new(plan: &Plan, look: Look) -> Self {
        let stretches = plan.stretches(&look);
        Self { look, stretches, ids: VecDeque::new(), order: plan.order() }
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
            candidates.stretches.truncate(1);
        }
        candidates.ids = busy.into();
        candidates
    }

    /// How many ids have been read and not been taken.
    pub fn known(&self) -> usize {
        self.ids.len()
    }

    pub fn next(&mut self, reader: &mut dyn Reader) -> Result<Option<Id>> {
        Ok(if self.any(reader)? { self.ids.pop_front() } else { None })
    }

    /// Whether there is another one.
    pub fn any(&mut self, reader: &mut dyn Reader) -> Result<bool> {
        while self.ids.is_empty() && !self.stretches.is_empty() {
            // All stretches at once, so that what a pass tries as NEW is not found again as
            // ERROR. Where a page is full, the rest of its stretch is read later.
            for stretch in std::mem::take(&mut self.stretches) {
                self.read(stretch, reader)?;
            }
        }
        Ok(!self.ids.is_empty())
    }

    fn read(&mut self, stretch: Stretch, reader: &mut dyn Reader) -> Result<()> {
        let Stretch { selection, kind } = stretch;
        let mut slots = Vec::new();
        let look = &self.look;
        let page = reader.due(&selection, &mut |facts| {
            let slot = look.slot(facts, kind);
            if kind == Kind::Slots {
                slots.extend(slot);
            }
            slot.is_some()
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
            self.stretches.push_back(Stretch { selection, kind });
        }
        Ok(())
    }
}
