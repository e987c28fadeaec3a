//! A directory with a database in it, and the program to run on it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

use test_support::cluster::{Cluster, Database, cluster};

/// 2026-11-21T00:00:00Z, a Saturday.
pub const MIDNIGHT: i64 = 1_795_219_200;
pub const MINUTE: i64 = 60;
pub const HOUR: i64 = 3_600;
pub const DAY: i64 = 86_400;

pub struct TestEnv {
    dir: TempDir,
    /// The database, if it is not a file in the directory.
    url: Option<String>,
    /// True if the program is run by the user to whom everything was given.
    is_given_away: bool,
}

/// Result of a run of the program.
#[derive(Debug)]
pub struct Ran {
    pub exit: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// The arguments of a command line: one text that is split as a shell splits it, or its words.
pub trait Args {
    fn words(self) -> Vec<String>;
}

impl Args for &str {
    fn words(self) -> Vec<String> {
        shlex::split(self).unwrap_or_else(|| panic!("a quote of {self} does not end"))
    }
}

impl Args for &String {
    fn words(self) -> Vec<String> {
        self.as_str().words()
    }
}

impl<S: AsRef<str>> Args for &[S] {
    fn words(self) -> Vec<String> {
        self.iter().map(|word| word.as_ref().into()).collect()
    }
}

impl<S: AsRef<str>, const N: usize> Args for &[S; N] {
    fn words(self) -> Vec<String> {
        self[..].words()
    }
}

impl<S: AsRef<str>> Args for &Vec<S> {
    fn words(self) -> Vec<String> {
        self[..].words()
    }
}

/// One word of such a text, whatever characters are in it.
pub fn quoted(word: &str) -> String {
    shlex::try_quote(word).unwrap().into()
}

/// A handler in such a text: a script for a shell.
pub fn sh(script: &str) -> String {
    format!("sh -c {}", quoted(script))
}

pub const SCHEMA: &str = include_str!("../../schema.sql");
pub const POSTGRES_SCHEMA: &str = include_str!("../../schema.postgres.sql");

/// A database on the server that all tests share.
pub fn database() -> Option<Database> {
    cluster().map(Cluster::database)
}

pub fn server_with(sql: &str) -> Option<(Database, TestEnv)> {
    let database = database()?;
    database.sql(sql);
    let env = TestEnv::on(&database);
    Some((database, env))
}

/// The same with the table that `init` makes.
pub fn server_with_table() -> Option<(Database, TestEnv)> {
    let (database, env) = server_with("")?;
    env.run("init").success();
    Some((database, env))
}

/// Record 7, a minute old.
pub fn one_record() -> TestEnv {
    TestEnv::with_record(7, MIDNIGHT - 60)
}

/// Records 1 to `count`, a minute old.
pub fn records(count: i64) -> TestEnv {
    TestEnv::with_records(count, MIDNIGHT - 60)
}

impl TestEnv {
    /// A database with the table of schema.sql.
    pub fn new() -> Self {
        let env = Self::empty();
        env.run("init").success();
        env
    }

    /// A database with a table that counts no failures.
    pub fn minimal() -> Self {
        let env = Self::empty();
        env.run("init --minimal").success();
        env
    }

    pub fn with_record(id: i64, at: i64) -> Self {
        let env = Self::new();
        env.insert_one(id, at);
        env
    }

    /// Records 1 to `count`, inserted at `at`.
    pub fn with_records(count: i64, at: i64) -> Self {
        let env = Self::new();
        env.insert(count, at);
        env
    }

