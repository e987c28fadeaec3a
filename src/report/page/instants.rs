//! Instants on the page: each is an element that machines read, also within a sentence.

use serde::Serialize;

use super::shortened;
use crate::time::Instant;

/// An instant in UTC, for machines and for people.
#[derive(Serialize)]
pub struct Moment {
    iso: String,
    text: String,
}

impl Moment {
    pub fn new(at: Instant) -> Self {
        Self::of(at.to_string())
    }

    /// Without its seconds, for people.
    pub fn to_the_minute(at: Instant) -> Self {
        let Self { iso, mut text } = Self::new(at);
        text.truncate(text.rfind(':').unwrap_or(text.len()));
        Self { iso, text }
    }

    fn of(iso: String) -> Self {
        let text = iso.replacen('T', " ", 1).trim_end_matches('Z').into();
        Self { iso, text }
    }
}

/// A part of a sentence: an instant, or the words between two.
#[derive(Serialize)]
pub struct Part {
    words: String,
    moment: Option<Moment>,
}

/// More characters are no sentence, but somebody's error.
const MOST: usize = 400;

/// A sentence for a terminal, in whose parts the instants stand by themselves.
pub fn sentence(text: &str) -> Vec<Part> {
    let text = shortened(text, MOST);
    let mut parts: Vec<Part> = Vec::new();
    for word in text.split_inclusive(' ') {
        let bare = word.trim_end_matches([' ', ',', ';', ':']);
        let mut words = word;
        if is_own(bare) {
            parts.push(Part { words: String::new(), moment: Some(Moment::of(bare.into())) });
            words = word.strip_prefix(bare).unwrap_or_default();
        }
        match parts.last_mut().filter(|last| last.moment.is_none()) {
            Some(last) => last.words += words,
            None => parts.push(Part { words: words.into(), moment: None }),
        }
    }
    parts
}

/// Whether it is an instant in our own spelling.
fn is_own(word: &str) -> bool {
    Instant::parse(word).is_some_and(|at| at.to_string() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_within_a_sentence_are_found() {
        let parts = sentence("last pass 2026-11-21T00:00:00Z, 4 m ago: 1 failed at 12:30Z");
        let shown: Vec<_> = parts
            .iter()
            .map(|it| it.moment.as_ref().map_or(it.words.as_str(), |it| it.text.as_str()))
            .collect();
        assert_eq!(shown, ["last pass ", "2026-11-21 00:00:00", ", 4 m ago: 1 failed at 12:30Z"]);
    }
}
