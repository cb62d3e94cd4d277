//! Decides what a transition request does to an instance: [`decide_transition`]. Pure, except that it asks where disks
//! lie.

use berth_agent_images::{DiskPlan, RecreateDisks};
use berth_agent_journal::{
    BootSource, GuestRecord, InstanceOverrides, PendingTransition, TransitionKind, TransitionPhase,
};
use berth_model::{ConsumerUuid, GuestFirmware, GuestMachine};
use berth_virt::guest_spec::{DesiredPower, GuestBoot, GuestTopology, MachineOptions};
use berth_wire::guest::ActionId;

use crate::power::{PowerError, ensure_idle};
use crate::resources::GuestResources;
use crate::transition::error::TransitionError;
use crate::transition::{MachineDescription, RescueSystem, TransitionRequest};

/// What to do about a transition request.
pub(super) enum TransitionDecision {
    /// Nothing: the guest is in that state.
    Already,
    /// The same transition is in progress.
    InProgress,
    /// Write these overrides and this desired power state to the journal.
    Begin(Box<InstanceOverrides>, DesiredPower),
}

/// Decides what to do about a transition request with this action ID.
pub(super) fn decide_transition<R: GuestResources>(
    record: &GuestRecord,
    request: &TransitionRequest,
    id: Option<&ActionId>,
    resources: &R,
) -> Result<TransitionDecision, TransitionError> {
    if record.overrides.has_recorded(id) {
        if record.overrides.transition.is_some() {
            return Ok(TransitionDecision::InProgress);
        }
        ensure_idle(record)?;
        return Ok(TransitionDecision::Already);
    }
    let plan = plan_transition(record, request, resources)?;
    if let Some(transition) = &record.overrides.transition {
        let is_same = plan.overrides.rescue == record.overrides.rescue
            && plan.overrides.rebuilt == record.overrides.rebuilt
            && transition.kind == plan.kind;
        // An unrescue may replace a rescue that is still in progress, and a rebuild another rebuild, which may be blocked.
        let replaces = matches!(
            (transition.kind, plan.kind),
            (TransitionKind::Rescue, TransitionKind::Unrescue)
                | (TransitionKind::Rebuild, TransitionKind::Rebuild)
        );
        match (is_same, replaces) {
            (true, _) => return Ok(TransitionDecision::InProgress),
            (false, true) => {}
            (false, false) => ensure_idle(record)?,
        }
    } else {
        ensure_idle(record)?;
        if plan.kind == TransitionKind::Rescue && plan.overrides.rescue == record.overrides.rescue {
            return Ok(TransitionDecision::Already);
        }
    }
    let uuid = record.request.uuid();
    match (request, &record.overrides.rescue) {
        (TransitionRequest::Unrescue, None) => return Err(TransitionError::NotRescued { uuid }),
        (TransitionRequest::Rescue { .. } | TransitionRequest::Rebuild { .. }, Some(_)) => {
            return Err(TransitionError::Rescued { uuid });
        }
        _ => {}
    }
    let phase = TransitionPhase::Stopping {
        grace_seconds: plan.grace_seconds,
        discard: plan.discard,
        // A rebuild that is replaced may have removed the ephemeral disks already.
        recreate: match record.overrides.recreate_disks() {
            RecreateDisks::All => RecreateDisks::All,
            RecreateDisks::None | RecreateDisks::Root => plan.recreate,
        },
    };
    let transition = Some(PendingTransition {
        kind: plan.kind,
        phase,
    });
    let overrides = InstanceOverrides {
        transition,
        ended: false,
        ..plan.overrides.with_action(id)
    };
    let power = match plan.kind {
        TransitionKind::Rescue | TransitionKind::Unrescue => DesiredPower::Running,
        TransitionKind::Rebuild => record.power,
    };
    Ok(TransitionDecision::Begin(Box::new(overrides), power))
}

struct TransitionPlan {
    kind: TransitionKind,
    overrides: InstanceOverrides,
    grace_seconds: u16,
    discard: Vec<berth_virt::guest_spec::HostPath>,
    recreate: RecreateDisks,
}

