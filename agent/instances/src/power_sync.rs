//! What a look at a guest that is not on its way comes to: what is wanted of it, what the hypervisor has, and whether that was
//! started in the present boot of the host. Pure: one table, by which guests are kept ([`crate::sync_loop`]) and by which they are
//! compared ([`mod@crate::reconcile`]).
//!
//! What is wanted is written down before it is done, so a guest that does not do it may be one whose agent was killed in
//! between, or one that somebody else laid hands on. Nothing tells the two apart but this: berth starts a guest only after a word
//! in its [`SpawnStep::Start`], so one that is off and has none has ended itself, or was stopped by hand. One that should be at
//! rest is brought to rest, as Nova's power sync does. One that is paused and should run was not paused by berth: a full disk
//! does that, and only who knows of it may let it go on.

use berth_agent_journal::{Goal, GuestRecord, SpawnStep, StepState};
use berth_virt::guest_spec::DesiredPower;
use berth_virt::{GuestOnHost, GuestState};

use crate::spawn_context::is_ours;

/// What a look at a guest comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PowerSyncAction {
    /// Nothing is to be done.
    InSync,
    /// It goes through the steps of its spawn again.
    BringBack,
    /// It is off in the boot it was started in: that is what it should be from now on.
    EndedItself,
    /// It does something and should be off.
    Stop,
    /// The same, and its memory was to be written to disk.
    Suspend,
    /// It runs and should be stopped in its tracks.
    Pause,
    /// It is stopped in its tracks and should run: to be told.
    UnexpectedlyPaused,
    /// It was undone, and is there: a call that was given up came to its end after all.
    TakeOff,
}

/// In which boot of the host a guest was started last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartedIn {
    ThisBoot,
    Another,
}

pub(super) fn plan_power_sync(
    record: &GuestRecord,
    found: Option<&GuestOnHost>,
    boot_id: &str,
) -> PowerSyncAction {
    let is_ours_there = found.is_some_and(|found| is_ours(found, &record.request));
    if matches!(record.course, Goal::Undo { .. }) && record.open().is_none() && is_ours_there {
        return PowerSyncAction::TakeOff;
    }
    let settled =
        record.course == Goal::Spawn && record.state(SpawnStep::Start) == Some(StepState::Done);
    // Somebody else's of its UUID: the spawn would be refused, and holding it would say nothing new.
    let is_anothers = found.is_some() && !is_ours_there;
    if !settled || is_anothers {
        return PowerSyncAction::InSync;
    }
    let started_in = match record.ran_in() == boot_id {
        true => StartedIn::ThisBoot,
        false => StartedIn::Another,
    };
    match table(record.power, found.map(|found| found.state), started_in) {
        PowerSyncAction::Stop if record.life.suspending => PowerSyncAction::Suspend,
        look => look,
    }
}

