//! Mistakes of whoever writes a command line or backlog.toml: each is told for what it is, before
//! anything is done.

use crate::testenv::{MIDNIGHT, Ran, TestEnv, ran};

fn one_record() -> TestEnv {
    let env = TestEnv::new();
    env.insert_one(7, MIDNIGHT - 60);
    env
}

/// A pass with a handler, at an instant at which the record is due.
fn pass(env: &TestEnv, options: &[&str], handler: &[&str]) -> Ran {
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
        ran.fails(2, &["--on-archive", "the command is empty"]);
    }
    for config in ["exec = ['']", "exec = ['']\nstream = true", "exec_on_archive = ['', 'x']"] {
        std::fs::write(env.path("backlog.toml"), format!("[defaults]\n{config}\n")).unwrap();
        let ran = env.run_at(MIDNIGHT, &["process", "--ndays", "1"]);
        ran.fails(2, &["backlog.toml: queue default: exec", "the command is empty"]);
    }
    assert_eq!(env.count("NEW"), 1);
}

#[test]
fn a_command_in_quotes_is_told_for_what_it_is() {
    let env = one_record();
    env.script("sync-order", "true");
    for command in ["./sync-order --id {id}", "./sync-order --all", "sync-order --all"] {
        for options in [&[][..], &["--stream"]] {
            let exit = if command.contains("{id}") && options.is_empty() { 2 } else { 1 };
            let says = format!(
                "`{command}` is one word, looked for as a file of that name: leave out the quotes"
            );
            let ran = pass(&env, options, &[command]).fails(exit, &[&says]);
            assert!(!ran.stderr.contains("could not run"), "{}", ran.stderr);
            let found = env.run(&["check", "--", command]);
            assert!(found.stdout.contains(&says), "{}", found.stdout);
        }
    }
    // A file may be called like that.
    env.script("sync order", "true");
    pass(&env, &[], &["./sync order"]).silent();
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
            "its first line ends with a carriage return: save it with Unix line ends",
        ),
        ("#!/usr/bin/env nopython\n", "exited with 127", "its interpreter nopython is not in PATH"),
        ("#!/bin/sh\n", "", ""),
    ] {
        std::fs::write(&script, text).unwrap();
        let found = env.run(&["check", "--", &script]).stdout;
        if says.is_empty() {
            assert!(!found.contains("cannot be run"), "{found}");
            pass(&env, &[], &[&script]).silent();
            continue;
        }
        assert!(found.contains(&format!("{script} cannot be run: {says}")), "{found}");
        let ran = pass(&env, &[], &[&script]).fails(1, &[exit, says]);
        assert!(!ran.stderr.contains("in PATH,"), "{}", ran.stderr);
        if exit == "could not run" {
            pass(&env, &["--stream"], &[&script]).fails(1, &[exit, says]);
        }
        assert_eq!(env.count("NEW"), 1);
    }
}

#[test]
fn a_handler_without_the_two_hyphens_is_told_where_it_stands() {
    let env = one_record();
    let says = |ran: Ran, says: &str| {
        let says = format!("the handler stands behind `--`: ... {says}\n");
        ran.fails(2, &["unexpected argument './sync-order'", &says])
    };
    let ndays = ["process", "--ndays", "1", "./sync-order"];
    says(env.run(&ndays), "--ndays 1 -- ./sync-order");
    says(env.run(&[&ndays[..], &["--id", "{id}"]].concat()), "--ndays 1 -- ./sync-order");
    let secret = ["process", "--db", "postgres://u:S3kr1t@h/d", "./sync-order"];
    let ran = says(env.run(&secret), "-- ./sync-order");
    assert!(!ran.stderr.contains("S3kr1t"), "{}", ran.stderr);
    says(env.run(&["check", "./sync-order"]), "-- ./sync-order");
    // Elsewhere there is no handler, or it is there already.
    for args in [&["status", "./x"][..], &["process", "./x", "--ndays", "1", "--", "true"]] {
        let ran = env.run(args).fails(2, &["unexpected argument './x' found"]);
        assert!(!ran.stderr.contains("the handler stands"), "{}", ran.stderr);
    }
}

