//! Claims whose sessions end while the pass lives. The pass takes a claim back before another pass gets the
//! record, or it ends the handler of the record and writes nothing over another attempt.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::servers::{EVERY_THIRD_FAILS, cut_once};
use crate::testenv::*;
use test_support::cluster::{Cluster, Database, cluster, pgbouncer, pgbouncer_with};
use test_support::server::{Answer, Server};

/// The columns by which a row shows that an attempt has begun.
const USUAL: &str = ", failures int NOT NULL DEFAULT 0, last_failure timestamptz, last_error text";
const COLUMNS: [&str; 3] =
    [USUAL, ", failures int NOT NULL DEFAULT 0", ", last_error varchar(200)"];

/// A table with records, and passes of two machines on it.
struct Scene {
    database: Database,
    first: TestEnv,
    second: TestEnv,
}

impl Scene {
    fn new(cluster: &Cluster, columns: &str, records: usize) -> Self {
        let database = cluster.database();
        database.sql(&format!(
            "CREATE TABLE backlog (id bigint PRIMARY KEY, status text NOT NULL DEFAULT 'NEW', \
             date_inserted timestamptz NOT NULL{columns}); INSERT INTO backlog (id, date_inserted) \
             SELECT n, now() - n * interval '1 s' \
             FROM generate_series(1, {records}) n"
        ));
        let [first, second] = [TestEnv::empty(), TestEnv::empty()];
        Self { database, first, second }
    }

    /// Starts the first pass through `by`. Its sessions have a name.
    fn spawn(&self, by: &Database, args: &str) -> Child {
        let url = format!("{}&application_name=first", by.url());
        let args = format!("process --ndays 1 -vv {args}");
        let log = fs::File::create(self.first.path("log")).unwrap();
        self.first.command(&args).env("BACKLOG_DB", url).stderr(log).spawn().unwrap()
    }

    /// Result of the first pass.
    fn finished(&self, pass: Child) -> Ran {
        let output = pass.wait_with_output().unwrap();
        Ran { stderr: fs::read_to_string(self.first.path("log")).unwrap(), ..ran(&output) }
    }

    fn second(&self, args: &str) -> Child {
        let args = format!("process --ndays 1 -vv {args}");
        let log = fs::File::create(self.second.path("log")).unwrap();
        let url = self.database.url();
        self.second.command(&args).env("BACKLOG_DB", url).stderr(log).spawn().unwrap()
    }

    /// Ends all sessions of the first pass.
    fn end_sessions(&self) {
        let ended = self.database.query(
            "SELECT pid FROM (SELECT pid FROM pg_stat_activity WHERE application_name = 'first' \
             AND datname = current_database() OFFSET 0) AS of_first WHERE pg_terminate_backend(pid)",
        );
        let ended = ended.replace('\n', ", ");
        wait_until("its sessions are gone", || {
            let left = "SELECT count(*) FROM pg_stat_activity WHERE pid IN";
            ended.is_empty() || self.database.query(&format!("{left} ({ended})")) == "0"
        });
    }

    fn row(&self) -> String {
        self.database.query("SELECT * FROM backlog ORDER BY id").replace("\n", "; ")
    }
}

fn stop(pass: &Child) {
    assert!(signal("-STOP", pass.id()));
}

fn go_on(pass: &Child) {
    assert!(signal("-CONT", pass.id()));
}

/// A pass that has lost its sessions, and takes a while to take its claims back, keeps its record, because
/// another pass waits before it tries that record.
fn keeps_its_record(cluster: &Cluster, columns: &str, by: impl Fn(&Database) -> Database) {
    let scene = Scene::new(cluster, columns, 1);
    let pausing = scene.first.pausing();
    let pass = scene.spawn(&by(&scene.database), &format!("-- {}", sh(&pausing.script)));
    pausing.wait_for_begin();
    stop(&pass);
    scene.end_sessions();
    let second = scene.second(&format!("-- {}", scene.second.noting("exit 0")));
    scene.second.logs("the last attempt of record 1 has not reported back");
    go_on(&pass);
    second.ran().success();
    scene.second.logs("record 1 is claimed by another pass");
    assert_eq!(scene.second.handled(), [""; 0], "{columns}");
    pausing.let_go();
    scene.finished(pass).exits(0);
    assert!(scene.row().starts_with("1|SUCCESS"), "{}", scene.row());
}

