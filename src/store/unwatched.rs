//! A store without a watchdog, for tests and benchmarks that run the engine in their own process: a
//! watchdog is this program started again, and here that would be the test.

use anyhow::Result;

use super::{Claim, Interrupter, Moved, Reader, Rehearsal, RowWrite, Store, WriteResult};
use crate::record::{Id, Record, Settlement};

pub struct Unwatched(pub Box<dyn Store + Send>);

impl Store for Unwatched {
    fn reader(&mut self) -> &mut dyn Reader {
        self.0.reader()
    }

    fn most_claims(&self) -> usize {
        self.0.most_claims()
    }

    fn claim(&mut self, ids: &[Id]) -> Result<Vec<(Id, Claim)>> {
        self.0.claim(ids)
    }

    fn release(&mut self, id: &Id) {
        self.0.release(id);
    }

    fn rest(&mut self) -> Result<()> {
        self.0.rest()
    }

    fn apply(&mut self, writes: &[RowWrite]) -> Result<Vec<WriteResult>> {
        self.0.apply(writes)
    }

    fn rehearse(
        &mut self,
        record: &Record,
        possible_writes: &[Vec<Settlement>],
    ) -> Result<Rehearsal> {
        self.0.rehearse(record, possible_writes)
    }

    fn start_watchdog(&mut self, _: &str) -> Result<()> {
        Ok(())
    }

    fn interrupter(&self) -> Option<Interrupter> {
        self.0.interrupter()
    }

    fn require_in_place(&mut self) -> Result<(), Moved> {
        self.0.require_in_place()
    }

    fn finish(&mut self) -> Result<()> {
        self.0.finish()
    }
}
