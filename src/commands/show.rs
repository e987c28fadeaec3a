//! `backlog show`: a record with all columns of its row, payload included.

use anyhow::Result;
use backlog_schedule::one_line;
use backlog_store::{Access, Found};

use super::failures::Failed;
use super::{Console, GONE, find, open};
use crate::cli::Show;
use crate::exit::Exit;
use crate::handlers::document;
use crate::options::Resolved;
use crate::report::whole_record;

pub fn run(resolved: &Resolved<'_>, args: &Show, console: &mut Console<'_>) -> Result<Exit> {
    let queue = resolved.queue()?;
    let mut database = open(&queue, Access::ReadOnly, console.clock)?;
    let (columns, counts) = (database.table().id.len(), database.table().failures.is_some());
    let payload = queue.mapping.payload.as_deref();
    let secret = resolved.text_of_passes("secret_column");
    let known = Failed::of(&queue, &*database)?;
    let mut exit = Exit::Done;
    for id in &args.ids {
        let found = match find(&mut *database, id, columns)? {
            Ok(record) => match database.read_whole(&record.id)? {
                Found::Record(record) => Ok(record),
                Found::Gone | Found::Ambiguous => Err(GONE.into()),
            },
            Err(why) => Err(why),
        };
        let screen = &console.screen;
        let text = found.and_then(|record| {
            if args.json {
                return document(&record, payload, secret).map(|json| [&json[..], b"\n"].concat());
            }
            let in_hand = known.in_hand(&record, screen);
            Ok(whole_record(&record, secret, counts, in_hand.as_deref(), screen).into_bytes())
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
