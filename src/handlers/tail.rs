//! The end of a command's output: as much as is worth keeping, however much there was.

use std::collections::VecDeque;

use crate::record::one_line;

/// A buffer of the last `Tail::KEPT` bytes that it is given.
#[derive(Default)]
pub struct Tail {
    bytes: VecDeque<u8>,
    /// How many of them are a line that has not come to its end.
    unended: usize,
}

impl Tail {
    pub const KEPT: usize = 4096;

    pub fn push(&mut self, chunk: &[u8]) {
        let chunk = &chunk[chunk.len().saturating_sub(Self::KEPT)..];
        let surplus = (self.bytes.len() + chunk.len()).saturating_sub(Self::KEPT);
        self.bytes.drain(..surplus);
        self.bytes.extend(chunk);
    }

    /// The same; says which lines have come to their end with it, each as far as it was kept.
    pub fn push_lines(&mut self, chunk: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.push(part);
            self.unended = (self.unended + part.len()).min(self.bytes.len());
            if part.ends_with(b"\n") {
                let line: Vec<u8> =
                    self.bytes.range(self.bytes.len() - self.unended..).copied().collect();
                lines.push(legible(&line));
                self.unended = 0;
            }
        }
        lines
    }

    /// The last line that is not blank, fit for a log and a column.
    pub fn last_line(&self) -> Option<String> {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let mut lines = bytes.split(|byte| *byte == b'\n').rev().map(legible);
        lines.find(|line| !line.is_empty())
    }
}

/// Without the control characters that colour a line, and with nothing else in it that does not
/// show; no space around it, what is not UTF-8 replaced.
fn legible(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text: String = text.trim().chars().filter(|c| !c.is_control()).collect();
    one_line(&text).chars().take(Tail::KEPT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_with_something_in_it_is_kept() {
        let mut tail = Tail::default();
        assert_eq!(tail.last_line(), None);
        tail.push(b"Traceback\n  File x\nValueError: \xff no \x1b[1mgood\x07\n\n");
        assert_eq!(tail.last_line().unwrap(), "ValueError: \u{fffd} no [1mgood");
        tail.push("not \u{202e}what\u{2069} it\u{200b} seems\u{9b}".as_bytes());
        let shown = "not \\u{202e}what\\u{2069} it\\u{200b} seems";
        assert_eq!(tail.last_line().unwrap(), shown);
    }

    #[test]
    fn lines_are_told_as_they_end() {
        let mut tail = Tail::default();
        assert_eq!(tail.push_lines(b"one\ntw"), ["one"]);
        assert_eq!(tail.push_lines(b"o\n\nthree"), ["two", ""]);
        tail.push_lines(&[b'x'; 3 * Tail::KEPT]);
        let long = tail.push_lines(b"\n").remove(0);
        assert_eq!(long.len(), Tail::KEPT - 1);
        assert_eq!(tail.last_line().unwrap(), long);
    }

    #[test]
    fn no_more_than_the_end_is_kept() {
        let mut tail = Tail::default();
        for chunk in [vec![b'a'; 10], vec![b'b'; 3 * Tail::KEPT], vec![b'c'; 10]] {
            tail.push(&chunk);
        }
        assert_eq!(tail.bytes.len(), Tail::KEPT);
        let line = tail.last_line().unwrap();
        assert!(line.starts_with("bbb") && line.ends_with("bcccccccccc"));
    }
}
