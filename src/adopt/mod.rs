//! Adoption of a table that nobody has described: the program shows what is in the table, and proposes a
//! mapping where names and values leave no doubt. Everything else is a question.

mod columns;
mod known;
mod pending;
mod propose;
mod words;

use std::path::PathBuf;

use anyhow::Result;
use toml::{Table, Value};

use crate::options::LONGEST_NAME;
use crate::record::one_line;
use crate::store::{self, Explore, Outline};
use crate::time::Instant;

use columns::Column;
use known::Known;
pub use propose::{is_known, is_like_a_queue};

/// Asks somebody at the terminal which of several answers is right.
pub type Ask<'a> = dyn FnMut(&str, &[String]) -> Result<Option<usize>> + 'a;

/// A section of backlog.toml for a table.
pub struct Proposal {
    pub queue: String,
    pub table: String,
    /// Where passes note what they did, if that is not beside the database.
    pub state_dir: Option<PathBuf>,
    steps: Vec<Step>,
}

/// A part of the section.
enum Step {
    Comment(String),
    Lines(Vec<String>),
    /// Lines with a `?` that is no TOML, in place of what nobody has answered.
    Open(Vec<String>),
}

/// An answer to a question, with the lines of the section that say it.
struct Choice {
    answer: String,
    lines: Vec<String>,
}

impl Choice {
    fn new(answer: impl Into<String>, lines: Vec<String>) -> Self {
        Self { answer: answer.into(), lines }
    }
}

impl Proposal {
    fn new(queue: &str, outline: &Outline) -> Self {
        // The name of a queue is shorter than that of a table may be.
        let legal = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '-' };
        let name: String = queue.chars().map(legal).take(LONGEST_NAME).collect();
        let name = name.trim_start_matches(['_', '.', '-']);
        let queue = if name.is_empty() { "jobs" } else { name }.into();
        Self { queue, table: outline.name.clone(), state_dir: None, steps: Vec::new() }
    }

    fn comment(&mut self, comment: impl Into<String>) {
        self.steps.push(Step::Comment(comment.into()));
    }

    /// What is known of the values of columns, after a sentence about them.
    fn facts<'a>(&mut self, about: &str, columns: impl Iterator<Item = &'a Column<'a>>) {
        let facts: Vec<_> = columns.filter_map(Column::facts).collect();
        if !facts.is_empty() {
            self.comment(about);
        }
        facts.into_iter().for_each(|fact| self.comment(format!("  {fact}")));
    }

    fn lines(&mut self, lines: Vec<String>) {
        self.steps.push(Step::Lines(lines));
    }

    /// A line, after a sentence that says why.
    fn line(&mut self, why: impl Into<String>, line: String) {
        self.comment(why);
        self.lines(vec![line]);
    }

    /// Lines that have a `?` if there are questions, which are written above.
    fn open(&mut self, questions: &[String], lines: &[String]) {
        for question in questions {
            self.comment(format!("QUESTION: {question}"));
        }
        let lines = lines.to_vec();
        self.steps.push(if questions.is_empty() { Step::Lines(lines) } else { Step::Open(lines) });
    }

    /// Asks, and writes the lines of the answer. Without one these lines stay open, and the choices are
    /// comments.
    fn choose(
        &mut self,
        ask: &mut Ask<'_>,
        question: &str,
        mut choices: Vec<Choice>,
        open: Vec<String>,
    ) -> Result<Option<usize>> {
        let answers: Vec<_> = choices.iter().map(|choice| choice.answer.clone()).collect();
        let chosen = ask(question, &answers)?;
        match chosen {
            Some(index) => {
                let Choice { answer, lines } = choices.swap_remove(index);
                self.comment(format!("{question} {answer}"));
                self.lines(lines);
            }
            None => {
                let write = if choices.is_empty() { "" } else { " Write the lines of one answer:" };
                self.comment(format!("QUESTION: {question}{write}"));
                for Choice { answer, lines } in choices {
                    let none = if lines.is_empty() { ": no line" } else { "" };
                    self.comment(format!("- {answer}{none}"));
                    let lines = lines.iter().flat_map(|line| line.lines());
                    self.lines(lines.map(|line| format!("# {line}")).collect());
                }
                self.steps.push(Step::Open(open));
            }
        }
        Ok(chosen)
    }

    /// The number of questions without an answer.
    pub fn open_questions(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step, Step::Open(_))).count()
    }

    /// The section as TOML, but for the `?` of open questions.
    pub fn section(&self, db: &str) -> String {
        let mut text = format!("[queue.{}]\n", key(&self.queue));
        text +=
            &format!("db = {}\ntable = {}\n", Value::from(db), Value::from(self.table.as_str()));
        if let Some(state_dir) = &self.state_dir {
            text += &format!("state_dir = {}\n", Value::from(state_dir.display().to_string()));
        }
        for step in &self.steps {
            match step {
                Step::Comment(comment) => text += &commented(comment),
                Step::Lines(lines) | Step::Open(lines) => {
                    text.extend(lines.iter().map(|line| format!("{line}\n")));
                }
            }
        }
        text
    }
}

