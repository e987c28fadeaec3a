//! docs/troubleshooting.md: each of its headings is a message, and the program says it. A case is a
//! heading and what provokes the message, so the page cannot have others than there are.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use test_support::cluster::cluster;
use test_support::server::{Answer, Server};

use crate::testenv::{HOUR, MIDNIGHT, TestEnv, ran, skipped};

const PROGRAM: &str = env!("CARGO_BIN_EXE_backlog");

const PAGE: &str = include_str!("../../docs/troubleshooting.md");

/// What the program says; `None` where it cannot be provoked on this machine.
type Provoke = fn(&TestEnv) -> Option<String>;

/// The messages that are headings below a topic, in the order of the page.
fn messages(topic: &str) -> Vec<&'static str> {
    let section = PAGE.split("\n## ").find_map(|section| section.strip_prefix(topic)).unwrap();
    let headings = section.lines().filter_map(|line| line.strip_prefix("### "));
    headings.map(of_code_span).collect()
}

/// The text of a code span, whose backticks are as many as it takes.
fn of_code_span(span: &str) -> &str {
    let fence = span.bytes().take_while(|byte| *byte == b'`').count();
    let text = &span[fence..span.len() - fence];
    text.strip_prefix(' ').and_then(|text| text.strip_suffix(' ')).unwrap_or(text)
}

/// Whether a line has the fixed parts of a message, in their order.
fn says(output: &str, message: &str) -> bool {
    let has_all = |line: &str| {
        let mut parts = message.split("...");
        parts.try_fold(line, |rest, part| Some(rest.split_once(part)?.1)).is_some()
    };
    output.lines().any(has_all)
}

#[track_caller]
fn every_message_is_said(topic: &str, cases: &[(&str, Provoke)]) {
    let told: Vec<_> = cases.iter().map(|(message, _)| *message).collect();
    assert_eq!(messages(topic), told, "the headings of docs/troubleshooting.md, and the cases");
    for (message, provoke) in cases {
        let env = TestEnv::new();
        env.insert_one(7, MIDNIGHT - 60);
        let Some(output) = provoke(&env) else {
            skipped(&format!("what says {message:?}"));
            continue;
        };
        assert!(says(&output, message), "{message:?} is not in:\n{output}");
    }
}

/// Both outputs of a command at midnight.
fn run(env: &TestEnv, args: &[&str]) -> Option<String> {
    let ran = env.run_at(MIDNIGHT, args);
    Some(format!("{}{}", ran.stdout, ran.stderr))
}

fn with(env: &TestEnv, args: &[&str], variables: &[(&str, &str)]) -> Option<String> {
    let mut command = env.command(args);
    let ran = ran(&command.envs(variables.iter().copied()).output().unwrap());
    Some(format!("{}{}", ran.stdout, ran.stderr))
}

/// A pass over the one record, with these options and this handler.
fn pass(env: &TestEnv, options: &[&str], handler: &[&str]) -> Option<String> {
    run(env, &[&["process", "--ndays", "1"], options, &["--"], handler].concat())
}

fn with_file(env: &TestEnv, file: &str, args: &[&str]) -> Option<String> {
    fs::write(env.path("backlog.toml"), file).unwrap();
    run(env, args)
}

/// What a source file has between quotes, for what takes a server that misbehaves.
fn in_source(text: &str) -> Option<String> {
    let joined: Vec<_> = text.split("\\\n").map(str::trim_start).collect();
    Some(joined.concat())
}

#[test]
fn messages_about_a_command_line_are_those_of_the_page() {
    every_message_is_said(
        "Command line",
        &[
            (
                "unexpected argument '...' found: the handler stands behind `--`: ... -- ...",
                |env| run(env, &["process", "--ndays", "1", "./sync-order"]),
            ),
            (
                "no database: use --db FILE or --db postgres://..., BACKLOG_DB or backlog.toml; no \
                 handler: write the command behind `--`, or as exec into backlog.toml, or use --post \
                 URL; no schedule: use one of --ndays, --fibonacci, --policy, --progressive",
                |env| with(env, &["process"], &[("BACKLOG_DB", "")]),
            ),
            ("the argument '...' cannot be used with '...': pick one schedule", |env| {
                run(env, &["status", "--ndays", "1", "--fibonacci"])
            }),
            ("... and ... are two schedules: pick one", |env| {
                let variables = [("BACKLOG_NDAYS", "1"), ("BACKLOG_POLICY", "even")];
                with(env, &["status"], &variables)
            }),
            ("not a number of days from 0 to 36500: write ...", |env| {
                run(env, &["status", "--ndays", "1d"])
            }),
            ("not a duration: write ...", |env| pass(env, &["--max-runtime", "4m30"], &["true"])),
            ("BACKLOG_JOBS = \"...\": write a whole number from 1 to 1,024", |env| {
                let args = ["process", "--ndays", "1", "--", "true"];
                with(env, &args, &[("BACKLOG_JOBS", "four")])
            }),
            ("{...} is no column; did you mean {...}?; legal are ...", |env| {
                pass(env, &[], &["echo", "{PAYLOD}"])
            }),
            (
                "the record's {...} in ... could be run as code; let the program read ..., or the \
                 JSON on its standard input",
                |env| pass(env, &[], &["sh", "-c", "echo {payload}"]),
            ),
            ("--... goes with --...", |env| pass(env, &["--by-age"], &["true"])),
            ("which records? name their ids, or choose them by ...", |env| run(env, &["archive"])),
            ("no cause matches \"...\"; `backlog failures` lists them", |env| {
                env.sql("UPDATE BACKLOG SET STATUS = 'ERROR', LAST_ERROR = 'no route'");
                run(env, &["retry", "--failure", "timeout"])
            }),
            ("payload ... is not JSON (...); nothing was added: ...", |env| {
                run(env, &["add", "{order: 17}"])
            }),
            ("...: no such record", |env| run(env, &["explain", "99"])),
            ("... is not TOML: put each text in quotes, as in ...", |env| {
                run(env, &["list", "--set", "status={column=state}"])
            }),
            ("... is retired; use ...", |env| run(env, &["status", "--unit", "1m"])),
            ("no policy \"...\"; did you mean ...?; legal are ...", |env| {
                run(env, &["status", "--policy", "evn"])
            }),
            ("... has no key \"...\"; did you mean ...?; legal are ...", |env| {
                run(env, &["status", "--policy", "even:frist=1m"])
            }),
            ("no backlog.toml, \"...\" is only a name", |env| {
                run(env, &["list", "-v", "--queue", "mails"])
            }),
            ("schedule unknown: use one of ..., or say it in backlog.toml", |env| {
                run(env, &["explain", "7"])
            }),
        ],
    );
}

