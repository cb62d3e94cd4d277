//! [`ConfigDriveContent`]: the validated content of a config drive, with its limits.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_client::Secret;
use berth_model::KeyPairType;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Nova's `MAX_USERDATA_SIZE` in bytes. Nova applies it to the base64 form, this host to the decoded form.
const MOST_USER_DATA: usize = 65_535;
/// The default of Nova's quota `metadata_items`.
const MOST_METADATA: usize = 128;
const MOST_KEYS: usize = 64;
const LONGEST_NAME: usize = 255;
const LONGEST_KEY: usize = 16 << 10;
/// Maximum size of network or vendor data in bytes.
const MOST_DOCUMENT: usize = 64 << 10;

/// Why a content is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigDriveError {
    /// A part is invalid. The message does not show the value, which may be a secret.
    #[error("config_drive.{field}: {expected}")]
    Part {
        field: &'static str,
        expected: &'static str,
    },
    #[error("config_drive.kept: {found:?} is not a digest; expected 64 hexadecimal digits")]
    Digest { found: String },
    /// The stored content is missing or does not match the digest.
    #[error("the stored config drive does not match the request: {reason}")]
    Kept { reason: &'static str },
}

const fn refuse<T>(field: &'static str, expected: &'static str) -> Result<T, ConfigDriveError> {
    Err(ConfigDriveError::Part { field, expected })
}

/// Data for the guest's first start, such as a script or a cloud-config; at most 65,535 bytes. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct UserData(Box<[u8]>);

impl UserData {
    pub fn new(bytes: &[u8]) -> Result<Self, ConfigDriveError> {
        if bytes.len() > MOST_USER_DATA {
            return refuse("user_data", "expected at most 65,535 bytes");
        }
        Ok(Self(bytes.into()))
    }

    /// Decodes base64, Nova's format, ignoring line breaks.
    pub fn from_base64(text: &str) -> Result<Self, ConfigDriveError> {
        let text: String = text.split_ascii_whitespace().collect();
        match STANDARD.decode(text) {
            Ok(bytes) => Self::new(&bytes),
            Err(_) => refuse("user_data", "expected base64 (RFC 4648, section 4)"),
        }
    }

    /// The secret bytes. Only the writer of the drive may call this.
    #[must_use]
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for UserData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "*** ({} bytes)", self.0.len())
    }
}

impl<'de> Deserialize<'de> for UserData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_base64(&text).map_err(serde::de::Error::custom)
    }
}

/// The public key of a key pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicKey {
    pub name: String,
    /// A line for `authorized_keys`, or a certificate in PEM.
    pub public_key: String,
}

impl PublicKey {
    /// The type of its key pair.
    #[must_use]
    pub fn kind(&self) -> KeyPairType {
        KeyPairType::of_public_key(&self.public_key)
    }
}

/// The parts of a content.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigDriveParts {
    /// The guest's hostname, with or without its domain.
    pub hostname: String,
    /// The instance's display name; the hostname if absent.
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub project_id: Option<String>,
    /// The zone of its host.
    #[serde(default)]
    pub availability_zone: Option<String>,
    /// Its number among the instances of one request.
    #[serde(default)]
    pub launch_index: u32,
    /// The request that created it.
    #[serde(default)]
    pub reservation_id: Option<String>,
    /// The name of its flavor.
    #[serde(default)]
    pub flavor: Option<String>,
    #[serde(default)]
    pub image_id: Option<String>,
    /// The tenant's `meta`: at most 128 keys; keys and values have at most 255 bytes.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// At most 64 keys.
    #[serde(default)]
    pub public_keys: Vec<PublicKey>,
    #[serde(default)]
    pub user_data: Option<UserData>,
    /// The password of the administrator account.
    #[serde(default)]
    pub admin_password: Option<Secret>,
    /// `network_data.json`, at most 64 KiB. If absent, every interface uses DHCP.
    #[serde(default)]
    pub network_data: Option<Value>,
    /// `vendor_data.json`, at most 64 KiB; `{}` if absent.
    #[serde(default)]
    pub vendor_data: Option<Value>,
}

/// A change of a content. `None`: unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfigDriveChange {
    pub name: Option<String>,
    /// Replaces all of it.
    pub metadata: Option<BTreeMap<String, String>>,
    /// `Some(None)` removes it.
    pub user_data: Option<Option<UserData>>,
    pub public_keys: Option<Vec<PublicKey>>,
}

/// A validated content. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigDriveContent(ConfigDriveParts);

impl ConfigDriveContent {
    pub fn new(parts: ConfigDriveParts) -> Result<Self, ConfigDriveError> {
        check(&parts)?;
        Ok(Self(parts))
    }

    pub(crate) fn parts(&self) -> &ConfigDriveParts {
        &self.0
    }

