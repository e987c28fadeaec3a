//! Lines of crontabs, and timers: whether each does under cron what it is meant to do, and what those of
//! a queue cover together.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;

use super::super::assemble::require;
use super::super::cadence::{self, LinePass};
use super::super::require_columns;
use super::Findings;
use super::programs::{of_handler, of_line, of_shell};
use crate::crontab::{Crontab, Line, Scheduled, Scheduler, Sink};
use crate::exit::ExitError;
use crate::handlers::StreamSettings;
use crate::options::{Environment, Handler, Queue};
use crate::report::Level;
use crate::schedule::{self, Policy};
use crate::secure_file::is_root;
use crate::store::{Table, is_url};
use crate::system_error::chain;
use crate::time::{days, span};

/// Where cron looks for what sends mail.
const SENDMAIL: [&str; 2] = ["/usr/sbin/sendmail", "/usr/lib/sendmail"];

/// The lines of a machine, as far as a queue is concerned.
pub struct QueueLines {
    scheduled: Scheduled,
    read: Vec<ReadLine>,
    /// The queues of the other lines, with where these are.
    pub others: Vec<(String, Queue)>,
    /// The names of the users of this machine.
    users: Vec<String>,
}

/// A line that works on the queue, or that is not understood.
struct ReadLine {
    line: Line,
    passes: Result<Vec<LinePass>, ExitError>,
    /// The variables that this shell has, and that it needs to work on the queue.
    lacks: Vec<String>,
}

impl QueueLines {
    pub fn read(queue: &Queue, shell: &Environment) -> Self {
        let mut scheduled = cadence::scheduled(shell);
        let lines = std::mem::take(&mut scheduled.lines).into_iter();
        let lines = lines.filter(is_of_a_pass);
        let mut others = Vec::new();
        let read =
            lines.filter_map(|line| ReadLine::new(line, queue, shell, &mut others)).collect();
        Self { scheduled, read, others, users: cadence::user_names() }
    }

    pub fn is_any(&self) -> bool {
        self.first().is_some()
    }

    /// The passes over the queue, each with its line.
    fn passes(&self) -> impl Iterator<Item = (&Line, &LinePass)> {
        let lines = self.read.iter().filter_map(|it| Some((&it.line, it.passes.as_ref().ok()?)));
        lines.flat_map(|(line, passes)| passes.iter().map(move |pass| (line, pass)))
    }

    pub fn first(&self) -> Option<&LinePass> {
        self.passes().next().map(|(_, pass)| pass)
    }

    /// Whether a line goes by counts of failures.
    pub fn need_counter(&self) -> bool {
        self.passes().any(|(_, pass)| pass.schedule.policy.needs_counter())
    }

    /// What the schedules and the handlers of the lines miss in the table, once for all.
    pub fn check_table(&self, findings: &mut Findings, table: &Table) {
        let mut told: HashSet<_> = findings.0.iter().map(|finding| finding.text.clone()).collect();
        for (Line { scheduler, .. }, LinePass { queue, schedule, handler, .. }) in self.passes() {
            // Its commands are looked for where the line looks for them.
            let queue = Queue { on_archive: None, ..queue.clone() };
            let handler = handler.as_ref().ok().and_then(Option::as_ref);
            for found in [require_columns(table, schedule), require(handler, &queue, table)] {
                let Err(why) = found else { continue };
                if told.insert(chain(&why)) {
                    findings.error(scheduler.about(), format!("{scheduler}: {}", chain(&why)));
                }
            }
        }
    }

    pub fn check(&self, findings: &mut Findings, queue: &Queue) {
        let Scheduled { unread, ignored, is_any, .. } = &self.scheduled;
        for line in ignored.iter().filter(|line| is_of_a_pass(line)) {
            let text = "cron passes over a file whose name has more than letters, digits, - and _";
            findings.warning("crontab", format!("{}: {text}: rename it", line.scheduler));
        }
        if *is_any {
            self.read.iter().for_each(|it| it.check(findings, queue, &self.users));
            self.coverage(findings, queue);
        } else {
            findings.warning("crontab", "there is no cron here");
        }
        if !unread.is_empty() {
            let unread: Vec<_> = unread.iter().map(String::as_str).collect();
            findings.ok("unread", unread.join("; "));
        }
        let is_mailed = |it: &ReadLine| it.line.is_mailed() && it.line.recipient() != Some("");
        if self.read.iter().any(is_mailed) && !SENDMAIL.iter().any(|it| Path::new(it).exists()) {
            findings.warning(
                "mail",
                "cron has nothing to send mail with: without sendmail what a pass says is lost, so \
                 append it to a file (>>FILE 2>&1)",
            );
        }
    }

