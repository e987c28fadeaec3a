//! Programs of a set-up: whether what a line names is found and can be run, where cron looks for it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::crontab::CRON_PATH;
use crate::handlers::{in_one_word, is_executable, obstacle};
use crate::options::Environment;
use crate::report::Level;

/// Where a line looks for its programs.
pub struct Search<'a> {
    pub path: &'a str,
    pub directory: &'a Path,
    /// Whether it goes to that directory itself, and does not depend on the user's home.
    pub is_chosen: bool,
}

/// Searches as execvp(3) does: a name with a slash is a path, which begins in `directory`. A file that
/// cannot be executed is found where there is no other.
fn search(program: &OsStr, path: &OsStr, directory: &Path) -> Option<PathBuf> {
    let places = match program.as_bytes().contains(&b'/') {
        true => vec![directory.to_path_buf()],
        false => std::env::split_paths(path).map(|place| directory.join(place)).collect(),
    };
    let files = places.into_iter().map(|place| place.join(program)).filter(|file| file.is_file());
    let files: Vec<_> = files.collect();
    files.iter().find(|file| is_executable(file)).or(files.first()).cloned()
}

impl Search<'_> {
    /// The file of a program, or why a line cannot run it.
    pub fn file(&self, program: &OsStr) -> Result<PathBuf, String> {
        let (shown, path) = (Path::new(program).display(), self.path);
        match search(program, OsStr::new(path), self.directory) {
            Some(file) if is_executable(&file) => Ok(file),
            Some(file) => {
                let shown = file.display();
                Err(format!("{shown} is not executable: chmod +x {shown}"))
            }
            None if is_relative(program) => {
                let directory = self.directory.display();
                let why = format!("cron starts it in {directory}, where no {shown} is");
                Err(format!("{why}: write its whole path"))
            }
            None if program.as_bytes().contains(&b'/') => Err(format!("there is no {shown}")),
            None => {
                let hint =
                    if path.contains('$') { " (where cron replaces no variable)" } else { "" };
                let remedy = "write its whole path, or PATH=... above the line";
                Err(format!("cron finds no {shown} in {path}{hint}: {remedy}"))
            }
        }
    }

    /// What is wrong with the command that a line hands its records to.
    pub fn of_handler(&self, argv: &[OsString]) -> Option<(Level, String)> {
        let path = OsStr::new(self.path);
        let program = argv.first().map_or(OsStr::new(""), OsString::as_os_str);
        let found = in_one_word(argv, path).map_or_else(|| self.file(program), Err);
        let found = found.and_then(|file| match obstacle(&file, path) {
            Some(why) => Err(format!("{} cannot be run: {why}", file.display())),
            None => Ok(()),
        });
        if let Err(why) = found {
            return Some((Level::Error, why));
        }
        (is_relative(program) && !self.is_chosen).then(|| {
            let (shown, home) = (Path::new(program).display(), self.directory.display());
            let why = format!("{shown} is found only as long as it starts in {home}");
            (Level::Warning, format!("{why}: write its whole path"))
        })
    }
}

fn is_relative(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/') && Path::new(program).is_relative()
}

/// Whether a command can be run from cron, if no line says where it is looked for.
pub fn of_command(
    argv: &[OsString],
    environment: &Environment,
    has_lines: bool,
) -> (Level, String) {
    let own = environment.get("PATH").map_or(OsStr::new(CRON_PATH), OsString::as_os_str);
    if let Some(why) = in_one_word(argv, own) {
        return (Level::Error, why);
    }
    let program = argv.first().map_or(OsStr::new(""), OsString::as_os_str);
    let shown = Path::new(program).display();
    if is_relative(program) {
        return (Level::Error, format!("{shown} is not where cron starts: write its whole path"));
    }
    // From the root on it is found in every directory.
    let search =
        |path: &OsStr| search(program, path, Path::new("/")).filter(|file| is_executable(file));
    match (search(OsStr::new(CRON_PATH)), search(own)) {
        (Some(file), _) => match obstacle(&file, own) {
            None => (Level::Ok, file.display().to_string()),
            Some(why) => (Level::Error, format!("{} cannot be run: {why}", file.display())),
        },
        // Each line has its own PATH.
        (None, Some(file)) if has_lines => (Level::Ok, file.display().to_string()),
        (None, Some(file)) => {
            let why = format!("is not in cron's PATH, {CRON_PATH}: write its whole path");
            (Level::Warning, format!("{} {why}", file.display()))
        }
        (None, None) if program.as_bytes().contains(&b'/') => {
            (Level::Error, format!("{shown} is no file that can be executed"))
        }
        (None, None) => (Level::Error, format!("there is no {shown} in PATH")),
    }
}
