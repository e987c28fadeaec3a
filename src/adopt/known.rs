//! The job tables of other software that docs/job-tables.toml describes, known by their columns.

use anyhow::Result;
use toml::{Table, Value};

use super::columns::Column;
use super::words::{Role, role};
use super::{Ask, Choice, Proposal, value_text};
use crate::names::listed;
use crate::store::{self, Counted, Outline};

const TABLES: &str = include_str!("../../docs/job-tables.toml");

/// A section of the file.
pub struct Known {
    /// The comment: software and table, and what is not obvious.
    prose: String,
    /// The lines of its section.
    text: &'static str,
    name: String,
    keys: Table,
}

/// Columns that say which of several queues a row is in, whose values are the user's own.
const KINDS: [&str; 5] = ["queue", "queue_name", "name", "type", "job_cmd"];

impl Known {
    fn all() -> impl Iterator<Item = Self> {
        TABLES.split("\n\n").filter_map(|section| {
            let (prose, text) = section.split_at(section.find("[queue.")?);
            let queues: Table = text.parse::<Table>().ok()?.remove("queue")?.try_into().ok()?;
            let (name, keys) = queues.into_iter().next()?;
            let prose = prose.lines().map(|line| line.trim_start_matches("# "));
            let prose = prose.collect::<Vec<_>>().join(" ");
            let Value::Table(keys) = keys else { return None };
            Some(Self { prose, text, name, keys })
        })
    }

    /// The section for a table, found by the table's name and by all columns that the section names. A
    /// table with a further status, or a further date for finished rows, is another table.
    pub fn of(table: &str, columns: &[store::Column]) -> Option<Self> {
        let is_known = |known: &Self| {
            let tells = |name: &str| matches!(role(name), Some(Role::Status | Role::Done));
            let is_further = |name: &str| tells(name) && !known.names(name);
            known.has_name(table)
                && known.has_columns(columns)
                && !columns.iter().any(|column| is_further(&column.name))
        };
        Self::all().find(is_known)
    }

    /// Whether the section mentions a column.
    fn names(&self, column: &str) -> bool {
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

    fn has_columns(&self, columns: &[store::Column]) -> bool {
        let has = |name: &str| columns.iter().any(|it| it.name.eq_ignore_ascii_case(name));
        self.columns().all(|name| has(&name))
    }

    /// The columns that the mapping names.
    fn columns(&self) -> impl Iterator<Item = String> {
        let of_key = |key: &str| {
            let value = self.keys.get(key);
            let value = value.map(|it| it.get("column").unwrap_or(it).clone());
            match value {
                Some(Value::String(name)) => vec![name],
                Some(Value::Array(names)) => names.iter().map(value_text).collect(),
                _ => Vec::new(),
            }
        };
        let keys =
            ["id", "status", "date_inserted", "failures", "last_failure", "last_error", "payload"];
        let of_keys = keys.into_iter().flat_map(of_key).collect::<Vec<_>>();
        let set = ["on_success", "on_failure", "on_archive", "on_restore"].into_iter();
        let set = set.filter_map(|key| self.keys.get(key)?.as_table());
        let set = set.flat_map(|columns| columns.keys().cloned());
        of_keys.into_iter().chain(set)
    }

    /// The section, for a table that has these columns.
    pub fn proposal(
        &self,
        outline: &Outline,
        columns: &[Column<'_>],
        ask: &mut Ask<'_>,
    ) -> Result<Proposal> {
        let mut proposal = Proposal::new(&self.name, outline);
        proposal.comment(self.prose.clone());
        let values = |name: &str| -> Option<Vec<String>> {
            let column = columns.iter().find(|it| it.name().eq_ignore_ascii_case(name))?;
            let there = column.values.iter().filter(|it| it.rows > 0);
            Some(there.map(|it| it.value.to_string()).collect())
        };
        let kind = self.kind().and_then(|(column, own)| Some((column, own, values(column)?)));
        let (column, own, there) = kind.unwrap_or_default();
        let further = columns.iter().filter(|column| !self.names(column.name()));
        let all: Vec<_> = (0..columns.iter().map(|it| it.cells.len()).max().unwrap_or(0)).collect();
        let is_flag = |it: &&Column<'_>| it.is_date() || it.values.iter().all(Counted::is_truth);
        let doubts = further.clone().filter(is_flag).filter_map(|it| it.doubt(&all));
        let doubts: Vec<_> = doubts.map(|(about, _)| about).collect();
        let mut questions = Vec::new();
        if !doubts.is_empty() {
            let question = format!("{}. Does that take rows out of the queue?", doubts.join("; "));
            if ask(&question, &["no".into()])?.is_none() {
                questions.push(format!("{question} If so, add it to this condition:"));
            }
        }
        let lines = |chosen: &str| -> String {
            let lines = self.text.lines().skip(1).filter(|line| !line.starts_with("table ="));
            let lines = lines.map(|line| {
                let line = line.replace(&format!("'{own}'"), &format!("'{chosen}'"));
                let line = line.replace(&format!("\"{own}\""), &format!("\"{chosen}\""));
                let is_open = line.starts_with("where =") && !questions.is_empty();
                if is_open || line.starts_with("exec") { format!("# {line}") } else { line }
            });
            let lines = lines.collect::<Vec<_>>().join("\n");
            if questions.is_empty() { lines } else { lines + "\nwhere = ?" }
        };
        // Other text would have to be spelt as SQL and as TOML.
        let is_plain =
            |it: &&String| it.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
        let plain = there.iter().filter(is_plain);
        if there.is_empty() || there.iter().any(|it| it == own) {
            proposal.open(&questions, &[lines(own)]);
            let others: Vec<_> = there.iter().filter(|it| *it != own).map(String::as_str).collect();
            if !others.is_empty() {
                proposal.comment(format!(
                    "other rows have {column} = {}: each is worked off by a queue of its own",
                    listed(others)
                ));
            }
        } else if let (1, Some(only)) = (there.len(), plain.clone().next()) {
            proposal.comment(format!("all rows have {column} = '{only}'"));
            proposal.open(&questions, &[lines(only)]);
        } else {
            let choices = plain.map(|it| Choice::new(it, vec![lines(it)])).collect();
            let question = format!("which {column} is worked off?");
            proposal.choose(ask, &question, choices, vec!["where = ?".into()])?;
        }
        let has_schedule =
            ["policy", "fibonacci", "progressive"].iter().any(|it| self.keys.contains_key(*it));
        if !has_schedule {
            proposal.lines(vec!["progressive = true".into()]);
        }
        proposal.facts("columns that this mapping does not know", further);
        Ok(proposal)
    }

    /// The column and the value by which the page chooses one of several queues.
    fn kind(&self) -> Option<(&str, &str)> {
        let condition = self.keys.get("where")?.as_str()?;
        condition.split(" AND ").find_map(|term| {
            let (column, value) = term.split_once(" = ")?;
            let value = value.trim().strip_prefix('\'')?.strip_suffix('\'')?;
            let is_kind = KINDS.contains(&column.trim().to_ascii_lowercase().as_str());
            (is_kind && !value.is_empty()).then_some((column.trim(), value))
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
            assert!(it.columns().count() > 2, "{}", it.name);
        }
        let laravel = known.iter().find(|it| it.name == "laravel").unwrap();
        assert_eq!(laravel.kind(), Some(("queue", "default")));
        assert!(laravel.columns().any(|it| it == "available_at"));
    }
}
