//! A process of a handler, for one record or for many: its pipes, its life cycle from the start to
//! SIGTERM and SIGKILL, and why it could not be started, as far as its file tells. The input of a
//! command is complete before it starts: a pass that is killed leaves no command a part of its record.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant as Monotonic};

use backlog_schedule::one_line;
use backlog_store::secure_file::{open_regular, reopen};
use backlog_store::system_error::words;
use console::strip_ansi_codes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, MemfdFlags, OFlags, access, memfd_create};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process_group, pidfd_open, pidfd_send_signal,
    waitpid,
};

use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM};

use super::command::Command;

const CHUNK: usize = 16 * 1024;
/// How much is read after the end: no pipe holds more, but a grandchild may go on writing for ever.
const LEFTOVER: usize = 1024 * 1024;
/// How long a handler that has had its grace gets between SIGTERM and SIGKILL.
pub const KILL_DELAY: Duration = Duration::from_secs(1);

/// A shell's words for a command that cannot be run, and for one that is not there.
pub const EXIT_UNABLE: [i32; 2] = [126, 127];
/// What timeout(1) exits with.
pub const EXIT_TIMEOUT: i32 = 124;

/// The leader of a group of its own. It may end by itself, is asked with SIGTERM, and is killed.
pub struct Process<Why> {
    pid: Pid,
    ended: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    /// Its ends of the pipes, kept open: one thing to wake up for at the process's end, not three.
    _its_outputs: [OwnedFd; 2],
    pub why: Option<Why>,
    /// When the next step is taken, if it does not end until then.
    pub deadline: Option<Monotonic>,
    /// Whether it was asked to end.
    pub is_forced: bool,
}

impl<Why: Copy> Process<Why> {
    pub fn start(command: Command, stdin: OwnedFd) -> io::Result<Self> {
        let (stdout, its_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, its_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let pid = command.start(&stdin, &its_stdout, &its_stderr)?;
        // Its input is its own: once it does not read any more, nobody does.
        drop(stdin);
        let ended = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| {
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = reap(pid);
        })?;
        let (why, deadline, is_forced) = (None, None, false);
        let _its_outputs = [its_stdout, its_stderr];
        Ok(Self { pid, ended, stdout, stderr, _its_outputs, why, deadline, is_forced })
    }

    /// Which it was of its end, its two outputs and two others, if any was within `timeout`.
    pub fn wait<'a>(
        &'a self,
        others: impl IntoIterator<Item = PollFd<'a>>,
        timeout: Option<Duration>,
    ) -> io::Result<[bool; 5]> {
        let own = [&self.ended, &self.stdout, &self.stderr];
        let own = own.map(|fd| PollFd::new(fd, PollFlags::IN));
        let mut fds: Vec<_> = own.into_iter().chain(others).collect();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Err(errno) if errno != Errno::INTR => Err(errno.into()),
            polled => Ok(std::array::from_fn(|at| {
                polled.is_ok() && fds.get(at).is_some_and(|fd| !fd.revents().is_empty())
            })),
        }
    }

    /// Signals it and its group, which it may have left.
    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.pid, signal);
        let _ = pidfd_send_signal(&self.ended, signal);
    }

    /// Kills what it leaves behind, reads its outputs, and reaps it: its group keeps its number so far.
    pub fn finish(
        &mut self,
        take_output: impl FnMut(&[u8]),
        take_errors: impl FnMut(&[u8]),
    ) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        let mut fds = [&self.stdout, &self.stderr].map(|fd| PollFd::new(fd, PollFlags::IN));
        // Mostly all output was read before.
        if poll(&mut fds, Some(&Timespec::default())) != Ok(0) {
            read_leftovers(&self.stdout, take_output);
            read_leftovers(&self.stderr, take_errors);
        }
        reap(self.pid)
    }

    /// It may end by itself until then, or sooner if that was said before.
    pub fn end_by(&mut self, why: Why, at: Monotonic) {
        if !self.is_forced {
            self.why.get_or_insert(why);
            self.deadline = self.deadline.into_iter().chain([at]).min();
        }
    }

    pub fn ask(&mut self, why: Why, kill_at: Monotonic) {
        self.signal(Signal::TERM);
        (self.why, self.deadline, self.is_forced) = (Some(why), Some(kill_at), true);
    }

    pub fn step(&mut self, now: Monotonic) {
        match self.why.filter(|_| self.deadline.is_some_and(|at| at <= now)) {
            Some(_) if self.is_forced => {
                self.signal(Signal::KILL);
                self.deadline = None;
            }
            Some(why) => self.ask(why, now + KILL_DELAY),
            None => {}
        }
    }
}

