//! Guarantees about guests: operations have the requested result, once, and are idempotent.

use std::time::Duration;

use berth_model::ConsumerUuid;

use super::{Promise, Violation, broken};
use crate::guest_spec::{DesiredPower, GuestDisks, GuestSpec, GuestTopology};
use crate::{
    GuestDestroyOutcome, GuestError, GuestHardware, GuestOnHost, GuestPowerOutcome,
    GuestRedefineOutcome, GuestSpawnOutcome, PowerAction, PowerState, VirtDriver,
};

const AT_ONCE: PowerAction = PowerAction::Stop {
    grace: Duration::ZERO,
};

/// Creates, changes and destroys the guest. It should be specified as running; neither it nor a guest of its name may
/// exist before. `rival` is another guest that wants a device of the first, if the host has a suitable one.
pub async fn check_guests(
    driver: &impl VirtDriver,
    spec: &GuestSpec,
    rival: Option<&GuestSpec>,
) -> Vec<Violation> {
    let mut suite = GuestSuite {
        driver,
        violations: Vec::new(),
    };
    suite.absent(spec.uuid).await;
    suite.spawned(spec).await;
    suite.another(spec).await;
    suite.powered(spec).await;
    if let Some(rival) = rival {
        suite.rival(rival).await;
    }
    suite.destroyed(spec.uuid).await;
    if let Some(rival) = rival {
        suite.freed(rival).await;
    }
    suite.prepared(spec).await;
    suite.violations
}

struct GuestSuite<'a, D> {
    driver: &'a D,
    violations: Vec<Violation>,
}

