//! Templates of documents: the page and the picture.

use anyhow::{Context, Result};
use backlog_schedule::{Instant, cut_to, one_line, rough_span};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, HtmlEscape, UndefinedBehavior};
use serde::Serialize;

use super::screen::grouped;

/// A template filled with data. One whose name ends in `.html` escapes what it is given.
pub fn render(name: &str, template: &str, data: impl Serialize) -> Result<String> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.context("the syntax of templates is broken")?);
    environment.add_filter("grouped", grouped);
    environment.add_filter("rough", rough_span);
    environment.add_filter("short", |text: &str, most: usize| shortened(text, most));
    environment.add_filter("moments", |text: &str| Value::from_safe_string(with_moments(text)));
    let rendered = environment.render_named_str(name, template, Serde(data));
    rendered.with_context(|| format!("the template {name} is broken"))
}

/// Text that others wrote, on one line and no longer than this many characters.
pub fn shortened(text: &str, most: usize) -> String {
    cut_to(one_line(text), most, "…")
}

/// A longer text is somebody's error, not a sentence.
const SENTENCE: usize = 400;

/// A sentence in HTML. Instants in our own spelling are elements that machines read.
fn with_moments(text: &str) -> String {
    let mut html = String::new();
    for word in shortened(text, SENTENCE).split_inclusive(' ') {
        let bare = word.trim_end_matches([' ', ',', ';', ':']);
        let behind = match Instant::parse_own(bare) {
            Some(_) => {
                let shown = bare.replace('T', " ").replace('Z', "");
                html += &format!("<time datetime=\"{bare}\">{shown}</time>");
                word.strip_prefix(bare).unwrap_or_default()
            }
            None => word,
        };
        html += &HtmlEscape(behind).to_string();
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_within_a_sentence_are_found() {
        assert_eq!(
            with_moments("last pass 2026-11-21T00:00:00Z, 4 m ago: <1> failed at 12:30Z"),
            "last pass <time datetime=\"2026-11-21T00:00:00Z\">2026-11-21 00:00:00</time>, 4 m ago: \
             &lt;1&gt; failed at 12:30Z"
        );
    }
}
