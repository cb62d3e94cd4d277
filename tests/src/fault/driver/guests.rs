//! A driver's actions on guests, as effects.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use berth_fault_injection::{EffectOutcome, Fault};
use berth_model::ConsumerUuid;
use berth_virt::guest_spec::GuestSpec;
use berth_virt::{
    GuestDestroyOutcome, GuestError, GuestOnHost, GuestPowerOutcome, GuestSpawnOutcome,
    PowerAction, VirtDriver,
};

use crate::fault::stage::{AbandonedEffect, EffectAction};

/// A change of a guest.
#[derive(Clone)]
pub(super) enum GuestChange {
    Spawn(Box<GuestSpec>),
    Destroy(ConsumerUuid),
    /// Its power is changed.
    Power(ConsumerUuid, PowerAction),
}

/// What came of one.
#[derive(Debug, Clone, Copy)]
pub(super) enum GuestChangeResult {
    Spawned(GuestSpawnOutcome),
    Destroyed(GuestDestroyOutcome),
    Powered(GuestPowerOutcome),
}

impl GuestChange {
    /// Its name in a trace.
    pub(super) fn call(&self) -> &'static str {
        match self {
            Self::Spawn(_) => "spawn",
            Self::Destroy(_) => "destroy",
            Self::Power(_, action) => action.as_str(),
        }
    }

    pub(super) fn subject(&self) -> String {
        match self {
            Self::Spawn(spec) => spec.name.to_string(),
            Self::Destroy(uuid) | Self::Power(uuid, _) => uuid.to_string(),
        }
    }

    async fn make<D: VirtDriver>(&self, driver: &D) -> Result<GuestChangeResult, GuestError> {
        match self {
            Self::Spawn(spec) => driver.spawn(spec).await.map(GuestChangeResult::Spawned),
            Self::Destroy(uuid) => driver
                .destroy(*uuid)
                .await
                .map(GuestChangeResult::Destroyed),
            Self::Power(uuid, action) => driver
                .power(*uuid, *action)
                .await
                .map(GuestChangeResult::Powered),
        }
    }
}

/// A change, on its way to a driver.
pub(super) struct GuestChangeCall<'a, D> {
    pub(super) driver: &'a Arc<D>,
    pub(super) change: GuestChange,
}

impl<D: VirtDriver> EffectAction for GuestChangeCall<'_, D> {
    type Value = Result<GuestChangeResult, GuestError>;

    async fn perform(&self) -> Self::Value {
        self.change.make(self.driver.as_ref()).await
    }

    fn outcome(&self, done: &Self::Value) -> EffectOutcome {
        match done {
            Ok(GuestChangeResult::Spawned(outcome)) => EffectOutcome::Done(format!("{outcome:?}")),
            Ok(GuestChangeResult::Destroyed(outcome)) => {
                EffectOutcome::Done(format!("{outcome:?}"))
            }
            Ok(GuestChangeResult::Powered(outcome)) => EffectOutcome::Done(format!("{outcome:?}")),
            Err(error) => EffectOutcome::Failed(error.to_string()),
        }
    }

    fn result_if_prevented(&self, fault: Fault) -> Self::Value {
        Err(instead(self.change.call(), fault))
    }

    fn result_if_failed_after(&self, _: Self::Value, _: Fault) -> Self::Value {
        Err(away("the connection was lost"))
    }

    fn detached(&self) -> AbandonedEffect {
        let (driver, change) = (Arc::clone(self.driver), self.change.clone());
        // The caller no longer waits for the result.
        Box::pin(async move { drop(change.make(driver.as_ref()).await) })
    }
}

/// An observation of all guests, together with the previous one.
pub(super) struct Listing<'a, D> {
    pub(super) driver: &'a D,
    pub(super) before: Option<Guests>,
}

pub(super) type Guests = BTreeMap<ConsumerUuid, GuestOnHost>;

