//! `backlog completions` and `backlog man`: what a shell and a package of this program are given.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Console;
use crate::cli::{Shell, registration};
use crate::exit::Exit;
use crate::manual::pages;
use crate::secure_file;

/// The mode of a page, less the umask.
const READABLE: u32 = 0o644;

pub fn completions(shell: Shell, console: &mut Console<'_>) -> Result<Exit> {
    console.out.write_all(&registration(shell)?)?;
    Ok(Exit::Done)
}

/// Writes the manual pages below a directory, where `man` looks for them: `man1/backlog.1`.
pub fn man(directory: &Path, console: &mut Console<'_>) -> Result<Exit> {
    for page in pages()? {
        let section = directory.join(format!("man{}", page.section));
        let path = section.join(&page.file);
        let made = fs::create_dir_all(section);
        let written =
            made.and_then(|()| secure_file::replace_unfollowed(&path, &page.text, READABLE));
        written.with_context(|| format!("could not write {}", path.display()))?;
        writeln!(console.out, "{}", path.display())?;
    }
    Ok(Exit::Done)
}
