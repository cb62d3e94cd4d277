//! [`GuestJournal`]: the trait of the agent's journal. Tests wrap it to inject faults.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_model::ConsumerUuid;
use berth_virt::guest_spec::DesiredPower;
use berth_workflow::{AcceptOutcome, JournalFuture, StepRecord};

use crate::bound_devices::BoundDevices;
use crate::overrides::InstanceOverrides;
use crate::record::{Goal, GuestRecord, SpawnStep};
use crate::register::WithheldReason;
use crate::released::ReleasedDevices;
use crate::request::GuestRequest;

/// Result of [`GuestJournal::claim_devices`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceClaim {
    /// All devices belong to the guest.
    Claimed,
    /// Another guest has one of the devices; none was claimed.
    Taken {
        /// Name of the device.
        device: String,
        guest: ConsumerUuid,
    },
    /// One of the devices is withheld from guests; none was claimed.
    Withheld {
        /// Name of the device.
        device: String,
        why: WithheldReason,
    },
}

/// The journal of one agent's guests. A change that returned is on disk; an interrupted change is there completely or not at
/// all. A change of an unknown guest is an error.
pub trait GuestJournal: Send + Sync {
    /// Location, for messages.
    fn path(&self) -> String;

    /// All guests, sorted by UUID.
    fn guests(&self) -> JournalFuture<'_, Vec<Arc<GuestRecord>>>;

    /// The record of a guest.
    fn guest(&self, uuid: ConsumerUuid) -> JournalFuture<'_, Option<Arc<GuestRecord>>>;

    /// Records a request with the goal [`Goal::Spawn`].
    fn accept<'a>(&'a self, request: &'a GuestRequest) -> JournalFuture<'a, AcceptOutcome>;

    /// Sets the goal of a guest. [`Goal::Destroy`] is final: later goals are ignored.
    fn set_goal<'a>(&'a self, uuid: ConsumerUuid, goal: &'a Goal) -> JournalFuture<'a, ()>;

    /// Sets whether the guest should run.
    fn set_power(&self, uuid: ConsumerUuid, power: DesiredPower) -> JournalFuture<'_, ()>;

    /// Records the state of a step; replaces its earlier state.
    fn record_step<'a>(
        &'a self,
        uuid: ConsumerUuid,
        step: SpawnStep,
        record: &'a StepRecord,
    ) -> JournalFuture<'a, ()>;

    /// Records overrides and the states of steps, in one transaction.
    fn record_overrides<'a>(
        &'a self,
        uuid: ConsumerUuid,
        overrides: &'a InstanceOverrides,
        steps: &'a [(SpawnStep, StepRecord)],
    ) -> JournalFuture<'a, ()>;

    /// Replaces the devices of the guest by the devices of these names, and completes [`SpawnStep::Bind`] with `devices`, those
    /// of its accelerator requests, in one transaction.
    fn claim_devices<'a>(
        &'a self,
        uuid: ConsumerUuid,
        names: &'a BTreeSet<String>,
        devices: &'a BoundDevices,
    ) -> JournalFuture<'a, DeviceClaim>;

    /// Gives a guest one more device, and records the request that has it, in one transaction.
    fn claim_function<'a>(
        &'a self,
        request: &'a GuestRequest,
        device: &'a str,
    ) -> JournalFuture<'a, DeviceClaim>;

    /// Takes one device from a guest, in one transaction: records the request and the overrides without it, and the result of
    /// its reset. Quarantines the device if the reset failed.
    fn release_function<'a>(
        &'a self,
        request: &'a GuestRequest,
        overrides: &'a InstanceOverrides,
        device: &'a str,
        released: &'a ReleasedDevices,
    ) -> JournalFuture<'a, ()>;

    /// Completes the undo of [`SpawnStep::Prepare`] with the results of the devices' resets, in one transaction: a device whose
    /// reset failed is quarantined; a verified reset also counts as the one after the next release of the device's handle.
    fn record_released_devices<'a>(
        &'a self,
        uuid: ConsumerUuid,
        released: &'a ReleasedDevices,
    ) -> JournalFuture<'a, ()>;

    /// Removes the devices of the guest, and begins to undo [`SpawnStep::Bind`], in one transaction.
    fn drop_devices(&self, uuid: ConsumerUuid) -> JournalFuture<'_, ()>;

    /// Deletes the record of a guest, if it exists.
    fn delete_guest(&self, uuid: ConsumerUuid) -> JournalFuture<'_, ()>;

    /// Tests whether the journal is writable, without a visible change. By default, it always is.
    fn try_write(&self) -> JournalFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}
