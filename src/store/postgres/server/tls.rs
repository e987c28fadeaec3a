//! TLS by libpq's `sslmode`: whether it is used, and what is checked of the server.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    verify_server_cert_signed_by_trust_anchor as verify_chain, verify_server_name,
};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::server::ParsedCertificate;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};
use rustls_pki_types::pem::{Error as PemError, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::parameters::Parameters;
use crate::secure_file::read_pem;
use crate::tls_roots;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Disable,
    /// Plain, and with TLS only if the server refuses that.
    Allow,
    /// With TLS if the server has it.
    Prefer,
    Require,
    /// The certificate comes from an authority that is trusted.
    VerifyCa,
    /// And it is for this host.
    VerifyFull,
}

/// The authorities of the operating system, in place of a file.
const SYSTEM: &str = "system";

impl Mode {
    pub fn of(parameters: &Parameters) -> Result<Self> {
        let modes = [
            ("disable", Self::Disable),
            ("allow", Self::Allow),
            ("prefer", Self::Prefer),
            ("require", Self::Require),
            ("verify-ca", Self::VerifyCa),
            ("verify-full", Self::VerifyFull),
        ];
        let mode = parameters.choice("sslmode", &modes)?;
        if parameters.text("sslrootcert") != Some(SYSTEM) {
            return Ok(mode.unwrap_or(Self::Prefer));
        }
        // Anybody has a certificate from one of those, so it proves nothing but the name.
        if mode.is_some_and(|mode| mode != Self::VerifyFull) {
            bail!("sslrootcert=system needs sslmode=verify-full");
        }
        Ok(Self::VerifyFull)
    }
}

/// The protocol versions by libpq's names, oldest first. The first two are obsolete: rustls has
/// neither, so that they only name a bound.
const VERSIONS: [&str; 4] = ["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"];

/// The TLS versions that a connection may have, TLS 1.2 at least; checked without TLS as well.
pub fn versions(parameters: &Parameters) -> Result<Vec<&'static SupportedProtocolVersion>> {
    let place = |key| {
        parameters.read(key, &format!("one of: {}", VERSIONS.join(", ")), |text| {
            VERSIONS.iter().position(|version| version.eq_ignore_ascii_case(text))
        })
    };
    let (min, max) = ("ssl_min_protocol_version", "ssl_max_protocol_version");
    let (first, last) = (place(min)?.unwrap_or(0), place(max)?.unwrap_or(VERSIONS.len() - 1));
    let (min, max) = (parameters.said_by(min), parameters.said_by(max));
    if first > last {
        bail!("{min} is {}, later than {max} ({})", VERSIONS[first], VERSIONS[last]);
    }
    let mut allowed = vec![(2, &TLS12), (3, &TLS13)];
    allowed.retain(|(place, _)| (first..=last).contains(place));
    if allowed.is_empty() {
        bail!(
            "{max} is {}, and no version before TLSv1.2 is supported; say TLSv1.2 or TLSv1.3",
            VERSIONS[last]
        );
    }
    Ok(allowed.into_iter().map(|(_, version)| version).collect())
}

/// What makes TLS connections; reads the certificates, and fails if one that is needed is missing.
pub fn connector(
    mode: Mode,
    versions: &[&'static SupportedProtocolVersion],
    parameters: &Parameters,
    home: Option<&Path>,
) -> Result<MakeRustlsConnect> {
    let default = |name: &str| {
        let path = home?.join(".postgresql").join(name);
        path.exists().then_some(path)
    };
    let given = |key: &str| parameters.text(key).map(PathBuf::from);
    let authorities = match parameters.text("sslrootcert") {
        Some(SYSTEM) => Some(tls_roots::of_system("sslrootcert=FILE")?),
        Some(path) => Some(tls_roots::of_file(Path::new(path))?),
        None => default("root.crt").map(|path| tls_roots::of_file(&path)).transpose()?,
    };
    if authorities.is_none() && matches!(mode, Mode::VerifyCa | Mode::VerifyFull) {
        bail!(
            "sslmode verify-ca and verify-full need the certificate of the authority: name its \
             file with sslrootcert=FILE, put it at ~/.postgresql/root.crt, or take those of the \
             system with sslrootcert=system"
        );
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier {
        roots: authorities.as_deref().map(tls_roots::roots).transpose()?,
        trusted: authorities.unwrap_or_default(),
        checks_name: mode == Mode::VerifyFull,
        algorithms: provider.signature_verification_algorithms,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .context("could not set up TLS")?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let certificate = given("sslcert").or_else(|| default("postgresql.crt"));
    let certificate = certificate.filter(|_| parameters.text("sslcertmode") != Some("disable"));
    let Some(certificate) = certificate else {
        return Ok(MakeRustlsConnect::new(config.with_no_client_auth()));
    };
    let shown = certificate.display();
    let key = given("sslkey").or_else(|| default("postgresql.key")).with_context(|| {
        format!("the certificate {shown} needs its key: name its file with sslkey=FILE")
    })?;
    let config = config.with_client_auth_cert(tls_roots::of_file(&certificate)?, read_key(&key)?);
    let could_not =
        || format!("could not use the certificate {shown} with the key {}", key.display());
    Ok(MakeRustlsConnect::new(config.with_context(could_not)?))
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    let shown = path.display();
    let found = fs::metadata(path).with_context(|| format!("could not read the key {shown}"))?;
    // Administrators share one with a group, as libpq allows them to.
    let forbidden = if found.uid() == 0 { 0o037 } else { 0o077 };
    if found.mode() & forbidden != 0 {
        bail!("others have access to the key {shown}; `chmod 600 {shown}` mends that");
    }
    let bytes = read_pem(path).with_context(|| format!("could not read the key {shown}"))?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| {
        if matches!(error, PemError::NoItemsFound) {
            return anyhow!(
                "there is no key in {shown} that can be read; it must be a PEM file without a \
                 passphrase"
            );
        }
        anyhow!("could not read the key {shown}: {}", tls_roots::words(&error))
    })
}

/// Checks what the mode asks for, and always that the server has the key of its certificate.
#[derive(Debug)]
struct Verifier {
    /// None: any certificate will do.
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
    ) -> Result<ServerCertVerified, TlsError> {
        let Some(roots) = &self.roots else {
            return Ok(ServerCertVerified::assertion());
        };
        let parsed = ParsedCertificate::try_from(certificate)?;
        match verify_chain(&parsed, roots, intermediates, now, self.algorithms.all) {
            // `openssl req -x509` makes an authority of every certificate that signs itself. One
            // that is trusted by name needs no other; its dates were checked before this.
            Err(TlsError::InvalidCertificate(error))
                if tls_roots::is_own(&error) && self.trusted.contains(certificate) => {}
            checked => checked?,
        }
        if self.checks_name {
            verify_server_name(&parsed, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
