//! Tests of requests without exactly one valid `Host` header, over TCP and on a unix socket.

use std::future::pending;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::{get, post};
use berth_serve::{ServeLimits, serve};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

fn router() -> Router {
    Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/", post(|body: String| async move { body }))
}

/// The address of a server. It ends with the runtime of the test.
async fn served() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        serve(listener, ServeLimits::default(), |_| router(), pending()).await;
    });
    address
}

/// Everything that the server answers to this text.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

fn request(version: &str, hosts: &[&str]) -> String {
    let hosts: String = hosts.iter().map(|it| format!("host: {it}\r\n")).collect();
    format!("GET / HTTP/{version}\r\n{hosts}connection: close\r\n\r\n")
}

fn status(answer: &str) -> &str {
    answer.split_whitespace().nth(1).unwrap_or_default()
}

#[tokio::test]
async fn a_request_over_tcp_has_exactly_one_valid_host_header() {
    let address = served().await;
    for (version, hosts, expected) in [
        ("1.1", &["cloud.example:8770"][..], "200"),
        ("1.1", &["[2001:db8::1]:8770"], "200"),
        // The URL has no host.
        ("1.1", &[""], "200"),
        ("1.1", &[], "400"),
        ("1.1", &["a.example", "b.example"], "400"),
        ("1.1", &["a.example", "a.example"], "400"),
        ("1.1", &["a.example/path"], "400"),
        ("1.1", &["a.example b.example"], "400"),
        ("1.1", &["user@a.example"], "400"),
        ("1.1", &["a.example:99999"], "400"),
        ("1.1", &["a.example,b.example"], "400"),
        ("1.1", &["a..example"], "400"),
        ("1.0", &[], "200"),
        ("1.0", &["a.example"], "200"),
        ("1.0", &["a.example", "b.example"], "400"),
    ] {
        let stream = TcpStream::connect(address).await.unwrap();
        let answer = answer(stream, &request(version, hosts)).await;
        assert_eq!(status(&answer), expected, "{version} {hosts:?}: {answer}");
        let is_explained = answer.contains("exactly one valid Host header");
        assert_eq!(is_explained, expected == "400", "{answer}");
        assert!(!answer.contains("a.example"), "{answer}");
    }
}

#[tokio::test]
async fn nothing_after_a_request_without_one_host_header_is_answered() {
    let address = served().await;
    let good = request("1.1", &["a.example"]);
    for bad in [
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        format!(
            "POST / HTTP/1.1\r\nhost: a\r\nhost: b\r\ncontent-length: {}\r\n\r\n",
            good.len()
        ),
    ] {
        let stream = TcpStream::connect(address).await.unwrap();
        let answer = answer(stream, &format!("{bad}{good}")).await;
        assert_eq!(status(&answer), "400", "{answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
        let head = answer.to_lowercase();
        assert!(head.contains("connection: close\r\n"), "{answer}");
    }
}

#[tokio::test]
async fn a_request_on_a_unix_socket_needs_no_host_header() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        serve(listener, ServeLimits::default(), |_| router(), pending()).await;
    });
    for hosts in [&["placement"][..], &["a", "b"], &[]] {
        let stream = UnixStream::connect(&path).await.unwrap();
        let answer = answer(stream, &request("1.1", hosts)).await;
        assert_eq!(status(&answer), "200", "{hosts:?}: {answer}");
    }
}
