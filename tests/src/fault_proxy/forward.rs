//! Forwards one request to the service and its answer back, with a fault on the way.

use std::net::SocketAddr;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;

use super::rule::{ErrorAnswer, ProxyFault};
use crate::exchange::exchange;

/// The connection to the client ends here, without (more of) an answer.
#[derive(Debug, thiserror::Error)]
#[error("cut by the fault proxy")]
pub(super) struct ConnectionCut;

pub(super) type Body = UnsyncBoxBody<Bytes, ConnectionCut>;

/// What the client gets.
pub(super) async fn answer(
    upstream: SocketAddr,
    request: Request<Bytes>,
    fault: Option<ProxyFault>,
) -> Result<Response<Body>, ConnectionCut> {
    let Some(fault) = fault else {
        return Ok(forward(upstream, request).await?.map(whole));
    };
    match fault {
        ProxyFault::Answer(error_answer) => return Ok(error(error_answer).map(whole)),
        ProxyFault::DropBefore => return Err(ConnectionCut),
        ProxyFault::Instead(ref act) => {
            act_apart(act).await;
            return Err(ConnectionCut);
        }
        ProxyFault::Twice => drop(forward(upstream, request.clone()).await?),
        ProxyFault::DelayBefore(pause) => tokio::time::sleep(pause).await,
        ProxyFault::Before(ref act) => act_apart(act).await,
        _ => {}
    }
    let answer = forward(upstream, request).await?;
    match fault {
        ProxyFault::DropAfter => Err(ConnectionCut),
        ProxyFault::DelayAfter(pause) => {
            tokio::time::sleep(pause).await;
            Ok(answer.map(whole))
        }
        ProxyFault::After(ref act) => {
            act_apart(act).await;
            Ok(answer.map(whole))
        }
        ProxyFault::Truncate => truncated(answer),
        ProxyFault::Garbage => {
            Ok(answer.map(|_| whole(Bytes::from_static(b"<html>\xff\xfe not JSON"))))
        }
        ProxyFault::Endless => Ok(answer.map(|_| endless())),
        _ => Ok(answer.map(whole)),
    }
}

/// A closure may block (it kills a process and waits), so it runs on a thread that may.
async fn act_apart(act: &std::sync::Arc<dyn Fn() + Send + Sync>) {
    let act = std::sync::Arc::clone(act);
    // A panic in the closure is the test's own and shows there.
    let _ = tokio::task::spawn_blocking(move || act()).await;
}

/// The service's answer. Where it gives none the client's connection is cut too, as if there were no proxy.
async fn forward(
    upstream: SocketAddr,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, ConnectionCut> {
    let mut answer = exchange(upstream, request)
        .await
        .map_err(|_| ConnectionCut)?;
    for hop in [
        header::CONNECTION,
        header::TRANSFER_ENCODING,
        header::CONTENT_LENGTH,
    ] {
        answer.headers_mut().remove(hop);
    }
    Ok(answer)
}

/// keystonemiddleware's 401 has another shape than Placement's errors.
fn error(error_answer: ErrorAnswer) -> Response<Bytes> {
    let status = error_answer.status.as_u16();
    let title = error_answer.status.canonical_reason().unwrap_or_default();
    let body = if error_answer.status == StatusCode::UNAUTHORIZED {
        serde_json::json!({"message": error_answer.detail, "code": "401 Unauthorized", "title": title})
    } else {
        serde_json::json!({"errors": [{"status": status, "title": title, "detail": error_answer.detail,
            "code": error_answer.code, "request_id": "req-00000000-0000-0000-0000-000000000000"}]})
    };
    let mut answer = Response::new(Bytes::from(body.to_string()));
    *answer.status_mut() = error_answer.status;
    let json = header::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

fn whole(body: Bytes) -> Body {
    Full::new(body)
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// Announces all of the body and sends half.
fn truncated(answer: Response<Bytes>) -> Result<Response<Body>, ConnectionCut> {
    if answer.body().is_empty() {
        // Nothing to halve: an answer without a body is lost whole.
        return Err(ConnectionCut);
    }
    let (mut parts, body) = answer.into_parts();
    parts
        .headers
        .insert(header::CONTENT_LENGTH, body.len().into());
    let half = body.slice(..body.len() / 2);
    let frames = stream::iter([Ok(Frame::data(half)), Err(ConnectionCut)]);
    Ok(Response::from_parts(
        parts,
        StreamBody::new(frames).boxed_unsync(),
    ))
}

fn endless() -> Body {
    let chunk = Bytes::from(vec![b' '; 64 * 1024]);
    StreamBody::new(stream::repeat(chunk).map(|chunk| Ok(Frame::data(chunk)))).boxed_unsync()
}
