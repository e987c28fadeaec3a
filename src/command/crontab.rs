//! `backlog crontab`: the lines that a queue needs, ready to paste.

use std::ffi::OsString;
use std::io::Write;

use anyhow::{Context, Result};

use crate::cli;
use crate::config::{Place, Queue, Schedule, Sources};
use crate::crontab::Period;
use crate::exit::{Exit, usage};
use crate::policy::{DEFAULT_TIERS, Options, PROGRESSIVE_EVERY_SECS, Policy, Tiers};

/// One line: how often, and what is typed for its schedule.
struct Line {
    what: String,
    period: Period,
    schedule: Vec<String>,
}

pub fn run(
    place: Place,
    args: &cli::Crontab,
    typed: &cli::Typed,
    sources: &Sources,
    out: &mut dyn Write,
) -> Result<Exit> {
    let queue = place.queue()?;
    let lines = lines(args, typed)?;
    let program = std::env::current_exe().context("could not find this program's own path")?;
    let mut command = vec![text(program.into())?, "process".into()];
    command.extend(sources.arguments(typed, &queue)?);
    let handler = handler(&args.handler, &queue)?;
    let mut text = String::new();
    if !args.systemd {
        text += "SHELL=/bin/sh\nPATH=/usr/local/bin:/usr/bin:/bin\n";
    }
    for (line, number) in lines.iter().zip(1..) {
        let command = [&command[..], &line.schedule, &handler].concat();
        if args.systemd {
            let number = if lines.len() > 1 { format!("-{number}") } else { String::new() };
            let name = format!("backlog-{}{number}", unit_name(&queue.name));
            let what = format!("backlog, queue {}: {}", unit_name(&queue.name), line.what);
            text += &format!("{}\n", line.period.systemd_units(&name, &what, &command));
        } else {
            let line_text = line.period.cron_line(&command).map_err(usage)?;
            text += &format!("\n# {}.\n{line_text}\n", line.what);
        }
    }
    out.write_all(text.trim_end().as_bytes())?;
    writeln!(out)?;
    Ok(Exit::Done)
}

fn lines(args: &cli::Crontab, typed: &cli::Typed) -> Result<Vec<Line>> {
    let tiers = |every_secs: i64| {
        let options = Options { every_secs, salt: 0, spread: None };
        Tiers::parse(DEFAULT_TIERS, options).map_err(usage)
    };
    let classic = |(from, to, secs): (i64, i64, i64)| {
        let policy = Policy::Age(crate::policy::Age { min_secs: from, max_secs: to });
        Line {
            what: format!("{} to {}, every {}", from / 86_400, span(to), span(secs)),
            period: Period(secs),
            schedule: policy.line().split(' ').map(String::from).collect(),
        }
    };
    let steps =
        || Ok::<_, anyhow::Error>(tiers(PROGRESSIVE_EVERY_SECS)?.steps().collect::<Vec<_>>());
    if args.classic {
        if typed.options().any(|(long, _)| crate::config::is_of_the_schedule(long)) {
            return Err(usage("--classic is a schedule of its own: leave out the other one").into());
        }
        return Ok(steps()?.into_iter().map(classic).collect());
    }
    let chosen = Schedule::chosen(&args.schedule)?;
    let schedule = match &chosen {
        None => vec!["--progressive".into()],
        Some(_) => typed_schedule(typed),
    };
    let (what, secs) = match chosen.map(|schedule| schedule.policy) {
        None => ("The whole progressive schedule".into(), PROGRESSIVE_EVERY_SECS),
        // By plain age, cron's period is the policy: that of the oldest records in question.
        Some(Policy::Age(age)) => {
            let tier = steps()?.into_iter().find(|(_, to, _)| *to >= age.max_secs);
            let secs = tier.map_or(192 * 3_600, |(_, _, secs)| secs);
            (format!("Up to {}, every {}", span(age.max_secs), span(secs)), secs)
        }
        Some(policy) => {
            let secs = policy.every_secs();
            (format!("By {}, every {}", policy.name(), span(secs)), secs)
        }
    };
    Ok(vec![Line { what, period: Period(secs), schedule }])
}

/// What was typed for the schedule; what stands in backlog.toml needs no word.
fn typed_schedule(typed: &cli::Typed) -> Vec<String> {
    let options = typed.options().filter(|(long, _)| crate::config::is_of_the_schedule(long));
    options.flat_map(|(long, value)| words(long, value)).collect()
}

/// An option as two words, or as one if it takes no value.
fn words(long: &str, value: Option<&str>) -> Vec<String> {
    let mut words = vec![format!("--{long}")];
    words.extend(value.map(String::from));
    words
}

fn handler(typed: &[OsString], queue: &Queue) -> Result<Vec<String>> {
    if typed.is_empty() && queue.exec.is_empty() {
        return Err(usage(
            "which handler? write the command behind `--`, or as exec into backlog.toml",
        )
        .into());
    }
    if typed.is_empty() {
        return Ok(Vec::new());
    }
    let words: Result<Vec<_>> = typed.iter().map(|word| text(word.clone())).collect();
    Ok([vec!["--".into()], words?].concat())
}

fn text(word: OsString) -> Result<String> {
    word.into_string().map_err(|word| usage(format!("{} is not UTF-8", word.display())).into())
}

/// What may stand in the name of a unit.
fn unit_name(queue: &str) -> String {
    queue.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn span(secs: i64) -> String {
    let units = [("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)];
    let (unit, length) =
        units.into_iter().find(|(_, length)| secs % length == 0).unwrap_or(("second", 1));
    let number = secs / length;
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}
