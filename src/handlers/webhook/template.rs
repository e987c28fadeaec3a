//! Text with `{column}` in it, for which each record has its own value.

use std::fmt;

use anyhow::{Context, Result, bail};
use percent_encoding::{AsciiSet, utf8_percent_encode};

/// Text and the columns between.
#[derive(Clone)]
pub struct Template {
    /// What messages call it.
    what: &'static str,
    pieces: Vec<Piece>,
}

#[derive(Clone)]
enum Piece {
    Text(String),
    Column(String),
}

impl Template {
    /// Cuts a text at its braces. `check` looks at what stands between them.
    pub fn parse(
        text: &str,
        what: &'static str,
        check: impl Fn(&str) -> Result<()>,
    ) -> Result<Self> {
        let literal = |text: &str| check(text).map(|()| Piece::Text(text.into()));
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            pieces.push(literal(before)?);
            let Some((name, after)) = after.split_once('}') else {
                bail!("a brace in {what} is not closed; write a column as {{name}}");
            };
            if name.is_empty() {
                bail!("braces in {what} are empty; write a column as {{name}}");
            }
            pieces.push(Piece::Column(name.into()));
            rest = after;
        }
        pieces.push(literal(rest)?);
        Ok(Self { what, pieces })
    }

    /// The names in braces, each as often as it occurs.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| {
            if let Piece::Column(name) = piece { Some(name.as_str()) } else { None }
        })
    }

    /// The text for one record. Of the values the characters of `encoded` are percent-encoded, and
    /// what is not ASCII.
    pub fn fill(
        &self,
        value: &dyn Fn(&str) -> Option<String>,
        encoded: &'static AsciiSet,
    ) -> Result<String> {
        let what = self.what;
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(literal) => text.push_str(literal),
                Piece::Column(name) => {
                    let value = value(name).with_context(|| {
                        format!("{what} needs the column {name}, which has no value")
                    })?;
                    text.extend(utf8_percent_encode(&value, encoded));
                }
            }
        }
        Ok(text)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pieces.iter().try_for_each(|piece| match piece {
            Piece::Text(text) => f.write_str(text),
            Piece::Column(name) => write!(f, "{{{name}}}"),
        })
    }
}
