//! `status --warn-if` and `--fail-if`: figures held to limits, as monitoring plugins have it.

use crate::testenv::*;
use test_support::cluster::Cluster;

fn status(env: &TestEnv, now: i64, words: &str) -> Ran {
    env.run_at(now, &format!("status --fibonacci {words}"))
}

/// An exit code, and one line that says all of this.
#[track_caller]
fn answers(ran: &Ran, exit: i32, line: &str) {
    assert_eq!((ran.exit, &*ran.stdout, &*ran.stderr), (Some(exit), &*format!("{line}\n"), ""));
}

fn with_a_failure() -> TestEnv {
    let env = TestEnv::with_records(3, MIDNIGHT);
    env.pass("--fibonacci -- sh -c '[ $BACKLOG_ID != 3 ]'").silent();
    env
}

#[test]
fn the_exit_code_says_how_bad_it_is_and_one_line_why() {
    let env = with_a_failure();
    let limits = "--warn-if oldest_due>10m --fail-if oldest_due>1h,archived_24h>0";
    let at = |now| status(&env, now, limits);
    answers(&at(MIDNIGHT), 0, "OK: oldest_due 0s, archived_24h 0");
    answers(&at(MIDNIGHT + 12 * MINUTE), 1, "WARNING: oldest_due 11m (>10m)");
    answers(&at(MIDNIGHT + 2 * HOUR), 2, "CRITICAL: oldest_due 1h 59m (>1h)");
}

#[test]
fn each_figure_is_what_its_name_says() {
    let env = with_a_failure();
    env.run_at(MIDNIGHT + HOUR, "process --policy list:1m --max-attempts 2 -- false")
        .fails(1, &["archived"]);
    env.insert_one(7, MIDNIGHT + HOUR);
    env.insert_one(8, MIDNIGHT + 2 * HOUR);
    let now = MIDNIGHT + 3 * HOUR;
    for (limit, exit) in [
        ("due>1", 2),
        ("due>2", 0),
        ("due>=2", 2),
        ("due<2", 0),
        ("due<=2", 2),
        ("oldest_due>119m", 2),
        ("oldest_due>2h", 0),
        ("pending>1", 2),
        ("oldest_pending>2h", 0),
        ("oldest_pending>=2h", 2),
        ("failed>0", 0),
        ("archived>0", 2),
        ("archived_24h>0", 2),
        ("failed_24h>2", 0),
        ("failed_24h>1", 2),
        ("succeeded_24h<3", 2),
        ("succeeded_24h<2", 0),
        ("last_pass>2h", 0),
        ("last_pass>119m", 2),
        ("last_success>119m", 2),
        ("hung_lines>0", 0),
        ("overdue_lines>0", 0),
    ] {
        let ran = status(&env, now, &format!("--fail-if {limit}"));
        assert_eq!(ran.exit, Some(exit), "{limit}: {}", ran.stdout);
    }
    // A line that came every quarter of an hour, and then no more, is overdue.
    for quarter in 0..5 {
        env.run_at(now + quarter * 15 * MINUTE, "process --policy list:1d -- true").silent();
    }
    answers(
        &status(&env, now + 3 * HOUR, "--fail-if overdue_lines>0"),
        2,
        "CRITICAL: overdue_lines 1 (>0); 1 archived in 24 h",
    );
    // A day later nothing of it is of the last 24 hours.
    answers(&status(&env, now + 24 * HOUR, "--fail-if archived_24h>0"), 0, "OK: archived_24h 0");
}

#[test]
fn what_cannot_be_told_is_unknown() {
    let env = with_a_failure();
    answers(
        &env.run_at(MIDNIGHT, "status --fail-if due>0"),
        3,
        "UNKNOWN: due: no schedule says what is due: use --ndays, --fibonacci, --policy or --progressive",
    );
    answers(
        &env.run_at(MIDNIGHT, "status --warn-if due>0 --fail-if due>9,pending>=1"),
        2,
        "CRITICAL: due: no schedule says what is due: use --ndays, --fibonacci, --policy or --progressive, \
         pending 1 (>=1)",
    );
    let wrong = status(&env, MIDNIGHT, "--warn-if oldst_due>1h");
    assert_eq!(wrong.exit, Some(3));
    assert!(wrong.stdout.starts_with(
        "UNKNOWN: --warn-if: no figure \"oldst_due\"; use one of pending, oldest_pending, due"
    ));
    let gone = status(&env, MIDNIGHT, "--table GONE --fail-if due>0");
    assert_eq!(gone.exit, Some(3));
    assert!(gone.stdout.starts_with("UNKNOWN: ") && gone.stdout.contains("no table \"GONE\""));
    let elsewhere = status(&env, MIDNIGHT, "--db none.db --fail-if due>0");
    assert_eq!(elsewhere.exit, Some(3));
    assert_eq!(elsewhere.stdout.lines().count(), 1);
    assert_eq!(status(&env, MIDNIGHT, "--config none.toml --fail-if due>0").exit, Some(3));
}

