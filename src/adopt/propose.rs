//! The mapping of a table that docs/job-tables.toml does not describe, by its keys, and by the names and values
//! of its columns.

use anyhow::Result;
use toml::Value as Toml;

use super::columns::Column;
use super::known::Known;
use super::pending::Pending;
use super::words::{Role, meaning, role};
use super::{Ask, Choice, Proposal, key};
use crate::date::Format;
use crate::names::listed;
use crate::record::counted;
use crate::store::{Holds, Listed, Outline, Sample};
use crate::time::{DAY, Instant};

/// Whether a table has columns of a queue: one that says what is pending, and another one.
pub fn is_like_a_queue(table: &Listed) -> bool {
    let roles: Vec<_> = table.columns.iter().filter_map(|column| role(&column.name)).collect();
    let has = |wanted: &[Role]| wanted.iter().any(|role| roles.contains(role));
    let tells = [Role::Status, Role::Done, Role::Attempts];
    has(&tells) && roles.len() > 1
}

/// Whether docs/job-tables.toml describes a table.
pub fn is_known(table: &Listed) -> bool {
    Known::of(&table.name, &table.columns).is_some()
}

/// A table and its sample.
pub struct Evidence<'a> {
    pub outline: &'a Outline,
    sample: &'a Sample,
    /// A day later than now, as no date here has a zone.
    tomorrow: Instant,
    pub columns: Vec<Column<'a>>,
    /// The column of the insertion date, and the format of its numbers.
    inserted: Option<(usize, Option<Format>)>,
}

pub fn by_columns(
    outline: &Outline,
    sample: &Sample,
    columns: Vec<Column<'_>>,
    now: Instant,
    ask: &mut Ask<'_>,
) -> Result<Proposal> {
    let tomorrow = now.saturating_add(DAY);
    let mut evidence = Evidence { outline, sample, tomorrow, columns, inserted: None };
    let name = outline.name.rsplit('.').next().unwrap_or(&outline.name);
    let mut proposal = Proposal::new(&name.to_ascii_lowercase(), outline);
    evidence.describe(&mut proposal);
    evidence.id(&mut proposal, ask)?;
    evidence.date(&mut proposal, ask)?;
    let pending = evidence.pending(&mut proposal, ask)?;
    evidence.counters(&mut proposal, &pending, ask)?;
    evidence.writes(&mut proposal, pending, ask)?;
    evidence.rest(&mut proposal);
    Ok(proposal)
}

