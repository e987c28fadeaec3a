//! SQL of every table store. Statuses and instants are literals, because partial indexes serve only literals.

use std::iter;
use std::ops::RangeInclusive;

use anyhow::Result;
use backlog_schedule::{
    DAY, Id, Instant, MOST_PHASE, MULTIPLIER, Order, Query, SlotStretch, Status, Value, Window,
    merge_ranges,
};

use super::mapping::Assigned;
use super::table::{Column, Effect, Table, distinct, joined, names, quote};

/// A condition that is always true. A column of SQLite may have the name `true`.
pub const EVERY: &str = "1 = 1";

pub const NEVER: &str = "1 = 0";

/// Maximum number of tiers in a condition: SQLite limits the depth of expressions.
const MAX_TIERS: usize = 100;

/// Number of characters of an error that can hold the note of a snooze.
const SNOOZE_NOTE: usize = 64;

/// An instant at which every delay is over.
const LONG_DUE: Instant = Instant(1_000_000_000);

const DISPLAYED_ERROR: usize = 4_096;

/// Maximum length of a status that is read. No mapped value is as long.
const LONGEST_STATUS: usize = 4_096;

/// A search for all pending records with an insertion date.
pub fn recent() -> Query {
    Query {
        window: Window::Inserted { from: Instant(DAY), until: None },
        statuses: Status::PENDING.to_vec(),
        order: Order::Newest,
        after: None,
        up_to: None,
        limit: 1,
    }
}

/// Condition of numbers whose [`phase31`](backlog_schedule::phase31) is in a range, as one comparison.
pub fn number_has_phase(number: &str, phases: &RangeInclusive<u32>) -> String {
    let (first, last) = (i64::from(*phases.start()), i64::from(*phases.end()));
    format!(
        "(((({number} & {MOST_PHASE}) + (({number} >> 31) & {MOST_PHASE})) * {MULTIPLIER} \
         - {first}) & {MOST_PHASE}) <= {}",
        last - first
    )
}

pub fn id_params(id: &Id) -> Vec<Value> {
    id.parts().iter().map(id_param).collect()
}

pub fn id_param(part: &Id) -> Value {
    match part {
        Id::Integer(id) => Value::Integer(*id),
        Id::Bytes(id) => Value::Blob(id.to_vec()),
        Id::Text(_) | Id::Composite(_) => Value::Text(part.text().into_owned()),
    }
}

pub fn due_params(query: &Query) -> Vec<Value> {
    let keys = query.after.iter().chain(&query.up_to);
    keys.flat_map(|key| iter::once(key.order_value.clone()).chain(id_params(&key.id))).collect()
}

pub fn direction(order: Order) -> &'static str {
    match order {
        Order::Newest => "DESC",
        Order::Oldest | Order::Column => "ASC",
    }
}

impl Table {
    pub fn ids(&self) -> String {
        names(&self.id)
    }

    pub fn duplicate(&self) -> String {
        let (cells, ids, name) = (self.cells(&self.id), self.ids(), &self.sql);
        let has_ids = self.id.iter().map(|column| format!("{} IS NOT NULL", quote(&column.name)));
        let has_ids = joined(has_ids, " AND ");
        format!(
            "SELECT {cells} FROM {name} WHERE {has_ids} GROUP BY {ids} HAVING count(*) > 1 LIMIT 1"
        )
    }

    /// Condition of rows of the queue, which is never NULL.
    fn is_in_queue(&self) -> String {
        let Some(condition) = &self.condition else { return EVERY.into() };
        // A waiting row is in the queue, too: its condition becomes true once the row is due.
        let reads =
            |due: &&Column| self.condition_columns.iter().any(|column| column.name == due.name);
        let Some(due) = self.due_column().filter(reads) else {
            return format!("({condition}) IS TRUE");
        };
        let past = self.dialect.literal(&due.spelling.write(LONG_DUE, &self.dates.zone));
        format!("(({condition}) IS TRUE OR {})", self.is_true_with(condition, &[due], &past))
    }

