//! Dates as other programs write them: read as what they are, or refused with the word to say.

use test_support::cluster::cluster;

use crate::testenv::*;

/// A table whose dates are numbers of this kind, with two records of a minute ago.
fn jobs(declared: &str, number: impl Fn(i64) -> String) -> TestEnv {
    let at = MIDNIGHT - MINUTE;
    TestEnv::with_schema(&format!(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT NOT NULL DEFAULT 'NEW', DATE_INSERTED {declared},
           FAILURES INTEGER NOT NULL DEFAULT 0, LAST_FAILURE {declared});
         INSERT INTO BACKLOG (DATE_INSERTED) VALUES ({}), ({})",
        number(at),
        number(at),
    ))
}

fn pass(env: &TestEnv, now: i64, options: &str, end: &str) -> Ran {
    env.run_at(now, &format!("process {options} -- {}", env.noting(end)))
}

/// Each format that has to be named, the type of its column, and an instant in it.
type Kind = (&'static str, &'static str, fn(i64) -> String, &'static str);

const KINDS: [Kind; 4] = [
    ("ticks", "BIGINT", |at| format!("{}", (at + 62_135_596_800) * 10_000_000), "epoch-ns"),
    ("filetime", "BIGINT", |at| format!("{}", (at + 11_644_473_600) * 10_000_000), "epoch-ns"),
    ("apple", "REAL", |at| format!("{}.5", at - 978_307_200), "epoch"),
    ("apple", "INTEGER", |at| format!("{}", (at - 978_307_200) * 1_000_000_000), "epoch-ns"),
];

#[test]
fn dates_that_look_like_those_of_other_years_are_refused_until_their_format_is_named() {
    for (format, declared, number, taken_for) in KINDS {
        let env = jobs(declared, number);
        let named = format!("date_inserted.format={format}");
        let why = [
            "column DATE_INSERTED of table BACKLOG holds ",
            &format!(", which as {taken_for} is 19"),
            &format!("(as {format} it is 2026-11-20T23:59:00Z)"),
            "name their format, date_inserted = { column = \"DATE_INSERTED\", format = \"...\" }, one of \
             ticks, filetime, apple",
        ];
        pass(&env, MIDNIGHT, "--fibonacci --max-age 30d", "exit 1").fails(1, &why);
        env.pass("--fibonacci --dry-run").fails(1, &why);
        let checked = env.run_at(MIDNIGHT, "check --fibonacci -- true");
        assert!(why.iter().all(|part| checked.stdout.contains(part)), "{checked:?}");
        assert_eq!(env.statuses(), "1|NEW\n2|NEW");
        let options = format!("--fibonacci --max-age 30d --set {}", quoted(&named));
        pass(&env, MIDNIGHT, &options, "exit 1").silent();
        let failed = env
            .query("SELECT DISTINCT STATUS, FAILURES, LAST_FAILURE - DATE_INSERTED FROM BACKLOG");
        let minute = match (declared, format) {
            ("REAL", _) => "59.5",
            (_, "apple") => "60000000000",
            _ => "600000000",
        };
        assert_eq!(failed, format!("ERROR|1|{minute}"), "written in {format} as well");
        pass(&env, MIDNIGHT + 59, &options, "").silent();
        assert_eq!(env.handled(), ["2", "1"], "and read again: the wait is not over");
        pass(&env, MIDNIGHT + 60, &options, "").silent();
        assert_eq!(env.statuses(), "1|SUCCESS\n2|SUCCESS");
    }
}

/// In each kind of column one row has a number of another program, which would be a date of the years 1974 to 1996.
#[test]
fn one_odd_row_decides_no_format_and_is_no_old_date() {
    let in_seconds = [("epoch", 1), ("epoch-ns", 1_000_000_000)];
    let all = in_seconds.into_iter().flat_map(|unit| KINDS.map(|kind| (unit, kind)));
    for ((unit, scale), (format, _, odd, _)) in all {
        for place in ["first", "last"] {
            let env = jobs("INTEGER", |at| (at * scale).to_string());
            let id = if place == "first" { 1 } else { 2 };
            let number = odd(MIDNIGHT - MINUTE);
            let whole = number.split('.').next().unwrap();
            env.sql(&format!("UPDATE BACKLOG SET DATE_INSERTED = {whole} WHERE ID = {id}"));
            let what = format!("{format} in {unit}, {place}");
            pass(&env, MIDNIGHT, "--fibonacci --max-age 30d", "exit 1").silent();
            let rows = env.query("SELECT STATUS, LAST_FAILURE FROM BACKLOG");
            let row = format!("ERROR|{}", MIDNIGHT * scale);
            assert_eq!(rows, format!("{row}\n{row}"), "{what}");
            env.sql("UPDATE BACKLOG SET STATUS = 'SUCCESS'");
            let prune = "prune --older-than 30d --status SUCCESS --set finished_at=DATE_INSERTED";
            let pruned = env.run_at(MIDNIGHT, prune).success();
            assert_eq!(pruned.stdout, "deleted 0 SUCCESS records\n", "{what}");
            assert_contains(&pruned.stderr, "never pruned: 1 SUCCESS record");
        }
    }
}

#[test]
fn numbers_among_dates_of_text_do_not_speak_for_the_column() {
    let env = jobs("", |at| format!("datetime({at}, 'unixepoch')"));
    env.sql("INSERT INTO BACKLOG (DATE_INSERTED) VALUES (639315678534177775)");
    pass(&env, MIDNIGHT, "--fibonacci", "").success();
    assert_eq!(env.statuses(), "1|SUCCESS\n2|SUCCESS\n3|SUCCESS");
}

#[test]
fn a_last_failure_has_a_format_of_its_own() {
    let (_, _, ticks, _) = KINDS[0];
    let env = jobs("TEXT", |_| "'2026-11-20 23:59:00'".into());
    let failed = ticks(MIDNIGHT);
    env.sql(&format!(
        "ALTER TABLE BACKLOG ADD COLUMN TRIED BIGINT; UPDATE BACKLOG SET STATUS = 'ERROR', FAILURES = 1, TRIED = {failed}"
    ));
    let why = [
        "column TRIED of table BACKLOG holds ",
        "last_failure = { column = \"TRIED\", format = \"...\" }",
    ];
    pass(&env, MIDNIGHT, "--fibonacci --set last_failure=TRIED", "").fails(1, &why);
    let options = r#"--fibonacci --set 'last_failure={column="TRIED", format="ticks"}'"#;
    pass(&env, MIDNIGHT + 59, options, "").silent();
    assert_eq!(env.handled(), [""; 0]);
    pass(&env, MIDNIGHT + 60, options, "exit 1").silent();
    assert_eq!(env.handled(), ["2", "1"]);
    let tried = format!("2|{}", ticks(MIDNIGHT + 60));
    assert_eq!(env.query("SELECT DISTINCT FAILURES, TRIED FROM BACKLOG"), tried);
}

#[test]
fn old_dates_are_right_where_their_format_is_named_or_one_is_recent() {
    let old = |_| "1353456000".into();
    let env = jobs("INTEGER", old);
    pass(&env, MIDNIGHT, "--fibonacci", "").fails(1, &["which as epoch is 2012-11-21T00:00:00Z"]);
    pass(&env, MIDNIGHT, "--fibonacci --set date_inserted.format=epoch", "").silent();
    assert_eq!(env.handled(), ["2", "1"]);
    let env = jobs("INTEGER", old);
    env.sql(&format!("INSERT INTO BACKLOG (DATE_INSERTED) VALUES ({MIDNIGHT})"));
    pass(&env, MIDNIGHT, "--fibonacci", "").silent();
    assert_eq!(env.statuses(), "1|SUCCESS\n2|SUCCESS\n3|SUCCESS");
}

#[test]
fn any_blank_between_day_and_clock_is_one() {
    for blank in ['\u{a0}', '\u{202f}', '\u{2009}', '\u{3000}', '\u{85}', '\u{1680}', '\t'] {
        let env = jobs("TEXT", |_| format!("'2026-11-20{blank}23:59:00'"));
        for command in ["status", "list", "check", "failures"] {
            let ran = env.run_at(MIDNIGHT, command);
            assert!(ran.exit.is_some_and(|exit| exit < 2), "{command} {blank:?} {ran:?}");
        }
        assert_ne!(env.run("adopt --table BACKLOG").exit, Some(101));
        pass(&env, MIDNIGHT, "--ndays 1", "").silent();
        assert_eq!(env.statuses(), "1|SUCCESS\n2|SUCCESS", "{blank:?}");
    }
}

#[test]
fn iso_8601_is_read_in_its_basic_form_with_a_comma_and_to_the_end_of_the_day() {
    for date in [
        "20261120T235900Z",
        "20261120T2359",
        "2026-11-20T23:59:00,5Z",
        "2026-11-20T24:00:00Z",
        "2026-11-20T23:59:00Z  ",
    ] {
        for format in ["", "--set date_inserted.format=iso"] {
            let env = jobs("TEXT", |_| format!("'{date}'"));
            pass(&env, MIDNIGHT, &format!("--ndays 1 --min-ndays 0 {format}"), "").silent();
            assert_eq!(env.statuses(), "1|SUCCESS\n2|SUCCESS", "{date} {format}");
        }
    }
    let env = jobs("TEXT", |_| "' 2026-11-20T23:59:00Z'".into());
    let unread =
        "2 pending records are not tried, because their DATE_INSERTED cannot be read as a date";
    pass(&env, MIDNIGHT, "--ndays 1 -v", "").fails(0, &[unread]);
    assert_eq!(env.handled(), [""; 0], "a date after a blank is none");
}

#[test]
fn a_wait_is_a_wait_in_the_hour_that_comes_twice() {
    let zone = "date_inserted={column=\"DATE_INSERTED\", zone=\"Europe/Berlin\"}";
    let options =
        format!("--policy constant:delay=30m --spread 0% --max-attempts 20 --set {}", quoted(zone));
    // 02:00 in Berlin on 2026-10-25, for the first and for the second time.
    for (begin, attempts) in [(1_792_886_400, 4), (1_792_890_000, 2)] {
        let env = jobs("TEXT", |_| "'2026-10-24 20:00:00'".into());
        env.sql("DELETE FROM BACKLOG WHERE ID > 1");
        let passes = (begin..1_792_893_600).step_by(180);
        passes.for_each(|now| assert!(pass(&env, now, &options, "exit 1").exit == Some(0)));
        let handled = env.handled().len();
        assert!(handled <= attempts, "{handled} attempts");
        assert!(handled > 1, "{handled} attempts");
    }
}

/// Clocks are set back by half an hour there, by an hour, and by two.
#[test]
fn a_next_attempt_is_never_early_where_a_clock_is_set_back() {
    for (zone, changes_at) in [
        ("Australia/Lord_Howe", 1_775_314_800),
        ("Europe/Berlin", 1_792_890_000),
        ("Antarctica/Troll", 1_792_890_000),
    ] {
        let env = TestEnv::with_schema(
            "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT NOT NULL DEFAULT 'NEW', DATE_INSERTED TEXT,
               FAILURES INTEGER NOT NULL DEFAULT 0, RUN_AT TEXT);
             INSERT INTO BACKLOG (DATE_INSERTED) VALUES ('2026-01-01 20:00:00')",
        );
        let dates = format!("date_inserted={{column=\"DATE_INSERTED\", zone=\"{zone}\"}}");
        let options = format!(
            "--policy constant:delay=30m --spread 0% --set {} --set 'on_failure={{RUN_AT=\"{{next}}\"}}'",
            quoted(&dates)
        );
        let passes = (changes_at - 2 * HOUR..changes_at + 2 * HOUR).step_by(300);
        passes.for_each(|now| assert!(pass(&env, now, &options, "exit 1").exit == Some(0)));
        let handled = env.handled().len();
        assert!((4..=8).contains(&handled), "{zone}: {handled} attempts in four hours");
    }
}