    /// No database.
    pub fn empty() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), url: None, is_given_away: false }
    }

    /// A database on a server.
    pub fn on(database: &Database) -> Self {
        Self { url: Some(database.url()), ..Self::empty() }
    }

    /// The same of a user who is not root. Only root can give it to him, any other user keeps it.
    pub fn given_away(self) -> Self {
        let is_given_away = fs::metadata(self.path("")).unwrap().uid() == 0;
        if is_given_away {
            let chown =
                Command::new("chown").args(["-R", "65534:65534"]).arg(self.path("")).status();
            assert!(chown.unwrap().success());
        }
        Self { is_given_away, ..self }
    }

    /// The same as another role of the server.
    pub fn on_as(database: &Database, role: &str) -> Self {
        let url = database.url().replacen("postgres@", &format!("{role}@"), 1);
        Self { url: Some(url), ..Self::empty() }
    }

    /// A database that somebody else made.
    pub fn with_schema(sql: &str) -> Self {
        let env = Self::empty();
        env.sql(sql);
        env
    }

    /// The database, if it is on a server.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The same as text.
    pub fn path_text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn db(&self) -> PathBuf {
        self.path("test.db")
    }

    pub fn connection(&self) -> Connection {
        let connection = Connection::open(self.db()).unwrap();
        connection.busy_timeout(Duration::from_secs(30)).unwrap();
        connection
    }

    /// Rows of a query to state.db, in the form of [`query`](Self::query).
    pub fn state(&self, sql: &str) -> String {
        rows(&Connection::open(self.path("test.db.backlog/state.db")).unwrap(), sql)
    }

    pub fn sql(&self, sql: &str) {
        self.connection().execute_batch(sql).unwrap();
    }

    /// The rows of a query, `|` between columns as the sqlite3 shell has it.
    pub fn query(&self, sql: &str) -> String {
        rows(&self.connection(), sql)
    }

    /// The status of each record, by id.
    pub fn statuses(&self) -> String {
        self.query("SELECT ID, STATUS FROM BACKLOG ORDER BY ID")
    }

    pub fn count(&self, status: &str) -> i64 {
        let sql = "SELECT count(*) FROM BACKLOG WHERE STATUS = ?1";
        self.connection().query_row(sql, [status], |row| row.get(0)).unwrap()
    }

    /// The last line about a record that was archived.
    pub fn back(&self, id: i64) -> String {
        let db = self.db().display().to_string();
        format!("backlog: restore it with: backlog restore --db {db} {id}\n")
    }

    /// Records 1 to `count`, inserted at `at`.
    pub fn insert(&self, count: i64, at: i64) {
        self.sql(&format!(
            "INSERT INTO BACKLOG (DATE_INSERTED) \
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) \
             SELECT strftime('%Y-%m-%dT%H:%M:%SZ', {at}, 'unixepoch') FROM n"
        ));
    }

    pub fn insert_one(&self, id: i64, at: i64) {
        self.sql(&format!(
            "INSERT INTO BACKLOG (ID, DATE_INSERTED) \
             VALUES ({id}, strftime('%Y-%m-%dT%H:%M:%SZ', {at}, 'unixepoch'))"
        ));
    }

    /// An executable script, to be named as a handler.
    pub fn script(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().into()
    }

    /// A handler that notes the ids it gets in a file, and ends as `end` says.
    pub fn noting(&self, end: &str) -> String {
        let log = self.path("handled").display().to_string();
        self.script("noting", &format!("echo $BACKLOG_ID >>{log}\n{end}"))
    }

    /// A handler of which none ends before so many have begun. Where a pass stops at the first
    /// outcome, it is not by chance who has begun.
    pub fn together(&self, count: usize) -> String {
        let began = self.path("began").display().to_string();
        let wait = format!("while [ $(wc -l <{began}) -lt {count} ]; do sleep 0.01; done");
        self.script("together", &format!("echo >>{began}\n{wait}"))
    }

    /// The ids that a `noting` handler got, in order; forgets them.
    pub fn handled(&self) -> Vec<String> {
        let path = self.path("handled");
        let ids = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(&path);
        ids.lines().map(String::from).collect()
    }

    /// The program as cron starts it: no terminal, next to no environment.
    pub fn command(&self, args: impl Args) -> Command {
        let mut command = program();
        if self.is_given_away {
            command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
            command.arg(program().get_program());
        }
        command
            .args(args.words())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", "/")
            .env("SHELL", "/bin/sh")
            .env("XDG_STATE_HOME", self.path("state"))
            .env("BACKLOG_DB", self.url.as_ref().map_or_else(|| self.db(), PathBuf::from))
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: impl Args) -> Ran {
        ran(&self.command(args).output().unwrap())
    }

    /// A pass at midnight.
    pub fn pass(&self, args: impl Args) -> Ran {
        let args = [vec!["process".into()], args.words()].concat();
        self.run_at(MIDNIGHT, &args)
    }

    /// The program at an instant.
    pub fn command_at(&self, now: i64, args: impl Args) -> Command {
        self.command(&at(now, args))
    }

    /// Runs at an instant.
    pub fn run_at(&self, now: i64, args: impl Args) -> Ran {
        self.run(&at(now, args))
    }

    /// Record of the passes in `status --json`.
    pub fn passes(&self, now: i64) -> Value {
        self.run_at(now, "status --json").success().json()["passes"].clone()
    }

    /// Runs with text on standard input.
    pub fn run_with_input(&self, args: impl Args, input: &[u8]) -> Ran {
        let mut command = self.command(args);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().unwrap();
        // A program that fails early does not read to the end.
        let _ = writer.join().unwrap();
        ran(&output)
    }

    /// Runs a command line at a terminal of so many columns, on which this is typed.
    pub fn at_terminal(&self, columns: u16, line: &str, typed: &str) -> Ran {
        self.on_terminal("UTC", columns, line, typed)
    }

    pub fn at_terminal_in(&self, zone: &str, columns: u16, line: &str) -> Ran {
        self.on_terminal(zone, columns, line, "")
    }

    /// A command line, to be run at a terminal.
    pub fn terminal(&self, zone: &str, columns: u16, line: &str) -> Command {
        let program = env!("CARGO_BIN_EXE_backlog");
        let line = format!("stty rows 40 cols {columns}; exec {program} {line}");
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env_clear().current_dir(self.dir.path());
        let like = self.command("");
        command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("TERM", "xterm").env("TZ", zone);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn on_terminal(&self, zone: &str, columns: u16, line: &str, typed: &str) -> Ran {
        let mut child = self.terminal(zone, columns, line).spawn().unwrap();
        // The end of the pipe would end the terminal. So a question too many is answered by Ctrl-D.
        let mut stdin = child.stdin.take().unwrap();
        // A program that asks nothing may have ended by now.
        let _ = stdin.write_all(format!("{typed}{}", "\x04".repeat(9)).as_bytes());
        let mut output = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
        let status = child.wait().unwrap();
        drop(stdin);
        ran(&Output { status, stdout: output, stderr: Vec::new() })
    }

    pub fn spawn(&self, args: impl Args) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Starts the program with its log in a file, to be waited for with `logs`.
    pub fn spawn_logging(&self, args: impl Args) -> Child {
        let log = fs::File::create(self.path("log")).unwrap();
        self.command(args).arg0("backlog").stderr(log).spawn().unwrap()
    }

    /// Waits until the program that `spawn_logging` started says something.
    #[track_caller]
    pub fn logs(&self, text: &str) {
        let log = self.path("log");
        wait_until(text, || fs::read_to_string(&log).unwrap_or_default().contains(text));
    }

    /// A handler that notes its process number and stays.
    pub fn staying(&self) -> Staying {
        let pid = self.path("pid");
        let shown = pid.display();
        Staying {
            script: format!("echo $$ >{shown}.new; mv {shown}.new {shown}; exec sleep 60"),
            // A process that is dead but not yet reaped works on nothing.
            is_dead: format!("! grep -qs '^State:.[RSD]' /proc/$(cat {shown})/status"),
            pid,
        }
    }

    /// Kills a pass, and waits until its watchdog has let go of its locks.
    pub fn kill(&self, pass: &mut Child) {
        pass.kill().unwrap();
        pass.wait().unwrap();
        self.wait_for_free_locks();
    }

    /// Waits until no pass and no watchdog has a lock on a record or a line of the SQLite database. A pass
    /// that starts before finds records claimed: all, or some, if they are let go while it looks.
    pub fn wait_for_free_locks(&self) {
        for entry in fs::read_dir(self.path("test.db.backlog")).unwrap() {
            let file = fs::File::open(entry.unwrap().path()).unwrap();
            wait_until("the locks are free", || {
                let mut lock = libc::flock {
                    l_type: libc::F_WRLCK as libc::c_short,
                    l_whence: libc::SEEK_SET as libc::c_short,
                    l_start: 0,
                    l_len: 0,
                    l_pid: 0,
                };
                fcntl(&file, FcntlArg::F_OFD_GETLK(&mut lock)).unwrap();
                i32::from(lock.l_type) == libc::F_UNLCK
            });
        }
    }

    /// A handler that begins, and ends when it is let go.
    pub fn pausing(&self) -> Pausing {
        let (began, go) = (self.path("began"), self.path("go"));
        let script = format!(
            "touch {}; while [ ! -e {} ]; do sleep 0.01; done",
            began.display(),
            go.display()
        );
        Pausing { began, go, script }
    }
}

