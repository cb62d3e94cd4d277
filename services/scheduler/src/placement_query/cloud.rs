//! The data about the cloud that a Placement query needs in addition to the request.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::ResourceGroup;
use crate::host_state::Aggregate;

#[derive(Debug, Clone, Copy, Default)]
pub struct Cloud<'a> {
    pub aggregates: &'a [Arc<Aggregate>],
    /// The zone of hosts without a zone aggregate. If set, an unknown zone is refused. `None`: an unknown zone is
    /// ignored, as in Nova's pre-filter, because Nova's API has refused it before.
    pub default_availability_zone: Option<&'a str>,
    /// All compute nodes. Only used if a request names its host.
    pub computes: &'a [ComputeNodeRef],
    /// Whether every compute service is new enough to report the trait `OWNER_NOVA`.
    pub all_computes_report_owner_trait: bool,
    /// Request groups of ports and device profiles, by suffix.
    pub groups: &'a [(String, ResourceGroup)],
    /// Suffixes of `groups` whose providers must be below one link group, a set for each link group.
    pub link_groups: &'a [BTreeSet<String>],
    /// Suffixes of `groups` whose providers must be in one subtree, a set for each subtree.
    pub same_subtrees: &'a [BTreeSet<String>],
    /// The aggregates of each routed network of the request. A host must be in one aggregate of each list.
    pub network_aggregates: &'a [Vec<String>],
    /// Whether a port of the request is remote-managed (on a SmartNIC).
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
