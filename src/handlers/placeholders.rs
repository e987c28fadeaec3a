//! Placeholders in the arguments of a command: `{column}` becomes a value of the record. The rules
//! depend on positions: no value is run as code or read as an option.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use backlog_schedule::{Id, Record, Value, cut_line, listed};

/// Words after which code follows, besides `-c` and `-e`.
const CODE_WORDS: [&str; 5] = ["-eval", "--eval", "--command", "-Command", "eval"];
/// Characters that may surround a value, besides letters and digits.
const PUNCTUATION: &str = "_@%+=:,./-";
pub const VARIABLE_PREFIX: &str = "BACKLOG_ROW_";

pub struct Columns<'a> {
    pub names: Vec<&'a str>,
    /// Columns of an integer type, whose values are safe anywhere. `id` is one of them if the table's id is an integer.
    pub integers: Vec<&'a str>,
}

impl Columns<'_> {
    pub fn has(&self, name: &str) -> bool {
        is_id(name) || has(&self.names, name)
    }

    pub fn unknown(&self, name: &str) -> String {
        if name.contains(['.', '[']) {
            let hint = "let the handler read the JSON on its standard input";
            return format!(
                "{{{name}}} is not a column, and fields of JSON are not replaced: {hint}"
            );
        }
        format!("{{{name}}} is not a column; use one of {}", listed(self.names.iter().copied()))
    }
}

pub fn has(names: &[&str], name: &str) -> bool {
    names.iter().any(|other| other.eq_ignore_ascii_case(name))
}

/// True for `id`, which names the id in every table. A column of that name comes first.
pub fn is_id(name: &str) -> bool {
    name.eq_ignore_ascii_case("id")
}

fn variable(column: &str) -> String {
    let upper = column.to_ascii_uppercase();
    format!("{VARIABLE_PREFIX}{}", upper.replace(|c: char| !c.is_ascii_alphanumeric(), "_"))
}

/// The columns, each with its variable. Columns whose variables would be the same have none.
pub fn variables(columns: &[impl AsRef<str>]) -> Vec<(&str, Option<String>)> {
    let names: Vec<_> = columns.iter().map(|column| variable(column.as_ref())).collect();
    let is_unique = |name: &&String| names.iter().filter(|other| other == name).count() == 1;
    let unique = names.iter().map(|name| Some(name).filter(is_unique).cloned());
    columns.iter().map(AsRef::as_ref).zip(unique).collect()
}

/// Fails if a value could choose the program or be run as code, or if a placeholder is not a column.
pub fn check(argv: &[OsString], columns: &Columns) -> Result<(), String> {
    for at in 0..argv.len() {
        let argument = Argument::parse(argv, at, &|name| columns.has(name));
        if let Some(name) = argument.unknown.filter(|_| argument.is_plain) {
            let why = columns.unknown(name);
            return Err(format!("{why}; {{{{{name}}}}} is the text {{{name}}}"));
        }
        for (_, name) in &argument.columns {
            if at == 0 {
                let why = "would choose the program that is run; name the program";
                return Err(format!("the record's {{{name}}} {why}"));
            }
            if let Some(position) =
                argument.code_position().filter(|_| !has(&columns.integers, name))
            {
                let variable = if is_id(name) { "BACKLOG_ID".into() } else { variable(name) };
                return Err(format!(
                    "the record's {{{name}}} {position} could be run as code; let the program read \
                     ${variable}, or the JSON on its standard input"
                ));
            }
        }
    }
    Ok(())
}

/// Fills the placeholders with the values of one record. The error names a value that is not safe in its position.
pub fn fill(argv: &[OsString], record: &Record) -> Result<Vec<OsString>, String> {
    let is_column = |name: &str| record.row.get(name).is_some() || is_id(name);
    let fill = |at| Argument::parse(argv, at, &is_column).fill(record);
    (0..argv.len()).map(fill).collect()
}

