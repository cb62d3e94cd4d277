//! The services that `berth up` has in it, and who asks agents.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use berth_compute::{OnQuotaFailure, QuotaOptions};
use berth_http::Prefix;
use berth_identity::EndpointInterface;
use berth_placement::CandidatesFrom;
use berth_wire::guest::NetworkSource;
use http::Method;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::seconds::seconds;
use crate::secret::Secret;

/// `[placement_service]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacementService {
    pub(super) connection: Option<Secret>,
    pub isolation_level: IsolationLevel,
    pub listen: SocketAddr,
    pub auth_strategy: AuthStrategy,
    pub policy_file: Option<PathBuf>,
    pub enforce_new_defaults: bool,
    #[serde(default, deserialize_with = "prefix")]
    pub path_prefix: Prefix,
    pub incomplete_consumer_project_id: String,
    pub incomplete_consumer_user_id: String,
    pub randomize_allocation_candidates: bool,
    pub max_allocation_candidates: usize,
    pub allocation_candidates_from: AllocationCandidatesFrom,
}

/// `allocation_candidates_from`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AllocationCandidatesFrom {
    /// By the database's kind.
    Auto,
    /// A snapshot in memory.
    Snapshot,
    Sql,
}

impl From<AllocationCandidatesFrom> for CandidatesFrom {
    fn from(option: AllocationCandidatesFrom) -> Self {
        match option {
            AllocationCandidatesFrom::Auto => Self::Auto,
            AllocationCandidatesFrom::Snapshot => Self::Snapshot,
            AllocationCandidatesFrom::Sql => Self::Sql,
        }
    }
}

/// `isolation_level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IsolationLevel {
    /// A transaction sees one state.
    RepeatableRead,
    /// Each statement sees what was committed before it.
    ReadCommitted,
}

impl From<IsolationLevel> for berth_store::Isolation {
    fn from(level: IsolationLevel) -> Self {
        match level {
            IsolationLevel::RepeatableRead => Self::RepeatableRead,
            IsolationLevel::ReadCommitted => Self::ReadCommitted,
        }
    }
}

fn prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Prefix, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(D::Error::custom)
}

/// `[cors]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorsSection {
    pub allowed_origin: Vec<String>,
    #[serde(deserialize_with = "methods")]
    pub allow_methods: Vec<Method>,
    pub allow_headers: Vec<String>,
    pub expose_headers: Vec<String>,
    pub max_age: u32,
}

impl From<CorsSection> for berth_http::CorsOptions {
    fn from(section: CorsSection) -> Self {
        Self {
            allowed_origin: section.allowed_origin,
            allow_methods: section.allow_methods,
            allow_headers: section.allow_headers,
            expose_headers: section.expose_headers,
            max_age: section.max_age,
        }
    }
}

fn methods<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Method>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts
        .iter()
        .map(|text| text.parse().map_err(D::Error::custom))
        .collect()
}

/// Where a host's name goes in `[accelerator_service] external_events_endpoint`.
pub const HOST_PART: &str = "{host}";

/// `[accelerator_service]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
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
pub struct ConductorService {
    pub(super) connection: Option<Secret>,
    pub listen: Option<SocketAddr>,
    #[serde(deserialize_with = "seconds")]
    pub retry_timeout: Duration,
    pub scheduler_workers: usize,
    #[serde(deserialize_with = "seconds")]
    headroom_interval: Duration,
    pub agents: Vec<String>,
}

impl ConductorService {
    /// How old a headroom may be; none: none is made.
    #[must_use]
    pub fn headroom_interval(&self) -> Option<Duration> {
        (!self.headroom_interval.is_zero()).then_some(self.headroom_interval)
    }
}

/// `[compute_service]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComputeService {
    pub(super) connection: Option<Secret>,
    pub listen: Option<SocketAddr>,
    pub auth_strategy: AuthStrategy,
    pub policy_file: Option<PathBuf>,
    pub images_file: Option<PathBuf>,
    pub auto_network: Option<String>,
}

impl ComputeService {
    /// Another database than the configuration's.
    pub fn set_connection(&mut self, url: Secret) {
        self.connection = Some(url);
    }

    /// What a guest is plugged into that asks for networks `auto`; none: nothing, or a text that names neither (`config check`
    /// refuses that).
    #[must_use]
    pub fn auto_network(&self) -> Option<NetworkSource> {
        network_source(self.auto_network.as_deref()?)
    }
}

/// `[quota]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuotaSection {
    hook: Option<PathBuf>,
    #[serde(deserialize_with = "super::fractional_seconds")]
    time_budget: Duration,
    on_failure: OnQuotaFailure,
}

impl QuotaSection {
    /// The program that is asked before servers are made; none: nobody is.
    pub(crate) fn options(&self) -> Option<QuotaOptions> {
        Some(QuotaOptions {
            program: self.hook.clone()?,
            time_budget: self.time_budget,
            on_failure: self.on_failure,
        })
    }
}

/// What `network:NAME` or `bridge:NAME` names; none where a text is neither.
fn network_source(text: &str) -> Option<NetworkSource> {
    let (kind, name) = text.split_once(':')?;
    let name = name.to_owned();
    match kind {
        _ if name.is_empty() => None,
        "network" => Some(NetworkSource::Network(name)),
        "bridge" => Some(NetworkSource::Bridge(name)),
        _ => None,
    }
}

/// `[identity_service]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdentityService {
    pub(super) connection: Option<Secret>,
    pub listen: SocketAddr,
    pub users_file: PathBuf,
    pub public_endpoint: Option<String>,
    #[serde(default, deserialize_with = "prefix")]
    pub path_prefix: Prefix,
    #[serde(deserialize_with = "seconds")]
    pub token_expiration: Duration,
    pub region: String,
    pub catalog: Vec<String>,
}

/// One entry of `[identity_service] catalog`, in its parts: type, interface where one is named, and URL.
#[must_use]
pub fn catalog_entry(text: &str) -> Option<(&str, Option<EndpointInterface>, &str)> {
    let (service, url) = text.split_once('=')?;
    let (service, interface) = match service.split_once(':') {
        None => (service, None),
        Some((service, interface)) => (service, Some(interface.parse().ok()?)),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let is_type = !service.is_empty() && service.chars().all(plain);
    is_type.then_some((service, interface, url))
}

/// `[agent_client]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentClient {
    pub cafile: Option<PathBuf>,
    pub certfile: Option<PathBuf>,
    pub keyfile: Option<PathBuf>,
}
