//! What `check` finds in a table.

use std::collections::BTreeMap;

use anyhow::Result;
use backlog_schedule::{Instant, Status, Value};

use crate::date::Spelling;
use crate::system_error::chain;
use crate::table::{Cells, Table};

#[derive(Debug, Default)]
pub struct Inspection {
    pub aside: String,
    pub rows: Option<u64>,
    /// Most frequent first; none without a status column.
    pub values: Vec<StatusValue>,
    pub pending: PendingRows,
    pub triggers: Vec<String>,
    /// If rows may be hidden from this user, the reason.
    pub hidden: Option<String>,
    /// Why the table would refuse what a pass writes, as far as that can be told without writing.
    pub refused: Vec<String>,
    /// What no index finds, and the statement that makes one. None if it could not be told.
    pub missing: Option<Vec<(&'static str, String)>>,
    pub duplicate: Option<String>,
    /// Whether the database may give the id of a deleted row to a new one.
    pub reuses_ids: bool,
    pub unread: Unread,
}

/// The places that could not be read, by the reason.
#[derive(Debug, Default)]
pub struct Unread(BTreeMap<String, Vec<&'static str>>);

impl Unread {
    pub fn or_default<T: Default>(&mut self, place: &'static str, found: Result<T>) -> T {
        found.unwrap_or_else(|why| {
            self.0.entry(chain(&why)).or_default().push(place);
            T::default()
        })
    }

    pub fn messages(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(why, places)| format!("{why} (met in {})", places.join(", ")))
    }
}

#[derive(Debug, Default)]
pub struct PendingRows {
    pub rows: u64,
    /// Whether there are more that could not be read.
    pub is_cut: bool,
    /// How many have no usable id, and what one of them has instead.
    pub without_id: Option<(u64, String)>,
    pub undated: Undated,
    /// The same of a due column that holds what is no date.
    pub without_due_date: Undated,
    /// The formats of their dates, how many have them, and the id of one.
    pub formats: BTreeMap<String, (u64, String)>,
    pub newest: Option<Instant>,
}

impl PendingRows {
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
pub struct StatusValue {
    pub shown: String,
    pub status: Status,
    pub rows: u64,
    /// If it is mapped to no status: a value that is, and differs in case or blanks only.
    pub like: Option<String>,
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
            self.named.push(format!("{id} with {}", date.literal()));
        }
    }

    /// `4 with 'soon', 7 with NULL, ...`
    pub fn examples(&self) -> String {
        let more = if self.rows > self.named.len() as u64 { ", ..." } else { "" };
        format!("{}{more}", self.named.join(", "))
    }
}
