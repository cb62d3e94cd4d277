//! The hosts that a request is for, before any filter: a requested destination, hosts to leave out, hosts and nodes that are forced.

use crate::host_state::ConsideredHost;
use crate::request::RequestSpec;

/// What is left of the hosts.
#[derive(Debug, Clone)]
pub struct Narrowed {
    /// Those that are left, in their order.
    pub hosts: Vec<ConsideredHost>,
    /// Whether filters are asked about them. They are not about a host that an operator forces, unless it is checked for a move or
    /// a rebuild.
    pub is_filtered: bool,
}

/// Keeps the hosts that the request is for. A destination is compared letter by letter, and so are forced nodes; case does not
/// matter in hosts that are forced or left out.
#[must_use]
pub fn narrow(mut hosts: Vec<ConsideredHost>, request: &RequestSpec) -> Narrowed {
    let destination = request.requested_destination.as_ref();
    if let Some(to) = destination.filter(|to| to.host.is_some()) {
        let is_node = |its: &str| to.node.as_deref().is_none_or(|node| node == its);
        hosts.retain(|one| {
            Some(&one.state.host) == to.host.as_ref() && is_node(&one.state.nodename)
        });
    }
    let is_any = |names: &[String], host: &str| {
        let host = host.to_lowercase();
        names.iter().any(|name| name.to_lowercase() == host)
    };
    if !request.ignore_hosts.is_empty() {
        hosts.retain(|one| !is_any(&request.ignore_hosts, &one.state.host));
        if hosts.is_empty() {
            return Narrowed {
                hosts,
                is_filtered: false,
            };
        }
    }
    if !request.force_hosts.is_empty() {
        hosts.retain(|one| is_any(&request.force_hosts, &one.state.host));
    }
    if !request.force_nodes.is_empty() {
        hosts.retain(|one| request.force_nodes.contains(&one.state.nodename));
    }
    let is_forced = !request.force_hosts.is_empty() || !request.force_nodes.is_empty();
    let is_checked = !request.hints.all("_nova_check_type").is_empty();
    Narrowed {
        hosts,
        is_filtered: is_checked || !is_forced,
    }
}
