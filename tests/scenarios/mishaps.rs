//! Faults of requests to Placement: which request, the number of its occurrence, and the fault.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_client::{HttpService, RouteTemplate, TransportError};
use berth_tests::cloud::Cloud;
use berth_tests::fault::busy;
use bytes::Bytes;
use http::{Request, Response};
use serde_json::json;

/// How a request goes wrong.
#[derive(Clone)]
pub(crate) enum RequestMishap {
    /// It is answered so (status, code) and not carried out.
    Refused(u16, &'static str),
    /// It is answered as done (204) and not carried out.
    Pretended,
    /// It does not arrive.
    Unreachable,
    /// It is carried out, its answer is lost.
    AnswerLost,
    /// Something else happens just before it arrives.
    ConcurrentChange(ConcurrentChange),
}

pub(crate) type ConcurrentChange =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

impl RequestMishap {
    /// This happens just before the request arrives.
    pub(crate) fn meanwhile<F: Future<Output = ()> + Send + 'static>(
        event: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self {
        Self::ConcurrentChange(Arc::new(move || Box::pin(event())))
    }

    /// Another writer was faster.
    pub(crate) const CONFLICT: Self = Self::Refused(409, "placement.concurrent_update");
}

/// Always, from the first one on.
pub(crate) const ALWAYS: Range<usize> = 0..usize::MAX;

/// The built-in Placement for a runtime with a paused clock: the clock is stopped during a request.
pub(crate) async fn placement() -> Cloud {
    let cloud = busy(Cloud::in_process()).await;
    cloud.decorated(|http| {
        HttpService::new(tower::service_fn(move |request| {
            let http = http.clone();
            async move { busy(http.send(request)).await }
        }))
    })
}

/// The same Placement, with this mishap for the requests `METHOD route` of these numbers, counted from 0.
pub(crate) fn mishap(
    cloud: &Cloud,
    line: &'static str,
    which: Range<usize>,
    how: &RequestMishap,
) -> Cloud {
    let (count, how) = (Arc::new(AtomicUsize::new(0)), how.clone());
    cloud.decorated(|http| {
        HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
            let (http, how) = (http.clone(), how.clone());
            let struck =
                matches(&request, line) && which.contains(&count.fetch_add(1, Ordering::SeqCst));
            async move {
                if struck {
                    befall(&http, request, how).await
                } else {
                    http.send(request).await
                }
            }
        }))
    })
}

fn matches(request: &Request<Bytes>, line: &str) -> bool {
    let route = request.extensions().get::<RouteTemplate>();
    route.is_some_and(|route| line == format!("{} {}", request.method(), route.0))
}

async fn befall(
    http: &HttpService,
    request: Request<Bytes>,
    how: RequestMishap,
) -> Result<Response<Bytes>, TransportError> {
    match how {
        RequestMishap::Refused(status, code) => {
            let error = json!({"status": status, "title": "", "detail": "so it is", "code": code,
                "request_id": "req-1"});
            let answer = Response::builder()
                .status(status)
                .header("content-type", "application/json")
                .body(json!({"errors": [error]}).to_string().into());
            Ok(answer.expect("a whole answer"))
        }
        RequestMishap::Pretended => {
            let answer = Response::builder().status(204).body(Bytes::new());
            Ok(answer.expect("a whole answer"))
        }
        RequestMishap::Unreachable => Err(TransportError::Refused {
            peer: "placement:8778".to_owned(),
        }),
        RequestMishap::AnswerLost => {
            http.send(request).await?;
            Err(TransportError::Closed {
                reason: "connection reset by peer".to_owned(),
            })
        }
        RequestMishap::ConcurrentChange(event) => {
            event().await;
            http.send(request).await
        }
    }
}
