//! Whose certificates are believed.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls_pki_types::CertificateDer;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use crate::authorities;

/// Reads the authorities: those of the file alone if there is one, otherwise the system's.
pub fn config(ca_file: Option<&Path>) -> Result<TlsConfig> {
    let found = match ca_file {
        Some(path) => authorities::of_file(path)?,
        None => authorities::of_system("--ca-file FILE")?,
    };
    let usable = usable(&found);
    if usable.is_empty() {
        bail!("none of the authorities' certificates can be used");
    }
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::Specific(Arc::new(usable)))
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .build())
}

/// What is no certificate after all is left out.
fn usable(found: &[CertificateDer<'_>]) -> Vec<Certificate<'static>> {
    let is_usable = |der: &CertificateDer<'_>| {
        RootCertStore::empty().add(CertificateDer::from_slice(der)).is_ok()
    };
    let usable = found.iter().filter(|der| is_usable(der));
    usable.map(|der| Certificate::from_der(der).to_owned()).collect()
}
