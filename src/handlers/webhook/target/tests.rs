use super::*;

fn fill(template: &str, value: &str) -> Result<String> {
    Ok(Target::new(template)?.fill(&|_| Some(value.into()))?.to_string())
}

#[test]
fn the_columns_can_be_listed() {
    let target = Target::new("https://{host}.example.com/a/{id}?x={x}&y={id}").unwrap();
    assert_eq!(target.columns().collect::<Vec<_>>(), ["host", "id", "x", "id"]);
    let known = |name: &str| Some(format!("<{name}>")).filter(|_| name != "host");
    assert!(target.fill(&known).unwrap_err().to_string().contains("the column host"));
}

#[test]
fn no_value_changes_the_structure() {
    for (value, shown) in [
        ("7", "7"),
        ("", ""),
        ("a/b?c d é", "a%2Fb%3Fc%20d%20%C3%A9"),
        ("#&=+%", "%23%26%3D%2B%25"),
        ("{id}", "%7Bid%7D"),
        ("\r\nHost: x", "%0D%0AHost%3A%20x"),
        ("@evil:80\\", "%40evil%3A80%5C"),
        ("\u{1F600}\0", "%F0%9F%98%80%00"),
        ("-._~", "-._~"),
    ] {
        let expected = format!("http://example.com/x{shown}?y={shown}");
        assert_eq!(fill("http://example.com/x{id}?y={id}#z", value).unwrap(), expected);
    }
}

#[test]
fn no_value_climbs_out_of_its_directory() {
    for template in ["http://h/a/{id}", "http://h/{id}/b?c", "http://h/%2E{id}", "http://h/.{id}"] {
        assert!(fill(template, ".").is_err(), "{template}");
    }
    assert!(fill("http://h/a/{id}", "..").unwrap_err().to_string().contains("dots only"));
    for value in [
        "../../admin",
        "a/../b",
        "a/..",
        "..\\x",
        "x\\..",
        "./x",
        "..;",
        "..;a=b/x",
        "a/..;/b",
        "/..",
    ] {
        for template in ["http://h/{id}", "http://h/a/{id}/b?c", "http://h/a/{id}?c={id}"] {
            let error = fill(template, value).unwrap_err().to_string();
            assert!(error.contains("dots only"), "{template} {value}: {error}");
        }
    }
    let two = |a: &'static str, b: &'static str| {
        let of = move |name: &str| Some(if name == "a" { a } else { b }.to_string());
        Target::new("http://h/{a}{b}").unwrap().fill(&of)
    };
    assert!(two(".", ".").is_err());
    assert!(two("x/.", "./y").is_err());
    // Dots that are encoded twice, and names that only begin or end with dots.
    assert_eq!(two("%2", "e/x").unwrap(), "http://h/%252e%2Fx");
    for (value, shown) in [
        ("%2e%2e", "%252e%252e"),
        ("..%2f", "..%252f"),
        ("...", "..."),
        ("..a/b..", "..a%2Fb.."),
        ("a;..", "a%3B.."),
    ] {
        assert_eq!(fill("http://h/{id}", value).unwrap(), format!("http://h/{shown}"));
    }
    assert_eq!(fill("http://h/a?{id}", "..").unwrap(), "http://h/a?..");
    assert_eq!(fill("http://h/a?{id}", "x/../y").unwrap(), "http://h/a?x%2F..%2Fy");
    assert_eq!(fill("http://h/a{id}", "..").unwrap(), "http://h/a..");
}

#[test]
fn a_host_may_be_filled_but_stays_a_host() {
    assert_eq!(fill("http://{id}.example.com", "a-1").unwrap(), "http://a-1.example.com/");
    for value in ["", "evil.com/", "x@evil.com", "a b", "é", "a:b", "?"] {
        assert!(fill("http://{id}.example.com/", value).is_err(), "{value}");
    }
    assert_eq!(fill("http://h:{id}?x", "81").unwrap(), "http://h:81/?x");
    for port in ["", "0", "65536", "+1", "x"] {
        assert!(fill("http://h:{id}/", port).is_err(), "{port}");
    }
}

#[test]
fn columns_in_the_authority_are_recognized() {
    for (template, expected) in [
        ("https://{host}/x", true),
        ("https://{host}.example.com/{id}", true),
        ("https://example.com:{port}/", true),
        ("https://example.com/{host}?{id}", false),
        ("https://example.com?{host}", false),
    ] {
        assert_eq!(Target::new(template).unwrap().has_column_in_authority(), expected);
    }
}

#[test]
fn valid_urls_are_accepted() {
    for (template, expected) in [
        ("HTTPS://example.com", "https://example.com/"),
        ("http://[::1]:8080/a%20b;c", "http://[::1]:8080/a%20b;c"),
        ("http://[::1]", "http://[::1]/"),
        ("http://localhost./?a=b#c", "http://localhost./?a=b"),
        ("http://127.0.0.1:9/#/{id}", "http://127.0.0.1:9/"),
        ("http://my_host/", "http://my_host/"),
    ] {
        let target = Target::new(template).unwrap();
        assert_eq!(target.fill(&|_| None).unwrap(), expected);
        assert_eq!(target.authorization.as_deref(), None);
    }
}

#[test]
fn the_user_becomes_a_header() {
    let target = Target::new("https://us%20er:p%40ss:word@example.com/{id}").unwrap();
    assert_eq!(target.authorization.as_deref(), Some("Basic dXMgZXI6cEBzczp3b3Jk"));
    assert_eq!(target.fill(&|_| Some("1".into())).unwrap(), "https://example.com/1");
    assert!(target.is_https);
    assert_eq!(Target::new("http://u@h").unwrap().authorization.as_deref(), Some("Basic dTo="));
}

#[test]
fn bad_urls_are_refused() {
    for (template, expected) in [
        ("example.com/x", "has no scheme"),
        ("//example.com/x", "has no scheme"),
        ("ftp://example.com/", "begins with ftp://"),
        ("{scheme}://example.com/", "use https:// or http://"),
        ("http://", "is not a host name"),
        ("http:///x", "is not a host name"),
        ("http://:80/", "is not a host name"),
        ("http://a..b/", "is not a host name"),
        ("http://[::1/", "is not a host name"),
        ("http://a:b/", "is not a number from 1 to 65535"),
        ("http://h/a b", "' ' is not legal in the URL"),
        ("http://h/é", "percent-encode it"),
        ("http://h/a\\b", "percent-encode it"),
        ("http://h/{a", "is not closed"),
        ("http://h/a}", "'}' is not legal"),
        ("http://h/{}", "braces in the URL are empty"),
        ("http://{u}:S3krit@h/", "the user in the URL cannot have a placeholder"),
    ] {
        let error = Target::new(template).err().unwrap().to_string();
        assert!(error.contains(expected) && !error.contains("S3krit"), "{template}: {error}");
    }
}
