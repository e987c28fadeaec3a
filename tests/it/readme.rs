//! The README: every command in it is run.

use std::process::Command;

use crate::testenv::{Ran, TestEnv, ran, skipped};
use test_support::cluster::cluster;
use test_support::server::{Answer, Server};

const README: &str = include_str!("../../README.md");

/// The shell blocks of the README, but for those that need a server.
fn blocks() -> Vec<&'static str> {
    all_blocks().filter(|block| !block.contains(SERVER)).collect()
}

fn all_blocks() -> impl Iterator<Item = &'static str> {
    let blocks = README.split("```sh\n").skip(1);
    blocks.map(|block| block.split_once("```").unwrap().0)
}

/// The server that the README names.
const SERVER: &str = "postgres://worker@db.example.com/app";

/// A directory in which the README's commands find what they name.
fn env() -> TestEnv {
    let env = TestEnv::empty();
    std::fs::create_dir_all(env.path("target/release")).unwrap();
    std::fs::create_dir(env.path("bin")).unwrap();
    let program = env!("CARGO_BIN_EXE_backlog");
    std::os::unix::fs::symlink(program, env.path("target/release/backlog")).unwrap();
    // The program is built already, and there is no network.
    env.script("bin/cargo", "[ \"$*\" = 'build --release' ]");
    env.script(
        "bin/curl",
        "cat >>posted; echo \"$4\" | grep -q '^https://example.com/orders/[0-9]*$'",
    );
    env.script("sync-order", "exit 0");
    std::os::unix::fs::symlink(
        concat!(env!("CARGO_MANIFEST_DIR"), "/examples"),
        env.path("examples"),
    )
    .unwrap();
    std::fs::write(env.path("orders.jsonl"), "{\"order\": 1}\n{\"order\": 2}\n").unwrap();
    std::fs::write(env.path("schema.sql"), include_str!("../../schema.sql")).unwrap();
    std::fs::write(env.path("backlog.toml"), described(&env)).unwrap();
    let app = rusqlite::Connection::open(env.path("app.db")).unwrap();
    app.execute_batch(
        "CREATE TABLE post_office_email (id INTEGER PRIMARY KEY, status SMALLINT, created DATETIME, last_updated DATETIME, scheduled_time DATETIME, number_of_retries INT);
         CREATE TABLE OutboxMessage (Id TEXT PRIMARY KEY, OccurredOn TEXT, ProcessedOn TEXT);
         INSERT INTO post_office_email VALUES (1, 2, '2026-11-20 10:00:00', '2026-11-20 10:00:00', NULL, NULL);
         INSERT INTO OutboxMessage VALUES ('6f1c3b1e', '2026-11-20T10:00:00Z', NULL)",
    )
    .unwrap();
    env
}

/// The README's backlog.toml, with paths that there are here.
fn described(env: &TestEnv) -> String {
    let (_, block) = README.split_once("```toml\n").unwrap();
    let handler = env.path("sync-order").display().to_string();
    let (block, _) = block.split_once("```").unwrap();
    block
        .replace("/srv/app/app.db", "app.db")
        .replace("/usr/local/bin/send-email", &handler)
        .replace("/usr/local/bin/publish", &handler)
}

fn shell(env: &TestEnv, script: &str) -> Ran {
    let path = format!("{0}/bin:{0}/target/release:/usr/bin:/bin", env.path("").display());
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(env.path("")).env("PATH", path);
    ran(&command.env("BACKLOG_DB", env.path("demo.db")).output().unwrap())
}

