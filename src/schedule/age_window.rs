//! The age window, `--ndays N`: every pending record of at most N days, as often as cron starts the
//! pass.

use super::{Obstacle, Reason, Verdict};
use crate::query::Window;
use crate::time::{Instant, days};

/// Ages from more than `min_secs` up to and with `max_secs`; `min_secs` 0 sets no lower bound, so
/// that a date in the future counts as young.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgeWindow {
    pub min_secs: i64,
    pub max_secs: i64,
}

impl AgeWindow {
    pub fn window(&self, now: Instant) -> Window {
        let until = (self.min_secs > 0).then(|| now.saturating_sub(self.min_secs));
        Window::Inserted { from: now.saturating_sub(self.max_secs), until }
    }

    /// `--min-ndays 1 --ndays 7`
    pub fn line(&self) -> String {
        let ndays = format!("--ndays {}", days(self.max_secs));
        if self.min_secs > 0 {
            format!("--min-ndays {} {ndays}", days(self.min_secs))
        } else {
            ndays
        }
    }

    pub fn verdict(&self, inserted_at: Option<Instant>, now: Instant) -> Verdict {
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

/// Ages up to the oldest that no line takes.
pub fn gaps(ages: &[(i64, Option<i64>)]) -> Vec<(i64, i64)> {
    let mut ages = ages.to_vec();
    ages.sort_unstable();
    let (mut gaps, mut covered) = (Vec::new(), Some(0));
    for (from, to) in ages {
        let Some(end) = covered else { break };
        if from > end {
            gaps.push((end, from));
        }
        covered = to.map(|to| to.max(end));
    }
    gaps
}

/// Ages that more than one line takes.
pub fn overlaps(ages: &[(i64, Option<i64>)]) -> Vec<(i64, Option<i64>)> {
    let mut ages = ages.to_vec();
    ages.sort_unstable();
    let (mut overlaps, mut covered): (Vec<(i64, Option<i64>)>, _) = (Vec::new(), Some(0));
    for (from, to) in ages {
        let end = [covered, to].into_iter().flatten().min();
        if end.is_none_or(|end| end > from) {
            overlaps.push((from, end));
        }
        covered = covered.zip(to).map(|(covered, to)| covered.max(to));
    }
    overlaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::DAY;

    const NOW: Instant = Instant(1_795_232_400);

    fn verdict(min_days: i64, max_days: i64, age_secs: i64) -> Verdict {
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
    fn a_record_without_a_date_is_never_taken_for_old_or_new() {
        let age = AgeWindow { min_secs: 0, max_secs: DAY };
        assert_eq!(age.verdict(None, NOW), Verdict::Never(Obstacle::Undated));
    }

    #[test]
    fn gaps_and_overlaps_are_found_in_any_order() {
        let classic = [(7, Some(14)), (0, Some(1)), (1, Some(7))];
        assert_eq!((gaps(&classic), overlaps(&classic)), (vec![], vec![]));
        let holes = [(20, Some(30)), (2, Some(7)), (9, None)];
        assert_eq!(gaps(&holes), [(0, 2), (7, 9)]);
        assert_eq!(overlaps(&holes), [(20, Some(30))]);
        let nested = [(0, Some(1)), (0, Some(7)), (0, Some(30))];
        assert_eq!(overlaps(&nested), [(0, Some(1)), (0, Some(7))]);
        assert_eq!(overlaps(&[(0, None), (0, None)]), [(0, None)]);
    }
}
