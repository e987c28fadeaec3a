//! The README and the documents: each of their commands is run, as a reader would run it, and each of
//! their links leads somewhere. A `toml` block is what the reader saves as backlog.toml, and `sh` blocks
//! are what he types below it.

#![expect(clippy::wildcard_enum_match_arm, reason = "few events of Markdown matter here")]

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use rusqlite::Connection;
use test_support::server::{Answer, Server};

use crate::testenv::*;

/// The server that the documents name, and the host of their webhooks.
const SERVER: &str = "postgres://worker@db.example.com/app";
const HOOKS: &str = "https://example.com/hooks";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(document: &str) -> String {
    fs::read_to_string(root().join(document)).unwrap()
}

fn documents() -> Vec<String> {
    let docs = fs::read_dir(root().join("docs")).unwrap();
    let names = docs.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let of_docs = names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}"));
    let others = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];
    of_docs.chain(others.map(String::from)).collect()
}

/// A block of code, by its language.
struct Block {
    language: String,
    code: String,
}

fn blocks(document: &str) -> Vec<Block> {
    let (text, mut blocks, mut is_in) = (text(document), Vec::new(), false);
    for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                is_in = true;
                blocks.push(Block { language: language.to_string(), code: String::new() });
            }
            Event::End(TagEnd::CodeBlock) => is_in = false,
            Event::Text(code) if is_in => blocks.last_mut().unwrap().code += &code,
            _ => {}
        }
    }
    blocks
}

/// A directory in which the commands find what they name, and a person has typed nothing yet.
struct Reader {
    env: TestEnv,
    hooks: Server,
    url: Option<String>,
}

impl Reader {
    fn new() -> Self {
        let env = TestEnv::empty();
        for directory in ["bin", "release", ".config/fish"] {
            fs::create_dir_all(env.path(directory)).unwrap();
        }
        let program = env!("CARGO_BIN_EXE_backlog");
        std::os::unix::fs::symlink(program, env.path("release/backlog")).unwrap();
        for directory in ["examples", "schema.sql", "schema.postgres.sql"] {
            std::os::unix::fs::symlink(root().join(directory), env.path(directory)).unwrap();
        }
        // The program is built already, there is no network, and cron is not the reader's own.
        env.script(
            "bin/cargo",
            "[ \"$*\" = 'install --locked --path .' ] && mkdir -p ~/.cargo/bin && cp -sf ~/release/backlog ~/.cargo/bin/",
        );
        env.script("bin/curl", "cat >>posted; echo >>posted; echo \"$4\" >>posted");
        env.script(
            "bin/crontab",
            "[ \"$1\" = - ] && cat >~/crontab.new && mv ~/crontab.new ~/crontab || cat ~/crontab",
        );
        env.script("bin/openssl", "head -c 32 /dev/zero | base64");
        env.script(
            "sync-order",
            "[ \"$BACKLOG_ID\" != 4 ] || { echo 'no route to host' >&2; exit 1; }",
        );
        env.write("crontab", "MAILTO=root\n");
        env.write("orders.jsonl", "{\"order\": 1}\n{\"order\": 2}\n");
        let app = Connection::open(env.path("app.db")).unwrap();
        app.execute_batch(include_str!("../fixtures/documents.sql")).unwrap();
        let hooks = Server::new(&[("/", Answer::new("200 OK", &[], ""))]);
        Self { env, hooks, url: None }
    }

    /// Runs a script in the reader's directory.
    fn sh(&self, script: &str) -> Ran {
        let home = self.env.path_text("");
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(&home).env_clear().env("HOME", &home);
        command.env("PATH", format!("{home}/bin:{home}/release:/usr/bin:/bin"));
        command.ran()
    }

    /// A block of the document with the files of this machine.
    fn here(&self, code: &str) -> String {
        let handler = self.env.path_text("sync-order");
        let mut code = code.replace("/srv/app/app.db", "app.db");
        for program in ["sync-order", "send-email", "publish"] {
            code = code.replace(&format!("/usr/local/bin/{program}"), &handler);
        }
        let hooks = self.hooks.url("/");
        let server = self.url.as_ref().map_or(SERVER.into(), |url| format!("'{url}'"));
        code.replace(&format!("{HOOKS}/{{id}}"), &hooks)
            .replace(HOOKS, &hooks)
            .replace(SERVER, &server)
    }

