//! The words that job tables use: of statuses, and in the names of columns.

#![expect(clippy::string_slice, reason = "offsets come from find")]

use std::collections::HashSet;
use std::sync::LazyLock;

/// Role that the name of a column tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    Status,
    Created,
    /// When it was done.
    Done,
    /// When it was given up for good.
    GivenUp,
    /// When it was called off.
    Cancelled,
    Deleted,
    /// When it failed, or failed last.
    Failed,
    /// In whose hand it is, and since when.
    Locked,
    /// When it was tried last.
    Tried,
    Due,
    Updated,
    Expires,
    /// How often it was tried, or failed.
    Attempts,
    MostAttempts,
    Error,
    /// Which of several queues it is in.
    Kind,
}

/// The words of each role, joined as in a name without the words for dates.
const WORDS: [(Word, &str); 16] = [
    (
        Word::Status,
        "status state status_name statename statusname state_name status_id status_code statut \
         status_enum status_text state_id state_code statecode",
    ),
    (
        Word::Created,
        "added add create created creation inserted insert insertion enqueued enqueue queued queue \
         submitted submission entered entry occurred received recorded raised registered requested \
         request stored arrived arrival emitted generated event row_created record_created \
         sys_created first_seen ctime cdate crdate datec dateline",
    ),
    (
        Word::Done,
        "processed finished finish completed complete completion sent delivered published \
         dispatched done handled succeeded consumed synced exported transmitted pushed notified \
         ended end finalized acknowledged relayed fulfilled imported uploaded indexed forwarded \
         mailed emailed concluded synchronized",
    ),
    (
        Word::GivenUp,
        "discarded abandoned dead given_up buried killed dead_lettered expired quarantined rejected",
    ),
    (Word::Cancelled, "cancelled canceled aborted revoked cancel_attempted"),
    (Word::Deleted, "deleted removed"),
    (
        Word::Failed,
        "failed fail failure last_failed last_failure last_fail errored error last_error",
    ),
    (
        Word::Locked,
        "locked lock reserved claimed grabbed grabbed_until leased lease acquired taken picked \
         picked_up locked_by lock_owner claimed_by reserved_by owner lock_token lock_key \
         locked_until lock_until lock_expires picked_by worker worker_id reserved_until \
         claimed_until claim claim_token leased_by lease_expires lease_expiration leased_until \
         lease_until locked_since lock_id pid",
    ),
    (
        Word::Tried,
        "last_attempt attempted last_attempted last_tried tried last_try last_run last_execution \
         last_processed last_executed last_retry last_sent started start performed executed begun \
         executing last_success processing_started attempt execution_started run_started ran began \
         processing_began dequeued fetched last_retried first_attempt last_send last_processing",
    ),
    (
        Word::Due,
        "delayed run scheduled schedule available next_attempt next_retry next_run next_try next due \
         process_after process visible execute execution send deliver deliver_after not_before \
         retry retry_after wait_until start_after run_after publish eta perform visible_after \
         visible_from invisible_until next_execution next_delivery next_send send_after \
         scheduled_for next_processing do_not_process_before delay_until delayed_until \
         next_attempt_after nextrun run_not_before hold_until planned planned_start dispatch \
         dispatch_after execute_after perform_after available_after available_from try_after \
         attempt_after retry_not_before next_due process_not_before earliest wake_up wakeup \
         next_fire scheduled_start scheduled_send postponed_until postpone_until snoozed_until \
         consume_after",
    ),
    (
        Word::Updated,
        "write touched updated update modified modification changed last_updated last_update \
         last_modified last_changed last_change edited last_activity lastmod upd mtime mdate tstamp \
         tms status_changed state_changed status_updated state_updated last_touched",
    ),
    (
        Word::Expires,
        "expires expire expiry expiration valid_until keep_until ttl timeout deadline valid_to \
         delete_after fail_after expire_after cancel_after abandon_after give_up_after purge_after retain_until remove_after best_before discard_after",
    ),
    (
        Word::Attempts,
        "attempt attempts try tries trys retry retries trial trials failures fails failure fail errors \
         executions",
    ),
    (
        Word::MostAttempts,
        "max_attempts max_tries maximum_attempts attempts_max max_attempt attempt_limit max_retries \
         max_retry retry_limit retries_max maximum_retries max_failures max_trials \
         max_attempt_count max_retry_count allowed_attempts max_executions",
    ),
    (
        Word::Error,
        "error error_message error_msg last_error last_error_message exception last_exception \
         failure_reason fail_reason error_text error_detail error_details err_msg \
         exception_message last_failure_message failure_message error_log last_failure_reason \
         error_reason failure exception_text err errmsg errormsg error_info error_string \
         error_description error_desc last_err failure_detail failure_details exception_details \
         exception_info stack_trace stacktrace traceback fail_message failreason errors \
         error_trace cause_message failure_cause last_failure_cause fault fault_message",
    ),
    (Word::Kind, "queue queue_name"),
];