#[test]
fn years_that_cannot_be_written_are_no_dates_for_any_command() {
    let Some(cluster) = cluster() else { return skipped("dates of PostgreSQL: no server") };
    for declared in ["timestamptz", "timestamp", "date"] {
        let database = cluster.database();
        database.sql(&format!(
            "CREATE TABLE backlog (id int PRIMARY KEY, status text NOT NULL DEFAULT 'NEW', date_inserted {declared});
             INSERT INTO backlog (id, date_inserted) VALUES (1, '0044-03-15 BC'), (2, '12026-01-01'), (3, 'infinity'),
               (4, '-infinity'), (5, NULL), (6, '2026-11-20')"
        ));
        let env = TestEnv::on(&database);
        let status = env.run_at(MIDNIGHT, "status --ndays 7").success().stdout;
        let new = status.lines().find(|line| line.starts_with("NEW")).unwrap();
        let counts: Vec<_> = new.split_whitespace().collect();
        assert_eq!(counts, ["NEW", "1", "0", "0", "0", "0", "0", "0", "5", "6"], "{declared}");
        let unread = "5 pending records are not tried, because their date_inserted cannot be read";
        pass(&env, MIDNIGHT, "--ndays 7 -v", "").fails(0, &[unread]);
        assert_eq!(env.handled(), ["6"]);
    }
}

