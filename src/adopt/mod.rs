//! Adoption of a table that nobody has described: a mapping is proposed by the names and values of its
//! columns, each line with its evidence. What these do not say is a question, and never a guess.

mod conduct;
mod flags;
mod given_up;
mod known;
mod profile;
mod propose;
mod searched;
mod status;
mod without_status;
mod words;

use toml::Value;

use crate::options::LONGEST_NAME;
use crate::record::one_line;
use crate::store::{Explore, Outline};

pub use propose::likeness;

/// A section of backlog.toml for a table.
pub struct Proposal {
    pub queue: String,
    pub table: String,
    pub steps: Vec<Step>,
}

/// A part of the section.
pub enum Step {
    /// A sentence about what follows.
    Comment(String),
    Lines(Vec<String>),
    Question(Question),
}

/// What the table does not say.
pub struct Question {
    pub about: String,
    pub why: String,
    pub choices: Vec<Choice>,
}

/// An answer, as lines of the section.
pub struct Choice {
    pub lines: Vec<String>,
    pub says: String,
}

impl Choice {
    fn new(lines: Vec<String>, says: impl Into<String>) -> Self {
        Self { lines, says: says.into() }
    }
}

impl Proposal {
    fn new(queue: &str, outline: &Outline) -> Self {
        // A queue's name has fewer characters than that of a table may have.
        let legal = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '-' };
        let name: String = queue.chars().map(legal).take(LONGEST_NAME).collect();
        let name = name.trim_start_matches(['_', '.', '-']);
        let queue = if name.is_empty() { "jobs" } else { name }.into();
        Self { queue, table: outline.name.clone(), steps: Vec::new() }
    }

    fn step(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// A line, after a sentence that says why.
    fn line(&mut self, why: impl Into<String>, line: String) {
        self.step(Step::Comment(why.into()));
        self.step(Step::Lines(vec![line]));
    }

    pub fn questions(&self) -> impl Iterator<Item = &Question> {
        self.steps.iter().filter_map(|step| match step {
            Step::Question(question) => Some(question),
            Step::Comment(_) | Step::Lines(_) => None,
        })
    }

    /// The proposal with questions answered; without an answer one stays.
    pub fn answered(
        self,
        mut answer: impl FnMut(&Question) -> anyhow::Result<Option<usize>>,
    ) -> anyhow::Result<Self> {
        let mut steps = Vec::new();
        for step in self.steps {
            steps.push(match step {
                Step::Question(mut question) => match answer(&question)? {
                    Some(index) if index < question.choices.len() => {
                        Step::Lines(question.choices.swap_remove(index).lines)
                    }
                    _ => Step::Question(question),
                },
                step @ (Step::Comment(_) | Step::Lines(_)) => step,
            });
        }
        Ok(Self { steps, ..self })
    }

    /// The section as TOML. The answers to an open question are comments, of which one is to be chosen.
    pub fn section(&self, db: &str) -> String {
        let mut text = format!("[queue.{}]\n", key(&self.queue));
        text +=
            &format!("db = {}\ntable = {}\n", Value::from(db), Value::from(self.table.as_str()));
        for step in &self.steps {
            match step {
                Step::Comment(comment) => text += &commented(comment),
                Step::Lines(lines) => text.extend(lines.iter().map(|line| format!("{line}\n"))),
                Step::Question(Question { about, why, choices }) => {
                    text += &commented(&format!(
                        "QUESTION: {about} {why}. Take the # from one answer:"
                    ));
                    for Choice { lines, says } in choices {
                        text += &commented(&format!("- {says}:"));
                        let lines = lines.iter().flat_map(|line| line.lines());
                        text.extend(lines.map(|line| format!("# {line}\n")));
                    }
                }
            }
        }
        text
    }
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
pub fn propose(database: &mut dyn Explore, outline: &Outline) -> Proposal {
    let sample = database.sample(outline);
    let mut values = |name: &str| {
        let column = outline.columns.iter().find(|it| it.name.eq_ignore_ascii_case(name))?;
        database.values(outline, column)
    };
    match known::Known::of(&outline.name, &outline.columns) {
        Some(known) => {
            let texts = |values: Vec<(crate::record::Value, u64)>| {
                values.into_iter().map(|(value, _)| value.to_string()).collect()
            };
            known.proposal(outline, &mut |name| values(name).map(texts))
        }
        None => propose::by_columns(outline, &sample, &mut values),
    }
}
