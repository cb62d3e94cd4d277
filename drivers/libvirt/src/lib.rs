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
//! `symbols` and ADR 0004.

mod capabilities;
mod connection;
mod devices;
mod domain_capabilities;
mod driver;
mod gpus;
mod guest;
mod guest_metadata;
mod guest_xml;
mod guests;
mod links;
mod node_device;
mod observe;
mod options;
pub mod symbols;
#[cfg(any(test, feature = "test-node"))]
pub mod test_node;
mod traits;
mod watch;
mod xml;

pub use driver::LibvirtDriver;
pub use guest_xml::{GuestXmlOptions, Virtualisation, guest_xml};
pub use options::{
    DeviceLife, DiskCache, DiskPlacement, LibvirtOptions, MdevTypeOptions, MdevTypes,
    MdevTypesError, VirtType,
};
