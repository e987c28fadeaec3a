//! The command line: the subcommands and their options, built for clap.

mod args;
mod completion;
mod errors;
mod help;
mod key_args;
mod man;
#[cfg(test)]
mod reference;
mod typed;

use std::ffi::OsString;
use std::path::PathBuf;

use args::TableArgs;
use backlog_schedule::Instant;
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand};
use key_args::{
    args_of, database_arg, global_args, handler_arg, takes_database, takes_handler, uses_queue,
};

pub use args::{
    AddArgs, AdoptArgs, CheckArgs, CrontabArgs, EditArgs, FailuresArgs, IdsArgs, InitArgs,
    ListArgs, PauseArgs, ProcessArgs, PruneArgs, ShowArgs, SimulateArgs, StatusArgs, Systemd,
};
pub use completion::{COMPLETION_VARIABLE, completions, registration};
pub use help::help_document;
pub use man::pages;
pub use typed::Typed;

/// Work through a table of pending records under cron
///
/// Each due record goes to your own command or webhook. Records that fail are tried again, less and less
/// often.
///
/// Most options can also be set in backlog.toml (max_runtime = "4m30s") or in the environment
/// (BACKLOG_MAX_RUNTIME=4m30s). The command line, including --set, overrides the environment, and the
/// environment overrides backlog.toml.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, propagate_version = true)]
#[command(max_term_width = help::WIDTH, disable_help_flag = true, disable_version_flag = true)]
#[command(help_template = "{about-with-newline}{usage-heading} {usage}\n\n{all-args}{after-help}")]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalArgs,

    #[command(subcommand)]
    pub command: CliCommand,
}

#[derive(Args)]
#[command(next_help_heading = "Table")]
pub struct GlobalArgs {
    /// File that describes the queues
    ///
    /// Without it, the first default file that exists is read.
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub config: Option<PathBuf>,

    /// Name of a queue in backlog.toml
    ///
    /// Not needed if the file has only one queue. Without a file, the name is only used for handlers and
    /// for MAX_<NAME>_RETRY_ATTEMPTS.
    #[arg(long, global = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub queue: Option<String>,

    /// As root, accept files that other users can change
    ///
    /// Users who can change the database, the state directory, backlog.toml, the joblog, the CA file or a
    /// directory above them can then act as root. Files that root creates there get the owner of the
    /// database. Handlers do not inherit the variable, BACKLOG_TRUST_OWNER=1.
    #[arg(long, global = true, hide_short_help = true)]
    pub trust_owner: bool,

    /// Use this time instead of the current time
    ///
    /// INSTANT is 2026-11-21T03:40:00Z, or @ and the seconds since 1970.
    #[arg(long, global = true, value_name = "INSTANT", hide_short_help = true)]
    pub now: Option<Instant>,

    /// Log each record; -vv logs everything
    ///
    /// RUST_LOG overrides this.
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = None, display_order = 997)]
    pub verbose: u8,

    /// Print help; --help has the details
    #[arg(short, long, global = true, action = ArgAction::Help, help_heading = None, display_order = 998)]
    pub help: Option<bool>,

    /// Print the version
    #[arg(short = 'V', long, global = true, action = ArgAction::Version, help_heading = None)]
    #[arg(hide_short_help = true, display_order = 999)]
    pub version: Option<bool>,
}

