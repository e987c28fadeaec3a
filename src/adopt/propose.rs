//! The mapping of a table that no page describes, by the names of its columns and by their values.

use toml::Value as Toml;

use super::profile::{Profile, is_none};
use super::words::{Meaning, Word, meaning};
use super::{Choice, Proposal, Question, Step, known::Known};
use crate::date::Format;
use crate::nearest::listed;
use crate::record::{Value, counted};
use crate::store::{Column, Holds, Outline, Sample, quoted_if_needed};
use crate::time::Instant;

/// Looks up the values of a column, and how many rows have each.
type Values<'v> = dyn FnMut(&str) -> Option<Vec<(Value, u64)>> + 'v;

/// What job tables are called.
const NAMES: [&str; 16] = [
    "job", "queue", "task", "outbox", "message", "mail", "notif", "event", "webhook", "deliver",
    "sync", "backlog", "pending", "todo", "work", "send",
];

/// How much a table is like one of jobs, from 0; one that is known is so at once.
pub fn likeness(outline: &Outline) -> u32 {
    if Known::of(outline).is_some() {
        return 100;
    }
    let nothing = Sample::default();
    let profiles = Profile::all(outline, &nothing);
    let has = |word: Word| profiles.iter().any(|it| it.is(word));
    let weights = [
        (Word::Status, 3),
        (Word::Attempts, 3),
        (Word::Due, 2),
        (Word::Done, 2),
        (Word::Error, 2),
        (Word::Locked, 1),
        (Word::MostAttempts, 1),
        (Word::GivenUp, 1),
        (Word::Created, 1),
        (Word::Kind, 1),
    ];
    let tells = [Word::Status, Word::Done, Word::Attempts, Word::Locked].into_iter().any(has);
    let name = outline.name.to_ascii_lowercase();
    let is_called_so = NAMES.iter().any(|it| name.contains(it));
    let by_columns: u32 =
        weights.into_iter().filter(|(word, _)| has(*word)).map(|(_, weight)| weight).sum();
    if tells { by_columns + if is_called_so { 3 } else { 0 } } else { 0 }
}

/// A table and its sample, under way to a proposal.
struct Evidence<'a> {
    outline: &'a Outline,
    sample: &'a Sample,
    profiles: Vec<Profile<'a>>,
}

/// What says that a row is pending.
enum Pending {
    /// A value of the status for NEW, and whether one says that it is given up.
    Status {
        column: String,
        archives: bool,
    },
    /// Dates that are NULL as long as it is.
    Dates {
        done: String,
        archives: bool,
    },
    Unknown,
}

pub fn by_columns(outline: &Outline, sample: &Sample, values: &mut Values<'_>) -> Proposal {
    let evidence = Evidence { outline, sample, profiles: Profile::all(outline, sample) };
    let name = outline.name.rsplit('.').next().unwrap_or(&outline.name);
    let mut proposal = Proposal::new(&name.to_ascii_lowercase(), outline);
    if let Some(why) = &sample.unread {
        proposal.step(Step::Comment(format!("its rows could not be read within a second: {why}")));
    } else if sample.rows.is_empty() {
        proposal.step(Step::Comment("it has no rows, so only its columns tell something".into()));
    }
    evidence.id(&mut proposal);
    let has_date = evidence.date(&mut proposal);
    let pending = evidence.pending(&mut proposal, values);
    evidence.counters(&mut proposal, &pending);
    evidence.writes(&mut proposal, &pending);
    evidence.rest(&mut proposal, has_date);
    proposal
}

