//! Direct ports: the conductor binds each to a function that the host selects, whatever fails on the way.

use berth_client::Disposition;
use berth_conductor::{BootRequest, GuestRunOutcome};
use berth_tests::boot::{BootFault, EffectSide, NODE};
use berth_tests::sample::one_of;
use berth_wire::conductor::RequestedNetwork;
use http::Method;
use serde_json::json;
use uuid::Uuid;

use crate::real_neutron::cloud::NetworkCloud;
use crate::real_neutron::port_stage::{Goal, PortStage, action_id, arrives};

/// A stage with a host that has a network card on `storage`. The given port is direct and on a VLAN.
async fn direct_stage(name: &str) -> PortStage {
    function_stage(name, "direct").await
}

/// A stage with a host that has a network card on `storage`. The given port has this vnic_type and is on a VLAN.
async fn function_stage(name: &str, vnic_type: &str) -> PortStage {
    let stage = PortStage::new(name).await;
    stage.stage.add_network_card("storage", 2).await;
    let cloud = NetworkCloud::shared();
    let network = cloud.vlan_network(name, "192.0.2.0/24").await;
    let mut wanted = cloud.port_of(network, Uuid::nil());
    wanted.device_id = String::new();
    wanted.vnic_type = Some(vnic_type.to_owned());
    let given = stage.client.create_port(&wanted).await.expect("a port");
    PortStage {
        given: given.id,
        ..stage
    }
}

impl PortStage {
    /// A guest with the direct port and a new one.
    fn direct_request(&self, number: u32) -> BootRequest {
        let networks = json!([
            {"port": self.given, "physical_network": "storage"},
            {"uuid": self.network},
        ]);
        self.request_with(number, "gpu", &networks)
    }

    /// The direct port is bound to the function that the host selected first.
    async fn has_its_function(&self) {
        self.has_its_slot("0000:85:10.0").await;
    }

    /// The direct port is bound to this function.
    async fn has_its_slot(&self, slot: &str) {
        let port = self.client.port(self.given).await.expect("an answer");
        let port = port.expect("the given port");
        assert_eq!(port.host_id.as_deref(), Some(NODE));
        assert_eq!(port.vif_type.as_deref(), Some("hw_veb"));
        let profile = port.profile.expect("a profile");
        let number = slot
            .rsplit('.')
            .next()
            .and_then(|text| text.parse::<u32>().ok());
        for (key, value) in [
            ("vf_num", json!(number)),
            ("pci_slot", json!(slot)),
            ("pci_vendor_info", json!("8086:10ca")),
            ("physical_network", json!("storage")),
            ("pf_mac_address", json!("52:54:00:00:00:85")),
        ] {
            assert_eq!(profile.get(key), Some(&value), "{key} of {profile:?}");
        }
    }

    /// The direct port is bound to no host and no function.
    async fn has_a_free_function(&self, number: u32) {
        self.has_no_ports(number).await;
        self.is_unbound().await;
    }

    /// The direct port is free.
    async fn is_unbound(&self) {
        let port = self.client.port(self.given).await.expect("an answer");
        let port = port.expect("the given port");
        assert_eq!(
            (port.device_id.as_str(), port.vif_type.as_deref()),
            ("", Some("unbound"))
        );
        let profile = port.profile.unwrap_or_default();
        assert!(profile.is_empty(), "{profile:?}");
    }
}

#[tokio::test]
async fn a_direct_port_is_bound_to_the_function_that_the_host_selects_and_is_free_again() {
    let stage = direct_stage("direct").await;
    stage.stage.effects.begin(None);
    let conductor = stage.stage.conductor();
    let request = stage.direct_request(1);
    let end = stage.boot(&conductor, &request).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    stage.has_its_function().await;
    // Its claim has a function of the card.
    let held = stage.stage.placement();
    let held = held.allocations(stage.guest(1)).await.expect("an answer");
    let held = held.expect("allocations").resources;
    let functions = held
        .iter()
        .filter(|((_, class), _)| class.as_str() == "SRIOV_NET_VF");
    assert_eq!(functions.map(|(_, amount)| *amount).sum::<u64>(), 1);
    conductor
        .delete(stage.guest(1))
        .await
        .expect("it is deleted");
    arrives(&conductor, &request).await;
    stage.has_a_free_function(1).await;
    stage.stage.judge().await;
}