impl<'a> Evidence<'a> {
    /// The places of the columns for which something holds.
    pub fn places(&self, is: impl Fn(&Column<'a>) -> bool) -> Vec<usize> {
        (0..self.columns.len()).filter(|at| is(&self.columns[*at])).collect()
    }

    /// The only column of a role for which something holds.
    fn only(&self, role: Role, is: impl Fn(&Column<'a>) -> bool) -> Option<&Column<'a>> {
        match self.places(|column| column.is(role) && is(column))[..] {
            [only] => Some(&self.columns[only]),
            _ => None,
        }
    }

    pub fn rows(&self) -> usize {
        self.sample.rows.len()
    }

    /// The related tables that are called after states.
    pub fn tables_of_states(&self) -> String {
        let is_state = |name: &&String| name.split('_').any(|part| meaning(part).is_some());
        listed(self.outline.related.iter().filter(is_state).map(String::as_str))
    }

    /// What was read, and all columns with few values.
    fn describe(&self, proposal: &mut Proposal) {
        if let Some(why) = &self.sample.unread {
            proposal.comment(format!("its rows could not be read within a second: {why}"));
        } else if self.rows() == 0 {
            proposal.comment("it has no rows, so only its columns tell something");
        } else if !self.sample.is_whole {
            let rows = self.rows();
            proposal.comment(format!("dates and counters by {rows} of the oldest and newest rows"));
        }
        if self.outline.is_large() {
            proposal.comment("the table is large: these counts are those of a sample");
        }
        let about = "columns with few values, and those that are NULL in some rows; if one of them takes rows out \
             of the queue (deleted, paused, of another queue), add a condition: where = \"...\"";
        proposal.facts(about, self.columns.iter());
    }

    /// The unique key with the fewest columns, the primary key before others.
    fn id(&self, proposal: &mut Proposal, ask: &mut Ask<'_>) -> Result<()> {
        let can_be = |column: &&Column<'a>| {
            let is_uuid = column.column.declared.eq_ignore_ascii_case("uuid");
            let holds = column.column.holds;
            matches!(holds, Holds::Integers | Holds::Text | Holds::Numbers | Holds::Bytes)
                || is_uuid
        };
        let is_id = |name: &String| {
            let mut columns = self.columns.iter().filter(can_be);
            columns.any(|column| column.name() == name)
        };
        let keys = self.outline.keys.iter().filter(|key| key.iter().all(is_id));
        let Some(key) = keys.min_by_key(|key| key.len()) else {
            let full = self.columns.iter().filter(can_be);
            let full = full.filter(|it| it.is_full() && it.is_distinct() && !it.is_date());
            let choice = |it: &Column<'a>| {
                Choice::new(it.name(), vec![format!("id = {}", Toml::from(it.name()))])
            };
            let question = "which column identifies a record? No unique key says it.";
            let open = vec!["id = ?".into()];
            return proposal.choose(ask, question, full.map(choice).collect(), open).map(drop);
        };
        let is_primary = self.outline.keys.first() == Some(key);
        let why = if is_primary { "the primary key" } else { "a unique key without NULL" };
        let id = match &key[..] {
            [only] => Toml::from(only.as_str()),
            all => Toml::from(all.to_vec()),
        };
        proposal.line(why, format!("id = {id}"));
        Ok(())
    }

    fn date(&mut self, proposal: &mut Proposal, ask: &mut Ask<'_>) -> Result<()> {
        let is_past =
            |it: &Column<'a>| it.formats.iter().any(|(_, newest)| *newest <= self.tomorrow);
        let is_full = |it: &Column<'a>| it.is_full() && is_past(it) || self.rows() == 0;
        let created = self.places(|it| it.is_date() && it.is(Role::Created));
        if let [at] = created[..]
            && let Column { formats, column, .. } = &self.columns[at]
            && formats.len() < 2
            && is_full(&self.columns[at])
        {
            let format = formats.first().map(|(format, _)| *format);
            let why = "when a record was inserted: called so, and never NULL";
            proposal.line(why, date_line(&column.name, format));
            self.inserted = Some((at, format));
            return Ok(());
        }
        let full = || self.places(|it| it.is_date() && is_full(it));
        let places = if created.is_empty() { full() } else { created };
        let mut choices = Vec::new();
        let mut formats = Vec::new();
        for at in places {
            let column = &self.columns[at];
            let readings = column.formats.iter().map(|(format, newest)| {
                (Some(*format), format!(" as {format}: the newest is {newest}"))
            });
            let none = column.formats.is_empty().then(|| (None, String::new()));
            for (format, reading) in readings.chain(none) {
                let empty = column.empty.filter(|[empty, _]| *empty > 0);
                let empty = empty.map(|[empty, _]| format!(", none in {}", counted(empty, "row")));
                let answer = format!("{}{reading}{}", column.name(), empty.unwrap_or_default());
                choices.push(Choice::new(answer, vec![date_line(column.name(), format)]));
                formats.push((at, format));
            }
        }
        // Without a date and a counter no schedule tells what is due.
        choices.extend(self.counter().map(|_| {
            let answer = "no column: records go by their ids, and by their count of failures";
            Choice::new(answer, vec!["date_inserted = false".into()])
        }));
        let question = "when was a record inserted? No single date without NULL says it, in one \
                        format. (An expression can: date_inserted = { sql = \"...\" }.)";
        let open = vec!["date_inserted = ?".into()];
        let chosen = proposal.choose(ask, question, choices, open)?;
        self.inserted = chosen.and_then(|at| formats.get(at).copied());
        Ok(())
    }

    pub fn most_attempts(&self) -> Option<&Column<'a>> {
        self.only(Role::MostAttempts, Column::counts)
    }

