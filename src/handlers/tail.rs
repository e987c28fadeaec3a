//! The end of an output: its last bytes, and the line that explains a failure.

use backlog_schedule::one_line;
use console::strip_ansi_codes;

/// Beginnings of lines that Node.js and Rust write after an error, and that do not explain it.
const RUNTIME_LINES: [&str; 4] = ["Node.js v", "(Use `node ", "note: ", "stack backtrace:"];

#[derive(Default)]
pub struct Tail {
    /// The last [`KEPT`](Self::KEPT) bytes.
    bytes: Vec<u8>,
    /// Beginning of the unfinished line.
    line: Vec<u8>,
    /// Last line that is not indented, and the last indented line after it.
    message: Option<Vec<u8>>,
    detail: Option<Vec<u8>>,
}

impl Tail {
    pub const KEPT: usize = 4096;
    const LINES: usize = 20;

    /// Adds a chunk of the output. `each_line` gets each finished line, up to [`KEPT`](Self::KEPT) bytes.
    pub fn push(&mut self, chunk: &[u8], mut each_line: impl FnMut(&[u8])) {
        self.bytes.extend_from_slice(chunk);
        self.bytes.drain(..self.bytes.len().saturating_sub(Self::KEPT));
        // `contains` is fast, which matters for gigabytes without a line.
        let has_end = chunk.contains(&b'\n') || chunk.contains(&b'\r');
        let chunk = if has_end { chunk } else { &chunk[..chunk.len().min(Self::KEPT)] };
        for part in chunk.split_inclusive(|byte| has_end && b"\n\r".contains(byte)) {
            self.line.extend(part.iter().take(Self::KEPT - self.line.len()));
            if part.ends_with(b"\n") || part.ends_with(b"\r") {
                each_line(&self.line);
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let text = strip_ansi_codes(&text);
        if !text.contains(char::is_alphanumeric)
            || RUNTIME_LINES.iter().any(|begin| text.starts_with(begin))
        {
            return;
        }
        match text.starts_with(char::is_whitespace) {
            true => self.detail = Some(line),
            false => (self.message, self.detail) = (Some(line), None),
        }
    }

    /// The last lines, with hidden characters escaped, unless all are blank.
    pub fn last_lines(&self) -> Option<String> {
        // The first character may be incomplete.
        let cut = self.bytes.iter().take_while(|byte| **byte & 0xc0 == 0x80).count();
        let text = String::from_utf8_lossy(&self.bytes[cut..]);
        let lines: Vec<_> = text.trim_end().lines().map(one_line).collect();
        let lines = lines[lines.len().saturating_sub(Self::LINES)..].join("\n");
        // Escapes are longer than the characters that they replace.
        let mut ends = lines.char_indices().filter_map(|(at, _)| lines.get(at..));
        ends.find(|end| end.len() <= Self::KEPT).map(String::from)
    }

    /// The last line that is not indented, or else the last line. After a colon, the last indented line is added.
    pub fn last_line(&mut self) -> Option<String> {
        self.end_line();
        let [message, detail] =
            [&self.message, &self.detail].map(|line| line.as_deref().map(legible));
        match (message, detail) {
            (Some(line), Some(detail)) if line.ends_with(':') => Some(format!("{line} {detail}")),
            (message, detail) => message.or(detail),
        }
    }
}

/// A line without colours and control characters, and with other hidden characters escaped.
pub fn legible(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text: String = strip_ansi_codes(&text).trim().chars().filter(|c| !c.is_control()).collect();
    one_line(&text).chars().take(Tail::KEPT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_is_not_blank_is_kept() {
        let mut tail = Tail::default();
        assert_eq!(tail.last_line(), None);
        tail.push(b"Traceback\n  File x\nValueError: \xff no \x1b[1mgood\x07\n\n", |_| {});
        assert_eq!(tail.last_line().unwrap(), "ValueError: \u{fffd} no good");
        tail.push("not \u{202e}what\u{2069} it\u{200b} seems\u{9b}".as_bytes(), |_| {});
        let shown = "not \\u{202e}what\\u{2069} it\\u{200b} seems";
        assert_eq!(tail.last_line().unwrap(), shown);
    }

    #[test]
    fn the_last_line_that_is_not_indented_is_the_error() {
        for (text, expected) in [
            ("Traceback\n  File x\nValueError: no\n\n", "ValueError: no"),
            ("Exception: a\n\tat x\nCaused by: b\n\tat y\n\t... 1 more\n", "Caused by: b"),
            ("x.js:1\n^\n\nError: no\n    at x\n    at y\n\nNode.js v20.20.2\n", "Error: no"),
            (
                "\nthread 'main' (7) panicked at src/main.rs:2:5:\nno\nnote: run with \
                 `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
                "no",
            ),
            (
                "thread 'main' (7) panicked at src/main.rs:2:5:\nno\nstack backtrace:\n   0: main\n\
                 note: Some details are omitted\n",
                "no",
            ),
            ("Error: a\n\nCaused by:\n    0: b\n    1: c\n", "Caused by: 1: c"),
            ("Error: no\n    at x {\n  code: 'ENOENT'\n}\n\nNode.js v20.20.2\n", "Error: no"),
            (" 10%\r 50%\rfailed at 50%\r\n", "failed at 50%"),
            ("Error: a\n\nCaused by:\n", "Caused by:"),
            ("  a\n  b\n\n", "b"),
            (" \r\n", ""),
        ] {
            let mut tail = Tail::default();
            tail.push(text.as_bytes(), |_| {});
            assert_eq!(tail.last_line().unwrap_or_default(), expected, "{text}");
        }
        // The length of the trace and the size of the chunks make no difference.
        let trace = "    at Main.main(Main.java)\n".repeat(1000);
        for (text, expected) in [
            (trace.clone(), "at Main.main(Main.java)"),
            (format!("Exception: a\n{trace}"), "Exception: a"),
            (format!("Exception: {}\n{trace}", "a".repeat(5000)), "Exception: aaa"),
            (format!("\x1b[31mError:\x1b[0m no\n\x1b[90m{trace}\x1b[0m\n"), "Error: no"),
        ] {
            let mut tail = Tail::default();
            text.as_bytes().chunks(7).for_each(|chunk| tail.push(chunk, |_| {}));
            assert!(tail.last_line().unwrap().starts_with(expected), "{expected}");
        }
    }

    #[test]
    fn lines_are_passed_on_as_they_end() {
        let mut tail = Tail::default();
        let mut lines_of = |chunk: &[u8]| {
            let mut lines = Vec::new();
            tail.push(chunk, |line| lines.push(legible(line)));
            lines
        };
        assert_eq!(lines_of(b"one\ntw"), ["one"]);
        assert_eq!(lines_of(b"o\n\nthree"), ["two", ""]);
        lines_of(&[b'x'; 3 * Tail::KEPT]);
        let long = lines_of(b"\n").remove(0);
        assert!(
            long.starts_with("threexxx") && long.len() == Tail::KEPT,
            "its beginning says more"
        );
        assert_eq!(tail.last_line().unwrap(), long);
    }

    #[test]
    fn the_last_lines_are_kept_with_hidden_characters_escaped() {
        let lines = |bytes: &[u8]| {
            let mut tail = Tail::default();
            tail.push(bytes, |_| {});
            tail.last_lines()
        };
        assert_eq!(lines(b""), None);
        assert_eq!(lines(b" \n\t\r\n"), None);
        let shown = "\n  a\\t\\u{1b}[1mb\n\n\\u{202e}c\u{fffd}";
        assert_eq!(lines("\n  a\t\x1b[1mb\r\n\n\u{202e}c\u{fffd}\n\n".as_bytes()).unwrap(), shown);
        assert_eq!(lines(b"a\xff").unwrap(), "a\u{fffd}");
        let many: Vec<_> = (1..=25).map(|number| number.to_string()).collect();
        assert_eq!(lines(many.join("\n").as_bytes()).unwrap(), many[5..].join("\n"));
        assert_eq!(lines("ä".repeat(3000).as_bytes()).unwrap(), "ä".repeat(2048));
        // An odd number of bytes leaves half a character.
        let cut = format!("{}\n\n\n", "ä".repeat(3000));
        assert_eq!(lines(cut.as_bytes()).unwrap(), "ä".repeat(2046));
        let escaped = lines(&[1; 3000]).unwrap();
        assert!(escaped.len() == Tail::KEPT && escaped.ends_with("\\u{1}"), "{escaped}");
    }

    #[test]
    fn no_more_than_the_end_is_kept() {
        let mut tail = Tail::default();
        for chunk in [vec![b'a'; 10], vec![b'b'; 3 * Tail::KEPT], vec![b'c'; 10]] {
            tail.push(&chunk, |_| {});
        }
        assert_eq!(tail.bytes.len(), Tail::KEPT);
        let line = tail.last_line().unwrap();
        assert!(line.starts_with("aaaaaaaaaabbb") && line.len() == Tail::KEPT);
    }
}
