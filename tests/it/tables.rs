//! Job tables of widely used software, as they are: docs/job-tables.toml describes them, and each
//! of them is worked off, on SQLite and on PostgreSQL. tests/tables has what makes them.

use std::collections::BTreeMap;
use std::fs;

use crate::testenv::*;
use test_support::cluster::Database;

const MAPPINGS: &str = include_str!("../../docs/job-tables.toml");

/// One table, before and after a pass in which the handler fails for some records.
struct Case {
    queue: &'static str,
    args: &'static str,
    fails_for: &'static [&'static str],
    /// Failure of the handler, in sh.
    fails: &'static str,
    /// Ids that the handler got, in the order of the pass.
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
    query: Option<&'static str>,
    after: Option<&'static str>,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            queue: "",
            args: "",
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

const BY_AGE: &str = "--ndays 3000";

#[track_caller]
fn check(case: &Case) {
    let env = TestEnv::with_schema(&schema(case.queue, "sqlite"));
    work_off(case, "SQLite", &env);
    assert_eq!(env.query(case.query), case.after, "on SQLite");

    let Some(database) = database() else { return };
    database.sql(&schema(case.queue, "postgres"));
    let there = &case.on_postgres;
    work_off(case, "PostgreSQL", &TestEnv::on(&database));
    let (query, after) = (there.query.unwrap_or(case.query), there.after.unwrap_or(case.after));
    assert_eq!(database.query(query), after, "on PostgreSQL");
}

fn schema(queue: &str, engine: &str) -> String {
    let tables = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tables");
    fs::read_to_string(format!("{tables}/{queue}.{engine}.sql")).unwrap()
}

#[track_caller]
fn work_off(case: &Case, engine: &str, env: &TestEnv) {
    env.write("backlog.toml", MAPPINGS);
    let handler = env.noting(&format!(
        "for id in '{}'; do [ \"$id\" != \"$BACKLOG_ID\" ] || {{ {}; }}; done",
        case.fails_for.join("' '"),
        case.fails
    ));
    let args = format!("process --queue {} {} -- {handler}", case.queue, case.args);
    let ran = env.run_at(MIDNIGHT, &args);
    assert_eq!(ran.exit, Some(case.exit), "on {engine}: {ran:?}");
    let (mut handled, mut expected) = (env.handled(), case.handled.to_vec());
    if engine == "PostgreSQL" {
        // Failed records wait for three seconds where no column shows that they have reported back.
        handled.sort_unstable();
        expected.sort_unstable();
    }
    assert_eq!(handled, expected, "on {engine}: {ran:?}");
}