#[test]
fn a_column_that_is_misspelt_is_told_before_it_goes_out() {
    let env = one_record();
    let says = "{PAYLOD} is no column; did you mean {PAYLOAD}?";
    pass(&env, &[], &["./sync", "{idd}"]).fails(2, &["{idd} is no column; did you mean {ID}?"]);
    let handler = ["./sync", "--to={id}", "--body={PAYLOD}"];
    pass(&env, &[], &handler).fails(2, &[says]);
    pass(&env, &["--dry-run"], &handler).fails(2, &[says]);
    let on_archive = ["--on-archive", "./tell {Statsu}"];
    pass(&env, &on_archive, &["true"])
        .fails(2, &["--on-archive: {Statsu} is no column; did you mean {STATUS}?"]);
    let found = env.run(&[&["check", "--"], &handler[..]].concat()).stdout;
    assert!(found.contains(says), "{found}");
    env.run(&[&["crontab", "--"], &handler[..]].concat()).fails(2, &[says]);
    // What resembles nothing is awk's or jq's, and what is behind a dollar sign the shell's.
    let script = "[ \"$*\" = '{ids} { print $1 } ${PAYLOD} {} {x}' ]";
    let script = env.script("as-it-is", script);
    pass(&env, &[], &[&script, "{ids} { print $1 } ${PAYLOD} {} {x}"]).silent();
    assert_eq!(env.count("SUCCESS"), 1);
}

#[test]
fn a_condition_that_is_not_finished_is_told_in_the_users_words() {
    let env = one_record();
    for (condition, says) in [
        ("ID > ", "`ID > ` is no condition: it ends too early"),
        ("ID IN (7", "`ID IN (7` is no condition: it ends too early"),
        ("ID = 7 AND", "`ID = 7 AND` is no condition: it ends too early"),
        (
            "STATUS = 'NEW",
            "`STATUS = 'NEW` is no condition: a quote or comment in it is not closed",
        ),
        ("ID > 1 /* or", "`ID > 1 /* or` is no condition: "),
        ("ID >> > 7", "is no condition in SQL: near \">\""),
    ] {
        let ran = env.run(&["list", "--where", condition]).fails(1, &[says]);
        assert!(!ran.stderr.contains("THEN"), "{}", ran.stderr);
        env.run(&["process", "--ndays", "1", "--where", condition, "--", "true"]).fails(1, &[says]);
    }
}

#[test]
fn a_record_is_told_of_also_where_no_schedule_is() {
    let env = one_record();
    let unknown = "  schedule unknown: use one of --ndays, --fibonacci, --policy, --progressive, or say it \
                   in backlog.toml\n";
    let explained = env.run_at(MIDNIGHT, &["explain", "7"]).success().stdout;
    let record = "record 7: NEW, inserted 2026-11-20T23:59:00Z, 0 attempts failed\n";
    assert_eq!(explained, format!("{record}{unknown}"));
    env.sql("UPDATE BACKLOG SET STATUS = 'ARCHIVED'");
    let explained = env.run_at(MIDNIGHT, &["explain", "7"]).success().stdout;
    let now = "  now         not tried: is ARCHIVED; `backlog restore` brings it back\n";
    assert!(explained.ends_with(&format!("{now}{unknown}")), "{explained}");
    let ran = env.run(&["explain", "8"]);
    assert_eq!((ran.exit, &*ran.stdout), (Some(1), "8: no such record\n"));
}

#[test]
fn a_queue_that_nothing_is_said_of_is_only_a_name() {
    let env = one_record();
    let says = |options: &[&str], variables: &[(&str, &str)]| {
        let mut command = env.command(&[&["list", "-v"], options].concat());
        ran(&command.envs(variables.iter().copied()).output().unwrap()).success().stderr
    };
    let warning = "backlog: warning: no backlog.toml, \"mails\" is only a name\n";
    assert_eq!(says(&["--queue", "mails"], &[]), warning);
    assert_eq!(says(&[], &[("BACKLOG_QUEUE", "mails")]), warning);
    assert_eq!(says(&[], &[]), "");
    let limit = [("MAX_MAILS_RETRY_ATTEMPTS", "3")];
    env.run(&["init", "--queue", "mails", "--db", "other.db"]).success();
    assert_eq!(env.run(&["list", "--queue", "mails"]).success().stderr, "", "cron is not told");
    let process = ["process", "--fibonacci", "--queue", "mails", "-v", "--dry-run", "--", "true"];
    let ran = ran(&env.command(&process).envs(limit).output().unwrap());
    assert_eq!(ran.success().stderr, "");
    std::fs::write(env.path("backlog.toml"), "[queue.mails]\n").unwrap();
    assert!(!says(&["--queue", "mails"], &[]).contains("is only a name"));
}

/// The program in an environment without BACKLOG_DB.
fn without_database(env: &TestEnv, args: &[&str]) -> Ran {
    ran(&env.command(args).env_remove("BACKLOG_DB").output().unwrap())
}

