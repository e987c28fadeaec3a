//! Pruning: finished records that are old enough are deleted, and no others.

use std::fs;

use crate::testenv::*;

/// One record of each status for each of 40 days. What failed did so on the day after its insertion.
const ROWS: &str =
    "WITH RECURSIVE days(day) AS (SELECT 0 UNION ALL SELECT day + 1 FROM days WHERE day < 39),
       statuses(status) AS (VALUES ('NEW'), ('ERROR'), ('SUCCESS'), ('ARCHIVED'))
     INSERT INTO BACKLOG (STATUS, DATE_INSERTED, LAST_FAILURE)
     SELECT status, DAY(day), CASE WHEN status <> 'NEW' AND day > 0 THEN DAY(day - 1) END
       FROM days, statuses ORDER BY day, status";

fn env() -> TestEnv {
    let env = TestEnv::new();
    let at = |day: &str| {
        format!("strftime('%Y-%m-%dT%H:%M:%SZ', {MIDNIGHT} - {DAY} * ({day}), 'unixepoch')")
    };
    env.sql(&ROWS.replace("DAY(day - 1)", &at("day - 1")).replace("DAY(day)", &at("day")));
    env
}

fn counts(env: &TestEnv) -> [i64; 4] {
    ["NEW", "ERROR", "SUCCESS", "ARCHIVED"].map(|status| env.count(status))
}

const BY_INSERTION: &str = "--set finished_at=DATE_INSERTED";

#[test]
fn archived_records_go_by_their_last_failure_and_others_stay() {
    let env = env();
    let prune = "prune --older-than 30d --status ARCHIVED";
    let counted = env.run_at(MIDNIGHT, &format!("{prune} -n")).success();
    assert_eq!(counted.stdout, "would delete 8 records\n");
    assert_eq!(counts(&env), [40; 4]);
    assert_eq!(env.run_at(MIDNIGHT, prune).success().stdout, "deleted 8 ARCHIVED records\n");
    assert_eq!(counts(&env), [40, 40, 40, 32]);
    let oldest = "SELECT min(LAST_FAILURE) FROM BACKLOG WHERE STATUS = 'ARCHIVED'";
    assert_eq!(env.query(oldest), "2026-10-22T00:00:00Z", "exactly 30 days is not longer ago");
}

#[test]
fn the_insertion_date_counts_where_the_queue_says_so_and_never_for_archived_records() {
    let env = env();
    let prune = "prune --older-than 30d";
    env.run_at(MIDNIGHT, prune)
        .fails(2, &["no column says when SUCCESS records were finished", "finished_at"]);
    assert_eq!(counts(&env), [40; 4], "nothing is deleted before all is known");
    let pruned = env.run_at(MIDNIGHT, &format!("{prune} {BY_INSERTION}")).success();
    assert_eq!(pruned.stdout, "deleted 9 SUCCESS records\ndeleted 8 ARCHIVED records\n");
    assert_eq!(counts(&env), [40, 40, 31, 32]);
}

#[test]
fn conditions_shards_and_other_queues_narrow_what_is_pruned() {
    let env = env();
    let prune = format!("prune --older-than 1d --status SUCCESS {BY_INSERTION}");
    let narrowed = env.run_at(MIDNIGHT, &format!("{prune} --where 'ID <= 40' --dry-run"));
    assert_eq!(narrowed.success().stdout, "would delete 8 records\n");
    let parts = ["1/2", "2/2"].map(|shard| {
        let pruned = env.run_at(MIDNIGHT, &format!("{prune} --shard {shard}")).success();
        let number: i64 = pruned.stdout.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(number > 5, "{pruned:?}");
        number
    });
    assert_eq!(parts[0] + parts[1], 38);
}

