//! Opening of a SQLite file: the checks before it is used, and the wait for its locks.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::limits::Limit;
use rusqlite::types::Null;
use rusqlite::{Connection, Error as SqlError, OpenFlags, TransactionBehavior};

use super::dialect::value;
use super::errors::explain;
use crate::clock::Clock;
use crate::database::Access;
use crate::engine::SqlDatabase;
use crate::mapping::Mapping;
use crate::retry::Retry;
use crate::secure_file::{self, GROUP_WRITE, OTHERS_WRITE, is_root, is_same, is_trusted};
use crate::store::MAX_VALUE_BYTES;
use crate::system_error::reason;
use crate::table::Table;

/// Read-only functions of full-text tables, with the numbers of arguments that SQLite registers.
const FULL_TEXT: [(&str, i32); 7] = [
    ("match", 2),
    ("bm25", -1),
    ("highlight", -1),
    ("snippet", -1),
    ("offsets", 1),
    ("matchinfo", 1),
    ("matchinfo", 2),
];

pub struct SqliteEngine {
    pub connection: Connection,
    pub statements: HashMap<String, String>,
    /// True if updates override the conflict clauses of the table, so that each conflict is an error.
    pub overrides_conflict_clauses: bool,
    pub path: PathBuf,
    pub metadata: Metadata,
}

pub fn open(
    path: &Path,
    mapping: &Mapping,
    access: Access,
    clock: Clock,
) -> Result<SqlDatabase<SqliteEngine>> {
    let mut engine = open_file(path, mapping.table.is_some(), access)?;
    // One transaction, and so one lock, for all statements about the table.
    let find = |connection: &mut Connection| -> Result<Table> {
        connection.execute_batch("BEGIN")?;
        let table = Table::find(connection, mapping, clock)?;
        // Fails if a damaged page has ended the transaction.
        let _ = connection.execute_batch("ROLLBACK");
        Ok(table)
    };
    let table =
        find(&mut engine.connection).map_err(|error| match error.downcast::<SqlError>() {
            Ok(error) => explain(&engine.path, error, "read"),
            Err(error) => error.context(format!("could not use {}", engine.path.display())),
        })?;
    add_functions(&engine.connection, &table)
        .map_err(|error| explain(&engine.path, error, "open"))?;
    Ok(SqlDatabase::new(engine, table))
}

pub fn open_file(path: &Path, is_described: bool, access: Access) -> Result<SqliteEngine> {
    let shown = path.display();
    let not_opened = || format!("could not open {shown}");
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!(no_database(path, is_described))
        }
        metadata => metadata.with_context(not_opened)?,
    };
    require_file(path, &metadata)?;
    let path = path.canonicalize().with_context(not_opened)?;
    require_side_files(&path, Some(&metadata))?;
    let limit = match access {
        Access::Pass(most) => PASS_LIMIT.min(most),
        Access::ReadOnly | Access::ReadWrite => COMMAND_LIMIT,
    };
    let connection = connect(&path, limit)?;
    let statements = HashMap::new();
    let engine =
        SqliteEngine { connection, statements, overrides_conflict_clauses: false, path, metadata };
    if access == Access::ReadOnly {
        // A function may write: optimize() of a full-text table does.
        let only = engine.connection.execute_batch("PRAGMA query_only = 1");
        only.map_err(|error| explain(&engine.path, error, "open"))?;
    }
    Ok(engine)
}

fn require_file(path: &Path, found: &Metadata) -> Result<()> {
    let shown = path.display();
    ensure!(!found.is_dir(), "could not open {shown}: it is a directory, not a database");
    ensure!(found.is_file(), "could not open {shown}: it is not a regular file");
    Ok(())
}

/// A table with a mapping belongs to an application, so the message has no hint to create one.
fn no_database(path: &Path, is_described: bool) -> String {
    let shown = path.display();
    if let Some(why) = missing_directory(path) {
        return format!("no database at {shown}: {why}");
    }
    let hint = (!is_described).then(|| format!("; `backlog init --db {shown}` creates one"));
    format!("no database at {shown}{}", hint.unwrap_or_default())
}

