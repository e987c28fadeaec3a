//! The help of the commands, the completions of shells, and the manual pages.

use std::process::Command;

use crate::testenv::*;

const COMMANDS: [&str; 21] = [
    "",
    "adopt",
    "init",
    "add",
    "process",
    "pause",
    "resume",
    "status",
    "list",
    "failures",
    "show",
    "stop",
    "explain",
    "archive",
    "restore",
    "prune",
    "retry",
    "check",
    "crontab",
    "simulate",
    "completions",
];

/// The help of a command, as a pipe gets it.
fn help(env: &TestEnv, command: &str, option: &str) -> String {
    let args: Vec<_> = command.split_whitespace().chain([option]).collect();
    env.run(&args).success().stdout
}

#[test]
fn no_help_is_wider_than_80_columns_and_the_short_one_fits_a_screen() {
    let env = TestEnv::empty();
    for command in COMMANDS {
        let (short, long) = (help(&env, command, "-h"), help(&env, command, "--help"));
        assert!(short.lines().count() <= 33, "{short}");
        for line in short.lines().chain(long.lines()) {
            assert!(line.chars().count() <= 80, "{command}: {line}");
        }
        assert_lacks(&short, "[env: ");
    }
    // Where a window is narrow, lines are.
    let narrow = plain(&env.at_terminal(60, "process -h", "").stdout);
    let too_long = narrow.lines().find(|line| line.trim_end().chars().count() > 60);
    assert_eq!(too_long, None, "{narrow}");
}

/// A text without the codes that set letters bold.
fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |text, part| text + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[test]
fn the_long_help_comes_in_groups_with_defaults_and_variables() {
    let env = TestEnv::empty();
    let long = help(&env, "process", "--help");
    for group in
        ["Options:", "Schedule:", "Pass:", "Handler:", "Table:", "Examples:", "Exit codes:"]
    {
        assert!(long.contains(&format!("\n{group}\n")), "{group}: {long}");
    }
    let joined = long.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [
        "[default: 1h; 30s with --post] [env: BACKLOG_TIMEOUT] [example: --timeout 30s]",
        "[env: BACKLOG_HEADER] [example: --header 'X-Source: shop']",
        "[env: BACKLOG_WHERE] [example: --where \"kind = 'mail'\"]",
        "[default: ./backlog.toml, ~/.config/backlog/config.toml or /etc/backlog.toml]",
        " 75 the database stays locked or out of reach",
    ] {
        assert!(joined.contains(text), "{text}: {joined}");
    }
}

#[test]
fn a_help_is_the_same_however_it_is_asked_for() {
    let env = TestEnv::empty();
    let short = help(&env, "process", "-h");
    for args in ["process -vh", "process --ndays 1 -hv"] {
        assert_eq!(env.run(args).success().stdout, short, "{args:?}");
    }
    assert_eq!(help(&env, "help", "process"), help(&env, "process", "--help"));
    let bare = env.run("");
    assert_eq!((bare.exit, bare.stderr), (Some(2), help(&env, "", "-h")));
}

#[test]
fn what_filters_records_is_not_the_key_of_that_name() {
    let env = TestEnv::empty();
    for command in ["list", "failures", "archive", "restore", "retry"] {
        let long = help(&env, command, "--help");
        assert!(long.contains("--status") && !long.contains("BACKLOG_STATUS"), "{long}");
    }
    let reference = include_str!("../../docs/reference.md");
    let (_, entry) = reference.split_once("### `on_archive`").unwrap();
    let (entry, _) = entry.split_once("\n#").unwrap();
    assert!(entry.contains("`--set on_archive=...`") && !entry.contains("BACKLOG"), "{entry}");
}

#[test]
fn the_option_of_each_key_is_one() {
    let env = TestEnv::empty();
    let reference = include_str!("../../docs/reference.md");
    let options = reference.split("\n- Option: `--").skip(1);
    let options: Vec<_> = options.filter(|option| !option.starts_with("set ")).collect();
    assert!(options.len() > 35, "{}", options.len());
    for option in options {
        let (option, rest) = option.split_once('`').unwrap();
        let words = shlex::split(option).unwrap();
        let (long, value) = words.split_first().unwrap();
        let args: Vec<_> = std::iter::once(format!("--{long}")).chain(value.to_vec()).collect();
        let args = [vec!["process".into(), "--dry-run".into()], args].concat();
        // clap's own errors begin otherwise than those of a command that lacks something.
        let ran = env.run(&args);
        assert!(ran.stderr.starts_with("backlog: "), "{option}: {}", ran.stderr);
        let (_, variable) = rest.split_once("- Environment: `").unwrap();
        let variable = variable.split('`').next().unwrap();
        assert_eq!(variable, format!("BACKLOG_{}", long.to_uppercase().replace('-', "_")));
    }
}

