//! The status of a table that no page describes: its values by the usual words, and by what the rows
//! show where a word may mean two things.

use toml::Value as Toml;

use super::conduct::Conduct;
use super::profile::Profile;
use super::propose::{Evidence, OnSuccess, Pending, Values, of_sample, shown};
use super::words::{Meaning, SURELY_GIVEN_UP, Word, meaning, prefix_of_values};
use super::{Choice, Proposal, Question, Step};
use crate::names::listed;
use crate::record::{Status, Value};
use crate::store::quoted_if_needed;
use crate::time::{DAY, HOUR, Instant};

/// Fewer rows than this do not show that nobody comes back to them.
const SOME: usize = 5;

/// The values of a status by their meaning, the most usual ones first.
#[derive(Default)]
struct Words(Vec<Found>);

struct Found {
    meaning: Meaning,
    rank: usize,
    value: Value,
    rows: u64,
}

/// How the words of failures are read.
struct Reading {
    new: Vec<Value>,
    error: Vec<Value>,
    archived: Vec<Value>,
}

impl Words {
    /// Fails with the first value that neither its word nor its rows tell.
    fn of_column(
        conduct: &Conduct<'_, '_>,
        profile: &Profile<'_>,
        default: Option<&str>,
        there: &[(Value, u64)],
    ) -> Result<Self, String> {
        let mut words = Self::default();
        let texts = there.iter().filter_map(|(value, _)| text_of(value));
        let prefix = prefix_of_values(&texts.collect::<Vec<_>>());
        let meaning = |text: &str| meaning(text.strip_prefix(prefix).unwrap_or(text));
        let mut unknown = Vec::new();
        for (value, rows) in there {
            let text = text_of(value);
            let is_default = (text.is_some() && default == text).then_some((Meaning::New, 0));
            match text.and_then(meaning).or(is_default) {
                Some((meaning, rank)) => words.add(meaning, rank, value.clone(), *rows),
                None => unknown.push((value.clone(), *rows)),
            }
        }
        let known: Vec<_> = words.0.iter().map(|it| (it.meaning, it.value.clone())).collect();
        let all = there.iter().map(|(_, rows)| rows).sum();
        let told = conduct.meanings(&unknown, &known, default, all);
        let told =
            told.map_err(|it| format!("nobody can tell of {}; {}", it.shown(), shown(there)))?;
        for (meaning, value) in told {
            let rows = unknown.iter().find(|(it, _)| *it == value).map_or(0, |(_, rows)| *rows);
            words.add(meaning, usize::MAX, value, rows);
        }
        let is_there = |label: &String| there.iter().any(|(it, _)| it.to_string() == *label);
        for label in profile.column.legal.iter().flatten().filter(|label| !is_there(label)) {
            let (meaning, rank) = meaning(label).unwrap_or((Meaning::Other, 0));
            words.add(meaning, rank, Value::Text(label.clone()), 0);
        }
        // No row may be new at present.
        if let Some(default) = default
            && meaning(default).is_none_or(|it| matches!(it.0, Meaning::New | Meaning::Entered))
            && !words.0.is_empty()
            && words
                .0
                .iter()
                .all(|it| text_of(&it.value).is_some() && it.value.to_string() != default)
        {
            words.add(Meaning::New, 0, Value::Text(default.into()), 0);
        }
        words.find_success();
        words.find_taken(conduct);
        Ok(words)
    }

    fn add(&mut self, meaning: Meaning, rank: usize, value: Value, rows: u64) {
        self.0.push(Found { meaning, rank, value, rows });
        self.0.sort_by_key(|it| it.rank);
    }

    /// Has the value of most rows mean that they are done, where no word says it.
    fn find_success(&mut self) {
        let all: u64 = self.0.iter().map(|it| it.rows).sum();
        let has_none = self.all(Meaning::Success).is_empty() && !self.all(Meaning::New).is_empty();
        let most = self.0.iter_mut().find(|it| it.meaning == Meaning::Entered && it.rows * 2 > all);
        if let Some(most) = most.filter(|_| has_none) {
            most.meaning = Meaning::Success;
        }
    }

