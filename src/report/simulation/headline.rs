//! The load of a run in words: `waves, peak 58 in 15 s, nothing for 17 min`.

use crate::report::grouped;
use crate::simulation::{Bins, Run, relative_deviation};

/// The load in words, with its peak in the bins that are drawn.
pub fn headline(run: &Run, bins: &Bins, load: &[usize]) -> String {
    let Some(peak) = load.iter().copied().max().filter(|peak| *peak > 0) else {
        return "no retries".into();
    };
    let shape = Shape::of(run, load).name();
    let (peak, each) = (grouped(peak as u64), in_words(bins.secs));
    // As long as two bins, so that it holds a whole one and can be seen.
    let idle = Some(run.figures.longest_idle_secs).filter(|secs| *secs >= 2 * bins.secs);
    let idle = idle.map(|secs| format!(", nothing for {}", roughly(secs)));
    format!("{shape}, peak {peak} in {each}{}", idle.unwrap_or_default())
}

/// How level a load is, by its unevenness u: the standard deviation over the mean that the table shows.
/// A load that is level for the part p of the time, and nothing for the rest, has u = sqrt(1/p - 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Never two retries in one bin: too few for any other shape.
    Single,
    /// p > 16/17, u < 1/4.
    Even,
    /// p > 1/2, u < 1.
    Uneven,
    /// p > 1/10, u < 3: more time without a load than with one.
    Waves,
    /// The load of ten bins or more in one.
    Bursts,
}

impl Shape {
    /// By the waits of records that failed together, whose load falls as they grow; of others by the
    /// bins from the first that has a retry.
    fn of(run: &Run, load: &[usize]) -> Self {
        if load.iter().all(|count| *count < 2) {
            return Self::Single;
        }
        let first = load.iter().position(|count| *count > 0).unwrap_or(0);
        let of_bins = || relative_deviation(&load[first..]);
        Self::with(run.figures.evenness.map_or_else(of_bins, |evenness| evenness.unevenness))
    }

    fn with(unevenness: f64) -> Self {
        match unevenness {
            ..0.25 => Self::Even,
            ..1.0 => Self::Uneven,
            ..3.0 => Self::Waves,
            _ => Self::Bursts,
        }
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
    fn a_load_that_is_level_for_a_part_of_the_time_is_named_by_that_part() {
        let shape = |part: usize| {
            let load: Vec<_> = (0..100).map(|bin| if bin < part { 7 } else { 0 }).collect();
            Shape::with(relative_deviation(&load))
        };
        let shapes = [100, 95, 94, 51, 49, 11, 9, 1].map(shape);
        use Shape::{Bursts, Even, Uneven, Waves};
        assert_eq!(shapes, [Even, Even, Uneven, Uneven, Waves, Waves, Bursts, Bursts]);
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
