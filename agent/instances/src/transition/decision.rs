//! From what a guest is and what is asked of it to what it becomes. Pure, but for where disks lie.

use berth_virt::guest_spec::{DesiredPower, GuestBoot};
use berth_wire::guest::ActionId;

use berth_agent_images::RecreateDisks;
use crate::transition::error::LifeError;
use crate::transition::{LifeChange, RescueSystem};
use crate::resources::GuestResources;
use berth_agent_images::DiskPlan;
use berth_agent_journal::{Form, GuestRecord, Life, Stage, Turn, Turning};
use crate::power::{PowerError, settled};

/// What is to be done.
pub(super) enum Decided {
    /// Nothing: it is so.
    Already,
    /// The same is under way.
    GoesOn,
    /// This is to be written down, with whether it should run.
    Turn(Box<Life>, DesiredPower),
}

/// What a guest becomes by this change, which has this id.
pub(super) fn next<R: GuestResources>(
    record: &GuestRecord,
    change: &LifeChange,
    id: Option<&ActionId>,
    resources: &R,
) -> Result<Decided, LifeError> {
    if record.life.has_acted(id) {
        if record.life.turning.is_some() {
            return Ok(Decided::GoesOn);
        }
        settled(record)?;
        return Ok(Decided::Already);
    }
    let wanted = wanted(record, change, resources)?;
    if let Some(turning) = &record.life.turning {
        let same = wanted.life.rescue == record.life.rescue
            && wanted.life.rebuilt == record.life.rebuilt
            && turning.turn == wanted.turn;
        // A rescue that does not come about can be ended.
        let ends = turning.turn == Turn::Rescue && wanted.turn == Turn::Unrescue;
        match (same, ends) {
            (true, _) => return Ok(Decided::GoesOn),
            (false, true) => {}
            (false, false) => settled(record)?,
        }
    } else {
        settled(record)?;
        if wanted.turn == Turn::Rescue && wanted.life.rescue == record.life.rescue {
            return Ok(Decided::Already);
        }
    }
    let uuid = record.request.uuid();
    match (change, &record.life.rescue) {
        (LifeChange::Unrescue, None) => return Err(LifeError::NotRescued { uuid }),
        (LifeChange::Rescue { .. } | LifeChange::Rebuild { .. }, Some(_)) => {
            return Err(LifeError::Rescued { uuid });
        }
        _ => {}
    }
    let stage = Stage::Leaving {
        grace_seconds: wanted.grace_seconds,
        discard: wanted.discard,
        anew: wanted.anew,
    };
    let turning = Some(Turning {
        turn: wanted.turn,
        stage,
    });
    let life = Life {
        turning,
        ended: false,
        ..wanted.life.acted_by(id)
    };
    let power = match wanted.turn {
        Turn::Rescue | Turn::Unrescue => DesiredPower::Running,
        Turn::Rebuild => record.power,
    };
    Ok(Decided::Turn(Box::new(life), power))
}

struct Becomes {
    turn: Turn,
    life: Life,
    grace_seconds: u16,
    discard: Vec<berth_virt::guest_spec::HostPath>,
    anew: RecreateDisks,
}

fn wanted<R: GuestResources>(
    record: &GuestRecord,
    change: &LifeChange,
    resources: &R,
) -> Result<Becomes, LifeError> {
    let uuid = record.request.uuid();
    let own = Form::of(&record.own().map_err(PowerError::from)?);
    let laid_out = |boot: GuestBoot, plan: DiskPlan| -> Result<Form, LifeError> {
        let disks = resources.lay_out(uuid, &plan)?;
        Ok(Form { boot, plan, disks })
    };
    let root = |form: &Form| {
        let root = form.disks.root();
        root.map(|disk| disk.path.clone())
    };
    let life = record.life.clone();
    match change {
        LifeChange::Rescue { system, grace } => {
            let (form, anew) = match system {
                RescueSystem::Kernel(boot) => {
                    let boot = boot.clone();
                    (Form { boot, ..own }, RecreateDisks::None)
                }
                RescueSystem::Image(_) if own.plan.is_none() => {
                    let what = "rescued from an image";
                    return Err(LifeError::NotItsDisks { uuid, what });
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
            Ok(Becomes {
                turn: Turn::Rescue,
                discard: stale.into_iter().collect(),
                life: Life {
                    rescue: Some(form),
                    ..life
                },
                grace_seconds: u16::try_from(grace.as_secs()).unwrap_or(u16::MAX),
                anew,
            })
        }
        LifeChange::Unrescue => {
            let of_image = life.rescue.as_ref().filter(|it| it.plan.rescue().is_some());
            Ok(Becomes {
                turn: Turn::Unrescue,
                discard: of_image.and_then(root).into_iter().collect(),
                life: Life {
                    rescue: None,
                    ..life
                },
                grace_seconds: 0,
                anew: RecreateDisks::None,
            })
        }
        LifeChange::Rebuild {
            image,
            preserve_ephemeral,
        } => {
            if !own.plan.has_root() {
                let what = "rebuilt";
                return Err(LifeError::NotItsDisks { uuid, what });
            }
            let form = laid_out(own.boot, own.plan.rebuilt_from(image.clone()))?;
            let ephemeral = form.disks.ephemeral().iter();
            let ephemeral = ephemeral
                .filter(|_| !preserve_ephemeral)
                .map(|disk| disk.path.clone());
            Ok(Becomes {
                turn: Turn::Rebuild,
                discard: root(&form).into_iter().chain(ephemeral).collect(),
                life: Life {
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
