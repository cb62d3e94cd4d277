//! [`ImageSource`]: a requested image, with its location, checksum and format; and [`ImageKey`], its name in the cache.

use std::fmt;
use std::str::FromStr;

use berth_virt::guest_spec::{DiskFormat, HostPath};
use http::Uri;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::serde_text;

/// Why an image source is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageSourceError {
    #[error(
        "image.checksum: {found:?} is not a checksum; expected ALGORITHM:HEX, with md5 (32 digits), sha256 (64) or sha512 (128)"
    )]
    Checksum { found: String },
    #[error("image.location: {reason}")]
    Url {
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// Without a checksum, the image cannot be verified.
    #[error(
        "image.checksum: an image of {location} needs one; only the image service provides checksums itself"
    )]
    NoChecksum { location: ImageLocation },
}

/// The hash algorithm of a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HashAlgorithm {
    /// Glance's legacy `checksum`. Not collision-resistant.
    Md5,
    Sha256,
    /// SHA-512, Glance's default `os_hash_algo`.
    Sha512,
}

impl HashAlgorithm {
    /// The name in Glance's `os_hash_algo`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    const fn digits(self) -> usize {
        match self {
            Self::Md5 => 32,
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

/// The expected checksum of an image file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Checksum {
    algorithm: HashAlgorithm,
    hex: String,
}

impl Checksum {
    /// Accepts hexadecimal digits in either case.
    pub fn new(algorithm: HashAlgorithm, hex: &str) -> Result<Self, ImageSourceError> {
        let fits = hex.len() == algorithm.digits() && hex.bytes().all(|b| b.is_ascii_hexdigit());
        if fits {
            let hex = hex.to_ascii_lowercase();
            Ok(Self { algorithm, hex })
        } else {
            let found = format!("{}:{hex}", algorithm.as_str());
            Err(ImageSourceError::Checksum { found })
        }
    }

    #[must_use]
    pub fn algorithm(&self) -> HashAlgorithm {
        self.algorithm
    }

    #[must_use]
    pub fn hex(&self) -> &str {
        &self.hex
    }
}

impl FromStr for Checksum {
    type Err = ImageSourceError;

    fn from_str(text: &str) -> Result<Self, ImageSourceError> {
        let refuse = || ImageSourceError::Checksum {
            found: text.chars().take(160).collect(),
        };
        let (algorithm, hex) = text.split_once(':').ok_or_else(refuse)?;
        let algorithm = match algorithm {
            "md5" => HashAlgorithm::Md5,
            "sha256" => HashAlgorithm::Sha256,
            "sha512" => HashAlgorithm::Sha512,
            _ => return Err(refuse()),
        };
        Self::new(algorithm, hex).map_err(|_| refuse())
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.as_str(), self.hex)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageLocation {
    /// A file on this host, in one of the `image_directories`.
    Path(HostPath),
    Url(ImageUrl),
    /// The ID of an image in Glance.
    Glance(Uuid),
}

impl fmt::Display for ImageLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "file {path}"),
            Self::Url(url) => write!(f, "{url}"),
            Self::Glance(image) => write!(f, "Glance image {image}"),
        }
    }
}

/// An `http` or `https` URL without credentials. `Display` hides its query, which may contain a signature.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageUrl(String);

impl ImageUrl {
    pub fn new(url: &str) -> Result<Self, ImageSourceError> {
        let refuse = |reason: &str| {
            let reason = reason.to_owned();
            Err(ImageSourceError::Url { reason })
        };
        if url.len() > 4096 {
            return refuse("the URL is longer than 4096 bytes");
        }
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return refuse(
                "expected an http or https URL; a file of this host is {\"path\": \"/…\"}",
            );
        }
        let Ok(uri) = url.parse::<Uri>() else {
            return refuse("not a URL; expected http://HOST/PATH or https://HOST/PATH");
        };
        match uri.authority() {
            Some(authority) if authority.as_str().contains('@') => {
                refuse("the URL contains credentials, which would be stored with the guest")
            }
            Some(authority) if !authority.host().is_empty() => Ok(Self(url.to_owned())),
            _ => refuse("the URL has no host"),
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ImageUrl {
    type Error = ImageSourceError;

    fn try_from(url: String) -> Result<Self, ImageSourceError> {
        Self::new(&url)
    }
}

impl From<ImageUrl> for String {
    fn from(url: ImageUrl) -> Self {
        url.0
    }
}

impl fmt::Display for ImageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.split(['?', '#']).next().unwrap_or_default())
    }
}

impl fmt::Debug for ImageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SourceRecord", into = "SourceRecord")]
pub struct ImageSource {
    location: ImageLocation,
    checksum: Option<Checksum>,
    format: DiskFormat,
}

impl ImageSource {
    /// An image with this format and checksum. Only an image of the image service may omit the checksum; the service's
    /// own is used then.
    pub fn new(
        location: ImageLocation,
        checksum: Option<Checksum>,
        format: DiskFormat,
    ) -> Result<Self, ImageSourceError> {
        if checksum.is_none() && !matches!(location, ImageLocation::Glance(_)) {
            return Err(ImageSourceError::NoChecksum { location });
        }
        Ok(Self {
            location,
            checksum,
            format,
        })
    }

    #[must_use]
    pub fn location(&self) -> &ImageLocation {
        &self.location
    }

    /// The expected checksum; `None` for the image service's own.
    #[must_use]
    pub fn checksum(&self) -> Option<&Checksum> {
        self.checksum.as_ref()
    }

    /// The expected format. It is never guessed from the content.
    #[must_use]
    pub fn format(&self) -> DiskFormat {
        self.format
    }

    /// The image's name in the cache.
    #[must_use]
    pub fn key(&self) -> ImageKey {
        let format = match self.format {
            DiskFormat::Raw => "raw",
            DiskFormat::Qcow2 => "qcow2",
        };
        let known = match (&self.checksum, &self.location) {
            (None, location) => location_key(location),
            // MD5 collisions are possible, so an MD5 key includes the location.
            (Some(sum), location) if sum.algorithm == HashAlgorithm::Md5 => {
                format!("md5-{}-{}", sum.hex, location_key(location))
            }
            (Some(sum), _) => format!("{}-{}", sum.algorithm.as_str(), sum.hex),
        };
        ImageKey(format!("{known}-{format}"))
    }
}

fn location_key(location: &ImageLocation) -> String {
    let text = match location {
        ImageLocation::Glance(image) => return format!("glance-{}", image.hyphenated()),
        ImageLocation::Path(path) => path.as_str(),
        ImageLocation::Url(url) => url.as_str(),
    };
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(16).map(|b| format!("{b:02x}")).collect()
}

/// The name of an image in the cache: at most 200 letters, digits and hyphens. Sources with the same key share the
/// file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageKey(String);

impl ImageKey {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ImageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceRecord {
    location: ImageLocation,
    #[serde(default)]
    checksum: Option<ChecksumText>,
    format: DiskFormat,
}

#[derive(Serialize, Deserialize)]
struct ChecksumText(#[serde(with = "serde_text")] Checksum);

impl TryFrom<SourceRecord> for ImageSource {
    type Error = ImageSourceError;

    fn try_from(record: SourceRecord) -> Result<Self, ImageSourceError> {
        let checksum = record.checksum.map(|text| text.0);
        Self::new(record.location, checksum, record.format)
    }
}

impl From<ImageSource> for SourceRecord {
    fn from(source: ImageSource) -> Self {
        Self {
            location: source.location,
            checksum: source.checksum.map(ChecksumText),
            format: source.format,
        }
    }
}
