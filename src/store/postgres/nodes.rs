//! Servers that are one node among several, each with advisory locks of its own. Passes that are connected
//! to two such nodes would not see each other's claims.

use super::PgEngine;
use super::dialect::Param;
use crate::store::error::DbError;

/// Extensions that replicate between nodes which can all be written.
const ACTIVE_ACTIVE: [&str; 3] = ["bdr", "pgactive", "spock"];

impl PgEngine {
    /// If passes on other nodes would not see the claims that are made here, the reason.
    pub fn locks_of_one_node(&mut self) -> Result<Option<String>, DbError> {
        let sql = "SELECT extname::text FROM pg_catalog.pg_extension \
                   WHERE extname = ANY ($1::text[]) ORDER BY 1";
        let wanted = Param::texts(ACTIVE_ACTIVE.into_iter().chain(["citus"]));
        let found = self.session.query(sql, &[wanted])?;
        for name in found.iter().map(|row| row.get::<_, &str>(0)) {
            let (is, instead) = if name != "citus" {
                ("one of several nodes that are written", "a database without the extension")
            } else if self.is_worker_of_citus()? {
                ("a worker", "the coordinator")
            } else {
                continue;
            };
            return Ok(Some(format!(
                "the extension {name} makes this server {is}, and each node has advisory locks of \
                 its own, so that passes on two nodes could handle the same record; use {instead}"
            )));
        }
        Ok(None)
    }

    fn is_worker_of_citus(&mut self) -> Result<bool, DbError> {
        let sql = "SELECT 1 FROM pg_catalog.pg_dist_local_group WHERE groupid <> 0";
        Ok(!self.session.query(sql, &[])?.is_empty())
    }
}
