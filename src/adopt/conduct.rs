//! What the rows with a value of a status show of it, where no word says what it means: a number, a word
//! that nobody knows, NULL.

use super::profile::Profile;
use super::propose::Evidence;
use super::words::{Meaning, Word, may_wait};
use crate::record::Value;

/// Fewer rows than this show no custom.
const SOME: usize = 10;

pub struct Conduct<'e, 'a> {
    evidence: &'e Evidence<'a>,
    status: &'e Profile<'a>,
    /// The rows of the sample, the oldest first.
    order: Vec<usize>,
}

impl<'e, 'a> Conduct<'e, 'a> {
    pub fn new(evidence: &'e Evidence<'a>, status: &'e Profile<'a>) -> Self {
        let mut order: Vec<_> = (0..evidence.rows()).collect();
        // The order of the key says nothing where it is random.
        if let Some(created) = evidence.date_of(Word::Created).filter(|it| it.is_full()) {
            order.sort_by_key(|row| created.instant_at(*row));
        }
        Self { evidence, status, order }
    }

    /// The rows with a value, the oldest first.
    pub fn rows(&self, value: &Value) -> Vec<usize> {
        let holds = |row: &usize| self.status.values[*row] == value;
        self.order.iter().copied().filter(holds).collect()
    }

    /// Whether of the rows that are newer than each of these many have one of some values.
    pub fn are_overtaken(&self, rows: &[usize], by: &[Value]) -> bool {
        let Some(last) = self.order.iter().rposition(|row| rows.contains(row)) else {
            return false;
        };
        let is_by = |row: &&usize| by.contains(self.status.values[**row]);
        self.order[last..].iter().filter(is_by).count() > SOME
    }

    /// Whether a value is that of finished rows: of more than half of all, with the date of it where
    /// there is such a column, and without an error.
    fn is_done(&self, value: &Value, share: f64, of: usize) -> bool {
        let rows = self.rows(value);
        if rows.len() < SOME || share <= 0.5 {
            return false;
        }
        let has_date = self.done().map(|done| rows.iter().all(|row| !done.is_none_at(*row)));
        let has_error = self.errors(&rows).map(|errors| errors * 10 > rows.len());
        match (has_date, has_error) {
            (Some(false), _) | (_, Some(true)) => false,
            (None, None) => of == 2,
            (Some(true), _) | (_, Some(false)) => true,
        }
    }

    /// Whether a value is that of rows that nobody has tried: it is that of the newest ones, and none
    /// is done, and hardly any has an error or a count of attempts.
    fn is_untried(&self, value: &Value, is_first: bool) -> bool {
        let rows = self.rows(value);
        let newest = self.order.iter().rev().take(SOME.max(self.order.len() / 20));
        let is_newest = newest.filter(|row| rows.contains(row)).count() > 0;
        let middle = rows.get(rows.len() / 2);
        let place = middle.and_then(|middle| self.order.iter().position(|row| row == middle));
        let is_late = place.is_some_and(|place| place * 4 > self.order.len() * 3);
        let is_done = |row: &usize| self.done().is_some_and(|done| !done.is_none_at(*row));
        let count = |row: &usize| self.evidence.counter().and_then(|it| it.number_at(*row));
        let tried = rows.iter().filter(|row| count(row).is_some_and(|count| count > 0)).count();
        let is_clean = self.errors(&rows).is_none_or(|errors| errors * 2 < rows.len())
            && tried * 2 < rows.len()
            && !rows.iter().any(is_done)
            && !rows.iter().any(|row| self.is_in_hand(*row))
            && !self.are_begun(&rows);
        is_first && is_newest && is_late && is_clean
    }

    /// Whether rows have the date of an attempt that a row need not have, also where none waits that has
    /// none at present.
    fn are_begun(&self, rows: &[usize]) -> bool {
        let begun = self.evidence.only(Word::Tried, |it| it.is_date() && !it.column.not_null);
        begun.is_some_and(|begun| rows.iter().all(|row| !begun.is_none_at(*row)))
    }