    /// Of several values that a new row may have, those whose rows are all in somebody's hand are not
    /// to be touched.
    fn find_taken(&mut self, conduct: &Conduct<'_, '_>) {
        let may_be_new = |it: &Found| matches!(it.meaning, Meaning::New | Meaning::Entered);
        let is_taken = |it: &Found| may_be_new(it) && conduct.are_in_hand(&it.value);
        let (all, taken) = (&self.0, self.0.iter().filter(|it| is_taken(it)).count());
        if taken > 0 && all.iter().filter(|it| may_be_new(it)).count() > taken {
            let taken = self.0.iter_mut().filter(|it| is_taken(it));
            taken.for_each(|it| it.meaning = Meaning::Other);
        }
    }

    /// Whether these are the values that a table of `backlog init` has.
    fn are_our_own(&self) -> bool {
        let own =
            |it: &Found| Status::OURS.iter().any(|status| status.name() == it.value.to_string());
        self.0.iter().all(own)
            && self.of(Meaning::Failed) == [Value::Text(Status::Error.name().into())]
    }

    fn all(&self, meaning: Meaning) -> Vec<&Found> {
        self.0.iter().filter(|it| it.meaning == meaning).collect()
    }

    fn of(&self, meaning: Meaning) -> Vec<Value> {
        self.all(meaning).into_iter().map(|it| it.value.clone()).collect()
    }

    /// The values of a row that nobody has tried. Of two that a new row may have, the other one may be
    /// behind it: in somebody's hand.
    fn untried(
        &self,
        default: Option<&str>,
        is_overtaken: &dyn Fn(&Value) -> bool,
        has_due_column: bool,
    ) -> Option<Vec<Value>> {
        let (new, entered) = (self.all(Meaning::New), self.all(Meaning::Entered));
        let is_default = |it: &&&Found| default.is_some_and(|it_is| it.value.to_string() == it_is);
        let first = match (&new[..], &entered[..]) {
            ([only], []) => vec![only.value.clone()],
            ([], [only]) if is_default(&only) || !is_overtaken(&only.value) => {
                vec![only.value.clone()]
            }
            ([only], [_, ..])
                if is_default(&only) || entered.iter().all(|it| is_overtaken(&it.value)) =>
            {
                vec![only.value.clone()]
            }
            ([], []) => vec![],
            (several, []) => {
                let usual = several.iter().find(is_default)?;
                let others = several.iter().filter(|it| !is_default(it));
                let is_rare = |it: &&Found| it.rows * 10 <= usual.rows;
                others.copied().all(|it| is_rare(&it)).then(|| vec![usual.value.clone()])?
            }
            (_, _) => return None,
        };
        let later = self.of(Meaning::Later);
        if !later.is_empty() && !first.is_empty() && !has_due_column {
            // Nothing says when they are due.
            return None;
        }
        let all = [first, later].concat();
        (!all.is_empty()).then_some(all)
    }
}

/// Whether values are those of a status, whatever its column is called: usual words, and among them one
/// of what waits or is done.
pub fn is_of_words(there: &[(Value, u64)]) -> bool {
    let read: Vec<_> = there.iter().map(|(it, _)| text_of(it).and_then(meaning)).collect();
    let known = read.iter().flatten().count();
    let tells = |it: &(Meaning, usize)| matches!(it.0, Meaning::New | Meaning::Success);
    (2..=20).contains(&there.len())
        && known * 5 >= there.len() * 4
        && read.iter().flatten().any(tells)
}

fn text_of(value: &Value) -> Option<&str> {
    if let Value::Text(text) = value { Some(text) } else { None }
}

/// The value that the database gives a row where none is inserted.
fn default_of(profile: &Profile<'_>) -> Option<String> {
    let default = profile.column.default.as_deref()?;
    let quoted = default.split('\'').nth(1).or_else(|| default.split('"').nth(1));
    Some(quoted.unwrap_or(default).into())
}

