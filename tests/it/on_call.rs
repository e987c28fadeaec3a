//! The symptoms of docs/on-call.md: each is brought about, and is as the page says.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use test_support::server::{Answer, Server};

use crate::testenv::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_backlog");
const PAGE: &str = include_str!("../../docs/on-call.md");

#[test]
fn each_symptom_of_the_page_has_its_test() {
    let mut name = |heading: &str| {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
        let words: String = heading.chars().map(letter).collect();
        words.split_whitespace().collect::<Vec<_>>().join("_")
    };
    let symptoms = PAGE.split("\n## ").filter(|section| section.starts_with("Symptoms: "));
    let headings = symptoms.flat_map(str::lines).filter_map(|line| line.strip_prefix("### "));
    let names: Vec<_> = headings.map(&mut name).collect();
    assert!(names.len() >= 25, "{names:?}");
    let tests = Command::new(std::env::current_exe().unwrap()).args(["--list", "on_call::"]).ran();
    for name in names {
        assert_contains(&tests.stdout, &format!("on_call::{name}: test\n"));
    }
}

/// Fails unless the page quotes a message, `...` standing for what varies, and a line of the output is it.
#[track_caller]
fn says(output: &str, message: &str) {
    let page = PAGE.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains(message), "the page does not quote {message:?}");
    let has_all = |line: &str| {
        let mut parts = message.split("...");
        parts.try_fold(line, |rest, part| Some(rest.split_once(part)?.1)).is_some()
    };
    assert!(output.lines().any(has_all), "{message:?} is not in:\n{output}");
}

#[test]
fn nothing_runs() {
    let env = one_record();
    let status = || env.run_at(MIDNIGHT + 60, "status --ndays 1").success().stdout;
    assert_lacks(&status(), "last pass");
    env.pass("--ndays 1 -- true").silent();
    let status = status();
    let last = status.lines().last().unwrap();
    assert!(last.starts_with("last pass 2026-11-21T00:00:00Z, 1 m ago"), "{status}");
    assert!(last.ends_with(": 1 succeeded"), "{status}");
}

#[test]
fn it_works_at_a_terminal_but_not_under_cron() {
    let env = one_record();
    env.script("sync-order", "true");
    fs::create_dir(env.path("home")).unwrap();
    let as_cron = |line: &str| {
        let mut command = Command::new("/usr/bin/env");
        command.args(["-i", "PATH=/usr/bin:/bin", "/bin/sh", "-c", line]);
        command.env("HOME", env.path("home")).current_dir(env.path("home")).ran()
    };
    let options = "--ndays 36500 -- ./sync-order";
    as_cron(&format!("{PROGRAM} process {options}")).fails(2, &["no database"]);
    let with_database = format!("{PROGRAM} process --db {} {options}", env.db().display());
    as_cron(&with_database).fails(1, &["could not run ./sync-order"]);
    let printed = env.run("crontab --ndays 36500 -- ./sync-order").success().stdout;
    let line = printed.lines().last().unwrap();
    let (_, command) = line.split_once(&format!(" {PROGRAM} ")).unwrap();
    as_cron(&format!("{PROGRAM} {command}")).silent();
    assert_eq!(env.statuses(), "7|SUCCESS");
}

#[test]
fn cron_sends_no_mail() {
    let env = one_record();
    env.pass("--ndays 1 -- false").silent();
    assert_eq!(env.count("ERROR"), 1);
    assert!(env.pass("--ndays 1 -v -- false").success().stderr.contains("failed, will retry"));
    assert_eq!(env.pass("--ndays 1 --strict -- false").exit, Some(1));
    env.pass("--ndays 1 --max-attempts 1 -- false")
        .fails(1, &["record 7 failed after 3 attempts; archived"]);
}

#[test]
fn a_record_is_not_tried() {
    let env = one_record();
    env.insert_one(8, MIDNIGHT - 30 * 24 * HOUR);
    env.insert_one(9, MIDNIGHT - 60);
    env.sql("UPDATE BACKLOG SET DATE_INSERTED = 'soon' WHERE ID = 9");
    let listed = env.pass("--ndays 1 --dry-run -- true").success().stdout;
    assert_eq!(listed.lines().count(), 3, "{listed}");
    let listed = env.pass("--ndays 1 --dry-run --where 'ID <> 8' -- true").success().stdout;
    assert_eq!(listed.lines().count(), 2, "{listed}");
    env.run("archive 7").success();
    assert_contains(&env.run_at(MIDNIGHT, "explain 7").success().stdout, "not tried: is ARCHIVED");
}

