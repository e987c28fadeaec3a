//! What says that a record is pending, and done: a status, or a date that is NULL until then.

use anyhow::Result;
use toml::Value as Toml;

use super::columns::{Column, display};
use super::propose::Evidence;
use super::words::{Meaning, Role, meaning};
use super::{Ask, Choice, Proposal};
use crate::names::listed;
use crate::record::{Value, counted};
use crate::store::{Counted, Holds, quoted_if_needed};

/// What is known of the rows that are pending, and done.
#[derive(Default)]
pub struct Pending {
    /// Rows of the sample that are done.
    pub done: Vec<usize>,
    /// What a success writes; none if it deletes the row, or if nobody has said it.
    pub on_success: Option<OnSuccess>,
    /// Whether a value says that a record is given up.
    pub archives: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub enum OnSuccess {
    Status,
    /// The date of the column at this place.
    Date(usize),
}

/// The keys of a status with what their values mean, as it is asked.
const KEYS: [(&str, Meaning, &str); 4] = [
    ("new", Meaning::New, "new"),
    ("error", Meaning::Failed, "failed"),
    ("success", Meaning::Done, "done"),
    ("archived", Meaning::GivenUp, "given up"),
];

/// The values of a status by what they mean.
struct Values(Vec<(Counted, Option<Meaning>)>);

impl Values {
    /// Sorts values by the usual words, and asks about the others.
    fn of(column: &Column<'_>, ask: &mut Ask<'_>) -> Result<Self> {
        if let Some(values) = Self::of_flag(column) {
            return Ok(values);
        }
        let mut values = Vec::new();
        for value in &column.values {
            let meaning = match word(value) {
                Some(word) => Some(word),
                None if value.is_refused => Some(Meaning::LeftAlone),
                None if value.rows == 0 => continue,
                None => {
                    let question = format!(
                        "{} has the value {}. Is it new, failed, done, given up, or none of these?",
                        column.name(),
                        display(std::slice::from_ref(value))
                    );
                    let answers = KEYS.iter().map(|(_, _, answer)| *answer);
                    let answers: Vec<_> =
                        answers.chain(["none of these"]).map(String::from).collect();
                    let answer = ask(&question, &answers)?;
                    answer.map(|at| KEYS.get(at).map_or(Meaning::LeftAlone, |key| key.1))
                }
            };
            values.push((value.clone(), meaning));
        }
        Ok(Self(values))
    }

    /// The values of a column such as `is_sent` that says yes or no.
    fn of_flag(column: &Column<'_>) -> Option<Self> {
        let values = match column.column.holds == Holds::Booleans {
            true => [false, true].map(Value::Boolean),
            false => [0, 1].map(Value::Integer),
        };
        let is_one = |counted: &Counted| values.contains(&counted.value);
        if !column.is(Role::Done) || !column.values.iter().all(is_one) {
            return None;
        }
        let counted = |value: &Value| {
            let counted = column.values.iter().find(|counted| counted.value == *value).cloned();
            counted.unwrap_or(Counted { value: value.clone(), rows: 0, is_refused: false })
        };
        let meanings = [Meaning::New, Meaning::Done].map(Some);
        Some(Self(values.iter().map(counted).zip(meanings).collect()))
    }

    fn with(&self, meaning: Option<Meaning>) -> Vec<Counted> {
        self.0.iter().filter(|(_, it)| *it == meaning).map(|(value, _)| value.clone()).collect()
    }