pub fn by_status(
    evidence: &Evidence<'_>,
    profile: &Profile<'_>,
    proposal: &mut Proposal,
    values: &mut Values<'_>,
) -> Option<Pending> {
    let name = profile.name();
    let known = values(name);
    let is_known = known.is_some() || evidence.sample.is_whole;
    // What is rare is in no statistics, and mostly among the newest rows.
    let mut there = known.unwrap_or_default();
    let seen = of_sample(profile).into_iter();
    let missed: Vec<_> =
        seen.filter(|(it, _)| !there.iter().any(|(value, _)| value == it)).collect();
    there.extend(missed);
    let default = default_of(profile);
    let conduct = Conduct::new(evidence, profile);
    let read = Words::of_column(&conduct, profile, default.as_deref(), &there).and_then(|words| {
        let success = words.of(Meaning::Success);
        let is_overtaken = |value: &Value| conduct.are_overtaken(&conduct.rows(value), &success);
        let new =
            words.untried(default.as_deref(), &is_overtaken, evidence.date_of(Word::Due).is_some());
        let new = new.ok_or_else(|| format!("it holds {}", shown(&there)))?;
        match words.of(Meaning::Success).is_empty() {
            _ if !is_known => Err(format!(
                "only those of some rows could be read within a second: {}",
                shown(&there)
            )),
            true if evidence.why_deleted().is_none() => {
                Err(format!("no value says that a record is done: {}", shown(&there)))
            }
            true | false => Ok((words, new)),
        }
    });
    let (words, new) = match read {
        Ok(read) => read,
        Err(why) => {
            proposal.step(Step::Question(Question {
                about: format!("what do the values of {name} mean?"),
                why,
                choices: vec![unknown(name, &there, evidence), none(name)],
            }));
            return None;
        }
    };
    let readings = readings(evidence, profile, &words, &new);
    if let [reading] = &readings[..] {
        let by = match words.0.iter().any(|it| it.rows > 0 && it.rank == usize::MAX) {
            true => "by the usual words, and by what the rows with other values show",
            false => "by the usual words",
        };
        proposal.line(format!("the status, {by}; {}", shown(&there)), line(name, &words, reading));
        if let Some(why) = evidence.why_deleted().filter(|_| words.of(Meaning::Success).is_empty())
        {
            let why = format!(
                "{why}, and no value says that a record is done: finished ones are deleted"
            );
            proposal.line(why, "on_success = \"delete\"".into());
        }
        let known = [&reading.new[..], &reading.error, &reading.archived].concat();
        let known = [known, words.of(Meaning::Success)].concat();
        let others = words.0.iter().filter(|it| !known.contains(&it.value));
        let others: Vec<_> = others.map(|it| it.value.to_string()).collect();
        if !others.is_empty() {
            let others = listed(others.iter().map(String::as_str));
            proposal.step(Step::Comment(format!("left alone: {others}")));
        }
        return Some(pending(evidence, profile, &words, reading));
    }
    let lines = |reading: &Reading| {
        let status = line(name, &words, reading);
        [status].into_iter().chain(evidence.on_success(None)).collect()
    };
    let choices = readings.iter().zip(["tried again", "given up for good"]);
    let choices = choices.map(|(reading, says)| Choice::new(lines(reading), says)).collect();
    ask_about_failed(name, &words, &there, choices, proposal);
    None
}

fn ask_about_failed(
    name: &str,
    words: &Words,
    there: &[(Value, u64)],
    choices: Vec<Choice>,
    proposal: &mut Proposal,
) {
    let failed: Vec<_> = words.of(Meaning::Failed).iter().map(Value::to_string).collect();
    proposal.step(Step::Question(Question {
        about: format!("is {name} = {} tried again?", listed(failed.iter().map(String::as_str))),
        why: format!("the rows do not show it; {}", shown(there)),
        choices,
    }));
}

fn pending(
    evidence: &Evidence<'_>,
    profile: &Profile<'_>,
    words: &Words,
    reading: &Reading,
) -> Pending {
    let success = words.of(Meaning::Success);
    let waits = |row: &usize| {
        let value = profile.values[*row];
        reading.new.contains(value) || reading.error.contains(value)
    };
    let is_done = |row: &usize| success.contains(profile.values[*row]);
    let name = quoted_if_needed(profile.name());
    let quoted = |value: &Value| match text_of(value) {
        Some(text) => format!("'{}'", text.replace('\'', "''")),
        None => value.to_string(),
    };
    let open = reading.new.iter().chain(&reading.error);
    let (none, some): (Vec<_>, Vec<_>) = open.partition(|it| it.is_null());
    let some: Vec<_> = some.into_iter().map(quoted).collect();
    let open = match (none.is_empty(), some.is_empty()) {
        (true, _) => format!("{name} IN ({})", some.join(", ")),
        (false, true) => format!("{name} IS NULL"),
        (false, false) => format!("({name} IS NULL OR {name} IN ({}))", some.join(", ")),
    };
    Pending {
        conditions: Vec::new(),
        open,
        done: (0..evidence.rows()).filter(is_done).collect(),
        waiting: (0..evidence.rows()).filter(waits).collect(),
        on_success: if success.is_empty() { OnSuccess::Delete } else { OnSuccess::Status },
        archives: !reading.archived.is_empty(),
    }
}

