//! PostgreSQL, pgmq and PgBouncer for tests: one cluster for each test binary, one database for
//! each test. Where something cannot be had, its tests say SKIPPED and pass, or fail if the
//! environment has `BACKLOG_REQUIRE_PG=1`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::iter;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use postgres::{Client, Error, NoTls, SimpleQueryMessage};

/// The cluster that the tests of this binary share. It does without fsync.
pub fn cluster() -> Option<&'static Cluster> {
    static CLUSTER: OnceLock<Option<Cluster>> = OnceLock::new();
    CLUSTER.get_or_init(|| Cluster::private(&[])).as_ref()
}

pub struct Cluster {
    server: Mutex<Server>,
    dir: PathBuf,
    databases: AtomicU32,
}

impl Cluster {
    /// A cluster for one test, which may restart it and has its own `SETTING=VALUE`s. It ends
    /// with this value.
    pub fn private(settings: &[&str]) -> Option<Self> {
        let server = Server::start("postgres-cluster", &[&["fast"], settings].concat());
        let server = server.map_err(|why| skipped("PostgreSQL", &why)).ok()?;
        let dir = server.dir.clone();
        Some(Self { server: Mutex::new(server), dir, databases: AtomicU32::new(0) })
    }

    /// A cluster that follows this one, until it is promoted.
    pub fn standby(&self) -> Option<Self> {
        Self::private(&[&format!("standby-of={}", self.dir.display())])
    }

    pub fn promote(&self) {
        self.tell("promote", "ready");
    }

    /// A fresh database for one test, which ends with this value.
    pub fn database(&self) -> Database {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let mut database = self.existing(&format!("test_{number}"));
        // template0, as a connection to template1 would be in the way. Many databases at once are
        // made twice as fast by copying files as through the log, the only way before 15.
        let create = format!("CREATE DATABASE {} TEMPLATE template0", database.name);
        let mut client = self.existing("postgres").client();
        let version = rows(&client.simple_query("SHOW server_version_num").unwrap());
        let copies = version.parse::<u32>().unwrap() >= 150_000;
        let strategy = if copies { " STRATEGY file_copy" } else { "" };
        client.batch_execute(&(create + strategy)).unwrap();
        database.drops = true;
        database
    }

    /// Where its socket is.
    pub fn sockets(&self) -> PathBuf {
        self.dir.join("s")
    }

    /// A database by name, such as `postgres`.
    pub fn existing(&self, name: &str) -> Database {
        Database::of(self.sockets(), name)
    }

    /// Stops the server as an administrator does, which ends all sessions, and starts it again.
    pub fn restart(&self) {
        self.tell("restart", "ready");
    }

    /// Ends the server without a checkpoint, so that it has to recover, and starts it again.
    pub fn crash(&self) {
        self.tell("crash", "ready");
    }

    pub fn stop(&self) {
        self.tell("stop", "stopped");
    }

    pub fn start(&self) {
        self.tell("start", "ready");
    }

    fn tell(&self, command: &str, expected: &str) {
        assert_eq!(self.server.lock().unwrap().tell(command), expected);
    }

    /// Log of the server so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap()
    }
}

/// A database, and the place of the socket that leads to it.
pub struct Database {
    sockets: PathBuf,
    name: String,
    drops: bool,
    /// Kept for the next statement, as a session takes a server 10 ms of CPU to start.
    session: Mutex<Option<Client>>,
}

impl Database {
    fn of(sockets: PathBuf, name: &str) -> Self {
        Self { sockets, name: name.into(), drops: false, session: Mutex::default() }
    }

    /// As superuser, whom the cluster trusts.
    pub fn url(&self) -> String {
        self.url_of(&self.name)
    }

    fn url_of(&self, name: &str) -> String {
        format!("postgres://postgres@/{name}?host={}", percent_encoded(&self.sockets))
    }

