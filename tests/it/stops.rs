//! Passes that lose what they depend on: the database, the state directory, the
//! server, the time that it has, the terminal that it was started from.

use std::fs;
use std::process::Child;
use std::time::Duration;

use crate::testenv::*;
use test_support::cluster::Cluster;

const HOUR_AGO: i64 = MIDNIGHT - 3_600;

/// True, but only after longer than anybody waits, once the table `flag` has a row.
const ENDLESS: &str = "(SELECT CASE WHEN EXISTS (SELECT 1 FROM flag) THEN (WITH RECURSIVE n(i) AS \
    (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) > 0 FROM n) ELSE 1 END)";
/// The same for PostgreSQL.
const ASLEEP: &str = "(SELECT CASE WHEN EXISTS (SELECT 1 FROM flag) \
    THEN pg_sleep(10000) IS NOT NULL ELSE true END)";

fn now() -> String {
    format!("@{MIDNIGHT}")
}

/// A handler that changes the ground when it gets the newest record, and then succeeds.
fn breaking(env: &TestEnv, records: i64, how: &str) -> String {
    env.noting(&format!("[ $BACKLOG_ID != {records} ] || {{ {how}; }}"))
}

#[test]
fn a_database_that_goes_during_a_pass_ends_it_before_another_handler_runs() {
    let lost = "the handler succeeded for these records, but the table could not be updated";
    for (how, says) in [
        ("mv test.db elsewhere.db", "test.db was moved or removed while the pass ran"),
        ("rm test.db", "test.db was moved or removed while the pass ran"),
        ("cp test.db copy.db && mv copy.db test.db", "test.db was replaced while the pass ran"),
    ] {
        let env = TestEnv::with_records(4, HOUR_AGO);
        env.pass(&format!("--ndays 1 -- {}", breaking(&env, 4, how))).fails(1, &[says, lost]);
        assert_eq!(env.handled(), ["4"], "{how}");
    }
}

/// Other passes would not see what is claimed; the outcomes are written all the same.
#[test]
fn a_state_directory_that_goes_during_a_pass_ends_it_before_another_handler_runs() {
    for how in ["rm -r test.db.backlog", "mv test.db.backlog elsewhere", "rm test.db.backlog/*"] {
        let env = TestEnv::with_records(4, HOUR_AGO);
        let handler = breaking(&env, 4, how);
        let says = ["was moved, replaced or removed while the pass ran"];
        env.pass(&format!("--ndays 1 -- {handler}")).fails(1, &says);
        assert_eq!(env.handled(), ["4"], "{how}");
        assert_eq!(env.statuses(), "1|NEW\n2|NEW\n3|NEW\n4|SUCCESS");
    }
}

#[test]
fn a_database_with_two_names_is_refused() {
    let env = TestEnv::with_records(1, HOUR_AGO);
    fs::hard_link(env.db(), env.path("other.db")).unwrap();
    env.pass("--ndays 1 -- true").fails(1, &["the file has 2 names (hard links)", "keep one"]);
    env.run("status").success();
    assert_eq!(env.count("NEW"), 1);
}

#[test]
fn a_search_that_does_not_end_ends_with_the_time_of_the_pass() {
    let env = TestEnv::with_records(1, HOUR_AGO);
    env.sql("CREATE TABLE flag AS SELECT 1");
    let args = format!("process --ndays 1 --max-runtime 1s --where {} -- true", quoted(ENDLESS));
    let says = ["the search for due records did not end within --max-runtime", "interrupted"];
    env.run_at(MIDNIGHT, &args).fails(1, &says);
}

#[test]
fn a_pass_that_did_nothing_but_wait_for_a_lock_says_so() {
    let env = TestEnv::with_records(1, HOUR_AGO);
    let args = "process --ndays 1 --max-runtime 1s -- true";
    let other = env.connection();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    env.run_at(MIDNIGHT, args).fails(75, &["another process keeps it locked; try later"]);
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(env.count("NEW"), 1);
    env.run_at(MIDNIGHT, args).silent();
    assert_eq!(env.count("SUCCESS"), 1);
}

