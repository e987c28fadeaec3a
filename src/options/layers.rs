//! The options of one queue, the layers of all sources merged: what is typed counts before `--set`,
//! that before the environment, and that before backlog.toml. All hold the same keys and values.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::path::PathBuf;

use backlog_schedule::{Shard, listed, one_line};
use backlog_store::ownership::{Kind, OwnerRule};
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::keys::{CHOICES, EXEC, FLAGS, POST, gone, is_of_the_file, key_of, long, variable};
use super::queue::{QueueOptions, Setting, TableOptions, location};
use super::schedule::{chosen_schedule, no_schedule, simulated};
use super::sources::{File, Sources, layer, require_queue_name};
use super::value::{CommandLine, truth};
use super::{
    DEFAULT_QUEUE, Handler, HandlerOptions, PassOptions, Queue, Schedule, ScheduleOptions,
};
use crate::exit::{ExitError, usage};
use crate::handlers::{Header, without_login};

/// What workers of queues usually do.
const PGMQ_POLICY: &str = "exponential:first=1s,base=2,max=60s,jitter=30%";
const PGMQ_ATTEMPTS: &str = "5";
/// The columns of a queue of pgmq are its own.
const NOT_OF_PGMQ: [&str; 6] =
    ["id", "status", "date_inserted", "failures", "last_failure", "last_error"];

#[derive(Default)]
pub struct TypedOptions {
    pub layer: Layers,
    /// The keys of the options that the subcommand knows.
    pub known: HashSet<&'static str>,
    pub set: Vec<Setting>,
    pub name: Option<String>,
    /// The words behind `--`.
    pub handler: Vec<OsString>,
    /// The paths that were typed, by their keys: they need not be UTF-8.
    pub paths: HashMap<&'static str, PathBuf>,
    /// Whether the subcommand takes --all-queues.
    pub may_be_about_all: bool,
    /// Whether it also works where none of several queues is chosen.
    pub may_be_about_none: bool,
}

/// The options of one queue, all layers together.
pub struct Resolved<'a> {
    name: String,
    /// Whether the queue was chosen by its name, or is one of backlog.toml: else there is only its table.
    pub is_named: bool,
    /// The values of all keys, and of those that the subcommand knows.
    all: Layers,
    layers: Layers,
    pub typed: &'a TypedOptions,
    pub sources: &'a Sources,
}

impl TypedOptions {
    /// The layer of `--set`. Several settings of one table make one.
    fn set(&self) -> Result<Layers, String> {
        let (mut raw, mut conditions) = (Layers::default(), Vec::new());
        for Setting { key, value, .. } in self.set.iter().cloned() {
            if key == "where" {
                conditions.push((key, value));
            } else {
                raw.insert(key, value, Origin::Set);
            }
        }
        let keys = raw.values.into_iter().map(|(key, (value, _))| (key, value));
        layer(keys.chain(conditions), None, Origin::Set)
    }
}

fn no_database() -> ExitError {
    usage("no database: use --db FILE or --db postgres://..., BACKLOG_DB or backlog.toml")
}

/// The only one of these queues.
fn only(queues: &[String]) -> Option<String> {
    if let [queue] = queues { Some(queue.clone()) } else { None }
}

impl Sources {
    /// The queues of backlog.toml, where nothing chooses one of them, or another table.
    pub fn undecided(&self, typed: &TypedOptions) -> Result<Option<Vec<String>>, ExitError> {
        let queues = self.file.iter().flat_map(File::queues).map(String::from);
        let queues: Vec<_> = queues.collect();
        let named = self.environment.typed_or(typed.name.as_deref(), "queue")?;
        if named.is_some() || queues.is_empty() {
            return Ok(None);
        }
        let set = typed.set().map_err(|why| usage(format!("--set {why}")))?;
        let environment = self.environment.layer(DEFAULT_QUEUE)?;
        let layers = typed.layer.clone().over(set).over(environment);
        let is_chosen = ["db", "table", "pgmq"].into_iter().any(|key| layers.says(key));
        Ok((!is_chosen).then_some(queues))
    }

