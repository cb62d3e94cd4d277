//! Ports whose QoS policy guarantees a bandwidth and a packet rate, with the real Placement.

use berth_client::Disposition;
use berth_conductor::GuestRunOutcome;
use berth_model::ProviderUuid;
use berth_tests::boot::{BootFault, BootStage, EffectSide, NODE, bridge, switch_agent};
use berth_tests::cloud::Cloud;
use berth_tests::peer::{PlacementSettings, RealPlacement};
use berth_tests::sample::one_of;
use berth_tests::wait::poll_until;
use berth_wire::conductor::RequestedNetwork;
use berth_wire::guest::ActionId;
use berth_wire::neutron::PortRecord;
use http::Method;
use serde_json::json;
use uuid::Uuid;

use crate::real_neutron::cloud::NetworkCloud;
use crate::real_neutron::port_stage::PortStage;
use crate::real_neutron::servers::ComputeStage;

/// A policy of the tenant that guarantees 6000 kbit/s and 40 kilopackets per second.
fn policy(name: &str) -> Uuid {
    let cloud = NetworkCloud::shared();
    let policy = json!({"policy": {"name": name, "tenant_id": cloud.tenant()}});
    let made = cloud.ask(Method::POST, "/v2.0/qos/policies", &policy);
    let id = made["policy"]["id"].as_str().expect("an id");
    for (kind, rule) in [
        (
            "minimum_bandwidth",
            json!({"min_kbps": 6000, "direction": "egress"}),
        ),
        (
            "minimum_packet_rate",
            json!({"min_kpps": 40, "direction": "any"}),
        ),
    ] {
        let path = format!("/v2.0/qos/policies/{id}/{kind}_rules");
        let rule = json!({format!("{kind}_rule"): rule});
        cloud.ask(Method::POST, &path, &rule);
    }
    id.parse().expect("a UUID")
}

/// A free port of the tenant with this policy.
fn port_with(network: Uuid, policy: Uuid) -> Uuid {
    let cloud = NetworkCloud::shared();
    let body = json!({"port": {"network_id": network, "tenant_id": cloud.tenant(), "qos_policy_id": policy}});
    let made = cloud.ask(Method::POST, "/v2.0/ports", &body);
    let id = made["port"]["id"].as_str().expect("an id");
    id.parse().expect("a UUID")
}

/// What the server has of the host's bridge and switch, in kbit/s and kilopackets per second.
async fn held(stage: &BootStage, server: Uuid) -> (u64, u64) {
    let held = stage.placement().allocations(server.into()).await;
    let held = held.expect("an answer").map(|held| held.resources);
    let of = |provider: ProviderUuid| {
        let held = held.iter().flatten();
        let amounts = held.filter(move |((of, _), _)| *of == provider);
        amounts.map(|(_, amount)| *amount).sum()
    };
    (of(bridge()), of(switch_agent()))
}

