//! The standard input of a command, complete before the command starts: when a pass is killed, no
//! command takes the part of its record that was written for the whole.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open};
use rustix::io::{Errno, ioctl_fionbio, retry_on_intr, write};
use rustix::pipe::{PipeFlags, pipe_with};

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
