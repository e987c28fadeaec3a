//! The table that users already have: names, values, dates and conditions of their own.

use crate::testenv::*;

fn with_config(schema: &str, config: &str) -> TestEnv {
    let env = TestEnv::with_schema(schema);
    env.write("backlog.toml", config);
    env
}

#[test]
fn everything_can_be_said_by_options() {
    let env = TestEnv::with_schema(
        "CREATE TABLE mails (nr INTEGER PRIMARY KEY, state INT, created INT, tries INT, tried INT, why TEXT, kind TEXT);
         INSERT INTO mails VALUES (1, 2, 1795132800000, 0, NULL, NULL, 'a'), (2, 2, 1795132800000, NULL, NULL, NULL, 'a'),
           (3, 1, 1795132800000, 2, 1795132900, 'x', 'a'), (4, 0, 1795132800000, 0, NULL, NULL, 'a'), (5, 2, 1795132800000, 0, NULL, NULL, 'b'), (6, 7, 1795132800000, 0, NULL, NULL, 'a')",
    );
    let table = r#"--table mails --set id=nr --set status.column=state --set status.new=2 --set status.error=[3,1] --set status.success=0 --set status.archived=4 --set date_inserted.column=created --set date_inserted.format=epoch-ms --set failures=tries --set last_failure=tried --set last_error=why --where "kind = 'a'""#;
    let handler = env.noting("[ $BACKLOG_ID = 1 ] || { echo no >&2; exit 1; }");
    let args = format!("process --fibonacci --max-attempts 3 {table} -- {handler}");
    env.run_at(MIDNIGHT, &args).fails(1, &["record 3 failed after 3 attempts"]);
    assert_eq!(env.handled(), ["3", "2", "1"]);
    assert_eq!(
        env.query("SELECT nr, state, tries, tried, why FROM mails ORDER BY nr"),
        "1|0|0||\n2|3|1|1795219200|no\n3|4|3|1795219200|no\n4|0|0||\n5|2|0||\n6|7|0||"
    );
    let list = env.run(&format!("list --status ERROR,ARCHIVED {table}")).success();
    assert_contains(&list.stdout, "\n3           ARCHIVED  2026-11-20T00:00:00Z");
    let status = env.run(&format!("status --json {table}")).success().stdout;
    let status = json(&status);
    let totals = ["NEW", "ERROR", "SUCCESS", "ARCHIVED", "7"];
    let totals = totals.map(|name| status["statuses"][name]["total"].as_u64());
    assert_eq!(totals, [Some(0), Some(1), Some(2), Some(1), Some(1)]);
    env.run(&format!("restore --all {table}")).success();
    env.run(&format!("archive 2 {table}")).success();
    assert_eq!(env.query("SELECT state FROM mails WHERE nr IN (2, 3)"), "4\n2");
}

#[test]
fn what_is_typed_goes_before_the_environment_and_that_before_the_file() {
    let env = with_config(
        "CREATE TABLE a (ID, STATUS, DATE_INSERTED); CREATE TABLE b (ID, STATUS, DATE_INSERTED);
         CREATE TABLE c (ID, STATUS, DATE_INSERTED)",
        "[defaults]\ntable = 'a'\nndays = 5\njobs = 3\n[queue.q]\nndays = 7\nmax_runtime = '1m'",
    );
    let line = |variables: &[(&str, &str)], args: &str| {
        let mut command = env.command(&format!("status {args}"));
        let ran = command.envs(variables.iter().copied()).output().unwrap();
        let ran = crate::testenv::ran(&ran).success();
        let table = ran.stdout.split(' ').next().unwrap().to_string();
        let due = ran.stdout.lines().find(|line| line.starts_with("due now")).unwrap();
        format!("{table} {}", due.split_once('(').unwrap().1.trim_end_matches(')'))
    };
    assert_eq!(line(&[], ""), "a --ndays 5");
    assert_eq!(line(&[], "--queue q"), "a --ndays 7");
    assert_eq!(line(&[("BACKLOG_QUEUE", "q")], ""), "a --ndays 7");
    let b = [("BACKLOG_TABLE", "b"), ("BACKLOG_NDAYS", "9")];
    assert_eq!(line(&b, "--queue q"), "b --ndays 9");
    assert_eq!(line(&b, "--queue q --table c"), "c --ndays 9");
    assert_eq!(line(&b, "--set table=c --set ndays=0.5"), "c --ndays 0.5");
    assert_eq!(line(&b, "--set table=c --table a"), "a --ndays 9");
    for (conditions, says) in [(["1", "no_such = 1"], 1), (["1", "1"], 0)] {
        let [one, other] = conditions.map(|condition| format!("where={condition}"));
        let args = format!("status --ndays 5 --set {} --set {}", quoted(&one), quoted(&other));
        assert_eq!(env.run(&args).exit, Some(says), "both hold");
    }
    // A schedule in one layer replaces the whole schedule of the layers below.
    assert_eq!(line(&b, "--progressive"), "b --progressive");
    let env_policy = [("BACKLOG_PROGRESSIVE", "1d/5m,7d/1h"), ("BACKLOG_EVERY", "5m")];
    assert_eq!(line(&env_policy, "--queue q"), "a --progressive 1d/5m,7d/1h");
    assert_eq!(line(&env_policy, "--ndays 2"), "a --ndays 2");
    let ran = env.command("process -- true").env("BACKLOG_STRICT", "perhaps").output();
    crate::testenv::ran(&ran.unwrap()).fails(2, &["BACKLOG_STRICT=perhaps: write true or false"]);
    // A handler is told of its record under the names of options.
    let inherited = [("BACKLOG_TABLE", "b"), ("BACKLOG_QUEUE", "q"), ("BACKLOG_PASS", "token")];
    assert_eq!(line(&inherited, ""), "a --ndays 5");
}

#[test]
fn the_file_is_found_where_it_is_looked_for() {
    let env = TestEnv::minimal();
    let config = |name: &str, ndays: u32| {
        let path = env.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("[defaults]\nndays = {ndays}\n")).unwrap();
        path.display().to_string()
    };
    let shows = |args: &str, variables: &[(&str, &str)]| {
        let mut command = env.command(&format!("status --json {args}"));
        let home = env.path_text("home");
        let ran = command.env("HOME", home).envs(variables.iter().copied()).output().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
        json["line"].as_str().map(String::from)
    };
    assert_eq!(shows("", &[]), None);
    config("home/.config/backlog/config.toml", 1);
    assert_eq!(shows("", &[]).as_deref(), Some("--ndays 1"));
    config("xdg/backlog/config.toml", 2);
    let xdg = env.path_text("xdg");
    assert_eq!(shows("", &[("XDG_CONFIG_HOME", &xdg)]).as_deref(), Some("--ndays 2"));
    config("backlog.toml", 3);
    assert_eq!(shows("", &[("XDG_CONFIG_HOME", &xdg)]).as_deref(), Some("--ndays 3"));
    let (four, five) = (config("four.toml", 4), config("five.toml", 5));
    assert_eq!(shows("", &[("BACKLOG_CONFIG", &four)]).as_deref(), Some("--ndays 4"));
    let typed = shows(&format!("--config {five}"), &[("BACKLOG_CONFIG", &four)]);
    assert_eq!(typed.as_deref(), Some("--ndays 5"));
    env.run("status --config six.toml").fails(2, &["could not read", "six.toml"]);
}

