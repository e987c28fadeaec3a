//! The reference of the keys: what each takes, what counts where nothing is said, and an example. The
//! help of the options, the manual pages and docs/reference.md are made of it.

/// A key of backlog.toml, and of `--set`.
pub struct Key {
    pub name: &'static str,
    /// The values that are legal.
    pub takes: &'static str,
    /// What counts where nothing is said; empty if nothing does.
    pub default: &'static str,
    /// A legal value, as TOML has it.
    pub example: &'static str,
    /// What the key says, where that is not the help of an option of its name.
    pub text: Option<&'static str>,
    /// Whether it stands in backlog.toml and behind `--set` only. `--where` is no option of the same
    /// name: it narrows what the key says.
    pub is_of_the_file: bool,
}

impl Key {
    const fn new(
        name: &'static str,
        takes: &'static str,
        default: &'static str,
        example: &'static str,
    ) -> Self {
        Self { name, takes, default, example, text: None, is_of_the_file: false }
    }

    const fn of_the_file(self, text: &'static str) -> Self {
        Self { text: Some(text), is_of_the_file: true, ..self }
    }

    pub fn named(name: &str) -> Option<&'static Self> {
        SECTIONS.iter().flat_map(|(_, keys)| *keys).find(|key| key.name == name)
    }
}

const COUNT: &str = "number, from 1 to 1,024";
const DURATION: &str = "duration: 90s, 4m30s, 1h, 7days";
const SWITCH: &str = "true or false";
const COLUMNS: &str = "table of columns and what they are set to";

