//! Nova's extra specs (its documentation, release 34) and Berth's own (`berth:`): the values that each allows, and what a host of
//! Berth does with it.

use std::collections::BTreeMap;

use super::support::{HostSupport, UnsupportedKey};
use crate::nearest_name;

/// The values of an extra spec.
#[derive(Debug, Clone, Copy)]
pub enum AllowedValues {
    /// Any text.
    Any,
    /// A whole number from this on.
    From(i64),
    /// A truth value.
    Flag,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

impl AllowedValues {
    /// The allowed values, if this value is not one of them.
    #[must_use]
    pub fn wrong(self, value: &str) -> Option<String> {
        let value = value.trim();
        match self {
            Self::Any => None,
            Self::From(least) => (value.parse::<i64>().map_or(true, |it| it < least))
                .then(|| format!("a whole number from {least} on")),
            Self::Flag => flag(value).is_none().then(|| "true or false".to_owned()),
            Self::OneOf(words) => {
                (!words.contains(&value)).then(|| format!("one of {}", words.join(", ")))
            }
        }
    }
}

/// A truth value in one of OpenStack's spellings.
pub(super) fn flag(text: &str) -> Option<bool> {
    match text.trim().to_lowercase().as_str() {
        "1" | "t" | "true" | "on" | "y" | "yes" => Some(true),
        "0" | "f" | "false" | "off" | "n" | "no" => Some(false),
        _ => None,
    }
}

/// Scopes under which names are free.
pub const EXTRA_SPEC_SCOPES: [&str; 14] = [
    "accel",
    "aggregate_instance_extra_specs",
    "berth",
    "capabilities",
    "hw",
    "hw_rng",
    "hw_video",
    "os",
    "pci_passthrough",
    "quota",
    "resources",
    "trait",
    "trust",
    "vmware",
];

/// Scopes that only hosts or Berth read, so an unknown name under them has no reader.
const CLOSED_SCOPES: [&str; 6] = ["berth", "hw", "hw_rng", "hw_video", "os", "quota"];

/// Prefixes of names that end with a cell's number.
const NUMBERED: [&str; 2] = ["hw:numa_cpus.", "hw:numa_mem."];

/// The names of all extra specs, without those that end with a number.
pub fn extra_spec_names<'a>() -> impl Iterator<Item = &'a str> {
    EXTRA_SPECS.iter().map(|(name, _, _)| *name)
}

/// The allowed values of an extra spec, and what a host does with it; `None` if the name is unknown.
#[must_use]
pub fn known_extra_spec(key: &str) -> Option<(AllowedValues, HostSupport)> {
    if NUMBERED.iter().any(|prefix| key.starts_with(prefix)) {
        return Some((AllowedValues::Any, HostSupport::Honoured));
    }
    let row = EXTRA_SPECS.iter().find(|(name, _, _)| *name == key)?;
    Some((row.1, row.2))
}

/// Checks that hosts honour an extra spec, or lose nothing by not reading it.
pub fn check_extra_spec(key: &str, value: &str) -> Result<(), UnsupportedKey> {
    match known_extra_spec(key) {
        Some((_, support)) => support.check(key, value),
        None => match key.split_once(':') {
            Some((scope, _)) if CLOSED_SCOPES.contains(&scope) => {
                Err(UnsupportedKey::UnknownSpec {
                    key: key.chars().take(80).collect(),
                    nearest: nearest_name(key, extra_spec_names()),
                })
            }
            _ => Ok(()),
        },
    }
}

pub(super) fn check_extra_specs(specs: &BTreeMap<String, String>) -> Result<(), UnsupportedKey> {
    specs
        .iter()
        .try_for_each(|(key, value)| check_extra_spec(key, value))
}

const EXTRA_SPECS: &[(&str, AllowedValues, HostSupport)] = &[
    (
        "accel:device_profile",
        AllowedValues::Any,
        HostSupport::Scheduled,
    ),
    (
        "berth:pci_topology",
        AllowedValues::OneOf(&["host"]),
        HostSupport::Honoured,
    ),
    (
        "berth:same_link_group",
        AllowedValues::Any,
        HostSupport::Scheduled,
    ),
    (
        "group_policy",
        AllowedValues::OneOf(&["none", "isolate"]),
        HostSupport::Scheduled,
    ),
    (
        "hide_hypervisor_id",
        AllowedValues::Flag,
        HostSupport::Honoured,
    ),
    ("hw:boot_menu", AllowedValues::Flag, HostSupport::Honoured),
    (
        "hw:cpu_cores",
        AllowedValues::From(1),
        HostSupport::Honoured,
    ),
    (
        "hw:cpu_dedicated_mask",
        AllowedValues::Any,
        HostSupport::Honoured,
    ),
    (
        "hw:cpu_max_cores",
        AllowedValues::From(1),
        HostSupport::Honoured,
    ),
    (
        "hw:cpu_max_sockets",
        AllowedValues::From(1),
        HostSupport::Honoured,
    ),
    (
        "hw:cpu_max_threads",
        AllowedValues::From(1),
        HostSupport::Honoured,
    ),
    (
        "hw:cpu_policy",
        AllowedValues::OneOf(&["dedicated", "mixed", "shared"]),
        HostSupport::Honoured,
    ),
    (
        "hw:cpu_realtime",
        AllowedValues::Flag,
        HostSupport::unless_off("hosts do not run guests in real time"),
    ),
    (
        "hw:cpu_realtime_mask",
        AllowedValues::Any,
        HostSupport::Harmless("it has an effect only with hw:cpu_realtime"),
    ),
    (
        "hw:cpu_sockets",
        AllowedValues::From(1),
        HostSupport::Honoured,
    ),
    (
        "hw:cpu_thread_policy",
        AllowedValues::OneOf(&["prefer", "isolate", "require"]),
        HostSupport::Honoured,
    ),
    (
        "hw:cpu_threads",
        AllowedValues::From(1),
        HostSupport::Honoured,
    ),
    (
        "hw:emulator_threads_policy",
        AllowedValues::OneOf(&["isolate", "share"]),
        HostSupport::Honoured,
    ),
    (
        "hw:ephemeral_encryption",
        AllowedValues::Flag,
        HostSupport::unless_off("hosts do not encrypt disks"),
    ),
    (
        "hw:ephemeral_encryption_format",
        AllowedValues::OneOf(&["luks", "luksv2", "plain"]),
        HostSupport::Harmless("it has an effect only with hw:ephemeral_encryption"),
    ),
    (
        "hw:hide_hypervisor_id",
        AllowedValues::Flag,
        HostSupport::Honoured,
    ),
    (
        "hw:locked_memory",
        AllowedValues::Flag,
        HostSupport::unless_off(
            "hosts do not lock memory; hw:mem_page_size=large keeps it from being swapped",
        ),
    ),
    (
        "hw:maxphysaddr_bits",
        AllowedValues::From(32),
        HostSupport::Honoured,
    ),
    (
        "hw:maxphysaddr_mode",
        AllowedValues::OneOf(&["passthrough", "emulate"]),
        HostSupport::Honoured,
    ),
    (
        "hw:mem_encryption",
        AllowedValues::Flag,
        HostSupport::Honoured,
    ),
    (
        "hw:mem_encryption_model",
        AllowedValues::OneOf(&["amd-sev", "amd-sev-es", "amd-sev-snp", "intel-tdx"]),
        HostSupport::Honoured,
    ),
    (
        "hw:mem_page_size",
        AllowedValues::Any,
        HostSupport::Honoured,
    ),
    (
        "hw:numa_nodes",
        AllowedValues::From(1),
        HostSupport::Honoured,
    ),
    (
        "hw:pci_numa_affinity_policy",
        AllowedValues::OneOf(&["required", "preferred", "legacy", "socket"]),
        HostSupport::Honoured,
    ),
    (
        "hw:pmem",
        AllowedValues::Any,
        HostSupport::refused("hosts have no persistent memory"),
    ),
    ("hw:pmu", AllowedValues::Flag, HostSupport::Honoured),
    (
        "hw:redirected_usb_ports",
        AllowedValues::From(0),
        HostSupport::Refused {
            reason: "guests have no USB redirection",
            unless: &["0"],
        },
    ),
    (
        "hw:serial_port_count",
        AllowedValues::From(0),
        HostSupport::Refused {
            reason: "guests have one serial port",
            unless: &["1"],
        },
    ),
    (
        "hw:sound_model",
        AllowedValues::OneOf(&[
            "sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio",
        ]),
        HostSupport::refused("guests have no sound card"),
    ),
    (
        "hw:tpm_model",
        AllowedValues::OneOf(&["tpm-tis", "tpm-crb"]),
        HostSupport::refused("guests have no TPM"),
    ),
    (
        "hw:tpm_secret_security",
        AllowedValues::OneOf(&["user", "host", "deployment"]),
        HostSupport::refused("guests have no TPM"),
    ),
    (
        "hw:tpm_version",
        AllowedValues::OneOf(&["1.2", "2.0"]),
        HostSupport::refused("guests have no TPM"),
    ),
    (
        "hw:usb_model",
        AllowedValues::OneOf(&["none", "nec-xhci", "qemu-xhci"]),
        HostSupport::Refused {
            reason: "guests have the USB controller that libvirt chooses",
            unless: &["none"],
        },
    ),
    (
        "hw:vif_multiqueue_enabled",
        AllowedValues::Flag,
        HostSupport::Honoured,
    ),
    (
        "hw:viommu_model",
        AllowedValues::OneOf(&["intel", "smmuv3", "virtio", "auto"]),
        HostSupport::refused("guests have no IOMMU"),
    ),
    (
        "hw:virtio_packed_ring",
        AllowedValues::Flag,
        HostSupport::Honoured,
    ),
    (
        "hw:watchdog_action",
        AllowedValues::OneOf(&["none", "pause", "poweroff", "reset", "disabled"]),
        HostSupport::Honoured,
    ),
    ("hw_rng:allowed", AllowedValues::Flag, HostSupport::Honoured),
    (
        "hw_rng:rate_bytes",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "hw_rng:rate_period",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "hw_video:ram_max_mb",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "os:secure_boot",
        AllowedValues::OneOf(&["disabled", "required"]),
        HostSupport::Honoured,
    ),
    (
        "pci_passthrough:alias",
        AllowedValues::Any,
        HostSupport::Scheduled,
    ),
    (
        "quota:cpu_limit",
        AllowedValues::From(0),
        HostSupport::refused("only hosts of VMware read it"),
    ),
    (
        "quota:cpu_period",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    ("quota:cpu_quota", AllowedValues::Any, HostSupport::Honoured),
    (
        "quota:cpu_reservation",
        AllowedValues::Any,
        HostSupport::refused("only hosts of VMware read it"),
    ),
    (
        "quota:cpu_shares",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "quota:cpu_shares_level",
        AllowedValues::OneOf(&["custom", "high", "normal", "low"]),
        HostSupport::refused("only hosts of VMware read it"),
    ),
    (
        "quota:cpu_shares_share",
        AllowedValues::From(0),
        HostSupport::refused("only hosts of VMware read it"),
    ),
    (
        "quota:disk_io_limit",
        AllowedValues::From(0),
        HostSupport::refused("only hosts of VMware read it"),
    ),
    (
        "quota:disk_io_reservation",
        AllowedValues::Any,
        HostSupport::refused("only hosts of VMware read it"),
    ),
    (
        "quota:disk_io_shares_level",
        AllowedValues::OneOf(&["custom", "high", "normal", "low"]),
        HostSupport::refused("only hosts of VMware read it"),
    ),
    (
        "quota:disk_io_shares_share",
        AllowedValues::From(0),
        HostSupport::refused("only hosts of VMware read it"),
    ),
    (
        "quota:disk_read_bytes_sec",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "quota:disk_read_bytes_sec_max",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "quota:disk_read_iops_sec",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "quota:disk_read_iops_sec_max",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "quota:disk_total_bytes_sec",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "quota:disk_total_bytes_sec_max",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "quota:disk_total_iops_sec",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "quota:disk_total_iops_sec_max",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "quota:disk_write_bytes_sec",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "quota:disk_write_bytes_sec_max",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "quota:disk_write_iops_sec",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "quota:disk_write_iops_sec_max",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "quota:memory_limit",
        AllowedValues::From(0),
        HostSupport::refused("only hosts of VMware read it"),
    ),
    (
        "quota:memory_reservation",
        AllowedValues::Any,
        HostSupport::refused("only hosts of VMware read it"),
    ),
    (
        "quota:memory_shares_level",
        AllowedValues::OneOf(&["custom", "high", "normal", "low"]),
        HostSupport::refused("only hosts of VMware read it"),
    ),
    (
        "quota:memory_shares_share",
        AllowedValues::From(0),
        HostSupport::refused("only hosts of VMware read it"),
    ),
    (
        "quota:vif_inbound_average",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "quota:vif_inbound_burst",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "quota:vif_inbound_peak",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "quota:vif_limit",
        AllowedValues::From(0),
        HostSupport::refused("only hosts of VMware read it"),
    ),
    (
        "quota:vif_outbound_average",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "quota:vif_outbound_burst",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "quota:vif_outbound_peak",
        AllowedValues::From(0),
        HostSupport::Honoured,
    ),
    (
        "quota:vif_reservation",
        AllowedValues::Any,
        HostSupport::refused("only hosts of VMware read it"),
    ),
    (
        "quota:vif_shares_level",
        AllowedValues::OneOf(&["custom", "high", "normal", "low"]),
        HostSupport::refused("only hosts of VMware read it"),
    ),
    (
        "quota:vif_shares_share",
        AllowedValues::From(0),
        HostSupport::refused("only hosts of VMware read it"),
    ),
    (
        "trust:trusted_host",
        AllowedValues::Any,
        HostSupport::Scheduled,
    ),
    (
        "vmware:hw_version",
        AllowedValues::Any,
        HostSupport::Harmless("only hosts of VMware read it"),
    ),
    (
        "vmware:storage_policy",
        AllowedValues::Any,
        HostSupport::Harmless("only hosts of VMware read it"),
    ),
];
