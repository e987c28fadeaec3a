//! Specifications of policies, `--policy NAME:KEY=VALUE,...`, each made a [`Backoff`].

use std::time::Duration;

use super::backoff::{Backoff, Delays, Jitter};
use super::formulas::{self, Curve};
use super::keys::{Form, Keys, MAX_MS, percent, ratio};
use super::sns;

/// How often cron starts a pass, unless `--every` says otherwise.
pub const EVERY_SECS: i64 = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// `--every`, the tick in seconds: at least 1.
    pub every_secs: i64,
    /// `--salt`: other records become neighbours in their phases.
    pub salt: u64,
    /// `--spread`, in percent; a key of the policy goes before it.
    pub spread: Option<u8>,
}

impl Options {
    /// What of this is not as usual, as it is typed behind the policy.
    pub fn line(&self, usual_every_secs: i64) -> String {
        let mut line = String::new();
        if self.every_secs != usual_every_secs {
            line += &format!(" --every {}", duration(self.every_secs));
        }
        if let Some(percent) = self.spread {
            line += &format!(" --spread {percent}%");
        }
        if self.salt != 0 {
            line += &format!(" --salt {}", self.salt);
        }
        line
    }
}

/// Seconds as they are typed: `1h30m`.
pub fn duration(secs: i64) -> String {
    let duration = Duration::from_secs(secs.unsigned_abs());
    humantime::format_duration(duration).to_string().replace(' ', "")
}

/// The shape of a policy: base delays and jitter.
pub struct Shape {
    base: Delays,
    /// Where the policy draws its waits unless it is told to spread them.
    drawn: Option<Jitter>,
    /// The waits to spread, where they are not the plain ones.
    mean: Option<Delays>,
}

const FORMS: [Form; 10] = [
    form("constant", &["delay"], "constant:delay=5m", constant),
    form("fibonacci", &["unit"], "fibonacci:unit=1m", fibonacci),
    form(
        "exponential",
        &["first", "base", "offset", "min", "retries", "jitter"],
        "exponential:first=1m,base=2,offset=3m",
        exponential,
    ),
    form("linear", &["min", "retries"], "linear:min=5s,max=260s,retries=10", |keys, _| {
        between(keys, Curve::Linear)
    }),
    form("arithmetic", &["min", "retries"], "arithmetic:min=5s,max=260s,retries=10", |keys, _| {
        between(keys, Curve::Arithmetic)
    }),
    form(
        "geometric",
        &["first", "ratio", "min", "retries"],
        "geometric:first=1m,ratio=5/4,max=24h",
        geometric,
    ),
    form("even", &["first", "ratio"], "even", even),
    form("sidekiq", &[], "sidekiq", sidekiq),
    form("buckets", &[], "buckets", buckets),
    Form { name: "list", keys: &[], is_list: true, example: "list:0s,10m,1h", make: list },
];

const fn form(
    name: &'static str,
    keys: &'static [&'static str],
    example: &'static str,
    make: fn(&Keys, Options) -> Result<Shape, String>,
) -> Form {
    Form { name, keys, is_list: false, example, make }
}

/// The path of the file that a specification names, `sns:FILE`.
pub fn file_of(spec: &str) -> Option<&str> {
    spec.strip_prefix(DELIVERY)?.strip_prefix(':')
}

/// The name of the policy that is read from a file.
const DELIVERY: &str = "sns";

