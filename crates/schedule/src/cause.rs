//! Causes: groups of errors that are equal once numbers, paths, quoted text and other values of records become `*`.
//! Numbers that identify an error stay: after a word such as `HTTP` or `signal`, and at the end of a name (`db1`).

use std::collections::HashMap;

use crate::hash::fnv1a64;
use crate::id::Id;
use crate::last_error;
use crate::record::Record;
use crate::text::cut_line;
use crate::time::Instant;

/// Maximum number of digits at the end of a name that belong to it.
const NAME_DIGITS: usize = 2;
const ANY: char = '*';
/// Number of characters of an error that are compared.
pub const COMPARED: usize = 500;
/// Maximum number of characters of an error that a group keeps.
const KEPT: usize = 4096;
const CODE_WORDS: [&str; 10] =
    ["http", "status", "signal", "code", "errno", "error", "exit", "exited", "sqlstate", "curl"];
/// Maximum number of groups. Later errors form one more group.
const MOST_GROUPS: usize = 10_000;
const TOO_MANY: &str = "(other errors: there are more than 10,000 causes)";
const UNKNOWN: &str = "(no error is known)";
const SAMPLES: usize = 3;

/// The folded text that all errors of a group share.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cause(String);

impl Cause {
    pub fn new(last_error: Option<&str>) -> Self {
        Self(bare(last_error).map_or_else(|| UNKNOWN.into(), fold))
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// A short id, the same in every run and on every machine.
    pub fn id(&self) -> String {
        format!("{:08x}", fnv1a64(self.0.as_bytes()) >> 32)
    }
}

fn bare(last_error: Option<&str>) -> Option<&str> {
    last_error.map(last_error::bare).filter(|error| !error.trim().is_empty())
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CauseGroup {
    /// The newest error, on one line.
    pub error: String,
    pub records: u64,
    /// The first and the last failure, if known.
    pub since: Option<Instant>,
    pub until: Option<Instant>,
    pub samples: Vec<Id>,
}

impl CauseGroup {
    fn add(&mut self, id: &Id, error: &str, at: Option<Instant>) {
        if at >= self.until {
            let error: String = error.chars().take(KEPT).collect();
            self.error = on_one_line(&error);
        }
        self.records += 1;
        self.since = self.since.into_iter().chain(at).min();
        self.until = self.until.max(at);
        if self.samples.len() < SAMPLES {
            self.samples.push(id.clone());
        }
    }
}

/// Failed records, grouped by cause. The number of groups is bounded, because all errors may differ.
#[derive(Debug, Clone, Default)]
pub struct Causes(HashMap<Cause, CauseGroup>);

impl Causes {
    pub fn add(&mut self, record: &Record) {
        self.add_error(&record.id, record.last_error.as_deref(), record.last_failure_at);
    }

    pub fn add_error(&mut self, id: &Id, error: Option<&str>, at: Option<Instant>) {
        let mut cause = Cause::new(error);
        if self.0.len() >= MOST_GROUPS && !self.0.contains_key(&cause) {
            cause = Cause(TOO_MANY.into());
        }
        let text = cause.0.clone();
        let group = self.0.entry(cause).or_default();
        group.add(id, bare(error).filter(|_| text != TOO_MANY).unwrap_or(&text), at);
    }

    pub fn add_dates(&mut self, known: &HashMap<String, (Instant, Instant)>) {
        for (cause, group) in &mut self.0 {
            let Some((since, until)) = known.get(&cause.id()) else { continue };
            group.since = group.since.into_iter().chain([*since]).min();
            group.until = group.until.or(Some(*until));
        }
    }

    pub fn groups(&self) -> impl Iterator<Item = (&Cause, &CauseGroup)> {
        self.0.iter()
    }

    pub fn ranked(&self) -> Vec<(&Cause, &CauseGroup)> {
        let mut groups: Vec<_> = self.0.iter().collect();
        groups.sort_by(|(one, a), (other, b)| b.records.cmp(&a.records).then(one.cmp(other)));
        groups
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn cause_of(&self, last_error: Option<&str>) -> Cause {
        let cause = Cause::new(last_error);
        if self.0.contains_key(&cause) { cause } else { Cause(TOO_MANY.into()) }
    }

    /// The group with this id; otherwise the groups whose pattern or newest error contains the text.
    pub fn matching(&self, pattern: &str) -> Vec<(&Cause, &CauseGroup)> {
        let mut groups = self.ranked();
        if let Some(at) = groups.iter().position(|(cause, _)| cause.id() == pattern) {
            return vec![groups.swap_remove(at)];
        }
        let wanted = pattern.to_lowercase();
        // The text of `UNKNOWN` is no error.
        groups.retain(|(cause, group)| {
            let texts = [&cause.0, &group.error];
            cause.0 != UNKNOWN && texts.iter().any(|text| text.to_lowercase().contains(&wanted))
        });
        groups
    }

    /// The only cause that matches an id or a text.
    pub fn find(&self, pattern: &str) -> Result<Cause, String> {
        if pattern.trim().is_empty() {
            return Err("write the id of a group, or a text of its error".into());
        }
        let matching = self.matching(pattern);
        let display = |(cause, group): &(&Cause, &CauseGroup)| {
            format!("{} {}", cause.id(), cut_line(&group.error))
        };
        match matching[..] {
            [(cause, _)] => Ok(cause.clone()),
            [] if self.0.len() > MOST_GROUPS => Err(format!(
                "no cause matches {pattern:?} among the first {MOST_GROUPS}; choose by --where"
            )),
            [] => Err(format!("no cause matches {pattern:?}; `backlog failures` lists them")),
            _ => Err(format!(
                "{} causes match {pattern:?}; choose one by its id: {}",
                matching.len(),
                matching.iter().take(5).map(display).collect::<Vec<_>>().join("; ")
            )),
        }
    }
}

fn fold(error: &str) -> String {
    let error: String = error.chars().take(COMPARED).collect();
    let error = on_one_line(&error);
    let mut folded = String::with_capacity(error.len());
    let mut rest = &*error;
    while let Some(first) = rest.chars().next() {
        rest = if let Some(after) = after_quoted(rest, &folded) {
            folded.extend([first, ANY, first]);
            after
        } else if first.is_alphanumeric() || first == '/' || first == '~' {
            let word = first_word(rest);
            fold_word(word, &mut folded);
            rest.strip_prefix(word).unwrap_or_default()
        } else {
            folded.push(first);
            rest.strip_prefix(first).unwrap_or_default()
        };
    }
    folded
}

fn on_one_line(error: &str) -> String {
    let error = without_colours(error).replace(char::is_control, " ");
    error.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Removes control sequences, which colour a text on a terminal (ECMA-48).
fn without_colours(error: &str) -> String {
    let mut parts = error.split("\u{1b}[");
    let mut text = String::from(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.split_once(|c| ('@'..='~').contains(&c));
        text += end.map_or("", |(_, after)| after);
    }
    text
}

/// The text after a quoted text at the beginning, if there is one. An apostrophe within a word is no quote.
fn after_quoted<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    let quote = text.chars().next().filter(|c| ['\'', '"', '`'].contains(c))?;
    if before.ends_with(char::is_alphanumeric) {
        return None;
    }
    let ends = text.match_indices(quote).skip(1);
    let mut after = ends.filter_map(|(at, quote)| text.get(at + quote.len()..));
    after.find(|after| !after.starts_with(char::is_alphanumeric))
}

/// A word ends at a blank or a character that no path, number, instant or URL contains.
fn first_word(text: &str) -> &str {
    let is_inside = |c: char| c.is_alphanumeric() || "/.:-_~+%@?&#\\".contains(c);
    let is_of_url = |c: char| !c.is_whitespace() && !"'\"<>()`".contains(c);
    let word = text.split(|c| !is_inside(c)).next().unwrap_or_default();
    let url = text.split_once(|c| !is_of_url(c)).filter(|_| word.contains("://"));
    // Final punctuation belongs to the sentence.
    url.map_or(word, |(url, _)| url).trim_end_matches(['.', ':', '?', '-'])
}

fn fold_word(word: &str, folded: &mut String) {
    let is_short_number = word.len() <= 5 && word.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((scheme, rest)) = word.split_once("://") {
        // The host identifies the service.
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        *folded += &format!("{scheme}://");
        fold_numbers(host, folded);
        *folded += if host.len() < rest.len() { "/*" } else { "" };
    } else if is_path(word) || is_address(word) || is_hexadecimal(word) {
        folded.push(ANY);
    } else if is_short_number && ends_with_code_word(folded) {
        folded.push_str(word);
    } else {
        fold_numbers(word, folded);
    }
}

fn ends_with_code_word(before: &str) -> bool {
    let before = before.trim_end_matches([' ', '=', '(', '#', ':']);
    let last = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    CODE_WORDS.iter().any(|word| last.eq_ignore_ascii_case(word))
}

/// Replaces each run of digits, with the punctuation of numbers and instants.
fn fold_numbers(word: &str, folded: &mut String) {
    let is_digit = |c: char| c.is_ascii_digit();
    let mut rest = word;
    while let Some((before, number)) = rest.find(is_digit).and_then(|at| rest.split_at_checked(at))
    {
        let digits = number.split(|c| !is_digit(c)).next().unwrap_or_default();
        let is_of_name = digits.len() <= NAME_DIGITS && before.ends_with(char::is_alphabetic);
        let span = number.split(|c| !is_digit(c) && !".:-+/TZ".contains(c)).next();
        let span = span.unwrap_or_default().trim_end_matches(['.', ':', '-', '+', '/', 'T']);
        *folded += before;
        *folded += if is_of_name { digits } else { "*" };
        rest = number.strip_prefix(if is_of_name { digits } else { span }).unwrap_or_default();
    }
    folded.push_str(rest);
}

fn is_path(word: &str) -> bool {
    let path = word.strip_prefix('/').or(word.strip_prefix("~/"));
    path.is_some_and(|path| !path.is_empty() && !path.starts_with('/'))
}

/// True for `anna@x.example`, but not for a name with a version, `left-pad@1.3.0`.
fn is_address(word: &str) -> bool {
    word.split_once('@').is_some_and(|(user, host)| {
        let is_of_host = |c: char| c.is_alphanumeric() || ['.', '-'].contains(&c);
        let end = host.rsplit('.').next().unwrap_or_default();
        !user.is_empty() && host.chars().all(is_of_host) && end.starts_with(char::is_alphabetic)
    })
}

/// True for eight hexadecimal digits or more, one of them decimal, with or without hyphens; and for `0x` and any.
fn is_hexadecimal(word: &str) -> bool {
    let is_hex = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    };
    let prefixed = word.strip_prefix("0x").or(word.strip_prefix("0X"));
    let is_long = word.len() >= 8 && word.bytes().any(|byte| byte.is_ascii_digit());
    prefixed.map_or_else(|| is_long && is_hex(word), is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_record_are_folded() {
        for (error, expected) in [
            ("connection refused", "connection refused"),
            (
                "could not connect to 10.0.0.7:5432: connection refused",
                "could not connect to *: connection refused",
            ),
            ("order 17 of customer 4711 is unknown", "order * of customer * is unknown"),
            ("HTTP 503 Service Unavailable", "HTTP 503 Service Unavailable"),
            ("HTTP 422: field 'amount' is -17", "HTTP 422: field '*' is -*"),
            ("exit status 3", "exit status 3"),
            ("killed by signal 9", "killed by signal 9"),
            ("Connection refused (os error 111)", "Connection refused (os error 111)"),
            ("status=503 id=99 code: 42", "status=503 id=* code: 42"),
            ("error 12345678 in 3 tries", "error * in * tries"),
            ("no such file: /var/spool/out/17.json", "no such file: *"),
            ("open ~/x/y: denied.", "open *: denied."),
            (
                "GET https://api.example.com/orders/17?x=1 failed",
                "GET https://api.example.com/* failed",
            ),
            ("GET https://api.example.com failed", "GET https://api.example.com failed"),
            ("job 550e8400-e29b-41d4-a716-446655440000 timed out", "job * timed out"),
            ("at 0x7ffe12ab", "at *"),
            ("550 no such user <u14@x.example>", "* no such user <*>"),
            ("no such user: Anna.B+c@x.example.", "no such user: *."),
            ("could not load left-pad@1.3.0", "could not load left-pad@*"),
            ("commit deadbeef1 is gone", "commit * is gone"),
            ("deadbeef facade", "deadbeef facade"),
            ("since 2026-11-21T03:40:00Z", "since *"),
            ("since 2026-11-21 03:40:00.25 UTC", "since * * UTC"),
            ("2026-11-21T05:40:00+02:00 late", "* late"),
            ("duplicate key \"order_17\"", "duplicate key \"*\""),
            ("duplicate key 'it's'", "duplicate key '*'"),
            ("can't open it, won't try", "can't open it, won't try"),
            ("column `a b` is 'missing", "column `*` is 'missing"),
            ("took 1.5 s, 30%", "took * s, *%"),
            ("a\nb\t c", "a b c"),
            ("Fehler bei Größe 17", "Fehler bei Größe *"),
            ("cannot reach db1 by utf8", "cannot reach db1 by utf8"),
            ("order17a of user123", "order17a of user*"),
            ("curl: (7) Failed to connect", "curl: (7) Failed to connect"),
            ("\u{1b}[1;31mred 17\u{1b}[0m alert", "red * alert"),
        ] {
            assert_eq!(fold(error), expected, "{error}");
            assert_eq!(fold(&fold(error)), fold(error), "folded twice: {error}");
        }
    }

    #[test]
    fn the_notes_in_front_of_an_error_are_not_part_of_its_cause() {
        for error in [
            "HTTP 503",
            "snoozed until 2026-11-21T03:40:00Z: HTTP 503",
            "snoozed until 2026-11-21T03:40:00Z: outcome unknown (key 17): HTTP 503",
            "not sent: HTTP 503",
            "next key 17: HTTP 503",
        ] {
            assert_eq!(Cause::new(Some(error)).text(), "HTTP 503", "{error}");
        }
        assert_eq!(Cause::new(None), Cause::new(Some(" ")));
    }

    #[test]
    fn an_id_never_changes() {
        assert_eq!(Cause::new(Some("HTTP 503 for order 17")).id(), "676c6d32");
        assert_eq!(Cause::new(None).id(), "88c7421e");
    }

    #[test]
    fn a_group_is_found_by_its_id_or_by_a_text_of_its_own() {
        let mut causes = Causes::default();
        for (id, error) in [(1, "HTTP 503"), (2, "HTTP 503"), (3, "HTTP 422"), (4, "no route")] {
            let at = Some(Instant(id));
            causes.add_error(&Id::Integer(id), Some(error), at);
        }
        let ranked = causes.ranked();
        assert_eq!(ranked[0].0.text(), "HTTP 503");
        assert_eq!(ranked[0].1.samples, [Id::Integer(1), Id::Integer(2)]);
        assert_eq!((ranked[0].1.since, ranked[0].1.until), (Some(Instant(1)), Some(Instant(2))));
        let id = ranked[2].0.id();
        assert_eq!(causes.find(&id).unwrap().text(), "no route");
        assert_eq!(causes.find("ROUTE").unwrap().text(), "no route");
        let several = causes.find("HTTP").unwrap_err();
        assert!(
            several.starts_with("2 causes match \"HTTP\"; choose one by its id: "),
            "{several}"
        );
        assert_eq!(
            causes.find("nothing").unwrap_err(),
            "no cause matches \"nothing\"; `backlog failures` lists them"
        );
    }

    #[test]
    fn a_group_shows_its_newest_error_whole() {
        let mut causes = Causes::default();
        let long = "x".repeat(COMPARED);
        for (at, error) in
            [(7, "timed out after 5s"), (9, "timed out after 6s"), (8, "timed out after 7s")]
        {
            causes.add_error(&Id::Integer(at), Some(error), Some(Instant(at)));
        }
        causes.add_error(&Id::Integer(1), Some(&format!("\u{1b}[31m{long}\n 17\u{1b}[0m")), None);
        causes.add_error(&Id::Integer(1), Some(" "), None);
        let errors: Vec<_> = causes.ranked().iter().map(|(_, group)| group.error.clone()).collect();
        assert_eq!(errors, ["timed out after 6s", UNKNOWN, &format!("{long} 17")]);
        // By the folded text and by the newest error.
        for pattern in ["after *s", "AFTER 6S"] {
            assert_eq!(causes.find(pattern).unwrap().text(), "timed out after *s");
        }
        assert!(causes.find("after 7s").is_err());
    }

    #[test]
    fn the_number_of_groups_is_bounded() {
        let mut causes = Causes::default();
        for number in 0..MOST_GROUPS + 5 {
            let letters: String = format!("{number:x}")
                .chars()
                .map(|c| char::from(b'a' + c.to_digit(16).unwrap_or(0) as u8))
                .collect();
            causes.add_error(&Id::Integer(1), Some(&letters), None);
        }
        assert_eq!(causes.groups().count(), MOST_GROUPS + 1);
        assert_eq!(causes.find("other errors").unwrap().text(), TOO_MANY);
        assert_eq!(causes.cause_of(Some("never seen")).text(), TOO_MANY);
        assert!(causes.find("never seen").unwrap_err().ends_with("choose by --where"));
        assert!(causes.find(" ").unwrap_err().starts_with("write the id of a group"));
    }
}
