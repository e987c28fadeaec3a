//! Where a command line is read: with what stands in the environment and in backlog.toml.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::environment::{Environment, variable};
use super::file::File;
use super::mapping::mapping;
use super::section::{Section, key_of};
use super::{DEFAULT_QUEUE, Queue, command};
use crate::cli::{self, Cli, CommandLine, Typed};
use crate::exit::{ExitError, usage};
use crate::mapping::{Mapping, OnSuccess};
use crate::store::{self, Location, Server};

/// Everything that may say something of a queue, besides the command line.
pub struct Sources {
    pub(super) environment: Environment,
    pub(super) file: Option<File>,
}

/// A command line with what stands elsewhere, for one queue.
pub struct Resolved {
    pub command: cli::Command,
    pub place: Place,
}

/// What was said of a queue. Not every command needs one.
pub struct Place {
    name: String,
    global: cli::Global,
    table: cli::Table,
    section: Section,
    environment: Environment,
}

impl Sources {
    pub fn find(typed: &Typed, environment: Environment) -> Result<Self, ExitError> {
        let file = File::find(typed.line.cli.global.config.as_deref(), &environment)?;
        Ok(Self { environment, file })
    }

    /// The names of all queues that are described.
    pub fn queues(&self) -> Result<Vec<String>, ExitError> {
        let file = self.file.as_ref().ok_or_else(|| {
            let places: Vec<_> = self.environment.places();
            let places: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
            usage(format!("there is no backlog.toml with queues; looked for {}", places.join(", ")))
        })?;
        let queues: Vec<_> = file.queues().map(String::from).collect();
        if queues.is_empty() {
            return Err(usage(format!("{} describes no queue", file.path.display())));
        }
        Ok(queues)
    }

    /// What a command line means for this queue, or for the one that is named elsewhere.
    pub fn resolve(&self, typed: &Typed, queue: Option<&str>) -> Result<Resolved, ExitError> {
        let typed_name = queue.or(typed.line.cli.global.queue.as_deref()).map(String::from);
        let named =
            typed_name.map_or_else(|| self.environment.option("queue"), |it| Ok(Some(it)))?;
        // A queue of pgmq has its name there already.
        let of_pgmq = typed.options().find(|(long, _)| *long == "pgmq").and_then(|(_, it)| it);
        let of_pgmq =
            of_pgmq.map_or_else(|| self.environment.option("pgmq"), |it| Ok(Some(it.into())))?;
        let name = named.clone().or(of_pgmq.clone()).unwrap_or_else(|| DEFAULT_QUEUE.into());
        let described = match &self.file {
            Some(file) => file.section(&name, named.is_some())?,
            None => Section::default(),
        };
        let mut section = self.environment.section(&name)?.over(described);
        // This one does not take the place of the file's, it narrows it.
        section.conditions.extend(self.environment.option("where")?);
        let says_where = |long: &str| typed.has(long) || self.environment.option(long) != Ok(None);
        if named.is_none() && typed.is_about_a_table() && !says_where("db") && !says_where("table")
        {
            self.require_default()?;
        }
        if of_pgmq.is_some() || section.says("pgmq") {
            section = section.over(Section::of_pgmq());
        }
        let options = section.beside(typed);
        let line = typed.with(&options).map_err(|error| self.complaint(&name, &options, &error))?;
        let CommandLine { cli: Cli { global, command }, table } = line;
        Ok(Resolved {
            command,
            place: Place { name, global, table, section, environment: self.environment.clone() },
        })
    }

    /// The environment that the command line is read in.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// A queue that was named, if nothing is said of it anywhere: it tells a line from others and
    /// its
    /// handlers whose record they have, and that is all.
    pub fn mere_name(&self, typed: &Typed) -> Option<String> {
        let named = typed.line.cli.global.queue.clone();
        let named = named.or_else(|| self.environment.option("queue").ok().flatten());
        named.filter(|name| self.file.is_none() && !self.environment.knows(name))
    }

    /// The path of backlog.toml, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }

