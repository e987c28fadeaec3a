//! `--policy NAME:KEY=VALUE,...`: from what is typed to a [`Backoff`].

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use num_bigint::BigUint;

use super::backoff::{Backoff, Variation};
use super::curve::{self, Curve, half_up};
use super::delivery;
use super::options::{EVERY_SECS, Options, duration};
use super::waits::Waits;
use crate::instant::DAY;

/// No wait is longer unless `max=` says so.
const MAX_MS: u64 = 30 * DAY.unsigned_abs() * 1000;
/// No wait at all may be longer than this: ten years.
const LONGEST_MS: u64 = 3650 * DAY.unsigned_abs() * 1000;
/// The most waits that `retries=` may divide the way from min to max into.
const MOST_RETRIES: u32 = 100;

/// One policy: its name, its keys, what is typed for example, and how its waits come about.
struct Kind {
    name: &'static str,
    keys: &'static [&'static str],
    /// Without the keys that every policy has.
    example: &'static str,
    make: fn(&Keys, Options) -> Result<Shape, String>,
}

/// What a kind makes of its keys.
struct Shape {
    plain: Waits,
    /// Where the policy draws its waits unless it is told to spread them.
    drawn: Option<Variation>,
    /// The waits to spread, where they are not the plain ones.
    mean: Option<Waits>,
}

const KINDS: [Kind; 9] = [
    Kind { name: "constant", keys: &["delay"], example: "constant:delay=5m", make: constant },
    Kind { name: "fibonacci", keys: &["unit"], example: "fibonacci:unit=1m", make: fibonacci },
    Kind {
        name: "exponential",
        keys: &["first", "base", "offset", "min", "retries", "jitter"],
        example: "exponential:first=1m,base=2,offset=3m",
        make: exponential,
    },
    Kind {
        name: "linear",
        keys: &["min", "retries"],
        example: "linear:min=5s,max=260s,retries=10",
        make: linear,
    },
    Kind {
        name: "arithmetic",
        keys: &["min", "retries"],
        example: "arithmetic:min=5s,max=260s,retries=10",
        make: arithmetic,
    },
    Kind {
        name: "geometric",
        keys: &["first", "ratio", "min", "retries"],
        example: "geometric:first=1m,ratio=5/4,max=24h",
        make: geometric,
    },
    Kind { name: "even", keys: &["first", "ratio"], example: "even", make: even },
    Kind { name: "sidekiq", keys: &[], example: "sidekiq", make: sidekiq },
    Kind { name: "buckets", keys: &[], example: "buckets", make: buckets },
];

/// The keys of every policy.
const COMMON_KEYS: [&str; 2] = ["max", "spread"];

/// Reads a specification. An error says what would be legal.
pub fn parse(spec: &str, options: Options) -> Result<Backoff, String> {
    let (name, rest) = spec.split_once(':').unwrap_or((spec, ""));
    let backoff = |plain, variation, max_attempts| Backoff {
        name: spec.into(),
        line: format!("--policy {spec}{}", options.line(EVERY_SECS)),
        plain,
        variation,
        every_secs: options.every_secs,
        salt: options.salt,
        max_attempts,
    };
    let spread = |percent: Option<u8>| Variation::Spread {
        percent: percent.or(options.spread).unwrap_or(100),
    };
    match name {
        "list" => return Ok(backoff(list(rest)?, spread(None), None)),
        "sns" => {
            let phases = delivery::read(Path::new(rest))?;
            return Ok(backoff(phases.waits(), spread(None), Some(phases.max_attempts())));
        }
        _ => {}
    }
    let Some(kind) = KINDS.iter().find(|kind| kind.name == name) else {
        let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        return Err(format!(
            "there is no policy {name:?}; legal are {}, list and sns, as in: {}, list:0s,10m,1h, \
             sns:FILE",
            names.join(", "),
            KINDS.map(|kind| kind.example).join(", ")
        ));
    };
    let keys = Keys::parse(kind, rest)?;
    let shape = (kind.make)(&keys, options)?;
    let percent = keys.percent("spread")?.or(options.spread);
    Ok(match (shape.drawn, percent) {
        (Some(drawn), None) => backoff(shape.plain, drawn, None),
        (Some(_), Some(_)) if keys.has("jitter") => {
            return Err(format!("{name}: jitter and spread exclude each other; leave one out"));
        }
        _ => backoff(shape.mean.unwrap_or(shape.plain), spread(percent), None),
    })
}

