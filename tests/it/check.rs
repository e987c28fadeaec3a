//! `check` and `crontab`: what is to be mended is named, and nothing is touched.

use std::collections::HashSet;
use std::process::Command;

use crate::testenv::*;

/// A `crontab` that shows these lines.
fn with_crontab(env: &TestEnv, lines: &str) {
    std::fs::create_dir_all(env.path("bin")).unwrap();
    env.write("table", lines);
    env.script("bin/crontab", &format!("cat {}", env.path("table").display()));
}

/// The programs `backlog` and `x`, and the line of a crontab that says where they are.
fn with_programs(env: &TestEnv) -> String {
    std::fs::create_dir_all(env.path("bin")).unwrap();
    env.script("bin/backlog", "");
    env.script("bin/x", "");
    format!("PATH={}:/usr/bin:/bin\n", env.path("bin").display())
}

fn run(env: &TestEnv, args: &str) -> Ran {
    let mut command = env.command(args);
    command.env("PATH", format!("{}:/usr/bin:/bin", env.path("bin").display()));
    command.env("HOME", env.path("")).ran()
}

/// The findings about something, as `level text`.
fn findings(env: &TestEnv, about: &str, args: &str) -> Vec<String> {
    let ran = run(env, &format!("check --json --now @{MIDNIGHT} {args}"));
    let json = ran.json();
    let has_errors = ran.stdout.contains("\"level\":\"error\"");
    assert_eq!((ran.exit, json["ok"].as_bool()), (Some(i32::from(has_errors)), Some(!has_errors)));
    let found = json["findings"].as_array().unwrap().iter();
    let found = found.filter(|finding| finding["about"] == about);
    let text = |finding: &serde_json::Value| finding.as_str().unwrap().to_string();
    found.map(|finding| format!("{} {}", text(&finding["level"]), text(&finding["text"]))).collect()
}

/// The statements that fix what `check` found, which is no error.
fn statements(env: &TestEnv, args: &str) -> Vec<String> {
    let ran = run(env, &format!("check --json {args}")).success();
    let json = ran.json();
    let found = json["findings"].as_array().unwrap().iter();
    found.filter_map(|finding| finding["statement"].as_str().map(String::from)).collect()
}

#[test]
fn a_sound_table_needs_no_mending_and_is_not_touched() {
    let env = TestEnv::new();
    with_crontab(&env, "");
    env.insert(3, MIDNIGHT);
    let before = std::fs::read(env.db()).unwrap();
    let ran = run(&env, "check --fibonacci --max-attempts 3 -- /bin/true").success();
    for line in [
        "ok       schedule    --fibonacci\n",
        "ok       table       BACKLOG, 3 rows, 3 pending; journal mode wal\n",
        "ok       columns     id = ID INTEGER, date_inserted = DATE_INSERTED TEXT, status = STATUS TEXT",
        "ok       status      NEW = 'NEW' (3)\n",
        "ok       dates       DATE_INSERTED is written as iso\n",
        "ok       index       ",
        "ok       handler     /bin/true\n",
        "warning  crontab     no line that can be read here works on this queue",
    ] {
        assert_contains(&ran.stdout, line);
    }
    assert_lacks(&ran.stdout, "\nerror");
    assert_eq!(std::fs::read(env.db()).unwrap(), before);
    assert!(!env.path("test.db.backlog").exists(), "nothing was made");
}

#[test]
fn values_that_no_status_has_are_counted() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT, DATE_INSERTED TEXT);
         INSERT INTO BACKLOG (STATUS, DATE_INSERTED) VALUES ('NEW', '2026-11-20'), ('new', '2026-11-20'), (' Error ', '2026-11-20'), ('RUNNING', '2026-11-20'), ('RUNNING', '2026-11-20'), (NULL, '2026-11-20')",
    );
    with_crontab(&env, "");
    assert_eq!(
        findings(&env, "status", ""),
        [
            "ok NEW = 'NEW' (1)",
            "warning 'RUNNING': 2 rows left alone, mapped to no status",
            "error 'new': 1 row left alone, because it is not 'NEW': map it as well",
            "error ' Error ': 1 row left alone, because it is not 'ERROR': map it as well",
            "warning NULL: 1 row left alone, mapped to no status",
        ]
    );
    env.sql("UPDATE BACKLOG SET STATUS = 7");
    let nothing = "error no row has a value that is mapped to a status: ";
    assert!(findings(&env, "status", "--set=status.column=STATUS")[0].starts_with(nothing));
}

#[test]
fn dates_that_cannot_be_read_or_differ_are_named_by_id() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED);
         INSERT INTO BACKLOG (DATE_INSERTED) VALUES ('2026-11-20'), (1795132800), ('soon'), (NULL), (1795132800000), ('2026-11-21 02:00:00')",
    );
    with_crontab(&env, "");
    assert_eq!(
        findings(&env, "dates", ""),
        [
            "warning DATE_INSERTED has several formats: epoch in 1 record, such as 2; epoch-ms in 1 record, such as 5; iso in 2 records, such as 1",
            "error 2 pending records without a readable DATE_INSERTED: 3 with 'soon', 4 with NULL",
        ]
    );
    let ahead = "warning the newest pending record is from 2026-11-21T02:00:00Z, 2h from now: another clock, another zone of date_inserted, or a planned date";
    assert_eq!(findings(&env, "clock", ""), [ahead]);
    assert_eq!(findings(&env, "clock", "--set date_inserted.zone=+02:00"), [""; 0]);
}

#[test]
fn a_missing_index_comes_with_its_statement_which_helps() {
    for (schema, config) in [
        ("STATUS TEXT", ""),
        ("STATUS TEXT", "where = \"K = 'it''s' OR K > 'x'\"\n"),
        ("STATUS TEXT", "where = \"DATE_INSERTED <= datetime('now')\"\n"),
        ("DONE TEXT", "status = false\nwhere = 'DONE IS NULL'\non_success = { DONE = '{now}' }\n"),
        (
            "DONE TEXT",
            "status = false\nwhere = \"DONE IS NULL AND DATE_INSERTED <= datetime('now')\"\non_success = { DONE = '{now}' }\n",
        ),
    ] {
        let env = TestEnv::with_schema(&format!(
            "CREATE TABLE \"odd \"\"name\" (ID INTEGER, {schema}, DATE_INSERTED TEXT, K TEXT)"
        ));
        with_crontab(&env, "");
        let config = format!("[defaults]\ntable = 'odd \"name'\n{config}");
        env.write("backlog.toml", config);
        let statements = statements(&env, "");
        assert_eq!(statements.len(), 2, "{statements:?}");
        env.sql(&statements.join("\n"));
        let fine = "ok indexes find pending records and single ones";
        assert_eq!(findings(&env, "index", ""), [fine], "{statements:?}");
    }
}

