//! Completions for shells. The shell runs this program for each, so they are those of this version.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use backlog_schedule::policy_names;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{EnvCompleter, Shells};

use super::whole_command;
use crate::options::{Environment, Sources};

/// The variable by which the shell asks for completions.
pub const REQUEST: &str = "_BACKLOG_COMPLETE";
const PROGRAM: &str = "backlog";

/// The script that a shell reads to complete the command lines of this program.
pub fn registration(shell: &str) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    of(shell)?.write_registration(REQUEST, PROGRAM, PROGRAM, PROGRAM, &mut text)?;
    Ok(text)
}

/// The candidates that a shell asks for: the words of its command line follow `--`.
pub fn answer(shell: &str, argv: Vec<OsString>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let words: Vec<_> = argv.into_iter().skip_while(|word| word != "--").skip(1).collect();
    let config = config(&words);
    let completed = |arg| completed(arg, config.as_deref());
    let of_all = whole_command().mut_args(completed);
    let mut command = of_all.mut_subcommands(|command| command.mut_args(completed));
    command.build();
    let directory = std::env::current_dir().ok();
    of(shell)?.write_complete(&mut command, words, directory.as_deref(), &mut text)?;
    Ok(text)
}

fn of(shell: &str) -> io::Result<&'static dyn EnvCompleter> {
    const SHELLS: Shells<'_> = Shells::builtins();
    let found = SHELLS.0.iter().copied().find(|completer| completer.is(shell));
    found.ok_or_else(|| io::Error::other(format!("{REQUEST}: {shell:?} is not a supported shell")))
}

/// The file of `--config FILE` among the words.
fn config(words: &[OsString]) -> Option<PathBuf> {
    let at = words.iter().position(|word| word == "--config")?;
    words.get(at + 1).map(PathBuf::from)
}

fn completed(arg: clap::Arg, config: Option<&Path>) -> clap::Arg {
    let config = config.map(Path::to_path_buf);
    match arg.get_long() {
        Some("queue") => arg.add(ArgValueCandidates::new(move || queues(config.as_deref()))),
        Some("order") => arg.add(ArgValueCandidates::new(|| candidates(["newest", "oldest"]))),
        Some("policy") => arg.add(ArgValueCandidates::new(|| candidates(policy_names()))),
        _ => arg,
    }
}

/// The queues of the backlog.toml that a command would read here, if there is one.
fn queues(config: Option<&Path>) -> Vec<CompletionCandidate> {
    let sources = Sources::find(config, Environment::own());
    let queues = sources.ok().and_then(|sources| sources.queues().ok());
    candidates(queues.into_iter().flatten())
}

fn candidates(words: impl IntoIterator<Item: Into<OsString>>) -> Vec<CompletionCandidate> {
    words.into_iter().map(CompletionCandidate::new).collect()
}
