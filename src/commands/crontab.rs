//! `backlog crontab`: the lines that a queue needs, ready to paste.

use std::ffi::OsString;

use anyhow::{Context, Result, bail};

use super::assemble::refuse_injection;
use super::cron_arguments::{self, connection_variables};
use super::{Console, open};
use crate::cli::Crontab;
use crate::crontab::Period;
use crate::exit::{Exit, usage};
use crate::handlers::Signing;
use crate::options::keys::{is_of_the_choice, variable};
use crate::options::{Environment, Handler, Queue, Resolved, WEBHOOK_SECRET};
use crate::record::{counted, one_line};
use crate::schedule::{AgeWindow, DEFAULT_TIERS, Options, PROGRESSIVE_EVERY_SECS, Policy, Tiers};
use crate::store::Access;
use crate::time::days;

/// One line: how often, and what is typed for its schedule.
struct Line {
    what: String,
    period: Period,
    schedule: Vec<String>,
}

pub fn run(resolved: &Resolved<'_>, args: &Crontab, console: &mut Console<'_>) -> Result<Exit> {
    let queue = resolved.queue()?;
    let chosen = resolved.handler(&queue)?;
    let chosen = chosen.ok_or_else(Handler::none)?;
    let mut text = String::new();
    if fills_in(&chosen, &queue) {
        match open(&queue, Access::ReadOnly) {
            Ok(database) => refuse_injection(&chosen, &queue, database.table())?,
            // There may be no such table yet. A pass looks again.
            Err(error) => {
                let why = one_line(&format!("{error:#}"));
                text += &format!("# The columns in the command were not looked at: {why}\n");
            }
        }
    }
    let lines = lines(args, resolved)?;
    let program = std::env::current_exe().context("could not find this program's own path")?;
    let mut command = vec![utf8(program.into())?, "process".into()];
    command.extend(cron_arguments::words(resolved, &queue, !args.classic)?);
    let environment = &resolved.sources.environment;
    let handler = handler(&resolved.typed.handler, environment)?;
    let has_login = cron_arguments::has_login(resolved)?;
    let variables = variables(&chosen, &queue, args.systemd, has_login, environment)?;
    if has_login {
        text += "# The URL's login is left out: give it as a header, Authorization: Basic ...\n";
    }
    if !args.systemd {
        text += "SHELL=/bin/sh\nPATH=/usr/local/bin:/usr/bin:/bin\n";
        for (name, value) in &variables {
            text += &assignment(name, value)?;
        }
    }
    for (line, number) in lines.iter().zip(1..) {
        let command = [&command[..], &line.schedule, &handler].concat();
        if args.systemd {
            let number = if lines.len() > 1 { format!("-{number}") } else { String::new() };
            let name = format!("backlog-{}{number}", unit_name(&queue.name));
            let queue = one_line(&queue.name).replace('%', "%%");
            let what = format!("backlog, queue {queue}: {}", line.what);
            text += &format!("{}\n", line.period.systemd_units(&name, &what, &variables, &command));
        } else {
            let line_text = line.period.cron_line(&command).map_err(usage)?;
            text += &format!("\n# {}.\n{line_text}\n", line.what);
        }
    }
    writeln!(console.out, "{}", text.trim_end())?;
    Ok(Exit::Done)
}

/// What a pass needs to find in its environment.
fn variables(
    handler: &Handler,
    queue: &Queue,
    is_systemd: bool,
    has_login: bool,
    environment: &Environment,
) -> Result<Vec<(String, String)>> {
    let mut variables = connection_variables(environment, queue);
    if is_systemd && !variables.is_empty() {
        // A service of the system has none, and the password file is there.
        let home = environment.get("HOME").and_then(|home| home.to_str());
        variables.extend(home.map(|home| ("HOME".into(), home.into())));
    }
    // They are for the user to fill in: secrets are not printed. As they stand no pass begins.
    let webhook = handler.webhook();
    if webhook.is_some_and(|webhook| matches!(webhook.signing, Signing::Shared(_))) {
        variables.push((WEBHOOK_SECRET.into(), "whsec_...".into()));
    }
    let has_headers = webhook.is_some() && environment.option("header")?.is_some();
    if has_headers || has_login {
        variables.push((variable("header"), "...".into()));
    }
    Ok(variables)
}

/// Whether a command may have columns in it.
fn fills_in(handler: &Handler, queue: &Queue) -> bool {
    let argv = match handler {
        Handler::Exec { argv, .. } => &argv[..],
        Handler::Stream { .. } | Handler::Post(_) => &[],
    };
    let mut words = argv.iter().chain(queue.on_archive.iter().flatten());
    words.any(|word| word.as_encoded_bytes().contains(&b'{'))
}

