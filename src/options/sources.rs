//! The sources of options, and their layers merged for one queue: what is typed counts before `--set`,
//! that before the environment, and that before backlog.toml. All hold the same keys and values.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::environment::Environment;
use super::file::{File, layer};
use super::keys::{EXEC, FLAGS, POST, gone, is_of_the_file, long, variable};
use super::queue::{QueueOptions, Setting, location};
use super::schedule::simulated;
use super::table::{TableOptions, mapping};
use super::value::{CommandLine, text, truth};
use super::{
    DEFAULT_QUEUE, Handler, HandlerOptions, PassOptions, Queue, Schedule, ScheduleOptions,
};
use crate::exit::{ExitError, usage};
use crate::handlers::{Header, without_login};
use crate::record::one_line;
use crate::store;

/// What workers of queues usually do.
const PGMQ_POLICY: &str = "exponential:first=1s,base=2,max=60s,jitter=30%";
const PGMQ_ATTEMPTS: &str = "5";
/// The columns of a queue of pgmq are its own.
const NOT_OF_PGMQ: [&str; 6] =
    ["id", "status", "date_inserted", "failures", "last_failure", "last_error"];

/// The environment and backlog.toml.
pub struct Sources {
    pub environment: Environment,
    pub file: Option<File>,
}

/// What was typed, as far as it is about a queue.
#[derive(Default)]
pub struct TypedOptions {
    /// The options that were typed, as text.
    pub layer: Layers,
    /// The keys of the options that the subcommand knows.
    pub known: HashSet<&'static str>,
    /// The keys behind `--set`.
    pub set: Vec<Setting>,
    /// The name of the queue.
    pub name: Option<String>,
    pub config: Option<PathBuf>,
    /// The words behind `--`.
    pub handler: Vec<OsString>,
    /// The paths that were typed, by their keys: they need not be UTF-8.
    pub paths: HashMap<&'static str, PathBuf>,
    /// Whether the subcommand works on a table that is there.
    pub is_about_a_table: bool,
}

/// The options of one queue, all layers together.
pub struct Resolved<'a> {
    name: String,
    /// The values of all keys, and of those that the subcommand knows.
    all: Layers,
    layers: Layers,
    pub typed: &'a TypedOptions,
    pub sources: &'a Sources,
}

impl TypedOptions {
    /// The layer of `--set`. Several settings of one table make one, and several conditions narrow
    /// each other.
    fn set(&self) -> Result<Layers, ExitError> {
        let (mut all, mut conditions) = (Table::new(), Vec::new());
        for Setting { key, value, .. } in self.set.clone() {
            if key == "where" {
                conditions.push(text(value).map_err(|why| usage(format!("--set where: {why}")))?);
                continue;
            }
            match (all.get_mut(&key), value) {
                (Some(Value::Table(parts)), Value::Table(more)) => parts.extend(more),
                (_, value) => {
                    all.insert(key, value);
                }
            }
        }
        let layer = layer(all, None, Origin::Set);
        let mut layer = layer.map_err(|error| usage(format!("--set {error}")))?;
        layer.conditions = conditions;
        Ok(layer)
    }
}

impl Sources {
    pub fn find(config: Option<&Path>, environment: Environment) -> Result<Self, ExitError> {
        let file = File::find(config, &environment)?;
        Ok(Self { environment, file })
    }

    /// The names of all queues that are described.
    pub fn queues(&self) -> Result<Vec<String>, ExitError> {
        let file = self.file.as_ref().ok_or_else(|| {
            let places = self.environment.places();
            let places: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
            usage(format!("there is no backlog.toml with queues; looked for {}", places.join(", ")))
        })?;
        let queues: Vec<_> = file.queues().map(String::from).collect();
        if queues.is_empty() {
            return Err(usage(format!("{} describes no queue", file.path.display())));
        }
        Ok(queues)
    }

