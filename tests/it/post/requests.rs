//! Requests: URL, headers, body and signature.

use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use test_support::server::{Answer, Server};

#[test]
fn the_body_is_the_record_as_one_json_object() {
    let server = serving(fine());
    let env = one_record();
    env.sql(
        "ALTER TABLE BACKLOG ADD COLUMN \"odd name\" BLOB; ALTER TABLE BACKLOG ADD COLUMN R REAL",
    );
    env.sql(
        "UPDATE BACKLOG SET PAYLOAD = '{\"a\": \"\u{1F600}\"} ', \"odd name\" = x'00ff', R = 0.5",
    );
    pass(&env, &server.url("/"), "").silent();
    let request = the_only(&server);
    assert_eq!(request.method, "POST");
    assert_eq!(
        String::from_utf8(request.body).unwrap(),
        "{\"ID\":7,\"STATUS\":\"NEW\",\"DATE_INSERTED\":\"2026-11-20T23:59:00Z\",\
         \"PAYLOAD\":\"{\\\"a\\\": \\\"\u{1F600}\\\"} \",\"FAILURES\":0,\"LAST_FAILURE\":null,\
         \"LAST_ERROR\":null,\"odd name\":\"00FF\",\"R\":0.5}"
    );
}

#[test]
fn the_body_may_be_one_column_as_it_is() {
    for (value, body) in [
        ("'{\"a\":  [1, 2.50]}'", b"{\"a\":  [1, 2.50]}".to_vec()),
        ("'\u{1F600}'", "\u{1F600}".into()),
        ("x'00ff0d0a017f'", vec![0, 255, 13, 10, 1, 127]),
        ("zeroblob(3000000)", vec![0; 3_000_000]),
        ("'12'", b"12".to_vec()),
        ("''", Vec::new()),
    ] {
        let server = serving(fine());
        let env = TestEnv::with_schema(
            "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT, DATE_INSERTED TEXT, BODY)",
        );
        env.sql(&format!("INSERT INTO BACKLOG VALUES (7, 'NEW', '2026-11-20 23:59', {value})"));
        pass(&env, &server.url("/"), "--set payload=body").silent();
        assert!(the_only(&server).body == body, "{value}");
        assert_eq!(env.statuses(), "7|SUCCESS");
    }
}

#[test]
fn space_at_the_end_of_a_column_is_a_part_of_the_body() {
    for (value, body) in [
        ("'a line' || char(10)", b"a line\n".to_vec()),
        ("x'000d0a20'", vec![0, 13, 10, 32]),
        ("'  '", b"  ".to_vec()),
    ] {
        let server = serving(fine());
        let env = one_record();
        env.sql("ALTER TABLE BACKLOG ADD COLUMN BODY ANY");
        env.sql(&format!("UPDATE BACKLOG SET BODY = {value}"));
        pass(&env, &server.url("/"), "--set payload=BODY").silent();
        assert_eq!(the_only(&server).body, body, "{value}");
    }
}

#[test]
fn columns_are_percent_encoded_into_the_url() {
    for (value, encoded) in [
        ("'a b/c?d&e=f#g%h+i'", "a%20b%2Fc%3Fd%26e%3Df%23g%25h%2Bi"),
        ("'\u{e9}\u{1F600}-._~{ID}'", "%C3%A9%F0%9F%98%80-._~%7BID%7D"),
        ("'..%2f' || char(13, 10)", "..%252f%0D%0A"),
        ("9007199254740993", "9007199254740993"),
        ("-0.5", "-0.5"),
        ("x'00ff'", "00FF"),
    ] {
        let path = format!("/{encoded}/7?v={encoded}&id=7");
        let server = Server::new(&[(&path, fine())]);
        let env = one_record();
        env.sql("ALTER TABLE BACKLOG ADD COLUMN \"the value\" ANY");
        env.sql(&format!("UPDATE BACKLOG SET \"the value\" = {value}"));
        let url = server.url("/{the value}/{id}?v={THE VALUE}&id={ID}#{ID}");
        pass(&env, &url, "").silent();
        assert_eq!(env.query(ROW), DONE, "{value}");
        assert_eq!(the_only(&server).path, path);
    }
}