    fn means(&self, value: &Value, meanings: &[Meaning]) -> bool {
        let meaning = self.0.iter().find(|(it, _)| it.value == *value).and_then(|(_, it)| *it);
        meaning.is_some_and(|meaning| meanings.contains(&meaning))
    }
}

fn word(counted: &Counted) -> Option<Meaning> {
    if let Value::Text(text) = &counted.value {
        meaning(text).filter(|_| !counted.is_refused)
    } else {
        None
    }
}

impl Evidence<'_> {
    pub fn pending(&self, proposal: &mut Proposal, ask: &mut Ask<'_>) -> Result<Pending> {
        let statuses = self.statuses();
        if let [status] = statuses[..] {
            return self.by_status(status, proposal, ask);
        }
        let is_done = |it: &Column<'_>| it.is(Role::Done) && it.is_date() && !it.column.not_null;
        let dates = self.places(is_done);
        if let ([], [date]) = (&statuses[..], &dates[..]) {
            return self.by_date(*date, proposal, ask);
        }
        let question = match (&statuses[..], &dates[..]) {
            ([], []) => "which rows are pending, and what becomes of a finished one?",
            ([], _) => "which date says that a record is done?",
            _ => "which column is the status?",
        };
        let is_any = |it: &Column<'_>| matches!(it.role, None | Some(Role::Done));
        let (statuses, dates) = match (statuses.is_empty(), dates.is_empty()) {
            (true, true) => (
                self.places(|it| it.distinct() > 0 && is_any(it)),
                self.places(|it| it.is_date() && !it.is_full() && is_any(it)),
            ),
            _ => (statuses, dates),
        };
        self.choose(question, &statuses, &dates, proposal, ask)
    }

