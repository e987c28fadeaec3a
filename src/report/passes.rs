//! The passes of a queue's crontab lines as text and as JSON.

use std::cmp::Reverse;

use backlog_schedule::{DAY, HOUR, Instant, rough_span};
use backlog_store::{
    Failing, INTERVAL_ENTRIES, LineHistory, PassCounts, PassEnd, PassEntry, signal_name,
};
use serde_json::{Value as Json, json};

use super::screen::{Screen, ScreenColumn, grouped, table};

pub struct Passes {
    pub now: Instant,
    /// The table's failures since the last success, if they are reported.
    pub failing: Option<Failing>,
    pub directory: String,
    /// User and host, if others may work on the table.
    pub worker: Option<(String, String)>,
    pub errors: Vec<String>,
    pub lines: Vec<LineReport>,
    /// Number of the last passes that are listed.
    pub recent: usize,
}

impl Passes {
    /// The lines with scheduled or running passes; all lines if no pass was scheduled.
    fn lines(&self) -> impl Iterator<Item = &LineReport> {
        let is_any = self.lines.iter().any(LineReport::is_scheduled);
        let is_line = |line: &&LineReport| line.is_scheduled() || line.history.running().is_some();
        self.lines.iter().filter(move |line| !is_any || is_line(line))
    }

    /// Number of attempts of the last 24 hours by one of the counts. A running pass contributes its attempts so far.
    pub(super) fn of_last_day(&self, count: fn(&PassCounts) -> u64) -> u64 {
        let begin = self.now.saturating_sub(DAY);
        let entries = self.lines.iter().flat_map(|line| &line.history.entries);
        let entries = entries.filter(|entry| entry.ended.unwrap_or(entry.began) >= begin);
        entries.map(|entry| count(&entry.counts)).fold(0, u64::saturating_add)
    }

    /// The last passes of all lines, the latest first, each with its line.
    pub(super) fn recent(&self) -> Vec<(&PassEntry, &LineHistory)> {
        let histories = self.lines.iter().map(|line| &line.history);
        let mut all: Vec<_> = histories
            .flat_map(|history| history.entries.iter().map(move |entry| (entry, history)))
            .collect();
        all.sort_by_key(|(entry, _)| Reverse(entry.last_began()));
        all.truncate(self.recent);
        all
    }
}

/// Minimum number of passes to judge a line. There must be an hour between the first and the last.
const MIN_PASSES: u64 = 5;

pub const IS_CRON_RUNNING: &str = "is cron running, is the line installed?";

pub struct LineReport {
    pub history: LineHistory,
}

impl LineReport {
    /// True if cron or another scheduler has started a pass.
    pub fn is_scheduled(&self) -> bool {
        !self.scheduled().is_empty()
    }

    /// Seconds since the last pass began, if the line is overdue. docs/on-call.md explains the rule to operators.
    pub fn overdue(&self, now: Instant) -> Option<i64> {
        self.silent(now).filter(|_| self.is_judged())
    }

    /// The same without `is_judged`: somebody may have tried the line without installing it.
    pub fn silent(&self, now: Instant) -> Option<i64> {
        let silent = now.0.saturating_sub(self.scheduled().last()?.last_began().0);
        let most = self.interval().unwrap_or_default().saturating_mul(2).max(HOUR);
        (silent > most && !self.history.is_running).then_some(silent)
    }

    /// The last scheduled passes, which determine the interval.
    fn scheduled(&self) -> Vec<&PassEntry> {
        let entries = self.history.entries.iter().rev().filter(|entry| !entry.by_hand);
        let mut entries: Vec<_> = entries.take(INTERVAL_ENTRIES).collect();
        entries.reverse();
        entries
    }

    /// The interval in seconds: by the policy, otherwise the usual one.
    fn interval(&self) -> Option<i64> {
        let every = self.scheduled().last()?.every;
        every.or_else(|| self.usual_interval().filter(|_| self.is_judged()))
    }