/// Reads a specification, and what is in the file that it names, if it names one. An error says what
/// would be legal.
pub fn parse(spec: &str, file: Option<&[u8]>, options: Options) -> Result<Backoff, String> {
    let (name, rest) = spec.split_once(':').unwrap_or((spec, ""));
    let backoff = |base, jitter, max_attempts| Backoff {
        name: spec.into(),
        line: format!("--policy {spec}{}", options.line(EVERY_SECS)),
        base,
        jitter,
        every_secs: options.every_secs,
        salt: options.salt,
        max_attempts,
    };
    let spread =
        |percent: Option<u8>| Jitter::Spread { percent: percent.or(options.spread).unwrap_or(100) };
    if name == DELIVERY {
        let file = file.ok_or("sns needs a file, as in: sns:policy.json")?;
        let phases = sns::parse(file).map_err(|error| format!("sns: {rest}: {error}"));
        return phases.map(|(waits, last)| backoff(waits, spread(None), Some(last)));
    }
    let Some(form) = FORMS.iter().find(|form| form.name == name) else {
        let names: Vec<_> = FORMS.iter().map(|form| form.name).collect();
        return Err(format!(
            "there is no policy {name:?}; legal are {} and sns, as in: {}, sns:FILE",
            names.join(", "),
            FORMS.map(|form| form.example).join(", ")
        ));
    };
    let keys = Keys::parse(form, rest)?;
    let shape = (form.make)(&keys, options)?;
    let percent = keys.parsed("spread", percent)?.or(options.spread);
    Ok(match (shape.drawn, percent) {
        (Some(drawn), None) => backoff(shape.base, drawn, None),
        (Some(_), Some(_)) if keys.has("jitter") => {
            return Err(format!("{name}: jitter and spread exclude each other; leave one out"));
        }
        _ => backoff(shape.mean.unwrap_or(shape.base), spread(percent), None),
    })
}

/// Reads a specification for use by age: what would be drawn is spread, because a sum of drawn
/// waits is nothing that an age can be compared with.
pub fn parse_for_age(spec: &str, file: Option<&[u8]>, options: Options) -> Result<Backoff, String> {
    let mut backoff = parse(spec, file, options)?;
    if matches!(backoff.jitter, Jitter::Drawn { .. }) {
        let spread = parse(spec, file, Options { spread: Some(100), ..options })
            .map_err(|_| format!("{spec}: jitter= does not go with --by-age; leave it out"))?;
        backoff = Backoff { line: backoff.line, ..spread };
    }
    if backoff.base.last() == 0 {
        return Err(format!("{spec}: its last wait is 0, so by age it never ends"));
    }
    Ok(backoff)
}

/// `--fibonacci`: waits of whole Fibonacci numbers of minutes, so nothing is spread unless that is
/// asked for.
pub fn plain_fibonacci(options: Options) -> Backoff {
    Backoff {
        name: "fibonacci".into(),
        line: format!("--fibonacci{}", options.line(EVERY_SECS)),
        base: formulas::fibonacci(MINUTE_MS, MAX_MS),
        jitter: Jitter::Spread { percent: options.spread.unwrap_or(0) },
        every_secs: options.every_secs,
        salt: options.salt,
        max_attempts: None,
    }
}

/// Fibonacci(1), unless `unit=` says otherwise.
const MINUTE_MS: u64 = 60_000;

fn base(base: Delays) -> Shape {
    Shape { base, drawn: None, mean: None }
}

fn constant(keys: &Keys, _: Options) -> Result<Shape, String> {
    let delay = keys.required("delay")?;
    keys.max_above("delay", delay)?;
    Ok(base(Delays::listed([delay])))
}

fn fibonacci(keys: &Keys, _: Options) -> Result<Shape, String> {
    let unit = keys.above_zero("unit")?.unwrap_or(MINUTE_MS);
    let max = keys.max_above("unit", unit)?;
    Ok(base(formulas::fibonacci(unit, max)))
}

/// Two of them: offset + first * base^n, and the Zaqar specification's from min to max.
fn exponential(keys: &Keys, _: Options) -> Result<Shape, String> {
    if keys.has("min") || keys.has("retries") {
        return between(keys, Curve::Exponential);
    }
    let first = keys.above_zero("first")?.ok_or_else(|| keys.missing("first"))?;
    let base = keys.parsed("base", ratio)?.ok_or_else(|| keys.missing("base"))?;
    let offset = keys.duration("offset")?.unwrap_or(0);
    let max = keys.max_above("first", first.saturating_add(offset))?;
    let base = formulas::exponential(first, base, offset, max);
    let drawn = keys.parsed("jitter", percent)?.map(|percent| Jitter::Drawn {
        unit_ms: 1,
        widths: Delays::listed(
            (0..base.len() as u64).map(|n| base.wait(n) * u64::from(percent) / 100),
        ),
    });
    Ok(Shape { base, drawn, mean: None })
}

