//! `state.db`, the SQLite database of a state directory. No record needs it, so nothing is synced to the disk, and a
//! pass that cannot use it continues without it. The journal is truncated, not removed, so the directory does not
//! change. WAL mode would leave two more files after a kill, and does not work over a network.

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

/// Time for which a pass waits for another writer. Then it skips the entry.
pub const PASS_WAIT: Duration = Duration::from_millis(50);
/// The same at the end of a pass: no record waits then, and without the last entry the pass would seem to be killed.
pub const END_WAIT: Duration = Duration::from_secs(1);
pub const COMMAND_WAIT: Duration = Duration::from_millis(250);

/// "bac" and the version of the tables, in the header of the file. Other databases are not changed.
const APPLICATION: i64 = 0x6261_6301;

/// Times are epoch seconds. The id of a line is the offset of its lock in the file `lines`. `scope` separates
/// databases. `running` lists slow handlers, `said` the times of messages. JSON may gain members without a new version.
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

/// One connection per file, shared by all queues of this process.
static OPEN: Mutex<Vec<Arc<StateDb>>> = Mutex::new(Vec::new());

pub struct StateDb {
    path: PathBuf,
    connection: Mutex<Connection>,
}

impl StateDb {
    /// `None` if the file has no tables, and `create` is false.
    fn open(path: PathBuf, create: bool, wait: Duration) -> Result<Option<Arc<Self>>> {
        let mut open = lock(&OPEN);
        if let Some(found) = open.iter().find(|found| found.path == path) {
            return Ok(Some(found.clone()));
        }
        let connection = connect(&path, create, wait);
        let connection = connection.map_err(|error| StateError::new(&path, &error, "open"))?;
        let Some(connection) = connection.map(Mutex::new) else { return Ok(None) };
        let opened = Arc::new(Self { path, connection });
        open.push(opened.clone());
        Ok(Some(opened))
    }
}

type Act<'a, T> = &'a dyn Fn(&Connection) -> rusqlite::Result<T>;

impl StateDir {
    pub(super) fn read_state<T>(&self, wait: Duration, act: Act<'_, T>) -> Result<Option<T>> {
        let Some(state) = self.state_db(false, wait)? else { return Ok(None) };
        self.run(&state, wait, act, "read").map(Some)
    }

    /// Changes the database, which is created or, if damaged, replaced. `None` without a directory.
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

    /// Tries again under a lock. If the database is still damaged, renames it, and changes a new one.
    fn replace_damaged<T>(&self, change: &dyn Fn() -> Result<Option<T>>) -> Result<Option<T>> {
        let directory = self.create()?;
        let path = self.path().join(STATE);
        let path = path.display();
        let changed = directory.exclusively(|| {
            self.forget_state();
            let again = change();
            if again.as_ref().err().and_then(fault) != Some(Fault::Damaged) {
                return again;
            }
            directory.rename_damaged_state()?;
            self.forget_state();
            log::error!(
                "{path} was damaged and was renamed to {path}.damaged; the history of passes, the cursors and \
                 the causes of failures begin anew, and your table is unchanged"
            );
            change()
        });
        let text = || format!("{path} is damaged: another pass replaces it");
        Ok(changed?.ok_or_else(|| StateError { text: text(), fault: Fault::Busy })?)
    }

    fn run<T>(&self, state: &StateDb, wait: Duration, act: Act<'_, T>, verb: &str) -> Result<T> {
        let connection = lock(&state.connection);
        let done = connection.busy_timeout(wait).and_then(|()| act(&connection));
        Ok(done.map_err(|error| StateError::new(&state.path, &error, verb))?)
    }

    fn state_db(&self, create: bool, wait: Duration) -> Result<Option<Arc<StateDb>>> {
        let mut state = lock(&self.state);
        if state.is_none() {
            let directory = if create { Some(self.create()?) } else { self.open()? };
            let Some(directory) = directory else { return Ok(None) };
            if directory.prepare_state(create)? {
                // SQLite refuses a path with links.
                let path = self.path();
                let path = if self.is_named() { path.canonicalize()? } else { path.into() };
                *state = StateDb::open(path.join(STATE), create, wait)?;
            }
        }
        Ok(state.clone())
    }

    /// Closes the database, which is opened again at its next use.
    fn forget_state(&self) {
        if let Some(state) = lock(&self.state).take() {
            lock(&OPEN).retain(|other| other.path != state.path);
        }
    }
}

fn connect(path: &Path, create: bool, wait: Duration) -> rusqlite::Result<Option<Connection>> {
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
    // Another pass may have just created the tables.
    if !is_new && found != APPLICATION && id()? != APPLICATION {
        let why = "it is a database of another program or version: move it away, or name another --state-dir";
        let code = ffi::Error::new(ffi::SQLITE_MISUSE);
        return Err(SqlError::SqliteFailure(code, Some(why.into())));
    }
    connection.execute_batch(
        "PRAGMA cell_size_check = 1; PRAGMA synchronous = off; PRAGMA journal_mode = truncate",
    )?;
    if is_new && !create {
        return Ok(None);
    }
    if is_new {
        in_transaction(&connection, || {
            connection.execute_batch(SCHEMA)?;
            connection.pragma_update(None, "application_id", APPLICATION)
        })?;
    }
    Ok(Some(connection))
}

pub fn in_transaction<T>(
    connection: &Connection,
    act: impl FnOnce() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let done = act()?;
    transaction.commit()?;
    Ok(done)
}

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
        let is_moved = |error: &ffi::Error| error.extended_code == ffi::SQLITE_READONLY_DBMOVED;
        let is_malformed = matches!(
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
            _ if is_malformed => (Fault::Damaged, DAMAGED),
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
