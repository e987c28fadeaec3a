//! Certificates of authorities for TLS, from a file or from the system.

use std::path::Path;
use std::{env, fs};

use anyhow::{Context, Result, anyhow, ensure};
use rustls::{CertificateError, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::{Error as PemError, PemObject};

use crate::secure_file::read_large;
use crate::system_error;

/// The certificates of a PEM file, at least one.
pub fn from_file(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let display = path.display();
    let not_read = |why: String| anyhow!("could not read the certificate {display}: {why}");
    let bytes = read_large(path).map_err(|error| not_read(system_error::reason(&error)))?;
    let found = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| not_read(pem_reason(&error)))?;
    ensure!(!found.is_empty(), "there is no certificate in {display}; it must be a PEM file");
    Ok(found)
}

/// The certificates of SSL_CERT_FILE and SSL_CERT_DIR, or of the system. `option` names a file instead.
pub fn from_system(option: &str) -> Result<Vec<CertificateDer<'static>>> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let (file, directories) = (set("SSL_CERT_FILE"), set("SSL_CERT_DIR"));
    let mut found = Vec::new();
    if let Some(file) = &file {
        found = from_file(Path::new(file)).context("SSL_CERT_FILE")?;
    }
    if let Some(directories) = &directories {
        let all = env::split_paths(directories).filter_map(|path| from_directory(&path).ok());
        found.extend(all.flatten());
        ensure!(!found.is_empty(), "there is no certificate in SSL_CERT_DIR");
    }
    if file.is_none() && directories.is_none() {
        let probed = openssl_probe::probe();
        found = probed.cert_file.map_or_else(|| Ok(Vec::new()), |file| from_file(&file))?;
        if found.is_empty() {
            let all = probed.cert_dir.iter().filter_map(|path| from_directory(path).ok());
            found = all.flatten().collect();
        }
    }
    ensure!(
        !found.is_empty(),
        "this system has no certificates of authorities; name a file: {option}"
    );
    Ok(found)
}

/// The certificates in the files of a directory. Files without certificates are skipped.
fn from_directory(path: &Path) -> std::io::Result<Vec<CertificateDer<'static>>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        found.extend(from_file(&entry?.path()).unwrap_or_default());
    }
    Ok(found)
}

/// A store of the usable certificates. Fails if there is none.
pub fn roots(found: &[CertificateDer<'static>]) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.iter().cloned());
    ensure!(added > 0, "none of the authorities' certificates can be used");
    Ok(roots)
}

/// True if the only error is that the server presents the certificate of an authority as its own.
pub fn is_ca_as_server(error: &CertificateError) -> bool {
    let CertificateError::Other(other) = error else { return false };
    other.0.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
}

/// The reason why a PEM file is unusable. Other texts may quote the file, which may hold a key.
pub fn pem_reason(error: &PemError) -> String {
    if let PemError::Io(error) = error {
        system_error::reason(error)
    } else {
        "it is not a PEM file".into()
    }
}
