//! Why a key pair could not be kept, read or removed.

use berth_store::{Disposition, Retryable, SqlError};

use crate::store::TableError;

/// Why a key pair could not be kept, read or removed.
#[derive(Debug, thiserror::Error)]
pub enum KeyPairError {
    /// The user has none of this name.
    #[error("Keypair {name} not found for user {user_id}")]
    NotFound {
        user_id: String,
        name: String,
    },
    /// The user has another of this name.
    #[error("Key pair '{name}' already exists.")]
    Exists {
        name: String,
    },
    /// The name has characters that it may not have.
    #[error(
        "Keypair data is invalid: the name has other characters than letters, digits, blanks, _ and -"
    )]
    Name,
    /// The text is no public key for SSH.
    #[error("Keypair data is invalid: {reason}")]
    PublicKey {
        /// What is wrong with it.
        reason: &'static str,
    },
    #[error(transparent)]
    Table(#[from] TableError),
}

impl From<SqlError> for KeyPairError {
    fn from(error: SqlError) -> Self {
        Self::Table(error.into())
    }
}

impl KeyPairError {
    /// What a loop does about it.
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
