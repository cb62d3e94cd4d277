//! Detects whether the host itself uses a function: a disk with a mounted file system, a network card with an address
//! or with the default route, its display. No guest gets such a function, whatever the lists contain.
//!
//! The check is read-only: it compares mounts, swap and routes in `proc` and the addresses of interfaces with the block
//! devices and interfaces of the function. Use of a disk without a mount (a storage daemon's raw volume) cannot be detected; the operator must not
//! list such a disk.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use berth_model::PciAddress;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use crate::Sysfs;
use crate::read::{self, SysfsError};

/// What the host uses a function for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostUse {
    /// A file system on its disk is mounted.
    Mounted { disk: String, at: String },
    /// Its disk holds swap space.
    Swap { disk: String },
    /// Its disk is a part of something else (a volume group, an array).
    PartOf {
        disk: String,
        /// The device that it is a part of, by the kernel's name.
        of: String,
    },
    /// The default route uses it.
    DefaultRoute { interface: String },
    /// Its network interface is a port of a bridge, a bond or a switch.
    Port {
        interface: String,
        /// The bridge, bond or switch.
        of: String,
    },
    /// Its network interface, or one on top of it, is up and has an address.
    Address { interface: String, address: IpAddr },
    /// It is the host's display.
    Screen,
}

impl fmt::Display for HostUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostUse::Mounted { disk, at } => write!(f, "its disk {disk} is mounted at {at}"),
            HostUse::Swap { disk } => write!(f, "its disk {disk} holds swap space"),
            HostUse::PartOf { disk, of } => write!(f, "its disk {disk} is a part of {of}"),
            HostUse::DefaultRoute { interface } => {
                write!(
                    f,
                    "the default route leads through its interface {interface}"
                )
            }
            HostUse::Port { interface, of } => {
                write!(f, "its interface {interface} is a port of {of}")
            }
            HostUse::Address { interface, address } => {
                write!(
                    f,
                    "its interface {interface} is up and has the address {address} (ip link set {interface} down gives it up)"
                )
            }
            HostUse::Screen => f.write_str("it shows the host's screen"),
        }
    }
}

/// The kernel's mounts, swap and routes: `/proc` on a host. With them the addresses of its interfaces, which `/proc` does
/// not list by interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Procfs {
    root: PathBuf,
    addresses: InterfaceAddresses,
}

/// Where the addresses of interfaces are known from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum InterfaceAddresses {
    /// The kernel of this host.
    ThisHost,
    /// A list, for another tree.
    Listed(Vec<(String, IpAddr)>),
}

impl Procfs {
    /// The tree under `root`. The interfaces have addresses only if it is this host's own tree, `/proc`.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let addresses = match root == Path::new("/proc") {
            true => InterfaceAddresses::ThisHost,
            false => InterfaceAddresses::Listed(Vec::new()),
        };
        Self { root, addresses }
    }

    /// The same tree, whose interfaces that are up have these addresses.
    #[must_use]
    pub fn with_addresses(self, addresses: Vec<(String, IpAddr)>) -> Self {
        let addresses = InterfaceAddresses::Listed(addresses);
        Self { addresses, ..self }
    }

    /// The interfaces that are up, each with one of its addresses.
    fn addresses(&self) -> Result<Vec<(String, IpAddr)>, SysfsError> {
        match &self.addresses {
            InterfaceAddresses::ThisHost => this_hosts_addresses(),
            InterfaceAddresses::Listed(listed) => Ok(listed.clone()),
        }
    }

    /// The path of a file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

impl Sysfs {
    /// What the host uses a function for; `None` if no use is detected.
    pub fn host_use(
        &self,
        address: PciAddress,
        procfs: &Procfs,
    ) -> Result<Option<HostUse>, SysfsError> {
        let Some(at) = read::resolved(&self.pci_device(address))? else {
            return Ok(None);
        };
        if let Some(used) = self.disk_use(&at, procfs)? {
            return Ok(Some(used));
        }
        if let Some(used) = self.network_use(&at, procfs)? {
            return Ok(Some(used));
        }
        Ok(self.is_screen(&at)?.then_some(HostUse::Screen))
    }

