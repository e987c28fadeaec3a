//! Starts commands with `posix_spawn`. The commands of a pass share a part of their environment.

use std::ffi::{CStr, CString, NulError, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::{Arc, LazyLock};

use backlog_store::IgnoredSignals;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid as NixPid;
use rustix::process::Pid;

use super::placeholders;

const NOT_INHERITED: [&str; 10] = [
    // Variables of a record. A handler may start a pass.
    "BACKLOG_ID",
    "BACKLOG_STATUS",
    "BACKLOG_DATE_INSERTED",
    "BACKLOG_ATTEMPT",
    "BACKLOG_MAX_ATTEMPTS",
    "BACKLOG_LAST_ERROR",
    // Secrets of webhooks.
    "BACKLOG_WEBHOOK_SECRET",
    "BACKLOG_HEADER",
    // A command that knows the URL could report in place of the pass.
    "BACKLOG_PING",
    // Root's trust is limited to this pass.
    "BACKLOG_TRUST_OWNER",
];

/// Variables that commands inherit or are given, each as `NAME=value`.
#[derive(Clone)]
pub struct CommandEnv(Arc<[CString]>);

impl CommandEnv {
    /// The environment of this process with these variables, and without the variables of records and secrets.
    pub fn new(given: &[(&str, String)]) -> Result<Self, NulError> {
        let names: Vec<_> = given.iter().map(|(name, _)| *name).collect();
        let given = given.iter().map(|(name, value)| variable(name, value.as_ref()));
        let inherited = inherited(&names).into_iter().map(Ok);
        Ok(Self(inherited.chain(given).collect::<Result<_, _>>()?))
    }
}

impl Default for CommandEnv {
    fn default() -> Self {
        Self(inherited(&[]).into())
    }
}

fn inherited(given: &[&str]) -> Vec<CString> {
    let is_excluded = |name: &OsStr| {
        name.as_bytes().starts_with(placeholders::VARIABLE_PREFIX.as_bytes())
            || given.iter().chain(&NOT_INHERITED).any(|other| name == *other)
    };
    let inherited = std::env::vars_os().filter(|(name, _)| !is_excluded(name));
    inherited.filter_map(|(name, value)| variable(name, &value).ok()).collect()
}

fn variable(name: impl Into<OsString>, value: &OsStr) -> Result<CString, NulError> {
    let mut variable = name.into().into_vec();
    variable.push(b'=');
    variable.extend_from_slice(value.as_bytes());
    CString::new(variable)
}

pub struct HandlerCommand<'a> {
    argv: Result<Vec<CString>, NulError>,
    environment: &'a CommandEnv,
    /// Variables of this command, each with the length of its name. They replace variables of the environment.
    own: Vec<(usize, Result<CString, NulError>)>,
}

impl<'a> HandlerCommand<'a> {
    pub fn new(argv: impl IntoIterator<Item: Into<OsString>>, environment: &'a CommandEnv) -> Self {
        let argv = argv.into_iter().map(|word| CString::new(word.into().into_vec())).collect();
        Self { argv, environment, own: Vec::new() }
    }

    pub fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.own.push((name.len(), variable(name, value.as_ref())));
    }

    /// Starts the command as the leader of a process group. A NUL byte in an argument or a variable is invalid input.
    pub fn start(self, stdin: &OwnedFd, stdout: &OwnedFd, stderr: &OwnedFd) -> io::Result<Pid> {
        let argv = self.argv?;
        let own = self.own.into_iter().map(|(length, variable)| Ok((length, variable?)));
        let own: Vec<(usize, CString)> = own.collect::<Result<_, NulError>>()?;
        let is_own = |variable: &CStr| {
            let variable = variable.to_bytes();
            own.iter().any(|(length, other)| variable.starts_with(&other.as_bytes()[..=*length]))
        };
        let shared = self.environment.0.iter().map(CString::as_c_str);
        let own_variables = own.iter().map(|(_, variable)| variable.as_c_str());
        let environment: Vec<_> =
            shared.filter(|variable| !is_own(variable)).chain(own_variables).collect();
        let mut actions = PosixSpawnFileActions::init()?;
        for (end, number) in [(stdin, 0), (stdout, 1), (stderr, 2)] {
            actions.add_dup2(end.as_raw_fd(), number)?;
        }
        let mut attributes = PosixSpawnAttr::init()?;
        attributes.set_pgroup(NixPid::from_raw(0))?;
        attributes.set_sigdefault(&RESET_SIGNALS)?;
        let flags = PosixSpawnFlags::POSIX_SPAWN_SETPGROUP | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF;
        attributes.set_flags(flags)?;
        let program = argv.first().map_or(c"", CString::as_c_str);
        let pid = posix_spawnp(program, &actions, &attributes, &argv, &environment)?;
        Pid::from_raw(pid.as_raw()).ok_or_else(|| io::Error::other("invalid process ID"))
    }
}

/// Signals that the C library reserves, and leaves out of every set.
const LIBC_INTERNAL_SIGNALS: [i32; 2] = [32, 33];

