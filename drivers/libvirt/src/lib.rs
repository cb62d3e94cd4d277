//! The libvirt virt driver: what libvirtd and sysfs say of this host, as a HostView.

pub mod symbols;
