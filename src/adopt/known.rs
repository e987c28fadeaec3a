//! Job tables of other software, which docs/job-tables.toml describes.

use anyhow::Result;
use backlog_schedule::listed;
use backlog_store::{CatalogTable, Column, ValueCount};
use toml::{Table, Value};

use super::pending::ADD_CONDITION;
use super::profile::{Profile, TableProfile};
use super::proposal::Proposal;
use super::words::{Role, role};
use crate::terminal::Terminal;

const TABLES: &str = include_str!("../../docs/job-tables.toml");

/// A section of docs/job-tables.toml.
pub struct KnownTable {
    /// The comment: software, table, and notes.
    comment: String,
    text: &'static str,
    name: String,
    keys: Table,
}

/// Columns that divide a table into queues.
const QUEUE_COLUMNS: [&str; 5] = ["queue", "queue_name", "name", "type", "job_cmd"];

pub fn is_known(table: &CatalogTable) -> bool {
    KnownTable::find(&table.name, table.columns.iter()).is_some()
}

impl KnownTable {
    fn all() -> impl Iterator<Item = Self> {
        TABLES.split("\n\n").filter_map(|section| {
            let (comment, text) = section.split_at(section.find("[queue.")?);
            let queues: Table = text.parse::<Table>().ok()?.remove("queue")?.try_into().ok()?;
            let (name, keys) = queues.into_iter().next()?;
            let comment = comment.replace("# ", "").replace('\n', " ");
            Some(Self { comment, text, name, keys: keys.try_into().ok()? })
        })
    }

