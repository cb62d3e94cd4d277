//! Valid and invalid guest documents.

use proptest::prelude::*;

use berth_virt::{GuestCpuPolicy, HostNumaCell};

use super::*;

const UUID: &str = "8c1a2a5e-0b53-4d2c-8d3f-8f8f3ad0a001";
const MDEV: &str = "4b20d080-1b54-4048-85b3-a6a62d165c01";

fn document(attributes: &str, inner: &str) -> String {
    format!(
        "<domain type='kvm' {attributes}><name>instance-00000001</name><uuid>{UUID}</uuid>\
         <memory unit='KiB'>4194304</memory><vcpu placement='static'>4</vcpu>{inner}</domain>"
    )
}

fn guest(inner: &str) -> LibvirtGuest {
    LibvirtGuest::read(&document("", inner)).unwrap()
}

fn host() -> Vec<HostNumaCell> {
    [(0, "0-3"), (1, "4-7")]
        .map(|(id, cpus)| HostNumaCell::new(id, cpus.parse().unwrap(), 8192))
        .into()
}

const DEVICES: &str = "<devices>
    <hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci'>
      <source><address uuid='4b20d080-1b54-4048-85b3-a6a62d165c01'/></source></hostdev>
    <hostdev mode='subsystem' type='pci' managed='yes'><driver name='vfio'/>
      <source><address domain='0x0000' bus='0x06' slot='0x02' function='0x1'/></source>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x05' function='0x0'/></hostdev>
    <hostdev mode='subsystem' type='usb'><source><vendor id='0x1234'/></source></hostdev>
    <interface type='hostdev' managed='yes'><source><address type='pci' bus='129' slot='0' function='4'/></source></interface>
    <interface type='bridge'><source bridge='br0'/></interface>
    <interface type='direct'><source dev='ens5v1' mode='passthrough'/></interface>
  </devices>";

#[test]
fn a_guest_is_read_with_its_devices() {
    let read = LibvirtGuest::read(&document("id='3'", DEVICES)).unwrap();
    assert_eq!(
        (read.name.as_str(), read.vcpus, read.memory_mib),
        ("instance-00000001", 4, 4096)
    );
    assert_eq!(read.power, PowerState::Running);
    assert_eq!(read.uuid, Uuid::parse_str(UUID).unwrap());
    assert_eq!(read.mdevs, [Uuid::parse_str(MDEV).unwrap()]);
    let functions: Vec<String> = read.functions.iter().map(ToString::to_string).collect();
    assert_eq!(functions, ["0000:06:02.1", "0000:81:00.4"]);
    assert_eq!(read.macvtap_links, ["ens5v1".to_owned()].into());
    assert_eq!(guest("").power, PowerState::ShutOff);
}

#[test]
fn a_cpu_is_dedicated_where_it_is_pinned_to_dedicated_ones() {
    let dedicated: CpuSet = "4-7".parse().unwrap();
    for (tune, policy) in [
        ("", GuestCpuPolicy::Shared),
        (
            "<cputune><vcpupin vcpu='0' cpuset='4'/><vcpupin vcpu='1' cpuset='5'/>\
             <vcpupin vcpu='2' cpuset='6'/><vcpupin vcpu='3' cpuset='7'/></cputune>",
            GuestCpuPolicy::Dedicated,
        ),
        (
            "<cputune><vcpupin vcpu='0' cpuset='4'/><vcpupin vcpu='1' cpuset='0-3'/></cputune>",
            GuestCpuPolicy::Mixed { dedicated: 1 },
        ),
        (
            "<cputune><vcpupin vcpu='0' cpuset='3-4'/></cputune>",
            GuestCpuPolicy::Shared,
        ),
        (
            "<cputune><vcpupin vcpu='9' cpuset='4'/></cputune>",
            GuestCpuPolicy::Shared,
        ),
    ] {
        assert_eq!(guest(tune).cpu_policy(&dedicated), policy, "{tune}");
    }
    assert_eq!(
        guest("").cpu_policy(&CpuSet::default()),
        GuestCpuPolicy::Shared
    );
}