impl<D: VirtDriver> GuestSuite<'_, D> {
    fn breach(&mut self, promise: Promise, detail: impl std::fmt::Display) {
        self.violations.push(broken(promise, None, detail));
    }

    fn expect<T: PartialEq + std::fmt::Debug>(
        &mut self,
        promise: Promise,
        what: &str,
        seen: Result<T, GuestError>,
        wanted: &T,
    ) {
        match seen {
            Ok(seen) if seen == *wanted => {}
            Ok(seen) => self.breach(promise, format!("{what}: {seen:?} instead of {wanted:?}")),
            Err(error) => self.breach(promise, format!("{what}: {error}")),
        }
    }

    async fn guest(&mut self, uuid: ConsumerUuid) -> Option<GuestOnHost> {
        let listed = match self.driver.guests().await {
            Ok(mut guests) => guests.remove(&uuid),
            Err(error) => {
                self.breach(Promise::ListsGuests, error);
                return None;
            }
        };
        match self.driver.guest(uuid).await {
            Ok(alone) if alone == listed => {}
            Ok(alone) => {
                let detail = format!("asked for alone it is {alone:?} instead of {listed:?}");
                self.breach(Promise::ListsGuests, detail);
            }
            Err(error) => self.breach(Promise::ListsGuests, error),
        }
        listed
    }

    async fn state_is(&mut self, uuid: ConsumerUuid, wanted: PowerState, after: &str) {
        let seen = self.guest(uuid).await.map(|guest| guest.state);
        if seen != Some(wanted) {
            let detail = format!("after {after} it is {seen:?} instead of {wanted:?}");
            self.breach(Promise::PowersGuests, detail);
        }
    }

    async fn absent(&mut self, uuid: ConsumerUuid) {
        let destroyed = self.driver.destroy(uuid).await;
        self.expect(
            Promise::DestroysGuests,
            "destroying no guest",
            destroyed,
            &GuestDestroyOutcome::NotThere,
        );
        for action in [PowerAction::Start, AT_ONCE, PowerAction::HardReboot] {
            let powered = self.driver.power(uuid, action).await;
            let what = format!("{} of no guest", action.as_str());
            self.expect(
                Promise::PowersGuests,
                &what,
                powered,
                &GuestPowerOutcome::NotThere,
            );
        }
    }

    async fn spawned(&mut self, spec: &GuestSpec) {
        let promise = Promise::SpawnsOnce;
        let spawned = self.driver.spawn(spec).await;
        self.expect(promise, "a spawn", spawned, &GuestSpawnOutcome::Spawned);
        let again = self.driver.spawn(spec).await;
        self.expect(
            promise,
            "the same spawn again",
            again,
            &GuestSpawnOutcome::AlreadyThere,
        );
        let Some(guest) = self.guest(spec.uuid).await else {
            self.breach(Promise::ListsGuests, "a spawned guest is not listed");
            return;
        };
        let devices = spec.held_devices();
        if guest.name != spec.name.as_str() || guest.devices != devices {
            let detail = format!("a spawned guest is listed differently: {guest:?}");
            self.breach(Promise::ListsGuests, detail);
        }
        self.has_its_hardware(spec, &guest, "a spawned guest");
        let mark = guest.owner.as_ref();
        let requests = devices.iter().filter_map(|held| held.arq).collect();
        let ours = mark.is_some_and(|mark| {
            mark.project == spec.owner.project.as_str()
                && mark.consumer == spec.owner.consumer
                && mark.requests == requests
        });
        if !ours {
            let detail = format!("a spawned guest has the wrong mark: {mark:?}");
            self.breach(Promise::ListsGuests, detail);
        }
        if guest.state != PowerState::Running {
            self.breach(promise, format!("a spawned guest is {}", guest.state));
        }
    }

    fn has_its_hardware(&mut self, spec: &GuestSpec, guest: &GuestOnHost, what: &str) {
        let wanted = GuestHardware::of(spec);
        let has = guest.hardware.as_ref();
        if let Some(difference) = has.and_then(|has| has.difference(&wanted)) {
            let detail = format!("{what} is listed with other hardware: {difference}");
            self.breach(Promise::ListsGuests, detail);
        }
    }

    /// A guest that was changed while it was off is restored to its specification at the next start. The guest is off.
    async fn check_restored(&mut self, spec: &GuestSpec) {
        let promise = Promise::SpawnsOnce;
        let changed = GuestTopology::plain(1, spec.topology.memory_mib() + 4);
        let other = GuestSpec {
            topology: changed.unwrap_or_else(|_| spec.topology.clone()),
            disks: GuestDisks::default(),
            ..spec.clone()
        };
        match self.driver.redefine(&other).await {
            Err(GuestError::Unsupported { .. } | GuestError::NotSupported { .. }) => return,
            Ok(GuestRedefineOutcome::Redefined) => {}
            seen => self.breach(
                promise,
                format!("a change of a guest that is off: {seen:?}"),
            ),
        }
        let spawned = self.driver.spawn(spec).await;
        self.expect(
            promise,
            "a spawn of a guest that is off",
            spawned,
            &GuestSpawnOutcome::Spawned,
        );
        if let Some(guest) = self.guest(spec.uuid).await {
            self.has_its_hardware(spec, &guest, "a guest that was changed while it was off");
        }
    }

    /// Another guest of the same UUID is refused, and the first one stays unchanged.
    async fn another(&mut self, spec: &GuestSpec) {
        let mut other = spec.clone();
        other.devices = crate::guest_spec::GuestDevices::default();
        if other.devices == spec.devices {
            return;
        }
        match self.driver.spawn(&other).await {
            Err(GuestError::Another { .. }) => {}
            seen => self.breach(
                Promise::SpawnsOnce,
                format!("a spawn with fewer devices over a guest of the same UUID: {seen:?}"),
            ),
        }
        self.state_is(spec.uuid, PowerState::Running, "a refused spawn")
            .await;
    }

    async fn powered(&mut self, spec: &GuestSpec) {
        use PowerAction::{HardReboot, Pause, SoftReboot, Start, Unpause};
        use PowerState::{Paused, Running, ShutOff};
        for (action, outcome, state) in [
            (Start, GuestPowerOutcome::Unchanged, Running),
            (Unpause, GuestPowerOutcome::Unchanged, Running),
            (Pause, GuestPowerOutcome::Done, Paused),
            (Pause, GuestPowerOutcome::Unchanged, Paused),
            (Unpause, GuestPowerOutcome::Done, Running),
            (HardReboot, GuestPowerOutcome::Done, Running),
            (AT_ONCE, GuestPowerOutcome::Done, ShutOff),
            (AT_ONCE, GuestPowerOutcome::Unchanged, ShutOff),
            (Start, GuestPowerOutcome::Done, Running),
            (SoftReboot, GuestPowerOutcome::Done, Running),
        ] {
            let powered = self.driver.power(spec.uuid, action).await;
            self.expect(Promise::PowersGuests, action.as_str(), powered, &outcome);
            self.state_is(spec.uuid, state, action.as_str()).await;
        }
        self.refused_while_off(spec).await;
        if let Some(guest) = self.guest(spec.uuid).await
            && guest.devices != spec.held_devices()
        {
            let detail = format!("after reboots it has other devices: {:?}", guest.devices);
            self.breach(Promise::KeepsDevices, detail);
        }
    }

    async fn refused_while_off(&mut self, spec: &GuestSpec) {
        let stopped = self.driver.power(spec.uuid, AT_ONCE).await;
        self.expect(
            Promise::PowersGuests,
            "stop",
            stopped,
            &GuestPowerOutcome::Done,
        );
        for action in [
            PowerAction::Pause,
            PowerAction::Unpause,
            PowerAction::SoftReboot,
        ] {
            match self.driver.power(spec.uuid, action).await {
                Err(GuestError::WrongState { .. }) => {}
                seen => self.breach(
                    Promise::PowersGuests,
                    format!("{} of a guest that is off: {seen:?}", action.as_str()),
                ),
            }
        }
        // A spawn brings a guest that is shut off to its desired state.
        let spawned = self.driver.spawn(spec).await;
        self.expect(
            Promise::SpawnsOnce,
            "a spawn of a guest that is off",
            spawned,
            &GuestSpawnOutcome::Spawned,
        );
        self.state_is(spec.uuid, PowerState::Running, "a spawn")
            .await;
        let stopped = self.driver.power(spec.uuid, AT_ONCE).await;
        self.expect(
            Promise::PowersGuests,
            "stop",
            stopped,
            &GuestPowerOutcome::Done,
        );
        self.check_restored(spec).await;
    }

    async fn rival(&mut self, rival: &GuestSpec) {
        match self.driver.spawn(rival).await {
            Err(GuestError::DeviceBusy { .. }) => {}
            seen => self.breach(
                Promise::GivesADeviceOnce,
                format!("a second guest with a device of the first: {seen:?}"),
            ),
        }
        // The rival may be left defined, but must not run.
        if let Some(guest) = self.guest(rival.uuid).await
            && guest.state != PowerState::ShutOff
        {
            let detail = format!("a refused guest is {}", guest.state);
            self.breach(Promise::GivesADeviceOnce, detail);
        }
        let destroyed = self.driver.destroy(rival.uuid).await;
        if let Err(error) = destroyed {
            self.breach(Promise::DestroysGuests, error);
        }
    }

    async fn destroyed(&mut self, uuid: ConsumerUuid) {
        let promise = Promise::DestroysGuests;
        let destroyed = self.driver.destroy(uuid).await;
        self.expect(
            promise,
            "a destroy",
            destroyed,
            &GuestDestroyOutcome::Destroyed,
        );
        let again = self.driver.destroy(uuid).await;
        self.expect(
            promise,
            "the same again",
            again,
            &GuestDestroyOutcome::NotThere,
        );
        if self.guest(uuid).await.is_some() {
            self.breach(promise, "a destroyed guest is still listed");
        }
    }

    /// The resources of a destroyed guest can be given to another.
    async fn freed(&mut self, rival: &GuestSpec) {
        let spawned = self.driver.spawn(rival).await;
        self.expect(
            Promise::DestroysGuests,
            "a spawn with a device that was freed",
            spawned,
            &GuestSpawnOutcome::Spawned,
        );
        let destroyed = self.driver.destroy(rival.uuid).await;
        self.expect(
            Promise::DestroysGuests,
            "its destroy",
            destroyed,
            &GuestDestroyOutcome::Destroyed,
        );
    }

    /// Guests that should not run are defined only.
    async fn prepared(&mut self, spec: &GuestSpec) {
        for (power, state) in [
            (DesiredPower::ShutOff, PowerState::ShutOff),
            (DesiredPower::Paused, PowerState::Paused),
        ] {
            let wanted = GuestSpec {
                power,
                ..spec.clone()
            };
            let spawned = self.driver.spawn(&wanted).await;
            let what = format!("a spawn that should be {state}");
            self.expect(
                Promise::SpawnsOnce,
                &what,
                spawned,
                &GuestSpawnOutcome::Spawned,
            );
            self.state_is(spec.uuid, state, &what).await;
            let destroyed = self.driver.destroy(spec.uuid).await;
            self.expect(
                Promise::DestroysGuests,
                "its destroy",
                destroyed,
                &GuestDestroyOutcome::Destroyed,
            );
        }
    }
}
