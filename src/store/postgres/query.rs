//! The SQL with which the PostgreSQL store reads, all of it. Names are quoted, values are bound,
//! except for statuses and instants: those are literals, because only literals are served by a
//! partial index.

use super::sql::{Param, as_text, literal, param, quoted};
use crate::date::Stretch;
use crate::query::{Order, Query, Window};
use crate::record::{Id, Key, Status};
use crate::store::sql::by_count;
use crate::store::table::{Column, Holds, SHOWN_ERROR, SNOOZED, Table, quote};
use crate::time::{DAY, Instant, WRITABLE};

/// What a policy goes by, of the records that can be due, in the order asked for.
pub fn due(table: &Table, selection: &Query) -> (String, Vec<Param>) {
    let mut terms = vec![table.of_statuses(&selection.statuses)];
    terms.extend(match &selection.window {
        Window::All => None,
        Window::Inserted { from, until } => Some(within(table, *from, *until)),
        Window::Failed { before, future } => failed(table, before, *future),
    });
    let mut params = Vec::new();
    if let Some(key) = &selection.after {
        terms.push(behind(table, selection.order, key, &mut params));
    }
    if let Some(key) = &selection.up_to {
        let behind = behind(table, selection.order, key, &mut params);
        terms.push(format!("NOT coalesce({behind}, false)"));
    }
    let snoozed = table.notes_snoozes(&selection.window).map_or_else(String::new, |column| {
        format!(", left({}, {SNOOZED}) AS \"backlog snoozed\"", as_text(column))
    });
    let sql = format!(
        "SELECT {}{snoozed} FROM {} WHERE {} {}",
        selected(table.known_columns()),
        table.sql,
        terms.join(" AND "),
        table.order_by(selection.order)
    );
    (sql, params)
}

/// Columns as text, under names of their own: an order that names a column means what the table
/// holds, and not this text.
fn selected<'a>(columns: impl IntoIterator<Item = &'a Column>) -> String {
    let columns = columns.into_iter().zip(0..);
    let texts: Vec<_> =
        columns.map(|(it, number)| format!("{} AS \"backlog {number}\"", as_text(it))).collect();
    texts.join(", ")
}

/// Whether a row comes after a key in the order. NULL is the largest of all.
fn behind(table: &Table, order: Order, key: &Key, params: &mut Vec<Param>) -> String {
    let mut bound = |value: Option<String>, column: &Column| {
        params.push(Param::Text(value));
        format!("${}::text::{}", params.len(), column.declared)
    };
    let date = quote(&table.inserted.name);
    let at = bound(param(&key.inserted), &table.inserted);
    let parts = key.id.parts().iter().zip(&table.id);
    let key_ids: Vec<_> = parts.map(|(part, column)| bound(Some(id_text(part)), column)).collect();
    let (cmp, null_behind) = match order {
        Order::Newest => ("<", format!("{at} IS NULL AND {date} IS NOT NULL")),
        Order::Oldest => (">", format!("{at} IS NOT NULL AND {date} IS NULL")),
    };
    format!(
        "(coalesce({date} {cmp} {at}, {null_behind}) \
         OR {date} IS NOT DISTINCT FROM {at} AND ({}) {cmp} ({}))",
        table.ids(),
        key_ids.join(", ")
    )
}

pub fn id_text(part: &Id) -> String {
    part.text().replace('\0', "")
}

/// Rows that can have been inserted in a window, or more of them.
fn within(table: &Table, from: Instant, until: Option<Instant>) -> String {
    let column = quote(&table.inserted.name);
    let between = |from: Instant, until: Option<Instant>, shown: fn(&Instant) -> String| {
        let bounds = [(">=", Some(from)), ("<", until)].into_iter();
        let terms = bounds.filter_map(|(cmp, at)| {
            let at = at.filter(|at| WRITABLE.contains(&at.0))?;
            Some(format!("{column} {cmp} {}", quoted(&shown(&at))))
        });
        let terms = terms.collect::<Vec<_>>().join(" AND ");
        if terms.is_empty() { "true".into() } else { terms }
    };
    match table.inserted.holds {
        Holds::Instants => between(from, until, Instant::to_string),
        // A day wider on either side, because a clock may differ from UTC.
        Holds::ClockTimes => {
            let day = |at: Instant, days: i64| at.saturating_add(days * DAY);
            between(day(from, -1), until.map(|until| day(until, 2)), Instant::date)
        }
        Holds::Integers | Holds::Reals | Holds::Numbers => {
            let numbers = table.dates.stretches(from, until).into_iter().filter(|it| !it.is_text);
            any_of(numbers.filter_map(|it| numbers_in(&table.inserted, &it)))
        }
        Holds::Anything => "true".into(),
        // As bytes, whatever the order of the column's language.
        Holds::Text => {
            let text = table.dates.stretches(from, until).into_iter().filter(|it| it.is_text);
            any_of(text.map(|it| stretch(&format!("{column} COLLATE \"C\""), &it)))
        }
        Holds::Booleans | Holds::Documents | Holds::Bytes => "false".into(),
    }
}

fn any_of(terms: impl Iterator<Item = String>) -> String {
    let terms: Vec<_> = terms.collect();
    if terms.is_empty() { "false".into() } else { format!("({})", terms.join(" OR ")) }
}

/// None if the column's type is too small for all of them: the server refuses to compare it with
/// what it cannot hold.
fn numbers_in(column: &Column, numbers: &Stretch) -> Option<String> {
    let name = quote(&column.name);
    match [&numbers.from, &numbers.to].map(|bound| column.is_too_small_for(bound)) {
        [true, _] => None,
        [false, true] => Some(format!("{name} >= {}", literal(&numbers.from))),
        [false, false] => Some(stretch(&name, numbers)),
    }
}

