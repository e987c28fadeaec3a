//! The JSON that commands write: each line has the form that its schema in docs/schemas gives it, and
//! each member of a schema stands in some line.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value, json};
use test_support::cluster::cluster;
use test_support::server::{Answer, Server};

use crate::testenv::*;

const SCHEMAS: [&str; 6] = ["status", "list", "failures", "check", "joblog", "simulate"];

/// A schema, and the places in it that lines have had so far.
struct Schema {
    root: Value,
    seen: BTreeSet<String>,
}

impl Schema {
    fn new(name: &str) -> Self {
        let path = format!("docs/schemas/{name}.schema.json");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let text = std::fs::read_to_string(path).unwrap();
        Self { root: serde_json::from_str(&text).unwrap(), seen: BTreeSet::new() }
    }

    /// Fails unless each line, of which there are so many, has the form of the schema.
    #[track_caller]
    fn takes(&mut self, count: usize, lines: &str) {
        assert_eq!(lines.lines().count(), count, "{lines}");
        for line in lines.lines() {
            let value = serde_json::from_str(line).unwrap();
            let mut seen = BTreeSet::new();
            if let Err(why) = self.check(&value, &self.root, "#", &mut seen) {
                panic!("{why}\nin {line}");
            }
            self.seen.append(&mut seen);
        }
    }

    /// Fails if the schema has a member, or a value, that no line had; but for those that are left out.
    #[track_caller]
    fn is_complete_but_for(&self, left_out: &[&str]) {
        let mut places = BTreeSet::new();
        collect(&self.root, "#", &mut places);
        let missing: Vec<_> = places.difference(&self.seen).collect();
        let expected = |place: &&&String| !left_out.contains(&place.as_str());
        assert_eq!(missing.iter().filter(expected).count(), 0, "never seen: {missing:#?}");
    }

    fn check(
        &self,
        value: &Value,
        schema: &Value,
        place: &str,
        seen: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        let keywords = schema.as_object().unwrap();
        for (keyword, it) in keywords {
            match keyword.as_str() {
                "$schema" | "$id" | "title" | "description" | "$defs" => {}
                "$ref" => {
                    let referred = it.as_str().unwrap();
                    let target = self.root.pointer(referred.strip_prefix('#').unwrap());
                    self.check(value, target.unwrap(), referred, seen)?;
                }
                "type" => {
                    let legal = it.as_array().map_or(std::slice::from_ref(it), Vec::as_slice);
                    if !legal.iter().any(|name| has_type(value, name.as_str().unwrap())) {
                        return Err(format!("{place}: {value} is not of type {it}"));
                    }
                }
                "const" if value != it => return Err(format!("{place}: {value} is not {it}")),
                "const" => {}
                "enum" if !it.as_array().unwrap().contains(value) => {
                    return Err(format!("{place}: {value} is none of {it}"));
                }
                "enum" => drop(seen.insert(format!("{place}/enum/{value}"))),
                "properties" => {
                    for (name, member) in value.as_object().into_iter().flatten() {
                        let Some(schema) = it.get(name) else { continue };
                        let place = format!("{place}/properties/{name}");
                        self.check(member, schema, &place, seen)?;
                        if !member.is_null() {
                            seen.insert(place);
                        }
                    }
                }
                "required" => {
                    let names = it.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
                    let has = |name: &&str| {
                        value.as_object().is_none_or(|object| object.contains_key(*name))
                    };
                    if let Some(name) = names.into_iter().find(|name| !has(name)) {
                        return Err(format!("{place}: {name} is missing"));
                    }
                }
                "additionalProperties" => {
                    let known = |name: &String| {
                        keywords
                            .get("properties")
                            .is_some_and(|properties| properties.get(name).is_some())
                    };
                    let members = value.as_object().into_iter().flatten();
                    for (name, member) in members.filter(|(name, _)| !known(name)) {
                        if *it == json!(false) {
                            return Err(format!("{place}: {name} is not in the schema"));
                        }
                        self.check(member, it, &format!("{place}/{keyword}"), seen)?;
                    }
                }
                "items" => {
                    for item in value.as_array().into_iter().flatten() {
                        self.check(item, it, &format!("{place}/items"), seen)?;
                    }
                }
                "oneOf" => {
                    let mut fitting = Vec::new();
                    let mut reasons = Vec::new();
                    for (number, schema) in it.as_array().unwrap().iter().enumerate() {
                        let place = format!("{place}/oneOf/{number}");
                        let mut seen = BTreeSet::from([place.clone()]);
                        match self.check(value, schema, &place, &mut seen) {
                            Ok(()) => fitting.push(seen),
                            Err(why) => reasons.push(why),
                        }
                    }
                    let [own] = &mut fitting[..] else {
                        let (count, reasons) = (fitting.len(), reasons.join("; "));
                        return Err(format!("{place}: {count} of oneOf fit: {reasons}"));
                    };
                    seen.append(own);
                }
                _ => panic!("{place}: the test does not know the keyword {keyword}"),
            }
        }
        Ok(())
    }
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => panic!("there is no type {name}"),
    }
}

