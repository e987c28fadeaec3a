//! Columns in commands, where their values would be run.
//!
//! A record is written by whoever fills the table. In an argument of its own its value stays a
//! value; in the code that a shell is given, or in the place of a program, it is run. Whatever looks
//! like a shell, an interpreter or a program that runs another is looked at, wherever it stands.

mod runners;

use std::ffi::OsString;
use std::iter::{Peekable, once};
use std::path::Path;
use std::slice;

use anyhow::{Result, bail};

use self::runners::{Options, Runner, Takes, runner};
use super::exec::first_column;
use super::process::in_one_word;
use crate::record::cut_line;

const WAY_OUT: &str = "give it as an argument of its own, as in sh -c 'mail \"$1\"' sh {to}";

/// Fails if a value of a record would be run as a program or as code.
pub fn check(argv: &[OsString], is_column: &dyn Fn(&str) -> bool) -> Result<()> {
    let search = Search { is_column, name: "", options: Options::default(), is_run: true };
    let words: Vec<_> = argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    search.refuse(words.first(), |_, column, _| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        in_one_word(argv, &path).unwrap_or_else(|| {
            format!("the record's {column} would choose the program that is run; name the program")
        })
    })?;
    search.check(&words)
}

/// A search of the words behind a runner for injection.
#[derive(Clone, Copy)]
struct Search<'a> {
    is_column: &'a dyn Fn(&str) -> bool,
    name: &'a str,
    options: Options,
    /// Whether it is known to be run. Elsewhere it may be just a word, unless it is given code.
    is_run: bool,
}

type Words<'w> = Peekable<slice::Iter<'w, String>>;

const BEFORE_COMMANDS: [&str; 5] = ["-exec", "-execdir", "-ok", "-okdir", "--"];

