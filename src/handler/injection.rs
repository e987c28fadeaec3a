//! Columns in commands, where their values would be run.
//!
//! A record is written by whoever fills the table. In an argument of its own its value stays a
//! value; in the code that a shell is given, or in the place of a program, it is run.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::{Result, bail};

use super::template::first_column;
use crate::record::{cut, one_line};

/// How an interpreter is told its code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Syntax {
    /// `-c` is a flag among others; the first operand is the code, and what follows are arguments.
    Shell,
    /// The word behind the flag is the code, and what follows are arguments.
    Language,
    /// The same; the user's name may stand before the flag.
    SwitchUser,
    /// The words behind the host are code for a shell there.
    Remote,
    /// The word behind `-S` is cut into words.
    Split,
}

const INTERPRETERS: [(&str, Syntax); 22] = [
    ("sh", Syntax::Shell),
    ("ash", Syntax::Shell),
    ("bash", Syntax::Shell),
    ("dash", Syntax::Shell),
    ("rbash", Syntax::Shell),
    ("zsh", Syntax::Shell),
    ("ksh", Syntax::Shell),
    ("mksh", Syntax::Shell),
    ("fish", Syntax::Shell),
    // What it is told to be stands behind it, and is found there.
    ("busybox", Syntax::Shell),
    ("python", Syntax::Language),
    ("pypy", Syntax::Language),
    ("perl", Syntax::Language),
    ("ruby", Syntax::Language),
    ("node", Syntax::Language),
    ("nodejs", Syntax::Language),
    ("php", Syntax::Language),
    ("lua", Syntax::Language),
    ("su", Syntax::SwitchUser),
    ("runuser", Syntax::SwitchUser),
    ("ssh", Syntax::Remote),
    ("env", Syntax::Split),
];

/// Programs that run the one behind them.
const WRAPPERS: [&str; 8] = ["env", "sudo", "doas", "nice", "nohup", "setsid", "time", "xargs"];

/// Long options that take code.
const CODE_OPTIONS: [&str; 6] =
    ["--eval", "--print", "--run", "--command", "--session-command", "--split-string"];

/// ssh's options that take a value, which may be the next word.
const SSH_VALUES: &str = "BbcDEeFIiJLlmOoPpQRSWw";

/// What to write instead.
const WAY_OUT: &str = "write it as an argument of its own: sh -c 'mail \"$1\"' sh {to}";

/// Fails if a value of a record would be run as a program or as code.
pub fn check(argv: &[OsString], is_column: &dyn Fn(&str) -> bool) -> Result<()> {
    let holds = |word: &OsString| first_column(word, is_column).map(|(name, _)| name.to_string());
    let begins = |word: &OsString| {
        first_column(word, is_column)
            .filter(|(_, begins)| *begins)
            .map(|(name, _)| name.to_string())
    };
    if let Some(column) = argv.first().and_then(holds) {
        bail!("the record's {{{column}}} would choose the program that is run; name the program");
    }
    for (at, word) in argv.iter().enumerate() {
        let (name, rest) = (program_name(word), &argv[at + 1..]);
        if WRAPPERS.contains(&name.as_str())
            && let Some(column) = rest.first().and_then(begins)
        {
            bail!("the record's {{{column}}} would choose the program that {name} runs; name it");
        }
        let found = INTERPRETERS.iter().find(|(interpreter, _)| *interpreter == name);
        let Some((interpreter, syntax)) = found else { continue };
        if *syntax == Syntax::Remote {
            check_remote(rest, &holds, &begins)?;
            continue;
        }
        for code in code(*syntax, rest) {
            if let Some(column) = holds(code) {
                let shown = cut(one_line(&code.to_string_lossy()));
                bail!(
                    "{interpreter} would run the record's {{{column}}} as code, in {shown:?}; \
                     {WAY_OUT}"
                );
            }
        }
    }
    Ok(())
}

