//! The page of `backlog status --html`: made, and put in the place of the last one.

use std::path::Path;

use anyhow::{Context, Result};

use super::Console;
use crate::exit::{self, Exit};
use crate::report::{self, QueueStatus};
use crate::secure_file;

/// Makes the page of these queues, a file of this mode if there is none. Of one that could not be looked at
/// standard error says so as well: that is what cron mails.
pub fn make(
    queues: &[QueueStatus],
    path: &Path,
    mode: u32,
    console: &mut Console<'_>,
) -> Result<Exit> {
    let mut exit = Exit::Done;
    for (queue, report) in queues {
        let Err(error) = report else { continue };
        console.terminal.name_queue(Some(queue.as_str()).filter(|_| queues.len() > 1));
        console.terminal.say_error(error);
        console.terminal.name_queue(None);
        exit = exit.max(exit::of(error));
    }
    let page = report::page(queues, console.clock.now())?;
    secure_file::replace(path, page.as_bytes(), mode)
        .with_context(|| format!("could not write {}", path.display()))?;
    Ok(exit)
}