#[test]
fn a_row_that_a_condition_archives_is_pruned_by_it() {
    let env = TestEnv::with_schema(
        "CREATE TABLE outbox (id INTEGER PRIMARY KEY, created INTEGER NOT NULL, sent_at INTEGER, failed_at INTEGER);
         INSERT INTO outbox VALUES (1, 1795132800, NULL, NULL), (2, 1795132800, 1795132800, NULL),
           (3, 1795132800, NULL, 1795132800), (4, 1795132800, NULL, 1795232400)",
    );
    let config = "[queue.default]\ntable = \"outbox\"\nid = \"id\"\nstatus = false\ndate_inserted = \"created\"\n\
        where = \"sent_at IS NULL AND failed_at IS NULL\"\nwhere_archived = \"failed_at IS NOT NULL\"\n\
        on_success = { sent_at = \"{now}\" }\non_archive = { failed_at = \"{now}\" }\n\
        finished_at = \"failed_at\"\n";
    env.write("backlog.toml", config);
    let now = 1_795_132_800 + DAY + 60;
    let prune = "prune --older-than 1d";
    let success = env.run_at(now, &format!("{prune} --status success"));
    success.fails(1, &["no value of a status column of outbox means SUCCESS"]);
    let pruned = env.run_at(now, prune).success();
    assert_eq!(pruned.stdout, "deleted 1 ARCHIVED record\n");
    assert_eq!(env.query("SELECT id FROM outbox"), "1\n2\n4");
}

#[test]
fn a_record_that_was_archived_just_now_is_not_old_by_a_stale_date() {
    let env = TestEnv::with_record(1, MIDNIGHT - DAY);
    env.sql(
        "ALTER TABLE BACKLOG ADD COLUMN fin TEXT; UPDATE BACKLOG SET fin = '2020-01-01T00:00:00Z'",
    );
    let config = "[queue.default]\nndays = 9\nmax_attempts = 1\nexec = [\"false\"]\nfinished_at = \"fin\"\n\
                  on_success = { fin = \"{now}\" }\nprune_after = { SUCCESS = \"30d\", ARCHIVED = \"30d\" }\n";
    env.write("backlog.toml", config);
    env.run_at(MIDNIGHT, "process").fails(1, &["record 1 failed after 1 attempt; archived"]);
    assert_eq!(env.statuses(), "1|ARCHIVED");
    env.run_at(MIDNIGHT + 31 * DAY, "process").silent();
    assert_eq!(env.statuses(), "");
}

#[test]
fn check_says_that_the_age_of_an_archived_record_begins_with_its_last_failure() {
    let env = TestEnv::with_record(1, MIDNIGHT - DAY);
    let config =
        "[queue.default]\nndays = 9\nexec = [\"true\"]\nprune_after = { ARCHIVED = \"1y\" }\n";
    env.write("backlog.toml", config);
    let says =
        "warning  prune       the age of ARCHIVED records is counted from their last failure, ";
    assert_contains(&env.run_at(MIDNIGHT, "check").stdout, says);
    env.sql("ALTER TABLE BACKLOG ADD COLUMN done_at TEXT");
    let dated = "finished_at = \"done_at\"\non_archive = { done_at = \"{now}\" }\n";
    env.write("backlog.toml", format!("{config}{dated}"));
    assert_lacks(&env.run_at(MIDNIGHT, "check").stdout, says);
    // The archive has the date of today, although the record failed long ago.
    env.sql(
        "UPDATE BACKLOG SET STATUS = 'ERROR', FAILURES = 1, LAST_FAILURE = '2020-01-01T00:00:00Z'",
    );
    env.run_at(MIDNIGHT, "archive 1").success();
    env.run_at(MIDNIGHT + 360 * DAY, "process").silent();
    assert_eq!(env.statuses(), "1|ARCHIVED");
    env.run_at(MIDNIGHT + 370 * DAY, "process").silent();
    assert_eq!(env.statuses(), "");
}

