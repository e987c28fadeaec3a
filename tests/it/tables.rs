//! Job tables of widely used software, as they are: docs/tables.md says what they mean, and each
//! of them is worked off.

use crate::testenv::{MIDNIGHT, TestEnv};

const PAGE: &str = include_str!("../../docs/tables.md");

/// One table, before and after a pass in which the handler fails for some records.
struct Case {
    queue: &'static str,
    args: &'static [&'static str],
    before: &'static str,
    fails_for: &'static [&'static str],
    /// What the handler got, in the order of the pass.
    handled: &'static [&'static str],
    query: &'static str,
    after: &'static str,
    exit: i32,
}

const BY_AGE: &[&str] = &["--ndays", "3000"];

#[track_caller]
fn check(case: &Case) {
    let env = TestEnv::with_schema(case.before);
    let (_, of_others) = PAGE.split_once("## Job tables of other software").unwrap();
    let blocks = of_others.split("```toml\n").skip(1).map(|it| it.split_once("```").unwrap().0);
    std::fs::write(env.path("backlog.toml"), blocks.collect::<Vec<_>>().join("\n")).unwrap();
    let fails_for = case.fails_for.join("' '");
    let handler = env.noting(&format!(
        "for id in '{fails_for}'; do
           [ \"$id\" != \"$BACKLOG_ID\" ] || {{ echo 'no route to host' >&2; exit 1; }}
         done"
    ));
    let args = [&["process", "--queue", case.queue], case.args, &["--", &handler]].concat();
    let ran = env.run_at(MIDNIGHT, &args);
    assert_eq!(ran.exit, Some(case.exit), "{ran:?}");
    assert_eq!(env.handled(), case.handled);
    assert_eq!(env.query(case.query), case.after);
}

#[test]
fn django_post_office() {
    check(&Case {
        queue: "post_office",
        args: &[],
        before: r#"
CREATE TABLE "post_office_email" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
  "from_email" varchar(254) NOT NULL, "to" text NOT NULL, "subject" varchar(989) NOT NULL,
  "status" smallint unsigned NULL CHECK ("status" >= 0), "created" datetime NOT NULL,
  "last_updated" datetime NOT NULL, "scheduled_time" datetime NULL,
  "number_of_retries" integer unsigned NULL, "message_id" varchar(255) NULL);
CREATE INDEX "post_office_email_status" ON "post_office_email" ("status");
INSERT INTO "post_office_email" ("id", "from_email", "to", "subject", "status", "created", "last_updated", "scheduled_time", "number_of_retries") VALUES
  (1, 'a@example.com', 'b@example.com', 'sent', 0, '2026-11-20 10:00:00.000001', '2026-11-20 10:00:00.000001', NULL, NULL),
  (2, 'a@example.com', 'b@example.com', 'queued', 2, '2026-11-20 10:00:01.000001', '2026-11-20 10:00:01.000001', NULL, NULL),
  (3, 'a@example.com', 'b@example.com', 'requeued', 3, '2026-11-20 10:00:02.000001', '2026-11-20 10:00:02.000001', NULL, NULL),
  (4, 'a@example.com', 'b@example.com', 'failed', 1, '2026-11-20 10:00:03.000001', '2026-11-20 10:00:03.000001', NULL, 4),
  (5, 'a@example.com', 'b@example.com', 'later', 2, '2026-11-20 10:00:04.000001', '2026-11-20 10:00:04.000001', '2999-01-01 00:00:00', NULL);"#,
        fails_for: &["3", "4"],
        handled: &["4", "3", "2"],
        query: r#"SELECT id, status, last_updated, number_of_retries FROM post_office_email ORDER BY id"#,
        after: "1|0|2026-11-20 10:00:00.000001|\n2|0|2026-11-20 10:00:01.000001|\n3|1|2026-11-21 00:00:00.000000|1\n4|4|2026-11-21 00:00:00.000000|5\n5|2|2026-11-20 10:00:04.000001|",
        exit: 1,
    });
}

