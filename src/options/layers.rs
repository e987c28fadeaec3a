//! Layers of options: what is typed counts before `--set`, that before the environment, and that
//! before backlog.toml. All of them hold the same keys and values.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::keys::{FLAGS, POST, gone};
use super::value::truth;
use crate::handlers::{Header, without_login};
use crate::record::one_line;
use crate::store;

/// The layer that a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The value that an option has where nothing is said.
    Usual,
    File,
    Environment,
    /// `--set`
    Set,
    CommandLine,
}

/// The values of a queue's keys, and where each comes from.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    values: BTreeMap<String, (Value, Origin)>,
    /// Those of all layers, which narrow each other: the lowest layer's first.
    pub conditions: Vec<String>,
}

/// A value that is none for its option.
pub struct Complaint {
    pub key: String,
    /// As TOML has it, with an equals sign before it; nothing where it may hold a password.
    pub value: String,
    pub origin: Origin,
    pub why: String,
}

impl Layers {
    pub fn insert(&mut self, key: impl Into<String>, value: Value, origin: Origin) {
        self.values.insert(key.into(), (value, origin));
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key).map(|(value, _)| value)
    }

    /// Whether a key has a value, and is not turned off.
    pub fn says(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| !is_off(key, value))
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }

    /// The values that count where `self` goes before `lower`.
    pub fn over(mut self, lower: Self) -> Self {
        let gone = gone(|key| self.says(key));
        for (key, (value, origin)) in lower.values {
            if gone.contains(&key.as_str()) {
                continue;
            }
            match (self.values.get_mut(&key), value) {
                (None, value) => self.insert(key, value, origin),
                // What is said of a column narrows what is said of the same.
                (Some((Value::Table(upper), _)), Value::Table(lower)) => {
                    for (name, value) in lower {
                        upper.entry(name).or_insert(value);
                    }
                }
                (Some(_), _) => {}
            }
        }
        self.conditions.splice(..0, lower.conditions);
        self
    }

    /// Leaves out the keys for which this does not hold.
    pub fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.values.retain(|key, _| is_wanted(key));
    }

    /// The keys that are not turned off, with their values and where each comes from.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value, Origin)> {
        let all = self.values.iter().map(|(key, (value, origin))| (key.as_str(), value, *origin));
        all.filter(|(key, value, _)| !is_off(key, value))
    }

    /// One group of options. The complaint is about the first value that is none.
    pub fn read<Group: DeserializeOwned>(&self) -> Result<Group, Complaint> {
        let table: Table = self.iter().map(|(key, value, _)| (key.into(), value.clone())).collect();
        let whole = table.try_into::<Group>();
        whole.map_err(|error| {
            let first = self.complaints::<Group>().into_iter().next();
            first.unwrap_or_else(|| Complaint {
                key: String::new(),
                value: String::new(),
                origin: Origin::File,
                why: error.message().into(),
            })
        })
    }

    /// All values that are none for a group of options.
    pub fn complaints<Group: DeserializeOwned>(&self) -> Vec<Complaint> {
        let complaint = |(key, value, origin): (&str, &Value, Origin)| {
            let alone = Table::from_iter([(key.into(), value.clone())]);
            let why = alone.try_into::<Group>().err()?.message().to_string();
            Some(Complaint { key: key.into(), value: shown(key, value), origin, why })
        };
        self.iter().filter_map(complaint).collect()
    }

    /// What in it is for nobody else to read, if there is such a thing.
    pub fn credential(&self) -> Option<&'static str> {
        let has_password = |url: &str| store::is_url(url) && store::without_password(url) != url;
        let has_login = |url: &str| without_login(url) != url;
        if self.text("db").is_some_and(has_password) {
            return Some("a password in `db`");
        }
        if self.text(POST).is_some_and(has_login) {
            return Some("a login in `post`");
        }
        let is_credential = |line: &str| Header::parse(line).is_ok_and(|it| it.is_credential());
        let header = self.get("header")?;
        let lines = header.as_array().into_iter().flatten().chain([header]);
        let mut lines = lines.filter_map(Value::as_str).flat_map(str::lines);
        lines.any(is_credential).then_some("a credential in `header`")
    }
}

fn shown(key: &str, value: &Value) -> String {
    if ["db", "header", "post"].contains(&key) || value.is_array() || value.is_table() {
        return String::new();
    }
    format!(" = {}", one_line(&value.to_string()))
}

/// Whether a flag is turned off, whatever a layer below says.
fn is_off(key: &str, value: &Value) -> bool {
    FLAGS.contains(&key)
        && (value.as_bool() == Some(false) || value.as_str().and_then(truth) == Some(false))
}
