//! What says that a record is pending, and done: a status, or a date that is NULL until then.

use anyhow::Result;
use toml::Value as Toml;

use super::columns::{Column, display};
use super::propose::Evidence;
use super::words::{Meaning, Role};
use super::{Ask, Choice, Proposal};
use crate::names::listed;
use crate::record::{Value, counted};
use crate::store::{Counted, quoted_if_needed};

/// What the lines about a pending record leave for later ones.
#[derive(Default)]
pub struct Pending {
    /// The line of what a success writes besides.
    pub on_success: Option<String>,
    /// Whether a value says that a record is given up.
    pub archives: bool,
    /// The rows of the sample that were not tried yet.
    pub new: Vec<usize>,
}

/// The keys of a status with what their values mean, as it is asked.
const KEYS: [(&str, Meaning, &str); 4] = [
    ("new", Meaning::New, "new"),
    ("error", Meaning::Failed, "failed"),
    ("success", Meaning::Done, "done"),
    ("archived", Meaning::GivenUp, "given up"),
];

/// Values of a status with their meanings, and those whose meaning is open.
type Meanings = (Vec<(Meaning, Counted)>, Vec<Counted>);

const DELETE: &str = "on_success = \"delete\"";

impl Evidence<'_> {
    pub fn pending(&self, proposal: &mut Proposal, ask: &mut Ask<'_>) -> Result<Pending> {
        let statuses = self.statuses();
        let dates = self.places(|it| it.is(Role::Done) && it.is_date() && it.may_be_empty());
        // A name or values alone may be those of anything else.
        let is_sure = |at: usize| {
            let column = &self.columns[at];
            column.is_named_as_status() && (column.has_usual_values() || dates.is_empty())
        };
        match (&statuses[..], &dates[..]) {
            ([status], _) if is_sure(*status) => self.by_status(*status, proposal, ask),
            ([], [date]) => self.by_date(*date, proposal, ask),
            ([], []) => {
                let is_any = |it: &Column<'_>| matches!(it.role, None | Some(Role::Done));
                let few = self.places(|it| it.distinct() > 1 && is_any(it));
                let dates = self.places(|it| it.is_date() && !it.is_full() && is_any(it));
                self.choose(&few, &dates, proposal, ask)
            }
            _ => self.choose(&statuses, &dates, proposal, ask),
        }
    }

    /// The columns that may be the status, by their names or their values. One that is called so is it.
    fn statuses(&self) -> Vec<usize> {
        let may_be = |it: &Column<'_>| {
            !it.values.is_empty() && it.is_named_as_status()
                || it.role.is_none() && it.has_usual_values()
        };
        let mut all = self.places(may_be);
        let is_status = |at: &usize| self.columns[*at].name().eq_ignore_ascii_case("status");
        if all.iter().any(is_status) {
            all.retain(is_status);
        }
        all
    }

    /// Asks which column it is, or whether all rows are pending.
    fn choose(
        &self,
        statuses: &[usize],
        dates: &[usize],
        proposal: &mut Proposal,
        ask: &mut Ask<'_>,
    ) -> Result<Pending> {
        let of_status = |at: &usize| {
            let Column { column, values, .. } = &self.columns[*at];
            let name = Toml::from(column.name.as_str());
            let line = format!("status = {{ column = {name}, new = ?, error = ?, success = ? }}");
            Choice::new(format!("{} is the status: {}", column.name, display(values)), vec![line])
        };
        let of_date = |at: &usize| {
            let name = self.columns[*at].name();
            let [is_empty, _] = self.columns[*at].conditions();
            let answer = format!("a record is pending while {is_empty}");
            let lines = [Some(where_line(&[is_empty])), self.set_now(Some(name))];
            Choice::new(answer, lines.into_iter().flatten().collect())
        };
        let delete = vec!["where = \"1 = 1\"".into(), DELETE.into()];
        let delete = Choice::new("all rows are pending, and a finished one is deleted", delete);
        let choices = statuses.iter().map(of_status).chain(dates.iter().map(of_date));
        let choices: Vec<_> = choices.chain([delete]).collect();
        let answers: Vec<_> = choices.iter().map(|choice| choice.answer.clone()).collect();
        let question = "which rows are pending, and what becomes of a finished one?";
        let chosen = ask(question, &answers)?;
        match chosen.and_then(|at| statuses.iter().chain(dates).nth(at)) {
            Some(column) if statuses.contains(column) => self.by_status(*column, proposal, ask),
            Some(column) => self.by_date(*column, proposal, ask),
            None => {
                let open = vec!["where = ?".into(), "on_success = ?".into()];
                proposal.choose(&mut |_, _| Ok(chosen), question, choices, open)?;
                Ok(Pending::default())
            }
        }
    }

    fn by_status(&self, at: usize, proposal: &mut Proposal, ask: &mut Ask<'_>) -> Result<Pending> {
        let column = &self.columns[at];
        let name = column.name();
        let (values, unknown) = self.meanings(column, ask)?;
        let with = |meaning| -> Vec<Counted> {
            let those = values.iter().filter(|(it, _)| *it == meaning);
            those.map(|(_, value)| value.clone()).collect()
        };
        let mut questions = Vec::new();
        if !unknown.is_empty() {
            questions.push(format!(
                "{name} has the value {}. Is it new, failed (error), done (success), given up \
                 (archived), or none of these? Write each such value in place of a ?, or leave it \
                 out: then its rows are left alone.",
                display(&unknown)
            ));
        }
        let (mut keys, mut deletes) = (Vec::<(&str, String)>::new(), false);
        for (key, meaning, says) in KEYS {
            let those = with(meaning);
            let value = match meaning {
                _ if !those.is_empty() => written(column, says, those, &mut questions, ask)?,
                Meaning::GivenUp => continue,
                _ if !unknown.is_empty() => None,
                // What has failed stays as it is.
                Meaning::Failed if !self.outline.is_large() => {
                    keys.first().map(|(_, new)| new.clone())
                }
                Meaning::Done
                    if ask(&finished(name), &["its row is deleted".into()])?.is_some() =>
                {
                    deletes = true;
                    continue;
                }
                Meaning::New | Meaning::Failed | Meaning::Done | Meaning::LeftAlone => {
                    questions.push(self.missing(name, meaning, says));
                    None
                }
            };
            keys.push((key, value.unwrap_or_else(|| "?".into())));
        }
        if !unknown.is_empty() && keys.iter().all(|(_, value)| value != "?") {
            keys.push(("?", toml_list(&unknown)));
        }
        let is_told = with(Meaning::Failed).is_empty() && !self.outline.is_large();
        proposal.comment(match is_told && unknown.is_empty() {
            true => "the status; no value means failed, so a record that fails stays new",
            false => "the status",
        });
        for (meaning, says) in [
            (Meaning::Failed, "tried again; if it is given up for good, write it as archived"),
            (Meaning::LeftAlone, "left alone"),
        ] {
            let (refused, those): (Vec<_>, _) =
                with(meaning).into_iter().partition(|it| it.is_refused);
            for (those, why) in [(those, ""), (refused, ", and refused by a CHECK constraint")] {
                if !those.is_empty() {
                    proposal.comment(format!("{says}{why}: {}", display(&those)));
                }
            }
        }
        let line = keys.iter().map(|(key, value)| format!(", {key} = {value}"));
        let line: String = line.collect();
        proposal.open(&questions, &[format!("status = {{ column = {}{line} }}", Toml::from(name))]);
        let archives = keys.iter().any(|(key, _)| *key == "archived");
        let rows = |meaning| -> Vec<usize> {
            let values = with(meaning);
            let has = |row: &usize| values.iter().any(|it| it.value == *column.cells[*row]);
            (0..self.rows()).filter(has).collect()
        };
        let new = rows(Meaning::New);
        let waiting = [&new[..], &rows(Meaning::Failed)].concat();
        self.narrow(at, None, &waiting, archives, proposal, ask)?;
        let done = self.places(|it| it.is(Role::Done) && it.is_date());
        if done.len() > 1 {
            let names = listed(done.iter().map(|at| self.columns[*at].name()));
            let why = format!("a success sets none of {names}: add the right one to on_success");
            proposal.comment(why);
        }
        let set_now = || self.set_now(self.date_of(Role::Done));
        let on_success = if deletes { Some(DELETE.into()) } else { set_now() };
        Ok(Pending { on_success, archives, new })
    }

    /// The values of a status with their meanings, by usual words or as somebody answers; and those whose
    /// meaning is open.
    fn meanings(&self, column: &Column<'_>, ask: &mut Ask<'_>) -> Result<Meanings> {
        let has = |meaning| column.values.iter().any(|it| column.meaning(it) == Some(meaning));
        // Where attempts have an end, a failure may be final.
        let is_final = self.most_attempts().is_some() && !has(Meaning::GivenUp);
        let (mut values, mut unknown) = (Vec::new(), Vec::new());
        for value in &column.values {
            let word = column.meaning(value);
            let meaning = match word.filter(|word| !(is_final && *word == Meaning::Failed)) {
                Some(word) => Some(word),
                None if value.rows == 0 || value.is_refused => Some(Meaning::LeftAlone),
                None => {
                    let question = format!(
                        "{} has the value {}. Is it new, failed, done, given up, or none of these?",
                        column.name(),
                        display(std::slice::from_ref(value))
                    );
                    let answers = KEYS.map(|(.., answer)| answer).into_iter();
                    let answers = answers.chain(["none of these"]).map(String::from);
                    let answer = ask(&question, &answers.collect::<Vec<_>>())?;
                    answer.map(|at| KEYS.get(at).map_or(Meaning::LeftAlone, |key| key.1))
                }
            };
            match meaning {
                Some(meaning) => values.push((meaning, value.clone())),
                None => unknown.push(value.clone()),
            }
        }
        Ok((values, unknown))
    }

    /// The question about a meaning that no value has.
    fn missing(&self, name: &str, meaning: Meaning, says: &str) -> String {
        let write = "Write the value in place of ?";
        if meaning == Meaning::Done {
            let finished = finished(name);
            return format!(
                "{finished} {write}. If its row is deleted, leave success out and write {DELETE} \
                 instead of any other on_success."
            );
        }
        let (quoted, sql) = (quoted_if_needed(name), &self.outline.sql);
        let look = match self.outline.is_large() {
            true => {
                format!(" (of all rows: SELECT {quoted}, count(*) FROM {sql} GROUP BY {quoted})")
            }
            false => String::new(),
        };
        format!("no value of {name} here means {says}{look}. {write}.")
    }

    fn by_date(&self, at: usize, proposal: &mut Proposal, ask: &mut Ask<'_>) -> Result<Pending> {
        let column = &self.columns[at];
        let name = column.name();
        let [is_empty, _] = column.conditions();
        let counts = match column.empty {
            Some([empty, set]) => {
                let rows = counted(empty, "row");
                format!("it is {} in {rows}, and set in {set}", column.none())
            }
            None => "its rows could not be counted within a second".into(),
        };
        proposal.comment(format!("a record is pending while {is_empty}: {counts}"));
        let waiting: Vec<_> = (0..self.rows()).filter(|row| column.is_empty_at(*row)).collect();
        self.narrow(at, Some(is_empty), &waiting, false, proposal, ask)?;
        Ok(Pending { on_success: self.set_now(Some(name)), ..Pending::default() })
    }

    /// Writes the condition of pending rows. What may take some of them out of the queue is asked: another
    /// date or one of two values, attempts that have an end, and other tables.
    fn narrow(
        &self,
        at: usize,
        condition: Option<String>,
        waiting: &[usize],
        archives: bool,
        proposal: &mut Proposal,
        ask: &mut Ask<'_>,
    ) -> Result<()> {
        let others = self.columns.iter().enumerate().filter(|(place, _)| *place != at);
        let mut doubts: Vec<_> = others.filter_map(|(_, it)| it.doubt(waiting)).collect();
        if let (Some(counter), Some(most), false) = (self.counter(), self.most_attempts(), archives)
        {
            let [counter, most] = [counter, most].map(|it| quoted_if_needed(it.name()));
            let about = format!("{counter} may be as high as {most} in rows");
            doubts.push((about, [format!("{counter} < {most}"), format!("{counter} >= {most}")]));
        }
        let mut conditions: Vec<_> = condition.into_iter().collect();
        let mut questions = Vec::new();
        for (about, [without, with]) in doubts {
            let only =
                [&without, &with].map(|condition| format!("no, only those with {condition}"));
            let answers: Vec<_> = ["yes, all rows".into()].into_iter().chain(only).collect();
            let question = format!("{about} that would be pending. Are all of them pending?");
            let answer = ask(&question, &answers)?;
            if answer.is_none() {
                questions.push(format!(
                    "{question} For all of them take {without} out of this condition; for only \
                     the others write {with} in its place:"
                ));
            }
            match answer {
                Some(0) => {}
                Some(2) => conditions.push(with),
                _ => conditions.push(without),
            }
        }
        let tables = self.tables_of_states();
        if !tables.is_empty() {
            let question = format!("do the tables {tables} say which records are pending?");
            if ask(&question, &["no".into()])?.is_none() {
                questions.push(format!("{question} If so, add it to this condition:"));
            }
        }
        if !questions.is_empty() {
            let line = format!("# {}", where_line(&conditions));
            proposal.open(&questions, &[line, "where = ?".into()]);
        } else if !conditions.is_empty() {
            proposal.lines(vec![where_line(&conditions)]);
        }
        Ok(())
    }
}

