//! Partitions of an NVSwitch fabric, as NVIDIA's Fabric Manager knows them. Pure.
//!
//! On a machine with NVSwitch (HGX) the GPUs of one guest must be one partition. It is activated before the guest starts and
//! deactivated after the guest ends. The operator lists the partitions (`[fabric] partitions`):
//!
//! ```toml
//! [[fabric.partitions]]
//! id = 3                                      # Fabric Manager's ID
//! devices = ["0000:0f:00.0", "0000:2d:00.0"]  # the GPUs
//! ```
//!
//! Partitions overlap: eight GPUs can be one partition, or two of four GPUs. [`FabricPartitions::partition_of`] finds the
//! partition of a guest. [`FabricPartitions::offer_in`] replaces the GPUs of a node by its partitions: each is one unit, and it
//! is reserved while a guest with another partition uses one of its GPUs.

mod entry;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use berth_model::{ConsumerUuid, PciAddress, ResourceClass};
use berth_options::{Json, OptionKind, TablesKind, WrongElement};

use crate::{
    ClassOrigin, DeviceCondition, DeviceOwner, DeviceUnit, NodeView, OfferedDevice, OfferedHandle,
};

/// The kind of the option `[fabric] partitions`.
pub const FABRIC_PARTITIONS: OptionKind = OptionKind::Tables(&TablesKind {
    write: "write tables such as [{ id = 1, devices = [\"0000:0f:00.0\", \"0000:2d:00.0\"] }]",
    check: |entries| {
        let read = FabricPartitions::read(entries).map(drop);
        read.map_err(|error| WrongElement {
            element: error.entry.checked_sub(1),
            wrong: error.to_string(),
        })
    },
});

/// What is wrong with an entry of `[fabric] partitions`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("partitions entry {entry}: {}{reason}", if key.is_empty() { String::new() } else { format!("{key}: ") })]
pub struct FabricPartitionError {
    /// The number of the entry, counted from 1.
    pub entry: usize,
    /// The key; empty for the entry as a whole.
    pub key: String,
    /// What is wrong and what is expected.
    pub reason: String,
}

/// A set of GPUs that guests get together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FabricPartition {
    /// Fabric Manager's ID.
    pub id: u32,
    /// The GPUs. At least one.
    pub functions: BTreeSet<PciAddress>,
    /// The class of its inventory: one unit.
    pub class: ResourceClass,
}

impl fmt::Display for FabricPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.id, list(&self.functions))
    }
}

/// The partitions that the operator listed. Each ID and each set of GPUs is there once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FabricPartitions {
    partitions: Vec<FabricPartition>,
}

/// The GPUs of a guest are not one partition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no entry of [fabric] partitions has exactly these GPUs; partitions with one of them are {}",
    partitions.join(", ")
)]
pub struct NoPartition {
    /// The guest's GPUs, as far as partitions have them.
    pub functions: BTreeSet<PciAddress>,
    /// The partitions that have one of them, each with its ID and its GPUs.
    pub partitions: Vec<String>,
}

/// A partition that a node cannot offer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "partition {id} of [fabric] partitions is not offered, because {} in no entry of [pci] device_spec that offers whole \
     functions",
    are(functions)
)]
pub struct IncompletePartition {
    /// The ID of the partition.
    pub id: u32,
    /// Its GPUs that the node does not offer to flavors.
    pub functions: BTreeSet<PciAddress>,
}

fn list(functions: &BTreeSet<PciAddress>) -> String {
    let functions: Vec<_> = functions.iter().map(ToString::to_string).collect();
    functions.join(", ")
}

fn are(functions: &BTreeSet<PciAddress>) -> String {
    let verb = if functions.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", list(functions))
}

impl FabricPartitions {
    /// Reads the entries of `[fabric] partitions`.
    ///
    /// Errors: an entry has a wrong key or value, repeats an ID or a set of GPUs, or has the class of an entry with another
    /// number of GPUs.
    pub fn read(entries: &[Json]) -> Result<Self, FabricPartitionError> {
        let mut partitions: Vec<FabricPartition> = Vec::new();
        let mut of_entries = Vec::new();
        for (entry, tables) in (1..).zip(entries) {
            let refuse =
                |(key, reason): (String, String)| FabricPartitionError { entry, key, reason };
            for partition in entry::read(tables).map_err(refuse)? {
                for (number, other) in of_entries.iter().zip(&partitions) {
                    if let Some((key, reason)) = contradiction(&partition, *number, other) {
                        return Err(refuse((key.to_owned(), reason)));
                    }
                }
                partitions.push(partition);
                of_entries.push(entry);
            }
        }
        Ok(Self { partitions })
    }

    /// Whether there is no partition, so that nothing is activated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// The partition that has exactly these functions, as far as they are in any partition. `None`: none is in one.
    ///
    /// Errors: some are in partitions, and no partition has exactly these.
    pub fn partition_of(
        &self,
        functions: &BTreeSet<PciAddress>,
    ) -> Result<Option<&FabricPartition>, NoPartition> {
        let functions = self.members(functions);
        if functions.is_empty() {
            return Ok(None);
        }
        let mut all = self.partitions.iter();
        if let Some(exact) = all.find(|partition| partition.functions == functions) {
            return Ok(Some(exact));
        }
        let near = self.partitions.iter();
        let near = near.filter(|partition| !partition.functions.is_disjoint(&functions));
        Err(NoPartition {
            partitions: near.map(ToString::to_string).collect(),
            functions,
        })
    }