    /// The same database, which is not dropped with this value.
    pub fn same(&self) -> Self {
        Self::of(self.sockets.clone(), &self.name)
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.url(), NoTls).unwrap()
    }

    pub fn sql(&self, sql: &str) {
        self.execute(sql);
    }

    fn execute(&self, sql: &str) -> Vec<SimpleQueryMessage> {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = session.take().map(|mut client| (client.simple_query(sql), client));
        let (result, mut client) = match kept {
            Some((Err(error), _)) if has_ended(&error) => self.execute_in_new(sql),
            Some(kept) => kept,
            None => self.execute_in_new(sql),
        };
        // Only a new session begins with these.
        let changes = ["ALTER DATABASE", "ALTER ROLE"].iter().any(|change| sql.contains(change));
        if !changes && client.batch_execute("DISCARD ALL").is_ok() {
            *session = Some(client);
        }
        result.unwrap()
    }

    fn execute_in_new(&self, sql: &str) -> (Result<Vec<SimpleQueryMessage>, Error>, Client) {
        let mut client = self.client();
        (client.simple_query(sql), client)
    }

    /// The rows of a query, `|` between columns as psql -At has it.
    pub fn query(&self, sql: &str) -> String {
        rows(&self.execute(sql))
    }

    /// Makes the schema of the newest pgmq; false if its SQL cannot be had.
    #[must_use = "a test without pgmq is skipped"]
    pub fn install_pgmq(&self) -> bool {
        self.install_pgmq_version(Pgmq::Newest)
    }

    /// The same of another version.
    #[must_use = "a test without pgmq is skipped"]
    pub fn install_pgmq_version(&self, version: Pgmq) -> bool {
        pgmq_sql(version).inspect(|sql| self.sql(sql)).is_some()
    }
}

/// Hundreds of databases of 7 MB would fill a small /tmp, and take long to remove. A server that is
/// down, or sessions that cannot be ended, are the business of the test.
impl Drop for Database {
    fn drop(&mut self) {
        if self.drops
            && let Ok(mut client) = Client::connect(&self.url_of("postgres"), NoTls)
        {
            let _ = client.batch_execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
        }
    }
}

/// The versions of pgmq that the tests run against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pgmq {
    /// Without headers.
    V1_4_4,
    /// With headers, but without a function that hides a message until an instant.
    V1_5_1,
    Newest,
}

impl Pgmq {
    pub fn has_headers(self) -> bool {
        self != Self::V1_4_4
    }

    /// The upgrade scripts that lead to an old version.
    fn upgrades(self) -> &'static [&'static str] {
        let all = &[
            "1.1.1--1.2.0",
            "1.2.0--1.2.1",
            "1.3.3--1.4.0",
            "1.4.0--1.4.1",
            "1.4.1--1.4.2",
            "1.4.2--1.4.3",
            "1.4.3--1.4.4",
            "1.4.4--1.4.5",
            "1.4.5--1.5.0",
            "1.5.0--1.5.1",
        ];
        match self {
            Self::V1_4_4 => &all[..7],
            Self::V1_5_1 => all,
            Self::Newest => &[],
        }
    }
}

/// Old versions add the tables of a queue to the extension, and here is no extension.
const WITHOUT_EXTENSION: &str = "CREATE OR REPLACE FUNCTION pgmq._belongs_to_pgmq(table_name text) \
                                 RETURNS boolean LANGUAGE sql AS 'SELECT true'";

/// The SQL that makes pgmq. It comes with the crate of the same name, which is a dependency of the
/// tests for these files only.
fn pgmq_sql(version: Pgmq) -> Option<String> {
    let read = || match version.upgrades() {
        [] => read_pgmq_sql("pgmq.sql"),
        upgrades => {
            let base = include_str!("../pgmq-1.1.1.sql").into();
            let upgrades =
                upgrades.iter().map(|upgrade| read_pgmq_sql(&format!("pgmq--{upgrade}.sql")));
            let parts = iter::once(Ok(base)).chain(upgrades);
            let parts: Result<Vec<String>, String> = parts.collect();
            Ok(parts?.join("\n") + WITHOUT_EXTENSION)
        }
    };
    read().map_err(|why| skipped("pgmq", &why)).ok()
}

