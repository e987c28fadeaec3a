//! Records for a co-process, and its replies.

use super::*;
use std::collections::BTreeSet;
use std::fs;

#[test]
fn one_process_gets_all_records_as_lines_and_a_line_before_that_says_what_they_are() {
    let env = midnight_records(3);
    env.sql("UPDATE BACKLOG SET PAYLOAD = '{\"a\":\"\u{1F600}\"}' WHERE ID = 2");
    let handler = format!(
        "echo $$ >>pids; env | grep -E '^(BACKLOG_(QUEUE|TABLE|MAX_ATTEMPTS|ID|ATTEMPT)|PYTHONUNBUFFERED)=' \
         | sort >env; tee seen | {}",
        EXEC_SUCCEEDS.trim_start_matches("exec ")
    );
    pass(&env, "--ndays 1 --queue email --max-attempts 5", &sh(&handler).to_string()).silent();
    assert_eq!(env.statuses(), "1|SUCCESS\n2|SUCCESS\n3|SUCCESS");
    assert_eq!(lines(&env, "pids").len(), 1);
    assert_eq!(
        lines(&env, "env"),
        [
            "BACKLOG_MAX_ATTEMPTS=5",
            "BACKLOG_QUEUE=email",
            "BACKLOG_TABLE=BACKLOG",
            "PYTHONUNBUFFERED=1"
        ]
    );
    let record = |id: i64, payload: &str| {
        format!(
            "{{\"ID\":{id},\"STATUS\":\"NEW\",\"DATE_INSERTED\":\"2026-11-21T00:00:00Z\",\
             \"PAYLOAD\":{payload},\"FAILURES\":0,\"LAST_FAILURE\":null,\"LAST_ERROR\":null,\
             \"backlog_id\":\"{id}\"}}"
        )
    };
    assert_eq!(
        lines(&env, "seen"),
        [
            "{\"backlog\":1,\"queue\":\"email\",\"table\":\"BACKLOG\",\"id\":[\"ID\"],\
             \"columns\":[\"ID\",\"STATUS\",\"DATE_INSERTED\",\"PAYLOAD\",\"FAILURES\",\
             \"LAST_FAILURE\",\"LAST_ERROR\"],\"reply_with\":\"backlog_id\"}",
            &record(3, "null"),
            &record(2, "\"{\\\"a\\\":\\\"\u{1F600}\\\"}\""),
            &record(1, "null"),
        ]
    );
}

#[test]
fn a_pass_with_nothing_to_do_starts_no_process() {
    let env = TestEnv::new();
    pass(&env, "--ndays 1", "touch started").silent();
    assert!(!env.path("started").exists());
}

#[test]
fn a_pass_in_the_handler_of_another_does_not_hand_on_the_limit_of_that_one() {
    let env = midnight_records(1);
    let handler = format!("env >env; {EXEC_SUCCEEDS}");
    let args = "process --ndays 1 --now @1795219200 --stream";
    let mut command = env.command(&format!("{args} -- {}", sh(&handler)));
    command.env("BACKLOG_PASS", "00").env("BACKLOG_MAX_ATTEMPTS", "9");
    command.ran().silent();
    let environment = env.read("env");
    assert_contains(&environment, "BACKLOG_QUEUE=default\n");
    assert_lacks(&environment, "BACKLOG_MAX_ATTEMPTS=");
}

#[test]
fn replies_may_come_in_any_order() {
    let env = midnight_records(5);
    let handler = python(
        &env,
        r#"
ids = [read()["ID"] for _ in range(5)]
note("order", *ids)
for id in [2, 5, 1, 4, 3]:
    answer(id, *([] if id % 2 else ["failure"]), error="even")
"#,
    );
    pass(&env, "--ndays 1", &format!("python3 {handler}")).silent();
    assert_eq!(lines(&env, "order"), ["5 4 3 2 1"]);
    assert_eq!(
        rows(&env),
        "1|SUCCESS|0|\n2|ERROR|1|even\n3|SUCCESS|0|\n4|ERROR|1|even\n5|SUCCESS|0|"
    );
}

