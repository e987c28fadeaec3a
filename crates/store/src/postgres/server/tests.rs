use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::unistd::{Uid, User};
use proptest::prelude::*;
use rustix::net::sockopt;

use super::endpoint::default_host;
use super::*;
use crate::error::StoreError;

fn is_try_later(error: &anyhow::Error) -> bool {
    StoreError::is_try_later(error)
}

/// A server as it is made of a URL and these variables.
fn server(url: &str, variables: &[(&str, &str)]) -> Result<Server> {
    let variables: HashMap<_, _> =
        variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    Server::new(url, &|name| variables.get(name).cloned())
}

fn shown(url: &str) -> String {
    server(url, &[("PGUSER", "me")]).unwrap().shown()
}

fn error(url: &str) -> String {
    format!("{:#}", server(url, &[("PGUSER", "me")]).unwrap_err())
}

fn password(server: &Server) -> Option<&str> {
    server.endpoints[0].password.as_ref().map(|password| password.secret.as_str())
}

#[test]
fn urls_are_read_as_libpq_reads_them() {
    for (url, is) in [
        ("postgres://u:p@h:1/d", "postgres://u@h:1/d"),
        ("postgresql://u@h", "postgres://u@h:5432/u"),
        ("POSTGRES://u@H", "postgres://u@h:5432/u"),
        ("postgres://h/", "postgres://me@h:5432/me"),
        ("postgres://:p@h/d", "postgres://me@h:5432/d"),
        ("postgres://u:@h/d", "postgres://u@h:5432/d"),
        ("postgres://h1:1,h2,h3:3/d", "postgres://me@h1:1,h2:5432,h3:3/d"),
        ("postgres://[::1]:7,[fe80::2]/d", "postgres://me@[::1]:7,[fe80::2]:5432/d"),
        ("postgres://u%40x:p@h/d%2Fe", "postgres://u%40x@h:5432/d%2Fe"),
        ("postgres://%2Frun%2Fpg:7/d", "postgres://me@/d?host=/run/pg&port=7"),
        ("postgres:///d?host=/run/pg&port=7", "postgres://me@/d?host=/run/pg&port=7"),
        ("postgres://h1/d?host=h2,/run/pg", "postgres://me@h2:5432,%2Frun%2Fpg:5432/d"),
        ("postgres://h1,h2/d?port=7", "postgres://me@h1:7,h2:7/d"),
        ("postgres://h/d?user=u&dbname=e&", "postgres://u@h:5432/e"),
        ("postgres://h/d?%75ser=u", "postgres://u@h:5432/d"),
        ("postgres://h/d?user=me@azure", "postgres://me%40azure@h:5432/d"),
        ("postgres:///d?hostaddr=::1", "postgres://me@[::1]:5432/d"),
        ("postgres://h/d?hostaddr=10.0.0.1", "postgres://me@h:5432/d"),
        ("postgres://u:p?q@h/d", "postgres://u@h:5432/d"),
    ] {
        assert_eq!(shown(url), is, "{url}");
    }
}

#[test]
fn passwords_are_read_with_their_signs() {
    for (url, is) in [
        ("postgres://u:p%40%2F%3A@h", "p@/:"),
        ("postgres://u:a:b?c#d&e=f@h", "a:b?c#d&e=f"),
        ("postgres://u@h?password=a+b%26=c", "a+b&=c"),
        ("postgres://u:a@h?password=b", "b"),
    ] {
        assert_eq!(password(&server(url, &[]).unwrap()), Some(is), "{url}");
    }
}

