//! The compute node for which a request is destined.

use super::{Cloud, PlacementQueryError};
use crate::request::RequestSpec;

/// The provider tree in which Placement searches.
pub(super) enum Target {
    Any,
    /// The tree of this provider.
    One(String),
    /// The trees of several nodes of one host. One query cannot express this, so the query is not limited.
    Several,
}

/// The node of the requested destination, else of the first forced host or node.
pub(super) fn target(
    request: &RequestSpec,
    cloud: &Cloud<'_>,
) -> Result<Target, PlacementQueryError> {
    let to = request.requested_destination.as_ref();
    let (host, node) = (
        to.and_then(|to| to.host.as_ref())
            .or(request.force_hosts.first()),
        to.and_then(|to| to.node.as_ref())
            .or(request.force_nodes.first()),
    );
    let cell = to.and_then(|to| to.cell.as_ref());
    if host.is_none() && node.is_none() {
        return Ok(Target::Any);
    }
    let is = |wanted: Option<&String>, its: &String| wanted.is_none_or(|wanted| wanted == its);
    let mut found = cloud
        .computes
        .iter()
        .filter(|it| is(host, &it.host) && is(node, &it.nodename) && is(cell, &it.cell));
    match (found.next(), found.next()) {
        (None, _) => Err(PlacementQueryError::NoSuchHost {
            host: host.cloned(),
            node: node.cloned(),
        }),
        (Some(one), None) => Ok(Target::One(one.uuid.clone())),
        (Some(_), Some(_)) => Ok(Target::Several),
    }
}
