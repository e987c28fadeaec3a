//! The mapping of a table that docs/tables.md does not describe, by its keys, and by the names and values
//! of its columns.

use anyhow::Result;
use toml::Value as Toml;

use super::columns::{Column, display};
use super::known::Known;
use super::pending::{OnSuccess, Pending};
use super::words::{Role, meaning, role};
use super::{Ask, Choice, Proposal, key};
use crate::date::{Dates, Format};
use crate::names::listed;
use crate::store::{Explore, Holds, Listed, Outline, Sample};
use crate::time::{DAY, Instant};

/// Whether a table has columns of a queue: one that says what is pending, and another one.
pub fn is_like_a_queue(table: &Listed) -> bool {
    let roles: Vec<_> = table.columns.iter().filter_map(|column| role(&column.name)).collect();
    let has = |wanted: &[Role]| wanted.iter().any(|role| roles.contains(role));
    let tells = [Role::Status, Role::Done, Role::Attempts, Role::Lock];
    has(&tells) && roles.len() > 1
}

/// Whether docs/tables.md describes a table.
pub fn is_known(table: &Listed) -> bool {
    Known::of(&table.name, &table.columns).is_some()
}

/// A table and its sample.
pub struct Evidence<'a> {
    outline: &'a Outline,
    sample: &'a Sample,
    now: Instant,
    pub columns: Vec<Column<'a>>,
    /// The column of the insertion date, and the format of its numbers.
    inserted: Option<(usize, Option<Format>)>,
}