/// A table with rows of its own in place of the usual one.
fn with_table(env: &TestEnv, sql: &str, args: &[&str]) -> Option<String> {
    env.sql(&format!("DROP TABLE BACKLOG; {sql}"));
    run(env, args)
}

#[test]
fn messages_about_a_database_or_a_table_are_those_of_the_page() {
    every_message_is_said(
        "Database and table",
        &[
            ("no database at ...; `backlog init --db ...` creates one", |env| {
                run(env, &["list", "--db", "other.db"])
            }),
            ("no database at ...: the directory ... does not exist", |env| {
                run(env, &["list", "--db", "no/test.db"])
            }),
            ("could not create ...: the directory ... does not exist", |env| {
                run(env, &["init", "--db", "no/test.db"])
            }),
            (
                "a database of ... is not supported; legal are a SQLite file and \
                 postgres://user@host:port/database",
                |env| run(env, &["list", "--db", "mysql://u@h/d"]),
            ),
            ("a SQLite database is named by its path alone, without a scheme", |env| {
                run(env, &["list", "--db", "sqlite:test.db"])
            }),
            (
                "--db looks like a connection string, but is no URL: write \
                 postgres://user@host:port/database",
                |env| run(env, &["list", "--db", "host=h user=u"]),
            ),
            ("no table \"...\"; did you mean ...?; tables here: ...", |env| {
                run(env, &["list", "--table", "BACKLGO"])
            }),
            ("BACKLOG_DB names ..., ... names ...: could not use ...", |env| {
                with_file(env, "[defaults]\ndb = 'other.db'\ntable = 'mails'\n", &["list"])
            }),
            ("table ... has no column ...; did you mean ...?; it has ...", |env| {
                run(env, &["list", "--set", "payload=PAYLOD"])
            }),
            ("... is a view; name the table behind it", |env| {
                env.sql("CREATE VIEW pending AS SELECT * FROM BACKLOG");
                run(env, &["list", "--table", "pending"])
            }),
            ("column ... of table ... holds no date, but ...", |env| {
                run(env, &["list", "--set", "date_inserted.column=STATUS"])
            }),
            (
                "column ... of table ... holds ..., which as ... is ..., and all values that were looked at are more than ten years old or more than a year ahead: ...",
                |env| {
                    let table = "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS, DATE_INSERTED BIGINT);
                        INSERT INTO BACKLOG VALUES (1, 'NEW', 639308292000000000)";
                    with_table(env, table, &["check"])
                },
            ),
            ("\"...\" is no format of dates; legal are ...", |env| {
                run(env, &["list", "--set", "date_inserted.format=%Y-%m-%d"])
            }),
            (
                "\"...\" is no time zone of this system; write UTC, +02:00 or a name such as ...",
                |env| run(env, &["list", "--set", "date_inserted.zone=Mars"]),
            ),
            ("`...` is no condition: it ends too early", |env| {
                run(env, &["list", "--where", "ID > "])
            }),
            ("`...` is no condition: a quote or comment in it is not closed", |env| {
                run(env, &["list", "--where", "STATUS = 'NEW"])
            }),
            ("\"...\" is no condition in SQL: ...", |env| {
                run(env, &["list", "--where", "nosuch > 1"])
            }),
            (
                "nothing was due: all ... of table ... have a status that is mapped to nothing: ...",
                |env| {
                    let status = "status={new=\"open\",error=\"failed\",success=\"done\"}";
                    pass(env, &["--set", status], &["true"])
                },
            ),
            ("... left alone, mapped to no status", |env| {
                env.sql("UPDATE BACKLOG SET STATUS = 'ARCHIVED'");
                let status = "status={new=\"NEW\",error=\"ERROR\",success=\"SUCCESS\"}";
                run(env, &["check", "--set", status])
            }),
            ("column ... holds other things (...): say which are whose, ...", |env| {
                let table = "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS, DATE_INSERTED);
                             INSERT INTO BACKLOG VALUES (1, 'active', '2026-11-20T23:00:00Z')";
                with_table(env, table, &["check"])
            }),
            ("... cannot mean both that a record is pending and that it is not", |env| {
                run(env, &["list", "--set", "status={new=1,error=2,success=1}"])
            }),
            ("... cannot mean both that a record has succeeded and that it is archived", |env| {
                run(env, &["list", "--set", "status={new=1,error=2,success=3,archived=3}"])
            }),
            (
                "a record that is archived cannot be found again: it is ..., not ARCHIVED; ...",
                |env| {
                    let table =
                        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, DATE_INSERTED, DONE, GONE);
                    INSERT INTO BACKLOG (DATE_INSERTED) VALUES ('2026-11-20')";
                    let words = ["check", "--rehearse", "--ndays", "1", "--set", "status=false"];
                    let ends = [
                        "--where",
                        "DONE IS NULL",
                        "--set",
                        "on_success={DONE=1}",
                        "--set",
                        "on_archive={GONE=1}",
                    ];
                    with_table(env, table, &[&words[..], &ends].concat())
                },
            ),
            ("a success deletes its row of ...", |env| {
                run(env, &["check", "--set", "on_success=delete"])
            }),
            ("no index finds ...: the whole table is read for that", |env| {
                let table = "CREATE TABLE BACKLOG (ID INTEGER, STATUS, DATE_INSERTED)";
                with_table(env, table, &["check"])
            }),
            ("queue ... works on the same records: ...", |env| {
                with_file(env, "[queue.a]\n[queue.b]\n", &["check", "--queue", "a"])
            }),
            ("queue ... has ... of this one as well, such as ...: ...", |env| {
                let file = "[queue.a]\nwhere = 'ID > 3'\n[queue.b]\nwhere = 'ID > 5'\n";
                with_file(env, file, &["check", "--queue", "a"])
            }),
            (
                "queue ... has ... for the id of the same table, not ...: neither sees the claims \
                 of the other, so give both the same",
                |env| {
                    let file = "[queue.a]\n[queue.b]\nid = 'PAYLOAD'\n";
                    with_file(env, file, &["check", "--queue", "a"])
                },
            ),
            ("... goes by FAILURES and LAST_FAILURE, and table ... has no such column", |env| {
                let table = "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS, DATE_INSERTED)";
                with_table(env, table, &["process", "--fibonacci", "--", "true"])
            }),
            ("... archives records, and it is not known how table ... does", |env| {
                let status = "status={new=\"NEW\",error=\"ERROR\",success=\"SUCCESS\"}";
                pass(env, &["--max-age", "1day", "--set", status], &["true"])
            }),
            ("table ... refuses STATUS = ...; no handler was started", |env| {
                let table = "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS \
                             CHECK (STATUS <> 'SUCCESS'), DATE_INSERTED);
                             INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-11-20T23:00:00Z')";
                with_table(env, table, &["process", "--ndays", "1", "--", "true"])
            }),
            ("record ... would not be tried: ...", |env| {
                env.sql(
                    "CREATE TRIGGER no BEFORE UPDATE ON BACKLOG BEGIN SELECT raise(ABORT, 'no'); END",
                );
                run(env, &["check", "--rehearse", "--ndays", "1"])
            }),
            ("record ... is not tried: it cannot be set to ERROR: ...", |env| {
                let table = "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS, DATE_INSERTED, \
                             FAILURES INT CHECK (FAILURES <> 7), LAST_FAILURE); INSERT INTO BACKLOG \
                             VALUES (7, 'NEW', '2026-11-20T23:00:00Z', 6, NULL), \
                             (8, 'NEW', '2026-11-20T23:50:00Z', 0, NULL)";
                with_table(env, table, &["process", "--fibonacci", "--", "true"])
            }),
            ("record ... could not be set to SUCCESS: ...; its handler succeeded", |env| {
                let trigger = "CREATE TRIGGER no BEFORE UPDATE ON BACKLOG BEGIN SELECT raise(ABORT, 'no'); \
                               END";
                let handler = env.script("no", &format!("sqlite3 test.db \"{trigger}\""));
                pass(env, &["--max-runtime", "1s"], &[&handler])
            }),
            ("... error text could not be stored, because the table refuses them: ...", |env| {
                let table = "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS, DATE_INSERTED, \
                             LAST_ERROR CHECK (length(LAST_ERROR) < 5)); INSERT INTO BACKLOG \
                             VALUES (7, 'NEW', '2026-11-20T23:00:00Z', NULL)";
                with_table(env, table, &["process", "--ndays", "1", "--", "false"])
            }),
            (
                "table ... has triggers and ..., by which a write of one record could delete another \
                 one or undo other writes: ...",
                |env| {
                    let table = "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS, DATE_INSERTED, \
                                 UNIQUE (STATUS) ON CONFLICT REPLACE); CREATE TRIGGER t AFTER UPDATE ON \
                                 BACKLOG BEGIN SELECT 1; END";
                    with_table(env, table, &["process", "--ndays", "1", "--", "true"])
                },
            ),
            ("not tried: more than one row has the id ...", |env| {
                let table = "CREATE TABLE BACKLOG (ID, STATUS, DATE_INSERTED);
                             INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-11-20T23:00:00Z'), \
                             (1, 'NEW', '2026-11-20T23:00:00Z')";
                with_table(env, table, &["process", "--ndays", "1", "--", "true"])
            }),
            ("pending record is not tried, because its ... cannot be read as a date: ...", |env| {
                env.sql("UPDATE BACKLOG SET DATE_INSERTED = 'soon'");
                pass(env, &["-v"], &["true"])
            }),
            ("could not read ...: another process keeps it locked; try later", |env| {
                while_locked(env, || pass(env, &["--max-runtime", "1s"], &["true"]))
            }),
            ("waiting for a lock on ...", |env| {
                while_locked(env, || pass(env, &["-v", "--max-runtime", "3s"], &["true"]))
            }),
            (
                "could not read ...: attempt to write a readonly database; a reader of a \
                 database in WAL mode makes files beside it, too: ...",
                by_nobody,
            ),
            ("... was moved or removed while the pass ran", |env| {
                pass(env, &[], &["mv", "test.db", "moved.db"])
            }),
            ("... is a directory, not a database", |env| run(env, &["list", "--db", "."])),
            ("could not read ...: file is not a database", |env| {
                fs::write(env.path("text.db"), "no database ".repeat(100)).unwrap();
                run(env, &["list", "--db", "text.db"])
            }),
        ],
    );
}

