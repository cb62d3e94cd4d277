//! Reads PCI functions: ids, class, driver, and the relation of physical and virtual functions.

use std::path::{Path, PathBuf};

use berth_model::PciAddress;

use crate::read::{self, SysfsError};
use crate::{IommuGroup, Sysfs};

/// The SR-IOV role of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sriov {
    /// Neither a physical function with virtual ones, nor a virtual one.
    None,
    /// A physical function that can have virtual functions.
    Physical {
        /// The maximum number (`sriov_totalvfs`).
        total: u32,
        /// How many are switched on (`sriov_numvfs`).
        enabled: u32,
        /// The virtual functions that exist, in the order of their numbers.
        functions: Vec<PciAddress>,
    },
    Virtual {
        physical: PciAddress,
    },
}

/// One PCI function of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PciFunction {
    pub address: PciAddress,
    /// Vendor id, for example 0x10de.
    pub vendor: u16,
    pub device: u16,
    /// Class code: base class, subclass and programming interface, 24 bits, for example 0x030200.
    pub class: u32,
    /// Its kernel driver; `None` without one.
    pub driver: Option<String>,
    /// Its NUMA node; `None` if unknown.
    pub numa_node: Option<u32>,
    /// Its IOMMU group; `None` without an IOMMU.
    pub iommu_group: Option<u32>,
    /// Physical, virtual or neither.
    pub sriov: Sriov,
}

impl Sysfs {
    /// All PCI functions by address; empty without a PCI bus.
    ///
    /// Errors: [`SysfsError`] with the file. A function that disappears while it is read is omitted.
    pub fn pci_functions(&self) -> Result<Vec<PciFunction>, SysfsError> {
        let directory = self.pci_devices();
        let mut functions = Vec::new();
        for name in read::names(&directory)? {
            let address = name.parse().map_err(|_| {
                SysfsError::malformed(&directory, &name, "directories named by PCI address")
            })?;
            functions.extend(self.pci_function(address)?);
        }
        functions.sort_unstable_by_key(|function| function.address);
        Ok(functions)
    }

    /// One PCI function; `None` if it does not exist.
    pub fn pci_function(&self, address: PciAddress) -> Result<Option<PciFunction>, SysfsError> {
        let at = self.pci_device(address);
        // Every function has these three; one without them is being removed.
        let (Some(vendor), Some(device), Some(class)) = (
            identifier(&at.join("vendor"))?,
            identifier(&at.join("device"))?,
            read::value(&at.join("class"), "0x and up to six digits", |text| {
                read::hexadecimal(text, 6)
            })?,
        ) else {
            return Ok(None);
        };
        Ok(Some(PciFunction {
            address,
            vendor,
            device,
            class,
            driver: read::link_name(&at.join("driver"))?,
            numa_node: numa_node(&at)?,
            iommu_group: iommu_group(&at)?,
            sriov: sriov(&at)?,
        }))
    }

    /// The IOMMU group of a function with all members; `None` if it has none.
    pub fn iommu_group_of(&self, address: PciAddress) -> Result<Option<IommuGroup>, SysfsError> {
        match iommu_group(&self.pci_device(address))? {
            Some(id) => self.iommu_group(id),
            None => Ok(None),
        }
    }

    /// The upstream port of the PCI Express switch that the function is connected to; `None` without a switch, or if the function
    /// does not exist. Of several switches the nearest counts.
    pub fn pci_switch(&self, address: PciAddress) -> Result<Option<PciAddress>, SysfsError> {
        Ok(read::resolved(&self.pci_device(address))?.and_then(|path| upstream_port(&path)))
    }

    /// Whether the function's driver gives it to guests: it is a VFIO device (`vfio-dev`, since Linux 6.2), or an
    /// NVIDIA virtual function that is configured as a vGPU (`nvidia/current_vgpu_type`).
    pub fn offers_vfio(&self, address: PciAddress) -> Result<bool, SysfsError> {
        let at = self.pci_device(address);
        if !read::names(&at.join("vfio-dev"))?.is_empty() {
            return Ok(true);
        }
        let vgpu_type = read::text(&at.join("nvidia/current_vgpu_type"))?;
        Ok(vgpu_type.is_some_and(|vgpu_type| vgpu_type != "0"))
    }

