//! Opening of a SQLite file, the checks before anything is done with it, and the wait for its locks.

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
use crate::secure_file::{self, GROUP_WRITE, OTHERS_WRITE, is_own, is_root, is_same};
use crate::system_error::reason;
use crate::table::Table;

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

pub struct SqliteEngine {
    pub connection: Connection,
    /// The texts of statements about rows, by their shape.
    pub statements: HashMap<String, String>,
    /// Whether a conflict is an error of each update, whatever the constraints of the table say.
    pub overrides_conflict_clauses: bool,
    pub path: PathBuf,
    pub found: Metadata,
}

/// Opens an existing database and its table; never creates one.
pub fn open(
    path: &Path,
    mapping: &Mapping,
    access: Access,
    clock: Clock,
) -> Result<SqlDatabase<SqliteEngine>> {
    let mut engine = open_file(path, mapping.table.is_some(), access)?;
    // One lock for all statements about the table.
    let find = |connection: &mut Connection| -> Result<Table> {
        connection.execute_batch("BEGIN")?;
        let table = Table::find(connection, mapping, clock)?;
        // Nothing was written. A damaged page may have ended the transaction already.
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
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!(no_database(path, is_described))
        }
        found => found.with_context(not_opened)?,
    };
    ensure!(!found.is_dir(), "could not open {shown}: it is a directory, not a database");
    let path = path.canonicalize().with_context(not_opened)?;
    require_files(&path, Some(&found))?;
    let limit = match access {
        Access::Pass(most) => PASS.min(most),
        Access::ReadOnly | Access::ReadWrite => COMMAND,
    };
    let connection = connect(&path, limit)?;
    let statements = HashMap::new();
    let engine =
        SqliteEngine { connection, statements, overrides_conflict_clauses: false, path, found };
    if access == Access::ReadOnly {
        // A function may write: optimize() of a full-text table does.
        let only = engine.connection.execute_batch("PRAGMA query_only = 1");
        only.map_err(|error| explain(&engine.path, error, "open"))?;
    }
    Ok(engine)
}

/// The message about a path without a database. Applications create the tables that users describe.
fn no_database(path: &Path, is_described: bool) -> String {
    let shown = path.display();
    if let Some(why) = missing_directory(path) {
        return format!("no database at {shown}: {why}");
    }
    let made = (!is_described).then(|| format!("; `backlog init --db {shown}` creates one"));
    format!("no database at {shown}{}", made.unwrap_or_default())
}

fn missing_directory(path: &Path) -> Option<String> {
    let directory = path.parent().filter(|it| !it.as_os_str().is_empty())?;
    let is_missing = matches!(directory.try_exists(), Ok(false));
    is_missing.then(|| format!("the directory {} does not exist", directory.display()))
}

/// What is kept beside a database, by its name and an end.
pub fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// What SQLite adds to the name of a database for what it keeps beside it.
pub const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];
/// What this program adds for the state directory.
pub const STATE: &str = ".backlog";

/// All that is there of what is kept beside a database.
pub fn kept_beside(path: &Path) -> impl Iterator<Item = PathBuf> {
    let path = path.canonicalize().unwrap_or_else(|_| path.into());
    let ends = BESIDE.into_iter().chain([STATE]);
    ends.map(move |end| beside(&path, end)).filter(|path| path.symlink_metadata().is_ok())
}

/// Fails if a file beside the database would block SQLite, or is of a user who may not write it.
fn require_files(path: &Path, database: Option<&Metadata>) -> Result<()> {
    for beside in BESIDE.map(|end| beside(path, end)) {
        let Ok(found) = fs::symlink_metadata(&beside) else { continue };
        let shown = beside.display();
        ensure!(found.is_file(), "could not use {shown}: it is no regular file; remove it");
        let is_theirs = database.is_some_and(|database| {
            let is_shared = database.mode() & (GROUP_WRITE | OTHERS_WRITE) != 0;
            let is_trusted = is_root() || is_own(found.uid()) || found.uid() == database.uid();
            !is_shared && !is_trusted
        });
        ensure!(
            !is_theirs,
            "could not use {shown}: it is of user {}, who may not write the database; remove it",
            found.uid()
        );
    }
    Ok(())
}

