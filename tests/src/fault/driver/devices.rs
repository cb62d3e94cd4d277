//! What a driver does with a guest's devices, as effects at its seam.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use berth_fault_injection::{Boundary, Effect, EffectOutcome, Fault};
use berth_virt::{DeviceError, DeviceReset, HostDevice, PreparedDevice, VirtDriver, WantedDevice};

use crate::fault::stage::{Act, Owed};

/// What is done with a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// It is looked at.
    Check,
    /// It is made ready.
    Prepare,
    /// It is taken back.
    Reset,
}

impl Doing {
    const fn call(self) -> &'static str {
        match self {
            Self::Check => "check_device",
            Self::Prepare => "prepare_device",
            Self::Reset => "reset_device",
        }
    }
}

/// Something done with a device, on its way to a driver.
pub(super) struct Handling<'a, D> {
    pub(super) driver: &'a Arc<D>,
    pub(super) doing: Doing,
    pub(super) device: WantedDevice,
}

impl<D: VirtDriver> Handling<'_, D> {
    pub(super) fn crossing(&self) -> Effect {
        let subject = match self.device.host_device() {
            HostDevice::Function(address) => address.to_string(),
            HostDevice::Mdev(uuid) => uuid.to_string(),
        };
        match self.doing {
            Doing::Check => Effect::read(Boundary::Driver, self.doing.call(), subject),
            Doing::Prepare | Doing::Reset => {
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
type Handled = Result<Option<DeviceReset>, DeviceError>;

async fn handle<D: VirtDriver>(driver: &D, doing: Doing, device: &WantedDevice) -> Handled {
    match doing {
        Doing::Check => driver.check_device(device).await.map(|()| None),
        Doing::Prepare => driver.prepare_device(device).await.map(|()| None),
        Doing::Reset => driver.reset_device(device).await.map(Some),
    }
}

impl<D: VirtDriver> Act for Handling<'_, D> {
    type Value = Handled;

    async fn perform(&self) -> Handled {
        handle(self.driver.as_ref(), self.doing, &self.device).await
    }

    fn outcome(&self, done: &Handled) -> EffectOutcome {
        match done {
            Ok(Some(reset)) => EffectOutcome::Done(format!("{reset:?}")),
            Ok(None) => EffectOutcome::Done(String::new()),
            Err(error) => EffectOutcome::Failed(error.to_string()),
        }
    }

    fn instead(&self, fault: Fault) -> Handled {
        Err(match fault {
            Fault::Late => DeviceError::TimedOut {
                device: self.device.host_device(),
                call: self.doing.call(),
                limit: Duration::from_mins(1),
            },
            _ => self.unfinished("input/output error"),
        })
    }

    fn spoilt(&self, done: Handled, fault: Fault) -> Handled {
        match fault {
            // A look answers the same as the one before.
            Fault::Stale => done,
            _ => Err(self.unfinished("the answer was lost")),
        }
    }

    fn later(&self) -> Owed {
        let (driver, doing, device) = (Arc::clone(self.driver), self.doing, self.device.clone());
        // Nobody waits for the result any more.
        Box::pin(async move {
            if doing == Doing::Check {
                return ready(()).await;
            }
            drop(handle(driver.as_ref(), doing, &device).await);
        })
    }
}

/// A look at what was made ready.
pub(super) struct Prepared<'a, D>(pub(super) &'a Arc<D>);

impl<D: VirtDriver> Act for Prepared<'_, D> {
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

    fn instead(&self, _: Fault) -> Self::Value {
        let reason = "input/output error".to_owned();
        Err(DeviceError::Unseen { reason })
    }

    fn spoilt(&self, told: Self::Value, fault: Fault) -> Self::Value {
        match fault {
            Fault::Stale => told,
            other => self.instead(other),
        }
    }

    fn later(&self) -> Owed {
        Box::pin(ready(()))
    }
}
