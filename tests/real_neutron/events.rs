//! Neutron's events about the ports of servers: lost, too early, and twice. The agent learns from the switch that a port works,
//! so no server waits for an event; a lost or late signal of the switch is tested in `guest.rs`, `kills.rs` and `drivers/net`.

use berth_tests::boot::{AgentBehaviour, NODE};
use berth_tests::wait::poll_until;
use http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::real_neutron::cloud::NetworkCloud;
use crate::real_neutron::servers::ComputeStage;

impl ComputeStage {
    /// Reports these events about a port, all in one request.
    async fn report(&self, server: &str, port: Uuid, names: &[&str]) {
        let events = names.iter().map(
            |name| json!({"name": name, "server_uuid": server, "tag": port, "status": "completed"}),
        );
        let body = json!({"events": events.collect::<Vec<_>>()});
        let path = "/os-server-external-events";
        let answer = self.ask(Method::POST, path, Some(body), 200).await;
        for event in answer["events"].as_array().expect("events") {
            assert_eq!(event["code"], 200, "{answer}");
        }
    }

    /// The only port of a server.
    async fn port_of(&self, server: &str) -> Uuid {
        let server = server.parse().expect("a UUID");
        let ports = self.ports.client.ports_of_device(server).await;
        let ports = ports.expect("ports");
        assert_eq!(ports.len(), 1, "{ports:?}");
        ports[0].id
    }

    fn on_its_network(&self) -> Value {
        json!({"networks": [{"uuid": self.ports.network}]})
    }

    async fn has_no_wrong_ports(&self) {
        assert_eq!(self.ports.wrong_ports().await, [] as [String; 0]);
    }

    async fn delete(&self, server: &str) {
        let path = format!("/servers/{server}");
        self.ask(Method::DELETE, &path, None, 204).await;
        let guest: Uuid = server.parse().expect("a UUID");
        poll_until("the server has no port", async || {
            let ports = self.ports.client.ports_of_device(guest).await;
            match ports.expect("ports") {
                ports if ports.is_empty() => Ok(()),
                ports => Err(ports),
            }
        })
        .await;
    }
}

/// This Neutron sends no events.
#[tokio::test]
async fn a_server_gets_its_ports_and_gives_them_back_although_every_event_is_lost() {
    let stage = ComputeStage::new("events-lost").await;
    let id = stage.active(&stage.on_its_network()).await;
    assert_eq!(stage.addresses(&id, "events-lost").await.len(), 1);
    let path = format!("/servers/{id}/os-interface");
    let given = json!({"interfaceAttachment": {"port_id": stage.ports.given}});
    stage.ask(Method::POST, &path, Some(given), 200).await;
    assert_eq!(stage.addresses(&id, "events-lost").await.len(), 2);
    stage.has_no_wrong_ports().await;
    stage.delete(&id).await;
    poll_until("nothing is left", async || {
        match stage.ports.wrong_ports().await {
            wrong if wrong.is_empty() => Ok(()),
            wrong => Err(wrong),
        }
    })
    .await;
}

#[tokio::test]
async fn an_event_about_a_port_that_comes_before_its_server_is_built_changes_nothing() {
    let stage = ComputeStage::new("events-early").await;
    let agent = &stage.ports.stage.agent;
    agent.is(AgentBehaviour::Slow);
    let id = stage.building(&stage.on_its_network()).await;
    let guest: Uuid = id.parse().expect("a UUID");
    poll_until("the port is bound", async || {
        let ports = stage.ports.client.ports_of_device(guest).await;
        let ports = ports.expect("ports");
        let is_bound = |host: Option<&str>| host == Some(NODE);
        match ports.iter().any(|port| is_bound(port.host_id.as_deref())) {
            true => Ok(()),
            false => Err(ports),
        }
    })
    .await;
    let port = stage.port_of(&id).await;
    let names = [
        "network-vif-plugged",
        "network-changed",
        "network-vif-unplugged",
        "network-vif-deleted",
    ];
    stage.report(&id, port, &names).await;
    assert_eq!(stage.shown(&id).await["status"], "BUILD");
    agent.is(AgentBehaviour::Well);
    stage.wait_until_active(&id).await;
    assert_eq!(stage.port_of(&id).await, port);
    assert_eq!(stage.addresses(&id, "events-early").await.len(), 1);
    stage.has_no_wrong_ports().await;
    stage.delete(&id).await;
}

#[tokio::test]
async fn an_event_about_a_port_that_comes_twice_is_the_same_as_one() {
    let stage = ComputeStage::new("events-twice").await;
    let client = &stage.ports.client;
    let id = stage.active(&stage.on_its_network()).await;
    let port = stage.port_of(&id).await;
    let found = client.port(port).await.expect("an answer");
    let fixed = found.expect("the port").fixed_ips[0].clone();
    let body = json!({"port": {"fixed_ips": [
        {"subnet_id": fixed.subnet_id, "ip_address": fixed.ip_address}, {"subnet_id": fixed.subnet_id},
    ]}});
    let path = format!("/v2.0/ports/{port}");
    NetworkCloud::shared().ask(Method::PUT, &path, &body);
    for _ in 0..2 {
        for name in ["network-vif-plugged", "network-changed"] {
            stage.report(&id, port, &[name, name]).await;
            assert_eq!(stage.addresses(&id, "events-twice").await.len(), 2);
        }
    }
    // Of a port that exists: an old event.
    let deleted = ["network-vif-deleted", "network-vif-deleted"];
    stage.report(&id, port, &deleted).await;
    stage.has_no_wrong_ports().await;
    client.delete_port(port).await.expect("it is deleted");
    stage.report(&id, port, &deleted).await;
    poll_until("the deleted port is detached", async || {
        let shown = stage.shown(&id).await;
        match shown["addresses"] == json!({}) && shown["OS-EXT-STS:task_state"].is_null() {
            true => Ok(()),
            false => Err(shown),
        }
    })
    .await;
    stage.report(&id, port, &deleted).await;
    let path = format!("/servers/{id}/os-instance-actions");
    let actions = stage.ask(Method::GET, &path, None, 200).await;
    let actions = actions["instanceActions"].as_array().expect("actions");
    let is_detachment = |action: &&Value| action["action"] == "detach_interface";
    assert_eq!(actions.iter().filter(is_detachment).count(), 1);
    stage.has_no_wrong_ports().await;
    stage.delete(&id).await;
}

#[tokio::test]
async fn addresses_whose_events_are_lost_are_found_by_reading_the_interfaces_again() {
    let stage = ComputeStage::new("events-lost").await;
    let client = &stage.ports.client;
    let id = stage.active(&stage.on_its_network()).await;
    let port = stage.port_of(&id).await;
    let found = client.port(port).await.expect("an answer");
    let fixed = found.expect("the port").fixed_ips[0].clone();
    let reconciler = tokio::spawn({
        let compute = stage.compute.clone();
        async move { compute.run_reconciler(std::future::pending()).await }
    });
    let body = json!({"port": {"fixed_ips": [
        {"subnet_id": fixed.subnet_id, "ip_address": fixed.ip_address}, {"subnet_id": fixed.subnet_id},
    ]}});
    let path = format!("/v2.0/ports/{port}");
    NetworkCloud::shared().ask(Method::PUT, &path, &body);
    poll_until("the second address is shown", async || {
        match stage.addresses(&id, "events-lost").await {
            shown if shown.len() == 2 => Ok(()),
            shown => Err(shown),
        }
    })
    .await;
    reconciler.abort();
    stage.delete(&id).await;
}
