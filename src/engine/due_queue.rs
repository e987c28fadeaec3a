//! The due queue: ids of due records in the order in which a pass tries them, read page by page.

use std::collections::{HashSet, VecDeque};

use anyhow::Result;
use backlog_schedule::{
    DueRule, End, Id, Instant, Kept, Order, Query, Record, SortKey, Span, Status, Verdict, Window,
};
use backlog_store::Reader;

/// Maximum number of ids in one query. The next query continues after the last key.
const PAGE: usize = 1_000_000;

/// Sizes of the blocks that are checked or deferred while another pass works on the same records.
const FIRST_BLOCK: usize = 64;
const LARGEST_BLOCK: usize = 4096;

#[derive(Debug, Clone)]
pub struct SearchPlan {
    pub order: Order,
    pub kind: PlanKind,
    /// True if candidates may be deferred, because no limit can end the pass before they are tried.
    pub may_defer: bool,
    /// The records up to this one got nowhere and ended the last pass. This pass begins after it, and tries them last.
    pub stuck: Option<SortKey>,
}

#[derive(Debug, Clone)]
pub enum PlanKind {
    /// All due records in the table's order.
    Full,
    /// A limit may cut the pass short: NEW first, then ERROR from the cursor of the last such pass, so all are tried.
    Capped { cursor: Option<SortKey> },
    /// NEW first, then ERROR in the order of their slots.
    Slots,
    /// Only these records, which a person has named.
    Named(Vec<Id>),
}

