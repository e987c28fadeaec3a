//! A handler's process: its pipes, its end by SIGTERM and SIGKILL, and the reasons it could not start.

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
use backlog_store::system_error::reason;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, MemfdFlags, OFlags, access, memfd_create};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process_group, pidfd_open, pidfd_send_signal,
    waitpid,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM};

use super::spawn::HandlerCommand;

const CHUNK: usize = 16 * 1024;
/// Maximum number of bytes read after the end. No pipe holds more, but a grandchild may go on writing.
const LEFTOVER: usize = 1024 * 1024;
/// Time between SIGTERM and SIGKILL for a handler that has had its grace.
pub const KILL_DELAY: Duration = Duration::from_secs(1);

/// Exit codes of a shell for a command that cannot be run, and for a command that does not exist.
pub const EXIT_UNABLE: [i32; 2] = [126, 127];
/// Exit code of timeout(1).
pub const EXIT_TIMEOUT: i32 = 124;

/// A process that leads a group. It ends on its own, after SIGTERM, or after SIGKILL.
pub struct Process<Reason> {
    pid: Pid,
    ended: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    /// The process's ends of the pipes. They stay open, so that its end is one wake-up and not three.
    _its_outputs: [OwnedFd; 2],
    pub end_reason: Option<Reason>,
    /// Instant at which it is asked to end, or killed if it was asked before.
    pub deadline: Option<Monotonic>,
    pub is_terminating: bool,
}

impl<Reason: Copy> Process<Reason> {
    pub fn start(command: HandlerCommand, stdin: OwnedFd) -> io::Result<Self> {
        let (stdout, its_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, its_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let pid = command.start(&stdin, &its_stdout, &its_stderr)?;
        // The process is the only reader of its input.
        drop(stdin);
        let ended = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| {
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = reap(pid);
        })?;
        let (end_reason, deadline, is_terminating) = (None, None, false);
        let _its_outputs = [its_stdout, its_stderr];
        Ok(Self { pid, ended, stdout, stderr, _its_outputs, end_reason, deadline, is_terminating })
    }

    /// Waits for its end, outputs or other descriptors, for at most `timeout`. Returns which are ready, in this order.
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

    /// Signals the process and its group, which it may have left.
    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.pid, signal);
        let _ = pidfd_send_signal(&self.ended, signal);
    }

    /// Kills the rest of its group, reads its outputs, and reaps it. The number of the group is free from then on.
    pub fn kill_and_reap(
        &mut self,
        take_output: impl FnMut(&[u8]),
        take_errors: impl FnMut(&[u8]),
    ) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        let mut fds = [&self.stdout, &self.stderr].map(|fd| PollFd::new(fd, PollFlags::IN));
        if poll(&mut fds, Some(&Timespec::default())) != Ok(0) {
            read_leftovers(&self.stdout, take_output);
            read_leftovers(&self.stderr, take_errors);
        }
        reap(self.pid)
    }

    /// Lets it run until this instant, unless an earlier one is set.
    pub fn set_deadline(&mut self, reason: Reason, at: Monotonic) {
        if !self.is_terminating {
            self.end_reason.get_or_insert(reason);
            self.deadline = self.deadline.into_iter().chain([at]).min();
        }
    }

    pub fn terminate(&mut self, reason: Reason, kill_at: Monotonic) {
        self.signal(Signal::TERM);
        (self.end_reason, self.deadline, self.is_terminating) = (Some(reason), Some(kill_at), true);
    }

    pub fn enforce_deadline(&mut self, now: Monotonic) {
        match self.end_reason.filter(|_| self.deadline.is_some_and(|at| at <= now)) {
            Some(_) if self.is_terminating => {
                self.signal(Signal::KILL);
                self.deadline = None;
            }
            Some(reason) => self.terminate(reason, now + KILL_DELAY),
            None => {}
        }
    }
}

/// The termination signal (glibc manual) of a process. A shell exits with 128 + N if signal N ended its command.
pub fn termination_signal(status: ExitStatus) -> Option<i32> {
    let of_a_shell = || status.code().and_then(|code| code.checked_sub(128));
    let signal = status.signal().or_else(of_a_shell);
    signal.filter(|signal| [SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM].contains(signal))
}