#[test]
fn what_else_is_wrong_is_said_at_once() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT DEFAULT '2026-11-20');
         INSERT INTO BACKLOG (ID) VALUES (7), (7), (NULL), (NULL); CREATE TRIGGER audit AFTER UPDATE ON BACKLOG BEGIN SELECT 1; END",
    );
    with_crontab(&env, "");
    let twice = "error more than one row has the id 7: none of them is tried";
    let none = "error 2 pending records never tried, because the id is not usable: NULL";
    assert_eq!(findings(&env, "ids", ""), [none, twice]);
    assert_eq!(findings(&env, "trigger", ""), ["warning audit runs when a pass writes"]);
    let schedule = findings(&env, "schedule", "--fibonacci");
    assert!(schedule[0].starts_with("error --fibonacci needs FAILURES"), "{schedule:?}");
    env.script("bin/only-here", "");
    for (handler, says) in [
        ("/bin/no-such", "error there is no /bin/no-such"),
        ("no-such-program", "PATH=... above the line"),
        (
            "only-here",
            "warning cron does not find only-here in /usr/bin:/bin, where variables are not expanded: write its \
             whole path, or PATH=... above the line",
        ),
    ] {
        let found = findings(&env, "handler", &format!("-- {handler}"));
        assert!(found[0].ends_with(says), "{found:?}");
    }
    let missing = findings(&env, "database", "--table missing");
    assert_contains(&missing[0], "no table \"missing\"; tables here: BACKLOG");
}

#[test]
fn the_lines_of_the_crontab_that_name_the_queue_are_found() {
    let env = TestEnv::new();
    let config = "[queue.a]\ndb = 'test.db'\nndays = 2\nexec = ['true']\n";
    env.write("etc.toml", config);
    let (db, home) = (env.path_text("test.db"), env.path_text(""));
    let path = with_programs(&env);
    let none =
        "warning no line that can be read here works on this queue; `backlog crontab` prints one";
    for (lines, expected) in [
        (
            format!("*/5 * * * * backlog process --db {db} --ndays 1 -- x\n@daily backlog process --db=test.db --ndays 9 -- x\nHOME={home}\n0 * * * * backlog process --db=test.db --min-ndays 1 --ndays 7 -- x\n"),
            vec![
                "ok line 2: */5 * * * *".into(),
                "ok line 5: 0 * * * *".into(),
            ],
        ),
        (
            format!("BACKLOG_DB={db}\n@hourly backlog process --ndays 7 -- x >/dev/null\nBACKLOG_DB=/x\n@hourly backlog process --ndays 7 -- x\n"),
            vec!["ok line 3: @hourly".into()],
        ),
        (
            format!("HOME={home}\n*/5 * * * * backlog process --config etc.toml --all-queues\n0 0 * * * backlog process --config etc.toml --queue b\n0 0 * * * backlog status --db test.db\n"),
            vec![
                "ok line 3: */5 * * * *".into(),
                format!("warning line 4: not checked: {home}etc.toml: no queue \"b\"; use one of a; read it yourself"),
            ],
        ),
        (
            "* * * * * backlog process --db other.db --ndays 1 -- x\n* * * * * backlog process --db test.db --table T --ndays 1 -- x\n".into(),
            vec![none.into()],
        ),
        ("# * * * * * backlog process --db test.db --ndays 1 -- x\n".into(), vec![none.into()]),
        // A part of the queue, and what does nothing.
        (
            "BACKLOG_DB=test.db\n* * * * * backlog process --ndays 1 --where 'ID > 1' \
             -- x\n* * * * * backlog process --shard 1/2 --dry-run --ndays 1 -- x\n".replace("test.db", &db),
            vec![
                "ok line 3: * * * * *".into(),
                "warning line 4: it only lists what would be tried: leave --dry-run out".into(),
            ],
        ),
    ] {
        with_crontab(&env, &format!("{path}{lines}"));
        assert_eq!(findings(&env, "crontab", ""), expected, "{lines}");
    }
}

#[test]
fn a_timer_whose_passes_come_needs_no_line() {
    let env = TestEnv::minimal();
    with_crontab(&env, "");
    let none =
        "warning no line that can be read here works on this queue; `backlog crontab` prints one";
    assert_eq!(
        findings(&env, "passes", "")[0],
        "warning no pass yet: is cron running, is the line installed?"
    );
    // One that somebody tried out, in a pipe as well, says nothing of cron.
    env.run_at(MIDNIGHT - 7_200, "process --ndays 7 -- true").silent();
    let tried = "warning --ndays 7: last pass 2 h ago: is cron running, is the line installed?";
    assert_eq!(findings(&env, "passes", ""), [tried]);
    assert_eq!(findings(&env, "crontab", ""), [none]);
    env.run("status --forget '--ndays 7'").success();
    for tick in (0..=12).rev() {
        env.run_at(MIDNIGHT - 180 - tick * 300, "process --ndays 9 -- true").silent();
    }
    assert_eq!(findings(&env, "passes", ""), ["ok --ndays 9: last pass 3 m ago, every 5 m"]);
    let other = [
        "ok no line of this queue can be read here, but its passes run: something else starts them",
    ];
    assert_eq!(findings(&env, "crontab", ""), other);
    for tick in (0..=12).rev() {
        env.run_at(MIDNIGHT - 7_200 - tick * 300, "process --ndays 8 -- true").silent();
    }
    let missing = "error --ndays 8: no pass for 2 h: usually every 5 m: is cron running, is the line installed?";
    assert_eq!(findings(&env, "passes", "")[0], missing);
    assert_eq!(findings(&env, "crontab", ""), [none]);
}

/// The findings about these lines of a crontab, without the good ones.
fn complaints(env: &TestEnv, lines: &str) -> Vec<String> {
    with_crontab(env, lines);
    let mut found = findings(env, "crontab", "");
    found.retain(|finding| !finding.starts_with("ok "));
    found
}

