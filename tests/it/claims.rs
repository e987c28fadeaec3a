//! Exclusive, and crash-proof: overlapping passes, and passes that are killed.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Child, Command};

use crate::testenv::*;

/// A handler that notes the begin and the end of each run in one file.
fn tracing(env: &TestEnv, body: &str) -> String {
    let log = env.path_text("trace");
    env.script(
        "tracing",
        &format!("echo begin $BACKLOG_ID $$ >>{log}\n{body}\necho end $BACKLOG_ID $$ >>{log}"),
    )
}

/// The trace, checked: no record is ever handled twice at once. A run without an end was
/// killed; it counts as over when its process is gone, which `killed` says.
fn runs(env: &TestEnv) -> HashMap<String, Vec<(String, bool)>> {
    let trace = env.read("trace");
    let mut runs: HashMap<String, Vec<(String, bool)>> = HashMap::new();
    for line in trace.lines() {
        let [what, id, pid] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let runs = runs.entry(id.into()).or_default();
        match what {
            "begin" => runs.push((pid.into(), false)),
            _ => {
                let (last, ended) = runs.last_mut().unwrap();
                assert_eq!(last, pid, "record {id} was begun again before its run ended");
                *ended = true;
            }
        }
    }
    runs
}

fn kill(child: &Child) {
    assert!(signal("-KILL", child.id()));
}

/// Kills a watchdog whose pass is dead, and waits until the kernel has released the claims that it held.
pub fn kill_watchdog(watchdog: &str) {
    assert!(signal("-KILL", watchdog));
    let is_dead = || {
        let status = std::fs::read_to_string(format!("/proc/{watchdog}/status"));
        status.map_or(true, |status| status.contains("State:\tZ"))
    };
    wait_until("the watchdog is dead", is_dead);
}

/// The process number of a pass's watchdog.
pub fn watchdog_of(pass: &Child) -> String {
    watchdog_if_any(pass).unwrap()
}

pub fn watchdog_if_any(pass: &Child) -> Option<String> {
    let parent = format!("\nPPid:\t{}\n", pass.id());
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    // Other processes come and go meanwhile.
    let mut watchdogs = processes.filter(|process| {
        let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let status = std::fs::read_to_string(process.path().join("status")).unwrap_or_default();
        command.starts_with(b"backlog\0watchdog\0") && status.contains(&parent)
    });
    watchdogs.next().map(|watchdog| watchdog.file_name().into_string().unwrap())
}

