use super::*;
use crate::tree::{CardFixture, TestTree};

const CARD: &str = "0000:81:00.0";
const AT: &str = "devices/pci0000:80/0000:81:00.0";

struct HostUseFixture {
    tree: TestTree,
    proc: TestTree,
    addresses: Vec<(String, IpAddr)>,
}

impl HostUseFixture {
    fn new() -> Self {
        let (tree, proc) = (TestTree::new(), TestTree::new());
        tree.card(CardFixture::gpu(CARD, 1));
        tree.card(CardFixture::gpu("0000:82:00.0", 2));
        proc.write(
            "self/mountinfo",
            "22 1 0:21 / / rw - overlay overlay rw\n25 22 259:9 / /srv rw shared:1 - ext4 /dev/sdx rw\n",
        );
        proc.write("swaps", "Filename Type Size Used Priority\n");
        proc.write(
            "net/route",
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
             other0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
             eth7\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n",
        );
        let addresses = Vec::new();
        Self {
            tree,
            proc,
            addresses,
        }
    }

    /// A block device in this directory.
    fn disk(&self, at: &str, name: &str, number: &str) {
        self.tree.write(&format!("{at}/dev"), format!("{number}\n"));
        self.tree
            .link(&format!("class/block/{name}"), &self.tree.path(at));
    }

    fn interface(&self, at: &str, name: &str) {
        self.tree.write(&format!("{at}/mtu"), "1500\n");
        self.tree
            .link(&format!("class/net/{name}"), &self.tree.path(at));
    }

    fn used(&self) -> Option<HostUse> {
        self.used_of(CARD)
    }

    fn used_of(&self, address: &str) -> Option<HostUse> {
        let procfs = Procfs::at(self.proc.path("")).with_addresses(self.addresses.clone());
        let sysfs = self.tree.sysfs();
        sysfs.host_use(address.parse().unwrap(), &procfs).unwrap()
    }
}

#[test]
fn a_card_that_nobody_uses_is_free() {
    let host = HostUseFixture::new();
    host.disk(&format!("{AT}/nvme/nvme0/nvme0n1"), "nvme0n1", "259:0");
    host.interface(&format!("{AT}/net/eth7"), "eth7");
    host.tree.write(&format!("{AT}/boot_vga"), "0\n");
    assert_eq!(host.used(), None);
    assert_eq!(host.used_of("0000:99:00.0"), None);
}

#[test]
fn a_mounted_disk_is_in_use_by_its_number_or_by_its_name() {
    let mounted = |disk: &str, at: &str| {
        let (disk, at) = (disk.to_owned(), at.to_owned());
        Some(HostUse::Mounted { disk, at })
    };
    let host = HostUseFixture::new();
    // A partition of the disk.
    host.disk(&format!("{AT}/ata1/host0/block/sda"), "sda", "8:0");
    host.disk(&format!("{AT}/ata1/host0/block/sda/sda1"), "sda1", "8:1");
    assert_eq!(host.used(), None);
    host.proc
        .write("self/mountinfo", "1 1 8:1 / /srv rw - ext4 /dev/root rw\n");
    assert_eq!(host.used(), mounted("sda1", "/srv"));
    assert_eq!(host.used_of("0000:82:00.0"), None);
    // btrfs uses device numbers of its own.
    host.proc.write(
        "self/mountinfo",
        "1 1 0:99 / /mnt rw - btrfs /dev/sda1 rw\n",
    );
    assert_eq!(host.used(), mounted("sda1", "/mnt"));
    // A service may see fewer mounts than exist.
    host.proc.write("self/mountinfo", "");
    host.proc
        .write("1/mountinfo", "1 1 8:1 / /home rw - ext4 /dev/sda1 rw\n");
    assert_eq!(host.used(), mounted("sda1", "/home"));
}

#[test]
fn swap_and_a_part_of_something_else_are_in_use() {
    let host = HostUseFixture::new();
    let at = format!("{AT}/nvme/nvme0/nvme0n1");
    host.disk(&at, "nvme0n1", "259:0");
    host.tree.write(&format!("{at}/holders/dm-0/x"), "");
    let used = host.used().unwrap().to_string();
    assert_eq!(used, "its disk nvme0n1 is a part of dm-0");
    host.proc.write(
        "swaps",
        "Filename Type Size Used Priority\n/dev/nvme0n1 partition 1 0 -2\n",
    );
    let disk = "nvme0n1".to_owned();
    assert_eq!(host.used(), Some(HostUse::Swap { disk }));
}

#[test]
fn a_disk_behind_several_controllers_is_each_ones() {
    let host = HostUseFixture::new();
    let subsystem = "devices/virtual/nvme-subsystem/nvme-subsys0";
    host.tree.write(&format!("{AT}/nvme/nvme0/model"), "x");
    let controller = host.tree.path(&format!("{AT}/nvme/nvme0"));
    host.tree.link(&format!("{subsystem}/nvme0"), &controller);
    host.disk(&format!("{subsystem}/nvme0n1"), "nvme0n1", "259:9");
    assert!(matches!(host.used(), Some(HostUse::Mounted { .. })));
    assert_eq!(host.used_of("0000:82:00.0"), None);
}