#[test]
fn the_next_attempt_is_in_the_format_of_the_table() {
    let (_, _, ticks, _) = KINDS[0];
    let due = r#"--policy constant:delay=30m --spread 0% --set 'on_failure={due="{next}"}'"#;
    let named = r#"--set 'date_inserted={column="DATE_INSERTED", format="ticks"}'"#;
    for declared in ["INTEGER", "NUMERIC", "REAL", "DATETIME", ""] {
        let env = jobs("BIGINT", ticks);
        env.sql(&format!(
            "ALTER TABLE BACKLOG ADD COLUMN due {declared}; ALTER TABLE BACKLOG ADD COLUMN tried {declared}; DELETE FROM BACKLOG WHERE ID = 2"
        ));
        let options = format!("{due} {named} --set last_failure=tried");
        pass(&env, MIDNIGHT, &options, "exit 1").silent();
        let expected = format!("{}|{}", ticks(MIDNIGHT), ticks(MIDNIGHT + 30 * MINUTE));
        let written = "SELECT CAST(tried AS INTEGER), CAST(due AS INTEGER) FROM BACKLOG";
        assert_eq!(env.query(written), expected, "{declared}");
        pass(&env, MIDNIGHT + 29 * MINUTE, &options, "").silent();
        assert_eq!(env.handled(), ["1"], "{declared}");
        pass(&env, MIDNIGHT + 30 * MINUTE, &options, "").silent();
        assert_eq!(env.statuses(), "1|SUCCESS", "{declared}");
    }
    // Where only the next attempt is in ticks.
    let env = jobs("TEXT", |_| "'2026-11-20 23:00:00'".into());
    env.sql(&format!(
        "ALTER TABLE BACKLOG ADD COLUMN due INTEGER; UPDATE BACKLOG SET due = {}",
        ticks(MIDNIGHT)
    ));
    let says = [
        "column due of table BACKLOG holds ",
        "name their format, last_failure = { format = \"...\" }, one of",
    ];
    pass(&env, MIDNIGHT, due, "exit 1").fails(1, &says);
    let options = format!(r#"{due} --set 'last_failure={{format="ticks"}}'"#);
    pass(&env, MIDNIGHT, &options, "exit 1").silent();
    assert_eq!(env.query("SELECT DISTINCT due FROM BACKLOG"), ticks(MIDNIGHT + 30 * MINUTE));
}

#[test]
fn text_of_digits_is_refused_until_its_format_is_named() {
    let (_, _, apple, _) = KINDS[2];
    let quoted = |at| format!("'{}'", apple(at));
    let env = jobs("TEXT", quoted);
    pass(&env, MIDNIGHT, "--fibonacci", "")
        .fails(1, &["set their format beside the column in date_inserted, format = "]);
    env.sql(&format!(
        "UPDATE BACKLOG SET STATUS = 'ERROR', FAILURES = 1, LAST_FAILURE = {}",
        quoted(MIDNIGHT)
    ));
    let named = "--fibonacci --set date_inserted.format=apple";
    let says =
        ["name the format of its digits, last_failure = { column = \"LAST_FAILURE\", format = "];
    pass(&env, MIDNIGHT, named, "").fails(1, &says);
    let both = format!("{named} --set last_failure.format=apple");
    pass(&env, MIDNIGHT + 59, &both, "").silent();
    assert_eq!(env.handled(), [""; 0]);
    pass(&env, MIDNIGHT + 60, &both, "").silent();
    assert_eq!(env.count("SUCCESS"), 2);
}

#[test]
fn check_works_on_a_server_whatever_the_type_of_the_last_failure() {
    let Some(cluster) = cluster() else { return skipped("dates of PostgreSQL: no server") };
    for declared in ["bigint", "numeric", "double precision", "text", "date"] {
        let database = cluster.database();
        database.sql(&format!(
            "CREATE TABLE backlog (id int PRIMARY KEY, status text NOT NULL DEFAULT 'NEW', date_inserted timestamptz,
               failures int NOT NULL DEFAULT 0, last_failure {declared});
             INSERT INTO backlog VALUES (1, 'NEW', '2026-11-20T23:00:00Z', 0)"
        ));
        let env = TestEnv::on(&database);
        let checked = env.run_at(MIDNIGHT, "check --fibonacci -- true").stdout;
        assert!(!checked.contains("could not read"), "{declared}: {checked}");
    }
}

