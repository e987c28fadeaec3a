//! Claims of a round: candidates of the due queue are claimed, checked again and rehearsed. `busy`, `unreported`,
//! `blocked` and `to_be_alone` candidates are claimed later. Candidates that were `skipped`, or whose row is gone,
//! ambiguous, unreadable or no longer due, get no attempt in this pass.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use backlog_schedule::last_error::is_begun;
use backlog_schedule::{End, Id, Policy, Reason, Record, Status, Verdict};
use backlog_store::{Claim, ClaimRequest, RowWrite, StoreError, Until, WriteResult};

use super::Dispatcher;
use super::round::DueRecord;
use crate::engine::due_queue::Candidate;
use crate::engine::tally::log_expired;

/// One in this many places may stay free, to save a round trip; with at most [`FEW`] none, as each is an idle process.
const SPARE: usize = 8;
const FEW: usize = 64;
/// Maximum time for which an idle pass waits for a store that claims nothing.
const MAX_HOLD_OFF: Duration = Duration::from_secs(60);

impl Dispatcher {
    pub(super) fn claim(&mut self, free: usize, claimed: &mut Vec<DueRecord>) -> Result<()> {
        (self.waits_for_rate, self.waits_for_store) = (false, false);
        if free > 0 {
            self.obey_pause();
        }
        let places = self.places();
        let spare = if places > FEW { places / SPARE } else { 0 };
        let (mut was_ahead, mut busy_in_a_row) = (false, 0);
        let is_empty = free == places;
        if is_empty {
            self.is_alone = false;
        }
        while claimed.len() < free && !self.is_alone && !self.is_cut_short() {
            let open = free - claimed.len();
            let few = self.claimable(open)?;
            // After claims ahead, a few free places are not worth a round trip.
            if few == 0 || was_ahead && open <= spare {
                break;
            }
            self.may_be_alone = is_empty && claimed.is_empty();
            let (mut candidates, is_named) = self.next_candidates(few)?;
            if candidates.is_empty() {
                break;
            }
            let is_skipped =
                |candidate: &mut Candidate| self.breaker.skipped.contains(&candidate.id);
            for skipped in candidates.extract_if(.., is_skipped) {
                self.unreported.forget_claimed(&skipped.id);
            }
            let (claimed_before, busy_before) = (claimed.len(), self.busy.len());
            let deferred_before = self.to_be_alone.len();
            let ids: Vec<_> = candidates.iter().map(|candidate| candidate.id.clone()).collect();
            let wanted =
                if is_named { ClaimRequest::Named(&ids) } else { ClaimRequest::Next(&ids, few) };
            was_ahead = self.claim_these(&candidates, wanted, claimed)?;
            if self.to_be_alone.len() > deferred_before || self.is_alone {
                // pgmq has counted the read of these messages; giving them back corrects that.
                self.pass.store.flush(Until::Idle)?;
            }
            let busy = self.busy.len() - busy_before;
            if claimed.len() == claimed_before && busy == 0 {
                self.due.look_further_ahead();
                continue;
            }
            self.due.look_ahead = 0;
            busy_in_a_row = if claimed.len() > claimed_before { 0 } else { busy_in_a_row + busy };
            if busy_in_a_row > 1 && !was_ahead {
                self.due.defer_next(busy_in_a_row);
            }
        }
        Ok(())
    }

    /// Number of records to claim next, at most `open`; 0 if the rate or the store holds records back.
    fn claimable(&mut self, open: usize) -> Result<usize> {
        let now = self.pass.clock.monotonic();
        let tokens = self.bucket.as_ref().map_or(usize::MAX, |bucket| bucket.tokens(now));
        let is_held_off = self.pass.store.limits().hold_off.is_some();
        // While handlers run, their outcomes find out if the store comes back.
        if !is_held_off || tokens == 0 || !self.in_hand.is_empty() {
            self.waits_for_store_since = None;
        }
        if tokens == 0 {
            self.waits_for_rate = self.has_more()?;
            return Ok(0);
        }
        if is_held_off {
            self.waits_for_store = self.has_more()?;
            if self.in_hand.is_empty()
                && now - *self.waits_for_store_since.get_or_insert(now) > MAX_HOLD_OFF
            {
                let why = "could not claim records for a minute, because the connections to the \
                           database were lost; try later";
                return Err(StoreError::TryLater(why.into()).into());
            }
            return Ok(0);
        }
        Ok(usize::try_from(self.left).unwrap_or(usize::MAX).min(tokens).min(open))
    }