#[test]
fn nothing_is_due() {
    let env = one_record();
    let status = "status={new=\"open\",error=\"failed\",success=\"done\"}";
    let ran = env.pass(&format!("--ndays 1 -v --set {} -- true", quoted(status)));
    says(&ran.stderr, "have a status that is not mapped");
    assert_contains(&ran.stderr, "'NEW'");
    let first = env.run("status").success().stdout;
    assert_contains(first.lines().next().unwrap(), &env.path_text("test.db"));
}

#[test]
fn a_record_is_handled_twice() {
    let env = one_record();
    let handler = env.noting("exit 1");
    env.pass(&format!("--ndays 1 -- {handler}")).silent();
    env.pass(&format!("--ndays 1 -- {handler}")).silent();
    assert_eq!(env.handled(), ["7", "7"]);
    env.write("backlog.toml", "[queue.a]\n[queue.b]\nid = 'PAYLOAD'\n");
    assert_contains(&env.run("check --queue a").stdout, "neither sees the claims of the other");
}

#[test]
fn records_become_success_although_nothing_was_done() {
    let env = one_record();
    env.pass("--ndays 1 -- sh -c 'false; true | cat'").silent();
    assert_eq!(env.statuses(), "7|SUCCESS");
    for script in ["sh -c 'set -e; false; true'", "bash -c 'set -eo pipefail; false | cat'"] {
        let env = one_record();
        env.pass(&format!("--ndays 1 -- {script}")).silent();
        assert_eq!(env.statuses(), "7|ERROR");
    }
}

#[test]
fn last_error_does_not_say_why() {
    let env = one_record();
    let handler = "echo no route >&2; echo to host >&2; echo giving up >&2; exit 1";
    env.pass(&format!("--ndays 1 --joblog log -- {}", sh(handler))).silent();
    assert_eq!(env.query("SELECT LAST_ERROR FROM BACKLOG"), "giving up");
    assert_eq!(json(&env.read("log"))["stderr"], "no route\nto host\ngiving up");
    let record = json(&env.run("show 7 --json").success().stdout);
    assert_eq!((&record["ID"], &record["STATUS"]), (&7.into(), &"ERROR".into()));
}

#[test]
fn the_handler_succeeded_but_the_record_is_pending() {
    let env = one_record();
    let trigger = "CREATE TRIGGER no BEFORE UPDATE ON BACKLOG BEGIN SELECT raise(ABORT, 'no'); END";
    let handler = env.script("handler", &format!("sqlite3 test.db \"{trigger}\""));
    let ran = env.pass(&format!("--ndays 1 --max-runtime 1s -- {handler}"));
    says(&ran.stderr, "record ... could not be set to SUCCESS: ...; its handler succeeded");
    assert_eq!(env.count("SUCCESS"), 0);
    let found = env.run_at(MIDNIGHT, "check --rehearse --ndays 1").stdout;
    assert_contains(&found, "record 7 (ERROR) would not be tried: ");
}

#[test]
fn every_record_fails() {
    let env = records(5);
    let handler = "-- sh -c 'echo no route >&2; exit 1'";
    env.pass(&format!("--fibonacci --max-consecutive-failures 2 {handler}"))
        .fails(1, &["2 attempts failed in a row, the last one: "]);
    assert_eq!((env.count("ERROR"), env.count("NEW")), (2, 3));
    let groups = env.run("failures --json").success().stdout;
    let group = json(groups.lines().next().unwrap());
    let retry = format!("retry --failure {}", group["group"].as_str().unwrap());
    env.run_at(MIDNIGHT, &retry).success();
    env.pass("--fibonacci -- true").silent();
    assert_eq!(env.count("SUCCESS"), 5);
}

/// The lines of a simulation.
fn simulated(args: &str) -> Vec<String> {
    let ran = TestEnv::empty().run(&format!("simulate {args}")).success();
    ran.stdout.lines().map(String::from).collect()
}

#[test]
fn retries_come_later_than_the_schedule_says() {
    let attempts = simulated("--fibonacci --every 1h --records 1 --for 9h --jsonl");
    let delays = attempts.iter().skip(1).map(|line| json(line)["delay"].as_i64().unwrap());
    assert_eq!(delays.clone().next(), Some(HOUR), "not a minute");
    assert!(delays.clone().all(|delay| delay % HOUR == 0), "{attempts:?}");
}