    /// The options for this queue, or for the one that is named elsewhere.
    pub fn resolve<'a>(
        &'a self,
        typed: &'a TypedOptions,
        queue: Option<&str>,
    ) -> Result<Resolved<'a>, ExitError> {
        let named = self.environment.typed_or(queue.or(typed.name.as_deref()), "queue")?;
        // A queue of pgmq has its name there already.
        let of_pgmq = self.environment.typed_or(typed.layer.text("pgmq"), "pgmq")?;
        let name = named.clone().or(of_pgmq).unwrap_or_else(|| DEFAULT_QUEUE.into());
        let described = match &self.file {
            Some(file) => file.layer(&name, named.is_some())?,
            None => Layers::default(),
        };
        let environment = self.environment.layer(&name)?;
        let mut layers = typed.layer.clone().over(typed.set()?).over(environment);
        let says_where = layers.says("db") || layers.says("table");
        let is_clear = named.is_some() || !typed.is_about_a_table || says_where;
        if let Some(file) = self.file.as_ref().filter(|_| !is_clear) {
            let names: Vec<_> = file.queues().collect();
            if !names.is_empty() && !names.contains(&DEFAULT_QUEUE) {
                let (path, names) = (file.path.display(), names.join(", "));
                return Err(usage(format!(
                    "no queue chosen: {path} describes {names}; use --queue"
                )));
            }
        }
        layers = layers.over(described);
        if layers.says("pgmq") {
            let mut usual = Layers::default();
            usual.insert("policy", Value::String(PGMQ_POLICY.into()), Origin::Usual);
            usual.insert("max_attempts", Value::String(PGMQ_ATTEMPTS.into()), Origin::Usual);
            layers = layers.over(usual);
        }
        let all = layers.clone();
        // Commands that show a queue look at this one as well.
        let is_known = |key: &str| typed.known.contains(key) || key == "exec_on_archive";
        layers.retain(|key| is_known(key) || is_of_the_file(key));
        Ok(Resolved { name, all, layers, typed, sources: self })
    }

    /// A queue that was named, if nothing is said of it anywhere: it tells a line from others and its
    /// handlers whose record they have, and that is all.
    pub fn mere_name(&self, typed: &TypedOptions) -> Option<String> {
        let named = self.environment.typed_or(typed.name.as_deref(), "queue").ok().flatten();
        named.filter(|name| self.file.is_none() && !self.environment.knows(name))
    }
}

impl Resolved<'_> {
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

    /// Where the records are, and what their table means.
    pub fn queue(&self) -> Result<Queue, ExitError> {
        let mut options: QueueOptions = self.read()?;
        options.db = self.path("db", options.db);
        options.state_dir = self.path("state_dir", options.state_dir);
        if options.pgmq.is_some() {
            if options.table.is_some() {
                return Err(usage("table and pgmq exclude each other: leave one out"));
            }
            if let Some(key) = self.not_of_pgmq() {
                return Err(usage(format!(
                    "a queue has its own columns and order: leave out {key}"
                )));
            }
        }
        let table: TableOptions = self.read()?;
        let mapping = mapping(table, options.table, self.layers.conditions.clone())?;
        let db = options.db.ok_or_else(|| {
            usage("no database: use --db FILE or --db postgres://..., BACKLOG_DB or backlog.toml")
        })?;
        let environment = &self.sources.environment;
        let db = location(db, options.pgmq.as_deref(), environment)?;
        let usual = || environment.state_dir().filter(|_| db.file().is_none());
        let exec = self.layers.get(EXEC).filter(|_| self.typed.handler.is_empty());
        let exec = exec.cloned().map(CommandLine::try_from).transpose();
        let exec = exec.map_err(|why| self.refusal_of(EXEC, &why))?;
        Ok(Queue {
            name: self.name.clone(),
            mapping,
            shard: options.shard,
            state_dir: options.state_dir.or_else(usual),
            db,
            exec: exec.map_or_else(Vec::new, |command| command.0),
            on_archive: self.read::<PassOptions>()?.on_archive.map(|command| command.0),
        })
    }

    /// A key that means nothing for a queue of pgmq, if one is there.
    fn not_of_pgmq(&self) -> Option<&'static str> {
        let is_said = |key: &&str| self.layers.says(key);
        let sets = |key: &str| self.layers.get(key).and_then(Value::as_table);
        let sets = |key| sets(key).is_some_and(|columns| !columns.is_empty());
        let said = [
            ("--shard", self.layers.says("shard")),
            ("--where", !self.layers.conditions.is_empty()),
            ("the columns of on_success", sets("on_success")),
            ("on_failure", sets("on_failure")),
            ("on_archive", sets("on_archive")),
        ];
        let besides = said.into_iter().find(|(_, is_said)| *is_said).map(|(key, _)| key);
        NOT_OF_PGMQ.into_iter().find(is_said).or(besides)
    }

    pub fn schedule(&self) -> Result<Option<Schedule>, ExitError> {
        Schedule::chosen(&self.read()?)
    }

    /// The schedules that a simulation compares; of policies as many as were typed.
    pub fn simulated(&self, typed: &[String]) -> Result<Vec<Schedule>, ExitError> {
        if typed.is_empty() {
            let options: ScheduleOptions = self.read()?;
            return simulated(&options, options.policy.as_slice());
        }
        // Several may be typed, which one schedule does not have.
        let mut layers = self.layers.clone();
        layers.retain(|key| key != "policy");
        let options = layers.read().map_err(|complaint| self.refusal(&complaint))?;
        simulated(&options, typed)
    }

    pub fn handler(&self, queue: &Queue) -> Result<Option<Handler>, ExitError> {
        let mut options: HandlerOptions = self.read()?;
        options.command = self.typed.handler.clone();
        options.ca_file = self.path("ca_file", options.ca_file);
        let says = |key: &str| self.layers.says(key);
        Handler::chosen(&options, says, queue, &self.sources.environment)
    }

    pub fn pass(&self) -> Result<PassOptions, ExitError> {
        let mut options: PassOptions = self.read()?;
        options.joblog = self.path("joblog", options.joblog);
        Ok(options)
    }

    /// What a pass would say of the options that were not typed.
    pub fn complaints(&self) -> Vec<String> {
        let layers = &self.all;
        let of_groups = [
            layers.complaints::<QueueOptions>(),
            layers.complaints::<TableOptions>(),
            layers.complaints::<ScheduleOptions>(),
            layers.complaints::<HandlerOptions>(),
            layers.complaints::<PassOptions>(),
        ];
        let shown = |Complaint { key, value, why, .. }| format!("{key}{value}: {why}");
        of_groups.into_iter().flatten().map(shown).collect()
    }

    fn refusal_of(&self, key: &str, why: &str) -> ExitError {
        let file = self.sources.file.as_ref();
        let file = file.map_or_else(String::new, |file| format!("{}: ", file.path.display()));
        usage(format!("{file}queue {}: {key}: {why}", self.name))
    }

    fn refusal(&self, complaint: &Complaint) -> ExitError {
        let Complaint { key, value, origin, why } = complaint;
        match origin {
            Origin::CommandLine => usage(format!("--{}{value}: {why}", long(key))),
            Origin::Set => usage(format!("--set {key}: {why}")),
            Origin::Environment => usage(format!("{}{value}: {why}", variable(&long(key)))),
            Origin::File | Origin::Usual => self.refusal_of(&format!("{key}{value}"), why),
        }
    }
}

