//! `backlog` hands the due records of a table to a handler and writes the outcomes to the table. Cron starts it.
//! docs/architecture.md has a map of the source.

#![cfg_attr(
    not(all(feature = "postgres", feature = "webhook")),
    allow(dead_code, unused_imports, reason = "unused without a feature")
)]
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests open only files that they made")
)]

mod adopt;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
mod cli;
mod commands;
mod crontab;
mod engine;
mod exit;
mod handlers;
mod options;
mod ping;
mod report;
mod simulation;
mod terminal;

use std::ffi::OsString;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::process::ExitCode;
use std::time::Instant as Monotonic;

use anyhow::Result;
use backlog_schedule::Instant;
use backlog_store::{Clock, system_error};

use cli::{Cli, CliCommand, Typed};
use commands::{Console, LastPings, Signals};
use exit::Exit;
use options::Environment;
use report::Screen;
use terminal::Terminal;

/// Runs a command line, which begins with the name of the program.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    if let Some(shell) = std::env::var_os(cli::COMPLETION_VARIABLE) {
        return complete(&shell.to_string_lossy(), args);
    }
    let args: Vec<_> = args.into_iter().collect();
    if let Some(text) = cli::help_document(&args) {
        let written = Stdout(io::stdout().lock()).write_all(text.as_bytes());
        return finish(written.map(|()| Exit::Done).map_err(Into::into), &Terminal::new(0, false));
    }
    let has_limits = cli::has_limits(&args);
    let typed = match Typed::parse(args) {
        Ok(typed) => typed,
        Err(error) if has_limits && error.use_stderr() => return report_unknown(&error),
        Err(error) => error.exit(),
    };
    let Cli { global, command } = &typed.cli;
    let is_quiet = matches!(command, CliCommand::Process(args) if args.quiet);
    let terminal = Terminal::new(global.verbose, is_quiet);
    finish(dispatch(typed, &terminal), &terminal)
}

fn finish(result: Result<Exit>, terminal: &Terminal) -> ExitCode {
    match result {
        Ok(exit) => exit.into(),
        Err(error) if is_broken_pipe(&error) => Exit::Done.into(),
        Err(error) => {
            terminal.say_error(&error);
            Exit::from(&error).into()
        }
    }
}

/// Reports a wrong command line to a monitoring system, which would take clap's exit code for a critical figure.
fn report_unknown(error: &clap::Error) -> ExitCode {
    let text = error.to_string();
    let why = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let line = report::state_line(Exit::Unknown, why);
    let _ = io::stdout().write_all(line.as_bytes());
    Exit::Unknown.into()
}

/// Prints completions. The shell would show an error in the middle of the command line, so there is none.
fn complete(shell: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let completions = cli::completions(shell, args.into_iter().collect());
    let written = completions.and_then(|text| io::stdout().write_all(&text));
    if written.is_ok() { Exit::Done } else { Exit::Failed }.into()
}

fn dispatch(typed: Typed, terminal: &Terminal) -> Result<Exit> {
    #[expect(clippy::disallowed_methods, reason = "the one place where the clocks are read")]
    let (wall, monotonic) = (|| Instant(chrono::Utc::now().timestamp()), Monotonic::now);
    let clock = Clock { fixed: typed.cli.global.now, wall, monotonic };
    let mut out = BufWriter::new(Stdout(io::stdout().lock()));
    let screen = Screen { width: terminal::width(&io::stdout()), now: clock.now() };
    let (last_pings, signals) = (LastPings::default(), Signals::default());
    let mut console = Console { clock, terminal, screen, out: &mut out, last_pings, signals };
    let exit = commands::run(typed, Environment::current(), &mut console)?;
    out.flush()?;
    Ok(exit)
}

/// Standard output with errors that name it, because a full buffer is written in the middle of any command.
struct Stdout(StdoutLock<'static>);

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|error| stdout_error(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(|error| stdout_error(&error))
    }
}

fn stdout_error(error: &io::Error) -> io::Error {
    let why = system_error::reason(error);
    io::Error::new(error.kind(), format!("could not write to standard output: {why}"))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
