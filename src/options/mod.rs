//! Options from the command line, the environment and backlog.toml. `keys.rs` describes each option.

mod environment;
mod file;
mod handler;
pub mod key;
pub mod keys;
mod layers;
mod pass;
mod ping;
mod queue;
pub mod raw;
mod resolved;
mod schedule;
mod settings;
mod table;
mod toml_layer;
pub mod value;

pub use environment::Environment;
pub use file::{File, MAX_NAME_LENGTH};
pub use handler::{HandlerSpec, WEBHOOK_SECRET, no_handler};
pub use key::Key;
pub use layers::Origin;
pub use pass::PassSettings;
pub use ping::{Event, Ping};
pub use queue::{Queue, location};
pub use resolved::{Resolved, Sources, TypedOptions};
pub use schedule::{simulated, unknown_schedule};
pub use toml_layer::Setting;

pub const DEFAULT_QUEUE: &str = "default";
