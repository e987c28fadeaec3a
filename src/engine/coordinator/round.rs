//! What is done in one round: due records are claimed, outcomes and charges written, and the
//! records handed out.

use std::sync::Arc;

use anyhow::{Result, bail, ensure};

use super::{Coordinator, InHand};
use crate::engine::say;
use crate::handler::{Job, Outbox};
use crate::instant::Instant;
use crate::policy::{self, End, Reason, Verdict};
use crate::record::{Answer, Id, Record, Status};
use crate::selection::Slot;
use crate::store::{Applied, Change, Claim};

/// A due record that this pass holds.
struct Claimed {
    record: Record,
    /// What it is due by, if it is due by a slot.
    slot: Option<Slot>,
}

impl Coordinator {
    /// Settles what has come in and fills the free places.
    pub(super) fn round(&mut self, answers: &[Answer], outbox: &Outbox) -> Result<()> {
        let mut answers = answers;
        let still_in_hand = self.in_hand.len() - answers.len();
        let free = self.handler.capacity().saturating_sub(still_in_hand);
        if free > self.room() && !answers.is_empty() {
            // What has been answered is held until it is settled, and leaves no room until then.
            self.write_and_hand_out(answers, &mut Vec::new(), outbox)?;
            answers = &[];
        }
        let free = free.min(self.room());
        let mut claimed = Vec::new();
        let result = self
            .claim(free, &mut claimed)
            .and_then(|()| self.write_and_hand_out(answers, &mut claimed, outbox));
        // What was claimed but not handed out goes back as it is.
        for Claimed { record, .. } in claimed {
            self.pass.store.release(&record.id);
        }
        result
    }

    /// How many more records the store can hold.
    fn room(&self) -> usize {
        self.pass.store.most_claims().saturating_sub(self.in_hand.len())
    }

    /// Claims up to `free` due records, several at a time.
    fn claim(&mut self, free: usize, claimed: &mut Vec<Claimed>) -> Result<()> {
        self.is_held_back = false;
        while claimed.len() < free && !self.is_cut_short() {
            let left =
                self.left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
            let tokens = self.tokens();
            if tokens == 0 {
                self.is_held_back = self.candidates.any(self.pass.store.reader())?;
                break;
            }
            let few = left.min(tokens).min(free - claimed.len());
            let mut ids = self.candidates.next_few(few, self.pass.store.reader())?;
            if ids.is_empty() {
                break;
            }
            ids.retain(|id| !self.unable.contains(id));
            let before = claimed.len();
            let mut claims = self.pass.store.claim(&ids)?.into_iter();
            for (id, claim) in claims.by_ref() {
                match self.inspect(id, claim) {
                    Ok(Some(due)) => {
                        self.left = self.left.map(|left| left - 1);
                        self.take_token();
                        claimed.push(due);
                    }
                    Ok(None) => {}
                    Err(error) => {
                        self.let_go(claims);
                        return Err(error);
                    }
                }
            }
            if claimed.len() == before {
                self.candidates.look_ahead(self.pass.store.reader())?;
            }
        }
        Ok(())
    }

    /// How many attempts the rate allows at this moment.
    fn tokens(&self) -> usize {
        let clock = self.pass.clock;
        self.bucket.as_ref().map_or(usize::MAX, |bucket| bucket.tokens(clock.monotonic()))
    }

    fn take_token(&mut self) {
        if let Some(bucket) = &mut self.bucket {
            bucket.take(self.pass.clock.monotonic());
        }
    }

    fn let_go(&mut self, claims: impl Iterator<Item = (Id, Claim)>) {
        for (id, claim) in claims {
            if matches!(claim, Claim::Held(_)) {
                self.pass.store.release(&id);
            }
        }
    }

    /// Looks at a record that is due as far as the selection saw. `None` if there is nothing to
    /// try.
    fn inspect(&mut self, id: Id, claim: Claim) -> Result<Option<Claimed>> {
        match claim {
            Claim::Held(record) => {
                let due = self.due(*record);
                if !matches!(due, Ok(Some(_))) {
                    self.pass.store.release(&id);
                }
                due
            }
            Claim::Busy => {
                log::debug!("record {id} is in the hands of another pass");
                self.busy.push(id);
                Ok(None)
            }
            Claim::Gone => Ok(None),
            Claim::Ambiguous => {
                log::warn!("record {id} is not tried: more than one row has this id");
                Ok(None)
            }
        }
    }

    /// Looks at a claimed record once more: another pass may have settled it since it was
    /// selected.
    fn due(&mut self, record: Record) -> Result<Option<Claimed>> {
        // Something may have stopped the pass since its claim.
        if self.is_cut_short() {
            return Ok(None);
        }
        let now = self.pass.clock.now();
        self.pass.look.moment.now = now;
        let reason = match self.pass.look.verdict(record.facts()) {
            Verdict::Due(reason) => reason,
            Verdict::Archive(end) => {
                if self.prove(&record, now)? {
                    self.expire(&record, end)?;
                }
                return Ok(None);
            }
            Verdict::Wait { .. } | Verdict::Never(_) => return Ok(None),
        };
        if !self.prove(&record, now)? {
            return Ok(None);
        }
        let slot = match reason {
            Reason::Slot(slot) => Some(slot),
            Reason::ClockSetBack => {
                let id = &record.id;
                log::warn!(
                    "record {id} is tried at once: its last failure lies in the future, so the \
                     clock was set back"
                );
                None
            }
            Reason::New | Reason::WithinAge | Reason::WaitOver | Reason::NoLastFailure => None,
        };
        Ok(Some(Claimed { record, slot }))
    }