/// All places of a schema that some line must have. Fails if a member is not described.
fn collect(schema: &Value, place: &str, places: &mut BTreeSet<String>) {
    let Some(keywords) = schema.as_object() else { return };
    let members = |keyword: &str| keywords.get(keyword).and_then(Value::as_object);
    let none = Map::new();
    for (name, definition) in members("$defs").unwrap_or(&none) {
        collect(definition, &format!("{place}/$defs/{name}"), places);
    }
    for (name, member) in members("properties").unwrap_or(&none) {
        let place = format!("{place}/properties/{name}");
        assert!(member["description"].is_string(), "{place} has no description");
        collect(member, &place, places);
        places.insert(place);
    }
    for keyword in ["items", "additionalProperties"] {
        collect(&schema[keyword], &format!("{place}/{keyword}"), places);
    }
    let listed = |keyword: &str| keywords.get(keyword).and_then(Value::as_array).cloned();
    for value in listed("enum").unwrap_or_default() {
        places.insert(format!("{place}/enum/{value}"));
    }
    for (number, schema) in listed("oneOf").unwrap_or_default().iter().enumerate() {
        let place = format!("{place}/oneOf/{number}");
        collect(schema, &place, places);
        places.insert(place);
    }
}

#[test]
fn the_page_on_json_links_each_schema_and_its_whole_examples_are_legal() {
    let page = include_str!("../../docs/reference.md");
    for name in SCHEMAS {
        let link = format!("(schemas/{name}.schema.json)");
        let section = page.split("\n### ").find(|section| section.contains(&link)).unwrap_or(&link);
        let examples = section.lines().filter(|line| line.starts_with('{'));
        let whole = examples.clone().filter(|line| !line.contains("...")).collect::<Vec<_>>();
        assert!(examples.count() > 0, "{name} has no example");
        Schema::new(name).takes(whole.len(), &whole.join("\n"));
    }
    let schemas = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas");
    assert_eq!(std::fs::read_dir(schemas).unwrap().count(), SCHEMAS.len());
}