/// All keys, in sections.
pub const SECTIONS: [(&str, &[Key]); 6] = [
    (
        "Database and table",
        &[
            Key::new(
                "db",
                "path of a SQLite file, or postgres://user@host:port/database",
                "",
                "\"/srv/app/app.db\"",
            ),
            Key::new("table", "name of a table", "BACKLOG", "\"orders\""),
            Key::new("pgmq", "name of a queue of pgmq", "", "\"emails\""),
            Key::new("where", "SQL condition", "", "\"kind = 'mail'\"").of_the_file(
                "Rows for which the condition does not hold are not the queue's, and are never touched. \
                 The condition of a queue takes the place of that of [defaults]; one that is typed, or in \
                 the environment, narrows it.",
            ),
            Key::new("shard", "I/N, from 1/1 to 1024/1024", "", "\"1/2\""),
            Key::new(
                "state_dir",
                "path of a directory",
                "FILE.backlog; with a server ~/.local/state/backlog",
                "\"/var/lib/app/backlog\"",
            ),
        ],
    ),
    (
        "Mapping",
        &[
            Key::new("id", "column, or several", "ID", "[\"message_id\", \"user_id\"]").of_the_file(
                "The column that identifies a record: a unique integer, text or uuid. The values of \
                 several are shown and typed as 12,34.",
            ),
            Key::new(
                "status",
                "column; { column, new, error, success, archived }; or false",
                "STATUS",
                "{ column = \"state\", new = [2, 3], error = 1, success = 0 }",
            )
            .of_the_file(
                "The column of the status, and the values that mean NEW, ERROR, SUCCESS and ARCHIVED. \
                 Of several the first is written; \"{null}\" is NULL. `archived` may be left out: then nothing can be \
                 archived unless on_archive says how. `false` says that the table has none: a row is \
                 pending as long as `where` holds.",
            ),
            Key::new(
                "date_inserted",
                "column; { column or sql, format, zone }; or false",
                "DATE_INSERTED",
                "{ column = \"created\", format = \"epoch\" }",
            )
            .of_the_file(
                "The column of the insertion date. Without `format` (iso, compact, epoch, epoch-ms, \
                 epoch-us, epoch-ns, ticks, filetime, apple) each value is read as it looks, and never as \
                 one of the last three. `zone` is that of dates without one: \
                 UTC unless it says +02:00 or Europe/Berlin. In \
                 place of the column, `sql` is an expression over the columns of a row. `false` says that \
                 records have no date: then they go by their ids, and only a policy by count tells when \
                 they are due.",
            ),
            Key::new(
                "failures",
                "column; { column, counts }; or \"\" for none",
                "FAILURES, if there is one",
                "\"attempts\"",
            )
            .of_the_file(
                "The column that counts the failures of a record. With counts = \"attempts\" it counts the \
                 attempt that succeeds as well. One that holds something else is refused.",
            ),
            Key::new(
                "last_failure",
                "column; { column, format }; or \"\" for none",
                "LAST_FAILURE, if there is one",
                "\"updated_at\"",
            )
            .of_the_file(
                "The column with the date of the last failure. One that holds something else is refused. \
                 `format` is one of those of date_inserted, whose ticks, filetime and apple count here too.",
            ),
            Key::new(
                "last_error",
                "column; { column, max }; or \"\" for none",
                "LAST_ERROR, if there is one",
                "{ column = \"message\", max = 500 }",
            )
            .of_the_file(
                "The column with the error of the last failure. Of that at most so many characters are \
                 written as its type takes, or `max`.",
            ),
            Key::new("payload", "column", "", "\"body\"").of_the_file(
                "One column, byte by byte, as the handler's standard input or the webhook's body, in \
                 place of the whole record as JSON.",
            ),
            Key::new(
                "on_success",
                "table of columns and what they are set to, or \"delete\"",
                "",
                "{ sent_at = \"{now}\", error = \"{null}\" }",
            )
            .of_the_file(
                "Columns that a success sets besides the status: a constant, {now}, {null}, or {+1} for \
                 one more, {+60} for sixty. \"delete\" deletes the row instead.",
            ),
            Key::new(
                "on_failure",
                COLUMNS,
                "",
                "{ message = \"{error}\", tries = \"{+1}\" }",
            )
            .of_the_file(
                "Columns that a failure sets besides; {error} is its error. A column that is set to {next}, \
                 the next attempt by the policy, says from then on when a record is due: it is read as \
                 well, `retry` sets it to now, and a policy by count needs no last_failure.",
            ),
            Key::new("on_archive", COLUMNS, "", "{ failed_at = \"{now}\" }").of_the_file(
                "Columns that are set when a record is archived. Without a status column they must make \
                 `where` false.",
            ),
            Key::new("on_restore", COLUMNS, "", "{ failed_at = \"{null}\" }").of_the_file(
                "Columns that are set when an archived record is restored, or made due by `retry`. Without \
                 a status column they must make `where` true again.",
            ),
            Key::new("where_archived", "SQL condition", "", "\"failed_at IS NOT NULL\"").of_the_file(
                "Rows that are archived, among those for which `where` does not hold: so `status` and \
                 `list` show them, and `restore` brings them back. With a status column they have one of \
                 its values for NEW, ERROR or ARCHIVED.",
            ),
        ],
    ),
    (
        "Schedule",
        &[
            Key::new("ndays", "number of days", "", "7"),
            Key::new("min_ndays", "number of days", "0", "1"),
            Key::new("fibonacci", SWITCH, "false", "true"),
            Key::new(
                "policy",
                "policy with its parameters",
                "",
                "\"exponential:first=1m,base=2,max=1h\"",
            ),
            Key::new("progressive", "true, or tiers of age/interval", "false", "\"1d/5m,30d/1d,360d/8d\""),
            Key::new("by_age", SWITCH, "false", "true"),
            Key::new("every", DURATION, "1m; 5m with --progressive", "\"5m\""),
            Key::new("spread", "percentage", "100%; 0% with --fibonacci", "\"50%\""),
            Key::new(
                "max_attempts",
                "number, at least 1; or { column } with that of each record",
                "no limit; 5 with --pgmq",
                "20",
            ),
            Key::new("max_age", DURATION, "no limit", "\"30days\""),
        ],
    ),
    (
        "Pass",
        &[
            Key::new("jobs", COUNT, "1", "4"),
            Key::new("timeout", "duration: 90s, 4m30s, 1h; or none", "1h; 30s with --post", "\"30s\""),
            Key::new("grace", DURATION, "10s", "\"30s\""),
            Key::new("order", "newest or oldest", "newest", "\"oldest\""),
            Key::new("rate", "attempts in a second, minute or hour: 50/s, 100/m, 1000/h", "no limit", "\"50/s\""),
            Key::new("max_records", "number, at least 1", "no limit", "1000"),
            Key::new("max_runtime", DURATION, "no limit", "\"4m30s\""),
            Key::new("max_consecutive_failures", "number, at least 1", "no limit", "20"),
            Key::new("strict", SWITCH, "false", "true"),
            Key::new("joblog", "path of a file", "", "\"/var/log/backlog.jsonl\""),
            Key::new(
                "exec_on_archive",
                "command and arguments",
                "",
                "[\"/usr/local/bin/notify\", \"{id}\"]",
            ),
        ],
    ),
    (
        "Monitoring",
        &[
            Key::new(
                "ping",
                "URL, or { start, success, failure }",
                "",
                "\"https://hc-ping.com/0d0eca76\"",
            ),
            Key::new(
                "metrics",
                "path of a file",
                "",
                "\"/var/lib/prometheus/node-exporter/backlog.prom\"",
            ),
        ],
    ),
    (
        "Handler",
        &[
            Key::new(
                "exec",
                "command and arguments",
                "",
                "[\"/usr/local/bin/send-mail\", \"--id={id}\"]",
            )
            .of_the_file(
                "The handler, word by word. It is what stands behind -- on a command line. {column} in a \
                 word is replaced by the record's value, {id} by its id.",
            ),
            Key::new(
                "give_up_on",
                "exit codes, from 1 to 255; with post 4xx and HTTP statuses, from 300 to 599",
                "",
                "[65, 100]",
            ),
            Key::new("stream", SWITCH, "false", "true"),
            Key::new("window", COUNT, "64", "256"),
            Key::new("post", "URL", "", "\"https://example.com/orders/{id}\""),
            Key::new("header", "header, or several", "", "[\"X-Source: shop\"]"),
            Key::new("allow_hosts", "host, or several", "", "[\"*.example.com\"]"),
            Key::new("secret_column", "column", "", "\"webhook_secret\""),
            Key::new("idempotency_key", "text", "the table, the id, the date", "\"shop-eu/{id}\""),
            Key::new("ca_file", "path of a file", "those of the system", "\"/etc/ssl/intranet.pem\""),
        ],
    ),
];