#[test]
fn all_records_are_retried_in_the_same_minute() {
    let idle_minutes = |args: &str| {
        simulated(args)[1].split_whitespace().rev().nth(3).unwrap().parse::<u32>().unwrap()
    };
    assert!(idle_minutes("--fibonacci") > 100, "of 120");
    for spread in ["--policy fibonacci", "--policy even", "--fibonacci --spread 100%"] {
        assert_eq!(idle_minutes(spread), 0, "{spread:?}");
    }
}

#[test]
fn dates_are_hours_off() {
    let env = TestEnv::new();
    env.sql("INSERT INTO BACKLOG (ID, DATE_INSERTED) VALUES (1, '2026-11-20 23:30:00')");
    let listed = |more: &str| env.run(&format!("list --json {more}")).success().stdout;
    assert!(listed("").contains("\"2026-11-20T23:30:00Z\""), "{}", listed(""));
    let zone = "date_inserted={column=\"DATE_INSERTED\",zone=\"+01:00\"}";
    let listed = listed(&format!("--set {}", quoted(zone)));
    assert_contains(&listed, "\"2026-11-20T22:30:00Z\"");
}

#[test]
fn passes_take_longer_every_week() {
    let env = TestEnv::with_schema("CREATE TABLE BACKLOG (ID INTEGER, STATUS, DATE_INSERTED)");
    let found = env.run("check").stdout;
    says(&found, "no index finds pending records: the whole table is read for that");
    for statement in found.lines().filter(|line| line.trim().starts_with("CREATE ")) {
        env.sql(statement);
    }
    assert_lacks(&env.run("check").stdout, "no index finds");
}

#[test]
fn a_pass_hangs() {
    let env = one_record();
    let staying = env.staying();
    let line = format!("process --fibonacci --timeout 1h --grace 0s --now @{MIDNIGHT}");
    let mut pass = env.spawn(&format!("{line} -- {}", sh(&staying.script)));
    staying.wait_for_begin();
    let status = env.run_at(MIDNIGHT + 2 * HOUR + 1, "status").success().stdout;
    says(&status, "running since ...: it hangs");
    assert!(signal("-TERM", pass.id()));
    assert_eq!(pass.wait().unwrap().code(), Some(143));
    env.run_at(MIDNIGHT + 3 * HOUR, "process --fibonacci -- true").silent();
    assert_eq!(env.statuses(), "7|SUCCESS");
}

#[test]
fn the_database_is_locked() {
    let env = one_record();
    env.sql("PRAGMA journal_mode = delete");
    let connection = env.connection();
    connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let ran = env.pass("--ndays 1 --max-runtime 1s -- true").exits(75);
    says(&ran.stderr, "another process keeps it locked; try later");
}

