//! One column: the values that its type takes, and its spelling of instants.

use crate::date::Spelling;
use crate::record::Value;

#[derive(Clone)]
pub struct Column {
    pub name: String,
    /// Its type, as the table declares it.
    pub declared: String,
    pub holds: Holds,
    /// The only values that it takes, if its type names them.
    pub legal: Option<Vec<String>>,
    /// How many characters of text it takes, if its type says so.
    pub most_chars: Option<usize>,
    /// The largest number that it takes, if its type says so.
    pub most_number: Option<i64>,
    /// Whether the database gives a value where none is inserted.
    pub has_default: bool,
    pub is_generated: bool,
    pub not_null: bool,
    pub spelling: Spelling,
}

/// The values that a type holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    Integers,
    Reals,
    /// Numbers, and what is none stays as it is.
    Numbers,
    Text,
    Booleans,
    /// JSON.
    Documents,
    Bytes,
    /// Points in time; the database itself orders and compares them.
    Instants,
    /// What a clock showed that does not say where it stood.
    ClockTimes,
    /// What it is given.
    Anything,
}

impl Holds {
    /// Whether values are text as the database shows them.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Instants | Self::ClockTimes | Self::Anything)
    }

    /// Whether dates can be in there.
    pub fn dates(self) -> bool {
        !matches!(self, Self::Booleans | Self::Documents | Self::Bytes)
    }

    /// Whether a count can be in there: in text it would be text.
    pub fn counts(self) -> bool {
        matches!(self, Self::Integers | Self::Reals | Self::Numbers | Self::Anything)
    }
}

impl Column {
    /// A value as the column would hold it.
    pub fn hold(&self, value: &Value) -> Value {
        match (self.holds, value) {
            (Holds::Text | Holds::Instants | Holds::ClockTimes, Value::Integer(number)) => {
                Value::Text(number.to_string())
            }
            (Holds::Integers | Holds::Numbers, Value::Text(text)) => {
                text.parse().map_or_else(|_| value.clone(), Value::Integer)
            }
            (Holds::Reals, Value::Integer(_) | Value::Text(_)) => {
                value.to_string().parse().map_or_else(|_| value.clone(), Value::Real)
            }
            (Holds::Booleans, Value::Integer(_) | Value::Text(_)) => {
                boolean(&value.to_string()).map_or_else(|| value.clone(), Value::Boolean)
            }
            _ => value.clone(),
        }
    }

    /// Whether a value, as the column would hold it, is one of its type.
    pub fn fits(&self, held: &Value) -> bool {
        match (self.holds, held) {
            (Holds::Integers | Holds::Reals | Holds::Booleans, Value::Text(_)) => false,
            (_, Value::Text(text)) => self.legal.as_ref().is_none_or(|legal| legal.contains(text)),
            _ => true,
        }
    }

    /// Whether its type is too small for a number.
    pub fn is_too_small_for(&self, value: &Value) -> bool {
        matches!((value, self.most_number), (Value::Integer(number), Some(most)) if *number > most)
    }

    /// Text, cut to the length that the type declares, as in VARCHAR(255).
    pub fn cut(&self, text: &str) -> String {
        text.chars().take(self.most_chars.unwrap_or(usize::MAX)).collect()
    }
}

/// The spellings of truth that SQL knows.
fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "t" | "true" | "y" | "yes" | "on" => Some(true),
        "0" | "f" | "false" | "n" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// The columns by name, each once. They are a few, so each is compared with those before it.
pub fn distinct<'a>(columns: impl IntoIterator<Item = &'a Column>) -> Vec<&'a Column> {
    let mut distinct: Vec<&Column> = Vec::new();
    for column in columns {
        if distinct.iter().all(|it| it.name != column.name) {
            distinct.push(column);
        }
    }
    distinct
}
