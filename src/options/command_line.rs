//! The command line as it is kept in the record of passes: as a shell would have it, without the logins
//! of URLs, the passwords of connection strings, the URLs of pings, and headers that are credentials.

use std::ffi::OsString;

use crate::handlers::Header;

/// Words as a shell would have them.
pub fn command_line(words: &[OsString]) -> String {
    let mut before = String::new();
    let words = words.iter().map(|word| {
        let word = word.to_string_lossy().into_owned();
        let shown = without_ping(&before, &word).unwrap_or_else(|| without_credentials(&word));
        before = word;
        shown
    });
    let quoted = words.map(|word| match shlex::try_quote(&word) {
        Ok(quoted) => quoted.into_owned(),
        Err(_) => word,
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// A word that is the URL of a ping, or sets it, without that.
fn without_ping(before: &str, word: &str) -> Option<String> {
    let is_set = |setting: &str| setting.split(['=', '.']).next().map(str::trim) == Some("ping");
    match (before, word.split_once('=')) {
        ("--ping", _) => Some(HIDDEN.into()),
        ("--set", _) => is_set(word).then(|| format!("ping={HIDDEN}")),
        (_, Some(("--ping", _))) => Some(format!("--ping={HIDDEN}")),
        (_, Some(("--set", setting))) => is_set(setting).then(|| format!("--set=ping={HIDDEN}")),
        _ => None,
    }
}

/// A word without the logins of URLs, the passwords of connection strings, and the value of a header
/// that is a credential, wherever the word has them.
fn without_credentials(word: &str) -> String {
    // Nearly no word has any.
    if !word.contains(':') && !word.contains("password") {
        return word.into();
    }
    // A connection string may have blanks around the sign.
    let parts: Vec<_> = word.split("password").collect();
    let close = |part: &&str| match part.trim_start().strip_prefix('=') {
        Some(rest) => format!("={}", rest.trim_start()),
        None => (*part).to_string(),
    };
    let joined: Vec<_> = parts.iter().map(close).collect();
    without_header(&without_passwords(&without_logins(&joined.join("password"))))
}

const PASSWORD: &str = "password=";
const HIDDEN: &str = "...";

fn without_logins(word: &str) -> String {
    let mut parts = word.split("://");
    let mut text = String::from(parts.next().unwrap_or_default());
    for part in parts {
        // A password may have such signs in it that it should not.
        let mut words = part.split(|c: char| c.is_whitespace() || "'\"".contains(c));
        let authority = words.next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        text.extend(["://", host, part.strip_prefix(authority).unwrap_or_default()]);
    }
    text
}

fn without_passwords(word: &str) -> String {
    let mut parts = word.split(PASSWORD);
    let mut text = String::from(parts.next().unwrap_or_default());
    for part in parts {
        text += PASSWORD;
        text += HIDDEN;
        text += behind_password(part);
    }
    text
}

/// What follows a password, which may be in quotes: from a blank or the next parameter of a URL on.
fn behind_password(part: &str) -> &str {
    let Some(quoted) = part.strip_prefix('\'') else {
        return part.trim_start_matches(|c: char| !c.is_whitespace() && c != '&');
    };
    let mut is_escaped = false;
    let end = quoted.split_once(|c| {
        let ends = c == '\'' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    });
    end.map_or("", |(_, behind)| behind)
}

fn without_header(word: &str) -> String {
    let behind = word.split_once('=').map_or(word, |(_, header)| header);
    let is_credential = |text: &str| Header::parse(text).is_ok_and(|it| it.is_credential());
    let quoted = word.split(['"', '\'']);
    let header = [behind, word].into_iter().chain(quoted).find(|text| is_credential(text));
    let name = header.and_then(|header| header.split(':').next());
    match (header, name) {
        (Some(header), Some(name)) => word.replace(header, &format!("{name}: {HIDDEN}")),
        _ => word.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_password_is_left_out() {
        for (words, expected) in [
            (&["process", "--ndays", "1"][..], "process --ndays 1"),
            (&["--db", "postgres://joe:secret@host/db"], "--db postgres://host/db"),
            (&["--db=postgresql://joe:sec/ret@host"], "'--db=postgresql://host'"),
            (
                &["postgres:///db?user=joe&password=secret&x=1"],
                "'postgres:///db?user=joe&password=...&x=1'",
            ),
            (&["--db", "host=here password=secret"], "--db 'host=here password=...'"),
            (&["--db", "password='my secret' host=x"], "--db 'password=... host=x'"),
            (&["--db", "password = se/cret host=x"], "--db 'password=... host=x'"),
            (
                &["--set", "header=[\"Authorization: Bearer secret\"]"],
                "--set 'header=[\"Authorization: ...\"]'",
            ),
            (&["--post", "https://joe:secret@host/x?y=a@b"], "--post https://b"),
            (&["--post", "https://host/x"], "--post https://host/x"),
            (&["--header", "Authorization: Bearer secret"], "--header 'Authorization: ...'"),
            (&["--header=X-Api-Key: secret"], "'--header=X-Api-Key: ...'"),
            (&["--header", "X-Tenant: seven"], "--header 'X-Tenant: seven'"),
            (
                &["--", "sh", "-c", "curl https://joe:secret@host/ ftp://a:secret@b"],
                "-- sh -c 'curl https://host/ ftp://b'",
            ),
            (&["--ping", "https://hc/S3krit", "--strict"], "--ping ... --strict"),
            (&["--ping=https://hc/S3krit"], "'--ping=...'"),
            (&["--set", "ping={start='https://hc/S3krit'}"], "--set 'ping=...'"),
            (&["--set=ping.start='https://hc/S3krit'"], "'--set=ping=...'"),
            (&["--set", "pings=1", "--set", "jobs=2"], "--set 'pings=1' --set 'jobs=2'"),
            (&["it's", "a b"], "\"it's\" 'a b'"),
        ] {
            let words: Vec<_> = words.iter().map(OsString::from).collect();
            assert_eq!(command_line(&words), expected);
        }
    }
}
