//! Commands of a crontab line, read as a shell reads them (POSIX, 2.10): their words without quotes,
//! and where their output goes.

#![expect(clippy::string_slice, reason = "offsets come from find")]

/// A simple command.
#[derive(Debug, Clone, Default)]
pub struct SimpleCommand {
    pub words: Vec<String>,
    /// The files that its own redirections write to.
    pub files: Vec<String>,
    /// In the order in which they take effect, with those of the groups around it and of its pipe.
    redirections: Vec<Redirection>,
    /// Whether it ends with the `&` of `&>`, which is one word only in bash.
    pub is_split: bool,
}

impl SimpleCommand {
    pub fn of_words(words: Vec<String>) -> Self {
        Self { words, ..Self::default() }
    }

    /// Where the output goes that would go there without redirections.
    pub fn output(&self, outer: Output) -> Output {
        self.redirections.iter().fold(outer, |output, it| it.applied(output))
    }
}

/// The end of an output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sink {
    /// The mail that cron sends, or systemd's journal.
    Told,
    /// /dev/null
    Nothing,
    /// A file, or another command.
    Elsewhere,
}

/// Where the two output streams of a command go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    pub stdout: Sink,
    pub stderr: Sink,
}

impl Output {
    pub const TOLD: Self = Self { stdout: Sink::Told, stderr: Sink::Told };
}

#[derive(Debug, Clone, Copy)]
enum Redirection {
    Stdout(Sink),
    Stderr(Sink),
    Both(Sink),
    StderrToStdout,
    StdoutToStderr,
}

impl Redirection {
    fn new(descriptor: Option<&str>, operator: &str, target: &str) -> Option<Self> {
        let sink =
            if ["/dev/null", "-"].contains(&target) { Sink::Nothing } else { Sink::Elsewhere };
        let of_stdout = matches!(descriptor, None | Some("1"));
        Some(match (operator, target) {
            ("&>" | "&>>", _) => Self::Both(sink),
            (">&" | ">" | ">>", "1" | "/dev/stdout") if descriptor == Some("2") => {
                Self::StderrToStdout
            }
            (">&" | ">" | ">>", "2" | "/dev/stderr") if of_stdout => Self::StdoutToStderr,
            (">&", _) if descriptor.is_none() => Self::Both(sink),
            (">" | ">>" | ">|" | ">&", _) if of_stdout => Self::Stdout(sink),
            (">" | ">>" | ">|" | ">&", _) if descriptor == Some("2") => Self::Stderr(sink),
            _ => return None,
        })
    }

    fn applied(self, output: Output) -> Output {
        let Output { stdout, stderr } = output;
        match self {
            Self::Stdout(sink) => Output { stdout: sink, stderr },
            Self::Stderr(sink) => Output { stdout, stderr: sink },
            Self::Both(sink) => Output { stdout: sink, stderr: sink },
            Self::StderrToStdout => Output { stdout, stderr: stdout },
            Self::StdoutToStderr => Output { stdout: stderr, stderr },
        }
    }
}