#[test]
fn each_line_that_fails_under_cron_is_named_with_what_to_write() {
    let env = TestEnv::new();
    with_programs(&env);
    env.script("crlf", "");
    env.write("plain", "");
    env.write("crlf", "#!/bin/sh\r\n");
    let (dir, db) = (env.path_text(""), env.path_text("test.db"));
    let dir = dir.trim_end_matches('/');
    let line =
        |command: &str| format!("* * * * * {}\n", command.replace("SHOP", &db).replace("DIR", dir));
    let pass = "DIR/bin/backlog process --db SHOP --policy even";
    let remedy =
        "where variables are not expanded: write its whole path, or PATH=... above the line";
    let odd = "it contains a carriage return, a no-break space or the like: write plain blanks and \
               Unix line ends";
    let depends = "depends on the directory that cron starts it in: write its whole path";
    let thrown_away = "MAILTO=\"\" or /dev/null discards the messages of a pass, which are rare and \
                       need action: let cron mail them, or append them to a file (>>FILE 2>&1)";
    for (lines, expected) in [
        (
            line("backlog process --db SHOP --policy even -- /bin/true"),
            format!("error line 1: cron does not find backlog in /usr/bin:/bin, {remedy}"),
        ),
        (
            format!("PATH=$HOME/bin:/bin\n{}", line("backlog process --db SHOP --policy even -- true")),
            format!("error line 2: cron does not find backlog in $HOME/bin:/bin, {remedy}"),
        ),
        (
            line("bin/backlog process --db SHOP --policy even -- /bin/true"),
            format!("error line 1: bin/backlog {depends}"),
        ),
        (
            line("DIR/no/backlog process --db SHOP --policy even -- /bin/true"),
            format!("error line 1: there is no {dir}/no/backlog"),
        ),
        (
            line(&format!("{pass} -- x")),
            format!("error line 1: cron does not find x in /usr/bin:/bin, {remedy}"),
        ),
        (
            line(&format!("{pass} -- ./no-such")),
            format!("error line 1: ./no-such {depends}"),
        ),
        (
            line(&format!("{pass} -- ./bin/x")),
            format!("error line 1: ./bin/x {depends}"),
        ),
        (
            line(&format!("{pass} -- DIR/no-such")),
            format!("error line 1: there is no {dir}/no-such"),
        ),
        (
            line(&format!("{pass} -- DIR/plain")),
            format!("error line 1: {dir}/plain is not executable: chmod +x {dir}/plain"),
        ),
        (
            line(&format!("{pass} -- DIR/crlf")),
            format!(
                "error line 1: {dir}/crlf cannot be run: its first line ends with a carriage return: \
                 save it with Unix line endings"
            ),
        ),
        (
            line(&format!("{pass} -- '/bin/true --id 7'")),
            "error line 1: `/bin/true --id 7` is a single argument, and no such program exists; remove the quotes"
                .into(),
        ),
        (line(pass), "error line 1: no handler: ".into()),
        (
            line(&format!("{pass} -- /bin/true '{{PAYLOD}}'")),
            "error line 1: {PAYLOD} is not a column; use one of ".into(),
        ),
        (
            line(&format!("{pass} -- /bin/true >/dev/null 2>&1")),
            format!("warning line 1: {thrown_away}"),
        ),
        (
            line(&format!("{pass} -- /bin/true 2>/dev/null")),
            format!("warning line 1: {thrown_away}"),
        ),
        (
            format!("MAILTO=\"\"\n{}", line(&format!("{pass} -- /bin/true"))),
            format!("warning line 2: {thrown_away}"),
        ),
        (
            line(&format!("root {pass} -- /bin/true")),
            "error line 1: it begins with the user root: only /etc/crontab and /etc/cron.d have such \
             a field"
                .into(),
        ),
        (
            line(&format!("{pass} -- /bin/true >>DIR/missing/log 2>&1")),
            format!("error line 1: {dir}/missing/log cannot be written: the shell starts nothing then"),
        ),
        (
            line(&format!("{pass} -- /bin/true >>DIR 2>&1")),
            format!("error line 1: {dir} cannot be written: the shell starts nothing then"),
        ),
        (
            format!("SHELL=/bin/nosh\n{}", line(&format!("{pass} -- /bin/true"))),
            "warning line 2: not checked: SHELL is not sh, dash or bash; read it \
             yourself"
                .into(),
        ),
        (
            line(&format!("{pass} -- /bin/true")).replacen("* * * * *", "@reboot", 1),
            "warning line 1: no next run is known: a record that fails waits for it".into(),
        ),
        (
            line(&format!("{pass} -- /bin/true")).replacen("* * * * *", "99 * * * *", 1),
            "error line 1: cron ignores the file: line 1: 99 * * * * is not a time of crontab(5)"
                .into(),
        ),
        (
            line(&format!("{pass} -- /bin/true")).trim_end().into(),
            "error line 1: cron ignores the file: its last line does not end with a line feed".into(),
        ),
        (
            line(&format!("{pass} -- /bin/true")) + "MAILTO=\n",
            "error line 1: cron ignores the file: line 2: MAILTO= is not a time of crontab(5)".into(),
        ),
        (
            line(&format!("{pass} -- /bin/true")).replace('\n', "\r\n"),
            format!("error line 1: {odd}"),
        ),
        (
            line("DIR/bin/backlog process --policy even -- /bin/true"),
            "warning line 1: not checked: no database: ".into(),
        ),
    ] {
        let found = complaints(&env, &lines);
        assert!(found.len() == 1 && found[0].starts_with(&expected), "{lines}{found:#?}\n{expected}");
    }
    // A program that depends on the line's condition cannot be told from a part of it.
    let cut = line(&format!("{pass} --where \"PAYLOAD LIKE 'a%'\" -- /bin/true"));
    with_crontab(&env, &cut);
    let why = "error line 1: cron ends the command at a %, and passes the rest as standard input: write \\%";
    assert_eq!(findings(&env, "crontab", r#"--where "PAYLOAD LIKE 'a%'""#), [why]);
    // Such blanks glue words together.
    let glued = line(&format!("{pass} -- /bin/true"));
    for glued in [glued.replacen(' ', "\u{a0}", 1), glued.replace("process ", "process\u{a0}")] {
        let found = complaints(&env, &glued);
        assert!(found.contains(&format!("error line 1: {odd}")), "{found:#?}");
    }

    let fine = [
        format!("{pass} -- /bin/true >>/tmp/log 2>&1"),
        format!("{pass} -- /bin/true >/dev/null"),
        format!("{pass} -- /bin/true '50\\%' '{{id}}' '2>&1'"),
        "/no/such/backlog status".into(),
        "backlog process --db /other.db --policy even -- no-such >/dev/null 2>&1".into(),
        format!("{pass} -- /bin/true 'no\u{a0}break'"),
    ];
    let fine: String = fine.iter().map(|command| line(command)).collect();
    let fine =
        format!("{fine}MAILTO=\"\"\n{}", line(&format!("{pass} -- /bin/true >>DIR/log 2>&1")));
    assert_eq!(complaints(&env, &fine), [""; 0]);
}

#[test]
fn a_line_of_which_a_shell_makes_more_is_never_called_good() {
    let env = TestEnv::new();
    let pass =
        format!("{} process --db {} --ndays 1", env!("CARGO_BIN_EXE_backlog"), env.db().display());
    let expected = [
        "warning line 1: not checked: it uses more of the shell than plain words; read it yourself",
    ];
    for command in [
        "flock -n /tmp/lock PASS -- /bin/true",
        "exec PASS -- /bin/true",
        "PASS -- /bin/true | logger -t backlog",
        "PASS -- /bin/true || true",
        "(PASS -- /bin/true) 2>/dev/null",
        "if true; then PASS -- /bin/true; fi",
        "{ PASS -- /bin/true; }",
        ". ~/.profile; PASS -- /bin/true",
        "sh -c 'PASS -- /bin/true'",
        "test -x /no/such && PASS -- /bin/true",
        "cd $HOME && PASS -- /bin/true",
        "cd / && PASS -- /bin/true",
        "BACKLOG_DB=/x PASS -- /bin/true",
        "PASS -- /bin/true &>/dev/null",
        "PASS -- /bin/true $(date)",
        "PASS -- /bin/true `date`",
        "PASS -- /bin/true \"$X\"",
        "PASS -- /bin/true ~/x *",
        "PASS -- /bin/true & wait",
        "PASS -- /bin/true <input",
        "PASS -- /bin/true 3>x",
        "PASS -- 'no end",
        "[ $(expr $(date +\\%s) / 60 \\% 7) -ne 1 ] || PASS -- /bin/true",
    ] {
        let command = command.replace("PASS", &pass);
        assert_eq!(complaints(&env, &format!("@daily {command}\n")), expected, "{command}");
    }
    // Of another queue it says nothing, where its words are plain as far as they name that.
    for command in [
        "flock -n /tmp/lock PASS -- x",
        "PASS -- x | logger -t backlog",
        "PASS -- x || true",
        "nice -n 5 PASS -- x 2>&1 >>$LOG",
        "root PASS -- x",
    ] {
        let command = command.replace("PASS", &pass).replace("test.db", "other.db");
        let found = complaints(&env, &format!("@daily {command}\n"));
        assert!(found[0].starts_with("warning no line that can be read here works"), "{found:?}");
    }
}

#[test]
fn a_line_that_a_pass_would_refuse_is_never_called_good() {
    let env = TestEnv::new();
    let pass = format!("{} process --db {}", env!("CARGO_BIN_EXE_backlog"), env.db().display());
    let not_checked = "warning line 1: not checked: ";
    for (words, expected) in [
        ("--ndays 1 --max-retries 5 -- /bin/true", not_checked),
        (
            "--progresive -- /bin/true",
            "warning line 1: not checked: unexpected argument '--progresive' found; read it yourself",
        ),
        ("\u{2013}-ndays 1 -- /bin/true", not_checked),
        ("--ndays x -- /bin/true", "error line 1: --ndays x: not a number of days"),
        ("--policy exponental -- /bin/true", "error line 1: --policy: no policy"),
        ("--ndays 1 --ndays 2 -- /bin/true", "error line 1: --ndays: the option is given more"),
        (
            "--ndays 1 --policy even -- /bin/true",
            "error line 1: --ndays and --policy are two schedules: choose one",
        ),
        ("-- /bin/true", "error line 1: no schedule: use one of "),
        ("-- /bin/touch x --ndays 1", "error line 1: no schedule: use one of "),
        ("--ndays 1", "error line 1: no handler"),
        ("--ndays 1 --post http://localhost/ -- /bin/true", not_checked),
        ("--ndays 1 --jobs many -- /bin/true", "error line 1: --jobs many: write a whole number"),
    ] {
        let found = complaints(&env, &format!("@daily {pass} {words}\n"));
        assert!(
            found.first().is_some_and(|finding| finding.starts_with(expected)),
            "{words}: {found:#?}"
        );
    }
    let found = complaints(&env, &format!("BACKLOG_NDAYS=x\n@daily {pass} -- /bin/true\n"));
    assert!(
        found.first().is_some_and(|finding| finding.starts_with("error line 2: ")),
        "{found:#?}"
    );
    let trust = format!("BACKLOG_TRUST_OWNER=maybe\n@daily {pass} --ndays 1 -- /bin/true\n");
    let found = complaints(&env, &trust);
    let expected =
        "warning line 2: not checked: BACKLOG_TRUST_OWNER is \"maybe\"; it must be 1 or 0";
    assert!(found.first().is_some_and(|finding| finding.starts_with(expected)), "{found:#?}");
    let nul = format!("@daily true\0x\n@daily {pass} --ndays 1 -- /bin/true\n");
    let expected = "error line 2: cron ignores the file: line 1: it contains a NUL character";
    assert_eq!(complaints(&env, &nul), [expected]);
}

#[test]
fn a_line_that_is_printed_or_an_example_has_nothing_wrong() {
    let env = TestEnv::new();
    let handler = env.script("handler", "");
    let is_wrong = |finding: &String| !finding.starts_with("ok ");
    for schedule in [
        "--progressive",
        "--classic",
        "--fibonacci",
        "--policy even",
        "--policy even --every 7m",
        "--ndays 7",
        "--ndays 360",
        r#"--policy even --where "PAYLOAD LIKE '50%'""#,
    ] {
        let of_queue =
            if schedule.contains("--where") { &schedule["--policy even".len()..] } else { "" };
        let printed = env.run(&format!("crontab {schedule} -- {handler} 100% 2>&1")).success();
        with_crontab(&env, &printed.stdout);
        let mut found = findings(&env, "crontab", of_queue);
        assert!(!found.is_empty());
        found.retain(is_wrong);
        assert_eq!(found, [""; 0], "{schedule:?}: {}", printed.stdout);
    }
    let example = include_str!("../../crontab.example")
        .replace("\n#*", "\n*")
        .replace("/usr/local/bin/backlog", env!("CARGO_BIN_EXE_backlog"))
        .replace("/usr/local/bin/sync-order", &handler)
        .replace("/srv/shop/shop.db", env.db().to_str().unwrap());
    with_crontab(&env, &example);
    let found = findings(&env, "crontab", "");
    assert_eq!(found.iter().filter(|finding| finding.starts_with("ok ")).count(), 9, "{found:?}");
    assert!(!found.iter().any(is_wrong), "{found:?}");
}

#[test]
fn lines_of_the_system_are_read_and_those_of_other_users_passed_over() {
    let env = TestEnv::minimal();
    let path = with_programs(&env);
    with_crontab(&env, "");
    let line = |user: &str, age: &str| {
        let db = env.path_text("test.db");
        format!("{path}@daily {user} backlog process --db {db} {age} -- x\n")
    };
    let bad = format!("{}60 * * * * nobody true\n", line("root", "--ndays 5"));
    let forgotten = format!("@daily {}/backlog process --ndays 1\n", env.path("bin").display());
    let other = forgotten.replace("--ndays", "--db /other.db --ndays");
    for (name, text) in [
        ("crontab", line("root", "--ndays 1")),
        ("shop", line("root", "--min-ndays 1 --ndays 2")),
        ("shop.cron", line("root", "--min-ndays 5 --ndays 9")),
        ("forgotten", forgotten),
        ("other", other),
        ("nobody", line("nobody", "--min-ndays 2 --ndays 5")),
        ("gone", line("nosuchuser", "--ndays 5")),
        ("bad", bad),
        ("writable", line("root", "--ndays 5")),
        ("foreign", line("root", "--ndays 5")),
        ("spool", line("", "--ndays 5")),
    ] {
        env.write(name, text);
    }
    let hide = "set -e; for place in /etc/cron.d /var/spool/cron/crontabs; do \
                mount -t tmpfs none $place; done; mount --bind crontab /etc/crontab; \
                install -m 644 shop shop.cron forgotten other nobody gone bad /etc/cron.d; \
                install -m 664 writable /etc/cron.d; install -m 644 -o nobody foreign /etc/cron.d; \
                install -m 600 spool /var/spool/cron/crontabs/nobody; exec \"$@\"";
    let like = env.command("");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", hide, "sh"]);
    command.args([env!("CARGO_BIN_EXE_backlog"), "check", "--", "/bin/true"]);
    command.env_clear().envs(like.get_envs().filter_map(|(name, it)| Some((name, it?))));
    command.env("PATH", format!("{}:/usr/bin:/bin", env.path("bin").display()));
    let ran = command.current_dir(env.path("")).ran();
    if ran.stdout.is_empty() {
        return skipped(&format!("/etc/cron.d in check: {}", ran.stderr));
    }
    let lines: Vec<_> = ran.stdout.lines().filter(|line| line.contains("  crontab  ")).collect();
    let taken = env.path_text("bin/backlog");
    let ignored = "cron ignores the file: ";
    let trust = "it must be owned by root, have no other hard link, and be writable only by root";
    let user = "the word before the command must be a user, and ";
    assert_eq!(
        lines,
        [
            "ok       crontab     /etc/crontab line 2: @daily".to_string(),
            format!(
                "error    crontab     /etc/cron.d/bad line 2: {ignored}line 3: 60 * * * * is not a time of crontab(5)"
            ),
            format!("error    crontab     /etc/cron.d/foreign line 2: {ignored}{trust}"),
            format!(
                "error    crontab     /etc/cron.d/forgotten line 1: {ignored}line 1: {user}{taken:?} is none here"
            ),
            format!(
                "error    crontab     /etc/cron.d/gone line 2: {ignored}line 2: {user}\"nosuchuser\" is none here"
            ),
            "ok       crontab     /etc/cron.d/shop line 2: @daily".into(),
            format!("error    crontab     /etc/cron.d/writable line 2: {ignored}{trust}"),
        ],
        "{ran:?}"
    );
}

#[test]
fn queues_that_have_the_same_records_are_named() {
    let env = TestEnv::with_schema(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, other INT, status TEXT DEFAULT 'NEW', mail TEXT DEFAULT 'NEW', kind TEXT, n INT, sent INT, seen INT, date_inserted TEXT DEFAULT '2026-11-20');
         CREATE TABLE u (id INTEGER PRIMARY KEY, status TEXT DEFAULT 'NEW', date_inserted TEXT DEFAULT '2026-11-20');
         INSERT INTO t (kind) VALUES ('a'), ('b'), ('c'), ('b'), ('a'); UPDATE t SET status = 'SUCCESS' WHERE id = 4",
    );
    with_crontab(&env, "");
    let remedy = "give each a `where` that leaves out the records of the other";
    for (other, expected) in [
        ("", format!("error queue \"b\" works on the same records: {remedy}")),
        (
            "where = \"kind >= 'b'\"",
            format!("error queue \"b\" has 1 pending record of this one as well, such as 2: {remedy}"),
        ),
        (
            "id = 'other'\nwhere = \"kind > 'b'\"",
            "error queue \"b\" has other for the id of the same table, not id: neither sees the claims \
             of the other, so give both the same"
                .into(),
        ),
        ("where = \"kind > 'b'\"", String::new()),
        ("table = 'u'", String::new()),
        ("status = 'mail'", String::new()),
        (
            "status = 'mail'\non_success = 'delete'",
            "error queue \"b\" has 3 pending records of this one as well, such as 1: ".to_string() + remedy,
        ),
        (
            "status = 'mail'\nfailures = 'n'",
            "warning queue \"b\" has 4 pending records of this one as well, such as 1, and both write \
             their failures to n: give each its own, or none (failures = \"\")"
                .into(),
        ),
        (
            "status = false\nwhere = 'sent IS NULL'\non_success = { sent = 1 }",
            "error queue \"b\" has 5 pending records of this one as well, such as 1: ".to_string() + remedy,
        ),
        ("status = false\nwhere = 'seen IS NULL'\non_success = { seen = 1 }", String::new()),
        ("shard = '2/2'", String::new()),
        ("table = 'missing'", String::new()),
    ] {
        let own = match other {
            "" | "status = 'mail'" => "",
            "status = 'mail'\nfailures = 'n'" => "failures = 'n'",
            other if other.starts_with("status = false") => {
                "status = false\nwhere = 'sent IS NULL OR n IS NULL'\non_success = { sent = 1, n = 1 }"
            }
            "shard = '2/2'" => "shard = '1/2'",
            _ => "where = \"kind < 'c'\"",
        };
        let table = if other.contains("table") { "" } else { "table = 't'\n" };
        let file = format!("[queue.a]\ntable = 't'\n{own}\n[queue.b]\n{table}{other}\n");
        env.write("backlog.toml", file);
        let found = findings(&env, "queues", "--queue a");
        let expected: Vec<_> = Some(expected).into_iter().filter(|line| !line.is_empty()).collect();
        assert_eq!(found, expected, "{other}");
    }
    // Of a queue that is only typed no more is known.
    assert_eq!(findings(&env, "queues", "--table t"), [""; 0]);
}

#[test]
fn a_status_column_of_another_program_is_told_from_one_that_needs_values() {
    let env = TestEnv::with_schema(
        "CREATE TABLE users (ID INTEGER PRIMARY KEY, status TEXT, DATE_INSERTED TEXT DEFAULT '2026-11-20');
         INSERT INTO users (status) VALUES ('active'), ('active'), ('disabled')",
    );
    with_crontab(&env, "");
    let other = "error no row has a value that is mapped to a status: write status = { column = \
                 \"status\", new = ..., error = ..., success = ... }, or if status is something else, \
                 status = false with `where`";
    for args in ["--table=users", "--table=users --where 'ID > 0'"] {
        assert_eq!(findings(&env, "status", args)[0], other);
    }
    let mapped =
        r#""--set=status={column='status',new='active',error='failed',success='disabled'}""#;
    assert_eq!(
        findings(&env, "status", &format!("--table=users {mapped}")),
        ["ok NEW = 'active' (2); SUCCESS = 'disabled' (1)"]
    );
    env.sql("UPDATE users SET status = NULL");
    assert_eq!(findings(&env, "status", "--table=users")[0], other);
}

#[test]
fn an_index_that_is_read_from_one_end_to_the_other_counts_as_none() {
    let missing = "no index finds pending records: the whole table is read for that";
    for (index, is_fine) in [
        ("(other, s, at, id)", false),
        ("(other, s, at, id) WHERE at IS NOT NULL", false),
        ("(at, id) WHERE s IN ('NEW', 'ERROR')", true),
        ("(s, at, id)", true),
    ] {
        let env = TestEnv::with_schema(&format!(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT, at TEXT, other INT NOT NULL); \
             CREATE INDEX i ON t {index}"
        ));
        with_crontab(&env, "");
        let args = "--table=t --set=status.column=s --set=date_inserted.column=at";
        let found = findings(&env, "index", args);
        assert_eq!(
            found.iter().any(|finding| finding.contains(missing)),
            !is_fine,
            "{index}: {found:?}"
        );
        env.sql(&statements(&env, args).join("\n"));
        let fine = "ok indexes find pending records and single ones";
        assert_eq!(findings(&env, "index", args), [fine], "{index}");
    }
}

