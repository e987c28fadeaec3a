//! systemd timers (systemd.timer(5)), read as lines of a crontab are: those that [`super::Period`]
//! writes, and others of which the service runs this program. Drop-ins are not read.

use std::io;
use std::path::{Path, PathBuf};
use std::str::Chars;

use super::shell::SimpleCommand;
use super::{
    Assignments, Line, Output, Scheduler, Sink, assignment, interval, of_shell, runs, skip_period,
};
use crate::secure_file;

/// A directory with units of one service manager.
pub struct UnitDirectory {
    pub path: PathBuf,
    /// Where a service starts that names no directory, unless in the user's home.
    pub starts_in: Option<&'static str>,
    pub home: PathBuf,
}

/// The timers in these directories that have a program of this name run. What cannot be read is
/// passed over.
pub fn timers(directories: &[UnitDirectory], program: &str) -> Vec<Line> {
    let lines = |directory: &UnitDirectory| {
        let timers = timers_in(&directory.path).into_iter();
        let lines = timers.filter_map(|path| lines(&path, directory, program));
        lines.flatten().collect::<Vec<_>>()
    };
    directories.iter().flat_map(lines).collect()
}

/// By name. A template is no timer before it has an instance.
fn timers_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_timer = |path: &PathBuf| {
        path.extension().is_some_and(|it| it == "timer")
            && path.file_stem().is_some_and(|it| !it.as_encoded_bytes().ends_with(b"@"))
    };
    let mut timers: Vec<_> = entries.map(|entry| entry.path()).filter(is_timer).collect();
    timers.sort_unstable();
    timers
}

fn lines(timer: &Path, directory: &UnitDirectory, program: &str) -> Option<Vec<Line>> {
    let home = &directory.home;
    let unit = Unit::read(timer, home)?;
    let named = unit.last("Timer", "Unit").map(|name| timer.with_file_name(name));
    let path = named.unwrap_or_else(|| timer.with_extension("service"));
    let service = Unit::read(&path, home)?;
    let mut additions = path.into_os_string();
    additions.push(".d");
    let triggers = unit.triggers();
    let times: Vec<_> = triggers.iter().map(|(text, _)| text.as_str()).collect();
    let line = Line {
        scheduler: Scheduler::Systemd(timer.file_name()?.to_string_lossy().into()),
        user: service.last("Service", "User").map(String::from),
        times: times.join("; "),
        // All together come at least as often as each.
        interval: triggers.iter().filter_map(|(_, interval)| *interval).min(),
        skip_period: None,
        home: home.clone(),
        environment: service.environment(),
        directory: service.directory().or(directory.starts_in.map(PathBuf::from)),
        wrapper: None,
        program: String::new(),
        arguments: Vec::new(),
        files: Vec::new(),
        output: service.output(),
        is_cut: false,
        is_split: false,
        has_more_variables: service.has_unread_files() || Path::new(&additions).is_dir(),
    };
    let line = Line { skip_period: service.skip_period(&line), ..line };
    let commands = service.commands("ExecStart").into_iter().map(SimpleCommand::of_words);
    Some(runs(&commands.collect::<Vec<_>>(), program, &line))
}

/// What makes a timer elapse.
const TRIGGERS: [&str; 6] = [
    "OnCalendar",
    "OnUnitActiveSec",
    "OnUnitInactiveSec",
    "OnActiveSec",
    "OnBootSec",
    "OnStartupSec",
];

/// A unit file.
struct Unit {
    /// The section, name and value of each assignment.
    assignments: Vec<(String, String, String)>,
    /// What `%h` stands for.
    home: String,
}

impl Unit {
    fn read(path: &Path, home: &Path) -> Option<Self> {
        let (bytes, _) = secure_file::read(path).ok()?;
        let assignments = Self::parse(&String::from_utf8_lossy(&bytes));
        Some(Self { assignments, home: home.display().to_string() })
    }