/// What a shell knows when it reads a command.
pub struct Shell<'a> {
    /// Whether `&>` is a redirection.
    pub is_bash: bool,
    /// The value of a variable that is set.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Shell<'_> {
    /// The simple commands that a command is made of, as far as it can be read.
    pub fn simple_commands(&self, text: &str) -> Vec<SimpleCommand> {
        let (mut parser, mut tokens) = (Parser::default(), self.tokens(text).into_iter());
        while let Some(token) = tokens.next() {
            let (descriptor, operator) = match token {
                Token::Word(word) => {
                    parser.word(word);
                    continue;
                }
                Token::Operator(descriptor, operator) => (descriptor, operator),
            };
            if !operator.contains(['<', '>']) {
                parser.control(operator);
                continue;
            }
            let is_split = operator.starts_with('&') && !self.is_bash;
            if is_split {
                parser.current.is_split = true;
                parser.end();
            }
            if let Some(Token::Word(target)) = tokens.next()
                && !is_split
            {
                let is_file =
                    operator.contains('>') && !target.starts_with(|c: char| c.is_ascii_digit());
                parser.current.files.extend(is_file.then(|| target.clone()));
                parser.redirect(Redirection::new(descriptor.as_deref(), operator, &target));
            }
        }
        parser.end();
        parser.commands
    }

    fn tokens(&self, text: &str) -> Vec<Token> {
        let (mut tokens, mut rest) = (Vec::new(), text);
        loop {
            rest = rest.trim_start_matches([' ', '\t']);
            if rest.starts_with('#') {
                rest = rest.find('\n').map_or("", |end| &rest[end..]);
            } else if let Some(operator) = operator(rest) {
                rest = &rest[operator.len()..];
                tokens.push(Token::Operator(None, operator));
            } else if rest.is_empty() {
                return tokens;
            } else {
                let mut word = Word::new(self, rest);
                word.read();
                let (raw, words) = (&rest[..rest.len() - word.rest.len()], word.words);
                rest = word.rest;
                match operator(rest).filter(|it| it.starts_with(['<', '>'])) {
                    Some(operator) if raw.bytes().all(|byte| byte.is_ascii_digit()) => {
                        rest = &rest[operator.len()..];
                        tokens.push(Token::Operator(Some(raw.into()), operator));
                    }
                    Some(_) | None => tokens.extend(words.into_iter().map(Token::Word)),
                }
            }
        }
    }
}

enum Token {
    Word(String),
    /// With the descriptor that a redirection is of, if one is named.
    Operator(Option<String>, &'static str),
}

/// Longer ones first.
const OPERATORS: [&str; 21] = [
    "&>>", "<<<", "<<-", "&>", "&&", "||", "|&", ";;", "<<", "<&", "<>", ">>", ">&", ">|", "<",
    ">", "&", "|", ";", "(", ")",
];

fn operator(text: &str) -> Option<&'static str> {
    if text.starts_with('\n') {
        return Some("\n");
    }
    OPERATORS.into_iter().find(|operator| text.starts_with(operator))
}

/// A word as far as it was read, which a variable may make none or several of.
struct Word<'a> {
    shell: &'a Shell<'a>,
    rest: &'a str,
    words: Vec<String>,
    /// Whether the last of the words goes on.
    is_open: bool,
    is_quoted: bool,
}

impl<'a> Word<'a> {
    fn new(shell: &'a Shell<'a>, rest: &'a str) -> Self {
        Self { shell, rest, words: Vec::new(), is_open: false, is_quoted: false }
    }

    fn read(&mut self) {
        if let Some(home) = (self.shell.variable)("HOME")
            && let Some(rest) = self.rest.strip_prefix('~')
            && (rest.is_empty() || rest.starts_with([' ', '\t', '/', ';', '&', '|', ')']))
        {
            self.push(&home);
            self.rest = rest;
        }
        while let Some(c) = self.rest.chars().next() {
            match c {
                ' ' | '\t' | '\n' | '&' | '|' | ';' | '<' | '>' | '(' | ')' => return,
                '\'' => self.single_quoted(),
                '"' => self.double_quoted(),
                c => self.character(c, |_| true),
            }
        }
    }

    fn single_quoted(&mut self) {
        let quoted = &self.rest[1..];
        let end = quoted.find('\'').unwrap_or(quoted.len());
        self.push(&quoted[..end]);
        self.rest = quoted.get(end + 1..).unwrap_or("");
    }

    fn double_quoted(&mut self) {
        (self.rest, self.is_quoted) = (&self.rest[1..], true);
        self.push("");
        while let Some(c) = self.rest.chars().next() {
            if c == '"' {
                self.rest = &self.rest[1..];
                break;
            }
            self.character(c, |escaped| "$`\"\\\n".contains(escaped));
        }
        self.is_quoted = false;
    }

