//! Real connections on loopback: TCP, TLS, a unix socket, and an axum router in this process.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use axum::serve::ListenerExt;
use berth_client::{
    AdapterOptions, Auth, GuestApiError, GuestClient, HttpService, PlacementClient, PlacementError,
    Secret, ServiceCallError, TransportError, TransportOptions, UpgradedConnection,
};
use berth_model::{ConsoleKind, ProviderUuid};
use http::Request;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use uuid::Uuid;

use crate::script::options;

const NO_PROVIDERS: &str = r#"{"resource_providers": []}"#;

fn root() -> ProviderUuid {
    Uuid::from_u128(1).into()
}

fn router() -> Router {
    Router::new()
        .route("/resource_providers", get(|| async { NO_PROVIDERS }))
        .route("/long", get(|| async { "x".repeat(100_000) }))
}

fn client(http: HttpService, endpoint: &str) -> PlacementClient {
    PlacementClient::new(
        http,
        Auth::admin_token(endpoint, &Secret::from("admin")).unwrap(),
        &options(),
    )
}

fn network(change: impl FnOnce(&mut TransportOptions)) -> HttpService {
    let mut options = TransportOptions::default();
    change(&mut options);
    HttpService::network(&options).unwrap()
}

async fn get_from(http: &HttpService, url: String) -> Result<usize, TransportError> {
    let request = Request::get(url).body(bytes::Bytes::new()).unwrap();
    http.send(request).await.map(|answer| answer.body().len())
}

#[tokio::test]
async fn one_router_answers_in_process_over_tcp_and_over_a_unix_socket() {
    let in_process = HttpService::in_process::<_, axum::body::Body, _>(router(), 1 << 20);
    client(in_process, "http://placement")
        .providers_in_tree(root())
        .await
        .unwrap();

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(axum::serve(listener, router()).into_future());
    let http = network(|_| {});
    client(http.clone(), &format!("http://{address}"))
        .providers_in_tree(root())
        .await
        .unwrap();
    assert_eq!(
        get_from(&http, format!("http://{address}/long")).await,
        Ok(100_000)
    );
    server.abort();

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("placement.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let server = tokio::spawn(axum::serve(listener, router()).into_future());
    let http = HttpService::unix(&path, &TransportOptions::default()).unwrap();
    client(http, "http://placement")
        .providers_in_tree(root())
        .await
        .unwrap();
    server.abort();
}

#[tokio::test]
async fn bodies_over_the_limit_are_refused_whatever_the_way() {
    let in_process = HttpService::in_process::<_, axum::body::Body, _>(router(), 99_999);
    let limit = 99_999;
    let error = get_from(&in_process, "http://x/long".into()).await;
    assert_eq!(error, Err(TransportError::TooLarge { limit }));

    let http = network(|options| options.body_limit = limit);
    let announced = speak(b"HTTP/1.1 200 OK\r\ncontent-length: 9000000000\r\n\r\n");
    assert_eq!(
        get_from(&http, format!("http://{announced}/")).await,
        Err(TransportError::TooLarge { limit })
    );
    let mut chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..200 {
        chunked.extend_from_slice(b"400\r\n");
        chunked.extend_from_slice(&[b'x'; 0x400]);
        chunked.extend_from_slice(b"\r\n");
    }
    let unannounced = speak(&chunked);
    assert_eq!(
        get_from(&http, format!("http://{unannounced}/")).await,
        Err(TransportError::TooLarge { limit })
    );
}

/// A server that answers each connection with these bytes, then closes it.
fn speak(bytes: &[u8]) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let bytes = bytes.to_vec();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            read_head(&mut stream);
            let _ = stream.write_all(&bytes);
        }
    });
    address
}

fn read_head(stream: &mut impl Read) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
        head.push(byte[0]);
    }
}