    /// The driver that a function is reserved for (`driver_override`), which may differ from the current one; the
    /// kernel writes `(null)` for none.
    pub fn driver_override(&self, address: PciAddress) -> Result<Option<String>, SysfsError> {
        let text = read::text(&self.pci_device(address).join("driver_override"))?;
        Ok(text.filter(|text| !text.is_empty() && text != "(null)"))
    }

    fn pci_devices(&self) -> PathBuf {
        self.root().join("bus/pci/devices")
    }

    pub(crate) fn pci_device(&self, address: PciAddress) -> PathBuf {
        self.pci_devices().join(address.to_string())
    }
}

/// The upstream port above a function's directory: `.../ROOT PORT/UPSTREAM PORT/DOWNSTREAM PORT/FUNCTION`. Directories above it that
/// are no functions begin another tree, for example that of a volume management device (`pci10000:00`).
fn upstream_port(function: &Path) -> Option<PciAddress> {
    let names = function.ancestors().skip(1).map(|directory| {
        let name = directory.file_name()?.to_str()?;
        name.parse::<PciAddress>().ok()
    });
    let ports: Vec<_> = names.map_while(|port| port).take(3).collect();
    match ports[..] {
        [_downstream, upstream, _root] => Some(upstream),
        _ => None,
    }
}

fn identifier(path: &Path) -> Result<Option<u16>, SysfsError> {
    read::value(path, "0x and up to four digits", |text| {
        read::hexadecimal(text, 4).and_then(|value| u16::try_from(value).ok())
    })
}

/// The kernel writes -1 if unknown.
fn numa_node(at: &Path) -> Result<Option<u32>, SysfsError> {
    let node = read::value(
        &at.join("numa_node"),
        "a NUMA node's number, or -1",
        |text| match text {
            "-1" => Some(None),
            _ => read::decimal(text).map(Some),
        },
    )?;
    Ok(node.flatten())
}

fn iommu_group(at: &Path) -> Result<Option<u32>, SysfsError> {
    let link = at.join("iommu_group");
    let Some(name) = read::link_name(&link)? else {
        return Ok(None);
    };
    read::decimal(&name)
        .map(Some)
        .ok_or_else(|| SysfsError::malformed(&link, &name, "a link to a group's number"))
}

fn sriov(at: &Path) -> Result<Sriov, SysfsError> {
    if let Some(physical) = linked_function(&at.join("physfn"))? {
        return Ok(Sriov::Virtual { physical });
    }
    let count = |file: &str| read::value(&at.join(file), "a count", read::decimal);
    let Some(total) = count("sriov_totalvfs")? else {
        return Ok(Sriov::None);
    };
    Ok(Sriov::Physical {
        total,
        enabled: count("sriov_numvfs")?.unwrap_or(0),
        functions: virtual_functions(at)?,
    })
}

fn virtual_functions(at: &Path) -> Result<Vec<PciAddress>, SysfsError> {
    let mut numbered: Vec<(u32, PciAddress)> = Vec::new();
    for name in read::names(at)? {
        let Some(number) = name.strip_prefix("virtfn").and_then(read::decimal) else {
            continue;
        };
        if let Some(address) = linked_function(&at.join(&name))? {
            numbered.push((number, address));
        }
    }
    numbered.sort_unstable();
    Ok(numbered.into_iter().map(|(_, address)| address).collect())
}

