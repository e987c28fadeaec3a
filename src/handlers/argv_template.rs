//! `{column}` in the words of a command.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::record::{Record, Value};

/// One stretch of a word.
enum Piece<'a> {
    Text(&'a [u8]),
    /// Braces with the name of a column in them.
    Column(&'a str),
}

/// A word in pieces. Braces that do not hold the name of a column stay as they are, for awk and jq,
/// and so do those behind a dollar sign: `${id}` is a variable of the shell's.
fn pieces<'a>(word: &'a OsStr, is_column: &dyn Fn(&str) -> bool) -> Vec<Piece<'a>> {
    let (word, mut pieces) = (word.as_bytes(), Vec::new());
    let (mut begin, mut at) = (0, 0);
    while let Some(open) = word[at..].iter().position(|byte| *byte == b'{').map(|it| it + at) {
        at = open + 1;
        let is_variable = open > 0 && word[open - 1] == b'$';
        let close = word[open..].iter().position(|byte| *byte == b'}').map(|it| it + open);
        let name = close.and_then(|close| std::str::from_utf8(&word[open + 1..close]).ok());
        if let (Some(name), Some(close)) = (name.filter(|it| !is_variable && is_column(it)), close)
        {
            pieces.extend([Piece::Text(&word[begin..open]), Piece::Column(name)]);
            (begin, at) = (close + 1, close + 1);
        }
    }
    pieces.push(Piece::Text(&word[begin..]));
    pieces
}

/// The word for one record. What was filled in is not looked at again.
pub fn fill(word: &OsStr, record: &Record) -> OsString {
    let mut filled = Vec::with_capacity(word.len());
    for piece in pieces(word, &|name| record.row.get(name).is_some()) {
        match piece {
            Piece::Text(text) => filled.extend_from_slice(text),
            Piece::Column(name) => {
                let value = record.row.get(name).map(Value::text);
                filled.extend_from_slice(&value.unwrap_or_default());
            }
        }
    }
    OsString::from_vec(filled)
}

/// The first column that a word holds, and whether the word begins with it.
pub fn first_column<'a>(
    word: &'a OsStr,
    is_column: &dyn Fn(&str) -> bool,
) -> Option<(&'a str, bool)> {
    let mut begins = true;
    pieces(word, is_column).into_iter().find_map(|piece| match piece {
        Piece::Text(text) => {
            begins &= text.is_empty();
            None
        }
        Piece::Column(name) => Some((name, begins)),
    })
}

/// The first name in braces that is no column's but nearly one's, and that column.
pub fn misspelt<'a>(word: &'a OsStr, columns: &[&'a str]) -> Option<(&'a str, &'a str)> {
    let meant = |name: &str| {
        let is_column = columns.iter().any(|column| column.eq_ignore_ascii_case(name));
        let mut near = columns.iter().copied().filter(|column| !is_column && is_near(name, column));
        near.next()
    };
    let (name, _) = first_column(word, &|name| meant(name).is_some())?;
    Some((name, meant(name)?))
}

/// How many bytes a character of UTF-8 takes at most.
const LONGEST_CHAR: usize = 4;

/// Whether a name is one slip of the finger away from that of a column. Of less than four letters
/// too many are.
fn is_near(name: &str, column: &str) -> bool {
    let (name, column) = (name.to_lowercase(), column.to_lowercase());
    column.chars().count() >= 4
        // What awk and jq have in braces may be long.
        && name.len().abs_diff(column.len()) <= LONGEST_CHAR
        && strsim::damerau_levenshtein(&name, &column) <= 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handlers::tests::record;

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
        ] {
            assert_eq!(fill(OsStr::new(word), &record), OsStr::new(expected), "{word}");
        }
        let bytes = OsStr::from_bytes(b"\xff{id}\xfe");
        assert_eq!(fill(bytes, &record).as_bytes(), b"\xff7\xfe");
        let record = super::super::tests::record(&[("b", Value::Bytes(b"a\xff".into()))]);
        assert_eq!(fill(OsStr::new("{b}"), &record).as_bytes(), b"a\xff");
    }

    #[test]
    fn a_name_that_is_nearly_a_columns_is_none_by_mistake() {
        let columns = ["ID", "PAYLOAD", "Status", "DATES"];
        for (word, expected) in [
            ("--to={PAYLOD}", Some(("PAYLOD", "PAYLOAD"))),
            ("{payloaad}", Some(("payloaad", "PAYLOAD"))),
            ("{id} {a: {paylaod}}", Some(("paylaod", "PAYLOAD"))),
            ("{statuz}", Some(("statuz", "Status"))),
            ("{Status }", Some(("Status ", "Status"))),
            ("{payload}{STATUS}", None),
            ("${PAYLOD}", None),
            ("{idd} {i} {}", None),
            ("{ print $1 } {stats_of}", None),
            ("{plod}", None),
        ] {
            assert_eq!(misspelt(OsStr::new(word), &columns), expected, "{word}");
        }
        // A column that is nearly another is itself.
        assert_eq!(misspelt(OsStr::new("{dates} {DATE}"), &["DATE", "DATES"]), None);
    }
}
