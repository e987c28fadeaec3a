//! Failures of requests, in plain words.

use std::io;
use std::time::Duration;

use http::Uri;
use rustls::{CertificateError, Error as TlsError};
use ureq::{Error, Timeout};

use super::client::Sent;
use super::wire::{Refused, Unreachable, is_hangup, place, words};
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
pub fn sent(error: &Error, attempt: &Attempt<'_>) -> Sent {
    if let Some(Refused(message)) = of_ours(error) {
        return Sent::Unusable(message.clone());
    }
    let Some(Unreachable(message)) = of_ours(error) else {
        let message = message(error, attempt);
        return if is_distrusted(error) {
            Sent::Unreachable(message)
        } else {
            Sent::Broken(message)
        };
    };
    Sent::Unreachable(match attempt.proxy {
        Some(variable) => format!("{message}; it is the proxy of {variable}"),
        None => message.clone(),
    })
}

/// What the lookup or the connector has said, if it was one of them.
fn of_ours<E: std::error::Error + 'static>(error: &Error) -> Option<&E> {
    if let Error::Other(error) = error { error.downcast_ref() } else { None }
}

/// Whether the server is not who it should be: then nothing was sent to it.
fn is_distrusted(error: &Error) -> bool {
    let of_tls = if let Error::Rustls(error) = error {
        Some(error)
    } else if let Error::Io(error) = error {
        error.get_ref().and_then(|inner| inner.downcast_ref())
    } else {
        None
    };
    matches!(of_tls, Some(TlsError::InvalidCertificate(_)))
}

fn message(error: &Error, attempt: &Attempt<'_>) -> String {
    if let Error::Io(error) = error {
        return broken(error, attempt.uri);
    }
    if let Error::Rustls(error) = error {
        return tls(error, attempt.uri);
    }
    if let Error::Tls(error) = error {
        return format!("could not agree on TLS with {}: {error}", place(attempt.uri));
    }
    if let Error::Timeout(phase) = error {
        return late(*phase, attempt);
    }
    if let Error::Protocol(error) = error {
        return format!("could not understand the answer of {}: {error}", place(attempt.uri));
    }
    if let Error::ConnectProxyFailed(reason) = error {
        let variable = attempt.proxy.unwrap_or("the environment");
        let place = place(attempt.uri);
        return format!("the proxy of {variable} made no connection to {place}: {reason}");
    }
    if let Error::LargeResponseHeader(_, most) = error {
        return format!(
            "the answer of {} has more than {most} bytes of headers",
            place(attempt.uri)
        );
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

fn broken(error: &io::Error, uri: &Uri) -> String {
    if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
        return tls(error, uri);
    }
    if is_hangup(error) {
        return "the connection was closed before an answer came".into();
    }
    format!("the connection to {} broke: {}", place(uri), words(error))
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
