//! Columns that say yes or no: to whether a record is done, or has failed for good, or is taken out of the
//! queue; and the marks of a worker that has one in hand.

use toml::Value as Toml;

use super::profile::Profile;
use super::propose::{Evidence, Values, bare};
use super::words::{Word, snake};
use super::{Proposal, Step};
use crate::record::Value;
use crate::store::{Column, Holds, quoted_if_needed};

/// Words of flags that have a part of the state.
pub const FLAGS: &str = "error errors failed fail failure success";
/// Words of flags that let a record into the queue.
const IN: [&str; 6] = ["ready", "active", "enabled", "approved", "confirmed", "hold"];
/// Words of flags that take a record out of the queue.
const OUT: &str = "blocked dead archived cancelled canceled disabled skipped discarded abandoned paused \
                   suspended expired rejected processing running in_progress inprogress executing \
                   sending busy reserved";

/// Those of them that say that it is given up for good.
pub const SURELY_OUT: &str = "abandoned dead discarded";

impl Evidence<'_> {
    /// Columns that say yes or no, and are called by one of these words.
    pub fn flags(&self, words: &str) -> impl Iterator<Item = &Profile<'_>> {
        self.profiles.iter().filter(move |it| {
            let name = truth_of(it.name());
            words.split_whitespace().any(|word| word == name) && is_flag(it)
        })
    }

    /// Whether a flag that not all rows have alike may say which of them are worked off.
    pub fn has_flag_of_readiness(&self) -> bool {
        self.flags_of_readiness().next().is_some()
    }

    fn flags_of_readiness(&self) -> impl Iterator<Item = &Profile<'_>> {
        self.profiles.iter().filter(|it| {
            let name = it.name().to_lowercase();
            let varies = || it.values.windows(2).any(|pair| pair[0] != pair[1]);
            IN.iter().any(|word| name.contains(word)) && is_flag(it) && varies()
        })
    }

    /// The conditions of rows that such flags let into the queue, if indexes on what is not done tell
    /// of all of them.
    pub fn readiness(&self, done: &Profile<'_>) -> Option<Vec<String>> {
        let told = self.flags_of_readiness().map(|it| {
            let is = |yes: bool| self.leaves_out(done, it, |row| is_yes(it.values[row]) != yes);
            match (is(true), is(false)) {
                (true, false) => Some(set_to(it, true)),
                (false, true) => Some(set_to(it, false)),
                (true, true) | (false, false) => None,
            }
        });
        told.collect()
    }

    /// Whether a date and a truth are of the same rows: `delivered_at` and `delivered`.
    pub fn say_the_same(&self, date: &Profile<'_>, truth: &Profile<'_>) -> bool {
        (0..self.rows()).all(|row| is_yes(truth.values[row]) != date.is_none_at(row))
            && (0..self.rows()).any(|row| is_yes(truth.values[row]))
    }

    /// The flag of rows that have failed for good, beside a column that says that one is done; fails
    /// where the rows do not show whether they are tried again.
    pub fn failed_flag(&self, done: &Profile<'_>) -> Result<Option<Flag>, ()> {
        let mut flags = self.flags(FLAGS).filter(|it| it.name() != done.name());
        let Some(flag) = flags.next() else { return Ok(None) };
        if flags.next().is_some() || flag.name().to_lowercase().contains("succe") {
            return Err(());
        }
        let is_done = |row: usize| match done.is_date() {
            true => !done.is_none_at(row),
            false => is_yes(done.values[row]),
        };
        // An error that stays after a later success is no verdict.
        if (0..self.rows()).any(|row| is_done(row) && is_yes(flag.values[row])) {
            return Ok(None);
        }
        let open = (0..self.rows()).filter(|row| !is_done(*row));
        let (failed, waiting): (Vec<_>, Vec<_>) = open.partition(|row| is_yes(flag.values[*row]));
        let attempts = |row: &usize| self.counter()?.number_at(*row);
        let counts: Vec<_> = failed.iter().filter_map(attempts).collect();
        let tried = waiting.iter().filter_map(attempts).max().filter(|most| *most > 0);
        let (least, most) = (counts.iter().min(), counts.iter().max());
        let is_retried_before = tried.is_some() && tried.as_ref() <= most;
        let is_of_most = failed.len() > 1 && least == most && least.is_some_and(|it| *it > 1);
        let are_left = || self.newest().is_some_and(|now| self.are_left(&failed, now));
        let is_left_out = || self.leaves_out(done, flag, |row| is_yes(flag.values[row]));
        let is_over = is_retried_before || is_of_most || are_left() || is_left_out();
        if failed.is_empty() || !is_over {
            return Err(());
        }
        Flag::of(flag).map(Some).ok_or(())
    }

    /// The conditions of rows that no flag takes out of the queue, and that nobody has in hand.
    pub fn is_free(&self) -> Vec<String> {
        let condition = |it: &Profile<'_>| set_to(it, false);
        let mut all: Vec<_> = self.flags(OUT).map(condition).chain(not_in_hand(self)).collect();
        all.dedup();
        all
    }

    /// Whether a flag takes a row of the sample out of the queue.
    pub fn is_out(&self, row: usize) -> bool {
        self.flags(OUT).any(|it| is_yes(it.values[row]))
    }
}

/// The condition of rows where a flag says yes, or no.
fn set_to(flag: &Profile<'_>, yes: bool) -> String {
    let name = quoted_if_needed(flag.name());
    match (flag.values.first(), yes) {
        (_, true) if flag.column.holds == Holds::Booleans => name,
        (_, false) if flag.column.holds == Holds::Booleans => format!("NOT {name}"),
        (Some(Value::Text(_)), true) => format!("{name} IN ('Y', 'y', 't', 'yes')"),
        (Some(Value::Text(_)), false) => format!("{name} NOT IN ('Y', 'y', 't', 'yes')"),
        (_, true) => format!("{name} = 1"),
        (_, false) => format!("{name} = 0"),
    }
}