#[test]
fn two_passes_at_once_handle_each_record_once() {
    let env = TestEnv::new().given_away();
    env.insert(500, MIDNIGHT);
    let handler = tracing(&env, "");
    let children: Vec<_> = ["1", "2"]
        .map(|ndays| {
            env.spawn(&format!("process --now @{MIDNIGHT} --ndays {ndays} --jobs 2 -- {handler}"))
        })
        .into();
    for child in children {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    assert_eq!(env.count("SUCCESS"), 500);
    let runs = runs(&env);
    assert_eq!(runs.len(), 500);
    assert!(runs.values().all(|runs| runs.len() == 1));
}

/// A pass over two records, of which another pass has one in hand with a handler that does `waiting`,
/// until that is ended with `end` from the handler of the other record.
fn beside_another_pass(waiting: &str, end: &str) -> TestEnv {
    let env = TestEnv::with_records(2, MIDNIGHT);
    let (begun, go) = (env.path_text("begun"), env.path("go"));
    let waiting = waiting.replace("GO", &go.display().to_string());
    let waiting = env.script("waiting", &format!("echo $BACKLOG_ID >{begun}\n{waiting}"));
    let pass = format!("process --now @{MIDNIGHT} --grace 0s --max-records 1 --ndays");
    let mut other = env.spawn(&format!("{pass} 1 -- {waiting}"));
    wait_until("a record is in other hands", || {
        std::fs::read_to_string(&begun).is_ok_and(|id| id.ends_with('\n'))
    });
    let pid = other.id();
    let end = end.replace("PID", &pid.to_string()).replace("GO", &go.display().to_string());
    // The other pass is over once it is gone, or a zombie.
    let ending = env.script(
        "ending",
        &format!(
            "{end}\n\
             while [ -e /proc/{pid} ] && ! grep -q 'State:.Z' /proc/{pid}/status; do sleep 0.01; done"
        ),
    );
    env.run(&format!("process --now @{MIDNIGHT} --ndays 2 -- {ending}")).silent();
    assert!(other.wait().unwrap().code().is_some());
    env
}

#[test]
fn what_another_pass_gives_back_unused_is_not_left_by_one_that_found_it_busy() {
    let env = beside_another_pass("sleep 60", "kill -TERM PID 2>/dev/null");
    assert_eq!(env.count("SUCCESS"), 2);
}

#[test]
fn what_has_failed_in_another_pass_is_not_tried_at_once_by_one_that_found_it_busy() {
    let env = beside_another_pass("while [ ! -e GO ]; do sleep 0.01; done; exit 1", "touch GO");
    assert_eq!((env.count("SUCCESS"), env.count("ERROR")), (1, 1));
}

/// A pass of a schedule with so many records in hand, and what lets it go on.
fn with_in_hand(env: &TestEnv, count: usize, schedule: &str) -> (Child, PathBuf) {
    let (began, go) = (env.path("began"), env.path("go"));
    let body = "while [ ! -e GO ]; do sleep 0.01; done".replace("GO", go.to_str().unwrap());
    let holding = env.script("holding", &format!("echo >>{}\n{body}", began.display()));
    let (now, count_text) = (format!("@{MIDNIGHT}"), count.to_string());
    let pass = format!("process --now {now} --jobs {count_text} --max-records {count_text}");
    let child = env.spawn(&format!("{pass} {schedule} -- {holding}"));
    wait_until("all are in hand", || {
        std::fs::read_to_string(&began).is_ok_and(|text| text.lines().count() == count)
    });
    (child, go)
}

#[test]
fn a_pass_works_elsewhere_while_another_is_at_what_comes_next() {
    let env = TestEnv::with_records(100, MIDNIGHT);
    let (mut other, go) = with_in_hand(&env, 3, "--ndays=1");
    let noting = env.noting(&format!("touch {}", go.display()));
    env.pass(&format!("--ndays 2 -- {noting}")).silent();
    assert!(other.wait().unwrap().success());
    assert_eq!(env.count("SUCCESS"), 100);
    // Two were claimed in vain, the next 64 were deferred, and one of them is in other hands.
    let handled: Vec<i64> = env.handled().iter().map(|id| id.parse().unwrap()).collect();
    assert_eq!(handled, (1..=34).rev().chain((35..=97).rev()).collect::<Vec<_>>());
}

#[test]
fn a_pass_that_may_be_cut_short_leaves_none_behind_that_comes_next() {
    // In hand, records stay NEW.
    let env = TestEnv::minimal();
    env.insert(100, MIDNIGHT);
    let (mut other, go) = with_in_hand(&env, 3, "--ndays=1");
    env.pass(&format!("--ndays=2 --max-records=2 -- {}", env.noting(""))).silent();
    assert_eq!(env.handled(), ["97", "96"]);
    std::fs::write(go, "").unwrap();
    assert!(other.wait().unwrap().success());
}

#[test]
fn what_fails_in_one_of_two_passes_is_not_tried_by_the_other() {
    for (env, more) in [
        (TestEnv::new(), ""),
        (TestEnv::minimal(), ""),
        (TestEnv::new(), "--drain"),
        (TestEnv::minimal(), "--drain"),
    ] {
        env.insert(300, MIDNIGHT - 60);
        let [began, go] = ["began", "go"].map(|name| env.path(name).display().to_string());
        // The first pass waits in its first attempts until the second one has begun.
        let failing = env.script(
            "failing",
            &format!(
                "echo $BACKLOG_ID >>{began}\n[ $BACKLOG_NDAYS = 1 ] || touch {go}\n\
                 while [ ! -e {go} ]; do sleep 0.01; done\nsleep 0.005; exit 1"
            ),
        );
        let pass = |ndays: &str| {
            let words = format!("process --now @{MIDNIGHT} --ndays {ndays} --jobs 4");
            let mut command = env.command(&format!("{words} {more} -- {failing}"));
            command.env("BACKLOG_NDAYS", ndays);
            command
        };
        let mut first = pass("1").spawn().unwrap();
        wait_until("the first pass is at work", || {
            std::fs::read_to_string(&began).is_ok_and(|text| text.lines().count() == 4)
        });
        let second = pass("2").output().unwrap();
        assert!(first.wait().unwrap().success() && second.status.success(), "{second:?}");
        let began = std::fs::read_to_string(&began).unwrap();
        let mut tried: Vec<i64> = began.lines().map(|id| id.parse().unwrap()).collect();
        let again = tried.len() - 300;
        tried.sort_unstable();
        tried.dedup();
        assert_eq!(tried, (1..=300).collect::<Vec<_>>(), "{more:?}");
        // Records in hand when the second pass began; a drain asks for them until they are free.
        assert!(again == 0 || again <= 4 && more == "--drain", "{more:?}: {again} twice");
    }
}

#[test]
fn slots_are_not_deferred() {
    let env = TestEnv::with_records(100, MIDNIGHT - 3_600);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
    // Another line that comes to the same slots in the same order.
    let (mut other, go) = with_in_hand(&env, 3, "--progressive=1d/5m");
    let pass = |handler: &str| {
        env.pass(&format!("--progressive --grace 0s -- {}", sh(handler)));
    };
    // It is cut short while its first attempt runs.
    pass("kill -TERM $PPID; sleep 60");
    std::fs::write(go, "").unwrap();
    assert!(other.wait().unwrap().success());
    assert_eq!(env.count("SUCCESS"), 3);
    pass("true");
    assert_eq!(env.count("SUCCESS"), 100);
}

#[test]
fn passes_killed_at_any_point_lose_nothing_and_repeat_little() {
    let envs = [TestEnv::new(), TestEnv::new().given_away()];
    for (mode, env) in ["--ndays 1", "--fibonacci"].into_iter().zip(envs) {
        env.insert(400, MIDNIGHT);
        let handler = tracing(&env, "sleep 0.01");
        let now = format!("@{MIDNIGHT}");
        // Fibonacci lets a record that was charged wait; an hour later it is due.
        let args = |now: &str| format!("process --now {now} --jobs 2 {mode} -- {handler}");
        let kills = 20;
        for round in 0..kills {
            let mut child = env.spawn(&args(&now));
            // Points all over the life of a pass, its start included.
            std::thread::sleep(std::time::Duration::from_millis(round * 7 % 60));
            kill(&child);
            child.wait().unwrap();
        }
        env.run(&with_options("--drain", &args(&format!("@{}", MIDNIGHT + 3600)))).silent();
        assert_eq!(env.count("SUCCESS"), 400, "{mode:?}");
        let runs = runs(&env);
        assert_eq!(runs.len(), 400);
        let repeats: usize = runs.values().map(|runs| runs.len() - 1).sum();
        assert!(repeats <= 2 * kills as usize, "{repeats} repeats for {kills} kills of 2 handlers");
    }
}

#[test]
fn no_handler_of_a_killed_pass_takes_a_part_of_its_record_for_the_whole() {
    let env = TestEnv::with_records(40, MIDNIGHT);
    // Some fit into a pipe, some do not.
    env.sql(
        "UPDATE BACKLOG SET PAYLOAD = json_quote(printf('%.*c', iif(ID % 2, 98, 199998), 'x'))",
    );
    let read = env.path_text("read");
    let handler = env.script("sizing", &format!("size=$(wc -c); echo $BACKLOG_ID $size >>{read}"));
    let args =
        format!("process --now @{MIDNIGHT} --ndays 1 --jobs 4 --set payload=PAYLOAD -- {handler}");
    let noted = || std::fs::read_to_string(&read).unwrap_or_default();
    for round in 0..40 {
        let before = noted().len();
        let mut child = env.spawn(&args);
        wait_until("a handler has read its record", || noted().len() > before);
        std::thread::sleep(std::time::Duration::from_micros(round * 137 % 3000));
        kill(&child);
        child.wait().unwrap();
        env.sql("UPDATE BACKLOG SET STATUS = 'NEW'");
    }
    // The watchdog of the last pass may still be at work, and its handlers may note what they read.
    env.run(&format!("process --now @{MIDNIGHT} --ndays 1 --drain -- true")).silent();
    for line in noted().lines() {
        let (id, size) = line.split_once(' ').unwrap();
        let whole = if id.parse::<i64>().unwrap() % 2 == 1 { "100" } else { "200000" };
        assert_eq!(size, whole, "record {id}");
    }
}

#[test]
fn handlers_of_a_killed_pass_are_ended_before_its_claims_are() {
    let env = TestEnv::with_records(3, MIDNIGHT);
    let log = env.path_text("trace");
    // One run ignores TERM, one has a session of its own.
    let handler = env.script(
        "stubborn",
        &format!("trap '' TERM; echo begin $BACKLOG_ID $$ >>{log}; setsid sleep 1000 & sleep 1000; echo end >>{log}"),
    );
    let mut child =
        env.spawn(&format!("process --now @{MIDNIGHT} --ndays 1 --jobs 3 -- {handler}"));
    let began = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
    wait_until("three handlers begin", || began() == 3);
    // The watchdog does not take a signal for the end of the pass.
    assert!(signal("-TERM", watchdog_of(&child)));
    kill(&child);
    child.wait().unwrap();
    // The next pass gets the records only when nobody works on them any more.
    let check = env.script(
        "check",
        &format!(
            // A process that is dead but not yet reaped works on nothing.
            "for pid in $(cut -d' ' -f3 {log}); do
               grep -qs '^State:.[RSD]' /proc/$pid/status && exit 1
             done; exit 0"
        ),
    );
    env.run(&format!("process --now @{MIDNIGHT} --ndays 1 --drain -- {check}")).silent();
    assert_eq!(env.count("SUCCESS"), 3);
    let left = Command::new("pgrep").args(["-f", "^sleep 1000$"]).output();
    if let Ok(left) = left {
        let mine = String::from_utf8(left.stdout).unwrap();
        let mine = mine.lines().filter(|pid| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&environ).contains(&*env.db().to_string_lossy())
        });
        assert_eq!(mine.count(), 0, "no descendant of a handler is left");
    }
}