#[test]
fn django_mailer() {
    check(&Case {
        queue: "mailer",
        args: BY_AGE,
        before: r#"
CREATE TABLE "mailer_message" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
  "message_data" text NOT NULL, "when_added" datetime NOT NULL, "priority" varchar(1) NOT NULL, "retry_count" smallint unsigned NOT NULL);
INSERT INTO "mailer_message" VALUES (1, 'gAN9', '2026-11-20 10:00:00', '1', 0), (2, 'gAN9', '2026-11-20 10:00:01', '2', 0),
  (3, 'gAN9', '2026-11-20 10:00:02', '4', 0), (4, 'gAN9', '2026-11-20 10:00:03', '5', 0);"#,
        fails_for: &["2"],
        handled: &["3", "2", "1"],
        query: r#"SELECT id, priority, retry_count FROM mailer_message ORDER BY id"#,
        after: "2|4|0\n4|5|0",
        exit: 0,
    });
}

#[test]
fn phplist() {
    check(&Case {
        queue: "phplist",
        args: BY_AGE,
        before: r#"
CREATE TABLE phplist_usermessage (messageid INTEGER NOT NULL, userid INTEGER NOT NULL, entered DATETIME NOT NULL,
  viewed DATETIME, status VARCHAR(255), PRIMARY KEY (userid, messageid));
INSERT INTO phplist_usermessage VALUES (1, 7, '2026-11-20 10:00:00', NULL, 'todo'), (1, 8, '2026-11-20 10:00:00', NULL, 'todo'),
  (2, 7, '2026-11-20 10:00:00', NULL, 'not sent'), (2, 8, '2026-11-20 09:00:00', NULL, 'sent'), (3, 7, '2026-11-20 09:00:00', NULL, 'invalid email address');"#,
        fails_for: &["1,8"],
        handled: &["2,7", "1,8", "1,7"],
        query: r#"SELECT messageid, userid, status FROM phplist_usermessage ORDER BY 1, 2"#,
        after: "1|7|sent\n1|8|not sent\n2|7|sent\n2|8|sent\n3|7|invalid email address",
        exit: 0,
    });
}

#[test]
fn ory_kratos() {
    check(&Case {
        queue: "courier",
        args: BY_AGE,
        before: r#"
CREATE TABLE "courier_messages" ("id" TEXT PRIMARY KEY, "type" INTEGER NOT NULL, "status" INTEGER NOT NULL, "body" TEXT NOT NULL,
  "recipient" TEXT NOT NULL, "created_at" DATETIME NOT NULL, "updated_at" DATETIME NOT NULL, "send_count" INTEGER NOT NULL DEFAULT 0);
INSERT INTO "courier_messages" VALUES
  ('6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d101', 1, 1, 'Hi', 'a@example.com', '2026-11-20 10:00:00', '2026-11-20 10:00:00', 0),
  ('6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d102', 1, 1, 'Hi', 'a@example.com', '2026-11-20 10:00:01', '2026-11-20 10:00:01', 2),
  ('6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d103', 1, 1, 'Hi', 'a@example.com', '2026-11-20 10:00:02', '2026-11-20 10:00:02', 0),
  ('6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d104', 1, 2, 'Hi', 'a@example.com', '2026-11-20 10:00:03', '2026-11-20 10:00:03', 1);"#,
        fails_for: &[
            "6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d102",
            "6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d103",
        ],
        handled: &[
            "6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d103",
            "6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d102",
            "6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d101",
        ],
        query: r#"SELECT substr(id, 34), status, updated_at, send_count FROM courier_messages ORDER BY id"#,
        after: "101|2|2026-11-21 00:00:00|0\n102|4|2026-11-21 00:00:00|3\n103|1|2026-11-21 00:00:00|1\n104|2|2026-11-20 10:00:03|1",
        exit: 1,
    });
}

