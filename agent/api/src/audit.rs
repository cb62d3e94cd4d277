//! The audit of requests to the sockets and the TLS listener: who their senders are.

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::{Extensions, StatusCode};
use axum::response::Response;
use berth_audit::{AuditDoor, AuditPeer, AuditTrail, AuditUnavailable, AuditedApi};
use berth_serve::TlsClient;

use crate::access::Peer;
use crate::refusal::refusal;

/// Audits each request. `observer` is the API, for example `service/agent`.
pub(crate) fn audited(router: Router, trail: &AuditTrail, observer: &'static str) -> Router {
    let api = AuditedApi { observer, refuse };
    let door = AuditDoor {
        peer,
        api: Some(api),
    };
    berth_audit::audited(router, trail, door)
}

/// The holder of the client's certificate, or the process at the other end of the socket.
fn peer(extensions: &Extensions) -> AuditPeer {
    if let Some(client) = extensions.get::<TlsClient>() {
        return AuditPeer::Certificate {
            holder: client.holder.to_string(),
            address: client.address.ip(),
        };
    }
    let peer = extensions.get::<ConnectInfo<Peer>>();
    let Peer { uid, gid, pid } = peer.map_or(Peer::REMOTE, |ConnectInfo(peer)| *peer);
    AuditPeer::Process { uid, gid, pid }
}

fn refuse(unavailable: AuditUnavailable) -> Response {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    refusal(status, "audit", unavailable.to_string())
}
