//! The next attempts of the pending records, by the hour in which they are due: reckoned from the verdict
//! on each, without a simulation.

use crate::time::Instant;

/// How many records are due in each of the next hours, and how many after that.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByHour {
    pub hours: [u64; 24],
    pub later: u64,
    /// When the first of them is due.
    pub next: Option<Instant>,
}

impl ByHour {
    pub const SECS: i64 = 3_600;

    /// Takes one more record into account, which waits until then.
    pub fn add(&mut self, until: Instant, now: Instant) {
        self.next = self.next.into_iter().chain([until]).min();
        let hour = until.0.saturating_sub(now.0).max(0) / Self::SECS;
        match usize::try_from(hour).ok().and_then(|hour| self.hours.get_mut(hour)) {
            Some(records) => *records += 1,
            None => self.later += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_begins_with_its_first_second_and_ends_before_the_next() {
        let mut by_hour = ByHour::default();
        for until in [0, 1, 3_599, 3_600, 86_399, 86_400, i64::MAX] {
            by_hour.add(Instant(until), Instant(0));
        }
        assert_eq!((by_hour.hours[0], by_hour.hours[1], by_hour.hours[23]), (3, 1, 1));
        assert_eq!((by_hour.hours.iter().sum::<u64>(), by_hour.later), (5, 2));
        assert_eq!(by_hour.next, Some(Instant(0)));
    }
}
