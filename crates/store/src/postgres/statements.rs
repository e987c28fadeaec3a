//! Statements of a round: locks and guarded writes of many records in one round trip.

use std::collections::HashSet;
use std::fmt::Display;

use backlog_schedule::Id;
use tokio_postgres::Row;

use super::dialect::{Param, Postgres, Request, number, param};
use super::session::Session;
use crate::clauses::Clauses;
use crate::engine::{NumberedWrites, RowAfter, RowState};
use crate::error::DbResult;
use crate::sql::id_param;
use crate::table::{
    Cells, Column, ColumnType, Dialect, Table, Term, TermRole, WriteVerb, joined, quote,
};
use crate::writes::{Guards, RowWrite};

/// Keys of the first and the second lock of a record.
pub type LockKeys = [i64; 2];

pub struct LockRequest<'a> {
    /// Index among the ids that the caller wants.
    pub index: usize,
    pub id: &'a Id,
    pub keys: LockKeys,
}

/// Rows that a statement gets as parameters: each column is an array.
#[derive(Default)]
pub struct Given {
    /// Number of parameters of the whole statement so far.
    params: usize,
    arrays: Vec<String>,
    names: Vec<String>,
}

/// Column with the number of a given row.
pub const NUMBER: &str = "\"backlog given\".\"backlog number\"";

impl Given {
    /// The rows follow this number of parameters.
    pub fn after(params: usize) -> Self {
        Self { params, ..Self::default() }
    }

    pub fn add(&mut self, name: impl Display, element: &str) {
        self.params += 1;
        self.arrays.push(format!("pg_catalog.unnest(${}::{element}[])", self.params));
        self.names.push(format!("\"backlog {name}\""));
    }

    /// Adds a parameter that all rows share.
    fn scalar(&mut self) -> String {
        self.params += 1;
        format!("${}::text", self.params)
    }

    pub fn numbers(&mut self) {
        self.add("number", "bigint");
    }

    /// Adds the columns of ids, and returns the condition of the row with the id.
    pub fn ids(&mut self, table: &Table) -> String {
        let mut equal = Vec::new();
        for (index, column) in table.id.iter().enumerate() {
            self.add(index, "text");
            let (name, declared) = (quote(&column.name), &column.declared);
            equal.push(format!(
                "{}.{name} = \"backlog given\".\"backlog {index}\"::{declared}",
                table.sql
            ));
        }
        equal.join(" AND ")
    }

    /// Returns the rows as an item of `FROM`.
    pub fn rows(&self) -> String {
        let (arrays, names) = (self.arrays.join(", "), self.names.join(", "));
        format!("ROWS FROM ({arrays}) AS \"backlog given\"({names})")
    }
}

pub fn ids<'a>(
    table: &Table,
    ids: impl Iterator<Item = &'a Id> + Clone,
) -> impl Iterator<Item = Param> {
    (0..table.id.len()).map(move |index| {
        let part = |id: &Id| param(&id_param(id.parts().get(index)?));
        Param::Texts(ids.clone().map(part).collect())
    })
}

pub fn numbers(numbers: impl Iterator<Item = usize>) -> Param {
    Param::Integers(numbers.map(|number| i64::try_from(number).unwrap_or(-1)).collect())
}

/// Returns the indexes of the ids whose records are pending, in order.
pub fn still_pending(session: &mut Session, table: &Table, ids: &[&Id]) -> DbResult<Vec<usize>> {
    let mut given = Given::default();
    let has_id = given.ids(table);
    given.numbers();
    let numbers = numbers(0..ids.len());
    let params: Vec<_> = self::ids(table, ids.iter().copied()).chain([numbers]).collect();
    let (rows, name, pending) = (given.rows(), &table.sql, table.pending());
    let sql = format!(
        "SELECT DISTINCT {NUMBER} FROM {rows} JOIN {name} ON {has_id} WHERE {pending} ORDER BY 1"
    );
    Ok(session.query(&sql, &params)?.iter().filter_map(|row| number(row, 0)).collect())
}

pub const UNLOCK: &str = "SELECT pg_catalog.count(*) FROM pg_catalog.unnest($1::bigint[]) AS given(key) \
     WHERE pg_catalog.pg_advisory_unlock(key)";

pub fn unlock(session: &mut Session, keys: Vec<i64>) -> DbResult<()> {
    if !keys.is_empty() {
        session.query(UNLOCK, &[Param::Integers(keys)])?;
    }
    Ok(())
}

/// Advisory locks of this database with keys of 64 bits, and the processes that hold them.
const LOCKS: &str = "SELECT (l.classid::bigint << 32) | l.objid::bigint AS key, l.pid \
                     FROM pg_catalog.pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 1 \
                     AND l.granted AND l.database = (SELECT oid FROM pg_catalog.pg_database \
                     WHERE datname = pg_catalog.current_database())";

pub fn held_keys(session: &mut Session) -> DbResult<HashSet<i64>> {
    let sql = format!("SELECT key FROM ({LOCKS}) AS locks WHERE pid = pg_catalog.pg_backend_pid()");
    Ok(session.column(&sql, &[])?.into_iter().collect())
}