type Search = (Query, SearchKind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchKind {
    Due,
    Slots,
    /// Too old: to be archived.
    TooOld,
}

impl SearchPlan {
    pub fn is_named(&self) -> bool {
        matches!(self.kind, PlanKind::Named(_))
    }

    fn searches(&self, rule: &DueRule) -> VecDeque<Search> {
        let query = |statuses: &[Status]| Query {
            window: rule.schedule.policy.window(rule.time, statuses),
            statuses: statuses.to_vec(),
            order: self.order,
            after: None,
            up_to: None,
            limit: PAGE,
        };
        let split = |statuses: &[Status], key: Option<&SortKey>| {
            let before =
                key.map(|_| (Query { up_to: key.cloned(), ..query(statuses) }, SearchKind::Due));
            ((Query { after: key.cloned(), ..query(statuses) }, SearchKind::Due), before)
        };
        let errors = &[Status::Error];
        if self.is_named() {
            return VecDeque::new();
        }
        let is_full = matches!(self.kind, PlanKind::Full);
        let first = if is_full { &Status::PENDING[..] } else { &[Status::New] };
        let (first, last) = split(first, self.stuck.as_ref());
        let mut searches = VecDeque::from([first]);
        match &self.kind {
            PlanKind::Full | PlanKind::Named(_) => {}
            PlanKind::Capped { cursor } => {
                let (second, third) = split(errors, cursor.as_ref());
                searches.extend([second].into_iter().chain(third));
            }
            PlanKind::Slots if rule.time.span.is_some_and(Span::is_empty) => {}
            PlanKind::Slots => {
                // Sorted by slot, so all are read at once.
                searches
                    .push_back((Query { limit: usize::MAX, ..query(errors) }, SearchKind::Slots));
            }
        }
        searches.extend(last);
        searches.extend(rule.schedule.limits.max_age_secs.map(|max_age| {
            let until = Some(rule.time.now.saturating_sub(max_age));
            let window = Window::Inserted { from: Instant(i64::MIN), until };
            (Query { window, ..query(errors) }, SearchKind::TooOld)
        }));
        searches
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub id: Id,
    pub was_new: bool,
}

impl From<&Id> for Candidate {
    fn from(id: &Id) -> Self {
        Self { id: id.clone(), was_new: false }
    }
}

impl From<&Record> for Candidate {
    fn from(record: &Record) -> Self {
        Self { id: record.id.clone(), was_new: record.status == Status::New }
    }
}

pub struct DueQueue {
    rule: DueRule,
    searches: VecDeque<Search>,
    candidates: VecDeque<Candidate>,
    /// Records to try later, because another pass works on them. `None` if no more records may be deferred.
    deferred: Option<VecDeque<Candidate>>,
    /// True if failed records may be deferred, because their rows show which of them another pass has tried.
    defers_failed: bool,
    skipped: HashSet<Id>,
    /// Number of candidates for the next claim, which skips those that other passes have settled.
    pub look_ahead: usize,
    /// Records that may have killed a pass, to be tried at the end.
    last: VecDeque<Candidate>,
    /// The error of a search that broke off, so that records may be missing.
    pub broken: Option<String>,
    pub unusable: u64,
}

impl DueQueue {
    pub fn new(plan: &SearchPlan, rule: DueRule) -> Self {
        let searches = plan.searches(&rule);
        let by_slots = matches!(plan.kind, PlanKind::Slots);
        let mut kept: Vec<_> = rule.kept.values().filter(|_| by_slots).collect();
        kept.sort_by_key(|kept| kept.slot);
        let (last, first): (Vec<_>, Vec<_>) = kept.into_iter().partition(|kept| kept.begun > 0);
        let candidates =
            |kept: Vec<&Kept>| kept.into_iter().map(|kept| Candidate::from(&kept.id)).collect();
        let (mut candidates, last): (VecDeque<_>, _) = (candidates(first), candidates(last));
        if let PlanKind::Named(ids) = &plan.kind {
            candidates = ids.iter().map(Candidate::from).collect();
        }
        let deferred = plan.may_defer.then(VecDeque::new);
        let defers_failed = !by_slots && rule.capabilities.can_snooze;
        Self {
            rule,
            searches,
            candidates,
            deferred,
            defers_failed,
            skipped: HashSet::new(),
            look_ahead: 0,
            last,
            broken: None,
            unusable: 0,
        }
    }

    /// The queue for the next search of a drain: busy records, then due ones; without `errors` only NEW ones.
    pub fn search_again(order: Order, rule: DueRule, busy: Vec<Candidate>, errors: bool) -> Self {
        let kind = if errors { PlanKind::Full } else { PlanKind::Capped { cursor: None } };
        let mut due = Self::new(&SearchPlan { order, kind, may_defer: false, stuck: None }, rule);
        if !errors {
            due.searches.truncate(1);
        }
        due.skipped = busy.iter().map(|candidate| candidate.id.clone()).collect();
        due.candidates = busy.into();
        due
    }

    pub fn len(&self) -> usize {
        self.candidates.len()
    }

    pub fn peek(&self, most: usize) -> Vec<Id> {
        self.candidates.iter().take(most).map(|candidate| candidate.id.clone()).collect()
    }

    pub fn next_few(&mut self, most: usize, reader: &mut dyn Reader) -> Result<Vec<Candidate>> {
        self.has_next(reader)?;
        Ok(self.candidates.drain(..most.min(self.candidates.len())).collect())
    }

    pub fn put_back(&mut self, candidates: Vec<Candidate>) {
        candidates.into_iter().rev().for_each(|candidate| self.candidates.push_front(candidate));
    }

    /// Doubles the number of candidates for the next claim, because other passes have settled the last ones.
    pub fn look_further_ahead(&mut self) {
        self.look_ahead = (2 * self.look_ahead).clamp(FIRST_BLOCK, LARGEST_BLOCK);
    }

    /// Defers the next block after `busy` failed claims: another pass takes the same records in the same order.
    pub fn defer_next(&mut self, busy: usize) {
        let Some(deferred) = &mut self.deferred else { return };
        let block = (2 * busy).clamp(FIRST_BLOCK, LARGEST_BLOCK);
        let may_defer = |candidate: &&Candidate| candidate.was_new || self.defers_failed;
        let count = self.candidates.iter().take(block).take_while(may_defer).count();
        deferred.extend(self.candidates.drain(..count));
    }

    /// Searches if no candidate is left. Returns whether there is one.
    pub fn has_next(&mut self, reader: &mut dyn Reader) -> Result<bool> {
        while self.candidates.is_empty() && !self.searches.is_empty() {
            // All searches run at once, so that no record is tried as NEW and then found as ERROR.
            for search in std::mem::take(&mut self.searches) {
                self.read(search, reader)?;
            }
        }
        if self.candidates.is_empty() {
            self.candidates.extend(self.deferred.take().into_iter().flatten());
            self.candidates.append(&mut self.last);
        }
        Ok(!self.candidates.is_empty())
    }

    fn read(&mut self, (query, kind): Search, reader: &mut dyn Reader) -> Result<()> {
        let (mut slots, mut were_new) = (Vec::new(), Vec::new());
        let (rule, skipped) = (&self.rule, &self.skipped);
        let page = reader.due(&query, &mut |facts| {
            let verdict = rule.verdict(facts);
            let is_wanted = match verdict {
                Verdict::Archive(End::Age) => kind == SearchKind::TooOld,
                Verdict::Due(_) | Verdict::Archive(End::Attempts) => kind != SearchKind::TooOld,
                Verdict::Wait { .. } | Verdict::Never(_) => false,
            };
            // A record that has kept its slot is a candidate already.
            let is_kept = kind == SearchKind::Slots && rule.kept.contains_key(facts.id);
            if !is_wanted || is_kept || skipped.contains(facts.id) {
                return false;
            }
            slots.push(verdict.slot());
            were_new.push(facts.status == Status::New);
            true
        })?;
        // A repeated search has asked for its first records twice.
        let asked_before = were_new.len().saturating_sub(page.ids.len());
        let (slots, were_new) = (slots.split_off(asked_before), were_new.split_off(asked_before));
        let candidates = page.ids.into_iter().zip(were_new);
        let candidates = candidates.map(|(id, was_new)| Candidate { id, was_new });
        if kind == SearchKind::Slots {
            let mut by_slot: Vec<_> = slots.into_iter().zip(candidates).collect();
            by_slot.sort_by_key(|(slot, _)| *slot);
            self.candidates.extend(by_slot.into_iter().map(|(_, candidate)| candidate));
        } else {
            self.candidates.extend(candidates);
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
    use crate::engine::LineSchedule;
    use backlog_schedule::{AgeWindow, Capabilities, Policy, Record, RetryLimits, Schedule};
    use backlog_store::{IsDue, Page, ReadResult};

    fn queue(ids: std::ops::Range<i64>) -> DueQueue {
        let policy = Policy::Age(AgeWindow { min_secs: 0, max_secs: 60 });
        let schedule = Schedule { policy, limits: RetryLimits::default(), shard: None };
        let line = LineSchedule::new(schedule, Capabilities::default());
        let due = DueQueue::new(&plan(), line.due_rule(Instant(0), false));
        let candidates = ids.map(|id| Candidate { id: Id::Integer(id), was_new: true }).collect();
        DueQueue { candidates, searches: VecDeque::new(), ..due }
    }

    /// The number of the next record, and the number of the others.
    fn next(due: &DueQueue) -> (i64, usize) {
        let Some(Id::Integer(number)) = due.peek(1).pop() else { return (-1, 0) };
        (number, due.len() - 1)
    }

    #[test]
    fn claims_get_more_candidates_while_other_passes_settle_all() {
        let mut due = queue(0..1);
        let mut next = || {
            due.look_further_ahead();
            due.look_ahead
        };
        assert_eq!([(); 8].map(|()| next()), [64, 128, 256, 512, 1024, 2048, 4096, 4096]);
    }

    fn plan() -> SearchPlan {
        SearchPlan { order: Order::Oldest, kind: PlanKind::Full, may_defer: true, stuck: None }
    }

    /// A table in which each search finds the same record.
    struct OneRecord(i64);

    impl Reader for OneRecord {
        fn due(&mut self, _: &Query, is_due: IsDue<'_>) -> Result<Page> {
            let record = Record::new(Id::Integer(self.0), Some(Instant(0)));
            let ids = is_due(record.facts()).then(|| record.id.clone());
            Ok(Page { ids: ids.into_iter().collect(), ..Page::default() })
        }

        fn read(&mut self, _: &Id) -> Result<ReadResult> {
            Ok(ReadResult::Gone)
        }
    }

    /// A table with a new record and a failed one, whose first search breaks off.
    struct Broken;

    impl Reader for Broken {
        fn due(&mut self, _: &Query, is_due: IsDue<'_>) -> Result<Page> {
            let new = Record::new(Id::Integer(1), Some(Instant(0)));
            let failed = Record::new(Id::Integer(2), Some(Instant(0)));
            let failed = Record { status: Status::Error, ..failed };
            is_due(new.facts());
            let due = [new, failed].into_iter().filter(|record| is_due(record.facts()));
            Ok(Page { ids: due.map(|record| record.id).collect(), ..Page::default() })
        }

        fn read(&mut self, _: &Id) -> Result<ReadResult> {
            Ok(ReadResult::Gone)
        }
    }

    #[test]
    fn a_search_that_is_repeated_does_not_confuse_new_and_failed_records() {
        let mut due = queue(0..0);
        due.searches = plan().searches(&due.rule);
        let found = due.next_few(9, &mut Broken).unwrap();
        let candidate = |id, was_new| Candidate { id: Id::Integer(id), was_new };
        assert_eq!(found, [candidate(1, true), candidate(2, false)]);
    }

    #[test]
    fn deferred_records_are_tried_after_the_searches_and_before_the_last() {
        let mut due = queue(0..1_000);
        due.last.push_back(Candidate::from(&Id::Integer(7_000)));
        due.defer_next(2);
        assert_eq!(next(&due), (64, 935));
        due.defer_next(100);
        assert_eq!(next(&due), (264, 735));
        due.candidates.clear();
        due.searches = plan().searches(&due.rule);
        let mut reader = OneRecord(5_000);
        let found = due.next_few(9, &mut reader).unwrap();
        assert_eq!(found, [Candidate { id: Id::Integer(5_000), was_new: true }]);
        assert!(due.has_next(&mut reader).unwrap());
        assert_eq!(next(&due), (0, 264));
        due.defer_next(2);
        assert_eq!(next(&due), (0, 264), "deferred only once");
        due.next_few(264, &mut reader).unwrap();
        assert_eq!(next(&due), (7_000, 0));
    }

    #[test]
    fn failed_records_without_a_last_failure_are_not_deferred() {
        for (defers_failed, number) in [(false, 10), (true, 64)] {
            let mut due = DueQueue { defers_failed, ..queue(0..100) };
            due.candidates.range_mut(10..).for_each(|candidate| candidate.was_new = false);
            due.defer_next(2);
            assert_eq!(next(&due).0, number);
        }
        let mut due = DueQueue { deferred: None, ..queue(0..100) };
        due.defer_next(2);
        assert_eq!(next(&due).0, 0, "a limit may end the pass before deferred records");
    }

    #[test]
    fn a_drain_does_not_find_busy_records_again() {
        let busy = vec![Candidate { id: Id::Integer(5), was_new: true }];
        let again = || DueQueue::search_again(Order::Oldest, queue(0..0).rule, busy.clone(), false);
        let mut due = again();
        assert_eq!(due.next_few(9, &mut OneRecord(5)).unwrap(), busy);
        assert_eq!(due.next_few(9, &mut OneRecord(5)).unwrap(), []);
        let mut due = again();
        assert_eq!(due.next_few(9, &mut OneRecord(6)).unwrap(), busy);
        assert_eq!(due.next_few(9, &mut OneRecord(6)).unwrap().len(), 1);
    }
}