#[test]
fn a_malformed_url_is_refused_with_what_to_do() {
    for (url, says) in [
        ("mysql://h", "a database URL begins with postgres://"),
        ("postgres://u:p@ss@h/d", "@ as %40"),
        ("postgres://u:p/ss@h/d", "@ as %40"),
        ("postgres://h?user=a@b", "@ as %40"),
        ("postgres://h/d?host=x?user=y", "? as %3F"),
        ("postgres://h:x/d", "port must be a whole number from 1 to 65535"),
        ("postgres://h:0/d", "from 1 to 65535"),
        ("postgres://[::1/d", "must end with `]`"),
        ("postgres://[]/d", "must end with `]`"),
        ("postgres://[::1]x/d", "must end with `]`"),
        ("postgres://%zz/d", "two hexadecimal digits"),
        ("postgres://%00/d", "not 00"),
        ("postgres://%ff/d", "not UTF-8"),
        ("postgres://h/d?sslmode", "no value"),
        ("postgres://h/d?sslmod=x", "the parameter sslmod, which is not supported; legal are "),
        ("postgres://h/d?require_auth=none", "require_auth, which is not supported"),
        ("postgres://h/d?service=prod", "service, which is not supported"),
        ("postgres://h/d?sslmode=x", "sslmode must be one of: disable, allow, prefer, require, "),
        ("postgres://h/d?target_session_attrs=primary", "one of: any, read-write, read-only"),
        ("postgres://h/d?connect_timeout=soon", "connect_timeout must be a whole number"),
        ("postgres://h/d?hostaddr=h", "hostaddr must be an IP address"),
        ("postgres://h,i,j/d?port=1,2", "port has a list of 2, and there are 3 hosts"),
        ("postgres://h,i/d?hostaddr=::1", "hostaddr has a list of 1, and there are 2 hosts"),
    ] {
        let error = error(url);
        assert!(error.contains(says), "{url}: {error}");
    }
}

#[test]
fn the_url_goes_before_the_environment_and_that_before_the_defaults() {
    let variables = [
        ("PGHOST", "vh"),
        ("PGPORT", "7"),
        ("PGUSER", "vu"),
        ("PGDATABASE", "vd"),
        ("PGPASSWORD", "vp"),
        ("PGSSLMODE", "disable"),
        ("PGAPPNAME", "va"),
        ("PGCONNECT_TIMEOUT", "3"),
        ("PGOPTIONS", "-c a=b"),
    ];
    let of = |url| server(url, &variables).unwrap();
    assert_eq!(of("postgres://").shown(), "postgres://vu@vh:7/vd");
    assert_eq!(of("postgres://h").shown(), "postgres://vu@h:7/vd");
    // A list of hosts is a list of ports as well.
    assert_eq!(of("postgres://h,i").shown(), "postgres://vu@h:5432,i:5432/vd");
    let chosen = of("postgres://u:p@h:1/d?application_name=a&connect_timeout=0&sslmode=require");
    assert_eq!(chosen.shown(), "postgres://u@h:1/d");
    assert_eq!((password(&chosen), chosen.mode, chosen.timeout), (Some("p"), Mode::Require, None));
    assert_eq!(chosen.config.get_application_name(), Some("a"));
    let stated = of("postgres://");
    let timeout = Some(Duration::from_secs(3));
    assert_eq!(
        (password(&stated), stated.mode, stated.timeout),
        (Some("vp"), Mode::Disable, timeout)
    );
    assert_eq!(stated.config.get_application_name(), Some("va"));
    assert_eq!(stated.config.get_options(), Some("-c a=b"));
    let error = server("postgres://h", &[("PGSSLMODE", "on")]).unwrap_err();
    assert!(error.to_string().starts_with("PGSSLMODE must be one of"), "{error}");
}

#[test]
fn an_empty_variable_says_nothing() {
    let server = server("postgres://u@h", &[("PGPORT", ""), ("PGPASSWORD", "")]).unwrap();
    assert_eq!((server.shown(), password(&server)), ("postgres://u@h:5432/u".into(), None));
    assert_eq!((server.mode, server.timeout), (Mode::Prefer, Some(CONNECT_TIMEOUT)));
    assert_eq!(server.config.get_application_name(), Some("backlog"));
    assert_eq!(server.config.get_options(), None, "a pooler refuses even an empty one");
}