/// From the first wait by a ratio, in whole ticks; or the Zaqar specification's from min to max.
fn geometric(keys: &Keys, options: Options) -> Result<Shape, String> {
    if keys.has("min") || keys.has("retries") {
        return between(keys, Curve::Geometric);
    }
    let first = keys.above_zero("first")?.ok_or_else(|| keys.missing("first"))?;
    let ratio = keys.parsed("ratio", ratio)?.ok_or_else(|| keys.missing("ratio"))?;
    let max = keys.max_above("first", first)?;
    Ok(base(formulas::geometric(first, ratio, max, options.every_secs)))
}

/// [`geometric`] with the first delay, the ratio and the longest delay that are usual for `even`.
fn even(keys: &Keys, options: Options) -> Result<Shape, String> {
    let first = keys.above_zero("first")?.unwrap_or(formulas::EVEN_FIRST_MS);
    let ratio = keys.parsed("ratio", ratio)?.unwrap_or(formulas::EVEN_RATIO);
    let max = keys.duration("max")?.unwrap_or(formulas::EVEN_MAX_MS);
    keys.in_order("first", first, max)?;
    Ok(base(formulas::geometric(first, ratio, max, options.every_secs)))
}

/// n^4 + 15 + U[0, 30 (n + 1)) seconds; spread, it is n^4 + 15.
fn sidekiq(keys: &Keys, _: Options) -> Result<Shape, String> {
    let high = |n| formulas::sidekiq(n).saturating_add(formulas::sidekiq_width(n));
    Ok(drawn_in_secs(keys.max()?, formulas::sidekiq, high, None))
}

/// U[n^3, (n + 2)^3) seconds; spread, it is the mean of that.
fn buckets(keys: &Keys, _: Options) -> Result<Shape, String> {
    let max = keys.max()?;
    let mean = Delays::rising(max, (0..).map(formulas::bucket_mean));
    Ok(drawn_in_secs(max, formulas::bucket, |n| formulas::bucket(n + 2), Some(mean)))
}

/// Waits drawn between two rising bounds, neither of which exceeds `max`.
fn drawn_in_secs(
    max: u64,
    low: impl Fn(u64) -> u64,
    high: impl Fn(u64) -> u64,
    mean: Option<Delays>,
) -> Shape {
    let base = Delays::rising(max, (0..).map(&low));
    let widths = (0..base.len() as u64).map(|n| high(n).min(max) - low(n).min(max));
    let drawn = Jitter::Drawn { unit_ms: 1000, widths: Delays::listed(widths) };
    Shape { base, drawn: Some(drawn), mean }
}

/// `list:0s,10m,1h`: the n-th entry, then the last.
fn list(keys: &Keys, _: Options) -> Result<Shape, String> {
    Ok(base(Delays::listed(keys.entries()?)))
}

/// Waits from min to max in `retries` steps.
fn between(keys: &Keys, curve: Curve) -> Result<Shape, String> {
    keys.only(&["min", "retries"])?;
    let min = match curve {
        Curve::Linear | Curve::Arithmetic => keys.duration("min")?,
        // No ratio leads from nothing to something.
        Curve::Geometric | Curve::Exponential => keys.above_zero("min")?,
    };
    let min = min.ok_or_else(|| keys.missing("min"))?;
    let max = keys.required("max")?;
    keys.in_order("min", min, max)?;
    Ok(base(Delays::listed(formulas::between(curve, min, max, keys.retries()?))))
}
