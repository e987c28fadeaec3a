//! Passes that are stopped and killed.

use super::*;
use std::collections::HashMap;
use std::fs;
use std::process::Child;

#[test]
fn a_stopped_pass_takes_the_answers_that_come_within_the_grace() {
    for (name, exit) in [("-TERM", 143), ("-INT", 130)] {
        let env = midnight_records(6);
        let handler = python(
            &env,
            r#"
for _ in range(3): read()
note("began")
if sys.stdin.readline(): sys.exit("more records after the stop")
answer(6)
answer(4, "failure", error="no")
note("asked")
"#,
        );
        let child = begin(&env, "--fibonacci --window 3 --grace 1h", &format!("python3 {handler}"));
        wait_until("the handler begins", exists(&env.path("began")));
        assert!(signal(name, child.id()));
        child.ran().exits(exit);
        assert!(env.path("asked").exists());
        let untouched = "1|NEW|0|\n2|NEW|0|\n3|NEW|0|";
        assert_eq!(rows(&env), format!("{untouched}\n4|ERROR|1|no\n5|NEW|0|\n6|SUCCESS|0|"));
        assert_eq!(env.query("SELECT LAST_FAILURE FROM BACKLOG WHERE ID = 5"), "");
    }
}

#[test]
fn a_stopped_pass_kills_a_stubborn_handler_and_leaves_its_records_untouched() {
    let env = midnight_records(3);
    let child = begin(
        &env,
        "--fibonacci --grace 0s",
        r#"sh -c "trap '' TERM; echo $$ >pid.new; mv pid.new pid; sleep 1000; sleep 1000""#,
    );
    wait_until("the handler begins", exists(&env.path("pid")));
    assert!(signal("-TERM", child.id()));
    child.ran().exits(143);
    assert_eq!(rows(&env), "1|NEW|0|\n2|NEW|0|\n3|NEW|0|");
    assert_eq!(env.query("SELECT count(LAST_FAILURE) FROM BACKLOG"), "0");
    let pid = env.read("pid");
    assert!(!env.path(&format!("/proc/{}", pid.trim())).exists(), "the handler is left");
}

#[test]
fn a_stopped_pass_hands_out_no_part_of_a_record() {
    let env = midnight_records(2);
    env.sql("UPDATE BACKLOG SET PAYLOAD = json_quote(printf('%.*c', 1000000, 'x'))");
    // Of a record that is longer than a pipe holds, a part is sent when the pass is stopped. To a
    // handler that looks for the id only, that part is a record.
    let handler = python(
        &env,
        r#"
note("began")
while not os.path.exists("go"): time.sleep(0.005)
for line in sys.stdin:
    note("ends", line.endswith("}\n"))
"#,
    );
    let args = format!("process --now @{MIDNIGHT} --fibonacci --stream --grace 1h -v --");
    let mut child = env.spawn_logging(&format!("{args} python3 {handler}"));
    wait_until("the handler begins", exists(&env.path("began")));
    assert!(signal("-TERM", child.id()));
    env.logs("stopping on signal");
    env.write("go", "");
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(!lines(&env, "ends").contains(&"False".into()), "a part of a record was handed out");
    assert_eq!(rows(&env), "1|NEW|0|\n2|NEW|0|");
}

#[test]
fn a_process_that_stays_after_the_end_of_its_input_is_ended() {
    let env = midnight_records(3);
    let stays = format!("{}; touch asked; sleep 1000", EXEC_SUCCEEDS.trim_start_matches("exec "));
    pass(&env, "--ndays 1 --grace 0s", &sh(&stays).to_string()).silent();
    assert_eq!(env.count("SUCCESS"), 3);
}

#[test]
fn a_signal_counts_also_while_the_handler_is_waited_for() {
    let env = midnight_records(1);
    let stays = "trap '' TERM\nsed -un 's/^{\"ID\":\\([0-9]*\\),.*/{\"id\":\\1,\"outcome\":\"success\"}/p'\n\
                 touch asked; sleep 1000";
    let mut pass = begin(&env, "--ndays 1 --grace 1h", &sh(stays).to_string());
    wait_until("its input is closed", exists(&env.path("asked")));
    assert_eq!(env.count("SUCCESS"), 1);
    assert!(signal("-TERM", pass.id()));
    assert!(signal("-INT", pass.id()));
    assert!(matches!(pass.wait().unwrap().code(), Some(130 | 143)));
}

