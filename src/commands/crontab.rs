//! `backlog crontab`: the lines that a queue needs, independent of directory and environment.

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
use crate::options::{HandlerSpec, Queue, Resolved, WEBHOOK_SECRET, no_handler};

pub fn run(resolved: &Resolved<'_>, args: &CrontabArgs, console: &mut Console<'_>) -> Result<Exit> {
    let queue = resolved.queue()?;
    let handler = resolved.handler()?.ok_or_else(no_handler)?;
    let argv = if let HandlerSpec::Exec { argv, .. } = &handler { &argv[..] } else { &[] };
    let mut words = argv.iter().chain(queue.on_archive.iter().flatten());
    // If there is no such table yet, the pass checks the placeholders.
    if words.any(|word| word.as_encoded_bytes().contains(&b'{'))
        && let Ok(database) = open(&queue, Access::ReadOnly, console.clock)
    {
        check_placeholders(&handler, &queue, database.table())?;
    }
    let lines = lines(args, resolved)?;
    let program = std::env::current_exe().context("could not find this program's own path")?;
    let mut command = vec![utf8(program.into())?, "process".into()];
    command.extend(queue_arguments(resolved, |key| !args.classic || !is_of_schedule(key))?);
    let environment = &resolved.sources.environment;
    // A handler in backlog.toml stays there.
    let mut typed_handler = match resolved.typed.layer.get(EXEC) {
        Some(Raw::Words(words)) => words.iter().cloned().map(utf8).collect::<Result<_>>()?,
        Some(Raw::Toml(_)) | None => Vec::new(),
    };
    make_absolute(environment, &mut typed_handler)?;
    if !typed_handler.is_empty() {
        typed_handler.insert(0, "--".into());
    }
    let url = environment.typed_or(resolved.typed.layer.text("post"), "post")?;
    let has_login = url.is_some_and(|url| without_login(&url) != url);
    let variables = variables(&handler, &queue, has_login, resolved)?;
    let mut text = String::new();
    for note in notes(&queue, has_login, &variables, resolved)? {
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
    let user = args.systemd.filter(|of| *of == Systemd::System).map(|_| user_name());
    for (what, secs, schedule) in &lines {
        let command = [&command[..], schedule, &typed_handler].concat();
        let period = Period::new(*secs).map_err(usage)?;
        let what = format!("{what}, every {}", span(*secs));
        text += &match args.systemd {
            None => format!("\n# {what}.\n{}\n", period.cron_line(&command).map_err(usage)?),
            Some(_) => {
                let name = format!("backlog-{}", unit_name(&queue.name));
                let queue = one_line(&queue.name).replace('%', "%%");
                let what = format!("backlog, queue {queue}: {what}");
                period.systemd_units(&name, &what, user.as_deref(), &variables, &command) + "\n"
            }
        };
    }
    writeln!(console.out, "{}", text.trim())?;
    Ok(Exit::Done)
}

/// A note for each secret that is left out, with the remedy.
fn notes(
    queue: &Queue,
    has_login: bool,
    variables: &[(String, String)],
    resolved: &Resolved<'_>,
) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    let db = resolved.sources.environment.typed_or(resolved.typed.layer.text("db"), "db")?;
    let password = match queue.db.password_from() {
        Some("the URL") if db.is_some() => Some("the password in the URL"),
        Some("PGPASSWORD") => Some("PGPASSWORD"),
        Some(_) | None => None,
    };
    notes.extend(
        password.map(|what| format!("{what} is left out: write the password into ~/.pgpass")),
    );
    if has_login {
        let login = "the URL's login is left out: give it as a header, Authorization: Basic ...";
        notes.push(login.into());
    }
    let empty = variables.iter().filter(|(_, value)| value.ends_with("..."));
    notes.extend(
        empty.map(|(name, _)| format!("{name} is left out, because it is secret: fill it in")),
    );
    Ok(notes)
}

/// The variables that a line sets. Secrets have `...` in place of a value, with which no pass begins.
fn variables(
    handler: &HandlerSpec,
    queue: &Queue,
    has_login: bool,
    resolved: &Resolved<'_>,
) -> Result<Vec<(String, String)>> {
    let environment = &resolved.sources.environment;
    let mut variables: Vec<(String, String)> = Vec::new();
    if queue.db.file().is_none() {
        let all = environment.variables.iter();
        let text =
            all.filter_map(|(name, value)| Some((name.to_str()?.into(), value.to_str()?.into())));
        variables.extend(text);
        variables.retain(|(name, _)| name.starts_with("PG") && name != "PGPASSWORD");
        variables.sort();
    }
    let webhook = if let HandlerSpec::Post(webhook) = handler { Some(webhook) } else { None };
    if webhook.is_some_and(|webhook| matches!(webhook.signing, Signing::Shared(_))) {
        variables.push((WEBHOOK_SECRET.into(), "whsec_...".into()));
    }
    if has_login || webhook.is_some() && environment.option("header")?.is_some() {
        variables.push((variable("header"), "...".into()));
    }
    let sets_ping = resolved.typed.set.iter().any(|setting| setting.key == "ping");
    if environment.option("ping")?.is_some() || sets_ping {
        variables.push((variable("ping"), "...".into()));
    }
    Ok(variables)
}

/// A line that sets a variable. A crontab cannot express a line break, nor quotes of both kinds.
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

/// The description of each line, its period in seconds, and the options of its schedule.
fn lines(args: &CrontabArgs, resolved: &Resolved<'_>) -> Result<Vec<(String, i64, Vec<String>)>> {
    let options = PolicyOptions { every_secs: PROGRESSIVE_EVERY_SECS, spread: None };
    let tiers = Tiers::parse(DEFAULT_TIERS, options).map_err(usage)?;
    let steps: Vec<_> = tiers.steps().collect();
    if args.classic {
        if resolved.typed.layer.has_any(is_of_schedule) {
            bail!(usage("--classic is a schedule: leave out the other one"));
        }
        let lines = steps.into_iter().map(|(min_secs, max_secs, secs)| {
            let age = AgeWindow { min_secs, max_secs };
            (ages(&age), secs, age.options().split(' ').map(String::from).collect())
        });
        return Ok(lines.collect());
    }
    // A chosen schedule is in the arguments or in backlog.toml.
    Ok(vec![match resolved.schedule()?.map(|schedule| schedule.policy) {
        None => {
            let what = "The whole progressive schedule".into();
            (what, PROGRESSIVE_EVERY_SECS, vec!["--progressive".into()])
        }
        // With --ndays, the period of cron is the policy: the period for the oldest records that it covers.
        Some(Policy::Age(age)) => {
            let tier = steps.iter().find(|(_, to, _)| *to >= age.max_secs).or(steps.last());
            (ages(&age), tier.map_or(PROGRESSIVE_EVERY_SECS, |(_, _, secs)| *secs), Vec::new())
        }
        Some(policy) => (format!("Policy {}", policy.name()), policy.every_secs(), Vec::new()),
    }])
}

fn ages(age: &AgeWindow) -> String {
    format!("{} to {} days old", days(age.min_secs), days(age.max_secs))
}

/// The name of a queue for the name of a unit, with bytes that unit names do not allow as `\xNN`.
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
    fn unit_names_are_unique() {
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
