//! docs/recipes.md: each block of the page is saved or typed here as a reader would do it, on SQLite and on
//! PostgreSQL, and each recipe must do what it promises. tests/recipes has the tables of frameworks.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use test_support::cluster::Database;
use test_support::server::{Answer, Received, Server};

use crate::testenv::*;

const PAGE: &str = include_str!("../../docs/recipes.md");
const DB: &str = "/srv/app/app.db";

/// A block of code, by its language, with the name in the text above it.
#[derive(Clone)]
struct Block {
    language: &'static str,
    code: String,
    name: &'static str,
}

/// The blocks below a heading.
fn blocks(heading: &str) -> Vec<Block> {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let mut blocks = Vec::new();
    // Text and code take turns.
    let parts: Vec<_> = section.split("```").collect();
    for pair in parts.chunks_exact(2) {
        let (language, code) = pair[1].split_once('\n').unwrap();
        let name = pair[0].rsplit('`').nth(1).unwrap_or_default();
        blocks.push(Block { language, code: code.into(), name });
    }
    blocks
}

/// A directory in which a recipe is followed, and a database on one of the engines.
struct Reader {
    env: TestEnv,
    database: Option<Database>,
    /// Texts of the page, with their substitutes here.
    replaced: Vec<(String, String)>,
    blocks: Vec<Block>,
    /// Rows that were inserted.
    ids: Cell<i64>,
}

impl Reader {
    fn new(heading: &str, database: Option<Database>) -> Self {
        let env = database.as_ref().map_or_else(TestEnv::empty, TestEnv::on);
        fs::create_dir(env.path("bin")).unwrap();
        symlink(program().get_program(), env.path("bin/backlog")).unwrap();
        let db = database.as_ref().map_or_else(|| env.path_text("test.db"), Database::url);
        let bin = env.path_text("bin/");
        let mut replaced = vec![
            ("/usr/local/bin/".into(), bin.clone()),
            ("/srv/app/bin/".into(), bin),
            ("/var/lock/".into(), env.path_text("")),
        ];
        if let Some(database) = &database {
            replaced.push((format!("sqlite3 {DB}"), format!("psql -qAt '{}' -c", database.url())));
        }
        replaced.push((DB.into(), db));
        Self { env, database, replaced, blocks: blocks(heading), ids: Cell::new(0) }
    }

    fn on_sqlite(heading: &str) -> Self {
        Self::new(heading, None)
    }

    fn on_postgres(heading: &str) -> Option<Self> {
        Some(Self::new(heading, Some(database()?)))
    }

    fn on_both(heading: &str) -> impl Iterator<Item = Self> {
        [Some(Self::on_sqlite(heading)), Self::on_postgres(heading)].into_iter().flatten()
    }