    /// The columns that may be the status: those that have usual values, or else are called so.
    fn statuses(&self) -> Vec<usize> {
        let has_words = |it: &Column<'_>| {
            let words = it.values.iter().filter_map(word);
            let usual = words.filter(|word| *word != Meaning::LeftAlone).count();
            // `new` may be a state of goods.
            usual > 0 && (it.is(Role::Status) || it.role.is_none() && usual * 2 > it.values.len())
        };
        let is_named = |it: &Column<'_>| {
            !it.values.is_empty() && (it.is(Role::Status) || it.is(Role::Done) && !it.is_date())
        };
        let is_status = |it: &Column<'_>| it.name().eq_ignore_ascii_case("status");
        let is_first = self.places(|it| is_named(it) && is_status(it));
        let usual = self.places(has_words);
        let all = [is_first, usual, self.places(is_named)];
        all.into_iter().find(|columns| !columns.is_empty()).unwrap_or_default()
    }

    /// Asks which column it is, or whether all rows are pending.
    fn choose(
        &self,
        question: &str,
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
            let condition = format!("where = {}", Toml::from(is_null(name)));
            let lines = [Some(condition), self.set_now(&[Some(name), self.updated()])];
            let lines = lines.into_iter().flatten().collect();
            Choice::new(format!("a record is pending while {name} is NULL"), lines)
        };
        let delete = vec!["where = \"1 = 1\"".into(), "on_success = \"delete\"".into()];
        let delete = Choice::new("all rows are pending, and a finished one is deleted", delete);
        let choices = statuses.iter().map(of_status).chain(dates.iter().map(of_date));
        let choices: Vec<_> = choices.chain([delete]).collect();
        let answers: Vec<_> = choices.iter().map(|choice| choice.answer.clone()).collect();
        let chosen = ask(question, &answers)?;
        if let Some(column) = chosen.and_then(|at| statuses.iter().chain(dates).nth(at)) {
            return match statuses.contains(column) {
                true => self.by_status(*column, proposal, ask),
                false => self.by_date(*column, proposal, ask),
            };
        }
        let open = vec!["where = ?".into(), "on_success = ?".into()];
        proposal.choose(&mut |_, _| Ok(chosen), question, choices, open)?;
        Ok(Pending::default())
    }

    fn by_status(&self, at: usize, proposal: &mut Proposal, ask: &mut Ask<'_>) -> Result<Pending> {
        let column = &self.columns[at];
        let name = column.name();
        let mut values = Values::of(column, ask)?;
        let has_rows = display(&column.values);
        proposal.comment(format!("the status; {has_rows}{}", unused(&column.values)));
        for (counted, meaning) in &mut values.0 {
            let rows = (0..self.rows()).filter(|row| *column.cells[*row] == counted.value);
            let is_spent =
                counted.rows > 0 && rows.map(|row| self.is_spent(row)).min() == Some(true);
            if *meaning == Some(Meaning::Failed) && is_spent {
                *meaning = Some(Meaning::GivenUp);
                let value = counted.value.shown();
                proposal.comment(format!("{value} is given up: no such row has attempts left"));
            }
        }
        let (unknown, mut questions) = (values.with(None), Vec::new());
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
            let those = values.with(Some(meaning));
            let value = match meaning {
                _ if !those.is_empty() => written(column, says, those, &mut questions, ask)?,
                Meaning::GivenUp => continue,
                // What has failed stays as it is.
                Meaning::Failed if unknown.is_empty() => keys.first().map(|(_, new)| new.clone()),
                _ if !unknown.is_empty() => None,
                Meaning::Done => {
                    let question = format!("no value of {name} here means done.");
                    let asked = format!("{question} What becomes of a finished record?");
                    deletes = ask(&asked, &["its row is deleted".into()])?.is_some();
                    if deletes {
                        continue;
                    }
                    questions.push(format!(
                        "{question} Write the value that a finished record gets in place of ?; \
                         if its row is deleted, write on_success = \"delete\" and no success."
                    ));
                    None
                }
                Meaning::New | Meaning::Failed | Meaning::LeftAlone => {
                    questions.push(format!(
                        "no value of {name} here means {says}. Write it in place of ?."
                    ));
                    None
                }
            };
            keys.push((key, value.unwrap_or_else(|| "?".into())));
        }
        if !unknown.is_empty() && keys.iter().all(|(_, value)| value != "?") {
            keys.push(("?", toml_list(&unknown)));
        }
        let line = keys.iter().map(|(key, value)| format!(", {key} = {value}"));
        let line: String = line.collect();
        let line = format!("status = {{ column = {}{line} }}", Toml::from(name));
        self.explain(&values, proposal);
        proposal.open(&questions, &[line]);
        if deletes {
            proposal.lines(vec!["on_success = \"delete\"".into()]);
        }
        let rows = |meanings: &[Meaning]| -> Vec<usize> {
            (0..self.rows()).filter(|row| values.means(column.cells[*row], meanings)).collect()
        };
        self.narrow(at, None, &rows(&[Meaning::New]), proposal, ask)?;
        Ok(Pending {
            done: rows(&[Meaning::Done]),
            on_success: (!deletes).then_some(OnSuccess::Status),
            archives: keys.iter().any(|(key, _)| *key == "archived"),
        })
    }

    /// Comments on what is tried again, and what is not touched.
    fn explain(&self, values: &Values, proposal: &mut Proposal) {
        let with_rows = |meaning| {
            let mut those = values.with(Some(meaning));
            those.retain(|counted| counted.rows > 0);
            those
        };
        let (failed, left) = (with_rows(Meaning::Failed), with_rows(Meaning::LeftAlone));
        if !failed.is_empty() {
            proposal.comment(format!(
                "{} is tried again; if it is given up for good, name it as archived, not as error",
                display(&failed)
            ));
        }
        if values.with(Some(Meaning::Failed)).is_empty() && values.with(None).is_empty() {
            proposal.comment("no value means failed: a failed record keeps its value");
        }
        let (refused, left): (Vec<_>, _) = left.into_iter().partition(|it| it.is_refused);
        if !left.is_empty() {
            proposal.comment(format!("left alone: {}", display(&left)));
        }
        if !refused.is_empty() {
            proposal.comment(format!(
                "left alone, and refused by a CHECK constraint: {}",
                display(&refused)
            ));
        }
    }

    fn by_date(&self, at: usize, proposal: &mut Proposal, ask: &mut Ask<'_>) -> Result<Pending> {
        let column = &self.columns[at];
        let name = column.name();
        let counts = match column.nulls {
            Some([null, set]) => {
                format!("it is NULL in {}, and set in {set}", counted(null, "row"))
            }
            None => "its rows could not be counted within a second".into(),
        };
        proposal.comment(format!("a record is pending while {name} is NULL: {counts}"));
        let (waiting, done): (Vec<_>, _) =
            (0..self.rows()).partition(|row| column.cells[*row].is_null());
        self.narrow(at, Some(is_null(name)), &waiting, proposal, ask)?;
        Ok(Pending { done, on_success: Some(OnSuccess::Date(at)), archives: false })
    }

    /// Writes the condition of pending rows, after the questions that only the user can answer.
    fn narrow(
        &self,
        at: usize,
        condition: Option<String>,
        waiting: &[usize],
        proposal: &mut Proposal,
        ask: &mut Ask<'_>,
    ) -> Result<()> {
        let mut conditions: Vec<_> = condition.into_iter().collect();
        let mut questions = Vec::new();
        for Doubt { about, conditions: [without, with] } in self.doubts(at, waiting) {
            let answers = [
                "yes, all rows".into(),
                format!("no, only those with {without}"),
                format!("no, only those with {with}"),
            ];
            let question = format!("{about} Are all of them pending?");
            match ask(&question, &answers)? {
                Some(0) => {}
                Some(1) => conditions.push(without),
                Some(_) => conditions.push(with),
                None => {
                    questions
                        .push(format!("{question} If so, take {without} out of this condition:"));
                    conditions.push(without);
                }
            }
        }
        let states = self.tables_of_states();
        if !states.is_empty() {
            let question = format!("do the tables {states} say which records are pending?");
            if ask(&question, &["no".into()])?.is_none() {
                questions.push(format!("{question} If so, add it to this condition:"));
            }
        }
        let line = format!("where = {}", Toml::from(conditions.join(" AND ")));
        if !questions.is_empty() {
            proposal.open(&questions, &[format!("# {line}"), "where = ?".into()]);
        } else if !conditions.is_empty() {
            proposal.lines(vec![line]);
        }
        Ok(())
    }

    /// What may take some of the pending rows out of the queue: another date, a mark of a worker, a flag
    /// that is called like a status, and attempts that are used up.
    fn doubts(&self, at: usize, waiting: &[usize]) -> Vec<Doubt> {
        let all = counted(waiting.len() as u64, "row");
        let is_doubtful = |it: &Column<'_>| match it.role {
            Some(Role::Lock) => true,
            None | Some(Role::Done) => it.is_date() || it.is_flag() && meaning(it.name()).is_some(),
            Some(_) => false,
        };
        let mut doubts = Vec::new();
        for place in self.places(is_doubtful).into_iter().filter(|place| *place != at) {
            let column = &self.columns[place];
            let set = waiting.iter().filter(|row| !column.is_empty_at(**row)).count();
            if set > 0 && (0..self.rows()).any(|row| column.is_empty_at(row)) {
                let about =
                    format!("{} is set in {set} of {all} that would be pending.", column.name());
                doubts.push(Doubt { about, conditions: column.conditions() });
            }
        }
        let spent = waiting.iter().filter(|row| self.is_spent(**row)).count();
        if let (Some(counter), Some(most)) = (self.counter(), self.most_attempts())
            && spent > 0
        {
            let [counter, most] = [counter, most].map(|it| quoted_if_needed(it.name()));
            doubts.push(Doubt {
                about: format!("{spent} of {all} that would be pending have no attempts left."),
                conditions: ["<", ">="].map(|sign| format!("{counter} {sign} {most}")),
            });
        }
        doubts
    }

    /// Whether a row has had as many attempts as it says that there are.
    fn is_spent(&self, row: usize) -> bool {
        let number = |column: Option<&Column<'_>>| column?.number_at(row);
        let [count, most] = [self.counter(), self.most_attempts()].map(number);
        count.zip(most).is_some_and(|(count, most)| count >= most)
    }
}

/// Something that may say that rows are not pending, and the conditions of rows without and with it.
struct Doubt {
    about: String,
    conditions: [String; 2],
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
    if let Some(first) = values.iter().position(is_default) {
        values.swap(0, first);
    } else if values.len() > 1 && with_rows != 1 {
        let names: Vec<_> = values.iter().map(|counted| counted.value.shown()).collect();
        let all = listed(names.iter().map(String::as_str));
        let name = column.name();
        let question = format!("{all} mean {says}. Which of them is to be written to {name}?");
        let Some(first) = ask(&question, &names)? else {
            let list = toml_list(&values);
            questions.push(format!("{question} Write {list} in place of ?, with that one first."));
            return Ok(None);
        };
        values.swap(0, first);
    }
    Ok(Some(toml_list(&values)))
}

/// `; no row has 'dead'`
fn unused(values: &[Counted]) -> String {
    let unused = values.iter().filter(|counted| counted.rows == 0);
    let unused: Vec<_> = unused.map(|counted| counted.value.shown()).collect();
    let listed = listed(unused.iter().map(String::as_str));
    if unused.is_empty() { listed } else { format!("; no row has {listed}") }
}

fn is_null(name: &str) -> String {
    format!("{} IS NULL", quoted_if_needed(name))
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