    pub fn counter(&self) -> Option<&Column<'a>> {
        self.only(Role::Attempts, Column::counts)
    }

    /// The date of a role that can be written: in ISO, or as the insertion date is.
    pub fn date_of(&self, role: Role) -> Option<&'a str> {
        let inserted = self.inserted.and_then(|(_, format)| format);
        let legal = [Some(Format::Iso), Some(Format::Compact), inserted];
        let is_written = |it: &Column<'a>| {
            !it.column.is_generated
                && it.is_date()
                && it.formats.iter().all(|(format, _)| legal.contains(&Some(*format)))
        };
        self.only(role, is_written).map(Column::name)
    }

    /// The count of failures, the most attempts and the error.
    fn counters(
        &self,
        proposal: &mut Proposal,
        pending: &Pending,
        ask: &mut Ask<'_>,
    ) -> Result<()> {
        if let Some(counter) = self.counter() {
            let name = Toml::from(counter.name());
            let failures = format!("failures = {name}");
            let attempts = format!("failures = {{ column = {name}, counts = \"attempts\" }}");
            let lower = counter.name().to_lowercase();
            let counts_failures = lower.contains("fail") || lower.contains("retr");
            // One that never begins at 0 may be a limit, or count down.
            let is_high = match &pending.new[..] {
                [] => counter.is_full(),
                new => new.iter().all(|row| !counter.is_empty_at(*row)),
            };
            if is_high || counter.begins_above_zero() {
                let choices = vec![
                    Choice::new("it counts failures", vec![failures]),
                    Choice::new("it counts attempts", vec![attempts]),
                    Choice::new("none of these", vec![]),
                ];
                let question = format!("{} does not begin at 0. What is it?", counter.name());
                proposal.choose(ask, &question, choices, vec!["failures = ?".into()])?;
            } else if counts_failures {
                proposal.line("counts failures, by its name", failures);
            } else {
                proposal.line("counts attempts, by its name", attempts);
            }
        }
        if pending.archives
            && let Some(most) = self.most_attempts()
        {
            let name = Toml::from(most.name());
            proposal
                .line("each record has a maximum", format!("max_attempts = {{ column = {name} }}"));
        }
        if let Some(error) = self.only(Role::Error, Column::holds_text) {
            let name = Toml::from(error.name());
            proposal.line("the last error, by its name", format!("last_error = {name}"));
        }
        Ok(())
    }

    /// What is written besides: when it was done, when it is due next, and that it was changed.
    fn writes(&self, proposal: &mut Proposal, pending: Pending, ask: &mut Ask<'_>) -> Result<()> {
        proposal.lines(pending.on_success.into_iter().collect());
        let on_failure = |due: Option<&str>| {
            let next = due.map(|name| format!("{} = \"{{next}}\"", key(name)));
            let updated = self.date_of(Role::Updated).map(set_to_now);
            let columns: Vec<_> = next.into_iter().chain(updated).collect();
            let line = format!("on_failure = {{ {} }}", columns.join(", "));
            (!columns.is_empty()).then_some(line)
        };
        let is_to_come = |it: &Column<'a>| {
            it.role.is_none()
                && it.formats.first().is_some_and(|(_, newest)| *newest > self.tomorrow)
        };
        // One with `9999-12-31` says it too, though that date is not plausible.
        let is_named = |it: &Column<'a>| it.is(Role::Due) || it.is(Role::PerhapsDue);
        let is_due = |it: &Column<'a>| is_named(it) && (it.is_date() || !it.counts());
        let due = self.places(|it| is_due(it) || is_to_come(it));
        let next = self.date_of(Role::Due);
        if next.is_none() && !due.is_empty() {
            let choice = |name: Option<&str>| {
                let answer = name.unwrap_or("none of these");
                Choice::new(answer, on_failure(name).into_iter().collect())
            };
            let names = due.iter().map(|at| Some(self.columns[*at].name()));
            let choices = names.chain([None]).map(choice).collect();
            let open = vec!["on_failure = ?".into()];
            let question = "which column says when a record is due?";
            return proposal.choose(ask, question, choices, open).map(drop);
        }
        if next.is_some() {
            proposal.comment("the next attempt; from then on it says what is due");
        }
        proposal.lines(on_failure(next).into_iter().collect());
        Ok(())
    }

    /// The line by which a success sets the date of what is done and that of the change.
    pub fn set_now(&self, done: Option<&str>) -> Option<String> {
        let columns = [done, self.date_of(Role::Updated)].into_iter().flatten();
        let columns: Vec<_> = columns.map(set_to_now).collect();
        (!columns.is_empty()).then(|| format!("on_success = {{ {} }}", columns.join(", ")))
    }

    /// The schedule, and what only the user knows.
    fn rest(&self, proposal: &mut Proposal) {
        let is_undated = self.inserted.is_none() && proposal.open_questions() == 0;
        let schedule = if is_undated { "policy = \"even\"" } else { "progressive = true" };
        proposal.line("less and less often as time goes on", schedule.into());
        proposal.lines(vec!["# exec = [\"/usr/local/bin/YOUR-COMMAND\", \"{id}\"]".into()]);
    }
}

fn date_line(name: &str, format: Option<Format>) -> String {
    let name = Toml::from(name);
    match format {
        None | Some(Format::Iso | Format::Compact) => format!("date_inserted = {name}"),
        Some(format) => format!("date_inserted = {{ column = {name}, format = \"{format}\" }}"),
    }
}

fn set_to_now(name: &str) -> String {
    format!("{} = \"{{now}}\"", key(name))
}
