//! Completions for shells. The shell runs the program for each completion, so no script becomes outdated.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use backlog_schedule::policy_names;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{EnvCompleter, Shells};

use super::whole_command;
use crate::options::{Environment, Sources};

pub const COMPLETION_VARIABLE: &str = "_BACKLOG_COMPLETE";
const PROGRAM: &str = "backlog";

pub fn registration(shell: &str) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    completer(shell)?.write_registration(
        COMPLETION_VARIABLE,
        PROGRAM,
        PROGRAM,
        PROGRAM,
        &mut text,
    )?;
    Ok(text)
}

/// The candidates for a command line, whose words follow `--` in `argv`.
pub fn completions(shell: &str, argv: Vec<OsString>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let words: Vec<_> = argv.into_iter().skip_while(|word| word != "--").skip(1).collect();
    let config = config(&words);
    let with_values = |arg| with_values(arg, config.as_deref());
    let command = whole_command().mut_args(with_values);
    let mut command = command.mut_subcommands(|command| command.mut_args(with_values));
    command.build();
    let directory = std::env::current_dir().ok();
    completer(shell)?.write_complete(&mut command, words, directory.as_deref(), &mut text)?;
    Ok(text)
}

fn completer(shell: &str) -> io::Result<&'static dyn EnvCompleter> {
    const SHELLS: Shells<'_> = Shells::builtins();
    let found = SHELLS.0.iter().copied().find(|completer| completer.is(shell));
    found.ok_or_else(|| {
        io::Error::other(format!("{COMPLETION_VARIABLE}: {shell:?} is not a supported shell"))
    })
}

fn config(words: &[OsString]) -> Option<PathBuf> {
    let at = words.iter().position(|word| word == "--config")?;
    words.get(at + 1).map(PathBuf::from)
}

/// Adds the values that clap does not know.
fn with_values(arg: clap::Arg, config: Option<&Path>) -> clap::Arg {
    let config = config.map(Path::to_path_buf);
    match arg.get_long() {
        Some("queue") => arg.add(ArgValueCandidates::new(move || queues(config.as_deref()))),
        Some("order") => arg.add(ArgValueCandidates::new(|| candidates(["newest", "oldest"]))),
        Some("policy") => arg.add(ArgValueCandidates::new(|| candidates(policy_names()))),
        _ => arg,
    }
}

fn queues(config: Option<&Path>) -> Vec<CompletionCandidate> {
    let sources = Sources::find(config, Environment::current());
    let queues = sources.ok().and_then(|sources| sources.queues().ok());
    candidates(queues.into_iter().flatten())
}

fn candidates(words: impl IntoIterator<Item: Into<OsString>>) -> Vec<CompletionCandidate> {
    words.into_iter().map(CompletionCandidate::new).collect()
}
