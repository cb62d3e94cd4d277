//! The allow-list of the devices that Berth may change: `[pci] device_spec` or `[accelerators] device_spec`.
//!
//! A function without a matching entry belongs to the host (it may be its disk or network card) and is never unbound
//! from its driver. Only this module creates [`AllowedFunction`], and every operation that changes a function requires one.

use berth_model::{MacAddress, PciAddress};
use berth_options::{OptionKind, TablesKind, WrongElement};

use serde_json::Value;

use crate::Sysfs;
use crate::device_spec::{DeviceSpec, DeviceSpecError, DeviceTags};
use crate::pci::PciFunction;
use crate::read::SysfsError;

/// The kind of the options `device_spec`.
pub const DEVICE_SPEC: OptionKind = OptionKind::Tables(&TablesKind {
    write: "write tables such as [{ address = \"0000:81:00.0\" }] or [{ vendor_id = \"10de\", product_id = \"1eb8\" }]",
    check: |entries| {
        let read = AllowList::read(entries).map(drop);
        read.map_err(|error| WrongElement {
            element: error.entry.checked_sub(1),
            wrong: error.to_string(),
        })
    },
});

/// The base class of bridges, which are never given to guests.
const BRIDGE: u32 = 0x06;

/// The entries in order. The first matching entry applies.
#[derive(Debug, Clone, Default)]
pub struct AllowList {
    specs: Vec<DeviceSpec>,
}

/// A function that may be changed, as it was when the list was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedFunction {
    function: PciFunction,
    tags: DeviceTags,
    entry: usize,
}

impl AllowedFunction {
    #[must_use]
    pub fn function(&self) -> &PciFunction {
        &self.function
    }

    #[must_use]
    pub fn address(&self) -> PciAddress {
        self.function.address
    }

    /// The number of the matching entry, counted from 1.
    #[must_use]
    pub fn entry(&self) -> usize {
        self.entry
    }

    /// The tags of the matching entry.
    #[must_use]
    pub fn tags(&self) -> &DeviceTags {
        &self.tags
    }
}

/// Why a function may not be changed.
#[derive(Debug, thiserror::Error)]
pub enum NotAllowed {
    /// The function does not exist.
    #[error("there is no PCI function {address} on this host")]
    NotThere { address: PciAddress },
    #[error(
        "PCI function {address} ({vendor:04x}:{device:04x}) is in no device_spec, so it is the host's own; add an entry \
         that means it if guests may have it"
    )]
    NotListed {
        address: PciAddress,
        vendor: u16,
        device: u16,
    },
    /// Bridges are refused even if an entry matches.
    #[error(
        "PCI function {address} is a bridge (class {class:06x}), which cannot be given to a guest"
    )]
    Bridge { address: PciAddress, class: u32 },
    /// The tree could not be read.
    #[error(transparent)]
    Sysfs(#[from] SysfsError),
}

impl AllowList {
    /// Reads the entries: tables, or Nova's JSON texts (each of one table or of a list of them).
    pub fn read(entries: &[Value]) -> Result<Self, DeviceSpecError> {
        let mut specs = Vec::new();
        for (number, entry) in (1..).zip(entries) {
            specs.extend(DeviceSpec::read(number, entry)?);
        }
        Ok(Self { specs })
    }

    /// Whether the list has no entries, so that nothing may be changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// The entries of this list followed by those of another: a function matched by either is allowed.
    #[must_use]
    pub fn and(&self, other: &AllowList) -> AllowList {
        let specs = self.specs.iter().chain(&other.specs);
        AllowList {
            specs: specs.cloned().collect(),
        }
    }

    /// The number, counted from 1, of the first entry that names its devices by network interface. Such devices cannot
    /// be reported to Placement, because the name does not belong to the device.
    #[must_use]
    pub fn entry_with_devname(&self) -> Option<usize> {
        let mut specs = self.specs.iter();
        specs.find(|spec| spec.is_by_name()).map(DeviceSpec::entry)
    }

    /// The numbers, counted from 1, and the addresses of the entries that put one function into a link group.
    pub fn single_functions_in_link_groups(&self) -> impl Iterator<Item = (usize, PciAddress)> {
        let specs = self.specs.iter();
        let grouped = specs.filter(|spec| spec.tags().link_group.is_some());
        grouped.filter_map(|spec| Some((spec.entry(), spec.single()?)))
    }