/// The text with `{{word}}` replaced by `{word}`; `None` if it has a placeholder.
pub fn without_columns(text: &str) -> Option<String> {
    let argv = [text.into()];
    let argument = Argument::parse(&argv, 0, &|_| false);
    let is_legal = argument.unknown.is_none() || !argument.is_plain;
    String::from_utf8(argument.rest).ok().filter(|_| is_legal)
}

struct Argument<'a> {
    word: &'a OsStr,
    /// The arguments before it, the program first.
    before: &'a [OsString],
    /// Columns, each with the text before it.
    columns: Vec<(Vec<u8>, &'a str)>,
    rest: Vec<u8>,
    /// The first `{word}`, `{a.b}`, `{column }` or `{column[0]}` that does not name a column.
    unknown: Option<&'a str>,
    /// True if all other text consists of letters, digits and [`PUNCTUATION`].
    is_plain: bool,
}

impl<'a> Argument<'a> {
    /// Parses an argument. Braces after `$`, `%` or `#` are text, and `{{word}}` is the text `{word}`.
    fn parse(argv: &'a [OsString], at: usize, is_column: &dyn Fn(&str) -> bool) -> Self {
        let word = argv[at].as_os_str();
        let before = &argv[..at];
        let (columns, rest, unknown, is_plain) = (Vec::new(), Vec::new(), None, true);
        let mut argument = Self { word, before, columns, rest, unknown, is_plain };
        let is_name = |name: &&str| is_path(name) || is_column(leading_name(name));
        let mut left = word.as_bytes();
        while let Some(open) = left.iter().position(|byte| *byte == b'{') {
            let (before, from) = left.split_at(open);
            let escaped = braces(&from[1..]).filter(is_name);
            let is_variable = before.last().is_some_and(|byte| b"$%#".contains(byte));
            if let Some(name) = escaped
                && let Some(behind) = from[name.len() + 3..].strip_prefix(b"}")
            {
                argument.add(before);
                argument.add(&from[1..name.len() + 3]);
                left = behind;
            } else if let Some(name) = braces(from).filter(|_| !is_variable) {
                let (braced, behind) = from.split_at(name.len() + 2);
                argument.add(before);
                if is_column(name) {
                    argument.columns.push((std::mem::take(&mut argument.rest), name));
                } else if is_name(&name) {
                    argument.unknown.get_or_insert(name);
                    argument.rest.extend_from_slice(braced);
                } else {
                    argument.add(braced);
                }
                left = behind;
            } else {
                argument.add(&left[..=open]);
                left = &from[1..];
            }
        }
        argument.add(left);
        argument
    }

    fn add(&mut self, text: &[u8]) {
        let may_surround = |c: char| c.is_alphanumeric() || PUNCTUATION.contains(c);
        self.is_plain &= str::from_utf8(text).is_ok_and(|text| text.chars().all(may_surround));
        self.rest.extend_from_slice(text);
    }

    /// The position in which values could be run as code: within other text, or after a flag such as `-c`.
    fn code_position(&self) -> Option<String> {
        if !self.is_plain {
            return Some(format!("in {:?}", cut_line(&self.word.to_string_lossy())));
        }
        let begin = self.columns.first().map_or(&b""[..], |(text, _)| text);
        let begin = begin.strip_suffix(b"=").unwrap_or(begin);
        let words = || self.before.iter().rev().map(|word| word.as_bytes());
        let flags = words().take_while(|word| word.starts_with(b"-") || word.starts_with(b"+"));
        let mut words = [begin].into_iter().chain(words().take(1)).chain(flags);
        let flag = words.find_map(|word| str::from_utf8(word).ok().filter(|word| is_code(word)));
        flag.map(|flag| format!("after {flag}"))
    }