impl<'a> Evidence<'a> {
    fn all(&self, word: Word) -> impl Iterator<Item = &Profile<'a>> {
        self.profiles.iter().filter(move |it| it.is(word))
    }

    /// The only column of a role that meets a condition.
    fn only(&self, word: Word, is: impl Fn(&Profile<'a>) -> bool) -> Option<&Profile<'a>> {
        let mut found = self.all(word).filter(|it| is(it));
        found.next().filter(|_| found.next().is_none())
    }

    fn date_of(&self, word: Word) -> Option<&Profile<'a>> {
        self.only(word, Profile::is_date)
    }

    fn rows(&self) -> usize {
        self.sample.rows.len()
    }

    /// The unique key with the fewest columns, that of the primary key before others.
    fn id(&self, proposal: &mut Proposal) {
        let can_be = |name: &String| {
            let column = self.outline.columns.iter().find(|it| it.name == *name);
            column.is_some_and(|it| {
                let is_uuid = it.declared.eq_ignore_ascii_case("uuid");
                matches!(it.holds, Holds::Integers | Holds::Text | Holds::Numbers) || is_uuid
            })
        };
        let mut keys: Vec<_> =
            self.outline.keys.iter().filter(|key| key.iter().all(can_be)).collect();
        keys.sort_by_key(|key| key.len());
        let Some(key) = keys.first() else { return self.ask_for_id(proposal) };
        let is_primary = self.outline.keys.first() == Some(*key);
        let why = if is_primary { "the primary key" } else { "a unique key without NULL" };
        let id = match &key[..] {
            [only] => Toml::from(only.as_str()),
            all => Toml::from(all.to_vec()),
        };
        proposal.line(why, format!("id = {id}"));
    }

    /// Columns that are unique as far as the sample shows, but by no key.
    fn ask_for_id(&self, proposal: &mut Proposal) {
        let is_unique = |it: &&Profile<'a>| {
            let mut shown: Vec<_> = it.values.iter().map(|value| value.shown()).collect();
            shown.sort();
            it.is_full() && shown.windows(2).all(|pair| pair[0] != pair[1])
        };
        let unique = self.profiles.iter().filter(|it| !it.is_date()).filter(is_unique).take(3);
        let mut choices: Vec<_> = unique
            .map(|it| Choice::new(vec![format!("id = {}", Toml::from(it.name()))], it.name()))
            .collect();
        if choices.is_empty() {
            choices.push(Choice::new(vec!["id = \"COLUMN\"".into()], "another one"));
        }
        proposal.step(Step::Question(Question {
            about: "which column identifies a record?".into(),
            why: "no unique key of integers or text says so".into(),
            choices,
        }));
    }

    /// The insertion date. False if there is none.
    fn date(&self, proposal: &mut Proposal) -> bool {
        let is_other = |it: &Profile<'a>| {
            let others = [
                Word::Due,
                Word::Updated,
                Word::Expires,
                Word::Done,
                Word::Tried,
                Word::Locked,
                Word::Failed,
                Word::GivenUp,
                Word::Cancelled,
                Word::Deleted,
            ];
            others.iter().any(|word| it.is(*word)) && !it.is(Word::Created)
        };
        let full: Vec<_> = self
            .profiles
            .iter()
            .filter(|it| it.is_date() && (it.is_full() || self.rows() == 0))
            .collect();
        let created: Vec<_> = full.iter().copied().filter(|it| it.is(Word::Created)).collect();
        let others = full.iter().copied().filter(|it| !it.is(Word::Created) && !is_other(it));
        let others: Vec<_> = others.collect();
        let ordered = |it: &&&Profile<'a>| it.follows_the_key();
        let (found, why) = match (&created[..], &others[..]) {
            ([only], _) => (Some(*only), "called so, and never NULL"),
            ([first, ..], _) if created.iter().filter(ordered).count() == 1 => {
                let one = created.iter().find(ordered).copied();
                (one.or(Some(*first)), "the one that follows the order of the key")
            }
            ([], [only]) if only.follows_the_key() || only.is_just_a_date => (
                Some(*only),
                "the only date that is never NULL, and it follows the order of the key",
            ),
            (_, _) => (None, ""),
        };
        if let Some(profile) = found {
            proposal.line(format!("when a record was inserted: {why}"), self.date_line(profile));
            return true;
        }
        let mut choices: Vec<_> = full
            .iter()
            .map(|it| Choice::new(vec![self.date_line(it)], format!("{} is that date", it.name())))
            .collect();
        let is_none = choices.is_empty();
        choices.push(Choice::new(
            vec!["date_inserted = false".into()],
            "there is none: records go by their ids, and by their count of failures",
        ));
        let due = self.date_of(Word::Due).filter(|_| is_none || full.iter().all(|it| is_other(it)));
        if is_none && due.is_some() && self.counter().is_some() {
            let why = "no column holds the insertion date, so records go by their ids";
            proposal.line(why, "date_inserted = false".into());
            return false;
        }
        proposal.step(Step::Question(Question {
            about: "when was a record inserted?".into(),
            why: "no column is called so that is never NULL".into(),
            choices,
        }));
        !is_none
    }

    fn date_line(&self, profile: &Profile<'a>) -> String {
        let name = Toml::from(profile.name());
        match profile.format() {
            Some(format) if format != Format::Compact => {
                format!("date_inserted = {{ column = {name}, format = \"{format}\" }}")
            }
            Some(_) | None => format!("date_inserted = {name}"),
        }
    }

    fn counter(&self) -> Option<&Profile<'a>> {
        self.only(Word::Attempts, Profile::counts)
    }

    fn pending(&self, proposal: &mut Proposal, values: &mut Values<'_>) -> Pending {
        let mut columns: Vec<_> = self.all(Word::Status).collect();
        if let Some(shortest) = columns.iter().map(|it| it.name().len()).min()
            && columns.iter().filter(|it| it.name().len() == shortest).count() == 1
        {
            // `status` before `delivery_status`.
            columns.retain(|it| it.name().len() == shortest);
        }
        match columns[..] {
            [] => self.by_dates(proposal, values),
            [column] => self.by_status(column, proposal, values),
            _ => {
                let names = columns.iter().map(|it| it.name());
                proposal.step(Step::Question(Question {
                    about: "which column is the status?".into(),
                    why: format!("{} are called so", listed("", names)),
                    choices: columns.iter().map(|it| unknown_status(it.name(), &[])).collect(),
                }));
                Pending::Unknown
            }
        }
    }

    fn by_status(
        &self,
        profile: &Profile<'a>,
        proposal: &mut Proposal,
        values: &mut Values<'_>,
    ) -> Pending {
        let name = profile.name();
        let there = values(name).unwrap_or_else(|| of_sample(profile));
        let unsure = |proposal: &mut Proposal, why: String| {
            proposal.step(Step::Question(Question {
                about: format!("what do the values of {name} mean?"),
                why,
                choices: vec![unknown_status(name, &there), none_status(name)],
            }));
            Pending::Unknown
        };
        let mut words = Words::default();
        for (value, rows) in &there {
            let Value::Text(text) = value else {
                return unsure(proposal, format!("it holds {}", shown(&there)));
            };
            match meaning(text) {
                Some((meaning, rank)) => words.add(meaning, rank, text, *rows),
                None => return unsure(proposal, format!("nobody can tell of {}", value.shown())),
            }
        }
        let labels = profile.column.legal.iter().flatten();
        for label in labels.filter(|label| !there.iter().any(|(it, _)| it.to_string() == **label)) {
            match meaning(label) {
                Some((meaning, rank)) => words.add(meaning, rank, label, 0),
                None => return unsure(proposal, format!("nobody can tell of {label:?}")),
            }
        }
        let (Some(new), Some(success)) = (words.first(Meaning::New), words.first(Meaning::Success))
        else {
            return unsure(proposal, format!("it holds {}", shown(&there)));
        };
        let failed = words.of(Meaning::Failed);
        let given_up = words.of(Meaning::GivenUp);
        let retry = words.of(Meaning::Retry);
        let reading = match (&failed[..], &retry[..], &given_up[..]) {
            ([], [], []) => Reading { error: vec![new.clone()], archived: vec![] },
            ([], [], _) => Reading { error: vec![new.clone()], archived: given_up },
            ([], _, _) => Reading { error: retry, archived: given_up },
            (_, [], []) => match self.reading_of_failed(profile, &failed) {
                Some(true) => Reading { error: failed, archived: vec![] },
                Some(false) => Reading { error: vec![new.clone()], archived: failed },
                None => {
                    return self.ask_about_failed(proposal, profile, &words, &failed, &there);
                }
            },
            (_, [], _) => Reading { error: failed, archived: given_up },
            (_, _, []) => Reading { error: retry, archived: failed },
            (_, _, _) => return self.ask_about_failed(proposal, profile, &words, &failed, &there),
        };
        let archives = !reading.archived.is_empty();
        proposal.line(
            format!("the status, by the usual words; {}", shown(&there)),
            status_line(name, &words, &reading, &success),
        );
        let others = words.of(Meaning::Other);
        if !others.is_empty() {
            let others = listed("", others.iter().map(String::as_str));
            proposal.step(Step::Comment(format!("left alone: {others}")));
        }
        self.soft_deletion(proposal, None);
        Pending::Status { column: name.into(), archives }
    }

    /// Whether what has failed is tried again (true), or was given up, as far as the rows show it.
    fn reading_of_failed(&self, status: &Profile<'a>, failed: &[String]) -> Option<bool> {
        let is = |row: usize, words: &dyn Fn(&str) -> bool| matches!(status.values.get(row), Some(Value::Text(text)) if words(text));
        let is_failed = |text: &str| failed.iter().any(|it| it == text);
        let is_new = |text: &str| meaning(text).is_some_and(|it| it.0 == Meaning::New);
        let rows = |words: &dyn Fn(&str) -> bool| {
            (0..self.rows()).filter(|row| is(*row, words)).collect::<Vec<_>>()
        };
        let (failed, new) = (rows(&is_failed), rows(&is_new));
        let counter = self.counter()?;
        let attempts = |rows: &[usize]| -> Vec<i64> {
            rows.iter().filter_map(|row| counter.number_at(*row)).collect()
        };
        let (of_failed, of_new) = (attempts(&failed), attempts(&new));
        let (least, most) = (of_failed.iter().min()?, of_failed.iter().max()?);
        if of_failed.len() < 3 {
            return None;
        }
        let is_retried_as_new = of_new.iter().any(|it| *it > 0);
        let limit = self.only(Word::MostAttempts, Profile::counts);
        let limit = limit.map(|limit| {
            let is_spent = |row: &usize| counter.number_at(*row) >= limit.number_at(*row);
            failed.iter().all(is_spent)
        });
        match (limit, is_retried_as_new) {
            (Some(true), _) => Some(false),
            (None, true) if least == most && *least > 1 => Some(false),
            (Some(false), false) | (None, false) if least < most && *most > 1 => {
                let due = self.date_of(Word::Due)?;
                let waits = |rows: &[usize]| {
                    rows.iter().filter(|row| !due.is_none_at(**row)).count() == rows.len()
                };
                let finished =
                    rows(&|text: &str| meaning(text).is_some_and(|it| it.0 == Meaning::Success));
                let is_cleared = finished.iter().all(|row| due.is_none_at(*row));
                (waits(&failed) && is_cleared && !finished.is_empty()).then_some(true)
            }
            (_, _) => None,
        }
    }

    fn ask_about_failed(
        &self,
        proposal: &mut Proposal,
        profile: &Profile<'a>,
        words: &Words,
        failed: &[String],
        there: &[(Value, u64)],
    ) -> Pending {
        let name = profile.name();
        let new = words.of(Meaning::New);
        let (retry, given_up) = (words.of(Meaning::Retry), words.of(Meaning::GivenUp));
        let success = words.first(Meaning::Success).unwrap_or_default();
        let shown_failed = listed("", failed.iter().map(String::as_str));
        let with = |some: &[String], more: &[String]| [some, more].concat();
        let again = Reading { error: with(failed, &retry), archived: given_up.clone() };
        let error = if retry.is_empty() { new[..1].to_vec() } else { retry };
        let over = Reading { error, archived: with(failed, &given_up) };
        proposal.step(Step::Question(Question {
            about: format!("is {name} = {shown_failed} tried again?"),
            why: format!("the rows do not show it; {}", shown(there)),
            choices: vec![
                Choice::new(vec![status_line(name, words, &again, &success)], "tried again"),
                Choice::new(vec![status_line(name, words, &over, &success)], "given up for good"),
            ],
        }));
        Pending::Unknown
    }

    /// Without a status: dates that are NULL, or a truth that is false, as long as a row is pending.
    fn by_dates(&self, proposal: &mut Proposal, values: &mut Values<'_>) -> Pending {
        let truths = self.all(Word::Done).filter(|it| is_truth(it, values));
        let truths: Vec<_> = truths.map(Profile::name).collect();
        let done: Vec<_> =
            self.all(Word::Done).filter(|it| it.is_date() && !it.is_full()).collect();
        match (&done[..], &truths[..]) {
            ([], [only]) => self.by_truth(only, proposal),
            ([only], []) if self.are_kept(only) => self.by_done(only, proposal),
            ([], []) => {
                self.ask_about_pending(proposal);
                Pending::Unknown
            }
            (_, _) => {
                let names = done.iter().map(|it| it.name()).chain(truths.iter().copied());
                let names: Vec<_> = names.collect();
                let of = |name: &&str| {
                    let sql = quoted_if_needed(name);
                    Choice::new(
                        vec![
                            format!("where = {}", Toml::from(format!("{sql} IS NULL"))),
                            format!("on_success = {{ {} = \"{{now}}\" }}", bare(name)),
                        ],
                        format!("a row is pending as long as {name} is NULL"),
                    )
                };
                proposal.step(Step::Question(Question {
                    about: "what says that a record is done?".into(),
                    why: format!("{} may", listed("", names.iter().copied())),
                    choices: names.iter().map(of).collect(),
                }));
                Pending::Unknown
            }
        }
    }

    /// Whether finished rows stay, with the date: of what is handed out and then deleted few have one.
    fn are_kept(&self, done: &Profile<'a>) -> bool {
        let kept = (0..self.rows()).filter(|row| !done.is_none_at(*row)).count();
        kept > 0 && kept * 4 >= self.rows()
    }

    fn by_truth(&self, name: &str, proposal: &mut Proposal) -> Pending {
        let column = self.outline.columns.iter().find(|it| it.name == name);
        let is_boolean = column.is_some_and(|it| it.holds == Holds::Booleans);
        let (no, yes) = if is_boolean { ("false", "true") } else { ("0", "1") };
        proposal.line(
            "no status: this says whether a record is done",
            format!(
                "status = {{ column = {}, new = {no}, error = {no}, success = {yes} }}",
                Toml::from(name)
            ),
        );
        self.soft_deletion(proposal, None);
        Pending::Status { column: name.into(), archives: false }
    }

    fn by_done(&self, done: &Profile<'a>, proposal: &mut Proposal) -> Pending {
        let nullable = |word: Word| {
            self.all(word).filter(|it| it.is_date() && !it.is_full()).collect::<Vec<_>>()
        };
        let now = self.newest();
        let is_past = |it: &&&Profile<'a>| {
            let instants = it.instants.as_deref().unwrap_or_default();
            instants.iter().flatten().all(|at| now.is_none_or(|now| *at <= now))
        };
        let given_up = nullable(Word::GivenUp);
        let given_up: Vec<_> = given_up.iter().filter(is_past).copied().collect();
        let mut conditions = vec![format!("{} IS NULL", quoted_if_needed(done.name()))];
        let others = [nullable(Word::Cancelled), nullable(Word::Deleted)].concat();
        let locked = self.all(Word::Locked).filter(|it| !it.is_full() && !self.is_due(it));
        let locked = locked.filter(|it| is_lock(it.name()));
        for other in given_up.iter().copied().chain(others).chain(locked.take(1)) {
            conditions.push(format!("{} IS NULL", quoted_if_needed(other.name())));
        }
        if let [failed] = nullable(Word::Failed)[..] {
            let both = (0..self.rows()).any(|row| !failed.is_none_at(row) && !done.is_none_at(row));
            if !both && given_up.is_empty() {
                return self.ask_about_failed_date(proposal, done, failed, &conditions);
            }
        }
        self.soft_deletion(proposal, Some(&mut conditions));
        proposal.line(
            format!("no status: pending as long as {} is NULL", done.name()),
            format!("where = {}", Toml::from(conditions.join(" AND "))),
        );
        if let [given_up] = given_up[..] {
            proposal.step(Step::Comment(format!("given up: {} has a date", given_up.name())));
            proposal.step(Step::Lines(archived_by(given_up.name())));
        }
        Pending::Dates { done: done.name().into(), archives: given_up.len() == 1 }
    }

    fn ask_about_failed_date(
        &self,
        proposal: &mut Proposal,
        done: &Profile<'a>,
        failed: &Profile<'a>,
        conditions: &[String],
    ) -> Pending {
        let (done, failed) = (done.name(), failed.name());
        let also = |more: &str| {
            let all = [conditions, &[format!("{} IS NULL", quoted_if_needed(more))]].concat();
            format!("where = {}", Toml::from(all.join(" AND ")))
        };
        let over = [vec![also(failed)], archived_by(failed)].concat();
        let again = vec![
            format!("where = {}", Toml::from(conditions.join(" AND "))),
            format!("last_failure = {}", Toml::from(failed)),
        ];
        proposal.step(Step::Question(Question {
            about: format!("is a record with a {failed} tried again?"),
            why: format!("it is pending as long as {done} is NULL"),
            choices: vec![
                Choice::new(again, "tried again: it is the date of the last failure"),
                Choice::new(over, "given up for good"),
            ],
        }));
        Pending::Dates { done: done.into(), archives: false }
    }

    fn ask_about_pending(&self, proposal: &mut Proposal) {
        proposal.step(Step::Question(Question {
            about: "which rows are pending, and what becomes of a finished one?".into(),
            why: "no column is called like a status, or like the date when a record was done"
                .into(),
            choices: vec![
                Choice::new(
                    vec!["where = \"1 = 1\"".into(), "on_success = \"delete\"".into()],
                    "all rows are, and a finished one is deleted",
                ),
                Choice::new(
                    vec![
                        "where = \"COLUMN IS NULL\"".into(),
                        "on_success = { COLUMN = \"{now}\" }".into(),
                    ],
                    "a column says so",
                ),
            ],
        }));
    }

    /// Rows that are marked as deleted are nobody's.
    fn soft_deletion(&self, proposal: &mut Proposal, conditions: Option<&mut Vec<String>>) {
        let is_mark =
            |it: &&Profile<'a>| ["deleted", "is_deleted"].contains(&&*it.name().to_lowercase());
        let mark = self.profiles.iter().find(is_mark);
        let date = self.all(Word::Deleted).find(|it| it.is_date() && !it.is_full());
        let condition = match (mark, date) {
            (Some(it), _) if it.column.holds == Holds::Booleans => {
                format!("NOT {}", quoted_if_needed(it.name()))
            }
            (Some(it), _) if it.counts() => format!("{} = 0", quoted_if_needed(it.name())),
            (_, Some(it)) => format!("{} IS NULL", quoted_if_needed(it.name())),
            (_, None) => return,
        };
        match conditions {
            Some(conditions) if conditions.contains(&condition) => {}
            Some(conditions) => conditions.push(condition),
            None => proposal.line(
                "rows that are marked as deleted are nobody's",
                format!("where = {}", Toml::from(condition)),
            ),
        }
    }

    fn newest(&self) -> Option<Instant> {
        let created = self.all(Word::Created).chain(self.all(Word::Updated));
        created.filter_map(|it| it.instants.as_ref()?.iter().flatten().max().copied()).max()
    }

    fn is_due(&self, profile: &Profile<'a>) -> bool {
        profile.is(Word::Due)
    }

    /// The count of failures, the most attempts and the error.
    fn counters(&self, proposal: &mut Proposal, pending: &Pending) {
        if let Some(counter) = self.counter() {
            let name = Toml::from(counter.name());
            let done: Vec<_> = self.done_rows(pending);
            let counted_done = done.iter().filter_map(|row| counter.number_at(*row));
            let (all, above) = counted_done
                .fold((0, 0), |(all, above), count| (all + 1, above + usize::from(count > 0)));
            let is_of_attempts = match all {
                0 => {
                    let name = counter.name().to_lowercase();
                    let is_said = |it: &&str| name.contains(*it) && !name.contains("retr");
                    ["attempt", "tries"].iter().any(|it| is_said(it)) && !name.contains("fail")
                }
                _ => above * 10 >= all * 9,
            };
            let line = match is_of_attempts {
                true => format!("failures = {{ column = {name}, counts = \"attempts\" }}"),
                false => format!("failures = {name}"),
            };
            let why = match (all, is_of_attempts) {
                (0, _) => "the count of attempts, by its name".to_string(),
                (_, true) => "counts attempts: nearly all finished rows have one or more".into(),
                (_, false) => "counts failures: most finished rows have none".into(),
            };
            proposal.line(why, line);
        }
        let archives = matches!(
            pending,
            Pending::Status { archives: true, .. } | Pending::Dates { archives: true, .. }
        );
        if let Some(most) = self.only(Word::MostAttempts, Profile::counts)
            && archives
            && self.counter().is_some()
        {
            let name = Toml::from(most.name());
            proposal
                .line("each record has a maximum", format!("max_attempts = {{ column = {name} }}"));
        }
        if let Some(error) = self.only(Word::Error, Profile::holds_text)
            && error.column.legal.is_none()
        {
            proposal.line(
                "the last error, by its name",
                format!("last_error = {}", Toml::from(error.name())),
            );
        }
    }

    /// The rows of the sample that are done.
    fn done_rows(&self, pending: &Pending) -> Vec<usize> {
        let find = |name: &str| self.profiles.iter().find(|it| it.name() == name);
        let rows = 0..self.rows();
        match pending {
            Pending::Status { column, .. } => {
                let Some(status) = find(column) else { return Vec::new() };
                let is_done = |row: &usize| match status.values[*row] {
                    Value::Text(text) => meaning(text).is_some_and(|it| it.0 == Meaning::Success),
                    Value::Integer(1) | Value::Boolean(true) => true,
                    _ => false,
                };
                rows.filter(is_done).collect()
            }
            Pending::Dates { done, .. } => {
                let Some(done) = find(done) else { return Vec::new() };
                rows.filter(|row| !done.is_none_at(*row)).collect()
            }
            Pending::Unknown => Vec::new(),
        }
    }

    /// What is written besides: when it was done, when it is due next, and that it was changed.
    fn writes(&self, proposal: &mut Proposal, pending: &Pending) {
        let updated =
            self.date_of(Word::Updated).map(|it| format!("{} = \"{{now}}\"", bare(it.name())));
        let done = match pending {
            Pending::Dates { done, .. } => Some(done.as_str()),
            Pending::Status { .. } => {
                let done = self.only(Word::Done, |it| it.is_date() && !it.is_full());
                done.filter(|done| self.is_set_when_done(done, pending)).map(Profile::name)
            }
            Pending::Unknown => None,
        };
        let is_unknown = matches!(pending, Pending::Unknown);
        let done = done.map(|name| format!("{} = \"{{now}}\"", bare(name)));
        let due: Vec<_> = self.all(Word::Due).filter(|it| it.is_date()).collect();
        let next = match due[..] {
            [only] => Some(format!("{} = \"{{next}}\"", bare(only.name()))),
            _ => None,
        };
        let set = |parts: [Option<String>; 2]| {
            let parts: Vec<_> = parts.into_iter().flatten().collect();
            (!parts.is_empty()).then(|| parts.join(", "))
        };
        // An answer to what is pending says it.
        if let Some(columns) = set([done, updated.clone()]).filter(|_| !is_unknown) {
            proposal.step(Step::Lines(vec![format!("on_success = {{ {columns} }}")]));
        }
        if let [first, second, ..] = due[..] {
            let of = |it: &&Profile<'a>| {
                let line = format!("on_failure = {{ {} = \"{{next}}\" }}", bare(it.name()));
                Choice::new(vec![line], format!("{} says when a record is due", it.name()))
            };
            proposal.step(Step::Question(Question {
                about: "which column says when a record is due?".into(),
                why: format!("{} and {} are called so", first.name(), second.name()),
                choices: due.iter().map(of).collect(),
            }));
        } else if let Some(columns) = set([next.clone(), updated]) {
            if next.is_some() {
                proposal.step(Step::Comment(
                    "the next attempt; from then on it says what is due".into(),
                ));
            }
            proposal.step(Step::Lines(vec![format!("on_failure = {{ {columns} }}")]));
        }
    }

    /// Whether finished rows have it, and others have not.
    fn is_set_when_done(&self, done: &Profile<'a>, pending: &Pending) -> bool {
        let rows = self.done_rows(pending);
        let has = |row: &usize| !done.is_none_at(*row);
        !rows.is_empty()
            && rows.iter().all(has)
            && (0..self.rows()).filter(has).count() == rows.len()
    }

    /// The schedule, and what only the user knows.
    fn rest(&self, proposal: &mut Proposal, has_date: bool) {
        for kind in self.all(Word::Kind).filter(|it| it.holds_text()) {
            let mut there: Vec<_> = kind.values.iter().map(ToString::to_string).collect();
            there.retain(|it| !it.is_empty());
            there.sort();
            there.dedup();
            if (2..10).contains(&there.len()) {
                let (name, values) = (kind.name(), listed("", there.iter().map(String::as_str)));
                proposal.step(Step::Comment(format!(
                    "{name} is one of {values}: with where = \"{name} = '{}'\" only those are worked off",
                    there[0]
                )));
            }
        }
        let schedule = if has_date { "progressive = true" } else { "policy = \"even\"" };
        proposal.line("less and less often as time goes on", schedule.into());
        proposal
            .step(Step::Lines(vec!["# exec = [\"/usr/local/bin/YOUR-COMMAND\", \"{id}\"]".into()]));
    }
}

