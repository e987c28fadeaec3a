//! Test support for unit and integration tests of `backlog` alike: PostgreSQL with pgmq and PgBouncer
//! as throw-away clusters, an HTTP server that follows a script, and the ages of test records.

#![expect(clippy::string_slice, clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "tests open files where only they put something")]

pub mod cluster;
pub mod server;

const DAY: i64 = 86_400;

/// Ages in seconds of 200 records, from now to older than every line, bounds included.
#[must_use]
pub fn mixed_ages() -> Vec<i64> {
    let bounds = [1, 7, 14, 30, 180, 360].map(|days| days * DAY);
    let at_bounds = bounds.iter().flat_map(|bound| [bound - 1, *bound, bound + 1]);
    // Quadratic, so that the young, who are tried often, are there but do not prevail.
    let others = (0..200 - 18).map(|i: i64| i * i * 1_097 % (420 * DAY));
    at_bounds.chain(others).collect()
}
