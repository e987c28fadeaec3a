//! Claims on records in SQLite: locks on a file beside the database, released once the outcomes are on disk.

use std::borrow::Cow;
use std::fs::{self, DirEntry, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use backlog_schedule::{Id, Record};
use rusqlite::{Error as SqlError, ErrorCode, Row, Statement};
use rustix::fs::OFlags;

use super::SqliteEngine;
use super::dialect::bound;
use super::open::Unlimited;
use crate::claims::Claims;
use crate::engine::{Engine, Locks, NumberedWrites, RowAfter, SqlDatabase};
use crate::error::{DbError, DbErrorKind, DbResult, StoreError};
use crate::mutex::lock;
use crate::secure_file::{is_same, open_regular};
use crate::sql::id_params;
use crate::state_dir::{ClaimsFile, StateDir};
use crate::store::{Claim, ClaimRequest, Heartbeat, Limits, MAX_VALUE_BYTES, Until, too_large};
use crate::table::{Column, RecordReader, Table, joined};
use crate::watchdog::Watchdog;

type SqliteDatabase = SqlDatabase<SqliteEngine>;

/// Maximum number of claims. The kernel keeps them in a list, which it walks for each.
const MOST_CLAIMS: usize = 2048;

pub struct SqliteLocks {
    watchdog: Option<Watchdog>,
    claims: Arc<Mutex<Claims>>,
    /// Only in WAL mode; in other modes each commit is durable.
    wal_sync: Option<WalSync>,
    place: ClaimsFile,
    by_id: String,
}

impl SqliteLocks {
    pub fn new(table: &Table, state: &StateDir) -> Result<Self> {
        let (file, place) = state.claims_file(&table.name)?;
        let claims = Arc::new(Mutex::new(Claims::new(file)));
        let by_id = table.of_id(&table.all_columns());
        Ok(Self { watchdog: None, claims, wal_sync: None, place, by_id })
    }

    /// Reads the claimed records in one snapshot, which begins after they were claimed.
    fn read_claimed(
        &self,
        on: &SqliteDatabase,
        ids: &[Id],
        claimed: &[bool],
        without_payload: bool,
    ) -> DbResult<Vec<(Id, Claim)>> {
        // A single statement is its own snapshot.
        let connection = &on.engine.connection;
        let _snapshot = (ids.len() > 1).then(|| connection.unchecked_transaction()).transpose()?;
        let (columns, by_id) = match without_payload {
            true => {
                let columns = RecordReader::for_edit(&on.table);
                let by_id = on.table.of_id(&columns.whole_sql());
                (columns, Cow::Owned(by_id))
            }
            false => (RecordReader::all(&on.table), Cow::Borrowed(&self.by_id)),
        };
        let mut by_id = connection.prepare_cached(&by_id)?;
        let claim = |(id, claimed): (&Id, &bool)| {
            if !claimed {
                return Ok((id.clone(), Claim::Busy));
            }
            let read = match read(&mut by_id, &columns, id) {
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::TooBig) => {
                    let _unlimited = Unlimited::new(connection)?;
                    match is_too_large(on, id)? {
                        true => read_without_payload(on, id),
                        // The large value is an id of another row, with which SQLite compared this id.
                        false => read(&mut by_id, &columns, id),
                    }
                }
                read => read,
            };
            let claim = match read.map_err(DbError::from) {
                Err(error) if error.is_of_one_row => Claim::Unreadable(error.message),
                claim => claim?,
            };
            Ok((id.clone(), claim))
        };
        ids.iter().zip(claimed).map(claim).collect()
    }
}

/// Reads the record with an id. A second row shows that the id is not unique.
fn read(by_id: &mut Statement<'_>, columns: &RecordReader<'_>, id: &Id) -> rusqlite::Result<Claim> {
    let mut rows = by_id.query(bound(&id_params(id)))?;
    let mut found = None;
    while let Some(row) = rows.next()? {
        require_memory(row)?;
        let record = columns.record(row, 0);
        if record.is_some_and(|record| found.replace(record).is_some()) {
            return Ok(Claim::Ambiguous);
        }
    }
    Ok(found.map_or(Claim::Gone, |record| Claim::Held(Arc::new(record))))
}

