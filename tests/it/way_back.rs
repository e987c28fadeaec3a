//! Archive and restore are each other's inverse, or the mapping is refused: a record that is given up is
//! never lost sight of.

use test_support::cluster::cluster;

use crate::testenv::*;

const TABLE: &str = "CREATE TABLE jobs (id INTEGER PRIMARY KEY, tries INTEGER NOT NULL DEFAULT 0, run_at TEXT, created TEXT,
    done TEXT, gone INTEGER NOT NULL DEFAULT 0);
  INSERT INTO jobs (id, created) VALUES (1, '2026-11-20T22:00:00Z'), (2, '2026-11-20T23:00:00Z');";

const USUAL: &str = "[defaults]\ntable = 'jobs'\ndate_inserted = 'created'\nfailures = 'tries'\nfibonacci = true\n\
    on_failure = { run_at = '{next}' }\nexec = ['true']\n";

fn on_both(config: &str, check: impl Fn(&TestEnv, &dyn Fn(&str) -> String)) {
    let write = |env: &TestEnv| {
        env.write("backlog.toml", format!("{USUAL}{config}"));
    };
    let env = TestEnv::with_schema(TABLE);
    write(&env);
    check(&env, &|sql| env.query(sql));
    let Some(cluster) = cluster() else { return skipped("archive and restore: no server") };
    let database = cluster.database();
    database.sql(TABLE);
    let env = TestEnv::on(&database);
    write(&env);
    check(&env, &|sql| database.query(sql).trim().into());
}

const ROWS: &str = "SELECT id, tries, run_at, done, gone FROM jobs ORDER BY id";

#[test]
fn a_mapping_by_which_a_record_is_lost_sight_of_is_found_by_a_rehearsal() {
    let lost = "error    rehearsal   an archived record cannot be found again: it is ";
    for (config, says) in [
        // It sets what says when a record is due, and nothing else.
        (
            "where = 'done IS NULL'\non_success = { done = '{now}' }\non_archive = { run_at = '{null}' }",
            lost,
        ),
        (
            "where = 'done IS NULL AND gone = 0'\non_success = { done = '{now}' }\non_archive = { gone = 1 }\n\
             where_archived = 'gone = 2'",
            lost,
        ),
        (
            "where = 'done IS NULL AND gone = 0'\non_success = { done = '{now}' }\non_archive = { gone = 1 }",
            lost,
        ),
        (
            "where = \"done IS NULL AND gone = 0\"\non_success = { done = '{now}' }\n\
             on_archive = { gone = 1 }\nwhere_archived = 'gone = 1'",
            "error    rehearsal   a restored record is not pending: let on_restore undo",
        ),
        // The last failure takes the record out of the queue before it is archived.
        (
            "where = 'done IS NULL AND tries < 3'\nmax_attempts = 3\non_success = { done = '{now}' }\n\
             on_archive = { gone = 1 }\nwhere_archived = 'gone = 1 AND tries < 3'\non_restore = { gone = 0 }",
            lost,
        ),
        (
            "where = 'done IS NULL AND gone = 0'\non_success = { done = '{now}', gone = 1 }\n\
             on_archive = { gone = 1 }\nwhere_archived = 'gone = 1'\non_restore = { gone = 0 }",
            "error    rehearsal   a successful record is listed as ARCHIVED",
        ),
        (
            "where = 'done IS NULL AND tries = 0'\non_success = { done = '{now}' }",
            "error    rehearsal   a failed record is no longer pending, so that nothing tries it again",
        ),
        (
            "where = \"done IS NULL AND run_at IS NOT '2999-01-01T00:00:00Z'\"\n\
             on_success = { run_at = '2999-01-01T00:00:00Z' }",
            "error    rehearsal   a successful record stays pending, ",
        ),
    ] {
        let config = config.replace(" IS NOT '2999", " IS DISTINCT FROM '2999");
        on_both(&config, |env, query| {
            let before = query(ROWS);
            let ran = env.run_at(MIDNIGHT, "check --rehearse");
            assert!(ran.exit == Some(1) && ran.stdout.contains(says), "{config}: {ran:?}");
            assert_eq!(query(ROWS), before, "everything is taken back");
        });
    }
}

