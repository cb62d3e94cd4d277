//! Every boot scenario, killed before and after each of its effects, and with an error at each of them.

use berth_conductor::{BootRequest, Conductor, ConductorError, GuestRunOutcome};
use berth_tests::boot::{
    AgentBehaviour, BootFault, BootStage, EffectSide, guest, request, request_in,
};
use berth_tests::sample::one_of;

/// The sweep tests every n-th side of the effects. The number is odd, so that sides before and after effects alternate.
const ONE_OF: usize = one_of(17);

/// How often a client repeats what fails: an injected error strikes once.
const TRIES: usize = 100;

/// A scenario of the sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BootScenario {
    Boot,
    BootOnTheNext,
    NoCandidate,
    BindRefused,
    BuildFails,
    Refused,
    BootAndDelete,
}

impl BootScenario {
    const ALL: [Self; 7] = [
        Self::Boot,
        Self::BootOnTheNext,
        Self::NoCandidate,
        Self::BindRefused,
        Self::BuildFails,
        Self::Refused,
        Self::BootAndDelete,
    ];

    fn set(self, stage: &BootStage) {
        stage.agent.is(match self {
            Self::BootOnTheNext => AgentBehaviour::CannotBuildOne,
            Self::BuildFails => AgentBehaviour::CannotBuild,
            Self::Refused => AgentBehaviour::Refuses,
            _ => AgentBehaviour::Well,
        });
    }

    /// Before its first case, and after its last.
    async fn scene(self, stage: &BootStage, begins: bool) {
        if self == Self::BindRefused {
            match begins {
                true => stage.disable_devices().await,
                false => stage.enable_devices().await,
            }
        }
    }

    fn profile(self) -> &'static str {
        match self {
            Self::NoCandidate => "fast",
            _ => "gpu",
        }
    }

    /// The request of the scenario. Guests of most scenarios are in a server group that allows one member at a time.
    fn request(self, stage: &BootStage, number: u32) -> BootRequest {
        match self {
            Self::Boot | Self::Refused => request(number, self.profile()),
            _ => request_in(stage.apart, number, self.profile()),
        }
    }

    /// The whole of it, as one who never gives up asks.
    async fn run(self, stage: &BootStage, number: u32) {
        let conductor = stage.conductor();
        let deletes = self == Self::BootAndDelete;
        // A client repeats what was not answered; what it saw deleted it does not ask for again.
        let known = conductor.show(guest(number)).await.is_ok();
        if known || !deletes || !stage.effects.history().contains(&"gone".to_owned()) {
            let mut tries = 0..TRIES;
            while let Err(error) = conductor.create(&self.request(stage, number)).await {
                if matches!(error, ConductorError::Deleting { .. }) {
                    break;
                }
                assert!(tries.next().is_some(), "the request is not taken: {error}");
            }
            arrives(&conductor, number).await;
        }
        if deletes {
            let mut tries = 0..TRIES;
            while let Err(error) = conductor.delete(guest(number)).await {
                if matches!(error, ConductorError::NotFound { .. }) {
                    break;
                }
                assert!(tries.next().is_some(), "the delete is not taken: {error}");
            }
            arrives(&conductor, number).await;
        }
    }

    async fn check(self, stage: &BootStage, number: u32) {
        stage.judge().await;
        let runs = stage.agent.guests().contains_key(&guest(number));
        let should = matches!(self, Self::Boot | Self::BootOnTheNext);
        assert_eq!(runs, should, "{self:?}");
    }

    /// Runs until it is done or killed; whether it was killed.
    async fn until_killed(
        self,
        stage: &BootStage,
        number: u32,
        fault: Option<(EffectSide, BootFault)>,
    ) -> bool {
        stage.effects.begin(fault);
        tokio::select! {
            biased;
            () = stage.effects.dies() => true,
            () = self.run(stage, number) => false,
        }
    }
}

/// Journeys until the guest is where it should be.
async fn arrives(conductor: &Conductor, number: u32) {
    for _ in 0..20 {
        match conductor.reconcile_guest(guest(number)).await {
            GuestRunOutcome::Blocked { .. } => {}
            _ => return,
        }
    }
    panic!(
        "it is blocked: {:?}",
        conductor.blocked_reason(guest(number))
    );
}

