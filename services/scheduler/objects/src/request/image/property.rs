//! The image properties that Nova knows.

use super::kind::PropertyKind;

/// By name, in order.
pub(super) const KINDS: &[(&str, PropertyKind)] = &[
    ("berth_pci_topology", PropertyKind::OneOf(&["host"])),
    ("hw_architecture", PropertyKind::Architecture),
    ("hw_auto_disk_config", PropertyKind::Text),
    ("hw_boot_menu", PropertyKind::Flag),
    ("hw_cdrom_bus", PropertyKind::OneOf(DISK_BUSES)),
    ("hw_cpu_cores", PropertyKind::Int),
    ("hw_cpu_max_cores", PropertyKind::Int),
    ("hw_cpu_max_sockets", PropertyKind::Int),
    ("hw_cpu_max_threads", PropertyKind::Int),
    (
        "hw_cpu_policy",
        PropertyKind::OneOf(&["dedicated", "shared", "mixed"]),
    ),
    ("hw_cpu_realtime_mask", PropertyKind::Text),
    ("hw_cpu_sockets", PropertyKind::Int),
    (
        "hw_cpu_thread_policy",
        PropertyKind::OneOf(&["prefer", "isolate", "require"]),
    ),
    ("hw_cpu_threads", PropertyKind::Int),
    ("hw_device_id", PropertyKind::Int),
    ("hw_disk_bus", PropertyKind::OneOf(DISK_BUSES)),
    ("hw_disk_type", PropertyKind::Text),
    ("hw_emulation_architecture", PropertyKind::Architecture),
    ("hw_ephemeral_encryption", PropertyKind::Flag),
    (
        "hw_ephemeral_encryption_format",
        PropertyKind::OneOf(&["plain", "luks", "luksv2"]),
    ),
    ("hw_ephemeral_encryption_secret_uuid", PropertyKind::Text),
    ("hw_firmware_stateless", PropertyKind::Flag),
    ("hw_firmware_type", PropertyKind::OneOf(&["uefi", "bios"])),
    ("hw_floppy_bus", PropertyKind::OneOf(DISK_BUSES)),
    ("hw_input_bus", PropertyKind::OneOf(&["usb", "virtio"])),
    ("hw_ipxe_boot", PropertyKind::Flag),
    ("hw_locked_memory", PropertyKind::Flag),
    ("hw_machine_type", PropertyKind::Text),
    ("hw_maxphysaddr_bits", PropertyKind::Int),
    (
        "hw_maxphysaddr_mode",
        PropertyKind::OneOf(&["passthrough", "emulate"]),
    ),
    ("hw_mem_encryption", PropertyKind::Flag),
    (
        "hw_mem_encryption_model",
        PropertyKind::OneOf(&["amd-sev", "amd-sev-es", "amd-sev-snp", "intel-tdx"]),
    ),
    ("hw_mem_page_size", PropertyKind::Text),
    ("hw_numa_mem", PropertyKind::Text),
    ("hw_numa_nodes", PropertyKind::Int),
    (
        "hw_pci_numa_affinity_policy",
        PropertyKind::OneOf(&["required", "legacy", "preferred", "socket"]),
    ),
    ("hw_pmu", PropertyKind::Flag),
    ("hw_pointer_model", PropertyKind::OneOf(&["usbtablet"])),
    ("hw_qemu_guest_agent", PropertyKind::Flag),
    ("hw_redirected_usb_ports", PropertyKind::Int),
    ("hw_rescue_bus", PropertyKind::OneOf(DISK_BUSES)),
    (
        "hw_rescue_device",
        PropertyKind::OneOf(&["cdrom", "disk", "floppy", "fs", "lun"]),
    ),
    ("hw_rng_model", PropertyKind::OneOf(&["virtio"])),
    (
        "hw_scsi_model",
        PropertyKind::Named(SCSI_MODELS, OLD_SCSI_MODELS),
    ),
    ("hw_serial_port_count", PropertyKind::Int),
    (
        "hw_sound_model",
        PropertyKind::OneOf(&[
            "sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio",
        ]),
    ),
    ("hw_time_hpet", PropertyKind::Flag),
    ("hw_tpm_model", PropertyKind::OneOf(&["tpm-tis", "tpm-crb"])),
    ("hw_tpm_version", PropertyKind::OneOf(&["1.2", "2.0"])),
    (
        "hw_usb_model",
        PropertyKind::OneOf(&["none", "nec-xhci", "qemu-xhci"]),
    ),
    (
        "hw_video_model",
        PropertyKind::OneOf(&[
            "cirrus", "qxl", "vga", "vmvga", "xen", "virtio", "gop", "none", "bochs",
        ]),
    ),
    ("hw_video_ram", PropertyKind::Int),
    (
        "hw_vif_model",
        PropertyKind::Named(VIF_MODELS, OLD_VIF_MODELS),
    ),
    ("hw_vif_multiqueue_enabled", PropertyKind::Flag),
    (
        "hw_viommu_model",
        PropertyKind::OneOf(&["intel", "smmuv3", "virtio", "auto"]),
    ),
    ("hw_virtio_packed_ring", PropertyKind::Flag),
    (
        "hw_vm_mode",
        PropertyKind::Named(
            VM_MODES,
            &[("pv", "xen"), ("hv", "hvm"), ("baremetal", "hvm")],
        ),
    ),
    (
        "hw_watchdog_action",
        PropertyKind::OneOf(&["none", "pause", "poweroff", "reset", "disabled"]),
    ),
    ("img_bdm_v2", PropertyKind::Flag),
    ("img_bittorrent", PropertyKind::Flag),
    ("img_block_device_mapping", PropertyKind::Records),
    ("img_cache_in_nova", PropertyKind::Flag),
    ("img_compression_level", PropertyKind::Int),
    (
        "img_config_drive",
        PropertyKind::OneOf(&["optional", "mandatory"]),
    ),
    ("img_hide_hypervisor_id", PropertyKind::Flag),
    ("img_hv_requested_version", PropertyKind::Versions),
    (
        "img_hv_type",
        PropertyKind::Named(HYPERVISORS, &[("xapi", "xen")]),
    ),
    ("img_linked_clone", PropertyKind::Flag),
    ("img_mappings", PropertyKind::Records),
    ("img_owner_id", PropertyKind::Text),
    ("img_root_device_name", PropertyKind::Text),
    ("img_signature", PropertyKind::Text),
    ("img_signature_certificate_uuid", PropertyKind::Text),
    (
        "img_signature_hash_method",
        PropertyKind::OneOf(&["SHA-224", "SHA-256", "SHA-384", "SHA-512"]),
    ),
    (
        "img_signature_key_type",
        PropertyKind::OneOf(&[
            "DSA",
            "ECC_SECP384R1",
            "ECC_SECP521R1",
            "ECC_SECT409K1",
            "ECC_SECT409R1",
            "ECC_SECT571K1",
            "ECC_SECT571R1",
            "RSA-PSS",
        ]),
    ),
    ("img_use_agent", PropertyKind::Flag),
    ("img_version", PropertyKind::Int),
    ("os_admin_user", PropertyKind::Text),
    ("os_command_line", PropertyKind::Text),
    ("os_distro", PropertyKind::Text),
    ("os_require_quiesce", PropertyKind::Flag),
    (
        "os_secure_boot",
        PropertyKind::OneOf(&["required", "disabled", "optional"]),
    ),
    ("os_skip_agent_inject_files_at_boot", PropertyKind::Flag),
    ("os_skip_agent_inject_ssh", PropertyKind::Flag),
    ("os_type", PropertyKind::Named(&["linux", "windows"], &[])),
    ("traits_required", PropertyKind::Text),
];

