//! Guests with ports, booted by a conductor that is killed, or gets no answer, before and after each of its calls of Neutron.

use berth_conductor::GuestRunOutcome;
use berth_tests::boot::{AgentBehaviour, BootFault, EffectSide, NODE};
use berth_tests::wait::poll_until;
use berth_wire::conductor::RequestedNetwork;
use berth_wire::guest::NetworkSource;
use serde_json::json;
use uuid::Uuid;

use crate::real_neutron::cloud::NetworkCloud;
use crate::real_neutron::port_stage::{Goal, ONE_OF, PortStage, action_id, arrives, faults};
use crate::real_neutron::report::PortSweepTally;

/// The change of a port.
const CHANGE: &str = "network PUT /v2.0/ports/{port_id}";

#[tokio::test]
async fn a_guest_gets_its_ports_in_order_bound_to_its_host_and_gives_them_back() {
    let stage = PortStage::new("boots").await;
    stage.stage.effects.begin(None);
    let conductor = stage.stage.conductor();
    let request = stage.request(1, "gpu");
    let end = stage.boot(&conductor, &request).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    stage.has_its_ports(1).await;
    let build = stage.stage.agent.guests().remove(&stage.guest(1));
    let build = build.expect("a build request");
    let vifs = build.networks.iter().map(|network| match &network.source {
        NetworkSource::Port(vif) => vif,
        other => panic!("{other:?}"),
    });
    let vifs: Vec<_> = vifs.collect();
    assert_eq!(vifs.len(), 2);
    assert_eq!(vifs[0].meta["tag"], "front");
    assert!(!vifs[0].preserve_on_delete);
    assert_eq!(vifs[0].network.label.as_deref(), Some("boots"));
    assert_eq!(vifs[1].id, stage.given);
    assert!(vifs[1].preserve_on_delete);
    conductor
        .delete(stage.guest(1))
        .await
        .expect("it is deleted");
    arrives(&conductor, &request).await;
    stage.has_no_ports(1).await;
    stage.stage.judge().await;
}

#[tokio::test]
async fn no_port_is_left_or_made_twice_whatever_fails_on_the_way() {
    let stage = PortStage::new("sweep").await;
    let none: [String; 0] = [];
    let mut tally = PortSweepTally::default();
    let mut number = 0;
    for goal in [Goal::Boot, Goal::Delete, Goal::Attach, Goal::Detach] {
        number += 1;
        for before in goal.before() {
            stage.until_killed(number, *before, None).await;
        }
        stage.until_killed(number, goal, None).await;
        let history = stage.stage.effects.history();
        stage.until_killed(number, Goal::Delete, None).await;
        let calls = (1..).zip(history);
        let calls: Vec<_> = calls
            .filter(|(_, what)| what.starts_with("network "))
            .collect();
        tally.add_operation(goal, &calls);
        let faults = calls.iter().flat_map(|(at, what)| faults(*at, what));
        for fault in faults.step_by(ONE_OF) {
            number += 1;
            for before in goal.before() {
                stage.until_killed(number, *before, None).await;
            }
            if stage.until_killed(number, goal, Some(fault)).await {
                stage.until_killed(number, goal, None).await;
            }
            if stage.stage.effects.perform_late().await {
                stage.collect_late_ports().await;
            }
            // A port that was created twice goes with its guest.
            if fault.1 != BootFault::Twice {
                match goal {
                    Goal::Boot | Goal::Detach => stage.has_its_ports(number).await,
                    Goal::Attach => stage.has_a_port_more(number).await,
                    Goal::Delete => {}
                }
                assert_eq!(stage.wrong_ports().await, none, "{goal:?}: {fault:?}");
            }
            stage.until_killed(number, Goal::Delete, None).await;
            stage.has_no_ports(number).await;
            assert_eq!(stage.wrong_ports().await, none, "{goal:?}: {fault:?}");
            tally.add_case(goal, fault);
        }
    }
    assert!(tally.count() > 4, "{}", tally.count());
    tally.compare();
    stage.stage.judge().await;
}