    fn disk_use(&self, function: &Path, procfs: &Procfs) -> Result<Option<HostUse>, SysfsError> {
        let disks = self.disks_of(function)?;
        if disks.is_empty() {
            return Ok(None);
        }
        let (mounts, swaps) = (procfs.mounts()?, procfs.swaps()?);
        for (disk, at) in disks {
            let number = read::text(&at.join("dev"))?;
            let is_mounted = |mount: &&Mount| {
                number.as_ref() == Some(&mount.number) || mount.source == format!("/dev/{disk}")
            };
            if let Some(mount) = mounts.iter().find(is_mounted) {
                let at = mount.at.clone();
                return Ok(Some(HostUse::Mounted { disk, at }));
            }
            if swaps.contains(&format!("/dev/{disk}")) {
                return Ok(Some(HostUse::Swap { disk }));
            }
            if let Some(of) = read::names(&at.join("holders"))?.into_iter().next() {
                return Ok(Some(HostUse::PartOf { disk, of }));
            }
        }
        Ok(None)
    }

    /// The block devices on a function, partitions too, each with its directory.
    fn disks_of(&self, function: &Path) -> Result<Vec<(String, PathBuf)>, SysfsError> {
        let all = self.root().join("class/block");
        let mut disks = Vec::new();
        for name in read::names(&all)? {
            let Some(at) = read::resolved(&all.join(&name))? else {
                continue;
            };
            if at.starts_with(function) || self.is_path_of(function, &at)? {
                disks.push((name, at));
            }
        }
        Ok(disks)
    }

