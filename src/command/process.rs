//! `backlog process`: one pass.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use indicatif::ProgressBar;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::handlers::{Common, handlers, require, series};
use super::line::Line;
use super::open_for;
use crate::clock::Clock;
use crate::config::{PassSettings, Queue};
use crate::engine::{self, Attempt, Observer, Pass, Stopped, Summary, Wake};
use crate::exit::Exit;
use crate::report;
use crate::secure_file;
use crate::selection::Reached;
use crate::store::{Access, LineState, StateDir};
use crate::terminal::Terminal;

pub fn run(
    queue: &Queue,
    settings: &PassSettings,
    clock: Clock,
    terminal: &Terminal,
) -> Result<Exit> {
    let database = open_for(queue, Some(&settings.schedule), Access::ReadWrite)?;
    database.table().require_success()?;
    if let Some(handler) = &settings.handler {
        require(handler, settings.on_archive.as_deref(), database.table())?;
    }
    let locked = Line::locked(queue, &settings.schedule, &*database, settings.wait)?;
    let Some((line, _lock)) = locked else {
        log::warn!("a pass of this line is running; --wait waits for its end");
        return Ok(Exit::Done);
    };
    let now = clock.now();
    let mut look = line.look(now, settings.limits.drain);
    look.rules.may_give_up = settings.gives_up().is_some();
    look.rules.series =
        settings.handler.as_ref().and_then(|handler| series(handler, database.table()));
    let watcher = Watcher {
        joblog: settings.joblog.as_deref().map(Joblog::open).transpose()?,
        state: line.state.clone(),
        line: line.name.clone(),
        line_state: LineState {
            began_at: Some(now),
            began_behind: look.moment.span.map(|span| span.after),
            reached: line.last.reached.clone(),
        },
        is_saved: false,
        terminal: terminal.clone(),
        bar: ProgressBar::hidden(),
    };
    let token = token()?;
    let common = Common::new(queue, settings, database.table(), &token);
    let store = database.into_store(&line.state, clock)?;
    let began = clock.monotonic();
    let pass = Pass {
        store,
        look,
        limits: settings.limits.clone(),
        clock,
        plan: line.plan(settings, now),
        token: token.clone(),
        observer: Box::new(watcher),
    };
    // It goes when the pass has ended, however that was.
    let mut _running = None;
    let summary = engine::run(pass, |wake| {
        heed_signals(wake)?;
        _running = line.state.begin_pass(&token)?;
        handlers(settings, &common, clock)
    })?;
    if terminal.attended {
        let elapsed = clock.monotonic().saturating_duration_since(began);
        terminal.say(&report::summary(&summary, elapsed));
    }
    exit(&summary, settings.strict)
}

fn heed_signals(wake: Wake) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("could not listen for signals")?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            wake.signal(signal);
        }
    });
    Ok(())
}

/// What marks the handlers of this pass, and of no other.
fn token() -> Result<String> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .context("could not get random bytes")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn exit(summary: &Summary, strict: bool) -> Result<Exit> {
    match &summary.stopped {
        Some(Stopped::Signal(signal)) => return Ok(Exit::Signal(*signal)),
        Some(Stopped::Unable(error) | Stopped::Refused(error) | Stopped::Failures(error)) => {
            return Err(anyhow!("{error}; the pass stops here"));
        }
        Some(Stopped::Runtime) if summary.attempts() == 0 && summary.interrupted > 0 => {
            return Err(anyhow!(
                "no handler ended within --max-runtime and --grace, so nothing was done; give them \
                 more time"
            ));
        }
        Some(Stopped::Runtime) | None => {}
    }
    let Summary { archived, expired, unable, lost, faults, .. } = summary;
    let lost = archived + expired + unable + lost + faults > 0;
    let failed = lost || strict && summary.failed + summary.snoozed > 0;
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// Keeps the joblog, the cursor and the progress bar up to date.
struct Watcher {
    joblog: Option<Joblog>,
    state: StateDir,
    line: String,
    /// What the next pass of the line will find.
    line_state: LineState,
    /// Whether that has been written.
    is_saved: bool,
    terminal: Terminal,
    bar: ProgressBar,
}

impl Watcher {
    fn save(&mut self) {
        self.state.save_line_state(&self.line, &self.line_state);
        self.is_saved = true;
    }
}

impl Observer for Watcher {
    fn selected(&mut self, due: usize) {
        self.bar = self.terminal.progress(due);
    }

    fn attempted(&mut self, attempt: &Attempt) {
        self.bar.inc(1);
        if let Some(joblog) = &mut self.joblog {
            joblog.append(attempt);
        }
    }

    fn reached(&mut self, reached: &Reached) {
        if self.line_state.reached.as_ref() != Some(reached) {
            self.line_state.reached = Some(reached.clone());
            self.save();
        }
    }

    fn finished(&mut self) -> Result<()> {
        self.bar.finish_and_clear();
        if !self.is_saved {
            self.save();
        }
        self.joblog.take().map_or(Ok(()), |joblog| joblog.result)
    }
}

/// A new joblog is not for everybody to read: errors may quote what the records hold.
const JOBLOG_MODE: u32 = 0o640;

/// The history of attempts: one JSON line each, appended in one write, so that several passes
/// may share a file.
struct Joblog {
    file: File,
    result: Result<()>,
}

impl Joblog {
    fn open(path: &Path) -> Result<Self> {
        let file = secure_file::append(path, JOBLOG_MODE)
            .with_context(|| format!("could not open the joblog {}", path.display()))?;
        Ok(Self { file, result: Ok(()) })
    }

    /// A line that cannot be written does not end the pass: its outcome is in the table.
    fn append(&mut self, attempt: &Attempt) {
        let written = self.file.write_all(report::joblog_line(attempt).as_bytes());
        if self.result.is_ok() {
            self.result = written.context("the records are settled, but the joblog is incomplete");
        }
    }
}
