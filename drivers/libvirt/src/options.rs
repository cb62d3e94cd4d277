//! The driver's options. Names in comments are Nova's options.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_hook::Hook;
use berth_model::{NodeName, PciAddress, ResourceClass};
use berth_options::{OptionKind, TextKind, choices, options};
use berth_sysfs::AllowList;
use berth_virt::{CpuSet, ResourceModel};

/// The location of guests' disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskPlacement {
    /// On this host, under this path (`instances_path`): its file system's size is reported as DISK_GB.
    Local(PathBuf),
    /// On shared storage that another provider reports.
    Shared,
}

options! {
    /// The libvirt driver.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LibvirtSection in "libvirt" {
        /// The libvirt connection.
        connection_uri: Option<String> = None,
            kind: LIBVIRT_URI, derived: "`qemu:///system`", example: "\"qemu:///system\"";
        /// How guests run: `kvm`, or `qemu` for emulation without hardware support. The `COMPUTE_*` traits are those of
        /// such guests. If libvirt reports that the host cannot run them, there are no such traits.
        pub virt_type: VirtType = VirtType::Kvm;
        /// The processor that guests see. The `HW_CPU_X86_*` traits are its features: those of the host, unless the mode is
        /// `none` or `custom`.
        cpu_mode: Option<CpuMode> = None, derived: "`host-model` with KVM (`host-passthrough` on aarch64), else `none`", example: "\"host-model\"";
        /// The named processor model of `cpu_mode = "custom"`; only the first is used.
        pub cpu_models: Vec<String> = Vec::new(), kind: NAMES;
        /// How guests' disks are cached: not in the host's page cache (`file=none`, which the file system must
        /// support), or in it (`file=writeback`).
        disk_cachemodes: Vec<DiskCache> = vec![DiskCache::Bypassed];
        /// The emulator of guests; unset: libvirt chooses one.
        pub emulator: Option<PathBuf> = None, kind: PROGRAM, example: "\"/usr/bin/qemu-system-x86_64\"";
        /// libvirt's network filter (nwfilter) of guests' interfaces. `berth-port-security`, which Berth defines, drops
        /// frames with another MAC address than the interface's, answers of DHCP servers and IPv6 router
        /// advertisements. Or the name of another filter of libvirt's, or `none`. Interfaces that are not on a Linux
        /// bridge have no filter. A guest gets the filter when it is created, rebuilt or resized.
        nwfilter: String = PORT_SECURITY.to_owned(), kind: NWFILTER;
        /// Whether a guest's interface exchanges frames with the host and the bridge's uplink alone, and not with
        /// other guests on the same bridge of this host.
        pub port_isolation: bool = false;
        /// The PCI Express root ports of a guest; unset (0), a guest has as many as its first devices need. Each device that is
        /// attached to a running guest takes one.
        pub num_pcie_ports: u32 = 0, kind: Integer(0, 28);
        /// How often the statistics of guests' memory are read, in seconds; 0: never.
        pub mem_stats_period_seconds: u32 = 10, kind: Integer(0, 86_400);
        /// The size of the receive queues of guests' virtio interfaces, in descriptors; unset: QEMU's default (256). An
        /// interface gets its size when its guest is created or rebuilt, or when it is attached.
        rx_queue_size: Option<u32> = None, kind: Numbers(&QUEUE_SIZES), example: "1024";
        /// The size of the transmit queues of guests' virtio interfaces, in descriptors; unset: QEMU's default (256). QEMU
        /// uses a larger size for vhost-user and vDPA interfaces only, which Berth's guests do not have. The transmit queues
        /// of other interfaces have 256 descriptors.
        tx_queue_size: Option<u32> = None, kind: Numbers(&QUEUE_SIZES), example: "1024";
    }
}