const DISK_BUSES: &[&str] = &[
    "fdc", "ide", "sata", "scsi", "usb", "virtio", "xen", "lxc", "uml",
];

/// As libvirt and others name them.
const HYPERVISORS: &[&str] = &[
    "baremetal",
    "bhyve",
    "docker",
    "fake",
    "hyperv",
    "ironic",
    "kqemu",
    "kvm",
    "lxc",
    "lxd",
    "openvz",
    "parallels",
    "phyp",
    "qemu",
    "test",
    "uml",
    "vbox",
    "vz",
    "vmware",
    "xen",
    "zvm",
    "prsm",
];

/// What a guest sees of its machine.
const VM_MODES: &[&str] = &["hvm", "xen", "uml", "exe"];

const SCSI_MODELS: &[&str] = &[
    "buslogic",
    "ibmvscsi",
    "lsilogic",
    "lsisas1068",
    "lsisas1078",
    "virtio-scsi",
    "vmpvscsi",
];

/// As VMware names them.
const OLD_SCSI_MODELS: &[(&str, &str)] =
    &[("lsilogicsas", "lsisas1068"), ("paravirtual", "vmpvscsi")];

const VIF_MODELS: &[&str] = &[
    "virtio",
    "ne2k_pci",
    "pcnet",
    "rtl8139",
    "e1000",
    "e1000e",
    "netfront",
    "spapr-vlan",
    "lan9118",
    "sriov",
    "vmxnet",
    "vmxnet3",
    "igb",
];

/// As VMware names them.
const OLD_VIF_MODELS: &[(&str, &str)] = &[
    ("virtuale1000", "e1000"),
    ("virtuale1000e", "e1000e"),
    ("virtualpcnet32", "pcnet"),
    ("virtualsriovethernetcard", "sriov"),
    ("virtualvmxnet", "vmxnet"),
    ("virtualvmxnet3", "vmxnet3"),
];

#[cfg(test)]
mod tests {
    use berth_model::LEGACY_IMAGE_PROPERTIES;

    use super::*;

    #[test]
    fn properties_are_in_order() {
        assert!(KINDS.is_sorted_by(|(a, _), (b, _)| a < b));
    }

    #[test]
    fn what_hosts_do_with_a_property_is_known() {
        for (name, _) in KINDS {
            assert!(berth_model::known_image_property(name).is_some(), "{name}");
        }
        for name in berth_model::image_property_names() {
            let is_known = KINDS.iter().any(|(it, _)| *it == name);
            let others = [
                "hw_emulator_threads_policy",
                "hw_numa_cpus",
                "vmware_adaptertype",
            ];
            assert!(is_known || others.contains(&name), "{name}");
        }
    }

    #[test]
    fn an_old_name_is_of_a_property_that_is_known() {
        for (old, name) in LEGACY_IMAGE_PROPERTIES {
            assert!(KINDS.iter().any(|(it, _)| *it == name), "{name}");
            assert!(KINDS.iter().all(|(it, _)| *it != old), "{old}");
        }
    }
}