    /// Proves with the first record that the table takes all that may have to be written, before
    /// any handler runs for nothing. False if the record changed meanwhile, which proves nothing.
    fn prove(&mut self, record: &Record, now: Instant) -> Result<bool> {
        if self.proven {
            return Ok(true);
        }
        let chains = policy::chains(record, now, self.pass.look.rules);
        self.proven = self.pass.store.prove(record, &chains)?;
        Ok(self.proven)
    }

    /// Archives a record without another attempt: its last one killed the pass that made it, or
    /// it has grown too old.
    fn expire(&mut self, record: &Record, end: End) -> Result<()> {
        let settlement = policy::expire(self.pass.clock.now());
        let change = Change::new(record, false, settlement);
        match self.pass.store.apply(&[change])?.first() {
            Some(Applied::Written) => {
                self.summary.expired += 1;
                say::expired(record, end);
                self.tell_of_archived(record, record.failures, record.last_error.as_deref());
            }
            Some(Applied::Refused(error)) => self.refused(&record.id, Status::Archived, error),
            Some(Applied::ChangedMeanwhile | Applied::ClaimLost) | None => {}
        }
        Ok(())
    }

    /// One transaction: the outcomes of the answered records, the charges of the claimed ones.
    fn write_and_hand_out(
        &mut self,
        answers: &[Answer],
        claimed: &mut Vec<Claimed>,
        outbox: &Outbox,
    ) -> Result<()> {
        let now = self.pass.clock.now();
        let mut changes = Vec::with_capacity(answers.len() + claimed.len());
        for answer in answers {
            let Some(in_hand) = self.in_hand.get(&answer.id) else {
                bail!("record {} was answered but is not in hand", answer.id);
            };
            let InHand { record, charged, .. } = in_hand;
            let look = &self.pass.look;
            let settlement = policy::settle(record, &answer.outcome, now, look.rules);
            let retry_at = look.retry_at(record, &settlement);
            let change = Change::new(record, *charged, settlement);
            changes.push(Change { retry_at, ..change });
        }
        let rules = self.pass.look.rules;
        changes.extend(claimed.iter().filter(|_| rules.has_counter).map(
            |Claimed { record, .. }| Change::new(record, false, policy::charge(record, now, rules)),
        ));
        let mut applied = self.pass.store.apply(&changes)?;
        ensure!(applied.len() == changes.len(), "the store answered for some changes only");
        log::debug!("wrote {} outcomes and began {} attempts", answers.len(), claimed.len());
        let settlements: Vec<_> =
            changes.into_iter().take(answers.len()).map(|change| change.settlement).collect();
        let charged = applied.split_off(answers.len());

        for ((answer, settlement), applied) in answers.iter().zip(settlements).zip(applied) {
            self.settled(answer, &settlement, &applied);
        }
        if let Some(reached) = self.progress.advanced() {
            self.pass.observer.reached(&reached);
        }
        if self.wake.signalled().is_some() {
            // It came while the transaction waited for its lock.
            self.handler.begin_no_more();
        }
        let charged = charged.into_iter().map(Some).chain(std::iter::repeat(None));
        self.hand_out(std::mem::take(claimed).into_iter().zip(charged), now, outbox);
        Ok(())
    }

    /// Gives records to the handler, all together. If the pass was stopped in this very round, it
    /// gives them back as interrupted, and the next round takes their charge back.
    fn hand_out(
        &mut self,
        claimed: impl Iterator<Item = (Claimed, Option<Applied>)>,
        now: Instant,
        outbox: &Outbox,
    ) {
        let jobs = claimed.filter_map(|(claimed, charged)| {
            let record = self.take_in_hand(claimed, charged.as_ref(), now)?;
            let attempt = record.next_attempt();
            Some(Job { record, attempt, outbox: outbox.clone() })
        });
        let jobs = jobs.collect();
        self.handler.start(jobs);
    }

    /// Notes that the handler has the record from now on, if its charge could be written.
    fn take_in_hand(
        &mut self,
        claimed: Claimed,
        charged: Option<&Applied>,
        now: Instant,
    ) -> Option<Arc<Record>> {
        let Claimed { record, slot } = claimed;
        let charged = match charged {
            None => false,
            Some(Applied::Written) => true,
            Some(Applied::ChangedMeanwhile | Applied::ClaimLost) => {
                self.pass.store.release(&record.id);
                return None;
            }
            Some(Applied::Refused(error)) => {
                self.pass.store.release(&record.id);
                self.refused(&record.id, Status::Error, error);
                return None;
            }
        };
        say::begun(&record, self.pass.look.rules);
        if let Some(first) = self.progress.handed_out(&record, slot, self.pass.plan.is_capped()) {
            self.pass.observer.reached(first);
        }
        let id = record.id.clone();
        let record = Arc::new(record);
        let in_hand = InHand { record: record.clone(), charged, started_at: now, slot };
        self.in_hand.insert(id, in_hand);
        Some(record)
    }
}