options! {
    /// The screens of guests: their VNC servers on the hypervisor, and the proxy that gives users access to them.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct VncSection in "vnc" {
        /// Whether guests have a video card and a VNC server, and the API gives out VNC consoles. A guest that runs gets or
        /// loses them at its next start.
        pub enabled: bool = true;
        /// The address of this hypervisor where the VNC servers of its guests listen, each on a port of its own from 5900 on.
        /// They have no password and no TLS, so that everybody who reaches the address sees the screens.
        pub server_listen: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
        /// The address by which the agent of this hypervisor connects to the VNC servers.
        server_proxyclient_address: Option<IpAddr> = None,
            derived: "`server_listen`, or `127.0.0.1` if that is every address", example: "\"127.0.0.1\"";
    }
}

impl VncSection {
    /// The VNC servers of guests; `None` if guests have none.
    #[must_use]
    pub fn servers(&self) -> Option<VncServers> {
        let every = self.server_listen.is_unspecified();
        let own = match (every, self.server_listen) {
            (false, address) => address,
            (true, IpAddr::V4(_)) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            (true, IpAddr::V6(_)) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        };
        self.enabled.then(|| VncServers {
            listen: self.server_listen,
            connect: self.server_proxyclient_address.unwrap_or(own),
        })
    }
}

/// Where the VNC servers of guests are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VncServers {
    /// The address that they listen on.
    pub listen: IpAddr,
    /// The address that the agent connects to.
    pub connect: IpAddr,
}

/// The sizes of the queues of a virtio interface; none: the hypervisor's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueSizes {
    /// `[libvirt] rx_queue_size`.
    pub receive: Option<u32>,
    /// `[libvirt] tx_queue_size`.
    pub transmit: Option<u32>,
}

impl LibvirtSection {
    /// The sizes of the queues of guests' virtio interfaces.
    #[must_use]
    pub fn queue_sizes(&self) -> QueueSizes {
        QueueSizes {
            receive: self.rx_queue_size,
            transmit: self.tx_queue_size,
        }
    }

    /// The connection, `qemu:///system` unless set.
    #[must_use]
    pub fn connection_uri(&self) -> &str {
        self.connection_uri.as_deref().unwrap_or("qemu:///system")
    }

    /// The processor that guests see: as set, else by how they run.
    #[must_use]
    pub fn cpu_mode(&self) -> CpuMode {
        self.cpu_mode.unwrap_or(match self.virt_type {
            VirtType::Kvm => CpuMode::HostModel,
            VirtType::Qemu => CpuMode::None,
        })
    }

    /// How guests' disks are cached; where several are named, which is refused, the first.
    #[must_use]
    pub fn disk_cache(&self) -> DiskCache {
        let first = self.disk_cachemodes.first().copied();
        first.unwrap_or(DiskCache::Bypassed)
    }

    /// The network filter of guests' interfaces; none if it is switched off.
    #[must_use]
    pub fn nwfilter(&self) -> Option<&str> {
        Some(self.nwfilter.as_str()).filter(|name| *name != "none")
    }

    /// How many cache modes are named.
    #[must_use]
    pub fn cache_modes(&self) -> usize {
        self.disk_cachemodes.len()
    }
}

choices! {
    /// `[libvirt] cpu_mode`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum CpuMode {
        None = "none",
        /// The nearest named model to the host's.
        HostModel = "host-model",
        HostPassthrough = "host-passthrough",
        /// All that the hypervisor can show.
        Maximum = "maximum",
        /// The model that `cpu_models` names.
        Custom = "custom",
    }
}

choices! {
    /// `[libvirt] virt_type`: how guests of the host's own architecture run. libvirt has the same words for a domain's `type`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum VirtType {
        #[default]
        Kvm = "kvm",
        Qemu = "qemu",
    }
}

choices! {
    /// How guests' disks are cached: Nova's `[libvirt] disk_cachemodes` for files.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum DiskCache {
        /// Past the host's page cache (`none`); the file system must know O_DIRECT.
        #[default]
        Bypassed = "file=none",
        /// `writeback`; a guest's flushes are honoured.
        Writeback = "file=writeback",
    }
}