#[test]
fn a_column_that_archiving_sets_counts_more_than_the_last_failure() {
    let env = TestEnv::with_record(1, MIDNIGHT - DAY);
    env.sql("ALTER TABLE BACKLOG ADD COLUMN done_at TEXT");
    let failed = "INSERT INTO BACKLOG (STATUS, DATE_INSERTED, FAILURES, LAST_FAILURE, done_at) VALUES \
                  ('ARCHIVED', '2026-01-01T00:00:00Z', 9, '2026-01-01T00:00:00Z', '2026-11-20T00:00:00Z'), \
                  ('ARCHIVED', '2026-01-01T00:00:00Z', 9, '2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z')";
    env.sql(failed);
    env.write(
        "backlog.toml",
        "[queue.default]\nfinished_at = \"done_at\"\non_archive = { done_at = \"{now}\" }\n",
    );
    let pruned = env.run_at(MIDNIGHT, "prune --older-than 30d --status ARCHIVED").success();
    assert_eq!(pruned.stdout, "deleted 1 ARCHIVED record\n");
    assert_eq!(env.statuses(), "1|NEW\n2|ARCHIVED");
}

#[test]
fn statuses_that_a_table_cannot_keep_are_left_out_unless_they_are_named() {
    let env =
        TestEnv::with_schema("CREATE TABLE jobs (id INTEGER PRIMARY KEY, at TEXT, done TEXT)");
    env.write(
        "backlog.toml",
        "[queue.default]\ntable = \"jobs\"\ndate_inserted = \"at\"\nstatus = false\nwhere = \"done IS NULL\"\n\
         on_success = { done = \"{now}\" }\nfinished_at = \"done\"\n",
    );
    let prune = "prune --older-than 1d";
    env.run_at(MIDNIGHT, prune).fails(1, &["table jobs keeps no finished records"]);
    let success = env.run_at(MIDNIGHT, &format!("{prune} --status SUCCESS"));
    success.fails(1, &["no value of a status column of jobs means SUCCESS"]);
    let named = env.run_at(MIDNIGHT, &format!("{prune} --status ARCHIVED"));
    named.fails(2, &["no column says when ARCHIVED records", "let on_archive set it to {now}"]);
}

#[test]
fn a_date_that_cannot_be_read_is_named_although_all_others_are_deleted() {
    let env = TestEnv::new();
    env.sql(
        "ALTER TABLE BACKLOG ADD COLUMN fin TEXT;
         INSERT INTO BACKLOG (STATUS, fin) VALUES ('SUCCESS', '2026-01-02 00:00:00'), ('SUCCESS', 'bad')",
    );
    let prune = "prune --older-than 30d --status SUCCESS --set finished_at=fin";
    let pruned = env.run_at(MIDNIGHT, prune).success();
    assert_eq!(pruned.stdout, "deleted 1 SUCCESS record\n");
    assert_contains(&pruned.stderr, "no date in fin, and never pruned: 1 SUCCESS record");
}

#[test]
fn a_row_that_is_pending_is_not_archived_by_a_condition_that_it_also_meets() {
    let env = TestEnv::with_schema(
        "CREATE TABLE job (id INTEGER PRIMARY KEY, status TEXT, created TEXT, last_failure TEXT, attempts INT);
         INSERT INTO job SELECT value, 'ERROR', '2026-01-01', '2026-01-02', value FROM json_each('[4,5,6]')",
    );
    let config = "[queue.default]\ntable = \"job\"\ndate_inserted = \"created\"\nwhere = \"attempts <> 6\"\n\
                  where_archived = \"attempts >= 5\"\n";
    env.write("backlog.toml", config);
    let prune = "prune --older-than 30d --status ARCHIVED";
    assert_eq!(env.run_at(MIDNIGHT, prune).success().stdout, "deleted 1 ARCHIVED record\n");
    assert_eq!(env.query("SELECT id FROM job"), "4\n5");
}

