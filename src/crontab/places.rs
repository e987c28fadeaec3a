//! Places where cron and systemd find what they run: the crontabs of users, those of the system, which
//! name a user in each line, and the units.

#![expect(clippy::string_slice, reason = "offsets come from find")]

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::shell::Output;
use super::{Assignments, Crontab, Line, Scheduler, UnitDirectory, interval, runs, timers};
use crate::secure_file;
use crate::system_error::words;

/// A user of the machine (passwd(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: u32,
    pub home: PathBuf,
}

/// The users that a file like /etc/passwd describes.
pub fn users(passwd: &str) -> Vec<User> {
    let user = |line: &str| {
        let mut fields = line.split(':');
        let (name, uid) = (fields.next()?.to_string(), fields.nth(1)?.parse().ok()?);
        Some(User { name, uid, home: fields.nth(2)?.into() })
    };
    passwd.lines().filter_map(user).collect()
}

/// The places of a machine.
pub struct Places {
    /// The crontab of this user, as `crontab -l` prints it; none where there is no such program.
    pub own: Option<String>,
    /// Where this user's lines begin.
    pub home: PathBuf,
    pub uid: u32,
    pub users: Vec<User>,
    /// /etc/crontab
    pub system: PathBuf,
    /// /etc/cron.d
    pub directory: PathBuf,
    /// The directories of the other users' crontabs, which only root can read.
    pub spools: Vec<PathBuf>,
    pub units: Vec<UnitDirectory>,
}

/// What was found in all places.
#[derive(Debug, Default)]
pub struct Scheduled {
    /// The user's own lines first, and the timers last.
    pub lines: Vec<Line>,
    /// What could not be read, and why.
    pub unread: BTreeSet<String>,
    /// Lines in files that cron passes over.
    pub ignored: Vec<Line>,
    /// Whether there is a cron or a timer.
    pub is_any: bool,
}

impl Places {
    pub fn read(&self, program: &str) -> Scheduled {
        let mut found = Scheduled { is_any: self.own.is_some(), ..Scheduled::default() };
        if let Some(text) = &self.own {
            found.lines = self.lines(text, &Crontab::Own, &self.home, program);
        }
        if let Some(text) = found.text(&self.system) {
            found.lines.extend(self.system_lines(&text, &self.system, program));
        }
        for path in found.files(&self.directory) {
            let Some(text) = found.text(&path) else { continue };
            let lines = self.system_lines(&text, &path, program);
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            let is_legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
            match name.iter().all(is_legal) {
                true => found.lines.extend(lines),
                false => found.ignored.extend(lines.into_iter().filter(|_| !is_set_aside(name))),
            }
        }
        if self.uid == 0 {
            self.spools.iter().for_each(|spool| self.read_spool(spool, program, &mut found));
        } else {
            found.unread.insert("crontabs of other users: only root can".into());
        }
        let timers = timers(&self.units, program);
        found.is_any |= !found.lines.is_empty() || !timers.is_empty();
        found.lines.extend(timers);
        found
    }

    fn read_spool(&self, spool: &Path, program: &str, found: &mut Scheduled) {
        for path in found.files(spool).into_iter().filter(|path| path.is_file()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let user = self.users.iter().find(|user| user.name == name);
            let Some(user) = user else {
                found.unread.insert(format!("{}: no such user in /etc/passwd", path.display()));
                continue;
            };
            // This user's own was read.
            if user.uid == self.uid {
                continue;
            }
            let Some(text) = found.text(&path) else { continue };
            let mut lines = self.lines(&text, &Crontab::OfUser(name), &user.home, program);
            lines.iter_mut().for_each(|line| line.user = Some(user.name.clone()));
            found.lines.extend(lines);
        }
    }

    /// The lines of a user's crontab (crontab(5)) that run a program of this name.
    fn lines(&self, text: &str, crontab: &Crontab, home: &Path, program: &str) -> Vec<Line> {
        let split = |command: &str| Some((home.to_path_buf(), None, command.to_string()));
        lines(text, crontab, program, &split)
    }

