//! Observes mediated devices and their parent cards.

use berth_model::PciAddress;
use berth_sysfs::Sysfs;
use berth_virt::ObserveError;
use virt::connect::Connect;
use virt::error::ErrorNumber;
use virt_sys as sys;

use super::error::{malformed, unreadable};
use super::{is, refused};
use crate::node_device::{Mdev, MdevParentFunction, NodeDevice};

/// How often the observation is repeated while mediated devices change.
const MAX_ATTEMPTS: u32 = 4;

/// The parent cards and existing mediated devices: from the device tree, or from libvirt without one or for its test
/// driver. libvirtd updates the number of available instances at once but learns later of a created device; in between
/// the device is in neither number, and a unit would be missing in Placement.
pub(super) fn mediated_devices(
    connect: &Connect,
    kind: &str,
    sysfs: Option<&Sysfs>,
) -> Result<(Vec<MdevParentFunction>, Vec<Mdev>), ObserveError> {
    if let Some(sysfs) = sysfs.filter(|_| kind != "TEST") {
        return mediated_devices_of_tree(sysfs);
    }
    let wanted = sys::VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV_TYPES
        | sys::VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV;
    // Without ACTIVE, newer libvirts also list mediated devices that are only defined. The test driver refuses the flag.
    let flags = match kind {
        "TEST" => wanted,
        _ => wanted | sys::VIR_CONNECT_LIST_NODE_DEVICES_ACTIVE,
    };
    let listed = match connect.list_all_node_devices(flags) {
        // A libvirt from before that flag.
        Err(error) if is(&error, ErrorNumber::InvalidArg) => connect.list_all_node_devices(wanted),
        listed => listed,
    };
    let devices = match (listed, sysfs) {
        (Ok(devices), _) => devices,
        (Err(error), sysfs) if is(&error, ErrorNumber::NoSupport) => {
            return sysfs.map_or_else(|| Ok((Vec::new(), Vec::new())), mediated_devices_of_tree);
        }
        (Err(error), _) => return Err(refused("virConnectListAllNodeDevices")(error)),
    };
    let (mut parents, mut mdevs) = (Vec::new(), Vec::new());
    for device in devices {
        let text = match device.xml_desc(0) {
            Ok(text) => text,
            // It disappeared since it was listed.
            Err(error) if is(&error, ErrorNumber::NoNodeDevice) => continue,
            Err(error) => return Err(refused("virNodeDeviceGetXMLDesc")(error)),
        };
        match NodeDevice::read(&text).map_err(malformed)? {
            NodeDevice::MdevParent(parent) => parents.push(parent),
            NodeDevice::Mdev(mdev) => mdevs.push(mdev),
            NodeDevice::Other => {}
        }
    }
    Ok((parents, mdevs))
}

/// A consistent snapshot of both, unless they change with every attempt.
fn mediated_devices_of_tree(
    sysfs: &Sysfs,
) -> Result<(Vec<MdevParentFunction>, Vec<Mdev>), ObserveError> {
    let mut before = sysfs.mdev_devices().map_err(unreadable)?;
    let mut attempts = 0;
    let (parents, mdevs) = loop {
        let parents = parents_of_tree(sysfs)?;
        let mdevs = sysfs.mdev_devices().map_err(unreadable)?;
        attempts += 1;
        if mdevs == before || attempts == MAX_ATTEMPTS {
            break (parents, mdevs);
        }
        before = mdevs;
    };
    let mdevs = mdevs.into_iter().map(|mdev| Mdev {
        uuid: mdev.uuid,
        type_id: mdev.type_id,
        parent: mdev.parent.parse().ok(),
    });
    Ok((parents, mdevs.collect()))
}

fn parents_of_tree(sysfs: &Sysfs) -> Result<Vec<MdevParentFunction>, ObserveError> {
    let mut parents = Vec::new();
    for parent in sysfs.mdev_parents().map_err(unreadable)? {
        let Ok(address) = parent.name.parse() else {
            continue;
        };
        parents.push(MdevParentFunction {
            address,
            numa_node: numa_node(sysfs, address)?,
            available: parent
                .types
                .into_iter()
                .map(|one| (one.id, u64::from(one.available_instances)))
                .collect(),
        });
    }
    Ok(parents)
}

fn numa_node(sysfs: &Sysfs, address: PciAddress) -> Result<Option<u32>, ObserveError> {
    let function = sysfs.pci_function(address).map_err(unreadable)?;
    Ok(function.and_then(|function| function.numa_node))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn mediated_devices_are_read_from_the_device_tree_where_libvirt_has_none() {
        let tree = tempfile::tempdir().unwrap();
        let card = tree.path().join("devices/0000:81:00.0");
        let one_type = card.join("mdev_supported_types/nvidia-222");
        let uuid = "4b20d080-1b54-4048-85b3-a6a62d165c01";
        let mdev = card.join(uuid);
        for (file, content) in [
            (card.join("vendor"), "0x10de"),
            (card.join("device"), "0x1eb8"),
            (card.join("class"), "0x030200"),
            (card.join("numa_node"), "1"),
            (one_type.join("available_instances"), "15"),
            (one_type.join("device_api"), "vfio-pci"),
            (mdev.join("uevent"), ""),
            (tree.path().join("class/mdev_bus/mtty/uevent"), ""),
        ] {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        symlink(&one_type, mdev.join("mdev_type")).unwrap();
        for (link, target) in [
            ("bus/pci/devices/0000:81:00.0", &card),
            ("class/mdev_bus/0000:81:00.0", &card),
            (
                "bus/mdev/devices/4b20d080-1b54-4048-85b3-a6a62d165c01",
                &mdev,
            ),
        ] {
            let link = tree.path().join(link);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(target, link).unwrap();
        }
        let (parents, mdevs) = mediated_devices_of_tree(&Sysfs::at(tree.path())).unwrap();
        let address = "0000:81:00.0".parse().unwrap();
        assert_eq!(
            parents,
            [MdevParentFunction {
                address,
                numa_node: Some(1),
                available: [("nvidia-222".to_owned(), 15)].into(),
            }]
        );
        assert_eq!(
            mdevs,
            [Mdev {
                uuid: uuid.parse().unwrap(),
                type_id: "nvidia-222".to_owned(),
                parent: Some(address),
            }]
        );
    }
}
