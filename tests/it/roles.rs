//! Roles and databases whose settings, policies or extensions matter to a pass.

use std::fs;

use crate::testenv::*;
use test_support::cluster::{Database, cluster, pgbouncer};

/// Values whose spelling depends on settings of a session.
const VALUES: &str = "
CREATE TABLE backlog (
  id int PRIMARY KEY, status text DEFAULT 'NEW', date_inserted timestamptz DEFAULT '2026-11-20',
  failures int DEFAULT 0, last_failure timestamptz,
  raw bytea DEFAULT '\\x4f3a00ff5c41', raws bytea[] DEFAULT '{\"\\\\x00ff\"}',
  ratio double precision DEFAULT 0.1::float8 + 0.2, small real DEFAULT 1.17549435e-38,
  point point DEFAULT '(0.30000000000000004,1)', span interval DEFAULT '1 year -2 days 3:04:05',
  word text DEFAULT 'Müller'
);
INSERT INTO backlog (id) VALUES (1)";

/// Settings that a role may have for its sessions.
const SETTINGS: [&str; 7] = [
    "bytea_output = escape",
    "extra_float_digits = 0",
    "intervalstyle = sql_standard",
    "client_encoding = latin1",
    "datestyle = 'SQL, DMY'",
    "timezone = 'Asia/Tokyo'",
    "standard_conforming_strings = off",
];

fn run_on(database: &Database, env: &TestEnv, args: &str) -> Ran {
    let mut command = env.command_at(MIDNIGHT, args);
    command.env("BACKLOG_DB", database.url()).ran()
}

/// Everything that handlers and users see of the record.
fn shown(database: &Database, env: &TestEnv) -> String {
    let mut shown = String::new();
    for handler in ["cat >out; exit 1", "printf '%s\\n' \"$@\" >out; exit 1"] {
        let columns = "{raw} {raws} {ratio} {small} {point} {span} {word}";
        let args = format!("process --ndays 9 -- sh -c {} sh", quoted(handler));
        run_on(database, env, &format!("{args} {columns}")).success();
        shown += &env.read("out");
    }
    let args = "process --ndays 9 --set payload=raw -- sh -c";
    run_on(database, env, &format!("{args} 'cat >out; exit 1'")).success();
    shown += &format!("{:?}", fs::read(env.path("out")).unwrap());
    for args in ["list --json", "explain 1 --fibonacci", "process --ndays 9 --dry-run"] {
        shown += &run_on(database, env, args).success().stdout;
    }
    database.sql("UPDATE backlog SET status = 'NEW', failures = 0, last_failure = NULL");
    shown
}

#[test]
fn values_are_the_same_whatever_a_role_has_set() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    let env = TestEnv::on(&database);
    database.sql(VALUES);
    let usual = shown(&database, &env);
    for part in [
        "\"raw\":\"4F3A00FF5C41\"",
        "\"ratio\":0.30000000000000004",
        "1 year -2 days +03:04:05",
        "Müller",
        "[79, 58, 0, 255, 92, 65]",
    ] {
        assert_contains(&usual, part);
    }
    let Some(pool) = pgbouncer(cluster) else { return };
    let pooled = pool.database(&database);
    assert_eq!(shown(&pooled, &env), usual);
    let name = database.query("SELECT current_database()");
    for setting in SETTINGS {
        database.sql(&format!("ALTER ROLE postgres IN DATABASE {name} SET {setting}"));
    }
    assert_eq!(shown(&database, &env), usual);
    // The sessions of the first pool are older than the settings. Those of a new pool have them.
    let Some(pool) = pgbouncer(cluster) else { return };
    let pooled = pool.database(&database);
    assert_eq!(shown(&pooled, &env), usual);
    let mut clients: Vec<_> = (0..4).map(|_| pooled.client()).collect();
    for client in &mut clients {
        client.batch_execute("BEGIN").unwrap();
        for (setting, value) in [
            ("bytea_output", "escape"),
            ("extra_float_digits", "0"),
            ("intervalstyle", "sql_standard"),
        ] {
            let sql = format!("SELECT pg_catalog.current_setting('{setting}') = '{value}'");
            assert!(client.query_typed(&sql, &[]).unwrap()[0].get::<_, bool>(0), "{setting}");
        }
    }
}

/// Makes a failing copy of each function of the server, in a schema that is searched first.
const SHADOWS: &str = "
CREATE SCHEMA shadows;
DO $$
DECLARE own record;
BEGIN
  FOR own IN SELECT p.oid, p.proname, p.proretset FROM pg_proc p
    WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND proname <> ALL (EXCEPTIONS)
  LOOP
    BEGIN
      EXECUTE format('CREATE FUNCTION shadows.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', own.proname,
        pg_get_function_identity_arguments(own.oid), pg_get_function_result(own.oid),
        format('BEGIN RAISE ''shadow of %s''; END', own.proname));
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
  END LOOP;
END $$";

