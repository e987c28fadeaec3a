//! Text for messages: untrusted text on one line without hidden characters, cut to a length, and lists of names.

use serde::Serialize;

const MAX_VALUE_CHARS: usize = 200;

pub fn cut(text: String) -> String {
    cut_to(text, MAX_VALUE_CHARS, "...")
}

pub fn cut_to(mut text: String, most: usize, sign: &str) -> String {
    if let Some((end, _)) = text.char_indices().nth(most) {
        text.replace_range(end.., sign);
    }
    text
}

/// True for control characters, line and paragraph separators, the Braille blank, and Default_Ignorable_Code_Point of
/// Unicode, except the first sixteen variation selectors, which belong to the character before them.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

fn escaped(text: &str, escape: impl Fn(char) -> String) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            escaped += &escape(c);
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// A file in TOML, with hidden characters escaped in strings and comments.
pub fn toml_text(text: &str) -> String {
    escaped(text, |c| if c == '\n' { c.into() } else { format!("\\U{:08X}", u32::from(c)) })
}

/// A text on one line, with hidden characters escaped as `\n` and `\u{202e}`.
pub fn one_line(text: &str) -> String {
    escaped(text, |c| match c.is_control() {
        true => c.escape_debug().to_string(),
        false => c.escape_unicode().to_string(),
    })
}

pub fn cut_line(text: &str) -> String {
    cut(one_line(text))
}

/// A value as a line of JSON, with hidden characters escaped in strings: it reads back as the same value.
pub fn json_line(value: &impl Serialize) -> String {
    let line = serde_json::to_string(value).unwrap_or_default();
    escaped(&line, |c| {
        c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
    }) + "\n"
}

/// A number with its noun: `1 record`, `2 records`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

const MAX_LIST_CHARS: usize = 300;

/// `email, orders`; a long list is cut and ends with the number of the other names.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.into_iter().collect();
    let mut length = 0;
    let fits = |name: &&&str| {
        length += name.chars().count() + 2;
        length <= MAX_LIST_CHARS
    };
    let count = names.iter().take_while(fits).count().max(1).min(names.len());
    let list = names[..count].join(", ");
    if count == names.len() { list } else { format!("{list} and {} more", names.len() - count) }
}

/// `no queue "emial"; use one of email, orders`
pub fn unknown_name<'a>(
    what: &str,
    name: &str,
    legal: impl IntoIterator<Item = &'a str>,
) -> String {
    format!("no {what} {name:?}; use one of {}", listed(legal))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first and the last of each kind.
    const HIDDEN: [char; 34] = [
        '\0',
        '\u{1b}',
        '\u{7f}',
        '\u{80}',
        '\u{9f}',
        '\u{ad}',
        '\u{61c}',
        '\u{180e}',
        '\u{200b}',
        '\u{200d}',
        '\u{200e}',
        '\u{200f}',
        '\u{2028}',
        '\u{2029}',
        '\u{202a}',
        '\u{202e}',
        '\u{2060}',
        '\u{2064}',
        '\u{2066}',
        '\u{2069}',
        '\u{34f}',
        '\u{115f}',
        '\u{17b4}',
        '\u{180b}',
        '\u{2800}',
        '\u{3164}',
        '\u{ffa0}',
        '\u{1d173}',
        '\u{e0fff}',
        '\u{feff}',
        '\u{fff9}',
        '\u{e0000}',
        '\u{e0041}',
        '\u{e007f}',
    ];

    #[test]
    fn hidden_characters_are_escaped() {
        for c in HIDDEN {
            let line = one_line(&format!("a{c}b"));
            assert!(line.starts_with("a\\") && line.ends_with('b') && line.is_ascii(), "{line}");
            assert_eq!(one_line(&line), line, "escaped once");
        }
        assert_eq!(one_line("a\n\u{202e}b\u{85}"), "a\\n\\u{202e}b\\u{85}");
        for visible in ["größer → \"so\" \\ it's", "日本語", "❤\u{fe0f}", "نص", "e\u{301}"]
        {
            assert_eq!(one_line(visible), visible);
        }
    }

    #[test]
    fn json_has_the_same_value_in_visible_characters() {
        let text: String = HIDDEN.into_iter().chain("\n\"\\ größer 🙂".chars()).collect();
        let value = serde_json::json!({ text.as_str(): [text, 1.5, null] });
        let line = json_line(&value);
        assert!(!line.trim_end().chars().any(is_hidden), "{line}");
        assert!(line.contains("\\u202e") && line.contains("\\udb40\\udc41"), "{line}");
        assert!(line.contains("größer 🙂") && line.ends_with("}\n"), "{line}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap(), value);
    }

    #[test]
    fn a_list_is_no_longer_than_a_message_can_hold() {
        assert_eq!(listed([]), "");
        assert_eq!(listed(["a", "b"]), "a, b");
        let many: Vec<_> = (0..40).map(|number| format!("column_{number:02}")).collect();
        let listed = listed(many.iter().map(String::as_str));
        assert!(listed.starts_with("column_00, column_01, "), "{listed}");
        assert!(listed.ends_with(", column_26 and 13 more"), "{listed}");
        let unknown = unknown_name("queue", "emial", ["email", "orders"]);
        assert_eq!(unknown, "no queue \"emial\"; use one of email, orders");
    }
}
