//! Pages of due ids from the rows of a query, and log lines about rows that are left out.

use std::collections::{BTreeMap, HashSet};

use backlog_schedule::{Id, Query, SortKey, counted};
use log::Level;

use super::table::{Cells, FactReader, Membership};
use crate::inspection::Undated;
use crate::store::{IsDue, Page};

pub struct PageBuilder<'a> {
    selection: &'a Query,
    is_due: IsDue<'a>,
    page: Page,
    /// Ids that were found before a restart.
    seen: HashSet<Id>,
    /// Records without a readable date, if the query selects by age.
    pub undated: Option<Undated>,
    /// Number of records without a usable id, by reason.
    unusable: BTreeMap<&'static str, u64>,
}

impl<'a> PageBuilder<'a> {
    pub fn new(selection: &'a Query, is_due: IsDue<'a>) -> Self {
        let (page, seen, unusable) = (Page::default(), HashSet::new(), BTreeMap::new());
        Self { selection, is_due, page, seen, undated: None, unusable }
    }

    /// Adds the record of a row if it is due. Returns false once the page is full.
    pub fn add(&mut self, reader: &FactReader<'_>, row: &impl Cells) -> bool {
        let id = match reader.id(row) {
            Ok(id) => id,
            Err((_, _, why)) => {
                *self.unusable.entry(why).or_default() += 1;
                return true;
            }
        };
        let facts = reader.facts(&id, row, Membership::Queue);
        if self.seen.contains(&id) || !self.selection.statuses.contains(&facts.status) {
            return true;
        }
        if let (Some(undated), None) = (&mut self.undated, facts.inserted_at) {
            undated.add(&id.full(), &reader.inserted(row));
        }
        if !(self.is_due)(facts) {
            return true;
        }
        if self.page.ids.len() + 1 == self.selection.limit && self.page.broken.is_none() {
            self.page.next = Some(SortKey { order_value: reader.order_value(row), id: id.clone() });
        }
        self.page.ids.push(id);
        !self.is_full()
    }

    pub fn is_full(&self) -> bool {
        self.page.next.is_some()
    }

    /// Prepares for the same rows from the first one on, in any order, without unreadable ones. Records that were found
    /// are skipped. Without an order no other page can follow.
    pub fn restart(&mut self, broken: String) {
        self.seen = self.page.ids.iter().cloned().collect();
        self.unusable.clear();
        self.page.broken = Some(broken);
    }

    /// The page. Logs the rows that were left out, each message once; `column` holds the insertion date.
    pub fn finish(mut self, column: &str, warned: &mut HashSet<String>) -> Page {
        let mut warn = |level: Level, message: String| {
            if warned.insert(message.clone()) {
                log::log!(level, "{message}");
            }
        };
        for (why, rows) in self.unusable {
            warn(Level::Error, format!("{} id is {why}", not_tried(rows)));
            self.page.unusable += rows;
        }
        if let Some(undated) = self.undated.filter(|undated| undated.rows > 0) {
            let (left_out, which) = (not_tried(undated.rows), undated.examples());
            warn(Level::Warn, format!("{left_out} {column} cannot be read as a date: {which}"));
        }
        self.page
    }
}

/// `2 pending records are not tried, because their`
fn not_tried(rows: u64) -> String {
    let (are, their) = if rows == 1 { ("is", "its") } else { ("are", "their") };
    format!("{} {are} not tried, because {their}", counted(rows, "pending record"))
}
