//! Standard error: the log, the progress bar and the summary, which do not write over each other. Nothing panics if it
//! cannot be written. Hidden characters are escaped, because messages quote texts of others.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use anyhow::Context;
use backlog_schedule::one_line;
use backlog_store::{chain, lock};
use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use log::{Level, LevelFilter};
use rustix::termios::tcgetwinsize;

pub fn width(output: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let size = output.is_terminal().then(|| tcgetwinsize(output).ok())?;
    let width = size.map(|size| usize::from(size.ws_col)).filter(|width| *width > 0);
    Some(width.unwrap_or(USUAL_WIDTH))
}

const LOG: &str = "RUST_LOG";
/// Below this width a progress bar shows counts only.
const NARROW: usize = 60;
const USUAL_WIDTH: usize = 80;

#[derive(Clone)]
pub struct Terminal {
    bars: MultiProgress,
    /// Whether standard error is a terminal. Cron mails every line.
    pub is_terminal: bool,
    /// In characters, if it is one that shows progress and summaries.
    pub width: Option<usize>,
    /// The name of the queue in work, if it has one.
    queue: Arc<Mutex<Option<String>>>,
    /// Whether one line is enough for errors with the same cause.
    pub folds_errors: bool,
}

impl Terminal {
    /// Sets up the log: warnings at a terminal, errors under cron or with `--quiet`, unless `-v` or `RUST_LOG` is given.
    pub fn new(verbose: u8, is_quiet: bool) -> Self {
        let width = width(&io::stderr());
        let is_terminal = width.is_some();
        let width = width.filter(|_| !is_quiet);
        let folds_errors = width.is_some() && verbose == 0 && std::env::var_os(LOG).is_none();
        let (bars, queue) = (MultiProgress::new(), Arc::default());
        let terminal = Self { bars, is_terminal, width, queue, folds_errors };
        let log = terminal.clone();
        let level = match verbose {
            0 if width.is_some() => LevelFilter::Warn,
            0 => LevelFilter::Error,
            1 => LevelFilter::Info,
            _ => LevelFilter::Trace,
        };
        env_logger::Builder::new()
            .filter_module(env!("CARGO_PKG_NAME"), level)
            .parse_default_env()
            .format(move |_, record| {
                // Libraries log what they send, headers and passwords included.
                if !record.target().starts_with(env!("CARGO_PKG_NAME")) {
                    return Ok(());
                }
                let level = match record.level() {
                    Level::Error => "",
                    Level::Warn => "warning: ",
                    Level::Info => "info: ",
                    Level::Debug | Level::Trace => "debug: ",
                };
                log.write(&format!("backlog: {}{level}{}", log.queue(), record.args()));
                Ok(())
            })
            .init();
        terminal
    }

    /// From now on each line names this queue, or none.
    pub fn name_queue(&self, queue: Option<&str>) {
        *lock(&self.queue) = queue.map(String::from);
    }

    /// `queue mails: `
    fn queue(&self) -> String {
        lock(&self.queue).as_ref().map_or_else(String::new, |queue| format!("queue {queue}: "))
    }

    pub fn say(&self, line: &str) {
        self.write(&format!("{}{line}", self.queue()));
    }

    /// Names the queue once, although the error may name it after the path of backlog.toml.
    pub fn say_error(&self, error: &anyhow::Error) {
        let queue = self.queue();
        let error = chain(error).replacen(&format!(": {queue}"), ": ", 1);
        self.write(&format!("backlog: {queue}{error}"));
    }

    /// Writes lines that need no escape.
    pub fn say_lines(&self, lines: &str) {
        let _ = self.bars.suspend(|| io::stderr().write_all(lines.as_bytes()));
    }

    /// Asks a question whose answer is yes only if it says so.
    pub fn confirm(&self, question: &str) -> anyhow::Result<bool> {
        let mut answer = String::new();
        let asked = self.bars.suspend(|| io::stderr().write_all(one_line(question).as_bytes()));
        asked.and_then(|()| io::stdin().read_line(&mut answer)).context("could not ask")?;
        Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
    }

    /// Asks for one of several choices, if somebody can answer, until the answer is legal.
    pub fn choose(&self, question: &str, choices: &[String]) -> anyhow::Result<Option<usize>> {
        if choices.is_empty() || !self.is_terminal || !io::stdin().is_terminal() {
            return Ok(None);
        }
        self.write(question);
        for (choice, number) in choices.iter().zip(1..) {
            self.write(&format!("  {number}) {choice}"));
        }
        loop {
            let mut answer = String::new();
            let ask = format!("1 to {}, or nothing to leave it open: ", choices.len());
            io::stderr().write_all(ask.as_bytes()).context("could not ask")?;
            if io::stdin().read_line(&mut answer).context("could not ask")? == 0 {
                return Ok(None);
            }
            match answer.trim().parse::<usize>() {
                _ if answer.trim().is_empty() => return Ok(None),
                Ok(number) if (1..=choices.len()).contains(&number) => return Ok(Some(number - 1)),
                _ => {}
            }
        }
    }

    /// Writes to standard error with the bars out of the way.
    fn write(&self, line: &str) {
        self.say_lines(&format!("{}\n", one_line(line)));
    }

    /// A progress bar, whose message is the number of failures; a hidden one if nobody is looking.
    pub fn progress(&self, total: u64) -> ProgressBar {
        let Some(width) = self.width else { return ProgressBar::hidden() };
        let counts = "{human_pos}/{human_len}, {msg} failed, {rate}";
        let template = match width < NARROW {
            true => counts.into(),
            false => format!("{{bar:16}} {counts}, {{eta}} left"),
        };
        // The template is a constant, so the default is never used.
        let style = ProgressStyle::with_template(&template);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let style = style.with_key("rate", |state: &ProgressState, text: &mut dyn fmt::Write| {
            let _ = write!(text, "{:.0}/s", state.per_sec());
        });
        self.bars.add(ProgressBar::new(total).with_style(style).with_message("0"))
    }
}
