//! Templates of documents: the page and the picture.

use anyhow::{Context, Result};
use backlog_schedule::{cut_to, one_line, rough_span};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

use super::screen::grouped;

/// A template filled with data, which is escaped if the name of the template ends in `.html` or `.xml`.
pub fn render(name: &str, template: &str, data: impl Serialize) -> Result<String> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.context("the syntax of templates is broken")?);
    environment.add_filter("grouped", grouped);
    environment.add_filter("rough", rough_span);
    // Text that others wrote, on one line and no longer than this many characters.
    environment.add_filter("short", |text: &str, most: usize| cut_to(one_line(text), most, "…"));
    let rendered = environment.render_named_str(name, template, Serde(data));
    rendered.with_context(|| format!("the template {name} is broken"))
}
