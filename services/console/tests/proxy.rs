//! The proxy with real websockets over TCP, and a console that is in memory.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_console::{
    ConsoleProxyOptions, ConsoleRefused, ConsoleSession, OpenConsole, Opening, router,
};
use berth_model::ConsoleKind;
use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderValue, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

type Client = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Opens the console in memory for the token `right`.
struct OneConsole(Mutex<Option<DuplexStream>>);

impl OpenConsole for OneConsole {
    fn open<'a>(&'a self, _: ConsoleKind, token: &'a str) -> Opening<'a> {
        Box::pin(async move {
            if token != "right" {
                return Err(ConsoleRefused::Token);
            }
            let stream = self.0.lock().unwrap().take();
            let stream = stream.ok_or(ConsoleRefused::Guest("it is busy".to_owned()))?;
            Ok(ConsoleSession {
                server: Uuid::from_u128(1),
                stream: Box::new(stream),
                valid_for: Duration::from_millis(50),
            })
        })
    }
}

struct Proxy {
    address: SocketAddr,
    guest: DuplexStream,
    stop: CancellationToken,
}

impl Proxy {
    async fn start(ends_with_token: bool) -> Self {
        let (guest, console) = tokio::io::duplex(1 << 10);
        let options = ConsoleProxyOptions {
            kind: ConsoleKind::Vnc,
            web: None,
            allowed_origins: Vec::new(),
            scheme: "http".to_owned(),
            ends_with_token,
        };
        let stop = CancellationToken::new();
        let consoles = Arc::new(OneConsole(Mutex::new(Some(console))));
        let routes = router(options, consoles, stop.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = routes.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
        Self {
            address,
            guest,
            stop,
        }
    }

    async fn connect(
        &self,
        token: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Client, StatusCode> {
        let url = format!("ws://{}/?token={token}", self.address);
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).unwrap();
            request.headers_mut().insert(*name, value);
        }
        match connect_async(request).await {
            Ok((client, _)) => Ok(client),
            Err(Error::Http(refused)) => Err(refused.status()),
            Err(error) => panic!("{error}"),
        }
    }
}

/// The next message with content, or the reason of the end.
async fn next(client: &mut Client) -> Result<Vec<u8>, String> {
    loop {
        match client.next().await {
            Some(Ok(Message::Binary(bytes))) => return Ok(bytes.to_vec()),
            Some(Ok(Message::Close(Some(frame)))) => return Err(frame.reason.to_string()),
            Some(Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn bytes_go_both_ways_until_the_guest_ends() {
    let mut proxy = Proxy::start(false).await;
    let origin = format!("http://{}", proxy.address);
    let headers = [
        ("sec-websocket-protocol", "binary"),
        ("origin", origin.as_str()),
    ];
    let mut client = proxy.connect("right", &headers).await.unwrap();
    proxy.guest.write_all(b"RFB 003.008\n").await.unwrap();
    assert_eq!(next(&mut client).await.unwrap(), b"RFB 003.008\n");
    client
        .send(Message::binary(&b"\x00\xff"[..]))
        .await
        .unwrap();
    client.send(Message::text("text")).await.unwrap();
    let mut typed = [0; 6];
    proxy.guest.read_exact(&mut typed).await.unwrap();
    assert_eq!(&typed, b"\x00\xfftext");
    drop(proxy.guest);
    assert_eq!(next(&mut client).await.unwrap_err(), "the guest closed it");
}

#[tokio::test]
async fn a_client_that_goes_frees_the_console() {
    let mut proxy = Proxy::start(false).await;
    let client = proxy.connect("right", &[]).await.unwrap();
    drop(client);
    assert_eq!(proxy.guest.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_wrong_token_another_site_and_a_busy_console_are_refused() {
    let proxy = Proxy::start(false).await;
    let refused = async |token: &str, headers: &[(&'static str, &str)]| {
        proxy.connect(token, headers).await.map(drop).unwrap_err()
    };
    for token in ["", "wrong"] {
        assert_eq!(refused(token, &[]).await, StatusCode::FORBIDDEN, "{token}");
    }
    let evil = [("origin", "http://evil.example.org")];
    assert_eq!(refused("right", &evil).await, StatusCode::FORBIDDEN);
    let _client = proxy.connect("right", &[]).await.unwrap();
    assert_eq!(refused("right", &[]).await, StatusCode::CONFLICT);
}

#[tokio::test]
async fn a_session_ends_with_its_token_where_that_is_configured_and_with_the_proxy() {
    let proxy = Proxy::start(true).await;
    let mut client = proxy.connect("right", &[]).await.unwrap();
    assert_eq!(next(&mut client).await.unwrap_err(), "its token expired");
    let proxy = Proxy::start(false).await;
    let mut client = proxy.connect("right", &[]).await.unwrap();
    proxy.stop.cancel();
    assert_eq!(next(&mut client).await.unwrap_err(), "the proxy stops");
}
