//! `backlog crontab`: the lines that a queue needs. They mean the same from any directory and in any environment.

use anyhow::{Context, Result, bail};
use backlog_schedule::{
    AgeWindow, DEFAULT_TIERS, PROGRESSIVE_EVERY_SECS, Policy, PolicyOptions, Tiers, days, one_line,
    span,
};
use backlog_store::Access;

use super::assemble::check_placeholders;
use super::passes::user_name;
use super::queue_arguments::{make_absolute, queue_arguments, utf8};
use super::{Console, open};
use crate::cli::{CrontabArgs, Systemd};
use crate::crontab::Period;
use crate::exit::{Exit, usage};
use crate::handlers::{Signing, without_login};
use crate::options::key::{EXEC, Key, KeyRole, variable};
use crate::options::raw::Raw;
use crate::options::{Environment, HandlerSpec, Queue, Resolved, WEBHOOK_SECRET, no_handler};

pub fn run(resolved: &Resolved<'_>, args: &CrontabArgs, console: &mut Console<'_>) -> Result<Exit> {
    let queue = resolved.queue()?;
    let chosen = resolved.handler()?.ok_or_else(no_handler)?;
    let mut text = String::new();
    let argv = if let HandlerSpec::Exec { argv, .. } = &chosen { &argv[..] } else { &[] };
    let mut filled_in = argv.iter().chain(queue.on_archive.iter().flatten());
    // Where there is no such table yet, a pass looks again.
    if filled_in.any(|word| word.as_encoded_bytes().contains(&b'{'))
        && let Ok(database) = open(&queue, Access::ReadOnly, console.clock)
    {
        check_placeholders(&chosen, &queue, database.table())?;
    }
    let lines = lines(args, resolved)?;
    let program = std::env::current_exe().context("could not find this program's own path")?;
    let mut command = vec![utf8(program.into())?, "process".into()];
    command.extend(queue_arguments(resolved, |key| !args.classic || !is_of_schedule(key))?);
    let environment = &resolved.sources.environment;
    // What stands in backlog.toml stays there.
    let mut handler = match resolved.typed.layer.get(EXEC) {
        Some(Raw::Words(words)) => words.iter().cloned().map(utf8).collect::<Result<_>>()?,
        Some(Raw::Toml(_)) | None => Vec::new(),
    };
    make_absolute(environment, &mut handler)?;
    if !handler.is_empty() {
        handler.insert(0, "--".into());
    }
    // The URL that was typed or stands in the environment.
    let url = environment.typed_or(resolved.typed.layer.text("post"), "post")?;
    let has_login = url.is_some_and(|url| without_login(&url) != url);
    let sets_ping = resolved.typed.set.iter().any(|setting| setting.key == "ping");
    let variables = variables(&chosen, &queue, has_login, sets_ping, environment)?;
    let db = environment.typed_or(resolved.typed.layer.text("db"), "db")?;
    let password = match queue.db.password_from() {
        Some("the URL") if db.is_some() => Some("the password in the URL"),
        Some("PGPASSWORD") => Some("PGPASSWORD"),
        Some(_) | None => None,
    };
    let is_empty = |(name, value): &(String, String)| value.ends_with("...").then(|| name.clone());
    let login = "the URL's login is left out: give it as a header, Authorization: Basic ...";
    let to_password = |what| format!("{what} is left out: write the password into ~/.pgpass");
    let to_secret = |name| format!("{name} is left out, because it is secret: fill it in");
    let left_out = password.map(to_password).into_iter().chain(has_login.then(|| login.into()));
    for note in left_out.chain(variables.iter().filter_map(is_empty).map(to_secret)) {
        // Standard output may be the input of crontab.
        log::error!("{note}");
        text += &format!("# {note}\n");
    }
    if args.systemd.is_none() {
        let all = if args.queues.all_queues { resolved.sources.queues()? } else { Vec::new() };
        let is_first = all.first().is_none_or(|first| first == resolved.name());
        text += if is_first { "SHELL=/bin/sh\nPATH=/usr/local/bin:/usr/bin:/bin\n" } else { "" };
        for (name, value) in &variables {
            text += &assignment(name, value)?;
        }
    }
    let user = user_name();
    let user = args.systemd.filter(|of| *of == Systemd::System).map(|_| user.as_str());
    for (what, secs, schedule) in &lines {
        let command = [&command[..], schedule, &handler].concat();
        let period = Period::new(*secs).map_err(usage)?;
        let what = format!("{what}, every {}", span(*secs));
        if args.systemd.is_some() {
            let name = format!("backlog-{}", unit_name(&queue.name));
            let queue = one_line(&queue.name).replace('%', "%%");
            let what = format!("backlog, queue {queue}: {what}");
            text +=
                &format!("{}\n", period.systemd_units(&name, &what, user, &variables, &command));
        } else {
            let line = period.cron_line(&command).map_err(usage)?;
            text += &format!("\n# {what}.\n{line}\n");
        }
    }
    writeln!(console.out, "{}", text.trim())?;
    Ok(Exit::Done)
}

fn variables(
    handler: &HandlerSpec,
    queue: &Queue,
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
    // They are for the user to fill in: secrets are not printed. As they stand no pass begins.
    let webhook = if let HandlerSpec::Post(webhook) = handler { Some(webhook) } else { None };
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

fn is_of_schedule(key: &Key) -> bool {
    [KeyRole::Schedule, KeyRole::ScheduleDetail].contains(&key.role)
}

/// Of each line what it is about, its period in seconds, and what is typed for its schedule.
fn lines(args: &CrontabArgs, resolved: &Resolved<'_>) -> Result<Vec<(String, i64, Vec<String>)>> {
    let options = PolicyOptions { every_secs: PROGRESSIVE_EVERY_SECS, spread: None };
    let tiers = Tiers::parse(DEFAULT_TIERS, options).map_err(usage)?;
    let steps: Vec<_> = tiers.steps().collect();
    if args.classic {
        if resolved.typed.layer.has_any(is_of_schedule) {
            bail!(usage("--classic is a schedule of its own: leave out the other one"));
        }
        let lines = steps.into_iter().map(|(min_secs, max_secs, secs)| {
            let age = AgeWindow { min_secs, max_secs };
            (ages(&age), secs, age.options().split(' ').map(String::from).collect())
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

/// The name of a queue as a part of the name of a unit, escaped as systemd-escape does.
fn unit_name(queue: &str) -> String {
    let escape = |byte| match byte {
        b':' | b'_' | b'.' | b'-' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("\\x{byte:02x}"),
    };
    queue.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::unit_name;

    #[test]
    fn every_queue_has_names_of_its_own_for_its_units() {
        for (queue, name) in [
            ("e-mail", "e-mail"),
            ("a b", r"a\x20b"),
            ("a@b/c", r"a\x40b\x2fc"),
            ("\u{fc}\\", r"\xc3\xbc\x5c"),
        ] {
            assert_eq!(unit_name(queue), name);
        }
    }
}
