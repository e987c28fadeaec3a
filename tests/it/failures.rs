//! Why records fail: the causes of their errors, also where no column holds those.

use serde_json::Value;

use crate::archived::follow;
use crate::testenv::*;

/// Records of a table without a column for errors, some of which fail by several causes.
fn flaky() -> (TestEnv, String) {
    let env = TestEnv::minimal();
    env.insert(30, MIDNIGHT - MINUTE);
    let handler = env.script(
        "flaky",
        "case $BACKLOG_ID in
           [1-9]) echo \"could not connect to 10.0.0.$BACKLOG_ID:80: connection refused\" >&2; exit 1;;
           1[0-3]) echo 'HTTP 503 Service Unavailable' >&2; exit 1;;
           14) echo 'HTTP 422 Unprocessable Entity' >&2; exit 1;;
         esac",
    );
    (env, handler)
}

fn groups(env: &TestEnv, args: &str) -> Vec<(String, u64, String)> {
    let ran = env.run(&format!("failures --json {args}")).success();
    let lines = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .map(|line| {
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_string();
            (text("error"), line["records"].as_u64().unwrap(), text("since"))
        })
        .collect()
}

#[test]
fn failures_are_grouped_by_cause_also_without_a_column_for_errors() {
    let (env, handler) = flaky();
    assert_eq!(env.run("failures").success().stdout, "nothing has failed\n");
    env.pass(&format!("--ndays 1 -- {handler}")).silent();
    let ran = env.run("failures").success();
    assert_eq!(
        ran.stdout,
        "GROUP     RECORDS  SINCE                 UNTIL                 IDS           LAST ERROR\n\
         0b5de352        9  2026-11-21T00:00:00Z  2026-11-21T00:00:00Z  1 2 3 ...     could not connect to 10.0.0.9:80: connection refused\n\
         cdf66eff        4  2026-11-21T00:00:00Z  2026-11-21T00:00:00Z  10 11 12 ...  HTTP 503 Service Unavailable\n\
         c7a652f8        1  2026-11-21T00:00:00Z  2026-11-21T00:00:00Z  14            HTTP 422 Unprocessable Entity\n"
    );
    // Status has the same below, and as JSON.
    let status = env.run("status").success().stdout;
    assert!(status.ends_with(&format!("\n\n{}", ran.stdout)), "{status}");
    let status = env.run("status --json").json();
    assert_eq!(status["failures"][1]["group"], "cdf66eff");
    assert_eq!(status["failures"][1]["ids"], serde_json::json!([10, 11, 12]));
    // Commands that show single records show the errors, too.
    let listed = env.run("list --status ERROR --order oldest").success().stdout;
    assert_contains(&listed, "HTTP 503 Service Unavailable");
    let explained = env.run("explain 14").success().stdout;
    assert!(
        explained.starts_with(
            "record 14: ERROR, inserted 2026-11-20T23:59:00Z, failed last at \
             2026-11-21T00:00:00Z: HTTP 422 Unprocessable Entity\n"
        ),
        "{explained}"
    );
}

#[test]
fn a_cause_is_known_since_it_was_met_first_and_gone_with_its_last_record() {
    let (env, handler) = flaky();
    for hours in 0..3 {
        env.run_at(MIDNIGHT + hours * HOUR, &format!("process --ndays 1 -- {handler}")).success();
    }
    let since = groups(&env, "").into_iter().map(|(_, _, since)| since).collect::<Vec<_>>();
    assert_eq!(since, ["2026-11-21T00:00:00Z"; 3]);
    let listed = json_lines(&env.run("list --status ERROR --json").stdout);
    assert_eq!(listed[0]["last_failure"], "2026-11-21T02:00:00Z");
    // All is well for longer than a day, and then it is not.
    env.run_at(MIDNIGHT + 3 * HOUR, "process --ndays 1 -- true").silent();
    assert_eq!(groups(&env, ""), []);
    env.sql("UPDATE BACKLOG SET STATUS = 'NEW'");
    env.run_at(MIDNIGHT + 2 * DAY, &format!("process --ndays 3 -- {handler}")).silent();
    assert_eq!(groups(&env, "").remove(0).2, "2026-11-23T00:00:00Z");
}

