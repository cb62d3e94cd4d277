//! The devices of a host, to be acted on: bound to VFIO, reset, parted.
//!
//! One file per thing that is done to them: `vfio`, `device_reset`, `sriov`, `mdev_instance`. Each first looks whether it is
//! done already, so it can be called again after a kill at any point; each tells the file and the mend where it fails.
//! Called by the drivers and, through them, by the agent's journeys.

use std::sync::Arc;
use std::time::Duration;

use crate::Sysfs;
use crate::attribute::AttributeWrites;
use crate::read::SysfsError;

/// The shortest and the longest pause between two looks for what the kernel makes of a write.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));

/// A device tree that can be read and written.
#[derive(Clone)]
pub struct Devices {
    sysfs: Sysfs,
    attributes: Arc<dyn AttributeWrites>,
    patience: Duration,
}

impl Devices {
    /// The tree, read as `sysfs` and written through `attributes`. `patience`: how long the kernel may take after a write
    /// until what was asked for is seen.
    #[must_use]
    pub fn new(sysfs: Sysfs, attributes: Arc<dyn AttributeWrites>, patience: Duration) -> Self {
        Self {
            sysfs,
            attributes,
            patience,
        }
    }

    /// The tree, to be read.
    #[must_use]
    pub fn sysfs(&self) -> &Sysfs {
        &self.sysfs
    }

    pub(crate) async fn write(
        &self,
        name: &str,
        content: &str,
    ) -> Result<(), crate::AttributeError> {
        self.attributes.write(name, content).await
    }

    /// Looks until `look` sees something or the patience ends; `None` then.
    pub(crate) async fn until<T>(
        &self,
        mut look: impl FnMut(&Sysfs) -> Result<Option<T>, SysfsError>,
    ) -> Result<Option<T>, SysfsError> {
        let end = tokio::time::Instant::now() + self.patience;
        let mut pause = PAUSE.0;
        loop {
            if let Some(seen) = look(&self.sysfs)? {
                return Ok(Some(seen));
            }
            if tokio::time::Instant::now() >= end {
                return Ok(None);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }
}

impl std::fmt::Debug for Devices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Devices")
            .field("sysfs", &self.sysfs)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}
