//! Reads mediated devices: the supported types of a parent with their availability, and the existing devices.

use std::path::Path;

use uuid::Uuid;

use crate::Sysfs;
use crate::read::{self, SysfsError};

/// A device that supports mediated devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MdevParent {
    /// The kernel's name: a PCI address such as `0000:84:00.0`, or a name such as `mtty` of a device that is not PCI.
    pub name: String,
    /// The supported types by id.
    pub types: Vec<MdevType>,
}

/// A type of mediated device that a parent supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MdevType {
    /// The id, for example `nvidia-222`.
    pub id: String,
    /// The vendor's name for it, if provided.
    pub name: Option<String>,
    /// How many more can be created now. Types may share a pool, so creating one can lower the value of another.
    pub available_instances: u32,
    /// The API that guests see, for example `vfio-pci`.
    pub device_api: String,
    /// The vendor's description, if provided.
    pub description: Option<String>,
}

/// A mediated device that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MdevDevice {
    pub uuid: Uuid,
    /// The id of its type.
    pub type_id: String,
    /// The kernel's name of its parent, as in [`MdevParent::name`].
    pub parent: String,
}

impl Sysfs {
    /// All parents with their types, by name; empty if no driver supports mediated devices.
    pub fn mdev_parents(&self) -> Result<Vec<MdevParent>, SysfsError> {
        let directory = self.root().join("class/mdev_bus");
        let mut parents = Vec::new();
        for name in read::names(&directory)? {
            let types = mdev_types(&directory.join(&name).join("mdev_supported_types"))?;
            parents.push(MdevParent { name, types });
        }
        Ok(parents)
    }

    /// All mediated devices by UUID.
    ///
    /// Errors: [`SysfsError`] with the file. A device that disappears while it is read is omitted.
    pub fn mdev_devices(&self) -> Result<Vec<MdevDevice>, SysfsError> {
        let directory = self.root().join("bus/mdev/devices");
        let mut devices = Vec::new();
        for name in read::names(&directory)? {
            let uuid = Uuid::parse_str(&name).map_err(|_| {
                SysfsError::malformed(&directory, &name, "directories named by UUID")
            })?;
            devices.extend(mdev_device(&directory.join(&name), uuid)?);
        }
        devices.sort_unstable_by_key(|device| device.uuid);
        Ok(devices)
    }
}

fn mdev_types(directory: &Path) -> Result<Vec<MdevType>, SysfsError> {
    let mut types = Vec::new();
    for id in read::names(directory)? {
        types.extend(mdev_type(&directory.join(&id), id)?);
    }
    Ok(types)
}

/// `None` if the type disappeared with its parent's driver.
fn mdev_type(at: &Path, id: String) -> Result<Option<MdevType>, SysfsError> {
    let available = read::value(&at.join("available_instances"), "a count", read::decimal)?;
    let (Some(available_instances), Some(device_api)) =
        (available, read::text(&at.join("device_api"))?)
    else {
        return Ok(None);
    };
    let optional = |file: &str| {
        let text = read::text(&at.join(file))?;
        Ok(text.filter(|text| !text.is_empty()))
    };
    Ok(Some(MdevType {
        id,
        name: optional("name")?,
        available_instances,
        device_api,
        description: optional("description")?,
    }))
}

/// The device is a directory in its parent's directory; the bus has only a link to it.
fn mdev_device(link: &Path, uuid: Uuid) -> Result<Option<MdevDevice>, SysfsError> {
    let (Some(directory), Some(type_id)) = (
        read::resolved(link)?,
        read::link_name(&link.join("mdev_type"))?,
    ) else {
        return Ok(None);
    };
    let parent = directory.parent().and_then(Path::file_name);
    let Some(parent) = parent.and_then(|name| name.to_str()) else {
        return Err(SysfsError::malformed(
            link,
            &directory.display().to_string(),
            "a directory inside its parent's",
        ));
    };
    Ok(Some(MdevDevice {
        uuid,
        type_id,
        parent: parent.to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{CardFixture, TestTree};

    const UUID: &str = "4b20d080-1b54-4048-85b3-a6a62d165c01";

    fn with_types() -> TestTree {
        let tree = TestTree::new();
        tree.card(CardFixture::gpu("0000:81:00.0", 12));
        tree.mdev_type("0000:81:00.0", "nvidia-222", "GRID T4-1B", 15);
        tree.mdev_type("0000:81:00.0", "nvidia-223", "GRID T4-2B", 7);
        tree
    }

    #[test]
    fn a_parent_offers_types_with_what_is_left_of_each() {
        let parents = with_types().sysfs().mdev_parents().unwrap();
        assert_eq!(parents.len(), 1);
        assert_eq!(parents[0].name, "0000:81:00.0");
        assert_eq!(
            parents[0].types[0],
            MdevType {
                id: "nvidia-222".to_owned(),
                name: Some("GRID T4-1B".to_owned()),
                available_instances: 15,
                device_api: "vfio-pci".to_owned(),
                description: None,
            }
        );
        assert_eq!(parents[0].types[1].id, "nvidia-223");
    }

    #[test]
    fn an_instance_knows_its_type_and_parent() {
        let tree = with_types();
        tree.mdev("0000:81:00.0", "nvidia-222", UUID);
        assert_eq!(
            tree.sysfs().mdev_devices().unwrap(),
            [MdevDevice {
                uuid: Uuid::parse_str(UUID).unwrap(),
                type_id: "nvidia-222".to_owned(),
                parent: "0000:81:00.0".to_owned(),
            }]
        );
    }

    #[test]
    fn an_instance_whose_directory_is_gone_is_left_out() {
        let tree = with_types();
        tree.mdev("0000:81:00.0", "nvidia-222", UUID);
        tree.remove_directory(&format!("devices/pci0000:80/0000:81:00.0/{UUID}"));
        assert!(tree.sysfs().mdev_devices().unwrap().is_empty());
    }

    #[test]
    fn nonsense_is_an_error_that_names_the_file() {
        let tree = with_types();
        tree.write(
            "class/mdev_bus/0000:81:00.0/mdev_supported_types/nvidia-222/available_instances",
            "-1",
        );
        let error = tree.sysfs().mdev_parents().unwrap_err().to_string();
        assert!(
            error.contains("nvidia-222/available_instances") && error.contains("\"-1\""),
            "{error}"
        );
        tree.write("bus/mdev/devices/not-a-uuid/x", "");
        let error = tree.sysfs().mdev_devices().unwrap_err().to_string();
        assert!(error.contains("not-a-uuid"), "{error}");
    }
}
