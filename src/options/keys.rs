//! The table of keys: all settings of a queue, in groups.

use super::key::KeyKind::{Assignments, Column, Command, List, Optional, Path, Value};
use super::key::{EXEC, Key, KeyRole, POST};
use super::ping::Ping;
use super::settings::Settings;
use super::table::{COLUMNS_TO_SET, assignments};
use super::value::{
    age, at_least_one, command, days, days_above_zero, duration_up_to_a_year, give_up_on, handler,
    parse_percent, positive_duration, prune_after, replace, set, tiers, timeout, up_to_1024,
    whole_secs,
};

const UP_TO_1024: &str = "number, from 1 to 1,024";
const AT_LEAST_ONE: &str = "number, at least 1";
const DURATION: &str = "duration: 90s, 4m30s, 1h, 7days";
const COLUMN_VALUES: &str = "table of columns and their new values";

pub static KEYS: [(&str, &[Key]); 6] = [
    ("Table", TABLE),
    ("Mapping", MAPPING),
    ("Schedule", SCHEDULE),
    ("Pass", PASS),
    ("Monitoring", MONITORING),
    ("Handler", HANDLER),
];

pub const TABLE: &[Key] = &[
    Key::option("db", Path, "FILE|URL", |to, raw| set(&mut to.db, raw.into_path()), [
        "SQLite file, or postgres://user@host/database",
        "The variables of libpq (PGHOST, PGUSER, PGSSLMODE, ...) supply missing parts of the URL. Keep the \
         password in ~/.pgpass.",
    ])
    .takes("path of a SQLite file, or postgres://user@host:port/database", "\"/srv/app/app.db\"")
    .in_short_help()
    .secret(),
    Key::option("table", Value, "NAME", |to, raw| to.table.set_name(raw), ["Name of the table", ""])
        .takes("name of a table", "\"orders\"")
        .default_text("BACKLOG")
        .in_short_help(),
    Key::option("pgmq", Value, "QUEUE", |to, raw| set(&mut to.pgmq, raw.into_text()), [
        "Use a pgmq queue instead of a table",
        "pgmq is an extension of PostgreSQL, so --db must name a server.",
    ])
    .takes("name of a pgmq queue", "\"emails\""),
    Key::file_only(
        "where",
        Value,
        // Layers collect the conditions.
        |_, _| Ok(()),
        "SQL condition that the rows of the queue meet. Other rows are never changed. The condition of a \
         queue replaces the one in [defaults]. A condition on the command line or in the environment \
         narrows it further.",
    )
    .takes("SQL condition", "\"kind = 'mail'\""),
    Key::option("shard", Value, "I/N", |to, raw| set(&mut to.shard, raw.parse(str::parse)), [
        "Use only part I of N of the records",
        "Other crontab lines or machines process the other parts. The part of a record depends on its id.",
    ])
    .takes("I/N, from 1/1 to 1024/1024", "\"1/2\""),
    Key::option("state_dir", Path, "DIR", |to, raw| set(&mut to.state_dir, raw.into_path()), [
        "Directory for claims, cursors and the history of passes",
        "",
    ])
    .long_name("state-dir")
    .takes("path of a directory", "\"/var/lib/app/backlog\"")
    .default_text("FILE.backlog; with a server ~/.local/state/backlog"),
];