/// What a user is told who may read the file of a database and nothing else.
fn by_nobody(env: &TestEnv) -> Option<String> {
    fs::set_permissions(env.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.args([env!("CARGO_BIN_EXE_backlog"), "list"]).env("BACKLOG_DB", env.db());
    let said = ran(&command.output().ok()?).stderr;
    Some(said).filter(|said| said.contains("backlog: "))
}

/// What is said while another connection has the database to itself.
fn while_locked(env: &TestEnv, act: impl FnOnce() -> Option<String>) -> Option<String> {
    env.sql("PRAGMA journal_mode = delete");
    let connection = env.connection();
    connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
    act()
}

/// A script with this text, handled as a command.
fn script(env: &TestEnv, text: &str) -> Option<String> {
    let path = env.script("script", "");
    fs::write(&path, text).unwrap();
    pass(env, &[], &[&path])
}

/// A pass whose record has its last attempt.
fn last_attempt(env: &TestEnv, options: &[&str], handler: &str) -> Option<String> {
    let handler = env.script("handler", handler);
    pass(env, &[&["--max-attempts", "1"], options].concat(), &[&handler])
}

#[test]
fn messages_about_a_handler_are_those_of_the_page() {
    every_message_is_said(
        "Handler",
        &[
            ("`...` is one word, looked for as a file of that name: leave out the quotes", |env| {
                pass(env, &[], &["./sync-order --all"])
            }),
            (
                "could not run ...: no such file or directory; is it in PATH, or its path absolute?",
                |env| pass(env, &[], &["./nosuch"]),
            ),
            ("could not run ...: it is not in PATH, but here: write ./...", |env| {
                env.script("nox.sh", "true");
                pass(env, &[], &["nox.sh"])
            }),
            ("could not run ...: its interpreter ... does not exist", |env| {
                script(env, "#!/no/such/python\n")
            }),
            ("its interpreter ... is not in PATH", |env| script(env, "#!/usr/bin/env nopython\n")),
            (
                "could not run ...: its first line ends with a carriage return: save it with Unix \
                 line ends",
                |env| script(env, "#!/bin/sh\r\ntrue\r\n"),
            ),
            ("could not run ...: permission denied; is it executable?", |env| {
                fs::write(env.path("plain"), "").unwrap();
                pass(env, &[], &["./plain"])
            }),
            (
                "could not run ...: exec format error; does it begin with #! and an interpreter?",
                |env| script(env, "no program\n"),
            ),
            ("record ... stays as it was: ...; the pass stops here", |env| {
                pass(env, &[], &["./nosuch"])
            }),
            ("record ... stays as it was: the handler exited with 127: ...", |env| {
                pass(env, &[], &["sh", "-c", "nosuch"])
            }),
            ("record ... failed after ... attempt; archived", |env| {
                last_attempt(env, &[], "exit 1")
            }),
            ("record ... was given up by its handler ...; archived: ...", |env| {
                pass(env, &["--give-up-on", "65"], &["sh", "-c", "exit 65"])
            }),
            ("--on-archive: could not run ...", |env| {
                last_attempt(env, &["--on-archive", "nosuch"], "exit 1")
            }),
            ("record ... is archived, but --on-archive was not done: ...", |env| {
                last_attempt(env, &["--on-archive", "false"], "exit 1")
            }),
            ("... attempts failed in a row, the last one: ...; the pass stops here", |env| {
                env.insert_one(8, MIDNIGHT - 60);
                env.insert_one(9, MIDNIGHT - 60);
                pass(env, &["--max-consecutive-failures", "2"], &["false"])
            }),
            (
                "no handler ended within --max-runtime and --grace, so nothing was done; give them \
                 more time",
                |env| pass(env, &["--max-runtime", "1s", "--grace", "1ms"], &["sleep", "60"]),
            ),
            ("record ... was changed or deleted by the application while its handler ran", |env| {
                let handler = env.noting("while [ ! -e go ]; do sleep 0.01; done");
                let pass = env.spawn(&["process", "-v", "--ndays", "9999", "--", &handler]);
                let noted = env.path("handled");
                crate::testenv::wait_until("the handler begins", || noted.exists());
                env.sql("DELETE FROM BACKLOG");
                fs::write(env.path("go"), "").unwrap();
                Some(ran(&pass.wait_with_output().unwrap()).stderr)
            }),
        ],
    );
}

/// A pass whose records go to a webhook where nobody is, unless a server is named.
fn post(env: &TestEnv, url: &str, variables: &[(&str, &str)]) -> Option<String> {
    let now = format!("@{MIDNIGHT}");
    with(env, &["process", "-v", "--ndays", "1", "--now", &now, "--post", url], variables)
}

#[test]
fn messages_about_a_webhook_are_those_of_the_page() {
    every_message_is_said(
        "Webhook",
        &[
            (
                "BACKLOG_WEBHOOK_SECRET: the signing secret does not begin with whsec_; make one \
                 with: echo whsec_$(openssl rand -base64 32)",
                |env| post(env, "http://[::1]:1/", &[("BACKLOG_WEBHOOK_SECRET", "abc")]),
            ),
            (
                "BACKLOG_WEBHOOK_SECRET: the signing secret has ... bytes, and needs at least 24; \
                 make one with: echo whsec_$(openssl rand -base64 32)",
                |env| post(env, "http://[::1]:1/", &[("BACKLOG_WEBHOOK_SECRET", "whsec_YWJj")]),
            ),
            ("--post: table ... has no column \"...\" for the URL; ...legal are ...", |env| {
                post(env, "http://[::1]:1/{PAYLOD}", &[])
            }),
            (
                "--post: records choose the host of ..., which would get ...; list the hosts with \
                 --allow-host",
                |env| post(env, "http://{PAYLOAD}/", &[("BACKLOG_HEADER", "X-Api-Key: x")]),
            ),
            ("could not connect to ...: connection refused", |env| {
                post(env, "http://127.0.0.1:1/", &[])
            }),
            ("HTTP ... redirects are not followed; this one leads to ...", |env| {
                let server = TcpListener::bind("127.0.0.1:0").unwrap();
                let url = format!("http://{}/", server.local_addr().unwrap());
                let answers = std::thread::spawn(move || {
                    let (mut client, _) = server.accept().unwrap();
                    let mut request = [0; 4096];
                    let _ = client.read(&mut request).unwrap();
                    let answer = "HTTP/1.1 301 Moved Permanently\r\nLocation: http://other/\r\n\
                                  Content-Length: 0\r\nConnection: close\r\n\r\n";
                    client.write_all(answer.as_bytes()).unwrap();
                });
                post(env, &url, &[])?;
                answers.join().unwrap();
                run(env, &["list", "--json"])
            }),
        ],
    );
}

#[test]
fn messages_about_a_co_process_are_those_of_the_page() {
    every_message_is_said(
        "Co-process",
        &[
            ("no reply yet to ... after ...: does it speak the protocol and flush?", |env| {
                pass(env, &["-v", "--stream", "--timeout", "100ms"], &["sleep", "60"])
            }),
            (
                "line ... of the handler's output is no reply, ...; what is no reply belongs on \
                 standard error",
                |env| pass(env, &["--stream", "--restarts", "0"], &["cat"]),
            ),
            (
                "record ... stays as it was: ...; --restarts ... are used up; the pass stops here",
                |env| pass(env, &["--stream", "--restarts", "0"], &["cat"]),
            ),
            (
                "the handler was silent for ... and answered when its input was closed: let it flush \
                 its output after each line, or raise --timeout",
                |env| {
                    let reply =
                        "2,$s/.*\"ID\":\\([0-9]*\\).*/{\"id\":\\1,\"outcome\":\"success\"}/p";
                    let options = ["--stream", "--timeout", "100ms", "--grace", "1h"];
                    pass(env, &options, &["sed", "-n", reply])
                },
            ),
        ],
    );
}

/// Puts these lines into the crontab.
fn with_lines(env: &TestEnv, crontab: &str) {
    let lines = env.path("lines").display().to_string();
    let crontab = crontab.replace("DB", &env.db().display().to_string());
    fs::write(&lines, crontab.replace("P process", &format!("{PROGRAM} process"))).unwrap();
    fs::create_dir_all(env.path("bin")).unwrap();
    env.script("bin/crontab", &format!("cat {lines}"));
}

/// What `check` finds with one line in the crontab.
fn line(env: &TestEnv, command: &str) -> Option<String> {
    check(env, &format!("@daily {command}"), "/bin/true")
}

/// What `check` finds with these lines in the crontab.
fn check(env: &TestEnv, crontab: &str, handler: &str) -> Option<String> {
    with_lines(env, crontab);
    env.script("bin/elsewhere", "true");
    let path = format!("{}:/usr/bin:/bin", env.path("bin").display());
    with(env, &["check", "--", handler], &[("PATH", &path)])
}

#[test]
fn messages_about_cron_are_those_of_the_page() {
    every_message_is_said(
        "cron",
        &[
            ("no line of this user works on this queue; `backlog crontab` prints one", |env| {
                check(env, "", "/bin/true")
            }),
            ("cron finds no ... in ...: write its whole path, or PATH=... above the line", |env| {
                line(env, "backlog process --db DB --ndays 1 -- /bin/true")
            }),
            ("cron starts it in ..., where no ... is: write its whole path", |env| {
                line(env, "P process --db DB --ndays 1 -- ./no-such")
            }),
            ("... is found only as long as it starts in ...: write its whole path", |env| {
                line(env, "P process --db DB --ndays 1 -- bin/sh")
            }),
            ("there is no directory ..., where it goes first", |env| {
                line(env, "cd DIR/no-such && P process --db DB --ndays 1 -- /bin/true")
            }),
            ("there is no directory for ...: the shell starts nothing then", |env| {
                line(env, "P process --db DB --ndays 1 -- /bin/true >>DIR/no-such/log")
            }),
            ("SHELL=... above the line is no program: cron cannot start it", |env| {
                let line = "@daily P process --db DB --ndays 1 -- /bin/true";
                check(env, &format!("SHELL=/no-such\n{line}"), "/bin/true")
            }),
            (
                "it begins with the user ..., which is for /etc/crontab and /etc/cron.d: a user's \
                 crontab has no such field",
                |env| line(env, "root P process --db DB --ndays 1 -- /bin/true"),
            ),
            (
                "cron ends the command at a %, what follows is its standard input: write \\%",
                |env| line(env, "P process --db DB --where \"ID % 2 = 0\" --ndays 1 -- /bin/true"),
            ),
            ("what a pass says is thrown away: ...", |env| {
                line(env, "P process --db DB --ndays 1 -- /bin/true >/dev/null 2>&1")
            }),
            ("sh reads &> as & and >: ...", |env| {
                line(env, "P process --db DB --ndays 1 -- /bin/true &>/dev/null")
            }),
            (
                "MAILTO is empty and its output goes nowhere else: nobody hears of archived \
                 records; ...",
                |env| {
                    let line = "@daily P process --db DB --ndays 1 -- /bin/true";
                    check(env, &format!("MAILTO=\"\"\n{line}"), "/bin/true")
                },
            ),
            ("cron has nothing to send mail with: ...", |env| {
                let said = line(env, "P process --db DB --ndays 1 -- /bin/true");
                said.filter(|_| !Path::new("/usr/sbin/sendmail").exists())
            }),
            (
                "it has no ..., on which it relies and which this shell has: write it above the line",
                |env| line(env, "P process --ndays 1 -- /bin/true"),
            ),
            ("it finds no password for ..., which here is in ...: ...", |env| {
                let pass = "P process --state-dir /x --db postgres://u@127.0.0.1:1/d --ndays 1";
                with_lines(env, &format!("@daily {pass} -- /bin/true"));
                let path = format!("{}:/usr/bin:/bin", env.path("bin").display());
                let args = ["check", "--db", "postgres://u@127.0.0.1:1/d"];
                with(env, &args, &[("PATH", &path), ("PGPASSWORD", "secret")])
            }),
            ("it only lists what would be tried: leave --dry-run out", |env| {
                line(env, "P process --db DB --ndays 1 --dry-run -- /bin/true")
            }),
            (
                "cron leaves up to ... between two runs, and the schedule counts in ...: records \
                 wait longer than it says",
                |env| line(env, "P process --db DB --policy even -- /bin/true"),
            ),
            ("@reboot runs it once: records that fail wait for the next boot", |env| {
                check(env, "@reboot P process --db DB --ndays 1 -- /bin/true", "/bin/true")
            }),
            ("... is no time that is in crontab(5)", |env| {
                check(env, "60 * * * * P process --db DB --ndays 1 -- /bin/true", "/bin/true")
            }),
            ("... is not where cron starts: write its whole path", |env| {
                check(env, "", "./handler")
            }),
            ("... is not in cron's PATH, /usr/bin:/bin: write its whole path", |env| {
                check(env, "", "elsewhere")
            }),
            ("no line tries records of ...", |env| {
                let line = "* * * * * P process --db DB --ndays 7 --min-ndays 1 -- true\n";
                check(env, line, "/bin/true")
            }),
            ("several lines try records of ...", |env| {
                let line = "* * * * * P process --db DB --ndays 1 -- true\n";
                check(env, &line.repeat(2), "/bin/true")
            }),
            (
                "the pass of this line that began at ... has had no outcome for ...: does its \
                 handler hang?",
                |env| {
                    while_hanging(env, |env, late| {
                        env.run_at(late, &[&LINE[..], &["--", "true"]].concat()).stderr
                    })
                },
            ),
            ("running since ..., last outcome ... ago: it hangs", |env| {
                while_hanging(env, |env, late| env.run_at(late, &["status"]).stdout)
            }),
            ("no pass for ...: every ... expected", |env| {
                run(env, &["process", "--fibonacci", "--", "true"])?;
                Some(env.run_at(MIDNIGHT + 3 * HOUR, &["status"]).stdout)
            }),
            ("paused since ...", |env| {
                run(env, &["pause"])?;
                pass(env, &["-v"], &["true"])
            }),
            ("paused: could not read ...: it is damaged; `backlog resume` removes it", |env| {
                run(env, &["pause"])?;
                let files = fs::read_dir(env.path("test.db.backlog")).unwrap().flatten();
                let mut files = files.map(|file| file.path());
                let pause = files.find(|it| it.extension().is_some_and(|it| it == "paused"));
                fs::write(pause?, "").unwrap();
                run(env, &["status"])
            }),
            ("killed (pid ...)", |env| {
                while_hanging(env, |_, _| String::new());
                run(env, &["status"])
            }),
        ],
    );
}

const LINE: [&str; 4] = ["process", "--fibonacci", "--timeout", "1h"];

/// What is said of a pass that has had no outcome for more than two hours, and is killed then.
fn while_hanging(env: &TestEnv, act: fn(&TestEnv, i64) -> String) -> Option<String> {
    let staying = env.staying();
    let now = format!("@{MIDNIGHT}");
    let script = format!("[ $BACKLOG_ID = 8 ] || {{ {}; }}", staying.script);
    env.insert_one(8, MIDNIGHT - 60);
    let mut pass = env.spawn(&[&LINE[..], &["--now", &now, "--", "sh", "-c", &script]].concat());
    staying.wait_for_begin();
    let said = act(env, MIDNIGHT + 2 * HOUR + 1);
    env.kill(&mut pass);
    Some(said)
}

/// A command on a server, as a user. The stranger may do nothing with the table.
fn on_server(user: &str, args: &[&str]) -> Option<String> {
    let database = cluster()?.database();
    database.sql(include_str!("../../schema.postgres.sql"));
    let role = "IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'stranger') THEN CREATE ROLE \
                stranger LOGIN; END IF";
    database.sql(&format!("DO $$ BEGIN {role}; EXCEPTION WHEN OTHERS THEN NULL; END $$"));
    let url = database.url().replace("postgres@", &format!("{user}@"));
    run(&TestEnv::empty(), &[args, &["--db", &url]].concat())
}

/// A server that asks for a password, whoever comes.
fn asking_server() -> u16 {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut client, _) = server.accept().unwrap();
        let mut startup = [0; 1024];
        let _ = client.read(&mut startup).unwrap();
        // AuthenticationCleartextPassword.
        client.write_all(b"R\0\0\0\x08\0\0\0\x03").unwrap();
        let _ = client.read(&mut startup);
    });
    port
}