#[test]
fn a_record_whose_values_make_no_url_fails_alone() {
    let server = Server::new(&[("/1", fine()), ("/5", fine())]);
    let env = records(5);
    env.sql("ALTER TABLE BACKLOG ADD COLUMN V ANY; UPDATE BACKLOG SET V = ID");
    env.sql("UPDATE BACKLOG SET V = NULL WHERE ID = 2; UPDATE BACKLOG SET V = '..' WHERE ID = 3");
    env.sql("UPDATE BACKLOG SET V = '.' WHERE ID = 4");
    pass(&env, &server.url("/{V}"), "--give-up-on 4xx").silent();
    let dots = |dots| format!("the URL's path \"/{dots}\" has a segment of dots only");
    let rows = [
        format!("1|{DONE}"),
        format!("2|{}", unsent("the URL needs the column V, which has no value")),
        format!("3|{}", unsent(&dots(".."))),
        format!("4|{}", unsent(&dots("."))),
        format!("5|{DONE}"),
    ];
    assert_eq!(env.query(ROWS), rows.join("\n"));
    assert_eq!(keys(&server), [key(5), key(1)]);
}

#[test]
fn a_column_of_the_url_that_is_missing_is_named_with_those_there_are() {
    let server = serving(fine());
    let env = one_record();
    let url = server.url("/{ID}/{ORDER}");
    let ran = pass(&env, &url, "");
    let says = "backlog: --post: {ORDER} is not a column; use one of ID, STATUS, DATE_INSERTED, PAYLOAD, FAILURES, LAST_FAILURE, LAST_ERROR\n";
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(2), says));
    assert_eq!(env.query(ROW), UNTOUCHED);
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_dry_run_refuses_a_url_that_the_pass_would_refuse() {
    let env = one_record();
    let ran = pass(&env, "http://h/{ORDER}", "--dry-run");
    ran.fails(2, &["--post: {ORDER} is not a column; use one of ID"]);
}

#[test]
fn a_request_says_what_it_is_and_whose() {
    let server = serving(fine());
    let env = one_record();
    let url = server.url("/").replace("//", "//us%20er:p%40w@");
    pass(&env, &url, "--header 'X-Mine: a: b ' --header X-Empty:").silent();
    let request = the_only(&server);
    let (host, length) = (format!("127.0.0.1:{}", server.port), request.body.len().to_string());
    for (name, value) in [
        ("host", Some(host.as_str())),
        ("content-type", Some("application/json")),
        ("content-length", Some(length.as_str())),
        ("user-agent", Some(concat!("backlog/", env!("CARGO_PKG_VERSION")))),
        ("authorization", Some("Basic dXMgZXI6cEB3")),
        ("idempotency-key", Some(key(7).as_str())),
        ("x-mine", Some("a: b")),
        ("transfer-encoding", None),
        ("webhook-id", None),
        ("webhook-timestamp", None),
        ("webhook-signature", None),
    ] {
        assert_eq!(request.header(name), value, "{name}");
    }
    let env = one_record();
    let own = "--header 'content-type: text/plain' --header 'Authorization: Bearer x'";
    pass(&env, &url, &format!("{own} --header 'User-Agent: mine'")).silent();
    let request = server.received().pop().unwrap();
    assert_eq!(request.header("content-type"), Some("text/plain"));
    assert_eq!(request.header("authorization"), Some("Bearer x"));
    assert_eq!(request.header("user-agent"), Some("mine"));
}

#[test]
fn every_record_has_a_key_of_its_own_that_stays_the_same() {
    let server = serving(Answer::new("500 Oops", &[], ""));
    let env = TestEnv::with_schema(
        "CREATE TABLE \"odd.\u{e9} table\" (ID TEXT PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', \
         DATE_INSERTED TEXT DEFAULT '2026-11-20 23:59')",
    );
    env.sql(
        "INSERT INTO \"odd.\u{e9} table\" (ID) VALUES ('a.b'), ('a%2Eb'), ('x/y z'), \
         ('\u{1F600}' || char(13, 10) || 'Host: x'), ('007'), ('7'), ('7.0')",
    );
    let args = "--table 'odd.\u{e9} table'";
    pass(&env, &server.url("/"), args).silent();
    let first: HashSet<_> = keys(&server).into_iter().collect();
    let ids = ["a.b", "a%252Eb", "x%2Fy%20z", "%F0%9F%98%80%0D%0AHost:%20x", "007", "7", "7.0"];
    assert_eq!(first, ids.map(|id| format!("odd.%C3%A9%20table/{id}/2026-11-20%2023:59")).into());
    pass(&env, &server.url("/"), args).silent();
    let both = keys(&server);
    assert_eq!(both.len(), 14);
    assert_eq!(both.into_iter().collect::<HashSet<_>>(), first);
}

