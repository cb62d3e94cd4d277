//! What a tenant asks of the compute API, as a client that never gives up asks it.
//!
//! A request for a server has no name by which its repetition were known, here as in Nova: a client that hears no answer looks
//! whether there is a server of that name before it asks again. Where its request arrives twice on the way, there are two servers,
//! each of which must be whole.

use berth_tests::guest_cloud::GuestCloud;
use serde_json::Value;

use super::journeys::{Outcome, Pauses};

/// The server's name.
const NAME: &str = "vm1";

/// Asks for a server until there is one, and waits until it runs or is not to be.
pub(super) async fn boot(cloud: &GuestCloud) -> Outcome {
    let mut pauses = Pauses::begin();
    loop {
        match cloud.servers_named(NAME).await {
            None => {}
            Some(servers) if servers.is_empty() => drop(cloud.ask_for_server(NAME).await),
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
pub(super) async fn delete(cloud: &GuestCloud) -> Outcome {
    let mut pauses = Pauses::begin();
    loop {
        match cloud.servers_named(NAME).await {
            None => {}
            Some(servers) if servers.is_empty() => return Outcome::Done,
            Some(servers) => {
                for server in servers {
                    let path = format!("/servers/{}", server["id"].as_str().unwrap_or_default());
                    let route = "/v2.1/servers/{id}";
                    drop(cloud.asks("DELETE", route, &path, None).await);
                }
            }
        }
        if !pauses.again().await {
            return Outcome::Held;
        }
    }
}
