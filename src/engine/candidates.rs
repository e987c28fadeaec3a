//! The due records in the order in which a pass tries them: ids only, read once, a page at a time.

use std::collections::VecDeque;

use anyhow::Result;

use crate::record::{Id, Key, Status};
use crate::selection::{Order, Selection, Window};
use crate::store::Reader;

/// How many ids are read at once: 16 bytes each. More are continued by key.
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
}

impl Plan {
    fn order(&self) -> Order {
        match self {
            Self::Full { order } | Self::Capped { order, .. } => *order,
        }
    }

    pub fn is_capped(&self) -> bool {
        matches!(self, Self::Capped { .. })
    }

    fn stretches(&self, window: &Window) -> VecDeque<Selection> {
        let all = Selection {
            window: window.clone(),
            statuses: Status::PENDING.to_vec(),
            order: self.order(),
            after: None,
            up_to: None,
            limit: PAGE,
        };
        match self {
            Self::Full { .. } => [all].into(),
            Self::Capped { cursor, .. } => {
                let new = Selection { statuses: vec![Status::New], ..all.clone() };
                let errors = Selection { statuses: vec![Status::Error], ..all };
                match cursor {
                    None => [new, errors].into(),
                    Some(_) => [
                        new,
                        Selection { after: cursor.clone(), ..errors.clone() },
                        Selection { up_to: cursor.clone(), ..errors },
                    ]
                    .into(),
                }
            }
        }
    }
}

/// The ids, read from the table as they are needed.
pub struct Candidates {
    stretches: VecDeque<Selection>,
    ids: VecDeque<Id>,
    order: Order,
}

impl Candidates {
    pub fn new(plan: &Plan, window: &Window) -> Self {
        Self { stretches: plan.stretches(window), ids: VecDeque::new(), order: plan.order() }
    }

    /// The candidates of a drain's next round: what was busy, then what is due now. Without
    /// `errors` only NEW records count.
    pub fn again(&self, window: &Window, busy: Vec<Id>, errors: bool) -> Self {
        let plan = if errors {
            Plan::Full { order: self.order }
        } else {
            Plan::Capped { order: self.order, cursor: None }
        };
        let mut candidates = Self::new(&plan, window);
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
        while self.ids.is_empty() {
            let Some(selection) = self.stretches.pop_front() else {
                return Ok(false);
            };
            let page = reader.due(&selection)?;
            self.ids = page.ids.into();
            if let Some(key) = page.next {
                self.stretches.push_front(Selection { after: Some(key), ..selection });
            }
        }
        Ok(true)
    }
}
