//! The mapping of an unknown table by its keys, the names of its columns and their values.

use anyhow::Result;
use backlog_schedule::counted;
use backlog_store::{ColumnType, Format};
use toml::{Table, Value as Toml};

use super::pending::Pending;
use super::profile::{Profile, TableProfile};
use super::proposal::{Choice, Proposal, toml};
use super::words::Role;
use crate::terminal::Terminal;

pub fn by_columns<'t>(mut table: TableProfile<'_>, terminal: &'t Terminal) -> Result<Proposal<'t>> {
    let outline = table.outline;
    let name = outline.name.rsplit('.').next().unwrap_or(&outline.name);
    let mut proposal = Proposal::new(&name.to_ascii_lowercase(), outline, terminal);
    table.describe(&mut proposal);
    table.write_id(&mut proposal);
    let is_undated = table.write_date(&mut proposal)?;
    let pending = table.pending(&mut proposal)?;
    table.write_counters(&mut proposal, &pending)?;
    table.write_assignments(&mut proposal, &pending)?;
    proposal.comment("records that keep failing are tried less and less often");
    proposal.line(if is_undated { "policy = \"even\"" } else { "progressive = true" });
    proposal.line("# exec = [\"/usr/local/bin/YOUR-COMMAND\", \"{id}\"]");
    Ok(proposal)
}

impl<'a> TableProfile<'a> {
    fn describe(&self, proposal: &mut Proposal<'_>) {
        let rows = self.outline.rows;
        if let Some(why) = &self.outline.unread {
            proposal.comment(&format!("its rows could not be read within a second: {why}"));
        } else if rows == 0 {
            proposal.comment("the table has no rows, so only its columns are known");
        } else if !self.outline.is_whole {
            proposal.comment(&format!(
                "dates and counters are read from {rows} of the oldest and newest rows"
            ));
        }
        if self.outline.is_large {
            proposal.comment("the table is large: the counts are from a sample");
        }
        let about = "columns with few values, and dates that are NULL in some rows; if one of them takes rows \
             out of the queue (deleted, paused, of another queue), add a condition: where = \"...\"";
        proposal.facts(about, self.columns.iter());
    }