#[test]
fn a_mistake_in_the_file_is_named_with_what_is_legal() {
    let env = TestEnv::minimal();
    for (config, says) in [
        (
            "polcy = 1",
            "the key \"polcy\" is in no section; write it below [defaults] or [queue.NAME]",
        ),
        ("[queues.a]", "no section \"queues\"; use [defaults] or "),
        (
            "[queue.a]\npolcy = 'even'",
            "queue a: no key \"polcy\"; `backlog help backlog.toml` lists all keys\n",
        ),
        (
            "[defaults]\nxyzzy = 1",
            "defaults: no key \"xyzzy\"; `backlog help backlog.toml` lists all keys\n",
        ),
        (
            "[defaults]\nmax-attempts = 3",
            "defaults: no key \"max-attempts\"; write it as max_attempts; `backlog help",
        ),
        (
            "[queue.a]\nstatus = { new = 1, sucess = 2 }",
            "no key \"sucess\"; use one of column, new",
        ),
        (
            "[queue.a]\ndate_inserted = { format = 'x', colum = 'y' }",
            "no key \"colum\"; use one of ",
        ),
        ("[queue.a]\nfibonacci = 1", "fibonacci = 1: write true or false"),
        ("[queue.a]\non_success = 'remove'", "or \"delete\""),
        (
            "[queue.a]\non_success = { x = '{noww}' }",
            "use one of {now}, {next}, {error}, {null} and {+1}",
        ),
        ("[queue.a]\non_failure = 'delete'", "on_failure = \"delete\": write columns to set"),
        ("[queue.a\n", "line 1: "),
        ("[defaults]\nid = ? # '?'\n", "line 2: a question is open: replace ? with the answer"),
        (
            "[defaults]\nstatus = { new = 'a?', error = 'b', success = ? }\n",
            "line 2: a question is open",
        ),
        (
            "[defaults]\nndays = 1\nstatus = { new = 'a', error = 'b', success = '?' }\n",
            "status: a question is open: replace ? with the answer",
        ),
        ("[defaults]\r\nevery = 5m\r\n", "line 2: put each text in quotes, as in {column"),
        ("[defaults]\nfailures = fails # n\n", "line 2: put each text in quotes, as in {column"),
        ("[defaults]\nwhere = kind = 1", "line 2: put each text in quotes, as in {column"),
        (
            "[defaults]\ndb = postgres://u:secret@h/d",
            "line 2: put each text in quotes, as in {column",
        ),
        ("[defaults]\npassword = secret", "line 2: put each text in quotes, as in {column"),
        ("[defaults]\nid = [a, b]", "line 2: put each text in quotes, as in {column=\"state\"}"),
        ("[defaults]\nndays =\n", "line 2: string values must be quoted"),
        ("[defaults]\nndays = 1\nevery = '5m'\nndays = 2", "line 4: duplicate key \"ndays\"\n"),
        ("[queue.a]\nndays = 1\n\n[queue.a]\n", "line 4: duplicate key \"a\"\n"),
        ("[defaults]\nndays = 'soon'", "ndays = \"soon\": not a number of days"),
        ("[defaults]\norder = 'random'", "order = \"random\": "),
        (
            "[defaults]\nndays = 1\nstatus = { new = 2, error = 3 }",
            "the values of STATUS for SUCCESS are missing: set status.success too",
        ),
        (
            "[defaults]\nndays = 1\nstatus = { new = 2, error = 3, success = 2 }",
            "2 cannot mean both",
        ),
        ("[defaults]\nndays = 1\nstatus = false", "--where must say which rows are pending"),
        ("[defaults]\nndays = 1\ndate_inserted = { zone = 'Mars' }", "\"Mars\" is not a time zone"),
        (
            "[defaults]\nndays = 1\ndate_inserted = { format = 'unix' }",
            "use one of iso, compact, epoch, ",
        ),
        ("[queue.a]\nndays = 1\n[queue.b]", "no queue chosen:"),
    ] {
        env.write("backlog.toml", config);
        let queue = if config.starts_with("[queue.a]") { "--queue a" } else { "" };
        let mut command = env.command(&format!("process {queue} -- true"));
        if says == "no queue chosen:" {
            command = env.command("process -- true");
            command.env_remove("BACKLOG_DB");
        }
        let ran = command.ran().fails(2, &[says]);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        assert_lacks(&ran.stderr, "secret");
    }
    env.write("backlog.toml", "[queue.a]\nexec = 'true'");
    let ran = env.run("process --queue a");
    ran.fails(2, &["queue a: ", "exec = \"true\": write the command and its arguments"]);
    env.write("backlog.toml", "[queue.a]\nndays = 1\nexec = ['true']\ngive_up_on = [0]");
    let says = "toml: queue a: give_up_on: \"0\" is neither an exit code from 1 to 255, ";
    env.run("process --queue a").fails(2, &[says]);
    let mut command = env.command("process --queue a -- true");
    let ran = command.env("BACKLOG_JOBS", "many").ran();
    ran.fails(2, &["BACKLOG_JOBS=many: write a whole number from 1 to 1,024\n"]);
    env.write("backlog.toml", "[queue.email]\nndays = 1\n[queue.orders]");
    let args = "process --queue emial -- true";
    env.run(args).fails(2, &["no queue \"emial\"; use one of email, orders"]);
}

#[test]
fn names_of_every_kind_are_just_names() {
    for name in [
        "it's",
        "a \"quoted\" name",
        "select",
        "x; DROP TABLE BACKLOG; --",
        "größe 😀",
        "a.b",
        "a,b\\c",
        "backlog:counts",
        "[x]",
        "%",
    ] {
        let quoted = format!("\"{}\"", name.replace('"', "\"\""));
        let env = with_config(
            &format!(
                "CREATE TABLE {quoted} (i INTEGER PRIMARY KEY, {quoted} TEXT, d TEXT, f INT, \"l {0}\" TEXT, e TEXT);
                 INSERT INTO {quoted} VALUES (1, 'it''s; new', '2026-11-20', 0, NULL, NULL), (2, 'it''s; new', '2026-11-20', 0, NULL, NULL);
                 CREATE TABLE BACKLOG (x);",
                name.replace('"', "\"\"")
            ),
            &format!(
                "[queue.q]\ntable = {name:?}\nid = 'i'\ndate_inserted = 'd'\nfailures = 'f'\nlast_failure = {:?}\nlast_error = 'e'\n\
                 status = {{ column = {name:?}, new = \"it's; new\", error = \"it's; 'bad\", success = '\"' }}\nwhere = {:?}\non_success = {{ e = \"it's {{now}}\" }}",
                format!("l {name}"),
                format!("{quoted} <> ''"),
            ),
        );
        let handler = env.noting("exit $(($BACKLOG_ID - 1))");
        env.pass(&format!("--queue q --fibonacci -- {handler}")).silent();
        assert_eq!(env.handled(), ["2", "1"], "{name}");
        let query = format!("SELECT i, {quoted}, f, e FROM {quoted} ORDER BY i");
        assert_eq!(env.query(&query), "1|\"|0|it's {now}\n2|it's; 'bad|1|exit status 1", "{name}");
        env.run("check --queue q").success();
        env.run_at(MIDNIGHT + 60, "process --queue q --fibonacci -- true").silent();
        assert_eq!(env.query(&format!("SELECT DISTINCT {quoted} FROM {quoted}")), "\"", "{name}");
        assert_eq!(env.query("SELECT count(*) FROM BACKLOG"), "0");
    }
}

