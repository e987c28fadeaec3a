//! The statements of a round, each of which is about many rows and takes one round trip: claims,
//! and guarded writes.

use super::dialect::{Param, Postgres, param};
use super::locks::Keys;
use crate::record::Id;
use crate::store::RowWrite;
use crate::store::engine::Ask;
use crate::store::sql::{Dialect, id_param};
use crate::store::table::{Role, Table, Term, Verb, quote};

/// The rows that a statement is given: its parameters are their columns, under names that no
/// condition means.
struct Given {
    /// Those of the whole statement.
    params: Vec<Param>,
    arrays: Vec<String>,
    names: Vec<String>,
}

/// The column of a row's number among all that were asked for.
const NUMBER: &str = "\"backlog given\".\"backlog number\"";

impl Given {
    fn behind(params: Vec<Param>) -> Self {
        Self { params, arrays: Vec::new(), names: Vec::new() }
    }

    fn texts(&mut self, index: usize, values: Vec<Option<String>>) {
        self.add(&index.to_string(), "text", Param::Texts(values));
    }

    fn keys(&mut self, name: &str, keys: impl Iterator<Item = i64>) {
        self.add(name, "bigint", Param::Keys(keys.collect()));
    }

    fn numbers(&mut self, numbers: impl Iterator<Item = usize>) {
        self.keys("number", numbers.map(|number| i64::try_from(number).unwrap_or(-1)));
    }

    fn add(&mut self, name: &str, holds: &str, values: Param) {
        self.params.push(values);
        self.arrays.push(format!("${}::{holds}[]", self.params.len()));
        self.names.push(format!("\"backlog {name}\""));
    }