#[test]
fn keepalives_are_set_unless_the_url_does() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    let of = |url| {
        let server = server(url, &[]).unwrap();
        let opened = open_socket(&address, &server.config);
        let (_, socket) = runtime().unwrap().block_on(opened).unwrap();
        let secs = |found: rustix::io::Result<Duration>| found.unwrap().as_secs();
        let keepalive = (
            secs(sockopt::tcp_keepidle(&socket)),
            secs(sockopt::tcp_keepintvl(&socket)),
            sockopt::tcp_keepcnt(&socket).unwrap(),
        );
        let timeout = sockopt::tcp_user_timeout(&socket).unwrap();
        (sockopt::socket_keepalive(&socket).unwrap().then_some(keepalive), timeout)
    };
    assert_eq!(of("postgres://u@h"), (Some((30, 10, 3)), 60_000));
    let chosen = "postgres://u@h?keepalives_idle=5&keepalives_interval=6&keepalives_count=7";
    assert_eq!(of(chosen), (Some((5, 6, 7)), 47_000));
    assert_eq!(of("postgres://u@h?keepalives=0"), (None, 60_000));
}

#[test]
fn the_default_host_is_where_the_socket_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    assert_eq!(default_host(&["/nowhere", path], 7), "localhost");
    fs::write(directory.path().join(".s.PGSQL.7"), "").unwrap();
    assert_eq!(default_host(&["/nowhere", path], 7), path);
}

#[test]
fn the_identity_is_without_user_and_password() {
    let of = |url| server(url, &[]).unwrap().identity();
    assert_eq!(of("postgres://a:x@H,i:7/d"), "h:5432,i:7/d");
    assert_eq!(of("postgres://b:y@h,i:7/d?sslmode=require"), "h:5432,i:7/d");
    assert_ne!(of("postgres://b@h/d"), of("postgres://b@h:7/d"));
    assert_eq!(of("postgres://b@%2FRun/d"), "%2FRun:5432/d");
}

#[test]
fn tls_takes_what_the_mode_asks_for() {
    let of = |query: &str| server(&format!("postgres://u@h/d?{query}"), &[]);
    for (word, mode) in [
        ("disable", Mode::Disable),
        ("allow", Mode::Allow),
        ("prefer", Mode::Prefer),
        ("require", Mode::Require),
    ] {
        assert_eq!(of(&format!("sslmode={word}")).unwrap().mode, mode);
    }
    for (query, says) in [
        ("sslmode=verify-ca", "need the certificate of the authority"),
        ("sslmode=verify-full", "need the certificate of the authority"),
        ("sslrootcert=/nowhere", "could not read the certificate /nowhere"),
        ("sslrootcert=/dev/null", "/dev/null: it is no regular file"),
        ("sslrootcert=system&sslmode=require", "needs sslmode=verify-full"),
        ("sslcert=/nowhere", "needs its key"),
    ] {
        let error = format!("{:#}", of(query).unwrap_err());
        assert!(error.contains(says), "{query}: {error}");
    }
    // A socket has no TLS, whatever is asked for.
    let of_socket = server("postgres://u@%2Frun/d?sslmode=verify-full", &[]).unwrap();
    assert_eq!(of_socket.mode, Mode::Disable);
}

#[test]
fn a_variable_that_redirects_or_restricts_a_connection_is_never_passed_over() {
    for variable in [
        "PGSERVICE",
        "PGREQUIREAUTH",
        "PGREQUIREPEER",
        "PGSSLCRL",
        "PGSSLCRLDIR",
        "PGGSSENCMODE",
        "PGSSLCERTMODE",
        "PGSSLMINPROTOCOLVERSION",
        "PGSSLMAXPROTOCOLVERSION",
    ] {
        let error = server("postgres://u@h", &[(variable, "sesame")]).unwrap_err().to_string();
        let says = format!("{variable} is not supported; unset it; legal are PG");
        assert!(error.starts_with(&says) && !error.contains("sesame"), "{error}");
        assert!(server("postgres://u@h", &[(variable, "")]).is_ok(), "{variable}");
    }
}

