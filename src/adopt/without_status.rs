//! Tables without a status: a date that is NULL as long as a record is pending, a truth that is false, or
//! rows that go when they are done.

use toml::Value as Toml;

use super::profile::Profile;
use super::propose::{Evidence, OnSuccess, Pending, Values, bare};
use super::words::Word;
use super::{Choice, Proposal, Question, Step};
use crate::nearest::listed;
use crate::record::Value;
use crate::store::{Column, Holds, quoted_if_needed};

pub fn by_dates(
    evidence: &Evidence<'_>,
    proposal: &mut Proposal,
    values: &mut Values<'_>,
) -> Option<Pending> {
    let truths: Vec<_> = evidence.all(Word::Done).filter(|it| is_truth(it, values)).collect();
    let done = evidence.all(Word::Done).filter(|it| it.is_date() && !it.is_full());
    let done: Vec<_> = done.collect();
    match (&done[..], &truths[..]) {
        _ if evidence.has_state_elsewhere() => {
            ask_about_elsewhere(evidence, proposal);
            None
        }
        ([], [only]) if !evidence.has_other_flags(only) => Some(by_truth(evidence, only, proposal)),
        ([only], []) if are_kept(evidence, only) && !evidence.has_other_flags(only) => {
            by_done(evidence, only, proposal)
        }
        ([], []) => by_absence(evidence, proposal),
        (_, _) => {
            let names = done.iter().chain(&truths).map(|it| it.name());
            let names: Vec<_> = names.collect();
            proposal.step(Step::Question(Question {
                about: "what says that a record is done?".into(),
                why: format!("{} may", listed("", names.iter().copied())),
                choices: names.iter().map(|name| by_null(name)).collect(),
            }));
            None
        }
    }
}

fn by_null(name: &str) -> Choice {
    let condition = format!("{} IS NULL", quoted_if_needed(name));
    let lines = vec![
        format!("where = {}", Toml::from(condition)),
        format!("on_success = {{ {} = \"{{now}}\" }}", bare(name)),
    ];
    Choice::new(lines, format!("a row is pending as long as {name} is NULL"))
}

/// Whether finished rows stay, with the date: of what is handed out and then deleted few have one.
fn are_kept(evidence: &Evidence<'_>, done: &Profile<'_>) -> bool {
    let kept = (0..evidence.rows()).filter(|row| !done.is_none_at(*row)).count();
    kept > 0 && kept * 4 >= evidence.rows()
}

fn by_truth(evidence: &Evidence<'_>, done: &Profile<'_>, proposal: &mut Proposal) -> Pending {
    let name = done.name();
    let is_boolean = done.column.holds == Holds::Booleans;
    let (no, yes) = if is_boolean { ("false", "true") } else { ("0", "1") };
    let column = Toml::from(name);
    proposal.line(
        "no status: this says whether a record is done",
        format!("status = {{ column = {column}, new = {no}, error = {no}, success = {yes} }}"),
    );
    let is_done =
        |row: &usize| matches!(done.values[*row], Value::Integer(1) | Value::Boolean(true));
    let sql = quoted_if_needed(name);
    Pending {
        conditions: Vec::new(),
        open: if is_boolean { format!("NOT {sql}") } else { format!("{sql} = 0") },
        done: (0..evidence.rows()).filter(is_done).collect(),
        on_success: OnSuccess::Status,
        archives: false,
    }
}

fn by_done(
    evidence: &Evidence<'_>,
    done: &Profile<'_>,
    proposal: &mut Proposal,
) -> Option<Pending> {
    let nullable = |word: Word| {
        evidence.all(word).filter(|it| it.is_date() && !it.is_full()).collect::<Vec<_>>()
    };
    let now = evidence.newest();
    let is_past = |it: &&&Profile<'_>| {
        let instants = it.instants.as_deref().unwrap_or_default();
        instants.iter().flatten().all(|at| now.is_none_or(|now| *at <= now))
    };
    let given_up = nullable(Word::GivenUp);
    let given_up: Vec<_> = given_up.iter().filter(is_past).copied().collect();
    let open = format!("{} IS NULL", quoted_if_needed(done.name()));
    let mut conditions = vec![open.clone()];
    let others = [nullable(Word::Cancelled), nullable(Word::Deleted)].concat();
    let of_others = given_up.iter().copied().chain(others);
    conditions.extend(of_others.map(|it| format!("{} IS NULL", quoted_if_needed(it.name()))));
    conditions.extend(not_in_hand(evidence));
    if let [failed] = nullable(Word::Failed)[..] {
        let both = (0..evidence.rows()).any(|row| !failed.is_none_at(row) && !done.is_none_at(row));
        if !both && given_up.is_empty() {
            ask_about_failed_date(proposal, done, failed, &conditions);
            return None;
        }
    }
    if let Some(begun) = begun(evidence, done) {
        let is_reset = evidence.counter().is_some_and(|counter| {
            (0..evidence.rows()).any(|row| {
                done.is_none_at(row)
                    && begun.is_none_at(row)
                    && counter.number_at(row).is_some_and(|count| count > 0)
            })
        });
        if !is_reset {
            ask_about_begun(proposal, done, begun, &conditions);
            return None;
        }
        conditions.push(format!("{} IS NULL", quoted_if_needed(begun.name())));
    }
    if let [given_up] = given_up[..] {
        proposal.step(Step::Comment(format!("given up: {} has a date", given_up.name())));
        proposal.step(Step::Lines(archived_by(given_up.name())));
    }
    Some(Pending {
        conditions,
        open,
        done: (0..evidence.rows()).filter(|row| !done.is_none_at(*row)).collect(),
        on_success: OnSuccess::Date(done.name().into()),
        archives: given_up.len() == 1,
    })
}

