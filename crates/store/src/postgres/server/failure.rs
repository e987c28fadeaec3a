//! Failures to connect: the message, and whether another attempt may help.

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::io::ErrorKind::{
    BrokenPipe, ConnectionRefused, ConnectionReset, InvalidInput, PermissionDenied, UnexpectedEof,
};

use rustls::{CertificateError, Error as TlsError};
use tokio_postgres::Error as SqlError;
use tokio_postgres::error::DbError;

use super::endpoint::Endpoint;
use crate::system_error::reason;
use crate::tls_roots;

/// Kinds of refusals. Of two, with TLS and without, the greater one says more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// TLS was not agreed on, or the server lets nobody in this way.
    Route,
    /// No answer, or not now, or not in the role that is wanted. Another host may be better.
    Temporary,
    /// An open connection broke, for example while TLS was being agreed on.
    Broken,
    Permanent,
}

impl FailureKind {
    pub fn is_temporary(self) -> bool {
        matches!(self, Self::Temporary | Self::Broken)
    }
}

/// The refusal of one host.
#[derive(Debug)]
pub struct ConnectFailure {
    pub kind: FailureKind,
    /// Whether the refusal shows that the machine of the server is reachable.
    pub is_answer: bool,
    /// The cause, and what to do about it.
    pub message: String,
}

const IS_IT_THERE: &str = "; is PostgreSQL running there, and do host and port say where?";
const TRY_LATER: &str = "; try later";
const NO_PASSWORD: &str =
    "; put the password into PGPASSWORD or ~/.pgpass (host:port:database:user:password)";

impl ConnectFailure {
    pub fn new(kind: FailureKind, cause: impl Display, hint: &str) -> Self {
        Self { kind, is_answer: false, message: format!("{cause}{hint}") }
    }

    pub fn no_answer(cause: impl Display) -> Self {
        Self::new(FailureKind::Temporary, cause, IS_IT_THERE)
    }

    /// The refusal of a connection that was opened. All refusals of PgBouncer have one code; `is_final` says whether it
    /// never lets us in like this, or may have no connection left.
    pub fn of(error: SqlError, endpoint: &Endpoint, is_final: bool) -> Self {
        if let Some(error) = error.as_db_error() {
            return Self::by_server(error, endpoint, is_final);
        }
        let (is_closed, text) = (error.is_closed(), error.to_string());
        match error.into_source().map(<dyn Error + Send + Sync>::downcast::<io::Error>) {
            None if is_closed => Self::new(FailureKind::Broken, text, IS_IT_THERE),
            None => Self::new(FailureKind::Permanent, text, ""),
            Some(Ok(error)) => Self::from(*error),
            Some(Err(_)) if endpoint.password_from.is_none() => {
                Self::new(FailureKind::Permanent, "the server wants a password", NO_PASSWORD)
            }
            Some(Err(source)) => Self::new(FailureKind::Permanent, source, ""),
        }
    }

    fn by_server(error: &DbError, endpoint: &Endpoint, is_final: bool) -> Self {
        let from = endpoint.password_from.as_ref();
        let from = from.map(|from| format!("; the password is the one in {from}"));
        let (kind, hint) = match error.code().code() {
            "28P01" => (FailureKind::Permanent, from.as_deref().unwrap_or_default()),
            "3D000" => (FailureKind::Permanent, "; `createdb` creates one"),
            // The server shuts down, has crashed or starts.
            "57P01" | "57P02" | "57P03" => (FailureKind::Temporary, TRY_LATER),
            "08P01" if is_final => (FailureKind::Permanent, ""),
            "08P01" => (FailureKind::Temporary, "; if the pool has no connection left, try later"),
            code if code.starts_with("28") => {
                (FailureKind::Route, "; the file pg_hba.conf of the server says who may connect")
            }
            code if code.starts_with("08") || code.starts_with("53") => {
                (FailureKind::Temporary, TRY_LATER)
            }
            _ => (FailureKind::Permanent, ""),
        };
        Self { is_answer: true, ..Self::new(kind, error.message(), hint) }
    }

    fn of_tls(error: &TlsError) -> Self {
        // A server that is its own authority is no better known.
        let is_unknown = matches!(error, TlsError::InvalidCertificate(what)
            if *what == CertificateError::UnknownIssuer || tls_roots::is_ca_as_server(what));
        let hint = "; name the file of its authority's certificate: sslrootcert=FILE";
        Self::new(FailureKind::Route, error, if is_unknown { hint } else { "" })
    }
}

impl From<io::Error> for ConnectFailure {
    fn from(error: io::Error) -> Self {
        if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
            return Self::of_tls(error);
        }
        // The second is the library's error for a host that no certificate can name.
        let (kind, hint) = if [PermissionDenied, InvalidInput].contains(&error.kind()) {
            (FailureKind::Route, "")
        } else if [ConnectionReset, BrokenPipe, UnexpectedEof].contains(&error.kind()) {
            (FailureKind::Broken, TRY_LATER)
        } else {
            (FailureKind::Temporary, IS_IT_THERE)
        };
        let is_answer = error.kind() == ConnectionRefused;
        Self { is_answer, ..Self::new(kind, reason(&error), hint) }
    }
}
