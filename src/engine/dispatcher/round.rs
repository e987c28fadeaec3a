//! One round of the dispatcher: claims records, writes outcomes and charges, hands records out.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use backlog_schedule::{Attempt, DueRule, Id, Instant, Outcome, Reach, Record, Slot, Status};
use backlog_store::{Guards, Refusal, RowWrite, Store, WriteResult};

use super::{Dispatcher, InHand};
use crate::engine::due_queue::Candidate;
use crate::engine::tally::log_begun;
use crate::exit::Exit;
use crate::handlers::{Job, Submit};

/// Maximum number of candidates that a write passes on, so that the store can claim some.
const MOST_NEXT: usize = 128;

pub(super) struct DueRecord {
    pub record: Arc<Record>,
    pub slot: Option<Slot>,
}

impl DueRecord {
    fn charge_write(&self, rule: &DueRule, takes_errors: bool, now: Instant) -> RowWrite<'_> {
        let charge = backlog_schedule::charge(&self.record, now, rule.capabilities);
        let charge = if takes_errors { charge } else { charge.without_error() };
        // If the pass is killed, the record waits as after a failure.
        let has_due_column = rule.capabilities.has_due_column;
        let retry_at = if has_due_column { rule.retry_at(&self.record, &charge) } else { None };
        RowWrite { retry_at, ..RowWrite::new(&self.record, None, charge) }
    }
}

impl InHand {
    fn outcome_write(&self, outcome: &Outcome, rule: &DueRule, now: Instant) -> RowWrite<'_> {
        let (record, capabilities, limits) =
            (&self.record, rule.capabilities, rule.schedule.limits);
        let settlement = backlog_schedule::settle(record, outcome, now, capabilities, limits);
        let retry_at = rule.retry_at(record, &settlement);
        let write = RowWrite::new(record, self.charged.as_ref(), settlement);
        RowWrite { retry_at, is_repeated: self.may_be_written, ..write }
    }
}

impl Dispatcher {
    /// Settles ended attempts, and fills the free places.
    pub(super) fn round(&mut self, mut ended: &[Attempt], submit: &Submit) -> Result<()> {
        self.write_again()?;
        let still_in_hand = self.in_hand.len() - ended.len() - self.ended();
        let free = self.places().saturating_sub(still_in_hand);
        if free > self.free_claims() && !ended.is_empty() {
            // Records whose attempts have ended still hold claims, which are released first.
            self.write_outcomes(ended)?;
            ended = &[];
        }
        let mut free = free.min(self.free_claims());
        // If a charge is refused, the next record gets the place.
        loop {
            let (claimed, handed_out) = self.fill(free, ended, submit)?;
            if handed_out == claimed {
                return Ok(());
            }
            (free, ended) = (free - handed_out, &[]);
        }
    }