    fn fill(self, record: &Record) -> Result<OsString, String> {
        let is_code = self.code_position().is_some();
        let first = self.columns.first().filter(|(text, _)| text.is_empty()).map(|(_, name)| *name);
        let mut filled = Vec::with_capacity(self.word.len());
        for (text, name) in self.columns {
            let (value, is_integer) = match record.row.get(name) {
                Some(value) => (record.text_of(value), matches!(value, Value::Integer(_))),
                None => {
                    let text = record.id.text().into_owned().into_bytes();
                    (text.into(), matches!(record.id, Id::Integer(_)))
                }
            };
            if is_code && value.is_empty() {
                return Err(format!("its {name} is NULL or empty, and must be an integer here"));
            }
            if is_code && !is_integer {
                let value = cut_line(&String::from_utf8_lossy(&value));
                return Err(format!(
                    "its {name} is not an integer, and could be run as code: {value}"
                ));
            }
            filled.extend(text.iter().chain(value.iter()));
        }
        let is_number =
            || str::from_utf8(&filled).is_ok_and(|text| text.parse().is_ok_and(f64::is_finite));
        if let Some(name) = first
            && filled.starts_with(b"-")
            && !is_number()
            && !self.before.iter().any(|word| word == "--")
        {
            return Err(format!(
                "its {name} begins with a hyphen, and could be read as an option: write -- before \
                 {{{name}}}"
            ));
        }
        filled.extend(self.rest);
        Ok(OsString::from_vec(filled))
    }
}

/// True if the argument after this word is code. Short flags may share one word, as in `-euc`.
fn is_code(word: &str) -> bool {
    let flags = word.strip_prefix(['-', '+']).unwrap_or_default();
    let is_short = (1..=3).contains(&flags.len())
        && flags.bytes().all(|byte| byte.is_ascii_alphabetic())
        && flags.ends_with(['c', 'e']);
    is_short || CODE_WORDS.contains(&word)
}

fn braces(bytes: &[u8]) -> Option<&str> {
    let inner = bytes.strip_prefix(b"{")?;
    let end =
        inner.iter().position(|byte| b"{}".contains(byte)).filter(|end| inner[*end] == b'}')?;
    str::from_utf8(&inner[..end]).ok()
}

/// True for `word`, and for `a.b`, which looks like a field of JSON.
fn is_path(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c))
}

