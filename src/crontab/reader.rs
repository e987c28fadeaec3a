//! A small reader of crontabs, which knows what Debian's cron makes of a file (crontab(5)), and of a
//! command its plain words and redirections alone. What else a shell would make of a line it does not
//! guess.

use std::collections::HashMap;
use std::path::Path;

use chrono::NaiveDateTime;
use nix::unistd::User;

use super::times::next_two;

/// The program that lines are to run.
const PROGRAM: &str = "backlog";
/// Where cron looks for programs, unless the crontab says otherwise.
pub const CRON_PATH: &str = "/usr/bin:/bin";
/// Debian's cron ignores a file with a longer command, in bytes.
const LONGEST: usize = 998;

pub struct Crontab {
    /// Of a file of the system, whose lines name a user; that of this user has none.
    pub path: Option<String>,
    pub text: String,
    /// Why cron ignores the file, whatever it says.
    pub fault: Option<String>,
    /// Whether cron passes over the file, because of its name.
    pub is_passed_over: bool,
}

/// A line that names the program and its subcommand `process`.
pub struct Line {
    /// `line 3`, `/etc/cron.d/shop line 3`
    pub place: String,
    pub times: String,
    pub next: Vec<NaiveDateTime>,
    /// Who runs it, if a file of the system says so.
    pub user: Option<String>,
    /// Why cron does not run it, or not as it is written.
    pub faults: Vec<String>,
    /// What the crontab sets above it, and the command before the program.
    pub variables: Variables,
    /// `None` if a shell makes more of it than words.
    pub command: Option<Command>,
    /// Whether cron passes over the file, because of its name.
    pub is_passed_over: bool,
}

pub type Variables = HashMap<String, String>;

pub struct Command {
    /// Where it goes first.
    pub directory: Option<String>,
    pub program: String,
    pub arguments: Vec<String>,
    pub stdout: Sink,
    pub stderr: Sink,
    /// The files that its output goes to.
    pub files: Vec<String>,
    /// Whether `&>` ends it, which is a redirection only in bash.
    pub is_split: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sink {
    /// The mail that cron sends.
    Mail,
    /// /dev/null
    Nothing,
    File,
}

impl Command {
    pub fn is_program(&self) -> bool {
        Path::new(&self.program).ends_with(PROGRAM)
    }
}

impl Crontab {
    /// The lines that name the program. Cron ignores a file that it may not trust, or that has one bad
    /// line, whosesoever that is.
    pub fn lines(&self, now: NaiveDateTime) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut variables = Variables::new();
        let mut fault = self.fault.clone().map(|why| (0, why));
        for (text, number) in self.text.split('\n').zip(1..) {
            let text = text.trim_start_matches(BLANKS);
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            if let Some((name, value)) = assignment(text) {
                variables.insert(name, value);
                continue;
            }
            let (line, bad) = self.line(text, number, variables.clone(), now);
            fault = fault.or_else(|| Some((number, bad?)));
            lines.extend(names_program(text).then_some((number, line)));
        }
        if !self.text.ends_with('\n') {
            fault.get_or_insert((0, "its last line does not end with a line feed".into()));
        }
        for (number, line) in &mut lines {
            line.faults.extend(fault.as_ref().map(|(at, why)| match at {
                at if at == number => why.clone(),
                0 => format!("cron ignores the file: {why}"),
                at => format!("cron ignores the file: line {at}: {why}"),
            }));
        }
        lines.into_iter().map(|(_, line)| line).collect()
    }