    /// Claims records, writes outcomes and charges, and hands the records out. Returns the numbers of records claimed
    /// and handed out.
    fn fill(&mut self, free: usize, ended: &[Attempt], submit: &Submit) -> Result<(usize, usize)> {
        let mut claimed = Vec::new();
        if let Err(error) = self.claim(free, &mut claimed) {
            self.release_all(claimed.drain(..));
            self.begin_no_more(error);
        }
        let count = claimed.len();
        let now = self.pass.clock.now();
        match self.write(ended, &claimed) {
            Ok(charged) => {
                Ok((count, self.hand_out(claimed.into_iter().zip(charged), now, submit)))
            }
            // The charges may be the cause, so the outcomes are written without them.
            Err(error) if ended.is_empty() || count > 0 && Exit::from(&error) != Exit::TryLater => {
                self.release_all(claimed);
                self.begin_no_more(error);
                self.write_outcomes(ended).map(|()| (0, 0))
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn release_all(&mut self, records: impl IntoIterator<Item = DueRecord>) {
        records.into_iter().for_each(|due| self.pass.store.release(&due.record.id));
    }

    /// Maximum number of records with handlers: at most half of the claims, because as many may be answered and not
    /// settled.
    pub(super) fn places(&self) -> usize {
        self.handlers.handler.capacity().min(self.pass.store.limits().most_claims / 2)
    }

    fn free_claims(&self) -> usize {
        self.pass.store.limits().most_claims.saturating_sub(self.in_hand.len())
    }

    pub(super) fn write_outcomes(&mut self, ended: &[Attempt]) -> Result<()> {
        self.write(ended, &[]).map(|_| ())
    }

    /// Writes outcomes and charges in one round trip, and reports the outcomes. Returns the results of the charges.
    fn write(&mut self, ended: &[Attempt], claimed: &[DueRecord]) -> Result<Vec<WriteResult>> {
        let now = self.pass.clock.now();
        let mut writes = Vec::with_capacity(ended.len() + claimed.len());
        for Attempt { id, outcome, .. } in ended {
            let in_hand = self.in_hand.get(id);
            let in_hand =
                in_hand.with_context(|| format!("record {id} was answered but is not in hand"))?;
            writes.push(in_hand.outcome_write(outcome, &self.rule, now));
        }
        if self.rule.capabilities.has_charge() {
            let takes_errors = self.takes_errors != Some(false);
            let charge = |due| DueRecord::charge_write(due, &self.rule, takes_errors, now);
            writes.extend(claimed.iter().map(charge));
        }
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let may_claim = self.bucket.is_none() && !self.is_cut_short();
        let next = match may_claim && self.pass.store.limits().looks_ahead {
            true => self.due.peek(MOST_NEXT.min(left)),
            false => Vec::new(),
        };
        let (mut applied, unstored) = match write_rows(&mut *self.pass.store, &writes, &next) {
            Ok(applied) => applied,
            Err(error) => {
                drop(writes);
                self.mark_as_maybe_written(ended);
                return Err(error);
            }
        };
        log::debug!("wrote {} outcomes and began {} attempts", ended.len(), claimed.len());
        let settlements: Vec<_> = writes.into_iter().map(|write| write.settlement).collect();
        let mut charged = applied.split_off(ended.len());
        charged.resize(claimed.len(), WriteResult::Written);
        for ((attempt, settlement), applied) in ended.iter().zip(settlements).zip(applied) {
            if let WriteResult::Refused(Refusal { why, .. }) = &applied
                && self.keep_unwritten(attempt, &settlement, why)
            {
                continue;
            }
            let unstored = unstored.get(&attempt.id).map(String::as_str);
            self.report(attempt, &settlement, &applied, unstored);
        }
        Ok(charged)
    }

    fn mark_as_maybe_written(&mut self, ended: &[Attempt]) {
        for attempt in ended {
            if let Some(in_hand) = self.in_hand.get_mut(&attempt.id) {
                in_hand.may_be_written = true;
            }
        }
    }

    /// Gives charged records to the handler. Returns their number. After a stop, the next round reverts the charges.
    fn hand_out(
        &mut self,
        claimed: impl Iterator<Item = (DueRecord, WriteResult)>,
        now: Instant,
        submit: &Submit,
    ) -> usize {
        let (mut jobs, mut too_large) = (Vec::new(), Vec::new());
        let began = self.pass.clock.monotonic();
        for (due, result) in claimed {
            let Some(charged) = self.after_charge(&due, result) else { continue };
            let DueRecord { record, slot } = due;
            log_begun(&record, &self.rule);
            self.rule.kept.remove(&record.id);
            self.cursor.handed_out(&record, slot);
            let (id, attempt) = (record.id.clone(), record.next_attempt());
            let in_hand = InHand {
                record: record.clone(),
                charged,
                started_at: now,
                began,
                may_be_written: false,
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
        // Before a handler runs, so that the cursor of a killed pass lists the attempts that it began.
        if let Some(cursor) = self.cursor.take_changed() {
            self.pass.observer.reached(&cursor);
        }
        let count = jobs.len() + too_large.len();
        self.has_retried_blocked &= count == 0;
        self.handlers.handler.start(jobs);
        if !too_large.is_empty() {
            submit(too_large);
        }
        count
    }

    /// Handles the result of a charge. Returns the guards that it left; `None` if the record was released uncharged.
    fn after_charge(&mut self, due: &DueRecord, result: WriteResult) -> Option<Option<Guards>> {
        let DueRecord { record, slot } = due;
        match result {
            WriteResult::Written | WriteResult::WrittenAfterLoss => return Some(None),
            WriteResult::Charged(charged) => return Some(Some(charged)),
            WriteResult::ChangedMeanwhile => self.forget_slot(&record.id),
            WriteResult::ClaimLost => {
                self.keep_slot(&record.id);
                self.left += 1;
                self.busy.push(Candidate::from(&**record));
            }
            WriteResult::Refused(error) => {
                self.left += 1;
                let why = format!("it cannot be set to {}: {}", Status::Error.name(), error.why);
                self.skip_and_count(record, *slot, &why);
            }
        }
        self.pass.store.release(&record.id);
        None
    }
}

/// Writes rows. If the table refuses the text of an error, writes the row without it, and returns the reason by id.
fn write_rows(
    store: &mut dyn Store,
    writes: &[RowWrite],
    next: &[Id],
) -> Result<(Vec<WriteResult>, HashMap<Id, String>)> {
    let mut applied = store.round(writes, next)?;
    ensure!(applied.len() == writes.len(), "the store answered for some changes only");
    let mut unstored = HashMap::new();
    for (write, applied) in writes.iter().zip(&mut applied) {
        // A lock is no refusal of the text.
        let WriteResult::Refused(Refusal { why, is_lock: false }) = &*applied else { continue };
        let settlement = write.settlement.without_error();
        if settlement == write.settlement {
            continue;
        }
        let again = store.round(&[RowWrite { settlement, ..*write }], &[])?.pop();
        if let Some(
            written @ (WriteResult::Written
            | WriteResult::WrittenAfterLoss
            | WriteResult::Charged(_)),
        ) = again
        {
            unstored.insert(write.record.id.clone(), why.clone());
            *applied = written;
        }
    }
    Ok((applied, unstored))
}
