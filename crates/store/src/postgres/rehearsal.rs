//! The rehearsal of many records in one round trip: the writes of each in a savepoint, sent one behind the
//! other without waiting for answers.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use futures_util::future::{MaybeDone, maybe_done};
use tokio_postgres::{Client, Error as SqlError, Row};

use super::dialect::Request;
use super::session::{Session, query};
use super::{PgEngine, statements};
use crate::engine::Ask;
use crate::error::DbError;
use crate::table::Table;
use crate::writes::RowWrite;

const DEFERRABLE: &str = "SELECT FROM pg_catalog.pg_constraint WHERE condeferrable \
                          UNION ALL SELECT FROM pg_catalog.pg_trigger WHERE tgdeferrable LIMIT 1";

const BEGIN_TO_TRY: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '10ms'; \
                            SAVEPOINT tried";

impl PgEngine {
    /// See [`Engine::try_each`](crate::engine::Engine::try_each).
    pub fn try_in_one_go(
        &mut self,
        table: &Table,
        chains: &[Vec<RowWrite>],
    ) -> Result<Vec<bool>, DbError> {
        let ask = |write| statements::ask(table, &[(0, write)], Ask::Rehearse, false);
        let requests = chains.iter().map(|chain| chain.iter().map(ask).collect());
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
                let seen = statements::seen(table, rows);
                seen.len() == 1 && !(write.ends() && seen[0].is_pending)
            };
            answers.len() == chain.len() && chain.iter().zip(&answers).all(is_made)
        };
        Ok(chains.iter().zip(tried).map(is_accepted).collect())
    }
}

impl Session {
    /// Tries each group of requests by itself in one transaction, which is rolled back, in a single round trip.
    /// Returns the rows of all requests of a group; `None` if the server has refused any, or a constraint that is
    /// deferred to the end. No row lock is waited for.
    fn try_each(
        &mut self,
        groups: &[Vec<Request>],
        has_deferrable: bool,
    ) -> Result<Vec<Option<Vec<Vec<Row>>>>, DbError> {
        // What is deferred is checked at the end of each group.
        let end = if has_deferrable { "SET CONSTRAINTS ALL IMMEDIATE" } else { "" };
        let ends: Vec<_> =
            [end, "ROLLBACK TO tried"].into_iter().filter(|it| !it.is_empty()).collect();
        let mut statements = Vec::new();
        for request in groups.iter().flatten() {
            statements.push(self.statement(&request.sql, &request.params)?);
        }
        let answers = self.connection.wait(async |client| {
            let mut asked = vec![batch(client, BEGIN_TO_TRY)];
            let mut statements = statements.iter();
            for group in groups {
                for (request, statement) in group.iter().zip(statements.by_ref()) {
                    let Request { sql, params } = request;
                    let answer = query(client, statement.as_ref(), sql, params);
                    asked.push(maybe_done(Box::pin(answer)));
                }
                asked.extend(ends.iter().map(|end| batch(client, end)));
            }
            asked.push(batch(client, "ROLLBACK"));
            Ok(in_order(asked).await)
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

type Answer = Result<Vec<Row>, SqlError>;
type Asked<'a> = MaybeDone<Pin<Box<dyn Future<Output = Answer> + 'a>>>;

/// The answers to requests that are sent one behind the other, without waiting between them: the first poll of
/// a request sends it.
async fn in_order(mut requests: Vec<Asked<'_>>) -> Vec<Answer> {
    poll_fn(|context| {
        let poll = |request: &mut Asked<'_>| Pin::new(request).poll(context).is_ready();
        let answered = requests.iter_mut().map(poll).filter(|is_answered| *is_answered).count();
        if answered == requests.len() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    requests.iter_mut().filter_map(|request| Pin::new(request).take_output()).collect()
}

fn batch<'a>(client: &'a Client, sql: &'a str) -> Asked<'a> {
    maybe_done(Box::pin(async move { client.batch_execute(sql).await.map(|()| Vec::new()) }))
}
