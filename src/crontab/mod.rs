//! Crontab lines: written for a schedule, and read back.

mod reader;
mod times;

pub use reader::{CRON_PATH, CronCommand, CronLine, Crontab, MAX_COMMAND};

#[derive(Debug)]
pub struct Period {
    /// The first two fields of a line. The others are `*`.
    minute: String,
    hour: String,
    /// Shell command that prints 0 when a run is due, for periods that the fields cannot express.
    skip_condition: Option<String>,
}

impl Period {
    /// Fails unless `secs` is a whole number of minutes.
    pub fn new(secs: i64) -> Result<Self, String> {
        let (minutes, hours) = (secs / 60, secs / 3_600);
        if secs < 60 || secs % 60 != 0 {
            let minutes = (secs + 59) / 60;
            return Err(format!(
                "cron starts a line in whole minutes: write {minutes}m, not {secs}s"
            ));
        }
        let skipping = |unit, count| Some(format!("expr $(date +%s) / {unit} % {count}"));
        let (minute, hour, skip_condition) = match secs {
            60 => ("*".into(), "*".into(), None),
            3_600 => ("0".into(), "*".into(), None),
            _ if minutes < 60 && 60 % minutes == 0 => (format!("*/{minutes}"), "*".into(), None),
            _ if secs % 3_600 != 0 => ("*".into(), "*".into(), skipping(60, minutes)),
            // Without `*`, because Debian's cron then catches up after a sleep.
            _ if 24 % hours == 0 => {
                let starts: Vec<_> = (0..24 / hours).map(|n| (n * hours).to_string()).collect();
                ("0".into(), starts.join(","), None)
            }
            // Steps of days would restart with each month.
            _ => ("0".into(), "*".into(), skipping(3_600, hours)),
        };
        Ok(Self { minute, hour, skip_condition })
    }

    /// A line of a crontab. Fails on control characters, and on a command that is too long for cron.
    pub fn cron_line(&self, command: &[String]) -> Result<String, String> {
        let mut command = shell_words(command)?;
        if let Some(condition) = &self.skip_condition {
            command = format!("[ $({condition}) -ne 0 ] || {command}");
        }
        // Cron would end the command at a percent sign.
        let command = command.replace('%', "\\%");
        match command.len() {
            0..=MAX_COMMAND => Ok(format!("{} {} * * * {command}", self.minute, self.hour)),
            length => Err(format!(
                "cron ignores a command longer than {MAX_COMMAND} bytes, and this one has {length}: write its \
                 options and the handler into backlog.toml, or the handler into a script"
            )),
        }
    }

    /// A service of systemd and its timer. With `user`, they are system units.
    pub fn systemd_units(
        &self,
        name: &str,
        description: &str,
        user: Option<&str>,
        environment: &[(String, String)],
        command: &[String],
    ) -> String {
        let directory =
            if user.is_some() { "/etc/systemd/system" } else { "~/.config/systemd/user" };
        let user = user.map_or_else(String::new, |user| format!("User={user}\n"));
        let variable = |(name, value): &(String, String)| {
            // `Environment=` does not expand dollar signs (systemd.exec(5)).
            format!("Environment={}\n", systemd_word(&format!("{name}={value}")).replace("$$", "$"))
        };
        let variables: String = environment.iter().map(variable).collect();
        let condition = self.skip_condition.as_ref().map_or_else(String::new, |condition| {
            let condition = condition.replace('%', "%%").replace('$', "$$");
            format!("ExecCondition=/bin/sh -c '[ $$({condition}) -eq 0 ]'\n")
        });
        let command: Vec<_> = command.iter().map(|word| systemd_word(word)).collect();
        format!(
            include_str!("units.txt"),
            directory = directory,
            name = name,
            description = description,
            user = user,
            variables = variables,
            condition = condition,
            command = command.join(" "),
            hour = self.hour,
            minute = self.minute.replace("*/", "0/"),
        )
    }
}