    /// Adds the columns of ids; a condition says that a row of the table has them.
    fn ids(&mut self, table: &Table, ids: &[&Id]) -> String {
        let mut same = Vec::new();
        for (index, column) in table.id.iter().enumerate() {
            let part = |id: &&Id| param(&id_param(id.parts().get(index)?));
            self.texts(index, ids.iter().map(part).collect());
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

/// The numbers of those ids whose records are pending, in their order.
pub fn still_pending(table: &Table, ids: &[Id]) -> (String, Vec<Param>) {
    let mut given = Given::behind(Vec::new());
    let has_id = given.ids(table, &ids.iter().collect::<Vec<_>>());
    given.numbers(0..ids.len());
    let (rows, name, pending) = (given.rows(), &table.sql, table.pending());
    let sql = format!(
        "SELECT DISTINCT {NUMBER} FROM {rows} JOIN {name} ON {has_id} WHERE {pending} ORDER BY 1"
    );
    (sql, given.params)
}

/// What gives locks back, whose keys are a parameter.
pub fn unlock(parameter: usize) -> String {
    format!(
        "SELECT count(*) FROM unnest(${parameter}::bigint[]) AS given(key) WHERE pg_advisory_unlock(key)"
    )
}

/// Takes the locks whose keys are the first parameter, gives those of the second back, and says
/// which were granted.
pub fn lock(function: &str) -> String {
    // Materialized, so that each lock is asked for once.
    format!(
        "WITH wanted AS MATERIALIZED (SELECT key, n FROM unnest($1::bigint[]) \
         WITH ORDINALITY AS given(key, n)), freed AS MATERIALIZED ({}) \
         SELECT {function}(key) FROM wanted CROSS JOIN freed ORDER BY n",
        unlock(2)
    )
}

/// Takes the second lock of each wanted record, if `locks`, and reads it; gives the locks back
/// that are freed. A row for each record found, or one if there is none: its
/// number, whether the lock was granted, whether there is a record, and the record.
pub fn lock_and_read(
    table: &Table,
    wanted: &[(&Id, Keys)],
    freed: Vec<i64>,
    locks: bool,
) -> (String, Vec<Param>) {
    let mut given = Given::behind(vec![Param::Keys(freed)]);
    let has_id = given.ids(table, &wanted.iter().map(|(id, _)| *id).collect::<Vec<_>>());
    given.numbers(0..wanted.len());
    given.keys("key", wanted.iter().map(|(_, keys)| keys.second));
    let granted = if locks { "pg_try_advisory_lock(\"backlog key\")" } else { "true" };
    let first = table.id.first().map_or_else(String::new, |it| quote(&it.name));
    let (rows, freed, name, columns) = (given.rows(), unlock(1), &table.sql, table.all_columns());
    let sql = format!(
        "WITH wanted AS MATERIALIZED (SELECT * FROM {rows}), freed AS MATERIALIZED ({freed}), \
         held AS MATERIALIZED (SELECT wanted.*, {granted} AS \"backlog granted\" \
         FROM wanted CROSS JOIN freed) \
         SELECT {NUMBER}, \"backlog granted\", {name}.{first} IS NOT NULL, {columns} \
         FROM held AS \"backlog given\" LEFT JOIN {name} ON \"backlog granted\" AND {has_id}"
    );
    (sql, given.params)
}

/// Changes that differ in their values only.
struct Group<'a> {
    verb: Verb,
    terms: Vec<Term<'a>>,
    /// Each change's number, and its value for each term.
    rows: Vec<(usize, Vec<Option<String>>)>,
}

/// What asks about the rows of changes. It returns the number of each for which the answer is yes,
/// whether the row is pending after it, and the columns that show whether it is still the same.
pub fn write(table: &Table, changes: &[(usize, &RowWrite)], ask: Ask) -> (String, Vec<Param>) {
    let mut groups: Vec<Group> = Vec::new();
    for (number, change) in changes {
        let (verb, terms) = table.terms(change, ask);
        let row = (*number, terms.iter().map(|term| param(&term.value)).collect());
        let is_same = |(own, other): (&Term, &Term)| {
            own.role == other.role && own.column.name == other.column.name
        };
        let is_like = |it: &&mut Group| {
            let is_as_long = it.verb == verb && it.terms.len() == terms.len();
            is_as_long && it.terms.iter().zip(&terms).all(is_same)
        };
        match groups.iter_mut().find(is_like) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { verb, terms, rows: vec![row] }),
        }
    }
    let mut params = Vec::new();
    let mut parts: Vec<_> = groups.iter().map(|it| write_group(table, it, &mut params)).collect();
    if parts.len() == 1 {
        return (parts.remove(0), params);
    }
    let named = parts.iter().zip(0..).map(|(part, index)| format!("g{index} AS ({part})"));
    let named = named.collect::<Vec<_>>().join(", ");
    let all: Vec<_> = (0..parts.len()).map(|index| format!("SELECT * FROM g{index}")).collect();
    (format!("WITH {named} {}", all.join(" UNION ALL ")), params)
}

fn write_group(table: &Table, group: &Group, params: &mut Vec<Param>) -> String {
    let name = &table.sql;
    let mut given = Given::behind(std::mem::take(params));
    let (mut sets, mut conditions) = (Vec::new(), Vec::new());
    for (index, Term { column, role, .. }) in group.terms.iter().enumerate() {
        let (declared, column) = (&column.declared, quote(&column.name));
        let own = format!("{name}.{column}");
        let value = format!("\"backlog given\".\"backlog {index}\"::{declared}");
        match role {
            Role::Grow(more) => {
                sets.push(format!("{column} = coalesce({own}, 0) + {more}"));
                continue;
            }
            Role::Id => conditions.push(format!("{own} = {value}")),
            // As text, because not every type can be compared, and the very spelling counts.
            Role::Guard => {
                conditions.push(format!("{own}::text IS NOT DISTINCT FROM {value}::text"));
            }
            Role::Set => sets.push(format!("{column} = {value}")),
        }
        given.texts(index, group.rows.iter().map(|(_, values)| values[index].clone()).collect());
    }
    given.numbers(group.rows.iter().map(|(number, _)| *number));
    let (rows, sets, condition) = (given.rows(), sets.join(", "), conditions.join(" AND "));
    *params = given.params;
    let is_pending = format!("({}) IS TRUE", table.pending());
    let guards = table.guard_columns().into_iter().map(|it| format!(", {}", Postgres.cell(it)));
    let guards: String = guards.collect();
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