/// Returns the keys of locks that server processes other than `own` hold.
pub fn held_by_others(
    session: &mut Session,
    keys: &[i64],
    own: &[String],
) -> DbResult<HashSet<i64>> {
    let sql = format!(
        "SELECT key FROM ({LOCKS}) AS locks LEFT JOIN pg_catalog.pg_stat_activity a USING (pid) \
         WHERE key = ANY($1) \
         AND pg_catalog.concat_ws(' ', pid, a.backend_start) <> ALL($2)"
    );
    let params = [Param::Integers(keys.to_vec()), Param::texts(own)];
    Ok(session.column(&sql, &params)?.into_iter().collect())
}

pub fn granted(rows: &[Row]) -> Vec<bool> {
    rows.iter().map(|row| row.get(0)).collect()
}

/// Changes that differ in their values only, so that one statement writes them.
struct Group<'a> {
    first: &'a RowWrite<'a>,
    verb: WriteVerb,
    /// Terms of the first change.
    terms: Vec<Term<'a>>,
    numbers: Vec<usize>,
    values: Vec<GroupValues>,
}

enum GroupValues {
    /// The value of the first change.
    Same,
    Each(Vec<Option<String>>),
}

impl<'a> Group<'a> {
    fn new(number: usize, first: &'a RowWrite<'a>, verb: WriteVerb, terms: Vec<Term<'a>>) -> Self {
        let values = terms.iter().map(|_| GroupValues::Same).collect();
        Self { first, verb, terms, numbers: vec![number], values }
    }

    fn takes(&self, change: &RowWrite, verb: WriteVerb, terms: &[Term]) -> bool {
        let is_same = |(a, b): (&Term, &Term)| a.role == b.role && a.column.name == b.column.name;
        let kind = |verb, change: &RowWrite| (verb, change.begins(), change.renews());
        kind(self.verb, self.first) == kind(verb, change)
            && self.terms.len() == terms.len()
            && self.terms.iter().zip(terms).all(is_same)
    }

    fn add(&mut self, number: usize, terms: &[Term]) {
        let count = self.numbers.len();
        for ((values, own), term) in self.values.iter_mut().zip(&self.terms).zip(terms) {
            match values {
                GroupValues::Same if own.value == term.value => {}
                GroupValues::Same => {
                    let mut each = vec![param(&own.value); count];
                    each.push(param(&term.value));
                    *values = GroupValues::Each(each);
                }
                GroupValues::Each(each) => each.push(param(&term.value)),
            }
        }
        self.numbers.push(number);
    }

    fn params(&mut self, params: &mut Vec<Param>) {
        let terms = self.terms.iter().zip(&mut self.values);
        let terms = terms.filter(|(term, _)| !matches!(term.role, TermRole::Grow(_)));
        params.extend(terms.map(|(term, values)| match values {
            GroupValues::Same => Param::Text(param(&term.value)),
            GroupValues::Each(each) => Param::Texts(std::mem::take(each)),
        }));
        params.push(match self.numbers[..] {
            [number] => Param::text(number.to_string()),
            _ => numbers(self.numbers.iter().copied()),
        });
    }
}

/// Returns a statement that writes the rows of changes, unless somebody else has changed them.
pub fn write(table: &Table, changes: &NumberedWrites) -> Request {
    request(table, changes, write_group)
}

pub fn states(table: &Table, changes: &NumberedWrites) -> Request {
    request(table, changes, state_of_group)
}

type PartOfGroup = fn(&Table, &Group, &mut usize) -> String;

fn request(table: &Table, changes: &NumberedWrites, part: PartOfGroup) -> Request {
    let mut groups: Vec<Group> = Vec::new();
    for (number, change) in changes {
        let (verb, terms) = table.terms(change);
        match groups.iter().position(|group| group.takes(change, verb, &terms)) {
            Some(index) => groups[index].add(*number, &terms),
            None => groups.push(Group::new(*number, change, verb, terms)),
        }
    }
    let (mut params, mut count) = (Vec::new(), 0);
    let parts: Vec<_> = groups.iter().map(|group| part(table, group, &mut count)).collect();
    groups.iter_mut().for_each(|group| group.params(&mut params));
    let sql = match &parts[..] {
        [only] => only.clone(),
        parts => {
            let named = parts.iter().zip(0..).map(|(part, n)| format!("g{n} AS ({part})"));
            let all = (0..parts.len()).map(|n| format!("SELECT * FROM g{n}"));
            let [named, all] = [joined(named, ", "), joined(all, " UNION ALL ")];
            format!("WITH {named} {all}")
        }
    };
    Request { sql, params }
}

/// Frees locks and takes others. The rows show which were granted.
pub fn take_locks(function: &str, keys: Vec<i64>, freed: Vec<i64>) -> Request {
    // Materialized, so that each lock is taken once.
    let sql = format!(
        "WITH freed AS MATERIALIZED ({UNLOCK}), wanted AS MATERIALIZED (SELECT key, n \
         FROM pg_catalog.unnest($2::bigint[]) WITH ORDINALITY AS given(key, n)) \
         SELECT {function}(key) FROM wanted CROSS JOIN freed ORDER BY n"
    );
    Request { sql, params: vec![Param::Integers(freed), Param::Integers(keys)] }
}

