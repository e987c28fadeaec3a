//! The due queue: ids of due records in the order in which a pass tries them, read page by page.

use std::collections::VecDeque;

use anyhow::Result;

use crate::query::{Order, Query, Window};
use crate::record::{Id, Key, Status};
use crate::schedule::{DueRule, End, Span, Verdict};
use crate::store::Reader;
use crate::time::Instant;

/// How many ids are read at once. More are continued by key.
const PAGE: usize = 1_000_000;

/// How many are looked at again at once, or put off, where another pass was faster.
const AHEAD: usize = 64;
/// How many are looked at at once in the end, where all before were finished.
const MOST_AHEAD: usize = 4096;

#[derive(Debug, Clone)]
pub struct Plan {
    pub order: Order,
    pub kind: PlanKind,
    /// Behind this record it begins, and comes to it at the end: those before it got nowhere and so
    /// ended the last pass. Where failed records have an order of their own, it is among the new ones.
    pub stuck: Option<Key>,
}

#[derive(Debug, Clone)]
pub enum PlanKind {
    /// All of them, in the table's order.
    Full,
    /// A limit may cut the pass short: NEW go before ERROR, and ERROR go on behind the last one that
    /// such a pass tried, so that no block of failing records keeps others from it.
    Capped { cursor: Option<Key> },
    /// NEW first, then ERROR in the order of their slots.
    Slots,
}

type Search = (Query, Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Due,
    /// To be sorted by slot.
    Slots,
    /// Not due, but grown too old: to be archived.
    TooOld,
}

impl Plan {
    fn searches(&self, rule: &DueRule) -> VecDeque<Search> {
        let query = |statuses: &[Status]| Query {
            window: rule.schedule.policy.window(rule.time, statuses),
            statuses: statuses.to_vec(),
            order: self.order,
            after: None,
            up_to: None,
            limit: PAGE,
        };
        // What is behind a key, and what is before it.
        let behind = |statuses: &[Status], key: Option<&Key>| {
            let before = key.map(|_| (Query { up_to: key.cloned(), ..query(statuses) }, Kind::Due));
            ((Query { after: key.cloned(), ..query(statuses) }, Kind::Due), before)
        };
        let errors = &[Status::Error];
        let is_full = matches!(self.kind, PlanKind::Full);
        let first = if is_full { &Status::PENDING[..] } else { &[Status::New] };
        let (first, last) = behind(first, self.stuck.as_ref());
        let mut searches = VecDeque::from([first]);
        match &self.kind {
            PlanKind::Full => {}
            PlanKind::Capped { cursor } => {
                let (second, third) = behind(errors, cursor.as_ref());
                searches.extend([second].into_iter().chain(third));
            }
            PlanKind::Slots if rule.time.span.is_some_and(Span::is_empty) => {}
            PlanKind::Slots => {
                // What is to be sorted is read at once.
                searches.push_back((Query { limit: usize::MAX, ..query(errors) }, Kind::Slots));
            }
        }
        // What got nowhere comes behind everything else.
        searches.extend(last);
        searches.extend(rule.schedule.limits.max_age_secs.map(|max_age| {
            let until = Some(rule.time.now.saturating_sub(max_age));
            let window = Window::Inserted { from: Instant(i64::MIN), until };
            (Query { window, ..query(errors) }, Kind::TooOld)
        }));
        searches
    }
}

pub struct DueQueue {
    rule: DueRule,
    searches: VecDeque<Search>,
    ids: VecDeque<Id>,
    /// How many of them, at the end, come in the order of their slots or behind those.
    in_slot_order: usize,
    /// What was put off because another pass was at it; none any more once it has had its turn.
    put_off: Option<VecDeque<Id>>,
    /// What comes when there is nothing else: records that may have killed a pass.
    last: VecDeque<Id>,
    /// Why records may be missing, if a search could not be read to its end.
    pub broken: Option<String>,
    pub unusable: u64,
}