#[test]
fn delayed_job() {
    check(&Case {
        queue: "delayed_job",
        args: &[],
        before: r#"
CREATE TABLE "delayed_jobs" ("id" integer PRIMARY KEY AUTOINCREMENT NOT NULL, "priority" integer DEFAULT 0 NOT NULL, "attempts" integer DEFAULT 0 NOT NULL,
  "handler" text NOT NULL, "last_error" text, "run_at" datetime(6), "locked_at" datetime(6), "failed_at" datetime(6), "locked_by" varchar, "queue" varchar,
  "created_at" datetime(6) NOT NULL, "updated_at" datetime(6) NOT NULL);
CREATE INDEX "delayed_jobs_priority" ON "delayed_jobs" ("priority", "run_at");
INSERT INTO "delayed_jobs" ("id", "attempts", "handler", "run_at", "locked_at", "failed_at", "created_at", "updated_at") VALUES
  (1, 0, '--- a', '2020-01-01 00:00:00', NULL, NULL, '2026-11-20 10:00:00.123456', '2026-11-20 10:00:00.123456'),
  (2, 0, '--- b', '2020-01-01 00:00:00', NULL, NULL, '2026-11-20 10:00:01.123456', '2026-11-20 10:00:01.123456'),
  (3, 24, '--- c', '2020-01-01 00:00:00', NULL, NULL, '2026-10-20 10:00:02.123456', '2026-11-10 10:00:02.123456'),
  (4, 10, '--- d', '2020-01-01 00:00:00', NULL, NULL, '2026-11-20 10:00:03.123456', '2026-11-20 23:59:50.123456'),
  (5, 0, '--- e', '2020-01-01 00:00:00', '2026-11-20 11:00:00.000000', NULL, '2026-11-20 10:00:04.123456', '2026-11-20 10:00:04.123456'),
  (6, 25, '--- f', '2020-01-01 00:00:00', NULL, '2026-11-20 11:00:00.000000', '2026-11-20 10:00:05.123456', '2026-11-20 10:00:05.123456');"#,
        fails_for: &["2", "3"],
        handled: &["2", "1", "3"],
        query: r#"SELECT id, attempts, last_error, failed_at, updated_at FROM delayed_jobs ORDER BY id"#,
        after: "2|1|no route to host||2026-11-21 00:00:00.000000\n3|25|no route to host|2026-11-21 00:00:00.000000|2026-11-21 00:00:00.000000\n4|10|||2026-11-20 23:59:50.123456\n5|0|||2026-11-20 10:00:04.123456\n6|25||2026-11-20 11:00:00.000000|2026-11-20 10:00:05.123456",
        exit: 1,
    });
}

#[test]
fn laravel() {
    check(&Case {
        queue: "laravel",
        args: BY_AGE,
        before: r#"
CREATE TABLE "jobs" ("id" integer primary key autoincrement not null, "queue" varchar not null, "payload" text not null, "attempts" integer not null,
  "reserved_at" integer, "available_at" integer not null, "created_at" integer not null);
CREATE INDEX "jobs_queue_index" ON "jobs" ("queue");
INSERT INTO "jobs" VALUES (1, 'default', '{"job":"a"}', 0, NULL, 1577836800, 1795132800), (2, 'default', '{"job":"b"}', 2, NULL, 1577836800, 1795132801),
  (3, 'default', '{"job":"c"}', 0, 1795132802, 1577836800, 1795132802), (4, 'mails', '{"job":"d"}', 0, NULL, 1577836800, 1795132803), (5, 'default', '{"job":"e"}', 0, NULL, 1577836800, 1795132804);"#,
        fails_for: &["2", "5"],
        handled: &["1", "2", "5"],
        query: r#"SELECT id, queue, attempts, reserved_at FROM jobs ORDER BY id"#,
        after: "2|default|3|1795219200\n3|default|0|1795132802\n4|mails|0|\n5|default|1|",
        exit: 1,
    });
}