#[test]
fn the_messages_about_monitoring_are_said() {
    fn limit(env: &TestEnv, text: &str) -> Option<String> {
        run(env, &["status", "--fail-if", text])
    }
    every_message_is_said(
        "Monitoring",
        &[
            ("could not ping: could not connect to ...: ...", |env| {
                pass(env, &["--ping", "http://127.0.0.1:1/"], &["true"])
            }),
            ("could not ping: ... answered HTTP ...", |env| {
                let gone = Answer::new("404 Not Found", &[], "");
                let server = Server::new(&[("/x/start", gone.clone()), ("/x/0", gone)]);
                pass(env, &["--ping", &server.url("/x")], &["true"])
            }),
            (
                "ping: the URL cannot be used; it must begin with https:// or http://, be \
                 percent-encoded, and have nothing but {line} in braces",
                |env| pass(env, &["--ping", "http://127.0.0.1:1/{id}"], &["true"]),
            ),
            ("could not write the metrics ...: ...", |env| {
                pass(env, &["--metrics", "none/m.prom"], &["true"])
            }),
            ("--on-archive-digest was not done: ...", |env| {
                let words = ["--max-attempts", "1", "--on-archive-digest", "false"];
                pass(env, &words, &["false"])
            }),
            ("\"...\" is no limit: write it as archived_24h>0 or oldest_due>1h", |env| {
                limit(env, "archived_24h")
            }),
            ("no figure \"...\"; did you mean ...?; legal are ...", |env| limit(env, "deu>1")),
            (
                "UNKNOWN: due: no schedule says what is due: use --ndays, --fibonacci, --policy or \
                 --progressive",
                |env| limit(env, "due>1"),
            ),
            ("--watch needs a terminal: leave it out", |env| run(env, &["status", "--watch"])),
        ],
    );
}

