//! Cadence of a queue's passes: which lines of the machine's crontabs and which systemd timers run them,
//! and how often.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process;

use rustix::process::getuid;

use super::assemble::line_policy;
use crate::cli::{Command, Typed};
use crate::crontab::{Line, Places, Scheduled, UnitDirectory, users};
use crate::exit::{ExitError, usage};
use crate::options::{Environment, Handler, Queue, Schedule, Sources};
use crate::ownership::OwnerRule;
use crate::secure_file;
use crate::store::{LineName, Location};

const PROGRAM: &str = "backlog";

/// The lines of this machine's crontabs, and then the timers of the system and of this user.
pub fn scheduled(environment: &Environment) -> Scheduled {
    let crontab = process::Command::new("crontab").arg("-l").output().ok();
    let home = environment.path("HOME").unwrap_or_else(|| PathBuf::from("/"));
    let places = Places {
        own: crontab.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()),
        uid: getuid().as_raw(),
        users: users(&String::from_utf8_lossy(&passwd())),
        system: "/etc/crontab".into(),
        directory: "/etc/cron.d".into(),
        spools: ["/var/spool/cron/crontabs", "/var/spool/cron"].map(PathBuf::from).into(),
        units: unit_directories(environment, &home),
        home,
    };
    places.read(PROGRAM)
}

/// The users that /etc/passwd has.
pub fn user_names() -> Vec<String> {
    let users = users(&String::from_utf8_lossy(&passwd()));
    users.into_iter().map(|user| user.name).collect()
}

fn unit_directories(environment: &Environment, home: &Path) -> Vec<UnitDirectory> {
    let directory = |path, starts_in| UnitDirectory { path, starts_in, home: home.into() };
    let own = environment.config_dir().map(|directory| directory.join("systemd/user"));
    let system = directory("/etc/systemd/system".into(), Some("/"));
    [system].into_iter().chain(own.map(|path| directory(path, None))).collect()
}

/// The passes that crontab lines and timers run, with the seconds that usually pass at most from one to
/// the next. Lines that are not understood are passed over.
pub struct Cadence(Vec<(Queue, Schedule, i64)>);

impl Cadence {
    pub fn read(environment: &Environment) -> Self {
        let lines = scheduled(environment).lines;
        let with_period = lines.iter().filter_map(|line| Some((line, line.period()?)));
        let of_line = |(line, period): (&Line, i64)| {
            let passes = passes(line, &[]).unwrap_or_default().into_iter();
            passes.map(move |LinePass { queue, schedule, .. }| (queue, schedule, period))
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

/// A pass that a line runs.
pub struct LinePass {
    pub queue: Queue,
    pub schedule: Schedule,
    pub handler: Result<Option<Handler>, ExitError>,
    /// Whether somebody is told of what is archived by other means than its output.
    pub tells: bool,
}

fn passwd() -> Vec<u8> {
    secure_file::read(Path::new("/etc/passwd")).map(|(bytes, _)| bytes).unwrap_or_default()
}

/// The passes that a line runs, as many as it has queues. They are read as under cron, which starts a
/// line in the user's home with next to no environment; so does systemd. `more` are variables that it
/// has not.
pub fn passes(line: &Line, more: &[(OsString, OsString)]) -> Result<Vec<LinePass>, ExitError> {
    if line.names_nobody() {
        return Ok(Vec::new());
    }
    let own = [(OsString::from("HOME"), line.home.clone().into_os_string())].into_iter();
    let set = line.environment.iter().map(|(name, it)| (name.into(), it.into()));
    let variables = own.chain(set).chain(more.iter().cloned()).collect();
    let (directory, rule) = (line.starts_in().into(), OwnerRule::Reported);
    let environment = Environment { variables, directory, rule };
    let words = line.arguments.iter().map(OsString::from);
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
        let handler = resolved.handler(&queue);
        if let Some(path) = queue.db.file() {
            queue.db = Location::File(sources.environment.directory.join(path));
        }
        let schedule = resolved.schedule()?.ok_or_else(Schedule::none)?;
        let tells = queue.on_archive.is_some() || resolved.pass()?.ping.is_some();
        Ok(LinePass { queue, schedule, handler, tells })
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
        let (directory, rule) = (dir.path().into(), OwnerRule::Enforced);
        let environment = Environment { variables, directory, rule };
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