    /// Whether a block device belongs to an NVMe subsystem (which is separate from its controllers) that the function
    /// is a controller of.
    fn is_path_of(&self, function: &Path, disk: &Path) -> Result<bool, SysfsError> {
        let is_subsystem = |part: &&Path| {
            let name = part.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("nvme-subsys"))
                && part
                    .parent()
                    .is_some_and(|up| up.ends_with("nvme-subsystem"))
        };
        let Some(subsystem) = disk.ancestors().find(is_subsystem) else {
            return Ok(false);
        };
        for name in read::names(subsystem)? {
            let controller = name.starts_with("nvme").then(|| subsystem.join(&name));
            if let Some(link) = controller
                && let Some(at) = read::resolved(&link)?
                && at.starts_with(function)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn network_use(&self, function: &Path, procfs: &Procfs) -> Result<Option<HostUse>, SysfsError> {
        let all = self.root().join("class/net");
        let mut routes = None;
        // Virtual functions are made for guests. A network manager brings each of them up, and the kernel then gives it
        // a link-local address, which therefore shows no use.
        let is_virtual = read::link_name(&function.join("physfn"))?.is_some();
        for interface in read::names(&all)? {
            let Some(at) = read::resolved(&all.join(&interface))? else {
                continue;
            };
            if !at.starts_with(function) {
                continue;
            }
            let (routes, addresses) = match &routes {
                Some(read) => read,
                None => routes.insert((procfs.default_routes()?, procfs.addresses()?)),
            };
            // An interface on top (a VLAN, a bond, a bridge) uses it, too.
            let mut over = BTreeSet::from([interface.clone()]);
            let mut todo = vec![at.clone()];
            while let Some(at) = todo.pop() {
                for link in read::names(&at)? {
                    if let Some(upper) = link.strip_prefix("upper_")
                        && over.insert(upper.to_owned())
                    {
                        todo.push(all.join(upper));
                    }
                }
            }
            if over.iter().any(|one| routes.contains(one)) {
                return Ok(Some(HostUse::DefaultRoute { interface }));
            }
            if let Some(of) = read::link_name(&at.join("master"))? {
                return Ok(Some(HostUse::Port { interface, of }));
            }
            let counts = |address: &IpAddr| !is_virtual || !is_link_local(address);
            let mut own = addresses.iter();
            if let Some((_, address)) = own.find(|(of, it)| over.contains(of) && counts(it)) {
                let address = *address;
                return Ok(Some(HostUse::Address { interface, address }));
            }
        }
        Ok(None)
    }

    /// Whether it is the boot display and no VFIO driver has it, or a card with a frame buffer of the kernel.
    fn is_screen(&self, function: &Path) -> Result<bool, SysfsError> {
        let driver = read::link_name(&function.join("driver"))?;
        let for_guests = driver.is_some_and(|driver| driver.contains("vfio"));
        let boots = read::text(&function.join("boot_vga"))?.is_some_and(|text| text == "1");
        let all = self.root().join("class/graphics");
        for name in read::names(&all)? {
            let at = read::resolved(&all.join(&name))?;
            if name.starts_with("fb") && at.is_some_and(|at| at.starts_with(function)) {
                return Ok(true);
            }
        }
        Ok(boots && !for_guests)
    }
}

/// An address that an interface of IPv6 has by itself.
fn is_link_local(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

fn this_hosts_addresses() -> Result<Vec<(String, IpAddr)>, SysfsError> {
    let listed = getifaddrs().map_err(|error| SysfsError::Addresses {
        source: io::Error::from(error),
    })?;
    let is_up = listed.filter(|one| one.flags.contains(InterfaceFlags::IFF_UP));
    let addresses = is_up.filter_map(|one| {
        let address = one.address?;
        let four = address.as_sockaddr_in().map(|it| IpAddr::from(it.ip()));
        let six = || address.as_sockaddr_in6().map(|it| IpAddr::from(it.ip()));
        // An address of IPv4 may have a label, `eth0:1`.
        let name = one.interface_name.split(':').next().unwrap_or_default();
        Some((name.to_owned(), four.or_else(six)?))
    });
    Ok(addresses.collect())
}

struct Mount {
    /// The block device, `major:minor`.
    number: String,
    at: String,
    source: String,
}

impl Procfs {
    /// The mounts of this process and of process 1: a service may see fewer mounts than exist.
    fn mounts(&self) -> Result<Vec<Mount>, SysfsError> {
        let mut mounts = Vec::new();
        for process in ["self", "1"] {
            let file = self.root.join(process).join("mountinfo");
            let text = match read::long_text(&file) {
                // The first process is an administrator's to see.
                Err(SysfsError::Unreadable { .. }) if process == "1" => None,
                other => other?,
            };
            mounts.extend(text.iter().flat_map(|text| text.lines()).filter_map(mount));
        }
        Ok(mounts)
    }

    fn swaps(&self) -> Result<BTreeSet<String>, SysfsError> {
        let text = read::long_text(&self.root.join("swaps"))?.unwrap_or_default();
        let rows = text.lines().skip(1);
        Ok(rows
            .filter_map(|row| row.split_whitespace().next())
            .map(str::to_owned)
            .collect())
    }

    /// The interfaces that a default route leads through.
    fn default_routes(&self) -> Result<BTreeSet<String>, SysfsError> {
        let mut interfaces = BTreeSet::new();
        let four = read::long_text(&self.root.join("net/route"))?.unwrap_or_default();
        for row in four.lines().skip(1) {
            let fields: Vec<&str> = row.split_whitespace().collect();
            if let [interface, "00000000", _, _, _, _, _, "00000000", ..] = fields.as_slice() {
                interfaces.insert((*interface).to_owned());
            }
        }
        let six = read::long_text(&self.root.join("net/ipv6_route"))?.unwrap_or_default();
        for row in six.lines() {
            let fields: Vec<&str> = row.split_whitespace().collect();
            if let [to, "00", .., interface] = fields.as_slice()
                && to.bytes().all(|byte| byte == b'0')
                && *interface != "lo"
            {
                interfaces.insert((*interface).to_owned());
            }
        }
        Ok(interfaces)
    }
}

/// Parses `36 35 98:0 /inside /where rw,noatime master:1 - ext4 /dev/root rw`.
fn mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split_whitespace().skip(2);
    let number = fields.next()?.to_owned();
    let at = fields.nth(1)?.to_owned();
    let source = after.split_whitespace().nth(1).unwrap_or_default();
    Some(Mount {
        number,
        at,
        source: source.to_owned(),
    })
}

#[cfg(test)]
mod tests;
