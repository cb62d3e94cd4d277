//! The image properties that Nova and Glance know and Berth's own (`berth_`), and what a host of Berth does with them.
//!
//! A property that protects the guest or its image is never ignored: encryption, signatures, TPMs. Other properties that
//! hosts do not read describe how the guest sees its devices. Names without a prefix of Nova's are the user's own.

use std::collections::BTreeMap;

use super::support::{HostSupport, UnsupportedKey};
use crate::nearest_name;

/// Prefixes of names that end with a cell's number.
const NUMBERED: [&str; 2] = ["hw_numa_cpus.", "hw_numa_mem."];

/// The key of an image that was uploaded from an encrypted volume.
const VOLUME_KEY: &str = "cinder_encryption_key_id";

/// An image of a disk without a boot loader, which needs a kernel from another image.
const OF_KERNELS: [&str; 2] = ["kernel_id", "ramdisk_id"];

/// Records that Glance keeps about an import. They say nothing about the data of an active image.
const OF_IMPORTS: [&str; 4] = [
    "os_glance_failed_import",
    "os_glance_import_task",
    "os_glance_importing_to_stores",
    "os_glance_stage_host",
];

/// The old names that Nova still reads, each with the one of today.
pub const LEGACY_IMAGE_PROPERTIES: [(&str, &str); 22] = [
    ("architecture", "hw_architecture"),
    ("owner_id", "img_owner_id"),
    ("vmware_disktype", "hw_disk_type"),
    ("vmware_image_version", "img_version"),
    ("vmware_ostype", "os_distro"),
    ("auto_disk_config", "hw_auto_disk_config"),
    ("ipxe_boot", "hw_ipxe_boot"),
    ("xenapi_device_id", "hw_device_id"),
    ("xenapi_image_compression_level", "img_compression_level"),
    ("vmware_linked_clone", "img_linked_clone"),
    ("xenapi_use_agent", "img_use_agent"),
    ("xenapi_skip_agent_inject_ssh", "os_skip_agent_inject_ssh"),
    (
        "xenapi_skip_agent_inject_files_at_boot",
        "os_skip_agent_inject_files_at_boot",
    ),
    ("cache_in_nova", "img_cache_in_nova"),
    ("vm_mode", "hw_vm_mode"),
    ("bittorrent", "img_bittorrent"),
    ("mappings", "img_mappings"),
    ("block_device_mapping", "img_block_device_mapping"),
    ("bdm_v2", "img_bdm_v2"),
    ("root_device_name", "img_root_device_name"),
    ("hypervisor_version_requires", "img_hv_requested_version"),
    ("hypervisor_type", "img_hv_type"),
];

/// The names of all image properties that Nova knows and of Berth's own, without old ones and those that end with a number.
pub fn image_property_names<'a>() -> impl Iterator<Item = &'a str> {
    IMAGE_PROPERTIES.iter().map(|(name, _)| *name)
}

/// What a host does with an image property; `None` if Nova, Glance and Berth do not know the name.
#[must_use]
pub fn known_image_property(name: &str) -> Option<HostSupport> {
    if NUMBERED.iter().any(|prefix| name.starts_with(prefix)) {
        return Some(HostSupport::Placed);
    }
    if name == VOLUME_KEY {
        return Some(HostSupport::refused(
            "the image was uploaded from an encrypted volume",
        ));
    }
    if OF_KERNELS.contains(&name) {
        return Some(HostSupport::refused("guests start from their disk"));
    }
    if name.starts_with("os_encrypt_") || name.starts_with("os_decrypt_") {
        return Some(HostSupport::refused("hosts do not decrypt images"));
    }
    if name.starts_with("img_signature") {
        return Some(HostSupport::refused(
            "hosts do not verify signatures of images",
        ));
    }
    if OF_IMPORTS.contains(&name) {
        return Some(HostSupport::Harmless("Glance keeps it about an import"));
    }
    let mut legacy = LEGACY_IMAGE_PROPERTIES.iter();
    let name = legacy
        .find_map(|(old, new)| (*old == name).then_some(*new))
        .unwrap_or(name);
    let row = IMAGE_PROPERTIES.binary_search_by_key(&name, |(it, _)| it);
    row.ok().map(|row| IMAGE_PROPERTIES[row].1)
}