#[test]
fn symfony_messenger() {
    check(&Case {
        queue: "messenger",
        args: BY_AGE,
        before: r#"
CREATE TABLE messenger_messages (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, body CLOB NOT NULL, headers CLOB NOT NULL, queue_name VARCHAR(190) NOT NULL,
  created_at DATETIME NOT NULL, available_at DATETIME NOT NULL, delivered_at DATETIME DEFAULT NULL);
INSERT INTO messenger_messages VALUES (1, 'O:36:"Envelope"', '[]', 'default', '2026-11-20 10:00:00', '2026-11-20 10:00:00', NULL), (2, 'O:36:"Envelope"', '[]', 'default', '2026-11-20 10:00:01', '2026-11-20 10:00:01', NULL),
  (3, 'O:36:"Envelope"', '[]', 'failed', '2026-11-20 10:00:02', '2026-11-20 10:00:02', NULL), (4, 'O:36:"Envelope"', '[]', 'default', '2026-11-20 10:00:03', '2026-11-20 10:00:03', '2026-11-20 10:00:04');"#,
        fails_for: &["2"],
        handled: &["2", "1"],
        query: r#"SELECT id, queue_name, delivered_at FROM messenger_messages ORDER BY id"#,
        after: "2|default|\n3|failed|\n4|default|2026-11-20 10:00:04",
        exit: 0,
    });
}

#[test]
fn dotnet_cap() {
    check(&Case {
        queue: "cap",
        args: BY_AGE,
        before: r#"
CREATE TABLE "cap.published" ("Id" INTEGER NOT NULL PRIMARY KEY, "Version" TEXT NOT NULL, "Name" TEXT NOT NULL, "Content" TEXT, "Retries" INTEGER, "Added" TEXT NOT NULL, "ExpiresAt" TEXT, "StatusName" TEXT NOT NULL);
INSERT INTO "cap.published" VALUES (1865043271389614081, 'v1', 'order.paid', '{}', 0, '2026-11-20T10:00:00', NULL, 'Scheduled'), (1865043271389614082, 'v1', 'order.paid', '{}', NULL, '2026-11-20T10:00:01', NULL, 'Scheduled'),
  (1865043271389614083, 'v1', 'order.paid', '{}', 3, '2026-11-20T10:00:02', NULL, 'Failed'), (1865043271389614084, 'v1', 'order.paid', '{}', 0, '2026-11-20T10:00:03', '2026-11-21T10:00:03', 'Succeeded');"#,
        fails_for: &["1865043271389614082"],
        handled: &["1865043271389614083", "1865043271389614082", "1865043271389614081"],
        query: r#"SELECT "Id", "Retries", "ExpiresAt", "StatusName" FROM "cap.published" ORDER BY 1"#,
        after: "1865043271389614081|0|2026-11-21T00:00:00|Succeeded\n1865043271389614082|1||Failed\n1865043271389614083|3|2026-11-21T00:00:00|Succeeded\n1865043271389614084|0|2026-11-21T10:00:03|Succeeded",
        exit: 0,
    });
}

#[test]
fn action_scheduler() {
    check(&Case {
        queue: "action_scheduler",
        args: &[],
        before: r#"
CREATE TABLE wp_actionscheduler_actions (action_id INTEGER PRIMARY KEY AUTOINCREMENT, hook VARCHAR(191) NOT NULL, status VARCHAR(20) NOT NULL, scheduled_date_gmt DATETIME DEFAULT '0000-00-00 00:00:00',
  args VARCHAR(191), schedule TEXT, group_id INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0, last_attempt_gmt DATETIME DEFAULT '0000-00-00 00:00:00', claim_id INTEGER NOT NULL DEFAULT 0);
INSERT INTO wp_actionscheduler_actions (action_id, hook, status, scheduled_date_gmt, attempts, last_attempt_gmt, claim_id) VALUES
  (1, 'send', 'pending', '2020-11-20 10:00:00', 0, '0000-00-00 00:00:00', 0), (2, 'send', 'pending', '2020-11-20 10:00:01', 0, '0000-00-00 00:00:00', 0),
  (3, 'send', 'failed', '2020-11-20 10:00:02', 4, '2026-11-20 10:00:02', 0), (4, 'send', 'failed', '2020-11-20 10:00:03', 4, '2026-11-20 23:59:58', 0),
  (5, 'send', 'pending', '2020-11-20 10:00:04', 0, '0000-00-00 00:00:00', 9), (6, 'send', 'pending', '2999-11-20 10:00:05', 0, '0000-00-00 00:00:00', 0), (7, 'send', 'complete', '2020-11-20 10:00:06', 1, '2020-11-20 10:00:06', 0),
  (8, 'send', 'failed', '2020-11-20 10:00:07', 1, '0000-00-00 00:00:00', 0);"#,
        fails_for: &["2", "3"],
        handled: &["8", "3", "2", "1"],
        query: r#"SELECT action_id, status, attempts, last_attempt_gmt FROM wp_actionscheduler_actions ORDER BY 1"#,
        after: "1|complete|0|0000-00-00 00:00:00\n2|failed|1|2026-11-21 00:00:00\n3|canceled|5|2026-11-21 00:00:00\n4|failed|4|2026-11-20 23:59:58\n5|pending|0|0000-00-00 00:00:00\n6|pending|0|0000-00-00 00:00:00\n7|complete|1|2020-11-20 10:00:06\n8|complete|1|0000-00-00 00:00:00",
        exit: 1,
    });
}

