//! The period of a line, as cron's five fields and as a systemd timer.

/// The period of a line, as far as cron can say it.
#[derive(Debug)]
pub struct Period {
    /// The five fields of a crontab's line.
    fields: String,
    /// OnCalendar= of a systemd timer.
    calendar: String,
    /// What a shell reckons to 0 when it is time, where the fields say only every minute or hour.
    one_in: Option<String>,
}

impl Period {
    /// # Errors
    /// If it is no whole number of minutes, which cron counts in.
    pub fn new(secs: i64) -> Result<Self, String> {
        let (minutes, hours) = (secs / 60, secs / 3_600);
        let every_minute = |one_in| ("* * * * *".into(), "*-*-* *:*:00".into(), one_in);
        let every_hour = |one_in| ("0 * * * *".into(), "*-*-* *:00:00".into(), one_in);
        let (fields, calendar, one_in) = match secs {
            _ if secs < 60 || secs % 60 != 0 => {
                return Err(format!(
                    "cron starts a line in whole minutes, and {secs} seconds are none"
                ));
            }
            60 => every_minute(None),
            _ if minutes < 60 && 60 % minutes == 0 => {
                (format!("*/{minutes} * * * *"), format!("*-*-* *:0/{minutes}:00"), None)
            }
            _ if secs % 3_600 != 0 => {
                every_minute(Some(format!("expr $(date +%s) / 60 % {minutes}")))
            }
            3_600 => every_hour(None),
            86_400 => ("0 0 * * *".into(), "*-*-* 00:00:00".into(), None),
            // In full, because Debian's cron catches up after a sleep what is written without `*`.
            _ if 24 % hours == 0 => {
                let each: Vec<_> = (0..24 / hours).map(|it| (it * hours).to_string()).collect();
                (format!("0 {} * * *", each.join(",")), format!("*-*-* 00/{hours}:00:00"), None)
            }
            // Days of the month would leave gaps at its end.
            _ => every_hour(Some(format!("expr $(date +%s) / 3600 % {hours}"))),
        };
        Ok(Self { fields, calendar, one_in })
    }

    /// A line of a crontab that runs a command.
    ///
    /// # Errors
    /// If the command has a line break in it, which no crontab can say.
    pub fn cron_line(&self, command: &[String]) -> Result<String, String> {
        let command = shell_words(command)?;
        let command = match &self.one_in {
            None => command,
            Some(condition) => format!("[ $({condition}) -ne 0 ] || {command}"),
        };
        // To cron a percent sign ends the command.
        Ok(format!("{} {}", self.fields, command.replace('%', "\\%")))
    }

    /// The units of systemd that do the same, a service and its timer.
    /// `environment` is what the command needs to find there.
    pub fn systemd_units(
        &self,
        name: &str,
        what: &str,
        environment: &[(String, String)],
        command: &[String],
    ) -> String {
        let calendar = &self.calendar;
        let condition = self.one_in.as_ref().map_or_else(String::new, |condition| {
            let condition = condition.replace('%', "%%").replace('$', "$$");
            format!("ExecCondition=/bin/sh -c '[ $$({condition}) -eq 0 ]'\n")
        });
        let command: Vec<_> = command.iter().map(|word| systemd_word(word)).collect();
        let variables = environment.iter().map(|(name, value)| format!("{name}={value}"));
        let variables: String =
            variables.map(|it| format!("Environment={}\n", systemd_word(&it))).collect();
        format!(
            "# /etc/systemd/system/{name}.service\n\
             [Unit]\nDescription={what}\n\n\
             [Service]\nType=oneshot\nKillMode=mixed\n{variables}{condition}ExecStart={}\n\
             # The database was locked or out of reach: the next pass tries again.\nSuccessExitStatus=75\n\n\
             # /etc/systemd/system/{name}.timer\n\
             [Unit]\nDescription={what}\n\n\
             [Timer]\nOnCalendar={calendar}\nPersistent=true\nAccuracySec=1s\n\n\
             [Install]\nWantedBy=timers.target\n",
            command.join(" ")
        )
    }
}

