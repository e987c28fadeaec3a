//! The scales of a picture, which all its panels share: from times, records and loads to places in a
//! plot, and which of them are labelled.

use super::axis::{round_numbers, round_secs, round_up, unit};
use crate::report::grouped;

/// In pixels.
pub const PLOT_WIDTH: i64 = 904;
pub const PLOT_HEIGHT: i64 = 144;
/// Places are whole numbers of so small parts of a pixel, which takes no decimal point.
pub const PIXEL: i64 = 2;
/// How many pixels dots stay away from the upper and the lower end.
const PADDING: i64 = 5;
/// The least distance in pixels between two labels of loads, and about how many times and records have labels.
const LABELS_APART: i64 = 22;
const TIMES: i64 = 12;
const RECORDS: usize = 4;

pub struct Scales {
    pub secs: i64,
    pub records: usize,
    /// The highest load of all panels.
    pub peak: usize,
}

impl Scales {
    /// How far a time is from the left.
    pub fn x(&self, at: i64) -> i64 {
        along(PLOT_WIDTH, at as f64 / self.secs.max(1) as f64)
    }

    /// How high a load is. The square root makes a hundred and one visible on one scale; it is usual for
    /// counts, whose scatter then is the same at every height (Tukey's rootogram).
    pub fn height(&self, count: usize) -> i64 {
        along(PLOT_HEIGHT, (count as f64 / self.peak as f64).sqrt())
    }

    /// How far a record is from the bottom.
    pub fn y(&self, row: usize) -> i64 {
        let part = (row as f64 + 0.5) / self.records.max(1) as f64;
        PADDING * PIXEL + along(PLOT_HEIGHT - 2 * PADDING, part)
    }

    pub fn times(&self) -> impl Iterator<Item = i64> {
        let step = round_secs((self.secs / TIMES).max(unit(self.secs).1));
        (0..=self.secs / step).map(move |number| number * step)
    }

    /// Zero and round numbers, from the highest down as far as their labels do not touch.
    pub fn loads_labelled(&self) -> Vec<usize> {
        let round = round_numbers().map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        let round: Vec<_> = round.take_while(|count| *count <= self.peak).collect();
        let mut labelled = vec![0];
        let mut free_below = i64::MAX;
        for count in round.into_iter().rev() {
            let height = self.height(count) / PIXEL;
            if (LABELS_APART..=free_below).contains(&height) {
                labelled.push(count);
                free_below = height - LABELS_APART;
            }
        }
        labelled
    }

    /// The first record, and round numbers.
    pub fn records_labelled(&self) -> Vec<usize> {
        let step = round_up(self.records.div_ceil(RECORDS) as u64);
        let step = usize::try_from(step).unwrap_or(self.records).max(1);
        let round = (1..=self.records / step).map(|number| number * step);
        (1..=self.records.min(1)).chain(round.filter(|record| *record > 1)).collect()
    }
}

fn along(pixels: i64, part: f64) -> i64 {
    ((pixels * PIXEL) as f64 * part).round() as i64
}

/// `150k` for 150,000: labels of an axis have little room.
pub fn compact(number: usize) -> String {
    let units = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    let unit = units.into_iter().find(|(unit, _)| number >= *unit && number.is_multiple_of(*unit));
    unit.map_or_else(|| grouped(number as u64), |(unit, name)| format!("{}{name}", number / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_a_few_round_labels() {
        let hour = Scales { secs: 3_600, records: 100, peak: 140 };
        assert_eq!(
            hour.times().collect::<Vec<_>>(),
            (0..=12).map(|it| it * 300).collect::<Vec<_>>()
        );
        assert_eq!(hour.loads_labelled(), [0, 100, 50, 20, 5]);
        assert_eq!(hour.records_labelled(), [1, 50, 100]);
        let least = Scales { secs: 0, records: 0, peak: 1 };
        assert_eq!(least.times().collect::<Vec<_>>(), [0]);
        assert_eq!((least.loads_labelled(), least.records_labelled()), (vec![0, 1], vec![]));
        let most = Scales { secs: i64::MAX, records: usize::MAX, peak: usize::MAX };
        assert!(most.times().count() <= 13 && most.records_labelled().len() <= 6);
        // The whole height is taken, and that of a hundredth is a tenth.
        let height = |count| Scales { peak: 100, ..hour }.height(count);
        assert_eq!([0, 1, 100].map(height), [0, 29, PLOT_HEIGHT * PIXEL]);
    }

    #[test]
    fn labels_of_an_axis_are_short() {
        let labels = [0, 7, 999, 1_000, 1_500, 150_000, 2_000_000].map(compact);
        assert_eq!(labels, ["0", "7", "999", "1k", "1,500", "150k", "2M"]);
    }
}
