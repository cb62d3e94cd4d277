//! The libvirt virt driver: what libvirtd and sysfs say of this host, as a HostView, and guests made on it.
//!
//! [`LibvirtDriver`] implements the contract of `berth-virt`. The way of the data: `connection` (the one blocking place and,
//! with `symbols`, the only unsafe one) runs `observe` on its thread; `observe` gathers libvirt's documents and the kernel's
//! device tree and has them read by one pure module per document (`capabilities`, `domain_capabilities`, `node_device`,
//! `guest`); `gpus` and `traits` judge them, also purely. `watch` joins libvirt's and the kernel's events into one stream.
//!
//! The other way: `guest_xml` makes a document of a wanted guest, purely, and `guests` defines, starts and ends it, on a
//! connection of its own; what a guest says of itself (`guest_metadata`) is written by the one and read by the other.
//!
//! What a guest is given of the host goes through `devices`: checked, made ready, and reset when the guest is gone.
//!
//! The library is loaded at the first call, not linked: see `symbols` and ADR 0004.

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
    DeviceLife, DiskCache, DiskPlacement, LibvirtOptions, MdevType, MdevTypes, MdevTypesError,
    VirtType,
};
