//! `--ping`: what a monitoring service is told of each pass.

use crate::testenv::*;
use test_support::server::{Answer, Server};

/// Nothing listens there.
const NOBODY: &str = "http://127.0.0.1:1/S3krit";

fn ok() -> Answer {
    Answer::new("200 OK", &[], "OK")
}

/// A check that takes these events.
fn check(events: &[&str]) -> Server {
    let paths: Vec<_> = events.iter().map(|event| format!("/S3krit{event}")).collect();
    let answers: Vec<_> = paths.iter().map(|path| (path.as_str(), ok())).collect();
    Server::new(&answers)
}

/// The paths that were asked for, without their queries.
fn events(server: &Server) -> Vec<String> {
    let path = |path: &str| path.split('?').next().unwrap().replace("/S3krit", "");
    server.received().iter().map(|request| path(&request.path)).collect()
}

fn pass(env: &TestEnv, ping: &str, words: &str) -> Ran {
    env.pass(&format!("--fibonacci --ping {} {words}", quoted(ping)))
}

#[test]
fn a_service_is_told_when_a_pass_begins_and_how_it_ends() {
    let (env, server) = (records(3), check(&["/start", "/0"]));
    let url = server.url("/S3krit?create=1");
    pass(&env, &url, "-- sh -c 'echo $BACKLOG_RUN >run; [ $BACKLOG_ID != 2 ]'").silent();
    assert_eq!(events(&server), ["/start", "/0"]);
    let run = env.read("run");
    let (high, low) = run.trim().split_at(4);
    for request in server.received() {
        let query = request.path.split('?').nth(1).unwrap();
        assert_eq!(query, format!("create=1&rid=00000000-0000-0000-{high}-{low}"));
        assert_eq!(request.method, "POST");
    }
    let told = String::from_utf8(server.received()[1].body.clone()).unwrap();
    assert!(told.starts_with("3 attempts in ") && told.contains("2 succeeded, 1 failed"), "{told}");
    assert_contains(&told, "exit status 1");
}

#[test]
fn every_exit_is_told_also_where_nothing_could_begin() {
    let env = records(1);
    let failing = check(&["/start", "/1"]);
    pass(&env, &failing.url("/S3krit"), "--max-attempts 1 -- false")
        .fails(1, &["archived: exit status 1"]);
    assert_eq!(events(&failing), ["/start", "/1"]);
    let missing = check(&["/1"]);
    let args = "--table nothing -- true";
    pass(&env, &missing.url("/S3krit"), args).fails(1, &["no table \"nothing\""]);
    assert_eq!(events(&missing), ["/1"]);
    let told = String::from_utf8(missing.received()[0].body.clone()).unwrap();
    assert_contains(&told, "no table \"nothing\"");
    let locked = check(&["/start", "/75"]);
    let lock = env.connection();
    lock.execute_batch(
        "INSERT INTO BACKLOG (DATE_INSERTED) VALUES ('2026-11-20'); BEGIN EXCLUSIVE",
    )
    .unwrap();
    pass(&env, &locked.url("/S3krit"), "--max-runtime 1s -- true").fails(75, &["locked"]);
    assert_eq!(events(&locked).last().map(String::as_str), Some("/75"));
}

#[test]
fn a_service_may_have_a_url_for_each_event() {
    let env = records(1);
    let answers = ["/begun", "/fine", "/bad"].map(|path| (path, ok()));
    let server = Server::new(&answers);
    let urls = |events: &[&str]| {
        let urls = events.iter().map(|event| event.replace("URL", &server.url("")));
        format!("ping={{{}}}", urls.collect::<Vec<_>>().join(", "))
    };
    let pass = |urls: &str, handler: &str| {
        let line = format!("process --fibonacci --set {} --max-attempts 1 --", quoted(urls));
        env.run_at(MIDNIGHT, &format!("{line} {handler}"))
    };
    pass(&urls(&["success='URL/fine'", "failure='URL/bad'"]), "false").fails(1, &["archived"]);
    pass(&urls(&["start='URL/begun'", "success='URL/fine'"]), "true").silent();
    let paths: Vec<_> = server.received().iter().map(|request| request.path.clone()).collect();
    assert_eq!(paths, ["/bad", "/begun", "/fine"], "and no run is told where it is not expected");
    let wrong = urls(&["succes='URL/fine'"]);
    pass(&wrong, "true").fails(2, &["no key \"succes\"; use one of start, success, failure"]);
}

