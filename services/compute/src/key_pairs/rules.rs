//! What may be a key pair; pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};

use super::KeyPairError;

/// The bytes of a key on the curve Ed25519.
const ED25519: usize = 32;

/// A public key that is to be kept, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKeyPair {
    user_id: String,
    name: String,
    public_key: String,
    fingerprint: String,
}

impl NewKeyPair {
    /// Checks a user's key.
    pub fn new(user_id: &str, name: &str, public_key: &str) -> Result<Self, KeyPairError> {
        let plain = |one: char| one.is_ascii_alphanumeric() || "_- ".contains(one);
        if name.is_empty() || name.len() > 255 || name.trim() != name || !name.chars().all(plain) {
            return Err(KeyPairError::Name);
        }
        Ok(Self {
            user_id: user_id.to_owned(),
            name: name.to_owned(),
            fingerprint: fingerprint(public_key)?,
            // A file's last line ends; nothing that is put between others may.
            public_key: public_key.trim_end_matches(['\r', '\n']).to_owned(),
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

    /// The line of `authorized_keys`.
    #[must_use]
    pub fn public_key(&self) -> &str {
        &self.public_key
    }

    /// The MD5 of the key in pairs of digits.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

/// The first field of these bytes, which has its length before it, and what is behind it.
fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

/// Whether these bytes, which are behind its type, are a key: as many fields as one has, none of them empty, and nothing else.
fn is_whole(kind: &str, mut bytes: &[u8]) -> bool {
    // A certificate has numbers among its fields, which say nothing of their lengths.
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

/// The MD5 of a key of one line: `TYPE BASE64 COMMENT`, the type once more inside.
fn fingerprint(line: &str) -> Result<String, KeyPairError> {
    let wrong = |reason| KeyPairError::PublicKey { reason };
    let line = line.trim();
    if line.contains(['\n', '\r', '\0']) {
        return Err(wrong("a public key is one line"));
    }
    let mut words = line.split_ascii_whitespace();
    let (Some(kind), Some(key)) = (words.next(), words.next()) else {
        return Err(wrong(
            "a public key begins with its type and the key in base64",
        ));
    };
    let bytes = STANDARD.decode(key);
    let bytes = bytes.map_err(|_| wrong("the second word of a public key is in base64"))?;
    let inside = field(&bytes);
    if inside.map(|(kind, _)| kind) != Some(kind.as_bytes()) {
        return Err(wrong("the key is not of the type that stands before it"));
    }
    if inside.is_some_and(|(_, rest)| !is_whole(kind, rest)) {
        return Err(wrong("the key is cut off, or more than a key of its type"));
    }
    let digits: Vec<String> = Md5::digest(&bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(digits.join(":"))
}
