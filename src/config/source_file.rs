//! backlog.toml as a file: where it is looked for, and whether what it says may be done.
//!
//! What stands in it is run, by root if need be. So one that nobody has named counts only if none
//! but root and this user can have put it there, and one that root names only if it is root's.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use crate::exit::{ExitError, usage};
use crate::secure_file::{self, Followed, is_root, why_untrusted};

/// A file that was read, and may be believed.
pub struct SourceFile {
    pub path: PathBuf,
    pub text: String,
    pub is_readable_by_others: bool,
}

impl SourceFile {
    /// The file that is named, or the first that is where one is looked for.
    pub fn find(
        named: Option<&Path>,
        environment: &Environment,
    ) -> Result<Option<Self>, ExitError> {
        let named = named.map(|path| environment.directory.join(path));
        if let Some(path) = named.or_else(|| environment.path("BACKLOG_CONFIG")) {
            let (text, found) = read_named(&path)?;
            if is_root() {
                require_roots(&path, &found)?;
            }
            return Ok(Some(Self::new(path, text, &found)));
        }
        let is_there = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
        let Some(path) = environment.places().into_iter().find(is_there) else { return Ok(None) };
        let (text, found) = read_found(&path)?;
        Ok(Some(Self::new(path, text, &found)))
    }

    fn new(path: PathBuf, text: String, found: &Metadata) -> Self {
        Self { path, text, is_readable_by_others: is_readable_by_others(found) }
    }
}

/// The text of a file that was named.
fn read_named(path: &Path) -> Result<(String, Metadata), ExitError> {
    let read = secure_file::read(path, secure_file::LONGEST);
    read.and_then(decoded).map_err(|error| not_read(path, &error))
}

/// The same of one that nobody has named: what it says is done, so it counts only if none but root
/// and this user can have put it there.
fn read_found(path: &Path) -> Result<(String, Metadata), ExitError> {
    let refused = |why: &str| {
        let shown = path.display();
        usage(format!(
            "{shown} is not read, because it {why}; to use it all the same: --config {shown}"
        ))
    };
    let read = || {
        let followed = Followed::new(path)?;
        let (text, found) = followed.read(secure_file::LONGEST).and_then(decoded)?;
        let real = followed.directory_metadata()?;
        let named = fs::metadata(path.parent().unwrap_or(Path::new("/")))?;
        Ok((text, found, [named, real]))
    };
    let (text, found, directories) = read().map_err(|error| not_read(path, &error))?;
    if let Some(why) = why_untrusted(&found) {
        return Err(refused(&why));
    }
    if let Some(why) = directories.iter().find_map(why_untrusted) {
        return Err(refused(&format!("is in a directory that {why}")));
    }
    Ok((text, found))
}

fn decoded((bytes, found): (Vec<u8>, Metadata)) -> io::Result<(String, Metadata)> {
    let text = String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))?;
    Ok((text, found))
}

fn not_read(path: &Path, error: &io::Error) -> ExitError {
    usage(format!("could not read {}: {error}", path.display()))
}

/// Fails if root has named a file that others could have written.
fn require_roots(path: &Path, found: &Metadata) -> Result<(), ExitError> {
    let Some(why) = why_untrusted(found) else { return Ok(()) };
    let shown = path.display();
    let mend = if found.uid() == 0 {
        format!("chmod go-w {shown}")
    } else {
        format!("chown root {shown}, or run as user {}", found.uid())
    };
    Err(usage(format!("{shown} {why}, and root would do what it says: {mend}")))
}

fn is_readable_by_others(found: &Metadata) -> bool {
    const GROUP_READ: u32 = 0o040;
    const OTHERS_READ: u32 = 0o004;
    let of_group =
        found.mode() & GROUP_READ != 0 && !secure_file::is_private(found.uid(), found.gid());
    of_group || found.mode() & OTHERS_READ != 0
}
