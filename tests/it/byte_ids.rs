//! Ids that are bytes, as a UUID in a BLOB or bytea: in hexadecimal wherever they are shown or typed.

use test_support::cluster::cluster;

use crate::testenv::*;

const SCHEMA: &str = "CREATE TABLE backlog (id {bytes} PRIMARY KEY, status text NOT NULL DEFAULT 'NEW', date_inserted text,
    failures int NOT NULL DEFAULT 0, last_failure text, last_error text, payload text);
  INSERT INTO backlog (id, date_inserted, payload) VALUES
    ({0192f5a07c1e70008000000000000001}, '2026-11-20T23:57:00Z', '1'), ({00ff}, '2026-11-20T23:58:00Z', '2'),
    ({0192f5a07c1e700080000000000000ab}, '2026-11-20T23:59:00Z', '3');";

const IDS: [&str; 3] =
    ["0192f5a07c1e700080000000000000ab", "00ff", "0192f5a07c1e70008000000000000001"];

fn on_both(check: impl Fn(&TestEnv, &dyn Fn(&str) -> String)) {
    let env = TestEnv::with_schema(
        &SCHEMA.replace("{bytes}", "BLOB").replace("({", "(x'").replace("},", "',"),
    );
    check(&env, &|sql| env.query(sql));
    let Some(cluster) = cluster() else { return skipped("ids of bytea: no server") };
    let database = cluster.database();
    database.sql(&SCHEMA.replace("{bytes}", "bytea").replace("({", "('\\x").replace("},", "',"));
    check(&TestEnv::on(&database), &|sql| database.query(sql).trim().into());
}

#[test]
fn bytes_are_an_id_for_every_command() {
    on_both(|env, query| {
        let log = env.path("handled");
        let handler = env.script(
            "handler",
            &format!("echo \"$BACKLOG_ID $1 $(cat)\" >>{}; exit 1", log.display()),
        );
        let words = format!("process --fibonacci --max-attempts 2 -- {handler} {{id}}");
        env.run_at(MIDNIGHT, &words).silent();
        let handled = std::fs::read_to_string(&log).unwrap();
        for (line, id) in handled.lines().zip(IDS) {
            assert!(line.starts_with(&format!("{id} {id} {{\"")), "{line}");
            assert!(
                line.contains(&format!("\"id\":\"{id}\""))
                    || line.contains(&format!("\"ID\":\"{id}\"")),
                "{line}"
            );
        }
        assert_eq!(handled.lines().count(), 3);
        let listed = env.run_at(MIDNIGHT, "list --json --fibonacci").success().stdout;
        assert!(
            IDS.iter()
                .all(|id| listed.contains(&format!("{{\"id\":\"{id}\",\"status\":\"ERROR\""))),
            "{listed}"
        );
        let explained = env.run_at(MIDNIGHT, "explain --fibonacci 00FF").success().stdout;
        assert_contains(&explained, "record 00ff: ERROR");
        // It is archived by this pass, and brought back by what that says.
        env.run_at(MIDNIGHT + 60, &words);
        assert_eq!(query("SELECT count(*) FROM backlog WHERE status = 'ARCHIVED'"), "3");
        env.run_at(MIDNIGHT + 60, "restore 0192f5a0-7c1e-7000-8000-0000000000ab 00ff").success();
        env.run_at(MIDNIGHT + 60, "archive 00ff").success();
        assert_eq!(
            query("SELECT payload, status FROM backlog ORDER BY payload"),
            "1|ARCHIVED\n2|ARCHIVED\n3|NEW"
        );
        env.run_at(MIDNIGHT + 60, "retry 00ff");
        assert_lacks(&env.run_at(MIDNIGHT, "check --fibonacci -- true").stdout, "never tried");
    });
}

#[test]
fn passes_that_are_cut_short_go_on_behind_bytes() {
    on_both(|env, query| {
        for (pass, id) in [(0, "3"), (1, "2"), (2, "1")] {
            let line = "process --ndays 1 --max-records 1 --set payload=payload";
            env.run_at(MIDNIGHT + pass, line).exits(2);
            env.run_at(MIDNIGHT + pass, &format!("{line} -- tee -a handled")).success();
            let handled = env.read("handled");
            assert!(handled.ends_with(id), "{handled} in pass {pass}");
        }
        assert_eq!(query("SELECT DISTINCT status FROM backlog"), "SUCCESS");
        for answer in ["it.get('id', it.get('ID'))", "it['backlog_id']"] {
            query("UPDATE backlog SET status = 'NEW' WHERE status = 'SUCCESS' RETURNING status");
            let text = format!(
                "import json, sys\nfor it in map(json.loads, sys.stdin):\n    'backlog' in it or print(json.dumps({{'id': {answer}, 'outcome': 'success'}}), flush=True)\n"
            );
            env.write("handler.py", text);
            env.pass("--progressive --stream -- python3 handler.py").silent();
            assert_eq!(query("SELECT DISTINCT status FROM backlog"), "SUCCESS", "{answer}");
        }
    });
}

#[test]
fn digits_are_no_bytes_of_their_own() {
    let Some((database, env)) = server_with(
        "CREATE TABLE backlog (id bytea PRIMARY KEY, status text NOT NULL DEFAULT 'NEW', date_inserted text);
         INSERT INTO backlog (id, date_inserted) VALUES ('\\x42', '2026-11-20'), ('\\x3432', '2026-11-20')",
    ) else {
        return;
    };
    env.run("archive 42").success();
    let archived = "SELECT encode(id, 'hex') FROM backlog WHERE status = 'ARCHIVED'";
    assert_eq!(database.query(archived).trim(), "42");
    assert_contains(&env.run("explain 3432").success().stdout, "record 3432: NEW");
}

#[test]
fn an_id_that_two_rows_show_alike_addresses_none() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID PRIMARY KEY, STATUS TEXT NOT NULL DEFAULT 'NEW', DATE_INSERTED TEXT);
         INSERT INTO BACKLOG (ID, DATE_INSERTED) VALUES ('ff', '2026-11-20'), (x'ff', '2026-11-20'), (7, '2026-11-20')",
    );
    for command in ["archive ff", "explain ff", "process ff -- true"] {
        let ran = env.run_at(MIDNIGHT, command);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            ran.exit == Some(1) && said.contains("more than one row has this id"),
            "{command}: {said}"
        );
    }
    env.run("archive 7").success();
    assert_eq!(env.query("SELECT count(*) FROM BACKLOG WHERE STATUS = 'NEW'"), "2");
}
