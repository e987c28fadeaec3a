//! The options of one queue. Order of precedence: command line, `--set`, environment, backlog.toml.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use backlog_schedule::{Schedule, Shard, listed};
use backlog_store::ownership::{OwnerRule, PathKind};
use backlog_store::{certificates, is_url, side_files, without_password};

use super::environment::{Environment, attempts_variable};
use super::file::{File, require_queue_name};
use super::key::{EXEC, Key, KeyRole, POST};
use super::keys::MAPPING;
use super::layers::{Layers, Origin};
use super::queue::{Queue, location};
use super::raw::Raw;
use super::schedule::{no_schedule, schedule_from};
use super::settings::Settings;
use super::toml_layer::{Setting, layer};
use super::{DEFAULT_QUEUE, HandlerSpec, no_handler};
use crate::exit::{ExitError, usage};

/// The sources of options other than the command line.
pub struct Sources {
    pub environment: Environment,
    pub file: Option<File>,
}

#[derive(Default)]
pub struct TypedOptions {
    pub layer: Layers,
    /// The names of the keys that are options of the subcommand.
    pub known: HashSet<&'static str>,
    pub set: Vec<Setting>,
    pub name: Option<String>,
    pub takes_all_queues: bool,
    /// The command works although none of several queues is chosen.
    pub works_without_queue: bool,
    /// The command tries the records that it names, due or not.
    pub works_without_schedule: bool,
}

pub struct Resolved<'a> {
    name: String,
    /// True if a queue was named, or is the only one in the file.
    pub is_named: bool,
    /// The options of the queue's passes.
    pass_layers: Layers,
    /// The options that the subcommand knows.
    layers: Layers,
    pub settings: Settings,
    /// Errors in values. The fields of `settings` for them are not set.
    pub errors: Vec<String>,
    pub typed: &'a TypedOptions,
    pub sources: &'a Sources,
}

impl TypedOptions {
    fn set(&self) -> Result<Layers, ExitError> {
        let settings = self.set.iter().map(|set| (set.key.clone(), set.value.clone()));
        layer(settings, None, Origin::Set).map_err(|why| usage(format!("--set {why}")))
    }
}

fn no_database() -> ExitError {
    usage("no database: use --db FILE or --db postgres://..., BACKLOG_DB or backlog.toml")
}

fn chooses_table(key: &Key) -> bool {
    ["db", "table", "pgmq"].contains(&key.name)
}

fn default_file(environment: &Environment) -> Option<PathBuf> {
    let exists = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
    let default = || environment.default_files().into_iter().find(exists);
    environment.path("BACKLOG_CONFIG").or_else(default)
}

