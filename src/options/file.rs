//! backlog.toml: the options of all queues, and those of each.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::environment::Environment;
use super::keys::{EXEC, PATHS, POST, TABLES, require_known, unknown};
use super::layers::{Layers, Origin};
use super::source_file;
use super::value::text;
use crate::exit::{ExitError, usage};
use crate::record::one_line;

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
        let Some((path, text, standing)) = source_file::find(named, environment)? else {
            return Ok(None);
        };
        let shown = path.display();
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
            usage(format!("{shown}: line {line}: {}", one_line(error.message())))
        })?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        let parsed = parse(table, directory);
        let (defaults, queues) = parsed.map_err(|error| usage(format!("{shown}: {error}")))?;
        log::info!("read {}", path.display());
        let is_readable_by_others = standing.is_readable_by_others();
        Ok(Some(Self { path, defaults, queues, is_readable_by_others }))
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
    let described = |(queue, keys)| match keys {
        Value::Table(keys) => section(keys, &format!("queue {queue}")).map(|layer| (queue, layer)),
        _ => Err(format!("write [queue.{queue}] and its keys below")),
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