    /// A condition, evaluated with another value in these columns of the row.
    fn is_true_with(&self, condition: &str, changed: &[&Column], value: &str) -> String {
        let columns = self.condition_columns.iter().map(|column| {
            match changed.iter().any(|other| other.name == column.name) {
                true => format!("{} AS {}", self.dialect.typed(value, column), column.sql()),
                false => column.sql(),
            }
        });
        let (columns, name) = (joined(columns, ", "), self.sql_name());
        format!("EXISTS (SELECT 1 FROM (SELECT {columns}) AS {name} WHERE {condition})")
    }

    /// Condition of successful rows, if no status marks them: they have the values that a success writes, and would be
    /// pending with NULL instead. None without `where_archived`, because archived rows may have the same values.
    fn finished(&self) -> Option<String> {
        let is_distinct = self.statuses.column.is_none()
            && !self.on_success.is_empty()
            && (self.on_archive.is_empty() || self.archived.is_some());
        let condition = self.condition.as_ref().filter(|_| is_distinct)?;
        let is_written = |Effect { column, to }: &Effect| match to {
            Assigned::Constant(value) => {
                let value = self.dialect.typed(&self.dialect.literal(value), column);
                Some(format!("{} IS NOT DISTINCT FROM {value}", column.sql()))
            }
            Assigned::Now => Some(format!("{} IS NOT NULL", column.sql())),
            Assigned::Next | Assigned::Error | Assigned::Add(_) => None,
        };
        let written: Vec<_> = self.on_success.iter().map(|effect| &effect.column).collect();
        let terms = self.on_success.iter().filter_map(is_written);
        Some(joined(terms.chain([self.is_true_with(condition, &written, "NULL")]), " AND "))
    }

    /// The quoted name without its schema.
    fn sql_name(&self) -> &str {
        let quoted = self.sql.rfind("\".\"").filter(|_| self.sql.starts_with('"'));
        quoted.and_then(|at| self.sql.get(at + 2..)).unwrap_or(&self.sql)
    }

    /// The number of a row's [`Membership`](super::table::Membership) once the row is due.
    pub fn membership(&self) -> String {
        let archived = self.archived.as_ref();
        let archived = archived.map(|condition| format!(" WHEN ({condition}\n) IS TRUE THEN 2"));
        let finished = self.finished().map(|condition| format!(" WHEN {condition} THEN 3"));
        let (queue, archived) = (self.is_in_queue(), archived.unwrap_or_default());
        let finished = finished.unwrap_or_default();
        format!("CAST(CASE WHEN {queue} THEN 1{archived}{finished} ELSE 0 END AS bigint)")
    }

    /// The cells before the columns of a row: its membership, and its insertion date if that is an expression.
    pub fn head(&self) -> String {
        let date = self.date_expression().map(|date| format!(", {}", self.dialect.cell(date)));
        format!("{}{}", self.membership(), date.unwrap_or_default())
    }

    pub fn head_columns(&self) -> usize {
        1 + usize::from(self.date_expression().is_some())
    }

    /// Condition of all rows of the queue. Without a status column it is true for every row of the table.
    pub fn queue_rows(&self) -> String {
        match (&self.statuses.column, &self.archived) {
            (None, _) => EVERY.into(),
            (Some(_), None) => self.is_in_queue(),
            (Some(_), Some(archived)) => format!("({} OR ({archived}\n))", self.is_in_queue()),
        }
    }

    pub fn any(&self, condition: &str) -> String {
        format!("SELECT 1 FROM {} WHERE {condition} LIMIT 1", self.sql)
    }

    pub fn order_by(&self, order: Order) -> String {
        format!("ORDER BY {}", self.order_terms(order))
    }

    pub fn order_terms(&self, order: Order) -> String {
        let (column, of_column, of_ids) = self.sort(order);
        let ids = self.id.iter().map(|column| (column, of_ids));
        let terms = [(column, of_column)].into_iter().chain(ids);
        joined(terms.map(|(column, order)| format!("{} {}", column.sql(), direction(order))), ", ")
    }