    /// The content after a change.
    pub(crate) fn changed(mut self, change: ConfigDriveChange) -> Result<Self, ConfigDriveError> {
        let parts = &mut self.0;
        if let Some(name) = change.name {
            parts.name = Some(name);
        }
        if let Some(metadata) = change.metadata {
            parts.metadata = metadata;
        }
        if let Some(user_data) = change.user_data {
            parts.user_data = user_data;
        }
        if let Some(public_keys) = change.public_keys {
            parts.public_keys = public_keys;
        }
        Self::new(self.0)
    }

    /// The stored form: deterministic for equal contents.
    pub(crate) fn to_kept(&self) -> Vec<u8> {
        let parts = &self.0;
        let secret = parts.admin_password.as_ref().map(Secret::reveal);
        let user_data = parts.user_data.as_ref();
        let mut kept = serde_json::json!({
            "hostname": parts.hostname,
            "name": parts.name,
            "project_id": parts.project_id,
            "metadata": parts.metadata,
            "public_keys": parts.public_keys,
            "user_data": user_data.map(|data| STANDARD.encode(data.reveal())),
            "admin_password": secret,
            "network_data": parts.network_data,
            "vendor_data": parts.vendor_data,
        });
        // Absent unless given, so that contents of earlier releases keep their digests.
        for (key, text) in [
            ("availability_zone", &parts.availability_zone),
            ("reservation_id", &parts.reservation_id),
            ("flavor", &parts.flavor),
            ("image_id", &parts.image_id),
        ] {
            if let Some(text) = text {
                kept[key] = text.as_str().into();
            }
        }
        if parts.launch_index > 0 {
            kept["launch_index"] = parts.launch_index.into();
        }
        kept.to_string().into_bytes()
    }

    /// Parses the stored form.
    pub(crate) fn from_kept(kept: &[u8]) -> Result<Self, ConfigDriveError> {
        let parts = serde_json::from_slice(kept).map_err(|_| ConfigDriveError::Kept {
            reason: "it cannot be parsed",
        })?;
        Self::new(parts)
    }
}

impl fmt::Debug for ConfigDriveContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigDriveContent")
            .field("hostname", &self.0.hostname)
            .finish_non_exhaustive()
    }
}

fn is_line(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.len()) && !text.chars().any(char::is_control)
}

fn is_hostname(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

fn check(parts: &ConfigDriveParts) -> Result<(), ConfigDriveError> {
    if !is_hostname(&parts.hostname) {
        return refuse(
            "hostname",
            "expected labels of 1 to 63 letters, digits and hyphens (not at their ends), separated by dots, at most 253 \
             bytes in all",
        );
    }
    let line = |field, text: &Option<String>| match text {
        Some(text) if !is_line(text, LONGEST_NAME) => {
            refuse(field, "expected 1 to 255 bytes without control characters")
        }
        _ => Ok(()),
    };
    line("name", &parts.name)?;
    line("project_id", &parts.project_id)?;
    line("availability_zone", &parts.availability_zone)?;
    line("reservation_id", &parts.reservation_id)?;
    line("flavor", &parts.flavor)?;
    line("image_id", &parts.image_id)?;
    if parts.metadata.len() > MOST_METADATA {
        return refuse("metadata", "a guest has at most 128 keys of metadata");
    }
    for (key, value) in &parts.metadata {
        if !is_line(key, LONGEST_NAME) || value.len() > LONGEST_NAME {
            return refuse(
                "metadata",
                "expected keys of 1 to 255 bytes without control characters, and values of at most 255 bytes",
            );
        }
    }
    check_keys(&parts.public_keys)?;
    if let Some(password) = &parts.admin_password
        && !is_line(password.reveal(), LONGEST_NAME)
    {
        return refuse(
            "admin_password",
            "expected 1 to 255 bytes without control characters",
        );
    }
    for (field, document) in [
        ("network_data", &parts.network_data),
        ("vendor_data", &parts.vendor_data),
    ] {
        let Some(document) = document else { continue };
        if !document.is_object() || document.to_string().len() > MOST_DOCUMENT {
            return refuse(field, "expected a JSON object of at most 64 KiB");
        }
    }
    Ok(())
}

fn check_keys(keys: &[PublicKey]) -> Result<(), ConfigDriveError> {
    if keys.len() > MOST_KEYS {
        return refuse("public_keys", "a guest has at most 64 keys");
    }
    let mut names = BTreeSet::new();
    for key in keys {
        if !is_line(&key.name, LONGEST_NAME) || !names.insert(&key.name) {
            return refuse(
                "public_keys.name",
                "expected unique names of 1 to 255 bytes without control characters",
            );
        }
        let is_valid = match key.kind() {
            KeyPairType::Ssh => is_line(&key.public_key, LONGEST_KEY),
            KeyPairType::X509 => {
                let mut lines = key.public_key.lines();
                key.public_key.len() <= LONGEST_KEY && lines.all(|line| is_line(line, LONGEST_KEY))
            }
        };
        if !is_valid {
            return refuse(
                "public_keys.public_key",
                "expected one line, or a certificate in PEM, of at most 16 KiB without control characters",
            );
        }
    }
    Ok(())
}
