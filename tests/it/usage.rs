//! Mistakes of whoever writes a command line or backlog.toml: each is told for what it is, before
//! anything is done.

use crate::testenv::*;

#[test]
fn an_empty_command_is_told_before_the_first_record() {
    let env = one_record();
    let says = &["the command is empty"];
    env.pass("--ndays 1 -- ''").fails(2, says);
    env.pass("--ndays 1 -- '' x").fails(2, says);
    env.pass("--ndays 1 --stream -- ''").fails(2, says);
    for command in ["''", "'' x"] {
        let ran = env.pass(&format!("--ndays 1 --on-archive {} -- true", quoted(command)));
        ran.fails(2, &["--on-archive", "the command is empty"]);
    }
    for config in ["exec = ['']", "exec = ['']\nstream = true", "exec_on_archive = ['', 'x']"] {
        env.write("backlog.toml", format!("[defaults]\n{config}\n"));
        let ran = env.pass("--ndays 1");
        ran.fails(2, &["backlog.toml: queue default: exec", "the command is empty"]);
    }
    assert_eq!(env.count("NEW"), 1);
}

#[test]
fn a_command_in_quotes_is_told_for_what_it_is() {
    let env = one_record();
    env.script("sync-order", "true");
    for command in ["./sync-order --id {id}", "./sync-order --all", "sync-order --all"] {
        for options in ["", "--stream"] {
            let exit = if command.contains("{id}") && options.is_empty() { 2 } else { 1 };
            let says = format!(
                "`{command}` is a single argument, and no such program exists; remove the quotes"
            );
            let handler = quoted(command);
            let ran = env.pass(&format!("--ndays 1 {options} -- {handler}")).fails(exit, &[&says]);
            assert_lacks(&ran.stderr, "could not run");
            let found = env.run(&format!("check -- {handler}"));
            assert_contains(&found.stdout, &says);
        }
    }
    // A file may be called like that.
    env.script("sync order", "true");
    env.pass("--ndays 1 -- './sync order'").silent();
}

#[test]
fn a_script_that_cannot_be_run_is_told_by_its_first_line() {
    let env = one_record();
    let script = env.script("script", "");
    for (text, exit, says) in [
        ("#!/no/such/python\n", "could not run", "its interpreter /no/such/python does not exist"),
        (
            "#!/bin/sh\r\ntrue\r\n",
            "could not run",
            "its first line ends with a carriage return: save it with Unix line endings",
        ),
        ("#!/usr/bin/env nopython\n", "exited with 127", "its interpreter nopython is not in PATH"),
        ("#!/bin/sh\n", "", ""),
    ] {
        std::fs::write(&script, text).unwrap();
        let found = env.run(&format!("check -- {script}")).stdout;
        if says.is_empty() {
            assert_lacks(&found, "cannot be run");
            env.pass(&format!("--ndays 1 -- {script}")).silent();
            continue;
        }
        assert_contains(&found, &format!("{script} cannot be run: {says}"));
        assert_lacks(
            &env.pass(&format!("--ndays 1 -- {script}")).fails(1, &[exit, says]).stderr,
            "in PATH,",
        );
        if exit == "could not run" {
            env.pass(&format!("--ndays 1 --stream -- {script}")).fails(1, &[exit, says]);
        }
        assert_eq!(env.count("NEW"), 1);
    }
}

#[test]
fn a_handler_without_the_two_hyphens_is_told_where_it_stands() {
    let env = one_record();
    for args in [
        "process --ndays 1 ./sync-order",
        "process --ndays 1 ./sync-order --id {id}",
        "check ./sync-order",
    ] {
        env.run(args).fails(
            2,
            &[
                "unexpected argument './sync-order'",
                "put `--` before the handler (a database is given with --db): -- ./sync-order\n",
            ],
        );
    }
    let secret = "process --db postgres://u:S3kr1t@h/d ./sync-order";
    let ran = env.run(secret).fails(2, &["(a database is given with --db): -- ./sync-order\n"]);
    assert_lacks(&ran.stderr, "S3kr1t");
    let args = ["process", "--frobnicate", "--", "sh", "./sync-order"];
    env.run(&args).fails(2, &["unexpected argument '--frobnicate'"]);
}