#[test]
fn records_without_a_date_are_named() {
    let env = env();
    env.sql("UPDATE BACKLOG SET LAST_FAILURE = NULL WHERE ID % 2 = 1");
    let pruned = env.run_at(MIDNIGHT, "prune --older-than 10d --status ARCHIVED").success();
    assert_eq!(pruned.stdout, "deleted 0 ARCHIVED records\n");
    assert_eq!(pruned.stderr, "no date in LAST_FAILURE, and never pruned: 40 ARCHIVED records\n");
}

#[test]
fn each_part_of_a_queue_is_pruned_once_an_hour() {
    let env = env();
    pruning(&env);
    env.sql("DELETE FROM BACKLOG WHERE STATUS IN ('NEW', 'ERROR')");
    for shard in ["1/2", "2/2"] {
        env.pass(&format!("--shard {shard}")).silent();
    }
    assert_eq!(counts(&env), [0, 0, 31, 40]);
}

#[test]
fn a_row_that_cannot_be_deleted_does_not_stop_the_others() {
    let env = env();
    env.sql(
        "CREATE TABLE invoice (id INTEGER PRIMARY KEY, record INTEGER REFERENCES BACKLOG);
         INSERT INTO invoice (record) SELECT ID FROM BACKLOG WHERE STATUS = 'ARCHIVED' AND ID > 150",
    );
    let pruned = env.run_at(MIDNIGHT, "prune --older-than 10d --status ARCHIVED");
    pruned
        .fails(1, &["2 records could not be deleted, such as 157: FOREIGN KEY constraint failed"]);
    assert_eq!(counts(&env), [40, 40, 40, 14]);
}

#[test]
fn many_records_are_deleted_in_batches() {
    let env = TestEnv::with_records(2_500, MIDNIGHT - 50 * DAY);
    env.sql("UPDATE BACKLOG SET STATUS = 'SUCCESS'");
    let prune = "prune --older-than 30d --status SUCCESS --set finished_at=DATE_INSERTED";
    let none = env.run_at(MIDNIGHT, &format!("{prune} --max-runtime 0s"));
    assert_eq!(none.stdout, "deleted 0 SUCCESS records\n");
    assert_contains(&none.stderr, "stopped after --max-runtime");
    let line = format!(
        "prune --older-than 30d --status SUCCESS --set finished_at=DATE_INSERTED --now @{MIDNIGHT}"
    );
    assert_contains(&env.at_terminal(100, &line, "n\n").stdout, "delete 2500 records? [y/N]");
    assert_eq!(env.count("SUCCESS"), 2_500);
    assert_eq!(env.run_at(MIDNIGHT, prune).success().stdout, "deleted 2500 SUCCESS records\n");
}

/// A queue whose passes prune.
fn pruning(env: &TestEnv) {
    let config = "[queue.default]\nndays = 1\nexec = [\"true\"]\nfinished_at = \"DATE_INSERTED\"\n\
                  prune_after = { SUCCESS = \"30d\", ARCHIVED = \"1y\" }\n";
    env.write("backlog.toml", config);
}

#[test]
fn a_pass_prunes_once_an_hour() {
    let env = env();
    pruning(&env);
    env.sql("DELETE FROM BACKLOG WHERE STATUS IN ('NEW', 'ERROR')");
    env.run_at(MIDNIGHT, "process").silent();
    assert_eq!(counts(&env), [0, 0, 31, 40]);
    env.run_at(MIDNIGHT + HOUR - 1, "process").silent();
    assert_eq!(env.count("SUCCESS"), 31);
    env.run_at(MIDNIGHT + HOUR, "process").silent();
    assert_eq!(env.count("SUCCESS"), 30);
    env.run_at(MIDNIGHT + DAY, "pause").success();
    env.run_at(MIDNIGHT + DAY, "process").silent();
    assert_eq!(env.count("SUCCESS"), 30, "not during a pause");
    env.run_at(MIDNIGHT + DAY, "resume").success();
    env.run_at(MIDNIGHT + DAY + HOUR, "process").silent();
    let again = env.run_at(MIDNIGHT + DAY, "prune").success();
    assert_eq!(again.stdout, "deleted 0 SUCCESS records\ndeleted 0 ARCHIVED records\n");
}