#[test]
fn a_key_of_several_columns_is_one_key() {
    let server = serving(fine());
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (SHOP TEXT, NR INTEGER, STATUS TEXT DEFAULT 'NEW', \
         DATE_INSERTED TEXT DEFAULT '2026-11-20 23:59', PRIMARY KEY (SHOP, NR))",
    );
    env.sql("INSERT INTO BACKLOG (SHOP, NR) VALUES ('a,1', 2), ('a', 12), ('a', 1)");
    pass(&env, &server.url("/"), r#"--set "id=['SHOP','NR']""#).silent();
    let keys = keys(&server);
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 3, "{keys:?}");
    assert!(keys.contains(&"BACKLOG/a,12/2026-11-20%2023:59".to_string()), "{keys:?}");
}

/// HMAC-SHA256 as RFC 2104 writes it down.
pub fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    assert!(key.len() <= 64);
    let pad = |byte: u8| {
        let mut block = [byte; 64];
        block.iter_mut().zip(key).for_each(|(block, key)| *block ^= key);
        block.to_vec()
    };
    let inner = Sha256::digest([&pad(0x36), message].concat());
    Sha256::digest([pad(0x5c), inner.to_vec()].concat()).to_vec()
}

#[test]
fn a_request_is_signed_with_every_secret() {
    let (old, new) =
        (b"an old secret, soon gone".as_slice(), b"a new one of many bytes!".as_slice());
    let whsec = |secret: &[u8]| format!("whsec_{}", STANDARD.encode(secret));
    for (variable, secrets) in
        [(whsec(new), vec![new]), (format!("{} {}", whsec(new), whsec(old)), vec![new, old])]
    {
        let server = serving(fine());
        let env = TestEnv::with_schema(
            "CREATE TABLE BACKLOG (ID TEXT PRIMARY KEY, STATUS TEXT, DATE_INSERTED TEXT, BODY)",
        );
        env.sql("INSERT INTO BACKLOG VALUES ('a.7 \u{e9}', 'NEW', '2026-11-20 23:59', x'00ff80')");
        let variables = [("BACKLOG_WEBHOOK_SECRET", variable.as_str())];
        for options in ["", "--set payload=BODY"] {
            pass_in(&env, &variables, &server.url("/"), options).silent();
            let request = server.received().pop().unwrap();
            let header = |name| request.header(name).unwrap();
            assert_eq!(header("webhook-id"), "BACKLOG/a%2E7%20%C3%A9/2026-11-20%2023:59");
            assert_eq!(header("idempotency-key"), "BACKLOG/a.7%20%C3%A9/2026-11-20%2023:59");
            assert_eq!(header("webhook-timestamp"), MIDNIGHT.to_string());
            let head = format!("{}.{MIDNIGHT}.", header("webhook-id"));
            let signed = [head.as_bytes(), &request.body].concat();
            let signatures = secrets.iter().map(|secret| STANDARD.encode(hmac(secret, &signed)));
            let signatures: Vec<_> =
                signatures.map(|signature| format!("v1,{signature}")).collect();
            assert_eq!(header("webhook-signature"), signatures.join(" "));
            env.sql("UPDATE BACKLOG SET STATUS = 'NEW'");
        }
        assert_eq!(server.received()[1].body, [0, 255, 128]);
    }
}