    /// Does what a document says, with something to do at each line in the database that has a table
    /// of ours.
    fn follow(&self, document: &str, ours: Option<&str>) {
        let add = |db| format!("backlog add --db {db} '{{\"order\":4}}' >/dev/null\n");
        let fill = ours.map(add).unwrap_or_default();
        for Block { language, code } in blocks(document) {
            let code = self.here(&code);
            match &*language {
                "toml" => fs::write(self.env.path("backlog.toml"), code).unwrap(),
                "sh" => {
                    let whole = code.replace("\\\n", " ");
                    let is_one = whole.contains("&&\n");
                    let lines = whole.lines().map(|line| format!("{fill}{line}\n"));
                    let script = if is_one || ours.is_none() { whole } else { lines.collect() };
                    let ran = self.sh(&script).success();
                    // `adopt` reports beside its file.
                    let is_report = code.contains("backlog adopt");
                    assert!(ran.stderr.is_empty() || is_report, "{document}: {ran:?}");
                }
                "console" => self.repeat(&code),
                "text" | "json" => {}
                other => panic!("{document}: a block of {other}, which nothing looks at"),
            }
        }
    }

    /// Types the commands of a transcript, each of which must print what stands below it.
    fn repeat(&self, transcript: &str) {
        for step in transcript.split("$ ").skip(1) {
            let (command, printed) = step.split_once('\n').unwrap();
            let ran = self.sh(command).success();
            assert_eq!(timeless(&ran.stdout), timeless(printed), "{command}");
        }
    }

    fn count(&self, db: &str, query: &str) -> i64 {
        let connection = Connection::open(self.env.path(db)).unwrap();
        connection
            .query_row(&format!("SELECT count(*) FROM {query}"), [], |row| row.get(0))
            .unwrap()
    }
}

/// A reader whose demo.db is made.
fn reader() -> Reader {
    let reader = Reader::new();
    reader.sh("backlog init --db demo.db").success();
    reader
}

/// A text with the instants, times and paths left out that no two runs have in common.
fn timeless(text: &str) -> String {
    text.lines().map(timeless_line).collect::<Vec<_>>().join("\n")
}

fn timeless_line(line: &str) -> String {
    let is_instant = |word: &str| word.len() == 20 && word.contains('T') && word.ends_with('Z');
    let mut shown: Vec<&str> = Vec::new();
    for word in line.split_whitespace() {
        match word.trim_end_matches(',') {
            bare if is_instant(bare) => shown.push("INSTANT"),
            bare if bare.ends_with("/demo.db") => shown.push("demo.db"),
            "now" => shown.push("AGO"),
            // `0s ago`, `2 s ago`
            "ago" => {
                if shown.pop() == Some("s") {
                    shown.pop();
                }
                shown.push("AGO");
            }
            _ if shown.last() == Some(&"took") => shown.push("TIME"),
            _ => shown.push(word),
        }
    }
    shown.join(" ")
}

#[test]
fn the_first_command_of_the_readme_does_the_main_job_and_prints_what_it_shows() {
    let readme = text("README.md");
    assert!(readme.len() <= 8000, "{}", readme.len());
    assert_contains(&readme, "`tests/run`");
    let blocks = blocks("README.md");
    let reader = Reader::new();
    let first = reader.sh(&blocks[0].code).success();
    assert_eq!(timeless(&first.stdout), timeless(&blocks[1].code));
    // A second time it says so.
    let again = reader.sh(&blocks[0].code).success();
    assert!(
        again.stdout.starts_with("found table BACKLOG in demo.db\nadded 9 records\n"),
        "{again:?}"
    );
    assert_eq!(reader.count("demo.db", "BACKLOG WHERE STATUS = 'SUCCESS'"), 14);
}

