//! The libvirt virt driver: observes this host through libvirtd and sysfs, and runs guests on it.
//!
//! ```text
//! libvirtd ─► connection (worker thread) ─► observe ─► parsers (capabilities, domain_capabilities, node_device, guest)
//! sysfs ──────────────────────────────────────┘            └─► gpus, traits, view (pure) ─► HostView
//! GuestSpec ─► guest_xml (pure) ─► guests (define, start, stop) ─► libvirtd
//! devices: check ─► prepare ─► (guest runs) ─► reset
//! ```
//!
//! [`LibvirtDriver`] implements the contract of `berth-virt`. `connection` is the only blocking module and, with `symbols`, the
//! only unsafe one. `guests` uses a connection of its own. A guest's owner (`guest_metadata`) is stored in its document. `watch`
//! merges libvirt's and the kernel's events into one stream. libvirt's library is loaded at the first call, not linked: see
//! `symbols` and ADR 0004. Without the feature `driver` the crate has only the options, for builds without libvirt.

#[cfg(feature = "driver")]
mod architecture;
#[cfg(feature = "driver")]
mod capabilities;
#[cfg(feature = "driver")]
mod connection;
#[cfg(feature = "driver")]
mod devices;
#[cfg(feature = "driver")]
mod domain_capabilities;
#[cfg(feature = "driver")]
mod driver;
#[cfg(feature = "driver")]
mod gpus;
#[cfg(feature = "driver")]
mod guest;
#[cfg(feature = "driver")]
mod guest_metadata;
#[cfg(feature = "driver")]
mod guest_xml;
#[cfg(feature = "driver")]
mod guests;
#[cfg(feature = "driver")]
mod links;
#[cfg(feature = "driver")]
mod network_filter;
#[cfg(feature = "driver")]
mod node_device;
#[cfg(feature = "driver")]
mod observe;
mod options;
#[cfg(feature = "driver")]
mod stateless_firmware;
pub mod symbols;
#[cfg(any(test, feature = "test-node"))]
pub mod test_node;
#[cfg(feature = "driver")]
mod traits;
#[cfg(feature = "driver")]
mod watch;
#[cfg(feature = "driver")]
mod xml;

#[cfg(feature = "driver")]
pub use architecture::GuestArchitecture;
#[cfg(feature = "driver")]
pub use driver::LibvirtDriver;
#[cfg(feature = "driver")]
pub use guest_xml::{GuestXmlOptions, Virtualisation, guest_xml};
pub use options::{
    CpuMode, DeviceAssignmentOptions, DiskCache, DiskPlacement, LibvirtOptions, LibvirtSection,
    MdevTypeOptions, MdevTypes, MdevTypesError, QueueSizes, VirtType, VncSection, VncServers,
};
