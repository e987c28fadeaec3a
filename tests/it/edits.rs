//! archive, restore and retry: what a person does with records by hand.

use test_support::cluster::cluster;

use crate::testenv::*;

/// One record of each status, with two failures.
fn env() -> TestEnv {
    let env = TestEnv::with_records(4, MIDNIGHT);
    env.sql(
        "UPDATE BACKLOG SET FAILURES = 2, LAST_FAILURE = '2026-11-21T00:00:00Z',
           LAST_ERROR = 'no route to host',
           STATUS = CASE ID WHEN 1 THEN 'NEW' WHEN 2 THEN 'ERROR' WHEN 3 THEN 'SUCCESS'
                    ELSE 'ARCHIVED' END",
    );
    env
}

fn rows(env: &TestEnv) -> String {
    env.query("SELECT ID, STATUS, FAILURES, LAST_FAILURE, LAST_ERROR FROM BACKLOG ORDER BY ID")
}

#[test]
fn pending_records_can_be_archived() {
    let env = env();
    let ran = env.run("archive 1 2 3 4").success();
    assert_eq!(
        ran.stdout,
        "3: is SUCCESS; left unchanged\n4: is ARCHIVED; left unchanged\narchived 2 records\n"
    );
    assert_eq!(env.statuses(), "1|ARCHIVED\n2|ARCHIVED\n3|SUCCESS\n4|ARCHIVED");
    assert!(rows(&env).contains("2|ARCHIVED|2|2026-11-21T00:00:00Z|no route to host"));
}

#[test]
fn a_command_that_a_mapping_does_not_support_is_named_beforehand() {
    let outbox = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, DATE_INSERTED TEXT, DONE TEXT);
         INSERT INTO BACKLOG VALUES (1, '2026-11-20T23:00:00Z', NULL)",
    );
    let mapping = r#"--set status=false --where 'DONE IS NULL' --set 'on_success={DONE="{now}"}'"#;
    let checked = outbox.run(&format!("check {mapping}")).stdout;
    for (command, why) in [
        (
            "retry",
            "table BACKLOG has no column that `retry` could change (last_failure, or a status for failed \
                   records); to try one record now: backlog process ID; to try all pending ones: backlog \
                   process --ndays 365",
        ),
        (
            "archive",
            "`archive` needs to know how table BACKLOG marks an archived record: name the value of the \
                     status (status.archived) or the columns to set (on_archive)",
        ),
        (
            "restore",
            "`restore` cannot tell the archived records of table BACKLOG from others: name the value of \
                     the status (status.archived) or a condition (where_archived)",
        ),
    ] {
        assert!(
            checked.contains(&format!("\nwarning  {command:<10}  {why}\n")),
            "{command}: {checked}"
        );
        let ran = outbox.run(&format!("{command} 1 {mapping}"));
        ran.fails(1, &[&format!("backlog: {why}\n")]);
    }
    let checked = env().run("check").stdout;
    for command in ["retry", "archive", "restore", "pause"] {
        assert_lacks(&checked, &format!("warning  {command}"));
    }
    let Some(cluster) = cluster() else {
        return skipped("pause without a state directory: no server");
    };
    let database = cluster.database();
    database.sql(POSTGRES_SCHEMA);
    let server = TestEnv::on(&database);
    let checked = server.run("check").stdout;
    assert_contains(&checked, "\nwarning  pause       with a server, a pause is stored in");
    assert_lacks(&server.run("check --state-dir state").stdout, "warning  pause");
}

#[test]
fn archived_records_can_be_restored_and_twice_changes_nothing() {
    let env = env();
    let ran = env.run("restore 2 4").success();
    assert_eq!(ran.stdout, "2: is ERROR; left unchanged\nrestored 1 record\n");
    assert!(rows(&env).ends_with("4|NEW|0||no route to host"), "{}", rows(&env));
    let before = rows(&env);
    let again = env.run("restore 4").success();
    assert_eq!(again.stdout, "4: is NEW; left unchanged\nrestored 0 records\n");
    assert_eq!(rows(&env), before);
}

