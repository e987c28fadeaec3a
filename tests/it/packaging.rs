//! Files of the packages beside the program: the units of systemd, and the Kubernetes CronJob.

use crate::testenv::*;

/// Output of `crontab` for a queue of this backlog.toml, as if the package were installed.
fn crontab(file: &str, args: &str) -> String {
    let env = TestEnv::empty();
    env.write("backlog.toml", file);
    let config = env.path("backlog.toml").canonicalize().unwrap().display().to_string();
    let mut command = env.command(&format!("crontab --config {config} {args}"));
    let printed = command.env_remove("BACKLOG_DB").ran().success().stdout;
    let printed = printed.replace(env!("CARGO_BIN_EXE_backlog"), "/usr/bin/backlog");
    printed.replace(&config, "/etc/backlog.toml")
}

#[test]
fn the_units_are_those_that_crontab_prints() {
    let file = "[queue.shop]\ndb = 'shop.db'\nfibonacci = true\nexec = ['true']\n";
    let printed = crontab(file, "--systemd --queue shop");
    let service = include_str!("../../packaging/backlog@.service");
    let timer = include_str!("../../packaging/backlog@.timer");
    // The sandbox is commented out. The description and the user are not those of one queue.
    let settings = |units: &str| -> Vec<String> {
        let is_own = |line: &&str| {
            ["# ", "Description=", "User="].iter().all(|other| !line.starts_with(other))
        };
        let lines = units.lines().filter(|line| !line.is_empty()).filter(is_own);
        lines.map(|line| line.replace("--queue shop", "--queue %i")).collect()
    };
    assert_eq!(settings(&format!("{service}{timer}")), settings(&printed));
}

#[test]
fn the_cronjob_runs_the_line_that_crontab_prints() {
    let job = include_str!("../../docs/cronjob.yaml");
    let after = |text: &str| job.split_once(text).unwrap().1;
    let file = after("backlog.toml: |\n").split_once("---").unwrap().0;
    let file: Vec<_> = file.lines().map(str::trim).collect();
    let schedule = after("schedule: \"").split_once('"').unwrap().0;
    let args = after("args: [").split_once(']').unwrap().0.replace(", ", " ");
    let printed = crontab(&file.join("\n"), "--queue orders");
    assert_contains(&printed, &format!("\n{schedule} /usr/bin/backlog {args} --state-dir "));
}