#[test]
fn each_line_of_a_queue_has_a_check_of_its_own() {
    let env = records(1);
    let answers =
        ["/S3krit/mails-ndays-1/start", "/S3krit/mails-ndays-1/0"].map(|path| (path, ok()));
    let server = Server::new(&answers);
    let url = server.url("/S3krit/{line}");
    env.pass(&format!("--queue mails --ndays 1 --ping {url} -- true")).silent();
    assert_eq!(events(&server), ["/mails-ndays-1/start", "/mails-ndays-1/0"]);
    pass(&env, "http://127.0.0.1:1/S3krit/{id}", "-- true")
        .fails(2, &["--ping: the URL cannot be used", "only {line} in braces"]);
}

#[test]
fn a_service_that_is_away_delays_no_record_and_changes_no_exit() {
    let env = records(3);
    let ran = pass(&env, NOBODY, "-- true");
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(0), ""));
    let refused = "backlog: could not ping: could not connect to 127.0.0.1:1: connection refused\n";
    assert_eq!(ran.stderr, refused, "once for both events and all tries");
    assert_eq!(env.count("SUCCESS"), 3);
    pass(&env, NOBODY, "-- true").silent();
    let ran = env.run_at(MIDNIGHT + 3_600, &format!("process --fibonacci --ping {NOBODY} -- true"));
    assert_eq!(ran.stderr, refused, "once an hour");
    let answers = [("/S3krit/start", ok()), ("/S3krit/0", Answer::new("404 Not Found", &[], "x"))];
    let server = Server::new(&answers);
    let ran = env.run_at(
        MIDNIGHT + 9_000,
        &format!("process --fibonacci --ping {} -- true", server.url("/S3krit")),
    );
    assert_eq!(ran.stderr, "backlog: could not ping: 127.0.0.1 answered HTTP 404 Not Found\n");
    assert_eq!(server.received().len(), 2, "what is refused is not asked again");
}

#[test]
fn records_are_handled_while_the_service_has_not_answered() {
    let env = records(3);
    let server = Server::new(&[("/S3krit/start", Answer::pause().and(ok())), ("/S3krit/0", ok())]);
    let child = env.spawn(&format!("process --fibonacci --ping {} -- true", server.url("/S3krit")));
    server.wait_for_received(1);
    wait_until("the records are handled", || env.count("SUCCESS") == 3);
    assert_eq!(events(&server), ["/start"]);
    server.let_go();
    child.ran().silent();
    assert_eq!(events(&server), ["/start", "/0"], "in their order");
}

#[test]
fn a_service_that_hangs_holds_up_the_end_for_ten_seconds_at_most() {
    let env = records(1);
    let server = Server::new(&[
        ("/S3krit/start", Answer::default().hold()),
        ("/S3krit/0", Answer::default().hold()),
    ]);
    let ran = pass(&env, &server.url("/S3krit"), "-- true");
    assert_eq!(
        (ran.exit, ran.stderr.as_str()),
        (Some(0), "backlog: could not ping: no answer within 10s\n")
    );
    assert_eq!(env.count("SUCCESS"), 1);
}

#[test]
fn a_pass_that_finds_its_line_running_reports_nothing() {
    let env = records(1);
    let server = check(&["/start", "/0"]);
    let pausing = env.pausing();
    let url = server.url("/S3krit");
    let line = format!("process --fibonacci --ping {url} -- {}", sh(&pausing.script));
    let child = env.spawn(&line);
    pausing.wait_for_begin();
    server.wait_for_received(1);
    env.run(&line).silent();
    assert_eq!(events(&server), ["/start"]);
    pausing.let_go();
    child.ran().silent();
    assert_eq!(events(&server), ["/start", "/0"]);
}

#[test]
fn a_stopped_pass_is_reported_with_the_exit_of_its_signal() {
    let env = records(1);
    let server = check(&["/start", "/143"]);
    let url = server.url("/S3krit");
    let staying = env.staying();
    let line = format!("process --fibonacci --grace 0s --ping {url} -- {}", sh(&staying.script));
    let mut child = env.spawn(&line);
    staying.wait_for_begin();
    assert!(signal("-TERM", child.id()));
    child.wait().unwrap();
    assert_eq!(events(&server), ["/start", "/143"]);
}

#[test]
fn nobody_is_shown_the_url() {
    let env = records(2);
    let told = env.script("told", "env >>env; exit 1");
    let mut command = env.command(&format!("process --fibonacci -vv --max-attempts 1 -- {told}"));
    assert_lacks(&command.env("BACKLOG_PING", NOBODY).ran().stderr, "S3krit");
    assert!(!env.read("env").contains("S3krit"));
    pass(&env, NOBODY, "-- true");
    let json = env.run("status --json --passes 9").success().stdout;
    assert!(json.contains("\"schedule\":\"--fibonacci") && !json.contains("S3krit"), "{json}");
    for wrong in [
        "S3krit",
        "https://x/{S3krit}",
        "S3krit://x",
        "ftp://x/S3krit",
        "https://x/S3krit y",
        "https://a b/S3krit",
        "https://x/S3krit/../{line}",
    ] {
        assert_lacks(&pass(&env, wrong, "-- true").stderr, "S3krit");
    }
    let mut command = env.command("crontab --progressive -- true");
    let output = command.env("BACKLOG_PING", NOBODY).output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    assert!(lines.contains("BACKLOG_PING=\"...\"") && !lines.contains("S3krit"), "{lines}");
    let set = format!("ping='{NOBODY}'");
    let lines =
        env.run(&format!("crontab --progressive --set {} -- true", quoted(&set))).success().stdout;
    assert!(lines.contains("BACKLOG_PING=\"...\"") && !lines.contains("S3krit"), "{lines}");
}

