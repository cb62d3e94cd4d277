//! The TLS listeners: one accepts only clients with a certificate of its authority, the other accepts all. Each test waits for an effect of the
//! server, however long it takes.

mod authority;
mod files;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use authority::{Authority, Pair};
use axum::routing::get;
use axum::{Extension, Router};
use berth_serve::{
    ClientFiles, ReloadableTls, ServeLimits, TlsClient, TlsFiles, serve_https, serve_tls,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, version};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const ASK: &[u8] = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";
const SHORT: Duration = Duration::from_millis(50);
/// Longer than any test.
const LONG: Duration = Duration::from_hours(1);

fn limits() -> ServeLimits {
    ServeLimits {
        connections: 64,
        idle: LONG,
        head: LONG,
        body: LONG,
        grace: SHORT,
        ..ServeLimits::default()
    }
}

struct Served {
    folder: TempDir,
    authority: Authority,
    address: SocketAddr,
    door: ReloadableTls,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

impl Served {
    async fn with(limits: ServeLimits) -> Self {
        let folder = TempDir::new().expect("a folder");
        let authority = Authority::new(folder.path(), "authority");
        let door = ReloadableTls::open(files(&authority)).expect("good files");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async { stopped.await.unwrap_or_default() };
        let router = Router::new().route("/", get(who));
        let service = move |client| router.clone().layer(Extension::<TlsClient>(client));
        let served = door.clone();
        let ended = tokio::spawn(async move {
            serve_tls(listener, served, limits, service, stopped).await;
        });
        Self {
            folder,
            authority,
            address,
            door,
            stop,
            ended,
        }
    }

    async fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).await;
        stream.expect("it is served")
    }

    /// The handshake as this client sees it: with TLS 1.3 a refusal comes when it reads.
    async fn shake(
        &self,
        client: Option<&Pair>,
        version: &'static SupportedProtocolVersion,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let connector = connector(&self.authority, client, version);
        let name = ServerName::try_from("localhost").expect("a name");
        connector.connect(name, self.connect().await).await
    }

    /// The identity that the server saw; an error if it saw none.
    async fn asked(
        &self,
        client: Option<&Pair>,
        version: &'static SupportedProtocolVersion,
    ) -> std::io::Result<String> {
        let mut stream = self.shake(client, version).await?;
        answered(&mut stream).await
    }
}

async fn who(Extension(client): Extension<TlsClient>) -> String {
    format!("for {}.", client.holder)
}

async fn answered(stream: &mut TlsStream<TcpStream>) -> std::io::Result<String> {
    stream.write_all(ASK).await?;
    let mut answer = String::new();
    while !answer.ends_with(").") {
        let mut some = [0; 512];
        let length = stream.read(&mut some).await?;
        if length == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        answer.push_str(&String::from_utf8_lossy(&some[..length]));
    }
    Ok(answer)
}

fn files(authority: &Authority) -> TlsFiles {
    let Pair { certificate, key } = authority.server();
    TlsFiles {
        certificate,
        key,
        clients: Some(ClientFiles {
            ca: authority.own.certificate.clone(),
            crl: Vec::new(),
        }),
    }
}

fn connector(
    trusted: &Authority,
    client: Option<&Pair>,
    version: &'static SupportedProtocolVersion,
) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(&trusted.own.certificate).expect("PEM");
    roots.add(authority).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .expect("a version")
        .with_root_certificates(roots);
    let config = match client {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let certificate = CertificateDer::from_pem_file(&pair.certificate).expect("PEM");
            let key = PrivateKeyDer::from_pem_file(&pair.key).expect("PEM");
            let config = builder.with_client_auth_cert(vec![certificate], key);
            config.expect("a pair")
        }
    };
    TlsConnector::from(Arc::new(config))
}

/// All that comes until the server closes.
async fn to_the_close(mut stream: TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    // A reset is a close, too.
    let _ = stream.read_to_end(&mut all).await;
    all
}

#[tokio::test]
async fn who_shows_a_certificate_of_the_authority_is_served_and_known() {
    let served = Served::with(limits()).await;
    let client = served.authority.client();
    for version in [&version::TLS12, &version::TLS13] {
        let answer = served.asked(Some(&client), version).await.unwrap();
        let known = "for CN=conductor,O=Example (DNS:conductor-1, URI:spiffe://example/conductor, IP:192.0.2.7).";
        assert!(answer.ends_with(known), "{answer}");
    }
}

#[tokio::test]
async fn who_shows_no_certificate_a_foreign_one_or_a_listeners_is_refused() {
    let served = Served::with(limits()).await;
    let untrusted = Authority::new(served.folder.path(), "strangers");
    let cases = [
        ("none", None),
        ("a stranger's", Some(untrusted.client())),
        // The stranger's, called as ours is.
        (
            "of a namesake",
            Some(Authority::new(&served.folder.path().join("other"), "authority").client()),
        ),
        ("made for a listener", Some(served.authority.server())),
    ];
    for (what, pair) in cases {
        for version in [&version::TLS12, &version::TLS13] {
            let refused = served.asked(pair.as_ref(), version).await;
            assert!(refused.is_err(), "{what}: {refused:?}");
        }
    }
    let client = served.authority.client();
    let answer = served.asked(Some(&client), &version::TLS13).await;
    assert!(answer.is_ok(), "{answer:?}");
}

