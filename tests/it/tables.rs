//! Job tables of widely used software, as they are: docs/tables.md says what they mean, and each
//! of them is worked off, on SQLite and on PostgreSQL. tests/tables has what makes them.

use std::fs;

use crate::testenv::{MIDNIGHT, TestEnv};
use test_support::cluster::{Cluster, cluster};

const PAGE: &str = include_str!("../../docs/tables.md");

/// One table, before and after a pass in which the handler fails for some records.
struct Case {
    queue: &'static str,
    args: &'static [&'static str],
    fails_for: &'static [&'static str],
    /// How it fails, in sh.
    fails: &'static str,
    /// What the handler got, in the order of the pass.
    handled: &'static [&'static str],
    query: &'static str,
    after: &'static str,
    exit: i32,
    on_postgres: OnPostgres,
}

/// What is otherwise on PostgreSQL, where the columns are the same to the mapping, but their types
/// or the names of the table are not.
#[derive(Default)]
struct OnPostgres {
    mapping: Option<&'static str>,
    query: Option<&'static str>,
    after: Option<&'static str>,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            queue: "",
            args: &[],
            fails_for: &[],
            fails: "echo 'no route to host' >&2; exit 1",
            handled: &[],
            query: "",
            after: "",
            exit: 0,
            on_postgres: OnPostgres::default(),
        }
    }
}

const BY_AGE: &[&str] = &["--ndays", "3000"];

/// The clock as the page's conditions have it, in SQLite's dialect, and what that is on PostgreSQL.
const CLOCKS: [(&str, &str); 2] =
    [("datetime('now')", "now()"), ("unixepoch()", "extract(epoch FROM now())")];

#[track_caller]
fn check(case: &Case) {
    let (_, of_others) = PAGE.split_once("## Job tables of other software").unwrap();
    let blocks = of_others.split("```toml\n").skip(1).map(|it| it.split_once("```").unwrap().0);
    let blocks: Vec<&str> = blocks.collect();

    let env = TestEnv::with_schema(&schema(case.queue, "sqlite"));
    work_off(case, "SQLite", &env, &blocks.join("\n"));
    assert_eq!(env.query(case.query), case.after, "on SQLite");

    let Some(database) = cluster().map(Cluster::database) else { return };
    database.sql(&schema(case.queue, "postgres"));
    let there = &case.on_postgres;
    let mut mappings = match there.mapping {
        Some(mapping) => format!("{}\n{mapping}", blocks[0]),
        None => blocks.join("\n"),
    };
    for (on_sqlite, on_postgres) in CLOCKS {
        mappings = mappings.replace(on_sqlite, on_postgres);
    }
    work_off(case, "PostgreSQL", &TestEnv::on(&database), &mappings);
    let (query, after) = (there.query.unwrap_or(case.query), there.after.unwrap_or(case.after));
    assert_eq!(database.query(query), after, "on PostgreSQL");
}

fn schema(queue: &str, engine: &str) -> String {
    let tables = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tables");
    fs::read_to_string(format!("{tables}/{queue}.{engine}.sql")).unwrap()
}

#[track_caller]
fn work_off(case: &Case, engine: &str, env: &TestEnv, mappings: &str) {
    fs::write(env.path("backlog.toml"), mappings).unwrap();
    let handler = env.noting(&format!(
        "for id in '{}'; do [ \"$id\" != \"$BACKLOG_ID\" ] || {{ {}; }}; done",
        case.fails_for.join("' '"),
        case.fails
    ));
    let args = [&["process", "--queue", case.queue], case.args, &["--", &handler]].concat();
    let ran = env.run_at(MIDNIGHT, &args);
    assert_eq!(ran.exit, Some(case.exit), "on {engine}: {ran:?}");
    assert_eq!(env.handled(), case.handled, "on {engine}: {ran:?}");
}

