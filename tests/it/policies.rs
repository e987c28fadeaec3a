//! Retry policies on real tables: what passes do is what the simulation says, with a counter and
//! without one.

use std::collections::BTreeMap;

use crate::testenv::*;

/// The instants at which each record was tried, in seconds after midnight, from a joblog.
fn tried(env: &TestEnv) -> BTreeMap<i64, Vec<i64>> {
    let log = std::fs::read_to_string(env.path("joblog")).unwrap_or_default();
    let mut tried = BTreeMap::<_, Vec<_>>::new();
    for line in log.lines() {
        let line = json(line);
        let at = chrono::DateTime::parse_from_rfc3339(line["started_at"].as_str().unwrap());
        let at = at.unwrap().timestamp() - MIDNIGHT;
        tried.entry(line["id"].as_i64().unwrap()).or_default().push(at);
    }
    tried
}

fn simulated(env: &TestEnv, args: &str) -> BTreeMap<i64, Vec<i64>> {
    let ran = env.run(&format!("simulate --jsonl {args}")).success();
    let mut tried = BTreeMap::<_, Vec<_>>::new();
    for line in ran.stdout.lines() {
        let line = json(line);
        tried.entry(line["id"].as_i64().unwrap()).or_default().push(line["at"].as_i64().unwrap());
    }
    tried
}

/// Three records that always fail, and a pass in every tick of `hours`.
fn passes(env: &TestEnv, args: &str, every: i64, hours: i64) {
    for id in 1..=3 {
        env.insert_one(id, MIDNIGHT);
    }
    for now in (MIDNIGHT..=MIDNIGHT + hours * HOUR).step_by(every as usize) {
        // Never at the same second of the minute.
        let now = now + now / MINUTE * 37 % 50;
        let ran = env.run_at(now, &format!("process {args} --joblog joblog -- false"));
        assert!(matches!(ran.exit, Some(0 | 1)), "{ran:?}");
    }
}

/// To the whole minute, as passes start a little late.
fn minutes(tried: BTreeMap<i64, Vec<i64>>) -> BTreeMap<i64, Vec<i64>> {
    let whole = |at: Vec<i64>| at.into_iter().map(|at| at / MINUTE).collect();
    tried.into_iter().map(|(id, at)| (id, whole(at))).collect()
}

#[test]
fn passes_by_count_do_what_the_simulation_says() {
    for spec in ["even", "sns:policy.json"] {
        let env = TestEnv::new();
        let policy = r#"{"healthyRetryPolicy":{"minDelayTarget":60,"maxDelayTarget":600,
            "numRetries":6,"numNoDelayRetries":1,"backoffFunction":"geometric"}}"#;
        env.write("policy.json", policy);
        passes(&env, &format!("--policy {}", quoted(spec)), MINUTE, 1);
        let expected = simulated(&env, &format!("--records 3 --for 1h --policy {}", quoted(spec)));
        assert_eq!(minutes(tried(&env)), minutes(expected), "{spec}");
        if spec.starts_with("sns") {
            assert_eq!(env.count("ARCHIVED"), 3, "seven attempts are all it has");
        }
    }
}

#[test]
fn passes_by_age_do_what_the_simulation_says_on_a_table_without_a_counter() {
    for args in ["--policy fibonacci --by-age", "--progressive 30m/5m,3h/30m --every 5m"] {
        let env = TestEnv::minimal();
        let every = if args.starts_with("--progressive") { 5 * MINUTE } else { MINUTE };
        passes(&env, args, every, 1);
        let expected = simulated(&env, &format!("--records 3 --for 1h {args}"));
        assert_eq!(minutes(tried(&env)), minutes(expected), "{args:?}");
    }
}

#[test]
fn the_progressive_schedule_is_one_line() {
    let env = TestEnv::minimal();
    // One record of each tier, and one that is too old for all.
    for (id, days) in [(1, 0), (2, 3), (3, 10), (4, 20), (5, 100), (6, 300), (7, 361)] {
        env.insert_one(id, MIDNIGHT - days * DAY);
    }
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
    for now in (MIDNIGHT..MIDNIGHT + DAY).step_by(300) {
        env.run_at(now, "process --progressive --joblog joblog -- false").silent();
    }
    let counts: Vec<_> = tried(&env).iter().map(|(id, at)| (*id, at.len())).collect();
    assert_eq!(counts[..4], [(1, 288), (2, 24), (3, 2), (4, 1)]);
    assert!(counts[4..].iter().all(|(id, count)| [5, 6].contains(id) && *count == 1), "{counts:?}");
}