#[test]
fn an_injection_is_a_missing_column_and_a_condition_one_expression() {
    let env = TestEnv::minimal();
    env.insert(2, MIDNIGHT);
    for key in [
        "id",
        "status.column",
        "date_inserted",
        "failures",
        "last_failure",
        "last_error",
        "payload",
    ] {
        let set = format!("{key}=ID\" = 1; DELETE FROM BACKLOG; --");
        let args = format!("process --ndays 1 --set {} -- true", quoted(&set));
        env.run_at(MIDNIGHT, &args).fails(1, &["has no column ID\" = 1; DELETE FROM BACKLOG; --"]);
    }
    let table = "process --ndays 1 --table 'x\"; DELETE FROM BACKLOG' -- true";
    env.run(table).fails(1, &["no table"]);
    for condition in
        ["1) OR (1", "ID = ?", "1 THEN 1 END; DELETE FROM BACKLOG; --", "count(*) > 0", ""]
    {
        let args = format!("process --ndays 1 --where {} -- true", quoted(condition));
        env.run_at(MIDNIGHT, &args).exits(1);
    }
    assert_eq!(env.statuses(), "1|NEW\n2|NEW");
}

#[test]
fn an_or_in_a_condition_does_not_widen_it_and_typed_ones_narrow() {
    let env = with_config(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT, DATE_INSERTED TEXT, K TEXT);
         INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-11-20', 'a'), (2, 'SUCCESS', '2026-11-20', 'b'), (3, 'NEW', '2026-11-20', 'b'),
           (4, 'NEW', '2026-11-20', 'c'), (5, 'NEW', '2020-11-20', 'a'), (6, 'ARCHIVED', '2026-11-20', 'c')",
        "[queue.q]\nwhere = \"K = 'a' OR K = 'b' -- and no more\"\nndays = 3",
    );
    let handler = env.noting("exit 1");
    let q = format!("process --queue q --where 'ID < 3 OR ID > 4' -- {handler}");
    env.run_at(MIDNIGHT, &q).silent();
    assert_eq!(env.handled(), ["1"]);
    env.pass(&format!("--queue q -- {handler}")).silent();
    assert_eq!(env.handled(), ["3", "1"]);
    let ran = env.run("archive --queue q 4 5").success();
    assert_eq!(ran.stdout, "4: is NEW, but not in the queue; left unchanged\narchived 1 record\n");
    let ran = env.run("restore --queue q --all").success();
    let restored = "restored 1 record\n5: next attempt none: older than --ndays\n";
    assert_eq!(ran.stdout, restored, "record 6 is not the queue's");
    let ran = env.run_at(MIDNIGHT, "explain --queue q 4").success();
    assert_contains(&ran.stdout, "not tried: is NEW, but not in the queue");
}

#[test]
fn two_booleans_can_be_a_state() {
    let env = with_config(
        "CREATE TABLE push (id INTEGER PRIMARY KEY, sent BOOLEAN NOT NULL DEFAULT 0, dead BOOLEAN NOT NULL DEFAULT 0, at DATETIME, n INT);
         INSERT INTO push VALUES (1, 0, 0, '2026-11-20 10:00:00', NULL), (2, 0, 0, '2026-11-20 10:00:00', NULL),
           (3, 1, 0, '2026-11-20 10:00:00', NULL), (4, 0, 1, '2026-11-20 10:00:00', NULL)",
        "[queue.push]\ntable = 'push'\nwhere = 'NOT sent AND NOT dead'\ndate_inserted = 'at'\nfailures = 'n'\nndays = 9\nmax_attempts = 2\n\
         on_success = { sent = true }\non_archive = { dead = true }",
    );
    let args = format!("process --queue push -- {}", env.noting("exit $(($BACKLOG_ID - 1))"));
    env.run_at(MIDNIGHT, &args).silent();
    env.run_at(MIDNIGHT, &args).fails(1, &["record 2 failed after 2 attempts; archived"]);
    assert_eq!(env.query("SELECT id, sent, dead, n FROM push"), "1|1|0|\n2|0|1|2\n3|1|0|\n4|0|1|");
    assert_eq!(env.handled(), ["2", "1", "2"]);
    env.run("restore --queue push 2")
        .fails(1, &["`restore` cannot tell the archived records of table "]);
}

#[test]
fn a_condition_that_the_charge_makes_false_does_not_lose_the_outcome() {
    let env = with_config(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, done INT, at TEXT, tries INT NOT NULL DEFAULT 0);
         INSERT INTO t VALUES (1, 0, '2026-11-20', 4), (2, 0, '2026-11-20', 4), (3, 0, '2026-11-20', 5)",
        "[queue.t]\ntable = 't'\nwhere = 'done = 0 AND tries < 5'\ndate_inserted = 'at'\nfailures = 'tries'\nndays = 9\non_success = { done = 1 }",
    );
    env.pass(&format!("--queue t -- {}", env.noting("exit $(($BACKLOG_ID - 1))"))).silent();
    assert_eq!(env.handled(), ["2", "1"]);
    assert_eq!(env.query("SELECT id, done, tries FROM t"), "1|1|4\n2|0|5\n3|0|5");
    // A row that the application finishes meanwhile is left as it is.
    env.sql("UPDATE t SET tries = 0 WHERE id = 2");
    let pause = env.pausing();
    let args = format!("process --queue t --now @1795219200 -- {}", sh(&pause.script));
    let mut pass = env.spawn_logging(&with_options("-v", &args));
    pause.wait_for_begin();
    env.sql("UPDATE t SET done = 7 WHERE id = 2");
    pause.let_go();
    assert!(pass.wait().unwrap().success());
    assert_eq!(env.query("SELECT done, tries FROM t WHERE id = 2"), "7|1");
}

#[test]
fn a_row_without_a_status_goes_when_it_is_done_and_only_then() {
    let env = with_config(
        "CREATE TABLE jobs (id TEXT PRIMARY KEY, body BLOB, at INT) WITHOUT ROWID;
         INSERT INTO jobs VALUES ('a', 'x', 1795132800000000000), ('b', 'y', 1795132800000000001), ('c', 'z', 1795219200000000001)",
        "[queue.jobs]\ntable = 'jobs'\nwhere = '1'\ndate_inserted = { column = 'at', format = 'epoch-ns' }\nmin_ndays = 0.5\nndays = 1\non_success = 'delete'\npayload = 'body'",
    );
    let seen = env.path_text("seen");
    let handler = env.script("handler", &format!("cat >>{seen}; [ $BACKLOG_ID != b ]"));
    env.pass(&format!("--queue jobs -- {handler}")).silent();
    assert_eq!(std::fs::read_to_string(&seen).unwrap(), "yx", "newest first, to the nanosecond");
    assert_eq!(env.query("SELECT id FROM jobs"), "b\nc");
    env.run("archive --queue jobs b").fails(1, &["status.archived", "on_archive"]);
    let mut command = env.command(
        r#"list --table jobs --where "id = 'c'" --set date_inserted.column=at --set status=false"#,
    );
    assert_contains(&command.ran().success().stdout, "\nc           ERROR");
    // Nothing is ever deleted that was not said to be.
    env.run("process --table jobs --where 1 --set date_inserted.column=at --ndays 1 -- true")
        .fails(1, &["set in backlog.toml what finishes a row"]);
}