#[test]
fn a_format_that_is_named_is_written_to_a_column_that_is_still_empty() {
    let at = MIDNIGHT;
    for (format, declared, written) in [
        ("ticks", "BIGINT", KINDS[0].2(at)),
        ("filetime", "INTEGER", KINDS[1].2(at)),
        ("apple", "REAL", format!("{}", at - 978_307_200)),
        ("epoch-ms", "BIGINT", format!("{at}000")),
        ("epoch-ns", "BIGINT", format!("{at}000000000")),
        ("compact", "BIGINT", "20261121000000".into()),
        ("ticks", "TEXT", KINDS[0].2(at)),
        ("iso", "TEXT", "2026-11-21 00:00:00".into()),
    ] {
        let env = jobs("TEXT", |_| "'2026-11-20 23:00:00'".into());
        env.sql(&format!("ALTER TABLE BACKLOG ADD COLUMN TRIED {declared}"));
        let named = format!("last_failure={{column=\"TRIED\", format=\"{format}\"}}");
        let options = format!("--fibonacci --set {}", quoted(&named));
        for pass_number in 1..3 {
            pass(&env, at + (pass_number - 1) * 3 * MINUTE, &options, "exit 1").silent();
            assert_eq!(env.handled().len(), 2, "{format} {declared}");
        }
        pass(&env, at, &options, "").silent();
        env.sql("UPDATE BACKLOG SET TRIED = NULL, FAILURES = 0, STATUS = 'NEW'");
        pass(&env, at, &options, "exit 1").silent();
        assert_eq!(env.query("SELECT DISTINCT TRIED FROM BACKLOG"), written, "{format} {declared}");
    }
}

