//! Where a webhook is said, and what is found of it before a pass.

use super::*;
use std::process::Command;
use test_support::server::{Answer, Server};

/// A file that describes the default queue.
fn describe(env: &TestEnv, lines: &str) {
    let text = format!("[defaults]\nndays = 1\n{lines}\n");
    env.write("backlog.toml", text);
}

#[test]
fn a_webhook_may_stand_in_the_file() {
    let env = one_record();
    let (file, config) = trusted(&env, "127.0.0.1", "ca");
    assert!(file.ends_with("/ca.pem"));
    let server = Server::with_tls(&[("/7", Answer::new("404 No", &[], ""))], config);
    let url = server.url("/{ID}");
    describe(
        &env,
        &format!(
            "post = '{url}'\nheader = ['X-A: 1, 2', 'X-B: 3']\nca_file = 'ca.pem'\ngive_up_on = '4xx'"
        ),
    );
    let ran = env.run_at(MIDNIGHT, "process");
    assert_eq!((ran.exit, env.statuses().as_str()), (Some(1), "7|ARCHIVED"), "{ran:?}");
    let request = the_only(&server);
    assert_eq!(request.header("x-a"), Some("1, 2"));
    assert_eq!(request.header("x-b"), Some("3"));
}

#[test]
fn a_webhook_may_stand_in_the_environment() {
    let env = one_record();
    let server = serving(Answer::new("404 No", &[], ""));
    let mut command = env.command(&format!("process --ndays 1 --now @{MIDNIGHT}"));
    command.env("BACKLOG_POST", server.url("/")).env("BACKLOG_HEADER", "X-A: 1, 2\nX-B: 3");
    command.env("BACKLOG_GIVE_UP_ON", "4xx");
    command.ran().fails(1, &["given up"]);
    let request = the_only(&server);
    assert_eq!(request.header("x-a"), Some("1, 2"));
    assert_eq!(request.header("x-b"), Some("3"));
}

#[test]
fn a_webhook_that_is_typed_is_sent_the_headers_that_stand_elsewhere() {
    let server = serving(fine());
    let env = one_record();
    describe(&env, "exec = ['false']\nheader = 'X-Token: of the file'");
    env.pass(&format!("--post {}", server.url("/"))).silent();
    assert_eq!(the_only(&server).header("x-token"), Some("of the file"));
    let server = serving(fine());
    let env = one_record();
    let variables = [("BACKLOG_HEADER", "X-Token: of the environment")];
    pass_in(&env, &variables, &server.url("/"), "").silent();
    assert_eq!(the_only(&server).header("x-token"), Some("of the environment"));
}

#[test]
fn a_command_that_is_typed_replaces_the_webhook_of_the_file() {
    command_over_webhook("");
}

#[test]
fn a_command_that_is_typed_replaces_what_goes_with_the_webhook_as_well() {
    for more in ["header = ['X: 1']", "ca_file = 'ca.pem'", "give_up_on = '4xx'"] {
        command_over_webhook(more);
    }
}

/// A pass with a command, where a webhook stands in the file.
fn command_over_webhook(more: &str) {
    let server = serving(fine());
    let env = one_record();
    describe(&env, &format!("post = '{}'\n{more}", server.url("/")));
    env.pass(&format!("-- {}", env.noting("exit 0"))).silent();
    assert_eq!(env.handled(), ["7"], "{more}");
    assert!(server.received().is_empty());
}

#[test]
fn a_webhook_that_is_typed_replaces_the_handler_of_the_file() {
    for lines in [
        "exec = ['false']",
        "exec = ['false']\ngive_up_on = '65'",
        "exec = ['false']\nstream = true",
        "post = 'http://127.0.0.1:1/'",
        "post = 'http://127.0.0.1:1/'\ngive_up_on = '4xx'",
    ] {
        webhook_over_file(lines);
    }
}

#[test]
fn a_webhook_that_is_typed_replaces_what_goes_with_a_co_process_as_well() {
    webhook_over_file("exec = ['false']\nstream = true\nwindow = 5");
    webhook_over_file("exec = ['false']\nstream = true\nwindow = 1");
}