/// Each outcome, and what it writes where failures are counted and have been 2.
const OUTCOMES: [(&str, &str); 7] = [
    (r#"{"outcome":"success","error":"none"}"#, "SUCCESS|2||"),
    (r#"{"outcome":"failure","error":"no\nroute"}"#, r"ERROR|3|2026-11-21T00:00:00Z|no\nroute"),
    (r#"{"outcome":"failure"}"#, "ERROR|3|2026-11-21T00:00:00Z|the handler gave no reason"),
    (
        r#"{"outcome":"snooze","error":"busy","after":"10m"}"#,
        "ERROR|2|2026-11-21T00:00:00Z|snoozed until 2026-11-21T00:10:00Z: busy",
    ),
    (r#"{"outcome":"snooze"}"#, "ERROR|2|2026-11-21T00:00:00Z|snoozed"),
    (r#"{"outcome":"give_up","error":"gone"}"#, "ARCHIVED|3|2026-11-21T00:00:00Z|gone"),
    (r#"{"outcome":"give_up"}"#, "ARCHIVED|3|2026-11-21T00:00:00Z|given up"),
];

#[test]
fn each_outcome_writes_what_it_means_to_the_row() {
    for (payload, expected) in OUTCOMES {
        let env = midnight_records(1);
        env.sql(&format!(
            "UPDATE BACKLOG SET STATUS = 'ERROR', FAILURES = 2, PAYLOAD = '{payload}'"
        ));
        let ran = pass(&env, "--ndays 1", &format!("python3 {}", obedient(&env)));
        let row = env.query("SELECT STATUS, FAILURES, LAST_FAILURE, LAST_ERROR FROM BACKLOG");
        assert_eq!(row, expected, "{payload}");
        if expected.starts_with("ARCHIVED") {
            let error = expected.rsplit('|').next().unwrap();
            ran.fails(1, &["record 1 was given up by its handler (attempt 3); archived: ", error]);
        } else {
            ran.silent();
        }
    }
}

#[test]
fn an_outcome_is_a_status_alone_where_nothing_is_counted() {
    let env = TestEnv::minimal();
    for (id, (payload, _)) in (1..).zip(OUTCOMES) {
        env.insert_one(id, MIDNIGHT);
        env.sql(&format!("UPDATE BACKLOG SET PAYLOAD = '{payload}' WHERE ID = {id}"));
    }
    pass(&env, "--ndays 1", &format!("python3 {}", obedient(&env)))
        .fails(1, &["record 6", "record 7"]);
    assert_eq!(
        env.statuses(),
        "1|SUCCESS\n2|ERROR\n3|ERROR\n4|ERROR\n5|ERROR\n6|ARCHIVED\n7|ARCHIVED"
    );
}

#[test]
fn a_record_is_snoozed_for_as_long_as_its_handler_asks() {
    let env = midnight_records(1);
    env.sql(r#"UPDATE BACKLOG SET PAYLOAD = '{"outcome":"snooze","error":"busy","after":"10m"}'"#);
    pass(&env, "--fibonacci", &format!("python3 {}", obedient(&env))).silent();
    assert_eq!(rows(&env), "1|ERROR|0|snoozed until 2026-11-21T00:10:00Z: busy");
    let handler = env.noting("exit 0");
    let at = |minutes| {
        let now = MIDNIGHT + minutes * MINUTE;
        env.run_at(now, &format!("process --fibonacci -- {handler}")).silent();
        env.run_at(now, "explain --fibonacci 1").success().stdout
    };
    let explained = at(9);
    assert_eq!(env.handled(), [""; 0]);
    assert_contains(&explained, "2026-11-21T00:10:00Z");
    assert_contains(&explained, "snoozed");
    at(10);
    assert_eq!(env.handled(), ["1"]);
}

#[test]
fn no_more_records_are_in_flight_than_the_window_has_room_for() {
    let env = midnight_records(20);
    let path = env.path("handler.py");
    // It reads no further than the end of a line, so that what comes behind it can be seen.
    fs::write(
        &path,
        r#"
import json, os, select, sys

def read():
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit("the window is not filled")
        line += byte
    return json.loads(line)

read()
hand = []
for answered in range(20):
    while len(hand) < min(3, 20 - answered):
        hand.append(read())
    # The end of the input must not come either while there is something to answer.
    if select.select([0], [], [], 0.02)[0]:
        sys.exit("more than the window")
    print(json.dumps({"id": hand.pop()["ID"], "outcome": "success"}), flush=True)
"#,
    )
    .unwrap();
    pass(&env, "--ndays 1 --window 3", &format!("python3 {}", path.display())).silent();
    assert_eq!(env.count("SUCCESS"), 20);
}

#[test]
fn two_jobs_are_two_processes_that_work_at_the_same_time() {
    let env = midnight_records(6);
    // None answers before the other one has a record as well.
    let handler = python(
        &env,
        r#"
for it in records():
    note(f"seen.{os.getpid()}", it["ID"])
    while sum(name.startswith("seen.") for name in os.listdir()) < 2:
        time.sleep(0.005)
    answer(it["ID"])
"#,
    );
    pass(&env, "--ndays 1 --jobs 2", &format!("python3 {handler}")).silent();
    assert_eq!(env.count("SUCCESS"), 6);
    let seen = fs::read_dir(env.path("")).unwrap().flatten();
    let seen: Vec<_> = seen
        .map(|file| file.file_name().into_string().unwrap())
        .filter(|name| name.starts_with("seen."))
        .collect();
    assert_eq!(seen.len(), 2, "{seen:?}");
    let ids: Vec<_> = seen.iter().flat_map(|file| lines(&env, file)).collect();
    assert_eq!(ids.len(), 6);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 6);
}

#[test]
fn ids_may_be_any_text_and_come_back_as_text_or_as_number() {
    let ids = ["a'b\"c", "two\nlines", "\u{1F600}", "7", "007", "a,b\\", "{ID}", ""];
    for back in ["it['ID']", "int(it['ID']) if it['ID'] == '7' else it['ID']"] {
        let env = TestEnv::with_schema(
            "CREATE TABLE BACKLOG (ID TEXT PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT DEFAULT '2026-11-20T23:00:00Z')",
        );
        for id in ids {
            env.connection().execute("INSERT INTO BACKLOG (ID) VALUES (?1)", [id]).unwrap();
        }
        let handler = python(&env, &format!("for it in records(): answer({back})\n"));
        pass(&env, "--ndays 1", &format!("python3 {handler}")).silent();
        assert_eq!(env.count("SUCCESS"), 8);
    }
    let env = midnight_records(2);
    let handler = python(&env, "for it in records(): answer(str(it['ID']))\n");
    pass(&env, "--ndays 1", &format!("python3 {handler}")).silent();
    assert_eq!(env.count("SUCCESS"), 2);
}

#[test]
fn a_composite_id_comes_back_as_a_list_or_as_it_is_shown() {
    for back in
        ["[it[name] for name in hello['id']]", "it['a'].replace(',', '\\\\,') + f\",{it['b']}\""]
    {
        let env = TestEnv::with_schema(
            "CREATE TABLE t (a TEXT, b INTEGER, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT DEFAULT '2026-11-20T23:00:00Z', PRIMARY KEY (a, b));
             INSERT INTO t (a, b) VALUES ('x', 1), ('x', 2), ('it''s', 1), ('c,d', 3);",
        );
        let text = "note('id', hello['id'])\nfor it in records(): answer(BACK)\n";
        let handler = python(&env, &text.replace("BACK", back));
        let options = r#"--ndays 1 --table t --set "id=['a','b']""#;
        pass(&env, options, &format!("python3 {handler}")).silent();
        assert_eq!(lines(&env, "id"), ["['a', 'b']"]);
        assert_eq!(env.query("SELECT DISTINCT STATUS FROM t"), "SUCCESS", "{back}");
    }
}

#[test]
fn what_a_process_says_on_standard_error_is_the_log() {
    let env = midnight_records(1);
    let handler = format!("echo loading the model >&2; {EXEC_SUCCEEDS}");
    let ran = pass(&env, "--ndays 1 -v", &sh(&handler).to_string()).success();
    assert_contains(&ran.stderr, "handler: loading the model\n");
    env.sql("UPDATE BACKLOG SET STATUS = 'NEW'");
    pass(&env, "--ndays 1", &sh(&handler).to_string()).silent();
}

#[test]
fn large_records_and_large_replies_do_not_block_each_other() {
    let env = midnight_records(12);
    env.sql("UPDATE BACKLOG SET PAYLOAD = json_quote(printf('%.*c', 1000000, 'x'))");
    // The first writes while records are still being written to it, the second reads all before.
    for (reads, id) in [(1, 1), (12, 2)] {
        let handler = python(
            &env,
            &format!(
                r#"
import itertools
lines = records()
while hand := list(itertools.islice(lines, {reads})):
    for it in hand:
        print("y" * 100000, file=sys.stderr, flush=True)
        answer(it["ID"], "failure", error=f"{{len(it['PAYLOAD'])}} " + "x" * 100000)
"#
            ),
        );
        pass(&env, "--ndays 1", &format!("python3 {handler}")).silent();
        let failed =
            "SELECT count(*) FROM BACKLOG WHERE FAILURES = ?1 AND LAST_ERROR LIKE '1000002 xxxx%'";
        let failed: i64 = env.connection().query_row(failed, [id], |row| row.get(0)).unwrap();
        assert_eq!(failed, 12);
    }
}

/// Prints without an end, and notes how much memory the pass has used so far.
const ENDLESS: &str = r#"
chunk = b"x" * (1 << 20)
for _ in range(200):
    os.write(1, chunk)
    peak = next(it for it in open(f"/proc/{os.getppid()}/status") if it.startswith("VmHWM"))
    note("peaks", peak.split()[1])
time.sleep(1000)
"#;

#[test]
fn output_without_an_end_is_an_error_and_not_kept() {
    let env = midnight_records(2);
    let handler = python(&env, ENDLESS);
    let ran = pass(&env, "--ndays 1", &format!("python3 {handler}"));
    let cut = "x".repeat(200);
    let says =
        format!("line 1 of the handler's output is not a reply, it is longer than 1 MiB: {cut}...");
    ran.fails(1, &[&says, "the pass stops here"]);
    assert_eq!(env.statuses(), "1|NEW\n2|NEW");
    assert_peak(&env);
}

#[test]
fn output_of_a_handler_that_goes_on_after_its_error_is_not_kept_either() {
    let env = midnight_records(1);
    let deaf = format!("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{ENDLESS}");
    pass(&env, "--ndays 1", &format!("python3 {}", python(&env, &deaf)))
        .fails(1, &["is not a reply, it is longer than 1 MiB: xxxx"]);
    assert_eq!(env.statuses(), "1|NEW");
    assert_peak(&env);
}

/// The pass never used more memory than a line may be long, and what it needs anyway.
#[track_caller]
fn assert_peak(env: &TestEnv) {
    let peaks = lines(env, "peaks");
    let peaks: Vec<u64> = peaks.iter().map(|kilobytes| kilobytes.parse().unwrap()).collect();
    assert!(peaks.iter().all(|peak| *peak < 64 * 1024), "{peaks:?}");
}

/// Rounds the numbers of its lines, as every JSON.parse does.
const ROUNDS: &str =
    "for it in sys.stdin:\n    it = json.loads(it, parse_int=lambda it: int(float(it)))\n";

/// 2^60 and its neighbour, and a number that is far from them.
fn snowflakes() -> TestEnv {
    let env = TestEnv::new();
    for (id, payload) in
        [(1_i64 << 60, "false"), ((1 << 60) + 1, "true"), ((1 << 60) + 4096, "true")]
    {
        env.insert_one(id, MIDNIGHT);
        env.sql(&format!("UPDATE BACKLOG SET PAYLOAD = '{payload}' WHERE ID = {id}"));
    }
    env
}

#[test]
fn an_id_that_loses_digits_is_told_by_its_text() {
    let env = snowflakes();
    let answers =
        "    answer(it['backlog_id'], 'success' if it['PAYLOAD'] == 'true' else 'failure')\n";
    let handler = python(&env, &format!("{ROUNDS}{answers}"));
    pass(&env, "--ndays 1", &format!("python3 {handler}")).silent();
    let expected = format!(
        "{}|ERROR\n{}|SUCCESS\n{}|SUCCESS",
        1_i64 << 60,
        (1_i64 << 60) + 1,
        (1_i64 << 60) + 4096
    );
    assert_eq!(env.statuses(), expected);
}

#[test]
fn a_node_handler_keeps_ids_apart() {
    let env = snowflakes();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/stream.mjs");
    pass(&env, "--ndays 1", &format!("node {example}")).silent();
    assert_eq!(env.count("SUCCESS"), 3);
}

#[test]
fn a_number_that_may_mean_two_records_settles_neither() {
    let env = snowflakes();
    let answers = "    answer(it['ID'], 'success' if it['PAYLOAD'] == 'true' else 'failure')\n";
    let handler = python(&env, &format!("{ROUNDS}{answers}"));
    let says = [
        "answers record 1152921504606846976, which may be several records in flight; numbers from 2^53 on lose digits in \
         JavaScript: answer with \"backlog_id\" as the id",
    ];
    pass(&env, "--ndays 1", &format!("python3 {handler}")).fails(1, &says);
    let neighbours =
        format!("SELECT DISTINCT STATUS, FAILURES FROM BACKLOG WHERE ID < {}", (1_i64 << 60) + 2);
    assert_eq!(env.query(&neighbours), "NEW|0");
    env.sql(&format!("DELETE FROM BACKLOG WHERE ID = {}", (1_i64 << 60) + 1));
    pass(&env, "--ndays 1", &format!("python3 {handler}")).silent();
    assert_eq!(
        env.query("SELECT STATUS FROM BACKLOG ORDER BY ID"),
        "ERROR\nSUCCESS",
        "no two are meant"
    );
}

#[test]
fn a_handler_that_keeps_all_digits_answers_by_number_as_well() {
    let env = TestEnv::new();
    env.sql(&format!(
        "INSERT INTO BACKLOG (ID, DATE_INSERTED) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
         SELECT {} + i, '2026-11-21T00:00:00Z' FROM n",
        1_i64 << 60
    ));
    let handler = python(&env, "for it in records():\n    answer(it['ID'])\n");
    pass(&env, "--ndays 1 --window 256", &format!("python3 {handler}")).silent();
    assert_eq!(env.count("SUCCESS"), 300);
}

#[test]
fn a_column_named_backlog_id_is_the_tables_own() {
    let env = midnight_records(1);
    env.sql("ALTER TABLE BACKLOG ADD COLUMN backlog_id TEXT DEFAULT 'x'");
    let text = "for it in records():\n    note('ids', it['backlog_id'], it['backlog_id_'])\n    answer(it['ID'])\n";
    pass(&env, "--ndays 1", &format!("python3 {}", python(&env, text))).silent();
    assert_eq!(lines(&env, "ids"), ["x 1"]);
    for example in ["python3 {}/stream.py", "sh {}/stream.sh", "node {}/stream.mjs"] {
        env.sql("UPDATE BACKLOG SET STATUS = 'NEW'");
        let example = example.replace("{}", concat!(env!("CARGO_MANIFEST_DIR"), "/examples"));
        pass(&env, "--ndays 1", &example).silent();
        assert_eq!(env.statuses(), "1|SUCCESS", "{example}");
    }
}
