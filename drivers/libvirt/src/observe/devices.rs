//! Observes the listed devices in the kernel's device tree, joins them with libvirt's mediated devices, and applies the
//! rules that all drivers share (`berth-sysfs`).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use berth_model::{NodeName, PciAddress};
use berth_sysfs::{
    ConditionChange, DeviceRefusal, LastObservation, OfferedDevices, SeenFunction, SeenMdevs,
    Sysfs, offered_devices,
};
use berth_virt::{ObserveError, OfferedMdevs, PhysicalGpu};

use super::error::unreadable;
use crate::devices::baselines;
use crate::gpus::physical_gpus;
use crate::node_device::{Mdev, MdevParentFunction};
use crate::options::LibvirtOptions;

/// Reads the state of the listed functions.
pub(super) fn observe_devices(
    sysfs: Option<&Sysfs>,
    options: &LibvirtOptions,
    last: &Mutex<LastObservation>,
    parents: &[MdevParentFunction],
    mdevs: &[Mdev],
) -> Result<Vec<SeenFunction>, ObserveError> {
    let lists = options.device_lists();
    let Some(sysfs) = sysfs.filter(|_| !lists.are_empty()) else {
        return Ok(Vec::new());
    };
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    let file = options.device_assignment.baselines.as_deref();
    if let Some(file) = file {
        last.recall(|| baselines::read(file))?;
    }
    let gpus = physical_gpus(parents, mdevs, &options.mdev_types);
    let offering: BTreeMap<_, _> = gpus
        .iter()
        .filter_map(|gpu| Some((gpu.address, gpu.offered.as_ref()?)))
        .collect();
    let mut parted = Vec::new();
    for gpu in parents.iter().map(|parent| parent.address) {
        let now = offering.contains_key(&gpu);
        parted.extend(last.parts(gpu, now).then_some(gpu));
    }
    let is_parted = |address: PciAddress| {
        options.mdev_types.names(address)
            || offering.contains_key(&address)
            || parted.contains(&address)
    };
    let (mut functions, changes) = sysfs
        .observe_devices(lists, &mut last, is_parted)
        .map_err(unreadable)?;
    if let Some(file) = file
        && let Err(error) = last.store_baselines(|now| baselines::write(file, now))
    {
        let file = file.display();
        tracing::warn!(%file, %error, "failed to store the devices' baselines; retrying at the next observation");
    }
    drop(last);
    changes.iter().for_each(log_condition);
    let names = type_names(sysfs, options)?;
    for seen in &mut functions {
        let address = seen.function.address;
        let offered = offering.get(&address).copied();
        if offered.is_some() || is_parted(address) {
            let one = options.mdev_types.of(address);
            seen.mdevs = one.map(|one| SeenMdevs {
                type_name: names.get(&(address, one.id.clone())).cloned(),
                existing: existing(mdevs, address, &one.id),
                total: offered.map_or(0, |offered: &OfferedMdevs| offered.total),
                mdev_type: one.id.clone(),
                class: one.class.clone(),
            });
        }
    }
    Ok(functions)
}

fn existing(
    mdevs: &[Mdev],
    parent: PciAddress,
    mdev_type: &str,
) -> std::collections::BTreeSet<uuid::Uuid> {
    mdevs
        .iter()
        .filter(|mdev| mdev.parent == Some(parent) && mdev.type_id == mdev_type)
        .map(|mdev| mdev.uuid)
        .collect()
}

/// The vendors' names of mediated device types, for the traits.
fn type_names(
    sysfs: &Sysfs,
    options: &LibvirtOptions,
) -> Result<BTreeMap<(PciAddress, String), String>, ObserveError> {
    let mut names = BTreeMap::new();
    if options.accelerator_devices.is_empty() {
        return Ok(names);
    }
    for parent in sysfs.mdev_parents().map_err(unreadable)? {
        let Ok(address) = parent.name.parse::<PciAddress>() else {
            continue;
        };
        for one in parent.types {
            if let Some(name) = one.name {
                names.insert((address, one.id), name);
            }
        }
    }
    Ok(names)
}

fn log_condition(changes: &ConditionChange) {
    let device = changes.address.to_string();
    match changes.condition.reason() {
        Some(_) => tracing::warn!(
            device,
            reason = changes.detail,
            "device is not fit for guests"
        ),
        None => tracing::info!(device, "device is fit for guests again"),
    }
}