#[test]
fn a_mapping_with_a_way_back_is_rehearsed_and_works() {
    let config = "where = 'done IS NULL AND gone = 0'\non_success = { done = '{now}' }\non_archive = { gone = 1 }\n\
                  where_archived = 'gone = 1'\non_restore = { gone = 0 }";
    on_both(config, |env, query| {
        let before = query(ROWS);
        let checked = env.run_at(MIDNIGHT, "check --rehearse").stdout;
        assert_lacks(&checked, "error    rehearsal");
        assert_contains(&checked, "ok       rehearsal");
        assert_eq!(query(ROWS), before);
        // The application has put one off, and another one has used up its attempts.
        query("UPDATE jobs SET run_at = '2026-12-24T00:00:00Z' WHERE id = 2 RETURNING id");
        query(
            "UPDATE jobs SET tries = 3, run_at = '2026-12-24T00:00:00Z' WHERE id = 1 RETURNING id",
        );
        env.run_at(MIDNIGHT, "archive 1 2").success();
        let listed = env.run_at(MIDNIGHT, "list --status archived").success().stdout;
        assert_eq!(listed.matches("ARCHIVED").count(), 2, "{listed}");
        let restored = env.run_at(MIDNIGHT, "restore 1 2").success().stdout;
        assert_eq!(
            restored,
            "restored 2 records\n1: next attempt in the next pass\n2: next attempt in the next pass\n"
        );
        let due = "2026-11-21T00:00:00Z||0";
        assert_eq!(query(ROWS), format!("1|0|{due}\n2|0|{due}"));
        env.run_at(MIDNIGHT, "process").silent();
        assert_eq!(query("SELECT count(*) FROM jobs WHERE done IS NOT NULL"), "2");
    });
}

#[test]
fn one_value_does_not_mean_that_a_record_has_succeeded_and_that_it_is_given_up() {
    let env = TestEnv::new();
    let status = "status={column=\"STATUS\", new=\"NEW\", error=\"ERROR\", success=\"DONE\", archived=[\"GONE\",\"DONE\"]}";
    let says = ["'DONE' cannot mean both SUCCESS and ARCHIVED"];
    env.run(&format!("status --set {}", quoted(status))).fails(2, &says);
}

#[test]
fn a_restored_record_that_no_schedule_takes_is_named() {
    let env = TestEnv::with_record(1, MIDNIGHT - 9 * 86_400);
    env.write("backlog.toml", "[defaults]\nndays = 7\n");
    env.run_at(MIDNIGHT, "archive 1").success();
    let restored = env.run_at(MIDNIGHT, "restore 1").success().stdout;
    assert_eq!(restored, "restored 1 record\n1: next attempt none: older than --ndays\n");
}

#[test]
fn a_schedule_that_does_not_fit_keeps_no_record_from_being_restored() {
    let env = TestEnv::minimal();
    env.insert_one(1, MIDNIGHT);
    env.write("backlog.toml", "[defaults]\nfibonacci = true\n");
    env.run_at(MIDNIGHT, "archive 1").success();
    let restored = env.run_at(MIDNIGHT, "restore 1").success().stdout;
    assert_eq!(restored, "restored 1 record\n");
}

#[test]
fn a_restore_that_the_table_refuses_is_found_by_a_rehearsal() {
    let schema = "CREATE TABLE jobs (id INTEGER PRIMARY KEY, tries INTEGER NOT NULL DEFAULT 0, run_at TEXT, created TEXT, done TEXT,
        gone INTEGER NOT NULL DEFAULT 0, was_gone INTEGER NOT NULL DEFAULT 0, CHECK (NOT (gone = 0 AND was_gone = 1)));
      INSERT INTO jobs (id, created) VALUES (1, '2026-11-20T22:00:00Z')";
    let config = "where = 'done IS NULL AND gone = 0'\non_success = { done = '{now}' }\non_archive = { gone = 1, was_gone = 1 }\n\
                  where_archived = 'gone = 1'\non_restore = { gone = 0 }";
    let env = TestEnv::with_schema(schema);
    env.write("backlog.toml", format!("{USUAL}{config}"));
    let checked = env.run_at(MIDNIGHT, "check --rehearse").stdout;
    let says =
        "error    rehearsal   an archived record cannot be restored: CHECK constraint failed";
    assert_contains(&checked, says);
}

#[test]
fn an_end_that_the_table_refuses_only_after_the_last_attempt_is_found_by_a_rehearsal() {
    let checked = "gone INTEGER NOT NULL DEFAULT 0, CHECK (NOT (gone = 1 AND tries >= 3)))";
    let env = TestEnv::with_schema(&TABLE.replace("gone INTEGER NOT NULL DEFAULT 0)", checked));
    let config = "max_attempts = 3\nwhere = 'done IS NULL AND gone = 0'\non_success = { done = '{now}' }\non_archive = { gone = 1 }\n\
                  where_archived = 'gone = 1'\non_restore = { gone = 0 }";
    env.write("backlog.toml", format!("{USUAL}{config}"));
    let checked = env.run_at(MIDNIGHT, "check --rehearse").stdout;
    let says = "error    rehearsal   a record cannot be archived after 3 attempts: CHECK constraint failed";
    assert_contains(&checked, says);
}

