//! A device tree with cards that this machine does not have, for a libvirtd in a mount namespace where it covers `/sys`.
//!
//! What libvirt's node device driver and libudev look for in a PCI function's directory, and no more.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A GPU with one type of mediated device, of which one exists, in the tree's only PCI domain.
pub(crate) const GPU: &str = "0000:81:00.0";
/// The mediated device that exists.
pub(crate) const MDEV: &str = "4b20d080-1b54-4048-85b3-a6a62d165c01";
pub(crate) const MDEV_TYPE: &str = "nvidia-222";
/// How many more of it can be made.
pub(crate) const AVAILABLE: u64 = 15;

/// A card that stands on the kernel's VFIO driver, ready for a guest.
pub(crate) const READY: &str = "0000:82:00.0";

/// A card that [`second_ready`] adds.
pub(crate) const SECOND_READY: &str = "0000:84:00.0";

/// A card that a driver of the host's has, for the hypervisor to take.
pub(crate) const TAKEN: &str = "0000:83:00.0";

/// A function that [`companion`] puts into the group of [`TAKEN`].
pub(crate) const COMPANION: &str = "0000:83:00.1";

/// The group that mediated devices get which are made later.
pub(crate) const MDEV_GROUP: u32 = 31;

/// Writes the tree under `root`.
pub(crate) fn write(root: &Path) {
    let gpu = function(root, GPU, "10de", "1eb8", "030200", 12);
    let one_type = gpu.join("mdev_supported_types").join(MDEV_TYPE);
    write_all(
        &one_type,
        &[
            ("name", "GRID T4-1B"),
            ("device_api", "vfio-pci"),
            ("available_instances", &AVAILABLE.to_string()),
            ("create", ""),
        ],
    );
    link(&root.join("class/mdev_bus").join(GPU), &gpu);
    let mdev = gpu.join(MDEV);
    write_all(&mdev, &[("uevent", "")]);
    link(&mdev.join("mdev_type"), &one_type);
    link(&mdev.join("subsystem"), &directory(&root.join("bus/mdev")));
    link(&mdev.join("iommu_group"), &group(root, 30));
    link(&root.join("bus/mdev/devices").join(MDEV), &mdev);

    ready(root, READY, 13);
    write_all(&root.join("bus/pci"), &[("drivers_probe", "")]);

    function(root, TAKEN, "8086", "10c9", "020000", 14);
    group(root, MDEV_GROUP);

    // Where the host's own CPUs are shown through.
    directory(&root.join("devices/system"));
}

/// Adds another card like [`READY`].
pub(crate) fn second_ready(root: &Path) {
    ready(root, SECOND_READY, 15);
}

fn ready(root: &Path, address: &str, of_group: u32) {
    let ready = function(root, address, "1234", "11e8", "00ff00", of_group);
    write_all(&ready, &[("driver_override", "vfio-pci"), ("enable", "0")]);
    let vfio = directory(&root.join("bus/pci/drivers/vfio-pci"));
    write_all(&vfio, &[("bind", ""), ("unbind", "")]);
    link(&ready.join("driver"), &vfio);
    link(&vfio.join(address), &ready);
}

/// Puts a second function into the group of [`TAKEN`].
pub(crate) fn companion(root: &Path) {
    function(root, COMPANION, "1234", "11e9", "040300", 14);
}

/// One PCI function on NUMA node 0; answers its directory.
fn function(
    root: &Path,
    address: &str,
    vendor: &str,
    device: &str,
    class: &str,
    of_group: u32,
) -> PathBuf {
    let at = root.join("devices/pci0000:80").join(address);
    let (upper_vendor, upper_device) = (vendor.to_uppercase(), device.to_uppercase());
    let uevent = format!(
        "PCI_CLASS={}\nPCI_ID={upper_vendor}:{upper_device}\nPCI_SUBSYS_ID={upper_vendor}:0001\nPCI_SLOT_NAME={address}\n",
        class.trim_start_matches('0').to_uppercase()
    );
    write_all(
        &at,
        &[
            ("vendor", &format!("0x{vendor}")),
            ("device", &format!("0x{device}")),
            ("class", &format!("0x{class}")),
            ("numa_node", "0"),
            ("uevent", &uevent),
            ("driver_override", "(null)"),
            ("reset", ""),
            ("reset_method", "flr bus"),
        ],
    );
    fs::write(at.join("config"), configuration_space(vendor, device)).expect("a file in the tree");
    link(&at.join("subsystem"), &directory(&root.join("bus/pci")));
    link(&root.join("bus/pci/devices").join(address), &at);
    let group = group(root, of_group);
    link(&at.join("iommu_group"), &group);
    link(&group.join("devices").join(address), &at);
    at
}

/// 256 bytes with these ids, and PCI Express with a function level reset as the only capability: libvirt then leaves resets to
/// VFIO.
fn configuration_space(vendor: &str, device: &str) -> [u8; 256] {
    let id = |text| u16::from_str_radix(text, 16).expect("an id");
    let mut space = [0; 256];
    space[..2].copy_from_slice(&id(vendor).to_le_bytes());
    space[2..4].copy_from_slice(&id(device).to_le_bytes());
    // The status register shows a capability list, and this is its start.
    (space[0x06], space[0x34]) = (0x10, 0x40);
    (space[0x40], space[0x47]) = (0x10, 0x10);
    space
}

fn group(root: &Path, number: u32) -> PathBuf {
    let group = root.join("kernel/iommu_groups").join(number.to_string());
    directory(&group.join("devices"));
    group
}

fn directory(path: &Path) -> PathBuf {
    fs::create_dir_all(path).expect("a directory in the tree");
    path.to_path_buf()
}

fn write_all(at: &Path, files: &[(&str, &str)]) {
    directory(at);
    for (name, content) in files {
        fs::write(at.join(name), format!("{content}\n")).expect("a file in the tree");
    }
}

/// A relative link, as the kernel's are: the tree is looked at under two paths.
fn link(link: &Path, target: &Path) {
    let from = directory(link.parent().expect("links are in directories"));
    let shared = from
        .components()
        .zip(target.components())
        .take_while(|(one, other)| one == other)
        .count();
    let up = from.components().skip(shared).map(|_| "..");
    let down = target.components().skip(shared);
    let relative: PathBuf = up
        .map(PathBuf::from)
        .chain(down.map(|part| PathBuf::from(part.as_os_str())))
        .collect();
    symlink(relative, link).expect("a link in the tree");
}
