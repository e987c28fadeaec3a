//! The signature of a request, as Standard Webhooks has it: an HMAC of id, time and body.

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// What tells a secret from other text.
const PREFIX: &str = "whsec_";
/// What the keys of the other kind of signature begin with.
const ASYMMETRIC: [&str; 2] = ["whsk_", "whpk_"];

/// Standard Webhooks asks for 24 to 64 bytes; a shorter key can be guessed.
const SHORTEST: usize = 24;

const EMPTY: &str = "the signing secret is empty; it must look like whsec_<base64>";

/// Secrets are handed around with and without the padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

type Key = Hmac<Sha256>;

fn key(text: &str) -> Result<Key> {
    ensure!(
        !ASYMMETRIC.iter().any(|prefix| text.starts_with(prefix)),
        "a signing secret of the asymmetric kind cannot be used; give a whsec_ one"
    );
    let unlike = |why| format!("the signing secret {why}; it must look like whsec_<base64>");
    let encoded =
        text.strip_prefix(PREFIX).with_context(|| unlike("does not begin with whsec_"))?;
    // The decoder's error would quote a part of the secret.
    let bytes = LENIENT.decode(encoded).ok().with_context(|| unlike("is no base64"))?;
    let length = bytes.len();
    ensure!(length > 0, EMPTY);
    ensure!(
        length >= SHORTEST,
        "the signing secret has {length} bytes, and needs at least {SHORTEST}: \
         echo whsec_$(openssl rand -base64 32)"
    );
    Hmac::new_from_slice(&bytes).context("could not use the signing secret")
}

fn sign(key: &Key, id: &str, timestamp_secs: i64, body: &[u8]) -> String {
    let mut hmac = key.clone();
    hmac.update(format!("{id}.{timestamp_secs}.").as_bytes());
    hmac.update(body);
    format!("v1,{}", STANDARD.encode(hmac.finalize().into_bytes()))
}

/// The keys that a request is signed with: more than one while a secret is being replaced.
#[derive(Clone)]
pub struct Secret(Vec<Key>);

impl Secret {
    /// Reads secrets that white space separates, the current one first.
    pub fn parse(text: &str) -> Result<Self> {
        let keys = text.split_whitespace().map(key).collect::<Result<Vec<_>>>()?;
        ensure!(!keys.is_empty(), EMPTY);
        Ok(Self(keys))
    }

    /// One signature for each key, of which the receiver needs to know one.
    pub fn signatures(&self, id: &str, timestamp_secs: i64, body: &[u8]) -> String {
        let sign = |key| sign(key, id, timestamp_secs, body);
        self.0.iter().map(sign).collect::<Vec<_>>().join(" ")
    }
}

#[derive(Clone)]
pub enum Signing {
    None,
    Shared(Secret),
    /// Each record has its own in this column.
    Own {
        column: String,
    },
}

impl Signing {
    pub fn column(&self) -> Option<&str> {
        if let Self::Own { column } = self { Some(column) } else { None }
    }

    /// One that is missing or cannot be used must not leave its request unsigned.
    pub fn secret(&self, value: &dyn Fn(&str) -> Option<String>) -> Result<Option<Secret>> {
        Ok(match self {
            Self::None => None,
            Self::Shared(secret) => Some(secret.clone()),
            Self::Own { column } => {
                let secret = Secret::parse(&value(column).unwrap_or_default());
                Some(secret.with_context(|| format!("the column {column} of the record"))?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const TIME: i64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    #[test]
    fn the_published_example_comes_out() {
        for secret in [SECRET.into(), format!(" {SECRET}\n")] {
            let secret = Secret::parse(&secret).unwrap();
            assert_eq!(secret.signatures(ID, TIME, BODY), SIGNATURE);
        }
    }

    #[test]
    fn every_secret_signs() {
        let both = Secret::parse(&format!("{SECRET} whsec_{}", STANDARD.encode([7; 24]))).unwrap();
        let signatures = both.signatures(ID, TIME, BODY);
        let (first, second) = signatures.split_once(' ').unwrap();
        assert_eq!(first, SIGNATURE);
        assert!(second.starts_with("v1,") && second != first);
    }

    #[test]
    fn everything_that_is_signed_counts() {
        let key = key(SECRET).unwrap();
        assert_ne!(sign(&key, "msg_x", TIME, BODY), SIGNATURE);
        assert_ne!(sign(&key, ID, TIME + 1, BODY), SIGNATURE);
        assert_ne!(sign(&key, ID, TIME, b"{}"), SIGNATURE);
    }

    #[test]
    fn padding_may_be_left_out() {
        let padded = format!("whsec_{}", STANDARD.encode([7; 25]));
        let bare = padded.trim_end_matches('=');
        assert_ne!(bare, padded);
        let [padded, bare] = [&padded, bare].map(|it| Secret::parse(it).unwrap());
        assert_eq!(bare.signatures(ID, TIME, BODY), padded.signatures(ID, TIME, BODY));
    }

    #[test]
    fn a_bad_secret_is_not_shown() {
        for (secret, expected) in [
            ("", "the signing secret is empty"),
            ("whsec_", "the signing secret is empty"),
            ("whsec_S3kr!t", "the signing secret is no base64"),
            ("S3kritS3kritS3kritS3kritS3kritS3krit", "does not begin with whsec_"),
            ("whsec_S3kritS3kritS3kritS3kritS3kr", "has 21 bytes, and needs at least 24"),
            ("whsk_S3krit", "of the asymmetric kind"),
        ] {
            let error = format!("{:#}", Secret::parse(secret).err().unwrap());
            assert!(error.contains(expected) && !error.contains("S3kr"), "{error}");
        }
    }
}
