//! The records that a co-process has and has not answered, in the order in which it got them.

use std::collections::VecDeque;
use std::time::Instant as Monotonic;

use crate::handlers::Job;
use crate::record::Id;

/// How many answered records are remembered, to tell a second reply from one that is about
/// nothing.
const REMEMBERED: usize = 1024;

#[derive(Default)]
pub struct InFlight {
    /// The oldest first, which is mostly the one that is answered next.
    sent: VecDeque<Sent>,
    /// How long their lines are together.
    bytes: usize,
    answered: VecDeque<Id>,
}

pub struct Sent {
    pub job: Job,
    /// How long its line is.
    pub bytes: usize,
    pub at: Monotonic,
}

impl InFlight {
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    pub fn len(&self) -> usize {
        self.sent.len()
    }

    /// Whether a line of so many bytes may go as well, of `window` in all. One alone always may.
    pub fn takes(&self, bytes: usize, window: usize) -> bool {
        self.is_empty() || self.bytes.saturating_add(bytes) <= window
    }

    pub fn add(&mut self, sent: Sent) {
        self.bytes += sent.bytes;
        self.sent.push_back(sent);
    }

    /// Takes out the record that a reply is about; the error says why there is none. A number may
    /// be named by its text, and the other way round.
    pub fn answered(&mut self, id: &Id) -> Result<Sent, String> {
        let place = |id: &Id| self.sent.iter().position(|sent| sent.job.record.id == *id);
        let mut meant = Vec::new();
        let found = place(id).or_else(|| {
            let columns = self.sent.front().map_or(1, |sent| sent.job.record.id.parts().len());
            meant = Id::typed(&id.text(), columns);
            meant.iter().find_map(place)
        });
        if let Some(sent) = found.and_then(|at| self.take(at)) {
            self.answered.truncate(REMEMBERED - 1);
            self.answered.push_front(sent.job.record.id.clone());
            return Ok(sent);
        }
        if self.answered.contains(id) || meant.iter().any(|id| self.answered.contains(id)) {
            return Err(format!("record {id} was answered before"));
        }
        Err(format!("no record {id} was handed to it"))
    }

    fn take(&mut self, at: usize) -> Option<Sent> {
        let sent = self.sent.remove(at)?;
        self.bytes -= sent.bytes;
        Some(sent)
    }

    pub fn pop_oldest(&mut self) -> Option<Sent> {
        self.take(0)
    }

    /// All that is not answered, the oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = Sent> {
        std::mem::take(self).sent.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::handlers::tests::record;

    fn in_flight(ids: &[Id]) -> InFlight {
        let mut in_flight = InFlight::default();
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Monotonic::now();
        for id in ids {
            let record = Arc::new(crate::record::Record { id: id.clone(), ..record(&[]) });
            let job = Job { record, attempt: 1, submit: Arc::new(|_| {}) };
            in_flight.add(Sent { job, bytes: 10, at: now });
        }
        in_flight
    }

    #[test]
    fn replies_come_in_any_order_and_each_once() {
        let ids = [1, 2, 3].map(Id::Integer);
        let mut in_flight = in_flight(&ids);
        in_flight.answered(&ids[1]).unwrap();
        let error = in_flight.answered(&Id::Integer(2)).err().unwrap();
        assert_eq!(error, "record 2 was answered before");
        let error = in_flight.answered(&Id::Integer(9)).err().unwrap();
        assert_eq!(error, "no record 9 was handed to it");
        let left: Vec<_> = in_flight.drain().map(|sent| sent.job.record.id.clone()).collect();
        assert_eq!(left, [Id::Integer(1), Id::Integer(3)]);
        assert!(in_flight.is_empty());
    }

    #[test]
    fn a_line_goes_alone_or_within_the_window() {
        assert!(InFlight::default().takes(99, 1));
        let mut in_flight = in_flight(&[1, 2].map(Id::Integer));
        assert!(in_flight.takes(10, 30) && !in_flight.takes(11, 30));
        in_flight.answered(&Id::Integer(2)).unwrap();
        assert!(in_flight.takes(20, 30) && !in_flight.takes(21, 30));
        in_flight.pop_oldest();
        assert!(in_flight.takes(99, 1));
        in_flight.add(tests::in_flight(&[Id::Integer(3)]).pop_oldest().unwrap());
        assert_eq!(in_flight.drain().count(), 1);
        assert_eq!(in_flight.bytes, 0);
    }

    #[test]
    fn an_id_is_known_by_its_text_as_well() {
        let composite = Id::Composite([Id::Integer(1), Id::Text("b".into())].into());
        for (held, named) in [
            (Id::Integer(1), Id::Text("1".into())),
            (Id::Text("1".into()), Id::Integer(1)),
            (composite, Id::Text("1,b".into())),
        ] {
            let sent = in_flight(std::slice::from_ref(&held)).answered(&named).unwrap();
            assert_eq!(sent.job.record.id, held);
        }
    }
}