impl Search<'_> {
    /// Looks for runners, each of which takes the words that are known to be no program.
    fn check(self, argv: &[String]) -> Result<()> {
        let (mut left, mut is_command) = (argv.iter().peekable(), true);
        while let Some(word) = left.next() {
            let before = argv.iter().rev().nth(left.len() + 1);
            let is_run = std::mem::take(&mut is_command)
                || before.is_some_and(|before| BEFORE_COMMANDS.contains(&before.as_str()));
            let Some((name, runner, options)) = runner(&program_name(word)) else { continue };
            let search = Self { name, options, is_run, ..self };
            match runner {
                Runner::Shell => search.shell(&mut left)?,
                Runner::Language | Runner::Python | Runner::Awk => {
                    search.language(runner, &mut left)?;
                }
                Runner::SwitchUser => search.switch_user(&mut left)?,
                Runner::Remote => search.remote(&mut left)?,
                Runner::Joined if is_run => search.refuse_code(left.clone())?,
                Runner::Wrapper(operands) if is_run => {
                    search.wrapper(operands, &mut left)?;
                    is_command = true;
                }
                Runner::Joined | Runner::Wrapper(_) => {}
            }
        }
        Ok(())
    }

    /// Takes what an option takes, and gives it if it is the next word; code is refused.
    fn option<'w>(
        self,
        word: &'w String,
        left: &mut Words<'w>,
    ) -> Result<(Takes, Option<&'w String>)> {
        let takes = self.options.takes(word);
        if takes.is_code {
            let next = left.peek().copied().filter(|_| takes.is_next);
            self.refuse_code(once(word).chain(next))?;
        }
        // Node may be told its code by another option.
        let is_taken = |next: &&String| takes.is_next && !(takes.is_code && next.starts_with('-'));
        Ok((takes, left.next_if(is_taken)))
    }

    /// Behind the options with `-c` there is code, `$0` and arguments; without it there is a script.
    fn shell(self, left: &mut Words) -> Result<()> {
        let (mut is_code, mut reads_input) = (false, false);
        while let Some(word) = left.next_if(|word| word.starts_with(['-', '+'])) {
            if word == "--" || word == "-" {
                break;
            }
            self.refuse_code([word])?;
            let values = match word.strip_prefix("--") {
                Some("command" | "init-command" | "rcfile" | "init-file") => 1,
                Some(_) => 0,
                None => {
                    is_code |= word.starts_with('-') && word.contains('c');
                    reads_input |= word.starts_with('-') && word.contains('s');
                    word.matches(['o', 'O']).count()
                }
            };
            self.refuse_code(left.by_ref().take(values))?;
        }
        if is_code {
            self.refuse_code(left.next())?;
            left.next();
        } else if self.is_run && !reads_input {
            self.refuse_script(left.peek().copied())?;
        }
        Ok(())
    }

    fn language(self, language: Runner, left: &mut Words) -> Result<()> {
        let (is_python, is_awk) = (language == Runner::Python, language == Runner::Awk);
        let mut is_told = false;
        while let Some(word) = left.next_if(|word| is_option(word)) {
            if word == "--" && is_told {
                return Ok(());
            } else if word == "--" {
                break;
            }
            self.refuse_code(Some(word).filter(|_| self.is_run))?;
            let (takes, value) = self.option(word, left)?;
            let is_file = is_awk && (takes.flag == 'f' || word.starts_with("--file"));
            is_told |= takes.is_code || is_file;
            // Awk's variables are values; what else is given here is a file with code.
            let is_value = is_awk && ['v', 'F'].contains(&takes.flag);
            self.refuse_code(value.filter(|_| self.is_run && !is_value))?;
            if is_python && (is_told || takes.flag == 'm') {
                return Ok(());
            }
        }
        let operand = left.peek().copied().filter(|_| self.is_run);
        let begins = |word: &&String| self.begins_with_column(word);
        match (is_awk, is_told) {
            (true, true) => Ok(()),
            (true, false) => self.refuse_code(operand),
            (false, false) => self.refuse_script(operand),
            (false, true) => self.refuse(operand.filter(begins), |name, column, _| {
                format!(
                    "{name} would take the record's {column} for an option, and run it as code, if \
                     it begins with a hyphen; write -- {column}"
                )
            }),
        }
    }

    fn switch_user(self, left: &mut Words) -> Result<()> {
        let (is_run, mut operands, mut is_code, mut is_command) = (self.is_run, 0, false, false);
        while let Some(word) = left.next() {
            if word == "--" {
                // The login shell's; the user has been named already, or is root.
                return match (is_command, is_code) {
                    (true, _) => self.refuse_program(left.peek().copied()),
                    (false, false) => self.shell(left),
                    // Behind it there is `$0`, as with a shell.
                    (false, true) => {
                        left.next();
                        Ok(())
                    }
                };
            } else if is_option(word) {
                self.refuse_code(Some(word).filter(|_| is_run))?;
                is_code |= self.option(word, left)?.0.is_code;
                is_command |= ["-u", "--user"].contains(&word.as_str());
            } else if is_command {
                self.refuse_program([word])?;
                // A `--` between the program and its arguments is runuser's own.
                let command = once(word).chain(left).filter(|word| *word != "--");
                return self.check(&command.cloned().collect::<Vec<_>>());
            } else if word != "-" {
                operands += 1;
                // The user; without code what follows is a script, or an option of the shell's.
                let is_script = is_run && (operands == 1 || !is_code);
                self.refuse_script(Some(word).filter(|_| is_script))?;
            }
        }
        Ok(())
    }

    /// What follows the host is code for a shell, as are some of the options that `-o` sets.
    fn remote(self, left: &mut Words) -> Result<()> {
        while let Some(word) = left.next() {
            if word == "--" {
                left.next();
                break;
            }
            if !word.starts_with('-') {
                let host = Some(word).filter(|it| self.is_run && self.begins_with_column(it));
                self.refuse(host, |name, column, _| {
                    format!(
                        "{name} would take the record's {column} for an option if it begins with a \
                         hyphen; write user@{column}"
                    )
                })?;
                break;
            }
            self.option(word, left)?;
        }
        self.refuse(left, |name, column, _| {
            format!(
                "{name} would have a shell run the record's {column} as code; leave it out: the \
                 record is on the standard input of the command"
            )
        })
    }

    /// The program stands behind so many operands.
    fn wrapper(self, most: usize, left: &mut Words) -> Result<()> {
        let mut operands = 0;
        while let Some(word) = left.peek().copied() {
            let is_variable = |(it, _): (&str, &str)| !it.is_empty() && !it.contains('{');
            let is_assignment = ["env", "sudo", "doas"].contains(&self.name)
                && word.split_once('=').is_some_and(is_variable);
            let is_operand = !is_option(word) && !is_assignment;
            if is_operand && operands == most {
                break;
            }
            left.next();
            operands += usize::from(is_operand);
            if word == "--" && operands == most {
                break;
            } else if is_option(word) {
                let is_split = word.starts_with("--s")
                    || word.trim_start_matches(['-', 'i', 'v', '0']).starts_with('S');
                if self.name == "env" && is_split {
                    return self.split(word, left);
                }
                self.option(word, left)?;
            }
        }
        self.refuse_program(left.peek().copied())
    }

    /// `env -S` cuts a word into words, which then stand in its place.
    fn split(self, option: &str, left: &mut Words) -> Result<()> {
        let attached = match option.split_once('S') {
            Some((_, text)) if !option.starts_with("--") => text,
            _ => option.split_once('=').map_or("", |(_, text)| text),
        };
        let text = left.next_if(|_| attached.is_empty()).map_or(attached, String::as_str);
        self.refuse_code([&text.to_string()])?;
        // What it takes for words a shell takes for as many at least.
        let words =
            shlex::split(text).unwrap_or_else(|| text.split(' ').map(String::from).collect());
        let command = once("env".to_string()).chain(words);
        self.check(&command.chain(left.cloned()).collect::<Vec<_>>())
    }

    fn refuse_code<'w>(self, words: impl IntoIterator<Item = &'w String>) -> Result<()> {
        self.refuse(words, |name, column, word| {
            let shown = cut_line(word);
            format!("{name} would run the record's {column} as code, in {shown:?}; {WAY_OUT}")
        })
    }

    /// A word that is a value would be any script, or an option.
    fn refuse_script<'w>(self, word: impl IntoIterator<Item = &'w String>) -> Result<()> {
        self.refuse(word, |name, column, _| {
            format!(
                "{name} would take the record's {column} for a script to run, or for an option; name \
                 the script, and write {column} behind it"
            )
        })
    }

    fn refuse_program<'w>(self, word: impl IntoIterator<Item = &'w String>) -> Result<()> {
        self.refuse(word, |name, column, _| {
            format!("the record's {column} would choose the program that {name} runs; name it")
        })
    }

    /// Fails if one of the words holds a column; `why` is told the runner, `{column}` and its word.
    fn refuse<'w>(
        self,
        words: impl IntoIterator<Item = &'w String>,
        why: impl Fn(&str, &str, &str) -> String,
    ) -> Result<()> {
        let column = |word| Some((first_column(word, self.is_column)?.0, word));
        let found = words.into_iter().map(String::as_str).find_map(column);
        found.map_or(Ok(()), |(column, word)| bail!(why(self.name, &format!("{{{column}}}"), word)))
    }

    fn begins_with_column(self, word: &str) -> bool {
        first_column(word, self.is_column).is_some_and(|(_, begins)| begins)
    }
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

/// `python` of `/usr/bin/python3.11-dbg`
fn program_name(word: &str) -> String {
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
