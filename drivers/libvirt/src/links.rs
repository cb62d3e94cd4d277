//! Checks the networks of guests' interfaces: libvirt's networks, and bridges of the kernel.

use std::path::Path;

use berth_virt::NoLink;
use berth_virt::guest_spec::{GuestInterfaces, InterfaceSource};
use virt::connect::Connect;
use virt::error::{Error, ErrorNumber};

use crate::network_filter::{self, is_filterable};

/// The kernel's list of network interfaces.
const INTERFACES: &str = "/sys/class/net";

/// The first of these that cannot be plugged in, with the reason. `None` if that is unknown: the start will show it.
pub(crate) fn no_link(
    connect: &Connect,
    interfaces: &GuestInterfaces,
    kernel: Option<&Path>,
    filter: Option<&str>,
) -> Option<NoLink> {
    let missing = interfaces.as_slice().iter().find_map(|interface| {
        let source = &interface.source;
        let reason = match source {
            InterfaceSource::Network(name) => no_network(connect, name.as_str()),
            InterfaceSource::Bridge(name) => kernel.and_then(|at| no_bridge(at, name.as_str())),
            // Its bridge belongs to Open vSwitch, which libvirt does not know.
            InterfaceSource::Port(_) => None,
        };
        let source = source.clone();
        reason.map(|reason| NoLink { source, reason })
    });
    missing.or_else(|| no_filter(connect, interfaces, filter?))
}

/// The first interface that the filter applies to, if the filter cannot be used.
fn no_filter(connect: &Connect, interfaces: &GuestInterfaces, filter: &str) -> Option<NoLink> {
    // It has no filters, and no traffic.
    if connect.driver_type().is_ok_and(|kind| kind == "TEST") {
        return None;
    }
    let unfilterable = network_filter::unfilterable(connect, interfaces);
    let mut all = interfaces.as_slice().iter();
    let filtered = all.find(|interface| is_filterable(interface, &unfilterable))?;
    let source = filtered.source.clone();
    let reason = network_filter::ensure(connect, filter).err()?;
    Some(NoLink { source, reason })
}

/// The kernel's list on the host of the hypervisor.
pub(crate) fn interfaces() -> &'static Path {
    Path::new(INTERFACES)
}

fn no_network(connect: &Connect, name: &str) -> Option<String> {
    let network = match connect.lookup_network_by_name(name) {
        Ok(network) => network,
        Err(error) if is_no_network(&error) => {
            let mut known = connect.list_networks().ok()?;
            known.extend(connect.list_defined_networks().ok()?);
            known.sort();
            return Some(match known.is_empty() {
                true => "libvirt has no network of this name, and no other".to_owned(),
                false => format!(
                    "libvirt has no network of this name; it has {}",
                    known.join(", ")
                ),
            });
        }
        Err(_) => return None,
    };
    match network.is_active() {
        Ok(false) => Some(format!(
            "this network of libvirt is not active (virsh net-start {name})"
        )),
        Ok(true) | Err(_) => None,
    }
}

fn is_no_network(error: &Error) -> bool {
    error
        .code()
        .is_known_and(|code| code == ErrorNumber::NoNetwork)
}

fn no_bridge(interfaces: &Path, name: &str) -> Option<String> {
    if !interfaces.is_dir() {
        return None;
    }
    let interface = interfaces.join(name);
    match (interface.exists(), interface.join("bridge").exists()) {
        (true, true) => None,
        (true, false) => Some("this network interface of the host is not a bridge".to_owned()),
        (false, _) => Some(
            "this host has no such bridge (ip link show type bridge lists its bridges)".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_is_one_where_the_kernel_says_so() {
        let folder = tempfile::tempdir().unwrap();
        for made in ["br0/bridge", "eth0"] {
            std::fs::create_dir_all(folder.path().join(made)).unwrap();
        }
        let problem_of = |name| no_bridge(folder.path(), name).unwrap_or_default();
        assert_eq!(problem_of("br0"), "");
        assert!(problem_of("eth0").contains("is not a bridge"));
        assert!(problem_of("br1").contains("no such bridge"));
        assert_eq!(no_bridge(&folder.path().join("away"), "br0"), None);
    }
}