    /// What a value means beside those of rows that are new, and done.
    fn beside(&self, value: &Value, new: &[Value], success: &[Value]) -> Option<Meaning> {
        let rows = self.rows(value);
        let (now, due) = (self.evidence.newest(), self.evidence.date_of(Word::Due));
        let is_to_come = |row: &usize| {
            let at = due.and_then(|due| due.instant_at(*row));
            at.zip(now).is_some_and(|(at, now)| at > now)
        };
        if rows.is_empty() {
            return None;
        }
        if rows.iter().any(is_to_come) {
            // What is due later waits, unless somebody has it in hand till then.
            let count = |row: &usize| self.evidence.counter().and_then(|it| it.number_at(*row));
            let counts: Option<Vec<_>> = rows.iter().map(count).collect();
            let is_free = !rows.iter().any(|row| self.is_in_hand(*row));
            let counts = counts.filter(|_| is_free && rows.len() > 2)?;
            return match (counts.iter().min()?, counts.iter().max()?) {
                (_, 0) => Some(Meaning::Later),
                (1.., _) => Some(Meaning::Retry),
                _ => None,
            };
        }
        let failed = self.evidence.only(Word::Failed, Profile::is_date);
        let is_dated = |date: Option<&Profile<'_>>| {
            date.is_some_and(|date| rows.iter().all(|row| !date.is_none_at(*row)))
        };
        let has_failed = self.errors(&rows).is_some_and(|errors| errors * 5 >= rows.len() * 4)
            || is_dated(failed.filter(|it| !it.is_full()));
        let is_left = || now.is_some_and(|now| self.evidence.are_left(&rows, now));
        let is_known_not_to_wait = || {
            matches!(value, Value::Text(text) if !may_wait(text))
                && self.are_overtaken(&rows, success)
        };
        if has_failed {
            Some(Meaning::Failed)
        } else if rows.iter().all(|row| self.is_in_hand(*row))
            || is_dated(self.done())
            || is_dated(self.evidence.date_of(Word::Cancelled))
            || is_left()
            || is_known_not_to_wait()
            || self.is_left_out(value, new, success)
        {
            Some(Meaning::Other)
        } else {
            None
        }
    }

    /// Whether an index leads to what is new and to other values, and neither to what is done nor to
    /// this value.
    fn is_left_out(&self, value: &Value, new: &[Value], success: &[Value]) -> bool {
        let has = |values: &[Value], of: &[Value]| of.iter().any(|it| values.contains(it));
        let mut searched = self.evidence.searched_values(self.status);
        searched.retain(|values| has(values, new) && !has(values, success));
        !success.is_empty()
            && !searched.is_empty()
            && searched.iter().all(|values| !values.contains(value))
    }

    /// The date when a row was done.
    fn done(&self) -> Option<&Profile<'a>> {
        self.evidence.only(Word::Done, |it| it.is_date() && !it.is_full())
    }

    /// How many of some rows have an error, if some of all have.
    fn errors(&self, rows: &[usize]) -> Option<usize> {
        let error = self.evidence.only(Word::Error, Profile::holds_text)?;
        let has = |row: &usize| !error.is_none_at(*row);
        (0..self.evidence.rows())
            .any(|row| has(&row))
            .then(|| rows.iter().filter(|row| has(row)).count())
    }

    /// Whether there are rows with a value, and somebody has taken each of them.
    pub fn are_in_hand(&self, value: &Value) -> bool {
        let rows = self.rows(value);
        !rows.is_empty() && rows.iter().all(|row| self.is_in_hand(*row))
    }

    /// Whether somebody has taken a row and not given it back: a lock is set, or the date when an
    /// attempt began, and not that of its end.
    fn is_in_hand(&self, row: usize) -> bool {
        let begun = self.evidence.only(Word::Tried, |it| it.is_date() && !it.is_full());
        let is_lock = |it: &&Profile<'_>| !it.is_full() && !it.is(Word::Due);
        let lock = self.evidence.all(Word::Locked).find(is_lock);
        let is_open = self.done().is_some_and(|done| done.is_none_at(row));
        let has = |it: &Profile<'_>| !it.is_none_at(row) && it.number_at(row) != Some(0);
        lock.is_some_and(has) || is_open && begun.is_some_and(has)
    }

    /// The meanings of values that no word tells, as far as the rows tell all of them: `known` are
    /// those that a word does tell.
    pub fn meanings(
        &self,
        unknown: &[(Value, u64)],
        known: &[(Meaning, Value)],
        default: Option<&str>,
        all: u64,
    ) -> Result<Vec<(Meaning, Value)>, Value> {
        #[expect(clippy::cast_precision_loss, reason = "a share of a count")]
        let share = |rows: u64| rows as f64 / all.max(1) as f64;
        let of = unknown.len() + known.len();
        let has = |meaning| known.iter().any(|it| it.0 == meaning);
        let mut left: Vec<_> = unknown.to_vec();
        let mut told = Vec::new();
        if !has(Meaning::Success)
            && !has(Meaning::Entered)
            && let Some(at) = left.iter().position(|(it, rows)| self.is_done(it, share(*rows), of))
        {
            told.push((Meaning::Success, left.remove(at).0));
        }
        let numbers = left.iter().filter_map(|(it, _)| number(it));
        let least = numbers.min();
        let is_first = |value: &Value| match default {
            Some(default) => value.to_string() == default,
            None => value.is_null() || number(value).is_some() && number(value) == least,
        };
        let untried = |(it, _): &(Value, u64)| self.is_untried(it, is_first(it));
        if !has(Meaning::New)
            && let Some(at) = left.iter().position(untried)
        {
            told.push((Meaning::New, left.remove(at).0));
        }
        let of = |meaning| {
            let those = known.iter().chain(&told).filter(move |it| it.0 == meaning);
            those.map(|it| it.1.clone()).collect::<Vec<_>>()
        };
        let (new, success) = (of(Meaning::New), of(Meaning::Success));
        for (value, _) in left {
            match self.beside(&value, &new, &success) {
                Some(meaning) => told.push((meaning, value)),
                None => return Err(value),
            }
        }
        Ok(told)
    }
}

fn number(value: &Value) -> Option<i64> {
    if let Value::Integer(number) = value { Some(*number) } else { None }
}
