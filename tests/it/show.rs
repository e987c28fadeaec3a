//! `show`, and ids of which only the beginning is typed.

use test_support::cluster::cluster;

use crate::testenv::*;

const SCHEMA: &str =
    "CREATE TABLE backlog (id {uuid} PRIMARY KEY, status text NOT NULL DEFAULT 'NEW',
    date_inserted text DEFAULT '2026-11-20T23:57:00Z', payload text, raw {bytes}, note text);";
const IDS: [&str; 3] = [
    "0192f5a0-7c1e-7000-8000-00000000002a",
    "0192f5a0-7c1e-7000-8000-00000000002b",
    "0192f5b1-7c1e-7000-8000-00000000002c",
];

fn on_both(check: impl Fn(&TestEnv)) {
    let rows = IDS.map(|id| format!("INSERT INTO backlog (id) VALUES ('{id}');")).concat();
    let schema = |uuid, bytes| SCHEMA.replace("{uuid}", uuid).replace("{bytes}", bytes) + &rows;
    check(&TestEnv::with_schema(&schema("text", "blob")));
    let Some(cluster) = cluster() else { return skipped("ids of type uuid: no server") };
    let database = cluster.database();
    database.sql(&schema("uuid", "bytea"));
    check(&TestEnv::on(&database));
}

#[test]
fn a_record_is_shown_with_all_its_columns() {
    on_both(|env| {
        let payload = r#"{"order": 1.5, "items": [{"a": "x y"}, []]}"#;
        env.run("process --ndays 9 -- false");
        let set = |sql: &str| match env.url() {
            Some(url) => {
                let ran = std::process::Command::new("psql").args([url, "-qc", sql]).status();
                assert!(ran.unwrap().success());
            }
            None => env.sql(sql),
        };
        set(&format!(
            "UPDATE backlog SET status = 'ERROR', payload = '{payload}', note = 'a\tb\n'"
        ));
        let shown = env.run_at(MIDNIGHT, &format!("show {}", IDS[0])).success().stdout;
        let expected = format!(
            "record {0}: ERROR, inserted 2026-11-20T23:57:00Z
  id             {0}
  status         ERROR
  date_inserted  2026-11-20T23:57:00Z
  payload        {{
                   \"order\": 1.5,
                   \"items\": [
                     {{
                       \"a\": \"x y\"
                     }},
                     []
                   ]
                 }}
  raw            NULL
  note           a\\tb
",
            IDS[0]
        );
        assert_eq!(shown.trim_end(), expected.trim_end());
        let json = env.run_at(MIDNIGHT, &format!("show --json {}", IDS[0])).success().stdout;
        let log = env.path("handled");
        let handler = format!("cat >>{}", log.display());
        env.run(&format!("process --ndays 9999 -- {}", sh(&handler))).success();
        let handled = std::fs::read_to_string(log).unwrap();
        assert!(handled.lines().any(|line| format!("{line}\n") == json), "{json}\n{handled}");
        let shown = env.run(&format!("show --set payload=payload --json {}", IDS[0])).success();
        assert_eq!(shown.stdout, format!("{payload}\n"));
        set("UPDATE backlog SET payload = '[1.50, {}]'");
        let shown = env.run(&format!("show {}", IDS[1])).success().stdout;
        assert!(shown.contains("  payload        [1.50, {}]\n"), "as it is spelt: {shown}");
        env.run(&format!("show nobody {}", IDS[0])).fails(1, &["nobody: no such record"]);
    });
}

#[test]
fn bytes_are_shown_up_to_a_limit_and_the_secret_is_not() {
    let env = TestEnv::with_schema(&SCHEMA.replace("{uuid}", "integer").replace("{bytes}", "blob"));
    env.sql("INSERT INTO backlog (id, raw, note, payload) VALUES (1, zeroblob(4099), 'NULL', '')");
    let shown = env.run("show 1 --set secret_column=note").success().stdout;
    let expected = format!(
        "  payload        ''\n  raw            {}\n{:17}... and 3 bytes more\n  note           (secret)\n",
        "00".repeat(4096),
        ""
    );
    assert!(shown.ends_with(&expected), "{shown}");
    let shown = env.run("show 1").success().stdout;
    assert!(shown.ends_with("  note           'NULL'\n"), "{shown}");
}

#[test]
fn an_id_may_be_shortened_to_what_only_it_begins_with() {
    on_both(|env| {
        let shown = env.run("show 0192f5b").success().stdout;
        assert!(shown.starts_with(&format!("record {}: NEW", IDS[2])), "{shown}");
        let both = format!("2 ids begin with it: {}, {}; type more of it", IDS[0], IDS[1]);
        env.run("show 0192f5a0-7c").fails(1, &[&both]);
        for short in ["0192f", "0192f5c", "0192f5bx"] {
            env.run(&format!("show {short}")).fails(1, &["no such record"]);
        }
        env.run("archive 0192f5b1-7c1e-7000").success();
        assert_contains(&env.run("explain 0192f5b1").success().stdout, ": ARCHIVED");
    });
}

#[test]
fn a_deleted_record_may_have_succeeded() {
    let env = TestEnv::new();
    let explain = |more: &str| env.run(&format!("explain 7 {more}")).stdout;
    assert_eq!(explain(""), "7: no such record\n");
    assert_eq!(
        explain("--set on_success=delete --set joblog=log.jsonl"),
        "7: no such record; on_success deletes the records that succeed, so it may have succeeded: \
         see the joblog log.jsonl\n"
    );
}

#[test]
fn an_attempt_that_runs_has_not_failed() {
    let env = TestEnv::with_record(7, MIDNIGHT);
    let pausing = env.pausing();
    let now = format!("@{MIDNIGHT}");
    let mut pass =
        env.spawn(&format!("process --fibonacci --now {now} -- {}", sh(&pausing.script)));
    pausing.wait_for_begin();
    let explain = || env.run_at(MIDNIGHT + 1, "explain --fibonacci 7").success().stdout;
    let explained = explain();
    for line in [
        "record 7: in hand since 2026-11-21T00:00:00Z, inserted 2026-11-21T00:00:00Z, 0 attempts failed before\n",
        "  now         2026-11-21T00:00:01Z: its handler is running\n  next ",
        "if this one and all of them fail",
    ] {
        assert_contains(&explained, line);
    }
    let listed = env.run_at(MIDNIGHT + 1, "show 7").success().stdout;
    assert!(listed.starts_with("record 7: in hand since "), "{listed}");
    env.kill(&mut pass);
    let explained = explain();
    let says = "tried at 2026-11-21T00:00:00Z; the pass ended without an outcome of it";
    assert_contains(&explained, says);
}
