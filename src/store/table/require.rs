//! Requirements of a command on a table, and the messages where it falls short.

use anyhow::{Result, bail};

use super::{Column, Table};
use crate::record::Status;

impl Table {
    /// Fails, with what to do about it, if the table does not count failures, or not when the
    /// last one was, if that counts as well.
    pub fn require_counter(&self, wanted_by: &str, with_last_failure: bool) -> Result<()> {
        let missing: Vec<_> = [
            ("FAILURES", "INTEGER NOT NULL DEFAULT 0", self.failures.is_none()),
            // It holds what the insertion date does.
            (
                "LAST_FAILURE",
                &*self.inserted.declared,
                with_last_failure && self.last_failure.is_none() && self.due_at.is_none(),
            ),
        ]
        .into_iter()
        .filter(|(_, _, is_missing)| *is_missing)
        .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = missing.iter().map(|(name, _, _)| *name).collect();
        let added: Vec<_> = missing
            .iter()
            .map(|(name, definition, _)| {
                format!("ALTER TABLE {} ADD COLUMN {name} {definition};", self.sql)
            })
            .collect();
        bail!(
            "{wanted_by} goes by {}, and table {} has no such column; name one that it has \
             (--set failures=COLUMN, --set last_failure=COLUMN) or add them with: {}",
            names.join(" and "),
            self.name,
            added.join(" ")
        );
    }

    /// Fails if an attempt would be counted where something else stands.
    pub fn require_sound_counters(&self) -> Result<()> {
        self.complaints.first().map_or(Ok(()), |complaint| bail!("{complaint}"))
    }

    /// Fails if nothing can be written that makes a record finished.
    pub fn require_success(&self) -> Result<()> {
        if self.can_be(Status::Success) {
            return Ok(());
        }
        bail!(
            "table {} has no status column: say in backlog.toml what makes a row finished, such as \
             on_success = {{ processed_at = \"{{now}}\" }}",
            self.name
        );
    }

    /// Fails if nothing can be written that makes a record archived.
    pub fn require_archived(&self, wanted_by: &str) -> Result<()> {
        if self.can_be(Status::Archived) {
            return Ok(());
        }
        bail!(
            "{wanted_by} archives records, and it is not known how table {} does: say which value \
             of the status that is (status.archived) or which columns it sets (on_archive)",
            self.name
        );
    }

    /// Fails if nothing can be written that makes a record due now.
    pub fn require_renewal(&self) -> Result<()> {
        if self.statuses.tell() || self.last_failure.is_some() {
            return Ok(());
        }
        bail!(
            "nothing in table {} makes a record due now: no value of a status tells new from \
             failed, and no column says when the last attempt failed",
            self.name
        );
    }

    /// Fails if archived records cannot be told from others.
    pub fn require_told_archived(&self) -> Result<()> {
        if self.statuses.value(Status::Archived).is_some() {
            return Ok(());
        }
        bail!(
            "archived records of table {} cannot be told from others: no value of a status column \
             says so (status.archived)",
            self.name
        );
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