/// How the words of failures are read.
struct Reading {
    error: Vec<String>,
    archived: Vec<String>,
}

/// The values of a status by their meaning, the most usual ones first.
#[derive(Default)]
struct Words(Vec<(Meaning, usize, String, u64)>);

impl Words {
    fn add(&mut self, meaning: Meaning, rank: usize, text: &str, rows: u64) {
        self.0.push((meaning, rank, text.into(), rows));
        self.0.sort_by_key(|(_, rank, ..)| *rank);
    }

    fn of(&self, meaning: Meaning) -> Vec<String> {
        self.0.iter().filter(|it| it.0 == meaning).map(|it| it.2.clone()).collect()
    }

    fn first(&self, meaning: Meaning) -> Option<String> {
        self.of(meaning).into_iter().next()
    }
}

fn status_line(column: &str, words: &Words, reading: &Reading, success: &str) -> String {
    let one = |values: &[String]| match values {
        [only] => Toml::from(only.as_str()),
        all => Toml::from(all.to_vec()),
    };
    let all_success: Vec<_> = words.of(Meaning::Success);
    let success = if all_success.len() > 1 { one(&all_success) } else { Toml::from(success) };
    let archived = match &reading.archived[..] {
        [] => String::new(),
        all => format!(", archived = {}", one(all)),
    };
    format!(
        "status = {{ column = {}, new = {}, error = {}, success = {success}{archived} }}",
        Toml::from(column),
        one(&words.of(Meaning::New)),
        one(&reading.error),
    )
}

