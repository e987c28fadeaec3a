//! Failures to connect: the message, and whether another attempt may help.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};

use anyhow::anyhow;
use rustls::{CertificateError, Error as TlsError};
use tokio_postgres::Error as SqlError;

use crate::exit::try_later;
use crate::system_error::words;
use crate::tls_roots;

/// The failure to open a connection. It is one to try again later if a server is out of reach.
pub fn failure(place: &str, refusals: &[(String, Refusal)]) -> anyhow::Error {
    let shown: Vec<_> = match refusals {
        [(_, refusal)] => vec![refusal.to_string()],
        refusals => refusals.iter().map(|(at, it)| format!("{at}: {it}")).collect(),
    };
    let message = format!("could not connect to {place}: {}", shown.join("; "));
    let is_temporary = refusals.iter().any(|(_, refusal)| refusal.kind.is_temporary());
    if is_temporary { try_later(message).into() } else { anyhow!(message) }
}

/// Kinds of refusals, by what is done about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nobody answers, or not now, or not in the role that is wanted: it may pass.
    Passing,
    /// The connection broke while TLS was being agreed on.
    HandshakeCut,
    /// TLS was not agreed on.
    Tls,
    UnknownHost,
    PasswordWrong,
    NotAdmitted,
    Other,
}

impl Kind {
    fn is_temporary(self) -> bool {
        matches!(self, Self::Passing | Self::HandshakeCut)
    }

    /// Whether the same server may do it with TLS instead of without, or the other way round.
    pub fn may_differ_without_tls(self) -> bool {
        matches!(self, Self::HandshakeCut | Self::Tls | Self::PasswordWrong | Self::NotAdmitted)
    }

    /// Whether another host of a list may do it. One that refuses the user is not passed over.
    pub fn is_of_this_host(self) -> bool {
        self.is_temporary() || self == Self::UnknownHost
    }
}

/// The refusal of one host.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub kind: Kind,
    /// Whether the refusal shows that the machine of the server is reachable.
    pub is_answer: bool,
    /// The cause, and what to do about it.
    message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Refusal {}

const IS_IT_THERE: &str = "; is PostgreSQL running there, and do host and port say where?";
const TRY_LATER: &str = "; try later";

impl Refusal {
    pub fn new(kind: Kind, cause: impl fmt::Display, hint: &str) -> Self {
        Self { kind, is_answer: false, message: format!("{cause}{hint}") }
    }

    pub fn no_answer(cause: impl fmt::Display) -> Self {
        Self::new(Kind::Passing, cause, IS_IT_THERE)
    }

    pub fn unknown_host(cause: impl fmt::Display) -> Self {
        Self::new(Kind::UnknownHost, cause, "; check the name of the host")
    }

    /// Of a connection that was opened. What neither the server nor the network refused is the lack of
    /// TLS where it is required and never began, and that of a password where there is none.
    pub fn of(error: &SqlError, lacks_tls: bool, has_password: bool) -> Self {
        if let Some(error) = error.as_db_error() {
            let (kind, hint) = of_state(error.code().code(), error.message());
            return Self { is_answer: true, ..Self::new(kind, error.message(), hint) };
        }
        let source = error.source();
        if let Some(of_handshake) = source.and_then(|it| it.downcast_ref::<Self>()) {
            return of_handshake.clone();
        }
        if let Some(error) = source.and_then(|it| it.downcast_ref()) {
            return Self::of_io(error, of_socket);
        }
        let cause = source.map_or_else(|| error.to_string(), ToString::to_string);
        if error.is_closed() {
            Self::no_answer(cause)
        } else if lacks_tls {
            let hint = "; sslmode=prefer goes on without";
            Self::new(Kind::Tls, "the server does not support TLS", hint)
        } else if has_password {
            Self::new(Kind::Other, cause, "")
        } else {
            let hint = "; put the password into PGPASSWORD or ~/.pgpass \
                        (host:port:database:user:password)";
            Self::new(Kind::Other, "the server wants a password", hint)
        }
    }

    /// Of an agreement on TLS.
    pub fn of_handshake(error: &io::Error) -> Self {
        // The library's word for a name that no certificate can have.
        let is_no_name = error.kind() == ErrorKind::InvalidInput;
        let cut = if is_no_name { (Kind::Tls, "") } else { (Kind::HandshakeCut, TRY_LATER) };
        Self::of_io(error, |_| cut)
    }

