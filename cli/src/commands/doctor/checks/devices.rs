//! Checks of IOMMU, VFIO, the listed devices and mediated devices. They run only where devices are configured:
//! `device_spec` in `[pci]` and `[accelerators]`, and `enabled_mdev_types`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use berth_config::{ComputeDriver, Config};
use berth_sysfs::{
    AllowList, CleaningFacts, NotCleanable, PciFunction, ResetMethod, ResetNeed, Sriov,
    plan_cleaning,
};
use serde_json::Value;

use super::helpers::{exists, failure, settle, text, warning, with_config};
use crate::commands::doctor::facts::FileKind;
use crate::commands::doctor::finding::{CheckContext, CheckResult, DoctorCheck};

/// The kernel's directory of PCI functions.
const FUNCTIONS: &str = "/sys/bus/pci/devices";

pub(super) const CHECKS: &[DoctorCheck] = &[
    warning(
        "listed-devices",
        "the devices that device_spec means are in this machine",
        &["config-valid"],
        listed_devices,
    ),
    warning(
        "device-cleaning",
        "the devices that device_spec means can be cleaned after a guest",
        &["config-valid"],
        device_cleaning,
    ),
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

/// Runs a check that applies only where guests get devices.
fn for_devices(host: &CheckContext<'_>, check: impl FnOnce(&Config) -> CheckResult) -> CheckResult {
    with_config(host, |config| {
        if config.compute_driver != ComputeDriver::Libvirt {
            CheckResult::not_asked("the driver is not libvirt")
        } else if lists(config).all(|(_, list)| list.is_empty())
            && config.devices.enabled_mdev_types.is_empty()
        {
            CheckResult::not_asked("no devices are configured")
        } else {
            check(config)
        }
    })
}

/// Runs a check that applies only where guests get mediated devices of `enabled_mdev_types`.
fn for_mdevs(host: &CheckContext<'_>, check: impl FnOnce(&Config) -> CheckResult) -> CheckResult {
    for_devices(host, |config| {
        match config.devices.enabled_mdev_types.is_empty() {
            true => CheckResult::not_asked("no mediated device types are enabled"),
            false => check(config),
        }
    })
}

/// The device lists by section.
fn lists(config: &Config) -> impl Iterator<Item = (&'static str, &[Value])> {
    [
        ("pci", config.pci.device_spec.as_slice()),
        ("accelerators", config.accelerators.device_spec.as_slice()),
    ]
    .into_iter()
}

/// Only devices that are present are checked further: a later hot-plugged device is found then.
fn listed_devices(host: &CheckContext<'_>) -> CheckResult {
    for_devices(host, |config| {
        let functions = functions(host);
        let (mut entries, mut absent) = (0, Vec::new());
        for (section, list) in lists(config) {
            for (at, entry) in list.iter().enumerate() {
                entries += 1;
                // An invalid entry is reported by the check of the configuration.
                let Ok(list) = AllowList::read(std::slice::from_ref(entry)) else {
                    continue;
                };
                let means = |(function, names): &(PciFunction, Vec<String>)| {
                    list.admit(function, names).is_ok()
                };
                if !functions.iter().any(means) {
                    let number = at + 1;
                    absent.push(format!(
                        "entry {number} of [{section}] device_spec ({entry})"
                    ));
                }
            }
        }
        if entries == 0 {
            CheckResult::not_asked("no device_spec is set")
        } else if absent.is_empty() {
            CheckResult::good(format!(
                "{FUNCTIONS}: each of {entries} entries means a device"
            ))
        } else {
            CheckResult::bad(
                format!("{FUNCTIONS} has no device of {}", absent.join(", ")),
                "lspci -Dnn shows addresses and ids; virtual functions appear once they are created (sriov_numvfs)",
            )
        }
    })
}

/// Devices that would be quarantined after their first guest. A physical function that has virtual functions, or shall
/// have them, is not given to guests.
fn device_cleaning(host: &CheckContext<'_>) -> CheckResult {
    for_devices(host, |config| {
        let entries: Vec<Value> = lists(config)
            .flat_map(|(_, list)| list.iter().cloned())
            .collect();
        let (Ok(list), false) = (AllowList::read(&entries), entries.is_empty()) else {
            return CheckResult::not_asked("no device_spec is set");
        };
        let read = |function: &PciFunction, file: &str| {
            let at = format!("{FUNCTIONS}/{}/{file}", function.address);
            host.facts.read(Path::new(&at)).ok()
        };
        let need = match &config.accelerators.reset_hook {
            Some(_) => ResetNeed::WhereOffered,
            None => ResetNeed::Always,
        };
        let (mut devices, mut unclean) = (0, Vec::new());
        for (function, names) in functions(host) {
            let Ok(allowed) = list.admit(&function, &names) else {
                continue;
            };
            let is_parted = allowed.tags().num_vfs.is_some()
                || read(&function, "sriov_numvfs").is_some_and(|count| count.trim() != "0");
            let is_virtual = exists(host, &format!("{FUNCTIONS}/{}/physfn", function.address));
            if is_parted && !is_virtual {
                continue;
            }
            devices += 1;
            let reset = exists(host, &format!("{FUNCTIONS}/{}/reset", function.address));
            let methods = reset.then(|| {
                let text = read(&function, "reset_method").unwrap_or_default();
                ResetMethod::of_list(&text)
            });
            let planned = plan_cleaning(CleaningFacts {
                class: function.class,
                methods: methods.as_deref(),
                reset_clears_memory: allowed.tags().reset_clears_memory,
                need,
            });
            let reason = match planned {
                Ok(_) => continue,
                Err(NotCleanable::NoMethod) => "no reset method",
                Err(NotCleanable::PowerStateOnly) => "no reset method but power states",
                Err(NotCleanable::MemorySurvives) => "no reset method that clears its memory",
            };
            unclean.push(format!("{} has {reason}", function.address));
        }
        match unclean.is_empty() {
            true => CheckResult::good(format!("{FUNCTIONS}: {devices} devices")),
            false => CheckResult::bad(
                format!("{FUNCTIONS}: {}", unclean.join("; ")),
                "set [accelerators] reset_hook to a program that cleans them, or reset_clears_memory = \"yes\" in their \
                 device_spec entry if any reset clears their memory",
            ),
        }
    })
}

/// This machine's PCI functions with the attributes that a list can match, and the names of their network interfaces.
fn functions(host: &CheckContext<'_>) -> Vec<(PciFunction, Vec<String>)> {
    let number = |path: &str| {
        let text = host.facts.read(Path::new(path)).ok()?;
        u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    };
    let function = |name: String| {
        let at = format!("{FUNCTIONS}/{name}");
        let id = |file: &str| number(&format!("{at}/{file}"))?.try_into().ok();
        let function = PciFunction {
            address: name.parse().ok()?,
            vendor: id("vendor")?,
            device: id("device")?,
            class: number(&format!("{at}/class"))?,
            driver: None,
            numa_node: None,
            iommu_group: None,
            sriov: Sriov::None,
        };
        let names = host.facts.list(Path::new(&format!("{at}/net")));
        Some((function, names.unwrap_or_default()))
    };
    let names = host.facts.list(Path::new(FUNCTIONS)).unwrap_or_default();
    names.into_iter().filter_map(function).collect()
}

fn mdev_addresses(host: &CheckContext<'_>) -> CheckResult {
    let directory = FUNCTIONS;
    for_mdevs(host, |config| {
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
            CheckResult::not_asked("no device_addresses are set")
        } else if missing.is_empty() {
            CheckResult::good(format!("{directory} has {}", named.join(", ")))
        } else {
            CheckResult::bad(
                format!("{directory} has no {}", missing.join(", ")),
                "lspci -Dnn shows the addresses; SR-IOV virtual functions must be created again after each boot",
            )
        }
    })
}

