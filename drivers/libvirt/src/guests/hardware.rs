//! Reads processors, memory, disks and interfaces from a guest's document.

use berth_virt::GuestHardware;
use roxmltree::Node;

use crate::guest::{pci_address, pins};
use crate::xml::{self, Reader};

/// `None` if the document contains something unknown.
pub(super) fn read(reader: &Reader<'_>, domain: Node<'_, '_>) -> Option<GuestHardware> {
    let vcpu = xml::find(domain, &["vcpu"])?;
    let all: u32 = vcpu.text()?.trim().parse().ok()?;
    // The number of plugged virtual CPUs.
    let vcpus = match vcpu.attribute("current") {
        Some(current) => current.parse().ok()?,
        None => all,
    };
    let devices = xml::find(domain, &["devices"]).into_iter();
    let devices = devices.flat_map(|devices| devices.children());
    let devices: Vec<_> = devices.filter(Node::is_element).collect();
    let named = |name: &'static str| {
        let devices = devices.iter().copied();
        devices.filter(move |device| device.has_tag_name(name))
    };
    Some(GuestHardware {
        vcpus,
        memory_mib: xml::kibibytes(xml::find(domain, &["memory"])?)? / 1024,
        pins: pins(reader, domain).ok()?,
        disks: named("disk").filter_map(disk).collect(),
        interfaces: named("interface").filter_map(interface).collect(),
    })
}

/// The source of a disk; `None` for a drive without a medium.
fn disk(disk: Node<'_, '_>) -> Option<String> {
    let source = xml::find(disk, &["source"])?;
    let known = ["file", "dev", "dir", "volume", "name"];
    let known = known.into_iter().find_map(|name| source.attribute(name));
    Some(known.unwrap_or("of an unknown kind").to_owned())
}

/// An interface's MAC address and what it is connected to.
fn interface(interface: Node<'_, '_>) -> Option<(String, String)> {
    let kind = interface.attribute("type")?;
    let mac = xml::find(interface, &["mac"])?.attribute("address")?;
    let function = xml::find(interface, &["source", "address"])
        .filter(|_| kind == "hostdev")
        .and_then(pci_address);
    if let Some(function) = function {
        return Some((mac.to_ascii_lowercase(), format!("function {function}")));
    }
    if kind == "direct" {
        return Some((mac.to_ascii_lowercase(), "a macvtap".to_owned()));
    }
    let source = xml::find(interface, &["source"]);
    let named = |name| source.and_then(|source| source.attribute(name));
    // For a running guest, libvirt shows the resolved form of a network's interface, with the network's name.
    let tap = xml::find(interface, &["target"])
        .filter(|_| kind == "ethernet")
        .and_then(|target| target.attribute("dev"));
    if let Some(tap) = tap {
        return Some((mac.to_ascii_lowercase(), format!("tap {tap}")));
    }
    let plugged = match (named("network"), named("bridge").or(named("dev"))) {
        (Some(network), _) => format!("network {network}"),
        (None, Some(link)) => format!("{kind} {link}"),
        (None, None) => kind.to_owned(),
    };
    Some((mac.to_ascii_lowercase(), plugged))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(document: &str) -> Option<GuestHardware> {
        let reader = Reader::new("a guest", "domain", document).unwrap();
        read(&reader, reader.root())
    }

    #[test]
    fn what_is_written_is_read_back() {
        let read = of(
            "<domain><memory unit='KiB'>524288</memory><vcpu current='1' cpuset='0-3'>2</vcpu>\
             <cputune><vcpupin vcpu='1' cpuset='2'/></cputune><devices>\
             <disk type='file' device='disk'><source file='/guests/root'/><backingStore type='file'><source file='/base'/>\
             </backingStore></disk><disk type='file' device='cdrom'/><disk type='network' device='disk'>\
             <source protocol='rbd' name='pool/image'/></disk>\
             <interface type='network'><mac address='52:54:00:AA:00:01'/><source network='n' bridge='virbr0'/></interface>\
             <interface type='bridge'><mac address='52:54:00:aa:00:02'/><source bridge='br0'/></interface>\
             <interface type='bridge'><mac address='52:54:00:aa:00:05'/><source network='m' bridge='br0'/></interface>\
             <interface type='ethernet'><mac address='52:54:00:aa:00:06'/><target dev='tap88a15950-b8' managed='no'/></interface>\
             <interface type='user'><mac address='52:54:00:aa:00:03'/></interface>\
             <interface type='hostdev'><mac address='52:54:00:aa:00:04'/><source>\
             <address type='pci' domain='0x0000' bus='0x05' slot='0x10' function='0x2'/></source></interface></devices></domain>",
        )
        .unwrap();
        assert_eq!((read.vcpus, read.memory_mib), (1, 512));
        let pins: Vec<_> = read
            .pins
            .iter()
            .map(|(vcpu, on)| (*vcpu, on.to_string()))
            .collect();
        assert_eq!(pins, [(0, "0-3".to_owned()), (1, "2".to_owned())]);
        let disks: Vec<_> = read.disks.iter().map(String::as_str).collect();
        assert_eq!(disks, ["/guests/root", "pool/image"]);
        let interfaces: Vec<_> = read.interfaces.values().map(String::as_str).collect();
        assert_eq!(
            interfaces,
            [
                "network n",
                "bridge br0",
                "user",
                "function 0000:05:10.2",
                "network m",
                "tap tap88a15950-b8"
            ]
        );
    }

    #[test]
    fn of_a_document_that_makes_no_sense_nothing_is_reported() {
        assert_eq!(
            of("<domain><memory>1</memory><vcpu>two</vcpu></domain>"),
            None
        );
        assert_eq!(of("<domain><vcpu>2</vcpu></domain>"), None);
    }
}
