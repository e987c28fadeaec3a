//! What cron and systemd are told, and what a crontab says.

mod lines;
mod period;

pub use lines::{Line, lines};
pub use period::Period;
