//! [`BootRequestError`]: why a request for a guest is invalid.

use berth_model::{FlavorError, RequestGroupsError};

/// An invalid request; each error names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BootRequestError {
    /// A text is empty, too long, or has invalid characters.
    #[error("{field}: {expected}")]
    Text {
        field: &'static str,
        expected: &'static str,
    },
    #[error("{field}: {value} is out of range, {expected} is allowed")]
    Number {
        field: &'static str,
        value: u64,
        expected: &'static str,
    },
    /// The name of the device profile is invalid.
    #[error("device_profile: letters, digits, - and _ are allowed, 1 to 255 of them")]
    Profile,
    /// The request and its flavor name different device profiles.
    #[error("device_profile: {named} differs from {spec} in the flavor's accel:device_profile")]
    TwoProfiles { named: String, spec: String },
    /// The node's name is invalid.
    #[error("node: {0}")]
    Node(String),
    /// An extra spec is invalid. It is refused rather than ignored, because the guest would differ from the request.
    #[error("flavor.extra_specs.{0}")]
    Spec(String),
    /// The flavor is inconsistent.
    #[error("flavor.extra_specs.{0}")]
    Flavor(#[from] FlavorError),
    /// The request groups are invalid.
    #[error("flavor: {0}")]
    Groups(#[from] RequestGroupsError),
}
