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

/// The longest DNS name with its last dot, in characters (RFC 1035).
const LONGEST_NAME: usize = 254;

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

/// Whether the value is a host with or without a port: a name of letters, digits, `-`, `_` and dots, an IPv4 address, or an
/// IPv6 address in brackets. Names in other characters have no use here (RFC 3986 allows them). It is empty if the URL has no
/// host.
fn is_host(value: &HeaderValue) -> bool {
    let Ok(value) = value.to_str() else {
        return false;
    };
    if value.is_empty() {
        return true;
    }
    if let Some(rest) = value.strip_prefix('[') {
        return rest.split_once(']').is_some_and(|(address, port)| {
            address.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || is_port(port))
        });
    }
    let (name, port) = value.split_at(value.find(':').unwrap_or(value.len()));
    is_name(name) && (port.is_empty() || is_port(port))
}

/// Whether the text is `:` and a port. A port may be left out after the colon (RFC 3986, section 3.2.3).
fn is_port(text: &str) -> bool {
    let digits = text.strip_prefix(':').unwrap_or("not a port");
    digits.is_empty()
        || (digits.bytes().all(|it| it.is_ascii_digit()) && digits.parse::<u16>().is_ok())
}

/// Whether the text is a DNS name, with or without its last dot.
fn is_name(text: &str) -> bool {
    let is_in_label = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_');
    let labels = text.strip_suffix('.').unwrap_or(text).split('.');
    text.len() <= LONGEST_NAME
        && labels
            .into_iter()
            .all(|label| !label.is_empty() && label.bytes().all(is_in_label))
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

    #[test]
    fn a_host_header_is_a_name_or_an_address_with_or_without_a_port() {
        for (host, expected) in [
            ("localhost", true),
            ("Cloud-1.example:8774", true),
            ("cloud_1.example.", true),
            ("192.0.2.1:65535", true),
            ("[2001:db8::1]:8774", true),
            ("[::1]", true),
            ("localhost:", true),
            ("", true),
            (":8774", false),
            ("evil:99999", false),
            ("evil:+80", false),
            ("evil:80:80", false),
            ("a,b", false),
            ("a b", false),
            ("user@localhost", false),
            ("http://localhost", false),
            ("localhost/", false),
            ("[evil]", false),
            ("[::1", false),
            ("[::1]80", false),
            ("[127.0.0.1]", false),
            ("..", false),
            (".", false),
            ("a..b", false),
            ("%6c.example", false),
            (&"a.".repeat(128), false),
        ] {
            let value = HeaderValue::from_str(host).unwrap();
            assert_eq!(is_host(&value), expected, "{host}");
        }
        assert!(!is_host(&HeaderValue::from_bytes(b"caf\xe9").unwrap()));
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
