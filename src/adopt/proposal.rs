//! A proposed section of backlog.toml, with its open questions.

use std::path::Path;

use anyhow::Result;
use backlog_store::Outline;
use toml::Value;

use super::profile::Profile;
use crate::options::MAX_NAME_LENGTH;
use crate::report::wrapped;
use crate::terminal::Terminal;

pub struct Proposal<'a> {
    pub queue: String,
    /// Number of open questions. Each leaves a `?`, which is not valid TOML.
    pub questions: usize,
    table: String,
    /// The lines after `table`.
    pub lines: String,
    pub terminal: &'a Terminal,
}

/// An answer to a question, and its lines in the section.
pub type Choice = (String, String);

impl<'a> Proposal<'a> {
    pub fn new(queue: &str, outline: &Outline, terminal: &'a Terminal) -> Self {
        // Names of tables may be longer than names of queues.
        let legal = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        let name: String = queue.chars().map(legal).take(MAX_NAME_LENGTH).collect();
        let name = name.trim_start_matches(['_', '-']);
        let queue = if name.is_empty() { "jobs" } else { name }.into();
        Self { queue, questions: 0, table: outline.name.clone(), lines: String::new(), terminal }
    }

    pub fn comment(&mut self, sentence: &str) {
        const WIDTH: usize = 97;
        self.lines +=
            &format!("# {}", wrapped(sentence.trim_start(), WIDTH).replace("\n  ", "\n# "));
    }

    pub fn line(&mut self, line: &str) {
        self.lines.extend([line, "\n"]);
    }

    pub fn facts<'c>(&mut self, about: &str, columns: impl Iterator<Item = &'c Profile<'c>>) {
        let facts: Vec<_> = columns.filter_map(Profile::facts).collect();
        if !facts.is_empty() {
            self.comment(about);
        }
        facts.iter().for_each(|fact| self.comment(fact));
    }

    /// Leaves a question open. Its line comes below it.
    pub fn question(&mut self, question: &str) {
        self.questions += 1;
        self.comment(&format!("QUESTION: {question}"));
    }

    /// Asks a question. Without an answer it stays open; `remedy` says how to answer it in the file.
    pub fn ask_or_leave_open(
        &mut self,
        question: &str,
        answers: &[String],
        remedy: &str,
    ) -> Result<Option<usize>> {
        let answer = self.terminal.choose(question, answers)?;
        if answer.is_none() {
            self.question(&format!("{question} {remedy}"));
        }
        Ok(answer)
    }

    pub fn choose(
        &mut self,
        question: &str,
        choices: &[Choice],
        open: &str,
    ) -> Result<Option<usize>> {
        let answers: Vec<_> = choices.iter().map(|(answer, _)| answer.clone()).collect();
        let chosen = self.terminal.choose(question, &answers)?;
        self.answer(question, choices, open, chosen);
        Ok(chosen)
    }

    /// Writes the lines of an answer. Without one, writes all answers as comments, and the line `open`.
    pub fn answer(
        &mut self,
        question: &str,
        choices: &[Choice],
        open: &str,
        chosen: Option<usize>,
    ) {
        if let Some((answer, lines)) = chosen.and_then(|chosen| choices.get(chosen)) {
            self.comment(&format!("{question} {answer}"));
            self.lines += lines;
            return;
        }
        let write = if choices.is_empty() { "" } else { " Write the lines of one answer:" };
        self.question(&format!("{question}{write}"));
        for (answer, lines) in choices {
            let none = if lines.is_empty() { ": no line" } else { "" };
            self.comment(&format!("- {answer}{none}"));
            lines.lines().for_each(|line| self.line(&format!("# {line}")));
        }
        self.line(open);
    }

    pub fn section(&self, db: &str, state_dir: Option<&Path>) -> String {
        let state_dir =
            state_dir.map(|path| format!("state_dir = {}\n", toml(&path.to_string_lossy())));
        let [db, table, state_dir] = [toml(db), toml(&self.table), state_dir.unwrap_or_default()];
        format!("[queue.{}]\ndb = {db}\ntable = {table}\n{state_dir}{}", self.queue, self.lines)
    }
}

pub fn toml(text: &str) -> String {
    Value::from(text).to_string()
}