    /// The functions that are in a partition.
    fn members(&self, functions: &BTreeSet<PciAddress>) -> BTreeSet<PciAddress> {
        let is_member = |function: &PciAddress| {
            self.partitions
                .iter()
                .any(|it| it.functions.contains(function))
        };
        functions.iter().copied().filter(is_member).collect()
    }

    /// Replaces the GPUs of the node by partitions, and returns those that it cannot offer. Only GPUs that flavors request are
    /// replaced: the accelerator service binds each device of its own. `claimed` are the functions that guests have claimed;
    /// those of the guests on the hypervisor are added.
    ///
    /// A partition is unfit if one of its GPUs is. If a guest uses a part of its GPUs, or more than its GPUs, they are in
    /// `unfit_handles`.
    pub fn offer_in(
        &self,
        node: &mut NodeView,
        claimed: &BTreeMap<ConsumerUuid, BTreeSet<PciAddress>>,
    ) -> Vec<IncompletePartition> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut users = claimed.clone();
        for (uuid, guest) in &node.guests {
            users.entry(*uuid).or_default().extend(&guest.functions);
        }
        let users: Vec<_> = users.values().map(|used| self.members(used)).collect();
        let mut gpus = BTreeMap::new();
        let mut owned_by_accelerator = BTreeSet::new();
        for device in &node.devices {
            match whole_function(device) {
                Some(function) if device.owner == DeviceOwner::Compute => {
                    gpus.insert(function, device.clone());
                }
                Some(function) => {
                    owned_by_accelerator.insert(function);
                }
                None => {}
            }
        }
        node.devices.retain(|device| {
            let function = whole_function(device);
            let is_member = |function| !self.members(&BTreeSet::from([function])).is_empty();
            device.owner != DeviceOwner::Compute || !function.is_some_and(is_member)
        });
        let mut incomplete = Vec::new();
        for partition in &self.partitions {
            if partition.functions.is_subset(&owned_by_accelerator) {
                continue;
            }
            let members = partition
                .functions
                .iter()
                .map(|function| gpus.get(function));
            match members.collect::<Option<Vec<_>>>() {
                Some(members) => node.devices.extend(offered(partition, &members, &users)),
                None => incomplete.push(IncompletePartition {
                    id: partition.id,
                    functions: partition
                        .functions
                        .iter()
                        .copied()
                        .filter(|function| !gpus.contains_key(function))
                        .collect(),
                }),
            }
        }
        incomplete
    }
}

/// Why two partitions cannot both be listed; `None` if they can.
fn contradiction(
    partition: &FabricPartition,
    number: usize,
    other: &FabricPartition,
) -> Option<(&'static str, String)> {
    if partition.id == other.id {
        let reason = format!("{} is the ID of entry {number}, too", partition.id);
        return Some(("id", reason));
    }
    if partition.functions == other.functions {
        let reason = format!("entry {number} has the same devices; list one of the two");
        return Some(("devices", reason));
    }
    let (own, others) = (partition.functions.len(), other.functions.len());
    (partition.class == other.class && own != others).then(|| {
        let reason = format!(
            "{} is the class of entry {number}, which has {others} devices instead of {own}; name another class",
            partition.class
        );
        ("resource_class", reason)
    })
}

/// The function that is offered as a whole.
fn whole_function(device: &OfferedDevice) -> Option<PciAddress> {
    let whole = [OfferedHandle::Function(device.address)];
    let is_whole = device.unit == DeviceUnit::Handle && device.handles == whole;
    is_whole.then_some(device.address)
}

fn offered(
    partition: &FabricPartition,
    members: &[&OfferedDevice],
    users: &[BTreeSet<PciAddress>],
) -> Option<OfferedDevice> {
    let first = *members.first()?;
    let numa_node = first.numa_node;
    let is_in_one_cell = members.iter().all(|member| member.numa_node == numa_node);
    let is_in_all = |name: &&_| members.iter().all(|member| member.traits.contains(*name));
    let reasons = members
        .iter()
        .filter_map(|member| member.condition.reason());
    let of_others = users.iter().filter(|used| **used != partition.functions);
    let used_by_others = of_others
        .flatten()
        .filter(|function| partition.functions.contains(function));
    let used_by_others = used_by_others.copied().map(OfferedHandle::Function);
    let set_aside = members.iter().flat_map(|member| &member.unfit_handles);
    Some(OfferedDevice {
        numa_node: numa_node.filter(|_| is_in_one_cell),
        // Flavors request a partition by its class, and its GPUs are connected.
        link_group: None,
        physical_network: None,
        network_functions: BTreeMap::new(),
        class: partition.class.clone(),
        class_origin: ClassOrigin::Configured,
        traits: first.traits.iter().filter(is_in_all).cloned().collect(),
        handles: members
            .iter()
            .flat_map(|member| member.handles.clone())
            .collect(),
        unit: DeviceUnit::Partition(partition.id),
        unfit_handles: set_aside.cloned().chain(used_by_others).collect(),
        one_time_use: members.iter().any(|member| member.one_time_use),
        condition: reasons
            .min()
            .map_or(DeviceCondition::Fit, |reason| DeviceCondition::Unfit {
                reason,
            }),
        ..first.clone()
    })
}