#[test]
fn magento() {
    check(&Case {
        queue: "magento",
        args: BY_AGE,
        before: r#"
CREATE TABLE queue_message_status (id INTEGER PRIMARY KEY, queue_id INTEGER NOT NULL, message_id INTEGER NOT NULL, updated_at TIMESTAMP NOT NULL, status SMALLINT NOT NULL, number_of_trials INTEGER NOT NULL DEFAULT 0);
INSERT INTO queue_message_status VALUES (1, 1, 11, '2026-11-20 10:00:00', 2, 0), (2, 1, 12, '2026-11-20 10:00:01', 2, 0), (3, 1, 13, '2026-11-20 10:00:02', 5, 2), (4, 1, 14, '2026-11-20 10:00:03', 3, 1), (5, 1, 15, '2026-11-20 10:00:04', 4, 1);"#,
        fails_for: &["2", "3"],
        handled: &["3", "2", "1"],
        query: r#"SELECT id, updated_at, status, number_of_trials FROM queue_message_status ORDER BY id"#,
        after: "1|2026-11-20 10:00:00|4|0\n2|2026-11-20 10:00:01|5|1\n3|2026-11-20 10:00:02|6|3\n4|2026-11-20 10:00:03|3|1\n5|2026-11-20 10:00:04|4|1",
        exit: 1,
    });
}

#[test]
fn suitecrm() {
    check(&Case {
        queue: "suitecrm",
        args: BY_AGE,
        before: r#"
CREATE TABLE job_queue (id CHAR(36) NOT NULL PRIMARY KEY, name VARCHAR(255), deleted BOOL DEFAULT 0, date_entered DATETIME, date_modified DATETIME, status VARCHAR(20), resolution VARCHAR(20), message TEXT, failure_count TINYINT DEFAULT 0);
INSERT INTO job_queue VALUES ('b6d3c1f0-1111-4a4a-9c9c-5e5d00000001', 'prune', 0, '2026-11-20 10:00:00', '2026-11-20 10:00:00', 'queued', 'queued', NULL, 0), ('b6d3c1f0-1111-4a4a-9c9c-5e5d00000002', 'prune', 0, '2026-11-20 10:00:01', '2026-11-20 10:00:01', 'queued', 'queued', NULL, 2),
  ('b6d3c1f0-1111-4a4a-9c9c-5e5d00000003', 'prune', 1, '2026-11-20 10:00:02', '2026-11-20 10:00:02', 'queued', 'queued', NULL, 0), ('b6d3c1f0-1111-4a4a-9c9c-5e5d00000004', 'prune', 0, '2026-11-20 10:00:03', '2026-11-20 10:00:03', 'done', 'success', NULL, 0),
  ('b6d3c1f0-1111-4a4a-9c9c-5e5d00000005', 'prune', 0, '2026-11-20 10:00:04', '2026-11-20 10:00:04', 'queued', 'queued', NULL, NULL);"#,
        fails_for: &[
            "b6d3c1f0-1111-4a4a-9c9c-5e5d00000002",
            "b6d3c1f0-1111-4a4a-9c9c-5e5d00000005",
        ],
        handled: &[
            "b6d3c1f0-1111-4a4a-9c9c-5e5d00000005",
            "b6d3c1f0-1111-4a4a-9c9c-5e5d00000002",
            "b6d3c1f0-1111-4a4a-9c9c-5e5d00000001",
        ],
        query: r#"SELECT substr(id, 36), date_modified, status, resolution, message, failure_count FROM job_queue ORDER BY id"#,
        after: "1|2026-11-21 00:00:00|done|success||0\n2|2026-11-21 00:00:00|done|failure|no route to host|3\n3|2026-11-20 10:00:02|queued|queued||0\n4|2026-11-20 10:00:03|done|success||0\n5|2026-11-21 00:00:00|queued|queued|no route to host|1",
        exit: 1,
    });
}

