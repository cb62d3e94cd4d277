//! The request spec, as in Nova: flavor, image, hints, server group, destination.

mod attestation;
mod hints;
mod image;
mod numa;
mod pci;
mod source;

use std::collections::{BTreeMap, BTreeSet};

use crate::plugin::PluginAnswers;

pub use attestation::{Attestation, AttestationExpiry, Attestations};
pub use hints::Hints;
pub use image::{ImageProperties, ImagePropertyError, RequestImage, architecture};
pub use numa::CpuCounts;
pub use numa::{
    CpuAllocationPolicy, CpuThreadPolicy, EmulatorThreadsPolicy, InstanceNumaCell,
    InstanceNumaTopology, NumaRequestError, PageSize, pci_numa_affinity_policy,
};
pub use pci::{
    NumaAffinityPolicy, PCI_ALIAS_SPEC, PciAlias, PciAliasError, PciRequest, PciRequestOrigin,
    SAME_LINK_GROUP_SPEC, aliases_of_one_link_group,
};
pub use source::FlavorAndImage;

/// One request, for one instance or several that are alike.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RequestSpec {
    /// The instance that is placed next.
    pub instance_uuid: String,
    /// The flavor of the server.
    pub flavor: RequestFlavor,
    /// The image to boot from; `None` for a volume without image properties.
    pub image: Option<RequestImage>,
    pub hints: Hints,
    /// The server group of the instance.
    pub group: Option<ServerGroup>,
    pub project_id: Option<String>,
    pub availability_zone: Option<String>,
    /// Devices, by alias or of ports.
    pub pci_requests: Vec<PciRequest>,
    /// The requested NUMA cells, derived from flavor and image; `None` without a NUMA topology.
    pub numa_topology: Option<InstanceNumaTopology>,
    /// Networks of its ports, which its memory and CPUs should be near to.
    pub network_metadata: Option<NetworkMetadata>,
    /// Hosts that an operator excluded.
    pub ignore_hosts: Vec<String>,
    /// The only allowed hosts; filters do not run.
    pub force_hosts: Vec<String>,
    /// The only allowed nodes; filters do not run.
    pub force_nodes: Vec<String>,
    /// Where to, for a move.
    pub requested_destination: Option<Destination>,
    /// Where a build failed before: host and node.
    pub tried: Vec<(String, String)>,
    /// Whether its root disk is a volume.
    pub is_bfv: bool,
    /// What was attested of the nodes when the request was made.
    pub attestations: Attestations,
    /// The results of plugins for the hosts of this request.
    pub plugin_answers: PluginAnswers,
}

/// The flavor of a request: Nova's `Flavor` object, with its names and with signed amounts, which a case may choose. The
/// model's `Flavor` has only what request groups are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestFlavor {
    /// What users call it.
    pub name: String,
    /// Its id in the API.
    pub flavorid: String,
    pub vcpus: i64,
    pub memory_mb: i64,
    /// Root disk in GiB.
    pub root_gb: i64,
    /// Ephemeral disk in GiB.
    pub ephemeral_gb: i64,
    pub swap: i64,
    /// What an operator demands for it.
    pub extra_specs: BTreeMap<String, String>,
}

impl Default for RequestFlavor {
    fn default() -> Self {
        Self {
            name: "m1.small".to_owned(),
            flavorid: "1".to_owned(),
            vcpus: 1,
            memory_mb: 512,
            root_gb: 1,
            ephemeral_gb: 0,
            swap: 0,
            extra_specs: BTreeMap::new(),
        }
    }
}

/// A server group at the time of the request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerGroup {
    /// `affinity`, `anti-affinity`, `soft-affinity`, `soft-anti-affinity`.
    pub policy: String,
    /// Its instances, by uuid.
    pub members: BTreeSet<String>,
    /// The hosts that they are on.
    pub hosts: BTreeSet<String>,
    /// For `anti-affinity`: the maximum number of members on one host; 1 by default.
    pub max_server_per_host: Option<i64>,
}

/// Networks that matter for where in a host an instance is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkMetadata {
    /// Physical networks of its ports.
    pub physnets: BTreeSet<String>,
    /// Whether a port is on a tunnelled network.
    pub tunneled: bool,
}

/// Where an instance is to go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Destination {
    /// The host; `None` if only the cell is given.
    pub host: Option<String>,
    /// The node of it.
    pub node: Option<String>,
    pub cell: Option<String>,
    /// Whether it may leave its cell.
    pub allow_cross_cell_move: bool,
}