pub const MAPPING: &[Key] = &[
    Key::file_only(
        "id",
        List,
        |to, raw| to.table.set_id(raw),
        "Column that identifies a record: a unique integer, text or UUID. The values of several columns \
         are written as 12,34.",
    )
    .takes("column, or several", "[\"message_id\", \"user_id\"]")
    .default_text("ID"),
    Key::file_only(
        "status",
        Column(&["column", "new", "error", "success", "archived"]),
        |to, raw| to.table.set_status(raw),
        "Column of the status, and the values that mean NEW, ERROR, SUCCESS and ARCHIVED. If a status has \
         several values, the first is written. \"{null}\" is NULL. Without `archived`, records cannot be \
         archived unless on_archive is set. `false` means that the table has no status column: a row is \
         pending as long as it meets `where`.",
    )
    .takes(
        "column; { column, new, error, success, archived }; or false",
        "{ column = \"state\", new = [2, 3], error = 1, success = 0 }",
    )
    .default_text("STATUS"),
    Key::file_only(
        "date_inserted",
        Column(&["column", "sql", "format", "zone"]),
        |to, raw| to.table.set_date_inserted(raw),
        "Column of the insertion date. `format` is iso, compact, epoch, epoch-ms, epoch-us, epoch-ns, ticks, \
         filetime or apple. Without it, the format of each value is recognized, except for the last three. \
         `zone` applies to dates without a zone: UTC (the default), +02:00 or Europe/Berlin. `sql` is an \
         expression over the columns of a row, instead of a column. `false` means that records have no \
         date: they are ordered by id, and only a policy that counts failures can be used.",
    )
    .takes("column; { column or sql, format, zone }; or false", "{ column = \"created\", format = \"epoch\" }")
    .default_text("DATE_INSERTED"),
    Key::file_only(
        "failures",
        Column(&["column", "counts"]),
        |to, raw| to.table.set_failures(raw),
        "Column that counts the failures of a record. With counts = \"attempts\", it counts the successful \
         attempt too. A column with other content is refused.",
    )
    .takes("column; { column, counts }; or \"\" for none", "\"attempts\"")
    .default_text("FAILURES, if the table has it"),
    Key::file_only(
        "last_failure",
        Column(&["column", "format"]),
        |to, raw| to.table.set_last_failure(raw),
        "Column of the date of the last failure. A column with other content is refused. `format` takes the \
         formats of date_inserted. If date_inserted names ticks, filetime or apple, that format applies \
         here too.",
    )
    .takes("column; { column, format }; or \"\" for none", "\"updated_at\"")
    .default_text("LAST_FAILURE, if the table has it"),
    Key::file_only(
        "finished_at",
        Column(&["column", "format"]),
        |to, raw| to.table.set_finished_at(raw),
        "Column of the date at which a record was finished, such as one that on_success sets to {now}. `prune` \
         and prune_after use it for SUCCESS records, and for ARCHIVED records if on_archive sets it to {now} \
         (otherwise last_failure). If it names the column of date_inserted, that date counts for SUCCESS records only.",
    )
    .takes("column; { column, format }; or \"\" for none", "\"completed_at\""),
    Key::file_only(
        "last_error",
        Column(&["column", "max"]),
        |to, raw| to.table.set_last_error(raw),
        "Column of the error of the last failure. A longer error is cut to the length of the column's type, \
         or to `max` characters.",
    )
    .takes("column; { column, max }; or \"\" for none", "{ column = \"message\", max = 500 }")
    .default_text("LAST_ERROR, if the table has it"),
    Key::file_only(
        "payload",
        Value,
        |to, raw| set(&mut to.table.mapping.payload, raw.into_text()),
        "Column that is sent unchanged as the handler's standard input or the webhook's body, instead of the \
         whole record as JSON.",
    )
    .takes("column", "\"body\""),
    Key::file_only(
        "on_success",
        Assignments,
        |to, raw| to.table.set_on_success(raw),
        "Columns that a success sets in addition to the status. The new value is a constant, {now} or {null}; \
         {+1} adds one to the old value, {+60} adds sixty. \"delete\" deletes the row instead.",
    )
    .takes(
        "table of columns and their new values, or \"delete\"",
        "{ sent_at = \"{now}\", error = \"{null}\" }",
    ),
    Key::file_only(
        "on_failure",
        Assignments,
        |to, raw| replace(&mut to.table.mapping.on_failure, assignments(raw, COLUMNS_TO_SET)),
        "Columns that a failure sets in addition to the status; {error} is the text of the error. A column \
         set to {next}, the next attempt by the policy, also decides when the record is due. `retry` then \
         sets the column to now, and a policy that counts failures needs no last_failure.",
    )
    .takes(COLUMN_VALUES, "{ message = \"{error}\", tries = \"{+1}\" }"),
    Key::file_only(
        "on_archive",
        Assignments,
        |to, raw| to.table.set_on_archive(raw),
        "Columns that are set when a record is archived. Without a status column they must make `where` \
         false.",
    )
    .takes(COLUMN_VALUES, "{ failed_at = \"{now}\" }"),
    Key::file_only(
        "on_restore",
        Assignments,
        |to, raw| replace(&mut to.table.mapping.on_restore, assignments(raw, COLUMNS_TO_SET)),
        "Columns that are set when an archived record is restored, or when `retry` makes it due. Without a \
         status column they must make `where` true again.",
    )
    .takes(COLUMN_VALUES, "{ failed_at = \"{null}\" }"),
    Key::file_only(
        "where_archived",
        Value,
        |to, raw| set(&mut to.table.mapping.archived, raw.into_text()),
        "SQL condition that archived rows meet, while they do not meet `where`. `status` and `list` show \
         these rows, and `restore` brings them back. If there is a status column, they have one of its \
         values for NEW, ERROR or ARCHIVED.",
    )
    .takes("SQL condition", "\"failed_at IS NOT NULL\""),
    Key::file_only(
        "prune_after",
        Assignments,
        |to, raw| replace(&mut to.prune_after, prune_after(raw)),
        "Ages at which finished records are deleted. A pass deletes them after its work, at most once an hour, \
         for at most 10 s. `backlog prune` deletes all of them now. Without this key, passes delete no records.",
    )
    .takes("{ SUCCESS = duration, ARCHIVED = duration }, or one of them", "{ SUCCESS = \"30d\" }"),
];