fn linked_function(link: &Path) -> Result<Option<PciAddress>, SysfsError> {
    let Some(name) = read::link_name(link)? else {
        return Ok(None);
    };
    name.parse()
        .map(Some)
        .map_err(|_| SysfsError::malformed(link, &name, "a link to a PCI function"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{CardFixture, TestTree};

    fn address(text: &str) -> PciAddress {
        text.parse().unwrap()
    }

    #[test]
    fn a_physical_function_knows_its_virtual_ones_and_they_know_it() {
        let tree = TestTree::new();
        tree.card(CardFixture {
            driver: Some("nvidia"),
            numa_node: 1,
            virtual_functions: Some((4, 2)),
            ..CardFixture::gpu("0000:81:00.0", 12)
        });
        let functions = tree.sysfs().pci_functions().unwrap();
        assert_eq!(functions.len(), 3);
        assert_eq!(
            functions[0],
            PciFunction {
                address: address("0000:81:00.0"),
                vendor: 0x10de,
                device: 0x1eb8,
                class: 0x03_0200,
                driver: Some("nvidia".to_owned()),
                numa_node: Some(1),
                iommu_group: Some(12),
                sriov: Sriov::Physical {
                    total: 4,
                    enabled: 2,
                    functions: vec![address("0000:81:00.4"), address("0000:81:00.5")],
                },
            }
        );
        for function in &functions[1..] {
            assert_eq!(
                function.sriov,
                Sriov::Virtual {
                    physical: address("0000:81:00.0")
                }
            );
        }
    }

    #[test]
    fn what_the_platform_does_not_say_is_none() {
        let tree = TestTree::new();
        tree.card(CardFixture {
            iommu_group: None,
            ..CardFixture::gpu("0000:82:00.0", 0)
        });
        let function = tree
            .sysfs()
            .pci_function(address("0000:82:00.0"))
            .unwrap()
            .unwrap();
        assert_eq!(
            (function.numa_node, function.driver, function.iommu_group),
            (None, None, None)
        );
        assert_eq!(function.sriov, Sriov::None);
    }

    #[test]
    fn a_function_below_a_switch_has_the_nearest_upstream_port() {
        for (above, expected) in [
            ("pci0000:80", None),
            ("pci0000:80/0000:80:01.0", None),
            // A bridge on a card: one port more is a switch.
            ("pci0000:80/0000:80:01.0/0000:81:00.0", None),
            (
                "pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:08.0",
                Some("0000:81:00.0"),
            ),
            (
                "pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:08.0/0000:83:00.0/0000:84:10.0",
                Some("0000:83:00.0"),
            ),
            // The functions behind a volume management device have a tree of their own.
            ("pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0", None),
        ] {
            let tree = TestTree::new();
            let function = format!("devices/{above}/0000:90:00.0");
            tree.write(&format!("{function}/vendor"), "0x10de");
            tree.link("bus/pci/devices/0000:90:00.0", &tree.path(&function));
            let found = tree.sysfs().pci_switch(address("0000:90:00.0")).unwrap();
            assert_eq!(found, expected.map(address), "{above}");
        }
        let sysfs = TestTree::new().sysfs();
        assert_eq!(sysfs.pci_switch(address("0000:90:00.0")).unwrap(), None);
    }

    #[test]
    fn a_host_without_pci_has_no_functions() {
        let tree = TestTree::new();
        assert!(tree.sysfs().pci_functions().unwrap().is_empty());
        assert_eq!(
            tree.sysfs().pci_function(address("0000:82:00.0")).unwrap(),
            None
        );
    }

    #[test]
    fn a_function_that_goes_away_is_left_out() {
        let tree = TestTree::new();
        tree.card(CardFixture::gpu("0000:82:00.0", 1));
        tree.card(CardFixture::gpu("0000:83:00.0", 2));
        tree.remove("bus/pci/devices/0000:83:00.0/class");
        assert_eq!(tree.sysfs().pci_functions().unwrap().len(), 1);
    }

    #[test]
    fn nonsense_in_a_file_is_an_error_that_names_the_file() {
        for (file, content) in [
            ("vendor", "10de"),
            ("vendor", "0x110de"),
            ("device", "0xzz"),
            ("class", "0x"),
            ("class", "0x+3"),
            ("numa_node", "-2"),
            ("sriov_totalvfs", "many"),
            ("sriov_totalvfs", ""),
        ] {
            let tree = TestTree::new();
            tree.card(CardFixture::gpu("0000:82:00.0", 1));
            tree.write(&format!("bus/pci/devices/0000:82:00.0/{file}"), content);
            let error = tree.sysfs().pci_functions().unwrap_err().to_string();
            assert!(error.contains(&format!("0000:82:00.0/{file}")), "{error}");
        }
    }

    #[test]
    fn a_directory_that_is_no_address_is_an_error() {
        let tree = TestTree::new();
        tree.write("bus/pci/devices/bogus/vendor", "0x1234");
        let error = tree.sysfs().pci_functions().unwrap_err().to_string();
        assert!(error.contains("bogus"), "{error}");
    }
}
