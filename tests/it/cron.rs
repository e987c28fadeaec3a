//! Under cron: no terminal, next to no environment, and crontab.example.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::testenv::*;

const EXAMPLE: &str = include_str!("../../crontab.example");

/// One line of crontab.example, as far as the tests understand it.
pub struct Line {
    minutes: Vec<i64>,
    hours: Vec<i64>,
    /// The `N` of a guard that lets one hour in N through.
    one_hour_in: i64,
    command: String,
    /// `--ndays` and `--min-ndays` with their values.
    pub window: Vec<String>,
}

impl Line {
    /// A line of a crontab: five fields, of which the last three are `*`, and a command.
    fn parse(line: &str) -> Self {
        let mut fields = line.splitn(6, ' ');
        let minutes = field(fields.next().unwrap(), 60);
        let hours = field(fields.next().unwrap(), 24);
        for _ in 0..3 {
            assert_eq!(fields.next(), Some("*"), "{line}");
        }
        let command = fields.next().unwrap().to_string();
        let one_hour_in = command
            .split_once(r"\% ")
            .map_or(1, |(_, rest)| rest.split_once(')').unwrap().0.parse().unwrap());
        let words: Vec<&str> = command.split(' ').collect();
        let window = words
            .windows(2)
            .filter(|pair| ["--ndays", "--min-ndays"].contains(&pair[0]))
            .flatten()
            .map(ToString::to_string)
            .collect();
        Self { minutes, hours, one_hour_in, command, window }
    }

    pub fn fires_at(&self, now: i64) -> bool {
        self.minutes.contains(&(now % HOUR / 60))
            && self.hours.contains(&(now % DAY / HOUR))
            && (now / HOUR) % self.one_hour_in == 0
    }
}

fn field(text: &str, end: i64) -> Vec<i64> {
    match text.strip_prefix('*') {
        Some("") => (0..end).collect(),
        Some(step) => (0..end).step_by(step.strip_prefix('/').unwrap().parse().unwrap()).collect(),
        None => text.split(',').map(|value| value.parse().unwrap()).collect(),
    }
}

/// The six lines of the progressive schedule.
pub fn example_lines() -> Vec<Line> {
    job_lines(EXAMPLE)
}

fn job_lines(crontab: &str) -> Vec<Line> {
    let is_job = |line: &&str| line.starts_with(|c: char| c == '*' || c.is_ascii_digit());
    crontab.lines().filter(is_job).map(Line::parse).collect()
}

/// The example with all its lines switched on.
fn all_lines() -> String {
    EXAMPLE.replace("\n#*", "\n*")
}

#[test]
fn crontab_accepts_the_example() {
    let env = TestEnv::empty();
    env.write("crontab", all_lines());
    match Command::new("crontab").arg("-n").arg(env.path("crontab")).output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => skipped(&format!("crontab -n on crontab.example: {error}")),
    }
}

#[test]
fn the_example_is_ready_to_paste() {
    for setting in ["SHELL=/bin/sh", "PATH=/usr/local/bin:/usr/bin:/bin", "MAILTO="] {
        assert!(EXAMPLE.lines().any(|line| line.starts_with(setting)), "{setting}");
    }
    let lines = job_lines(&all_lines());
    assert_eq!(lines.len(), 9);
    for line in &lines {
        assert!(!line.command.replace(r"\%", "").contains('%'), "{}", line.command);
        assert_contains(&line.command, "/usr/local/bin/backlog process --db /srv/");
        assert_contains(&line.command, " -- /usr/local/bin/");
    }
    let comments = EXAMPLE.lines().zip(EXAMPLE.lines().skip(1));
    let commented = comments.filter(|(comment, line)| {
        comment.starts_with("# ") && job_lines(&line.replacen("#*", "*", 1)).len() == 1
    });
    assert_eq!(commented.count(), 9, "each line has its comment");
}

#[test]
fn the_command_of_every_line_runs_as_cron_runs_it() {
    for line in job_lines(&all_lines()) {
        let env = TestEnv::new();
        for (id, age) in (1..).zip([0, 2, 10, 20, 100, 300]) {
            env.sql(&format!(
                "INSERT INTO BACKLOG (ID, DATE_INSERTED) VALUES ({id}, datetime('now', '-{age} days'))"
            ));
        }
        let command = line
            .command
            .replace(r"\%", "%")
            .replace("-ne 0", "-lt 0") // The guard lets every hour through.
            .replace("/usr/local/bin/backlog", env!("CARGO_BIN_EXE_backlog"))
            .replace("/srv/shop/shop.db", env.db().to_str().unwrap())
            .replace("/usr/local/bin/sync-order", "true");
        let output = Command::new("/bin/sh")
            .args(["-c", &command])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .current_dir(env.path(""))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!((output.stdout.len(), output.stderr.len()), (0, 0), "{output:?}");
        let expected = if line.window.is_empty() { 6 } else { 1 };
        assert_eq!(env.count("SUCCESS"), expected, "{command}");
    }
}

