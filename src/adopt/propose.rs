//! The mapping of a table that no page describes, by the names of its columns and by their values.

use toml::Value as Toml;

use super::known::Known;
use super::profile::{Profile, is_none};
use super::words::Word;
use super::{Choice, Proposal, Question, Step, status, without_status};
use crate::date::Format;
use crate::names::listed;
use crate::record::{Value, counted};
use crate::store::{Holds, Listed, Outline, Sample};
use crate::time::Instant;

/// Looks up the values of a column, and how many rows have each.
pub type Values<'v> = dyn FnMut(&str) -> Option<Vec<(Value, u64)>> + 'v;

/// What job tables are called.
const NAMES: [&str; 16] = [
    "job", "queue", "task", "outbox", "message", "mail", "notif", "event", "webhook", "deliver",
    "sync", "backlog", "pending", "todo", "work", "send",
];

/// More different values than this are those of no status.
const MOST_VALUES: usize = 20;

/// Dates of one insertion are at most so many seconds apart.
const TOGETHER: i64 = 60;

/// How much a table is like one of jobs, from 0; one that is known is so at once.
pub fn likeness(table: &Listed) -> u32 {
    if Known::of(&table.name, &table.columns).is_some() {
        return 100;
    }
    let nothing = Sample::default();
    let profiles = Profile::all(&table.columns, &nothing);
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
    let name = table.name.to_ascii_lowercase();
    let is_called_so = NAMES.iter().any(|it| name.contains(it));
    let by_columns: u32 =
        weights.into_iter().filter(|(word, _)| has(*word)).map(|(_, weight)| weight).sum();
    if tells { by_columns + if is_called_so { 3 } else { 0 } } else { 0 }
}

/// A table and its sample, under way to a proposal.
pub struct Evidence<'a> {
    pub outline: &'a Outline,
    pub sample: &'a Sample,
    pub profiles: Vec<Profile<'a>>,
}

/// What says that a row is pending, and done.
pub struct Pending {
    /// The conditions of rows that are not done; none if a status says all.
    pub conditions: Vec<String>,
    /// The condition of what is not done, whatever else is the matter with it.
    pub open: String,
    /// Rows of the sample that are done.
    pub done: Vec<usize>,
    /// Rows of the sample that wait, whatever conditions there are besides.
    pub waiting: Vec<usize>,
    /// What is set with a success, besides a status.
    pub on_success: OnSuccess,
    /// Whether it is known what makes a record archived.
    pub archives: bool,
}

/// What is known of the insertion date.
enum Date {
    Known,
    /// Which of these columns it is, was asked.
    Asked(Vec<String>),
    None,
}

#[derive(Clone, PartialEq)]
pub enum OnSuccess {
    Status,
    /// The date when it was done.
    Date(String),
    Delete,
}

pub fn by_columns(outline: &Outline, sample: &Sample, values: &mut Values<'_>) -> Proposal {
    let evidence = Evidence { outline, sample, profiles: Profile::all(&outline.columns, sample) };
    let name = outline.name.rsplit('.').next().unwrap_or(&outline.name);
    let mut proposal = Proposal::new(&name.to_ascii_lowercase(), outline);
    if let Some(why) = &sample.unread {
        proposal.step(Step::Comment(format!("its rows could not be read within a second: {why}")));
    } else if sample.rows.is_empty() {
        proposal.step(Step::Comment("it has no rows, so only its columns tell something".into()));
    }
    evidence.id(&mut proposal);
    let date = evidence.date(&mut proposal);
    let mut pending = evidence.pending(&mut proposal, values);
    if let Some(pending) = &mut pending {
        evidence.give_up(pending, &mut proposal);
        evidence.narrow(pending, &mut proposal);
    }
    evidence.counters(&mut proposal, pending.as_ref());
    evidence.writes(&mut proposal, pending.as_ref(), &date);
    evidence.rest(&mut proposal, pending.as_ref(), &date);
    proposal
}