fn shell_words(words: &[String]) -> Result<String, String> {
    let quote = |word: &String| {
        let quoted = shlex::try_quote(word).ok().filter(|_| !word.contains(char::is_control));
        let why = || format!("a crontab cannot contain {word:?}, which has a control character");
        let quoted = quoted.ok_or_else(why)?;
        // Cron turns two backslashes into one, so no backslash may follow another.
        Ok(match quoted.contains('\\') {
            true => format!("'{}'", word.replace('\'', r#"'"'"'"#).replace('\\', r"\''")),
            false => quoted.into_owned(),
        })
    };
    Ok(words.iter().map(quote).collect::<Result<Vec<_>, String>>()?.join(" "))
}

/// A word of ExecStart= (systemd.service(5), COMMAND LINES).
fn systemd_word(word: &str) -> String {
    let escape = |c: char| match c {
        '\\' | '"' => format!("\\{c}"),
        '%' | '$' => format!("{c}{c}"),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    let escaped: String = word.chars().map(escape).collect();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/.-_=:,@+%$".contains(c);
    let is_bare = !word.is_empty() && escaped.chars().all(is_plain);
    if is_bare { escaped } else { format!("\"{escaped}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All words of these characters up to a length.
    fn all_words(chars: &[char], length: usize) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut begin = 0;
        for _ in 0..length {
            let end = words.len();
            for at in begin..end {
                words.extend(chars.iter().map(|c| format!("{}{c}", words[at])).collect::<Vec<_>>());
            }
            begin = end;
        }
        words
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(String::from).collect()
    }

    #[test]
    fn every_period_has_a_line_and_a_unit() {
        let minutely = "[ $(expr $(date +\\%s) / 60 \\% 7) -ne 0 ] || x";
        let hourly = "[ $(expr $(date +\\%s) / 3600 \\% 96) -ne 0 ] || x";
        for (secs, line, calendar) in [
            (60, "* * * * * x", "*-*-* *:*:00"),
            (300, "*/5 * * * * x", "*-*-* *:0/5:00"),
            (420, &format!("* * * * * {minutely}"), "*-*-* *:*:00"),
            (3_600, "0 * * * * x", "*-*-* *:0:00"),
            (43_200, "0 0,12 * * * x", "*-*-* 0,12:0:00"),
            (86_400, "0 0 * * * x", "*-*-* 0:0:00"),
            (345_600, &format!("0 * * * * {hourly}"), "*-*-* *:0:00"),
        ] {
            let period = Period::new(secs).unwrap();
            assert_eq!(period.cron_line(&words("x")).unwrap(), line);
            let units = period.systemd_units("n", "d", None, &[], &words("x"));
            assert!(units.contains(&format!("OnCalendar={calendar}\n")), "{units}");
            assert_eq!(units.contains("ExecCondition="), line.contains("expr"), "{units}");
        }
        for secs in [1, 30, 90] {
            assert!(Period::new(secs).is_err());
        }
    }

    /// The words of the only line, as cron and a shell read them.
    fn read(line: &str) -> Vec<String> {
        let crontab = Crontab { path: None, text: format!("{line}\n"), fault: None };
        let mut lines = crontab.lines();
        assert_eq!((lines.len(), lines[0].faults.len()), (1, 0), "{line}");
        lines.remove(0).command.unwrap().words
    }

    #[test]
    fn a_quoted_command_reads_back() {
        let command =
            ["/usr/bin/backlog", "process", "--", "sh", "-c", "date +%s; echo \"$HOME's\"", ""];
        let command: Vec<_> = command.map(String::from).into();
        for secs in [300, 420, 345_600] {
            let line = Period::new(secs).unwrap().cron_line(&command).unwrap();
            assert!(line.contains("+\\%s; echo"), "{line}");
            assert_eq!(read(&line), command);
        }
        assert!(Period::new(300).unwrap().cron_line(&["a\nb".into()]).is_err());
    }

    #[test]
    fn special_characters_read_back() {
        for word in all_words(&['\\', '%', '\'', '"', ' ', '$', 'a'], 4) {
            let command = ["backlog".into(), "process".into(), word.clone(), "x".into()];
            let line = Period::new(60).unwrap().cron_line(&command).unwrap();
            assert!(!line.contains("\\\\"), "{line}");
            assert_eq!(read(&line), command, "{line}");
        }
    }

    #[test]
    fn no_backslash_follows_another_in_a_crontab() {
        for (word, line) in [
            (r"it's", r#""it's""#),
            (r"a\b", r"'a\''b'"),
            (r"a\\b", r"'a\''\''b'"),
            (r"50\%", r"'50\''\%'"),
            (r"\'\", r#"'\'''"'"'\'''"#),
        ] {
            let command = Period::new(60).unwrap().cron_line(&[word.into()]).unwrap();
            assert_eq!(command, format!("* * * * * {line}"));
        }
    }

    #[test]
    fn a_word_of_a_unit_is_quoted_as_systemd_reads_it() {
        assert_eq!(systemd_word("50% of $HOME"), "\"50%% of $$HOME\"");
        let variable = [("A".into(), "50% of $HOME".into())];
        let units = Period::new(60).unwrap().systemd_units("n", "d", None, &variable, &[]);
        assert!(units.contains("\nEnvironment=\"A=50%% of $HOME\"\n"), "{units}");
        assert_eq!(systemd_word("a\r\n\u{1b}\u{85}\\"), "\"a\\u000d\\u000a\\u001b\\u0085\\\\\"");
    }
}
