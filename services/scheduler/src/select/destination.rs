//! The hosts that a request is for, before any filter: a requested destination, hosts to leave out, hosts and nodes that are forced.

use super::record::LeftOut;
use crate::host_state::ConsideredHost;
use crate::request::RequestSpec;

/// What is left of the hosts.
#[derive(Debug, Clone)]
pub struct HostsAtDestination {
    /// The remaining hosts, in order.
    pub hosts: Vec<ConsideredHost>,
    /// Whether filters run. They do not run on forced hosts, except for a move or a rebuild.
    pub is_filtered: bool,
    /// Those of its destination that it leaves out by name.
    pub left_out: LeftOut,
}

/// Keeps the hosts that the request is for. A destination's host and node are compared letter by letter, and so are forced nodes;
/// case does not matter in hosts that are forced or left out.
#[must_use]
pub fn narrow(mut hosts: Vec<ConsideredHost>, request: &RequestSpec) -> HostsAtDestination {
    if let Some(to) = &request.requested_destination {
        let is = |wanted: Option<&String>, its: &String| wanted.is_none_or(|wanted| wanted == its);
        hosts.retain(|one| {
            is(to.host.as_ref(), &one.state.host) && is(to.node.as_ref(), &one.state.nodename)
        });
    }
    let is_any = |names: &[String], host: &str| {
        let host = host.to_lowercase();
        names.iter().any(|name| name.to_lowercase() == host)
    };
    let mut left_out = LeftOut::default();
    if !request.ignore_hosts.is_empty() {
        hosts.retain(|one| {
            let is_out = is_any(&request.ignore_hosts, &one.state.host);
            if is_out {
                left_out.count(&one.state.host);
            }
            !is_out
        });
        if hosts.is_empty() {
            return HostsAtDestination {
                hosts,
                is_filtered: false,
                left_out,
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
    HostsAtDestination {
        hosts,
        is_filtered: is_checked || !is_forced,
        left_out,
    }
}
