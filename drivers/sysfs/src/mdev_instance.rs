//! Creates and removes mediated devices.

use berth_model::Disposition;
use uuid::Uuid;

use crate::attribute::AttributeError;
use crate::devices::DeviceTree;
use crate::mdev::MdevDevice;
use crate::read::SysfsError;

/// The outcome of [`DeviceTree::create_mdev`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MdevMade {
    Made,
    /// It already existed, with the same type and parent.
    AlreadyThere,
}

/// The outcome of [`DeviceTree::remove_mdev`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MdevRemoved {
    Removed,
    NotThere,
}

/// Why a mediated device is not as wanted.
#[derive(Debug, thiserror::Error)]
pub enum MdevError {
    /// No driver offers mediated devices there.
    #[error("{parent} offers no mediated devices; is its vendor's driver loaded?")]
    NoParent { parent: String },
    /// The parent knows no such type.
    #[error("{parent} offers no mediated devices of type {type_id}; it offers: {offered}")]
    NoType {
        parent: String,
        type_id: String,
        offered: String,
    },
    /// The parent has none left.
    #[error("{parent} has no mediated device of type {type_id} left (available_instances is 0)")]
    NoneLeft { parent: String, type_id: String },
    /// Another one has the UUID.
    #[error(
        "mediated device {uuid} exists as {found_type} of {found_parent} instead of {wanted_type} of {wanted_parent}"
    )]
    Another {
        uuid: Uuid,
        found_type: String,
        found_parent: String,
        wanted_type: String,
        wanted_parent: String,
    },
    /// The kernel accepted the write, but it had no effect.
    #[error("mediated device {uuid} {}, although the kernel accepted the write; its log says why (dmesg)", if *.there { "still exists" } else { "does not exist" })]
    NotDone {
        uuid: Uuid,
        /// Whether the device exists.
        there: bool,
    },
    #[error("mediated device {uuid} was not changed")]
    Write {
        uuid: Uuid,
        #[source]
        source: AttributeError,
    },
    /// The tree could not be read.
    #[error(transparent)]
    Sysfs(#[from] SysfsError),
}

impl MdevError {
    /// Errors that an operator must repair are fatal. A lack of available devices may be over at the next observation.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            MdevError::NoParent { .. } | MdevError::NoType { .. } | MdevError::Another { .. } => {
                Disposition::Fatal
            }
            MdevError::NoneLeft { .. } => Disposition::Refresh,
            MdevError::NotDone { .. } | MdevError::Write { .. } | MdevError::Sysfs(_) => {
                Disposition::Retry
            }
        }
    }
}

impl DeviceTree {
    /// Creates a mediated device with a type of a parent (by the kernel's name, usually a PCI address).
    pub async fn create_mdev(
        &self,
        parent: &str,
        type_id: &str,
        uuid: Uuid,
    ) -> Result<MdevMade, MdevError> {
        if let Some(found) = self.mdev(uuid)? {
            return same(&found, parent, type_id);
        }
        let parents = self.sysfs().mdev_parents()?;
        // Compares names and never joins paths: the request may come over the network.
        let Some(known) = parents.iter().find(|known| known.name == parent) else {
            let parent = parent.chars().take(80).collect();
            return Err(MdevError::NoParent { parent });
        };
        let Some(kind) = known.types.iter().find(|kind| kind.id == type_id) else {
            let offered: Vec<_> = known.types.iter().map(|kind| kind.id.as_str()).collect();
            return Err(MdevError::NoType {
                parent: parent.to_owned(),
                type_id: type_id.chars().take(80).collect(),
                offered: offered.join(" "),
            });
        };
        if kind.available_instances == 0 {
            return Err(MdevError::NoneLeft {
                parent: parent.to_owned(),
                type_id: type_id.to_owned(),
            });
        }
        let name = format!("class/mdev_bus/{parent}/mdev_supported_types/{type_id}/create");
        self.write(&name, &uuid.hyphenated().to_string())
            .await
            .map_err(|source| MdevError::Write { uuid, source })?;
        match self.until(|sysfs| mdev_of(sysfs, uuid)).await? {
            Some(found) => same(&found, parent, type_id).map(|_| MdevMade::Made),
            None => Err(MdevError::NotDone { uuid, there: false }),
        }
    }

    /// Removes a mediated device that no guest has. (The kernel refuses while one has.)
    pub async fn remove_mdev(&self, uuid: Uuid) -> Result<MdevRemoved, MdevError> {
        if self.mdev(uuid)?.is_none() {
            return Ok(MdevRemoved::NotThere);
        }
        let name = format!("bus/mdev/devices/{}/remove", uuid.hyphenated());
        match self.write(&name, "1").await {
            Ok(()) => {}
            // It was removed with its parent concurrently.
            Err(AttributeError::Missing { .. }) if self.mdev(uuid)?.is_none() => {
                return Ok(MdevRemoved::NotThere);
            }
            Err(source) => return Err(MdevError::Write { uuid, source }),
        }
        let gone = |sysfs: &crate::Sysfs| Ok(mdev_of(sysfs, uuid)?.is_none().then_some(()));
        match self.until(gone).await? {
            Some(()) => Ok(MdevRemoved::Removed),
            None => Err(MdevError::NotDone { uuid, there: true }),
        }
    }

    fn mdev(&self, uuid: Uuid) -> Result<Option<MdevDevice>, SysfsError> {
        mdev_of(self.sysfs(), uuid)
    }
}

fn mdev_of(sysfs: &crate::Sysfs, uuid: Uuid) -> Result<Option<MdevDevice>, SysfsError> {
    let mut devices = sysfs.mdev_devices()?.into_iter();
    Ok(devices.find(|device| device.uuid == uuid))
}

fn same(found: &MdevDevice, parent: &str, type_id: &str) -> Result<MdevMade, MdevError> {
    if found.parent == parent && found.type_id == type_id {
        return Ok(MdevMade::AlreadyThere);
    }
    Err(MdevError::Another {
        uuid: found.uuid,
        found_type: found.type_id.clone(),
        found_parent: found.parent.clone(),
        wanted_type: type_id.chars().take(80).collect(),
        wanted_parent: parent.chars().take(80).collect(),
    })
}

#[cfg(test)]
mod tests;
