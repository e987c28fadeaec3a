//! Ids as JSON in state.db. Unlike in reports, bytes differ from text.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value as Json, json};

use crate::id::Id;

pub fn to_json(id: &Id) -> Json {
    match id {
        Id::Integer(number) => json!(number),
        Id::Text(text) => json!(text),
        Id::Bytes(bytes) => json!({ "bytes": bytes }),
        Id::Composite(parts) => parts.iter().map(to_json).collect(),
    }
}

pub fn from_json(json: &Json) -> Option<Id> {
    Some(match json {
        Json::Number(number) => Id::Integer(number.as_i64()?),
        Json::String(text) => Id::Text(text.as_str().into()),
        Json::Array(parts) => Id::Composite(parts.iter().map(from_json).collect::<Option<_>>()?),
        Json::Object(object) => Id::Bytes(Box::deserialize(object.get("bytes")?).ok()?),
        Json::Null | Json::Bool(_) => return None,
    })
}

pub fn serialize<S: Serializer>(id: &Id, serializer: S) -> Result<S::Ok, S::Error> {
    to_json(id).serialize(serializer)
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
    from_json(&Json::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("no id"))
}
