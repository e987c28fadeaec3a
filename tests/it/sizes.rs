//! Values of any length and with any blank: cut where they are shown, and an error of their own record
//! where they are too large to be handled.

use test_support::cluster::cluster;

use crate::testenv::*;

/// The lengths around the largest width that a format takes, and a long one.
const LENGTHS: [usize; 3] = [65_535, 65_536, 1_000_000];

const COMMANDS: [&str; 17] = [
    "status",
    "status --json --fibonacci",
    "status --fibonacci --html page.html --metrics metrics.prom",
    "status --ndays 7",
    "list",
    "list --fibonacci",
    "list --json",
    "list --status error",
    "explain 1 2 3 --fibonacci",
    "failures",
    "failures --json",
    "check --fibonacci --rehearse -- true",
    "check --json --ndays 7 -- true",
    "process --fibonacci --dry-run",
    "process --ndays 7 --dry-run",
    "simulate --from-table --fibonacci --for 1h",
    "adopt --table BACKLOG",
];

const TABLE: &str =
    "CREATE TABLE backlog (id {any} PRIMARY KEY, status {any} DEFAULT 'NEW', date_inserted {any},
    failures INTEGER DEFAULT 0, last_failure {any}, last_error {any}, payload {any});
  INSERT INTO backlog (id, date_inserted, status, failures, last_failure) VALUES ('1', '2026-11-20T23:00:00Z', 'NEW', 0, NULL),
    ('2', '2026-11-20T23:00:00Z', 'ERROR', 1, '2026-11-20T23:01:00Z'), ('3', '2026-11-20T23:00:00Z', 'SUCCESS', 0, NULL);";

/// A row with a text in the place of each value in turn, and in several at once.
fn rows(number: usize, text: &str) -> String {
    let usual = ["'NEW'", "'2026-11-20T22:00:00Z'", "0", "NULL", "NULL"];
    let mut rows = vec![format!("INSERT INTO backlog VALUES ({text}, {}, NULL)", usual.join(", "))];
    for place in [0, 1, 3, 4] {
        let mut values = usual;
        values[place] = text;
        if place > 1 {
            (values[0], values[2]) = ("'ERROR'", "1");
        }
        rows.push(format!(
            "INSERT INTO backlog VALUES ('{number}-{place}', {}, NULL)",
            values.join(", ")
        ));
    }
    let last = "'ERROR', '2026-11-20T21:00:00Z', 1, '2026-11-20T22:00:00Z', NULL, NULL";
    rows.push(format!("INSERT INTO backlog VALUES ('{number}-last', {last})"));
    rows.join(";")
}

/// Runs every command, of which none may panic, nor write a line that is longer than its cells may be.
#[track_caller]
fn run_all(env: &TestEnv) -> Vec<Ran> {
    let runs: Vec<_> = COMMANDS
        .iter()
        .map(|args| {
            let args =
                if env.url().is_some() && args.starts_with("adopt") { "status" } else { *args };
            let ran =
                if args.starts_with("adopt") { env.run(args) } else { env.run_at(MIDNIGHT, args) };
            assert!(
                ran.exit.is_some_and(|exit| exit < 3),
                "{args:?}: {:?} {:.500}",
                ran.exit,
                ran.stderr
            );
            for line in ran.stdout.lines().chain(ran.stderr.lines()) {
                assert!(line.len() < 200_000, "{args:?}: {line:.500}");
            }
            ran
        })
        .collect();
    for file in ["page.html", "metrics.prom"] {
        let text = env.read(file);
        assert!(text.len() < 200_000, "{file} has {} bytes", text.len());
    }
    runs
}

fn on_both(fill: impl Fn(&dyn Fn(&str)), check: impl Fn(&TestEnv, &dyn Fn(&str) -> String)) {
    let env = TestEnv::with_schema(&TABLE.replace("{any}", ""));
    fill(&|sql| env.sql(sql));
    check(&env, &|sql| env.query(sql));
    let Some(cluster) = cluster() else { return skipped("values of any length: no server") };
    let database = cluster.database();
    // A primary key of text is an index, which takes no long value.
    database.sql(&TABLE.replace("{any} PRIMARY KEY", "text").replace("{any}", "text"));
    fill(&|sql| database.sql(sql));
    check(&TestEnv::on(&database), &|sql| database.query(sql).trim().into());
}

