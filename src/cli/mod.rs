//! The command line: the subcommands, and what clap is told of them.

mod args;
mod completion;
mod errors;
mod examples;
mod help;
mod typed;

use std::ffi::OsString;
use std::path::PathBuf;

use backlog_schedule::Instant;
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand};

use crate::options::{HandlerOptions, PassOptions, QueueOptions, ScheduleOptions};

pub use args::{
    Add, Adopt, Check, Completions, Crontab, Edit, Explain, Failures, Init, List, Man, Pause,
    Process, Shell, Simulate, Status, Systemd,
};
pub use completion::{REQUEST, answer, registration};
pub use examples::{examples, exits};
pub use help::example;
pub use typed::Typed;

/// Work off a table of pending records from cron
///
/// Each due record goes to your own command or webhook. Those that fail are tried again, less and less
/// often.
///
/// What an option says may also stand in backlog.toml (max_runtime = "4m30s") or in the environment
/// (BACKLOG_MAX_RUNTIME=4m30s): what is typed, --set included, counts first, then the environment, then the file.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, propagate_version = true)]
#[command(max_term_width = help::WIDTH, disable_help_flag = true, disable_version_flag = true)]
#[command(help_template = "{about-with-newline}{usage-heading} {usage}\n\n{all-args}{after-help}")]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Args)]
#[command(next_help_heading = "Table")]
pub struct Global {
    /// The SQLite file, or postgres://user@host/database
    ///
    /// What the URL of a server leaves out is in libpq's variables (PGHOST, PGUSER, PGSSLMODE ...), and
    /// the password, best, in ~/.pgpass.
    #[arg(long, global = true, value_name = "FILE|URL")]
    pub db: Option<PathBuf>,

    /// The file that describes the queues
    ///
    /// Without it, the first of the default files that exists.
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub config: Option<PathBuf>,

    /// A queue of backlog.toml
    ///
    /// A file with one queue needs none. Without a file it is only a name, for handlers and for
    /// MAX_<NAME>_RETRY_ATTEMPTS.
    #[arg(long, global = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub queue: Option<String>,

    /// The directory for claims, cursors and the record of passes
    #[arg(long, global = true, value_name = "DIR", hide_short_help = true)]
    pub state_dir: Option<PathBuf>,

    /// As root: work on files that other users can change
    ///
    /// Whoever can change the database, the state directory, backlog.toml, the joblog, the CA file or a
    /// directory above them may then act as root. What root makes there gets the database's owner. In
    /// the environment it is BACKLOG_TRUST_OWNER=1, which handlers do not inherit.
    #[arg(long, global = true, hide_short_help = true)]
    pub trust_owner: bool,

    /// Pretend that it is another time
    ///
    /// 2026-11-21T03:40:00Z, or @ and epoch seconds.
    #[arg(long, global = true, value_name = "INSTANT", hide_short_help = true)]
    pub now: Option<Instant>,

    /// Log each record; -vv logs everything
    ///
    /// RUST_LOG overrides it.
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = None, display_order = 997)]
    pub verbose: u8,

    /// Print help; --help says more
    #[arg(short, long, global = true, action = ArgAction::Help, help_heading = None, display_order = 998)]
    pub help: Option<bool>,

    /// Print the version
    #[arg(short = 'V', long, global = true, action = ArgAction::Version, help_heading = None)]
    #[arg(hide_short_help = true, display_order = 999)]
    pub version: Option<bool>,
}

// clap is told of the options of a subcommand only if it is named, by `Command::augment`: what starts
// every minute starts in no time.
#[derive(Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// Propose a backlog.toml for a table that you have
    ///
    /// Shows the columns with few values and proposes what usual names and values leave no doubt about.
    /// Everything else is a question: at a terminal it is asked, otherwise it stays open as a ? that no
    /// pass accepts. Nothing is written to the database.
    Adopt(Box<Adopt>),
    /// Create the table
    Init(Box<Init>),
    /// Add records
    Add(Box<Add>),
    /// Hand the due records to a command or a webhook
    Process(Box<Process>),
    /// Begin no attempts until `resume`
    ///
    /// Of a queue that is named, or else of the table, all lines are paused. A running pass begins nothing
    /// more, and its handlers go on to their ends.
    Pause(Box<Pause>),
    /// End a pause
    Resume,
    /// Count the records, and say what is due
    Status(Box<Status>),
    /// List the records
    List(Box<List>),
    /// Group failed records by cause: how many, and since when
    Failures(Box<Failures>),
    /// Say why records were or were not tried, and when they will be
    Explain(Box<Explain>),
    /// Take pending records out of the way, and keep them
    Archive(Box<Edit>),
    /// Bring archived records back as new ones
    Restore(Box<Edit>),
    /// Make failed or archived records due now
    ///
    /// Their count of failures is kept.
    Retry(Box<Edit>),
    /// Look whether table, handler and crontab are as they must be
    ///
    /// Nothing is written, except by --rehearse. The lines are those of `crontab -l`, of /etc/crontab and
    /// /etc/cron.d, of systemd timers, and for root of all users. They are read as cron and the shell read
    /// them.
    Check(Box<Check>),
    /// Print the crontab lines for a queue
    Crontab(Box<Crontab>),
    /// Draw the load that policies make, before a crontab is changed
    Simulate(Box<Simulate>),
    /// Print what completes command lines in a shell
    Completions(Completions),
    /// Write the manual pages below a directory
    #[command(hide = true)]
    Man(Man),
    /// End the handlers of a killed pass (started by `process`)
    #[command(hide = true)]
    Watchdog,
}