/// The host must not look like an option, and what follows is code for a shell, as are some of the
/// options that `-o` sets.
fn check_remote(
    words: &[OsString],
    holds: &dyn Fn(&OsString) -> Option<String>,
    begins: &dyn Fn(&OsString) -> Option<String>,
) -> Result<()> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        let Some(flags) = text.strip_prefix('-') else {
            if let Some(column) = begins(word) {
                bail!(
                    "ssh would take the record's {{{column}}} for an option if it begins with a \
                     hyphen; write user@{{{column}}}"
                );
            }
            break;
        };
        let value = flags.find(|flag| SSH_VALUES.contains(flag));
        let next = value.filter(|at| at + 1 == flags.len()).and_then(|_| words.next());
        let is_setting = value.is_some_and(|at| flags[at..].starts_with('o'));
        if is_setting && let Some(column) = [Some(word), next].into_iter().flatten().find_map(holds)
        {
            bail!("ssh would be set by the record's {{{column}}}; leave it out of -o");
        }
    }
    match words.find_map(holds) {
        Some(column) => bail!(
            "ssh would have a shell run the record's {{{column}}} as code; leave it out: the record \
             is on the standard input of the command"
        ),
        None => Ok(()),
    }
}

/// The words that an interpreter takes for code. Where it is not clear whether a word is the value
/// of an option, more words are looked at than it takes.
fn code(syntax: Syntax, words: &[OsString]) -> Vec<&OsString> {
    let mut code = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        let text = word.to_string_lossy();
        let is_module = syntax == Syntax::Language && text == "-m";
        if is_module || !is_option(word) {
            match syntax {
                Syntax::SwitchUser => continue,
                // A script of its own, whose options are its own.
                Syntax::Shell | Syntax::Language | Syntax::Remote | Syntax::Split => break,
            }
        }
        let long = text.split_once('=').map_or(&*text, |(long, _)| long);
        let is_cluster = is_cluster_of_code(&text, syntax);
        if is_cluster || CODE_OPTIONS.contains(&long) {
            // The code may be a part of the same word.
            code.push(word);
            if is_cluster || long == text {
                let operand = match syntax {
                    Syntax::Shell => at + first_operand(&words[at..], takes_value(&text, syntax)),
                    Syntax::Language | Syntax::SwitchUser | Syntax::Remote | Syntax::Split => at,
                };
                let operands = words.get(at..=operand).unwrap_or(&words[at.min(words.len())..]);
                code.extend(operands);
                at = if operands.last().is_some_and(is_option) { at } else { operand + 1 };
            }
        } else if takes_value(&text, syntax) && words.get(at).is_some_and(|it| !is_option(it)) {
            at += 1;
        }
    }
    code
}

fn is_option(word: &OsString) -> bool {
    let word = word.to_string_lossy();
    word.starts_with(['-', '+']) && word != "-"
}

/// A word of short options one of which takes code, or makes the first operand code.
fn is_cluster_of_code(word: &str, syntax: Syntax) -> bool {
    let flags = match syntax {
        Syntax::Split => "S",
        Syntax::Shell | Syntax::Language | Syntax::SwitchUser | Syntax::Remote => "cepr",
    };
    let Some(cluster) = word.strip_prefix('-').filter(|it| !it.starts_with('-')) else {
        return false;
    };
    // Behind the first character that is no flag there is a value.
    cluster.chars().take_while(char::is_ascii_alphabetic).any(|flag| flags.contains(flag))
}

/// Whether the next word may be the value of this option, and no operand.
fn takes_value(word: &str, syntax: Syntax) -> bool {
    let values = match syntax {
        Syntax::Shell => "oO",
        Syntax::Language => "XWICdFlKE",
        Syntax::SwitchUser => "sgGw",
        Syntax::Split => "uC",
        Syntax::Remote => SSH_VALUES,
    };
    let is_long = word.starts_with("--");
    if is_long {
        word.len() > 2 && !word.contains('=')
    } else {
        word.ends_with(|it| values.contains(it))
    }
}

/// How many words stand before a shell's first operand, the value of an option before them not
/// counted.
fn first_operand(words: &[OsString], has_value: bool) -> usize {
    let mut at = usize::from(has_value);
    while let Some(word) = words.get(at) {
        let text = word.to_string_lossy();
        at += 1;
        match &*text {
            "--" | "-" => return at,
            option if is_option(word) => at += usize::from(takes_value(option, Syntax::Shell)),
            _ => return at - 1,
        }
    }
    at
}

