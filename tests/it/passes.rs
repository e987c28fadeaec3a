//! The record of passes: when the last one ran, what came of it, and whether one runs, hangs or is
//! missing.

use serde_json::Value;

use crate::testenv::*;

/// The lines about passes at the end of a status.
fn passes(env: &TestEnv, now: i64) -> Vec<String> {
    let ran = env.run_at(now, "status").success();
    let section = ran.stdout.split("\n\n").nth(3).unwrap_or_default().to_string();
    // Their durations depend on the machine.
    section.lines().map(without_took).collect()
}

fn without_took(line: &str) -> String {
    match (line.find(", took "), line.rfind(" s: ")) {
        (Some(begin), Some(end)) => format!("{}{}", &line[..begin], &line[end + 2..]),
        _ => line.into(),
    }
}

#[test]
fn status_says_when_the_last_pass_ran_and_what_came_of_it() {
    let env = TestEnv::new();
    assert_eq!(passes(&env, MIDNIGHT), ["no pass is recorded"]);
    env.insert(5, MIDNIGHT);
    let handler = env.script("handler", "echo $BACKLOG_RUN >>run; [ $BACKLOG_ID != 3 ] || exit 1");
    env.pass(&format!("--fibonacci -- {handler}")).silent();
    assert_eq!(
        passes(&env, MIDNIGHT + 58),
        ["last pass 2026-11-21T00:00:00Z, 58 s ago: 4 succeeded, 1 failed"]
    );
    let found = env.passes(MIDNIGHT);
    let last = &found["lines"][0]["last"];
    assert_eq!(last["end"], "complete");
    assert_eq!(last["counts"]["succeeded"], 4);
    assert_eq!(last["errors"][0], "3: exit status 1");
    assert_eq!(last["schedule"], "--fibonacci");
    assert_eq!(env.read("run"), format!("{}\n", last["run"].as_str().unwrap()).repeat(5));
    assert_eq!(found["lines"][0]["every_secs"], Value::Null, "one pass is no rhythm");
    assert_eq!(found["user"], Value::Null, "whose database it is, everybody sees");
}

#[test]
fn passes_without_work_share_an_entry_and_totals_go_on() {
    let env = TestEnv::with_records(2, MIDNIGHT);
    let pass = |minutes: i64, handler: &str| {
        env.run_at(MIDNIGHT + minutes * MINUTE, &format!("process --fibonacci -- {handler}"))
            .silent();
    };
    pass(0, "false");
    pass(1, "true");
    for minute in 2..6 {
        pass(minute, "true");
    }
    assert_eq!(env.state("SELECT count(*) FROM passes"), "3");
    assert_eq!(
        passes(&env, MIDNIGHT + 6 * MINUTE),
        ["last pass 2026-11-21T00:05:00Z, 1 m ago: nothing was due, 4 passes in a row; before \
          that 2026-11-21T00:01:00Z: 2 succeeded"]
    );
    let found = env.passes(MIDNIGHT);
    assert_eq!(found["lines"][0]["last"]["passes"], 4);
    let totals = &found["lines"][0]["totals"];
    assert_eq!((&totals["succeeded"], &totals["failed"]), (&2.into(), &2.into()));
}

#[test]
fn the_passes_of_all_lines_are_told_in_the_order_of_time() {
    let env = TestEnv::with_records(3, MIDNIGHT);
    let pass = |minutes: i64, line: &str, handler: &str| {
        env.run_at(MIDNIGHT + minutes * MINUTE, &format!("process {line} -- {handler}")).silent();
    };
    pass(0, "--ndays 1 --max-records 1", "false");
    pass(1, "--fibonacci", "true");
    pass(2, "--ndays 1", "true");
    pass(3, "--fibonacci", "true");
    let status = env.run_at(MIDNIGHT + HOUR, "status --passes 3").success().stdout;
    let recent = status.split("\n\n").last().unwrap();
    let shown = recent.lines().map(|line| match line.split_once("took ") {
        Some((line, rest)) => format!("{line}{}", &rest[rest.find(": ").unwrap() + 2..]),
        None => line.to_string(),
    });
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            "BEGAN                 LINE         PASS",
            "2026-11-21T00:03:00Z  --fibonacci  nothing was due",
            "2026-11-21T00:02:00Z  --ndays 1    nothing was due",
            "2026-11-21T00:01:00Z  --fibonacci  3 succeeded",
        ]
    );
}

