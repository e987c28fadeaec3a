//! Failures to connect: the message, and whether another attempt may help.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};

use anyhow::anyhow;
use postgres::Error as SqlError;
use postgres::error::SqlState;
use rustls::{CertificateError, Error as TlsError};

use crate::exit::try_later;
use crate::tls_roots;

/// The failure to open a connection, whoever was asked. It is one to try again later if a server is
/// out of reach for now.
pub fn failure(place: &str, refusals: &[(String, Refusal)]) -> anyhow::Error {
    let shown: Vec<_> = match refusals {
        [(_, refusal)] => vec![refusal.to_string()],
        refusals => refusals.iter().map(|(at, it)| format!("{at}: {it}")).collect(),
    };
    let message = format!("could not connect to {place}: {}", shown.join("; "));
    let is_temporary = refusals.iter().any(|(_, refusal)| refusal.reason.is_temporary());
    if is_temporary { try_later(message).into() } else { anyhow!(message) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Nobody listens, or nobody answers.
    NoAnswer,
    /// The server starts, stops or has no room.
    NotNow,
    /// The server is a standby where the primary is wanted, or the other way round.
    WrongRole,
    /// The connection broke while TLS was being agreed on.
    HandshakeCut,
    UnknownHost,
    PasswordMissing,
    PasswordWrong,
    NotAdmitted,
    NoDatabase,
    NoTls,
    UnknownIssuer,
    WrongName,
    OldCertificate,
    Tls,
    Other,
}

impl Reason {
    pub fn is_temporary(self) -> bool {
        matches!(self, Self::NoAnswer | Self::NotNow | Self::WrongRole | Self::HandshakeCut)
    }

    /// Whether TLS was not agreed on.
    fn is_tls(self) -> bool {
        let of_certificate = [Self::UnknownIssuer, Self::WrongName, Self::OldCertificate];
        of_certificate.contains(&self)
            || matches!(self, Self::HandshakeCut | Self::NoTls | Self::Tls)
    }

    /// Whether the same server may do it with TLS instead of without, or the other way round.
    pub fn may_differ_without_tls(self) -> bool {
        self.is_tls() || matches!(self, Self::PasswordWrong | Self::NotAdmitted)
    }

    /// Whether another host of a list may do it. One that refuses the user is not passed over.
    pub fn is_of_this_host(self) -> bool {
        self.is_temporary() || self == Self::UnknownHost
    }

    fn hint(self) -> &'static str {
        match self {
            Self::NoAnswer => "; is PostgreSQL running there, and do host and port say where?",
            Self::NotNow | Self::HandshakeCut => "; try later",
            Self::WrongRole => "; target_session_attrs asks for that",
            Self::UnknownHost => "; check the name of the host",
            Self::PasswordMissing => {
                "; put the password into PGPASSWORD or ~/.pgpass (host:port:database:user:password)"
            }
            Self::NotAdmitted => "; the file pg_hba.conf of the server says who may connect",
            Self::NoDatabase => "; `createdb` creates one",
            Self::NoTls => "; sslmode=prefer goes on without",
            Self::UnknownIssuer => {
                "; name the file of its authority's certificate: sslrootcert=FILE"
            }
            Self::WrongName => {
                "; connect by a name that the certificate has as a subjectAltName, or give up \
                 checking the name with sslmode=verify-ca"
            }
            Self::OldCertificate => {
                "; the server needs a certificate of version 3, one with extensions"
            }
            Self::PasswordWrong | Self::Tls | Self::Other => "",
        }
    }
}

/// The refusal of one host.
#[derive(Debug)]
pub struct Refusal {
    pub reason: Reason,
    cause: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.cause, self.reason.hint())
    }
}

impl Refusal {
    pub fn new(reason: Reason, cause: impl Into<String>) -> Self {
        Self { reason, cause: cause.into() }
    }

    /// An error of [`postgres::Config::connect`]. The crate keeps the kinds of its errors to
    /// itself, so that some are known only by their words.
    pub fn of(error: &SqlError) -> Self {
        if let Some(error) = error.as_db_error() {
            return Self::new(from_state(error.code()), error.message());
        }
        let source = error.source();
        let cause = source.map_or_else(|| error.to_string(), ToString::to_string);
        let in_handshake = error.to_string() == "error performing TLS handshake";
        let reason = if let Some(error) = source.and_then(|it| it.downcast_ref::<io::Error>()) {
            match error.get_ref().and_then(|it| it.downcast_ref::<TlsError>()) {
                Some(error) => from_tls(error),
                None if in_handshake && error.kind() == ErrorKind::InvalidInput => Reason::Tls,
                None if in_handshake => Reason::HandshakeCut,
                None => from_io(error),
            }
        } else if error.is_closed() {
            Reason::NoAnswer
        } else if in_handshake {
            Reason::NoTls
        } else if cause == "password missing" {
            return Self::new(Reason::PasswordMissing, "the server wants a password");
        } else {
            Reason::Other
        };
        // The crate says that in words of its own.
        if reason == Reason::OldCertificate {
            return Self::new(reason, "the certificate of the server is of X.509 version 1");
        }
        Self::new(reason, cause)
    }

    /// Says where a wrong password came from.
    pub fn with_password_from(mut self, from: &str) -> Self {
        if self.reason == Reason::PasswordWrong {
            self.cause += &format!("; the password is the one in {from}");
        }
        self
    }

    /// Of two attempts at the same server, the one that says more.
    pub fn or_second(self, second: Self) -> Self {
        let is_telling = !second.reason.is_tls()
            && !second.reason.is_of_this_host()
            && second.reason != Reason::NotAdmitted;
        if is_telling { second } else { self }
    }
}

fn from_state(state: &SqlState) -> Reason {
    match state.code() {
        "28P01" => Reason::PasswordWrong,
        "3D000" => Reason::NoDatabase,
        // The server shuts down, has crashed or starts. 57P04: the database was dropped just now.
        "57P01" | "57P02" | "57P03" => Reason::NotNow,
        code if code.starts_with("28") => Reason::NotAdmitted,
        code if code.starts_with("08") || code.starts_with("53") => Reason::NotNow,
        _ => Reason::Other,
    }
}

fn from_io(error: &io::Error) -> Reason {
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
    // The crate's way to say that target_session_attrs does not fit.
    if error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
        return Reason::WrongRole;
    }
    if is_passing { Reason::NoAnswer } else { Reason::Other }
}

fn from_tls(error: &TlsError) -> Reason {
    let TlsError::InvalidCertificate(what) = error else {
        return Reason::Tls;
    };
    let is_of_other_names = matches!(
        what,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
    );
    if is_of_other_names {
        return Reason::WrongName;
    }
    // A server that is its own authority is no better known.
    if *what == CertificateError::UnknownIssuer || tls_roots::is_own(what) {
        return Reason::UnknownIssuer;
    }
    let is_old =
        tls_roots::unnamed(what).is_some_and(|other| other.contains("UnsupportedCertVersion"));
    if is_old { Reason::OldCertificate } else { Reason::Tls }
}
