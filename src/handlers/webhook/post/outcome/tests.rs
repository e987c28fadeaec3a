use super::*;

const NOW: Instant = Instant(1_700_000_000);

fn reply(status: u16) -> Reply<'static> {
    Reply { status, ..Reply::default() }
}

const ON_4XX: &GivesUp = &GivesUp { on_4xx: true, on: Vec::new() };
const NEVER: &GivesUp = &GivesUp { on_4xx: false, on: Vec::new() };

fn failure(error: &str) -> Outcome {
    Outcome::Failure { error: error.into() }
}

fn give_up(error: &str) -> Outcome {
    Outcome::GiveUp { error: error.into() }
}

#[test]
fn every_status_has_an_outcome() {
    for status in [200, 201, 202, 204, 226, 299] {
        assert_eq!(reply_outcome(&reply(status), ON_4XX, NOW), Outcome::Success);
    }
    for (status, error) in [
        (500, "HTTP 500 Internal Server Error"),
        (503, "HTTP 503 Service Unavailable"),
        (408, "HTTP 408 Request Timeout"),
        (425, "HTTP 425 Too Early"),
        (429, "HTTP 429 Too Many Requests"),
        (407, "HTTP 407 Proxy Authentication Required"),
        (101, "HTTP 101 Switching Protocols"),
        (599, "HTTP 599"),
        (999, "HTTP 999"),
        (304, "HTTP 304 Not Modified: redirects are not followed"),
    ] {
        assert_eq!(reply_outcome(&reply(status), ON_4XX, NOW), failure(error));
    }
    for (status, error) in [(400, "HTTP 400 Bad Request"), (410, "HTTP 410 Gone")] {
        assert_eq!(reply_outcome(&reply(status), ON_4XX, NOW), give_up(error));
        assert_eq!(reply_outcome(&reply(status), NEVER, NOW), failure(error));
    }
}

#[test]
fn a_listed_status_gives_up_before_all_other_rules() {
    let listed = &GivesUp { on_4xx: false, on: vec![301, 410, 503] };
    for (status, expected) in [
        (410, give_up("HTTP 410 Gone")),
        (422, failure("HTTP 422 Unprocessable Entity")),
        (301, give_up("HTTP 301 Moved Permanently: redirects are not followed")),
        (200, Outcome::Success),
    ] {
        assert_eq!(reply_outcome(&reply(status), listed, NOW), expected);
    }
    let later = Reply { retry_after: Some("60"), ..reply(503) };
    assert_eq!(reply_outcome(&later, listed, NOW), give_up("HTTP 503 Service Unavailable"));
}

#[test]
fn a_redirect_is_named() {
    let moved = Reply { location: Some("https://x/\u{1b}y"), body: b"moved", ..reply(301) };
    let error = "HTTP 301 Moved Permanently: redirects are not followed; this one leads to \
                 https://x/y";
    assert_eq!(reply_outcome(&moved, ON_4XX, NOW), failure(error));
}

