//! The program without servers and webhooks: `cargo test --no-default-features --test smallest`.
#![cfg(not(any(feature = "postgres", feature = "webhook")))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::Command;

/// Runs the program in this directory: its exit code, standard output and standard error.
fn backlog(directory: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_backlog"));
    let run = command.current_dir(directory).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (run.status.code(), text(run.stdout), text(run.stderr))
}

#[test]
fn a_table_is_worked_off_and_what_was_left_out_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| backlog(dir.path(), args);
    assert_eq!(run(&["--db", "a.db", "init"]).0, Some(0));
    assert_eq!(run(&["--db", "a.db", "add", "{}", "[]"]).0, Some(0));
    let handler = ["--", "sh", "-c", "[ \"$BACKLOG_ID\" = 1 ]"];
    let (exit, _, error) =
        run(&[&["--db", "a.db", "process", "--fibonacci"], &handler[..]].concat());
    assert_eq!(exit, Some(0), "{error}");
    let (_, list, _) = run(&["--db", "a.db", "list", "--order", "oldest"]);
    let lines: Vec<_> = list.lines().collect();
    assert!(lines[1].contains("SUCCESS") && lines[2].contains("ERROR"), "{list}");

    let (exit, _, error) = run(&["--db", "postgres://u:S3krit@h/d", "status"]);
    assert_eq!(exit, Some(2));
    assert!(error.contains("built without PostgreSQL") && !error.contains("S3krit"), "{error}");
    let post = ["--db", "a.db", "process", "--fibonacci", "--post", "http://localhost/"];
    let (exit, _, error) = run(&post);
    assert_eq!(exit, Some(2));
    assert!(error.contains("built without webhooks"), "{error}");
}
