//! Programs that run others, or code, and how each is told what to run.

#[derive(Clone, Copy)]
pub enum Runner {
    /// The word behind `-c` is code.
    Shell,
    /// An interpreter.
    Language(Language),
    /// su: options and operands in any order, `-c` among them.
    SwitchUser,
    /// ssh: the words behind the host are code for a shell there.
    Remote,
    /// watch: all words are code for a shell.
    Joined,
    /// Programs that run the one behind so many operands; `values` are the flags that take something,
    /// and `-c` may stand before code for a shell.
    Wrapper { values: &'static str, operands: usize, has_code: bool },
}

#[derive(Clone, Copy)]
pub struct Language {
    /// Flags behind which there is code.
    pub code: &'static str,
    /// Flags behind which there is something else, which may be the next word.
    pub values: &'static str,
    /// Flags behind which there may be something else in the same word.
    pub attached: &'static str,
    /// The same of long options, with blanks between them.
    pub long_code: &'static str,
    pub long_values: &'static str,
    /// Whether options go on behind the code, up to the first operand.
    pub goes_on: bool,
    /// Whether the first operand is code, and none is if `file` is given.
    pub file: Option<char>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    /// Code: the next word, or what is left of its own.
    Code,
    CodeHere,
    /// Something else, in the next word.
    Value,
    /// A file with code in place of the first operand.
    File,
    /// A module, behind which there are arguments only.
    Module,
}

impl Language {
    /// The first flag of a word that takes something takes the rest of it, if there is one.
    pub fn takes(self, option: &str) -> Takes {
        if option.starts_with("--") {
            return match option {
                "--file" if self.file.is_some() => Takes::File,
                _ if has(self.long_code, option) => Takes::Code,
                _ if has(self.long_values, option) => Takes::Value,
                _ => Takes::Nothing,
            };
        }
        let flags = option.trim_start_matches('-');
        let taking = [self.code, self.values, self.attached].concat();
        let Some((at, flag)) = flags.char_indices().find(|(_, flag)| taking.contains(*flag)) else {
            return Takes::Nothing;
        };
        let is_last = at + 1 == flags.len();
        match flag {
            'm' if !self.goes_on && self.file.is_none() => Takes::Module,
            _ if self.code.contains(flag) && is_last => Takes::Code,
            _ if self.code.contains(flag) => Takes::CodeHere,
            _ if self.file == Some(flag) => Takes::File,
            _ if self.values.contains(flag) && is_last => Takes::Value,
            _ => Takes::Nothing,
        }
    }
}

const PYTHON: Language = Language {
    code: "c",
    values: "WXm",
    attached: "",
    long_code: "",
    long_values: "--check-hash-based-pycs",
    goes_on: false,
    file: None,
};
const PERL: Language = Language {
    code: "eE",
    values: "I",
    attached: "MmFixdDCVT0l",
    goes_on: true,
    long_values: "",
    ..PYTHON
};
const RUBY: Language = Language {
    code: "e",
    values: "rICE",
    attached: "WiKFTx0l",
    long_values: "--encoding --external-encoding --internal-encoding",
    goes_on: true,
    ..PYTHON
};
const NODE: Language = Language {
    code: "ep",
    values: "rC",
    long_code: "--eval --print",
    long_values: "--conditions --cpu-prof-dir --diagnostic-dir --disable-proto --disable-warning \
        --dns-result-order --env-file --env-file-if-exists --experimental-default-type \
        --experimental-loader --icu-data-dir --import --input-type --inspect-port --loader \
        --max-http-header-size --openssl-config --redirect-warnings --report-dir --require \
        --secure-heap --stack-trace-limit --test-name-pattern --test-reporter --title \
        --trace-event-categories --unhandled-rejections --watch-path",
    goes_on: true,
    ..PYTHON
};
const PHP: Language = Language {
    code: "rBRE",
    values: "fdczSgt",
    long_code: "--run --process-begin --process-code --process-end",
    long_values: "--file --define --php-ini",
    goes_on: true,
    ..PYTHON
};
const LUA: Language = Language { code: "e", values: "lj", goes_on: true, ..PYTHON };
const AWK: Language = Language {
    code: "e",
    values: "FvfiElo",
    long_code: "--source",
    long_values: "--field-separator --assign --file --include --exec --load",
    file: Some('f'),
    ..PYTHON
};

const fn wrapper(values: &'static str, operands: usize) -> Runner {
    Runner::Wrapper { values, operands, has_code: false }
}

/// Programs by their names, with blanks between them.
const RUNNERS: [(&str, Runner); 28] = [
    ("sh ash bash rbash dash zsh ksh mksh yash csh tcsh fish", Runner::Shell),
    ("python pypy", Runner::Language(PYTHON)),
    ("perl", Runner::Language(PERL)),
    ("ruby", Runner::Language(RUBY)),
    ("node nodejs", Runner::Language(NODE)),
    ("php", Runner::Language(PHP)),
    ("lua luajit", Runner::Language(LUA)),
    ("awk original-awk gawk mawk nawk", Runner::Language(AWK)),
    ("su runuser", Runner::SwitchUser),
    ("ssh slogin rsh autossh", Runner::Remote),
    ("watch", Runner::Joined),
    ("busybox nohup setsid setpriv", wrapper("", 0)),
    ("env", wrapper("uC", 0)),
    ("sudo", wrapper("ughpCrtTUDR", 0)),
    ("doas", wrapper("uCa", 0)),
    ("nice", wrapper("n", 0)),
    ("ionice", wrapper("cnp", 0)),
    ("chrt", wrapper("TPD", 1)),
    ("timeout", wrapper("ks", 1)),
    ("stdbuf", wrapper("ioe", 0)),
    ("time", wrapper("fo", 0)),
    ("strace", wrapper("aeEIoOpPsSuUX", 0)),
    ("xargs", wrapper("adEILnPs", 0)),
    ("chroot", wrapper("", 1)),
    ("unshare", wrapper("RSGw", 0)),
    ("systemd-run", wrapper("pHMEGu", 0)),
    ("flock", Runner::Wrapper { values: "wE", operands: 1, has_code: true }),
    ("script", Runner::Wrapper { values: "BIOTmo", operands: 1, has_code: true }),
];

/// Long options of programs that run others which take the next word.
const LONG_VALUES: &str = "adjustment apparmor-profile arg-file chdir chroot class classdata close-from \
    command-timeout conflict-exit-code delimiter description error format gid group groups \
    host input kill-after max-args max-chars max-lines max-procs other-user output pdeathsig \
    process-slot-var prompt property regid reuid rgid role root ruid securebits selinux-label \
    setgid setuid signal slice timeout type uid unit unset user userspec wd";

/// Whether a long option takes the next word. It may be cut short, as GNU's programs allow.
pub fn takes_next(option: &str) -> bool {
    let name = option.trim_start_matches('-');
    name.len() >= 2 && !name.contains('=') && LONG_VALUES.split(' ').any(|it| it.starts_with(name))
}

pub fn runner(name: &str) -> Option<(&'static str, Runner)> {
    let of = |(names, runner): (&'static str, Runner)| {
        names.split(' ').find(|it| *it == name).map(|name| (name, runner))
    };
    RUNNERS.into_iter().find_map(of)
}

fn has(names: &str, name: &str) -> bool {
    names.split(' ').any(|it| it == name)
}
