//! Decides how to reconcile the desired power state of an idle instance with the hypervisor's. Pure.
//!
//! Inputs are the desired state, the state on the hypervisor, and whether the guest was last started in the current boot of the
//! host. The sync loop ([`crate::sync_loop`]) acts on the result, and the reconciler ([`mod@crate::reconcile`]) reports it.
//!
//! | desired | on the hypervisor | action |
//! |---|---|---|
//! | running, paused | missing | `StartAgain` |
//! | running, paused | off, started in an earlier boot | `StartAgain` |
//! | running, paused | off, ended by the hypervisor | `StartAgain` |
//! | running, paused | off, started in this boot | `AcceptShutOff` |
//! | running | paused | `UnexpectedlyPaused` |
//! | paused | running | `Pause` |
//! | off | running, paused or crashed | `Stop` or `Suspend` |
//!
//! The desired state is written before an action runs, and a start is preceded by [`SpawnStep::Start`] in the journal. So a guest
//! that is off although its start is done has shut itself down, or was stopped by hand, unless the hypervisor reports that it
//! ended the guest itself. Nova's power sync accepts a shutdown, too. A paused guest that should run was not paused by Berth
//! (a full disk does that), so only an operator may unpause it.

use berth_agent_journal::{Goal, GuestRecord, SpawnStep, StepState};
use berth_virt::guest_spec::DesiredPower;
use berth_virt::{GuestOnHost, PowerState};

use crate::spawn_context::is_ours;

/// What to do about the power state of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PowerSyncAction {
    InSync,
    /// Run the steps of the spawn again.
    StartAgain,
    /// The guest shut itself down in the current boot: make that the desired state.
    AcceptShutOff,
    Stop,
    /// Stop the guest and write its memory to disk.
    Suspend,
    Pause,
    /// The guest is paused and should run: report it.
    UnexpectedlyPaused,
    /// The spawn was undone, but a late call created the guest after all: remove it.
    Remove,
}

/// Who ended a guest that is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndedBy {
    /// It shut itself down, or was stopped by hand.
    Guest,
    /// The host restarted since the guest was started, or the hypervisor ended it.
    Host,
}

pub(super) fn plan_power_sync(
    record: &GuestRecord,
    found: Option<&GuestOnHost>,
    boot_id: &str,
) -> PowerSyncAction {
    let is_ours_there = found.is_some_and(|found| is_ours(found, &record.request));
    if matches!(record.goal, Goal::Undo { .. }) && record.open().is_none() && is_ours_there {
        return PowerSyncAction::Remove;
    }
    let settled =
        record.goal == Goal::Spawn && record.state(SpawnStep::Start) == Some(StepState::Done);
    // Another guest with this UUID: a spawn would be refused, and blocking the instance would not help.
    let is_anothers = found.is_some() && !is_ours_there;
    if !settled || is_anothers {
        return PowerSyncAction::InSync;
    }
    let is_of_this_boot = record.ran_in() == boot_id;
    let is_lost = found.is_some_and(|found| found.ended_by_hypervisor);
    let ended_by = match is_of_this_boot && !is_lost {
        true => EndedBy::Guest,
        false => EndedBy::Host,
    };
    match action_for(record.power, found.map(|found| found.state), ended_by) {
        PowerSyncAction::Stop if record.overrides.suspending => PowerSyncAction::Suspend,
        action => action,
    }
}

