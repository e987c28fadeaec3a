//! Stores of records: the traits that a store implements, and all stores.

#![cfg_attr(
    not(feature = "postgres"),
    allow(dead_code, unused_imports, reason = "unused without a feature")
)]
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests open only files that they made")
)]

mod claims;
mod clauses;
mod clock;
mod database;
mod date;
mod engine;
mod error;
mod explore;
mod inspection;
mod location;
mod mapping;
mod memory;
mod mutex;
pub mod ownership;
mod page;
#[cfg(feature = "postgres")]
mod postgres;
mod retry;
mod scheme;
mod search;
pub mod secure_file;
mod sql;
mod sqlite;
mod state_dir;
mod stop;
mod stoppable;
mod store;
mod survey;
pub mod system_error;
mod table;
mod table_store;
#[cfg(test)]
#[cfg(feature = "postgres")]
mod tests;
#[cfg(feature = "tls")]
pub mod tls_roots;
mod tokens;
mod watchdog;
mod writes;

#[cfg(not(feature = "postgres"))]
pub use location::{certificates, without_password};
#[cfg(feature = "postgres")]
pub use postgres::{certificates, without_password};

pub use claims::LineLock;
pub use clock::Clock;
pub use database::{Access, Database, MOST_IDS, StatusCount};
pub use date::{Dates, Format, Zone};
pub use error::{Refusal, StoreError};
pub use explore::{Explore, Explored, Outline, ValueCount};
pub use inspection::{Inspection, PendingRows};
pub use location::Location;
pub use mapping::{
    Assigned, Assignment, DateSource, Mapping, STATUS, StatusColumn, StatusValues, usual_values,
};
pub use memory::MemoryStore;
pub use mutex::lock;
pub use retry::Retry;
pub use scheme::is_url;
pub use sqlite::side_files;
pub use state_dir::{
    Failing, INTERVAL_ENTRIES, LineHistory, LineName, LineState, NewFailures, PASSES_OF_A_DAY,
    PassCounts, PassEnd, PassEntry, PassRecord, Pause, PauseScope, SlowHandler, StateDir,
    StoredFailures, StoredLine,
};
pub use stop::{IgnoredSignals, Stage, Stop, signal_name};
pub use stoppable::{OwnedThread, Stoppable};
pub use store::{
    Begun, BoxedStore, Claim, ClaimRequest, IsDue, Limits, MAX_VALUE_BYTES, Page, ReadResult,
    Reader, Store, Until,
};
pub use system_error::chain;
pub use table::{CatalogTable, Column, ColumnType, Table, naming, quoted_if_needed};
pub use watchdog::{TOKEN, run_watchdog};
pub use writes::{Ends, Guards, PossibleWrites, Rehearsal, RowConstraints, RowWrite, WriteResult};
