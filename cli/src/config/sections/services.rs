//! The services that `berth up` has in it, and who asks agents.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::seconds;
use crate::config::secret::Secret;

/// `[placement_service]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each field is the option of its name, documented in the table"
)]
pub struct PlacementService {
    pub(super) connection: Option<Secret>,
    pub listen: SocketAddr,
    pub randomize_allocation_candidates: bool,
    pub max_allocation_candidates: usize,
}

/// Where a host's name goes in `[accelerator_service] external_events_endpoint`.
pub const HOST_PART: &str = "{host}";

/// `[accelerator_service]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each field is the option of its name, documented in the table"
)]
pub struct AcceleratorService {
    pub(super) connection: Option<Secret>,
    pub listen: SocketAddr,
    pub auth_strategy: AuthStrategy,
    pub policy_file: Option<PathBuf>,
    pub external_events_endpoint: Option<String>,
    #[serde(deserialize_with = "seconds")]
    pub orphan_request_grace: Duration,
    #[serde(deserialize_with = "seconds")]
    pub unbound_request_grace: Duration,
    #[serde(deserialize_with = "seconds")]
    pub bind_timeout: Duration,
}

/// `auth_strategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthStrategy {
    /// The token's own word is taken.
    Noauth2,
    /// Keystone is asked (`[keystone_authtoken]`).
    Keystone,
}

/// `[conductor_service]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each field is the option of its name, documented in the table"
)]
pub struct ConductorService {
    pub listen: Option<SocketAddr>,
    #[serde(deserialize_with = "seconds")]
    pub retry_timeout: Duration,
    pub agents: Vec<String>,
}

/// `[agent_client]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each field is the option of its name, documented in the table"
)]
pub struct AgentClient {
    pub cafile: Option<PathBuf>,
    pub certfile: Option<PathBuf>,
    pub keyfile: Option<PathBuf>,
}
