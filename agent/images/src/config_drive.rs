//! The config drive of an instance: [`ConfigDrive`] refers to its content by a digest.
//!
//! User data and passwords are secrets, so the journal stores only the digest. The content is a file of mode 0600 below
//! `instances_path`, written before the instance is journaled and removed with it.

mod content;
mod files;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use content::{
    ConfigDriveChange, ConfigDriveContent, ConfigDriveError, ConfigDriveParts, PublicKey, UserData,
};
pub use files::ConfigDriveFormat;
pub(super) use files::files;

/// The SHA-256 of a stored content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentDigest([u8; 32]);

impl ContentDigest {
    pub(super) fn of(kept: &[u8]) -> Self {
        Self(Sha256::digest(kept).into())
    }
}

impl FromStr for ContentDigest {
    type Err = ConfigDriveError;

    fn from_str(text: &str) -> Result<Self, ConfigDriveError> {
        let refuse = || ConfigDriveError::Digest {
            found: text.chars().take(80).collect(),
        };
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(refuse());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| refuse())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| refuse())?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A requested config drive: the content, or, if read from the journal, the digest of the stored content. Equality
/// compares digests.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "DriveRecord", into = "DriveRecord")]
pub struct ConfigDrive {
    digest: ContentDigest,
    content: Option<Arc<ConfigDriveContent>>,
}

impl ConfigDrive {
    #[must_use]
    pub fn new(content: ConfigDriveContent) -> Self {
        Self {
            digest: ContentDigest::of(&content.to_kept()),
            content: Some(Arc::new(content)),
        }
    }

    #[must_use]
    pub fn digest(&self) -> ContentDigest {
        self.digest
    }

    /// The content; `None` if read from the journal.
    #[must_use]
    pub fn content(&self) -> Option<&ConfigDriveContent> {
        self.content.as_deref()
    }
}

impl PartialEq for ConfigDrive {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for ConfigDrive {}

/// Always serialised as `kept`. A request may contain `content` instead.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DriveRecord {
    Kept(String),
    #[serde(skip_serializing)]
    Content(Box<ConfigDriveParts>),
}

impl TryFrom<DriveRecord> for ConfigDrive {
    type Error = ConfigDriveError;

    fn try_from(record: DriveRecord) -> Result<Self, ConfigDriveError> {
        match record {
            DriveRecord::Kept(digest) => Ok(Self {
                digest: digest.parse()?,
                content: None,
            }),
            DriveRecord::Content(parts) => ConfigDriveContent::new(*parts).map(Self::new),
        }
    }
}

impl From<ConfigDrive> for DriveRecord {
    fn from(drive: ConfigDrive) -> Self {
        Self::Kept(drive.digest.to_string())
    }
}
