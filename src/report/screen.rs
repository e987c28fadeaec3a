//! The screen that a report is for: a terminal, whose reader wants his own time and lines that fit, or
//! a pipe, which gets UTC and everything.

use chrono::{DateTime, Datelike, Local};

use crate::record::{cut_to, one_line};
use crate::time::{DAY, Instant, rough_span};

/// How many characters of a long condition are enough to know it by.
const BRIEF: usize = 50;

#[derive(Debug, Clone, Copy)]
pub struct Screen {
    /// In characters; `None` for a pipe.
    pub width: Option<usize>,
    pub now: Instant,
}

impl Screen {
    pub fn is_terminal(&self) -> bool {
        self.width.is_some()
    }

    /// An instant: on a terminal `02:36:00` in local time, with the date if that is another day.
    pub fn at(&self, at: Instant) -> String {
        if !self.is_terminal() {
            return at.to_string();
        }
        let local =
            |at: Instant| DateTime::from_timestamp(at.0, 0).map(|it| it.with_timezone(&Local));
        let (Some(then), Some(now)) = (local(at), local(self.now)) else { return at.to_string() };
        let format = if then.date_naive() == now.date_naive() {
            "%H:%M:%S"
        } else if then.year() == now.year() || (at.0 - self.now.0).abs() < 180 * DAY {
            "%b %d %H:%M"
        } else {
            "%Y-%m-%d"
        };
        then.format(format).to_string()
    }

    /// An instant, and on a terminal how far it is from now: `02:36:00, 58 s ago`.
    pub fn when(&self, at: Instant) -> String {
        match self.width {
            Some(_) => format!("{}, {}", self.at(at), self.distance(at)),
            None => self.at(at),
        }
    }

    /// `58 s ago`, `in 2 m`
    pub fn distance(&self, at: Instant) -> String {
        match at.0.saturating_sub(self.now.0) {
            0 => "now".into(),
            secs if secs > 0 => format!("in {}", rough_span(secs)),
            secs => format!("{} ago", rough_span(secs.saturating_neg())),
        }
    }

    /// A line that fits a terminal, whatever others have written into it.
    pub fn fit(&self, line: &str) -> String {
        let line = one_line(line.trim_end());
        match self.width.filter(|width| line.chars().count() > *width) {
            Some(width) => line.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
            None => line,
        }
    }

    /// A text of which on a terminal the beginning is enough.
    pub fn brief(&self, text: &str) -> String {
        let text = one_line(text);
        if self.is_terminal() { cut_to(text, BRIEF, "…") } else { text }
    }

    /// A sentence on as many lines as it needs on a terminal, those behind the first indented.
    pub fn wrap(&self, sentence: &str) -> String {
        let width = self.width.unwrap_or(usize::MAX);
        let (mut text, mut column) = (String::new(), 0);
        // Two blanks between a label and its value stay.
        for word in one_line(sentence.trim_end()).split_inclusive(' ') {
            if column > 0 && column + word.trim_end().chars().count() > width {
                text.truncate(text.trim_end().len());
                text += "\n  ";
                column = 2;
            }
            text += word;
            column += word.chars().count();
        }
        text + "\n"
    }
}

/// A number of records with its thousands apart: `4,055`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let apart = |(place, digit): (usize, char)| {
        let is_thousand = place > 0 && (digits.len() - place).is_multiple_of(3);
        is_thousand.then_some(',').into_iter().chain([digit])
    };
    digits.chars().enumerate().flat_map(apart).collect()
}