    /// Chooses the unique key with the fewest columns. The primary key precedes others.
    fn write_id(&self, proposal: &mut Proposal<'_>) {
        let can_be_id = |column: &Profile<'a>| {
            let holds = column.schema.column_type;
            matches!(
                holds,
                ColumnType::Integer | ColumnType::Text | ColumnType::Decimal | ColumnType::Bytes
            ) || ["uuid", "blob"].iter().any(|id| column.schema.declared.eq_ignore_ascii_case(id))
        };
        let is_id = |name: &String| {
            self.columns.iter().any(|column| column.name() == name && can_be_id(column))
        };
        let keys = self.outline.keys.iter().filter(|key| key.iter().all(is_id));
        let Some(key) = keys.min_by_key(|key| key.len()) else {
            proposal.question(
                "which columns identify a record? The table has no unique key without NULL.",
            );
            return proposal.line("id = ?");
        };
        let is_primary = self.outline.keys.first() == Some(key);
        proposal.comment(if is_primary { "the primary key" } else { "a unique key without NULL" });
        let id = match &key[..] {
            [only] => Toml::from(only.as_str()),
            columns => Toml::from(columns.to_vec()),
        };
        proposal.line(&format!("id = {id}"));
    }

    /// Writes the insertion date. Returns true if there is none.
    fn write_date(&mut self, proposal: &mut Proposal<'_>) -> Result<bool> {
        let is_past = |column: &Profile<'a>| {
            column.formats.iter().any(|(_, newest)| *newest <= self.tomorrow)
        };
        let has_rows = self.outline.rows > 0;
        let is_full = |column: &Profile<'a>| !has_rows || column.is_full() && is_past(column);
        let mut dates = self.filter(|column| column.is_date() && column.has_role(Role::Created));
        if let [only] = dates[..]
            && only.formats.len() < 2
            && is_full(only)
        {
            let format = only.formats.first().map(|(format, _)| *format);
            proposal.comment("the insertion date, by its name; it is never NULL");
            proposal.line(&date_line(only.name(), format));
            self.inserted_format = format;
            return Ok(false);
        }
        if dates.is_empty() {
            dates = self.filter(|column| column.is_date() && is_full(column));
        }
        let (mut choices, mut formats) = (Vec::<Choice>::new(), Vec::new());
        for column in dates {
            let (name, empty) = (column.name(), column.empty_rows());
            let none = format!(", none in {}", counted(empty as u64, "row"));
            let none = if empty > 0 { &none } else { "" };
            let mut offer = |format, description: &str| {
                let line = date_line(name, format) + "\n";
                choices.push((format!("{name}{description}{none}"), line));
                formats.push(format);
            };
            if column.formats.is_empty() {
                offer(None, "");
            }
            for (format, newest) in &column.formats {
                offer(Some(*format), &format!(" as {format}: the newest is {newest}"));
            }
        }
        // A schedule needs a date or a counter.
        if self.counter().is_some() {
            let answer = "no column: records are ordered by id, and the schedule counts failures";
            choices.push((answer.into(), "date_inserted = false\n".into()));
        }
        let question = "when was a record inserted? There is no single date without NULL in one \
                        format. (An expression is possible: date_inserted = { sql = \"...\" }.)";
        let chosen = proposal.choose(question, &choices, "date_inserted = ?")?;
        self.inserted_format = chosen.and_then(|at| *formats.get(at)?);
        Ok(chosen.is_some_and(|at| at >= formats.len()))
    }

    fn write_counters(&self, proposal: &mut Proposal<'_>, pending: &Pending) -> Result<()> {
        if let Some(counter) = self.counter() {
            let column = toml(counter.name());
            let attempts = format!("failures = {{ column = {column}, counts = \"attempts\" }}\n");
            let name = counter.name().to_lowercase();
            // A counter above 0 in new rows may be a limit, or count down.
            let is_high = match &pending.new[..] {
                [] => counter.is_full(),
                new => new.iter().all(|row| !counter.is_empty_at(*row)),
            };
            let choices: [Choice; 3] = [
                ("it counts failures".into(), format!("failures = {column}\n")),
                ("it counts attempts".into(), attempts),
                ("none of these".into(), String::new()),
            ];
            if is_high || counter.has_positive_default() {
                let question = format!("{} does not begin at 0. What is it?", counter.name());
                proposal.choose(&question, &choices, "failures = ?")?;
            } else {
                let counts_failures = name.contains("fail") || name.contains("retr");
                let (answer, line) = &choices[usize::from(!counts_failures)];
                proposal.comment(&format!("{}, by its name", answer.trim_start_matches("it ")));
                proposal.lines += line;
            }
        }
        if let Some(max) = self.max_attempts().filter(|_| pending.archives) {
            proposal.comment("each record has its own maximum");
            proposal.line(&format!("max_attempts = {{ column = {} }}", toml(max.name())));
        }
        let is_text = |column: &Profile<'a>| {
            column.schema.column_type == ColumnType::Text && column.formats.is_empty()
        };
        if let Some(error) = self.only(Role::Error, is_text) {
            proposal.comment("the last error, by its name");
            proposal.line(&format!("last_error = {}", toml(error.name())));
        }
        Ok(())
    }

    fn write_assignments(&self, proposal: &mut Proposal<'_>, pending: &Pending) -> Result<()> {
        proposal.lines += &pending.on_success;
        let is_future = |column: &Profile<'a>| {
            column.role.is_none()
                && column.formats.first().is_some_and(|(_, newest)| *newest > self.tomorrow)
        };
        // A column with `9999-12-31` is not recognized as a date.
        let is_due = |column: &Profile<'a>| {
            (column.has_role(Role::Due) || column.has_role(Role::MaybeDue))
                && (column.is_date() || !column.may_count())
        };
        let due = self.filter(|column| is_due(column) || is_future(column));
        let next = self.writable_date(Role::Due);
        let on_failure = |due| self.set("on_failure", due, "{next}");
        if next.is_none() && !due.is_empty() {
            let columns = due.iter().map(|column| column.name());
            let choices = columns.map(|name| (name.into(), on_failure(Some(name))));
            let choices: Vec<_> =
                choices.chain([("none of these".into(), on_failure(None))]).collect();
            let question = "which column decides when a record is due?";
            return proposal.choose(question, &choices, "on_failure = ?").map(drop);
        }
        if next.is_some() {
            proposal.comment("the next attempt, which decides when a record is due");
        }
        proposal.lines += &on_failure(next);
        Ok(())
    }

    pub fn set_now(&self, done_at: Option<&str>) -> String {
        self.set("on_success", done_at, "{now}")
    }

    /// The line of a key that sets a column and the date of the last change, as far as there are such columns.
    fn set(&self, key: &str, column: Option<&str>, value: &str) -> String {
        let updated = self.writable_date(Role::Updated).map(|name| (name, "{now}"));
        let columns = column.map(|name| (name, value)).into_iter().chain(updated);
        let columns =
            Table::from_iter(columns.map(|(name, value)| (name.into(), Toml::from(value))));
        match columns.is_empty() {
            true => String::new(),
            false => format!("{key} = {}\n", Toml::from(columns)),
        }
    }
}

fn date_line(name: &str, format: Option<Format>) -> String {
    let name = toml(name);
    match format {
        None | Some(Format::Iso | Format::Compact) => format!("date_inserted = {name}"),
        Some(format) => format!("date_inserted = {{ column = {name}, format = \"{format}\" }}"),
    }
}