/// What a password file says for a host of a user.
fn from_file(text: &str, mode: u32, url: &str) -> Option<String> {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(".pgpass");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    let server = server(url, &[("HOME", home.path().to_str().unwrap())]).unwrap();
    password(&server).map(String::from)
}

#[test]
fn the_password_file_follows_libpqs_rules() {
    let url = "postgres://u@h/d";
    for (text, is) in [
        ("h:5432:d:u:p", Some("p")),
        ("# h:5432:d:u:no\n\n*:*:*:*:p\r\n", Some("p")),
        ("h:5432:d:u:first\nh:5432:d:u:second", Some("first")),
        ("i:5432:d:u:a\nh:1:d:u:b\nh:5432:e:u:c\nh:5432:d:v:e", None),
        ("hh:*:*:*:p", None),
        ("*h:*:*:*:p", None),
        ("\\h:\\5432:d:u:p\\:\\\\q:comment", Some("p:\\q")),
        ("h:5432:d:u", None),
        ("h:5432:d:u:\n*:*:*:*:p", None),
    ] {
        assert_eq!(from_file(text, 0o600, url).as_deref(), is, "{text}");
    }
    assert_eq!(from_file("h:5432:a\\:b:u\\\\:p", 0o600, "postgres://u%5C@h/a:b"), Some("p".into()));
    assert_eq!(
        from_file("[::1]:*:*:*:p\n\\:\\:1:*:*:*:q", 0o600, "postgres://u@[::1]"),
        Some("q".into())
    );
}

#[test]
fn localhost_in_the_password_file_is_the_default_socket_too() {
    for (url, fits) in [
        ("postgres://u@%2Ftmp/d", true),
        ("postgres://u@%2Fvar%2Frun%2Fpostgresql/d", true),
        ("postgres://u@localhost/d", true),
        ("postgres://u@%2Frun%2Fmine/d", false),
        ("postgres://u@127.0.0.1/d", false),
    ] {
        assert_eq!(from_file("localhost:*:*:*:p", 0o600, url).is_some(), fits, "{url}");
    }
}

#[test]
fn a_password_file_that_others_may_read_is_not_used() {
    for (mode, is_used) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
        let found = from_file("*:*:*:*:p", mode, "postgres://u@h");
        assert_eq!(found.is_some(), is_used, "{mode:o}");
    }
}

#[test]
fn each_host_has_its_own_line_of_the_password_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "h:*:*:*:a\ni:*:*:*:b\n").unwrap();
    let path = file.path().to_str().unwrap();
    let secrets = |url: &str, variables: &[(&str, &str)]| {
        let server = server(url, variables).unwrap();
        let secret = |endpoint: &Endpoint| Some(endpoint.password.as_ref()?.secret.clone());
        server.endpoints.iter().map(secret).collect::<Vec<_>>()
    };
    let own = vec![Some("a".into()), Some("b".into()), None];
    assert_eq!(secrets("postgres://u@h,i,j", &[("PGPASSFILE", path)]), own);
    let url = format!("postgres://u@h,i,j?passfile={path}");
    assert_eq!(secrets(&url, &[("PGPASSFILE", "/nowhere")]), own);
    let all = vec![Some("c".into()), Some("c".into())];
    assert_eq!(secrets("postgres://u@h,i", &[("PGPASSWORD", "c"), ("PGPASSFILE", path)]), all);
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
    // Whatever is wrong with a URL, neither half of its password is ever shown.
    #[test]
    fn no_text_has_the_password(
        between in "[-@:/?&#=%,+\\[\\] a]{0,4}(user=|sslmode=|x=)?[@:/?&%]{0,2}",
        form in 0..6,
    ) {
        // What is a host or a parameter by its form is one.
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
            Ok(server) => texts.extend([server.shown(), server.identity(), format!("{server:?}")]),
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
fn a_server_without_tls_is_told_from_one_that_wants_a_password() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut client, _) = server.accept().unwrap();
        client.read_exact(&mut [0; 8]).unwrap();
        client.write_all(b"N").unwrap();
    });
    let failure = refused(&format!("postgres://u@127.0.0.1:{port}/d?sslmode=require"));
    let says = "the server does not support TLS; sslmode=prefer goes on without";
    assert!(failure.to_string().ends_with(says) && !is_try_later(&failure), "{failure}");
}

