//! Guarantees about devices: checks are read-only; a device is prepared, kept for its guest, and reset after the
//! guest's deletion.

use berth_model::NodeName;

use super::{Promise, Violation, broken};
use crate::guest_spec::{CpuModel, DesiredPower, GuestDevice, GuestDevices, GuestSpec};
use crate::{
    DeviceError, DeviceReset, GuestDestroyOutcome, GuestError, GuestRedefineOutcome,
    GuestSpawnOutcome, PowerAction, PowerState, Preparer, VirtDriver, WantedDevice,
};

/// Runs the guest's devices, `wanted`, through prepare, spawn, destroy and reset, twice. The guest must not exist
/// before, and its devices must be free. `refused` is a device that no guest may have, if the host has one.
pub async fn check_devices(
    driver: &impl VirtDriver,
    spec: &GuestSpec,
    wanted: &[WantedDevice],
    refused: Option<&WantedDevice>,
) -> Vec<Violation> {
    let mut suite = DeviceSuite {
        driver,
        violations: Vec::new(),
    };
    suite.check_unchanged(wanted, "a look").await;
    if let Some(refused) = refused {
        suite.refused(refused).await;
    }
    for _ in 0..2 {
        suite.check_prepare(wanted).await;
        suite.check_in_use(spec, wanted).await;
        suite.check_reset(spec, wanted).await;
    }
    suite.violations
}

struct DeviceSuite<'a, D> {
    driver: &'a D,
    violations: Vec<Violation>,
}

