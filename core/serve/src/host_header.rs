//! The `Host` header of requests.
//!
//! - Over the network, a request has exactly one valid `Host` header (RFC 9112, section 3.2). Otherwise a proxy and this
//!   process could take it for requests to different hosts.
//! - A listener that does not authenticate its callers answers only to names of the loopback interface. A web page can
//!   direct a browser on this host to a loopback address by a DNS name of its own (DNS rebinding). The browser then sends
//!   that name as `Host`.

use std::net::{IpAddr, Ipv6Addr};

use axum::Router;
use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Version, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};

/// The body of a refusal. It does not repeat the name.
const MISDIRECTED: &str = r#"{"error": {"code": 421, "title": "Misdirected Request", "message": "This address does not authenticate its callers, so it answers only to names of the loopback interface: write 127.0.0.1, [::1] or localhost in the URL."}}"#;

/// The body of a refusal of a request without exactly one valid `Host` header.
const NOT_ONE_HOST: &str = r#"{"error": {"code": 400, "title": "Bad Request", "message": "The request does not have exactly one valid Host header, which names the host and the port of the URL."}}"#;

/// Returns the answer 400 if the request has no `Host` header, several, or a malformed one; `None` for other requests. An
/// HTTP/1.0 request needs no such header.
pub(crate) fn refuse_without_one_host<B>(request: &axum::http::Request<B>) -> Option<Response> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let is_valid = match (hosts.next(), hosts.next()) {
        (None, _) => request.version() != Version::HTTP_11,
        (Some(host), None) => is_host(host),
        (Some(_), Some(_)) => false,
    };
    if is_valid {
        return None;
    }
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        // What follows on the connection may be a part of this request.
        (header::CONNECTION, "close"),
    ];
    Some((StatusCode::BAD_REQUEST, headers, NOT_ONE_HOST).into_response())
}

/// Whether the value is a host with or without a port. It is empty if the URL has no host.
fn is_host(value: &HeaderValue) -> bool {
    let authority = Authority::try_from(value.as_bytes());
    value.is_empty() || authority.is_ok_and(|it| !it.as_str().contains('@'))
}

/// Answers 421 to requests whose `Host` or URI names another host than the loopback interface.
pub fn for_loopback_names(api: Router) -> Router {
    api.layer(from_fn(check))
}

async fn check(request: Request, next: Next) -> Response {
    let by_uri = request.uri().authority().is_none_or(is_loopback);
    if by_uri && is_for_loopback(request.headers()) {
        return next.run(request).await;
    }
    tracing::warn!(
        path = request.uri().path(),
        "request refused: its Host header is no name of the loopback interface"
    );
    let json = [(header::CONTENT_TYPE, "application/json")];
    (StatusCode::MISDIRECTED_REQUEST, json, MISDIRECTED).into_response()
}

/// Whether all `Host` headers name the loopback interface. Browsers always send one; a request without one is accepted.
fn is_for_loopback(headers: &HeaderMap) -> bool {
    headers.get_all(header::HOST).iter().all(|host| {
        let authority = Authority::try_from(host.as_bytes());
        authority.is_ok_and(|authority| is_loopback(&authority))
    })
}

fn is_loopback(authority: &Authority) -> bool {
    if authority.as_str().contains('@') {
        return false;
    }
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_loopback(),
        Ok(IpAddr::V6(address)) => is_loopback_v6(address),
        Err(_) => host.trim_end_matches('.').eq_ignore_ascii_case("localhost"),
    }
}

fn is_loopback_v6(address: Ipv6Addr) -> bool {
    let mapped = address.to_ipv4_mapped();
    address.is_loopback() || mapped.is_some_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;
    use tower::ServiceExt as _;

    use super::*;

    async fn status(request: Request) -> u16 {
        let api = Router::new().route("/", get(async || "all of it"));
        let answer = for_loopback_names(api).oneshot(request).await.unwrap();
        answer.status().as_u16()
    }

    #[tokio::test]
    async fn a_listener_without_authentication_answers_only_to_loopback_names() {
        for (host, expected) in [
            ("127.0.0.1:8778", 200),
            ("127.0.0.1", 200),
            ("127.8.8.8:1", 200),
            ("[::1]:8778", 200),
            ("[::ffff:127.0.0.1]", 200),
            ("LocalHost:8778", 200),
            ("localhost.", 200),
            ("attacker.example", 421),
            ("attacker.example:8778", 421),
            ("127.0.0.1.attacker.example", 421),
            ("localhost.attacker.example", 421),
            ("localhost@attacker.example", 421),
            ("attacker.example@localhost", 421),
            ("192.0.2.1:8778", 421),
            ("0.0.0.0:8778", 421),
            ("[2001:db8::1]:8778", 421),
            ("http://127.0.0.1:8778", 421),
            ("", 421),
        ] {
            let request = Request::get("/").header("host", host);
            let found = status(request.body(Body::empty()).unwrap()).await;
            assert_eq!(found, expected, "{host}");
        }
    }

    #[tokio::test]
    async fn neither_a_second_host_nor_the_uri_can_name_another_host() {
        let two = Request::get("/")
            .header("host", "localhost")
            .header("host", "attacker.example");
        assert_eq!(status(two.body(Body::empty()).unwrap()).await, 421);
        let absolute = Request::get("http://attacker.example/").header("host", "localhost");
        assert_eq!(status(absolute.body(Body::empty()).unwrap()).await, 421);
        let none = Request::get("/").body(Body::empty()).unwrap();
        assert_eq!(status(none).await, 200);
    }

    #[tokio::test]
    async fn a_refused_host_is_not_repeated() {
        let request = Request::get("/").header("host", "attacker.example");
        let api = for_loopback_names(Router::new());
        let answer = api.oneshot(request.body(Body::empty()).unwrap()).await;
        let body = axum::body::to_bytes(answer.unwrap().into_body(), 4096).await;
        let text = String::from_utf8(body.unwrap().to_vec()).unwrap();
        assert!(text.contains("localhost in the URL"), "{text}");
        assert!(!text.contains("attacker"), "{text}");
    }
}