#[test]
fn a_status_has_the_form_of_its_schema() {
    let mut schema = Schema::new("status");
    let env = TestEnv::new();
    let mut looks = |count, env: &TestEnv, now: i64, args: &str| {
        schema.takes(count, &env.run_at(now, &format!("status --json {args}")).success().stdout);
    };
    looks(1, &env, MIDNIGHT, "");
    looks(1, &env, MIDNIGHT, "--fibonacci");
    env.run_at(MIDNIGHT, "pause --for 1h --reason 'a release'").success();
    env.pass("--ndays 1 -- true").silent();
    looks(1, &env, MIDNIGHT, "");
    env.run("resume").success();

    // One record of each status, one of none, and one without a date.
    env.insert(5, MIDNIGHT - MINUTE);
    env.sql(
        "PRAGMA ignore_check_constraints = ON;
         UPDATE BACKLOG SET STATUS = 'RUNNING' WHERE ID = 4;
         UPDATE BACKLOG SET DATE_INSERTED = 'soon' WHERE ID = 5",
    );
    let handler = env.script(
        "mixed",
        "case $BACKLOG_ID in 1) exit 0;; 2) echo later >&2; exit 75;; esac; echo no >&2; exit 1",
    );
    let pass = |now: i64, exit: i32, args: &str| {
        assert_eq!(env.run_at(now, &format!("process {args}")).exit, Some(exit), "{args:?}");
    };
    pass(MIDNIGHT, 1, &format!("--fibonacci --max-attempts 1 -- {handler}"));
    looks(1, &env, MIDNIGHT + 1, "--fibonacci --max-attempts 2");
    looks(1, &env, MIDNIGHT + 1, "");
    pass(MIDNIGHT + 1, 0, "--fibonacci -- true");
    looks(1, &env, MIDNIGHT + DAY, "--ndays 1");
    pass(MIDNIGHT + DAY, 1, "--ndays 9 -- /no/such");
    looks(1, &env, MIDNIGHT + DAY, "--ndays 9 --max-age 1h --passes 2");

    // A line that comes every quarter of an hour, and then no more.
    for quarter in 1..=5 {
        pass(MIDNIGHT + quarter * 15 * MINUTE, 0, "--policy list:1m -- true");
    }
    looks(1, &env, MIDNIGHT + 9 * HOUR, "");

    // One that runs, hangs, is stopped, is killed; and none.
    env.sql("UPDATE BACKLOG SET STATUS = 'NEW'");
    let staying = env.staying();
    let line = format!("process --now @{MIDNIGHT} --policy even --grace 0s");
    let begin = |more: &str| {
        let _ = std::fs::remove_file(env.path("pid"));
        let pass = env.spawn(&format!("{line} {more} -- {}", sh(&staying.script)));
        staying.wait_for_begin();
        pass
    };
    let mut running = begin("");
    looks(1, &env, MIDNIGHT + MINUTE, "");
    env.state(
        "INSERT INTO running SELECT run, '1', 1, 0 FROM passes WHERE ended IS NULL RETURNING 1",
    );
    looks(1, &env, MIDNIGHT + 9 * HOUR, "");
    signal("-TERM", running.id());
    running.wait().unwrap();
    looks(1, &env, MIDNIGHT + 9 * HOUR, "");
    begin("--max-runtime 1s").wait().unwrap();
    looks(1, &env, MIDNIGHT, "");
    let mut killed = begin("");
    env.kill(&mut killed);
    looks(1, &env, MIDNIGHT, "");

    // One in which nothing succeeds.
    let failing = TestEnv::with_records(10, MIDNIGHT - MINUTE);
    failing.run_at(MIDNIGHT, "process --ndays 1 -- false").silent();
    looks(1, &failing, MIDNIGHT + HOUR, "");

    // Several queues, one of which is not there.
    let config = "[defaults]\ndb = 'test.db'\n[queue.a]\nndays = 9\n[queue.gone]\ntable = 'gone'\n";
    env.write("backlog.toml", config);
    let mut all = env.command("status --json");
    schema.takes(2, &all.env_remove("BACKLOG_DB").ran().stdout);
    let Some(cluster) = cluster() else {
        // Only on a server there is somebody else's share.
        let passes = "#/$defs/passes/properties";
        schema.is_complete_but_for(&[&format!("{passes}/user"), &format!("{passes}/host")]);
        return;
    };
    let database = cluster.database();
    let env = TestEnv::on(&database);
    env.run("init").success();
    schema.takes(1, &env.run("status --json").success().stdout);
    schema.is_complete_but_for(&[]);
}

#[test]
fn a_list_has_the_form_of_its_schema() {
    let mut schema = Schema::new("list");
    let env = TestEnv::new();
    let mut lists = |env: &TestEnv, count: usize, args: &str| {
        schema.takes(count, &env.run_at(MIDNIGHT, &format!("list --json {args}")).success().stdout);
    };
    lists(&env, 0, "");
    env.insert(3, MIDNIGHT - MINUTE);
    env.sql(
        "PRAGMA ignore_check_constraints = ON;
         UPDATE BACKLOG SET STATUS = 'RUNNING' WHERE ID = 2;
         UPDATE BACKLOG SET DATE_INSERTED = 'soon' WHERE ID = 3",
    );
    env.pass("--fibonacci -- false");
    lists(&env, 3, "");
    lists(&env, 3, "--fibonacci");
    lists(&env, 2, "--status error --ndays 1");
    lists(&env, 1, "--failure 'exit status 1' --since 1h");
    let composite = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (A INTEGER, B TEXT, STATUS TEXT, DATE_INSERTED TEXT);
         INSERT INTO BACKLOG VALUES (1, 'x', 'NEW', '2026-11-20')",
    );
    lists(&composite, 1, r#"--set 'id=["A","B"]'"#);
    lists(&composite, 1, "--set id=B --progressive");
    schema.is_complete_but_for(&[]);
}

#[test]
fn failures_have_the_form_of_their_schema() {
    let mut schema = Schema::new("failures");
    let failing = "[ $BACKLOG_ID = 1 ] || { echo no route >&2; exit 1; }; echo refused >&2; exit 2";
    for env in [TestEnv::new(), TestEnv::minimal()] {
        schema.takes(0, &env.run("failures --json").success().stdout);
        env.insert(4, MIDNIGHT);
        env.pass(&format!("--ndays 1 -- {}", sh(failing))).silent();
        schema.takes(2, &env.run("failures --json").success().stdout);
        env.run("archive --failure refused").success();
        schema.takes(1, &env.run("failures --json --status archived").success().stdout);
    }
    // Failed before anything was noted.
    let env = TestEnv::minimal();
    env.insert(1, MIDNIGHT);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
    schema.takes(1, &env.run("failures --json").success().stdout);
    env.write("backlog.toml", "[queue.a]\n[queue.gone]\ntable = 'gone'\n");
    let all = env.run("failures --all-queues --json");
    assert_eq!((all.exit, &*all.stderr), (Some(1), ""));
    schema.takes(2, &all.stdout);
    schema.is_complete_but_for(&[]);
}