#[test]
fn the_readme_leads_from_a_table_to_cron_and_on_call() {
    let reader = Reader::new();
    let pass = "cron() { sh -c \"$(grep process ~/crontab | cut -d' ' -f6-)\"; }; cron";
    reader.sh("cp -s ~/release/backlog bin/").success();
    for number in 0..blocks("README.md").len() {
        let Block { language, code } = &blocks("README.md")[number];
        let code = reader.here(code);
        if language == "toml" {
            // What `adopt` has printed there, but for its reasons, and the command.
            let adopted = fs::read_to_string(reader.env.path("backlog.toml")).unwrap();
            let home = reader.env.path_text("");
            let adopted = adopted.replace(&home, "");
            let is_key = |line: &&str| !line.starts_with('#') && !line.is_empty();
            let lines: Vec<_> = adopted.lines().filter(is_key).collect();
            let shown: Vec<_> = code.lines().filter(|line| !line.starts_with("exec")).collect();
            assert_eq!(lines, shown);
            fs::write(reader.env.path("backlog.toml"), &code).unwrap();
        }
        if language != "sh" {
            continue;
        }
        let ran = reader.sh(&code).success();
        if code.contains("backlog adopt") {
            continue;
        }
        assert_eq!(ran.stderr, "", "{code}");
        if code.contains("crontab -") {
            // Nobody but the dry run has looked at the table until now.
            assert_eq!(reader.count("app.db", "orders WHERE state = 'new'"), 9);
            assert!(
                fs::read_to_string(reader.env.path("crontab"))
                    .unwrap()
                    .starts_with("MAILTO=root\n")
            );
            reader.sh(pass).silent();
        }
        if code.contains("backlog check") {
            assert_contains(&ran.stdout, "\nok       table       orders, 40 rows, 10 pending");
        }
        if code.contains("--passes") {
            assert_contains(&ran.stdout, "9 succeeded, 1 failed");
            assert_contains(&ran.stdout, "made due 1 record");
        }
    }
    assert_eq!(reader.count("app.db", "orders WHERE state = 'done'"), 38);
    assert_eq!(reader.count("app.db", "orders WHERE state = 'new'"), 1);
}

#[test]
fn the_commands_of_schedules_do_what_they_say() {
    let reader = reader();
    reader.follow("docs/schedules.md", Some("demo.db"));
    assert!(reader.count("demo.db", "BACKLOG WHERE STATUS = 'SUCCESS'") > 10);
    let drawn = fs::read_to_string(reader.env.path("load.svg")).unwrap();
    assert!(drawn == text("docs/load.svg"), "the picture is not the command's");
}

#[test]
fn the_commands_of_tables_do_what_they_say() {
    let reader = Reader::new();
    reader.follow("docs/tables.md", None);
    assert_eq!(reader.count("app.db", "post_office_email WHERE status = 0"), 1);
    assert_eq!(reader.count("app.db", "OutboxMessage WHERE ProcessedOn IS NOT NULL"), 1);
    assert_eq!(reader.count("shop.db", "BACKLOG"), 4);
    assert_eq!(reader.count("small.db", "BACKLOG"), 0);
}