#[test]
fn drupal() {
    check(&Case {
        queue: "drupal",
        args: BY_AGE,
        before: r#"
CREATE TABLE "queue" (item_id INTEGER PRIMARY KEY AUTOINCREMENT, name VARCHAR(255) NOT NULL DEFAULT '', data BLOB, expire INTEGER NOT NULL DEFAULT 0, created INTEGER NOT NULL DEFAULT 0);
INSERT INTO "queue" VALUES (1, 'mail', CAST('s:1:"a";' AS BLOB), 0, 1795132800), (2, 'mail', CAST('s:1:"b";' AS BLOB), 0, 1795132801), (3, 'mail', NULL, 1795132899, 1795132802), (4, 'cron', NULL, 0, 1795132803);"#,
        fails_for: &["2"],
        handled: &["2", "1"],
        query: r#"SELECT item_id, name, expire FROM "queue" ORDER BY 1"#,
        after: "2|mail|0\n3|mail|1795132899\n4|cron|0",
        exit: 0,
    });
}

#[test]
fn mediawiki() {
    check(&Case {
        queue: "mediawiki",
        args: BY_AGE,
        before: r#"
CREATE TABLE job (job_id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, job_cmd BLOB DEFAULT '' NOT NULL, job_namespace INTEGER NOT NULL, job_title BLOB NOT NULL, job_timestamp BLOB DEFAULT NULL, job_params BLOB NOT NULL,
  job_random INTEGER DEFAULT 0 NOT NULL, job_attempts INTEGER DEFAULT 0 NOT NULL, job_token BLOB DEFAULT '' NOT NULL, job_token_timestamp BLOB DEFAULT NULL, job_sha1 BLOB DEFAULT '' NOT NULL);
INSERT INTO job (job_id, job_cmd, job_namespace, job_title, job_timestamp, job_params, job_token) VALUES (1, 'refreshLinks', 0, 'Main_Page', '20261120100000', 'a:0:{}', ''), (2, 'refreshLinks', 0, 'Main_Page', '20261120100001', 'a:0:{}', ''),
  (3, 'refreshLinks', 0, 'Main_Page', '20261120100002', 'a:0:{}', '0123456789abcdef'), (4, 'enotifNotify', 0, 'Main_Page', '20261120100003', 'a:0:{}', ''), (5, 'refreshLinks', 0, 'Main_Page', NULL, 'a:0:{}', '');"#,
        fails_for: &["2"],
        handled: &["2", "1"],
        query: r#"SELECT job_id, job_attempts, job_token FROM job ORDER BY 1"#,
        after: "2|1|\n3|0|0123456789abcdef\n4|0|\n5|0|",
        exit: 0,
    });
}