/// Reads a specification for use by age: what would be drawn is spread, because a sum of drawn
/// waits is nothing that an age can be compared with.
pub fn parse_for_age(spec: &str, options: Options) -> Result<Backoff, String> {
    let backoff = parse(spec, options)?;
    let backoff = match backoff.variation {
        Variation::Spread { .. } => backoff,
        Variation::Drawn { .. } => {
            let line = backoff.line;
            let spread = parse(spec, Options { spread: Some(100), ..options })
                .map_err(|_| format!("{spec}: jitter= does not go with --by-age; leave it out"))?;
            Backoff { line, ..spread }
        }
    };
    if backoff.plain.last() == 0 {
        return Err(format!("{spec}: its last wait is 0, so by age it never ends"));
    }
    Ok(backoff)
}

/// The article's `--fibonacci`: to the letter, so nothing is spread unless that is asked for.
pub fn plain_fibonacci(unit_secs: i64, options: Options) -> Backoff {
    let unit = secs(unit_secs.unsigned_abs());
    let shown =
        if unit_secs == 60 { String::new() } else { format!(" --unit {}", duration(unit_secs)) };
    Backoff {
        name: "fibonacci".into(),
        line: format!("--fibonacci{shown}{}", options.line(EVERY_SECS)),
        plain: fibonacci_waits(unit, MAX_MS.max(unit)),
        variation: Variation::Spread { percent: options.spread.unwrap_or(0) },
        every_secs: options.every_secs,
        salt: options.salt,
        max_attempts: None,
    }
}

fn plain(plain: Waits) -> Shape {
    Shape { plain, drawn: None, mean: None }
}

fn constant(keys: &Keys, _: Options) -> Result<Shape, String> {
    let delay = keys.required("delay")?;
    keys.max_above("delay", delay)?;
    Ok(plain(Waits::listed([delay])))
}

fn fibonacci(keys: &Keys, _: Options) -> Result<Shape, String> {
    let unit = keys.above_zero("unit")?.unwrap_or(60_000);
    let max = keys.max_above("unit", unit)?;
    Ok(plain(fibonacci_waits(unit, max)))
}

fn fibonacci_waits(unit: u64, max: u64) -> Waits {
    let next = |(this, next): &(u64, u64)| Some((*next, this.saturating_add(*next)));
    Waits::rising(max, std::iter::successors(Some((unit, unit)), next).map(|(this, _)| this))
}

/// Two of them: offset + first * base^n, and the Zaqar specification's from min to max.
fn exponential(keys: &Keys, _: Options) -> Result<Shape, String> {
    if keys.has("min") || keys.has("retries") {
        return between(keys, Curve::Exponential);
    }
    let first = keys.above_zero("first")?.ok_or_else(|| keys.missing("first"))?;
    let (numerator, denominator) = keys.ratio("base")?.ok_or_else(|| keys.missing("base"))?;
    let offset = keys.duration("offset")?.unwrap_or(0);
    let max = keys.max_above("first", first.saturating_add(offset))?;
    let waits = (0..).map(|n| {
        let exact = BigUint::from(first) * BigUint::from(numerator).pow(n);
        let rounded = half_up(&exact, &BigUint::from(denominator).pow(n));
        offset.saturating_add(rounded)
    });
    let plain = Waits::rising(max, waits);
    let drawn = keys.percent("jitter")?.map(|percent| Variation::Drawn {
        unit_ms: 1,
        widths: Waits::listed(
            (0..plain.len() as u64).map(|n| plain.wait(n) * u64::from(percent) / 100),
        ),
    });
    Ok(Shape { plain, drawn, mean: None })
}

fn linear(keys: &Keys, _: Options) -> Result<Shape, String> {
    between(keys, Curve::Linear)
}

fn arithmetic(keys: &Keys, _: Options) -> Result<Shape, String> {
    between(keys, Curve::Arithmetic)
}

/// From the first wait by a ratio, in whole ticks; or the Zaqar specification's from min to max.
fn geometric(keys: &Keys, options: Options) -> Result<Shape, String> {
    if keys.has("min") || keys.has("retries") {
        return between(keys, Curve::Geometric);
    }
    let first = keys.above_zero("first")?.ok_or_else(|| keys.missing("first"))?;
    let ratio = keys.ratio("ratio")?.ok_or_else(|| keys.missing("ratio"))?;
    let max = keys.max_above("first", first)?;
    Ok(plain(geometric_waits(first, ratio, max, options.every_secs)))
}

