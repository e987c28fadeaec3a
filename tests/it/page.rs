//! The page of `status --html`: what stands on it, that it is whole in itself, and how it is put in place.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::queues::{self, MAILS, ORDERS, run as run_several};
use crate::testenv::*;

/// The page of the only queue.
fn page(env: &TestEnv, now: i64, args: &str) -> String {
    env.run_at(now, &format!("status --html page.html {args}")).silent();
    read(env)
}

fn read(env: &TestEnv) -> String {
    env.read("page.html")
}

/// The text between two texts.
#[track_caller]
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("no {from:?} in {text}"));
    rest.split_once(to).unwrap_or_else(|| panic!("no {to:?} in {rest}")).0
}

/// The visible text of a piece of HTML, with one blank between words.
fn seen(html: &str) -> String {
    let mut text = String::new();
    for part in html.split('<') {
        text += part.split_once('>').map_or(part, |(_, rest)| rest);
        text.push(' ');
    }
    for (entity, sign) in [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#x27;", "'")] {
        text = text.replace(entity, sign);
    }
    let text = text.replace("&#x2f;", "/").replace("&amp;", "&");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The section below a heading, to the next.
#[track_caller]
fn section(page: &str, heading: &str) -> String {
    let (_, rest) = page.split_once(&format!(">{heading}</h")).unwrap_or_else(|| panic!("{page}"));
    seen(rest.split("<h").next().unwrap()).trim_start_matches(['2', '3', '>', ' ']).into()
}

/// Three queues, one of them without a table.
pub fn several() -> TestEnv {
    let env = queues::env(&[ORDERS, MAILS, "[queue.a-b]\ntable = 'gone'\n"].concat());
    env.sql("DELETE FROM mails");
    env
}

#[test]
fn the_page_says_what_fails_why_and_when_it_is_tried_next() {
    let env = TestEnv::with_records(5, MIDNIGHT - 2 * DAY);
    let handler = env.script("handler", "[ $BACKLOG_ID -lt 4 ] || { echo HTTP 503 >&2; exit 1; }");
    env.pass(&format!("--fibonacci -- {handler}")).silent();
    env.run_at(MIDNIGHT, "archive 5").success();
    let page = page(&env, MIDNIGHT + 30, "--fibonacci");
    let text = seen(&page);
    for says in [
        "Backlog of default",
        "1 record has failed; 1 record is archived",
        "Made at 2026-11-21 00:00:30 UTC, every 5m; the next is due at 2026-11-21 00:05:30 UTC.",
        "Failed 1 of 1 pending",
        "Due now 0",
        "Waiting 1 the next is due in 30 s",
        "Archived 1 0 in the last 24 h",
        "Last pass 30 s ago: 2 failed",
    ] {
        assert!(text.contains(says), "{says}: {text}");
    }
    let causes = section(&page, "Why records fail");
    assert_contains(&causes, "1 HTTP 503 2026-11-21 00:00 2026-11-21 00:00 4");
    assert_contains(&causes, "backlog failures , and when");
    let archived = section(&page, "Archived records");
    assert_contains(&archived, "5 HTTP 503 2026-11-19 00:00 2026-11-21 00:00");
    assert_contains(&section(&page, "Last passes"), "3 succeeded, 2 failed");
    for class in ["succeeded", "failed"] {
        assert_contains(&page, &format!("<path class=\"{class}\" d=\"M291 "));
    }
    let ages = section(&page, "Records by status and age");
    for row in ["ERROR 1 0 1 0 0 0 0 0 0", "SUCCESS 3 0 3", "ARCHIVED 1 0 1", "Total 5 0 5"] {
        assert!(ages.contains(row), "{row}: {ages}");
    }
}

#[test]
fn next_attempts_stand_in_their_hours() {
    let env = TestEnv::new();
    for (id, failures) in [(1, 1), (2, 1), (3, 2), (4, 3), (5, 4)] {
        env.insert_one(id, MIDNIGHT - DAY);
        env.sql(&format!(
            "UPDATE BACKLOG SET STATUS = 'ERROR', FAILURES = {failures},
               LAST_FAILURE = '2026-11-21T00:00:00Z' WHERE ID = {id}"
        ));
    }
    env.insert_one(6, MIDNIGHT);
    let policy = "list:1h,2h,24h,25h,spread=0%";
    let page = page(&env, MIDNIGHT + MINUTE, &format!("--policy {policy}"));
    let attempts = section(&page, "Next attempts");
    for says in [
        "due now 1 later than in 24 hours 1 archived by the next pass 0 never 0",
        "in the hour from 2026-11-21 00:01:00 2 in the hour from 2026-11-21 01:01:00 1",
        "in the hour from 2026-11-21 02:01:00 0",
        "in the hour from 2026-11-21 23:01:00 1",
        "at most 2 in one",
    ] {
        assert!(attempts.contains(says), "{says}: {attempts}");
    }
    let bars = between(&page, "<path class=\"hour\" d=\"", "\"");
    assert_eq!(bars, "M1 100h8v-100h-8zM11 100h8v-50h-8zM231 100h8v-50h-8z");
}

#[test]
fn the_lowest_bar_is_seen_and_the_highest_fills_the_chart() {
    let env = TestEnv::with_records(100, MIDNIGHT);
    env.pass("--fibonacci -- sh -c '[ $BACKLOG_ID != 7 ]'");
    env.sql(
        "UPDATE BACKLOG SET STATUS = 'ERROR', LAST_FAILURE = '2026-11-21T00:00:00Z',
           FAILURES = iif(ID = 7, 2, 1)",
    );
    let page = page(&env, MIDNIGHT, "--policy list:90m,150m,spread=0%");
    for bars in [
        "<path class=\"succeeded\" d=\"M291 100h8v-99h-8z\"/>",
        "<path class=\"failed\" d=\"M291 1h8v-1h-8z\"/>",
        "<path class=\"hour\" d=\"M11 100h8v-100h-8zM21 100h8v-2h-8z\"/>",
    ] {
        assert!(page.contains(bars), "{bars}: {page}");
    }
}

#[test]
fn by_age_alone_a_record_is_due_at_each_pass() {
    let env = TestEnv::minimal();
    env.insert(2, MIDNIGHT - HOUR);
    let attempts = section(&page(&env, MIDNIGHT, "--ndays 1"), "Next attempts");
    assert!(attempts.starts_with("By --ndays 1 a record is due at each pass that cron starts: 2"));
    let unknown = section(&page(&env, MIDNIGHT, ""), "Next attempts");
    assert_contains(&unknown, "say --ndays , --fibonacci , --policy or --progressive");
}

#[test]
fn several_queues_stand_on_one_page_each_below_its_link() {
    let env = several();
    for queue in ["orders", "mails"] {
        run_several(&env, &format!("process --queue {queue}")).silent();
    }
    for args in ["", "--all-queues"] {
        let _ = fs::remove_file(env.path("page.html"));
        let ran = run_several(&env, &format!("status --html page.html {args}"));
        assert_eq!((ran.exit, &*ran.stdout), (Some(1), ""), "{ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
        assert!(ran.stderr.starts_with("backlog: queue a-b: "), "{ran:?}");
        let page = read(&env);
        let all = section(&page, "All queues");
        assert_contains(&all, "orders 3 0 0 3 not known 3 0 now: 3 failed");
        assert_contains(&all, "mails 0 0 0 0 none 0 0 now: ");
        assert!(all.contains("a-b not known: ") && all.contains("no table"), "{all}");
        let summary = between(&page, "<p class=\"summary bad\">", "</p>");
        assert_eq!(summary, "1 queue cannot be read; 3 records have failed");
        for (number, name) in [(1, "orders"), (2, "mails"), (3, "a-b")] {
            assert_contains(&page, &format!("<a href=\"#q{number}\">{name}</a>"));
            assert_contains(&page, &format!("<h2 id=\"q{number}\">{name}</h2>"));
        }
        assert_contains(&page, "<code>backlog failures --queue orders</code>");
        assert!(section(&page, "a-b").starts_with("Nothing is known of this queue: "));
        assert!(section(&page, "mails").contains("table mails in "));
    }
}

#[test]
fn what_others_have_written_is_text() {
    let env = TestEnv::with_records(2, MIDNIGHT);
    env.connection()
        .execute(
            "UPDATE BACKLOG SET LAST_FAILURE = '2026-11-21T00:00:00Z', FAILURES = 1, LAST_ERROR = ?1,
               STATUS = iif(ID = 1, 'ERROR', 'ARCHIVED')",
            ["</script><img src=x onerror=alert()>{{ 7 * 7 }}\u{202e}\u{7}\n\"' &amp; ü🙂"],
        )
        .unwrap();
    let page = page(&env, MIDNIGHT, "--fibonacci");
    let shown = "</script><img src=x onerror=alert()>{{ 7 * 7 }}\\u{202e}\\u{7}\\n\"' &amp; ü🙂";
    assert!(section(&page, "Archived records").contains(shown), "{page}");
    assert!(!page.contains("<img") && page.matches("</script>").count() == 1, "{page}");
    assert!(!page.contains(['\u{202e}', '\u{7}']), "{page}");
}

#[test]
fn the_page_allows_its_own_style_and_script_and_nothing_else() {
    let env = TestEnv::with_records(3, MIDNIGHT);
    env.pass("--fibonacci -- false").silent();
    let page = page(&env, MIDNIGHT, "--fibonacci --every 10m");
    let policy = between(&page, "\"Content-Security-Policy\" content=\"", "\"");
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    let style = hash(between(&page, "<style>", "</style>"));
    let script = hash(between(&page, "<script>", "</script>"));
    assert_eq!(
        policy,
        format!(
            "default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; \
             form-action 'none'"
        )
    );
    assert_contains(&page, "<meta http-equiv=\"refresh\" content=\"600\">");
    assert_contains(&page, "<time id=\"due\" datetime=\"2026-11-21T00:10:00Z\">");
    // Nothing would be fetched, and nothing be blocked.
    for part in [" src=", " style=", "url(", "@import", "<link", "http://", "https://", " onc"] {
        assert!(!page.contains(part), "{part}: {page}");
    }
}

#[test]
fn headings_tables_and_regions_have_names() {
    let env = several();
    run_several(&env, "process --queue orders").silent();
    run_several(&env, "status --html page.html");
    let page = read(&env);
    assert!(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"), "{page}");
    let levels = page.match_indices("<h").filter_map(|(at, _)| page[at + 2..].chars().next());
    let levels: Vec<_> = levels.filter_map(|level| level.to_digit(10)).collect();
    assert_eq!(levels[..2], [1, 2], "{levels:?}");
    assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
    assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1);
    // Each table scrolls in a region that a keyboard reaches and a screen reader names.
    let tables = page.matches("<table").count();
    assert!(tables > 5, "{tables}");
    assert_eq!(
        page.matches("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-").count(),
        tables
    );
    assert_eq!(
        page.matches("<th").count() - page.matches("<thead").count(),
        page.matches("<th scope=").count()
    );
    assert_eq!(
        page.matches("<svg class=\"chart\"").count(),
        page.matches("role=\"img\" aria-label=").count()
    );
    let ids: Vec<_> =
        page.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let unique: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
    for named in page.split("labelledby=\"").skip(1) {
        let id = named.split('"').next().unwrap();
        assert!(ids.contains(&id), "{id}");
    }
}

#[test]
fn a_page_takes_the_place_of_the_last_one_at_once() {
    let env = TestEnv::new();
    page(&env, MIDNIGHT, "");
    let mode = |name: &str| fs::metadata(env.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("page.html"), 0o644);
    let reader = fs::File::open(env.path("page.html")).unwrap();
    fs::set_permissions(env.path("page.html"), fs::Permissions::from_mode(0o640)).unwrap();
    // What a killed run has left behind, or somebody else, is no way to another file.
    env.write("victim", "whole");
    symlink("victim", env.path(".page.html.new")).unwrap();
    let second = page(&env, MIDNIGHT + HOUR, "");
    assert!(
        std::io::read_to_string(reader)
            .unwrap()
            .contains("Made at <time datetime=\"2026-11-21T00:00:00Z\"")
    );
    assert_contains(&second, "2026-11-21T01:00:00Z");
    assert_eq!((mode("page.html"), &*env.read("victim")), (0o640, "whole"));
    let names = fs::read_dir(env.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    let new = names.filter(|name| name.to_str().unwrap().ends_with(".new")).count();
    assert_eq!(new, 1, "only the one that somebody else has made");
}

#[test]
fn a_page_that_cannot_be_written_is_said_once() {
    let env = TestEnv::new();
    for (file, why) in [
        ("none/page.html", "no such file or directory"),
        ("/dev/null", "not a regular file"),
        (".", "not a regular file"),
    ] {
        let ran = env.run(&format!("status --html {file}"));
        let ran = ran.fails(1, &[&format!("could not write {file}: "), why]);
        assert_eq!((ran.stderr.lines().count(), &*ran.stdout), (1, ""), "{ran:?}");
    }
    let gone = TestEnv::empty();
    let ran = gone.run("status --html page.html").fails(1, &["backlog: no database"]);
    assert_eq!((ran.stderr.lines().count(), &*ran.stdout), (1, ""), "{ran:?}");
    assert!(seen(&read(&gone)).contains("Nothing is known of this queue: no database"));
}

#[test]
fn records_that_were_given_up_are_red_for_a_day_and_failed_ones_amber() {
    let env = TestEnv::with_records(3, MIDNIGHT);
    let summary = |now: i64| {
        let page = page(&env, now, "--fibonacci");
        let summary = between(&page, "<p class=\"summary", "</p>").replace("\">", ": ");
        (summary, between(&page, "<ul class=\"figures\">", "</ul>").to_string())
    };
    env.pass("--fibonacci -- sh -c '[ $BACKLOG_ID != 1 ]'");
    let (amber, cards) = summary(MIDNIGHT);
    assert_eq!(amber, " warning: 1 record has failed");
    assert_contains(&cards, "<li class=\"warning\"><span class=\"label\">Failed");
    let last = "process --fibonacci --max-attempts 2 -- false";
    env.run_at(MIDNIGHT + HOUR, last).fails(1, &["record 1 failed after 2 attempts"]);
    let (red, cards) = summary(MIDNIGHT + 2 * HOUR);
    assert_eq!(red, " bad: 1 record was archived in the last 24 hours");
    assert!(seen(&cards).starts_with("Failed 0 of 0 pending Archived 1 1 in the last 24 h"));
    assert_contains(&cards, "<li class=\"bad\"><span class=\"label\">Archived");
    assert_lacks(&cards, "class=\"well\"");
    assert_eq!(summary(MIDNIGHT + 2 * DAY).0, ": 1 record is archived");
}

#[test]
fn a_pause_is_the_first_thing_that_the_page_says() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    let of_passes = |page: &str| page.contains("paused since") && page.contains("moving house");
    assert!(!of_passes(&page(&env, MIDNIGHT, "")));
    env.run_at(MIDNIGHT, "pause --reason 'moving house'").success();
    assert!(of_passes(&seen(&page(&env, MIDNIGHT + 60, ""))));
}

#[test]
fn one_look_makes_the_page_the_metrics_and_the_answer_to_limits() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    let ran = env.run_at(MIDNIGHT, "status --html page.html --metrics m.prom --fail-if pending>0");
    assert_eq!((ran.exit, &*ran.stdout), (Some(2), "CRITICAL: pending 1 (>0)\n"));
    assert!(read(&env).contains("<title>"));
    assert!(env.read("m.prom").contains("backlog_records{"));
    let ran = env.run_at(MIDNIGHT, "status --html none/page.html --fail-if pending>0");
    assert_eq!((ran.exit, &*ran.stdout), (Some(2), "CRITICAL: pending 1 (>0)\n"));
    assert_contains(&ran.stderr, "none/page.html");
}

#[test]
fn the_options_of_a_page_go_with_it_alone() {
    let env = TestEnv::new();
    for other in ["--json", "--passes 3"] {
        env.run(&format!("status --html page.html {other}")).fails(2, &["cannot be used with"]);
    }
}

/// Passes of every kind: some that fail, one that finds nothing, and one that is killed.
pub fn with_passes() -> TestEnv {
    let env = TestEnv::with_records(9, MIDNIGHT - HOUR);
    for (minute, handler) in [(0, "exit 1"), (1, "exit $((BACKLOG_ID % 2))"), (2, "exit 65")] {
        env.run_at(
            MIDNIGHT + minute * MINUTE,
            &format!("process --ndays 1 --max-records 5 --give-up-on 65 -- {}", sh(handler)),
        );
    }
    let handler = env.staying();
    let mut pass = env
        .command(&format!("process --now @1795219380 --ndays 1 -- {}", sh(&handler.script)))
        .spawn()
        .unwrap();
    handler.wait_for_begin();
    env.kill(&mut pass);
    env
}

#[test]
fn a_killed_pass_is_marked_and_told() {
    let env = with_passes();
    let page = page(&env, MIDNIGHT + 4 * MINUTE, "--ndays 1");
    let alarm = between(&page, "<li class=\"alarm\">", "</li>");
    assert!(seen(alarm).contains("1 m ago: killed (pid "), "{alarm}");
    assert_contains(&page, "<path class=\"broken\" d=\"M291 100h8v-100h-8z\"/>");
    for class in ["succeeded", "failed", "archived"] {
        assert!(page.contains(&format!("<path class=\"{class}\" d=\"M2")), "{class}: {page}");
    }
    let summary = between(&page, "<p class=\"summary bad\">", "</p>");
    assert!(
        summary.starts_with("1 queue needs attention; 5 records were archived in"),
        "{summary}"
    );
}

#[test]
fn a_page_of_ten_queues_with_everything_is_small() {
    let env = TestEnv::empty();
    let mut config = String::from("[defaults]\ndb = 'test.db'\nfibonacci = true\n");
    for queue in 0..10 {
        env.sql(&format!(
            "CREATE TABLE t{queue} (ID INTEGER PRIMARY KEY, STATUS TEXT, DATE_INSERTED TEXT,
               FAILURES INTEGER, LAST_FAILURE TEXT, LAST_ERROR TEXT);
             INSERT INTO t{queue} WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
             SELECT i, CASE i % 4 WHEN 0 THEN 'ARCHIVED' WHEN 1 THEN 'odd' || i ELSE 'ERROR' END,
               '2026-11-20T00:00:00Z', i % 9, '2026-11-20T23:59:59Z',
               printf('<''&>%c%.*c', 97 + i % 26, 900, '<') FROM n;"
        ));
        config += &format!("[queue.q{queue}]\ntable = 't{queue}'\n");
    }
    env.write("backlog.toml", config);
    run_several(&env, "status --html page.html").silent();
    let page = read(&env);
    assert!(page.len() < 300_000, "{}", page.len());
    assert_contains(&page, "other statuses");
}

#[test]
fn tidy_finds_nothing_wrong() {
    let several = several();
    run_several(&several, "process --queue orders").silent();
    run_several(&several, "status --html page.html");
    let one = with_passes();
    page(&one, MIDNIGHT + 4 * MINUTE, "--fibonacci");
    for env in [several, one] {
        let mut command = Command::new("tidy");
        command.args(["-quiet", "-errors", "-utf8", "--show-info", "no"]);
        let Ok(output) = command.arg(env.path("page.html")).output() else {
            return skipped("the HTML of the page: there is no tidy");
        };
        let ran = ran(&output);
        assert_eq!((ran.exit, &*ran.stderr), (Some(0), ""), "{}", read(&env));
    }
}