/// The only reading of the words, or both that there may be.
fn readings(
    evidence: &Evidence<'_>,
    profile: &Profile<'_>,
    words: &Words,
    new: &[Value],
) -> Vec<Reading> {
    let (failed, retry) = (words.of(Meaning::Failed), words.of(Meaning::Retry));
    let given_up = words.of(Meaning::GivenUp);
    let surely = words.all(Meaning::GivenUp).iter().any(|it| it.rank < SURELY_GIVEN_UP);
    let reading = |again: &[Value], over: &[Value]| Reading {
        new: new.to_vec(),
        error: match [again, &retry].concat() {
            none if none.is_empty() => new[..1].to_vec(),
            error => error,
        },
        // What was discarded beside what failed for good was perhaps never tried.
        archived: if over.is_empty() { given_up.clone() } else { over.to_vec() },
    };
    let is_again = |word: &Value| match (failed.len(), retry.is_empty(), surely) {
        _ if words.are_our_own() => Some(true),
        (1, false, false) => Some(false),
        (1, true, true) => Some(true),
        _ if is_named_with_new(evidence, words, word) => Some(true),
        // Of two one may be the last, and only counts tell which.
        (2.., ..) if evidence.counter().is_none() => None,
        _ => is_tried_again(evidence, profile, words, word)
            .or_else(|| is_searched(evidence, profile, words, word)),
    };
    let told: Vec<_> = failed.iter().map(|word| (word.clone(), is_again(word))).collect();
    let told_so = |is: Option<bool>| -> Vec<Value> {
        told.iter().filter(|(_, it)| *it == is).map(|(word, _)| word.clone()).collect()
    };
    let (mut again, over, mut open) = (told_so(Some(true)), told_so(Some(false)), told_so(None));
    // Of two words for failures, that with fewer attempts comes before the other.
    if let ([first], [last]) = (&open[..], &over[..])
        && evidence.most_attempts(profile, first) < evidence.least_attempts(profile, last)
    {
        again.append(&mut open);
    }
    if let [one, other] = &open[..] {
        for (first, last) in [(one, other), (other, one)] {
            if evidence.most_attempts(profile, first) < evidence.least_attempts(profile, last) {
                let again = [&again[..], std::slice::from_ref(first)].concat();
                return vec![reading(&again, std::slice::from_ref(last))];
            }
        }
    }
    match open[..] {
        [] => vec![reading(&again, &over)],
        _ => vec![
            reading(&[&again[..], &open].concat(), &over),
            reading(&again, &[&open[..], &over].concat()),
        ],
    }
}

