//! Alarms, played through as an operator who sets them up: each comes when it must, and none on a quiet day.

use crate::testenv::*;

/// The limits that docs/on-call.md recommends.
fn limits() -> Vec<String> {
    let page = include_str!("../../docs/on-call.md");
    let line = page.lines().find(|line| line.starts_with("backlog status --warn-if")).unwrap();
    let words = line.split(' ').skip(2).map(|word| word.trim_matches('\'').to_string());
    words.collect()
}

fn alarm(env: &TestEnv, now: i64) -> String {
    alarm_by(env, now, "--progressive")
}

fn alarm_by(env: &TestEnv, now: i64, schedule: &str) -> String {
    let ran = env.run_at(now, &format!("status {schedule} {}", limits().join(" ")));
    let exit = ran.exit.unwrap();
    format!("{exit} {}", ran.stdout.trim())
}

fn pass(env: &TestEnv, now: i64, more: &str, handler: &str) -> Option<i32> {
    env.run_at(now, &format!("process --progressive {more} -- {handler}")).exit
}

/// Records of several ages, of which some have failed for long.
fn table() -> TestEnv {
    let env = TestEnv::new();
    for (id, age) in [(1, MINUTE), (2, HOUR), (3, 30 * HOUR), (4, 200 * HOUR), (5, 2_000 * HOUR)] {
        env.insert_one(id, MIDNIGHT - age);
    }
    env
}

/// Passes at an even pace. Three records fail each time, which is what a schedule is for.
fn quiet(hours: i64, minutes: i64, schedule: &str) {
    let env = table();
    let handler = "-- sh -c 'case $BACKLOG_ID in 3 | 5 | 120) exit 1 ;; esac'";
    for tick in 0..hours * 60 / minutes {
        let now = MIDNIGHT + tick * minutes * MINUTE;
        if tick % 10 == 0 {
            env.insert_one(100 + tick, now - 30);
        }
        env.run_at(now, &format!("process {schedule} {handler}")).silent();
        // The interval of a line by age is known once it has run some times.
        if tick % 4 == 0 && tick > 4 {
            let said = alarm_by(&env, now + (minutes - 1) * MINUTE, schedule);
            assert!(said.starts_with("0 OK: "), "tick {tick}: {said}");
        }
    }
    assert!(env.count("ERROR") > 0);
}

#[test]
fn no_alarm_comes_on_a_quiet_day() {
    let tiers = "1d/15m,7d/1h,14d/12h,30d/24h,180d/96h,360d/192h";
    quiet(24, 15, &format!("--progressive {tiers} --every 15m"));
}

#[test]
fn no_alarm_comes_whatever_the_schedule_is() {
    quiet(4, 5, "--progressive");
    quiet(4, 5, "--fibonacci --every 5m");
    quiet(4, 5, "--ndays 360");
    quiet(4, 5, "--policy exponential:first=10m,base=2,max=1h --every 5m --by-age");
}

#[test]
fn a_dead_cron_is_told() {
    let env = table();
    for tick in 0..=12 {
        assert_eq!(pass(&env, MIDNIGHT + tick * 5 * MINUTE, "", "true"), Some(0));
    }
    let last = MIDNIGHT + HOUR;
    assert_eq!(alarm(&env, last + HOUR).split(':').next(), Some("0 OK"));
    assert_eq!(alarm(&env, last + HOUR + 1), "2 CRITICAL: overdue_lines 1 (>0)");
}

#[test]
fn a_hung_pass_is_told() {
    let env = TestEnv::with_record(1, MIDNIGHT - MINUTE);
    let staying = env.staying();
    let words =
        format!("process --progressive --now @{MIDNIGHT} --timeout 20m -- {}", sh(&staying.script));
    let child = env.spawn(&words);
    staying.wait_for_begin();
    assert_eq!(alarm(&env, MIDNIGHT + 14 * MINUTE).split(':').next(), Some("0 OK"));
    let said = alarm(&env, MIDNIGHT + 61 * MINUTE);
    assert!(said.starts_with("2 CRITICAL: "), "{said}");
    assert_contains(&said, "hung_lines 1 (>0)");
    assert!(signal("-TERM", child.id()));
    child.ran();
}

#[test]
fn archived_records_are_told_for_a_day() {
    let env = table();
    assert_eq!(pass(&env, MIDNIGHT, "--max-attempts 1", "false"), Some(1));
    assert_eq!(alarm(&env, MIDNIGHT + MINUTE), "2 CRITICAL: archived_24h 5 (>0)");
    for tick in 1..=24 * 12 + 1 {
        pass(&env, MIDNIGHT + tick * 5 * MINUTE, "--max-attempts 1", "true");
    }
    assert_eq!(alarm(&env, MIDNIGHT + 24 * HOUR + 6 * MINUTE).split(':').next(), Some("0 OK"));
}