mod live {
    use super::*;
    use std::process::{Command, ExitStatus, Stdio};

    const BIN: &str = "/usr/lib/postgresql/15/bin";

    /// A PostgreSQL of this test's own, if the machine has one; ends with the test.
    struct Cluster {
        directory: tempfile::TempDir,
        port: u16,
    }

    impl Cluster {
        fn start() -> Option<Self> {
            if !Path::new(BIN).join("initdb").exists() {
                return None;
            }
            let directory = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp").ok()?;
            let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
            let cluster = Self { directory, port };
            let path = cluster.path("");
            // It does not run as root.
            if Uid::effective().is_root() {
                let nobody = User::from_name("nobody").ok()??;
                let (uid, gid) = (nobody.uid.as_raw(), nobody.gid.as_raw());
                std::os::unix::fs::chown(&path, Some(uid), Some(gid)).ok()?;
            }
            cluster
                .run("initdb", &["-D", &cluster.path("data"), "-U", "postgres", "-A", "trust"])?;
            let subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
            let (key, certificate) =
                (cluster.path("data/server.key"), cluster.path("data/server.crt"));
            let made = as_owner("openssl")
                .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "9"])
                .args(["-keyout", &key, "-out", &certificate])
                .args(subject)
                .stderr(Stdio::null())
                .status();
            made.ok().filter(ExitStatus::success)?;
            let hba = "local all all trust\nhostssl all tls all scram-sha-256\n\
                       hostnossl all plain all scram-sha-256\nhost all u all scram-sha-256\n";
            fs::write(cluster.path("data/pg_hba.conf"), hba).ok()?;
            let options = format!(
                "-c port={port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={path} \
                 -c ssl=on -c fsync=off"
            );
            cluster.run(
                "pg_ctl",
                &[
                    "-D",
                    &cluster.path("data"),
                    "-l",
                    &cluster.path("log"),
                    "-w",
                    "-o",
                    &options,
                    "start",
                ],
            )?;
            Some(cluster)
        }

        fn path(&self, name: &str) -> String {
            self.directory.path().join(name).to_str().unwrap().trim_end_matches('/').into()
        }

        fn run(&self, program: &str, arguments: &[&str]) -> Option<()> {
            let status = as_owner(&format!("{BIN}/{program}"))
                .args(arguments)
                .current_dir("/tmp")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            status.ok()?.success().then_some(())
        }

        /// Whether the connection has TLS, or why there is none.
        fn connect(&self, place: &str, query: &str) -> Result<bool> {
            let port = self.port;
            let place = place.replace("PORT", &port.to_string());
            let server = Arc::new(server(&format!("postgres://{place}/d?{query}"), &[]).unwrap());
            let sql = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
            let mut connection = server.connect()?;
            Ok(connection.wait(async |it| it.query_one(sql, &[]).await).unwrap().get(0))
        }
    }

    impl Drop for Cluster {
        fn drop(&mut self) {
            self.run("pg_ctl", &["-D", &self.path("data"), "-m", "immediate", "-w", "stop"]);
        }
    }

    fn as_owner(program: &str) -> Command {
        if !Uid::effective().is_root() {
            return Command::new(program);
        }
        let nobody = User::from_name("nobody").unwrap().unwrap();
        let (uid, gid) = (format!("--reuid={}", nobody.uid), format!("--regid={}", nobody.gid));
        let mut command = Command::new("setpriv");
        command.args([&uid, &gid, "--clear-groups", program]);
        command
    }

    #[test]
    fn a_server_lets_in_whom_it_should() {
        let Some(cluster) = Cluster::start() else {
            return;
        };
        let socket = format!("postgres@{}:PORT", encode(&cluster.path("")));
        let url =
            format!("postgres://{}/postgres", socket.replace("PORT", &cluster.port.to_string()));
        let mut admin = Arc::new(server(&url, &[]).unwrap()).connect().unwrap();
        let mut run = |sql: &str| admin.wait(async |it| it.batch_execute(sql).await).unwrap();
        for sql in [
            "create role u login password 'pw'",
            "create role tls login password 'pw'",
            "create role plain login password 'pw'",
            "create database d",
        ] {
            run(sql);
        }
        let root = format!("sslrootcert={}", cluster.path("data/server.crt"));
        let full = format!("sslmode=verify-full&channel_binding=require&{root}");
        let ca = format!("sslmode=verify-ca&{root}");
        for (place, query, has_tls) in [
            (socket.as_str(), "sslmode=require", false),
            ("u:pw@127.0.0.1:PORT", "", true),
            ("u:pw@127.0.0.1:PORT", "sslmode=disable", false),
            ("u:pw@127.0.0.1:PORT", "sslmode=allow", false),
            ("u:pw@127.0.0.1:PORT", "sslmode=require&channel_binding=require", true),
            ("u:pw@127.0.0.1:PORT", &ca, true),
            ("u:pw@localhost:PORT", &full, true),
            ("tls:pw@127.0.0.1:PORT", "sslmode=allow", true),
            ("plain:pw@127.0.0.1:PORT", "sslmode=prefer", false),
            ("u:pw@127.0.0.1:1,127.0.0.1:PORT", "", true),
            ("u:pw@127.0.0.1:PORT", "target_session_attrs=read-write", true),
        ] {
            let found = cluster.connect(place, query);
            assert_eq!(found.map_err(|error| error.to_string()), Ok(has_tls), "{place} {query}");
        }
        for (place, query, says) in [
            ("u@127.0.0.1:PORT", "", "put the password into PGPASSWORD or ~/.pgpass"),
            ("u:wrong@127.0.0.1:PORT", "", "the password is the one in the URL"),
            ("u:pw@127.0.0.1:PORT", "dbname=nosuch", "\"nosuch\" does not exist; `createdb`"),
            ("u:pw@127.0.0.1:PORT", &full, "not valid for name \"127.0.0.1\""),
            ("u:pw@127.0.0.1:PORT", "sslrootcert=system", "sslrootcert=FILE"),
            ("tls:pw@127.0.0.1:PORT", "sslmode=disable", "pg_hba.conf of the server says"),
            ("tls:wrong@127.0.0.1:PORT", "sslmode=allow", "the password is the one in the URL"),
        ] {
            let failure = cluster.connect(place, query).unwrap_err();
            let text = failure.to_string();
            assert!(text.contains(says) && !is_try_later(&failure), "{place} {query}: {text}");
            assert!(!text.contains("wrong@"), "{text}");
        }
        run("alter role u connection limit 0");
        let failure = cluster.connect("u:pw@127.0.0.1:PORT", "").unwrap_err();
        assert!(is_try_later(&failure), "{failure}");
        let failure = cluster.connect(&socket, "target_session_attrs=read-only").unwrap_err();
        assert!(is_try_later(&failure), "{failure}");
        assert!(failure.to_string().contains("target_session_attrs asks for that"), "{failure}");
        drop(cluster);
    }
}
