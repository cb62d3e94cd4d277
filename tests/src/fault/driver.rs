//! Fault injection for the virt driver: any driver with a gate in front of it.

mod devices;
mod guests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_fault_injection::{Boundary, Effect, EffectOutcome, Fault};
use berth_model::{
    Allocation, Allocations, ConsumerUuid, DesiredTree, Homes, NodeName, ProviderTree,
};
use berth_virt::guest_spec::GuestSpec;
use berth_virt::{
    DeviceError, DeviceReset, GuestDestroyOutcome, GuestError, GuestPowerOutcome,
    GuestSpawnOutcome, HostEvents, HostView, ObserveError, PowerAction, PreparedDevice,
    ProviderTreeError, TreePair, VirtDriver, WantedDevice,
};
use devices::{DeviceAction, DeviceActionCall, PreparedDevicesCall};
use guests::{GuestChange, GuestChangeCall, GuestChangeResult, Guests, Listing};

use super::FaultStage;
use super::stage::{AbandonedEffect, EffectAction};

/// A driver with observations and guest changes that pass a stage's gate. Its pure decisions do not.
pub struct GatedDriver<D> {
    inner: Arc<D>,
    stage: FaultStage,
    last: Mutex<Option<HostView>>,
    last_guests: Mutex<Option<Guests>>,
}

impl<D> GatedDriver<D> {
    /// The driver behind the stage's gate. `before` is what was seen the time before, for a stale look.
    pub fn around(inner: Arc<D>, stage: &FaultStage, before: Option<HostView>) -> Self {
        Self {
            inner,
            stage: stage.clone(),
            last: Mutex::new(before),
            last_guests: Mutex::default(),
        }
    }
}

impl<D: VirtDriver> GatedDriver<D> {
    async fn change(&self, change: GuestChange) -> Result<GuestChangeResult, GuestError> {
        let crossing = Effect::write(Boundary::Driver, change.call(), change.subject());
        let changing = GuestChangeCall {
            driver: &self.inner,
            change,
        };
        self.stage.cross(&crossing, &changing).await
    }

    async fn handle(
        &self,
        doing: DeviceAction,
        device: &WantedDevice,
    ) -> Result<Option<DeviceReset>, DeviceError> {
        let handling = DeviceActionCall {
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
        let look = ObserveCall {
            driver: self,
            before: Mutex::default(),
        };
        self.stage.cross(&crossing, &look).await
    }

    async fn spawn(&self, spec: &GuestSpec) -> Result<GuestSpawnOutcome, GuestError> {
        match self
            .change(GuestChange::Spawn(Box::new(spec.clone())))
            .await?
        {
            GuestChangeResult::Spawned(spawned) => Ok(spawned),
            other => panic!("a spawn came back as {other:?}"),
        }
    }

    async fn destroy(&self, uuid: ConsumerUuid) -> Result<GuestDestroyOutcome, GuestError> {
        match self.change(GuestChange::Destroy(uuid)).await? {
            GuestChangeResult::Destroyed(destroyed) => Ok(destroyed),
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

    async fn power(
        &self,
        uuid: ConsumerUuid,
        action: PowerAction,
    ) -> Result<GuestPowerOutcome, GuestError> {
        match self.change(GuestChange::Power(uuid, action)).await? {
            GuestChangeResult::Powered(powered) => Ok(powered),
            other => panic!("a power action came back as {other:?}"),
        }
    }

    async fn check_device(&self, device: &WantedDevice) -> Result<(), DeviceError> {
        self.handle(DeviceAction::Check, device).await.map(drop)
    }

    async fn prepare_device(&self, device: &WantedDevice) -> Result<(), DeviceError> {
        self.handle(DeviceAction::Prepare, device).await.map(drop)
    }

    async fn reset_device(&self, device: &WantedDevice) -> Result<DeviceReset, DeviceError> {
        match self.handle(DeviceAction::Reset, device).await? {
            Some(reset) => Ok(reset),
            None => panic!("a reset returned no result"),
        }
    }

    async fn prepared_devices(&self) -> Result<Vec<PreparedDevice>, DeviceError> {
        let crossing = Effect::read(Boundary::Driver, "prepared_devices", "");
        let look = PreparedDevicesCall(&self.inner);
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
    ) -> Result<DesiredTree, ProviderTreeError> {
        self.inner.update_provider_tree(view, current, node)
    }

    fn homes(
        &self,
        view: &HostView,
        node: &NodeName,
        trees: TreePair<'_>,
        allocation: &Allocation,
        all: &Allocations,
    ) -> Homes {
        self.inner.homes(view, node, trees, allocation, all)
    }
}

struct ObserveCall<'a, D> {
    driver: &'a GatedDriver<D>,
    before: Mutex<Option<HostView>>,
}

impl<D: VirtDriver> EffectAction for ObserveCall<'_, D> {
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

    fn result_if_prevented(&self, fault: Fault) -> Self::Value {
        Err(match fault {
            Fault::Late => ObserveError::TimedOut {
                target: "test".to_owned(),
                call: "observe",
                limit: Duration::from_mins(1),
            },
            _ => away("connection refused"),
        })
    }

    fn result_if_failed_after(&self, seen: Self::Value, fault: Fault) -> Self::Value {
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

    fn detached(&self) -> AbandonedEffect {
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
