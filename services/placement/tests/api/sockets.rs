//! The same router behind TCP and a unix socket.

use berth_placement::{PlacementApiOptions, prepare, router, serve_tcp, serve_unix};
use berth_store::SqlStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::oneshot;

const REQUEST: &[u8] = b"GET /resource_classes/VCPU HTTP/1.1\r\nhost: placement\r\n\
x-auth-token: admin\r\nopenstack-api-version: placement 1.39\r\nconnection: close\r\n\r\n";

async fn ask(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin) -> String {
    stream.write_all(REQUEST).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn placement() -> axum::Router {
    let store = SqlStore::in_memory().await.unwrap();
    prepare(&store).await.unwrap();
    router(store, PlacementApiOptions::default())
}

#[tokio::test]
async fn tcp_answers_until_stopped() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let signal = async { stopped.await.unwrap_or_default() };
    let server = tokio::spawn(serve_tcp(listener, placement().await, signal));
    let answer = ask(TcpStream::connect(address).await.unwrap()).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("\"name\":\"VCPU\""), "{answer}");
    stop.send(()).unwrap();
    server.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_unix_socket_answers_until_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("placement.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let signal = async { stopped.await.unwrap_or_default() };
    let server = tokio::spawn(serve_unix(listener, placement().await, signal));
    let answer = ask(UnixStream::connect(&path).await.unwrap()).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    stop.send(()).unwrap();
    server.await.unwrap();
}

#[tokio::test]
async fn a_content_length_that_is_no_number_is_refused_in_words() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(serve_tcp(
        listener,
        placement().await,
        std::future::pending(),
    ));
    for length in ["hi mom", "-1", "1x", ""] {
        // After a good request on the same connection as well as before any.
        for before in [0, 1] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let text = str::from_utf8(REQUEST).unwrap();
            let good = text.replace("connection: close\r\n", "").repeat(before);
            let bad = format!(
                "POST /resource_providers HTTP/1.1\r\nhost: placement\r\nx-auth-token: admin\r\n\
                 content-type: application/json\r\ncontent-length: {length}\r\n\r\n{{}}"
            );
            let asked = format!("{good}{bad}");
            stream.write_all(asked.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            let (_, last) = answer.rsplit_once("HTTP/1.1 ").unwrap();
            assert!(last.starts_with("400 Bad Request\r\n"), "{answer}");
            let reason = "\r\n\r\ncontent-length header must be an integer\n";
            assert!(last.ends_with(reason), "{length}: {answer}");
            assert!(last.contains("content-length: 41\r\n"), "{answer}");
        }
    }
    // What else the library refuses stays as it was.
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"G@T / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains("content-length: 0\r\n"), "{answer}");
    server.abort();
}
