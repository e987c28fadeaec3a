//! Queues of pgmq, with its real functions: those of the newest version and of two old versions.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::claims::{watchdog_if_any, watchdog_of};
use crate::servers::{cut_once, set_read_only};
use crate::testenv::*;
use test_support::cluster::{Cluster, Database, Pgmq, cluster};

/// A database with pgmq and a queue with messages 1 to `count`.
pub fn queue(name: &str, count: u32) -> Option<(Database, TestEnv)> {
    queue_of(Pgmq::Newest, name, count)
}

pub fn queue_of(version: Pgmq, name: &str, count: u32) -> Option<(Database, TestEnv)> {
    queue_on(cluster()?, version, name, count)
}

fn queue_on(
    cluster: &Cluster,
    version: Pgmq,
    name: &str,
    count: u32,
) -> Option<(Database, TestEnv)> {
    let database = cluster.database();
    if !database.install_pgmq_version(version) {
        return None;
    }
    let (env, name) = (TestEnv::on(&database), quoted(name));
    env.run(&format!("init --pgmq {name}")).success();
    if count > 0 {
        let payloads = (1..=count).map(|number| quoted(&format!("{{\"n\":{number}}}")));
        env.run(&format!("add --pgmq {name} {}", payloads.collect::<Vec<_>>().join(" "))).success();
    }
    Some((database, env))
}

impl TestEnv {
    fn work(&self, queue: &str, args: &str, handler: &str) -> Ran {
        self.run(&format!("process --pgmq {queue} {args} -- {handler}"))
    }
}

