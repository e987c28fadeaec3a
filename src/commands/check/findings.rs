//! Findings of a check.

use anyhow::Result;
use backlog_store::system_error::chain;

use crate::report::{Finding, Level};

#[derive(Default)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    pub fn add(&mut self, level: Level, about: &'static str, text: impl Into<String>) {
        self.0.push(Finding { level, about, text: text.into(), statement: None });
    }

    pub fn ok(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(Level::Ok, about, text);
    }

    pub fn warning(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(Level::Warning, about, text);
    }

    pub fn error(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(Level::Error, about, text);
    }

    pub fn wrong<T>(&mut self, about: &'static str, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.error(about, chain(&error))).ok()
    }
}
