//! The dots of a panel: a path for each colour, of no more retries than a picture has bytes for.

use std::collections::BTreeSet;

use super::colours::ColourScale;
use crate::report::grouped;
use crate::simulation::{Run, Tried};

/// The part of a run's retries that is drawn: those of one record in so many, and of these one in so
/// many. Bars and headlines count all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    records: usize,
    retries: usize,
}

/// How many dots have room in the row of a record.
const APART: usize = 300;

/// One record in so many is drawn: 1, 2, or a Fibonacci number from 5 on and 1. The phases of neighbours
/// lie evenly, and those at such a stride do so too: a part of them is as even as all.
fn strides() -> impl Iterator<Item = usize> {
    let pairs = std::iter::successors(Some((5_usize, 8_usize)), |(one, other)| {
        Some((*other, one.checked_add(*other)?))
    });
    [1, 2].into_iter().chain(pairs.map(|(fibonacci, _)| fibonacci + 1))
}

/// The max-min fair share of each panel, of `most` dots for all: those that have fewer retries leave the
/// rest to the others.
pub fn fair_share(retries: &[usize], most: usize) -> usize {
    let mut retries = retries.to_vec();
    retries.sort_unstable();
    let mut left = most;
    for (number, count) in retries.iter().enumerate() {
        let share = left / (retries.len() - number);
        if *count > share {
            return share;
        }
        left -= count;
    }
    most
}

impl Sample {
    /// About so many retries at most. Where those of one record would touch each other, few of them
    /// show as much as all; then there are fewer records.
    pub fn new(run: &Run, records: usize, most: usize) -> Self {
        let (count, most) = (run.retries().count(), most.max(1));
        let touching = count.div_ceil(records.max(1)).div_ceil(APART).max(1);
        let wanted = count.div_ceil(touching).div_ceil(most);
        let records =
            strides().find(|stride| *stride >= wanted).unwrap_or(wanted).min(records).max(1);
        Self { records, retries: touching.max(count.div_ceil(records).div_ceil(most)) }
    }

    fn has(self, tried: &Tried) -> bool {
        let (row, retry) = (tried.row as usize, tried.attempt as usize - 1);
        row.is_multiple_of(self.records) && retry.is_multiple_of(self.retries)
    }

    /// `(dots of one record in 90)`
    pub fn in_words(self) -> String {
        let [records, retries] = [self.records, self.retries].map(|count| grouped(count as u64));
        match self {
            Self { records: 1, retries: 1 } => String::new(),
            Self { records: 1, .. } => format!("(dots of one retry in {retries})"),
            Self { retries: 1, .. } => format!("(dots of one record in {records})"),
            Self { .. } => format!("(dots of one retry in {retries}, of one record in {records})"),
        }
    }

    /// A path for each colour, in which a line of no length is a dot.
    pub fn paths(
        self,
        run: &Run,
        colours: &ColourScale,
        place: impl Fn(usize, i64) -> (i64, i64),
    ) -> String {
        let mut dots = vec![BTreeSet::new(); colours.bands().len()];
        for tried in run.retries().filter(|tried| self.has(tried)) {
            dots[colours.colour(tried.attempt - 1)].insert(place(tried.row as usize, tried.at));
        }
        let drawn = dots.iter().enumerate().filter(|(_, dots)| !dots.is_empty());
        let path = |(colour, dots): (usize, &BTreeSet<(i64, i64)>)| {
            format!("<path class=\"c{colour}\" d=\"{}\"/>\n", path(dots))
        };
        drawn.map(path).collect()
    }
}

/// Each dot as far from the one before as it is, which takes fewer digits than where it is.
fn path(dots: &BTreeSet<(i64, i64)>) -> String {
    let mut path = String::new();
    let mut before = None;
    for &(x, y) in dots {
        let (letter, x, y) =
            before.map_or(('M', x, y), |(from_x, from_y)| ('m', x - from_x, y - from_y));
        // A minus sign parts two numbers as well as a blank.
        let blank = if y < 0 { "" } else { " " };
        path += &format!("{letter}{x}{blank}{y}h0");
        before = Some((before.map_or(0, |(x, _)| x) + x, before.map_or(0, |(_, y)| y) + y));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Options, Policy, parse};
    use crate::simulation::Figures;

    fn run(records: u32, retries: u32) -> Run {
        let options = Options { every_secs: 1, salt: 0, spread: None };
        let policy = Policy::Counted(parse("list:0s", None, options).unwrap());
        let tried = |row, attempt| Tried { row, attempt, at: i64::from(attempt) };
        let of_row = |row| (1..=retries + 1).map(move |attempt| tried(row, attempt));
        let attempts: Vec<_> = (0..records).flat_map(of_row).collect();
        let figures = Figures {
            attempts: attempts.len(),
            peak: 0,
            idle_ticks: 0,
            ticks: 0,
            longest_idle_secs: 0,
            evenness: None,
        };
        Run { name: "test".into(), policy, attempts, figures }
    }

    #[test]
    fn panels_with_few_retries_leave_their_share_to_the_others() {
        assert_eq!(fair_share(&[10, 20, 30], 60), 60);
        assert_eq!(fair_share(&[10, 1_000, 100], 100), 45);
        assert_eq!(fair_share(&[1_000, 1_000], 100), 50);
        assert_eq!(fair_share(&[], 100), 100);
    }

    #[test]
    fn too_many_retries_are_those_of_fewer_records() {
        for (records, retries, most, expected) in [
            (100, 10, 1_000, (1, 1)),
            (100, 10, 999, (2, 1)),
            (100, 10, 499, (6, 1)),
            (1_000, 10, 1_000, (14, 1)),
            // In the row of a record 300 do not touch each other.
            (10, 3_000, 1_000, (6, 10)),
            (1, 3_000, 1_000, (1, 10)),
            (1, 300, 1, (1, 300)),
        ] {
            let run = run(records, retries);
            let sample = Sample::new(&run, records as usize, most);
            assert_eq!((sample.records, sample.retries), expected, "{records} {retries} {most}");
            let drawn = run.retries().filter(|tried| sample.has(tried)).count();
            assert!((1..=most * 2).contains(&drawn), "{drawn} of {most}");
        }
    }

    #[test]
    fn a_dot_is_as_far_from_the_one_before_as_it_is() {
        let dots = [(30, -40), (10, -20), (30, -50), (10, -20)].into();
        assert_eq!(path(&dots), "M10-20h0m20-30h0m0 10h0");
    }
}
