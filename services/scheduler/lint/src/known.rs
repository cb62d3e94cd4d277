//! Nova's extra specs with the values that each allows (its documentation, 2025.2).

use berth_scheduler::placement_query::MEMORY_ENCRYPTION_MODELS;
use berth_scheduler_objects::numbers::int;
use berth_scheduler_objects::text::is_flag;

#[derive(Debug, Clone, Copy)]
pub(super) enum Values {
    Any,
    /// A whole number from this on.
    From(i64),
    Flag,
    OneOf(&'static [&'static str]),
}

impl Values {
    /// A description of what is allowed, for a value that is not.
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

/// Extra specs without a scope that have a reader.
pub(super) const UNSCOPED: [(&str, Values); 2] = [
    ("group_policy", Values::OneOf(&["none", "isolate"])),
    ("hide_hypervisor_id", Values::Flag),
];

/// Extra specs with a scope.
pub(super) const SCOPED: &[(&str, Values)] = &[
    ("accel:device_profile", Values::Any),
    ("hw:boot_menu", Values::Flag),
    ("hw:cpu_cores", Values::From(1)),
    ("hw:cpu_dedicated_mask", Values::Any),
    ("hw:cpu_max_cores", Values::From(1)),
    ("hw:cpu_max_sockets", Values::From(1)),
    ("hw:cpu_max_threads", Values::From(1)),
    (
        "hw:cpu_policy",
        Values::OneOf(&["dedicated", "mixed", "shared"]),
    ),
    ("hw:cpu_realtime", Values::Flag),
    ("hw:cpu_realtime_mask", Values::Any),
    ("hw:cpu_sockets", Values::From(1)),
    (
        "hw:cpu_thread_policy",
        Values::OneOf(&["prefer", "isolate", "require"]),
    ),
    ("hw:cpu_threads", Values::From(1)),
    (
        "hw:emulator_threads_policy",
        Values::OneOf(&["isolate", "share"]),
    ),
    ("hw:ephemeral_encryption", Values::Flag),
    (
        "hw:ephemeral_encryption_format",
        Values::OneOf(&["luks", "luksv2", "plain"]),
    ),
    ("hw:hide_hypervisor_id", Values::Flag),
    ("hw:locked_memory", Values::Flag),
    ("hw:maxphysaddr_bits", Values::From(32)),
    (
        "hw:maxphysaddr_mode",
        Values::OneOf(&["passthrough", "emulate"]),
    ),
    ("hw:mem_encryption", Values::Flag),
    (
        "hw:mem_encryption_model",
        Values::OneOf(&MEMORY_ENCRYPTION_MODELS),
    ),
    ("hw:mem_page_size", Values::Any),
    ("hw:numa_nodes", Values::From(1)),
    (
        "hw:pci_numa_affinity_policy",
        Values::OneOf(&["required", "preferred", "legacy", "socket"]),
    ),
    ("hw:pmem", Values::Any),
    ("hw:pmu", Values::Flag),
    ("hw:redirected_usb_ports", Values::From(0)),
    ("hw:serial_port_count", Values::From(0)),
    (
        "hw:sound_model",
        Values::OneOf(&[
            "sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio",
        ]),
    ),
    ("hw:tpm_model", Values::OneOf(&["tpm-tis", "tpm-crb"])),
    (
        "hw:tpm_secret_security",
        Values::OneOf(&["user", "host", "deployment"]),
    ),
    ("hw:tpm_version", Values::OneOf(&["1.2", "2.0"])),
    (
        "hw:usb_model",
        Values::OneOf(&["none", "nec-xhci", "qemu-xhci"]),
    ),
    ("hw:vif_multiqueue_enabled", Values::Flag),
    (
        "hw:viommu_model",
        Values::OneOf(&["intel", "smmuv3", "virtio", "auto"]),
    ),
    ("hw:virtio_packed_ring", Values::Flag),
    (
        "hw:watchdog_action",
        Values::OneOf(&["none", "pause", "poweroff", "reset", "disabled"]),
    ),
    ("hw_rng:allowed", Values::Flag),
    ("hw_rng:rate_bytes", Values::From(0)),
    ("hw_rng:rate_period", Values::From(0)),
    ("hw_video:ram_max_mb", Values::From(0)),
    ("os:secure_boot", Values::OneOf(&["disabled", "required"])),
    ("pci_passthrough:alias", Values::Any),
    ("quota:cpu_limit", Values::From(0)),
    ("quota:cpu_period", Values::From(0)),
    ("quota:cpu_quota", Values::Any),
    ("quota:cpu_reservation", Values::Any),
    ("quota:cpu_shares", Values::From(0)),
    (
        "quota:cpu_shares_level",
        Values::OneOf(&["custom", "high", "normal", "low"]),
    ),
    ("quota:cpu_shares_share", Values::From(0)),
    ("quota:disk_io_limit", Values::From(0)),
    ("quota:disk_io_reservation", Values::Any),
    (
        "quota:disk_io_shares_level",
        Values::OneOf(&["custom", "high", "normal", "low"]),
    ),
    ("quota:disk_io_shares_share", Values::From(0)),
    ("quota:disk_read_bytes_sec", Values::From(0)),
    ("quota:disk_read_bytes_sec_max", Values::From(0)),
    ("quota:disk_read_iops_sec", Values::From(0)),
    ("quota:disk_read_iops_sec_max", Values::From(0)),
    ("quota:disk_total_bytes_sec", Values::From(0)),
    ("quota:disk_total_bytes_sec_max", Values::From(0)),
    ("quota:disk_total_iops_sec", Values::From(0)),
    ("quota:disk_total_iops_sec_max", Values::From(0)),
    ("quota:disk_write_bytes_sec", Values::From(0)),
    ("quota:disk_write_bytes_sec_max", Values::From(0)),
    ("quota:disk_write_iops_sec", Values::From(0)),
    ("quota:disk_write_iops_sec_max", Values::From(0)),
    ("quota:memory_limit", Values::From(0)),
    ("quota:memory_reservation", Values::Any),
    (
        "quota:memory_shares_level",
        Values::OneOf(&["custom", "high", "normal", "low"]),
    ),
    ("quota:memory_shares_share", Values::From(0)),
    ("quota:vif_inbound_average", Values::From(0)),
    ("quota:vif_inbound_burst", Values::From(0)),
    ("quota:vif_inbound_peak", Values::From(0)),
    ("quota:vif_limit", Values::From(0)),
    ("quota:vif_outbound_average", Values::From(0)),
    ("quota:vif_outbound_burst", Values::From(0)),
    ("quota:vif_outbound_peak", Values::From(0)),
    ("quota:vif_reservation", Values::Any),
    (
        "quota:vif_shares_level",
        Values::OneOf(&["custom", "high", "normal", "low"]),
    ),
    ("quota:vif_shares_share", Values::From(0)),
    ("trust:trusted_host", Values::Any),
    ("vmware:hw_version", Values::Any),
    ("vmware:storage_policy", Values::Any),
];