#[test]
fn a_record_whose_attempt_has_not_reported_back_is_left_to_its_pass() {
    let Some(cluster) = cluster() else { return };
    for columns in COLUMNS {
        keeps_its_record(cluster, columns, Database::same);
    }
}

#[test]
fn a_record_whose_attempt_has_not_reported_back_is_left_to_its_pass_behind_a_pooler() {
    let Some(cluster) = cluster() else { return };
    let Some(pool) = pgbouncer(cluster) else { return };
    for columns in COLUMNS {
        keeps_its_record(cluster, columns, |database| pool.database(database));
    }
}

#[test]
fn claims_are_taken_back_at_once_just_after_handlers_have_begun() {
    let Some(cluster) = cluster() else { return };
    let Some(pool) = pgbouncer(cluster) else { return };
    for is_pooled in [false, true] {
        let scene = Scene::new(cluster, "", 1);
        let by = if is_pooled { pool.database(&scene.database) } else { scene.database.same() };
        let pausing = scene.first.pausing();
        let pass = scene.spawn(&by, &format!("-- {}", sh(&pausing.script)));
        pausing.wait_for_begin();
        let locks = || {
            let sql = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) \
                       WHERE l.locktype = 'advisory' AND a.datname = current_database()";
            scene.database.query(sql)
        };
        let all = if is_pooled { "1" } else { "2" };
        for _ in 0..3 {
            wait_until("its claim stands", || locks() == all);
            scene.end_sessions();
        }
        wait_until("its claim stands again", || locks() == all);
        scene.second(&format!("-- {}", scene.second.noting("exit 0"))).wait().unwrap();
        let log = fs::read_to_string(scene.first.path("log")).unwrap();
        assert_eq!(scene.second.handled(), [""; 0], "pooled: {is_pooled}: {log}");
        pausing.let_go();
        assert_eq!(scene.finished(pass).exit, Some(0));
    }
}

/// Has the second pass take a record from the first one, whose handler must then be ended. Returns the
/// second pass.
#[track_caller]
fn take_over(scene: &Scene, pass: &Child, begun: impl Fn() -> bool) -> Child {
    wait_until("the handler begins", &begun);
    stop(pass);
    scene.end_sessions();
    let other = scene.second.pausing();
    let second = scene.second(&format!("--max-records 1 -- {}", sh(&other.script)));
    other.wait_for_begin();
    go_on(pass);
    second
}

#[test]
fn a_command_is_ended_when_another_attempt_has_begun() {
    let Some(cluster) = cluster() else { return };
    for columns in [&COLUMNS[..], &[""]].concat() {
        let scene = Scene::new(cluster, columns, 1);
        let pid = scene.first.path("pid");
        // The handler ignores SIGTERM.
        let script =
            format!("trap '' TERM; echo $$ >{}; while :; do sleep 0.01; done", pid.display());
        let pass = scene.spawn(&scene.database, &format!("-- {}", sh(&script)));
        let second = take_over(&scene, &pass, || !fs::read(&pid).unwrap_or_default().is_empty());
        let pid = fs::read_to_string(&pid).unwrap();
        wait_until("the handler is dead", || !fs::exists(format!("/proc/{}", pid.trim())).unwrap());
        let row = scene.row();
        scene.finished(pass).fails(1, &["claim lost: record 1", "the handler was ended"]);
        assert_eq!(scene.row(), row, "{columns}");
        scene.second.pausing().let_go();
        ran_of(second).success();
        assert!(scene.row().starts_with("1|SUCCESS"), "{}", scene.row());
    }
}

fn ran_of(child: Child) -> Ran {
    child.ran()
}

