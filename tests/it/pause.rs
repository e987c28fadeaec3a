//! Pauses: no attempt begins until they end, and what runs goes on. Nothing is lost by one.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::testenv::*;
use test_support::server::{Answer, Server};

/// Records 1 to `count`.
fn records(count: i64) -> TestEnv {
    TestEnv::with_records(count, MIDNIGHT - MINUTE)
}

fn pause(env: &TestEnv, args: &str) -> String {
    env.run_at(MIDNIGHT, &format!("pause {args}")).success().stdout
}

fn resume(env: &TestEnv, args: &str) -> String {
    env.run_at(MIDNIGHT, &format!("resume {args}")).success().stdout
}

/// A pass by age; says which records it has tried.
fn pass(env: &TestEnv, now: i64, more: &str) -> Vec<String> {
    env.run_at(now, &format!("process --ndays 9 {more} -- {}", env.noting("exit 1"))).silent();
    env.handled()
}

fn status(env: &TestEnv, now: i64, more: &str) -> String {
    env.run_at(now, &format!("status {more}")).success().stdout
}

fn status_json(env: &TestEnv, now: i64) -> Value {
    json(&status(env, now, "--json"))
}

/// A script that pauses the table, for handlers that do so while their pass runs.
fn pausing_script(env: &TestEnv) -> String {
    let (program, db) = (env!("CARGO_BIN_EXE_backlog"), env.path_text("test.db"));
    format!("{program} pause --db {db} >>{}", env.path("paused").display())
}

/// The file of the only pause.
fn file(env: &TestEnv) -> PathBuf {
    let files = fs::read_dir(env.path("test.db.backlog")).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    files.find(|path| path.extension().is_some_and(|end| end == "paused")).unwrap()
}

fn user() -> String {
    let output = std::process::Command::new("id").arg("-un").output().unwrap();
    ran(&output).success().stdout.trim().into()
}

#[test]
fn a_pass_that_begins_in_a_pause_tries_nothing_and_only_a_person_hears_of_it() {
    let env = records(3);
    let said = pause(&env, "--for 2h --reason 'a release\nof Friday'");
    let db = env.path_text("test.db");
    assert_eq!(
        said,
        format!(
            "paused table BACKLOG until 2026-11-21T02:00:00Z; this ends it: backlog resume --db {db}\n"
        )
    );
    assert_eq!(pass(&env, MIDNIGHT, ""), [""; 0]);
    let sentence = format!(
        "paused since 2026-11-21T00:00:00Z until 2026-11-21T02:00:00Z by {}: a release\\nof Friday; `backlog resume` ends it\n",
        user()
    );
    let heard = env.pass("-v --ndays 9 -- true").success();
    assert_eq!(heard.stderr, format!("backlog: warning: {sentence}"));
    let seen = env.at_terminal(200, &format!("process --now @{MIDNIGHT} --ndays 9 -- true"), "");
    assert_eq!(seen.stdout.lines().count(), 1, "{seen:?}");
    assert!(seen.stdout.starts_with("backlog: warning: paused since "), "{seen:?}");
    // A dry run says so in any case, and shows what would be tried without it.
    let dry = env.pass("--ndays 9 --dry-run").success();
    assert_eq!((dry.stderr, dry.stdout.matches("try ").count()), (sentence, 3));
    assert_eq!(env.count("NEW"), 3);
}

