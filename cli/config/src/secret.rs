//! Secrets in the configuration: the client's own type, and the mask that is shown in their place.

pub use berth_client::Secret;

/// What is printed in place of a secret.
pub const MASK: &str = "***";
