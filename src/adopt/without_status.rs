//! Tables without a status: a date that is NULL as long as a record is pending, a truth that is false, or
//! rows that go when they are done.

use toml::Value as Toml;

use super::flags::{FLAGS, Flag, SURELY_OUT, Truth};
use super::profile::Profile;
use super::propose::{Evidence, OnSuccess, Pending, Values, bare};
use super::words::Word;
use super::{Choice, Proposal, Question, Step};
use crate::names::listed;
use crate::record::Value;
use crate::store::quoted_if_needed;
use crate::time::DAY;

pub fn by_dates(
    evidence: &Evidence<'_>,
    proposal: &mut Proposal,
    values: &mut Values<'_>,
) -> Option<Pending> {
    let mut is_truth = |it: &Profile<'_>| Truth::of(it, values).is_some();
    let truths: Vec<_> = evidence.all(Word::Done).filter(|it| is_truth(it)).collect();
    let done = evidence.all(Word::Done).filter(|it| it.is_date() && !it.is_full());
    let done: Vec<_> = done.collect();
    match (&done[..], &truths[..]) {
        _ if evidence.has_state_elsewhere() => {
            ask_about_elsewhere(evidence, proposal);
            None
        }
        ([] | [_], [only])
            if evidence.failed_flag(only).is_ok()
                && evidence.readiness(only).is_some()
                && done.iter().all(|date| evidence.say_the_same(date, only)) =>
        {
            let truth = Truth::of(only, values)?;
            let failed = evidence.failed_flag(only).unwrap_or_default();
            Some(by_truth(evidence, only, &truth, failed, proposal))
        }
        ([only], [])
            if are_kept(evidence, only)
                && evidence.are_past(only)
                && !evidence.has_number_of_ends()
                && evidence.failed_flag(only).is_ok()
                && evidence.readiness(only).is_some() =>
        {
            let failed = evidence.failed_flag(only).unwrap_or_default();
            by_done(evidence, only, failed, proposal)
        }
        ([], []) => by_absence(evidence, proposal),
        (_, _) => {
            let names = done.iter().chain(&truths).map(|it| it.name());
            let names: Vec<_> = names.collect();
            proposal.step(Step::Question(Question {
                about: "what says that a record is done?".into(),
                why: format!("{} may", listed(names.iter().copied())),
                choices: names.iter().map(|name| by_null(evidence, name)).collect(),
            }));
            None
        }
    }
}

fn by_null(evidence: &Evidence<'_>, name: &str) -> Choice {
    let condition = format!("{} IS NULL", quoted_if_needed(name));
    let condition = format!("where = {}", Toml::from(condition));
    let lines = [condition].into_iter().chain(evidence.on_success(Some(name))).collect();
    Choice::new(lines, format!("a row is pending as long as {name} is NULL"))
}

/// Whether finished rows stay, with the date: of what is handed out and then deleted few have one.
fn are_kept(evidence: &Evidence<'_>, done: &Profile<'_>) -> bool {
    let kept = (0..evidence.rows()).filter(|row| !done.is_none_at(*row)).count();
    kept > 0 && kept * 4 >= evidence.rows()
}

fn by_truth(
    evidence: &Evidence<'_>,
    done: &Profile<'_>,
    truth: &Truth,
    failed: Option<Flag>,
    proposal: &mut Proposal,
) -> Pending {
    let (column, Truth { no, yes }) = (Toml::from(done.name()), truth);
    proposal.line(
        "no status: this says whether a record is done",
        format!("status = {{ column = {column}, new = {no}, error = {no}, success = {yes} }}"),
    );
    let is_done = |row: &usize| {
        *yes == done.values[*row].to_string()
            || *yes == Toml::from(done.values[*row].to_string()).to_string()
    };
    let mut conditions = evidence.is_free();
    conditions.extend(evidence.readiness(done).unwrap_or_default());
    let archives = failed.is_some();
    if let Some(flag) = failed {
        flag.archives(&truth.is_no(done), proposal);
        conditions.push(flag.no);
    }
    Pending {
        conditions,
        open: truth.is_no(done),
        done: (0..evidence.rows()).filter(is_done).collect(),
        waiting: (0..evidence.rows())
            .filter(|row| !is_done(row) && !evidence.is_out(*row))
            .collect(),
        on_success: OnSuccess::Status,
        archives,
    }
}