    /// What the lines of the queue leave out, or do twice.
    fn coverage(&self, findings: &mut Findings, queue: &Queue) {
        let Some((first, _)) = self.passes().next() else {
            let none = "no line of this user works on this queue; `backlog crontab` prints one";
            return findings.warning("crontab", none);
        };
        let about = first.scheduler.about();
        let working = self.read.iter().flat_map(|it| it.working(queue, &self.users));
        let ages: Vec<_> = working.map(|pass| pass.schedule.policy.ages()).collect();
        if ages.is_empty() {
            return findings.error(about, "no line works on this queue as it stands");
        }
        let (gaps, overlaps) = schedule::coverage(ages);
        for (from, to) in gaps {
            findings.error(about, format!("no line tries records of {}", band(from, Some(to))));
        }
        for (from, to) in overlaps {
            findings.warning(about, format!("several lines try records of {}", band(from, to)));
        }
    }
}

impl ReadLine {
    /// None if the line is understood, and about something else.
    fn new(
        line: Line,
        queue: &Queue,
        shell: &Environment,
        others: &mut Vec<(String, Queue)>,
    ) -> Option<Self> {
        let mut passes = cadence::passes(&line, &[]);
        let mut lacks = Vec::new();
        if !is_complete(&passes)
            && !line.has_more_variables
            && let Some((found, more)) = with_variables(&line, queue, shell)
        {
            (passes, lacks) = (Ok(found), more);
        }
        let passes = passes.map(|passes| {
            let is_own = |pass: &LinePass| pass.queue.is_same(queue);
            let (own, rest): (Vec<_>, Vec<_>) = passes.into_iter().partition(is_own);
            others.extend(rest.into_iter().map(|pass| (line.scheduler.to_string(), pass.queue)));
            own
        });
        // Behind a percent sign there may be what says whose line it is.
        let is_of_others = passes.as_ref().is_ok_and(Vec::is_empty);
        let counts = !is_of_others || line.is_cut || line.names_nobody();
        counts.then_some(Self { line, passes, lacks })
    }

    fn check(&self, findings: &mut Findings, queue: &Queue, users: &[String]) {
        let (line, about) = (&self.line, self.line.scheduler.about());
        let complaints = self.complaints(queue, users);
        for (level, text) in &complaints {
            findings.add(*level, about, format!("{}: {text}", line.scheduler));
        }
        for pass in self.working(queue, users) {
            let (from, to) = pass.schedule.policy.ages();
            let (policy, band) = (pass.schedule.policy.line(), band(from, to));
            findings.ok(about, format!("{}: {policy}, {band}", line.shown()));
        }
    }

    /// The passes of a line that does what it is meant to do.
    fn working(&self, queue: &Queue, users: &[String]) -> &[LinePass] {
        let is_broken = |(level, _): &(Level, String)| *level == Level::Error;
        let passes = self.passes.as_deref().unwrap_or_default();
        if self.only_lists() || self.complaints(queue, users).iter().any(is_broken) {
            &[]
        } else {
            passes
        }
    }

    fn only_lists(&self) -> bool {
        self.line.arguments.iter().any(|word| word == "--dry-run")
    }

    fn complaints(&self, queue: &Queue, users: &[String]) -> Vec<(Level, String)> {
        let Self { line, passes, lacks } = self;
        let mut complaints = Vec::new();
        let mut tell = |level, text: String| complaints.push((level, text));
        if line.names_nobody() {
            let taken = format!("cron takes {} for the user's name", line.program);
            return vec![(Level::Error, format!("{taken}: write one in front of the command"))];
        }
        if line.is_cut {
            let why = "cron ends the command at a %, what follows is its standard input";
            tell(Level::Error, format!("{why}: write \\%"));
        }
        if let Some(why) = of_shell(line, users) {
            tell(Level::Error, why);
            return complaints;
        }
        let passes = match passes {
            Ok(passes) => &passes[..],
            Err(why) => {
                tell(level_of_unread(line), why.to_string());
                &[]
            }
        };
        if !lacks.is_empty() {
            let lacks = lacks.join(" and ");
            let why = format!("it has no {lacks}, on which it relies and which this shell has");
            tell(Level::Error, format!("{why}: write it {}", line.place_of_variables()));
        }
        if let Some(why) = of_line(line) {
            tell(Level::Error, why);
        }
        if self.only_lists() {
            tell(Level::Warning, "it only lists what would be tried: leave --dry-run out".into());
        }
        complaints_of_output(line, passes).into_iter().for_each(|why| tell(Level::Warning, why));
        for pass in passes {
            complaints_of_pass(line, pass, queue)
                .into_iter()
                .for_each(|(level, why)| tell(level, why));
            complaint_of_times(line, pass).into_iter().for_each(|why| tell(Level::Warning, why));
        }
        complaints
    }
}