fn even(keys: &Keys, options: Options) -> Result<Shape, String> {
    let first = keys.above_zero("first")?.unwrap_or(60_000);
    let ratio = keys.ratio("ratio")?.unwrap_or((5, 4));
    let max = keys.duration("max")?.unwrap_or(DAY.unsigned_abs() * 1000);
    keys.in_order("first", first, max)?;
    Ok(plain(geometric_waits(first, ratio, max, options.every_secs)))
}

fn geometric_waits(first: u64, (over, under): (u64, u64), max: u64, every_secs: i64) -> Waits {
    let tick = every_secs.unsigned_abs() * 1000;
    let (first, max) = (first.div_ceil(tick), max.div_ceil(tick));
    let grown = |ticks: &u64| {
        let product = u128::from(*ticks) * u128::from(over) / u128::from(under);
        Some((ticks + 1).max(u64::try_from(product).unwrap_or(u64::MAX)))
    };
    Waits::rising(
        max.saturating_mul(tick),
        std::iter::successors(Some(first), grown).map(|ticks| ticks.saturating_mul(tick)),
    )
}

/// n^4 + 15 + U[0, 30 (n + 1)) seconds; spread, it is n^4 + 15.
fn sidekiq(keys: &Keys, _: Options) -> Result<Shape, String> {
    let max = keys.max()?;
    let low = |n: u64| secs(n.saturating_pow(4).saturating_add(15));
    Ok(drawn_in_secs(max, low, |n| low(n).saturating_add(secs(30 * (n + 1))), None))
}

/// U[n^3, (n + 2)^3) seconds; spread, it is the mean of that.
fn buckets(keys: &Keys, _: Options) -> Result<Shape, String> {
    let max = keys.max()?;
    let cube = |n: u64| secs(n.saturating_pow(3));
    let mean = (0..)
        .map(|n: u64| secs((2 * n.saturating_pow(3)).saturating_add(3 * n * n + 2 * n + 1) / 2));
    Ok(drawn_in_secs(max, cube, |n| cube(n + 2), Some(Waits::rising(max, mean))))
}

/// Waits drawn between two rising bounds, neither of which exceeds `max`.
fn drawn_in_secs(
    max: u64,
    low: impl Fn(u64) -> u64,
    high: impl Fn(u64) -> u64,
    mean: Option<Waits>,
) -> Shape {
    let plain = Waits::rising(max, (0..).map(&low));
    let widths = (0..plain.len() as u64).map(|n| high(n).min(max) - low(n).min(max));
    let drawn = Variation::Drawn { unit_ms: 1000, widths: Waits::listed(widths) };
    Shape { plain, drawn: Some(drawn), mean }
}

fn secs(secs: u64) -> u64 {
    secs.saturating_mul(1000)
}

/// `list:0s,10m,1h`: the n-th entry, then the last.
fn list(entries: &str) -> Result<Waits, String> {
    let waits: Vec<u64> = entries
        .split(',')
        .map(|entry| milliseconds(entry).map_err(|error| format!("list: {entry:?}: {error}")))
        .collect::<Result<_, _>>()?;
    Ok(Waits::listed(waits))
}

/// Waits from min to max in `retries` steps.
fn between(keys: &Keys, curve: Curve) -> Result<Shape, String> {
    keys.only(&["min", "retries"])?;
    let min = keys.above_zero("min")?.ok_or_else(|| keys.missing("min"))?;
    let max = keys.required("max")?;
    keys.in_order("min", min, max)?;
    Ok(plain(Waits::listed(curve::between(curve, min, max, keys.retries()?))))
}

/// A duration in whole milliseconds.
fn milliseconds(text: &str) -> Result<u64, String> {
    let duration = humantime::parse_duration(text.trim())
        .map_err(|error| format!("{error}; write 30s, 5m, 12h, 1day"))?;
    u64::try_from(duration.as_millis())
        .ok()
        .filter(|ms| *ms <= LONGEST_MS)
        .ok_or_else(|| "longer than 3650 days".into())
}

/// The keys and values behind a policy's name.
struct Keys<'a> {
    kind: &'a Kind,
    values: BTreeMap<&'a str, &'a str>,
}