#[test]
fn the_default_routes_card_is_in_use_also_below_a_bond_and_a_vlan() {
    let host = HostUseFixture::new();
    let at = format!("{AT}/virtio0/net/eth7");
    host.interface(&at, "eth7");
    let route = |interface: &str| {
        let text = format!(
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
             {interface}\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        );
        host.proc.write("net/route", text);
    };
    let interface = || "eth7".to_owned();
    let default = Some(HostUse::DefaultRoute {
        interface: interface(),
    });
    route("eth7");
    assert_eq!(host.used(), default);
    route("bond0.5");
    assert_eq!(host.used(), None);
    let bond = "devices/virtual/net/bond0";
    host.interface(bond, "bond0");
    host.interface("devices/virtual/net/bond0.5", "bond0.5");
    let over = |of: &str, upper: &str| {
        let to = host.tree.path(&format!("devices/virtual/net/{upper}"));
        host.tree.link(&format!("{of}/upper_{upper}"), &to);
    };
    over(&at, "bond0");
    over(bond, "bond0.5");
    assert_eq!(host.used(), default);
    route("other0");
    assert_eq!(host.used(), None);
    host.tree
        .link(&format!("{at}/master"), &host.tree.path(bond));
    let (interface, of) = (interface(), "bond0".to_owned());
    assert_eq!(host.used(), Some(HostUse::Port { interface, of }));
}

#[test]
fn a_route_of_ipv6_counts_as_well() {
    let host = HostUseFixture::new();
    host.interface(&format!("{AT}/net/eth7"), "eth7");
    let zero = "0".repeat(32);
    let row = |interface: &str| {
        format!("{zero} 00 {zero} 00 {zero} 00000400 00000001 00000000 00000003 {interface}\n")
    };
    host.proc.write("net/ipv6_route", row("lo"));
    assert_eq!(host.used(), None);
    host.proc.write("net/ipv6_route", row("lo") + &row("eth7"));
    assert!(matches!(host.used(), Some(HostUse::DefaultRoute { .. })));
}

#[test]
fn an_interface_that_is_up_with_an_address_is_the_hosts_whatever_its_routes() {
    let mut host = HostUseFixture::new();
    let at = format!("{AT}/net/eth7");
    host.interface(&at, "eth7");
    let has = |interface: &str, address: &str| {
        let other = ("other0".to_owned(), "10.0.0.9".parse().unwrap());
        vec![other, (interface.to_owned(), address.parse().unwrap())]
    };
    host.addresses = has("lo", "127.0.0.1");
    assert_eq!(host.used(), None);
    for address in ["192.168.0.5", "169.254.3.4", "2001:db8::5", "fe80::1"] {
        host.addresses = has("eth7", address);
        let used = host.used().map(|used| used.to_string()).unwrap_or_default();
        let words = format!("its interface eth7 is up and has the address {address} ");
        assert!(used.starts_with(&words), "{used:?}");
        assert_eq!(host.used_of("0000:82:00.0"), None);
    }
    // A VLAN on top of it, for storage.
    let vlan = host.tree.path("devices/virtual/net/eth7.20");
    host.interface("devices/virtual/net/eth7.20", "eth7.20");
    host.tree.link(&format!("{at}/upper_eth7.20"), &vlan);
    host.addresses = has("eth7.20", "10.1.0.5");
    assert!(matches!(host.used(), Some(HostUse::Address { .. })));
}

#[test]
fn a_virtual_function_is_not_the_hosts_by_its_link_local_address_alone() {
    let mut host = HostUseFixture::new();
    host.interface(&format!("{AT}/net/eth7"), "eth7");
    let physical = host.tree.path("devices/pci0000:80/0000:82:00.0");
    host.tree.link(&format!("{AT}/physfn"), &physical);
    host.addresses = vec![("eth7".to_owned(), "fe80::1".parse().unwrap())];
    assert_eq!(host.used(), None);
    let routed = ("eth7".to_owned(), "2001:db8::5".parse().unwrap());
    host.addresses.push(routed);
    assert!(matches!(host.used(), Some(HostUse::Address { .. })));
}

#[test]
fn the_addresses_of_this_host_are_listed_by_interface() {
    let listed = Procfs::at("/proc").addresses().unwrap();
    let loopback = ("lo".to_owned(), "127.0.0.1".parse().unwrap());
    assert!(listed.contains(&loopback), "{listed:?}");
}

#[test]
fn the_screens_card_is_in_use_unless_it_was_put_on_vfio() {
    let host = HostUseFixture::new();
    host.tree.write(&format!("{AT}/boot_vga"), "1\n");
    assert_eq!(host.used(), Some(HostUse::Screen));
    host.tree.write("bus/pci/drivers/vfio-pci/bind", "");
    let vfio = host.tree.path("bus/pci/drivers/vfio-pci");
    host.tree.link(&format!("{AT}/driver"), &vfio);
    assert_eq!(host.used(), None);
    host.tree
        .write(&format!("{AT}/graphics/fb0/name"), "nouveau\n");
    let buffer = host.tree.path(&format!("{AT}/graphics/fb0"));
    host.tree.link("class/graphics/fb0", &buffer);
    assert_eq!(host.used(), Some(HostUse::Screen));
}
