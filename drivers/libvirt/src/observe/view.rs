//! Builds the [`HostView`] from the facts. Pure.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{ConsumerUuid, MemoryEncryption, NodeName, PciAddress};
use berth_sysfs::{DeviceRefusal, SeenFunction, Sriov};
use berth_virt::{
    CpuSet, GuestMdev, GuestView, HostNumaCell, HostView, HypervisorInfo, NodeCapabilities,
    NodeCpus, NodeView, ObserveError, Processor, SupportedInstance,
};
use uuid::Uuid;

use super::{ObservedFacts, SteadyFacts, devices};
use crate::capabilities::Capabilities;
use crate::domain_capabilities::SevCapabilities;
use crate::gpus::physical_gpus;
use crate::guest::LibvirtGuest;
use crate::options::{LibvirtOptions, VirtType};
use crate::traits::{Hypervisor, traits};

/// The view, and the listed devices that are not offered.
pub(super) fn view(
    facts: ObservedFacts,
    options: &LibvirtOptions,
) -> Result<(HostView, Vec<DeviceRefusal>), ObserveError> {
    let node = match &options.node {
        Some(node) => node.clone(),
        None => NodeName::new(&facts.hostname).map_err(|error| ObserveError::Malformed {
            origin: "the hypervisor's hostname".to_owned(),
            reason: error.to_string(),
        })?,
    };
    let hypervisor = HypervisorInfo {
        kind: facts.steady.kind.clone(),
        version: facts.steady.version.clone(),
        hostname: facts.hostname.clone(),
    };
    let (seen, refused) = node_view(facts, options, &node)?;
    let view = HostView {
        hypervisor,
        nodes: BTreeMap::from([(node, seen)]),
    };
    Ok((view, refused))
}

fn node_view(
    facts: ObservedFacts,
    options: &LibvirtOptions,
    node: &NodeName,
) -> Result<(NodeView, Vec<DeviceRefusal>), ObserveError> {
    let cells = if facts.capabilities.cells.is_empty() {
        facts.cells
    } else {
        facts.capabilities.cells.clone()
    };
    let cpus = NodeCpus {
        online: online(facts.online, &cells, facts.active_cpus),
        shared: options.cpu_shared_set.clone(),
        dedicated: options.cpu_dedicated_set.clone(),
    };
    check_cpu_sets(&cpus)?;
    let parent_of: BTreeMap<_, _> = facts
        .mdevs
        .iter()
        .filter_map(|mdev| Some((mdev.uuid, mdev.parent?)))
        .collect();
    let dedicated = cpus.dedicated.clone().unwrap_or_default();
    let guests = facts.guests.into_iter().map(|guest| {
        let parent = |uuid| parent_of.get(&uuid).copied();
        (
            ConsumerUuid::from(guest.uuid),
            guest_view(guest, &cells, &dedicated, parent),
        )
    });
    let unreadable = facts.unreadable.into_iter();
    let unreadable = unreadable.map(|(uuid, guest)| (ConsumerUuid::from(uuid), guest));
    let mut gpus = physical_gpus(&facts.parents, &facts.mdevs, &options.mdev_types);
    let offered = devices::offered(node, options, &facts.functions, &mut gpus);
    let seen = NodeView {
        uuid: None,
        memory_mib: facts.memory_kib / 1024,
        disk: facts.disk,
        gpus,
        functions: Vec::new(),
        devices: offered.devices,
        pci: options.pci(),
        customs: Vec::new(),
        encryption_contexts: encryption_contexts(&facts.steady, options.virt_type),
        traits: traits(
            &facts.capabilities,
            &facts.steady.guest_features,
            &facts.steady.domain,
            Hypervisor {
                virt_type: options.virt_type,
                has_screens: options.vnc.is_some(),
                has_stateless_firmware: facts.steady.has_stateless_firmware,
                is_qemu: facts.steady.kind == "QEMU",
                libvirt: facts.steady.libvirt,
                emulator: facts.steady.emulator,
            },
        ),
        capabilities: capabilities(
            &facts.capabilities,
            &facts.steady.features,
            &facts.functions,
        ),
        guests: guests.collect(),
        unreadable: unreadable.collect(),
        model: options.model,
        cpus,
        cells,
    };
    Ok((seen, offered.refused))
}

/// The first QEMU with SEV-ES.
const SEV_ES_QEMU: u32 = 8_000_000;

/// The guests with encrypted memory that run at once. The kernel encrypts, so an emulator does not.
fn encryption_contexts(
    steady: &SteadyFacts,
    virt_type: VirtType,
) -> BTreeMap<MemoryEncryption, u64> {
    let sev = steady.domain.sev.filter(|_| virt_type == VirtType::Kvm);
    let has_es = steady.has_sev_es && steady.emulator >= SEV_ES_QEMU;
    sev.map(|sev| contexts(sev, has_es)).unwrap_or_default()
}