#[test]
fn django_post_office() {
    check(&Case {
        queue: "post_office",
        fails_for: &["2", "3"],
        handled: &["6", "3", "2"],
        query: r#"SELECT id, status, last_updated, number_of_retries FROM post_office_email ORDER BY id"#,
        after: "1|0|2026-11-20 10:00:00.000001|\n2|3|2026-11-21 00:00:00.000000|1\n3|1|2026-11-21 00:00:00.000000|5\n4|1|2026-11-20 10:00:03.000001|4\n5|2|2026-11-20 10:00:04.000001|\n6|0|2026-11-20 10:00:05.000001|\n7||2026-11-20 10:00:06.000001|",
        exit: 1,
        on_postgres: OnPostgres {
            after: Some(
                "1|0|2026-11-20 10:00:00.000001+00|\n2|3|2026-11-21 00:00:00+00|1\n3|1|2026-11-21 00:00:00+00|5\n4|1|2026-11-20 10:00:03.000001+00|4\n5|2|2026-11-20 10:00:04.000001+00|\n6|0|2026-11-20 10:00:05.000001+00|\n7||2026-11-20 10:00:06.000001+00|",
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
        after: "2|4|1\n4|5|0",
        ..Case::default()
    });
}

#[test]
fn phplist() {
    check(&Case {
        queue: "phplist",
        args: BY_AGE,
        fails_for: &["1,8"],
        handled: &["2,7", "1,8", "1,7"],
        query: r#"SELECT messageid, userid, status FROM phplist_usermessage ORDER BY 1, 2"#,
        after: "1|7|sent\n1|8|not sent\n2|7|sent\n2|8|sent\n3|7|invalid email address\n3|8|active\n4|7|excluded\n4|8|",
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
        after: "101|2|2026-11-21 00:00:00|1\n102|4|2026-11-21 00:00:00|3\n103|1|2026-11-21 00:00:00|1\n104|2|2026-11-20 10:00:03|1\n105|3|2026-11-20 10:00:04|0\n106|4|2026-11-20 10:00:05|5",
        exit: 1,
        ..Case::default()
    });
}

#[test]
fn delayed_job() {
    check(&Case {
        queue: "delayed_job",
        fails_for: &["2", "3"],
        handled: &["8", "2", "1", "3"],
        query: r#"SELECT id, attempts, last_error, failed_at, updated_at FROM delayed_jobs ORDER BY id"#,
        after: "2|1|no route to host||2026-11-21 00:00:00.000000\n3|25|no route to host|2026-11-21 00:00:00.000000|2026-11-21 00:00:00.000000\n4|10|||2026-11-20 23:59:50.123456\n5|0|||2026-11-20 10:00:04.123456\n6|25||2026-11-20 11:00:00.000000|2026-11-20 10:00:05.123456\n7|0|||2026-11-20 10:00:06.123456",
        exit: 1,
        on_postgres: OnPostgres {
            after: Some(
                "2|1|no route to host||2026-11-21 00:00:00\n3|25|no route to host|2026-11-21 00:00:00|2026-11-21 00:00:00\n4|10|||2026-11-20 23:59:50.123456\n5|0|||2026-11-20 10:00:04.123456\n6|25||2026-11-20 11:00:00|2026-11-20 10:00:05.123456\n7|0|||2026-11-20 10:00:06.123456",
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
        fails_for: &["2"],
        handled: &["2", "1"],
        query: r#"SELECT id, queue_name, delivered_at FROM messenger_messages ORDER BY id"#,
        after: "2|default|\n3|failed|\n4|default|2026-11-20 10:00:04\n5|default|",
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
        },
        ..Case::default()
    });
}

#[test]
fn action_scheduler() {
    check(&Case {
        queue: "action_scheduler",
        fails_for: &["2", "3"],
        handled: &["10", "8", "3", "2", "1"],
        query: r#"SELECT action_id, status, attempts, nullif(CAST(last_attempt_gmt AS text), '0000-00-00 00:00:00') FROM wp_actionscheduler_actions ORDER BY 1"#,
        after: "1|complete|1|\n2|failed|1|2026-11-21 00:00:00\n3|canceled|5|2026-11-21 00:00:00\n4|failed|4|2026-11-20 23:59:58\n5|pending|0|\n6|pending|0|\n7|complete|1|2020-11-20 10:00:06\n8|complete|2|\n9|canceled|5|2020-11-21 10:00:08\n10|complete|1|",
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
        after: "1|2026-11-21 00:00:00|done|success||0\n2|2026-11-21 00:00:00|done|failure|no route to host|3\n3|2026-11-20 10:00:02|queued|queued||0\n4|2026-11-20 10:00:03|done|success||0\n5|2026-11-21 00:00:00|queued|queued|no route to host|1\n6|2026-11-20 10:00:05|queued|queued||0\n7|2026-11-20 10:00:06|done|failure|timed out|3\n8|2026-11-20 10:00:07|running|queued||0",
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
        ..Case::default()
    });
}

#[test]
fn moodle() {
    check(&Case {
        queue: "moodle",
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

/// The rows of a table, each a map of its columns.
fn rows(env: &TestEnv, database: Option<&Database>, table: &str) -> Vec<Row> {
    let Some(database) = database else {
        let connection = env.connection();
        let mut statement = connection.prepare(&format!("SELECT * FROM \"{table}\"")).unwrap();
        let names: Vec<_> = statement.column_names().map(String::from).collect();
        let row = |row: &rusqlite::Row<'_>| {
            let value = |index| format!("{:?}", row.get_ref(index).unwrap());
            Ok(names.iter().cloned().zip((0..names.len()).map(value)).collect())
        };
        return statement.query_map([], row).unwrap().map(Result::unwrap).collect();
    };
    let rows = database.query(&format!("SELECT row_to_json(t) FROM {table} t"));
    let row = |row: &str| {
        let values: serde_json::Map<String, serde_json::Value> = serde_json::from_str(row).unwrap();
        values.into_iter().map(|(name, value)| (name, value.to_string())).collect()
    };
    rows.lines().map(row).collect()
}

type Row = BTreeMap<String, String>;

/// The columns that a mapping may leave otherwise in a record that was archived and restored: those
/// of its failures, the next attempt, which is now, and what on_restore names.
fn may_differ(mapping: &toml::Table) -> Vec<String> {
    let columns = ["failures", "last_failure", "last_error"].into_iter().filter_map(|key| {
        let value = mapping.get(key)?;
        value.as_str().or_else(|| value.get("column")?.as_str())
    });
    let restored = mapping.get("on_restore").and_then(toml::Value::as_table);
    let failed = mapping.get("on_failure").and_then(toml::Value::as_table);
    let next = failed.into_iter().flatten().filter(|(_, to)| to.as_str() == Some("{next}"));
    columns
        .chain(next.map(|(column, _)| column.as_str()))
        .chain(restored.into_iter().flat_map(|row| row.keys().map(String::as_str)))
        .map(str::to_lowercase)
        .collect()
}

/// Archives what is NEW in a table, and restores it.
fn archive_and_restore(
    env: &TestEnv,
    database: Option<&Database>,
    queue: &str,
    mapping: &toml::Table,
) {
    let table = mapping["table"].as_str().unwrap();
    let changing = may_differ(mapping);
    let shown = || {
        let mut rows = rows(env, database, table);
        rows.iter_mut()
            .for_each(|row| row.retain(|name, _| !changing.contains(&name.to_lowercase())));
        rows.sort();
        rows
    };
    let list = |status: &str| {
        let listed =
            env.run_at(MIDNIGHT, &format!("list --queue {queue} --status {status} --json"));
        let id = |row: &str| {
            let row = json(row);
            let part = |part: &serde_json::Value| {
                part.as_str().map_or_else(|| part.to_string(), String::from)
            };
            let id = &row["id"];
            let parts = id.as_array().map(|parts| parts.iter().map(part).collect::<Vec<_>>());
            parts.map_or_else(|| part(id), |parts| parts.join(","))
        };
        listed.success().stdout.lines().map(id).collect::<Vec<_>>()
    };
    // Restored, a record is NEW: so only those that were so come back as they were.
    let ids = list("NEW");
    let ids = if ids.is_empty() { list("ERROR") } else { ids };
    assert!(!ids.is_empty(), "{queue}");
    let (before, archived) = (shown(), list("ARCHIVED"));
    let edit = |verb: &'static str| {
        let mut args = vec![verb, "--queue", queue];
        args.extend(ids.iter().map(String::as_str));
        let ran = env.run_at(MIDNIGHT, &args).success();
        assert!(ran.stdout.contains(&format!("d {} record", ids.len())), "{queue}: {ran:?}");
    };
    edit("archive");
    assert_eq!(list("ARCHIVED").len(), archived.len() + ids.len(), "{queue}");
    edit("restore");
    assert_eq!(shown(), before, "{queue}");
    assert_eq!(list("ARCHIVED"), archived, "{queue}");
}

#[test]
fn each_table_gets_back_what_was_archived_as_it_was() {
    let queues: toml::Table = MAPPINGS.parse().unwrap();
    for (queue, mapping) in queues["queue"].as_table().unwrap() {
        let mapping = mapping.as_table().unwrap();
        let env = TestEnv::with_schema(&schema(queue, "sqlite"));
        env.write("backlog.toml", MAPPINGS);
        archive_and_restore(&env, None, queue, mapping);
        let Some(database) = database() else { continue };
        database.sql(&schema(queue, "postgres"));
        let env = TestEnv::on(&database);
        env.write("backlog.toml", MAPPINGS);
        archive_and_restore(&env, Some(&database), queue, mapping);
    }
}