#[test]
fn a_queue_that_is_overdue_is_told() {
    let env = TestEnv::new();
    // Each pass comes to one record only, and more are due.
    for tick in 0..14 {
        let now = MIDNIGHT + tick * 5 * MINUTE;
        env.insert_one(100 + 2 * tick, now - 10);
        env.insert_one(101 + 2 * tick, now - 10);
        assert_eq!(pass(&env, now, "--max-records 1", "true"), Some(0));
    }
    let said = alarm(&env, MIDNIGHT + 66 * MINUTE);
    assert!(said.starts_with("2 CRITICAL: oldest_due 1h"), "{said}");
    assert!(!said.contains("_lines"), "the passes do come: {said}");
}

#[test]
fn records_of_an_old_date_are_overdue_only_once_a_pass_should_have_tried_them() {
    let env = table();
    let tick = |number: i64| MIDNIGHT + number * 5 * MINUTE;
    for number in 0..3 {
        assert_eq!(pass(&env, tick(number), "", "false"), Some(0));
    }
    env.insert_one(50, MIDNIGHT - 20 * 24 * HOUR);
    env.run_at(tick(2) + 60, "retry --all").success();
    let said = alarm(&env, tick(2) + 4 * MINUTE);
    assert!(said.starts_with("0 OK: "), "{said}");
    // Nobody has come for them.
    let said = alarm(&env, tick(2) + 2 * HOUR);
    assert!(said.starts_with("2 CRITICAL: oldest_due 2h (>1h)"), "{said}");
}

#[test]
fn a_record_in_the_hands_of_a_long_handler_is_not_overdue() {
    let env = TestEnv::with_record(1, MIDNIGHT - MINUTE);
    let pausing = env.pausing();
    let child =
        env.spawn(&format!("process --progressive --now @{MIDNIGHT} -- {}", sh(&pausing.script)));
    pausing.wait_for_begin();
    let said = alarm(&env, MIDNIGHT + 90 * MINUTE);
    assert!(said.starts_with("0 OK: "), "{said}");
    pausing.let_go();
    child.ran().silent();
}

#[test]
fn passes_that_cannot_be_read_are_no_quiet_day() {
    let env = table();
    assert_eq!(pass(&env, MIDNIGHT, "--max-attempts 1", "false"), Some(1));
    env.write("test.db.backlog/state.db", "garbage\n");
    let said = alarm(&env, MIDNIGHT + MINUTE);
    assert!(said.starts_with("3 UNKNOWN: archived_24h: could not open "), "{said}");
}

/// Passes at an even pace, each with a new record, and what each says.
fn night(env: &TestEnv, passes: std::ops::Range<i64>, minutes: i64, line: &str) -> Vec<String> {
    let pass = |tick: i64| {
        let now = MIDNIGHT + tick * minutes * MINUTE;
        env.insert_one(1_000 + tick, now - 30);
        env.run_at(now, &format!("process {line}")).stderr
    };
    passes.map(pass).collect()
}

/// The passes that say something, with the number of their lines.
fn mails(said: &[String]) -> Vec<(usize, usize)> {
    let lines = said.iter().map(|said| said.lines().count()).enumerate();
    lines.filter(|(_, lines)| *lines > 0).collect()
}

#[test]
fn a_queue_in_which_nothing_succeeds_is_told_after_an_hour_and_then_daily() {
    for schedule in ["--progressive", "--fibonacci", "--ndays 360", "--policy even"] {
        let env = TestEnv::new();
        let [broken, fine] = ["echo no route >&2; exit 1", "true"]
            .map(|script| format!("{schedule} -- {}", sh(script)));
        let said = night(&env, 0..12, 5, &broken);
        assert_eq!(mails(&said), [], "{schedule:?}: {said:?}");
        let said = night(&env, 12..24, 5, &broken);
        let says = "backlog: no new record has succeeded since 2026-11-21T00:00:00Z (13 attempts): no route\n";
        assert_eq!((&said[0][..], mails(&said)), (says, vec![(0, 1)]), "{schedule:?}");
        let said = alarm_by(&env, MIDNIGHT + 2 * HOUR, schedule);
        assert!(said.starts_with("2 CRITICAL: ") && said.contains("failing 2h (>1h)"), "{said}");
        let status = env.run_at(MIDNIGHT + 2 * HOUR, &format!("status {schedule}")).stdout;
        let says = says.trim_start_matches("backlog: ").replace("13", "24");
        assert_contains(&status, says.trim());
        let checked = env.run_at(MIDNIGHT + 2 * HOUR, &format!("check {schedule} -- /bin/true"));
        assert_contains(&checked.stdout, &format!("warning  passes      {says}"));
        // It goes on, is over, and the next one is told again after an hour.
        if schedule.starts_with("--ndays") {
            assert_eq!(mails(&night(&env, 40..50, 30, &broken)), []);
            assert_eq!(mails(&night(&env, 50..51, 30, &broken)), [(0, 1)]);
            assert_eq!(mails(&night(&env, 60..61, 30, &fine)), []);
            assert_eq!(mails(&night(&env, 370..384, 5, &broken)), [(12, 1)]);
        }
    }
}