#[test]
fn a_second_signal_leaves_no_more_grace() {
    let env = midnight_records(2);
    let handler = "touch began; trap '' TERM; sleep 1000; sleep 1000";
    let args = format!("process --now @{MIDNIGHT} --fibonacci --stream --grace 1h -v --");
    let mut child = env.spawn_logging(&format!("{args} {}", sh(handler)));
    wait_until("the handler begins", exists(&env.path("began")));
    assert!(signal("-TERM", child.id()));
    env.logs("stopping on signal");
    assert!(signal("-INT", child.id()));
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(rows(&env), "1|NEW|0|\n2|NEW|0|");
}

#[test]
fn the_end_of_the_runtime_leaves_what_is_unanswered_untouched() {
    patiently(|runtime| {
        let env = midnight_records(3);
        let handler = format!(
            "read -r hello; head -n 1 | {}; touch answered; sleep 1000",
            EXEC_SUCCEEDS.trim_start_matches("exec ")
        );
        let options = format!("--fibonacci --max-runtime {runtime} --grace 0s");
        let ran = pass(&env, &options, &sh(&handler).to_string());
        if !env.path("answered").exists() || env.count("SUCCESS") == 0 {
            return false;
        }
        ran.silent();
        assert_eq!(rows(&env), "1|NEW|0|\n2|NEW|0|\n3|SUCCESS|0|");
        true
    });
}

/// The co-processes of a pass that have begun to run.
fn co_processes(pass: &Child) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    // Other processes come and go meanwhile.
    let mine = processes.filter(|process| {
        let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let status = fs::read_to_string(process.path().join("status")).unwrap_or_default();
        command.starts_with(b"python3\0") && status.contains(&format!("\nPPid:\t{}\n", pass.id()))
    });
    mine.filter_map(|process| process.file_name().to_str()?.parse().ok()).collect()
}

#[test]
fn kills_of_the_pass_and_of_its_handler_lose_nothing_and_repeat_little() {
    for mode in ["--ndays 1", "--fibonacci"] {
        let env = midnight_records(300);
        let handler = python(
            &env,
            r#"
for it in records():
    note("trace", "begin", it["ID"], os.getpid())
    time.sleep(0.001)
    note("trace", "end", it["ID"], os.getpid())
    answer(it["ID"])
"#,
        );
        let traced = || lines(&env, "trace").len();
        let mut kills = 0;
        for round in 0..15 {
            let options = format!("{mode} --window 8");
            let mut child = begin(&env, &options, &format!("python3 {handler}"));
            // Points all over the life of a pass, its start included.
            let go_on = |child: &mut Child, lines| {
                let goal = traced() + lines;
                let what = "the pass gets on";
                wait_until(what, || traced() >= goal || child.try_wait().unwrap().is_some());
            };
            go_on(&mut child, round * 7 % 31);
            if round % 3 != 0 {
                for pid in co_processes(&child) {
                    // It may have come to its end by itself.
                    kills += usize::from(signal("-KILL", pid));
                }
            }
            if round % 3 == 1 {
                go_on(&mut child, 6);
            }
            child.kill().unwrap();
            child.wait().unwrap();
            kills += 1;
        }
        // Records that a kill has failed are due again an hour later.
        let drain = format!("process --now @{} --drain --stream", MIDNIGHT + 60 * MINUTE);
        env.run(&format!("{drain} {mode} -- python3 {handler}")).silent();
        assert_eq!(env.count("SUCCESS"), 300, "{mode:?}");

        let mut runs: HashMap<String, Vec<String>> = HashMap::new();
        for line in lines(&env, "trace") {
            let [what, id, pid] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let runs = runs.entry(id.into()).or_default();
            if what == "begin" {
                runs.push(pid.into());
            } else {
                let last = runs.last().unwrap();
                assert_eq!(last, pid, "record {id} was begun again before its run ended");
            }
        }
        assert_eq!(runs.len(), 300);
        let repeats: usize = runs.values().map(|runs| runs.len() - 1).sum();
        assert!(repeats <= 8 * kills, "{repeats} repeats for {kills} kills with a window of 8");
    }
}
