//! Standard error: the log, the progress bar and the summary share it without overwriting each other. Write errors
//! are ignored. Control characters are escaped, because messages quote text from elsewhere.

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
    Some(width.unwrap_or(DEFAULT_WIDTH))
}

const LOG: &str = "RUST_LOG";
/// Below this width a progress bar shows counts only.
const NARROW: usize = 60;
const DEFAULT_WIDTH: usize = 80;

#[derive(Clone)]
pub struct Terminal {
    bars: MultiProgress,
    /// False under cron, which mails every line.
    pub is_terminal: bool,
    /// Width of a terminal that shows progress and summaries.
    pub width: Option<usize>,
    /// Name of the queue in work, as a prefix of each line.
    queue: Arc<Mutex<Option<String>>>,
    /// Errors with the same cause are logged once.
    pub folds_errors: bool,
}

impl Terminal {
    /// Starts the log: warnings at a terminal, errors under cron or with `--quiet`; `-v` and `RUST_LOG` override that.
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
                // Libraries log all that they send, passwords included.
                if !record.target().starts_with(env!("CARGO_PKG_NAME")) {
                    return Ok(());
                }
                let level = match record.level() {
                    Level::Error => "",
                    Level::Warn => "warning: ",
                    Level::Info => "info: ",
                    Level::Debug | Level::Trace => "debug: ",
                };
                log.write(&format!("backlog: {}{level}{}", log.prefix(), record.args()));
                Ok(())
            })
            .init();
        terminal
    }

    pub fn name_queue(&self, queue: Option<&str>) {
        *lock(&self.queue) = queue.map(String::from);
    }

    fn prefix(&self) -> String {
        lock(&self.queue).as_ref().map_or_else(String::new, |queue| format!("queue {queue}: "))
    }

    pub fn say(&self, line: &str) {
        self.write(&format!("{}{line}", self.prefix()));
    }

    /// Writes an error. It may already name the queue after the path of backlog.toml, which is removed.
    pub fn say_error(&self, error: &anyhow::Error) {
        let prefix = self.prefix();
        let error = chain(error).replacen(&format!(": {prefix}"), ": ", 1);
        self.write(&format!("backlog: {prefix}{error}"));
    }

    /// Writes lines of printable text above the progress bar.
    pub fn say_lines(&self, lines: &str) {
        let _ = self.bars.suspend(|| io::stderr().write_all(lines.as_bytes()));
    }

    /// Asks a question. Every answer but `y` and `yes` is no.
    pub fn confirm(&self, question: &str) -> anyhow::Result<bool> {
        let mut answer = String::new();
        let asked = self.bars.suspend(|| io::stderr().write_all(one_line(question).as_bytes()));
        asked.and_then(|()| io::stdin().read_line(&mut answer)).context("could not ask")?;
        Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
    }

    /// Asks a person at the terminal for one of several choices, until the answer is valid. Without an answer, `None`.
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
            let prompt = format!("1 to {}, or nothing to leave it open: ", choices.len());
            io::stderr().write_all(prompt.as_bytes()).context("could not ask")?;
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

    fn write(&self, line: &str) {
        self.say_lines(&format!("{}\n", one_line(line)));
    }

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