    /// Returns the next candidates, and whether exactly these are to be claimed.
    fn next_candidates(&mut self, few: usize) -> Result<(Vec<Candidate>, bool)> {
        let mut candidates = self.unreported.take_due(few, self.pass.clock.monotonic());
        let is_named = self.plan.is_named() || !candidates.is_empty();
        if candidates.is_empty() {
            let looks_ahead = self.pass.store.limits().looks_ahead && !is_named;
            let most = if looks_ahead { few.max(self.due.look_ahead) } else { few };
            candidates = self.due.next_few(most, &mut *self.pass.store)?;
        }
        if candidates.is_empty() && self.may_be_alone {
            candidates.extend(self.to_be_alone.pop());
        }
        Ok((candidates, is_named))
    }

    fn has_more(&mut self) -> Result<bool> {
        let is_waiting = !self.unreported.is_empty() || !self.to_be_alone.is_empty();
        Ok(is_waiting || self.due.has_next(&mut *self.pass.store)?)
    }

    /// Claims candidates, and appends the due ones. Returns true if the store put some off for others claimed ahead.
    fn claim_these(
        &mut self,
        candidates: &[Candidate],
        wanted: ClaimRequest<'_>,
        claimed: &mut Vec<DueRecord>,
    ) -> Result<bool> {
        let new = candidates.iter().filter(|candidate| candidate.was_new);
        let new: HashSet<_> = new.map(|candidate| &candidate.id).collect();
        let candidate = |id: Id| Candidate { was_new: new.contains(&id), id };
        let claims = self.pass.store.claim(wanted)?;
        let (put_off, claims): (Vec<_>, Vec<_>) =
            claims.into_iter().partition(|(_, claim)| matches!(claim, Claim::NotAsked));
        let has_put_off = !put_off.is_empty();
        self.due.put_back(put_off.into_iter().map(|(id, _)| candidate(id)).collect());
        let (mut claims, mut due) = (claims.into_iter(), Vec::new());
        for (id, claim) in claims.by_ref() {
            match self.inspect(candidate(id), claim) {
                Ok(found) => due.extend(found),
                Err(error) => {
                    claims
                        .filter(|(_, claim)| matches!(claim, Claim::Held(_)))
                        .for_each(|(id, _)| self.pass.store.release(&id));
                    self.release_all(due);
                    return Err(error);
                }
            }
        }
        for due in self.rehearse(due, claimed)? {
            if self.defers(&due.record) {
                self.pass.store.release(&due.record.id);
                continue;
            }
            self.may_be_alone = false;
            self.left -= 1;
            if let Some(bucket) = &mut self.bucket {
                bucket.take(self.pass.clock.monotonic());
            }
            claimed.push(due);
        }
        Ok(has_put_off)
    }

    fn inspect(&mut self, candidate: Candidate, claim: Claim) -> Result<Option<DueRecord>> {
        let Candidate { id, was_new } = candidate;
        match claim {
            Claim::Held(record) => {
                let due = self.recheck(record, was_new);
                if !matches!(due, Ok(Some(_))) {
                    self.pass.store.release(&id);
                }
                self.unreported.forget_claimed(&id);
                return due;
            }
            Claim::Busy => {
                log::debug!("record {id} is claimed by another pass");
                self.pass.observer.busy(&id);
                self.keep_slot(&id);
                self.unreported.forget_claimed(&id);
                self.busy.push(Candidate { id, was_new });
            }
            Claim::Gone => self.forget_slot(&id),
            // The candidate is in the queue again.
            Claim::NotAsked => {}
            Claim::Ambiguous => {
                self.forget_slot(&id);
                self.ambiguous.insert(id.to_string());
            }
            // This costs no time, so it does not count for the circuit breaker.
            Claim::Unreadable(why) => {
                self.tally_refused(&id, format!("is not tried: it could not be read: {why}"));
            }
        }
        Ok(None)
    }

