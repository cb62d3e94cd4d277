//! Guests, their devices and images, and the agent's own doors.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use berth_model::{PciAddress, ResourceClass};
use berth_options::{Json, OptionKind, TextKind, WEEK, choices, options, seconds};
use berth_sysfs::DEVICE_SPEC;

use super::PLACEMENT_MAX;

options! {
    /// PCI devices of this host that flavors name, as Nova gives them to guests.
    #[derive(Debug, Clone, PartialEq)]
    pub struct PciSection in "pci" {
        /// The devices that guests are given by flavors: Nova's entries (`address`, `devname`, `vendor_id`, `product_id`
        /// and their tags), as tables or as Nova's JSON texts. What no entry means is the host's own and is never touched.
        /// An entry is written `[[pci.device_spec]]`, or in the list: `[{ address = "0000:81:00.*" }]`.
        pub device_spec: Vec<Json> = Vec::new(), kind: DEVICE_SPEC;
        /// Whether these devices are reported as child providers in Placement, as Nova's option of this name does.
        pub report_in_placement: bool = false;
    }
}

options! {
    /// Devices of this host that the accelerator service binds: device profiles name them.
    #[derive(Debug, Clone, PartialEq)]
    pub struct AcceleratorsSection in "accelerators" {
        /// The devices that the accelerator service binds, in the syntax of `[pci] device_spec`. A device has one owner: an
        /// entry that means one of the other list's devices is refused.
        pub device_spec: Vec<Json> = Vec::new(), kind: DEVICE_SPEC;
        /// Whether a device of this list is reset after each guest, and free only then, or free as soon as it is given
        /// back: then the next guest may find what the one before left in it.
        pub scrub: ScrubPolicy = ScrubPolicy::Always;
        /// A program that cleans a device of either list after its reset, before anybody else may have it; it is given the
        /// device's address. One that fails puts the device into quarantine. A mediated device does not come before it: one
        /// that was made for its guest is removed, and one that was there is its vendor's driver's to clean.
        pub reset_hook: Option<PathBuf> = None, example: "\"/usr/local/lib/berth/clean-device\"";
        /// Seconds the program may take.
        pub reset_hook_timeout: Duration = seconds(300), kind: Integer(1, 86_400);
        /// A program that programs a device of this list where a device profile (`accel:bitstream_id`, `accel:function_id`)
        /// or an operator asks for that; it is given the device's address and what it is to be programmed with, and may be
        /// run again for the same. Unset: such binds are refused.
        pub program_hook: Option<PathBuf> = None, example: "\"/usr/local/lib/berth/program-device\"";
        /// Seconds the program may take. A bind waits no longer than `[accelerator_service] bind_timeout` says.
        pub program_hook_timeout: Duration = seconds(60), kind: Integer(1, 86_400);
        /// A program that says whether a device of either list is well: by its exit with 0. One of which it says anything
        /// else, or nothing in time, goes to nobody until it is well again; the reason is the first line of what it writes
        /// to its standard error. It is given the device's address and the guests that have it.
        pub health_hook: Option<PathBuf> = None, example: "\"/usr/local/lib/berth/check-device\"";
        /// Seconds the program may take for one device.
        pub health_hook_timeout: Duration = seconds(30), kind: Integer(1, 86_400);
        /// Seconds from one check of a device to the next.
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
    /// Mediated devices.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct DevicesSection in "devices" {
        /// Mediated device types this host offers. With more than one, each needs `device_addresses` in its own section.
        pub enabled_mdev_types: Vec<String> = Vec::new(), kind: MDEV_TYPES;
    }
}

options! {
    /// One mediated device type; the section is named after it, as `[mdev_nvidia-35]`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct MdevTypeSection in "mdev_TYPE" {
        /// The physical GPUs (or virtual functions) that offer this type; empty: all, where only one type is enabled.
        pub device_addresses: Vec<PciAddress> = Vec::new(), example: "[\"0000:84:00.0\", \"0000:85:00.0\"]";
        /// The resource class of this type's inventory.
        pub mdev_class: String = "VGPU".into(), kind: MDEV_CLASS;
        /// How many mediated devices of this type the host offers at most.
        pub max_instances: Option<u32> = None, kind: Integer(1, PLACEMENT_MAX), example: "16";
    }
}

/// A list of mediated device type names.
const MDEV_TYPES: OptionKind = OptionKind::Texts(&TextKind::new(
    "list of mediated device types",
    "write names as in mdev_supported_types, such as [\"nvidia-35\"]",
    |text| match is_mdev_type(text) {
        true => Ok(()),
        false => Err(format!("{text:?} is no mediated device type").into()),
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
    /// Base images that guests' disks rest on, each kept once on this host, in `_base` below `instances_path`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ImageCacheSection in "image_cache" {
        /// The directories of this host in which images and kernels may lie that a guest names by their path; none: nothing
        /// of this host is taken by its path.
        pub image_directories: Vec<PathBuf> = Vec::new(), example: "[\"/srv/images\"]";
        /// GiB of one image that are fetched at most.
        pub largest_image_gb: u64 = 1024, kind: Integer(1, 1 << 20);
        /// Whether base images go that no guest uses.
        pub remove_unused_base_images: bool = true;
        /// Seconds for which a base image is kept that no guest uses.
        pub remove_unused_original_minimum_age_seconds: Duration = seconds(86_400), kind: Integer(0, 52 * WEEK);
    }
}

options! {
    /// The agent's own doors.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AgentSection in "agent" {
        /// The unix socket of the agent's own API; root and the group below may use it.
        pub admin_socket: PathBuf = "/run/berth/agent.sock".into(), kind: SOCKET_PATH;
        /// The group that may use the admin socket.
        pub admin_group: String = "berth".into();
        /// A loopback address for Prometheus; the metrics are on the admin socket in any case.
        pub metrics_listen: Option<SocketAddr> = None, kind: LOOPBACK_LISTEN, example: "\"127.0.0.1:9177\"";
        /// Address and port for all of the agent's API over TLS, for whoever shows a certificate that `client_ca` signed.
        /// The three files below are needed with it.
        pub listen: Option<SocketAddr> = None, example: "\"192.0.2.10:9178\"";
        /// PEM file with the certificate of `listen`, then those that signed it. The content of the three files is read
        /// again at each SIGHUP.
        pub tls_cert: Option<PathBuf> = None, example: "\"/etc/berth/tls/node.pem\"";
        /// PEM file with the key of `tls_cert`, without a password.
        pub tls_key: Option<PathBuf> = None, example: "\"/etc/berth/tls/node.key\"";
        /// PEM file of the authorities that sign clients' certificates. Whoever has such a certificate may do everything on
        /// this host that the admin socket lets root do.
        pub client_ca: Option<PathBuf> = None, example: "\"/etc/berth/tls/clients.pem\"";
        /// A loopback address for external events alone (POST /v2.1/os-server-external-events), without TLS: where a Cyborg
        /// on this host tells of binds. Where `[keystone_authtoken] auth_url` is set, its tokens are checked.
        pub events_listen: Option<SocketAddr> = None, kind: LOOPBACK_LISTEN, example: "\"127.0.0.1:8775\"";
    }
}