/// The answer to a call is lost, and Neutron acts on it only after the guest was deleted.
#[tokio::test]
async fn what_neutron_does_after_a_guest_is_gone_is_undone_or_refused() {
    let stage = PortStage::new("late").await;
    let mut number = 1;
    stage.until_killed(number, Goal::Boot, None).await;
    let history = stage.stage.effects.history();
    stage.until_killed(number, Goal::Delete, None).await;
    for (call, acts) in [("network POST /v2.0/ports", true), (CHANGE, false)] {
        let calls = history.iter().enumerate();
        let mut calls = calls.filter(|(_, what)| *what == call);
        let last = calls.next_back().expect("a call").0;
        number += 1;
        let side = EffectSide {
            at: last + 1,
            after: false,
        };
        let fault = Some((side, BootFault::Late));
        stage.until_killed(number, Goal::Boot, fault).await;
        stage.has_its_ports(number).await;
        stage.until_killed(number, Goal::Delete, None).await;
        assert!(stage.stage.effects.perform_late().await, "{call}");
        assert_eq!(stage.ports(number).await.len(), usize::from(acts), "{call}");
        stage.collect_late_ports().await;
        stage.has_no_ports(number).await;
    }
    stage.stage.judge().await;
}

#[tokio::test]
async fn an_attempt_after_a_failed_one_has_new_ports_and_the_given_port_again() {
    let stage = PortStage::new("again").await;
    stage.stage.effects.begin(None);
    stage.stage.agent.is(AgentBehaviour::CannotBuildOne);
    let conductor = stage.stage.conductor();
    let request = stage.request(1, "gpu");
    let end = stage.boot(&conductor, &request).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    stage.has_its_ports(1).await;
    let made = stage.ports(1).await;
    let made = made.iter().find(|port| port.id != stage.given);
    let made = made.expect("a new port");
    assert!(
        made.description.contains("attempt 2"),
        "{}",
        made.description
    );
}

#[tokio::test]
async fn a_guest_gets_no_port_and_no_network_that_its_project_may_not_have() {
    let stage = PortStage::new("refused").await;
    let cloud = NetworkCloud::shared();
    stage.stage.effects.begin(None);
    let conductor = stage.stage.conductor();
    let (network, _) = cloud
        .network("other-project", "private", "192.0.2.0/24")
        .await;
    let mut wanted = cloud.port_of(network.id, Uuid::nil());
    (wanted.tenant_id, wanted.device_id) = ("other-project".to_owned(), String::new());
    let foreign = stage.client.create_port(&wanted).await.expect("a port").id;
    let used = cloud.port_of(stage.network, Uuid::new_v4());
    let used = stage.client.create_port(&used).await.expect("a port").id;
    let unknown = Uuid::new_v4();
    for (number, networks, reason) in [
        (1, json!([{"uuid": network.id}]), "could not be found"),
        (2, json!([{"uuid": unknown}]), "could not be found"),
        (3, json!([{"port": unknown}]), "could not be found"),
        (4, json!([{"port": foreign}]), "not usable for instance"),
        (5, json!([{"port": used}]), "is still in use"),
        (
            6,
            json!([{"uuid": stage.network, "fixed_ip": "198.51.100.7"}]),
            "is not a valid IP",
        ),
    ] {
        let request = stage.request_with(number, "gpu", &networks);
        let end = stage.boot(&conductor, &request).await;
        let GuestRunOutcome::Failed { reason: shown } = end else {
            panic!("{end:?}")
        };
        assert!(shown.contains(reason), "{number}: {shown}");
        assert_eq!(stage.ports(number).await, []);
    }
    // Of a request with a bad second part, the first part is given back.
    let networks = json!([{"uuid": stage.network}, {"port": stage.given}, {"port": used}]);
    let request = stage.request_with(7, "gpu", &networks);
    let end = stage.boot(&conductor, &request).await;
    assert!(matches!(end, GuestRunOutcome::Failed { .. }), "{end:?}");
    stage.has_no_ports(7).await;
    let foreign = stage.client.port(foreign).await.expect("an answer");
    assert_eq!(foreign.expect("a port").device_id, "");
    stage.stage.judge().await;
}

/// Neutron names the drivers of a binding in the answer to the request that made it, and not in that to a repeated one. The host
/// would wait for the wrong signal of the port.
#[tokio::test]
async fn a_host_learns_the_drivers_of_a_port_whose_binding_was_repeated() {
    let stage = PortStage::new("bound-again").await;
    stage.until_killed(1, Goal::Boot, None).await;
    let history = stage.stage.effects.history();
    stage.until_killed(1, Goal::Delete, None).await;
    let bind = history.iter().rposition(|what| what == CHANGE);
    let at = bind.expect("a bind") + 1;
    for (number, fault) in [(2, BootFault::Kill), (3, BootFault::Error)] {
        let side = EffectSide { at, after: true };
        let is_killed = stage.until_killed(number, Goal::Boot, Some((side, fault)));
        if is_killed.await {
            stage.until_killed(number, Goal::Boot, None).await;
        }
        let build = stage.stage.agent.guests().remove(&stage.guest(number));
        for network in build.expect("a build request").networks {
            let NetworkSource::Port(vif) = network.source else {
                panic!("{network:?}")
            };
            let drivers = vif.details.get("bound_drivers");
            assert_eq!(drivers, Some(&json!({"0": "ovn"})), "{fault:?}");
        }
        assert_eq!(stage.wrong_ports().await, [] as [String; 0]);
        stage.until_killed(number, Goal::Delete, None).await;
    }
}

