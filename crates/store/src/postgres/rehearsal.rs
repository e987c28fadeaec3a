//! The rehearsal of many records in one round trip, with a savepoint for the writes of each record.

use std::pin::Pin;

use futures_util::future::join_all;
use tokio_postgres::{Client, Error as SqlError, Row};

use super::dialect::Request;
use super::session::{Session, query};
use super::{PgEngine, statements};
use crate::error::DbResult;
use crate::table::Table;
use crate::writes::RowWrite;

const DEFERRABLE: &str = "SELECT FROM pg_catalog.pg_constraint WHERE condeferrable \
                          UNION ALL SELECT FROM pg_catalog.pg_trigger WHERE tgdeferrable LIMIT 1";

const BEGIN_TO_TRY: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '10ms'; \
                            SAVEPOINT tried";

impl PgEngine {
    pub fn try_in_one_trip(
        &mut self,
        table: &Table,
        chains: &[Vec<RowWrite>],
    ) -> DbResult<Vec<bool>> {
        let request = |write| statements::write(table, &[(0, write)]);
        let requests = chains.iter().map(|chain| chain.iter().map(request).collect());
        let requests: Vec<_> = requests.collect();
        let has_deferrable = match self.has_deferrable {
            Some(known) => known,
            None => !self.session.query(DEFERRABLE, &[])?.is_empty(),
        };
        self.has_deferrable = Some(has_deferrable);
        let tried = self.session.try_each(&requests, has_deferrable)?;
        let is_accepted = |(chain, tried): (&Vec<RowWrite>, Option<Vec<Vec<Row>>>)| {
            let answers = tried.unwrap_or_default();
            let is_made = |(write, rows): (&RowWrite, &Vec<Row>)| {
                let after = statements::rows_after(table, rows);
                after.len() == 1 && write.objection(after[0].is_pending).is_none()
            };
            answers.len() == chain.len() && chain.iter().zip(&answers).all(is_made)
        };
        Ok(chains.iter().zip(tried).map(is_accepted).collect())
    }
}

impl Session {
    /// Tries groups of requests in one transaction, and undoes each. Returns the rows of a group, or `None` if the
    /// server refused a request or a deferred constraint failed. Waits at most 10 ms for a row lock.
    fn try_each(
        &mut self,
        groups: &[Vec<Request>],
        has_deferrable: bool,
    ) -> DbResult<Vec<Option<Vec<Vec<Row>>>>> {
        let ends: &[&str] = match has_deferrable {
            true => &["SET CONSTRAINTS ALL IMMEDIATE", "ROLLBACK TO tried"],
            false => &["ROLLBACK TO tried"],
        };
        let Self { connection, prepared, .. } = self;
        let answers = connection.wait(async |client| {
            let mut statements = Vec::new();
            for Request { sql, params } in groups.iter().flatten() {
                statements.push(prepared.get(client, sql, params).await?);
            }
            let mut requests = vec![batch(client, BEGIN_TO_TRY)];
            let mut statements = statements.iter();
            for group in groups {
                for (request, statement) in group.iter().zip(statements.by_ref()) {
                    let Request { sql, params } = request;
                    requests.push(Box::pin(query(client, statement.as_ref(), sql, params)));
                }
                requests.extend(ends.iter().map(|end| batch(client, end)));
            }
            requests.push(batch(client, "ROLLBACK"));
            // The first poll of each request sends it.
            Ok(join_all(requests).await)
        })?;
        let mut answers = answers.into_iter();
        answers.next().transpose()?;
        let mut tried = Vec::with_capacity(groups.len());
        for group in groups {
            let answers: Vec<_> = answers.by_ref().take(group.len() + ends.len()).collect();
            let rows: Result<Vec<_>, _> = answers.into_iter().collect();
            tried.push(rows.ok().map(|mut rows| {
                rows.truncate(group.len());
                rows
            }));
        }
        answers.next().transpose()?;
        Ok(tried)
    }
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, SqlError>> + 'a>>;

fn batch<'a>(client: &'a Client, sql: &'a str) -> Answer<'a> {
    Box::pin(async move { client.batch_execute(sql).await.map(|()| Vec::new()) })
}
