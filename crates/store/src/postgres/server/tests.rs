use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;
use rustix::net::sockopt;
use test_support::cluster::Cluster;

use super::endpoint::{Address, default_host};
use super::*;

fn is_try_later(error: &anyhow::Error) -> bool {
    StoreError::is_try_later(error)
}

/// The server of a URL and these variables.
fn server(url: &str, variables: &[(&str, &str)]) -> Result<Server> {
    let variables: HashMap<_, _> = variables.iter().copied().collect();
    Server::new(url, &|name| variables.get(name).map(ToString::to_string))
}

fn password(endpoint: &Endpoint) -> Option<String> {
    endpoint.config.get_password().map(|password| String::from_utf8_lossy(password).into_owned())
}

/// Returns the facts about a server, one per line, or an error.
fn facts(url: &str, variables: &[(&str, &str)]) -> Result<String> {
    let server = server(url, &[&[("PGUSER", "me")], variables].concat())?;
    let Server { endpoints, modes, .. } = &server;
    let config = &endpoints[0].config;
    let password = password(&endpoints[0])
        .map_or("no password".into(), |password| format!("password {password}"));
    let timeout =
        config.get_connect_timeout().map_or("no limit".into(), |limit| format!("{limit:?}"));
    let (shown, identity) = (server.to_string(), server.identity());
    let name = config.get_application_name().unwrap_or("nobody");
    let options = config.get_options().unwrap_or("no options");
    Ok(format!("{shown}\n{identity}\n{password}\n{modes:?}\n{timeout}\nas {name}\n{options}\n"))
}

/// Variables and a URL => facts about the server, or parts of the error.
const READ: &str = r#"
postgres://u:p@h:1/d => postgres://u@h:1/d
postgresql://u@h => postgres://u@h:5432/u
POSTGRES://u@H => postgres://u@h:5432/u
postgres://h/ => postgres://me@h:5432/me
postgres://:p@h/d => postgres://me@h:5432/d
postgres://u:@h/d => postgres://u@h:5432/d
postgres://h1:1,h2,h3:3/d => postgres://me@h1:1,h2:5432,h3:3/d
postgres://[::1]:7,[fe80::2]/d => postgres://me@[::1]:7,[fe80::2]:5432/d
postgres://u%40x:p@h/d%2Fe => postgres://u%40x@h:5432/d%2Fe
postgres://%2Frun%2Fpg:7/d => postgres://me@/d?host=/run/pg&port=7
postgres:///d?host=/run/pg&port=7 => postgres://me@/d?host=/run/pg&port=7
postgres://h1/d?host=h2,/run/pg => postgres://me@h2:5432,%2Frun%2Fpg:5432/d
postgres://h1,h2/d?port=7 => postgres://me@h1:7,h2:7/d
postgres://h/d?user=u&dbname=e& => postgres://u@h:5432/e
postgres://h/d?%75ser=u => postgres://u@h:5432/d
postgres://h/d?user=me@azure => postgres://me%40azure@h:5432/d
postgres:///d?hostaddr=::1 => postgres://me@[::1]:5432/d
postgres://h/d?hostaddr=10.0.0.1 => postgres://me@h:5432/d
postgres://u:p?q@h/d => postgres://u@h:5432/d

postgres://u:p%40%2F%3A@h => password p@/:
postgres://u:a:b?c#d&e=f@h => password a:b?c#d&e=f
postgres://u@h?password=a+b%26=c => password a+b&=c
postgres://u:a@h?password=b => password b
postgres://u:a%27b%5Cc%20d%22@h => password a'b\c d"
postgres://h?options=-c%20a%3Db\%20c => -c a=b\ c

mysql://h => a database URL begins with postgres://
postgres://u:p@ss@h/d => @ as %40
postgres://u:p/ss@h/d => @ as %40
postgres://h?user=a@b => @ as %40
postgres://h/d?host=x?user=y => ? as %3F
postgres://h:x/d => port must be a whole number from 1 to 65535
postgres://h:0/d => from 1 to 65535
postgres://[::1/d => must end with `]`
postgres://[]/d => must end with `]`
postgres://[::1]x/d => must end with `]`
postgres://%zz/d => two hexadecimal digits
postgres://%00/d => not 00
postgres://%ff/d => not UTF-8
postgres://h/d?sslmode => no value
postgres://h/d?sslmod=x => the parameter sslmod, which is not supported; use one of 
postgres://h/d?require_auth=none => require_auth, which is not supported
postgres://h/d?service=prod => service, which is not supported
postgres://h/d?sslmode=x => sslmode must be one of: disable, allow, prefer, require, 
postgres://h/d?target_session_attrs=primary => one of: any, read-write, read-only
postgres://h/d?connect_timeout=soon => connect_timeout must be a whole number
postgres://h/d?hostaddr=h => hostaddr must be an IP address
postgres://h,i,j/d?port=1,2 => port has 2 values for 3 hosts
postgres://h,i/d?hostaddr=::1 => hostaddr has 1 value for 2 hosts

