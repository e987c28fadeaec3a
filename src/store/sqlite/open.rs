//! Opening of a SQLite file, the checks before anything is done with it, and the wait for its locks.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::Null;
use rusqlite::{Connection, Error as SqlError, OpenFlags, TransactionBehavior};

use super::dialect::value;
use super::errors::explain;
use super::rights::{Owned, Rights, beside};
use crate::lock::lock;
use crate::mapping::Mapping;
use crate::secure_file;
use crate::store::table::Table;
use crate::store::table_store::SqlDatabase;
use crate::store::{Access, StoreStop};

/// The functions of full-text tables that read, and how many arguments SQLite registers them with.
const FULL_TEXT: [(&str, i32); 7] = [
    ("match", 2),
    ("bm25", -1),
    ("highlight", -1),
    ("snippet", -1),
    ("offsets", 1),
    ("matchinfo", 1),
    ("matchinfo", 2),
];

/// An open database.
pub struct SqliteEngine {
    pub connection: Owned,
    pub path: PathBuf,
    pub busy_handler: BusyHandler,
    /// The file, when it was opened.
    pub found: Metadata,
}

/// Opens an existing database; never creates one.
pub fn open(path: &Path, mapping: &Mapping, access: Access) -> Result<SqlDatabase<SqliteEngine>> {
    let not_opened = || format!("could not open {}", path.display());
    let database = match secure_file::resolve(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        database => Some(database.with_context(not_opened)?),
    };
    let there = database.and_then(|it| Some((it.found.clone()?, it)));
    let Some((found, database)) = there else {
        let shown = path.display();
        if mapping.table.is_given {
            bail!("no database at {shown}");
        }
        bail!("no database at {shown}; `backlog init --db {shown}` creates one");
    };
    if found.is_dir() {
        bail!("could not open {}: it is a directory, not a database", path.display());
    }
    let rights = Rights::over(&database)?;
    let acting = rights.take()?;
    let path = database.path;
    let (connection, busy_handler) = connect(&path, OpenFlags::empty())?;
    if let Access::Pass(most) = access {
        busy_handler.of_a_pass(most);
    }
    let mut connection = Owned::new(connection, rights);
    let opened = fs::symlink_metadata(&path).with_context(not_opened)?;
    if (opened.dev(), opened.ino()) != (found.dev(), found.ino()) {
        bail!("could not open {}: it was replaced just now; try again", path.display());
    }
    if access == Access::ReadOnly {
        // A function may write: optimize() of a full-text table does.
        let limited = connection.execute_batch("PRAGMA query_only = 1");
        limited.map_err(|error| explain(&path, error, "open"))?;
    }
    let table = Table::find(&mut *connection, mapping).map_err(|error| {
        match error.downcast::<SqlError>() {
            Ok(error) => explain(&path, error, "read"),
            Err(error) => error.context(format!("could not use {}", path.display())),
        }
    })?;
    add_functions(&connection, &table).map_err(|error| explain(&path, error, "open"))?;
    drop(acting);
    Ok(SqlDatabase::new(SqliteEngine { connection, path, busy_handler, found }, table))
}

impl SqliteEngine {
    /// From now on commits of this connection leave syncing the write-ahead log to the caller.
    /// Says where it is; `None` if the database has none, and commits sync as ever.
    pub fn defer_sync(&self) -> rusqlite::Result<Option<PathBuf>> {
        let mode: String =
            self.connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        if mode != "wal" {
            return Ok(None);
        }
        self.connection.pragma_update(None, "synchronous", "normal")?;
        Ok(Some(beside(&self.path, "-wal")))
    }

    /// Fails if another file, or none, is where this one was when it was opened: SQLite would go on
    /// with the old one, which nobody else sees any more.
    pub fn require_in_place(&self) -> Result<()> {
        let shown = self.path.display();
        match fs::symlink_metadata(&self.path) {
            Ok(now) if (now.dev(), now.ino()) == (self.found.dev(), self.found.ino()) => Ok(()),
            Ok(_) => bail!("{shown} was replaced while the pass ran"),
            Err(error) => bail!("{shown} was moved or removed while the pass ran: {error}"),
        }
    }

    /// Fails if the file has more names than one: each has a journal, and claims, of its own.
    pub fn require_one_name(&self) -> Result<()> {
        let names = self.found.nlink();
        if names > 1 {
            bail!(
                "could not use {}: the file has {names} names (hard links), and passes under one would \
                 not see the claims and the journal of the other; keep one",
                self.path.display()
            );
        }
        Ok(())
    }
}

/// Creates `table` with its schema in the database at `path`, creating the file if there is none:
/// a new one gets write-ahead logging, an existing one keeps its journal mode.
pub fn create(path: &Path, table: &str, schema: &str) -> Result<()> {
    let database =
        secure_file::resolve(path).with_context(|| format!("could not open {}", path.display()))?;
    let is_new = database.found.as_ref().is_none_or(|found| found.len() == 0);
    // A database that is there is worked on as by a pass; a new one is that of whose directory it is.
    let rights = Rights::over(&database)?;
    let _acting = rights.take()?;
    let path = &database.path;
    let (mut connection, _) = connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
    let run = |connection: &mut Connection| -> rusqlite::Result<bool> {
        if is_new {
            connection.pragma_update(None, "journal_mode", "wal")?;
        }
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if tx.table_exists(None, table)? {
            return Ok(false);
        }
        tx.execute_batch(schema)?;
        tx.commit()?;
        Ok(true)
    };
    match run(&mut connection) {
        Ok(true) => Ok(()),
        Ok(false) => bail!("table {table} already exists in {}", path.display()),
        Err(error) => Err(explain(path, error, "create the table in")),
    }
}

