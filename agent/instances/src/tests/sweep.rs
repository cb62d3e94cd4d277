//! Every journey, killed before and after each of its crossings, and each recovery killed likewise.

use berth_agent_journal::samples::{guest, request};

use crate::guests::Guests;
use crate::outcome::ReconcileOutcome;
use crate::stage::{Bug, Fault, Kill, Mishap, Stage};
use crate::tests::judge;

/// What an operator asks for, as a story.
#[derive(Debug, Clone, Copy)]
enum Journey {
    Spawn,
    SpawnFails(Mishap),
    SpawnAndDelete,
    FailAndDelete(Mishap),
}

const JOURNEYS: [Journey; 8] = [
    Journey::Spawn,
    Journey::SpawnFails(Mishap::BindFailed(2)),
    Journey::SpawnFails(Mishap::DeviceSick(2)),
    Journey::SpawnFails(Mishap::PrepareFails(2)),
    Journey::SpawnFails(Mishap::DefineFails),
    Journey::SpawnFails(Mishap::StartFails),
    Journey::SpawnAndDelete,
    Journey::FailAndDelete(Mishap::StartFails),
];

impl Journey {
    async fn stage(self) -> Stage {
        let stage = Stage::new().await;
        stage.bind(1, &[1, 2]);
        if let Self::SpawnFails(mishap) | Self::FailAndDelete(mishap) = self {
            stage.comes(mishap);
        }
        stage
    }

    fn deletes(self) -> bool {
        matches!(self, Self::SpawnAndDelete | Self::FailAndDelete(_))
    }

    /// The whole of it, as one who never gives up asks: again, after each restart of the agent.
    async fn run(self, stage: &Stage) {
        let guests = stage.guests();
        if !self.deletes() || !self.is_deleted(stage, &guests).await {
            // A client repeats what was not answered; what is being deleted is not made again.
            let asked = guests.create(&request(1, &[1, 2])).await;
            assert!(asked.is_ok() || self.deletes(), "{asked:?}");
            let end = guests.journey(guest(1)).await;
            assert!(!matches!(end, ReconcileOutcome::Held { .. }), "{end:?}");
        }
        if self.deletes() {
            guests.delete(guest(1)).await.ok();
            let end = guests.journey(guest(1)).await;
            assert!(matches!(end, ReconcileOutcome::Gone), "{end:?}");
        }
    }

    /// Whether the delete came to its end before the agent was killed: its requests are gone, so no client makes it again.
    async fn is_deleted<D, R>(self, stage: &Stage, guests: &Guests<D, R>) -> bool
    where
        D: berth_virt::VirtDriver,
        R: crate::resources::GuestResources,
    {
        stage.world().arqs.is_empty() && guests.list().await.is_ok_and(|all| all.is_empty())
    }

    async fn check(self, stage: &Stage) {
        judge::at_rest(stage).await;
        match self {
            Self::Spawn => assert_eq!(stage.running(1).len(), 2),
            Self::SpawnFails(_) => {
                assert!(!stage.on_hypervisor(1));
                assert_eq!(stage.world().arqs.len(), 2, "unbound, not deleted");
            }
            Self::SpawnAndDelete | Self::FailAndDelete(_) => {
                assert!(!stage.on_hypervisor(1));
                stage.only_foreign_requests_are_left();
            }
        }
    }

    /// Runs until it is done or killed; whether it was killed.
    async fn until_killed(self, stage: &Stage, kill: Option<Kill>) -> bool {
        stage.kill_at(kill);
        tokio::select! {
            biased;
            () = stage.dies() => true,
            () = self.run(stage) => false,
        }
    }
}

fn kills(crossings: usize) -> impl Iterator<Item = Kill> {
    (1..=crossings).flat_map(|at| [false, true].map(|after| Kill { at, after }))
}