#[test]
fn a_rehearsal_says_what_the_table_refuses_and_leaves_it_as_it_was() {
    let env = TestEnv::new();
    with_crontab(&env, "");
    let rehearse = || findings(&env, "rehearsal", "--fibonacci --rehearse");
    assert_eq!(rehearse(), ["warning no record is pending: add one to rehearse a pass"]);
    env.insert(2, MIDNIGHT);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR', FAILURES = 1 WHERE ID = 1");
    let takes = "ok the table takes what a pass may write for record";
    let dump = || env.query("SELECT * FROM BACKLOG");
    let before = dump();
    assert_eq!(rehearse(), [format!("{takes} 2 (NEW)"), format!("{takes} 1 (ERROR)")]);
    env.sql(
        "CREATE TRIGGER no BEFORE UPDATE ON BACKLOG WHEN new.STATUS = 'SUCCESS' AND old.ID = 1
         BEGIN SELECT RAISE(ABORT, 'not this one'); END",
    );
    let found = rehearse();
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0], format!("{takes} 2 (NEW)"));
    assert!(found[1].starts_with("error record 1 (ERROR) would not be tried: "), "{found:?}");
    assert_contains(&found[1], "not this one");
    assert_eq!(dump(), before);
    let none = findings(&env, "rehearsal", "--rehearse");
    assert!(none[0].starts_with("warning it needs a schedule: use "), "{none:?}");
    assert_eq!(findings(&env, "rehearsal", "--fibonacci"), [""; 0]);
    env.sql("DROP TRIGGER no");
    let held = env.pausing();
    let mut pass = env.spawn(&format!("process --fibonacci --jobs 2 -- {}", sh(&held.script)));
    held.wait_for_begin();
    wait_until("both are held", || {
        rehearse().iter().all(|finding| finding.starts_with("warning passes hold the "))
    });
    held.let_go();
    assert!(pass.wait().unwrap().success());
}