#[test]
fn messages_about_a_server_are_those_of_the_page() {
    every_message_is_said(
        "Server",
        &[
            (
                "could not connect to ...: connection refused; is PostgreSQL running there, and do \
                 host and port say where?",
                |env| run(env, &["list", "--db", "postgres://u@127.0.0.1:1/d"]),
            ),
            ("could not connect to ...: ...; check the name of the host", |env| {
                // Where nobody can be asked, the name is not known to be none.
                let said = run(env, &["list", "--db", "postgres://u@host.invalid/d"])?;
                Some(said).filter(|said| !said.contains("temporary failure"))
            }),
            ("database \"...\" does not exist; `createdb` creates one", |_| {
                let database = cluster()?.existing("no_such_database");
                run(&TestEnv::empty(), &["list", "--db", &database.url()])
            }),
            (
                "role \"...\" does not exist; the file pg_hba.conf of the server says who may connect",
                |_| on_server("nobody_here", &["list"]),
            ),
            ("the server wants a password; put the password into PGPASSWORD or ~/.pgpass", |env| {
                let url = format!("postgres://u@127.0.0.1:{}/d?sslmode=disable", asking_server());
                run(env, &["list", "--db", &url])
            }),
            ("permission denied for table ...; grant it to this user", |_| {
                on_server("stranger", &["list"])
            }),
            ("GRANT ... is missing", |_| on_server("stranger", &["check"])),
            (
                "the database URL has the parameter ..., which is not known; did you mean ...?; legal \
                 are ...",
                |env| run(env, &["list", "--db", "postgres://u@h/d?sslmod=require"]),
            ),
            (
                "no service \"...\" in ...; correct the name, or name host, database and user in the URL",
                |env| {
                    fs::write(env.path("services"), "[prod]\nhost=h\n").unwrap();
                    let args = ["list", "--db", "postgres:///?service=pord"];
                    with(env, &args, &[("PGSERVICEFILE", env.path("services").to_str()?)])
                },
            ),
            ("could not read the service file ...: ...", |env| {
                let variables = [("PGSERVICE", "prod"), ("PGSERVICEFILE", "/none")];
                with(env, &["list", "--db", "postgres://"], &variables)
            }),
            ("... cannot be obeyed: ...; leave it out (...)", |env| {
                let args = ["list", "--db", "postgres://u@h/d"];
                with(env, &args, &[("PGREQUIREAUTH", "scram-sha-256")])
            }),
            (
                "could not claim records in ...: its advisory locks do not lock, a second session \
                 got what the first one holds; name a server, or a pooler before it, that keeps them",
                |_| {
                    let source = include_str!("../../src/store/postgres/locks.rs");
                    in_source(source).map(|source| source.replace("{}", "..."))
                },
            ),
            (
                "the extension ... makes this server ..., and each node has advisory locks of its own, \
                 so that passes on two nodes could handle the same record; use ...",
                |_| {
                    let source = include_str!("../../src/store/postgres/nodes.rs");
                    let source = in_source(source)?;
                    Some(
                        ["{name}", "{is}", "{instead}"]
                            .iter()
                            .fold(source, |source, name| source.replace(name, "...")),
                    )
                },
            ),
            (
                "row level security is active on table ... for ...: it sees only the rows that a \
                 policy allows...; add a policy for it (CREATE POLICY), or ALTER ROLE ... BYPASSRLS",
                |_| {
                    let source = in_source(include_str!("../../src/store/postgres/catalog.rs"))?;
                    let names = ["{table}", "{user}", "{none}"];
                    Some(names.iter().fold(source, |source, name| source.replace(name, "...")))
                },
            ),
            ("could not write to ...: ... in a read-only transaction; try later", |_| {
                // After a minute, with the words of the server in the middle.
                let source = in_source(include_str!("../../src/store/error.rs"))?;
                let said = "could not {verb} {place}: {words}; try later";
                let words = "could not write to ...: ... in a read-only transaction; try later";
                source.contains(said).then(|| words.into())
            }),
            ("lost the connection to ...; try later", |_| {
                in_source(include_str!("../../src/store/error.rs"))
            }),
            (
                "no answer within ...; a pass needs two connections: behind a pooler its pool may \
                 have none left (default_pool_size of PgBouncer)",
                |_| {
                    // After ten seconds.
                    let source = in_source(include_str!("../../src/store/postgres/session.rs"))?;
                    let (_, hint) = source.split_once("; a pass needs")?;
                    Some(format!("no answer within 10s; a pass needs{hint}"))
                },
            ),
            (
                "claim lost: record ... was not held all the time while its handler ran, and another \
                 pass may have tried it; ...",
                |_| in_source(include_str!("../../src/engine/tally.rs")),
            ),
            (
                "no answer from the server for ... s: the handlers are ended, before the server \
                 frees the claims on their records",
                |_| in_source(include_str!("../../src/store/interrupt.rs")),
            ),
            (
                "a pause of a server's database is kept in the state directory, which each user has \
                 on each machine: name that of the crontab lines with --state-dir, or as state_dir \
                 in backlog.toml",
                |env| run(env, &["pause", "--db", "postgres://u@h/d"]),
            ),
            ("it is a standby, which cannot be written: name the primary", |_| {
                in_source(include_str!("../../src/store/postgres/catalog.rs"))
            }),
        ],
    );
}

