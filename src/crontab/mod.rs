//! Crontab lines and systemd units: written for a schedule, and read back.

mod interval;
mod places;
mod shell;
mod timers;

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use places::assignment;
use shell::{Shell, SimpleCommand};

#[cfg(test)]
pub use places::tests::lines;
pub use places::{Places, Scheduled, users};
pub use shell::{Output, Sink};
pub use timers::{UnitDirectory, timers};

/// A line of a crontab that runs this program, or a timer that does the same. Its words are those
/// that the program gets.
#[derive(Debug, Clone)]
pub struct Line {
    pub scheduler: Scheduler,
    /// Who runs it, if not this user; empty where a crontab of the system names nobody.
    pub user: Option<String>,
    /// As it is written: `*/5 * * * *`, `@daily`, or `*:0/5` of a timer.
    pub times: String,
    /// Longest gap in seconds between two of these times, if they are understood.
    interval: Option<i64>,
    /// Period in seconds of the condition before the program, which skips all runs but one.
    skip_period: Option<i64>,
    /// Home of who runs it, where it starts.
    pub home: PathBuf,
    /// What the crontab or the service sets before it.
    pub environment: Assignments,
    /// Where the command goes first.
    pub directory: Option<PathBuf>,
    /// The first word of the command, if that is another program, which runs this one.
    pub wrapper: Option<String>,
    /// As the command names it.
    pub program: String,
    /// What stands behind the program's name.
    pub arguments: Vec<String>,
    pub output: Output,
    /// The files that it writes its output to.
    pub files: Vec<String>,
    /// Whether a percent sign ends the command.
    pub is_cut: bool,
    /// Whether `&>` ends it, and the shell does not wait for it.
    pub is_split: bool,
    /// Whether it has variables that are not known here: of a user whom the command names, of a profile
    /// that it reads, or of a file that this user may not read.
    pub has_more_variables: bool,
}

/// Variables with their values, of which the last one of a name counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assignments(Vec<(String, String)>);

impl Assignments {
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let name = name.into();
        self.0.retain(|(it, _)| *it != name);
        self.0.push((name, value.into()));
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl Extend<(String, String)> for Assignments {
    fn extend<Those: IntoIterator<Item = (String, String)>>(&mut self, those: Those) {
        those.into_iter().for_each(|(name, value)| self.set(name, value));
    }
}

/// What starts a line, and where to find it there.
#[derive(Debug, Clone)]
pub enum Scheduler {
    /// By the number of the line, from 1 on.
    Cron(Crontab, usize),
    /// By the name of the timer.
    Systemd(String),
}

#[derive(Debug, Clone)]
pub enum Crontab {
    /// That of this user.
    Own,
    OfUser(String),
    /// /etc/crontab, or a file in /etc/cron.d.
    System(PathBuf),
}

impl Scheduler {
    /// The word for its lines.
    pub fn about(&self) -> &'static str {
        match self {
            Self::Cron(..) => "crontab",
            Self::Systemd(_) => "timer",
        }
    }

    pub fn is_cron(&self) -> bool {
        matches!(self, Self::Cron(..))
    }
}

impl Display for Scheduler {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cron(Crontab::Own, number) => write!(f, "line {number}"),
            Self::Cron(Crontab::OfUser(name), number) => {
                write!(f, "crontab of {name} line {number}")
            }
            Self::Cron(Crontab::System(path), number) => {
                write!(f, "{} line {number}", path.display())
            }
            Self::Systemd(unit) => f.write_str(unit),
        }
    }
}

/// Where cron looks for programs, unless the crontab says otherwise.
pub const CRON_PATH: &str = "/usr/bin:/bin";
/// Where systemd does (systemd.exec(5), $PATH).
const SYSTEMD_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl Line {
    /// Longest usual gap between two runs, in seconds; none for `@reboot` and what is not understood.
    pub fn period(&self) -> Option<i64> {
        let interval = self.interval?;
        Some(self.skip_period.map_or(interval, |secs| secs.max(interval)))
    }

    /// Whether a crontab of the system has no user before the command, so that cron does not run it.
    pub fn names_nobody(&self) -> bool {
        self.user.as_deref() == Some("")
    }

    /// Where the program starts.
    pub fn starts_in(&self) -> &Path {
        self.directory.as_ref().unwrap_or(&self.home)
    }

    /// Where programs are looked for.
    pub fn path(&self) -> &str {
        let usual = if self.scheduler.is_cron() { CRON_PATH } else { SYSTEMD_PATH };
        self.environment.get("PATH").unwrap_or(usual)
    }

    /// The simple commands of a shell command of this line.
    fn shell_commands(&self, command: &str) -> Vec<SimpleCommand> {
        let home = || Some(self.home.to_string_lossy().into_owned());
        let variable = |name: &str| match name {
            "HOME" => home(),
            "PATH" => Some(self.path().into()),
            name => self.environment.get(name).map(String::from),
        };
        Shell { is_bash: self.is_in_bash(), variable: &variable }.simple_commands(command)
    }

    fn is_in_bash(&self) -> bool {
        self.environment.get("SHELL").is_some_and(|shell| shell.ends_with("bash"))
    }
}