#[test]
fn django_post_office() {
    check(&Case {
        queue: "post_office",
        fails_for: &["3", "4"],
        handled: &["6", "4", "3", "2"],
        query: r#"SELECT id, status, last_updated, number_of_retries FROM post_office_email ORDER BY id"#,
        after: "1|0|2026-11-20 10:00:00.000001|\n2|0|2026-11-20 10:00:01.000001|\n3|1|2026-11-21 00:00:00.000000|1\n4|4|2026-11-21 00:00:00.000000|5\n5|2|2026-11-20 10:00:04.000001|\n6|0|2026-11-20 10:00:05.000001|\n7||2026-11-20 10:00:06.000001|",
        exit: 1,
        on_postgres: OnPostgres {
            after: Some(
                "1|0|2026-11-20 10:00:00.000001+00|\n2|0|2026-11-20 10:00:01.000001+00|\n3|1|2026-11-21 00:00:00+00|1\n4|4|2026-11-21 00:00:00+00|5\n5|2|2026-11-20 10:00:04.000001+00|\n6|0|2026-11-20 10:00:05.000001+00|\n7||2026-11-20 10:00:06.000001+00|",
            ),
            ..OnPostgres::default()
        },
        ..Case::default()
    });
}

#[test]
fn django_mailer() {
    check(&Case {
        queue: "mailer",
        args: BY_AGE,
        fails_for: &["2"],
        handled: &["5", "3", "2", "1"],
        query: r#"SELECT id, priority, retry_count FROM mailer_message ORDER BY id"#,
        after: "2|4|0\n4|5|0",
        ..Case::default()
    });
}

#[test]
fn phplist() {
    check(&Case {
        queue: "phplist",
        args: BY_AGE,
        fails_for: &["1,8"],
        handled: &["3,8", "2,7", "1,8", "1,7"],
        query: r#"SELECT messageid, userid, status FROM phplist_usermessage ORDER BY 1, 2"#,
        after: "1|7|sent\n1|8|not sent\n2|7|sent\n2|8|sent\n3|7|invalid email address\n3|8|sent\n4|7|excluded\n4|8|",
        ..Case::default()
    });
}

#[test]
fn ory_kratos() {
    check(&Case {
        queue: "courier",
        args: BY_AGE,
        fails_for: &[
            "6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d102",
            "6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d103",
        ],
        handled: &[
            "6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d103",
            "6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d102",
            "6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d101",
        ],
        query: r#"SELECT substr(CAST(id AS text), 34), status, updated_at, send_count FROM courier_messages ORDER BY id"#,
        after: "101|2|2026-11-21 00:00:00|0\n102|4|2026-11-21 00:00:00|3\n103|1|2026-11-21 00:00:00|1\n104|2|2026-11-20 10:00:03|1\n105|3|2026-11-20 10:00:04|0\n106|4|2026-11-20 10:00:05|5",
        exit: 1,
        ..Case::default()
    });
}

#[test]
fn delayed_job() {
    check(&Case {
        queue: "delayed_job",
        fails_for: &["2", "3"],
        handled: &["2", "1", "3"],
        query: r#"SELECT id, attempts, last_error, failed_at, updated_at FROM delayed_jobs ORDER BY id"#,
        after: "2|1|no route to host||2026-11-21 00:00:00.000000\n3|25|no route to host|2026-11-21 00:00:00.000000|2026-11-21 00:00:00.000000\n4|10|||2026-11-20 23:59:50.123456\n5|0|||2026-11-20 10:00:04.123456\n6|25||2026-11-20 11:00:00.000000|2026-11-20 10:00:05.123456\n7|0|||2026-11-20 10:00:06.123456\n8|0|||2026-11-20 10:00:07.123456",
        exit: 1,
        on_postgres: OnPostgres {
            after: Some(
                "2|1|no route to host||2026-11-21 00:00:00\n3|25|no route to host|2026-11-21 00:00:00|2026-11-21 00:00:00\n4|10|||2026-11-20 23:59:50.123456\n5|0|||2026-11-20 10:00:04.123456\n6|25||2026-11-20 11:00:00|2026-11-20 10:00:05.123456\n7|0|||2026-11-20 10:00:06.123456\n8|0|||2026-11-20 10:00:07.123456",
            ),
            ..OnPostgres::default()
        },
        ..Case::default()
    });
}

