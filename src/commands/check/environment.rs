//! Inspection of the handler and of the user's crontab.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::Findings;
use crate::commands::crontab_lines::{CrontabLine, crontab_lines};
use crate::handlers::{Signing, in_one_word, is_executable, obstacle};
use crate::options::{Environment, Handler, Queue};
use crate::schedule;
use crate::time::days;

/// What cron looks for programs in, unless the crontab says otherwise.
const CRON_PATH: &str = "/usr/bin:/bin";

pub fn the_handler(findings: &mut Findings, handler: Option<&Handler>, environment: &Environment) {
    match handler {
        None => {
            findings.warning("handler", "none is configured: it stands behind `--` in each line");
        }
        Some(Handler::Exec { argv, .. } | Handler::Stream { argv, .. }) => {
            the_program(findings, argv, environment);
        }
        Some(Handler::Post(webhook)) => {
            let signed = match &webhook.signing {
                Signing::None => "not signed".into(),
                Signing::Shared(_) => "signed".into(),
                Signing::Own { column } => format!("signed with {column} of each record"),
            };
            findings.ok("handler", format!("POST {}, {signed}", webhook.target));
        }
    }
}

fn the_program(findings: &mut Findings, argv: &[OsString], environment: &Environment) {
    let own = environment.get("PATH").map_or(OsStr::new(CRON_PATH), OsString::as_os_str);
    if let Some(why) = in_one_word(argv, own) {
        return findings.error("handler", why);
    }
    let Some(program) = argv.first().map(Path::new) else { return };
    let shown = program.display();
    let search = |path: &OsStr| {
        let found =
            |directory: PathBuf| Some(directory.join(program)).filter(|it| is_executable(it));
        std::env::split_paths(path).find_map(found)
    };
    if program.components().count() > 1 {
        if program.is_relative() {
            findings.error(
                "handler",
                format!("{shown} is not where cron starts: write its whole path"),
            );
        } else if is_executable(program) {
            the_script(findings, program, own);
        } else {
            findings.error("handler", format!("{shown} is no file that can be executed"));
        }
        return;
    }
    match (search(OsStr::new(CRON_PATH)), search(own)) {
        (Some(found), _) => the_script(findings, &found, own),
        (None, Some(found)) => findings.warning(
            "handler",
            format!("{} is not in cron's PATH, {CRON_PATH}: write its whole path", found.display()),
        ),
        (None, None) => findings.error("handler", format!("there is no {shown} in PATH")),
    }
}

/// A program that the system would start, which may not run all the same.
fn the_script(findings: &mut Findings, file: &Path, path: &OsStr) {
    let shown = file.display();
    match obstacle(file, path) {
        None => findings.ok("handler", shown.to_string()),
        Some(why) => findings.error("handler", format!("{shown} cannot be run: {why}")),
    }
}

/// The lines of this user's crontab that work on the same queue.
pub fn the_crontab(findings: &mut Findings, queue: &Queue, environment: &Environment) {
    let crontab = std::process::Command::new("crontab").arg("-l").output();
    let Ok(crontab) = crontab else {
        findings.warning("crontab", "there is no cron here");
        return;
    };
    let text = String::from_utf8_lossy(&crontab.stdout);
    let mut ages = Vec::new();
    for line in crontab_lines(&text, environment) {
        match line {
            CrontabLine::Unclear { number, why } => {
                findings.error("crontab", format!("line {number}: {why}"));
            }
            CrontabLine::Pass { times, queue: other, schedule } if other.is_same(queue) => {
                let (from, to) = schedule.policy.ages();
                findings.ok(
                    "crontab",
                    format!("{times}: {}, {}", schedule.policy.line(), band(from, to)),
                );
                ages.push((from, to));
            }
            CrontabLine::Pass { .. } => {}
        }
    }
    if ages.is_empty() {
        findings.warning(
            "crontab",
            "no line of this user works on this queue; `backlog crontab` prints one",
        );
        return;
    }
    for (from, to) in schedule::gaps(&ages) {
        let band = band(from, Some(to));
        findings.error("crontab", format!("no line tries records of {band}"));
    }
    for (from, to) in schedule::overlaps(&ages) {
        findings.warning("crontab", format!("several lines try records of {}", band(from, to)));
    }
}

fn band(from: i64, to: Option<i64>) -> String {
    match (from, to) {
        (0, None) => "all ages".into(),
        (from, None) => format!("more than {} days", days(from)),
        (from, Some(to)) => format!("{} to {} days", days(from), days(to)),
    }
}
