//! backlog.toml: what it says of each queue.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::EMPTY_COMMAND;
use super::environment::Environment;
use super::section::{KEYS, Key, Kind, NO_STATUS, Said, Section};
use super::source_file::SourceFile;
use crate::exit::{ExitError, usage};
use crate::mapping::{Assigned, Assignment, OnSuccess};
use crate::record::{self, escaped, one_line};

/// A file that was read. All its keys are legal; the values are looked at when they are needed.
#[derive(Debug)]
pub struct File {
    pub path: PathBuf,
    defaults: Section,
    /// In the order of the file.
    queues: Vec<(String, Section)>,
    is_readable_by_others: bool,
}

/// Keys that are no options.
const OTHERS: [&str; 7] =
    ["status", "date_inserted", "where", "exec", "on_success", "on_failure", "on_archive"];

impl File {
    /// The file that is named, or the first that is where one is looked for.
    pub fn find(
        named: Option<&Path>,
        environment: &Environment,
    ) -> Result<Option<Self>, ExitError> {
        SourceFile::find(named, environment)?.map(Self::parse).transpose()
    }

    fn parse(source: SourceFile) -> Result<Self, ExitError> {
        let SourceFile { path, text, is_readable_by_others } = source;
        let shown = path.display();
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
            usage(format!("{shown}: line {line}: {}", one_line(error.message())))
        })?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        let parsed = parse(table, directory);
        let (defaults, queues) = parsed.map_err(|error| usage(format!("{shown}: {error}")))?;
        log::info!("read {}", path.display());
        Ok(Self { path, defaults, queues, is_readable_by_others })
    }

    /// What every user of the machine can read in it, and should not, if so.
    pub fn exposed(&self) -> Option<&'static str> {
        let sections = self.queues.iter().map(|(_, section)| section).chain([&self.defaults]);
        let exposed = sections.filter_map(Section::credential).next();
        exposed.filter(|_| self.is_readable_by_others)
    }

    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.queues.iter().map(|(name, _)| name.as_str())
    }

    /// What is said of a queue; of one that is not described only the defaults, if it need not be.
    pub fn section(&self, queue: &str, must_be: bool) -> Result<Section, ExitError> {
        match self.queues.iter().find(|(name, _)| name == queue) {
            Some((_, section)) => Ok(section.clone().over(self.defaults.clone())),
            None if must_be && !self.queues.is_empty() => {
                let path = self.path.display();
                Err(usage(format!("{path}: {}", unknown("queue", queue, self.queues()))))
            }
            None => Ok(self.defaults.clone()),
        }
    }
}

/// `no queue "emial"; did you mean email?; legal are email, orders`
fn unknown<'a>(what: &str, name: &str, legal: impl Iterator<Item = &'a str>) -> String {
    let legal: Vec<_> = legal.collect();
    let nearest = legal.iter().min_by_key(|it| strsim::damerau_levenshtein(it, name));
    let meant = nearest
        .filter(|it| strsim::damerau_levenshtein(it, name) <= 1 + name.len() / 3)
        .map_or_else(String::new, |it| format!("; did you mean {it}?"));
    format!("no {what} {name:?}{meant}; legal are {}", legal.join(", "))
}

type Parsed = (Section, Vec<(String, Section)>);

fn parse(table: Table, directory: &Path) -> Result<Parsed, String> {
    let (mut defaults, mut queues) = (Section::default(), Vec::new());
    for (name, value) in table {
        match (name.as_str(), value) {
            ("defaults", Value::Table(keys)) => {
                defaults =
                    section(keys, directory).map_err(|error| format!("defaults: {error}"))?;
            }
            ("queue", Value::Table(all)) => {
                for (queue, keys) in all {
                    let Value::Table(keys) = keys else {
                        return Err(format!("write [queue.{queue}] and its keys below"));
                    };
                    let section = section(keys, directory);
                    queues.push((
                        queue.clone(),
                        section.map_err(|error| format!("queue {queue}: {error}"))?,
                    ));
                }
            }
            ("defaults" | "queue", _) => {
                return Err("write [defaults] or [queue.NAME] and the keys below".into());
            }
            (name, _) => {
                let sections = ["defaults", "queue.NAME"].into_iter();
                return Err(unknown("section", name, sections));
            }
        }
    }
    Ok((defaults, queues))
}