#[test]
fn laravel() {
    check(&Case {
        queue: "laravel",
        args: BY_AGE,
        fails_for: &["2", "5"],
        handled: &["1", "2", "5"],
        query: r#"SELECT id, queue, attempts, reserved_at FROM jobs ORDER BY id"#,
        after: "2|default|3|1795219200\n3|default|0|1795132802\n4|mails|0|\n5|default|1|\n6|default|0|",
        exit: 1,
        ..Case::default()
    });
}

#[test]
fn symfony_messenger() {
    check(&Case {
        queue: "messenger",
        args: BY_AGE,
        fails_for: &["2"],
        // 5 is not due, but the mapping has no word for available_at.
        handled: &["5", "2", "1"],
        query: r#"SELECT id, queue_name, delivered_at FROM messenger_messages ORDER BY id"#,
        after: "2|default|\n3|failed|\n4|default|2026-11-20 10:00:04",
        ..Case::default()
    });
}

#[test]
fn dotnet_cap() {
    check(&Case {
        queue: "cap",
        args: BY_AGE,
        fails_for: &["1865043271389614082"],
        handled: &["1865043271389614083", "1865043271389614082", "1865043271389614081"],
        query: r#"SELECT "Id", "Retries", "ExpiresAt", "StatusName" FROM "cap.published" ORDER BY 1"#,
        after: "1865043271389614081|0|2026-11-21T00:00:00|Succeeded\n1865043271389614082|1||Failed\n1865043271389614083|3|2026-11-21T00:00:00|Succeeded\n1865043271389614084|0|2026-11-21T10:00:03|Succeeded\n1865043271389614085|0|2999-01-01T00:00:00|Delayed",
        // There, cap is a schema, and the dot stands between two names.
        on_postgres: OnPostgres {
            query: Some(
                r#"SELECT "Id", "Retries", "ExpiresAt", "StatusName" FROM cap.published ORDER BY 1"#,
            ),
            after: Some(
                "1865043271389614081|0|2026-11-21 00:00:00|Succeeded\n1865043271389614082|1||Failed\n1865043271389614083|3|2026-11-21 00:00:00|Succeeded\n1865043271389614084|0|2026-11-21 10:00:03|Succeeded\n1865043271389614085|0|2999-01-01 00:00:00|Delayed",
            ),
            ..OnPostgres::default()
        },
        ..Case::default()
    });
}

#[test]
fn action_scheduler() {
    check(&Case {
        queue: "action_scheduler",
        fails_for: &["2", "3"],
        handled: &["8", "3", "2", "1"],
        query: r#"SELECT action_id, status, attempts, nullif(CAST(last_attempt_gmt AS text), '0000-00-00 00:00:00') FROM wp_actionscheduler_actions ORDER BY 1"#,
        after: "1|complete|0|\n2|failed|1|2026-11-21 00:00:00\n3|canceled|5|2026-11-21 00:00:00\n4|failed|4|2026-11-20 23:59:58\n5|pending|0|\n6|pending|0|\n7|complete|1|2020-11-20 10:00:06\n8|complete|1|\n9|canceled|5|2020-11-21 10:00:08\n10|pending|0|",
        exit: 1,
        ..Case::default()
    });
}

#[test]
fn magento() {
    check(&Case {
        queue: "magento",
        args: BY_AGE,
        fails_for: &["2", "3"],
        handled: &["3", "2", "1"],
        query: r#"SELECT id, updated_at, status, number_of_trials FROM queue_message_status ORDER BY id"#,
        after: "1|2026-11-20 10:00:00|4|0\n2|2026-11-20 10:00:01|5|1\n3|2026-11-20 10:00:02|6|3\n4|2026-11-20 10:00:03|3|1\n5|2026-11-20 10:00:04|4|1\n6|2026-11-20 10:00:05|6|3\n7|2026-11-20 10:00:06|7|1",
        exit: 1,
        ..Case::default()
    });
}

