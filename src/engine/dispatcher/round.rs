//! One round of the dispatcher: claims records, writes outcomes and charges, hands records out.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use backlog_schedule::last_error::is_begun;
use backlog_schedule::{
    Attempt, End, Id, Instant, Outcome, Policy, Reach, Reason, Record, Slot, Status, Verdict,
};
use backlog_store::{Claim, ClaimRequest, Refusal, RowWrite, Store, Until, WriteResult};

use super::{Dispatcher, InHand};
use crate::engine::due_queue::Candidate;
use crate::engine::tally::{log_begun, log_expired};
use crate::exit::Exit;
use crate::handlers::{Job, Submit};

/// The part of many places that may stay free for a round, which saves a round trip: with few places, each free one
/// is a process that does not run.
const SPARE: usize = 8;
const FEW: usize = 64;
/// Number of candidates that a write is told of, so that the store can claim some.
const MOST_NEXT: usize = 128;

/// A record that is due under its claim.
pub(super) struct DueRecord {
    pub record: Arc<Record>,
    pub slot: Option<Slot>,
}

impl Dispatcher {
    /// Settles ended attempts, and fills the free places.
    pub(super) fn round(&mut self, ended: &[Attempt], submit: &Submit) -> Result<()> {
        self.write_again()?;
        let mut ended = ended;
        let still_in_hand = self.in_hand.len() - ended.len() - self.answered();
        let free = self.places().saturating_sub(still_in_hand);
        if free > self.room() && !ended.is_empty() {
            // Doubtful records are held as well.
            self.write_outcomes(ended)?;
            ended = &[];
        }
        let mut free = free.min(self.room());
        // A record whose charge is refused leaves its place to the next.
        loop {
            let (claimed, handed_out) = self.fill(free, ended, submit)?;
            if handed_out == claimed {
                return Ok(());
            }
            (free, ended) = (free - handed_out, &[]);
        }
    }

    /// Writes outcomes, claims records and hands them out. Returns the numbers of records claimed and handed out.
    fn fill(&mut self, free: usize, ended: &[Attempt], submit: &Submit) -> Result<(usize, usize)> {
        let mut claimed = Vec::new();
        if let Err(error) = self.claim(free, &mut claimed) {
            claimed.drain(..).for_each(|it: DueRecord| self.pass.store.release(&it.record.id));
            self.begin_no_more(error);
        }
        let count = claimed.len();
        let is_alone = claimed.is_empty() && !ended.is_empty();
        let now = self.pass.clock.now();
        match self.write(ended, &claimed) {
            Ok(charged) => {
                Ok((count, self.hand_out(claimed.into_iter().zip(charged), now, submit)))
            }
            // It may be the charges that cannot be written.
            Err(error) if ended.is_empty() || !is_alone && Exit::from(&error) != Exit::TryLater => {
                claimed.iter().for_each(|it| self.pass.store.release(&it.record.id));
                self.begin_no_more(error);
                self.write_outcomes(ended).map(|()| (0, 0))
            }
            Err(error) => Err(error),
        }
    }

    /// Number of records that handlers may have: as many more may be answered and not settled.
    pub(super) fn places(&self) -> usize {
        self.handlers.handler.capacity().min(self.pass.store.limits().most_claims / 2)
    }

    fn room(&self) -> usize {
        self.pass.store.limits().most_claims.saturating_sub(self.in_hand.len())
    }

