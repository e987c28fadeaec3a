//! The inspection of a table, for `check`: plain data, and how it is put together.

use std::collections::BTreeMap;

use anyhow::Result;

use super::table::{Cells, Table};
use crate::date::Spelling;
use crate::record::{Status, Value};
use crate::time::Instant;

/// The inspection of a table.
#[derive(Debug, Default)]
pub struct Inspection {
    /// What else there is to say of it.
    pub aside: String,
    /// None if they could not be counted.
    pub rows: Option<u64>,
    /// Most frequent first; none without a status column.
    pub values: Vec<StatusValue>,
    pub pending: Pending,
    pub triggers: Vec<String>,
    /// Why the table would refuse what a pass writes, as far as that can be told without writing.
    pub refused: Vec<String>,
    /// None if it could not be told.
    pub missing: Option<Vec<MissingIndex>>,
    /// An id that more than one row has.
    pub duplicate: Option<String>,
    /// Whether the database may give the id of a deleted row to a new one.
    pub reuses_ids: bool,
    pub unread: Unread,
}

/// Reads that failed, by the reason: what is wrong in one place does not keep the others
/// from being looked at.
#[derive(Debug, Default)]
pub struct Unread(BTreeMap<String, Vec<&'static str>>);

impl Unread {
    /// What was found in one place; nothing if it could not be looked at.
    pub fn or_nothing<T: Default>(&mut self, place: &'static str, found: Result<T>) -> T {
        found.unwrap_or_else(|why| {
            self.0.entry(format!("{why:#}")).or_default().push(place);
            T::default()
        })
    }

    pub fn shown(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(why, places)| format!("{why} (met in {})", places.join(", ")))
    }
}

/// The pending records, as far as they were inspected.
#[derive(Debug, Default)]
pub struct Pending {
    pub rows: u64,
    /// Whether there are more that could not be read.
    pub is_cut: bool,
    /// How many have no usable id, and what one of them has instead.
    pub without_id: Option<(u64, String)>,
    /// Those that no age can be told of.
    pub undated: Undated,
    /// The formats of their dates, how many have them, and the id of one.
    pub formats: BTreeMap<String, (u64, String)>,
    /// The insertion date of the newest.
    pub newest: Option<Instant>,
}

impl Pending {
    /// Takes one more into account, of a row that is its id and its insertion date.
    pub fn add(&mut self, table: &Table, row: &dyn Cells) {
        self.rows += 1;
        let inserted = &row.value(&table.inserted, table.id.len());
        let id = match table.typed_id(row) {
            Ok(id) => id,
            Err(shown) => {
                self.without_id.get_or_insert((0, shown)).0 += 1;
                return;
            }
        };
        self.newest = self.newest.max(table.dates.read(inserted));
        match Spelling::of(inserted, &table.dates) {
            Some(spelling) => {
                let format = spelling.format().to_string();
                self.formats.entry(format).or_insert_with(|| (0, id)).0 += 1;
            }
            None => self.undated.add(&id, inserted),
        }
    }
}

/// One value of the status column.
#[derive(Debug)]
pub struct StatusValue {
    pub shown: String,
    pub status: Status,
    pub rows: u64,
    /// If it is mapped to no status: a value that is, and differs in case or blanks only.
    pub like: Option<String>,
}

impl StatusValue {
    pub fn new(table: &Table, value: &Value, rows: u64) -> Self {
        let status = table.statuses.status(&|mapped| mapped == value, true, None);
        let text = value.to_string();
        let is_like = |it: &&Value| it.to_string().eq_ignore_ascii_case(text.trim());
        let mapped = table.statuses.all_values(&Status::OURS);
        let like = mapped.into_iter().find(is_like).map(Value::shown);
        let like = like.filter(|_| status == Status::Foreign);
        Self { shown: value.shown(), status, rows, like }
    }
}

#[derive(Debug, Default)]
pub struct Undated {
    pub rows: u64,
    /// Ids and dates of some of them, `4 with 'soon'`.
    named: Vec<String>,
}

impl Undated {
    const NAMED: usize = 5;

    pub fn add(&mut self, id: &str, date: &Value) {
        self.rows += 1;
        if self.named.len() < Self::NAMED {
            self.named.push(format!("{id} with {}", date.shown()));
        }
    }

    /// Adds the record of a row that is its id and its insertion date, if that is none.
    pub fn add_row(&mut self, table: &Table, row: &dyn Cells) {
        let inserted = row.value(&table.inserted, table.id.len());
        if table.dates.read(&inserted).is_none() {
            self.add(&table.shown_id(row), &inserted);
        }
    }

    /// `4 with 'soon', 7 with NULL, ...`
    pub fn shown(&self) -> String {
        let more = if self.rows > self.named.len() as u64 { ", ..." } else { "" };
        format!("{}{more}", self.named.join(", "))
    }
}

/// An index without which a pass reads the whole table.
#[derive(Debug)]
pub struct MissingIndex {
    pub finds: &'static str,
    pub statement: String,
}

/// Whether a condition of a row stays as it is while the row does, as that of an index must, and
/// can stand on one line.
pub fn is_lasting(condition: &str) -> bool {
    let condition = condition.trim_end_matches(')').trim_end().to_ascii_lowercase();
    let by_the_clock = [
        "date(",
        "time(",
        "julianday(",
        "unixepoch(",
        "timediff(",
        "current_",
        "random",
        "now(",
        "timestamp(",
    ];
    !condition.contains('\n')
        && !condition.contains("--")
        && !by_the_clock.iter().any(|it| condition.replace(' ', "").contains(it))
}