#[test]
fn a_new_record_is_due_at_once_whatever_its_age() {
    let env = TestEnv::with_record(1, MIDNIGHT - 400 * DAY);
    env.pass("--progressive -- true").silent();
    assert_eq!(env.statuses(), "1|SUCCESS");
}

#[test]
fn a_failed_record_that_no_pass_by_age_will_see_again_is_an_error_once() {
    let env = TestEnv::new();
    env.sql(
        "PRAGMA ignore_check_constraints = 1;
         INSERT INTO BACKLOG (ID, DATE_INSERTED) VALUES (1, '21.11.2026'), (2, '2024-11-21')",
    );
    let args = "process --progressive -- false";
    let ran = env.run_at(MIDNIGHT, args).success();
    let stranded = "backlog: record 1 failed (attempt 1), and is never due by its age, because its \
                    insertion date cannot be read: exit status 1\n";
    assert_eq!(ran.stderr, stranded);
    env.run_at(MIDNIGHT + 300, args).silent();
    env.sql("UPDATE BACKLOG SET STATUS = 'NEW' WHERE ID = 2");
    let ran = env.run_at(MIDNIGHT + 600, &with_options("-v", args)).success();
    assert_contains(&ran.stderr, "record 2 failed, no retries left (attempt 2): exit status 1\n");
}

#[test]
fn after_a_sleep_a_pass_works_off_four_ticks_and_loses_none() {
    let env = TestEnv::minimal();
    env.insert_one(1, MIDNIGHT - 3 * DAY);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
    let handler = env.noting("exit 1");
    let pass = |now| {
        env.run_at(now, &format!("process --progressive -- {handler}")).silent();
        env.handled().len()
    };
    // From the end of one hour, the machine sleeps for a day: 24 slots of the record.
    let before: usize = (0..12).map(|tick| pass(MIDNIGHT + tick * 300)).sum();
    assert_eq!(before, 1);
    let woken = MIDNIGHT + DAY;
    let after: Vec<_> = (0..96).map(|tick| pass(woken + tick * 300)).collect();
    // 277 ticks and the new ones, four at a time, take 93 passes; in each hour there is one slot.
    assert_eq!(after.iter().sum::<usize>(), 31, "{after:?}");
    assert!(after.iter().all(|tried| *tried <= 1));
}

#[test]
fn a_pass_by_slots_that_is_cut_short_goes_on_where_it_stopped() {
    let env = TestEnv::minimal();
    env.insert(20, MIDNIGHT - HOUR);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
    let handler = env.noting("exit 1");
    let mut all = Vec::new();
    for _ in 0..4 {
        let args = format!("process --progressive --max-records 5 -- {handler}");
        env.run_at(MIDNIGHT, &args).silent();
        let handled = env.handled();
        assert_eq!(handled.len(), 5);
        all.extend(handled);
    }
    all.sort_by_key(|id| id.parse::<i64>().unwrap());
    assert_eq!(all, (1..=20).map(|id: i64| id.to_string()).collect::<Vec<_>>());
    env.pass(&format!("--progressive -- {handler}")).silent();
    assert_eq!(env.handled().len(), 0, "the tick is done");
}

#[test]
fn a_killed_pass_by_slots_repeats_only_what_was_running() {
    let env = TestEnv::minimal();
    env.insert(20, MIDNIGHT - HOUR);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
    let (pausing, now) = (env.pausing(), format!("@{MIDNIGHT}"));
    let pause_at_8 = format!("[ $(wc -l <handled) -ne 8 ] || {{ {}; }}; exit 1", pausing.script);
    let args = format!("process --progressive --now {now} -- {}", env.noting(&pause_at_8));
    let mut child = env.spawn(&args);
    pausing.wait_for_begin();
    env.kill(&mut child);
    let tried = env.handled();
    assert_eq!(tried.len(), 8);
    env.pass(&format!("--progressive -- {}", env.noting("exit 1"))).silent();
    let again = env.handled();
    assert_eq!(again.len(), 13, "the twelve behind the eighth, and that: {tried:?}, {again:?}");
    assert_eq!(again[12], tried[7], "what may kill passes comes last");
}

#[test]
fn a_first_pass_that_new_records_use_up_loses_no_slot() {
    let env = TestEnv::minimal();
    // Its slot is at twenty minutes past each hour.
    env.insert_one(7, MIDNIGHT - 3 * DAY);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
    env.insert_one(2, MIDNIGHT);
    let args = format!("process --progressive --max-records 1 -- {}", env.noting("exit 0"));
    for (minute, id) in [(20, "2"), (25, "7")] {
        env.run_at(MIDNIGHT + minute * MINUTE, &args).silent();
        assert_eq!(env.handled(), [id]);
    }
}