#[test]
fn all_that_is_missing_is_told_at_once() {
    let env = one_record();
    let database = "no database: use --db FILE or --db postgres://..., BACKLOG_DB or backlog.toml";
    let handler = "no handler: write the command behind `--`, or as exec into backlog.toml, or use \
                   --post URL";
    let schedule = "no schedule: use one of --ndays, --fibonacci, --policy, --progressive";
    let says = |ran: Ran, missing: &[&str]| {
        assert_eq!(ran.fails(2, &[]).stderr, format!("backlog: {}\n", missing.join("; ")));
    };
    let process = |args: &[&str]| without_database(&env, &[&["process"], args].concat());
    says(process(&[]), &[database, handler, schedule]);
    says(process(&["--dry-run"]), &[database, schedule]);
    says(process(&["--ndays", "1"]), &[database, handler]);
    says(process(&["--", "true"]), &[database, schedule]);
    says(env.run(&["process"]), &[handler, schedule]);
    says(env.run(&["process", "--ndays", "1"]), &[handler]);
    says(env.run(&["process", "--", "true"]), &[schedule]);
    says(without_database(&env, &["status"]), &[database]);
    // What is said wrong goes first.
    let wrong = [("BACKLOG_JOBS", "four")];
    let ran = ran(&env.command(&["process", "--ndays", "1"]).envs(wrong).output().unwrap());
    ran.fails(2, &["BACKLOG_JOBS = \"four\": write a whole number from 1 to 1,024\n"]);
}

#[test]
fn a_database_that_is_not_there_is_told_with_what_makes_one() {
    let env = one_record();
    let status = |db: &str| env.run(&["status", "--db", db]).fails(1, &[]).stderr;
    let says = "backlog: no database at other.db; `backlog init --db other.db` creates one\n";
    assert_eq!(status("other.db"), says);
    let missing = "the directory no/such does not exist\n";
    assert_eq!(status("no/such/a.db"), format!("backlog: no database at no/such/a.db: {missing}"));
    let ran = env.run(&["init", "--db", "no/such/a.db"]).fails(1, &[]);
    assert_eq!(ran.stderr, format!("backlog: could not create no/such/a.db: {missing}"));
}

#[test]
fn a_database_of_another_kind_is_told_to_be_none_of_ours() {
    let env = TestEnv::empty();
    for (url, says) in [
        ("mysql://root:S3kr1t@h/d", "a database of MySQL is not supported"),
        ("MariaDB+pymysql://S3kr1t@h/d", "a database of MariaDB is not supported"),
        ("mongodb+srv://S3kr1t@h/d", "a database of MongoDB is not supported"),
        ("sqlite:///S3kr1t.db", "named by its path alone, without a scheme"),
        ("file:S3kr1t.db", "named by its path alone, without a scheme"),
        ("odd://S3kr1t@h/d", "looks like a connection string, but is no URL"),
    ] {
        let ran = env.run(&["status", "--db", url]).fails(2, &[says]);
        assert!(!ran.stderr.contains("S3kr1t"), "{}", ran.stderr);
    }
}

#[test]
fn an_error_about_a_table_says_that_the_file_names_another_database() {
    let env = one_record();
    let config = |text: &str| std::fs::write(env.path("backlog.toml"), text).unwrap();
    config("[defaults]\ndb = 'other.db'\ntable = 'mails'\n");
    let names = format!(
        "backlog: BACKLOG_DB names {}, {} names {}: could not use ",
        env.db().display(),
        env.path("backlog.toml").display(),
        env.path("other.db").display()
    );
    let ran =
        env.run(&["status"]).fails(1, &[&names, ": no table \"mails\"; tables here: BACKLOG"]);
    assert!(ran.stderr.starts_with(&names), "{}", ran.stderr);
    let typed = env.run(&["status", "--db", "test.db"]).fails(1, &["no table \"mails\""]);
    assert!(!typed.stderr.contains("BACKLOG_DB"), "{}", typed.stderr);
    config("[defaults]\ndb = 'test.db'\ntable = 'mails'\n");
    let same = env.run(&["status"]).fails(1, &["no table \"mails\""]);
    assert!(!same.stderr.contains("BACKLOG_DB"), "{}", same.stderr);
    let url = "postgres://u@127.0.0.1:1/d";
    config(&format!("[defaults]\ndb = '{url}'\n"));
    let same =
        crate::testenv::ran(&env.command(&["status"]).env("BACKLOG_DB", url).output().unwrap());
    assert!(!same.fails(75, &[]).stderr.contains("BACKLOG_DB"));
    for db in ["host=h password=S3kr1t", "pg:u:S3kr1t@h"] {
        config(&format!("[defaults]\ndb = '{db}'\ntable = 'mails'\n"));
        let ran = env.run(&["status"]).fails(1, &["names another one: "]);
        assert!(!ran.stderr.contains("S3kr1t"), "{}", ran.stderr);
    }
    config("[defaults]\ndb = 'postgres://u:S3kr1t@h/d'\ntable = 'mails'\n");
    let ran = env.run(&["status"]).fails(1, &["names postgres://"]);
    assert!(!ran.stderr.contains("S3kr1t"), "{}", ran.stderr);
}
