//! Records whose last attempt has not reported back, in a store that loses claims with a session. The pass that made it
//! may be about to claim the record again, so another pass tries it only after nobody has claimed it for some seconds.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant as Monotonic};

use backlog_schedule::{Id, Instant, Record};

use crate::engine::due_queue::Candidate;

/// Number of further claims before a try, and the time between them. A living holder claims again within milliseconds.
const CLAIMS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Unreported {
    waiting: HashMap<Id, Waiting>,
    queue: VecDeque<(Monotonic, Candidate)>,
}

struct Waiting {
    begun: AttemptColumns,
    claimed: u32,
    is_being_claimed: bool,
}

/// The columns that identify an attempt: the count, the last failure and the error.
type AttemptColumns = (u32, Option<Instant>, Option<String>);

impl Unreported {
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn next_at(&self) -> Option<Monotonic> {
        self.queue.front().map(|(at, _)| *at)
    }

    pub fn take_due(&mut self, most: usize, now: Monotonic) -> Vec<Candidate> {
        let due = self.queue.iter().take(most).take_while(|(at, _)| *at <= now).count();
        let due: Vec<_> = self.queue.drain(..due).map(|(_, candidate)| candidate).collect();
        for candidate in &due {
            if let Some(waiting) = self.waiting.get_mut(&candidate.id) {
                waiting.is_being_claimed = true;
            }
        }
        due
    }

    /// Returns whether a record that was just claimed has been claimed often enough to be tried. If not, it waits.
    pub fn may_be_tried(&mut self, record: &Record, now: Monotonic) -> bool {
        let begun = (record.failures, record.last_failure_at, record.last_error.clone());
        let claimed = match self.waiting.remove(&record.id) {
            Some(waiting) if waiting.begun == begun => waiting.claimed + 1,
            Some(_) | None => 0,
        };
        if claimed >= CLAIMS {
            return true;
        }
        let waiting = Waiting { begun, claimed, is_being_claimed: false };
        self.waiting.insert(record.id.clone(), waiting);
        self.queue.push_back((now + PAUSE, record.into()));
        false
    }

    /// Forgets a record that another pass holds or that is no longer due.
    pub fn forget_claimed(&mut self, id: &Id) {
        if self.waiting.get(id).is_some_and(|waiting| waiting.is_being_claimed) {
            self.waiting.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn some_time() -> Monotonic {
        Monotonic::now()
    }

    /// Number of claims until the record may be tried, if its row changes at one of them.
    fn claims(rows: [&Record; 2], changes_at: usize) -> usize {
        let (mut unreported, begin) = (Unreported::default(), some_time());
        let mut now = begin;
        let row = |claimed: usize| rows[usize::from(claimed >= changes_at)];
        assert!(!unreported.may_be_tried(row(0), now));
        for claimed in 1..20 {
            assert_eq!(unreported.take_due(9, now), []);
            now += PAUSE;
            assert_eq!(unreported.next_at(), Some(now));
            assert_eq!(unreported.take_due(9, now), [Candidate::from(row(0))]);
            if unreported.may_be_tried(row(claimed), now) {
                assert!(unreported.is_empty());
                return claimed;
            }
        }
        unreachable!()
    }

    #[test]
    fn a_record_is_tried_once_nobody_has_claimed_it_for_three_seconds() {
        let record = Record::new(Id::Integer(7), None);
        let another = Record { failures: 1, ..record.clone() };
        assert_eq!(claims([&record; 2], 0), 3);
        assert_eq!(claims([&record, &another], 2), 5, "another attempt has begun");
    }

    #[test]
    fn a_record_that_another_pass_held_waits_for_three_seconds_again() {
        let (mut unreported, begin) = (Unreported::default(), some_time());
        let mut may_be_tried = |seconds, is_held| {
            let now = begin + seconds * PAUSE;
            unreported.take_due(9, now);
            if is_held {
                unreported.forget_claimed(&Id::Integer(7));
                return false;
            }
            unreported.may_be_tried(&Record::new(Id::Integer(7), None), now)
        };
        assert!(!may_be_tried(0, false) && !may_be_tried(1, false) && !may_be_tried(2, true));
        let tried: Vec<_> = (3..7).map(|seconds| may_be_tried(seconds, false)).collect();
        assert_eq!(tried, [false, false, false, true]);
        assert!(unreported.is_empty());
    }
}