#[tokio::test]
async fn plain_http_is_refused_with_the_scheme_to_write() {
    let served = Served::with(limits()).await;
    let mut stream = served.connect().await;
    stream.write_all(ASK).await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = to_the_close(stream).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer:?}");
    assert!(
        answer.ends_with("write https:// in the URL.\n"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_client_without_a_certificate_is_served_where_none_is_required() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let clients = None;
    let files = TlsFiles {
        clients,
        ..files(&authority)
    };
    let door = ReloadableTls::open(files).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = |client: SocketAddr, _| {
        let answer = format!("for ({}).", client.ip());
        Router::new().route("/", get(|| async { answer }))
    };
    let serving = serve_https(listener, door, limits(), service, std::future::pending());
    let serving = tokio::spawn(serving);
    for version in [&version::TLS12, &version::TLS13] {
        let connector = connector(&authority, None, version);
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let mut stream = connector.connect(name, stream).await.unwrap();
        let answer = answered(&mut stream).await.unwrap();
        assert!(answer.ends_with("for (127.0.0.1)."), "{answer}");
    }
    let others = Authority::new(folder.path(), "others");
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let distrusted = connector(&others, None, &version::TLS13)
        .connect(name, stream)
        .await;
    assert!(distrusted.is_err());
    serving.abort();
}

#[tokio::test]
async fn a_revoked_certificate_is_refused_once_its_list_is_loaded() {
    let served = Served::with(limits()).await;
    let client = served.authority.client();
    assert!(served.asked(Some(&client), &version::TLS13).await.is_ok());
    // The list revokes another certificate at first.
    for (revoked, admitted) in [(served.authority.server(), true), (client.clone(), false)] {
        let list = served.authority.revoke(&revoked);
        let clients = Some(ClientFiles {
            ca: served.authority.own.certificate.clone(),
            crl: vec![list],
        });
        let files = TlsFiles {
            clients,
            ..served.door.files().clone()
        };
        let settings = files.read(std::time::SystemTime::now()).unwrap();
        served.door.take(settings);
        for version in [&version::TLS12, &version::TLS13] {
            let asked = served.asked(Some(&client), version).await;
            assert_eq!(asked.is_ok(), admitted, "{asked:?}");
        }
    }
}

#[tokio::test]
async fn a_handshake_that_does_not_come_or_comes_drop_by_drop_is_cut_off() {
    let head = SHORT;
    let served = Served::with(ServeLimits { head, ..limits() }).await;
    to_the_close(served.connect().await).await;

    let (mut from, mut to) = served.connect().await.into_split();
    let dropping = async {
        // A record of 512 bytes, of which one comes at a time.
        to.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc])
            .await
            .unwrap();
        while to.write_all(&[0]).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let closed = async { while matches!(from.read(&mut [0; 64]).await, Ok(1..)) {} };
    tokio::select! { () = dropping => {}, () = closed => {} }
}

#[tokio::test]
async fn a_handshake_holds_its_place_and_one_that_ends_frees_it() {
    let served = Served::with(limits()).await;
    let mut silent: Vec<_> = Vec::new();
    for _ in 0..limits().connections {
        silent.push(served.connect().await);
    }
    let client = served.authority.client();
    let mut asked = std::pin::pin!(served.asked(Some(&client), &version::TLS13));
    // All places are held, so the one too many is not answered, however long it waits.
    let early = tokio::time::timeout(SHORT, asked.as_mut()).await;
    assert!(early.is_err(), "{early:?}");
    drop(silent.pop());
    assert!(asked.await.is_ok());
}

#[tokio::test]
async fn handshakes_that_do_not_come_give_way_to_one_that_does() {
    let idle = SHORT;
    let served = Served::with(ServeLimits { idle, ..limits() }).await;
    let mut silent: Vec<_> = Vec::new();
    for _ in 0..limits().connections {
        silent.push(served.connect().await);
    }
    let client = served.authority.client();
    let asked = served.asked(Some(&client), &version::TLS13).await;
    assert!(asked.is_ok());
}

#[tokio::test]
async fn sixty_four_clients_are_served_at_once() {
    let served = Served::with(limits()).await;
    let client = served.authority.client();
    let mut streams = Vec::new();
    for _ in 0..limits().connections {
        streams.push(served.shake(Some(&client), &version::TLS13).await.unwrap());
    }
    for stream in &mut streams {
        assert!(answered(stream).await.is_ok());
    }
}

#[tokio::test]
async fn new_settings_are_for_new_connections_and_open_ones_go_on() {
    let served = Served::with(limits()).await;
    let before = served.authority.client();
    let mut open = served.shake(Some(&before), &version::TLS13).await.unwrap();
    answered(&mut open).await.unwrap();

    // The same host, another authority for clients.
    let next = Authority::new(served.folder.path(), "next");
    let files = TlsFiles {
        clients: files(&next).clients,
        ..served.door.files().clone()
    };
    served
        .door
        .take(files.read(std::time::SystemTime::now()).unwrap());

    for version in [&version::TLS12, &version::TLS13] {
        assert!(served.asked(Some(&before), version).await.is_err());
        assert!(served.asked(Some(&next.client()), version).await.is_ok());
    }
    answered(&mut open).await.unwrap();
}

#[tokio::test]
async fn no_handshake_holds_up_the_stop() {
    let grace = LONG;
    let served = Served::with(ServeLimits { grace, ..limits() }).await;
    let silent = served.connect().await;
    served.stop.send(()).unwrap();
    served.ended.await.unwrap();
    to_the_close(silent).await;
}