/// The sizes of virtio queues that Nova accepts.
const QUEUE_SIZES: [i64; 3] = [256, 512, 1024];

/// The network filter that Berth defines.
pub(crate) const PORT_SECURITY: &str = "berth-port-security";

/// The name of a network filter.
const NWFILTER: OptionKind = OptionKind::Text(&TextKind::new(
    "name of a network filter, or none",
    "write \"berth-port-security\", the name of a filter that virsh nwfilter-list shows, or \"none\"",
    |text| {
        let is_name = (1..=64).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
        match is_name {
            true => Ok(()),
            false => Err(format!("{text:?} is not a name of letters, digits, _, - and .").into()),
        }
    },
));

/// A libvirt connection URI of a local hypervisor.
const LIBVIRT_URI: OptionKind = OptionKind::Text(&TextKind::new(
    "local libvirt URI",
    "write a URI such as \"qemu:///system\"",
    |text| match is_libvirt_uri(text) {
        true => Ok(()),
        false => Err(format!(
            "{:?} is not a local libvirt connection URI",
            without_secrets(text)
        )
        .into()),
    },
));

/// The URI as errors show it: without whatever may be a user or a password. Everything before the last `@`, after a colon
/// behind the host, and in the query may be one.
fn without_secrets(uri: &str) -> String {
    let (bare, query) = match uri.find(['?', '#']) {
        Some(end) => (&uri[..end], "?***"),
        None => (uri, ""),
    };
    let is_scheme = |text: &str| {
        let mut bytes = text.bytes();
        bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte))
    };
    let (scheme, rest) = match bare.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => (format!("{scheme}://"), rest),
        _ => (String::new(), bare),
    };
    let (login, rest) = match rest.rsplit_once('@') {
        Some((_, rest)) => ("***@", rest),
        None => ("", rest),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    // An IPv6 address in brackets has colons of its own.
    let (address, port) = authority.split_at(authority.rfind(']').map_or(0, |at| at + 1));
    let port = match port.split_once(':') {
        Some((name, secret)) if !secret.is_empty() => format!("{name}:***"),
        _ => port.to_owned(),
    };
    format!("{scheme}{login}{address}{port}{path}{query}")
}

/// Remote hypervisors are refused: devices are read from this host's own sysfs. A local URI has no secrets, so it may be shown
/// everywhere: of the keys of a query, it may have those that select the socket.
fn is_libvirt_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    let is_local = matches!(
        scheme,
        "qemu" | "qemu+unix" | "test" | "test+unix" | "ch" | "ch+unix"
    );
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut keys = query.split(['&', ';']).filter(|pair| !pair.is_empty());
    let selects_socket =
        keys.all(|pair| matches!(pair.split_once('='), Some(("mode" | "socket", _))));
    is_local && path.starts_with('/') && !rest.contains('#') && selects_socket
}