PGHOST=vh PGPORT=7 PGUSER=vu PGDATABASE=vd postgres:// => postgres://vu@vh:7/vd
PGHOST=vh PGPORT=7 PGUSER=vu PGDATABASE=vd postgres://h => postgres://vu@h:7/vd
PGHOST=vh PGPORT=7 PGUSER=vu PGDATABASE=vd postgres://h,i => postgres://vu@h:5432,i:5432/vd
PGHOST=vh PGPORT=7 PGUSER=vu PGDATABASE=vd postgres://u:p@h:1/d => postgres://u@h:1/d
PGPASSWORD=vp postgres://u:p@h => password p
PGPASSWORD=vp postgres:// => password vp
PGSSLMODE=disable postgres://h?sslmode=require => [Require]
PGSSLMODE=disable postgres://h => [Disable]
PGSSLMODE=on postgres://h => PGSSLMODE must be one of
PGCONNECT_TIMEOUT=3 postgres://h?connect_timeout=0 => no limit
PGCONNECT_TIMEOUT=3 postgres:// => 3s
PGAPPNAME=va postgres://h?application_name=a => as a
PGAPPNAME=va postgres:// => as va
PGOPTIONS=-ca=b postgres:// => -ca=b
PGPORT= PGPASSWORD= postgres://u@h => postgres://u@h:5432/u | no password
postgres://u@h => [Prefer, Disable] | 10s | as backlog | no options

postgres://a:x@H,i:7/d => h:5432,i:7/d
postgres://b:y@h,i:7/d?sslmode=require => h:5432,i:7/d
postgres://b@h:7/d => h:7/d
postgres://b@%2FRun/d => %2FRun:5432/d

postgres://u@h/d?sslmode=disable => [Disable]
postgres://u@h/d?sslmode=allow => [Disable, Require]
postgres://u@h/d?sslmode=prefer => [Prefer, Disable]
postgres://u@h/d?sslmode=require => [Require]
postgres://u@h/d?sslmode=verify-ca => need the certificate of the authority
postgres://u@h/d?sslmode=verify-full => need the certificate of the authority
postgres://u@h/d?sslrootcert=/nowhere => could not read the certificate /nowhere
postgres://u@h/d?sslrootcert=/dev/null => /dev/null: it is not a regular file
postgres://u@h/d?sslrootcert=system&sslmode=require => needs sslmode=verify-full
postgres://u@h/d?sslcert=/nowhere => needs its key
postgres://u@%2Frun/d?sslmode=verify-full => [Disable]

PGSERVICE=sesame postgres://u@h => PGSERVICE is not supported; unset it, or use one of PG
PGREQUIREAUTH=sesame postgres://u@h => PGREQUIREAUTH is not supported; unset it, or use one of PG
PGREQUIREPEER=sesame postgres://u@h => PGREQUIREPEER is not supported; unset it, or use one of PG
PGSSLCRL=sesame postgres://u@h => PGSSLCRL is not supported; unset it, or use one of PG
PGSSLCRLDIR=sesame postgres://u@h => PGSSLCRLDIR is not supported; unset it, or use one of PG
PGGSSENCMODE=sesame postgres://u@h => PGGSSENCMODE is not supported; unset it, or use one of PG
PGSSLCERTMODE=sesame postgres://u@h => PGSSLCERTMODE is not supported; unset it, or use one of PG
PGSSLMINPROTOCOLVERSION=sesame postgres://u@h => PGSSLMINPROTOCOLVERSION is not supported; unset it, or use one of PG
PGSSLMAXPROTOCOLVERSION=sesame postgres://u@h => PGSSLMAXPROTOCOLVERSION is not supported; unset it, or use one of PG
PGSERVICE= PGREQUIREAUTH= PGREQUIREPEER= PGSSLCRL= PGSSLCRLDIR= PGGSSENCMODE= PGSSLCERTMODE= postgres://u@h => as backlog
PGSSLMINPROTOCOLVERSION= PGSSLMAXPROTOCOLVERSION= postgres://u@h => as backlog
"#;

