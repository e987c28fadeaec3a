//! The SQL with which the PostgreSQL store writes, all of it: a whole round in one statement, one
//! round trip. Every row is guarded: one that is not what it was expected to be any more is left
//! alone.

use super::query::{id_text, is_pending};
use super::sql::{Param, param, quoted};
use crate::record::Status;
use crate::store::Change;
use crate::store::table::{Action, Column, Expected, Set, Table, quote};

/// A statement with its parameters. It returns the number of each change that was made, and
/// whether the row is pending after it.
pub struct Statement {
    pub sql: String,
    pub params: Vec<Param>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Make the changes.
    Write,
    /// Say which rows are still there to be changed.
    IsExpected,
    /// Say which rows are as the changes make them.
    IsWritten,
}

/// Changes that differ in their values only.
struct Group<'a> {
    shape: Shape<'a>,
    /// For each change what it compares and sets, in the order of the shape.
    rows: Vec<(usize, Vec<Option<String>>)>,
}

/// What one statement does with each of its rows.
#[derive(PartialEq)]
struct Shape<'a> {
    verb: Verb,
    /// Columns that are set; those that only grow have no value.
    sets: Vec<(&'a str, Option<i64>)>,
    guards: Vec<&'a str>,
}

#[derive(Clone, Copy, PartialEq)]
enum Verb {
    Update,
    Delete,
    Look,
}

/// The column of a change's number, under a name that no condition means.
const NUMBER: &str = "\"backlog number\"";

pub fn statement(table: &Table, changes: &[(usize, &Change)], ask: Ask) -> Statement {
    let mut groups: Vec<Group> = Vec::new();
    for (number, change) in changes {
        let (shape, values) = shape(table, change, ask);
        match groups.iter_mut().find(|group| group.shape == shape) {
            Some(group) => group.rows.push((*number, values)),
            None => groups.push(Group { shape, rows: vec![(*number, values)] }),
        }
    }
    let mut params = Vec::new();
    let parts: Vec<String> = groups.iter().map(|group| write(table, group, &mut params)).collect();
    let sql = if let [only] = &parts[..] {
        only.clone()
    } else {
        let named: Vec<_> =
            parts.iter().zip(0..).map(|(part, index)| format!("g{index} AS ({part})")).collect();
        let all: Vec<_> = (0..parts.len()).map(|index| format!("SELECT * FROM g{index}")).collect();
        format!("WITH {} {}", named.join(", "), all.join(" UNION ALL "))
    };
    Statement { sql, params }
}

/// What is done for a change, and its values: the id, what is set, what must be so.
fn shape<'a>(table: &'a Table, change: &'a Change, ask: Ask) -> (Shape<'a>, Vec<Option<String>>) {
    let mut values: Vec<_> =
        change.record.id.parts().iter().map(|part| Some(id_text(part))).collect();
    let (mut sets, mut guards) = (Vec::new(), Vec::new());
    let action = table.action(change);
    let verb = match &action {
        Action::Delete if ask == Ask::Write => Verb::Delete,
        Action::Set(sets) if ask == Ask::Write && !sets.is_empty() => Verb::Update,
        Action::Delete | Action::Set(_) => Verb::Look,
    };
    if let Action::Set(all) = action {
        for (column, set) in all {
            match (verb, set) {
                (Verb::Update, Set::To(value)) => {
                    values.push(param(&value));
                    sets.push((column.name.as_str(), None));
                }
                (Verb::Update, Set::Add(number)) => sets.push((&column.name, Some(number))),
                (Verb::Look | Verb::Delete, Set::To(value)) if ask == Ask::IsWritten => {
                    values.push(param(&value));
                    guards.push(column.name.as_str());
                }
                (Verb::Look | Verb::Delete, _) => {}
            }
        }
    }
    if ask != Ask::IsWritten {
        let Expected { status, unchanged } = table.expected(change.record, change.charged);
        for (column, value) in status.into_iter().chain(unchanged) {
            values.push(param(value));
            guards.push(&column.name);
        }
    }
    (Shape { verb, sets, guards }, values)
}

