//! Layers from TOML: a section of backlog.toml, or the values of `--set`.

use std::path::Path;
use std::str::FromStr;

use toml::{Table, Value};

use super::key::{Key, KeyKind};
use super::keys::require;
use super::layers::{Layers, Origin};
use super::raw::{OPEN, text};
use super::table::OPEN_QUESTION;

const QUOTED: &str = "put each text in quotes, as in {column=\"state\"} or [\"a\",\"b\"]";

/// Makes a layer of keys and values. Paths are relative to `directory`.
pub fn layer(
    keys: impl IntoIterator<Item = (String, Value)>,
    directory: Option<&Path>,
    origin: Origin,
) -> Result<Layers, String> {
    let mut layer = Layers::default();
    for (name, mut value) in keys {
        let key = require(&name)?;
        let inserted = if name == "where" {
            text(value).map(|condition| layer.conditions.push(condition))
        } else {
            let absolute =
                directory.map_or(Ok(()), |directory| make_absolute(key, &mut value, directory));
            absolute.and_then(|()| layer.insert_toml(key, value, origin))
        };
        inserted.map_err(|why| format!("{name}: {why}"))?;
    }
    if layer.has_two_handlers() {
        return Err("exec and post are two handlers: choose one".into());
    }
    Ok(layer)
}

/// Prepends the directory to a relative path. URLs and programs in PATH stay as they are.
fn make_absolute(key: &Key, value: &mut Value, directory: &Path) -> Result<(), String> {
    let is_program = key.kind == KeyKind::Command;
    let path = if is_program {
        value.as_array_mut().and_then(|words| words.first_mut())
    } else {
        Some(value).filter(|_| key.kind == KeyKind::Path)
    };
    if let Some(Value::String(text)) = path
        && if is_program { text.contains('/') } else { !text.contains("://") }
    {
        let absolute = directory.join(&*text);
        *text = absolute.to_str().ok_or("the path is not UTF-8")?.into();
    }
    Ok(())
}

/// A key and its value from `--set`. The key may name a part of a table: `status.new`.
#[derive(Debug, Clone)]
pub struct Setting {
    pub text: String,
    pub key: String,
    pub value: Value,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (path, value) = text.split_once('=').ok_or("write KEY=VALUE, as in id=order_id")?;
        let mut path = path.split('.').map(str::trim);
        let key = require(path.next().unwrap_or_default())?;
        let path: Vec<_> = path.collect();
        // A bare word is text.
        let value = match format!("value = {value}").parse::<Table>() {
            Ok(table) if table.len() == 1 => table["value"].clone(),
            _ if is_structured(key, &path) && value.trim_start().starts_with(['{', '[']) => {
                return Err(format!("{value} is not TOML: {QUOTED}"));
            }
            _ => Value::String(value.into()),
        };
        let part = |value, name: &str| Value::Table(Table::from_iter([(name.into(), value)]));
        let value = path.into_iter().rfold(value, part);
        Ok(Self { text: text.into(), key: key.name.into(), value })
    }
}

/// True if a leading bracket begins a table or an array; elsewhere it may begin text.
fn is_structured(key: &Key, path: &[&str]) -> bool {
    match key.kind {
        KeyKind::Assignments => path.is_empty(),
        KeyKind::Column(_) | KeyKind::List | KeyKind::Command => true,
        KeyKind::Value => key.name == "max_attempts",
        KeyKind::Flag | KeyKind::Optional | KeyKind::Path => false,
    }
}

/// The error about a line that is not TOML: an open question, missing quotes, or else the parser's message.
pub fn syntax_error(message: &str, found: &str, line: &str) -> String {
    if message == "duplicate key" {
        return format!("{message} {found:?}");
    }
    // Outside of quotes and comments, ? is never TOML.
    let unquoted: String = line.split(['"', '\'']).step_by(2).collect();
    if unquoted.split('#').next().is_some_and(|code| code.contains(OPEN)) {
        return OPEN_QUESTION.into();
    }
    let value = line.split_once('=').map_or("", |(_, value)| value.trim());
    let is_bare = value.starts_with(|c: char| c.is_ascii_alphanumeric())
        || !value.is_empty() && message.starts_with("string values must be quoted");
    if is_bare { QUOTED.into() } else { message.into() }
}
