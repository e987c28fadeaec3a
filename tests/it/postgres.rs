//! A table on a PostgreSQL server: every command, and every type of column.

use crate::testenv::*;

#[test]
fn add_inserts_10_000_lines_in_one_statement() {
    let Some((database, env)) = server_with(
        "CREATE TYPE state AS ENUM ('NEW', 'ERROR', 'SUCCESS', 'ARCHIVED'); \
         CREATE TABLE backlog (id serial, status state, date_inserted timestamp, payload json); \
         CREATE TABLE statements (); \
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN INSERT INTO statements DEFAULT VALUES; RETURN NULL; END'; \
         CREATE TRIGGER note AFTER INSERT ON backlog EXECUTE FUNCTION note()",
    ) else {
        return;
    };
    let lines: String = (1..=25_000).map(|id| format!("{{\"id\":{id}}}\n")).collect();
    env.run_with_input("add -", lines.as_bytes()).success();
    let added = "SELECT count(*) FILTER (WHERE status = 'NEW' AND date_inserted IS NOT NULL \
                 AND payload ->> 'id' = id::text) FROM backlog";
    assert_eq!(database.query(added), "25000");
    assert_eq!(database.query("SELECT count(*) FROM statements"), "3");
}

#[test]
fn every_command_does_on_a_server_what_it_does_on_a_file() {
    let Some((database, env)) = server_with_table() else { return };
    let again = env.run("init");
    again.fails(1, &["table BACKLOG already exists in postgres://"]);
    let said = env.run(r#"add '{"order":1}' '{"order":2}' '{"order":3}'"#).success();
    assert_eq!(said.stdout, "added 3 records\n");
    env.run_with_input("add -", b"[4]\n\n[5]\n").success();
    database.sql("UPDATE backlog SET date_inserted = '2026-11-21T00:00:00Z'");

    let fails = env.script("fails", "cat >&2; [ $BACKLOG_ID != 2 ]");
    env.pass(&format!("--fibonacci -- {fails}")).silent();
    assert_eq!(
        database.query("SELECT id, status, failures, last_failure FROM backlog ORDER BY id"),
        "1|SUCCESS|0|\n2|ERROR|1|2026-11-21 00:00:00+00\n3|SUCCESS|0|\n4|SUCCESS|0|\n5|SUCCESS|0|"
    );
    // What is JSON in the table is JSON for the handler, and times are as JSON has them.
    let error = database.query("SELECT last_error FROM backlog WHERE id = 2");
    assert_eq!(
        error,
        "{\"id\":2,\"status\":\"NEW\",\"date_inserted\":\"2026-11-21T00:00:00+00:00\",\
         \"payload\":{\"order\": 2},\"failures\":0,\"last_failure\":null,\"last_error\":null}"
    );
    let waits = env.run_at(MIDNIGHT + 30, "process --fibonacci --dry-run").success();
    assert_eq!(waits.stdout, "2           wait     until 2026-11-21T00:01:00Z\n");
    let explained = env.run_at(MIDNIGHT + 30, "explain 2 9 x --fibonacci").exits(1);
    assert_contains(&explained.stdout, "after failure 1 it waits 1m");
    assert_contains(&explained.stdout, "9: no such record\nx: no such record\n");

    let status = env.run_at(MIDNIGHT + DAY, "status --fibonacci --json").success();
    let status = status.json();
    assert_eq!(status["due"], 1, "{status}");
    let listed = env.run("list --status ERROR --json").success();
    assert!(listed.stdout.starts_with("{\"id\":2,\"status\":\"ERROR\""), "{listed:?}");

    let said = env.run("archive 2 1").success().stdout;
    assert_eq!(said, "1: is SUCCESS; left unchanged\narchived 1 record\n");
    let said = env.run(r#"restore --all --where "last_error LIKE '%order%'""#).success();
    assert_eq!(said.stdout, "restored 1 record\n");
    assert_eq!(
        database.query("SELECT status, failures, last_failure FROM backlog WHERE id = 2"),
        "NEW|0|"
    );
    env.pass("--fibonacci -- /bin/false").silent();
    env.run("retry 2").success();
    let drawn = env.run("simulate --from-table --progressive --for 2d").success();
    assert_contains(&drawn.stdout, "progressive");
    env.run("process --progressive -- /bin/true").silent();
    let mut lines = env.command("crontab --progressive -- /bin/true");
    lines.env("PGAPPNAME", "from cron").env("PGPASSWORD", "sesame");
    let ran = lines.ran().success();
    let note = "PGPASSWORD is left out: write the password into ~/.pgpass\n";
    assert_eq!(ran.stderr, format!("backlog: {note}"));
    let lines = ran.stdout;
    assert_contains(&lines, &format!("# {note}"));
    assert_contains(&lines, "postgres://postgres@/test_");
    assert_contains(&lines, "\nPGAPPNAME=\"from cron\"\n");
    let state = format!("--state-dir {}", env.path("state/backlog").display());
    assert!(lines.contains(&state) && !lines.contains("sesame"), "{lines}");
}

#[test]
fn records_are_due_by_age_by_slot_and_by_count() {
    let Some((database, env)) = server_with_table() else { return };
    database.sql(&format!(
        "INSERT INTO backlog (date_inserted, status, failures, last_failure)
         SELECT to_timestamp({MIDNIGHT} - n * 3600), CASE n % 2 WHEN 0 THEN 'NEW' ELSE 'ERROR' END,
         n % 2, CASE n % 2 WHEN 1 THEN to_timestamp({MIDNIGHT} - n) END
         FROM generate_series(1, 60) n"
    ));
    let log = env.noting("exit 1");
    env.pass(&format!("--ndays 1 -- {log}")).all_failed();
    assert_eq!(env.handled(), (1..=24).map(|id| id.to_string()).collect::<Vec<_>>());
    env.pass(&format!("--ndays 2.5 --min-ndays 2 -- {log}")).all_failed();
    assert_eq!(env.handled(), (49..=60).map(|id| id.to_string()).collect::<Vec<_>>());
    // All but 25 to 48 have just failed; of those some failed before, in another minute.
    env.pass(&format!("--fibonacci -- {log}")).all_failed();
    assert_eq!(env.handled(), (25..=48).map(|id| id.to_string()).collect::<Vec<_>>());
    env.run_at(MIDNIGHT + MINUTE, &format!("process --fibonacci --order oldest -- {log}"))
        .all_failed();
    assert_eq!(env.handled().len(), 60);
    let args = format!("process --policy even --by-age --drain -- {log}");
    // The first pass of a line takes up no slots; the next one works off those since.
    env.run_at(MIDNIGHT, &args).all_failed();
    assert_eq!(env.handled(), [""; 0]);
    env.run_at(MIDNIGHT + DAY, &args).all_failed();
    let handled = env.handled();
    assert!((50..=60).contains(&handled.len()), "{handled:?}");
}

#[test]
fn dates_are_found_in_a_column_of_numbers_whatever_its_size() {
    for (declared, factor) in [
        ("integer", 1),
        ("seconds", 1),
        ("bigint", 1),
        ("bigint", 1_000_000_000),
        ("numeric(12, 0)", 1),
        ("numeric(13, 0)", 1_000),
        ("double precision", 1),
    ] {
        let Some((database, env)) = server_with_table() else { return };
        database.sql(&format!(
            "CREATE DOMAIN seconds AS integer CHECK (VALUE >= 0); DROP TABLE backlog;
             CREATE TABLE backlog (id bigint PRIMARY KEY, status text DEFAULT 'NEW',
             date_inserted {declared}, failures int, last_failure integer);
             INSERT INTO backlog (id, date_inserted)
             SELECT n, ({MIDNIGHT} - n * {DAY} / 2)::numeric * {factor} FROM generate_series(1, 6) n;
             INSERT INTO backlog (id, date_inserted) VALUES (7, 0)"
        ));
        let log = env.noting("exit 1");
        for (args, expected) in
            [("--ndays 1", &["1", "2"][..]), ("--min-ndays 1 --ndays 2", &["3", "4"])]
        {
            let ran = env.pass(&format!("{args} -- {log}"));
            assert_eq!(ran.exit, Some(0), "{declared}: {ran:?}");
            assert_eq!(env.handled(), expected, "{declared}");
        }
        let ran = env.pass(&format!("--progressive -- {log}"));
        assert_eq!(ran.exit, Some(0), "{declared}: {ran:?}");
        assert_eq!(env.handled()[..2], ["5", "6"], "{declared}");
        let status = env.run_at(MIDNIGHT, "status --progressive");
        assert_eq!(status.exit, Some(0), "{declared}: {status:?}");
        let found = env.run_at(MIDNIGHT, "check --progressive -- /bin/true");
        assert_contains(&found.stdout, "1 pending record without a readable");
        let last = "SELECT DISTINCT last_failure FROM backlog WHERE id < 7";
        assert_eq!(database.query(last), MIDNIGHT.to_string(), "{declared}");
    }
}

#[test]
fn no_age_is_told_of_numbers_that_are_too_small_for_an_instant() {
    let Some((database, env)) = server_with_table() else { return };
    database.sql(
        "ALTER TABLE backlog ALTER date_inserted DROP DEFAULT, ALTER date_inserted TYPE smallint USING 7;
         INSERT INTO backlog (id, date_inserted) VALUES (1, 7)",
    );
    env.pass("--ndays 1 -v -- /bin/true").fails(0, &["1 pending record is not tried", "1 with 7"]);
}

#[test]
fn no_attempt_is_counted_where_something_else_stands() {
    for (name, declared, value, found) in [
        ("failures", "jsonb", "'[1]'", "it is jsonb and holds [1]"),
        ("failures", "boolean", "true", "it is boolean and holds true"),
        ("failures", "text", "NULL", "it is text, and"),
        ("failures", "varchar(9)", "'3'", "it is character varying(9) and holds '3'"),
        ("failures", "timestamptz", "'2026-11-20'", "it is timestamp with time zone, and"),
        ("failures", "bigint", "1795132800", "it holds 1795132800"),
        ("last_failure", "text", "'no route'", "it holds 'no route'"),
        ("last_failure", "json", "NULL", "it is json, and"),
        ("last_failure", "boolean", "false", "it is boolean and holds false"),
        ("last_failure", "bytea", "'x'", "it is bytea and holds x'78'"),
        ("last_failure", "integer", "7", "it holds 7"),
    ] {
        let Some((database, env)) = server_with(&format!(
            "CREATE TABLE backlog (id int PRIMARY KEY, status text DEFAULT 'NEW', \
             date_inserted timestamptz DEFAULT now(), {name} {declared});
             INSERT INTO backlog (id, {name}) VALUES (1, {value})"
        )) else {
            return;
        };
        let log = env.noting("exit 1");
        env.run(&format!("process --ndays 9 -- {log}")).fails(1, &[name, "table backlog", found]);
        assert_contains(&env.run("check").exits(1).stdout, found);
        assert_eq!(env.handled(), [""; 0]);
        let kept = format!(
            "SELECT count(*) FROM backlog WHERE {name}::text IS NOT DISTINCT FROM {value}::{declared}::text"
        );
        assert_eq!(database.query(&kept), "1");
    }
    let Some((database, env)) = server_with_table() else { return };
    database.sql(
        "ALTER TABLE backlog ALTER last_failure TYPE text; INSERT INTO backlog (id, last_failure) \
         VALUES (1, '2026-11-20T00:00:00Z'), (2, ''), (3, NULL)",
    );
    env.run("process --ndays 9 -- /bin/true").silent();
}

#[test]
fn a_limited_pass_goes_on_behind_the_last_one() {
    let Some((database, env)) = server_with_table() else { return };
    database.sql(
        "INSERT INTO backlog (date_inserted, status)
         SELECT '2026-11-20'::timestamptz + n % 4 * interval '1 s', 'ERROR'
         FROM generate_series(1, 10) n",
    );
    let log = env.noting("exit 1");
    for expected in [["7", "3", "10"], ["6", "2", "9"], ["5", "1", "8"], ["4", "7", "3"]] {
        env.pass(&format!("--ndays 1 --max-records 3 -- {log}")).silent();
        assert_eq!(env.handled(), expected);
    }
    for order in ["4", "8", "1"] {
        let args = "process --ndays 1 --max-records 1 --order oldest";
        env.run_at(MIDNIGHT, &format!("{args} --queue other -- {log}")).silent();
        assert_eq!(env.handled(), [order]);
    }
}

/// A row of each type, as other software has them; `{}` is an id that is not NULL.
const TYPES: &str = "
CREATE SCHEMA \"App\";
CREATE TYPE \"App\".\"State\" AS ENUM ('pending', 'failed', 'sent', 'dead');
CREATE DOMAIN counter AS integer CHECK (VALUE >= 0);
CREATE TABLE \"App\".\"Out Box\" (
  \"Id\"        uuid PRIMARY KEY,
  \"State\"     \"App\".\"State\" NOT NULL DEFAULT 'pending',
  \"CreatedAt\" timestamp NOT NULL,
  tries         counter,
  \"TriedAt\"   timestamp,
  why           varchar(12),
  body          jsonb,
  price         numeric(10, 2) DEFAULT 12.50,
  ratio         real DEFAULT 0.1,
  raw           bytea DEFAULT '\\x00ff',
  tags          text[] DEFAULT '{a,\"b c\"}',
  is_urgent     boolean DEFAULT true,
  day           date DEFAULT '2026-11-20',
  plain         json DEFAULT '{\"b\":  1}'
);
INSERT INTO \"App\".\"Out Box\" (\"Id\", \"CreatedAt\", body) VALUES
  ('6fa459ea-ee8a-3ca4-894e-db77e160355e', '2026-11-21 00:30:00', '{\"to\": \"it''s\"}'),
  ('0d2c2e0a-0000-4000-8000-000000000002', '2026-11-19 00:30:00', NULL);";

#[test]
fn columns_of_every_type_are_worked_with() {
    let Some((database, env)) = server_with(TYPES) else { return };
    let table = "'--table=App.Out Box' --set=id=Id --set=status.column=State \
                 --set=status.new=pending --set=status.error=failed --set=status.success=sent \
                 --set=status.archived=dead --set=date_inserted.column=CreatedAt \
                 --set=date_inserted.zone=+02:00 --set=failures=tries --set=last_failure=TriedAt \
                 --set=last_error=why";
    let run = |args: &str| env.run_at(MIDNIGHT, &with_options(table, args));
    let said = run("check --fibonacci -- /bin/true");
    assert_contains(&said.stdout, "status = State \"App\".\"State\"");
    // At 00:30 there it was 22:30 the day before here.
    let log = env.script("log", "cat >>json; echo too long a message >&2; exit 1");
    run(&format!("process --ndays 1 -- {log}")).silent();
    let json = env.read("json");
    assert_eq!(
        json,
        "{\"Id\":\"6fa459ea-ee8a-3ca4-894e-db77e160355e\",\"State\":\"pending\",\
         \"CreatedAt\":\"2026-11-21T00:30:00\",\"tries\":null,\"TriedAt\":null,\"why\":null,\
         \"body\":{\"to\": \"it's\"},\"price\":12.50,\"ratio\":0.1,\"raw\":\"00FF\",\
         \"tags\":\"{a,\\\"b c\\\"}\",\"is_urgent\":true,\"day\":\"2026-11-20\",\
         \"plain\":{\"b\":  1}}\n"
    );
    let rows = || {
        database.query(
            "SELECT \"Id\", \"State\", tries, \"TriedAt\", why FROM \"App\".\"Out Box\" ORDER BY 1",
        )
    };
    assert_eq!(
        rows(),
        "0d2c2e0a-0000-4000-8000-000000000002|pending|||\n\
         6fa459ea-ee8a-3ca4-894e-db77e160355e|failed|1|2026-11-21 02:00:00|too long a m"
    );
    let upper = "6FA459EA-EE8A-3CA4-894E-DB77E160355E";
    let explained = run(&format!("explain --fibonacci {upper}")).success();
    assert_contains(&explained.stdout, "until 2026-11-21T00:01:00Z");
    let env_shown = env.script("show", "echo $BACKLOG_STATUS $1 $2 >>shown");
    run(&format!("process --policy even --by-age -- {env_shown} {{Price}} {{{{none}}}}")).silent();
    assert_eq!(env.read("shown"), "NEW 12.50 {none}\n");
    run(&format!("archive {upper}")).success();
    run("restore --all").success();
    run("process --ndays 1 --set payload=body -- cat").silent();
    assert_eq!(
        rows(),
        "0d2c2e0a-0000-4000-8000-000000000002|sent|||\n\
         6fa459ea-ee8a-3ca4-894e-db77e160355e|sent|0||too long a m"
    );
    assert_contains(&run("status").success().stdout, "SUCCESS      1     1 ");

    let wrong = env.run(
        "status '--table=app.out box' --set=status.column=State \
                         --set=status.new=new --set=status.error=failed --set=status.success=sent \
                         --set=id=Id --set=date_inserted.column=CreatedAt",
    );
    wrong.fails(
        1,
        &["NEW cannot be 'new' in column State", "use one of pending, failed, sent, dead"],
    );
}

#[test]
fn a_boolean_or_a_null_can_be_the_status() {
    let Some((database, env)) = server_with(
        "CREATE TABLE hooks (id text PRIMARY KEY, done boolean, failed boolean DEFAULT false, \
         created date NOT NULL DEFAULT '2026-11-20');
         INSERT INTO hooks VALUES ('a', false), ('b,c', false), ('d', true), ('e', NULL);
         CREATE TABLE outbox (region text, n int, sent_at timestamptz, created bigint, \
         PRIMARY KEY (region, n));
         INSERT INTO outbox SELECT 'eu', n, NULL, 1795219200000 - n FROM generate_series(1, 3) n",
    ) else {
        return;
    };
    let hooks = "--table=hooks --set=status.column=done --set=status.new=false \
                 --set=status.error=0 --set=status.success=1";
    let hooks = format!("{hooks} --set=date_inserted.column=created --ndays=2");
    let process = format!("process {hooks} -- {}", env.noting("[ $BACKLOG_ID = a ]"));
    env.run_at(MIDNIGHT, &process).silent();
    assert_eq!(database.query("SELECT id, done FROM hooks ORDER BY 1"), "a|t\nb,c|f\nd|t\ne|");

    std::fs::write(
        env.path("backlog.toml"),
        "[queue.outbox]\ntable = 'outbox'\nid = ['region', 'n']\ndate_inserted = 'created'\n\
         where = 'sent_at IS NULL'\non_success = { sent_at = '{now}' }\nndays = 1\n\
         exec = ['sh', '-c', 'test $BACKLOG_ID != eu,2']\n\
         [queue.broken]\ntable = 'outbox'\nid = ['region', 'n']\ndate_inserted = 'created'\n\
         where = 'sent_at IS NULL'\non_success = { created = 7 }\nndays = 1\n\
         [queue.gone]\ntable = 'outbox'\nid = ['region', 'n']\ndate_inserted = 'created'\n\
         where = 'sent_at IS NULL'\non_success = 'delete'\nndays = 1\n",
    )
    .unwrap();
    env.pass("--queue outbox").silent();
    assert_eq!(
        database.query("SELECT n, sent_at FROM outbox ORDER BY 1"),
        "1|2026-11-21 00:00:00+00\n2|\n3|2026-11-21 00:00:00+00"
    );
    env.pass("--queue broken -- /bin/true").fails(1, &["on_success cannot set created"]);
    env.pass("--queue gone -- /bin/true").silent();
    assert_eq!(database.query("SELECT n FROM outbox ORDER BY 1"), "1\n3");
}

#[test]
fn what_a_table_refuses_is_found_before_a_handler_runs() {
    let Some((database, env)) = server_with_table() else { return };
    database.sql("INSERT INTO backlog (id) VALUES (1), (2)");
    let log = env.noting("exit 0");
    for (refusal, says) in [
        ("ADD CONSTRAINT no CHECK (status <> 'SUCCESS')", "violates check constraint"),
        (
            "DROP CONSTRAINT no, ADD COLUMN done int, ADD CONSTRAINT no CHECK (status <> 'ERROR')",
            "violates check constraint",
        ),
    ] {
        database.sql(&format!("ALTER TABLE backlog {refusal}"));
        let ran = env.run(&format!("process --ndays 1 -- {log}"));
        ran.fails(1, &[says, "no handler was started"]);
        assert_eq!(env.handled(), [""; 0]);
    }
    database.sql(
        "ALTER TABLE backlog DROP CONSTRAINT no;
         CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         CREATE TRIGGER quiet BEFORE UPDATE ON backlog FOR EACH ROW EXECUTE FUNCTION nothing()",
    );
    let ran = env.run(&format!("process --ndays 1 -- {log}"));
    ran.fails(1, &["the table ignored the change"]);
    assert_eq!(database.query("SELECT DISTINCT status FROM backlog"), "NEW");
    // A row that is refused does not take the others' outcomes with it.
    database.sql(
        "DROP TRIGGER quiet ON backlog;
         INSERT INTO backlog (id) VALUES (3), (4);
         ALTER TABLE backlog ADD CONSTRAINT no CHECK (id <> 3 OR status <> 'SUCCESS') NOT VALID",
    );
    let handler = env.together(3);
    let ran = env.run(&format!("process --ndays 1 --jobs 4 -- {handler}"));
    ran.fails(1, &["record 3 is not tried", "no handler was started"]);
    let statuses = database.query("SELECT id, status FROM backlog WHERE id <> 3 ORDER BY 1");
    assert_eq!(statuses, "1|SUCCESS\n2|SUCCESS\n4|SUCCESS");
}

#[test]
fn a_row_that_the_application_changes_meanwhile_is_left_to_it() {
    let Some((database, env)) = server_with_table() else { return };
    database.sql("INSERT INTO backlog (id) VALUES (1), (2), (3)");
    let pausing = env.pausing();
    let child = env.spawn(&format!(
        "process --ndays 1 --jobs 3 -v --where 'payload IS NULL' -- {}",
        sh(&pausing.script)
    ));
    pausing.wait_for_begin();
    wait_until("all three run", || {
        database.query("SELECT count(*) FROM backlog WHERE status = 'ERROR'") == "3"
    });
    database.sql(
        "UPDATE backlog SET status = 'SUCCESS' WHERE id = 1; DELETE FROM backlog WHERE id = 2;
         UPDATE backlog SET payload = '1' WHERE id = 3",
    );
    pausing.let_go();
    let ran = child.ran().exits(0);
    for id in 1..=3 {
        let says = format!("record {id} was changed or deleted by the application");
        assert_contains(&ran.stderr, &says);
    }
    assert_eq!(database.query("SELECT id, status FROM backlog ORDER BY 1"), "1|SUCCESS\n3|ERROR");
}

#[test]
fn what_cannot_be_used_is_named() {
    let Some((database, env)) = server_with_table() else { return };
    database.sql("CREATE VIEW v AS SELECT * FROM backlog; INSERT INTO backlog (id) VALUES (1)");
    let says = |args: &str, says: &[&str]| {
        env.run(&format!("list {args}")).fails(1, says);
    };
    says("--table orders", &["no table \"orders\"; tables here: backlog"]);
    says("--table v", &["v is a view"]);
    says("--set id=nr", &["table backlog has no column nr; it has id, status,"]);
    says(
        "--set date_inserted.column=payload",
        &["column payload of table backlog holds no date: it is jsonb"],
    );
    for condition in
        ["1) OR (1", "id = 7; DROP TABLE backlog", "nr = 7", "id = $1", "count(*) > 1", ""]
    {
        let ran = env.run(&format!("restore --all --where {}", quoted(condition)));
        assert_eq!(ran.exit, Some(1), "{condition}: {ran:?}");
        assert!(ran.stderr.contains("condition"), "{condition}: {ran:?}");
    }
    for (condition, says) in [
        ("id > ", "`id > ` is not a condition: it ends too early"),
        ("id IN (7", "`id IN (7` is not a condition: it ends too early"),
        (
            "payload = 'é",
            "`payload = 'é` is not a condition: a quote or comment in it is not closed",
        ),
        ("id > 7 /* or", "is not a condition: a quote or comment in it is not closed"),
        ("id", "is not a condition in SQL: it must be type boolean, not type bigint"),
    ] {
        let ran =
            env.run(&format!("restore --all --where {}", quoted(condition))).fails(1, &[says]);
        assert!(!ran.stderr.contains("THEN") && !ran.stderr.contains("WHEN"), "{}", ran.stderr);
    }
    env.run("restore --all --where 'id = 7 -- or so'").success();
    let url = database.url();
    let nobody = url.replace("postgres@", "nobody%20here:sesame@");
    for (db, exit, words) in [
        (url.replace("/test_", "/none_"), 1, "does not exist"),
        (nobody, 1, "nobody here"),
        ("postgres://u:sesame@localhost:1/db?connect_timeout=2".into(), 75, "localhost:1"),
        ("postgres://u:sesame@localhost/db?sslmod=off".into(), 2, "sslmod"),
        ("postgres://u:sesame@local host:x/db".into(), 2, ""),
    ] {
        let ran = env.run(&format!("status --db {}", quoted(&db)));
        assert_eq!(ran.exit, Some(exit), "{db}: {ran:?}");
        assert!(ran.stderr.contains(words) && ran.stderr.lines().count() == 1, "{db}: {ran:?}");
        assert_lacks(&ran.stderr, "sesame");
    }
}

#[test]
fn no_password_leaves_the_program() {
    let Some((database, env)) = server_with_table() else { return };
    let url = database.url().replace("postgres@", "postgres:sesame@");
    for args in [
        "status",
        "check -- /bin/true",
        "crontab --progressive -- /bin/true",
        "process --ndays 1 -vv -- /bin/true",
        "list --table none",
    ] {
        let ran = env.run(&with_options(&format!("--db {url}"), args));
        assert!(!format!("{ran:?}").contains("sesame"), "{ran:?}");
    }
}

#[test]
fn shards_share_the_records_of_a_table() {
    let Some((database, env)) = server_with_table() else { return };
    database.sql("INSERT INTO backlog (id) SELECT n FROM generate_series(1, 90) n");
    let log = env.noting("exit 0");
    let mut all = Vec::new();
    for shard in ["1/3", "2/3", "3/3"] {
        env.run(&format!("process --ndays 1 --shard {shard} -- {log}")).silent();
        let handled = env.handled();
        assert!(handled.len() > 15, "{shard}: {handled:?}");
        all.extend(handled);
        let other = env.run(&format!("process --ndays 1 --shard {shard} --dry-run"));
        assert_lacks(&other.stdout, "try ");
    }
    assert_eq!(all.len(), 90);
    assert_eq!(database.query("SELECT DISTINCT status FROM backlog"), "SUCCESS");
}

#[test]
fn what_looks_like_a_connection_string_is_not_shown_again() {
    let env = TestEnv::empty();
    for db in [
        " postgres://u:sesame@h/db",
        "postgres:/u:sesame@h/db",
        "postgres//u:sesame@h/db",
        "pg://u:sesame@h/db",
        "mysql://u:sesame@h/db",
        "host=h user=u password=sesame",
    ] {
        let ran = env.run(&format!("status --db {}", quoted(db)));
        assert_lacks(&ran.stderr, "sesame");
        ran.fails(2, &[" postgres://user@host:port/database\n"]);
    }
    // A directory may have that name.
    env.run("status --db postgres/app.db").fails(1, &["no database at postgres/app.db"]);
}

#[test]
fn what_triggers_make_of_a_charge_is_no_change_by_the_application() {
    let Some((database, env)) = server_with_table() else { return };
    database.sql(
        "ALTER TABLE backlog ADD COLUMN touched timestamptz DEFAULT now();
         INSERT INTO backlog (id) VALUES (1);
         CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN new.touched = clock_timestamp(); RETURN new; END $$;
         CREATE TRIGGER touch BEFORE UPDATE ON backlog FOR EACH ROW EXECUTE FUNCTION touch()",
    );
    let log = env.noting("exit 0");
    let process = format!(r#"process --ndays 1 --where "touched < 'tomorrow'" -- {log}"#);
    env.run(&process).silent();
    // The same after the update, where what the statement returns does not show it, and in the date.
    database.sql(
        "UPDATE backlog SET status = 'NEW'; DROP TRIGGER touch ON backlog;
         CREATE FUNCTION touch_later() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN UPDATE backlog SET touched = clock_timestamp() WHERE id = new.id; RETURN NULL; END $$;
         CREATE TRIGGER touch AFTER UPDATE ON backlog FOR EACH ROW
         WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION touch_later()",
    );
    env.run(&process).silent();
    database.sql("UPDATE backlog SET status = 'NEW'");
    env.run(&format!("process --ndays 1 --set date_inserted.column=touched -- {log}")).silent();
    assert_eq!(env.handled(), ["1", "1", "1"]);
    assert_eq!(database.query("SELECT status FROM backlog"), "SUCCESS");
}

#[test]
fn only_what_a_condition_names_is_guarded() {
    let Some((database, env)) = server_with(
        "CREATE TABLE w (id int PRIMARY KEY, n int DEFAULT 0, kind text DEFAULT 'error', error int, \
         status text DEFAULT 'NEW', date_inserted timestamptz DEFAULT now(), \"Kind\" text);
         INSERT INTO w VALUES (1), (2)",
    ) else {
        return;
    };
    let change = format!("UPDATE w SET n = n + 1, error = 7, {} WHERE id = ", "\"Kind\" = 'x'");
    let script =
        env.script("change", "echo $BACKLOG_ID >>seen; while [ ! -e go ]; do sleep 0.01; done");
    let args = format!(
        r#"process --table w --ndays 1 --jobs 2 --where "kind = 'error' and id > 0" -- {script}"#
    );
    let pass = env.spawn(&args);
    let seen = env.path("seen");
    wait_until("both run", || {
        std::fs::read_to_string(&seen).is_ok_and(|text| text.lines().count() == 2)
    });
    database.sql(&format!("{change} 1; UPDATE w SET kind = 'done' WHERE id = 2"));
    env.write("go", "");
    pass.ran();
    assert_eq!(database.query("SELECT id, status FROM w ORDER BY 1"), "1|SUCCESS\n2|NEW");
}

#[test]
fn no_name_of_a_table_is_one_of_ours() {
    for name in ["given", "held", "wanted", "freed", "g0", "order"] {
        let Some((database, env)) = server_with(&format!(
            "CREATE TABLE \"{name}\" (id text PRIMARY KEY, status text DEFAULT 'NEW', \"Status\" text, \
             date_inserted timestamptz DEFAULT now(), key int, n int, given int);
             INSERT INTO \"{name}\" (id) VALUES ('it''s'), ('a\\b'), ('c,d'), ('ü'), ('')"
        )) else {
            return;
        };
        env.run(&format!("process --table {name} --ndays 1 --jobs 3 -- /bin/true")).silent();
        assert_eq!(database.query(&format!("SELECT DISTINCT status FROM \"{name}\"")), "SUCCESS");
    }
}

#[test]
fn a_settlement_that_is_cancelled_or_locked_out_is_tried_again() {
    let Some((database, env)) = server_with_table() else { return };
    database.sql("INSERT INTO backlog (id) VALUES (1)");
    let pausing = env.pausing();
    let pass = env.spawn(&format!("process --ndays 1 -- {}", sh(&pausing.script)));
    pausing.wait_for_begin();
    let mut application = database.client();
    application.batch_execute("BEGIN; SELECT FROM backlog WHERE id = 1 FOR UPDATE").unwrap();
    pausing.let_go();
    let waiting = "SELECT pid FROM pg_stat_activity WHERE application_name = 'backlog' \
                   AND wait_event_type = 'Lock' AND datname = current_database()";
    for _ in 0..2 {
        wait_until("the settlement waits", || !database.query(waiting).is_empty());
        database.query(&format!("SELECT pg_cancel_backend(({waiting}))"));
    }
    application.batch_execute("COMMIT").unwrap();
    pass.ran().silent();
    assert_eq!(database.query("SELECT status FROM backlog"), "SUCCESS");
}

#[test]
fn check_names_missing_indexes_and_privileges() {
    let Some((database, env)) = server_with(
        "CREATE TABLE orders (id bigint PRIMARY KEY, status text DEFAULT 'NEW', \
         date_inserted timestamptz DEFAULT now(), failures int, last_failure timestamptz, note text);
         CREATE INDEX ON orders (date_inserted);
         INSERT INTO orders (id) SELECT n FROM generate_series(1, 1000) n;
         DROP ROLE IF EXISTS clerk; CREATE ROLE clerk LOGIN;
         GRANT SELECT, UPDATE (status) ON orders TO clerk",
    ) else {
        return;
    };
    let check = "check --table orders --fibonacci -- /bin/true";
    let found = env.run(check).success().stdout;
    let statements: Vec<_> = found.lines().filter_map(|line| line.split_once("CREATE")).collect();
    assert_eq!(statements.len(), 2, "{found}");
    for (_, statement) in statements {
        database.sql(&format!("CREATE{statement}"));
    }
    assert_contains(&env.run(check).success().stdout, "ok       index ");
    let url = database.url().replace("postgres@", "clerk@");
    let checked = env.command(check).env("BACKLOG_DB", &url).ran().exits(1);
    let says = "GRANT UPDATE (failures, last_failure) ON \"public\".\"orders\" is missing";
    assert_contains(&checked.stdout, says);
    let process = "process --table orders --fibonacci -- /bin/true";
    let refused = env.command(process).env("BACKLOG_DB", &url).ran();
    refused.fails(1, &["permission denied for table orders; grant it to this user"]);
    database
        .sql("REVOKE SELECT ON orders FROM clerk; GRANT SELECT (id, status) ON orders TO clerk");
    let checked = env.command(check).env("BACKLOG_DB", &url).ran();
    assert_eq!((checked.exit, checked.stderr.as_str()), (Some(1), ""), "{checked:?}");
    let missing = "date_inserted, failures, last_failure, note";
    for line in [
        &*format!("GRANT SELECT ({missing}) ON \"public\".\"orders\" is missing"),
        "permission denied for table orders; grant it to this user (while reading the pending records",
        "ok       table       orders, 1000 rows, at least 0 pending",
        "ok       schedule    --fibonacci",
        "ok       handler     /bin/true",
    ] {
        assert_contains(&checked.stdout, line);
    }
    let narrowed = with_options("--where 'failures > 3'", check);
    let checked = env.command(&narrowed).env("BACKLOG_DB", &url).ran();
    assert_eq!((checked.exit, checked.stderr.as_str()), (Some(1), ""), "{checked:?}");
    for line in [
        "permission denied for table orders; GRANT SELECT ON \"public\".\"orders\" is missing\n",
        "ok       handler     /bin/true",
    ] {
        assert_contains(&checked.stdout, line);
    }
    database.sql("GRANT SELECT ON orders TO clerk");
    database.sql("GRANT UPDATE (failures, last_failure) ON orders TO clerk");
    env.command(process).env("BACKLOG_DB", &url).ran().silent();
    database.sql("DROP OWNED BY clerk; DROP ROLE clerk");
}

#[test]
fn an_index_that_is_read_from_one_end_to_the_other_finds_nothing_pending() {
    let Some((database, env)) = server_with(
        "CREATE TABLE t (id int PRIMARY KEY, status text DEFAULT 'NEW', date_inserted timestamptz, \
         other int NOT NULL, done text)",
    ) else {
        return;
    };
    let missing = "no index finds pending records: the whole table is read for that";
    let by_condition = r#"--set=status=false "--set=on_success={done='x'}" '--where=done IS NULL'"#;
    for (index, options, is_fine) in [
        ("(other, status, date_inserted, id)", "", false),
        ("(date_inserted, id) WHERE status IN ('NEW', 'ERROR')", "", true),
        ("(status, date_inserted, id)", "", true),
        ("(other, date_inserted, done)", by_condition, false),
        ("(date_inserted, id) WHERE done IS NULL", by_condition, true),
    ] {
        database.sql(&format!("CREATE INDEX i ON t {index}"));
        let check = format!("check --table=t --ndays=1 {options} -- /bin/true");
        let found = env.run(&check).stdout;
        assert_eq!(found.contains(missing), !is_fine, "{index}: {found}");
        let statements = found.lines().filter_map(|line| line.split_once("CREATE"));
        statements.for_each(|(_, statement)| database.sql(&format!("CREATE{statement}")));
        let found = env.run(&check).stdout;
        assert!(found.contains("ok       index "), "{index}: {found}");
        database.sql("DROP INDEX i; DROP INDEX IF EXISTS t_backlog");
    }
}

#[test]
fn check_looks_at_other_queues_and_rehearses_a_pass_on_a_server() {
    let Some((database, env)) = server_with(
        "CREATE TABLE t (id int PRIMARY KEY, status text DEFAULT 'NEW', \
         date_inserted timestamptz DEFAULT now(), kind text); \
         INSERT INTO t (id, kind, status) VALUES (1, 'a', 'NEW'), (2, 'b', 'ERROR'), (3, 'c', 'NEW')",
    ) else {
        return;
    };
    let file = "[defaults]\ntable = 't'\nndays = 9\n[queue.a]\nwhere = \"kind < 'c'\"\n\
                [queue.b]\ntable = 'public.t'\nwhere = \"kind > 'a'\"\n";
    env.write("backlog.toml", file);
    let check = || env.run("check --queue a --rehearse").stdout;
    let found = check();
    for line in [
        "error    queues      queue \"b\" has 1 pending record of this one as well, such as 2: give each",
        "ok       rehearsal   the table takes what a pass may write for record 1 (NEW)\n",
        "ok       rehearsal   the table takes what a pass may write for record 2 (ERROR)\n",
    ] {
        assert_contains(&found, line);
    }
    database.sql("ALTER TABLE t ADD CONSTRAINT c CHECK (status <> 'SUCCESS')");
    assert_contains(&check(), "error    rehearsal   record 1 (NEW) would not be tried: ");
    assert_eq!(database.query("SELECT status FROM t ORDER BY id"), "NEW\nERROR\nNEW");
}

#[test]
fn only_an_index_that_begins_with_the_id_finds_a_record_by_it() {
    let Some((database, env)) = server_with(
        "CREATE TABLE t (name text, id int, status text, date_inserted timestamptz, other int)",
    ) else {
        return;
    };
    for (index, ids, is_fine) in [
        ("PRIMARY KEY (name, id)", "id", false),
        ("PRIMARY KEY (name, id)", "id,name", true),
        ("UNIQUE (id)", "id", true),
        ("UNIQUE (id)", "id,name", true),
        ("UNIQUE (id, other)", "id,name", false),
        ("UNIQUE (other) INCLUDE (id)", "id", false),
        ("EXCLUDE USING hash (id WITH =)", "id", true),
        ("EXCLUDE USING btree (id WITH =, name WITH =)", "id", true),
        ("EXCLUDE USING btree (id WITH =)", "id,name", false),
        ("EXCLUDE USING btree (id WITH =) WHERE (id > 7)", "id", false),
        ("EXCLUDE USING btree (abs(id) WITH =)", "id", false),
    ] {
        database.sql(&format!("ALTER TABLE t ADD CONSTRAINT c {index}"));
        let columns = format!("id=[\"{}\"]", ids.replace(',', "\",\""));
        let found =
            env.run(&format!("check --table=t --set {}", quoted(&columns))).success().stdout;
        let is_missing = found.contains("no index finds a record by its id");
        assert_eq!(is_missing, !is_fine, "{index} for {ids}: {found}");
        database.sql("ALTER TABLE t DROP CONSTRAINT c");
    }
    database.sql(
        "CREATE TABLE parts (id int, status text, date_inserted timestamptz) PARTITION BY LIST (id);
         CREATE TABLE one PARTITION OF parts FOR VALUES IN (1);
         CREATE TABLE two PARTITION OF parts FOR VALUES IN (2);
         CREATE INDEX ON one (id)",
    );
    let says = |says: bool| {
        let found = env.run("check --table=parts").success().stdout;
        assert_eq!(found.contains("no index finds a record by its id"), says, "{found}");
    };
    says(true);
    database.sql("CREATE INDEX ON two (id)");
    says(false);
}