#[test]
fn an_error_that_is_kept_ends_with_its_record() {
    let env = TestEnv::minimal();
    env.insert_one(1, MIDNIGHT);
    let pass = |at: i64, handler: &str| {
        env.run_at(at, &format!("process --ndays 9 -- {}", sh(handler))).silent();
    };
    let listed = || env.run("list").success().stdout;
    pass(MIDNIGHT, "echo no route >&2; exit 1");
    assert_contains(&listed(), "no route");
    pass(MIDNIGHT + 1, "true");
    assert_lacks(&listed(), "no route");
    // Another record with the id of a deleted one.
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
    pass(MIDNIGHT + 2, "echo no route >&2; exit 1");
    env.sql("DELETE FROM BACKLOG");
    env.insert_one(1, MIDNIGHT + 3);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
    assert_lacks(&listed(), "no route");
    assert_eq!(groups_unknown(&env), "(no error is known)");
    // These are no words of an error.
    env.run("list --failure no").fails(2, &["no cause matches \"no\""]);
}

fn groups_unknown(env: &TestEnv) -> String {
    let ran = env.run("failures --json").success();
    let group = ran.json();
    assert_eq!(group["since"], Value::Null);
    group["error"].as_str().unwrap().into()
}

#[test]
fn only_the_last_ten_thousand_errors_are_kept() {
    let env = TestEnv::minimal();
    env.insert(10_050, MIDNIGHT);
    let handler = env.script(
        "all-fail",
        r#"sed -un 's/^{"ID":\([0-9]*\),.*/{"id":\1,"outcome":"failure","error":"no"}/p'"#,
    );
    env.run(&format!("process --now @{MIDNIGHT} --ndays 1 --stream -- {handler}")).silent();
    assert_eq!(env.count("ERROR"), 10_050);
    let ran = env.run("failures --json").success();
    assert_eq!(ran.stdout.lines().count(), 2, "{}", ran.stdout);
    assert_contains(&ran.stdout, "\"records\":10000,");
}

#[test]
fn errors_in_a_column_of_the_table_are_grouped_as_they_are() {
    let env = TestEnv::with_records(6, MIDNIGHT);
    env.sql(
        "UPDATE BACKLOG SET FAILURES = 1, LAST_FAILURE = '2026-11-21T01:00:0' || ID || 'Z',
           LAST_ERROR = 'order ' || ID || ' is unknown', STATUS = 'ERROR' WHERE ID < 4;
         UPDATE BACKLOG SET LAST_ERROR = 'snoozed until 2026-11-21T03:40:00Z: busy',
           STATUS = 'ERROR', LAST_FAILURE = '2026-11-21T01:00:00Z' WHERE ID = 4;
         UPDATE BACKLOG SET LAST_ERROR = 'order 5 is unknown', STATUS = 'ARCHIVED' WHERE ID = 5;
         UPDATE BACKLOG SET LAST_ERROR = 'of long ago', STATUS = 'SUCCESS' WHERE ID = 6",
    );
    let found = groups(&env, "");
    let shown: Vec<_> =
        found.iter().map(|(error, records, _)| (error.as_str(), *records)).collect();
    assert_eq!(shown, [("order 3 is unknown", 3), ("busy", 1), ("order 5 is unknown", 1)]);
    assert_eq!(found[0].2, "2026-11-21T01:00:01Z");
    assert_contains(&env.run("failures --json --status archived").success().stdout, "\"ids\":[5]");
    env.run("failures --status success").fails(2, &["use one of NEW, ERROR, ARCHIVED"]);
    // The snooze is one thing, the error another.
    let explained = env.run("explain 4").success().stdout;
    assert_eq!(
        explained,
        "record 4: ERROR, inserted 2026-11-21T00:00:00Z, 0 attempts failed, snoozed at \
         2026-11-21T01:00:00Z: busy\n  snoozed     until 2026-11-21T03:40:00Z, as its handler \
         asked\n  schedule unknown: use one of --ndays, --fibonacci, --policy, --progressive, or \
         set it in backlog.toml\n"
    );
}

