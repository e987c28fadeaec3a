//! Columns in commands, where their values would be run.
//!
//! A record is written by whoever fills the table. In an argument of its own its value stays a
//! value; in the code that a shell is given, or in the place of a program, it is run. Whatever looks
//! like a shell, an interpreter or a program that runs another is looked at, wherever it stands.

mod runners;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::{Result, bail};

use self::runners::{Language, Runner, Takes, Wrapper, runner, takes_next};
use super::argv_template::first_column;
use super::unstartable::in_one_word;
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
        let search = std::env::var_os("PATH").unwrap_or_default();
        if let Some(why) = in_one_word(argv, &search) {
            bail!("{why}");
        }
        bail!("the record's {{{column}}} would choose the program that is run; name the program");
    }
    command.check(argv)
}

/// A command that is searched for injection.
struct Command<'a> {
    is_column: &'a dyn Fn(&str) -> bool,
}

/// Words behind which there is a command.
const BEFORE_COMMANDS: [&str; 5] = ["-exec", "-execdir", "-ok", "-okdir", "--"];

impl Command<'_> {
    fn check(&self, argv: &[OsString]) -> Result<()> {
        let (mut at, mut command_at) = (0, 0);
        while let Some(word) = argv.get(at) {
            let (name, rest) = (program_name(word), &argv[at + 1..]);
            let before = at.checked_sub(1).map(|before| argv[before].to_string_lossy());
            // Elsewhere the name of a runner may just be a word, unless it is given code.
            let is_run = at == command_at
                || before.is_some_and(|before| BEFORE_COMMANDS.contains(&&*before));
            at += 1;
            let Some((name, runner)) = runner(&name) else { continue };
            // What is known to be no program is not looked at again.
            at += match runner {
                Runner::Shell => self.shell(name, rest, is_run)?,
                Runner::Language(language) => self.language(name, language, rest, is_run)?,
                Runner::SwitchUser => self.switch_user(name, rest, is_run)?,
                Runner::Remote => self.remote(name, rest, is_run)?,
                Runner::Joined if is_run => {
                    self.refuse_code(name, rest)?;
                    0
                }
                Runner::Wrapper(wrapper) if is_run => {
                    let before = self.wrapper(name, wrapper, rest)?;
                    command_at = at + before;
                    before
                }
                Runner::Joined | Runner::Wrapper(_) => 0,
            };
        }
        Ok(())
    }

    /// Options first. With `-c` among them the first operand is code, the next `$0`, and all others
    /// are arguments; else the first operand is a script.
    fn shell(&self, name: &str, words: &[OsString], is_run: bool) -> Result<usize> {
        let (mut at, mut is_code, mut reads_input) = (0, false, false);
        while let Some(word) = words.get(at) {
            let text = word.to_string_lossy();
            if text == "--" || text == "-" {
                at += 1;
                break;
            }
            if !text.starts_with(['-', '+']) {
                break;
            }
            self.refuse_code(name, [word])?;
            at += 1;
            if text.starts_with("--") {
                let takes_code = ["--command", "--init-command"].contains(&&*text);
                if takes_code || ["--rcfile", "--init-file"].contains(&&*text) {
                    self.refuse_code(name, words.get(at))?;
                    at += 1;
                }
                continue;
            }
            is_code |= text.starts_with('-') && text.contains('c');
            reads_input |= text.starts_with('-') && text.contains('s');
            let values = text.chars().filter(|flag| matches!(flag, 'o' | 'O')).count();
            self.refuse_code(name, words.iter().skip(at).take(values))?;
            at += values;
        }
        let Some(operand) = words.get(at) else { return Ok(at) };
        if is_code {
            self.refuse_code(name, [operand])?;
            return Ok((at + 2).min(words.len()));
        }
        if is_run && !reads_input {
            self.refuse_script(name, operand)?;
        }
        Ok(at)
    }

    fn language(
        &self,
        name: &str,
        language: Language,
        words: &[OsString],
        is_run: bool,
    ) -> Result<usize> {
        let (mut at, mut is_told, mut has_file) = (0, false, false);
        while let Some(word) = words.get(at) {
            let text = word.to_string_lossy();
            if !text.starts_with('-') || text == "-" {
                break;
            }
            at += 1;
            if text == "--" {
                if is_told && language.goes_on {
                    return Ok(at);
                }
                break;
            }
            let takes = language.takes(&text);
            if is_run || takes == Takes::CodeHere {
                self.refuse_code(name, [word])?;
            }
            let next = words.get(at);
            match takes {
                Takes::Nothing => {}
                Takes::CodeHere => is_told = true,
                Takes::Code => {
                    is_told = true;
                    self.refuse_code(name, next)?;
                    // Node may be told it by another option.
                    let is_option = next.is_some_and(|it| it.to_string_lossy().starts_with('-'));
                    at += usize::from(!is_option);
                }
                Takes::Value | Takes::File => {
                    has_file |= takes == Takes::File;
                    // Awk's variables are values; what else is given here is a file with code.
                    let is_value = language.file.is_some() && text.ends_with(['v', 'F']);
                    if is_run && !is_value {
                        self.refuse_code(name, next)?;
                    }
                    at += usize::from(
                        takes == Takes::Value || text.ends_with('f') || text == "--file",
                    );
                }
                Takes::Module => {
                    let is_next = text.ends_with('m');
                    self.refuse_code(name, next.filter(|_| is_next && is_run))?;
                    return Ok((at + usize::from(is_next)).min(words.len()));
                }
            }
            if is_told && !language.goes_on && language.file.is_none() {
                return Ok(at.min(words.len()));
            }
        }
        let Some(operand) = words.get(at) else { return Ok(at.min(words.len())) };
        match (language.file, is_told) {
            (Some(_), false) if !has_file && is_run => self.refuse_code(name, [operand])?,
            (Some(_), _) => {}
            (None, _) if !is_run => {}
            (None, false) => self.refuse_script(name, operand)?,
            (None, true) => {
                if let Some(column) = self.column_before(operand) {
                    bail!(
                        "{name} would take the record's {{{column}}} for an option, and run it as \
                         code, if it begins with a hyphen; write -- {{{column}}}"
                    );
                }
            }
        }
        Ok(at)
    }

    fn switch_user(&self, name: &str, words: &[OsString], is_run: bool) -> Result<usize> {
        let (mut at, mut operands, mut is_code, mut is_command) = (0, 0, false, false);
        while let Some(word) = words.get(at) {
            let text = word.to_string_lossy();
            at += 1;
            match text.strip_prefix('-').filter(|flags| !flags.is_empty()) {
                // The login shell's; the user has been named already, or is root.
                Some("-") if is_command => break,
                // Behind it there is `$0`, as with a shell.
                Some("-") if is_code => return Ok((at + 1).min(words.len())),
                Some("-") => return Ok(at + self.shell(name, &words[at..], is_run)?),
                Some(flags) => {
                    let is_long = flags.starts_with('-');
                    let is_code_option = ["-c", "-se"].iter().any(|it| flags.starts_with(it));
                    let takes_code = if is_long {
                        is_code_option && !flags.contains('=')
                    } else {
                        flags.ends_with('c')
                    };
                    let has_code = is_long && is_code_option || !is_long && flags.contains('c');
                    is_code |= has_code;
                    if is_run || has_code {
                        self.refuse_code(name, [word])?;
                    }
                    is_command |= ["u", "-user"].contains(&flags);
                    let values = ["-shell", "-group", "-user", "-whitelist-environment"];
                    let takes_value = if is_long {
                        values.contains(&flags)
                    } else {
                        flags.ends_with(['s', 'g', 'G', 'w', 'u'])
                    };
                    if takes_code {
                        self.refuse_code(name, words.get(at))?;
                    }
                    at += usize::from(takes_code || takes_value);
                }
                None if is_command => {
                    // A `--` between the program and its arguments is runuser's own.
                    let command = words[at - 1..].iter().filter(|word| *word != "--");
                    self.refuse_program(name, word)?;
                    self.check(&command.cloned().collect::<Vec<_>>())?;
                    return Ok(words.len());
                }
                None if text == "-" => {}
                None => {
                    operands += 1;
                    // The user; without code what follows is a script, or an option of the shell's.
                    if is_run && (operands == 1 || !is_code) {
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
    fn remote(&self, name: &str, words: &[OsString], is_run: bool) -> Result<usize> {
        let mut left = words.iter();
        while let Some(word) = left.next() {
            let text = word.to_string_lossy();
            if text == "--" {
                left.next();
                break;
            }
            let Some(flags) = text.strip_prefix('-') else {
                if let Some(column) = self.column_before(word).filter(|_| is_run) {
                    bail!(
                        "{name} would take the record's {{{column}}} for an option if it begins with \
                         a hyphen; write user@{{{column}}}"
                    );
                }
                break;
            };
            let value = flags.find(|flag| SSH_VALUES.contains(flag));
            let next = value.filter(|at| at + 1 == flags.len()).and_then(|_| left.next());
            if value.is_some_and(|at| flags[at..].starts_with('o')) {
                self.refuse_code(name, [word].into_iter().chain(next))?;
            }
        }
        if let Some(column) = left.find_map(|word| self.column_in(word)) {
            bail!(
                "{name} would have a shell run the record's {{{column}}} as code; leave it out: the \
                 record is on the standard input of the command"
            );
        }
        Ok(words.len())
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
                let is_split = flags.trim_start_matches(['i', 'v', '0']).starts_with('S')
                    || flags.starts_with("-s");
                if name == "env" && is_split {
                    return self.split(&text, &words[at..]);
                }
                let is_code = wrapper.has_code
                    && match flags.strip_prefix('-') {
                        Some(long) => long.starts_with('c') && !long.starts_with("conflict"),
                        None => flags.contains('c'),
                    };
                let takes_code = is_code && (flags.ends_with('c') || !flags.contains('='));
                if is_code {
                    self.refuse_code(name, [word].into_iter().chain(next))?;
                }
                let value = flags.find(|flag| wrapper.values.contains(flag));
                let takes_value = if flags.starts_with('-') {
                    takes_next(&text)
                } else {
                    value.is_some_and(|value| value + 1 == flags.len())
                };
                at += usize::from(takes_value || takes_code && flags.ends_with('c'));
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
        self.refuse_code("env", [&OsString::from(&text)])?;
        // What it takes for words a shell takes for as many at least.
        let words =
            shlex::split(&text).unwrap_or_else(|| text.split(' ').map(String::from).collect());
        let argv: Vec<_> =
            ["env".to_string()].into_iter().chain(words).map(OsString::from).collect();
        self.check(&[&argv, rest].concat())?;
        Ok(rest.len())
    }

    fn refuse_code<'w>(
        &self,
        name: &str,
        words: impl IntoIterator<Item = &'w OsString>,
    ) -> Result<()> {
        for word in words {
            if let Some(column) = self.column_in(word) {
                let shown = cut_line(&word.to_string_lossy());
                bail!(
                    "{name} would run the record's {{{column}}} as code, in {shown:?}; {WAY_OUT}"
                );
            }
        }
        Ok(())
    }

    /// A word that is a value would be any script, or an option.
    fn refuse_script(&self, name: &str, word: &OsString) -> Result<()> {
        if let Some(column) = self.column_in(word) {
            bail!(
                "{name} would take the record's {{{column}}} for a script to run, or for an option; \
                 name the script, and write {{{column}}} behind it"
            );
        }
        Ok(())
    }

    fn refuse_program(&self, name: &str, word: &OsString) -> Result<()> {
        if let Some(column) = self.column_in(word) {
            bail!("the record's {{{column}}} would choose the program that {name} runs; name it");
        }
        Ok(())
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
