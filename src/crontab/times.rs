//! Times of a crontab line: the minutes that its five fields, or the word in their place, name.

use chrono::{Datelike, NaiveDate, NaiveDateTime};

/// A field: its least and greatest value, and the names that stand for values from the least on.
type Field = (u32, u32, &'static [&'static str]);

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// Sunday is 0 and 7.
const FIELDS: [Field; 5] =
    [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, &MONTHS), (0, 7, &WEEKDAYS)];

/// The values of a list of values, ranges and steps as bits, as strictly as Debian's cron reads it.
fn values(text: &str, (first, last, names): Field) -> Option<u64> {
    let number = |text: &str| -> Option<u32> {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
    };
    let value = |text: &str| {
        let named = names.iter().zip(first..).find(|(name, _)| name.eq_ignore_ascii_case(text));
        let value = named.map_or_else(|| number(text), |(_, value)| Some(value));
        value.filter(|value| (first..=last).contains(value))
    };
    text.split(',').try_fold(0, |all, part| {
        let (span, step) = part.split_once('/').map_or((part, None), |(it, step)| (it, Some(step)));
        let (from, to) = match span.split_once('-') {
            _ if span == "*" => (first, last),
            Some((from, to)) => (value(from)?, value(to)?),
            None if step.is_none() => (value(span)?, value(span)?),
            None => return None,
        };
        let step = step.map_or(Some(1), number).filter(|step| *step > 0 && from <= to)?;
        let part =
            (from..=to).step_by(usize::try_from(step).ok()?).fold(0, |set, it| set | 1 << it);
        Some(all | part)
    })
}

fn has(values: u64, number: u32) -> bool {
    values >> number & 1 == 1
}

/// The longest time between two days that are the same day of the month and the week: 29 February
/// may be left out at the turn of a century.
const YEARS: usize = 9;

/// The next two runs of a line, fewer if there are none in nine years; `None` for what is no time.
pub fn next_two(times: &str, now: NaiveDateTime) -> Option<Vec<NaiveDateTime>> {
    let fields = match times {
        "@reboot" => return Some(Vec::new()),
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        _ => times,
    };
    let fields: Vec<_> = fields.split(' ').collect();
    let sets: Option<Vec<_>> =
        fields.iter().zip(FIELDS).map(|(text, field)| values(text, field)).collect();
    let [minutes, hours, days, months, weekdays] = sets?[..] else { return None };
    // Where both are said, a day of the month or of the week is enough.
    let is_either = !fields[2].starts_with('*') && !fields[4].starts_with('*');
    let is_day = |date: &NaiveDate| {
        let is_weekday = has(weekdays | weekdays >> 7, date.weekday().num_days_from_sunday());
        let is_day = has(days, date.day());
        let is_meant = if is_either { is_day || is_weekday } else { is_day && is_weekday };
        has(months, date.month()) && is_meant
    };
    let dates = now.date().iter_days().take(YEARS * 366).filter(is_day);
    let all = dates.flat_map(|date| {
        (0..24 * 60).filter_map(move |minute| {
            let (hour, minute) = (minute / 60, minute % 60);
            let is_run = has(hours, hour) && has(minutes, minute);
            is_run.then(|| date.and_hms_opt(hour, minute, 0))?
        })
    });
    Some(all.filter(|at| *at > now).take(2).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(times: &str) -> Option<String> {
        let now = NaiveDateTime::parse_from_str("2026-11-21 10:02:30", "%F %T").unwrap();
        let shown = next_two(times, now)?.into_iter().map(|at| at.format("%F %R").to_string());
        Some(shown.collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn the_next_two_runs_follow_from_the_fields() {
        for (times, expected) in [
            ("* * * * *", "2026-11-21 10:03, 2026-11-21 10:04"),
            ("*/5 * * * *", "2026-11-21 10:05, 2026-11-21 10:10"),
            ("2 10,11 * * *", "2026-11-21 11:02, 2026-11-22 10:02"),
            ("@daily", "2026-11-22 00:00, 2026-11-23 00:00"),
            ("@weekly", "2026-11-22 00:00, 2026-11-29 00:00"),
            ("0 0 * * 7", "2026-11-22 00:00, 2026-11-29 00:00"),
            ("0 0 * * Sat-7", "2026-11-22 00:00, 2026-11-28 00:00"),
            ("0 0 1-7/3 jan,feb *", "2027-01-01 00:00, 2027-01-04 00:00"),
            // Either day is enough, unless one of them begins with a star.
            ("0 0 1 * 1", "2026-11-23 00:00, 2026-11-30 00:00"),
            ("0 0 1 * */7", "2027-08-01 00:00, 2028-10-01 00:00"),
            ("0 0 29 2 *", "2028-02-29 00:00, 2032-02-29 00:00"),
            ("0 0 31 2 *", ""),
            ("@reboot", ""),
        ] {
            assert_eq!(next(times).as_deref(), Some(expected), "{times}");
        }
    }

    #[test]
    fn what_cron_refuses_is_no_time() {
        for times in [
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * 32 * *",
            "* * * 13 *",
            "* * * * 8",
            "*/0 * * * *",
            "5/10 * * * *",
            "1, * * * *",
            "1- * * * *",
            "+5 * * * *",
            "-1 * * * *",
            "5-1 * * * *",
            "* * * * fri-sun",
            "? * * * *",
            "~ * * * *",
            "* * L * *",
            "* * * january *",
            "0x5 * * * *",
            "*\u{a0}* * * *",
            "* * * *",
            "@DAILY",
            "@every",
            "@5min",
            "",
        ] {
            assert_eq!(next(times), None, "{times}");
        }
    }
}
