//! A handler that only plays its part: every attempt ends at once, as a script has it.

use super::{Handler, Job};
use crate::hash::draw;
use crate::record::{Attempt, Id, Outcome};

/// When attempts succeed.
#[derive(Debug, Clone, Copy)]
pub enum Script {
    Never,
    /// After so many failures.
    After(u32),
    /// Except for so many of a hundred attempts, drawn once for all by record and attempt.
    Failing {
        percent: u8,
    },
}

pub struct Scripted(pub Script);

/// How many records are in hand at once: as many as are settled in one go.
const CAPACITY: usize = 256;

impl Script {
    pub fn succeeds(self, id: &Id, attempt: u32) -> bool {
        match self {
            Self::Never => false,
            Self::After(failures) => attempt > failures,
            Self::Failing { percent } => draw(u64::MAX, id, attempt) % 100 >= percent.into(),
        }
    }

    fn answer(self, job: &Job) -> Attempt {
        job.ended(if self.succeeds(&job.record.id, job.attempt) {
            Outcome::Success
        } else {
            Outcome::Failure { error: String::new() }
        })
    }
}

impl Handler for Scripted {
    fn capacity(&self) -> usize {
        CAPACITY
    }

    fn start(&self, jobs: Vec<Job>) {
        let Some(submit) = jobs.first().map(|job| job.submit.clone()) else { return };
        submit(jobs.iter().map(|job| self.0.answer(job)).collect());
    }

    /// Nothing is ever in hand for longer than its start takes.
    fn join(&self) {}
}
