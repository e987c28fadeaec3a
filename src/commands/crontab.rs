//! `backlog crontab`: the lines that a queue needs, ready to paste. Their arguments make `process`
//! mean the same under cron, from any directory and without the environment of who typed it.

use anyhow::{Context, Result, bail};

use super::assemble::refuse_placeholders;
use super::queue_arguments::{make_absolute, queue_arguments, utf8};
use super::{Console, open};
use crate::cli::Crontab;
use crate::crontab::Period;
use crate::exit::{Exit, usage};
use crate::handlers::{Signing, without_login};
use crate::options::keys::{is_of_the_choice, variable};
use crate::options::{Environment, Handler, Queue, Resolved, WEBHOOK_SECRET};
use crate::record::{counted, one_line};
use crate::schedule::{AgeWindow, DEFAULT_TIERS, Options, PROGRESSIVE_EVERY_SECS, Policy, Tiers};
use crate::store::Access;
use crate::system_error::chain;
use crate::time::days;

/// `is_first` says that no lines of another queue stand above.
pub fn run(
    resolved: &Resolved<'_>,
    args: &Crontab,
    is_first: bool,
    console: &mut Console<'_>,
) -> Result<Exit> {
    let queue = resolved.queue()?;
    let chosen = resolved.handler(&queue)?.ok_or_else(Handler::none)?;
    let mut text = String::new();
    let argv = if let Handler::Exec { argv, .. } = &chosen { &argv[..] } else { &[] };
    let mut filled_in = argv.iter().chain(queue.on_archive.iter().flatten());
    if filled_in.any(|word| word.as_encoded_bytes().contains(&b'{')) {
        match open(&queue, Access::ReadOnly, console.clock) {
            Ok(database) => refuse_placeholders(&chosen, &queue, database.table())?,
            // There may be no such table yet. A pass looks again.
            Err(error) => {
                let why = one_line(&chain(&error));
                text += &format!("# The columns in the command were not looked at: {why}\n");
            }
        }
    }
    let lines = lines(args, resolved)?;
    let program = std::env::current_exe().context("could not find this program's own path")?;
    let mut command = vec![utf8(program.into())?, "process".into()];
    command
        .extend(queue_arguments(resolved, &queue, |key| !args.classic || !is_of_the_choice(key))?);
    let environment = &resolved.sources.environment;
    // What stands in backlog.toml stays there.
    let typed = resolved.typed.handler.iter().cloned().map(utf8);
    let mut handler = typed.collect::<Result<Vec<_>>>()?;
    make_absolute(environment, &mut handler)?;
    if !handler.is_empty() {
        handler.insert(0, "--".into());
    }
    // The URL that was typed or stands in the environment.
    let url = environment.typed_or(resolved.typed.layer.text("post"), "post")?;
    let has_login = url.is_some_and(|url| without_login(&url) != url);
    let sets_ping = resolved.typed.set.iter().any(|setting| setting.key == "ping");
    let variables = variables(&chosen, &queue, args.systemd, has_login, sets_ping, environment)?;
    if has_login {
        text += "# The URL's login is left out: give it as a header, Authorization: Basic ...\n";
    }
    if !args.systemd {
        text += if is_first { "SHELL=/bin/sh\nPATH=/usr/local/bin:/usr/bin:/bin\n" } else { "" };
        for (name, value) in &variables {
            text += &assignment(name, value)?;
        }
    }
    for ((what, secs, schedule), number) in lines.iter().zip(1..) {
        let command = [&command[..], schedule, &handler].concat();
        let period = Period::new(*secs).map_err(usage)?;
        let what = format!("{what}, every {}", span(*secs));
        if args.systemd {
            let number = if lines.len() > 1 { format!("-{number}") } else { String::new() };
            let name = format!("backlog-{}{number}", unit_name(&queue.name));
            let queue = one_line(&queue.name).replace('%', "%%");
            let what = format!("backlog, queue {queue}: {what}");
            text += &format!("{}\n", period.systemd_units(&name, &what, &variables, &command));
        } else {
            let line = period.cron_line(&command).map_err(usage)?;
            text += &format!("\n# {what}.\n{line}\n");
        }
    }
    writeln!(console.out, "{}", text.trim())?;
    Ok(Exit::Done)
}

