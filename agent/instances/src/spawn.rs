//! Typestate for spawning an instance: each step consumes the previous state.
//!
//! ```text
//! RequestedSpawn --bind--> BoundSpawn --check--> CheckedSpawn --prepare--> PreparedSpawn
//!                                                --define--> DefinedSpawn --start--> RunningInstance
//! ```
//!
//! | step | what it does |
//! |---|---|
//! | `bind` | waits until the accelerator requests are bound, and claims their devices in the journal |
//! | `check` | checks that no other guest uses the devices, and that the files are allowed |
//! | `fetch_images`, `build_permit` | fetches the images, and waits for the turn of the guest's project |
//! | `prepare` | creates the disks, prepares the devices for the guest, plugs its ports |
//! | `wait_for_ports` | waits until the ports work, so that the guest's first DHCP request is answered |
//! | `define` | creates or replaces the guest's definition on the hypervisor, with the guest off |
//! | `start` | brings the guest into its desired power state, and journals the host's boot ID |
//!
//! Only a bound instance has devices, only a checked one may touch them, and only a prepared one is defined in the hypervisor.
//! Every step is journaled as begun before it acts and as done afterwards. Each step first checks what exists already, so an
//! interrupted spawn is repeated from `bind`.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_agent_images::RecreateDisks;
use berth_agent_journal::{
    Blame, BoundDevices, DeviceClaim, GuestRecord, GuestRequest, GuestRequestError,
    InstanceOverrides, JournalError, NamedDevice as _, SpawnStep, StepRecord, StepState,
    TransitionPhase, WithheldReason,
};
use berth_keyed_tasks::FairPermit;
use berth_model::ConsumerUuid;
use berth_virt::guest_spec::{DesiredPower, GuestPciTree, GuestSpec, GuestSpecError};
use berth_virt::{
    GuestError, GuestRedefineOutcome, HostDeviceId, PowerAction, PowerState, VirtDriver,
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::binding_wait::BindingRefusal;
use crate::files::AllowedSpec;
use crate::host_resources::wanted_devices;
use crate::resources::{GuestResources, Provision, ResourceError};
use crate::spawn_context::{SpawnContext, host_devices, is_ours};

/// Poll interval while a device is being reset.
const RESET_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// How long a spawn waits for the reset of a device. A longer reset is stuck, and another host may have a free device.
pub(super) const MAX_RESET_WAIT: Duration = Duration::from_mins(15);

/// Why a spawn failed.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The devices are not bound.
    #[error(transparent)]
    Bind(#[from] BindingRefusal),
    /// Another guest uses one of the devices.
    #[error("device {device} is in use by guest {holder}")]
    DeviceTaken {
        device: String,
        holder: ConsumerUuid,
    },
    /// The device is being reset or is in quarantine.
    #[error("device {device} is not available: {reason}")]
    DeviceWithheld {
        device: String,
        reason: WithheldReason,
    },
    /// The spec is invalid with these devices.
    #[error("the devices do not fit the guest: {0}")]
    Spec(#[from] GuestSpecError),
    /// The record in the journal is inconsistent.
    #[error("the record of the guest in the journal is invalid: {0}")]
    BootSource(#[from] GuestRequestError),
    #[error(transparent)]
    Resource(#[from] ResourceError),
    #[error(transparent)]
    Driver(#[from] GuestError),
    /// The goal changed, or the agent stops.
    #[error("the spawn was interrupted")]
    Cancelled,
    /// The journal cannot be written: no step may run.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl SpawnError {
    /// What to blame, if another device of this host would not help.
    pub(crate) fn blame(&self) -> Option<Blame> {
        match self {
            Self::Resource(ResourceError::BadImage { .. }) => Some(Blame::Image),
            Self::Resource(ResourceError::NoDisks { .. }) => Some(Blame::Host),
            _ => None,
        }
    }
}

/// An instance whose spawn was requested.
pub(super) struct RequestedSpawn {
    request: GuestRequest,
    power: DesiredPower,
    /// The devices that an interrupted spawn had bound.
    previous_devices: Option<BoundDevices>,
    /// Host boot ID of the instance's last start; empty if it has never run.
    last_boot_id: String,
    overrides: InstanceOverrides,
    /// Whether the hypervisor may still have the definition from before a transition.
    is_stale: bool,
}

struct SpawnState {
    request: GuestRequest,
    devices: BoundDevices,
    spec: GuestSpec,
    last_boot_id: String,
    overrides: InstanceOverrides,
    is_stale: bool,
}

impl SpawnState {
    fn provision(&self) -> Provision<'_> {
        Provision {
            spec: &self.spec,
            bound: &self.devices,
            mdevs: self.request.host_placement().mdevs(),
            disks: self.request.disks(),
            has_run_before: !self.last_boot_id.is_empty(),
            recreate: self.overrides.recreate_disks(),
        }
    }
}

impl SpawnState {
    /// Sets the devices of the spec. A guest may request the host's PCI topology: a device without a journaled place then gets
    /// its present place on the host.
    async fn attach_devices<D: VirtDriver, R: GuestResources>(
        &mut self,
        context: &SpawnContext<D, R>,
    ) -> Result<(), SpawnError> {
        self.spec = self.devices.attached_to(&self.spec)?;
        if !self.spec.machine.host_pci_topology {
            return Ok(());
        }
        let mut places = self.devices.places().clone();
        for wanted in wanted_devices(&self.provision()) {
            let device = wanted.host_device();
            if places.get(device).is_none() {
                let place = context.driver.pci_place(&wanted).await;
                let place = place.map_err(ResourceError::from)?;
                places.add(device, place.unwrap_or_default());
            }
        }
        self.spec.devices = self.spec.devices.clone().with_places(&places);
        self.devices = self.devices.clone().with_places(places);
        let _ = GuestPciTree::of(&self.spec)?;
        Ok(())
    }
}

/// An instance that has claimed its devices.
pub(super) struct BoundSpawn(SpawnState);
/// An instance whose devices and files passed the host's checks.
pub(super) struct CheckedSpawn(SpawnState, AllowedSpec);
/// An instance whose devices and disks are prepared.
pub(super) struct PreparedSpawn(SpawnState, AllowedSpec);
/// An instance that is defined in the hypervisor.
pub(super) struct DefinedSpawn(SpawnState, AllowedSpec);
/// An instance in its desired power state.
#[derive(Debug)]
pub(super) struct RunningInstance;

impl RequestedSpawn {
    pub(super) fn from_record(record: GuestRecord) -> Result<Self, GuestRequestError> {
        let phase = record
            .overrides
            .transition
            .as_ref()
            .map(|transition| &transition.phase);
        let is_rebuilding = matches!(phase, Some(TransitionPhase::Rebuilding { .. }));
        Ok(Self {
            last_boot_id: record.ran_in().to_owned(),
            request: record.present()?,
            is_stale: is_rebuilding && record.state(SpawnStep::Define) != Some(StepState::Done),
            power: record.power,
            previous_devices: record.devices,
            overrides: record.overrides,
        })
    }

    pub(super) async fn spawn<D: VirtDriver, R: GuestResources>(
        self,
        context: &SpawnContext<D, R>,
        cancel: &CancellationToken,
    ) -> Result<RunningInstance, SpawnError> {
        // A running step is awaited and never dropped: dropped halfway, it might still take effect. Only the waits for
        // bindings and images are cancellable.
        let check_cancelled = || match cancel.is_cancelled() {
            true => Err(SpawnError::Cancelled),
            false => Ok(()),
        };
        let bound = self.bind(context, cancel).await?;
        check_cancelled()?;
        let checked = bound.check(context).await?;
        check_cancelled()?;
        checked.fetch_images(context, cancel).await?;
        let _permit = checked.build_permit(context, cancel).await?;
        check_cancelled()?;
        let prepared = checked.prepare(context).await?;
        check_cancelled()?;
        prepared.wait_for_ports(context, cancel).await?;
        let defined = prepared.define(context).await?;
        check_cancelled()?;
        defined.start(context).await
    }

    async fn bind<D: VirtDriver, R: GuestResources>(
        self,
        context: &SpawnContext<D, R>,
        cancel: &CancellationToken,
    ) -> Result<BoundSpawn, SpawnError> {
        let uuid = self.request.uuid();
        context
            .record_step(uuid, SpawnStep::Bind, StepState::Begun)
            .await?;
        let now = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(SpawnError::Cancelled),
            now = context.accelerators.wait_until_bound(&self.request) => now?,
        };
        let places = self.previous_devices.as_ref().map(BoundDevices::places);
        let places = places.cloned().unwrap_or_default();
        if let Some(before) = self.previous_devices
            && !before.has_same_bindings(&now)
        {
            return Err(BindingRefusal::Changed { before, now }.into());
        }
        let mut guest = SpawnState {
            spec: self.request.spec().clone(),
            request: self.request,
            devices: now.with_places(places),
            last_boot_id: self.last_boot_id,
            overrides: self.overrides,
            is_stale: self.is_stale,
        };
        guest.spec.power = self.power;
        guest.attach_devices(context).await?;
        let devices = guest.spec.devices.as_slice().iter();
        let names: BTreeSet<_> = devices.map(|attached| attached.device.name()).collect();
        claim_devices(context, cancel, uuid, &names, &guest.devices).await?;
        Ok(BoundSpawn(guest))
    }
}

/// Claims the devices for the guest. Waits while a device is being reset.
async fn claim_devices<D: VirtDriver, R: GuestResources>(
    context: &SpawnContext<D, R>,
    cancel: &CancellationToken,
    uuid: ConsumerUuid,
    names: &BTreeSet<String>,
    devices: &BoundDevices,
) -> Result<(), SpawnError> {
    let until = Instant::now() + MAX_RESET_WAIT;
    loop {
        match context.journal.claim_devices(uuid, names, devices).await? {
            DeviceClaim::Claimed => return Ok(()),
            DeviceClaim::Taken { device, guest } => {
                let holder = guest;
                return Err(SpawnError::DeviceTaken { device, holder });
            }
            DeviceClaim::Withheld {
                why: WithheldReason::Resetting,
                ..
            } if Instant::now() < until => tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(SpawnError::Cancelled),
                () = sleep(RESET_POLL_INTERVAL) => {}
            },
            DeviceClaim::Withheld { device, why } => {
                let reason = why;
                return Err(SpawnError::DeviceWithheld { device, reason });
            }
        }
    }
}

impl BoundSpawn {
    async fn check<D: VirtDriver, R: GuestResources>(
        self,
        context: &SpawnContext<D, R>,
    ) -> Result<CheckedSpawn, SpawnError> {
        let Self(guest) = self;
        let uuid = guest.request.uuid();
        context
            .record_step(uuid, SpawnStep::Check, StepState::Begun)
            .await?;
        guest.spec.check_network_functions()?;
        let wanted = host_devices(&guest.spec);
        if let Some((device, holder)) = devices_of_other_guests(context, &guest.request, &wanted)
            .await?
            .pop()
        {
            return Err(SpawnError::DeviceTaken {
                device: device.to_string(),
                holder,
            });
        }
        let spec = context.allow(&guest.spec).map_err(ResourceError::from)?;
        context.resources.check(guest.provision()).await?;
        context
            .record_step(uuid, SpawnStep::Check, StepState::Done)
            .await?;
        Ok(CheckedSpawn(guest, spec))
    }
}

/// The devices among `wanted` that another guest on the hypervisor uses, no matter who created that guest.
pub(super) async fn devices_of_other_guests<D: VirtDriver, R: GuestResources>(
    context: &SpawnContext<D, R>,
    request: &GuestRequest,
    wanted: &BTreeSet<HostDeviceId>,
) -> Result<Vec<(HostDeviceId, ConsumerUuid)>, GuestError> {
    let mut in_use = Vec::new();
    if wanted.is_empty() {
        return Ok(in_use);
    }
    for (uuid, other) in context.driver.guests().await? {
        if uuid == request.uuid() && is_ours(&other, request) {
            continue;
        }
        other.is_readable(uuid)?;
        let devices = other.devices.iter().map(|held| held.device);
        let ours = devices.filter(|device| wanted.contains(device));
        in_use.extend(ours.map(|device| (device, uuid)));
    }
    Ok(in_use)
}

impl CheckedSpawn {
    async fn fetch_images<D: VirtDriver, R: GuestResources>(
        &self,
        context: &SpawnContext<D, R>,
        cancel: &CancellationToken,
    ) -> Result<(), SpawnError> {
        let Self(guest, _) = self;
        let disks = guest.request.disks();
        if disks.images().next().is_none() {
            return Ok(());
        }
        let provision = guest.provision();
        // The disk of a guest that has run belongs to it, even if the image is no longer available.
        let is_new = !provision.has_run_before || provision.recreate != RecreateDisks::None;
        let project = is_new.then_some(&provision.spec.owner.project);
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(SpawnError::Cancelled),
            fetched = context.resources.fetch(disks, project) => Ok(fetched?),
        }
    }

    /// Waits for the turn of the guest's project. A guest that has run needs no permit, because a host boot starts all of
    /// them. Images are fetched before, so that a stalled source delays only its own guests.
    async fn build_permit<D: VirtDriver, R: GuestResources>(
        &self,
        context: &SpawnContext<D, R>,
        cancel: &CancellationToken,
    ) -> Result<Option<FairPermit<String>>, SpawnError> {
        let Self(guest, _) = self;
        if !guest.last_boot_id.is_empty() {
            return Ok(None);
        }
        let project = guest.spec.owner.project.to_string();
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(SpawnError::Cancelled),
            permit = context.builds.acquire(project) => Ok(Some(permit)),
        }
    }

    async fn prepare<D: VirtDriver, R: GuestResources>(
        self,
        context: &SpawnContext<D, R>,
    ) -> Result<PreparedSpawn, SpawnError> {
        let Self(guest, spec) = self;
        let uuid = guest.request.uuid();
        context
            .record_step(uuid, SpawnStep::Prepare, StepState::Begun)
            .await?;
        context.resources.prepare(guest.provision()).await?;
        context
            .record_step(uuid, SpawnStep::Prepare, StepState::Done)
            .await?;
        Ok(PreparedSpawn(guest, spec))
    }
}