/// Runs of the program among these commands. A name without arguments is not one.
fn runs(commands: &[SimpleCommand], program: &str, line: &Line) -> Vec<Line> {
    let (mut runs, mut line) = (Vec::new(), line.clone());
    for command in commands {
        let words = &command.words;
        line.prepare(words);
        let outer = Line {
            output: command.output(line.output),
            files: [&line.files[..], &command.files].concat(),
            is_split: line.is_split || command.is_split,
            ..line.clone()
        };
        if let Some(place) = place_of(program, words) {
            runs.extend(run(words, place, outer));
        } else if let Some((before, inner)) = of_shell(words) {
            let outer = outer.behind(before);
            runs.extend(self::runs(&outer.shell_commands(inner), program, &outer));
        }
    }
    runs
}

impl Line {
    /// Takes a command into account that may make a difference to those behind it.
    fn prepare(&mut self, words: &[String]) {
        let exported = words.strip_prefix(&["export".to_string()]).unwrap_or(words);
        let assignments: Option<Vec<_>> = exported.iter().map(|word| assignment(word)).collect();
        self.environment.extend(assignments.unwrap_or_default());
        match words {
            [cd, path] if cd == "cd" => self.directory = Some(self.starts_in().join(path)),
            [read, ..] if [".", "source"].contains(&read.as_str()) => {
                self.has_more_variables = true;
            }
            _ => {}
        }
        self.skip_period = skip_period(words).or(self.skip_period);
    }

    /// The same behind words that begin a command.
    fn behind(self, words: &[String]) -> Self {
        let name = |word: &String| word.rsplit('/').next().unwrap_or(word).to_string();
        let is_of_others = words.iter().any(|word| OF_OTHERS.contains(&name(word).as_str()));
        // A login shell reads a profile.
        let is_login = |word: &String| word == "--login" || has_letter(word, ['l', 'i']);
        let reads_profile = of_shells(words) && words.iter().any(is_login);
        let has_more = self.has_more_variables || is_of_others || reads_profile;
        let mut environment = self.environment;
        environment.extend(words.iter().filter_map(|word| assignment(word)));
        let first = words.iter().find(|word| assignment(word).is_none()).cloned();
        let wrapper = self.wrapper.or(first);
        Self { has_more_variables: has_more, environment, wrapper, ..self }
    }
}

/// The place of a program's name that has arguments behind it: a lock that is called so has the
/// program itself there.
fn place_of(program: &str, words: &[String]) -> Option<usize> {
    let is_it = |word: &String| word.rsplit('/').next() == Some(program);
    let is_run = |pair: &[String]| is_it(&pair[0]) && !is_it(&pair[1]) && pair[1] != "-c";
    words.windows(2).position(is_run)
}

/// The word behind `-c`, which a shell is given to run, and the words before it.
fn of_shell(words: &[String]) -> Option<(&[String], &str)> {
    let option = words.iter().position(|word| has_letter(word, ['c']))?;
    let (before, inner) = (&words[..=option], words.get(option + 1)?);
    of_shells(before).then_some((before, inner))
}

fn of_shells(words: &[String]) -> bool {
    let is_shell =
        |word: &String| word.ends_with("sh") || ["flock", "su", "runuser"].contains(&&**word);
    words.iter().any(is_shell)
}

/// Whether a word is one of short options with one of these letters.
fn has_letter<const N: usize>(word: &str, letters: [char; N]) -> bool {
    word.strip_prefix('-').is_some_and(|it| !it.starts_with('-') && it.contains(letters))
}

/// Period in seconds of the shell condition that skips all runs but one, as [`Period`] writes it.
fn skip_period(words: &[String]) -> Option<i64> {
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let ["[", rest, "-ne" | "-eq", "0", "]"] = words[..] else { return None };
    let rest = rest.strip_prefix("$(expr $(date +%s) / ")?.strip_suffix(')')?;
    let (unit, count) = rest.split_once(" % ")?;
    let (unit, count): (i64, i64) = (unit.parse().ok()?, count.parse().ok()?);
    unit.checked_mul(count)
}

/// Programs that run a command as somebody else.
const OF_OTHERS: [&str; 5] = ["sudo", "su", "runuser", "doas", "setpriv"];

