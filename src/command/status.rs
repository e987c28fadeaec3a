//! `backlog status`: how many records there are, and what is due.

use std::io::Write;

use anyhow::Result;

use super::{moment, open_for};
use crate::config::Queue;
use crate::exit::Exit;
use crate::instant::{DAY, Instant};
use crate::policy::{Moment, Policy, Verdict};
use crate::record::{Record, Status};
use crate::report::{self, DueReport, Oldest, StatusReport};
use crate::selection::Order;
use crate::store::Reader;

/// The ages at which the progressive schedule changes its frequency, in days.
const BANDS: [i64; 6] = [1, 7, 14, 30, 180, 360];

pub fn run(
    queue: &Queue,
    policy: Option<&Policy>,
    json: bool,
    now: Instant,
    out: &mut dyn Write,
) -> Result<Exit> {
    let mut database = open_for(queue, policy, None)?;
    let (db, table) = (database.path.display().to_string(), database.table.name.clone());
    let moment = policy.map(|policy| moment(queue, policy, &database, now)).transpose()?;
    let found = report(&mut database, policy.zip(moment), now)?;
    let text = if json {
        report::status_json(&db, &table, &found)
    } else {
        report::status_text(&db, &table, &found)
    };
    out.write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

fn report(
    reader: &mut dyn Reader,
    policy: Option<(&Policy, Moment)>,
    now: Instant,
) -> Result<StatusReport> {
    let counts = reader.census(&BANDS.map(|days| days * DAY), now)?;
    let mut oldest_pending = None;
    let mut due =
        policy.map(|(policy, _)| DueReport { line: policy.line(), ..DueReport::default() });
    reader.scan(&Status::PENDING, Order::Oldest, &mut |record| {
        keep_older(&mut oldest_pending, &record);
        let (Some(due), Some((policy, moment))) = (&mut due, policy) else {
            return Ok(());
        };
        match policy.verdict(record.facts(), moment) {
            Verdict::Due(_) => {
                due.due += 1;
                due.next_at = Some(now);
                keep_older(&mut due.oldest, &record);
            }
            Verdict::Wait { until } => {
                due.waiting += 1;
                due.next_at = Some(due.next_at.map_or(until, |next| next.min(until)));
            }
            Verdict::Never(_) => due.never += 1,
        }
        Ok(())
    })?;
    Ok(StatusReport { now, bands: BANDS.to_vec(), counts, oldest_pending, due })
}

fn keep_older(oldest: &mut Option<Oldest>, record: &Record) {
    if let Some(inserted_at) = record.inserted_at
        && oldest.as_ref().is_none_or(|oldest| inserted_at < oldest.inserted_at)
    {
        *oldest = Some(Oldest { id: record.id.clone(), inserted_at });
    }
}