impl<D: VirtDriver> EffectAction for Listing<'_, D> {
    type Value = Result<Guests, GuestError>;

    async fn perform(&self) -> Self::Value {
        self.driver.guests().await
    }

    fn outcome(&self, listed: &Self::Value) -> EffectOutcome {
        match listed {
            Ok(guests) => EffectOutcome::Done(format!("{} guests", guests.len())),
            Err(error) => EffectOutcome::Failed(error.to_string()),
        }
    }

    fn result_if_prevented(&self, fault: Fault) -> Self::Value {
        Err(instead("guests", fault))
    }

    fn result_if_failed_after(&self, listed: Self::Value, fault: Fault) -> Self::Value {
        match fault {
            Fault::Stale => self.before.clone().map_or(listed, Ok),
            _ => Err(away("the connection was lost")),
        }
    }

    fn detached(&self) -> AbandonedEffect {
        Box::pin(ready(()))
    }
}

fn instead(call: &'static str, fault: Fault) -> GuestError {
    match fault {
        Fault::Late => GuestError::TimedOut {
            target: "test".to_owned(),
            call,
            limit: Duration::from_mins(1),
        },
        _ => away("connection refused"),
    }
}

fn away(reason: &str) -> GuestError {
    GuestError::Unreachable {
        target: "test".to_owned(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use berth_fake::{FakeDriver, machines};
    use berth_fault_injection::PointGate;
    use berth_virt::guest_spec::{
        CpuModel, DesiredPower, GuestBoot, GuestDevices, GuestDisks, GuestInterfaces, GuestName,
        GuestOwner, GuestTopology, HostPath, ProjectId,
    };
    use uuid::Uuid;

    use super::*;
    use crate::fault::{FaultStage, GatedDriver};

    fn spec() -> GuestSpec {
        let uuid = ConsumerUuid::from(Uuid::from_u128(1 << 100));
        GuestSpec {
            uuid,
            node: None,
            name: GuestName::new("a guest").expect("a name"),
            owner: GuestOwner {
                project: ProjectId::new("a project").expect("an id"),
                consumer: uuid,
            },
            description: None,
            topology: GuestTopology::plain(1, 64).expect("a small guest"),
            cpu_model: CpuModel::Default,
            machine: berth_virt::guest_spec::MachineOptions::default(),
            boot: GuestBoot::Disk,
            disks: GuestDisks::default(),
            interfaces: GuestInterfaces::default(),
            console_log: HostPath::new("/nowhere/log").expect("a path"),
            devices: GuestDevices::default(),
            power: DesiredPower::Running,
        }
    }

    fn driver(point: &str) -> GatedDriver<FakeDriver> {
        let (name, text) = machines()[0];
        let fake = FakeDriver::from_text(name, text).expect("a shipped machine");
        let gate = PointGate::at([point.parse().expect("a point")]);
        GatedDriver::around(Arc::new(fake), &FaultStage::new(Arc::new(gate)), None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_spawn_with_a_lost_answer_is_found_done() {
        let driver = driver("effect:1:after:answer_lost");
        let lost = driver.spawn(&spec()).await;
        assert!(matches!(lost, Err(GuestError::Unreachable { .. })));
        let again = driver.spawn(&spec()).await.expect("the fault is over");
        assert_eq!(again, GuestSpawnOutcome::AlreadyThere);
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_spawn_is_done_before_the_next_observation() {
        let driver = driver("effect:1:before:late");
        let late = driver.spawn(&spec()).await;
        assert!(matches!(late, Err(GuestError::TimedOut { .. })));
        let guests = driver.guests().await.expect("the fault is over");
        assert!(guests.contains_key(&spec().uuid));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stale_observation_is_the_previous_one() {
        let driver = driver("effect:3:after:stale");
        let before = driver.guests().await.expect("no fault yet");
        let _ = driver.spawn(&spec()).await.expect("no fault yet");
        assert_eq!(driver.guests().await.expect("a stale look"), before);
        let now = driver.guests().await.expect("the fault is over");
        assert!(now.contains_key(&spec().uuid));
    }
}
