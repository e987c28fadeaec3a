//! The program, run as a user or cron runs it. Each test is a sentence of behaviour.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bad_input;
mod check;
mod circuit_breaker;
mod claims;
mod cron;
mod cursors;
mod dependencies;
mod docs;
mod edits;
mod encodings;
mod escaping;
mod failures;
mod handlers;
mod help;
mod inspect;
mod json;
mod large;
mod limits;
mod mapping;
mod passes;
mod pgmq;
mod policies;
mod post;
mod postgres;
mod process;
mod queues;
mod read_only;

mod schedule;
mod security;
mod servers;
mod setup;
mod simulate;
mod stops;
mod stream;
mod tables;
mod terminal;
mod testenv;
mod triggers;
mod troubleshooting;
mod usage;