// Only the options of the named subcommand are built (`defer`), because cron starts the program every minute.
#[derive(Subcommand)]
#[command(defer = true)]
pub enum CliCommand {
    /// Propose a backlog.toml for an existing table
    ///
    /// Lists the columns with few values, and maps columns with usual names and values. Everything else is a
    /// question: at a terminal you are asked, otherwise the file contains a ?, and no command accepts the file
    /// until you replace it with the answer. Nothing is written to the database.
    Adopt(Box<AdoptArgs>),
    /// Create the table
    Init(Box<InitArgs>),
    /// Add records
    Add(Box<AddArgs>),
    /// Hand the due records to a command or a webhook
    Process(Box<ProcessArgs>),
    /// Suspend new attempts until `resume`
    ///
    /// Pauses all crontab lines of the named queue, or of the table if no queue is named. A running pass
    /// starts no more handlers, and lets running handlers finish.
    Pause(Box<PauseArgs>),
    /// End a pause
    Resume,
    /// Count the records and show what is due
    Status(Box<StatusArgs>),
    /// List the records
    List(Box<ListArgs>),
    /// Group failed records by cause, with counts and dates
    Failures(Box<FailuresArgs>),
    /// Print records with all their columns
    ///
    /// Text and numbers are printed as they are, JSON is indented, and bytes are hexadecimal.
    Show(Box<ShowArgs>),
    /// Explain when records are tried, and why
    ///
    /// Shows why each record was or was not tried, and its next attempts.
    Explain(Box<IdsArgs>),
    /// Stop handlers that hang
    ///
    /// The pass that claimed the record sends its handler SIGTERM, and SIGKILL after --grace. The attempt does not
    /// count, and the pass continues. It checks for requests once a handler has run for 10 seconds. A co-process
    /// is restarted, and the response of a webhook is no longer awaited.
    Stop(Box<IdsArgs>),
    /// Stop trying pending records, and keep them
    Archive(Box<EditArgs>),
    /// Make archived records NEW again, without failures
    Restore(Box<EditArgs>),
    /// Make failed or archived records due now
    ///
    /// The number of failures is kept.
    Retry(Box<EditArgs>),
    /// Delete finished records that are old enough
    ///
    /// Deletes SUCCESS and ARCHIVED records, at most 1,000 per transaction. Pending records are never deleted.
    Prune(Box<PruneArgs>),
    /// Check the table, the handler and the crontab
    ///
    /// Reads your crontab lines from `crontab -l`, /etc/crontab and /etc/cron.d, as cron and the shell read
    /// them. Nothing is written, except with --rehearse.
    Check(Box<CheckArgs>),
    /// Print the crontab lines for a queue
    Crontab(Box<CrontabArgs>),
    /// Show the load of policies before you use them
    Simulate(Box<SimulateArgs>),
    /// Print a completion script for a shell
    Completions {
        /// Name of the shell
        #[arg(value_parser = ["bash", "zsh", "fish"])]
        shell: String,
    },
    /// Write the manual pages to a directory
    #[command(hide = true)]
    Man {
        /// Directory, such as /usr/local/share/man
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Stop the handlers of a killed pass (started by `process`)
    #[command(hide = true)]
    Watchdog,
}

/// Adds the keys of a subcommand as options. clap itself adds the arguments of its variant.
fn augment(command: clap::Command) -> clap::Command {
    let name = command.get_name().to_string();
    if !uses_queue(&name) {
        return command;
    }
    let database = takes_database(&name).then(database_arg);
    let command = command.args(args_of(&name)).args(database);
    // Ids precede the handler.
    let command = match &*name {
        "process" => ProcessArgs::augment_args(command.defer(std::convert::identity)),
        _ => command,
    };
    let command = command.args(takes_handler(&name).then(handler_arg));
    TableArgs::augment_args(command).next_help_heading(None)
}

fn base() -> clap::Command {
    Cli::command().args(global_args())
}

/// The parser of a command line, with the options of the subcommands that it names.
fn command(argv: &[OsString]) -> clap::Command {
    let is_named = |command: &clap::Command| argv.iter().any(|arg| arg == command.get_name());
    let is_help = |arg: &OsString| match &*arg.to_string_lossy() {
        "help" | "--help" => true,
        arg => arg.starts_with('-') && !arg.starts_with("--") && arg.contains('h'),
    };
    let mut words = argv.iter().skip(1).take_while(|arg| *arg != "--");
    let shows_help = argv.len() < 2 || words.any(is_help);
    let augment_named = |command| if is_named(&command) { augment(command) } else { command };
    let command = base().mut_subcommands(augment_named);
    if shows_help { with_help(command) } else { command }
}

/// True if the arguments have limits of `status`, even if the command line is wrong.
pub fn has_limits(argv: &[OsString]) -> bool {
    let mut words = argv.iter().take_while(|word| *word != "--").map(|word| word.to_string_lossy());
    words.any(|word| word.starts_with("--warn-if") || word.starts_with("--fail-if"))
}

/// The parser with the options and the help of all subcommands.
pub fn whole_command() -> clap::Command {
    with_help(base().mut_subcommands(augment))
}

fn with_help(command: clap::Command) -> clap::Command {
    help::with_help(command).mut_subcommands(help::with_help)
}