fn section(keys: Table, directory: &Path) -> Result<Section, String> {
    let mut section = Section::default();
    for (name, value) in keys {
        let wrong = |error: String| format!("{name}: {error}");
        match (name.as_str(), value) {
            ("where", value) => section.conditions = vec![text(value).map_err(wrong)?],
            ("exec", value) => section.exec = Some(command(value, directory).map_err(wrong)?),
            ("on_success", Value::String(word)) if word == "delete" => {
                section.on_success = Some(OnSuccess::Delete);
            }
            ("on_success", Value::Table(columns)) => {
                section.on_success = Some(OnSuccess::Set(assignments(columns).map_err(wrong)?));
            }
            ("on_failure", Value::Table(columns)) => {
                section.on_failure = Some(assignments(columns).map_err(wrong)?);
            }
            ("on_archive", Value::Table(columns)) => {
                section.on_archive = Some(assignments(columns).map_err(wrong)?);
            }
            ("on_success", _) => {
                return Err(wrong(
                    "write columns to set, { sent_at = \"{now}\" }, or \"delete\"".into(),
                ));
            }
            ("on_failure" | "on_archive", _) => {
                return Err(wrong("write columns to set, { tried_at = \"{now}\" }".into()));
            }
            ("status", Value::Boolean(false)) => {
                section.options.insert(NO_STATUS, Said::On);
            }
            ("status" | "date_inserted", Value::Table(parts)) => {
                for (part, value) in parts {
                    let full = format!("{name}.{part}");
                    let Some(key) = key(&full) else {
                        let prefix = format!("{name}.");
                        let legal = KEYS.iter().filter_map(|key| key.key.strip_prefix(&prefix));
                        return Err(wrong(unknown("key", &part, legal)));
                    };
                    set(&mut section, key, value, directory)
                        .map_err(|error| format!("{full}: {error}"))?;
                }
            }
            ("status" | "date_inserted", value) => {
                let Some(key) = key(&format!("{name}.column")) else { continue };
                set(&mut section, key, value, directory).map_err(wrong)?;
            }
            (name, value) => {
                let Some(key) = key(name) else { return Err(unknown_key(name)) };
                set(&mut section, key, value, directory).map_err(wrong)?;
            }
        }
    }
    if section.exec.is_some() && section.says("post") {
        return Err("exec and post are two handlers: leave one out".into());
    }
    Ok(section)
}

fn unknown_key(name: &str) -> String {
    // Whoever writes the option means its key.
    if let Some(key) = KEYS.iter().find(|key| key.long.replace('-', "_") == name) {
        return format!("no key {name:?}; did you mean {}?", key.key);
    }
    let options = KEYS.iter().map(|key| key.key).filter(|key| !key.contains('.'));
    let mut legal: Vec<_> = options.chain(OTHERS).collect();
    legal.sort_unstable();
    unknown("key", name, legal.into_iter())
}

