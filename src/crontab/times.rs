//! Times of a crontab line: five fields, or a word such as `@daily`.

/// The least and the greatest value of a field, and names for the values from the least on.
type Field = (u32, u32, &'static [&'static str]);

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// Sunday is 0 and 7.
const FIELDS: [Field; 5] =
    [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, &MONTHS), (0, 7, &WEEKDAYS)];

/// True for a list of values, ranges and steps that Debian's cron accepts.
fn is_field(text: &str, (min, max, names): Field) -> bool {
    let number = |text: &str| -> Option<u32> {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
    };
    let value = |text: &str| {
        let named = names.iter().zip(min..).find(|(name, _)| name.eq_ignore_ascii_case(text));
        let value = named.map_or_else(|| number(text), |(_, value)| Some(value));
        value.filter(|value| (min..=max).contains(value))
    };
    text.split(',').all(|part| {
        let (range, step) =
            part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let is_range = match range.split_once('-') {
            _ if range == "*" => true,
            Some((from, to)) => value(from).zip(value(to)).is_some_and(|(from, to)| from <= to),
            None => step.is_none() && value(range).is_some(),
        };
        is_range && step.is_none_or(|step| number(step).is_some_and(|step| step > 0))
    })
}

pub fn is_time(times: &str) -> bool {
    let words =
        ["reboot", "hourly", "daily", "midnight", "weekly", "monthly", "yearly", "annually"];
    let fields: Vec<_> = times.split(' ').collect();
    let all_legal = || fields.iter().zip(FIELDS).all(|(text, field)| is_field(text, field));
    times.strip_prefix('@').is_some_and(|word| words.contains(&word))
        || fields.len() == FIELDS.len() && all_legal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cron_accepts_these_times() {
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
    fn cron_refuses_these_times() {
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