#[tokio::test]
async fn broken_connections_are_distinguished() {
    let http = network(|options| options.connect_timeout = Duration::from_secs(5));
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let error = get_from(&http, format!("http://{free}/"))
        .await
        .unwrap_err();
    assert_eq!(
        error,
        TransportError::Refused {
            peer: free.to_string()
        }
    );

    let unknown = get_from(&http, "http://no-such-host.invalid/".into())
        .await
        .unwrap_err();
    assert!(
        matches!(&unknown, TransportError::Unresolved { host } if host == "no-such-host.invalid"),
        "{unknown:?}"
    );
    assert_eq!(unknown.to_string(), "cannot resolve no-such-host.invalid");
    assert_eq!(
        unknown.hint("placement", "endpoint_override").as_deref(),
        Some("correct the host name in [placement] endpoint_override")
    );

    for (what, bytes) in [
        (
            "cut in the body",
            &b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"resource"[..],
        ),
        ("cut in the head", b"HTTP/1.1 200 OK\r\ncont"),
        ("closed at once", b""),
        ("no HTTP", b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
    ] {
        let address = speak(bytes);
        let error = get_from(&http, format!("http://{address}/"))
            .await
            .unwrap_err();
        assert!(
            matches!(error, TransportError::Closed { .. }),
            "{what}: {error:?}"
        );
    }

    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("absent.sock");
    let http = HttpService::unix(&absent, &TransportOptions::default()).unwrap();
    let error = get_from(&http, "http://placement/".into())
        .await
        .unwrap_err();
    let shown = absent.display();
    assert_eq!(
        error.to_string(),
        format!("cannot connect to {shown}: No such file or directory")
    );
}

#[tokio::test]
async fn a_port_that_does_not_speak_tls_is_named_and_the_hint_is_http() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // The greeting of TLS has no end of a head of HTTP.
            let _ = stream.read(&mut [0; 16]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let error = get_from(&network(|_| {}), format!("https://{address}/"))
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), format!("{address} does not speak TLS"));
    assert_eq!(
        error.hint("placement", "endpoint_override").as_deref(),
        Some("write http:// in [placement] endpoint_override")
    );
}

/// uWSGI's http-socket in small: it answers one request per connection, says nothing of closing, and closes.
#[tokio::test]
async fn a_server_that_closes_after_each_answer_without_a_word_loses_no_request() {
    let body = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{NO_PROVIDERS}",
        NO_PROVIDERS.len()
    );
    let endpoint = format!("http://{}", speak(body.as_bytes()));
    let http = network(|_| {});
    let client = client(http.clone(), &endpoint);
    for _ in 0..200 {
        client.providers_in_tree(root()).await.unwrap();
        let post = Request::post(&endpoint)
            .body(bytes::Bytes::from("{}"))
            .unwrap();
        http.send(post).await.unwrap();
    }
}

/// A server of kept connections: it counts them.
#[tokio::test]
async fn reads_share_a_connection_and_a_post_has_its_own() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let accepted = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&accepted);
    let listener = listener.tap_io(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let server = tokio::spawn(axum::serve(listener, router()).into_future());
    let http = network(|_| {});
    let client = client(http.clone(), &endpoint);
    for _ in 0..5 {
        client.providers_in_tree(root()).await.unwrap();
    }
    assert_eq!(accepted.load(Ordering::SeqCst), 1);
    let post = Request::post(&endpoint).body(bytes::Bytes::new()).unwrap();
    http.send(post).await.unwrap();
    assert_eq!(accepted.load(Ordering::SeqCst), 2);
    server.abort();
}

#[tokio::test]
async fn a_redirect_is_not_followed_but_reported() {
    let address =
        speak(b"HTTP/1.1 301 Moved\r\nlocation: https://elsewhere/\r\ncontent-length: 0\r\n\r\n");
    let error = client(network(|_| {}), &format!("http://{address}"))
        .providers_in_tree(root())
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("set endpoint_override"),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let auth = Auth::none(&endpoint).unwrap();
    let timeout = Duration::from_millis(200);
    let client = PlacementClient::new(
        network(|_| {}),
        auth,
        &AdapterOptions {
            timeout,
            ..options()
        },
    );
    let error = client.providers_in_tree(root()).await.unwrap_err();
    let PlacementError::Call(ServiceCallError::Transport { reason, .. }) = error else {
        panic!("{error:?}")
    };
    assert_eq!(reason, TransportError::Timeout { after: timeout });
}

/// An authority and a server for 127.0.0.1, made for these tests alone; good until the year 2126.
fn certificate(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/client/tls")
        .join(name)
}

/// A TLS server that answers every connection with an empty list of providers.
fn speak_tls() -> SocketAddr {
    let chain = CertificateDer::pem_file_iter(certificate("server.pem"))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let key = PrivateKeyDer::from_pem_file(certificate("server.key")).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(chain, key)
    .unwrap();
    let config = Arc::new(config);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut tls = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::Stream::new(&mut tls, &mut stream);
            read_head(&mut stream);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{NO_PROVIDERS}",
                NO_PROVIDERS.len()
            );
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    address
}

