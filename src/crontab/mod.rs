//! Crontab lines and systemd units: written for a schedule, and read back from a crontab.

mod lines;
mod period;

pub use lines::{Line, lines};
pub use period::Period;