#[tokio::test]
async fn a_port_with_guarantees_gets_them_from_the_hosts_bridge_and_gives_them_back() {
    let placement = RealPlacement::lease(PlacementSettings::default()).expect("Placement starts");
    let boots = BootStage::over(Cloud::at(&placement.url())).await;
    boots.add_bandwidth("storage").await;
    let stage = ComputeStage::over(PortStage::over("guarantees", boots).await).await;
    let (cloud, client) = (NetworkCloud::shared(), &stage.ports.client);
    let held = async |server: &str| {
        let server = server.parse().expect("a UUID");
        held(&stage.ports.stage, server).await
    };
    let policy = policy("guarantees");
    let network = cloud.vlan_network("guarantees", "192.0.2.0/24").await;
    let port = || port_with(network, policy);
    let now = async |id: Uuid| -> PortRecord {
        client.port(id).await.expect("an answer").expect("the port")
    };
    let (one, two) = (port(), port());
    let with = |port: Uuid| json!({"networks": [{"port": port}]});

    let body = Some(ComputeStage::server(&with(one)));
    let early = stage.ask_since("2.71", Method::POST, "/servers", body, 400);
    assert!(early.await.to_string().contains("until microversion 2.72"));

    let id = stage.active(&with(one)).await;
    assert_eq!(held(&id).await, (6000, 40));
    let bound = now(one).await;
    assert_eq!(bound.host_id.as_deref(), Some(NODE));
    assert_eq!(bound.vif_type.as_deref(), Some("ovs"));
    let groups = bound
        .resource_request
        .clone()
        .expect("groups")
        .request_groups;
    let of = |class: &str| {
        let group = groups
            .iter()
            .find(|group| group.resources.contains_key(class));
        group
            .and_then(|group| group.id)
            .expect("a group")
            .to_string()
    };
    let expected = json!({
        of("NET_BW_EGR_KILOBIT_PER_SEC"): bridge().to_string(),
        of("NET_PACKET_RATE_KILOPACKET_PER_SEC"): switch_agent().to_string(),
    });
    assert_eq!(bound.profile.expect("a profile")["allocation"], expected);

    // The bridge cannot guarantee as much once more.
    let body = Some(ComputeStage::server(&with(two)));
    let made = stage.ask(Method::POST, "/servers", body, 202).await;
    let second = made["server"]["id"].as_str().expect("an id").to_owned();
    poll_until("the second server has no host", async || {
        let shown = stage.shown(&second).await;
        match shown["status"] == "ERROR" {
            true => Ok(()),
            false => Err(shown),
        }
    })
    .await;
    let fault = stage.shown(&second).await["fault"]["message"].to_string();
    assert!(fault.contains("NET_BW_EGR_KILOBIT_PER_SEC"), "{fault}");
    assert_eq!(held(&second).await, (0, 0));

    let delete = async |server: &str| {
        let path = format!("/servers/{server}");
        stage.ask(Method::DELETE, &path, None, 204).await;
    };
    let is_free = async |id: Uuid| {
        poll_until("the port is free", async || match now(id).await {
            port if port.device_id.is_empty() => Ok(()),
            port => Err(port),
        })
        .await;
    };
    delete(&second).await;
    is_free(two).await;

    // A port that is attached claims on the host of its server, and releases when it is detached.
    let third = stage.active(&json!({"networks": "none"})).await;
    let path = format!("/servers/{third}/os-interface");
    let attach = async |status| {
        let body = Some(json!({"interfaceAttachment": {"port_id": two}}));
        stage.ask(Method::POST, &path, body, status).await
    };
    attach(500).await;
    is_free(two).await;
    assert_eq!(held(&third).await, (0, 0));
    delete(&id).await;
    is_free(one).await;
    poll_until("the bandwidth is free", async || match held(&id).await {
        (0, 0) => Ok(()),
        held => Err(held),
    })
    .await;
    attach(200).await;
    assert_eq!(held(&third).await, (6000, 40));
    let bound = now(two).await.profile.expect("a profile");
    assert_eq!(bound["allocation"].as_object().map(|it| it.len()), Some(2));
    let detach = format!("{path}/{two}");
    stage.ask(Method::DELETE, &detach, None, 202).await;
    is_free(two).await;
    assert_eq!(held(&third).await, (0, 0));
    delete(&third).await;
    let profile = now(one).await.profile.unwrap_or_default();
    assert_eq!(profile.get("allocation"), None);

    // A new port would claim nothing, so servers have no new ports in a network with such a policy.
    let change = json!({"network": {"qos_policy_id": policy}});
    let path = format!("/v2.0/networks/{network}");
    cloud.ask(Method::PUT, &path, &change);
    let networks = json!([{"uuid": network}]);
    let body = Some(ComputeStage::server(&json!({ "networks": networks })));
    let refused = stage.ask(Method::POST, "/servers", body, 400).await;
    assert!(
        refused.to_string().contains("has a QoS policy"),
        "{refused}"
    );
    let request = stage.ports.request_with(1, "gpu", &networks);
    let conductor = stage.ports.stage.conductor();
    match stage.ports.boot(&conductor, &request).await {
        GuestRunOutcome::Failed { reason } => {
            assert!(reason.contains("has a QoS policy"), "{reason}")
        }
        end => panic!("{end:?}"),
    }
    assert_eq!(stage.ports.ports(1).await, []);
    poll_until("everything is given back", async || {
        match stage.ports.stage.wrong().await {
            wrong if wrong.is_empty() => Ok(()),
            wrong => Err(wrong),
        }
    })
    .await;
}

