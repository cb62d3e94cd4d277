//! An image as the list has it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use berth_http::Timestamp;
use uuid::Uuid;

/// An image that servers can be made of. All of them are active, public, and for nobody to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    pub id: Uuid,
    /// Its name: 1 to 255 bytes, of no other image.
    pub name: String,
    /// Where its bytes are.
    pub place: Place,
    /// What its bytes are.
    pub disk_format: DiskFormat,
    /// What its bytes come to.
    pub checksum: Checksum,
    /// Their MD5 in hexadecimal digits, where they were read here.
    pub md5: Option<String>,
    /// How many bytes; none where nobody said.
    pub size: Option<u64>,
    /// The least memory of a guest, in MiB; 0: any.
    pub min_ram: u64,
    /// The least root disk of a guest, in GiB; 0: any.
    pub min_disk: u64,
    /// Words to find it by.
    pub tags: BTreeSet<String>,
    /// What else is said of it: `hw_firmware_type`, `os_distro`, ...
    pub properties: BTreeMap<String, String>,
    /// Whether it is left out of lists that do not ask for such.
    pub os_hidden: bool,
    /// When its data were changed last; of one whose data are elsewhere, when the list was.
    pub created_at: Timestamp,
}

/// Where an image's bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Here: this service gives them.
    Here(Data),
    /// In a file of the hosts, by its absolute path.
    Hosts(String),
    /// At an `http` or `https` URL.
    Url(String),
}

/// A file with an image's bytes, as it was when the list was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    pub(crate) path: PathBuf,
    pub(crate) length: u64,
    pub(crate) modified: SystemTime,
}

/// What an image's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFormat {
    /// A disk as it is.
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

/// How a checksum is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashAlgorithm {
    Sha256,
    Sha512,
}

impl HashAlgorithm {
    /// Glance's word (`os_hash_algo`).
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }
}

/// What bytes come to; `sha256:HEX` as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    pub(crate) algorithm: HashAlgorithm,
    pub(crate) hex: String,
}

impl Checksum {
    /// Reads `sha256:HEX` or `sha512:HEX`; none where it is neither.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (algorithm, hex) = match text.split_once(':')? {
            ("sha256", hex) if hex.len() == 64 => (HashAlgorithm::Sha256, hex),
            ("sha512", hex) if hex.len() == 128 => (HashAlgorithm::Sha512, hex),
            _ => return None,
        };
        let is_hex = hex.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_hex.then(|| Self {
            algorithm,
            hex: hex.to_ascii_lowercase(),
        })
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.as_str(), self.hex)
    }
}