/// The date when an attempt began, where rows have it that are not done.
fn begun<'e, 'a>(evidence: &'e Evidence<'a>, done: &Profile<'_>) -> Option<&'e Profile<'a>> {
    let is_last = |it: &Profile<'_>| it.name().to_lowercase().contains("last");
    let begun = evidence.only(Word::Tried, |it| it.is_date() && !it.is_full() && !is_last(it))?;
    let is_open = |row: usize| done.is_none_at(row) && !begun.is_none_at(row);
    (0..evidence.rows()).any(is_open).then_some(begun)
}

/// The condition of rows that no worker has reserved.
fn not_in_hand(evidence: &Evidence<'_>) -> Option<String> {
    let is_lock = |it: &&Profile<'_>| {
        let name = it.name().to_lowercase();
        let words = ["lock", "reserv", "claim", "leas", "picked", "taken", "grabbed"];
        words.iter().any(|word| name.contains(word)) && !it.is(Word::Due)
    };
    let lock = evidence.all(Word::Locked).find(is_lock)?;
    let name = quoted_if_needed(lock.name());
    let is_zero = |value: &&Value| matches!(value, Value::Integer(0));
    if lock.values.iter().any(is_zero) {
        return Some(format!("{name} = 0"));
    }
    (!lock.column.not_null).then(|| format!("{name} IS NULL"))
}

/// Nothing says that a record is done. Where hardly any of the ids are there that were given, and the
/// table is one of jobs, finished rows are deleted.
fn by_absence(evidence: &Evidence<'_>, proposal: &mut Proposal) -> Option<Pending> {
    let words = [Word::Attempts, Word::Due, Word::Locked, Word::MostAttempts, Word::Error];
    let is_of_jobs = words.iter().filter(|it| evidence.all(**it).next().is_some()).count() > 1;
    let last = evidence.last_number().filter(|_| is_of_jobs);
    let rows = evidence.rows();
    let Some(last) = last.filter(|last| rows > 0 && *last > 4 * rows as u64) else {
        ask_about_pending(proposal);
        return None;
    };
    proposal.line(
        format!(
            "{rows} rows are there of {last} ids, and no column says that a record is done: finished ones \
             are deleted"
        ),
        "on_success = \"delete\"".into(),
    );
    let conditions: Vec<_> = not_in_hand(evidence).into_iter().collect();
    let is_all = conditions.is_empty();
    Some(Pending {
        conditions: if is_all { vec!["1 = 1".into()] } else { conditions },
        open: "1 = 1".into(),
        done: Vec::new(),
        on_success: OnSuccess::Delete,
        archives: false,
    })
}

/// Words of other tables that have a part of the state of this one.
const STATES: [&str; 7] = ["failed", "claimed", "ready", "blocked", "locked", "dead", "execution"];
/// Words of flags that have a part of the state.
const FLAGS: [&str; 10] = [
    "error",
    "failed",
    "fail",
    "archived",
    "dead",
    "cancelled",
    "canceled",
    "disabled",
    "skipped",
    "success",
];

impl Evidence<'_> {
    /// Whether tables that refer to this one, or begin as it does, are called after states.
    fn has_state_elsewhere(&self) -> bool {
        let names = self.outline.related.iter().map(|name| name.to_lowercase());
        names.into_iter().any(|name| STATES.iter().any(|state| name.contains(state)))
    }

    /// Whether other columns say yes or no to what may be a state as well.
    fn has_other_flags(&self, done: &Profile<'_>) -> bool {
        let is_flag = |it: &&Profile<'_>| {
            let name = it.name().to_lowercase();
            let word =
                name.strip_prefix("is_").or_else(|| name.strip_prefix("has_")).unwrap_or(&name);
            let is_bit =
                |value: &&Value| matches!(value, Value::Integer(0 | 1) | Value::Boolean(_));
            FLAGS.contains(&word) && !it.values.is_empty() && it.values.iter().all(is_bit)
        };
        self.profiles.iter().filter(is_flag).any(|it| it.name() != done.name())
    }

    /// The last number of a key of numbers, where all rows are in the sample.
    fn last_number(&self) -> Option<u64> {
        let [key] = &self.outline.keys.first()?[..] else { return None };
        let profile = self.profiles.iter().find(|it| it.name() == key)?;
        let numbers = (0..self.rows()).map(|row| profile.number_at(row));
        numbers.max().flatten().map(i64::unsigned_abs)
    }
}