#[test]
fn printed_lines_do_the_same_from_anywhere() {
    let env = TestEnv::with_schema(
        "CREATE TABLE \"it's 100%\" (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT DEFAULT CURRENT_TIMESTAMP);
         INSERT INTO \"it's 100%\" DEFAULT VALUES; INSERT INTO \"it's 100%\" DEFAULT VALUES",
    );
    let handler = env.noting("[ \"$1\" = \"50% of \\$HOME\" ]");
    for args in [
        r#"--table "it's 100%" --where 'ID % 2 = 1'"#,
        r#"--table "it's 100%" --where 'ID % 2 = 0' --classic"#,
    ] {
        let args = format!("crontab --db test.db {args} -- {handler} '50% of $HOME'");
        let printed = env.run(&args).success().stdout;
        let lines: Vec<_> = printed.lines().filter(|line| line.starts_with(['*', '0'])).collect();
        assert_eq!(lines.len(), if args.contains("--classic") { 6 } else { 1 });
        // As cron does it: from another directory, with no environment of ours.
        let command = lines[0].split_once(" * * * ").unwrap().1.trim_start_matches("* ");
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &command.replace("\\%", "%")]).current_dir("/").env_clear();
        let out = shell.ran();
        assert_eq!((out.exit, out.stderr.as_str()), (Some(0), ""), "{command}");
    }
    assert_eq!(env.query("SELECT STATUS FROM \"it's 100%\""), "SUCCESS\nSUCCESS");
    let twice = "crontab --classic --progressive -- x";
    env.run(twice).fails(2, &["--classic is a schedule: leave out"]);
    env.run("crontab").fails(2, &["no handler:"]);
    env.run("crontab -- 'a\nb'").fails(2, &["a crontab cannot contain"]);
    let long = format!("crontab --ndays 1 -- x {}", "a".repeat(990));
    env.run(&long).fails(2, &["cron ignores a command longer than 998 bytes, and this one has "]);
}

