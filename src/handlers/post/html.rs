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
    title(page).or_else(|| first_text(page))
}

fn title(page: &str) -> Option<String> {
    let (_, title) = split_at_tag(page, "<title")?.1.split_once('>')?;
    text(split_at_tag(title, "</title")?.0)
}

/// What stands before the first tag that begins so, in whatever case, and the rest.
fn split_at_tag<'a>(page: &'a str, tag: &str) -> Option<(&'a str, &'a str)> {
    let mut tags = page.match_indices('<').filter_map(|(at, _)| page.split_at_checked(at));
    tags.find(|(_, from)| from.get(..tag.len()).is_some_and(|it| it.eq_ignore_ascii_case(tag)))
}

fn first_text(mut page: &str) -> Option<String> {
    while let Some((before, tag)) = page.split_once('<') {
        if let Some(text) = text(before) {
            return Some(text);
        }
        page = behind(tag)?;
    }
    text(page)
}

/// What stands behind a tag, whose `<` is left out, or behind the whole element or comment that is
/// not seen. An end that is missing hides all that is left.
fn behind(tag: &str) -> Option<&str> {
    let name = tag.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let end = match name {
        _ if tag.starts_with("!--") => tag.split_once("-->"),
        _ if UNSEEN.iter().any(|unseen| unseen.eq_ignore_ascii_case(name)) => {
            split_at_tag(tag, &format!("</{name}"))?.1.split_once('>')
        }
        _ => tag.split_once('>'),
    };
    end.map(|(_, behind)| behind)
}

/// On one line, `None` if it is blank.
fn text(source: &str) -> Option<String> {
    let decoded =
        ENTITIES.iter().fold(source.to_owned(), |text, (from, to)| text.replace(from, to));
    let line = decoded.split_whitespace().collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then_some(line)
}