fn missing_directory(path: &Path) -> Option<String> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty())?;
    let is_missing = matches!(directory.try_exists(), Ok(false));
    is_missing.then(|| format!("the directory {} does not exist", directory.display()))
}

pub const SQLITE_SUFFIXES: [&str; 3] = ["-journal", "-wal", "-shm"];
pub const STATE_SUFFIX: &str = ".backlog";

pub fn side_file(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub fn side_files(path: &Path) -> impl Iterator<Item = PathBuf> {
    let path = path.canonicalize().unwrap_or_else(|_| path.into());
    let suffixes = SQLITE_SUFFIXES.into_iter().chain([STATE_SUFFIX]);
    suffixes
        .map(move |suffix| side_file(&path, suffix))
        .filter(|path| path.symlink_metadata().is_ok())
}

/// Fails if a file beside the database would block SQLite, or belongs to a user who may not write the database.
fn require_side_files(path: &Path, database: Option<&Metadata>) -> Result<()> {
    for path in SQLITE_SUFFIXES.map(|suffix| side_file(path, suffix)) {
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        let shown = path.display();
        ensure!(found.is_file(), "could not use {shown}: it is not a regular file; remove it");
        let is_theirs = database.is_some_and(|database| {
            let is_shared = database.mode() & (GROUP_WRITE | OTHERS_WRITE) != 0;
            let is_trusted = is_root() || is_trusted(found.uid()) || found.uid() == database.uid();
            !is_shared && !is_trusted
        });
        ensure!(
            !is_theirs,
            "could not use {shown}: it belongs to user {}, who may not write the database; remove it",
            found.uid()
        );
    }
    Ok(())
}

impl SqliteEngine {
    pub fn journal_mode(&self) -> rusqlite::Result<String> {
        self.connection.pragma_query_value(None, "journal_mode", |row| row.get(0))
    }

    /// Leaves syncing the write-ahead log to the caller, and returns its path. `None` in other journal modes.
    pub fn defer_sync(&self) -> rusqlite::Result<Option<PathBuf>> {
        if self.journal_mode()? != "wal" {
            return Ok(None);
        }
        self.connection.pragma_update(None, "synchronous", "normal")?;
        Ok(Some(side_file(&self.path, "-wal")))
    }

    /// Fails if the file was moved or replaced, because SQLite would go on with the old file.
    pub fn require_in_place(&self) -> Result<()> {
        let shown = self.path.display();
        match fs::symlink_metadata(&self.path) {
            Ok(now) if is_same(&now, &self.metadata) => Ok(()),
            Ok(_) => bail!("{shown} was replaced while the pass ran"),
            Err(error) => {
                bail!("{shown} was moved or removed while the pass ran: {}", reason(&error))
            }
        }
    }
}

/// Creates `table` and, with write-ahead logging, its file. Returns false if the table exists.
pub fn create(path: &Path, table: &str, schema: &str) -> Result<bool> {
    if let Some(why) = missing_directory(path) {
        bail!("could not create {}: {why}", path.display());
    }
    let found = fs::metadata(path).ok();
    found.as_ref().map_or(Ok(()), |found| require_file(path, found))?;
    if found.is_none()
        && let Err(error) = secure_file::create(path)
        && error.kind() != ErrorKind::AlreadyExists
    {
        return Err(error).with_context(|| format!("could not create {}", path.display()));
    }
    let is_new = found.as_ref().is_none_or(|found| found.len() == 0);
    require_side_files(&path.canonicalize().unwrap_or_else(|_| path.into()), found.as_ref())?;
    let mut connection = connect(path, COMMAND_LIMIT)?;
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
    run(&mut connection).map_err(|error| explain(path, error, "create the table in"))
}

pub fn limit_values(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES).map(drop)
}

