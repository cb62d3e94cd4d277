//! IOMMU, VFIO and mediated devices. Asked only where devices are configured.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{exists, failure, settle, text, warning, with_config};
use crate::config::{ComputeDriver, Config};
use crate::doctor::facts::FileKind;
use crate::doctor::finding::{Check, Host, Seen};

pub(super) const CHECKS: &[Check] = &[
    failure(
        "mdev-addresses",
        "the GPUs named are in this machine",
        &["config-valid"],
        mdev_addresses,
    ),
    failure(
        "mdev-types",
        "the mediated device types enabled are offered",
        &["config-valid", "mdev-addresses"],
        mdev_types,
    ),
    warning(
        "mdevctl",
        "mdevctl is installed",
        &["config-valid"],
        mdevctl,
    ),
    warning("iommu", "the IOMMU is on", &["config-valid"], iommu),
    warning(
        "iommu-groups",
        "devices are in IOMMU groups",
        &["iommu"],
        iommu_groups,
    ),
    failure(
        "vfio-module",
        "VFIO is loaded",
        &["config-valid"],
        vfio_module,
    ),
    failure(
        "vfio-device",
        "VFIO's device is usable",
        &["vfio-module"],
        vfio_device,
    ),
];

/// Runs a look that arises only where guests get devices.
fn for_devices(host: &Host<'_>, look: impl FnOnce(&Config) -> Seen) -> Seen {
    with_config(host, |config| {
        if config.compute_driver != ComputeDriver::Libvirt {
            Seen::not_asked("the driver is not libvirt")
        } else if config.devices.enabled_mdev_types.is_empty() {
            Seen::not_asked("no devices are configured")
        } else {
            look(config)
        }
    })
}

fn mdev_addresses(host: &Host<'_>) -> Seen {
    let directory = "/sys/bus/pci/devices";
    for_devices(host, |config| {
        let enabled = &config.devices.enabled_mdev_types;
        let named: Vec<String> = config
            .mdev
            .iter()
            .filter(|(kind, _)| enabled.contains(kind))
            .flat_map(|(_, section)| section.device_addresses.iter().map(ToString::to_string))
            .collect();
        let missing: Vec<&str> = named
            .iter()
            .map(String::as_str)
            .filter(|address| !exists(host, &format!("{directory}/{address}")))
            .collect();
        if named.is_empty() {
            Seen::not_asked("no device_addresses are set")
        } else if missing.is_empty() {
            Seen::good(format!("{directory} has {}", named.join(", ")))
        } else {
            Seen::bad(
                format!("{directory} has no {}", missing.join(", ")),
                "lspci -Dnn shows the addresses; SR-IOV virtual functions must be made again after each boot",
            )
        }
    })
}

fn mdev_types(host: &Host<'_>) -> Seen {
    let bus = "/sys/class/mdev_bus";
    for_devices(host, |config| {
        let parents = host.facts.list(Path::new(bus)).unwrap_or_default();
        let offered: BTreeSet<String> = parents
            .iter()
            .flat_map(|parent| {
                host.facts
                    .list(&PathBuf::from(bus).join(parent).join("mdev_supported_types"))
            })
            .flatten()
            .collect();
        let absent: Vec<&str> = config
            .devices
            .enabled_mdev_types
            .iter()
            .filter(|kind| !offered.contains(*kind))
            .map(String::as_str)
            .collect();
        if absent.is_empty() {
            return Seen::good(format!(
                "{bus}: {} devices offer {}",
                parents.len(),
                list(&offered)
            ));
        }
        let mend = if parents.is_empty() {
            "load the vendor's host driver; mdevctl types"
        } else {
            "mdevctl types shows what there is; correct enabled_mdev_types in [devices]"
        };
        Seen::bad(
            format!(
                "{bus}: no device offers {}; offered: {}",
                absent.join(", "),
                list(&offered)
            ),
            mend,
        )
    })
}

fn list(words: &BTreeSet<String>) -> String {
    if words.is_empty() {
        "nothing".to_owned()
    } else {
        words.iter().cloned().collect::<Vec<_>>().join(", ")
    }
}

fn mdevctl(host: &Host<'_>) -> Seen {
    for_devices(host, |_| {
        let places = ["/usr/sbin/mdevctl", "/usr/bin/mdevctl", "/sbin/mdevctl"];
        match places.into_iter().find(|path| exists(host, path)) {
            Some(path) => Seen::good(path),
            None => Seen::bad(
                "mdevctl is not installed, so libvirt cannot make mediated devices",
                "apt-get install mdevctl",
            ),
        }
    })
}

fn iommu(host: &Host<'_>) -> Seen {
    let directory = "/sys/class/iommu";
    for_devices(host, |_| {
        let units = host.facts.list(Path::new(directory)).unwrap_or_default();
        if !units.is_empty() {
            return Seen::good(format!("{directory}: {}", units.join(", ")));
        }
        settle(text(host, "/proc/cmdline", "").map(|cmdline| {
            let asked = cmdline
                .split_whitespace()
                .any(|word| word.ends_with("iommu=on") || word.starts_with("iommu="));
            let (state, mend) = if asked {
                ("asks for it", "switch VT-d or AMD-Vi on in the firmware")
            } else {
                (
                    "does not ask for it",
                    "add intel_iommu=on to GRUB_CMDLINE_LINUX, update-grub, reboot",
                )
            };
            Seen::bad(format!("{directory} is empty; /proc/cmdline {state}"), mend)
        }))
    })
}

fn iommu_groups(host: &Host<'_>) -> Seen {
    let directory = "/sys/kernel/iommu_groups";
    for_devices(host, |_| {
        match host
            .facts
            .list(Path::new(directory))
            .unwrap_or_default()
            .len()
        {
            0 => Seen::bad(
                format!("{directory} is empty"),
                "reboot with the IOMMU on; dmesg | grep -i iommu",
            ),
            groups => Seen::good(format!("{directory}: {groups} groups")),
        }
    })
}

fn vfio_module(host: &Host<'_>) -> Seen {
    for_devices(host, |_| {
        let places = [
            "/sys/module/vfio",
            "/sys/module/vfio_pci",
            "/sys/module/vfio_mdev",
            "/sys/class/vfio",
        ];
        match places.into_iter().find(|path| exists(host, path)) {
            Some(path) => Seen::good(path),
            None => Seen::bad(
                "neither /sys/module/vfio nor /sys/class/vfio is there",
                "modprobe vfio-pci",
            ),
        }
    })
}

fn vfio_device(host: &Host<'_>) -> Seen {
    let path = "/dev/vfio/vfio";
    for_devices(host, |_| match host.facts.look(Path::new(path)) {
        Ok(look) if look.kind == FileKind::CharacterDevice => {
            Seen::good(format!("{path} has mode {:04o}", look.mode))
        }
        Ok(_) => Seen::bad(
            format!("{path} is no device"),
            "rm /dev/vfio/vfio && modprobe vfio",
        ),
        Err(error) => Seen::bad(format!("{path}: {error}"), "modprobe vfio"),
    })
}