#[test]
fn a_wrong_format_is_told_from_the_right_one() {
    let env = jobs(KINDS[0].1, KINDS[0].2);
    let says = [
        "holds no date in format filetime, but 639",
        "which as ticks is 2026-11-20T23:59:00Z: name that format",
    ];
    pass(&env, MIDNIGHT, "--fibonacci --set date_inserted.format=filetime", "").fails(1, &says);
}

#[test]
fn a_text_in_a_column_of_another_type_is_due_at_every_age() {
    let spellings = ["'2026-11-19 00:00:00'", "'2026-11-19T00:00:00Z'", "'20261119T000000Z'"];
    for declared in ["datetime", "numeric", "integer", "text", ""] {
        let values = spellings.map(|text| format!("({text})")).join(", ");
        let env = TestEnv::with_schema(&format!(
            "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED {declared});
             INSERT INTO BACKLOG (DATE_INSERTED) VALUES {values}"
        ));
        for options in ["--ndays 30", "--min-ndays 1 --ndays 30"] {
            pass(&env, MIDNIGHT, options, "exit 1").silent();
            assert_eq!(env.handled().len(), 3, "{declared}: {options:?}");
        }
        // A record of two days is tried once an hour.
        for minute in (0..60).step_by(5) {
            pass(&env, MIDNIGHT + minute * MINUTE, "--progressive", "exit 1").silent();
        }
        assert_eq!(env.handled().len(), 3, "{declared}");
    }
}