/// The name `payload` in `payload | x`, `payload[0]` and ` payload `.
fn leading_name(name: &str) -> &str {
    name.split(['|', '[']).next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handlers::tests::record;

    fn argv(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    fn checked(words: &[&str]) -> Result<(), String> {
        let names = vec!["ID", "PAYLOAD", "tries", "messageid", "userid"];
        check(&argv(words), &Columns { names, integers: vec!["ID", "tries"] })
    }

    fn refused(command: &str) -> String {
        let words = shlex::split(command).unwrap();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        checked(&words).expect_err(command)
    }

    /// Commands in which a value would be run as code.
    const CODE: &str = r#"
        sh -c 'echo {payload}'
        bash -lc "notify {payload}"
        python3 -c "print('{payload}')"
        perl -e 'print "{payload}"'
        gawk 'BEGIN { print "{payload}" }'
        ssh host "deliver {payload}"
        env sh -c "echo {payload}"
        sudo sh -c "echo {payload}"
        nice sh -c "echo {payload}"
        psql -c "select '{payload}'"
        sqlite3 app.db "insert into t values('{payload}')"
        mysql -e "select '{payload}'"
        Rscript -e "print('{payload}')"
        julia -e "println(\"{payload}\")"
        deno eval "console.log('{payload}')"
        bun -e "console.log('{payload}')"
        pwsh -Command "Write-Output {payload}"
        git -c alias.x=!{payload} x
        vim -c {payload}
        emacs --eval {payload}
        osascript -e {payload}
        crystal eval {payload}
        elixir -e {payload}
        erl -eval {payload}
        bash -lc {payload}
        bash -euc {payload}
        sh -c -- {payload}
        sh -c -x {payload}
        sh +c {payload}
        psql -Atc {payload}
        perl -lne {payload}
        python3 -c{payload}
        node --eval={payload}
        psql --command {payload}
        curl https://example.com/?to={payload}
    "#;

    #[test]
    fn a_value_that_could_be_run_as_code_is_refused() {
        for command in CODE.trim().lines().map(str::trim) {
            let why = refused(command);
            assert!(why.contains(" could be run as code; let the program read "), "{why}");
            assert!(why.contains("$BACKLOG_ROW_PAYLOAD, or the JSON on its"), "{why}");
            // Digits are safe.
            let words = shlex::split(&command.replace("payload", "tries")).unwrap();
            checked(&words.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        }
        assert_eq!(
            refused("sh -c 'echo {PAYLOAD}'"),
            "the record's {PAYLOAD} in \"echo {PAYLOAD}\" could be run as code; let the program read \
             $BACKLOG_ROW_PAYLOAD, or the JSON on its standard input"
        );
        assert!(refused("vim -c {payload}").starts_with("the record's {payload} after -c could"));
        for command in ["{payload} x", "{id}", "./{tries}"] {
            assert!(refused(command).contains("would choose the program that is run"), "{command}");
        }
    }

    #[test]
    fn an_argument_of_its_own_is_safe_and_other_braces_are_text() {
        for words in [
            &["./sync", "{id}", "{PAYLOAD}", "--to={payload}", "a@{payload}/%b:c,d.e+f=1"][..],
            &["sh", "-c", "mail \"$1\"", "sh", "{payload}"],
            &["sh", "-c", "echo {id} \"${BACKLOG_ID}\" ${order} '{order}'"],
            &["curl", "-w", "%{http_code}", "-w", "%{payload}\n", "https://h/{payload}"],
            &["awk", "{ print $1 }", "#{payload}", "{}", "{1}", "{a,b}", "{payload,order}"],
            &["x", "{\"id\":1}", "{id: .id}", "{ print id }", "{id = 1}", "{order }", "{{id }}"],
            &["x", "{{order}}", "{{payload.order}}", "{{.State}}", "{{payload}}", "'{order}'"],
            &["x", "größe-{payload}"],
        ] {
            checked(words).unwrap();
        }
    }

    #[test]
    fn the_examples_of_the_documentation_are_legal() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let pages = std::fs::read_dir(root.join("docs")).unwrap().map(|page| page.unwrap().path());
        // The recipes name columns of their own tables, and are run by tests/it/recipes.rs.
        let is_text = |page: &std::path::PathBuf| {
            page.extension().is_some_and(|extension| extension == "md" || extension == "toml")
                && !page.ends_with("recipes.md")
        };
        let mut examples = 0;
        for page in pages.filter(is_text).chain([root.join("README.md")]) {
            for line in std::fs::read_to_string(&page).unwrap().lines() {
                let command =
                    line.strip_prefix("backlog ").and_then(|line| line.split_once(" -- "));
                let words = match (command, line.trim().strip_prefix("exec = ")) {
                    (Some((_, command)), _) => shlex::split(command).unwrap(),
                    (None, Some(list)) => serde_json::from_str(list).unwrap(),
                    (None, None) => continue,
                };
                checked(&words.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
                examples += usize::from(words.iter().any(|word| word.contains('{')));
            }
        }
        assert!(examples > 5, "{examples}");
    }

    #[test]
    fn a_word_in_braces_names_a_column() {
        for (command, expected) in [
            (
                "./sync {order}",
                "{order} is not a column; use one of ID, PAYLOAD, tries, messageid, userid; {{order}} \
                 is the text {order}",
            ),
            ("./sync --to={PAYLOD}", "{PAYLOD} is not a column; use one of "),
            ("./sync {id}/{idd}", "{idd} is not a column; use one of ID, "),
            (
                "./sync {payload.order}",
                "{payload.order} is not a column, and fields of JSON are not replaced: let the handler \
                 read the JSON on its standard input; {{payload.order}} is the text {payload.order}",
            ),
            ("{sync}", "{sync} is not a column; use one of"),
            ("./sync '{id }'", "{id } is not a column; use one of"),
            (
                "./sync '--to={ payload | upper }'",
                "{ payload | upper } is not a column; use one of",
            ),
            ("./sync '{payload[0]}'", "{payload[0]} is not a column, and fields of JSON are"),
        ] {
            let why = refused(command);
            assert!(why.starts_with(expected), "{why}");
        }
    }

    fn filled(words: &[&str], record: &Record) -> Result<Vec<OsString>, String> {
        fill(&argv(&[&["x"], words].concat()), record).map(|words| words[1..].to_vec())
    }

    #[test]
    fn only_the_names_of_columns_are_filled_in() {
        let record = record(&[("ID", Value::Integer(7)), ("Name", Value::Text("{id}".into()))]);
        for (word, expected) in [
            ("{id}", "7"),
            ("--id={ID}.json", "--id=7.json"),
            ("{name}{id}", "{id}7"),
            ("{nothing}", "{nothing}"),
            ("{ print $1 } {", "{ print $1 } {"),
            ("{a: {id}}", "{a: 7}"),
            ("{}", "{}"),
            ("${id} {id} $${id}", "${id} 7 $${id}"),
            ("$ {id}", "$ 7"),
            ("%{id} #{id} {id}%", "%{id} #{id} 7%"),
            ("{{id}} {{a.b}} {{.a}} {{id} {{id }}", "{id} {a.b} {{.a}} {7 {id }"),
        ] {
            assert_eq!(filled(&[word], &record).unwrap(), [expected], "{word}");
        }
        let bytes = [OsString::from("x"), OsString::from_vec(b"\xff{id}\xfe".to_vec())];
        assert_eq!(fill(&bytes, &record).unwrap()[1].as_bytes(), b"\xff7\xfe");
        let record = super::super::tests::record(&[("b", Value::Bytes(b"a\xff".into()))]);
        assert_eq!(filled(&["{b}"], &record).unwrap()[0].as_bytes(), b"a\xff");
    }

    #[test]
    fn a_value_that_looks_like_an_option_fails_its_record() {
        let to = |value: &str| record(&[("to", Value::Text(value.into())), ("n", Value::Null)]);
        for words in [&["{to}"][..], &["{n}{to}"], &["-a", "{to}x", "--"]] {
            let why = filled(words, &to("-rf")).unwrap_err();
            assert!(
                why.contains(" begins with a hyphen, and could be read as an option: "),
                "{why}"
            );
        }
        for words in [&["--", "{to}"][..], &["--to={to}"], &["--", "-a", "{to}"]] {
            filled(words, &to("-rf")).unwrap();
        }
        for (value, is_number) in [
            ("-5", true),
            ("-1.5", true),
            ("-1e3", true),
            ("-", false),
            ("-inf", false),
            ("-5x", false),
        ] {
            assert_eq!(filled(&["{to}"], &to(value)).is_ok(), is_number, "{value}");
        }
    }

    #[test]
    fn text_in_a_column_of_integers_fails_its_record() {
        let n = |value| record(&[("n", value)]);
        let text = Value::Text("1; rm x".into());
        for words in [&["-c", "echo {n}"][..], &["-c", "{n}"], &["echo '{n}'"]] {
            let why = filled(words, &n(text.clone())).unwrap_err();
            assert_eq!(why, "its n is not an integer, and could be run as code: 1; rm x");
            assert!(filled(words, &n(Value::Null)).is_err());
            filled(words, &n(Value::Integer(-7))).unwrap();
        }
        filled(&["{n}"], &n(text)).unwrap();
        let record = Record { id: Id::Text("1; rm x".into()), ..record(&[]) };
        assert!(filled(&["-c", "echo {id}"], &record).is_err());
    }

    #[test]
    fn columns_have_variables_unless_two_would_share_one() {
        let own = |name: &'static str, variable: &str| (name, Some(variable.to_string()));
        assert_eq!(
            variables(&["id", "due at", "größe", "a-b", "A_B"]),
            [
                own("id", "BACKLOG_ROW_ID"),
                own("due at", "BACKLOG_ROW_DUE_AT"),
                own("größe", "BACKLOG_ROW_GR__E"),
                ("a-b", None),
                ("A_B", None),
            ]
        );
    }
}