    /// A line, and why it is bad.
    fn line(
        &self,
        text: &str,
        number: usize,
        mut variables: Variables,
        now: NaiveDateTime,
    ) -> (Line, Option<String>) {
        let (mut rest, mut times) = (text, Vec::new());
        for _ in 0..if text.starts_with('@') { 1 } else { 5 } {
            let (field, behind) = rest.split_once(BLANKS).unwrap_or((rest, ""));
            times.push(field);
            rest = behind.trim_start_matches(BLANKS);
        }
        let times = times.join(" ").trim_end().to_string();
        let next = next_two(&times, now);
        let mut bad = next.is_none().then(|| format!("{times} is no time that is in crontab(5)"));
        let user = self.path.as_ref().map(|_| {
            let (name, behind) = rest.split_once(BLANKS).unwrap_or((rest, ""));
            rest = behind.trim_start_matches(BLANKS);
            name.to_string()
        });
        if let Some(name) = user.as_ref().filter(|name| !is_user(name)) {
            bad = bad.or_else(|| Some(why_no_user(name)));
        }
        if rest.len() > LONGEST {
            bad = bad.or_else(|| Some(format!("its command is longer than {LONGEST} bytes")));
        }
        let (command, is_cut) = unescaped(rest.trim_end_matches(BREAK));
        let faults = [
            (is_cut, "cron ends the command at a %, what follows is its standard input: write \\%"),
            (
                text.ends_with(BREAK),
                "it ends with a carriage return, which goes to the shell with the last word: save \
                 the file with Unix line ends",
            ),
            (
                text.contains(|c: char| c.is_whitespace() && !c.is_ascii()),
                "a no-break space or the like stands in it, which separates no words: write plain \
                 blanks",
            ),
        ];
        let faults = faults.into_iter().filter(|(is_so, _)| *is_so);
        let faults = faults.map(|(_, why)| why.to_string()).collect();
        let is_bash = variables.get("SHELL").is_some_and(|shell| shell.ends_with("bash"));
        let command = Command::read(&command, is_bash, &mut variables);
        let place = self.path.iter().map(|path| format!("{path} ")).collect::<String>();
        let place = format!("{place}line {number}");
        let next = next.unwrap_or_default();
        let is_passed_over = self.is_passed_over;
        (Line { place, times, next, user, faults, variables, command, is_passed_over }, bad)
    }
}

const BLANKS: [char; 2] = [' ', '\t'];
const BREAK: char = '\r';

/// Whether a word of this name, and then `process`, stand in a line, whatever is between the words.
fn names_program(text: &str) -> bool {
    let is_between = |c: char| c.is_whitespace() || "'\"();&|".contains(c);
    let mut words = text.split(is_between);
    words.any(|word| Path::new(word).ends_with(PROGRAM)) && words.any(|word| word == "process")
}

pub fn is_user(name: &str) -> bool {
    matches!(User::from_name(name), Ok(Some(_)))
}

fn why_no_user(name: &str) -> String {
    if name.contains('/') {
        return format!("cron takes {name} for the user's name: write one in front of the command");
    }
    format!("there is no user {name:?} here")
}

/// `NAME = value`, with quotes or without. A value of nothing needs quotes.
fn assignment(text: &str) -> Option<(String, String)> {
    let unquoted = |text: &str| {
        let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
        let quote = text.chars().next()?;
        if !['"', '\''].contains(&quote) {
            return Some((text.to_string(), false));
        }
        let within = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!within.contains(quote)).then(|| (within.into(), true))
    };
    let (name, value) = text.split_once('=')?;
    let ((name, is_quoted), (value, _)) = (unquoted(name)?, unquoted(value)?);
    (is_quoted || !name.contains(|c: char| c.is_ascii_whitespace())).then_some((name, value))
}

/// The command as the shell gets it, and whether a percent sign ends it before its end. Behind a
/// backslash a percent sign does not, and cron takes the backslash away, as it does one before another.
fn unescaped(command: &str) -> (String, bool) {
    let (mut text, mut is_cut, mut chars) = (String::new(), false, command.chars().peekable());
    while let Some(c) = chars.next() {
        let escaped = chars.next_if(|next| c == '\\' && ['%', '\\'].contains(next));
        is_cut |= c == '%';
        text.push(escaped.unwrap_or(c));
    }
    (text, is_cut)
}

