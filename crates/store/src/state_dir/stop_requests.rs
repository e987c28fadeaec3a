//! Requests to stop the handler of a record: `backlog stop` writes them, the pass that holds the record takes them.

use anyhow::Result;
use backlog_schedule::{Id, exact_id};
use serde_json::Value;

use super::StateDir;
use super::state_db::{COMMAND_WAIT, Json, PASS_WAIT, in_transaction};

/// Created with the first request, so that a `state.db` of an older version gets it too.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS stop_requests (
    run TEXT, record TEXT, PRIMARY KEY (run, record)
) WITHOUT ROWID";

impl StateDir {
    pub fn request_stop(&self, run: &str, id: &Id) -> Result<()> {
        let requested = self.change_state(COMMAND_WAIT, &|connection| {
            in_transaction(connection, || {
                connection.execute_batch(TABLE)?;
                let insertion = "REPLACE INTO stop_requests VALUES (?1, ?2)";
                connection.execute(insertion, (run, exact_id::to_json(id).to_string()))
            })
        });
        requested.map(drop)
    }

    /// Withdraws a request. Returns false if the pass had taken it.
    pub fn withdraw_stop(&self, run: &str, id: &Id) -> Result<bool> {
        let deletion = "DELETE FROM stop_requests WHERE run = ?1 AND record = ?2";
        let record = exact_id::to_json(id).to_string();
        let deleted = self
            .change_state(COMMAND_WAIT, &|connection| connection.execute(deletion, (run, &record)));
        Ok(deleted?.is_some_and(|count| count > 0))
    }

    pub(super) fn take_stop_requests(&self, run: &str) -> Result<Vec<Id>> {
        let taken = self.change_state(PASS_WAIT, &|connection| {
            // `table_exists` does not see a table that another process has just created.
            let exists = "SELECT count(*) FROM sqlite_schema WHERE name = 'stop_requests'";
            if connection.query_row(exists, [], |row| row.get::<_, i64>(0))? == 0 {
                return Ok(Vec::new());
            }
            let take = "DELETE FROM stop_requests WHERE run = ?1 RETURNING record";
            let mut take = connection.prepare_cached(take)?;
            let taken = take.query_map([run], |row| row.get::<_, Json<Value>>(0))?;
            taken.map(|taken| taken.map(|Json(id)| exact_id::from_json(&id))).collect()
        });
        Ok(taken?.unwrap_or_default().into_iter().flatten().collect())
    }
}