/// A pass whose handler stays, run by these words.
fn with_a_handler_that_stays(env: &TestEnv, words: &str) -> Child {
    let (staying, now) = (env.staying(), format!("@{MIDNIGHT}"));
    let args = format!("process --now {now} --ndays 1 --");
    let child = env.spawn(&format!("{args} {words} {}", sh(&staying.script)));
    staying.wait_for_begin();
    child
}

/// The next pass: its handler succeeds if the one before is dead.
fn drain_if_dead(env: &TestEnv) {
    let (is_dead, now) = (env.staying().is_dead, format!("@{MIDNIGHT}"));
    env.run(&format!("process --now {now} --ndays 1 --drain -- {}", sh(&is_dead))).silent();
    assert_eq!(env.statuses(), "1|SUCCESS");
}

#[test]
fn a_guard_that_dies_is_replaced() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    let mut child = with_a_handler_that_stays(&env, "");
    for _ in 0..3 {
        let watchdog = watchdog_of(&child);
        assert!(signal("-KILL", &watchdog));
        wait_until("another watchdog", || {
            watchdog_if_any(&child).is_some_and(|other| other != watchdog)
        });
        // A watchdog that was just started may not have been told what to watch over.
        let told = || {
            let state = std::fs::read_to_string(format!("/proc/{}/status", watchdog_of(&child)));
            state.is_ok_and(|state| state.contains("State:\tS"))
        };
        wait_until("it waits", told);
    }
    kill(&child);
    child.wait().unwrap();
    drain_if_dead(&env);
}