#[test]
fn a_mapping_that_leaves_finished_rows_pending_runs_no_handler() {
    let env = with_config(
        "CREATE TABLE outbox (id INTEGER PRIMARY KEY, at TEXT, processed_at TEXT, error TEXT);
         INSERT INTO outbox VALUES (1, '2026-11-20', NULL, NULL)",
        "[queue.outbox]\ntable = 'outbox'\nwhere = 'processed_at IS NULL'\ndate_inserted = 'at'\nndays = 9\non_success = { error = '{null}' }",
    );
    let args = format!("process --queue outbox -- {}", env.noting("exit 0"));
    env.run_at(MIDNIGHT, &args).fails(1, &["refuses SUCCESS: it would still be pending"]);
    assert_eq!(env.handled(), [""; 0]);
    assert_eq!(env.query("SELECT * FROM outbox"), "1|2026-11-20||");
}

#[test]
fn a_wrong_mapping_touches_no_row() {
    let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, state INTEGER, at TEXT, name TEXT, total AS (id + 1), tries INT);
         INSERT INTO t (id, state, at, name) VALUES (1, 0, '2026-11-20', 'Alice'), (2, 0, '2026-11-20', 'Bob')";
    let good = "table = 't'\nndays = 9\nstatus = { column = 'state', new = 0, error = 1, success = 2 }\ndate_inserted = 'at'\n";
    for (config, says) in [
        (
            good.replace("'state'", "'stat'"),
            "table t has no column stat; it has id, state, at, name, total, tries",
        ),
        (
            good.replace("'at'", "'name'"),
            "column name of table t holds no date, but 'Bob'; dates are read as 2026-11-21 03:40, 20261121034000 or",
        ),
        (
            good.replace("'at'", "{ column = 'at', format = 'epoch' }"),
            "holds no date in format epoch",
        ),
        (
            good.replace("new = 0", "new = 'new'"),
            "NEW cannot be 'new' in column state of type INTEGER; use a number",
        ),
        (good.replace("table = 't'", "table = 'u'"), "no table \"u\"; tables here: t"),
        (
            format!("{good}on_success = {{ total = 1 }}"),
            "on_success cannot set total: the table computes it",
        ),
        (
            format!("{good}on_failure = {{ id = 1 }}"),
            "on_failure cannot set id: it is the record's id",
        ),
        (
            format!("{good}on_archive = {{ state = 1 }}"),
            "on_archive cannot set state: it is the status",
        ),
        (format!("{good}on_success = {{ missing = 1 }}"), "has no column missing"),
        (
            format!("{good}failures = 'tries'\non_failure = {{ tries = '{{+1}}' }}"),
            "on_failure cannot set tries: it is counted already",
        ),
        (
            format!("{good}failures = 'tries'\nlast_failure = 'tries'"),
            "column tries cannot be the last failure as well: it is the count",
        ),
        (
            format!("{good}last_failure = 'at'"),
            "column at cannot be the last failure as well: it is the insertion date",
        ),
        (format!("{good}max_attempts = 3"), "needs FAILURES, and table t has no such column"),
        (
            format!("{good}failures = 'tries'\nmax_attempts = 3"),
            "a limit of attempts needs to know how table t marks an archived record: ",
        ),
        (format!("{good}policy = 'even'"), "--set failures=COLUMN"),
        (format!("{good}where = 'absent = 1'"), "no such column: absent"),
    ] {
        let schedule =
            if config.contains("policy") { config.replace("ndays = 9\n", "") } else { config };
        let env = with_config(schema, &format!("[defaults]\n{schedule}"));
        env.pass(&format!("-- {}", env.noting("exit 0"))).fails(1, &[says]);
        assert_eq!(env.handled(), [""; 0], "{says}");
        assert_eq!(env.query("SELECT DISTINCT state, tries FROM t"), "0|", "{says}");
    }
}

#[test]
fn case_variants_of_a_status_are_values_like_others() {
    let env = with_config(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT, at TEXT, n INT DEFAULT 0);
         INSERT INTO t (id, s, at) VALUES (1, 'new', '2026-11-20'), (2, 'New', '2026-11-20'), (3, 'NEW', '2026-11-20'), (4, 'failed', '2026-11-20'), (5, 'Failed', '2026-11-20'), (6, 'DONE', '2026-11-20')",
        "[defaults]\ntable = 't'\nndays = 9\ndate_inserted = 'at'\nfailures = 'n'\n\
         status = { column = 's', new = ['new', 'New', 'NEW'], error = ['failed', 'Failed'], success = ['done', 'Done', 'DONE'] }",
    );
    let handler =
        env.noting("case $BACKLOG_ID in 2|5) exit 1;; 3) kill -TERM $PPID; sleep 9;; esac");
    let args = format!("process --max-runtime 1h --grace 0s --order oldest -- {handler}");
    assert_eq!(env.run_at(MIDNIGHT, &args).exit, Some(143));
    assert_eq!(
        env.query("SELECT id, s, n FROM t"),
        "1|done|0\n2|failed|1\n3|NEW|0\n4|failed|0\n5|Failed|0\n6|DONE|0",
        "an interrupted record is as it was, to the letter"
    );
}

#[test]
fn a_payload_of_a_megabyte_is_the_whole_standard_input() {
    let env = with_config(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT DEFAULT 'NEW', at TEXT DEFAULT '2026-11-20', body);
         INSERT INTO t (id, body) VALUES (1, replace(hex(zeroblob(524288)), '00', 'ab')), (2, zeroblob(1048576)), (3, NULL), (4, 'line' || char(10) || '😀'), (5, 12)",
        "[defaults]\ntable = 't'\nndays = 9\ndate_inserted = 'at'\nstatus = 's'\npayload = 'body'",
    );
    let handler = env.script("handler", "[ $BACKLOG_TABLE = t ] && wc -c >body$BACKLOG_ID");
    env.pass(&format!("--jobs 3 -- {handler}")).silent();
    let sizes = (1..=5).map(|id| env.read(&format!("body{id}")));
    let sizes: Vec<_> = sizes.map(|size| size.trim().parse::<u32>().unwrap()).collect();
    assert_eq!(sizes, [1_048_576, 1_048_576, 0, 9, 2]);
    // And where `add` puts what it is given.
    env.run(r#"add '{"a":1}'"#).success();
    assert_eq!(env.query("SELECT s, body FROM t WHERE id = 6"), "NEW|{\"a\":1}");
}