#[tokio::test]
async fn an_attached_port_claims_once_and_gives_it_back_whatever_fails_on_the_way() {
    let boots = BootStage::new().await;
    boots.add_bandwidth("storage").await;
    let stage = PortStage::over("guarantees-sweep", boots).await;
    let cloud = NetworkCloud::shared();
    let network = cloud.vlan_network("guarantees-sweep", "192.0.2.0/24");
    let port = port_with(network.await, policy("guarantees-sweep"));
    let now = async || {
        stage
            .client
            .port(port)
            .await
            .expect("an answer")
            .expect("the port")
    };
    let wanted = RequestedNetwork {
        port: Some(port),
        resource_request: now().await.resource_request.expect("groups"),
        ..RequestedNetwork::default()
    };
    stage.stage.effects.begin(None);
    let request = stage.request_with(1, "gpu", &json!([]));
    let guest = request.uuid();
    let end = stage.boot(&stage.stage.conductor(), &request).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");

    // Changes the interfaces until it is done or the conductor is killed; whether it was killed.
    let until_killed = async |change: &str, number: usize, fault: Option<_>| -> bool {
        stage.stage.effects.begin(fault);
        let id: ActionId = format!("{change}-{number}").parse().expect("an id");
        let run = async {
            let conductor = stage.stage.conductor();
            let once = async || match change {
                "attach" => conductor
                    .attach_interface(guest, &wanted, &id)
                    .await
                    .map(drop),
                _ => conductor.detach_interface(guest, port, &id).await,
            };
            while let Err(error) = once().await {
                assert_eq!(error.disposition(), Disposition::Retry, "{error}");
            }
        };
        tokio::select! {
            biased;
            () = stage.stage.effects.dies() => true,
            () = run => false,
        }
    };
    let mut cases = vec![("attach", None), ("detach", None)];
    for change in ["attach", "detach"] {
        until_killed(change, 0, None).await;
        let history = stage.stage.effects.history();
        let writes = history.iter().enumerate();
        let writes = writes.filter(|(_, what)| what.contains(" PUT "));
        let sides =
            writes.flat_map(|(at, _)| [false, true].map(|after| EffectSide { at: at + 1, after }));
        cases.extend(sides.map(|side| (change, Some(side))));
    }
    // At least: the port is given and bound, and its resources claimed; then they are released, and the port is free.
    assert!(cases.len() >= 12, "{cases:?}");
    for (number, (faulty, side)) in cases.into_iter().enumerate().step_by(one_of(9)) {
        for fault in [BootFault::Kill, BootFault::Error] {
            let number = 2 * number + usize::from(fault == BootFault::Kill) + 1;
            for (change, amounts) in [("attach", (6000, 40)), ("detach", (0, 0))] {
                let side = side.filter(|_| change == faulty);
                if until_killed(change, number, side.map(|side| (side, fault))).await {
                    until_killed(change, number, None).await;
                }
                assert_eq!(
                    held(&stage.stage, *guest.as_uuid()).await,
                    amounts,
                    "{side:?}"
                );
                let device = now().await.device_id;
                assert_eq!(device.is_empty(), change == "detach", "{side:?}");
            }
        }
    }
    stage.stage.judge().await;
}
