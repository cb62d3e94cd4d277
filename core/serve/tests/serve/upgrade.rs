//! A connection that a handler upgrades carries the handler's bytes, and no longer counts.

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use axum::routing::get;
use berth_serve::{ServeLimits, serve};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Answers with the same bytes.
async fn echo(mut request: Request) -> axum::response::Response {
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    tokio::spawn(async move {
        let upgraded = upgrade.expect("it can be upgraded").await;
        let upgraded = TokioIo::new(upgraded.expect("it is upgraded"));
        let (mut reader, mut writer) = tokio::io::split(upgraded);
        let _ = tokio::io::copy(&mut reader, &mut writer).await;
    });
    let headers = [(header::CONNECTION, "upgrade"), (header::UPGRADE, "echo")];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

async fn upgraded(address: std::net::SocketAddr) -> TcpStream {
    let mut client = TcpStream::connect(address).await.expect("it is served");
    let ask = b"GET / HTTP/1.1\r\nhost: here\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    client.write_all(ask).await.expect("it is sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.expect("an answer"));
    }
    let head = String::from_utf8_lossy(&head);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    client
}

#[tokio::test]
async fn an_upgraded_connection_carries_bytes_beyond_the_limits_of_requests() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/", get(echo));
    // An idle connection for requests would be closed at once.
    let limits = ServeLimits {
        connections: 1,
        idle: Duration::ZERO,
        head: Duration::from_millis(50),
        ..ServeLimits::default()
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(serve(
        listener,
        limits,
        move |_: &TcpStream| router.clone(),
        async move {
            let _ = stopped.await;
        },
    ));
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(upgraded(address).await);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    for client in &mut clients {
        client.write_all(b"\x00bytes\xff").await.unwrap();
        let mut read = [0; 7];
        client.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"\x00bytes\xff");
    }
    drop(stop);
    serving.await.unwrap();
}