impl<'a> Keys<'a> {
    fn parse(kind: &'a Kind, text: &'a str) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (key.trim(), value.trim());
            if !kind.keys.iter().chain(&COMMON_KEYS).any(|legal| *legal == key) {
                let legal: Vec<_> = kind.keys.iter().chain(&COMMON_KEYS).copied().collect();
                return Err(format!(
                    "{} has no key {key:?}; legal are {}, as in: {}",
                    kind.name,
                    legal.join(", "),
                    kind.example
                ));
            }
            if values.insert(key, value).is_some() {
                return Err(format!("{}: {key} is given twice", kind.name));
            }
        }
        Ok(Self { kind, values })
    }

    fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Fails if there are other keys, which belong to the policy's other form.
    fn only(&self, keys: &[&str]) -> Result<(), String> {
        let name = self.kind.name;
        match self.values.keys().find(|key| !keys.contains(key) && !COMMON_KEYS.contains(key)) {
            None => Ok(()),
            Some(other) => Err(format!(
                "{name}: {other} does not go with min and retries; write either {name}:min=5s,\
                 max=260s,retries=10 or {}",
                self.kind.example
            )),
        }
    }

    fn missing(&self, key: &str) -> String {
        format!("{} needs {key}=, as in: {}", self.kind.name, self.kind.example)
    }

    fn wrong(&self, key: &str, error: &str) -> String {
        let value = self.values.get(key).copied().unwrap_or_default();
        format!("{}: {key}={value}: {error}", self.kind.name)
    }

    fn duration(&self, key: &str) -> Result<Option<u64>, String> {
        let parsed = self.values.get(key).map(|value| milliseconds(value));
        parsed.transpose().map_err(|error| self.wrong(key, &error))
    }

    fn required(&self, key: &str) -> Result<u64, String> {
        self.duration(key)?.ok_or_else(|| self.missing(key))
    }

    fn above_zero(&self, key: &str) -> Result<Option<u64>, String> {
        match self.duration(key)? {
            Some(0) => Err(self.wrong(key, "must be more than 0")),
            other => Ok(other),
        }
    }

    fn max(&self) -> Result<u64, String> {
        Ok(self.above_zero("max")?.unwrap_or(MAX_MS))
    }

    /// The longest wait, which must not be below the first one.
    fn max_above(&self, key: &str, first: u64) -> Result<u64, String> {
        let max = self.max()?;
        self.in_order(key, first, max)?;
        Ok(max)
    }

    fn in_order(&self, key: &str, first: u64, max: u64) -> Result<(), String> {
        if first <= max {
            return Ok(());
        }
        let shown = |ms| humantime::format_duration(Duration::from_millis(ms));
        Err(format!(
            "{}: {key} ({}) is above max ({}); give a max= that is not below it",
            self.kind.name,
            shown(first),
            shown(max)
        ))
    }

    fn retries(&self) -> Result<u32, String> {
        let value = self.values.get("retries").ok_or_else(|| self.missing("retries"))?;
        let retries = value.parse().ok().filter(|retries| (2..=MOST_RETRIES).contains(retries));
        retries.ok_or_else(|| {
            self.wrong("retries", &format!("must be a whole number from 2 to {MOST_RETRIES}"))
        })
    }

    fn percent(&self, key: &str) -> Result<Option<u8>, String> {
        let parsed = self.values.get(key).map(|value| percent(value));
        parsed.transpose().map_err(|error| self.wrong(key, &error))
    }

    /// A factor above 1: `2`, `1.5`, `5/4`.
    fn ratio(&self, key: &str) -> Result<Option<(u64, u64)>, String> {
        let Some(value) = self.values.get(key) else { return Ok(None) };
        let parsed = match value.split_once('/') {
            Some((over, under)) => over.trim().parse().ok().zip(under.trim().parse().ok()),
            None => decimal(value),
        };
        parsed
            .filter(|(over, under): &(u64, u64)| {
                let (over, under) = (u128::from(*over), u128::from(*under));
                under > 0 && over * 100 >= under * 101 && over <= under * 1000
            })
            .map(Some)
            .ok_or_else(|| {
                self.wrong(key, "must be a number above 1, from 1.01 to 1000: 2, 1.5 or 5/4")
            })
    }
}

/// `30%`, or `30`: from 0 to 100.
pub fn percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let percent = number.parse().ok().filter(|percent| *percent <= 100);
    percent.ok_or_else(|| "must be from 0% to 100%".into())
}

/// A decimal number as a fraction, `1.25` as 125/100.
fn decimal(text: &str) -> Option<(u64, u64)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 6 {
        return None;
    }
    let scale = 10u64.pow(u32::try_from(fraction.len()).ok()?);
    Some((format!("{whole}{fraction}").parse().ok()?, scale))
}
