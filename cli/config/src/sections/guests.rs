//! Options of guests, their devices and images, and of the agent's listeners.

use std::path::PathBuf;
use std::time::Duration;

use berth_http::SubjectName;
use berth_model::{PciAddress, ResourceClass};
use berth_options::{Json, ListenAddress, OptionKind, TextKind, WEEK, choices, options, seconds};
use berth_sysfs::DEVICE_SPEC;
use berth_virt::FABRIC_PARTITIONS;

use super::{AuthStrategy, PLACEMENT_MAX};

options! {
    /// PCI devices of this host that flavors request, as Nova gives them to guests.
    #[derive(Debug, Clone, PartialEq)]
    pub struct PciSection in "pci" {
        /// The devices that guests get through flavors: Nova's entries (`address`, `devname`, `vendor_id`, `product_id`
        /// and their tags), as tables or as Nova's JSON texts. Devices that match no entry belong to the host and are
        /// never touched. An entry is written `[[pci.device_spec]]`, or in the list: `[{ address = "0000:81:00.*" }]`.
        pub device_spec: Vec<Json> = Vec::new(), kind: DEVICE_SPEC;
        /// Whether these devices are reported as child providers in Placement, as with Nova's option of this name.
        pub report_in_placement: bool = false;
    }
}

options! {
    /// Devices of this host that the accelerator service binds, for device profiles.
    #[derive(Debug, Clone, PartialEq)]
    pub struct AcceleratorsSection in "accelerators" {
        /// The devices that the accelerator service binds, in the syntax of `[pci] device_spec`. A device has one
        /// owner: an entry that matches a device of the other list is refused.
        pub device_spec: Vec<Json> = Vec::new(), kind: DEVICE_SPEC;
        /// Whether a device of this list is reset after each guest before it is available again. `never`: it is
        /// available immediately, and the next guest may find data of the previous one in it.
        pub scrub: ScrubPolicy = ScrubPolicy::Always;
        /// A program that cleans a device of either list after its reset, before the device is available again. It gets
        /// the device's address. If it fails, the device is quarantined. It does not run for mediated devices: one that
        /// was created for its guest is removed, and an existing one is cleaned by its vendor's driver.
        pub reset_hook: Option<PathBuf> = None, kind: PROGRAM, example: "\"/usr/local/lib/berth/clean-device\"";
        /// Seconds that the program may run.
        pub reset_hook_timeout: Duration = seconds(300), kind: Integer(1, 86_400);
        /// A program that programs a device of this list if a device profile (`accel:bitstream_id`,
        /// `accel:function_id`) or an operator requests it. It gets the device's address and the requested program, and
        /// may run again for the same request. Unset: such binds are refused.
        pub program_hook: Option<PathBuf> = None, kind: PROGRAM, example: "\"/usr/local/lib/berth/program-device\"";
        /// Seconds that the program may run. A bind waits for at most `[accelerator_service] bind_timeout`.
        pub program_hook_timeout: Duration = seconds(60), kind: Integer(1, 86_400);
        /// A program that checks the health of a device of either list; exit status 0 means healthy. After any other
        /// result, or a timeout, the device is not allocated until it is healthy again; the reason is the first line of
        /// the program's standard error. It gets the device's address and the guests that have it.
        pub health_hook: Option<PathBuf> = None, kind: PROGRAM, example: "\"/usr/local/lib/berth/check-device\"";
        /// Seconds that the program may run for one device.
        pub health_hook_timeout: Duration = seconds(30), kind: Integer(1, 86_400);
        /// Seconds between two checks of a device.
        pub health_hook_interval: Duration = seconds(300), kind: Integer(1, 86_400);
    }
}

choices! {
    /// `scrub`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ScrubPolicy {
        /// A device is reset between two guests.
        Always = "always",
        Never = "never",
    }
}

options! {
    /// Partitions of an NVSwitch fabric: machines on which NVIDIA's Fabric Manager connects the GPUs of one guest (HGX).
    #[derive(Debug, Clone, PartialEq)]
    pub struct FabricSection in "fabric" {
        /// The partitions that guests can get, each with the `id` of Fabric Manager and the addresses of its GPUs
        /// (`devices`). A guest gets all GPUs of one partition, and is refused with any others of them. In Placement a
        /// partition of GPUs of `[pci] device_spec` is one unit of its `resource_class`, by default
        /// CUSTOM_FABRIC_PARTITION_ and the number of its GPUs. It is reserved while another partition with one of its
        /// GPUs is used. An entry is written `[[fabric.partitions]]`, or in the list:
        /// `[{ id = 1, devices = ["0000:0f:00.0"] }]`.
        pub partitions: Vec<Json> = Vec::new(), kind: FABRIC_PARTITIONS;
        /// A program that activates a partition before its guest starts (`activate ID`), and deactivates it after the
        /// guest's end (`deactivate ID`). It runs again after a kill and at each start of the guest, so it must succeed
        /// if the partition is as requested already. If it fails, the guest does not start, or its GPUs are not released.
        pub partition_hook: Option<PathBuf> = None, kind: PROGRAM, example: "\"/usr/local/lib/berth/fabric-partition\"";
        /// Seconds that the program may run.
        pub partition_hook_timeout: Duration = seconds(60), kind: Integer(1, 86_400);
    }
}

options! {
    /// Mediated devices.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct DevicesSection in "devices" {
        /// Mediated device types this host offers. With more than one, each needs `device_addresses` in its own section.
        pub enabled_mdev_types: Vec<String> = Vec::new(), kind: MDEV_TYPES;
    }
}

