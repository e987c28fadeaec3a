//! How a pass looks at records: by its schedule, and by the rules that end it.

use super::{End, Moment, Obstacle, Policy, Reason, Rules, exhausted};
use crate::instant::Instant;
use crate::record::Facts;

#[derive(Debug, Clone)]
pub struct Look {
    pub policy: Policy,
    pub rules: Rules,
    pub moment: Moment,
}

/// What a pass does with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Due(Reason),
    /// It is archived without another attempt.
    Archive(End),
    Wait {
        until: Instant,
    },
    /// Nothing under this policy, however long it waits.
    Never(Obstacle),
}

impl Look {
    /// A record that has grown too old is given up at once, one that has had its last attempt
    /// when it would be due.
    pub fn verdict(&self, facts: Facts<'_>) -> Verdict {
        let verdict = self.policy.verdict(facts, self.moment);
        match (exhausted(facts, self.rules, self.moment.now), verdict) {
            (Some(End::Age), _) => Verdict::Archive(End::Age),
            (Some(End::Attempts), Verdict::Due(_)) => Verdict::Archive(End::Attempts),
            (Some(End::Attempts) | None, verdict) => verdict,
        }
    }
}