impl DueQueue {
    pub fn new(plan: &Plan, rule: DueRule) -> Self {
        let searches = plan.searches(&rule);
        let by_slots = matches!(plan.kind, PlanKind::Slots);
        let mut kept: Vec<_> = rule.kept.values().filter(|_| by_slots).collect();
        kept.sort_by_key(|kept| kept.slot);
        let (last, first): (Vec<_>, Vec<_>) = kept.into_iter().partition(|kept| kept.begun > 0);
        let [ids, last] =
            [first, last].map(|kept| kept.into_iter().map(|it| it.id.clone()).collect());
        let put_off = Some(VecDeque::new());
        Self { rule, searches, ids, in_slot_order: 0, put_off, last, broken: None, unusable: 0 }
    }

    /// The queue of a drain's next search: what was busy, then what is due, or without `errors` NEW.
    pub fn again(order: Order, rule: DueRule, busy: Vec<Id>, errors: bool) -> Self {
        let kind = if errors { PlanKind::Full } else { PlanKind::Capped { cursor: None } };
        let mut due = Self::new(&Plan { order, kind, stuck: None }, rule);
        if !errors {
            due.searches.truncate(1);
        }
        due.ids = busy.into();
        due
    }

    /// How many have been read and not been taken.
    pub fn known(&self) -> usize {
        self.ids.len()
    }

    /// What comes next of what has been read, at most `most`.
    pub fn peek(&mut self, most: usize) -> &[Id] {
        let most = most.min(self.ids.len());
        &self.ids.make_contiguous()[..most]
    }

    /// At most `most`; none if there is no more.
    pub fn next_few(&mut self, most: usize, reader: &mut dyn Reader) -> Result<Vec<Id>> {
        self.any(reader)?;
        Ok(self.ids.drain(..most.min(self.ids.len())).collect())
    }

    /// Takes some back, in their order.
    pub fn put_back(&mut self, ids: Vec<Id>) {
        ids.into_iter().rev().for_each(|id| self.ids.push_front(id));
    }

    /// Leaves out, of those that come next, what other passes have finished since they were read: up to
    /// some that they have not.
    pub fn look_ahead(
        &mut self,
        mut still_pending: impl FnMut(&[Id]) -> Result<Option<Vec<Id>>>,
    ) -> Result<()> {
        let mut ahead = AHEAD;
        while !self.ids.is_empty() {
            let few = ahead.min(self.ids.len());
            let Some(pending) = still_pending(&self.ids.make_contiguous()[..few])? else { break };
            self.ids.drain(..few);
            if !pending.is_empty() {
                self.put_back(pending);
                break;
            }
            ahead = MOST_AHEAD.min(2 * ahead);
        }
        Ok(())
    }

    /// Puts off those that come next, once, where so many in a row were asked for in vain: another pass is
    /// at them, and goes through them in the same order, so that the two need not ask for each record in
    /// turn. Slots are not put off: a pass that is cut short has come to the last one that it tried.
    pub fn step_aside(&mut self, in_vain: usize) {
        if let Some(put_off) = &mut self.put_off {
            let may_be_put_off = self.ids.len().saturating_sub(self.in_slot_order);
            put_off.extend(self.ids.drain(..AHEAD.max(2 * in_vain).min(may_be_put_off)));
        }
    }

    pub fn any(&mut self, reader: &mut dyn Reader) -> Result<bool> {
        while self.ids.is_empty() && !self.searches.is_empty() {
            // All at once, up to full pages, so that none is tried as NEW and found as ERROR.
            for search in std::mem::take(&mut self.searches) {
                self.read(search, reader)?;
            }
        }
        if self.ids.is_empty() {
            self.in_slot_order = 0;
            self.ids.extend(self.put_off.take().into_iter().flatten());
            self.ids.append(&mut self.last);
        }
        Ok(!self.ids.is_empty())
    }

