//! Validates names and public keys of key pairs; pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_model::KeyPairType;
use berth_serve::Certificate;
use md5::{Digest as _, Md5};
use pem::{EncodeConfig, LineEnding, Pem};
use sha1::Sha1;

use super::KeyPairError;

/// The length of an Ed25519 key in bytes.
const ED25519: usize = 32;

/// A validated key pair to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKeyPair {
    user_id: String,
    name: String,
    public_key: String,
    fingerprint: String,
}

impl NewKeyPair {
    /// Validates the name and the key.
    pub fn new(
        user_id: &str,
        name: &str,
        kind: KeyPairType,
        public_key: &str,
    ) -> Result<Self, KeyPairError> {
        let plain = |one: char| one.is_ascii_alphanumeric() || "_- ".contains(one);
        if name.is_empty() || name.len() > 255 || name.trim() != name || !name.chars().all(plain) {
            return Err(KeyPairError::Name);
        }
        let (public_key, fingerprint) = match kind {
            KeyPairType::Ssh => {
                // The text may be a file with a final line break. A line break inside the key is an error.
                let line = public_key.trim_end_matches(['\r', '\n']);
                (line.to_owned(), fingerprint(public_key)?)
            }
            KeyPairType::X509 => certificate(public_key)?,
        };
        Ok(Self {
            user_id: user_id.to_owned(),
            name: name.to_owned(),
            fingerprint,
            public_key,
        })
    }

    #[must_use]
    pub fn user_id(&self) -> &str {
        &self.user_id
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A line of `authorized_keys`, or a certificate in PEM.
    #[must_use]
    pub fn public_key(&self) -> &str {
        &self.public_key
    }

    /// The MD5 of the key, or the SHA-1 of the certificate, as pairs of hexadecimal digits.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

/// Splits off the first field, which is prefixed with its length.
fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

/// Whether `bytes`, the part after the type, is a complete key: the right number of fields, none
/// empty, no trailing data.
fn is_whole(kind: &str, mut bytes: &[u8]) -> bool {
    // Certificates also have numeric fields without a length prefix, which are not checked.
    if kind.ends_with("-cert-v01@openssh.com") {
        return true;
    }
    let mut lengths = Vec::new();
    while !bytes.is_empty() {
        let Some((one, rest)) = field(bytes) else {
            return false;
        };
        lengths.push(one.len());
        bytes = rest;
    }
    if lengths.contains(&0) {
        return false;
    }
    match kind {
        "ssh-ed25519" => lengths == [ED25519],
        "sk-ssh-ed25519@openssh.com" => matches!(lengths[..], [ED25519, _]),
        "ssh-dss" => lengths.len() == 4,
        "sk-ecdsa-sha2-nistp256@openssh.com" => lengths.len() == 3,
        kind if kind == "ssh-rsa" || kind.starts_with("ecdsa-sha2-") => lengths.len() == 2,
        _ => !lengths.is_empty(),
    }
}

/// The MD5 of a key in the format `TYPE BASE64 COMMENT`. The decoded key begins with its type.
fn fingerprint(line: &str) -> Result<String, KeyPairError> {
    let wrong = |reason| KeyPairError::PublicKey { reason };
    let line = line.trim();
    if line.contains(['\n', '\r', '\0']) {
        return Err(wrong("a public key must be a single line"));
    }
    let mut words = line.split_ascii_whitespace();
    let (Some(kind), Some(key)) = (words.next(), words.next()) else {
        return Err(wrong(
            "a public key must begin with its type and the base64-encoded key",
        ));
    };
    let bytes = STANDARD.decode(key);
    let bytes =
        bytes.map_err(|_| wrong("the second field of a public key must be valid base64"))?;
    let inside = field(&bytes);
    if inside.map(|(kind, _)| kind) != Some(kind.as_bytes()) {
        return Err(wrong(
            "the encoded key type differs from the type in front of it",
        ));
    }
    if inside.is_some_and(|(_, rest)| !is_whole(kind, rest)) {
        return Err(wrong("the key is truncated or has trailing data"));
    }
    Ok(pairs(&Md5::digest(&bytes)))
}

/// The certificate of a PEM text without the text around it, and its SHA-1 as Nova shows it.
fn certificate(text: &str) -> Result<(String, String), KeyPairError> {
    let wrong = |reason| KeyPairError::PublicKey { reason };
    let parts = pem::parse_many(text);
    let [certificate] = parts.as_deref().unwrap_or_default() else {
        return Err(wrong(
            "the public key of type x509 must be one certificate in PEM",
        ));
    };
    let bytes = certificate.contents();
    if certificate.tag() != "CERTIFICATE" || Certificate::read(bytes).is_none() {
        return Err(wrong("the PEM text is not an X.509 certificate"));
    }
    let lines = EncodeConfig::new().set_line_ending(LineEnding::LF);
    let text = pem::encode_config(&Pem::new("CERTIFICATE", bytes), lines);
    Ok((text, pairs(&Sha1::digest(bytes))))
}

fn pairs(digest: &[u8]) -> String {
    let digits: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(":")
}
