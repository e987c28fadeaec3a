//! A record keeps its slot until it was tried for it: whoever held it when the slot came, and whatever
//! became of the pass that began its attempt.

use std::process::Child;

use crate::testenv::*;

/// When the slot of record 7 comes: twenty minutes past each hour, for one of its age.
const SLOT: i64 = MIDNIGHT + 20 * MINUTE;

/// Record 7, which failed, after a pass that left its slot to the next.
fn one_failed_record() -> TestEnv {
    let env = TestEnv::minimal();
    env.insert_one(7, MIDNIGHT - 3 * DAY);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
    assert_eq!(pass(&env, SLOT - 5 * MINUTE), [""; 0]);
    env
}

/// The records that a pass by slots tries, all of which fail.
fn pass(env: &TestEnv, now: i64) -> Vec<String> {
    env.run_at(now, &format!("process --progressive -- {}", env.noting("exit 1"))).silent();
    env.handled()
}

/// The passes that follow, up to the one that comes to the next slot.
fn passes_to_the_next_slot(env: &TestEnv) -> Vec<String> {
    (2..=12).flat_map(|tick| pass(env, SLOT + 5 * tick * MINUTE)).collect()
}

/// Kills the pass that runs it, and waits until its claim is free.
fn killed_at(env: &TestEnv, now: i64, handler: &str) {
    env.run_at(now, &format!("process --progressive -- {handler}"));
    wait_until("the claim is free", || env.run("archive 7 --dry-run").exit == Some(0));
}

/// A pass of another line that is at the record, until it is let go and fails.
fn held(env: &TestEnv) -> (Pausing, Child) {
    let pausing = env.pausing();
    let script = format!("{}; exit 1", pausing.script);
    let child = env.spawn(&format!("process --ndays 9 --now @{SLOT} -- {}", sh(&script)));
    pausing.wait_for_begin();
    (pausing, child)
}

#[test]
fn a_record_that_is_held_when_its_slot_comes_is_tried_by_the_next_pass() {
    let env = one_failed_record();
    let (pausing, mut holder) = held(&env);
    assert_eq!(pass(&env, SLOT), [""; 0]);
    assert_contains(&env.run_at(SLOT, "explain 7 --progressive").success().stdout, "due");
    pausing.let_go();
    assert!(holder.wait().unwrap().success());
    assert_eq!(pass(&env, SLOT + 5 * MINUTE), ["7"]);
    assert_eq!(passes_to_the_next_slot(&env), ["7"], "once for a slot");
}

#[test]
fn a_drain_waits_for_a_record_that_is_held_when_its_slot_comes() {
    let env = one_failed_record();
    let (pausing, mut holder) = held(&env);
    let handler = env.noting("exit 1");
    let words = format!("process --progressive --drain -vv --now @{SLOT} -- {handler}");
    let mut drain = env.spawn_logging(&words);
    env.logs("record 7 is claimed by another pass");
    pausing.let_go();
    assert!(holder.wait().unwrap().success());
    assert!(drain.wait().unwrap().success());
    assert_eq!(env.handled(), ["7"]);
}

#[test]
fn a_pass_that_is_killed_costs_a_record_no_more_than_its_attempt() {
    let env = one_failed_record();
    killed_at(&env, SLOT, &env.script("killer", "kill -9 $PPID"));
    assert_eq!(pass(&env, SLOT + 5 * MINUTE), ["7"]);
    assert_eq!(passes_to_the_next_slot(&env), ["7"], "once for a slot");
}