    /// Finds a table's section by name and columns. A table with another status or finish date is a different table.
    pub fn find<'c>(table: &str, columns: impl Iterator<Item = &'c Column>) -> Option<Self> {
        let columns: Vec<_> = columns.map(|column| column.name.as_str()).collect();
        Self::all().find(|known| {
            let has = |name: &&str| columns.iter().any(|column| column.eq_ignore_ascii_case(name));
            let is_other = |name: &&str| {
                matches!(role(name), Some(Role::Status | Role::Done)) && !known.mentions(name)
            };
            known.has_name(table)
                && known.columns().iter().all(has)
                && !columns.iter().any(is_other)
        })
    }

    fn mentions(&self, column: &str) -> bool {
        let text = [&self.comment, self.text].join(" ").to_ascii_lowercase();
        text.contains(&column.to_ascii_lowercase())
    }

    fn table(&self) -> &str {
        self.keys.get("table").and_then(Value::as_str).unwrap_or_default()
    }

    /// True for the name of the section's table, with any prefix in place of `wp` or `mdl`.
    fn has_name(&self, name: &str) -> bool {
        let (name, table) = (name.to_ascii_lowercase(), self.table().to_ascii_lowercase());
        let suffix = table.strip_prefix("wp").or_else(|| table.strip_prefix("mdl"));
        name == table || suffix.is_some_and(|suffix| name.ends_with(suffix))
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
        profile: &TableProfile<'_>,
        terminal: &'t Terminal,
    ) -> Result<Proposal<'t>> {
        let mut proposal = Proposal::new(&self.name, profile.outline, terminal);
        proposal.comment(&self.comment);
        let others = profile.filter(|column| !self.mentions(column.name()));
        let is_open = ask_about(&others, profile.outline.rows, &mut proposal)?;
        self.write_queue(profile, is_open, &mut proposal)?;
        let schedules = ["policy", "fibonacci", "progressive"];
        if !schedules.iter().any(|key| self.keys.contains_key(*key)) {
            proposal.line("progressive = true");
        }
        proposal.facts("columns that this mapping does not use", others.into_iter());
        Ok(proposal)
    }

    fn write_queue(
        &self,
        profile: &TableProfile<'_>,
        is_open: bool,
        proposal: &mut Proposal<'_>,
    ) -> Result<()> {
        let (column, default) = self.queue_condition().unwrap_or_default();
        let found = profile.columns.iter().find(|found| found.name().eq_ignore_ascii_case(column));
        let values = found.iter().flat_map(|found| found.values).filter(|value| value.rows > 0);
        let queues: Vec<_> = values.map(|value| value.value.to_string()).collect();
        let lines = |queue: &str| self.lines(default, queue, is_open);
        // Other text would need escapes in SQL and in TOML.
        let is_plain =
            |queue: &&String| queue.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
        let plain: Vec<_> = queues.iter().filter(is_plain).collect();
        if queues.is_empty() || queues.iter().any(|queue| queue == default) {
            proposal.lines += &lines(default);
            let others = queues.iter().filter(|queue| *queue != default).map(String::as_str);
            let others = listed(others.collect::<Vec<_>>());
            if !others.is_empty() {
                proposal.comment(&format!(
                    "other rows have {column} = {others}: each needs its own queue"
                ));
            }
        } else if let ([only], 1) = (&plain[..], queues.len()) {
            proposal.comment(&format!("all rows have {column} = '{only}'"));
            proposal.lines += &lines(only);
        } else {
            let choices = plain.into_iter().map(|queue| (queue.clone(), lines(queue)));
            let question = format!("which {column} is processed?");
            proposal.choose(&question, &choices.collect::<Vec<_>>(), "where = ?")?;
        }
        Ok(())
    }

    fn lines(&self, default: &str, queue: &str, is_open: bool) -> String {
        let lines = self.text.lines().skip(1).filter(|line| !line.starts_with("table ="));
        let lines = lines.map(|line| {
            let is_comment = line.starts_with("exec") || is_open && line.starts_with("where =");
            let line = line.replace(&format!("'{default}'"), &format!("'{queue}'"));
            let line = line.replace(&format!("\"{default}\""), &format!("\"{queue}\""));
            format!("{}{line}\n", if is_comment { "# " } else { "" })
        });
        lines.chain(is_open.then(|| "where = ?\n".into())).collect()
    }

    /// The column and the value that select one of several queues.
    fn queue_condition(&self) -> Option<(&str, &str)> {
        let condition = self.keys.get("where")?.as_str()?;
        condition.split(" AND ").find_map(|term| {
            let (column, value) = term.split_once(" = ")?;
            let value = value.strip_prefix('\'')?.strip_suffix('\'')?;
            let is_queue = QUEUE_COLUMNS.contains(&column.to_ascii_lowercase().as_str());
            (is_queue && !value.is_empty()).then_some((column, value))
        })
    }
}

/// Asks about columns that may exclude rows. Returns true if the question stays open.
fn ask_about(columns: &[&Profile<'_>], rows: usize, proposal: &mut Proposal<'_>) -> Result<bool> {
    let rows: Vec<_> = (0..rows).collect();
    let is_flag = |column: &Profile<'_>| column.values.iter().all(ValueCount::is_truth);
    let possible = columns.iter().filter(|column| column.is_date() || is_flag(column));
    let doubts: Vec<_> = possible.filter_map(|column| Some(column.doubt(&rows)?.0)).collect();
    if doubts.is_empty() {
        return Ok(false);
    }
    let question = format!("{}. Does that take rows out of the queue?", doubts.join("; "));
    Ok(proposal.ask_or_leave_open(&question, &["no".into()], ADD_CONDITION)?.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_of_job_tables_is_parsed() {
        let known: Vec<_> = KnownTable::all().collect();
        assert_eq!(known.len(), 16);
        for table in &known {
            assert!(!table.table().is_empty() && table.comment.contains(':'), "{}", table.comment);
            assert!(table.columns().len() > 2, "{}", table.name);
        }
        let laravel = known.iter().find(|table| table.name == "laravel").unwrap();
        assert_eq!(laravel.queue_condition(), Some(("queue", "default")));
        assert!(laravel.columns().contains(&"available_at"));
    }
}
