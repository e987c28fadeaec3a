//! The statements of a round: locks, claims and guarded writes, of many records in one round trip.

use std::fmt::Display;
use std::sync::Arc;

use tokio_postgres::Row;

use super::dialect::{Param, Postgres, number, param};
use super::locks::Keys;
use super::session::Session;
use crate::record::Id;
use crate::store::engine::{Ask, Seen};
use crate::store::error::DbError;
use crate::store::sql::{Dialect, id_param};
use crate::store::table::{
    Cells, Charged, Column, Holds, Role, Selected, Table, Term, Verb, quote,
};
use crate::store::{Claim, RowWrite};

/// The rows that a statement is given: its parameters are their columns, by names of our own.
#[derive(Default)]
struct Given {
    /// Those of the whole statement.
    params: Vec<Param>,
    arrays: Vec<String>,
    names: Vec<String>,
}

/// The column of a row's number among all that were asked for.
const NUMBER: &str = "\"backlog given\".\"backlog number\"";

impl Given {
    fn add(&mut self, name: impl Display, values: Param) {
        let holds = if matches!(values, Param::Keys(_)) { "bigint" } else { "text" };
        self.params.push(values);
        self.arrays.push(format!("${}::{holds}[]", self.params.len()));
        self.names.push(format!("\"backlog {name}\""));
    }

    fn numbers(&mut self, numbers: impl Iterator<Item = usize>) {
        let numbers = numbers.map(|number| i64::try_from(number).unwrap_or(-1));
        self.add("number", Param::Keys(numbers.collect()));
    }

    /// Adds the columns of ids; a condition says that a row of the table has them.
    fn ids(&mut self, table: &Table, ids: &[&Id]) -> String {
        let mut same = Vec::new();
        for (index, column) in table.id.iter().enumerate() {
            let part = |id: &&Id| param(&id_param(id.parts().get(index)?));
            self.add(index, Param::Texts(ids.iter().map(part).collect()));
            let (name, declared) = (quote(&column.name), &column.declared);
            same.push(format!(
                "{}.{name} = \"backlog given\".\"backlog {index}\"::{declared}",
                table.sql
            ));
        }
        same.join(" AND ")
    }

    /// The rows, as `FROM` has them.
    fn rows(&self) -> String {
        let (arrays, names) = (self.arrays.join(", "), self.names.join(", "));
        format!("unnest({arrays}) AS \"backlog given\"({names})")
    }
}

/// Those ids whose records are pending, in their order.
pub fn still_pending(session: &mut Session, table: &Table, ids: &[Id]) -> Result<Vec<Id>, DbError> {
    let mut given = Given::default();
    let has_id = given.ids(table, &ids.iter().collect::<Vec<_>>());
    given.numbers(0..ids.len());
    let (rows, name, pending) = (given.rows(), &table.sql, table.pending());
    let sql = format!(
        "SELECT DISTINCT {NUMBER} FROM {rows} JOIN {name} ON {has_id} WHERE {pending} ORDER BY 1"
    );
    let found = session.query(&sql, &given.params)?;
    Ok(found.iter().filter_map(|row| ids.get(number(row, 0)?).cloned()).collect())
}

/// What gives the locks back whose keys are the first parameter.
const UNLOCK: &str =
    "SELECT count(*) FROM unnest($1::bigint[]) AS given(key) WHERE pg_advisory_unlock(key)";

pub fn unlock(session: &mut Session, keys: Vec<i64>) -> Result<(), DbError> {
    if !keys.is_empty() {
        session.query(UNLOCK, &[Param::Keys(keys)])?;
    }
    Ok(())
}