impl Command {
    fn read(text: &str, is_bash: bool, variables: &mut Variables) -> Option<Self> {
        let mut command = Self {
            directory: None,
            program: String::new(),
            arguments: Vec::new(),
            stdout: Sink::Mail,
            stderr: Sink::Mail,
            files: Vec::new(),
            is_split: false,
        };
        let (mut descriptor, mut words) = (None, Vec::new());
        let mut parts = parts(behind_condition(text).unwrap_or(text))?.into_iter().peekable();
        while let Some((operator, text)) = parts.next() {
            let mut found = shlex::split(&text)?;
            let of_this = descriptor.take();
            let is_descriptor = |word: &mut String| word.bytes().all(|byte| byte.is_ascii_digit());
            if parts.peek().is_some() && !text.ends_with(BLANKS) {
                descriptor = found.pop_if(is_descriptor);
            }
            match (&*operator, &found[..]) {
                ("", _) => words = found,
                ("&&" | ";", _) if words.len() == 2 && words[0] == "cd" => {
                    command.directory = words.pop();
                    words = found;
                }
                (_, [target]) => {
                    command.redirect(of_this.as_deref(), &operator, target, is_bash)?;
                }
                _ => return None,
            }
        }
        let is_variable = |word: &String| {
            let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            word.split_once('=')
                .filter(|(name, _)| is_name(name))
                .map(|(a, b)| (a.into(), b.into()))
        };
        let set: Vec<_> = words.iter().map_while(is_variable).collect();
        let mut words = words.into_iter().skip(set.len());
        variables.extend(set);
        command.program = words.next()?;
        command.arguments = words.collect();
        Some(command).filter(|command| command.program != "cd")
    }

    fn redirect(
        &mut self,
        of: Option<&str>,
        operator: &str,
        to: &str,
        is_bash: bool,
    ) -> Option<()> {
        let sink = if to == "/dev/null" { Sink::Nothing } else { Sink::File };
        match (of, operator, to) {
            (Some("2"), ">&", "1") => self.stderr = self.stdout,
            (None | Some("1"), ">&", "2") => self.stdout = self.stderr,
            (None | Some("1"), ">" | ">>", _) => self.stdout = sink,
            (Some("2"), ">" | ">>", _) => self.stderr = sink,
            (None, "&>" | "&>>", _) if is_bash => (self.stdout, self.stderr) = (sink, sink),
            (None, "&>" | "&>>", _) => self.is_split = true,
            (None, "<", "/dev/null") => return Some(()),
            _ => return None,
        }
        self.files.extend((sink == Sink::File && operator != ">&").then(|| to.into()));
        Some(())
    }
}

/// The command behind the condition that [`super::Period`] writes.
fn behind_condition(text: &str) -> Option<&str> {
    let (numbers, rest) =
        text.strip_prefix("[ $(expr $(date +%s) / ")?.split_once(") -ne 0 ] || ")?;
    numbers.chars().all(|c| c.is_ascii_digit() || " %".contains(c)).then_some(rest)
}