    /// An entry of this list and one of another with the same address, so that the device would have two owners on any
    /// host. Other overlaps can only be detected on the host.
    #[must_use]
    pub fn same_address(&self, other: &AllowList) -> Option<(PciAddress, usize, usize)> {
        self.specs.iter().find_map(|one| {
            let address = one.single()?;
            let mut others = other.specs.iter();
            let same = others.find(|other| other.single() == Some(address))?;
            Some((address, one.entry(), same.entry()))
        })
    }

    /// An entry of this list and one of another, one of which matches every device of the other: any such device
    /// would have two owners.
    #[must_use]
    pub fn same_devices(&self, other: &AllowList) -> Option<(usize, usize)> {
        self.specs.iter().find_map(|one| {
            let mut others = other.specs.iter();
            let same = others.find(|other| one.covers(other) || other.covers(one))?;
            Some((one.entry(), same.entry()))
        })
    }

    /// Checks a function with these network interfaces. Pure.
    pub fn admit(
        &self,
        function: &PciFunction,
        names: &[String],
    ) -> Result<AllowedFunction, NotAllowed> {
        if is_bridge(function) {
            return Err(NotAllowed::Bridge {
                address: function.address,
                class: function.class,
            });
        }
        let means = |spec: &&DeviceSpec| spec.means(function, names);
        match self.specs.iter().find(means) {
            Some(spec) => Ok(AllowedFunction {
                function: function.clone(),
                tags: spec.tags().clone(),
                entry: spec.entry(),
            }),
            None => Err(NotAllowed::NotListed {
                address: function.address,
                vendor: function.vendor,
                device: function.device,
            }),
        }
    }
}

pub(crate) fn is_bridge(function: &PciFunction) -> bool {
    function.class >> 16 == BRIDGE
}

impl Sysfs {
    /// The function at this address, if the list allows it.
    pub fn allowed(
        &self,
        list: &AllowList,
        address: PciAddress,
    ) -> Result<AllowedFunction, NotAllowed> {
        let Some(function) = self.pci_function(address)? else {
            return Err(NotAllowed::NotThere { address });
        };
        list.admit(&function, &self.network_names(address)?)
    }

    /// The names of a function's network interfaces.
    pub fn network_names(&self, address: PciAddress) -> Result<Vec<String>, SysfsError> {
        crate::read::names(&self.pci_device(address).join("net"))
    }

    /// The PCI function of a network interface; `None` if the host does not have the interface, or it is no PCI function's.
    pub fn function_of_network_name(&self, name: &str) -> Result<Option<PciAddress>, SysfsError> {
        let device = self.root().join("class/net").join(name).join("device");
        let device = crate::read::link_name(&device)?;
        Ok(device.and_then(|device| device.parse().ok()))
    }