#[tokio::test]
async fn a_kill_at_any_crossing_leaves_nothing_and_makes_nothing_twice() {
    let mut cases = 0;
    for journey in JOURNEYS {
        let stage = journey.stage().await;
        assert!(!journey.until_killed(&stage, None).await);
        let crossings = stage.count();
        journey.check(&stage).await;
        for kill in kills(crossings) {
            let stage = journey.stage().await;
            let killed = journey.until_killed(&stage, Some(kill)).await;
            assert!(killed, "{journey:?} comes to {kill:?}");
            judge::always(&stage).await;
            assert!(!journey.until_killed(&stage, None).await);
            journey.check(&stage).await;
            cases += 1;
        }
    }
    assert!(cases > 300, "{cases} cases");
}

#[tokio::test]
async fn a_kill_in_the_recovery_from_a_kill_is_no_worse() {
    let mut cases = 0;
    for journey in [
        Journey::SpawnAndDelete,
        Journey::SpawnFails(Mishap::StartFails),
    ] {
        let clean = journey.stage().await;
        journey.until_killed(&clean, None).await;
        // Some crossings, and every crossing of the recovery from a kill there: all of them take minutes.
        for first in kills(clean.count()).step_by(13) {
            for second in kills(usize::MAX) {
                let stage = journey.stage().await;
                assert!(journey.until_killed(&stage, Some(first)).await);
                let killed = journey.until_killed(&stage, Some(second)).await;
                judge::always(&stage).await;
                assert!(!journey.until_killed(&stage, None).await);
                journey.check(&stage).await;
                cases += 1;
                if !killed {
                    break;
                }
            }
        }
    }
    assert!(cases > 300, "{cases} cases");
}

/// As an operator sees it who is answered with an error now and then, while the agent lives and tries again.
#[tokio::test]
async fn an_error_at_any_crossing_before_or_after_its_effect_ends_done_or_undone() {
    let mut cases = 0;
    for journey in [
        Journey::Spawn,
        Journey::SpawnFails(Mishap::StartFails),
        Journey::SpawnAndDelete,
    ] {
        let clean = journey.stage().await;
        journey.until_killed(&clean, None).await;
        for point in kills(clean.count()) {
            let stage = journey.stage().await;
            stage.fault_at(Some(point), Fault::Error);
            let guests = stage.guests();
            // The answer may be the error; the client asks again.
            for _ in 0..2 {
                guests.create(&request(1, &[1, 2])).await.ok();
            }
            let mut end = guests.journey(guest(1)).await;
            for _ in 0..2 {
                if matches!(end, ReconcileOutcome::Held { .. }) {
                    judge::always(&stage).await;
                    end = guests.journey(guest(1)).await;
                }
            }
            assert!(
                matches!(
                    end,
                    ReconcileOutcome::Settled | ReconcileOutcome::Undone { .. }
                ),
                "{journey:?} at {point:?}: {end:?}"
            );
            judge::at_rest(&stage).await;
            if journey.deletes() {
                for _ in 0..2 {
                    guests.delete(guest(1)).await.ok();
                }
                while !matches!(guests.journey(guest(1)).await, ReconcileOutcome::Gone) {}
                journey.check(&stage).await;
            }
            cases += 1;
        }
    }
    assert!(cases > 150, "{cases} cases");
}

/// A judge that never says no is worth nothing.
#[tokio::test]
async fn each_planted_bug_is_caught_by_the_judge() {
    for (bug, journey) in [
        (Bug::ForgetsIntents, Journey::Spawn),
        (Bug::SkipsResets, Journey::SpawnAndDelete),
        (
            Bug::SkipsResets,
            Journey::SpawnFails(Mishap::PrepareFails(2)),
        ),
        (Bug::KeepsGuests, Journey::SpawnFails(Mishap::StartFails)),
    ] {
        let stage = journey.stage().await;
        stage.world().bug = Some(bug);
        let judged = tokio::spawn(async move {
            journey.until_killed(&stage, None).await;
            journey.check(&stage).await;
        });
        let caught = judged.await.is_err_and(|error| error.is_panic());
        // A guest that never ran leaves nothing in its devices.
        let harmless = matches!((bug, journey), (Bug::SkipsResets, Journey::SpawnFails(_)));
        assert_eq!(caught, !harmless, "{bug:?} in {journey:?}");
    }
}