    fn parse(text: &str) -> Vec<(String, String, String)> {
        let (mut section, mut begun, mut assignments) = (String::new(), String::new(), Vec::new());
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
            if let Some(part) = line.strip_suffix('\\') {
                begun.extend([part, " "]);
                continue;
            }
            let line = std::mem::take(&mut begun) + line;
            if let Some(name) = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
                section = name.into();
            } else if let Some((name, value)) = line.split_once('=') {
                assignments.push((section.clone(), name.trim().into(), value.trim().into()));
            }
        }
        assignments
    }

    /// The values of an option. An empty one takes back those before it.
    fn values(&self, section: &str, name: &str) -> Vec<&str> {
        let mut values = Vec::new();
        for (_, _, value) in
            self.assignments.iter().filter(|(of, it, _)| of == section && it == name)
        {
            if value.is_empty() {
                values.clear();
            } else {
                values.push(value.as_str());
            }
        }
        values
    }

    fn last(&self, section: &str, name: &str) -> Option<&str> {
        self.values(section, name).pop()
    }

    /// What makes it elapse, and the longest gap between two of its times where they come again.
    fn triggers(&self) -> Vec<(String, Option<i64>)> {
        let trigger = |name, value: &str| match name {
            "OnCalendar" => (value.into(), interval::of_calendar(value)),
            "OnUnitActiveSec" => (format!("{name}={value}"), seconds(value)),
            _ => (format!("{name}={value}"), None),
        };
        let of_name =
            |name| self.values("Timer", name).into_iter().map(move |it| trigger(name, it));
        TRIGGERS.into_iter().flat_map(of_name).collect()
    }

    /// The words of the commands of an option.
    fn commands(&self, name: &str) -> Vec<Vec<String>> {
        let lines = self.values("Service", name).into_iter().filter_map(words);
        let word = |word: &String| self.expanded(word).replace("$$", "$");
        let command = |words: &[String]| words.iter().map(word).collect::<Vec<_>>();
        let commands = |line: Vec<String>| line.split(|word| word == ";").map(command).collect();
        let mut commands: Vec<_> = lines.flat_map(|line| -> Vec<_> { commands(line) }).collect();
        for program in commands.iter_mut().filter_map(|command| command.first_mut()) {
            *program = program.trim_start_matches(['@', '-', ':', '+', '!', '|']).into();
        }
        commands
    }

    fn skip_period(&self, line: &Line) -> Option<i64> {
        let conditions = self.commands("ExecCondition");
        let tests = conditions.iter().filter_map(|words| of_shell(words));
        let mut tests = tests.flat_map(|(_, command)| line.shell_commands(command));
        tests.find_map(|command| skip_period(&command.words))
    }

    /// Where the output goes; errors go where the rest does, unless it is said otherwise.
    fn output(&self) -> Output {
        let sink = |name| match self.last("Service", name) {
            None | Some("inherit") => None,
            Some("null") => Some(Sink::Nothing),
            Some("journal" | "journal+console" | "syslog" | "kmsg") => Some(Sink::Told),
            Some(_) => Some(Sink::Elsewhere),
        };
        let stdout = sink("StandardOutput").unwrap_or(Sink::Told);
        Output { stdout, stderr: sink("StandardError").unwrap_or(stdout) }
    }

    /// The variables that the service sets, and those of its files.
    fn environment(&self) -> Assignments {
        let words = self.values("Service", "Environment").into_iter().filter_map(words).flatten();
        let variable = |word: String| {
            let word = self.expanded(&word);
            word.split_once('=').map(|(name, value)| (name.into(), value.into()))
        };
        let files = self.environment_files();
        let read = |file: &Path| secure_file::read(file).ok();
        let of_file = |(bytes, _): (Vec<u8>, _)| {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
            lines.filter_map(assignment).collect::<Vec<_>>()
        };
        let mut environment = Assignments::default();
        environment.extend(words.filter_map(variable));
        environment.extend(files.filter_map(read).flat_map(of_file));
        environment
    }

    fn environment_files(&self) -> impl Iterator<Item = &Path> {
        let files = self.values("Service", "EnvironmentFile").into_iter();
        files.map(|file| Path::new(file.trim_start_matches('-')))
    }

    /// Whether there are variables that this user may not read.
    fn has_unread_files(&self) -> bool {
        let is_hidden = |error: io::Error| error.kind() != io::ErrorKind::NotFound;
        self.environment_files().any(|file| secure_file::read(file).is_err_and(is_hidden))
    }

    fn directory(&self) -> Option<PathBuf> {
        let named = self.last("Service", "WorkingDirectory")?.trim_start_matches('-');
        Some(if named == "~" { self.home.clone() } else { self.expanded(named) }.into())
    }

    /// A word in which `%%` and `%h` are what they stand for.
    fn expanded(&self, word: &str) -> String {
        let parts: Vec<_> = word.split("%%").map(|part| part.replace("%h", &self.home)).collect();
        parts.join("%")
    }
}