#[test]
fn a_composite_key_is_one_id_everywhere() {
    let env = with_config(
        "CREATE TABLE t (a TEXT, b INTEGER, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT DEFAULT '2026-11-20', FAILURES INT DEFAULT 0, LAST_FAILURE TEXT, PRIMARY KEY (a, b));
         INSERT INTO t (a, b) VALUES ('x', 1), ('x', 2), ('y', 1), ('it,s', 9007199254740993), ('it,s', 9007199254740992)",
        "[defaults]\ntable = 't'\nid = ['a', 'b']",
    );
    let handler = env.noting("[ \"$BACKLOG_ID\" != x,2 ]");
    let joblog = env.path_text("joblog");
    let args = format!("process --policy even --max-records 3 --joblog {joblog} -- {handler}");
    env.run_at(MIDNIGHT, &args).silent();
    assert_eq!(env.handled(), ["y,1", "x,2", "x,1"]);
    env.run_at(MIDNIGHT, &args).silent();
    assert_eq!(env.handled(), ["it\\,s,9007199254740993", "it\\,s,9007199254740992"]);
    let log = std::fs::read_to_string(&joblog).unwrap();
    assert_contains(&log, r#"{"id":["it,s",9007199254740993],"attempt":1"#);
    let explained = env.run_at(MIDNIGHT, "explain x,2 --policy even").success().stdout;
    assert!(explained.starts_with("record x,2: ERROR"), "{explained}");
    let explained = env.run("explain it,s,9007199254740992").stdout;
    assert_contains(&explained, "columns separated by commas, not 3; write a comma");
    let ran = env.run(r"archive x,2 'it\,s,9007199254740992' x x,3");
    assert_eq!(
        (ran.exit, ran.stdout.as_str()),
        (
            Some(1),
            "x: no such record: an id has 2 columns separated by commas, not 1; write a comma within a value as \\,\nx,3: no such record\nit\\,s,9007199254740992: is SUCCESS; left unchanged\narchived 1 record\n"
        )
    );
    assert_eq!(env.query("SELECT a, b FROM t WHERE STATUS = 'ARCHIVED'"), "x|2");
}

#[test]
fn dates_without_a_zone_are_of_the_zone_that_is_said() {
    let env = with_config(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', at DATETIME, done DATETIME);
         INSERT INTO t (id, at) VALUES (1, '2026-11-20 01:00:00'), (2, '2026-11-20 00:59:59'), (3, '2026-11-20T00:00:00Z'), (4, '2026-11-19T23:59:59Z')",
        "[defaults]\ntable = 't'\nndays = 1\ndate_inserted = { column = 'at', zone = 'Europe/Berlin' }\non_success = { done = '{now}' }",
    );
    env.pass(&format!("-- {}", env.noting("exit 0"))).silent();
    let mut handled = env.handled();
    handled.sort_unstable();
    assert_eq!(handled, ["1", "3"]);
    // The newest dated row says how the column is spelt.
    assert_eq!(
        env.query("SELECT DISTINCT done FROM t WHERE done IS NOT NULL"),
        "2026-11-21T00:00:00Z"
    );
}

#[test]
fn every_queue_of_the_file_has_its_own_pass_and_one_that_fails_stops_no_other() {
    let env = with_config(
        "CREATE TABLE a (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT DEFAULT '2026-11-20');
         CREATE TABLE c (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT DEFAULT '2026-11-20');
         INSERT INTO a DEFAULT VALUES; INSERT INTO c DEFAULT VALUES; INSERT INTO c DEFAULT VALUES",
        "[defaults]\ndb = 'test.db'\nndays = 9\nexec = ['sh', '-c', 'echo $BACKLOG_QUEUE $BACKLOG_TABLE $BACKLOG_ID >>handled']\n\
         [queue.first]\ntable = 'a'\n[queue.second]\ntable = 'missing'\n[queue.third]\ntable = 'c'\nwhere = 'ID > 1'",
    );
    let mut command = env.command("process --all-queues --now @1795219200");
    let ran = command.env_remove("BACKLOG_DB").ran();
    let ran = ran.fails(1, &["backlog: queue second: ", "no table \"missing\""]);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert_eq!(env.handled(), ["first a 1", "third c 2"]);
    env.run("process --all-queues --table a").fails(2, &["leave out --table"]);
    env.run("process --all-queues --queue a").fails(2, &["--queue"]);
    std::fs::remove_file(env.path("backlog.toml")).unwrap();
    env.run("process --all-queues").fails(2, &["there is no backlog.toml", "/etc/backlog.toml"]);
}

#[test]
fn every_message_of_a_pass_names_its_queue_once() {
    let schema = "CREATE TABLE t (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT DEFAULT '2026-11-20');
                  INSERT INTO t DEFAULT VALUES";
    let env = with_config(
        schema,
        "[defaults]\nndays = 9\ntable = 't'\nexec = ['false']\n[queue.first]\n\
         [queue.second]\njobs = 0\n[queue.third]\ntable = 'missing'\n[queue.default]\n",
    );
    let lines = |args: &str, exit: i32, begin: &str| {
        let ran = env.pass(&format!("-v {args}")).exits(exit);
        let pass = ran.stderr.lines().filter(|line| !line.contains("info: read "));
        for line in pass.clone() {
            assert!(line.starts_with(begin), "{line:?} does not begin with {begin:?}");
            assert!(line.matches("queue ").count() <= 1, "{line}");
        }
        pass.count()
    };
    assert_eq!(lines("--queue first", 0, "backlog: queue first: "), 2);
    assert_eq!(lines("--queue first -- /no/such/handler", 1, "backlog: queue first: "), 2);
    assert_eq!(lines("--queue third", 1, "backlog: queue third: "), 1);
    // The default queue has none.
    assert_lacks(&env.pass("-v --queue default").success().stderr, "queue ");
    let ran = env.pass("-v --all-queues").exits(2);
    let queues: Vec<_> = ran.stderr.lines().filter(|line| !line.contains("info: read ")).collect();
    let file = env.path_text("backlog.toml");
    for (line, begin) in queues.iter().zip([
        "backlog: queue first: info: processing record 1",
        "backlog: queue first: warning: record 1 failed",
        &format!("backlog: queue second: {file}: jobs = 0: "),
        "backlog: queue third: could not use ",
        "backlog: queue default: info: processing record 1",
        "backlog: queue default: warning: record 1 failed",
    ]) {
        assert!(line.starts_with(begin), "{line:?} does not begin with {begin:?}");
    }
    assert_eq!(queues.len(), 6, "{queues:?}");
}

#[test]
fn the_summary_on_a_terminal_names_the_queue() {
    let env = with_config(
        "CREATE TABLE t (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT)",
        "[queue.mails]\nndays = 9\ntable = 't'\nexec = ['true']\n[queue.default]\ntable = 't'\nndays = 1\nexec = ['true']\n",
    );
    for (options, says) in
        [("--queue mails", "queue mails: nothing was due\r\n"), ("", "nothing was due\r\n")]
    {
        // A pass with a terminal of its own.
        let pass = format!("{} process {options}", env!("CARGO_BIN_EXE_backlog"));
        let mut command = std::process::Command::new("script");
        command.args(["-qec", &pass, "/dev/null"]).current_dir(env.path(""));
        command.env("BACKLOG_DB", env.db()).env("XDG_STATE_HOME", env.path("state"));
        match command.stdin(std::process::Stdio::null()).output() {
            Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout), says),
            Err(error) => skipped(&format!("a pass on a terminal: script(1): {error}")),
        }
    }
}

#[test]
fn a_signal_ends_all_queues() {
    let env = with_config(
        "CREATE TABLE a (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT DEFAULT '2026-11-20');
         INSERT INTO a DEFAULT VALUES",
        "[defaults]\nndays = 9\ntable = 'a'\n[queue.first]\n[queue.second]\nwhere = 'ID = 1'",
    );
    let handler = env.noting("kill -TERM $PPID; sleep 5");
    let args = format!("process --all-queues --grace 0s --now @1795219200 -- {handler}");
    assert_eq!(env.run(&args).exit, Some(143));
    assert_eq!(env.handled(), ["1"]);
    assert_eq!(env.query("SELECT STATUS FROM a"), "NEW");
}