#[test]
fn no_length_of_a_text_makes_a_command_panic() {
    on_both(
        |sql| {
            for (length, number) in LENGTHS.into_iter().zip(10..) {
                sql(&rows(number, &format!("'{}'", "é".repeat(length))));
            }
        },
        |env, query| {
            let runs = run_all(env);
            let listed = &runs[4].stdout;
            assert!(listed.contains("ééé..."), "{listed:.500}");
            let ran = env.pass("--fibonacci -- true");
            let says =
                "3 pending records are not tried, because their id is longer than 4096 bytes";
            assert!(ran.exit == Some(1) && ran.stderr.contains(says), "{ran:?}");
            let unsettled = "length(id) < 9 AND length(status) < 9 AND status <> 'SUCCESS'";
            let left = query(&format!(
                "SELECT id, status, substr(last_error, 1, 80) FROM backlog WHERE {unsettled}"
            ));
            assert_eq!(left, "");
            let long =
                query("SELECT count(*) FROM backlog WHERE length(id) > 9 AND status = 'NEW'");
            assert_eq!(long, "3", "a record that no message could name is left alone");
        },
    );
}

#[test]
fn every_blank_of_unicode_is_escaped_or_a_blank() {
    let blanks: Vec<char> = (1..=u32::from(char::MAX))
        .filter_map(char::from_u32)
        .filter(|c| c.is_whitespace())
        .collect();
    assert_eq!(blanks.len(), 25);
    on_both(
        |sql| {
            for (blank, number) in blanks.iter().zip(100..) {
                sql(&rows(number, &format!("'{number}{blank}2026-11-20{blank}22:00:00'")));
                sql(&rows(number + 100, &format!("'2026-11-20{blank}22:00:{:02}'", number % 60)));
            }
        },
        |env, query| {
            for ran in run_all(env) {
                for c in ['\u{85}', '\u{2028}', '\u{2029}', '\u{b}', '\u{c}'] {
                    assert!(!ran.stdout.contains(c) && !ran.stderr.contains(c), "{c:?}");
                }
            }
            env.pass("--fibonacci -- true").success();
            assert_eq!(query("SELECT count(*) FROM backlog WHERE status IN ('NEW', 'ERROR')"), "0");
        },
    );
}

#[test]
fn a_long_value_in_one_queue_keeps_no_other_from_its_turn() {
    let env = TestEnv::with_schema(&TABLE.replace("{any}", ""));
    env.sql(&rows(10, &format!("'{}'", "x".repeat(65_536))));
    env.sql("CREATE TABLE others AS SELECT * FROM backlog WHERE id = '1'");
    let config = "[defaults]\nfibonacci = true\nexec = ['true']\n[queue.a]\ntable = 'backlog'\n[queue.b]\ntable = 'others'";
    env.write("backlog.toml", config);
    env.pass("--all-queues").fails(1, &["longer than 4096 bytes"]);
    assert_eq!(env.query("SELECT DISTINCT status FROM others"), "SUCCESS");
}

#[test]
fn a_record_with_a_value_that_is_too_large_is_charged_and_fails_by_name() {
    for large in ["payload", "last_error"] {
        let env = records(3);
        // SQLite itself takes a gigabyte.
        env.sql(&format!(
            "UPDATE BACKLOG SET {large} = json_quote(printf('%.*c', 68000000, 'p')) WHERE ID = 2"
        ));
        let handler = env.noting("");
        let args = format!("process --fibonacci --max-attempts 2 -- {handler}");
        env.run_at(MIDNIGHT, &args).silent();
        assert_eq!(env.handled(), ["3", "1"], "{large}");
        let row = "SELECT STATUS, FAILURES, LAST_ERROR FROM BACKLOG WHERE ID = 2";
        let why = "a value of its row has more than 64 MiB: it is not handed to a handler";
        assert_eq!(env.query(row), format!("ERROR|1|{why}"), "{large}");
        env.run_at(MIDNIGHT + 60, &args);
        // A value that is overwritten is no longer too large.
        let end =
            if large == "payload" { ("ARCHIVED|2", vec![]) } else { ("SUCCESS|1", vec!["2"]) };
        let (status, handled) = (env.query(row), env.handled());
        assert!(status.starts_with(end.0) && handled == end.1, "{large}: {status} {handled:?}");
        let length = env.query("SELECT length(PAYLOAD) FROM BACKLOG WHERE ID = 2");
        assert_eq!(length, if large == "payload" { "68000002" } else { "" });
    }
}