#[test]
fn an_option_after_the_two_hyphens_is_told_to_belong_to_the_handler() {
    let env = one_record();
    let after = |name: &str| {
        format!("; --{name} comes after `--`, so it belongs to the handler: write it before `--`\n")
    };
    env.run("process -- ./sync --ndays 1").fails(2, &["no schedule: ", &after("ndays")]);
    env.run("process -- ./sync --policy=even").fails(2, &["no schedule: ", &after("policy")]);
    without_database(&env, "process --ndays 1 -- ./sync --db test.db")
        .fails(2, &["no database: ", &after("db")]);
    // A handler has options of its own.
    let ran = env.run("process -- ./sync --jobs 2 even").fails(2, &["no schedule"]);
    assert_lacks(&ran.stderr, "comes after");
}

#[test]
fn words_of_other_programs_are_told_with_the_word_that_is_meant() {
    let env = one_record();
    let pass = "process --ndays 1";
    for (args, meant) in [
        (&*format!("{pass} --max-retries 3"), "argument exists: '--max-attempts'"),
        (&format!("{pass} --retries=3"), "argument exists: '--max-attempts'"),
        (&format!("{pass} --concurrency 4"), "argument exists: '--jobs'"),
        (&format!("{pass} --workers 4"), "argument exists: '--jobs'"),
        (&format!("{pass} --limit 4"), "argument exists: '--max-records'"),
        ("run --ndays 1", "subcommand exists: 'process'"),
        ("inspect 7", "subcommand exists: 'show'"),
        ("logs", "subcommand exists: 'status'"),
        ("delete 7", "subcommand exists: 'archive'"),
        ("ls", "subcommand exists: 'list'"),
        ("list --status FAILED", "value exists: 'ERROR'"),
        ("list --status dead", "value exists: 'ARCHIVED'"),
        ("stats", "subcommand exists: 'status'"),
        ("unpause", "subcommand exists: 'resume'"),
        ("procss", "subcommand exists: 'process'"),
        (&format!("{pass} --max-tries 3"), "argument exists: '--max-attempts'"),
        (&format!("{pass} --attempts 3"), "argument exists: '--max-attempts'"),
    ] {
        let ran = env.run(args).fails(2, &[&format!("tip: a similar {meant}")]);
        assert_eq!(ran.stderr.matches("tip:").count(), 1, "{}", ran.stderr);
    }
    // No tip is better than one that leads astray.
    for word in ["--delay", "--retry", "--since", "purge", "get", "clear", "daemon", "dead"] {
        let args = if word.starts_with('-') { &format!("{pass} {word}") } else { word };
        let ran = env.run(args).fails(2, &[&format!("'{word}'")]);
        assert!(!ran.stderr.contains("tip:") && !ran.stderr.contains("--queue"), "{}", ran.stderr);
    }
    let explain = "explain --progressive 1";
    env.run(explain).fails(2, &["invalid value '1'", "write ids before --progressive"]);
    // Not where the command has no such option.
    let ran = env.run("status --workers 4").fails(2, &["unexpected argument '--workers'"]);
    assert_lacks(&ran.stderr, "--jobs");
}