#[test]
fn an_attempt_that_kills_its_pass_is_charged_without_a_status_column() {
    let env = with_config(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, at INT, tries INT, tried INT, done INT);
         INSERT INTO t (id, at) VALUES (1, 1795132800)",
        "[defaults]\ntable = 't'\nwhere = 'done IS NULL'\ndate_inserted = 'at'\nfailures = 'tries'\nlast_failure = 'tried'\nfibonacci = true\non_success = { done = '{now}' }",
    );
    let handler = env.noting("kill -KILL $PPID; sleep 30");
    let ran = env.pass(&format!("-- {handler}"));
    assert_eq!(ran.exit, None);
    assert_eq!(env.query("SELECT tries, tried FROM t"), "1|1795219200");
    let now = MIDNIGHT + MINUTE;
    env.wait_for_free_locks();
    env.run_at(now, "process -- true").silent();
    assert_eq!(env.query("SELECT tries, done FROM t"), format!("1|{now}"));
}

#[test]
fn a_condition_that_time_or_another_row_makes_false_does_not_lose_the_outcome() {
    let env = with_config(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, at TEXT, tries INT NOT NULL DEFAULT 0, done TEXT, kind TEXT);
         CREATE TABLE pause (kind TEXT);
         INSERT INTO t (id, at, tries, kind) VALUES (1, '2026-11-20', 4, 'a'), (2, '2026-11-20', 4, 'a'), (3, '2026-11-20', 4, 'a')",
        "[queue.t]\ntable = 't'\ndate_inserted = 'at'\nfailures = 'tries'\nndays = 9\non_success = { done = '{now}' }\n\
         where = \"done IS NULL AND id IN (SELECT id FROM t WHERE tries < 5) AND kind NOT IN (SELECT kind FROM pause)\"",
    );
    // Our own charge, seen through a subquery; other rows; and an edit of this very row.
    let db = env.path_text("test.db");
    let handler = env.script(
        "handler",
        &format!(
            "case $BACKLOG_ID in
             2) sqlite3 {db} \"INSERT INTO pause VALUES ('a')\" ;;
             1) sqlite3 {db} \"UPDATE t SET kind = 'b' WHERE id = 1\" ;;
             esac"
        ),
    );
    if std::process::Command::new("sqlite3").arg("-version").output().is_err() {
        skipped("a handler that changes its table: there is no sqlite3");
        return;
    }
    env.pass(&format!("--queue t -- {handler}")).silent();
    let rows = env.query("SELECT id, tries, done FROM t");
    assert_eq!(
        rows, "1|4|\n2|4|2026-11-21\n3|4|2026-11-21",
        "record 1 was not in the queue any more"
    );
}

#[test]
fn lines_with_conditions_of_their_own_are_lines_of_their_own() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT, DATE_INSERTED TEXT, tenant INT);
         INSERT INTO BACKLOG VALUES (1, 'ERROR', '2026-11-20T12:00:00Z', 1), (2, 'ERROR', '2026-11-20T12:00:00Z', 2)",
    );
    let handler = env.noting("exit 1");
    for tick in 0..3 {
        for tenant in ["tenant = 1", "tenant = 2"] {
            let args = format!("process --progressive --where {} -- {handler}", quoted(tenant));
            env.run_at(MIDNIGHT + 300 * tick, &args).silent();
        }
    }
    assert_eq!(env.handled(), ["1", "2", "1", "2", "1", "2"]);
}

#[test]
fn a_condition_is_true_as_sql_has_it() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT, DATE_INSERTED TEXT, flag TEXT);
         INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-11-20', '0'), (2, 'NEW', '2026-11-20', 'abc'), (3, 'NEW', '2026-11-20', '1'), (4, 'NEW', '2026-11-20', NULL)",
    );
    let ran = env.run("archive 1 2 3 4 --where flag").success();
    assert!(ran.stdout.ends_with("archived 1 record\n"), "{}", ran.stdout);
    assert_eq!(env.query("SELECT ID FROM BACKLOG WHERE STATUS = 'ARCHIVED'"), "3");
    for condition in ["count(*) > 0", "row_number() OVER () > 0"] {
        env.run(&format!("archive 1 --where {}", quoted(condition)))
            .fails(1, &["is not a condition in SQL"]);
    }
}

#[test]
fn dates_in_two_spellings_starve_nobody() {
    for (schema, dates) in [
        ("TEXT", ["'2026-11-20 00:00:00'", "'20261119000000'", "'2026-11-18'", "'20261120000001'"]),
        ("", ["'2026-11-20 00:00:00'", "1795132800", "'20261118000000'", "x'00'"]),
    ] {
        let env = TestEnv::with_schema(&format!(
            "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'ERROR', DATE_INSERTED {schema}, FAILURES INT, LAST_FAILURE INT)"
        ));
        for date in dates {
            env.sql(&format!("INSERT INTO BACKLOG (DATE_INSERTED) VALUES ({date})"));
        }
        let due = if schema.is_empty() { 3 } else { 4 };
        let handler = env.noting("exit 1");
        for order in ["newest", "oldest"] {
            for _ in 0..due {
                let args =
                    format!("process --ndays 30 --max-records 1 --order {order} -- {handler}");
                env.run_at(MIDNIGHT, &args).silent();
            }
            let mut handled = env.handled();
            handled.sort_unstable();
            handled.dedup();
            assert_eq!(handled.len(), due, "{schema} {order}: {handled:?}");
        }
    }
}

#[test]
fn epochs_as_text_are_found_if_it_is_said_and_waited_after() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT, FAILURES INT, LAST_FAILURE TEXT);
         INSERT INTO BACKLOG (DATE_INSERTED) VALUES ('1795132800'), ('999999999'), ('2026-11-20')",
    );
    let handler = env.noting("exit 1");
    let by_age = format!("process --set date_inserted.format=epoch --ndays 1 -- {handler}");
    env.run_at(MIDNIGHT, &by_age).silent();
    assert_eq!(env.handled(), ["1"]);
    let by_count =
        format!("process --set date_inserted.format=epoch --fibonacci --order oldest -- {handler}");
    env.run_at(MIDNIGHT + 30, &by_count).silent();
    assert_eq!(env.handled(), ["1", "3", "2"].map(String::from)[1..], "1 waits for a minute");
    assert_eq!(env.query("SELECT LAST_FAILURE FROM BACKLOG WHERE ID = 1"), "2026-11-21T00:00:00Z");
}

#[test]
fn a_snooze_without_a_date_is_a_failure_and_a_drain_ends() {
    let env = with_config(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, s INT, at TEXT, n INT DEFAULT 0);
         INSERT INTO t (s, at) VALUES (1, '2026-11-20')",
        "[defaults]\ntable = 't'\nndays = 9\ndate_inserted = 'at'\nfailures = 'n'\nstatus = { column = 's', new = 1, error = 1, success = 2 }",
    );
    env.pass(&format!("--drain -- {}", env.noting("exit 75"))).silent();
    assert_eq!(env.handled(), ["1"]);
    assert_eq!(env.query("SELECT s, n FROM t"), "1|1");
}

