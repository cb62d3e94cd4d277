//! Where virtual GPUs move: to the provider of the GPU of the guest's mediated devices.

use std::collections::BTreeMap;

use berth_model::{Home, HomelessReason, Homes, PciAddress, ProviderUuid, ResourceClass};

use super::{HomeQuery, at};
use crate::provider_tree::child_name;
use crate::{GuestView, PhysicalGpu, VgpuModel};

type ProviderAndClass = (ProviderUuid, ResourceClass);

pub(super) fn homes(query: &HomeQuery<'_>) -> Homes {
    if let Some((provider, class)) = place_without_guest(query) {
        return query.single_home(provider, class);
    }
    match query.guest() {
        Some(guest) => on_the_guests_gpus(query, guest),
        None => Homes::Nowhere(query.without_guest()),
    }
}

/// The new place if the old one determines it: back to the root, or the same GPU with a renamed class.
fn place_without_guest(query: &HomeQuery<'_>) -> Option<ProviderAndClass> {
    let left = query.allocation.provider;
    let gpu = || gpu_of(query, left).and_then(offered_class);
    match query.seen.model.vgpu {
        VgpuModel::PerGpu if query.is_on_root() => None,
        VgpuModel::PerGpu => Some((left, gpu()?)),
        VgpuModel::Root => {
            let class = &query.allocation.class;
            let same = query.tree.root().inventories.contains_key(class);
            let class = if same { Some(class.clone()) } else { gpu() };
            Some((query.root(), class?))
        }
    }
}

/// The GPU that a provider stands for, by name.
pub(super) fn gpu_of<'a>(query: &HomeQuery<'a>, provider: ProviderUuid) -> Option<&'a PhysicalGpu> {
    let name = &query.trees.get(provider)?.name;
    let mut gpus = query.seen.gpus.iter();
    gpus.find(|gpu| {
        child_name(query.node, &gpu.address.nodedev_name()).is_ok_and(|of_gpu| of_gpu == *name)
    })
}

fn offered_class(gpu: &PhysicalGpu) -> Option<ResourceClass> {
    gpu.offered
        .as_ref()
        .filter(|offered| offered.total > 0)
        .map(|offered| offered.class.clone())
}

/// One home for each GPU the guest uses, at most the allocation's amount together.
fn on_the_guests_gpus(query: &HomeQuery<'_>, guest: &GuestView) -> Homes {
    let mut parents: Vec<_> = guest.mdevs.iter().filter_map(|mdev| mdev.parent).collect();
    parents.sort();
    let mut places = Vec::new();
    let mut gone = None;
    for parent in parents {
        match place_of(query, parent) {
            Some(place) => places.push(place),
            None => {
                let _ = gone.get_or_insert(parent);
            }
        }
    }
    let mut homes: BTreeMap<ProviderAndClass, u64> = BTreeMap::new();
    let units = usize::try_from(query.allocation.amount).unwrap_or(usize::MAX);
    for place in best_first(query, places).into_iter().take(units) {
        *homes.entry(place).or_insert(0) += 1;
    }
    at(as_homes(homes), rest(query, gone))
}

/// Where a GPU's units are reported; `None` if it is missing or not offered.
fn place_of(query: &HomeQuery<'_>, address: PciAddress) -> Option<ProviderAndClass> {
    let gpu = query.seen.gpus.iter().find(|gpu| gpu.address == address)?;
    let class = offered_class(gpu)?;
    let provider = match query.seen.model.vgpu {
        VgpuModel::Root => query.tree.root(),
        VgpuModel::PerGpu => {
            let name = child_name(query.node, &address.nodedev_name()).ok()?;
            query.tree.by_name(&name)?
        }
    };
    Some((provider.uuid(), class))
}

/// Orders the places: first devices of the allocation's class, then those of classes that the consumer has no
/// allocation of (the class of their GPU has changed). Other devices belong to another allocation of the consumer.
fn best_first(query: &HomeQuery<'_>, places: Vec<ProviderAndClass>) -> Vec<ProviderAndClass> {
    let (mut same, other): (Vec<_>, Vec<_>) = places
        .into_iter()
        .partition(|(_, class)| *class == query.allocation.class);
    let is_held = |class: &ResourceClass| query.allocated(class).next().is_some();
    same.extend(other.into_iter().filter(|(_, class)| !is_held(class)));
    same
}

fn as_homes(homes: BTreeMap<ProviderAndClass, u64>) -> Vec<Home> {
    homes
        .into_iter()
        .map(|((provider, class), amount)| Home {
            provider,
            class,
            amount,
        })
        .collect()
}

fn rest(query: &HomeQuery<'_>, gone: Option<PciAddress>) -> HomelessReason {
    match gone {
        Some(address) => HomelessReason::DeviceGone {
            device: format!("{}_{}", query.node, address.nodedev_name()),
        },
        None => HomelessReason::Unknown,
    }
}
