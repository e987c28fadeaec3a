//! Columns in the URL's host: what records may name, and what goes there.

use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use test_support::server::Server;

const SECRET: &str = "BACKLOG_WEBHOOK_SECRET";
const WHSEC: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Records with these hosts, the first with id 1.
fn hosts(hosts: &[&str]) -> TestEnv {
    let env = records(hosts.len().try_into().unwrap());
    env.sql("ALTER TABLE BACKLOG ADD COLUMN HOST TEXT");
    for (host, id) in hosts.iter().zip(1..) {
        env.sql(&format!("UPDATE BACKLOG SET HOST = '{host}' WHERE ID = {id}"));
    }
    env
}

fn to_column(server: &Server) -> String {
    server.url("/").replace("127.0.0.1", "{HOST}")
}

#[test]
fn a_record_cannot_name_this_machine_or_its_network() {
    let server = serving(fine());
    let named = [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "2130706433",
        "0177.0.0.1",
        "127.0.0.1.",
        "8.8.8.8",
        "localhost",
        "localhost.",
    ];
    let env = hosts(&named);
    pass(&env, &to_column(&server), "").silent();
    let rows = env.query(ROWS);
    for ((row, host), id) in rows.lines().zip(named).zip(1..) {
        let what = if host.starts_with('l') { "a name without a dot" } else { "an address" };
        let why = format!("the host \"{host}\" is {what}; list it with --allow-host");
        assert_eq!(row, format!("{id}|{}", unsent(&why)));
    }
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_record_whose_host_is_refused_does_not_stop_the_others() {
    let env = hosts(&["localhost", "localhost", "localhost", "localhost"]);
    // As often as a server that is out of reach would stop the pass, and once more.
    pass(&env, "http://{HOST}:1/", "").silent();
    assert_eq!(env.count("ERROR"), 4);
}

#[test]
fn a_port_from_a_record_needs_a_list_as_well() {
    let server = serving(fine());
    let env = one_record();
    env.sql(&format!("ALTER TABLE BACKLOG ADD COLUMN PORT INTEGER DEFAULT {}", server.port));
    pass(&env, "http://127.0.0.1:{PORT}/", "").silent();
    let refused = "the host \"127.0.0.1\" is an address; list it with --allow-host";
    assert_eq!((env.query(ROW), server.connections()), (unsent(refused), 0));
    let later = "process --ndays 1 --post http://127.0.0.1:{PORT}/";
    env.run_at(MIDNIGHT, &format!("{later} --allow-host 127.0.0.1")).silent();
    assert_eq!((env.count("SUCCESS"), server.connections()), (1, 1));
}

#[test]
fn what_is_listed_is_delivered_and_nothing_else() {
    for (list, delivered) in [
        ("--allow-host 127.0.0.1", "1"),
        ("--allow-host LocalHost.", "2"),
        ("--allow-host *.localhost --allow-host 127.0.0.1", "1"),
        ("--allow-host localhost --allow-host 127.0.0.1", "1\n2"),
    ] {
        let server = serving(fine());
        let env = hosts(&["127.0.0.1", "localhost", "127.1"]);
        pass(&env, &to_column(&server), list).silent();
        let done = "SELECT ID FROM BACKLOG WHERE STATUS = 'SUCCESS'";
        assert_eq!(env.query(done), delivered, "{list:?}");
        let why = "the host \"127.1\" is not listed with --allow-host";
        assert!(env.query(ROWS).ends_with(&unsent(why)), "{}", env.query(ROWS));
    }
}

/// Records that name the port, all but some of which nobody listens on.
fn ports(records: i64, server: &Server, alive: &str) -> TestEnv {
    let env = super::records(records);
    env.sql(&format!(
        "ALTER TABLE BACKLOG ADD COLUMN PORT INTEGER;
         UPDATE BACKLOG SET PORT = CASE WHEN ID {alive} THEN {} ELSE 1 END",
        server.port
    ));
    env
}

#[test]
fn hosts_that_are_dead_cost_their_records_an_attempt_and_no_others() {
    let list = "--allow-host 127.0.0.1";
    let server = serving(fine());
    // The newest go first: nine that find nobody, and one that does; and so again.
    let env = ports(20, &server, "IN (1, 11)");
    pass(&env, "http://127.0.0.1:{PORT}/", list).silent();
    assert_eq!((env.count("SUCCESS"), env.count("ERROR")), (2, 18));
    let errors = env.query("SELECT DISTINCT FAILURES, LAST_ERROR FROM BACKLOG WHERE FAILURES > 0");
    assert_eq!(errors, format!("1|not sent: {REFUSED}"));

    // Ten in a row: it is not the records' hosts. The next pass begins behind them.
    let env = ports(15, &server, "= 1");
    let url = "http://127.0.0.1:{PORT}/";
    pass(&env, url, list).fails(1, &["10 records in a row got nowhere, the last one is 6"]);
    assert_eq!((env.count("NEW"), env.count("ERROR")), (5, 10));
    pass(&env, url, list);
    assert_eq!(env.query("SELECT STATUS FROM BACKLOG WHERE ID = 1"), "SUCCESS");
}

#[test]
fn the_list_may_stand_in_the_file_and_in_the_environment() {
    let server = serving(fine());
    let env = hosts(&["127.0.0.1", "localhost"]);
    let url = to_column(&server);
    let file = format!(
        "[defaults]\nndays = 1\npost = '{url}'\nallow_hosts = ['example.com', 'localhost']\n"
    );
    env.write("backlog.toml", file);
    env.run_at(MIDNIGHT, "process").silent();
    assert_eq!(env.statuses(), "1|ERROR\n2|SUCCESS");
    std::fs::remove_file(env.path("backlog.toml")).unwrap();
    let mut command = env.command(&format!("process --ndays 1 --now @{MIDNIGHT}"));
    command.env("BACKLOG_POST", url).env("BACKLOG_ALLOW_HOST", "example.com\n127.0.0.1");
    command.ran().silent();
    assert_eq!(env.statuses(), "1|SUCCESS\n2|SUCCESS");
}

#[test]
fn a_host_that_a_record_names_gets_no_credentials_unless_it_is_listed() {
    let server = serving(fine());
    let env = hosts(&["127.0.0.1"]);
    let url = to_column(&server);
    let with_login = url.replace("http://", "http://u:S3krit@");
    for (variables, url, options, says) in [
        (&[(SECRET, WHSEC)][..], &url, "", SECRET),
        (&[], &url, "--header 'Authorization: S3krit'", "the header authorization"),
        (&[], &url, "--header 'cookie: S3krit'", "the header cookie"),
        (&[], &url, "--header 'X-Api-Key: S3krit'", "the header x-api-key"),
        (&[], &with_login, "", "the login of the URL"),
    ] {
        for more in ["", "--dry-run"] {
            let ran = pass_in(&env, variables, url, &format!("{options} {more}"));
            ran.fails(2, &["--post: records choose the host of ", says, "--allow-host"]);
        }
        assert_eq!(
            (env.query("SELECT STATUS FROM BACKLOG"), server.connections()),
            ("NEW".into(), 0)
        );
    }
    for (variables, url, options, header) in [
        (&[(SECRET, WHSEC)][..], &url, "", "webhook-signature"),
        (&[], &url, "--header 'Authorization: S3krit'", "authorization"),
        (&[], &with_login, "", "authorization"),
    ] {
        pass_in(&env, variables, url, &format!("{options} --allow-host 127.0.0.1")).silent();
        assert!(server.received().pop().unwrap().header(header).is_some(), "{header}");
        env.sql("UPDATE BACKLOG SET STATUS = 'NEW'");
    }
    // A fixed host is the operator's word, and what is no credential goes anywhere.
    pass_in(&env, &[(SECRET, WHSEC)], &server.url("/"), "").silent();
    assert_eq!(server.received().len(), 4);
    env.sql("UPDATE BACKLOG SET STATUS = 'NEW'");
    pass(&env, &url, "--header 'X-Source: shop'").silent();
    assert_eq!(env.count("ERROR"), 1);
}

#[test]
fn check_and_crontab_refuse_what_a_pass_would() {
    let env = hosts(&["127.0.0.1"]);
    let post = "--fibonacci --post http://{HOST}/";
    let args = format!("{post} --header 'Authorization: S3krit'");
    let says = "would get the header authorization";
    let ran = env.run_at(MIDNIGHT, &format!("check {args}"));
    assert!(ran.exit == Some(1) && ran.stdout.contains(says), "{ran:?}");
    env.run(&format!("crontab {args}")).fails(2, &[says]);
    let listed = format!("{post} --allow-host *.example.com --allow-host a.org");
    let lines = env.run(&format!("crontab {listed}")).success().stdout;
    assert_contains(&lines, " --allow-host '*.example.com' --allow-host a.org ");
    let ran = env.run_at(MIDNIGHT, &format!("check {listed}")).success();
    assert_contains(&ran.stdout, "ok       handler     POST http://{HOST}/, not signed");
}

#[test]
fn a_proxy_is_not_asked_for_a_host_that_is_not_listed() {
    let connected = Answer::new("200 OK", &[], "");
    let proxy = Server::new(&[("hook.example.com:80", connected), ("/", fine())]);
    let env = hosts(&["hook.example.com"]);
    let at = proxy.url("/");
    let (url, variables) = ("http://{HOST}/", [("http_proxy", at.as_str())]);
    let ran = pass_in(&env, &variables, url, "");
    ran.fails(2, &["which the proxy of http_proxy would look up", "--allow-host"]);
    assert_eq!((env.count("NEW"), proxy.connections()), (1, 0));
    pass_in(&env, &variables, url, "--allow-host *.example.com").silent();
    // To connect, and to post.
    assert_eq!((env.count("SUCCESS"), proxy.received().len()), (1, 2));
    // Nothing goes through it here.
    env.sql("UPDATE BACKLOG SET STATUS = 'NEW', HOST = 'localhost'");
    pass_in(&env, &[variables[0], ("no_proxy", "*")], url, "").silent();
    assert_eq!((env.count("ERROR"), proxy.received().len()), (1, 2));
}

#[test]
fn an_entry_that_is_no_host_is_refused() {
    let env = hosts(&["127.0.0.1"]);
    for entry in ["https://example.com", "example.com:80", "*", "", "127.1", "a b"] {
        let says =
            "is not a host; write it as example.com, *.example.com, 192.0.2.1 or 2001:db8::1";
        pass(&env, "http://{HOST}/", &format!("--allow-host {}", quoted(entry)))
            .fails(2, &["--allow-host: ", says]);
    }
    let args = "process --ndays 1 --allow-host a.org -- true";
    env.run_at(MIDNIGHT, args).fails(2, &["--allow-host requires --post"]);
    assert_eq!(env.count("NEW"), 1);
}

#[test]
fn no_value_climbs_in_the_path() {
    let server = serving(fine());
    let env = records(6);
    env.sql("ALTER TABLE BACKLOG ADD COLUMN A TEXT; ALTER TABLE BACKLOG ADD COLUMN B TEXT");
    for (id, a, b) in [
        (1, "../../admin", ""),
        (2, "a/../b", ""),
        (3, "..\\x", ""),
        (4, "..;", ""),
        (5, ".", "."),
        (6, "%2e%2e%2f", ""),
    ] {
        env.sql(&format!("UPDATE BACKLOG SET A = '{a}', B = '{b}' WHERE ID = {id}"));
    }
    pass(&env, &server.url("/hooks/{A}{B}"), "").silent();
    let climbing = "SELECT ID FROM BACKLOG WHERE LAST_ERROR LIKE '%a segment of dots only'";
    assert_eq!(env.query(climbing), "1\n2\n3\n4\n5");
    assert_eq!(server.received().len(), 1);
    assert_eq!(the_only(&server).path, "/hooks/%252e%252e%252f");
}

/// A record with a secret of its own.
fn with_secret(secret: &str) -> TestEnv {
    let env = hosts(&["127.0.0.1"]);
    env.sql(&format!(
        "ALTER TABLE BACKLOG ADD COLUMN Secret TEXT; UPDATE BACKLOG SET Secret = {secret}"
    ));
    env
}

#[test]
fn each_record_may_be_signed_with_a_secret_of_its_own() {
    let server = serving(fine());
    let keys = [b"a secret of the first record".as_slice(), b"and that of the second record"];
    let env = records(2);
    env.sql("ALTER TABLE BACKLOG ADD COLUMN SECRET TEXT");
    for (key, id) in keys.iter().zip(1..) {
        let secret = format!("whsec_{}", STANDARD.encode(key));
        env.sql(&format!("UPDATE BACKLOG SET SECRET = '{secret}' WHERE ID = {id}"));
    }
    let url = server.url("/");
    // The variable may be there for other lines.
    pass_in(&env, &[(SECRET, WHSEC)], &url, "--secret-column secret --jobs 1").silent();
    let mut received = server.received();
    received.sort_by_key(|request| String::from_utf8(request.body.clone()).unwrap());
    for (request, key) in received.iter().zip(keys) {
        let body = String::from_utf8(request.body.clone()).unwrap();
        assert!(!body.contains("SECRET") && !body.contains("whsec"), "{body}");
        let header = |name| request.header(name).unwrap();
        let head = format!("{}.{}.", header("webhook-id"), header("webhook-timestamp"));
        let signed = requests::hmac(key, &[head.as_bytes(), &request.body].concat());
        assert_eq!(header("webhook-signature"), format!("v1,{}", STANDARD.encode(signed)));
    }
    assert_eq!(received.len(), 2);
    let ran =
        env.run_at(MIDNIGHT, &format!("check --fibonacci --post {url} --secret-column SECRET"));
    assert_contains(&ran.stdout, "signed with SECRET of each record");
}

#[test]
fn a_secret_of_its_own_may_go_to_the_host_that_the_record_names() {
    let server = serving(fine());
    let env = with_secret(&format!("'{WHSEC}'"));
    pass(&env, &to_column(&server), "--secret-column Secret").silent();
    // It is refused for its host alone.
    assert_eq!(
        env.query("SELECT LAST_ERROR FROM BACKLOG").split(';').next().unwrap(),
        "not sent: the host \"127.0.0.1\" is an address"
    );
}

#[test]
fn a_record_without_a_secret_is_never_sent() {
    for secret in
        ["NULL", "''", "'whsk_S3krit'", "'whsec_S3kr!t'", "'whsec_UzNrcg=='", "'UzNrcg=='"]
    {
        let server = serving(fine());
        let env = with_secret(secret);
        pass(&env, &server.url("/"), "--secret-column secret").silent();
        let row = env.query("SELECT STATUS, LAST_ERROR FROM BACKLOG");
        assert!(row.starts_with("ERROR|not sent: the column secret of the record: "), "{row}");
        assert_lacks(&row, "S3kr");
        assert!(server.received().is_empty(), "{secret}");
    }
}

#[test]
fn a_secret_is_sent_nowhere() {
    let env = with_secret(&format!("'{WHSEC}'"));
    let column = "--secret-column secret";
    for (url, options, says) in [
        ("http://h.org/{SECRET}", "", "\"secret\" would be sent in the URL"),
        ("http://{secret}.h.org/", "", "\"secret\" would be sent in the URL"),
        (NOBODY, "--set payload=Secret", "\"secret\" would be sent in the body"),
    ] {
        let ran = pass(&env, url, &format!("{column} {options}")).fails(2, &[says]);
        assert_lacks(&ran.stderr, "whsec");
    }
    pass(&env, NOBODY, "--secret-column no")
        .fails(2, &["--secret-column: {no} is not a column; use one of ID"]);
    let args = "process --ndays 1 --secret-column secret -- true";
    env.run_at(MIDNIGHT, args).fails(2, &["--secret-column requires --post"]);
    assert_eq!(env.count("NEW"), 1);
    let file = format!("[defaults]\npost = '{NOBODY}'\nsecret_column = 'Secret'\nndays = 1\n");
    env.write("backlog.toml", file);
    env.run_at(MIDNIGHT, "process").silent();
    assert_eq!(env.query("SELECT LAST_ERROR FROM BACKLOG"), format!("not sent: {REFUSED}"));
}