/// Tells clap of a group of options.
type Augment = fn(clap::Command) -> clap::Command;

impl Command {
    /// Whether it has the options of a queue.
    pub fn is_about_a_queue(&self) -> bool {
        !matches!(self, Self::Watchdog | Self::Completions(_) | Self::Man(_) | Self::Adopt(_))
    }

    /// Tells clap of all options of a subcommand, in the order of its help: those of the groups
    /// that it has, its own, and those of the table.
    fn augment(command: clap::Command) -> clap::Command {
        let about = command.get_about().cloned().unwrap_or_default();
        let long_about = command.get_long_about().cloned();
        let (schedule, handler) = (ScheduleOptions::augment_args, HandlerOptions::augment_args);
        let own: &[Augment] = match command.get_name() {
            "init" => &[Init::augment_args],
            "add" => &[Add::augment_args],
            "process" => &[schedule, PassOptions::augment_args, Process::augment_args, handler],
            "pause" => &[Pause::augment_args],
            "resume" => &[],
            "status" => &[Status::augment_args, schedule],
            "list" => &[List::augment_args, schedule],
            "failures" => &[Failures::augment_args],
            "explain" => &[Explain::augment_args, schedule],
            "archive" | "restore" | "retry" => &[Edit::augment_args],
            "check" => &[Check::augment_args, schedule, handler],
            "crontab" => &[Crontab::augment_args, schedule, handler],
            "simulate" => &[Simulate::augment_args],
            "adopt" => &[Adopt::augment_args],
            "completions" => &[Completions::augment_args],
            "man" => &[Man::augment_args],
            _ => return command,
        };
        // Here is all that was put off. A group of options has set its own text.
        let is_about_a_queue = !["adopt", "completions", "man"].contains(&command.get_name());
        let of_queue: Option<Augment> = is_about_a_queue.then_some(QueueOptions::augment_args);
        let command = command.defer(std::convert::identity);
        let command =
            own.iter().chain(&of_queue).fold(command, |command, augment| augment(command));
        command.about(about.clone()).long_about(long_about.unwrap_or(about))
    }
}

/// The command line as clap has to know it, as far as it names subcommands.
fn command(argv: &[OsString]) -> clap::Command {
    let is_named = |command: &clap::Command| argv.iter().any(|arg| arg == command.get_name());
    let is_help = |arg: &OsString| {
        let arg = arg.to_string_lossy();
        let letters = arg.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        ["--help", "help"].contains(&&*arg) || letters.is_some_and(|it| it.contains('h'))
    };
    // Without a command it is shown as well.
    let words = argv.iter().skip(1).take_while(|arg| *arg != "--");
    let shows_help = argv.len() < 2 || words.clone().any(is_help);
    let augment = |command| if is_named(&command) { Command::augment(command) } else { command };
    let command = Cli::command().mut_subcommands(augment);
    if shows_help { with_help(command) } else { command }
}

/// Whether words are those of a `status` that holds figures to limits, as far as they can be read.
pub fn has_limits(argv: &[OsString]) -> bool {
    let words = argv.iter().map(|word| word.to_string_lossy());
    let mut words = words.take_while(|word| word != "--");
    let is_limit = |word: &str| ["--warn-if", "--fail-if"].iter().any(|it| word.starts_with(it));
    words.any(|word| is_limit(&word))
}

/// The command line with all its subcommands, their options and their help.
pub fn whole_command() -> clap::Command {
    with_help(Cli::command().mut_subcommands(Command::augment))
}

fn with_help(command: clap::Command) -> clap::Command {
    help::with_help(command).mut_subcommands(help::with_help)
}