#[test]
fn a_file_that_everybody_can_read_and_that_has_the_url_is_told_of() {
    let env = records(1);
    let toml =
        format!("[queue.q]\ndb = 'test.db'\npolicy = 'even'\nexec = ['true']\nping = '{NOBODY}'\n");
    env.write("backlog.toml", toml);
    let mut command = env.command("check");
    let found = command.env_remove("BACKLOG_DB").ran().stdout;
    assert!(found.contains("a URL in `ping`") && !found.contains("S3krit"), "{found}");
}

#[test]
fn a_dry_run_reports_nothing() {
    let (env, server) = (records(1), check(&[]));
    pass(&env, &server.url("/S3krit"), "--dry-run").success();
    assert_eq!(server.received().len(), 0);
}

#[test]
fn queues_do_not_wait_for_the_pings_of_each_other() {
    let env = records(1);
    let toml = "[defaults]\ndb = 'test.db'\npolicy = 'even'\nexec = ['true']\n".to_string()
        + "[queue.a]\n[queue.b]\n";
    env.write("backlog.toml", toml);
    let paths = ["a", "b"].map(|queue| format!("/S3krit/{queue}-policy-even"));
    let answer = |path: &String| {
        [(format!("{path}/start"), ok()), (format!("{path}/0"), Answer::pause().and(ok()))]
    };
    let answers: Vec<_> = paths.iter().flat_map(answer).collect();
    let answers: Vec<_> = answers.iter().map(|(path, it)| (path.as_str(), it.clone())).collect();
    let server = Server::new(&answers);
    let mut command = env.command("process --all-queues");
    command.env_remove("BACKLOG_DB").env("BACKLOG_PING", server.url("/S3krit/{line}"));
    let child = command.spawn().unwrap();
    server.wait_for_received(4);
    let told: Vec<_> =
        events(&server).into_iter().filter(|event| event.ends_with("/start")).collect();
    assert_eq!(told, ["/a-policy-even/start", "/b-policy-even/start"]);
    server.let_go();
    child.ran().success();
}

#[test]
fn a_signal_ends_the_wait_for_a_service() {
    let env = records(1);
    let server = Server::new(&[("/S3krit/start", ok()), ("/S3krit/0", Answer::default().hold())]);
    let url = server.url("/S3krit");
    let mut child = env.spawn(&format!("process --fibonacci --ping {url} -- true"));
    server.wait_for_received(2);
    assert!(signal("-TERM", child.id()));
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(env.count("SUCCESS"), 1);
}

#[test]
fn no_command_of_a_pass_inherits_the_url() {
    let env = records(2);
    let told = env.script("told", "env >>env; exit 1");
    let run = |words: &str| {
        let mut command = env.command(&format!("process --fibonacci --max-attempts 1 {words}"));
        command.env("BACKLOG_PING", NOBODY).output().unwrap();
    };
    run(&format!("--on-archive {told} -- false"));
    env.insert(1, MIDNIGHT);
    run(&format!("--stream -- {told}"));
    let seen = env.read("env");
    assert_eq!(seen.matches("BACKLOG_QUEUE=").count(), 3, "two, the co-process");
    assert_lacks(&seen, "S3krit");
}

#[test]
fn check_says_that_a_url_cannot_be_used() {
    let env = records(1);
    let toml = "[queue.q]\ndb = 'test.db'\npolicy = 'even'\nexec = ['true']\nping = 'hc-ping.com/S3krit'\n";
    env.write("backlog.toml", toml);
    let found = env.command("check").env_remove("BACKLOG_DB").ran().exits(1);
    assert_contains(&found.stdout, "ping: the URL cannot be used");
    assert_lacks(&found.stdout, "S3krit");
}

#[test]
fn a_paused_pass_says_so() {
    let (env, server) = (records(1), check(&["/start", "/0"]));
    env.run_at(MIDNIGHT, "pause").success();
    pass(&env, &server.url("/S3krit"), "-- true").silent();
    let told = String::from_utf8(server.received()[1].body.clone()).unwrap();
    assert!(told.starts_with("paused: nothing was tried"), "{told}");
}