#[test]
fn the_example_is_what_is_printed() {
    let env = TestEnv::empty();
    let example = include_str!("../../crontab.example");
    let program = env!("CARGO_BIN_EXE_backlog");
    for args in ["--classic", "--fibonacci", "--progressive", "--policy even"] {
        let args = format!("crontab --db /srv/shop/shop.db {args} -- /usr/local/bin/sync-order");
        let printed = env.run(&args).success().stdout.replace(program, "/usr/local/bin/backlog");
        let lines = printed.lines().filter(|line| line.starts_with(['*', '0']));
        for line in lines {
            assert!(example.contains(&format!("{line}\n")), "{line} is not in crontab.example");
        }
    }
}

#[test]
fn a_queue_of_the_file_has_a_line_and_units() {
    let env = TestEnv::minimal();
    let config =
        "[queue.e-mail]\ndb = 'test.db'\nexec = ['/bin/true']\npolicy = 'even'\nevery = '10m'\n";
    env.write("backlog.toml", config);
    let mut command = env.command("crontab --queue e-mail");
    let printed = command.env_remove("BACKLOG_DB").ran().success().stdout;
    let program = env!("CARGO_BIN_EXE_backlog");
    let file = env.path("backlog.toml").canonicalize().unwrap().display().to_string();
    let line = format!("\n*/10 * * * * {program} process --config {file} --queue e-mail\n");
    assert_contains(&printed, &line);
    assert!(printed.starts_with("SHELL=/bin/sh\nPATH=/usr/local/bin:/usr/bin:/bin\n"));
    let units = |systemd: &str, every: &str| {
        env.run(&format!("crontab --queue e-mail {systemd} --every {every}")).success().stdout
    };
    let system = units("--systemd", "4days");
    assert_eq!(system.matches("[Timer]").count(), 1, "{system}");
    assert!(system.starts_with("# /etc/systemd/system/backlog-e-mail.service\n"), "{system}");
    let condition = "ExecCondition=/bin/sh -c '[ $$(expr $$(date +%%s) / 3600 %% 96) -eq 0 ]'\n";
    for line in
        [condition, "\nType=oneshot\nUser=", "\nTimeoutStartSec=infinity\n", "\n#OnFailure="]
    {
        assert_contains(&system, line);
    }
    verify(&env, &system);
    let user = units("--systemd=user", "10m");
    assert!(user.starts_with("# ~/.config/systemd/user/backlog-e-mail.service\n"), "{user}");
    assert!(user.contains("\nOnCalendar=*-*-* *:0/10:00\n") && !user.contains("User="), "{user}");
    verify(&env, &user);
    env.run("crontab --systemd --classic -- x").fails(2, &["cannot be used with"]);
}

/// Has systemd, which has the last word, look at units; says their names.
fn verify(env: &TestEnv, units: &str) -> Vec<String> {
    let dir = env.path("units");
    std::fs::create_dir_all(&dir).unwrap();
    let mut names = Vec::new();
    for unit in units
        .split("# /etc/systemd/system/")
        .flat_map(|unit| unit.split("# ~/.config/systemd/user/"))
    {
        let Some((name, text)) = unit.split_once('\n').filter(|(name, _)| !name.is_empty()) else {
            continue;
        };
        std::fs::write(dir.join(name), text).unwrap();
        names.push(name.to_string());
    }
    let mut analyze = Command::new("systemd-analyze");
    match analyze.arg("verify").args(names.iter().map(|name| dir.join(name))).output() {
        Ok(output) => {
            assert_lacks(&String::from_utf8_lossy(&output.stderr), "backlog-");
        }
        Err(_) => skipped("systemd's check of the printed units: there is no systemd-analyze"),
    }
    names
}

#[test]
fn queues_with_similar_names_have_units_of_their_own() {
    let env = TestEnv::minimal();
    let mut names = Vec::new();
    for (queue, options) in [("a_b", "--ndays 1"), ("a-b", ""), ("a.b", ""), ("a", ""), ("a-1", "")]
    {
        let args = format!("crontab --systemd --queue {queue} {options} -- true");
        let units = env.run(&args).success().stdout;
        assert_contains(&units, &format!("Description=backlog, queue {queue}: "));
        names.extend(verify(&env, &units));
    }
    assert_eq!(names[0], "backlog-a_b.service");
    let different: HashSet<_> = names.iter().collect();
    assert_eq!(different.len(), names.len(), "{names:?}");
}

