//! Foreign text: shown on one line, without characters that hide or rearrange text.

use std::fs;

use crate::testenv::*;

/// A right-to-left override, a line separator, a zero-width space, a C1 control, an escape, a
/// newline and a tag.
const SLY: &str = "a\u{202e}b\u{2028}c\u{200b}d\u{9b}e\u{1b}[2Jf\ng\u{e0041}";
const SHOWN: &str = r"a\u{202e}b\u{2028}c\u{200b}d\u{9b}e\u{1b}[2Jf\ng\u{e0041}";
const IN_JSON: &str = r"a\u202eb\u2028c\u200bd\u009be\u001b[2Jf\ng\udb40\udc41";

/// No character that does not show, but for the ends of lines.
#[track_caller]
fn is_visible(text: &str) {
    let is_hidden = |c: char| {
        c.is_control() && c != '\n'
            || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    assert!(!text.contains(is_hidden), "{text:?}");
}

#[track_caller]
fn both_visible(ran: &Ran) -> String {
    is_visible(&ran.stdout);
    is_visible(&ran.stderr);
    format!("{}{}", ran.stdout, ran.stderr)
}

#[test]
fn what_stands_in_a_row_is_shown_in_characters_that_show() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID TEXT, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT, \
         FAILURES INTEGER DEFAULT 0, LAST_FAILURE TEXT, LAST_ERROR TEXT, PAYLOAD TEXT)",
    );
    let insert = "INSERT INTO BACKLOG (ID, STATUS, DATE_INSERTED, LAST_ERROR, PAYLOAD) \
                  VALUES (?1, ?2, ?3, ?1, ?1)";
    let connection = env.connection();
    for (id, status, date) in [
        (SLY, "NEW", "2026-11-20T23:00:00Z"),
        ("foreign", SLY, "2026-11-20T23:00:00Z"),
        ("undated", "NEW", SLY),
    ] {
        connection.execute(insert, [id, status, date]).unwrap();
    }
    let (sly, shown) = (quoted(SLY), quoted(SHOWN));
    for args in [
        "list --fibonacci",
        "status --fibonacci",
        &format!("explain {sly} foreign undated {shown} --fibonacci"),
        "process --fibonacci --dry-run -v",
        "process --ndays 7 --dry-run -v",
        &format!("check --fibonacci -- {sly}"),
        &format!("archive --dry-run {sly} foreign undated {shown}"),
    ] {
        let said = both_visible(&env.run_at(MIDNIGHT, args));
        assert!(said.contains(SHOWN), "{args:?}: {said}");
    }
    for args in ["list --json", "status --json", "check --json"] {
        let said = env.run_at(MIDNIGHT, args).stdout;
        is_visible(&said);
        assert!(args.starts_with("check") || said.contains(IN_JSON), "{args:?}: {said}");
        let text = |json: &serde_json::Value| json.to_string().contains("a\u{202e}b\u{2028}c");
        let values = said.lines().map(|line| serde_json::from_str(line).unwrap());
        assert!(
            args.starts_with("check") || values.into_iter().any(|value| text(&value)),
            "the same value"
        );
    }

    // Handlers get what is there.
    let handler = env.script("handler", "cat >>got; printf '\\342\\200\\256sly' >&2; exit 1");
    let args = "process --fibonacci --where 'PAYLOAD = ID' --joblog log -vv";
    let pass = env.run_at(MIDNIGHT, &format!("{args} -- {handler}"));
    both_visible(&pass);
    assert_contains(&env.read("got"), "a\u{202e}b\u{2028}c\u{200b}d\u{9b}e");
    let log = env.read("log");
    is_visible(&log);
    assert!(log.contains(IN_JSON) && log.contains(r"\\u{202e}sly"), "{log}");
    let kept = env.query("SELECT DISTINCT LAST_ERROR FROM BACKLOG WHERE ID <> 'foreign'");
    assert_eq!(kept, r"\u{202e}sly");
}