/// Takes the guest away, whatever came of it, so that the next case finds the stage clean.
async fn clear(stage: &BootStage, number: u32) {
    stage.effects.begin(None);
    let conductor = stage.conductor();
    conductor.delete(guest(number)).await.ok();
    arrives(&conductor, number).await;
}

fn points(effects: usize) -> impl Iterator<Item = EffectSide> {
    (1..=effects).flat_map(|at| [false, true].map(|after| EffectSide { at, after }))
}

/// Runs every scenario with the fault at every effect; returns the number of cases.
async fn sweep(
    stage: &BootStage,
    scenarios: &[BootScenario],
    fault: BootFault,
    every: usize,
) -> usize {
    let (mut number, mut cases) = (1, 0);
    for scenario in scenarios {
        scenario.scene(stage, true).await;
        scenario.set(stage);
        assert!(!scenario.until_killed(stage, number, None).await);
        let effects = stage.effects.history().len();
        scenario.check(stage, number).await;
        clear(stage, number).await;
        for point in points(effects).step_by(every) {
            number += 1;
            scenario.set(stage);
            let killed = scenario
                .until_killed(stage, number, Some((point, fault)))
                .await;
            if fault == BootFault::Kill {
                assert!(killed, "{scenario:?} reaches {point:?}");
                assert_eq!(stage.agent.broken(), Vec::<String>::new());
                assert!(!scenario.until_killed(stage, number, None).await);
            }
            scenario.check(stage, number).await;
            clear(stage, number).await;
            cases += 1;
        }
        stage.judge().await;
        scenario.scene(stage, false).await;
    }
    cases
}

#[tokio::test]
async fn a_kill_at_any_effect_leaves_nothing_and_duplicates_nothing() {
    let stage = BootStage::new().await;
    let cases = sweep(&stage, &BootScenario::ALL, BootFault::Kill, ONE_OF).await;
    assert!(cases > 300 / ONE_OF, "{cases} cases");
}

#[tokio::test]
async fn an_error_at_any_effect_leads_to_the_same_end_as_without() {
    let stage = BootStage::new().await;
    let cases = sweep(&stage, &BootScenario::ALL, BootFault::Error, ONE_OF).await;
    assert!(cases > 300 / ONE_OF, "{cases} cases");
}

#[tokio::test]
async fn a_kill_in_the_recovery_from_a_kill_is_no_worse() {
    let stage = BootStage::new().await;
    let (mut number, mut cases) = (1, 0);
    for scenario in [BootScenario::BootAndDelete, BootScenario::BootOnTheNext] {
        scenario.set(&stage);
        assert!(!scenario.until_killed(&stage, number, None).await);
        let effects = stage.effects.history().len();
        clear(&stage, number).await;
        // Some effects, and every third of the recovery from a kill there: all of them take minutes.
        for first in points(effects).step_by(17) {
            for second in points(1000).step_by(3 * ONE_OF) {
                number += 1;
                scenario.set(&stage);
                let kill = |point| Some((point, BootFault::Kill));
                assert!(scenario.until_killed(&stage, number, kill(first)).await);
                let killed = scenario.until_killed(&stage, number, kill(second)).await;
                assert!(!scenario.until_killed(&stage, number, None).await);
                scenario.check(&stage, number).await;
                clear(&stage, number).await;
                cases += 1;
                if !killed {
                    break;
                }
            }
        }
    }
    assert!(cases > 50 / ONE_OF, "{cases} cases");
}

/// A judge that never says no is worth nothing.
#[tokio::test]
async fn a_conductor_that_forgets_its_intents_is_caught() {
    let stage = BootStage::new().await;
    stage.effects.forget_intents();
    let judged = tokio::spawn(async move {
        sweep(
            &stage,
            &[BootScenario::BootAndDelete, BootScenario::BuildFails],
            BootFault::Kill,
            3,
        )
        .await
    });
    assert!(judged.await.is_err_and(|error| error.is_panic()));
}

#[tokio::test]
async fn a_conductor_that_leaves_its_guests_in_their_groups_is_caught() {
    let stage = BootStage::new().await;
    stage.effects.keep_members();
    assert!(
        !BootScenario::BootAndDelete
            .until_killed(&stage, 1, None)
            .await
    );
    let wrong = stage.wrong().await;
    assert!(
        wrong.iter().any(|it| it.contains("the server group has")),
        "{wrong:?}"
    );
}