#[test]
fn a_pass_that_did_its_job_prints_nothing_also_when_handlers_failed() {
    let env = TestEnv::new();
    env.run("process --ndays 1 -- true").silent();
    env.insert(3, MIDNIGHT);
    env.pass("--ndays 1 -- sh -c 'echo out; echo err >&2; exit 1'").silent();
    env.pass("--ndays 1 -- sh -c 'exit 75'").silent();
    env.pass("--ndays 1 -- true").silent();
    assert_eq!(env.count("SUCCESS"), 3);
}

/// The state that a pass at `now` leaves, in an environment.
fn passed(now: i64, set: &dyn Fn(&mut Command)) -> String {
    let env = TestEnv::new();
    for (id, hours) in (1..).zip([0, 1, 2, 23, 24, 25]) {
        env.insert_one(id, now - hours * HOUR);
    }
    // Local spellings of the same instants must not matter either.
    env.sql(
        "UPDATE BACKLOG SET DATE_INSERTED = replace(replace(DATE_INSERTED, 'T', ' '), 'Z', '')",
    );
    let mut command = env.command(&format!("process --now @{now} --ndays 1 -- true"));
    command.env_clear().env("BACKLOG_DB", env.db()).env("PATH", "/usr/bin:/bin");
    set(&mut command);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    env.statuses()
}

#[test]
fn the_environment_and_the_time_zone_change_nothing() {
    // 2026-03-08T07:00:00Z and 2026-11-01T06:00:00Z: New York changes its clocks.
    for now in [1_772_953_200, 1_793_512_800, MIDNIGHT] {
        for offset in [-1, 0, 1] {
            let now = now + offset;
            let plain = passed(now, &|_| {});
            assert_eq!(plain, "1|SUCCESS\n2|SUCCESS\n3|SUCCESS\n4|SUCCESS\n5|SUCCESS\n6|NEW");
            let new_york = passed(now, &|command| {
                command.env("TZ", "America/New_York");
            });
            assert_eq!(new_york, plain);
            let terminal = passed(now, &|command| {
                command.env("LANG", "de_DE.UTF-8").env("TERM", "xterm").env("HOME", "/root");
            });
            assert_eq!(terminal, plain);
        }
    }
}

/// Starts cron with this crontab, where its own files hide the machine's, and waits for a file that
/// a line of it makes. Says why it could not.
fn under_cron(env: &TestEnv, crontab: &str, done: &Path) -> Result<(), String> {
    let file = env.path("crontab");
    std::fs::write(&file, crontab).unwrap();
    let hide = "set -e; for place in /var/spool/cron/crontabs /etc/cron.d /run; do \
                mount -t tmpfs none $place; done; mount --bind /dev/null /etc/crontab; \
                install -m 600 \"$1\" /var/spool/cron/crontabs/root; exec cron -f";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", hide])
        .args([Path::new("sh"), &file])
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(env.path("cron-said")).unwrap());
    let mut cron = Killed(command.spawn().map_err(|error| format!("unshare: {error}"))?);
    let mut ended = false;
    wait_until("cron runs the line", || {
        ended = cron.0.try_wait().unwrap().is_some();
        ended || done.exists()
    });
    if ended { Err(env.read("cron-said")) } else { Ok(()) }
}

/// A process that goes with the test, also with one that fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_word_of_a_printed_line_reaches_the_handler_through_cron() {
    let words = [
        r"a\b",
        r"a\\b",
        r"\\\",
        r"\",
        r"end\",
        r"\'",
        r"'\",
        r"it\'s",
        r#"\""#,
        r"50\%",
        r"\\%",
        r"%\",
        r"%\%",
        r"\%\%",
        r"a \ b\ ",
        r"\ \\ '",
        r"\$HOME \`x\`",
        "it's 100%",
        "50%",
        "",
    ];
    let env = TestEnv::new();
    env.sql("INSERT INTO BACKLOG DEFAULT VALUES");
    let got = env.path("got");
    let note = format!("printf '%s\\n' \"$@\" >{0}.new; mv {0}.new {0}", got.display());
    let handler = env.script("handler", &note);
    let quoted = words.each_ref().map(|word| quoted(word)).join(" ");
    let args = format!("crontab --db test.db --progressive -- {handler} {quoted}");
    let printed = env.run(&args).success().stdout;
    // Without waiting for the minute.
    let line = printed.lines().last().unwrap().trim_start_matches("*/5 * * * *");
    match under_cron(&env, &format!("MAILTO=\"\"\nSHELL=/bin/sh\n@reboot {line}\n"), &got) {
        Ok(()) => {
            let got = std::fs::read_to_string(&got).unwrap();
            assert_eq!(got.lines().collect::<Vec<_>>(), words, "{line}");
        }
        Err(why) => skipped(&format!("printed lines under cron itself: {why}")),
    }
}