#[derive(Debug, Clone)]
pub struct LibvirtOptions {
    /// `[libvirt] connection_uri`: the URI of libvirtd.
    pub connection_uri: String,
    /// `[libvirt] virt_type`: the host's capabilities (`COMPUTE_*` traits) are queried for such guests.
    pub virt_type: VirtType,
    /// `[libvirt] cpu_mode`: the `HW_CPU_*` traits are those of such guests.
    pub cpu_mode: CpuMode,
    /// The model of [`CpuMode::Custom`].
    pub cpu_model: Option<String>,
    /// The timeout of one observation.
    pub call_timeout: Duration,
    /// The node's name; none for the hostname that libvirt gives.
    pub node: Option<NodeName>,
    /// The kernel's device tree of the observed host; `None` if not accessible.
    pub sysfs: Option<PathBuf>,
    pub disk: DiskPlacement,
    /// How guests' disks are cached.
    pub disk_cache: DiskCache,
    /// The emulator that guests run in; none for the one libvirt picks.
    pub emulator: Option<PathBuf>,
    /// libvirt's network filter of guests' interfaces; none: they have no filter.
    pub nwfilter: Option<String>,
    /// Whether guests' interfaces on one bridge are isolated from each other.
    pub port_isolation: bool,
    /// The PCI Express root ports of a guest; 0: as many as its first devices need.
    pub pcie_root_ports: u32,
    /// How often the statistics of guests' memory are read, in seconds; 0: never.
    pub memory_statistics_s: u32,
    /// The sizes of the queues of guests' virtio interfaces.
    pub queue_sizes: QueueSizes,
    /// The VNC servers of guests; none: guests have no video card.
    pub vnc: Option<VncServers>,
    /// `[compute] cpu_shared_set`.
    pub cpu_shared_set: Option<CpuSet>,
    /// `[compute] cpu_dedicated_set`.
    pub cpu_dedicated_set: Option<CpuSet>,
    /// `[devices] enabled_mdev_types` and the `[mdev_TYPE]` sections.
    pub mdev_types: MdevTypes,
    /// `[pci] device_spec`: devices for flavors.
    pub pci_devices: AllowList,
    /// `[pci] report_in_placement`.
    pub report_pci_in_placement: bool,
    /// `[accelerators] device_spec`: the devices that the accelerator service gives out.
    pub accelerator_devices: AllowList,
    /// How devices are given to guests and returned.
    pub device_assignment: DeviceAssignmentOptions,
    /// How the resources are modelled in Placement.
    pub model: ResourceModel,
}

/// How devices are given to guests and returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceAssignmentOptions {
    /// The kernel's mounts, swap and routes, which show the host's own devices.
    pub procfs: PathBuf,
    /// The directory that records which driver a function belongs to while a guest has it; `None`: the kernel chooses.
    pub home_drivers: Option<PathBuf>,
    /// The file with the healthy state of devices, so that a restart does not hide errors; `None`: in memory only.
    pub baselines: Option<PathBuf>,
    /// How long the kernel may take until a write takes effect.
    pub patience: Duration,
    /// The timeout of one write; some writes wait for the user of the device.
    pub write_limit: Duration,
    /// `[accelerators] reset_hook`: cleans a function beyond its reset. Its environment has `BERTH_DEVICE_ADDRESS`,
    /// `BERTH_DEVICE_VENDOR`, `BERTH_DEVICE_PRODUCT` and `BERTH_DEVICE_DRIVER`.
    pub reset_hook: Option<Hook>,
}

impl Default for DeviceAssignmentOptions {
    /// This host's `/proc`, no records, 10 seconds for effects and 60 for a write, no hook.
    fn default() -> Self {
        Self {
            procfs: PathBuf::from("/proc"),
            home_drivers: None,
            baselines: None,
            patience: Duration::from_secs(10),
            write_limit: Duration::from_mins(1),
            reset_hook: None,
        }
    }
}

impl LibvirtOptions {
    /// The defaults for a connection: KVM, the host's CPU model, 60 seconds per call, libvirt's node name, this host's device tree (for
    /// libvirt's test driver the directory `sys` next to the node's file, if it exists), disks under Nova's default
    /// path, Berth's network filter, no CPU sets, no devices, the newest resource model.
    #[must_use]
    pub fn new(connection_uri: &str) -> Self {
        Self {
            connection_uri: connection_uri.to_owned(),
            virt_type: VirtType::default(),
            cpu_mode: CpuMode::HostModel,
            cpu_model: None,
            call_timeout: Duration::from_secs(60),
            node: None,
            sysfs: device_tree(connection_uri),
            disk: DiskPlacement::Local(PathBuf::from("/var/lib/nova/instances")),
            disk_cache: DiskCache::default(),
            emulator: None,
            nwfilter: Some(PORT_SECURITY.to_owned()),
            port_isolation: false,
            pcie_root_ports: 0,
            memory_statistics_s: 10,
            queue_sizes: QueueSizes::default(),
            vnc: VncSection::default().servers(),
            cpu_shared_set: None,
            cpu_dedicated_set: None,
            mdev_types: MdevTypes::default(),
            pci_devices: AllowList::default(),
            report_pci_in_placement: false,
            accelerator_devices: AllowList::default(),
            device_assignment: DeviceAssignmentOptions::default(),
            model: ResourceModel::default(),
        }
    }
}