#[test]
fn it_works_for_one_user_but_not_for_another() {
    let env = one_record();
    env.run("list").success();
    fs::set_permissions(env.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", PROGRAM, "list"]);
    let output = command.env("BACKLOG_DB", env.db()).output();
    match output.map(|output| ran(&output)) {
        Ok(ran) if ran.stderr.contains("backlog: ") => assert_eq!(ran.exit, Some(1), "{ran:?}"),
        _ => skipped("a command of another user: this user cannot become one"),
    }
}

#[test]
fn psql_shows_rows_that_backlog_does_not_see() {
    let Some(database) = database() else { return };
    database.sql(POSTGRES_SCHEMA);
    let role = "IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'reader') THEN CREATE ROLE \
                reader LOGIN; END IF";
    database.sql(&format!("DO $$ BEGIN {role}; EXCEPTION WHEN OTHERS THEN NULL; END $$"));
    database.sql(
        "INSERT INTO backlog DEFAULT VALUES; ALTER TABLE backlog ENABLE ROW LEVEL SECURITY; \
         GRANT ALL ON backlog TO reader",
    );
    let url = database.url().replace("postgres@", "reader@");
    let found = TestEnv::empty().run(&format!("check --db {url}")).stdout;
    says(&found, "row level security is active on table ... for ...");
}

#[test]
fn a_co_process_gets_records_and_does_not_answer() {
    let env = one_record();
    let ran = env.pass("--ndays 1 --stream --timeout 11s --grace 0s -- sleep 60");
    says(
        &ran.stderr,
        "no reply yet to ... after ...: does the handler speak the protocol, and flush its output?",
    );
}

#[test]
fn a_receiver_gets_the_same_event_twice() {
    let env = one_record();
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let keys = [Answer::default().close(), Answer::new("200 OK", &[], "")].map(|answer| {
        let server = Server::new(&[("/", answer)]);
        let args = format!("process --ndays 1 --now @{MIDNIGHT} --post {}", server.url("/"));
        env.command(&args).env("BACKLOG_WEBHOOK_SECRET", secret).output().unwrap();
        let request = server.received().pop().unwrap();
        ["idempotency-key", "webhook-id"].map(|name| request.header(name).unwrap().to_string())
    });
    assert_eq!(keys[0], keys[1]);
    assert_eq!(env.statuses(), "7|SUCCESS");
}

#[test]
fn records_were_given_up() {
    let env = one_record();
    env.pass("--ndays 1 --max-attempts 1 -- sh -c 'echo HTTP 410 Gone >&2; exit 1'")
        .fails(1, &["record 7 failed", "archived"]);
    assert_contains(&env.run("failures --status ARCHIVED").success().stdout, "HTTP 410 Gone");
    env.run_at(MIDNIGHT, "restore --failure 'HTTP 410'").success();
    assert_eq!(env.statuses(), "7|NEW");
}

#[test]
fn a_pass_was_killed() {
    let env = one_record();
    let staying = env.staying();
    let line = format!("process --fibonacci --now @{MIDNIGHT} -- {}", sh(&staying.script));
    let mut killed = env.spawn(&line);
    staying.wait_for_begin();
    env.kill(&mut killed);
    assert_contains(&env.run_at(MIDNIGHT + 1, "status").success().stdout, ": killed (pid ");
    says(&env.query("SELECT LAST_ERROR FROM BACKLOG"), "attempt ... has not reported back");
    assert_eq!(env.query("SELECT FAILURES FROM BACKLOG"), "1");
    env.run_at(MIDNIGHT + 1, "retry 7").success();
    // The handler succeeds once the first one is dead.
    env.run_at(MIDNIGHT + 1, &format!("process --fibonacci -- {}", sh(&staying.is_dead))).silent();
    assert_eq!(env.statuses(), "7|SUCCESS");
}

#[test]
fn the_disk_is_full() {
    let env = TestEnv::empty();
    let on_a_small_disk = "mount -t tmpfs -o size=400k,mode=755 none $PWD && cd $PWD || exit
        export BACKLOG_DB=test.db
        $program init >/dev/null; echo 7 | $program add -
        $program process --ndays 1 --max-runtime 3s -- sh -c 'cat /dev/zero >big; true' || echo $?
        rm big; $program process --ndays 1 -- true; $program list --status SUCCESS";
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", on_a_small_disk]);
    let ran = command.env("program", PROGRAM).current_dir(env.path("")).ran();
    if ran.stderr.contains("unshare") || ran.stderr.contains("mount: ") {
        return skipped(&format!("a full disk: {}", ran.stderr));
    }
    says(&ran.stderr, "database or disk is full");
    assert!(ran.stdout.contains("\n1\n") && ran.stdout.contains("SUCCESS"), "{ran:?}");
}

#[test]
fn move_to_another_machine() {
    let env = one_record();
    env.pass("--ndays 1 -- false").silent();
    let there = TestEnv::empty();
    let backup = format!(".backup {}", there.db().display());
    Command::new("sqlite3").arg(env.db()).arg(backup).status().unwrap();
    there.pass("--ndays 1 -- true").silent();
    assert_eq!(there.statuses(), "7|SUCCESS");
}

#[test]
fn restore_a_backup() {
    let env = one_record();
    let copy = env.path("copy.db");
    Command::new("sqlite3")
        .arg(env.db())
        .arg(format!(".backup {}", copy.display()))
        .status()
        .unwrap();
    env.pass("--ndays 1 --joblog log -- true").silent();
    env.run_at(MIDNIGHT, "pause").success();
    fs::copy(&copy, env.db()).unwrap();
    for beside in ["test.db-wal", "test.db-shm"] {
        let _ = fs::remove_file(env.path(beside));
    }
    env.pass("--ndays 1 -- true").silent();
    assert_eq!(env.statuses(), "7|NEW");
    env.run_at(MIDNIGHT, "resume").success();
    env.pass(&format!("--ndays 1 -- {}", env.noting("exit 0"))).silent();
    assert_eq!(env.handled(), ["7"]);
    assert!(env.read("log").contains("\"outcome\":\"success\""));
}
