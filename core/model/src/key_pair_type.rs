//! The types of key pairs: [`KeyPairType`].

use std::fmt;

/// The type of a key pair, from Nova's API (`type` of `os-keypairs`, microversion 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPairType {
    /// The public key is a line of `authorized_keys`.
    Ssh,
    /// The public key is a certificate in PEM, for guests with Windows (WinRM).
    X509,
}

/// The first line of a certificate in PEM (RFC 7468).
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

impl KeyPairType {
    /// All types.
    pub const ALL: [Self; 2] = [Self::Ssh, Self::X509];

    /// The type of a public key, by its text. A line of `authorized_keys` never begins like a certificate.
    #[must_use]
    pub fn of_public_key(public_key: &str) -> Self {
        match public_key.trim_start().starts_with(CERTIFICATE) {
            true => Self::X509,
            false => Self::Ssh,
        }
    }

    /// The type with this name in Nova's API; `None` if there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// The name in Nova's API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ssh => "ssh",
            Self::X509 => "x509",
        }
    }
}

impl fmt::Display for KeyPairType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
