//! The SQL with which rows are written: a whole round in one statement, one round trip.

use super::dialect::{Param, as_text, param};
use crate::store::RowWrite;
use crate::store::engine::Ask;
use crate::store::table::{Role, Table, Term, Verb, quote};

/// Changes that differ in their values only.
struct Group<'a> {
    verb: Verb,
    terms: Vec<Term<'a>>,
    /// Each change's number, and its value for each term.
    rows: Vec<(usize, Vec<Option<String>>)>,
}

impl Group<'_> {
    /// Whether these terms differ from its own in their values at most.
    fn has(&self, terms: &[Term]) -> bool {
        let is_like = |(own, other): (&Term, &Term)| {
            own.role == other.role && own.column.name == other.column.name
        };
        self.terms.len() == terms.len() && self.terms.iter().zip(terms).all(is_like)
    }
}

/// The column of a change's number, under a name that no condition means.
const NUMBER: &str = "\"backlog number\"";

/// A statement with its parameters. It returns the number of each change that was made, whether the
/// row is pending after it, and the columns that show whether it is still the same.
pub fn statement(table: &Table, changes: &[(usize, &RowWrite)], ask: Ask) -> (String, Vec<Param>) {
    let mut groups: Vec<Group> = Vec::new();
    for (number, change) in changes {
        let (verb, terms) = table.terms(change, ask);
        let row = (*number, terms.iter().map(|term| param(&term.value)).collect());
        match groups.iter_mut().find(|group| group.verb == verb && group.has(&terms)) {
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

fn write(table: &Table, group: &Group, params: &mut Vec<Param>) -> String {
    let name = &table.sql;
    let (mut arrays, mut names) = (Vec::new(), Vec::new());
    let (mut sets, mut conditions) = (Vec::new(), Vec::new());
    for (index, Term { column, role, .. }) in group.terms.iter().enumerate() {
        let (declared, column) = (&column.declared, quote(&column.name));
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
    let is_pending = format!("({}) IS TRUE", table.pending());
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
