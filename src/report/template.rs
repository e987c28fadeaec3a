//! Templates of documents: the page and the picture.

use anyhow::{Context, Result};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

/// A template filled with data. One whose name ends in `.html` escapes what it is given.
pub fn render(name: &str, template: &str, data: impl Serialize) -> Result<String> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.context("the syntax of templates is broken")?);
    let rendered = environment.render_named_str(name, template, Serde(data));
    rendered.with_context(|| format!("the template {name} is broken"))
}