static RESET_SIGNALS: LazyLock<SigSet> = LazyLock::new(|| {
    IgnoredSignals::of_this_process().and_then(reset_signals).unwrap_or(Signal::SIGPIPE.into())
});

/// SIGPIPE, and all signals that this process does not ignore on behalf of a parent such as `nohup`. A signal outside
/// of the set costs a system call. `None` if an ignored signal has no name.
fn reset_signals(ignored: IgnoredSignals) -> Option<SigSet> {
    let mut signals = SigSet::all();
    for signal in ignored.iter().filter(|signal| !LIBC_INTERNAL_SIGNALS.contains(signal)) {
        let signal = Signal::try_from(signal).ok()?;
        if signal != Signal::SIGPIPE {
            signals.remove(signal);
        }
    }
    for unchangeable in [Signal::SIGKILL, Signal::SIGSTOP] {
        signals.remove(unchangeable);
    }
    Some(signals)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use rustix::pipe::{PipeFlags, pipe_with};
    use rustix::process::{WaitOptions, waitpid};

    use super::*;

    /// The output of a command with these variables.
    fn output(words: &[&str], environment: &CommandEnv, own: &[(&str, &str)]) -> String {
        let mut command =
            HandlerCommand::new(words.iter().copied().map(OsString::from), environment);
        own.iter().for_each(|(name, value)| command.set(name, value));
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let input = File::open("/dev/null").unwrap().into();
        let pid = command.start(&input, &write, &write).unwrap();
        drop(write);
        let mut text = String::new();
        File::from(read).read_to_string(&mut text).unwrap();
        waitpid(Some(pid), WaitOptions::empty()).unwrap();
        text
    }

    #[test]
    fn a_variable_is_set_once_with_the_value_of_the_command_first() {
        let given = [("BACKLOG_QUEUE", "mails".into()), ("BACKLOG_MAX_ATTEMPTS", "9".into())];
        let environment = CommandEnv::new(&given).unwrap();
        let own = [("BACKLOG_ID", "7"), ("BACKLOG_MAX_ATTEMPTS", "3"), ("PATH", "/nowhere")];
        let text = output(&["env"], &environment, &own);
        let lines: Vec<_> = text.lines().collect();
        let values = |name: &str| -> Vec<_> {
            lines.iter().filter_map(|line| line.strip_prefix(name)?.strip_prefix('=')).collect()
        };
        assert_eq!(values("BACKLOG_QUEUE"), ["mails"]);
        assert_eq!(values("BACKLOG_MAX_ATTEMPTS"), ["3"]);
        assert_eq!(values("BACKLOG_ID"), ["7"]);
        assert_eq!(values("PATH"), ["/nowhere"], "the program itself was found by our own");
        let here: Vec<_> = std::env::vars_os().filter(|(name, _)| name == "HOME").collect();
        assert_eq!(values("HOME").len(), here.len());
    }

    #[test]
    fn ignored_signals_stay_ignored_except_sigpipe() {
        let reset = |mask| reset_signals(IgnoredSignals(mask));
        let has = |set: SigSet| {
            let signals = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGPIPE, Signal::SIGKILL];
            signals.map(|signal| set.contains(signal))
        };
        assert_eq!(reset(0x1001).map(has), Some([false, true, true, false]));
        assert_eq!(reset(0x1_8000_0001).map(has), Some([false, true, true, false]));
        assert_eq!(reset(0).map(has), Some([true, true, true, false]));
        assert_eq!(reset(1 << 40), None);
        assert!(RESET_SIGNALS.contains(Signal::SIGTERM), "here it is not ignored");
    }

    #[test]
    fn a_command_does_not_ignore_sigpipe_and_leads_a_group() {
        let environment = CommandEnv::default();
        let script = "grep SigIgn /proc/$$/status
            read -r pid name state parent group rest </proc/$$/stat; echo $pid $group";
        let text = output(&["sh", "-c", script], &environment, &[]);
        let words: Vec<_> = text.split_whitespace().collect();
        let ignored = u64::from_str_radix(words[1], 16).unwrap();
        assert_eq!(ignored & 1 << (Signal::SIGPIPE as u32 - 1), 0, "{text}");
        assert_eq!(words[2], words[3], "{text}");
    }

    #[test]
    fn a_command_that_cannot_start_has_an_error_of_that_kind() {
        let environment = CommandEnv::default();
        let null = File::open("/dev/null").unwrap().into();
        let start = |words: &[&str], value: &str| {
            let mut command =
                HandlerCommand::new(words.iter().copied().map(OsString::from), &environment);
            command.set("BACKLOG_ID", value);
            command.start(&null, &null, &null).unwrap_err().kind()
        };
        assert_eq!(start(&[], ""), io::ErrorKind::NotFound);
        assert_eq!(start(&["/nowhere/true"], ""), io::ErrorKind::NotFound);
        assert_eq!(start(&["/etc/passwd"], ""), io::ErrorKind::PermissionDenied);
        assert_eq!(start(&["true", "a\0b"], ""), io::ErrorKind::InvalidInput);
        assert_eq!(start(&["true"], "a\0b"), io::ErrorKind::InvalidInput);
    }
}