fn write(table: &Table, group: &Group, params: &mut Vec<Param>) -> String {
    let Shape { verb, sets, guards } = &group.shape;
    let columns = group.rows.first().map_or(0, |(_, values)| values.len());
    let first = params.len() + 1;
    for index in 0..columns {
        let values = group.rows.iter().map(|(_, values)| values[index].clone());
        params.push(Param::Texts(values.collect()));
    }
    params.push(Param::Keys(
        group.rows.iter().map(|(number, _)| i64::try_from(*number).unwrap_or(-1)).collect(),
    ));
    let arrays: Vec<_> =
        (first..first + columns).map(|place| format!("${place}::text[]")).collect();
    let names: Vec<_> = (0..columns).map(|index| format!("\"backlog {index}\"")).collect();
    let given = format!(
        "unnest({}, ${}::bigint[]) AS \"backlog given\"({}, {NUMBER})",
        arrays.join(", "),
        first + columns,
        names.join(", ")
    );
    let mut given_values = names.iter().map(|name| format!("\"backlog given\".{name}"));
    let mut next = || given_values.next().unwrap_or_default();
    let name = &table.sql;
    let own = |column: &str| format!("{name}.{}", quote(column));
    let type_of = |column: &str| {
        let found = table.columns.iter().find(|it| it.name == column);
        found.map_or("text", |column: &Column| &column.declared)
    };
    let mut terms: Vec<_> = table
        .id
        .iter()
        .map(|id| format!("{} = {}::{}", own(&id.name), next(), id.declared))
        .collect();
    let sets: Vec<_> = sets
        .iter()
        .map(|(column, grows)| match grows {
            None => format!("{} = {}::{}", quote(column), next(), type_of(column)),
            Some(number) => format!("{} = coalesce({}, 0) + {number}", quote(column), own(column)),
        })
        .collect();
    // As text, because not every type can be compared, and the very spelling counts.
    terms.extend(guards.iter().map(|column| {
        let given = format!("{}::{}::text", next(), type_of(column));
        format!("{}::text IS NOT DISTINCT FROM {given}", own(column))
    }));
    let condition = terms.join(" AND ");
    let returned = format!("\"backlog given\".{NUMBER}, {}", is_pending(table));
    match verb {
        Verb::Update => format!(
            "UPDATE {name} SET {} FROM {given} WHERE {condition} RETURNING {returned}",
            sets.join(", ")
        ),
        Verb::Delete => format!(
            "DELETE FROM {name} USING {given} WHERE {condition} RETURNING \"backlog given\".{NUMBER}, false"
        ),
        Verb::Look => format!("SELECT {returned} FROM {name}, {given} WHERE {condition}"),
    }
}

/// New pending records with these payloads; the ids are the database's to give.
pub fn insert(
    table: &Table,
    payload: &Column,
    payloads: &[String],
    at: Option<String>,
) -> Statement {
    let status = table.statuses.column.as_ref().zip(table.statuses.value(Status::New));
    let mut names = vec![quote(&payload.name), quote(&table.inserted.name)];
    let mut values = vec![
        format!("given.payload::{}", payload.declared),
        format!("$2::text::{}", table.inserted.declared),
    ];
    if let Some((column, value)) = status {
        names.push(quote(&column.name));
        let value = param(value).map_or_else(|| "NULL".into(), |text| quoted(&text));
        values.push(format!("{value}::{}", column.declared));
    }
    let sql = format!(
        "INSERT INTO {} ({}) SELECT {} FROM unnest($1::text[]) AS given(payload)",
        table.sql,
        names.join(", "),
        values.join(", ")
    );
    let payloads = payloads.iter().map(|payload| Some(payload.clone())).collect();
    Statement { sql, params: vec![Param::Texts(payloads), Param::Text(at)] }
}
