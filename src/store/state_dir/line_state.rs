//! State of a crontab line, kept as JSON from pass to pass.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::query::{Cursor, Kept, Position, Slot};
use crate::record::{Id, Key, Value};
use crate::time::Instant;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct LineState {
    pub began_at: Option<Instant>,
    /// Behind which slot it began, if it went by slots.
    pub began_behind: Option<Slot>,
    pub cursor: Cursor,
    /// When it was looked last whether any row has a status that is mapped.
    pub unmapped_sought_at: Option<Instant>,
}

impl LineState {
    /// A line of JSON, and a second one that may be lost: a write of more than a page can be cut by
    /// a kill. Both say how far on they lead, so that none is taken for one of another time.
    pub fn to_text(&self) -> String {
        let Cursor { reached, kept, ahead, stuck } = &self.cursor;
        let mut json = json!({ "began_at": self.began_at.map(|at| at.0) });
        if let Some(slot) = self.began_behind {
            json["began_behind"] = slot_to_json(slot);
        }
        if let Some(at) = self.unmapped_sought_at {
            json["unmapped_sought_at"] = at.0.into();
        }
        match reached {
            None => {}
            Some(Position::Slot(slot)) => json["slot"] = slot_to_json(*slot),
            Some(Position::Key(key)) => add_key(&mut json, key),
        }
        if let Some(key) = stuck {
            json["stuck"] = json!({});
            add_key(&mut json["stuck"], key);
        }
        if !kept.is_empty() {
            json["kept"] = kept_to_json(kept);
        }
        let Some((slot, kept)) = ahead else { return json.to_string() };
        json["ahead"] = slot_to_json(*slot);
        let more = json!({ "ahead": slot_to_json(*slot), "kept": kept_to_json(kept) });
        format!("{json}\n{more}")
    }

    /// What a file says that may be damaged: what cannot be read counts as not said.
    pub fn from_text(text: &[u8]) -> Self {
        let lines = text.split(|byte| *byte == b'\n');
        let mut lines = lines.map(|it| serde_json::from_slice::<Json>(it).unwrap_or_default());
        let json = lines.next().unwrap_or_default();
        let slot = |name: &str| {
            let (tick, phase) = Deserialize::deserialize(json.get(name)?).ok()?;
            Some(Slot { tick, phase })
        };
        let instant = |name: &str| json.get(name).and_then(Json::as_i64).map(Instant);
        let key = || key_from_json(&json).map(Position::Key);
        let ahead =
            lines.next().filter(|it| it.get("ahead").is_some_and(|at| at == &json["ahead"]));
        let ahead = ahead.and_then(|it| Some((slot("ahead")?, kept_of(&it))));
        Self {
            began_at: instant("began_at"),
            began_behind: slot("began_behind"),
            cursor: Cursor {
                reached: slot("slot").map(Position::Slot).or_else(key),
                kept: kept_of(&json),
                ahead,
                stuck: json.get("stuck").and_then(key_from_json),
            },
            unmapped_sought_at: instant("unmapped_sought_at"),
        }
    }
}

fn kept_of(json: &Json) -> Vec<Kept> {
    let kept = json.get("kept").and_then(Json::as_array).into_iter().flatten();
    let kept = kept.filter_map(|it| <(Id, i64, u64, u32)>::deserialize(it).ok());
    kept.map(|(id, tick, phase, begun)| Kept { id, slot: Slot { tick, phase }, begun }).collect()
}

fn add_key(json: &mut Json, key: &Key) {
    json["inserted"] = match &key.inserted {
        Value::Null => Json::Null,
        Value::Integer(number) => (*number).into(),
        Value::Real(number) => (*number).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Bytes(bytes) => json!({ "text": bytes }),
        Value::Blob(bytes) => bytes.as_slice().into(),
        Value::Boolean(truth) => (*truth).into(),
        Value::Json(json) => json.as_str().into(),
    };
    json["id"] = json!(key.id);
}

fn kept_to_json(kept: &[Kept]) -> Json {
    kept.iter().map(|it| json!([it.id, it.slot.tick, it.slot.phase, it.begun])).collect()
}

fn slot_to_json(slot: Slot) -> Json {
    json!([slot.tick, slot.phase])
}

fn key_from_json(json: &Json) -> Option<Key> {
    let (inserted, id) = (json.get("inserted")?, json.get("id")?);
    let inserted = match inserted.as_str() {
        _ if inserted.is_null() => Value::Null,
        Some(text) => Value::Text(text.into()),
        None if inserted.is_array() => Value::Blob(Vec::deserialize(inserted).ok()?),
        None if inserted.is_object() => Value::of_text(&Vec::deserialize(&inserted["text"]).ok()?),
        None => inserted.as_i64().map(Value::Integer).or(inserted.as_f64().map(Value::Real))?,
    };
    Some(Key { inserted, id: Id::deserialize(id).ok()? })
}
