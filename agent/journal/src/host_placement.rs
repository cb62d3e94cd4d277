//! [`HostPlacement`]: the CPUs and devices that the agent selected for a guest. It is part of the recorded request.

use std::collections::BTreeMap;
use std::fmt;

use berth_agent_images::serde_text;
use berth_model::PciAddress;
use berth_virt::{CpuSet, NetworkFunctionFacts, WantedDevice};
use berth_wire::guest::GuestBuild;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// SHA-256 of a build's serialised body. Two builds with the same digest are the same request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildDigest(String);

impl BuildDigest {
    #[must_use]
    pub fn of(build: &GuestBuild) -> Self {
        let digest = Sha256::digest(berth_wire::encode(build));
        Self(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl fmt::Display for BuildDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The agent's selection for a guest. Empty for a guest whose request had a complete spec.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPlacement {
    build: Option<BuildDigest>,
    /// CPUs that no other guest may be pinned to.
    #[serde(with = "serde_text")]
    reserved_cpus: CpuSet,
    /// The flavor's mediated devices, with their parents.
    mdevs: Vec<WantedDevice>,
    /// Missing in rows of releases without ports of this kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    network_functions: Vec<NetworkFunction>,
    /// Missing in rows of releases that did not report host states.
    #[serde(
        rename = "described",
        default,
        skip_serializing_if = "SchedulingFacts::is_none"
    )]
    scheduling_facts: SchedulingFacts,
}

/// A virtual function of a network card (SR-IOV) that the agent selected for a port. The port is bound to it later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkFunction {
    /// The port's UUID in Neutron.
    pub port: Uuid,
    #[serde(with = "serde_text")]
    pub address: PciAddress,
    pub vendor_id: u16,
    pub product_id: u16,
    /// The physical network that the card is connected to.
    pub physical_network: String,
    pub facts: NetworkFunctionFacts,
}

/// Facts about a guest for the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulingFacts {
    /// Name of the flavor; `None` if the request had a complete spec.
    pub flavor: Option<String>,
    pub image_properties: BTreeMap<String, String>,
}

impl SchedulingFacts {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl HostPlacement {
    pub fn new(
        build: Option<BuildDigest>,
        reserved_cpus: CpuSet,
        mdevs: Vec<WantedDevice>,
    ) -> Self {
        Self {
            build,
            reserved_cpus,
            mdevs,
            network_functions: Vec::new(),
            scheduling_facts: SchedulingFacts::default(),
        }
    }

    /// The same placement with network functions for the guest's ports.
    #[must_use]
    pub fn with_network_functions(self, network_functions: Vec<NetworkFunction>) -> Self {
        Self {
            network_functions,
            ..self
        }
    }

    /// The network functions for the guest's ports.
    #[must_use]
    pub fn network_functions(&self) -> &[NetworkFunction] {
        &self.network_functions
    }

    /// The same placement with facts for the scheduler.
    #[must_use]
    pub fn with_scheduling_facts(self, scheduling_facts: SchedulingFacts) -> Self {
        Self {
            scheduling_facts,
            ..self
        }
    }

    /// The facts for the scheduler.
    #[must_use]
    pub fn scheduling_facts(&self) -> &SchedulingFacts {
        &self.scheduling_facts
    }

    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The digest of the build; `None` if the request was complete.
    #[must_use]
    pub fn build_digest(&self) -> Option<&BuildDigest> {
        self.build.as_ref()
    }

    /// The CPUs that no other guest may be pinned to.
    #[must_use]
    pub fn reserved_cpus(&self) -> &CpuSet {
        &self.reserved_cpus
    }

    /// The flavor's mediated devices, with their parents.
    #[must_use]
    pub fn mdevs(&self) -> &[WantedDevice] {
        &self.mdevs
    }
}
