//! What says that a record is pending, and done: a status, or a date that is NULL until then.

use anyhow::Result;
use backlog_schedule::{Value, listed};
use backlog_store::{ValueCount, quoted_if_needed};
use toml::Value as Toml;

use super::columns::{ProfiledColumn, TableProfile, display};
use super::proposal::{Proposal, toml};
use super::words::{ColumnRole, Meaning, meaning};

/// What the lines about pending records leave for later ones.
#[derive(Default)]
pub struct PendingMapping {
    /// The line of what a success writes besides.
    pub on_success: String,
    /// Whether a value says that a record is given up.
    pub archives: bool,
    /// The rows of the sample that were not tried yet.
    pub new: Vec<usize>,
}

/// The keys of a status, with the meanings of their values.
const KEYS: [(&str, Meaning, &str); 4] = [
    ("new", Meaning::New, "new"),
    ("error", Meaning::Failed, "failed"),
    ("success", Meaning::Done, "done"),
    ("archived", Meaning::GivenUp, "given up"),
];

pub const ADD_CONDITION: &str = "If so, add it to this condition:";
const DELETE: &str = "on_success = \"delete\"";

impl TableProfile<'_> {
    pub fn pending(&self, proposal: &mut Proposal<'_>) -> Result<PendingMapping> {
        let statuses = self.statuses();
        let dates = self.filter(|it| {
            let may_be_empty = !it.column.not_null || it.empty_rows() > 0;
            it.is(ColumnRole::Done) && it.is_date() && may_be_empty
        });
        match (&statuses[..], &dates[..]) {
            // A name or values alone may be those of anything else.
            ([status], _)
                if status.is_named_as_status()
                    && (status.has_usual_values() || dates.is_empty()) =>
            {
                self.by_status(status, proposal)
            }
            ([], [date]) => self.by_date(date, proposal),
            ([], []) => {
                let is_any =
                    |it: &ProfiledColumn<'_>| matches!(it.role, None | Some(ColumnRole::Done));
                let few = self.filter(|it| it.distinct() > 1 && is_any(it));
                let dates = self.filter(|it| it.is_date() && !it.is_full() && is_any(it));
                self.choose(&few, &dates, proposal)
            }
            _ => self.choose(&statuses, &dates, proposal),
        }
    }

    /// The columns that may be the status, by their names or their values. One that is called so is it.
    fn statuses(&self) -> Vec<&ProfiledColumn<'_>> {
        let mut all = self.filter(|it| {
            !it.values.is_empty() && it.is_named_as_status()
                || it.role.is_none() && it.has_usual_values()
        });
        let is_status = |it: &&ProfiledColumn<'_>| it.name().eq_ignore_ascii_case("status");
        if all.iter().any(is_status) {
            all.retain(is_status);
        }
        all
    }

    /// Asks which column it is, or whether all rows are pending.
    fn choose(
        &self,
        statuses: &[&ProfiledColumn<'_>],
        dates: &[&ProfiledColumn<'_>],
        proposal: &mut Proposal<'_>,
    ) -> Result<PendingMapping> {
        let of_status = |it: &&ProfiledColumn<'_>| {
            let name = it.name();
            let line = format!("column = {}, new = ?, error = ?, success = ?", toml(name));
            let answer = format!("{name} is the status: {}", display(it.values));
            (answer, format!("status = {{ {line} }}\n"))
        };
        let of_date = |it: &&ProfiledColumn<'_>| {
            let [is_empty, _] = it.conditions();
            let lines = format!("where = {}\n{}", toml(&is_empty), self.set_now(Some(it.name())));
            (format!("a record is pending while {is_empty}"), lines)
        };
        let delete = "all rows are pending, and a finished one is deleted".into();
        let delete = (delete, format!("where = \"1 = 1\"\n{DELETE}\n"));
        let choices = statuses.iter().map(of_status).chain(dates.iter().map(of_date));
        let choices: Vec<_> = choices.chain([delete]).collect();
        let answers: Vec<_> = choices.iter().map(|(answer, _)| answer.clone()).collect();
        let question = "which rows are pending, and what becomes of a finished one?";
        let chosen = proposal.terminal.choose(question, &answers)?;
        match chosen.and_then(|at| statuses.iter().chain(dates).nth(at).zip(Some(at))) {
            Some((column, at)) if at < statuses.len() => self.by_status(column, proposal),
            Some((column, _)) => self.by_date(column, proposal),
            None => {
                proposal.answer(question, &choices, "where = ?\non_success = ?", chosen);
                Ok(PendingMapping::default())
            }
        }
    }

    fn by_status(
        &self,
        column: &ProfiledColumn<'_>,
        proposal: &mut Proposal<'_>,
    ) -> Result<PendingMapping> {
        let (name, is_large) = (column.name(), self.outline.is_large);
        let values = self.meanings(column, proposal)?;
        let with = |meaning| -> Vec<&ValueCount> {
            values.iter().filter(|(it, _)| *it == meaning).map(|(_, value)| *value).collect()
        };
        let unknown = with(None);
        let has_failed = !with(Some(Meaning::Failed)).is_empty();
        proposal.comment(match has_failed || is_large || !unknown.is_empty() {
            false => "the status; no value means failed, so a record that fails stays new",
            true => "the status",
        });
        for (meaning, what) in [
            (Meaning::Failed, "tried again; if it is given up for good, write it as archived"),
            (Meaning::LeftAlone, "left alone"),
        ] {
            let values = with(Some(meaning));
            if !values.is_empty() {
                proposal.comment(&format!("{what}: {}", display(values)));
            }
        }
        if !unknown.is_empty() {
            let values = display(unknown.iter().copied());
            proposal.question(&format!(
                "{name} has the value {values}. Is it new, failed (error), done (success), given up \
                 (archived), or none of these? Write each such value in place of a ?, or leave it \
                 out: then its rows are left alone."
            ));
        }
        let (mut keys, mut deletes) = (Vec::<(&str, String)>::new(), false);
        for (key, meaning, word) in KEYS {
            let those = with(Some(meaning));
            let none = format!("no value of {name} here means {word}");
            let value = match meaning {
                _ if !those.is_empty() => written(column, word, those, proposal)?,
                Meaning::GivenUp => continue,
                _ if !unknown.is_empty() => "?".into(),
                // What has failed stays as it is.
                Meaning::Failed if !is_large => keys[0].1.clone(),
                Meaning::Done => {
                    let question = format!("{none}. What becomes of a finished record?");
                    let remedy = format!(
                        "Write the value in place of ?. If its row is deleted, leave success out and \
                         write {DELETE} instead of any other on_success."
                    );
                    let answers = ["its row is deleted".into()];
                    deletes = proposal.ask_or_leave_open(&question, &answers, &remedy)?.is_some();
                    if deletes {
                        continue;
                    }
                    "?".into()
                }
                Meaning::New | Meaning::Failed | Meaning::LeftAlone => {
                    let (column, sql) = (quoted_if_needed(name), &self.outline.sql);
                    let query = format!("SELECT {column}, count(*) FROM {sql} GROUP BY {column}");
                    let all = format!(" (of all rows: {query})");
                    let all = if is_large { &all } else { "" };
                    proposal.question(&format!("{none}{all}. Write the value in place of ?."));
                    "?".into()
                }
            };
            keys.push((key, value));
        }
        if !unknown.is_empty() && keys.iter().all(|(_, value)| value != "?") {
            keys.push(("?", toml_list(&unknown)));
        }
        let line: String = keys.iter().map(|(key, value)| format!(", {key} = {value}")).collect();
        proposal.line(&format!("status = {{ column = {}{line} }}", toml(name)));
        let archives = keys.iter().any(|(key, _)| *key == "archived");
        let rows = |meaning| -> Vec<usize> {
            let values = with(Some(meaning));
            let has = |row: &usize| values.iter().any(|it| it.value == column.cells[*row]);
            (0..column.cells.len()).filter(has).collect()
        };
        let new = rows(Meaning::New);
        let waiting = [&new[..], &rows(Meaning::Failed)].concat();
        self.narrow(column, None, &waiting, archives, proposal)?;
        let done = self.filter(|it| it.is(ColumnRole::Done) && it.is_date());
        if done.len() > 1 {
            let names = listed(done.iter().map(|it| it.name()));
            let why = format!("a success sets none of {names}: add the right one to on_success");
            proposal.comment(&why);
        }
        let set_now = || self.set_now(self.date_of(ColumnRole::Done));
        let on_success = if deletes { format!("{DELETE}\n") } else { set_now() };
        Ok(PendingMapping { on_success, archives, new })
    }

    /// The values of a status, each with its meaning by a usual word or as somebody answers, if any.
    fn meanings<'c>(
        &self,
        column: &'c ProfiledColumn<'_>,
        proposal: &Proposal<'_>,
    ) -> Result<Vec<(Option<Meaning>, &'c ValueCount)>> {
        let is_given_up = |it: &ValueCount| column.meaning(it) == Some(Meaning::GivenUp);
        // Where attempts have an end, a failure may be final.
        let is_final = self.most_attempts().is_some() && !column.values.iter().any(is_given_up);
        let meanings = column.values.iter().map(|value| {
            let word = column.meaning(value);
            let meaning = match word.filter(|word| !(is_final && *word == Meaning::Failed)) {
                Some(word) => Some(word),
                None if value.rows == 0 || value.is_refused => Some(Meaning::LeftAlone),
                None => {
                    let question = format!(
                        "{} has the value {}. Is it new, failed, done, given up, or none of these?",
                        column.name(),
                        display([value])
                    );
                    let answers = KEYS.iter().map(|(.., word)| *word).chain(["none of these"]);
                    let answers: Vec<_> = answers.map(String::from).collect();
                    let answer = proposal.terminal.choose(&question, &answers)?;
                    answer.map(|at| KEYS.get(at).map_or(Meaning::LeftAlone, |key| key.1))
                }
            };
            Ok((meaning, value))
        });
        meanings.collect()
    }

    fn by_date(
        &self,
        column: &ProfiledColumn<'_>,
        proposal: &mut Proposal<'_>,
    ) -> Result<PendingMapping> {
        let [is_empty, _] = column.conditions();
        let rows = column.emptiness();
        proposal.comment(&format!("a record is pending while {is_empty}: it is {rows}"));
        let rows = 0..column.cells.len();
        let waiting: Vec<_> = rows.filter(|row| column.is_empty_at(*row)).collect();
        self.narrow(column, Some(is_empty), &waiting, false, proposal)?;
        Ok(PendingMapping {
            on_success: self.set_now(Some(column.name())),
            ..PendingMapping::default()
        })
    }

    /// Writes the condition of pending rows, and asks what else may take rows out of the queue.
    fn narrow(
        &self,
        column: &ProfiledColumn<'_>,
        condition: Option<String>,
        waiting: &[usize],
        archives: bool,
        proposal: &mut Proposal<'_>,
    ) -> Result<()> {
        let others = self.all.iter().filter(|other| other.name() != column.name());
        let mut doubts: Vec<_> = others.filter_map(|other| other.doubt(waiting)).collect();
        if let (Some(counter), Some(most), false) = (self.counter(), self.most_attempts(), archives)
        {
            let [counter, most] = [counter, most].map(|it| quoted_if_needed(it.name()));
            let about = format!("{counter} may be as high as {most} in rows");
            doubts.push((about, [format!("{counter} < {most}"), format!("{counter} >= {most}")]));
        }
        let (mut conditions, answered) = (Vec::from_iter(condition), proposal.questions);
        for (about, [without, with]) in doubts {
            let question = format!("{about} that would be pending. Are all of them pending?");
            let only = |condition| format!("no, only those with {condition}");
            let answers = ["yes, all rows".into(), only(&without), only(&with)];
            let remedy = format!(
                "For all of them take {without} out of this condition; for only the others write \
                 {with} in its place:"
            );
            match proposal.ask_or_leave_open(&question, &answers, &remedy)? {
                Some(0) => {}
                Some(2) => conditions.push(with),
                Some(_) | None => conditions.push(without),
            }
        }
        let is_state = |name: &&String| name.split('_').any(|part| meaning(part).is_some());
        let tables = listed(self.outline.sisters.iter().filter(is_state).map(String::as_str));
        let question = format!("do the tables {tables} say which records are pending?");
        if !tables.is_empty() {
            proposal.ask_or_leave_open(&question, &["no".into()], ADD_CONDITION)?;
        }
        let line = format!("where = {}", toml(&conditions.join(" AND ")));
        if proposal.questions > answered {
            proposal.line(&format!("# {line}\nwhere = ?"));
        } else if !conditions.is_empty() {
            proposal.line(&line);
        }
        Ok(())
    }
}