    /// The same with a clock that stands still, so that what has failed waits however long a test takes.
    fn on_both_at_one_time(heading: &str) -> impl Iterator<Item = Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        Self::on_both(heading).map(move |mut reader| {
            reader.replace("backlog process", format!("backlog process --now @{}", now + 120));
            reader
        })
    }

    fn replace(&mut self, page: &str, here: impl Into<String>) {
        self.replaced.insert(0, (page.into(), here.into()));
    }

    /// A block of the page with these substitutes.
    fn here(&self, code: &str) -> String {
        self.replaced.iter().fold(code.into(), |code, (page, here)| code.replace(page, here))
    }

    fn blocks_in(&self, language: &str) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(move |block| block.language == language)
    }

    /// Makes the tables, and saves the files.
    fn prepare(&self) {
        for block in &self.blocks {
            let code = self.here(&block.code);
            match block.language {
                "sql" => self.sql(&code),
                "toml" => fs::write(self.env.path("backlog.toml"), code).unwrap(),
                _ if code.starts_with("#!") => self.executable(block.name, &code),
                "sh" | "text" | "python" | "php" | "ruby" | "yaml" => {}
                other => panic!("a block of {other}, which nothing looks at"),
            }
        }
    }

    fn executable(&self, name: &str, text: &str) {
        fs::write(self.env.path(name), text).unwrap();
        fs::set_permissions(self.env.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A command that the page names. It runs in the reader's directory.
    fn command(&self, name: &str, script: &str) {
        self.executable(&format!("bin/{name}"), &format!("#!/bin/sh\n{script}\n"));
    }

    /// The commands of the recipe, as they are typed.
    fn typed(&self) -> String {
        let is_script = |block: &&Block| block.code.starts_with("#!");
        let blocks = self.blocks_in("sh").filter(|block| !is_script(block));
        let commands: String = blocks.map(|block| block.code.as_str()).collect();
        assert!(!commands.is_empty());
        self.here(&commands)
    }

    fn shell(&self, script: &str) -> Command {
        let home = self.env.path_text("");
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(&home).env_clear().env("HOME", &home);
        command.env("PATH", format!("{home}bin:/usr/bin:/bin"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn sh(&self, script: &str) -> Ran {
        self.shell(script).ran()
    }

    /// Types the commands of the recipe.
    fn follow(&self) -> Ran {
        self.sh(&self.typed())
    }

    /// Starts the one command of the recipe, with options behind it, in a process that can be killed.
    fn spawn(&self, options: &str) -> Child {
        self.shell(&format!("exec {} {options}", self.typed().trim())).spawn().unwrap()
    }

    fn sql(&self, sql: &str) {
        match &self.database {
            None => self.env.sql(sql),
            Some(database) => database.sql(sql),
        }
    }

    fn query(&self, sql: &str) -> String {
        match &self.database {
            None => self.env.query(sql),
            Some(database) => database.query(sql),
        }
    }

    fn make_table(&self, name: &str) {
        let engine = if self.database.is_some() { "postgres" } else { "sqlite" };
        let tables = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recipes");
        self.sql(&fs::read_to_string(format!("{tables}/{name}.{engine}.sql")).unwrap());
    }

    /// Rows of a customer.
    fn insert(&self, customer: i64, count: i64) {
        let first = self.ids.get() + 1;
        let rows = (first..first + count).map(|id| format!("({id}, {customer})"));
        let rows = rows.collect::<Vec<_>>().join(", ");
        self.sql(&format!("INSERT INTO orders (id, customer) VALUES {rows}"));
        self.ids.set(first + count - 1);
    }

    /// Number of pending records.
    fn pending(&self) -> usize {
        self.query("SELECT count(*) FROM orders WHERE status IN ('NEW', 'ERROR')").parse().unwrap()
    }

    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.env.path("log")).unwrap_or_default();
        text.lines().map(String::from).collect()
    }

    fn wait_for_log(&self, lines: usize) {
        wait_until("handlers run", || self.log().len() >= lines);
    }

    /// Query plan for the pending rows of the queue's condition.
    fn plan(&self) -> String {
        let file: toml::Table =
            fs::read_to_string(self.env.path("backlog.toml")).unwrap().parse().unwrap();
        let queue = file["queue"]["orders"].clone();
        let search = format!(
            "SELECT id FROM orders WHERE status IN ('NEW', 'ERROR') AND ({}) ORDER BY created_at",
            queue["where"].as_str().unwrap()
        );
        match &self.database {
            None => {
                let connection = self.env.connection();
                let explain = format!("EXPLAIN QUERY PLAN {search}");
                let mut statement = connection.prepare(&explain).unwrap();
                let details = statement.query_map([], |row| row.get::<_, String>("detail"));
                details.unwrap().map(Result::unwrap).collect::<Vec<_>>().join("\n")
            }
            Some(database) => database.query(&format!("ANALYZE orders; EXPLAIN {search}")),
        }
    }
}

/// A handler that shows its order, and whether another one has the same customer.
fn noting(fails: &str) -> String {
    format!(
        "customer=$BACKLOG_ROW_CUSTOMER
         exec 9>>busy-$customer
         flock -n 9 || echo overlap $customer $1 >>log
         echo begin $customer $1 >>log
         sleep 0.01 9>&-
         {fails}
         echo end $customer $1 >>log"
    )
}

/// Runs two passes over half of the records each until nothing is pending, and kills both of them so often.
fn work_off_under_kills(reader: &Reader, kills: usize) {
    let spawn = || {
        // Failed records are due at once. A watchdog may still have a record.
        reader.sh("backlog retry --all");
        ["--shard 1/2", "--shard 2/2"].map(|shard| reader.spawn(shard))
    };
    for _ in 0..kills {
        let lines = reader.log().len();
        let mut passes = spawn();
        wait_until("handlers run", || {
            let have_ended = passes.iter_mut().all(|pass| pass.try_wait().unwrap().is_some());
            reader.log().len() >= lines + 8 || have_ended
        });
        for mut pass in passes {
            pass.kill().unwrap();
            pass.wait().unwrap();
        }
    }
    wait_until("nothing is pending", || {
        for pass in spawn() {
            assert_eq!(pass.wait_with_output().unwrap().status.code(), Some(0));
        }
        reader.pending() == 0
    });
}

#[track_caller]
fn assert_no_overlap(log: &[String]) {
    let overlaps: Vec<_> = log.iter().filter(|line| line.starts_with("overlap")).collect();
    assert!(overlaps.is_empty(), "{overlaps:?}");
}

/// No record of a customer begins before all earlier ones have ended, or after a later one has begun.
#[track_caller]
fn assert_ordered(log: &[String]) {
    let mut ended: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    let mut begun: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    for line in log {
        let words: Vec<_> = line.split(' ').collect();
        let (customer, id) = (words[1], words[2].parse::<i64>().unwrap());
        if words[0] == "end" {
            ended.entry(customer).or_default().insert(id);
            continue;
        }
        let (begun, ended) =
            (begun.entry(customer).or_default(), ended.entry(customer).or_default());
        begun.insert(id);
        assert_eq!(begun.last(), Some(&id), "{id} after a later one: {log:?}");
        let earlier: Vec<_> = begun.iter().filter(|earlier| **earlier < id).collect();
        assert!(earlier.into_iter().all(|earlier| ended.contains(earlier)), "{id}: {log:?}");
    }
}

fn order_is_kept_under_kills(reader: &Reader, kills: usize) {
    reader.prepare();
    reader.command(
        "sync-order",
        &noting("[ $(($1 % 5)) != 0 ] || [ $BACKLOG_ATTEMPT -gt 1 ] || exit 1"),
    );
    for customer in [1, 2, 3, 4].repeat(4) {
        reader.insert(customer, 2);
    }
    work_off_under_kills(reader, kills);
    let log = reader.log();
    assert_no_overlap(&log);
    assert_ordered(&log);
    assert_eq!(reader.query("SELECT count(*) FROM orders WHERE status = 'SUCCESS'"), "32");
}

#[test]
fn strict_order_is_kept_when_passes_are_killed() {
    order_is_kept_under_kills(&Reader::on_sqlite("Strict order per customer"), 3);
}

#[test]
fn strict_order_is_kept_on_a_server_when_passes_are_killed() {
    if let Some(reader) = Reader::on_postgres("Strict order per customer") {
        // A server's pass waits for three seconds before it tries what may still be in other hands.
        order_is_kept_under_kills(&reader, 2);
    }
}

#[test]
fn a_failed_record_stops_its_customer_until_it_is_archived() {
    for reader in Reader::on_both("Strict order per customer") {
        reader.prepare();
        reader.command("sync-order", "echo $1 >>log; [ $1 != 2 ]");
        reader.insert(1, 4);
        reader.insert(2, 2);
        reader.follow().silent();
        let mut log = reader.log();
        log.sort();
        assert_eq!(log, ["1", "2", "5", "6"]);
        let status = reader.sh("backlog status").success().stdout;
        // Of the first customer's records only the first that is pending.
        for line in
            ["NEW 0 0 0 0 0 0 0 0 0", "ERROR 1 0 0 0 0 0 0 0 1", "SUCCESS 3 0 0 0 0 0 0 0 3"]
        {
            let mut lines =
                status.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
            assert!(lines.any(|text| text == line), "{line}: {status}");
        }
        reader.sh("backlog archive 2").success();
        reader.follow().silent();
        assert_eq!(reader.log()[4..], ["3", "4"]);
        reader.sh("backlog restore 2").success();
        assert_eq!(reader.query("SELECT status FROM orders WHERE id = 2"), "NEW");
    }
}

#[test]
fn the_conditions_of_order_and_fairness_use_their_index() {
    for (heading, index) in [
        ("Strict order per customer", "orders_first"),
        ("One at a time per customer", "orders_new"),
        ("A customer with many records delays nobody", "orders_new"),
    ] {
        for reader in Reader::on_both(heading) {
            for heading in ["Strict order per customer", "One at a time per customer"] {
                let tables = blocks(heading).into_iter().filter(|block| block.language == "sql");
                let is_there = heading == "Strict order per customer" || index == "orders_new";
                tables.filter(|_| is_there).for_each(|block| reader.sql(&block.code));
            }
            reader.blocks_in("toml").for_each(|block| {
                fs::write(reader.env.path("backlog.toml"), reader.here(&block.code)).unwrap();
            });
            reader.insert(1, 2_000);
            reader.insert(2, 2_000);
            let plan = reader.plan();
            let search = if reader.database.is_none() {
                // One that holds the new ones alone need not look at the status.
                let covering = if index == "orders_new" { "COVERING " } else { "" };
                format!("SEARCH first USING {covering}INDEX {index} (customer=?)")
            } else {
                format!("Index Only Scan using {index} on orders first")
            };
            assert!(plan.contains(&search), "{heading}: {plan}");
        }
    }
}

/// The table of the first recipe, in another one.
fn with_orders(reader: &Reader) {
    let table =
        blocks("Strict order per customer").into_iter().find(|block| block.language == "sql");
    reader.sql(&table.unwrap().code);
    reader.prepare();
}

#[test]
fn one_at_a_time_holds_under_kills_and_a_failed_record_lets_the_others_go() {
    for reader in Reader::on_both("One at a time per customer") {
        with_orders(&reader);
        reader.command("sync-order", &noting("[ $1 != 1 ] || [ -e go ] || exit 1"));
        reader.insert(1, 8);
        reader.insert(2, 8);
        reader.follow().silent();
        assert_eq!(
            reader.query("SELECT id, status FROM orders WHERE status <> 'SUCCESS'"),
            "1|ERROR"
        );
        fs::write(reader.env.path("go"), "").unwrap();
        reader.insert(1, 8);
        reader.insert(2, 8);
        work_off_under_kills(&reader, 1);
        assert_no_overlap(&reader.log());
        // A customer who is busy is no failure of the record.
        let failed = "SELECT id FROM orders WHERE failures > 0 AND id <> 1";
        let failed = reader.query(failed).lines().count();
        assert!(failed <= 6, "{failed}");
    }
}

#[test]
fn a_customer_with_many_records_does_not_hold_up_another() {
    for reader in Reader::on_both("A customer with many records delays nobody") {
        with_orders(&reader);
        let index =
            blocks("One at a time per customer").into_iter().find(|block| block.language == "sql");
        reader.sql(&index.unwrap().code);
        let waits = "while [ ! -e go ]; do sleep 0.01; done";
        reader.command("sync-order", &format!("echo $1 >>log; [ $1 != 150 ] || {waits}"));
        reader.insert(1, 1_000);
        reader.insert(2, 1);
        let pass = reader.spawn("--max-records 310");
        reader.wait_for_log(151);
        reader.insert(3, 1);
        fs::write(reader.env.path("go"), "").unwrap();
        pass.ran().silent();
        let log = reader.log();
        let place = |id: &str| log.iter().position(|other| other == id).unwrap();
        assert_eq!(place("1001"), 100);
        assert!(place("1002") <= place("150") + 201, "{}", place("1002"));
        assert_eq!(log[place("1001") + 1], "101");
    }
}

#[test]
fn a_task_waits_for_all_that_it_needs() {
    for reader in Reader::on_both("Rows that wait for other rows") {
        reader.prepare();
        reader.command("run-task", "echo $1 >>log; [ $1 != 2 ] || [ -e up ]");
        // 4 needs 2 and 3, which need 1.
        reader.sql("INSERT INTO tasks (id) VALUES (4), (3), (2), (1), (5)");
        reader.sql("INSERT INTO needs VALUES (2, 1), (3, 1), (4, 2), (4, 3)");
        reader.follow().silent();
        let log = reader.log();
        let place = |id: &str| log.iter().position(|other| other == id).unwrap();
        assert_eq!(log.len(), 4);
        assert!(place("1") < place("2") && place("1") < place("3"), "{log:?}");
        let waiting = reader.blocks_in("sql").last().unwrap();
        assert_eq!(reader.query(&waiting.code), "1");
        fs::write(reader.env.path("up"), "").unwrap();
        reader.sh("backlog retry 2").success();
        reader.follow().silent();
        assert_eq!(reader.log()[4..], ["2", "4"]);
    }
}

#[test]
fn a_loop_in_a_line_of_cron_handles_a_record_within_a_second() {
    for mut reader in Reader::on_both("A latency of a second") {
        reader.replace("seq 58", "seq 40");
        reader.replace("sleep 1;", "sleep 0.01;");
        reader.prepare();
        reader.command("sync-order", "exit 0");
        reader.sh("backlog init --queue orders").success();
        let is_done = |id: i64| {
            let sql =
                format!("SELECT count(*) FROM backlog WHERE status = 'SUCCESS' AND id = {id}");
            wait_until("the record is handled", || reader.query(&sql) == "1");
        };
        let line = reader.here(&reader.blocks_in("text").next().unwrap().code);
        let line = line.trim().strip_prefix("* * * * * ").unwrap();
        reader.sh("backlog add 1").success();
        let mut cron = reader.shell(line).spawn().unwrap();
        is_done(1);
        reader.sh("backlog add 2").success();
        is_done(2);
        assert_eq!(cron.try_wait().unwrap(), None);
        cron.ran().silent();
    }
}

#[test]
fn a_backfill_goes_on_where_it_was_killed_and_keeps_its_rate() {
    for reader in Reader::on_both("A backfill of old rows") {
        reader.prepare();
        reader.command("locate", "echo $1 >>log");
        let rows = (1..=70).map(|id| {
            let country = if id % 7 == 0 { "SE" } else { "NO" };
            format!("({id}, '{country}', '2020-03-{:02} 08:00:00')", id % 28 + 1)
        });
        let rows = rows.collect::<Vec<_>>().join(", ");
        reader.sql(&format!("INSERT INTO addresses (id, country, created_at) VALUES {rows}"));
        let mut pass = reader.spawn("");
        reader.wait_for_log(10);
        pass.kill().unwrap();
        pass.wait().unwrap();
        let left = || -> usize {
            let sql = "SELECT count(*) FROM addresses WHERE country = 'NO' AND located_at IS NULL";
            reader.query(sql).parse().unwrap()
        };
        let (before, began) = (left(), Instant::now());
        wait_until("nothing is left", || {
            reader.follow().success();
            left() == 0
        });
        // A burst is what falls into a tenth of a second.
        let least = Duration::from_millis(10) * u32::try_from(before.saturating_sub(11)).unwrap();
        assert!(before > 20 && began.elapsed() >= least, "{before}");
        let mut log = reader.log();
        let runs = log.len();
        log.sort();
        log.dedup();
        assert_eq!(log.len(), 60);
        assert!(runs <= 60 + 4, "{runs}");
        assert_eq!(reader.query("SELECT count(*) FROM addresses WHERE located_at IS NULL"), "10");
    }
}

#[test]
fn a_queue_replaces_the_loop_that_did_the_same() {
    if Command::new("sqlite3").arg("-version").output().is_err() {
        return skipped("the loop of docs/recipes.md: there is no sqlite3");
    }
    for reader in Reader::on_both_at_one_time("Replace a while loop") {
        reader.prepare();
        reader.command("sync-order", "echo $1 >>log; [ $1 != 4 ]");
        let commands: Vec<_> =
            reader.blocks_in("sh").map(|block| reader.here(&block.code)).collect();
        let [before, after] = commands.as_slice() else { panic!("{commands:?}") };
        let states = || reader.query("SELECT state, count(*) FROM orders GROUP BY 1 ORDER BY 1");
        reader.sql("INSERT INTO orders (id) VALUES (1), (2), (3), (4), (5)");
        // The last order fails, or the shell would end with another exit.
        let ran = reader.sh(&format!("{before} true"));
        assert_eq!((ran.exit, states().as_str()), (Some(0), "done|4\nnew|1"), "{ran:?}");
        reader.sql("INSERT INTO orders (id) VALUES (6), (7)");
        reader.sh(after).silent();
        assert_eq!(states(), "done|6\nfailed|1");
        reader.sh(after).silent();
        assert_eq!(reader.log().iter().filter(|id| *id == "4").count(), 2);
    }
}

/// Each column that a block of a framework's language declares is in its table.
#[track_caller]
fn assert_declared(reader: &Reader, table: &str, language: &str, column: fn(&str) -> Option<&str>) {
    let block = reader.blocks_in(language).next().unwrap();
    let columns: Vec<_> = block.code.lines().filter_map(column).collect();
    assert!(columns.len() >= 4, "{columns:?}");
    reader.query(&format!("SELECT {} FROM {table}", columns.join(", ")));
}

#[test]
fn an_outbox_of_django_is_published() {
    for reader in Reader::on_both_at_one_time("An outbox in Django") {
        reader.make_table("django");
        reader.prepare();
        assert_declared(&reader, "shop_outboxmessage", "python", |line| {
            Some(line.split_once(" = models.")?.0.trim())
        });
        reader.command(
            "publish",
            "echo $1 $(cat) >>log; [ $1 != mails ] || { echo down >&2; exit 1; }",
        );
        reader.sql(
            "INSERT INTO shop_outboxmessage (topic, payload, state, created_at, attempts, last_error) VALUES
             ('orders', '{\"order\": 1}', 'new', CURRENT_TIMESTAMP, 0, ''),
             ('mails', '{\"order\": 2}', 'new', CURRENT_TIMESTAMP, 0, '')",
        );
        reader.follow().silent();
        let mut log = reader.log();
        log.sort();
        assert_eq!(log, ["mails {\"order\": 2}", "orders {\"order\": 1}"]);
        let rows = "SELECT id, state, attempts, last_error FROM shop_outboxmessage ORDER BY id";
        assert_eq!(reader.query(rows), "1|published|0|\n2|failed|1|down");
        // It waits now.
        reader.follow().silent();
        assert_eq!(reader.log().len(), 2);
    }
}

#[test]
fn a_table_of_laravel_is_worked_off() {
    for reader in Reader::on_both_at_one_time("A table of Laravel") {
        reader.make_table("laravel");
        reader.prepare();
        assert_declared(&reader, "webhook_calls", "php", |line| {
            line.split('\'').nth(1).filter(|_| line.contains("$table->"))
        });
        reader.command("php", "echo $* >>log; [ $3 != 2 ] || { echo HTTP 503 >&2; exit 1; }");
        reader.sql(
            "INSERT INTO webhook_calls (url, created_at) VALUES
             ('https://example.com/1', CURRENT_TIMESTAMP), ('https://example.com/2', CURRENT_TIMESTAMP)",
        );
        reader.follow().silent();
        reader.follow().silent();
        let mut log = reader.log();
        log.sort();
        assert_eq!(log, ["/srv/app/artisan webhook:send 1", "/srv/app/artisan webhook:send 2"]);
        let rows = "SELECT id, status, attempts, error, available_at > CURRENT_TIMESTAMP FROM webhook_calls ORDER BY id";
        let is_later = if reader.database.is_some() { "t" } else { "1" };
        assert_eq!(reader.query(rows), format!("1|sent|0||\n2|failed|1|HTTP 503|{is_later}"));
    }
}

#[test]
fn failed_jobs_of_laravel_are_given_back() {
    for reader in Reader::on_both("failed_jobs of Laravel") {
        reader.make_table("failed_jobs");
        reader.prepare();
        let delete = "DELETE FROM failed_jobs WHERE uuid = '$3'";
        let delete = match &reader.database {
            None => format!("sqlite3 -cmd '.timeout 9999' test.db \"{delete}\""),
            Some(database) => format!("psql -qAt '{}' -c \"{delete}\"", database.url()),
        };
        reader.command("php", &format!("echo $* >>log; {delete}"));
        let ago = |minutes: i64| match reader.database {
            None => format!("datetime('now', '-{minutes} minutes')"),
            Some(_) => format!("now() - interval '{minutes} minutes'"),
        };
        reader.sql(&format!(
            "INSERT INTO failed_jobs (uuid, connection, queue, payload, exception, failed_at) VALUES
             ('a', 'database', 'default', '{{}}', 'E', {}), ('b', 'database', 'default', '{{}}', 'E', {}),
             ('c', 'database', 'mails', '{{}}', 'E', {})",
            ago(50),
            ago(31 * 24 * 60),
            ago(50)
        ));
        reader.follow().silent();
        assert_eq!(reader.log(), ["/srv/app/artisan queue:retry a"]);
        assert_eq!(reader.query("SELECT uuid FROM failed_jobs ORDER BY 1"), "b\nc");
    }
}

/// Rows of Rails: one that is due, one that fails, one for later.
fn insert_deliveries(reader: &Reader) {
    reader.sql(
        "INSERT INTO deliveries (run_at, created_at, updated_at) VALUES
         (NULL, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP),
         (CURRENT_TIMESTAMP, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP),
         ('2999-01-01 00:00:00', CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)",
    );
}

#[test]
fn a_table_of_rails_is_worked_off() {
    for reader in Reader::on_both_at_one_time("A table of Rails") {
        reader.make_table("rails");
        reader.prepare();
        assert_declared(&reader, "deliveries", "ruby", |line| {
            let column = line.trim().strip_prefix("t.")?.split_once(" :")?.1;
            Some(column.split(',').next().unwrap())
        });
        reader.command("deliver", "echo $1 >>log; [ $1 != 2 ] || { echo no host >&2; exit 1; }");
        insert_deliveries(&reader);
        reader.follow().silent();
        reader.follow().silent();
        let rows = "SELECT id, state, attempts, last_error FROM deliveries ORDER BY id";
        assert_eq!(reader.query(rows), "1|delivered|0|\n2|failed|1|no host\n3|pending|0|");
        assert_eq!(reader.log().len(), 2);
    }
}

#[test]
fn the_query_of_keda_counts_what_is_due_and_its_jobs_run_side_by_side() {
    let Some(reader) = Reader::on_postgres("A table of Rails") else { return };
    reader.make_table("rails");
    reader.prepare();
    let blocks = blocks("Scale by queue depth (KEDA)");
    let (_, rest) = blocks[0].code.split_once("query: >-\n").unwrap();
    let query = rest.lines().take_while(|line| line.starts_with("          ")).collect::<String>();
    insert_deliveries(&reader);
    assert_eq!(reader.query(&query), "2");
    reader.command("deliver", "exit 1");
    reader.follow().silent();
    assert_eq!(reader.query(&query), "0");

    // Eight handlers at the same time are those of two jobs.
    let waits = "while [ $(wc -l <log) -lt 8 ]; do sleep 0.01; done";
    reader.command("deliver", &format!("echo $1 >>log; {waits}"));
    reader.sql(
        "INSERT INTO deliveries (created_at, updated_at) SELECT now(), now() FROM generate_series(1, 8)",
    );
    assert_eq!(reader.query(&query), "8");
    let (_, command) = blocks[0].code.split_once("command: [").unwrap();
    let command = command.split_once(']').unwrap().0.replace(',', "");
    let jobs = ["a", "b"].map(|job| {
        let own = reader.env.path(job).display().to_string();
        reader.shell(&command.replace("/tmp/backlog", &own)).spawn().unwrap()
    });
    for job in jobs {
        job.ran().silent();
    }
    assert_eq!(reader.query(&query), "0");
    assert_eq!(reader.log().len(), 8);
}

/// A mail server that refuses `nobody@` for good and `later@` for now. Gives what it accepted.
fn mail_server() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mails = Arc::new(Mutex::new(Vec::new()));
    let accepted = Arc::clone(&mails);
    thread::spawn(move || {
        for stream in listener.incoming() {
            serve_mail(stream.unwrap(), &accepted);
        }
    });
    (port, mails)
}

fn serve_mail(mut stream: TcpStream, accepted: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let mut answer = |text: &str| stream.write_all(format!("{text}\r\n").as_bytes()).unwrap();
    answer("220 test");
    while let Some(line) = lines.next() {
        match line.to_uppercase().as_str() {
            "DATA" => {
                answer("354 go on");
                let mail: Vec<_> = lines.by_ref().take_while(|line| line != ".").collect();
                accepted.lock().unwrap().push(mail.join("\n"));
                answer("250 ok");
            }
            line if line.contains("NOBODY@") => answer("550 no such user"),
            line if line.contains("LATER@") => answer("451 greylisted"),
            "QUIT" => return answer("221 bye"),
            _ => answer("250 ok"),
        }
    }
}

#[test]
fn mail_is_sent_by_smtp() {
    for mut reader in Reader::on_both("Mail by SMTP") {
        let (port, mails) = mail_server();
        reader.replace("\"mail.example.com\", 25", format!("\"127.0.0.1\", {port}"));
        reader.prepare();
        reader.follow().success();
        let sent = mails.lock().unwrap().join("\n");
        for part in [
            "Subject: Thank you",
            "To: ann@example.org",
            "<backlog-1@example.com>",
            "\nIt is on its way.",
        ] {
            assert!(sent.contains(part), "{part}: {sent}");
        }
        let add = reader.typed().lines().nth(1).unwrap().to_string();
        for name in ["nobody", "later"] {
            reader.sh(&add.replace("ann@", &format!("{name}@"))).success();
        }
        reader.sh("backlog process").fails(1, &["record 2", "550 no such user"]);
        let rows = reader.query("SELECT id, status, failures, last_error FROM backlog ORDER BY id");
        assert!(
            rows.starts_with("1|SUCCESS|0|\n2|ARCHIVED|1|550 no such user\n3|ERROR|0|"),
            "{rows}"
        );
        assert!(rows.ends_with("451 greylisted"), "{rows}");
        assert_eq!(mails.lock().unwrap().len(), 1);
    }
}

/// A port that nobody listens at.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The status with which a request is answered that somebody else has recorded.
fn replay(port: u16, request: &Received, change: impl Fn(&str, &str) -> String) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let headers = request.headers.iter().map(|(name, value)| {
        let name = name.to_lowercase();
        let value = change(&name, value);
        format!("{name}: {value}\r\n")
    });
    let head =
        format!("POST /hooks HTTP/1.1\r\n{}Connection: close\r\n\r\n", headers.collect::<String>());
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&request.body).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().into()
}

