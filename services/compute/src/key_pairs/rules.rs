//! What may be a key pair; pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};

use super::KeyPairError;

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
    ///
    /// # Errors
    /// [`KeyPairError::Name`], [`KeyPairError::PublicKey`].
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

    /// Whose it is.
    #[must_use]
    pub fn user_id(&self) -> &str {
        &self.user_id
    }

    /// Its name.
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
    let inside = bytes.split_first_chunk::<4>().and_then(|(length, rest)| {
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        rest.get(..length)
    });
    if inside != Some(kind.as_bytes()) {
        return Err(wrong("the key is not of the type that stands before it"));
    }
    let digits: Vec<String> = Md5::digest(&bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(digits.join(":"))
}
