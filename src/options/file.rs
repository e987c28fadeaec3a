//! backlog.toml. The program runs commands from it, so no other user may be able to change a default file.

use std::fmt::Display;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use backlog_schedule::{cut_line, one_line, unknown_name};
use backlog_store::secure_file::{self, GROUP_WRITE, OTHERS_WRITE, STICKY, is_root, is_trusted};
use backlog_store::system_error::reason;
use toml::{Table, Value};

use super::layers::{Layers, Origin};
use super::toml_layer::{layer, syntax_error};
use crate::exit::{ExitError, usage};

/// The contents of backlog.toml. The keys are legal; values are parsed when they are needed.
pub struct File {
    pub path: PathBuf,
    defaults: Layers,
    /// In the order of the file.
    queues: Vec<(String, Layers)>,
    is_readable_by_others: bool,
}

impl File {
    pub fn read(path: PathBuf, is_named: bool) -> Result<Self, ExitError> {
        let (bytes, metadata) = match is_named {
            true => secure_file::read(&path).map_err(|error| not_read(&path, &reason(&error)))?,
            false => read_default(&path)?,
        };
        let text = str::from_utf8(&bytes).map_err(|_| not_read(&path, &"it is not UTF-8"))?;
        log::info!("read {}", path.display());
        Self::parse(path, text, others_have(&metadata, 0o040, 0o004))
    }

    pub fn proposed(path: PathBuf, text: &str) -> Result<Self, ExitError> {
        Self::parse(path, text, false)
    }

    fn parse(path: PathBuf, text: &str, is_readable_by_others: bool) -> Result<Self, ExitError> {
        let name = path.display();
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let span = error.span().unwrap_or_default();
            let line = text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
            let line_text = text.lines().nth(line).unwrap_or_default();
            let found = text.get(span).unwrap_or_default();
            let why = syntax_error(error.message(), found, line_text.trim());
            usage(format!("{name}: line {}: {}", line + 1, one_line(&why)))
        })?;
        let parsed = sections(table, path.parent().unwrap_or(Path::new("/")));
        let (defaults, queues) = parsed.map_err(|error| usage(format!("{name}: {error}")))?;
        Ok(Self { path, defaults, queues, is_readable_by_others })
    }

    pub fn exposed_secret(&self) -> Option<&'static str> {
        let mut sections = self.queues.iter().map(|(_, section)| section).chain([&self.defaults]);
        sections.find_map(Layers::credential).filter(|_| self.is_readable_by_others)
    }

    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.queues.iter().map(|(name, _)| name.as_str())
    }

    /// The values of a queue, or else the defaults. Fails if an unknown queue is chosen by name.
    pub fn layer(&self, queue: &str, is_chosen: bool) -> Result<Layers, ExitError> {
        let mut defaults = self.defaults.clone();
        if let Some((_, section)) = self.queues.iter().find(|(name, _)| name == queue) {
            // The condition of a queue replaces the default.
            if !section.conditions.is_empty() {
                defaults.conditions.clear();
            }
            return Ok(section.clone().over(defaults));
        }
        if is_chosen && !self.queues.is_empty() {
            let path = self.path.display();
            return Err(usage(format!("{path}: {}", unknown_name("queue", queue, self.queues()))));
        }
        Ok(defaults)
    }
}

/// True if other users have these permissions. The group of this process does not count as another user.
fn others_have(metadata: &Metadata, group_mode: u32, others_mode: u32) -> bool {
    let is_own_group = metadata.gid() == rustix::process::getegid().as_raw();
    metadata.mode() & others_mode != 0 || metadata.mode() & group_mode != 0 && !is_own_group
}

/// Reads a file if no other user can change it. For root, `require_trusted` has checked that.
fn read_default(path: &Path) -> Result<(Vec<u8>, Metadata), ExitError> {
    let read = secure_file::read_with_directory(path);
    let (bytes, metadata, directory) = read.map_err(|error| not_read(path, &reason(&error)))?;
    // In a sticky directory nobody can replace the file.
    let is_sticky = directory.mode() & STICKY != 0;
    let why = |metadata: &Metadata| match metadata.uid() {
        uid if !is_trusted(uid) => Some(format!("belongs to user {uid}")),
        _ if metadata.is_dir() && is_sticky => None,
        _ => others_have(metadata, GROUP_WRITE, OTHERS_WRITE)
            .then(|| "can be written by others".into()),
    };
    let directory_why = || Some(format!("is in a directory that {}", why(&directory)?));
    match why(&metadata).or_else(directory_why).filter(|_| !is_root()) {
        None => Ok((bytes, metadata)),
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
        return Err(match value.is_table() {
            true => format!("no section {name:?}; use [defaults] or [queue.NAME]"),
            false => format!(
                "the key {name:?} is in no section; write it below [defaults] or [queue.NAME]"
            ),
        });
    }
    let section = |keys, name: &str| {
        let layer = layer(keys, Some(directory), Origin::File);
        layer.map_err(|error| format!("{name}: {error}"))
    };
    let parse_queue = |(queue, keys): (String, Value)| {
        require_queue_name(&queue)?;
        let Value::Table(keys) = keys else {
            return Err(format!("write [queue.{queue}] and its keys below"));
        };
        section(keys, &format!("queue {queue}")).map(|layer| (queue, layer))
    };
    let defaults = section(defaults, "defaults")?;
    Ok((defaults, queues.into_iter().map(parse_queue).collect::<Result<_, _>>()?))
}

/// Requires a name that needs no quotes in a file name, a shell, a unit and a URL.
pub fn require_queue_name(name: &str) -> Result<(), String> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || ['_', '.', '-'].contains(&c);
    let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= MAX_NAME_LENGTH
        && name.chars().all(is_legal);
    let rule =
        "a name starts with a letter or digit, and has up to 64 of A-Z, a-z, 0-9, _, . and -";
    if is_name { Ok(()) } else { Err(format!("queue {:?}: {rule}", cut_line(name))) }
}

pub const MAX_NAME_LENGTH: usize = 64;
