//! Pages of due ids out of the rows of a query, and reports on the rows that are left out.

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
    /// What was found before it was begun again.
    seen: HashSet<Id>,
    /// Records that no age can be told of, where the selection goes by age.
    pub undated: Option<Undated>,
    /// Why records without a usable id are not tried, and how many there are for each reason.
    unusable: BTreeMap<&'static str, u64>,
}

impl<'a> PageBuilder<'a> {
    pub fn new(selection: &'a Query, is_due: IsDue<'a>) -> Self {
        let (page, seen, unusable) = (Page::default(), HashSet::new(), BTreeMap::new());
        Self { selection, is_due, page, seen, undated: None, unusable }
    }

    /// A row. False if the page is full.
    pub fn row(&mut self, columns: &FactReader<'_>, row: &impl Cells) -> bool {
        let id = match columns.id(row) {
            Ok(id) => id,
            Err((_, _, why)) => {
                *self.unusable.entry(why).or_default() += 1;
                return true;
            }
        };
        let facts = columns.facts(&id, row, Membership::Queue);
        if self.seen.contains(&id) || !self.selection.statuses.contains(&facts.status) {
            return true;
        }
        if let (Some(undated), None) = (&mut self.undated, facts.inserted_at) {
            undated.add(&id.full(), &columns.inserted(row));
        }
        if !(self.is_due)(facts) {
            return true;
        }
        if self.page.ids.len() + 1 == self.selection.limit {
            self.page.next =
                Some(SortKey { order_value: columns.order_value(row), id: id.clone() });
        }
        self.page.ids.push(id);
        !self.is_full()
    }

    pub fn is_full(&self) -> bool {
        self.page.next.is_some()
    }

    /// The rows come again from the first one on, except those that cannot be read. Records that were found before are
    /// passed over.
    pub fn begin_again(&mut self, broken: String) {
        self.seen = self.page.ids.iter().cloned().collect();
        self.unusable.clear();
        self.page.broken = Some(broken);
    }

    /// The ids, after the rest was reported, each message once; `column` holds the insertion date.
    pub fn finish(mut self, column: &str, said: &mut HashSet<String>) -> Page {
        let mut say = |level: Level, message: String| {
            if said.insert(message.clone()) {
                log::log!(level, "{message}");
            }
        };
        for (why, rows) in self.unusable {
            say(Level::Error, format!("{} id is {why}", not_tried(rows)));
            self.page.unusable += rows;
        }
        if let Some(undated) = self.undated.filter(|undated| undated.rows > 0) {
            let (left_out, which) = (not_tried(undated.rows), undated.shown());
            say(Level::Warn, format!("{left_out} {column} cannot be read as a date: {which}"));
        }
        self.page
    }
}

/// `2 pending records are not tried, because their`
fn not_tried(rows: u64) -> String {
    let (are, their) = if rows == 1 { ("is", "its") } else { ("are", "their") };
    format!("{} {are} not tried, because {their}", counted(rows, "pending record"))
}
