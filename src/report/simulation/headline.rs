//! The load of a run in words: `waves, peak 58 in 15 s, nothing for 17 min`.

use crate::report::grouped;
use crate::simulation::{Bins, Run};

/// The load in words, with its peak in the bins that are drawn.
pub fn headline(run: &Run, bins: &Bins, load: &[usize]) -> String {
    let Some(peak) = load.iter().copied().max().filter(|peak| *peak > 0) else {
        return "no retries".into();
    };
    let longest_idle = run.figures.longest_idle_secs;
    // A load that is level and then absent for most of the time is not what a word for it would say.
    let is_mostly_idle = 2 * longest_idle > bins.secs * load.len() as i64;
    let shape = Some(Shape::of(run, load)).filter(|shape| !(is_mostly_idle && shape.is_level()));
    let shape = shape.map(|shape| format!("{}, ", shape.name())).unwrap_or_default();
    let (peak, each) = (grouped(peak as u64), in_words(bins.secs));
    // As long as two bins, so that it holds a whole one and can be seen.
    let idle = Some(longest_idle).filter(|secs| *secs >= 2 * bins.secs);
    let idle = idle.map(|secs| format!(", nothing for {}", roughly(secs)));
    format!("{shape}peak {peak} in {each}{}", idle.unwrap_or_default())
}

/// How level a load is, by the part of the time that it fills: a load that is level for a part of the time,
/// and nothing for the rest, fills that part. With the mean m and the standard deviation s of the counts
/// in equal bins it is m² / (m² + s²), Jain's fairness index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Never two retries in one bin: too few for any other shape.
    Single,
    /// At least nine tenths are filled.
    Even,
    /// At least half.
    Uneven,
    /// At least a tenth: there is more time without a load than with one.
    Waves,
    /// Less: ten bins' load comes in one.
    Bursts,
}

impl Shape {
    fn of(run: &Run, load: &[usize]) -> Self {
        if load.iter().all(|count| *count < 2) {
            return Self::Single;
        }
        // Of records that failed together the load falls as the waits grow, which is not uneven: their
        // unevenness s / m, which the table shows, is that in bins which grow as well.
        let evenness = run.figures.evenness;
        let part = evenness.map(|evenness| 1.0 / (1.0 + evenness.unevenness.powi(2)));
        Self::filling(part.unwrap_or_else(|| fairness(load)))
    }

    fn filling(part: f64) -> Self {
        match part {
            0.9.. => Self::Even,
            0.5.. => Self::Uneven,
            0.1.. => Self::Waves,
            _ => Self::Bursts,
        }
    }

    fn is_level(self) -> bool {
        matches!(self, Self::Even | Self::Uneven)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Single => "single retries",
            Self::Even => "even",
            Self::Uneven => "uneven",
            Self::Waves => "waves",
            Self::Bursts => "bursts",
        }
    }
}

/// In so many bins a load that changes for good is still level.
const WINDOW: usize = 24;

/// Jain's fairness index of the load from the first retry to the last, one window after the other: 1 if it
/// is level, 1/n if all of n bins comes in one.
fn fairness(load: &[usize]) -> f64 {
    let holds = |count: &usize| *count > 0;
    let (Some(first), Some(last)) = (load.iter().position(holds), load.iter().rposition(holds))
    else {
        return 0.0;
    };
    let bins = |window: &[usize]| {
        let sum: f64 = window.iter().map(|count| *count as f64).sum();
        let squares: f64 = window.iter().map(|count| (*count as f64).powi(2)).sum();
        if squares > 0.0 { sum * sum / squares } else { 0.0 }
    };
    let load = &load[first..=last];
    load.chunks(WINDOW).map(bins).sum::<f64>() / load.len() as f64
}

const UNITS: [(i64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];

/// A length of time in full: `15 s`, `1 min 40 s`.
pub fn in_words(secs: i64) -> String {
    let mut rest = secs;
    let mut counts = Vec::new();
    for (length, unit) in UNITS {
        if rest >= length {
            counts.push(format!("{} {unit}", rest / length));
        }
        rest %= length;
    }
    counts.join(" ")
}

/// A length of time rounded to the largest unit of which it has two: `17 min`, `90 s`.
fn roughly(secs: i64) -> String {
    let unit = UNITS.into_iter().find(|(length, _)| secs >= 2 * length);
    unit.map_or(format!("{secs} s"), |(length, unit)| {
        format!("{} {unit}", (secs + length / 2) / length)
    })
}

/// The beginning of a text that is longer than so many characters.
pub fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_named_by_the_part_of_the_time_that_it_fills() {
        use Shape::{Bursts, Even, Uneven, Waves};
        let shape = |load: &[usize]| Shape::filling(fairness(load));
        let every = |each: usize, of: usize| -> Vec<usize> {
            (0..240).map(|bin| if bin % of < each { 7 } else { 0 }).collect()
        };
        let shapes = [(12, 12), (11, 12), (10, 12), (6, 12), (5, 12), (2, 12), (1, 12)];
        let shapes = shapes.map(|(each, of)| shape(&every(each, of)));
        assert_eq!(shapes, [Even, Even, Uneven, Uneven, Waves, Waves, Bursts]);
        // One that falls once, or is over before the end, is level all the same.
        let falls: Vec<_> = (0..240).map(|bin| [100, 10, 0][bin / 80]).collect();
        assert_eq!(shape(&falls), Even);
        let silent: Vec<_> = (0..240).map(|bin| [5, 0, 5][bin / 80]).collect();
        assert_eq!(shape(&silent), Uneven);
        assert_eq!(shape(&[0; 9]), Bursts);
    }

    #[test]
    fn lengths_of_time_are_told_in_words() {
        let in_full = [15, 100, 1_020, 5_400, 86_400].map(in_words);
        assert_eq!(in_full, ["15 s", "1 min 40 s", "17 min", "1 h 30 min", "1 d"]);
        let roughly = [1, 119, 120, 299, 989, 7_169, 7_200, 200_000].map(roughly);
        assert_eq!(roughly, ["1 s", "119 s", "2 min", "5 min", "16 min", "119 min", "2 h", "2 d"]);
        assert_eq!(["ab", "abc"].map(|text| shortened(text, 2)), ["ab", "a…"]);
    }
}
