//! Operations that change a host's devices: binding to VFIO, resetting, creating virtual functions and mediated
//! devices.
//!
//! There is one file per operation: `vfio`, `device_reset`, `sriov`, `vgpu_type`,
//! `mdev_instance`. Each operation first checks what
//! is already done, so it can be repeated after a kill. Errors name the file and how to repair it. Called by the
//! drivers.

use std::sync::Arc;
use std::time::Duration;

use crate::Sysfs;
use crate::attribute::AttributeWrites;
use crate::read::SysfsError;

/// The minimum and maximum interval for polling the effect of a write.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));

/// A device tree that can be read and written.
#[derive(Clone)]
pub struct DeviceTree {
    sysfs: Sysfs,
    attributes: Arc<dyn AttributeWrites>,
    patience: Duration,
}

impl DeviceTree {
    /// Reads through `sysfs` and writes through `attributes`. `patience` is how long to wait for the effect of a write.
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

    /// Polls until `poll` returns a value; `None` at the timeout.
    pub(crate) async fn until<T>(
        &self,
        mut poll: impl FnMut(&Sysfs) -> Result<Option<T>, SysfsError>,
    ) -> Result<Option<T>, SysfsError> {
        let end = tokio::time::Instant::now() + self.patience;
        let mut pause = PAUSE.0;
        loop {
            if let Some(seen) = poll(&self.sysfs)? {
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

impl std::fmt::Debug for DeviceTree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Devices")
            .field("sysfs", &self.sysfs)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}