/// A status whose values somebody else has to sort.
fn unknown_status(column: &str, there: &[(Value, u64)]) -> Choice {
    let line = format!(
        "status = {{ column = {}, new = 0, error = 0, success = 0, archived = 0 }}",
        Toml::from(column)
    );
    let says = match there {
        [] => format!("{column} is the status: write its values"),
        there => format!("sort these values, in place of 0: {}", shown(there)),
    };
    Choice::new(vec![line], says)
}

fn none_status(column: &str) -> Choice {
    let lines = vec!["status = false".into(), "where = \"CONDITION\"".into()];
    Choice::new(lines, format!("{column} is no status: a condition says what is pending"))
}

fn archived_by(column: &str) -> Vec<String> {
    let condition = format!("{} IS NOT NULL", quoted_if_needed(column));
    vec![
        format!("where_archived = {}", Toml::from(condition)),
        format!("on_archive = {{ {} = \"{{now}}\" }}", bare(column)),
        format!("on_restore = {{ {} = \"{{null}}\" }}", bare(column)),
    ]
}

/// A name as a key of TOML.
fn bare(name: &str) -> String {
    super::key(name)
}

/// Whether a name is one of a lock alone.
fn is_lock(name: &str) -> bool {
    let name = name.to_lowercase();
    ["lock", "reserv", "claim", "leas", "picked", "taken"].iter().any(|it| name.contains(it))
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

/// The values of a column in the sample, the most frequent first.
fn of_sample(profile: &Profile<'_>) -> Vec<(Value, u64)> {
    let mut counted: Vec<(Value, u64)> = Vec::new();
    for value in profile.values.iter().filter(|value| !is_none(value)) {
        match counted.iter_mut().find(|(it, _)| it == *value) {
            Some((_, rows)) => *rows += 1,
            None => counted.push(((*value).clone(), 1)),
        }
    }
    counted.sort_by_key(|(_, rows)| std::cmp::Reverse(*rows));
    counted
}

/// `'sent' in 900 rows, 'pending' in 12 rows`
fn shown(values: &[(Value, u64)]) -> String {
    let each = values
        .iter()
        .take(12)
        .map(|(value, rows)| format!("{} in {}", value.shown(), counted(*rows, "row")));
    let each: Vec<_> = each.collect();
    let more = if values.len() > 12 { ", ..." } else { "" };
    if each.is_empty() { "no values".into() } else { format!("{}{more}", each.join(", ")) }
}