#[test]
fn check_names_what_pruning_lacks_and_what_it_takes_along() {
    let env = env();
    pruning(&env);
    env.sql("CREATE TABLE item (record INTEGER REFERENCES BACKLOG ON DELETE CASCADE)");
    let checked = env.run_at(MIDNIGHT, "check").stdout;
    for text in [
        "after 30d prune_after deletes SUCCESS rows of BACKLOG, and changes rows of other tables by ON DELETE \
         (item: CASCADE)",
        "no index finds SUCCESS records by their end date",
        "CREATE INDEX \"BACKLOG_success\" ON \"BACKLOG\" (\"STATUS\", \"DATE_INSERTED\");",
        "CREATE INDEX \"BACKLOG_archived\" ON \"BACKLOG\" (\"STATUS\", \"LAST_FAILURE\");",
    ] {
        assert!(checked.contains(text), "{text}\n{checked}");
    }
    env.sql("CREATE INDEX s ON BACKLOG (STATUS, DATE_INSERTED); CREATE INDEX a ON BACKLOG (STATUS, LAST_FAILURE)");
    assert_lacks(&env.run_at(MIDNIGHT, "check").stdout, "by their end date");
}

#[test]
fn ages_and_statuses_that_are_not_legal_are_refused() {
    let env = env();
    let config = "[queue.default]\nprune_after = { ERROR = \"30d\" }\n";
    env.write("backlog.toml", config);
    env.run("prune")
        .fails(2, &["prune_after", "ERROR: write { SUCCESS = \"30d\", ARCHIVED = \"1y\" }"]);
    fs::write(env.path("backlog.toml"), "[queue.default]\nprune_after = { success = 30 }\n")
        .unwrap();
    env.run("prune").fails(2, &["success: not a duration: write 30days"]);
    fs::remove_file(env.path("backlog.toml")).unwrap();
    env.run("prune").fails(2, &["how old? use --older-than 30d"]);
    env.run("prune --older-than 1d --status ERROR").fails(2, &["SUCCESS, ARCHIVED"]);
    assert_eq!(counts(&env), [40; 4]);
}

#[test]
fn a_server_prunes_too_if_the_role_may_delete() {
    let Some(database) = database() else { return };
    database.sql(
        "CREATE TABLE jobs (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), status text NOT NULL,
           date_inserted timestamptz NOT NULL, done_at timestamptz);
         INSERT INTO jobs (status, date_inserted, done_at)
           SELECT CASE n % 4 WHEN 0 THEN 'NEW' WHEN 1 THEN 'ERROR' ELSE 'SUCCESS' END,
             '2026-01-01', timestamptz '2026-11-21 00:00Z' - n * interval '1 hour'
           FROM generate_series(1, 4000) n",
    );
    let env = TestEnv::on(&database);
    let prune = "prune --table jobs --older-than 30d --set finished_at=done_at";
    let prune = format!("{prune} --status SUCCESS");
    assert_eq!(env.run_at(MIDNIGHT, &prune).success().stdout, "deleted 1640 SUCCESS records\n");
    let left = "SELECT status, count(*) FROM jobs GROUP BY 1 ORDER BY 1";
    assert_eq!(database.query(left), "ERROR|1000\nNEW|1000\nSUCCESS|360");
    let config = "[queue.default]\ntable = \"jobs\"\nndays = 1\nexec = [\"true\"]\nfinished_at = \"done_at\"\n\
                  prune_after = { SUCCESS = \"20d\" }\n";
    env.write("backlog.toml", config);
    let checked = env.run_at(MIDNIGHT, "check").stdout;
    let index = "CREATE INDEX CONCURRENTLY \"jobs_success\" ON \"public\".\"jobs\" (\"status\", \"done_at\");";
    assert_contains(&checked, index);
    env.run_at(MIDNIGHT, "process").success();
    assert_eq!(database.query("SELECT count(*) FROM jobs WHERE status = 'SUCCESS'"), "240");

    database.sql(
        "DROP ROLE IF EXISTS keeper; CREATE ROLE keeper LOGIN; GRANT SELECT, INSERT, UPDATE ON jobs TO keeper;
         UPDATE jobs SET done_at = '2026-01-01' WHERE status = 'SUCCESS'",
    );
    let keeper = TestEnv::on_as(&database, "keeper");
    fs::copy(env.path("backlog.toml"), keeper.path("backlog.toml")).unwrap();
    let checked = keeper.run_at(MIDNIGHT, "check").exits(1).stdout;
    assert!(checked.contains("error    prune") && checked.contains("DELETE"), "{checked}");
    keeper.run_at(MIDNIGHT, &prune).fails(1, &["permission denied"]);
    assert_eq!(database.query("SELECT count(*) FROM jobs WHERE status = 'SUCCESS'"), "240");
}