fn ask_about_failed_date(
    proposal: &mut Proposal,
    done: &Profile<'_>,
    failed: &Profile<'_>,
    conditions: &[String],
) {
    let (done, failed) = (done.name(), failed.name());
    let again = vec![
        format!("where = {}", Toml::from(conditions.join(" AND "))),
        format!("last_failure = {}", Toml::from(failed)),
        format!("on_success = {{ {} = \"{{now}}\" }}", bare(done)),
    ];
    let narrowed = [conditions, &[format!("{} IS NULL", quoted_if_needed(failed))]].concat();
    let over = vec![
        format!("where = {}", Toml::from(narrowed.join(" AND "))),
        format!("on_success = {{ {} = \"{{now}}\" }}", bare(done)),
    ];
    proposal.step(Step::Question(Question {
        about: format!("is a record with a {failed} tried again?"),
        why: format!("it is pending as long as {done} is NULL"),
        choices: vec![
            Choice::new(again, "tried again: it is the date of the last failure"),
            Choice::new([over, archived_by(failed)].concat(), "given up for good"),
        ],
    }));
}

fn ask_about_begun(
    proposal: &mut Proposal,
    done: &Profile<'_>,
    begun: &Profile<'_>,
    conditions: &[String],
) {
    let (done, begun) = (done.name(), begun.name());
    let lines = |conditions: &[String]| {
        vec![
            format!("where = {}", Toml::from(conditions.join(" AND "))),
            format!("on_success = {{ {} = \"{{now}}\" }}", bare(done)),
        ]
    };
    let narrowed = [conditions, &[format!("{} IS NULL", quoted_if_needed(begun))]].concat();
    proposal.step(Step::Question(Question {
        about: format!("is a record with a {begun} and no {done} in somebody's hand?"),
        why: "the rows do not show whether a failure takes the date back".into(),
        choices: vec![
            Choice::new(lines(&narrowed), "in somebody's hand: it is left alone"),
            Choice::new(lines(conditions), "it is tried again"),
        ],
    }));
}

fn ask_about_elsewhere(evidence: &Evidence<'_>, proposal: &mut Proposal) {
    let tables = listed("", evidence.outline.related.iter().map(String::as_str));
    proposal.step(Step::Question(Question {
        about: "which rows are pending, and what makes one done?".into(),
        why: format!("other tables may say it: {tables}"),
        choices: vec![Choice::new(
            vec!["where = \"CONDITION\"".into(), "on_success = { COLUMN = \"{now}\" }".into()],
            "a condition says it, with subqueries in those tables",
        )],
    }));
}

fn ask_about_pending(proposal: &mut Proposal) {
    let delete = vec!["where = \"1 = 1\"".into(), "on_success = \"delete\"".into()];
    let column =
        vec!["where = \"COLUMN IS NULL\"".into(), "on_success = { COLUMN = \"{now}\" }".into()];
    proposal.step(Step::Question(Question {
        about: "which rows are pending, and what becomes of a finished one?".into(),
        why: "no column is called like a status, or like the date when a record was done".into(),
        choices: vec![
            Choice::new(delete, "all rows are, and a finished one is deleted"),
            Choice::new(column, "a column says so"),
        ],
    }));
}

fn archived_by(column: &str) -> Vec<String> {
    let condition = format!("{} IS NOT NULL", quoted_if_needed(column));
    vec![
        format!("where_archived = {}", Toml::from(condition)),
        format!("on_archive = {{ {} = \"{{now}}\" }}", bare(column)),
        format!("on_restore = {{ {} = \"{{null}}\" }}", bare(column)),
    ]
}

/// Whether a column says yes or no.
fn is_truth(profile: &Profile<'_>, values: &mut Values<'_>) -> bool {
    let Column { holds, declared, .. } = profile.column;
    if *holds == Holds::Booleans || declared.to_ascii_uppercase().contains("BOOL") {
        return true;
    }
    let is_of_two = |(value, _): &(Value, u64)| matches!(value, Value::Integer(0 | 1));
    profile.counts()
        && values(profile.name()).is_some_and(|all| all.len() == 2 && all.iter().all(is_of_two))
}