/// Words that say that something is a date, and not which.
const OF_DATES: &str = "at on date time datetime timestamp stamp ts utc gmt when dt ms unix epoch";

/// A name in lower case, with `_` between its words as its case shows them.
pub fn snake(name: &str) -> String {
    let mut snake = String::new();
    let mut before = '_';
    for c in name.chars() {
        if c.is_ascii_uppercase() && before.is_ascii_lowercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
        before = c;
    }
    snake
}

/// The words of a name: `OccurredOn` is `occurred` and `on`, `timecreated` is `time` and `created`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = '_';
    for c in name.chars() {
        let begins = c.is_ascii_uppercase() && !before.is_ascii_uppercase();
        if (begins || !c.is_ascii_alphanumeric()) && words.last().is_some_and(|it| !it.is_empty()) {
            words.push(String::new());
        }
        if c.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words.iter().flat_map(|word| parts(word)).collect()
}

/// The known words that one is made of, as where a database folds the case of `nextAttemptTime`; the
/// word itself if it is known, or if something of it is not.
fn parts(word: &str) -> Vec<String> {
    static KNOWN: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        let of_roles = WORDS.iter().flat_map(|(_, words)| words.split([' ', '_']));
        of_roles.chain(OF_DATES.split(' ')).chain(OF_COUNTS.split(' ')).collect()
    });
    let is_known = |part: &str| KNOWN.contains(part);
    // Where each known part begins that leads from the start to here, the longest parts first.
    let mut begins: Vec<Option<usize>> = vec![None; word.len() + 1];
    for end in 1..=word.len() {
        begins[end] = (0..end).find(|begin| {
            let is_reached = *begin == 0 || begins[*begin].is_some();
            is_reached && word.get(*begin..end).is_some_and(is_known)
        });
    }
    let (mut parts, mut end) = (Vec::new(), word.len());
    while let Some(begin) = begins[end] {
        parts.insert(0, word[begin..end].to_string());
        end = begin;
    }
    if end > 0 || parts.is_empty() { vec![word.into()] } else { parts }
}

/// The roles that a name tells. `prefix` begins the names of all columns of the table.
pub fn roles(name: &str, prefix: &str) -> Vec<Word> {
    let bare = name.strip_prefix(prefix).filter(|it| !it.is_empty()).unwrap_or(name);
    let words = words(bare);
    let is_date = |word: &String| has(OF_DATES, word);
    let without: Vec<_> = words.iter().filter(|word| !is_date(word)).cloned().collect();
    let (joined, dateless) = (words.join("_"), without.join("_"));
    let is_said = |role: Word, known: &str| match role {
        Word::Status => {
            known.split(' ').any(|it| joined == it || joined.ends_with(&format!("_{it}")))
        }
        // Without a word for dates they are texts or numbers.
        Word::Error | Word::MostAttempts | Word::Kind => has(known, &joined),
        Word::Attempts => is_count(&words, known),
        // `is_sent` says the same of a truth.
        Word::Done => has(known, dateless.strip_prefix("is_").unwrap_or(&dateless)),
        Word::Created
        | Word::GivenUp
        | Word::Cancelled
        | Word::Deleted
        | Word::Failed
        | Word::Locked
        | Word::Tried
        | Word::Due
        | Word::Updated
        | Word::Expires => has(known, &dateless),
    };
    let roles = WORDS.into_iter().filter(|(role, known)| is_said(*role, known));
    let mut roles: Vec<_> = roles.map(|(role, _)| role).collect();
    // `InsertIntoDB`, `job_created`
    let is_creation = |word: &String| has("insert inserted create created added enqueued", word);
    let ends = [words.first(), without.last()];
    if roles.is_empty() && ends.into_iter().flatten().any(is_creation) {
        roles.push(Word::Created);
    }
    // `LastSendAttemptDate`
    let is_trial = |word: &String| {
        has("attempt attempted try tried retry retried run send sent execution executed", word)
    };
    if roles.is_empty() && words.iter().any(|it| it == "last") && without.iter().any(is_trial) {
        roles.push(Word::Tried);
    }
    if roles.is_empty() && is_due(&words) {
        roles.push(Word::Due);
    }
    roles
}

/// Whether the words of a date say that nothing is tried before: `next_retry_after`,
/// `dont_send_before`.
fn is_due(words: &[String]) -> bool {
    let dateless = words.iter().filter(|word| !has(OF_DATES, word)).collect::<Vec<_>>();
    let has_any = |of: &str| dateless.iter().any(|word| has(of, word));
    dateless.first().is_some_and(|word| *word == "next")
        || has_any("not dont don no never hold wait delay postpone") && has_any("before until")
        || dateless.len() > 1 && dateless.last().is_some_and(|word| *word == "after")
}

