//! backlog.toml as a file: where it is looked for, and whether what it says may be done.
//!
//! What stands in it is run, by root if need be. So one that nobody has named counts only if none
//! but root and this user can have put it there, and one that root names only if it is root's.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use crate::exit::{ExitError, usage};
use crate::secure_file::{self, is_root};

/// No such file is longer.
const MOST_READ: u64 = 1024 * 1024;

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
            let (text, found) = read(&path, &path)?;
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

/// The text of the file at `path`, which was said to be at `named`.
fn read(named: &Path, path: &Path) -> Result<(String, Metadata), ExitError> {
    let wrong = |error: String| usage(format!("could not read {}: {error}", named.display()));
    let (bytes, found) =
        secure_file::read(path, MOST_READ).map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8".into()))?;
    Ok((text, found))
}

/// The same of a file that nobody has named: what it says is done, so it counts only if none but
/// root and this user can have put it there.
fn read_found(path: &Path) -> Result<(String, Metadata), ExitError> {
    let shown = path.display();
    let refused = |why: &str| {
        usage(format!(
            "{shown} is not read, because it {why}; to use it all the same: --config {shown}"
        ))
    };
    let real = secure_file::followed(path)
        .and_then(|followed| followed.canonicalize())
        .map_err(|error| usage(format!("could not read {shown}: {error}")))?;
    let (text, found) = read(path, &real)?;
    if let Some(why) = secure_file::distrust(&found) {
        return Err(refused(&why));
    }
    for directory in [path, &real].into_iter().filter_map(Path::parent) {
        let found = fs::metadata(directory)
            .map_err(|error| usage(format!("could not read {}: {error}", directory.display())))?;
        if let Some(why) = secure_file::distrust(&found) {
            return Err(refused(&format!("is in {}, which {why}", directory.display())));
        }
    }
    Ok((text, found))
}

/// Fails if root has named a file that others could have written.
fn require_roots(path: &Path, found: &Metadata) -> Result<(), ExitError> {
    let Some(why) = secure_file::distrust(found) else { return Ok(()) };
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
