//! A driver's actions on the devices of guests, as effects.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use berth_fault_injection::{Boundary, Effect, EffectOutcome, Fault};
use berth_virt::{
    DeviceError, DeviceReset, HostDeviceId, PreparedDevice, VirtDriver, WantedDevice,
};

use crate::fault::stage::{AbandonedEffect, EffectAction};

/// What is done with a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeviceAction {
    /// It is looked at.
    Check,
    /// It is made ready.
    Prepare,
    /// The device is reset after its guest.
    Reset,
}

impl DeviceAction {
    const fn call(self) -> &'static str {
        match self {
            Self::Check => "check_device",
            Self::Prepare => "prepare_device",
            Self::Reset => "reset_device",
        }
    }
}

/// Something done with a device, on its way to a driver.
pub(super) struct DeviceActionCall<'a, D> {
    pub(super) driver: &'a Arc<D>,
    pub(super) doing: DeviceAction,
    pub(super) device: WantedDevice,
}

impl<D: VirtDriver> DeviceActionCall<'_, D> {
    pub(super) fn crossing(&self) -> Effect {
        let subject = match self.device.host_device() {
            HostDeviceId::Function(address) => address.to_string(),
            HostDeviceId::Mdev(uuid) => uuid.to_string(),
        };
        match self.doing {
            DeviceAction::Check => Effect::read(Boundary::Driver, self.doing.call(), subject),
            DeviceAction::Prepare | DeviceAction::Reset => {
                Effect::write(Boundary::Driver, self.doing.call(), subject)
            }
        }
    }

    fn unfinished(&self, reason: &str) -> DeviceError {
        DeviceError::Unfinished {
            device: self.device.host_device(),
            call: self.doing.call(),
            reason: reason.to_owned(),
        }
    }
}

/// What a check and a preparation answer too: there is nothing to say of a reset.
type DeviceActionResult = Result<Option<DeviceReset>, DeviceError>;

async fn handle<D: VirtDriver>(
    driver: &D,
    doing: DeviceAction,
    device: &WantedDevice,
) -> DeviceActionResult {
    match doing {
        DeviceAction::Check => driver.check_device(device).await.map(|()| None),
        DeviceAction::Prepare => driver.prepare_device(device).await.map(|()| None),
        DeviceAction::Reset => driver.reset_device(device).await.map(Some),
    }
}

impl<D: VirtDriver> EffectAction for DeviceActionCall<'_, D> {
    type Value = DeviceActionResult;

    async fn perform(&self) -> DeviceActionResult {
        handle(self.driver.as_ref(), self.doing, &self.device).await
    }

    fn outcome(&self, done: &DeviceActionResult) -> EffectOutcome {
        match done {
            Ok(Some(reset)) => EffectOutcome::Done(format!("{reset:?}")),
            Ok(None) => EffectOutcome::Done(String::new()),
            Err(error) => EffectOutcome::Failed(error.to_string()),
        }
    }

    fn result_if_prevented(&self, fault: Fault) -> DeviceActionResult {
        Err(match fault {
            Fault::Late => DeviceError::TimedOut {
                device: self.device.host_device(),
                call: self.doing.call(),
                limit: Duration::from_mins(1),
            },
            _ => self.unfinished("input/output error"),
        })
    }

    fn result_if_failed_after(&self, done: DeviceActionResult, fault: Fault) -> DeviceActionResult {
        match fault {
            // A look answers the same as the one before.
            Fault::Stale => done,
            _ => Err(self.unfinished("the answer was lost")),
        }
    }

    fn detached(&self) -> AbandonedEffect {
        let (driver, doing, device) = (Arc::clone(self.driver), self.doing, self.device.clone());
        // The caller no longer waits for the result.
        Box::pin(async move {
            if doing == DeviceAction::Check {
                return ready(()).await;
            }
            drop(handle(driver.as_ref(), doing, &device).await);
        })
    }
}

/// An observation of the prepared devices.
pub(super) struct PreparedDevicesCall<'a, D>(pub(super) &'a Arc<D>);

impl<D: VirtDriver> EffectAction for PreparedDevicesCall<'_, D> {
    type Value = Result<Vec<PreparedDevice>, DeviceError>;

    async fn perform(&self) -> Self::Value {
        self.0.prepared_devices().await
    }

    fn outcome(&self, told: &Self::Value) -> EffectOutcome {
        match told {
            Ok(devices) => EffectOutcome::Done(format!("{} devices", devices.len())),
            Err(error) => EffectOutcome::Failed(error.to_string()),
        }
    }

    fn result_if_prevented(&self, _: Fault) -> Self::Value {
        let reason = "input/output error".to_owned();
        Err(DeviceError::Unseen { reason })
    }

    fn result_if_failed_after(&self, told: Self::Value, fault: Fault) -> Self::Value {
        match fault {
            Fault::Stale => told,
            other => self.result_if_prevented(other),
        }
    }

    fn detached(&self) -> AbandonedEffect {
        Box::pin(ready(()))
    }
}
