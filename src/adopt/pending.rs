//! The mapping of pending and finished records: by a status, or by a date that is NULL until the end.

use anyhow::Result;
use backlog_schedule::{Value, listed};
use backlog_store::{ValueCount, quoted_if_needed};
use toml::Value as Toml;

use super::profile::{Profile, TableProfile, display};
use super::proposal::{Proposal, toml};
use super::words::{Meaning, Role, meaning};

/// Results that later lines of the section need.
#[derive(Default)]
pub struct Pending {
    pub on_success: String,
    /// The table has a value for archived records.
    pub archives: bool,
    /// The rows of the sample that are NEW.
    pub new: Vec<usize>,
}

const KEYS: [(&str, Meaning, &str); 4] = [
    ("new", Meaning::New, "new"),
    ("error", Meaning::Failed, "failed"),
    ("success", Meaning::Done, "done"),
    ("archived", Meaning::GivenUp, "given up"),
];

pub const ADD_CONDITION: &str = "If so, add it to this condition:";
const DELETE: &str = "on_success = \"delete\"";

struct ValueMeanings<'a> {
    column: &'a Profile<'a>,
    values: Vec<(Option<Meaning>, &'a ValueCount)>,
}

impl ValueMeanings<'_> {
    fn with(&self, meaning: Option<Meaning>) -> Vec<&ValueCount> {
        let values = self.values.iter().filter(|(other, _)| *other == meaning);
        values.map(|(_, value)| *value).collect()
    }

    fn has_unknown(&self) -> bool {
        self.values.iter().any(|(meaning, _)| meaning.is_none())
    }

    fn rows(&self, meaning: Meaning) -> Vec<usize> {
        let (values, cells) = (self.with(Some(meaning)), self.column.cells);
        let has_value = |row: &usize| values.iter().any(|value| value.value == cells[*row]);
        (0..cells.len()).filter(has_value).collect()
    }
}

