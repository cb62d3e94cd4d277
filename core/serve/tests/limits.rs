//! Connections that are slow or idle are closed if others need the place; if all are busy, a new one waits. Each test
//! waits for an effect of the server, however long it takes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::{get, post};
use berth_serve::{ServeLimits, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

const ASK: &[u8] = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";
const SHORT: Duration = Duration::from_millis(50);
/// Longer than any test.
const LONG: Duration = Duration::from_hours(1);

fn limits() -> ServeLimits {
    ServeLimits {
        connections: 8,
        idle: Duration::ZERO,
        head: LONG,
        body: LONG,
        grace: SHORT,
    }
}

struct Served {
    address: std::net::SocketAddr,
    /// Notified when `/once` is requested.
    begun: Arc<Notify>,
    /// Lets one answer of `/once` be given.
    tell: Arc<Notify>,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

impl Served {
    async fn with(limits: ServeLimits) -> Self {
        let tell = Arc::new(Notify::new());
        let begun = Arc::new(Notify::new());
        let once = {
            let (begun, told) = (Arc::clone(&begun), Arc::clone(&tell));
            async move || {
                begun.notify_one();
                told.notified().await;
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
            begun,
            tell,
            stop,
            ended,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address)
            .await
            .expect("it is served")
    }
}

/// All that comes until the server closes.
async fn to_the_close(mut stream: TcpStream) -> String {
    let mut all = Vec::new();
    // A reset is a close, too.
    let _ = stream.read_to_end(&mut all).await;
    String::from_utf8_lossy(&all).into_owned()
}

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
async fn a_connection_that_says_nothing_is_closed() {
    let head = SHORT;
    let served = Served::with(ServeLimits { head, ..limits() }).await;
    to_the_close(served.connect().await).await;
}

#[tokio::test]
async fn a_head_that_comes_drop_by_drop_is_not_waited_for() {
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
async fn a_body_that_does_not_come_is_refused_and_the_connection_closed() {
    let body = SHORT;
    let served = Served::with(ServeLimits { body, ..limits() }).await;
    let mut stream = served.connect().await;
    let head = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 100\r\n\r\nhalf";
    stream.write_all(head).await.unwrap();
    let answer = to_the_close(stream).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[tokio::test]
async fn a_body_that_comes_drop_by_drop_is_not_waited_for() {
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
async fn a_peer_that_does_not_take_its_answer_is_not_waited_for() {
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
    // Its answer has begun: it keeps the only place, which another one gets in the end.
    let mut some = [0; 12];
    deaf.read_exact(&mut some).await.unwrap();
    assert_eq!(&some, b"HTTP/1.1 200");
    answered(&mut served.connect().await).await;
    assert!(to_the_close(deaf).await.len() < 64 << 20);
}

#[tokio::test]
async fn a_connection_too_many_waits_while_the_others_are_answered() {
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
        served.begun.notified().await;
        busy.push(stream);
    }
    let mut third = served.connect().await;
    let waiting = tokio::spawn(async move { answered(&mut third).await });
    let mut ends = busy.into_iter().map(to_the_close);
    let (first, second) = (ends.next().unwrap(), ends.next().unwrap());
    tokio::pin!(first, second);
    served.tell.notify_one();
    let whole = tokio::select! { end = &mut first => end, end = &mut second => end };
    assert!(whole.starts_with("HTTP/1.1 200"), "{whole}");
    waiting.await.unwrap();
}

#[tokio::test]
async fn idle_connections_give_way_to_one_that_asks_the_longest_first() {
    let served = Served::with(limits()).await;
    let mut used = served.connect().await;
    answered(&mut used).await;
    let mut idle = Vec::new();
    for _ in 0..10 * limits().connections {
        idle.push(served.connect().await);
    }
    let mut asking = served.connect().await;
    answered(&mut asking).await;
    // The first of them have made room.
    assert_eq!(to_the_close(used).await, "");
    assert_eq!(to_the_close(idle.swap_remove(0)).await, "");
    answered(idle.last_mut().unwrap()).await;
}

#[tokio::test]
async fn one_that_was_just_opened_is_left_alone() {
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
async fn one_that_is_being_answered_gives_way_to_nobody() {
    let served = Served::with(limits()).await;
    let mut busy = served.connect().await;
    let once = b"GET /once HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
    busy.write_all(once).await.unwrap();
    served.begun.notified().await;
    let mut others = Vec::new();
    for _ in 0..4 * limits().connections {
        let mut another = served.connect().await;
        answered(&mut another).await;
        others.push(another);
    }
    served.tell.notify_one();
    let whole = to_the_close(busy).await;
    assert!(whole.starts_with("HTTP/1.1 200"), "{whole}");
}

#[tokio::test]
async fn a_stop_closes_idle_connections_and_cuts_off_what_does_not_end() {
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
async fn an_answer_before_the_body_was_read_says_that_the_connection_ends() {
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