#[test]
fn what_cannot_be_used_is_said_before_anything_is_touched_and_without_its_secrets() {
    let server = serving(fine());
    let env = one_record();
    let fine = server.url("/");
    let https = fine.replace("http:", "https:");
    let (no_file, not_pem) = (env.path("none.pem"), env.path("not.pem"));
    std::fs::write(&not_pem, "S3kr").unwrap();
    let (no_file, not_pem) = (no_file.display().to_string(), not_pem.display().to_string());
    let secret = "BACKLOG_WEBHOOK_SECRET";
    for (variables, url, options, exit, says) in [
        (&[(secret, "whsec_S3kr!t")][..], fine.as_str(), "", 2, "is not base64"),
        (&[(secret, "S3krS3krS3krS3krS3krS3krS3krS3kr")], &fine, "", 2, "begin with whsec_"),
        (&[(secret, "whsec_UzNrcg==")], &fine, "", 2, "has 4 bytes and needs at least 24"),
        (&[(secret, "whsk_S3kr")], &fine, "", 2, "does not begin with whsec_"),
        (&[(secret, " ")], &fine, "", 2, "BACKLOG_WEBHOOK_SECRET: the signing secret is empty"),
        (&[], &fine, "--header 'Authorization S3kr'", 2, "--header: the header"),
        (&[], &fine, "--header 'X: S3kr\u{e9}'", 2, "must be printable ASCII"),
        (&[], &fine, "--header 'Host: S3kr'", 2, "is set by backlog itself"),
        (&[], &fine, "--header 'Idempotency-Key: S3kr'", 2, "is set by backlog itself"),
        (&[], "ftp://u:S3kr@h/", "", 2, "--post: the URL begins with ftp://"),
        (&[], "u:S3kr@h", "", 2, "--post: the URL has no scheme"),
        (&[], "http://u:S3kr@h o/", "", 2, "' ' is not legal in the URL"),
        (&[], "http://u:S3kr@h/{ID", "", 2, "is not closed"),
        (&[], "http://u:S3kr@/x", "", 2, "is not a host name"),
        (&[], "http://u:S3kr@h:99999/", "", 2, "is not a number from 1 to 65535"),
        (&[], "http://{ID}:S3kr@h/", "", 2, "cannot have a placeholder"),
        (&[], "", "", 2, "--post"),
        (&[], &https, &format!("--ca-file {no_file}"), 1, "could not read the certificate"),
        (&[], &https, &format!("--ca-file {not_pem}"), 1, "there is no certificate in"),
        (&[("http_proxy", "ftp://u:S3kr@p:1")], &fine, "", 1, "is a proxy of the scheme ftp"),
        (
            &[("http_proxy", "http://u:S3kr@/")],
            &fine,
            "",
            1,
            "http_proxy is not the URL of a proxy",
        ),
    ] {
        let ran = pass_in(&env, variables, url, options).fails(exit, &[says, "backlog: "]);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        assert_lacks(&ran.stderr, "S3kr");
        assert_eq!(env.query(ROW), UNTOUCHED, "{says}");
    }
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_secret_that_is_no_text_is_not_overlooked() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let server = serving(fine());
    let env = one_record();
    let url = server.url("/");
    let mut command = env.command(&format!("process --ndays 1 --now @{MIDNIGHT} --post {url}"));
    command.env("BACKLOG_WEBHOOK_SECRET", OsStr::from_bytes(b"whsec_\xff"));
    command.ran().fails(2, &["BACKLOG_WEBHOOK_SECRET"]);
    assert_eq!(env.query(ROW), UNTOUCHED);
    assert!(server.received().is_empty());
}

#[test]
fn the_log_and_the_table_show_no_secrets() {
    let proxy = Server::new(&[("nosuch.invalid:80", Answer::new("407 No", &[], ""))]);
    let env = one_record();
    let at = proxy.url("/").replace("//", "//u:S3kr1@");
    let variables = [
        ("BACKLOG_WEBHOOK_SECRET", "whsec_UzNrclMza3JTM2tyUzNrclMza3JTM2ty"),
        ("http_proxy", at.as_str()),
    ];
    let header = "--header 'Authorization: Bearer S3kr3' -vv --joblog joblog";
    let ran = pass_in(&env, &variables, "http://u:S3kr4@nosuch.invalid/", header).success();
    assert_eq!(
        env.query(ROW),
        unreached(
            "the proxy of http_proxy could not connect to nosuch.invalid:80: proxy server responded 407/407"
        )
    );
    let request = the_only(&proxy);
    // It is for the server, not for the proxy.
    assert_eq!(request.header("authorization"), None);
    assert_eq!(request.header("proxy-authorization"), Some("Basic dTpTM2tyMQ=="));
    let all = format!("{}{}{}", ran.stderr, ran.stdout, env.read("joblog"));
    for secret in ["S3kr", "UzNrcl", "dTpTM2ty"] {
        assert!(!all.contains(secret), "{secret} is in {all}");
    }
}

#[test]
fn a_password_that_is_not_encoded_is_not_shown() {
    let env = one_record();
    assert_lacks(&pass(&env, "http://u:S3kr/et@h/", "").fails(2, &["--post: "]).stderr, "S3kr");
}

#[test]
fn the_log_of_libraries_is_not_shown_whoever_asks_for_it() {
    let server = serving(fine());
    let env = one_record();
    let secret = "whsec_UzNrclMza3JTM2tyUzNrclMza3JTM2ty";
    let variables = [("RUST_LOG", "trace,backlog=trace"), ("BACKLOG_WEBHOOK_SECRET", secret)];
    let header = "--header 'Authorization: Bearer S3kr' --header 'Cookie: S3kr'";
    let ran = pass_in(&env, &variables, &server.url("/"), header).success();
    assert_contains(&ran.stderr, "processing record 7");
    let signature = the_only(&server).header("webhook-signature").unwrap().to_string();
    for secret in ["S3kr", "UzNrcl", &signature] {
        assert!(!ran.stderr.contains(secret), "{secret} is in {}", ran.stderr);
    }
    assert!(!ran.stderr.to_lowercase().contains("authorization"), "{}", ran.stderr);
}
