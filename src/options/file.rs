//! backlog.toml: the options of all queues, and those of each.
//!
//! What stands in it is run, by root if need be. So one that nobody has named counts only if none
//! but root and this user can have put it there, and one that root names only if it is root's.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::environment::Environment;
use super::keys::{EXEC, PATHS, POST, TABLES, require_known, unknown};
use super::sources::{Layers, Origin};
use super::value::text;
use crate::exit::{ExitError, usage};
use crate::record::one_line;
use crate::secure_file::{self, Followed, Standing, is_root};

/// A file that was read. All its keys are legal; the values are looked at when they are needed.
#[derive(Debug)]
pub struct File {
    pub path: PathBuf,
    defaults: Layers,
    /// In the order of the file.
    queues: Vec<(String, Layers)>,
    is_readable_by_others: bool,
}

impl File {
    /// The file that is named, or the first that is where one is looked for.
    pub fn find(
        named: Option<&Path>,
        environment: &Environment,
    ) -> Result<Option<Self>, ExitError> {
        let named = named.map(|path| environment.directory.join(path));
        if let Some(path) = named.or_else(|| environment.path("BACKLOG_CONFIG")) {
            let (text, standing) = read_named(&path)?;
            return Self::new(path, &text, &standing).map(Some);
        }
        let is_there = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
        let Some(path) = environment.places().into_iter().find(is_there) else { return Ok(None) };
        let (text, standing) = read_found(&path)?;
        Self::new(path, &text, &standing).map(Some)
    }

    fn new(path: PathBuf, text: &str, standing: &Standing) -> Result<Self, ExitError> {
        let shown = path.display();
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
            usage(format!("{shown}: line {line}: {}", one_line(error.message())))
        })?;
        let parsed = parse(table, path.parent().unwrap_or(Path::new("/")));
        let (defaults, queues) = parsed.map_err(|error| usage(format!("{shown}: {error}")))?;
        log::info!("read {shown}");
        let is_readable_by_others = standing.is_readable_by_others();
        Ok(Self { path, defaults, queues, is_readable_by_others })
    }

    /// What every user of the machine can read in it, and should not, if so.
    pub fn exposed(&self) -> Option<&'static str> {
        let sections = self.queues.iter().map(|(_, section)| section).chain([&self.defaults]);
        let exposed = sections.filter_map(Layers::credential).next();
        exposed.filter(|_| self.is_readable_by_others)
    }

    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.queues.iter().map(|(name, _)| name.as_str())
    }

    /// What is said of a queue; of one that is not described only the defaults, if it need not be.
    pub fn layer(&self, queue: &str, must_be: bool) -> Result<Layers, ExitError> {
        match self.queues.iter().find(|(name, _)| name == queue) {
            Some((_, section)) => {
                let mut defaults = self.defaults.clone();
                // A queue's own condition takes the place of that of all queues.
                if !section.conditions.is_empty() {
                    defaults.conditions.clear();
                }
                Ok(section.clone().over(defaults))
            }
            None if must_be && !self.queues.is_empty() => {
                let path = self.path.display();
                Err(usage(format!("{path}: {}", unknown("queue", queue, self.queues()))))
            }
            None => Ok(self.defaults.clone()),
        }
    }
}

/// The text of a file that was named. What root is to do must be root's word, also where a link has
/// led to it.
fn read_named(path: &Path) -> Result<(String, Standing), ExitError> {
    let read = if is_root() {
        Followed::new(path).and_then(|followed| followed.read())
    } else {
        secure_file::read(path)
    };
    let (text, standing) = read.and_then(decoded).map_err(|error| not_read(path, &error))?;
    let why = standing.why_untrusted().filter(|_| is_root());
    let Some(why) = why else { return Ok((text, standing)) };
    let (shown, hint) = (path.display(), hint(path, &standing));
    Err(usage(format!("{shown} {why}, and root would do what it says: {hint}")))
}

/// The same of one that nobody has named.
fn read_found(path: &Path) -> Result<(String, Standing), ExitError> {
    let read = || {
        let followed = Followed::new(path)?;
        let (text, standing) = followed.read().and_then(decoded)?;
        let named = Standing::of(path.parent().unwrap_or(Path::new("/")))?;
        Ok((text, standing, [named, followed.directory_standing()?]))
    };
    let (text, standing, directories) = read().map_err(|error| not_read(path, &error))?;
    let of_file = standing.why_untrusted();
    // Root may not name such a file either.
    let first = of_file.as_ref().filter(|_| is_root());
    let first = first.map_or_else(String::new, |_| format!("{}; then ", hint(path, &standing)));
    let of_directory = || directories.iter().find_map(Standing::why_untrusted);
    let why = of_file.or_else(|| Some(format!("is in a directory that {}", of_directory()?)));
    let Some(why) = why else { return Ok((text, standing)) };
    let shown = path.display();
    Err(usage(format!(
        "{shown} is not read, because it {why}; to use it all the same: {first}--config {shown}"
    )))
}