#[test]
fn no_record_is_archived_by_a_mapping_that_would_lose_it() {
    let config = "where = 'done IS NULL AND gone = 0'\non_success = { done = '{now}' }\nmax_attempts = 1\n\
                  on_archive = { gone = 1 }\nwhere_archived = 'gone = 2'\non_restore = { gone = 0 }";
    on_both(config, |env, query| {
        let before = query(ROWS);
        let lost = "an archived record cannot be found again: it is ";
        let handler = env.noting("exit 1");
        let ran = env.run_at(MIDNIGHT, &format!("process -- {handler}"));
        ran.fails(1, &["record 2 is not tried: ", lost, "; no handler was started"]);
        env.run_at(MIDNIGHT, "archive 1").fails(1, &[lost, "; nothing was archived"]);
        // Records whose attempts are used up are archived without another one.
        query("UPDATE jobs SET tries = 3 WHERE tries = 0 RETURNING id");
        let why = ["could not be set to ARCHIVED: ", lost];
        env.run_at(MIDNIGHT, &format!("process -- {handler}")).fails(1, &why);
        query("UPDATE jobs SET tries = 0 WHERE tries = 3 RETURNING id");
        assert_eq!((query(ROWS), env.handled()), (before, Vec::new()));
    });
}

#[test]
fn a_value_that_the_column_converts_to_that_of_another_status_is_found_before_a_handler() {
    let env = TestEnv::with_schema(
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY, created TEXT, state INTEGER, tries INTEGER);
         INSERT INTO jobs VALUES (1, '2026-11-20T22:00:00Z', 0, 0)",
    );
    let status = "status={column=\"state\", new=0, error=1, success=3, archived=\"+3\"}";
    let args = format!(
        "process --table jobs --set date_inserted=created --set failures=tries --ndays 9 --max-attempts 1 \
         --set {} -- {}",
        quoted(status),
        env.noting("exit 1")
    );
    env.run_at(MIDNIGHT, &args).fails(1, &["an archived record cannot be found again"]);
    assert_eq!(env.handled(), [""; 0]);
}

#[test]
fn no_handler_runs_if_its_success_would_be_listed_as_archived() {
    let config = "where = 'done IS NULL'\non_success = { done = '{now}' }\non_archive = { done = '{now}' }\n\
                  where_archived = 'done IS NOT NULL'\non_restore = { done = '{null}' }";
    on_both(config, |env, query| {
        let before = query(ROWS);
        let handler = env.noting("exit 0");
        let why =
            ["is listed as ARCHIVED, and `restore` would restore it", "no handler was started"];
        for limit in ["", "--max-attempts 5"] {
            env.run_at(MIDNIGHT, &format!("process {limit} -- {handler}")).fails(1, &why);
        }
        env.run_at(MIDNIGHT, "archive 1").fails(1, &[why[0], "; nothing was archived"]);
        assert_eq!((query(ROWS), env.handled()), (before, Vec::new()));
    });
}

#[test]
fn a_record_that_stays_pending_is_not_called_archived() {
    let env = TestEnv::with_schema(
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY, created TEXT, st TEXT, tries INT, prio INT);
         INSERT INTO jobs VALUES (1, '2026-11-20T22:00:00Z', 'n', 0, 9), (2, '2026-11-20T22:00:00Z', 'e', 0, 0)",
    );
    let status = r#"status={column="st", new="n", error="e", success="s"}"#;
    let options = format!(
        "--table jobs --set date_inserted=created --set failures=tries --set {}",
        quoted(status)
    );
    let pending = "it would still be pending";
    let dead = format!("{options} --set 'on_archive={{prio=5}}'");
    let before = env.query("SELECT * FROM jobs");
    env.run_at(MIDNIGHT, &format!("archive --all {dead}")).exits(1);
    env.sql("UPDATE jobs SET tries = 3");
    let used_up = format!("process {dead} --ndays 9 --max-attempts 3 -- true");
    env.run_at(MIDNIGHT, &used_up).fails(1, &["is not tried: ", pending]);
    env.sql("UPDATE jobs SET tries = 0");
    assert_eq!(env.query("SELECT * FROM jobs"), before);
    // One record stays in the queue, and the other leaves it.
    let moves =
        format!("archive 1 2 {options} --where 'prio <> 1' --set 'on_archive={{prio=\"{{+1}}\"}}'");
    let ran = env.run_at(MIDNIGHT, &moves).exits(1);
    assert_contains(&ran.stdout, pending);
    assert_contains(&ran.stdout, "archived 1 record");
    assert_eq!(env.query("SELECT id, prio FROM jobs"), "1|9\n2|1");
}
