//! Failures to connect: the message, and whether to try again.

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

/// Kinds of failures. Of two failures, with TLS and without, the greater one is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// TLS was not agreed on, or the server refuses this kind of connection.
    Route,
    /// No answer, a server that starts or is full, or one in the wrong role. Another host may accept.
    Temporary,
    /// An open connection broke, for example during the TLS handshake.
    Broken,
    Permanent,
}

impl FailureKind {
    pub fn is_temporary(self) -> bool {
        matches!(self, Self::Temporary | Self::Broken)
    }
}

#[derive(Debug)]
pub struct ConnectFailure {
    pub kind: FailureKind,
    /// True if the failure shows that the machine of the server is reachable.
    pub is_answer: bool,
    pub message: String,
}

const IS_IT_THERE: &str = "; is PostgreSQL running there, and are host and port correct?";
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

    /// PgBouncer has the same code for a permanent refusal and for a full pool; `is_final` tells them apart.
    pub fn from_sql(error: SqlError, endpoint: &Endpoint, is_final: bool) -> Self {
        if let Some(error) = error.as_db_error() {
            return Self::from_server(error, endpoint, is_final);
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

    fn from_server(error: &DbError, endpoint: &Endpoint, is_final: bool) -> Self {
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
                (FailureKind::Route, "; pg_hba.conf of the server lists who may connect")
            }
            code if code.starts_with("08") || code.starts_with("53") => {
                (FailureKind::Temporary, TRY_LATER)
            }
            _ => (FailureKind::Permanent, ""),
        };
        Self { is_answer: true, ..Self::new(kind, error.message(), hint) }
    }

    fn from_tls(error: &TlsError) -> Self {
        // A self-signed certificate has no known authority either.
        let is_unknown = matches!(error, TlsError::InvalidCertificate(cause)
            if *cause == CertificateError::UnknownIssuer || tls_roots::is_ca_as_server(cause));
        let hint = "; name the file of its authority's certificate: sslrootcert=FILE";
        Self::new(FailureKind::Route, error, if is_unknown { hint } else { "" })
    }
}

impl From<io::Error> for ConnectFailure {
    fn from(error: io::Error) -> Self {
        if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
            return Self::from_tls(error);
        }
        // InvalidInput is the library's error for a host name that no certificate can contain.
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