/// Options as text behind a subcommand: ` --queue orders`.
fn options(options: impl Iterator<Item = (&'static str, String)>) -> String {
    let quoted = options.map(|(long, value)| {
        let value = shlex::try_quote(&value).map_or_else(|_| value.clone(), String::from);
        format!(" --{long} {value}")
    });
    quoted.collect()
}

/// The defaults of a pgmq queue, as in other workers for pgmq.
fn pgmq_defaults() -> Layers {
    let values =
        [("policy", "exponential:first=1s,base=2,max=60s,jitter=30%"), ("max_attempts", "5")];
    let mut layers = Layers::default();
    for (name, value) in values {
        if let Some(key) = Key::named(name) {
            layers.insert(key, Raw::from(value), Origin::Default);
        }
    }
    layers
}

impl Sources {
    /// The option ` --config FILE` for a printed command, if the file is not the default one.
    pub fn choice(&self) -> String {
        // `adopt` checks a file that does not exist yet.
        let named = self.file.as_ref().map(|file| &file.path).filter(|path| path.exists());
        let named = named.filter(|path| default_file(&self.environment).as_ref() != Some(path));
        options(named.map(|path| ("config", path.display().to_string())).into_iter())
    }

    pub fn find(config: Option<&Path>, environment: Environment) -> Result<Self, ExitError> {
        let named = config.map(|path| environment.directory.join(path));
        let named = named.or_else(|| environment.path("BACKLOG_CONFIG"));
        let is_named = named.is_some();
        let path = named.or_else(|| default_file(&environment));
        if let Some(path) = &path {
            environment.require_trusted(path, PathKind::Config)?;
        }
        Ok(Self { file: path.map(|path| File::read(path, is_named)).transpose()?, environment })
    }

    /// The names of the queues of backlog.toml. Fails if there are none.
    pub fn queues(&self) -> Result<Vec<String>, ExitError> {
        let file = self.file.as_ref().ok_or_else(|| {
            let files = self.environment.default_files();
            let files: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
            usage(format!("there is no backlog.toml with queues; looked for {}", files.join(", ")))
        })?;
        let queues: Vec<_> = file.queues().map(String::from).collect();
        if queues.is_empty() {
            return Err(usage(format!("{} describes no queue", file.path.display())));
        }
        Ok(queues)
    }

    /// The name of a queue without a description, which only distinguishes its crontab line from others.
    pub fn undescribed_name(&self, typed: Option<&str>) -> Option<String> {
        let named = self.environment.typed_or(typed, "queue").ok().flatten();
        let is_described = |name: &str| self.environment.raw(&attempts_variable(name)).is_some();
        named.filter(|name| self.file.is_none() && !is_described(name))
    }

    /// The queues to choose from, if neither a queue nor a table is chosen.
    pub fn open_choice(&self, typed: &TypedOptions) -> Result<Option<Vec<String>>, ExitError> {
        let queues = self.file.iter().flat_map(File::queues).map(String::from);
        let queues: Vec<_> = queues.collect();
        let named = self.environment.typed_or(typed.name.as_deref(), "queue")?;
        if named.is_some() || queues.is_empty() {
            return Ok(None);
        }
        let environment = self.environment.layer(DEFAULT_QUEUE)?;
        let layers = typed.layer.clone().over(typed.set()?).over(environment);
        Ok((!layers.has_any(chooses_table)).then_some(queues))
    }

    /// Returns the options of `queue`, or else of the queue that the command line or the environment names.
    pub fn resolve<'a>(
        &'a self,
        typed: &'a TypedOptions,
        queue: Option<&str>,
    ) -> Result<Resolved<'a>, ExitError> {
        let named = self.environment.typed_or(queue.or(typed.name.as_deref()), "queue")?;
        named.as_deref().map_or(Ok(()), require_queue_name).map_err(usage)?;
        let choices = if named.is_none() { self.open_choice(typed)? } else { None };
        let choices = choices.unwrap_or_default();
        let only = if let [queue] = &choices[..] { Some(queue.clone()) } else { None };
        let named = named.or(only);
        let pgmq = self.environment.typed_or(typed.layer.text("pgmq"), "pgmq")?;
        let pgmq = pgmq.filter(|name| require_queue_name(name).is_ok());
        let name = named.clone().or(pgmq).unwrap_or_else(|| DEFAULT_QUEUE.into());
        let described = self.file.as_ref().map(|file| file.layer(&name, named.is_some()));
        let described = described.transpose()?.unwrap_or_default();
        if typed.layer.has_two_handlers() {
            return Err(usage("--post and a command are two handlers: choose one"));
        }
        if let Some(db) = typed.layer.text("db")
            && self.file.iter().flat_map(File::queues).any(|queue| queue == db)
            && !self.environment.directory.join(db).exists()
        {
            return Err(usage(format!("{db} is a queue, not a database: use --queue {db}")));
        }
        let layers = typed.layer.clone().over(typed.set()?).over(self.environment.layer(&name)?);
        let is_named = named.is_some() || choices.iter().any(|queue| queue == DEFAULT_QUEUE);
        if !is_named && !choices.is_empty() && !typed.works_without_queue {
            return Err(self.no_queue(&choices, typed));
        }
        let mut layers = layers.over(described);
        if layers.has("pgmq") {
            layers = layers.over(pgmq_defaults());
        }
        let pass_layers = layers.clone();
        // Commands that show a queue use exec_on_archive as well.
        layers.retain(|key| {
            typed.known.contains(key.name) || !key.is_option || key.name == "exec_on_archive"
        });
        let file = self.file.as_ref().map(|file| format!("{}: ", file.path.display()));
        let prefix = format!("{}queue {name}: ", file.unwrap_or_default());
        let (settings, errors) = layers.settings(&prefix);
        Ok(Resolved { name, is_named, pass_layers, layers, settings, errors, typed, sources: self })
    }

    fn no_queue(&self, queues: &[String], typed: &TypedOptions) -> ExitError {
        let file = self.file.iter().map(|file| file.path.display().to_string());
        let (file, queues) = (file.collect::<String>(), listed(queues.iter().map(String::as_str)));
        let all = if typed.takes_all_queues { " or --all-queues" } else { "" };
        usage(format!("no queue chosen: {file} describes {queues}; use --queue{all}"))
    }
}