#[tokio::test]
async fn a_macvtap_port_has_a_function_and_a_direct_physical_one_a_card_with_its_address() {
    for (vnic_type, vif_type, slot, key) in [
        ("macvtap", "hw_veb", "0000:85:10.0", "pf_mac_address"),
        (
            "direct-physical",
            "hostdev_physical",
            "0000:86:00.0",
            "device_mac_address",
        ),
    ] {
        let stage = function_stage(vnic_type, vnic_type).await;
        stage.stage.add_whole_card("storage").await;
        stage.stage.effects.begin(None);
        let conductor = stage.stage.conductor();
        let networks =
            json!([{"port": stage.given, "physical_network": "storage", "vnic_type": vnic_type}]);
        let request = stage.request_with(1, "gpu", &networks);
        let end = stage.boot(&conductor, &request).await;
        assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
        let port = stage.client.port(stage.given).await.expect("an answer");
        let port = port.expect("the given port");
        assert_eq!(port.vif_type.as_deref(), Some(vif_type));
        let profile = port.profile.expect("a profile");
        assert_eq!(profile["pci_slot"], slot);
        assert_eq!(profile.contains_key("vf_num"), vnic_type == "macvtap");
        let of_card = profile[key].as_str() == Some(&port.mac_address);
        assert_eq!(of_card, vnic_type == "direct-physical", "{profile:?}");
        conductor
            .delete(stage.guest(1))
            .await
            .expect("it is deleted");
        arrives(&conductor, &request).await;
        stage.has_a_free_function(1).await;
        stage.stage.judge().await;
    }
}

/// Its owner may change an unbound port at any time.
#[tokio::test]
async fn a_port_that_is_no_longer_direct_when_its_function_was_selected_is_not_bound() {
    let stage = direct_stage("direct-changed").await;
    stage.stage.effects.begin(None);
    let path = format!("/v2.0/ports/{}", stage.given);
    stage
        .stage
        .effects
        .before_nth(1, "agent GET /v1/guests/{uuid}", async move {
            let body = json!({"port": {"binding:vnic_type": "macvtap"}});
            NetworkCloud::shared().ask(Method::PUT, &path, &body);
        });
    let conductor = stage.stage.conductor();
    let end = stage.boot(&conductor, &stage.direct_request(1)).await;
    let GuestRunOutcome::Failed { reason } = end else {
        panic!("{end:?}")
    };
    assert!(
        reason.contains("it was direct when it was requested"),
        "{reason}"
    );
    stage.has_a_free_function(1).await;
    stage.stage.judge().await;
}

#[tokio::test]
async fn a_direct_port_is_bound_once_or_free_whatever_fails_on_the_way() {
    let stage = direct_stage("direct-sweep").await;
    let boot = async |number: u32, fault: Option<(EffectSide, BootFault)>| -> bool {
        stage.stage.effects.begin(fault);
        let request = stage.direct_request(number);
        let run = async {
            let conductor = stage.stage.conductor();
            let end = stage.boot(&conductor, &request).await;
            assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
        };
        tokio::select! {
            biased;
            () = stage.stage.effects.dies() => true,
            () = run => false,
        }
    };
    boot(1, None).await;
    let history = stage.stage.effects.history();
    let calls = history.iter().enumerate();
    // From the build request on: the host selects the function, and the conductor binds the port and tells the host.
    let calls = calls.skip_while(|(_, what)| !what.starts_with("agent "));
    let calls: Vec<_> = calls
        .filter(|(_, what)| what.starts_with("network ") || what.starts_with("agent "))
        .collect();
    let cases = calls.iter().flat_map(|(at, _)| {
        let sides = [false, true].map(|after| EffectSide { at: at + 1, after });
        sides.map(|side| [(side, BootFault::Kill), (side, BootFault::Error)])
    });
    let cases: Vec<_> = cases.flatten().collect();
    let mut number = 1;
    stage.until_killed(number, Goal::Delete, None).await;
    stage.has_a_free_function(number).await;
    for fault in cases.into_iter().step_by(one_of(13)) {
        number += 1;
        if boot(number, Some(fault)).await {
            boot(number, None).await;
        }
        stage.has_its_function().await;
        stage.until_killed(number, Goal::Delete, None).await;
        stage.has_a_free_function(number).await;
    }
    assert!(number > 4, "{calls:?}");
    stage.stage.judge().await;
}