impl TableProfile<'_> {
    pub fn pending(&self, proposal: &mut Proposal<'_>) -> Result<Pending> {
        let statuses = self.statuses();
        let dates = self.filter(|column| {
            let may_be_empty = !column.schema.not_null || column.empty_rows() > 0;
            column.has_role(Role::Done) && column.is_date() && may_be_empty
        });
        match (&statuses[..], &dates[..]) {
            // A name without usual values, or usual values without a name, may mean anything.
            ([status], _)
                if status.is_named_as_status()
                    && (status.has_usual_values() || dates.is_empty()) =>
            {
                self.by_status(status, proposal)
            }
            ([], [date]) => self.by_date(date, proposal),
            ([], []) => {
                let is_possible =
                    |column: &Profile<'_>| matches!(column.role, None | Some(Role::Done));
                let few = self.filter(|column| column.distinct() > 1 && is_possible(column));
                let dates = self
                    .filter(|column| column.is_date() && !column.is_full() && is_possible(column));
                self.choose_pending(&few, &dates, proposal)
            }
            _ => self.choose_pending(&statuses, &dates, proposal),
        }
    }

    /// The columns that may be the status, by their names or their values. A column `status` excludes the others.
    fn statuses(&self) -> Vec<&Profile<'_>> {
        let mut all = self.filter(|column| {
            !column.values.is_empty() && column.is_named_as_status()
                || column.role.is_none() && column.has_usual_values()
        });
        let is_status = |column: &&Profile<'_>| column.name().eq_ignore_ascii_case("status");
        if all.iter().any(is_status) {
            all.retain(is_status);
        }
        all
    }

    fn choose_pending(
        &self,
        statuses: &[&Profile<'_>],
        dates: &[&Profile<'_>],
        proposal: &mut Proposal<'_>,
    ) -> Result<Pending> {
        let by_status = |column: &&Profile<'_>| {
            let name = column.name();
            let line = format!("column = {}, new = ?, error = ?, success = ?", toml(name));
            let answer = format!("{name} is the status: {}", display(column.values));
            (answer, format!("status = {{ {line} }}\n"))
        };
        let by_date = |column: &&Profile<'_>| {
            let [is_empty, _] = column.conditions();
            let on_success = self.set_now(Some(column.name()));
            let lines = format!("where = {}\n{on_success}", toml(&is_empty));
            (format!("a record is pending while {is_empty}"), lines)
        };
        let delete = "all rows are pending, and finished ones are deleted".into();
        let delete = (delete, format!("where = \"1 = 1\"\n{DELETE}\n"));
        let choices = statuses.iter().map(by_status).chain(dates.iter().map(by_date));
        let choices: Vec<_> = choices.chain([delete]).collect();
        let answers: Vec<_> = choices.iter().map(|(answer, _)| answer.clone()).collect();
        let question = "which rows are pending, and what happens to finished ones?";
        let chosen = proposal.terminal.choose(question, &answers)?;
        match chosen.and_then(|at| statuses.iter().chain(dates).nth(at).zip(Some(at))) {
            Some((column, at)) if at < statuses.len() => self.by_status(column, proposal),
            Some((column, _)) => self.by_date(column, proposal),
            None => {
                proposal.answer(question, &choices, "where = ?\non_success = ?", chosen);
                Ok(Pending::default())
            }
        }
    }

    fn by_status(&self, column: &Profile<'_>, proposal: &mut Proposal<'_>) -> Result<Pending> {
        let status = ValueMeanings { column, values: self.meanings(column, proposal)? };
        self.describe_status(&status, proposal);
        let keys = self.status_keys(&status, proposal)?;
        let line: String = keys.iter().map(|(key, value)| format!(", {key} = {value}")).collect();
        proposal.line(&format!("status = {{ column = {}{line} }}", toml(column.name())));
        let has_key = |name: &str| keys.iter().any(|(key, _)| *key == name);
        let (archives, new) = (has_key("archived"), status.rows(Meaning::New));
        let pending = [&new[..], &status.rows(Meaning::Failed)].concat();
        self.narrow(column, None, &pending, archives, proposal)?;
        let done = self.filter(|column| column.has_role(Role::Done) && column.is_date());
        if done.len() > 1 {
            let names = listed(done.iter().map(|column| column.name()));
            let why = format!("a success sets none of {names}: add the right one to on_success");
            proposal.comment(&why);
        }
        let on_success = match has_key("success") {
            true => self.set_now(self.writable_date(Role::Done)),
            false => format!("{DELETE}\n"),
        };
        Ok(Pending { on_success, archives, new })
    }

    /// Writes comments on the values that are tried again or left alone, and a question about the unknown ones.
    fn describe_status(&self, status: &ValueMeanings<'_>, proposal: &mut Proposal<'_>) {
        let has_failed = !status.with(Some(Meaning::Failed)).is_empty();
        proposal.comment(match has_failed || self.outline.is_large || status.has_unknown() {
            false => "the status; no value means failed, so a record that fails stays new",
            true => "the status",
        });
        for (meaning, comment) in [
            (Meaning::Failed, "tried again; if it is given up for good, write it as archived"),
            (Meaning::LeftAlone, "left alone"),
        ] {
            let values = status.with(Some(meaning));
            if !values.is_empty() {
                proposal.comment(&format!("{comment}: {}", display(values)));
            }
        }
        if status.has_unknown() {
            proposal.question(&format!(
                "{} has the value {}. Is it new, failed (error), done (success), given up (archived), \
                 or none of these? Write each such value in place of a ?, or leave it out: then its rows \
                 are left alone.",
                status.column.name(),
                display(status.with(None))
            ));
        }
    }

    /// The keys of the status with their values as TOML. Without `success`, the row of a finished record is deleted.
    fn status_keys(
        &self,
        status: &ValueMeanings<'_>,
        proposal: &mut Proposal<'_>,
    ) -> Result<Vec<(&'static str, String)>> {
        let mut keys = Vec::<(&str, String)>::new();
        for (key, meaning, word) in KEYS {
            let values = status.with(Some(meaning));
            let none = format!("no value of {} here means {word}", status.column.name());
            let value = match meaning {
                _ if !values.is_empty() => written(status.column, word, values, proposal)?,
                Meaning::GivenUp => continue,
                _ if status.has_unknown() => "?".into(),
                // A record that fails stays new.
                Meaning::Failed if !self.outline.is_large => keys[0].1.clone(),
                Meaning::Done => {
                    let question = format!("{none}. What happens to a finished record?");
                    let remedy = format!(
                        "Write the value in place of ?. If its row is deleted, leave success out and \
                         write {DELETE} instead of any other on_success."
                    );
                    let answers = ["its row is deleted".into()];
                    if proposal.ask_or_leave_open(&question, &answers, &remedy)?.is_some() {
                        continue;
                    }
                    "?".into()
                }
                Meaning::New | Meaning::Failed | Meaning::LeftAlone => {
                    let (column, sql) = (quoted_if_needed(status.column.name()), &self.outline.sql);
                    let query = format!("SELECT {column}, count(*) FROM {sql} GROUP BY {column}");
                    let all = format!(" (all values: {query})");
                    let all = if self.outline.is_large { &all } else { "" };
                    proposal.question(&format!("{none}{all}. Write the value in place of ?."));
                    "?".into()
                }
            };
            keys.push((key, value));
        }
        if status.has_unknown() && keys.iter().all(|(_, value)| value != "?") {
            keys.push(("?", toml_list(&status.with(None))));
        }
        Ok(keys)
    }

    /// The values of a status with their meanings, from usual words or from answers.
    fn meanings<'c>(
        &self,
        column: &'c Profile<'_>,
        proposal: &Proposal<'_>,
    ) -> Result<Vec<(Option<Meaning>, &'c ValueCount)>> {
        let is_given_up = |value: &ValueCount| column.meaning(value) == Some(Meaning::GivenUp);
        // With a limit of attempts, a failure may be final.
        let may_be_final = self.max_attempts().is_some() && !column.values.iter().any(is_given_up);
        let meanings = column.values.iter().map(|value| {
            let usual = column.meaning(value);
            let meaning = match usual {
                Some(meaning) if !(may_be_final && meaning == Meaning::Failed) => Some(meaning),
                Some(_) | None if value.rows == 0 || value.is_refused => Some(Meaning::LeftAlone),
                Some(_) | None => ask_meaning(column, value, proposal)?,
            };
            Ok((meaning, value))
        });
        meanings.collect()
    }

    fn by_date(&self, column: &Profile<'_>, proposal: &mut Proposal<'_>) -> Result<Pending> {
        let [is_empty, _] = column.conditions();
        let rows = column.display_emptiness();
        proposal.comment(&format!("a record is pending while {is_empty}: it is {rows}"));
        let rows = 0..column.cells.len();
        let pending: Vec<_> = rows.filter(|row| column.is_empty_at(*row)).collect();
        self.narrow(column, Some(is_empty), &pending, false, proposal)?;
        let on_success = self.set_now(Some(column.name()));
        Ok(Pending { on_success, ..Pending::default() })
    }

    /// Writes the condition of pending rows, and asks about columns that may exclude some of them.
    fn narrow(
        &self,
        column: &Profile<'_>,
        condition: Option<String>,
        pending: &[usize],
        archives: bool,
        proposal: &mut Proposal<'_>,
    ) -> Result<()> {
        let others = self.columns.iter().filter(|other| other.name() != column.name());
        let mut doubts: Vec<_> = others.filter_map(|other| other.doubt(pending)).collect();
        if let (Some(counter), Some(max), false) = (self.counter(), self.max_attempts(), archives) {
            let [counter, max] = [counter, max].map(|column| quoted_if_needed(column.name()));
            let about = format!("{counter} may have reached {max} in rows");
            doubts.push((about, [format!("{counter} < {max}"), format!("{counter} >= {max}")]));
        }
        let (mut conditions, questions_before) = (Vec::from_iter(condition), proposal.questions);
        for (about, [without, with]) in doubts {
            let question = format!("{about} that would be pending. Are all of them pending?");
            let only = |condition| format!("no, only those with {condition}");
            let answers = ["yes, all rows".into(), only(&without), only(&with)];
            let remedy = format!(
                "If all of them are, remove {without} from this condition; if only the others are, \
                 replace it with {with}:"
            );
            match proposal.ask_or_leave_open(&question, &answers, &remedy)? {
                Some(0) => {}
                Some(2) => conditions.push(with),
                Some(_) | None => conditions.push(without),
            }
        }
        let is_state = |name: &&String| name.split('_').any(|part| meaning(part).is_some());
        let tables = listed(self.outline.sisters.iter().filter(is_state).map(String::as_str));
        let question = format!("do the tables {tables} show which records are pending?");
        if !tables.is_empty() {
            proposal.ask_or_leave_open(&question, &["no".into()], ADD_CONDITION)?;
        }
        let line = format!("where = {}", toml(&conditions.join(" AND ")));
        if proposal.questions > questions_before {
            proposal.line(&format!("# {line}\nwhere = ?"));
        } else if !conditions.is_empty() {
            proposal.line(&line);
        }
        Ok(())
    }
}

