//! [`audited()`]: the middleware that begins and ends the audit of each request to a router. Apply it where the router is
//! served.

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::Extensions;

use crate::event::{AuditPeer, AuditTarget};
use crate::request::{InProgress, RequestAudit};
use crate::trail::{AuditTrail, AuditUnavailable};

/// How the requests to a router are audited.
#[derive(Clone, Copy)]
pub struct ListenerAudit {
    /// Reads the sender's address or account from what the listener put into the request.
    pub peer: fn(&Extensions) -> AuditPeer,
    pub api: ApiAudit,
}

/// Who adds the API, the object and the intent of a request to its audit.
#[derive(Clone, Copy)]
pub enum ApiAudit {
    /// The API, by the [`RequestAudit`] in the request's extensions, after it has authenticated the sender.
    ByApi,
    /// The middleware, for an API without audit code.
    ByMiddleware {
        /// The CADF observer: the API that received the request, for example `service/agent`.
        observer: &'static str,
        /// The response to a request that is not carried out, because its record cannot be written.
        refuse: fn(AuditUnavailable) -> Response,
    },
}

/// Adds the audit to a router. Each change, each login and each refusal (401, 403, 429) leaves a record; each other read leaves
/// one only with `[audit] reads`. With `[audit] required`, a change leaves two: one before it and one after it.
pub fn audited(router: Router, trail: &AuditTrail, listener: ListenerAudit) -> Router {
    router.layer(from_fn_with_state((trail.clone(), listener), audit))
}

async fn audit(
    State((trail, listener)): State<(AuditTrail, ListenerAudit)>,
    mut request: Request,
    next: Next,
) -> Response {
    let peer = (listener.peer)(request.extensions());
    let audit = RequestAudit::begin(&trail, &request, peer);
    // If the client goes away, `progress` is dropped, and writes a record with an unknown outcome.
    let progress = InProgress::of(audit.clone());
    if let ApiAudit::ByMiddleware { observer, refuse } = listener.api {
        audit.observe(observer);
        audit.set_target(AuditTarget::of_path(observer, request.uri().path()));
        if let Err(unavailable) = audit.record_intent().await {
            let response = refuse(unavailable);
            progress.answered(response.status()).await;
            return response;
        }
    }
    // An API that audits itself reads it.
    request.extensions_mut().insert(audit);
    let response = next.run(request).await;
    progress.answered(response.status()).await;
    response
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use axum::body::Body;
    use axum::response::IntoResponse as _;
    use axum::routing::{get, post};
    use http::StatusCode;
    use serde_json::Value;
    use tower::ServiceExt as _;

    use super::*;
    use crate::AuditOptions;

    fn trail(file: &Path, required: bool, reads: bool) -> AuditTrail {
        let options = AuditOptions {
            file: Some(file.to_owned()),
            required,
            reads,
        };
        AuditTrail::open(&options).unwrap()
    }

    fn router(trail: &AuditTrail) -> Router {
        let routes = Router::new()
            .route("/thing", get(|| async { "read" }).post(|| async { "made" }))
            .route("/secret", get(|| async { StatusCode::FORBIDDEN }))
            .route("/wait", post(std::future::pending::<()>));
        let listener = ListenerAudit {
            peer: |_| AuditPeer::Address(None),
            api: ApiAudit::ByMiddleware {
                observer: "service/test",
                refuse: |unavailable| {
                    let text = unavailable.to_string();
                    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
                },
            },
        };
        audited(routes, trail, listener)
    }

    async fn ask(router: &Router, method: &str, path: &str) -> StatusCode {
        let request = Request::builder().method(method).uri(path);
        let request = request.body(Body::empty()).unwrap();
        router.clone().oneshot(request).await.unwrap().status()
    }

    /// Method, path and outcome of each record.
    fn records(file: &Path) -> Vec<String> {
        let text = fs::read_to_string(file).unwrap();
        let lines = text.lines().map(|line| {
            let record: Value = serde_json::from_str(line).unwrap();
            let text = |key: &str| record[key].as_str().unwrap().to_owned();
            [text("requestMethod"), text("requestPath"), text("outcome")].join(" ")
        });
        lines.collect()
    }

    #[tokio::test]
    async fn each_change_and_each_refusal_leaves_a_record_and_reads_only_if_they_are_wanted() {
        let folder = tempfile::tempdir().unwrap();
        for (reads, wanted) in [
            (false, &["POST /thing success", "GET /secret failure"][..]),
            (
                true,
                &[
                    "GET /thing success",
                    "POST /thing success",
                    "GET /secret failure",
                    "GET /none failure",
                ],
            ),
        ] {
            let file = folder.path().join(format!("{reads}.log"));
            let router = router(&trail(&file, false, reads));
            for (method, path) in [
                ("GET", "/thing"),
                ("POST", "/thing"),
                ("GET", "/secret"),
                ("GET", "/none"),
            ] {
                ask(&router, method, path).await;
            }
            assert_eq!(records(&file), wanted);
        }
    }

    #[tokio::test]
    async fn a_request_whose_client_goes_away_leaves_a_record_of_unknown_outcome() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("audit.log");
        let router = router(&trail(&file, false, false));
        let never = ask(&router, "POST", "/wait");
        let soon = std::time::Duration::from_millis(10);
        assert!(tokio::time::timeout(soon, never).await.is_err());
        // The end of the trail waits for its records.
        drop(router);
        assert_eq!(records(&file), ["POST /wait unknown"]);
    }

    #[tokio::test]
    async fn a_change_is_refused_before_it_happens_while_its_required_record_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("log");
        fs::create_dir(&inner).unwrap();
        let file = inner.join("audit.log");
        let router = router(&trail(&file, true, false));
        assert_eq!(ask(&router, "POST", "/thing").await, StatusCode::OK);
        assert_eq!(
            records(&file),
            ["POST /thing pending", "POST /thing success"]
        );
        fs::remove_dir_all(&inner).unwrap();
        assert_eq!(
            ask(&router, "POST", "/thing").await,
            StatusCode::SERVICE_UNAVAILABLE
        );
        assert_eq!(ask(&router, "GET", "/thing").await, StatusCode::OK);
        fs::create_dir(&inner).unwrap();
        assert_eq!(ask(&router, "POST", "/thing").await, StatusCode::OK);
        assert_eq!(
            records(&file),
            ["POST /thing pending", "POST /thing success"]
        );
    }
}