fn stretch(column: &str, stretch: &Stretch) -> String {
    format!("{column} >= {} AND {column} < {}", literal(&stretch.from), literal(&stretch.to))
}

/// Rows that can be due by their count of failures; `None` where the server cannot say which, and
/// the reader has to.
fn failed(table: &Table, before: &[Instant], future: Instant) -> Option<String> {
    let (failures, last_failure) = (table.failures.as_ref()?, table.last_failure.as_ref()?);
    let can = last_failure.holds == Holds::Instants && failures.holds == Holds::Integers;
    if !can || before.is_empty() {
        return None;
    }
    let (count, at) = (quote(&failures.name), quote(&last_failure.name));
    let shown = |at: &Instant| {
        let at = Instant(at.0.clamp(*WRITABLE.start(), *WRITABLE.end()));
        format!("{}::timestamptz", quoted(&at.to_string()))
    };
    let bounds: Vec<_> = before.iter().map(shown).collect();
    let bound = by_count(&count, &format!("{count} < 1"), &bounds);
    let new = table.statuses.tell().then(|| table.status_in(&[Status::New]));
    let new = new.map_or_else(String::new, |new| format!("{new} OR "));
    Some(format!(
        "({new}{count} IS NULL OR {at} IS NULL OR {at} < {bound} OR {at} >= {})",
        shown(&future)
    ))
}

/// Rows with one of these statuses whose date is none, or may be: id and date. Those that sort
/// into a window are met there.
pub fn undated(table: &Table, selection: &Query) -> String {
    let column = quote(&table.inserted.name);
    let none = match (table.inserted.holds, &selection.window) {
        (Holds::Instants | Holds::ClockTimes, _) => {
            format!("({column} IS NULL OR {column} IN ('infinity', '-infinity'))")
        }
        (_, Window::Inserted { from, until }) => {
            format!("NOT coalesce({}, false)", within(table, *from, *until))
        }
        (_, Window::All | Window::Failed { .. }) => "false".into(),
    };
    table.dated(&format!("{} AND {none}", table.of_statuses(&selection.statuses)))
}

/// Every column, and at the end whether the row belongs to the queue.
pub fn row(table: &Table) -> String {
    format!("{}, {}", selected(&table.columns), table.is_in_queue())
}

/// What is shown of a row: the known columns, the beginning of the last error if there is one, and
/// at the end whether the row belongs to the queue.
pub fn shown(table: &Table) -> String {
    let error = table.last_error.as_ref().map(as_text);
    let error = error.map_or_else(String::new, |it| format!(", left({it}, {SHOWN_ERROR})"));
    format!("{}{error}, {}", selected(table.known_columns()), table.is_in_queue())
}

/// Whether a row is pending, after it was written.
pub fn is_pending(table: &Table) -> String {
    format!("({}) IS TRUE", table.pending())
}

/// What is shown of at most two rows with an id: the second shows that the id is not unique.
pub fn by_id(table: &Table) -> String {
    let ids = table.id.iter().zip(1..);
    let terms = ids.map(|(it, n)| format!("{} = ${n}::text::{}", quote(&it.name), it.declared));
    let terms: Vec<_> = terms.collect();
    format!("SELECT {} FROM {} WHERE {} LIMIT 2", shown(table), table.sql, terms.join(" AND "))
}

/// How many rows there are: whether they are in the queue, by status, by whether they have failed
/// before and by age. The server tells the ages of what it knows to be an instant; of the rest it
/// counts each date, and so it does with what tells failed rows from new ones.
pub fn census(table: &Table, bounds: &[i64], now: Instant) -> String {
    let status = table.statuses.column.as_ref().map_or_else(|| "NULL".into(), as_text);
    let source = if table.statuses.tell() {
        [None, None]
    } else {
        [table.failures.as_ref(), table.last_failure.as_ref()]
    };
    let inserted = quote(&table.inserted.name);
    // A zone by rules has them here, and not on the server.
    let ahead = table.dates.zone.fixed_secs();
    let at = match (table.inserted.holds, ahead, source) {
        // A last failure is compared with the date itself.
        (_, _, [_, Some(_)]) => None,
        (Holds::Instants, _, _) => Some(inserted.clone()),
        (Holds::ClockTimes, Some(ahead), _) => {
            Some(format!("({inserted}::timestamp AT TIME ZONE INTERVAL '{ahead} seconds')"))
        }
        _ => None,
    };
    let (band, date) = match at {
        Some(at) => {
            let arms = bounds.iter().map(|bound| now.saturating_sub(*bound).to_string()).zip(0..);
            let arms =
                arms.map(|(from, band)| format!(" WHEN {at} >= {} THEN {band}", quoted(&from)));
            let (arms, is_none) =
                (arms.collect::<String>(), format!("{at} IS NULL OR NOT isfinite({at})"));
            let band = format!("CASE WHEN {is_none} THEN NULL{arms} ELSE {} END", bounds.len());
            (band, "NULL".into())
        }
        None => ("NULL".into(), as_text(&table.inserted)),
    };
    let or_null = |column: Option<&Column>| column.map_or_else(|| "NULL".into(), as_text);
    let [failures, last_failure] = source.map(or_null);
    format!(
        "SELECT {}, {status}, {failures}, {last_failure}, {band}::bigint, {date}, count(*) \
         FROM {} WHERE {} GROUP BY 1, 2, 3, 4, 5, 6",
        table.is_in_queue(),
        table.sql,
        table.of_the_queue(),
    )
}
