//! The program, run as a user or cron runs it. Each test is a sentence of behaviour.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bad_input;
mod bytes;
mod check;
mod claims;
mod cluster;
mod cron;
mod dependencies;
mod ground;
mod handlers;
mod inspect;
mod large;
mod limits;
mod mapping;
mod mending;
mod mistakes;
mod pgmq;
mod poison;
mod policies;
mod post;
mod postgres;
mod process;
mod read_only;
mod readme;
mod schedule;
mod security;
mod server;
mod servers;
mod setup;
mod simulate;
mod slots;
mod stream;
mod tables;
mod testenv;
mod triggers;
mod visible;