options! {
    /// One mediated device type. The section is named after the type, for example `[mdev_nvidia-35]`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct MdevTypeSection in "mdev_TYPE" {
        /// The physical GPUs (or virtual functions) that offer this type. Empty: all of them, if only one type is
        /// enabled.
        pub device_addresses: Vec<PciAddress> = Vec::new(), example: "[\"0000:84:00.0\", \"0000:85:00.0\"]";
        /// The resource class of this type's inventory.
        pub mdev_class: String = "VGPU".into(), kind: MDEV_CLASS;
        /// The maximum number of mediated devices of this type on this host.
        pub max_instances: Option<u32> = None, kind: Integer(1, PLACEMENT_MAX), example: "16";
    }
}

/// A list of alternative names of certificates.
const CLIENT_NAMES: OptionKind = OptionKind::Texts(&TextKind::new(
    "list of DNS:NAME, IP:ADDRESS, URI:URI or email:ADDRESS",
    "write names as in the certificates, such as [\"DNS:controller\"]",
    |text| match text.parse::<SubjectName>() {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{text:?} is not the name of a client: {error}").into()),
    },
));

/// A list of mediated device type names.
const MDEV_TYPES: OptionKind = OptionKind::Texts(&TextKind::new(
    "list of mediated device types",
    "write names as in mdev_supported_types, such as [\"nvidia-35\"]",
    |text| match is_mdev_type(text) {
        true => Ok(()),
        false => Err(format!("{text:?} is not a mediated device type").into()),
    },
));

/// `VGPU` or a custom resource class.
const MDEV_CLASS: OptionKind = OptionKind::Text(&TextKind::new(
    "VGPU or CUSTOM_…",
    "write \"VGPU\" or a custom class such as \"CUSTOM_GPU_SLICE\"",
    |text| {
        let is_custom = text.starts_with("CUSTOM_") && text.parse::<ResourceClass>().is_ok();
        match text == "VGPU" || is_custom {
            true => Ok(()),
            false => Err(format!("{text:?} is not accepted").into()),
        }
    },
));

/// Mediated device types are directory names such as `nvidia-35` or `i915-GVTg_V5_4`.
pub(crate) fn is_mdev_type(text: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    !text.is_empty() && text.chars().all(plain)
}

options! {
    /// Base images of guests' disks. Each is stored once on this host, in `_base` below `instances_path`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ImageCacheSection in "image_cache" {
        /// The directories of this host from which guests may use images and kernels by path. Empty: none may be used
        /// by path.
        pub image_directories: Vec<PathBuf> = Vec::new(), example: "[\"/srv/images\"]";
        /// The maximum size of an image that is downloaded, in GiB.
        pub largest_image_gb: u64 = 1024, kind: Integer(1, 1 << 20);
        /// Whether unused base images are deleted.
        pub remove_unused_base_images: bool = true;
        /// Seconds for which an unused base image is kept.
        pub remove_unused_original_minimum_age_seconds: Duration = seconds(86_400), kind: Integer(0, 52 * WEEK);
    }
}

options! {
    /// The agent's own listeners.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AgentSection in "agent" {
        /// The unix socket of the agent's API. Root and the group below may use it. The sockets of Placement, accelerator
        /// service and conductor are in the same folder, for the same users.
        pub admin_socket: PathBuf = "/run/berth/agent.sock".into(), kind: SOCKET_PATH;
        /// The group that may use the admin socket.
        pub admin_group: String = "berth".into();
        /// A loopback address for Prometheus. The metrics are also available on the admin socket.
        pub metrics_listen: ListenAddress = ListenAddress::NONE, kind: LOOPBACK_LISTEN, example: "\"127.0.0.1:9177\"";
        /// Address and port for the complete API of the agent over TLS, for callers with a certificate that `client_ca`
        /// signed. `tls_cert`, `tls_key` and `client_ca` are required with it.
        pub listen: ListenAddress = ListenAddress::NONE, example: "\"192.0.2.10:9178\"";
        /// PEM file with the certificate of `listen`, followed by its intermediate certificates. The files are read again
        /// at each SIGHUP.
        pub tls_cert: Option<PathBuf> = None, kind: RIGHTS_FILE, example: "\"/etc/berth/tls/node.pem\"";
        /// PEM file with the key of `tls_cert`, without a password.
        pub tls_key: Option<PathBuf> = None, kind: SECRET_FILE, example: "\"/etc/berth/tls/node.key\"";
        /// PEM file of the authorities that sign clients' certificates. A caller with such a certificate, and a name in
        /// `allowed_clients`, may do everything on this host that root may do through the admin socket.
        pub client_ca: Option<PathBuf> = None, kind: RIGHTS_FILE, example: "\"/etc/berth/tls/clients.pem\"";
        /// The callers that `listen` serves, by an alternative name in their certificate (`DNS:`, `IP:`, `URI:` or
        /// `email:`). Empty: every caller with a certificate of `client_ca`.
        pub allowed_clients: Vec<String> = Vec::new(), kind: CLIENT_NAMES, example: "[\"DNS:controller\"]";
        /// PEM files with lists of revoked certificates, at least one for each authority in `client_ca`. They are read
        /// again at each SIGHUP. Empty: no certificate is revoked.
        pub client_crl: Vec<PathBuf> = Vec::new(), example: "[\"/etc/berth/tls/revoked.pem\"]";
        /// A loopback address for external events only (POST /v2.1/os-server-external-events), without TLS: for a
        /// Cyborg on this host that reports binds.
        pub events_listen: ListenAddress = ListenAddress::NONE, kind: LOOPBACK_LISTEN, example: "\"127.0.0.1:8775\"";
        /// How callers of `events_listen` are authenticated: `keystone` validates their tokens by
        /// `[keystone_authtoken]`, with the role `service` or `admin`. `noauth2` accepts events from every user and
        /// process of this host.
        pub events_auth_strategy: AuthStrategy = AuthStrategy::Keystone;
    }
}