fn contexts(sev: SevCapabilities, has_es: bool) -> BTreeMap<MemoryEncryption, u64> {
    let es_guests = if has_es { sev.es_guests } else { 0 };
    let all = [
        (MemoryEncryption::AmdSev, sev.guests),
        (MemoryEncryption::AmdSevEs, es_guests),
    ];
    all.into_iter().filter(|(_, guests)| *guests > 0).collect()
}

/// The node's capabilities in Nova's terms.
fn capabilities(
    host: &Capabilities,
    features: &BTreeSet<String>,
    functions: &[SeenFunction],
) -> NodeCapabilities {
    let processor = host.processor.clone();
    let mut supported = Vec::new();
    for kind in &host.guests {
        for hv_type in &kind.domain_types {
            let instance = SupportedInstance {
                arch: kind.arch.clone(),
                hv_type: hv_type.clone(),
                vm_mode: kind.os_type.clone(),
            };
            if !supported.contains(&instance) {
                supported.push(instance);
            }
        }
    }
    let physical = functions.iter().map(|seen| &seen.function);
    let physical = physical.filter(|function| matches!(function.sriov, Sriov::Physical { .. }));
    NodeCapabilities {
        processor: processor.map(|processor| Processor {
            features: features.clone(),
            ..processor
        }),
        supported_instances: supported,
        physical_functions: physical.map(|function| function.address).collect(),
    }
}

/// The online CPUs: from the device tree, or else the union of all cells, or else as many as are active.
fn online(of_tree: Option<CpuSet>, cells: &[HostNumaCell], active: u32) -> CpuSet {
    let of_cells = || CpuSet::from_iter(cells.iter().flat_map(|cell| cell.cpus.iter()));
    of_tree.unwrap_or_else(|| match of_cells() {
        none if none.is_empty() => CpuSet::first(active),
        cpus => cpus,
    })
}

/// Refuses missing CPUs, like Nova, because a smaller inventory than configured would go unnoticed. Also refuses CPUs
/// that are both shared and dedicated, which would be allocated twice.
fn check_cpu_sets(cpus: &NodeCpus) -> Result<(), ObserveError> {
    let sets = [
        ("[compute] cpu_shared_set", &cpus.shared),
        ("[compute] cpu_dedicated_set", &cpus.dedicated),
    ];
    for (option, set) in sets {
        let offline = set.as_ref().map(|set| set.difference(&cpus.online));
        if let Some(offline) = offline.filter(|offline| !offline.is_empty()) {
            return Err(ObserveError::Configuration {
                option: option.to_owned(),
                reason: format!(
                    "CPUs {offline} are not online on this host, which has {}",
                    cpus.online
                ),
            });
        }
    }
    let both = cpus.shared_online().intersection(&cpus.dedicated_online());
    if !both.is_empty() {
        return Err(ObserveError::Configuration {
            option: "[compute] cpu_shared_set and cpu_dedicated_set".to_owned(),
            reason: format!("CPUs {both} are in both sets; a CPU can be in one of them only"),
        });
    }
    Ok(())
}

fn guest_view(
    guest: LibvirtGuest,
    cells: &[HostNumaCell],
    dedicated: &CpuSet,
    parent: impl Fn(Uuid) -> Option<PciAddress>,
) -> GuestView {
    GuestView {
        cpu_policy: guest.cpu_policy(dedicated),
        cells: guest.placement(cells),
        mdevs: guest
            .mdevs
            .iter()
            .map(|uuid| GuestMdev {
                uuid: *uuid,
                parent: parent(*uuid),
            })
            .collect(),
        name: guest.name,
        power: guest.power,
        // A migration that holds its allocations; the instance itself is known by the guest's UUID.
        also: guest
            .mark
            .map(|mark| mark.consumer)
            .filter(|consumer| *consumer.as_uuid() != guest.uuid)
            .into_iter()
            .collect(),
        vcpus: u64::from(guest.vcpus),
        memory_mib: guest.memory_mib,
        functions: guest.functions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn online_cpus_are_those_of_the_tree_else_of_the_cells_else_so_many() {
        let cell = HostNumaCell::new(0, "2-3".parse().unwrap(), 1);
        for (of_tree, cells, expected) in [
            (Some("0-5".parse().unwrap()), vec![cell.clone()], "0-5"),
            (None, vec![cell], "2-3"),
            (None, vec![], "0-3"),
        ] {
            assert_eq!(online(of_tree, &cells, 4).to_string(), expected);
        }
    }

    #[test]
    fn only_models_with_contexts_that_the_host_runs_are_offered() {
        let both = SevCapabilities {
            guests: 410,
            es_guests: 99,
        };
        let of_sev = (MemoryEncryption::AmdSev, 410);
        let of_es = (MemoryEncryption::AmdSevEs, 99);
        assert_eq!(contexts(both, true), [of_sev, of_es].into());
        assert_eq!(contexts(both, false), [of_sev].into());
        assert!(contexts(SevCapabilities::default(), true).is_empty());
    }
}
