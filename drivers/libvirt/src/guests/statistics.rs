//! What libvirt counts of a guest, and the addresses of its interfaces.

use std::collections::BTreeSet;

use berth_model::ConsumerUuid;
use berth_virt::{
    DiskStatistics, GuestDiagnostics, GuestError, InterfaceAddresses, InterfaceStatistics,
    TrafficStatistics,
};
use roxmltree::Document;
use virt::connect::Connect;
use virt::domain::Domain;
use virt_sys as sys;

use super::error::refused;
use super::find;
use crate::xml;

/// The addresses of these guests' interfaces: of DHCP leases, otherwise those that the host has seen in ARP. libvirt
/// refuses the question for a guest that is off.
pub(crate) fn interface_addresses(
    connect: &Connect,
    guests: &BTreeSet<ConsumerUuid>,
) -> Result<InterfaceAddresses, GuestError> {
    let mut all = InterfaceAddresses::default();
    for uuid in guests {
        let Some(domain) = find(connect, *uuid)? else {
            continue;
        };
        for source in [
            sys::VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE,
            sys::VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_ARP,
        ] {
            for interface in domain.interface_addresses(source, 0).unwrap_or_default() {
                let mac = interface.hwaddr.and_then(|mac| mac.parse().ok());
                let found = interface.addrs.iter().filter_map(|it| it.addr.parse().ok());
                let found: Vec<_> = found.collect();
                if let Some(mac) = mac
                    && !found.is_empty()
                {
                    all.entry(mac).or_insert(found);
                }
            }
        }
    }
    Ok(all)
}

/// The statistics of a guest; `None` if libvirt does not have it.
pub(crate) fn diagnostics(
    connect: &Connect,
    uuid: ConsumerUuid,
) -> Result<Option<GuestDiagnostics>, GuestError> {
    let Some(domain) = find(connect, uuid)? else {
        return Ok(None);
    };
    let info = domain.info().map_err(refused(uuid, "virDomainGetInfo"))?;
    let text = domain
        .xml_desc(0)
        .map_err(refused(uuid, "virDomainGetXMLDesc"))?;
    let mut shown = GuestDiagnostics {
        memory_maximum_mib: info.max_mem / 1024,
        memory_used_mib: info.memory / 1024,
        vcpus: info.nr_virt_cpu,
        cpu_time_ns: Some(info.cpu_time),
        ..GuestDiagnostics::default()
    };
    if let Ok(document) = Document::parse(&text)
        && let Some(devices) = xml::find(document.root_element(), &["devices"])
    {
        let disks = xml::children(devices, "disk");
        let names = disks.filter_map(|disk| xml::find(disk, &["target"])?.attribute("dev"));
        shown.disks = names.map(|name| disk(&domain, name)).collect();
        let interfaces = xml::children(devices, "interface").filter_map(|interface| {
            let mac = xml::find(interface, &["mac"])?.attribute("address")?;
            let device = xml::find(interface, &["target"]).and_then(|it| it.attribute("dev"));
            Some(traffic(&domain, mac, device))
        });
        shown.interfaces = interfaces.collect();
    }
    Ok(Some(shown))
}

/// libvirt counts -1 for what the hypervisor does not count.
fn counted(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

fn disk(domain: &Domain, name: &str) -> DiskStatistics {
    let found = domain.block_stats(name).ok();
    let of =
        |number: fn(&virt::domain::BlockStats) -> i64| found.as_ref().map(number).and_then(counted);
    DiskStatistics {
        name: name.to_owned(),
        read_bytes: of(|it| it.rd_bytes),
        read_requests: of(|it| it.rd_req),
        write_bytes: of(|it| it.wr_bytes),
        write_requests: of(|it| it.wr_req),
        errors: of(|it| it.errs),
    }
}

fn traffic(domain: &Domain, mac: &str, device: Option<&str>) -> InterfaceStatistics {
    let found = device.and_then(|device| domain.interface_stats(device).ok());
    let of = |number: fn(&virt::domain::InterfaceStats) -> i64| {
        found.as_ref().map(number).and_then(counted)
    };
    InterfaceStatistics {
        device: device.map(str::to_owned),
        mac: mac.to_owned(),
        received: TrafficStatistics {
            bytes: of(|it| it.rx_bytes),
            packets: of(|it| it.rx_packets),
            errors: of(|it| it.rx_errs),
            dropped: of(|it| it.rx_drop),
        },
        sent: TrafficStatistics {
            bytes: of(|it| it.tx_bytes),
            packets: of(|it| it.tx_packets),
            errors: of(|it| it.tx_errs),
            dropped: of(|it| it.tx_drop),
        },
    }
}
