//! Round steps of axes: numbers, and lengths of time that divide a clock.

use crate::time::DAY;

const SECS: [i64; 18] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, DAY];

/// 1, 2, 5, 10, 20, 50 and so on.
pub fn round_numbers() -> impl Iterator<Item = u64> {
    let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
    powers.flat_map(|power| [1, 2, 5].into_iter().filter_map(move |it| power.checked_mul(it)))
}

/// The smallest round number that is no less.
pub fn round_up(least: u64) -> u64 {
    round_numbers().find(|number| *number >= least).unwrap_or(least)
}

/// The smallest round length of time that is no less: above a day a round number of days.
pub fn round_secs(least: i64) -> i64 {
    let days = || i64::try_from(round_up(least.unsigned_abs().div_ceil(DAY.unsigned_abs())));
    let round = SECS.into_iter().find(|secs| *secs >= least);
    round.unwrap_or_else(|| days().map_or(least, |days| days.saturating_mul(DAY)))
}

/// The unit in which an axis tells times until then, and its length.
pub fn unit(secs: i64) -> (&'static str, i64) {
    match secs {
        ..=600 => ("seconds", 1),
        601..=21_600 => ("minutes", 60),
        21_601..=432_000 => ("hours", 3_600),
        _ => ("days", DAY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        let steps = [0, 1, 3, 7, 21, 50, 51, 5_001].map(round_up);
        assert_eq!(steps, [1, 1, 5, 10, 50, 50, 100, 10_000]);
        let secs = [0, 1, 3, 16, 61, 1_801, DAY, DAY + 1, 11 * DAY].map(round_secs);
        assert_eq!(secs, [1, 1, 5, 30, 120, 3_600, DAY, 2 * DAY, 20 * DAY]);
        assert_eq!(round_up(u64::MAX), u64::MAX);
    }
}
