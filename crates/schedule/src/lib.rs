//! Schedules: the verdict on a record, calculated from its values and an instant. No clock, no I/O,
//! no random numbers. The types of a record are here too, because stores and handlers use them.

mod age_window;
mod backoff;
mod cause;
mod due_rule;
pub mod exact_id;
mod hash;
mod id;
mod iso;
mod keys;
pub mod last_error;
mod policy;
mod query;
mod record;
mod settle;
mod slots;
mod spec;
mod text;
mod time;
mod verdict;
mod zaqar;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod vectors;

pub use age_window::AgeWindow;
pub use backoff::{Backoff, Jitter};
pub use cause::{COMPARED, Cause, CauseGroup, Causes};
pub use due_rule::{DueRule, Planned};
pub use hash::{MOST_PHASE, MULTIPLIER, fnv1a64, phase, phase31, splitmix64};
pub use id::{Id, hexadecimal, parse_integer, split_id};
pub use iso::Iso;
pub use keys::parse_percent;
pub use last_error::{Series, SeriesSource};
pub use policy::{PassTime, Policy, Schedule};
pub use query::{
    Cursor, Kept, Order, Position, Query, Shard, Slot, SlotStretch, Window, merge_ranges,
};
pub use record::{
    Attempt, Capabilities, Counter, Facts, Outcome, Reach, Record, RowValues, Settlement, SortKey,
    Status, Transition, Value,
};
pub use settle::{End, RetryLimits, charge, exhausted, expire, settle};
pub use slots::{CATCH_UP, DEFAULT_TIERS, PROGRESSIVE_EVERY_SECS, Slots, Span, Tiers};
pub use spec::{
    EVERY_SECS, PolicyOptions, format_secs, parse_policy, parse_policy_by_age, plain_fibonacci,
    policy_file, policy_names,
};
pub use text::{
    counted, cut, cut_line, cut_to, json_line, listed, one_line, toml_text, unknown_name,
};
pub use time::{
    BEYOND, DAY, HOUR, Instant, NEVER, WRITABLE, days, parse_duration, parse_secs, rough_span, span,
};
pub use verdict::{Obstacle, Reason, Verdict};