/// What a mapping cannot do, for want of columns or values.
pub fn limits(section: &Table, outline: &Outline) -> Vec<&'static str> {
    // Columns with the usual names need no key.
    let has = |key: &str| {
        let is_usual = |column: &store::Column| column.name.eq_ignore_ascii_case(key);
        section.contains_key(key) || outline.columns.iter().any(is_usual)
    };
    let status = section.get("status");
    let value = |key: &str| status.and_then(|status| status.get(key));
    let sets_next = |columns: &Value| {
        let mut columns = columns.as_table().into_iter().flatten();
        columns.any(|(_, value)| value.as_str() == Some("{next}"))
    };
    let mut limits = Vec::new();
    if !has("failures") {
        limits.push(
            "no column counts failures: --fibonacci, --policy and --max-attempts have nothing to \
             go by",
        );
    }
    let tells_failed = value("error").is_some() && value("error") != value("new");
    if !tells_failed && !has("last_failure") && !section.get("on_failure").is_some_and(sets_next) {
        limits.push(
            "no column that `retry` could change; try all pending: `backlog \
             process --ndays 365`",
        );
    }
    if value("archived").is_none()
        && !section.contains_key("on_archive")
        && !section.contains_key("where_archived")
    {
        limits.push(
            "no value for what is given up: `archive` and --max-attempts need status.archived, or \
             on_archive with where_archived",
        );
    }
    if !has("last_error") {
        limits.push("no column for errors: the table does not keep why a record failed");
    }
    limits
}

/// A sentence as lines of comments.
fn commented(sentence: &str) -> String {
    const WIDTH: usize = 98;
    let (mut text, mut line) = (String::new(), String::from("#"));
    for word in one_line(sentence).split_whitespace() {
        if line.chars().count() + word.chars().count() > WIDTH {
            text += &format!("{line}\n");
            line = "#".into();
        }
        line += &format!(" {word}");
    }
    text + &line + "\n"
}

/// A key of TOML, in quotes unless it is a bare one.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || ['_', '-'].contains(&c);
    match !name.is_empty() && name.chars().all(is_bare) {
        true => name.into(),
        // A basic string on one line, which JSON's is as well.
        false => serde_json::Value::from(name).to_string(),
    }
}

fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), String::from)
}

/// The mapping that is proposed for a table.
pub fn propose(
    database: &mut dyn Explore,
    outline: &Outline,
    now: Instant,
    ask: &mut Ask<'_>,
) -> Result<Proposal> {
    let sample = database.sample(outline);
    let columns = Column::all(database, outline, &sample, now);
    match Known::of(&outline.name, &outline.columns) {
        Some(known) => known.proposal(outline, &columns, ask),
        None => propose::by_columns(outline, &sample, columns, now, ask),
    }
}
