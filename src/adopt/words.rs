//! The words that job tables use: of statuses, and in the names of columns.

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
        "status state status_name statename statusname state_name status_id status_code",
    ),
    (
        Word::Created,
        "add created create creation inserted insert insertion enqueued enqueue queued added \
         submitted entered occurred received recorded raised registered requested stored",
    ),
    (
        Word::Done,
        "processed finished finish completed complete completion sent delivered published \
         dispatched done handled succeeded consumed synced exported transmitted pushed notified \
         ended end finalized acknowledged relayed",
    ),
    (Word::GivenUp, "discarded abandoned dead given_up buried killed dead_lettered expired"),
    (Word::Cancelled, "cancelled canceled aborted revoked cancel_attempted"),
    (Word::Deleted, "deleted removed"),
    (Word::Failed, "failed failure last_failed last_failure errored last_error"),
    (
        Word::Locked,
        "locked lock reserved claimed grabbed grabbed_until leased lease acquired taken picked \
         picked_up locked_by lock_owner claimed_by reserved_by owner lock_token lock_key \
         locked_until lock_until lock_expires picked_by worker worker_id",
    ),
    (
        Word::Tried,
        "last_attempt attempted last_attempted last_tried tried last_try last_run last_execution \
         last_processed last_executed last_retry last_sent started start performed executed begun \
         executing last_success processing_started",
    ),
    (
        Word::Due,
        "delayed run scheduled schedule available next_attempt next_retry next_run next_try next due \
         process_after process visible execute execution send deliver deliver_after not_before \
         retry retry_after wait_until start_after run_after publish eta perform visible_after \
         visible_from invisible_until next_execution next_delivery next_send send_after \
         scheduled_for next_processing do_not_process_before delay_until delayed_until \
         next_attempt_after nextrun run_not_before hold_until",
    ),
    (
        Word::Updated,
        "write touched updated update modified modification changed last_updated last_update \
         last_modified last_changed edited last_activity lastmod",
    ),
    (Word::Expires, "expires expire expiry expiration valid_until keep_until ttl timeout"),
    (
        Word::Attempts,
        "attempt attempts try tries trys retry retries trial trials failures fails failure fail errors \
         executions",
    ),
    (
        Word::MostAttempts,
        "max_attempts max_tries maximum_attempts attempts_max max_attempt attempt_limit",
    ),
    (
        Word::Error,
        "error error_message error_msg last_error last_error_message exception last_exception \
         failure_reason fail_reason error_text error_detail error_details err_msg \
         exception_message last_failure_message failure_message error_log last_failure_reason \
         error_reason failure exception_text",
    ),
    (Word::Kind, "queue queue_name"),
];

/// Words that say that something is a date, and not which.
const OF_DATES: &str = "at on date time datetime timestamp stamp ts utc gmt when dt ms unix epoch";

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
    let known =
        || WORDS.iter().flat_map(|(_, words)| words.split([' ', '_'])).chain(OF_DATES.split(' '));
    let is_known = |part: &str| known().any(|it| it == part) || has(OF_COUNTS, part);
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
        Word::Created
        | Word::Done
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
    // `InsertIntoDB`
    let begins = |first: &String| has("insert inserted create created added enqueued", first);
    if roles.is_empty() && words.first().is_some_and(begins) {
        roles.push(Word::Created);
    }
    roles
}

/// Words beside that of what is counted.
const OF_COUNTS: &str = "num number count counter counts of times no total failed send sent delivery \
                         processing process execution consecutive made current job error made task";

/// Whether a name is that of a count of such things: `number_of_retries`, `failed_attempts`.
fn is_count(words: &[String], counted: &str) -> bool {
    let is_counted = |word: &String| has(counted, word);
    let counts = |word: &String| has("num number count counter counts times", word);
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
        "new pending queued available waiting ready unsent todo enqueued unprocessed wait queue \
         initial not_processed awaiting to_do to_send outgoing not_started not_sent unpublished \
         undelivered",
    ),
    (Meaning::Later, "scheduled delayed planned postponed upcoming"),
    (Meaning::Entered, "created open submitted received requested inserted idle registered"),
    (
        Meaning::Retry,
        "retry retrying retryable requeued to_retry retry_required deferred rescheduled \
         temporary_failure failed_retry awaiting_retry failing pending_retry retry_wait \
         waiting_retry up_for_retry temp_failed",
    ),
    (Meaning::Failed, "failed error failure errored fail err exception"),
    (
        Meaning::Success,
        "success succeeded successful done completed complete sent processed finished delivered \
         ok published handled executed acknowledged acked dispatched synced succeed fulfilled",
    ),
    (
        Meaning::GivenUp,
        "dead discarded killed abandoned exhausted given_up buried dead_letter dead_lettered deadletter \
         permanent_failure permanently_failed undeliverable archived terminated excluded \
         removed",
    ),
    (
        Meaning::Other,
        "revoked bounced invalid closed opened clicked ignored unsubscribed spam running processing in_progress inprogress active started working executing locked \
         sending reserved acquired leased busy claimed picked fetched cancelled canceled cancel \
         paused suspended cancel_requested on_hold hold held blocked draft skipped deleted \
         cancelling doing aborted stopped disabled taken delivering in_process in_delivery \
         in_flight inflight expired obsolete",
    ),
];

/// How many words of [`Meaning::GivenUp`] can mean nothing else.
pub const SURELY_GIVEN_UP: usize = 13;

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