#[test]
fn placement_is_read_where_the_document_says_it_for_certain() {
    let two_cells = "<cpu><numa><cell id='0' cpus='0-2' memory='3145728' unit='KiB'/>\
                     <cell id='1' cpus='3' memory='1' unit='GiB'/></numa></cpu>";
    let pinned = |cpus: &str| {
        let pins: String = (0..4)
            .map(|vcpu| format!("<vcpupin vcpu='{vcpu}' cpuset='{cpus}'/>"))
            .collect();
        format!("<cputune>{pins}</cputune>")
    };
    for (what, inner, shares) in [
        ("no placement", String::new(), vec![]),
        (
            "whole, by memory",
            "<numatune><memory mode='strict' nodeset='1'/></numatune>".to_owned(),
            vec![(1, 4, 4096)],
        ),
        (
            "memory from two cells",
            "<numatune><memory mode='strict' nodeset='0-1'/></numatune>".to_owned(),
            vec![],
        ),
        ("whole, by pins", pinned("4-5"), vec![(1, 4, 4096)]),
        ("pins over two cells", pinned("3-4"), vec![]),
        (
            "by all CPUs' set",
            "<vcpu cpuset='0-3'>4</vcpu>".to_owned(),
            vec![],
        ),
        (
            "two cells on two",
            format!(
                "{two_cells}<numatune><memnode cellid='0' mode='strict' nodeset='1'/><memnode cellid='1' mode='strict' nodeset='0'/></numatune>"
            ),
            vec![(0, 1, 1024), (1, 3, 3072)],
        ),
        (
            "two cells on one",
            format!("{two_cells}<numatune><memory mode='strict' nodeset='0'/></numatune>"),
            vec![(0, 4, 4096)],
        ),
        (
            "one cell is not reported",
            format!(
                "{two_cells}<numatune><memnode cellid='0' mode='strict' nodeset='1'/></numatune>"
            ),
            vec![],
        ),
    ] {
        let read: Vec<_> = guest(&inner)
            .placement(&host())
            .iter()
            .map(|cell| (cell.host_cell, cell.vcpus, cell.memory_mib))
            .collect();
        assert_eq!(read, shares, "{what}");
    }
}

#[test]
fn a_set_for_all_cpus_places_the_guest() {
    let text = document("", "").replace("placement='static'", "placement='static' cpuset='4-7'");
    let read = LibvirtGuest::read(&text).unwrap();
    assert_eq!(read.placement(&host())[0].host_cell, 1);
    assert_eq!(
        read.cpu_policy(&"4-7".parse().unwrap()),
        GuestCpuPolicy::Dedicated
    );
}

#[test]
fn what_makes_no_sense_is_named() {
    let whole = document("", DEVICES);
    for (text, named) in [
        (whole.replace(UUID, "mine"), "uuid"),
        (whole.replace("instance-00000001", ""), "name"),
        (whole.replace("'KiB'", "'furlong'"), "memory"),
        (whole.replace(">4<", ">four<"), "vcpu"),
        (whole.replace(MDEV, "1"), "hostdev/source/address/@uuid"),
        (
            whole.replace("slot='0x02'", "slot='0x99'"),
            "source/address",
        ),
        (
            document("", "<cputune><vcpupin vcpu='0' cpuset='x'/></cputune>"),
            "cputune/vcpupin/@cpuset",
        ),
        (
            document("", "<cputune><vcpupin cpuset='1'/></cputune>"),
            "cputune/vcpupin/@vcpu",
        ),
        (
            document("", "<numatune><memnode cellid='0' nodeset=''/></numatune>"),
            "numatune/memnode/@nodeset",
        ),
        (
            document("", "<cpu><numa><cell id='0' cpus='0'/></numa></cpu>"),
            "cpu/numa/cell/@memory",
        ),
    ] {
        let error = LibvirtGuest::read(&text).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(at in 0usize..1800, cut in 0usize..60, put in "[<>/'a-z0-9 &;=-]{0,12}|\\PC{0,8}") {
        let whole = document("id='1'", &format!(
            "<cpu><numa><cell id='0' cpus='0-3' memory='4' unit='GiB'/></numa></cpu>\
             <numatune><memnode cellid='0' nodeset='1'/></numatune>\
             <cputune><vcpupin vcpu='0' cpuset='4'/></cputune>{DEVICES}"
        ));
        let (at, end) = (at.min(whole.len()), (at + cut).min(whole.len()));
        for text in [format!("{}{put}{}", &whole[..at], &whole[end..]), put] {
            if let Ok(guest) = LibvirtGuest::read(&text) {
                let _ = guest.placement(&host());
                let _ = guest.cpu_policy(&"4-7".parse().unwrap());
            }
        }
    }
}