#[test]
fn a_pause_ends_by_itself_or_by_resume_and_a_second_one_replaces_the_first() {
    let env = records(1);
    pause(&env, "--for 1h");
    assert_eq!(pass(&env, MIDNIGHT + HOUR - 1, ""), [""; 0]);
    assert_eq!(pass(&env, MIDNIGHT + HOUR, ""), ["1"]);
    pause(&env, "--for 1h --reason first");
    pause(&env, "");
    let paused = status_json(&env, MIDNIGHT + DAY)["paused"].clone();
    assert_eq!((&paused["until"], &paused["reason"]), (&Value::Null, &Value::Null), "{paused}");
    assert_eq!(pass(&env, MIDNIGHT + DAY, ""), [""; 0]);
    assert_eq!(resume(&env, ""), "resumed table BACKLOG\n");
    assert_eq!(pass(&env, MIDNIGHT + DAY, ""), ["1"]);
    assert_eq!(resume(&env, ""), "table BACKLOG is not paused\n");
    // One that has ended is none.
    pause(&env, "--for 1h");
    let late = env.run_at(MIDNIGHT + HOUR, "resume").success();
    assert_eq!(late.stdout, "table BACKLOG is not paused\n");
    let until = pause(&env, "--until 2026-11-21T06:00:00Z");
    assert!(until.starts_with("paused table BACKLOG until 2026-11-21T06:00:00Z; "), "{until}");
    assert_eq!(pass(&env, MIDNIGHT + 6 * HOUR - 1, ""), [""; 0]);
    assert_eq!(pass(&env, MIDNIGHT + 6 * HOUR, ""), ["1"]);
    env.run_at(MIDNIGHT, "pause --until 2026-11-21T00:00:00Z")
        .fails(2, &["--until 2026-11-21T00:00:00Z is past: it is 2026-11-21T00:00:00Z\n"]);
    env.run("pause --for 0s").fails(2, &["must be whole seconds, from 1s to 365days"]);
}

#[test]
fn a_running_pass_begins_nothing_more_and_what_it_has_in_hand_is_settled() {
    let env = records(6);
    let (pausing, handled) = (env.pausing(), env.path_text("handled"));
    let script = format!("echo $BACKLOG_ID >>{handled}; {}", pausing.script);
    let now = format!("@{MIDNIGHT}");
    let line = format!("process --now {now} --ndays 9 --jobs 3");
    let mut running = env.spawn_logging(&format!("{line} -v -- {}", sh(&script)));
    let lines = || fs::read_to_string(env.path("handled")).unwrap_or_default().lines().count();
    wait_until("three handlers run", || lines() == 3);
    let said = pause(&env, "");
    let told = format!("the running pass (pid {}) begins nothing more\n", running.id());
    assert!(said.ends_with(&told), "{said}");
    let shown = status(&env, MIDNIGHT, "");
    assert!(shown.contains("\npaused since ") && shown.contains("\nrunning since "), "{shown}");
    pausing.let_go();
    assert_eq!(running.wait().unwrap().code(), Some(0));
    assert_eq!((lines(), env.count("SUCCESS"), env.count("NEW")), (3, 3, 3));
    env.logs("; no more attempts begin");
    // It has an entry of its own, which those that find the pause leave alone.
    pass(&env, MIDNIGHT + MINUTE, "");
    pass(&env, MIDNIGHT + 2 * MINUTE, "");
    let shown = status(&env, MIDNIGHT + 2 * MINUTE, "");
    assert_contains(
        &shown,
        "now: paused, 2 passes in a row; before that 2026-11-21T00:00:00Z, took ",
    );
    assert_contains(&shown, ": 3 succeeded; stopped by a pause\n");
    let ends = status_json(&env, MIDNIGHT)["passes"]["lines"][0].clone();
    assert_eq!((&ends["last"]["end"], &ends["totals"]["succeeded"]), (&"paused".into(), &3.into()));
    resume(&env, "");
    env.handled();
    assert_eq!(pass(&env, MIDNIGHT + 3 * MINUTE, "").len(), 3);
}

