//! No extra spec and no image property that Nova documents is ignored: what Nova 34.0.0 knows, and what hosts do with it.

use proptest::prelude::*;

use super::effects::EFFECTS;
use super::*;

/// The names of `nova/api/validation/extra_specs`, with one number or name where Nova takes any.
const EXTRA_SPECS: &[&str] = &[
    "accel:device_profile",
    "group_policy",
    "hide_hypervisor_id",
    "hw:boot_menu",
    "hw:cpu_cores",
    "hw:cpu_dedicated_mask",
    "hw:cpu_max_cores",
    "hw:cpu_max_sockets",
    "hw:cpu_max_threads",
    "hw:cpu_policy",
    "hw:cpu_realtime",
    "hw:cpu_realtime_mask",
    "hw:cpu_sockets",
    "hw:cpu_thread_policy",
    "hw:cpu_threads",
    "hw:emulator_threads_policy",
    "hw:ephemeral_encryption",
    "hw:ephemeral_encryption_format",
    "hw:hide_hypervisor_id",
    "hw:locked_memory",
    "hw:mem_encryption",
    "hw:mem_encryption_model",
    "hw:mem_page_size",
    "hw:numa_cpus.0",
    "hw:numa_mem.0",
    "hw:numa_nodes",
    "hw:pci_numa_affinity_policy",
    "hw:pmem",
    "hw:pmu",
    "hw:redirected_usb_ports",
    "hw:serial_port_count",
    "hw:sound_model",
    "hw:tpm_model",
    "hw:tpm_secret_security",
    "hw:tpm_version",
    "hw:usb_model",
    "hw:vif_multiqueue_enabled",
    "hw:viommu_model",
    "hw:virtio_packed_ring",
    "hw:watchdog_action",
    "hw_rng:allowed",
    "hw_rng:rate_bytes",
    "hw_rng:rate_period",
    "hw_video:ram_max_mb",
    "os:secure_boot",
    "pci_passthrough:alias",
    "quota:cpu_limit",
    "quota:cpu_period",
    "quota:cpu_quota",
    "quota:cpu_reservation",
    "quota:cpu_shares",
    "quota:cpu_shares_level",
    "quota:cpu_shares_share",
    "quota:disk_io_limit",
    "quota:disk_io_reservation",
    "quota:disk_io_shares_level",
    "quota:disk_io_shares_share",
    "quota:disk_read_bytes_sec",
    "quota:disk_read_iops_sec",
    "quota:disk_total_bytes_sec",
    "quota:disk_total_iops_sec",
    "quota:disk_write_bytes_sec",
    "quota:disk_write_iops_sec",
    "quota:memory_limit",
    "quota:memory_reservation",
    "quota:memory_shares_level",
    "quota:memory_shares_share",
    "quota:vif_inbound_average",
    "quota:vif_inbound_burst",
    "quota:vif_inbound_peak",
    "quota:vif_limit",
    "quota:vif_outbound_average",
    "quota:vif_outbound_burst",
    "quota:vif_outbound_peak",
    "quota:vif_reservation",
    "quota:vif_shares_level",
    "quota:vif_shares_share",
    "vmware:hw_version",
    "vmware:storage_policy",
];

/// Names of scopes that only the scheduler reads.
const FREE_SPECS: &[&str] = &[
    "aggregate_instance_extra_specs:a",
    "capabilities:host",
    "resources:CUSTOM_A",
    "trait:CUSTOM_A",
];

/// The fields of `ImageMetaProps`, and what it reads besides them.
const PROPERTIES: &[&str] = &[
    "hw_architecture",
    "hw_auto_disk_config",
    "hw_boot_menu",
    "hw_cdrom_bus",
    "hw_cpu_cores",
    "hw_cpu_max_cores",
    "hw_cpu_max_sockets",
    "hw_cpu_max_threads",
    "hw_cpu_policy",
    "hw_cpu_realtime_mask",
    "hw_cpu_sockets",
    "hw_cpu_thread_policy",
    "hw_cpu_threads",
    "hw_device_id",
    "hw_disk_bus",
    "hw_disk_type",
    "hw_emulation_architecture",
    "hw_ephemeral_encryption",
    "hw_ephemeral_encryption_format",
    "hw_ephemeral_encryption_secret_uuid",
    "hw_firmware_stateless",
    "hw_firmware_type",
    "hw_floppy_bus",
    "hw_input_bus",
    "hw_ipxe_boot",
    "hw_locked_memory",
    "hw_machine_type",
    "hw_maxphysaddr_bits",
    "hw_maxphysaddr_mode",
    "hw_mem_encryption",
    "hw_mem_encryption_model",
    "hw_mem_page_size",
    "hw_numa_cpus",
    "hw_numa_cpus.0",
    "hw_numa_mem",
    "hw_numa_mem.0",
    "hw_numa_nodes",
    "hw_pci_numa_affinity_policy",
    "hw_pmu",
    "hw_pointer_model",
    "hw_qemu_guest_agent",
    "hw_redirected_usb_ports",
    "hw_rescue_bus",
    "hw_rescue_device",
    "hw_rng_model",
    "hw_scsi_model",
    "hw_serial_port_count",
    "hw_sound_model",
    "hw_time_hpet",
    "hw_tpm_model",
    "hw_tpm_version",
    "hw_usb_model",
    "hw_video_model",
    "hw_video_ram",
    "hw_vif_model",
    "hw_vif_multiqueue_enabled",
    "hw_viommu_model",
    "hw_virtio_packed_ring",
    "hw_vm_mode",
    "hw_watchdog_action",
    "img_bdm_v2",
    "img_bittorrent",
    "img_block_device_mapping",
    "img_cache_in_nova",
    "img_compression_level",
    "img_config_drive",
    "img_hide_hypervisor_id",
    "img_hv_requested_version",
    "img_hv_type",
    "img_linked_clone",
    "img_mappings",
    "img_owner_id",
    "img_root_device_name",
    "img_signature",
    "img_signature_certificate_uuid",
    "img_signature_hash_method",
    "img_signature_key_type",
    "img_use_agent",
    "img_version",
    "os_admin_user",
    "os_command_line",
    "os_distro",
    "os_require_quiesce",
    "os_secure_boot",
    "os_skip_agent_inject_files_at_boot",
    "os_skip_agent_inject_ssh",
    "os_type",
    "traits_required",
    "vmware_adaptertype",
];