const QUEUES: &str = "[queue.email]\nndays = 1\n[queue.orders]\nndays = 1\n";

#[test]
fn messages_about_backlog_toml_are_those_of_the_page() {
    every_message_is_said(
        "backlog.toml",
        &[
            ("line ...: write ... = \"...\"", |env| {
                with_file(env, "[defaults]\nevery = 5m\n", &["list"])
            }),
            ("line ...: put each text in quotes, as in ...", |env| {
                with_file(env, "[defaults]\nid = [order_id]\n", &["list"])
            }),
            ("line ...: duplicate key \"...\"", |env| {
                with_file(env, "[defaults]\nndays = 1\nndays = 2\n", &["list"])
            }),
            ("no section \"...\"; write a key below [defaults] or [queue.NAME]", |env| {
                with_file(env, "db = 'test.db'\n", &["list"])
            }),
            (
                "no section \"...\"; did you mean ...?; legal are [defaults] and [queue.NAME]",
                |env| with_file(env, "[queues.email]\n", &["list"]),
            ),
            ("no key \"...\"; did you mean ...?; docs/backlog.toml.md has them all", |env| {
                with_file(env, "[defaults]\npolcy = 'even'\n", &["list"])
            }),
            ("no queue \"...\"; did you mean ...?; legal are ...", |env| {
                with_file(env, QUEUES, &["list", "--queue", "emial"])
            }),
            ("no queue chosen: ... describes ...; use --queue", |env| {
                fs::write(env.path("backlog.toml"), QUEUES).unwrap();
                with(env, &["list"], &[("BACKLOG_DB", "")])
            }),
            ("exec and post are two handlers: pick one", |env| {
                with_file(env, "[defaults]\nexec = ['true']\npost = 'https://h/'\n", &["list"])
            }),
            ("some values of ... are given, but not those for ...: say status... as well", |env| {
                with_file(env, "[defaults]\nstatus = { new = 2, error = 3 }\n", &["list"])
            }),
            ("... belongs to ...: run this as ..., or pass --trust-owner", |env| {
                let is_root = Command::new("id").arg("-u").output().ok()?.stdout == b"0\n";
                std::os::unix::fs::chown(env.db(), Some(65_534), None).ok()?;
                is_root.then(|| run(env, &["list"])).flatten()
            }),
            ("others can read ...: chmod 600 ...", |env| {
                let file = "[defaults]\npost = 'http://user:secret@h/'\n";
                let found = with_file(env, file, &["check"]);
                assert!(!found.as_ref()?.contains("secret"), "{found:?}");
                found
            }),
            (
                "could not open ...; ... belongs to user ... with mode ...: run as that user, or give \
                 every line of this table the same --state-dir",
                |env| pass(env, &["--state-dir", "/sys/state"], &["true"]),
            ),
        ],
    );
}
