//! Password hashes: Argon2id in PHC string format (`$argon2id$v=19$m=…,t=…,p=…$salt$hash`).

use std::fmt;
use std::str::FromStr;

use argon2::password_hash::{PasswordHash as Parsed, PasswordHasher, SaltString};
use argon2::{Algorithm, Argon2, Params, PasswordVerifier, Version};
use sha2::{Digest, Sha256};

use crate::tokens::random;

/// The maximum length of a password, in bytes. Keystone has the same limit in characters.
pub const LONGEST_PASSWORD: usize = 4096;

/// The maximum memory of one verification, in KiB (256 MiB).
const MOST_MEMORY: u32 = 256 << 10;
/// The most passes and lanes.
const MOST_PASSES: u32 = 32;
const MOST_LANES: u32 = 16;

/// A password hash. `Debug` prints `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    text: Box<str>,
    cost: u64,
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The text is not a usable password hash. Errors do not repeat the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PasswordHashError {
    #[error(
        "not an Argon2id hash ($argon2id$v=19$…); use the output of `berth identity hash-password`"
    )]
    Malformed,
    /// The hash is too expensive to verify.
    #[error(
        "verifying this hash would take more than 256 MiB, 32 passes or 16 lanes; make a new one with `berth identity hash-password`"
    )]
    TooCostly,
}

/// A password that cannot be hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    #[error("the password is empty")]
    Empty,
    /// The password has more than [`LONGEST_PASSWORD`] bytes.
    #[error("the password has more than {LONGEST_PASSWORD} bytes")]
    TooLong,
    /// The system gives no random bytes, or too little memory.
    #[error("the password cannot be hashed: the system gives no random bytes or no memory")]
    System,
}

impl FromStr for PasswordHash {
    type Err = PasswordHashError;

    fn from_str(text: &str) -> Result<Self, PasswordHashError> {
        let parsed = Parsed::new(text).map_err(|_| PasswordHashError::Malformed)?;
        let is_argon2id = parsed.algorithm == Algorithm::Argon2id.ident();
        let params = Params::try_from(&parsed).map_err(|_| PasswordHashError::Malformed)?;
        let version = parsed.version.unwrap_or(0);
        if !is_argon2id || version != 0x13 || parsed.salt.is_none() || parsed.hash.is_none() {
            return Err(PasswordHashError::Malformed);
        }
        let (memory, passes, lanes) = (params.m_cost(), params.t_cost(), params.p_cost());
        if memory > MOST_MEMORY || passes > MOST_PASSES || lanes > MOST_LANES {
            return Err(PasswordHashError::TooCostly);
        }
        Ok(Self {
            text: text.into(),
            cost: u64::from(memory) * u64::from(passes),
        })
    }
}

impl PasswordHash {
    /// Hashes a password with a fresh salt and the costs that OWASP recommends (19 MiB, two passes, one lane).
    pub fn of(password: &str) -> Result<Self, PasswordError> {
        Self::with(password, Params::default())
    }

    /// Hashes with minimal cost, for tests.
    #[doc(hidden)]
    pub fn cheap(password: &str) -> Result<Self, PasswordError> {
        let params = Params::new(Params::MIN_M_COST, 1, 1, None);
        Self::with(password, params.map_err(|_| PasswordError::System)?)
    }

    fn with(password: &str, params: Params) -> Result<Self, PasswordError> {
        match password.len() {
            0 => return Err(PasswordError::Empty),
            length if length > LONGEST_PASSWORD => return Err(PasswordError::TooLong),
            _ => {}
        }
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).map_err(|_| PasswordError::System)?;
        let salt = SaltString::encode_b64(&salt).map_err(|_| PasswordError::System)?;
        let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let hash = hasher.hash_password(password.as_bytes(), &salt);
        let text = hash.map_err(|_| PasswordError::System)?.to_string();
        text.parse().map_err(|_| PasswordError::System)
    }

    /// Verifies a password. This takes tens of milliseconds and the memory that the hash names: run it
    /// on a blocking thread.
    #[must_use]
    pub fn verify(&self, password: &str) -> bool {
        let Ok(parsed) = Parsed::new(&self.text) else {
            return false;
        };
        // The parameters come from the hash, not from this instance.
        let verified = Argon2::default().verify_password(password.as_bytes(), &parsed);
        password.len() <= LONGEST_PASSWORD && verified.is_ok()
    }

    /// A digest of the hash, by which a token is bound to the password. It reveals nothing about the hash.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        hex(&Sha256::digest(self.text.as_bytes()))
    }

    /// The text, for the file.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// How much a check costs, to compare by.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }
}

/// A random password for users that a program creates: 192 bits in letters, digits, `-` and `_`.
pub fn fresh_password() -> Result<String, PasswordError> {
    random::<24>().map_err(|_| PasswordError::System)
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_hash_is_of_its_password_and_of_no_other() {
        let hash = PasswordHash::cheap("hunter2").unwrap();
        assert!(hash.verify("hunter2"));
        for other in ["", "hunter", "hunter22", "HUNTER2"] {
            assert!(!hash.verify(other), "{other}");
        }
        assert_ne!(
            hash,
            PasswordHash::cheap("hunter2").unwrap(),
            "no two salts are the same"
        );
        assert_eq!(format!("{hash:?}"), "***");
    }

    #[test]
    fn a_printed_hash_has_the_recommended_costs() {
        let hash = PasswordHash::of("hunter2").unwrap();
        let text = hash.reveal();
        assert!(
            text.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{text}"
        );
        assert_eq!(text.parse::<PasswordHash>().unwrap(), hash);
    }

    #[test]
    fn other_texts_are_no_hashes() {
        let cases = [
            ("", PasswordHashError::Malformed),
            ("hunter2", PasswordHashError::Malformed),
            (
                "$2b$12$xkWzAbCdEfGhIjKlMnOpQeRsTuVwXyZ0123456789abcdefghijkl",
                PasswordHashError::Malformed,
            ),
            (
                "$argon2i$v=19$m=64,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$fV2hVjIH1dH9Mrjt2cVIhA",
                PasswordHashError::Malformed,
            ),
            (
                "$argon2id$v=16$m=64,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$fV2hVjIH1dH9Mrjt2cVIhA",
                PasswordHashError::Malformed,
            ),
            (
                "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHRzb21lc2FsdA",
                PasswordHashError::Malformed,
            ),
            (
                "$argon2id$v=19$m=1048576,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$fV2hVjIH1dH9Mrjt2cVIhA",
                PasswordHashError::TooCostly,
            ),
            (
                "$argon2id$v=19$m=64,t=1000,p=1$c29tZXNhbHRzb21lc2FsdA$fV2hVjIH1dH9Mrjt2cVIhA",
                PasswordHashError::TooCostly,
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<PasswordHash>(), Err(expected), "{text}");
        }
    }

    #[test]
    fn an_empty_or_an_endless_password_is_refused() {
        assert_eq!(PasswordHash::cheap(""), Err(PasswordError::Empty));
        let long = "x".repeat(LONGEST_PASSWORD + 1);
        assert_eq!(PasswordHash::cheap(&long), Err(PasswordError::TooLong));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(\\$argon2id\\$)?\\PC*") {
            let _ = text.parse::<PasswordHash>();
        }
    }
}
