//! `berth guest list` and `berth guest show`: merges what the agent and the conductor know about guests.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use berth_client::GuestApiError;
use berth_output::{Failure, ListFormat, Listing};
use berth_wire::conductor::GuestShown;
use berth_wire::guest::GuestBody;
use serde_json::{Value, json};

use super::clients::{GuestClients, failed, unknown};

const COLUMNS: [&str; 8] = [
    "uuid", "name", "node", "status", "state", "networks", "devices", "reason",
];

/// The interfaces with their addresses: `private=10.0.0.7, fd00::7; default`.
fn networks(guest: &GuestBody) -> String {
    let shown = guest.interfaces.iter().map(|interface| {
        let network = &interface.network;
        match interface.addresses.is_empty() {
            true => network.clone(),
            false => format!("{network}={}", interface.addresses.join(", ")),
        }
    });
    shown.collect::<Vec<_>>().join("; ")
}

/// A row for each guest of the agent.
pub(super) fn of_agent(guests: &[GuestBody]) -> Listing {
    let mut listing = Listing::new(&COLUMNS);
    for guest in guests {
        listing.push([
            json!(guest.uuid),
            json!(guest.name),
            json!(guest.node),
            json!(guest.status),
            json!(guest.state),
            json!(networks(guest)),
            json!(guest.devices.join(", ")),
            json!(guest.reason),
        ]);
    }
    listing
}

pub(super) async fn list(
    clients: &GuestClients,
    format: &ListFormat,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let at_agent = clients.agent.guests().await;
    if let Err(error) = &at_agent
        && clients.elsewhere
    {
        return Err(failed(error));
    }
    let silent = at_agent.as_ref().err().map(ToString::to_string);
    let (at_agent, asked_for) = both(at_agent, clients.conductor.guests().await)?;
    let mut at_agent = at_agent.unwrap_or_default();
    // For another host, only its agent's guests are listed.
    let Some(asked_for) = asked_for.filter(|_| !clients.elsewhere) else {
        return of_agent(&at_agent).print(format, out);
    };
    if let Some(reason) = silent
        && asked_for.guests.iter().any(|guest| guest.node.is_some())
    {
        tracing::warn!(
            %reason,
            "the agent at [agent] admin_socket does not answer: states and devices are not shown; use berth guest list --agent URL \
             for the agent of another host"
        );
    }
    let unreadable = asked_for.unreadable.into_iter();
    let mut unreadable: BTreeMap<String, String> =
        unreadable.map(|guest| (guest.uuid, guest.reason)).collect();
    for guest in &mut at_agent {
        let reason = unreadable.remove(&guest.uuid.to_string());
        guest.reason = guest.reason.take().or(reason);
    }
    let mut listing = of_agent(&at_agent);
    let there: BTreeSet<_> = at_agent.iter().map(|guest| guest.uuid).collect();
    for guest in asked_for.guests {
        // For a guest that its agent knows, the agent's row is shown.
        if !there.contains(&guest.uuid) {
            listing.push([
                json!(guest.uuid),
                json!(guest.name),
                json!(guest.node),
                json!(guest.status),
                json!(null),
                json!(""),
                json!(""),
                json!(guest.fault),
            ]);
        }
    }
    for (uuid, reason) in unreadable {
        listing.push([
            json!(uuid),
            json!(null),
            json!(null),
            json!("unreadable"),
            json!(null),
            json!(""),
            json!(""),
            json!(reason),
        ]);
    }
    listing.print(format, out)
}

pub(super) async fn one(
    clients: &GuestClients,
    meant: &str,
    format: &ListFormat,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let uuid = clients.guest(meant).await?;
    let asked_for = clients.conductor.guest(uuid).await;
    let why = asked_for.as_ref().err().and_then(refused);
    let (at_agent, asked_for) = both(clients.agent.guest(uuid).await, asked_for)?;
    let rows = rows(at_agent.flatten().as_ref(), asked_for.flatten().as_ref());
    if rows.is_empty() {
        return Err(why.unwrap_or_else(|| unknown(meant)));
    }
    let mut listing = Listing::new(&["field", "value"]);
    for (field, value) in rows {
        listing.push([json!(field), value]);
    }
    listing.print(format, out)
}