impl Resolved<'_> {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn named(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|name| *name != DEFAULT_QUEUE)
    }

    /// The options that choose this queue in a printed command: ` --queue orders`, or nothing.
    pub fn choice(&self) -> String {
        let has_table = self.typed.layer.has_any(chooses_table);
        let is_only = !has_table && self.sources.queues().is_ok_and(|queues| queues.len() == 1);
        let name = self.named().filter(|_| self.is_named && !is_only);
        let typed = self.typed.layer.iter().filter(|(key, ..)| chooses_table(key));
        let typed = typed.filter_map(|(key, raw, _)| Some((key.long, raw.as_str()?)));
        let chosen = name.map(|name| ("queue", name)).into_iter().chain(typed);
        self.sources.choice()
            + &options(chosen.map(|(long, value)| (long, without_password(value))))
    }

    pub fn queue(&self) -> Result<Queue, ExitError> {
        let Self { settings, sources, .. } = self;
        if settings.pgmq.is_some() && self.layers.has("table") {
            return Err(usage("--table and --pgmq cannot be combined: leave one out"));
        }
        if let Some(key) = settings.pgmq.as_ref().and_then(|_| self.illegal_for_pgmq()) {
            return Err(usage(format!(
                "a pgmq queue has its own columns and order: leave out {key}"
            )));
        }
        let mapping = settings.table.clone().mapping(self.layers.conditions.clone())?;
        let db = settings.db.clone().ok_or_else(no_database)?;
        let db = location(db, settings.pgmq.as_deref(), &sources.environment)?;
        let default = || sources.environment.state_dir().filter(|_| db.file().is_none());
        Ok(Queue {
            name: self.name.clone(),
            mapping,
            shard: settings.shard,
            has_own_state_dir: settings.state_dir.is_some() || db.file().is_some(),
            state_dir: settings.state_dir.clone().or_else(default),
            on_archive: settings.on_archive.clone(),
            prune_after: settings.prune_after.clone(),
            db,
        })
    }

    pub fn unknown_limits(&self) -> Vec<String> {
        let Ok(mut queues) = self.sources.queues() else { return Vec::new() };
        if !queues.contains(&self.name) {
            queues.push(self.name.clone());
        }
        self.sources.environment.unknown_limits(&queues)
    }

    /// For root: complaints about files that other users can change, each with the part of the queue it is in.
    pub fn ownership_complaints(&self) -> Vec<(&'static str, String)> {
        let environment = &self.sources.environment;
        let path = |key| self.pass_layers.path(key);
        let db = path("db");
        let url = db.as_ref().and_then(|db| db.to_str()).filter(|db| is_url(db));
        let default = || environment.state_dir().filter(|_| url.is_some());
        let file = db.as_ref().filter(|_| url.is_none()).map(|db| environment.directory.join(db));
        let beside = file.iter().flat_map(|file| side_files(file));
        let beside = beside.map(|path| ("database", Some(path), PathKind::Directory));
        let text = |name: &str| environment.text(name);
        let certificates = url.into_iter().flat_map(|url| certificates(url, &text));
        let certificates = certificates.map(|path| ("database", Some(path), PathKind::File));
        let config = self.sources.file.as_ref().map(|file| file.path.clone());
        let files = [
            ("config", config, PathKind::Config),
            ("database", file.clone(), PathKind::File),
            ("claims", path("state_dir").or_else(default), PathKind::Directory),
            ("joblog", path("joblog"), PathKind::File),
            ("handler", path("ca_file"), PathKind::File),
            ("certificates", environment.path("SSL_CERT_FILE"), PathKind::File),
            ("certificates", environment.path("SSL_CERT_DIR"), PathKind::Directory),
        ];
        let complaints =
            files.into_iter().chain(beside).chain(certificates).filter_map(
                |(about, path, kind)| Some((about, environment.complaint(&path?, kind)?)),
            );
        let mut complaints: Vec<_> = complaints.collect();
        complaints.dedup_by(|one, other| one.1 == other.1);
        complaints
    }

    /// Fails if a value is not legal, or if root would use files that other users can change.
    pub fn require_usable(self) -> Result<Self, ExitError> {
        if let Some(error) = self.errors.first() {
            return Err(usage(error));
        }
        let is_reported = self.sources.environment.rule == OwnerRule::Reported;
        let mut complaints = self.ownership_complaints().into_iter().filter(|_| !is_reported);
        complaints.next().map_or(Ok(self), |(_, why)| Err(usage(why)))
    }

    /// Fails if a pass lacks a database, a handler or a schedule. The error lists everything that is missing.
    pub fn require_all(&self, is_dry: bool) -> Result<(), ExitError> {
        let has = |is_meant: fn(&Key) -> bool| self.layers.has_any(is_meant);
        let has_schedule =
            self.typed.works_without_schedule || has(|key| key.role == KeyRole::Schedule);
        let missing = [
            (self.layers.has("db"), no_database()),
            (is_dry || has(|key| [EXEC, POST].contains(&key.name)), no_handler()),
            (has_schedule, no_schedule()),
        ];
        let missing = missing.into_iter().filter(|(has_it, _)| !has_it);
        let missing: Vec<_> = missing.map(|(_, error)| error.message).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let (missing, unused) = (missing.join("; "), self.unused_queues().unwrap_or_default());
        Err(usage(format!("{missing}{unused}{}", self.after_hyphens().unwrap_or_default())))
    }

    /// A hint, if a missing option was written after the handler.
    fn after_hyphens(&self) -> Option<String> {
        let Some(Raw::Words(handler)) = self.typed.layer.get(EXEC) else { return None };
        let words = handler.iter().filter_map(|word| word.to_str()?.strip_prefix("--"));
        let mut names = words.map(|word| word.split('=').next().unwrap_or_default());
        let is_missing = |key: &Key| {
            (key.name == "db" || key.role == KeyRole::Schedule) && !self.layers.has(key.name)
        };
        let name = names.find(|name| Key::by_long_name(name).is_some_and(is_missing))?;
        Some(format!(
            "; --{name} comes after `--`, so it belongs to the handler: write it before `--`"
        ))
    }

    /// A hint, if no queue of backlog.toml applies because another table was chosen.
    fn unused_queues(&self) -> Option<String> {
        let file = self.sources.file.as_ref()?;
        let is_above = |origin| ![Origin::File, Origin::Default].contains(&origin);
        let mut chosen = self.layers.iter().filter(|(key, ..)| chooses_table(key));
        let (key, ..) = chosen.find(|(_, _, origin)| is_above(*origin))?;
        let queues: Vec<_> = file.queues().collect();
        let is_unused = !queues.is_empty() && !queues.contains(&&*self.name);
        let (path, option) = (file.path.display(), key.long);
        is_unused.then(|| {
            format!("; --{option} names another table, so no queue of {path} applies: use --queue to name one")
        })
    }

    /// Fails unless passes under cron use the same state directory. With a server, the default differs by user.
    pub fn require_state_dir(&self, queue: &Queue) -> Result<(), ExitError> {
        let why_not = match self.layers.origin("state_dir") {
            _ if queue.db.file().is_some() => return Ok(()),
            Some(Origin::CommandLine | Origin::Set | Origin::File) => return Ok(()),
            Some(Origin::Environment) => {
                "; BACKLOG_STATE_DIR is not enough, because passes under cron do not have it"
            }
            Some(Origin::Default) | None => "",
        };
        Err(usage(format!(
            "with a server, a pause is stored in the state directory, which differs by user and machine: \
             name the one of the crontab lines with --state-dir, or as state_dir in backlog.toml{why_not}"
        )))
    }

    /// Fails without a database, because nothing else can be checked then.
    pub fn require_database(&self, is_dry: bool) -> Result<(), ExitError> {
        if self.layers.has("db") { Ok(()) } else { self.require_all(is_dry) }
    }

    fn illegal_for_pgmq(&self) -> Option<&'static str> {
        if self.layers.has("shard") {
            return Some("--shard");
        }
        if !self.layers.conditions.is_empty() {
            return Some("--where");
        }
        let deletes = self.settings.table.mapping.deletes_succeeded;
        let is_legal = |key: &Key| key.name == "payload" || key.name == "on_success" && deletes;
        let mut keys = MAPPING.iter().filter(|key| self.layers.has(key.name));
        keys.find(|key| !is_legal(key)).map(|key| key.name)
    }

    pub fn schedule(&self) -> Result<Option<Schedule>, ExitError> {
        schedule_from(&self.settings)
    }

    /// The schedule of the queue's passes, for a subcommand that has no option for it.
    pub fn pass_schedule(&self) -> Option<Schedule> {
        valid_settings(&self.pass_layers)
            .and_then(|settings| schedule_from(&settings).ok().flatten())
    }

    pub fn pass_text(&self, key: &str) -> Option<&str> {
        self.pass_layers.text(key)
    }

    /// The schedule of backlog.toml alone, with the conditions and the shard that narrow its records.
    pub fn described(&self) -> Option<(Schedule, Vec<String>, Option<Shard>)> {
        let layer = self.sources.file.as_ref()?.layer(&self.name, false).ok()?;
        let settings = valid_settings(&layer)?;
        let schedule = schedule_from(&settings).ok().flatten()?;
        Some((schedule, layer.conditions, settings.shard))
    }

    pub fn handler(&self) -> Result<Option<HandlerSpec>, ExitError> {
        HandlerSpec::from_settings(&self.settings, &self.layers, &self.sources.environment)
    }

    pub fn pass_settings(&self) -> (Settings, Vec<String>) {
        self.pass_layers.settings("")
    }
}

fn valid_settings(layer: &Layers) -> Option<Settings> {
    let (settings, complaints) = layer.settings("");
    complaints.is_empty().then_some(settings)
}
