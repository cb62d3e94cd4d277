//! What the agent picked for a guest, as it is journaled with the request.

use std::collections::BTreeMap;
use std::fmt;

use berth_agent_images::serde_text;
use berth_virt::{CpuSet, WantedDevice};
use berth_wire::guest::GuestBuild;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// By what two builds are the same: SHA-256 of the body as it would be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildDigest(String);

impl BuildDigest {
    /// That of a build.
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

/// What the agent picked for a guest. The default is nothing: a guest whose spec came whole.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPlacement {
    build: Option<BuildDigest>,
    /// CPUs that no other guest may be pinned to.
    #[serde(with = "serde_text")]
    reserved_cpus: CpuSet,
    /// The flavor's mediated devices, with what they are made of.
    mdevs: Vec<WantedDevice>,
    /// Not there in rows of releases that told no scheduler.
    #[serde(default, skip_serializing_if = "SchedulingFacts::is_none")]
    described: SchedulingFacts,
}

/// What schedulers ask of a guest beside what it has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulingFacts {
    /// Its flavor's name; none where its spec came whole.
    pub flavor: Option<String>,
    /// Properties of its image.
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
            described: SchedulingFacts::default(),
        }
    }

    /// The same with what schedulers ask of the guest.
    #[must_use]
    pub fn describing(self, described: SchedulingFacts) -> Self {
        Self { described, ..self }
    }

    /// What schedulers ask of the guest.
    #[must_use]
    pub fn described(&self) -> &SchedulingFacts {
        &self.described
    }

    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The build that the guest came of; none for one whose spec came whole.
    #[must_use]
    pub fn build(&self) -> Option<&BuildDigest> {
        self.build.as_ref()
    }

    /// The CPUs that no other guest may be pinned to.
    #[must_use]
    pub fn reserved_cpus(&self) -> &CpuSet {
        &self.reserved_cpus
    }

    /// The flavor's mediated devices, with what they are made of.
    #[must_use]
    pub fn mdevs(&self) -> &[WantedDevice] {
        &self.mdevs
    }
}