    fn claim(&mut self, free: usize, claimed: &mut Vec<DueRecord>) -> Result<()> {
        (self.is_held_back, self.is_held_off) = (false, false);
        if free > 0 {
            self.obey_pause();
        }
        let places = self.places();
        let spare = if places > FEW { places / SPARE } else { 0 };
        let (mut was_ahead, mut in_vain) = (false, 0);
        let is_empty = free == places;
        if is_empty {
            self.is_alone = false;
        }
        while claimed.len() < free && !self.is_alone && !self.is_cut_short() {
            let left = usize::try_from(self.left).unwrap_or(usize::MAX);
            let clock = self.pass.clock;
            let bucket = self.bucket.as_ref();
            let tokens = bucket.map_or(usize::MAX, |bucket| bucket.tokens(clock.monotonic()));
            if tokens == 0 {
                self.is_held_back = self.has_more()?;
                break;
            }
            let limits = self.pass.store.limits();
            if limits.hold_off.is_some() {
                self.is_held_off = self.has_more()?;
                break;
            }
            let open = free - claimed.len();
            // After claims ahead a nearly full window is not worth a round trip.
            if was_ahead && open <= spare {
                break;
            }
            let few = left.min(tokens).min(open);
            self.may_be_alone = is_empty && claimed.is_empty();
            let (mut candidates, is_named) = self.next_candidates(few, limits.looks_ahead)?;
            if candidates.is_empty() {
                break;
            }
            let skipped = |candidate: &mut Candidate| self.breaker.skipped.contains(&candidate.id);
            for blocked in candidates.extract_if(.., skipped) {
                self.unreported.forget_asked(&blocked.id);
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
            if claimed.len() > claimed_before {
                in_vain = 0;
                self.due.look_ahead = 0;
            } else if self.busy.len() == busy_before {
                self.due.look_further_ahead();
            } else {
                self.due.look_ahead = 0;
                in_vain += self.busy.len() - busy_before;
                if in_vain > 1 && !was_ahead {
                    self.due.defer_next(in_vain);
                }
            }
        }
        Ok(())
    }

    /// The next candidates, and whether exactly these are to be claimed.
    fn next_candidates(&mut self, few: usize, looks_ahead: bool) -> Result<(Vec<Candidate>, bool)> {
        let mut candidates = self.unreported.take_due(few, self.pass.clock.monotonic());
        let is_named = self.plan.is_named() || !candidates.is_empty();
        if candidates.is_empty() {
            let most = if looks_ahead && !is_named { few.max(self.due.look_ahead) } else { few };
            candidates = self.due.next_few(most, &mut *self.pass.store)?;
        }
        if candidates.is_empty() && self.may_be_alone {
            candidates.extend(self.to_be_alone.pop());
        }
        Ok((candidates, is_named))
    }

    /// Whether there is anything to be claimed.
    fn has_more(&mut self) -> Result<bool> {
        let is_waiting = !self.unreported.is_empty() || !self.to_be_alone.is_empty();
        Ok(is_waiting || self.due.any(&mut *self.pass.store)?)
    }

    /// Returns whether the store has left out candidates, because others were at hand.
    fn claim_these(
        &mut self,
        candidates: &[Candidate],
        wanted: ClaimRequest<'_>,
        claimed: &mut Vec<DueRecord>,
    ) -> Result<bool> {
        let new: HashSet<_> = candidates.iter().filter(|it| it.was_new).map(|it| &it.id).collect();
        let claims = self.pass.store.claim(wanted)?;
        let (left_out, claims): (Vec<_>, Vec<_>) =
            claims.into_iter().partition(|(_, claim)| matches!(claim, Claim::NotAsked));
        let has_left_out = !left_out.is_empty();
        let left_out = left_out.into_iter().map(|(id, _)| {
            let was_new = new.contains(&id);
            Candidate { id, was_new }
        });
        self.due.put_back(left_out.collect());
        let mut claims = claims.into_iter();
        let mut due = Vec::new();
        for (id, claim) in claims.by_ref() {
            let was_new = new.contains(&id);
            match self.inspect(Candidate { id, was_new }, claim) {
                Ok(found) => due.extend(found),
                Err(error) => {
                    claims
                        .filter(|(_, claim)| matches!(claim, Claim::Held(_)))
                        .for_each(|(id, _)| self.pass.store.release(&id));
                    due.iter().for_each(|it| self.pass.store.release(&it.record.id));
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
        Ok(has_left_out)
    }

    fn inspect(&mut self, candidate: Candidate, claim: Claim) -> Result<Option<DueRecord>> {
        let Candidate { id, was_new } = candidate;
        match claim {
            Claim::Held(record) => {
                let due = self.recheck(record, was_new);
                if !matches!(due, Ok(Some(_))) {
                    self.pass.store.release(&id);
                }
                self.unreported.forget_asked(&id);
                return due;
            }
            Claim::Busy => {
                log::debug!("record {id} is in the hands of another pass");
                self.pass.observer.busy(&id);
                self.keep_slot(&id);
                self.unreported.forget_asked(&id);
                self.busy.push(Candidate { id, was_new });
            }
            Claim::Gone => self.forget_slot(&id),
            // It is in the queue again.
            Claim::NotAsked => {}
            Claim::Ambiguous => {
                self.forget_slot(&id);
                self.ambiguous.insert(id.to_string());
            }
            // It costs no time, so it does not count for the circuit breaker.
            Claim::Unreadable(why) => {
                self.refuse(&id, format!("is not tried: it could not be read: {why}"));
            }
        }
        Ok(None)
    }

    /// Whether another pass that lost its claims may still run the last attempt of a record, which is then retried later.
    /// If rows do not show whether an attempt has reported back, this holds for every failed record.
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

    /// Whether a record is deferred, because it or another record makes its last attempt alone in its process: a record
    /// that shared the process may have ended the attempts before.
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
        let candidate = Candidate::of_record(record);
        if has_to_be_alone {
            self.to_be_alone.push(candidate);
        } else {
            self.due.put_back(vec![candidate]);
        }
        true
    }

    /// Checks again whether a record is due: another pass may have settled it.
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

    /// Whether another pass may have tried a record since it was selected. By age and by slots a failed record may still
    /// be due; by a count only busy records are in question.
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

    /// Archives a record without another attempt: the last one killed its pass, or it is too old.
    fn expire(&mut self, record: &Arc<Record>, end: End) -> Result<()> {
        let settlement = backlog_schedule::expire(self.pass.clock.now());
        let change = RowWrite::new(record, None, settlement);
        match self.pass.store.round(&[change], &[])?.first() {
            Some(WriteResult::Written | WriteResult::WrittenAfterLoss) => {
                self.tally.expired += 1;
                let (attempts, error) = (record.failures, record.last_error.as_deref());
                if self.pass.observer.archived(record, error) {
                    log_expired(record, end);
                }
                self.start_on_archive(record, attempts, error);
            }
            Some(WriteResult::Refused(error)) => {
                self.refused(record, Status::Archived, &error.why);
            }
            Some(
                WriteResult::Charged(_) | WriteResult::ChangedMeanwhile | WriteResult::ClaimLost,
            )
            | None => {}
        }
        Ok(())
    }

    pub(super) fn write_outcomes(&mut self, ended: &[Attempt]) -> Result<()> {
        self.write(ended, &[]).map(|_| ())
    }

    /// Writes, in one transaction, the outcomes of the answered records, which it books, and the
    /// charges of the claimed ones; says how those went. Where nothing is charged, all went well.
    fn write(&mut self, ended: &[Attempt], claimed: &[DueRecord]) -> Result<Vec<WriteResult>> {
        let now = self.pass.clock.now();
        let rule = &self.rule;
        let (capabilities, limits) = (rule.capabilities, rule.schedule.limits);
        let mut changes = Vec::with_capacity(ended.len() + claimed.len());
        for attempt in ended {
            let Some(in_hand) = self.in_hand.get(&attempt.id) else {
                bail!("record {} was answered but is not in hand", attempt.id);
            };
            let InHand { record, charged, is_in_doubt: is_repeated, .. } = in_hand;
            let settlement =
                backlog_schedule::settle(record, &attempt.outcome, now, capabilities, limits);
            let retry_at = rule.retry_at(record, &settlement);
            let change = RowWrite::new(record, charged.as_ref(), settlement);
            changes.push(RowWrite { retry_at, is_repeated: *is_repeated, ..change });
        }
        let charge = |record: &Record| {
            let charge = backlog_schedule::charge(record, now, capabilities);
            if self.takes_errors == Some(false) { charge.without_error() } else { charge }
        };
        let charged = claimed.iter().filter(|_| capabilities.has_charge());
        changes.extend(charged.map(|DueRecord { record, .. }| {
            let charge = charge(record);
            // Killed, the pass leaves the record to wait as if it had failed.
            let retry_at = Some(()).filter(|()| capabilities.has_due_column);
            let retry_at = retry_at.and_then(|()| rule.retry_at(record, &charge));
            RowWrite { retry_at, ..RowWrite::new(record, None, charge) }
        }));
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let may_look = self.bucket.is_none() && !self.is_cut_short();
        let next = match may_look && self.pass.store.limits().looks_ahead {
            true => self.due.peek(MOST_NEXT.min(left)),
            false => Vec::new(),
        };
        let (mut applied, unstored) = match apply(&mut *self.pass.store, &changes, &next) {
            Ok(applied) => applied,
            Err(error) => {
                drop(changes);
                self.doubt(ended);
                return Err(error);
            }
        };
        log::debug!("wrote {} outcomes and began {} attempts", ended.len(), claimed.len());
        let settlements: Vec<_> = changes.into_iter().map(|change| change.settlement).collect();
        let mut charged = applied.split_off(ended.len());
        charged.resize(claimed.len(), WriteResult::Written);
        for ((attempt, settlement), applied) in ended.iter().zip(settlements).zip(applied) {
            if let WriteResult::Refused(Refusal { why, .. }) = &applied
                && self.keep_unwritten(attempt, &settlement, why)
            {
                continue;
            }
            self.book(
                attempt,
                &settlement,
                &applied,
                unstored.get(&attempt.id).map(String::as_str),
            );
        }
        Ok(charged)
    }

    fn doubt(&mut self, ended: &[Attempt]) {
        for attempt in ended {
            if let Some(in_hand) = self.in_hand.get_mut(&attempt.id) {
                in_hand.is_in_doubt = true;
            }
        }
    }

    /// Gives the charged records to the handler, and returns their number. If the pass was just stopped, they come back
    /// as interrupted, and the next round reverts their charge.
    fn hand_out(
        &mut self,
        claimed: impl Iterator<Item = (DueRecord, WriteResult)>,
        now: Instant,
        submit: &Submit,
    ) -> usize {
        let (mut jobs, mut too_large) = (Vec::new(), Vec::new());
        let began = self.pass.clock.monotonic();
        for (DueRecord { record, slot }, charged) in claimed {
            let charged = match charged {
                WriteResult::Written | WriteResult::WrittenAfterLoss => None,
                WriteResult::Charged(charged) => Some(charged),
                WriteResult::ChangedMeanwhile => {
                    self.forget_slot(&record.id);
                    self.pass.store.release(&record.id);
                    continue;
                }
                WriteResult::ClaimLost => {
                    self.keep_slot(&record.id);
                    self.pass.store.release(&record.id);
                    self.left += 1;
                    self.busy.push(Candidate::of_record(&record));
                    continue;
                }
                WriteResult::Refused(error) => {
                    self.pass.store.release(&record.id);
                    self.left += 1;
                    let error =
                        format!("it cannot be set to {}: {}", Status::Error.name(), error.why);
                    self.refuse_to_try(&record, slot, &error);
                    continue;
                }
            };
            log_begun(&record, &self.rule);
            self.rule.kept.remove(&record.id);
            self.cursor.handed_out(&record, slot);
            let (id, attempt) = (record.id.clone(), record.next_attempt());
            let in_hand = InHand {
                record: record.clone(),
                charged,
                started_at: now,
                began,
                is_in_doubt: false,
            };
            self.in_hand.insert(id, in_hand);
            let job = Job { record, attempt, submit: submit.clone() };
            match &job.record.too_large {
                None => jobs.push(job),
                Some(error) => {
                    let (error, reach) = (error.clone(), Reach::NotSent);
                    too_large.push(job.ended(Outcome::Unanswered { error, reach }));
                }
            }
        }
        // Before any handler runs, so that a pass that is killed has noted what it began.
        if let Some(cursor) = self.cursor.news() {
            self.pass.observer.reached(&cursor);
        }
        let count = jobs.len() + too_large.len();
        self.has_asked_blocked &= count == 0;
        self.handlers.handler.start(jobs);
        if !too_large.is_empty() {
            submit(too_large);
        }
        count
    }
}

/// Writes rows, without the text of an error if the table refuses it. Returns also why.
fn apply(
    store: &mut dyn Store,
    changes: &[RowWrite],
    next: &[Id],
) -> Result<(Vec<WriteResult>, HashMap<Id, String>)> {
    let mut applied = store.round(changes, next)?;
    ensure!(applied.len() == changes.len(), "the store answered for some changes only");
    let mut unstored = HashMap::new();
    for (change, applied) in changes.iter().zip(&mut applied) {
        // A row that is locked refuses nothing.
        let WriteResult::Refused(Refusal { why, is_lock: false }) = &*applied else { continue };
        let settlement = change.settlement.without_error();
        if settlement == change.settlement {
            continue;
        }
        let again = store.round(&[RowWrite { settlement, ..*change }], &[])?.pop();
        if let Some(
            written @ (WriteResult::Written
            | WriteResult::WrittenAfterLoss
            | WriteResult::Charged(_)),
        ) = again
        {
            unstored.insert(change.record.id.clone(), why.clone());
            *applied = written;
        }
    }
    Ok((applied, unstored))
}
