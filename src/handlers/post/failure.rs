//! Failures of requests, in plain words.

use std::time::Duration;

use http::Uri;
use rustls::{CertificateError, Error as TlsError};
use ureq::{Error, Timeout};

use super::wire::{Unsent, is_hangup, place, words};
use crate::record::{Outcome, Reach};
use crate::tls_roots;

/// The request that failed.
#[derive(Debug)]
pub struct Attempt<'a> {
    pub uri: &'a Uri,
    pub timeout: Option<Duration>,
    /// The variable that names the proxy, if it goes through one.
    pub proxy: Option<&'static str>,
}

/// Whether anything was sent is known for sure only where there was no connection to the server
/// that is meant.
pub fn outcome(error: &Error, attempt: &Attempt<'_>) -> Outcome {
    let unsent = if let Error::Other(error) = error { error.downcast_ref() } else { None };
    let (error, reach) = match (unsent, attempt.proxy) {
        (Some(Unsent::Refused(message)), _) => (message.clone(), Reach::NotSent),
        (Some(Unsent::Unreachable(message)), Some(variable)) => {
            (format!("{message}; it is the proxy of {variable}"), Reach::Nobody)
        }
        (Some(Unsent::Unreachable(message)), None) => (message.clone(), Reach::Nobody),
        // The server is not who it should be, and nothing was sent to it.
        (None, _) if matches!(of_tls(error), Some(TlsError::InvalidCertificate(_))) => {
            (message(error, attempt), Reach::Nobody)
        }
        (None, _) => (message(error, attempt), Reach::MayHaveWorked),
    };
    Outcome::Unanswered { error, reach }
}

fn of_tls(error: &Error) -> Option<&TlsError> {
    if let Error::Rustls(error) = error {
        return Some(error);
    }
    if let Error::Io(error) = error { error.get_ref()?.downcast_ref() } else { None }
}

fn message(error: &Error, attempt: &Attempt<'_>) -> String {
    if let Some(error) = of_tls(error) {
        return tls(error, attempt.uri);
    }
    let place = place(attempt.uri);
    if let Error::Io(error) = error {
        if is_hangup(error) {
            return "the connection was closed before an answer came".into();
        }
        return format!("the connection to {place} broke: {}", words(error));
    }
    if let Error::Tls(error) = error {
        return format!("could not agree on TLS with {place}: {error}");
    }
    if let Error::Timeout(phase) = error {
        return late(*phase, attempt);
    }
    if let Error::Protocol(error) = error {
        return format!("could not understand the answer of {place}: {error}");
    }
    if let Error::ConnectProxyFailed(reason) = error {
        let variable = attempt.proxy.unwrap_or("the environment");
        return format!("the proxy of {variable} made no connection to {place}: {reason}");
    }
    if let Error::LargeResponseHeader(_, most) = error {
        return format!("the answer of {place} has more than {most} bytes of headers");
    }
    error.to_string()
}

fn late(phase: Timeout, attempt: &Attempt<'_>) -> String {
    match attempt.timeout {
        Some(timeout) if phase != Timeout::Connect => {
            format!("no answer within {}", humantime::format_duration(timeout))
        }
        Some(_) | None => format!("could not connect to {}: no answer", place(attempt.uri)),
    }
}

fn tls(error: &TlsError, uri: &Uri) -> String {
    let TlsError::InvalidCertificate(error) = error else {
        return format!("could not agree on TLS with {}: {error}", place(uri));
    };
    let host = uri.host().unwrap_or_default();
    format!("could not verify the certificate of {host}: {}", distrust(error))
}

/// What is wrong with a certificate, and what mends it.
fn distrust(error: &CertificateError) -> String {
    // An authority of the same name and another key makes a bad signature.
    if let CertificateError::UnknownIssuer | CertificateError::BadSignature = error {
        return "its authority is unknown; name its authority with --ca-file".into();
    }
    if let CertificateError::Expired | CertificateError::ExpiredContext { .. } = error {
        return "it has expired; is the clock right?".into();
    }
    if let CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } = error {
        return "it is not valid yet; is the clock right?".into();
    }
    if let CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } =
        error
    {
        return "it is for another host; correct the host in the URL".into();
    }
    if tls_roots::is_own(error) {
        return "it is an authority's own; give the server one that the authority has signed"
            .into();
    }
    format!("{error}; name its authority with --ca-file")
}
