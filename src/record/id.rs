//! Ids of records, and the spelling in which a person types them.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{cut, one_line};

/// The id of a record: the value of its ID column, or the values of several.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    Integer(i64),
    Text(Box<str>),
    Composite(Box<[Self]>),
}

impl Id {
    /// The ids of `columns` columns that a person may mean, with commas between their parts, each a
    /// number or else text. A comma that is part of the text has a backslash before it.
    pub fn typed(text: &str, columns: usize) -> Vec<Self> {
        let one = |text: &str| {
            number(text).map(Self::Integer).into_iter().chain([Self::Text(text.into())])
        };
        let parts = if columns == 1 { vec![text.into()] } else { split(text) };
        if parts.len() != columns {
            return Vec::new();
        }
        let mut ids = vec![Vec::new()];
        for part in &parts {
            let with = |id| one(part).map(move |last| [id, &[last][..]].concat());
            ids = ids.iter().map(Vec::as_slice).flat_map(with).collect();
        }
        ids.into_iter().map(Self::of).collect()
    }

    /// The id whose columns have these values, at least one.
    pub fn of(mut parts: Vec<Self>) -> Self {
        match parts.len() {
            1 => parts.remove(0),
            _ => Self::Composite(parts.into()),
        }
    }

    pub fn parts(&self) -> &[Self] {
        match self {
            Self::Integer(_) | Self::Text(_) => std::slice::from_ref(self),
            Self::Composite(parts) => parts,
        }
    }

    /// The id as it is, control characters and all.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Integer(id) => id.to_string().into(),
            Self::Text(id) => id.as_ref().into(),
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

/// The number that a text is; what is spelt otherwise, as 007, is just text.
pub fn number(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().filter(|number| number.to_string() == text)
}

/// What stands between commas that have no backslash before them.
pub fn split(text: &str) -> Vec<String> {
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
    /// For messages: on one line, and cut if it is too long to be read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&cut(self.full()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_by_what_is_shown_of_it() {
        let text = |text: &str| Id::Text(text.into());
        let composite = |parts: &[Id]| Id::Composite(parts.into());
        for (id, shown) in [
            (Id::Integer(-7), "-7"),
            (text("7"), "7"),
            (text("a,b\\"), "a,b\\"),
            (composite(&[Id::Integer(7), text("7")]), "7,7"),
            (composite(&[text("a,b\\"), text(""), Id::Integer(1)]), "a\\,b\\\\,,1"),
        ] {
            assert_eq!(id.full(), shown);
            assert!(Id::typed(shown, id.parts().len()).contains(&id), "{shown}");
        }
        assert_eq!(Id::typed("1,2", 3), []);
        for text in ["007", "+7", "-0"] {
            assert_eq!(Id::typed(text, 1), [Id::Text(text.into())]);
        }
    }
}
