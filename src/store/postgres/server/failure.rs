//! Failures to connect: the message, and whether another attempt may help.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};

use anyhow::anyhow;
use rustls::{CertificateError, Error as TlsError};
use tokio_postgres::Error as SqlError;
use tokio_postgres::error::SqlState;

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

    /// Of a login. Without a password, what neither the server nor the network refused is the lack
    /// of one.
    pub fn of(error: &SqlError, has_password: bool) -> Self {
        if let Some(error) = error.as_db_error() {
            return Self::new(from_state(error.code()), error.message());
        }
        let source = error.source();
        if let Some(error) = source.and_then(|it| it.downcast_ref::<io::Error>()) {
            return Self::of_io(error, from_io);
        }
        let cause = source.map_or_else(|| error.to_string(), ToString::to_string);
        match (error.is_closed(), has_password) {
            (true, _) => Self::new(Reason::NoAnswer, cause),
            (false, true) => Self::new(Reason::Other, cause),
            (false, false) => Self::new(Reason::PasswordMissing, "the server wants a password"),
        }
    }

    /// Of an agreement on TLS.
    pub fn of_handshake(error: &io::Error) -> Self {
        // The library's word for a name that no certificate can have.
        let is_no_name = error.kind() == ErrorKind::InvalidInput;
        let otherwise = if is_no_name { Reason::Tls } else { Reason::HandshakeCut };
        Self::of_io(error, |_| otherwise)
    }

    fn of_io(error: &io::Error, otherwise: impl FnOnce(&io::Error) -> Reason) -> Self {
        let of_tls = error.get_ref().and_then(|it| it.downcast_ref::<TlsError>());
        let reason = of_tls.map_or_else(|| otherwise(error), from_tls);
        // The library says that in words of its own.
        if reason == Reason::OldCertificate {
            return Self::new(reason, "the certificate of the server is of X.509 version 1");
        }
        Self::new(reason, error.to_string())
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

/// Of a socket.
impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::of_io(&error, from_io)
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
    let is_old = tls_roots::unnamed(what) == Some(&webpki::Error::UnsupportedCertVersion);
    if is_old { Reason::OldCertificate } else { Reason::Tls }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::server::ParsedCertificate;
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject;

    /// For localhost, of X.509 version 1, as `openssl x509 -req -signkey` makes it.
    const OLD: &[u8] = b"-----BEGIN CERTIFICATE-----
MIIBJDCBywIUNFS/0YyT2UBJAiOgdbdGPtBBy1UwCgYIKoZIzj0EAwIwFDESMBAG
A1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMzE1NDgxNloYDzIxMjYxMDMwMTU0ODE2
WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AAS/dbvDTA/A6De7wVhBdD3GSDukJXZOzLY5HjzkAdrdF2vRx/BYrkWTKA0PIJ7d
1o8u5UOwIs8OiMQnhmfIj24PMAoGCCqGSM49BAMCA0gAMEUCIQCJLjblQMe/jmIh
CmIuAjPxyaxgZaWzCJ+t2aZ5OUP3QQIgFf1wORqdCPMSPrS+HY2eI2LPoDUFu1no
JtIiSLmkEyQ=
-----END CERTIFICATE-----";

    #[test]
    fn a_certificate_without_extensions_is_told_from_other_ones() {
        let certificate = CertificateDer::from_pem_slice(OLD).unwrap();
        let error = ParsedCertificate::try_from(&certificate).map(|_| ()).unwrap_err();
        let refusal = Refusal::of_handshake(&io::Error::other(error));
        assert_eq!(refusal.reason, Reason::OldCertificate);
        assert!(refusal.to_string().contains("needs a certificate of version 3"), "{refusal}");
    }
}
