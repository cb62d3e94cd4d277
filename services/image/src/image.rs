//! The image as a value.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use uuid::Uuid;

/// An image that servers can boot from. All images are active, public and read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogImage {
    pub id: Uuid,
    /// The name, unique, 1 to 255 bytes.
    pub name: String,
    pub place: ImageDataLocation,
    pub disk_format: DiskFormat,
    pub checksum: DataChecksum,
    /// The MD5 in hexadecimal digits, if this service read the data.
    pub md5: Option<String>,
    /// The size in bytes, if known.
    pub size: Option<u64>,
    /// The least memory of a guest, in MiB; 0: any.
    pub min_ram: u64,
    /// The least root disk of a guest, in GiB; 0: any.
    pub min_disk: u64,
    pub tags: BTreeSet<String>,
    /// Further properties: `hw_firmware_type`, `os_distro`, ...
    pub properties: BTreeMap<String, String>,
    /// Whether lists omit the image by default.
    pub os_hidden: bool,
    /// When the data last changed; for data that are elsewhere, when the list last changed.
    pub created_at: SystemTime,
}

/// Where the data of an image are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageDataLocation {
    /// In a file of this machine, which this service can send.
    Local(Data),
    /// In a file of the hosts, by its absolute path.
    Hosts(String),
    /// At an `http` or `https` URL.
    Url(String),
}

/// A file with image data, as it was when the list was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    pub(crate) path: PathBuf,
    pub(crate) length: u64,
    pub(crate) modified: SystemTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFormat {
    Raw,
    Qcow2,
}

impl DiskFormat {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumAlgorithm {
    Sha256,
    Sha512,
}

impl ChecksumAlgorithm {
    /// The name in Glance's `os_hash_algo`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }
}

/// A checksum of image data; `sha256:HEX` as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataChecksum {
    pub(crate) algorithm: ChecksumAlgorithm,
    pub(crate) hex: String,
}

impl DataChecksum {
    /// Parses `sha256:HEX` or `sha512:HEX`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (algorithm, hex) = match text.split_once(':')? {
            ("sha256", hex) if hex.len() == 64 => (ChecksumAlgorithm::Sha256, hex),
            ("sha512", hex) if hex.len() == 128 => (ChecksumAlgorithm::Sha512, hex),
            _ => return None,
        };
        let is_hex = hex.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_hex.then(|| Self {
            algorithm,
            hex: hex.to_ascii_lowercase(),
        })
    }
}

impl fmt::Display for DataChecksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.as_str(), self.hex)
    }
}