/// Whether what has failed is tried again, as far as the rows show it.
fn is_tried_again(
    evidence: &Evidence<'_>,
    status: &Profile<'_>,
    words: &Words,
    failed: &Value,
) -> Option<bool> {
    let rows = |values: &[Value]| -> Vec<usize> {
        (0..evidence.rows()).filter(|row| values.contains(status.values[*row])).collect()
    };
    let failed = rows(std::slice::from_ref(failed));
    let waiting = [Meaning::New, Meaning::Later, Meaning::Entered].map(|it| words.of(it)).concat();
    let waiting = rows(&waiting);
    let done = rows(&words.of(Meaning::Success));
    let now = evidence.newest();
    let due = evidence.date_of(Word::Due);
    let is_to_come = |row: &usize| {
        let at = due.and_then(|due| due.instant_at(*row));
        at.zip(now).is_some_and(|(at, now)| at > now)
    };
    // Of those that may have more attempts each is due later, and of those that had all of them none.
    let (over, left): (Vec<usize>, _) =
        failed.iter().copied().partition(|row| evidence.is_spent(*row) == Some(true));
    let are_told_apart = !over.is_empty()
        && !left.is_empty()
        && left.iter().all(is_to_come)
        && !over.iter().any(is_to_come);
    if are_told_apart {
        return Some(true);
    }
    if failed.iter().any(is_to_come) {
        return due.is_some_and(|due| done.iter().all(|row| due.is_none_at(*row))).then_some(true);
    }
    let attempts = |row: &usize| evidence.counter()?.number_at(*row);
    let counts: Vec<_> = failed.iter().filter_map(attempts).collect();
    let (least, most) = (counts.iter().min(), counts.iter().max());
    // What has failed and waits is new, with fewer attempts than what has failed for good.
    let is_retried_as_new = waiting.iter().filter_map(attempts).any(|count| count > 0)
        && waiting.iter().filter_map(attempts).max() <= most.copied();
    let is_spent = !failed.is_empty() && left.is_empty();
    let has_ended = evidence.have_ended(&failed);
    let is_of_one_count = least == most;
    let is_of_most = || {
        let all = (0..evidence.rows()).filter_map(|row| attempts(&row)).max();
        is_of_one_count && least.is_some_and(|least| *least > 1) && all == least.copied()
    };
    let are_left = || now.is_some_and(|now| evidence.are_left(&failed, now));
    let is_new = |row: &usize| attempts(row).is_none_or(|count| count == 0);
    let are_all_left = || {
        let is_only_word = words.of(Meaning::Failed).len() == 1;
        is_only_word
            && failed.len() > SOME
            && waiting.iter().all(is_new)
            && now.is_some_and(|now| evidence.are_all_left(&failed, now))
    };
    let is_over = match failed.len() {
        0 => false,
        1 => is_spent || is_retried_as_new,
        2 => is_spent || is_retried_as_new || is_of_one_count && has_ended || is_of_most(),
        _ => {
            is_spent
                || is_retried_as_new
                || is_of_one_count && (has_ended || are_left())
                || is_of_most()
                || are_all_left()
        }
    };
    is_over.then_some(false)
}

/// Whether an index names what has failed and what is new as what it leads to.
fn is_named_with_new(evidence: &Evidence<'_>, words: &Words, failed: &Value) -> bool {
    let new = words.of(Meaning::New);
    text_of(failed).is_some_and(|failed| {
        let mut new = new.iter().filter_map(text_of);
        new.any(|new| evidence.names_together(&[failed, new]))
    })
}

/// Whether an index leads to what has failed as it does to what is new, or leads to what is not over,
/// and not to this.
fn is_searched(
    evidence: &Evidence<'_>,
    status: &Profile<'_>,
    words: &Words,
    failed: &Value,
) -> Option<bool> {
    let has = |values: &[Value], meanings: &[Meaning]| {
        meanings.iter().any(|it| words.of(*it).iter().any(|value| values.contains(value)))
    };
    let new = [Meaning::New, Meaning::Later, Meaning::Entered];
    let mut searched = evidence.searched_values(status);
    searched.retain(|values| has(values, &new) && !has(values, &[Meaning::Success]));
    match searched.iter().find(|values| values.contains(failed)) {
        Some(values) if has(values, &[Meaning::Other, Meaning::GivenUp]) => None,
        Some(_) => Some(true),
        None => (!searched.is_empty()).then_some(false),
    }
}