#[test]
fn rows_that_a_foreign_key_would_take_with_them_are_not_deleted() {
    let env = TestEnv::with_schema(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, status TEXT, at TEXT, parent INTEGER REFERENCES t (id) ON DELETE CASCADE);
         INSERT INTO t VALUES (1, 'SUCCESS', '2026-10-01T00:00:00Z', NULL), (2, 'NEW', '2026-11-20T00:00:00Z', 1)",
    );
    let table = "--table t --set date_inserted=at --set finished_at=at";
    let why = "would delete other records with it, also pending ones";
    for args in ["--dry-run", ""] {
        let prune = format!("prune --older-than 30d --status SUCCESS {table} {args}");
        env.run_at(MIDNIGHT, &prune).fails(1, &["SUCCESS records cannot be pruned", why]);
    }
    let deletes = format!("process {table} --set on_success=delete --ndays 9 -- true");
    env.run_at(MIDNIGHT, &deletes).fails(1, &[why]);
    assert_eq!(env.query("SELECT id, status FROM t"), "1|SUCCESS\n2|NEW");
}

#[test]
fn a_number_that_only_looks_like_an_old_date_prunes_no_record() {
    let ticks = (MIDNIGHT - 4 * HOUR + 62_135_596_800) * 10_000_000;
    let env = TestEnv::new();
    env.sql(&format!(
        "ALTER TABLE BACKLOG ADD COLUMN done INTEGER;
         INSERT INTO BACKLOG (ID, STATUS, DATE_INSERTED, done) VALUES (1, 'SUCCESS', '2026-11-20T00:00:00Z', {ticks});
         INSERT INTO BACKLOG (DATE_INSERTED) SELECT '2026-11-20T00:00:00Z' FROM pragma_function_list LIMIT 12"
    ));
    let prune = "prune --older-than 30d --status SUCCESS --yes --set finished_at=done";
    let why =
        ["(as ticks it is 2026-11-20T20:00:00Z)", "finished_at = { column = \"done\", format = "];
    env.run_at(MIDNIGHT, prune).fails(1, &why);
    // Beside a recent date the format is believed, but the number is no date.
    env.sql(&format!("INSERT INTO BACKLOG (STATUS, DATE_INSERTED, done) VALUES ('SUCCESS', '2026-11-20', {MIDNIGHT})"));
    let pruned = env.run_at(MIDNIGHT, prune).success();
    assert_eq!(pruned.stdout, "deleted 0 SUCCESS records\n");
    assert_contains(&pruned.stderr, "no date in done, and never pruned: 1 SUCCESS record");
    env.sql(&format!("DELETE FROM BACKLOG WHERE done = {MIDNIGHT}"));
    let named =
        prune.replace("finished_at=done", "'finished_at={column=\"done\", format=\"ticks\"}'");
    let later = env.run_at(MIDNIGHT + 40 * DAY, &named).success();
    assert_eq!(later.stdout, "deleted 1 SUCCESS record\n");
}