    /// The options for this queue, or for the one that is named elsewhere.
    pub fn resolve<'a>(
        &'a self,
        typed: &'a TypedOptions,
        queue: Option<&str>,
    ) -> Result<Resolved<'a>, ExitError> {
        let named = self.environment.typed_or(queue.or(typed.name.as_deref()), "queue")?;
        named.as_deref().map_or(Ok(()), require_queue_name).map_err(usage)?;
        let undecided = if named.is_none() { self.undecided(typed)? } else { None };
        let undecided = undecided.unwrap_or_default();
        let named = named.or_else(|| only(&undecided));
        // A queue of pgmq has its name there already.
        let of_pgmq = self.environment.typed_or(typed.layer.text("pgmq"), "pgmq")?;
        let name = named.clone().or(of_pgmq).unwrap_or_else(|| DEFAULT_QUEUE.into());
        let described = self.file.as_ref().map(|file| file.layer(&name, named.is_some()));
        let described = described.transpose()?.unwrap_or_default();
        let environment = self.environment.layer(&name)?;
        let set = typed.set().map_err(|why| usage(format!("--set {why}")))?;
        let mut layers = typed.layer.clone().over(set).over(environment);
        if let (Some(file), None) = (&self.file, &named)
            && !undecided.is_empty()
            && !typed.may_be_about_none
            && !undecided.iter().any(|queue| queue == DEFAULT_QUEUE)
        {
            let queues = listed(undecided.iter().map(String::as_str));
            let describes = format!("{} describes {queues}", file.path.display());
            let all = if typed.may_be_about_all { " or --all-queues" } else { "" };
            return Err(usage(format!("no queue chosen: {describes}; use --queue{all}")));
        }
        layers = layers.over(described);
        if layers.says("pgmq") {
            let mut usual = Layers::default();
            usual.insert("policy", Value::from(PGMQ_POLICY), Origin::Usual);
            usual.insert("max_attempts", Value::from(PGMQ_ATTEMPTS), Origin::Usual);
            layers = layers.over(usual);
        }
        let all = layers.clone();
        // Commands that show a queue look at this one as well.
        let is_known = |key: &str| typed.known.contains(key) || key == "exec_on_archive";
        layers.retain(|key| is_known(key) || is_of_the_file(key));
        let is_named = named.is_some() || undecided.iter().any(|queue| queue == DEFAULT_QUEUE);
        Ok(Resolved { name, is_named, all, layers, typed, sources: self })
    }
}