impl PreparedSpawn {
    async fn wait_for_ports<D: VirtDriver, R: GuestResources>(
        &self,
        context: &SpawnContext<D, R>,
        cancel: &CancellationToken,
    ) -> Result<(), SpawnError> {
        let Self(guest, _) = self;
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(SpawnError::Cancelled),
            waited = context.resources.wait_for_ports(&guest.spec) => Ok(waited?),
        }
    }

    async fn define<D: VirtDriver, R: GuestResources>(
        self,
        context: &SpawnContext<D, R>,
    ) -> Result<DefinedSpawn, SpawnError> {
        let Self(guest, spec) = self;
        let uuid = guest.request.uuid();
        if !guest.is_stale && guest.overrides.transition.is_some() {
            // The new definition is in place. Journaling the step as begun would define it once more.
            return Ok(DefinedSpawn(guest, spec));
        }
        context
            .record_step(uuid, SpawnStep::Define, StepState::Begun)
            .await?;
        let found = context.on_host(uuid).await?;
        let found = found.filter(|found| is_ours(found, &guest.request));
        let off = spec.off();
        let is_there = match found {
            // A guest of an interrupted spawn may be running already.
            Some(_) if !guest.is_stale => true,
            Some(found) => {
                if found.state != PowerState::ShutOff {
                    // Someone started it in its previous form.
                    let grace = Duration::ZERO;
                    let _ = context
                        .driver
                        .power(uuid, PowerAction::Stop { grace })
                        .await?;
                }
                context.redefine(&off).await? == GuestRedefineOutcome::Redefined
            }
            None => false,
        };
        // The driver refuses if another guest has the UUID.
        if !is_there {
            let _ = context.spawn(&off).await?;
        }
        context
            .record_step(uuid, SpawnStep::Define, StepState::Done)
            .await?;
        Ok(DefinedSpawn(guest, spec))
    }
}

impl DefinedSpawn {
    async fn start<D: VirtDriver, R: GuestResources>(
        self,
        context: &SpawnContext<D, R>,
    ) -> Result<RunningInstance, SpawnError> {
        let Self(guest, spec) = self;
        let uuid = guest.request.uuid();
        context
            .record_step_with(uuid, SpawnStep::Start, StepState::Begun, guest.last_boot_id)
            .await?;
        let _ = context.spawn(&spec).await?;
        let (state, detail) = (StepState::Done, context.boot_id.clone());
        let steps = [(SpawnStep::Start, StepRecord { state, detail })];
        let overrides = InstanceOverrides {
            transition: None,
            ended: false,
            ..guest.overrides
        };
        context
            .journal
            .record_overrides(uuid, &overrides, &steps)
            .await?;
        Ok(RunningInstance)
    }
}
