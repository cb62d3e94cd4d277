//! The audit of requests to the sockets and the TLS listener: who their senders are.

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::{Extensions, StatusCode};
use axum::response::Response;
use berth_audit::{ApiAudit, AuditPeer, AuditTrail, AuditUnavailable, ListenerAudit};
use berth_serve::TlsClient;

use crate::access::Peer;
use crate::refusal::refusal;

/// Audits each request. `observer` is the API, for example `service/agent`.
pub(crate) fn audited(router: Router, trail: &AuditTrail, observer: &'static str) -> Router {
    let listener = ListenerAudit {
        peer,
        api: ApiAudit::ByMiddleware { observer, refuse },
    };
    berth_audit::audited(router, trail, listener)
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

#[cfg(test)]
mod tests {
    use axum::Extension;
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use axum::routing::put;
    use berth_audit::AuditOptions;
    use serde_json::{Value, json};
    use tower::ServiceExt as _;

    use super::*;
    use crate::access::Access;
    use crate::router::restrict;

    #[tokio::test]
    async fn a_process_that_uses_the_socket_is_in_the_record_and_so_is_one_that_may_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log").join("audit.log");
        std::fs::create_dir(folder.path().join("log")).unwrap();
        let options = AuditOptions {
            file: Some(file.clone()),
            required: true,
            reads: false,
        };
        let trail = AuditTrail::open(&options).unwrap();
        let send = async |uid: u32| {
            let routes = Router::new().route("/v1/disabled", put(|| async { "done" }));
            let routes = restrict(routes, Access::of_group("no-such-group"));
            let peer = Extension(ConnectInfo(Peer::of(uid, uid)));
            let router = audited(routes, &trail, "service/agent").layer(peer);
            let request = Request::put("/v1/disabled").body(Body::empty()).unwrap();
            router.oneshot(request).await.unwrap()
        };
        assert_eq!(send(0).await.status(), StatusCode::OK);
        assert_eq!(send(65_534).await.status(), StatusCode::FORBIDDEN);
        let text = std::fs::read_to_string(&file).unwrap();
        let records: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let shown = records.iter().map(|it| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            (text(&it["initiator"]["id"]), text(&it["outcome"]))
        });
        let shown: Vec<(String, String)> = shown.collect();
        let wanted = [
            ("uid:0", "pending"),
            ("uid:0", "success"),
            ("uid:65534", "pending"),
            ("uid:65534", "failure"),
        ];
        let wanted = wanted.map(|(id, outcome)| (id.to_owned(), outcome.to_owned()));
        assert_eq!(shown, wanted);
        let target = json!({"typeURI": "service/agent/disabled", "id": "unknown"});
        assert_eq!(records[0]["target"], target);
        assert_eq!(records[0]["initiator"]["host"]["address"], "unix");

        std::fs::remove_dir_all(folder.path().join("log")).unwrap();
        let refused = send(0).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        let body = to_bytes(refused.into_body(), 1 << 16).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"]["code"], "audit", "{body}");
    }
}
