//! Plain age, `--ndays`: a record is due at each pass while it is young enough.

use crate::query::Window;
use crate::time::{Instant, days};
use crate::verdict::{Obstacle, Reason, Verdict};

/// `--ndays N`: ages above `min_secs` up to `max_secs`. A future date is in the window if `min_secs` is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgeWindow {
    pub min_secs: i64,
    pub max_secs: i64,
}

impl AgeWindow {
    pub(crate) fn window(&self, now: Instant) -> Window {
        let until = (self.min_secs > 0).then(|| now.saturating_sub(self.min_secs));
        Window::Inserted { from: now.saturating_sub(self.max_secs), until }
    }

    /// `--min-ndays 1 --ndays 7`
    pub fn options(&self) -> String {
        let ndays = format!("--ndays {}", days(self.max_secs));
        match self.min_secs {
            0 => ndays,
            min => format!("--min-ndays {} {ndays}", days(min)),
        }
    }

    pub(crate) fn verdict(&self, inserted_at: Option<Instant>, now: Instant) -> Verdict {
        let Some(inserted_at) = inserted_at else {
            return Verdict::Never(Obstacle::Undated);
        };
        if inserted_at < now.saturating_sub(self.max_secs) {
            Verdict::Never(Obstacle::TooOld)
        } else if self.min_secs > 0 && inserted_at >= now.saturating_sub(self.min_secs) {
            Verdict::Wait { until: inserted_at.saturating_add(self.min_secs + 1) }
        } else {
            Verdict::Due(Reason::WithinAge)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::DAY;

    const NOW: Instant = Instant(1_795_232_400);

    pub(crate) fn verdict(min_days: i64, max_days: i64, age_secs: i64) -> Verdict {
        let age = AgeWindow { min_secs: min_days * DAY, max_secs: max_days * DAY };
        age.verdict(Some(NOW.saturating_sub(age_secs)), NOW)
    }

    #[test]
    fn the_upper_bound_is_inclusive_to_the_second() {
        assert_eq!(verdict(0, 7, 7 * DAY), Verdict::Due(Reason::WithinAge));
        assert_eq!(verdict(0, 7, 7 * DAY + 1), Verdict::Never(Obstacle::TooOld));
    }

    #[test]
    fn the_lower_bound_leaves_the_boundary_to_the_younger_line() {
        assert_eq!(verdict(1, 7, DAY + 1), Verdict::Due(Reason::WithinAge));
        assert_eq!(verdict(1, 7, DAY), Verdict::Wait { until: NOW.saturating_add(1) });
    }

    #[test]
    fn every_age_belongs_to_exactly_one_line_of_a_disjoint_schedule() {
        let tiers = [0, 1, 7, 14, 30, 180, 360];
        for age in (0..=360 * DAY).step_by(3_557).chain([DAY, DAY + 1, 7 * DAY, 360 * DAY]) {
            let due = tiers
                .windows(2)
                .filter(|pair| matches!(verdict(pair[0], pair[1], age), Verdict::Due(_)));
            assert_eq!(due.count(), 1, "{age}");
        }
    }

    #[test]
    fn a_date_in_the_future_counts_as_young() {
        assert_eq!(verdict(0, 1, -400 * DAY), Verdict::Due(Reason::WithinAge));
        assert!(matches!(verdict(1, 7, -400 * DAY), Verdict::Wait { .. }));
    }

    #[test]
    fn a_record_without_a_date_is_neither_old_nor_new() {
        let age = AgeWindow { min_secs: 0, max_secs: DAY };
        assert_eq!(age.verdict(None, NOW), Verdict::Never(Obstacle::Undated));
    }
}
