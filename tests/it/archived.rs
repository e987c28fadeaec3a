//! Archived records in cron's mail.

use crate::testenv::*;

/// Fails by one of two causes, the second one for each third record.
const TWO_CAUSES: &str = "[ $((BACKLOG_ID % 3)) = 0 ] && echo 'HTTP 422 no amount' >&2 || echo \"HTTP 410 gone: $BACKLOG_ID\" >&2; exit 1";

fn pass(env: &TestEnv, words: &str) -> Ran {
    env.pass(&format!("--fibonacci --max-attempts 1 {words}"))
}

/// Runs a command line that a message shows.
pub fn follow(env: &TestEnv, line: &str) -> Ran {
    let words = shlex_split(line);
    assert_eq!(words[0], "backlog");
    let words: Vec<_> = words[1..].iter().map(String::as_str).collect();
    let mut command = env.command(&words);
    // From anywhere.
    command.env_remove("BACKLOG_DB").current_dir("/").ran()
}

fn shlex_split(line: &str) -> Vec<String> {
    let output = std::process::Command::new("sh")
        .args(["-c", &format!("printf '%s\\n' {line}")])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(String::from).collect()
}

#[test]
fn a_few_archived_records_are_named_with_the_command_that_brings_them_back() {
    let env = records(3);
    let first = pass(&env, "-- false");
    let lines: Vec<_> = first.stderr.lines().collect();
    assert_eq!(lines[0], "backlog: record 3 failed after 1 attempt; archived: exit status 1");
    assert_eq!((first.exit, lines.len()), (Some(1), 4));
    let command = lines[3].strip_prefix("backlog: restore them with: ").unwrap();
    assert_eq!(follow(&env, command).success().stdout, "restored 3 records\n");
    assert_eq!(env.count("NEW"), 3);
    let toml =
        "[queue.e-mails]\ndb = 'test.db'\nfibonacci = true\nmax_attempts = 1\nexec = ['false']\n";
    env.write("backlog.toml", toml);
    let mut process = env.command("process --where 'ID < 2' --now @1795219200");
    let of_queue = process.env_remove("BACKLOG_DB").ran();
    let last = of_queue.stderr.lines().last().unwrap();
    let command = last.strip_prefix("backlog: queue e-mails: restore it with: ").unwrap();
    let restored = follow(&env, command).success().stdout;
    assert_eq!(restored, "restored 1 record\n1: next attempt in the next pass\n");
}

#[test]
fn of_many_archived_records_ten_are_named_and_all_are_summed_up_by_cause() {
    let env = records(130);
    let ran = pass(&env, &format!("-- {}", sh(TWO_CAUSES)));
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert_eq!((ran.exit, lines.len()), (Some(1), 13));
    assert!(lines[..10].iter().all(|line| line.starts_with("backlog: record ")));
    assert_eq!(lines[10], "backlog: 130 records were archived; 10 of them are named above");
    let mut restored = 0;
    for (line, says) in
        lines[11..].iter().zip(["87 archived: HTTP 410 gone: 1", "43 archived: HTTP 422"])
    {
        assert!(line.starts_with(&format!("backlog: {says}")), "{line}");
        let command = line.split_once("; back with: ").unwrap().1;
        let said = follow(&env, command).success().stdout;
        restored += said.split(' ').nth(1).unwrap().parse::<i64>().unwrap();
    }
    assert_eq!((restored, env.count("NEW")), (130, 130));
    // Who wants all lines asks for them.
    assert_eq!(pass(&env, "-v -- false").stderr.matches("; archived: ").count(), 130);
}

#[test]
fn a_table_that_cannot_show_archived_records_names_no_command_for_them() {
    let env = TestEnv::with_schema(
        "CREATE TABLE outbox (id INTEGER PRIMARY KEY, created_at TEXT, sent_at TEXT);
         INSERT INTO outbox (created_at) SELECT '2026-11-20T23:00:00Z' FROM pragma_function_list LIMIT 12",
    );
    let config = "[queue.outbox]\ntable = 'outbox'\nid = 'id'\nstatus = false\nndays = 1\n\
                  where = 'sent_at is null'\ndate_inserted = 'created_at'\n\
                  on_success = { sent_at = '{now}' }\non_archive = { sent_at = 'never' }\n\
                  give_up_on = [65]\nexec = ['/bin/sh', '-c', 'exit 65']\n";
    env.write("backlog.toml", config);
    let why = "`restore` cannot tell the archived records of table outbox from others: ";
    for (now, condition, lines) in [(MIDNIGHT, "id = 1", 2), (MIDNIGHT + HOUR, "id > 1", 13)] {
        let ran = env.run_at(now, &format!("process --queue outbox --where {}", quoted(condition)));
        let ran = ran.fails(1, &[why]);
        assert_eq!(ran.stderr.lines().count(), lines, "{}", ran.stderr);
        assert_lacks(&ran.stderr, "backlog restore");
    }
}

#[test]
fn the_command_finds_records_that_the_condition_of_the_pass_does_not_hold_for_any_more() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID TEXT PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT,
           FAILURES INTEGER DEFAULT 0, LAST_FAILURE TEXT, LAST_ERROR TEXT);
         INSERT INTO BACKLOG (ID, DATE_INSERTED) VALUES ('-x1', '2026-11-20T23:00:00Z');",
    );
    let ran = pass(&env, r#"--where "STATUS = 'NEW'" -- false"#);
    let line = ran.stderr.lines().last().unwrap();
    let command = line.strip_prefix("backlog: restore it with: ").unwrap();
    assert_eq!(follow(&env, command).success().stdout, "restored 1 record\n");
}
