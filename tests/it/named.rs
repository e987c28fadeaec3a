//! `process ID...`: the records that a person names, due or not, beside the passes of cron.

use test_support::cluster::cluster;

use crate::testenv::*;

const FAILS_ODD: &str = "-- sh -c 'echo no route >&2; exit $((BACKLOG_ID % 2))'";

fn three() -> TestEnv {
    TestEnv::with_records(3, MIDNIGHT)
}

fn named(env: &TestEnv, words: &str) -> Ran {
    env.run_at(MIDNIGHT + 1, &format!("process {words}"))
}

#[test]
fn named_records_are_tried_due_or_not_and_each_result_is_printed() {
    let env = three();
    env.sql(
        "UPDATE BACKLOG SET STATUS = 'ERROR', FAILURES = 3, LAST_FAILURE = '2026-11-21T00:00:00Z',
         LAST_ERROR = 'x' WHERE ID IN (1, 2)",
    );
    let pass = "1 2 --fibonacci --max-records 1";
    let ran = named(&env, &format!("{pass} {FAILS_ODD}")).fails(1, &[""]);
    let expected = "1: ERROR, exit 1: no route; next attempt 2026-11-21T00:03:00Z\n2: SUCCESS\n";
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), (expected, ""));
    assert_eq!(
        env.query("SELECT STATUS, FAILURES FROM BACKLOG ORDER BY ID"),
        "ERROR|4\nSUCCESS|3\nNEW|0"
    );
    // Without a schedule when it is next tried is not known.
    let ran = named(&env, &format!("1 1 3 {FAILS_ODD}")).fails(1, &[""]);
    assert_eq!(ran.stdout, "1: ERROR, exit 1: no route\n3: ERROR, exit 1: no route\n");
    let ran = named(&env, "3 --fibonacci --max-attempts 2 -- false");
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("3: ARCHIVED, exit 1: exit status 1\n", "")
    );
    // None of this was a pass.
    let status = env.run_at(MIDNIGHT + MINUTE, "status --passes 9").success().stdout;
    assert_contains(&status, "no pass is recorded");
}

#[test]
fn records_that_are_not_pending_are_left_alone_and_what_helps_is_said() {
    let env = three();
    env.sql("UPDATE BACKLOG SET STATUS = 'SUCCESS' WHERE ID = 1; UPDATE BACKLOG SET STATUS = 'ARCHIVED' WHERE ID = 2");
    let ran = named(&env, "1 2 7 -- false").fails(
        1,
        &[
            "1: is SUCCESS; --again tries it again",
            "2: is ARCHIVED; `backlog restore 2` makes it NEW",
            "7: no such record",
        ],
    );
    assert_eq!(ran.stdout, "");
    assert_eq!(named(&env, "1 --again -- true").success().stdout, "1: SUCCESS\n");
    let ran = named(&env, "1 --again -- false").fails(1, &[""]);
    assert_eq!(ran.stdout, "1: ERROR, exit 1: exit status 1\n");
    assert_eq!(env.query("SELECT STATUS, FAILURES FROM BACKLOG WHERE ID = 1"), "ERROR|1");
}

#[test]
fn named_records_are_tried_beside_a_pass_and_during_a_pause() {
    let env = three();
    let pausing = env.pausing();
    let line = "process --ndays 9999 --max-records 1";
    let mut pass = env.spawn(&format!("{line} -- {}", sh(&pausing.script)));
    pausing.wait_for_begin();
    let ran = named(&env, "1 2 3 --ndays 9999 -- true").fails(1, &[""]);
    let busy = "not tried: a pass has it in hand; try again later";
    assert_eq!(ran.stdout.matches(": SUCCESS\n").count(), 2, "{ran:?}");
    assert_eq!(ran.stdout.matches(&format!("{busy}\n")).count(), 1, "{ran:?}");
    pausing.let_go();
    assert!(pass.wait().unwrap().success());
    env.sql("UPDATE BACKLOG SET STATUS = 'NEW' WHERE ID = 1");
    env.run_at(MIDNIGHT, "pause").success();
    assert_eq!(named(&env, "1 -- true").success().stdout, "1: SUCCESS\n");
}

#[test]
fn a_server_has_named_records_too() {
    let Some(cluster) = cluster() else { return skipped("named records: no server") };
    let database = cluster.database();
    let env = TestEnv::on(&database);
    env.run("init").success();
    env.run("add 1 2 3").success();
    let ran = env.run(&format!("process 1 2 --policy even {FAILS_ODD}")).fails(1, &[""]);
    assert!(ran.stdout.starts_with("1: ERROR, exit 1: no route; next attempt "), "{ran:?}");
    assert!(ran.stdout.ends_with("\n2: SUCCESS\n"), "{ran:?}");
    let ran = env.run("process 2 --again -- false").fails(1, &[""]);
    assert_eq!(ran.stdout, "2: ERROR, exit 1: exit status 1\n");
}

#[test]
fn a_program_is_no_id() {
    let env = three();
    for args in ["true", "./sync", "--ndays 1 sh -c true", "1 ./sync"] {
        let word = args.split(' ').find(|word| ["true", "sh", "./sync"].contains(word)).unwrap();
        named(&env, args).fails(2, &[&format!("(a database is given with --db): -- {word}\n")]);
    }
    named(&env, "1").fails(2, &["no handler: "]);
}