/// What makes a file root's alone, or spares root from it.
fn hint(path: &Path, standing: &Standing) -> String {
    let shown = path.display();
    match standing.uid() {
        0 => format!("chmod go-w {shown}"),
        owner => format!("chown root {shown}, or run as user {owner}"),
    }
}

fn decoded((bytes, standing): (Vec<u8>, Standing)) -> io::Result<(String, Standing)> {
    let text = String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))?;
    Ok((text, standing))
}

fn not_read(path: &Path, error: &io::Error) -> ExitError {
    usage(format!("could not read {}: {error}", path.display()))
}

/// The layer of all queues, and those of each.
fn parse(mut file: Table, directory: &Path) -> Result<(Layers, Vec<(String, Layers)>), String> {
    let mut table = |name| match file.remove(name) {
        None => Ok(Table::new()),
        Some(Value::Table(table)) => Ok(table),
        Some(_) => Err("write [defaults] or [queue.NAME] and the keys below"),
    };
    let (defaults, queues) = (table("defaults")?, table("queue")?);
    if let Some(name) = file.keys().next() {
        return Err(unknown("section", name, ["defaults", "queue.NAME"].into_iter()));
    }
    let section = |keys, name: &str| {
        let layer = layer(keys, Some(directory), Origin::File);
        layer.map_err(|error| format!("{name}: {error}"))
    };
    let described = |(queue, keys)| {
        let Value::Table(keys) = keys else {
            return Err(format!("write [queue.{queue}] and its keys below"));
        };
        section(keys, &format!("queue {queue}")).map(|layer| (queue, layer))
    };
    let defaults = section(defaults, "defaults")?;
    Ok((defaults, queues.into_iter().map(described).collect::<Result<_, _>>()?))
}

/// A layer of these keys, all of which must be legal. Paths are made absolute from the directory.
pub fn layer(keys: Table, directory: Option<&Path>, origin: Origin) -> Result<Layers, String> {
    let mut layer = Layers::default();
    for (key, value) in keys {
        require_known(&key)?;
        let wrong = |error: String| format!("{key}: {error}");
        if key == "where" {
            layer.conditions = vec![text(value).map_err(wrong)?];
            continue;
        }
        let value = with_parts(&key, value).map_err(wrong)?;
        let value = match directory {
            Some(directory) => with_paths(&key, value, directory).map_err(wrong)?,
            None => value,
        };
        layer.insert(key, value, origin);
    }
    if layer.says(EXEC) && layer.says(POST) {
        return Err("exec and post are two handlers: leave one out".into());
    }
    Ok(layer)
}

/// The same value, as a table where the key is one: `status = "state"` names its column.
fn with_parts(key: &str, value: Value) -> Result<Value, String> {
    let Some((_, legal)) = TABLES.iter().find(|(table, _)| *table == key) else { return Ok(value) };
    if let Value::Table(parts) = &value
        && let Some(part) = parts.keys().find(|part| !legal.contains(&part.as_str()))
    {
        return Err(unknown("key", part, legal.iter().copied()));
    }
    if value.is_table() || value.is_bool() {
        return Ok(value);
    }
    Ok(Value::Table(Table::from_iter([("column".into(), value)])))
}

/// The same value, with paths as they are from the directory of the file.
fn with_paths(key: &str, mut value: Value, directory: &Path) -> Result<Value, String> {
    if let Value::String(text) = &mut value
        && PATHS.contains(&key)
        // A URL is none.
        && !text.contains("://")
    {
        *text = path(text, directory)?;
    }
    // A program that has a directory is found from that of the file.
    if let Value::Array(words) = &mut value
        && [EXEC, "exec_on_archive"].contains(&key)
        && let Some(Value::String(program)) = words.first_mut()
        && program.contains('/')
    {
        *program = path(program, directory)?;
    }
    Ok(value)
}

fn path(text: &str, directory: &Path) -> Result<String, &'static str> {
    directory.join(text).to_str().map(String::from).ok_or("the path is not UTF-8")
}
