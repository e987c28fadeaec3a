//! The line of standard error that says what was wrong, which runtimes write before, between or behind
//! their stack traces, and other programs' farewells behind it.

use super::process::legible;

/// The last line that tells of an error, with what it leads up to. Indented lines count only if no
/// other tells of one.
pub fn error_line(stderr: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = |indented: bool| {
        (0..lines.len())
            .rev()
            .find(|&at| is_indented(lines[at]) == indented && is_error(&lines, at))
    };
    let at = last(false).or_else(|| last(true))?;
    Some(legible(with_detail(lines[at], &lines[at + 1..]).as_bytes()))
}

fn is_error(lines: &[&str], at: usize) -> bool {
    let (line, next) = (lines[at], lines.get(at + 1));
    !is_frame(line, next.copied()) && (names_error(line) || ends_traceback(&lines[..at], line))
}

fn is_indented(line: &str) -> bool {
    line.starts_with(char::is_whitespace)
}

/// A frame of a stack trace. Go has the place of one on a line of its own behind it.
fn is_frame(line: &str, next: Option<&str>) -> bool {
    let text = line.trim_start();
    let number = text.strip_prefix('#').unwrap_or_default();
    let begins = ["at ", "from ", "File \""].iter().any(|begin| text.starts_with(begin));
    number.starts_with(|c: char| c.is_ascii_digit())
        || is_indented(line) && begins
        || next.is_some_and(|next| next.starts_with('\t') && next.contains(".go:"))
}

fn names_error(line: &str) -> bool {
    let lower = line.to_lowercase();
    let is_letter = |c: char| c.is_ascii_uppercase() || c == '_';
    ["Error", "Exception"].iter().any(|name| has_word_ending(line, name))
        || line.split(|c| !is_letter(c)).any(|word| word == "ERROR")
        || ["error:", "fatal", "panic"].iter().any(|word| lower.contains(word))
        || ["Caused by", "UnhandledPromiseRejection"].iter().any(|name| line.contains(name))
}

/// That of `RuntimeError: no`, but not of `ErrorHandler.run`.
fn has_word_ending(line: &str, ending: &str) -> bool {
    let mut rest = line.match_indices(ending).filter_map(|(at, it)| line.get(at + it.len()..));
    rest.any(|rest| !rest.starts_with(char::is_alphabetic))
}

/// Python's exceptions may have any name, and stand below their frames.
fn ends_traceback(before: &[&str], line: &str) -> bool {
    let mut trace = before.iter().rev().take_while(|line| is_indented(line));
    !is_indented(line) && trace.any(|line| line.trim_start().starts_with("File \""))
}

/// A line that ends with a colon says little without what follows it.
fn with_detail(line: &str, rest: &[&str]) -> String {
    let line = line.trim();
    let next = || rest.first().copied().filter(|next| !is_frame(next, rest.get(1).copied()));
    let detail = match line {
        "Caused by:" => innermost(rest),
        _ if line.ends_with(':') => next().map(str::trim),
        _ => None,
    };
    detail.map_or_else(|| line.into(), |detail| format!("{line} {detail}"))
}

/// The last of the causes that anyhow lists. It numbers them if there are several.
fn innermost<'a>(rest: &[&'a str]) -> Option<&'a str> {
    let mut causes = rest.iter().take_while(|line| is_indented(line)).map(|line| line.trim());
    let first = causes.next()?;
    let Some(outermost) = first.strip_prefix("0: ") else { return Some(first) };
    let innermost = causes.fold((1, outermost), |(number, innermost), cause| {
        let numbered = cause.strip_prefix(&format!("{number}: "));
        numbered.map_or((number, innermost), |cause| (number + 1, cause))
    });
    Some(innermost.1)
}

#[cfg(test)]
mod tests;