pub const SCHEDULE: &[Key] = &[
    Key::option("ndays", Value, "N", |to, raw| set(&mut to.ndays, raw.parse(days_above_zero)), [
        "Try records of the last N days",
        "A day is 86,400 seconds, and N may be a fraction. Cron decides how often: use one crontab line for \
         each range of ages, each with its own frequency. Needs no column.",
    ])
    .takes("number of days", "7")
    .role(KeyRole::Schedule)
    .in_short_help(),
    Key::option("min_ndays", Value, "M", |to, raw| set(&mut to.min_ndays, raw.parse(days)), [
        "With --ndays: skip records of the last M days",
        "Another crontab line tries those.",
    ])
    .long_name("min-ndays")
    .takes("number of days", "1")
    .default_text("0")
    .role(KeyRole::ScheduleDetail),
    Key::flag("fibonacci", |to, raw| replace(&mut to.fibonacci, raw.into_bool()), [
        "Wait Fibonacci(f) minutes after f failures",
        "Needs the columns FAILURES and LAST_FAILURE. This is --policy fibonacci:unit=1m,spread=0%.",
    ])
    .role(KeyRole::Schedule)
    .in_short_help(),
    Key::option("policy", Value, "SPEC", |to, raw| replace(&mut to.policies, raw.into_texts()), [
        "Back off according to a policy, such as even",
        "Needs the columns FAILURES and LAST_FAILURE, or --by-age. The policies are constant, fibonacci, \
         exponential, linear, arithmetic, geometric, even, sidekiq, buckets, list and sns. Parameters follow \
         a colon: exponential:first=1m,base=2,max=1h. `backlog simulate` draws the load of a policy, or \
         compares several.",
    ])
    .takes("policy with its parameters", "\"exponential:first=1m,base=2,max=1h\"")
    .role(KeyRole::Schedule)
    .in_short_help(),
    Key::option("progressive", Optional, "TIERS", |to, raw| set(&mut to.progressive, tiers(raw)), [
        "Try older records less often",
        "Needs no column, and only one crontab line. TIERS are pairs of maximum age and interval, by default \
         1d/5m,7d/1h,14d/12h,30d/24h,180d/96h,360d/192h. Each record has its own place in each interval, so \
         the load of many old records is even.",
    ])
    .takes("true, or tiers of age/interval", "\"1d/5m,30d/1d,360d/8d\"")
    .default_text("false")
    .role(KeyRole::Schedule)
    .in_short_help(),
    Key::flag("by_age", |to, raw| replace(&mut to.by_age, raw.into_bool()), [
        "With --policy: use the age instead of the failures",
        "The policy then needs no column.",
    ])
    .long_name("by-age")
    .role(KeyRole::ScheduleDetail),
    Key::option("every", Value, "DURATION", |to, raw| set(&mut to.every, raw.parse(whole_secs)), [
        "Interval at which cron starts the line",
        "Delays are counted in ticks of this length, so a pass that starts a little early misses no record.",
    ])
    .takes(DURATION, "\"5m\"")
    .default_text("1m; 5m with --progressive")
    .role(KeyRole::ScheduleDetail),
    Key::option("spread", Value, "PERCENT", |to, raw| set(&mut to.spread, raw.parse(parse_percent)), [
        "Spread of the retries of records that failed together",
        "At 0%, the retries stay together. At 100%, they fill the time between two delays of the policy \
         evenly. The spread is not random: it depends on the ids of the records.",
    ])
    .takes("percentage", "\"50%\"")
    .default_text("100%; 0% with --fibonacci")
    .role(KeyRole::ScheduleDetail),
    Key::option("max_attempts", Value, "N", Settings::set_max_attempts, [
        "Archive a record when its N-th attempt fails",
        "Needs the column FAILURES. In the environment, MAX_EMAILS_RETRY_ATTEMPTS is the limit of the queue \
         emails.",
    ])
    .long_name("max-attempts")
    .takes("number, at least 1; or { column } with the limit of each record", "20")
    .default_text("no limit; 5 with --pgmq")
    .in_short_help(),
    Key::option("max_age", Value, "DURATION", |to, raw| set(&mut to.max_age, raw.parse(age)), [
        "Archive a failed record that is older than this",
        "The record gets no further attempt. A NEW record is tried once first.",
    ])
    .long_name("max-age")
    .takes(DURATION, "\"30days\"")
    .default_text("no limit"),
];