/// The values of one meaning as TOML, with the one that is written first. If several could be, it asks.
fn written(
    column: &ProfiledColumn<'_>,
    word: &str,
    mut values: Vec<&ValueCount>,
    proposal: &mut Proposal<'_>,
) -> Result<String> {
    let default = column.column.default.as_deref().unwrap_or_default();
    let mut first = values.iter().position(|it| default.contains(&it.value.literal()));
    let with_rows = values.iter().filter(|it| it.rows > 0).count();
    if first.is_none() && values.len() > 1 && with_rows != 1 {
        let names: Vec<_> = values.iter().map(|it| it.value.literal()).collect();
        let all = listed(names.iter().map(String::as_str));
        let name = column.name();
        let question = format!("{all} mean {word}. Which of them is to be written to {name}?");
        let list = toml_list(&values);
        let remedy = format!("Write {list} in place of ?, with that one first.");
        first = proposal.ask_or_leave_open(&question, &names, &remedy)?;
        if first.is_none() {
            return Ok("?".into());
        }
    }
    values.swap(0, first.unwrap_or_default());
    Ok(toml_list(&values))
}

fn toml_list(values: &[&ValueCount]) -> String {
    let toml = |counted: &&ValueCount| match &counted.value {
        Value::Null => Toml::from("{null}"),
        Value::Integer(number) => Toml::from(*number),
        Value::Boolean(truth) => Toml::from(*truth),
        value @ (Value::Text(_)
        | Value::Real(_)
        | Value::Bytes(_)
        | Value::Blob(_)
        | Value::Json(_)) => Toml::from(value.to_string()),
    };
    match values {
        [only] => toml(only).to_string(),
        values => Toml::Array(values.iter().map(toml).collect()).to_string(),
    }
}