#[test]
fn what_a_pass_would_refuse_is_seen_before() {
    let env = TestEnv::with_schema(
        "CREATE TABLE t (id, done INT, why TEXT, at TEXT); INSERT INTO t VALUES (NULL, 0, NULL, '2026-11-20'), (1.5, 0, NULL, '2026-11-20'), ('a', 0, NULL, '2026-11-20')",
    );
    with_crontab(&env, "");
    let config = "[defaults]\ntable = 't'\ndate_inserted = 'at'\nwhere = 'done = 0'\non_success = { why = 'x' }\nexec = ['./handler']\n\
                  jobs = 0\norder = 'new'\n";
    env.write("backlog.toml", config);
    // These two cannot be read at all; the rest is looked at all the same.
    assert_eq!(
        findings(&env, "options", ""),
        [
            "error jobs = 0: write a whole number from 1 to 1,024",
            "error order = \"new\": \"new\" is not an order; use one of newest, oldest, \"COLUMN asc\" or \
             \"COLUMN desc\"",
        ]
    );
    assert_eq!(
        findings(&env, "ids", ""),
        ["error 2 pending records never tried, because the id is not usable: NULL"]
    );
    let nothing = "error it sets no column that `where` reads: the row stays pending";
    assert_eq!(findings(&env, "on_success", ""), [nothing]);
    let schedule = findings(&env, "schedule", "");
    assert_eq!(schedule, ["warning none is configured: write it into each line"]);
    // It stands beside the file, wherever cron starts.
    let handler = format!("error there is no {}", env.path("./handler").display());
    assert_eq!(findings(&env, "handler", ""), [handler]);
    let typed = findings(&env, "handler", "-- ./handler");
    assert_eq!(
        typed,
        ["error ./handler depends on the directory that cron starts it in: write its whole path"]
    );
    // Where a line is installed, it is that line's path that counts.
    let handler = env.script("handler", "");
    let pass = format!("{} process --db {}", env!("CARGO_BIN_EXE_backlog"), env.db().display());
    with_crontab(&env, &format!("@daily cd /tmp && {pass} --ndays 1 -- {handler}\n"));
    let typed = findings(&env, "handler", "-- ./handler");
    assert_eq!(typed, [format!("ok {}", env.path("./handler").display())]);
}

#[test]
fn values_that_only_a_collation_makes_the_same_are_told_apart() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT COLLATE NOCASE, DATE_INSERTED TEXT);
         INSERT INTO BACKLOG (STATUS, DATE_INSERTED) VALUES ('NEW', '2026-11-20'), ('new', '2026-11-20')",
    );
    with_crontab(&env, "");
    let like = "error 'new': 1 row left alone, because it is not 'NEW': map it as well";
    assert_eq!(findings(&env, "status", "")[1], like);
}

#[test]
fn a_schedule_by_count_wants_its_own_index() {
    let env = TestEnv::with_schema(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, s INT, at TEXT, n INT, last INT); CREATE INDEX t_backlog ON t (last)",
    );
    with_crontab(&env, "");
    let table = "--table t --set status.column=s --set status.new=0 --set status.error=1 \
                 --set status.success=2 --set date_inserted.column=at --set failures=n \
                 --set last_failure=last";
    let args = format!("{table} --fibonacci");
    let missing = statements(&env, &args);
    assert_eq!(missing.len(), 2, "{missing:?}");
    env.sql(&missing.join("\n"));
    assert_eq!(findings(&env, "index", &args), ["ok indexes find pending records and single ones"]);
}

#[test]
fn a_column_stands_in_a_proposed_index_once() {
    let env = TestEnv::with_schema("CREATE TABLE t (s TEXT, at TEXT)");
    with_crontab(&env, "");
    let proposed = statements(&env, "--table=t --set=status=s --set=date_inserted=at --set=id=at");
    assert_contains(&proposed[0], "\"t_backlog\" ON \"t\" (\"at\") WHERE ");
}

#[test]
fn nothing_is_written_to_a_log_that_a_crash_left() {
    let env = TestEnv::minimal();
    with_crontab(&env, "");
    let connection = env.connection();
    connection.execute_batch("INSERT INTO BACKLOG (PAYLOAD) VALUES ('{}')").unwrap();
    std::fs::create_dir(env.path("copy")).unwrap();
    for name in ["test.db", "test.db-wal"] {
        std::fs::copy(env.path(name), env.path("copy").join(name)).unwrap();
    }
    let copy = env.path("copy/test.db");
    let before = std::fs::read(&copy).unwrap();
    let ran = run(&env, &format!("check --db {}", copy.display())).success();
    assert_contains(&ran.stdout, "1 row, 1 pending");
    assert!(std::fs::read(&copy).unwrap() == before, "the log is where it was");
    assert!(env.path("copy/test.db-wal").exists());
}

#[test]
fn printed_lines_carry_what_was_said_anywhere() {
    let env = TestEnv::minimal();
    env.script("x", "");
    let line = |variables: &[(&str, &str)], args: &str| {
        let mut command = env.command(&format!("crontab {args} -- ./x"));
        let ran = command.envs(variables.iter().copied()).ran().success();
        let line = ran.stdout.lines().last().unwrap().to_string();
        let db = env.db().canonicalize().unwrap().display().to_string();
        let line = line.replace(env!("CARGO_BIN_EXE_backlog"), "P").replace(&db, "DB");
        line.replace(&env.path("").canonicalize().unwrap().display().to_string(), ".")
    };
    assert_eq!(
        line(&[("BACKLOG_POLICY", "sidekiq"), ("BACKLOG_WHERE", "a=1")], "--every 10m --where b=2"),
        "*/10 * * * * P process --db DB --every 10m --policy sidekiq --where '(b=2) AND (a=1)' -- ./x"
            .replace("(b=2) AND (a=1)", "(a=1) AND (b=2)")
    );
    let set = r#"--progressive --set 'status={column="state"}' --set id=nr"#;
    let set = line(&[("BACKLOG_STRICT", "yes"), ("BACKLOG_RATE", "5/s")], set);
    assert_eq!(
        set,
        "*/5 * * * * P process --db DB --progressive --rate 5/s --strict --set 'status={column=\"state\"}' \
         --set 'id=nr' -- ./x"
    );
    env.write("sns.json", "{}");
    let sns = line(&[], "--policy sns:sns.json '--where=-1 > ID'");
    assert_eq!(sns, "* * * * * P process --db DB --policy sns:./sns.json '--where=-1 > ID' -- ./x");
    // A link may lead elsewhere tomorrow.
    std::os::unix::fs::symlink("x", env.path("link")).unwrap();
    let linked = env.run("crontab --ndays 1 -- ./link").success().stdout;
    assert!(linked.trim_end().ends_with("/link"), "{linked}");
    let ages = env.run("crontab --min-ndays 1 --ndays 7 -- x").success().stdout;
    assert_contains(&ages, "# 1 to 7 days old, every 1h.\n0 * * * * ");
    let odd = "crontab --policy even --every 90s -- x";
    env.run(odd).fails(2, &["cron starts a line in whole minutes: write 2m, not 90s\n"]);
}

#[test]
fn no_index_is_proposed_for_a_table_that_takes_none() {
    let env = TestEnv::with_schema(
        "CREATE VIRTUAL TABLE BACKLOG USING fts5 (ID, STATUS, DATE_INSERTED);
         INSERT INTO BACKLOG VALUES ('1', 'NEW', '2026-11-20 23:00:00')",
    );
    let found = env.run_at(MIDNIGHT, "check --ndays 1 -- /bin/true").stdout;
    assert!(!found.contains("CREATE") && !found.contains("index"), "{found}");
    env.pass("--ndays 1 -- /bin/true").silent();
    assert_eq!(env.count("SUCCESS"), 1);
}

