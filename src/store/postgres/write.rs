//! Writes of outcomes to PostgreSQL, and their rehearsal: a whole round in one statement, one round
//! trip. Every row is guarded: one that is not what it was expected to be any more is left alone.

use postgres::{Error as SqlError, Row};

use super::PgDatabase;
use super::errors::{is_lost, is_refusal, words};
use super::query::{id_text, is_pending};
use super::reconnect::OrRefused;
use super::sessions::Sessions;
use super::sql::{Param, as_text, literal, number, param, value};
use crate::record::{Record, Settlement, Status, Transition};
use crate::store::table::{Action, Charged, Column, Set, Table, names, quote};
use crate::store::{NOT_TAKEN, Rehearsal, RowWrite, STILL_PENDING, WriteResult};

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
    let columns = names([payload, &table.inserted].into_iter().chain(status.map(|(it, _)| it)));
    let value =
        |(column, value): (&Column, _)| format!(", {}::{}", literal(value), column.declared);
    let sql = format!(
        "INSERT INTO {} ({columns}) SELECT given.payload::{}, $2::text::{}{} \
         FROM unnest($1::text[]) AS given(payload)",
        table.sql,
        payload.declared,
        table.inserted.declared,
        status.map_or_else(String::new, value)
    );
    (sql, vec![Param::texts(payloads), Param::Text(at)])
}

impl Sessions {
    /// Writes changes, all or none. `again` says that this may have been done before, by a
    /// session that was lost before it could say so.
    pub fn write(&mut self, changes: &[RowWrite], again: bool) -> OrRefused<Vec<WriteResult>> {
        let Self { database, claims, .. } = self;
        let mut applied = vec![WriteResult::ClaimLost; changes.len()];
        let is_mine = |(_, change): &(usize, &RowWrite)| !claims.lost.contains(&change.record.id);
        let mut mine: Vec<_> = changes.iter().enumerate().filter(is_mine).collect();
        for (number, _) in &mine {
            applied[*number] = WriteResult::ChangedMeanwhile;
        }
        if mine.is_empty() {
            return Ok(Ok(applied));
        }
        // Without a status column nothing but the condition makes a row finished.
        let is_to_be_seen = database.table.statuses.column.is_none()
            && mine.iter().any(|(_, change)| change.ends());
        let begun: Vec<_> = mine.iter().copied().filter(|(_, change)| change.begins()).collect();
        let looks_again = !begun.is_empty() && database.looks_again()?;
        if is_to_be_seen || looks_again {
            database.session.batch("BEGIN ISOLATION LEVEL READ COMMITTED")?;
        }
        for Seen { number, is_pending, charged } in database.ask(&mine, Ask::Write)? {
            let change = &changes[number];
            applied[number] = written(change, charged);
            if is_to_be_seen && is_pending && change.ends() {
                database.session.batch("ROLLBACK")?;
                return Ok(Err(STILL_PENDING.into()));
            }
        }
        if looks_again {
            for Seen { number, charged, .. } in database.ask(&begun, Ask::IsThere)? {
                if matches!(applied[number], WriteResult::Charged(_)) {
                    applied[number] = WriteResult::Charged(charged);
                }
            }
        }
        if is_to_be_seen || looks_again {
            database.session.batch("COMMIT")?;
        }
        mine.retain(|(number, _)| applied[*number] == WriteResult::ChangedMeanwhile);
        if mine.is_empty() {
            return Ok(Ok(applied));
        }
        for Seen { number, .. } in database.ask(&mine, Ask::IsExpected)? {
            applied[number] = WriteResult::Refused(NOT_TAKEN.into());
        }
        if again {
            let as_written = database.ask(&mine, Ask::IsWritten)?;
            let deletes = database.table.deletes_finished;
            for (number, change) in mine {
                let seen = as_written.iter().find(|it| it.number == number);
                let is_deleted = deletes && change.settlement.transition == Transition::Succeeded;
                if seen.is_some() != is_deleted {
                    let charged = seen.map(|seen| seen.charged.clone()).unwrap_or_default();
                    applied[number] = written(change, charged);
                }
            }
        }
        Ok(Ok(applied))
    }

