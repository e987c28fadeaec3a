//! Complaints of passes: a file for each kind and each line says when it was made last.

use std::os::unix::fs::FileExt;

use anyhow::Result;

use super::StateDir;
use super::history::{LineName, tail};
use crate::system_error::chain;
use crate::time::Instant;

/// How often the same is complained of.
const COMPLAINT_INTERVAL: i64 = 3_600;

/// Something that passes find wrong again and again, and cron's mail need not say each time.
#[derive(Debug, Clone, Copy)]
pub enum Complaint {
    /// The running pass of the line hangs.
    Hung,
    /// The pass could not be reported to its service.
    Ping,
    /// Its metrics could not be written.
    Metrics,
    /// Its queue is paused by a file that cannot be read.
    Pause,
}

impl Complaint {
    fn suffix(self) -> &'static str {
        match self {
            Self::Hung => "hung",
            Self::Ping => "unreported",
            Self::Metrics => "unmeasured",
            Self::Pause => "unread",
        }
    }
}

impl StateDir {
    /// Whether something is to be complained of now: of each line once an hour, and each time where that
    /// cannot be noted.
    pub fn may_complain(&self, line: &LineName, of: Complaint, now: Instant) -> bool {
        if self.is_none() {
            return true;
        }
        let may = self.note_complaint(line, of, now);
        may.inspect_err(|error| log::warn!("{}", chain(error))).unwrap_or(true)
    }

    fn note_complaint(&self, line: &LineName, of: Complaint, now: Instant) -> Result<bool> {
        let name = format!("{}.{}", self.file_name(&line.to_string()), of.suffix());
        let file = self.file(&name)?;
        let (_, said) = tail(&file, 32)?;
        let said: Option<Instant> =
            std::str::from_utf8(&said).ok().and_then(|text| text.trim().parse().ok());
        let since = said.map(|said| now.0.saturating_sub(said.0));
        let may = since.is_none_or(|since| !(0..COMPLAINT_INTERVAL).contains(&since));
        if may {
            let said = format!("{now}\n");
            file.write_all_at(said.as_bytes(), 0)?;
            file.set_len(said.len() as u64)?;
        }
        Ok(may)
    }
}