fn table(
    wanted: DesiredPower,
    found: Option<GuestState>,
    started_in: StartedIn,
) -> PowerSyncAction {
    use DesiredPower as Wanted;
    use GuestState::{Crashed, Paused, Running, ShutOff};
    match (wanted, found, started_in) {
        (Wanted::Running, Some(Running), _)
        | (Wanted::Paused, Some(Paused), _)
        | (Wanted::ShutOff, None | Some(ShutOff), _) => PowerSyncAction::InSync,
        (Wanted::Running, Some(Paused), _) => PowerSyncAction::UnexpectedlyPaused,
        (Wanted::Paused, Some(Running), _) => PowerSyncAction::Pause,
        // What crashed holds what it held.
        (Wanted::ShutOff, Some(Running | Paused | Crashed), _) => PowerSyncAction::Stop,
        (Wanted::Running | Wanted::Paused, None, _) => PowerSyncAction::BringBack,
        (Wanted::Running | Wanted::Paused, Some(ShutOff | Crashed), StartedIn::Another) => {
            PowerSyncAction::BringBack
        }
        (Wanted::Running | Wanted::Paused, Some(ShutOff | Crashed), StartedIn::ThisBoot) => {
            PowerSyncAction::EndedItself
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::power_sync::PowerSyncAction::{
        BringBack, EndedItself, InSync, Pause, Stop, Suspend, TakeOff, UnexpectedlyPaused,
    };
    use berth_agent_journal::samples::request;
    use berth_agent_journal::{InstanceOverrides, StepRecord};

    /// A row: what is wanted, what is found, and what that comes to where it was started in this boot and in another.
    type Row = (
        DesiredPower,
        Option<GuestState>,
        PowerSyncAction,
        PowerSyncAction,
    );

    #[test]
    fn each_pair_of_what_is_wanted_and_what_is_found_has_its_answer() {
        use DesiredPower as Wanted;
        use GuestState::{Crashed, Paused, Running, ShutOff};
        let rows: [Row; 15] = [
            (Wanted::Running, None, BringBack, BringBack),
            (Wanted::Running, Some(Running), InSync, InSync),
            (
                Wanted::Running,
                Some(Paused),
                UnexpectedlyPaused,
                UnexpectedlyPaused,
            ),
            (Wanted::Running, Some(ShutOff), EndedItself, BringBack),
            (Wanted::Running, Some(Crashed), EndedItself, BringBack),
            (Wanted::Paused, None, BringBack, BringBack),
            (Wanted::Paused, Some(Running), Pause, Pause),
            (Wanted::Paused, Some(Paused), InSync, InSync),
            (Wanted::Paused, Some(ShutOff), EndedItself, BringBack),
            (Wanted::Paused, Some(Crashed), EndedItself, BringBack),
            (Wanted::ShutOff, None, InSync, InSync),
            (Wanted::ShutOff, Some(Running), Stop, Stop),
            (Wanted::ShutOff, Some(Paused), Stop, Stop),
            (Wanted::ShutOff, Some(ShutOff), InSync, InSync),
            (Wanted::ShutOff, Some(Crashed), Stop, Stop),
        ];
        for (wanted, found, here, elsewhere) in rows {
            let looks = [StartedIn::ThisBoot, StartedIn::Another]
                .map(|started_in| table(wanted, found, started_in));
            assert_eq!(looks, [here, elsewhere], "{wanted:?} {found:?}");
        }
    }

    #[test]
    fn a_guest_that_is_on_its_way_or_anothers_is_not_looked_at_and_one_that_was_to_be_suspended_is()
    {
        let step = |state| {
            let detail = "boot-1".to_owned();
            (SpawnStep::Start, StepRecord { state, detail })
        };
        let record = GuestRecord {
            request: request(1, &[]),
            course: Goal::Spawn,
            power: DesiredPower::ShutOff,
            steps: [step(StepState::Done)].into(),
            devices: None,
            life: InstanceOverrides::default(),
        };
        let spec = record.request.spec();
        let found = GuestOnHost {
            name: spec.name.to_string(),
            state: GuestState::Running,
            owner: Some(berth_virt::GuestMark {
                project: spec.owner.project.to_string(),
                consumer: spec.owner.consumer,
                requests: record.request.arqs().clone(),
            }),
            devices: spec.held_devices(),
            unreadable: None,
            hardware: None,
            stuck: None,
        };
        assert_eq!(plan_power_sync(&record, Some(&found), "boot-1"), Stop);
        let life = InstanceOverrides {
            suspending: true,
            ..InstanceOverrides::default()
        };
        let suspending = GuestRecord {
            life,
            ..record.clone()
        };
        assert_eq!(
            plan_power_sync(&suspending, Some(&found), "boot-1"),
            Suspend
        );
        let anothers = GuestOnHost {
            owner: None,
            ..found.clone()
        };
        assert_eq!(plan_power_sync(&record, Some(&anothers), "boot-1"), InSync);
        for (course, state) in [
            (Goal::Destroy, StepState::Done),
            (Goal::Spawn, StepState::Begun),
        ] {
            let on_its_way = GuestRecord {
                course,
                steps: [step(state)].into(),
                ..record.clone()
            };
            assert_eq!(plan_power_sync(&on_its_way, Some(&found), "boot-1"), InSync);
        }
        for (state, its_own, anothers_own) in [
            (StepState::Undone, TakeOff, InSync),
            (StepState::Undoing, InSync, InSync),
        ] {
            let reason = "no".to_owned();
            let undone = GuestRecord {
                course: Goal::Undo {
                    reason,
                    blame: None,
                },
                steps: [step(state)].into(),
                ..record.clone()
            };
            assert_eq!(plan_power_sync(&undone, Some(&found), "boot-1"), its_own);
            assert_eq!(
                plan_power_sync(&undone, Some(&anothers), "boot-1"),
                anothers_own
            );
            assert_eq!(plan_power_sync(&undone, None, "boot-1"), InSync);
        }
    }
}
