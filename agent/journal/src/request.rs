//! What the agent is asked for: a guest, and the accelerator requests whose devices it must have.

use std::collections::BTreeSet;

use berth_agent_images::{DiskPlan, DiskPlanError};
use berth_model::{ArqUuid, ConsumerUuid, NodeName};
use berth_virt::CpuSet;
use berth_virt::guest_spec::{DeviceOrigin, GuestBoot, GuestDisks, GuestSpec, CpuPinning};
use serde::{Deserialize, Serialize};

use crate::host_placement::HostPlacement;

/// The most accelerator requests of one guest: more functions than any machine has slots for.
const MOST_ARQS: usize = 256;

/// A request that cannot be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuestRequestError {
    /// The node's name is none.
    #[error("node: {reason}")]
    Node { reason: String },
    /// An accelerator request's UUID is none.
    #[error("accelerator_requests: {reason}")]
    Arq { reason: String },
    /// An accelerator request is named twice.
    #[error("accelerator_requests: {arq} is there twice")]
    Twice { arq: ArqUuid },
    /// There are too many.
    #[error("accelerator_requests: a guest has at most {MOST_ARQS}, not {found}")]
    TooMany {
        /// How many there are.
        found: usize,
    },
    /// A device already says that it belongs to an accelerator request.
    #[error(
        "spec.devices: the device of accelerator request {arq} is not the caller's to name; the accelerator service says \
         what it is bound to"
    )]
    DeviceOfArq { arq: ArqUuid },
    /// Its disks are not those of its plan.
    #[error(transparent)]
    Disks(#[from] DiskPlanError),
}

/// A guest as it is asked for. Made whole or not at all; a journal's text goes through the same checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RequestRecord", into = "RequestRecord")]
pub struct GuestRequest {
    node: NodeName,
    arqs: BTreeSet<ArqUuid>,
    spec: GuestSpec,
    disks: DiskPlan,
    picked: HostPlacement,
}

impl GuestRequest {
    /// A guest on `node`, whatever `spec` says of that, with the devices that `arqs` are, or will be, bound to. `spec` has no device
    /// of theirs yet.
    ///
    /// Errors: A request is there twice, there are too many, or `spec` names a device of one.
    pub fn new(
        node: NodeName,
        arqs: Vec<ArqUuid>,
        mut spec: GuestSpec,
    ) -> Result<Self, GuestRequestError> {
        if arqs.len() > MOST_ARQS {
            return Err(GuestRequestError::TooMany { found: arqs.len() });
        }
        let mut known = BTreeSet::new();
        for arq in arqs {
            if !known.insert(arq) {
                return Err(GuestRequestError::Twice { arq });
            }
        }
        for attached in spec.devices.as_slice() {
            if let DeviceOrigin::Arq(arq) = attached.origin {
                return Err(GuestRequestError::DeviceOfArq { arq });
            }
        }
        // A driver with several nodes must know on which it makes the guest.
        spec.node = Some(node.clone());
        Ok(Self {
            node,
            arqs: known,
            spec,
            disks: DiskPlan::default(),
            picked: HostPlacement::default(),
        })
    }

    /// The same with disks that are to be made: those that its spec names, by [`berth_agent_images::InstancesPath::disks`].
    pub fn with_disks(self, disks: DiskPlan) -> Result<Self, GuestRequestError> {
        disks.fits(&self.spec.disks)?;
        Ok(Self { disks, ..self })
    }

    /// The same guest, that starts from something else and has other disks.
    pub fn in_form(
        &self,
        boot: GuestBoot,
        disks: GuestDisks,
        plan: DiskPlan,
    ) -> Result<Self, GuestRequestError> {
        plan.fits(&disks)?;
        let mut request = self.clone();
        request.spec.boot = boot;
        request.spec.disks = disks;
        request.disks = plan;
        Ok(request)
    }

    /// The same with what the agent picked for it; its spec has the CPUs and devices.
    #[must_use]
    pub fn with_picked(self, picked: HostPlacement) -> Self {
        Self { picked, ..self }
    }

    #[must_use]
    pub fn uuid(&self) -> ConsumerUuid {
        self.spec.uuid
    }

    /// The node it shall be on: the `hostname` of its accelerator requests.
    #[must_use]
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    #[must_use]
    pub fn arqs(&self) -> &BTreeSet<ArqUuid> {
        &self.arqs
    }

    /// The guest as it is wanted, without the devices of its accelerator requests.
    #[must_use]
    pub fn spec(&self) -> &GuestSpec {
        &self.spec
    }

    /// The disks that are to be made; none where its spec's are its maker's own.
    #[must_use]
    pub fn disks(&self) -> &DiskPlan {
        &self.disks
    }

    /// What the agent picked for it; nothing where its spec came whole.
    #[must_use]
    pub fn picked(&self) -> &HostPlacement {
        &self.picked
    }

    /// The host CPUs that no other guest may be pinned to.
    #[must_use]
    pub fn reserved_cpus(&self) -> CpuSet {
        let pinning = self.spec.topology.pinning();
        let pinned = pinning.map(CpuPinning::dedicated).unwrap_or_default();
        let reserved = self.picked.reserved_cpus().iter();
        reserved.chain(pinned.iter()).collect()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestRecord {
    node: String,
    accelerator_requests: Vec<String>,
    spec: GuestSpec,
    /// Not there in rows of releases that made no disks.
    #[serde(default, skip_serializing_if = "DiskPlan::is_none")]
    disks: DiskPlan,
    #[serde(default, skip_serializing_if = "HostPlacement::is_none")]
    picked: HostPlacement,
}

impl TryFrom<RequestRecord> for GuestRequest {
    type Error = GuestRequestError;

    fn try_from(record: RequestRecord) -> Result<Self, GuestRequestError> {
        let node = NodeName::new(&record.node).map_err(|error| GuestRequestError::Node {
            reason: error.to_string(),
        })?;
        let arqs = record.accelerator_requests.iter().map(|text| {
            text.parse::<ArqUuid>()
                .map_err(|error| GuestRequestError::Arq {
                    reason: error.to_string(),
                })
        });
        Self::new(node, arqs.collect::<Result<_, _>>()?, record.spec)?
            .with_disks(record.disks)
            .map(|request| request.with_picked(record.picked))
    }
}

impl From<GuestRequest> for RequestRecord {
    fn from(request: GuestRequest) -> Self {
        Self {
            node: request.node.as_str().to_owned(),
            accelerator_requests: request.arqs.iter().map(ToString::to_string).collect(),
            spec: request.spec,
            disks: request.disks,
            picked: request.picked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::request;

    #[test]
    fn a_request_without_disks_of_an_older_journal_has_none() {
        let request = request(1, &[1]);
        let text = serde_json::to_string(&request).unwrap();
        assert!(!text.contains("root_gib"), "{text}");
        let read: GuestRequest = serde_json::from_str(&text).unwrap();
        assert!(read.disks().is_none() && read == request);
    }
}
