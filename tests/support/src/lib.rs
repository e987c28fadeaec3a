//! Servers for the tests of `backlog`, unit and integration tests alike: PostgreSQL with pgmq and
//! PgBouncer as throw-away clusters, and an HTTP server that follows a script.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub mod cluster;
pub mod server;