fn device_tree(connection_uri: &str) -> Option<PathBuf> {
    let Some(file) = connection_uri.strip_prefix("test://") else {
        return Some(PathBuf::from("/sys"));
    };
    let sibling = Path::new(file).parent()?.join("sys");
    // `test:///default` is not a file, and a directory next to it would be this host's.
    (sibling != Path::new("/sys") && sibling.is_dir()).then_some(sibling)
}

/// One of `[devices] enabled_mdev_types`, with its section `[mdev_TYPE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MdevTypeOptions {
    /// The type, by the kernel's name (`nvidia-558`).
    pub id: String,
    /// `device_addresses`: the GPUs of this type; empty: all that no other type names.
    pub device_addresses: BTreeSet<PciAddress>,
    /// `mdev_class`.
    pub class: ResourceClass,
    /// `max_instances`: the maximum on this host; `None`: as many as the hardware has.
    pub max_instances: Option<u64>,
}

impl MdevTypeOptions {
    /// A type as Nova takes one without a section: for all GPUs, of class VGPU, without a limit.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            device_addresses: BTreeSet::new(),
            class: ResourceClass::VGPU,
            max_instances: None,
        }
    }
}

/// A set of types that contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MdevTypesError {
    /// Two types name one GPU.
    #[error(
        "[mdev_{first}] and [mdev_{second}] both name {address}: a GPU is used for one type at a time"
    )]
    TwoTypesForOneGpu {
        address: PciAddress,
        /// The type that named it first.
        first: String,
        /// The type that named it again.
        second: String,
    },
    /// A type is listed twice.
    #[error("[devices] enabled_mdev_types lists {id} twice")]
    ListedTwice { id: String },
}

/// The enabled types, with the GPUs of each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MdevTypes {
    types: BTreeMap<String, MdevTypeOptions>,
    by_address: BTreeMap<PciAddress, String>,
    /// The type for all GPUs that no type names: the first one without addresses.
    default: Option<String>,
    ignored: Vec<String>,
}

impl MdevTypes {
    /// The types in the order of `enabled_mdev_types`. As in Nova, the first one without addresses applies to every GPU
    /// that no other type names; further ones without addresses are ignored (see [`MdevTypes::ignored`]).
    pub fn new(types: impl IntoIterator<Item = MdevTypeOptions>) -> Result<Self, MdevTypesError> {
        let mut result = Self::default();
        for one in types {
            result.add(one)?;
        }
        Ok(result)
    }

    fn add(&mut self, one: MdevTypeOptions) -> Result<(), MdevTypesError> {
        if self.types.contains_key(&one.id) {
            return Err(MdevTypesError::ListedTwice { id: one.id });
        }
        if one.device_addresses.is_empty() {
            if self.default.is_some() {
                self.ignored.push(one.id);
                return Ok(());
            }
            self.default = Some(one.id.clone());
        }
        for address in &one.device_addresses {
            if let Some(first) = self.by_address.insert(*address, one.id.clone()) {
                return Err(MdevTypesError::TwoTypesForOneGpu {
                    address: *address,
                    first,
                    second: one.id,
                });
            }
        }
        self.types.insert(one.id.clone(), one);
        Ok(())
    }

    /// Whether a type names this GPU, which then offers only that type.
    #[must_use]
    pub fn names(&self, gpu: PciAddress) -> bool {
        self.by_address.contains_key(&gpu)
    }

    /// The type a GPU is used for.
    #[must_use]
    pub fn of(&self, gpu: PciAddress) -> Option<&MdevTypeOptions> {
        let id = self.by_address.get(&gpu).or(self.default.as_ref())?;
        self.types.get(id)
    }

