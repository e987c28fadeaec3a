//! Ids of records, and the spellings in which people type them.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::text::{cut, one_line};

/// The id of a record: the value of its ID column, or the values of several.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Id {
    Integer(i64),
    Text(Box<str>),
    /// Displayed and typed in hexadecimal.
    Bytes(Box<[u8]>),
    Composite(Box<[Self]>),
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(id) => serializer.serialize_i64(*id),
            Self::Text(_) | Self::Bytes(_) => serializer.serialize_str(&self.text()),
            Self::Composite(parts) => serializer.collect_seq(parts),
        }
    }
}

impl Id {
    /// Returns each id of `columns` columns that a typed text may mean. Commas separate the columns.
    pub fn readings(text: &str, columns: usize) -> Vec<Self> {
        let one = |text: &str| {
            let (number, bytes) = (parse_integer(text).map(Self::Integer), bytes(text));
            number.into_iter().chain([Self::Text(text.into())]).chain(bytes)
        };
        let parts = if columns == 1 { vec![text.into()] } else { split_id(text) };
        if parts.len() != columns {
            return Vec::new();
        }
        let mut ids = vec![Vec::new()];
        for part in &parts {
            let with = |id| one(part).map(move |last| [id, &[last][..]].concat());
            ids = ids.iter().map(Vec::as_slice).flat_map(with).collect();
        }
        ids.into_iter().map(Self::from).collect()
    }

    pub fn parts(&self) -> &[Self] {
        match self {
            Self::Integer(_) | Self::Text(_) | Self::Bytes(_) => std::slice::from_ref(self),
            Self::Composite(parts) => parts,
        }
    }

    pub fn has_part(&self, bytes: &[u8]) -> bool {
        self.parts().iter().any(|part| matches!(part, Self::Bytes(part) if **part == *bytes))
    }

    /// The whole id, with control characters as they are.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Integer(id) => id.to_string().into(),
            Self::Text(id) => id.as_ref().into(),
            Self::Bytes(id) => hexadecimal(id).into(),
            Self::Composite(parts) => {
                let escaped = |part: &Self| part.text().replace('\\', "\\\\").replace(',', "\\,");
                parts.iter().map(escaped).collect::<Vec<_>>().join(",").into()
            }
        }
    }

    pub fn full(&self) -> String {
        one_line(&self.text())
    }
}

impl From<Vec<Self>> for Id {
    /// The id of a row whose ID columns, at least one, have these values.
    fn from(mut parts: Vec<Self>) -> Self {
        match parts.len() {
            1 => parts.remove(0),
            _ => Self::Composite(parts.into()),
        }
    }
}

pub fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |four: u8| char::from_digit(four.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Reads hexadecimal digits, also as PostgreSQL writes them (`\x00ff`); a UUID may have hyphens.
fn bytes(text: &str) -> Option<Id> {
    let text = text.strip_prefix("\\x").unwrap_or(text);
    let is_uuid = text.len() == 36 && text.match_indices('-').map(|(at, _)| at).eq([8, 13, 18, 23]);
    let digits = if is_uuid { &text.replace('-', "") } else { text };
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        u8::try_from(high? << 4 | low?).ok()
    };
    let bytes = pairs.iter().map(byte).collect::<Option<Vec<u8>>>()?;
    rest.is_empty().then(|| Id::Bytes(bytes.into()))
}

/// Reads a number in its usual spelling only: 007 is text.
pub fn parse_integer(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().filter(|number| number.to_string() == text)
}

/// Splits a text at commas. A backslash escapes a comma or another backslash.
pub fn split_id(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match parts.last_mut().filter(|_| c != ',') {
            None => parts.push(String::new()),
            Some(part) => part.push(if c == '\\' { chars.next().unwrap_or(c) } else { c }),
        }
    }
    parts
}

impl fmt::Display for Id {
    /// For messages: on one line, and cut if it is long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&cut(self.full()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_by_its_displayed_text() {
        let text = |text: &str| Id::Text(text.into());
        let composite = |parts: &[Id]| Id::Composite(parts.into());
        for (id, typed) in [
            (Id::Integer(-7), "-7"),
            (text("7"), "7"),
            (text("a,b\\"), "a,b\\"),
            (Id::Bytes([0, 0xab, 0x10].into()), "00ab10"),
            (composite(&[Id::Bytes([0xff].into()), Id::Integer(7)]), "ff,7"),
            (composite(&[Id::Integer(7), text("7")]), "7,7"),
            (composite(&[text("a,b\\"), text(""), Id::Integer(1)]), "a\\,b\\\\,,1"),
        ] {
            assert_eq!(id.full(), typed);
            assert!(Id::readings(typed, id.parts().len()).contains(&id), "{typed}");
        }
        assert!(Id::readings("\\x00FF", 1).contains(&Id::Bytes([0, 0xff].into())));
        let uuid = Id::readings("0192F5A0-7C1e-7000-8000-00000000002A", 1);
        assert!(uuid.contains(&Id::readings("0192f5a07c1e7000800000000000002a", 1)[1]), "{uuid:?}");
        assert_eq!(Id::readings("1,2", 3), []);
        for text in ["007", "+7", "-0"] {
            assert_eq!(Id::readings(text, 1), [Id::Text(text.into())]);
        }
    }
}
