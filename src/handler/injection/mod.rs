//! Columns in commands, where their values would be run.
//!
//! A record is written by whoever fills the table. In an argument of its own its value stays a
//! value; in the code that a shell is given, or in the place of a program, it is run. Whatever looks
//! like a shell, an interpreter or a program that runs another is looked at, wherever it stands.

mod runners;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::{Error, Result, anyhow};

use self::runners::{LONG_VALUES, Language, Runner, Wrapper, runner};
use super::argv_template::first_column;
use crate::record::cut_line;

/// ssh's options that take a value, which may be the next word.
const SSH_VALUES: &str = "BbcDEeFIiJLlmOoPpQRSWw";

/// What to write instead.
const WAY_OUT: &str = "give it as an argument of its own, as in sh -c 'mail \"$1\"' sh {to}";

/// Fails if a value of a record would be run as a program or as code.
pub fn check(argv: &[OsString], is_column: &dyn Fn(&str) -> bool) -> Result<()> {
    let command = Command { is_column };
    let Some((program, _)) = argv.split_first() else { return Ok(()) };
    if let Some(column) = command.column_in(program) {
        return Err(anyhow!(
            "the record's {{{column}}} would choose the program that is run; name the program"
        ));
    }
    command.check(argv)
}

/// What is looked for in a command.
struct Command<'a> {
    is_column: &'a dyn Fn(&str) -> bool,
}

