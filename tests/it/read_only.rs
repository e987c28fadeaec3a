//! Commands that only read, on a server: a condition calls what it likes, and writes nothing.

use crate::testenv::*;
use test_support::cluster::{Database, cluster, pgbouncer};

/// Functions that write where they may. `break_out` tries each way out of a transaction that only
/// reads, and hides that it failed; `eager` does so while a statement is planned.
const FUNCTIONS: &str = "
CREATE TABLE spoils (what text);
CREATE SEQUENCE counter;
CREATE FUNCTION spoil(what text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN INSERT INTO spoils VALUES (what); RETURN true; END $$;
CREATE FUNCTION armed(what text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN INSERT INTO spoils VALUES (what); RETURN true; END $$;
CREATE FUNCTION break_out() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE setting text;
BEGIN
  PERFORM set_config('default_transaction_read_only', 'off', false);
  FOREACH setting IN ARRAY ARRAY['off', 'false', '0'] LOOP
    BEGIN
      PERFORM set_config('transaction_read_only', setting, false);
    EXCEPTION WHEN OTHERS THEN NULL; END;
    BEGIN
      EXECUTE 'SET TRANSACTION READ WRITE';
    EXCEPTION WHEN OTHERS THEN NULL; END;
    BEGIN
      EXECUTE 'COMMIT';
    EXCEPTION WHEN OTHERS THEN NULL; END;
    BEGIN PERFORM spoil('broken out'); EXCEPTION WHEN OTHERS THEN NULL; END;
    BEGIN PERFORM armed('broken out'); EXCEPTION WHEN OTHERS THEN NULL; END;
    BEGIN PERFORM setval('counter', 7); EXCEPTION WHEN OTHERS THEN NULL; END;
    BEGIN UPDATE backlog SET status = 'SUCCESS'; EXCEPTION WHEN OTHERS THEN NULL; END;
  END LOOP;
  PERFORM pg_notify('heard', 'it');
  RETURN true;
END $$;
CREATE FUNCTION eager(what text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN RETURN break_out(); END $$;";

#[test]
fn a_condition_that_would_write_to_a_file_cannot_in_a_command_that_only_reads() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    env.sql("CREATE VIRTUAL TABLE words USING fts4(word)");
    for word in ["'one'", "'two'", "'three'"] {
        env.sql(&format!("INSERT INTO words VALUES ({word})"));
    }
    let merges = "(SELECT optimize(words) FROM words LIMIT 1) IS NOT NULL";
    let segments = "SELECT count(*) FROM words_segdir";
    for args in READING {
        let ran = env.run_at(MIDNIGHT, &with_options(&format!("--where {}", quoted(merges)), args));
        assert_eq!(env.query(segments), "3", "{args:?}: {ran:?}");
    }
    env.pass(&format!("--ndays 1 --where {} -- true", quoted(merges)));
    assert_eq!(env.query(segments), "1");
}

/// Commands that only read.
const READING: [&str; 9] = [
    "status --fibonacci",
    "list --due --fibonacci",
    "list --json",
    "explain 1 x 2 --fibonacci",
    "check --fibonacci -- /bin/true",
    "process --fibonacci --dry-run",
    "process --progressive --dry-run --max-records 1",
    "simulate --from-table --fibonacci --for 1d",
    "archive 1 2 --dry-run",
];

fn table(database: &Database) -> TestEnv {
    let env = TestEnv::on(database);
    env.run("init").success();
    database.sql(FUNCTIONS);
    database.sql(&format!(
        "INSERT INTO backlog (date_inserted, status, failures, last_failure) VALUES
         (to_timestamp({MIDNIGHT} - 60), 'NEW', 0, NULL),
         (to_timestamp({MIDNIGHT} - 7200), 'ERROR', 1, to_timestamp({MIDNIGHT} - 3600))"
    ));
    env
}

/// Runs at midnight, against this database.
fn run(env: &TestEnv, database: &Database, args: &str, condition: Option<&str>) -> Ran {
    let condition = condition.map(|condition| format!("--where {}", quoted(condition)));
    let args = with_options(&condition.unwrap_or_default(), args);
    env.command_at(MIDNIGHT, &args).env("BACKLOG_DB", database.url()).ran()
}

/// Nothing was written, and no record is other than it was.
#[track_caller]
fn is_untouched(database: &Database, by: &str) {
    assert_eq!(database.query("SELECT DISTINCT what FROM spoils"), "", "{by}");
    assert_eq!(database.query("SELECT is_called FROM counter"), "f", "{by}");
    let statuses = database.query("SELECT id, status FROM backlog ORDER BY id");
    assert_eq!(statuses, "1|NEW\n2|ERROR", "{by}");
}

#[test]
fn a_condition_that_would_write_cannot_in_a_command_that_only_reads() {
    let Some(cluster) = cluster() else { return };
    let direct = cluster.database();
    let env = table(&direct);
    let pool = pgbouncer(cluster);
    let pooled = pool.as_ref().map(|pool| pool.database(&direct));
    for database in std::iter::once(&direct).chain(&pooled) {
        for args in READING {
            for condition in ["break_out()", "eager('planned')"] {
                let ran = run(&env, database, args, Some(condition));
                let by = format!("{args:?} where {condition}: {ran:?}");
                // One of the ids of `explain` is none.
                let exit = if args.starts_with("explain") { 1 } else { 0 };
                assert_eq!((ran.exit, &*ran.stderr), (Some(exit), ""), "{by}");
                is_untouched(&direct, &by);
            }
        }
        run(&env, database, "list", Some("spoil('list')")).fails(
            1,
            &[
                "cannot execute INSERT in a read-only transaction",
                "a command that only reads cannot use a `where` that writes",
            ],
        );
        is_untouched(&direct, "list");
    }
    // From the file as well.
    env.write("backlog.toml", "[defaults]\nwhere = \"break_out()\"\n");
    for args in READING {
        let by = run(&env, &direct, args, None);
        is_untouched(&direct, &format!("{args:?}: {by:?}"));
    }
    // What works the table off may write, whatever it calls.
    let pass = run(&env, &direct, "process --fibonacci -- /bin/true", None);
    assert_ne!(direct.query("SELECT count(*) FROM spoils"), "0", "{pass:?}");
}

#[test]
fn a_command_that_only_reads_leaves_the_sessions_of_a_pooler_as_they_were() {
    let Some(cluster) = cluster() else { return };
    let direct = cluster.database();
    let env = table(&direct);
    let Some(pool) = pgbouncer(cluster) else { return };
    let pooled = pool.database(&direct);
    let sessions = "SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity \
                    WHERE datname = current_database() AND pid <> pg_backend_pid()";
    run(&env, &pooled, "status", None).success();
    let before = direct.query(sessions);
    for args in ["list", "status", "explain 1 --fibonacci"] {
        run(&env, &pooled, args, Some("set_config('work_mem', '1MB', false) = '1MB'")).success();
    }
    assert_eq!(direct.query(sessions), before);
    assert_ne!(pooled.query("SHOW work_mem"), "1MB");
    assert_eq!(pooled.query("SHOW transaction_read_only"), "off");
}

#[test]
fn a_dry_run_by_hand_sees_what_a_pass_has_in_hand() {
    let Some(database) = database() else { return };
    let env = table(&database);
    let pausing = env.pausing();
    let args = format!("process --now @{MIDNIGHT} --ndays 1 --jobs 2 --");
    let pass = env.spawn(&format!("{args} {}", sh(&pausing.script)));
    pausing.wait_for_begin();
    let archive = run(&env, &database, "archive 1 2 --dry-run", None);
    assert_contains(&archive.stdout, "a pass is handling it");
    pausing.let_go();
    pass.ran().silent();
}
