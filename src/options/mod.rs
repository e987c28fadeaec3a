//! Options, from the command line, the environment and backlog.toml: one struct for each group of
//! them, read from the merged layers. Nothing behind this sees a raw flag.

pub mod keys;
mod layers;
mod pass;
mod ping;
mod queue;
mod reference;
mod schedule;
mod sources;
pub mod value;

pub use layers::{Layers, Origin, Resolved, TypedOptions};
pub use pass::{Handler, HandlerOptions, PassOptions, PassSettings, WEBHOOK_SECRET};
pub use ping::{Event, Ping};
pub use queue::{Queue, QueueOptions, location};
pub use reference::{Key, SECTIONS};
pub use schedule::{Pace, ScheduleOptions, no_schedule, unknown_schedule};
pub use sources::{Environment, LONGEST_NAME, Sources};

pub use backlog_schedule::Schedule;

/// The name of a queue that has none.
pub const DEFAULT_QUEUE: &str = "default";
