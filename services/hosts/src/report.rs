//! What an agent tells of its host, checked: pure, before the database is asked anything.

mod bounds;
mod devices;
mod node;
mod numa;

use std::collections::BTreeMap;

use berth_wire::BodyError;
use berth_wire::host_state::{HostStateBody, NodeStateBody, ServiceBody};
use uuid::Uuid;

use crate::digest;
use bounds::{FREE, few, name, short};

/// A host has so many compute nodes at most.
pub(crate) const MAX_NODES: usize = 1_000;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Report {
    pub(crate) host: String,
    pub(crate) service: ServiceBody,
    pub(crate) nodes: Vec<Node>,
    /// What the whole is called.
    pub(crate) state: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) uuid: Uuid,
    pub(crate) hypervisor_hostname: String,
    /// What its state is called.
    pub(crate) revision: String,
    /// How many guests it has.
    pub(crate) instances: i64,
    /// Its [`NodeStateBody`].
    pub(crate) body: String,
}

impl Report {
    /// Checks a body.
    ///
    /// # Errors
    /// A name, a number or a list is none that it may be, or a node is there twice; the error names the field.
    pub(crate) fn new(host: &str, body: HostStateBody) -> Result<Self, BodyError> {
        name("host", host)?;
        short("service.version", &body.service.version)?;
        if let Some(reason) = &body.service.disabled_reason {
            bounds::text("service.disabled_reason", reason, FREE)?;
        }
        few("nodes", body.nodes.len(), MAX_NODES)?;
        let mut nodes = Vec::with_capacity(body.nodes.len());
        let mut known = Known::default();
        for (place, told) in body.nodes.into_iter().enumerate() {
            let place = format!("nodes[{place}]");
            known
                .see(&told, &place)
                .and_then(|()| node::check(&told))
                .and_then(|()| Node::new(&told))
                .map(|node| nodes.push(node))
                .map_err(|error| error.under(&place))?;
        }
        let service = encoded("service", &body.service)?;
        let revisions = nodes.iter().map(|node| node.revision.as_str());
        let state = digest::of(std::iter::once(service.as_str()).chain(revisions));
        Ok(Self {
            host: host.to_owned(),
            service: body.service,
            nodes,
            state,
        })
    }
}

impl Node {
    fn new(told: &NodeStateBody) -> Result<Self, BodyError> {
        let body = encoded("body", told)?;
        Ok(Self {
            uuid: told.uuid,
            hypervisor_hostname: told.hypervisor_hostname.clone(),
            revision: digest::of([body.as_str()]),
            instances: i64::try_from(told.instances.len()).unwrap_or(i64::MAX),
            body,
        })
    }
}

/// What comes once, and where.
#[derive(Default)]
struct Known {
    uuids: BTreeMap<Uuid, String>,
    names: BTreeMap<String, String>,
}

impl Known {
    fn see(&mut self, told: &NodeStateBody, place: &str) -> Result<(), BodyError> {
        let twice = |field, other: String| {
            let reason = format!("{other} has it too, and each node has its own");
            Err(BodyError::field(field, reason))
        };
        if let Some(other) = self.uuids.insert(told.uuid, place.to_owned()) {
            return twice("uuid", other);
        }
        let name = told.hypervisor_hostname.clone();
        match self.names.insert(name, place.to_owned()) {
            Some(other) => twice("hypervisor_hostname", other),
            None => Ok(()),
        }
    }
}

/// As it is kept.
fn encoded(field: &str, body: &impl serde::Serialize) -> Result<String, BodyError> {
    serde_json::to_string(body).map_err(|error| BodyError::field(field, error))
}

/// A host's name, as paths and bodies have it.
pub(crate) fn host_name(host: &str) -> Result<(), BodyError> {
    name("host", host)
}

/// Why an operator, or an agent, wants no new guests on a host.
pub(crate) fn reason(field: &str, reason: &str) -> Result<(), BodyError> {
    bounds::text(field, reason, FREE)
}

/// A name of an operator's choice: a cell's, say.
pub(crate) fn own_name(field: &str, text: &str) -> Result<(), BodyError> {
    name(field, text)
}

#[cfg(test)]
mod tests;