impl SqliteEngine {
    pub fn journal_mode(&self) -> rusqlite::Result<String> {
        self.connection.pragma_query_value(None, "journal_mode", |row| row.get(0))
    }

    /// From now on commits leave syncing the write-ahead log to the caller, where there is one.
    pub fn defer_sync(&self) -> rusqlite::Result<Option<PathBuf>> {
        if self.journal_mode()? != "wal" {
            return Ok(None);
        }
        self.connection.pragma_update(None, "synchronous", "normal")?;
        Ok(Some(beside(&self.path, "-wal")))
    }

    /// Else SQLite would go on with the old file, which nobody else sees any more.
    pub fn require_in_place(&self) -> Result<()> {
        let shown = self.path.display();
        match fs::symlink_metadata(&self.path) {
            Ok(now) if is_same(&now, &self.found) => Ok(()),
            Ok(_) => bail!("{shown} was replaced while the pass ran"),
            Err(error) => {
                bail!("{shown} was moved or removed while the pass ran: {}", reason(&error))
            }
        }
    }
}

/// Creates `table` if it is missing, and the file, which gets write-ahead logging.
pub fn create(path: &Path, table: &str, schema: &str) -> Result<bool> {
    if let Some(why) = missing_directory(path) {
        bail!("could not create {}: {why}", path.display());
    }
    let found = fs::metadata(path).ok();
    if found.is_none()
        && let Err(error) = secure_file::make(path)
        && error.kind() != ErrorKind::AlreadyExists
    {
        return Err(error).with_context(|| format!("could not create {}", path.display()));
    }
    let is_new = found.as_ref().is_none_or(|found| found.len() == 0);
    require_files(&path.canonicalize().unwrap_or_else(|_| path.into()), found.as_ref())?;
    let mut connection = connect(path, COMMAND)?;
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

/// Maximum size of a value that a pass reads. A larger one is an error of its row.
pub const MOST_OF_VALUE: i32 = 64 << 20;

pub fn limit_values(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MOST_OF_VALUE).map(drop)
}

/// Lifts that limit as long as it lives: to write one column SQLite reads the whole row.
pub struct Unlimited<'a>(&'a Connection);

impl<'a> Unlimited<'a> {
    pub fn new(connection: &'a Connection) -> rusqlite::Result<Self> {
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, i32::MAX)?;
        Ok(Self(connection))
    }
}

impl Drop for Unlimited<'_> {
    fn drop(&mut self) {
        // It fails for limits that are negative, and for nothing else.
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

/// Defence against a prepared file: no SQL damages it, and triggers and views can do no harm.
fn harden(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // SQLite does not mark its placeholders for full-text functions as harmless, so triggers could not search.
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
fn add_functions(connection: &Connection, table: &Table) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    let dates = table.dates.clone();
    connection.create_scalar_function("backlog_instant", 1, flags, move |context| {
        Ok(dates.read(&value(context.get_raw(0))).map(|at| at.0))
    })?;
    // A value as it is read, for exact comparisons whatever the affinity and collation.
    connection.create_scalar_function("backlog_value", 1, flags, |context| Ok(context.get_arg(0)))
}

/// How long a command waits for a lock.
const COMMAND: Duration = Duration::from_secs(30);
/// How long a pass does. What it has to write, and what it would find, is not given up lightly.
pub const PASS: Duration = Duration::from_secs(300);
/// After this long somebody at a terminal is told what is waited for.
const SILENCE: Duration = Duration::from_secs(2);
/// Pauses between two looks at a lock, in milliseconds: those of SQLite's own handler.
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
        if (SILENCE..SILENCE + pause).contains(&waited) {
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
    fn no_connection_trusts_what_is_in_the_file() {
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
            connection.pragma_query_value(None, "cell_size_check", |it| it.get(0)).unwrap();
        assert_eq!(checks, 1);
    }
}
