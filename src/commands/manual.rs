//! `backlog completions` and `backlog man`: what a shell and a package of this program are given.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Console;
use crate::cli::{Shell, registration};
use crate::exit::Exit;
use crate::manual::pages;

pub fn completions(shell: Shell, console: &mut Console<'_>) -> Result<Exit> {
    console.out.write_all(&registration(shell)?)?;
    Ok(Exit::Done)
}

/// Writes the manual pages into a directory, which is made if it is missing.
pub fn man(directory: &Path, console: &mut Console<'_>) -> Result<Exit> {
    let could_not = || format!("could not write {}", directory.display());
    fs::create_dir_all(directory).with_context(could_not)?;
    for page in pages()? {
        let path = directory.join(&page.file);
        fs::write(&path, page.text).with_context(could_not)?;
        writeln!(console.out, "{}", path.display())?;
    }
    Ok(Exit::Done)
}