    /// True if there are enough passes to judge the line. A few may be a test.
    pub fn is_judged(&self) -> bool {
        let entries = self.scheduled();
        let passes = entries.iter().map(|entry| entry.passes).fold(0, u64::saturating_add);
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return false };
        passes >= MIN_PASSES && last.last_began().0 - first.began.0 >= HOUR
    }

    /// The median of the times between the beginnings of two passes.
    fn usual_interval(&self) -> Option<i64> {
        let entries = self.scheduled();
        let between = entries.windows(2).map(|pair| pair[1].began.0 - pair[0].last_began().0);
        let within = entries.iter().filter(|entry| entry.passes > 1).map(|entry| {
            let others = i64::try_from(entry.passes - 1).unwrap_or(i64::MAX);
            (entry.last_began().0 - entry.began.0) / others
        });
        let mut all: Vec<_> = between.chain(within).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied()
    }

    /// The time at which the next pass is expected, unless one runs.
    pub fn next(&self) -> Option<Instant> {
        let last = self.scheduled().last()?.last_began();
        (!self.history.is_running).then_some(last.saturating_add(self.interval()?))
    }

    /// `last pass 3 m ago, every 5 m`
    pub fn summary(&self, screen: &Screen) -> String {
        if let Some(running) = self.history.running() {
            return running_text(&self.history, running, screen);
        }
        let last = self.scheduled().last().map(|last| screen.distance(last.last_began()));
        let every = self.interval().map(|secs| format!(", every {}", rough_span(secs)));
        format!("last pass {}{}", last.unwrap_or_default(), every.unwrap_or_default())
    }

    /// `no pass for 3 h: every 1 m expected`
    pub fn missing(&self, now: Instant) -> Option<String> {
        let silent = rough_span(self.overdue(now)?);
        let every = rough_span(self.interval()?);
        Some(match self.scheduled().last()?.every {
            Some(_) => format!("no pass for {silent}: every {every} expected"),
            None => format!("no pass for {silent}: usually every {every}"),
        })
    }

    /// End of the last pass, if it began at `began` and none runs.
    pub fn end_of_last(&self, began: Instant) -> Option<Instant> {
        let last = self.history.entries.last().filter(|_| !self.history.is_running)?;
        last.ended.filter(|_| last.last_began() == began)
    }

    /// Beginning of the last pass that tried everything due.
    pub fn last_complete(&self) -> Option<Instant> {
        let complete = self.history.entries.iter().filter(|entry| entry.is_complete);
        complete.map(PassEntry::last_began).max()
    }

    /// Time of the last event: a pass began or ended, or the running pass got an outcome.
    pub fn last_sign(&self) -> Option<Instant> {
        let ends = self.history.entries.iter().map(|entry| entry.ended.unwrap_or(entry.began));
        ends.chain(self.history.running().map(|running| running.last_outcome)).max()
    }

    pub fn last_success(&self) -> Option<Instant> {
        let succeeded = self.history.entries.iter().filter(|entry| entry.exit == Some(0));
        succeeded.filter_map(|entry| entry.ended).max()
    }

    /// Sentences about the last pass, the running one and the missing one. The flag marks an alarm.
    fn sentences(&self, screen: &Screen) -> impl Iterator<Item = (String, bool)> {
        let history = &self.history;
        let has_failed = |last: &PassEntry| matches!(last.end, None | Some(PassEnd::Failed));
        let last = history.last_ended().map(|last| (self.last(last, screen), has_failed(last)));
        let hangs = history.hangs_for(screen.now).is_some();
        let running =
            history.running().map(|running| (running_text(history, running, screen), hangs));
        let missing = self.missing(screen.now).map(|missing| (missing, true));
        [last, running, missing].into_iter().flatten()
    }

    /// The last pass, and the one before if the last ones found nothing.
    fn last(&self, last: &PassEntry, screen: &Screen) -> String {
        let at = last.last_began();
        let is_ahead = at.0.saturating_sub(screen.now.0) > SKEW_SECS;
        let entries = self.history.entries.iter().rev();
        let before = entries.skip_while(|entry| *entry != last).nth(1);
        // Passes that find nothing share an entry.
        let latest = before.map_or(last.began, |before| before.last_began().max(last.began));
        let is_behind = latest.0.saturating_sub(at.0) > SKEW_SECS && latest <= screen.now;
        let back = match (is_ahead, is_behind) {
            (true, _) => ", so the clock was set back",
            (false, true) => ", when the clock was behind",
            (false, false) => "",
        };
        let ago = format!("{}{back}", screen.distance(at));
        let text = format!("last pass {}, {ago}{}", screen.at(at), separated_result(last));
        match before.filter(|_| last.did_nothing()) {
            Some(before) => {
                let at = screen.at(before.last_began());
                format!("{text}; before that {at}{}", separated_result(before))
            }
            None => match self.history.killed_in_a_row() {
                0 | 1 => text,
                2 => format!("{text}, as was the one before"),
                killed => format!("{text}, as were {} before it", killed - 1),
            },
        }
    }

    fn json(&self, now: Instant) -> Json {
        let (history, running) = (&self.history, self.history.running());
        json!({
            "queue": history.line.queue,
            "table": history.line.table,
            "line": history.line.policy,
            "every_secs": self.interval(),
            "last": history.last_ended().map(|last| entry_json(last, history)),
            "running": running.map(|running| entry_json(running, history)),
            "last_outcome_at": running.map(|running| running.last_outcome),
            "hangs_for_secs": history.hangs_for(now),
            "slow_handlers": history.slow_handlers()
                .iter()
                .map(|(since, id)| json!({ "id": id, "since": since }))
                .collect::<Vec<_>>(),
            "no_pass_for_secs": self.overdue(now),
            "totals": history.totals,
        })
    }
}

