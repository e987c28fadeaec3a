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
    assert!(fill("http://h/a/{id}", "..").unwrap_err().to_string().contains("nothing but dots"));
    assert_eq!(fill("http://h/a?{id}", "..").unwrap(), "http://h/a?..");
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
fn urls_are_taken_as_they_are() {
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
        assert_eq!(target.authorization(), None);
    }
}

#[test]
fn the_user_becomes_a_header() {
    let target = Target::new("https://us%20er:p%40ss:word@example.com/{id}").unwrap();
    assert_eq!(target.authorization(), Some("Basic dXMgZXI6cEBzczp3b3Jk"));
    assert_eq!(target.fill(&|_| Some("1".into())).unwrap(), "https://example.com/1");
    assert!(target.is_https());
    assert_eq!(Target::new("http://u@h").unwrap().authorization(), Some("Basic dTo="));
}

#[test]
fn bad_urls_are_refused() {
    for (template, expected) in [
        ("example.com/x", "has no scheme"),
        ("//example.com/x", "has no scheme"),
        ("ftp://example.com/", "begins with ftp://"),
        ("{scheme}://example.com/", "only https:// and http:// will do"),
        ("http://", "is no host name"),
        ("http:///x", "is no host name"),
        ("http://:80/", "is no host name"),
        ("http://a..b/", "is no host name"),
        ("http://[::1/", "is no host name"),
        ("http://a:b/", "is no port number"),
        ("http://h/a b", "' ' cannot stand in the URL"),
        ("http://h/é", "percent-encode it"),
        ("http://h/a\\b", "percent-encode it"),
        ("http://h/{a", "is not closed"),
        ("http://h/a}", "'}' cannot stand"),
        ("http://h/{}", "braces in the URL are empty"),
        ("http://{u}:S3krit@h/", "the user in the URL can hold no column"),
    ] {
        let error = Target::new(template).err().unwrap().to_string();
        assert!(error.contains(expected) && !error.contains("S3krit"), "{template}: {error}");
    }
}
