//! Clauses of a guarded write in SQL, from the terms of a change.

use crate::sql::EVERY;
use crate::table::{Term, TermRole, joined, quote};

#[derive(Default)]
pub struct Clauses {
    ids: Vec<String>,
    guards: Vec<String>,
    pub sets: Vec<String>,
    /// Conditions that hold once the assignments are made.
    written: Vec<String>,
}

impl Clauses {
    /// Adds a term. `prefix` qualifies its column, `value` is the new value in SQL, and `equals` compares them exactly.
    pub fn add(
        &mut self,
        term: &Term<'_>,
        prefix: &str,
        value: impl FnOnce() -> String,
        equals: impl FnOnce(&str, &str) -> String,
    ) {
        let column = quote(&term.column.name);
        let own = format!("{prefix}{column}");
        if let TermRole::Grow(increment) = term.role {
            return self.sets.push(format!("{column} = coalesce({own}, 0) + {increment}"));
        }
        let value = value();
        match term.role {
            TermRole::Grow(_) => {}
            TermRole::Id => self.ids.push(format!("{own} = {value}")),
            TermRole::Guard => self.guards.push(equals(&own, &value)),
            TermRole::Set => {
                self.written.push(equals(&own, &value));
                self.sets.push(format!("{column} = {value}"));
            }
        }
    }

    pub fn has_id(&self) -> String {
        self.ids.join(" AND ")
    }

    /// The condition of rows that nobody changed.
    pub fn is_expected(&self) -> String {
        all(&self.guards)
    }

    pub fn is_written(&self) -> String {
        all(&self.written)
    }

    pub fn condition(&self) -> String {
        joined(self.ids.iter().chain(&self.guards).cloned(), " AND ")
    }
}

fn all(conditions: &[String]) -> String {
    if conditions.is_empty() { EVERY.into() } else { conditions.join(" AND ") }
}
