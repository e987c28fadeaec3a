//! The job tables of other software that docs/job-tables.toml describes, known by their columns.

use anyhow::Result;
use backlog_schedule::listed;
use backlog_store::{CatalogTable, ValueCount};
use toml::{Table, Value};

use super::columns::{ProfiledColumn, TableProfile};
use super::pending::ADD_CONDITION;
use super::proposal::Proposal;
use super::words::{ColumnRole, role};
use crate::terminal::Terminal;

const TABLES: &str = include_str!("../../docs/job-tables.toml");

/// A section of the file.
pub struct Known {
    /// The comment: software and table, and what is not obvious.
    prose: String,
    text: &'static str,
    name: String,
    keys: Table,
}

/// Columns that say which of several queues a row is in, whose values are the user's own.
const KINDS: [&str; 5] = ["queue", "queue_name", "name", "type", "job_cmd"];

pub fn is_known(table: &CatalogTable) -> bool {
    Known::of(&table.name, table.columns.iter()).is_some()
}

impl Known {
    fn all() -> impl Iterator<Item = Self> {
        TABLES.split("\n\n").filter_map(|section| {
            let (prose, text) = section.split_at(section.find("[queue.")?);
            let queues: Table = text.parse::<Table>().ok()?.remove("queue")?.try_into().ok()?;
            let (name, keys) = queues.into_iter().next()?;
            let prose = prose.replace("# ", "").replace('\n', " ");
            Some(Self { prose, text, name, keys: keys.try_into().ok()? })
        })
    }