/// The condition is asked again when a record is claimed.
#[test]
fn a_claim_that_does_not_end_is_ended_by_a_signal_and_loses_no_outcome() {
    for (name, exit) in [("-TERM", 143), ("-INT", 130), ("-HUP", 129)] {
        let env = TestEnv::with_records(3, HOUR_AGO);
        env.sql("CREATE TABLE flag (x)");
        let db = env.path_text("test.db");
        let handler = breaking(&env, 3, &format!("sqlite3 {db} 'INSERT INTO flag VALUES (1)'"));
        let words = format!("process --ndays 1 --where {} -v --now {} --", quoted(ENDLESS), now());
        let mut pass = env.spawn_logging(&format!("{words} {handler}"));
        env.logs("processing record 3");
        wait_until("the flag is set", || env.query("SELECT count(*) FROM flag") == "1");
        assert!(signal(name, pass.id()));
        assert_eq!(pass.wait().unwrap().code(), Some(exit), "{name}");
        assert_eq!(env.statuses(), "1|NEW\n2|NEW\n3|SUCCESS");
    }
}

#[test]
fn a_claim_on_a_server_that_does_not_end_is_ended_as_well() {
    let Some(database) = database() else { return };
    database.sql(POSTGRES_SCHEMA);
    database.sql(
        "CREATE TABLE flag (x int);
         INSERT INTO backlog (date_inserted) SELECT '2026-11-20T23:00:00Z'::timestamptz
         - n * interval '1 s' FROM generate_series(1, 3) n",
    );
    let env = TestEnv::on(&database);
    let flag = format!("psql -q '{}' -c 'INSERT INTO flag VALUES (1)'", database.url());
    let handler = breaking(&env, 1, &flag);
    let words = format!("process --ndays 1 --where {} -v --now {} --", quoted(ASLEEP), now());
    let mut pass = env.spawn_logging(&format!("{words} {handler}"));
    wait_until("the flag is set", || database.query("SELECT count(*) FROM flag") == "1");
    assert!(signal("-TERM", pass.id()));
    assert_eq!(pass.wait().unwrap().code(), Some(143));
    let rows = database.query("SELECT id, status FROM backlog ORDER BY id");
    assert_eq!(rows, "1|SUCCESS\n2|NEW\n3|NEW");
}

/// A server that takes requests and never answers: all its processes stand still.
#[test]
fn a_server_that_hangs_does_not_hold_a_pass_that_is_to_stop() {
    let Some(cluster) = Cluster::private(&[]) else { return };
    let database = cluster.database();
    database.sql(POSTGRES_SCHEMA);
    database.sql("INSERT INTO backlog (date_inserted) VALUES ('2026-11-20T23:00:00Z')");
    let env = TestEnv::on(&database);
    let staying = env.staying();
    let words = format!("process --ndays 1 --grace 0s --now {} --", now());
    let mut pass = env.spawn_logging(&format!("{words} {}", sh(&staying.script)));
    staying.wait_for_begin();
    let backends = database.query("SELECT string_agg(pid::text, ' ') FROM pg_stat_activity");
    for pid in backends.split(' ') {
        signal("-STOP", pid);
    }
    assert!(signal("-TERM", pass.id()));
    assert_ne!(pass.wait().unwrap().code(), Some(0));
    for pid in backends.split(' ') {
        signal("-CONT", pid);
    }
}

#[test]
fn a_hangup_is_heeded_neither_by_a_pass_under_nohup_nor_by_its_handler() {
    let env = TestEnv::with_records(1, HOUR_AGO);
    let pausing = env.pausing();
    let program = env!("CARGO_BIN_EXE_backlog");
    let script = format!("kill -HUP $$; {}", pausing.script);
    let words = format!("process --ndays 1 --now {} -- sh -c {}", now(), quoted(&script));
    let mut nohup = std::process::Command::new("nohup");
    nohup.arg(program).args(words.words()).env("BACKLOG_DB", env.db()).current_dir(env.path("."));
    nohup.stdin(std::process::Stdio::null());
    nohup.stdout(fs::File::create(env.path("out")).unwrap());
    let mut pass = nohup.stderr(fs::File::create(env.path("err")).unwrap()).spawn().unwrap();
    pausing.wait_for_begin();
    assert!(signal("-HUP", pass.id()));
    pausing.let_go();
    assert_eq!(pass.wait().unwrap().code(), Some(0));
    assert_eq!(env.count("SUCCESS"), 1);
}

