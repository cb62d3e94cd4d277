//! The driver seam: any virt driver with a gate before it.

mod devices;
mod guests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_fault_injection::{Boundary, Effect, EffectOutcome, Fault};
use berth_model::{Allocation, Allocations, ConsumerUuid, Desired, Homes, NodeName, ProviderTree};
use berth_virt::guest_spec::GuestSpec;
use berth_virt::{
    Destroyed, DeviceError, DeviceReset, GuestError, HostEvents, HostView, ObserveError,
    PowerAction, Powered, PreparedDevice, ProviderTreeError, Spawned, Trees, VirtDriver,
    WantedDevice,
};
use devices::{Doing, Handling, Prepared};
use guests::{Change, Changed, Changing, Guests, Listing};

use super::Stage;
use super::stage::{Act, Owed};

/// A driver whose observations and changes of guests cross a stage's gate. What it decides purely, it decides unseen.
pub struct GatedDriver<D> {
    inner: Arc<D>,
    stage: Stage,
    last: Mutex<Option<HostView>>,
    last_guests: Mutex<Option<Guests>>,
}

impl<D> GatedDriver<D> {
    /// The driver behind the stage's gate. `before` is what was seen the time before, for a stale look.
    pub fn around(inner: Arc<D>, stage: &Stage, before: Option<HostView>) -> Self {
        Self {
            inner,
            stage: stage.clone(),
            last: Mutex::new(before),
            last_guests: Mutex::default(),
        }
    }
}

impl<D: VirtDriver> GatedDriver<D> {
    async fn change(&self, change: Change) -> Result<Changed, GuestError> {
        let crossing = Effect::write(Boundary::Driver, change.call(), change.subject());
        let changing = Changing {
            driver: &self.inner,
            change,
        };
        self.stage.cross(&crossing, &changing).await
    }

    async fn handle(
        &self,
        doing: Doing,
        device: &WantedDevice,
    ) -> Result<Option<DeviceReset>, DeviceError> {
        let handling = Handling {
            driver: &self.inner,
            doing,
            device: device.clone(),
        };
        self.stage.cross(&handling.crossing(), &handling).await
    }
}

impl<D: VirtDriver> VirtDriver for GatedDriver<D> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        let crossing = Effect::read(Boundary::Driver, "observe", "");
        let look = Look {
            driver: self,
            before: Mutex::default(),
        };
        self.stage.cross(&crossing, &look).await
    }

    async fn spawn(&self, spec: &GuestSpec) -> Result<Spawned, GuestError> {
        match self.change(Change::Spawn(Box::new(spec.clone()))).await? {
            Changed::Spawned(spawned) => Ok(spawned),
            other => panic!("a spawn came back as {other:?}"),
        }
    }

    async fn destroy(&self, uuid: ConsumerUuid) -> Result<Destroyed, GuestError> {
        match self.change(Change::Destroy(uuid)).await? {
            Changed::Destroyed(destroyed) => Ok(destroyed),
            other => panic!("a destroy came back as {other:?}"),
        }
    }

    async fn guests(&self) -> Result<Guests, GuestError> {
        let last = || {
            let last = self.last_guests.lock();
            last.unwrap_or_else(PoisonError::into_inner)
        };
        let listing = Listing {
            driver: self.inner.as_ref(),
            before: last().clone(),
        };
        let crossing = Effect::read(Boundary::Driver, "guests", "");
        let listed = self.stage.cross(&crossing, &listing).await?;
        *last() = Some(listed.clone());
        Ok(listed)
    }

    async fn power(&self, uuid: ConsumerUuid, action: PowerAction) -> Result<Powered, GuestError> {
        match self.change(Change::Power(uuid, action)).await? {
            Changed::Powered(powered) => Ok(powered),
            other => panic!("a power action came back as {other:?}"),
        }
    }

    async fn check_device(&self, device: &WantedDevice) -> Result<(), DeviceError> {
        self.handle(Doing::Check, device).await.map(drop)
    }

    async fn prepare_device(&self, device: &WantedDevice) -> Result<(), DeviceError> {
        self.handle(Doing::Prepare, device).await.map(drop)
    }

    async fn reset_device(&self, device: &WantedDevice) -> Result<DeviceReset, DeviceError> {
        match self.handle(Doing::Reset, device).await? {
            Some(reset) => Ok(reset),
            None => panic!("a reset came back without a word"),
        }
    }

    async fn prepared_devices(&self) -> Result<Vec<PreparedDevice>, DeviceError> {
        let crossing = Effect::read(Boundary::Driver, "prepared_devices", "");
        let look = Prepared(&self.inner);
        self.stage.cross(&crossing, &look).await
    }

    fn watch(&self) -> HostEvents {
        self.inner.watch()
    }

    fn update_provider_tree(
        &self,
        view: &HostView,
        current: &ProviderTree,
        node: &NodeName,
    ) -> Result<Desired, ProviderTreeError> {
        self.inner.update_provider_tree(view, current, node)
    }

    fn homes(
        &self,
        view: &HostView,
        node: &NodeName,
        trees: Trees<'_>,
        allocation: &Allocation,
        all: &Allocations,
    ) -> Homes {
        self.inner.homes(view, node, trees, allocation, all)
    }
}

struct Look<'a, D> {
    driver: &'a GatedDriver<D>,
    before: Mutex<Option<HostView>>,
}

impl<D: VirtDriver> Act for Look<'_, D> {
    type Value = Result<HostView, ObserveError>;

    async fn perform(&self) -> Self::Value {
        let view = self.driver.inner.observe().await?;
        let mut last = self
            .driver
            .last
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let before = last.replace(view.clone());
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = before;
        Ok(view)
    }

    fn outcome(&self, seen: &Self::Value) -> EffectOutcome {
        match seen {
            Ok(view) => EffectOutcome::Done(format!("{} nodes", view.nodes.len())),
            Err(error) => EffectOutcome::Failed(error.to_string()),
        }
    }

    fn instead(&self, fault: Fault) -> Self::Value {
        Err(match fault {
            Fault::Late => ObserveError::TimedOut {
                target: "test".to_owned(),
                call: "observe",
                limit: Duration::from_mins(1),
            },
            _ => away("connection refused"),
        })
    }

    fn spoilt(&self, seen: Self::Value, fault: Fault) -> Self::Value {
        match fault {
            Fault::Stale => {
                let before = self
                    .before
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take();
                before.map_or(seen, Ok)
            }
            _ => Err(away("the connection was lost")),
        }
    }

    fn later(&self) -> Owed {
        // Looking later changes nothing.
        Box::pin(std::future::ready(()))
    }
}

fn away(reason: &str) -> ObserveError {
    ObserveError::Unreachable {
        target: "test".to_owned(),
        reason: reason.to_owned(),
    }
}