#[test]
fn a_pause_is_told_to_whom_an_alarm_wakes() {
    let env = with_a_failure();
    env.run_at(MIDNIGHT, "pause --reason 'moving house'").success();
    let said = status(&env, MIDNIGHT + HOUR, "--fail-if due>0").stdout;
    assert!(
        said.starts_with("CRITICAL: due 1 (>0); paused since 2026-11-21T00:00:00Z by "),
        "{said}"
    );
    assert!(said.ends_with(": moving house; `backlog resume` ends it\n"), "{said}");
}

#[test]
fn a_queue_of_which_no_pass_is_known_has_none_for_longer_than_any_limit() {
    let env = TestEnv::new();
    answers(
        &status(&env, MIDNIGHT, "--fail-if last_pass>7days"),
        2,
        "CRITICAL: last_pass never (>7d)",
    );
}

#[test]
fn the_worst_of_all_queues_counts() {
    let env = with_a_failure();
    let queue = |name: &str, table: &str| format!("[queue.{name}]\ntable = '{table}'\n");
    let toml = [
        String::from("[defaults]\ndb = 'test.db'\nfibonacci = true\n"),
        queue("mails", "BACKLOG"),
        queue("hooks", "BACKLOG"),
    ];
    let run = |toml: &str, limits: &str| {
        env.write("backlog.toml", toml);
        let now = format!("@{}", MIDNIGHT + HOUR);
        env.command(&format!("status --now {now} {limits}")).env_remove("BACKLOG_DB").ran()
    };
    let (both, one_gone) = (toml.concat(), toml.concat() + &queue("gone", "GONE"));
    answers(&run(&both, "--fail-if due>9"), 0, "OK: queue mails: due 1; queue hooks: due 1");
    let ran = run(&one_gone, "--fail-if due>9");
    assert_eq!(ran.exit, Some(3));
    assert!(ran.stdout.starts_with("UNKNOWN: queue gone: ") && !ran.stdout.contains("mails"));
    let ran = run(&one_gone, "--warn-if due>0");
    assert_eq!(ran.exit, Some(1));
    assert!(
        ran.stdout
            .starts_with("WARNING: queue mails: due 1 (>0); queue hooks: due 1 (>0); queue gone: ")
    );
}

#[test]
fn a_server_is_asked_for_the_figures_of_the_limits_only() {
    let Some(cluster) = Cluster::private(&["log_statement=all"]) else { return };
    let database = cluster.database();
    let env = TestEnv::on(&database);
    env.run("init").success();
    env.run("add 1 2").success();
    // Counts, and scans of all pending records, that a limit costs.
    let asked = |limit: &str, exit: i32, says: &str| {
        let before = cluster.log().len();
        let ran = env.run(&format!("status --fibonacci --fail-if {limit}"));
        assert!(ran.exit == Some(exit) && ran.stdout.contains(says), "{ran:?}");
        let log = cluster.log().split_off(before);
        let of_table: Vec<_> = log.lines().filter(|line| line.contains("\"backlog\"")).collect();
        let has = |text: &str| of_table.iter().filter(|line| line.contains(text)).count();
        (log.contains("statement: "), has("count(*)"), has("ORDER BY"))
    };
    assert_eq!(asked("pendin>1", 3, "no figure \"pendin\""), (false, 0, 0));
    assert_eq!(asked("pending>1,archived>0", 2, "pending 2 (>1)"), (true, 1, 0));
    assert_eq!(asked("due>1", 2, "due 2 (>1)"), (true, 0, 1));
    assert_eq!(asked("failed>0", 0, "failed 0"), (true, 0, 1));
    assert_eq!(asked("oldest_pending>1h,pending>5", 0, "pending 2"), (true, 1, 1));
    assert_eq!(asked("failed_24h>0,paused>0", 0, "failed_24h 0, paused 0"), (true, 0, 0));
}