#[test]
fn help_prints_the_documents_about_a_topic() {
    let env = TestEnv::empty();
    for (topic, text) in [
        ("handlers", include_str!("../../docs/handlers.md")),
        ("schedules", include_str!("../../docs/schedules.md")),
    ] {
        assert_eq!(help(&env, "help", topic), text);
    }
    let reference = help(&env, "help", "backlog.toml");
    assert!(reference.starts_with("## backlog.toml\n"), "{reference}");
    assert_contains(&reference, "\n### `max_runtime`\n");
    for topic in ["handlers", "schedules", "backlog.toml"] {
        assert!(help(&env, "", "--help").contains(&format!("backlog help {topic}")));
    }
}

/// The options of a command, as its long help lists them.
fn options(long: &str) -> Vec<String> {
    let lines = long.lines().filter(|line| line.starts_with("  ")).map(str::trim_start);
    let options = lines.filter(|line| line.starts_with('-'));
    let long = |line: &str| {
        line.split([' ', ',', '.', '[']).find(|word| word.starts_with("--")).map(String::from)
    };
    options.filter_map(long).collect()
}

#[test]
fn every_option_has_an_example() {
    let env = TestEnv::empty();
    let helps: Vec<_> = COMMANDS.iter().map(|command| help(&env, command, "--help")).collect();
    let examples: String =
        helps.iter().filter_map(|help| help.split_once("\nExamples:")).map(|help| help.1).collect();
    let says = [examples, helps.concat().split("[example: ").skip(1).collect()].concat();
    let says: Vec<_> = says.split([' ', '\n', ']']).collect();
    let mut count = 0;
    for option in helps.iter().flat_map(|long| options(long)) {
        // Their names, or a form in their text, say what they do.
        if ["--help", "--version", "--verbose", "--set", "--config"].contains(&option.as_str()) {
            continue;
        }
        assert!(says.contains(&option.as_str()), "{option} has no example");
        count += 1;
    }
    assert!(count > 200, "{count}");
}

#[test]
fn the_example_of_each_key_is_legal() {
    let reference = include_str!("../../docs/reference.md");
    let env = TestEnv::empty();
    env.script("handler", "true");
    let mut count = 0;
    for example in reference.split("\n- Example: `").skip(1) {
        let example = example.split("`\n").next().unwrap();
        let (key, value) = example.split_once(" = ").unwrap();
        let beside = match key {
            "min_ndays" => "ndays = 7\nexec = 'true'",
            "by_age" => "policy = 'even'\nexec = 'true'",
            "ndays" | "fibonacci" | "policy" | "progressive" => "exec = 'true'",
            "every" => "fibonacci = true\nexec = 'true'",
            "exec" => "progressive = true",
            "pgmq" => "exec = 'true'",
            "spread" => "fibonacci = true\nexec = 'true'",
            "window" => "progressive = true\nstream = true\nexec = 'true'",
            "post" => "progressive = true",
            "header" | "allow_hosts" | "secret_column" | "idempotency_key" | "ca_file" => {
                "progressive = true\npost = 'https://example.com/hooks'"
            }
            _ => "progressive = true\nexec = 'true'",
        };
        let beside = beside.replace("'true'", "['true']");
        let db = match key {
            "db" => "",
            "pgmq" => "db = 'postgres://db/app'",
            _ => "db = 'app.db'",
        };
        let file = format!("[queue.q]\n{db}\n{beside}\n{key} = {value}\n");
        env.write("backlog.toml", &file);
        let mut command = env.command("crontab --queue q");
        let ran = command.env_remove("BACKLOG_DB").ran();
        assert_eq!((ran.exit, &*ran.stderr), (Some(0), ""), "{file}");
        count += 1;
    }
    assert!(count > 40, "{count}");
}