/// What is said of when cron runs a line: never, but once, or less often than its schedule counts.
fn complaint_of_times(line: &Line, pass: &LinePass) -> Option<String> {
    if !line.scheduler.is_cron() {
        return None;
    }
    let policy = &pass.schedule.policy;
    match line.period() {
        // By plain age cron's own frequency is the schedule.
        Some(period) if period <= policy.every_secs() || matches!(policy, Policy::Age(_)) => None,
        Some(period) => Some(format!(
            "cron leaves up to {} between two runs, and the schedule counts in {}: records wait \
             longer than it says",
            span(period),
            span(policy.every_secs())
        )),
        None if line.times == "@reboot" => {
            Some("@reboot runs it once: records that fail wait for the next boot".into())
        }
        None => Some(format!("{} is no time that is in crontab(5)", line.times)),
    }
}

impl Line {
    /// Whether cron mails what it says.
    fn is_mailed(&self) -> bool {
        self.scheduler.is_cron() && self.output.stderr == Sink::Told
    }

    fn recipient(&self) -> Option<&str> {
        self.environment.get("MAILTO")
    }

    /// Its times, and where it is, unless that is where one looks first.
    fn shown(&self) -> String {
        let Self { times, scheduler, .. } = self;
        match scheduler {
            Scheduler::Cron(Crontab::Own, _) | Scheduler::Systemd(_) => times.clone(),
            Scheduler::Cron(Crontab::System(_) | Crontab::OfUser(_), _) => {
                format!("{times} ({scheduler})")
            }
        }
    }

    fn place_of_variables(&self) -> &'static str {
        if self.scheduler.is_cron() { "above the line" } else { "into the service (Environment=)" }
    }
}

fn is_of_a_pass(line: &Line) -> bool {
    line.arguments.iter().any(|word| word == "process")
}

/// Level of a line that is not understood. One of another user may have files that only he can read,
/// and so may a timer.
fn level_of_unread(line: &Line) -> Level {
    let is_own = line.scheduler.is_cron() && line.user.is_none() && !line.has_more_variables;
    if is_own { Level::Error } else { Level::Warning }
}

fn complaints_of_output(line: &Line, passes: &[LinePass]) -> Vec<String> {
    let mut complaints = Vec::new();
    if line.is_split {
        let why = "sh reads &> as & and >: the pass runs in the background, and its output is not \
                   redirected";
        complaints.push(format!("{why}: write >>FILE 2>&1"));
    }
    if line.output.stderr == Sink::Nothing {
        let why = "what a pass says is thrown away: it says nothing unless somebody has to look";
        complaints.push(format!("{why}, so leave the redirection out, or append it to a file"));
    }
    let is_told = passes.iter().any(|pass| pass.tells);
    if line.is_mailed() && line.recipient() == Some("") && !is_told {
        let why =
            "MAILTO is empty and its output goes nowhere else: nobody hears of archived records";
        complaints.push(format!("{why}; name who gets the mail, or append it to a file"));
    }
    complaints
}

fn complaints_of_pass(line: &Line, pass: &LinePass, queue: &Queue) -> Vec<(Level, String)> {
    let mut complaints = Vec::new();
    match &pass.handler {
        Ok(Some(Handler::Exec { argv, .. } | Handler::Stream(StreamSettings { argv, .. }))) => {
            complaints.extend(of_handler(argv, line));
        }
        Ok(Some(Handler::Post(_))) => {}
        Ok(None) => complaints.push((Level::Error, Handler::none().to_string())),
        Err(why) => complaints.push((Level::Error, why.to_string())),
    }
    if let Some(argv) = &pass.queue.on_archive {
        let found = of_handler(argv, line);
        complaints.extend(found.map(|(level, why)| (level, format!("--on-archive: {why}"))));
    }
    // Another user's file can be looked for by root only.
    let is_seen = !line.has_more_variables && (line.user.is_none() || is_root());
    if let Some(from) = queue.db.password_from().filter(|_| is_seen)
        && pass.queue.db.password_from().is_none()
    {
        let home = line.environment.get("HOME").map_or(line.home.as_path(), Path::new);
        let file = home.join(".pgpass");
        let (db, file, place) = (&queue.db, file.display(), line.place_of_variables());
        let why = format!("it finds no password for {db}, which here is in {from}");
        let remedy = format!("write it into {file}, or PGPASSFILE {place}");
        complaints.push((Level::Error, format!("{why}: {remedy}")));
    }
    complaints
}

