//! Cadence of a queue's passes: which lines of this user's crontab and which systemd timers run them,
//! and how often.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process;

use super::assemble::line_policy;
use crate::cli::{Command, Typed};
use crate::crontab::{self, Line, UnitDirectory};
use crate::exit::{ExitError, usage};
use crate::options::{Environment, Queue, Schedule, Sources};
use crate::store::{LineName, Location};

const PROGRAM: &str = "backlog";

/// The lines of this user's crontab, and then the timers of the system and of this user. None where
/// there is no cron and no timer.
pub fn lines(environment: &Environment) -> Option<Vec<Line>> {
    let crontab = process::Command::new("crontab").arg("-l").output().ok();
    let text = crontab.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let of_crontab = text.map(|text| crontab::lines(&text, PROGRAM));
    let timers = crontab::timers(&unit_directories(environment), PROGRAM);
    match of_crontab {
        None if timers.is_empty() => None,
        of_crontab => Some([of_crontab.unwrap_or_default(), timers].concat()),
    }
}

fn unit_directories(environment: &Environment) -> Vec<UnitDirectory> {
    let system = UnitDirectory { path: "/etc/systemd/system".into(), starts_in: Some("/") };
    let own = environment.config_dir().map(|directory| directory.join("systemd/user"));
    let own = own.map(|path| UnitDirectory { path, starts_in: None });
    [system].into_iter().chain(own).collect()
}

/// The passes that crontab lines and timers run, with the seconds that usually pass at most from one to
/// the next. Lines that are not understood are passed over.
pub struct Cadence(Vec<(Queue, Schedule, i64)>);

impl Cadence {
    pub fn read(environment: &Environment) -> Self {
        let lines = lines(environment).unwrap_or_default();
        let with_period = lines.iter().filter_map(|line| Some((line, line.period()?)));
        let of_line = |(line, period): (&Line, i64)| {
            let passes = passes(line, environment).unwrap_or_default().into_iter();
            passes.map(move |(queue, schedule)| (queue, schedule, period))
        };
        Self(with_period.flat_map(of_line).collect())
    }

    /// The shortest interval of the lines that run passes of this name over a queue's table.
    pub fn interval(&self, queue: &Queue, name: &LineName) -> Option<i64> {
        let is_meant = |it: &Queue, schedule: &Schedule| {
            it.name == name.queue
                && it.db.identity() == queue.db.identity()
                && it.mapping.table.text.eq_ignore_ascii_case(&queue.mapping.table.text)
                && line_policy(it, schedule) == name.policy
        };
        let meant = self.0.iter().filter(|(it, schedule, _)| is_meant(it, schedule));
        meant.map(|(.., period)| *period).min()
    }
}

/// The passes that a line runs, as many as it has queues. They are read as under cron, which starts a
/// line in the user's home with next to no environment; so does systemd.
pub fn passes(line: &Line, environment: &Environment) -> Result<Vec<(Queue, Schedule)>, ExitError> {
    let home = environment.path("HOME").unwrap_or_else(|| PathBuf::from("/"));
    // As a shell does.
    let expand = |word: &str| {
        let home = home.to_string_lossy();
        let word = word.replace("${HOME}", &home).replace("$HOME", &home);
        word.strip_prefix("~/").map_or(word.clone(), |rest| format!("{home}/{rest}"))
    };
    let directory = line.directory.as_ref().map_or(home.clone(), |it| home.join(expand(it)));
    let own = [(OsString::from("HOME"), OsString::from(&home))].into_iter();
    let set = line.environment.iter().map(|(name, it)| (name.into(), expand(it).into()));
    let environment = Environment { variables: own.chain(set).collect(), directory };
    let words = line.arguments.iter().map(|word| expand(word).into());
    let typed = match Typed::parse(std::iter::once("backlog".into()).chain(words)) {
        Ok(typed) => typed,
        Err(error) if !error.use_stderr() => return Ok(Vec::new()),
        // Without clap's hints.
        Err(error) => return Err(usage(error.to_string().lines().next().unwrap_or_default())),
    };
    let Command::Process(args) = &typed.cli.command else { return Ok(Vec::new()) };
    let sources = Sources::find(typed.cli.global.config.as_deref(), environment)?;
    let pass = |queue: Option<&str>| {
        let resolved = sources.resolve(&typed.options, queue)?;
        let mut queue = resolved.queue()?;
        if let Some(path) = queue.db.file() {
            queue.db = Location::File(sources.environment.directory.join(path));
        }
        Ok((queue, resolved.schedule()?.ok_or_else(Schedule::none)?))
    };
    if !args.all_queues {
        return Ok(vec![pass(None)?]);
    }
    sources.queues()?.iter().map(|queue| pass(Some(queue))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crontab::Period;

    /// The queue and the schedule of what is typed.
    fn pass(args: &[&str], sources: &Sources) -> (Queue, Schedule) {
        let words = [&["backlog", "process"], args, &["--", "true"]].concat();
        let typed = Typed::parse(words.into_iter().map(OsString::from)).unwrap();
        let resolved = sources.resolve(&typed.options, None).unwrap();
        (resolved.queue().unwrap(), resolved.schedule().unwrap().unwrap())
    }

    #[test]
    fn by_plain_age_the_interval_is_that_of_the_timers() {
        let dir = tempfile::tempdir().unwrap();
        let units = dir.path().join("systemd/user");
        std::fs::create_dir_all(&units).unwrap();
        let db = dir.path().join("a.db").display().to_string();
        let other = dir.path().join("b.db").display().to_string();
        for (name, secs, db, days) in [
            ("often", 60, &other, "1"),
            ("a", 345_600, &db, "1"),
            ("b", 1_800, &db, "1"),
            ("other", 300, &db, "7"),
            ("broken", 60, &db, "x"),
        ] {
            let command = ["backlog", "process", "--db", db, "--ndays", days, "--", "true"];
            let printed =
                Period::new(secs).unwrap().systemd_units(name, "", &[], &command.map(String::from));
            for unit in printed.split("# /etc/systemd/system/").skip(1) {
                let (name, text) = unit.split_once('\n').unwrap();
                std::fs::write(units.join(name), text).unwrap();
            }
        }
        let variables = [("XDG_CONFIG_HOME", dir.path()), ("HOME", dir.path())];
        let variables = variables.map(|(name, path)| (name.into(), path.into())).into();
        let environment = Environment { variables, directory: dir.path().into() };
        let sources = Sources { environment: environment.clone(), file: None };
        let cadence = Cadence::read(&environment);
        for (args, expected) in [
            (&["--db", &db, "--ndays", "1"][..], Some(1_800)),
            (&["--db", "a.db", "--ndays", "7"], Some(300)),
            (&["--db", &other, "--ndays", "1"], Some(60)),
            (&["--db", &db, "--ndays", "14"], None),
        ] {
            let (mut queue, schedule) = pass(args, &sources);
            if let Some(path) = queue.db.file() {
                queue.db = Location::File(environment.directory.join(path));
            }
            let policy = line_policy(&queue, &schedule);
            let name = LineName { queue: "default".into(), table: "BACKLOG".into(), policy };
            assert_eq!(cadence.interval(&queue, &name), expected, "{args:?}");
        }
    }
}
