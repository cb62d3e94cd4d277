//! Checks the networks of guests' interfaces: libvirt's networks, and bridges of the kernel.

use std::path::Path;

use berth_virt::NoLink;
use berth_virt::guest_spec::{GuestInterfaces, InterfaceSource};
use virt::connect::Connect;
use virt::error::{Error, ErrorNumber};

/// The kernel's list of network interfaces.
const INTERFACES: &str = "/sys/class/net";

/// The first of these that cannot be plugged in, with the reason. `None` if that is unknown: the start will show it.
pub(crate) fn no_link(
    connect: &Connect,
    interfaces: &GuestInterfaces,
    kernel: Option<&Path>,
) -> Option<NoLink> {
    interfaces.as_slice().iter().find_map(|interface| {
        let source = &interface.source;
        let reason = match source {
            InterfaceSource::Network(name) => no_network(connect, name.as_str()),
            InterfaceSource::Bridge(name) => kernel.and_then(|at| no_bridge(at, name.as_str())),
        };
        let source = source.clone();
        reason.map(|reason| NoLink { source, reason })
    })
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
