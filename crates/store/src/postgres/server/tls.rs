//! TLS by libpq's `sslmode`: its use, and the checks of the server's certificate.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor as verify_chain;
use rustls::crypto::{self, WebPkiSupportedAlgorithms, ring};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::parameters::Parameters;
use crate::secure_file::read_large;
use crate::tls_roots;

/// Returns the modes to try in order, and the connector. Fails if TLS may be used and lacks a required certificate.
pub fn connector(
    parameters: &Parameters,
    home: Option<&Path>,
    is_local: bool,
) -> Result<(&'static [SslMode], MakeRustlsConnect)> {
    let is_system = parameters.text("sslrootcert") == Some("system");
    let mode =
        parameters.text("sslmode").unwrap_or(if is_system { "verify-full" } else { "prefer" });
    // Anybody can get a certificate from a public authority, so it proves the name only.
    ensure!(!is_system || mode == "verify-full", "sslrootcert=system needs sslmode=verify-full");
    let modes: &[_] = match mode {
        _ if is_local => &[SslMode::Disable],
        "disable" => &[SslMode::Disable],
        "allow" => &[SslMode::Disable, SslMode::Require],
        "prefer" => &[SslMode::Prefer, SslMode::Disable],
        _ => &[SslMode::Require],
    };
    let is_used = modes != [SslMode::Disable];
    let file = |key: &str, default: &str| {
        let default = || home.map(|home| home.join(".postgresql").join(default));
        let stated = parameters.text(key).map(PathBuf::from);
        let file = stated.or_else(|| default().filter(|path| path.exists()));
        file.filter(|_| is_used)
    };
    let authorities = match file("sslrootcert", "root.crt") {
        Some(_) if is_system => Some(tls_roots::from_system("sslrootcert=FILE")?),
        path => path.map(|path| tls_roots::from_file(&path)).transpose()?,
    };
    ensure!(
        authorities.is_some() || !is_used || !mode.starts_with("verify"),
        "sslmode verify-ca and verify-full need the certificate of the authority: name its file \
         with sslrootcert=FILE, put it at ~/.postgresql/root.crt, or use those of the system with \
         sslrootcert=system"
    );
    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier {
        roots: authorities.as_deref().map(tls_roots::roots).transpose()?,
        trusted: authorities.unwrap_or_default(),
        checks_name: mode == "verify-full",
        algorithms: provider.signature_verification_algorithms,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("could not set up TLS")?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let Some(certificate) = file("sslcert", "postgresql.crt") else {
        return Ok((modes, MakeRustlsConnect::new(config.with_no_client_auth())));
    };
    let shown = certificate.display();
    let key = file("sslkey", "postgresql.key").with_context(|| {
        format!("the certificate {shown} needs its key: name its file with sslkey=FILE")
    })?;
    let config = config.with_client_auth_cert(tls_roots::from_file(&certificate)?, read_key(&key)?);
    let could_not =
        || format!("could not use the certificate {shown} with the key {}", key.display());
    Ok((modes, MakeRustlsConnect::new(config.with_context(could_not)?)))
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    let shown = path.display();
    let could_not = || format!("could not read the key {shown}");
    let found = fs::metadata(path).with_context(could_not)?;
    // Like libpq: a key of root may be readable for a group.
    let forbidden = if found.uid() == 0 { 0o037 } else { 0o077 };
    ensure!(
        found.mode() & forbidden == 0,
        "others have access to the key {shown}; `chmod 600 {shown}` fixes that"
    );
    let bytes = read_large(path).with_context(could_not)?;
    // The library's error may quote the file.
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| {
        anyhow!("could not read a key in {shown}; it must be a PEM file without a passphrase")
    })
}

/// Verification of the server's certificate by mode. That the server has its key is always verified.
#[derive(Debug)]
struct Verifier {
    /// `None` if any certificate is accepted.
    roots: Option<RootCertStore>,
    trusted: Vec<CertificateDer<'static>>,
    checks_name: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(roots) = &self.roots else {
            return Ok(ServerCertVerified::assertion());
        };
        let parsed = ParsedCertificate::try_from(certificate)?;
        match verify_chain(&parsed, roots, intermediates, now, self.algorithms.all) {
            // `openssl req -x509` marks a self-signed certificate as an authority. A trusted one needs no other
            // authority; its dates were checked already.
            Err(rustls::Error::InvalidCertificate(error))
                if tls_roots::is_ca_as_server(&error) && self.trusted.contains(certificate) => {}
            checked => checked?,
        }
        if self.checks_name {
            rustls::client::verify_server_name(&parsed, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