    /// Writes each chain, and takes it back.
    pub fn try_out(
        &mut self,
        record: &Record,
        chains: &[Vec<Settlement>],
    ) -> Result<Rehearsal, SqlError> {
        let session = &mut self.database.session;
        session.batch("BEGIN ISOLATION LEVEL READ COMMITTED; SET CONSTRAINTS ALL IMMEDIATE")?;
        let rehearsed = self.database.try_chains(record, chains);
        if !rehearsed.as_ref().is_err_and(is_lost) {
            self.database.session.batch("ROLLBACK")?;
        }
        rehearsed
    }
}

impl PgDatabase {
    /// The changes for which this holds, and what their rows are then.
    fn ask(&mut self, changes: &[(usize, &RowWrite)], ask: Ask) -> Result<Vec<Seen>, SqlError> {
        let (sql, params) = statement(&self.table, changes, ask);
        let rows = self.session.query(&sql, &params)?;
        let guards = self.table.guard_columns();
        let seen = |row: &Row| {
            let values = guards.iter().zip(2..);
            let values = values.map(|(column, index)| value(column, row.get::<usize, _>(index)));
            let (number, charged) = (number(row, 0)?, Charged(values.collect()));
            Some(Seen { number, is_pending: row.get(1), charged })
        };
        Ok(rows.iter().filter_map(seen).collect())
    }

    /// Whether triggers may change a row after what a statement returns of it.
    fn looks_again(&mut self) -> Result<bool, SqlError> {
        if let Some(known) = self.has_after_triggers {
            return Ok(known);
        }
        // Bits of `tgtype`: 2 for BEFORE, 16 for UPDATE.
        let sql = "SELECT 1 FROM pg_trigger WHERE tgrelid = $1::text::regclass \
                   AND NOT tgisinternal AND tgtype & 2 = 0 AND tgtype & 16 <> 0 LIMIT 1";
        let found = !self.session.query(sql, &[Param::text(&self.table.sql)])?.is_empty();
        self.has_after_triggers = Some(found);
        Ok(found)
    }

    fn try_chains(
        &mut self,
        record: &Record,
        chains: &[Vec<Settlement>],
    ) -> Result<Rehearsal, SqlError> {
        for chain in chains {
            self.session.batch("SAVEPOINT rehearsal")?;
            let mut charged: Option<Charged> = None;
            for settlement in chain {
                let change = RowWrite::new(record, charged.as_ref(), settlement.clone());
                let seen = self.ask(&[(0, &change)], Ask::Write).map(|mut seen| seen.pop());
                let why = match seen {
                    Ok(Some(seen)) if change.ends() && seen.is_pending => STILL_PENDING.into(),
                    Ok(Some(_)) if change.begins() => {
                        let seen = self.ask(&[(0, &change)], Ask::IsThere)?;
                        charged = seen.into_iter().next().map(|seen| seen.charged);
                        continue;
                    }
                    Ok(Some(_)) => continue,
                    // After the first step the row is locked for everybody else.
                    Ok(None)
                        if charged.is_none()
                            && self.ask(&[(0, &change)], Ask::IsExpected)?.is_empty() =>
                    {
                        return Ok(Rehearsal::ChangedMeanwhile);
                    }
                    Ok(None) => NOT_TAKEN.into(),
                    Err(error) if is_refusal(&error) => words(&error),
                    Err(error) => return Err(error),
                };
                let status = settlement.status(record.status);
                return Ok(Rehearsal::refused(&self.place, &self.table, status, &why));
            }
            self.session.batch("ROLLBACK TO rehearsal")?;
        }
        Ok(Rehearsal::Taken)
    }
}

/// A change that was made, and what its row is then.
struct Seen {
    /// Which of the changes.
    number: usize,
    is_pending: bool,
    charged: Charged,
}

fn written(change: &RowWrite, charged: Charged) -> WriteResult {
    if change.begins() { WriteResult::Charged(charged) } else { WriteResult::Written }
}