#[test]
fn an_id_that_is_too_large_costs_no_other_record_its_turn() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID TEXT, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT DEFAULT '2026-11-20T23:00:00Z', FAILURES INTEGER DEFAULT 0, LAST_FAILURE TEXT, LAST_ERROR TEXT);
         INSERT INTO BACKLOG (ID) VALUES ('1'), ('2'), (printf('%.*c', 70000000, 'x')), ('4');",
    );
    for command in ["list", "explain 4 --fibonacci", "status"] {
        env.run_at(MIDNIGHT, command).success();
    }
    let ran = env.pass("--fibonacci -- true");
    let says = "could not read row 3 of table BACKLOG: string or blob too big";
    assert!(ran.exit == Some(1) && ran.stderr.contains(says), "{ran:?}");
    let rows = "SELECT substr(ID, 1, 1), STATUS, FAILURES FROM BACKLOG ORDER BY rowid";
    assert_eq!(env.query(rows), "1|SUCCESS|0\n2|SUCCESS|0\nx|NEW|0\n4|SUCCESS|0");
    env.run_at(MIDNIGHT, "archive 9").fails(1, &[""]);
}

#[test]
fn a_search_through_large_generated_values_ends_in_time() {
    let env = TestEnv::minimal();
    env.insert(20_000, MIDNIGHT - 60);
    let large = "instr(printf('%.*c', 60000000, 'x') || ID, 'y')";
    let pass = format!("process --ndays 1 --max-runtime 3s --where {}", quoted(large));
    let says = "the search for due records did not end within --max-runtime";
    env.run_at(MIDNIGHT, &format!("{pass} -- true")).fails(1, &[says]);
}

#[test]
fn a_column_with_a_long_name_is_shown_with_a_part_of_it() {
    let name = "c".repeat(70_000);
    let env = TestEnv::with_schema(&format!(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT NOT NULL DEFAULT 'NEW', DATE_INSERTED TEXT, {name} TEXT);
         INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-11-20', 'x')"
    ));
    let shown = env.run("show 1").success().stdout;
    assert!(shown.lines().all(|line| line.len() < 500), "{shown:.300}");
    let handler = env.noting("[ -z \"$BACKLOG_ROW_C\" ]");
    env.run_at(MIDNIGHT, &format!("process --ndays 9 -- {handler}")).silent();
    assert_eq!(env.statuses(), "1|SUCCESS");
}

#[test]
fn a_pass_without_time_is_refused() {
    for none in ["0", "0s", "0ms"] {
        env_of_one()
            .pass(&format!("--ndays 1 --max-runtime {none} -- true"))
            .fails(2, &["--max-runtime"]);
    }
}

fn env_of_one() -> TestEnv {
    TestEnv::with_record(1, MIDNIGHT)
}

#[test]
fn a_line_that_is_longer_than_a_value_may_be_is_not_added() {
    let env = TestEnv::new();
    let mut input = b"1\n\"".to_vec();
    input.resize(65 << 20, b' ');
    env.run_with_input("add -", &input)
        .fails(1, &["line 2 is not JSON (it is longer than 64 MiB)"]);
    assert_eq!(env.query("SELECT count(*) FROM BACKLOG"), "0");
}

#[test]
fn the_parts_of_an_id_are_as_long_as_an_id_may_be_together() {
    let env = TestEnv::with_schema(
        "CREATE TABLE t (a TEXT, b TEXT, status TEXT NOT NULL DEFAULT 'NEW', at TEXT, PRIMARY KEY (a, b));
         INSERT INTO t (a, b, at) VALUES (printf('%.*c', 3000, 'a'), printf('%.*c', 3000, 'b'), '2026-11-20'),
           ('a', 'b', '2026-11-20')",
    );
    let args =
        "process --table t --set 'id=[\"a\", \"b\"]' --set date_inserted=at --ndays 9 -- true";
    env.run_at(MIDNIGHT, args).fails(1, &["its id is longer than 4096 bytes"]);
    assert_eq!(env.query("SELECT status, count(*) FROM t GROUP BY 1"), "NEW|1\nSUCCESS|1");
}