    /// The column that orders rows, its direction, and the direction of ids among rows with the same value.
    fn sort(&self, order: Order) -> (&Column, Order, Order) {
        match (order, &self.order) {
            (Order::Column, Some((column, direction))) => (column, *direction, Order::Oldest),
            (Order::Newest | Order::Oldest | Order::Column, _) => (&self.inserted, order, order),
        }
    }

    /// The column with the notes of snoozes, which may be longer than the delay of the policy.
    pub fn snooze_column(&self, window: &Window) -> Option<&Column> {
        self.last_error.as_ref().filter(|_| matches!(window, Window::Failed { .. }))
    }

    /// The columns of a record for display, without the payload and the last error.
    pub fn known_columns(&self) -> Vec<&Column> {
        let Self { failures, last_failure, due_at, max_attempts, .. } = self;
        let optional = [&self.statuses.column, failures, last_failure, due_at, max_attempts];
        let date = Some(&self.inserted).filter(|column| !column.is_expression);
        let order = self.order.iter().map(|(column, _)| column);
        distinct(self.id.iter().chain(date).chain(order).chain(optional.into_iter().flatten()))
    }

    /// Condition of rows with one of these statuses in any queue. Without a status column all rows are pending.
    pub fn status_in(&self, statuses: &[Status]) -> String {
        let Some(column) = &self.statuses.column else {
            let any = statuses.iter().any(|status| status.is_pending());
            return if any { EVERY.into() } else { NEVER.into() };
        };
        let values = self.statuses.all_values(statuses);
        let column = quote(&column.name);
        let (values, nulls): (Vec<_>, Vec<_>) =
            values.into_iter().partition(|value| !value.is_null());
        let list = joined(values.iter().map(|value| self.dialect.literal(value)), ", ");
        match (values.len(), nulls.is_empty()) {
            (0, true) => NEVER.into(),
            (0, false) => format!("{column} IS NULL"),
            (_, false) => format!("({column} IS NULL OR {column} IN ({list}))"),
            // One alone is a narrower search than a list of one.
            (1, true) if self.dialect.needs_verbatim_condition() => format!("{column} = {list}"),
            (_, true) => format!("{column} IN ({list})"),
        }
    }

    pub fn pending(&self) -> String {
        self.rows_with_status(&Status::PENDING)
    }

    /// Condition of rows of the queue, due or waiting, with one of these statuses, and maybe of others.
    pub fn rows_with_status(&self, statuses: &[Status]) -> String {
        let in_queue = self.with_statuses(statuses, Some(self.is_in_queue()));
        let archived = self.archived.clone().filter(|_| statuses.contains(&Status::Archived));
        let finished = self.finished().filter(|_| statuses.contains(&Status::Success));
        let others: String =
            archived.into_iter().chain(finished).map(|other| format!(" OR ({other}\n)")).collect();
        if others.is_empty() { in_queue } else { format!("({in_queue}{others})") }
    }

    /// Condition of rows of the queue that can be due, in a form that an index serves.
    pub fn due_rows(&self, statuses: &[Status]) -> String {
        self.with_statuses(statuses, self.condition.clone())
    }

    fn with_statuses(&self, statuses: &[Status], condition: Option<String>) -> String {
        let mut terms = Vec::new();
        // A partial index on pending rows serves only its own condition.
        let repeats = self.dialect.needs_verbatim_condition()
            && statuses.iter().all(|status| status.is_pending());
        if repeats {
            terms.push(self.status_in(&Status::PENDING));
        }
        if !repeats || self.statuses.distinguish_failed() && statuses != Status::PENDING {
            terms.push(self.status_in(statuses));
        }
        terms.extend(condition);
        if terms.len() > 1 {
            terms.retain(|term| term != EVERY);
        }
        terms.join(" AND ")
    }

    /// The condition of a partial index on pending rows, if an index can have it.
    pub fn index_condition(&self) -> Option<String> {
        let condition = match &self.statuses.column {
            Some(_) => Some(self.status_in(&Status::PENDING)),
            None => self.condition.clone().filter(|condition| can_be_indexed(condition)),
        };
        condition.map(|condition| condition.replace("\n)", ")"))
    }