#[test]
fn a_receiver_verifies_webhooks_and_drops_duplicates() {
    for mut reader in Reader::on_both("A receiver of webhooks") {
        let secret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        let port = free_port();
        reader.replace("127.0.0.1:8080", format!("127.0.0.1:{port}"));
        reader.replace("8080", port.to_string());
        reader.prepare();
        let mut receiver = reader.shell("exec ./receiver.py");
        let receiver = receiver.env("BACKLOG_WEBHOOK_SECRET", secret).stdout(Stdio::null());
        let mut receiver = receiver.stderr(Stdio::null()).spawn().unwrap();
        wait_until("the receiver listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        let export = format!("export BACKLOG_WEBHOOK_SECRET={secret}");
        reader.sh(&format!("{export}\n{}", reader.typed())).success();
        assert_eq!(reader.query("SELECT status FROM backlog"), "SUCCESS");

        // The same requests, as somebody who listens has them: one of now, one of an hour ago.
        let listener = Server::new(&[("/hooks", Answer::new("500 Down", &[], ""))]);
        let post = format!("{export}; backlog process --post {}", listener.url("/hooks"));
        reader.sh("backlog add '{\"order\": 18}'").success();
        let hour_ago = reader.sh("date -u -d '1 hour ago' +@%s").success().stdout;
        reader.sh(&format!("{post} --ndays 1")).success();
        reader.sh("backlog add '{\"order\": 19}'").success();
        reader.sh(&format!("{post} --ndays 1 --now {hour_ago}")).success();
        let [first, old] = [0, 1].map(|number| listener.received()[number].clone());
        let as_is = |_: &str, value: &str| value.to_string();
        let count = || {
            let db = rusqlite::Connection::open(reader.env.path("received.db")).unwrap();
            db.query_row("SELECT count(*) FROM received", [], |row| row.get::<_, i64>(0)).unwrap()
        };
        assert_eq!(count(), 1);
        assert_eq!(replay(port, &first, as_is), "204");
        assert_eq!(replay(port, &first, as_is), "204");
        assert_eq!(count(), 2);
        assert_eq!(replay(port, &old, as_is), "401");
        for header in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            let change = |name: &str, value: &str| {
                let end = if name == header { "1" } else { "" };
                format!("{value}{end}")
            };
            assert_eq!(replay(port, &first, change), "401", "{header}");
        }
        let forged = Received { body: first.body.iter().map(|byte| byte ^ 1).collect(), ..first };
        assert_eq!(replay(port, &forged, as_is), "401");
        assert_eq!(count(), 2);
        receiver.kill().unwrap();
        receiver.wait().unwrap();
    }
}

