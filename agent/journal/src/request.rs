//! [`GuestRequest`]: the request for a guest: its spec, its disks, and its accelerator requests.

use std::collections::BTreeSet;

use berth_agent_images::{DiskPlan, DiskPlanError};
use berth_model::{ArqUuid, ConsumerUuid, NodeName};
use berth_virt::CpuSet;
use berth_virt::guest_spec::{
    AttachedDevice, CpuPinning, DeviceOrigin, GuestBoot, GuestDevice, GuestDevices, GuestDisks,
    GuestInterfaces, GuestSpec, GuestSpecError, MachineOptions,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::host_placement::{HostPlacement, NetworkFunction};

/// Maximum number of accelerator requests of a guest. No machine has so many devices.
const MOST_ARQS: usize = 256;

/// The request is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuestRequestError {
    /// The node's name is invalid.
    #[error("node: {reason}")]
    Node { reason: String },
    /// An accelerator request's UUID is invalid.
    #[error("accelerator_requests: {reason}")]
    Arq { reason: String },
    /// An accelerator request occurs twice.
    #[error("accelerator_requests: {arq} is there twice")]
    Twice { arq: ArqUuid },
    #[error("accelerator_requests: a guest has at most {MOST_ARQS}, not {found}")]
    TooMany { found: usize },
    /// The spec has a device of an accelerator request. Only the accelerator service assigns these.
    #[error(
        "spec.devices: the device of accelerator request {arq} is not the caller's to name; the accelerator service says \
         what it is bound to"
    )]
    DeviceOfArq { arq: ArqUuid },
    /// The spec's disks do not match the disk plan.
    #[error(transparent)]
    Disks(#[from] DiskPlanError),
}

/// The request for a guest. Requests from a journal are checked like new ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RequestRecord", into = "RequestRecord")]
pub struct GuestRequest {
    node: NodeName,
    arqs: BTreeSet<ArqUuid>,
    spec: GuestSpec,
    disks: DiskPlan,
    host_placement: HostPlacement,
}

impl GuestRequest {
    /// A guest on `node`, which replaces the node of `spec`, with the devices that `arqs` are or will be bound to. `spec` does
    /// not contain these devices.
    ///
    /// Errors: A request occurs twice, there are too many, or `spec` has a device of a request.
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
            if let Some(arq) = attached.origin.arq() {
                return Err(GuestRequestError::DeviceOfArq { arq });
            }
        }
        // A driver with several nodes needs the node of the guest.
        spec.node = Some(node.clone());
        Ok(Self {
            node,
            arqs: known,
            spec,
            disks: DiskPlan::default(),
            host_placement: HostPlacement::default(),
        })
    }

    /// The same with the plan that creates the disks of its spec, from [`berth_agent_images::InstancesPath::disks`].
    pub fn with_disks(self, disks: DiskPlan) -> Result<Self, GuestRequestError> {
        disks.fits(&self.spec.disks)?;
        Ok(Self { disks, ..self })
    }

    /// The same guest with another boot source and other disks.
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

    /// The same with another machine.
    #[must_use]
    pub fn with_machine(mut self, machine: MachineOptions) -> Self {
        self.spec.machine = machine;
        self
    }

    /// The same with other interfaces.
    #[must_use]
    pub fn with_interfaces(mut self, interfaces: GuestInterfaces) -> Self {
        self.spec.interfaces = interfaces;
        self
    }

    /// The same with a network function for a port that is attached later. The function is a device of the guest.
    pub fn with_function(
        mut self,
        function: NetworkFunction,
        device: GuestDevice,
    ) -> Result<Self, GuestSpecError> {
        let origin = DeviceOrigin::Port(function.port);
        let mut devices = self.spec.devices.as_slice().to_vec();
        devices.push(AttachedDevice { device, origin });
        self.spec.devices = GuestDevices::new(devices)?;
        let functions = self.host_placement.network_functions().iter().cloned();
        let functions = functions.chain([function]).collect();
        self.host_placement = self.host_placement.with_network_functions(functions);
        Ok(self)
    }

    /// The same without the network functions of these ports.
    pub fn without_functions(
        mut self,
        is_removed: impl Fn(Uuid) -> bool,
    ) -> Result<Self, GuestSpecError> {
        let devices = self.spec.devices.as_slice().iter().copied();
        let devices = devices.filter(
            |attached| !matches!(attached.origin, DeviceOrigin::Port(port) if is_removed(port)),
        );
        self.spec.devices = GuestDevices::new(devices.collect())?;
        let mut functions = self.host_placement.network_functions().to_vec();
        functions.retain(|function| !is_removed(function.port));
        self.host_placement = self.host_placement.with_network_functions(functions);
        Ok(self)
    }

    /// The same with the agent's selection, whose CPUs and devices are in the spec.
    #[must_use]
    pub fn with_host_placement(self, host_placement: HostPlacement) -> Self {
        Self {
            host_placement,
            ..self
        }
    }

    #[must_use]
    pub fn uuid(&self) -> ConsumerUuid {
        self.spec.uuid
    }

    /// The node of the guest: the `hostname` of its accelerator requests.
    #[must_use]
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    #[must_use]
    pub fn arqs(&self) -> &BTreeSet<ArqUuid> {
        &self.arqs
    }

    /// The guest without the devices of its accelerator requests.
    #[must_use]
    pub fn spec(&self) -> &GuestSpec {
        &self.spec
    }

    /// The plan that creates the disks; empty if the requester created them.
    #[must_use]
    pub fn disks(&self) -> &DiskPlan {
        &self.disks
    }

    /// The agent's selection; empty if the request had a complete spec.
    #[must_use]
    pub fn host_placement(&self) -> &HostPlacement {
        &self.host_placement
    }

    /// The host CPUs that no other guest may be pinned to.
    #[must_use]
    pub fn reserved_cpus(&self) -> CpuSet {
        let pinning = self.spec.topology.pinning();
        let pinned = pinning.map(CpuPinning::dedicated).unwrap_or_default();
        let reserved = self.host_placement.reserved_cpus().iter();
        reserved.chain(pinned.iter()).collect()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestRecord {
    node: String,
    accelerator_requests: Vec<String>,
    spec: GuestSpec,
    /// Missing in rows of releases that did not create disks.
    #[serde(default, skip_serializing_if = "DiskPlan::is_none")]
    disks: DiskPlan,
    #[serde(
        rename = "picked",
        default,
        skip_serializing_if = "HostPlacement::is_none"
    )]
    host_placement: HostPlacement,
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
            .map(|request| request.with_host_placement(record.host_placement))
    }
}

impl From<GuestRequest> for RequestRecord {
    fn from(request: GuestRequest) -> Self {
        Self {
            node: request.node.as_str().to_owned(),
            accelerator_requests: request.arqs.iter().map(ToString::to_string).collect(),
            spec: request.spec,
            disks: request.disks,
            host_placement: request.host_placement,
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