#[test]
fn a_check_has_the_form_of_its_schema() {
    let mut schema = Schema::new("check");
    let mut checks = |env: &TestEnv, args: &str, says: &str| {
        let found = env.run(&format!("check --json {args}")).stdout;
        assert_contains(&found, says);
        schema.takes(1, &found);
    };
    checks(&TestEnv::new(), "--fibonacci -- /bin/true", "\"ok\":true");
    checks(&TestEnv::minimal(), "--progressive", "CREATE INDEX");
    checks(&TestEnv::minimal(), "--fibonacci -- no-such", "\"level\":\"error\"");
    checks(&TestEnv::empty(), "", "\"ok\":false");
    let env = TestEnv::new();
    env.write("backlog.toml", "[queue.wrong]\npolicy = 'nosuch'\n");
    checks(&env, "--all-queues", "{\"queue\":\"wrong\",\"error\":");
    schema.is_complete_but_for(&[]);
}

#[test]
fn a_joblog_has_the_form_of_its_schema() {
    let mut schema = Schema::new("joblog");
    let mut ends = |env: &TestEnv, outcomes: &[&str]| {
        let log = env.read("log");
        let outcome = |line: &str| serde_json::from_str::<Value>(line).unwrap()["outcome"].clone();
        let found: Vec<_> = log.lines().map(outcome).collect();
        assert_eq!(found, outcomes, "{log}");
        schema.takes(outcomes.len(), &log);
    };
    let log = |policy: &str| format!("process {policy} --joblog log --jobs 1");
    let env = TestEnv::with_records(5, MIDNIGHT);
    let handler = env.script(
        "mixed",
        "echo of $BACKLOG_ID >&2; case $BACKLOG_ID in 1) exit 1;; 2) exit 75;; 3) exit 65;; esac",
    );
    let line = log("--fibonacci --order oldest --give-up-on 65");
    env.run_at(MIDNIGHT, &format!("{line} --max-records 4 -- {handler}"));
    ends(&env, &["failure", "snooze", "give_up", "success"]);

    // The application changes the row, and a signal ends the pass.
    for (script, outcome) in [
        ("until [ -e go ]; do sleep 0.01; done", "success"),
        ("kill -TERM $PPID; sleep 60", "interrupted"),
    ] {
        let env = TestEnv::minimal();
        env.insert(1, MIDNIGHT);
        let line = log("--progressive --grace 0s");
        let mut pass = env.spawn(&format!("{line} -- {}", sh(&format!("touch began; {script}"))));
        wait_until("the handler begins", || env.path("began").exists());
        if outcome == "success" {
            env.sql("UPDATE BACKLOG SET STATUS = 'SUCCESS'");
            env.write("go", "");
        }
        pass.wait().unwrap();
        ends(&env, &[outcome]);
    }

    // A webhook that answers, and one where nobody is.
    let server = Server::new(&[("/1", Answer::new("500 Oops", &[], ""))]);
    let env = TestEnv::minimal();
    env.insert(1, MIDNIGHT);
    env.sql("UPDATE BACKLOG SET DATE_INSERTED = 'soon'");
    let url = server.url("/{ID}");
    env.run_at(MIDNIGHT, &log(&format!("--progressive --post {url}")));
    ends(&env, &["failure"]);
    let env = TestEnv::with_records(3, MIDNIGHT);
    env.run_at(MIDNIGHT, &log("--fibonacci --post http://127.0.0.1:1/"));
    ends(&env, &["failure", "failure", "unable"]);
    schema.is_complete_but_for(&[]);
}

#[test]
fn a_simulation_has_the_form_of_its_schema() {
    let mut schema = Schema::new("simulate");
    let env = TestEnv::new();
    let short = "simulate --jsonl --for 12m --policy even";
    let found = env.run(&format!("{short} --records 2")).success().stdout;
    schema.takes(found.lines().count(), &found);
    assert!(found.lines().count() > 4, "{found}");
    env.insert(1, MIDNIGHT);
    let found = env.run_at(MIDNIGHT, &format!("{short} --from-table")).success().stdout;
    schema.takes(found.lines().count(), &found);
    assert!(found.lines().count() > 1, "{found}");
    schema.is_complete_but_for(&[]);
}