    fn push(&mut self, text: &str) {
        match self.words.last_mut().filter(|_| self.is_open) {
            Some(word) => *word += text,
            None => self.words.push(text.into()),
        }
        self.is_open = true;
    }

    /// The value of a variable, which is split at its blanks unless it stands in quotes.
    fn push_value(&mut self, value: &str) {
        if self.is_quoted {
            return self.push(value);
        }
        self.is_open &= !value.starts_with(char::is_whitespace);
        for part in value.split_whitespace() {
            self.push(part);
            self.is_open = false;
        }
        let goes_on = value.ends_with(|c: char| !c.is_whitespace());
        self.is_open |= goes_on;
    }

    /// One character, or what a dollar sign or a backslash makes of several.
    fn character(&mut self, c: char, is_escaped: impl Fn(char) -> bool) {
        let behind = &self.rest[c.len_utf8()..];
        let next = behind.chars().next();
        match (c, next) {
            ('\\', Some(escaped)) if is_escaped(escaped) => {
                if escaped != '\n' {
                    self.push(escaped.encode_utf8(&mut [0; 4]));
                }
                self.rest = &behind[escaped.len_utf8()..];
            }
            ('$', Some('(')) => self.raw(1 + closed(behind)),
            ('`', _) => self.raw(1 + behind.find('`').map_or(behind.len(), |end| end + 1)),
            ('$', _) => self.variable(),
            (c, _) => {
                self.push(c.encode_utf8(&mut [0; 4]));
                self.rest = behind;
            }
        }
    }

    fn raw(&mut self, length: usize) {
        let (raw, rest) = self.rest.split_at(length);
        self.push(raw);
        self.rest = rest;
    }