pub const PASS: &[Key] = &[
    Key::option("jobs", Value, "N", |to, raw| replace(&mut to.jobs, raw.parse(up_to_1024)), [
        "Number of handlers to run in parallel",
        "With --stream, the number of processes, each with its own --window.",
    ])
    .takes(UP_TO_1024, "4")
    .default("1")
    .short_name('j')
    .in_short_help(),
    Key::option("timeout", Value, "DURATION", |to, raw| set(&mut to.timeout, raw.parse(timeout)), [
        "Time limit of a handler; exceeding it is a failure",
        "With --stream, how long a process that has records may be silent. With --post, how long the whole \
         exchange may take. `none` sets no limit.",
    ])
    .takes("duration: 90s, 4m30s, 1h; or none", "\"30s\"")
    .default_text("1h; 30s with --post")
    .in_short_help(),
    Key::option("grace", Value, "DURATION", |to, raw| replace(&mut to.grace, raw.parse(duration_up_to_a_year)), [
        "Time for running handlers to finish when a pass stops",
        "After that they get SIGTERM, and SIGKILL a second later. This is also the time between SIGTERM and \
         SIGKILL after --timeout.",
    ])
    .takes(DURATION, "\"30s\"")
    .default("10s"),
    Key::option("order", Value, "ORDER", Settings::set_order, [
        "Order of the records: newest, oldest, or by a column",
        "\"priority desc\" begins with the greatest value of the column priority, \"priority asc\" with the least; \
         records with the same value come in the order of their ids. `check` prints an index for it.",
    ])
    .takes("newest, oldest, \"COLUMN asc\" or \"COLUMN desc\"", "\"priority desc\"")
    .default("newest"),
    Key::option("rate", Value, "RATE", |to, raw| set(&mut to.rate, raw.parse(str::parse)), [
        "Maximum rate of attempts: 50/s, 100/m, 1000/h",
        "",
    ])
    .takes("attempts in a second, minute or hour: 50/s, 100/m, 1000/h", "\"50/s\"")
    .default_text("no limit"),
    Key::option("max_records", Value, "N", |to, raw| set(&mut to.max_records, raw.parse(at_least_one)), [
        "Stop after N attempts",
        "The next pass continues with the records after them, so a block of failing records does not keep \
         the others from being tried.",
    ])
    .long_name("max-records")
    .takes(AT_LEAST_ONE, "1000")
    .default_text("no limit"),
    Key::option("max_runtime", Value, "DURATION", |to, raw| set(&mut to.max_runtime, raw.parse(positive_duration)), [
        "Stop after this time",
        "No more handlers are started. Running ones get --grace to finish.",
    ])
    .long_name("max-runtime")
    .takes(DURATION, "\"4m30s\"")
    .default_text("no limit"),
    Key::option(
        "max_consecutive_failures",
        Value,
        "N",
        |to, raw| set(&mut to.max_consecutive_failures, raw.parse(at_least_one)),
        [
            "Stop after N failures in a row",
            "The service is then considered down, and the other records are left for a later pass.",
        ],
    )
    .long_name("max-consecutive-failures")
    .takes(AT_LEAST_ONE, "20")
    .default_text("no limit"),
    Key::flag("strict", |to, raw| replace(&mut to.strict, raw.into_bool()), [
        "Exit 1 if any record failed or was snoozed",
        "Without it, a pass fails only if a record was archived or could not be handled.",
    ]),
    Key::option("joblog", Path, "FILE", |to, raw| set(&mut to.joblog, raw.into_path()), [
        "Append a line of JSON for each attempt",
        "",
    ])
    .takes("path of a file", "\"/var/log/backlog.jsonl\""),
    Key::option("exec_on_archive", Command, "COMMAND", |to, raw| set(&mut to.on_archive, command(raw)), [
        "Run a command for each record that is archived",
        "It gets the input of a handler, with BACKLOG_STATUS=ARCHIVED.",
    ])
    .long_name("on-archive")
    .takes("command and arguments", "[\"/usr/local/bin/notify\", \"{id}\"]"),
];