/// Words beside that of what is counted.
const OF_COUNTS: &str = "num number count counter counts cnt nb of times no total failed send sent delivery \
                         processing process execution consecutive made current job error task so far done \
                         used";

/// Whether a name is that of a count of such things: `number_of_retries`, `failed_attempts`.
fn is_count(words: &[String], counted: &str) -> bool {
    let is_counted = |word: &String| has(counted, word);
    let counts = |word: &String| has("num number count counter counts times cnt nb", word);
    let is_alone = |word: &str| ["failure", "fail", "errors", "error"].contains(&word);
    let is_one =
        words.iter().any(is_counted) || words.iter().any(|it| it == "error" || it == "failed");
    words.iter().all(|word| is_counted(word) || has(OF_COUNTS, word))
        && is_one
        && (words.iter().any(counts) || words.iter().any(|it| is_counted(it) && !is_alone(it)))
}

/// Whether a word is one of these, which have blanks between them.
fn has(words: &str, word: &str) -> bool {
    words.split(' ').any(|it| it == word)
}

/// Whether a name has words for dates and no others: `timestamp`, `date`.
pub fn is_just_a_date(name: &str, prefix: &str) -> bool {
    let bare = name.strip_prefix(prefix).filter(|it| !it.is_empty()).unwrap_or(name);
    words(bare).iter().all(|word| has(OF_DATES, word) || word == "clock")
}

/// What the names of nearly all columns begin with, up to a `_`: `job_`.
pub fn common_prefix<'a>(names: &[&'a str]) -> &'a str {
    let mut prefixes = names.iter().filter_map(|name| Some(&name[..=name.find('_')?]));
    let shares = |prefix: &&str| {
        names.iter().filter(|it| it.starts_with(prefix)).count() * 5 >= names.len() * 4
    };
    prefixes.find(shares).filter(|_| names.len() > 2).unwrap_or("")
}

/// Meaning of a value of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    New,
    /// NEW, and not before a date.
    Later,
    /// NEW where nothing else is: else something before or behind that.
    Entered,
    /// Failed, and tried again.
    Retry,
    /// Failed, and either.
    Failed,
    Success,
    GivenUp,
    /// In somebody's hand, or called off: not to be touched.
    Other,
}

/// The usual words of statuses. Of several that mean NEW, those come first that a new row has.
const STATUSES: [(Meaning, &str); 8] = [
    (
        Meaning::New,
        "new pending queued available waiting unsent todo enqueued unprocessed wait queue \
         initial not_processed awaiting to_do to_send outgoing not_started not_sent unpublished \
         undelivered init initialized to_be_sent to_be_processed to_process unhandled unsynced \
         not_synced in_queue inqueue pending_send unexported not_exported not_run not_delivered \
         waiting_to_run fresh untried",
    ),
    (Meaning::Later, "scheduled delayed planned postponed upcoming snoozed future"),
    (
        Meaning::Entered,
        "created open submitted received requested inserted idle registered accepted ready",
    ),
    (
        Meaning::Retry,
        "retry retrying retryable requeued to_retry retry_required deferred rescheduled \
         temporary_failure failed_retry awaiting_retry failing pending_retry retry_wait \
         waiting_retry up_for_retry temp_failed will_retry try_again retry_pending \
         retry_scheduled scheduled_retry retry_later backoff backing_off waiting_for_retry \
         failed_will_retry failed_retryable transient_error temporarily_failed temporary_error \
         soft_failed",
    ),
    (
        Meaning::Failed,
        "failed error failure errored fail err exception faulted crashed unsuccessful timeout \
         timed_out timedout",
    ),
    (
        Meaning::Success,
        "success succeeded successful done completed complete sent processed finished delivered \
         ok published handled executed acknowledged acked dispatched synced succeed fulfilled \
         exported imported uploaded transmitted notified forwarded consumed emailed mailed \
         synchronized finalized completed_with_warnings completed_with_errors partial_success",
    ),
    (
        Meaning::GivenUp,
        "dead discarded killed abandoned exhausted given_up buried dead_letter dead_lettered deadletter \
         permanent_failure permanently_failed undeliverable failed_permanently permanent_error \
         max_attempts_reached retries_exhausted fatal unrecoverable archived terminated excluded \
         removed",
    ),
    (
        Meaning::Other,
        "revoked bounced invalid closed opened clicked ignored unsubscribed spam running processing \
         in_progress inprogress active started working executing locked \
         sending reserved acquired leased busy claimed picked fetched cancelled canceled cancel \
         paused suspended cancel_requested on_hold hold held blocked draft skipped deleted \
         cancelling doing aborted stopped disabled taken delivering in_process in_delivery \
         in_flight inflight in_work expired obsolete rejected superseded duplicate duplicated skip no_op \
         noop nothing_to_do not_needed not_applicable assigned suppressed opted_out complained \
         complaint denied refused void voided withdrawn invalidated template pending_approval \
         awaiting_approval waiting_for_approval waiting_for_parent waiting_for_children \
         waiting_children scheduled_deletion blacklisted hard_bounce hard_bounced",
    ),
];