fn by_done(
    evidence: &Evidence<'_>,
    done: &Profile<'_>,
    flag: Option<Flag>,
    proposal: &mut Proposal,
) -> Option<Pending> {
    let nullable = |word: Word| {
        evidence.all(word).filter(|it| it.is_date() && !it.is_full()).collect::<Vec<_>>()
    };
    let now = evidence.newest();
    let given_up = nullable(Word::GivenUp);
    let mut given_up: Vec<_> =
        given_up.iter().filter(|it| evidence.are_past(it)).copied().collect();
    let open = is_none(done);
    let mut conditions = vec![open.clone()];
    let others = [nullable(Word::Cancelled), nullable(Word::Deleted)].concat();
    let of_others = given_up.iter().copied().chain(others);
    conditions.extend(of_others.map(is_none));
    conditions.extend(evidence.is_free());
    conditions.extend(evidence.readiness(done).unwrap_or_default());
    if let [failed] = nullable(Word::Failed)[..] {
        let rows = (0..evidence.rows()).filter(|row| !failed.is_none_at(*row));
        let (both, failures): (Vec<_>, Vec<_>) = rows.partition(|row| !done.is_none_at(*row));
        if both.is_empty() && given_up.is_empty() {
            let is_left_out = || evidence.leaves_out(done, failed, |row| !failed.is_none_at(row));
            if !now.is_some_and(|now| evidence.are_left(&failures, now)) && !is_left_out() {
                ask_about_failed_date(proposal, done, failed, &conditions);
                return None;
            }
            conditions.push(is_none(failed));
            given_up.push(failed);
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
        let is_left_out = || evidence.leaves_out(done, begun, |row| !begun.is_none_at(row));
        // Where a failure leaves no trace, nobody comes back to it.
        let traces = [Word::Error, Word::Failed, Word::Attempts];
        let shows_failures = traces.iter().any(|word| evidence.all(*word).next().is_some());
        if !is_reset && !is_left_out() && shows_failures {
            ask_about_begun(proposal, done, begun, &conditions);
            return None;
        }
        conditions.push(is_none(begun));
    }
    let mut archives = given_up.len() == 1;
    if let Some(flag) = flag {
        archives = true;
        flag.archives(&open, proposal);
        conditions.push(flag.no);
    } else if let [given_up] = given_up[..] {
        proposal.step(Step::Comment(format!("given up: {} has a date", given_up.name())));
        proposal.step(Step::Lines(archived_by(given_up.name())));
    }
    Some(Pending {
        conditions,
        open,
        done: (0..evidence.rows()).filter(|row| !done.is_none_at(*row)).collect(),
        waiting: (0..evidence.rows())
            .filter(|row| done.is_none_at(*row) && !evidence.is_out(*row))
            .collect(),
        on_success: OnSuccess::Date(done.name().into()),
        archives,
    })
}

/// The condition of rows without a date, which is NULL or 0.
fn is_none(profile: &Profile<'_>) -> String {
    let name = quoted_if_needed(profile.name());
    let has_zeros = profile.values.iter().any(|value| matches!(value, Value::Integer(0)));
    match (has_zeros, profile.column.not_null) {
        (true, true) => format!("{name} = 0"),
        (true, false) => format!("coalesce({name}, 0) = 0"),
        (false, _) => format!("{name} IS NULL"),
    }
}

/// The date when an attempt began, where rows have it that are not done.
fn begun<'e, 'a>(evidence: &'e Evidence<'a>, done: &Profile<'_>) -> Option<&'e Profile<'a>> {
    let is_last = |it: &Profile<'_>| it.name().to_lowercase().contains("last");
    // Every row may have one at present.
    let can_be_none = |it: &Profile<'_>| !it.is_full() || !it.column.not_null;
    let begun = evidence.only(Word::Tried, |it| it.is_date() && can_be_none(it) && !is_last(it))?;
    let is_open = |row: usize| done.is_none_at(row) && !begun.is_none_at(row);
    (0..evidence.rows()).any(is_open).then_some(begun)
}

/// Nothing says that a record is done. Where finished rows are seen to be deleted, and the table is one
/// of jobs, all rows are pending that are not taken out.
fn by_absence(evidence: &Evidence<'_>, proposal: &mut Proposal) -> Option<Pending> {
    let words = [
        Word::Attempts,
        Word::Due,
        Word::Locked,
        Word::MostAttempts,
        Word::Error,
        Word::Tried,
        Word::GivenUp,
    ];
    let is_of_jobs = words.iter().filter(|it| evidence.all(**it).next().is_some()).count() > 1;
    // A column that may say it is one to be asked about.
    let may_say = evidence.all(Word::Done).next().is_some()
        || evidence.flags(FLAGS).next().is_some()
        || evidence.has_flag_of_readiness();
    // What is never NULL and never 0 at present does not show how a free row has it.
    let is_lock_unread = evidence.all(Word::Locked).any(|it| {
        it.is_date() && it.column.not_null && (0..evidence.rows()).all(|row| !it.is_none_at(row))
    });
    // Nor does a date of failures that every row has show whether they are tried again.
    let is_last = |it: &Profile<'_>| it.name().to_lowercase().contains("last");
    let failures = evidence.all(Word::GivenUp).chain(evidence.all(Word::Failed));
    let failures: Vec<_> = failures.filter(|it| it.is_date() && !is_last(it)).collect();
    let is_failure_unread = failures.iter().any(|it| it.is_full() && !it.column.not_null);
    let is_told = is_of_jobs && !may_say && !is_lock_unread && !is_failure_unread;
    let why = evidence.why_deleted().filter(|_| is_told);
    let Some(why) = why else {
        ask_about_pending(proposal);
        return None;
    };
    proposal.line(
        format!("{why}, and no column says that a record is done: finished ones are deleted"),
        "on_success = \"delete\"".into(),
    );
    let mut conditions = evidence.is_free();
    let given_up: Vec<_> = failures.into_iter().filter(|it| !it.is_full()).collect();
    conditions.extend(given_up.iter().map(|it| is_none(it)));
    if let [given_up] = given_up[..] {
        proposal.step(Step::Comment(format!("given up: {} has a date", given_up.name())));
        proposal.step(Step::Lines(archived_by(given_up.name())));
    }
    let mut archives = given_up.len() == 1;
    let flag = evidence.flags(SURELY_OUT).next().and_then(Flag::of);
    if let Some(flag) = flag.filter(|_| !archives) {
        flag.archives("1 = 1", proposal);
        archives = true;
    }
    let is_all = conditions.is_empty();
    Some(Pending {
        conditions: if is_all { vec!["1 = 1".into()] } else { conditions },
        open: "1 = 1".into(),
        done: Vec::new(),
        waiting: (0..evidence.rows()).filter(|row| !evidence.is_out(*row)).collect(),
        on_success: OnSuccess::Delete,
        archives,
    })
}

/// Words of other tables that have a part of the state of this one.
const STATES: [&str; 7] = ["failed", "claimed", "ready", "blocked", "locked", "dead", "execution"];
impl Evidence<'_> {
    /// Whether no date is one to come: what is done was done in the past.
    fn are_past(&self, profile: &Profile<'_>) -> bool {
        let now = self.newest();
        let instants = profile.instants.as_deref().unwrap_or_default();
        instants.iter().flatten().all(|at| now.is_none_or(|now| *at <= now))
    }

    /// Whether numbers beside a date may say how a record ended.
    fn has_number_of_ends(&self) -> bool {
        let is_named =
            |it: &Profile<'_>| it.is(Word::Done) || it.name().eq_ignore_ascii_case("success");
        self.profiles.iter().any(|it| is_named(it) && !it.is_date() && it.counts())
    }

    /// Whether tables that refer to this one, or begin as it does, are called after states.
    fn has_state_elsewhere(&self) -> bool {
        let names = self.outline.related.iter().map(|name| name.to_lowercase());
        names.into_iter().any(|name| STATES.iter().any(|state| name.contains(state)))
    }

    /// Why finished rows seem to be deleted: hardly any of the ids are there that were given, or no
    /// row is there that is older than a day, due and untried.
    pub fn why_deleted(&self) -> Option<String> {
        if !self.sample.is_whole || self.rows() == 0 {
            return None;
        }
        let rows = self.rows();
        if let Some(last) = self.last_number() {
            let is_gone = last > 4 * rows as u64;
            return is_gone.then(|| format!("{rows} rows are there of {last} ids"));
        }
        let of_tries = || {
            let dates = self.all(Word::Tried).chain(self.all(Word::Failed));
            dates.filter_map(|it| it.instants.as_ref()?.iter().flatten().max().copied()).max()
        };
        let (counter, now) = (self.counter()?, self.newest().or_else(of_tries)?);
        let due = self.date_of(Word::Due);
        let created = self.date_of(Word::Created);
        // Since when a row could have been tried.
        let since = |row: usize| {
            let dates = [due, created].into_iter().flatten();
            dates.filter_map(|it| it.instant_at(row)).max()
        };
        let is_untried = |row: &usize| counter.number_at(*row).is_none_or(|count| count == 0);
        let (untried, tried): (Vec<_>, Vec<_>) = (0..rows).partition(is_untried);
        let is_recent = |row: &usize| since(*row).is_some_and(|at| now.0 - at.0 < DAY);
        let are_old = tried.iter().filter(|row| !is_recent(row)).count();
        let is_gone = are_old > 2 && untried.iter().all(is_recent);
        is_gone.then(|| "rows that are older than a day have all been tried in vain".into())
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
    let tables = listed(evidence.outline.related.iter().map(String::as_str));
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
