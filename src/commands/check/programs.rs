//! Programs of a set-up: whether what a line names is found and can be run, where it is looked for.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::crontab::{CRON_PATH, Line};
use crate::handlers::{in_one_word, is_executable, obstacle};
use crate::options::Environment;
use crate::report::Level;

/// The result of a search for a program.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    File(PathBuf),
    /// A file that cannot be executed.
    Plain(PathBuf),
    Nowhere,
    /// Somewhere that this user may not look.
    Unseen,
}

/// Searches as execvp(3) does: a name with a slash is a path, which begins in `directory`.
fn search(program: &OsStr, path: &OsStr, directory: &Path) -> Found {
    let mut found = Found::Nowhere;
    let places = match program.as_bytes().contains(&b'/') {
        true => vec![directory.to_path_buf()],
        false => std::env::split_paths(path).map(|place| directory.join(place)).collect(),
    };
    for file in places.into_iter().map(|place| place.join(program)) {
        match file.metadata() {
            Ok(_) if is_executable(&file) => return Found::File(file),
            Ok(it) if it.is_file() && found == Found::Nowhere => found = Found::Plain(file),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => found = Found::Unseen,
            Ok(_) | Err(_) => {}
        }
    }
    found
}

/// The same for a line. Whether another user may execute a file is his to know.
fn search_for(line: &Line, program: &OsStr) -> Found {
    // Where else it is looked for is not known.
    if line.has_more_variables && Path::new(program).is_relative() {
        return Found::Unseen;
    }
    let found = search(program, OsStr::new(line.path()), line.starts_in());
    match &found {
        Found::Plain(file) if line.user.is_some() && may_be_executed(file) => Found::Unseen,
        Found::File(_) | Found::Plain(_) | Found::Nowhere | Found::Unseen => found,
    }
}

fn may_be_executed(file: &Path) -> bool {
    file.metadata().is_ok_and(|it| it.mode() & 0o111 != 0)
}

/// Words that a shell runs by itself.
const BUILTINS: [&str; 16] = [
    "exec", "command", "test", "[", ":", ".", "cd", "umask", "ulimit", "set", "export", "eval",
    "time", "if", "while", "!",
];

/// What keeps a shell from starting the program of a line, if that shows.
pub fn of_shell(line: &Line, users: &[String]) -> Option<String> {
    if let Some(directory) = &line.directory
        && !line.has_more_variables
        && matches!(directory.try_exists(), Ok(false))
    {
        return Some(format!("there is no directory {}, where it goes first", directory.display()));
    }
    if let Some(shell) = line.environment.get("SHELL").filter(|it| !is_executable(Path::new(it))) {
        return Some(format!("SHELL={shell} above the line is no program: cron cannot start it"));
    }
    let wrapper = line.wrapper.as_deref().filter(|it| !BUILTINS.contains(it));
    if let Some(wrapper) = wrapper.filter(|it| !it.contains('$'))
        && search_for(line, OsStr::new(wrapper)) == Found::Nowhere
    {
        let is_user = users.iter().any(|user| user == wrapper) && line.user.is_none();
        return Some(match is_user {
            true => format!(
                "it begins with the user {wrapper}, which is for /etc/crontab and /etc/cron.d: a \
                 user's crontab has no such field"
            ),
            false => nowhere(OsStr::new(wrapper), line),
        });
    }
    let is_missing = |file: &&String| {
        let path = line.starts_in().join(file);
        let directory = path.parent().map(Path::try_exists);
        !file.contains('$') && !line.has_more_variables && matches!(directory, Some(Ok(false)))
    };
    let file = line.files.iter().find(is_missing)?;
    Some(format!("there is no directory for {file}: the shell starts nothing then"))
}

/// What is wrong with the program that a line runs, if that shows.
pub fn of_line(line: &Line) -> Option<String> {
    let program = OsStr::new(&line.program);
    match search_for(line, program) {
        Found::File(_) | Found::Unseen => None,
        Found::Plain(file) => Some(plain(&file)),
        Found::Nowhere => Some(nowhere(program, line)),
    }
}

/// What is wrong with the command that a line hands its records to, if that shows.
pub fn of_handler(argv: &[OsString], line: &Line) -> Option<(Level, String)> {
    let path = OsStr::new(line.path());
    if let Some(why) = in_one_word(argv, path) {
        return Some((Level::Error, why));
    }
    let program = argv.first().map_or(OsStr::new(""), OsString::as_os_str);
    let why = match search_for(line, program) {
        Found::Unseen => return None,
        Found::Nowhere => nowhere(program, line),
        Found::Plain(file) => plain(&file),
        Found::File(file) => match obstacle(&file, path) {
            Some(why) => format!("{} cannot be run: {why}", file.display()),
            None if is_relative(program) && line.directory.is_none() => {
                let (shown, home) = (Path::new(program).display(), line.home.display());
                let why = format!("{shown} is found only as long as it starts in {home}");
                return Some((Level::Warning, format!("{why}: write its whole path")));
            }
            None => return None,
        },
    };
    Some((Level::Error, why))
}

fn is_relative(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/') && Path::new(program).is_relative()
}

fn plain(file: &Path) -> String {
    let shown = file.display();
    format!("{shown} is not executable: chmod +x {shown}")
}

fn nowhere(program: &OsStr, line: &Line) -> String {
    let (shown, starts_in) = (Path::new(program).display(), line.starts_in().display());
    let (who, variable) = match line.scheduler.is_cron() {
        true => ("cron", "PATH=... above the line"),
        false => ("systemd", "Environment=PATH=... into the service"),
    };
    if is_relative(program) {
        return format!(
            "{who} starts it in {starts_in}, where no {shown} is: write its whole path"
        );
    }
    if program.as_bytes().contains(&b'/') {
        return format!("there is no {shown}");
    }
    let path = line.path();
    let hint = if path.contains('$') { " (where cron replaces no variable)" } else { "" };
    format!("{who} finds no {shown} in {path}{hint}: write its whole path, or {variable}")
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
    let search = |path: &OsStr| match search(program, path, Path::new("/")) {
        Found::File(file) => Some(file),
        Found::Plain(_) | Found::Nowhere | Found::Unseen => None,
    };
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
