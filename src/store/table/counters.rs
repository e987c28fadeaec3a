//! Checks of the columns FAILURES and LAST_FAILURE: that they hold what a pass writes there, and
//! nothing that it would write over.

use super::Column;
use super::lookup::is_never;
use crate::date::Dates;
use crate::mapping::Name;
use crate::record::Value;

/// A counter column, and what a pass writes there when an attempt begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    Failures,
    LastFailure,
}

/// Types that hold neither counts nor dates, also where a database makes numbers or text of them.
const OTHER_TYPES: [&str; 4] = ["BOOL", "BOOLEAN", "JSON", "JSONB"];

impl Counter {
    /// What is the matter with a column that is to hold this, if anything is. As long as one of the
    /// samples is what it must be, others may be missing or spoilt.
    pub fn complaint(
        self,
        (name, column): (&Name, &Column),
        table: &str,
        (samples, dates): (&[Value], &Dates),
    ) -> Option<String> {
        let foreign = samples.iter().find(|value| !self.is_none(value)).map(Value::shown);
        let is_right = samples.iter().any(|value| self.is_right(value, dates));
        let found = match (foreign, self.fits(column)) {
            (Some(value), false) => format!("is {} and holds {value}", column.declared),
            (None, false) => format!("is {}", column.declared),
            (Some(value), true) if !is_right => format!("holds {value}"),
            (_, true) => return None,
        };
        let (role, holds, option) = match self {
            Self::Failures => ("the count of failures", "small numbers", "failures"),
            Self::LastFailure => ("the last failure", "dates or nothing", "last_failure"),
        };
        let (column, why) = (&column.name, if name.is_given { "" } else { " by its name" });
        Some(format!(
            "column {column} of table {table} is{why} {role}, and each attempt would write over it: \
             it {found}, and must hold {holds}; name another one with --set {option}=COLUMN, or none with --set {option}="
        ))
    }

    /// Whether the type can hold it, so that it is read as it was written.
    fn fits(self, column: &Column) -> bool {
        let declared = column.declared.to_ascii_uppercase();
        let is_other = OTHER_TYPES.contains(&declared.as_str()) || !column.holds.dates();
        let counts = column.holds.counts() && column.legal.is_none();
        !is_other && (self == Self::LastFailure || counts)
    }

    /// What stands for no failure at all.
    fn is_none(self, value: &Value) -> bool {
        match self {
            Self::Failures => *value == Value::Null,
            Self::LastFailure => is_never(value),
        }
    }

    fn is_right(self, value: &Value, dates: &Dates) -> bool {
        match (self, value) {
            // What is large enough for a date is no count.
            (Self::Failures, Value::Integer(_) | Value::Real(_) | Value::Json(_)) => {
                Dates::default().read(value).is_none()
            }
            (Self::Failures, _) => false,
            (Self::LastFailure, _) => dates.read(value).is_some(),
        }
    }
}