    /// Statements for the facts of records that can be due, in the order of the query, with [`due_params`].
    pub fn due(&self, query: &Query) -> Vec<String> {
        let (facts, name) = (self.facts(&query.window), &self.sql);
        let statuses = self.due_rows(&query.statuses);
        let (bounds, order) = (self.bounds(query), self.order_by(query.order));
        let parts = self.dialect.within(self, &query.window, query.order);
        // The condition of slots comes first, because it excludes most rows.
        let slot = self.has_slot(query);
        let slot = slot.map_or_else(String::new, |condition| format!("({condition}) AND "));
        let statement = |within: &String| {
            let within = if within == EVERY { "" } else { &format!(" AND {within}") };
            format!("SELECT {facts} FROM {name} WHERE {slot}{statuses}{within}{bounds} {order}")
        };
        parts.iter().map(statement).collect()
    }

    /// Condition of rows that can have a slot, if the database can evaluate it.
    fn has_slot(&self, query: &Query) -> Option<String> {
        let Window::Slots(stretches) = &query.window else { return None };
        let [id] = &self.id[..] else { return None };
        if stretches.len() > MAX_TIERS {
            return None;
        }
        let inserted = |stretch: &SlotStretch| {
            let window = Window::Inserted { from: stretch.from, until: Some(stretch.until) };
            format!("({})", self.dialect.within(self, &window, query.order).join(" OR "))
        };
        let has_phase = |phases: &[RangeInclusive<u32>]| {
            let ranges = phases.iter().map(|range| self.dialect.has_phase(id, range));
            let ranges: Vec<_> = ranges.collect::<Option<_>>()?;
            Some(format!("({})", ranges.join(" OR ")))
        };
        let (whole, parts): (Vec<_>, Vec<_>) =
            stretches.iter().partition(|stretch| stretch.phases == [0..=MOST_PHASE]);
        let mut arms: Vec<_> = whole.into_iter().map(inserted).collect();
        if !parts.is_empty() {
            // A younger tier has the phases of the older ones: the union excludes most rows.
            let all = parts.iter().flat_map(|stretch| stretch.phases.iter().cloned()).collect();
            let each = parts.iter().map(|stretch| {
                Some(format!("{} AND {}", inserted(stretch), has_phase(&stretch.phases)?))
            });
            let each: Vec<_> = each.collect::<Option<_>>()?;
            arms.push(format!("{} AND ({})", has_phase(&merge_ranges(all))?, each.join(" OR ")));
        }
        Some(if arms.is_empty() { NEVER.into() } else { arms.join(" OR ") })
    }

    pub fn facts(&self, window: &Window) -> String {
        let columns = self.selected(self.fact_columns(window), false);
        match self.snooze_column(window) {
            Some(error) => format!("{columns}, {}", self.dialect.prefix(error, SNOOZE_NOTE)),
            None => columns,
        }
    }

    pub fn fact_columns(&self, window: &Window) -> Vec<&Column> {
        let counts = matches!(window, Window::Failed { .. })
            || !self.statuses.distinguish_failed()
            || self.due_column().is_some();
        let counter = [&self.failures, &self.last_failure].into_iter().flatten();
        let order = self.order.iter().map(|(column, _)| column);
        let known = self.id.iter().chain([&self.inserted]).chain(&self.statuses.column);
        let known = known.chain(order);
        distinct(known.chain(counter.filter(|_| counts)).chain(&self.due_at))
    }