/// The failure of a reachable conductor that cannot answer.
fn refused(error: &GuestApiError) -> Option<Failure> {
    error.refusal().map(|_| failed(error))
}

/// What agent and conductor answered; fails only if neither did. Next to OpenStack, Berth runs no conductor.
fn both<A, C>(
    agent: Result<A, GuestApiError>,
    conductor: Result<C, GuestApiError>,
) -> Result<(Option<A>, Option<C>), Failure> {
    match (agent, conductor) {
        (Err(error), Err(conductor)) => Err(refused(&conductor).unwrap_or_else(|| failed(&error))),
        (agent, conductor) => Ok((agent.ok(), conductor.ok())),
    }
}

fn rows(agent: Option<&GuestBody>, conductor: Option<&GuestShown>) -> Vec<(String, Value)> {
    let mut rows: Vec<(String, Value)> = Vec::new();
    let mut add = |field: &str, value: Value| rows.push((field.to_owned(), value));
    let Some((uuid, name)) = agent
        .map(|it| (it.uuid, &it.name))
        .or_else(|| conductor.map(|it| (it.uuid, &it.name)))
    else {
        return rows;
    };
    add("uuid", json!(uuid));
    add("name", json!(name));
    let node = agent.map(|it| it.node.clone());
    let node = node.or_else(|| conductor.and_then(|it| it.node.clone()));
    add("node", json!(node));
    let status = agent.map(|it| &it.status);
    add("status", json!(status.or(conductor.map(|it| &it.status))));
    add("state", json!(agent.and_then(|it| it.state.as_ref())));
    add("networks", json!(agent.map(networks)));
    let fault = conductor.and_then(|it| it.fault.as_ref());
    add(
        "fault",
        json!(agent.and_then(|it| it.reason.as_ref()).or(fault)),
    );
    if let Some(guest) = conductor {
        add("project", json!(guest.project_id));
        add("user", json!(guest.user_id));
        add("vcpus", json!(guest.flavor.vcpus));
        add("ram_mb", json!(guest.flavor.ram_mb));
        add("disk_gb", json!(guest.flavor.disk_gb));
        let specs = guest.flavor.extra_specs.iter();
        let specs: Vec<_> = specs.map(|(key, value)| format!("{key}={value}")).collect();
        add("properties", json!(specs.join(", ")));
        add("device_profile", json!(guest.device_profile));
    }
    let requests = agent.map(|it| &it.accelerator_requests);
    let requests = requests.or(conductor.map(|it| &it.accelerator_requests));
    let requests = requests.into_iter().flatten().map(ToString::to_string);
    add(
        "accelerator_requests",
        json!(requests.collect::<Vec<_>>().join(", ")),
    );
    if let Some(guest) = agent {
        add("devices", json!(guest.devices.join(", ")));
        add("dedicated_cpus", json!(guest.dedicated_cpus));
        let cells = guest.host_cells.iter().map(ToString::to_string);
        add("host_cells", json!(cells.collect::<Vec<_>>().join(", ")));
    }
    if let Some(guest) = conductor {
        let steps = guest.steps.iter();
        let steps = steps.map(|it| format!("{}.{} {}", it.attempt, it.step, it.state));
        add("boot_steps", json!(steps.collect::<Vec<_>>().join(", ")));
    }
    if let Some(guest) = agent {
        let steps = guest.steps.iter();
        let steps = steps.map(|it| format!("{} {}", it.step, it.state));
        add("steps", json!(steps.collect::<Vec<_>>().join(", ")));
    }
    rows
}