fn finished(name: &str) -> String {
    format!("no value of {name} here means done. What becomes of a finished record?")
}

/// The values of one meaning as TOML. The first is the one that is written: of several somebody has to
/// say which.
fn written(
    column: &Column<'_>,
    says: &str,
    mut values: Vec<Counted>,
    questions: &mut Vec<String>,
    ask: &mut Ask<'_>,
) -> Result<Option<String>> {
    let default = column.column.default.as_deref().unwrap_or_default();
    let is_default = |it: &Counted| default.contains(&it.value.shown());
    let with_rows = values.iter().filter(|counted| counted.rows > 0).count();
    let mut first = values.iter().position(is_default);
    if first.is_none() && values.len() > 1 && with_rows != 1 {
        let names: Vec<_> = values.iter().map(|counted| counted.value.shown()).collect();
        let all = listed(names.iter().map(String::as_str));
        let name = column.name();
        let question = format!("{all} mean {says}. Which of them is to be written to {name}?");
        first = ask(&question, &names)?;
        if first.is_none() {
            let list = toml_list(&values);
            questions.push(format!("{question} Write {list} in place of ?, with that one first."));
            return Ok(None);
        }
    }
    values.swap(0, first.unwrap_or_default());
    Ok(Some(toml_list(&values)))
}

fn where_line(conditions: &[String]) -> String {
    format!("where = {}", Toml::from(conditions.join(" AND ")))
}

/// Values as TOML: one alone, or a list.
fn toml_list(values: &[Counted]) -> String {
    let toml = |counted: &Counted| match &counted.value {
        Value::Null => Toml::from("{null}"),
        Value::Integer(number) => Toml::from(*number),
        Value::Boolean(truth) => Toml::from(*truth),
        Value::Text(_) | Value::Real(_) | Value::Bytes(_) | Value::Blob(_) | Value::Json(_) => {
            Toml::from(counted.value.to_string())
        }
    };
    let mut all: Vec<_> = values.iter().map(toml).collect();
    match all.len() {
        1 => all.remove(0).to_string(),
        _ => Toml::from(all).to_string(),
    }
}
