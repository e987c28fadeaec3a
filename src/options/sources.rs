//! The sources of options besides the command line: the environment, and backlog.toml with the options
//! of all queues and those of each.
//!
//! What stands in the file is run. So one that nobody has named counts only if it and its directory are
//! root's or this user's, and for root only what root alone can change (`ownership.rs`).

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use backlog_schedule::{cut_line, one_line, unknown_name};
use backlog_store::TOKEN;
use backlog_store::ownership::{Kind, OwnerRule, complaint};
use backlog_store::secure_file::{self, GROUP_WRITE, OTHERS_WRITE, STICKY, is_own, is_root};
use backlog_store::system_error::words;
use toml::{Table, Value};

use super::keys::{EXEC, PATHS, POST, TABLES, key_of, long_of, require_known, variable};
use super::layers::{Layers, Origin, TypedOptions};
use super::value::{OPEN, OPEN_QUESTION, QUOTED, text};
use crate::exit::{ExitError, usage};

pub struct Sources {
    pub environment: Environment,
    pub file: Option<File>,
}

impl Sources {
    /// With the file that is named, or the first that is where one is looked for.
    pub fn find(config: Option<&Path>, environment: Environment) -> Result<Self, ExitError> {
        let named = config.map(|path| environment.directory.join(path));
        let named = named.or_else(|| environment.path("BACKLOG_CONFIG"));
        let read = if named.is_some() { read_named } else { read_found };
        let is_there = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
        let path = named.or_else(|| environment.places().into_iter().find(is_there));
        if let Some(path) = &path {
            environment.require_trusted(path, Kind::Config)?;
        }
        let file = path.map(|path| read(&path).and_then(|read| File::new(path, read)));
        Ok(Self { file: file.transpose()?, environment })
    }

    /// With a file that is only proposed, and would stand at this path.
    pub fn proposed(
        path: PathBuf,
        text: &str,
        environment: Environment,
    ) -> Result<Self, ExitError> {
        Ok(Self { file: Some(File::of(path, text, false)?), environment })
    }

    pub fn queues(&self) -> Result<Vec<String>, ExitError> {
        let file = self.file.as_ref().ok_or_else(|| {
            let places = self.environment.places();
            let places: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
            usage(format!("there is no backlog.toml with queues; looked for {}", places.join(", ")))
        })?;
        let queues: Vec<_> = file.queues().map(String::from).collect();
        if queues.is_empty() {
            return Err(usage(format!("{} describes no queue", file.path.display())));
        }
        Ok(queues)
    }

    /// A queue that was named, if nothing is said of it anywhere: it tells a line from others and its
    /// handlers whose record they have, and that is all.
    pub fn mere_name(&self, typed: &TypedOptions) -> Option<String> {
        let named = self.environment.typed_or(typed.name.as_deref(), "queue").ok().flatten();
        let knows = |name: &str| self.environment.raw(&attempts_variable(name)).is_some();
        named.filter(|name| self.file.is_none() && !knows(name))
    }
}

/// What a handler is told of its record: a `backlog` that it runs may be about another table.
const TOLD_TO_HANDLERS: [&str; 3] = ["queue", "table", "max-attempts"];

fn attempts_variable(queue: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("MAX_{}_RETRY_ATTEMPTS", queue.chars().map(letter).collect::<String>())
}

/// The environment that a command line is read in.
#[derive(Clone)]
pub struct Environment {
    pub variables: HashMap<OsString, OsString>,
    pub directory: PathBuf,
    /// How root's rule is applied to the files that are named in it.
    pub rule: OwnerRule,
}

impl Environment {
    pub fn own() -> Self {
        Self {
            variables: std::env::vars_os().collect(),
            directory: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
            rule: OwnerRule::Enforced,
        }
    }

    /// Fails if root would work on a file that others can change.
    pub fn require_trusted(&self, path: &Path, kind: Kind) -> Result<(), ExitError> {
        match self.complaint(path, kind) {
            Some(complaint) if self.rule == OwnerRule::Enforced => Err(usage(complaint)),
            _ => Ok(()),
        }
    }

    /// Who else can change a file that root works on, unless that is said to be fine.
    pub fn complaint(&self, path: &Path, kind: Kind) -> Option<String> {
        let is_waived = self.rule == OwnerRule::Waived;
        if is_waived { None } else { complaint(&self.directory.join(path), kind) }
    }

    /// A variable that is set, be it to nothing.
    pub fn raw(&self, name: &str) -> Option<&OsString> {
        self.variables.get(OsStr::new(name))
    }

