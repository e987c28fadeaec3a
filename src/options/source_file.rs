//! backlog.toml as a file: where it is looked for, and whether what it says may be done.
//!
//! What stands in it is run, by root if need be. So one that nobody has named counts only if none
//! but root and this user can have put it there, and one that root names only if it is root's.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use crate::exit::{ExitError, usage};
use crate::secure_file::{self, Followed, Standing, is_root};

/// The file that is named, or the first that is where one is looked for, with what it says and who
/// may have put that there.
pub fn find(
    named: Option<&Path>,
    environment: &Environment,
) -> Result<Option<(PathBuf, String, Standing)>, ExitError> {
    let named = named.map(|path| environment.directory.join(path));
    if let Some(path) = named.or_else(|| environment.path("BACKLOG_CONFIG")) {
        return read_named(&path).map(|(text, standing)| Some((path, text, standing)));
    }
    let is_there = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
    let Some(path) = environment.places().into_iter().find(is_there) else { return Ok(None) };
    read_found(&path).map(|(text, standing)| Some((path, text, standing)))
}

/// The text of a file that was named. What root is to do must be root's word, also where a link has
/// led to it.
fn read_named(path: &Path) -> Result<(String, Standing), ExitError> {
    let read = if is_root() {
        Followed::new(path).and_then(|followed| followed.read(secure_file::LONGEST))
    } else {
        secure_file::read(path, secure_file::LONGEST)
    };
    let (text, standing) = read.and_then(decoded).map_err(|error| not_read(path, &error))?;
    match standing.why_untrusted().filter(|_| is_root()) {
        None => Ok((text, standing)),
        Some(why) => {
            let (shown, hint) = (path.display(), hint(path, &standing));
            Err(usage(format!("{shown} {why}, and root would do what it says: {hint}")))
        }
    }
}

/// The same of one that nobody has named: what it says is done, so it counts only if none but root
/// and this user can have put it there.
fn read_found(path: &Path) -> Result<(String, Standing), ExitError> {
    let read = || {
        let followed = Followed::new(path)?;
        let (text, standing) = followed.read(secure_file::LONGEST).and_then(decoded)?;
        let named = Standing::of(path.parent().unwrap_or(Path::new("/")))?;
        Ok((text, standing, [named, followed.directory_standing()?]))
    };
    let (text, standing, directories) = read().map_err(|error| not_read(path, &error))?;
    let of_file = standing.why_untrusted();
    // Root may not name such a file either.
    let first = of_file.as_ref().filter(|_| is_root());
    let first = first.map_or_else(String::new, |_| format!("{}; then ", hint(path, &standing)));
    let of_directory = || directories.iter().find_map(Standing::why_untrusted);
    let why = of_file.or_else(|| Some(format!("is in a directory that {}", of_directory()?)));
    match why {
        None => Ok((text, standing)),
        Some(why) => {
            let shown = path.display();
            Err(usage(format!(
                "{shown} is not read, because it {why}; to use it all the same: {first}--config {shown}"
            )))
        }
    }
}

/// What makes a file root's alone, or spares root from it.
fn hint(path: &Path, standing: &Standing) -> String {
    let shown = path.display();
    match standing.uid() {
        0 => format!("chmod go-w {shown}"),
        owner => format!("chown root {shown}, or run as user {owner}"),
    }
}

fn decoded((bytes, standing): (Vec<u8>, Standing)) -> io::Result<(String, Standing)> {
    let text = String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))?;
    Ok((text, standing))
}

fn not_read(path: &Path, error: &io::Error) -> ExitError {
    usage(format!("could not read {}: {error}", path.display()))
}