/// A time span (systemd.time(7)); a number alone is of seconds.
fn seconds(text: &str) -> Option<i64> {
    let span = || humantime::parse_duration(text).ok()?.as_secs().try_into().ok();
    text.parse().ok().or_else(span).filter(|secs| *secs > 0)
}

/// The words of a value (systemd.syntax(7), QUOTING), if it is well-formed.
fn words(text: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some(open), c) if c == open => quote = None,
            (None, c) if c.is_ascii_whitespace() => words.extend(word.take()),
            (_, '\\') => word.get_or_insert_default().push(unescaped(&mut chars)?),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words).filter(|_| quote.is_none())
}

/// The character that a backslash and what follows stand for.
fn unescaped(chars: &mut Chars<'_>) -> Option<char> {
    let digits = match chars.next()? {
        'a' => return Some('\u{7}'),
        'b' => return Some('\u{8}'),
        't' => return Some('\t'),
        'n' => return Some('\n'),
        'v' => return Some('\u{b}'),
        'f' => return Some('\u{c}'),
        'r' => return Some('\r'),
        's' => return Some(' '),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        c => return Some(c).filter(char::is_ascii_punctuation),
    };
    let number: String = chars.take(digits).collect();
    let c = u32::from_str_radix(&number, 16).ok().and_then(char::from_u32)?;
    // One byte of several is no character.
    Some(c).filter(|c| digits > 2 || c.is_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crontab::Period;
    use crate::crontab::period_tests::{PERIODS, words_of};

    /// A directory with these files.
    fn directory(files: &[(&str, &str)]) -> (tempfile::TempDir, UnitDirectory) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let path = dir.path().into();
        (dir, UnitDirectory { path, starts_in: Some("/"), home: "/h".into() })
    }

    /// The lines of units that stand one behind the other, as they are printed.
    fn of_printed(units: &str) -> Vec<Line> {
        let files = units.split("# /etc/systemd/system/").skip(1);
        let files: Vec<_> = files.map(|file| file.split_once('\n').unwrap()).collect();
        let (_dir, directory) = directory(&files);
        timers(&[directory], "backlog")
    }

    /// The only line of a timer and its service, under the same name.
    fn of_units(timer: &str, service: &str) -> Vec<Line> {
        let (timer, service) = (format!("[Timer]\n{timer}"), format!("[Service]\n{service}"));
        let (_dir, directory) = directory(&[("x.timer", &timer), ("x.service", &service)]);
        timers(&[directory], "backlog")
    }

    #[test]
    fn printed_units_read_back() {
        let command = ["/opt/backlog", "process", "--ndays", "1"].map(String::from);
        for secs in PERIODS {
            let period = Period::new(secs).unwrap();
            let lines = of_printed(&period.systemd_units("backlog-a", "d", &[], &command));
            assert_eq!(lines.len(), 1, "{secs}");
            let line = &lines[0];
            assert_eq!((line.period(), line.arguments.as_slice()), (Some(secs), &command[1..]));
            assert_eq!(line.scheduler.to_string(), "backlog-a.timer");
            assert_eq!(line.times, period.calendar);
            assert_eq!(line.directory.as_deref(), Some(Path::new("/")));
        }
    }

    #[test]
    fn every_word_and_variable_of_a_unit_reads_back() {
        let period = Period::new(300).unwrap();
        let odd = ["a\r\n\u{1b}\u{85}\\", "ü = %h", "$$ $HOME %", "#", ";x"].map(String::from);
        let chars = ['\\', '%', '\'', '"', ' ', '$', 'h', '\n'];
        for word in words_of(&chars, 3).into_iter().chain(odd) {
            let command = ["backlog".into(), word.clone(), "x".into()];
            let environment = [("A".to_string(), word.clone()), ("B".into(), "1".into())];
            let units = period.systemd_units("backlog-a", "d", &environment, &command);
            let lines = of_printed(&units);
            assert_eq!(lines.len(), 1, "{units}");
            assert_eq!(lines[0].arguments, [word.as_str(), "x"], "{units}");
            let found: Vec<_> =
                lines[0].environment.iter().map(|(name, it)| (name.into(), it.into())).collect();
            assert_eq!(found, environment, "{units}");
        }
    }

    #[test]
    fn a_timer_has_the_period_of_what_comes_again() {
        let hourly = "ExecCondition=sh -c '[ $$(expr $$(date +%%s) / 3600 %% 96) -eq 0 ]'\n";
        for (timer, condition, times, period) in [
            ("OnCalendar=*:0/5", "", "*:0/5", Some(300)),
            ("OnCalendar=daily\nOnCalendar=*-*-01 12:00", "", "daily; *-*-01 12:00", Some(86_400)),
            ("OnCalendar=daily\nOnCalendar=\nOnCalendar = hourly", "", "hourly", Some(3_600)),
            ("OnCalendar=hourly", hourly, "hourly", Some(345_600)),
            (
                "OnBootSec=1min\nOnUnitActiveSec=5min",
                "",
                "OnUnitActiveSec=5min; OnBootSec=1min",
                Some(300),
            ),
            ("OnUnitActiveSec=90", "", "OnUnitActiveSec=90", Some(90)),
            ("OnUnitActiveSec=1h 30min", "", "OnUnitActiveSec=1h 30min", Some(5_400)),
            ("OnUnitActiveSec=2 hours", "", "OnUnitActiveSec=2 hours", Some(7_200)),
            ("OnUnitActiveSec=soon", "", "OnUnitActiveSec=soon", None),
            ("OnBootSec=1min", hourly, "OnBootSec=1min", None),
            ("OnCalendar=2026-11-20", "", "2026-11-20", None),
            ("# OnCalendar=hourly\n", "", "", None),
        ] {
            let lines = of_units(timer, &format!("{condition}ExecStart=backlog process"));
            assert_eq!(lines.len(), 1, "{timer}");
            assert_eq!((lines[0].times.as_str(), lines[0].period()), (times, period), "{timer}");
        }
    }

    #[test]
    fn a_service_is_read_as_systemd_reads_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# A=0\nC='3 4'\n").unwrap();
        let file = file.path().display();
        for (service, expected) in [
            ("ExecStart=/usr/bin/backlog process --ndays 1", "- [] process --ndays 1"),
            (
                "ExecStart=-!/opt/backlog \\\n# not this\n  process \\\n  --ndays 1",
                "- [] process --ndays 1",
            ),
            ("ExecStart=backlog a\nExecStart=\nExecStart=backlog b", "- [] b"),
            ("ExecStart=true ; backlog a", "- [] a"),
            ("ExecStart=%h/bin/backlog --db %h/a%%h", "- [] --db /h/a%h"),
            ("ExecStart=env B=1 nice backlog a", r#"- [("B", "1")] a"#),
            ("ExecStart=/bin/sh -c 'cd /y && exec backlog a >/dev/null'", "/y [] a"),
            ("WorkingDirectory=-/srv/x\nExecStart=backlog a", "/srv/x [] a"),
            ("WorkingDirectory=~\nExecStart=backlog a", "/h [] a"),
            ("Environment='A=1 2' B=$$\nExecStart=backlog a", r#"- [("A", "1 2"), ("B", "$$")] a"#),
            (&format!("EnvironmentFile=-{file}\nExecStart=backlog a"), r#"- [("C", "3 4")] a"#),
            ("EnvironmentFile=/no/such\nExecStart=backlog a", "- [] a"),
            ("ExecStart=/opt/backlogger a", ""),
            ("ExecStart=backlog 'a", ""),
            ("ExecStart=backlog \\xff", ""),
            ("ExecStart=", ""),
        ] {
            let shown = of_units("OnCalendar=daily", service).into_iter().map(|line| {
                let directory = line.directory.filter(|it| it != Path::new("/"));
                let directory = directory.unwrap_or("-".into());
                let environment: Vec<_> = line.environment.iter().collect();
                format!("{} {environment:?} {}", directory.display(), line.arguments.join(" "))
            });
            assert_eq!(shown.collect::<Vec<_>>().join("|"), expected, "{service}");
        }
    }

    #[test]
    fn what_a_service_says_goes_where_its_unit_says() {
        for (said, stdout, stderr) in [
            ("", Sink::Told, Sink::Told),
            ("StandardOutput=null", Sink::Nothing, Sink::Nothing),
            ("StandardOutput=null\nStandardError=journal", Sink::Nothing, Sink::Told),
            ("StandardError=append:/var/log/x", Sink::Told, Sink::Elsewhere),
        ] {
            let found = of_units("OnCalendar=daily", &format!("{said}\nExecStart=backlog process"));
            assert_eq!(found[0].output, Output { stdout, stderr }, "{said}");
        }
    }

    #[test]
    fn what_may_set_more_variables_is_known() {
        let units = [
            ("a.timer", "[Timer]\nOnCalendar=daily\n"),
            ("a.service", "[Service]\nExecStart=backlog process\nEnvironmentFile=-/no/such\n"),
            ("b.timer", "[Timer]\nOnCalendar=daily\n"),
            ("b.service", "[Service]\nExecStart=backlog process\nEnvironmentFile=/\n"),
            ("c.timer", "[Timer]\nOnCalendar=daily\n"),
            ("c.service", "[Service]\nExecStart=backlog process\n"),
        ];
        let (dir, directory) = directory(&units);
        std::fs::create_dir(dir.path().join("c.service.d")).unwrap();
        let found = timers(&[directory], "backlog");
        let has_more: Vec<_> = found.iter().map(|line| line.has_more_variables).collect();
        assert_eq!(has_more, [false, true, true]);
    }

    #[test]
    fn what_is_no_timer_of_ours_is_passed_over() {
        let service = "[Service]\nExecStart=backlog process\n";
        let (dir, directory) = directory(&[
            ("b.timer", "[Timer]\nUnit=other.service\nOnCalendar=daily\n"),
            ("a.timer", "[Timer]\nOnCalendar=daily\n"),
            ("a.service", service),
            ("other.service", service),
            ("lone.timer", "[Timer]\nOnCalendar=daily\n"),
            ("template@.timer", "[Timer]\nOnCalendar=daily\n"),
            ("template@.service", service),
            ("no-timer.service", service),
        ]);
        std::fs::create_dir(dir.path().join("c.timer")).unwrap();
        let path = dir.path().join("missing");
        let missing = UnitDirectory { path, starts_in: None, home: "/h".into() };
        let lines = timers(&[missing, directory], "backlog");
        let names: Vec<_> = lines.iter().map(|line| line.scheduler.to_string()).collect();
        assert_eq!(names, ["a.timer", "b.timer"]);
    }
}
