//! What cron and systemd are told, and what a crontab says.

use std::fmt::Write as _;

/// How often a line is to run, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period(pub i64);

/// When cron or systemd starts a line: at all these times, or only at those among them whose
/// number since 1970 is a multiple.
struct Times {
    fields: String,
    /// Seconds between the times, and which one in how many counts.
    one_in: Option<(i64, i64)>,
}

impl Period {
    /// The finest period that cron has.
    const MINUTE: i64 = 60;
    const HOUR: i64 = 3_600;
    const DAY: i64 = 86_400;

    /// Whole minutes, at least one.
    fn minutes(self) -> i64 {
        (self.0 / Self::MINUTE).max(1)
    }

    fn times(self, every: impl Fn(&'static str, i64) -> String) -> Times {
        let secs = self.minutes() * Self::MINUTE;
        let at = |fields: String| Times { fields, one_in: None };
        match secs {
            _ if Self::HOUR % secs == 0 && secs < Self::HOUR => {
                at(every("minutes", secs / Self::MINUTE))
            }
            _ if Self::DAY % secs == 0 && secs % Self::HOUR == 0 => {
                at(every("hours", secs / Self::HOUR))
            }
            // Days of the month would leave gaps at its end.
            _ if secs % Self::HOUR == 0 => {
                Times { fields: every("hours", 1), one_in: Some((Self::HOUR, secs / Self::HOUR)) }
            }
            _ => Times {
                fields: every("minutes", 1),
                one_in: Some((Self::MINUTE, secs / Self::MINUTE)),
            },
        }
    }

    /// A line of a crontab that runs a command.
    ///
    /// # Errors
    /// If the command has a line break in it, which no crontab can say.
    pub fn cron_line(self, command: &[String]) -> Result<String, String> {
        let times = self.times(|unit, step| match (unit, step) {
            ("minutes", 1) => "* * * * *".into(),
            ("minutes", step) => format!("*/{step} * * * *"),
            (_, 1) => "0 * * * *".into(),
            // In full, because Debian's cron catches up after a sleep what is written without `*`.
            (_, step) => {
                let hours: Vec<_> = (0..24 / step).map(|it| (it * step).to_string()).collect();
                format!("0 {} * * *", hours.join(","))
            }
        });
        let command = shell_words(command)?;
        let command = match times.one_in {
            None => command,
            Some((secs, one_in)) => {
                format!("[ $(expr $(date +%s) / {secs} % {one_in}) -ne 0 ] || {command}")
            }
        };
        // To cron a percent sign ends the command.
        Ok(format!("{} {}", times.fields, command.replace('%', "\\%")))
    }

    /// The units of systemd that do the same, a service and its timer.
    pub fn systemd_units(self, name: &str, what: &str, command: &[String]) -> String {
        let times = self.times(|unit, step| match (unit, step) {
            ("minutes", 1) => "*-*-* *:*:00".into(),
            ("minutes", step) => format!("*-*-* *:0/{step}:00"),
            (_, 1) => "*-*-* *:00:00".into(),
            (_, 24) => "*-*-* 00:00:00".into(),
            (_, step) => format!("*-*-* 00/{step}:00:00"),
        });
        let condition = times.one_in.map_or_else(String::new, |(secs, one_in)| {
            format!(
                "ExecCondition=/bin/sh -c '[ $$(expr $$(date +%%s) / {secs} %% {one_in}) -eq 0 ]'\n"
            )
        });
        let command: Vec<_> = command.iter().map(|word| systemd_word(word)).collect();
        let mut units = String::new();
        let _ = write!(
            units,
            "# /etc/systemd/system/{name}.service\n\
             [Unit]\nDescription={what}\n\n\
             [Service]\nType=oneshot\n{condition}ExecStart={}\n\
             # The database was locked: the next pass tries again.\nSuccessExitStatus=75\n\n\
             # /etc/systemd/system/{name}.timer\n\
             [Unit]\nDescription={what}\n\n\
             [Timer]\nOnCalendar={}\nPersistent=true\nAccuracySec=1s\n\n\
             [Install]\nWantedBy=timers.target\n",
            command.join(" "),
            times.fields
        );
        units
    }
}

/// The words of a command as a shell reads them.
fn shell_words(words: &[String]) -> Result<String, String> {
    let quoted: Result<Vec<_>, _> = words
        .iter()
        .map(|word| match shlex::try_quote(word) {
            Ok(quoted) if !word.contains('\n') => Ok(quoted),
            _ => Err(format!("a crontab cannot say {word:?}: it is one line")),
        })
        .collect();
    Ok(quoted?.join(" "))
}

/// A word of ExecStart= (systemd.service(5), COMMAND LINES).
fn systemd_word(word: &str) -> String {
    let escaped = word
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
        .replace('%', "%%")
        .replace('$', "$$");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/.-_=:,@+%$".contains(c);
    if !word.is_empty() && escaped.chars().all(is_plain) {
        escaped
    } else {
        format!("\"{escaped}\"")
    }
}

/// A line of a crontab that runs this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// From 1 on.
    pub number: usize,
    /// As it is written: `*/5 * * * *` or `@daily`.
    pub times: String,
    /// What the crontab sets before it.
    pub environment: Vec<(String, String)>,
    /// Where the command goes first.
    pub directory: Option<String>,
    /// What stands behind the program's name.
    pub arguments: Vec<String>,
}