/// Sets an option to what the file says of it.
fn set(section: &mut Section, key: &Key, value: Value, directory: &Path) -> Result<(), String> {
    let said = match (key.kind, value) {
        (Kind::Flag | Kind::Either, Value::Boolean(is)) => {
            if is {
                Said::On
            } else {
                Said::Off
            }
        }
        (Kind::Flag, _) => return Err("write true or false".into()),
        (Kind::Several, Value::Array(values)) => {
            let values: Result<Vec<_>, _> =
                values.into_iter().map(|value| text(value).map(|text| escaped(&text))).collect();
            Said::Value(values?.join(","))
        }
        (Kind::Several, value) => Said::Value(escaped(&text(value)?)),
        (Kind::Lines, Value::Array(values)) => {
            Said::Value(values.into_iter().map(text).collect::<Result<Vec<_>, _>>()?.join("\n"))
        }
        (Kind::Command, value) => {
            let words = command(value, directory)?;
            let joined = shlex::try_join(words.iter().map(String::as_str));
            Said::Value(joined.map_err(|error| error.to_string())?)
        }
        (Kind::Value | Kind::Path, Value::Boolean(_)) => {
            return Err("write text or a number".into());
        }
        (Kind::Path, value) => {
            let text = text(value)?;
            // A URL is none.
            Said::Value(if text.contains("://") { text } else { path(&text, directory)? })
        }
        (Kind::Value | Kind::Either | Kind::Lines, value) => Said::Value(text(value)?),
    };
    section.options.insert(key.long, said);
    Ok(())
}

/// A command and its arguments. A program that has a directory is found from that of the file.
fn command(value: Value, directory: &Path) -> Result<Vec<String>, String> {
    let Value::Array(words) = value else { return Err(NO_COMMAND.into()) };
    let mut words = words.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
    let program = words.first_mut().ok_or(NO_COMMAND)?;
    if program.is_empty() {
        return Err(EMPTY_COMMAND.into());
    }
    if program.contains('/') {
        *program = path(program, directory)?;
    }
    Ok(words)
}

const NO_COMMAND: &str = "write the command and its arguments, [\"/bin/echo\", \"{id}\"]";

fn key(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|it| it.key == name)
}

/// A path as it is from the directory of the file.
fn path(text: &str, directory: &Path) -> Result<String, &'static str> {
    directory.join(text).to_str().map(String::from).ok_or("the path is not UTF-8")
}

/// A value as it would be typed.
fn text(value: Value) -> Result<String, String> {
    let text = match value {
        Value::String(text) => text,
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(is) => u8::from(is).to_string(),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
            return Err("write text or a number".into());
        }
    };
    if text.contains('\0') {
        return Err("the text holds a NUL character".into());
    }
    Ok(text)
}

fn assignments(columns: Table) -> Result<Vec<Assignment>, String> {
    let one = |(column, value): (String, Value)| {
        let to = assigned(value).map_err(|error| format!("{column}: {error}"))?;
        Ok(Assignment { column, to })
    };
    columns.into_iter().map(one).collect()
}

/// The value that a column is set to. Constants stand for themselves; what stands for something
/// else is in
/// braces.
fn assigned(value: Value) -> Result<Assigned, String> {
    let constant = |value| Ok(Assigned::Constant(value));
    match value {
        Value::Integer(number) => constant(record::Value::Integer(number)),
        Value::Float(number) => constant(record::Value::Real(number)),
        Value::Boolean(is) => constant(record::Value::Integer(is.into())),
        Value::Table(mut table) => match (table.remove("text"), table.is_empty()) {
            (Some(Value::String(text)), true) => constant(record::Value::Text(text)),
            _ => Err("a table can only be { text = \"...\" }".into()),
        },
        Value::String(text) => match braced(&text) {
            None => constant(record::Value::Text(text)),
            Some("now") => Ok(Assigned::Now),
            Some("error") => Ok(Assigned::Error),
            Some("null") => constant(record::Value::Null),
            Some(word) => match word.parse() {
                Ok(number) if word.starts_with(['+', '-']) => Ok(Assigned::Add(number)),
                _ => Err(format!(
                    "{text:?} stands for nothing; legal are {{now}}, {{error}}, {{null}} and {{+1}}, \
                     or text as it is: {{ text = {text:?} }}"
                )),
            },
        },
        Value::Datetime(_) | Value::Array(_) => Err("write text, a number, true or false".into()),
    }
}

/// The one word between braces, if that is all.
fn braced(text: &str) -> Option<&str> {
    let word = text.strip_prefix('{')?.strip_suffix('}')?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || ['+', '-', '_'].contains(&c);
    word.chars().all(is_word).then_some(word)
}