/// The offered functions, and the GPUs without those of the accelerator service. Pure.
pub(super) fn offered(
    node: &NodeName,
    options: &LibvirtOptions,
    functions: &[SeenFunction],
    gpus: &mut [PhysicalGpu],
) -> OfferedDevices {
    let lists = options.device_lists();
    for gpu in gpus {
        let is_the_accelerators = |seen: &SeenFunction| {
            seen.function.address == gpu.address
                && lists.accelerator.admit(&seen.function, &seen.names).is_ok()
        };
        if functions.iter().any(is_the_accelerators) {
            gpu.offered = None;
        }
    }
    offered_devices(node, lists, functions)
}

/// Listed devices that cannot be offered: an error at the first observation, because the configuration is wrong; logged
/// and left out later, because a device that appears later must not affect the others.
pub(super) fn record_conditions(
    last: &Mutex<LastObservation>,
    refused: Vec<DeviceRefusal>,
) -> Result<(), ObserveError> {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    let new = last
        .record_condition(refused)
        .map_err(|refused| ObserveError::Configuration {
            option: refused.option().to_owned(),
            reason: refused.to_string(),
        })?;
    for refused in new {
        tracing::warn!(reason = refused.to_string(), "device is not offered");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use berth_sysfs::AllowList;
    use berth_virt::{DeviceCondition, UnfitReason};

    use super::*;

    const CARD: &str = "0000:81:00.0";

    /// One SSD on a link of 16 lanes, with 3 fatal errors.
    fn tree(root: &Path) {
        let at = root.join("devices/pci0000:80").join(CARD);
        fs::create_dir_all(&at).unwrap();
        for (file, content) in [
            ("vendor", "0x10de\n"),
            ("device", "0x1eb8\n"),
            ("class", "0x010802\n"),
            ("current_link_speed", "16.0 GT/s PCIe\n"),
            ("current_link_width", "16\n"),
            ("aer_dev_fatal", "TOTAL_ERR_FATAL 3\n"),
        ] {
            fs::write(at.join(file), content).unwrap();
        }
        let mut config = [0; 64];
        config[..4].copy_from_slice(&[0xde, 0x10, 0xb8, 0x1e]);
        fs::write(at.join("config"), config).unwrap();
        for directory in ["bus/pci/devices", "kernel/iommu_groups/7/devices"] {
            let directory = root.join(directory);
            fs::create_dir_all(&directory).unwrap();
            symlink(&at, directory.join(CARD)).unwrap();
        }
        let group = root.join("kernel/iommu_groups/7");
        symlink(group, at.join("iommu_group")).unwrap();
    }

    #[test]
    fn what_a_device_reported_is_remembered_by_the_next_process() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("sys");
        tree(&root);
        let mut options = LibvirtOptions::new("qemu:///system");
        let list = [serde_json::json!({"address": CARD})];
        options.accelerator_devices = AllowList::read(&list).unwrap();
        options.device_assignment.baselines = Some(folder.path().join("state/baselines"));
        let observe = |last: &Mutex<LastObservation>| {
            let seen = super::observe_devices(Some(&Sysfs::at(&root)), &options, last, &[], &[]);
            seen.map(|seen| seen[0].condition)
        };
        let ill = DeviceCondition::Unfit {
            reason: UnfitReason::Aer,
        };
        // A one-time observer writes no file.
        assert_eq!(observe(&Mutex::default()).unwrap(), DeviceCondition::Fit);
        let file = options.device_assignment.baselines.clone().unwrap();
        assert!(!file.exists());
        let agent = || {
            let mut last = LastObservation::default();
            last.enable_baselines();
            Mutex::new(last)
        };
        assert_eq!(observe(&agent()).unwrap(), DeviceCondition::Fit);
        let errors = root
            .join("bus/pci/devices")
            .join(CARD)
            .join("aer_dev_fatal");
        fs::write(errors, "TOTAL_ERR_FATAL 4\n").unwrap();
        for next in [Mutex::default(), agent()] {
            assert_eq!(observe(&next).unwrap(), ill);
        }
        let next = agent();
        assert_eq!(observe(&next).unwrap(), ill);
        next.lock().unwrap().forget(CARD.parse().unwrap());
        assert_eq!(observe(&next).unwrap(), DeviceCondition::Fit);
        assert_eq!(observe(&Mutex::default()).unwrap(), DeviceCondition::Fit);
        fs::write(file, "nonsense\n").unwrap();
        assert!(observe(&Mutex::default()).is_err());
    }
}