impl<'a> Evidence<'a> {
    pub fn all(&self, word: Word) -> impl Iterator<Item = &Profile<'a>> {
        self.profiles.iter().filter(move |it| it.is(word))
    }

    /// The only column of a role that meets a condition.
    pub fn only(&self, word: Word, is: impl Fn(&Profile<'a>) -> bool) -> Option<&Profile<'a>> {
        let mut found = self.all(word).filter(|it| is(it));
        found.next().filter(|_| found.next().is_none())
    }

    pub fn date_of(&self, word: Word) -> Option<&Profile<'a>> {
        self.only(word, Profile::is_date)
    }

    pub fn rows(&self) -> usize {
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
        let unique = self.profiles.iter().filter(|it| !it.is_date() && !it.is(Word::Status));
        let unique = unique.filter(is_unique).take(3);
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

    fn date(&self, proposal: &mut Proposal) -> Date {
        let is_other = |it: &Profile<'a>| {
            // What every row has is not what is set when it is done.
            let others = [
                Word::Due,
                Word::Updated,
                Word::Expires,
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
            .filter(|it| it.is_date() && (it.is_full() || self.rows() == 0 && it.is(Word::Created)))
            .collect();
        let created: Vec<_> = full.iter().copied().filter(|it| it.is(Word::Created)).collect();
        let others = full.iter().copied().filter(|it| !it.is(Word::Created) && !is_other(it));
        let others: Vec<_> = others.collect();
        let ordered = |it: &&&Profile<'a>| it.follows_the_key();
        let (found, why) = match (&created[..], &others[..]) {
            ([only], _) => (Some(*only), "called so, and never NULL"),
            ([first, second], _) if are_twins(first.name(), second.name()) => {
                (Some(*first), "called so, and never NULL, as is its twin")
            }
            ([first, ..], _) if are_together(&created) => {
                let certain = created.iter().find(|it| it.column.not_null).copied();
                (certain.or(Some(*first)), "called so, and always with the others that are")
            }
            ([first, ..], _) if created.iter().filter(ordered).count() == 1 => {
                let one = created.iter().find(ordered).copied();
                (one.or(Some(*first)), "the one that follows the order of the key")
            }
            ([], [only]) if only.follows_the_key() || only.is_just_a_date || full.len() == 1 => {
                (Some(*only), "the only such date that is never NULL")
            }
            (_, _) => (None, ""),
        };
        if let Some(profile) = found {
            proposal.line(format!("when a record was inserted: {why}"), self.date_line(profile));
            return Date::Known;
        }
        let is_due_alone = self.date_of(Word::Due).is_some() && full.iter().all(|it| is_other(it));
        if is_due_alone && self.counter().is_some() {
            let why = "no column holds the insertion date, so records go by their ids";
            proposal.line(why, "date_inserted = false".into());
            return Date::None;
        }
        self.ask_for_date(proposal, &full);
        Date::Asked(full.iter().map(|it| it.name().to_string()).collect())
    }

    fn ask_for_date(&self, proposal: &mut Proposal, full: &[&Profile<'a>]) {
        let choice = |it: &&Profile<'a>| {
            Choice::new(vec![self.date_line(it)], format!("{} is that date", it.name()))
        };
        // Without a date and a counter no schedule tells what is due.
        let none = match self.counter() {
            Some(_) => Choice::new(
                vec!["date_inserted = false".into()],
                "there is none: records go by their ids, and by their count of failures",
            ),
            None => Choice::new(
                vec!["date_inserted = { sql = \"EXPRESSION\" }".into()],
                "an expression over the columns of a row says it",
            ),
        };
        proposal.step(Step::Question(Question {
            about: "when was a record inserted?".into(),
            why: "no column is called so that is never NULL".into(),
            choices: full.iter().map(choice).chain([none]).collect(),
        }));
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

    pub fn counter(&self) -> Option<&Profile<'a>> {
        self.only(Word::Attempts, |it| it.counts() && !it.counts_down())
    }

    fn pending(&self, proposal: &mut Proposal, values: &mut Values<'_>) -> Option<Pending> {
        // What a text says freely, and a reference, is no status.
        let has_few = |it: &&Profile<'a>| self.rows() == 0 || of_sample(it).len() <= MOST_VALUES;
        let mut columns: Vec<_> = self.all(Word::Status).filter(has_few).collect();
        if columns.is_empty() {
            let is_so =
                |it: &&Profile<'a>| it.roles.is_empty() && status::is_of_words(&of_sample(it));
            columns = self.profiles.iter().filter(is_so).collect();
        }
        if let Some(shortest) = columns.iter().map(|it| it.name().len()).min()
            && columns.iter().filter(|it| it.name().len() == shortest).count() == 1
        {
            // `status` before `delivery_status`.
            columns.retain(|it| it.name().len() == shortest);
        }
        match columns[..] {
            [] => without_status::by_dates(self, proposal, values),
            [column] => status::by_status(self, column, proposal, values),
            _ => {
                let names = columns.iter().map(|it| it.name());
                proposal.step(Step::Question(Question {
                    about: "which column is the status?".into(),
                    why: format!("{} are called so", listed(names)),
                    choices: columns
                        .iter()
                        .map(|it| status::unknown(it.name(), &[], self))
                        .collect(),
                }));
                None
            }
        }
    }

    /// The newest instant at which a row was inserted, or changed.
    pub fn newest(&self) -> Option<Instant> {
        let is_so = |it: &&Profile<'a>| {
            it.is(Word::Created) || it.is(Word::Updated) || it.is_just_a_date && it.is_full()
        };
        let dates = self.profiles.iter().filter(is_so);
        dates.filter_map(|it| it.instants.as_ref()?.iter().flatten().max().copied()).max()
    }

    /// The count of failures, the most attempts and the error.
    fn counters(&self, proposal: &mut Proposal, pending: Option<&Pending>) {
        if let Some(counter) = self.counter() {
            let name = Toml::from(counter.name());
            let done = pending.map_or(&[][..], |pending| &pending.done);
            let counted_done = done.iter().filter_map(|row| counter.number_at(*row));
            let (all, above) = counted_done
                .fold((0, 0), |(all, above), count| (all + 1, above + usize::from(count > 0)));
            let is_of_attempts = match all {
                0 => {
                    let name = counter.name().to_lowercase();
                    let is_said = |it: &&str| name.contains(*it) && !name.contains("retr");
                    ["attempt", "tries", "try"].iter().any(is_said) && !name.contains("fail")
                }
                _ => above * 10 >= all * 9 && !counter.name().to_lowercase().contains("fail"),
            };
            // Nothing is left of a success where its row is deleted.
            let is_deleted = pending.is_some_and(|it| it.on_success == OnSuccess::Delete);
            let line = match is_of_attempts && !is_deleted {
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
        let archives = pending.is_some_and(|pending| pending.archives);
        if let Some(most) = self.most().filter(|_| archives) {
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

    /// What is written besides: when it was done, when it is due next, and that it was changed.
    fn writes(&self, proposal: &mut Proposal, pending: Option<&Pending>, date: &Date) {
        let may_be_date =
            |name: &str| matches!(date, Date::Asked(names) if names.iter().any(|it| it == name));
        let updated = self.updated().filter(|name| !may_be_date(name)).map(set_to_now);
        let done = match pending.map(|pending| &pending.on_success) {
            Some(OnSuccess::Date(done)) => Some(done.as_str()),
            Some(OnSuccess::Status) => {
                let done = self.only(Word::Done, |it| it.is_date() && !it.is_full());
                done.filter(|done| self.is_set_when_done(done, pending)).map(Profile::name)
            }
            Some(OnSuccess::Delete) | None => None,
        };
        // An answer to what is pending says it, or nothing is left to be set.
        let is_set = pending.is_some_and(|pending| pending.on_success != OnSuccess::Delete);
        let done = done.map(set_to_now);
        // `SendDate` may be when it was sent.
        let is_done =
            |it: &Profile<'a>| means_done(it.name()) && self.is_set_when_done(it, pending);
        let due = self.all(Word::Due).filter(|it| it.is_date() && !is_done(it));
        let due: Vec<_> = due.collect();
        let next = match due[..] {
            [only] => Some(format!("{} = \"{{next}}\"", bare(only.name()))),
            _ => None,
        };
        let set = |parts: [Option<String>; 2]| {
            let parts: Vec<_> = parts.into_iter().flatten().collect();
            (!parts.is_empty()).then(|| parts.join(", "))
        };
        if let Some(columns) = set([done, updated.clone()]).filter(|_| is_set) {
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
        } else if let Some((column, why)) = self.may_be_due().filter(|_| due.is_empty()) {
            let line = format!("on_failure = {{ {} = \"{{next}}\" }}", bare(column.name()));
            proposal.step(Step::Question(Question {
                about: format!("does {} say when a record is due?", column.name()),
                why: why.into(),
                choices: vec![
                    Choice::new(
                        vec![line],
                        "yes: no record is tried before, and it gets the next attempt",
                    ),
                    Choice::new(Vec::new(), "no"),
                ],
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

    /// The column of the last change.
    fn updated(&self) -> Option<&str> {
        self.date_of(Word::Updated).map(Profile::name)
    }

    /// The line for a success that sets a date, if there is one to be set, and that of the last change.
    pub fn on_success(&self, done: Option<&str>) -> Option<String> {
        let columns: Vec<_> = done.into_iter().chain(self.updated()).map(set_to_now).collect();
        (!columns.is_empty()).then(|| format!("on_success = {{ {} }}", columns.join(", ")))
    }

    /// A column that may say when a record is due, and why it may.
    fn may_be_due(&self) -> Option<(&Profile<'a>, &'static str)> {
        let is_empty = |it: &&Profile<'a>| {
            let has_none = !it.values.is_empty() && it.values.iter().all(|value| is_none(value));
            it.column.holds.dates() && !it.is_date() && has_none
        };
        let empty =
            || Some((self.all(Word::Due).find(is_empty)?, "it is called so, and has no value"));
        self.to_come().map(|it| (it, "it has dates to come")).or_else(empty)
    }

    /// A column with dates to come, and no word of what they are.
    fn to_come(&self) -> Option<&Profile<'a>> {
        let now = self.newest()?;
        let is_to_come = |it: &&Profile<'a>| {
            let instants = it.instants.as_deref().unwrap_or_default();
            it.roles.is_empty() && instants.iter().flatten().any(|at| *at > now)
        };
        self.profiles.iter().find(is_to_come)
    }

    /// Whether finished rows have it, and others have not.
    fn is_set_when_done(&self, done: &Profile<'a>, pending: Option<&Pending>) -> bool {
        let rows = pending.map_or(&[][..], |pending| &pending.done);
        let has = |row: &usize| !done.is_none_at(*row);
        !rows.is_empty()
            && rows.iter().all(has)
            && (0..self.rows()).filter(has).count() == rows.len()
    }

    /// The schedule, and what only the user knows.
    fn rest(&self, proposal: &mut Proposal, pending: Option<&Pending>, date: &Date) {
        if pending.is_some_and(|pending| !pending.archives) {
            proposal.step(Step::Comment(
                "nothing here says that a record was given up: `archive` and --max-attempts need \
                 status.archived, or on_archive with where_archived"
                    .into(),
            ));
        }
        let is_payload = |it: &&Profile<'a>| {
            let names = ["payload", "body", "data", "content", "message", "args", "arguments"];
            names.contains(&it.name().to_lowercase().as_str())
                && matches!(it.column.holds, Holds::Text | Holds::Documents | Holds::Bytes)
        };
        if let Some(payload) = self.profiles.iter().find(is_payload) {
            proposal.step(Step::Comment(
                "the handler gets the whole row as JSON, or this alone:".into(),
            ));
            proposal.step(Step::Lines(vec![format!("# payload = {}", Toml::from(payload.name()))]));
        }
        for kind in self.all(Word::Kind).filter(|it| it.holds_text()) {
            let mut there: Vec<_> = kind.values.iter().map(ToString::to_string).collect();
            there.retain(|it| !it.is_empty());
            there.sort();
            there.dedup();
            if (2..10).contains(&there.len()) {
                let (name, values) = (kind.name(), listed(there.iter().map(String::as_str)));
                proposal.step(Step::Comment(format!(
                    "{name} is one of {values}: with where = \"{name} = '{}'\" only those are worked off",
                    there[0]
                )));
            }
        }
        let is_dated = !matches!(date, Date::None);
        let schedule = if is_dated { "progressive = true" } else { "policy = \"even\"" };
        proposal.line("less and less often as time goes on", schedule.into());
        proposal
            .step(Step::Lines(vec!["# exec = [\"/usr/local/bin/YOUR-COMMAND\", \"{id}\"]".into()]));
    }
}

fn set_to_now(name: &str) -> String {
    format!("{} = \"{{now}}\"", bare(name))
}

/// Whether the name of a date may be of what is done as well as of what is to be done.
fn means_done(name: &str) -> bool {
    let name = name.to_lowercase();
    let words = ["send", "deliver", "publish", "dispatch", "execut", "process", "perform"];
    words.iter().any(|word| name.starts_with(word))
}

/// Whether the dates of several columns are at most a minute apart in each row.
fn are_together(columns: &[&Profile<'_>]) -> bool {
    let rows = columns.iter().map(|it| it.values.len()).min().unwrap_or_default();
    let are = |row: usize| {
        let instants: Option<Vec<_>> = columns.iter().map(|it| it.instant_at(row)).collect();
        let Some(instants) = instants else { return false };
        let ends = instants.iter().min().zip(instants.iter().max());
        ends.is_some_and(|(first, last)| last.0 - first.0 <= TOGETHER)
    };
    columns.len() > 1 && rows > 0 && (0..rows).all(are)
}

/// Whether two columns begin with the same word: `created_stamp` and `created_tx_stamp`.
fn are_twins(one: &str, other: &str) -> bool {
    let first = |name: &str| name.split('_').next().map(str::to_lowercase);
    first(one) == first(other)
}

/// A name as a key of TOML.
pub fn bare(name: &str) -> String {
    super::key(name)
}

/// The values of a column in the sample, the most frequent first.
pub fn of_sample(profile: &Profile<'_>) -> Vec<(Value, u64)> {
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
pub fn shown(values: &[(Value, u64)]) -> String {
    let each = values
        .iter()
        .take(12)
        .map(|(value, rows)| format!("{} in {}", value.shown(), counted(*rows, "row")));
    let each: Vec<_> = each.collect();
    let more = if values.len() > 12 { ", ..." } else { "" };
    if each.is_empty() { "no values".into() } else { format!("{}{more}", each.join(", ")) }
}
