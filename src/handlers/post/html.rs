//! The words of a page that a server, or a proxy before it, sends in place of an answer.

/// Elements whose text no reader sees.
const UNSEEN: [&str; 3] = ["head", "script", "style"];
const ENTITIES: [(&str, &str); 6] = [
    ("&nbsp;", " "),
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&#39;", "'"),
    // The last, because what it stands for may begin another.
    ("&amp;", "&"),
];

pub fn is_html(body: &str) -> bool {
    let begin: String = body.trim_start().chars().take(14).collect();
    let begin = begin.to_ascii_lowercase();
    begin == "<!doctype html" || begin.starts_with("<html")
}

/// The title of a page, else its first text that is seen.
pub fn words(page: &str) -> Option<String> {
    // In lower case for the tags, each character where it was.
    let lower = page.to_ascii_lowercase();
    title(page, &lower).or_else(|| first_text(page, &lower))
}

fn title(page: &str, lower: &str) -> Option<String> {
    let tag = lower.find("<title")?;
    let begin = tag + lower[tag..].find('>')? + 1;
    text(&page[begin..begin + lower[begin..].find("</title")?])
}

fn first_text(page: &str, lower: &str) -> Option<String> {
    let mut at = 0;
    while let Some(tag) = lower[at..].find('<').map(|tag| at + tag) {
        if let Some(text) = text(&page[at..tag]) {
            return Some(text);
        }
        at = behind(lower, tag)?;
    }
    text(&page[at..])
}

/// Where the text behind a tag begins, or behind the whole element or comment that is not seen. An
/// end that is missing hides all that is left.
fn behind(lower: &str, tag: usize) -> Option<usize> {
    let inner = &lower[tag + 1..];
    let name = inner.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let from = match name {
        _ if inner.starts_with("!--") => tag + lower[tag..].find("-->")?,
        _ if UNSEEN.contains(&name) => tag + lower[tag..].find(&format!("</{name}"))?,
        _ => tag,
    };
    Some(from + lower[from..].find('>')? + 1)
}

/// On one line, `None` if it is blank.
fn text(source: &str) -> Option<String> {
    let decoded =
        ENTITIES.iter().fold(source.to_owned(), |text, (from, to)| text.replace(from, to));
    let line = decoded.split_whitespace().collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then_some(line)
}
