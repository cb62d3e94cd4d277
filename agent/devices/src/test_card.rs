//! [`TestCard`]: a driver with one accelerator card, for tests of this crate and of `berth-agent-instances`. Each reset
//! returns a given result, and prepared devices remain until a reset succeeds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use berth_agent_journal::{DeviceRegister, SqlJournal};
use berth_model::{ConsumerUuid, ResourceClass};
use berth_store::Statement;
use berth_virt::guest_spec::GuestDevice;
use berth_virt::{
    DeviceCondition, DeviceError, DeviceOwner, DeviceReset, DeviceType, GuestError, GuestOnHost,
    HostEvents, HostView, ObserveError, OfferedDevice, OfferedHandle, PreparedDevice, VirtDriver,
    WantedDevice,
};
use futures_util::future::BoxFuture;
use uuid::Uuid;

use crate::devices::{DeviceManager, DeviceManagerParts, DeviceOptions};

type Reset = dyn Fn() -> BoxFuture<'static, Result<(), DeviceError>> + Send + Sync;

pub struct TestCard {
    reset: Box<Reset>,
    /// The existing mediated devices.
    pub mdevs: Mutex<BTreeSet<Uuid>>,
    pub prepared: Mutex<Vec<PreparedDevice>>,
}

impl TestCard {
    /// A driver whose resets return the result of `reset`.
    pub fn resetting(
        reset: impl Fn() -> BoxFuture<'static, Result<(), DeviceError>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            reset: Box::new(reset),
            mdevs: Mutex::default(),
            prepared: Mutex::default(),
        }
    }
}

impl VirtDriver for TestCard {
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
        prepared.retain(|device| device.wanted.device != wanted.device);
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

/// The address of the card.
pub const NAME: &str = "0000:81:00.0";

/// Executes an SQL statement on the tables of the register.
pub async fn done(register: &DeviceRegister, sql: &'static str) {
    register.execute(vec![Statement::new(sql)]).await.unwrap();
}

/// A device manager with a test driver. The driver executes this SQL statement on the register during each reset.
/// `SELECT 1` changes nothing.
pub async fn devices(meanwhile: &'static str) -> (DeviceRegister, DeviceManager<TestCard>) {
    let journal = SqlJournal::in_memory().await.unwrap();
    let register = journal.devices();
    let corrupt = register.clone();
    let card = TestCard::resetting(move || {
        let register = corrupt.clone();
        Box::pin(async move {
            done(&register, meanwhile).await;
            Ok(())
        })
    });
    let parts = DeviceManagerParts {
        driver: Arc::new(card),
        register: register.clone(),
        journal: Arc::new(journal),
        service: None,
        options: DeviceOptions::default(),
    };
    (register, DeviceManager::open(parts).await.unwrap())
}

pub fn mdev(number: u128) -> OfferedHandle {
    OfferedHandle::Mdev {
        uuid: Uuid::from_u128(number),
        parent: NAME.parse().unwrap(),
        mdev_type: "nvidia-35".to_owned(),
    }
}

pub fn uuid(handle: &OfferedHandle) -> Uuid {
    match handle {
        OfferedHandle::Mdev { uuid, .. } => *uuid,
        OfferedHandle::Function(_) => unreachable!("a mediated device is expected"),
    }
}

pub fn offered(handles: Vec<OfferedHandle>) -> OfferedDevice {
    OfferedDevice {
        address: NAME.parse().unwrap(),
        vendor_id: 0x10de,
        product_id: 0x1eb8,
        owner: DeviceOwner::Accelerator,
        device_type: DeviceType::Gpu,
        model: None,
        numa_node: None,
        physical_network: None,
        network_functions: BTreeMap::new(),
        class: ResourceClass::VGPU,
        class_origin: berth_virt::ClassOrigin::Configured,
        traits: BTreeSet::new(),
        handles,
        unit: berth_virt::DeviceUnit::Handle,
        unfit_handles: BTreeSet::new(),
        link_group: None,
        one_time_use: false,
        condition: DeviceCondition::Fit,
    }
}
