//! What a tenant asks of the compute API, as a client that never gives up asks it.
//!
//! A request for a server has no name by which its repetition were known, here as in Nova: a client that hears no answer looks
//! whether there is a server of that name before it asks again. Where its request arrives twice on the way, there are two servers,
//! each of which must be whole.

use berth_tests::guest_cloud::GuestCloud;
use serde_json::{Value, json};

use super::journeys::{Outcome, Pauses};

/// Asks for a server until there is one, and waits until it runs or is not to be.
pub(super) async fn boot(cloud: &GuestCloud, name: &str) -> Outcome {
    let mut pauses = Pauses::begin();
    loop {
        match cloud.servers_named(name).await {
            None => {}
            Some(servers) if servers.is_empty() => drop(cloud.ask_for_server(name).await),
            Some(servers) => {
                let statuses: Vec<&Value> = servers.iter().map(|it| &it["status"]).collect();
                let decided = |status: &&Value| **status == "ACTIVE" || **status == "ERROR";
                match statuses.iter().all(decided) {
                    true if statuses.iter().any(|status| **status == "ACTIVE") => {
                        return Outcome::Done;
                    }
                    true => return Outcome::Undone,
                    false => {}
                }
            }
        }
        if !pauses.again().await {
            return Outcome::Held;
        }
    }
}

/// Asks until there is no server of the name.
pub(super) async fn delete(cloud: &GuestCloud, name: &str) -> Outcome {
    let mut pauses = Pauses::begin();
    loop {
        match cloud.servers_named(name).await {
            None => {}
            Some(servers) if servers.is_empty() => return Outcome::Done,
            Some(servers) => {
                for server in servers {
                    let route = "/v2.1/servers/{id}";
                    drop(cloud.asks("DELETE", route, &path(&server), None).await);
                }
            }
        }
        if !pauses.again().await {
            return Outcome::Held;
        }
    }
}

/// Has it stopped, and started again.
pub(super) async fn stop_and_start(cloud: &GuestCloud, name: &str) -> Outcome {
    match act(cloud, name, json!({"os-stop": null}), "SHUTOFF").await {
        Outcome::Done => act(cloud, name, json!({"os-start": null}), "ACTIVE").await,
        other => other,
    }
}

/// Asks for an action until nothing is under way any more and the server has this status; again where that ended in another one.
async fn act(cloud: &GuestCloud, name: &str, action: Value, status: &str) -> Outcome {
    let mut pauses = Pauses::begin();
    loop {
        match cloud.servers_named(name).await {
            Some(servers) if servers.is_empty() => return Outcome::Refused,
            Some(servers) => {
                let is_idle = |it: &&Value| it["OS-EXT-STS:task_state"].is_null();
                for server in servers.iter().filter(is_idle) {
                    if server["status"] == status {
                        return Outcome::Done;
                    }
                    let route = "/v2.1/servers/{id}/action";
                    let path = format!("{}/action", path(server));
                    drop(cloud.asks("POST", route, &path, Some(action.clone())).await);
                }
            }
            None => {}
        }
        if !pauses.again().await {
            return Outcome::Held;
        }
    }
}

fn path(server: &Value) -> String {
    format!("/servers/{}", server["id"].as_str().unwrap_or_default())
}
