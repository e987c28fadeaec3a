//! Failures to connect: the message, and whether another attempt may help.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};

use anyhow::anyhow;
use rustls::{CertificateError, Error as TlsError};
use tokio_postgres::Error as SqlError;

use crate::error::StoreError;
use crate::system_error::words;
use crate::tls_roots;

/// The failure to open a connection, at each of these hosts.
pub fn failure(place: &str, refusals: &[(String, Refusal)]) -> anyhow::Error {
    let shown: Vec<_> = match refusals {
        [(_, refusal)] => vec![refusal.to_string()],
        refusals => refusals.iter().map(|(host, refusal)| format!("{host}: {refusal}")).collect(),
    };
    let message = format!("could not connect to {place}: {}", shown.join("; "));
    let is_temporary = refusals.iter().any(|(_, refusal)| refusal.kind.is_temporary());
    if is_temporary { StoreError::TryLater(message).into() } else { anyhow!(message) }
}

/// Kinds of refusals, by what is done about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No answer, or not now, or not in the role that is wanted. Another host may be better.
    Passing,
    /// An open connection broke, for example while TLS was being agreed on.
    Broken,
    /// TLS was not agreed on, or the server lets nobody in this way.
    Way,
    PasswordWrong,
    Other,
}

impl Kind {
    pub fn is_temporary(self) -> bool {
        matches!(self, Self::Passing | Self::Broken)
    }

    /// Whether the same server may accept the connection with TLS instead of without, or the other way round.
    pub fn depends_on_tls(self) -> bool {
        matches!(self, Self::Broken | Self::Way | Self::PasswordWrong)
    }
}

/// The refusal of one host.
#[derive(Debug)]
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

const IS_IT_THERE: &str = "; is PostgreSQL running there, and do host and port say where?";
const TRY_LATER: &str = "; try later";

impl Refusal {
    pub fn new(kind: Kind, cause: impl fmt::Display, hint: &str) -> Self {
        Self { kind, is_answer: false, message: format!("{cause}{hint}") }
    }

    pub fn no_answer(cause: impl fmt::Display) -> Self {
        Self::new(Kind::Passing, cause, IS_IT_THERE)
    }

    /// The refusal of a connection that was opened. Neither the server nor the network refuses a connection for lack
    /// of TLS where it is required, or of a password.
    pub fn of(error: &SqlError, lacks_tls: bool, has_password: bool) -> Self {
        if let Some(error) = error.as_db_error() {
            let (kind, hint) = kind_of_state(error.code().code(), error.message());
            return Self { is_answer: true, ..Self::new(kind, error.message(), hint) };
        }
        let source = error.source();
        let cause = source.map_or_else(|| error.to_string(), ToString::to_string);
        if let Some(error) = source.and_then(|source| source.downcast_ref::<io::Error>()) {
            match error.get_ref().and_then(|inner| inner.downcast_ref()) {
                Some(error) => Self::of_tls(error),
                // The library's error for a host that no certificate can name.
                None if error.kind() == ErrorKind::InvalidInput => Self::new(Kind::Way, cause, ""),
                None => Self::new(Kind::Broken, words(error), TRY_LATER),
            }
        } else if error.is_closed() {
            Self::new(Kind::Broken, cause, IS_IT_THERE)
        } else if lacks_tls {
            let hint = "; sslmode=prefer goes on without";
            Self::new(Kind::Way, "the server does not support TLS", hint)
        } else if has_password {
            Self::new(Kind::Other, cause, "")
        } else {
            let hint = "; put the password into PGPASSWORD or ~/.pgpass \
                        (host:port:database:user:password)";
            Self::new(Kind::Other, "the server wants a password", hint)
        }
    }

    fn of_tls(error: &TlsError) -> Self {
        let TlsError::InvalidCertificate(what) = error else {
            return Self::new(Kind::Way, error, "");
        };
        // A server that is its own authority is no better known.
        let is_unknown = *what == CertificateError::UnknownIssuer || tls_roots::is_own(what);
        let hint = "; name the file of its authority's certificate: sslrootcert=FILE";
        Self::new(Kind::Way, error, if is_unknown { hint } else { "" })
    }

    /// Says where a wrong password came from.
    pub fn with_password_from(mut self, from: &str) -> Self {
        if self.kind == Kind::PasswordWrong {
            self.message += &format!("; the password is the one in {from}");
        }
        self
    }
}

/// The refusal of a connection that could not be opened.
impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        let is_answer = error.kind() == ErrorKind::ConnectionRefused;
        let is_lasting =
            matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput);
        let (kind, hint) =
            if is_lasting { (Kind::Other, "") } else { (Kind::Passing, IS_IT_THERE) };
        Self { is_answer, ..Self::new(kind, words(&error), hint) }
    }
}

/// Whether a protocol violation only means that PgBouncer has no connection to lend at the moment. It has the same
/// code for permanent refusals.
pub fn is_lack_of_connections(message: &str) -> bool {
    ["server login", "server conn", "connect to server", "connections", "timeout"]
        .iter()
        .any(|part| message.contains(part))
}

fn kind_of_state(code: &str, message: &str) -> (Kind, &'static str) {
    match code {
        "28P01" => (Kind::PasswordWrong, ""),
        "3D000" => (Kind::Other, "; `createdb` creates one"),
        // The server shuts down, has crashed or starts.
        "57P01" | "57P02" | "57P03" => (Kind::Passing, TRY_LATER),
        // A startup parameter that a pooler does not know, for example.
        "08P01" if !is_lack_of_connections(message) => (Kind::Other, ""),
        _ => match code.get(..2) {
            Some("28") => (Kind::Way, "; the file pg_hba.conf of the server says who may connect"),
            Some("08" | "53") => (Kind::Passing, TRY_LATER),
            _ => (Kind::Other, ""),
        },
    }
}