#[test]
fn a_mapping_that_leaves_one_finished_row_pending_is_named_and_holds_up_no_other() {
    let env = with_config(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, at TEXT, prio INT); INSERT INTO t VALUES (1, '2026-11-19', 1), (2, '2026-11-18', 5), (3, '2026-11-17', 1)",
        "[defaults]\ntable = 't'\nndays = 9\ndate_inserted = 'at'\nwhere = 'prio > 0'\non_success = { prio = '{-1}' }",
    );
    let handler = env.noting("exit 0");
    let says = ["record 2 is not tried", "it would still be pending", "no handler was started"];
    env.pass(&format!("-- {handler}")).fails(1, &says);
    assert_eq!(env.handled(), ["1", "3"]);
    assert_eq!(env.query("SELECT prio FROM t ORDER BY id"), "0\n5\n0");
}

#[test]
fn a_person_can_retry_where_the_last_failure_cannot_be_null() {
    let env = with_config(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, at DATETIME NOT NULL, n INT NOT NULL DEFAULT 0, seen DATETIME NOT NULL, done INT);
         INSERT INTO t (id, at, n, seen) VALUES (7, '2026-11-20 10:00:00', 3, '2026-11-20 23:59:59')",
        "[defaults]\ntable = 't'\npolicy = 'even'\ndate_inserted = 'at'\nwhere = 'done IS NULL'\nfailures = 'n'\nlast_failure = 'seen'\non_success = { done = 1 }",
    );
    let due = |expected: &str| {
        assert_contains(&env.pass("--dry-run").success().stdout, expected);
    };
    due("7           wait ");
    env.run("retry 7").success();
    assert_eq!(env.query("SELECT n, seen FROM t"), "3|2026-11-20 10:00:00");
    due("7           try ");
}

#[test]
fn what_is_switched_off_stays_off() {
    let env = with_config(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT DEFAULT '2026-11-20')",
        "[defaults]\nstrict = true\nprogressive = true\njoblog = 'log'\n[queue.a]\nstrict = false\n[queue.b]\nprogressive = false\nndays = 9",
    );
    env.sql("INSERT INTO BACKLOG DEFAULT VALUES");
    env.pass("--queue a -- false").success();
    assert_eq!(env.pass("--queue b --dry-run").success().stdout, "1           try      ERROR\n");
    let args = "process --queue b --now @1795219200 -- false";
    assert_eq!(env.run(args).exit, Some(1), "strict");
    let ran = env.command(args).env("BACKLOG_STRICT", "off").output().unwrap();
    assert_eq!(ran.status.code(), Some(0));
}

#[test]
fn a_retry_keeps_the_count_or_says_that_it_cannot_be() {
    let env = with_config(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, at TEXT, n INT, done INT); INSERT INTO t VALUES (1, '2026-11-20', 5, NULL)",
        "[defaults]\ntable = 't'\nndays = 9\ndate_inserted = 'at'\nwhere = 'done IS NULL'\nfailures = 'n'\non_success = { done = 1 }",
    );
    env.run("retry 1").fails(1, &["table t has no column that `retry` could change"]);
    assert_eq!(env.query("SELECT n FROM t"), "5");
}

#[test]
fn zones_are_names_and_not_rules() {
    let env = TestEnv::minimal();
    for zone in
        ["UTC+2", "Foo-3", ":Europe/Berlin", "../../../etc/localtime", "/etc/localtime", "Mars", ""]
    {
        let set = format!("date_inserted.zone={zone}");
        env.run(&format!("status --set {}", quoted(&set)))
            .fails(2, &["is not a time zone", "Europe/Berlin"]);
    }
    for zone in ["utc", "Z", "-05:30", "Europe/Berlin"] {
        let set = format!("date_inserted.zone={zone}");
        env.run(&format!("status --set {}", quoted(&set))).success();
    }
}

#[test]
fn the_first_mistakes_are_told_what_to_say() {
    let env = TestEnv::with_schema(
        "CREATE TABLE OrderEvents (Id INTEGER PRIMARY KEY, At TEXT, State TEXT)",
    );
    for (args, says) in [
        (
            "",
            "no column STATUS; it has Id, At, State; set status = \"COLUMN\" in backlog.toml, or pass --set status=COLUMN, or pass --where",
        ),
        (
            "--set status.column=State",
            "no column DATE_INSERTED; it has Id, At, State; set date_inserted = \"COLUMN\" in backlog.toml, or pass --set date_inserted=COLUMN\n",
        ),
        ("--set status.column=Sate", "no column Sate; it has Id, At, State\n"),
    ] {
        env.run(&format!("status --table OrderEvents {args}")).fails(1, &[says]);
    }
    let config = |text: &str, says: &str| {
        env.write("backlog.toml", text);
        env.run("status").fails(2, &[says]);
    };
    config(
        "[defaults]\nid_column = 'Id'",
        "no key \"id_column\"; `backlog help backlog.toml` lists",
    );
    for key in ["failures", "last_failure", "last_error"] {
        for value in ["true", "false"] {
            let says = format!("{key} = {value}: write a column, or \"\" for none\n");
            config(&format!("[defaults]\n{key} = {value}"), &says);
        }
    }
    config("[defaults]\nid = []", "queue default: id: write at least one column\n");
    config(
        "[defaults]\nstatus = true",
        "status = true: write a column, { column, new, error, success, archived }, or false",
    );
}

#[test]
fn a_count_may_be_called_as_the_program_calls_its_own() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT, DATE_INSERTED TEXT DEFAULT '2026-11-20', n INT, nn INT, LAST_FAILURE TEXT);
         CREATE INDEX i ON BACKLOG (n, STATUS, LAST_FAILURE) WHERE STATUS IN ('NEW', 'ERROR');
         INSERT INTO BACKLOG (ID, STATUS, n, LAST_FAILURE) VALUES (1, 'NEW', 0, NULL), (2, 'ERROR', 5, '2026-11-20T23:54:00Z'), (3, 'ERROR', 1, '2026-11-20T23:59:00Z'), (4, 'ERROR', 9, NULL)",
    );
    let handler = env.noting("exit 0");
    let args = format!("process --fibonacci --set failures=n --where 'n < 9' -- {handler}");
    env.run_at(MIDNIGHT, &args).silent();
    let mut handled = env.handled();
    handled.sort_unstable();
    assert_eq!(handled, ["1", "2", "3"]);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR', n = 5, LAST_FAILURE = '2026-11-20T23:58:00Z'");
    env.pass(&format!("--fibonacci --set failures=n -- {handler}")).silent();
    assert_eq!(env.handled(), [""; 0], "five failures wait for five minutes");
}

