//! Programs of a set-up: whether what a line names is found and can be run, where cron looks for it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::crontab::CRON_PATH;
use crate::handlers::{self, in_one_word, is_executable, obstacle, program};
use crate::options::Environment;
use crate::report::Level;

/// The file of a command's program, or why cron cannot run it. `path` is the PATH of its line.
pub fn file_of(argv: &[OsString], path: &OsStr) -> Result<PathBuf, String> {
    if let Some(why) = in_one_word(argv, path) {
        return Err(why);
    }
    let program = program(argv);
    let (shown, is_path) = (handlers::shown(program), program.as_bytes().contains(&b'/'));
    if is_path && Path::new(program).is_relative() {
        let why = "depends on the directory that cron starts it in: write its whole path";
        return Err(format!("{shown} {why}"));
    }
    let file = handlers::file_of(program, path).ok_or_else(|| match is_path {
        true => format!("there is no {shown}"),
        false => format!(
            "cron finds no {shown} in {}, where it replaces no variable: write its whole path, or \
             PATH=... above the line",
            path.display()
        ),
    })?;
    if !is_executable(&file) {
        return Err(format!("{0} is not executable: chmod +x {0}", file.display()));
    }
    match obstacle(&file, path) {
        None => Ok(file),
        Some(why) => Err(format!("{} cannot be run: {why}", file.display())),
    }
}

/// Whether a command can be run from cron, if no line says where it is looked for.
pub fn of_command(
    argv: &[OsString],
    environment: &Environment,
    has_lines: bool,
) -> (Level, String) {
    let own = environment.get("PATH").map_or(OsStr::new(CRON_PATH), OsString::as_os_str);
    let mut argv = argv.to_vec();
    // Each line has its own path.
    let relative = argv.first_mut().filter(|program| program.as_bytes().contains(&b'/'));
    if let Some(program) = relative.filter(|_| has_lines) {
        *program = environment.directory.join(&*program).into();
    }
    match (file_of(&argv, OsStr::new(CRON_PATH)), file_of(&argv, own)) {
        (Ok(file), _) => (Level::Ok, file.display().to_string()),
        // Each line has its own PATH.
        (Err(_), Ok(file)) if has_lines => (Level::Ok, file.display().to_string()),
        (Err(why), Ok(_)) => (Level::Warning, why),
        (Err(why), Err(_)) => (Level::Error, why),
    }
}
