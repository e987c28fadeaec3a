//! Mistakes of whoever writes a command line or backlog.toml: each is told for what it is, before
//! anything is done.

use crate::testenv::{MIDNIGHT, TestEnv};

fn one_record() -> TestEnv {
    let env = TestEnv::new();
    env.insert_one(7, MIDNIGHT - 60);
    env
}

/// A pass with a handler, at an instant at which the record is due.
fn pass(env: &TestEnv, options: &[&str], handler: &[&str]) -> crate::testenv::Ran {
    let args = [&["process", "--ndays", "1"], options, &["--"], handler].concat();
    env.run_at(MIDNIGHT, &args)
}

#[test]
fn an_empty_command_is_told_before_the_first_record() {
    let env = one_record();
    let says = &["the command is empty"];
    pass(&env, &[], &[""]).fails(2, says);
    pass(&env, &[], &["", "x"]).fails(2, says);
    pass(&env, &["--stream"], &[""]).fails(2, says);
    for command in ["''", "'' x"] {
        let ran = pass(&env, &["--on-archive", command], &["true"]);
        ran.fails(2, &["--on-archive: the command is empty"]);
    }
    for config in ["exec = ['']", "exec = ['']\nstream = true", "exec_on_archive = ['', 'x']"] {
        std::fs::write(env.path("backlog.toml"), format!("[defaults]\n{config}\n")).unwrap();
        let ran = env.run_at(MIDNIGHT, &["process", "--ndays", "1"]);
        ran.fails(2, &["backlog.toml: defaults: exec", "the command is empty"]);
        pass(&env, &[], &["true"]).fails(2, &["the command is empty"]);
    }
    assert_eq!(env.count("NEW"), 1);
}