#[test]
fn a_pass_that_does_not_come_is_missed() {
    let env = TestEnv::new();
    let pass = |minute: i64, line: &str| {
        env.run_at(MIDNIGHT + minute * MINUTE, &format!("process {line} -- true")).silent();
    };
    let count =
        |at: i64| passes(&env, at).iter().filter(|line| line.contains("no pass for")).count();
    let age = "--ndays 1";
    // Nobody knows whether these are a habit.
    (0..4).for_each(|tick| pass(tick * 5, age));
    assert_eq!(count(MIDNIGHT + 3 * HOUR), 0);
    (4..=12).for_each(|tick| pass(tick * 5, age));
    let last = MIDNIGHT + HOUR;
    assert_eq!(count(last + HOUR), 0);
    assert_eq!(passes(&env, last + 3 * HOUR)[1], "no pass for 3 h: usually every 5 m");
    assert_eq!(env.passes(last + 3 * HOUR)["lines"][0]["no_pass_for_secs"], 3 * HOUR);
    assert_eq!(env.passes(last)["lines"][0]["every_secs"], 300);

    // A given interval counts more than the usual one.
    (0..=12).for_each(|tick| pass(tick * 5, "--fibonacci --every 2h"));
    let lines = env.passes(last)["lines"].clone();
    assert!(lines.as_array().unwrap().iter().any(|line| line["every_secs"] == 7_200), "{lines}");
    assert_eq!(count(last + 4 * HOUR), 1);
    assert_eq!(count(last + 4 * HOUR + 1), 2);
}

#[test]
fn passes_at_a_terminal_make_no_line_and_teach_no_rhythm() {
    let env = TestEnv::new();
    let at_a_terminal = |minute: i64, line: &str| {
        let now = MIDNIGHT + minute * MINUTE;
        env.at_terminal(80, &format!("process --now @{now} {line} -- true"), "").success();
    };
    (0..=6).for_each(|tick| at_a_terminal(tick * 10, "--ndays 9"));
    let last = MIDNIGHT + HOUR;
    assert_eq!(passes(&env, last + 9 * HOUR).len(), 1, "nothing is missed");
    let by_cron = |tick: i64| {
        env.run_at(MIDNIGHT + tick * 10 * MINUTE, "process --ndays 1 -- true").silent();
    };
    (0..=6).for_each(by_cron);
    at_a_terminal(61, "--ndays 1");
    at_a_terminal(62, "--ndays 1");
    let found = env.passes(last + HOUR);
    let lines = found["lines"].as_array().unwrap();
    assert_eq!((lines.len(), &lines[0]["line"]), (1, &"--ndays 1".into()));
    assert_eq!(lines[0]["every_secs"], 600);
    assert_eq!(env.passes(last + 3 * HOUR)["lines"][0]["no_pass_for_secs"], 3 * HOUR);
}

#[test]
fn a_line_that_is_gone_is_forgotten() {
    let env = TestEnv::new();
    let pass = |at: i64, line: &str| {
        env.run_at(at, &format!("process {line} -- true")).silent();
    };
    let names = |at: i64| -> Vec<String> {
        let found = env.passes(at);
        let lines = found["lines"].as_array().unwrap().iter();
        lines.map(|line| line["line"].as_str().unwrap().into()).collect()
    };
    pass(MIDNIGHT, "--ndays 1");
    pass(MIDNIGHT + HOUR, "--ndays 2 --where 'ID > 0'");
    assert_eq!(names(MIDNIGHT + 30 * DAY), ["--ndays 1", "--ndays 2 --where ID > 0"]);
    assert_eq!(names(MIDNIGHT + 30 * DAY + 1), ["--ndays 2 --where ID > 0"]);

    let ran = env.run_at(MIDNIGHT, "status --forget '--ndays 2 --where ID > 0'").success();
    assert_eq!(ran.stdout, "forgot the passes of --ndays 2 --where ID > 0\n");
    assert_eq!(names(MIDNIGHT), ["--ndays 1"]);
    let unknown = env.run_at(MIDNIGHT, "status '--forget=--ndays 3'");
    unknown.fails(2, &["no line \"--ndays 3\"; known are --ndays 1"]);

    // Of a schedule that stands in backlog.toml the file says whether it is there.
    let file = |schedule: &str| {
        env.write("backlog.toml", format!("[defaults]\n{schedule}"));
    };
    file("ndays = 7\n");
    pass(MIDNIGHT, "");
    pass(MIDNIGHT, "--where 'ID > 1'");
    let mut all = names(MIDNIGHT);
    all.sort_unstable();
    assert_eq!(all, ["--ndays 1", "--ndays 7", "--ndays 7 --where ID > 1"]);
    for schedule in ["ndays = 8\n", ""] {
        file(schedule);
        assert!(!names(MIDNIGHT).contains(&"--ndays 7".into()), "{schedule}");
        assert_eq!(names(MIDNIGHT).len(), 2, "{schedule}");
    }
}