pub fn rows_after(table: &Table, rows: &[Row]) -> Vec<RowAfter> {
    let after = |row: &Row| {
        let (number, is_pending) = (number(row, 0)?, row.truth(1));
        Some(RowAfter { number, is_pending, guards: guards(table, row) })
    };
    rows.iter().filter_map(after).collect()
}

pub fn row_states(table: &Table, rows: &[Row]) -> Vec<RowState> {
    let count = table.charge_columns().len();
    let state = |row: &Row| {
        Some(RowState {
            number: number(row, 0)?,
            is_pending: row.truth(1),
            guards: guards(table, row),
            is_expected: row.truth(count + 2),
            is_written: row.truth(count + 3),
        })
    };
    rows.iter().filter_map(state).collect()
}

fn guards(table: &Table, row: &Row) -> Guards {
    let guards = table.charge_columns();
    let values = guards.iter().zip(2..).map(|(column, index)| row.value(column, index));
    Guards(values.collect())
}

/// Returns the part that writes one group. Its rows have the number of each change, the pending state after it, and the
/// guard columns if an attempt begins.
fn write_group(table: &Table, group: &Group, params: &mut usize) -> String {
    let GroupClauses { clauses, number, rows } = GroupClauses::new(table, group, params);
    let (name, sets, condition) = (&table.sql, clauses.sets.join(", "), clauses.condition());
    let is_pending = is_pending(table);
    let charged = guard_values(table, group.first.begins());
    let rows_after = |word: &str| match rows.is_empty() {
        true => String::new(),
        false => format!("{word}{rows}"),
    };
    match group.verb {
        WriteVerb::Update => format!(
            "UPDATE {name} SET {sets}{} WHERE {condition} RETURNING {number}, {is_pending}{charged}",
            rows_after(" FROM ")
        ),
        WriteVerb::Delete => format!(
            "DELETE FROM {name}{} WHERE {condition} RETURNING {number}, false{charged}",
            rows_after(" USING ")
        ),
        WriteVerb::Select => format!(
            "SELECT {number}, {is_pending}{} FROM {name}{} WHERE {condition}",
            guard_values(table, true),
            rows_after(", ")
        ),
    }
}

fn state_of_group(table: &Table, group: &Group, params: &mut usize) -> String {
    let GroupClauses { clauses, number, rows } = GroupClauses::new(table, group, params);
    let rows = if rows.is_empty() { rows } else { format!(", {rows}") };
    format!(
        "SELECT {number}, {}{}, ({}), ({}) FROM {}{rows} WHERE {}",
        is_pending(table),
        guard_values(table, true),
        clauses.is_expected(),
        clauses.is_written(),
        table.sql,
        clauses.has_id()
    )
}

fn is_pending(table: &Table) -> String {
    format!("({}) IS TRUE", table.pending())
}

/// Returns the guard columns, or as many NULLs.
fn guard_values(table: &Table, is_read: bool) -> String {
    let column = |column: &Column| match is_read {
        true => format!(", {}", Postgres.cell(column)),
        false => ", NULL::text".into(),
    };
    table.charge_columns().into_iter().map(column).collect()
}

struct GroupClauses {
    clauses: Clauses,
    /// SQL of the number of the change.
    number: String,
    /// The given rows to join with the table; empty for one change.
    rows: String,
}

impl GroupClauses {
    fn new(table: &Table, group: &Group, params: &mut usize) -> Self {
        let mut clauses = Clauses::default();
        let mut given = Given::after(*params);
        for (index, (term, values)) in group.terms.iter().zip(&group.values).enumerate() {
            let declared = &term.column.declared;
            let value = || match values {
                GroupValues::Same => format!("{}::{declared}", given.scalar()),
                GroupValues::Each(_) => {
                    given.add(index, "text");
                    format!("\"backlog given\".\"backlog {index}\"::{declared}")
                }
            };
            // As text, because not every type can be compared, and equal values with different texts differ. Where
            // equal values have one text, a comparison of the values is twice as fast.
            let text = if has_one_spelling(term.column) { "" } else { "::text" };
            clauses.add(term, &format!("{}.", table.sql), value, |column, value| {
                format!("{column}{text} IS NOT DISTINCT FROM {value}{text}")
            });
        }
        let (number, rows) = if group.numbers.len() == 1 {
            (format!("{}::bigint", given.scalar()), String::new())
        } else {
            given.numbers();
            (NUMBER.into(), given.rows())
        };
        *params = given.params;
        Self { clauses, number, rows }
    }
}

/// Returns true if equal values of a column have the same text.
fn has_one_spelling(column: &Column) -> bool {
    matches!(
        column.column_type,
        ColumnType::Integer | ColumnType::Boolean | ColumnType::Instant | ColumnType::LocalTime
    )
}