#[test]
fn retry_after_is_heeded() {
    let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
    for (text, expected) in [
        ("120", Some(Duration::from_secs(120))),
        (" 0 ", Some(Duration::ZERO)),
        ("99999999999999999999999999", Some(days(30))),
        ("2592001", Some(days(30))),
        ("Tue, 14 Nov 2023 22:14:20 GMT", Some(Duration::from_secs(60))),
        ("Tuesday, 14-Nov-23 22:14:20 GMT", Some(Duration::from_secs(60))),
        ("Tue Nov 14 22:14:20 2023", Some(Duration::from_secs(60))),
        ("Tue, 14 Nov 2023 22:13:19 GMT", Some(Duration::ZERO)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(Duration::ZERO)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", Some(days(30))),
        ("", None),
        ("-1", None),
        ("+1", None),
        ("1.5", None),
        ("soon", None),
        ("2023-11-14T22:14:20Z", None),
    ] {
        assert_eq!(wait(text, NOW), expected, "{text}");
        let busy = Reply { retry_after: Some(text), ..reply(429) };
        match expected {
            None => {
                assert_eq!(
                    reply_outcome(&busy, ON_4XX, NOW),
                    failure("HTTP 429 Too Many Requests")
                );
            }
            Some(_) => {
                let error = "HTTP 429 Too Many Requests".into();
                assert_eq!(
                    reply_outcome(&busy, ON_4XX, NOW),
                    Outcome::Snooze { error, after: expected }
                );
            }
        }
    }
}

#[test]
fn retry_after_counts_only_where_it_belongs() {
    for status in [500, 502, 408, 425, 302] {
        let reply = Reply { retry_after: Some("5"), ..reply(status) };
        assert!(matches!(reply_outcome(&reply, NEVER, NOW), Outcome::Failure { .. }), "{status}");
    }
    let reply = Reply { retry_after: Some("5"), ..reply(503) };
    assert!(matches!(reply_outcome(&reply, NEVER, NOW), Outcome::Snooze { .. }));
}

#[test]
fn the_servers_words_are_one_short_line() {
    let long = "é".repeat(300);
    let shown = "é".repeat(MAX_MESSAGE_CHARS);
    for (body, expected) in [
        ("", ""),
        (" \r\n\t\n", ""),
        ("\n\n  out of \u{1b}[31mmemory \nmore", ": out of [31mmemory"),
        (long.as_str(), &format!(": {shown}")),
        (r#"{"error":"no such id"}"#, ": no such id"),
        (r#"{"message":"m","error":"e"}"#, ": m"),
        (r#"{"error":{"code":1},"message":"m"}"#, ": m"),
        (r#"{"error":"","detail":"\n a\u0007b\nc"}"#, ": ab"),
        (r#"{"code":1}"#, r#": {"code":1}"#),
        (r#"["error"]"#, r#": ["error"]"#),
        (r#""error""#, r#": "error""#),
        (r#"{"error":"cut"#, r#": {"error":"cut"#),
    ] {
        let expected = failure(&format!("HTTP 500 Internal Server Error{expected}"));
        let reply = Reply { body: body.as_bytes(), ..reply(500) };
        assert_eq!(reply_outcome(&reply, NEVER, NOW), expected);
    }
    for (body, expected) in [
        (&b"\xff\xfe\0x"[..], ""),
        (b"\x1f\x8b\x08\0no gzip is named", ""),
        ("\u{feff}no stock".as_bytes(), ": no stock"),
        (b"cut \xc3", ": cut"),
        (br#"{"error":"Internal Server Error"}"#, ""),
    ] {
        let error = failure(&format!("HTTP 500 Internal Server Error{expected}"));
        assert_eq!(reply_outcome(&Reply { body, ..reply(500) }, NEVER, NOW), error);
    }
}

#[test]
fn the_message_in_json_is_found_in_the_usual_shapes() {
    for body in [
        r#"{"message":"no stock","error":"Bad Request"}"#,
        r#"{"error":"no stock"}"#,
        r#"{"error":{"code":"E7","message":"no stock"}}"#,
        r#"{"errors":[{"message":"no stock"},{"message":"no money"}]}"#,
        r#"{"type":"about:blank","title":"no stock","status":422}"#,
        r#"{"title":"Unprocessable","detail":"no stock"}"#,
        r#"{"error":"invalid_grant","error_description":"no stock"}"#,
        r#"{"errors":[{"status":"422","title":"Unprocessable","detail":"no stock"}]}"#,
        r#"{"errors":["no stock","no money"]}"#,
        r#"{"detail":[{"loc":["body","order"],"msg":"no stock","type":"missing"}]}"#,
        r#"[{"errorCode":"E7","message":"no stock"}]"#,
    ] {
        let reply = Reply {
            body: body.as_bytes(),
            content_type: Some("application/problem+json"),
            ..reply(500)
        };
        let error = failure("HTTP 500 Internal Server Error: no stock");
        assert_eq!(reply_outcome(&reply, NEVER, NOW), error, "{body}");
    }
}

#[test]
fn no_page_and_nothing_compressed_or_binary_is_shown() {
    let shown = |content_type, content_encoding, body| {
        let reply = Reply { content_type, content_encoding, body, ..reply(502) };
        reply_outcome(&reply, NEVER, NOW).error() == Some("HTTP 502 Bad Gateway: no stock")
    };
    let body = b"no stock";
    for (content_type, content_encoding, expected) in [
        (Some("text/plain; charset=utf-8"), None, true),
        (Some("Text/HTML"), Some("Identity"), true),
        (None, None, true),
        (Some("image/png"), None, false),
        (None, Some("gzip"), false),
        (Some("application/json"), Some("br"), false),
    ] {
        let found = shown(content_type, content_encoding, body);
        assert_eq!(found, expected, "{content_type:?} {content_encoding:?}");
    }
    for page in [
        "<!DOCTYPE html><title>no stock</title>",
        " \n<html>no stock",
        "<error>no stock</error>",
        "\u{feff}<html>",
    ] {
        let reply = Reply { body: page.as_bytes(), ..reply(502) };
        assert_eq!(reply_outcome(&reply, NEVER, NOW), failure("HTTP 502 Bad Gateway"), "{page}");
    }
}