#[test]
fn all_archived_records_or_those_of_a_condition_can_be_restored() {
    let env = TestEnv::with_records(1_000, MIDNIGHT);
    env.sql(
        "UPDATE BACKLOG SET STATUS = 'ARCHIVED', LAST_ERROR = CASE WHEN ID % 4 = 0
           THEN 'timeout' ELSE 'refused' END WHERE ID > 10",
    );
    let condition = r#"restore --all --where "LAST_ERROR = 'timeout' OR 0 -- all""#;
    let ran = env.run(&format!("{condition} --dry-run")).success();
    assert!(ran.stdout.starts_with("12: ARCHIVED -> NEW\n"), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("would restore 248 records\n"), "{}", ran.stdout);
    assert_eq!(env.count("ARCHIVED"), 990);
    assert_eq!(env.run(condition).success().stdout, "restored 248 records\n");
    assert_eq!(env.run("restore --all").success().stdout, "restored 742 records\n");
    let none = "restored 0 records: no ARCHIVED record matches\n";
    assert_eq!(env.run("restore --all").success().stdout, none);
    let none = "made due 0 records: no ERROR record matches; --status chooses others\n";
    assert_eq!(env.run("retry --all").success().stdout, none);
    let due = "1: is NEW already; nothing to change\nmade due 0 records\n";
    assert_eq!(env.run("retry 1").success().stdout, due);
    let commas = "1,2: no such record; separate ids with blanks, not commas\nrestored 0 records\n";
    assert_eq!(env.run("restore 1,2").stdout, commas);
    assert_eq!(env.count("NEW"), 1_000);
    env.run("restore --all --where 'NO_SUCH = 1'").fails(1, &["NO_SUCH"]);
    env.run("restore").fails(2, &["which records?", "their ids", "--all"]);
    env.run("restore 1 --all").fails(2, &["--all"]);
    env.sql("UPDATE BACKLOG SET STATUS = 'ARCHIVED' WHERE ID = 1");
    let ran = env.run("restore 1 --where 'ID > 1'").success();
    let outside = "1: is ARCHIVED, but not in the queue; left unchanged\nrestored 0 records\n";
    assert_eq!(ran.stdout, outside);
}

#[test]
fn a_condition_narrows_and_never_widens() {
    let env = env();
    for (condition, says) in [
        ("1) OR (1", "\"1) OR (1\" is not a condition in SQL: near \")\""),
        ("1 THEN 1 END; DROP TABLE BACKLOG; --", "is not a condition in SQL"),
        ("odd", "no such column: odd"),
        ("ID = ?", "write values, not parameters"),
        ("ID = :id", "write values, not parameters"),
        ("", "the condition is empty"),
        (" ", "the condition is empty"),
    ] {
        env.run(&format!("restore --all --where {}", quoted(condition))).fails(1, &[says]);
    }
    assert_eq!(env.statuses(), "1|NEW\n2|ERROR\n3|SUCCESS\n4|ARCHIVED");
}

#[test]
fn a_typed_number_is_the_id_with_the_same_digits_or_none() {
    let env = env();
    env.sql("INSERT INTO BACKLOG (ID) VALUES (1000), (9007199254740992), (9007199254740993), (-9223372036854775808)");
    let before = env.statuses();
    for typed in
        ["1e3", "1000.0", "9007199254740993.0", "9.007199254740993e15", "-9223372036854775809"]
    {
        env.run(&format!("archive -- {typed}")).fails(1, &[]);
        assert_eq!(env.statuses(), before, "{typed}");
    }
    env.run("archive 01000 9007199254740993").success();
    let archived = "SELECT ID FROM BACKLOG WHERE STATUS = 'ARCHIVED' AND ID > 4 ORDER BY ID";
    assert_eq!(env.query(archived), "1000\n9007199254740993");
}

#[test]
fn an_id_typed_twice_is_one_record() {
    let env = env();
    assert_eq!(env.run("archive 2 1 2").success().stdout, "archived 2 records\n");
}

#[test]
fn an_id_that_is_not_unique_hides_no_other() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID TEXT, STATUS TEXT, DATE_INSERTED TEXT);
         INSERT INTO BACKLOG VALUES ('a', 'ERROR', '2026-11-20'), ('a', 'ERROR', '2026-11-20'),
           ('b', 'ERROR', '2026-11-20')",
    );
    let twice = "a: more than one row has this id\n";
    let ran = env.run("explain a b --progressive");
    assert!(ran.exit == Some(1) && ran.stdout.starts_with(&format!("{twice}record b: ERROR")));
    let ran = env.run("archive a b");
    assert_eq!((ran.exit, ran.stdout), (Some(1), format!("{twice}archived 1 record\n")));
}