    fn read(&mut self, (query, kind): Search, reader: &mut dyn Reader) -> Result<()> {
        let mut slots = Vec::new();
        let rule = &self.rule;
        let page = reader.due(&query, &mut |facts| {
            let verdict = rule.verdict(facts);
            let is_wanted = match verdict {
                Verdict::Archive(End::Age) => kind == Kind::TooOld,
                Verdict::Due(_) | Verdict::Archive(End::Attempts) => kind != Kind::TooOld,
                Verdict::Wait { .. } | Verdict::Never(_) => false,
            };
            if kind != Kind::Slots || !is_wanted {
                return is_wanted;
            }
            // What has kept its slot is tried for that one; what is given up goes first.
            let is_kept = rule.kept.contains_key(facts.id);
            slots.extend((!is_kept).then_some(verdict.slot()));
            !is_kept
        })?;
        let before = self.ids.len();
        if kind == Kind::Slots {
            let mut by_slot: Vec<_> = slots.into_iter().zip(page.ids).collect();
            by_slot.sort_by_key(|(slot, _)| *slot);
            self.ids.extend(by_slot.into_iter().map(|(_, id)| id));
        } else {
            self.ids.extend(page.ids);
        }
        if kind == Kind::Slots || self.in_slot_order > 0 {
            self.in_slot_order += self.ids.len() - before;
        }
        self.broken = self.broken.take().or(page.broken);
        self.unusable += page.unusable;
        if let Some(key) = page.next {
            self.searches.push_back((Query { after: Some(key), ..query }, kind));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::CronLine;
    use crate::record::Capabilities;
    use crate::schedule::{AgeWindow, Policy, RetryLimits, Schedule};
    use crate::store::{Found, IsDue, Page};

    fn queue(ids: std::ops::Range<i64>) -> DueQueue {
        let policy = Policy::Age(AgeWindow { min_secs: 0, max_secs: 60 });
        let schedule = Schedule { policy, limits: RetryLimits::default(), shard: None };
        let line = CronLine::new(schedule, Capabilities::default());
        let plan = Plan { order: Order::Oldest, kind: PlanKind::Full, stuck: None };
        let due = DueQueue::new(&plan, line.due_rule(Instant(0), false));
        DueQueue { ids: ids.map(Id::Integer).collect(), searches: VecDeque::new(), ..due }
    }

    #[test]
    fn more_and_more_are_looked_at_as_long_as_all_are_finished() {
        let mut due = queue(0..20_000);
        let mut looks = Vec::new();
        due.look_ahead(|ids| {
            looks.push(ids.len());
            Ok(Some(ids.iter().filter(|id| matches!(id, Id::Integer(15_000..))).cloned().collect()))
        })
        .unwrap();
        assert_eq!(looks, [64, 128, 256, 512, 1024, 2048, 4096, 4096, 4096]);
        assert_eq!((due.ids.front(), due.ids.len()), (Some(&Id::Integer(15_000)), 5_000));
        let mut looks = 0;
        due.look_ahead(|_| {
            looks += 1;
            Ok(None)
        })
        .unwrap();
        assert_eq!((looks, due.ids.len()), (1, 5_000), "where that cannot be told");
        due.look_ahead(|_| Ok(Some(Vec::new()))).unwrap();
        assert!(due.ids.is_empty());
    }

    #[test]
    fn what_is_put_off_comes_once_more_behind_all_others() {
        struct Nothing;
        impl Reader for Nothing {
            fn due(&mut self, _: &Query, _: IsDue<'_>) -> Result<Page> {
                Ok(Page::default())
            }

            fn read(&mut self, _: &Id) -> Result<Found> {
                Ok(Found::Gone)
            }
        }
        let mut due = queue(0..1_000);
        let next = |due: &mut DueQueue| due.next_few(1, &mut Nothing).unwrap().pop();
        due.step_aside(2);
        assert_eq!(next(&mut due), Some(Id::Integer(64)));
        due.step_aside(100);
        assert_eq!(next(&mut due), Some(Id::Integer(265)));
        due.ids.clear();
        assert_eq!(next(&mut due), Some(Id::Integer(0)));
        let left = due.ids.len();
        due.step_aside(2);
        assert_eq!(due.ids.len(), left, "a second time it is not put off");
        assert_eq!(left, 64 + 200 - 1);
    }
}