/// Checks that hosts honour an image property, or that nothing which protects the guest or its image is lost.
pub fn check_image_property(name: &str, value: &str) -> Result<(), UnsupportedKey> {
    match known_image_property(name) {
        Some(_) if name == VOLUME_KEY && !value.trim().is_empty() => {
            Err(UnsupportedKey::EncryptedVolume)
        }
        Some(support) => support.check(name, value),
        None if is_of_hosts(name) && !value.trim().is_empty() => {
            Err(UnsupportedKey::UnknownProperty {
                key: name.chars().take(80).collect(),
                nearest: nearest_name(name, image_property_names()),
            })
        }
        None => Ok(()),
    }
}

/// Whether an unknown name can only be meant for hosts.
fn is_of_hosts(name: &str) -> bool {
    name.starts_with("berth_") || name.starts_with("hw_") || name.starts_with("os_glance_")
}

pub(super) fn check_image_properties(
    properties: &BTreeMap<String, String>,
) -> Result<(), UnsupportedKey> {
    properties
        .iter()
        .try_for_each(|(name, value)| check_image_property(name, value))
}

/// Whether hosts read an image property themselves. Properties that place the guest reach them as extra specs.
#[must_use]
pub fn is_machine_property(name: &str) -> bool {
    matches!(known_image_property(name), Some(HostSupport::Honoured))
}

/// The extra specs with the image properties that place the guest, under the names of extra specs.
#[must_use]
pub fn with_image_placement(
    extra_specs: &BTreeMap<String, String>,
    properties: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    const PAGE_SIZE: &str = "hw_mem_page_size";
    let mut specs = extra_specs.clone();
    for (name, value) in properties {
        let is_placing = matches!(known_image_property(name), Some(HostSupport::Placed));
        let Some(rest) = name.strip_prefix("hw_").filter(|_| is_placing) else {
            continue;
        };
        // If both define a value, the scheduler has checked that they agree. Only the image's page size is more specific
        // than the flavor's.
        if name == PAGE_SIZE || !specs.contains_key(&format!("hw:{rest}")) {
            specs.insert(format!("hw:{rest}"), value.clone());
        }
    }
    specs
}