#[tokio::test]
async fn tls_trusts_only_the_cafile_unless_configured() {
    let endpoint = format!("https://{}", speak_tls());
    let trusting = network(|options| options.cafile = Some(certificate("authority.pem")));
    client(trusting, &endpoint)
        .providers_in_tree(root())
        .await
        .unwrap();
    let careless = network(|options| options.insecure = true);
    client(careless, &endpoint)
        .providers_in_tree(root())
        .await
        .unwrap();
    let error = get_from(&network(|_| {}), format!("{endpoint}/"))
        .await
        .unwrap_err();
    let peer = endpoint.trim_start_matches("https://");
    assert_eq!(
        error.to_string(),
        format!("the certificate of {peer} is not trusted: its authority is unknown")
    );
    assert_eq!(
        error.hint("cyborg", "endpoint_override").as_deref(),
        Some("set [cyborg] cafile to the certificate of the authority that signed it")
    );
    let plain = get_from(&network(|_| {}), endpoint.replace("https", "http"))
        .await
        .unwrap_err();
    assert!(matches!(plain, TransportError::Closed { .. }), "{plain:?}");
}

#[test]
fn certificate_files_that_cannot_be_used_are_named_at_once() {
    let error = |change: fn(&mut TransportOptions)| {
        let mut options = TransportOptions::default();
        change(&mut options);
        HttpService::network(&options).unwrap_err().to_string()
    };
    assert!(
        error(|o| o.cafile = Some("/no/such.pem".into()))
            .starts_with("cafile: /no/such.pem cannot be used: ")
    );
    let none = error(|o| o.cafile = Some(certificate("server.key")));
    assert!(none.contains("it holds no certificate"), "{none}");
    let alone = error(|o| o.keyfile = Some("/k".into()));
    assert!(alone.contains("there is no certfile"), "{alone}");
    let keyless = error(|o| o.certfile = Some(certificate("server.pem")));
    assert!(keyless.starts_with("certfile: "), "{keyless}");
    let both = HttpService::network(&TransportOptions {
        certfile: Some(certificate("server.pem")),
        keyfile: Some(certificate("server.key")),
        ..TransportOptions::default()
    });
    assert!(both.is_ok());
}

/// Switches to a protocol that answers each byte with the same one; in this process by an extension.
async fn switch(mut request: axum::extract::Request) -> axum::response::Response {
    let upgrade = request
        .extensions_mut()
        .remove::<hyper::upgrade::OnUpgrade>();
    let wanted = request.headers().get("upgrade").cloned();
    let Some(wanted) = wanted else {
        return axum::response::IntoResponse::into_response((http::StatusCode::CONFLICT, "{}"));
    };
    let mut response = axum::response::Response::default();
    *response.status_mut() = http::StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert("connection", http::HeaderValue::from_static("upgrade"));
    headers.insert("upgrade", wanted);
    let (console, guest) = tokio::io::duplex(64);
    tokio::spawn(async move {
        let (mut reader, mut writer) = tokio::io::split(guest);
        tokio::io::copy(&mut reader, &mut writer).await
    });
    match upgrade {
        None => {
            let connection = UpgradedConnection::new(console);
            response.extensions_mut().insert(connection);
        }
        Some(upgrade) => {
            tokio::spawn(async move {
                let mut upgraded = hyper_util::rt::TokioIo::new(upgrade.await.unwrap());
                let mut console = console;
                tokio::io::copy_bidirectional(&mut upgraded, &mut console).await
            });
        }
    }
    response
}

#[tokio::test]
async fn a_console_is_opened_in_process_over_tcp_and_over_a_unix_socket() {
    let router = || Router::new().fallback(switch);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let unix = tokio::net::UnixListener::bind(&path).unwrap();
    tokio::spawn(async move { axum::serve(unix, router()).await });
    let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(tcp, router()).await });
    let options = TransportOptions::default();
    for (http, root) in [
        (
            HttpService::in_process::<_, axum::body::Body, _>(router(), 1 << 20),
            "http://agent".to_owned(),
        ),
        (network(|_| {}), format!("http://{address}")),
        (
            HttpService::unix(&path, &options).unwrap(),
            "http://agent".to_owned(),
        ),
    ] {
        let auth = Auth::none(&root).unwrap();
        let client = GuestClient::new(http, auth, &self::options());
        let guest = Uuid::from_u128(7).into();
        let mut console = client
            .open_console(guest, ConsoleKind::Serial)
            .await
            .unwrap();
        console.write_all(b"\x00login\xff").await.unwrap();
        let mut read = [0; 7];
        console.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"\x00login\xff", "{root}");
        let refused = client.console_address(guest, ConsoleKind::Vnc).await;
        assert!(
            matches!(refused, Err(GuestApiError::Conflict(_))),
            "{refused:?}"
        );
    }
}
