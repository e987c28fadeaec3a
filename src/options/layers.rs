//! Layers of values, one for each source of options.

use std::collections::BTreeMap;
use std::path::PathBuf;

use backlog_schedule::{one_line, unknown_name};
use backlog_store::{is_url, without_password};
use toml::{Table, Value};

use super::key::{EXEC, Key, KeyDefault, KeyKind, KeyRole, POST, variable};
use super::keys::all;
use super::raw::Raw;
use super::settings::Settings;
use crate::handlers::{Header, without_login};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A default that depends on other options.
    Default,
    File,
    Environment,
    Set,
    CommandLine,
}

#[derive(Debug, Clone, Default)]
pub struct Layers {
    values: BTreeMap<&'static str, (&'static Key, Raw, Origin)>,
    /// The conditions of all layers, from the lowest layer up. A record must meet all of them.
    pub conditions: Vec<String>,
}

impl Layers {
    /// Inserts a value. If the key already has a table, the tables are merged.
    pub fn insert(&mut self, key: &'static Key, raw: Raw, origin: Origin) {
        let raw = match (self.values.remove(key.name), raw) {
            (Some((_, Raw::Toml(Value::Table(mut parts)), _)), Raw::Toml(Value::Table(more))) => {
                parts.extend(more);
                Raw::Toml(Value::Table(parts))
            }
            (_, raw) => raw,
        };
        self.values.insert(key.name, (key, raw, origin));
    }

    /// Inserts a value of TOML. `status = "state"` means `status = { column = "state" }`.
    pub fn insert_toml(
        &mut self,
        key: &'static Key,
        value: Value,
        origin: Origin,
    ) -> Result<(), String> {
        let value = match (key.kind, value) {
            (KeyKind::Column(legal), Value::Table(parts)) => {
                let is_legal = |part: &&String| legal.contains(&part.as_str());
                if let Some(part) = parts.keys().find(|part| !is_legal(part)) {
                    return Err(unknown_name("key", part, legal.iter().copied()));
                }
                Value::Table(parts)
            }
            (KeyKind::Column(_), value) if !value.is_bool() => {
                Value::Table(Table::from_iter([("column".into(), value)]))
            }
            (_, value) => value,
        };
        self.insert(key, Raw::Toml(value), origin);
        Ok(())
    }

    pub fn get(&self, key: &str) -> Option<&Raw> {
        debug_assert!(Key::named(key).is_some(), "there is no key {key}");
        self.values.get(key).map(|(_, raw, _)| raw)
    }

    pub fn origin(&self, key: &str) -> Option<Origin> {
        self.values.get(key).map(|(_, _, origin)| *origin)
    }

    /// True if a key has a value, and is not switched off.
    pub fn has(&self, key: &str) -> bool {
        debug_assert!(Key::named(key).is_some(), "there is no key {key}");
        self.has_any(|other| other.name == key)
    }

    pub fn has_two_handlers(&self) -> bool {
        self.has(EXEC) && self.has(POST)
    }

    pub fn has_any(&self, is_meant: impl Fn(&Key) -> bool) -> bool {
        self.iter().any(|(key, ..)| is_meant(key))
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Raw::as_str)
    }

    pub fn path(&self, key: &str) -> Option<PathBuf> {
        self.get(key)?.clone().into_path().ok()
    }

    /// Merges two layers. The values of `self` replace the values of `lower`.
    pub fn over(self, mut lower: Self) -> Self {
        let has_schedule = self.has_any(|key| key.role == KeyRole::Schedule);
        let (has_exec, has_post) = (self.has(EXEC), self.has(POST));
        let has_exec_below = lower.has(EXEC);
        lower.retain(|key| match key.role {
            KeyRole::Independent => true,
            KeyRole::Schedule | KeyRole::ScheduleDetail => !has_schedule,
            KeyRole::Command => !has_exec && !has_post,
            // A webhook keeps the webhook keys of lower layers: without them a token would be missing.
            KeyRole::Webhook => !has_exec,
            KeyRole::GiveUpOn => !has_exec && (!has_post || !has_exec_below),
        });
        for (key, raw, origin) in self.values.into_values() {
            lower.insert(key, raw, origin);
        }
        lower.conditions.extend(self.conditions);
        lower
    }

    pub fn retain(&mut self, is_wanted: impl Fn(&Key) -> bool) {
        self.values.retain(|_, (key, ..)| is_wanted(key));
    }

    /// The values, without switches that are off.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Key, &Raw, Origin)> {
        let is_switch = |key: &Key| matches!(key.kind, KeyKind::Flag | KeyKind::Optional);
        let is_off = move |key: &Key, raw: &Raw| is_switch(key) && raw.as_bool() == Some(false);
        let values = self.values.values().map(|(key, raw, origin)| (*key, raw, *origin));
        values.filter(move |(key, raw, _)| !is_off(key, raw))
    }

    /// Parses all values, and the defaults of other keys. `file` is a prefix for errors in backlog.toml.
    pub fn settings(&self, file: &str) -> (Settings, Vec<String>) {
        let (mut settings, mut complaints) = (Settings::default(), Vec::new());
        for key in all() {
            if let KeyDefault::Value(value) = key.default {
                let parsed = (key.parse)(&mut settings, Raw::from(value));
                debug_assert_eq!(parsed, Ok(()), "default of {}", key.name);
            }
        }
        for (key, raw, origin) in self.iter() {
            if let Err(why) = (key.parse)(&mut settings, raw.clone()) {
                complaints.push(complaint(key, raw, origin, file, &why));
            }
        }
        (settings, complaints)
    }

    pub fn credential(&self) -> Option<&'static str> {
        if self.text("db").is_some_and(|db| is_url(db) && without_password(db) != db) {
            return Some("a password in `db`");
        }
        if self.text(POST).is_some_and(|url| without_login(url) != url) {
            return Some("a login in `post`");
        }
        if self.has("ping") {
            return Some("a URL in `ping`");
        }
        let is_credential =
            |line: &str| Header::parse(line).is_ok_and(|header| header.is_credential());
        let headers = self.get("header")?.clone().into_texts().ok()?;
        headers.iter().any(|line| is_credential(line)).then_some("a credential in `header`")
    }
}

/// A value as text for a message, unless it may contain a password, or is a list or table.
fn display_value(key: &Key, raw: &Raw, origin: Origin) -> Option<String> {
    let raw = Some(raw).filter(|_| !key.is_secret)?;
    let text = match raw {
        // Only a value of a file has quotes.
        _ if origin != Origin::File && raw.as_str().is_some() => raw.as_str()?.to_string(),
        Raw::Words(_) => return None,
        Raw::Toml(value) if value.is_array() || value.is_table() => return None,
        Raw::Toml(value) => value.to_string(),
    };
    Some(if text.is_empty() { "''".into() } else { one_line(&text) })
}

fn complaint(key: &Key, raw: &Raw, origin: Origin, file: &str, why: &str) -> String {
    let (name, equals) = match origin {
        Origin::CommandLine if key.name == EXEC => ("the handler".into(), " "),
        Origin::CommandLine => (format!("--{}", key.long), " "),
        Origin::Set => (format!("--set {}", key.name), "="),
        Origin::Environment => (variable(key.long), "="),
        Origin::File | Origin::Default => (format!("{file}{}", key.name), " = "),
    };
    match display_value(key, raw, origin) {
        Some(value) => format!("{name}{equals}{value}: {why}"),
        None => format!("{name}: {why}"),
    }
}