#[test]
fn the_commands_of_handlers_do_what_they_say() {
    let reader = reader();
    reader.follow("docs/handlers.md", Some("demo.db"));
    let posted = fs::read_to_string(reader.env.path("posted")).unwrap();
    assert_contains(&posted, r#""PAYLOAD":"{\"order\":4}""#);
    assert_contains(&posted, "\nhttps://example.com/orders/2\n");
    let received = reader.hooks.received();
    assert_eq!(received.len(), 4);
    let signed = received.iter().filter(|request| request.header("webhook-signature").is_some());
    assert_eq!(signed.count(), 2);
    assert_eq!(reader.count("demo.db", "BACKLOG WHERE STATUS = 'SUCCESS'"), 8);
    for queue in ["mails", "orders", "hooks"] {
        let line = reader.sh(&format!("backlog crontab --queue {queue}")).success();
        assert_contains(&line.stdout, &format!("--queue {queue}"));
    }
}

#[test]
fn the_record_that_handlers_shows_is_one() {
    let reader = reader();
    reader.sh("backlog add --db demo.db '{\"order\":7}'").success();
    let got = reader.sh("backlog process --db demo.db --ndays 1 -- sh -c 'cat >got' && cat got");
    let keys = |text: &str| json(text).as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let shown =
        blocks("docs/handlers.md").into_iter().find(|block| block.language == "json").unwrap();
    assert_eq!(keys(&got.stdout), keys(&shown.code));
}

#[test]
fn the_commands_of_on_call_do_what_they_say() {
    let reader = Reader::new();
    reader.sh("backlog init --db app.db").success();
    reader.sh(&blocks("README.md")[0].code).success();
    reader.follow("docs/on-call.md", Some("app.db"));
    let joblog = fs::read_to_string(reader.env.path("attempts.jsonl")).unwrap();
    assert_eq!(joblog.lines().count(), 6, "{joblog}");
    assert_eq!(reader.count("app.db", "BACKLOG WHERE STATUS = 'ARCHIVED'"), 1);
    assert!(reader.count("app.db", "BACKLOG WHERE STATUS = 'SUCCESS'") > 3);
}

#[test]
fn on_call_explains_each_series_and_each_figure() {
    let reader = reader();
    reader.sh("backlog add --db demo.db '{}'").success();
    reader.sh("backlog process --db demo.db --progressive --metrics m.prom -- true").success();
    reader.sh("backlog status --db demo.db --progressive --metrics m.prom").success();
    let metrics = fs::read_to_string(reader.env.path("m.prom")).unwrap();
    let page = text("docs/on-call.md");
    let families =
        metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let missing: Vec<_> = families.filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(metrics.contains("backlog_attempts_total") && missing.is_empty(), "{missing:?}");
    let help = reader.sh("backlog status --help").success().stdout;
    let figures = help.lines().filter_map(|line| line.trim().strip_prefix("- ")?.split(':').next());
    let figures: Vec<_> = figures.collect();
    assert!(figures.len() > 10, "{help}");
    assert!(figures.iter().all(|name| page.contains(&format!("`{name}`"))), "{figures:?}");
}

#[test]
fn the_commands_of_install_do_what_they_say() {
    let reader = Reader::new();
    reader.follow("docs/install.md", None);
    assert!(reader.env.path(".local/share/man/man1/backlog.1").exists());
}

#[test]
fn the_commands_of_postgresql_do_what_they_say() {
    let Some(database) = database() else { return };
    if !database.install_pgmq() {
        return;
    }
    let reader = Reader { url: Some(database.url()), ..Reader::new() };
    reader.follow("docs/postgresql.md", None);
    assert_eq!(database.query("SELECT DISTINCT status FROM backlog"), "SUCCESS");
    assert_eq!(database.query("SELECT count(*) FROM pgmq.a_emails"), "1");
}

#[test]
fn no_other_document_has_commands() {
    let followed = [
        "README",
        "install",
        "schedules",
        "tables",
        "handlers",
        "on-call",
        "postgresql",
        // tests/it/recipes.rs follows it.
        "recipes",
    ];
    for document in documents() {
        let name = document.trim_start_matches("docs/").trim_end_matches(".md");
        // The commands for contributors build and test, which is happening here.
        if followed.contains(&name) || name == "CONTRIBUTING" {
            continue;
        }
        for Block { language, code } in blocks(&document) {
            assert!(
                ["text", "json", "toml"].contains(&&*language),
                "{document}: {language}: {code}"
            );
        }
    }
}

/// The examples of a command, as `--help` has them.
fn examples(help: &str) -> Vec<String> {
    let (_, rest) = help.split_once("\nExamples:\n").unwrap();
    let (examples, _) = rest.split_once("\n\n").unwrap();
    let lines = examples.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.map(String::from).collect()
}

#[test]
fn every_example_of_the_help_works() {
    let reader = Reader::new();
    let toml = "[defaults]\ndb = \"work.db\"\n[queue.orders]\nprogressive = true\nexec = [\"./sync-order\"]\n\
        prune_after = { ARCHIVED = \"1y\" }\n";
    fs::write(reader.env.path("backlog.toml"), toml).unwrap();
    reader.sh("backlog init --db work.db && seq 9 | backlog add --db work.db -").success();
    // 4 and 7 fail, 8 is given up, and the rest waits.
    let fails =
        "case $BACKLOG_ID in 4 | 7) echo HTTP 503 >&2; exit 1;; 8) exit 65;; *) exit 75;; esac";
    let args = "--db work.db --ndays 1 --give-up-on 65";
    reader.sh(&format!("backlog process {args} -- sh -c '{fails}' 2>/dev/null || true")).success();
    let (mut count, commands) = (0, reader.sh("backlog --help").success().stdout);
    let commands = commands.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let names = commands.lines().filter_map(|line| line.split_whitespace().next());
    for name in names.filter(|name| *name != "help").chain([""]) {
        let help = reader.sh(&format!("backlog {name} --help")).success().stdout;
        for example in examples(&help) {
            if example.contains(SERVER) {
                continue;
            }
            // Each finds what the one before may have made or changed.
            let made = if name.is_empty() { "" } else { "rm -f shop.db small.db; " };
            let needs = if name == "add" { "backlog init --db shop.db >/dev/null; " } else { "" };
            let state = "cp work.db kept.db; cp backlog.toml kept.toml; ";
            let example = reader.here(&example);
            // Nothing hangs here.
            let is_in_vain = if name == "stop" { " || true" } else { "" };
            let ran = reader.sh(&format!("{made}{needs}{state}{example}{is_in_vain}")).success();
            // That is a report beside a file.
            let is_report = name == "adopt" && ran.stderr.contains("\nnext:\n");
            assert!(ran.stderr.is_empty() || is_report, "{example}: {ran:?}");
            reader
                .sh("mv kept.db work.db; mv kept.toml backlog.toml; rm -f work.db-wal work.db-shm")
                .success();
            count += 1;
        }
    }
    assert!(count > 50, "{count}");
}

#[test]
fn the_documents_are_short_and_of_this_version() {
    // Neither what is made of the options nor SQL is read as prose.
    let words = |document: &String| {
        let text = text(document);
        let by_hand = text.split("\n## Table\n").next().unwrap();
        let parts = by_hand.split("```").filter(|part| !part.starts_with("sql\n"));
        parts.map(|part| part.split_whitespace().count()).sum::<usize>()
    };
    // The users' pages.
    let is_users = |page: &String| page.starts_with("docs/") && page != "docs/architecture.md";
    let pages = documents().into_iter().filter(is_users);
    let count: usize = pages.map(|page| words(&page)).sum();
    assert!(count <= 16_000, "{count}");

    let reference = text("docs/reference.md");
    let (glossary, _) = reference.split_once("\n## Exit codes\n").unwrap();
    let terms = glossary.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let count = terms.skip(1).flat_map(|terms| terms.split("; ")).count();
    assert!((1..=25).contains(&count), "{count}");

    let changes = text("CHANGELOG.md");
    assert!(changes.lines().count() <= 80);
    let newest = changes.lines().find_map(|line| line.strip_prefix("## ")).unwrap();
    assert!(newest.starts_with(&format!("{} - 20", env!("CARGO_PKG_VERSION"))), "{newest}");
}

/// The anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || ['-', '_', ' '].contains(c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// The links of a document, and the anchors that it has.
fn links(document: &str) -> (Vec<String>, HashSet<String>) {
    let (text, mut heading) = (text(document), None::<String>);
    let (mut links, mut anchors) = (Vec::new(), HashSet::new());
    for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                links.push(dest_url.to_string());
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut heading {
                    *heading += &part;
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                anchors.extend(heading.take().map(|heading| anchor(&heading)));
            }
            _ => {}
        }
    }
    (links, anchors)
}

#[test]
fn no_link_is_dead() {
    let mut count = 0;
    for document in documents() {
        for link in links(&document).0 {
            let is_public = link.starts_with("https://");
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            if is_public {
                continue;
            }
            let target: PathBuf = match path {
                "" => document.clone().into(),
                path => Path::new(&document).parent().unwrap().join(path),
            };
            assert!(root().join(&target).exists(), "{document}: {link}");
            if !anchor.is_empty() {
                let (_, anchors) = links(target.to_str().unwrap());
                assert!(anchors.contains(anchor), "{document}: {link}: {anchors:?}");
            }
            count += 1;
        }
    }
    assert!(count > 50, "{count}");
}
