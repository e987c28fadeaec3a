//! Crontab lines and systemd units: written for a schedule, and read back from a crontab.

mod period;

pub use period::Period;

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
        let line = Line {
            number,
            times: times.into(),
            environment: environment.clone(),
            directory: None,
            arguments: Vec::new(),
        };
        lines.extend(runs(&until_percent(command), program, &line));
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
    let mut rest = text;
    for _ in 0..fields {
        rest = rest.trim_start();
        rest = &rest[rest.find(char::is_whitespace)?..];
    }
    Some((&text[..text.len() - rest.len()], rest.trim()))
}

/// The command itself, as cron gives it to the shell. A percent sign ends it; behind a backslash it
/// does not, and then cron takes the backslash away, as it does one before another.
fn until_percent(command: &str) -> String {
    let mut text = String::new();
    let mut chars = command.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek().copied()) {
            ('\\', Some(escaped @ ('%' | '\\'))) => {
                chars.next();
                text.push(escaped);
            }
            ('%', _) => break,
            (c, _) => text.push(c),
        }
    }
    text
}

/// The words of the commands that a shell command is made of.
fn simple_commands(command: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    for word in shlex::Shlex::new(command) {
        let is_end = ["|", "||", "&&", "&", ";", "(", ")"].contains(&word.as_str());
        let (word, is_last) = match word.strip_suffix(';') {
            Some(word) => (word.to_string(), true),
            None => (word, false),
        };
        if let (Some(last), false) = (commands.last_mut(), is_end) {
            last.push(word);
        }
        if is_end || is_last {
            commands.push(Vec::new());
        }
    }
    commands
}

/// Where the shell command of a line runs the program. It need not be understood in full: what names
/// the program without anything behind it does not run it.
fn runs(command: &str, program: &str, line: &Line) -> Vec<Line> {
    let (mut runs, mut directory) = (Vec::new(), None);
    for simple in simple_commands(command) {
        if let [cd, path] = &simple[..]
            && cd == "cd"
        {
            directory = Some(path.clone());
        }
        let is_program =
            |word: &String| word.trim_start_matches('(').rsplit('/').next() == Some(program);
        let Some(place) = simple.iter().position(is_program) else {
            if let Some(shell) = simple.iter().position(|word| word == "-c")
                && simple[..shell].iter().any(|word| word.ends_with("sh"))
                && let Some(command) = simple.get(shell + 1)
            {
                runs.extend(self::runs(command, program, line));
            }
            continue;
        };
        // What a redirection names is no argument of ours.
        let is_redirection = |word: &String| {
            word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '&')
                .starts_with(['>', '<'])
        };
        let end = simple.iter().position(is_redirection).unwrap_or(simple.len());
        if place + 1 < end {
            let mut arguments = simple[place + 1..end].to_vec();
            // The end of the parentheses before the name is none of them.
            if simple[place].starts_with('(')
                && let Some(last) = arguments.last_mut()
            {
                *last = last.trim_end_matches(')').to_string();
            }
            let before = simple[..place].iter().filter_map(|word| assignment(word));
            let own = before.map(|(name, value)| (name.into(), value.into()));
            runs.push(Line {
                directory: directory.clone(),
                environment: line.environment.iter().cloned().chain(own).collect(),
                arguments,
                ..line.clone()
            });
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crontab::Period;

    #[test]
    fn what_is_quoted_reads_back() {
        let command: Vec<_> =
            ["/usr/bin/backlog", "process", "--", "sh", "-c", "date +%s; echo \"$HOME's\"", ""]
                .map(String::from)
                .into();
        let line = Period::new(300).unwrap().cron_line(&command).unwrap();
        assert!(line.contains("+\\%s"), "{line}");
        let lines = lines(&line, "backlog");
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].arguments, command[1..]);
        assert!(Period::new(300).unwrap().cron_line(&["a\nb".into()]).is_err());
    }

    /// All words of at most so many of these characters.
    fn words_of(chars: &[char], length: usize) -> Vec<String> {
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

    #[test]
    fn what_cron_and_the_shell_take_for_their_own_reads_back() {
        for word in words_of(&['\\', '%', '\'', '"', ' ', '$', 'a'], 4) {
            let command = ["backlog".into(), word.clone(), "x".into()];
            let line = Period::new(60).unwrap().cron_line(&command).unwrap();
            assert!(!line.contains("\\\\"), "{line}");
            assert_eq!(lines(&line, "backlog")[0].arguments, [word.as_str(), "x"], "{line}");
        }
        // As somebody else may have written it.
        let line = r"* * * * * backlog 'a\\b' 'a\%b' 'a\\\%b' a\\\\b 'c";
        assert_eq!(until_percent(line), r"* * * * * backlog 'a\b' 'a%b' 'a\%b' a\\b 'c");
        assert_eq!(until_percent(r"a\\%b"), r"a\");
    }

    #[test]
    fn a_crontab_is_read_as_cron_reads_it() {
        let crontab = "# backlog process --ndays 1\n\
            MAILTO=root\nBACKLOG_DB = \"/srv/a b.db\"\n\
            */5 * * * *  cd /srv/app && nice backlog process --ndays 1 -- sync >>/var/log/x 2>&1\n\
            @daily [ $(expr $(date +\\%s) / 3600 \\% 96) -ne 0 ] || /opt/backlog status%input\n\
            0 3 * * * /usr/bin/backlogger process\n\
            \t1 2 3 4 5 true; backlog process --all-queues\n\
            @daily test -x /opt/backlog && env BACKLOG_DB=/x (backlog process --ndays 1) 2>&1 | logger -t backlog\n\
            @daily bash -c 'cd /y; backlog list' >/dev/null\n";
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
                "8 @daily -: process --ndays 1",
                "9 @daily /y: list",
            ]
        );
        let variables = [("MAILTO", "root"), ("BACKLOG_DB", "/srv/a b.db")];
        assert_eq!(found[3].environment.last(), Some(&("BACKLOG_DB".into(), "/x".into())));
        assert_eq!(found[0].environment, variables.map(|(a, b)| (a.into(), b.into())));
    }
}