#[test]
fn all_that_failed_by_one_cause_is_retried_by_one_command() {
    let (env, handler) = flaky();
    env.pass(&format!("--ndays 1 -- {handler}")).silent();
    let ran = env.run("retry --failure cdf66eff --dry-run").success();
    assert!(ran.stdout.starts_with("10: ERROR -> NEW\n"), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("\nwould make due 4 records\n"), "{}", ran.stdout);
    assert_eq!(env.count("NEW"), 0);
    assert_eq!(env.run("retry --failure refused").success().stdout, "made due 9 records\n");
    assert_eq!(env.count("NEW"), 9);
    env.run("retry --failure HTTP")
        .fails(2, &["2 causes match \"HTTP\"", "cdf66eff HTTP 503", "c7a652f8 HTTP 422"]);
    for blank in ["", " "] {
        env.run(&format!("retry --failure {}", quoted(blank)))
            .fails(2, &["--failure: write the id of a group"]);
    }
    env.run("retry --failure 'no such'")
        .fails(2, &["no cause matches \"no such\"; `backlog failures` lists them"]);
    let listed = env.run("list --failure 503 --json").success().stdout;
    assert_eq!(listed.lines().count(), 4, "{listed}");
    assert_eq!(env.run("archive --failure 422").success().stdout, "archived 1 record\n");
    assert_eq!(env.run("restore --failure 422").success().stdout, "restored 1 record\n");
}