#[test]
fn a_record_that_kills_every_pass_is_tried_three_times_for_a_slot_and_holds_up_no_other() {
    let env = one_failed_record();
    let killer = env.noting("[ $BACKLOG_ID != 7 ] || kill -9 $PPID; exit 1");
    for minutes in [0, 5, 10] {
        env.insert_one(100 + minutes, SLOT);
        killed_at(&env, SLOT + minutes * MINUTE, &killer);
        let handled = env.handled();
        assert!(handled.contains(&"7".into()), "{handled:?}");
        assert!(handled.contains(&(100 + minutes).to_string()), "{handled:?}");
    }
    let mut handled = passes_to_the_next_slot(&env);
    handled.retain(|id| id == "7");
    assert_eq!(handled, ["7"], "for the next one");
}

/// Ten passes. Others with these clocks come after the first `before`. Returns what these tried, and
/// what each of the later ones did.
fn tried_after_a_jump(
    mode: &str,
    every: i64,
    before: i64,
    clocks: &[i64],
) -> (Vec<String>, Vec<Vec<String>>) {
    let env = TestEnv::minimal();
    for id in 1..=15 {
        env.insert_one(id, MIDNIGHT - DAY - id * 8 * HOUR);
    }
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
    let handler = env.noting("exit 1");
    let pass = |now| {
        env.run_at(now, &format!("process {mode} -- {handler}")).success();
        let mut handled = env.handled();
        handled.sort();
        handled
    };
    let passes = |ticks: std::ops::Range<i64>| -> Vec<_> {
        ticks.map(|tick| pass(MIDNIGHT + tick * every)).collect()
    };
    passes(0..before);
    let wrong = clocks.iter().flat_map(|clock| pass(*clock)).collect();
    (wrong, passes(before..10))
}

#[test]
fn passes_with_a_wrong_clock_change_nothing_for_those_with_the_right_one() {
    const BOOT: i64 = 100;
    const LATE: i64 = 4_000_000_000;
    for (mode, every) in
        [("--progressive", 5 * MINUTE), ("--policy constant:delay=4m --by-age", MINUTE)]
    {
        let (_, usual) = tried_after_a_jump(mode, every, 5, &[]);
        assert!(usual.iter().filter(|tried| !tried.is_empty()).count() > 3, "{usual:?}");
        for clocks in
            [&[MIDNIGHT - DAY][..], &[BOOT], &[BOOT, BOOT + 5 * MINUTE, BOOT + 10 * MINUTE]]
        {
            assert_eq!(tried_after_a_jump(mode, every, 5, clocks).1, usual, "{mode:?} {clocks:?}");
        }
        // Also the first pass of all, as on a new machine.
        let (_, from_the_first) = tried_after_a_jump(mode, every, 0, &[]);
        assert_eq!(tried_after_a_jump(mode, every, 0, &[BOOT]).1, from_the_first, "{mode:?}");
        // A pass whose clock is ahead takes the slots of four ticks.
        for clocks in [&[MIDNIGHT + DAY][..], &[LATE, BOOT]] {
            let (wrong, tried) = tried_after_a_jump(mode, every, 5, clocks);
            for (tick, (tried, usual)) in tried.iter().zip(&usual).enumerate() {
                let is_right =
                    tried == usual || tick < 4 && usual.iter().all(|id| wrong.contains(id));
                assert!(is_right, "{mode:?} {clocks:?} {tick}: {tried:?}, not {usual:?}");
            }
        }
    }
}

#[test]
fn status_says_that_the_clock_of_the_last_pass_was_behind() {
    let env = one_failed_record();
    pass(&env, 100);
    let status = env.run_at(SLOT, "status").success().stdout;
    let says = "last pass 1970-01-01T00:01:40Z, 20778 d ago, when the clock was behind";
    assert_contains(&status, says);
    assert_eq!(pass(&env, SLOT), ["7"]);
    let status = env.run_at(SLOT, "status").success().stdout;
    assert_lacks(&status, "behind");
    // Nor is it behind one whose clock was ahead.
    pass(&env, 4_000_000_000);
    pass(&env, SLOT + 5 * MINUTE);
    assert_lacks(&env.run_at(SLOT + 5 * MINUTE, "status").success().stdout, "behind");
}