/// Makes a test of each function and each version of pgmq.
macro_rules! for_each_version {
    ($($test:ident)*) => {
        mod newest { $(#[test] fn $test() { super::$test(super::Pgmq::Newest); })* }
        mod v1_5_1 { $(#[test] fn $test() { super::$test(super::Pgmq::V1_5_1); })* }
        mod v1_4_4 { $(#[test] fn $test() { super::$test(super::Pgmq::V1_4_4); })* }
    };
}

for_each_version! {
    a_message_without_a_next_attempt_stays_hidden
    a_function_that_pgmq_lacks_is_named_before_anything_is_claimed
    a_message_goes_from_the_queue_to_the_archive
    a_failure_is_put_off_as_the_policy_has_it_and_the_fifth_is_the_last
    a_person_can_archive_restore_and_retry_messages
    status_tells_what_is_due_from_what_is_parked
    a_message_stays_hidden_while_its_handler_runs_and_comes_back_when_its_pass_is_killed
    a_message_that_somebody_else_read_meanwhile_is_left_to_them
    four_passes_handle_each_message_once
    what_succeeded_is_deleted_where_that_is_wanted
    what_a_queue_cannot_be_asked_is_named
    an_attempt_that_was_none_is_not_charged
    what_the_archive_refuses_is_found_before_a_handler_runs
    what_ran_out_of_attempts_is_told_whatever_its_headers_were
    the_error_of_a_message_is_known_while_it_is_pending
}

/// Makes every message of the queue `jobs` visible.
fn show(database: &Database) {
    database.sql("SELECT pgmq.set_vt('jobs', msg_id, -1) FROM pgmq.q_jobs");
}

fn a_message_goes_from_the_queue_to_the_archive(version: Pgmq) {
    let Some((database, env)) = queue_of(version, "jobs", 3) else { return };
    env.run("init --pgmq jobs").fails(1, &["queue jobs already exists"]);
    let log = env.script("log", "cat >>json; echo \"$BACKLOG_ATTEMPT/$BACKLOG_MAX_ATTEMPTS $BACKLOG_QUEUE\" >>seen; exit $((BACKLOG_ID == 2))");
    // A wait of a minute would be over within this test if it began at the end of a minute.
    let constant = "--policy constant:delay=30m";
    env.work("jobs", constant, &log).silent();
    assert_eq!(env.read("seen"), "1/5 jobs\n".repeat(3));
    let posted = env.read("json");
    let first = json(posted.lines().next().unwrap());
    assert_eq!(first["message"]["n"], 1, "{first}");
    assert_eq!(database.query("SELECT msg_id, read_ct FROM pgmq.q_jobs"), "2|1");
    assert_eq!(database.query("SELECT msg_id FROM pgmq.a_jobs ORDER BY 1"), "1\n3");
    let listed = env.run("list --pgmq jobs --json").success().stdout;
    let statuses: Vec<String> = listed
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|row| format!("{} {} {}", row["id"], row["status"], row["failures"]))
        .collect();
    assert_eq!(statuses, ["3 \"SUCCESS\" 0", "2 \"ERROR\" 1", "1 \"SUCCESS\" 0"]);
    // It is hidden until its time comes, and no pass asks for it before.
    env.work("jobs", constant, &log).silent();
    assert_eq!(database.query("SELECT read_ct FROM pgmq.q_jobs"), "1");
    let explained = env.run("explain --pgmq jobs 2 --policy constant:delay=30m").success().stdout;
    assert_contains(&explained, "waits until");
}

fn a_failure_is_put_off_as_the_policy_has_it_and_the_fifth_is_the_last(version: Pgmq) {
    let Some((database, env)) = queue_of(version, "jobs", 1) else { return };
    let wait = "SELECT round(extract(epoch FROM vt - clock_timestamp()) / 60) FROM pgmq.q_jobs";
    env.work("jobs", "--policy constant:delay=30m,spread=0%", "/bin/false").silent();
    let waits: i32 = database.query(wait).parse().unwrap();
    assert!((29..=30).contains(&waits), "{waits}");
    // The pass of that minute finds it.
    let early = "SELECT date_trunc('minute', vt + interval '1.5 s') - vt \
                 BETWEEN interval '0' AND interval '1.5 s' FROM pgmq.q_jobs";
    assert_eq!(database.query(early), "t");
    show(&database);
    // After two failures Fibonacci waits two ticks, after three three.
    for (failures, least) in [(2, 0), (3, 1), (4, 2)] {
        env.work("jobs", "--fibonacci", "/bin/false").silent();
        let waits: i32 = database.query(wait).parse().unwrap();
        assert!((least..=failures).contains(&waits), "after {failures}: {waits}");
        show(&database);
    }
    let says = env.script("says", "echo \"it's $BACKLOG_ATTEMPT\" >&2; exit 1");
    env.work("jobs", "", &says).fails(1, &["record 1 failed after 5 attempts; archived"]);
    assert_eq!(database.query("SELECT count(*) FROM pgmq.q_jobs"), "0");
    assert_eq!(database.query("SELECT msg_id, read_ct FROM pgmq.a_jobs"), "1|5");
    if !version.has_headers() {
        let listed = env.run("list --pgmq jobs").success().stdout;
        assert!(listed.contains("SUCCESS"), "nothing tells it from a success: {listed}");
        return;
    }
    let archived = "SELECT headers ->> 'backlog_error' FROM pgmq.a_jobs";
    assert_eq!(database.query(archived), "it's 5");

    let said = env.run("restore --pgmq jobs --all").success();
    assert_eq!(said.stdout, "restored 1 record\n1: next attempt in the next pass\n");
    assert_eq!(database.query("SELECT msg_id, read_ct, headers FROM pgmq.q_jobs"), "1|0|");
    assert_eq!(database.query("SELECT count(*) FROM pgmq.a_jobs"), "0");
    let once = env
        .command("process -v --pgmq jobs -- /bin/false")
        .env("MAX_JOBS_RETRY_ATTEMPTS", "1")
        .output();
    ran(&once.unwrap()).fails(1, &["failed after 1 attempt; archived"]);
}

#[test]
fn outcomes_outlive_a_server_that_only_reads_for_a_while() {
    let Some(cluster) = Cluster::private(&[]) else { return };
    let Some((database, env)) = queue_on(&cluster, Pgmq::Newest, "jobs", 1) else { return };
    let pausing = env.pausing();
    let pass = env.spawn_logging(&format!("process --pgmq jobs -v -- {}", sh(&pausing.script)));
    pausing.wait_for_begin();
    set_read_only(&database, true);
    pausing.let_go();
    env.logs("in a read-only transaction; trying again");
    set_read_only(&database, false);
    pass.ran().success();
    assert_eq!(database.query("SELECT count(*) FROM pgmq.a_jobs"), "1");
    set_read_only(&database, true);
    env.run("add --pgmq jobs [1]").fails(1, &["in a read-only transaction"]);
}

fn a_message_without_a_next_attempt_stays_hidden(version: Pgmq) {
    let Some((database, env)) = queue_of(version, "jobs", 1) else { return };
    database.sql("UPDATE pgmq.q_jobs SET enqueued_at = now() - interval '10 years'");
    for _ in 0..2 {
        env.work("jobs", "--progressive", "/bin/false").silent();
        let hidden = "SELECT read_ct, vt > now() + interval '60 years' FROM pgmq.q_jobs";
        assert_eq!(database.query(hidden), "1|t");
    }
    // Any instant of this decade.
    let now = 1_830_000_000;
    let explain = || env.run_at(now, "explain --pgmq jobs 1").success().stdout;
    let status = || {
        let status = json(&env.run_at(now, "status --pgmq jobs --json").success().stdout);
        (status["waiting"].clone(), status["next_due_at"].clone())
    };
    let (explained, counted) = (explain(), status());
    database.sql("UPDATE pgmq.q_jobs SET vt = 'infinity'");
    assert_eq!((explain(), status()), (explained, counted));
}

fn a_function_that_pgmq_lacks_is_named_before_anything_is_claimed(version: Pgmq) {
    let Some((database, env)) = queue_of(version, "jobs", 1) else { return };
    database.sql("DROP FUNCTION pgmq.set_vt(text, bigint, integer)");
    let says = "pgmq has no function pgmq.set_vt(text, bigint, integer); \
                to update it: ALTER EXTENSION pgmq UPDATE";
    env.work("jobs", "", &env.noting("exit 0").to_string()).fails(1, &[says]);
    assert_eq!(env.handled(), [""; 0]);
    assert_eq!(database.query("SELECT read_ct FROM pgmq.q_jobs"), "0");
    let checked = env.run("check --pgmq jobs").exits(1);
    assert!(
        checked.stdout.replace("\n", " ").contains("pgmq has no function pgmq.set_vt"),
        "{checked:?}"
    );
    // A command that only reads does not need the function.
    env.run("status --pgmq jobs").success();
}

fn a_person_can_archive_restore_and_retry_messages(version: Pgmq) {
    let Some((database, env)) = queue_of(version, "jobs", 3) else { return };
    env.work("jobs", "--policy constant:delay=2h --max-records 1", "/bin/false").silent();
    let edit = |verb: &str, ids: &str| env.run(&format!("{verb} --pgmq jobs {ids}"));
    assert_eq!(edit("retry", "1").success().stdout, "made due 1 record\n");
    assert_eq!(database.query("SELECT count(*) FROM pgmq.read('jobs', 30, 1)"), "1");
    // A message that somebody has just read may be in their hands.
    let busy = edit("archive", "1 2 9").exits(1);
    assert_eq!(
        busy.stdout,
        "9: no such record\n1: a pass is handling it; try again later, or end its handler: backlog stop --pgmq jobs 1\narchived 1 record\n"
    );
    assert_eq!(database.query("SELECT msg_id FROM pgmq.a_jobs"), "2");
    if !version.has_headers() {
        assert_eq!(
            edit("restore", "2").stdout,
            "2: is SUCCESS; left unchanged\nrestored 0 records\n"
        );
        return;
    }
    let archived = "SELECT headers ->> 'backlog_error' FROM pgmq.a_jobs";
    assert_eq!(database.query(archived), "archived without an attempt");
    database.sql("SELECT pgmq.archive('jobs', 3)");
    let said = edit("restore", "2 3").success().stdout;
    assert_eq!(
        said,
        "3: is SUCCESS; left unchanged\nrestored 1 record\n2: next attempt in the next pass\n"
    );
    assert_eq!(database.query("SELECT msg_id FROM pgmq.q_jobs ORDER BY 1"), "1\n2");
}

fn status_tells_what_is_due_from_what_is_parked(version: Pgmq) {
    let Some((database, env)) = queue_of(version, "jobs", 4) else { return };
    database.sql(
        "UPDATE pgmq.q_jobs SET enqueued_at = now() - msg_id * interval '1 day', read_ct = msg_id - 1;
         SELECT pgmq.set_vt('jobs', msg_id, 7200) FROM pgmq.q_jobs WHERE msg_id > 2",
    );
    let status = json(&env.run("status --pgmq jobs --json").success().stdout);
    assert_eq!(status["oldest_pending"]["id"], 4, "{status}");
    assert_eq!((&status["due"], &status["waiting"]), (&2.into(), &2.into()), "{status}");
    assert_eq!(status["oldest_due"]["id"], 2, "{status}");
    assert_eq!(status["statuses"]["NEW"]["total"], 1);
    assert_eq!(status["statuses"]["ERROR"]["total"], 3);
    let dry = env.run("process --pgmq jobs --dry-run").success().stdout;
    assert_contains(&dry, "1           try      NEW, attempt 1");
    assert_eq!(dry.matches("wait").count(), 2, "{dry}");
}

fn a_message_stays_hidden_while_its_handler_runs_and_comes_back_when_its_pass_is_killed(
    version: Pgmq,
) {
    let Some((database, env)) = queue_of(version, "jobs", 2) else { return };
    let pausing = env.pausing();
    let mut pass = env.spawn(&format!("process --pgmq jobs -- {}", sh(&pausing.script)));
    pausing.wait_for_begin();
    // Nobody else gets it meanwhile.
    let beside = format!("process --pgmq jobs --queue beside -- {}", env.noting("exit 0"));
    env.run(&beside).silent();
    assert_eq!(env.handled(), ["2"]);
    pass.kill().unwrap();
    pass.wait().unwrap();
    env.run(&beside).silent();
    assert_eq!(env.handled(), [""; 0]);
    show(&database);
    env.run(&beside).silent();
    assert_eq!(env.handled(), ["1"]);
    assert_eq!(database.query("SELECT msg_id, read_ct FROM pgmq.a_jobs ORDER BY 1"), "1|2\n2|1");
}

fn a_message_that_somebody_else_read_meanwhile_is_left_to_them(version: Pgmq) {
    let Some((database, env)) = queue_of(version, "jobs", 2) else { return };
    let pausing = env.pausing();
    let pass = env.spawn(&format!("process --pgmq jobs --jobs 2 -- {}", sh(&pausing.script)));
    wait_until("both are read", || {
        database.query("SELECT count(*) FROM pgmq.q_jobs WHERE read_ct = 1") == "2"
    });
    pausing.wait_for_begin();
    show(&database);
    database.query("SELECT msg_id FROM pgmq.read('jobs', 60, 1)");
    database.sql("SELECT pgmq.delete('jobs', 2)");
    pausing.let_go();
    pass.ran().fails(1, &["claim lost: "]);
    assert_eq!(database.query("SELECT msg_id, read_ct FROM pgmq.q_jobs"), "1|2");
}

fn four_passes_handle_each_message_once(version: Pgmq) {
    let Some((database, env)) = queue_of(version, "jobs", 0) else { return };
    database.sql("SELECT pgmq.send('jobs', '{}'::jsonb) FROM generate_series(1, 300)");
    let log = env.noting("exit 0");
    let spawn = |number: usize| {
        let queue = number.to_string();
        env.spawn(&format!("process --pgmq jobs --queue {queue} --jobs 2 --drain -- {log}"))
    };
    for pass in (0..4).map(spawn).collect::<Vec<_>>() {
        pass.ran().silent();
    }
    let mut handled = env.handled();
    assert_eq!(handled.len(), 300);
    handled.sort_unstable();
    handled.dedup();
    assert_eq!(handled.len(), 300);
    assert_eq!(database.query("SELECT count(*), max(read_ct) FROM pgmq.a_jobs"), "300|1");
}

fn what_succeeded_is_deleted_where_that_is_wanted(version: Pgmq) {
    let Some((database, env)) = queue_of(version, "Jobs of mine", 2) else { return };
    fs::write(
        env.path("backlog.toml"),
        "[queue.mine]\npgmq = 'Jobs of mine'\non_success = 'delete'\npayload = 'message'\n\
         max_attempts = 2\nexec = ['sh', '-c', 'cat >>seen; [ $BACKLOG_ID = 1 ]']\n",
    )
    .unwrap();
    env.run("process --queue mine").silent();
    assert_eq!(env.read("seen"), "{\"n\": 1}{\"n\": 2}");
    let rows = "SELECT (SELECT count(*) FROM pgmq.\"q_jobs of mine\"), \
                (SELECT count(*) FROM pgmq.\"a_jobs of mine\")";
    assert_eq!(database.query(rows), "1|0");
    let checked = env.run("check --queue mine").success().stdout;
    assert_contains(&checked, "Jobs of mine, 1 row, 1 pending");
}

fn what_a_queue_cannot_be_asked_is_named(version: Pgmq) {
    let Some((database, env)) = queue_of(version, "jobs", 1) else { return };
    let says = |args: &str, exit: i32, says: &str| {
        env.run(&format!("process --pgmq jobs {args} -- /bin/true")).fails(exit, &[says]);
    };
    says("--ndays 1", 2, "which --ndays does not define");
    says("--shard 1/2", 2, "leave out --shard");
    says("--table orders", 2, "--table");
    says("--where 'read_ct < 2'", 2, "leave out --where");
    says("--db file.db", 2, "use --db postgres://");
    says("--set status.column=state", 2, "leave out status");
    env.run("status --pgmq mails").fails(1, &["no queue \"mails\"; queues here: jobs"]);
    database.sql("DROP SCHEMA pgmq CASCADE");
    env.run("status --pgmq jobs").fails(1, &["this database has no pgmq"]);
}

fn an_attempt_that_was_none_is_not_charged(version: Pgmq) {
    let Some((database, env)) = queue_of(version, "jobs", 2) else { return };
    for _ in 0..6 {
        let ran = env.work("jobs", "", "/nonexistent");
        ran.fails(1, &["record 1 stays as it was: could not run /nonexistent"]);
    }
    env.work("jobs", "--policy constant:delay=2h", "sh -c 'exit 75'").silent();
    let rows = "SELECT msg_id, read_ct, vt > now() FROM pgmq.q_jobs ORDER BY 1";
    assert_eq!(database.query(rows), "1|0|t\n2|0|t", "a snooze is put off, and not charged");
}

fn what_the_archive_refuses_is_found_before_a_handler_runs(version: Pgmq) {
    let Some((database, env)) = queue_of(version, "jobs", 3) else { return };
    database.sql(
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE 'the archive is closed'; END $$;
         CREATE TRIGGER no BEFORE INSERT ON pgmq.a_jobs FOR EACH ROW EXECUTE FUNCTION no()",
    );
    let ran = env.work("jobs", "", &env.noting("exit 0"));
    let says =
        "queue jobs refuses to delete or archive it: the archive is closed; no handler was started";
    ran.fails(1, &["record 1 is not tried", says]);
    assert_eq!(env.handled(), [""; 0]);
    // One message that it refuses does not take the others with it.
    database.sql(
        "DROP TRIGGER no ON pgmq.a_jobs;
         CREATE TRIGGER no BEFORE INSERT ON pgmq.a_jobs FOR EACH ROW WHEN (new.msg_id = 2) \
         EXECUTE FUNCTION no()",
    );
    let ran = env.work("jobs", "--jobs 3", &env.together(2).to_string());
    ran.fails(1, &["record 2 is not tried", "the archive is closed; no handler was started"]);
    assert_eq!(database.query("SELECT msg_id FROM pgmq.a_jobs ORDER BY 1"), "1\n3");
}

fn what_ran_out_of_attempts_is_told_whatever_its_headers_were(version: Pgmq) {
    if !version.has_headers() {
        return;
    }
    let Some((database, env)) = queue_of(version, "jobs", 0) else { return };
    for headers in ["null", "[1]", "{\"trace\": 7}"] {
        database.sql(&format!("SELECT pgmq.send('jobs', '{{}}'::jsonb, '{headers}'::jsonb)"));
    }
    env.work("jobs", "--max-attempts 1", "/bin/false").fails(1, &["archived"]);
    env.run("restore --pgmq jobs --all").success();
    let rows = "SELECT read_ct, headers FROM pgmq.q_jobs ORDER BY msg_id";
    assert_eq!(database.query(rows), "0|\n0|\n0|{\"trace\": 7}");
}

fn the_error_of_a_message_is_known_while_it_is_pending(version: Pgmq) {
    let Some((database, env)) = queue_of(version, "jobs", 2) else { return };
    let says = env.script("says", "echo \"order $BACKLOG_ID is unknown\" >&2; exit 1");
    env.work("jobs", "", &says).silent();
    let group = json(&env.run("failures --pgmq jobs --json").success().stdout);
    assert_eq!((&group["records"], &group["pattern"]), (&2.into(), &"order * is unknown".into()));
    assert_contains(&env.run("explain --pgmq jobs 2").success().stdout, ": order 2 is unknown\n");
    // Waiting messages look like those that another worker has in hand.
    show(&database);
    let archived = "archive --pgmq jobs --failure unknown --dry-run";
    assert!(env.run(archived).success().stdout.ends_with("would archive 2 records\n"));
    env.work("jobs", "", "/bin/true").silent();
    assert_eq!(database.query("SELECT count(*) FROM pgmq.q_jobs"), "0");
    assert_lacks(&env.run("list --pgmq jobs").success().stdout, "unknown");
    // The directory is a user's and a machine's: there may be other passes.
    let status = env.run("status --pgmq jobs").success().stdout;
    let state = env.path("state/backlog");
    assert_contains(&status, &format!("passes of user {} on ", text_of("id", "-un")));
    assert_contains(&status, &format!(", in {}\n", state.display()));
    assert_contains(&status, ": 2 succeeded\n");
}

#[test]
fn a_session_that_ends_at_any_statement_loses_no_message() {
    let Some(cluster) = cluster() else { return };
    let Some((database, env)) = queue("jobs", 0) else { return };
    let (handler, mut interrupted) = (env.noting("exit 0"), 0);
    // Ends with the first pass that sends fewer messages, so that no connection was cut.
    for messages in 1.. {
        database.sql(
            "TRUNCATE pgmq.q_jobs, pgmq.a_jobs;
             SELECT pgmq.send('jobs', '{}'::jsonb) FROM generate_series(1, 3)",
        );
        let (url, is_cut) = cut_once(cluster, &database, messages);
        let args = format!("process --pgmq jobs -- {handler}");
        let pass = env.command(&args).env("BACKLOG_DB", url).ran();
        let mut handled = env.handled();
        if pass.exit == Some(75) {
            assert_eq!(interrupted, 0, "{messages}: {pass:?}");
            assert_eq!(handled, [""; 0], "{messages}: {pass:?}");
            continue;
        }
        assert_eq!(pass.exit, Some(0), "{messages}: {pass:?}");
        let counts =
            "SELECT (SELECT count(*) FROM pgmq.a_jobs), (SELECT count(*) FROM pgmq.q_jobs)";
        let (archived, waiting) = (handled.len(), 3 - handled.len());
        assert_eq!(database.query(counts), format!("{archived}|{waiting}"), "{messages}: {pass:?}");
        handled.sort_unstable();
        handled.dedup();
        assert_eq!(handled.len(), archived, "{messages}: {pass:?}");
        if !is_cut() {
            break;
        }
        interrupted += 1;
    }
    assert!(interrupted > 5, "{interrupted}");
}

#[test]
fn a_session_that_ends_in_a_search_is_made_again() {
    let Some((database, env)) = queue("jobs", 2) else { return };
    let mut client = database.client();
    let mut lock = client.transaction().unwrap();
    lock.batch_execute("LOCK TABLE pgmq.q_jobs").unwrap();
    let pass = env.spawn("process --pgmq jobs -- /bin/true");
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE datname = current_database() AND wait_event_type = 'Lock'";
    wait_until("the search waits for the table", || database.query(end) == "1");
    lock.commit().unwrap();
    pass.ran().success();
    assert_eq!(database.query("SELECT count(*) FROM pgmq.a_jobs"), "2");
}

/// This test takes as long as a lease.
#[test]
fn a_pass_that_is_stopped_does_not_leave_its_handler_to_run_beside_the_next_reader() {
    let Some((database, env)) = queue("jobs", 1) else { return };
    let staying = env.staying();
    let handler = format!("--max-attempts 1 -- {}", sh(&staying.script));
    let pass = env.spawn(&format!("process --pgmq jobs {handler}"));
    staying.wait_for_begin();
    // The successor of a watchdog that dies gets the deadline.
    let watchdog = watchdog_of(&pass);
    assert!(signal("-KILL", &watchdog));
    wait_until("another watchdog", || {
        watchdog_if_any(&pass).is_some_and(|other| other != watchdog)
    });
    std::thread::sleep(Duration::from_millis(500));
    assert!(signal("-STOP", pass.id()));
    wait_for_death(&env, &staying);
    let hidden = "SELECT read_ct, vt > clock_timestamp() FROM pgmq.q_jobs";
    assert_eq!(database.query(hidden), "1|t", "nobody else could read it before that");
    assert!(signal("-CONT", pass.id()));
    pass.ran().fails(1, &["claim lost: "]);
    assert_eq!(database.query("SELECT count(*) FROM pgmq.a_jobs"), "0", "that was no failure");
    // The watchdog ended with its pass, and does not end the handlers of others.
    show(&database);
    env.work("jobs", "--max-attempts 2", "/bin/true").silent();
    assert_eq!(database.query("SELECT msg_id, read_ct FROM pgmq.a_jobs"), "1|2");
}

/// This test takes as long as a lease.
#[test]
fn a_pass_that_cannot_reach_its_server_ends_its_handlers_and_lives() {
    let Some(cluster) = Cluster::private(&[]) else { return };
    let Some((database, env)) = queue_on(&cluster, Pgmq::Newest, "jobs", 1) else { return };
    let staying = env.staying();
    let handler = format!("--max-attempts 1 -- {}", sh(&staying.script));
    let pass = env.spawn(&format!("process --pgmq jobs {handler}"));
    staying.wait_for_begin();
    cluster.stop();
    wait_for_death(&env, &staying);
    cluster.start();
    pass.ran().fails(1, &["claim lost: "]);
    assert_eq!(database.query("SELECT count(*) FROM pgmq.a_jobs"), "0", "that was no failure");
}

fn wait_for_death(env: &TestEnv, staying: &Staying) {
    let mut is_dead = Command::new(env.script("dead", &staying.is_dead));
    wait_until("the watchdog ends the handler", || {
        std::thread::sleep(Duration::from_millis(100));
        is_dead.status().unwrap().success()
    });
}

fn text_of(program: &str, arg: &str) -> String {
    let output = Command::new(program).arg(arg).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().into()
}