    /// `$NAME` or `${NAME}`; one that is not known stays.
    fn variable(&mut self) {
        let behind = &self.rest[1..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = |text: &str| text.find(|c| !is_name(c)).unwrap_or(text.len());
        let (name, whole) = match behind.strip_prefix('{') {
            Some(braced) => (&braced[..length(braced)], length(braced) + 3),
            None => (&behind[..length(behind)], length(behind) + 1),
        };
        let is_whole = !behind.starts_with('{') || behind[1 + name.len()..].starts_with('}');
        match (self.shell.variable)(name).filter(|_| is_whole) {
            Some(value) => {
                self.push_value(&value);
                self.rest = &self.rest[whole..];
            }
            None => self.raw(1),
        }
    }
}

/// How long a text is that begins with a parenthesis, as far as the one that closes it.
fn closed(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return at + 1,
            ')' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

#[derive(Default)]
struct Parser {
    commands: Vec<SimpleCommand>,
    current: SimpleCommand,
    /// The first commands of the groups that are open.
    open: Vec<usize>,
    /// That of the group that was just closed, with its redirections.
    closed: Option<(usize, Vec<Redirection>)>,
}

impl Parser {
    fn word(&mut self, word: String) {
        match word.as_str() {
            "{" if self.current.words.is_empty() => self.open(),
            "}" if self.current.words.is_empty() => self.close(),
            _ => self.current.words.push(word),
        }
    }

    fn control(&mut self, operator: &str) {
        match operator {
            "(" => self.open(),
            ")" => self.close(),
            "|" => self.outermost(Redirection::Stdout(Sink::Elsewhere)),
            "|&" => self.outermost(Redirection::Both(Sink::Elsewhere)),
            _ => self.end(),
        }
    }

    fn open(&mut self) {
        self.end();
        self.open.push(self.commands.len());
    }

    fn close(&mut self) {
        self.end();
        self.closed = self.open.pop().map(|first| (first, Vec::new()));
    }

    fn redirect(&mut self, redirection: Option<Redirection>) {
        match &mut self.closed {
            Some((_, of_group)) => of_group.extend(redirection),
            None => self.current.redirections.extend(redirection),
        }
    }

    /// A pipe, which ends the command and takes effect before its redirections.
    fn outermost(&mut self, pipe: Redirection) {
        match &mut self.closed {
            Some((_, of_group)) => of_group.insert(0, pipe),
            None => self.current.redirections.insert(0, pipe),
        }
        self.end();
    }

    fn end(&mut self) {
        if let Some((first, of_group)) = self.closed.take() {
            for command in &mut self.commands[first..] {
                command.redirections.splice(0..0, of_group.iter().copied());
            }
        }
        let command = std::mem::take(&mut self.current);
        if !command.words.is_empty() {
            self.commands.push(command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(text: &str, is_bash: bool) -> Vec<SimpleCommand> {
        let variable = |name: &str| match name {
            "HOME" => Some("/h".into()),
            "A" => Some("a b".into()),
            "E" => Some(String::new()),
            _ => None,
        };
        Shell { is_bash, variable: &variable }.simple_commands(text)
    }

    #[test]
    fn a_command_is_read_as_a_shell_reads_it() {
        for (text, expected) in [
            ("a  b\tc", "a|b|c"),
            ("a 'b c' d\\ e \"f 'g\"", "a|b c|d e|f 'g"),
            ("a '$A' \"$A\" ${A}x$A $B ${A:-x}", "a|$A|a b|a|bxa|b|$B|${A:-x}"),
            ("a $E b$E \"$E\" $E$E''", "a|b||"),
            (r#"a "\$A \a \"" \$A"#, r#"a|$A \a "|$A"#),
            ("~/a ~b '~/c' $HOME/d ~;~", "/h/a|~b|~/c|/h/d|/h / /h"),
            ("a $(b $(c; d) 'e') `f g`", "a|$(b $(c; d) 'e')|`f g`"),
            ("a&&b||c;d&e|f", "a / b / c / d / e / f"),
            ("(a;b) && { c; } ", "a / b / c"),
            ("a b#c # d e", "a|b#c"),
            ("a 2>&1 >>f b '>' 2 >x", "a|b|>|2"),
            ("a '' \"\"", "a||"),
            ("a 'b", "a|b"),
            ("", ""),
        ] {
            let shown: Vec<_> = commands(text, false).iter().map(|it| it.words.join("|")).collect();
            assert_eq!(shown.join(" / "), expected, "{text}");
        }
    }

    #[test]
    fn the_output_of_a_command_goes_where_the_shell_sends_it() {
        for (text, expected) in [
            ("a", "told, told"),
            ("a >/dev/null", "nothing, told"),
            ("a > /dev/null 2>&1", "nothing, nothing"),
            ("a 2>&1 >/dev/null", "nothing, told"),
            ("a 2>/dev/null", "told, nothing"),
            ("a 2>&-", "told, nothing"),
            ("a >>f 2>&1", "elsewhere, elsewhere"),
            ("a >&2", "told, told"),
            (">/dev/null a 1>&2", "told, told"),
            ("a 2>&1 | b", "elsewhere, elsewhere"),
            ("a | b >/dev/null 2>&1", "elsewhere, told"),
            ("(a; b) >/dev/null 2>&1", "nothing, nothing"),
            ("{ a 2>f; } >/dev/null 2>&1 || c", "nothing, elsewhere"),
            ("(a) 2>&1 | b", "elsewhere, elsewhere"),
            ("a '>/dev/null' \\2>/dev/null", "nothing, told"),
            ("a 3>/dev/null </dev/null", "told, told"),
        ] {
            let output = commands(text, false)[0].output(Output::TOLD);
            let shown = format!("{:?}, {:?}", output.stdout, output.stderr).to_lowercase();
            assert_eq!(shown, expected, "{text}");
        }
        let split = &commands("a &>/dev/null", false)[0];
        assert_eq!((split.is_split, split.output(Output::TOLD)), (true, Output::TOLD));
        let whole = &commands("a &>/dev/null", true)[0];
        let output = whole.output(Output::TOLD);
        assert_eq!((whole.is_split, output.stderr), (false, Sink::Nothing));
    }
}