impl Command<'_> {
    fn check(&self, argv: &[OsString]) -> Result<()> {
        let mut at = 0;
        while let Some(word) = argv.get(at) {
            let (name, rest) = (program_name(word), &argv[at + 1..]);
            at += 1;
            if let Some((name, runner)) = runner(&name) {
                // What is known to be no program is not looked at again.
                at += match runner {
                    Runner::Shell => self.shell(name, rest)?,
                    Runner::Language(language) => self.language(name, language, rest)?,
                    Runner::SwitchUser => self.switch_user(name, rest)?,
                    Runner::Remote => self.remote(name, rest)?,
                    Runner::Joined => self.joined(name, rest)?,
                    Runner::Wrapper(wrapper) => self.wrapper(name, wrapper, rest)?,
                };
            }
        }
        Ok(())
    }

    /// Options first. With `-c` among them the first operand is code, the next `$0`, and all others
    /// are arguments; else the first operand is a script.
    fn shell(&self, name: &str, words: &[OsString]) -> Result<usize> {
        let (mut at, mut is_code) = (0, false);
        while let Some(word) = words.get(at) {
            let text = word.to_string_lossy();
            if text == "--" || text == "-" {
                at += 1;
                break;
            }
            if !text.starts_with(['-', '+']) {
                break;
            }
            self.refuse_code(name, word)?;
            at += 1;
            if text.starts_with("--") {
                let takes_code = ["--command", "--init-command"].contains(&&*text);
                if takes_code || ["--rcfile", "--init-file"].contains(&&*text) {
                    words.get(at).map_or(Ok(()), |code| self.refuse_code(name, code))?;
                    at += 1;
                }
                continue;
            }
            is_code |= text.starts_with('-') && text.contains('c');
            let values = text.chars().filter(|flag| matches!(flag, 'o' | 'O')).count();
            words.iter().skip(at).take(values).try_for_each(|it| self.refuse_code(name, it))?;
            at += values;
        }
        let Some(operand) = words.get(at) else { return Ok(at) };
        if is_code {
            self.refuse_code(name, operand)?;
            return Ok((at + 2).min(words.len()));
        }
        self.refuse_script(name, operand)?;
        Ok(at)
    }

    fn language(&self, name: &str, language: Language, words: &[OsString]) -> Result<usize> {
        let (mut at, mut is_told, mut has_file) = (0, false, false);
        while let Some(word) = words.get(at) {
            let text = word.to_string_lossy();
            let Some(flags) = text.strip_prefix('-').filter(|flags| !flags.is_empty()) else {
                break;
            };
            at += 1;
            if text == "--" {
                if is_told && language.goes_on {
                    return Ok(at);
                }
                break;
            }
            self.refuse_code(name, word)?;
            let kind = match text.strip_prefix("--") {
                Some(_) => {
                    (language.long_code.contains(&&*text), language.long_values.contains(&&*text))
                }
                None => {
                    let of = |set: &str| flags.find(|flag| set.contains(flag));
                    // The first one that takes something takes the rest of the word, if there is one.
                    let (code, value) = (of(language.code), of(language.values));
                    let first = [code, value].into_iter().flatten().min();
                    has_file |= language.file.is_some_and(|file| flags.starts_with(file));
                    is_told |= code.is_some() && code == first;
                    let takes_next = first.is_some_and(|first| first + 1 == flags.len());
                    (takes_next && code == first, takes_next && value == first)
                }
            };
            match kind {
                (true, _) => {
                    is_told = true;
                    words.get(at).map_or(Ok(()), |code| self.refuse_code(name, code))?;
                    at += 1;
                }
                (_, true) => {
                    // Awk's variables are values; what others are given here is files with code.
                    if language.file.is_none() {
                        words.get(at).map_or(Ok(()), |value| self.refuse_code(name, value))?;
                    }
                    at += 1;
                }
                _ => {}
            }
            let is_module = text == "-m" && !language.goes_on;
            if is_module || is_told && !language.goes_on && language.file.is_none() {
                return Ok(at.min(words.len()));
            }
        }
        let Some(operand) = words.get(at) else { return Ok(at.min(words.len())) };
        match (language.file, is_told) {
            (Some(_), false) if !has_file => self.refuse_code(name, operand)?,
            (Some(_), _) => {}
            (None, false) => self.refuse_script(name, operand)?,
            (None, true) => {
                if let Some(column) = self.column_before(operand) {
                    return Err(anyhow!(
                        "{name} would take the record's {{{column}}} for an option, and run it as \
                         code, if it begins with a hyphen; write -- {{{column}}}"
                    ));
                }
            }
        }
        Ok(at)
    }

    fn switch_user(&self, name: &str, words: &[OsString]) -> Result<usize> {
        let (mut at, mut operands, mut is_code, mut is_command) = (0, 0, false, false);
        while let Some(word) = words.get(at) {
            let text = word.to_string_lossy();
            at += 1;
            match text.strip_prefix('-').filter(|flags| !flags.is_empty()) {
                // The login shell's; the user has been named already, or is root.
                Some("-") if is_command => break,
                // Behind it there is `$0`, as with a shell.
                Some("-") if is_code => return Ok((at + 1).min(words.len())),
                Some("-") => return Ok(at + self.shell(name, &words[at..])?),
                Some(flags) => {
                    self.refuse_code(name, word)?;
                    let is_long = flags.starts_with('-');
                    let takes_code = if is_long {
                        ["-command", "-session-command"].contains(&flags)
                    } else {
                        flags.ends_with('c')
                    };
                    is_code |= takes_code || flags.contains("command=");
                    is_command |= ["u", "-user"].contains(&flags);
                    let values = ["-shell", "-group", "-user", "-whitelist-environment"];
                    let takes_value = if is_long {
                        values.contains(&flags)
                    } else {
                        flags.ends_with(['s', 'g', 'G', 'w', 'u'])
                    };
                    if takes_code {
                        words.get(at).map_or(Ok(()), |code| self.refuse_code(name, code))?;
                    }
                    at += usize::from(takes_code || takes_value);
                }
                None if is_command => {
                    self.refuse_program(name, word)?;
                    return Ok(at - 1);
                }
                None if text == "-" => {}
                None => {
                    operands += 1;
                    // The user; without code what follows is a script, or an option of the shell's.
                    if operands == 1 || !is_code {
                        self.refuse_script(name, word)?;
                    }
                }
            }
        }
        if is_command && let Some(program) = words.get(at) {
            self.refuse_program(name, program)?;
        }
        Ok(at.min(words.len()))
    }

    /// The host must not look like an option, and what follows is code for a shell, as are some of
    /// the options that `-o` sets.
    fn remote(&self, name: &str, words: &[OsString]) -> Result<usize> {
        let mut left = words.iter();
        while let Some(word) = left.next() {
            let text = word.to_string_lossy();
            let Some(flags) = text.strip_prefix('-') else {
                if let Some(column) = self.column_before(word) {
                    return Err(anyhow!(
                        "{name} would take the record's {{{column}}} for an option if it begins with \
                         a hyphen; write user@{{{column}}}"
                    ));
                }
                break;
            };
            let value = flags.find(|flag| SSH_VALUES.contains(flag));
            let next = value.filter(|at| at + 1 == flags.len()).and_then(|_| left.next());
            if value.is_some_and(|at| flags[at..].starts_with('o')) {
                [Some(word), next]
                    .into_iter()
                    .flatten()
                    .try_for_each(|it| self.refuse_code(name, it))?;
            }
        }
        match left.find_map(|word| self.column_in(word)) {
            Some(column) => Err(anyhow!(
                "{name} would have a shell run the record's {{{column}}} as code; leave it out: the \
                 record is on the standard input of the command"
            )),
            None => Ok(words.len()),
        }
    }

    fn joined(&self, name: &str, words: &[OsString]) -> Result<usize> {
        words.iter().try_for_each(|word| self.refuse_code(name, word)).map(|()| 0)
    }

    fn wrapper(&self, name: &str, wrapper: Wrapper, words: &[OsString]) -> Result<usize> {
        let (mut at, mut operands) = (0, 0);
        while let Some(word) = words.get(at) {
            let text = word.to_string_lossy();
            at += 1;
            if text == "--" && operands == wrapper.operands {
                break;
            }
            if let Some(flags) = text.strip_prefix('-').filter(|flags| !flags.is_empty()) {
                let next = words.get(at);
                let is_split =
                    name == "env" && flags.trim_start_matches(['i', 'v', '0']).starts_with('S');
                if is_split || name == "env" && flags.starts_with("-split-string") {
                    return self.split(&text, &words[at..]);
                }
                let takes_code = wrapper.has_code && (flags.ends_with('c') || flags == "-command");
                if takes_code || wrapper.has_code && flags.starts_with("-command=") {
                    [Some(word), next]
                        .into_iter()
                        .flatten()
                        .try_for_each(|it| self.refuse_code(name, it))?;
                }
                let value = flags.find(|flag| wrapper.values.contains(flag));
                let takes_value = if flags.starts_with('-') {
                    LONG_VALUES.contains(&&*text)
                } else {
                    value.is_some_and(|value| value + 1 == flags.len())
                };
                at += usize::from(takes_code || takes_value);
                continue;
            }
            let is_assignment =
                text.find('=').is_some_and(|at| at > 0 && !text[..at].contains('{'));
            if ["env", "sudo", "doas"].contains(&name) && is_assignment {
                continue;
            }
            if operands == wrapper.operands {
                at -= 1;
                break;
            }
            operands += 1;
        }
        if let Some(program) = words.get(at) {
            self.refuse_program(name, program)?;
        }
        Ok(at.min(words.len()))
    }

    /// `env -S` cuts a word into words, which then stand in its place.
    fn split(&self, option: &str, rest: &[OsString]) -> Result<usize> {
        let attached = match option.split_once('S') {
            Some((_, text)) if !option.starts_with("--") => text,
            _ => option.split_once('=').map_or("", |(_, text)| text),
        };
        let (text, rest) = match rest.split_first() {
            Some((next, rest)) if attached.is_empty() => {
                (next.to_string_lossy().into_owned(), rest)
            }
            _ => (attached.to_string(), rest),
        };
        self.refuse_code("env", &OsString::from(&text))?;
        // What it takes for words a shell takes for as many at least.
        let words =
            shlex::split(&text).unwrap_or_else(|| text.split(' ').map(String::from).collect());
        let argv: Vec<_> =
            ["env".to_string()].into_iter().chain(words).map(OsString::from).collect();
        self.check(&[&argv, rest].concat())?;
        Ok(rest.len())
    }

    fn refuse_code(&self, name: &str, word: &OsString) -> Result<()> {
        let refused = |column: String| {
            let shown = cut_line(&word.to_string_lossy());
            anyhow!("{name} would run the record's {{{column}}} as code, in {shown:?}; {WAY_OUT}")
        };
        self.column_in(word).map(refused).map_or(Ok(()), Err)
    }

    /// A word that is a value would be any script, or an option.
    fn refuse_script(&self, name: &str, word: &OsString) -> Result<()> {
        let refused = |column: String| -> Error {
            anyhow!(
                "{name} would take the record's {{{column}}} for a script to run, or for an option; \
                 name the script, and write {{{column}}} behind it"
            )
        };
        self.column_before(word).map(refused).map_or(Ok(()), Err)
    }

    fn refuse_program(&self, name: &str, word: &OsString) -> Result<()> {
        let refused = |column: String| -> Error {
            anyhow!("the record's {{{column}}} would choose the program that {name} runs; name it")
        };
        self.column_before(word).map(refused).map_or(Ok(()), Err)
    }

    fn column_in(&self, word: &OsStr) -> Option<String> {
        first_column(word, self.is_column).map(|(column, _)| column.into())
    }

    /// The column that a word begins with.
    fn column_before(&self, word: &OsStr) -> Option<String> {
        let found = first_column(word, self.is_column);
        found.filter(|(_, begins)| *begins).map(|(column, _)| column.into())
    }
}

/// `python` of `/usr/bin/python3.11-dbg`
fn program_name(word: &OsStr) -> String {
    let name = Path::new(word).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (base, build) = name.split_once('-').unwrap_or((&name, ""));
    let is_version = |c: char| c.is_ascii_digit() || c == '.';
    let is_build = ["", "static", "dbg"].contains(&build)
        || build.starts_with(is_version)
        || build.contains("linux");
    let plain = base.trim_end_matches(['m', 'd']).trim_end_matches(is_version);
    let plain = if base.ends_with(is_version) || base.contains(is_version) { plain } else { base };
    if is_build && plain.chars().all(|c| c.is_ascii_alphabetic()) { plain.into() } else { name }
}

#[cfg(test)]
mod tests;
