//! `[agent] events_listen`, which gets the real Cyborg's events about binds: its authentication, the accepted events,
//! and its log.

use std::net::SocketAddr;

use berth_tests::berth::RunningBerth;
use berth_tests::exchange::{HttpAnswer, HttpCall};
use berth_tests::port::free_port;
use serde_json::{Value, json};

use crate::program::hypervisor::{Hypervisor, PATIENCE};
use crate::program::keystone::Region;
use crate::program::placement_api::Api;

const KNOWN: &str = "5c965fc9-a7cd-4d38-8ccb-d8821db50d03";
const UNKNOWN: &str = "5c965fc9-a7cd-4d38-8ccb-d8821db50d04";
const ARQ: &str = "ad5ad7b5-8b0c-4a3b-8f3c-3a0e2a0c0001";

/// A node with an agent that receives events, and with one guest.
struct EventNode {
    node: Hypervisor,
    agent: RunningBerth,
    address: SocketAddr,
}

impl EventNode {
    fn open(mut node: Hypervisor) -> Self {
        let port = free_port().expect("a port");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        node.home
            .set_env("BERTH__AGENT__EVENTS_LISTEN", address.to_string());
        let mut agent = node.start(&["--log-level", "trace", "agent"]);
        node.wait_until_healthy(&mut agent);
        let name = node.run(&["agent", "status", "-f", "value", "-c", "node"]);
        let body = json!({"uuid": KNOWN, "name": "vm", "project_id": "p", "node": name.stdout.trim(),
            "flavor": {"name": "f", "vcpus": 1, "ram_mb": 64}, "power": "shut_off"});
        let spec = node
            .home
            .write("guest.json", &body.to_string())
            .expect("a file");
        let made = node.run(&["guest", "create", "--spec", &spec.display().to_string()]);
        assert_eq!(made.code, 0, "{}", made.stderr);
        Self {
            node,
            agent,
            address,
        }
    }

    fn post(&self, token: Option<&str>, body: &str) -> HttpAnswer {
        let url = format!("http://{}/v2.1/os-server-external-events", self.address);
        let body = serde_json::from_str(body).unwrap_or_else(|_| json!(body));
        let ask = HttpCall::post(url)
            .header("openstack-api-version", "compute 2.82")
            .json(&body);
        let ask = match token {
            Some(token) => ask.header("x-auth-token", token),
            None => ask,
        };
        ask.send().expect("an answer")
    }

    /// What an event of this guest is answered with.
    #[track_caller]
    fn expect_code(&self, token: Option<&str>, guest: &str, status: u16, code: u16) {
        let answer = self.post(token, &bound(guest).to_string());
        assert_eq!(answer.status.as_u16(), status, "{}", answer.text());
        let body = answer.json();
        assert_eq!(body["events"][0]["code"], code, "{body}");
        assert_eq!(body["events"][0]["server_uuid"], guest, "{body}");
    }

    #[track_caller]
    fn refused(&self, token: Option<&str>, body: &str, status: u16, name: &str) {
        let answer = self.post(token, body);
        assert_eq!(answer.status.as_u16(), status, "{}", answer.text());
        let document = answer.json();
        let message = document[name]["message"].as_str().unwrap_or_default();
        assert!(!message.is_empty(), "{document}");
    }
}

/// As the real Cyborg tells it.
fn bound(guest: &str) -> Value {
    json!({"events": [{"name": "accelerator-request-bound", "server_uuid": guest, "tag": ARQ, "status": "completed"}]})
}

const BAD: [&str; 7] = [
    "no object",
    "{}",
    r#"{"events": []}"#,
    r#"{"events": [{"name": "accelerator-request-bound", "tag": "x", "status": "completed"}]}"#,
    r#"{"events": [{"name": "fly", "server_uuid": "5c965fc9-a7cd-4d38-8ccb-d8821db50d03"}]}"#,
    r#"{"events": [{"name": "accelerator-request-bound", "server_uuid": "one"}]}"#,
    r#"{"events": [{"name": "accelerator-request-bound", "server_uuid": "5c965fc9-a7cd-4d38-8ccb-d8821db50d03",
        "status": "perhaps"}]}"#,
];

#[test]
fn with_noauth2_local_callers_are_accepted_and_invalid_events_refused() {
    let api = Api::lease();
    let mut node = Hypervisor::new("pcpu", "events-1", &api.way());
    node.home
        .set_env("BERTH__AGENT__EVENTS_AUTH_STRATEGY", "noauth2");
    let door = EventNode::open(node);
    door.expect_code(None, KNOWN, 200, 200);
    // As Nova answers for a guest without a host: the real Cyborg takes a 404 for a failed bind.
    door.expect_code(None, UNKNOWN, 207, 422);
    door.expect_code(Some("anybody's"), KNOWN, 200, 200);
    for body in BAD {
        door.refused(None, body, 400, "badRequest");
    }
    let huge = format!("\"{}\"", "x".repeat(70_000));
    door.refused(None, &huge, 413, "overLimit");
    // Only events: the agent's own API is elsewhere.
    let other = HttpCall::get(format!("http://{}/v1/guests", door.address)).send();
    assert_eq!(other.expect("an answer").status.as_u16(), 404);
    let ended = door.agent.stop(PATIENCE).expect("it ends");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    drop(door.node);
}

#[test]
fn with_keystone_only_a_service_token_is_accepted_and_no_token_is_logged() {
    let region = Region::shared();
    let keystone = &region.keystone;
    let berth = keystone.berth();
    let node = Hypervisor::new("pcpu", "events-2", &region.login(&berth));
    let mut node = node;
    for (option, value) in region.account(&berth) {
        let key = format!("BERTH__KEYSTONE_AUTHTOKEN__{option}");
        node.home.set_env(&key, value);
    }
    let door = EventNode::open(node);
    let token = |who| keystone.token(who).expect("a token");
    let (tenant, elsewhere) = (keystone.tenant(), keystone.tenant_service());
    let (service, tenant) = (token(&berth), token(&tenant));
    door.expect_code(Some(&service), KNOWN, 200, 200);
    door.expect_code(Some(&service), UNKNOWN, 207, 422);
    // Nova's rule asks for the role, whatever the project.
    let elsewhere = token(&elsewhere);
    door.expect_code(Some(&elsewhere), KNOWN, 200, 200);
    let event = bound(KNOWN).to_string();
    door.refused(Some(&tenant), &event, 403, "forbidden");
    door.refused(None, &event, 401, "unauthorized");
    door.refused(Some("made-up-token"), &event, 401, "unauthorized");
    door.refused(Some("two\u{fc}"), &event, 401, "unauthorized");
    for body in BAD {
        door.refused(Some(&service), body, 400, "badRequest");
        // An unauthorized caller learns nothing about the events.
        door.refused(Some(&tenant), body, 403, "forbidden");
    }
    let revoked = token(&berth);
    keystone.revoke(&revoked).expect("it is revoked");
    door.refused(Some(&revoked), &event, 401, "unauthorized");

    let log = door.agent.stop(PATIENCE).expect("it ends").stderr;
    for secret in [&service, &tenant, &elsewhere, &revoked] {
        assert!(!log.contains(secret.as_str()), "a token is in the log");
    }
    assert!(!log.contains("made-up-token"), "a token is in the log");
    for (option, value) in region.account(&berth) {
        if option == "PASSWORD" {
            assert!(!log.contains(&value), "the password is in the log");
        }
    }
    drop(door.node);
}