impl<D: VirtDriver> DeviceSuite<'_, D> {
    fn breach(&mut self, promise: Promise, detail: impl std::fmt::Display) {
        self.violations.push(broken(promise, None, detail));
    }

    async fn check_unchanged(&mut self, wanted: &[WantedDevice], when: &str) {
        for device in wanted {
            for _ in 0..2 {
                if let Err(error) = self.driver.check_device(device).await {
                    self.breach(Promise::ChecksDevices, format!("{when}: {error}"));
                }
            }
        }
    }

    /// A device that no guest may have is neither accepted by a check nor prepared.
    async fn refused(&mut self, device: &WantedDevice) {
        let checked = self.driver.check_device(device).await;
        let prepared = self.driver.prepare_device(device).await;
        for (what, outcome) in [("looked at", checked), ("made ready", prepared)] {
            match outcome {
                Err(
                    DeviceError::NotAllowed { .. }
                    | DeviceError::InUseByHost { .. }
                    | DeviceError::GroupNotViable { .. }
                    | DeviceError::Missing { .. }
                    | DeviceError::InUse { .. }
                    | DeviceError::Quarantined { .. },
                ) => {}
                seen => {
                    let detail = format!(
                        "{} must be refused and was {what}: {seen:?}",
                        device.host_device()
                    );
                    self.breach(Promise::ChecksDevices, detail);
                }
            }
        }
    }

    async fn check_prepare(&mut self, wanted: &[WantedDevice]) {
        for device in wanted {
            for what in ["a preparation", "the same again"] {
                if let Err(error) = self.driver.prepare_device(device).await {
                    self.breach(Promise::PreparesDevices, format!("{what}: {error}"));
                }
            }
        }
        self.check_unchanged(wanted, "a check of a prepared device")
            .await;
        self.check_reported(wanted, true).await;
    }

    /// A device prepared by the driver is reported as such while it exists.
    async fn check_reported(&mut self, wanted: &[WantedDevice], is_there: bool) {
        let prepared = match self.driver.prepared_devices().await {
            Ok(prepared) => prepared,
            Err(error) => return self.breach(Promise::ReportsPreparedDevices, error),
        };
        for device in wanted.iter().filter(|device| device.mdev.is_some()) {
            let mut own = prepared.iter().filter(|it| it.by == Preparer::Berth);
            if own.any(|it| it.wanted == *device) != is_there {
                let now = if is_there { "is there" } else { "is gone" };
                let detail = format!("{} {now}: {prepared:?}", device.host_device());
                self.breach(Promise::ReportsPreparedDevices, detail);
            }
        }
    }

    /// While a guest has a device, a reset is refused, and repeating the earlier steps changes nothing.
    async fn check_in_use(&mut self, spec: &GuestSpec, wanted: &[WantedDevice]) {
        match self.driver.spawn(spec).await {
            Ok(GuestSpawnOutcome::Spawned) => {}
            seen => self.breach(
                Promise::PreparesDevices,
                format!("a spawn with prepared devices: {seen:?}"),
            ),
        }
        self.check_still_prepared(wanted, "running").await;
        self.check_not_moved(spec).await;
        self.check_prepare(wanted).await;
        let at_once = PowerAction::Stop {
            grace: std::time::Duration::ZERO,
        };
        if let Err(error) = self.driver.power(spec.uuid, at_once).await {
            self.breach(Promise::PowersGuests, error);
        }
        self.check_still_prepared(wanted, "off").await;
        match self.driver.guests().await {
            Ok(guests) => match guests.get(&spec.uuid) {
                Some(guest)
                    if guest.devices == spec.held_devices()
                        && guest.state == PowerState::ShutOff => {}
                seen => self.breach(
                    Promise::KeepsDevices,
                    format!("after refused resets the guest is {seen:?}"),
                ),
            },
            Err(error) => self.breach(Promise::ListsGuests, error),
        }
        self.redefined(spec).await;
    }

    /// A guest with devices can be neither suspended nor moved; the error states the reason.
    async fn check_not_moved(&mut self, spec: &GuestSpec) {
        if spec.devices.as_slice().is_empty() {
            return;
        }
        let suspended = self.driver.suspend(spec.uuid).await.map(drop);
        let moved = match NodeName::new("elsewhere") {
            Ok(destination) => self.driver.live_migrate(spec.uuid, &destination).await,
            Err(error) => return self.breach(Promise::KeepsDevices, error),
        };
        for (what, outcome) in [("a suspension", suspended), ("a move", moved)] {
            if !matches!(outcome, Err(GuestError::HoldsDevices { .. })) {
                let detail = format!("{what} of a guest with devices: {outcome:?}");
                self.breach(Promise::KeepsDevices, detail);
            }
        }
    }

    /// Redefining a guest that is shut off keeps its devices.
    async fn redefined(&mut self, spec: &GuestSpec) {
        let other = GuestSpec {
            cpu_model: CpuModel::Maximum,
            ..spec.clone()
        };
        match self.driver.redefine(&other).await {
            Ok(GuestRedefineOutcome::Redefined) => {}
            seen => self.breach(
                Promise::PowersGuests,
                format!("redefining a guest that is off: {seen:?}"),
            ),
        }
        let without = GuestSpec {
            devices: GuestDevices::default(),
            ..spec.clone()
        };
        let refused = self.driver.redefine(&without).await;
        if without.devices != spec.devices && !matches!(refused, Err(GuestError::Another { .. })) {
            let detail = format!("a document without the guest's devices: {refused:?}");
            self.breach(Promise::KeepsDevices, detail);
        }
        let started = GuestSpec {
            power: DesiredPower::Running,
            ..other
        };
        if let Err(error) = self.driver.spawn(&started).await {
            self.breach(Promise::PowersGuests, format!("a start with it: {error}"));
        }
        match self.driver.redefine(spec).await {
            Err(GuestError::NotOff { .. }) => {}
            seen => self.breach(
                Promise::PowersGuests,
                format!("redefining a running guest: {seen:?}"),
            ),
        }
    }

    async fn check_still_prepared(&mut self, wanted: &[WantedDevice], guest: &str) {
        for device in wanted {
            match self.driver.reset_device(device).await {
                Err(DeviceError::InUse { .. }) => {}
                seen => self.breach(
                    Promise::KeepsDevices,
                    format!("a reset of the device of a guest that is {guest}: {seen:?}"),
                ),
            }
        }
    }

    async fn check_reset(&mut self, spec: &GuestSpec, wanted: &[WantedDevice]) {
        match self.driver.destroy(spec.uuid).await {
            Ok(GuestDestroyOutcome::Destroyed) => {}
            seen => self.breach(Promise::DestroysGuests, format!("a destroy: {seen:?}")),
        }
        for device in wanted {
            let first = self.driver.reset_device(device).await;
            let again = self.driver.reset_device(device).await;
            let as_promised = match (device.device, &device.mdev) {
                (GuestDevice::Mdev { .. }, Some(_)) => {
                    matches!(first, Ok(DeviceReset::Removed))
                        && matches!(again, Ok(DeviceReset::NotThere))
                }
                (GuestDevice::Mdev { .. }, None) => {
                    matches!(first, Ok(DeviceReset::Retained))
                        && matches!(again, Ok(DeviceReset::Retained))
                }
                (GuestDevice::Pci { .. } | GuestDevice::VendorVfio { .. }, _) => {
                    matches!(first, Ok(DeviceReset::Reset { .. }))
                        && matches!((&first, &again), (Ok(first), Ok(again)) if first == again)
                }
            };
            if !as_promised {
                let device = device.host_device();
                let detail = format!("{device} after its guest: {first:?}, then {again:?}");
                self.breach(Promise::ResetsDevices, detail);
            }
        }
        self.check_unchanged(wanted, "a check of a reset device")
            .await;
        self.check_reported(wanted, false).await;
    }
}
