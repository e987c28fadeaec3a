//! The standard streams of a command. Its input is complete before it starts: when a pass is killed,
//! no command takes the part of its record that was written for the whole. Of its output the end is
//! kept, as much as is worth keeping, however much there was.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open};
use rustix::io::{Errno, ioctl_fionbio, retry_on_intr, write};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::record::one_line;

/// A descriptor from which these bytes can be read, and then its end. Nobody else can write to it.
pub fn complete(bytes: &[u8]) -> io::Result<OwnedFd> {
    match in_pipe(bytes)? {
        Some(pipe) => Ok(pipe),
        None => in_memory(bytes),
    }
}

/// A pipe with nobody at its other end; `None` if it does not take all of it.
fn in_pipe(bytes: &[u8]) -> io::Result<Option<OwnedFd>> {
    let (pipe, end) = pipe_with(PipeFlags::CLOEXEC)?;
    ioctl_fionbio(&end, true)?;
    match write_all(&end, bytes) {
        Ok(()) => Ok(Some(pipe)),
        Err(Errno::AGAIN) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// A file without a name, opened anew for reading alone.
fn in_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let create = |flags| memfd_create(c"record", MemfdFlags::CLOEXEC | flags);
    // A kernel may insist on the flag, and one before 6.3 does not know it.
    let file = create(MemfdFlags::NOEXEC_SEAL).or_else(|_| create(MemfdFlags::empty()))?;
    write_all(&file, bytes)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

fn write_all(to: &OwnedFd, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        let written = retry_on_intr(|| write(to, bytes))?;
        bytes = &bytes[written..];
    }
    Ok(())
}

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
    use std::fs::File;
    use std::io::Read;

    use super::*;

    #[test]
    fn all_of_it_is_there_however_much_it_is() {
        for size in [0, 1, 65_536, 65_537, 8 << 20] {
            let bytes: Vec<u8> = (0..=255).cycle().take(size).collect();
            let mut read = Vec::new();
            let mut input = File::from(complete(&bytes).unwrap());
            input.read_to_end(&mut read).unwrap();
            assert!(read == bytes, "{size}: {}", read.len());
            let errno = write(&input, b"more").unwrap_err();
            assert_eq!(errno, Errno::BADF, "{size}: who reads it cannot write to it");
        }
    }
}

#[cfg(test)]
mod tail_tests {
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