/// A pass with a webhook, where another handler stands in the file.
fn webhook_over_file(lines: &str) {
    let server = serving(fine());
    let env = one_record();
    describe(&env, lines);
    env.pass(&format!("--post {}", server.url("/"))).silent();
    assert_eq!(env.query(ROW), DONE, "{lines}");
    assert_eq!(keys(&server), [key(7)], "{lines}");
}

#[test]
fn a_queue_with_a_command_does_without_the_webhook_of_the_others() {
    own_command("");
}

#[test]
fn a_queue_with_a_command_does_without_the_headers_of_the_others() {
    own_command("header = ['X: 1']");
}

/// A pass over a queue that has a command, where all others have a webhook.
fn own_command(more: &str) {
    let server = serving(fine());
    let env = one_record();
    let handler = env.noting("exit 0");
    describe(
        &env,
        &format!("post = '{}'\n{more}\n[queue.own]\nexec = ['{handler}']", server.url("/")),
    );
    env.pass("--queue own").silent();
    assert_eq!(env.handled(), ["7"], "{more}");
    assert!(server.received().is_empty());
}

#[test]
fn what_does_not_go_with_a_webhook_is_said() {
    let env = one_record();
    for (args, says) in [
        (&*format!("--post {NOBODY} --stream"), "--stream"),
        (&format!("--post {NOBODY} -- true"), "--post"),
        (
            &format!("--post {NOBODY} --give-up-on 65"),
            "--give-up-on: with --post use 4xx or HTTP statuses from 300 to 599",
        ),
        (&format!("--post {NOBODY} --window 5"), "--window requires --stream"),
        ("--header 'X: 1' -- true", "--header requires --post"),
        ("--ca-file x -- true", "--ca-file requires --post"),
        ("--give-up-on 4xx -- true", "--give-up-on: a command has exit codes from 1 to 255"),
    ] {
        env.pass(&format!("--ndays 1 {args}")).fails(2, &[says]);
    }
    assert_eq!(env.query(ROW), UNTOUCHED);
}

#[test]
fn a_dry_run_sends_nothing() {
    let server = serving(fine());
    let env = one_record();
    let ran = pass(&env, &server.url("/"), "--dry-run").success();
    assert!(ran.stdout.starts_with("7 "), "{}", ran.stdout);
    assert_eq!((server.connections(), env.query(ROW).as_str()), (0, UNTOUCHED));
}

#[test]
fn check_shows_the_webhook_without_its_password_and_sends_nothing() {
    let server = serving(fine());
    let env = one_record();
    let url = server.url("/{ID}").replace("//", "//us:S3kr@");
    let ran = env.run_at(MIDNIGHT, &format!("check --fibonacci --post {url}")).success();
    let line = format!("ok       handler     POST {}, not signed\n", server.url("/{ID}"));
    assert_contains(&ran.stdout, &line);
    assert!(!ran.stdout.contains("S3kr") && !ran.stderr.contains("S3kr"));
    assert_contains(&ran.stdout, "ok       handler     it accepts connections\n");
    assert_eq!((server.received().len(), env.query(ROW).as_str()), (0, UNTOUCHED));
    // A receiver that is down is not a mistake of the operator.
    drop(server);
    let ran = env.run_at(MIDNIGHT, "check --fibonacci --post http://127.0.0.1:1/").success();
    let line = "warning  handler     could not connect to 127.0.0.1:1: connection refused\n";
    assert_contains(&ran.stdout, line);
    // Records name the host, so there is none to connect to.
    let ran = env.run_at(MIDNIGHT, "check --fibonacci --post http://{ID}/").success();
    assert_lacks(&ran.stdout, "connect");
}

#[test]
fn check_finds_what_a_pass_would_refuse() {
    let env = one_record();
    for (args, says) in [
        ("--post http://h/{ORDER}", "{ORDER} is not a column"),
        ("--post https://h/ --ca-file /nowhere/ca.pem", "/nowhere/ca.pem"),
    ] {
        let ran = env.run_at(MIDNIGHT, &format!("check --fibonacci {args}"));
        assert_ne!(ran.exit, Some(0), "{ran:?}");
        assert_contains(&format!("{}{}", ran.stdout, ran.stderr), says);
    }
}