#[test]
fn an_older_record_that_succeeds_does_not_hide_that_all_new_ones_fail() {
    let env = TestEnv::new();
    let line = "--ndays 9 -- sh -c '[ $BACKLOG_ID -lt 1000 ] || exit 1'";
    let pass = |tick: i64| {
        env.insert_one(1 + tick, MIDNIGHT - DAY);
        night(&env, tick..tick + 1, 5, line).concat()
    };
    let said: Vec<_> = (0..20).map(pass).collect();
    assert_eq!((mails(&said), env.count("SUCCESS")), (vec![(12, 1)], 20), "{said:?}");
}

#[test]
fn archived_records_of_many_passes_send_one_mail_an_hour() {
    let env = TestEnv::new();
    let said = night(&env, 0..25, 5, "--ndays 1 --max-attempts 1 -- false");
    let told: Vec<_> = mails(&said).into_iter().map(|(pass, _)| pass).collect();
    assert_eq!(told, [0, 12, 24], "{said:?}");
    assert!(
        said[0].starts_with("backlog: record 1000 failed after 1 attempt; archived: "),
        "{said:?}"
    );
    let earlier =
        "backlog: earlier passes archived 11 records; this lists all causes: backlog failures ";
    assert!(
        said[12].contains(earlier) && said[12].contains("record 1012 failed after 1 attempt"),
        "{said:?}"
    );
}

#[test]
fn old_records_that_fail_in_vain_are_not_told_again_and_a_table_without_failures_has_new_ones() {
    let env = TestEnv::with_records(12, MIDNIGHT - MINUTE);
    let broken = "--ndays 360 -- false";
    let pass = |env: &TestEnv, now: i64| env.run_at(now, &format!("process {broken}")).stderr;
    let said: Vec<_> = (0..30).map(|hours| pass(&env, MIDNIGHT + hours * HOUR)).collect();
    assert_eq!(mails(&said), [(1, 1)]);
    // No column shows that a record failed. One new record in each of three passes is not ten.
    let env = TestEnv::new();
    env.sql("CREATE TABLE outbox (id INTEGER PRIMARY KEY, created_at TEXT NOT NULL, sent_at TEXT)");
    let config = "[queue.outbox]\ndb = 'test.db'\ntable = 'outbox'\nstatus = false\nwhere = 'sent_at IS NULL'\n\
                  date_inserted = 'created_at'\non_success = { sent_at = '{now}' }\nndays = 9\nexec = ['false']\n";
    env.write("backlog.toml", config);
    let passes = |hours: std::ops::Range<i64>, new: i64| -> Vec<String> {
        let pass = |hour: i64| {
            let rows = format!(
                "INSERT INTO outbox (created_at) SELECT datetime({}, 'unixepoch') FROM \
                json_each('{:?}')",
                MIDNIGHT + hour * HOUR - 5,
                vec![0; usize::try_from(new).unwrap()]
            );
            env.sql(&rows);
            let now = format!("@{}", MIDNIGHT + hour * HOUR);
            let mut command = env.command(&format!("process --now {now}"));
            command.env_remove("BACKLOG_DB").ran().stderr
        };
        hours.map(pass).collect()
    };
    assert_eq!(mails(&passes(0..4, 3)), [], "9 of them: those before the first pass may be old");
    assert_eq!(mails(&passes(4..5, 1)), [(0, 1)]);
}

#[test]
fn the_first_night_of_a_dead_receiver_sends_at_most_one_mail_an_hour() {
    for lines in [
        &["--progressive"][..],
        &["--fibonacci"],
        &["--ndays 1", "--min-ndays 1 --ndays 360"],
        &["--policy even"],
        &["--policy even --max-consecutive-failures 2"],
        &["--policy even --max-attempts 1"],
    ] {
        let env = table();
        let mut mails = Vec::new();
        for tick in 0..20 {
            let now = MIDNIGHT + tick * 10 * MINUTE;
            (0..3).for_each(|id| env.insert_one(1_000 + 10 * tick + id, now - 30));
            for line in lines {
                let ran = env.run_at(now, &format!("process {line} --post http://127.0.0.1:1/"));
                mails.extend((!ran.stderr.is_empty()).then_some((now, ran.stderr)));
            }
        }
        let apart = mails.windows(2).all(|two| two[1].0 - two[0].0 >= HOUR);
        assert!(apart && mails.len() >= 3, "{lines:?}: {mails:#?}");
        assert!(
            mails.iter().any(|(_, said)| said.contains("no new record has succeeded")),
            "{mails:?}"
        );
    }
}
