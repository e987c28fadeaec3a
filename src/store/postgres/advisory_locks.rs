//! Claims on records: advisory locks that the server holds for a living session.
//!
//! Each claim is two locks with keys of their own, in two sessions: whoever wants the record has to
//! get the first and then the second. So the loss of one session, be it by an administrator, frees
//! no record in hand: the other lock stands until the session is made again and has taken its own
//! back. Locks are taken several at a time, because the way to the server is what they cost, and
//! few are held, because all locks of all sessions share one table of the server.
//!
//! Behind a pooler that hands out the server's sessions for a transaction each, a lock of a session
//! is everybody's. There a claim is one lock of a transaction that stays open, in a connection of
//! its own; those locks go all at once, with the transaction's end.

use std::collections::{HashMap, HashSet};

use tokio_postgres::Error as SqlError;

use super::dialect::{Param, param};
use super::session::Session;
use crate::hash::{fnv1a64, splitmix64};
use crate::record::Id;
use crate::store::sql::id_param;
use crate::store::table::{Table, quote};
use crate::store::watchdog::Watchdog;

/// How many records are claimed at a time, at most: two locks each, and a stock server has room for
/// some twelve thousand in all.
pub const MOST_CLAIMS: usize = 128;

/// The lock keys of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    pub first: i64,
    pub second: i64,
}

impl Keys {
    /// Those of a record of a table, as SQL has its name.
    pub fn of(table: &str, id: &Id) -> Self {
        let record = splitmix64(fnv1a64(id.text().as_bytes()));
        let first = splitmix64(fnv1a64(table.as_bytes()) ^ record);
        Self { first: first.cast_signed(), second: splitmix64(first).cast_signed() }
    }
}

/// The claims that this pass holds.
#[derive(Default)]
pub struct PgLocks {
    /// The session of the first locks; made when the first is needed.
    pub session: Option<Session>,
    /// Which of the server's processes serves it.
    pub backend: String,
    /// Whether it is one for a transaction only.
    pub pooled: bool,
    pub held: HashMap<Id, Keys>,
    /// Records that were claimed, and that somebody else got when a session was lost.
    pub lost: HashSet<Id>,
    /// Released, but not yet free: first locks, also of what is half of a claim, or none.
    pub freed_first: Vec<i64>,
    /// The same of second locks, which go together with the next ones that are taken.
    pub freed_second: Vec<i64>,
    /// Locks of the open transaction.
    pub taken: usize,
    /// What the handlers carry, and who ends them if this process is killed.
    pub token: Option<String>,
    pub watchdogs: Vec<Watchdog>,
}

impl PgLocks {
    pub fn room(&self) -> usize {
        if self.pooled && !self.held.is_empty() {
            self.held.len() + (2 * MOST_CLAIMS).saturating_sub(self.taken)
        } else {
            MOST_CLAIMS
        }
    }

    /// Takes first locks, and says which were granted.
    pub fn take_first(&mut self, keys: &[i64]) -> Result<Vec<bool>, SqlError> {
        let function = self.function();
        let Some(session) = &mut self.session else { return Ok(vec![false; keys.len()]) };
        let freed = std::mem::take(&mut self.freed_first);
        if !self.pooled {
            return take_locks(session, function, keys, freed);
        }
        if self.held.is_empty() && self.taken > 0 {
            self.taken = 0;
            session.batch("COMMIT")?;
        }
        if self.taken == 0 {
            // It waits for handlers, however long they take.
            session.batch(
                "BEGIN ISOLATION LEVEL READ COMMITTED; \
                 SET LOCAL idle_in_transaction_session_timeout = 0",
            )?;
        }
        self.taken += keys.len();
        take_locks(session, function, keys, Vec::new())
    }

    /// What takes a first lock.
    pub fn function(&self) -> &'static str {
        if self.pooled { "pg_try_advisory_xact_lock" } else { "pg_try_advisory_lock" }
    }

    /// Gives both locks of a claim back.
    pub fn give_back(&mut self, keys: Keys) {
        self.freed_first.push(keys.first);
        if !self.pooled {
            self.freed_second.push(keys.second);
        }
    }

    /// Makes what was released free. `reading` is the session of the second locks.
    pub fn free(&mut self, reading: &mut Session) -> Result<(), SqlError> {
        let [first, second] = [&mut self.freed_first, &mut self.freed_second].map(std::mem::take);
        if let Some(session) = &mut self.session {
            if !self.pooled {
                unlock(session, first)?;
            } else if self.held.is_empty() && self.taken > 0 {
                self.taken = 0;
                session.batch("COMMIT")?;
            }
        }
        unlock(reading, second)
    }
}

