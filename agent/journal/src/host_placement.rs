//! [`HostPlacement`]: the CPUs and devices that the agent selected for a guest. It is part of the recorded request.

use std::collections::BTreeMap;
use std::fmt;

use berth_agent_images::serde_text;
use berth_virt::{CpuSet, WantedDevice};
use berth_wire::guest::GuestBuild;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

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
    /// Missing in rows of releases that did not report host states.
    #[serde(
        rename = "described",
        default,
        skip_serializing_if = "SchedulingFacts::is_none"
    )]
    scheduling_facts: SchedulingFacts,
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
            scheduling_facts: SchedulingFacts::default(),
        }
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
