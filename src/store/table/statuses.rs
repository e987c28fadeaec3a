//! Statuses of a table: the values of a column, or the condition that makes a row pending.

use anyhow::{Result, ensure};

use super::{Column, Holds};
use crate::mapping::StatusValues;
use crate::record::{Status, Value};

pub struct Statuses {
    /// `None` if the queue's condition alone says what is pending.
    pub column: Option<Column>,
    /// As the column holds them.
    values: StatusValues,
}

impl Statuses {
    /// An error says which value does not fit the column.
    pub fn new(column: Option<Column>, values: StatusValues) -> Result<Self> {
        let Some(column) = column else { return Ok(Self { column, values }) };
        let values = values.map(|values| values.iter().map(|it| column.hold(it)).collect());
        for (status, values) in Status::OURS.iter().zip(&values) {
            for held in values {
                let legal = match &column.legal {
                    Some(legal) => format!("it takes {}", legal.join(", ")),
                    None if column.holds == Holds::Booleans => "say true or false".into(),
                    None => "say which number it is".into(),
                };
                ensure!(
                    column.fits(held),
                    "{} is to be {} in column {}, which is {}: {legal}",
                    status.name(),
                    held.shown(),
                    column.name,
                    column.declared
                );
            }
        }
        Ok(Self { column: Some(column), values })
    }

    /// The value that is written for a status.
    pub fn value(&self, status: Status) -> Option<&Value> {
        self.values(status).first()
    }

    /// The values that a status has; none if no column holds it.
    pub fn values(&self, status: Status) -> &[Value] {
        let index = Status::OURS.iter().position(|it| *it == status);
        index.map_or(&[], |index| &self.values[index])
    }

    /// The values of these statuses, each once.
    pub fn all_values(&self, statuses: &[Status]) -> Vec<&Value> {
        let mut all = Vec::new();
        for value in statuses.iter().flat_map(|status| self.values(*status)) {
            if !all.contains(&value) {
                all.push(value);
            }
        }
        all
    }

    /// Whether the value alone tells NEW from ERROR.
    pub fn tell(&self) -> bool {
        let [new, error, ..] = &self.values;
        self.column.is_some() && !new.iter().any(|value| error.contains(value))
    }

    /// The status of a row; `is` says whether it holds a value. Where the value does not tell NEW
    /// from ERROR, `failed` does; where nothing tells, a record may have failed, and counts so.
    pub fn status(
        &self,
        is: &dyn Fn(&Value) -> bool,
        in_queue: bool,
        failed: Option<bool>,
    ) -> Status {
        if !in_queue {
            return Status::Foreign;
        }
        let pending = if failed == Some(false) { Status::New } else { Status::Error };
        if self.column.is_none() {
            return pending;
        }
        let all = Status::OURS.into_iter().zip(&self.values);
        let mut held = all.filter(|(_, values)| values.iter().any(is)).map(|(status, _)| status);
        match (held.next(), held.next()) {
            (Some(Status::New), Some(Status::Error)) => pending,
            (status, _) => status.unwrap_or(Status::Foreign),
        }
    }

    /// The same with what is shown of it.
    pub fn of(
        &self,
        value: Option<&Value>,
        in_queue: bool,
        failed: Option<bool>,
    ) -> (Status, String) {
        let status = self.status(&|mapped| Some(mapped) == value, in_queue, failed);
        let shown = match (status == Status::Foreign, &self.column) {
            (false, _) => status.name().into(),
            (true, None) => "not pending".into(),
            (true, Some(_)) => {
                let text = value.map(Value::to_string).unwrap_or_default();
                text + if in_queue { "" } else { ", but not in the queue" }
            }
        };
        (status, shown)
    }
}