#[test]
fn passes_of_every_kind_obey_a_pause_that_begins_while_they_run() {
    for options in [
        "--ndays 9",
        "--ndays 9 --drain",
        "--fibonacci --max-records 3",
        "--policy even --max-runtime 1h",
        "--progressive --drain",
        "--ndays 9 --rate 20/s",
    ] {
        let env = records(4);
        let handler = env.noting(&pausing_script(&env));
        env.run(&format!("process --now @{MIDNIGHT} {options} -- {handler}")).silent();
        assert_eq!((env.handled().len(), env.count("NEW")), (1, 3), "{options:?}");
        resume(&env, "");
        env.run(&format!("process --now @{MIDNIGHT} {options} -- {}", env.noting("exit 0")))
            .silent();
        assert_eq!(env.count("SUCCESS"), 4, "{options:?}: the rest is tried once it is over");
    }
}

#[test]
fn a_signal_ends_what_a_pause_lets_go_on() {
    let env = records(2);
    let script = format!("[ $BACKLOG_ID = 1 ] && exec sleep 60; {}", pausing_script(&env));
    let line = "process -v --ndays 9 --jobs 2 --grace 0s";
    let handler = env.script("handler", &script);
    let mut running = env.spawn_logging(&format!("{line} --now @{MIDNIGHT} -- {handler}"));
    env.logs("; no more attempts begin");
    assert!(signal("-TERM", running.id()));
    assert_eq!(running.wait().unwrap().code(), Some(143));
    assert_eq!(env.statuses(), "1|NEW\n2|SUCCESS");
}

#[test]
fn a_person_is_told_that_a_pause_has_stopped_the_pass() {
    let env = records(2);
    let handler = env.script("handler", &pausing_script(&env));
    let line = format!("process --now @{MIDNIGHT} --ndays 9 --jobs 1 -- {handler}");
    let seen = env.at_terminal(200, &line, "").stdout;
    assert_contains(&seen, "; no more attempts begin");
    assert_contains(&seen, ": 1 succeeded; stopped by a pause");
}