fn ask_meaning(
    column: &Profile<'_>,
    value: &ValueCount,
    proposal: &Proposal<'_>,
) -> Result<Option<Meaning>> {
    let question = format!(
        "{} has the value {}. Is it new, failed, done, given up, or none of these?",
        column.name(),
        display([value])
    );
    let answers = KEYS.iter().map(|(.., word)| *word).chain(["none of these"]);
    let answers: Vec<_> = answers.map(String::from).collect();
    let answer = proposal.terminal.choose(&question, &answers)?;
    Ok(answer.map(|at| KEYS.get(at).map_or(Meaning::LeftAlone, |key| key.1)))
}

/// The values of one meaning as TOML. The first is the one to write; if several are possible, it asks.
fn written(
    column: &Profile<'_>,
    word: &str,
    mut values: Vec<&ValueCount>,
    proposal: &mut Proposal<'_>,
) -> Result<String> {
    let default = column.schema.default.as_deref().unwrap_or_default();
    let mut first = values.iter().position(|value| default.contains(&value.value.literal()));
    let with_rows = values.iter().filter(|value| value.rows > 0).count();
    if first.is_none() && values.len() > 1 && with_rows != 1 {
        let names: Vec<_> = values.iter().map(|value| value.value.literal()).collect();
        let all = listed(names.iter().map(String::as_str));
        let name = column.name();
        let question = format!("{all} mean {word}. Which of them is to be written to {name}?");
        let list = toml_list(&values);
        let remedy = format!("Write {list} in place of ?, beginning with that value.");
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
