//! The search for the multiplier of phases (crates/schedule/src/hash.rs), among odd numbers that follow from a seed:
//!
//! ```sh
//! cargo run --release --example multiplier -- rate 1658526633   # rates some
//! cargo run --release --example multiplier -- search 41 1200    # looks for better ones, so many seconds
//! ```
//!
//! N records fall into the B windows of one length of a tier's interval, at least one into each on
//! average. The deviation of what a window gets is held against sqrt((B - 1) / N), which is that of a
//! plain hash: 1 is as even as chance, 0 perfectly even. A cell is an N, a tier, a length, and a first id.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a measurement for those who work on the program"
)]

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

const MASK: u64 = 0x7fff_ffff;
/// The tiers of the progressive schedule, in ticks of five minutes.
const INTERVALS: [u64; 6] = [1, 12, 144, 288, 1_152, 2_304];
const COUNTS: [usize; 5] = [10, 100, 1_000, 10_000, 100_000];
/// The first of neighbouring ids, and of ids in steps.
const NEIGHBOURS: [u64; 5] = [1, 1_000, 123_456, 7_000_001, 2_000_000_000];
const IN_STEPS: [u64; 2] = [1, 1_234_567];
/// What the worst cell may be.
const MOST_OF_NEIGHBOURS: f64 = 1.25;
const MOST_IN_STEPS: f64 = 5.3;

fn steps() -> impl Iterator<Item = u64> {
    (2..=100).chain([1_000, 4_096, 10_000])
}

/// Where in the interval of each tier a phase has its slot.
fn places(phase: u64) -> [u64; 6] {
    let (mut rest, mut place, mut width) = (phase, 0, 1);
    INTERVALS.map(|interval| {
        let product = rest * (interval / width);
        place += (product >> 31) * width;
        (rest, width) = (product & MASK, interval);
        place
    })
}

/// Hands out the deviation of each cell, as a ratio to that of a hash.
fn cells(
    multiplier: u64,
    step: u64,
    first: u64,
    counts: &[usize],
    mut each: impl FnMut(f64) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut ticks = INTERVALS.map(|interval| vec![0_u32; interval as usize]);
    let mut done = 0;
    for count in counts {
        for number in done..*count {
            let id = first + step * number as u64;
            let folded = (id & MASK) + (id >> 31);
            let places = places((folded * multiplier) & MASK);
            ticks.iter_mut().zip(places).for_each(|(ticks, place)| ticks[place as usize] += 1);
        }
        done = *count;
        for ticks in &ticks {
            for length in (1..=ticks.len() / 2).filter(|length| ticks.len() % length == 0) {
                let windows = ticks.len() / length;
                if windows > *count {
                    continue;
                }
                let mean = *count as f64 / windows as f64;
                let square =
                    |window: &[u32]| (f64::from(window.iter().sum::<u32>()) - mean).powi(2);
                let squares: f64 = ticks.chunks(length).map(square).sum();
                let deviation = (squares / windows as f64).sqrt() / mean;
                each(deviation / ((windows - 1) as f64 / *count as f64).sqrt())?;
            }
        }
    }
    ControlFlow::Continue(())
}

/// Whether no cell is above `most`.
fn is_even(multiplier: u64, step: u64, firsts: &[u64], counts: &[usize], most: f64) -> bool {
    let check =
        |ratio| if ratio > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    firsts.iter().all(|first| cells(multiplier, step, *first, counts, check).is_continue())
}

/// The largest quotient in the continued fraction of a multiple, as far as it shows in a tier: numbers
/// whose multiples lie evenly have small ones.
fn largest_quotient(multiplier: u64, times: u64) -> u64 {
    let (mut numerator, mut denominator) = ((multiplier * times) & MASK, MASK + 1);
    let (mut before, mut convergent, mut largest) = (0, 1, 0);
    while numerator > 0 && convergent <= 400_000 / times {
        let quotient = denominator / numerator;
        largest = largest.max(quotient);
        (before, convergent) = (convergent, quotient.saturating_mul(convergent) + before);
        (denominator, numerator) = (numerator, denominator % numerator);
    }
    largest
}

fn rate(multiplier: u64) {
    let worst = |step: u64, firsts: &[u64]| {
        let (mut worst, mut above, mut all) = (0.0_f64, 0, 0);
        for first in firsts {
            let _ = cells(multiplier, step, *first, &COUNTS, |ratio| {
                (worst, above, all) = (worst.max(ratio), above + u32::from(ratio > 1.0), all + 1);
                ControlFlow::Continue(())
            });
        }
        (worst, above, all)
    };
    let (neighbours, above, all) = worst(1, &NEIGHBOURS);
    let of_steps: Vec<_> = steps().map(|step| (step, worst(step, &IN_STEPS))).collect();
    let worst = of_steps.iter().max_by(|one, other| one.1.0.total_cmp(&other.1.0)).unwrap();
    let (above_in_steps, all_in_steps) =
        of_steps.iter().fold((0, 0), |(above, all), (_, it)| (above + it.1, all + it.2));
    let share = |above: u32, all: u32| 100.0 * f64::from(above) / f64::from(all);
    println!(
        "{multiplier}: neighbours at most {neighbours:.2}, above 1 in {:.1} % of {all} cells; in steps \
         at most {:.2} (of {}), above 1 in {:.1} % of {all_in_steps}",
        share(above, all),
        worst.1.0,
        worst.0,
        share(above_in_steps, all_in_steps),
    );
}

fn search(seed: u64, time: Duration) {
    let (begun, mut state) = (Instant::now(), seed);
    while begun.elapsed() < time {
        // Knuth's generator of MMIX.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let multiplier = (state >> 33) | 1;
        let is_likely =
            [1, 12, 144, 288, 1_152].iter().all(|times| largest_quotient(multiplier, *times) <= 9);
        if is_likely
            && multiplier > 1 << 28
            && is_even(multiplier, 1, &NEIGHBOURS, &COUNTS[..4], MOST_OF_NEIGHBOURS)
            && is_even(multiplier, 1, &NEIGHBOURS, &COUNTS, MOST_OF_NEIGHBOURS)
            && steps().all(|step| is_even(multiplier, step, &IN_STEPS, &COUNTS[..4], MOST_IN_STEPS))
        {
            rate(multiplier);
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &String| text.parse().expect("a number");
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["rate", ..] => arguments[1..].iter().for_each(|it| rate(number(it))),
        ["search", ..] if arguments.len() == 3 => {
            search(number(&arguments[1]), Duration::from_secs(number(&arguments[2])));
        }
        _ => eprintln!("usage: rate NUMBER... | search SEED SECONDS"),
    }
}