/// Suspension of that limit, because SQLite reads the whole row to write one column.
pub struct Unlimited<'a>(&'a Connection);

impl<'a> Unlimited<'a> {
    pub fn new(connection: &'a Connection) -> rusqlite::Result<Self> {
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, i32::MAX)?;
        Ok(Self(connection))
    }
}

impl Drop for Unlimited<'_> {
    fn drop(&mut self) {
        // Fails only for negative limits.
        let _ = limit_values(self.0);
    }
}

fn connect(path: &Path, limit: Duration) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> rusqlite::Result<_> {
        let mut connection = Connection::open_with_flags(path, flags)?;
        wait_for_locks(&mut connection, path, limit, None)?;
        harden(&connection)?;
        Ok(connection)
    };
    open().map_err(|error| explain(path, error, "open"))
}

/// Protects against a malicious file: SQL cannot damage it, and triggers and views can do no harm.
fn harden(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // SQLite's placeholders of full-text functions are not marked as harmless, so triggers could not search.
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    for (name, arguments) in FULL_TEXT {
        connection.create_scalar_function(name, arguments, flags, move |_| {
            let error = format!("unable to use function {name} in the requested context");
            Err::<Null, _>(SqlError::UserFunctionError(error.into()))
        })?;
    }
    connection.execute_batch("PRAGMA cell_size_check = 1")
}

/// Adds `backlog_instant`, which reads dates as this program does, and `backlog_value`.
fn add_functions(connection: &Connection, table: &Table) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    let dates = table.dates.clone();
    connection.create_scalar_function("backlog_instant", 1, flags, move |context| {
        Ok(dates.read(&value(context.get_raw(0))).map(|at| at.0))
    })?;
    // Returns its argument, for comparisons without affinity and collation.
    connection.create_scalar_function("backlog_value", 1, flags, |context| Ok(context.get_arg(0)))
}

const COMMAND_LIMIT: Duration = Duration::from_secs(30);
/// Time limit of a pass for a lock. It is long, because a pass may have outcomes to write.
pub const PASS_LIMIT: Duration = Duration::from_secs(300);
/// Wait after which a warning names the lock.
const WARN_AFTER: Duration = Duration::from_secs(2);
/// Pauses between two tries for a lock, in milliseconds, as in SQLite's own handler.
const PAUSES: [u64; 12] = [1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100];

pub fn wait_for_locks(
    connection: &mut Connection,
    path: &Path,
    limit: Duration,
    retry: Option<Retry>,
) -> rusqlite::Result<()> {
    let (path, mut waited) = (path.to_owned(), Duration::ZERO);
    connection.busy_handler(Some(move |times: i32| {
        if times == 0 {
            waited = Duration::ZERO;
        }
        if waited >= limit || retry.as_ref().is_some_and(Retry::must_give_up) {
            return false;
        }
        let step = usize::try_from(times).unwrap_or(0).min(PAUSES.len() - 1);
        let pause = Duration::from_millis(PAUSES[step]);
        std::thread::sleep(pause);
        waited += pause;
        if (WARN_AFTER..WARN_AFTER + pause).contains(&waited) {
            log::warn!("waiting for a lock on {}", path.display());
        }
        true
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use backlog_schedule::Instant;

    #[test]
    fn no_connection_trusts_the_schema_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.db");
        create(&path, "BACKLOG", include_str!("../../../../schema.sql")).unwrap();
        let SqlDatabase { engine, .. } =
            open(&path, &Mapping::default(), Access::ReadOnly, Clock::at(Instant(0))).unwrap();
        let connection = &engine.connection;
        let is_on = |config| connection.db_config(config).unwrap();
        assert!(is_on(DbConfig::SQLITE_DBCONFIG_DEFENSIVE));
        assert!(!is_on(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA));
        let checks: i64 =
            connection.pragma_query_value(None, "cell_size_check", |row| row.get(0)).unwrap();
        assert_eq!(checks, 1);
    }
}