#[test]
fn crontab_prints_a_line_that_does_what_was_typed() {
    let server = Server::new(&[("/it's/7?a%20b=%7", fine()), ("/it's/7?a%20b=%25", fine())]);
    let env = one_record();
    let url = server.url("/it's/{ID}?a%20b=%25");
    let value = "50% \"off\" $HOME";
    let (url, header) = (quoted(&url), quoted(&format!("X-Mine: {value}")));
    let args = format!("crontab --progressive --post {url} --header {header} --give-up-on 4xx");
    let lines = env.run(&args).success().stdout;
    let line = lines.lines().find(|line| line.contains(" process ")).unwrap();
    // Cron takes a percent sign for the end of the line.
    assert!(!line.replace("\\%", "").contains('%'), "{line}");
    let command = line.splitn(6, ' ').last().unwrap().replace("\\%", "%");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &command]).env_clear().env("HOME", "/").current_dir("/");
    shell.env("PATH", "/usr/bin:/bin").ran().silent();
    assert_eq!(env.statuses(), "7|SUCCESS");
    let request = the_only(&server);
    assert_eq!(request.path, "/it's/7?a%20b=%25");
    assert_eq!(request.header("x-mine"), Some(value));
}

#[test]
fn crontab_says_that_requests_are_signed_and_not_by_what() {
    let env = one_record();
    let args = format!("crontab --progressive --post {NOBODY}");
    let mut command = env.command(&args);
    let ran = command.env("BACKLOG_WEBHOOK_SECRET", "whsec_UzNrclMza3JTM2tyUzNrclMza3JTM2ty").ran();
    assert_contains(&ran.success().stdout, "\nBACKLOG_WEBHOOK_SECRET=\"whsec_...\"\n");
    // Pasted as it is, it lets nothing go out unsigned.
    let variables = [("BACKLOG_WEBHOOK_SECRET", "whsec_...")];
    pass_in(&env, &variables, NOBODY, "").fails(2, &["is not base64"]);
    assert!(!env.run(&args).success().stdout.contains("SECRET"));
}

#[test]
fn crontab_prints_no_login_and_no_header_of_the_environment() {
    let env = one_record();
    let url = "http://me:S3kr@127.0.0.1:1/x";
    let printed = |options: &str, variables: &[(&str, &str)]| {
        let mut command = env.command(&format!("crontab --progressive {options}"));
        let lines = command.envs(variables.iter().copied()).ran().success().stdout;
        assert_lacks(&lines, "S3kr");
        lines
    };
    for (options, variables) in [
        (&*format!("--post {url}"), &[][..]),
        ("", &[("BACKLOG_POST", url)]),
        (&format!("--post {NOBODY}"), &[("BACKLOG_HEADER", "X-Token: S3kr\nX-B: S3kr")]),
    ] {
        let lines = printed(options, variables);
        assert_contains(&lines, "\nBACKLOG_HEADER=\"...\"\n");
        assert_eq!(
            lines.contains("# the URL's login is left out"),
            variables.len() != 1 || options.is_empty()
        );
        let units = printed(&format!("{options} --systemd"), variables);
        assert_contains(&units, "Environment=BACKLOG_HEADER=...\n");
    }
    assert!(!printed(&format!("--post {NOBODY}"), &[]).contains("HEADER"));
    // Pasted as it is, it lets nothing go out without.
    pass_in(&env, &[("BACKLOG_HEADER", "...")], NOBODY, "").fails(2, &["has no colon"]);
}

#[test]
fn a_variable_never_makes_a_line_of_a_crontab() {
    let env = one_record();
    let crontab = |value: &str| {
        let args = "crontab --progressive --db postgres://127.0.0.1:1/none -- true";
        env.command(args).env("PGAPPNAME", value).ran()
    };
    for value in ["x\n* * * * * touch ran", "x\r", "\"'"] {
        crontab(value)
            .fails(2, &["a crontab cannot set the variable PGAPPNAME: it holds a control"]);
    }
    assert_contains(&crontab("it's \\ fine").success().stdout, "\nPGAPPNAME=\"it's \\ fine\"\n");
    assert_contains(&crontab("\"quoted\"").success().stdout, "\nPGAPPNAME='\"quoted\"'\n");
}
