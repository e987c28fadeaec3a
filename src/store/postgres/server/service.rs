//! Connection services: named groups of parameters, in a file that all programs with libpq read.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::secure_file;
use crate::system_error::words;

/// The directories in which libpq looks for the service file of the system: those of Debian, of Red Hat, and
/// of a build from source.
const SYSTEM_DIRECTORIES: [&str; 3] =
    ["/etc/postgresql-common", "/etc/sysconfig/pgsql", "/usr/local/pgsql/etc"];

const INSTEAD: &str = "correct the name, or name host, database and user in the URL";

/// The parameters of a service, from the first file that has it. `by` is the parameter or variable that
/// names the service.
pub fn read(
    name: &str,
    by: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<(String, String)>> {
    let files = files(environment);
    for path in &files {
        let shown = path.display();
        let (bytes, _) = secure_file::read(path).map_err(|error| {
            anyhow!("{by}: could not read the service file {shown}: {}", words(&error))
        })?;
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| anyhow!("{by}: the service file {shown} is not UTF-8"))?;
        let found = section(&text, name);
        if let Some(found) = found.with_context(|| format!("{by}: the service file {shown}"))? {
            return Ok(found);
        }
    }
    let files: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
    match &files[..] {
        [] => bail!("{by}: no service {name:?}: there is no service file; {INSTEAD}"),
        files => bail!("{by}: no service {name:?} in {}; {INSTEAD}", files.join(", ")),
    }
}

/// The files to read. A file that the user names must exist; the usual ones are read if they exist.
fn files(environment: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let path = |name| environment(name).filter(|text| !text.is_empty()).map(PathBuf::from);
    let own = path("PGSERVICEFILE").or_else(|| {
        path("HOME").map(|home| home.join(".pg_service.conf")).filter(|path| path.exists())
    });
    let system = match path("PGSYSCONFDIR") {
        Some(directory) => vec![directory],
        None => SYSTEM_DIRECTORIES.map(PathBuf::from).into(),
    };
    let system = system.iter().map(|directory| Path::join(directory, "pg_service.conf"));
    own.into_iter().chain(system.filter(|path| path.exists())).collect()
}

/// The parameters below the first `[name]`. No error quotes a line: the password may be in it.
fn section(text: &str, name: &str) -> Result<Option<Vec<(String, String)>>> {
    let mut found: Option<Vec<(String, String)>> = None;
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            if found.is_some() {
                break;
            }
            let is_it = header.strip_prefix(name).is_some_and(|rest| rest.starts_with(']'));
            found = is_it.then(Vec::new);
        } else if let Some(found) = &mut found {
            let (key, value) = line
                .split_once('=')
                .with_context(|| format!("line {number} has no value; write it as name=value"))?;
            ensure!(key != "service", "line {number}: a service cannot name another one");
            if !found.iter().any(|(before, _)| before == key) {
                found.push((key.into(), value.into()));
            }
        }
    }
    Ok(found)
}
