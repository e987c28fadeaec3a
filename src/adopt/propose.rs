//! The mapping of a table that docs/job-tables.toml does not describe, by keys, names and values.

use anyhow::Result;
use backlog_schedule::counted;
use backlog_store::{ColumnType, Format};
use toml::{Table, Value as Toml};

use super::columns::{ProfiledColumn, TableProfile};
use super::pending::PendingMapping;
use super::proposal::{AnswerLines, Proposal, toml};
use super::words::ColumnRole;
use crate::terminal::Terminal;

pub fn by_columns<'t>(
    mut columns: TableProfile<'_>,
    terminal: &'t Terminal,
) -> Result<Proposal<'t>> {
    let outline = columns.outline;
    let name = outline.name.rsplit('.').next().unwrap_or(&outline.name);
    let mut proposal = Proposal::new(&name.to_ascii_lowercase(), outline, terminal);
    columns.describe(&mut proposal);
    columns.id(&mut proposal);
    let is_undated = columns.date(&mut proposal)?;
    let pending = columns.pending(&mut proposal)?;
    columns.counters(&mut proposal, &pending)?;
    columns.writes(&mut proposal, &pending)?;
    proposal.comment("less and less often as time goes on");
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
            proposal.comment("it has no rows, so only its columns tell something");
        } else if !self.outline.is_whole {
            proposal
                .comment(&format!("dates and counters by {rows} of the oldest and newest rows"));
        }
        if self.outline.is_large {
            proposal.comment("the table is large: these counts are those of a sample");
        }
        let about = "columns with few values, and dates that are NULL in some rows; if one of them takes rows \
             out of the queue (deleted, paused, of another queue), add a condition: where = \"...\"";
        proposal.facts(about, self.all.iter());
    }

    /// The unique key with the fewest columns, the primary key before others.
    fn id(&self, proposal: &mut Proposal<'_>) {
        let can_be = |column: &ProfiledColumn<'a>| {
            let holds = column.column.column_type;
            matches!(
                holds,
                ColumnType::Integer | ColumnType::Text | ColumnType::Decimal | ColumnType::Bytes
            ) || column.column.declared.eq_ignore_ascii_case("uuid")
        };
        let is_id = |name: &String| self.all.iter().any(|it| it.name() == name && can_be(it));
        let keys = self.outline.keys.iter().filter(|key| key.iter().all(is_id));
        let Some(key) = keys.min_by_key(|key| key.len()) else {
            proposal
                .question("which columns identify a record? No unique key without NULL says it.");
            return proposal.line("id = ?");
        };
        let is_primary = self.outline.keys.first() == Some(key);
        proposal.comment(if is_primary { "the primary key" } else { "a unique key without NULL" });
        let id = match &key[..] {
            [only] => Toml::from(only.as_str()),
            all => Toml::from(all.to_vec()),
        };
        proposal.line(&format!("id = {id}"));
    }

    /// The insertion date; whether somebody says that there is none.
    fn date(&mut self, proposal: &mut Proposal<'_>) -> Result<bool> {
        let is_past =
            |it: &ProfiledColumn<'a>| it.formats.iter().any(|(_, newest)| *newest <= self.tomorrow);
        let has_rows = self.outline.rows > 0;
        let is_full = |it: &ProfiledColumn<'a>| it.is_full() && is_past(it) || !has_rows;
        let mut dates = self.filter(|it| it.is_date() && it.is(ColumnRole::Created));
        if let [only] = dates[..]
            && only.formats.len() < 2
            && is_full(only)
        {
            let format = only.formats.first().map(|(format, _)| *format);
            proposal.comment("when a record was inserted: called so, and never NULL");
            proposal.line(&date_line(only.name(), format));
            self.inserted = format;
            return Ok(false);
        }
        if dates.is_empty() {
            dates = self.filter(|it| it.is_date() && is_full(it));
        }
        let (mut choices, mut formats) = (Vec::<AnswerLines>::new(), Vec::new());
        for column in dates {
            let (name, empty) = (column.name(), column.empty_rows());
            let none = format!(", none in {}", counted(empty as u64, "row"));
            let none = if empty > 0 { &none } else { "" };
            let mut offer = |format, reading: &str| {
                choices.push((format!("{name}{reading}{none}"), date_line(name, format) + "\n"));
                formats.push(format);
            };
            if column.formats.is_empty() {
                offer(None, "");
            }
            for (format, newest) in &column.formats {
                offer(Some(*format), &format!(" as {format}: the newest is {newest}"));
            }
        }
        // Without a date and a counter no schedule tells what is due.
        if self.counter().is_some() {
            let answer = "no column: records go by their ids, and by their count of failures";
            choices.push((answer.into(), "date_inserted = false\n".into()));
        }
        let question = "when was a record inserted? No single date without NULL says it, in one \
                        format. (An expression can: date_inserted = { sql = \"...\" }.)";
        let chosen = proposal.choose(question, &choices, "date_inserted = ?")?;
        self.inserted = chosen.and_then(|at| *formats.get(at)?);
        Ok(chosen.is_some_and(|at| at >= formats.len()))
    }

    fn counters(&self, proposal: &mut Proposal<'_>, pending: &PendingMapping) -> Result<()> {
        if let Some(counter) = self.counter() {
            let column = toml(counter.name());
            let attempts = format!("failures = {{ column = {column}, counts = \"attempts\" }}\n");
            let name = counter.name().to_lowercase();
            // One that never begins at 0 may be a limit, or count down.
            let is_high = match &pending.new[..] {
                [] => counter.is_full(),
                new => new.iter().all(|row| !counter.is_empty_at(*row)),
            };
            let choices: [AnswerLines; 3] = [
                ("it counts failures".into(), format!("failures = {column}\n")),
                ("it counts attempts".into(), attempts),
                ("none of these".into(), String::new()),
            ];
            if is_high || counter.begins_above_zero() {
                let question = format!("{} does not begin at 0. What is it?", counter.name());
                proposal.choose(&question, &choices, "failures = ?")?;
            } else {
                let counts_failures = name.contains("fail") || name.contains("retr");
                let (what, line) = &choices[usize::from(!counts_failures)];
                proposal.comment(&format!("{}, by its name", what.trim_start_matches("it ")));
                proposal.lines += line;
            }
        }
        if let Some(most) = self.most_attempts().filter(|_| pending.archives) {
            proposal.comment("each record has a maximum");
            proposal.line(&format!("max_attempts = {{ column = {} }}", toml(most.name())));
        }
        let is_text = |it: &ProfiledColumn<'a>| {
            it.column.column_type == ColumnType::Text && it.formats.is_empty()
        };
        if let Some(error) = self.only(ColumnRole::Error, is_text) {
            proposal.comment("the last error, by its name");
            proposal.line(&format!("last_error = {}", toml(error.name())));
        }
        Ok(())
    }

    /// What is written besides: when it was done, when it is due next, and that it was changed.
    fn writes(&self, proposal: &mut Proposal<'_>, pending: &PendingMapping) -> Result<()> {
        proposal.lines += &pending.on_success;
        let is_to_come = |it: &ProfiledColumn<'a>| {
            it.role.is_none()
                && it.formats.first().is_some_and(|(_, newest)| *newest > self.tomorrow)
        };
        // One with `9999-12-31` says it too, though that date is not plausible.
        let is_named =
            |it: &ProfiledColumn<'a>| it.is(ColumnRole::Due) || it.is(ColumnRole::PerhapsDue);
        let is_due = |it: &ProfiledColumn<'a>| is_named(it) && (it.is_date() || !it.counts());
        let due = self.filter(|it| is_due(it) || is_to_come(it));
        let next = self.date_of(ColumnRole::Due);
        let on_failure = |due| self.set("on_failure", due, "{next}");
        if next.is_none() && !due.is_empty() {
            let names = due.iter().map(|it| (it.name().into(), on_failure(Some(it.name()))));
            let choices: Vec<_> =
                names.chain([("none of these".into(), on_failure(None))]).collect();
            let question = "which column says when a record is due?";
            return proposal.choose(question, &choices, "on_failure = ?").map(drop);
        }
        if next.is_some() {
            proposal.comment("the next attempt; from then on it says what is due");
        }
        proposal.lines += &on_failure(next);
        Ok(())
    }

    pub fn set_now(&self, done: Option<&str>) -> String {
        self.set("on_success", done, "{now}")
    }

    /// The line that sets a column, if there is one, and the date of the last change.
    fn set(&self, key: &str, column: Option<&str>, value: &str) -> String {
        let updated = self.date_of(ColumnRole::Updated).map(|name| (name, "{now}"));
        let columns = column.map(|name| (name, value)).into_iter().chain(updated);
        let columns = Table::from_iter(columns.map(|(name, to)| (name.into(), Toml::from(to))));
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
