//! The options of guests and their devices.

use super::row::{WEEK, row};
use crate::kind::OptionKind;
use crate::option::{Default, OptionRow};

#[rustfmt::skip]
pub(super) const ROWS: &[OptionRow] = &[
    row("", "arq_binding_timeout", OptionKind::Integer(1, 86_400), Default::Integer(300),
        "Seconds a guest's start waits for its accelerator requests to be bound; after that the start is undone."),
    row("", "reconcile_interval", OptionKind::Integer(1, 86_400), Default::Integer(60),
        "Seconds between two comparisons of what guests should be with what the hypervisor has; what stands still is tried \
         again then."),

    row("pci", "device_spec", OptionKind::DeviceSpec, Default::List(&[]),
        "The devices that guests are given by flavors: Nova's entries (`address`, `devname`, `vendor_id`, `product_id` and \
         their tags), as tables or as Nova's JSON texts. What no entry means is the host's own and is never touched. An \
         entry is written `[[pci.device_spec]]`, or in the list: `[{ address = \"0000:81:00.*\" }]`."),
    row("pci", "report_in_placement", OptionKind::Flag, Default::Flag(false),
        "Whether these devices are reported as child providers in Placement, as Nova's option of this name does."),
    row("pci", "alias", OptionKind::PciAlias, Default::List(&[]),
        "Where the conductor is: the names by which flavors ask for these devices (`pci_passthrough:alias`), as Nova's entries: `name`, \
         `vendor_id` and `product_id` or `resource_class`, `device_type`, `numa_policy`, `traits`, `live_migratable`. It needs \
         `[filter_scheduler] pci_in_placement`. An entry is written `[[pci.alias]]`, or in the list: \
         `[{ name = \"a100\", vendor_id = \"10de\", product_id = \"20b7\" }]`."),

    row("accelerators", "device_spec", OptionKind::DeviceSpec, Default::List(&[]),
        "The devices that the accelerator service binds, in the syntax of `[pci] device_spec`. A device has one owner: an entry \
         that means one of the other list's devices is refused."),
    row("accelerators", "scrub", OptionKind::Choice(&["always", "never"]), Default::Text("always"),
        "Whether a device of this list is reset after each guest, and free only then, or free as soon as it is given back: then \
         the next guest may find what the one before left in it."),
    row("accelerators", "reset_hook", OptionKind::Path, Default::Unset,
        "A program that cleans a device of either list after its reset, before anybody else may have it; it is given the \
         device's address. One that fails puts the device into quarantine. A mediated device does not come before it: one \
         that was made for its guest is removed, and one that was there is its vendor's driver's to clean.")
        .example("\"/usr/local/lib/berth/clean-device\""),
    row("accelerators", "reset_hook_timeout", OptionKind::Integer(1, 86_400), Default::Integer(300),
        "Seconds the program may take."),
    row("accelerators", "program_hook", OptionKind::Path, Default::Unset,
        "A program that programs a device of this list where a device profile (`accel:bitstream_id`, `accel:function_id`) or \
         an operator asks for that; it is given the device's address and what it is to be programmed with, and may be run again \
         for the same. Unset: such binds are refused.")
        .example("\"/usr/local/lib/berth/program-device\""),
    row("accelerators", "program_hook_timeout", OptionKind::Integer(1, 86_400), Default::Integer(60),
        "Seconds the program may take. A bind waits no longer than `[accelerator_service] bind_timeout` says."),
    row("accelerators", "health_hook", OptionKind::Path, Default::Unset,
        "A program that says whether a device of either list is well: by its exit with 0. One of which it says anything else, or \
         nothing in time, goes to nobody until it is well again; the reason is the first line of what it writes to its standard \
         error. It is given the device's address and the guests that have it.")
        .example("\"/usr/local/lib/berth/check-device\""),
    row("accelerators", "health_hook_timeout", OptionKind::Integer(1, 86_400), Default::Integer(30),
        "Seconds the program may take for one device."),
    row("accelerators", "health_hook_interval", OptionKind::Integer(1, 86_400), Default::Integer(300),
        "Seconds from one check of a device to the next."),

    row("libvirt", "cpu_mode",
        OptionKind::Choice(&["none", "host-model", "host-passthrough", "maximum", "custom"]),
        Default::Derived("`host-model` with KVM, else `none`"),
        "The processor that guests see.").example("\"host-model\""),
    row("libvirt", "cpu_models", OptionKind::Names, Default::List(&[]),
        "The named processor model of `cpu_mode = \"custom\"`; the first is taken."),
    row("libvirt", "disk_cachemodes", OptionKind::Choices(&["file=none", "file=writeback"]), Default::List(&["file=none"]),
        "How guests' disks are cached: past the host's page cache (`file=none`), which the file system must be able to, or \
         through it (`file=writeback`)."),
    row("libvirt", "emulator", OptionKind::Path, Default::Unset,
        "The emulator that guests run in; unset: the one libvirt picks.").example("\"/usr/bin/qemu-system-x86_64\""),

    row("", "config_drive_layout", OptionKind::Choice(&["openstack", "nocloud"]), Default::Text("openstack"),
        "How a config drive's files stand: as OpenStack's (`config-2`), or as cloud-init's NoCloud (`cidata`)."),

    row("image_cache", "image_directories", OptionKind::Paths, Default::List(&[]),
        "The directories of this host in which images and kernels may lie that a guest names by their path; none: nothing of this \
         host is taken by its path.")
        .example("[\"/srv/images\"]"),
    row("image_cache", "largest_image_gb", OptionKind::Integer(1, 1 << 20), Default::Integer(1024),
        "GiB of one image that are fetched at most."),
    row("image_cache", "remove_unused_base_images", OptionKind::Flag, Default::Flag(true),
        "Whether base images go that no guest uses."),
    row("image_cache", "remove_unused_original_minimum_age_seconds", OptionKind::Integer(0, 52 * WEEK), Default::Integer(86_400),
        "Seconds for which a base image is kept that no guest uses."),

    row("conductor_service", "connection", OptionKind::Database, Default::Derived("`sqlite:` and `hosts.sqlite` below `state_path`"),
        "The database of what the scheduler knows of compute hosts: their states, services, host aggregates and server groups. Conductors of \
         one cloud share it.").example("\"sqlite:/var/lib/berth/hosts.sqlite\""),
    row("conductor_service", "listen", OptionKind::LoopbackListen, Default::Unset,
        "A loopback address for the API beside the socket `conductor.sock` in the folder of `[agent] admin_socket`: whoever reaches \
         it is believed, every user of this host. Unset: the socket alone, for root and `[agent] admin_group`.")
        .example("\"127.0.0.1:8774\""),
    row("conductor_service", "retry_timeout", OptionKind::Integer(0, 86_400), Default::Integer(120),
        "Seconds for which a boot that cannot go on now is tried again before it is taken back: a service is away, or the devices \
         that it is given are still being cleaned after their last guest."),
    row("conductor_service", "scheduler_workers", OptionKind::Integer(1, 64), Default::Integer(4),
        "How many guests the scheduler looks for a host for at once; the others wait. Guests that are looked for together are offered the \
         same devices, and all but one look again.").example("1"),
    row("conductor_service", "headroom_interval", OptionKind::Integer(0, 86_400), Default::Integer(60),
        "Seconds for which the headroom on the page of metrics is left as it is. A read of an older one asks Placement and the filters once for \
         each of the last 32 flavors; 0: it is never made."),
    row("conductor_service", "agents", OptionKind::Agents, Default::List(&[]),
        "The agents of other hosts, each by its node and its `[agent] listen`, asked with the certificate of `[agent_client]`. Nodes \
         that are not named are this host's.").example("[\"compute2=https://192.0.2.11:9178\"]"),

    row("agent_client", "cafile", OptionKind::Path, Default::Unset,
        "PEM file of the authorities that sign agents' certificates; unset: the system's.")
        .example("\"/etc/berth/tls/nodes.pem\""),
    row("agent_client", "certfile", OptionKind::Path, Default::Unset,
        "PEM file with the certificate that is shown to agents; their `client_ca` must have signed it.")
        .example("\"/etc/berth/tls/conductor.pem\""),
    row("agent_client", "keyfile", OptionKind::Path, Default::Unset,
        "PEM file with the key of `certfile`, without a password; unset: it is looked for in `certfile`.")
        .example("\"/etc/berth/tls/conductor.key\""),

    row("agent", "listen", OptionKind::Listen, Default::Unset,
        "Address and port for all of the agent's API over TLS, for whoever shows a certificate that `client_ca` signed. The \
         three files below are needed with it.").example("\"192.0.2.10:9178\""),
    row("agent", "tls_cert", OptionKind::Path, Default::Unset,
        "PEM file with the certificate of `listen`, then those that signed it. The content of the three files is read again at \
         each SIGHUP.").example("\"/etc/berth/tls/node.pem\""),
    row("agent", "tls_key", OptionKind::Path, Default::Unset, "PEM file with the key of `tls_cert`, without a password.")
        .example("\"/etc/berth/tls/node.key\""),
    row("agent", "client_ca", OptionKind::Path, Default::Unset,
        "PEM file of the authorities that sign clients' certificates. Whoever has such a certificate may do everything on this \
         host that the admin socket lets root do.").example("\"/etc/berth/tls/clients.pem\""),
    row("agent", "events_listen", OptionKind::LoopbackListen, Default::Unset,
        "A loopback address for external events alone (POST /v2.1/os-server-external-events), without TLS: where a Cyborg on \
         this host tells of binds. Where `[keystone_authtoken] auth_url` is set, its tokens are checked.")
        .example("\"127.0.0.1:8775\""),
];