pub const MONITORING: &[Key] = &[
    Key::option("ping", Value, "URL", |to, raw| set(&mut to.ping, Ping::parse(raw)), [
        "Report each pass to a service such as healthchecks.io",
        "The pass requests URL/start when it begins, and URL/EXIT when it ends; EXIT is its exit status. \
         {line} in the URL is replaced by the name of the crontab line. The URL is a secret: set it in \
         backlog.toml or in the environment, because every user of the machine can read a command line.",
    ])
    .takes("URL, or { start, success, failure }", "\"https://hc-ping.com/0d0eca76\"")
    .secret(),
    Key::option("metrics", Path, "FILE", |to, raw| set(&mut to.metrics, raw.into_path()), [
        "Write figures of the pass for Prometheus",
        "The file is for the textfile collector of node_exporter. Crontab lines may share it.",
    ])
    .takes("path of a file", "\"/var/lib/prometheus/node-exporter/backlog.prom\""),
];

pub const HANDLER: &[Key] = &[
    Key::file_only(
        EXEC,
        Command,
        |to, raw| replace(&mut to.exec, handler(raw)),
        "The handler: a command and its arguments, as after -- on a command line. {column} in an argument \
         is replaced by the value of that column, and {id} by the id.",
    )
    .takes("command and arguments", "[\"/usr/local/bin/send-mail\", \"--id={id}\"]")
    .role(KeyRole::Command),
    Key::option("give_up_on", List, "CODE,...", |to, raw| replace(&mut to.give_up_on, give_up_on(raw)), [
        "Exit codes or HTTP statuses that archive a record immediately",
        "A command has exit codes: 65,100. With --post, use HTTP statuses from 300 to 599, which apply even \
         with a Retry-After, or 4xx, which excludes 407, 408, 425 and 429: 4xx,503.",
    ])
    .long_name("give-up-on")
    .takes("exit codes, from 1 to 255; with post 4xx and HTTP statuses, from 300 to 599", "[65, 100]")
    .role(KeyRole::GiveUpOn),
    Key::flag("stream", |to, raw| replace(&mut to.stream, raw.into_bool()), [
        "Start the command once for many records",
        "It reads a line of JSON for each record, and answers with a line of JSON. This saves starting a \
         process for each record.",
    ])
    .role(KeyRole::Command)
    .in_short_help(),
    Key::option("window", Value, "N", |to, raw| replace(&mut to.window, raw.parse(up_to_1024)), [
        "With --stream: maximum number of unanswered records per process",
        "",
    ])
    .takes(UP_TO_1024, "256")
    .default("64")
    .role(KeyRole::Command),
    Key::option(POST, Value, "URL", |to, raw| set(&mut to.post, raw.into_text()), [
        "Send each record to a webhook",
        "{column} in the URL is replaced by the value of that column, percent-encoded. If the environment \
         variable BACKLOG_WEBHOOK_SECRET is set, requests are signed with that secret.",
    ])
    .takes("URL", "\"https://example.com/orders/{id}\"")
    .role(KeyRole::Webhook)
    .in_short_help()
    .secret(),
    Key::option("header", List, "HEADER", |to, raw| replace(&mut to.header, raw.into_texts()), [
        "With --post: add a header to requests; repeatable",
        "Set tokens in backlog.toml or in the environment, because every user of the machine can read a \
         command line. The variable has one header on each line.",
    ])
    .takes("header, or several", "[\"X-Source: shop\"]")
    .role(KeyRole::Webhook)
    .secret(),
    Key::option("allow_hosts", List, "HOST", |to, raw| replace(&mut to.allow_hosts, raw.into_texts()), [
        "With --post: allow a host that a column names; repeatable",
        "*.example.com allows all subdomains of example.com. Without a list, a column may name any host of \
         the public internet, and no credentials are sent there.",
    ])
    .long_name("allow-host")
    .takes("host, or several", "[\"*.example.com\"]")
    .role(KeyRole::Webhook),
    Key::option("secret_column", Value, "COLUMN", |to, raw| set(&mut to.secret_column, raw.into_text()), [
        "With --post: column with the secret of each record",
        "Requests are signed with that secret instead of BACKLOG_WEBHOOK_SECRET. The secret is not sent.",
    ])
    .long_name("secret-column")
    .takes("column", "\"webhook_secret\"")
    .role(KeyRole::Webhook),
    Key::option("idempotency_key", Value, "KEY", |to, raw| set(&mut to.idempotency_key, raw.into_text()), [
        "With --post: Idempotency-Key of all attempts of a record",
        "{column} is replaced by the value of that column. An empty key omits the header. By default, the key \
         consists of the table, the id and the insertion date, and changes after each response that is not a \
         success. webhook-id is the same key. If several databases share a receiver, give them different \
         keys: shop-eu/{id}.",
    ])
    .long_name("idempotency-key")
    .takes("text", "\"shop-eu/{id}\"")
    .default_text("the table, the id, the date")
    .role(KeyRole::Webhook),
    Key::option("ca_file", Path, "FILE", |to, raw| set(&mut to.ca_file, raw.into_path()), [
        "With --post: PEM file of trusted certificate authorities",
        "",
    ])
    .long_name("ca-file")
    .takes("path of a file", "\"/etc/ssl/intranet.pem\"")
    .default_text("the authorities of the system")
    .role(KeyRole::Webhook),
];

impl Key {
    /// The heading of the key in the help.
    pub fn group(&self) -> &'static str {
        let has_key = |keys: &[Self]| keys.iter().any(|key| key.name == self.name);
        KEYS.iter().find(|(_, keys)| has_key(keys)).map_or("Options", |(name, _)| name)
    }

    pub fn named(name: &str) -> Option<&'static Self> {
        all().find(|key| key.name == name)
    }

    pub fn by_long_name(long: &str) -> Option<&'static Self> {
        all().find(|key| key.is_option && key.long == long)
    }
}

pub fn all() -> impl Iterator<Item = &'static Key> {
    KEYS.iter().flat_map(|(_, keys)| *keys)
}

pub fn require(name: &str) -> Result<&'static Key, String> {
    Key::named(name).ok_or_else(|| {
        let key = Key::by_long_name(&name.replace('_', "-"));
        let hint = key.map_or_else(String::new, |key| format!("; write it as {}", key.name));
        format!("no key {name:?}{hint}; `backlog help backlog.toml` lists all keys")
    })
}