    fn selected<'a>(
        &self,
        columns: impl IntoIterator<Item = &'a Column>,
        truncates_status: bool,
    ) -> String {
        let status = self.statuses.column.as_ref().map(|column| &column.name);
        let columns = columns.into_iter().zip(0..);
        let selected =
            columns.map(|(column, index)| match truncates_status && status == Some(&column.name) {
                true => self.status_cell(),
                false => self.dialect.selected(column, index),
            });
        joined(selected, ", ")
    }

    /// Conditions of rows on the page of a query, with [`due_params`].
    pub fn bounds(&self, query: &Query) -> String {
        let mut sql = String::new();
        let mut first = 1;
        for (key, not) in [(&query.after, ""), (&query.up_to, "NOT ")] {
            if key.is_some() {
                sql += &format!(" AND {not}{}", self.is_after_key(query.order, first));
                first += 1 + self.id.len();
            }
        }
        sql
    }

    /// Condition of rows after a key, whose parameters begin with number `first`.
    fn is_after_key(&self, order: Order, first: usize) -> String {
        let (column, of_column, of_ids) = self.sort(order);
        let (date, ids, at) = (column.sql(), self.ids(), self.dialect.bind(first, column));
        let [cmp, cmp_ids] = [of_column, of_ids].map(|order| match order {
            Order::Newest => "<",
            Order::Oldest | Order::Column => ">",
        });
        let is_null_after = match self.dialect.is_null_last(of_column) {
            true => format!("{date} IS NULL AND {at} IS NOT NULL"),
            false => format!("{date} IS NOT NULL AND {at} IS NULL"),
        };
        let key_ids = self.id.iter().zip(first + 1..);
        let key_ids =
            joined(key_ids.map(|(column, number)| self.dialect.bind(number, column)), ", ");
        format!(
            "coalesce({date} {cmp} {at} OR ({is_null_after}) \
             OR ({date} IS NOT DISTINCT FROM {at} AND ({ids}) {cmp_ids} ({key_ids})), {NEVER})"
        )
    }

    pub fn undated(&self, query: &Query) -> String {
        let statuses = self.due_rows(&query.statuses);
        let parts = self.dialect.undated(self, &query.window).into_iter();
        let parts = parts.map(|part| self.ids_and_dates(&format!("{statuses} AND {part}")));
        joined(parts, " UNION ALL ")
    }

    /// The head of a row, these columns, and the last error, truncated for display.
    pub fn head_and<'a>(&self, columns: impl IntoIterator<Item = &'a Column>) -> String {
        let error = self.last_error.as_ref();
        let error =
            error.map(|column| format!(", {}", self.dialect.prefix(column, DISPLAYED_ERROR)));
        format!("{}, {}{}", self.head(), self.selected(columns, true), error.unwrap_or_default())
    }

    pub fn all_columns(&self) -> String {
        self.head_and_whole(&self.columns)
    }

    pub fn head_and_whole<'a>(&self, columns: impl IntoIterator<Item = &'a Column>) -> String {
        format!("{}, {}", self.head(), self.selected(columns, false))
    }

    pub fn of_id(&self, columns: &str) -> String {
        let ids = self.id.iter().zip(1..);
        let terms = ids.map(|(column, number)| {
            format!("{} = {}", quote(&column.name), self.dialect.bind(number, column))
        });
        format!("SELECT {columns} FROM {} WHERE {}", self.sql, joined(terms, " AND "))
    }

    pub fn ids_between(&self, id: &Column) -> String {
        let [from, to] = [1, 2].map(|number| self.dialect.bind(number, id));
        let (cell, name) = (self.dialect.cell(id), quote(&id.name));
        format!("SELECT {cell} FROM {} WHERE {name} BETWEEN {from} AND {to} LIMIT 100", self.sql)
    }

    /// Inserts a pending record for each row of `payloads`, which has one column, `given`. Parameter 1 is the date.
    pub fn insert(&self, payloads: &str) -> Result<String> {
        let payload = self.require_payload()?;
        let status = self.statuses.column.as_ref().zip(self.statuses.value(Status::New));
        let (status, value) = status.unzip();
        let columns = names([payload, &self.inserted].into_iter().chain(status));
        let value =
            value.map_or_else(String::new, |value| format!(", {}", self.dialect.literal(value)));
        let (given, at) =
            (self.dialect.typed("given", payload), self.dialect.bind(1, &self.inserted));
        let select = format!("SELECT {given}, {at}{value} FROM {payloads}");
        Ok(format!("INSERT INTO {} ({columns}) {select}", self.sql))
    }

    pub fn cells<'a>(&self, columns: impl IntoIterator<Item = &'a Column>) -> String {
        joined(columns.into_iter().map(|column| self.dialect.cell(column)), ", ")
    }

    pub fn ids_and_dates(&self, condition: &str) -> String {
        let cells = self.cells(self.id.iter().chain([&self.inserted]));
        format!("SELECT {cells} FROM {} WHERE {condition}", self.sql)
    }

    /// The columns that distinguish failed rows from new ones if the status does not.
    pub fn failure_columns(&self) -> [Option<&Column>; 2] {
        if self.statuses.distinguish_failed() {
            return [None, None];
        }
        [self.failures.as_ref(), self.last_failure.as_ref()]
    }

    /// A statement that counts rows by status, failure and age, or by date if the database cannot calculate ages.
    pub fn census(&self, bounds: &[i64], now: Instant) -> String {
        let sources = self.failure_columns();
        let [failures, last_failure] = sources.map(|column| self.cell_or_null(column));
        // A last failure is compared with the date itself.
        let at = self.dialect.inserted_at(self).filter(|_| sources[1].is_none());
        let date = self.cell_or_null(Some(&self.inserted).filter(|_| at.is_none()));
        let arms = bounds.iter().map(|bound| now.saturating_sub(*bound)).zip(0..);
        let arms = arms.map(|(from, band)| {
            format!(" WHEN \"backlog at\" >= {} THEN {band}", self.dialect.instant(from))
        });
        let (arms, last) = (arms.collect::<String>(), bounds.len());
        let band = match at {
            Some(_) => format!("CASE WHEN \"backlog at\" IS NULL THEN NULL{arms} ELSE {last} END"),
            None => "NULL".into(),
        };
        format!(
            "SELECT \"backlog in\", \"backlog status\", \"backlog failures\", \"backlog failure\", \
             CAST({band} AS bigint), \"backlog date\", count(*) FROM (SELECT {} AS \"backlog in\", \
             {} AS \"backlog status\", {failures} AS \"backlog failures\", \
             {last_failure} AS \"backlog failure\", {date} AS \"backlog date\", \
             {} AS \"backlog at\" FROM {} WHERE {}) AS \"backlog rows\" GROUP BY 1, 2, 3, 4, 5, 6",
            self.membership(),
            self.status_cell(),
            at.unwrap_or_else(|| "NULL".into()),
            self.sql,
            self.queue_rows(),
        )
    }

    /// The cell of a status, truncated because a foreign value may be a long text.
    fn status_cell(&self) -> String {
        let column = self.statuses.column.as_ref();
        column
            .map_or_else(|| "NULL".into(), |column| self.dialect.truncated(column, LONGEST_STATUS))
    }

    fn cell_or_null(&self, column: Option<&Column>) -> String {
        column.map_or_else(|| "NULL".into(), |column| self.dialect.cell(column))
    }
}

/// The bound for a count of failures. The first bound is also for lower counts, the last one for higher counts.
pub fn by_count(count: &str, is_none: &str, bounds: &[String]) -> String {
    match bounds {
        [] => "NULL".into(),
        [only] => only.clone(),
        [first, .., last] => {
            let bounds = bounds.iter().zip(1..);
            let arms: String = bounds.map(|(at, f)| format!(" WHEN {f} THEN {at}")).collect();
            format!("CASE WHEN {is_none} THEN {first} ELSE CASE {count}{arms} ELSE {last} END END")
        }
    }
}

/// True if a condition depends only on its row, as an index requires, and fits on one line.
fn can_be_indexed(condition: &str) -> bool {
    let condition = condition.trim_end_matches(')').trim_end().to_ascii_lowercase();
    let by_the_clock =
        "date( time( julianday( unixepoch( timediff( current_ random now( timestamp(";
    !condition.contains('\n')
        && !condition.contains("--")
        && !by_the_clock.split(' ').any(|call| condition.replace(' ', "").contains(call))
}