    /// True if a pass without its claims may still run the last attempt; for any failed record, if rows do not show it.
    fn waits_for_report(&mut self, record: &Record) -> bool {
        let capabilities = self.rule.capabilities;
        if !capabilities.has_charge() || !self.pass.store.limits().can_lose_claims {
            return false;
        }
        let may_be_running = match &record.last_error {
            _ if !capabilities.notes_begun || self.takes_errors == Some(false) => {
                record.failures > 0
            }
            Some(error) => is_begun(error),
            None => false,
        };
        let now = self.pass.clock.monotonic();
        if !may_be_running || self.unreported.may_be_tried(record, now) {
            return false;
        }
        log::debug!("the last attempt of record {} has not reported back", record.id);
        self.keep_slot(&record.id);
        true
    }

    /// Defers a record that must run alone, and others while one does: it may have ended the attempts in its process.
    fn defers(&mut self, record: &Record) -> bool {
        let has_to_be_alone =
            self.handlers.handler.shares_process() && self.rule.has_one_more(record.facts());
        if !has_to_be_alone && !self.is_alone {
            return false;
        }
        if has_to_be_alone && self.may_be_alone {
            self.is_alone = true;
            return false;
        }
        self.keep_slot(&record.id);
        let candidate = Candidate::from(record);
        if has_to_be_alone {
            self.to_be_alone.push(candidate);
        } else {
            self.due.put_back(vec![candidate]);
        }
        true
    }

    /// Checks again if a record is due, because another pass may have settled it.
    fn recheck(&mut self, record: Arc<Record>, was_new: bool) -> Result<Option<DueRecord>> {
        if self.is_cut_short() {
            return Ok(None);
        }
        let now = self.pass.clock.now();
        self.rule.time.now = now;
        let limits = &self.pass.limits;
        let may_be_tried =
            record.status.is_pending() || limits.again && record.status == Status::Success;
        let verdict = match self.plan.is_named() && may_be_tried {
            // A person has named the record, so no policy delays it.
            true => Verdict::Due(Reason::New),
            false => self.rule.verdict(record.facts()),
        };
        let Verdict::Due(reason) = verdict else {
            self.forget_slot(&record.id);
            if let Verdict::Archive(end) = verdict
                && !self.waits_for_report(&record)
            {
                self.expire(&record, end)?;
            }
            return Ok(None);
        };
        if self.was_tried_meanwhile(&record, was_new) || self.waits_for_report(&record) {
            return Ok(None);
        }
        if reason == Reason::ClockSetBack {
            log::warn!(
                "record {} is tried at once: its last failure lies in the future, so the clock \
                 was set back",
                record.id
            );
        }
        Ok(Some(DueRecord { record, slot: verdict.slot() }))
    }

    /// True if another pass may have tried a record since its selection; with a counter only busy records are in doubt.
    fn was_tried_meanwhile(&self, record: &Record, was_new: bool) -> bool {
        if record.status != Status::Error {
            return false;
        }
        let policy = &self.rule.schedule.policy;
        if was_new && !policy.needs_counter() {
            return true;
        }
        let began_at = self.pass.began_at;
        if self.has_retried_busy {
            return record.last_failure_at.is_none_or(|at| at >= began_at);
        }
        // A failure in the second in which this pass began may be older than the pass.
        let now = self.pass.clock.now();
        let by_age = matches!(policy, Policy::Age(_));
        by_age && record.last_failure_at.is_some_and(|at| at > began_at && at <= now)
    }

    /// Archives a record without another attempt: its attempts are used up, or it is too old.
    fn expire(&mut self, record: &Arc<Record>, end: End) -> Result<()> {
        if let Some(why) = self.why_lost(record)? {
            self.write_refused(record, Status::Archived, &why);
            return Ok(());
        }
        let settlement = backlog_schedule::expire(self.pass.clock.now());
        let write = RowWrite::new(record, None, settlement);
        match self.pass.store.round(&[write], &[])?.first() {
            Some(WriteResult::Written | WriteResult::WrittenAfterLoss) => {
                self.tally.expired += 1;
                let (attempts, error) = (record.failures, record.last_error.as_deref());
                if self.pass.observer.archived(record, error) {
                    log_expired(record, end);
                }
                self.start_on_archive(record, attempts, error);
            }
            Some(WriteResult::Refused(error)) => {
                self.write_refused(record, Status::Archived, &error.why);
            }
            Some(
                WriteResult::Charged(_) | WriteResult::ChangedMeanwhile | WriteResult::ClaimLost,
            )
            | None => {}
        }
        Ok(())
    }
}