fn plan_transition<R: GuestResources>(
    record: &GuestRecord,
    request: &TransitionRequest,
    resources: &R,
) -> Result<TransitionPlan, TransitionError> {
    let uuid = record.request.uuid();
    let rebuilt = record.overrides.rebuilt.as_ref();
    let own = BootSource {
        machine: rebuilt.and_then(|rebuilt| rebuilt.machine.clone()),
        ..BootSource::of(&record.own().map_err(PowerError::from)?)
    };
    let laid_out = |boot: GuestBoot, plan: DiskPlan| -> Result<BootSource, TransitionError> {
        let disks = resources.lay_out(uuid, &plan)?;
        let machine = own.machine.clone();
        Ok(BootSource {
            boot,
            plan,
            disks,
            machine,
        })
    };
    let root = |boot_source: &BootSource| {
        let root = boot_source.disks.root();
        root.map(|disk| disk.path.clone())
    };
    let overrides = record.overrides.clone();
    match request {
        TransitionRequest::Rescue { system, grace } => {
            let (boot_source, recreate) = match system {
                RescueSystem::Kernel(boot) => {
                    let boot = boot.clone();
                    (BootSource { boot, ..own }, RecreateDisks::None)
                }
                RescueSystem::Image(_) if own.plan.is_none() => {
                    let what = "rescued from an image";
                    return Err(TransitionError::NoManagedRoot { uuid, what });
                }
                RescueSystem::Image(image) => {
                    let boot = match own.boot {
                        GuestBoot::Kernel { .. } => GuestBoot::Disk,
                        boot => boot,
                    };
                    (
                        laid_out(boot, own.plan.rescued_from(image.clone()))?,
                        RecreateDisks::Root,
                    )
                }
            };
            let stale = root(&boot_source).filter(|_| recreate == RecreateDisks::Root);
            Ok(TransitionPlan {
                kind: TransitionKind::Rescue,
                discard: stale.into_iter().collect(),
                overrides: InstanceOverrides {
                    rescue: Some(boot_source),
                    ..overrides
                },
                grace_seconds: u16::try_from(grace.as_secs()).unwrap_or(u16::MAX),
                recreate,
            })
        }
        TransitionRequest::Unrescue => {
            let of_image = overrides
                .rescue
                .as_ref()
                .filter(|source| source.plan.rescue().is_some());
            Ok(TransitionPlan {
                kind: TransitionKind::Unrescue,
                discard: of_image.and_then(root).into_iter().collect(),
                overrides: InstanceOverrides {
                    rescue: None,
                    ..overrides
                },
                grace_seconds: 0,
                recreate: RecreateDisks::None,
            })
        }
        TransitionRequest::Rebuild {
            image,
            preserve_ephemeral,
            machine,
        } => {
            if !own.plan.has_root() {
                let what = "rebuilt";
                return Err(TransitionError::NoManagedRoot { uuid, what });
            }
            let mut boot_source = laid_out(own.boot.clone(), own.plan.rebuilt_from(image.clone()))?;
            if let Some(description) = machine {
                let topology = &record.request.spec().topology;
                let machine = described(uuid, topology, &own.boot, description)?;
                let is_new = machine != record.request.spec().machine;
                boot_source.machine = is_new.then_some(machine);
            }
            // The config drive names the guest's devices.
            let old = record.own().map_err(PowerError::from)?;
            let new = boot_source
                .given_to(&record.request)
                .map_err(PowerError::from)?;
            let drive = boot_source.disks.config_drive().cloned();
            let drive = drive.filter(|_| old.spec().machine != new.spec().machine);
            let ephemeral = boot_source.disks.ephemeral().iter();
            let ephemeral = ephemeral
                .filter(|_| !preserve_ephemeral)
                .map(|disk| disk.path.clone());
            Ok(TransitionPlan {
                kind: TransitionKind::Rebuild,
                discard: root(&boot_source)
                    .into_iter()
                    .chain(ephemeral)
                    .chain(drive)
                    .collect(),
                overrides: InstanceOverrides {
                    rebuilt: Some(boot_source),
                    ..overrides
                },
                grace_seconds: 0,
                recreate: match preserve_ephemeral {
                    true => RecreateDisks::Root,
                    false => RecreateDisks::All,
                },
            })
        }
    }
}

/// The machine that a flavor and an image describe, for a guest of this size and firmware.
fn described(
    uuid: ConsumerUuid,
    topology: &GuestTopology,
    boot: &GuestBoot,
    description: &MachineDescription,
) -> Result<MachineOptions, TransitionError> {
    let machine = GuestMachine::of(
        topology.vcpus(),
        topology.memory_mib(),
        &description.extra_specs,
        &description.properties,
    )
    .map_err(|error| TransitionError::Machine { uuid, error })?;
    let is_same = match (boot, machine.firmware) {
        (GuestBoot::Disk, GuestFirmware::Bios) | (GuestBoot::Kernel { .. }, _) => true,
        (
            GuestBoot::Uefi {
                secure_boot,
                stateless,
            },
            GuestFirmware::Uefi {
                secure_boot: new_secure_boot,
                stateless: new_stateless,
            },
        ) => (*secure_boot, *stateless) == (new_secure_boot, new_stateless),
        (GuestBoot::Disk, GuestFirmware::Uefi { .. })
        | (GuestBoot::Uefi { .. }, GuestFirmware::Bios) => false,
    };
    match is_same {
        true => Ok(machine.options),
        false => Err(TransitionError::Firmware { uuid }),
    }
}
