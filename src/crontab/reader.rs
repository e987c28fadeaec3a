//! A reader of crontabs, as Debian's cron reads them. Of a command it knows plain words and files for output; it does
//! not guess what a shell would make of anything else.

use std::collections::HashMap;
use std::path::Path;

use nix::unistd::User;

use super::times::is_time;

const PROGRAM: &str = "backlog";
/// Where cron looks for programs, unless the crontab says otherwise.
pub const CRON_PATH: &str = "/usr/bin:/bin";
/// Debian's cron ignores a file with a longer command, in bytes.
pub const LONGEST: usize = 998;
const BLANKS: [char; 2] = [' ', '\t'];

pub struct Crontab {
    /// Of a file of the system, whose lines name a user. The crontab of this user has none.
    pub path: Option<String>,
    pub text: String,
    /// Why cron ignores the file, whatever it contains.
    pub fault: Option<String>,
}

/// A line that names the program and its subcommand `process`.
pub struct CronLine {
    /// `line 3`, `/etc/cron.d/shop line 3`
    pub place: String,
    pub times: String,
    /// Who runs it, in a file of the system that names a user.
    pub user: Option<String>,
    /// Why cron does not run it, or not as it is written.
    pub faults: Vec<String>,
    /// The variables that the crontab sets above it.
    pub variables: HashMap<String, String>,
    /// `None` if not even the program's own words are plain.
    pub command: Option<CronCommand>,
}

#[derive(Default)]
pub struct CronCommand {
    pub words: Vec<String>,
    /// The files that its output goes to, instead of cron's mail.
    pub stdout: Option<String>,
    pub stderr: Option<String>,
    /// Whether it is all of the line. Else only its words are known, which say what queue it is for.
    pub is_whole: bool,
}

impl Crontab {
    /// The lines that name the program. Cron ignores a file that it may not trust, and one with a bad line.
    pub fn lines(&self) -> Vec<CronLine> {
        let (mut lines, mut variables) = (Vec::new(), HashMap::new());
        let mut fault = self.fault.clone();
        for (text, number) in self.text.split('\n').zip(1..) {
            let text = text.trim_start_matches(BLANKS);
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            if let Some((name, value)) = assignment(text) {
                variables.insert(name, value);
                continue;
            }
            let (line, bad) = self.line(text, number, &variables);
            fault = fault.or_else(|| Some(format!("line {number}: {}", bad?)));
            lines.extend(names_program(text).then_some(line));
        }
        if !self.text.ends_with('\n') {
            fault.get_or_insert("its last line does not end with a line feed".into());
        }
        for line in &mut lines {
            line.faults.extend(fault.iter().map(|why| format!("cron ignores the file: {why}")));
        }
        lines
    }

    /// A line, and why it is bad.
    fn line(
        &self,
        text: &str,
        number: usize,
        variables: &HashMap<String, String>,
    ) -> (CronLine, Option<String>) {
        let mut rest = text;
        let fields = if text.starts_with('@') { 1 } else { 5 };
        let times: Vec<_> = (0..fields).map(|_| word(&mut rest)).collect();
        let times = times.join(" ").trim_end().to_string();
        let (mut faults, mut user, mut behind) = (Vec::new(), None, rest);
        let first = word(&mut behind);
        if is_user(first) && self.path.is_some() {
            (user, rest) = (Some(first.to_string()), behind);
        } else if is_user(first) && behind.split(BLANKS).next().is_some_and(is_program) {
            let why =
                "which is for /etc/crontab and /etc/cron.d: a user's crontab has no such field";
            faults.push(format!("it begins with the user {first}, {why}"));
            rest = behind;
        }
        let bad = if !is_time(&times) {
            Some(format!("{times} is no time that is in crontab(5)"))
        } else if text.contains('\0') {
            Some("it has a NUL in it".into())
        } else if user.is_none() && self.path.is_some() {
            Some(format!("the word before the command is its user, and {first:?} is none here"))
        } else {
            let is_long = rest.len() > LONGEST;
            is_long.then(|| format!("its command is longer than {LONGEST} bytes"))
        };
        let (command, is_cut) = unescaped(rest.trim_end_matches('\r'));
        let is_odd = |c: char| c.is_whitespace() && !BLANKS.contains(&c);
        if is_cut {
            let why = "cron ends the command at a %, what follows is its standard input: write \\%";
            faults.push(why.into());
        }
        if quoted(text).any(|(_, c, quote)| quote.is_none() && is_odd(c)) {
            let why = "a carriage return, a no-break space or the like is a part of its words: write \
                       plain blanks and Unix line ends";
            faults.push(why.into());
        }
        let path = self.path.as_ref().map_or_else(String::new, |path| format!("{path} "));
        let (place, variables) = (format!("{path}line {number}"), variables.clone());
        let command = CronCommand::read(&command);
        (CronLine { place, times, user, faults, variables, command }, bad)
    }
}

fn word<'t>(rest: &mut &'t str) -> &'t str {
    let (word, behind) = rest.split_once(BLANKS).unwrap_or((rest, ""));
    *rest = behind.trim_start_matches(BLANKS);
    word
}

/// Whether a word of this name, and then `process`, stand in a line, whatever is between the words.
fn names_program(text: &str) -> bool {
    let is_between = |c: char| c.is_whitespace() || "'\"();&|".contains(c);
    let mut words = text.split(is_between);
    words.any(is_program) && words.any(|word| word == "process")
}

fn is_program(word: &str) -> bool {
    Path::new(word).ends_with(PROGRAM)
}

