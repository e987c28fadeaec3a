//! The colours of retries by their numbers: a sequential scale, perceptually uniform and fitted to the
//! numbers that occur.

use std::collections::BTreeSet;

/// How many colours a reader tells apart.
const MOST: usize = 16;

/// The first and the last number that occur of each colour.
pub struct ColourScale(Vec<(u32, u32)>);

impl ColourScale {
    /// A colour for each number; if these are too many, for the more of them the greater they are, so
    /// that a policy of a thousand retries leaves colours to one of ten.
    pub fn of(numbers: impl Iterator<Item = u32>) -> Self {
        let numbers: Vec<u32> = numbers.collect::<BTreeSet<_>>().into_iter().collect();
        if numbers.len() <= MOST {
            return Self(numbers.into_iter().map(|number| (number, number)).collect());
        }
        let bands = |steps| -> Vec<_> {
            let alike =
                |one: &u32, other: &u32| round_down(*one, steps) == round_down(*other, steps);
            numbers.chunk_by(alike).map(|band| (band[0], band[band.len() - 1])).collect()
        };
        Self(STEPS.into_iter().map(bands).find(|bands| bands.len() <= MOST).unwrap_or_default())
    }

    /// Which colour a number has.
    pub fn colour(&self, number: u32) -> usize {
        self.0.partition_point(|(first, _)| *first <= number).saturating_sub(1)
    }

    pub fn bands(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// The colours as CSS has them, in a theme.
    pub fn on(&self, theme: Theme) -> impl Iterator<Item = String> {
        let last = self.0.len().saturating_sub(1).max(1) as f64;
        (0..self.0.len()).map(move |colour| theme.ramp(colour as f64 / last).css())
    }
}

/// With which tenths of a power of ten a colour begins: the finest ones whose colours are not too many.
const STEPS: [&[u64]; 3] = [&[10, 15, 20, 30, 50, 70], &[10, 20, 50], &[10]];

/// The greatest number that is no more and begins with such a step: 20 for 29, and 30 for 30.
fn round_down(number: u32, steps: &[u64]) -> u64 {
    let power = 10_u64.pow(number.max(1).ilog10());
    let round = steps.iter().map(|tenths| tenths * power / 10);
    round.take_while(|round| *round <= u64::from(number)).last().unwrap_or(0)
}

#[derive(Debug, Clone, Copy)]
pub enum Theme {
    Light,
    Dark,
}

/// The hues from violet through blue and green to orange, in degrees, and how strong they are.
const HUES: (f64, f64) = (300.0, 70.0);
const CHROMA: f64 = 0.14;

impl Theme {
    /// Lightness grows with the number, so that the order can be seen without the hues as well. Each
    /// range keeps a contrast of 3 to its background.
    fn lightness(self) -> (f64, f64) {
        match self {
            Self::Light => (0.30, 0.67),
            Self::Dark => (0.52, 0.88),
        }
    }

    /// Equal steps of `part`, from 0 to 1, look alike.
    fn ramp(self, part: f64) -> Rgb {
        let between = |(from, to): (f64, f64)| from + (to - from) * part;
        oklch(between(self.lightness()), CHROMA, between(HUES))
    }
}

/// The linear light of red, green and blue, from 0 to 1.
#[derive(Debug, Clone, Copy)]
struct Rgb([f64; 3]);

impl Rgb {
    /// `#13569b`, with the transfer function of sRGB.
    fn css(self) -> String {
        let encoded = |light: f64| match light {
            ..0.003_130_8 => 12.92 * light,
            _ => 1.055 * light.powf(1.0 / 2.4) - 0.055,
        };
        let [red, green, blue] = self.0.map(|light| (255.0 * encoded(light)).round() as u8);
        format!("#{red:02x}{green:02x}{blue:02x}")
    }
}

/// A colour of OKLCH (Björn Ottosson, 2020), which is OKLab in polar coordinates. What sRGB has not
/// becomes the nearest that it has, channel by channel.
fn oklch(lightness: f64, chroma: f64, hue: f64) -> Rgb {
    let (sin, cos) = hue.to_radians().sin_cos();
    let (a, b) = (chroma * cos, chroma * sin);
    let long = (lightness + 0.396_337_777_4 * a + 0.215_803_757_3 * b).powi(3);
    let medium = (lightness - 0.105_561_345_8 * a - 0.063_854_172_8 * b).powi(3);
    let short = (lightness - 0.089_484_177_5 * a - 1.291_485_548_0 * b).powi(3);
    let red = 4.076_741_662_1 * long - 3.307_711_591_3 * medium + 0.230_969_929_2 * short;
    let green = -1.268_438_004_6 * long + 2.609_757_401_1 * medium - 0.341_319_396_5 * short;
    let blue = -0.004_196_086_3 * long - 0.703_418_614_7 * medium + 1.707_614_701_0 * short;
    Rgb([red, green, blue].map(|light| light.clamp(0.0, 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_fitted_to_the_numbers_that_occur() {
        let bands = |numbers: &[u32]| ColourScale::of(numbers.iter().copied()).0;
        assert_eq!(bands(&[]), []);
        assert_eq!(bands(&[2, 1, 2, 9]), [(1, 1), (2, 2), (9, 9)]);
        let all: Vec<u32> = (1..=60).collect();
        assert_eq!(bands(&all[..16]).len(), 16);
        let firsts: Vec<u32> = bands(&all).into_iter().map(|(first, _)| first).collect();
        assert_eq!(firsts, [1, 2, 3, 5, 7, 10, 15, 20, 30, 50]);
        assert_eq!(bands(&all[11..]), [(12, 14), (15, 19), (20, 29), (30, 49), (50, 60)]);
        let wide: Vec<u32> = (1..5_000).chain([u32::MAX]).collect();
        assert!(bands(&wide).len() <= MOST, "{:?}", bands(&wide));
        let scale = ColourScale::of(all.into_iter());
        assert_eq!([1, 2, 4, 5, 60].map(|number| scale.colour(number)), [0, 1, 2, 3, 9]);
        for theme in [Theme::Light, Theme::Dark] {
            assert_eq!(scale.on(theme).collect::<BTreeSet<_>>().len(), 10);
        }
    }

    #[test]
    fn every_colour_is_seen_on_its_background_and_the_next_is_lighter() {
        let luminance =
            |Rgb([red, green, blue])| 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
        // White, and #0d1117.
        for (theme, background) in [(Theme::Light, 1.05), (Theme::Dark, 0.0555)] {
            let ramp = (0..MOST).map(|step| theme.ramp(step as f64 / (MOST - 1) as f64));
            let seen: Vec<f64> = ramp.map(luminance).collect();
            assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
            for light in seen {
                let contrast = f64::max(light / background, background / light);
                assert!(contrast >= 3.0, "{theme:?}: {contrast}");
            }
        }
    }

    #[test]
    fn white_grey_and_red_have_their_known_places() {
        assert_eq!(oklch(1.0, 0.0, 0.0).css(), "#ffffff");
        assert_eq!(oklch(0.599_87, 0.0, 0.0).css(), "#808080");
        assert_eq!(oklch(0.627_96, 0.257_68, 29.234).css(), "#ff0000");
    }
}