fn action_for(
    wanted: DesiredPower,
    found: Option<PowerState>,
    ended_by: EndedBy,
) -> PowerSyncAction {
    use DesiredPower as Wanted;
    use PowerState::{Crashed, Paused, Running, ShutOff};
    match (wanted, found, ended_by) {
        (Wanted::Running, Some(Running), _)
        | (Wanted::Paused, Some(Paused), _)
        | (Wanted::ShutOff, None | Some(ShutOff), _) => PowerSyncAction::InSync,
        (Wanted::Running, Some(Paused), _) => PowerSyncAction::UnexpectedlyPaused,
        (Wanted::Paused, Some(Running), _) => PowerSyncAction::Pause,
        // A crashed guest still holds its resources.
        (Wanted::ShutOff, Some(Running | Paused | Crashed), _) => PowerSyncAction::Stop,
        (Wanted::Running | Wanted::Paused, None, _) => PowerSyncAction::StartAgain,
        (Wanted::Running | Wanted::Paused, Some(ShutOff | Crashed), EndedBy::Host) => {
            PowerSyncAction::StartAgain
        }
        (Wanted::Running | Wanted::Paused, Some(ShutOff | Crashed), EndedBy::Guest) => {
            PowerSyncAction::AcceptShutOff
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::power_sync::PowerSyncAction::{
        AcceptShutOff, InSync, Pause, Remove, StartAgain, Stop, Suspend, UnexpectedlyPaused,
    };
    use berth_agent_journal::samples::request;
    use berth_agent_journal::{InstanceOverrides, StepRecord};

    /// Desired state, observed state, and the actions if the guest and if the host ended it.
    type Row = (
        DesiredPower,
        Option<PowerState>,
        PowerSyncAction,
        PowerSyncAction,
    );

    #[test]
    fn each_pair_of_desired_and_observed_state_has_an_action() {
        use DesiredPower as Wanted;
        use PowerState::{Crashed, Paused, Running, ShutOff};
        let rows: [Row; 15] = [
            (Wanted::Running, None, StartAgain, StartAgain),
            (Wanted::Running, Some(Running), InSync, InSync),
            (
                Wanted::Running,
                Some(Paused),
                UnexpectedlyPaused,
                UnexpectedlyPaused,
            ),
            (Wanted::Running, Some(ShutOff), AcceptShutOff, StartAgain),
            (Wanted::Running, Some(Crashed), AcceptShutOff, StartAgain),
            (Wanted::Paused, None, StartAgain, StartAgain),
            (Wanted::Paused, Some(Running), Pause, Pause),
            (Wanted::Paused, Some(Paused), InSync, InSync),
            (Wanted::Paused, Some(ShutOff), AcceptShutOff, StartAgain),
            (Wanted::Paused, Some(Crashed), AcceptShutOff, StartAgain),
            (Wanted::ShutOff, None, InSync, InSync),
            (Wanted::ShutOff, Some(Running), Stop, Stop),
            (Wanted::ShutOff, Some(Paused), Stop, Stop),
            (Wanted::ShutOff, Some(ShutOff), InSync, InSync),
            (Wanted::ShutOff, Some(Crashed), Stop, Stop),
        ];
        for (wanted, found, by_guest, by_host) in rows {
            let actions =
                [EndedBy::Guest, EndedBy::Host].map(|ended_by| action_for(wanted, found, ended_by));
            assert_eq!(actions, [by_guest, by_host], "{wanted:?} {found:?}");
        }
    }

    fn start_step(state: StepState) -> (SpawnStep, StepRecord) {
        let detail = "boot-1".to_owned();
        (SpawnStep::Start, StepRecord { state, detail })
    }

    /// An instance that was started in boot `boot-1`, and its guest.
    fn settled(power: DesiredPower, state: PowerState) -> (GuestRecord, GuestOnHost) {
        let record = GuestRecord {
            request: request(1, &[]),
            goal: Goal::Spawn,
            power,
            steps: [start_step(StepState::Done)].into(),
            devices: None,
            overrides: InstanceOverrides::default(),
        };
        let spec = record.request.spec();
        let found = GuestOnHost {
            name: spec.name.to_string(),
            state,
            owner: Some(berth_virt::GuestMark {
                project: spec.owner.project.to_string(),
                consumer: spec.owner.consumer,
                requests: record.request.arqs().clone(),
            }),
            devices: spec.held_devices(),
            unreadable: None,
            hardware: None,
            stuck: None,
            ended_by_hypervisor: false,
        };
        (record, found)
    }

    #[test]
    fn a_guest_that_the_hypervisor_ended_is_started_again() {
        let (record, found) = settled(DesiredPower::Running, PowerState::ShutOff);
        assert_eq!(
            plan_power_sync(&record, Some(&found), "boot-1"),
            AcceptShutOff
        );
        let lost = GuestOnHost {
            ended_by_hypervisor: true,
            ..found
        };
        assert_eq!(plan_power_sync(&record, Some(&lost), "boot-1"), StartAgain);
    }

    #[test]
    fn a_busy_or_foreign_guest_is_in_sync_and_a_pending_suspend_is_not() {
        let (record, found) = settled(DesiredPower::ShutOff, PowerState::Running);
        assert_eq!(plan_power_sync(&record, Some(&found), "boot-1"), Stop);
        let overrides = InstanceOverrides {
            suspending: true,
            ..InstanceOverrides::default()
        };
        let suspending = GuestRecord {
            overrides,
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
        for (goal, state) in [
            (Goal::Destroy, StepState::Done),
            (Goal::Spawn, StepState::Begun),
        ] {
            let on_its_way = GuestRecord {
                goal,
                steps: [start_step(state)].into(),
                ..record.clone()
            };
            assert_eq!(plan_power_sync(&on_its_way, Some(&found), "boot-1"), InSync);
        }
        for (state, its_own, anothers_own) in [
            (StepState::Undone, Remove, InSync),
            (StepState::Undoing, InSync, InSync),
        ] {
            let reason = "no".to_owned();
            let undone = GuestRecord {
                goal: Goal::Undo {
                    reason,
                    blame: None,
                },
                steps: [start_step(state)].into(),
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