#[test]
fn the_next_pass_ends_the_handlers_of_a_pass_that_was_killed_with_its_guard() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    let mut child = with_a_handler_that_stays(&env, "");
    let watchdog = watchdog_of(&child);
    let command = std::fs::read_to_string(format!("/proc/{watchdog}/cmdline")).unwrap();
    assert_eq!(command, "backlog\0watchdog\0", "no token for everybody to read");
    // The watchdog must not see the pass die.
    assert!(signal("-STOP", &watchdog));
    kill(&child);
    child.wait().unwrap();
    kill_watchdog(&watchdog);
    drain_if_dead(&env);
    let notes = env.read("test.db.backlog/passes");
    assert_eq!(notes.trim(), "", "each pass that ends takes its note back");
}

#[test]
fn the_guard_of_somebody_elses_making_watches_over_nothing() {
    let env = TestEnv::new();
    env.run("watchdog").fails(2, &["only `backlog process` can start it"]);
    env.run_with_input("watchdog", b"token 0\n").fails(2, &["only `backlog process` can start it"]);
}

#[test]
fn a_handler_that_resets_its_environment_does_not_outlive_the_claim_either() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    let mut child = with_a_handler_that_stays(&env, "env -i PATH=/usr/bin:/bin");
    kill(&child);
    child.wait().unwrap();
    drain_if_dead(&env);
}

