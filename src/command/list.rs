//! `backlog list`: the records, one line each.

use std::io::Write;

use anyhow::Result;

use super::{moment, open_for};
use crate::cli::List;
use crate::config::{Queue, policy};
use crate::exit::{Exit, usage};
use crate::instant::Instant;
use crate::policy::Verdict;
use crate::record::Status;
use crate::report;
use crate::store::Reader;

pub fn run(queue: &Queue, args: List, now: Instant, out: &mut dyn Write) -> Result<Exit> {
    let policy = policy(&args.schedule)?;
    if args.due && policy.is_none() {
        return Err(usage(
            "--due goes by --ndays, --fibonacci, --policy or --progressive; say which",
        )
        .into());
    }
    let mut statuses: Vec<Status> = args.status.into_iter().map(Status::from).collect();
    if args.due {
        if statuses.is_empty() {
            statuses = Status::PENDING.to_vec();
        }
        statuses.retain(|status| status.is_pending());
        if statuses.is_empty() {
            return Err(usage("only NEW and ERROR records can be due").into());
        }
    }
    let mut reader = open_for(queue, policy.as_ref(), None)?;
    let moment = policy.as_ref().map(|policy| moment(queue, policy, &reader, now)).transpose()?;
    if !args.json {
        out.write_all(report::list_header(policy.is_some()).as_bytes())?;
    }
    reader.scan(&statuses, args.order.into(), &mut |record| {
        let verdict = policy
            .as_ref()
            .zip(moment)
            .map(|(policy, moment)| policy.verdict(record.facts(), moment));
        if args.due && !matches!(verdict, Some(Verdict::Due(_))) {
            return Ok(());
        }
        let line = if args.json {
            report::list_json(&record, verdict)
        } else {
            report::list_line(&record, verdict)
        };
        Ok(out.write_all(line.as_bytes())?)
    })?;
    Ok(Exit::Done)
}
