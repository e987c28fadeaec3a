//! Constraints by which a table may accept one row and refuse another, read from its schema.

use std::borrow::Cow;
use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, Params, Result};

use crate::table::Table;
use crate::tokens::{Token, condition_of_index, identifiers, tokens};
use crate::writes::RowConstraints;

/// Clauses after `ON CONFLICT` that do more than fail the statement. The default, ABORT, only fails it.
const CONFLICT_CLAUSES: [&str; 4] = ["REPLACE", "IGNORE", "FAIL", "ROLLBACK"];

pub fn triggers(connection: &Connection, table: &Table) -> Result<Vec<String>> {
    let sql = "SELECT name FROM sqlite_schema \
               WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE ORDER BY 1";
    texts(connection, sql, [&table.name])
}

pub fn texts(connection: &Connection, sql: &str, params: impl Params) -> Result<Vec<String>> {
    connection.prepare(sql)?.query_map(params, |row| row.get(0))?.collect()
}

/// Returns the first constraint with such a clause on a written column, as written in the schema.
pub fn conflict_clause(connection: &Connection, table: &Table) -> Result<Option<String>> {
    let created = created(connection, &table.name)?;
    // Most tables have none, and each pass asks.
    if !created.to_ascii_uppercase().contains("CONFLICT") {
        return Ok(None);
    }
    let tokens = tokens(&created);
    let is_clause = |words: &[Token<'_>]| {
        let is_conflict = words[1].is("ON") && words[2].is("CONFLICT");
        // REPLACE on NULL uses the default value and deletes nothing.
        let replaces_null = words[0].is("NULL") && words[3].is("REPLACE");
        let is_of_rows = CONFLICT_CLAUSES.iter().any(|clause| words[3].is(clause));
        is_conflict && is_of_rows && !replaces_null
    };
    // SQLite also accepts a string as a name here.
    let name = |token: &Token<'_>| {
        token.name().map_or_else(|| token.text.trim_matches('\'').into(), Cow::into_owned)
    };
    let mut definitions = definitions(&tokens).into_iter();
    let found = definitions.find(|definition| {
        definition.windows(4).any(is_clause)
            && definition.iter().map(name).any(|name| is_written(table, &name))
    });
    let text = |definition: &[Token<'_>]| {
        created.get(definition.first()?.at..definition.last()?.end()).map(String::from)
    };
    Ok(found.and_then(text))
}

pub fn row_constraints(connection: &Connection, table: &Table) -> Result<RowConstraints> {
    let by_indexes = index_constraints(connection, table)?;
    let is_of_one_row = table.has_row_dependent_values()
        || !triggers(connection, table)?.is_empty()
        || is_in_foreign_key(connection, table)?
        || is_in_check(&created(connection, &table.name)?, table);
    Ok(if is_of_one_row { by_indexes.max(RowConstraints::OfOneRow) } else { by_indexes })
}

/// Names of the row number, unless a column has them.
const ROW_NUMBERS: [&str; 3] = ["rowid", "oid", "_rowid_"];

fn is_written(table: &Table, column: &str) -> bool {
    table.written_columns().iter().any(|written| written.name.eq_ignore_ascii_case(column))
}

pub fn created(connection: &Connection, table: &str) -> Result<String> {
    let sql = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1 COLLATE NOCASE";
    Ok(connection.query_row(sql, [table], |row| row.get(0)).optional()?.unwrap_or_default())
}

/// Reads constraints by indexes. Columns of an expression or of a partial index's condition are only in its SQL.
fn index_constraints(connection: &Connection, table: &Table) -> Result<RowConstraints> {
    let sql = "SELECT i.\"unique\", c.name, s.sql FROM pragma_index_list(?1) AS i \
               JOIN pragma_index_xinfo(i.name) AS c \
               LEFT JOIN sqlite_schema AS s ON s.type = 'index' AND s.name = i.name \
               WHERE c.key";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([&table.name])?;
    let mut found = RowConstraints::None;
    while let Some(row) = rows.next()? {
        let (is_unique, column): (bool, Option<String>) = (row.get(0)?, row.get(1)?);
        let created = row.get::<_, Option<String>>(2)?.unwrap_or_default();
        let read = match &column {
            Some(_) => identifiers(condition_of_index(&created).unwrap_or_default()),
            None => identifiers(&created),
        };
        let is_read = column.iter().chain(&read).any(|name| is_written(table, name));
        found = found.max(match (is_read, is_unique, column) {
            (true, true, _) => RowConstraints::AcrossRows,
            (true, false, None) => RowConstraints::OfOneRow,
            (true, false, Some(_)) | (false, ..) => RowConstraints::None,
        });
    }
    Ok(found)
}

/// Returns true if a foreign key depends on a written column or a deleted row.
fn is_in_foreign_key(connection: &Connection, table: &Table) -> Result<bool> {
    let sql = "SELECT t.name = ?1 COLLATE NOCASE, f.\"from\", \
               f.\"table\" = ?1 COLLATE NOCASE, f.\"to\" \
               FROM pragma_table_list AS t JOIN pragma_foreign_key_list(t.name) AS f \
               WHERE t.schema = 'main' AND ?1 IN (t.name, f.\"table\") COLLATE NOCASE";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([&table.name])?;
    while let Some(row) = rows.next()? {
        let (is_own, column): (bool, String) = (row.get(0)?, row.get(1)?);
        let (is_target, target): (bool, Option<String>) = (row.get(2)?, row.get(3)?);
        let refers = is_own && is_written(table, &column);
        let is_referred_to = is_target
            && (table.deletes_succeeded || target.is_some_and(|column| is_written(table, &column)));
        if refers || is_referred_to {
            return Ok(true);
        }
    }
    Ok(false)
}

