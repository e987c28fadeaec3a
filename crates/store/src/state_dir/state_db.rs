//! `state.db`, the SQLite database of a state directory, with what passes remember. No record needs it, so nothing is
//! synced to the disk, and a pass that cannot use it continues without it.
//!
//! The journal is truncated after each transaction instead of removed, so the directory does not
//! change. WAL mode would leave two more files after a kill, and cannot be shared over a network.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use rusqlite::config::DbConfig;
use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{
    Connection, Error as SqlError, ErrorCode, OpenFlags, Transaction, TransactionBehavior, ffi,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StateDir;
use super::directory::STATE;
use crate::mutex::lock;

/// How long a pass waits for another one that writes. Then it leaves out the entry.
pub const PASS_WAIT: Duration = Duration::from_millis(50);
/// How long it waits at its end: no record waits then, and without the end it would seem to be killed.
pub const END_WAIT: Duration = Duration::from_secs(1);
pub const COMMAND_WAIT: Duration = Duration::from_millis(250);

/// "bac" and the version of the tables, in the header of the file. Other databases are left alone.
const APPLICATION: i64 = 0x6261_6301;

/// Times are epoch seconds. The id of a line is the offset of its lock in the file `lines`. `scope`
/// separates databases. `running` has slow handlers. JSON may gain members without a new version.
const SCHEMA: &str = r#"
CREATE TABLE IF NOT EXISTS lines (
    id INTEGER PRIMARY KEY, scope TEXT, queue TEXT, table_name TEXT, policy TEXT,
    cursor TEXT, totals TEXT
);
CREATE TABLE IF NOT EXISTS passes (
    line INTEGER, number INTEGER, run TEXT, began INTEGER, ended INTEGER, "end" TEXT, exit INTEGER,
    counts TEXT, errors TEXT, more TEXT, PRIMARY KEY (line, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS running (
    run TEXT, record TEXT, pid INTEGER, since INTEGER, PRIMARY KEY (run, record)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS causes (
    scope TEXT, table_name TEXT, cause TEXT, since INTEGER, until INTEGER,
    PRIMARY KEY (scope, table_name, cause)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS errors (
    scope TEXT, table_name TEXT, id TEXT, at INTEGER, error TEXT, unstored TEXT,
    PRIMARY KEY (scope, table_name, id)
);
CREATE TABLE IF NOT EXISTS said (
    line INTEGER, what TEXT, at INTEGER, PRIMARY KEY (line, what)
) WITHOUT ROWID;
"#;

/// One connection for each file: closing any descriptor of a file drops all locks of the process.
static OPEN: Mutex<Vec<Arc<StateDb>>> = Mutex::new(Vec::new());

pub struct StateDb {
    path: PathBuf,
    connection: Mutex<Connection>,
}

impl StateDb {
    /// `None` if the file has no tables, and `is_made` is false.
    fn open(path: PathBuf, is_made: bool, wait: Duration) -> Result<Option<Arc<Self>>> {
        let mut open = lock(&OPEN);
        if let Some(found) = open.iter().find(|found| found.path == path) {
            return Ok(Some(found.clone()));
        }
        let opened = connect(&path, is_made, wait);
        let opened = opened.map_err(|error| StateError::new(&path, &error, "open"))?;
        let opened = opened.map(|it| Arc::new(Self { path, connection: Mutex::new(it) }));
        open.extend(opened.clone());
        Ok(opened)
    }
}

type Act<'a, T> = &'a dyn Fn(&Connection) -> rusqlite::Result<T>;

impl StateDir {
    /// Reads from the database, if there is one.
    pub(super) fn read_state<T>(&self, wait: Duration, act: Act<'_, T>) -> Result<Option<T>> {
        let Some(state) = self.state_db(false, wait)? else { return Ok(None) };
        self.run(&state, wait, act, "read").map(Some)
    }

    /// Changes the database, which is made if there is none or it is damaged. `None` without a directory.
    pub(super) fn change_state<T>(&self, wait: Duration, act: Act<'_, T>) -> Result<Option<T>> {
        if self.is_none() {
            return Ok(None);
        }
        let change = || {
            let Some(state) = self.state_db(true, wait)? else { return Ok(None) };
            self.run(&state, wait, act, "write to").map(Some)
        };
        change().or_else(|error| match fault(&error) {
            Some(Fault::Damaged) => self.replace_damaged(&change),
            Some(Fault::Replaced) => {
                self.forget_state();
                change()
            }
            Some(Fault::Busy | Fault::Other) | None => Err(error),
        })
    }

    /// Renames the database if it is still damaged when nobody else replaces it, and tries again.
    fn replace_damaged<T>(&self, change: &dyn Fn() -> Result<Option<T>>) -> Result<Option<T>> {
        let directory = self.made()?;
        let changed = directory.alone(|| {
            self.forget_state();
            let again = change();
            if again.as_ref().err().and_then(fault) != Some(Fault::Damaged) {
                return again;
            }
            directory.set_state_aside()?;
            self.forget_state();
            let shown = self.path().join(STATE);
            let shown = shown.display();
            log::error!(
                "{shown} was damaged and was renamed to {shown}.damaged; the history of passes, the cursors and \
                 the causes of failures begin anew, and your table is unchanged"
            );
            change()
        });
        let text = || {
            format!("{} is damaged: another pass replaces it", self.path().join(STATE).display())
        };
        Ok(changed?.ok_or_else(|| StateError { text: text(), fault: Fault::Busy })?)
    }

    fn run<T>(&self, state: &StateDb, wait: Duration, act: Act<'_, T>, verb: &str) -> Result<T> {
        let connection = lock(&state.connection);
        let done = connection.busy_timeout(wait).and_then(|()| act(&connection));
        Ok(done.map_err(|error| StateError::new(&state.path, &error, verb))?)
    }

    /// The database. Opens it, and creates it if `is_made`.
    fn state_db(&self, is_made: bool, wait: Duration) -> Result<Option<Arc<StateDb>>> {
        let mut state = lock(&self.state);
        if state.is_none() {
            let directory = if is_made { Some(self.made()?) } else { self.opened()? };
            let Some(directory) = directory else { return Ok(None) };
            if directory.find_state(is_made)? {
                // SQLite refuses a path with links.
                let path = self.path();
                let path = if self.is_named() { path.canonicalize()? } else { path.into() };
                *state = StateDb::open(path.join(STATE), is_made, wait)?;
            }
        }
        Ok(state.clone())
    }

    /// The database is opened again when it is next used.
    fn forget_state(&self) {
        if let Some(state) = lock(&self.state).take() {
            lock(&OPEN).retain(|other| other.path != state.path);
        }
    }
}

fn connect(path: &Path, is_made: bool, wait: Duration) -> rusqlite::Result<Option<Connection>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(wait)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    let id = || -> rusqlite::Result<i64> {
        connection.pragma_query_value(None, "application_id", |row| row.get(0))
    };
    let tables = || -> rusqlite::Result<i64> {
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
    };
    let found = id()?;
    let is_new = found == 0 && tables()? == 0;
    // Another pass may just have made it.
    if !is_new && found != APPLICATION && id()? != APPLICATION {
        let why = "it is a database of another program or version: move it away, or name another --state-dir";
        let code = ffi::Error::new(ffi::SQLITE_MISUSE);
        return Err(SqlError::SqliteFailure(code, Some(why.into())));
    }
    connection.execute_batch(
        "PRAGMA cell_size_check = 1; PRAGMA synchronous = off; PRAGMA journal_mode = truncate",
    )?;
    if is_new && !is_made {
        return Ok(None);
    }
    if is_new {
        together(&connection, || {
            connection.execute_batch(SCHEMA)?;
            connection.pragma_update(None, "application_id", APPLICATION)
        })?;
    }
    Ok(Some(connection))
}

pub fn together<T>(
    connection: &Connection,
    act: impl FnOnce() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let done = act()?;
    transaction.commit()?;
    Ok(done)
}

/// An error of state.db, with the message for the user.
#[derive(Debug)]
struct StateError {
    text: String,
    fault: Fault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Busy,
    Damaged,
    /// The file was renamed or removed while it was open.
    Replaced,
    Other,
}

impl StateError {
    fn new(path: &Path, error: &SqlError, verb: &str) -> Self {
        let is_moved = |it: &ffi::Error| it.extended_code == ffi::SQLITE_READONLY_DBMOVED;
        let is_odd = matches!(
            error,
            SqlError::SqlInputError { .. }
                | SqlError::FromSqlConversionFailure(..)
                | SqlError::IntegralValueOutOfRange(..)
                | SqlError::InvalidColumnType(..)
        );
        let (fault, hint) = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (Fault::Busy, ""),
            _ if error.sqlite_error().is_some_and(is_moved) => (Fault::Replaced, ""),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown) => {
                (Fault::Damaged, DAMAGED)
            }
            _ if is_odd => (Fault::Damaged, DAMAGED),
            _ => (Fault::Other, ""),
        };
        let why = if let SqlError::SqlInputError { msg, .. } = error {
            msg.clone()
        } else {
            error.to_string()
        };
        Self { text: format!("could not {verb} {}{hint}: {why}", path.display()), fault }
    }
}

const DAMAGED: &str = ", which is damaged; the next pass replaces it";

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for StateError {}

fn fault(error: &anyhow::Error) -> Option<Fault> {
    error.downcast_ref::<StateError>().map(|error| error.fault)
}

pub fn is_busy(error: &anyhow::Error) -> bool {
    fault(error) == Some(Fault::Busy)
}

/// A value in a column as JSON. A damaged value is read as the default.
pub struct Json<T>(pub T);

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let text = serde_json::to_string(&self.0);
        Ok(text.map_err(|error| SqlError::ToSqlConversionFailure(error.into()))?.into())
    }
}

impl<T: DeserializeOwned + Default> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_bytes_or_null()?.unwrap_or_default();
        Ok(Self(serde_json::from_slice(text).unwrap_or_default()))
    }
}
