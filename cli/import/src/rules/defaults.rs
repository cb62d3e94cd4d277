//! Rules for `[DEFAULT]`.

use super::ImportRule::{Driver, Fixed, Impossible, Meaningless, NotYet, Other, Same};
use super::{RuleRow, row};

const LOGS: &str = "Berth logs to the journal or to standard error; `--log-level` and `--log-format` of `berth agent` set how";
const API: &str = "nova-api reads it, not nova-compute; it stays with the control plane";
const VOLUMES: &str = "only volumes and shares use it, and Berth has none of them";
const MOVES: &str = "only resize and migration use it, and Berth has none of them";
const PYTHON: &str = "it sizes Nova's pools of Python threads; Berth has one runtime";
const PROXY: &str = "a console proxy of the control plane reads it, not nova-compute";
const ROOT: &str = "Berth's unit has the rights that it needs, and starts no helper as root";

pub(super) const ROWS: &[RuleRow] = &[
    row("DEFAULT", &["compute_driver"], Driver),
    row(
        "DEFAULT",
        &[
            "host",
            "my_ip",
            "instances_path",
            "report_interval",
            "service_down_time",
            "compute_monitors",
            "graceful_shutdown_timeout",
            "update_resources_interval",
            "periodic_fuzzy_delay",
            "reserved_host_memory_mb",
            "reserved_host_cpus",
            "reserved_host_disk_mb",
            "cpu_allocation_ratio",
            "ram_allocation_ratio",
            "disk_allocation_ratio",
            "initial_cpu_allocation_ratio",
            "initial_ram_allocation_ratio",
            "initial_disk_allocation_ratio",
            "max_concurrent_builds",
            "arq_binding_timeout",
            "default_availability_zone",
            "default_schedule_zone",
            "vif_plugging_timeout",
            "vif_plugging_is_fatal",
        ],
        Same,
    ),
    row(
        "DEFAULT",
        &["sync_power_state_interval"],
        Other("", "reconcile_interval"),
    ),
    row(
        "DEFAULT",
        &[
            "transport_url",
            "rpc_response_timeout",
            "long_rpc_timeout",
            "control_exchange",
            "rpc_ping_enabled",
        ],
        NotYet,
    ),
    row(
        "DEFAULT",
        &["state_path"],
        Meaningless("Berth's own state_path is /var/lib/berth; it must never be Nova's directory"),
    ),
    row(
        "DEFAULT",
        &["vcpu_pin_set"],
        Impossible(
            "Berth has the two options that followed it. Set cpu_dedicated_set or cpu_shared_set in [compute]; without them guests may run on every CPU",
        ),
    ),
    row(
        "DEFAULT",
        &["resume_guests_state_on_host_boot"],
        Fixed(
            &["true"],
            "Berth starts guests that should run after a boot of the host, always. Stop a guest that should stay off",
        ),
    ),
    row(
        "DEFAULT",
        &["force_config_drive"],
        Meaningless("each guest of Berth has a config drive"),
    ),
    row(
        "DEFAULT",
        &["config_drive_format"],
        Fixed(
            &["iso9660"],
            "Berth writes config drives as ISO 9660. Guests that look for a vfat disk do not find it",
        ),
    ),
    row(
        "DEFAULT",
        &["use_cow_images"],
        Fixed(
            &["true"],
            "Berth's root disks are qcow2 overlays of the cached image. Disks are not copied out in full",
        ),
    ),
    row(
        "DEFAULT",
        &["force_raw_images"],
        Fixed(
            &["true"],
            "Berth converts each image to raw in its cache. The cache needs more space than with qcow2",
        ),
    ),
    row(
        "DEFAULT",
        &["preallocate_images"],
        Fixed(
            &["none"],
            "Berth does not reserve the space of disks. A full file system can stop guests; watch it",
        ),
    ),
    row(
        "DEFAULT",
        &["reserved_huge_pages"],
        Impossible(
            "Berth reserves no huge pages for the host. Keep them out of the pool of the kernel, or guests may use all of them",
        ),
    ),
    row(
        "DEFAULT",
        &["instance_usage_audit"],
        Fixed(
            &["false"],
            "Berth sends no usage audit. Billing that reads it has no records of this host",
        ),
    ),
    row(
        "DEFAULT",
        &["instance_usage_audit_period"],
        Meaningless("only the usage audit uses it, and Berth sends none"),
    ),
    row(
        "DEFAULT",
        &["heal_instance_info_cache_interval"],
        Meaningless(
            "Berth's compute API has it, in [compute_service] on the controller; agents do not read interfaces from Neutron",
        ),
    ),
    row(
        "DEFAULT",
        &["reclaim_instance_interval"],
        Fixed(
            &["0"],
            "Berth deletes a server at once. A deleted server of this host cannot be restored",
        ),
    ),
    row(
        "DEFAULT",
        &["shutdown_timeout"],
        Fixed(
            &["60"],
            "Berth gives each guest 60 seconds to shut down. Guests that need longer are switched off, so stop them from inside",
        ),
    ),
    row(
        "DEFAULT",
        &["injected_network_template", "flat_injected"],
        Impossible(
            "Berth puts no network files into images. Guests read the config drive or ask DHCP",
        ),
    ),
    row(
        "DEFAULT",
        &["pointer_model"],
        Meaningless("Berth gives a tablet to images that ask for one (hw_pointer_model)"),
    ),
    row(
        "DEFAULT",
        &["instance_name_template"],
        Fixed(
            &["instance-%08x"],
            "Berth names domains itself. Tools that search libvirt by this name need the UUID",
        ),
    ),
    row(
        "DEFAULT",
        &[
            "instance_build_timeout",
            "reboot_timeout",
            "rescue_timeout",
            "running_deleted_instance_action",
            "running_deleted_instance_poll_interval",
            "running_deleted_instance_timeout",
            "instance_delete_interval",
            "maximum_instance_delete_attempts",
            "network_allocate_retries",
        ],
        Impossible(
            "Berth has no such option and keeps its own times. Each step is in its journal and is repeated until it is done",
        ),
    ),
    row(
        "DEFAULT",
        &["default_ephemeral_format", "virt_mkfs"],
        Impossible(
            "Berth leaves ephemeral disks without a file system. Guests format them, or images have to do it",
        ),
    ),
    row(
        "DEFAULT",
        &["resize_fs_using_block_device", "timeout_nbd", "mkisofs_cmd"],
        Meaningless("Berth writes config drives itself, and mounts no disks of guests"),
    ),
    row(
        "DEFAULT",
        &["scheduler_instance_sync_interval"],
        Meaningless("only nova-scheduler's own view of hosts uses it; Berth reports changes"),
    ),
    row(
        "DEFAULT",
        &["sync_power_state_pool_size"],
        Meaningless(PYTHON),
    ),
    row(
        "DEFAULT",
        &[
            "executor_thread_pool_size",
            "default_green_pool_size",
            "default_thread_pool_size",
            "cell_worker_thread_pool_size",
            "concurrency_backend",
            "thread_pool_statistic_period",
            "manager_shutdown_timeout",
            "run_external_periodic_tasks",
            "periodic_enable",
        ],
        Meaningless(PYTHON),
    ),
    row(
        "DEFAULT",
        &[
            "debug",
            "default_log_levels",
            "fatal_deprecations",
            "instance_format",
            "instance_uuid_format",
            "log_color",
            "log_config_append",
            "log_date_format",
            "log_dir",
            "log_file",
            "log_options",
            "log_rotate_interval",
            "log_rotate_interval_type",
            "log_rotation_type",
            "logging_context_format_string",
            "logging_debug_format_suffix",
            "logging_default_format_string",
            "logging_exception_prefix",
            "logging_user_identity_format",
            "max_logfile_count",
            "max_logfile_size_mb",
            "publish_errors",
            "rate_limit_burst",
            "rate_limit_except_level",
            "rate_limit_interval",
            "syslog_log_facility",
            "use_journal",
            "use_json",
            "use_stderr",
            "use_syslog",
        ],
        Meaningless(LOGS),
    ),
    row(
        "DEFAULT",
        &["backdoor_port", "backdoor_socket"],
        Meaningless("only Python programs have this console"),
    ),
    row(
        "DEFAULT",
        &["tempdir", "pybasedir"],
        Meaningless("it is a folder of Nova's Python program"),
    ),
    row(
        "DEFAULT",
        &["rootwrap_config", "use_rootwrap_daemon"],
        Meaningless(ROOT),
    ),
    row(
        "DEFAULT",
        &["servicegroup_driver"],
        Meaningless("Nova has one driver for it, and Berth reports as that one does"),
    ),
    row(
        "DEFAULT",
        &["compute_unique_host_name"],
        Meaningless("`host` names the host"),
    ),
    row(
        "DEFAULT",
        &[
            "block_device_allocate_retries",
            "block_device_allocate_retries_interval",
            "volume_usage_poll_interval",
            "my_block_storage_ip",
            "my_shared_fs_storage_ip",
            "reimage_timeout_per_gb",
            "stale_share_access_reconcile_interval",
            "max_local_block_devices",
        ],
        Meaningless(VOLUMES),
    ),
    row(
        "DEFAULT",
        &[
            "allow_resize_to_same_host",
            "live_migration_retry_count",
            "max_concurrent_live_migrations",
            "migrate_max_retries",
            "resize_confirm_window",
        ],
        Meaningless(MOVES),
    ),
    row(
        "DEFAULT",
        &[
            "max_concurrent_snapshots",
            "shelved_offload_time",
            "shelved_poll_interval",
            "non_inheritable_image_properties",
        ],
        Meaningless("only snapshots and shelved servers use it, and Berth has none of them"),
    ),
    row(
        "DEFAULT",
        &[
            "cert",
            "console_host",
            "daemon",
            "key",
            "record",
            "source_is_ipv6",
            "ssl_only",
            "web",
        ],
        Meaningless(PROXY),
    ),
    row(
        "DEFAULT",
        &[
            "default_access_ip_network_name",
            "enable_new_services",
            "enabled_apis",
            "internal_service_availability_zone",
            "metadata_workers",
            "osapi_compute_unique_server_name_scope",
            "osapi_compute_workers",
            "password_length",
        ],
        Meaningless(API),
    ),
];