#[test]
fn urls_and_variables_are_read_as_libpq_reads_them_or_refused_with_what_to_do() {
    for row in READ.lines().filter(|row| !row.is_empty()) {
        let (given, expected) = row.split_once(" => ").unwrap();
        let (variables, url) = given.rsplit_once(' ').unwrap_or(("", given));
        let variables =
            variables.split_whitespace().map(|variable| variable.split_once('=').unwrap());
        let found = facts(url, &variables.collect::<Vec<_>>());
        for expected in expected.split(" | ") {
            match &found {
                Ok(found) => assert!(found.lines().any(|fact| fact == expected), "{row}: {found}"),
                Err(error) => assert!(format!("{error:#}").contains(expected), "{row}: {error:#}"),
            }
        }
        assert!(!found.is_err_and(|error| error.to_string().contains("sesame")), "{row}");
    }
}

#[test]
fn keepalives_are_set_unless_the_url_does() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    for (query, is) in [
        ("", (Some((30, 10, 3)), 60_000)),
        ("keepalives_idle=5&keepalives_interval=6&keepalives_count=7", (Some((5, 6, 7)), 47_000)),
        ("keepalives_idle=0&keepalives_count=0", (Some((30, 10, 3)), 60_000)),
        ("keepalives=0", (None, 60_000)),
    ] {
        let server = server(&format!("postgres://u@h?{query}"), &[]).unwrap();
        let (endpoint, address) = (server.endpoints[0].clone(), address.clone());
        let mut route = Route { endpoint, address, mode: SslMode::Disable };
        let (_, socket) = runtime().unwrap().block_on(route.open()).unwrap();
        let secs = |found: rustix::io::Result<Duration>| found.unwrap().as_secs();
        let (idle, interval) = (sockopt::tcp_keepidle(&socket), sockopt::tcp_keepintvl(&socket));
        let keepalive = (secs(idle), secs(interval), sockopt::tcp_keepcnt(&socket).unwrap());
        let timeout = sockopt::tcp_user_timeout(&socket).unwrap();
        let is_on = sockopt::socket_keepalive(&socket).unwrap();
        assert_eq!((is_on.then_some(keepalive), timeout), is, "{query}");
    }
}

#[test]
fn the_default_host_is_where_the_socket_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    assert_eq!(default_host(&["/nowhere", path], 7), "localhost");
    fs::write(directory.path().join(".s.PGSQL.7"), "").unwrap();
    assert_eq!(default_host(&["/nowhere", path], 7), path);
}

/// Returns the password of each host by a password file.
fn from_file(text: &str, mode: u32, url: &str) -> Vec<Option<String>> {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(".pgpass");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    let server = server(url, &[("HOME", home.path().to_str().unwrap())]).unwrap();
    server.endpoints.iter().map(|endpoint| password(endpoint)).collect()
}

#[test]
fn the_password_file_follows_libpqs_rules() {
    let url = "postgres://u@h/d";
    for (text, mode, url, is) in [
        ("h:5432:d:u:p", 0o600, url, Some("p")),
        ("# h:5432:d:u:no\n\n*:*:*:*:p\r\n", 0o600, url, Some("p")),
        ("h:5432:d:u:first\nh:5432:d:u:second", 0o600, url, Some("first")),
        ("i:5432:d:u:a\nh:1:d:u:b\nh:5432:e:u:c\nh:5432:d:v:e", 0o600, url, None),
        ("hh:*:*:*:p", 0o600, url, None),
        ("*h:*:*:*:p", 0o600, url, None),
        ("\\h:\\5432:d:u:p\\:\\\\q:comment", 0o600, url, Some("p:\\q")),
        ("h:5432:d:u", 0o600, url, None),
        ("h:5432:d:u:\n*:*:*:*:p", 0o600, url, None),
        ("h:5432:a\\:b:u\\\\:p", 0o600, "postgres://u%5C@h/a:b", Some("p")),
        ("[::1]:*:*:*:p\n\\:\\:1:*:*:*:q", 0o600, "postgres://u@[::1]", Some("q")),
        // The default sockets are localhost too.
        ("localhost:*:*:*:p", 0o600, "postgres://u@%2Ftmp/d", Some("p")),
        ("localhost:*:*:*:p", 0o600, "postgres://u@%2Fvar%2Frun%2Fpostgresql/d", Some("p")),
        ("localhost:*:*:*:p", 0o600, "postgres://u@localhost/d", Some("p")),
        ("localhost:*:*:*:p", 0o600, "postgres://u@%2Frun%2Fmine/d", None),
        ("localhost:*:*:*:p", 0o600, "postgres://u@127.0.0.1/d", None),
        // Others may read it.
        ("*:*:*:*:p", 0o400, url, Some("p")),
        ("*:*:*:*:p", 0o640, url, None),
        ("*:*:*:*:p", 0o604, url, None),
    ] {
        assert_eq!(from_file(text, mode, url)[0].as_deref(), is, "{text} {mode:o} {url}");
    }
}