#[test]
fn a_pass_that_runs_is_seen_and_one_that_hangs_is_named_once_an_hour() {
    let env = TestEnv::with_records(2, MIDNIGHT);
    let staying = env.staying();
    let now = format!("@{MIDNIGHT}");
    let line = "process --fibonacci --timeout 1h";
    let script = format!("[ $BACKLOG_ID = 1 ] || exit 0; {}", staying.script);
    let handler = format!("-- {}", sh(&script));
    let mut pass = env.spawn(&format!("{line} --now {now} {handler}"));
    staying.wait_for_begin();
    let pid = pass.id();
    assert_eq!(
        passes(&env, MIDNIGHT + 4 * MINUTE),
        [format!("running since 2026-11-21T00:00:00Z (pid {pid}), last outcome 4 m ago")]
    );
    // Records in hand have not failed.
    let status = env.run_at(MIDNIGHT, "status --json").success().stdout;
    assert_contains(&status, "\"failed\":0,\"in_hand\":1,");
    assert_contains(&status, "\"failures\":[]");
    let second = |at: i64| env.run_at(at, &format!("{line} -- true"));
    second(MIDNIGHT + 2 * HOUR).silent();
    let late = MIDNIGHT + 2 * HOUR + 1;
    let why = format!(
        "the pass of this line that began at 2026-11-21T00:00:00Z (pid {pid} on {}) has had no \
         outcome for 2 h: does its handler hang? `kill {pid}` ends it",
        env.passes(late)["lines"][0]["running"]["host"].as_str().unwrap()
    );
    second(late).fails(75, &[&why]);
    second(late + HOUR - 1).silent();
    second(late + HOUR).fails(75, &[&why.replace("for 2 h", "for 3 h")]);
    assert_eq!(env.passes(late)["lines"][0]["hangs_for_secs"], 2 * HOUR + 1);
    assert!(passes(&env, late)[0].ends_with("last outcome 2 h ago: it hangs"));
    let explained = env.run_at(late, "explain 1 --fibonacci").success().stdout;
    let said = format!("a pass      running since 2026-11-21T00:00:00Z (pid {pid}), last outcome");
    assert_contains(&explained, &said);
    assert_contains(&explained, "it hangs; nothing else of this line is tried");
    // Which record it is, once the pass has noted it.
    let noted = "INSERT INTO running SELECT run, '1', 0, 1795219200 FROM passes RETURNING run";
    let run = env.state(noted);
    let named = format!(": it hangs; in hand: 1 since 2026-11-21T00:00:00Z (pass {run})");
    assert!(passes(&env, late)[0].ends_with(&named), "{:?}", passes(&env, late));
    let listed = env.run_at(late, "list").success().stdout;
    assert_contains(&listed, &format!("in hand since 2026-11-21T00:00:00Z, pid 0, pass {run}"));
    assert_contains(&listed, "\n1           in hand   2026");
    let checked = env.run_at(late, "check --fibonacci -- /bin/true").fails(1, &[""]);
    assert_contains(&checked.stdout, "\nerror    passes      --fibonacci: running since ");
    second(late + 2 * HOUR)
        .fails(75, &["does its handler hang? `backlog stop 1` ends its handler"]);
    let page = env.path("page.html");
    let path = page.to_str().unwrap();
    env.write("backlog.toml", "[queue.q]\n");
    env.run_at(late, &format!("status --html {path}")).success();
    assert!(std::fs::read_to_string(&page).unwrap().contains("in hand: 1 since"));

    env.kill(&mut pass);
    let status = env.run_at(MIDNIGHT, "status --json").success().stdout;
    assert_contains(&status, "\"failed\":1,\"in_hand\":0,");
    assert_contains(&status, "attempt * began at * and has not reported back");
    assert_eq!(
        passes(&env, late),
        [format!("last pass 2026-11-21T00:00:00Z, 2 h ago: killed (pid {pid}) after 1 succeeded")]
    );
    // The next one goes on behind it.
    env.run_at(late, &format!("process --fibonacci --drain -- {}", sh(&staying.is_dead))).silent();
    assert_eq!(
        passes(&env, late)[0],
        "last pass 2026-11-21T02:00:01Z, now: 1 succeeded".to_string()
    );
}