/// A handler that goes on for ever, and one that succeeds once it is dead.
pub struct Staying {
    pid: PathBuf,
    /// For `sh -c`.
    pub script: String,
    /// The same for the next pass.
    pub is_dead: String,
}

impl Staying {
    #[track_caller]
    pub fn wait_for_begin(&self) {
        wait_until("the handler begins", || self.pid.exists());
    }
}

pub struct Pausing {
    began: PathBuf,
    go: PathBuf,
    /// For `sh -c`.
    pub script: String,
}

impl Pausing {
    #[track_caller]
    pub fn wait_for_begin(&self) {
        wait_until("the handler begins", || self.began.exists());
    }

    pub fn let_go(&self) {
        fs::write(&self.go, "").unwrap();
    }
}

/// A command line with more options, behind its subcommand.
pub fn with_options(options: &str, args: impl Args) -> Vec<String> {
    let mut words = args.words();
    words.splice(1..1, options.words());
    words
}

fn at(now: i64, args: impl Args) -> Vec<String> {
    with_options(&format!("--now @{now}"), args)
}

pub fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_backlog"))
}

/// The program under limits of prlimit(1), such as `--nofile=64`.
pub fn limited(env: &TestEnv, limit: &str, args: impl Args) -> Ran {
    let program = env.command(args);
    let mut command = Command::new("prlimit");
    command.arg(limit).arg(program.get_program()).args(program.get_args());
    command.current_dir(program.get_current_dir().unwrap());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    ran(&command.output().unwrap())
}