#[test]
fn each_host_has_its_own_line_of_the_password_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "h:*:*:*:a\ni:*:*:*:b\n").unwrap();
    let path = file.path().to_str().unwrap();
    let with = format!("postgres://u@h,i,j?passfile={path}");
    let (own, all) = (["a", "b", "none"], ["c", "c", "c"]);
    for (url, variables, is) in [
        ("postgres://u@h,i,j", &[("PGPASSFILE", path)][..], own),
        (&with, &[("PGPASSFILE", "/nowhere")], own),
        ("postgres://u@h,i,j", &[("PGPASSWORD", "c"), ("PGPASSFILE", path)], all),
    ] {
        let server = server(url, variables).unwrap();
        let secrets =
            server.endpoints.iter().map(|endpoint| password(endpoint).unwrap_or("none".into()));
        assert_eq!(secrets.collect::<Vec<_>>(), is, "{url}");
    }
}

#[test]
fn a_url_is_shown_without_its_password() {
    for (url, is) in [
        ("postgres://u:p@h:1/d?sslmode=require", "postgres://u@h:1/d?sslmode=require"),
        ("postgresql://:p@h/d", "postgresql://h/d"),
        ("postgres://u@h/d?password=p&sslmode=require", "postgres://u@h/d?sslmode=require"),
        ("postgres://h:1,[::1]:2/d?user=me@x", "postgres://h:1,[::1]:2/d?user=me@x"),
        ("postgres://u@h/d?pass%77ord=p", "postgres://u@h/d"),
        ("postgres://u:p@q/r@h/d", "postgres://..."),
        ("postgres://u:p", "postgres://..."),
        ("/a/file:with@signs", "/a/file:with@signs"),
    ] {
        assert_eq!(without_password(url), is);
    }
}

proptest! {
    // No error about a URL shows either half of its password.
    #[test]
    fn no_text_has_the_password(
        between in "[-@:/?&#=%,+\\[\\] a]{0,4}(user=|sslmode=|x=)?[@:/?&%]{0,2}",
        form in 0..6,
    ) {
        // Excludes text that is a host or a parameter by its form.
        let names = ["?user=", "&user=", "?sslmode=", "&sslmode="];
        let has_parameter = names.iter().any(|name| between.contains(name));
        prop_assume!(form != 5 || !between.contains('@'));
        prop_assume!(!has_parameter || ![2, 3, 5].contains(&form) && !between.contains('@'));
        let secret = format!("hunter2{between}hunter3");
        let url = match form {
            0 => format!("postgres://u:{secret}@h:1/d"),
            1 => format!("postgres://:{secret}@h,i/d?sslmode=disable"),
            2 => format!("postgres://u@h/d?password={secret}"),
            3 => format!("postgres://u@h/d?password={secret}&sslmode=nonsense"),
            4 => format!("postgres://u:{secret}@[::1/d?user"),
            _ => format!("postgres://u:{secret}"),
        };
        let mut texts = vec![without_password(&url)];
        match server(&url, &[("PGUSER", "me"), ("PGSSLMODE", "disable")]) {
            Err(error) => texts.extend([format!("{error:#}"), format!("{error:?}")]),
            Ok(server) => texts.extend([server.to_string(), server.identity(), format!("{server:?}")]),
        }
        for text in texts {
            let is_clean = !text.contains("hunter2") && !text.contains("hunter3");
            prop_assert!(is_clean, "{url}: {text}");
        }
    }
}

fn refused(url: &str) -> anyhow::Error {
    Arc::new(server(url, &[]).unwrap()).connect().map(|_| ()).unwrap_err()
}

#[test]
fn a_server_that_is_not_there_may_come_back() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let failure = refused(&format!("postgres://u:hunter2@127.0.0.1:{free},%2Fnowhere/d"));
    let text = failure.to_string();
    assert!(is_try_later(&failure), "{text}");
    assert!(text.contains("connection refused") && text.contains("no such file"), "{text}");
    assert!(!format!("{text}{failure:?}").contains("hunter2"), "{text}");
}

#[test]
fn a_server_that_accepts_and_says_nothing_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    for mode in ["disable", "prefer"] {
        let failure =
            refused(&format!("postgres://u@127.0.0.1:{port}/d?connect_timeout=1&sslmode={mode}"));
        assert!(is_try_later(&failure), "{failure}");
        assert!(failure.to_string().contains("no answer within 1s"), "{failure}");
    }
}

