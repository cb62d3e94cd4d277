//! Carries bytes between a websocket and a console, until one of them ends.
//!
//! Each direction has one buffer, so a slow side slows the other one down. A client that is gone without a word is noticed by
//! pings: a serial console has one connection, which it would block.

use std::fmt;
use std::future::pending;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use berth_client::ByteStream;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::time::{interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The most bytes of a message to a client.
const BUFFER: usize = 16 << 10;
/// How often a client is pinged.
const PING: Duration = Duration::from_secs(30);
/// How long a client may send nothing, not even the answer to a ping.
const SILENCE: Duration = Duration::from_secs(90);
/// How long one side may take for one message of the other one.
const WRITE: Duration = Duration::from_secs(30);
/// How long the farewell to a client may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    Guest,
    Client,
    /// The client sent nothing for too long.
    Silent,
    /// One side did not take what the other one sent.
    Slow,
    /// The connection on one side broke.
    Broken,
    /// The token expired.
    Expired,
    /// This process stops.
    Stopped,
}

impl SessionEnd {
    /// The code that tells the client.
    fn code(self) -> u16 {
        match self {
            Self::Guest | Self::Client => close_code::NORMAL,
            Self::Stopped => close_code::AWAY,
            Self::Expired | Self::Silent | Self::Slow => close_code::POLICY,
            Self::Broken => close_code::ERROR,
        }
    }
}

impl fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Guest => "the guest closed it",
            Self::Client => "the client closed it",
            Self::Silent => "the client does not answer",
            Self::Slow => "one side does not take what the other one sends",
            Self::Broken => "its connection broke",
            Self::Expired => "its token expired",
            Self::Stopped => "the proxy stops",
        })
    }
}

/// Carries bytes until the session ends, at the latest after `limit`.
pub(crate) async fn carry(
    socket: WebSocket,
    console: Box<dyn ByteStream>,
    limit: Option<Duration>,
    stop: &CancellationToken,
) -> SessionEnd {
    let (mut to_client, from_client) = socket.split();
    let (from_guest, to_guest) = tokio::io::split(console);
    let expired = async {
        match limit {
            Some(limit) => sleep(limit).await,
            None => pending().await,
        }
    };
    let ended = tokio::select! {
        ended = guest_to_client(from_guest, &mut to_client) => ended,
        ended = client_to_guest(from_client, to_guest) => ended,
        () = expired => SessionEnd::Expired,
        () = stop.cancelled() => SessionEnd::Stopped,
    };
    let farewell = Message::Close(Some(CloseFrame {
        code: ended.code(),
        reason: ended.to_string().into(),
    }));
    // A client that is gone does not take it.
    let _ = timeout(FAREWELL, to_client.send(farewell)).await;
    ended
}

async fn guest_to_client(
    mut from_guest: ReadHalf<Box<dyn ByteStream>>,
    to_client: &mut SplitSink<WebSocket, Message>,
) -> SessionEnd {
    let mut buffer = vec![0; BUFFER];
    let mut pings = interval(PING);
    loop {
        let message = tokio::select! {
            read = from_guest.read(&mut buffer) => match read {
                Ok(0) => return SessionEnd::Guest,
                Ok(read) => Message::Binary(Bytes::copy_from_slice(&buffer[..read])),
                Err(_) => return SessionEnd::Broken,
            },
            _ = pings.tick() => Message::Ping(Bytes::new()),
        };
        match timeout(WRITE, to_client.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return SessionEnd::Broken,
            Err(_) => return SessionEnd::Slow,
        }
    }
}

async fn client_to_guest(
    mut from_client: SplitStream<WebSocket>,
    mut to_guest: WriteHalf<Box<dyn ByteStream>>,
) -> SessionEnd {
    loop {
        let bytes: Bytes = match timeout(SILENCE, from_client.next()).await {
            Err(_) => return SessionEnd::Silent,
            Ok(None | Some(Ok(Message::Close(_)))) => return SessionEnd::Client,
            Ok(Some(Err(_))) => return SessionEnd::Broken,
            Ok(Some(Ok(Message::Binary(bytes)))) => bytes,
            // Clients of serial consoles send keys as texts.
            Ok(Some(Ok(Message::Text(text)))) => text.into(),
            Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => continue,
        };
        match timeout(WRITE, to_guest.write_all(&bytes)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return SessionEnd::Broken,
            Err(_) => return SessionEnd::Slow,
        }
    }
}
