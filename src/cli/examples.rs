//! The examples and exit codes of each subcommand, which `--help` and the manual pages end with. A test
//! runs each example.

use crate::exit::Exit;

/// What `--help` and the manual page of a subcommand have besides its options.
pub struct CommandHelp {
    pub command: &'static str,
    /// Command lines, with what they are for.
    pub examples: &'static [(&'static str, &'static str)],
    pub exits: &'static [(Exit, &'static str)],
}

impl CommandHelp {
    pub fn of(command: &str) -> Option<&'static Self> {
        COMMANDS.iter().find(|help| help.command == command)
    }
}

const DONE: (Exit, &str) = (Exit::Done, "done");
const FAILED: (Exit, &str) = (Exit::Failed, "it could not be done");
const USAGE: (Exit, &str) = (Exit::Usage, "the command line or backlog.toml makes no sense");
const TRY_LATER: (Exit, &str) =
    (Exit::TryLater, "the database stays locked or out of reach: try later");
const USUAL: &[(Exit, &str)] = &[DONE, FAILED, USAGE, TRY_LATER];

const OF_A_PASS: &[(Exit, &str)] = &[
    (Exit::Done, "the pass is complete; records that failed will be tried again"),
    (Exit::Failed, "a record was archived (with --strict: failed), or could not be handled"),
    USAGE,
    (Exit::TryLater, "the database stays locked or out of reach, or the running pass hangs"),
    (Exit::Signal(1), "stopped by SIGHUP"),
    (Exit::Signal(2), "stopped by SIGINT"),
    (Exit::Signal(15), "stopped by SIGTERM"),
];

const OF_A_STATUS: &[(Exit, &str)] = &[
    (Exit::Done, "done; with limits: none is passed"),
    (Exit::Failed, "it could not be done; with limits: one of --warn-if is passed"),
    (Exit::Usage, "it makes no sense; with limits: one of --fail-if is passed"),
    (Exit::Unknown, "with limits: it cannot be told"),
    TRY_LATER,
];

const OF_AN_EDIT: &[(Exit, &str)] = &[
    DONE,
    (Exit::Failed, "a record does not exist, or could not be changed"),
    USAGE,
    (Exit::TryLater, "a record is in the hands of a pass, or the database is locked"),
];

const OF_A_LOOK: &[(Exit, &str)] =
    &[DONE, (Exit::Failed, "a record does not exist, or it could not be done"), USAGE, TRY_LATER];

const OF_A_CHECK: &[(Exit, &str)] = &[
    (Exit::Done, "nothing keeps a pass from working"),
    (Exit::Failed, "a finding is an error"),
    USAGE,
    TRY_LATER,
];