#[test]
fn a_second_pass_of_the_same_line_ends_at_once_and_says_nothing() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    let pausing = env.pausing();
    let first =
        env.spawn(&format!("process --now @{MIDNIGHT} --ndays 1 -- {}", sh(&pausing.script)));
    pausing.wait_for_begin();
    env.sql("INSERT INTO BACKLOG (ID, DATE_INSERTED) VALUES (2, '2026-11-21')");
    let handler = env.noting("exit 0");
    env.pass(&format!("--ndays 1 -- {handler}")).silent();
    assert_eq!(env.handled(), [""; 0], "the same line leaves all to the first");
    env.pass(&format!("--ndays 2 -- {handler}")).silent();
    assert_eq!(env.handled(), ["2"], "another line does not touch the claimed record");
    let waiting = env.spawn(&format!("process --now @{MIDNIGHT} --ndays 1 --wait -- {handler}"));
    pausing.let_go();
    assert!(first.wait_with_output().unwrap().status.success());
    assert!(waiting.wait_with_output().unwrap().status.success());
    assert_eq!(env.statuses(), "1|SUCCESS\n2|SUCCESS");
}

#[test]
fn two_databases_that_share_a_state_directory_do_not_block_each_other() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    std::fs::copy(env.db(), env.path("other.db")).unwrap();
    let state = env.path_text("state");
    // While the first one's handler runs, the second database's pass of the same line runs.
    let inner = format!(
        "{} process --db other.db --now @{MIDNIGHT} --ndays 1 --state-dir {state} -- touch other",
        env!("CARGO_BIN_EXE_backlog")
    );
    let args = format!("process --ndays 1 --state-dir {state} -- {}", sh(&inner));
    env.run_at(MIDNIGHT, &args).silent();
    assert!(env.path("other").exists());
}

#[test]
fn six_lines_at_once_never_collide_and_none_loses_its_turn() {
    let env = TestEnv::new();
    let tiers = ["0", "1", "7", "14", "30", "180", "360"];
    for id in 0..200 {
        let days: i64 = tiers[id as usize % 6].parse().unwrap();
        env.insert_one(id + 1, MIDNIGHT - days * DAY - 60);
    }
    for round in 1..=10 {
        let passes: Vec<_> = tiers
            .windows(2)
            .map(|pair| {
                env.spawn(&format!(
                    "process --now @{MIDNIGHT} --min-ndays {} --ndays {} -- false",
                    pair[0], pair[1]
                ))
            })
            .collect();
        for pass in passes {
            let output = pass.ran().exits(0);
            assert!(output.stderr.is_empty(), "{output:?}");
        }
        let counts = env.query("SELECT FAILURES, count(*) FROM BACKLOG GROUP BY 1");
        assert_eq!(counts, format!("{round}|200"), "each record once in each round");
    }
}