fn is_user(name: &str) -> bool {
    matches!(User::from_name(name), Ok(Some(_)))
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

/// The command as the shell gets it, without the backslashes that escape, and whether a percent sign ends it early.
fn unescaped(command: &str) -> (String, bool) {
    let (mut text, mut is_cut, mut chars) = (String::new(), false, command.chars().peekable());
    while let Some(c) = chars.next() {
        let escaped = chars.next_if(|next| c == '\\' && ['%', '\\'].contains(next));
        is_cut |= c == '%';
        text.push(escaped.unwrap_or(c));
    }
    (text, is_cut)
}

impl CronCommand {
    fn read(text: &str) -> Option<Self> {
        let text = behind_condition(text).unwrap_or(text);
        let before = text.get(..end_of_words(text)?)?;
        let words = before.trim_end_matches(|c: char| c.is_ascii_digit());
        let is_cut = before.len() < text.len();
        let before = if is_cut && words.ends_with(BLANKS) { words } else { before };
        let mut words = shlex::split(before)?;
        // Where a variable stands before the program, that may say what the command is about.
        let at = words.iter().position(|word| is_program(word) || word.contains('='))?;
        let words = words.split_off(at);
        is_program(&words[0]).then_some(())?;
        let mut command = Self { words, ..Self::default() };
        let redirected = command.redirect(text.get(before.len()..)?);
        command.is_whole = at == 0 && redirected.is_some();
        Some(command)
    }

    fn redirect(&mut self, redirections: &str) -> Option<()> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        for word in redirections.replace("> ", ">").split_ascii_whitespace() {
            let (of, to) = word.split_once('>')?;
            let file = to.strip_prefix('>').unwrap_or(to);
            match of {
                "2" if to == "&1" => self.stderr = self.stdout.clone(),
                _ if file.is_empty() || !file.chars().all(is_plain) => return None,
                "" | "1" => self.stdout = Some(file.into()),
                "2" => self.stderr = Some(file.into()),
                _ => return None,
            }
        }
        Some(())
    }
}

/// The command behind the condition that [`super::Period`] writes.
fn behind_condition(text: &str) -> Option<&str> {
    let (numbers, rest) =
        text.strip_prefix("[ $(expr $(date +%s) / ")?.split_once(") -ne 0 ] || ")?;
    numbers.chars().all(|c| c.is_ascii_digit() || " %".contains(c)).then_some(rest)
}

/// Where the words of a command end; `None` if a character of the words means more to a shell.
fn end_of_words(text: &str) -> Option<usize> {
    for (at, c, quote) in quoted(text) {
        match quote {
            Some('"') if "$`\\".contains(c) => return None,
            None if "<>&|;".contains(c) => return Some(at),
            None if "$`\\()*?[]~#!\n".contains(c) => return None,
            Some(_) | None => {}
        }
    }
    Some(text.len())
}

/// The characters of a command, each with the quote that it is in.
fn quoted(text: &str) -> impl Iterator<Item = (usize, char, Option<char>)> {
    let mut quote = None;
    text.char_indices().map(move |(at, c)| {
        let within = quote;
        match quote {
            Some(end) if c == end => quote = None,
            None if "'\"".contains(c) => quote = Some(c),
            Some(_) | None => {}
        }
        (at, c, within)
    })
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    const GOOD: &str = "* * * * * backlog process\n";

    fn lines(text: &str) -> Vec<CronLine> {
        let crontab = Crontab { path: None, text: text.into(), fault: None };
        crontab.lines()
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
        let why = "cron ignores the file: line 2: 60 * * * * is no time that is in crontab(5)";
        assert_eq!(faults, [why; 3]);
    }

    #[test]
    fn the_variables_above_a_line_are_its_own() {
        let found = lines(
            "PATH = /opt/bin:$HOME/bin\nA=1\nA='2'\n@daily backlog process\nA=6\n@daily backlog process\n",
        );
        assert_eq!(found[0].variables["PATH"], "/opt/bin:$HOME/bin");
        assert_eq!((&*found[0].variables["A"], &*found[1].variables["A"]), ("2", "6"));
        assert_eq!((found[0].place.as_str(), found[1].place.as_str()), ("line 4", "line 6"));
    }

    #[test]
    fn the_output_of_a_line_goes_where_the_shell_sends_it() {
        for (redirections, stdout, stderr) in [
            ("", "", ""),
            (">/dev/null", "/dev/null", ""),
            ("> /dev/null 2>&1", "/dev/null", "/dev/null"),
            (">/dev/null 2>/dev/null", "/dev/null", "/dev/null"),
            ("2>&1 >/dev/null", "/dev/null", ""),
            ("2>/dev/null", "", "/dev/null"),
            (">>f 2>&1", "f", "f"),
            ("a2>f", "f", ""),
            ("2 >f", "f", ""),
            ("1>a 2>> c", "a", "c"),
            ("'2>/dev/null' \">\" x", "", ""),
        ] {
            let line = lines(&format!("@daily backlog process {redirections}\n")).remove(0);
            let CronCommand { stdout: out, stderr: err, .. } = line.command.unwrap();
            let found = (out.unwrap_or_default(), err.unwrap_or_default());
            assert_eq!(found, (stdout.into(), stderr.into()), "{redirections}");
        }
        for not_plain in ["&>f", ">&2", "2>>&1", ">f x", "3>f", "<f", ">'a b'", ">$f", ">>>f", ">"]
        {
            let line = lines(&format!("@daily backlog process {not_plain}\n")).remove(0);
            assert!(line.command.is_none_or(|command| !command.is_whole), "{not_plain}");
        }
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