    /// The MAC address of a function's network interface; `None` if it has none, or another kind of address.
    pub(crate) fn mac_of_interface(
        &self,
        address: PciAddress,
        name: &str,
    ) -> Result<Option<MacAddress>, SysfsError> {
        let file = self
            .pci_device(address)
            .join("net")
            .join(name)
            .join("address");
        let text = crate::read::text(&file)?;
        Ok(text.and_then(|text| text.parse().ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{CardFixture, TestTree};
    use serde_json::json;

    fn list(entries: Value) -> AllowList {
        AllowList::read(entries.as_array().unwrap()).unwrap()
    }

    #[test]
    fn a_network_interface_is_of_its_pci_function_or_of_none() {
        let tree = TestTree::new();
        let device = |name: &str| format!("class/net/{name}/device");
        tree.link(
            &device("ens5v1"),
            std::path::Path::new("../../../0000:05:10.2"),
        );
        tree.link(&device("eth0"), std::path::Path::new("../../../virtio0"));
        tree.write("class/net/br0/address", "52:54:00:00:00:01\n");
        let found = |name| tree.sysfs().function_of_network_name(name).unwrap();
        assert_eq!(found("ens5v1"), Some("0000:05:10.2".parse().unwrap()));
        for name in ["eth0", "br0", "ens9"] {
            assert_eq!(found(name), None, "{name}");
        }
    }

    #[test]
    fn only_a_listed_function_is_allowed_and_the_first_entry_counts() {
        let tree = TestTree::new();
        tree.card(CardFixture::gpu("0000:81:00.0", 1));
        tree.card(CardFixture::gpu("0000:82:00.0", 2));
        let sysfs = tree.sysfs();
        let allow = list(json!([
            {"address": "0000:81:00.0", "managed": "no"},
            {"address": "81:00.*", "managed": "yes"},
        ]));
        let allowed = sysfs.allowed(&allow, "81:00.0".parse().unwrap()).unwrap();
        assert_eq!(allowed.tags().managed, Some(false));
        let text = sysfs
            .allowed(&allow, "82:00.0".parse().unwrap())
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("10de:1eb8") && text.contains("device_spec"),
            "{text}"
        );
        let gone = sysfs.allowed(&allow, "83:00.0".parse().unwrap());
        assert!(matches!(gone, Err(NotAllowed::NotThere { .. })));
    }

    #[test]
    fn one_address_in_two_lists_is_reported_with_both_entries() {
        let one = list(
            json!([{"vendor_id": "8086"}, {"address": "81:00.0"}, {"address": "0000:82:00.0"}]),
        );
        let other = list(json!([{"vendor_id": "10de", "address": "0000:82:00.0"}]));
        let address = "0000:82:00.0".parse().unwrap();
        assert_eq!(one.same_address(&other), Some((address, 3, 1)));
        for (ours, theirs, same) in [
            (
                json!({"vendor_id": "1234", "product_id": "1111"}),
                json!({"vendor_id": "1234", "product_id": "1111"}),
                true,
            ),
            (
                json!({"vendor_id": "1234"}),
                json!({"vendor_id": "1234", "product_id": "1111"}),
                true,
            ),
            (
                json!({"vendor_id": "1234", "address": "0000:81:*.*"}),
                json!({"address": "*:81:*.*"}),
                true,
            ),
            (
                json!({"address": {"bus": "8[0-3]"}}),
                json!({"address": {"bus": "8[0-3]"}}),
                true,
            ),
            // Whether these overlap depends on the host.
            (
                json!({"vendor_id": "1234"}),
                json!({"address": "*:81:*.*"}),
                false,
            ),
            (
                json!({"vendor_id": "1234"}),
                json!({"product_id": "1111"}),
                false,
            ),
            (
                json!({"vendor_id": "1234"}),
                json!({"vendor_id": "1235"}),
                false,
            ),
            (
                json!({"address": {"bus": "8[0-3]"}}),
                json!({"address": "*:81:*.*"}),
                false,
            ),
        ] {
            let (ours, theirs) = (list(json!([ours])), list(json!([theirs])));
            assert_eq!(
                ours.same_devices(&theirs).is_some(),
                same,
                "{ours:?} {theirs:?}"
            );
            assert_eq!(
                theirs.same_devices(&ours).is_some(),
                same,
                "{ours:?} {theirs:?}"
            );
        }
        assert_eq!(
            one.same_address(&list(json!([{"vendor_id": "8086"}]))),
            None
        );
    }

    #[test]
    fn an_empty_list_allows_nothing() {
        let tree = TestTree::new();
        tree.card(CardFixture::gpu("0000:81:00.0", 1));
        let none = AllowList::default();
        assert!(none.is_empty());
        assert!(
            tree.sysfs()
                .allowed(&none, "81:00.0".parse().unwrap())
                .is_err()
        );
    }

    #[test]
    fn a_bridge_is_never_allowed() {
        let tree = TestTree::new();
        tree.card(CardFixture {
            class: 0x06_0400,
            ..CardFixture::gpu("0000:81:00.0", 1)
        });
        let allow = list(json!([{"vendor_id": "10de"}]));
        let refused = tree.sysfs().allowed(&allow, "81:00.0".parse().unwrap());
        assert!(matches!(refused, Err(NotAllowed::Bridge { .. })));
    }

    #[test]
    fn a_card_is_found_by_the_name_of_its_interface() {
        let tree = TestTree::new();
        tree.card(CardFixture::gpu("0000:81:00.0", 1));
        tree.write("bus/pci/devices/0000:81:00.0/net/eth7/mtu", "1500");
        let address = "81:00.0".parse().unwrap();
        let by_name = list(json!([{"devname": "eth7"}]));
        assert!(tree.sysfs().allowed(&by_name, address).is_ok());
        let other = list(json!([{"devname": "eth8"}]));
        assert!(tree.sysfs().allowed(&other, address).is_err());
    }
}
