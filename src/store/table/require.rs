//! Requirements of a command on a table, of its counters first of all, and the messages where it falls
//! short.

use anyhow::{Result, bail, ensure};

use super::lookup::is_never;
use super::{Column, Table};
use crate::date::Dates;
use crate::mapping::Name;
use crate::record::{Status, Value};

impl Table {
    /// Fails, with what to do about it, if the table does not count failures, or not when the
    /// last one was, if that counts as well.
    pub fn require_counter(&self, wanted_by: &str, with_last_failure: bool) -> Result<()> {
        let (mut names, mut added) = (Vec::new(), Vec::new());
        let mut lacks = |name, definition| {
            names.push(name);
            added.push(format!("ALTER TABLE {} ADD COLUMN {name} {definition};", self.sql));
        };
        if self.failures.is_none() {
            lacks("FAILURES", "INTEGER NOT NULL DEFAULT 0");
        }
        if with_last_failure && self.last_failure.is_none() && self.due_at.is_none() {
            // It holds what the insertion date does.
            lacks("LAST_FAILURE", &self.inserted.declared);
        }
        ensure!(
            names.is_empty(),
            "{wanted_by} goes by {}, and table {} has no such column; name one that it has \
             (--set failures=COLUMN, --set last_failure=COLUMN) or add them with: {}",
            names.join(" and "),
            self.name,
            added.join(" ")
        );
        Ok(())
    }

    /// Fails if an attempt would be counted where something else stands.
    pub fn require_sound_counters(&self) -> Result<()> {
        self.complaints.first().map_or(Ok(()), |complaint| bail!("{complaint}"))
    }

    /// Fails if nothing can be written that makes a record finished.
    pub fn require_success(&self) -> Result<()> {
        ensure!(
            self.can_be(Status::Success),
            "table {} has no status column: say in backlog.toml what makes a row finished, such as \
             on_success = {{ processed_at = \"{{now}}\" }}",
            self.name
        );
        Ok(())
    }

    /// Fails if nothing can be written that makes a record archived.
    pub fn require_archived(&self, wanted_by: &str) -> Result<()> {
        ensure!(
            self.can_be(Status::Archived),
            "{wanted_by} archives records, and it is not known how table {} does: say which value \
             of the status that is (status.archived) or which columns it sets (on_archive)",
            self.name
        );
        Ok(())
    }

    /// Fails if nothing can be written that makes a record due now.
    pub fn require_renewal(&self) -> Result<()> {
        ensure!(
            self.statuses.tell() || self.last_failure.is_some(),
            "nothing in table {} makes a record due now: no value of a status tells new from \
             failed, and no column says when the last attempt failed",
            self.name
        );
        Ok(())
    }

    /// Fails if archived records cannot be told from others.
    pub fn require_told_archived(&self) -> Result<()> {
        ensure!(
            self.statuses.value(Status::Archived).is_some(),
            "archived records of table {} cannot be told from others: no value of a status column \
             says so (status.archived)",
            self.name
        );
        Ok(())
    }

    /// The column that new records' payloads go to, if records can be added at all.
    pub fn require_payload(&self) -> Result<&Column> {
        let Some(payload) = &self.payload else {
            bail!(
                "table {} has no column PAYLOAD to add records with; say which with \
                 --set payload=COLUMN",
                self.name
            );
        };
        if let Some(id) = self.id.iter().find(|column| !column.has_default) {
            bail!(
                "the database gives no {} to new rows of table {}; insert them yourself",
                id.name,
                self.name
            );
        }
        Ok(payload)
    }
}

/// A counter column, and what a pass writes there when an attempt begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    Failures,
    LastFailure,
}

/// Types that hold neither counts nor dates, also where a database makes numbers or text of them.
const OTHER_TYPES: [&str; 4] = ["BOOL", "BOOLEAN", "JSON", "JSONB"];

impl Counter {
    /// What is the matter with a column that is to hold this, if anything is. As long as one of the
    /// samples is what it must be, others may be missing or spoilt.
    pub fn complaint(
        self,
        (name, column): (&Name, &Column),
        table: &str,
        (samples, dates): (&[Value], &Dates),
    ) -> Option<String> {
        let foreign = samples.iter().find(|value| !self.is_none(value)).map(Value::shown);
        let is_right = samples.iter().any(|value| self.is_right(value, dates));
        let found = match (foreign, self.fits(column)) {
            (Some(value), false) => format!("is {} and holds {value}", column.declared),
            (None, false) => format!("is {}", column.declared),
            (Some(value), true) if !is_right => format!("holds {value}"),
            (_, true) => return None,
        };
        let (role, holds, option) = match self {
            Self::Failures => ("the count of failures", "small numbers", "failures"),
            Self::LastFailure => ("the last failure", "dates or nothing", "last_failure"),
        };
        let (column, why) = (&column.name, if name.is_given { "" } else { " by its name" });
        Some(format!(
            "column {column} of table {table} is{why} {role}, and each attempt would write over it: \
             it {found}, and must hold {holds}; name another one with --set {option}=COLUMN, or none with --set {option}="
        ))
    }

    /// Whether the type can hold it, so that it is read as it was written.
    fn fits(self, column: &Column) -> bool {
        let declared = column.declared.to_ascii_uppercase();
        let is_other = OTHER_TYPES.contains(&declared.as_str()) || !column.holds.dates();
        let counts = column.holds.counts() && column.legal.is_none();
        !is_other && (self == Self::LastFailure || counts)
    }

    /// What stands for no failure at all.
    fn is_none(self, value: &Value) -> bool {
        match self {
            Self::Failures => *value == Value::Null,
            Self::LastFailure => is_never(value),
        }
    }

    fn is_right(self, value: &Value, dates: &Dates) -> bool {
        match (self, value) {
            // What is large enough for a date is no count.
            (Self::Failures, Value::Integer(_) | Value::Real(_) | Value::Json(_)) => {
                Dates::default().read(value).is_none()
            }
            (Self::Failures, _) => false,
            (Self::LastFailure, _) => dates.read(value).is_some(),
        }
    }
}
