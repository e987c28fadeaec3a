//! TLS of a webhook: the certificates that are trusted.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use rustls::crypto::ring;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use crate::tls_roots;

/// Reads the authorities: those of the file alone if there is one, otherwise the system's.
pub fn config(ca_file: Option<&Path>) -> Result<TlsConfig> {
    let found = match ca_file {
        Some(path) => tls_roots::of_file(path)?,
        None => tls_roots::of_system("--ca-file FILE")?,
    };
    tls_roots::roots(&found)?;
    let found = found.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::Specific(Arc::new(found)))
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .build())
}