/// Returns true if a row has a value that is too large. It selects the lengths, not the values.
fn is_too_large(on: &SqliteDatabase, id: &Id) -> rusqlite::Result<bool> {
    let table = &on.table;
    let is_large = |column: &Column| format!("octet_length({}) > {MAX_VALUE_BYTES}", column.sql());
    let any = joined(table.columns.iter().map(is_large), " OR ");
    let sql = table.of_id(&format!("({any}) IS TRUE"));
    let mut statement = on.engine.connection.prepare_cached(&sql)?;
    let mut found = statement.query_map(bound(&id_params(id)), |row| row.get::<_, bool>(0))?;
    found.try_fold(false, |any, is_large| Ok(any | is_large?))
}

/// Reads the other columns of a record with a value that is too large, so that its attempt can fail.
fn read_without_payload(on: &SqliteDatabase, id: &Id) -> rusqlite::Result<Claim> {
    let table = &on.table;
    let selected = RecordReader::without_payload(table);
    let mut statement = on.engine.connection.prepare_cached(&table.of_id(&selected.sql()))?;
    let mut rows = statement.query(bound(&id_params(id)))?;
    let Some(record) = rows.next()?.and_then(|row| selected.record(row, 0)) else {
        return Ok(Claim::Gone);
    };
    let too_large = Some(too_large());
    Ok(Claim::Held(Arc::new(Record { too_large, ..record })))
}

impl Locks<SqliteEngine> for SqliteLocks {
    fn limits(&self) -> Limits {
        Limits::local(MOST_CLAIMS)
    }

    fn begin(
        &mut self,
        on: &mut SqliteDatabase,
        token: &str,
        _: Sender<Vec<Id>>,
    ) -> Result<Option<Heartbeat>> {
        let claims = lock(&self.claims).file.try_clone();
        let claims = claims.context("could not duplicate the descriptor of the claims file")?;
        self.watchdog = Some(Watchdog::start(Some(claims.into()), token)?);
        let deferred = on.engine.defer_sync();
        let log = deferred.map_err(|error| on.engine.explain(error.into(), "write to"))?;
        self.wal_sync = log.map(|log| WalSync::start(log, self.claims.clone())).transpose()?;
        Ok(None)
    }

    fn claim(
        &mut self,
        on: &mut SqliteDatabase,
        wanted: ClaimRequest<'_>,
    ) -> Result<Vec<(Id, Claim)>> {
        self.place.require_in_place().map_err(DbError::moved)?;
        let (ids, later) = wanted.split();
        let claim = |id: &Id| {
            let claimed = lock(&self.claims).claim(id);
            claimed.map_err(|why| {
                let message =
                    format!("could not claim record {id} in {}: {why}", self.place.path.display());
                let is_busy = StoreError::is_try_later(&why);
                let kind = if is_busy { DbErrorKind::Busy } else { DbErrorKind::Other };
                DbError { kind, hint: message.clone(), message, ..DbError::default() }
            })
        };
        let claimed = ids.iter().map(claim).collect::<Result<Vec<_>, _>>()?;
        let found = self.read_claimed(on, ids, &claimed, wanted.is_without_payload());
        let is_held =
            |index: usize| matches!(&found, Ok(found) if matches!(found[index].1, Claim::Held(_)));
        for (index, id) in ids.iter().enumerate() {
            if claimed[index] && !is_held(index) {
                lock(&self.claims).release(id);
            }
        }
        let mut found = found?;
        found.extend(later.iter().map(|id| (id.clone(), Claim::NotAsked)));
        Ok(found)
    }

    fn release(&mut self, id: &Id) {
        match &self.wal_sync {
            Some(wal_sync) => wal_sync.release(id),
            None => lock(&self.claims).release(id),
        }
    }

    fn flush(&mut self, _: &mut SqliteDatabase, until: Until) -> Result<()> {
        let wal_sync = self.wal_sync.take_if(|_| until == Until::Durable);
        wal_sync.map_or(Ok(()), WalSync::finish)
    }

    fn write(
        &mut self,
        on: &mut SqliteDatabase,
        changes: &NumberedWrites,
        _: &[Id],
    ) -> DbResult<Vec<RowAfter>> {
        on.engine.require_in_place().map_err(DbError::moved)?;
        on.engine.write(&on.table, changes)
    }
}

/// Size of a row from which the memory is checked first.
const LARGE: usize = 16 << 20;
/// Memory for each byte of a row: one byte for a copy, and six for an escaped character in JSON.
const COPIES: usize = 7;

/// Fails if a row does not fit into memory, which would end the whole pass.
fn require_memory(row: &Row<'_>) -> rusqlite::Result<()> {
    let length = |index| Ok(row.get_ref(index)?.as_bytes().map_or(0, <[u8]>::len));
    let bytes = (0..row.as_ref().column_count()).map(length).sum::<rusqlite::Result<usize>>()?;
    let is_free = || Vec::<u8>::new().try_reserve_exact(bytes.saturating_mul(COPIES)).is_ok();
    if bytes <= LARGE || is_free() {
        return Ok(());
    }
    let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_NOMEM);
    let why = format!("its {} MiB do not fit into memory", bytes >> 20);
    Err(SqlError::SqliteFailure(full, Some(why)))
}

