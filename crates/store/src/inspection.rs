//! Findings of `check` about a table.

use std::collections::BTreeMap;

use anyhow::Result;
use backlog_schedule::{Instant, Status, Value};

use crate::date::Spelling;
use crate::system_error::chain;
use crate::table::{Cells, Table};

#[derive(Debug, Default)]
pub struct Inspection {
    pub details: String,
    pub rows: Option<u64>,
    /// Most frequent first; none without a status column.
    pub values: Vec<StatusValueCount>,
    pub pending: PendingRows,
    pub triggers: Vec<String>,
    /// The reason why rows may be hidden from this user, if any.
    pub hidden: Option<String>,
    /// Reasons why the table would refuse the writes of a pass, found without writing.
    pub refused: Vec<String>,
    /// Searches that no index serves, each with the statement that creates one. `None` if unknown, or without indexes.
    pub missing: Option<Vec<(&'static str, String)>>,
    pub duplicate: Option<String>,
    /// Keys and columns that attempts write, and in which every new record has a value already.
    pub occupied: Vec<(&'static str, String)>,
    pub reuses_ids: bool,
    pub unread: Unread,
}

/// Parts of a table that could not be read, by reason.
#[derive(Debug, Default)]
pub struct Unread(BTreeMap<String, Vec<&'static str>>);

impl Unread {
    pub fn or_default<T: Default>(&mut self, part: &'static str, read: Result<T>) -> T {
        read.unwrap_or_else(|error| {
            self.0.entry(chain(&error)).or_default().push(part);
            T::default()
        })
    }

    pub fn messages(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(why, parts)| format!("{why} (while reading {})", parts.join(", ")))
    }
}

#[derive(Debug, Default)]
pub struct PendingRows {
    pub rows: u64,
    /// More rows could not be read.
    pub is_incomplete: bool,
    /// Number of rows without a usable id, and the value of one of them.
    pub without_id: Option<(u64, String)>,
    pub undated: Undated,
    pub without_due_date: Undated,
    /// The formats of insertion dates, each with the number of rows and the id of one.
    pub formats: BTreeMap<String, (u64, String)>,
    pub newest: Option<Instant>,
}

impl PendingRows {
    /// Adds a row, which has the id and the insertion date.
    pub fn add(&mut self, table: &Table, row: &dyn Cells) {
        self.rows += 1;
        let inserted = &row.value(&table.inserted, table.id.len());
        let id = match table.typed_id(row) {
            Ok(id) => id,
            Err(found) => {
                self.without_id.get_or_insert((0, found)).0 += 1;
                return;
            }
        };
        if table.is_undated {
            return;
        }
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

#[derive(Debug)]
pub struct StatusValueCount {
    pub literal: String,
    pub status: Status,
    pub rows: u64,
    /// For a foreign value: a mapped value that differs only in case or spaces.
    pub like: Option<String>,
}

/// Rows without a readable date.
#[derive(Debug, Default)]
pub struct Undated {
    pub rows: u64,
    examples: Vec<String>,
}

impl Undated {
    const MAX_EXAMPLES: usize = 5;

    pub fn add(&mut self, id: &str, date: &Value) {
        self.rows += 1;
        if self.examples.len() < Self::MAX_EXAMPLES {
            self.examples.push(format!("{id} with {}", date.literal()));
        }
    }

    /// `4 with 'soon', 7 with NULL, ...`
    pub fn examples(&self) -> String {
        let more = if self.rows > self.examples.len() as u64 { ", ..." } else { "" };
        format!("{}{more}", self.examples.join(", "))
    }
}