/// Largest difference between clocks that is not reported.
const SKEW_SECS: i64 = 60;

/// `running since 01:12 (pid 9383), last outcome 4 m ago`
pub fn running_text(history: &LineHistory, running: &PassEntry, screen: &Screen) -> String {
    let last = match running.counts == PassCounts::default() {
        true => "no outcome yet".into(),
        false => format!("last outcome {}", screen.distance(running.last_outcome)),
    };
    let hangs = history.hangs_for(screen.now).map_or("", |_| ": it hangs");
    let (since, pid) = (screen.at(running.began), running.pid);
    let slow = history.slow_handlers();
    let listed = slow.iter().take(SLOW_LISTED);
    let listed = listed.map(|(since, id)| format!("{id} since {}", screen.at(*since)));
    let more = slow.len().saturating_sub(SLOW_LISTED) as u64;
    let more = (more > 0).then(|| format!("{} more", grouped(more)));
    let all = listed.chain(more).collect::<Vec<_>>().join(", ");
    let in_hand =
        if all.is_empty() { all } else { format!("; in hand: {all} (pass {})", running.run) };
    format!("running since {since} (pid {pid}), {last}{hangs}{in_hand}")
}

const SLOW_LISTED: usize = 3;

fn separated_result(entry: &PassEntry) -> String {
    let is_timed = entry.end.is_some() && !entry.did_nothing();
    format!("{}{}", if is_timed { ", " } else { ": " }, result_text(entry))
}

pub(super) fn pass_text(entry: &PassEntry, history: &LineHistory) -> String {
    if history.running() == Some(entry) { "running".into() } else { result_text(entry) }
}

/// `took 3.9 s: 4,055 succeeded, 945 failed`
fn result_text(entry: &PassEntry) -> String {
    let why = entry.error.as_deref().unwrap_or_default();
    let in_a_row = match entry.passes {
        0 | 1 => String::new(),
        passes => format!(", {} passes in a row", grouped(passes)),
    };
    let end = match entry.end {
        None => {
            let counts = counts_text(&entry.counts);
            let after = if counts.is_empty() { counts } else { format!(" after {counts}") };
            return format!("killed (pid {}){after}", entry.pid);
        }
        Some(PassEnd::Idle) => return format!("nothing was due{in_a_row}"),
        Some(PassEnd::Paused) if !entry.did_nothing() => "stopped by a pause".into(),
        Some(PassEnd::Paused) => return format!("paused{in_a_row}"),
        Some(PassEnd::Complete) if why.is_empty() => String::new(),
        Some(PassEnd::Complete) => format!("incomplete: {why}"),
        Some(PassEnd::MaxRuntime) => "stopped by --max-runtime".into(),
        Some(PassEnd::Signal(signal)) => format!("stopped by {}", signal_name(signal)),
        Some(PassEnd::Failed) => format!("failed: {why}"),
    };
    let mut parts = vec![counts_text(&entry.counts), end];
    parts.retain(|part| !part.is_empty());
    let done = if parts.is_empty() { "nothing was done".into() } else { parts.join("; ") };
    format!("took {}: {done}", duration_text(entry.took_ms))
}

fn counts_text(counts: &PassCounts) -> String {
    let PassCounts { succeeded, failed, snoozed, archived, interrupted, left } = *counts;
    let counts = [
        (succeeded, "succeeded"),
        (failed, "failed"),
        (snoozed, "snoozed"),
        (archived, "archived"),
        (interrupted, "interrupted"),
        (left, if left == 1 { "left as it was" } else { "left as they were" }),
    ];
    let some = counts.into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, what)| format!("{} {what}", grouped(count))).collect::<Vec<_>>().join(", ")
}

/// `3.9 s`; a minute or more in its largest unit.
fn duration_text(ms: u64) -> String {
    match i64::try_from(ms / 1_000) {
        Ok(secs @ 60..) => rough_span(secs),
        _ => format!("{:.1} s", ms as f64 / 1_000.0),
    }
}

fn entry_json(entry: &PassEntry, history: &LineHistory) -> Json {
    let end = match entry.end {
        None if history.running() == Some(entry) => json!("running"),
        None => json!("killed"),
        Some(PassEnd::Signal(_)) => json!("signal"),
        Some(end) => json!(end),
    };
    json!({
        "line": history.line.policy,
        "run": entry.run,
        "began_at": entry.began,
        "ended_at": entry.ended,
        "took_ms": entry.ended.map(|_| entry.took_ms),
        "end": end,
        "exit": entry.exit,
        "error": entry.error,
        "schedule": entry.schedule,
        "pid": entry.pid,
        "uid": entry.uid,
        "host": entry.host,
        "counts": entry.counts,
        "errors": entry.errors,
        "passes": entry.passes,
    })
}

