//! The lock of a crontab line, which keeps its passes from overlapping where there is no state directory.

use backlog_schedule::{fnv1a64, splitmix64};

use super::LOCK;
use crate::error::DbResult;
use crate::postgres::session::{Session, are_pooled};

/// The claiming session of a pass, opened early for the lock of its line.
pub struct LineSession {
    pub(super) session: Session,
    /// `None` behind a pooler, where no lock outlives its transaction: passes of the line may overlap.
    pub(super) key: Option<i64>,
}

impl LineSession {
    /// Returns `None` if another pass of the line has the lock and `wait` is false.
    pub fn lock(
        mut session: Session,
        writing: &mut Session,
        line: &str,
        wait: bool,
    ) -> DbResult<Option<Self>> {
        if are_pooled(&mut session, writing)? {
            return Ok(Some(Self { session, key: None }));
        }
        let key = splitmix64(fnv1a64(format!("line {line}").as_bytes())).cast_signed();
        if wait {
            let wait = format!(
                "SET statement_timeout = 0; SET lock_timeout = 0; \
                 SELECT pg_catalog.pg_advisory_lock({key})"
            );
            session.batch(&wait)?;
        } else if !try_lock(&mut session, key)? {
            return Ok(None);
        }
        Ok(Some(Self { session, key: Some(key) }))
    }
}

pub fn try_lock(session: &mut Session, key: i64) -> DbResult<bool> {
    let granted: Vec<bool> = session.column(&format!("SELECT {LOCK}({key})"), &[])?;
    Ok(granted == [true])
}
