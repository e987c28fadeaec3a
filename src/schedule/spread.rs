//! The spread: how the waits of records that fail together are kept apart without random draws. Each
//! record has a phase of its own, [`crate::hash::phase`], and reads the policy at that fraction of
//! the way from one count to the next.

use super::backoff::Delays;
use crate::hash::mulhi;

/// Jitter without random draws: how the waits of several records that fail together are kept apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Jitter {
    /// By this much of 100 %: each record reads the policy between two counts, at a
    /// fraction of its own, its phase. At 100 % retry n of such records fills exactly the time from
    /// P(n) to P(n + 1), at 0 all of them wait alike.
    Spread { percent: u8 },
    /// Each wait lies between `plain` and `plain + widths`, in steps of `unit_ms`, at a place
    /// drawn for this record and this count.
    Drawn { unit_ms: u64, widths: Delays },
}

impl Jitter {
    /// The fraction of 2^64 at which a record with this phase reads the policy.
    pub fn fraction(&self, phase: u64) -> u64 {
        match self {
            Self::Spread { percent: 100 } => phase,
            Self::Spread { percent } => {
                let scaled = u128::from(phase) * u128::from(*percent) / 100;
                u64::try_from(scaled).unwrap_or(u64::MAX)
            }
            Self::Drawn { .. } => 0,
        }
    }
}

impl Delays {
    /// When retry n + 1 is due after the first failure, in milliseconds, for a record with fraction
    /// `x`: P(n) + x * b(n + 1).
    pub fn spread_ms(&self, x: u64, n: u64) -> u128 {
        self.sum(n) + u128::from(mulhi(x, self.wait(n.saturating_add(1))))
    }
}