fn connect(path: &Path, extra: OpenFlags) -> Result<(Connection, BusyHandler)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | extra;
    let open = || -> rusqlite::Result<_> {
        let mut connection = Connection::open_with_flags(path, flags)?;
        let busy_handler = BusyHandler::install(&mut connection, path.into())?;
        harden(&connection)?;
        Ok((connection, busy_handler))
    };
    open().map_err(|error| explain(path, error, "open"))
}

/// Defence against a database file that somebody else prepared: no SQL can damage the file or write
/// to the tables behind a virtual one, triggers and views may use only what cannot do harm, and a
/// malformed page is an error before it is read.
fn harden(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // What full-text tables give a meaning to is harmless, but SQLite's own placeholders for it do
    // not say so, and a trigger or a view could not search.
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    for (name, arguments) in FULL_TEXT {
        connection.create_scalar_function(name, arguments, flags, move |_| {
            let error = format!("unable to use function {name} in the requested context");
            Err::<Null, _>(SqlError::UserFunctionError(error.into()))
        })?;
    }
    connection.execute_batch("PRAGMA cell_size_check = 1")
}

/// One implementation tells instants from other values, here and in SQL.
pub fn add_functions(connection: &Connection, table: &Table) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    let dates = table.dates.clone();
    connection.create_scalar_function("backlog_instant", 1, flags, move |context| {
        Ok(dates.read(&value(context.get_raw(0))).map(|at| at.0))
    })?;
    // A value as it is read, so that what is compared with it is exact: whatever the column's
    // affinity and collation, and also for text that is no UTF-8.
    connection
        .create_scalar_function("backlog_value", 1, flags, |context| Ok(value(context.get_raw(0))))
}

/// How long a command waits for a lock.
const COMMAND: Duration = Duration::from_secs(30);
/// How long a pass does. What it has to write, and what it would find, is not given up lightly.
const PASS: Duration = Duration::from_secs(300);
/// After this long somebody at a terminal is told what is waited for.
const SILENCE: Duration = Duration::from_secs(2);
/// Pauses between two looks at a lock, in milliseconds: those of SQLite's own handler.
const PAUSES: [u64; 12] = [1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100];

/// For how long a connection waits, and what ends that.
#[derive(Clone)]
pub struct BusyHandler {
    limit: Arc<Mutex<Duration>>,
    stop: Arc<OnceLock<Arc<StoreStop>>>,
}

impl BusyHandler {
    /// Has a connection to `path` wait.
    pub fn install(connection: &mut Connection, path: PathBuf) -> rusqlite::Result<Self> {
        let busy_handler = Self { limit: Arc::new(Mutex::new(COMMAND)), stop: Arc::default() };
        let own = busy_handler.clone();
        let mut waited = Duration::ZERO;
        connection.busy_handler(Some(move |times: i32| {
            if times == 0 {
                waited = Duration::ZERO;
            }
            own.waits(times, &mut waited, &path)
        }))?;
        Ok(busy_handler)
    }

    /// Waits a little, if it is worth while to go on waiting.
    fn waits(&self, times: i32, waited: &mut Duration, path: &Path) -> bool {
        let is_over = *waited >= *lock(&self.limit);
        if is_over || self.stop.get().is_some_and(|stop| stop.ends_operation()) {
            return false;
        }
        let step = usize::try_from(times).unwrap_or(0).min(PAUSES.len() - 1);
        let pause = Duration::from_millis(PAUSES[step]);
        std::thread::sleep(pause);
        let before = std::mem::replace(waited, *waited + pause);
        if before < SILENCE && *waited >= SILENCE {
            log::warn!("waiting for a lock on {}", path.display());
        }
        true
    }

    /// From now on a lock is waited for as long as a pass does, and no longer than `most`.
    pub fn of_a_pass(&self, most: Duration) {
        *lock(&self.limit) = PASS.min(most);
    }

    /// From now on no lock is waited for any longer than the stop says.
    pub fn heed(&self, stop: Arc<StoreStop>) {
        let _ = self.stop.set(stop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_connection_trusts_what_is_in_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.db");
        create(&path, "BACKLOG", include_str!("../../../schema.sql")).unwrap();
        let SqlDatabase { engine, .. } =
            open(&path, &Mapping::default(), Access::ReadOnly).unwrap();
        let connection = &engine.connection;
        let is_on = |config| connection.db_config(config).unwrap();
        assert!(is_on(DbConfig::SQLITE_DBCONFIG_DEFENSIVE));
        assert!(!is_on(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA));
        let checks: i64 =
            connection.pragma_query_value(None, "cell_size_check", |it| it.get(0)).unwrap();
        assert_eq!(checks, 1);
    }
}