#[test]
fn each_outcome_shows_that_a_pass_is_alive() {
    let env = TestEnv::with_records(2, MIDNIGHT);
    let began = env.path("began");
    let script = format!("[ $BACKLOG_ID = 2 ] || {{ touch {}; exec sleep 60; }}", began.display());
    let mut pass = env.spawn(&format!("process --ndays 9999 -- {}", sh(&script)));
    wait_until("the second record", || began.exists());
    let found = env.passes(MIDNIGHT);
    let running = &found["lines"][0]["running"];
    assert_eq!(running["pid"], pass.id());
    assert!(found["lines"][0]["last_outcome_at"].as_str() >= running["began_at"].as_str());
    env.kill(&mut pass);
}

#[test]
fn a_pass_says_how_it_ended() {
    let env = TestEnv::with_records(3, MIDNIGHT);
    env.pass("--fibonacci -- /no/such").fails(1, &["/no/such"]);
    let found = passes(&env, MIDNIGHT).remove(0);
    assert_contains(&found, "failed: record 3 stays as it was: could not run /no/such");
    let all = "process --ndays 9 --max-consecutive-failures 2 -- false";
    env.run_at(MIDNIGHT, all).fails(1, &["2 attempts failed in a row"]);
    let found = passes(&env, MIDNIGHT);
    let found = found.iter().find(|line| line.starts_with("--ndays 9: ")).unwrap();
    assert_contains(found, ": 2 failed");
    assert_contains(found, "; failed: 2 attempts failed in a row");
}

#[test]
fn of_a_command_line_only_the_options_of_its_schedule_are_kept() {
    let env = TestEnv::new();
    let schedule = "--policy exponential:first=1m,base=2 --max-attempts 5 --max-age 30d";
    let secret = "--header 'X-Api-Key: secret' --post https://joe:secret@127.0.0.1:9/secret";
    env.run(&format!("process {schedule} {secret}")).silent();
    env.run("process --ndays 3 -- curl -u joe:secret http://secret/").silent();
    let found = std::fs::read_dir(env.path("test.db.backlog")).unwrap();
    for path in found.map(|entry| entry.unwrap().path()) {
        let kept = std::fs::read(&path).unwrap();
        let has_secret = kept.windows(6).any(|window| window == b"secret");
        assert!(!has_secret, "{}: {}", path.display(), String::from_utf8_lossy(&kept));
    }
    let lines = env.passes(MIDNIGHT)["lines"].clone();
    let lines = lines.as_array().unwrap();
    let mut kept: Vec<_> =
        lines.iter().map(|line| line["last"]["schedule"].as_str().unwrap()).collect();
    kept.sort_unstable();
    assert_eq!(
        kept,
        ["--ndays 3", "--policy exponential:first=1m,base=2 --max-attempts 5 --max-age 30days"]
    );
}

#[test]
fn a_line_by_age_alone_is_missed_when_it_breaks_its_own_habit() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    let pass = |minutes: i64| {
        env.run_at(MIDNIGHT + minutes * MINUTE, "process --ndays 1 -- false").silent();
    };
    (0..4).for_each(|number| pass(20 * number));
    assert_eq!(passes(&env, MIDNIGHT + 9 * HOUR).len(), 1, "four times is no habit");
    pass(80);
    assert_eq!(passes(&env, MIDNIGHT + 140 * MINUTE).len(), 1);
    assert_eq!(passes(&env, MIDNIGHT + 9 * HOUR)[1], "no pass for 7 h: usually every 20 m");
}

#[test]
fn what_a_pass_did_before_it_failed_or_was_killed_counts() {
    let env = TestEnv::with_records(6, MIDNIGHT);
    let killing = env.script("killing", "[ $BACKLOG_ID -gt 4 ] || kill -9 $PPID");
    for tick in 0..2 {
        let now = format!("@{}", MIDNIGHT + tick * MINUTE);
        env.run(&format!("process --ndays 9 --drain --now {now} -- {killing}"));
    }
    let shown = passes(&env, MIDNIGHT + MINUTE).remove(0);
    assert_contains(&shown, ": killed (pid ");
    assert!(shown.ends_with(", as was the one before"), "{shown}");
    let totals = env.passes(MIDNIGHT)["lines"][0]["totals"].clone();
    assert_eq!(totals["succeeded"], 1, "that of the first tick: {totals}");
}

#[test]
fn a_clock_that_was_set_back_is_named() {
    let env = TestEnv::new();
    env.run_at(MIDNIGHT + HOUR, "process --fibonacci -- true").silent();
    assert_eq!(
        passes(&env, MIDNIGHT),
        ["last pass 2026-11-21T01:00:00Z, in 1 h, so the clock was set back: nothing was due"]
    );
}
