//! From what a guest is and what is asked of it to what it becomes. Pure, but for where disks lie.

use berth_agent_images::{DiskPlan, RecreateDisks};
use berth_agent_journal::{
    BootSource, GuestRecord, InstanceOverrides, PendingTransition, TransitionKind, TransitionPhase,
};
use berth_virt::guest_spec::{DesiredPower, GuestBoot};
use berth_wire::guest::ActionId;

use crate::power::{PowerError, settled};
use crate::resources::GuestResources;
use crate::transition::error::TransitionError;
use crate::transition::{RescueSystem, TransitionRequest};

/// What is to be done.
pub(super) enum TransitionDecision {
    /// Nothing: it is so.
    Already,
    /// The same is under way.
    InProgress,
    /// This is to be written down, with whether it should run.
    Begin(Box<InstanceOverrides>, DesiredPower),
}

/// What a guest becomes by this change, which has this id.
pub(super) fn next<R: GuestResources>(
    record: &GuestRecord,
    change: &TransitionRequest,
    id: Option<&ActionId>,
    resources: &R,
) -> Result<TransitionDecision, TransitionError> {
    if record.life.has_acted(id) {
        if record.life.turning.is_some() {
            return Ok(TransitionDecision::InProgress);
        }
        settled(record)?;
        return Ok(TransitionDecision::Already);
    }
    let wanted = wanted(record, change, resources)?;
    if let Some(turning) = &record.life.turning {
        let same = wanted.life.rescue == record.life.rescue
            && wanted.life.rebuilt == record.life.rebuilt
            && turning.turn == wanted.turn;
        // A rescue that does not come about can be ended.
        let ends =
            turning.turn == TransitionKind::Rescue && wanted.turn == TransitionKind::Unrescue;
        match (same, ends) {
            (true, _) => return Ok(TransitionDecision::InProgress),
            (false, true) => {}
            (false, false) => settled(record)?,
        }
    } else {
        settled(record)?;
        if wanted.turn == TransitionKind::Rescue && wanted.life.rescue == record.life.rescue {
            return Ok(TransitionDecision::Already);
        }
    }
    let uuid = record.request.uuid();
    match (change, &record.life.rescue) {
        (TransitionRequest::Unrescue, None) => return Err(TransitionError::NotRescued { uuid }),
        (TransitionRequest::Rescue { .. } | TransitionRequest::Rebuild { .. }, Some(_)) => {
            return Err(TransitionError::Rescued { uuid });
        }
        _ => {}
    }
    let stage = TransitionPhase::Stopping {
        grace_seconds: wanted.grace_seconds,
        discard: wanted.discard,
        anew: wanted.anew,
    };
    let turning = Some(PendingTransition {
        turn: wanted.turn,
        stage,
    });
    let life = InstanceOverrides {
        turning,
        ended: false,
        ..wanted.life.acted_by(id)
    };
    let power = match wanted.turn {
        TransitionKind::Rescue | TransitionKind::Unrescue => DesiredPower::Running,
        TransitionKind::Rebuild => record.power,
    };
    Ok(TransitionDecision::Begin(Box::new(life), power))
}

struct Transition {
    turn: TransitionKind,
    life: InstanceOverrides,
    grace_seconds: u16,
    discard: Vec<berth_virt::guest_spec::HostPath>,
    anew: RecreateDisks,
}

fn wanted<R: GuestResources>(
    record: &GuestRecord,
    change: &TransitionRequest,
    resources: &R,
) -> Result<Transition, TransitionError> {
    let uuid = record.request.uuid();
    let own = BootSource::of(&record.own().map_err(PowerError::from)?);
    let laid_out = |boot: GuestBoot, plan: DiskPlan| -> Result<BootSource, TransitionError> {
        let disks = resources.lay_out(uuid, &plan)?;
        Ok(BootSource { boot, plan, disks })
    };
    let root = |form: &BootSource| {
        let root = form.disks.root();
        root.map(|disk| disk.path.clone())
    };
    let life = record.life.clone();
    match change {
        TransitionRequest::Rescue { system, grace } => {
            let (form, anew) = match system {
                RescueSystem::Kernel(boot) => {
                    let boot = boot.clone();
                    (BootSource { boot, ..own }, RecreateDisks::None)
                }
                RescueSystem::Image(_) if own.plan.is_none() => {
                    let what = "rescued from an image";
                    return Err(TransitionError::NotItsDisks { uuid, what });
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
            let stale = root(&form).filter(|_| anew == RecreateDisks::Root);
            Ok(Transition {
                turn: TransitionKind::Rescue,
                discard: stale.into_iter().collect(),
                life: InstanceOverrides {
                    rescue: Some(form),
                    ..life
                },
                grace_seconds: u16::try_from(grace.as_secs()).unwrap_or(u16::MAX),
                anew,
            })
        }
        TransitionRequest::Unrescue => {
            let of_image = life.rescue.as_ref().filter(|it| it.plan.rescue().is_some());
            Ok(Transition {
                turn: TransitionKind::Unrescue,
                discard: of_image.and_then(root).into_iter().collect(),
                life: InstanceOverrides {
                    rescue: None,
                    ..life
                },
                grace_seconds: 0,
                anew: RecreateDisks::None,
            })
        }
        TransitionRequest::Rebuild {
            image,
            preserve_ephemeral,
        } => {
            if !own.plan.has_root() {
                let what = "rebuilt";
                return Err(TransitionError::NotItsDisks { uuid, what });
            }
            let form = laid_out(own.boot, own.plan.rebuilt_from(image.clone()))?;
            let ephemeral = form.disks.ephemeral().iter();
            let ephemeral = ephemeral
                .filter(|_| !preserve_ephemeral)
                .map(|disk| disk.path.clone());
            Ok(Transition {
                turn: TransitionKind::Rebuild,
                discard: root(&form).into_iter().chain(ephemeral).collect(),
                life: InstanceOverrides {
                    rebuilt: Some(form),
                    ..life
                },
                grace_seconds: 0,
                anew: match preserve_ephemeral {
                    true => RecreateDisks::Root,
                    false => RecreateDisks::All,
                },
            })
        }
    }
}
