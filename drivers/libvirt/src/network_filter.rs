//! The network filter (nwfilter) of guests' interfaces.
//!
//! libvirt filters the frames of an interface that is a port of a Linux bridge. Other interfaces (macvtap, a virtual function
//! from libvirt's pool, a port of Open vSwitch) bypass its rules, and libvirt refuses most of them with a filter.

use std::collections::BTreeSet;

use berth_virt::guest_spec::{GuestInterface, GuestInterfaces, InterfaceSource, LinkName};
use virt::connect::Connect;
use virt::error::{Error, ErrorNumber};

use crate::options::PORT_SECURITY;
use crate::xml::{self, Reader, XmlError};

/// Berth's own filter. It needs no other filter, so that it works without those that distributions package apart. Rules for
/// IP addresses are absent: the addresses of guests are unknown.
const OWN: &str = include_str!("network_filter/berth-port-security.xml");

/// Makes a filter usable: Berth's own is defined or brought up to date, any other must exist. Fails with the reason.
pub(crate) fn ensure(connect: &Connect, name: &str) -> Result<(), String> {
    let ensured = match name {
        PORT_SECURITY => connect.define_nwfilter_xml(OWN),
        other => connect.lookup_nwfilter_by_name(other),
    };
    ensured.map(drop).map_err(|error| unusable(name, &error))
}

fn unusable(name: &str, error: &Error) -> String {
    let is_missing = error
        .code()
        .is_known_and(|code| code == ErrorNumber::NoNwfilter);
    match is_missing {
        true => format!(
            "libvirt has no network filter {name} ([libvirt] nwfilter); virsh nwfilter-list shows those it has"
        ),
        false => format!(
            "libvirt cannot filter the guest's traffic: {}; install its nwfilter driver, or set nwfilter = \"none\" in [libvirt]",
            error.message()
        ),
    }
}

/// Whether a filter applies to an interface. `unfilterable` are the networks without a Linux bridge.
pub(crate) fn is_filterable(interface: &GuestInterface, unfilterable: &BTreeSet<LinkName>) -> bool {
    match &interface.source {
        InterfaceSource::Network(name) => !unfilterable.contains(name),
        InterfaceSource::Bridge(_) => true,
        // The switch applies the port's security groups.
        InterfaceSource::Port(_) => false,
    }
}

/// The networks among those of these interfaces whose ports libvirt cannot filter.
pub(crate) fn unfilterable(connect: &Connect, interfaces: &GuestInterfaces) -> BTreeSet<LinkName> {
    let networks = interfaces.as_slice().iter().filter_map(network);
    let is_elsewhere = |name: &&LinkName| {
        let network = connect.lookup_network_by_name(name.as_str());
        let document = network.and_then(|network| network.xml_desc(0));
        // The start of the guest reports a network that cannot be read.
        document.is_ok_and(|text| matches!(is_on_linux_bridge(&text), Ok(false)))
    };
    networks.filter(is_elsewhere).cloned().collect()
}

fn network(interface: &GuestInterface) -> Option<&LinkName> {
    match &interface.source {
        InterfaceSource::Network(name) => Some(name),
        InterfaceSource::Bridge(_) | InterfaceSource::Port(_) => None,
    }
}

/// Whether the ports of a network of libvirt are on a Linux bridge.
fn is_on_linux_bridge(document: &str) -> Result<bool, XmlError> {
    let reader = Reader::new("a network", "network", document)?;
    let network = reader.root();
    let forward = xml::find(network, &["forward"]);
    let mode = forward.map(|forward| forward.attribute("mode").unwrap_or("nat"));
    let of_switch = xml::children(network, "virtualport")
        .any(|port| port.attribute("type") == Some("openvswitch"));
    let has_bridge = xml::find(network, &["bridge"]).is_some();
    Ok(match mode {
        None | Some("nat" | "route" | "open") => true,
        Some("bridge") => has_bridge && !of_switch,
        Some(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn berths_own_filter_is_libvirts_and_has_the_name_of_the_option() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), OWN).unwrap();
        let ran = std::process::Command::new("xmllint")
            .args([
                "--noout",
                "--relaxng",
                "/usr/share/libvirt/schemas/nwfilter.rng",
            ])
            .arg(file.path())
            .output()
            .expect("xmllint is installed (packaging/scripts/need.sh node)");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{said}");
        assert!(OWN.contains(&format!("name=\"{PORT_SECURITY}\"")));
    }

    #[test]
    fn a_network_without_a_linux_bridge_is_known() {
        for (inside, expected) in [
            ("<bridge name='virbr1'/>", true),
            ("<forward/><bridge name='virbr0'/>", true),
            ("<forward mode='nat'/><bridge name='virbr0'/>", true),
            ("<forward mode='open'/><bridge name='virbr0'/>", true),
            ("<forward mode='bridge'/><bridge name='br0'/>", true),
            (
                "<forward mode='bridge'/><bridge name='ovs0'/><virtualport type='openvswitch'/>",
                false,
            ),
            (
                "<forward mode='bridge'><interface dev='eth1'/></forward>",
                false,
            ),
            (
                "<forward mode='passthrough'><interface dev='eth1'/></forward>",
                false,
            ),
            (
                "<forward mode='hostdev' managed='yes'><pf dev='eth3'/></forward>",
                false,
            ),
        ] {
            let document = format!("<network><name>n</name>{inside}</network>");
            assert_eq!(is_on_linux_bridge(&document).unwrap(), expected, "{inside}");
        }
    }

    #[test]
    fn a_hypervisor_that_cannot_filter_is_reported_with_the_option() {
        // libvirt's test driver has no network filters.
        let connect = Connect::open(Some("test:///default")).unwrap();
        for name in [PORT_SECURITY, "clean-traffic"] {
            let reason = ensure(&connect, name).unwrap_err();
            assert!(
                reason.contains("nwfilter = \"none\" in [libvirt]"),
                "{reason}"
            );
        }
    }
}