/// The texts between the operators of a shell, each behind its operator; `None` if a character outside
/// quotes has another meaning to a shell.
fn parts(command: &str) -> Option<Vec<(String, String)>> {
    let mut parts = vec![(String::new(), String::new())];
    let (mut quote, mut is_escaped) = (None, false);
    for c in command.chars() {
        let (operator, text) = parts.last_mut()?;
        let is_bare = quote.is_none() && !is_escaped;
        if is_bare && "<>&|;".contains(c) {
            match text.is_empty() && !operator.is_empty() {
                true => operator.push(c),
                false => parts.push((c.into(), String::new())),
            }
            continue;
        }
        let is_expanded = quote != Some('\'') && !is_escaped && "$`".contains(c);
        if is_expanded || is_bare && "()*?[]~#!\n".contains(c) {
            return None;
        }
        text.push(c);
        if quote == Some(c) && !is_escaped {
            quote = None;
        } else if is_bare && ['"', '\''].contains(&c) {
            quote = Some(c);
        }
        is_escaped = c == '\\' && !is_escaped && quote != Some('\'');
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    const GOOD: &str = "* * * * * backlog process\n";

    fn lines(text: &str) -> Vec<Line> {
        let crontab = Crontab { path: None, text: text.into(), fault: None, is_passed_over: false };
        crontab.lines(NaiveDateTime::default())
    }

    #[test]
    fn a_file_that_crontab_refuses_has_no_good_line() {
        let long = format!("* * * * * {}", "a".repeat(LONGEST));
        let longer = format!("{long}a");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("crontab");
        for (other, is_good) in [
            ("", true),
            ("# x\n \t\n\t# y", true),
            ("\r", false),
            ("A=1\nA = 'x y' \n\"A B\"=1\nA.B=\"\"\n*/5=1", true),
            ("MAILTO=", false),
            ("A B=1", false),
            ("A='1' x", false),
            ("A=\"1", false),
            ("* * * * * x=1 %", true),
            ("* * * * *", true),
            ("*\t* * * * true", true),
            ("@reboot", true),
            ("@DAILY true", false),
            ("60 * * * * true", false),
            ("5/10 * * * * true", false),
            ("* * * jan-mar,5 sun true", true),
            ("\u{feff}* * * * * true", false),
            ("*\u{a0}* * * * true", false),
            ("x", false),
            (&long, true),
            (&longer, false),
        ] {
            let text = format!("{other}\n{GOOD}");
            let line = lines(&text).pop().unwrap();
            assert_eq!(line.faults.is_empty(), is_good, "{other}: {:?}", line.faults);
            // Debian's crontab only looks at a file with -n; others do not know that.
            std::fs::write(&path, &text).unwrap();
            let looked = process::Command::new("crontab").arg("-n").arg(&path).output();
            if let Ok(output) = looked
                && String::from_utf8_lossy(&[output.stdout, output.stderr].concat())
                    .contains("crontab file")
            {
                assert_eq!(output.status.success(), is_good, "{other}");
            }
        }
        assert_eq!(lines(GOOD.trim_end())[0].faults.len(), 1);
        // One bad line is the end of all others, be it one of the program's.
        let found = lines(&format!("{GOOD}60 {GOOD}{GOOD}"));
        let faults: Vec<_> = found.iter().map(|line| line.faults.join("; ")).collect();
        let why = "60 * * * * is no time that is in crontab(5)";
        let of_others = format!("cron ignores the file: line 2: {why}");
        assert_eq!(faults, [&of_others, why, &of_others]);
    }

    #[test]
    fn the_variables_above_a_line_and_before_its_program_are_its_own() {
        let found = lines(
            "PATH = /opt/bin:$HOME/bin\nA=1\nA='2'\n@daily B=3 A='4 5' backlog process\nA=6\n@daily backlog process\n",
        );
        assert_eq!(found[0].variables["PATH"], "/opt/bin:$HOME/bin");
        assert_eq!((&*found[0].variables["A"], &*found[0].variables["B"]), ("4 5", "3"));
        assert_eq!(found[1].variables["A"], "6");
        assert_eq!(found[1].variables.get("B"), None);
        assert_eq!((found[0].place.as_str(), found[1].place.as_str()), ("line 4", "line 6"));
    }

    #[test]
    fn the_output_of_a_line_goes_where_the_shell_sends_it() {
        use Sink::{File, Mail, Nothing};
        for (redirections, stdout, stderr, files) in [
            ("", Mail, Mail, ""),
            (">/dev/null", Nothing, Mail, ""),
            ("> /dev/null 2>&1", Nothing, Nothing, ""),
            ("2>&1 >/dev/null", Nothing, Mail, ""),
            ("2>/dev/null", Mail, Nothing, ""),
            (">>f 2>&1", File, File, "f"),
            ("a2>f", File, Mail, "f"),
            ("2 >f", File, Mail, "f"),
            ("1>'a b' 2>>c", File, File, "a b c"),
            (">&2 </dev/null", Mail, Mail, ""),
            ("'2>/dev/null' \">\" x", Mail, Mail, ""),
            ("&>/dev/null", Mail, Mail, ""),
        ] {
            let command = lines(&format!("@daily backlog process {redirections}\n"))
                .remove(0)
                .command
                .unwrap();
            assert_eq!((command.stdout, command.stderr), (stdout, stderr), "{redirections}");
            assert_eq!(command.files.join(" "), files, "{redirections}");
            assert_eq!(command.is_split, redirections.starts_with('&'), "{redirections}");
        }
        let bash = lines("SHELL=/bin/bash\n@daily backlog process &>/dev/null\n")
            .remove(0)
            .command
            .unwrap();
        assert_eq!((bash.stdout, bash.stderr, bash.is_split), (Nothing, Nothing, false));
    }

    #[test]
    fn a_percent_sign_ends_the_command() {
        let text = r"backlog 'a\\b' 'a\%b' 'a\\\%b' a\\\\b 'c";
        assert_eq!(unescaped(text).0, r"backlog 'a\b' 'a%b' 'a\%b' a\\b 'c");
        let is_cut = |line: &str| !lines(line)[0].faults.is_empty();
        assert!(is_cut("@daily backlog process --where \"a LIKE 'b%'\"\n"));
        assert!(!is_cut("@daily backlog process --where \"a LIKE 'b\\%'\"\n"));
    }
}