static COMMANDS: [CommandHelp; 18] = [
    CommandHelp {
        command: "backlog",
        examples: &[
            ("backlog init --db shop.db", "A table of pending records, and two records"),
            ("backlog add --db shop.db '{\"order\": 17}' '{\"order\": 18}'", ""),
            (
                "backlog process --db shop.db --progressive -- ./sync-order",
                "The due records, each to ./sync-order on its standard input; for cron",
            ),
            ("backlog status --db shop.db", "What became of them"),
        ],
        exits: OF_A_PASS,
    },
    CommandHelp {
        command: "adopt",
        examples: &[
            ("backlog adopt --db app.db", "The table that looks like a queue"),
            ("backlog adopt --db app.db --table orders > backlog.toml", "Of a table, to a file"),
        ],
        exits: &[
            DONE,
            (Exit::Failed, "a question is open, or it could not be done"),
            (
                Exit::Usage,
                "the command line makes no sense, or it is not clear which table is meant",
            ),
            TRY_LATER,
        ],
    },
    CommandHelp {
        command: "init",
        examples: &[
            ("backlog init --db shop.db", "A SQLite file with the table BACKLOG"),
            ("backlog init --db shop.db --if-missing", "The same in a script that runs twice"),
            ("backlog init --db small.db --minimal", "Without counts and errors of failures"),
            (
                "backlog init --db postgres://worker@db.example.com/app --pgmq emails",
                "A queue of pgmq on a server",
            ),
        ],
        exits: USUAL,
    },
    CommandHelp {
        command: "add",
        examples: &[
            ("backlog add --db shop.db '{\"order\": 17}' '{\"order\": 18}'", "Two records"),
            ("backlog add --db shop.db - < orders.jsonl", "One for each line of a file"),
        ],
        exits: USUAL,
    },
    CommandHelp {
        command: "process",
        examples: &[
            (
                "backlog process --progressive -- ./sync-order",
                "From cron every 5 minutes: the older a record, the less often it is tried",
            ),
            (
                "backlog process --policy even --jobs 8 --post https://example.com/hooks",
                "A webhook, with eight requests at a time",
            ),
            ("backlog process --queue orders", "As the queue stands in backlog.toml"),
            ("backlog process --all-queues", "Each queue of backlog.toml"),
            (
                "backlog process --ndays 7 --dry-run",
                "By hand: what would be tried, and why not the others",
            ),
            (
                "backlog process --ndays 360 --drain --jobs 4 -- ./sync-order",
                "By hand: go on until nothing is due",
            ),
            ("backlog process --queue orders --wait", "By hand: when cron's pass is over"),
        ],
        exits: OF_A_PASS,
    },
    CommandHelp {
        command: "pause",
        examples: &[
            ("backlog pause --queue orders --for 2h --reason 'a release'", "All lines of a queue"),
            ("backlog pause --db work.db", "All lines of a table, until `backlog resume`"),
        ],
        exits: USUAL,
    },
    CommandHelp {
        command: "resume",
        examples: &[
            ("backlog resume --queue orders", "All lines of a queue"),
            ("backlog resume --db work.db", "All lines of a table"),
        ],
        exits: USUAL,
    },
    CommandHelp {
        command: "status",
        examples: &[
            ("backlog status --queue orders", "The records, the last pass, and why records fail"),
            ("backlog status --queue orders --passes 20", "The last 20 passes as well"),
            ("backlog status --all-queues --json", "Of each queue, for other programs"),
            (
                "backlog status --queue orders --fail-if 'hung_lines>0,overdue_lines>0'",
                "For a monitoring system: one line, and exit 2 if it is so",
            ),
            ("backlog status --queue orders --metrics orders.prom", "And figures for Prometheus"),
            (
                "backlog status --all-queues --html status.html --html-every 10m",
                "Of each queue, as a page that cron makes every 10 minutes",
            ),
            (
                "backlog status --ndays 30 --now 2026-12-24T00:00:00Z",
                "What will be due at Christmas",
            ),
        ],
        exits: OF_A_STATUS,
    },
    CommandHelp {
        command: "list",
        examples: &[
            ("backlog list --status NEW,ERROR --order oldest --limit 20", "The oldest that wait"),
            ("backlog list --due --ndays 7 --since 12h --json", "Those of 12 hours that are due"),
            ("backlog list --failure 503", "Those that failed by one cause"),
        ],
        exits: USUAL,
    },
    CommandHelp {
        command: "failures",
        examples: &[
            ("backlog failures", "All causes, those with the most records first"),
            ("backlog failures --status ARCHIVED", "Of the records that were given up"),
            ("backlog failures --all-queues --json", "Of each queue, for monitoring"),
        ],
        exits: USUAL,
    },
    CommandHelp {
        command: "explain",
        examples: &[
            ("backlog explain 4", "By the schedule of backlog.toml"),
            ("backlog explain 4 7 --policy even", "By a schedule that is not the queue's"),
        ],
        exits: OF_A_LOOK,
    },
    CommandHelp {
        command: "archive",
        examples: &[
            ("backlog archive 4 8", "Two records"),
            ("backlog archive --older-than 360days --status ERROR", "What will never work"),
            ("backlog archive --failure 503 --dry-run", "How many there are of one cause"),
        ],
        exits: OF_AN_EDIT,
    },
    CommandHelp {
        command: "restore",
        examples: &[
            ("backlog restore 4", "One record, which is NEW then"),
            (
                "backlog restore --all --where \"LAST_ERROR LIKE '%route%'\" --dry-run",
                "How many failed by a lost route",
            ),
        ],
        exits: OF_AN_EDIT,
    },
    CommandHelp {
        command: "retry",
        examples: &[
            ("backlog retry 8", "One record, at the next pass"),
            ("backlog retry --failure 503", "All that failed by one cause, when it is mended"),
            (
                "backlog retry --all --status ARCHIVED --yes",
                "All archived records, without a question",
            ),
        ],
        exits: OF_AN_EDIT,
    },
    CommandHelp {
        command: "check",
        examples: &[
            ("backlog check --queue orders", "A queue of backlog.toml, and its crontab lines"),
            (
                "backlog check --fibonacci -- /usr/local/bin/sync-order",
                "A line before it stands in a crontab",
            ),
            ("backlog check --queue orders --rehearse", "What a pass writes as well, taken back"),
            ("backlog check --all-queues --json", "Each queue, for monitoring"),
        ],
        exits: OF_A_CHECK,
    },
    CommandHelp {
        command: "crontab",
        examples: &[
            ("backlog crontab --queue orders", "The line of a queue"),
            ("backlog crontab --progressive -- ./sync-order", "Without backlog.toml"),
            ("backlog crontab --classic -- ./sync-order", "Six lines, one for each range of ages"),
            ("backlog crontab --queue orders --systemd", "A service and a timer instead"),
            (
                "(crontab -l; backlog crontab --all-queues) | crontab -",
                "The lines of all queues, behind those that cron has",
            ),
        ],
        exits: USUAL,
    },
    CommandHelp {
        command: "simulate",
        examples: &[
            ("backlog simulate --policy even --policy sidekiq --for 2h", "Which load is smoother"),
            (
                "backlog simulate --policy even --max-attempts 20 --label mails --svg load.svg",
                "As a picture",
            ),
            (
                "backlog simulate --fibonacci --records 1000 --success-after 5",
                "A service that is back after five failures",
            ),
            (
                "backlog simulate --progressive --arrivals 1h --failure-rate 30%",
                "Records that come in for an hour, and every third attempt fails",
            ),
            (
                "backlog simulate --policy even --by-age --ids 4,7 --jsonl",
                "Each attempt of two records, as JSON",
            ),
            (
                "backlog simulate --from-table --progressive --for 30days",
                "What the pending records of the table will make of a schedule",
            ),
        ],
        exits: USUAL,
    },
    CommandHelp {
        command: "completions",
        examples: &[
            ("echo 'source <(backlog completions bash)' >> ~/.bashrc", "bash"),
            ("echo 'source <(backlog completions zsh)' >> ~/.zshrc", "zsh, below compinit"),
            ("echo 'backlog completions fish | source' >> ~/.config/fish/config.fish", "fish"),
        ],
        exits: &[DONE, FAILED, USAGE],
    },
];