/// By name, in order.
const IMAGE_PROPERTIES: &[(&str, HostSupport)] = &[
    ("berth_pci_topology", HostSupport::Honoured),
    ("hw_architecture", HostSupport::Scheduled),
    (
        "hw_auto_disk_config",
        HostSupport::Harmless("only hosts of Xen read it"),
    ),
    ("hw_boot_menu", HostSupport::Honoured),
    ("hw_cdrom_bus", HostSupport::Honoured),
    ("hw_cpu_cores", HostSupport::Honoured),
    ("hw_cpu_max_cores", HostSupport::Honoured),
    ("hw_cpu_max_sockets", HostSupport::Honoured),
    ("hw_cpu_max_threads", HostSupport::Honoured),
    ("hw_cpu_policy", HostSupport::Placed),
    (
        "hw_cpu_realtime_mask",
        HostSupport::Harmless("it has an effect only with hw:cpu_realtime"),
    ),
    ("hw_cpu_sockets", HostSupport::Honoured),
    ("hw_cpu_thread_policy", HostSupport::Placed),
    ("hw_cpu_threads", HostSupport::Honoured),
    (
        "hw_device_id",
        HostSupport::Harmless("only hosts of Xen read it"),
    ),
    ("hw_disk_bus", HostSupport::Honoured),
    (
        "hw_disk_type",
        HostSupport::Harmless("only hosts of VMware read it"),
    ),
    (
        "hw_emulation_architecture",
        HostSupport::refused("guests have the architecture of their host"),
    ),
    ("hw_emulator_threads_policy", HostSupport::Placed),
    (
        "hw_ephemeral_encryption",
        HostSupport::unless_off("hosts do not encrypt disks"),
    ),
    (
        "hw_ephemeral_encryption_format",
        HostSupport::refused("hosts do not encrypt disks"),
    ),
    (
        "hw_ephemeral_encryption_secret_uuid",
        HostSupport::refused("hosts do not encrypt disks"),
    ),
    ("hw_firmware_stateless", HostSupport::Honoured),
    ("hw_firmware_type", HostSupport::Honoured),
    (
        "hw_floppy_bus",
        HostSupport::Harmless("guests have no floppy drive"),
    ),
    ("hw_input_bus", HostSupport::Honoured),
    (
        "hw_ipxe_boot",
        HostSupport::Harmless("guests do not boot from the network unless their firmware does"),
    ),
    (
        "hw_locked_memory",
        HostSupport::unless_off(
            "hosts do not lock memory; hw:mem_page_size=large keeps it from being swapped",
        ),
    ),
    ("hw_machine_type", HostSupport::Honoured),
    ("hw_maxphysaddr_bits", HostSupport::Honoured),
    ("hw_maxphysaddr_mode", HostSupport::Honoured),
    ("hw_mem_encryption", HostSupport::Honoured),
    ("hw_mem_encryption_model", HostSupport::Honoured),
    ("hw_mem_page_size", HostSupport::Placed),
    (
        "hw_numa_cpus",
        HostSupport::refused("hw_numa_cpus.N has the CPUs of a cell"),
    ),
    (
        "hw_numa_mem",
        HostSupport::refused("hw_numa_mem.N has the memory of a cell"),
    ),
    ("hw_numa_nodes", HostSupport::Placed),
    ("hw_pci_numa_affinity_policy", HostSupport::Placed),
    ("hw_pmu", HostSupport::Honoured),
    (
        "hw_pointer_model",
        HostSupport::Refused {
            reason: "guests have a USB tablet",
            unless: &["usbtablet"],
        },
    ),
    ("hw_qemu_guest_agent", HostSupport::Honoured),
    (
        "hw_redirected_usb_ports",
        HostSupport::Refused {
            reason: "guests have no USB redirection",
            unless: &["0"],
        },
    ),
    (
        "hw_rescue_bus",
        HostSupport::Harmless("a rescue disk is on the bus of the other disks"),
    ),
    (
        "hw_rescue_device",
        HostSupport::Harmless("a rescue disk is a disk"),
    ),
    (
        "hw_rng_model",
        HostSupport::Refused {
            reason: "guests have a virtio random number generator",
            unless: &["virtio"],
        },
    ),
    ("hw_scsi_model", HostSupport::Honoured),
    (
        "hw_serial_port_count",
        HostSupport::Refused {
            reason: "guests have one serial port",
            unless: &["1"],
        },
    ),
    (
        "hw_sound_model",
        HostSupport::refused("guests have no sound card"),
    ),
    ("hw_time_hpet", HostSupport::Honoured),
    ("hw_tpm_model", HostSupport::refused("guests have no TPM")),
    ("hw_tpm_version", HostSupport::refused("guests have no TPM")),
    (
        "hw_usb_model",
        HostSupport::Refused {
            reason: "guests have the USB controller that libvirt chooses",
            unless: &["none"],
        },
    ),
    ("hw_video_model", HostSupport::Honoured),
    ("hw_video_ram", HostSupport::Honoured),
    ("hw_vif_model", HostSupport::Honoured),
    ("hw_vif_multiqueue_enabled", HostSupport::Honoured),
    (
        "hw_viommu_model",
        HostSupport::refused("guests have no IOMMU"),
    ),
    ("hw_virtio_packed_ring", HostSupport::Honoured),
    ("hw_vm_mode", HostSupport::Scheduled),
    ("hw_watchdog_action", HostSupport::Honoured),
    (
        "img_bdm_v2",
        HostSupport::Harmless("it has an effect only with img_block_device_mapping"),
    ),
    (
        "img_bittorrent",
        HostSupport::Harmless("only hosts of Xen read it"),
    ),
    (
        "img_block_device_mapping",
        HostSupport::Refused {
            reason: "hosts have no volumes",
            unless: &["[]"],
        },
    ),
    (
        "img_cache_in_nova",
        HostSupport::Harmless("only hosts of Xen read it"),
    ),
    (
        "img_compression_level",
        HostSupport::Harmless("it has an effect only on snapshots, which hosts refuse"),
    ),
    (
        "img_config_drive",
        HostSupport::Harmless("each guest has a config drive"),
    ),
    ("img_hide_hypervisor_id", HostSupport::Honoured),
    ("img_hv_requested_version", HostSupport::Scheduled),
    ("img_hv_type", HostSupport::Scheduled),
    (
        "img_linked_clone",
        HostSupport::Harmless("only hosts of VMware read it"),
    ),
    (
        "img_mappings",
        HostSupport::Refused {
            reason: "hosts do not make the disks of EC2 images",
            unless: &["[]"],
        },
    ),
    (
        "img_owner_id",
        HostSupport::Harmless("only hosts of VMware read it"),
    ),
    (
        "img_root_device_name",
        HostSupport::Harmless("the bus of the root disk gives its name"),
    ),
    (
        "img_signature",
        HostSupport::refused("hosts do not verify signatures of images"),
    ),
    (
        "img_signature_certificate_uuid",
        HostSupport::refused("hosts do not verify signatures of images"),
    ),
    (
        "img_signature_hash_method",
        HostSupport::refused("hosts do not verify signatures of images"),
    ),
    (
        "img_signature_key_type",
        HostSupport::refused("hosts do not verify signatures of images"),
    ),
    (
        "img_use_agent",
        HostSupport::Harmless("only hosts of Xen read it"),
    ),
    (
        "img_version",
        HostSupport::Harmless("only hosts of VMware read it"),
    ),
    (
        "os_admin_user",
        HostSupport::Harmless(
            "it has an effect only on changes of the password, which hosts refuse",
        ),
    ),
    (
        "os_command_line",
        HostSupport::Harmless("it has an effect only with kernel_id"),
    ),
    (
        "os_distro",
        HostSupport::Harmless("a host of Nova chooses devices by it only with libosinfo"),
    ),
    (
        "os_require_quiesce",
        HostSupport::Harmless("it has an effect only on snapshots, which hosts refuse"),
    ),
    ("os_secure_boot", HostSupport::Honoured),
    (
        "os_skip_agent_inject_files_at_boot",
        HostSupport::Harmless("only hosts of Xen read it"),
    ),
    (
        "os_skip_agent_inject_ssh",
        HostSupport::Harmless("only hosts of Xen read it"),
    ),
    ("os_type", HostSupport::Honoured),
    ("traits_required", HostSupport::Scheduled),
    (
        "vmware_adaptertype",
        HostSupport::refused("hw_disk_bus and hw_scsi_model name the bus of disks"),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_properties_are_in_order() {
        assert!(IMAGE_PROPERTIES.is_sorted_by(|(a, _), (b, _)| a < b));
    }

    #[test]
    fn what_protects_a_guest_or_its_image_is_refused_and_not_ignored() {
        for (name, value) in [
            ("cinder_encryption_key_id", "8f2b"),
            ("img_signature", "abc"),
            ("img_signature_of_tomorrow", "abc"),
            ("os_encrypt_key_id", "8f2b"),
            ("os_decrypt_size", "1"),
            ("os_glance_sealed", "1"),
            ("hw_tpm_version", "2.0"),
            ("hw_ephemeral_encryption", "true"),
            ("hw_vault", "1"),
            ("block_device_mapping", "[{\"snapshot_id\": \"8f2b\"}]"),
            ("kernel_id", "8f2b"),
        ] {
            let refused = check_image_property(name, value);
            assert!(refused.is_err(), "{name}");
            assert_eq!(check_image_property(name, ""), Ok(()), "{name}");
        }
        for (name, value) in [
            ("hw_ephemeral_encryption", "False"),
            ("os_glance_failed_import", "cheap"),
            ("hw_qemu_guest_agent", "yes"),
            ("block_device_mapping", "[]"),
            ("hw_numa_cpus.0", "0-1"),
            ("os_distro", "debian"),
            ("mine", "x"),
        ] {
            assert_eq!(check_image_property(name, value), Ok(()), "{name}");
        }
    }

    #[test]
    fn an_unknown_property_of_hosts_is_refused_with_the_name_that_is_meant() {
        let refused = |name| check_image_property(name, "x").unwrap_err().to_string();
        assert_eq!(
            refused("hw_firmware_tpye"),
            "unknown image property hw_firmware_tpye; did you mean hw_firmware_type?"
        );
        assert_eq!(
            refused("hw_colour_of_case"),
            "unknown image property hw_colour_of_case"
        );
    }
}
