//! The audit of requests to services: what the service layer adds to each record, and the sender's address.
//!
//! Apply [`audited()`] where a service is served. The service layer then adds caller, request ids, operation and the rule
//! that refused the request.

use std::net::{IpAddr, SocketAddr};

use axum::Router;
use axum::extract::ConnectInfo;
use axum::response::{IntoResponse as _, Response};
use berth_audit::{ApiAudit, AuditInitiator, AuditPeer, AuditUnavailable, ListenerAudit};
use http::{Extensions, StatusCode};

use crate::auth::{Caller, TokenScope};
use crate::client_address::client_address;

pub use berth_audit::{AuditOptions, AuditTarget, AuditTrail, RequestAudit};

/// Audits each request to a router of services.
pub fn audited(router: Router, trail: &AuditTrail) -> Router {
    let listener = ListenerAudit {
        peer: |extensions| AuditPeer::Address(address_of(extensions)),
        api: ApiAudit::ByApi,
    };
    berth_audit::audited(router, trail, listener)
}

/// Audits each request to a router without a service layer. `observer` is for example `service/conductor`.
pub fn audited_as(router: Router, trail: &AuditTrail, observer: &'static str) -> Router {
    let listener = ListenerAudit {
        peer: |extensions| AuditPeer::Address(address_of(extensions)),
        api: ApiAudit::ByMiddleware { observer, refuse },
    };
    berth_audit::audited(router, trail, listener)
}

fn refuse(unavailable: AuditUnavailable) -> Response {
    let text = unavailable.to_string();
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

/// The address of the client, also behind a trusted proxy; in a router that no listener serves, that of the peer.
fn address_of(extensions: &Extensions) -> Option<IpAddr> {
    let peer = || extensions.get::<ConnectInfo<SocketAddr>>();
    client_address(extensions).or_else(|| peer().map(|ConnectInfo(peer)| peer.ip()))
}

/// The initiator of a request with a valid token.
pub(crate) fn initiator(caller: &Caller) -> AuditInitiator {
    let domain_id = match &caller.scope {
        TokenScope::Domain(id) => Some(id.clone()),
        TokenScope::Project(_) | TokenScope::System | TokenScope::Unscoped => None,
    };
    AuditInitiator {
        user_id: Some(caller.user_id.clone()),
        user_name: caller.user_name.clone(),
        user_domain_id: caller.user_domain_id.clone(),
        project_id: caller.project_id().map(str::to_owned),
        domain_id,
        is_system: caller.scope == TokenScope::System,
        roles: caller.roles.clone(),
        audit_ids: caller.audit_ids.clone(),
        credential: Some("token"),
    }
}

/// The object of an operation: its path without versions and parameters, and the last parameter.
pub(crate) fn target(observer: &str, path: &str, parameters: &[(String, String)]) -> AuditTarget {
    let is_version = |segment: &str| {
        let digits = segment.strip_prefix('v').unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit() || it == b'.')
    };
    let nouns = path
        .split('/')
        .filter(|segment| !segment.is_empty() && !segment.starts_with('{') && !is_version(segment));
    let mut type_uri = observer.to_owned();
    for noun in nouns {
        type_uri.push('/');
        type_uri.push_str(noun);
    }
    AuditTarget {
        type_uri,
        id: parameters.last().map(|(_, value)| value.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_the_noun_of_the_path_and_its_last_id() {
        let parameters = |names: &[&str]| -> Vec<(String, String)> {
            let pairs = names
                .iter()
                .map(|name| ("x".to_owned(), (*name).to_owned()));
            pairs.collect()
        };
        for (path, ids, type_uri, id) in [
            ("/v2.1/servers", &[][..], "service/compute/servers", None),
            (
                "/v2.1/servers/{id}/action",
                &["s1"],
                "service/compute/servers/action",
                Some("s1"),
            ),
            (
                "/v2.1/flavors/{id}/os-extra_specs/{key}",
                &["f1", "hw:x"],
                "service/compute/flavors/os-extra_specs",
                Some("hw:x"),
            ),
            ("/", &[], "service/compute", None),
        ] {
            let found = target("service/compute", path, &parameters(ids));
            assert_eq!(
                (found.type_uri.as_str(), found.id.as_deref()),
                (type_uri, id)
            );
        }
    }
}