#[test]
fn old_rows_in_front_do_not_hide_recent_ones() {
    let Some((database, env)) = server_with(&format!(
        "CREATE TABLE backlog (id bigint PRIMARY KEY, status text, date_inserted bigint);
         INSERT INTO backlog SELECT n, 'SUCCESS', 1400000000 + n FROM generate_series(1, 1200) n;
         INSERT INTO backlog VALUES (2000, 'NEW', {MIDNIGHT} - 60)"
    )) else {
        return;
    };
    pass(&env, MIDNIGHT, "--ndays 1", "").silent();
    assert_eq!(database.query("SELECT status FROM backlog WHERE id = 2000").trim(), "SUCCESS");
    let wrong = "UPDATE backlog SET status = 'NEW', date_inserted = date_inserted - 978307200";
    database.sql(wrong);
    pass(&env, MIDNIGHT, "--ndays 1", "").fails(1, &["name their format, date_inserted = "]);
}

#[test]
fn a_pass_goes_on_after_the_column_of_its_cursor_was_changed() {
    let Some((database, env)) = server_with(&format!(
        "CREATE TABLE backlog (id bigint PRIMARY KEY, status text DEFAULT 'NEW', date_inserted bigint,
           failures int DEFAULT 0, last_failure timestamptz, last_error text);
         INSERT INTO backlog (id, date_inserted) SELECT n, {MIDNIGHT} - 600 + n FROM generate_series(1, 5) n"
    )) else {
        return;
    };
    for minute in 0..3 {
        pass(&env, MIDNIGHT + 600 * minute, "--fibonacci --max-records 3", "exit 1").silent();
    }
    env.handled();
    database.sql("ALTER TABLE backlog ALTER COLUMN date_inserted TYPE timestamptz USING to_timestamp(date_inserted)");
    pass(&env, MIDNIGHT + DAY, "--fibonacci --max-records 3", "exit 1").silent();
    assert_eq!(env.handled().len(), 3);
}

#[test]
fn a_last_failure_at_the_insertion_in_the_repeated_hour_is_none() {
    let env = TestEnv::with_schema(
        "CREATE TABLE q (id INTEGER PRIMARY KEY, status TEXT, created TEXT NOT NULL, tries INTEGER NOT NULL DEFAULT 0,
           last TEXT NOT NULL);
         INSERT INTO q VALUES (1, 'P', '2026-10-25 02:30:00', 0, '2026-10-25 02:30:00')",
    );
    env.write(
        "backlog.toml",
        "[queue.q]\ntable = 'q'\nstatus = { column = 'status', new = 'P', error = 'P', success = 'S', archived = 'A' }\n\
         date_inserted = { column = 'created', zone = 'Europe/Berlin' }\nfailures = 'tries'\nlast_failure = 'last'\n\
         policy = 'even'\nmax_age = '3d'\n",
    );
    let listed = env.run_at(MIDNIGHT - 10 * DAY, "list --queue q").success().stdout;
    assert_contains(&listed, "NEW");
    pass(&env, MIDNIGHT - 10 * DAY, "--queue q", "").silent();
    assert_eq!(env.query("SELECT status FROM q"), "S");
}

#[test]
fn text_of_digits_is_refused_with_the_formats_in_which_it_is_recent() {
    let env = jobs("TEXT", |at| format!("'{}'", at - 978_307_200));
    let why = ["holds text of digits", "format = \"apple\" (it would be 2026-11-20T23:59:00Z)"];
    pass(&env, MIDNIGHT, "--ndays 1", "").fails(1, &why);
}

#[test]
fn now_is_written_in_the_named_format_of_the_column_of_finished_records() {
    let (_, _, ticks, _) = KINDS[0];
    let env = TestEnv::with_record(1, MIDNIGHT - MINUTE);
    env.sql(&format!(
        "ALTER TABLE BACKLOG ADD COLUMN done INTEGER;
         INSERT INTO BACKLOG (STATUS, DATE_INSERTED, done) VALUES ('SUCCESS', '2026-11-20', {})",
        ticks(MIDNIGHT - DAY)
    ));
    let options = "--ndays 1 --set 'finished_at={column=\"done\", format=\"ticks\"}' --set 'on_success={done=\"{now}\"}'";
    pass(&env, MIDNIGHT, options, "").silent();
    assert_eq!(env.query("SELECT done FROM BACKLOG WHERE ID = 1"), ticks(MIDNIGHT));
}