#[test]
fn a_pass_whose_parent_ignores_the_ends_of_children_knows_how_its_handlers_ended() {
    let env = TestEnv::with_records(2, HOUR_AGO);
    let words = format!("process --ndays 1 --now {} -- sh -c", now());
    let like = env.command(&format!("{words} 'exit $(($BACKLOG_ID - 1))'"));
    let mut ignoring = std::process::Command::new("env");
    ignoring.arg("--ignore-signal=CHLD").arg(like.get_program()).args(like.get_args());
    ignoring.env_clear().envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    ignoring.ran().silent();
    assert_eq!((env.count("SUCCESS"), env.count("ERROR")), (1, 1));
}

#[test]
fn a_queue_whose_statuses_are_mapped_to_nothing_is_said_once_a_day() {
    let env = TestEnv::with_records(3, HOUR_AGO);
    let args = "process --ndays 1 --set status.success=done --set status.archived=gone \
                --set status.new=waiting --set status.error=failed -- true";
    let says = "nothing was due: all 3 rows of table BACKLOG have a status that is not \
                mapped: 'NEW'; map it as status.new";
    assert_contains(&env.run_at(MIDNIGHT, args).success().stderr, says);
    env.run_at(MIDNIGHT + 300, args).silent();
    let told = env.run_at(MIDNIGHT + 86_400, args).success();
    assert_contains(&told.stderr, says);
    // A table that is empty, or worked off, is as it should be.
    let env = TestEnv::new();
    env.pass("--ndays 1 -- true").silent();
    env.insert(1, HOUR_AGO);
    env.sql("UPDATE BACKLOG SET STATUS = 'SUCCESS'");
    env.run_at(MIDNIGHT + 86_400, "process --ndays 1 -- true").silent();
}

#[test]
fn a_lock_that_is_not_released_is_said_at_a_terminal() {
    let env = TestEnv::new();
    env.sql("PRAGMA journal_mode = delete");
    env.insert(1, HOUR_AGO);
    let lock = env.connection();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let mut pass = env.spawn_logging(&format!("process --ndays 1 -v --now {} -- true", now()));
    env.logs("waiting for a lock on");
    drop(lock);
    assert_eq!(pass.wait().unwrap().code(), Some(0));
    assert_eq!(env.count("SUCCESS"), 1);
}

/// The application takes the lock while the handler runs and does not let go of it.
#[test]
fn a_lock_holds_an_outcome_no_longer_than_the_grace_of_a_stopped_pass() {
    let env = TestEnv::new();
    env.sql("PRAGMA journal_mode = delete");
    env.insert(2, HOUR_AGO);
    let pausing = env.pausing();
    let words = format!("process --ndays 1 --grace 0s --now {} --", now());
    let mut pass = env.spawn_logging(&format!("{words} {}", sh(&pausing.script)));
    pausing.wait_for_begin();
    let lock = env.connection();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    pausing.let_go();
    // The outcome waits for the lock when the signal comes, or comes after it.
    assert!(signal("-TERM", pass.id()));
    assert_ne!(pass.wait().unwrap().code(), Some(0));
    drop(lock);
    assert_eq!(env.count("SUCCESS"), 0);
}

/// A handler that a signal ends, alone or just before the pass hears of its own stop.
struct Signalled {
    env: TestEnv,
    handler: String,
    is_stream: bool,
}

impl Signalled {
    /// The script notes in `pid` what the signal is sent to.
    fn new(script: &str, is_stream: bool) -> Self {
        let env = TestEnv::with_records(1, HOUR_AGO);
        let handler = env.script("signalled", &script.replace("PID", &env.path_text("pid")));
        Self { env, handler, is_stream }
    }