/// `cargo metadata` of this machine's build, as JSON, and its complaints.
pub fn cargo_metadata() -> Result<Output, String> {
    // Without a platform, cargo asks for the crates of all platforms, which are not here.
    Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--locked", "--format-version=1"])
        .args(["--filter-platform=host-tuple", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .map_err(|error| format!("could not run cargo: {error}"))
}

fn read_pgmq_sql(name: &str) -> Result<String, String> {
    static DIR: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let path = DIR.get_or_init(pgmq_sql_dir).clone()?.join(name);
    fs::read_to_string(&path).map_err(|error| format!("could not read {}: {error}", path.display()))
}

fn pgmq_sql_dir() -> Result<PathBuf, String> {
    let metadata = cargo_metadata()?;
    let json = String::from_utf8_lossy(&metadata.stdout);
    let crate_dir =
        json.split('"').filter_map(|path| path.strip_suffix("/Cargo.toml")).find(|dir| {
            dir.rsplit('/').next().is_some_and(|name| name == "pgmq" || name.starts_with("pgmq-"))
        });
    let crate_dir = crate_dir.ok_or_else(|| {
        format!("no crate pgmq in cargo metadata: {}", String::from_utf8_lossy(&metadata.stderr))
    })?;
    Ok(Path::new(crate_dir).join("src/install/embedded/sql"))
}

/// PgBouncer in front of a cluster. It pools transactions, on four connections for each database.
pub fn pgbouncer(cluster: &Cluster) -> Option<PgBouncer> {
    pgbouncer_with(cluster, &[])
}

/// The same with `SETTING=VALUE`s of its own.
pub fn pgbouncer_with(cluster: &Cluster, settings: &[&str]) -> Option<PgBouncer> {
    let args = [&[cluster.dir.to_str().unwrap()], settings].concat();
    let server = Server::start("pgbouncer-pool", &args);
    let server = server.map_err(|why| skipped("PgBouncer", &why)).ok()?;
    Some(PgBouncer { server })
}

pub struct PgBouncer {
    server: Server,
}

impl PgBouncer {
    /// The same database by way of the pool.
    pub fn database(&self, database: &Database) -> Database {
        Database::of(self.server.dir.clone(), &database.name)
    }
}

/// A script that runs a server in a directory of its own. When its standard input ends it stops
/// the server and removes the directory, so that a killed test leaves nothing.
struct Server {
    dir: PathBuf,
    script: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Server {
    fn start(script: &str, args: &[&str]) -> Result<Self, String> {
        // The path of a socket must be short, which that of TMPDIR need not be.
        let dir = tempfile::Builder::new().prefix("backlog-").tempdir_in("/tmp");
        let dir = dir.map_err(|error| format!("could not make a directory: {error}"))?.keep();
        let mut script = Command::new(format!("{}/{script}", env!("CARGO_MANIFEST_DIR")))
            .arg(&dir)
            .args(args)
            // Ctrl-C is for the tests. Their end then ends the server.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("could not run {script}: {error}"))?;
        let commands = script.stdin.take();
        let answers = BufReader::new(script.stdout.take().unwrap());
        let mut server = Self { dir, script, commands, answers };
        match server.answer() {
            ready if ready == "ready" => Ok(server),
            why => Err(why),
        }
    }

    fn tell(&mut self, command: &str) -> String {
        writeln!(self.commands.as_ref().unwrap(), "{command}").unwrap();
        self.answer()
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().into()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.commands.take());
        let _ = self.script.wait();
    }
}

/// True if a session had ended before it got a statement.
fn has_ended(error: &Error) -> bool {
    error.code().is_none_or(|code| code.code().starts_with("57P"))
}

fn rows(messages: &[SimpleQueryMessage]) -> String {
    let rows = messages.iter().filter_map(|message| {
        let SimpleQueryMessage::Row(row) = message else { return None };
        let cells = (0..row.len()).map(|column| row.get(column).unwrap_or_default());
        Some(cells.collect::<Vec<_>>().join("|"))
    });
    rows.collect::<Vec<_>>().join("\n")
}

fn percent_encoded(path: &Path) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).into(),
        _ => format!("%{byte:02X}"),
    };
    path.as_os_str().as_encoded_bytes().iter().copied().map(encode).collect()
}

/// Says once that something could not be tested here, past the harness, which swallows what a
/// passing test prints with a macro.
fn skipped(what: &str, why: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let required = std::env::var_os("BACKLOG_REQUIRE_PG").is_some_and(|value| value == "1");
    assert!(!required, "BACKLOG_REQUIRE_PG=1, but no {what}: {why}");
    let line = format!("SKIPPED: {what}: {why}\n");
    if SAID.lock().unwrap().insert(line.clone()) {
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
}
