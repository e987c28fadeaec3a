//! Guarded writes of rows, their results, and their rehearsal.

use std::sync::Arc;

use backlog_schedule::{Instant, Record, Settlement, Transition, Value};

use crate::error::Refusal;

/// The [`Table::charge_columns`] as a charge, triggers and the table itself left them. Where claims
/// cannot be lost these are just the [`Table::guard_columns`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Guards(pub Vec<Value>);

/// A row to be changed, if it still is what the record says, or what the charge made of it.
#[derive(Debug, Clone)]
pub struct RowWrite<'a> {
    pub record: &'a Arc<Record>,
    /// What this pass made of the row when it wrote that an attempt has begun, if it did.
    pub charged: Option<&'a Guards>,
    pub settlement: Settlement,
    /// When the policy has it tried again, for a store or a column that keeps the schedule.
    pub retry_at: Option<Instant>,
    /// Whether the claim was broken, so that the row must show that no other attempt has begun.
    pub is_fenced: bool,
    /// Whether a session that was lost may have made this write before.
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

    /// The result, once it is written: what a charge made of the row.
    pub(crate) fn written(&self, charged: Guards) -> WriteResult {
        if self.begins() { WriteResult::Charged(charged) } else { WriteResult::Written }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum WriteResult {
    Written,
    /// A success is written although the claim was lost and another attempt may have begun.
    WrittenAfterLoss,
    /// The charge is written, and this is what it made of the row.
    Charged(Guards),
    /// The application changed or deleted the row meanwhile; it was left alone.
    ChangedMeanwhile,
    /// The claim was lost, and another attempt may have begun. The row was left alone.
    ClaimLost,
    /// The table, a constraint or a trigger does not make the change, or the row stayed locked.
    Refused(Refusal),
}

/// What a table did that neither changed the row nor said why, as a trigger's RAISE(IGNORE) does.
pub const NOT_TAKEN: &str = "the table did not take the change";

/// What a mapping did that finishes a record, and leaves it pending.
pub const STILL_PENDING: &str = "it would still be pending: its condition holds as before";

/// What a mapping did that brings a record back, and leaves it where it was.
pub const NOT_PENDING: &str = "it would still not be pending: say with on_restore which columns make \
                               its condition hold";

/// Constraints by which a table may refuse single records, so that each has to be rehearsed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowConstraints {
    #[default]
    None,
    /// They depend on the row itself or on other tables.
    OfOneRow,
    /// They also depend on other records, as a unique index does.
    AcrossRows,
}

/// Chains of a charge, if there is one, and an outcome. Those of all records have the same form.
#[derive(Debug)]
pub struct PossibleWrites {
    pub record: Arc<Record>,
    pub chains: Vec<Vec<Settlement>>,
}

impl PossibleWrites {
    /// One write of one chain, after its charge.
    pub(crate) fn write<'a>(
        &'a self,
        chain: usize,
        step: usize,
        charged: Option<&'a Guards>,
    ) -> RowWrite<'a> {
        let settlement = self.chains[chain][step].clone();
        // Any instant shows whether the column takes one.
        let retry_at = Some(settlement.at);
        RowWrite { retry_at, ..RowWrite::new(&self.record, charged, settlement) }
    }

    /// The success, which is the end of the first chain, as it is written to a row that is not charged.
    pub(crate) fn success(&self) -> Option<RowWrite<'_>> {
        let settlement = self.chains.first()?.last()?.clone();
        Some(RowWrite::new(&self.record, None, settlement))
    }

    /// The same without the texts of errors, which may be all that a table refuses.
    pub fn without_errors(&self) -> Self {
        let plain = |chain: &Vec<_>| chain.iter().map(Settlement::without_error).collect();
        Self { record: self.record.clone(), chains: self.chains.iter().map(plain).collect() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rehearsal {
    Taken,
    /// The success of a record that a handler has would be in the way.
    Blocked,
    /// Another session keeps the row, or an entry of a unique index, locked.
    Locked(String),
    /// The row is not what the record says any more.
    ChangedMeanwhile,
    Refused(String),
}