/// A line that sets a variable. Cron has no way to say a line break, and none to quote a quote.
fn assignment(name: &str, value: &str) -> Result<String> {
    let quote = if value.contains('"') { '\'' } else { '"' };
    if value.contains(|c: char| c.is_control() || c == quote) {
        bail!(usage(format!(
            "a crontab cannot set the variable {name}: it holds a control character, or quotes of \
             both kinds"
        )));
    }
    Ok(format!("{name}={quote}{value}{quote}\n"))
}

fn lines(args: &Crontab, resolved: &Resolved<'_>) -> Result<Vec<Line>> {
    let options = Options { every_secs: PROGRESSIVE_EVERY_SECS, salt: 0, spread: None };
    let tiers = Tiers::parse(DEFAULT_TIERS, options).map_err(usage)?;
    let steps: Vec<_> = tiers.steps().collect();
    let line = |what: String, secs: i64, schedule: Vec<String>| {
        let what = format!("{what}, every {}", span(secs));
        Ok(Line { what, period: Period::new(secs).map_err(usage)?, schedule })
    };
    if args.classic {
        if resolved.typed.layer.iter().any(|(key, ..)| is_of_the_choice(key)) {
            bail!(usage("--classic is a schedule of its own: leave out the other one"));
        }
        let lines = steps.into_iter().map(|(min_secs, max_secs, secs)| {
            let age = AgeWindow { min_secs, max_secs };
            line(ages(&age), secs, age.line().split(' ').map(String::from).collect())
        });
        return lines.collect();
    }
    // What is chosen stands in the arguments or in backlog.toml.
    let one = match resolved.schedule()?.map(|schedule| schedule.policy) {
        None => {
            let what = "The whole progressive schedule".into();
            line(what, PROGRESSIVE_EVERY_SECS, vec!["--progressive".into()])
        }
        // By plain age cron's period is the policy: that of the oldest records in question.
        Some(Policy::Age(age)) => {
            let tier = steps.iter().find(|(_, to, _)| *to >= age.max_secs).or(steps.last());
            line(ages(&age), tier.map_or(PROGRESSIVE_EVERY_SECS, |(_, _, secs)| *secs), Vec::new())
        }
        Some(policy) => line(format!("Policy {}", policy.name()), policy.every_secs(), Vec::new()),
    };
    Ok(vec![one?])
}

/// `1 to 7 days old`
fn ages(age: &AgeWindow) -> String {
    format!("{} to {} days old", days(age.min_secs), days(age.max_secs))
}

/// The command that was typed. What stands in backlog.toml stays there.
fn handler(typed: &[OsString], environment: &Environment) -> Result<Vec<String>> {
    let words: Result<Vec<_>> = typed.iter().map(|word| utf8(word.clone())).collect();
    let mut words = words?;
    let Some(program) = words.first_mut() else { return Ok(words) };
    *program = cron_arguments::program(environment, program)?;
    words.insert(0, "--".into());
    Ok(words)
}

fn utf8(word: OsString) -> Result<String> {
    word.into_string().map_err(|word| usage(format!("{} is not UTF-8", word.display())).into())
}

/// The name of a queue as a part of a unit's, another one for each queue: what may not stand there
/// is written as systemd-escape has it. So is a hyphen before a number at the end, which would be
/// that of another queue's line.
fn unit_name(queue: &str) -> String {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let number = queue.rfind('-').filter(|at| is_number(&queue[at + 1..]));
    let escape = |(at, byte): (usize, u8)| match byte {
        b':' | b'_' | b'.' => char::from(byte).to_string(),
        b'-' if number != Some(at) => "-".into(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("\\x{byte:02x}"),
    };
    queue.bytes().enumerate().map(escape).collect()
}

fn span(secs: i64) -> String {
    let units = [("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)];
    let (unit, length) =
        units.into_iter().find(|(_, length)| secs % length == 0).unwrap_or(("second", 1));
    counted((secs / length).unsigned_abs(), unit)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::unit_name;

    #[test]
    fn every_queue_has_names_of_its_own_for_its_units() {
        for (queue, name) in [
            ("e-mail", "e-mail"),
            ("a b", r"a\x20b"),
            ("a-1", r"a\x2d1"),
            ("a-1-", "a-1-"),
            ("a@b/c", r"a\x40b\x2fc"),
            ("\u{fc}\\", r"\xc3\xbc\x5c"),
        ] {
            assert_eq!(unit_name(queue), name);
        }
        let queues = ["a", "a b", "a-b", "a_b", "a.b", "a-1", "a 1", r"a\x2d1", "a-1-1"];
        let numbered = |name: &String| [format!("{name}-1"), format!("{name}-12"), name.clone()];
        let names: Vec<_> = queues.iter().map(|queue| unit_name(queue)).collect();
        let all: HashSet<_> = names.iter().flat_map(numbered).collect();
        assert_eq!(all.len(), 3 * queues.len(), "{all:?}");
    }
}
