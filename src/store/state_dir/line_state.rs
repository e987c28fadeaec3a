//! State of a crontab line, kept as JSON from pass to pass.

use serde::Deserialize;

use crate::instant::Instant;
use crate::record::{Id, Key, Value};
use crate::selection::{Reached, Slot};

/// State of a crontab line that the next pass goes on from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LineState {
    /// When the last pass began.
    pub began_at: Option<Instant>,
    /// Behind which slot it began, if it went by slots.
    pub began_behind: Option<Slot>,
    pub reached: Option<Reached>,
}

impl LineState {
    pub fn to_json(&self) -> serde_json::Value {
        let mut json = serde_json::json!({ "began_at": self.began_at.map(|at| at.0) });
        if let Some(slot) = self.began_behind {
            json["began_behind"] = slot_to_json(slot);
        }
        match &self.reached {
            None => {}
            Some(Reached::Slot(slot)) => json["slot"] = slot_to_json(*slot),
            Some(Reached::Key(key)) => {
                json["inserted"] = match &key.inserted {
                    Value::Null => serde_json::Value::Null,
                    Value::Integer(number) => (*number).into(),
                    Value::Real(number) => (*number).into(),
                    Value::Text(text) => text.as_str().into(),
                    Value::Blob(bytes) => bytes.as_slice().into(),
                    Value::Boolean(truth) => (*truth).into(),
                    Value::Json(json) => json.as_str().into(),
                };
                json["id"] = serde_json::json!(key.id);
            }
        }
        json
    }

    /// What a file says that may be damaged: what cannot be read counts as not said.
    pub fn from_json(text: &[u8]) -> Self {
        let json: serde_json::Value = serde_json::from_slice(text).unwrap_or_default();
        let slot = |name: &str| json.get(name).and_then(slot_from_json);
        let key = || key_from_json(&json).map(Reached::Key);
        Self {
            began_at: json.get("began_at").and_then(serde_json::Value::as_i64).map(Instant),
            began_behind: slot("began_behind"),
            reached: slot("slot").map(Reached::Slot).or_else(key),
        }
    }
}

fn slot_to_json(slot: Slot) -> serde_json::Value {
    serde_json::json!([slot.tick, slot.phase])
}

fn slot_from_json(json: &serde_json::Value) -> Option<Slot> {
    Some(Slot { tick: json.get(0)?.as_i64()?, phase: json.get(1)?.as_u64()? })
}

fn key_from_json(json: &serde_json::Value) -> Option<Key> {
    let (inserted, id) = (json.get("inserted")?, json.get("id")?);
    let inserted = match inserted.as_str() {
        _ if inserted.is_null() => Value::Null,
        Some(text) => Value::Text(text.into()),
        None if inserted.is_array() => Value::Blob(Vec::deserialize(inserted).ok()?),
        None => inserted.as_i64().map(Value::Integer).or(inserted.as_f64().map(Value::Real))?,
    };
    Some(Key { inserted, id: Id::deserialize(id).ok()? })
}
