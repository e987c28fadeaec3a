//! Values before they are parsed.

use std::ffi::OsString;
use std::path::PathBuf;

use toml::{Table, Value};

/// Words of the command line or the environment, or a value of TOML.
#[derive(Debug, Clone, PartialEq)]
pub enum Raw {
    Words(Vec<OsString>),
    Toml(Value),
}

/// The placeholder of `adopt` for a missing answer.
pub const OPEN: &str = "?";

impl From<&str> for Raw {
    fn from(text: &str) -> Self {
        Self::Toml(Value::String(text.into()))
    }
}

impl Raw {
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Words(words) => words.first().filter(|_| words.len() == 1)?.to_str(),
            Self::Toml(value) => value.as_str(),
        }
    }

    pub fn as_table(&self) -> Option<&Table> {
        if let Self::Toml(value) = self { value.as_table() } else { None }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Toml(Value::Boolean(is)) => Some(*is),
            Self::Words(_) | Self::Toml(_) => self.as_str().and_then(truth),
        }
    }

    /// One text, or a number as text.
    pub fn into_text(self) -> Result<String, String> {
        match self {
            Self::Words(mut words) => match (words.pop(), words.is_empty()) {
                (Some(word), true) => utf8(word),
                _ => Err("the option is given more than once".into()),
            },
            Self::Toml(Value::Boolean(_)) => Err("write text or a number".into()),
            Self::Toml(value) => text(value),
        }
    }

    pub fn into_texts(self) -> Result<Vec<String>, String> {
        match self {
            Self::Words(words) => words.into_iter().map(utf8).collect(),
            Self::Toml(value) => texts(value),
        }
    }

    pub fn into_path(self) -> Result<PathBuf, String> {
        match self {
            // A path need not be UTF-8.
            Self::Words(words) if words.len() == 1 => Ok(words.into_iter().collect()),
            Self::Words(_) | Self::Toml(_) => self.into_text().map(PathBuf::from),
        }
    }

    pub fn into_bool(self) -> Result<bool, String> {
        self.as_bool().ok_or_else(|| "write true or false".into())
    }

    pub fn parse<T>(self, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<T, String> {
        parse(&self.into_text()?)
    }
}

fn utf8(word: OsString) -> Result<String, String> {
    word.into_string().map_err(|_| "the text is not UTF-8".into())
}

/// A value of TOML as it is typed on a command line.
pub fn text(value: Value) -> Result<String, String> {
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
        return Err("the text contains a NUL character".into());
    }
    Ok(text)
}

pub fn texts(value: Value) -> Result<Vec<String>, String> {
    let values = if let Value::Array(values) = value { values } else { vec![value] };
    values.into_iter().map(text).collect()
}

pub fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}
