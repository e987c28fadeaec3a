//! Guarded writes of rows, their results, and their rehearsal.

use std::sync::Arc;

use backlog_schedule::{Instant, Record, Settlement, Transition, Value};

use crate::error::Refusal;

/// Values of the guard columns, which a row must still have to be written. After a charge these are the
/// [`Table::charge_columns`] as triggers and the table itself left them. Where claims cannot be lost the
/// [`Table::guard_columns`] suffice.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Guards(pub Vec<Value>);

/// A guarded write: changes a row if nobody else has changed it since it was read or charged.
#[derive(Debug, Clone)]
pub struct RowWrite<'a> {
    pub record: &'a Arc<Record>,
    /// The guards that the charge of this pass left, if the row was charged.
    pub charged: Option<&'a Guards>,
    pub settlement: Settlement,
    /// The next attempt by the policy, for a store or a column that keeps the schedule.
    pub retry_at: Option<Instant>,
    /// The claim was interrupted, so that the guards must also rule out another attempt.
    pub is_fenced: bool,
    /// A lost session may have made this write already.
    pub is_repeated: bool,
}

impl<'a> RowWrite<'a> {
    pub fn new(
        record: &'a Arc<Record>,
        charged: Option<&'a Guards>,
        settlement: Settlement,
    ) -> Self {
        let (retry_at, is_fenced, is_repeated) = (None, false, false);
        Self { record, charged, settlement, retry_at, is_fenced, is_repeated }
    }

    pub fn begins(&self) -> bool {
        self.settlement.transition == Transition::Begun
    }

    pub fn ends(&self) -> bool {
        matches!(self.settlement.transition, Transition::Succeeded | Transition::Archived)
    }

    pub fn renews(&self) -> bool {
        self.settlement.transition == Transition::Renewed
    }

    /// The reason to refuse a write after which a row is still pending, or still not.
    pub(crate) fn objection(&self, is_pending: bool) -> Option<&'static str> {
        match (self.settlement.transition, is_pending) {
            (Transition::Succeeded | Transition::Archived, true) => Some(STILL_PENDING),
            (Transition::Renewed, false) => Some(NOT_PENDING),
            _ => None,
        }
    }

    pub(crate) fn result(&self, guards: Guards) -> WriteResult {
        if self.begins() { WriteResult::Charged(guards) } else { WriteResult::Written }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum WriteResult {
    Written,
    /// A success was written although the claim was lost and another attempt may have begun.
    WrittenAfterLoss,
    Charged(Guards),
    /// The application changed or deleted the row meanwhile, so nothing was written.
    ChangedMeanwhile,
    /// The claim was lost and another attempt may have begun, so nothing was written.
    ClaimLost,
    /// The table, a constraint or a trigger refused the write, or the row stayed locked.
    Refused(Refusal),
}

/// Reason for a write that silently changed nothing, as after a trigger's RAISE(IGNORE).
pub const IGNORED: &str = "the table ignored the change";

pub const STILL_PENDING: &str =
    "it would still be pending: no status and no condition says that it is finished";

pub const NOT_PENDING: &str = "it would still not be pending: set in on_restore the columns that make \
                               its condition true";

/// The ends of a record that are rehearsed, with its maximum number of attempts.
#[derive(Debug, Clone, Copy)]
pub enum Ends {
    /// A success. It must not be taken for an archived record.
    Success,
    /// Also the archive after this attempt, or by hand. An archived record must not be taken for another one.
    Archive(Option<u32>),
    /// Also a failure, and the way back from the archive.
    All(Option<u32>),
}

/// Constraints that may refuse one record and accept another, so that each record is rehearsed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowConstraints {
    #[default]
    None,
    /// They depend on the row itself or on other tables.
    OfOneRow,
    /// They also depend on other records, as a unique index does.
    AcrossRows,
}

/// The writes that a record may need: chains of an optional charge and an outcome, of the same form for all records.
#[derive(Debug)]
pub struct PossibleWrites {
    pub record: Arc<Record>,
    pub chains: Vec<Vec<Settlement>>,
}

impl PossibleWrites {
    pub(crate) fn write<'a>(
        &'a self,
        chain: usize,
        step: usize,
        charged: Option<&'a Guards>,
    ) -> RowWrite<'a> {
        let settlement = self.chains[chain][step].clone();
        // Any instant shows whether the column accepts one.
        let retry_at = Some(settlement.at);
        RowWrite { retry_at, ..RowWrite::new(&self.record, charged, settlement) }
    }

    /// The success, which ends the first chain, as a write to a row that was not charged.
    pub(crate) fn success(&self) -> Option<RowWrite<'_>> {
        let settlement = self.chains.first()?.last()?.clone();
        Some(RowWrite::new(&self.record, None, settlement))
    }

    /// The same writes without error texts, which may be the only values that the table refuses.
    pub fn without_errors(&self) -> Self {
        let plain = |chain: &Vec<_>| chain.iter().map(Settlement::without_error).collect();
        Self { record: self.record.clone(), chains: self.chains.iter().map(plain).collect() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rehearsal {
    Taken,
    /// The write conflicts with the success of another record that the pass has claimed.
    Blocked,
    /// Another session has the row or an entry of a unique index locked, for this reason.
    Locked(String),
    ChangedMeanwhile,
    Refused(String),
}
