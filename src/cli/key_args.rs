//! The keys as options of clap.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ValueHint};

use crate::options::Key;
use crate::options::key::KeyKind;
use crate::options::keys::{self, MONITORING, PASS, SCHEDULE, TABLE};
use crate::options::value::tiers_or_switch;

/// The keys that are options of a subcommand, in the order of `--help`.
pub fn keys_of(subcommand: &str) -> Vec<&'static Key> {
    let groups: &[&[Key]] = match subcommand {
        "process" => &[SCHEDULE, PASS, MONITORING, keys::HANDLER],
        "status" | "list" | "explain" => &[SCHEDULE],
        "check" | "crontab" => &[SCHEDULE, keys::HANDLER],
        _ => &[],
    };
    let names: &[&str] = match subcommand {
        "list" => &["order"],
        "simulate" => {
            &["policy", "fibonacci", "progressive", "by_age", "every", "spread", "max_attempts"]
        }
        _ => &[],
    };
    let named = names.iter().filter_map(|name| Key::named(name));
    let table = TABLE.iter().filter(|key| is_global(key) || uses_queue(subcommand));
    let groups = groups.iter().copied().flatten();
    named.chain(groups).chain(table).filter(|key| key.is_option).collect()
}

pub fn uses_queue(subcommand: &str) -> bool {
    !["adopt", "completions", "man", "watchdog"].contains(&subcommand)
}

pub fn takes_handler(subcommand: &str) -> bool {
    ["process", "check", "crontab"].contains(&subcommand)
}

/// Id of the argument for the handler, whose key is `exec`.
pub const HANDLER: &str = "command";

pub fn handler_arg() -> Arg {
    Arg::new(HANDLER)
        .help("The handler: a command and its arguments")
        .help_heading("Handler")
        .long_help(
            "The handler: a command and its arguments\n\nIt is started without a shell. It gets the \
             record as JSON on standard input; {column} in an argument is replaced by the value of that \
             column. Exit 0 is a success, any other exit a failure. `backlog help handlers` has the details.",
        )
        .value_name("COMMAND")
        .value_hint(ValueHint::ExecutablePath)
        .value_parser(ValueParser::os_string())
        .num_args(1..)
        .last(true)
}

/// Id of the argument for the database, whose key is `db`.
pub const DATABASE: &str = "database";

pub fn takes_database(subcommand: &str) -> bool {
    ["init", "status", "list", "failures"].contains(&subcommand)
}

pub fn database_arg() -> Arg {
    Arg::new(DATABASE)
        .help("Path of the SQLite file, or a URL; same as --db")
        .value_name("DATABASE")
        .value_hint(ValueHint::AnyPath)
        .value_parser(ValueParser::os_string())
        .conflicts_with("db")
}

/// Global options may precede the subcommand.
fn is_global(key: &Key) -> bool {
    ["db", "state_dir"].contains(&key.name)
}

pub fn global_args() -> impl Iterator<Item = Arg> {
    TABLE.iter().filter(|key| is_global(key)).map(|key| arg(key).global(true).display_order(0))
}

pub fn args_of(subcommand: &str) -> impl Iterator<Item = Arg> {
    let keys = keys_of(subcommand).into_iter().filter(|key| !is_global(key));
    keys.map(arg)
}

/// An option whose value stays text: `options` parses the values of all sources.
fn arg(key: &'static Key) -> Arg {
    let arg = Arg::new(key.name)
        .long(key.long)
        .short(key.short)
        .help(key.help[0])
        .help_heading(key.group())
        .hide_short_help(!key.is_in_short_help);
    if key.kind == KeyKind::Flag {
        return arg.action(ArgAction::SetTrue);
    }
    let arg = arg
        .action(ArgAction::Append)
        .value_name(key.placeholder)
        .allow_negative_numbers(true)
        .value_parser(ValueParser::os_string());
    match key.kind {
        // The parser refuses a following word that is no value.
        KeyKind::Optional => {
            arg.num_args(0..=1).default_missing_value("true").value_parser(tiers_or_switch)
        }
        KeyKind::Path => arg.value_hint(ValueHint::AnyPath),
        KeyKind::Command => arg.value_hint(ValueHint::CommandString),
        KeyKind::Flag
        | KeyKind::Value
        | KeyKind::List
        | KeyKind::Column(_)
        | KeyKind::Assignments => arg,
    }
}
