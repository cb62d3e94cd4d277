//! [`KeyPairError`]: why a key pair could not be stored, read or deleted.

use berth_store::{Disposition, Retryable, SqlError};

use crate::store::ComputeTableError;

/// Why a key pair could not be stored, read or deleted.
#[derive(Debug, thiserror::Error)]
pub enum KeyPairError {
    #[error("Keypair {name} not found for user {user_id}")]
    NotFound { user_id: String, name: String },
    #[error("Key pair '{name}' already exists.")]
    Exists { name: String },
    #[error("Quota exceeded, too many key pairs.")]
    TooMany,
    #[error("Keypair data is invalid: the name may contain only letters, digits, blanks, _ and -")]
    Name,
    /// The text is neither an SSH public key nor a certificate, whichever is expected.
    #[error("Keypair data is invalid: {reason}")]
    PublicKey { reason: &'static str },
    #[error("failed to generate a key pair: {reason}")]
    NotGenerated { reason: String },
    #[error(transparent)]
    Table(#[from] ComputeTableError),
}

impl From<SqlError> for KeyPairError {
    fn from(error: SqlError) -> Self {
        Self::Table(error.into())
    }
}

impl KeyPairError {
    /// Whether a retry can help.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Table(error) => error.disposition(),
            _ => Disposition::Fatal,
        }
    }
}

impl Retryable for KeyPairError {
    fn disposition(&self) -> Disposition {
        self.disposition()
    }
}