impl Resolved<'_> {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of the queue, if it is not the usual one.
    pub fn named(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|name| *name != DEFAULT_QUEUE)
    }

    /// A group of options, as far as the subcommand knows them.
    pub fn read<Group: DeserializeOwned>(&self) -> Result<Group, ExitError> {
        self.layers.read().map_err(|complaint| self.refusal(&complaint))
    }

    /// A path as it was typed, or else as it was read.
    fn path(&self, key: &str, read: Option<PathBuf>) -> Option<PathBuf> {
        self.typed.paths.get(key).cloned().or(read)
    }

    pub fn queue(&self) -> Result<Queue, ExitError> {
        let options: QueueOptions = self.read()?;
        if options.pgmq.is_some() && self.layers.says("table") {
            return Err(usage("table and pgmq exclude each other: leave one out"));
        }
        if let Some(key) = options.pgmq.as_ref().and_then(|_| self.not_of_pgmq()) {
            return Err(usage(format!("a queue has its own columns and order: leave out {key}")));
        }
        let mut table = TableOptions::default();
        let complaints = self.layers.refused(|key, value| table.read(key, value));
        if let Some(complaint) = complaints.first() {
            return Err(self.refusal(complaint));
        }
        let mapping = table.mapping(self.layers.conditions.clone())?;
        let db = self.path("db", options.db).ok_or_else(no_database)?;
        let environment = &self.sources.environment;
        let db = location(db, options.pgmq.as_deref(), environment)?;
        let named = self.path("state_dir", options.state_dir);
        let usual = || environment.state_dir().filter(|_| db.file().is_none());
        let described = self.layers.get(EXEC).filter(|_| self.typed.handler.is_empty());
        let described =
            described.cloned().map(CommandLine::try_from).transpose().map_err(|why| {
                self.refusal(&Complaint { key: EXEC.into(), why, ..Complaint::default() })
            })?;
        let PassOptions { on_archive, .. } = self.read()?;
        Ok(Queue {
            name: self.name.clone(),
            mapping,
            shard: options.shard,
            names_state_dir: named.is_some() || db.file().is_some(),
            state_dir: named.or_else(usual),
            db,
            exec: described.map_or_else(|| self.typed.handler.clone(), |command| command.0),
            on_archive: on_archive.map(|command| command.0),
        })
    }

    /// What other users can change of what root is to work on, behind what each is about.
    pub fn complaints_of_owners(&self) -> Vec<(&'static str, String)> {
        let environment = &self.sources.environment;
        let path = |key| self.path(key, self.all.text(key).map(PathBuf::from));
        let db = path("db");
        let url = db.as_ref().and_then(|db| db.to_str()).filter(|db| backlog_store::is_url(db));
        let usual = || environment.state_dir().filter(|_| url.is_some());
        let file = db.as_ref().filter(|_| url.is_none()).map(|db| environment.directory.join(db));
        let beside = file.iter().flat_map(|file| backlog_store::kept_beside(file));
        let beside = beside.map(|path| ("database", Some(path), Kind::Directory));
        let text = |name: &str| environment.text(name);
        let certificates = url.into_iter().flat_map(|url| backlog_store::certificates(url, &text));
        let certificates = certificates.map(|path| ("database", Some(path), Kind::File));
        let config = self.sources.file.as_ref().map(|file| file.path.clone());
        let files = [
            ("config", config, Kind::Config),
            ("database", file.clone(), Kind::File),
            ("claims", path("state_dir").or_else(usual), Kind::Directory),
            ("joblog", path("joblog"), Kind::File),
            ("handler", path("ca_file"), Kind::File),
        ];
        let complaints =
            files.into_iter().chain(beside).chain(certificates).filter_map(
                |(about, path, kind)| Some((about, environment.complaint(&path?, kind)?)),
            );
        let mut complaints: Vec<_> = complaints.collect();
        complaints.dedup_by(|one, other| one.1 == other.1);
        complaints
    }

    /// Fails if root would work on what other users can change.
    pub fn require_trusted(self) -> Result<Self, ExitError> {
        let is_reported = self.sources.environment.rule == OwnerRule::Reported;
        let mut complaints = self.complaints_of_owners().into_iter().filter(|_| !is_reported);
        complaints.next().map_or(Ok(self), |(_, why)| Err(usage(why)))
    }

    /// What a pass needs that nothing says, all of it at once: where the records are, what is done
    /// with them, and when.
    pub fn require_all(&self, is_dry: bool) -> Result<(), ExitError> {
        let says = |keys: &[&str]| keys.iter().any(|key| self.layers.says(key));
        let missing = [
            (self.layers.says("db"), no_database()),
            (is_dry || says(&[EXEC, POST]), Handler::none()),
            (says(&CHOICES), no_schedule()),
        ];
        let missing = missing.into_iter().filter(|(is_there, _)| !is_there);
        let missing: Vec<_> = missing.map(|(_, error)| error.message).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let (missing, unused) = (missing.join("; "), self.unused_queues().unwrap_or_default());
        Err(usage(format!("{missing}{unused}{}", self.after_hyphens().unwrap_or_default())))
    }

    /// What is to be known where the option that is missing was written after the handler.
    fn after_hyphens(&self) -> Option<String> {
        let words = self.typed.handler.iter().filter_map(|word| word.to_str()?.strip_prefix("--"));
        let mut names = words.map(|word| word.split('=').next().unwrap_or_default());
        let is_needed = |key: &&str| *key == "db" || CHOICES.contains(key);
        let is_missing =
            |name: &&str| key_of(name).filter(is_needed).is_some_and(|key| !self.layers.says(key));
        let name = names.find(is_missing)?;
        Some(format!(
            "; --{name} comes after `--`, so it belongs to the handler: write it before `--`"
        ))
    }

    /// What is to be known where something is missing that backlog.toml may say: that another table is
    /// meant, so that none of its queues counts.
    fn unused_queues(&self) -> Option<String> {
        let file = self.sources.file.as_ref()?;
        let key = ["db", "table", "pgmq"].into_iter().find(|key| {
            let origin = self.layers.values.get(*key).map(|(_, origin)| origin);
            matches!(origin, Some(Origin::CommandLine | Origin::Set | Origin::Environment))
        })?;
        let is_unused = file.queues().next().is_some() && file.queues().all(|it| it != self.name);
        let (path, option) = (file.path.display(), long(key));
        is_unused.then(|| {
            format!("; with --{option} no queue of {path} counts, unless --queue names it")
        })
    }

    /// Fails unless cron's passes have this state directory as well. That of a server's database is a
    /// user's and a machine's, so it must be named where they find it.
    pub fn require_state_dir(&self, queue: &Queue) -> Result<(), ExitError> {
        let origin = self.layers.values.get("state_dir").map(|(_, origin)| origin);
        let why_not = match origin {
            _ if queue.db.file().is_some() => return Ok(()),
            Some(Origin::CommandLine | Origin::Set | Origin::File) => return Ok(()),
            Some(Origin::Environment) => {
                "; BACKLOG_STATE_DIR does not count, because cron's passes do not have it"
            }
            Some(Origin::Usual) | None => "",
        };
        Err(usage(format!(
            "a pause of a server's database is kept in the state directory, which each user has on \
             each machine: name that of the crontab lines with --state-dir, or as state_dir in \
             backlog.toml{why_not}"
        )))
    }

    /// The same where there is no database, without which nothing else can be looked at.
    pub fn require_database(&self, is_dry: bool) -> Result<(), ExitError> {
        if self.layers.says("db") { Ok(()) } else { self.require_all(is_dry) }
    }

    /// A key that means nothing for a queue of pgmq, if one is there.
    fn not_of_pgmq(&self) -> Option<&'static str> {
        let says = |key: &str| self.layers.says(key);
        let columns = |key: &str| self.layers.get(key).and_then(Value::as_table);
        let sets = |key| columns(key).is_some_and(|columns| !columns.is_empty());
        let besides = [
            ("--shard", says("shard")),
            ("--where", !self.layers.conditions.is_empty()),
            ("the columns of on_success", sets("on_success")),
            ("on_failure", sets("on_failure")),
            ("on_archive", sets("on_archive")),
            ("on_restore", sets("on_restore")),
            ("where_archived", says("where_archived")),
        ];
        let own = NOT_OF_PGMQ.map(|key| (key, says(key)));
        own.into_iter().chain(besides).find(|(_, is_said)| *is_said).map(|(key, _)| key)
    }

    pub fn schedule(&self) -> Result<Option<Schedule>, ExitError> {
        chosen_schedule(&self.read()?)
    }

    /// The schedule of the queue's passes for a subcommand that has no option for it, if it is configured.
    pub fn schedule_of_passes(&self) -> Option<Schedule> {
        chosen_schedule(&self.all.read().ok()?).ok().flatten()
    }

    /// The schedule that backlog.toml alone describes, and the conditions and the shard that narrow its
    /// records.
    pub fn described(&self) -> Option<(Schedule, Vec<String>, Option<Shard>)> {
        let layer = self.sources.file.as_ref()?.layer(&self.name, false).ok()?;
        let schedule = chosen_schedule(&layer.read().ok()?).ok()??;
        let shard = layer.read::<QueueOptions>().ok()?.shard;
        Some((schedule, layer.conditions, shard))
    }

    /// The schedules that a simulation compares; of policies as many as were typed.
    pub fn simulated(&self, typed: &[String]) -> Result<Vec<Schedule>, ExitError> {
        let mut layers = self.layers.clone();
        // Several may be typed, which one schedule does not have.
        layers.retain(|key| typed.is_empty() || key != "policy");
        let options: ScheduleOptions = layers.read().map_err(|why| self.refusal(&why))?;
        simulated(&options, if typed.is_empty() { options.policy.as_slice() } else { typed })
    }

    pub fn handler(&self, queue: &Queue) -> Result<Option<Handler>, ExitError> {
        let mut options: HandlerOptions = self.read()?;
        options.ca_file = self.path("ca_file", options.ca_file);
        Handler::chosen(&options, |key| self.layers.says(key), queue, &self.sources.environment)
    }

    pub fn pass(&self) -> Result<PassOptions, ExitError> {
        let read: PassOptions = self.read()?;
        let joblog = self.path("joblog", read.joblog);
        Ok(PassOptions { joblog, metrics: self.path("metrics", read.metrics), ..read })
    }

    /// What a pass would say of the options that were not typed.
    pub fn complaints(&self) -> Vec<String> {
        let of_groups = [
            self.all.complaints::<QueueOptions>(),
            self.all.refused(|key, value| TableOptions::default().read(key, value)),
            self.all.complaints::<ScheduleOptions>(),
            self.all.complaints::<HandlerOptions>(),
            self.all.complaints::<PassOptions>(),
        ];
        let shown = |Complaint { key, value, why, .. }| format!("{key}{value}: {why}");
        let ping = self.all.read::<PassOptions>().ok().and_then(|pass| pass.ping);
        let ping = ping.and_then(|ping| ping.check().err()).map(|why| format!("ping: {why}"));
        of_groups.into_iter().flatten().map(shown).chain(ping).collect()
    }

    fn refusal(&self, Complaint { key, value, origin, why }: &Complaint) -> ExitError {
        let file = self.sources.file.as_ref().map(|file| format!("{}: ", file.path.display()));
        let place = match origin {
            Origin::CommandLine => format!("--{}", long(key)),
            Origin::Set => return usage(format!("--set {key}: {why}")),
            Origin::Environment => variable(&long(key)),
            Origin::File | Origin::Usual => {
                format!("{}queue {}: {key}", file.unwrap_or_default(), self.name)
            }
        };
        usage(format!("{place}{value}: {why}"))
    }
}

