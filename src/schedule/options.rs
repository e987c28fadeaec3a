//! Options beside the policy itself, and the spelling in which they are shown again.

use std::time::Duration;

/// How often cron starts a pass, unless `--every` says otherwise.
pub const EVERY_SECS: i64 = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// `--every`, the tick in seconds: at least 1.
    pub every_secs: i64,
    /// `--salt`: other records become neighbours in their phases.
    pub salt: u64,
    /// `--spread`, in percent; a key of the policy goes before it.
    pub spread: Option<u8>,
}

impl Options {
    /// What of this is not as usual, as it is typed behind the policy.
    pub fn line(&self, usual_every_secs: i64) -> String {
        let mut line = String::new();
        if self.every_secs != usual_every_secs {
            line += &format!(" --every {}", duration(self.every_secs));
        }
        if let Some(percent) = self.spread {
            line += &format!(" --spread {percent}%");
        }
        if self.salt != 0 {
            line += &format!(" --salt {}", self.salt);
        }
        line
    }
}

/// Seconds as they are typed: `1h30m`.
pub fn duration(secs: i64) -> String {
    let duration = Duration::from_secs(secs.unsigned_abs());
    humantime::format_duration(duration).to_string().replace(' ', "")
}
