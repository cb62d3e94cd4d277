//! Planted bugs in the conductor's care of ports: the judge of the sweeps must find each.

use berth_conductor::GuestRunOutcome;
use berth_tests::boot::{AgentBehaviour, BootFault, EffectSide, PortBug};
use serde_json::json;

use crate::real_neutron::port_stage::{Goal, PortStage, arrives};

/// A stage with this bug.
async fn stage_with(name: &str, bug: Option<PortBug>) -> PortStage {
    let stage = PortStage::new(name).await;
    if let Some(bug) = bug {
        stage.stage.effects.plant(bug);
    }
    stage
}

/// The judge finds wrong ports, and says this of them; without a bug it finds none.
async fn judge_finds(stage: &PortStage, bug: Option<PortBug>, what: &str) {
    let wrong = stage.wrong_ports().await;
    let is_found = !wrong.is_empty() && wrong.iter().all(|one| one.contains(what));
    match bug {
        None => assert_eq!(wrong, [] as [String; 0]),
        Some(bug) => assert!(is_found, "{bug:?}: {wrong:?}"),
    }
}

#[tokio::test]
async fn a_port_that_a_deletion_or_a_failed_boot_leaves_behind_is_found() {
    for (number, bug) in [
        None,
        Some(PortBug::KeepsPorts),
        Some(PortBug::KeepsBindings),
    ]
    .into_iter()
    .enumerate()
    {
        for behaviour in [AgentBehaviour::Well, AgentBehaviour::CannotBuild] {
            let stage = stage_with(&format!("left-{number}"), bug).await;
            stage.stage.effects.begin(None);
            stage.stage.agent.is(behaviour.clone());
            let (conductor, request) = (stage.stage.conductor(), stage.request(1, "gpu"));
            let end = stage.boot(&conductor, &request).await;
            if behaviour == AgentBehaviour::Well {
                assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
                assert_eq!(stage.wrong_ports().await, [] as [String; 0]);
                let deleted = conductor.delete(stage.guest(1)).await;
                deleted.expect("it is deleted");
                arrives(&conductor, &request).await;
            } else {
                assert!(matches!(end, GuestRunOutcome::Failed { .. }), "{end:?}");
            }
            let left = format!("is left to guest \"{}\"", stage.guest(1));
            judge_finds(&stage, bug, &left).await;
        }
    }
}

/// The second guest gets the port after the conductor has read it for the first one.
#[tokio::test]
async fn of_two_boots_with_the_same_port_one_is_refused_and_a_port_of_two_guests_is_found() {
    for bug in [None, Some(PortBug::IgnoresRevisions)] {
        let name = if bug.is_none() { "race" } else { "race-lost" };
        let stage = stage_with(name, bug).await;
        stage.stage.effects.begin(None);
        let conductor = stage.stage.conductor();
        let networks = json!([{"port": stage.given}]);
        let [first, second] = [1, 2].map(|number| stage.request_with(number, "gpu", &networks));
        let other = conductor.clone();
        let change = "network PUT /v2.0/ports/{port_id}";
        stage.stage.effects.before_nth(1, change, async move {
            // In a task of its own: two boots are too much for one stack.
            let boot = tokio::spawn(async move {
                while other.create(&second).await.is_err() {}
                let end = arrives(&other, &second).await;
                assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
            });
            boot.await.expect("the second guest boots");
        });
        let end = stage.boot(&conductor, &first).await;
        match (bug, end) {
            (None, GuestRunOutcome::Failed { reason }) => {
                assert!(reason.contains("is still in use"), "{reason}");
                stage.judge().await;
            }
            (Some(_), GuestRunOutcome::Active) => {
                let wrong = stage.wrong_ports().await;
                let guests = [1, 2].map(|number| stage.guest(number));
                let found = format!("port {} is of the guests {guests:?}", stage.given);
                assert!(wrong.contains(&found), "{wrong:?}");
            }
            (bug, end) => panic!("{bug:?}: {end:?}"),
        }
    }
}

/// The bind of the given port takes effect after its guest was deleted.
#[tokio::test]
async fn a_late_bind_that_ignores_what_happened_to_its_port_is_found() {
    let bug = Some(PortBug::IgnoresRevisions);
    let stage = stage_with("late-bind", bug).await;
    stage.until_killed(1, Goal::Boot, None).await;
    let history = stage.stage.effects.history();
    stage.until_killed(1, Goal::Delete, None).await;
    let is_bind = |what: &String| what == "network PUT /v2.0/ports/{port_id}";
    let bind = history.iter().rposition(is_bind).expect("a bind");
    let side = EffectSide {
        at: bind + 1,
        after: false,
    };
    let fault = Some((side, BootFault::Late));
    stage.until_killed(2, Goal::Boot, fault).await;
    stage.until_killed(2, Goal::Delete, None).await;
    judge_finds(&stage, None, "").await;
    assert!(stage.stage.effects.perform_late().await);
    stage.collect_late_ports().await;
    let left = format!("is left to guest \"{}\"", stage.guest(2));
    judge_finds(&stage, bug, &left).await;
}
