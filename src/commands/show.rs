//! `backlog show`: a record with all columns of its row, payload included.

use anyhow::Result;
use backlog_schedule::one_line;
use backlog_store::{Access, ReadResult};

use super::failures::KnownFailures;
use super::{Console, GONE, find, open};
use crate::cli::ShowArgs;
use crate::exit::Exit;
use crate::handlers::document;
use crate::options::Resolved;

pub fn run(resolved: &Resolved<'_>, args: &ShowArgs, console: &mut Console<'_>) -> Result<Exit> {
    let queue = resolved.queue()?;
    let mut database = open(&queue, Access::ReadOnly, console.clock)?;
    let payload = queue.mapping.payload.as_deref();
    let secret = resolved.pass_text("secret_column");
    let known = KnownFailures::of(&queue, &*database)?;
    let mut exit = Exit::Done;
    for id in &args.ids {
        let found = match find(&mut *database, id)? {
            Ok(record) => match database.read_whole(&record.id)? {
                ReadResult::Record(record) => Ok(record),
                ReadResult::Gone | ReadResult::Ambiguous => Err(GONE.into()),
            },
            Err(why) => Err(why),
        };
        let text = found.and_then(|record| {
            if args.json {
                return document(&record, payload, secret).map(|json| [&json[..], b"\n"].concat());
            }
            Ok(known.view(&record, &console.screen).whole(secret).into_bytes())
        });
        match text {
            Ok(text) => console.out.write_all(&text)?,
            Err(why) => {
                exit = Exit::Failed;
                log::error!("{}: {why}", one_line(id));
            }
        }
    }
    Ok(exit)
}
