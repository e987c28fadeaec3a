//! The end of a command's output: as much as is worth keeping, however much there was.

use std::collections::VecDeque;

/// Keeps the last `Tail::KEPT` bytes of what it is given.
#[derive(Default)]
pub struct Tail {
    bytes: VecDeque<u8>,
}

impl Tail {
    pub const KEPT: usize = 4096;

    pub fn push(&mut self, chunk: &[u8]) {
        let chunk = &chunk[chunk.len().saturating_sub(Self::KEPT)..];
        let surplus = (self.bytes.len() + chunk.len()).saturating_sub(Self::KEPT);
        self.bytes.drain(..surplus);
        self.bytes.extend(chunk);
    }

    /// The last line that is not blank, fit for a log and a column: no control characters, what
    /// is not UTF-8 replaced.
    pub fn last_line(&self) -> Option<String> {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        Some(line.chars().filter(|c| !c.is_control()).collect())
    }
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
