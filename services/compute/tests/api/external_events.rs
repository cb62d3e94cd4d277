//! Tests of external events.

use serde_json::{Value, json};
use uuid::Uuid;

use super::cloud::PORT;
use super::service::{Reply, Service};

const ARQ: &str = "c0a58289-b739-4a22-bd81-a7e022eba6ea";

async fn post_events(service: &Service, token: &str, version: &str, events: Value) -> Reply {
    let body = json!({ "events": events });
    let path = "/os-server-external-events";
    service.ask(token, version, "POST", path, Some(body)).await
}

fn bound(server: Uuid) -> Value {
    json!({"name": "accelerator-request-bound", "server_uuid": server, "tag": ARQ})
}

#[tokio::test]
async fn the_end_of_a_bind_reaches_the_agent_that_waits_for_it() {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    let server = service.running(json!({})).await;
    let reported = post_events(&service, "cyborg", "2.82", json!([bound(server)])).await;
    assert_eq!(reported.status, 200, "{reported:?}");
    let event = json!({"name": "accelerator-request-bound", "server_uuid": server, "tag": ARQ, "status": "completed", "code": 200});
    assert_eq!(reported.body, json!({"events": [event]}));
    let received = service.cloud.agent.received_events();
    assert_eq!(received.len(), 1);
    assert_eq!(
        (&received[0]["server_uuid"], &received[0]["status"]),
        (&json!(server), &json!("completed"))
    );
}

#[tokio::test]
async fn unexpected_events_are_rejected_one_by_one() {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    let server = service.running(json!({})).await;
    let waiting = service.server(json!({})).await;
    let mut failed = bound(server);
    failed["status"] = json!("failed");
    let mut untagged = bound(server);
    untagged["tag"] = json!("no-uuid");
    let events = json!([
        failed,
        bound(waiting),
        bound(Uuid::from_u128(9)),
        untagged,
        {"name": "network-changed", "server_uuid": server},
    ]);
    let reported = post_events(&service, "admin", "2.82", events).await;
    assert_eq!(reported.status, 207, "{reported:?}");
    let codes: Vec<(&Value, &Value)> = reported.body["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| (&event["code"], &event["status"]))
        .collect();
    let failed = json!("failed");
    assert_eq!(
        codes,
        [200, 422, 404, 400, 422]
            .map(|code| json!(code))
            .iter()
            .map(|code| (code, &failed))
            .collect::<Vec<_>>()
    );
    assert_eq!(service.cloud.agent.received_events().len(), 1);
}

#[tokio::test]
async fn after_an_event_about_a_port_the_addresses_of_its_server_are_read_again() {
    let service = Service::with_neutron().await;
    service.flavor("f", json!({})).await;
    let server = service.running(json!({})).await;
    service.cloud.bind_port(server).await;
    for (name, address) in [
        ("network-vif-plugged", "192.0.2.1"),
        ("network-vif-unplugged", "192.0.2.2"),
        ("network-changed", "192.0.2.3"),
    ] {
        service.cloud.neutron.set_port(server, address);
        let event = json!({"name": name, "server_uuid": server, "tag": PORT});
        let reported = post_events(&service, "cyborg", "2.1", json!([event])).await;
        assert_eq!(reported.status, 200, "{reported:?}");
        let accepted = json!({"name": name, "server_uuid": server, "tag": PORT, "status": "completed", "code": 200});
        assert_eq!(reported.body, json!({"events": [accepted]}));
        let shown = service.shown("alice", "2.82", server).await;
        let addresses = &shown["addresses"]["private"];
        assert_eq!(addresses[0]["addr"], address, "{name}: {shown}");
    }
    // The agent learns from the switch that a port works.
    assert_eq!(service.cloud.agent.received_events(), [] as [Value; 0]);
}

#[tokio::test]
async fn the_account_of_a_host_reports_events_for_servers_on_its_host_alone() {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    let server = service.running(json!({})).await;
    let waiting = service.server(json!({})).await;
    let events = || json!([bound(server), bound(waiting)]);
    let other = post_events(&service, "host/compute2", "2.82", events()).await;
    assert_eq!(other.status, 404, "{other:?}");
    assert_eq!(service.cloud.agent.received_events(), [] as [Value; 0]);
    let own = post_events(&service, "host/compute1", "2.82", events()).await;
    assert_eq!(own.status, 207, "{own:?}");
    let codes: Vec<&Value> = own.body["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| &event["code"])
        .collect();
    assert_eq!(codes, [&json!(200), &json!(404)]);
    assert_eq!(service.cloud.agent.received_events().len(), 1);
}

#[tokio::test]
async fn an_agent_that_is_away_gets_nothing() {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    let server = service.running(json!({})).await;
    service.cloud.agent.set_unreachable(true);
    let reported = post_events(&service, "cyborg", "2.82", json!([bound(server)])).await;
    assert_eq!(
        (
            reported.status.as_u16(),
            &reported.body["events"][0]["code"]
        ),
        (207, &json!(422))
    );
}

#[tokio::test]
async fn events_are_accepted_from_services_in_the_format_of_their_version() {
    let service = Service::start().await;
    let server = Uuid::from_u128(9);
    for (token, version, events, status) in [
        ("alice", "2.82", json!([bound(server)]), 403),
        ("cyborg", "2.81", json!([bound(server)]), 400),
        ("cyborg", "2.82", json!([]), 400),
        ("cyborg", "2.82", json!({}), 400),
        ("cyborg", "2.82", json!([1]), 400),
        ("cyborg", "2.82", json!([{"name": "network-changed"}]), 400),
        (
            "cyborg",
            "2.82",
            json!([{"name": "network-changed", "server_uuid": "9"}]),
            400,
        ),
        (
            "cyborg",
            "2.82",
            json!([{"name": "network-changed", "server_uuid": server, "status": "done"}]),
            400,
        ),
        (
            "cyborg",
            "2.82",
            json!([{"name": "network-changed", "server_uuid": server, "tag": ""}]),
            400,
        ),
        (
            "cyborg",
            "2.50",
            json!([{"name": "volume-extended", "server_uuid": server}]),
            400,
        ),
        (
            "cyborg",
            "2.51",
            json!([{"name": "volume-extended", "server_uuid": server}]),
            404,
        ),
    ] {
        let reported = post_events(&service, token, version, events.clone()).await;
        assert_eq!(reported.status, status, "{events} {reported:?}");
    }
}
