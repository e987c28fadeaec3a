//! Diagnosis of a program that could not be started, as far as its file tells. The file is looked
//! at only after the failure, or for `check`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::record::one_line;

/// How much of a file the kernel looks at for the line that names an interpreter.
const FIRST_LINE: u64 = 256;

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
        Some(Errno::NOENT) if Path::new(program).is_relative() => {
            "; is it in PATH, or its path absolute?"
        }
        Some(Errno::ACCESS) => "; is it executable?",
        Some(Errno::NOEXEC) => "; does it begin with #! and an interpreter?",
        Some(Errno::MFILE | Errno::AGAIN) => "; lower --jobs",
        _ => "",
    };
    format!("could not run {shown}: {error}{hint}")
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
    let interpreter = Path::new(words.next()?);
    let its = |name: &OsStr, why| Some(format!("its interpreter {} {why}", shown(name)));
    if !interpreter.exists() {
        return its(interpreter.as_os_str(), "does not exist");
    }
    if !is_executable(interpreter) {
        return its(interpreter.as_os_str(), "is no file that can be executed");
    }
    // Other words of env's are options and variables.
    let is_name =
        |word: &&OsStr| !word.as_bytes().starts_with(b"-") && !word.as_bytes().contains(&b'=');
    let is_env = interpreter.file_name() == Some(OsStr::new("env"));
    let named = words.next().filter(|word| is_env && is_name(word))?;
    if file_of(named, search).is_some() { None } else { its(named, "is not in PATH") }
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
    // To open anything else may take for ever.
    let file = File::open(Some(file).filter(|file| file.is_file())?).ok()?;
    file.take(FIRST_LINE).read_to_end(&mut begin).ok()?;
    let line = begin.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(line.to_vec())
}

/// The file that a program's name stands for, if there is one.
fn file_of(program: &OsStr, search: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(|path| path.exists());
    }
    std::env::split_paths(search).map(|directory| directory.join(program)).find(|it| it.is_file())
}

/// A name as messages have it.
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