/// Takes locks and gives others back, and says which were granted.
pub fn take_locks(
    session: &mut Session,
    function: &str,
    keys: &[i64],
    freed: Vec<i64>,
) -> Result<Vec<bool>, DbError> {
    // Materialized, so that each lock is asked for once.
    let sql = format!(
        "WITH freed AS MATERIALIZED ({UNLOCK}), wanted AS MATERIALIZED (SELECT key, n \
         FROM unnest($2::bigint[]) WITH ORDINALITY AS given(key, n)) \
         SELECT {function}(key) FROM wanted CROSS JOIN freed ORDER BY n"
    );
    let rows = session.query(&sql, &[Param::Keys(freed), Param::Keys(keys.to_vec())])?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Takes the second lock of each wanted record, if `locks`, and reads the record if it is granted,
/// in one statement; the first locks were granted before it began. Gives others back.
pub fn lock_and_read(
    session: &mut Session,
    table: &Table,
    wanted: &[(&Id, Keys)],
    freed: Vec<i64>,
    locks: bool,
) -> Result<Vec<Claim>, DbError> {
    let mut given = Given { params: vec![Param::Keys(freed)], ..Given::default() };
    let has_id = given.ids(table, &wanted.iter().map(|(id, _)| *id).collect::<Vec<_>>());
    given.numbers(0..wanted.len());
    given.add("key", Param::Keys(wanted.iter().map(|(_, keys)| keys.second).collect()));
    let granted = if locks { "pg_try_advisory_lock(\"backlog key\")" } else { "true" };
    let first = table.id.first().map_or_else(String::new, |it| quote(&it.name));
    let (rows, name, columns) = (given.rows(), &table.sql, table.all_columns());
    // A row for each record found, or one if there is none.
    let sql = format!(
        "WITH freed AS MATERIALIZED ({UNLOCK}), wanted AS MATERIALIZED (SELECT * FROM {rows}), \
         held AS MATERIALIZED (SELECT wanted.*, {granted} AS \"backlog granted\" \
         FROM wanted CROSS JOIN freed) \
         SELECT {NUMBER}, \"backlog granted\", {name}.{first} IS NOT NULL, {columns} \
         FROM held AS \"backlog given\" LEFT JOIN {name} ON \"backlog granted\" AND {has_id}"
    );
    let mut claims: Vec<_> = wanted.iter().map(|_| Claim::Busy).collect();
    let columns = Selected::all(table);
    for row in session.query(&sql, &given.params)?.iter().filter(|row| row.truth(1)) {
        let claim = number(row, 0).and_then(|index| claims.get_mut(index));
        let Some(claim) = claim else { continue };
        *claim = match claim {
            Claim::Busy => {
                let record = row.truth(2).then(|| columns.record(row, 3)).flatten();
                record.map_or(Claim::Gone, |record| Claim::Held(Arc::new(record)))
            }
            Claim::Held(_) | Claim::Gone | Claim::Ambiguous | Claim::Unreadable(_) => {
                Claim::Ambiguous
            }
        };
    }
    Ok(claims)
}

/// The same, one record after the other. Second locks that were taken for what cannot be read are
/// given back: they outlive a statement that fails.
pub fn lock_and_read_singly(
    session: &mut Session,
    table: &Table,
    wanted: &[(&Id, Keys)],
    locks: bool,
) -> Result<Vec<Claim>, DbError> {
    let give_back = |session: &mut Session, wanted: &[(&Id, Keys)]| match locks {
        true => unlock(session, wanted.iter().map(|(_, keys)| keys.second).collect()),
        false => Ok(()),
    };
    give_back(session, wanted)?;
    let mut claims = Vec::with_capacity(wanted.len());
    for one in wanted.chunks(1) {
        match lock_and_read(session, table, one, Vec::new(), locks) {
            Ok(read) => claims.extend(read),
            Err(error) if error.is_of_a_row => {
                give_back(session, one)?;
                claims.push(Claim::Unreadable(error.words));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(claims)
}

/// Changes that differ in their values only.
struct Group<'a> {
    verb: Verb,
    /// Whether attempts on its rows begin.
    begins: bool,
    /// Whether its rows are brought back.
    renews: bool,
    terms: Vec<Term<'a>>,
    /// Each change's number, and its value for each term.
    rows: Vec<(usize, Vec<Option<String>>)>,
}

/// The rest of a transaction, which commits without waiting for the disk. A pooler keeps nothing of it.
const ASYNCHRONOUS: &str =
    "commits AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))";

/// Asks about the rows of changes. What is written is durable at once, or after the next flush.
pub fn ask(
    session: &mut Session,
    table: &Table,
    changes: &[(usize, &RowWrite)],
    ask: Ask,
    is_asynchronous: bool,
) -> Result<Vec<Seen>, DbError> {
    let mut groups: Vec<Group> = Vec::new();
    for (number, change) in changes {
        let (verb, terms) = table.terms(change, ask);
        let (begins, renews) = (change.begins(), change.renews());
        let row = (*number, terms.iter().map(|term| param(&term.value)).collect());
        let is_same = |(a, b): (&Term, &Term)| a.role == b.role && a.column.name == b.column.name;
        let is_like = |it: &&mut Group| {
            let is_so = (it.verb, it.begins, it.renews) == (verb, begins, renews);
            is_so && it.terms.len() == terms.len() && it.terms.iter().zip(&terms).all(is_same)
        };
        match groups.iter_mut().find(is_like) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { verb, begins, renews, terms, rows: vec![row] }),
        }
    }
    let mut params = Vec::new();
    let parts: Vec<_> = groups.iter().map(|it| write_group(table, it, &mut params)).collect();
    let mut named: Vec<_> =
        parts.iter().zip(0..).map(|(part, index)| format!("g{index} AS ({part})")).collect();
    let all: Vec<_> = (0..parts.len()).map(|index| format!("SELECT * FROM g{index}")).collect();
    let all = all.join(" UNION ALL ");
    let sql = match &parts[..] {
        _ if is_asynchronous => {
            named.push(ASYNCHRONOUS.into());
            let named = named.join(", ");
            format!("WITH {named} SELECT written.* FROM ({all}) AS written, commits")
        }
        [only] => only.clone(),
        _ => format!("WITH {} {all}", named.join(", ")),
    };
    let guards = table.guard_columns();
    let seen = |row: &Row| {
        let values = guards.iter().zip(2..).map(|(column, index)| row.value(column, index));
        let (number, charged) = (number(row, 0)?, Charged(values.collect()));
        Some(Seen { number, is_pending: row.truth(1), charged })
    };
    Ok(session.query(&sql, &params)?.iter().filter_map(seen).collect())
}

/// The statement for one group. It returns the number of each change for which the answer is yes,
/// whether the row is pending after it, and if an attempt begins, which guards what follows, the
/// columns that show whether it is still the same.
fn write_group(table: &Table, group: &Group, params: &mut Vec<Param>) -> String {
    let name = &table.sql;
    let mut given = Given { params: std::mem::take(params), ..Given::default() };
    let (mut sets, mut conditions) = (Vec::new(), Vec::new());
    for (index, Term { column: term_column, role, .. }) in group.terms.iter().enumerate() {
        let (declared, column) = (&term_column.declared, quote(&term_column.name));
        let own = format!("{name}.{column}");
        let value = format!("\"backlog given\".\"backlog {index}\"::{declared}");
        match role {
            Role::Grow(more) => {
                sets.push(format!("{column} = coalesce({own}, 0) + {more}"));
                continue;
            }
            Role::Id => conditions.push(format!("{own} = {value}")),
            Role::Guard => {
                // As text, because not every type can be compared, and the very spelling counts:
                // where it does not, a comparison without it is twice as fast.
                let text = if is_spelt_in_one_way(term_column) { "" } else { "::text" };
                conditions.push(format!("{own}{text} IS NOT DISTINCT FROM {value}{text}"));
            }
            Role::Set => sets.push(format!("{column} = {value}")),
        }
        let values = group.rows.iter().map(|(_, values)| values[index].clone());
        given.add(index, Param::Texts(values.collect()));
    }
    given.numbers(group.rows.iter().map(|(number, _)| *number));
    let (rows, sets, condition) = (given.rows(), sets.join(", "), conditions.join(" AND "));
    *params = given.params;
    let is_pending = format!("({}) IS TRUE", table.still_pending(group.renews));
    let guard = |column: &Column| match group.begins {
        true => format!(", {}", Postgres.cell(column)),
        false => ", NULL::text".into(),
    };
    let guards: String = table.guard_columns().into_iter().map(guard).collect();
    match group.verb {
        Verb::Update => format!(
            "UPDATE {name} SET {sets} FROM {rows} WHERE {condition} \
             RETURNING {NUMBER}, {is_pending}{guards}"
        ),
        Verb::Delete => format!(
            "DELETE FROM {name} USING {rows} WHERE {condition} RETURNING {NUMBER}, false{guards}"
        ),
        Verb::Select => {
            format!("SELECT {NUMBER}, {is_pending}{guards} FROM {name}, {rows} WHERE {condition}")
        }
    }
}

/// Whether values of a column that are equal are spelt alike.
fn is_spelt_in_one_way(column: &Column) -> bool {
    matches!(column.holds, Holds::Integers | Holds::Booleans | Holds::Instants | Holds::ClockTimes)
}
