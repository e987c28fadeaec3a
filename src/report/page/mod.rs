//! The page: a document of HTML about queues, whole in itself. It takes data and makes a text of it.
//!
//! `page.html` is the template, which escapes what others have written; `page.css` and `page.js` stand in
//! the page, and its policy allows these two by their hashes and nothing else: no request goes out, and
//! what slipped through as markup would do nothing. What grows with the data is bounded, and drawn in
//! less detail where there are many queues.

mod bars;
mod instants;
mod overview;
mod queue;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use sha2::{Digest, Sha256};

use self::instants::Moment;
use self::overview::Overview;
use self::queue::QueueSection;
use super::screen::{Screen, grouped};
use super::status::QueueStatus;
use super::template::render;
use crate::record::{cut_to, one_line};
use crate::time::{Instant, span};

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// How many of the last passes of a queue are bars.
pub const PASSES: usize = 60;
/// How many archived records of a queue are shown.
pub const ARCHIVED: usize = 50;

/// How many characters of a name are shown.
const NAME: usize = 80;

/// The most bytes of a page, as long as less detail makes it smaller.
const MOST_BYTES: usize = 290_000;

/// How much of each queue is shown.
#[derive(Debug, Clone, Copy)]
struct Detail {
    causes: usize,
    archived: usize,
    /// Characters of an error.
    error: usize,
}

/// The first that makes the page small enough is taken, or the last.
const DETAILS: [Detail; 4] = [
    Detail { causes: 20, archived: ARCHIVED, error: 200 },
    Detail { causes: 20, archived: 10, error: 200 },
    Detail { causes: 10, archived: 5, error: 100 },
    Detail { causes: 5, archived: 3, error: 50 },
];

/// The data of the template.
#[derive(Serialize)]
struct Page {
    policy: String,
    style: &'static str,
    script: &'static str,
    title: String,
    made: Moment,
    due: Moment,
    every: String,
    every_secs: i64,
    overview: Overview,
    queues: Vec<QueueSection>,
    version: &'static str,
}

/// A page of these queues that is made every so many seconds.
pub fn page(queues: &[QueueStatus], now: Instant, every_secs: i64) -> Result<String> {
    let mut made = String::new();
    for detail in DETAILS {
        let page = Page::new(queues, now, every_secs, detail);
        made = render("page.html", TEMPLATE, page)?;
        if made.len() <= MOST_BYTES {
            break;
        }
    }
    Ok(made)
}

impl Page {
    fn new(queues: &[QueueStatus], now: Instant, every_secs: i64, detail: Detail) -> Self {
        let screen = Screen { width: None, now };
        let sections = queues.iter().zip(1..).map(|((name, report), number)| {
            QueueSection::new(number, name, report, queues.len() > 1, detail, &screen)
        });
        let title = match queues {
            [(name, _)] => format!("Backlog of {}", shortened(name, NAME)),
            several => format!("Backlog: {} queues", grouped(several.len() as u64)),
        };
        Self {
            policy: policy(),
            style: STYLE,
            script: SCRIPT,
            title,
            made: Moment::new(now),
            due: Moment::new(now.saturating_add(every_secs)),
            every: span(every_secs),
            every_secs,
            overview: Overview::new(queues, &screen),
            queues: sections.collect(),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// The Content-Security-Policy: the style and the script of the page, and nothing else.
fn policy() -> String {
    let (style, script) = (hash(STYLE), hash(SCRIPT));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; \
         base-uri 'none'; form-action 'none'"
    )
}

/// A text of others on one line, and no longer than so many characters.
fn shortened(text: &str, most: usize) -> String {
    cut_to(one_line(text), most, "…")
}

fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text))
}
