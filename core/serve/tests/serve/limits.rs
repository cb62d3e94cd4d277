//! Tests of [`ServeLimits`]: the server closes connections that exceed a time limit, and slow ones if new connections need
//! their slots. If all slots are busy, a new connection waits.
//!
//! A limit of 50 ms is the one under test, a limit of one hour never expires. The tests wait for what the server does
//! without time limits of their own, so a slow machine does not fail them.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::{get, post};
use berth_serve::{ServeLimits, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

const ASK: &[u8] = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";
const SHORT: Duration = Duration::from_millis(50);
/// Longer than any test.
const LONG: Duration = Duration::from_hours(1);

/// The limits of a test that changes none.
fn limits() -> ServeLimits {
    ServeLimits {
        // The number of slots for connections.
        connections: 8,
        // How long a connection is idle before a new one may replace it.
        idle: Duration::ZERO,
        // How long the head of a request may take; an idle connection is closed after this time, too.
        head: LONG,
        // How far behind the least rate the body of a request may be, and a peer that reads its response.
        body: LONG,
        // The least rate, in bytes per second.
        least_rate: 500,
        // The memory of all bodies.
        bodies: 1 << 20,
        // How long requests in progress may continue after the stop.
        grace: SHORT,
    }
}

/// A running server. Its routes: `/` answers at once, `/once` after a signal, `/never` never, `/long` with 64 MiB,
/// `/unread` without reading the body.
struct Served {
    address: std::net::SocketAddr,
    /// Notified when a request for `/once` arrives.
    once_requested: Arc<Notify>,
    /// Each notification lets the server answer one request for `/once`.
    answer_once: Arc<Notify>,
    /// Stops the server.
    stop: oneshot::Sender<()>,
    /// The task of the server.
    ended: JoinHandle<()>,
}

impl Served {
    async fn with(limits: ServeLimits) -> Self {
        let answer_once = Arc::new(Notify::new());
        let once_requested = Arc::new(Notify::new());
        let once = {
            let (requested, answer) = (Arc::clone(&once_requested), Arc::clone(&answer_once));
            async move || {
                requested.notify_one();
                answer.notified().await;
            }
        };
        let router = Router::new()
            .route("/", get(|| async { "hello" }))
            .route("/", post(|body: Bytes| async move { body }))
            .route("/unread", post(|| async { StatusCode::NOT_ACCEPTABLE }))
            .route("/long", get(|| async { vec![b'x'; 64 << 20] }))
            .route("/never", get(std::future::pending::<()>))
            .route("/once", get(once));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async { stopped.await.unwrap_or_default() };
        let ended = tokio::spawn(async move {
            serve(listener, limits, |_| router.clone(), stopped).await;
        });
        Self {
            address,
            once_requested,
            answer_once,
            stop,
            ended,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address)
            .await
            .expect("it is served")
    }

    async fn connect_from(&self, address: &str) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        let source = format!("{address}:0").parse().expect("an address");
        socket.bind(source).expect("an address of this host");
        let connected = socket.connect(self.address).await;
        connected.expect("it is served")
    }
}

/// Reads until the server closes the connection.
async fn to_the_close(mut stream: TcpStream) -> String {
    let mut all = Vec::new();
    // A reset is a close, too.
    let _ = stream.read_to_end(&mut all).await;
    String::from_utf8_lossy(&all).into_owned()
}