/// The layer that a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The value that an option has where nothing is said.
    Usual,
    File,
    Environment,
    /// `--set`
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

/// A value that is none for its option.
pub struct Complaint {
    pub key: String,
    /// As TOML has it, with an equals sign before it; nothing where it may hold a password.
    pub value: String,
    pub origin: Origin,
    pub why: String,
}

impl Layers {
    pub fn insert(&mut self, key: impl Into<String>, value: Value, origin: Origin) {
        self.values.insert(key.into(), (value, origin));
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
    pub fn over(mut self, lower: Self) -> Self {
        let gone = gone(|key| self.says(key));
        for (key, (value, origin)) in lower.values {
            if gone.contains(&key.as_str()) {
                continue;
            }
            match (self.values.get_mut(&key), value) {
                (None, value) => self.insert(key, value, origin),
                // What is said of a column narrows what is said of the same.
                (Some((Value::Table(upper), _)), Value::Table(lower)) => {
                    for (name, value) in lower {
                        upper.entry(name).or_insert(value);
                    }
                }
                (Some(_), _) => {}
            }
        }
        self.conditions.splice(..0, lower.conditions);
        self
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
    pub fn read<Group: DeserializeOwned>(&self) -> Result<Group, Complaint> {
        let table: Table = self.iter().map(|(key, value, _)| (key.into(), value.clone())).collect();
        let whole = table.try_into::<Group>();
        whole.map_err(|error| {
            let first = self.complaints::<Group>().into_iter().next();
            first.unwrap_or_else(|| Complaint {
                key: String::new(),
                value: String::new(),
                origin: Origin::File,
                why: error.message().into(),
            })
        })
    }

    /// All values that are none for a group of options.
    pub fn complaints<Group: DeserializeOwned>(&self) -> Vec<Complaint> {
        let complaint = |(key, value, origin): (&str, &Value, Origin)| {
            let alone = Table::from_iter([(key.into(), value.clone())]);
            let why = alone.try_into::<Group>().err()?.message().to_string();
            Some(Complaint { key: key.into(), value: shown(key, value), origin, why })
        };
        self.iter().filter_map(complaint).collect()
    }

    /// What in it is for nobody else to read, if there is such a thing.
    pub fn credential(&self) -> Option<&'static str> {
        let has_password = |url: &str| store::is_url(url) && store::without_password(url) != url;
        let has_login = |url: &str| without_login(url) != url;
        if self.text("db").is_some_and(has_password) {
            return Some("a password in `db`");
        }
        if self.text(POST).is_some_and(has_login) {
            return Some("a login in `post`");
        }
        let is_credential = |line: &str| Header::parse(line).is_ok_and(|it| it.is_credential());
        let header = self.get("header")?;
        let lines = header.as_array().into_iter().flatten().chain([header]);
        let mut lines = lines.filter_map(Value::as_str).flat_map(str::lines);
        lines.any(is_credential).then_some("a credential in `header`")
    }
}

fn shown(key: &str, value: &Value) -> String {
    if ["db", "header", "post"].contains(&key) || value.is_array() || value.is_table() {
        return String::new();
    }
    format!(" = {}", one_line(&value.to_string()))
}

/// Whether a flag is turned off, whatever a layer below says.
fn is_off(key: &str, value: &Value) -> bool {
    FLAGS.contains(&key)
        && (value.as_bool() == Some(false) || value.as_str().and_then(truth) == Some(false))
}