fn mdev_types(host: &CheckContext<'_>) -> CheckResult {
    let bus = "/sys/class/mdev_bus";
    for_mdevs(host, |config| {
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
            return CheckResult::good(format!(
                "{bus}: {} devices offer {}",
                parents.len(),
                list(&offered)
            ));
        }
        let hint = if parents.is_empty() {
            "load the vendor's host driver; mdevctl types"
        } else {
            "mdevctl types lists the available types; correct enabled_mdev_types in [devices]"
        };
        CheckResult::bad(
            format!(
                "{bus}: no device offers {}; offered: {}",
                absent.join(", "),
                list(&offered)
            ),
            hint,
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

fn mdevctl(host: &CheckContext<'_>) -> CheckResult {
    for_mdevs(host, |_| {
        let places = ["/usr/sbin/mdevctl", "/usr/bin/mdevctl", "/sbin/mdevctl"];
        match places.into_iter().find(|path| exists(host, path)) {
            Some(path) => CheckResult::good(path),
            None => CheckResult::bad(
                "mdevctl is not installed, so libvirt cannot make mediated devices",
                "apt-get install mdevctl",
            ),
        }
    })
}

fn iommu(host: &CheckContext<'_>) -> CheckResult {
    let directory = "/sys/class/iommu";
    for_devices(host, |_| {
        let units = host.facts.list(Path::new(directory)).unwrap_or_default();
        if !units.is_empty() {
            return CheckResult::good(format!("{directory}: {}", units.join(", ")));
        }
        settle(text(host, "/proc/cmdline", "").map(|cmdline| {
            let asked = cmdline
                .split_whitespace()
                .any(|word| word.ends_with("iommu=on") || word.starts_with("iommu="));
            let (state, hint) = if asked {
                ("asks for it", "switch VT-d or AMD-Vi on in the firmware")
            } else {
                (
                    "does not ask for it",
                    "add intel_iommu=on to GRUB_CMDLINE_LINUX, update-grub, reboot",
                )
            };
            CheckResult::bad(format!("{directory} is empty; /proc/cmdline {state}"), hint)
        }))
    })
}

fn iommu_groups(host: &CheckContext<'_>) -> CheckResult {
    let directory = "/sys/kernel/iommu_groups";
    for_devices(host, |_| {
        match host
            .facts
            .list(Path::new(directory))
            .unwrap_or_default()
            .len()
        {
            0 => CheckResult::bad(
                format!("{directory} is empty"),
                "reboot with the IOMMU on; dmesg | grep -i iommu",
            ),
            groups => CheckResult::good(format!("{directory}: {groups} groups")),
        }
    })
}

fn vfio_module(host: &CheckContext<'_>) -> CheckResult {
    for_devices(host, |_| {
        let places = [
            "/sys/module/vfio",
            "/sys/module/vfio_pci",
            "/sys/module/vfio_mdev",
            "/sys/class/vfio",
        ];
        match places.into_iter().find(|path| exists(host, path)) {
            Some(path) => CheckResult::good(path),
            None => CheckResult::bad(
                "neither /sys/module/vfio nor /sys/class/vfio exists",
                "modprobe vfio-pci",
            ),
        }
    })
}

fn vfio_device(host: &CheckContext<'_>) -> CheckResult {
    let path = "/dev/vfio/vfio";
    for_devices(host, |_| match host.facts.status(Path::new(path)) {
        Ok(status) if status.kind == FileKind::CharacterDevice => {
            CheckResult::good(format!("{path} has mode {:04o}", status.mode))
        }
        Ok(_) => CheckResult::bad(
            format!("{path} is no device"),
            "rm /dev/vfio/vfio && modprobe vfio",
        ),
        Err(error) => CheckResult::bad(format!("{path}: {error}"), "modprobe vfio"),
    })
}