#[test]
fn suitecrm() {
    check(&Case {
        queue: "suitecrm",
        args: BY_AGE,
        fails_for: &[
            "b6d3c1f0-1111-4a4a-9c9c-5e5d00000002",
            "b6d3c1f0-1111-4a4a-9c9c-5e5d00000005",
        ],
        // 6 is not due, but the mapping has no word for execute_time.
        handled: &[
            "b6d3c1f0-1111-4a4a-9c9c-5e5d00000006",
            "b6d3c1f0-1111-4a4a-9c9c-5e5d00000005",
            "b6d3c1f0-1111-4a4a-9c9c-5e5d00000002",
            "b6d3c1f0-1111-4a4a-9c9c-5e5d00000001",
        ],
        query: r#"SELECT substr(id, 36), date_modified, status, resolution, message, failure_count FROM job_queue ORDER BY id"#,
        after: "1|2026-11-21 00:00:00|done|success||0\n2|2026-11-21 00:00:00|done|failure|no route to host|3\n3|2026-11-20 10:00:02|queued|queued||0\n4|2026-11-20 10:00:03|done|success||0\n5|2026-11-21 00:00:00|queued|queued|no route to host|1\n6|2026-11-21 00:00:00|done|success||0\n7|2026-11-20 10:00:06|done|failure|timed out|3\n8|2026-11-20 10:00:07|running|queued||0",
        exit: 1,
        ..Case::default()
    });
}

#[test]
fn drupal() {
    check(&Case {
        queue: "drupal",
        args: BY_AGE,
        fails_for: &["2"],
        handled: &["2", "1"],
        query: r#"SELECT item_id, name, expire FROM "queue" ORDER BY 1"#,
        after: "2|mail|0\n3|mail|1795132899\n4|cron|0",
        ..Case::default()
    });
}

#[test]
fn mediawiki() {
    check(&Case {
        queue: "mediawiki",
        args: BY_AGE,
        fails_for: &["2"],
        handled: &["2", "1"],
        query: r#"SELECT job_id, job_attempts, job_token FROM job ORDER BY 1"#,
        after: "2|1|\n3|0|0123456789abcdef\n4|0|\n5|0|\n6|3|fedcba9876543210",
        // There, the dates are instants, which are not spelt at all.
        on_postgres: OnPostgres {
            mapping: Some(
                r#"
[queue.mediawiki]
table = "job"
id = "job_id"
where = "job_token = '' AND job_cmd = 'refreshLinks'"
date_inserted = "job_timestamp"
payload = "job_params"
on_success = "delete"
on_failure = { job_attempts = "{+1}" }
"#,
            ),
            ..OnPostgres::default()
        },
        ..Case::default()
    });
}

#[test]
fn moodle() {
    check(&Case {
        queue: "moodle",
        args: BY_AGE,
        fails_for: &["2", "3"],
        handled: &["3", "2", "1"],
        query: r#"SELECT id, faildelay FROM mdl_task_adhoc ORDER BY id"#,
        after: "2|60\n3|120\n4|",
        ..Case::default()
    });
}

#[test]
fn zabbix() {
    check(&Case {
        queue: "zabbix",
        args: BY_AGE,
        fails_for: &["2", "3"],
        fails: "printf '%03000d' 0 >&2; exit 1",
        handled: &["3", "2", "1"],
        query: r#"SELECT alertid, status, retries, length(error) FROM alerts ORDER BY 1"#,
        after: "1|1|0|0\n2|0|1|2048\n3|2|3|2048\n4|1|0|0\n5|2|3|7",
        exit: 1,
        ..Case::default()
    });
}

#[test]
fn mattermost() {
    check(&Case {
        queue: "mattermost",
        args: BY_AGE,
        fails_for: &["4xp9fdt77pncbef59f4k1qe832"],
        handled: &[
            "4xp9fdt77pncbef59f4k1qe833",
            "4xp9fdt77pncbef59f4k1qe832",
            "4xp9fdt77pncbef59f4k1qe831",
        ],
        query: r#"SELECT substr(Id, 26), Status, LastActivityAt, Progress FROM Jobs ORDER BY Id"#,
        after: "1|success|1795219200000|100\n2|error|1795219200000|0\n3|success|1795219200000|100\n4|in_progress|0|0\n5|pending|0|0\n6|success|1795132807123|100\n7|canceled|1795132808123|0",
        ..Case::default()
    });
}
