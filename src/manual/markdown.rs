//! Markdown as the text of a manual page: what the documents use of it.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use roff::{Inline, Roff, bold, italic, roman};

/// Writes a document behind what stands on the page already. Its title is left out.
pub fn write(page: &mut Roff, text: &str) {
    let mut writer = Writer {
        page,
        line: Vec::new(),
        cells: Vec::new(),
        header: Vec::new(),
        style: roman,
        url: String::new(),
    };
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        writer.event(event);
    }
}

struct Writer<'a> {
    page: &'a mut Roff,
    /// What is collected of a paragraph, a heading or a cell.
    line: Vec<Inline>,
    /// The cells of a table's row, and those of its header.
    cells: Vec<Vec<Inline>>,
    header: Vec<Vec<Inline>>,
    style: fn(String) -> Inline,
    /// Where the link leads that is being written; empty if that is another document.
    url: String,
}

impl Writer<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) => self.line.push((self.style)(text.into_string())),
            Event::Code(text) => self.line.push(bold(text.into_string())),
            Event::SoftBreak | Event::HardBreak => self.line.push(roman(" ")),
            Event::Start(Tag::Emphasis) => self.style = italic,
            Event::Start(Tag::Strong) => self.style = bold,
            Event::End(TagEnd::Emphasis | TagEnd::Strong) => self.style = roman,
            Event::Start(Tag::Item) => _ = self.page.control("IP", ["\\(bu", "2"]),
            // A list without blank lines has no paragraphs in its items.
            Event::End(TagEnd::Item) => self.write_line(),
            Event::Start(Tag::CodeBlock(_)) => {
                self.page.control("PP", []).control("RS", ["4"]).control("nf", []);
            }
            Event::End(TagEnd::CodeBlock) => {
                self.write_line();
                self.page.control("fi", []).control("RE", []);
            }
            Event::Start(Tag::Link { dest_url, .. }) if dest_url.starts_with("https:") => {
                self.url = format!(" <{dest_url}>");
            }
            Event::End(TagEnd::Link) => {
                let url = std::mem::take(&mut self.url);
                self.line.push(roman(url));
            }
            // Its text stands for a picture.
            Event::End(TagEnd::Image) => self.line.clear(),
            Event::End(TagEnd::Paragraph) if self.line.is_empty() => {}
            Event::End(TagEnd::Paragraph) => {
                self.page.control("PP", []);
                self.write_line();
            }
            Event::End(TagEnd::Heading(level)) => self.heading(level as usize),
            Event::End(TagEnd::TableCell) => self.cells.push(std::mem::take(&mut self.line)),
            Event::End(TagEnd::TableHead) => self.header = std::mem::take(&mut self.cells),
            Event::End(TagEnd::TableRow) => self.row(),
            // What is not written otherwise, and what the documents have not got.
            Event::Start(_)
            | Event::End(_)
            | Event::Html(_)
            | Event::InlineHtml(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::Rule
            | Event::TaskListMarker(_) => {}
        }
    }

    fn write_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        self.page.text(line);
    }

    fn heading(&mut self, level: usize) {
        let line = std::mem::take(&mut self.line);
        match level {
            1 => {}
            2 => _ = self.page.control("SH", []).text(line),
            _ => _ = self.page.control("SS", []).text(line),
        }
    }

    /// The first cell with the others below it, each behind its header where there are several.
    fn row(&mut self) {
        let mut cells = std::mem::take(&mut self.cells).into_iter();
        let Some(first) = cells.next() else { return };
        self.page.control("TP", []).text(first);
        let is_pair = self.header.len() == 2;
        for (number, (cell, header)) in cells.zip(self.header.iter().skip(1)).enumerate() {
            if cell.is_empty() {
                continue;
            }
            if number > 0 {
                self.page.control("br", []);
            }
            let mut line = Vec::new();
            if !is_pair && !header.is_empty() {
                line.extend(header.iter().cloned());
                line.push(roman(": "));
            }
            line.extend(cell);
            self.page.text(line);
        }
    }
}