    /// Enabled types that no GPU is used for, because an earlier one without addresses takes them all: worth a warning.
    #[must_use]
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> PciAddress {
        text.parse().unwrap()
    }

    fn typed(id: &str, addresses: &[&str]) -> MdevTypeOptions {
        MdevTypeOptions {
            device_addresses: addresses.iter().map(|text| address(text)).collect(),
            ..MdevTypeOptions::new(id)
        }
    }

    #[test]
    fn the_device_tree_is_this_hosts_or_the_one_next_to_the_test_nodes_file() {
        let directory = tempfile::tempdir().unwrap();
        let of = |uri: &str| LibvirtOptions::new(uri).sysfs;
        let file = format!("test://{}/node.xml", directory.path().display());
        assert_eq!(of("qemu:///system"), Some("/sys".into()));
        assert_eq!(of("test:///default"), None);
        assert_eq!(of(&file), None);
        std::fs::create_dir(directory.path().join("sys")).unwrap();
        assert_eq!(of(&file), Some(directory.path().join("sys")));
    }

    #[test]
    fn a_gpu_is_used_for_the_type_that_names_it_else_for_the_first_without_addresses() {
        let types = MdevTypes::new([
            typed("nvidia-35", &["0000:84:00.0"]),
            typed("nvidia-36", &[]),
            typed("nvidia-37", &[]),
        ])
        .unwrap();
        let id = |text| types.of(address(text)).map(|one| one.id.as_str());
        assert_eq!(id("0000:84:00.0"), Some("nvidia-35"));
        assert_eq!(id("0000:85:00.0"), Some("nvidia-36"));
        assert_eq!(types.ignored(), ["nvidia-37"]);
        assert_eq!(MdevTypes::default().of(address("0000:84:00.0")), None);
    }

    #[test]
    fn one_gpu_has_one_type() {
        let twice = MdevTypes::new([typed("a", &["84:00.0"]), typed("b", &["0000:84:00.0"])]);
        assert!(matches!(
            twice,
            Err(MdevTypesError::TwoTypesForOneGpu { .. })
        ));
        let listed = MdevTypes::new([typed("a", &[]), typed("a", &["84:00.0"])]);
        assert!(matches!(listed, Err(MdevTypesError::ListedTwice { .. })));
    }

    #[test]
    fn no_part_of_a_refused_uri_that_may_be_a_secret_is_shown() {
        for (uri, shown) in [
            (
                "qemu+ssh://user:hunter2@other/system",
                "qemu+ssh://***@other/system",
            ),
            ("qemu+ssh://other/system", "qemu+ssh://other/system"),
            (
                "qemu+ssh://root:hunter2/system",
                "qemu+ssh://root:***/system",
            ),
            (
                "qemu+ssh://user:hun/ter2@other/system",
                "qemu+ssh://***@other/system",
            ),
            (
                "qemu+ssh://user:hunter2@[::1]:22/system",
                "qemu+ssh://***@[::1]:***/system",
            ),
            ("qemu+ssh://[::1]/system", "qemu+ssh://[::1]/system"),
            ("qemu:///system?password=hunter2", "qemu:///system?***"),
            ("qemu:///system#hunter2", "qemu:///system?***"),
            ("esx://host/?auth=hunter2#x", "esx://host/?***"),
            ("user:hunter2@host/system", "***@host/system"),
            ("root:hunter2", "root:***"),
            ("root:hunter2@qemu:///system", "***@qemu:///system"),
            ("qemu:/system", "qemu:/system"),
            ("system", "system"),
        ] {
            assert!(!is_libvirt_uri(uri), "{uri}");
            assert_eq!(without_secrets(uri), shown, "{uri}");
        }
        for uri in [
            "qemu:///system",
            "test:///default",
            "qemu+unix:///system?socket=/run/libvirt/virtqemud-sock&mode=direct",
        ] {
            assert!(is_libvirt_uri(uri), "{uri}");
            assert_eq!(
                without_secrets(uri).split('?').next(),
                uri.split('?').next()
            );
        }
    }
}
