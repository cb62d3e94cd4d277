//! Secrets in the configuration: the client's own type, and the mask that is shown instead.

pub use berth_client::Secret;

/// Printed in place of a secret.
pub const MASK: &str = "***";