/// The old names that `ImageMetaProps` reads.
const LEGACY: &[&str] = &[
    "architecture",
    "auto_disk_config",
    "bdm_v2",
    "bittorrent",
    "block_device_mapping",
    "cache_in_nova",
    "hypervisor_type",
    "hypervisor_version_requires",
    "ipxe_boot",
    "mappings",
    "owner_id",
    "root_device_name",
    "vm_mode",
    "vmware_disktype",
    "vmware_image_version",
    "vmware_linked_clone",
    "vmware_ostype",
    "xenapi_device_id",
    "xenapi_image_compression_level",
    "xenapi_skip_agent_inject_files_at_boot",
    "xenapi_skip_agent_inject_ssh",
    "xenapi_use_agent",
];

fn is_extra_spec(key: &str) -> bool {
    EXTRA_SPECS.contains(&key) || known_extra_spec(key).is_some()
}

/// What a host does with a key.
fn support(key: &str) -> HostSupport {
    let known = match is_extra_spec(key) {
        true => known_extra_spec(key).map(|(_, support)| support),
        false => known_image_property(key),
    };
    known.unwrap_or_else(|| panic!("{key}: Nova knows it, and no table has it"))
}

/// A flavor's extra specs and an image's properties with one more key.
fn with(specs: &str, properties: &str, key: &str, value: &str) -> (Pairs, Pairs) {
    let (mut specs, mut properties) = (map(specs), map(properties));
    let place = match is_extra_spec(key) {
        true => &mut specs,
        false => &mut properties,
    };
    place.insert(key.to_owned(), value.to_owned());
    (specs, properties)
}

type Pairs = BTreeMap<String, String>;

#[test]
fn what_hosts_do_with_each_key_of_nova_is_known() {
    for key in EXTRA_SPECS.iter().chain(PROPERTIES).chain(LEGACY) {
        let _ = support(key);
    }
    for key in FREE_SPECS {
        assert_eq!(check_extra_spec(key, "1"), Ok(()), "{key}");
    }
    let ours: Vec<_> = LEGACY_IMAGE_PROPERTIES
        .iter()
        .map(|(old, _)| *old)
        .collect();
    assert!(LEGACY.iter().all(|old| ours.contains(old)) && ours.len() == LEGACY.len());
}

#[test]
fn each_key_that_hosts_honour_changes_the_guest() {
    let of_nova = EXTRA_SPECS.iter().chain(PROPERTIES).copied();
    for key in of_nova
        .chain(extra_spec_names())
        .chain(image_property_names())
    {
        let row = EFFECTS.iter().find(|(it, ..)| *it == key);
        let is_honoured = matches!(support(key), HostSupport::Honoured | HostSupport::Placed);
        assert_eq!(row.is_some(), is_honoured, "{key}");
        let Some((_, value, specs, properties)) = row else {
            continue;
        };
        let without = GuestMachine::of(4, 1024, &map(specs), &map(properties));
        let (specs, properties) = with(specs, properties, key, value);
        let machine = GuestMachine::of(4, 1024, &specs, &properties);
        assert!(machine.is_ok(), "{key}: {machine:?}");
        assert_ne!(without, machine, "{key}");
    }
}

/// The keys that hosts do not honour.
fn others() -> Vec<&'static str> {
    let all = EXTRA_SPECS.iter().chain(PROPERTIES).chain(LEGACY).copied();
    all.filter(|key| !matches!(support(key), HostSupport::Honoured | HostSupport::Placed))
        .collect()
}

/// Values that mean something for some key, and others.
fn value() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "true", "1", "uefi", "amd-sev", "2.0", "ich9", "0", "no", "[]", "",
    ];
    prop_oneof![
        proptest::sample::select(WORDS).prop_map(str::to_owned),
        "[a-z0-9_-]{1,8}",
    ]
}

proptest! {
    #[test]
    fn a_guest_lacks_nothing_that_a_refused_key_requests(
        key in proptest::sample::select(others()), value in value()
    ) {
        let (specs, properties) = with("", "", key, &value);
        let machine = GuestMachine::of(4, 1024, &specs, &properties);
        match support(key) {
            HostSupport::Refused { unless, .. }
                if !value.is_empty() && !unless.contains(&value.as_str()) =>
            {
                let refused = machine.unwrap_err().to_string();
                prop_assert!(refused.contains(key) || refused.contains("unsupported"), "{refused}");
            }
            _ => prop_assert_eq!(machine, super::machine(4, "", "")),
        }
    }
}
