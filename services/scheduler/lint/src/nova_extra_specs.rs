//! Nova's extra specs with the values that each allows (its documentation, 2025.2).

use berth_model::nearest_name;
use berth_scheduler::placement_query::MEMORY_ENCRYPTION_MODELS;
use berth_scheduler_objects::numbers::int;
use berth_scheduler_objects::text::is_flag;

#[derive(Debug, Clone, Copy)]
pub(super) enum AllowedValues {
    Any,
    /// A whole number from this on.
    From(i64),
    Flag,
    OneOf(&'static [&'static str]),
}

impl AllowedValues {
    /// The allowed values, if this value is not one of them.
    pub(super) fn wrong(self, value: &str) -> Option<String> {
        match self {
            Self::Any => None,
            Self::From(least) => (int(value).is_none_or(|it| it < least))
                .then(|| format!("a whole number from {least} on")),
            Self::Flag => (!is_flag(value)).then(|| "true or false".to_owned()),
            Self::OneOf(words) => {
                (!words.contains(&value)).then(|| format!("one of {}", words.join(", ")))
            }
        }
    }
}

/// Scopes under which names are free.
pub(super) const SCOPES: [&str; 13] = [
    "accel",
    "aggregate_instance_extra_specs",
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

/// Prefixes of names that end with a number.
pub(super) const NUMBERED: [&str; 2] = ["hw:numa_cpus.", "hw:numa_mem."];

/// An extra spec of a scope that hosts read, with a name that no host reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown extra spec {key}{}", nearest.map(|it| format!("; did you mean {it}?")).unwrap_or_default())]
pub struct UnknownExtraSpec {
    pub key: String,
    /// The known name that is most similar.
    pub nearest: Option<&'static str>,
}

/// Whether an extra spec has a scope that hosts read (`hw`, `os`, `quota`) and an unknown name. Such a flavor would be
/// refused by the chosen host.
#[must_use]
pub fn unknown_extra_spec(key: &str) -> Option<UnknownExtraSpec> {
    let (scope, _) = key.split_once(':')?;
    let is_known = SCOPED.iter().any(|(name, _)| *name == key)
        || NUMBERED.iter().any(|prefix| key.starts_with(prefix));
    if is_known || !matches!(scope, "hw" | "os" | "quota") {
        return None;
    }
    Some(UnknownExtraSpec {
        key: key.chars().take(80).collect(),
        nearest: nearest_name(key, SCOPED.iter().map(|(name, _)| *name)),
    })
}

/// Extra specs without a scope that have a reader.
pub(super) const UNSCOPED: [(&str, AllowedValues); 2] = [
    ("group_policy", AllowedValues::OneOf(&["none", "isolate"])),
    ("hide_hypervisor_id", AllowedValues::Flag),
];

/// Extra specs with a scope.
pub(super) const SCOPED: &[(&str, AllowedValues)] = &[
    ("accel:device_profile", AllowedValues::Any),
    ("hw:boot_menu", AllowedValues::Flag),
    ("hw:cpu_cores", AllowedValues::From(1)),
    ("hw:cpu_dedicated_mask", AllowedValues::Any),
    ("hw:cpu_max_cores", AllowedValues::From(1)),
    ("hw:cpu_max_sockets", AllowedValues::From(1)),
    ("hw:cpu_max_threads", AllowedValues::From(1)),
    (
        "hw:cpu_policy",
        AllowedValues::OneOf(&["dedicated", "mixed", "shared"]),
    ),
    ("hw:cpu_realtime", AllowedValues::Flag),
    ("hw:cpu_realtime_mask", AllowedValues::Any),
    ("hw:cpu_sockets", AllowedValues::From(1)),
    (
        "hw:cpu_thread_policy",
        AllowedValues::OneOf(&["prefer", "isolate", "require"]),
    ),
    ("hw:cpu_threads", AllowedValues::From(1)),
    (
        "hw:emulator_threads_policy",
        AllowedValues::OneOf(&["isolate", "share"]),
    ),
    ("hw:ephemeral_encryption", AllowedValues::Flag),
    (
        "hw:ephemeral_encryption_format",
        AllowedValues::OneOf(&["luks", "luksv2", "plain"]),
    ),
    ("hw:hide_hypervisor_id", AllowedValues::Flag),
    ("hw:locked_memory", AllowedValues::Flag),
    ("hw:maxphysaddr_bits", AllowedValues::From(32)),
    (
        "hw:maxphysaddr_mode",
        AllowedValues::OneOf(&["passthrough", "emulate"]),
    ),
    ("hw:mem_encryption", AllowedValues::Flag),
    (
        "hw:mem_encryption_model",
        AllowedValues::OneOf(&MEMORY_ENCRYPTION_MODELS),
    ),
    ("hw:mem_page_size", AllowedValues::Any),
    ("hw:numa_nodes", AllowedValues::From(1)),
    (
        "hw:pci_numa_affinity_policy",
        AllowedValues::OneOf(&["required", "preferred", "legacy", "socket"]),
    ),
    ("hw:pmem", AllowedValues::Any),
    ("hw:pmu", AllowedValues::Flag),
    ("hw:redirected_usb_ports", AllowedValues::From(0)),
    ("hw:serial_port_count", AllowedValues::From(0)),
    (
        "hw:sound_model",
        AllowedValues::OneOf(&[
            "sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio",
        ]),
    ),
    (
        "hw:tpm_model",
        AllowedValues::OneOf(&["tpm-tis", "tpm-crb"]),
    ),
    (
        "hw:tpm_secret_security",
        AllowedValues::OneOf(&["user", "host", "deployment"]),
    ),
    ("hw:tpm_version", AllowedValues::OneOf(&["1.2", "2.0"])),
    (
        "hw:usb_model",
        AllowedValues::OneOf(&["none", "nec-xhci", "qemu-xhci"]),
    ),
    ("hw:vif_multiqueue_enabled", AllowedValues::Flag),
    (
        "hw:viommu_model",
        AllowedValues::OneOf(&["intel", "smmuv3", "virtio", "auto"]),
    ),
    ("hw:virtio_packed_ring", AllowedValues::Flag),
    (
        "hw:watchdog_action",
        AllowedValues::OneOf(&["none", "pause", "poweroff", "reset", "disabled"]),
    ),
    ("hw_rng:allowed", AllowedValues::Flag),
    ("hw_rng:rate_bytes", AllowedValues::From(0)),
    ("hw_rng:rate_period", AllowedValues::From(0)),
    ("hw_video:ram_max_mb", AllowedValues::From(0)),
    (
        "os:secure_boot",
        AllowedValues::OneOf(&["disabled", "required"]),
    ),
    ("pci_passthrough:alias", AllowedValues::Any),
    ("quota:cpu_limit", AllowedValues::From(0)),
    ("quota:cpu_period", AllowedValues::From(0)),
    ("quota:cpu_quota", AllowedValues::Any),
    ("quota:cpu_reservation", AllowedValues::Any),
    ("quota:cpu_shares", AllowedValues::From(0)),
    (
        "quota:cpu_shares_level",
        AllowedValues::OneOf(&["custom", "high", "normal", "low"]),
    ),
    ("quota:cpu_shares_share", AllowedValues::From(0)),
    ("quota:disk_io_limit", AllowedValues::From(0)),
    ("quota:disk_io_reservation", AllowedValues::Any),
    (
        "quota:disk_io_shares_level",
        AllowedValues::OneOf(&["custom", "high", "normal", "low"]),
    ),
    ("quota:disk_io_shares_share", AllowedValues::From(0)),
    ("quota:disk_read_bytes_sec", AllowedValues::From(0)),
    ("quota:disk_read_bytes_sec_max", AllowedValues::From(0)),
    ("quota:disk_read_iops_sec", AllowedValues::From(0)),
    ("quota:disk_read_iops_sec_max", AllowedValues::From(0)),
    ("quota:disk_total_bytes_sec", AllowedValues::From(0)),
    ("quota:disk_total_bytes_sec_max", AllowedValues::From(0)),
    ("quota:disk_total_iops_sec", AllowedValues::From(0)),
    ("quota:disk_total_iops_sec_max", AllowedValues::From(0)),
    ("quota:disk_write_bytes_sec", AllowedValues::From(0)),
    ("quota:disk_write_bytes_sec_max", AllowedValues::From(0)),
    ("quota:disk_write_iops_sec", AllowedValues::From(0)),
    ("quota:disk_write_iops_sec_max", AllowedValues::From(0)),
    ("quota:memory_limit", AllowedValues::From(0)),
    ("quota:memory_reservation", AllowedValues::Any),
    (
        "quota:memory_shares_level",
        AllowedValues::OneOf(&["custom", "high", "normal", "low"]),
    ),
    ("quota:memory_shares_share", AllowedValues::From(0)),
    ("quota:vif_inbound_average", AllowedValues::From(0)),
    ("quota:vif_inbound_burst", AllowedValues::From(0)),
    ("quota:vif_inbound_peak", AllowedValues::From(0)),
    ("quota:vif_limit", AllowedValues::From(0)),
    ("quota:vif_outbound_average", AllowedValues::From(0)),
    ("quota:vif_outbound_burst", AllowedValues::From(0)),
    ("quota:vif_outbound_peak", AllowedValues::From(0)),
    ("quota:vif_reservation", AllowedValues::Any),
    (
        "quota:vif_shares_level",
        AllowedValues::OneOf(&["custom", "high", "normal", "low"]),
    ),
    ("quota:vif_shares_share", AllowedValues::From(0)),
    ("trust:trusted_host", AllowedValues::Any),
    ("vmware:hw_version", AllowedValues::Any),
    ("vmware:storage_policy", AllowedValues::Any),
];