/// The signal that ended a process, or a command of a shell: its exit is then 128 and that number. Only those
/// count by which one process asks or forces another to end (termination signals in the manual of the GNU C
/// library), not those that a program brings on itself.
pub fn termination_signal(status: ExitStatus) -> Option<i32> {
    let of_a_shell = || status.code().and_then(|code| code.checked_sub(128));
    let signal = status.signal().or_else(of_a_shell);
    signal.filter(|signal| [SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM].contains(signal))
}

/// Waits for the end of a process that was started here, whose number is free from then on.
fn reap(pid: Pid) -> io::Result<ExitStatus> {
    loop {
        match waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(ExitStatus::from_raw(status.as_raw())),
            Ok(None) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Reads once, which does not block after poll said so; says how much there was.
pub fn read(pipe: &OwnedFd, take: impl FnOnce(&[u8])) -> usize {
    let mut chunk = [0; CHUNK];
    let count = rustix::io::read(pipe, &mut chunk).unwrap_or(0);
    take(&chunk[..count]);
    count
}

/// Reads what is left in a pipe, without waiting for its end.
fn read_leftovers(pipe: &OwnedFd, mut take: impl FnMut(&[u8])) {
    let is_readable = || {
        let mut fds = [PollFd::new(pipe, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    };
    let mut left = LEFTOVER;
    while left > 0 && is_readable() {
        let count = read(pipe, &mut take);
        left = if count == 0 { 0 } else { left.saturating_sub(count) };
    }
}

/// A file in memory.
fn memory_file() -> rustix::io::Result<OwnedFd> {
    let create = |flags| memfd_create(c"record", MemfdFlags::CLOEXEC | flags);
    // A kernel may insist on the flag, and one before 6.3 does not know it.
    create(MemfdFlags::NOEXEC_SEAL).or_else(|_| create(MemfdFlags::empty()))
}

/// A descriptor from which these bytes can be read, and then its end. Nobody else can write to it: it
/// is a pipe with nobody at its other end, or, where that does not take all of it, a file.
pub fn complete(bytes: &[u8]) -> io::Result<OwnedFd> {
    let (pipe, end) = pipe_with(PipeFlags::CLOEXEC)?;
    ioctl_fionbio(&end, true)?;
    match File::from(end).write_all(bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let mut file = File::from(memory_file()?);
            file.write_all(bytes)?;
            reopen(&file)
        }
        written => written.map(|()| pipe),
    }
}

/// The last `Tail::KEPT` bytes of an output, and the lines of all of it that tell what went wrong.
#[derive(Default)]
pub struct Tail {
    bytes: Vec<u8>,
    /// The beginning of the line that has not come to its end.
    line: Vec<u8>,
    told: Told,
}

/// The last line that is not indented, and the last one of those that are indented and follow it.
#[derive(Default, Clone)]
struct Told {
    message: Option<Vec<u8>>,
    detail: Option<Vec<u8>>,
}

impl Tail {
    pub const KEPT: usize = 4096;
    pub const LINES: usize = 20;

    /// Adds what was read. `each_line` gets the lines that come to their ends, each as far as it is kept.
    pub fn push(&mut self, chunk: &[u8], mut each_line: impl FnMut(&[u8])) {
        self.bytes.extend_from_slice(chunk);
        self.bytes.drain(..self.bytes.len().saturating_sub(Self::KEPT));
        // There may be gigabytes without a line, and this looks for both ends at full speed.
        let has_end = chunk.contains(&b'\n') || chunk.contains(&b'\r');
        let split = |byte: &u8| has_end && b"\n\r".contains(byte);
        let chunk = if has_end { chunk } else { &chunk[..chunk.len().min(Self::KEPT)] };
        for part in chunk.split_inclusive(split) {
            self.line.extend(part.iter().take(Self::KEPT - self.line.len()));
            if part.ends_with(b"\n") || part.ends_with(b"\r") {
                each_line(&self.line);
                self.told.add(&self.line);
                self.line.clear();
            }
        }
    }

    /// The last lines, with what does not show escaped, unless all are blank.
    pub fn last_lines(&self) -> Option<String> {
        // The first character may have lost its beginning.
        let cut = self.bytes.iter().take_while(|byte| **byte & 0xc0 == 0x80).count();
        let text = String::from_utf8_lossy(&self.bytes[cut..]);
        let lines: Vec<_> = text.trim_end().lines().map(one_line).collect();
        let lines = lines[lines.len().saturating_sub(Self::LINES)..].join("\n");
        // Escapes take more room than what they stand for.
        let mut ends = lines.char_indices().filter_map(|(at, _)| lines.get(at..));
        ends.find(|end| end.len() <= Self::KEPT).map(String::from)
    }

    /// The last line with a letter or a digit that is not indented, or else the last with one, fit for a log
    /// and a column. A line that ends with a colon has the last one of those that it announces behind it.
    pub fn last_line(&self) -> Option<String> {
        let mut told = self.told.clone();
        told.add(&self.line);
        let [message, detail] = [told.message, told.detail].map(|line| line.map(|it| legible(&it)));
        match (message, detail) {
            (Some(line), Some(detail)) if line.ends_with(':') => Some(format!("{line} {detail}")),
            (message, detail) => message.or(detail),
        }
    }
}

impl Told {
    fn add(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = strip_ansi_codes(&text);
        let has_words = text.contains(char::is_alphanumeric);
        if !has_words || OF_RUNTIMES.iter().any(|begin| text.starts_with(begin)) {
            return;
        }
        match text.starts_with(char::is_whitespace) {
            true => self.detail = Some(line.into()),
            false => *self = Self { message: Some(line.into()), detail: None },
        }
    }
}

/// Beginnings of the lines that Node.js and Rust write about themselves after an error.
const OF_RUNTIMES: [&str; 4] = ["Node.js v", "(Use `node ", "note: ", "stack backtrace:"];

/// Without the sequences that colour a line and other control characters, and what else does not show escaped.
pub fn legible(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text: String = strip_ansi_codes(&text).trim().chars().filter(|c| !c.is_control()).collect();
    one_line(&text).chars().take(Tail::KEPT).collect()
}

/// How much of a file the kernel looks at for the line that names an interpreter.
const FIRST_LINE: u64 = 256;

/// Why a command cannot be started, where that shows before it is needed.
pub fn cannot_run(argv: &[OsString]) -> Option<String> {
    let search = own_path();
    let errno = match file_of(program(argv), &search) {
        Some(file) if !is_executable(&file) => Errno::ACCESS,
        Some(file) => obstacle(&file, &search).map(|_| Errno::NOENT)?,
        None => Errno::NOENT,
    };
    Some(could_not_run(&errno.into(), argv))
}

/// Why a command could not be started, and what to do about it.
pub fn could_not_run(error: &io::Error, argv: &[OsString]) -> String {
    let (program, search) = (program(argv), own_path());
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    if let Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) = errno
        && let Some(why) = in_one_word(argv, &search)
    {
        return why;
    }
    let shown = shown(program);
    let file = file_of(program, &search);
    if let (Some(Errno::NOENT | Errno::ACCESS), Some(file)) = (errno, &file)
        && let Some(why) = obstacle(file, &search)
    {
        return format!("could not run {shown}: {why}");
    }
    let hint = match errno {
        Some(Errno::NOENT) if file.is_some() => {
            "; the file is there, but not what loads it: was it built for this system?"
        }
        Some(Errno::NOENT) if Path::new(program).is_file() => {
            return format!("could not run {shown}: it is not in PATH, but here: write ./{shown}");
        }
        Some(Errno::NOENT) if Path::new(program).is_relative() => {
            "; is it in PATH, or its path absolute?"
        }
        Some(Errno::ACCESS) => "; is it executable?",
        Some(Errno::NOEXEC) => "; does it begin with #! and an interpreter?",
        Some(Errno::MFILE | Errno::AGAIN) => "; lower --jobs",
        _ => "",
    };
    format!("could not run {shown}: {}{hint}", words(error))
}

/// What is wrong with the file of a command that was started and could not go on, if it shows.
pub fn obstacle_of(argv: &[OsString]) -> Option<String> {
    let search = own_path();
    obstacle(&file_of(program(argv), &search)?, &search)
}

/// What keeps a script from being run, whatever its mode says. `search` is a PATH.
pub fn obstacle(file: &Path, search: &OsStr) -> Option<String> {
    let line = first_line(file)?;
    if line.ends_with(b"\r") {
        let why = "its first line ends with a carriage return: save it with Unix line ends";
        return Some(why.into());
    }
    let words = line.split(|byte| b" \t".contains(byte)).filter(|word| !word.is_empty());
    let mut words = words.map(OsStr::from_bytes);
    let path = words.next()?;
    let interpreter = Path::new(path);
    // Other words of env's are options and variables.
    let is_name =
        |word: &&OsStr| !word.as_bytes().starts_with(b"-") && !word.as_bytes().contains(&b'=');
    let is_env = interpreter.file_name() == Some(OsStr::new("env"));
    let (name, why) = match words.next().filter(|word| is_env && is_name(word)) {
        _ if !interpreter.exists() => (path, "does not exist"),
        _ if !is_executable(interpreter) => (path, "is no file that can be executed"),
        Some(named) if file_of(named, search).is_none() => (named, "is not in PATH"),
        Some(_) | None => return None,
    };
    Some(format!("its interpreter {} {why}", shown(name)))
}

/// What is wrong with a command that was written in quotes, as if for a shell.
pub fn in_one_word(argv: &[OsString], search: &OsStr) -> Option<String> {
    let [program] = argv else { return None };
    let is_several = program.as_bytes().iter().any(u8::is_ascii_whitespace);
    (is_several && file_of(program, search).is_none()).then(|| {
        let shown = shown(program);
        format!("`{shown}` is one word, looked for as a file of that name: leave out the quotes")
    })
}

pub fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// The first line of a script, behind `#!`.
fn first_line(file: &Path) -> Option<Vec<u8>> {
    let mut begin = Vec::new();
    let file = open_regular(file, OFlags::RDONLY).ok()?;
    file.take(FIRST_LINE).read_to_end(&mut begin).ok()?;
    let line = begin.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(line.to_vec())
}

/// The file that a program's name stands for, if there is one.
pub fn file_of(program: &OsStr, search: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(|path| path.exists());
    }
    let mut files = std::env::split_paths(search).map(|directory| directory.join(program));
    files.find(|file| is_executable(file))
}

pub fn shown(name: &OsStr) -> String {
    one_line(&name.to_string_lossy())
}

pub fn program(argv: &[OsString]) -> &OsStr {
    argv.first().map_or(OsStr::new(""), OsString::as_os_str)
}

/// Where this process looks for programs, as its handlers do.
fn own_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rustix::io::write;

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
        tail.push(b"Traceback\n  File x\nValueError: \xff no \x1b[1mgood\x07\n\n", |_| {});
        assert_eq!(tail.last_line().unwrap(), "ValueError: \u{fffd} no good");
        tail.push("not \u{202e}what\u{2069} it\u{200b} seems\u{9b}".as_bytes(), |_| {});
        let shown = "not \\u{202e}what\\u{2069} it\\u{200b} seems";
        assert_eq!(tail.last_line().unwrap(), shown);
    }

    #[test]
    fn the_last_line_that_is_not_indented_tells_the_error() {
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
        // However much comes after it, and in whatever pieces.
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
    fn lines_are_told_as_they_end() {
        let mut tail = Tail::default();
        let mut told = |chunk: &[u8]| {
            let mut lines = Vec::new();
            tail.push(chunk, |line| lines.push(legible(line)));
            lines
        };
        assert_eq!(told(b"one\ntw"), ["one"]);
        assert_eq!(told(b"o\n\nthree"), ["two", ""]);
        told(&[b'x'; 3 * Tail::KEPT]);
        let long = told(b"\n").remove(0);
        assert!(
            long.starts_with("threexxx") && long.len() == Tail::KEPT,
            "its beginning says more"
        );
        assert_eq!(tail.last_line().unwrap(), long);
    }

    #[test]
    fn the_last_lines_are_kept_in_characters_that_show() {
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
        // An odd number of bytes, of which half a character is left.
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

#[cfg(test)]
mod unstartable_tests {
    use super::*;

    #[test]
    fn a_script_that_cannot_be_run_is_told_by_its_first_line() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("script");
        let plain = directory.path().join("plain");
        std::fs::write(&plain, "").unwrap();
        let carriage = "its first line ends with a carriage return: save it with Unix line ends";
        let not_one =
            format!("its interpreter {} is no file that can be executed", plain.display());
        for (text, expected) in [
            ("#!/bin/sh\ntrue\n".into(), None),
            ("#! /bin/sh -e\ntrue\r\n".into(), None),
            ("#!/bin/sh -e\r\ntrue\r\n".into(), Some(carriage)),
            ("#!/usr/bin/env sh\r\n".into(), Some(carriage)),
            ("#!/no/python -u".into(), Some("its interpreter /no/python does not exist")),
            (format!("#!{}\n", plain.display()), Some(not_one.as_str())),
            ("#!/usr/bin/env nopython\n".into(), Some("its interpreter nopython is not in PATH")),
            ("#!/usr/bin/env sh\n".into(), None),
            ("#!/usr/bin/env -S nopython -u\n".into(), None),
            ("true\n".into(), None),
            ("#!\n".into(), None),
            (String::new(), None),
        ] {
            std::fs::write(&file, &text).unwrap();
            let found = obstacle(&file, OsStr::new("/usr/bin:/bin"));
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
        assert_eq!(obstacle(directory.path(), OsStr::new("")), None);
    }
}
