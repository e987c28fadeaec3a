//! backlog.toml: the options of all queues, and those of each.
//!
//! The program runs what is in it, so nobody else may be able to change a default file (`ownership.rs`).

use std::fmt::Display;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use backlog_schedule::{cut_line, one_line, unknown_name};
use backlog_store::secure_file::{self, GROUP_WRITE, OTHERS_WRITE, STICKY, is_own, is_root};
use backlog_store::system_error::reason;
use toml::{Table, Value};

use super::layers::{Layers, Origin};
use super::toml_layer::{layer, syntax_error};
use crate::exit::{ExitError, usage};

/// A backlog.toml that was read. Its keys are legal; its values are parsed when they are needed.
pub struct File {
    pub path: PathBuf,
    defaults: Layers,
    /// In the order of the file.
    queues: Vec<(String, Layers)>,
    is_readable_by_others: bool,
}

impl File {
    /// Reads a file that was named, or a default file.
    pub fn read(path: PathBuf, is_named: bool) -> Result<Self, ExitError> {
        let (bytes, found) = match is_named {
            true => secure_file::read(&path).map_err(|error| not_read(&path, &reason(&error)))?,
            false => read_found(&path)?,
        };
        let text = str::from_utf8(&bytes).map_err(|_| not_read(&path, &"it is not UTF-8"))?;
        log::info!("read {}", path.display());
        Self::parse(path, text, may(&found, 0o040, 0o004))
    }

    /// A file that is only proposed, for this path.
    pub fn proposed(path: PathBuf, text: &str) -> Result<Self, ExitError> {
        Self::parse(path, text, false)
    }

    fn parse(path: PathBuf, text: &str, is_readable_by_others: bool) -> Result<Self, ExitError> {
        let shown = path.display();
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let span = error.span().unwrap_or_default();
            let line = text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
            let at = text.lines().nth(line).unwrap_or_default();
            let found = text.get(span).unwrap_or_default();
            let why = syntax_error(error.message(), found, at.trim());
            usage(format!("{shown}: line {}: {}", line + 1, one_line(&why)))
        })?;
        let parsed = sections(table, path.parent().unwrap_or(Path::new("/")));
        let (defaults, queues) = parsed.map_err(|error| usage(format!("{shown}: {error}")))?;
        Ok(Self { path, defaults, queues, is_readable_by_others })
    }

    /// A secret that every user of the machine can read in the file, if there is one.
    pub fn exposed_secret(&self) -> Option<&'static str> {
        let sections = self.queues.iter().map(|(_, section)| section).chain([&self.defaults]);
        sections.filter_map(Layers::credential).find(|_| self.is_readable_by_others)
    }

    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.queues.iter().map(|(name, _)| name.as_str())
    }

    /// The values of a queue. A queue that is not described has the defaults, unless it must be described.
    pub fn layer(&self, queue: &str, must_be: bool) -> Result<Layers, ExitError> {
        let mut defaults = self.defaults.clone();
        if let Some((_, section)) = self.queues.iter().find(|(name, _)| name == queue) {
            // The condition of a queue replaces that of all queues.
            if !section.conditions.is_empty() {
                defaults.conditions.clear();
            }
            return Ok(section.clone().over(defaults));
        }
        if must_be && !self.queues.is_empty() {
            let path = self.path.display();
            return Err(usage(format!("{path}: {}", unknown_name("queue", queue, self.queues()))));
        }
        Ok(defaults)
    }
}

/// Whether users other than the owner have these permissions. The group of this process is no other user.
fn may(found: &Metadata, of_group: u32, of_others: u32) -> bool {
    let is_own = found.gid() == rustix::process::getegid().as_raw();
    found.mode() & of_others != 0 || found.mode() & of_group != 0 && !is_own
}

/// Reads a file that nobody named, if no other user can change it.
fn read_found(path: &Path) -> Result<(Vec<u8>, Metadata), ExitError> {
    let read = secure_file::read_with_directory(path);
    let (bytes, found, directory) = read.map_err(|error| not_read(path, &reason(&error)))?;
    // In a sticky directory nobody can replace the file.
    let is_sticky = directory.mode() & STICKY != 0;
    let why = |found: &Metadata| match found.uid() {
        uid if !is_own(uid) => Some(format!("belongs to user {uid}")),
        _ if found.is_dir() && is_sticky => None,
        _ => may(found, GROUP_WRITE, OTHERS_WRITE).then(|| "can be written by others".into()),
    };
    let of_directory = || Some(format!("is in a directory that {}", why(&directory)?));
    match why(&found).or_else(of_directory).filter(|_| !is_root()) {
        None => Ok((bytes, found)),
        Some(why) => Err(usage(format!(
            "{0} is not read, because it {why}; to use it anyway: --config {0}",
            path.display()
        ))),
    }
}

fn not_read(path: &Path, why: &dyn Display) -> ExitError {
    usage(format!("could not read {}: {why}", path.display()))
}

fn sections(mut file: Table, directory: &Path) -> Result<(Layers, Vec<(String, Layers)>), String> {
    let mut table = |name| match file.remove(name) {
        None => Ok(Table::new()),
        Some(Value::Table(table)) => Ok(table),
        Some(_) => Err("[defaults] and [queue.NAME] are sections: write keys below them"),
    };
    let (defaults, queues) = (table("defaults")?, table("queue")?);
    if let Some((name, value)) = file.iter().next() {
        let legal = match value.is_table() {
            true => "legal are [defaults] and [queue.NAME]",
            false => "write a key below [defaults] or [queue.NAME]",
        };
        return Err(format!("no section {name:?}; {legal}"));
    }
    let section = |keys, name: &str| {
        let layer = layer(keys, Some(directory), Origin::File);
        layer.map_err(|error| format!("{name}: {error}"))
    };
    let described = |(queue, keys): (String, Value)| {
        require_queue_name(&queue)?;
        let Value::Table(keys) = keys else {
            return Err(format!("write [queue.{queue}] and its keys below"));
        };
        section(keys, &format!("queue {queue}")).map(|layer| (queue, layer))
    };
    let defaults = section(defaults, "defaults")?;
    Ok((defaults, queues.into_iter().map(described).collect::<Result<_, _>>()?))
}

/// A name is safe in a file name, a shell, a unit and a URL.
pub fn require_queue_name(name: &str) -> Result<(), String> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || ['_', '.', '-'].contains(&c);
    let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= LONGEST_NAME
        && name.chars().all(is_legal);
    let rule =
        "a name starts with a letter or digit, and has up to 64 of A-Z, a-z, 0-9, _, . and -";
    if is_name { Ok(()) } else { Err(format!("queue {:?}: {rule}", cut_line(name))) }
}

pub const LONGEST_NAME: usize = 64;