/// The layer that a value comes from.
#[derive(Debug, Clone, Copy, Default)]
pub enum Origin {
    /// The value that an option has where nothing is said.
    Usual,
    #[default]
    File,
    Environment,
    Set,
    CommandLine,
}

/// The values of a queue's keys, and where each comes from.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    values: BTreeMap<String, (Value, Origin)>,
    /// Those of all layers, which narrow each other: the lowest layer's first.
    pub conditions: Vec<String>,
}

/// Keys whose values no message repeats.
const MAY_HOLD_A_PASSWORD: [&str; 4] = ["db", "header", "ping", "post"];

#[derive(Default)]
struct Complaint {
    key: String,
    /// As TOML has it, with an equals sign before it; nothing where it may hold a password.
    value: String,
    origin: Origin,
    why: String,
}

impl Layers {
    /// What is said of a column narrows what was said of the same.
    pub fn insert(&mut self, key: impl Into<String>, value: Value, origin: Origin) {
        let key = key.into();
        let value = match (self.values.remove(&key), value) {
            (Some((Value::Table(mut parts), _)), Value::Table(more)) => {
                parts.extend(more);
                Value::Table(parts)
            }
            (_, value) => value,
        };
        self.values.insert(key, (value, origin));
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key).map(|(value, _)| value)
    }

    /// Whether a key has a value, and is not turned off.
    pub fn says(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| !is_off(key, value))
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }

    /// The values that count where `self` goes before `lower`.
    pub fn over(self, mut lower: Self) -> Self {
        let gone = gone(|key| self.says(key), lower.says(EXEC));
        lower.retain(|key| !gone.contains(&key));
        for (key, (value, origin)) in self.values {
            lower.insert(key, value, origin);
        }
        lower.conditions.extend(self.conditions);
        lower
    }

    pub fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.values.retain(|key, _| is_wanted(key));
    }

    /// The keys that are not turned off, with their values and where each comes from.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value, Origin)> {
        let all = self.values.iter().map(|(key, (value, origin))| (key.as_str(), value, *origin));
        all.filter(|(key, value, _)| !is_off(key, value))
    }

    /// One group of options. The complaint is about the first value that is none.
    fn read<Group: DeserializeOwned>(&self) -> Result<Group, Complaint> {
        let table: Table = self.iter().map(|(key, value, _)| (key.into(), value.clone())).collect();
        table.try_into().map_err(|error| {
            let first = self.complaints::<Group>().into_iter().next();
            let why = error.message().into();
            first.unwrap_or_else(|| Complaint { why, ..Complaint::default() })
        })
    }

    /// All values that are none for a group of options.
    fn complaints<Group: DeserializeOwned>(&self) -> Vec<Complaint> {
        self.refused(|key, value| {
            let read = Table::from_iter([(key.into(), value)]).try_into::<Group>();
            read.map(drop).map_err(|error| error.message().into())
        })
    }

    /// The values that are none for who reads them.
    fn refused(&self, mut read: impl FnMut(&str, Value) -> Result<(), String>) -> Vec<Complaint> {
        let complaint = |(key, value, origin): (&str, &Value, Origin)| {
            let why = read(key, value.clone()).err()?;
            Some(Complaint { key: key.into(), value: shown(key, value), origin, why })
        };
        self.iter().filter_map(complaint).collect()
    }

    /// What in it is for nobody else to read, if there is such a thing.
    pub fn credential(&self) -> Option<&'static str> {
        if self.text("db").is_some_and(|it| {
            backlog_store::is_url(it) && backlog_store::without_password(it) != it
        }) {
            return Some("a password in `db`");
        }
        if self.text(POST).is_some_and(|url| without_login(url) != url) {
            return Some("a login in `post`");
        }
        if self.says("ping") {
            return Some("a URL in `ping`");
        }
        let is_credential = |line: &str| Header::parse(line).is_ok_and(|it| it.is_credential());
        let header = self.get("header")?;
        let lines = header.as_array().into_iter().flatten().chain([header]);
        let mut lines = lines.filter_map(Value::as_str).flat_map(str::lines);
        lines.any(is_credential).then_some("a credential in `header`")
    }
}

fn shown(key: &str, value: &Value) -> String {
    if MAY_HOLD_A_PASSWORD.contains(&key) || value.is_array() || value.is_table() {
        return String::new();
    }
    format!(" = {}", one_line(&value.to_string()))
}

/// Whether a flag is turned off, whatever a layer below says.
fn is_off(key: &str, value: &Value) -> bool {
    FLAGS.contains(&key)
        && (value.as_bool() == Some(false) || value.as_str().and_then(truth) == Some(false))
}