impl Evidence<'_> {
    /// Whether a row has had all its attempts, if it says how many there are.
    pub fn is_spent(&self, row: usize) -> Option<bool> {
        Some(self.counter()?.number_at(row)? >= self.most()?.number_at(row)?)
    }

    fn attempts<'e>(
        &'e self,
        status: &'e Profile<'_>,
        value: &'e Value,
    ) -> impl Iterator<Item = i64> + 'e {
        let rows = (0..self.rows()).filter(move |row| status.values[*row] == value);
        rows.filter_map(|row| self.counter()?.number_at(row))
    }

    fn most_attempts(&self, status: &Profile<'_>, value: &Value) -> i64 {
        self.attempts(status, value).max().unwrap_or(i64::MAX)
    }

    fn least_attempts(&self, status: &Profile<'_>, value: &Value) -> i64 {
        self.attempts(status, value).min().unwrap_or(i64::MIN)
    }

    /// Whether these rows have a date after which nothing more comes.
    fn have_ended(&self, rows: &[usize]) -> bool {
        let is_end = |it: &&Profile<'_>| {
            let name = it.name().to_lowercase();
            it.is_date()
                && !it.is_full()
                && ["finish", "complet", "ended"].iter().any(|end| name.contains(end))
        };
        let ended = self.all(Word::Done).find(is_end);
        ended.is_some_and(|ended| rows.iter().all(|row| !ended.is_none_at(*row)))
    }

    /// When somebody was at a row last.
    fn touched(&self, row: usize) -> Option<Instant> {
        let words = [Word::Updated, Word::Tried, Word::Done, Word::Failed];
        let dates = words.iter().flat_map(|word| self.all(*word));
        dates.filter_map(|it| it.instant_at(row)).max()
    }

    /// How long nobody comes back to what is left: an eighth of the time that the rows are about, up to
    /// a day.
    fn long(&self, now: Instant) -> i64 {
        let oldest = (0..self.rows()).filter_map(|row| self.touched(row)).min();
        oldest.map_or(DAY, |oldest| (now.0 - oldest.0) / 8).clamp(HOUR, DAY)
    }

    /// Whether nobody has touched any of these rows for long.
    fn are_all_left(&self, rows: &[usize], now: Instant) -> bool {
        let long = self.long(now);
        rows.iter().all(|row| self.touched(*row).is_some_and(|at| now.0 - at.0 > long))
    }

    /// Whether nobody has touched nearly any of these rows for long, while others were: no worker
    /// comes back to them.
    pub fn are_left(&self, rows: &[usize], now: Instant) -> bool {
        let long = self.long(now);
        let created = |row: usize| self.date_of(Word::Created)?.instant_at(row);
        let is_old = |row: &usize| created(*row).is_none_or(|at| now.0 - at.0 > 2 * long);
        let old: Vec<_> = rows.iter().copied().filter(is_old).collect();
        let is_left = |row: usize| self.touched(row).is_some_and(|at| now.0 - at.0 > long);
        let left = old.iter().filter(|row| is_left(**row));
        old.len() > 2 && left.count() * 5 >= old.len() * 4
    }
}

fn line(column: &str, words: &Words, reading: &Reading) -> String {
    let toml = |value: &Value| match value {
        Value::Null => Toml::from("{null}"),
        Value::Integer(number) => Toml::from(*number),
        Value::Text(_)
        | Value::Real(_)
        | Value::Bytes(_)
        | Value::Blob(_)
        | Value::Boolean(_)
        | Value::Json(_) => Toml::from(value.to_string()),
    };
    let one = |values: &[Value]| match values {
        [only] => toml(only),
        all => Toml::from(all.iter().map(toml).collect::<Vec<_>>()),
    };
    let archived = match &reading.archived[..] {
        [] => String::new(),
        all => format!(", archived = {}", one(all)),
    };
    let success = match &words.of(Meaning::Success)[..] {
        [] => String::new(),
        all => format!(", success = {}", one(all)),
    };
    format!(
        "status = {{ column = {}, new = {}, error = {}{success}{archived} }}",
        Toml::from(column),
        one(&reading.new),
        one(&reading.error),
    )
}

/// A status whose values somebody else has to sort.
pub fn unknown(column: &str, there: &[(Value, u64)], evidence: &Evidence<'_>) -> Choice {
    let line = format!(
        "status = {{ column = {}, new = 0, error = 0, success = 0, archived = 0 }}",
        Toml::from(column)
    );
    let says = match there {
        [] => format!("{column} is the status: write its values"),
        there => format!("sort these values, in place of 0: {}", shown(there)),
    };
    Choice::new([line].into_iter().chain(evidence.on_success(None)).collect(), says)
}

fn none(column: &str) -> Choice {
    let lines = vec![
        "status = false".into(),
        "where = \"CONDITION\"".into(),
        "on_success = { COLUMN = \"{now}\" }".into(),
    ];
    Choice::new(lines, format!("{column} is no status: a condition says what is pending"))
}