/// Waits for the end of a process. Its number is free from then on.
fn reap(pid: Pid) -> io::Result<ExitStatus> {
    loop {
        match waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(ExitStatus::from_raw(status.as_raw())),
            Ok(None) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Reads once, and returns the number of bytes. It does not block after poll.
pub fn read(pipe: &OwnedFd, take: impl FnOnce(&[u8])) -> usize {
    let mut chunk = [0; CHUNK];
    let count = rustix::io::read(pipe, &mut chunk).unwrap_or(0);
    take(&chunk[..count]);
    count
}

/// Reads the rest of a pipe without waiting for its end.
fn read_leftovers(pipe: &OwnedFd, mut take: impl FnMut(&[u8])) {
    let _ = ioctl_fionbio(pipe, true);
    let mut left = LEFTOVER;
    while left > 0 {
        let count = read(pipe, &mut take);
        left = if count == 0 { 0 } else { left.saturating_sub(count) };
    }
}

/// A closed pipe, or a file in memory if it cannot hold the bytes: complete, so that a killed pass cannot truncate it.
pub fn sealed_input(bytes: &[u8]) -> io::Result<OwnedFd> {
    let (pipe, end) = pipe_with(PipeFlags::CLOEXEC)?;
    ioctl_fionbio(&end, true)?;
    match File::from(end).write_all(bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let create = |flags| memfd_create(c"record", MemfdFlags::CLOEXEC | flags);
            // Some kernels require the flag, and kernels before 6.3 do not have it.
            let made = create(MemfdFlags::NOEXEC_SEAL).or_else(|_| create(MemfdFlags::empty()));
            let mut file = File::from(made?);
            file.write_all(bytes)?;
            reopen(&file)
        }
        written => written.map(|()| pipe),
    }
}

/// Number of bytes that the kernel reads to find the interpreter of a script.
const FIRST_LINE: u64 = 256;

/// Reason a command cannot start, as far as it is visible before the start.
pub fn preflight_error(argv: &[OsString]) -> Option<String> {
    let search = own_path();
    let errno = match find_program(program(argv), &search) {
        Some(file) if !is_executable(&file) => Errno::ACCESS,
        Some(file) => script_fault(&file, &search).map(|_| Errno::NOENT)?,
        None => Errno::NOENT,
    };
    Some(spawn_error_message(&errno.into(), argv))
}

pub fn spawn_error_message(error: &io::Error, argv: &[OsString]) -> String {
    let (program, search) = (program(argv), own_path());
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    if let Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) = errno
        && let Some(hint) = one_word_hint(argv, &search)
    {
        return hint;
    }
    let shown = display_name(program);
    let file = find_program(program, &search);
    if let (Some(Errno::NOENT | Errno::ACCESS), Some(file)) = (errno, &file)
        && let Some(fault) = script_fault(file, &search)
    {
        return format!("could not run {shown}: {fault}");
    }
    let hint = match errno {
        Some(Errno::NOENT) if file.is_some() => {
            "; the file exists, but its loader does not: was it built for another system?"
        }
        Some(Errno::NOENT) if Path::new(program).is_file() => {
            return format!(
                "could not run {shown}: it is in this directory, which is not in PATH; write ./{shown}"
            );
        }
        Some(Errno::NOENT) if Path::new(program).is_relative() => {
            "; put it in PATH, or write its absolute path"
        }
        Some(Errno::ACCESS) => "; is it executable?",
        Some(Errno::NOEXEC) => "; does it begin with #! and an interpreter?",
        Some(Errno::MFILE | Errno::AGAIN) => "; lower --jobs",
        _ => "",
    };
    format!("could not run {shown}: {}{hint}", reason(error))
}

/// Reason the file of a command that exited with 126 or 127 cannot be run.
pub fn exec_hint(argv: &[OsString]) -> Option<String> {
    let search = own_path();
    script_fault(&find_program(program(argv), &search)?, &search)
}

/// Reason a script cannot be run although it is executable. `search` is a PATH.
pub fn script_fault(file: &Path, search: &OsStr) -> Option<String> {
    let line = first_line(file)?;
    if line.ends_with(b"\r") {
        let fault = "its first line ends with a carriage return: save it with Unix line endings";
        return Some(fault.into());
    }
    let words = line.split(|byte| b" \t".contains(byte)).filter(|word| !word.is_empty());
    let mut words = words.map(OsStr::from_bytes);
    let path = words.next()?;
    let interpreter = Path::new(path);
    // Other arguments of env are options and variables.
    let is_name =
        |word: &&OsStr| !word.as_bytes().starts_with(b"-") && !word.as_bytes().contains(&b'=');
    let is_env = interpreter.file_name() == Some(OsStr::new("env"));
    let (name, fault) = match words.next().filter(|word| is_env && is_name(word)) {
        _ if !interpreter.exists() => (path, "does not exist"),
        _ if !is_executable(interpreter) => (path, "is not an executable file"),
        Some(named) if find_program(named, search).is_none() => (named, "is not in PATH"),
        Some(_) | None => return None,
    };
    Some(format!("its interpreter {} {fault}", display_name(name)))
}

/// Message for a command that was quoted as if for a shell.
pub fn one_word_hint(argv: &[OsString], search: &OsStr) -> Option<String> {
    let [program] = argv else { return None };
    let is_several = program.as_bytes().iter().any(u8::is_ascii_whitespace);
    (is_several && find_program(program, search).is_none()).then(|| {
        let shown = display_name(program);
        format!("`{shown}` is a single argument, and no such program exists; remove the quotes")
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

pub fn find_program(program: &OsStr, search: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(|path| path.exists());
    }
    let mut files = std::env::split_paths(search).map(|directory| directory.join(program));
    files.find(|file| is_executable(file))
}

pub fn display_name(name: &OsStr) -> String {
    one_line(&name.to_string_lossy())
}

pub fn program(argv: &[OsString]) -> &OsStr {
    argv.first().map_or(OsStr::new(""), OsString::as_os_str)
}

/// PATH of this process, which handlers inherit.
fn own_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rustix::io::write;

    use super::*;

    #[test]
    fn input_of_any_size_is_complete() {
        for size in [0, 1, 65_536, 65_537, 8 << 20] {
            let bytes: Vec<u8> = (0..=255).cycle().take(size).collect();
            let mut read = Vec::new();
            let mut input = File::from(sealed_input(&bytes).unwrap());
            input.read_to_end(&mut read).unwrap();
            assert!(read == bytes, "{size}: {}", read.len());
            let errno = write(&input, b"more").unwrap_err();
            assert_eq!(errno, Errno::BADF, "{size}: the reader cannot write");
        }
    }
}

#[cfg(test)]
mod unstartable_tests {
    use super::*;

    #[test]
    fn faults_of_scripts_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("script");
        let plain = directory.path().join("plain");
        std::fs::write(&plain, "").unwrap();
        let carriage = "its first line ends with a carriage return: save it with Unix line endings";
        let not_one = format!("its interpreter {} is not an executable file", plain.display());
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
            let found = script_fault(&file, OsStr::new("/usr/bin:/bin"));
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
        assert_eq!(script_fault(directory.path(), OsStr::new("")), None);
    }
}
