//! Rehearsal of the possible writes for a record, before its handler starts.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Result, ensure};
use backlog_schedule::{Outcome, Record, settle};
use backlog_store::{Ends, Guards, PossibleWrites, Rehearsal, RowConstraints, RowWrite};

use super::round::DueRecord;
use super::{Dispatcher, InHand};
use crate::engine::due_queue::Candidate;

impl Dispatcher {
    /// Returns the records whose outcomes the table accepts besides those of `claimed`, and releases the others.
    pub(super) fn rehearse(
        &mut self,
        due: Vec<DueRecord>,
        claimed: &[DueRecord],
    ) -> Result<Vec<DueRecord>> {
        let ids: Vec<_> = due.iter().map(|due| due.record.id.clone()).collect();
        let accepted = self.accepted(due, claimed);
        let kept: HashSet<_> = accepted.iter().flatten().map(|due| &due.record.id).collect();
        ids.iter().filter(|id| !kept.contains(id)).for_each(|id| self.pass.store.release(id));
        accepted
    }

    /// Rehearses until a record is accepted, which then represents all, unless constraints may refuse single rows.
    fn accepted(&mut self, due: Vec<DueRecord>, claimed: &[DueRecord]) -> Result<Vec<DueRecord>> {
        let (mut accepted, mut due) = (Vec::with_capacity(due.len()), due.into_iter());
        while self.takes_errors.is_none()
            && let Some(first) = due.next()
        {
            accepted.extend(self.rehearse_each(vec![first], &[])?);
        }
        let others: Vec<_> = due.collect();
        if others.is_empty() {
            return Ok(accepted);
        }
        let others = match self.row_constraints {
            RowConstraints::None => others,
            RowConstraints::OfOneRow => self.rehearse_each(others, &[])?,
            RowConstraints::AcrossRows => {
                let with_handlers = self.in_hand.values();
                let with_handlers = with_handlers
                    .filter(|in_hand| !self.breaker.is_doubtful(&in_hand.record.id))
                    .map(|InHand { record, charged, .. }| (record.clone(), charged.clone()));
                let before = claimed.iter().chain(&accepted);
                let before = before.map(|due| (due.record.clone(), None));
                let before = before.chain(with_handlers);
                self.rehearse_each(others, &before.collect::<Vec<_>>())?
            }
        };
        accepted.extend(others);
        Ok(accepted)
    }

    fn rehearse_each(
        &mut self,
        due: Vec<DueRecord>,
        others: &[(Arc<Record>, Option<Guards>)],
    ) -> Result<Vec<DueRecord>> {
        let now = self.pass.clock.now();
        let possible_writes = |due: &DueRecord| {
            let chains = self.rule.possible_writes(&due.record, now);
            let writes = PossibleWrites { record: due.record.clone(), chains };
            if self.takes_errors == Some(false) { writes.without_errors() } else { writes }
        };
        let writes: Vec<_> = due.iter().map(possible_writes).collect();
        let (capabilities, limits) = (self.rule.capabilities, self.rule.schedule.limits);
        let successes = others.iter().map(|(record, charged)| {
            let success = settle(record, &Outcome::Success, now, capabilities, limits);
            RowWrite::new(record, charged.as_ref(), success)
        });
        let rehearsed = self.pass.store.rehearse(&writes, &successes.collect::<Vec<_>>())?;
        ensure!(rehearsed.len() == due.len(), "the store answered for some records only");
        let mut accepted = Vec::with_capacity(due.len());
        for ((due, writes), rehearsal) in due.into_iter().zip(&writes).zip(rehearsed) {
            if self.is_accepted(&due, writes, rehearsal)? {
                accepted.push(due);
            }
        }
        Ok(accepted)
    }

    fn is_accepted(
        &mut self,
        due: &DueRecord,
        writes: &PossibleWrites,
        rehearsal: Rehearsal,
    ) -> Result<bool> {
        let why = match rehearsal {
            Rehearsal::Taken => {
                let Some(why) = self.why_lost(&due.record)? else {
                    self.takes_errors.get_or_insert(true);
                    return Ok(true);
                };
                let why = format!("{why}; no handler was started");
                self.skip_and_count(&due.record, due.slot, &why);
                return Ok(false);
            }
            Rehearsal::ChangedMeanwhile => return Ok(false),
            Rehearsal::Blocked => {
                let id = &due.record.id;
                log::debug!(
                    "record {id} waits: its write may conflict with the success of a running record"
                );
                self.keep_slot(id);
                self.blocked.push(Candidate::from(&*due.record));
                return Ok(false);
            }
            // The record is claimed again, at the latest by the next pass.
            Rehearsal::Locked(why) if !self.has_retried_busy => {
                let id = &due.record.id;
                log::debug!("record {id} is not tried now: {why}");
                self.keep_slot(id);
                self.busy.push(Candidate::from(&*due.record));
                return Ok(false);
            }
            Rehearsal::Locked(why) => {
                self.tally_refused(
                    &due.record.id,
                    format!("is not tried: {why}; no handler was started"),
                );
                self.keep_slot(&due.record.id);
                return Ok(false);
            }
            Rehearsal::Refused(why) => why,
        };
        // Perhaps the table refuses only the error texts.
        let plain = [writes.without_errors()];
        let has_texts = self.takes_errors != Some(false);
        let again = if has_texts { self.pass.store.rehearse(&plain, &[])?.pop() } else { None };
        match again {
            Some(Rehearsal::Taken) => {
                log::warn!(
                    "the table refuses error texts, so attempts are not marked as begun: {why}"
                );
                self.takes_errors = Some(false);
                return Ok(true);
            }
            Some(Rehearsal::ChangedMeanwhile | Rehearsal::Blocked | Rehearsal::Locked(_)) => {}
            Some(Rehearsal::Refused(_)) | None => {
                let why = format!("{why}; no handler was started");
                match self.takes_errors {
                    Some(_) => self.skip_refused(&due.record, due.slot, &why),
                    None => self.skip_and_count(&due.record, due.slot, &why),
                }
            }
        }
        Ok(false)
    }

    /// The reason why this mapping would take a successful record for an archived one, or lose an archived one. Once a
    /// record was rehearsed, it represents all.
    pub(super) fn why_lost(&mut self, record: &Arc<Record>) -> Result<Option<String>> {
        if self.finds_archived || !record.status.is_pending() {
            return Ok(None);
        }
        let most = self.rule.schedule.limits.most_attempts(record.max_attempts);
        let most = most.or(Some(record.next_attempt()));
        let ends = if self.rule.may_archive() { Ends::Archive(most) } else { Ends::Success };
        let why = self.pass.store.rehearse_ends(record, ends)?;
        self.finds_archived = why.is_none();
        Ok(why)
    }
}