/// Takes locks and gives others back, and says which were granted.
pub fn take_locks(
    session: &mut Session,
    function: &str,
    keys: &[i64],
    freed: Vec<i64>,
) -> Result<Vec<bool>, SqlError> {
    // Materialized, so that each lock is asked for once.
    let sql = format!(
        "WITH wanted AS MATERIALIZED (SELECT key, n FROM unnest($1::bigint[]) \
         WITH ORDINALITY AS given(key, n)), freed AS MATERIALIZED (SELECT count(*) \
         FROM unnest($2::bigint[]) AS given(key) WHERE pg_advisory_unlock(key)) \
         SELECT {function}(key) FROM wanted CROSS JOIN freed ORDER BY n"
    );
    let rows = session.query(&sql, &[Param::Keys(keys.to_vec()), Param::Keys(freed)])?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

pub fn unlock(session: &mut Session, keys: Vec<i64>) -> Result<(), SqlError> {
    if keys.is_empty() {
        return Ok(());
    }
    let sql = "SELECT count(*) FROM unnest($1::bigint[]) AS given(key) \
               WHERE pg_advisory_unlock(key)";
    session.query(sql, &[Param::Keys(keys)]).map(|_| ())
}

/// Ids as parameters, one for each column of the id, and how the first statement that has them
/// calls them.
fn given(table: &Table, ids: &[&Id]) -> (Vec<Param>, Vec<String>) {
    let columns = 0..table.id.len();
    let params = columns.clone().map(|index| {
        let part = |id: &&Id| param(&id_param(id.parts().get(index)?));
        Param::Texts(ids.iter().map(part).collect())
    });
    (params.collect(), columns.map(|index| format!("\"backlog {index}\"")).collect())
}

/// The condition that a row has the id that `given` calls so.
fn has_id(table: &Table, given: &str, names: &[String]) -> String {
    let same = table.id.iter().zip(names).map(|(id, name)| {
        format!("{}.{} = {given}.{name}::{}", table.sql, quote(&id.name), id.declared)
    });
    same.collect::<Vec<_>>().join(" AND ")
}

/// The numbers of those ids whose records are pending, in their order.
pub fn still_pending(table: &Table, ids: &[Id]) -> (String, Vec<Param>) {
    let (mut params, names) = given(table, &ids.iter().collect::<Vec<_>>());
    params.push(Param::Keys((0..).take(ids.len()).collect()));
    let arrays: Vec<_> = (1..params.len()).map(|place| format!("${place}::text[]")).collect();
    let sql = format!(
        "SELECT DISTINCT \"backlog given\".\"backlog number\" FROM unnest({}, ${}::bigint[]) \
         AS \"backlog given\"({}, \"backlog number\") JOIN {} ON {} WHERE {} ORDER BY 1",
        arrays.join(", "),
        params.len(),
        names.join(", "),
        table.sql,
        has_id(table, "\"backlog given\"", &names),
        table.pending(),
    );
    (sql, params)
}

/// Takes the second lock of each wanted record, if `locks`, and reads it; gives the locks back
/// whose keys are the last parameter. A row for each record found, or one if there is none: its
/// number, whether the lock was granted, whether there is a record, and the record.
pub fn lock_and_read(table: &Table, wanted: &[(&Id, Keys)], locks: bool) -> (String, Vec<Param>) {
    let columns = table.id.len();
    let (mut params, names) = given(table, &wanted.iter().map(|(id, _)| *id).collect::<Vec<_>>());
    params.push(Param::Keys((0..).take(wanted.len()).collect()));
    params.push(Param::Keys(wanted.iter().map(|(_, keys)| keys.second).collect()));
    let arrays: Vec<_> = (1..=columns).map(|place| format!("${place}::text[]")).collect();
    let (number, key, freed) = (columns + 1, columns + 2, columns + 3);
    let granted = if locks { "pg_try_advisory_lock(\"backlog key\")" } else { "true" };
    let first = table.id.first().map_or_else(String::new, |it| quote(&it.name));
    let sql = format!(
        "WITH wanted AS MATERIALIZED (SELECT * FROM unnest({}, ${number}::bigint[], \
         ${key}::bigint[]) AS given({}, \"backlog number\", \"backlog key\")), \
         freed AS MATERIALIZED (SELECT count(*) AS \"backlog freed\" \
         FROM unnest(${freed}::bigint[]) AS given(key) WHERE pg_advisory_unlock(key)), \
         held AS MATERIALIZED (SELECT *, {granted} AS \"backlog granted\" \
         FROM wanted CROSS JOIN freed) \
         SELECT \"backlog number\", \"backlog granted\", {}.{first} IS NOT NULL, {} \
         FROM held AS \"backlog held\" LEFT JOIN {} ON \"backlog granted\" AND {}",
        arrays.join(", "),
        names.join(", "),
        table.sql,
        table.all_columns(),
        table.sql,
        has_id(table, "\"backlog held\"", &names),
    );
    (sql, params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_tables_have_keys_of_their_own() {
        let of = |table: &str, id: Id| Keys::of(table, &id);
        let one = of("\"public\".\"orders\"", Id::Integer(7));
        assert_eq!(one, of("\"public\".\"orders\"", Id::Text("7".into())));
        let mut all: Vec<i64> = ["\"public\".\"orders\"", "\"public\".\"mails\""]
            .iter()
            .flat_map(|table| (0..1_000).map(move |id| of(table, Id::Integer(id))))
            .flat_map(|keys| [keys.first, keys.second])
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4_000);
    }
}