/// Whether it says all that a pass needs.
fn is_complete(passes: &Result<Vec<LinePass>, ExitError>) -> bool {
    let has_handler = |pass: &LinePass| matches!(pass.handler, Ok(Some(_)));
    passes.as_ref().is_ok_and(|passes| passes.iter().all(has_handler))
}

/// The passes of a line that would be complete and about the queue if it had variables of this shell,
/// and the names of those.
fn with_variables(
    line: &Line,
    queue: &Queue,
    shell: &Environment,
) -> Option<(Vec<LinePass>, Vec<String>)> {
    let is_lacking = |name: &str| {
        let is_ours = name.starts_with("BACKLOG_") || name.ends_with("_RETRY_ATTEMPTS");
        is_ours && line.environment.get(name).is_none()
    };
    let value = |name: &str, value: &OsString| match name {
        "BACKLOG_DB" | "BACKLOG_CONFIG" if !is_url(&value.to_string_lossy()) => {
            shell.directory.join(value).into_os_string()
        }
        _ => value.clone(),
    };
    let variables = shell.variables.iter().filter_map(|(name, it)| Some((name.to_str()?, it)));
    let variables = variables.filter(|(name, _)| is_lacking(name));
    let mut needed: Vec<_> = variables.map(|(name, it)| (name.into(), value(name, it))).collect();
    needed.sort_unstable();
    let read = |more: &[(OsString, OsString)]| {
        let passes = cadence::passes(line, more);
        let is_of_queue =
            |passes: &Vec<LinePass>| passes.iter().any(|pass| pass.queue.is_same(queue));
        passes
            .ok()
            .filter(|passes| is_of_queue(passes) && passes.iter().all(|it| it.handler.is_ok()))
    };
    let mut found = read(&needed)?;
    for at in (0..needed.len()).rev() {
        let mut fewer = needed.clone();
        fewer.remove(at);
        if let Some(passes) = read(&fewer) {
            (needed, found) = (fewer, passes);
        }
    }
    let names = needed.into_iter().map(|(name, _)| name.to_string_lossy().into_owned());
    let names: Vec<_> = names.collect();
    (!names.is_empty()).then_some((found, names))
}

fn band(from: i64, to: Option<i64>) -> String {
    match (from, to) {
        (0, None) => "all ages".into(),
        (from, None) => format!("more than {} days", days(from)),
        (from, Some(to)) => format!("{} to {} days", days(from), days(to)),
    }
}

#[cfg(test)]
#[cfg(feature = "postgres")]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::crontab::lines;

    /// What is said of the password of a line, where the check itself has one.
    fn complaint(crontab: &str) -> Option<String> {
        let line = &lines(&format!("{crontab} -- /bin/true"))[0];
        let secret = [(OsString::from("PGPASSWORD"), OsString::from("secret"))];
        let here = cadence::passes(line, &secret).unwrap();
        let passes = cadence::passes(line, &[]).unwrap();
        let found = complaints_of_pass(line, &passes[0], &here[0].queue);
        found.into_iter().map(|(_, why)| why).next()
    }

    #[test]
    fn a_line_that_finds_no_password_is_told_where_to_put_it() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".pgpass");
        fs::write(&file, "h:5432:d:u:secret\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let pass = "@daily backlog process --state-dir /x --ndays 1 --db postgres://u@h/d";
        let expected = "it finds no password for postgres://u@h:5432/d, which here is in PGPASSWORD: \
                        write it into /home/me/.pgpass, or PGPASSFILE above the line";
        assert_eq!(complaint(pass).as_deref(), Some(expected));
        for found in [
            format!("PGPASSWORD=secret\n{pass}"),
            format!("HOME={}\n{pass}", home.path().display()),
            format!("PGPASSFILE={}\n{pass}", file.display()),
            pass.replace("u@", "u:secret@"),
            pass.replace("backlog", "sudo -u u backlog"),
        ] {
            assert_eq!(complaint(&found), None, "{found}");
        }
    }
}
