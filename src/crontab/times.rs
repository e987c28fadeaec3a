//! Times of a crontab line: its five fields, or the word in their place.

/// A field: its least and greatest value, and the names that stand for values from the least on.
type Field = (u32, u32, &'static [&'static str]);

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// Sunday is 0 and 7.
const FIELDS: [Field; 5] =
    [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, &MONTHS), (0, 7, &WEEKDAYS)];

/// Whether a text is a list of values, ranges and steps, as strictly as Debian's cron reads it.
fn are_values(text: &str, (first, last, names): Field) -> bool {
    let number = |text: &str| -> Option<u32> {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
    };
    let value = |text: &str| {
        let named = names.iter().zip(first..).find(|(name, _)| name.eq_ignore_ascii_case(text));
        let value = named.map_or_else(|| number(text), |(_, value)| Some(value));
        value.filter(|value| (first..=last).contains(value))
    };
    text.split(',').all(|part| {
        let (span, step) = part.split_once('/').map_or((part, None), |(it, step)| (it, Some(step)));
        let is_span = match span.split_once('-') {
            _ if span == "*" => true,
            Some((from, to)) => value(from).zip(value(to)).is_some_and(|(from, to)| from <= to),
            None => step.is_none() && value(span).is_some(),
        };
        is_span && step.is_none_or(|step| number(step).is_some_and(|step| step > 0))
    })
}

/// Whether five fields, or the word in their place, are times of a line.
pub fn is_time(times: &str) -> bool {
    let words =
        ["reboot", "hourly", "daily", "midnight", "weekly", "monthly", "yearly", "annually"];
    let fields: Vec<_> = times.split(' ').collect();
    let all_legal = || fields.iter().zip(FIELDS).all(|(text, field)| are_values(text, field));
    times.strip_prefix('@').is_some_and(|word| words.contains(&word))
        || fields.len() == FIELDS.len() && all_legal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cron_takes_is_a_time() {
        for times in [
            "* * * * *",
            "*/5 * * * *",
            "2 10,11 * * *",
            "@daily",
            "@reboot",
            "0 0 * * 7",
            "0 0 * * Sat-7",
            "0 0 1-7/3 jan,feb *",
            "0 0 1 * */7",
        ] {
            assert!(is_time(times), "{times}");
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
            assert!(!is_time(times), "{times}");
        }
    }
}