fn variables(
    handler: &Handler,
    queue: &Queue,
    is_systemd: bool,
    has_login: bool,
    sets_ping: bool,
    environment: &Environment,
) -> Result<Vec<(String, String)>> {
    let mut variables: Vec<(String, String)> = Vec::new();
    if queue.db.file().is_none() {
        let all = environment.variables.iter();
        let text = all.filter_map(|(name, it)| Some((name.to_str()?.into(), it.to_str()?.into())));
        variables.extend(text);
        variables.retain(|(name, _)| name.starts_with("PG") && name != "PGPASSWORD");
        variables.sort();
    }
    if is_systemd && !variables.is_empty() {
        // A service of the system has none, and the password file is there.
        variables.extend(environment.text("HOME").map(|home| ("HOME".into(), home)));
    }
    // They are for the user to fill in: secrets are not printed. As they stand no pass begins.
    let webhook = if let Handler::Post(webhook) = handler { Some(webhook) } else { None };
    if webhook.is_some_and(|webhook| matches!(webhook.signing, Signing::Shared(_))) {
        variables.push((WEBHOOK_SECRET.into(), "whsec_...".into()));
    }
    if has_login || webhook.is_some() && environment.option("header")?.is_some() {
        variables.push((variable("header"), "...".into()));
    }
    if environment.option("ping")?.is_some() || sets_ping {
        variables.push((variable("ping"), "...".into()));
    }
    Ok(variables)
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

/// Of each line what it is about, its period in seconds, and what is typed for its schedule.
fn lines(args: &Crontab, resolved: &Resolved<'_>) -> Result<Vec<(String, i64, Vec<String>)>> {
    let options = Options { every_secs: PROGRESSIVE_EVERY_SECS, spread: None };
    let tiers = Tiers::parse(DEFAULT_TIERS, options).map_err(usage)?;
    let steps: Vec<_> = tiers.steps().collect();
    if args.classic {
        if resolved.typed.layer.iter().any(|(key, ..)| is_of_the_choice(key)) {
            bail!(usage("--classic is a schedule of its own: leave out the other one"));
        }
        let lines = steps.into_iter().map(|(min_secs, max_secs, secs)| {
            let age = AgeWindow { min_secs, max_secs };
            (ages(&age), secs, age.line().split(' ').map(String::from).collect())
        });
        return Ok(lines.collect());
    }
    // What is chosen stands in the arguments or in backlog.toml.
    Ok(vec![match resolved.schedule()?.map(|schedule| schedule.policy) {
        None => {
            let what = "The whole progressive schedule".into();
            (what, PROGRESSIVE_EVERY_SECS, vec!["--progressive".into()])
        }
        // By plain age cron's period is the policy: that of the oldest records in question.
        Some(Policy::Age(age)) => {
            let tier = steps.iter().find(|(_, to, _)| *to >= age.max_secs).or(steps.last());
            (ages(&age), tier.map_or(PROGRESSIVE_EVERY_SECS, |(_, _, secs)| *secs), Vec::new())
        }
        Some(policy) => (format!("Policy {}", policy.name()), policy.every_secs(), Vec::new()),
    }])
}

/// `1 to 7 days old`
fn ages(age: &AgeWindow) -> String {
    format!("{} to {} days old", days(age.min_secs), days(age.max_secs))
}

/// The name of a queue as a part of a unit's: what may not stand there is written as systemd-escape
/// has it. So is a hyphen before a number at the end, which would be that of another queue's line.
fn unit_name(queue: &str) -> String {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let number = queue.rsplit_once('-').filter(|(_, end)| is_number(end)).map(|(it, _)| it.len());
    let escape = |(at, byte): (usize, u8)| match byte {
        b':' | b'_' | b'.' => char::from(byte).to_string(),
        b'-' if number != Some(at) => "-".into(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("\\x{byte:02x}"),
    };
    queue.bytes().enumerate().map(escape).collect()
}

fn span(secs: i64) -> String {
    let units = [("day", 86_400), ("hour", 3_600), ("minute", 60)];
    let unit = units.into_iter().find(|(_, length)| secs % length == 0);
    let (unit, length) = unit.unwrap_or(("second", 1));
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
