//! What the caller knows beside the request.

use std::sync::Arc;

use super::ResourceGroup;
use crate::host_state::Aggregate;

#[derive(Debug, Clone, Copy, Default)]
pub struct Cloud<'a> {
    pub aggregates: &'a [Arc<Aggregate>],
    /// The zone of hosts that no aggregate puts in one, where a zone that is asked for has to be there. None: as Nova's pre-filter, to
    /// which a zone of no aggregate is any; Nova's API has refused it before.
    pub default_availability_zone: Option<&'a str>,
    /// All compute nodes: read where a request names its host.
    pub computes: &'a [ComputeNodeRef],
    /// Whether each compute service is so new that its providers have `OWNER_NOVA`.
    pub all_computes_report_owner_trait: bool,
    /// Groups of ports and of device profiles, by suffix.
    pub groups: &'a [(String, ResourceGroup)],
    /// For each routed network of the request its aggregates, of which a host has to be in one.
    pub network_aggregates: &'a [Vec<String>],
    /// Whether a port of the request is managed by a card of its own.
    pub has_remote_managed_ports: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ComputeNodeRef {
    /// The service's host name.
    pub host: String,
    pub nodename: String,
    pub uuid: String,
    pub cell: String,
}
