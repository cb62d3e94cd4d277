//! The scenarios of a compute API user, with a client that repeats its request for 20 minutes.
//!
//! As in Nova, a request for a server has no id that identifies a repetition. A client without an answer checks whether
//! a server of that name exists before it repeats the request. If its request is delivered twice, there are two
//! servers, each of which must be consistent.

use berth_tests::guest_cloud::GuestCloud;
use serde_json::{Value, json};

use super::scenarios::{GuestOutcome, RetryPauses};

/// Requests a server until one exists, and waits until it is ACTIVE or ERROR.
pub(super) async fn boot(cloud: &GuestCloud, name: &str) -> GuestOutcome {
    let mut pauses = RetryPauses::begin();
    loop {
        match cloud.servers_named(name).await {
            None => {}
            Some(servers) if servers.is_empty() => drop(cloud.ask_for_server(name).await),
            Some(servers) => {
                let statuses: Vec<&Value> = servers.iter().map(|it| &it["status"]).collect();
                let decided = |status: &&Value| **status == "ACTIVE" || **status == "ERROR";
                match statuses.iter().all(decided) {
                    true if statuses.iter().any(|status| **status == "ACTIVE") => {
                        return GuestOutcome::Done;
                    }
                    true => return GuestOutcome::Undone,
                    false => {}
                }
            }
        }
        if !pauses.again().await {
            return GuestOutcome::Held;
        }
    }
}

/// Asks until there is no server of the name.
pub(super) async fn delete(cloud: &GuestCloud, name: &str) -> GuestOutcome {
    let mut pauses = RetryPauses::begin();
    loop {
        match cloud.servers_named(name).await {
            None => {}
            Some(servers) if servers.is_empty() => return GuestOutcome::Done,
            Some(servers) => {
                for server in servers {
                    let route = "/v2.1/servers/{id}";
                    drop(cloud.asks("DELETE", route, &path(&server), None).await);
                }
            }
        }
        if !pauses.again().await {
            return GuestOutcome::Held;
        }
    }
}

/// Has it stopped, and started again.
pub(super) async fn stop_and_start(cloud: &GuestCloud, name: &str) -> GuestOutcome {
    match act(cloud, name, json!({"os-stop": null}), "SHUTOFF").await {
        GuestOutcome::Done => act(cloud, name, json!({"os-start": null}), "ACTIVE").await,
        other => other,
    }
}

/// Requests an action until the server has this status and no task; repeats it if it ended in another status.
async fn act(cloud: &GuestCloud, name: &str, action: Value, status: &str) -> GuestOutcome {
    let mut pauses = RetryPauses::begin();
    loop {
        match cloud.servers_named(name).await {
            Some(servers) if servers.is_empty() => return GuestOutcome::Refused,
            Some(servers) => {
                let is_idle = |it: &&Value| it["OS-EXT-STS:task_state"].is_null();
                for server in servers.iter().filter(is_idle) {
                    if server["status"] == status {
                        return GuestOutcome::Done;
                    }
                    let route = "/v2.1/servers/{id}/action";
                    let path = format!("{}/action", path(server));
                    drop(cloud.asks("POST", route, &path, Some(action.clone())).await);
                }
            }
            None => {}
        }
        if !pauses.again().await {
            return GuestOutcome::Held;
        }
    }
}

fn path(server: &Value) -> String {
    format!("/servers/{}", server["id"].as_str().unwrap_or_default())
}