    fn of_io(
        error: &io::Error,
        of_socket: impl FnOnce(&io::Error) -> (Kind, &'static str),
    ) -> Self {
        if let Some(error) = error.get_ref().and_then(|it| it.downcast_ref()) {
            return Self::of_tls(error);
        }
        let (kind, hint) = of_socket(error);
        let is_answer = error.kind() == ErrorKind::ConnectionRefused;
        Self { is_answer, ..Self::new(kind, words(error), hint) }
    }

    fn of_tls(error: &TlsError) -> Self {
        let refusal = |hint| Self::new(Kind::Tls, error, hint);
        let TlsError::InvalidCertificate(what) = error else { return refusal("") };
        let is_of_other_names = matches!(
            what,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
        );
        if is_of_other_names {
            return refusal(
                "; connect by a name that the certificate has as a subjectAltName, or give up \
                 checking the name with sslmode=verify-ca",
            );
        }
        // A server that is its own authority is no better known.
        if *what == CertificateError::UnknownIssuer || tls_roots::is_own(what) {
            return refusal("; name the file of its authority's certificate: sslrootcert=FILE");
        }
        if tls_roots::unnamed(what) == Some(&webpki::Error::UnsupportedCertVersion) {
            // The library says that in words of its own.
            let cause = "the certificate of the server is of X.509 version 1";
            let hint = "; the server needs a certificate of version 3, one with extensions";
            return Self::new(Kind::Tls, cause, hint);
        }
        refusal("")
    }

    /// Says where a wrong password came from.
    pub fn with_password_from(mut self, from: &str) -> Self {
        if self.kind == Kind::PasswordWrong {
            self.message += &format!("; the password is the one in {from}");
        }
        self
    }

    /// Of two attempts at the same server, the one that says more.
    pub fn or_second(self, second: Self) -> Self {
        if matches!(second.kind, Kind::PasswordWrong | Kind::Other) { second } else { self }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::of_io(&error, of_socket)
    }
}

/// Parts of the messages of PgBouncer while it has no connection to lend, because the server is away or all
/// connections are in use. It sends them with the code for protocol violations, which it also uses for
/// permanent refusals.
const NO_CONNECTION_NOW: [&str; 12] = [
    "server login has been failing",
    "server login failed",
    "cannot connect to server",
    "server conn crashed",
    "no more connections allowed",
    "connections exceeded",
    "query_wait_timeout",
    "query_timeout",
    "client_login_timeout",
    "client_idle_timeout",
    "idle transaction timeout",
    "idle_transaction_timeout",
];

/// Whether a protocol violation only means that a pooler has no connection at the moment.
pub fn is_lack_of_connections(message: &str) -> bool {
    NO_CONNECTION_NOW.iter().any(|words| message.contains(words))
}

fn of_state(code: &str, message: &str) -> (Kind, &'static str) {
    match code {
        "28P01" => (Kind::PasswordWrong, ""),
        "3D000" => (Kind::Other, "; `createdb` creates one"),
        // The server shuts down, has crashed or starts. 57P04: the database was dropped just now.
        "57P01" | "57P02" | "57P03" => (Kind::Passing, TRY_LATER),
        _ if code.starts_with("28") => {
            (Kind::NotAdmitted, "; the file pg_hba.conf of the server says who may connect")
        }
        // A startup parameter that a pooler does not know, for example.
        "08P01" if !is_lack_of_connections(message) => (Kind::Other, ""),
        _ if code.starts_with("08") || code.starts_with("53") => (Kind::Passing, TRY_LATER),
        _ => (Kind::Other, ""),
    }
}

fn of_socket(error: &io::Error) -> (Kind, &'static str) {
    let is_passing = [
        ErrorKind::NotFound,
        ErrorKind::ConnectionRefused,
        ErrorKind::ConnectionReset,
        ErrorKind::ConnectionAborted,
        ErrorKind::NotConnected,
        ErrorKind::BrokenPipe,
        ErrorKind::UnexpectedEof,
        ErrorKind::TimedOut,
        ErrorKind::WouldBlock,
        ErrorKind::Interrupted,
        ErrorKind::HostUnreachable,
        ErrorKind::NetworkUnreachable,
        ErrorKind::NetworkDown,
        ErrorKind::AddrNotAvailable,
    ]
    .contains(&error.kind());
    if is_passing { (Kind::Passing, IS_IT_THERE) } else { (Kind::Other, "") }
}
