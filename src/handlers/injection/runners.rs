//! Programs that run others, or code, and how each is told what to run.

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    /// The word behind `-c` is code.
    Shell,
    /// An interpreter, whose first operand is a script.
    Language,
    /// An interpreter whose options end behind code, and behind a module.
    Python,
    /// An interpreter whose first operand is code, unless an option names a file of it.
    Awk,
    /// su: options and operands in any order, `-c` among them.
    SwitchUser,
    /// ssh: the words behind the host are code for a shell there.
    Remote,
    /// watch: all words are code for a shell.
    Joined,
    /// Programs that run the one behind so many operands.
    Wrapper(usize),
}

/// The options of a program that take something.
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// Those that take code, those that take something else, and those that take it in the same
    /// word only: the flags in one word, then the long ones with blanks between them.
    names: [&'static str; 3],
    /// Whether long ones may be cut short, as GNU's programs allow.
    is_cut: bool,
}

/// What an option takes.
#[derive(Clone, Copy, Default)]
pub struct Takes {
    pub flag: char,
    pub is_code: bool,
    /// Whether it is the next word.
    pub is_next: bool,
}

impl Options {
    /// The first flag of a word that takes something takes the rest of it, if there is one.
    pub fn takes(self, option: &str) -> Takes {
        let [code, values, attached] =
            self.names.map(|names| names.split_once(' ').unwrap_or((names, "")));
        if let Some(long) = option.strip_prefix("--") {
            let name = long.split_once('=').map_or(long, |(name, _)| name);
            let is = |it: &str| it == name || self.is_cut && it.starts_with(name);
            let has = |names: &str| names.split(' ').any(is);
            let is_code = !name.is_empty() && has(code.1);
            let is_value = name.len() > 1 && (has(values.1) || self.is_cut && has(LONG_VALUES));
            return Takes { is_code, is_next: (is_code || is_value) && name == long, flag: '-' };
        }
        let flags = option.trim_start_matches('-');
        let taking = [code.0, values.0, attached.0].concat();
        let Some((at, flag)) = flags.char_indices().find(|(_, flag)| taking.contains(*flag)) else {
            return Takes::default();
        };
        let is_next = at + 1 == flags.len() && !attached.0.contains(flag);
        Takes { flag, is_code: code.0.contains(flag), is_next }
    }
}

/// Programs by their names, with blanks between them, and the names of their `Options`.
const RUNNERS: [(&str, Runner, [&str; 3]); 28] = [
    ("sh ash bash rbash dash zsh ksh mksh yash csh tcsh fish", Runner::Shell, [""; 3]),
    ("python pypy", Runner::Python, ["c", "WXm check-hash-based-pycs", ""]),
    ("perl", Runner::Language, ["eE", "I", "MmFixdDCVT0l"]),
    ("ruby", Runner::Language, ["e", RUBY_VALUES, "WiKFTx0l"]),
    ("node nodejs", Runner::Language, ["ep eval print", NODE_VALUES, ""]),
    ("php", Runner::Language, [PHP_CODE, "fdczSgt file define php-ini", ""]),
    ("lua luajit", Runner::Language, ["e", "lj", ""]),
    ("awk original-awk gawk mawk nawk", Runner::Awk, ["e source", AWK_VALUES, ""]),
    ("su runuser", Runner::SwitchUser, ["c command session-command", SU_VALUES, ""]),
    ("ssh slogin rsh autossh", Runner::Remote, ["o", "BbcDEeFIiJLlmOpPQRSWw", ""]),
    ("watch", Runner::Joined, [""; 3]),
    ("busybox nohup setsid setpriv", Runner::Wrapper(0), [""; 3]),
    ("env", Runner::Wrapper(0), ["", "uC", ""]),
    ("sudo", Runner::Wrapper(0), ["", "ughpCrtTUDR", ""]),
    ("doas", Runner::Wrapper(0), ["", "uCa", ""]),
    ("nice", Runner::Wrapper(0), ["", "n", ""]),
    ("ionice", Runner::Wrapper(0), ["", "cnp", ""]),
    ("chrt", Runner::Wrapper(1), ["", "TPD", ""]),
    ("timeout", Runner::Wrapper(1), ["", "ks", ""]),
    ("stdbuf", Runner::Wrapper(0), ["", "ioe", ""]),
    ("time", Runner::Wrapper(0), ["", "fo", ""]),
    ("strace", Runner::Wrapper(0), ["", "aeEIoOpPsSuUX", ""]),
    ("xargs", Runner::Wrapper(0), ["", "adEILnPs", ""]),
    ("chroot", Runner::Wrapper(1), [""; 3]),
    ("unshare", Runner::Wrapper(0), ["", "RSGw", ""]),
    ("systemd-run", Runner::Wrapper(0), ["", "pHMEGu", ""]),
    ("flock", Runner::Wrapper(1), ["c command", "wE", ""]),
    ("script", Runner::Wrapper(1), ["c command", "BIOTmo", ""]),
];

const RUBY_VALUES: &str = "rICE encoding external-encoding internal-encoding";
const PHP_CODE: &str = "rBRE run process-begin process-code process-end";
const AWK_VALUES: &str = "FvfiElo field-separator assign file include exec load";
const SU_VALUES: &str = "sgGwu shell group user whitelist-environment";
const NODE_VALUES: &str = "rC conditions cpu-prof-dir diagnostic-dir disable-proto disable-warning \
    dns-result-order env-file env-file-if-exists experimental-default-type experimental-loader \
    icu-data-dir import input-type inspect-port loader max-http-header-size openssl-config \
    redirect-warnings report-dir require secure-heap stack-trace-limit test-name-pattern \
    test-reporter title trace-event-categories unhandled-rejections watch-path";

/// Long options of programs that run others which take the next word.
const LONG_VALUES: &str = "adjustment apparmor-profile arg-file chdir chroot class classdata close-from \
    command-timeout conflict-exit-code delimiter description error format gid group groups \
    host input kill-after max-args max-chars max-lines max-procs other-user output pdeathsig \
    process-slot-var prompt property regid reuid rgid role root ruid securebits selinux-label \
    setgid setuid signal slice timeout type uid unit unset user userspec wd";

pub fn runner(name: &str) -> Option<(&'static str, Runner, Options)> {
    RUNNERS.into_iter().find_map(|(known, runner, names)| {
        let name = known.split(' ').find(|it| *it == name)?;
        let is_cut = matches!(runner, Runner::SwitchUser | Runner::Wrapper(_));
        Some((name, runner, Options { names, is_cut }))
    })
}