#[test]
fn an_unknown_option_gets_the_tip_of_the_parser() {
    let env = TestEnv::new();
    for (args, tip) in [
        ("process --dry-rum", "tip: a similar argument exists: '--dry-run'"),
        ("process --all-queue", "tip: a similar argument exists: '--all-queues'"),
        ("archive --older 3d", "tip: a similar argument exists: '--older-than'"),
        // A queue may be called like a command.
        ("--queue init process --dry-rum", "tip: a similar argument exists: '--dry-run'"),
    ] {
        let ran = env.run(args).fails(2, &[tip]);
        assert_eq!(ran.stderr.matches("tip:").count(), 1, "{}", ran.stderr);
    }
    for args in ["process --foo", "explain --foo 7"] {
        assert_lacks(&env.run(args).fails(2, &["unexpected argument"]).stderr, "tip:");
    }
}

/// Completions of bash for these words on its command line.
fn completed(env: &TestEnv, words: &str) -> String {
    let script = r#"
        source <(backlog completions bash)
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
        function=$(complete -p backlog | sed 's/.*-F \([^ ]*\).*/\1/')
        $function backlog "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        echo "${COMPREPLY[@]}""#;
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_backlog")).parent().unwrap();
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash"]).args(words.words()).current_dir(env.path(""));
    command.env("PATH", format!("{}:/usr/bin:/bin", program.display()));
    command.env_remove("BACKLOG_CONFIG").ran().success().stdout
}

#[test]
fn bash_completes_commands_options_values_and_queues() {
    let env = TestEnv::empty();
    env.write("backlog.toml", "[queue.mails]\n[queue.orders]\n");
    env.script("sync-order", "true");
    env.write("other.toml", "[queue.other]\n");
    for (words, expected) in [
        ("backlog --config other.toml status --queue ''", "other\n"),
        ("backlog sta", "status\n"),
        ("backlog process --dr", "--dry-run --drain\n"),
        ("backlog status --queue ''", "mails orders\n"),
        ("backlog --queue o", "orders\n"),
        ("backlog process --policy e", "exponential even\n"),
        ("backlog list --order ''", "newest oldest\n"),
        ("backlog process --ndays 1 -- ./sy", "./sync-order\n"),
    ] {
        assert_eq!(completed(&env, words), expected, "{words:?}");
    }
}

#[test]
fn each_shell_has_a_script_that_it_can_read() {
    let env = TestEnv::empty();
    for shell in ["bash", "zsh", "fish"] {
        let script = env.run(&format!("completions {shell}")).success().stdout;
        assert_contains(&script, "backlog");
        env.write(shell, script);
        let mut command = Command::new(shell);
        match command.arg("-n").arg(env.path(shell)).output() {
            Ok(output) => _ = ran(&output).silent(),
            Err(_) => skipped(&format!("the completions of {shell}: there is no {shell}")),
        }
    }
    env.run("completions tcsh").fails(2, &["invalid value 'tcsh'", "bash, zsh, fish"]);
}

#[test]
fn there_is_a_manual_page_for_each_command() {
    let env = TestEnv::empty();
    let listed = env.run("man pages").success().stdout;
    assert_eq!(listed.lines().count(), COMMANDS.len());
    let page = |name: &str| env.read(&format!("pages/man1/{name}"));
    for command in COMMANDS {
        let name = if command.is_empty() { "backlog".into() } else { format!("backlog-{command}") };
        let text = page(&format!("{name}.1"));
        for section in
            ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "\"EXIT STATUS\"", "\"SEE ALSO\""]
        {
            assert!(text.contains(&format!("\n.SH {section}\n")), "{name}: {section}");
        }
        // The text of --help.
        let about = help(&env, command, "-h").lines().next().unwrap().replace('-', "\\-");
        assert!(text.contains(&about), "{name}: {about}");
    }
    assert!(page("backlog-process.1").contains("[example: \\-\\-max\\-runtime 4m30s]"));
    if Command::new("groff").arg("-v").output().is_err() {
        return skipped("the manual pages: there is no groff");
    }
    for name in listed.lines() {
        let output = Command::new("groff")
            .args(["-man", "-Tutf8", "-ww", "-z"])
            .arg(env.path(name))
            .output();
        ran(&output.unwrap()).silent();
    }
}

#[test]
fn init_may_run_twice_if_told_so() {
    let env = TestEnv::empty();
    let name = env.path_text("test.db");
    let created = env.run("init --if-missing").success();
    assert_eq!(created.stdout, format!("created table BACKLOG in {name}\n"));
    env.insert_one(1, MIDNIGHT);
    let found = env.run("init --if-missing").success();
    assert_eq!(found.stdout, format!("found table BACKLOG in {name}\n"));
    assert_eq!(env.count("NEW"), 1);
    env.run("init").fails(1, &["table BACKLOG already exists in"]);
}