/// The lines of a user's crontab (crontab(5)) that run a program of this name.
pub fn lines(crontab: &str, program: &str) -> Vec<Line> {
    let mut environment: Vec<(String, String)> = Vec::new();
    let mut lines = Vec::new();
    for (text, number) in crontab.lines().zip(1..) {
        let text = text.trim_start();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some((name, value)) = assignment(text) {
            environment.push((name.into(), value.into()));
            continue;
        }
        let fields = if text.starts_with('@') { 1 } else { 5 };
        let Some((times, command)) = split_fields(text, fields) else { continue };
        for (directory, arguments) in runs(&until_percent(command), program) {
            let environment = environment.clone();
            let times = times.to_string();
            lines.push(Line { number, times, environment, directory, arguments });
        }
    }
    lines
}

/// `NAME = value`, with quotes or without.
fn assignment(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let name = name.trim().trim_matches(['"', '\'']);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let value = value.trim();
    let value = ['"', '\'']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote))
        .unwrap_or(value);
    (!name.is_empty() && name.chars().all(is_name)).then_some((name, value))
}

/// So many fields, and what is behind them.
fn split_fields(text: &str, fields: usize) -> Option<(&str, &str)> {
    let mut end = 0;
    for _ in 0..fields {
        let rest = &text[end..];
        let start = end + rest.len() - rest.trim_start().len();
        end = start + text[start..].find(char::is_whitespace)?;
    }
    Some((&text[..end], text[end..].trim()))
}

/// The command itself: an unescaped percent sign ends it.
fn until_percent(command: &str) -> String {
    let mut text = String::new();
    let mut chars = command.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('%')) => {
                chars.next();
                text.push('%');
            }
            ('%', _) => break,
            (c, _) => text.push(c),
        }
    }
    text
}

/// Where a shell command runs the program, and with which arguments.
fn runs(command: &str, program: &str) -> Vec<(Option<String>, Vec<String>)> {
    let words: Vec<String> = shlex::Shlex::new(command).collect();
    let is_end = |word: &str| ["|", "||", "&&", ";", "&"].contains(&word);
    let (mut runs, mut directory) = (Vec::new(), None);
    for simple in words.split(|word| is_end(word)) {
        if let [cd, path] = simple
            && cd == "cd"
        {
            directory = Some(path.clone());
        }
        let is_program = |word: &String| word.rsplit('/').next() == Some(program);
        let Some(place) = simple.iter().position(is_program) else { continue };
        // What a redirection names is no argument of ours.
        let is_redirection = |word: &String| {
            word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '&')
                .starts_with(['>', '<'])
        };
        let end = simple.iter().position(is_redirection).unwrap_or(simple.len());
        if place < end {
            runs.push((directory.clone(), simple[place + 1..end].to_vec()));
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(String::from).collect()
    }

    #[test]
    fn every_period_has_a_line_and_a_unit() {
        let minutely = "[ $(expr $(date +\\%s) / 60 \\% 7) -ne 0 ] || x";
        let hourly = "[ $(expr $(date +\\%s) / 3600 \\% 96) -ne 0 ] || x";
        for (secs, line, calendar) in [
            (1, "* * * * * x", "*-*-* *:*:00"),
            (60, "* * * * * x", "*-*-* *:*:00"),
            (300, "*/5 * * * * x", "*-*-* *:0/5:00"),
            (420, &format!("* * * * * {minutely}"), "*-*-* *:*:00"),
            (3_600, "0 * * * * x", "*-*-* *:00:00"),
            (43_200, "0 0,12 * * * x", "*-*-* 00/12:00:00"),
            (86_400, "0 0 * * * x", "*-*-* 00:00:00"),
            (345_600, &format!("0 * * * * {hourly}"), "*-*-* *:00:00"),
        ] {
            assert_eq!(Period(secs).cron_line(&words("x")).unwrap(), line);
            let units = Period(secs).systemd_units("n", "d", &words("x"));
            assert!(units.contains(&format!("OnCalendar={calendar}\n")), "{units}");
            assert_eq!(units.contains("ExecCondition="), line.contains("expr"), "{units}");
        }
    }

    #[test]
    fn what_is_quoted_reads_back() {
        let command: Vec<_> =
            ["/usr/bin/backlog", "process", "--", "sh", "-c", "date +%s; echo \"$HOME's\"", ""]
                .map(String::from)
                .into();
        let line = Period(300).cron_line(&command).unwrap();
        assert!(line.contains("+\\%s"), "{line}");
        let lines = lines(&line, "backlog");
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].arguments, command[1..]);
        assert!(Period(300).cron_line(&["a\nb".into()]).is_err());
        assert_eq!(systemd_word("50% of $HOME"), "\"50%% of $$HOME\"");
    }

    #[test]
    fn a_crontab_is_read_as_cron_reads_it() {
        let crontab = "# backlog process --ndays 1\n\
            MAILTO=root\nBACKLOG_DB = \"/srv/a b.db\"\n\
            */5 * * * *  cd /srv/app && nice backlog process --ndays 1 -- sync >>/var/log/x 2>&1\n\
            @daily [ $(expr $(date +\\%s) / 3600 \\% 96) -ne 0 ] || /opt/backlog status%input\n\
            0 3 * * * /usr/bin/backlogger process\n\
            \t1 2 3 4 5 true; backlog process --all-queues\n";
        let found = lines(crontab, "backlog");
        let shown: Vec<_> = found
            .iter()
            .map(|it| {
                let directory = it.directory.as_deref().unwrap_or("-");
                format!("{} {} {directory}: {}", it.number, it.times, it.arguments.join(" "))
            })
            .collect();
        assert_eq!(
            shown,
            [
                "4 */5 * * * * /srv/app: process --ndays 1 -- sync",
                "5 @daily -: status",
                "7 1 2 3 4 5 -: process --all-queues",
            ]
        );
        let variables = [("MAILTO", "root"), ("BACKLOG_DB", "/srv/a b.db")];
        assert_eq!(found[0].environment, variables.map(|(a, b)| (a.into(), b.into())));
    }
}