#[test]
fn moodle() {
    check(&Case {
        queue: "moodle",
        args: BY_AGE,
        before: r#"
CREATE TABLE mdl_task_adhoc (id INTEGER PRIMARY KEY, component VARCHAR(255) NOT NULL DEFAULT '', classname VARCHAR(255) NOT NULL DEFAULT '', nextruntime INTEGER NOT NULL, faildelay INTEGER, customdata TEXT, userid INTEGER, blocking SMALLINT NOT NULL DEFAULT 0, timecreated INTEGER NOT NULL DEFAULT 0);
INSERT INTO mdl_task_adhoc (id, nextruntime, faildelay, customdata, timecreated) VALUES (1, 1577836800, NULL, '{}', 1795132800), (2, 1577836800, NULL, '{}', 1795132801), (3, 1577836800, 60, '{}', 1795132802), (4, 32503680000, NULL, '{}', 1795132803);"#,
        fails_for: &["2", "3"],
        handled: &["3", "2", "1"],
        query: r#"SELECT id, faildelay FROM mdl_task_adhoc ORDER BY id"#,
        after: "2|60\n3|120\n4|",
        exit: 0,
    });
}

#[test]
fn zabbix() {
    check(&Case {
        queue: "zabbix",
        args: BY_AGE,
        before: r#"
CREATE TABLE alerts (alertid bigint NOT NULL, actionid bigint NOT NULL, clock integer DEFAULT '0' NOT NULL, sendto nvarchar(1024) DEFAULT '' NOT NULL, subject nvarchar(255) DEFAULT '' NOT NULL, message nvarchar(2048) DEFAULT '' NOT NULL,
  status integer DEFAULT '0' NOT NULL, retries integer DEFAULT '0' NOT NULL, error nvarchar(12) DEFAULT '' NOT NULL, PRIMARY KEY (alertid));
INSERT INTO alerts (alertid, actionid, clock, status, retries) VALUES (1, 3, 1795132800, 0, 0), (2, 3, 1795132801, 3, 0), (3, 3, 1795132802, 0, 2), (4, 3, 1795132803, 1, 0), (5, 3, 1795132804, 2, 3);"#,
        fails_for: &["2", "3"],
        handled: &["3", "2", "1"],
        query: r#"SELECT alertid, status, retries, error FROM alerts ORDER BY 1"#,
        after: "1|1|0|\n2|0|1|no route to \n3|2|3|no route to \n4|1|0|\n5|2|3|",
        exit: 1,
    });
}

#[test]
fn mattermost() {
    check(&Case {
        queue: "mattermost",
        args: BY_AGE,
        before: r#"
CREATE TABLE "Jobs" ("Id" varchar(26) PRIMARY KEY, "Type" varchar(32), "Priority" bigint, "CreateAt" bigint, "StartAt" bigint, "LastActivityAt" bigint, "Status" varchar(32), "Progress" bigint, "Data" varchar(1024));
INSERT INTO "Jobs" VALUES ('4xp9fdt77pncbef59f4k1qe831', 'migrations', 0, 1795132800123, 0, 1795132800123, 'pending', 0, '{}'), ('4xp9fdt77pncbef59f4k1qe832', 'migrations', 0, 1795132801123, 0, 1795132801123, 'pending', 0, '{}'),
  ('4xp9fdt77pncbef59f4k1qe833', 'migrations', 0, 1795132802123, 0, 0, 'error', 0, '{}'), ('4xp9fdt77pncbef59f4k1qe834', 'migrations', 0, 1795132803123, 0, 0, 'in_progress', 0, '{}'), ('4xp9fdt77pncbef59f4k1qe835', 'message_export', 0, 1795132804123, 0, 0, 'pending', 0, '{}');"#,
        fails_for: &["4xp9fdt77pncbef59f4k1qe832"],
        handled: &[
            "4xp9fdt77pncbef59f4k1qe833",
            "4xp9fdt77pncbef59f4k1qe832",
            "4xp9fdt77pncbef59f4k1qe831",
        ],
        query: r#"SELECT substr("Id", 26), "Status", "LastActivityAt", "Progress" FROM "Jobs" ORDER BY "Id""#,
        after: "1|success|1795219200000|100\n2|error|1795219200000|0\n3|success|1795219200000|100\n4|in_progress|0|0\n5|pending|0|0",
        exit: 0,
    });
}
