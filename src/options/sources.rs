//! The sources of options besides the command line: the environment and backlog.toml.

use std::fs;
use std::path::{Path, PathBuf};

use backlog_store::ownership::Kind;

use super::environment::Environment;
use super::file::File;
use crate::exit::{ExitError, usage};

pub struct Sources {
    pub environment: Environment,
    pub file: Option<File>,
}

impl Sources {
    /// With the file that is named, or else the first default file that exists.
    pub fn find(config: Option<&Path>, environment: Environment) -> Result<Self, ExitError> {
        let named = config.map(|path| environment.directory.join(path));
        let named = named.or_else(|| environment.path("BACKLOG_CONFIG"));
        let read = if named.is_some() { File::named } else { File::found };
        let exists = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
        let path = named.or_else(|| environment.default_files().into_iter().find(exists));
        if let Some(path) = &path {
            environment.require_trusted(path, Kind::Config)?;
        }
        Ok(Self { file: path.map(read).transpose()?, environment })
    }

    /// With a file that is only proposed, for this path.
    pub fn proposed(
        path: PathBuf,
        text: &str,
        environment: Environment,
    ) -> Result<Self, ExitError> {
        Ok(Self { file: Some(File::proposed(path, text)?), environment })
    }

    /// The names of the queues of backlog.toml, of which there is at least one.
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

    /// The name of the queue, if it is only a name: nothing describes the queue. The name tells its
    /// crontab line from others, and handlers get it.
    pub fn mere_name(&self, typed: Option<&str>) -> Option<String> {
        let named = self.environment.typed_or(typed, "queue").ok().flatten();
        named.filter(|name| self.file.is_none() && !self.environment.knows_queue(name))
    }
}