#[test]
fn a_co_process_gets_nothing_more_in_a_pause() {
    let env = records(4);
    let replies = r#"read hello; while read record; do
        id=${record#*:}; id=${id%%,*}; echo $id >>handled; PAUSE
        echo "{\"id\":$id,\"outcome\":\"success\"}"; done"#;
    let handler = env.script("replies", &replies.replace("PAUSE", &pausing_script(&env)));
    env.run(&format!("process --now @{MIDNIGHT} --ndays 9 --window 1 --stream -- {handler}"))
        .silent();
    assert_eq!((env.handled().len(), env.count("SUCCESS"), env.count("NEW")), (1, 1, 3));
}

#[test]
fn no_webhook_is_called_in_a_pause() {
    let env = records(3);
    let server = Server::new(&[("/", Answer::pause().and(Answer::new("200 OK", &[], "")))]);
    let line = format!("process --now @{MIDNIGHT} --ndays 9 --jobs 1 --post {}", server.url("/"));
    pause(&env, "");
    env.run(&line).silent();
    assert_eq!((server.received().len(), env.count("NEW")), (0, 3));
    resume(&env, "");
    let mut running = env.spawn(&line);
    server.wait_for_received(1);
    pause(&env, "");
    server.let_go();
    assert_eq!(running.wait().unwrap().code(), Some(0));
    assert_eq!((server.received().len(), env.count("SUCCESS")), (1, 1));
}

/// The ages of the six lines that `crontab --classic` prints.
const SIX: [&str; 6] = [
    "--ndays 1",
    "--min-ndays 1 --ndays 7",
    "--min-ndays 7 --ndays 14",
    "--min-ndays 14 --ndays 30",
    "--min-ndays 30 --ndays 180",
    "--min-ndays 180 --ndays 360",
];

#[test]
fn a_queue_is_paused_with_all_its_lines_and_no_other_queue_of_its_table() {
    let env = records(1);
    assert_eq!(
        pause(&env, "--queue mails"),
        format!(
            "paused queue mails; this ends it: backlog resume --queue mails --db {}\n",
            env.db().display()
        )
    );
    for (number, age) in (1_i64..).zip([0, 2, 9, 20, 90, 200]) {
        env.insert_one(number + 10, MIDNIGHT - age * DAY - MINUTE);
    }
    let all = |queue: &str| -> Vec<String> {
        let passes = SIX.iter().map(|ages| {
            env.pass(&format!("--queue {queue} {ages} -- {}", env.noting("exit 1"))).silent();
            env.handled()
        });
        passes.flatten().collect()
    };
    assert_eq!(all("mails"), [""; 0]);
    assert_eq!(all("orders").len(), 7);
    assert_eq!(pass(&env, MIDNIGHT, ""), ["11", "1", "12"], "nor is what has no queue");
    resume(&env, "--queue mails");
    assert_eq!(all("mails").len(), 7);
}

#[test]
fn a_table_is_paused_with_all_its_queues_and_no_other_table() {
    let env = records(1);
    env.sql("CREATE TABLE other AS SELECT * FROM BACKLOG");
    // As the database spells it.
    pause(&env, "--table backlog");
    assert_eq!(pass(&env, MIDNIGHT, "--queue mails"), [""; 0]);
    assert_eq!(pass(&env, MIDNIGHT, "--table BACKLOG"), [""; 0]);
    assert_eq!(pass(&env, MIDNIGHT, "--table other"), ["1"]);
    // Whichever was paused, the other kind is named.
    pause(&env, "--queue mails --for 1h");
    let said = resume(&env, "--queue mails");
    let still = format!(
        "resumed queue mails\ntable BACKLOG is still paused since 2026-11-21T00:00:00Z by {}; \
         `backlog resume --table BACKLOG` ends that\n",
        user()
    );
    assert_eq!(said, still);
    pause(&env, "--queue mails");
    let said = resume(&env, "");
    assert!(
        said.starts_with("resumed table BACKLOG\nqueue mails is still paused since "),
        "{said}"
    );
    assert!(said.ends_with("; `backlog resume --queue mails` ends that\n"), "{said}");
    env.run("pause --where 'ID = 1'")
        .fails(2, &["a pause holds for a whole queue or table: leave out --shard and --where"]);
}

#[test]
fn the_queues_of_the_file_are_paused_by_their_names() {
    let env = records(1);
    let file = |queues: &str| {
        let text = format!("[defaults]\ndb = 'test.db'\nndays = 9\nexec = ['/bin/true']\n{queues}");
        env.write("backlog.toml", text);
    };
    // Without a database in the environment, which would choose another table.
    let run = |args: &str| -> Ran {
        let mut command = env.command(&format!("{args} --now @{MIDNIGHT}"));
        command.env_remove("BACKLOG_DB").ran()
    };
    file("[queue.mails]\n");
    assert!(run("pause").success().stdout.starts_with("paused queue mails; "));
    run("resume").success();
    file("[queue.mails]\n[queue.orders]\n");
    run("pause").fails(2, &["no queue chosen", "mails, orders"]);
    run("pause --queue mails --for 2h").success();
    let overview = run("status").success().stdout;
    let last = |queue: &str| {
        let line = overview.lines().find(|line| line.starts_with(queue)).unwrap();
        line.split("  ").last().unwrap().trim().to_string()
    };
    assert_eq!(last("mails"), "paused until 2026-11-21T02:00:00Z");
    assert_eq!(last("orders"), "none is known");
    // One that is called like those that have no name is one all the same.
    file("[queue.default]\n[queue.orders]\n");
    assert!(run("pause").success().stdout.starts_with("paused queue default; "));
    run("process --queue default").silent();
    assert_eq!(env.count("NEW"), 1);
    run("process --queue orders").silent();
    assert_eq!(env.count("SUCCESS"), 1);
}

#[test]
fn every_command_that_looks_says_that_the_queue_is_paused() {
    let env = records(1);
    assert_eq!(status_json(&env, MIDNIGHT)["paused"], Value::Null);
    pause(&env, "--for 90m --reason 'HTTP 503'");
    let sentence = format!(
        "paused since 2026-11-21T00:00:00Z until 2026-11-21T01:30:00Z by {}: HTTP 503; `backlog resume` ends it",
        user()
    );
    let line = format!("\n{sentence}\noldest pending  ");
    assert!(status(&env, MIDNIGHT, "").contains(&line), "{}", status(&env, MIDNIGHT, ""));
    let expected = serde_json::json!({
        "since": "2026-11-21T00:00:00Z", "until": "2026-11-21T01:30:00Z",
        "reason": "HTTP 503", "by": user(),
    });
    assert_eq!(status_json(&env, MIDNIGHT)["paused"], expected);
    let explained = env.run_at(MIDNIGHT, "explain 1 --ndays 9").success().stdout;
    assert!(explained.starts_with(&format!("{sentence}\nrecord 1: ")), "{explained}");
    let checked = env.run_at(MIDNIGHT, "check --ndays 9 -- /bin/true").success().stdout;
    assert_contains(&checked, &format!("\nwarning  pause       {sentence}\n"));
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
    let retried = env.run_at(MIDNIGHT, "retry 1").success().stdout;
    assert_eq!(retried, format!("made due 1 record\n{sentence}\n"));
    let archived = env.run_at(MIDNIGHT, "archive 1").success().stdout;
    assert_eq!(archived, "archived 1 record\n", "it is about no attempt");
    let over = MIDNIGHT + 90 * MINUTE;
    assert_eq!(status_json(&env, over)["paused"], Value::Null);
    assert!(!status(&env, over, "").contains("paused"));
}

#[test]
fn passes_that_find_a_pause_are_not_missed_and_share_an_entry() {
    let env = records(1);
    let fibonacci = "process --fibonacci -- false";
    env.run_at(MIDNIGHT, fibonacci).silent();
    pause(&env, "");
    for tick in 1..=10 {
        env.run_at(MIDNIGHT + tick * 10 * MINUTE, fibonacci).silent();
    }
    let shown = status(&env, MIDNIGHT + 101 * MINUTE, "--passes 9");
    let last = "last pass 2026-11-21T01:40:00Z, 1 m ago: paused, 10 passes in a row; before that";
    assert!(shown.contains(last) && !shown.contains("no pass for"), "{shown}");
    assert_eq!(shown.matches("  --fibonacci  ").count(), 2, "{shown}");
    let found = status_json(&env, MIDNIGHT + 101 * MINUTE)["passes"]["lines"][0].clone();
    assert_eq!(found["no_pass_for_secs"], Value::Null);
    let last = &found["last"];
    assert_eq!((&last["end"], &last["passes"]), (&"paused".into(), &10.into()));
    assert_eq!(found["totals"]["failed"], 1);
    // If cron has gone, that is said all the same.
    assert_contains(&status(&env, MIDNIGHT + 4 * HOUR, ""), "no pass for 2 h");
    resume(&env, "");
    env.run_at(MIDNIGHT + 4 * HOUR, "process --fibonacci -- true").silent();
    assert_eq!(env.count("SUCCESS"), 1);
}

#[test]
fn a_slot_that_comes_before_or_in_a_pause_is_not_lost() {
    // Each of these records has one slot in an hour.
    let failed = || {
        let env = TestEnv::minimal();
        env.insert(24, MIDNIGHT - 3 * DAY);
        env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
        env
    };
    let pass = |env: &TestEnv, minute: i64, end: &str| {
        let line = format!("process --progressive --jobs 1 -- {}", env.noting(end));
        env.run_at(MIDNIGHT + minute * MINUTE, &line).silent();
        env.handled()
    };
    let (env, other) = (failed(), failed());
    // The first handler pauses, and the passes that follow find that.
    pass(&env, 0, "exit 1");
    let mut tried = pass(&env, 35, &format!("{}; exit 1", pausing_script(&env)));
    assert_eq!(tried.len(), 1);
    for minute in [40, 45, 50] {
        assert_eq!(pass(&env, minute, "exit 1"), [""; 0]);
    }
    resume(&env, "");
    // A pass catches up with four ticks, and one that runs each time comes to the same.
    tried.extend([55, 60].map(|minute| pass(&env, minute, "exit 1")).concat());
    pass(&other, 0, "exit 1");
    let mut expected: Vec<_> = (1..=9).flat_map(|tick| pass(&other, 5 * tick, "exit 1")).collect();
    expected.sort_unstable();
    tried.sort_unstable();
    assert_eq!(tried, expected);
    assert!(tried.len() > 15, "{tried:?}");
}

#[test]
fn a_damaged_file_is_a_pause_that_names_it() {
    let env = records(1);
    pause(&env, "--for 1h");
    let file = file(&env);
    fs::write(&file, "{\"since\":").unwrap();
    let says = format!(
        "paused: could not read {}: it is damaged; `backlog resume` ends it",
        file.display()
    );
    let heard = env.run_at(MIDNIGHT + DAY, "process -v --ndays 9 -- true");
    assert_eq!(heard.success().stderr, format!("backlog: warning: {says}\n"));
    // Nobody has meant it so: cron's mail has it once an hour.
    let from_cron = |at| env.run_at(at, "process --ndays 9 -- true").success().stderr;
    assert_eq!(from_cron(MIDNIGHT + DAY), format!("backlog: {says}\n"));
    assert_eq!(from_cron(MIDNIGHT + DAY + MINUTE), "");
    assert_eq!(from_cron(MIDNIGHT + DAY + HOUR), format!("backlog: {says}\n"));
    assert!(status(&env, MIDNIGHT + DAY, "").contains(&format!("\n{says}\n")));
    let paused = status_json(&env, MIDNIGHT + DAY)["paused"].clone();
    assert_eq!((&paused["since"], &paused["by"]), (&Value::Null, &Value::Null));
    assert_eq!(env.count("NEW"), 1);
    assert_eq!(resume(&env, ""), "resumed table BACKLOG\n");
    assert!(!file.exists());
    assert_eq!(pass(&env, MIDNIGHT + DAY, ""), ["1"]);
}

#[test]
fn a_pause_on_a_server_is_kept_where_the_lines_are_told_to_look() {
    let Some((database, env)) = server_with_table() else { return };
    database.sql("INSERT INTO backlog (date_inserted) VALUES ('2026-11-20T23:59:00Z')");
    let says = ["with a server, a pause is stored in the state directory", "--state-dir"];
    for command in ["pause", "resume"] {
        env.run(command).fails(2, &says);
        let mut by_variable = env.command(command);
        by_variable.env("BACKLOG_STATE_DIR", env.path("named"));
        let why = ["BACKLOG_STATE_DIR is not enough, because passes under cron do not have it"];
        by_variable.ran().fails(2, &why);
    }
    let named = "--state-dir named";
    assert_contains(&pause(&env, named), "no passes of table backlog are recorded in ");
    assert_eq!(pass(&env, MIDNIGHT, named), [""; 0]);
    assert!(!pause(&env, named).contains("no pass of"), "one is by now");
    assert_eq!(pass(&env, MIDNIGHT, ""), ["1"], "a line with another directory");
    // One that backlog.toml names is that of cron's passes.
    env.write("backlog.toml", "[defaults]\nstate_dir = 'named'\n");
    let status = status_json(&env, MIDNIGHT);
    assert_eq!(status["paused"]["since"], "2026-11-21T00:00:00Z", "{status}");
    assert_eq!(pass(&env, MIDNIGHT, ""), [""; 0]);
    assert_eq!(resume(&env, ""), "resumed table backlog\n");
    assert_eq!(pass(&env, MIDNIGHT, ""), ["1"]);
}
