//! A host for tests of what is done with devices: each reset comes to what it is told to, and what was made ready is there until one
//! succeeds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use berth_model::ConsumerUuid;
use berth_virt::guest_spec::GuestDevice;
use berth_virt::{
    DeviceError, DeviceReset, GuestError, GuestOnHost, HostEvents, HostView, ObserveError,
    PreparedDevice, VirtDriver, WantedDevice,
};
use futures_util::future::BoxFuture;
use uuid::Uuid;

type Reset = dyn Fn() -> BoxFuture<'static, Result<(), DeviceError>> + Send + Sync;

pub(crate) struct Card {
    reset: Box<Reset>,
    /// Which mediated devices are there.
    pub(crate) mdevs: Mutex<BTreeSet<Uuid>>,
    /// What was made ready.
    pub(crate) prepared: Mutex<Vec<PreparedDevice>>,
}

impl Card {
    /// One each of whose resets comes to this.
    pub(crate) fn resetting(
        reset: impl Fn() -> BoxFuture<'static, Result<(), DeviceError>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            reset: Box::new(reset),
            mdevs: Mutex::default(),
            prepared: Mutex::default(),
        }
    }
}

impl VirtDriver for Card {
    fn name(&self) -> &'static str {
        "card"
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        std::future::pending().await
    }

    fn watch(&self) -> HostEvents {
        Box::pin(futures_util::stream::pending())
    }

    async fn guests(&self) -> Result<BTreeMap<ConsumerUuid, GuestOnHost>, GuestError> {
        Ok(BTreeMap::new())
    }

    async fn prepared_devices(&self) -> Result<Vec<PreparedDevice>, DeviceError> {
        Ok(self.prepared.lock().unwrap().clone())
    }

    async fn reset_device(&self, wanted: &WantedDevice) -> Result<DeviceReset, DeviceError> {
        (self.reset)().await?;
        let mut prepared = self.prepared.lock().unwrap();
        prepared.retain(|it| it.wanted.device != wanted.device);
        if let GuestDevice::Mdev { uuid, .. } = &wanted.device {
            let was_there = self.mdevs.lock().unwrap().remove(uuid);
            return Ok(match was_there {
                true => DeviceReset::Removed,
                false => DeviceReset::NotThere,
            });
        }
        Ok(DeviceReset::Reset { driver: None })
    }
}