    /// A variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&OsString> {
        self.raw(name).filter(|value| !value.is_empty())
    }

    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.to_str().map(String::from)
    }

    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(|path| self.directory.join(path))
    }

    /// What was typed for an option, or else its variable says.
    pub fn typed_or(&self, typed: Option<&str>, long: &str) -> Result<Option<String>, ExitError> {
        typed.map_or_else(|| self.option(long), |typed| Ok(Some(typed.into())))
    }

    pub fn option(&self, long: &str) -> Result<Option<String>, ExitError> {
        if self.raw(TOKEN).is_some() && TOLD_TO_HANDLERS.contains(&long) {
            return Ok(None);
        }
        let name = variable(long);
        self.get(&name).map(|value| utf8(&name, value)).transpose()
    }

    pub fn layer(&self, queue: &str) -> Result<Layers, ExitError> {
        let mut layer = Layers::default();
        // Few variables are about this program, and there are many options.
        for name in self.variables.keys().filter_map(|name| name.to_str()) {
            let Some(long) = long_of(name) else { continue };
            let Some(value) = self.option(&long)? else { continue };
            if let Some(key) = key_of(&long) {
                layer.insert(key, Value::String(value), Origin::Environment);
            }
        }
        layer.conditions.extend(self.option("where")?);
        let variable = attempts_variable(queue);
        if let Some(value) = self.raw(&variable) {
            let value = value.to_string_lossy();
            let count = value.trim();
            if !count.parse::<u32>().is_ok_and(|count| count > 0) {
                return Err(usage(format!(
                    "{variable} is {value:?}; it must be a whole number, at least 1"
                )));
            }
            layer.insert("max_attempts", Value::String(count.into()), Origin::Environment);
        }
        Ok(layer)
    }

    /// Where a user's programs keep what they remember.
    pub fn state_dir(&self) -> Option<PathBuf> {
        Some(self.of_user("XDG_STATE_HOME", ".local/state")?.join("backlog"))
    }

    /// Where a user's programs find what they are told.
    pub fn config_dir(&self) -> Option<PathBuf> {
        self.of_user("XDG_CONFIG_HOME", ".config")
    }

    /// A directory of the user's, which stands in a variable or is in his home.
    fn of_user(&self, variable: &str, in_home: &str) -> Option<PathBuf> {
        self.path(variable).or_else(|| Some(self.path("HOME")?.join(in_home)))
    }

    /// Where backlog.toml is looked for, in this order.
    fn places(&self) -> Vec<PathBuf> {
        let user = self.config_dir().map(|directory| directory.join("backlog/config.toml"));
        let places = [Some(self.directory.join("backlog.toml")), user];
        places.into_iter().flatten().chain(["/etc/backlog.toml".into()]).collect()
    }
}

pub fn utf8(name: &str, value: &OsStr) -> Result<String, ExitError> {
    let text = value.to_str().map(String::from);
    text.ok_or_else(|| usage(format!("the variable {name} is not UTF-8")))
}

/// A backlog.toml that was read. Its keys are legal; its values are looked at when needed.
pub struct File {
    pub path: PathBuf,
    defaults: Layers,
    /// In the order of the file.
    queues: Vec<(String, Layers)>,
    is_readable_by_others: bool,
}

impl File {
    fn new(path: PathBuf, (bytes, found): (Vec<u8>, Metadata)) -> Result<Self, ExitError> {
        let text = str::from_utf8(&bytes).map_err(|_| not_read(&path, &"it is not UTF-8"))?;
        log::info!("read {}", path.display());
        Self::of(path, text, may(&found, 0o040, 0o004))
    }

    fn of(path: PathBuf, text: &str, is_readable_by_others: bool) -> Result<Self, ExitError> {
        let shown = path.display();
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let span = error.span().unwrap_or_default();
            let line = text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
            let at = text.lines().nth(line).unwrap_or_default();
            let found = text.get(span).unwrap_or_default();
            let why = syntax_error(error.message(), found, at.trim());
            usage(format!("{shown}: line {}: {}", line + 1, one_line(&why)))
        })?;
        let parsed = parse(table, path.parent().unwrap_or(Path::new("/")));
        let (defaults, queues) = parsed.map_err(|error| usage(format!("{shown}: {error}")))?;
        Ok(Self { path, defaults, queues, is_readable_by_others })
    }

    /// What every user of the machine can read in it, and should not, if so.
    pub fn exposed(&self) -> Option<&'static str> {
        let sections = self.queues.iter().map(|(_, section)| section).chain([&self.defaults]);
        sections.filter_map(Layers::credential).find(|_| self.is_readable_by_others)
    }

    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.queues.iter().map(|(name, _)| name.as_str())
    }

    /// What is said of a queue; of one that is not described only the defaults, if it need not be.
    pub fn layer(&self, queue: &str, must_be: bool) -> Result<Layers, ExitError> {
        let mut defaults = self.defaults.clone();
        if let Some((_, section)) = self.queues.iter().find(|(name, _)| name == queue) {
            // A queue's own condition takes the place of that of all queues.
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

/// Why a line is not TOML: the parser's words, with the key that they are about, or what it takes where
/// quotes are missing.
fn syntax_error(message: &str, place: &str, line: &str) -> String {
    if message == "duplicate key" {
        return format!("{message} {place:?}");
    }
    // Outside of quotes and comments it is never TOML.
    let unquoted: String = line.split(['"', '\'']).step_by(2).collect();
    if unquoted.split('#').next().is_some_and(|code| code.contains(OPEN)) {
        return OPEN_QUESTION.into();
    }
    let value = line.split_once('=').map_or("", |(_, value)| value.trim());
    let is_bare = value.starts_with(|c: char| c.is_ascii_alphanumeric())
        || !value.is_empty() && message.starts_with("string values must be quoted");
    if is_bare { QUOTED.into() } else { message.into() }
}

/// Whether others than its owner may do something with a file. The group of this process is its own.
fn may(found: &Metadata, of_group: u32, of_others: u32) -> bool {
    let is_own = found.gid() == rustix::process::getegid().as_raw();
    found.mode() & of_others != 0 || found.mode() & of_group != 0 && !is_own
}

fn read_named(path: &Path) -> Result<(Vec<u8>, Metadata), ExitError> {
    secure_file::read(path).map_err(|error| not_read(path, &words(&error)))
}

/// The same of a file that nobody has named.
fn read_found(path: &Path) -> Result<(Vec<u8>, Metadata), ExitError> {
    let read = secure_file::read_found(path);
    let (bytes, found, directory) = read.map_err(|error| not_read(path, &words(&error)))?;
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
            "{0} is not read, because it {why}; to use it all the same: --config {0}",
            path.display()
        ))),
    }
}