#[test]
fn a_killed_pass_by_slots_gets_on_all_the_same() {
    let env = TestEnv::minimal();
    env.insert(3, MIDNIGHT - HOUR);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
    // Every handler kills the pass that runs it.
    let log = env.path_text("handled");
    let killer = env.script("killer", &format!("echo $BACKLOG_ID >>{log}; kill -9 $PPID"));
    let mut handled = Vec::new();
    for _ in 0..3 {
        env.pass(&format!("--progressive -- {killer}"));
        handled.extend(env.handled());
    }
    handled.sort();
    assert_eq!(handled, ["1", "2", "3"]);
}

#[test]
fn a_clock_that_was_set_back_is_said_and_harms_nothing() {
    let env = TestEnv::with_record(1, MIDNIGHT - HOUR);
    env.run_at(MIDNIGHT + HOUR, "process --progressive -- false").silent();
    let ran = env.pass("--progressive -v -- true").success();
    assert_contains(&ran.stderr, "the clock was set back");
    assert_eq!(env.statuses(), "1|SUCCESS");
}

#[test]
fn the_attempts_of_a_queue_are_limited_by_its_variable() {
    let env = TestEnv::with_record(1, MIDNIGHT);
    let pass = |minute: i64, limit: &str| {
        let now = format!("@{}", MIDNIGHT + minute * MINUTE);
        let args = format!("process --fibonacci -v --queue e-mail --now {now}");
        let handler = "-- sh -c 'echo $BACKLOG_QUEUE $BACKLOG_MAX_ATTEMPTS >&2; exit 1'";
        let mut command = env.command(&format!("{args} {handler}"));
        command.env("MAX_E_MAIL_RETRY_ATTEMPTS", limit).ran()
    };
    let first = pass(0, "3").success();
    assert_contains(&first.stderr, "info: processing record 1 (attempt 1/3)");
    let retry =
        "warning: record 1 failed, will retry at 2026-11-21T00:01:00Z (attempt 1/3): e-mail 3";
    assert_contains(&first.stderr, retry);
    pass(1, "3").success();
    pass(2, "3").fails(1, &["record 1 failed after 3 attempts; archived: e-mail 3"]);
    assert_eq!(env.statuses(), "1|ARCHIVED");
    for wrong in ["0", "many", "-1", ""] {
        pass(3, wrong).fails(2, &["MAX_E_MAIL_RETRY_ATTEMPTS", "at least 1"]);
    }
}

#[test]
fn max_age_gives_up_what_has_failed_and_kept_failing() {
    let env = TestEnv::minimal();
    env.insert_one(1, MIDNIGHT - 11 * DAY);
    env.insert_one(2, MIDNIGHT - 11 * DAY);
    env.insert_one(3, MIDNIGHT - 9 * DAY);
    env.insert_one(4, MIDNIGHT - 400 * DAY);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR' WHERE ID IN (2, 4)");
    let handler = env.noting("exit 1");
    let ran = env.pass("--progressive --max-age 10days --dry-run").success();
    assert_contains(&ran.stdout, "2           archive  older than --max-age");
    let args = format!("process --progressive --max-age 10days -- {handler}");
    env.run_at(MIDNIGHT, &args).fails(1, &["record 2 is older than --max-age; archived"]);
    assert_eq!(env.statuses(), "1|ARCHIVED\n2|ARCHIVED\n3|ERROR\n4|ARCHIVED");
    assert_eq!(env.handled(), ["3", "1"], "what was never tried is tried once");
}

#[test]
fn where_failed_records_look_like_new_ones_each_is_tried_before_its_age_ends_it() {
    let env = TestEnv::with_schema(
        "CREATE TABLE outbox (id INTEGER PRIMARY KEY, created TEXT, sent TEXT, gone INTEGER NOT NULL DEFAULT 0);
         INSERT INTO outbox (created) VALUES ('2026-10-01T00:00:00Z')",
    );
    env.write(
        "backlog.toml",
        "[queue.outbox]\ntable = 'outbox'\ndate_inserted = 'created'\nwhere = 'sent IS NULL AND gone = 0'\n\
         on_success = { sent = '{now}' }\non_archive = { gone = 1 }\nwhere_archived = 'gone = 1'\n\
         on_restore = { gone = 0 }\nmax_age = '7d'\nndays = 360\n",
    );
    for now in [MIDNIGHT, MIDNIGHT + 2 * HOUR] {
        let args = format!("process --queue outbox -- {}", env.noting("exit 1"));
        env.run_at(now, &args).fails(1, &["record 1 failed; archived"]);
        let restored = env.run_at(now, "restore --queue outbox 1").success().stdout;
        assert_contains(&restored, "1: next attempt in the next pass");
    }
    assert_eq!(env.handled(), ["1", "1"]);
}