/// The condition of rows that no worker has reserved.
fn not_in_hand(evidence: &Evidence<'_>) -> Option<String> {
    let is_lock = |it: &&Profile<'_>| {
        let name = it.name().to_lowercase();
        let words = ["lock", "reserv", "claim", "leas", "picked", "taken", "grabbed"];
        (words.iter().any(|word| name.contains(word)) || name == "pid") && !it.is(Word::Due)
    };
    let lock = evidence.all(Word::Locked).find(is_lock)?;
    let name = quoted_if_needed(lock.name());
    let is_zero = |value: &&Value| matches!(value, Value::Integer(0));
    // Nobody may be without one at present.
    let is_by_default = lock.column.default.as_deref() == Some("0");
    if lock.values.iter().any(is_zero) || is_by_default {
        return Some(format!("{name} = 0"));
    }
    (!lock.column.not_null).then(|| format!("{name} IS NULL"))
}

/// A column that says yes or no to whether a record has failed for good.
#[derive(PartialEq)]
pub struct Flag {
    name: String,
    /// The condition of rows where it says no.
    pub no: String,
    /// No and yes, as TOML has them.
    sets: [String; 2],
}

impl Flag {
    pub fn of(flag: &Profile<'_>) -> Option<Self> {
        let (no, no_toml, yes_toml) = match flag.values.first() {
            _ if flag.column.holds == Holds::Booleans => (None, "false", "true"),
            Some(Value::Integer(_)) => (Some("0"), "0", "1"),
            Some(Value::Text(text)) if ["Y", "N"].contains(&text.as_str()) => {
                (Some("'N'"), "\"N\"", "\"Y\"")
            }
            _ => return None,
        };
        let name = quoted_if_needed(flag.name());
        Some(Self {
            name: flag.name().into(),
            no: no.map_or_else(|| format!("NOT {name}"), |no| format!("{name} = {no}")),
            sets: [no_toml, yes_toml].map(String::from),
        })
    }

    /// The lines by which rows that are open, with the flag, are those in the archive.
    pub fn archives(&self, open: &str, proposal: &mut Proposal) {
        let Self { name, no, sets: [unset, set] } = self;
        let why = format!("given up: {name} is set, and no row with it is tried again");
        proposal.step(Step::Comment(why));
        proposal.step(Step::Lines(vec![
            format!("where_archived = {}", Toml::from(format!("{open} AND NOT ({no})"))),
            format!("on_archive = {{ {} = {set} }}", bare(name)),
            format!("on_restore = {{ {} = {unset} }}", bare(name)),
        ]));
    }
}

/// The two values of a column that says yes or no, as TOML has them.
pub struct Truth {
    pub no: String,
    pub yes: String,
}

impl Truth {
    pub fn of(profile: &Profile<'_>, values: &mut Values<'_>) -> Option<Self> {
        const TEXTS: [(&str, &str); 4] = [("N", "Y"), ("n", "y"), ("no", "yes"), ("f", "t")];
        let Column { holds, declared, .. } = profile.column;
        if *holds == Holds::Booleans {
            return Some(Self { no: "false".into(), yes: "true".into() });
        }
        let is_declared = declared.to_ascii_uppercase().contains("BOOL");
        if is_declared || profile.counts() && are(&values(profile.name())?, ("0", "1")) {
            return Some(Self { no: "0".into(), yes: "1".into() });
        }
        let all = values(profile.name()).filter(|_| *holds == Holds::Text)?;
        let found = TEXTS.into_iter().find(|pair| are(&all, *pair))?;
        let [no, yes] = [found.0, found.1].map(|it| Toml::from(it).to_string());
        Some(Self { no, yes })
    }

    /// The condition of rows that say no.
    pub fn is_no(&self, profile: &Profile<'_>) -> String {
        let name = quoted_if_needed(profile.name());
        match profile.column.holds == Holds::Booleans {
            true => format!("NOT {name}"),
            false => format!("{name} = {}", self.no.replace('"', "'")),
        }
    }
}

/// Whether these are two values, and no others.
fn are(values: &[(Value, u64)], (no, yes): (&str, &str)) -> bool {
    let is_one = |(value, _): &(Value, u64)| [no, yes].contains(&&*value.to_string());
    values.len() == 2 && values.iter().all(is_one)
}

/// What a name says that is true: `isBlocked`, `is_blocked` and `ISBLOCKED` are `blocked`.
fn truth_of(name: &str) -> String {
    let name = snake(name);
    let bare = ["is_", "has_", "was_", "is", "has"].iter().find_map(|it| name.strip_prefix(it));
    bare.filter(|it| !it.is_empty()).unwrap_or(&name).into()
}

pub fn is_yes(value: &Value) -> bool {
    let is_said = |text: &str| ["Y", "y", "t", "yes"].contains(&text);
    matches!(value, Value::Integer(1) | Value::Boolean(true))
        || matches!(value, Value::Text(text) if is_said(text))
}

/// Whether a column says yes or no.
fn is_flag(profile: &Profile<'_>) -> bool {
    let is_bit = |value: &&Value| match value {
        Value::Integer(0 | 1) | Value::Boolean(_) => true,
        Value::Text(text) => ["Y", "N", "y", "n", "t", "f", "yes", "no"].contains(&text.as_str()),
        Value::Null
        | Value::Integer(_)
        | Value::Real(_)
        | Value::Bytes(_)
        | Value::Blob(_)
        | Value::Json(_) => false,
    };
    !profile.values.is_empty() && profile.values.iter().all(is_bit)
}