/// How many words of [`Meaning::GivenUp`] can mean nothing else.
pub const SURELY_GIVEN_UP: usize = 19;

/// Whether a word that nobody knows can be one of a record that is to be tried, first or again.
pub fn may_wait(value: &str) -> bool {
    let parts = plain(value.trim());
    let begins = |part: &String| {
        let beginnings = [
            "retr", "resch", "requ", "resend", "wait", "await", "queu", "enqu", "pend", "sched",
            "delay", "defer", "postp", "later", "next", "again", "try", "tried", "un", "not", "in",
            "to", "for", "part", "new", "init", "creat", "stag", "prep", "ready", "avail", "open",
            "due", "temp", "soft", "back", "need", "miss", "incomp", "stal", "lost", "block",
        ];
        beginnings.iter().any(|it| part.starts_with(it))
    };
    parts.is_empty() || parts.iter().any(begins)
}

/// The meaning of a value, and its place among those that mean the same.
pub fn meaning(value: &str) -> Option<(Meaning, usize)> {
    let parts = plain(value.trim());
    let value = parts.join("_");
    let usual = STATUSES.iter().find_map(|(meaning, words)| {
        Some((*meaning, words.split(' ').position(|word| word == value)?))
    });
    // `transmission_error`, but not `not_failed`
    let is_failure = || match &parts[..] {
        [first, .., last] => {
            !has("not un to pre for awaiting partially", first) && has("failed error failure", last)
        }
        _ => false,
    };
    // `submitting`: somebody is at it.
    let is_at_it = || value.ends_with("ing") && !value.contains("wait") && !value.contains("retry");
    usual
        .or_else(|| is_failure().then_some((Meaning::Failed, usize::MAX)))
        .or_else(|| is_at_it().then_some((Meaning::Other, usize::MAX)))
}

/// The words of a value, in lower case.
fn plain(value: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut before = ' ';
    for c in value.chars() {
        let begins = c.is_ascii_uppercase() && before.is_ascii_lowercase();
        if words.is_empty() || begins || !c.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    words.retain(|word: &String| !word.is_empty());
    words
}

/// What all of several values begin with, up to a sign between words: `SERVICE_`.
pub fn prefix_of_values<'a>(values: &[&'a str]) -> &'a str {
    let Some(first) = values.first().filter(|_| values.len() > 2) else { return "" };
    let mut ends =
        first.rmatch_indices(['_', '-', '.', ':', ' ']).map(|(at, sign)| at + sign.len());
    let shared = |end: &usize| values.iter().all(|value| value.starts_with(&first[..*end]));
    ends.find(shared).map_or("", |end| &first[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_every_case() {
        for (name, role) in [
            ("created_at", Word::Created),
            ("OccurredOn", Word::Created),
            ("timecreated", Word::Created),
            ("date_entered", Word::Created),
            ("CreatedOnUtc", Word::Created),
            ("run_at", Word::Due),
            ("next_attempt_at", Word::Due),
            ("scheduled_date_gmt", Word::Due),
            ("ProcessedOn", Word::Done),
            ("locked_by", Word::Locked),
            ("max_attempts", Word::MostAttempts),
            ("job_state", Word::Status),
            ("number_of_retries", Word::Attempts),
            ("error_message", Word::Error),
        ] {
            assert_eq!(roles(name, ""), [role], "{name}");
        }
        assert_eq!(roles("job_timestamp", "job_"), []);
        assert!(is_just_a_date("job_timestamp", "job_"));
        for name in ["id", "payload", "process", "run", "sender", "user_id", "attempts_left"] {
            let dates = [Word::Created, Word::Done, Word::Attempts];
            assert!(roles(name, "").iter().all(|role| !dates.contains(role)), "{name}");
        }
    }

    #[test]
    fn a_word_of_a_status_is_read_in_every_case() {
        assert_eq!(meaning("PENDING").map(|it| it.0), Some(Meaning::New));
        assert_eq!(meaning("In Progress").map(|it| it.0), Some(Meaning::Other));
        assert_eq!(meaning("not sent").map(|it| it.0), Some(Meaning::New));
        assert_eq!(meaning("flagged"), None);
    }

    #[test]
    fn no_word_of_a_status_means_two_things() {
        let all: Vec<_> = STATUSES.iter().flat_map(|(_, words)| words.split(' ')).collect();
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(all.len(), distinct.len());
    }
}