#[test]
fn archived_records_have_their_causes_below_and_each_command_names_the_one_for_them() {
    let (env, handler) = flaky();
    env.sql("ALTER TABLE BACKLOG ADD FAILURES INTEGER DEFAULT 0");
    env.pass(&format!("--ndays 1 -- {handler}")).silent();
    let line = "process --ndays 1 --max-attempts 2 --where 'ID < 14' --";
    env.run_at(MIDNIGHT + HOUR, &format!("{line} {handler}")).fails(1, &["13 records were"]);
    let shown = env.run("failures").success().stdout;
    let (pending, archived) = shown.split_once("\n\n").unwrap();
    assert!(pending.ends_with(" 14            HTTP 422 Unprocessable Entity"), "{shown}");
    let heading = "archived; restore them with: backlog restore --db ";
    assert!(archived.starts_with(heading), "{shown}");
    assert!(archived.contains(" --failure GROUP\nGROUP     RECORDS  SINCE "), "{shown}");
    assert!(archived.contains("\n0b5de352        9  "), "{shown}");
    let lines = json_lines(&env.run("failures --json").stdout);
    let of = |name: &str| lines.iter().map(|line| line[name].to_string()).collect::<Vec<_>>();
    assert_eq!(of("statuses"), [r#"["NEW","ERROR"]"#, r#"["ARCHIVED"]"#, r#"["ARCHIVED"]"#]);
    assert_eq!(of("pattern")[1], r#""could not connect to *: connection refused""#);
    assert!(of("error")[1].starts_with(r#""could not connect to 10.0.0."#), "{lines:?}");
    // By the text of the group, and by the newest error.
    let newest = lines[1]["error"].as_str().unwrap();
    for (words, meant, command) in [
        ("retry", "refused", "retry"),
        ("archive", newest, "restore"),
        ("list --status NEW,ERROR", "connect to *", "list"),
    ] {
        let ran = env.run(&format!("{words} --failure {}", quoted(meant)));
        let ran = ran.fails(2, &["matches only 9 ARCHIVED records; for these: "]);
        let (_, line) = ran.stderr.trim_end().split_once("for these: ").unwrap();
        assert!(line.starts_with(&format!("backlog {command} ")), "{line}");
        let dry = if command == "list" { "" } else { " --dry-run" };
        let followed = follow(&env, &format!("{line}{dry}")).success().stdout;
        assert_eq!(followed.matches("ARCHIVED").count(), 9, "{followed}");
    }
    let back = env.run("restore --failure 422");
    back.fails(2, &["\"422\" matches only 1 ERROR record; for these: backlog retry "]);
    // As ever if both match, and where nothing does.
    env.run("retry --failure 422 --dry-run").success();
    env.run("retry --failure 'no such'").fails(2, &["no cause matches \"no such\""]);
}

#[test]
fn two_lines_keep_the_errors_of_both() {
    let env = TestEnv::minimal();
    env.insert(2, MIDNIGHT);
    let failing = |id: &str, error: &str| {
        let script = format!("echo '{error}' >&2; exit 1");
        let line = format!("process --ndays 9 --where 'ID = {id}' -- {}", sh(&script));
        env.run_at(MIDNIGHT, &line).silent();
    };
    failing("1", "no route");
    failing("2", "no disk");
    let mut found: Vec<_> = groups(&env, "").into_iter().map(|group| group.0).collect();
    found.sort();
    assert_eq!(found, ["no disk", "no route"]);
    // Rows that somebody else has written are passed over.
    env.state("REPLACE INTO errors VALUES ('', 'BACKLOG', 'not JSON', 7, 'no such id', NULL)");
    assert_eq!(groups(&env, "").len(), 2);
}

#[test]
fn an_outbox_without_a_status_says_why_it_is_not_emptied() {
    let env = TestEnv::with_schema(
        "CREATE TABLE outbox (id TEXT PRIMARY KEY, created_at TEXT, published_at TEXT);
         INSERT INTO outbox (id, created_at) VALUES ('a', '2026-11-20T23:00:00Z'),
           ('b', '2026-11-20T23:00:00Z')",
    );
    let config = "[queue.outbox]\ntable = 'outbox'\nid = 'id'\nstatus = false\n\
                  where = 'published_at is null'\ndate_inserted = 'created_at'\n\
                  on_success = { published_at = '{now}' }\nndays = 1\n";
    env.write("backlog.toml", config);
    let queue = "--queue outbox";
    let fresh = env.run(&format!("failures {queue}")).success().stdout;
    assert_eq!(fresh, "nothing has failed\n");
    let handler = "[ $BACKLOG_ID = b ] || { echo broker is away >&2; exit 1; }";
    env.run_at(MIDNIGHT, &with_options(queue, &format!("process -- {}", sh(handler)))).silent();
    let failures = env.run(&format!("failures {queue}")).success().stdout;
    assert!(failures.ends_with("  a             broker is away\n"), "{failures}");
    let status = env.run(&format!("status --json {queue}")).success().stdout;
    assert_contains(&status, "\"failed\":1,");
    let listed = env.run(&format!("list {queue}")).success().stdout;
    assert!(listed.ends_with("broker is away\n"), "{listed}");
    let explained = env.run(&format!("explain a {queue}")).success().stdout;
    assert_contains(&explained, ": broker is away\n");
    // Once it is archived, no column says so.
    let file = env.read("backlog.toml");
    let file = file + "on_archive = { published_at = 'never' }\n";
    env.write("backlog.toml", file);
    env.run(&format!("archive a {queue}")).success();
    let failures = env.run(&format!("failures {queue}")).success().stdout;
    let unknown =
        "no pending record has failed; archived ones are not known without where_archived\n";
    assert_eq!(failures, unknown);
}

#[test]
fn a_long_error_has_one_id_wherever_it_is_shown() {
    let env = TestEnv::minimal();
    env.insert(2, MIDNIGHT);
    let handler = env.script("long", "printf 'no route %0400d to it\\n' 0 | tr 0 x >&2; exit 1");
    let line = format!("process --ndays 1 --now @{MIDNIGHT} -- {handler}");
    let shown = env.at_terminal(80, &line, "").stdout;
    let of_summary = shown.lines().last().unwrap().split_whitespace().next().unwrap().to_string();
    let group = json(&env.run("failures --json").success().stdout);
    assert_eq!(group["group"], of_summary.as_str());
    assert_eq!(group["since"], "2026-11-21T00:00:00Z");
    let retried = env.run(&format!("retry --failure {of_summary}")).success().stdout;
    assert_eq!(retried, "made due 2 records\n");
}