#[test]
fn what_a_webhook_answers_is_kept_in_characters_that_show() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    let body = "no \u{202e}way\u{2066} \u{85}";
    let server = test_support::server::Server::new(&[(
        "/",
        test_support::server::Answer::new("500 Internal Server Error", &[], body),
    )]);
    env.pass(&format!("--ndays 1 --post {}", server.url("/"))).silent();
    let error = env.query("SELECT LAST_ERROR FROM BACKLOG");
    assert!(error.ends_with(r"no \u{202e}way\u{2066}"), "{error}");
}

#[test]
fn paths_and_names_are_shown_in_characters_that_show() {
    let env = TestEnv::empty();
    let path = env.path(SLY);
    let run = |args: &str| env.command(args).env("BACKLOG_DB", &path).ran();
    let table = "t\u{202e}\u{9b}";
    assert!(both_visible(&run("list")).contains(SHOWN));
    assert!(both_visible(&run("init")).contains("created table BACKLOG in "));
    for args in ["status", "check", &format!("list --table {}", quoted(SLY))] {
        let ran = run(args);
        assert!(both_visible(&ran).contains("BACKLOG"), "{ran:?}");
    }
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch(&format!("ALTER TABLE BACKLOG RENAME TO \"{table}\"")).unwrap();
    drop(connection);
    for args in ["status", "check", "process --ndays 1 -vv -- true"] {
        let ran = run(&format!("{args} --table {table}"));
        let ran = if args.starts_with("process") { run("list") } else { ran };
        assert!(both_visible(&ran).contains(r"t\u{202e}\u{9b}"), "{ran:?}");
    }
    // The tables of a file.
    let config = format!("[queue.q]\ntable = {table:?}\n");
    fs::write(
        env.path("backlog.toml"),
        config.replace("\\u{9b}", "\\u009b").replace("{202e}", "202e"),
    )
    .unwrap();
    let ran = run("process --all-queues --ndays 1 --dry-run");
    assert!(both_visible(&ran).contains("queue q:"), "{ran:?}");
    let ran = run("status --all-queues --json");
    assert!(both_visible(&ran).contains("\"table\""), "{ran:?}");
}

#[test]
fn what_a_server_says_is_shown_in_characters_that_show() {
    let Some((database, env)) = server_with_table() else { return };
    database.sql(&format!(
        "INSERT INTO backlog (date_inserted) VALUES (now());
         CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN RAISE WARNING E'{SLY}'; RAISE EXCEPTION E'{SLY}'; END $$;
         CREATE TRIGGER no BEFORE UPDATE ON backlog FOR EACH ROW EXECUTE FUNCTION no()"
    ));
    let pass = env.command("process --ndays 1 -vv -- true").env("RUST_LOG", "info").ran();
    assert!(both_visible(&pass).contains(r"a\u{202e}b"), "{pass:?}");
    let archive = env.run("archive 1");
    assert!(both_visible(&archive).contains(r"a\u{202e}b"), "{archive:?}");
}

#[test]
fn an_id_in_a_suggested_command_is_one_word_of_a_shell() {
    for id in ["x;touch ran;#", "-rf", "it's", "a b"] {
        let env = TestEnv::with_schema(
            "CREATE TABLE BACKLOG (ID TEXT PRIMARY KEY, STATUS TEXT NOT NULL DEFAULT 'NEW', DATE_INSERTED TEXT)",
        );
        let insert =
            "INSERT INTO BACKLOG (ID, STATUS, DATE_INSERTED) VALUES (?1, 'ARCHIVED', '2026-11-20')";
        env.connection().execute(insert, [id]).unwrap();
        let explained = env.run(&format!("explain -- {}", quoted(id))).success().stdout;
        let (_, command) = explained.split_once("way back    ").unwrap();
        let mut commands = vec![command.trim().to_string()];
        if !id.starts_with('-') {
            let tried = env.run(&format!("process {} -- true", quoted(id))).stderr;
            commands.extend(tried.split('`').nth(1).map(String::from));
        }
        for command in commands {
            let words = shlex::split(&command).unwrap();
            assert_eq!(words[..2], ["backlog", "restore"]);
            assert_eq!(words.last().map(String::as_str), Some(id), "{command}");
        }
    }
}