/// A run of the program whose name is at this place of a simple command.
fn run(words: &[String], place: usize, line: Line) -> Option<Line> {
    let (before, rest) = words.split_at(place);
    let (program, arguments) = rest.split_first()?;
    let (program, arguments) = (program.clone(), arguments.to_vec());
    Some(Line { program, arguments, ..line.behind(before) })
}

/// The period of a line, as far as cron can say it.
#[derive(Debug)]
pub struct Period {
    /// The five fields of a crontab's line.
    fields: String,
    /// OnCalendar= of a systemd timer.
    calendar: String,
    /// Shell expression that is 0 when a run is due, for periods that cron's fields cannot say.
    skip_condition: Option<String>,
}

impl Period {
    /// Fails if it is no whole number of minutes, which cron counts in.
    pub fn new(secs: i64) -> Result<Self, String> {
        let (minutes, hours) = (secs / 60, secs / 3_600);
        let skipping = |unit, count| Some(format!("expr $(date +%s) / {unit} % {count}"));
        let (fields, calendar, skip_condition) = match secs {
            _ if secs < 60 || secs % 60 != 0 => {
                let minutes = (secs + 59) / 60;
                return Err(format!(
                    "cron starts a line in whole minutes: write {minutes}m, not {secs}s"
                ));
            }
            60 => ("* * * * *", "*:*:00", None),
            _ if minutes < 60 && 60 % minutes == 0 => {
                (&*format!("*/{minutes} * * * *"), &*format!("*:0/{minutes}:00"), None)
            }
            _ if secs % 3_600 != 0 => ("* * * * *", "*:*:00", skipping(60, minutes)),
            3_600 => ("0 * * * *", "*:00:00", None),
            86_400 => ("0 0 * * *", "00:00:00", None),
            // In full, because Debian's cron catches up after a sleep what is written without `*`.
            _ if 24 % hours == 0 => {
                let each: Vec<_> = (0..24 / hours).map(|it| (it * hours).to_string()).collect();
                (&*format!("0 {} * * *", each.join(",")), &*format!("00/{hours}:00:00"), None)
            }
            // Days of the month would leave gaps at its end.
            _ => ("0 * * * *", "*:00:00", skipping(3_600, hours)),
        };
        Ok(Self { fields: fields.into(), calendar: format!("*-*-* {calendar}"), skip_condition })
    }