impl PortStage {
    /// The units of network functions that the guest's claim has.
    async fn claimed_functions(&self, number: u32) -> u64 {
        let held = self.stage.placement().allocations(self.guest(number)).await;
        let held = held.expect("an answer").expect("allocations").resources;
        let functions = held
            .iter()
            .filter(|((_, class), _)| class.as_str() == "SRIOV_NET_VF");
        functions.map(|(_, amount)| *amount).sum()
    }

    /// Attaches the direct port to a guest or detaches it, until it is done or the conductor is killed; whether it was killed.
    async fn change_direct_port(
        &self,
        number: u32,
        goal: Goal,
        fault: Option<(EffectSide, BootFault)>,
    ) -> bool {
        self.stage.effects.begin(fault);
        let guest = self.guest(number);
        let wanted = RequestedNetwork {
            port: Some(self.given),
            physical_network: Some("storage".to_owned()),
            ..RequestedNetwork::default()
        };
        let (attach, detach) = (action_id(number), "detach".parse().expect("an id"));
        let run = async {
            let conductor = self.stage.conductor();
            loop {
                let done = match goal {
                    Goal::Detach => conductor.detach_interface(guest, self.given, &detach).await,
                    _ => {
                        let attached = conductor.attach_interface(guest, &wanted, &attach);
                        attached.await.map(drop)
                    }
                };
                match done {
                    Ok(()) => break,
                    Err(error) => {
                        assert_eq!(error.disposition(), Disposition::Retry, "{error}");
                    }
                }
            }
        };
        tokio::select! {
            biased;
            () = self.stage.effects.dies() => true,
            () = run => false,
        }
    }
}

#[tokio::test]
async fn a_direct_port_is_attached_with_a_claimed_function_and_detached_whatever_fails_on_the_way()
{
    let stage = direct_stage("direct-attached").await;
    stage.stage.effects.begin(None);
    let conductor = stage.stage.conductor();
    let request = stage.request_with(1, "gpu", &json!([{"uuid": stage.network}]));
    let end = stage.boot(&conductor, &request).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    let guest = stage.guest(1);
    let mut cases = 0;
    for goal in [Goal::Attach, Goal::Detach] {
        let before = match goal {
            Goal::Attach => None,
            _ => Some(Goal::Attach),
        };
        let after = async || match goal {
            Goal::Attach => {
                stage.has_its_slot("0000:85:10.1").await;
                assert_eq!(stage.claimed_functions(1).await, 1);
                assert!(stage.stage.agent.attached(guest).contains(&stage.given));
            }
            _ => {
                stage.is_unbound().await;
                assert_eq!(stage.claimed_functions(1).await, 0);
                assert!(stage.stage.agent.attached(guest).is_empty());
            }
        };
        if let Some(before) = before {
            stage.change_direct_port(1, before, None).await;
        }
        stage.change_direct_port(1, goal, None).await;
        let calls = stage.stage.effects.history().len();
        after().await;
        stage.change_direct_port(1, Goal::Detach, None).await;
        let sides = (1..=calls).flat_map(|at| [false, true].map(|after| EffectSide { at, after }));
        for side in sides.step_by(one_of(29)) {
            for fault in [BootFault::Kill, BootFault::Error] {
                cases += 1;
                if let Some(before) = before {
                    stage.change_direct_port(1, before, None).await;
                }
                if stage.change_direct_port(1, goal, Some((side, fault))).await {
                    stage.change_direct_port(1, goal, None).await;
                }
                after().await;
                stage.change_direct_port(1, Goal::Detach, None).await;
            }
        }
    }
    assert!(cases > 4, "{cases}");
    // A host that refuses keeps nothing.
    stage.stage.effects.begin(None);
    let wanted = RequestedNetwork {
        port: Some(stage.given),
        physical_network: Some("storage".to_owned()),
        trusted: true,
        ..RequestedNetwork::default()
    };
    let (conductor, id) = (stage.stage.conductor(), action_id(7));
    let refused = conductor.attach_interface(guest, &wanted, &id);
    let refused = refused.await.expect_err("no card has trusted functions");
    assert!(
        refused.to_string().contains("no free network function"),
        "{refused}"
    );
    stage.is_unbound().await;
    // The guest takes its function with it.
    stage.change_direct_port(1, Goal::Attach, None).await;
    stage.until_killed(1, Goal::Delete, None).await;
    stage.has_a_free_function(1).await;
    stage.stage.judge().await;
}