#[test]
fn the_first_command_does_the_main_job() {
    let first = README.lines().take(15).collect::<Vec<_>>().join("\n");
    assert!(first.contains(blocks()[0]), "within the first 15 lines");
    assert!(first.contains("`tests/run`"));
    let env = env();
    let ran = shell(&env, blocks()[0]).success();
    assert!(
        ran.stdout.starts_with("created table BACKLOG in demo.db\nadded 9 records\n"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("\nERROR        2 "), "{}", ran.stdout);
    assert!(ran.stdout.contains("\nSUCCESS      7 "), "{}", ran.stdout);
    assert!(ran.stdout.contains("due now         2 (--ndays 1)"), "{}", ran.stdout);
    // Of each of the two, and as the cause of both.
    assert_eq!(ran.stdout.matches("no route to host").count(), 3, "{}", ran.stdout);
}

#[test]
fn every_command_does_what_it_says() {
    let env = env();
    shell(&env, blocks()[0]).success();
    let hooks = Server::new(&[("/", Answer::new("200 OK", &[], ""))]);
    let here = hooks.url("/");
    let mut commands = 0;
    let blocks: Vec<_> = blocks()[1..].iter().map(|block| block.replace("\\\n", "")).collect();
    // What a block changes in the environment counts in each of its lines.
    let with_environment = |block: &String| {
        let unset = if block.starts_with("unset BACKLOG_DB") { "unset BACKLOG_DB; " } else { "" };
        block.lines().map(|line| format!("{unset}{line}")).collect::<Vec<_>>()
    };
    for line in blocks.iter().flat_map(with_environment) {
        let line = line.as_str();
        if line.starts_with("sqlite3") && Command::new("sqlite3").arg("-version").output().is_err()
        {
            skipped("the README's sqlite3 command: there is no sqlite3");
            shell(&env, "backlog init --db shop.db").success();
            continue;
        }
        let line = line.replace("https://example.com/hooks/{id}", &here);
        let ran = shell(&env, &line.replace("https://example.com/hooks", &here)).success();
        assert_eq!(ran.stderr, "", "{line}");
        commands += 1;
    }
    assert!(commands >= 20, "{commands}");
    let app = rusqlite::Connection::open(env.path("app.db")).unwrap();
    let sent = "SELECT status FROM post_office_email";
    assert_eq!(app.query_row(sent, [], |row| row.get(0)), Ok(0), "the queues were worked off");
    let posted = std::fs::read_to_string(env.path("posted")).unwrap_or_default();
    assert_eq!(posted, "", "everything was done before curl's turn");
    // So give it something to do.
    shell(&env, "backlog add '{\"order\":4}'").success();
    let curl =
        blocks.iter().flat_map(|block| block.lines()).find(|line| line.contains("curl")).unwrap();
    shell(&env, curl).success();
    let posted = std::fs::read_to_string(env.path("posted")).unwrap();
    assert!(posted.contains(r#""PAYLOAD":"{\"order\":4}""#), "{posted}");
    for line in blocks.iter().flat_map(|block| block.lines()).filter(|it| it.contains("--post")) {
        shell(&env, "backlog add '{\"order\":4}'").success();
        let line = line.replace("https://example.com/hooks/{id}", &here);
        shell(&env, &line.replace("https://example.com/hooks", &here)).success();
    }
    assert_eq!(hooks.received().len(), 2);
    assert_eq!(shell(&env, "backlog list --status SUCCESS | wc -l").success().stdout.trim(), "13");
    assert_eq!(shell(&env, "backlog list --db shop.db | wc -l").success().stdout.trim(), "5");
    let drawn = std::fs::read_to_string(env.path("load.svg")).unwrap();
    assert!(drawn == include_str!("../../docs/load.svg"), "the picture is not the command's");
}

#[test]
fn the_handlers_that_it_describes_are_legal() {
    let env = TestEnv::new();
    let described = README.split("```toml\n").nth(2).unwrap();
    let described = described.split("```").next().unwrap();
    std::fs::write(env.path("backlog.toml"), described).unwrap();
    env.sql("CREATE TABLE webhook AS SELECT *, 'example.com' AS host FROM BACKLOG");
    for queue in ["hooks", "sync"] {
        let ran = env.run(&["crontab", "--queue", queue]).success();
        assert!(ran.stdout.contains(&format!("--queue {queue}")), "{}", ran.stdout);
        env.run(&["process", "--queue", queue, "--dry-run"]).silent();
    }
}

#[test]
fn what_it_says_of_a_server_is_so() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    if !database.install_pgmq() {
        return;
    }
    let mut commands = 0;
    for block in all_blocks().filter(|block| block.contains(SERVER)) {
        let env = env();
        std::fs::remove_file(env.path("backlog.toml")).unwrap();
        let block = block.replace(SERVER, &format!("'{}'", database.url()));
        let state = env.path("state").display().to_string();
        let script = format!("set -e; export XDG_STATE_HOME={state}\n{block}");
        let ran = shell(&env, &script).success();
        assert_eq!(ran.stderr, "", "{block}");
        commands += block.lines().count();
    }
    assert!(commands > 10, "{commands}");
    assert_eq!(database.query("SELECT DISTINCT status FROM backlog"), "SUCCESS");
    assert_eq!(database.query("SELECT count(*) FROM pgmq.a_emails"), "1");
}