#[test]
fn a_column_that_is_misspelt_is_told_before_it_goes_out() {
    let env = one_record();
    let says = "{PAYLOD} is not a column; use one of ID, ";
    env.pass("--ndays 1 -- ./sync {idd}").fails(2, &["{idd} is not a column; use one of ID, "]);
    let handler = "./sync --to={id} --body={PAYLOD}";
    env.pass(&format!("--ndays 1 -- {handler}")).fails(2, &[says]);
    env.pass(&format!("--ndays 1 --dry-run -- {handler}")).fails(2, &[says]);
    env.pass("--ndays 1 --on-archive './tell {Statsu}' -- true")
        .fails(2, &["--on-archive: {Statsu} is not a column; use one of ID, "]);
    let found = env.run(&format!("check -- {handler}")).stdout;
    assert_contains(&found, says);
    env.run(&format!("crontab -- {handler}")).fails(2, &[says]);
    // What resembles nothing is awk's or jq's, and what is behind a dollar sign the shell's.
    let script = env.script("as-it-is", "[ \"$*\" = '{ids} { print $1 } ${PAYLOD} {} {x}' ]");
    env.pass(&format!("--ndays 1 -- {script} '{{ids}} {{ print $1 }} ${{PAYLOD}} {{}} {{x}}'"))
        .silent();
    assert_eq!(env.count("SUCCESS"), 1);
}

#[test]
fn a_condition_that_is_not_finished_is_told_in_the_users_words() {
    let env = one_record();
    for (condition, says) in [
        ("ID > ", "`ID > ` is not a condition: it ends too early"),
        ("ID IN (7", "`ID IN (7` is not a condition: it ends too early"),
        ("ID = 7 AND", "`ID = 7 AND` is not a condition: it ends too early"),
        (
            "STATUS = 'NEW",
            "`STATUS = 'NEW` is not a condition: a quote or comment in it is not closed",
        ),
        ("ID > 1 /* or", "`ID > 1 /* or` is not a condition: "),
        ("ID >> > 7", "is not a condition in SQL: near \">\""),
    ] {
        let ran = env.run(&format!("list --where {}", quoted(condition))).fails(1, &[says]);
        assert_lacks(&ran.stderr, "THEN");
        env.run(&format!("process --ndays 1 --where {} -- true", quoted(condition)))
            .fails(1, &[says]);
    }
}

#[test]
fn a_record_is_told_of_also_where_no_schedule_is() {
    let env = one_record();
    let unknown = "  schedule unknown: use one of --ndays, --fibonacci, --policy, --progressive, or set it \
                   in backlog.toml\n";
    let explained = env.run_at(MIDNIGHT, "explain 7").success().stdout;
    let record = "record 7: NEW, inserted 2026-11-20T23:59:00Z, 0 attempts failed\n";
    assert_eq!(explained, format!("{record}{unknown}"));
    env.sql("UPDATE BACKLOG SET STATUS = 'ARCHIVED'");
    let explained = env.run_at(MIDNIGHT, "explain 7").success().stdout;
    let now = "  now         not tried: is ARCHIVED\n";
    let back = "  way back    backlog restore 7\n";
    assert!(explained.ends_with(&format!("{now}{unknown}{back}")), "{explained}");
    let ran = env.run("explain 8");
    assert_eq!((ran.exit, &*ran.stdout), (Some(1), "8: no such record\n"));
}

#[test]
fn a_queue_that_nothing_is_said_of_is_only_a_name() {
    let env = one_record();
    let says = |options: &str, variables: &[(&str, &str)]| {
        let mut command = env.command(&format!("list -v {options}"));
        command.envs(variables.iter().copied()).ran().success().stderr
    };
    let warning =
        "backlog: warning: no backlog.toml found: --queue \"mails\" selects no settings\n";
    assert_eq!(says("--queue mails", &[]), warning);
    assert_eq!(says("", &[("BACKLOG_QUEUE", "mails")]), warning);
    assert_eq!(says("", &[]), "");
    let limit = [("MAX_MAILS_RETRY_ATTEMPTS", "3")];
    env.run("init --queue mails --db other.db").success();
    assert_eq!(env.run("list --queue mails").success().stderr, "", "cron is not told");
    let process = "process --fibonacci --queue mails -v --dry-run -- true";
    assert_eq!(env.command(process).envs(limit).ran().success().stderr, "");
    env.write("backlog.toml", "[queue.mails]\n");
    assert!(!says("--queue mails", &[]).contains("selects no settings"));
}

/// The program in an environment without BACKLOG_DB.
fn without_database(env: &TestEnv, args: &str) -> Ran {
    env.command(args).env_remove("BACKLOG_DB").ran()
}