#[test]
fn an_index_in_which_other_columns_come_first_does_not_find_an_id() {
    let missing = "no index finds a record by its id: the whole table is read for that";
    for (schema, is_fine) in [
        (
            "CREATE TABLE t (name TEXT, id TEXT, s, at TEXT, PRIMARY KEY (name, id)) WITHOUT ROWID",
            false,
        ),
        ("CREATE TABLE t (name TEXT, id TEXT, s, at TEXT, PRIMARY KEY (name, id))", false),
        (
            "CREATE TABLE t (name TEXT, id TEXT, s, at TEXT); CREATE INDEX i ON t (name, id, s, at)",
            false,
        ),
        (
            "CREATE TABLE t (name TEXT, id TEXT, s, at TEXT); CREATE INDEX i ON t (id) WHERE s = 'NEW'",
            false,
        ),
        (
            "CREATE TABLE t (name TEXT, id TEXT, s, at TEXT, PRIMARY KEY (id, name)) WITHOUT ROWID",
            true,
        ),
        ("CREATE TABLE t (name TEXT, id TEXT UNIQUE, s, at TEXT)", true),
        ("CREATE TABLE t (name TEXT, id INTEGER PRIMARY KEY, s, at TEXT)", true),
    ] {
        let env = TestEnv::with_schema(schema);
        with_crontab(&env, "");
        env.sql(
            "INSERT INTO t (name, id, s, at) WITH RECURSIVE n(i) AS \
             (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) SELECT i % 2, i, 'NEW', '2026-11-20' FROM n;
             ANALYZE",
        );
        let args = "--table=t --set=status.column=s --set=date_inserted.column=at";
        let found = findings(&env, "index", args);
        let is_missing = found.iter().any(|finding| finding.contains(missing));
        assert_eq!(is_missing, !is_fine, "{schema}: {found:?}");
        env.sql(&statements(&env, args).join("\n"));
        let fine = "ok indexes find pending records and single ones";
        assert_eq!(findings(&env, "index", args), [fine], "{schema}");
    }
}

#[test]
fn what_only_the_application_has_is_named_before_a_pass_meets_it() {
    let columns =
        "ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT, BODY TEXT";
    let table = |more: &str| format!("CREATE TABLE BACKLOG ({columns}{more})");
    for (schema, says) in [
        (table("") + "; CREATE INDEX i ON BACKLOG (fold(STATUS))", "unknown function: fold()"),
        (
            table("") + "; CREATE INDEX i ON BACKLOG (ID) WHERE fold(STATUS)",
            "unknown function: fold()",
        ),
        (table(", F AS (fold(BODY))"), "unknown function: fold()"),
        (table(", F AS (fold(BODY)) STORED"), "unknown function: fold()"),
        (table(", CHECK (fold(STATUS) <> '')"), "unknown function: fold()"),
        (
            table("")
                + "; CREATE TRIGGER t AFTER UPDATE ON BACKLOG WHEN fold(new.STATUS) BEGIN SELECT 1; END",
            "no such function: fold",
        ),
        (
            table("")
                + "; CREATE TABLE log (x CHECK (fold(x))); CREATE TRIGGER t AFTER UPDATE ON BACKLOG BEGIN INSERT INTO log VALUES (1); END",
            "unknown function: fold()",
        ),
        (
            table("") + "; CREATE INDEX i ON BACKLOG (STATUS COLLATE nocase)",
            "no such collation sequence: folded",
        ),
        (table(", F TEXT COLLATE nocase UNIQUE"), "no such collation sequence: folded"),
    ] {
        let env = TestEnv::empty();
        with_crontab(&env, "");
        let connection = env.connection();
        let flags = rusqlite::functions::FunctionFlags::SQLITE_DETERMINISTIC;
        connection.create_scalar_function("fold", 1, flags, |_| Ok("x")).unwrap();
        connection.execute_batch(&schema).unwrap();
        connection
            .execute("INSERT INTO BACKLOG (DATE_INSERTED) VALUES ('2026-11-20')", [])
            .unwrap();
        env.sql(
            "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(sql, 'nocase', 'folded')",
        );
        let ran = run(&env, &format!("check --now @{MIDNIGHT} --ndays 9 -- /bin/true"));
        assert_eq!((ran.exit, ran.stderr.as_str()), (Some(1), ""), "{schema}: {ran:?}");
        let fixes = |line: &str| line.starts_with("error") && line.contains(says);
        assert!(ran.stdout.lines().any(fixes), "{schema}: {ran:?}");
        for other in ["ok       dates", "ok       schedule", "ok       handler", "warning  crontab"]
        {
            assert!(ran.stdout.contains(other), "{schema}: {ran:?}");
        }
    }
}

#[test]
fn a_damaged_page_is_a_finding_beside_the_others() {
    let env = TestEnv::with_schema(
        "PRAGMA page_size = 1024;
         CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT);
         INSERT INTO BACKLOG (DATE_INSERTED) WITH RECURSIVE n(i) AS
         (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) SELECT '2026-11-20' FROM n;
         CREATE TRIGGER audit AFTER UPDATE ON BACKLOG BEGIN SELECT 1; END",
    );
    with_crontab(&env, "");
    let leaf = "SELECT pageno FROM dbstat WHERE name = 'BACKLOG' AND pagetype = 'leaf' \
                ORDER BY path LIMIT 1 OFFSET 5";
    let page = env.query(leaf).parse::<u64>().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(env.db()).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0xff; 64], (page - 1) * 1024).unwrap();
    let ran = run(&env, "check --ndays 9 -- /bin/true");
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(1), ""), "{ran:?}");
    for line in [
        "error    table       could not read ",
        "test.db: database disk image is malformed; restore a backup",
        "(while reading the pending records, the number of rows, the statuses",
        "ok       table       BACKLOG, its rows not counted, at least ",
        "warning  trigger     audit runs",
        "ok       handler     /bin/true",
    ] {
        assert_contains(&ran.stdout, line);
    }
}

#[test]
fn a_broken_line_is_not_called_good_as_well() {
    let env = TestEnv::new();
    with_programs(&env);
    let db = env.path_text("test.db");
    let line = format!("* * * * * /no/such/backlog process --db {db} --ndays 360 -- /bin/true\n");
    with_crontab(&env, &line);
    assert_eq!(findings(&env, "crontab", ""), ["error line 1: there is no /no/such/backlog"]);
}

#[test]
fn the_limit_of_a_queue_is_shown_and_one_of_no_queue_is_said() {
    let env = TestEnv::new();
    with_crontab(&env, "");
    let config = "[defaults]\ndb = 'test.db'\nfibonacci = true\nexec = ['true']\n[queue.reports]\n\
                  [queue.mails]\nmax_attempts = 5\nmax_age = '30d'\n";
    env.write("backlog.toml", config);
    let none = "warning without max_attempts or max_age, a record that always fails is retried in silence; with one, \
                it is archived and cron mails that";
    assert_eq!(findings(&env, "limits", "--queue reports"), [none]);
    let both = "ok a failing record is archived after 5 attempts or an age of 30d";
    assert_eq!(findings(&env, "limits", "--queue mails"), [both]);
    let with = |name: &str, args: &str| {
        let mut command = env.command(args);
        command.env_remove("BACKLOG_DB").env(name, "3").ran()
    };
    let says = "MAX_REPORT_RETRY_ATTEMPTS matches no queue; use one of MAX_REPORTS_RETRY_ATTEMPTS, \
                MAX_MAILS_RETRY_ATTEMPTS\n";
    let check = with("MAX_REPORT_RETRY_ATTEMPTS", "check --queue reports");
    assert_contains(&check.stdout, &format!("warning  limits      {says}"));
    let pass = with("MAX_REPORT_RETRY_ATTEMPTS", "process --queue reports -v").success();
    assert_contains(&pass.stderr, says);
    let check = with("MAX_REPORTS_RETRY_ATTEMPTS", "check --queue reports");
    let ok = "ok       limits      a failing record is archived after 3 attempts\n";
    assert!(check.stdout.contains(ok) && !check.stdout.contains("no queue"), "{}", check.stdout);
}