#[test]
fn a_server_without_tls_is_a_permanent_failure() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut client, _) = server.accept().unwrap();
        client.read_exact(&mut [0; 8]).unwrap();
        client.write_all(b"N").unwrap();
    });
    let failure = refused(&format!("postgres://u@127.0.0.1:{port}/d?sslmode=require"));
    let says = "the server does not support TLS; sslmode=prefer connects without TLS";
    assert!(failure.to_string().ends_with(says) && !is_try_later(&failure), "{failure}");
}

#[test]
fn a_server_lets_in_whom_it_should() {
    // Other tests have the same port, so this one has its own address.
    let [.., one, two] = std::process::id().to_be_bytes();
    let address = format!("127.{}.{two}.1", one | 1);
    let Some(cluster) = Cluster::private(&[&format!("listen_addresses={address}")]) else { return };
    let admin = cluster.existing("postgres");
    for sql in [
        "COPY (SELECT) TO PROGRAM 'openssl req -x509 -newkey rsa:2048 -nodes -days 9 -subj /CN=localhost \
         -addext subjectAltName=DNS:localhost -keyout server.key -out server.crt 2>/dev/null'",
        "COPY (VALUES ('local all all trust'), ('hostssl all tls all scram-sha-256'), \
         ('hostnossl all plain all scram-sha-256'), ('host all u all scram-sha-256')) \
         TO PROGRAM 'cat >pg_hba.conf'",
        "ALTER SYSTEM SET ssl = on",
        "create role u login password 'pw'",
        "create role tls login password 'pw'",
        "create role plain login password 'pw'",
        "create database d",
        "SELECT pg_reload_conf()",
    ] {
        admin.sql(sql);
    }
    let data = admin.query("SHOW data_directory");
    // Returns true if the connection has TLS.
    let connect = |place: &str, query: &str| -> Result<bool> {
        let place = place.replace("HERE", &address);
        let url = format!("postgres://{place}/d?{query}");
        let mut connection = Arc::new(server(&url, &[]).unwrap()).connect()?;
        let sql = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
        Ok(connection.wait(async |client| client.query_one(sql, &[]).await).unwrap().get(0))
    };
    let socket = format!("postgres@{}", encode(cluster.sockets().to_str().unwrap()));
    let root = format!("sslrootcert={data}/server.crt");
    let (full, ca) = (format!("sslmode=verify-full&{root}"), format!("sslmode=verify-ca&{root}"));
    let bound = format!("{full}&channel_binding=require&hostaddr={address}");
    for (place, query, has_tls) in [
        (socket.as_str(), "sslmode=require", false),
        ("u:pw@HERE", "", true),
        ("u:pw@HERE", "sslmode=disable", false),
        ("u:pw@HERE", "sslmode=allow", false),
        ("u:pw@HERE", "sslmode=require&channel_binding=require", true),
        ("u:pw@HERE", &ca, true),
        ("u:pw@localhost", &bound, true),
        ("tls:pw@HERE", "sslmode=allow", true),
        ("plain:pw@HERE", "sslmode=prefer", false),
        ("u:pw@127.0.0.1:1,HERE", "", true),
        ("u:pw@HERE", "target_session_attrs=read-write", true),
    ] {
        let found = connect(place, query);
        assert_eq!(found.map_err(|error| error.to_string()), Ok(has_tls), "{place} {query}");
    }
    for (place, query, says) in [
        ("u@HERE", "", "put the password into PGPASSWORD or ~/.pgpass"),
        ("u:wrong@HERE", "", "the password is the one in the URL"),
        ("u:pw@HERE", "dbname=nosuch", "\"nosuch\" does not exist; `createdb`"),
        ("u:pw@HERE", &full, &format!("not valid for name \"{address}\"")),
        ("u:pw@HERE", "sslrootcert=system", "sslrootcert=FILE"),
        ("tls:pw@HERE", "sslmode=disable", "pg_hba.conf of the server lists"),
        ("tls:wrong@HERE", "sslmode=allow", "the password is the one in the URL"),
    ] {
        let failure = connect(place, query).unwrap_err();
        let text = failure.to_string();
        assert!(text.contains(says) && !is_try_later(&failure), "{place} {query}: {text}");
        assert!(!text.contains("wrong@"), "{text}");
    }
    admin.sql("alter role u connection limit 0");
    for (place, query, says) in [
        ("u:pw@HERE", "", "too many connections"),
        (&socket, "target_session_attrs=read-only", "but target_session_attrs=read-only"),
    ] {
        let failure = connect(place, query).unwrap_err();
        assert!(is_try_later(&failure) && failure.to_string().contains(says), "{failure}");
    }
}