/// `python` of `/usr/bin/python3.11`
fn program_name(word: &OsStr) -> String {
    let name = Path::new(word).file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> Option<String> {
        let words = shlex::split(line).unwrap();
        let argv: Vec<_> = words.into_iter().map(OsString::from).collect();
        let is_column = |name: &str| ["id", "to"].contains(&name.to_ascii_lowercase().as_str());
        check(&argv, &is_column).err().map(|error| error.to_string())
    }

    #[test]
    fn values_that_would_be_run_are_refused() {
        for line in [
            "{to}",
            "./{to}.sh",
            "env {to}",
            "sudo {to}",
            "xargs {to} a",
            "sh -c 'mail {to}'",
            "sh -c 'mail {ID}'",
            "/bin/sh -ec 'mail {id}'",
            "sh -c -e 'mail {to}'",
            "sh -c -- 'mail {to}'",
            "bash -o pipefail -c 'mail {to}'",
            "bash -c -o pipefail 'mail {to}'",
            "bash -co pipefail 'mail {to}'",
            "bash -eo pipefail -c 'mail {to}'",
            "bash --norc -c 'mail {to}'",
            "bash --rcfile x -c 'mail {to}'",
            "bash +e -lc 'mail {to}'",
            "bash5.2 -c {to}",
            "busybox sh -c 'mail {to}'",
            "env A=b -- sh -c 'mail {to}'",
            "sudo -u www timeout -k 5 60 nice -n 5 dash -c 'mail {to}'",
            "xargs -I% zsh -c 'mail {to}'",
            "python3 -c 'print({to})'",
            "python3.11 -X dev -W ignore -c 'print({to})'",
            "python3 -Wignore -c 'print({to})'",
            "python3 -c'print({to})'",
            "perl -MJSON::PP -MFile::Spec -e 'print {to}'",
            "perl -lane 'print {to}'",
            "perl -e 1 -e 'print {to}'",
            "ruby -r json -e 'p {to}'",
            "node -e 'f({to})'",
            "node --eval 'f({to})'",
            "node --eval='f({to})'",
            "node --no-warnings -p 'f({to})'",
            "php -r 'f({to});'",
            "su alice -c 'mail {to}'",
            "su - alice -lc 'mail {to}'",
            "su --command='mail {to}' alice",
            "env -S 'mail {to}'",
            "env '-Smail {to}'",
            "env -i --split-string 'mail {to}'",
            "ssh host mail {to}",
            "ssh -p 22 host -- 'mail {to}'",
            "ssh -oX=foo host 'mail {to}'",
            "ssh -vp 22 host 'mail {to}'",
            "ssh {to} mail",
            "ssh -o 'ProxyCommand=nc {to} 22' host",
            "timeout 5 ssh host echo '\"{id}\"'",
        ] {
            assert!(refused(line).is_some(), "{line}");
        }
    }

    #[test]
    fn values_that_stay_values_are_not() {
        for line in [
            "mail {to}",
            "./sync --to={to} {id}",
            "sh -c 'mail \"$1\"' sh {to}",
            "sh -c 'echo ${id} ${to}'",
            "sh -c 'awk \"{ print }\"' sh {to}",
            "sh ./script.sh -c {to}",
            "sh -e ./script.sh {to}",
            "python3 sync.py -c {to} --eval {id}",
            "python3 -m mail -c {to}",
            "python3 -c 'import sys' {to}",
            "perl -pe s/a/b/ {to}",
            "node app.js {id}",
            "su alice -c 'mail \"$1\"' -- sh {to}",
            "env MAIL={to} ./sync",
            "ssh host mail",
            "ssh -i key -p 22 user@{to} mail",
            "curl -fsS https://example.com/{id} -e {to}",
            "timeout 5 ./sync -c {to}",
        ] {
            assert_eq!(refused(line), None, "{line}");
        }
    }

    #[test]
    fn the_message_shows_the_way_out() {
        assert_eq!(
            refused("sh -c 'mail {to}'").unwrap(),
            "sh would run the record's {to} as code, in \"mail {to}\"; write it as an argument of its \
             own: sh -c 'mail \"$1\"' sh {to}"
        );
    }
}