    /// Runs a pass, signals the handler, and the pass as well if it `stops`, and returns its exit and the
    /// record.
    fn pass(&self, name: &str, stops: bool) -> (Option<i32>, String) {
        let Self { env, handler, is_stream } = self;
        let stream: &str = if *is_stream { "--stream" } else { "" };
        let options = format!("process --fibonacci --max-attempts 1 --now {}", now());
        let mut pass = env.spawn(&format!("{options} {stream} -- {handler}"));
        let noted = || fs::read_to_string(env.path("pid")).unwrap_or_default();
        wait_until("the handler runs", || noted().ends_with('\n'));
        assert!(signal(name, noted().trim()));
        if stops {
            std::thread::sleep(Duration::from_millis(40));
            assert!(signal("-TERM", pass.id()));
        }
        let exit = pass.wait().unwrap().code();
        (exit, env.query("SELECT STATUS, FAILURES, coalesce(LAST_ERROR, '-') FROM BACKLOG"))
    }
}

#[test]
fn a_handler_that_a_stopping_machine_ends_before_its_pass_is_not_charged() {
    for (script, is_stream) in [
        ("echo $$ >PID; exec sleep 60", false),
        // A shell whose command was ended.
        ("sleep 60 & echo $! >PID; wait $!", false),
        ("read hello; read record; echo $$ >PID; exec sleep 60", true),
        ("read hello; read record; sleep 60 & echo $! >PID; wait $!", true),
    ] {
        for name in ["-TERM", "-KILL", "-HUP"] {
            let (exit, record) = Signalled::new(script, is_stream).pass(name, true);
            assert_eq!((exit, &*record), (Some(143), "NEW|0|-"), "{name} {script}");
        }
    }
}

#[test]
fn a_handler_that_a_signal_ends_in_a_pass_that_goes_on_has_failed() {
    for (script, name, error) in [
        ("echo $$ >PID; exec sleep 60", "-TERM", "killed by signal 15"),
        ("exec 2>/dev/null; sleep 60 & echo $! >PID; wait $!", "-KILL", "exit status 137"),
        ("echo $$ >PID; exec sleep 60", "-SEGV", "killed by signal 11"),
    ] {
        let (exit, record) = Signalled::new(script, false).pass(name, false);
        assert_eq!((exit, record), (Some(1), format!("ARCHIVED|1|{error}")), "{script}");
    }
}

/// killall5 stops all processes before it signals them, and lets them go on after that.
#[test]
fn a_pass_that_was_stopped_when_its_signal_came_charges_nothing() {
    let env = TestEnv::with_records(4, HOUR_AGO);
    let handler = env.noting("echo $$ >>pids; exec sleep 60");
    let mut pass = env.spawn(&format!("process --fibonacci --jobs 4 --now {} -- {handler}", now()));
    let pids = || fs::read_to_string(env.path("pids")).unwrap_or_default();
    wait_until("all run", || pids().lines().count() == 4 && pids().ends_with('\n'));
    assert!(signal("-STOP", pass.id()));
    for pid in pids().lines() {
        assert!(signal("-TERM", pid));
    }
    assert!(signal("-TERM", pass.id()) && signal("-CONT", pass.id()));
    assert_eq!(pass.wait().unwrap().code(), Some(143));
    assert_eq!(env.query("SELECT STATUS, FAILURES, count(*) FROM BACKLOG"), "NEW|0|4");
}

