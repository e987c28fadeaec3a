//! Longest gap between two runs of a schedule, by a crontab's fields or by systemd's OnCalendar=.
//! A pass is overdue once more time than this has gone by.

use std::collections::BTreeSet;

use chrono::{Datelike, NaiveDate};

use crate::time::DAY;

/// Legal values of a field, and the names that stand for them from the first on.
struct Field {
    first: i64,
    last: i64,
    names: &'static [&'static str],
}

const MINUTES: Field = Field { first: 0, last: 59, names: &[] };
const HOURS: Field = Field { first: 0, last: 23, names: &[] };
const DAYS: Field = Field { first: 1, last: 31, names: &[] };
const MONTHS: Field = Field {
    first: 1,
    last: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEK: i64 = 7;
/// Sunday is 0 and 7.
const WEEKDAYS: Field =
    Field { first: 0, last: WEEK, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

/// Ranges of a crontab's field, and of systemd's.
const HYPHEN: &str = "-";
const DOTS: &str = "..";

impl Field {
    /// A list of values, ranges and steps.
    fn values(&self, text: &str, range: &str) -> Option<BTreeSet<i64>> {
        let parts = text.split(',').map(|part| self.part(part, range));
        Some(parts.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn part(&self, part: &str, range: &str) -> Option<Vec<i64>> {
        let (span, step) = part.split_once('/').map_or((part, None), |(it, step)| (it, Some(step)));
        let (from, to) = match span.split_once(range) {
            _ if span == "*" => (self.first, self.last),
            Some((from, to)) => (self.value(from)?, self.value(to)?),
            // With a step it goes on to the end.
            None => (self.value(span)?, if step.is_some() { self.last } else { self.value(span)? }),
        };
        // Sunday also ends a range, as in Monday to Sunday.
        let to = if from > to && self.last == WEEK { to + WEEK } else { to };
        let step = step.map_or(Some(1), |step| step.parse().ok().filter(|step| *step > 0))?;
        Some((from..=to).step_by(step).collect())
    }

    fn value(&self, text: &str) -> Option<i64> {
        let name = text.get(..3).map(str::to_ascii_lowercase);
        let named =
            self.names.iter().zip(self.first..).find(|(it, _)| Some(**it) == name.as_deref());
        let value = named.map_or_else(|| text.parse().ok(), |(_, value)| Some(value));
        value.filter(|value| (self.first..=self.last).contains(value))
    }
}

/// Days on which a line runs.
struct Days {
    days: BTreeSet<i64>,
    months: BTreeSet<i64>,
    weekdays: BTreeSet<i64>,
    /// Whether a day of the month or of the week is enough, as cron has it where both are said.
    is_either: bool,
}

/// Days after which dates fall on the same weekdays again: 28 years.
const CYCLE: i64 = 28 * 365 + 7;

impl Days {
    fn contain(&self, date: NaiveDate) -> bool {
        let is_day = self.days.contains(&date.day().into());
        let weekday: i64 = date.weekday().num_days_from_sunday().into();
        let is_weekday = self.weekdays.iter().any(|it| it % WEEK == weekday);
        let is_either = self.is_either && (is_day || is_weekday);
        self.months.contains(&date.month().into()) && (is_either || is_day && is_weekday)
    }

    fn longest_gap(&self) -> Option<i64> {
        let is_weekly = self.days.len() == 31 && self.months.len() == 12;
        let cycle = if is_weekly { WEEK } else { CYCLE };
        let all = NaiveDate::from_ymd_opt(2001, 1, 1)?.iter_days().zip(0..cycle);
        let days: Vec<_> = all.filter(|(day, _)| self.contain(*day)).map(|(_, at)| at).collect();
        let next = days.iter().copied().skip(1).chain([days.first()? + cycle]);
        days.iter().zip(next).map(|(day, next)| next - day).max()
    }
}

/// Longest gap in seconds where each of these days has the same times.
fn longest_gap(minutes: &BTreeSet<i64>, hours: &BTreeSet<i64>, days: &Days) -> Option<i64> {
    let of_hour = |hour| minutes.iter().map(move |minute| hour * 3_600 + minute * 60);
    let times: Vec<_> = hours.iter().flat_map(of_hour).collect();
    let between_days = days.longest_gap()? * DAY - (times.last()? - times.first()?);
    times.windows(2).map(|pair| pair[1] - pair[0]).chain([between_days]).max()
}

/// Longest gap by the five fields or the word of a crontab's line.
pub fn of_fields(times: &str) -> Option<i64> {
    let fields = match times.to_ascii_lowercase().as_str() {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        _ => times,
    };
    let fields: Vec<_> = fields.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else { return None };
    let days = Days {
        days: DAYS.values(day, HYPHEN)?,
        months: MONTHS.values(month, HYPHEN)?,
        weekdays: WEEKDAYS.values(weekday, HYPHEN)?,
        is_either: !day.starts_with('*') && !weekday.starts_with('*'),
    };
    longest_gap(&MINUTES.values(minute, HYPHEN)?, &HOURS.values(hour, HYPHEN)?, &days)
}

/// Longest gap by a text of OnCalendar= (systemd.time(7)). Seconds are passed over.
pub fn of_calendar(text: &str) -> Option<i64> {
    let text = match text.to_ascii_lowercase().as_str() {
        "minutely" => "*:*",
        "hourly" => "*:0",
        "daily" => "0:0",
        "weekly" => "Mon",
        "monthly" => "*-*-1",
        "quarterly" => "*-1,4,7,10-1",
        "semiannually" | "semi-annually" => "*-1,7-1",
        "yearly" | "annually" => "*-1-1",
        _ => text,
    };
    let (mut weekdays, mut date, mut time) = (None, None, None);
    for word in text.split_whitespace() {
        if word.contains(':') {
            time = Some(word);
        } else if word.starts_with(|c: char| c.is_ascii_alphabetic()) {
            // Or else it is a time zone.
            weekdays = WEEKDAYS.values(word, DOTS).or(weekdays);
        } else {
            date = Some(word);
        }
    }
    if weekdays.is_none() && date.or(time).is_none() {
        return None;
    }
    let date: Vec<_> = date.unwrap_or("*-*").split('-').collect();
    let ([month, day] | ["*", month, day]) = date[..] else { return None };
    let time: Vec<_> = time.unwrap_or("0:0").split(':').collect();
    let ([hour, minute] | [hour, minute, _]) = time[..] else { return None };
    let days = Days {
        days: DAYS.values(day, DOTS)?,
        months: MONTHS.values(month, DOTS)?,
        weekdays: weekdays.map_or_else(|| WEEKDAYS.values("*", DOTS), Some)?,
        is_either: false,
    };
    longest_gap(&MINUTES.values(minute, DOTS)?, &HOURS.values(hour, DOTS)?, &days)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600;

    #[test]
    fn the_longest_gap_of_fields_is_what_passes_at_most_without_a_run() {
        for (times, expected) in [
            ("* * * * *", Some(60)),
            ("*/5 * * * *", Some(300)),
            ("2-59/5 * * * *", Some(300)),
            ("*/7 * * * *", Some(420)),
            ("*/40 * * * *", Some(2_400)),
            ("5,20 * * * *", Some(2_700)),
            ("17 *  * *\t*", Some(HOUR)),
            ("0 0,12 * * *", Some(12 * HOUR)),
            ("0 0,4 * * *", Some(20 * HOUR)),
            ("10 3 * * *", Some(DAY)),
            ("*/5 8-18 * * 1-5", Some(3 * DAY - 11 * HOUR + 300)),
            ("*/5 8-18 * * Mon-FRI", Some(3 * DAY - 11 * HOUR + 300)),
            ("0 0 * * 0", Some(7 * DAY)),
            ("0 0 * * 7", Some(7 * DAY)),
            ("0 0 * * 5-7", Some(5 * DAY)),
            ("0 0 * * mon,thu", Some(4 * DAY)),
            ("0 0 1 * *", Some(31 * DAY)),
            ("0 0 1,15 * *", Some(17 * DAY)),
            ("0 0 31 * *", Some(61 * DAY)),
            ("0 0 1 1 *", Some(366 * DAY)),
            ("0 0 29 feb *", Some(1_461 * DAY)),
            ("0 0 * jan-nov *", Some(32 * DAY)),
            // Either of them, unless one is a star.
            ("0 0 1 * 0", Some(7 * DAY)),
            ("0 0 */2 * 0", Some(21 * DAY)),
            ("@hourly", Some(HOUR)),
            ("@daily", Some(DAY)),
            ("@midnight", Some(DAY)),
            ("@weekly", Some(7 * DAY)),
            ("@Monthly", Some(31 * DAY)),
            ("@yearly", Some(366 * DAY)),
            ("@annually", Some(366 * DAY)),
            ("@reboot", None),
            ("0 0 30 2 *", None),
            ("60 * * * *", None),
            ("*/0 * * * *", None),
            ("0 0 0 * *", None),
            ("x * * * *", None),
            ("é * * * *", None),
            ("0 0 * *", None),
            (", * * * *", None),
        ] {
            assert_eq!(of_fields(times), expected, "{times}");
        }
    }

    #[test]
    fn the_longest_gap_of_a_calendar_is_what_passes_at_most_without_a_run() {
        for (text, expected) in [
            ("*-*-* *:0/5:00", Some(300)),
            ("*-*-* *:*:00", Some(60)),
            ("*:00:00", Some(HOUR)),
            ("*-*-* 00/4:00:00", Some(4 * HOUR)),
            ("00:00:00", Some(DAY)),
            ("*-*-* 03:10", Some(DAY)),
            ("*-*-01 00:00:00 Europe/Berlin", Some(31 * DAY)),
            ("Mon..Fri 8..18:0/5 UTC", Some(3 * DAY - 11 * HOUR + 300)),
            ("Friday..Sun *-*-*", Some(5 * DAY)),
            ("Sat,Sun 12:00", Some(6 * DAY)),
            ("minutely", Some(60)),
            ("Hourly", Some(HOUR)),
            ("daily", Some(DAY)),
            ("weekly", Some(7 * DAY)),
            ("monthly", Some(31 * DAY)),
            ("quarterly", Some(92 * DAY)),
            ("semiannually", Some(184 * DAY)),
            ("yearly", Some(366 * DAY)),
            ("2026-11-20 03:10", None),
            ("*-*~03", None),
            ("5min", None),
            ("300", None),
            ("UTC", None),
            ("", None),
        ] {
            assert_eq!(of_calendar(text), expected, "{text}");
        }
    }
}