#[test]
fn no_attempt_is_counted_where_something_else_stands() {
    let failures = "must hold small numbers; name another one with --set failures=COLUMN";
    let last_failure =
        "must hold dates or nothing; name another one with --set last_failure=COLUMN";
    for (name, declared, value, found, says) in [
        ("failures", "TEXT", "'[\"no route\"]'", "it is TEXT and holds '[\"no route\"]'", failures),
        ("failures", "TEXT", "'3'", "it is TEXT and holds '3'", failures),
        ("failures", "VARCHAR(9)", "NULL", "it is VARCHAR(9), and", failures),
        ("failures", "", "'3'", "it holds '3'", failures),
        ("failures", "JSON", "'{}'", "it is JSON and holds '{}'", failures),
        ("failures", "INTEGER", "x'00'", "it holds x'00'", failures),
        ("failures", "boolean", "1", "it is BOOLEAN and holds 1", failures),
        ("failures", "INTEGER", "1795132800", "it holds 1795132800", failures),
        ("last_failure", "TEXT", "'no route'", "it holds 'no route'", last_failure),
        ("last_failure", "", "'no route'", "it holds 'no route'", last_failure),
        ("last_failure", "INTEGER", "7", "it holds 7", last_failure),
        ("last_failure", "BOOLEAN", "0", "it is BOOLEAN, and", last_failure),
    ] {
        let env = with_config(
            &format!(
                "CREATE TABLE t (id INTEGER PRIMARY KEY, status TEXT DEFAULT 'NEW', \
                 date_inserted TEXT DEFAULT '2026-11-20', x {declared}, {name} {declared});
                 INSERT INTO t (x, {name}) VALUES ({value}, {value})"
            ),
            &format!("[queue.usual]\ntable = 't'\n[queue.given]\ntable = 't'\n{name} = 'x'"),
        );
        for (queue, column) in [
            ("given", "column x of table t is the ".into()),
            ("usual", format!("column {name} of table t is by its name the ")),
        ] {
            let handler = env.noting("exit 1");
            for args in [
                &format!("process --ndays 9 -- {handler}"),
                "process --ndays 9 --dry-run",
                "restore --all",
            ] {
                let args = with_options(&format!("--queue {queue}"), args);
                env.run_at(MIDNIGHT, &args).fails(1, &[&column, found, says]);
            }
            let checked = env.run(&format!("check --queue {queue}")).exits(1);
            let fixes = |finding: &str| {
                finding.starts_with("error    columns     ") && finding.contains(found)
            };
            assert!(checked.stdout.lines().any(fixes), "{checked:?}");
            env.run(&format!("list --queue {queue}")).success();
            assert_eq!(env.handled(), [""; 0]);
        }
        let kept = format!("SELECT count(*) FROM t WHERE x IS {value} AND {name} IS {value}");
        assert_eq!(env.query(&kept), "1", "{declared} {value}");
    }
}

#[test]
fn dates_in_text_and_counts_without_a_type_are_what_they_must_be() {
    for (failures, last_failure) in [
        ("NULL", "NULL"),
        ("0", "''"),
        ("2.0", "'0000-00-00 00:00:00'"),
        ("3", "'2026-11-19 00:00:00'"),
        ("3", "1795000000"),
    ] {
        let env = TestEnv::with_schema(&format!(
            "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', \
             DATE_INSERTED TEXT DEFAULT '2026-11-20', FAILURES, LAST_FAILURE);
             INSERT INTO BACKLOG (FAILURES, LAST_FAILURE) VALUES ({failures}, {last_failure})"
        ));
        env.pass("--ndays 9 -- /bin/true").silent();
    }
}

#[test]
fn a_column_that_only_has_the_name_of_a_counter_can_be_left_alone() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW',
         DATE_INSERTED TEXT DEFAULT '2026-11-20T23:00:00Z', FAILURES TEXT DEFAULT 'http 500');
         INSERT INTO BACKLOG (ID) VALUES (1)",
    );
    let now = MIDNIGHT;
    let process = "process --ndays 1 -- false";
    env.run_at(now, process).fails(1, &["holds 'http 500'", "or none with --set failures="]);
    let none = with_options("--set failures=", process);
    env.run_at(now, &none).silent();
    env.write("backlog.toml", "[defaults]\nfailures = \"\"\n");
    env.run_at(now, process).silent();
    assert_eq!(env.query("SELECT STATUS, FAILURES FROM BACKLOG"), "ERROR|http 500");
}

#[test]
fn a_cursor_of_ids_of_other_columns_is_none() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (A INTEGER, B INTEGER, ID INTEGER, STATUS TEXT DEFAULT 'ERROR',
         DATE_INSERTED TEXT DEFAULT '2026-11-20T23:00:00Z');
         INSERT INTO BACKLOG (A, B, ID) VALUES (1, 1, 1), (1, 2, 2), (2, 1, 3)",
    );
    for (id, end) in [("['A','B']", "false"), ("ID", "true"), ("ID", "true"), ("['A','B']", "true")]
    {
        let set = format!("id={id}");
        let args = format!("process --ndays 1 --max-records 1 --set {} -- {end}", quoted(&set));
        env.run_at(MIDNIGHT, &args).silent();
    }
    assert_eq!(env.count("SUCCESS"), 3);
}

#[test]
fn digits_in_a_column_of_text_need_a_format() {
    let env = TestEnv::with_schema(&format!(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT, at TEXT);
         INSERT INTO BACKLOG VALUES (1, 'NEW', '{}')",
        MIDNIGHT - 60
    ));
    let pass = |format: &str| {
        let date = format!("date_inserted={{column=\"at\"{format}}}");
        env.pass(&format!("--ndays 1 --set {} -- true", quoted(&date)))
    };
    pass("").fails(1, &["column at of table BACKLOG holds text of digits", "format = \"epoch\""]);
    pass(",format=\"epoch\"").silent();
    assert_eq!(env.count("SUCCESS"), 1);
}

#[test]
fn the_text_of_errors_goes_into_no_column_of_numbers() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT);
         INSERT INTO BACKLOG (DATE_INSERTED) VALUES ('2026-11-20')",
    );
    env.sql("ALTER TABLE BACKLOG ADD COLUMN amount INTEGER; ALTER TABLE BACKLOG ADD COLUMN price DECIMAL;
             UPDATE BACKLOG SET amount = 4200, price = 12.5");
    for (set, column) in [
        ("last_error=amount", "amount"),
        ("last_error=price", "price"),
        ("'on_failure={price=\"{error}\"}'", "price"),
    ] {
        let why = format!(
            "column {column} of table BACKLOG holds numbers, which the text of an error would overwrite"
        );
        env.pass(&format!("--ndays 9 --set {set} -- false")).fails(1, &[&why]);
    }
    assert_eq!(env.query("SELECT STATUS, amount, price FROM BACKLOG"), "NEW|4200|12.5");
    let checked = env.run_at(MIDNIGHT, "check --ndays 9 --set failures=amount -- true").stdout;
    assert_contains(
        &checked,
        "every NEW record has a value in amount, which an attempt overwrites",
    );
    env.sql("INSERT INTO BACKLOG (DATE_INSERTED, amount) VALUES ('2026-11-20T00:00:00Z', 0)");
    let checked = env.run_at(MIDNIGHT, "check --ndays 9 --set failures=amount -- true").stdout;
    assert_lacks(&checked, "which an attempt overwrites");
}

#[test]
fn a_condition_on_a_generated_column_reads_what_on_archive_sets() {
    let env = TestEnv::with_schema(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, at TEXT, done TEXT, dead INTEGER NOT NULL DEFAULT 0,
           state TEXT GENERATED ALWAYS AS (CASE WHEN dead THEN 'dead' WHEN done IS NOT NULL THEN 'done' ELSE 'n' END));
         INSERT INTO t (at) VALUES ('2026-11-20')",
    );
    env.write(
        "backlog.toml",
        "[queue.t]\ntable = 't'\nstatus = false\ndate_inserted = 'at'\nwhere = \"state = 'n'\"\nndays = 9\n\
         on_success = { done = '{now}' }\non_archive = { dead = 1 }\nwhere_archived = 'dead = 1'\n\
         on_restore = { dead = 0 }\nmax_attempts = 1\n",
    );
    let checked = env.run_at(MIDNIGHT, "check --rehearse").stdout;
    assert_lacks(&checked, "it sets no column that");
}
