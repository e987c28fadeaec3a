//! A reader of crontabs of Debian's cron. It understands commands of plain words with files for output, nothing else.

use std::collections::HashMap;
use std::path::Path;

use nix::unistd::User;

use super::times::is_time;

const PROGRAM: &str = "backlog";
/// The PATH of cron, unless the crontab sets one.
pub const CRON_PATH: &str = "/usr/bin:/bin";
/// Maximum length of a command, in bytes. Debian's cron ignores a file with a longer one.
pub const MAX_COMMAND: usize = 998;
const BLANKS: [char; 2] = [' ', '\t'];

pub struct Crontab {
    /// Path of a system crontab, whose lines name a user. The crontab of this user has none.
    pub path: Option<String>,
    pub text: String,
    /// Reason why cron ignores the whole file.
    pub fault: Option<String>,
}

/// A line that names the program and its subcommand `process`.
pub struct CronLine {
    /// `line 3`, `/etc/cron.d/shop line 3`
    pub location: String,
    pub times: String,
    pub user: Option<String>,
    /// Reasons why cron does not run the line, or not as it is written.
    pub faults: Vec<String>,
    /// The variables that the crontab sets above the line.
    pub variables: HashMap<String, String>,
    /// `None` if the words of the program are not plain.
    pub command: Option<CronCommand>,
}

#[derive(Default)]
pub struct CronCommand {
    pub words: Vec<String>,
    /// Files for output, which cron would otherwise mail.
    pub stdout: Option<String>,
    pub stderr: Option<String>,
    /// False if the line contains more than this command. The words then only show the queue.
    pub is_whole: bool,
}

impl Crontab {
    /// The lines that name the program. Cron ignores them all if one line is bad.
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
            let (line, error) = self.parse_line(text, number, &variables);
            fault = fault.or_else(|| Some(format!("line {number}: {}", error?)));
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

    /// A line, and the error for which cron ignores the file.
    fn parse_line(
        &self,
        text: &str,
        number: usize,
        variables: &HashMap<String, String>,
    ) -> (CronLine, Option<String>) {
        let mut command = text;
        let fields = if text.starts_with('@') { 1 } else { 5 };
        let times: Vec<_> = (0..fields).map(|_| take_word(&mut command)).collect();
        let times = times.join(" ").trim_end().to_string();
        let (mut faults, mut user, mut after_user) = (Vec::new(), None, command);
        let first = take_word(&mut after_user);
        if is_user(first) && self.path.is_some() {
            (user, command) = (Some(first.to_string()), after_user);
        } else if is_user(first) && after_user.split(BLANKS).next().is_some_and(is_program) {
            faults.push(format!(
                "it begins with the user {first}: only /etc/crontab and /etc/cron.d have such a field"
            ));
            command = after_user;
        }
        let error = if !is_time(&times) {
            Some(format!("{times} is not a time of crontab(5)"))
        } else if text.contains('\0') {
            Some("it contains a NUL character".into())
        } else if user.is_none() && self.path.is_some() {
            Some(format!("the word before the command must be a user, and {first:?} is none here"))
        } else {
            let is_long = command.len() > MAX_COMMAND;
            is_long.then(|| format!("its command is longer than {MAX_COMMAND} bytes"))
        };
        let (command, is_cut) = unescaped(command.trim_end_matches('\r'));
        if is_cut {
            faults.push(
                "cron ends the command at a %, and passes the rest as standard input: write \\%"
                    .into(),
            );
        }
        let is_odd = |c: char| c.is_whitespace() && !BLANKS.contains(&c);
        if with_quotes(text).any(|(_, c, quote)| quote.is_none() && is_odd(c)) {
            let why = "it contains a carriage return, a no-break space or the like: write plain blanks and \
                       Unix line ends";
            faults.push(why.into());
        }
        let path = self.path.as_ref().map_or_else(String::new, |path| format!("{path} "));
        let (location, variables) = (format!("{path}line {number}"), variables.clone());
        let command = CronCommand::parse(&command);
        (CronLine { location, times, user, faults, variables, command }, error)
    }
}

fn take_word<'t>(text: &mut &'t str) -> &'t str {
    let (word, rest) = text.split_once(BLANKS).unwrap_or((text, ""));
    *text = rest.trim_start_matches(BLANKS);
    word
}

/// True if the program and then `process` appear in a line.
fn names_program(text: &str) -> bool {
    let is_separator = |c: char| c.is_whitespace() || "'\"();&|".contains(c);
    let mut words = text.split(is_separator);
    words.any(is_program) && words.any(|word| word == "process")
}

fn is_program(word: &str) -> bool {
    Path::new(word).ends_with(PROGRAM)
}

fn is_user(name: &str) -> bool {
    matches!(User::from_name(name), Ok(Some(_)))
}