#[test]
fn a_retry_is_due_now_and_keeps_its_count() {
    let env = env();
    let ran = env.run("retry 2 3 4").success();
    assert_eq!(ran.stdout, "3: is SUCCESS; left unchanged\nmade due 2 records\n");
    let limited = format!("process --fibonacci --max-attempts 3 -- {}", env.noting("exit 1"));
    env.run_at(MIDNIGHT + 1, &limited).fails(1, &["record 4 failed after 3 attempts; archived"]);
    assert_eq!(env.handled().len(), 3, "1 is NEW anyway");
    assert_eq!(env.query("SELECT DISTINCT FAILURES FROM BACKLOG WHERE ID <> 3"), "3");
}

#[test]
fn a_record_that_is_not_there_is_said() {
    let env = env();
    for command in ["archive", "restore", "retry"] {
        let ran = env.run(&format!("{command} 99 x -7")).exits(1);
        let missing = "99: no such record\nx: no such record\n-7: no such record\n";
        assert!(ran.stdout.starts_with(missing), "{ran:?}");
    }
}

#[test]
fn a_record_in_the_hands_of_a_pass_is_left_to_it() {
    let env = env();
    let pausing = env.pausing();
    let mut child =
        env.spawn(&format!("process --ndays 9999 --max-records 1 -- {}", sh(&pausing.script)));
    pausing.wait_for_begin();
    let ran = env.run("archive 1");
    assert_eq!(
        (ran.exit, &*ran.stdout),
        (
            Some(75),
            "1: a pass is handling it; try again later, or end its handler: backlog stop 1\n\
             archived 0 records\n"
        )
    );
    pausing.let_go();
    child.wait().unwrap();
    assert_eq!(env.count("SUCCESS"), 2);
}