fn not_read(path: &Path, why: &dyn Display) -> ExitError {
    usage(format!("could not read {}: {why}", path.display()))
}

/// The layer of all queues, and those of each.
fn parse(mut file: Table, directory: &Path) -> Result<(Layers, Vec<(String, Layers)>), String> {
    let mut table = |name| match file.remove(name) {
        None => Ok(Table::new()),
        Some(Value::Table(table)) => Ok(table),
        Some(_) => Err("write [defaults] or [queue.NAME] and the keys below"),
    };
    let (defaults, queues) = (table("defaults")?, table("queue")?);
    if let Some((name, value)) = file.iter().next() {
        return Err(no_section(name, value));
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
    let rule = "a queue's name is a letter or digit and up to 63 more of A-Z, a-z, 0-9, _, . and -";
    if is_name { Ok(()) } else { Err(format!("queue {:?}: {rule}", cut_line(name))) }
}

pub const LONGEST_NAME: usize = 64;

/// What is said of what stands beside the sections: a key, a queue without its word, or a misspelt word.
fn no_section(name: &str, value: &Value) -> String {
    if !value.is_table() {
        return format!("no section {name:?}; write a key below [defaults] or [queue.NAME]");
    }
    format!("no section {name:?}; legal are [defaults] and [queue.NAME]")
}

/// A layer of these keys, all of which must be legal. Several conditions narrow each other. Paths are
/// made absolute from the directory.
pub fn layer(
    keys: impl IntoIterator<Item = (String, Value)>,
    directory: Option<&Path>,
    origin: Origin,
) -> Result<Layers, String> {
    let mut layer = Layers::default();
    for (key, value) in keys {
        require_known(&key)?;
        let wrong = |error: String| format!("{key}: {error}");
        if key == "where" {
            layer.conditions.push(text(value).map_err(wrong)?);
            continue;
        }
        let mut value = with_parts(&key, value).map_err(wrong)?;
        if let Some(directory) = directory {
            make_absolute(&key, &mut value, directory).map_err(wrong)?;
        }
        layer.insert(key, value, origin);
    }
    if layer.says(EXEC) && layer.says(POST) {
        return Err("exec and post are two handlers: pick one".into());
    }
    Ok(layer)
}

/// The same value, as a table where the key is one: `status = "state"` names its column.
fn with_parts(key: &str, value: Value) -> Result<Value, String> {
    let Some((_, legal)) = TABLES.iter().find(|(table, _)| *table == key) else { return Ok(value) };
    if let Value::Table(parts) = &value
        && let Some(part) = parts.keys().find(|part| !legal.contains(&part.as_str()))
    {
        return Err(unknown_name("key", part, legal.iter().copied()));
    }
    if value.is_table() || value.is_bool() {
        return Ok(value);
    }
    Ok(Value::Table(Table::from_iter([("column".into(), value)])))
}

/// Has a path begin at the directory of its file, unless it is a URL, or a program in PATH.
fn make_absolute(key: &str, value: &mut Value, directory: &Path) -> Result<(), String> {
    let is_program = [EXEC, "exec_on_archive"].contains(&key);
    let place = if is_program {
        value.as_array_mut().and_then(|words| words.first_mut())
    } else {
        Some(value).filter(|_| PATHS.contains(&key))
    };
    if let Some(Value::String(text)) = place
        && if is_program { text.contains('/') } else { !text.contains("://") }
    {
        let absolute = directory.join(&*text);
        *text = absolute.to_str().ok_or("the path is not UTF-8")?.into();
    }
    Ok(())
}