/// `NAME = value`, with or without quotes. An empty value needs quotes.
fn assignment(text: &str) -> Option<(String, String)> {
    let unquoted = |text: &str| {
        let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
        let quote = text.chars().next()?;
        if !['"', '\''].contains(&quote) {
            return Some((text.to_string(), false));
        }
        let content = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!content.contains(quote)).then(|| (content.into(), true))
    };
    let (name, value) = text.split_once('=')?;
    let ((name, is_quoted), (value, _)) = (unquoted(name)?, unquoted(value)?);
    (is_quoted || !name.contains(|c: char| c.is_ascii_whitespace())).then_some((name, value))
}

/// The command without cron's backslashes, and true if it has a percent sign, which ends it.
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
    fn parse(text: &str) -> Option<Self> {
        let text = without_condition(text).unwrap_or(text);
        let mut plain = text.get(..end_of_words(text)?)?;
        // In `2>file`, the digit belongs to the redirection.
        let without_digits = plain.trim_end_matches(|c: char| c.is_ascii_digit());
        if plain.len() < text.len() && without_digits.ends_with(BLANKS) {
            plain = without_digits;
        }
        let mut words = shlex::split(plain)?;
        // A variable before the program may choose the queue, so the words would not show it.
        let at = words.iter().position(|word| is_program(word) || word.contains('='))?;
        let words = words.split_off(at);
        is_program(&words[0]).then_some(())?;
        let mut command = Self { words, ..Self::default() };
        let is_redirected = command.redirect(text.get(plain.len()..)?).is_some();
        command.is_whole = at == 0 && is_redirected;
        Some(command)
    }

    /// Sets the files for output. `None` if anything else follows the words.
    fn redirect(&mut self, redirections: &str) -> Option<()> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        for word in redirections.replace("> ", ">").split_ascii_whitespace() {
            let (descriptor, target) = word.split_once('>')?;
            let file = target.strip_prefix('>').unwrap_or(target);
            match descriptor {
                "2" if target == "&1" => self.stderr = self.stdout.clone(),
                _ if file.is_empty() || !file.chars().all(is_plain) => return None,
                "" | "1" => self.stdout = Some(file.into()),
                "2" => self.stderr = Some(file.into()),
                _ => return None,
            }
        }
        Some(())
    }
}

/// The command after a condition of [`super::Period`].
fn without_condition(text: &str) -> Option<&str> {
    let (numbers, command) =
        text.strip_prefix("[ $(expr $(date +%s) / ")?.split_once(") -ne 0 ] || ")?;
    numbers.chars().all(|c| c.is_ascii_digit() || " %".contains(c)).then_some(command)
}

/// The end of the words of a command; `None` if a shell would expand one of them.
fn end_of_words(text: &str) -> Option<usize> {
    for (at, c, quote) in with_quotes(text) {
        match quote {
            Some('"') if "$`\\".contains(c) => return None,
            None if "<>&|;".contains(c) => return Some(at),
            None if "$`\\()*?[]~#!\n".contains(c) => return None,
            Some(_) | None => {}
        }
    }
    Some(text.len())
}

/// The characters of a command, each with the quote around it.
fn with_quotes(text: &str) -> impl Iterator<Item = (usize, char, Option<char>)> {
    let mut quote = None;
    text.char_indices().map(move |(at, c)| {
        let around = quote;
        match quote {
            Some(end) if c == end => quote = None,
            None if "'\"".contains(c) => quote = Some(c),
            Some(_) | None => {}
        }
        (at, c, around)
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
        let long = format!("* * * * * {}", "a".repeat(MAX_COMMAND));
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
            // Debian's crontab checks a file with -n; other versions do not have that option.
            std::fs::write(&path, &text).unwrap();
            let checked = process::Command::new("crontab").arg("-n").arg(&path).output();
            if let Ok(output) = checked
                && String::from_utf8_lossy(&[output.stdout, output.stderr].concat())
                    .contains("crontab file")
            {
                assert_eq!(output.status.success(), is_good, "{other}");
            }
        }
        assert_eq!(lines(GOOD.trim_end())[0].faults.len(), 1);
        // A bad line makes cron ignore the others.
        let found = lines(&format!("{GOOD}60 {GOOD}{GOOD}"));
        let faults: Vec<_> = found.iter().map(|line| line.faults.join("; ")).collect();
        let why = "cron ignores the file: line 2: 60 * * * * is not a time of crontab(5)";
        assert_eq!(faults, [why; 3]);
    }

    #[test]
    fn the_variables_above_a_line_are_its_own() {
        let found = lines(
            "PATH = /opt/bin:$HOME/bin\nA=1\nA='2'\n@daily backlog process\nA=6\n@daily backlog process\n",
        );
        assert_eq!(found[0].variables["PATH"], "/opt/bin:$HOME/bin");
        assert_eq!((&*found[0].variables["A"], &*found[1].variables["A"]), ("2", "6"));
        assert_eq!((found[0].location.as_str(), found[1].location.as_str()), ("line 4", "line 6"));
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
