//! Validation of the state that an agent reports for its host, before the database is used. Pure.
//!
//! [`HostReport::new`] checks every field of the body and computes two digests: one of each node and one of the whole
//! report. An unchanged digest means that nothing has to be written.

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

/// Maximum number of compute nodes of a host.
pub(crate) const MAX_NODES: usize = 1_000;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HostReport {
    pub(crate) host: String,
    pub(crate) service: ServiceBody,
    pub(crate) nodes: Vec<NodeReport>,
    /// Digest of the service and all nodes.
    pub(crate) state: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeReport {
    pub(crate) uuid: Uuid,
    pub(crate) hypervisor_hostname: String,
    /// Digest of the node's body.
    pub(crate) revision: String,
    /// Number of guests on the node.
    pub(crate) instances: i64,
    /// The [`NodeStateBody`] as JSON.
    pub(crate) body: String,
}

impl HostReport {
    /// Checks a reported body.
    ///
    /// Errors: Names the field with an invalid name, number or list, or with a UUID or hypervisor hostname
    /// that another node has.
    pub(crate) fn new(host: &str, body: HostStateBody) -> Result<Self, BodyError> {
        name("host", host)?;
        short("service.version", &body.service.version)?;
        if let Some(reason) = &body.service.disabled_reason {
            bounds::text("service.disabled_reason", reason, FREE)?;
        }
        few("nodes", body.nodes.len(), MAX_NODES)?;
        let mut nodes = Vec::with_capacity(body.nodes.len());
        let mut known = UniqueNodes::default();
        for (place, node) in body.nodes.into_iter().enumerate() {
            let place = format!("nodes[{place}]");
            known
                .insert(&node, &place)
                .and_then(|()| node::check(&node))
                .and_then(|()| NodeReport::new(&node))
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

impl NodeReport {
    fn new(node: &NodeStateBody) -> Result<Self, BodyError> {
        let body = encoded("body", node)?;
        Ok(Self {
            uuid: node.uuid,
            hypervisor_hostname: node.hypervisor_hostname.clone(),
            revision: digest::of([body.as_str()]),
            instances: i64::try_from(node.instances.len()).unwrap_or(i64::MAX),
            body,
        })
    }
}

/// UUIDs and hypervisor hostnames seen so far, with the node that has them.
#[derive(Default)]
struct UniqueNodes {
    uuids: BTreeMap<Uuid, String>,
    names: BTreeMap<String, String>,
}

impl UniqueNodes {
    fn insert(&mut self, node: &NodeStateBody, place: &str) -> Result<(), BodyError> {
        let twice = |field, other: String| {
            let reason = format!("{other} has the same value, and it must be unique");
            Err(BodyError::field(field, reason))
        };
        if let Some(other) = self.uuids.insert(node.uuid, place.to_owned()) {
            return twice("uuid", other);
        }
        let name = node.hypervisor_hostname.clone();
        match self.names.insert(name, place.to_owned()) {
            Some(other) => twice("hypervisor_hostname", other),
            None => Ok(()),
        }
    }
}

/// Encodes a body for its column.
fn encoded(field: &str, body: &impl serde::Serialize) -> Result<String, BodyError> {
    serde_json::to_string(body).map_err(|error| BodyError::field(field, error))
}

/// Checks a host's name.
pub(crate) fn check_host_name(host: &str) -> Result<(), BodyError> {
    name("host", host)
}

/// Checks the reason for which a host is disabled.
pub(crate) fn check_reason(field: &str, reason: &str) -> Result<(), BodyError> {
    bounds::text(field, reason, FREE)
}

/// Checks a name that an operator chooses, e.g. of a cell.
pub(crate) fn check_name_text(field: &str, text: &str) -> Result<(), BodyError> {
    name(field, text)
}

#[cfg(test)]
mod tests;