    /// The section for a table, found by the table's name and by all columns that the section names. A
    /// table with a further status, or a further date for finished rows, is another table.
    pub fn of<'c>(
        table: &str,
        columns: impl Iterator<Item = &'c backlog_store::Column>,
    ) -> Option<Self> {
        let columns: Vec<_> = columns.map(|column| column.name.as_str()).collect();
        Self::all().find(|known| {
            let has = |name: &&str| columns.iter().any(|it| it.eq_ignore_ascii_case(name));
            let is_further = |name: &&str| {
                matches!(role(name), Some(ColumnRole::Status | ColumnRole::Done))
                    && !known.mentions(name)
            };
            known.has_name(table)
                && known.columns().iter().all(has)
                && !columns.iter().any(is_further)
        })
    }

    fn mentions(&self, column: &str) -> bool {
        let text = [&self.prose, self.text].join(" ").to_ascii_lowercase();
        text.contains(&column.to_ascii_lowercase())
    }

    fn table(&self) -> &str {
        self.keys.get("table").and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether a table is called so, or begins with another prefix than the usual one.
    fn has_name(&self, name: &str) -> bool {
        let (name, own) = (name.to_ascii_lowercase(), self.table().to_ascii_lowercase());
        let bare = own.strip_prefix("wp").or_else(|| own.strip_prefix("mdl"));
        name == own || bare.is_some_and(|bare| name.ends_with(bare))
    }

    fn columns(&self) -> Vec<&str> {
        let mut columns = Vec::new();
        for (key, value) in &self.keys {
            match (key.as_str(), value.get("column").unwrap_or(value)) {
                ("on_success" | "on_failure" | "on_archive" | "on_restore", Value::Table(set)) => {
                    columns.extend(set.keys().map(String::as_str));
                }
                ("id", Value::Array(names)) => {
                    columns.extend(names.iter().filter_map(Value::as_str));
                }
                (
                    "id" | "status" | "date_inserted" | "failures" | "last_failure" | "last_error"
                    | "payload",
                    Value::String(name),
                ) => columns.push(name),
                _ => {}
            }
        }
        columns
    }

    pub fn proposal<'t>(
        &self,
        columns: &TableProfile<'_>,
        terminal: &'t Terminal,
    ) -> Result<Proposal<'t>> {
        let mut proposal = Proposal::new(&self.name, columns.outline, terminal);
        proposal.comment(&self.prose);
        let further = columns.filter(|column| !self.mentions(column.name()));
        let rows: Vec<_> = (0..columns.outline.rows).collect();
        let is_flag =
            |it: &&&ProfiledColumn<'_>| it.is_date() || it.values.iter().all(ValueCount::is_truth);
        let doubts = further.iter().filter(is_flag).filter_map(|it| it.doubt(&rows));
        let doubts: Vec<_> = doubts.map(|(about, _)| about).collect();
        let question = format!("{}. Does that take rows out of the queue?", doubts.join("; "));
        let is_open = !doubts.is_empty()
            && proposal.ask_or_leave_open(&question, &["no".into()], ADD_CONDITION)?.is_none();
        let (column, own) = self.kind().unwrap_or_default();
        let kind = columns.all.iter().find(|it| it.name().eq_ignore_ascii_case(column));
        let values = kind.iter().flat_map(|kind| kind.values).filter(|it| it.rows > 0);
        let there: Vec<_> = values.map(|counted| counted.value.to_string()).collect();
        let lines = |chosen: &str| -> String {
            let lines = self.text.lines().skip(1).filter(|line| !line.starts_with("table ="));
            let lines = lines.map(|line| {
                let is_comment = line.starts_with("exec") || is_open && line.starts_with("where =");
                let line = line.replace(&format!("'{own}'"), &format!("'{chosen}'"));
                let line = line.replace(&format!("\"{own}\""), &format!("\"{chosen}\""));
                format!("{}{line}\n", if is_comment { "# " } else { "" })
            });
            lines.chain(is_open.then(|| "where = ?\n".into())).collect()
        };
        // Other text would have to be spelt as SQL and as TOML.
        let is_plain =
            |it: &&String| it.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
        let plain: Vec<_> = there.iter().filter(is_plain).collect();
        if there.is_empty() || there.iter().any(|it| it == own) {
            proposal.lines += &lines(own);
            let others: Vec<_> = there.iter().filter(|it| *it != own).map(String::as_str).collect();
            if !others.is_empty() {
                let others = listed(others);
                proposal.comment(&format!(
                    "other rows have {column} = {others}: each is worked off by a queue of its own"
                ));
            }
        } else if let ([only], 1) = (&plain[..], there.len()) {
            proposal.comment(&format!("all rows have {column} = '{only}'"));
            proposal.lines += &lines(only);
        } else {
            let choices: Vec<_> = plain.into_iter().map(|it| (it.clone(), lines(it))).collect();
            proposal.choose(&format!("which {column} is worked off?"), &choices, "where = ?")?;
        }
        let schedules = ["policy", "fibonacci", "progressive"];
        if !schedules.iter().any(|key| self.keys.contains_key(*key)) {
            proposal.line("progressive = true");
        }
        proposal.facts("columns that this mapping does not know", further.into_iter());
        Ok(proposal)
    }

    /// The column and the value by which the section chooses one of several queues.
    fn kind(&self) -> Option<(&str, &str)> {
        let condition = self.keys.get("where")?.as_str()?;
        condition.split(" AND ").find_map(|term| {
            let (column, value) = term.split_once(" = ")?;
            let value = value.strip_prefix('\'')?.strip_suffix('\'')?;
            let is_kind = KINDS.contains(&column.to_ascii_lowercase().as_str());
            (is_kind && !value.is_empty()).then_some((column, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_of_the_page_is_known() {
        let known: Vec<_> = Known::all().collect();
        assert_eq!(known.len(), 16);
        for it in &known {
            assert!(!it.table().is_empty() && it.prose.contains(':'), "{}", it.prose);
            assert!(it.columns().len() > 2, "{}", it.name);
        }
        let laravel = known.iter().find(|it| it.name == "laravel").unwrap();
        assert_eq!(laravel.kind(), Some(("queue", "default")));
        assert!(laravel.columns().contains(&"available_at"));
    }
}
