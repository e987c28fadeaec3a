//! The findings of `check`, as text and as JSON.

use serde_json::json;

use crate::record::{json_line, one_line};

/// The level of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Ok,
    /// To be known.
    Warning,
    /// To be mended, or records are lost sight of.
    Error,
}

pub struct Finding {
    pub level: Level,
    /// What it is about, in a word.
    pub about: &'static str,
    pub text: String,
    /// An SQL statement that mends it.
    pub statement: Option<String>,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

pub fn findings_text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { level, about, text: found, statement } in findings {
        text += &format!("{:<7}  {about:<10}  {}\n", level.name(), one_line(found));
        if let Some(statement) = statement {
            text += &format!("{:<19}  {}\n", "", one_line(statement));
        }
    }
    text
}

pub fn findings_json(queue: &str, db: &str, table: &str, findings: &[Finding]) -> String {
    let ok = findings.iter().all(|finding| finding.level != Level::Error);
    let found: Vec<_> = findings
        .iter()
        .map(|Finding { level, about, text, statement }| {
            json!({ "level": level.name(), "about": about, "text": text, "statement": statement })
        })
        .collect();
    json_line(&json!({ "queue": queue, "db": db, "table": table, "ok": ok, "findings": found }))
}