pub fn checks(created: &str) -> Vec<String> {
    let tokens = tokens(created);
    let at_checks = (0..tokens.len()).filter(|at| tokens[*at].is("CHECK"));
    let inside = |at: usize| {
        let inside = parenthesized(&tokens[at + 1..]);
        let text = created.get(inside.first()?.end()..inside.last()?.end())?;
        Some(text.to_string())
    };
    at_checks.filter_map(inside).collect()
}

/// Returns true if a CHECK reads a written column together with another one.
fn is_in_check(created: &str, table: &Table) -> bool {
    let depends_on_row = |check: &String| {
        let names: HashSet<_> = identifiers(check).iter().map(|name| name.to_lowercase()).collect();
        let columns = table.columns.iter().map(|column| column.name.to_lowercase());
        let columns = columns.chain(ROW_NUMBERS.map(String::from));
        let read: HashSet<_> = columns.filter(|column| names.contains(column)).collect();
        read.len() > 1 && read.iter().any(|column| is_written(table, column))
    };
    checks(created).iter().any(depends_on_row)
}

/// Returns the number of open parentheses after each token.
fn depths(tokens: &[Token<'_>]) -> impl Iterator<Item = i32> {
    tokens.iter().scan(0, |depth, token| {
        *depth += i32::from(token.is("(")) - i32::from(token.is(")"));
        Some(*depth)
    })
}

/// Returns the tokens up to the parenthesis that closes the first one.
fn parenthesized<'t, 's>(tokens: &'t [Token<'s>]) -> &'t [Token<'s>] {
    let end = depths(tokens).position(|depth| depth == 0);
    &tokens[..end.unwrap_or(tokens.len())]
}

/// Returns the definitions of columns and constraints in a CREATE TABLE statement.
fn definitions<'t, 's>(created: &'t [Token<'s>]) -> Vec<&'t [Token<'s>]> {
    let begin = created.iter().position(|token| token.is("(")).unwrap_or(created.len());
    let listed = parenthesized(&created[begin..]);
    let mut depths = depths(listed).skip(1);
    let listed = listed.get(1..).unwrap_or_default();
    listed.split(|token| depths.next() == Some(1) && token.is(",")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::mapping::Mapping;
    use backlog_schedule::Instant;

    fn refuses(columns: &str, more: &str) -> RowConstraints {
        let mut connection = Connection::open_in_memory().unwrap();
        let table = format!(
            "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT NOT NULL \
             CHECK (STATUS IN ('NEW', 'ERROR, (')), DATE_INSERTED TEXT UNIQUE, k INT{columns}); {more}"
        );
        connection.execute_batch(&table).unwrap();
        let table =
            Table::find(&mut connection, &Mapping::default(), Clock::at(Instant(0))).unwrap();
        row_constraints(&connection, &table).unwrap()
    }

    #[test]
    fn only_what_depends_on_a_written_column_may_refuse_single_rows() {
        for (columns, more) in [
            ("", ""),
            (", CHECK (k > ID)", ""),
            (", FAILURES INT CHECK (FAILURES >= 0 -- STATUS, k\n)", ""),
            (", UNIQUE (k, ID)", "CREATE INDEX i ON BACKLOG (STATUS, k)"),
            ("", "CREATE UNIQUE INDEX i ON BACKLOG (k) WHERE ID > 7"),
            (" REFERENCES other (k)", "CREATE TABLE other (k INT PRIMARY KEY)"),
            ("", "CREATE TABLE other (id INT REFERENCES BACKLOG (ID))"),
        ] {
            assert_eq!(refuses(columns, more), RowConstraints::None, "{columns} {more}");
        }
        for (columns, more) in [
            (", CHECK (\"status\" <> 'NEW' OR [k] > 0)", ""),
            (", FAILURES INT CHECK (FAILURES < k)", ""),
            (", UNIQUE (k, STATUS)", ""),
            (", s AS (STATUS) CHECK (s <> 'x')", ""),
            (", CHECK (STATUS <> 'SUCCESS' OR rowid <> 2)", ""),
            ("", "CREATE INDEX i ON BACKLOG (json(STATUS))"),
            ("", "CREATE UNIQUE INDEX i ON BACKLOG (k) WHERE \"Status\" = 'NEW'"),
            ("", "CREATE UNIQUE INDEX i ON BACKLOG (k, upper(STATUS))"),
            (
                ", FOREIGN KEY (k, STATUS) REFERENCES other (k, s)",
                "CREATE TABLE other (k INT, s TEXT, PRIMARY KEY (k, s))",
            ),
            (", UNIQUE (STATUS)", "CREATE TABLE other (s TEXT REFERENCES backlog (Status))"),
            ("", "CREATE TRIGGER t AFTER UPDATE OF STATUS ON BACKLOG BEGIN SELECT 1; END"),
        ] {
            let is_unique = columns.contains("UNIQUE") || more.contains("UNIQUE");
            let expected =
                if is_unique { RowConstraints::AcrossRows } else { RowConstraints::OfOneRow };
            assert_eq!(refuses(columns, more), expected, "{columns} {more}");
        }
    }

    #[test]
    fn a_definition_ends_at_a_comma_that_no_parenthesis_or_quote_holds() {
        let created =
            "CREATE TABLE t (a INT CHECK (a IN (1, 2)), \"b,\" TEXT DEFAULT 'x,(y', UNIQUE (a))";
        let tokens = tokens(created);
        let texts = |definition: &[Token<'_>]| {
            definition.iter().map(|token| token.text).collect::<String>()
        };
        let found: Vec<_> = definitions(&tokens).into_iter().map(texts).collect();
        assert_eq!(found, ["aINTCHECK(aIN(1,2))", "\"b,\"TEXTDEFAULT'x,(y'", "UNIQUE(a)"]);
    }
}