/// The sweep would notice a conductor that acts before it writes.
#[tokio::test]
async fn a_conductor_that_writes_no_intent_makes_a_port_twice() {
    let stage = PortStage::new("canary").await;
    stage.stage.effects.forget_intents();
    stage.until_killed(1, Goal::Boot, None).await;
    let history = stage.stage.effects.history();
    let created = history
        .iter()
        .position(|what| what == "network POST /v2.0/ports");
    let at = created.expect("a port is created") + 1;
    stage.until_killed(1, Goal::Delete, None).await;
    let side = EffectSide { at, after: true };
    let fault = Some((side, BootFault::Kill));
    assert!(stage.until_killed(2, Goal::Boot, fault).await);
    stage.until_killed(2, Goal::Boot, None).await;
    assert_eq!(stage.ports(2).await.len(), 3);
}

#[tokio::test]
async fn a_port_that_the_host_cannot_attach_is_given_back_and_one_that_it_keeps_stays() {
    let stage = PortStage::new("kept").await;
    stage.stage.effects.begin(None);
    let conductor = stage.stage.conductor();
    let request = stage.request_with(1, "gpu", &json!([]));
    let end = stage.boot(&conductor, &request).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    let guest = stage.guest(1);
    let ids = [1, 2, 3, 4, 5].map(action_id);
    let given = RequestedNetwork {
        port: Some(stage.given),
        ..RequestedNetwork::default()
    };
    stage.stage.agent.is(AgentBehaviour::KeepsItsPorts);
    for wanted in [&stage.wanted(), &given] {
        let refused = conductor.attach_interface(guest, wanted, &ids[0]);
        let refused = refused.await.expect_err("the host refuses");
        assert!(refused.to_string().contains("did not release"), "{refused}");
        stage.has_no_ports(1).await;
    }
    stage.stage.agent.is(AgentBehaviour::Well);
    let attached = conductor.attach_interface(guest, &given, &ids[1]);
    let attached = attached.await.expect("it is attached");
    assert!(attached.preserve_on_delete);
    stage.stage.agent.is(AgentBehaviour::KeepsItsPorts);
    let detach = conductor.detach_interface(guest, stage.given, &ids[2]);
    detach.await.expect_err("the host refuses");
    assert_eq!(stage.ports(1).await.len(), 1);
    stage.stage.agent.is(AgentBehaviour::Well);
    let detach = conductor.detach_interface(guest, stage.given, &ids[3]);
    detach.await.expect("it is detached");
    stage.has_no_ports(1).await;
    // A guest takes what was attached with it.
    for (wanted, id) in [(stage.wanted(), &ids[3]), (given, &ids[4])] {
        let attached = conductor.attach_interface(guest, &wanted, id).await;
        attached.expect("it is attached");
    }
    conductor.delete(guest).await.expect("it is deleted");
    arrives(&conductor, &request).await;
    stage.has_no_ports(1).await;
}

#[tokio::test]
async fn a_deletion_does_not_wait_for_an_attachment() {
    let stage = PortStage::new("interrupted").await;
    stage.stage.effects.begin(None);
    let conductor = stage.stage.conductor();
    let request = stage.request_with(1, "gpu", &json!([]));
    let end = stage.boot(&conductor, &request).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    let (guest, wanted, id) = (stage.guest(1), stage.wanted(), action_id(1));
    stage.stage.agent.is(AgentBehaviour::Slow);
    let attach = conductor.attach_interface(guest, &wanted, &id);
    let delete = async {
        poll_until("the port is bound", async || {
            let ports = stage.ports(1).await;
            match ports
                .iter()
                .any(|port| port.host_id.as_deref() == Some(NODE))
            {
                true => Ok(()),
                false => Err(ports),
            }
        })
        .await;
        conductor.delete(guest).await.expect("it is deleted");
    };
    let (attached, ()) = tokio::join!(attach, delete);
    let refused = attached.expect_err("the guest is deleted").to_string();
    assert!(refused.contains("was interrupted"), "{refused}");
    stage.stage.agent.is(AgentBehaviour::Well);
    arrives(&conductor, &request).await;
    stage.has_no_ports(1).await;
}