/// A command to run, or a process to wait for.
pub trait Runs {
    fn ran(self) -> Ran;
}

impl Runs for &mut Command {
    fn ran(self) -> Ran {
        ran(&self.output().unwrap())
    }
}

impl Runs for Child {
    fn ran(self) -> Ran {
        ran(&self.wait_with_output().unwrap())
    }
}

pub fn ran(output: &Output) -> Ran {
    Ran {
        exit: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A text in which each line is a value.
pub fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(json).collect()
}

#[track_caller]
pub fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in {text}");
}

#[track_caller]
pub fn assert_lacks(text: &str, part: &str) {
    assert!(!text.contains(part), "{part:?} is in {text}");
}

impl Ran {
    /// Standard output.
    pub fn json(&self) -> Value {
        json(&self.stdout)
    }

    /// Exit 0.
    #[track_caller]
    pub fn success(self) -> Self {
        self.exits(0)
    }

    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.exit, Some(code), "{self:?}");
        self
    }

    /// A pass of which all attempts fail: it may say that nothing succeeds.
    #[track_caller]
    pub fn all_failed(self) -> Self {
        let is_told = self.stderr.starts_with("backlog: no new record has succeeded since ");
        assert!(self.stderr.lines().count() == usize::from(is_told), "{self:?}");
        assert_eq!((self.exit, &*self.stdout), (Some(0), ""));
        self
    }

    /// Exit 0, and nothing said: what cron must see of a pass that did its job.
    #[track_caller]
    pub fn silent(self) -> Self {
        assert_eq!((self.exit, &*self.stdout, &*self.stderr), (Some(0), "", ""));
        self
    }

    /// This exit code, and all of this on standard error.
    #[track_caller]
    pub fn fails(self, exit: i32, says: &[&str]) -> Self {
        assert_eq!(self.exit, Some(exit), "{self:?}");
        says.iter().for_each(|part| assert_contains(&self.stderr, part));
        self
    }
}

/// Waits until something is so, as long as a loaded machine may need.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(300) {
        let asked = Instant::now();
        if is_so() {
            return;
        }
        // A question that opens a session of a server leaves the processor to what it waits for.
        let pause = (asked.elapsed() * 3).min(Duration::from_millis(30));
        std::thread::sleep(pause.max(Duration::from_millis(2)));
    }
    panic!("waited in vain: {what}");
}

/// Sends a signal as kill(1) names it; says whether there was such a process.
pub fn signal(name: &str, pid: impl std::fmt::Display) -> bool {
    Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success()
}

pub fn exists(path: &Path) -> impl FnMut() -> bool + '_ {
    move || path.exists()
}

/// Says aloud that something could not be tested here. The harness swallows what a passing test
/// prints with a macro, but not this.
pub fn skipped(what: &str) {
    std::io::stderr().write_all(format!("SKIPPED: {what}\n").as_bytes()).unwrap();
}

fn rows(connection: &Connection, sql: &str) -> String {
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let cells = (0..columns).map(|column| {
            let value: rusqlite::types::Value = row.get(column).unwrap();
            match value {
                rusqlite::types::Value::Null => String::new(),
                rusqlite::types::Value::Integer(value) => value.to_string(),
                rusqlite::types::Value::Real(value) => value.to_string(),
                rusqlite::types::Value::Text(value) => value,
                rusqlite::types::Value::Blob(_) => "(blob)".into(),
            }
        });
        Ok(cells.collect::<Vec<_>>().join("|"))
    });
    rows.unwrap().collect::<Result<Vec<_>, _>>().unwrap().join("\n")
}