    /// What every user of the machine can read in backlog.toml, and should not, if so.
    pub fn exposed(&self) -> Option<&'static str> {
        self.file.as_ref().and_then(File::exposed)
    }

    /// Fails if it is not clear which of the described queues is meant.
    fn require_default(&self) -> Result<(), ExitError> {
        let Some(file) = &self.file else { return Ok(()) };
        let names: Vec<_> = file.queues().collect();
        if names.is_empty() || names.contains(&DEFAULT_QUEUE) {
            return Ok(());
        }
        let path = file.path.display();
        Err(usage(format!("which queue? {path} describes {}: say --queue", names.join(", "))))
    }

    /// Why options cannot be used that were not typed.
    fn complaint(&self, queue: &str, options: &[cli::Given], error: &clap::Error) -> ExitError {
        let file = self.path().map_or_else(String::new, |path| format!("{}: ", path.display()));
        let culprit = options.iter().find_map(|given| Some((given, cli::complaint(given)?)));
        let Some(((long, value), why)) = culprit else {
            let first = cli::first_line(error);
            return usage(format!("{file}queue {queue}: {}", first.trim_start_matches("error: ")));
        };
        let value = value.as_deref().unwrap_or("true");
        usage(match self.environment.option(long) {
            Ok(Some(_)) => format!("{} is {value:?}: {why}", variable(long)),
            _ => format!("{file}queue {queue}: {} = {value:?}: {why}", key_of(long)),
        })
    }
}

impl Place {
    /// What a pass would say of the options that were not typed.
    pub fn complaints(&self) -> Vec<String> {
        let complaint = |(long, value): cli::Given| {
            let why = cli::complaint(&(long, value.clone()))?;
            let value = value.as_deref().unwrap_or("true");
            Some(format!("{} = {value:?}: {why}", key_of(long)))
        };
        self.section.given().filter_map(complaint).collect()
    }

    /// The name of the queue, if it is not the usual one.
    pub fn named(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|name| *name != DEFAULT_QUEUE)
    }

    pub fn queue(self) -> Result<Queue, ExitError> {
        let Self { name, global, table, section, environment } = self;
        let db = global.db.ok_or_else(|| {
            usage(
                "which database? name it with --db FILE or --db postgres://..., in BACKLOG_DB or \
                 in backlog.toml",
            )
        })?;
        let db = location(db, &table, &environment)?;
        let shard = table.shard;
        let usual = || environment.state_dir().filter(|_| db.file().is_none());
        let state_dir = global.state_dir.or_else(usual);
        let mapping = mapping(table, &section)?;
        if let (Location::Queue(..), Some(key)) = (&db, of_a_table_only(&mapping)) {
            return Err(usage(format!("a queue has its own columns and order: leave out {key}")));
        }
        let exec = section.exec.clone().unwrap_or_default();
        Ok(Queue {
            name,
            db,
            shard,
            mapping,
            state_dir,
            exec: exec.into_iter().map(OsString::from).collect(),
            on_archive: section.value("on-archive").map(command).transpose()?,
        })
    }
}

/// Whether it is hardly the name of a file.
fn is_nearly_a_url(text: &str) -> bool {
    let text = text.trim_start().to_ascii_lowercase();
    let starts = ["postgres:", "postgresql:", "postgres//", "postgresql//", "pg:", "host="];
    text.contains("://")
        || text.contains("password=")
        || starts.iter().any(|it| text.starts_with(it))
}

/// What a mapping says that means nothing for a queue of pgmq, besides its options.
fn of_a_table_only(mapping: &Mapping) -> Option<&'static str> {
    let Mapping { conditions, on_success, on_failure, on_archive, .. } = mapping;
    let sets = matches!(on_success, OnSuccess::Set(columns) if !columns.is_empty());
    let said = [
        ("--where", !conditions.is_empty()),
        ("the columns of on_success", sets),
        ("on_failure", !on_failure.is_empty()),
        ("on_archive", !on_archive.is_empty()),
    ];
    said.into_iter().find(|(_, is_said)| *is_said).map(|(key, _)| key)
}

/// A file, or a server if it looks like a URL.
fn location(
    db: PathBuf,
    table: &cli::Table,
    environment: &Environment,
) -> Result<Location, ExitError> {
    let Some(url) = db.to_str().filter(|text| store::is_url(text)) else {
        // It may have a password in it, so nothing of it is said again.
        if db.to_str().is_some_and(is_nearly_a_url) {
            return Err(usage(
                "--db looks like a connection string, but is no URL: write \
                 postgres://user@host:port/database",
            ));
        }
        return match &table.pgmq {
            None => Ok(Location::File(db)),
            Some(_) => Err(usage("a queue of pgmq is on a server: say --db postgres://...")),
        };
    };
    let variable = |name: &str| Some(environment.get(name)?.to_str()?.to_string());
    let server = Server::new(url, &variable).map_err(|error| usage(format!("{error:#}")))?;
    let server = Arc::new(server);
    let Some(queue) = &table.pgmq else { return Ok(Location::Server(server)) };
    if let Some(option) = table.of_a_table_only() {
        return Err(usage(format!("a queue has its own columns and order: leave out {option}")));
    }
    Ok(Location::Queue(server, queue.clone()))
}