    /// A line of a crontab that runs a command. Fails on a line break, which no crontab can say.
    pub fn cron_line(&self, command: &[String]) -> Result<String, String> {
        let mut command = shell_words(command)?;
        if let Some(condition) = &self.skip_condition {
            command = format!("[ $({condition}) -ne 0 ] || {command}");
        }
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
        let condition = self.skip_condition.as_ref().map(|condition| {
            let condition = condition.replace('%', "%%").replace('$', "$$");
            format!("ExecCondition=/bin/sh -c '[ $$({condition}) -eq 0 ]'\n")
        });
        let condition = condition.unwrap_or_default();
        let command: Vec<_> = command.iter().map(|word| systemd_word(word)).collect();
        let variables = environment.iter().map(|(name, value)| format!("{name}={value}"));
        let variables: String =
            variables.map(|it| format!("Environment={}\n", variable(&it))).collect();
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

/// The words of a command as a shell reads them, no backslash beside another or before a percent.
fn shell_words(words: &[String]) -> Result<String, String> {
    let quoted = words.iter().map(|word| {
        match shlex::try_quote(word).ok().filter(|_| !word.contains(char::is_control)) {
            Some(quoted) if quoted.contains('\\') => Ok(apart(word)),
            Some(quoted) => Ok(quoted.into_owned()),
            None => Err(format!("a crontab cannot say {word:?}: it has no control characters")),
        }
    });
    Ok(quoted.collect::<Result<Vec<_>, _>>()?.join(" "))
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
    let escape = |c: char| match c {
        '\\' | '"' => format!("\\{c}"),
        '%' | '$' => format!("{c}{c}"),
        // Not only a line break ends a line there.
        '\n' => "\\n".into(),
        c if c.is_ascii_control() => format!("\\x{:02x}", u32::from(c)),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    let escaped: String = word.chars().map(escape).collect();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/.-_=:,@+%$".contains(c);
    let is_bare = !word.is_empty() && escaped.chars().all(is_plain);
    if is_bare { escaped } else { format!("\"{escaped}\"") }
}

/// A word of Environment=, where a dollar sign stands for itself (systemd.exec(5)).
fn variable(word: &str) -> String {
    systemd_word(word).replace("$$", "$")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crontab::period_tests::words_of;

    #[test]
    fn what_is_quoted_reads_back() {
        let command: Vec<_> =
            ["/usr/bin/backlog", "process", "--", "sh", "-c", "date +%s; echo \"$HOME's\"", ""]
                .map(String::from)
                .into();
        let line = Period::new(300).unwrap().cron_line(&command).unwrap();
        assert!(line.contains("+\\%s"), "{line}");
        let lines = lines(&line);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].arguments, command[1..]);
        assert!(Period::new(300).unwrap().cron_line(&["a\nb".into()]).is_err());
    }

    #[test]
    fn what_cron_and_the_shell_take_for_their_own_reads_back() {
        for word in words_of(&['\\', '%', '\'', '"', ' ', '$', 'a'], 4) {
            let command = ["backlog".into(), word.clone(), "x".into()];
            let line = Period::new(60).unwrap().cron_line(&command).unwrap();
            assert!(!line.contains("\\\\"), "{line}");
            assert_eq!(lines(&line)[0].arguments, [word.as_str(), "x"], "{line}");
        }
    }

    #[test]
    fn a_crontab_is_read_as_cron_reads_it() {
        let crontab = "# backlog process --ndays 1\n\
            MAILTO=root\nBACKLOG_DB = \"/srv/a b.db\"\n\
            */5 * * * *  cd /srv/app && nice backlog process --ndays 1 -- sync >>/var/log/x 2>&1\n\
            @daily [ $(expr $(date +\\%s) / 3600 \\% 96) -ne 0 ] || /opt/backlog status%input\n\
            0 3 * * * /usr/bin/backlogger process\n\
            \t1 2 3 4 5 true; backlog process --all-queues\n\
            @daily test -x /opt/backlog && (env BACKLOG_DB=/x backlog process --ndays 1) 2>&1 | logger -t backlog\n\
            @daily bash -c 'cd /y; backlog list' >/dev/null\n";
        let found = lines(crontab);
        let shown: Vec<_> = found
            .iter()
            .map(|it| {
                let directory = it.directory.as_deref().unwrap_or(Path::new("-")).display();
                format!("{} {} {directory}: {}", it.scheduler, it.times, it.arguments.join(" "))
            })
            .collect();
        assert_eq!(
            shown,
            [
                "line 4 */5 * * * * /srv/app: process --ndays 1 -- sync",
                "line 5 @daily -: status",
                "line 7 1 2 3 4 5 -: process --all-queues",
                "line 8 @daily -: process --ndays 1",
                "line 9 @daily /y: list",
            ]
        );
        let variables = [("MAILTO", "root"), ("BACKLOG_DB", "/srv/a b.db")];
        assert_eq!(found[3].environment.get("BACKLOG_DB"), Some("/x"));
        assert_eq!(found[0].environment.iter().collect::<Vec<_>>(), variables);
        let periods: Vec<_> = found.iter().map(Line::period).collect();
        let days = [4, 343, 1, 1].map(|days| Some(days * 86_400));
        assert_eq!(periods, [&[Some(300)], &days[..]].concat());
    }
}

#[cfg(test)]
pub mod period_tests {
    use super::*;

    /// Seconds: with fields alone, and with a condition of minutes or hours.
    pub const PERIODS: [i64; 12] =
        [60, 300, 420, 3_600, 5_400, 14_400, 18_000, 43_200, 86_400, 345_600, 691_200, 694_800];

    /// All words of at most so many of these characters.
    pub fn words_of(chars: &[char], length: usize) -> Vec<String> {
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
    fn the_period_of_a_line_reads_back() {
        for secs in PERIODS {
            let command = words("/usr/bin/backlog process");
            let line = Period::new(secs).unwrap().cron_line(&command).unwrap();
            for line in [&line, &format!("{line} >>/var/log/x 2>&1")] {
                let found = lines(line);
                let periods: Vec<_> = found.iter().map(Line::period).collect();
                assert_eq!(periods, [Some(secs)], "{line}");
            }
        }
        for (line, expected) in [
            ("@reboot backlog process", None),
            ("@reboot [ $(expr $(date +\\%s) / 60 \\% 7) -ne 0 ] || backlog process", None),
            ("@daily [ $(expr $(date +\\%s) / 60 \\% 7) -ne 0 ] || backlog process", Some(86_400)),
            (
                "0 * * * * cd /x; [ $(expr $(date +\\%s) / 60 \\% 7) -ne 1 ] || backlog a",
                Some(3_600),
            ),
        ] {
            assert_eq!(lines(line)[0].period(), expected, "{line}");
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
        assert_eq!(variable("A=50% of $$HOME"), "\"A=50%% of $$HOME\"");
        assert_eq!(systemd_word("a\r\n\u{1b}\u{85}\\"), "\"a\\x0d\\n\\x1b\\u0085\\\\\"");
    }
}