#[test]
fn all_that_is_missing_is_told_at_once() {
    let env = one_record();
    let database = "no database: use --db FILE or --db postgres://..., BACKLOG_DB or backlog.toml";
    let handler = "no handler: write the command after `--`, or as exec in backlog.toml, or use \
                   --post URL";
    let schedule = "no schedule: use one of --ndays, --fibonacci, --policy, --progressive";
    let says = |ran: Ran, missing: &[&str]| {
        assert_eq!(ran.exits(2).stderr, format!("backlog: {}\n", missing.join("; ")));
    };
    let process = |args: &str| without_database(&env, &format!("process {args}"));
    says(process(""), &[database, handler, schedule]);
    says(process("--dry-run"), &[database, schedule]);
    says(process("--ndays 1"), &[database, handler]);
    says(process("-- true"), &[database, schedule]);
    says(env.run("process"), &[handler, schedule]);
    says(env.run("process --ndays 1"), &[handler]);
    says(env.run("process -- true"), &[schedule]);
    says(without_database(&env, "status"), &[database]);
    // A wrong option goes first.
    let ran = env.command("process --ndays 1").envs([("BACKLOG_JOBS", "four")]).ran();
    ran.fails(2, &["BACKLOG_JOBS=four: write a whole number from 1 to 1,024\n"]);
}

#[test]
fn a_database_that_is_not_there_is_told_with_the_command_that_creates_one() {
    let env = one_record();
    let status = |db: &str| env.run(&format!("status --db {db}")).exits(1).stderr;
    let says = "backlog: no database at other.db; `backlog init --db other.db` creates one\n";
    assert_eq!(status("other.db"), says);
    let missing = "the directory no/such does not exist\n";
    assert_eq!(status("no/such/a.db"), format!("backlog: no database at no/such/a.db: {missing}"));
    let ran = env.run("init --db no/such/a.db").exits(1);
    assert_eq!(ran.stderr, format!("backlog: could not create no/such/a.db: {missing}"));
}

#[test]
fn what_is_chosen_twice_in_one_place_is_told() {
    let env = one_record();
    let variables = [("BACKLOG_NDAYS", "1"), ("BACKLOG_POLICY", "even")];
    let twice = env.command("status").envs(variables).ran();
    twice.fails(2, &["--ndays and --policy are two schedules: choose one\n"]);
    let file = "[queue.a]\nndays = 1\nexec = ['true']\npost = 'http://localhost/'\n";
    env.write("backlog.toml", file);
    env.run("process").fails(2, &["exec and post are two handlers: choose one\n"]);
}

#[test]
fn a_database_of_another_kind_is_told_to_be_none_of_ours() {
    let env = TestEnv::empty();
    let says = "--db must be the path of a SQLite file, without a scheme, or \
                postgres://user@host:port/database\n";
    for url in [
        "mysql://root:S3kr1t@h/d",
        "MariaDB+pymysql://S3kr1t@h/d",
        "sqlite:///S3kr1t.db",
        "file:S3kr1t.db",
        "odd://S3kr1t@h/d",
        "host=h password=S3kr1t",
        "pg:u:S3kr1t@h",
    ] {
        let ran = env.run(&format!("status --db {}", quoted(url))).fails(2, &[says]);
        assert_lacks(&ran.stderr, "S3kr1t");
    }
    let says = "--db names a server, not a file: write it as postgres://";
    env.run("init 127.0.0.1:5432/app").fails(2, &[&format!("{says}127.0.0.1:5432/app\n")]);
    let secret = env.run("status u:S3kr1t@db.example:5432/app");
    secret.fails(2, &[&format!("{says}u@db.example:5432/app\n")]);
    std::fs::create_dir(env.path("a:1")).unwrap();
    env.run("init a:1/app.db").success();
    let refused = env.run("list --db postgres://u@127.0.0.1:1/d");
    let says = "connection refused; is PostgreSQL running there, and are host and port correct?";
    refused.fails(75, &[says]);
}