#[test]
fn functions_of_the_application_are_not_taken_for_those_of_the_server() {
    let Some((database, env)) = server_with_table() else { return };
    database.sql(&SHADOWS.replace("EXCEPTIONS", "'{}'"));
    let shadows =
        database.query("SELECT count(*) FROM pg_proc WHERE pronamespace = 'shadows'::regnamespace");
    assert!(shadows.parse::<u32>().unwrap() > 1_000, "{shadows} functions");
    let name = database.query("SELECT current_database()");
    database.sql(&format!("ALTER DATABASE {name} SET search_path = shadows, public, pg_catalog"));
    env.run("add [1] [2] [3]").success();
    let handler = env.noting("[ $BACKLOG_ID != 2 ]");
    for schedule in ["--fibonacci", "--ndays=7"] {
        env.run(&format!("process {schedule} --jobs 2 -- {handler}")).silent();
    }
    assert_eq!(env.handled().len(), 4);
    env.run("process --progressive -- /bin/true").silent();
    for args in [
        "status --fibonacci",
        "list",
        "explain 2 --fibonacci",
        "simulate --from-table --fibonacci --for 1d",
        "archive 2",
        "restore --all",
        "init --if-missing",
        "adopt --table backlog",
    ] {
        let ran = env.run(args);
        assert!(!format!("{ran:?}").contains("shadow of"), "{args:?}: {ran:?}");
        ran.success();
    }
    for args in ["check --fibonacci --rehearse -- /bin/true", "list --table=none"] {
        let ran = env.run(args);
        assert!(!format!("{ran:?}").contains("shadow of"), "{args:?}: {ran:?}");
    }
}

#[test]
fn a_user_is_told_that_row_level_security_hides_rows() {
    let Some((database, env)) = server_with_table() else { return };
    env.run("add [1] [2]").success();
    database.sql(
        "DROP ROLE IF EXISTS tenant; CREATE ROLE tenant LOGIN; GRANT ALL ON backlog TO tenant;
         ALTER TABLE backlog ENABLE ROW LEVEL SECURITY",
    );
    let url = database.url().replace("postgres@", "tenant@");
    let run = |args: &str| env.command(args).env("BACKLOG_DB", &url).ran();
    let check = "check --ndays 1 -- /bin/true";
    let pass = "process --ndays 1 -v -- /bin/true";
    let warning = "row level security is active on table backlog for \"tenant\": it sees only the rows \
                   that a policy allows";
    let none = format!("{warning}, none of them at present; add a policy for it (CREATE POLICY)");
    assert_contains(&run(check).success().stdout, &format!("warning  table       {none}"));
    let ran = run(pass).success();
    assert_eq!(ran.stderr.matches(&none).count(), 1, "{ran:?}");
    database.sql("CREATE POLICY first ON backlog USING (id = 1)");
    assert_contains(&run(check).success().stdout, &format!("warning  table       {warning}; add"));
    assert_lacks(&run(pass).success().stderr, "row level security");
    database.sql("UPDATE backlog SET status = 'SUCCESS'");
    assert_lacks(&run(pass).success().stderr, "row level security");
    // Nothing is hidden from the owner.
    assert_lacks(&env.run("check --ndays 1 -- /bin/true").success().stdout, "row level security");
    database.sql("DROP OWNED BY tenant; DROP ROLE tenant");
}

/// A database whose catalog lists an extension that is not installed.
fn with_extension(name: &str) -> Option<(Database, TestEnv)> {
    let (database, env) = server_with_table()?;
    env.run("add [1]").success();
    database.sql(&format!(
        "SET allow_system_table_mods = on;
         CREATE TABLE pg_catalog.pg_dist_local_group (groupid int);
         INSERT INTO pg_catalog.pg_dist_local_group VALUES (0);
         INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
         VALUES (99999, '{name}', 10, 'public'::regnamespace, false, '1')"
    ));
    Some((database, env))
}

#[test]
fn check_names_an_extension_with_which_each_node_has_its_own_locks() {
    for (name, words) in [
        ("citus", "the extension citus makes this server a worker"),
        ("bdr", "the extension bdr makes this server one of several writable nodes"),
        ("pgactive", "the extension pgactive makes this server one of several writable nodes"),
        ("spock", "the extension spock makes this server one of several writable nodes"),
        ("hstore", ""),
    ] {
        let Some((database, env)) = with_extension(name) else { return };
        let check = "check --ndays 1 -- /bin/true";
        if name == "citus" {
            env.run(check).success();
        }
        database.sql("UPDATE pg_dist_local_group SET groupid = 3");
        let found = env.run(check);
        assert_eq!(found.exit, Some(i32::from(!words.is_empty())), "{found:?}");
        assert_contains(&found.stdout, words);
    }
}

#[test]
fn a_pass_is_refused_where_each_node_has_its_own_locks() {
    for name in ["citus", "bdr", "pgactive", "spock"] {
        let Some((database, env)) = with_extension(name) else { return };
        database.sql("UPDATE pg_dist_local_group SET groupid = 3");
        let refused = env.run(&format!("process --ndays 1 -- {}", env.noting("exit 0")));
        refused
            .fails(1, &["could not claim records in postgres://", name, "its own advisory locks"]);
        assert_eq!(env.handled(), [""; 0]);
    }
}