/// Sends a request for `/` and reads the complete answer.
async fn answered(stream: &mut TcpStream) {
    stream.write_all(ASK).await.expect("it is served");
    let mut answer = String::new();
    while !answer.ends_with("hello") {
        let mut some = [0; 512];
        let length = stream.read(&mut some).await.expect("it is served");
        assert!(length > 0, "closed after {answer}");
        answer.push_str(&String::from_utf8_lossy(&some[..length]));
    }
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed() {
    let head = SHORT;
    let served = Served::with(ServeLimits { head, ..limits() }).await;
    to_the_close(served.connect().await).await;
}

#[tokio::test]
async fn a_head_that_arrives_too_slowly_closes_the_connection() {
    let head = SHORT;
    let served = Served::with(ServeLimits { head, ..limits() }).await;
    let (mut from, mut to) = served.connect().await.into_split();
    let dropping = async {
        to.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        while to.write_all(b"x: y\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let closed = async { while matches!(from.read(&mut [0; 64]).await, Ok(1..)) {} };
    tokio::select! { () = dropping => {}, () = closed => {} }
}

#[tokio::test]
async fn a_connection_that_stays_idle_after_an_answer_is_closed() {
    let head = SHORT;
    let served = Served::with(ServeLimits { head, ..limits() }).await;
    let mut stream = served.connect().await;
    answered(&mut stream).await;
    assert_eq!(to_the_close(stream).await, "");
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_refused_and_the_connection_closed() {
    let body = SHORT;
    let served = Served::with(ServeLimits { body, ..limits() }).await;
    let mut stream = served.connect().await;
    let head = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 100\r\n\r\nhalf";
    stream.write_all(head).await.unwrap();
    let answer = to_the_close(stream).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[tokio::test]
async fn a_body_that_arrives_too_slowly_is_refused() {
    let body = SHORT;
    let served = Served::with(ServeLimits { body, ..limits() }).await;
    let (from, mut to) = served.connect().await.into_split();
    let head = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 1000000\r\n\r\n";
    to.write_all(head).await.unwrap();
    let dropping = async {
        while to.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let mut answer = Vec::new();
    let mut from = from.take(12);
    tokio::select! {
        () = dropping => {}
        _ = from.read_to_end(&mut answer) => assert_eq!(answer, b"HTTP/1.1 400"),
    }
}

#[tokio::test]
async fn a_peer_that_does_not_read_its_response_loses_its_slot() {
    let connections = 1;
    let body = SHORT;
    let served = Served::with(ServeLimits {
        connections,
        body,
        ..limits()
    })
    .await;
    let mut deaf = served.connect().await;
    let head = b"GET /long HTTP/1.1\r\nhost: here\r\n\r\n";
    deaf.write_all(head).await.unwrap();
    // Its response has begun, so it occupies the only slot. After the limit, another connection gets the slot.
    let mut some = [0; 12];
    deaf.read_exact(&mut some).await.unwrap();
    assert_eq!(&some, b"HTTP/1.1 200");
    answered(&mut served.connect().await).await;
    assert!(to_the_close(deaf).await.len() < 64 << 20);
}

#[tokio::test]
async fn a_new_connection_waits_while_all_slots_are_busy() {
    let connections = 2;
    let served = Served::with(ServeLimits {
        connections,
        ..limits()
    })
    .await;
    let once = b"GET /once HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
    let mut busy = Vec::new();
    for _ in 0..connections {
        let mut stream = served.connect().await;
        stream.write_all(once).await.unwrap();
        served.once_requested.notified().await;
        busy.push(stream);
    }
    let mut third = served.connect().await;
    let waiting = tokio::spawn(async move { answered(&mut third).await });
    let mut ends = busy.into_iter().map(to_the_close);
    let (first, second) = (ends.next().unwrap(), ends.next().unwrap());
    tokio::pin!(first, second);
    served.answer_once.notify_one();
    let whole = tokio::select! { end = &mut first => end, end = &mut second => end };
    assert!(whole.starts_with("HTTP/1.1 200"), "{whole}");
    waiting.await.unwrap();
}

#[tokio::test]
async fn a_new_request_closes_the_connection_that_was_idle_longest() {
    let served = Served::with(limits()).await;
    let mut used = served.connect().await;
    answered(&mut used).await;
    let mut idle = Vec::new();
    for _ in 0..10 * limits().connections {
        idle.push(served.connect().await);
    }
    let mut asking = served.connect().await;
    answered(&mut asking).await;
    // The server has closed the oldest ones to get slots.
    assert_eq!(to_the_close(used).await, "");
    assert_eq!(to_the_close(idle.swap_remove(0)).await, "");
    answered(idle.last_mut().unwrap()).await;
}

#[tokio::test]
async fn a_new_request_closes_connections_whose_bodies_do_not_arrive() {
    let served = Served::with(limits()).await;
    let mut slow = Vec::new();
    for _ in 0..4 * limits().connections {
        let mut stream = served.connect().await;
        let head = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 100\r\n\r\n{";
        stream.write_all(head).await.unwrap();
        slow.push(stream);
    }
    answered(&mut served.connect().await).await;
    assert_eq!(to_the_close(slow.swap_remove(0)).await, "");
}

#[tokio::test]
async fn a_new_request_closes_a_connection_whose_response_is_not_read() {
    let connections = 1;
    let served = Served::with(ServeLimits {
        connections,
        ..limits()
    })
    .await;
    let mut deaf = served.connect().await;
    let head = b"GET /long HTTP/1.1\r\nhost: here\r\n\r\n";
    deaf.write_all(head).await.unwrap();
    deaf.read_exact(&mut [0; 12]).await.unwrap();
    answered(&mut served.connect().await).await;
    assert!(to_the_close(deaf).await.len() < 64 << 20);
}

#[tokio::test]
async fn an_address_that_uses_its_share_leaves_slots_for_others() {
    let idle = LONG;
    let served = Served::with(ServeLimits { idle, ..limits() }).await;
    let never = b"GET /never HTTP/1.1\r\nhost: here\r\n\r\n";
    let mut busy = Vec::new();
    for _ in 0..4 * limits().connections {
        let mut stream = served.connect_from("127.0.0.2").await;
        // Connections beyond the share and the waiting list are closed.
        let _ = stream.write_all(never).await;
        busy.push(stream);
    }
    for other in ["127.0.0.3", "127.0.0.4", "127.0.0.1"] {
        answered(&mut served.connect_from(other).await).await;
    }
}

#[tokio::test]
async fn bodies_that_need_too_much_memory_together_are_refused_and_finished_ones_give_it_back() {
    // Each body has so much in any case.
    const SMALL: usize = 128 << 10;
    let bodies = 100;
    let served = Served::with(ServeLimits { bodies, ..limits() }).await;
    let post = async |length: usize, sent: usize| {
        let mut stream = served.connect().await;
        let head = format!(
            "POST / HTTP/1.1\r\nhost: here\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{}",
            "x".repeat(sent)
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    };
    let first = post(SMALL + 100, SMALL + 60).await;
    let answer = async || to_the_close(post(SMALL + 60, SMALL + 60).await).await;
    // Until the server has read what the first sent.
    while !answer().await.starts_with("HTTP/1.1 400") {}
    drop(first);
    while !answer().await.starts_with("HTTP/1.1 200") {}
}

#[tokio::test]
async fn a_response_before_the_body_has_arrived_reaches_a_client_that_still_sends() {
    let served = Served::with(limits()).await;
    let mut client = served.connect().await;
    let length = 4 << 20;
    let head = format!("POST /unread HTTP/1.1\r\nhost: here\r\ncontent-length: {length}\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    let body = vec![b'x'; length];
    client.write_all(&body).await.expect("it is read");
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.expect("no reset");
    assert!(answer.starts_with("HTTP/1.1 406"), "{answer}");
}

#[tokio::test]
async fn a_connection_that_is_not_idle_long_enough_is_not_closed() {
    let idle = LONG;
    let served = Served::with(ServeLimits { idle, ..limits() }).await;
    let mut open = Vec::new();
    for _ in 0..limits().connections {
        open.push(served.connect().await);
    }
    let mut one_more = served.connect().await;
    one_more.write_all(ASK).await.unwrap();
    for stream in &mut open {
        answered(stream).await;
    }
    drop(open);
    answered(&mut one_more).await;
}

#[tokio::test]
async fn a_connection_with_a_request_in_progress_is_not_closed_for_others() {
    let served = Served::with(limits()).await;
    let mut busy = served.connect().await;
    let once = b"GET /once HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
    busy.write_all(once).await.unwrap();
    served.once_requested.notified().await;
    let mut others = Vec::new();
    for _ in 0..4 * limits().connections {
        let mut another = served.connect().await;
        answered(&mut another).await;
        others.push(another);
    }
    served.answer_once.notify_one();
    let whole = to_the_close(busy).await;
    assert!(whole.starts_with("HTTP/1.1 200"), "{whole}");
}

#[tokio::test]
async fn a_stop_closes_idle_connections_and_aborts_requests_after_the_grace_time() {
    let served = Served::with(limits()).await;
    let mut idle = served.connect().await;
    answered(&mut idle).await;
    let mut endless = served.connect().await;
    let head = b"GET /never HTTP/1.1\r\nhost: here\r\n\r\n";
    endless.write_all(head).await.unwrap();
    served.stop.send(()).unwrap();
    served.ended.await.unwrap();
    assert_eq!(to_the_close(idle).await, "");
    assert_eq!(to_the_close(endless).await, "");
}

#[tokio::test]
async fn a_response_before_the_body_was_read_has_connection_close() {
    let served = Served::with(limits()).await;
    let mut client = served.connect().await;
    let whole = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 3\r\n\r\nabc";
    client.write_all(whole).await.expect("it is read");
    let mut answer = [0; 1024];
    let length = client.read(&mut answer).await.expect("an answer");
    let answer = String::from_utf8_lossy(&answer[..length]).to_lowercase();
    assert!(!answer.contains("connection: close"), "{answer}");
    let unread = b"POST /unread HTTP/1.1\r\nhost: here\r\ncontent-length: 3\r\n\r\nabc";
    client.write_all(unread).await.expect("it is read");
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.expect("an end");
    assert!(answer.starts_with("HTTP/1.1 406"), "{answer}");
    assert!(
        answer.to_lowercase().contains("connection: close"),
        "{answer}"
    );
    served.stop.send(()).expect("it serves");
    served.ended.await.expect("it ends");
}