/// A signal ends a program that has nothing in hand, also if an earlier queue had.
#[test]
fn a_signal_ends_all_queues_while_a_later_one_is_opened() {
    let env = TestEnv::with_records(1, HOUR_AGO);
    let locked = TestEnv::new();
    locked.sql("PRAGMA journal_mode = delete");
    let holder = locked.connection();
    holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let file = format!(
        "[queue.a]\ndb = '{}'\n[queue.b]\ndb = '{}'\n",
        env.db().display(),
        locked.db().display()
    );
    env.write("backlog.toml", file);
    let handler = env.noting("exit 0");
    let args = format!("process --all-queues --ndays 9 --now {} -- {handler}", now());
    let mut command = env.command(&args);
    let mut pass = command.env_remove("BACKLOG_DB").spawn().unwrap();
    wait_until("the first queue is done", || env.count("SUCCESS") == 1);
    std::thread::sleep(Duration::from_millis(100));
    assert!(signal("-TERM", pass.id()));
    let ended = pass.wait().unwrap();
    let signalled = std::os::unix::process::ExitStatusExt::signal(&ended);
    assert!(signalled == Some(15) || ended.code() == Some(143), "{ended:?}");
}

/// A pass with these options, which has handlers that hang at each record but the first one.
fn hanging(env: &TestEnv, options: &str, handler: &str) -> Child {
    env.insert(3, MIDNIGHT);
    env.spawn(&format!("process --fibonacci --grace 1s --now @{MIDNIGHT} {options} -- {handler}"))
}

#[test]
fn a_handler_that_hangs_is_stopped_and_the_pass_goes_on() {
    let env = TestEnv::new();
    // One of them ignores SIGTERM.
    let handler =
        "[ $BACKLOG_ID = 1 ] && exit; echo $BACKLOG_ID >>begun; [ $BACKLOG_ID = 2 ] || trap '' TERM
        while :; do sleep 1; done";
    let mut pass = hanging(&env, "--drain --jobs 2", &sh(handler).to_string());
    let stop = |ids: &str| env.run_at(MIDNIGHT, &format!("stop {ids}"));
    wait_until("handlers have begun", || env.count("ERROR") == 2);
    stop("9").fails(1, &["9: no such record"]);
    let ran = stop("2").fails(75, &[""]);
    let soon =
        "2: not stopped: passes note a handler after 10 s, and look for requests then; try again\n";
    assert_eq!(ran.stdout, soon);
    assert_contains(&stop("1").fails(1, &[""]).stdout, " has had it in hand for 10 s\n");
    wait_until("the records are noted", || env.state("SELECT count(*) FROM running") == "2");
    let ran = stop("2 3 --set fibonacci=true").success();
    let expected = "2: stopped; the attempt does not count; next attempt in the next pass\n3: stopped; the attempt \
                    does not count; next attempt in the next pass\n";
    assert_eq!(ran.stdout, expected);
    assert!(pass.wait().unwrap().success());
    assert_eq!(
        env.query("SELECT STATUS, FAILURES FROM BACKLOG ORDER BY ID"),
        "SUCCESS|0\nNEW|0\nNEW|0"
    );
    assert_eq!(env.read("begun").lines().count(), 2);
    assert_eq!(env.state("SELECT count(*) FROM stop_requests"), "0");
    let status = env.run_at(MIDNIGHT, "status").success().stdout;
    assert_contains(&status, ": 1 succeeded, 2 interrupted\n");
}

#[test]
fn a_co_process_that_hangs_is_stopped_and_started_anew_for_the_others() {
    let env = TestEnv::new();
    let handler = env.script(
        "co-process",
        r#"read hello; while read line; do case $line in *'"backlog_id":"2"'*) sleep 99;; esac
           id=${line##*backlog_id\":\"}; echo "{\"id\":\"${id%%\"*}\",\"outcome\":\"success\"}"; done"#,
    );
    let mut pass = hanging(&env, "--stream", &handler);
    wait_until("the pass has begun", || env.count("SUCCESS") == 1);
    wait_until("the record is noted", || {
        env.state("SELECT count(*) FROM running WHERE record = '2'") == "1"
    });
    let ran = env.run_at(MIDNIGHT, "stop 2").success();
    assert_eq!(ran.stdout, "2: stopped; the attempt does not count\n");
    assert!(pass.wait().unwrap().success());
    assert_eq!(env.query("SELECT STATUS FROM BACKLOG ORDER BY ID"), "SUCCESS\nNEW\nSUCCESS");
}