/// Minimum time between two syncs, so that commits share them.
const MIN_SYNC_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum number of such intervals between two syncs, while few claims wait.
const MOST_SYNC_INTERVALS: usize = 5;
/// Maximum number of claims that wait for a shared sync, because the kernel walks all locks for each claim.
const FEW_CLAIMS: usize = 64;

/// The thread that syncs the write-ahead log and then releases claims, so that no other pass claims a record before its
/// outcome would survive a power failure. `synchronous = FULL` would sync in each commit, under the write lock.
/// `NORMAL`, which is safe against corruption in WAL mode, only writes, so commits share a sync.
struct WalSync {
    settled: Sender<Id>,
    /// Dropped with `settled`, so that the thread stops pausing.
    more_to_come: Sender<()>,
    thread: JoinHandle<Result<()>>,
}

impl WalSync {
    /// `log` exists as long as a connection is open.
    fn start(log: PathBuf, claims: Arc<Mutex<Claims>>) -> Result<Self> {
        let file = open_log(&log).with_context(|| format!("could not open {}", log.display()))?;
        let (settled, queue) = channel();
        let (more_to_come, pause) = channel();
        let thread = std::thread::Builder::new()
            .name("log sync".into())
            .spawn(move || {
                sync_all(&file, &queue, &pause, &claims)
                    .with_context(|| format!("could not sync {}", log.display()))
            })
            .context("could not start the thread that syncs the log")?;
        Ok(Self { settled, more_to_come, thread })
    }

    /// Releases the record's claim once everything committed so far is on disk.
    fn release(&self, id: &Id) {
        // If the thread has failed, its claims end with the process, and `finish` returns the error.
        let _ = self.settled.send(id.clone());
    }

    fn finish(self) -> Result<()> {
        drop((self.settled, self.more_to_come));
        let panicked = |_| Err(anyhow!("the thread that syncs the log panicked"));
        self.thread.join().unwrap_or_else(panicked)
    }
}

/// Opens the write-ahead log that SQLite has open. Fails if it was replaced.
fn open_log(log: &Path) -> Result<File> {
    let file = open_regular(log, OFlags::RDONLY | OFlags::NOFOLLOW)?;
    let (own, found) = (file.as_raw_fd().to_string(), file.metadata()?);
    let mut others =
        fs::read_dir("/proc/self/fd")?.flatten().filter(|entry| *entry.file_name() != *own);
    let is_open =
        |entry: DirEntry| fs::metadata(entry.path()).is_ok_and(|other| is_same(&other, &found));
    ensure!(others.any(is_open), "it was replaced just now; try again");
    Ok(file)
}

fn sync_all(
    log: &File,
    queue: &Receiver<Id>,
    pause: &Receiver<()>,
    claims: &Mutex<Claims>,
) -> Result<()> {
    let mut settled = Vec::new();
    loop {
        if settled.is_empty() {
            let Ok(first) = queue.recv() else { return Ok(()) };
            settled.push(first);
        }
        // Everything in the queue is committed.
        settled.extend(queue.try_iter());
        log.sync_data()?;
        let mut claims = lock(claims);
        settled.drain(..).for_each(|id| claims.release(&id));
        drop(claims);
        for _ in 0..MOST_SYNC_INTERVALS {
            // Nothing is sent: this ends with the interval or with the sender.
            let is_over = pause.recv_timeout(MIN_SYNC_INTERVAL) != Err(RecvTimeoutError::Timeout);
            settled.extend(queue.try_iter());
            if is_over || settled.len() > FEW_CLAIMS {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_the_one_that_is_open_and_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("wal"), "pages").unwrap();
        let why = |name: &str| open_log(&path(name)).unwrap_err().to_string();
        assert!(why("wal").contains("it was replaced just now"));
        let open = File::open(path("wal")).unwrap();
        open_log(&path("wal")).unwrap();
        std::os::unix::fs::symlink("wal", path("link")).unwrap();
        assert!(open_log(&path("link")).is_err());
        drop(open);
        let made = std::process::Command::new("mkfifo").arg(path("fifo")).status();
        assert!(made.unwrap().success());
        assert_eq!(why("fifo"), "it is not a regular file");
    }
}