#[test]
fn a_co_process_with_a_lost_record_is_ended_and_the_others_go_to_the_next_one() {
    let Some(cluster) = cluster() else { return };
    let scene = Scene::new(cluster, USUAL, 2);
    // The first process answers no record, and its successor answers all.
    let script = "import sys, os, json, time\n\
                  next(sys.stdin)\n\
                  is_first = not os.path.exists(sys.argv[1])\n\
                  for line in sys.stdin:\n    \
                      number = json.loads(line)['id']\n    \
                      open(sys.argv[1], 'a').write('%d\\n' % number)\n    \
                      if not is_first: print(json.dumps({'id': number, 'outcome': 'success'}), flush=True)\n";
    let seen = scene.first.path("seen");
    let text = || fs::read_to_string(&seen).unwrap_or_default();
    let args = format!("--stream -- python3 -c {} {}", quoted(script), seen.display());
    let pass = scene.spawn(&scene.database, &args);
    let second = take_over(&scene, &pass, || text() == "1\n2\n");
    let ran = scene.finished(pass);
    assert_lacks(&ran.stderr, "started again");
    ran.fails(1, &["claim lost: record 1", "the handler was ended"]);
    assert_eq!(text(), "1\n2\n2\n", "the same attempt");
    assert_eq!(
        scene.database.query("SELECT status, failures FROM backlog ORDER BY id"),
        "ERROR|2\nSUCCESS|0"
    );
    scene.second.pausing().let_go();
    ran_of(second).success();
}

#[test]
fn a_webhook_is_abandoned_when_another_attempt_has_begun() {
    let Some(cluster) = cluster() else { return };
    let scene = Scene::new(cluster, USUAL, 1);
    let server = Server::new(&[("/hook", Answer::default().hold())]);
    let pass = scene.spawn(&scene.database, &format!("--post {}", server.url("/hook")));
    let second = take_over(&scene, &pass, || server.received().len() == 1);
    scene.finished(pass).fails(1, &["claim lost: record 1", "the handler was ended"]);
    scene.second.pausing().let_go();
    ran_of(second).success();
    assert!(scene.row().starts_with("1|SUCCESS"), "{}", scene.row());
}

#[test]
fn only_a_success_is_written_over_another_attempt() {
    let Some(cluster) = cluster() else { return };
    for (exit, after) in [(0, "SUCCESS|2"), (1, "ERROR|2")] {
        let scene = Scene::new(cluster, USUAL, 1);
        let pausing = scene.first.pausing();
        let script = format!("{}; exit {exit}", pausing.script);
        let pass = scene.spawn(&scene.database, &format!("-- {}", sh(&script)));
        pausing.wait_for_begin();
        stop(&pass);
        scene.end_sessions();
        ran_of(scene.second("-- sh -c 'echo no route to host >&2; exit 1'")).success();
        let last = "SELECT status, failures FROM backlog WHERE last_error = 'no route to host'";
        assert_eq!(scene.database.query(last), "ERROR|2");
        pausing.let_go();
        go_on(&pass);
        scene.finished(pass).fails(1, &["claim lost: record 1"]);
        assert_eq!(scene.database.query(last), after);
    }
}

#[test]
fn a_session_that_ends_at_any_statement_costs_no_attempt_and_no_lock() {
    let Some(cluster) = cluster() else { return };
    let scene = Scene::new(cluster, USUAL, 9);
    let handler = scene.second.noting("exit $((BACKLOG_ID % 3 == 0))");
    let (mut messages, mut uncut) = (0, 0);
    // Ends with the first pass that sends fewer messages, so that no connection was cut.
    while uncut == 0 {
        messages += 1;
        scene.database.sql(
            "UPDATE backlog SET status = 'NEW', failures = 0, last_failure = NULL, last_error = NULL",
        );
        let _ = fs::remove_file(scene.second.path("handled"));
        let (url, is_cut) = cut_once(cluster, &scene.database, messages);
        let args = format!("process --policy constant:delay=1h --drain --jobs 2 -- {handler}");
        let cut = scene.second.command(&args).env("BACKLOG_DB", url).ran();
        if cut.exit == Some(75) {
            assert_eq!(scene.second.handled(), [""; 0], "{messages}: {cut:?}");
            continue;
        }
        assert_eq!(cut.exit, Some(0), "{messages}: {cut:?}");
        let mut handled = scene.second.handled();
        handled.sort_unstable();
        let all: Vec<_> = (1..=9).map(|id| id.to_string()).collect();
        assert_eq!(handled, all, "{messages}: {cut:?}");
        let counts = "SELECT status, failures, count(*) FROM backlog GROUP BY 1, 2 ORDER BY 1";
        assert_eq!(scene.database.query(counts), "ERROR|1|3\nSUCCESS|0|6", "{messages}: {cut:?}");
        let locks = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
                     WHERE l.locktype = 'advisory' AND d.datname = current_database()";
        wait_until("no lock is left", || scene.database.query(locks) == "0");
        uncut += usize::from(!is_cut());
    }
    assert!(messages > 20, "{messages}");
}