    /// The same of a crontab of the system, where a user stands before each command.
    fn system_lines(&self, text: &str, path: &Path, program: &str) -> Vec<Line> {
        let split = |command: &str| {
            let (name, rest) = command.split_once([' ', '\t'])?;
            // A path is nobody's name: the user was forgotten.
            if name.contains('/') {
                return Some((PathBuf::from("/"), Some(String::new()), command.into()));
            }
            let user = self.users.iter().find(|user| user.name == name);
            let home = user.map_or_else(|| PathBuf::from("/"), |user| user.home.clone());
            let other = user.is_none_or(|user| user.uid != self.uid);
            Some((home, other.then(|| name.into()), rest.trim_start().into()))
        };
        lines(text, &Crontab::System(path.into()), program, &split)
    }
}

impl Scheduled {
    /// The text of a file that may be missing.
    fn text(&mut self, path: &Path) -> Option<String> {
        if path.exists() && !path.is_file() {
            return None;
        }
        let bytes = self.read(path, secure_file::read(path).map(|(bytes, _)| bytes))?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// By name.
    fn files(&mut self, directory: &Path) -> Vec<PathBuf> {
        let entries = self.read(directory, fs::read_dir(directory));
        let mut paths: Vec<_> =
            entries.into_iter().flatten().flatten().map(|it| it.path()).collect();
        paths.sort_unstable();
        paths
    }

    fn read<T>(&mut self, path: &Path, read: io::Result<T>) -> Option<T> {
        let missing = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        match read {
            Ok(it) => return Some(it),
            Err(error) if missing.contains(&error.kind()) => {}
            Err(error) => {
                self.unread.insert(format!("{}: {}", path.display(), words(&error)));
            }
        }
        None
    }
}

/// Whether a file in cron's directory is none by intent: a copy, or one that was switched off.
fn is_set_aside(name: &[u8]) -> bool {
    let parts = String::from_utf8_lossy(name).to_ascii_lowercase();
    let ends = ["bak", "disabled", "off", "old", "orig", "save", "swp", "tmp"];
    let end = parts.rsplit('.').next().unwrap_or_default();
    let is_of_packages = ["dpkg-", "rpm", "ucf-"].iter().any(|begin| end.starts_with(begin));
    parts.starts_with('.') || parts.ends_with('~') || ends.contains(&end) || is_of_packages
}

/// Who runs a command, as its home and, unless it is this user, its name; and the command alone.
type Split<'a> = &'a dyn Fn(&str) -> Option<(PathBuf, Option<String>, String)>;

fn lines(text: &str, crontab: &Crontab, program: &str, split: Split<'_>) -> Vec<Line> {
    let (mut assignments, mut lines) = (Assignments::default(), Vec::new());
    for (text, number) in text.lines().map(str::trim_start).zip(1..) {
        if text.starts_with('#') {
            continue;
        }
        let fields = if text.starts_with('@') { 1 } else { 5 };
        if let Some((name, value)) = assignment(text) {
            assignments.set(name, value);
        } else if let Some((times, rest)) = split_fields(text, fields)
            && let Some((home, user, command)) = split(rest)
        {
            let (command, is_cut) = until_percent(&command);
            let line = Line {
                scheduler: Scheduler::Cron(crontab.clone(), number),
                user,
                times: times.into(),
                interval: interval::of_fields(times),
                skip_period: None,
                home: assignments.get("HOME").map_or(home, PathBuf::from),
                environment: assignments.clone(),
                directory: None,
                wrapper: None,
                program: String::new(),
                arguments: Vec::new(),
                files: Vec::new(),
                output: Output::TOLD,
                is_cut,
                is_split: false,
                has_more_variables: false,
            };
            let reads_file = line.is_in_bash() && assignments.get("BASH_ENV").is_some();
            let line = Line { has_more_variables: reads_file, ..line };
            lines.extend(runs(&line.shell_commands(&command), program, &line));
        }
    }
    lines
}

/// `NAME = value`, with quotes or without.
pub fn assignment(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    let (name, value) = (name.trim().trim_matches(['"', '\'']), value.trim());
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let unquoted = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    let value = ['"', '\''].into_iter().find_map(unquoted).unwrap_or(value);
    (!name.is_empty() && name.chars().all(is_name)).then(|| (name.into(), value.into()))
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

/// The command itself, as cron gives it to the shell, and whether something stands behind it. A percent
/// sign ends it; behind a backslash it does not, and then cron takes the backslash away, as it does
/// one before another.
fn until_percent(command: &str) -> (String, bool) {
    let (mut text, mut chars) = (String::new(), command.chars().peekable());
    while let Some(c) = chars.next() {
        if c == '%' {
            return (text, true);
        }
        let escaped = chars.next_if(|next| c == '\\' && ['%', '\\'].contains(next));
        text.push(escaped.unwrap_or(c));
    }
    (text, false)
}

#[cfg(test)]
pub mod tests {
    use super::super::Sink;
    use super::*;

    /// A machine with this crontab and nothing else.
    pub fn places(own: &str) -> Places {
        Places {
            own: Some(own.into()),
            home: "/home/me".into(),
            uid: 7,
            users: users(
                "me:x:7:7::/home/me:/bin/sh\nroot:x:0:0:root:/root:/bin/sh\nother:x:8:8::/o:\n",
            ),
            system: "/nowhere".into(),
            directory: "/nowhere".into(),
            spools: Vec::new(),
            units: Vec::new(),
        }
    }

    pub fn lines(own: &str) -> Vec<Line> {
        places(own).read("backlog").lines
    }

    /// The lines as messages name them, with their user and arguments.
    fn shown(lines: &[Line]) -> Vec<String> {
        let user = |line: &Line| line.user.clone().unwrap_or("-".into());
        let shown =
            |it: &Line| format!("{} {}: {}", it.scheduler, user(it), it.arguments.join(" "));
        lines.iter().map(shown).collect()
    }

    #[test]
    fn a_percent_sign_ends_the_command() {
        let line = r"* * * * * backlog 'a\\b' 'a\%b' 'a\\\%b' a\\\\b 'c";
        assert_eq!(until_percent(line).0, r"* * * * * backlog 'a\b' 'a%b' 'a\%b' a\\b 'c");
        assert_eq!(until_percent(r"a\\%b"), (r"a\".into(), true));
        let is_cut = |line: &str| lines(line)[0].is_cut;
        assert!(is_cut("@daily backlog process --where \"a LIKE 'b%'\""));
        assert!(!is_cut("@daily backlog process --where \"a LIKE 'b\\%'\""));
    }

    #[test]
    fn the_variables_above_a_line_are_those_of_cron() {
        let found = lines(
            "PATH = /opt/bin:$HOME/bin\nA=1\nA='2'\n@daily B=$A backlog process --db $HOME/$A -- $C\n\
             HOME=/srv\n@daily backlog process --db ~/x",
        );
        // Cron replaces nothing in a value, the shell does.
        assert_eq!(found[0].path(), "/opt/bin:$HOME/bin");
        assert_eq!(found[0].environment.get("B"), Some("2"));
        assert_eq!(found[0].arguments, ["process", "--db", "/home/me/2", "--", "$C"]);
        assert_eq!(found[1].arguments, ["process", "--db", "/srv/x"]);
        assert_eq!(found[1].starts_in(), Path::new("/srv"));
        assert_eq!(lines("@daily backlog process")[0].path(), "/usr/bin:/bin");
    }

    #[test]
    fn the_output_of_a_line_is_that_of_its_shells() {
        for (command, stderr, is_split) in [
            ("backlog process", Sink::Told, false),
            ("backlog process >/dev/null 2>&1", Sink::Nothing, false),
            ("sh -c 'backlog process' 2>/dev/null", Sink::Nothing, false),
            ("sh -c 'backlog process 2>>log' 2>/dev/null", Sink::Elsewhere, false),
            ("backlog process 2>&1 | logger", Sink::Elsewhere, false),
            ("backlog process || true", Sink::Told, false),
            ("backlog process &>/dev/null", Sink::Told, true),
        ] {
            let line = &lines(&format!("@daily {command}"))[0];
            assert_eq!((line.output.stderr, line.is_split), (stderr, is_split), "{command}");
        }
        let bash = lines("SHELL=/bin/bash\n@daily backlog process &>/dev/null");
        assert_eq!((bash[0].output.stderr, bash[0].is_split), (Sink::Nothing, false));
    }

    #[test]
    fn a_program_is_found_behind_what_starts_it() {
        for (command, arguments, has_more) in [
            ("flock -n /run/backlog backlog process a", "process a", false),
            ("flock /run/backlog -c 'backlog process a'", "process a", false),
            ("bash -c 'nice backlog process a'", "process a", false),
            ("bash -lc 'backlog process a'", "process a", true),
            (". ~/.profile; backlog process a", "process a", true),
            ("sudo -u shop backlog process a", "process a", true),
            ("su shop -c 'backlog process a'", "process a", true),
            ("if true; then backlog process a; fi", "process a", false),
            (
                "test -x backlog && backlog process -- sh -c backlog",
                "process -- sh -c backlog",
                false,
            ),
        ] {
            let found = lines(&format!("@daily {command}"));
            assert_eq!(found.len(), 1, "{command}");
            assert_eq!(found[0].arguments.join(" "), arguments, "{command}");
            assert_eq!(found[0].has_more_variables, has_more, "{command}");
        }
        let found = lines("@daily export PATH=/opt/bin:$PATH A=1; B=2; backlog process a");
        assert_eq!(found[0].path(), "/opt/bin:/usr/bin:/bin");
        assert_eq!(
            found[0].environment.get("A").zip(found[0].environment.get("B")),
            Some(("1", "2"))
        );
        let found = lines("SHELL=/bin/bash\nBASH_ENV=/x\n@daily backlog process a");
        assert!(found[0].has_more_variables);
    }

    #[test]
    fn crontabs_of_the_system_name_a_user_in_each_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let write = |name: &str, text: &str| fs::write(path(name), text).unwrap();
        for name in ["cron.d", "spool"] {
            fs::create_dir(path(name)).unwrap();
        }
        write("crontab", "PATH=/opt\n@daily root backlog a\n@daily me backlog b\n");
        write("cron.d/shop", "# x\n0 3 * * * nobody cd ~; backlog c\n@daily /opt/backlog d e\n");
        write("cron.d/shop.cron", "@daily root backlog f\n");
        write("cron.d/shop.bak", "@daily root backlog g\n");
        write("cron.d/.shop", "@daily root backlog h\n");
        write("spool/other", "@daily backlog i\n");
        write("spool/me", "@daily backlog j\n");
        write("spool/unknown", "@daily backlog k\n");
        let of = |uid| Places {
            uid,
            system: path("crontab"),
            directory: path("cron.d"),
            spools: vec![path("spool"), path("missing")],
            ..places("@daily backlog own\n")
        };
        let root = of(0).read("backlog");
        let prefix = format!("{}/", dir.path().display());
        let found: Vec<_> =
            shown(&root.lines).iter().map(|line| line.replace(&prefix, "")).collect();
        assert_eq!(
            found,
            [
                "line 1 -: own",
                "crontab line 2 -: a",
                "crontab line 3 me: b",
                "cron.d/shop line 2 nobody: c",
                "cron.d/shop line 3 : d e",
                "crontab of me line 1 me: j",
                "crontab of other line 1 other: i",
            ]
        );
        assert_eq!(root.lines[3].starts_in(), Path::new("/"));
        assert_eq!(root.lines[6].starts_in(), Path::new("/o"));
        let ignored: Vec<_> = root.ignored.iter().map(|it| it.arguments.join(" ")).collect();
        assert_eq!(ignored, ["f"]);
        let unread: Vec<_> = root.unread.iter().map(|it| it.replace(&prefix, "")).collect();
        assert_eq!(unread, ["spool/unknown: no such user in /etc/passwd"]);

        let mine = of(7).read("backlog");
        assert_eq!(mine.lines.len(), 5);
        assert_eq!(mine.lines[2].user, None);
        assert_eq!(mine.lines[1].user.as_deref(), Some("root"));
        let unread: Vec<_> = mine.unread.into_iter().collect();
        assert_eq!(unread, ["crontabs of other users: only root can"]);
    }
}
