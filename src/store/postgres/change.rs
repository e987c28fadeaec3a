//! The SQL with which the PostgreSQL store writes, all of it: a whole round in one statement, one
//! round trip. Every row is guarded: one that is not what it was expected to be any more is left
//! alone.

use super::query::{id_text, is_pending};
use super::sql::{Param, as_text, literal, param};
use crate::record::Status;
use crate::store::RowWrite;
use crate::store::table::{Action, Column, Set, Table, quote};

/// The question that a query answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Make the changes.
    Write,
    /// Say which rows are still there to be changed.
    IsExpected,
    /// Say which rows are as the changes make them.
    IsWritten,
    /// Say which rows are there.
    IsThere,
}

/// Changes that differ in their values only.
struct Group<'a> {
    verb: Verb,
    terms: Vec<Term<'a>>,
    /// Each change's number, and its value for each term.
    rows: Vec<(usize, Vec<Option<String>>)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Verb {
    Update,
    Delete,
    Select,
}

/// A term of a write: the name of a column, its type and its role.
#[derive(PartialEq)]
struct Term<'a> {
    name: &'a str,
    declared: &'a str,
    role: Role,
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// It names the row.
    Id,
    /// It is set to the value.
    Set,
    /// It grows by so much, and has no value of its own.
    Grow(i64),
    /// It must hold the value.
    Guard,
}

/// The column of a change's number, under a name that no condition means.
const NUMBER: &str = "\"backlog number\"";

/// A statement with its parameters. It returns the number of each change that was made, whether the
/// row is pending after it, and the columns that show whether it is still the same.
pub fn statement(table: &Table, changes: &[(usize, &RowWrite)], ask: Ask) -> (String, Vec<Param>) {
    let mut groups: Vec<Group> = Vec::new();
    for (number, change) in changes {
        let (verb, terms, values) = terms(table, change, ask);
        let row = (*number, values);
        match groups.iter_mut().find(|group| group.verb == verb && group.terms == terms) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { verb, terms, rows: vec![row] }),
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
    (sql, params)
}

/// What is done for a change, with which columns, and their values.
fn terms<'a>(
    table: &'a Table,
    change: &'a RowWrite,
    ask: Ask,
) -> (Verb, Vec<Term<'a>>, Vec<Option<String>>) {
    let (mut terms, mut values) = (Vec::new(), Vec::new());
    let mut term = |column: &'a Column, role: Role, value: Option<String>| {
        terms.push(Term { name: &column.name, declared: &column.declared, role });
        values.push(value);
    };
    for (column, part) in table.id.iter().zip(change.record.id.parts()) {
        term(column, Role::Id, Some(id_text(part)));
    }
    if ask == Ask::IsThere {
        return (Verb::Select, terms, values);
    }
    let action = table.action(change);
    if ask == Ask::IsWritten {
        if let Action::Set(sets) = action {
            for (column, set) in sets {
                if let Set::To(value) = set {
                    term(column, Role::Guard, param(&value));
                }
            }
        }
        return (Verb::Select, terms, values);
    }
    for (column, value) in table.expected(change.record, change.charged) {
        term(column, Role::Guard, param(value));
    }
    let verb = match action {
        Action::Delete if ask == Ask::Write => Verb::Delete,
        Action::Set(sets) if ask == Ask::Write && !sets.is_empty() => {
            for (column, set) in sets {
                match set {
                    Set::To(value) => term(column, Role::Set, param(&value)),
                    Set::Add(number) => term(column, Role::Grow(number), None),
                }
            }
            Verb::Update
        }
        Action::Delete | Action::Set(_) => Verb::Select,
    };
    (verb, terms, values)
}

fn write(table: &Table, group: &Group, params: &mut Vec<Param>) -> String {
    let name = &table.sql;
    let (mut arrays, mut names) = (Vec::new(), Vec::new());
    let (mut sets, mut conditions) = (Vec::new(), Vec::new());
    for (index, Term { name: column, declared, role }) in group.terms.iter().enumerate() {
        let column = quote(column);
        let own = format!("{name}.{column}");
        if let Role::Grow(number) = role {
            sets.push(format!("{column} = coalesce({own}, 0) + {number}"));
            continue;
        }
        let values = group.rows.iter().map(|(_, values)| values[index].clone());
        params.push(Param::Texts(values.collect()));
        arrays.push(format!("${}::text[]", params.len()));
        names.push(format!("\"backlog {index}\""));
        let given = format!("\"backlog given\".\"backlog {index}\"::{declared}");
        match role {
            Role::Id => conditions.push(format!("{own} = {given}")),
            // As text, because not every type can be compared, and the very spelling counts.
            Role::Guard => {
                conditions.push(format!("{own}::text IS NOT DISTINCT FROM {given}::text"));
            }
            Role::Set | Role::Grow(_) => sets.push(format!("{column} = {given}")),
        }
    }
    params.push(Param::Keys(
        group.rows.iter().map(|(number, _)| i64::try_from(*number).unwrap_or(-1)).collect(),
    ));
    let given = format!(
        "unnest({}, ${}::bigint[]) AS \"backlog given\"({}, {NUMBER})",
        arrays.join(", "),
        params.len(),
        names.join(", ")
    );
    let condition = conditions.join(" AND ");
    let number = format!("\"backlog given\".{NUMBER}");
    let is_pending = is_pending(table);
    let guards: String =
        table.guard_columns().into_iter().map(|column| format!(", {}", as_text(column))).collect();
    match group.verb {
        Verb::Update => format!(
            "UPDATE {name} SET {} FROM {given} WHERE {condition} \
             RETURNING {number}, {is_pending}{guards}",
            sets.join(", ")
        ),
        Verb::Delete => format!(
            "DELETE FROM {name} USING {given} WHERE {condition} RETURNING {number}, false{guards}"
        ),
        Verb::Select => {
            format!("SELECT {number}, {is_pending}{guards} FROM {name}, {given} WHERE {condition}")
        }
    }
}

/// New pending records with these payloads; the ids are the database's to give.
pub fn insert(
    table: &Table,
    payload: &Column,
    payloads: &[String],
    at: Option<String>,
) -> (String, Vec<Param>) {
    let status = table.statuses.column.as_ref().zip(table.statuses.value(Status::New));
    let mut names = vec![quote(&payload.name), quote(&table.inserted.name)];
    let mut values = vec![
        format!("given.payload::{}", payload.declared),
        format!("$2::text::{}", table.inserted.declared),
    ];
    if let Some((column, value)) = status {
        names.push(quote(&column.name));
        values.push(format!("{}::{}", literal(value), column.declared));
    }
    let sql = format!(
        "INSERT INTO {} ({}) SELECT {} FROM unnest($1::text[]) AS given(payload)",
        table.sql,
        names.join(", "),
        values.join(", ")
    );
    (sql, vec![Param::texts(payloads), Param::Text(at)])
}