#[test]
fn text_ids_and_tables_without_a_counter_can_be_mended() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID TEXT PRIMARY KEY, STATUS TEXT, DATE_INSERTED TEXT);
         INSERT INTO BACKLOG VALUES ('it''s', 'ERROR', '2026-11-20'), ('7', 'ARCHIVED', '2026-11-20')",
    );
    assert_eq!(env.run(r#"archive "it's""#).success().stdout, "archived 1 record\n");
    assert_eq!(env.run("restore 7").success().stdout, "restored 1 record\n");
    assert_eq!(env.statuses(), "7|NEW\nit's|ARCHIVED");
}

#[test]
fn an_explanation_foretells_what_passes_do() {
    for args in [
        "--policy even",
        "--policy sidekiq --max-attempts 6",
        "--policy list:0s,0s,10m",
        "--policy exponential:first=1s,base=2,max=10m,jitter=30%",
        "--fibonacci",
        "--policy even --by-age",
        "--progressive --every 1m",
    ] {
        let env = TestEnv::with_record(42, MIDNIGHT);
        env.run_at(MIDNIGHT + 5, &format!("process {args} -- false")).silent();
        let ran = env.run_at(MIDNIGHT + 30, &format!("explain 42 {args}")).success();
        let foretold: Vec<String> = ran
            .stdout
            .lines()
            .filter(|line| line.contains(", attempt "))
            .map(|line| line.trim_start_matches("  next").trim()[..20].to_string())
            .collect();
        assert_eq!(foretold.len(), 5, "{}", ran.stdout);
        for minute in 1.. {
            let now = MIDNIGHT + minute * MINUTE;
            env.run_at(now, &format!("process {args} --joblog joblog -- false"));
            let tried = std::fs::read_to_string(env.path("joblog")).unwrap_or_default();
            if tried.lines().count() == 5 {
                for (line, at) in tried.lines().zip(&foretold) {
                    assert!(
                        line.contains(&format!("\"started_at\":\"{at}\"")),
                        "{line}: {at}, {args:?}"
                    );
                }
                break;
            }
            assert!(minute < 600, "{foretold:?}: {tried}");
        }
    }
}

#[test]
fn an_explanation_says_that_passes_catch_up() {
    let env = TestEnv::new();
    // Its slot is at ten minutes past each hour.
    env.insert_one(7, MIDNIGHT - 3 * 86_400);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
    env.pass("--progressive -- false").silent();
    let awake = env.run_at(MIDNIGHT + 300, "explain 7 --progressive").success();
    assert_lacks(&awake.stdout, "were missed");
    let slept = MIDNIGHT + 12 * 3_600;
    let ran = env.run_at(slept, "explain 7 --progressive").success();
    let missed = "passes of this line were missed; each pass makes up 4 ticks, and the next pass gets \
                  to 2026-11-21T00:25:00Z\n";
    assert_contains(&ran.stdout, missed);
    // The first pass after the sleep works off what came until 00:20.
    env.run_at(slept, "process --progressive -- false").silent();
    env.sql("UPDATE BACKLOG SET LAST_FAILURE = NULL");
    let ran = env.run_at(slept + 60, "explain 7 --progressive").success();
    assert_contains(&ran.stdout, "last pass   2026-11-21T12:00:00Z: was due; ");
}

#[test]
fn an_explanation_blames_no_pass_for_an_attempt_by_hand_and_misses_the_next() {
    let env = TestEnv::with_record(7, MIDNIGHT);
    let process = |at, more: &str| env.run_at(at, &format!("process --fibonacci {more} -- false"));
    process(MIDNIGHT, "").silent();
    let explain = |at| env.run_at(at, "explain 7 --fibonacci").success().stdout;
    let failed = "last pass   2026-11-21T00:00:00Z: tried; it failed or was put off at 2026-";
    assert!(explain(MIDNIGHT + 30).contains(failed), "{}", explain(MIDNIGHT + 30));
    process(MIDNIGHT + 40, "7").fails(1, &[""]);
    let explained = explain(MIDNIGHT + 3 * 3_600);
    for line in [
        "last pass   2026-11-21T00:00:00Z: ended before the record was tried by hand or by another \
         line at 2026-11-21T00:00:40Z\n",
        "passes      none has begun for 3 h: is cron running, is the line installed?\n",
    ] {
        assert_contains(&explained, line);
    }
}

#[test]
fn an_explanation_says_why() {
    let env = env();
    env.run_at(MIDNIGHT + 30, "process --fibonacci --max-records 1 -- true").silent();
    let explain = |id: &str, now, args: &str| {
        env.run_at(now, &format!("explain {id} {args}")).success().stdout
    };
    let waiting = explain("2", MIDNIGHT + 50, "--fibonacci");
    for part in [
        "record 2: ERROR, inserted 2026-11-21T00:00:00Z, 2 attempts failed, the last at 2026-11-21T00:00:00Z: no route to host\n",
        "last pass   2026-11-21T00:00:30Z: not tried: waited until 2026-11-21T00:01:00Z\n",
        "now         2026-11-21T00:00:50Z: waits until 2026-11-21T00:01:00Z\n",
        "after failure 2 it waits 1m\n",
        "rounded to 1 tick of 1m: from 2026-11-21T00:00:00Z, the tick of its last failure, to 2026-11-21T00:01:00Z\n",
        "next        2026-11-21T00:01:00Z, attempt 3\n",
    ] {
        assert!(waiting.contains(part), "{part}\nis not in\n{waiting}");
    }
    let archived = explain("4", MIDNIGHT, "--fibonacci");
    let back = "not tried: is ARCHIVED\n  way back    backlog restore 4\n";
    assert!(archived.ends_with(back), "{archived}");
    assert_contains(&explain("1", MIDNIGHT, "--fibonacci"), "not tried: is SUCCESS");
    let over = explain("2", MIDNIGHT + 120, "--fibonacci --max-attempts 2");
    assert_contains(&over, "had its last attempt; the next pass archives it");
    let old = explain("2", MIDNIGHT + 9 * 86_400, "--progressive --max-age 7days");
    assert_contains(&old, "older than --max-age; the next pass archives it");
    let once = explain("2", MIDNIGHT + 3 * 86_400, "--progressive --max-attempts 1");
    assert_contains(&once, "2 of 1 attempt failed");
    let by_age = explain("2", MIDNIGHT + 3 * 86_400, "--progressive");
    assert_contains(&by_age, "it is 3d old: up to 7d it is tried once in every 1h");
    env.run("explain 99 --fibonacci").exits(1);
}

#[test]
fn a_retry_of_all_means_what_failed_and_not_what_was_given_up() {
    let env = env();
    env.run("retry").fails(2, &["which records? name their ids, or choose them by --all"]);
    assert_eq!(env.run("retry --all").success().stdout, "made due 1 record\n");
    assert_eq!(env.statuses(), "1|NEW\n2|NEW\n3|SUCCESS\n4|ARCHIVED");
    assert_eq!(env.run("retry --all --status archived").success().stdout, "made due 1 record\n");
    env.run("retry --all --status success")
        .fails(2, &["--status SUCCESS: nothing to make due there; use one of ERROR, ARCHIVED"]);
    env.run("retry 2 --all").fails(2, &["--all"]);
}

#[test]
fn records_are_chosen_by_age_and_condition() {
    let env = TestEnv::with_record(1, MIDNIGHT - 8 * DAY);
    env.insert_one(2, MIDNIGHT - 7 * DAY);
    env.insert_one(3, MIDNIGHT);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR' WHERE ID > 1");
    let old = "archive --older-than 7days";
    let ran = env.run_at(MIDNIGHT, &format!("{old} --dry-run")).success();
    assert_eq!(ran.stdout, "1: NEW -> ARCHIVED\nwould archive 1 record\n");
    let ran = env.run_at(MIDNIGHT + 1, &format!("{old} --status error")).success();
    assert_eq!(ran.stdout, "archived 1 record\n");
    assert_eq!(env.statuses(), "1|NEW\n2|ARCHIVED\n3|ERROR");
    assert_eq!(env.run("archive --where 'ID = 3'").success().stdout, "archived 1 record\n");
    // A condition of the file narrows, and does not choose.
    env.write("backlog.toml", "[defaults]\nwhere = \"ID < 3\"\n");
    env.run("restore").fails(2, &["which records?"]);
    assert_eq!(env.run("restore --all").success().stdout, "restored 1 record\n");
    assert_eq!(env.statuses(), "1|NEW\n2|NEW\n3|ARCHIVED");
}

#[test]
fn a_record_of_another_shard_is_left_alone() {
    let env = TestEnv::with_records(6, MIDNIGHT);
    let mut left = 0;
    for shard in ["1/2", "2/2"] {
        let ran = env.run(&format!("archive --shard {shard} 1 2 3 4 5 6")).success();
        left += ran.stdout.matches("is in another shard; left unchanged").count();
    }
    assert_eq!((env.count("ARCHIVED"), left), (6, 6));
}

#[test]
fn a_person_at_a_terminal_is_asked_before_many_records_change() {
    let env = TestEnv::with_records(1_001, MIDNIGHT);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
    let answered =
        |answer: &str, command: &str| env.at_terminal(80, command, answer).exits(0).stdout;
    let said = answered("n\n", "retry --all");
    assert_contains(&said, "make due 1001 records? [y/N] ");
    assert!(said.ends_with("nothing was changed\r\n"), "{said}");
    assert_eq!(env.count("ERROR"), 1_001);
    assert!(answered("", "retry --all --dry-run").ends_with("would make due 1001 records\r\n"));
    assert!(answered("y\n", "retry --all").ends_with("made due 1001 records\r\n"));
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
    assert_eq!(answered("", "retry --all --yes"), "made due 1001 records\r\n");
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
    assert_eq!(env.run("retry --all").success().stdout, "made due 1001 records\n");
}

#[test]
fn a_success_that_deletes_its_row_and_others_is_announced() {
    let deletes = "a success deletes its row of jobs";
    let changes = "and changes rows of other tables by ON DELETE";
    for (references, expected) in [
        ("", deletes.to_string()),
        (
            "CREATE TABLE parts (job INTEGER REFERENCES jobs(id) ON DELETE CASCADE);
             CREATE TABLE notes (job INTEGER REFERENCES jobs(id) ON DELETE SET NULL);
             CREATE TABLE others (job INTEGER REFERENCES jobs(id));",
            format!("{deletes}, {changes} (notes: SET NULL, parts: CASCADE)"),
        ),
    ] {
        let schema = format!(
            "CREATE TABLE jobs (id INTEGER PRIMARY KEY, created TEXT);
             INSERT INTO jobs VALUES (1, '2026-11-20T23:00:00Z'); {references}"
        );
        let config = "[defaults]\ntable = 'jobs'\ndate_inserted = 'created'\nstatus = false\nwhere = 'id > 0'\n\
                      on_success = 'delete'\nndays = 1\nexec = ['true']\n";
        let check = |env: &TestEnv| {
            env.write("backlog.toml", config);
            let checked = env.run_at(MIDNIGHT, "check").stdout;
            assert_contains(&checked, &format!("warning  on_success  {expected}\n"));
            let ran = env.pass("--dry-run").success();
            assert_eq!(ran.stderr, format!("{expected}\n"));
            assert!(ran.stdout.starts_with('1'), "{ran:?}");
        };
        check(&TestEnv::with_schema(&schema));
        let Some(cluster) = cluster() else {
            return skipped("rows that go with others: no server");
        };
        let database = cluster.database();
        database.sql(&schema);
        check(&TestEnv::on(&database));
    }
}