pub fn passes_text(passes: &Passes, screen: &Screen) -> String {
    let mut text = String::new();
    if let Some((user, host)) = &passes.worker {
        let directory = match passes.directory.as_str() {
            "" => ": no state directory has a record of them; name one with --state-dir".into(),
            directory => format!(", in {directory}"),
        };
        text += &screen.wrap(&format!("passes of user {user} on {host}{directory}"));
    }
    for error in &passes.errors {
        text += &screen.wrap(&format!("some passes are not shown: {error}"));
    }
    if passes.lines.is_empty() && passes.errors.is_empty() {
        return text + "no pass is recorded\n";
    }
    for (sentence, _) in sentences(passes, screen) {
        text += &screen.wrap(&sentence);
    }
    text + &recent_text(passes, screen)
}

/// All sentences about the passes. With several lines, the policy comes before the sentence about a line.
pub(super) fn sentences(passes: &Passes, screen: &Screen) -> Vec<(String, bool)> {
    let of_line = |line: &LineReport| {
        let policy = format!("{}: ", screen.brief(&line.history.line.policy));
        let policy = if passes.lines().count() > 1 { policy } else { String::new() };
        let sentences = line.sentences(screen);
        let named = sentences.map(|(sentence, is_alarm)| (format!("{policy}{sentence}"), is_alarm));
        named.collect::<Vec<_>>()
    };
    let failing = passes.failing.iter();
    let failing = failing.map(|failing| (failing.sentence(|at| screen.at(at)), true));
    failing.chain(passes.lines().flat_map(of_line)).collect()
}

fn recent_text(passes: &Passes, screen: &Screen) -> String {
    let row = |(entry, history): (&PassEntry, &LineHistory)| {
        let what = pass_text(entry, history);
        vec![screen.at(entry.last_began()), screen.brief(&history.line.policy), what]
    };
    let rows: Vec<_> = passes.recent().into_iter().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let columns = vec![
        ScreenColumn::text("BEGAN", 20),
        ScreenColumn::text("LINE", 10).wide(60),
        ScreenColumn::text("PASS", 10),
    ];
    format!("\n{}", table(columns, &rows, screen))
}

/// The most urgent fact about the passes of a queue: the one that hangs, is missing, runs, or was the last.
pub fn passes_summary(passes: &Passes, screen: &Screen) -> String {
    let lines = || passes.lines();
    let hung = lines().find_map(|line| Some((line.history.hangs_for(passes.now)?, &line.history)));
    if let Some((silent, history)) = hung {
        let record = history.slow_handlers().first().map(|(_, id)| format!(", record {id}"));
        let (silent, record) = (rough_span(silent), record.unwrap_or_default());
        return format!("hangs, no outcome for {silent}{record}");
    }
    if let Some(silent) = lines().find_map(|line| line.overdue(passes.now)) {
        return format!("none for {}", rough_span(silent));
    }
    if let Some(running) = lines().find_map(|line| line.history.running()) {
        return format!("running since {}", screen.at(running.began));
    }
    let last =
        lines().filter_map(|line| line.history.last_ended()).max_by_key(|last| last.last_began());
    let Some(last) = last else { return "none is known".into() };
    let counts = PassCounts { succeeded: 0, ..last.counts };
    let end = match (last.end, &passes.failing) {
        (None, _) => "killed".into(),
        (Some(PassEnd::Failed), _) => "failed".into(),
        (Some(PassEnd::Paused), _) if last.did_nothing() => "paused".into(),
        (Some(_), Some(failing)) => format!("no success since {}", screen.at(failing.since)),
        (Some(_), None) if counts != PassCounts::default() => counts_text(&counts),
        (Some(_), None) => match passes.of_last_day(|day| day.archived) {
            0 => "ok".into(),
            archived => format!("{} archived in 24 h", grouped(archived)),
        },
    };
    format!("{}: {end}", screen.distance(last.last_began()))
}

pub fn passes_json(passes: &Passes) -> Json {
    let lines: Vec<_> = passes.lines().map(|line| line.json(passes.now)).collect();
    let (user, host) = passes.worker.clone().unzip();
    let entry = |(entry, history): (&PassEntry, &LineHistory)| entry_json(entry, history);
    let recent: Vec<_> = passes.recent().into_iter().map(entry).collect();
    json!({
        "failing": passes.failing,
        "directory": passes.directory,
        "user": user,
        "host": host,
        "errors": passes.errors,
        "lines": lines,
        "recent": recent,
    })
}
