//! Rules for groups of the host: CPUs, libvirt, devices, consoles, image cache, workarounds.

use super::ImportRule::{Fixed, Impossible, Meaningless, Same};
use super::{RuleRow, row};

const MOVES: &str = "only live migration uses it, and Berth has none";
const VOLUMES: &str = "only volumes and shares use it, and Berth has none of them";
const TPM: &str = "Berth has no vTPM. Servers that ask for one cannot run on this host";
const POWER: &str =
    "Berth does not change the power state of CPUs. They stay online, and use more power";
const PROXY: &str = "a console proxy of the control plane reads it, not nova-compute";
const RBD: &str = "Berth stores disks as files below instances_path; images_type decides whether that is a difference";

pub(super) const ROWS: &[RuleRow] = &[
    row(
        "compute",
        &[
            "cpu_shared_set",
            "cpu_dedicated_set",
            "resource_provider_association_refresh",
            "sharing_providers_max_uuids_per_request",
            "provider_config_location",
            "packing_host_numa_cells_allocation_strategy",
            "consecutive_build_service_disable_threshold",
        ],
        Same,
    ),
    row(
        "compute",
        &["live_migration_wait_for_vif_plug"],
        Meaningless(MOVES),
    ),
    row(
        "compute",
        &["max_disk_devices_to_attach"],
        Meaningless(VOLUMES),
    ),
    row(
        "compute",
        &["update_resources_max_workers"],
        Meaningless("Berth reads its one host in one pass"),
    ),
    row(
        "compute",
        &["max_concurrent_disk_ops"],
        Fixed(
            &["0"],
            "Berth has no limit of its own for disk operations; max_concurrent_builds limits builds. Several downloads can run at once",
        ),
    ),
    row(
        "compute",
        &["image_type_exclude_list", "vmdk_allowed_types"],
        Impossible(
            "Berth's list of image formats is fixed: raw and qcow2 without further files. Other formats are refused",
        ),
    ),
    row(
        "compute",
        &["shutdown_retry_interval"],
        Impossible(
            "Berth keeps its own time between two requests to shut down. The guest has the same time as a whole",
        ),
    ),
    row(
        "libvirt",
        &[
            "connection_uri",
            "virt_type",
            "cpu_mode",
            "cpu_models",
            "disk_cachemodes",
            "num_pcie_ports",
            "mem_stats_period_seconds",
            "rx_queue_size",
            "tx_queue_size",
        ],
        Same,
    ),
    row(
        "libvirt",
        &["cpu_model_extra_flags"],
        Impossible(
            "Berth does not switch single CPU flags. Guests have those of cpu_mode and cpu_models; a needed flag can be missing",
        ),
    ),
    row(
        "libvirt",
        &["images_type"],
        Fixed(
            &["default", "qcow2"],
            "Berth stores disks as qcow2 files below instances_path. Disks in Ceph, LVM or ploop cannot be used; keep such servers on nova-compute",
        ),
    ),
    row(
        "libvirt",
        &["hw_machine_type"],
        Impossible(
            "Berth's guests are q35, or pc if the image says so. Set hw_machine_type in the images; others become q35",
        ),
    ),
    row(
        "libvirt",
        &["inject_password", "inject_key"],
        Fixed(
            &["false"],
            "Berth puts no files into images. Guests read password and key from the config drive",
        ),
    ),
    row(
        "libvirt",
        &["inject_partition"],
        Meaningless("Berth puts no files into images"),
    ),
    row(
        "libvirt",
        &["hw_disk_discard"],
        Fixed(
            &["unmap"],
            "Berth passes discards of guests on, always. What a guest discards is gone from its disk's file",
        ),
    ),
    row(
        "libvirt",
        &["file_backed_memory"],
        Fixed(
            &["0"],
            "Berth does not keep memory of guests in files. The host needs the memory itself",
        ),
    ),
    row(
        "libvirt",
        &["cpu_power_management"],
        Fixed(&["false"], POWER),
    ),
    row(
        "libvirt",
        &[
            "cpu_power_management_strategy",
            "cpu_power_governor_low",
            "cpu_power_governor_high",
        ],
        Meaningless(POWER),
    ),
    row("libvirt", &["swtpm_enabled"], Fixed(&["false"], TPM)),
    row(
        "libvirt",
        &["swtpm_user", "swtpm_group", "supported_tpm_secret_security"],
        Meaningless(TPM),
    ),
    row(
        "libvirt",
        &["num_intel_tdx_guests"],
        Meaningless("Berth has no TDX; servers that ask for it are scheduled to other hosts"),
    ),
    row(
        "libvirt",
        &["pmem_namespaces"],
        Impossible("Berth has no persistent memory. Flavors with hw:pmem find no host here"),
    ),
    row(
        "libvirt",
        &["enabled_perf_events"],
        Impossible("Berth switches no perf events on. Ceilometer has no such meters of this host"),
    ),
    row(
        "libvirt",
        &["sysinfo_serial"],
        Fixed(
            &["unique"],
            "Berth's guests have their UUID as serial number. Software that is licensed to the serial number of the host needs a new licence",
        ),
    ),
    row(
        "libvirt",
        &["rng_dev_path"],
        Fixed(
            &["/dev/urandom"],
            "Berth's guests get random numbers from /dev/urandom. Another source is not used",
        ),
    ),
    row(
        "libvirt",
        &[
            "realtime_scheduler_priority",
            "tb_cache_size",
            "use_virtio_for_bridges",
            "disk_prefix",
        ],
        Meaningless("Berth's guests always have virtio, and names of disks follow the bus"),
    ),
    row(
        "libvirt",
        &["max_queues"],
        Impossible(
            "Berth takes the number of queues from the image and the virtual CPUs. The limit is not used",
        ),
    ),
    row(
        "libvirt",
        &["uid_maps", "gid_maps"],
        Meaningless("only LXC uses it, and Berth has no containers"),
    ),
    row(
        "libvirt",
        &["wait_soft_reboot_seconds"],
        Impossible(
            "Berth keeps its own time for a soft reboot. After that it starts the guest again, as Nova does",
        ),
    ),
    row(
        "libvirt",
        &["device_detach_attempts", "device_detach_timeout"],
        Impossible(
            "Berth keeps its own times for detaching devices, and repeats it until it is done",
        ),
    ),
    row(
        "libvirt",
        &["rescue_image_id", "rescue_kernel_id", "rescue_ramdisk_id"],
        Impossible(
            "Berth rescues with the image of the request, or with the server's own. Name the image in the request",
        ),
    ),
    row(
        "libvirt",
        &[
            "snapshots_directory",
            "snapshot_compression",
            "snapshot_image_format",
            "sparse_logical_volumes",
        ],
        Meaningless("only snapshots and LVM use it, and Berth has none of them"),
    ),
    row(
        "libvirt",
        &["migration_inbound_addr", "remote_filesystem_transport"],
        Meaningless(MOVES),
    ),
    row(
        "libvirt",
        &[
            "live_migration_bandwidth",
            "live_migration_completion_timeout",
            "live_migration_downtime",
            "live_migration_downtime_delay",
            "live_migration_downtime_steps",
            "live_migration_inbound_addr",
            "live_migration_monitor_interval",
            "live_migration_parallel_connections",
            "live_migration_permit_auto_converge",
            "live_migration_permit_post_copy",
            "live_migration_scheme",
            "live_migration_timeout_action",
            "live_migration_tunnelled",
            "live_migration_uri",
            "live_migration_with_native_tls",
        ],
        Meaningless(MOVES),
    ),
    row(
        "libvirt",
        &[
            "images_rbd_ceph_conf",
            "images_rbd_glance_copy_poll_interval",
            "images_rbd_glance_copy_timeout",
            "images_rbd_glance_store_name",
            "images_rbd_pool",
            "images_volume_group",
            "rbd_connect_timeout",
            "rbd_destroy_volume_retries",
            "rbd_destroy_volume_retry_interval",
            "rbd_secret_uuid",
            "rbd_user",
        ],
        Meaningless(RBD),
    ),
    row(
        "libvirt",
        &["images_address_space_limit", "images_cpu_time_limit"],
        Meaningless("Berth limits the program that reads images by itself"),
    ),
    row(
        "libvirt",
        &[
            "ceph_mount_options",
            "ceph_mount_point_base",
            "iscsi_iface",
            "iser_use_multipath",
            "nfs_mount_options",
            "nfs_mount_point_base",
            "num_aoe_discover_tries",
            "num_iser_scan_tries",
            "num_nvme_discover_tries",
            "num_volume_scan_tries",
            "quobyte_client_cfg",
            "quobyte_mount_point_base",
            "smbfs_mount_options",
            "smbfs_mount_point_base",
            "use_default_aio_mode_for_volumes",
            "volume_clear",
            "volume_clear_size",
            "volume_enforce_multipath",
            "volume_use_multipath",
            "vzstorage_cache_path",
            "vzstorage_log_path",
            "vzstorage_mount_group",
            "vzstorage_mount_opts",
            "vzstorage_mount_perms",
            "vzstorage_mount_point_base",
            "vzstorage_mount_user",
        ],
        Meaningless(VOLUMES),
    ),
    row(
        "os_vif_ovs",
        &["ovsdb_connection", "ovs_vsctl_timeout"],
        Same,
    ),
    row(
        "os_vif_ovs",
        &["ovsdb_interface"],
        Meaningless("Berth speaks the protocol of the database itself, as `native` does"),
    ),
    row(
        "os_vif_ovs",
        &["isolate_vif"],
        Fixed(
            &["false"],
            "Berth does not put new ports on the dead VLAN. With OVN nothing follows; with ML2/OVS a port could reach its network early",
        ),
    ),
    row(
        "os_vif_ovs",
        &["per_port_bridge"],
        Fixed(
            &["false"],
            "Berth plugs ports into the integration bridge itself. Bridges per port are not made",
        ),
    ),
    row(
        "os_vif_ovs",
        &["default_qos_type", "network_device_mtu"],
        Meaningless("Neutron says the MTU and bandwidth of each port"),
    ),
    row(
        "vnc",
        &[
            "enabled",
            "server_listen",
            "server_proxyclient_address",
            "novncproxy_base_url",
        ],
        Same,
    ),
    row(
        "vnc",
        &["novncproxy_host", "novncproxy_port"],
        Meaningless(PROXY),
    ),
    row(
        "vnc",
        &[
            "auth_schemes",
            "vencrypt_ca_certs",
            "vencrypt_client_cert",
            "vencrypt_client_key",
        ],
        Meaningless(PROXY),
    ),
    row("serial_console", &["enabled", "base_url"], Same),
    row(
        "serial_console",
        &["serialproxy_host", "serialproxy_port"],
        Meaningless(PROXY),
    ),
    row(
        "serial_console",
        &["port_range", "proxyclient_address"],
        Meaningless("Berth's serial consoles go through the agent, without a port for each guest"),
    ),
    row("console", &[], Meaningless(PROXY)),
    row(
        "consoleauth",
        &["token_ttl", "enforce_session_timeout"],
        Same,
    ),
    row(
        "pci",
        &["device_spec", "report_in_placement", "alias"],
        Same,
    ),
    row("devices", &["enabled_mdev_types"], Same),
    row(
        "mdev_TYPE",
        &["device_addresses", "mdev_class", "max_instances"],
        Same,
    ),
    row(
        "image_cache",
        &[
            "remove_unused_base_images",
            "remove_unused_original_minimum_age_seconds",
        ],
        Same,
    ),
    row(
        "image_cache",
        &["manager_interval"],
        Impossible(
            "Berth looks for unused images at its own times. The minimum age decides when they go",
        ),
    ),
    row(
        "image_cache",
        &["subdirectory_name"],
        Fixed(
            &["_base"],
            "Berth's images are in _base below instances_path. Those that Nova cached elsewhere are not used",
        ),
    ),
    row(
        "image_cache",
        &[
            "precache_concurrency",
            "remove_unused_resized_minimum_age_seconds",
        ],
        Meaningless("nova-conductor caches images beforehand, and Berth keeps no resized images"),
    ),
    row("workarounds", &["disable_fallback_pcpu_query"], Same),
    row(
        "workarounds",
        &["reserve_disk_resource_for_image_cache"],
        Fixed(
            &["false"],
            "Berth does not count the image cache as used disk. Raise reserved_host_disk_mb by its size",
        ),
    ),
    row(
        "workarounds",
        &["libvirt_disable_apic"],
        Fixed(
            &["false"],
            "Berth's guests have an APIC. Guests that cannot start with one do not start",
        ),
    ),
    row(
        "workarounds",
        &["disable_deep_image_inspection"],
        Fixed(
            &["false"],
            "Berth inspects each image before it is used. Images that fail are refused",
        ),
    ),
    row(
        "workarounds",
        &["wait_for_vif_plugged_event_during_hard_reboot"],
        Impossible(
            "Berth waits for no event of Neutron in a hard reboot. A guest can start before its port is active",
        ),
    ),
    row(
        "workarounds",
        &["handle_virt_lifecycle_events"],
        Fixed(
            &["true"],
            "Berth always follows what libvirt reports of guests",
        ),
    ),
    row(
        "workarounds",
        &[],
        Meaningless("it changes a part of Nova that Berth does not have"),
    ),
];