/// The words of a command as a shell reads them, with none of their backslashes beside another or
/// before a percent sign.
fn shell_words(words: &[String]) -> Result<String, String> {
    let quoted: Result<Vec<_>, _> = words
        .iter()
        .map(|word| match shlex::try_quote(word) {
            Ok(quoted) if !word.contains(char::is_control) => {
                Ok(if quoted.contains('\\') { apart(word) } else { quoted.into_owned() })
            }
            _ => Err(format!("a crontab cannot say {word:?}: it has no control characters")),
        })
        .collect();
    Ok(quoted?.join(" "))
}

/// A word with backslashes. Cron makes one of two, and does not see that a percent sign is escaped
/// behind two, so each stands in quotes that end before the next.
fn apart(word: &str) -> String {
    let (mut text, mut last) = (String::from("'"), ' ');
    for c in word.chars() {
        match (last, c) {
            (_, '\'') => text += "'\"'\"'",
            ('\\', '\\' | '%') => text.extend(["''", c.encode_utf8(&mut [0; 4])]),
            (_, c) => text.push(c),
        }
        last = c;
    }
    text + "'"
}

/// A word of ExecStart= (systemd.service(5), COMMAND LINES).
fn systemd_word(word: &str) -> String {
    let escaped =
        word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    // Not only a line break ends a line there.
    let escape = |c: char| match c {
        '\n' => "\\n".into(),
        c if c.is_ascii_control() => format!("\\x{:02x}", u32::from(c)),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    let escaped: String = escaped.chars().map(escape).collect();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/.-_=:,@+%$".contains(c);
    if !word.is_empty() && escaped.chars().all(is_plain) {
        escaped
    } else {
        format!("\"{escaped}\"")
    }
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
            (60, "* * * * * x", "*-*-* *:*:00"),
            (300, "*/5 * * * * x", "*-*-* *:0/5:00"),
            (420, &format!("* * * * * {minutely}"), "*-*-* *:*:00"),
            (3_600, "0 * * * * x", "*-*-* *:00:00"),
            (43_200, "0 0,12 * * * x", "*-*-* 00/12:00:00"),
            (86_400, "0 0 * * * x", "*-*-* 00:00:00"),
            (345_600, &format!("0 * * * * {hourly}"), "*-*-* *:00:00"),
        ] {
            let period = Period::new(secs).unwrap();
            assert_eq!(period.cron_line(&words("x")).unwrap(), line);
            let units = period.systemd_units("n", "d", &[], &words("x"));
            assert!(units.contains(&format!("OnCalendar={calendar}\n")), "{units}");
            assert_eq!(units.contains("ExecCondition="), line.contains("expr"), "{units}");
        }
        for secs in [1, 30, 90] {
            assert!(Period::new(secs).is_err());
        }
    }

    #[test]
    fn no_backslash_of_a_word_stands_before_another_in_a_crontab() {
        for (word, line) in [
            (r"it's", r#""it's""#),
            (r"a\b", r"'a\b'"),
            (r"a\\b", r"'a\''\b'"),
            (r"50\%", r"'50\''\%'"),
            (r"\'\", r#"'\'"'"'\'"#),
        ] {
            let command = Period::new(60).unwrap().cron_line(&[word.into()]).unwrap();
            assert_eq!(command, format!("* * * * * {line}"));
        }
    }

    #[test]
    fn a_word_of_a_unit_is_quoted_as_systemd_reads_it() {
        assert_eq!(systemd_word("50% of $HOME"), "\"50%% of $$HOME\"");
        assert_eq!(systemd_word("a\r\n\u{1b}\u{85}\\"), "\"a\\x0d\\n\\x1b\\u0085\\\\\"");
    }
}