/// The command of MySQL, on another database.
const MYSQL: &str = r#"#!/usr/bin/env python3
import sqlite3, sys
assert sys.argv[1] == "shop", sys.argv
with sqlite3.connect("shop.db", timeout=20) as db:
    for row in db.execute(sys.argv[sys.argv.index("-e") + 1]):
        print(*row, sep="\t")
"#;

#[test]
fn orders_of_mysql_are_taken_over_and_written_back() {
    for reader in Reader::on_both("An application on MySQL") {
        reader.prepare();
        reader.executable("bin/mysql", MYSQL);
        reader.command("sync-order", "echo $1 >>log; [ $1 != 2 ]");
        let shop = rusqlite::Connection::open(reader.env.path("shop.db")).unwrap();
        let sql = "CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT DEFAULT 'new');
                   INSERT INTO orders (id) VALUES (1), (2), (3)";
        shop.execute_batch(sql).unwrap();
        let states = || {
            let sql = "SELECT group_concat(id || state, ' ') FROM orders";
            shop.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap()
        };
        reader.follow().success();
        assert_eq!(states(), "1done 2queued 3done");
        let failed = "SELECT count(*) FROM backlog WHERE status = 'ERROR' AND last_error LIKE '%exit status 1%'";
        assert_eq!(reader.query(failed), "1");

        // Orders that are being taken over when everything fails are taken by the next run.
        shop.execute_batch("INSERT INTO orders (id) VALUES (4)").unwrap();
        reader.command("backlog-down", "exit 75");
        let down =
            "mkdir down; cp bin/backlog-down down/backlog; PATH=$PWD/down:$PATH ./take-orders";
        assert_eq!(reader.sh(down).exit, Some(75));
        assert_eq!(states(), "1done 2queued 3done 4taken");
        reader.follow().success();
        assert_eq!(states(), "1done 2queued 3done 4done");
        assert_eq!(reader.log().iter().filter(|id| *id == "4").count(), 1);
    }
}

#[test]
fn each_recipe_is_in_the_contents() {
    let headings: Vec<_> = PAGE.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let (contents, _) = PAGE.split_once("\n## ").unwrap();
    assert_eq!(contents.matches("](#").count(), headings.len());
    let mut is_code = false;
    let words = PAGE.lines().filter(|line| {
        is_code ^= line.starts_with("```");
        !is_code
    });
    let words: usize = words.map(|line| line.split_whitespace().count()).sum();
    assert!(words <= 2_300, "{words}");
}
