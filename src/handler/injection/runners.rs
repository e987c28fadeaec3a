//! Programs that run others, or code, and how each is told what to run.

/// How a program is told what to run.
#[derive(Clone, Copy)]
pub enum Runner {
    Shell,
    Language(Language),
    /// su: options and operands in any order, `-c` among them.
    SwitchUser,
    /// ssh: the words behind the host are code for a shell there.
    Remote,
    /// watch: all words are code for a shell.
    Joined,
    /// Programs that run the one behind them, `-S` and `-c` aside.
    Wrapper(Wrapper),
}

/// An interpreter's options.
#[derive(Clone, Copy)]
pub struct Language {
    /// Flags behind which there is code.
    pub code: &'static str,
    /// Flags behind which there is something else.
    pub values: &'static str,
    pub long_code: &'static [&'static str],
    pub long_values: &'static [&'static str],
    /// Whether options go on behind the code, up to the first operand.
    pub goes_on: bool,
    /// Whether the first operand is code, and none is if `file` is given.
    pub file: Option<char>,
}

/// The options of a program that runs another, and how many operands stand before that.
#[derive(Clone, Copy)]
pub struct Wrapper {
    pub values: &'static str,
    pub operands: usize,
    /// Whether `-c` stands before code for a shell.
    pub has_code: bool,
}

const PYTHON: Language = Language {
    code: "c",
    values: "WXm",
    long_code: &[],
    long_values: &["--check-hash-based-pycs"],
    goes_on: false,
    file: None,
};
const PERL: Language =
    Language { code: "eE", values: "IMmFidDCVx", long_code: &[], goes_on: true, ..PYTHON };
const RUBY: Language = Language { code: "e", values: "rICEKFiTWx", goes_on: true, ..PYTHON };
const NODE: Language = Language {
    code: "ep",
    values: "rC",
    long_code: &["--eval", "--print"],
    long_values: &[
        "--conditions",
        "--cpu-prof-dir",
        "--diagnostic-dir",
        "--dns-result-order",
        "--env-file",
        "--experimental-loader",
        "--icu-data-dir",
        "--import",
        "--input-type",
        "--loader",
        "--openssl-config",
        "--redirect-warnings",
        "--report-dir",
        "--require",
        "--stack-trace-limit",
        "--test-name-pattern",
        "--test-reporter",
        "--title",
        "--unhandled-rejections",
        "--watch-path",
    ],
    goes_on: true,
    file: None,
};
const PHP: Language = Language {
    code: "rBRE",
    values: "fdczSg",
    long_code: &["--run", "--process-begin", "--process-code", "--process-end"],
    long_values: &["--file", "--define", "--php-ini"],
    goes_on: true,
    file: None,
};
const LUA: Language = Language { code: "e", values: "l", goes_on: true, ..PYTHON };
const AWK: Language = Language {
    code: "e",
    values: "FvfiE",
    long_code: &["--source"],
    long_values: &["--field-separator", "--assign", "--file", "--include", "--exec"],
    goes_on: false,
    file: Some('f'),
};

const fn wrapper(values: &'static str, operands: usize) -> Runner {
    Runner::Wrapper(Wrapper { values, operands, has_code: false })
}

const RUNNERS: [(&str, Runner); 52] = [
    ("sh", Runner::Shell),
    ("ash", Runner::Shell),
    ("bash", Runner::Shell),
    ("rbash", Runner::Shell),
    ("dash", Runner::Shell),
    ("zsh", Runner::Shell),
    ("ksh", Runner::Shell),
    ("mksh", Runner::Shell),
    ("yash", Runner::Shell),
    ("csh", Runner::Shell),
    ("tcsh", Runner::Shell),
    ("fish", Runner::Shell),
    ("python", Runner::Language(PYTHON)),
    ("pypy", Runner::Language(PYTHON)),
    ("perl", Runner::Language(PERL)),
    ("ruby", Runner::Language(RUBY)),
    ("node", Runner::Language(NODE)),
    ("nodejs", Runner::Language(NODE)),
    ("php", Runner::Language(PHP)),
    ("lua", Runner::Language(LUA)),
    ("luajit", Runner::Language(LUA)),
    ("awk", Runner::Language(AWK)),
    ("gawk", Runner::Language(AWK)),
    ("mawk", Runner::Language(AWK)),
    ("nawk", Runner::Language(AWK)),
    ("su", Runner::SwitchUser),
    ("runuser", Runner::SwitchUser),
    ("ssh", Runner::Remote),
    ("slogin", Runner::Remote),
    ("rsh", Runner::Remote),
    ("autossh", Runner::Remote),
    ("watch", Runner::Joined),
    ("busybox", wrapper("", 0)),
    ("env", wrapper("uC", 0)),
    ("sudo", wrapper("ughpCrtTUDR", 0)),
    ("doas", wrapper("uCa", 0)),
    ("nice", wrapper("n", 0)),
    ("ionice", wrapper("cnp", 0)),
    ("chrt", wrapper("TPD", 1)),
    ("timeout", wrapper("ks", 1)),
    ("nohup", wrapper("", 0)),
    ("setsid", wrapper("", 0)),
    ("setpriv", wrapper("", 0)),
    ("stdbuf", wrapper("ioe", 0)),
    ("time", wrapper("fo", 0)),
    ("strace", wrapper("aeEIoOpPsSuUX", 0)),
    ("xargs", wrapper("aEdIiLlnPs", 0)),
    ("chroot", wrapper("", 1)),
    ("unshare", wrapper("", 0)),
    ("systemd-run", wrapper("pHMEGu", 0)),
    ("flock", Runner::Wrapper(Wrapper { values: "wE", operands: 1, has_code: true })),
    ("script", Runner::Wrapper(Wrapper { values: "BIOTmo", operands: 1, has_code: true })),
];

/// Long options of programs that run others which take the next word.
pub const LONG_VALUES: [&str; 28] = [
    "--adjustment",
    "--arg-file",
    "--chdir",
    "--class",
    "--classdata",
    "--close-from",
    "--delimiter",
    "--groups",
    "--group",
    "--host",
    "--kill-after",
    "--max-args",
    "--max-chars",
    "--max-lines",
    "--max-procs",
    "--output",
    "--prompt",
    "--property",
    "--regid",
    "--reuid",
    "--role",
    "--signal",
    "--timeout",
    "--type",
    "--unit",
    "--unset",
    "--user",
    "--userspec",
];

/// The runner of this name, and its name.
pub fn runner(name: &str) -> Option<(&'static str, Runner)> {
    RUNNERS.into_iter().find(|(it, _)| *it == name)
}