pub fn by_columns(
    database: &mut dyn Explore,
    outline: &Outline,
    now: Instant,
    ask: &mut Ask<'_>,
) -> Result<Proposal> {
    let sample = database.sample(outline);
    let columns = Column::all(database, outline, &sample, now);
    let mut evidence = Evidence { outline, sample: &sample, now, columns, inserted: None };
    let name = outline.name.rsplit('.').next().unwrap_or(&outline.name);
    let mut proposal = Proposal::new(&name.to_ascii_lowercase(), outline);
    evidence.describe(&mut proposal);
    evidence.id(&mut proposal, ask)?;
    evidence.date(&mut proposal, ask)?;
    let pending = evidence.pending(&mut proposal, ask)?;
    evidence.counters(&mut proposal, &pending);
    evidence.writes(&mut proposal, &pending, ask)?;
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
        let few: Vec<_> = self.columns.iter().filter(|it| it.distinct() > 1).collect();
        if !few.is_empty() {
            proposal.comment(
                "columns with few values; if one of them takes rows out of the queue (deleted, \
                 paused, of another queue), add a condition: where = \"...\"",
            );
        }
        if self.outline.is_large() {
            proposal.comment("the table is large: these counts are those of a sample");
        }
        for column in few {
            proposal.comment(format!("  {}: {}", column.name(), display(&column.values)));
        }
    }

    /// The unique key with the fewest columns, the primary key before others.
    fn id(&self, proposal: &mut Proposal, ask: &mut Ask<'_>) -> Result<()> {
        let can_be = |name: &String| {
            let column = self.outline.columns.iter().find(|it| it.name == *name);
            column.is_some_and(|it| {
                let is_uuid = it.declared.eq_ignore_ascii_case("uuid");
                matches!(it.holds, Holds::Integers | Holds::Text | Holds::Numbers) || is_uuid
            })
        };
        let keys = self.outline.keys.iter().filter(|key| key.iter().all(can_be));
        let Some(key) = keys.min_by_key(|key| key.len()) else {
            return self.ask_for_id(proposal, ask);
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

    fn ask_for_id(&self, proposal: &mut Proposal, ask: &mut Ask<'_>) -> Result<()> {
        let is_unique = |it: &&Column<'a>| {
            let mut values: Vec<_> = it.cells.iter().map(|value| value.shown()).collect();
            values.sort();
            it.is_full() && !it.is_date() && values.windows(2).all(|pair| pair[0] != pair[1])
        };
        let unique = self.columns.iter().filter(is_unique);
        let choice = |it: &Column<'a>| {
            Choice::new(it.name(), vec![format!("id = {}", Toml::from(it.name()))])
        };
        let question = "which column identifies a record? No unique key says it.";
        let open = vec!["id = ?".into()];
        proposal.choose(ask, question, unique.map(choice).collect(), open).map(drop)
    }

    fn date(&mut self, proposal: &mut Proposal, ask: &mut Ask<'_>) -> Result<()> {
        let is_past = |it: &Column<'a>| {
            it.formats.iter().any(|(_, newest)| *newest <= self.now.saturating_add(DAY))
        };
        let full =
            self.places(|it| it.is_date() && (it.is_full() && is_past(it) || self.rows() == 0));
        let mut created = full.clone();
        created.retain(|at| self.columns[*at].is(Role::Created));
        // `created_at` before `submitted_at`
        let is_creation = |at: &usize| self.columns[*at].name().to_lowercase().contains("creat");
        if created.iter().filter(|at| is_creation(at)).count() == 1 {
            created.retain(is_creation);
        }
        let (found, why) = match (&created[..], &full[..]) {
            ([at], _) => (Some(*at), "called so, and never NULL"),
            ([], [at]) if self.columns[*at].role.is_none() && self.follows_the_key(*at) => {
                (Some(*at), "the only date that is never NULL, and it grows with the key")
            }
            _ => (None, ""),
        };
        if let Some(at) = found.filter(|at| self.columns[*at].formats.len() < 2) {
            let format = self.columns[at].formats.first().map(|(format, _)| *format);
            let line = date_line(self.columns[at].name(), format);
            proposal.line(format!("when a record was inserted: {why}"), line);
            self.inserted = Some((at, format));
            return Ok(());
        }
        let places = if created.is_empty() { full } else { created };
        let mut choices = Vec::new();
        let mut formats = Vec::new();
        for at in places {
            let column = &self.columns[at];
            let readings = column.formats.iter().map(|(format, newest)| {
                (Some(*format), format!(" as {format}: the newest is {newest}"))
            });
            let none = column.formats.is_empty().then(|| (None, String::new()));
            for (format, reading) in readings.chain(none) {
                let answer = format!("{}{reading}", column.name());
                choices.push(Choice::new(answer, vec![date_line(column.name(), format)]));
                formats.push((at, format));
            }
        }
        // Without a date and a counter no schedule tells what is due.
        choices.push(match self.counter() {
            Some(_) => Choice::new(
                "no column: records go by their ids, and by their count of failures",
                vec!["date_inserted = false".into()],
            ),
            None => Choice::new(
                "an expression over the columns of a row",
                vec!["date_inserted = { sql = \"EXPRESSION\" }".into()],
            ),
        });
        let question = "when was a record inserted? No single date that is never NULL says it.";
        let open = vec!["date_inserted = ?".into()];
        let chosen = proposal.choose(ask, question, choices, open)?;
        self.inserted = chosen.and_then(|at| formats.get(at).copied());
        Ok(())
    }

    /// Whether no date is before that of the row above it.
    fn follows_the_key(&self, at: usize) -> bool {
        let Column { cells, formats, .. } = &self.columns[at];
        let dates =
            Dates { format: formats.first().map(|(format, _)| *format), ..Dates::default() };
        cells.windows(2).all(|pair| dates.read(pair[0]) <= dates.read(pair[1]))
    }

    pub fn most_attempts(&self) -> Option<&Column<'a>> {
        self.only(Role::MostAttempts, Column::counts)
    }

    pub fn counter(&self) -> Option<&Column<'a>> {
        self.only(Role::Attempts, Column::counts)
    }

    /// The date of a role that can be written.
    fn date_of(&self, role: Role) -> Option<&'a str> {
        let named = self.inserted.and_then(|(_, format)| format);
        let named = named.filter(|format| Format::NAMED_ONLY.contains(format));
        let is_written = |it: &Column<'a>| it.is_date() && it.is_written(named);
        self.only(role, is_written).map(Column::name)
    }

    pub fn updated(&self) -> Option<&'a str> {
        self.date_of(Role::Updated)
    }

    /// The count of failures, the most attempts and the error.
    fn counters(&self, proposal: &mut Proposal, pending: &Pending) {
        if let Some(counter) = self.counter() {
            let name = Toml::from(counter.name());
            let counts = pending.done.iter().filter_map(|row| counter.number_at(*row));
            let (all, above) = counts
                .fold((0, 0), |(all, above), count| (all + 1, above + usize::from(count > 0)));
            let of_attempts = format!("failures = {{ column = {name}, counts = \"attempts\" }}");
            let of_failures = format!("failures = {name}");
            let lower = counter.name().to_lowercase();
            let is_named = !lower.contains("fail") && !lower.contains("retr");
            let (why, line) = match all {
                0 if is_named => ("counts attempts, by its name", of_attempts),
                0 => ("counts failures, by its name", of_failures),
                _ if above * 10 >= all * 9 => {
                    ("counts attempts: nearly all finished rows have one or more", of_attempts)
                }
                _ => ("counts failures: most finished rows have none", of_failures),
            };
            proposal.line(why, line);
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
    }

    /// What is written besides: when it was done, when it is due next, and that it was changed.
    fn writes(&self, proposal: &mut Proposal, pending: &Pending, ask: &mut Ask<'_>) -> Result<()> {
        let done = match pending.on_success {
            Some(OnSuccess::Date(at)) => Some(self.columns[at].name()),
            Some(OnSuccess::Status) => self.date_of(Role::Done).filter(|name| {
                let column = self.columns.iter().find(|it| it.name() == *name);
                column.is_some_and(|it| is_set_when_done(it, &pending.done))
            }),
            None => None,
        };
        if pending.on_success.is_some() {
            proposal.lines(self.set_now(&[done, self.updated()]).into_iter().collect());
        }
        let due = self.places(|it| it.is(Role::Due) && (it.is_date() || it.is_typed()));
        let on_failure = |due: Option<&str>| {
            let next = due.map(|name| format!("{} = \"{{next}}\"", key(name)));
            let columns: Vec<_> = next.into_iter().chain(self.updated().map(set_to_now)).collect();
            let line = format!("on_failure = {{ {} }}", columns.join(", "));
            (!columns.is_empty()).then_some(line)
        };
        let next = self.date_of(Role::Due).filter(|_| due.len() == 1);
        let is_other = |it: &Column<'a>| matches!(it.role, None | Some(Role::Created));
        let to_come = self.places(|it| is_other(it) && self.is_to_come(it));
        if next.is_none() && !(due.is_empty() && to_come.is_empty()) {
            let choice = |name: Option<&str>| {
                let answer = name.unwrap_or("none of these");
                Choice::new(answer, on_failure(name).into_iter().collect())
            };
            let names = due.iter().chain(&to_come).map(|at| Some(self.columns[*at].name()));
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

    /// Whether it has dates later than that of the last insertion.
    fn is_to_come(&self, column: &Column<'a>) -> bool {
        let newest = |column: &Column<'a>| column.formats.first().map(|(_, newest)| *newest);
        let inserted = self.inserted.and_then(|(at, _)| newest(&self.columns[at]));
        inserted.zip(newest(column)).is_some_and(|(inserted, at)| at.0 > inserted.0 + DAY)
    }

    /// The line by which a success sets these columns to now.
    pub fn set_now(&self, columns: &[Option<&str>]) -> Option<String> {
        let columns: Vec<_> = columns.iter().flatten().map(|name| set_to_now(name)).collect();
        (!columns.is_empty()).then(|| format!("on_success = {{ {} }}", columns.join(", ")))
    }

    /// The schedule, and what only the user knows.
    fn rest(&self, proposal: &mut Proposal) {
        const PAYLOADS: [&str; 5] = ["payload", "body", "data", "content", "message"];
        let is_payload = |it: &&Column<'a>| {
            PAYLOADS.contains(&&*it.name().to_lowercase())
                && matches!(it.column.holds, Holds::Text | Holds::Documents | Holds::Bytes)
        };
        if let Some(payload) = self.columns.iter().find(is_payload) {
            let line = format!("# payload = {}", Toml::from(payload.name()));
            proposal.line("the handler gets the whole row as JSON, or this alone:", line);
        }
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

/// Whether exactly the finished rows have a date.
fn is_set_when_done(column: &Column<'_>, done: &[usize]) -> bool {
    let has: Vec<_> = (0..column.cells.len()).filter(|row| !column.is_empty_at(*row)).collect();
    !done.is_empty() && has == done
}