#[test]
fn sessions_that_end_under_load_cost_no_attempt_and_no_lock() {
    let Some(cluster) = cluster() else { return };
    for is_stream in [false, true] {
        let records = if is_stream { 1_500 } else { 150 };
        let scene = Scene::new(cluster, USUAL, records);
        let notes = scene.first.path_text("handled");
        let by_record = format!("echo $BACKLOG_ID >>{notes}; exit $((BACKLOG_ID % 3 == 0))");
        let handler: &str = match is_stream {
            true => &format!("--stream -- python3 -c {} {notes}", quoted(EVERY_THIRD_FAILS)),
            false => &format!("--jobs 4 -- {}", sh(&by_record)),
        };
        let args = format!("process --policy constant:delay=1h --drain {handler}");
        let spawn = |env: &TestEnv| {
            let mut command = env.command(&args);
            let url = scene.database.url();
            command.env("BACKLOG_DB", url).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
        };
        let mut passes = [&scene.first, &scene.second].map(|env| spawn(env).unwrap());
        let mut rounds = 0;
        while passes.iter_mut().any(|pass| pass.try_wait().unwrap().is_none()) {
            // On a loaded machine the passes would get nowhere for minutes.
            if rounds < 150 {
                rounds += 1;
                scene.database.query(&format!(
                    "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity \
                     WHERE application_name = 'backlog' AND datname = current_database() \
                     ORDER BY md5(pid::text || '{rounds}') LIMIT 1) one"
                ));
            }
            std::thread::sleep(Duration::from_millis(40));
        }
        for pass in passes {
            let ran = ran_of(pass);
            assert!([Some(0), Some(75)].contains(&ran.exit), "{ran:?}");
        }
        // A pass whose session ends before the pass has begun exits with 75, so another one finishes.
        ran_of(spawn(&scene.first).unwrap()).silent();
        let counts = "SELECT status, failures, count(*) FROM backlog GROUP BY 1, 2 ORDER BY 1";
        let (failed, succeeded) = (records / 3, records - records / 3);
        assert_eq!(
            scene.database.query(counts),
            format!("ERROR|1|{failed}\nSUCCESS|0|{succeeded}")
        );
        assert_eq!(scene.first.handled().len(), records, "each is tried once");
    }
}

#[test]
fn a_pool_without_a_second_connection_is_named() {
    let Some(cluster) = cluster() else { return };
    for mode in ["session", "transaction"] {
        let scene = Scene::new(cluster, USUAL, 1);
        let settings = [format!("pool_mode={mode}"), "default_pool_size=1".into()];
        let settings = settings.each_ref().map(String::as_str);
        let Some(pool) = pgbouncer_with(cluster, &settings) else { return };
        let url = pool.database(&scene.database).url();
        let handler = scene.first.noting("exit 0");
        let run = |command: &str| {
            let args = format!("{command} --ndays 1 -- {handler}");
            scene.first.command(&args).env("BACKLOG_DB", &url).ran()
        };
        let says = "a pass needs two connections: behind a pooler its pool may have none left \
                    (default_pool_size of PgBouncer)";
        run("process").fails(75, &["no answer within 10s", says, "try later"]);
        let checked = run("check").stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_contains(&checked, says);
        assert_eq!(scene.first.handled(), [""; 0]);
    }
}

#[test]
fn a_pass_that_was_killed_leaves_its_records_to_wait_three_seconds() {
    let Some(cluster) = cluster() else { return };
    let scene = Scene::new(cluster, USUAL, 1);
    let pausing = scene.first.pausing();
    let mut pass = scene.spawn(&scene.database, &format!("-- {}", sh(&pausing.script)));
    pausing.wait_for_begin();
    pass.kill().unwrap();
    pass.wait().unwrap();
    // Record 2 was never tried, so it does not wait.
    scene
        .database
        .sql("INSERT INTO backlog (id, date_inserted) VALUES (2, now() - interval '1 hour')");
    let (handler, mut handled) = (scene.second.noting("exit 0"), Vec::new());
    // A pass that starts before the watchdog has ended finds the record claimed.
    wait_until("both are handled", || {
        ran_of(scene.second(&format!("-- {handler}"))).success();
        handled.extend(scene.second.handled());
        handled.len() == 2
    });
    assert_eq!(handled, ["2", "1"], "it works elsewhere meanwhile");
}