#[test]
fn a_record_over_both_limits_is_archived_before_it_is_due() {
    let env = TestEnv::new();
    for (id, age) in [(1, 11), (2, 9)] {
        env.insert_one(id, MIDNIGHT - age * DAY);
    }
    env.sql(&format!(
        "UPDATE BACKLOG SET STATUS = 'ERROR', FAILURES = 9, \
         LAST_FAILURE = strftime('%Y-%m-%dT%H:%M:%SZ', {MIDNIGHT} - 60, 'unixepoch')"
    ));
    let args = "process --fibonacci --max-attempts 5 --max-age 10days -- true";
    env.run_at(MIDNIGHT, args).fails(1, &["record 1 is older than --max-age; archived"]);
    assert_eq!(env.statuses(), "1|ARCHIVED\n2|ERROR");
}

#[test]
fn a_wrong_policy_is_told_what_is_legal() {
    let env = TestEnv::new();
    env.write("bad.json", r#"{"numRetries": 101}"#);
    for (spec, says) in [
        ("", "no policy \"\"; use one of constant"),
        (
            "fixed",
            "use one of constant, fibonacci, exponential, linear, arithmetic, geometric, even",
        ),
        ("evn:first=1m", "no policy \"evn\"; use one of constant, "),
        ("sn:x.json", "no policy \"sn\"; use one of constant, "),
        ("even:frist=1m", "even has no key \"frist\"; use one of first, ratio, max, spread"),
        ("constant", "constant needs delay="),
        ("constant:delay", "constant: delay="),
        ("constant:delay=5m,delay=6m", "delay is given twice"),
        ("constant:delay=60days", "write a larger max="),
        ("exponential:first=1m,base=1", "must be a number above 1"),
        ("exponential:first=0s,base=2", "must be more than 0"),
        ("exponential:min=5s,max=1m", "exponential needs retries="),
        ("exponential:min=5s,max=1m,retries=5,base=2", "base cannot be used with min and retries"),
        ("exponential:first=1m,base=2,jitter=30%,spread=10%", "exclude each other"),
        ("linear:min=5s,retries=10", "linear needs max="),
        ("linear:min=5m,max=5s,retries=10", "min (5m) is above max (5s)"),
        ("linear:min=5s,max=5m,retries=1", "whole number from 2 to 100"),
        ("geometric:first=1m,ratio=4/5", "must be a number above 1"),
        ("geometric:first=1m,ratio=1/0", "must be a number above 1"),
        ("list:", "list: \"\""),
        ("list:1m,soon", "list: \"soon\""),
        ("list:1m,1h,max=30m", "list: an entry (1h) is above max (30m)"),
        ("list:spread=0", "list needs a list of delays, as in: list:0s,10m,1h"),
        ("sns:", "sns needs a file"),
        ("sns:nowhere.json", "could not read nowhere.json"),
        ("sns:bad.json", "numRetries is 101; use 0 to 100"),
    ] {
        let args = format!("process --policy {} -- true", quoted(spec));
        env.run(&args).fails(2, &["--policy: ", says]);
    }
    for (args, says) in [
        ("--progressive 1d", "write maximum age/interval, as in 7d/1h"),
        (
            "--progressive 1d/7m",
            "the interval is not a multiple of --every 5m; leave out --every, or write multiples, as in 1d/5m,...\n",
        ),
        ("--progressive 5m/1d", "the interval is longer than the age\n"),
        ("--progressive 1d/10m,7d/15m", "not a multiple of the interval of the tier before"),
        ("--progressive 7d/1h,1d/2h", "not above the age of the tier before"),
        ("--progressive 1d/5m --spread 50%", "leave out --spread"),
        ("--policy even --spread 101", "from 0% to 100%"),
        ("--policy exponential:first=1m,base=2,jitter=9% --by-age", "jitter="),
        ("--policy list:1m,0s --by-age", "the last delay is 0"),
        ("--fibonacci --by-age", "--by-age requires --policy"),
        ("--ndays 1 --every 5m", "--every and --spread require"),
        ("--policy even --progressive", "are two schedules: choose one"),
    ] {
        env.run(&format!("process {args} -- true")).fails(2, &[says]);
    }
    TestEnv::minimal()
        .run("process --policy even -- true")
        .fails(1, &["--policy even needs FAILURES and LAST_FAILURE", "ALTER TABLE"]);
}
