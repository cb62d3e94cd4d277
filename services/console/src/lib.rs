//! The proxy of consoles: what Nova has as `nova-novncproxy` and `nova-serialproxy`.
//!
//! ```text
//! browser ─► files of noVNC        GET /vnc_lite.html
//! browser ─► websocket with token  GET /?token=...   ─► OpenConsole (Compute API) ─► agent ─► guest
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `handshake` | the token and the origin of a request; pure |
//! | `session` | carries bytes between a websocket and a console |
//! | `files` | noVNC's files |
//!
//! A proxy serves one kind of console. It knows no guests and no tokens: [`OpenConsole`] does. Callers: `cli/compose`.

mod files;
mod handshake;
mod session;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::extract::{ConnectInfo, FromRequestParts as _, Request, State};
use axum::response::{IntoResponse, Response};
use berth_client::ByteStream;
use berth_model::ConsoleKind;
use http::{Method, StatusCode, Uri, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use handshake::{check_origin, token_of};

/// The most consoles that a proxy has open.
const MOST_SESSIONS: usize = 1024;

/// The largest message of a client, in bytes. A client splits what it sends (a pasted text) into messages.
const LARGEST_MESSAGE: usize = 1 << 20;

/// The largest amount that waits for a client, in bytes; reading from the guest waits meanwhile.
const WRITE_BUFFER: usize = 256 << 10;

/// The subprotocol that clients of websockify request. Others are not selected.
const SUBPROTOCOL: &str = "binary";

/// A console that was opened for a token.
pub struct ConsoleSession {
    pub server: Uuid,
    pub stream: Box<dyn ByteStream>,
    /// How long the token is still valid.
    pub valid_for: Duration,
}

/// Why a token opens no console.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConsoleRefused {
    /// The token is unknown, has expired, or is for another kind of console.
    #[error("the token of the console is not valid; request a new URL")]
    Token,
    /// The guest has no such console now, or the console has its maximum number of connections.
    #[error("{0}")]
    Guest(String),
    /// Something on the way does not answer. The log has the cause.
    #[error("the console cannot be opened now; try again")]
    Unavailable,
}

/// The future of [`OpenConsole::open`].
pub type Opening<'a> =
    Pin<Box<dyn Future<Output = Result<ConsoleSession, ConsoleRefused>> + Send + 'a>>;

/// Opens the console that a token is for.
pub trait OpenConsole: Send + Sync + 'static {
    fn open<'a>(&'a self, kind: ConsoleKind, token: &'a str) -> Opening<'a>;
}

/// How a proxy behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleProxyOptions {
    /// The kind of console that it serves.
    pub kind: ConsoleKind,
    /// The folder with noVNC's files (`web`); `None`: it serves no files.
    pub web: Option<PathBuf>,
    /// Host names of pages that may open websockets here, besides the own one (`[console] allowed_origins`).
    pub allowed_origins: Vec<String>,
    /// The scheme of the URLs that are given out: `http`, `https`, `ws` or `wss`.
    pub scheme: String,
    /// Whether a connection ends with its token (`[consoleauth] enforce_session_timeout`).
    pub ends_with_token: bool,
}

#[derive(Clone)]
struct ConsoleProxy {
    options: Arc<ConsoleProxyOptions>,
    consoles: Arc<dyn OpenConsole>,
    sessions: Arc<Semaphore>,
    stop: CancellationToken,
}

/// The routes of a proxy. Its sessions end with `stop`.
pub fn router(
    options: ConsoleProxyOptions,
    consoles: Arc<dyn OpenConsole>,
    stop: CancellationToken,
) -> Router {
    let proxy = ConsoleProxy {
        options: Arc::new(options),
        consoles,
        sessions: Arc::new(Semaphore::new(MOST_SESSIONS)),
        stop,
    };
    Router::new().fallback(answer).with_state(proxy)
}

async fn answer(State(proxy): State<ConsoleProxy>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return plain(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET and HEAD are answered",
        );
    }
    if !parts.headers.contains_key(header::UPGRADE) {
        return proxy.file(&parts.uri, &parts.method).await;
    }
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    let peer = peer
        .map(|ConnectInfo(peer)| peer.to_string())
        .unwrap_or_default();
    if let Err(refused) = check_origin(&parts.headers, &proxy.options) {
        tracing::warn!(%peer, kind = %proxy.options.kind, %refused, "a console was refused: wrong origin");
        return plain(StatusCode::FORBIDDEN, &refused.to_string());
    }
    let Some(token) = token_of(&parts.uri, &parts.headers) else {
        return plain(StatusCode::FORBIDDEN, &ConsoleRefused::Token.to_string());
    };
    let upgrade = match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => upgrade,
        Err(rejected) => return rejected.into_response(),
    };
    let Ok(place) = Arc::clone(&proxy.sessions).try_acquire_owned() else {
        tracing::warn!(%peer, most = MOST_SESSIONS, "a console was refused: too many are open");
        return plain(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many consoles are open; try again later",
        );
    };
    let console = match proxy.consoles.open(proxy.options.kind, &token).await {
        Ok(console) => console,
        Err(refused) => {
            tracing::info!(%peer, kind = %proxy.options.kind, %refused, "a console was refused");
            return refusal(&refused);
        }
    };
    proxy.begin(upgrade, console, place, peer)
}

impl ConsoleProxy {
    fn begin(
        self,
        upgrade: WebSocketUpgrade,
        console: ConsoleSession,
        place: OwnedSemaphorePermit,
        peer: String,
    ) -> Response {
        let ConsoleSession {
            server,
            stream,
            valid_for,
        } = console;
        let kind = self.options.kind;
        tracing::info!(%server, %kind, %peer, "a console was opened");
        let limit = self.options.ends_with_token.then_some(valid_for);
        let carry = move |socket: WebSocket| async move {
            let ended = session::carry(socket, stream, limit, &self.stop).await;
            tracing::info!(%server, %kind, %peer, %ended, "a console was closed");
            drop(place);
        };
        upgrade
            .protocols([SUBPROTOCOL])
            .max_message_size(LARGEST_MESSAGE)
            .max_frame_size(LARGEST_MESSAGE)
            .max_write_buffer_size(WRITE_BUFFER)
            .on_upgrade(carry)
    }

    async fn file(&self, uri: &Uri, method: &Method) -> Response {
        match &self.options.web {
            Some(folder) => files::answer(folder, uri.path(), method).await,
            None => plain(StatusCode::NOT_FOUND, "this port has websockets only"),
        }
    }
}

fn refusal(refused: &ConsoleRefused) -> Response {
    let status = match refused {
        ConsoleRefused::Token => StatusCode::FORBIDDEN,
        ConsoleRefused::Guest(_) => StatusCode::CONFLICT,
        ConsoleRefused::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    };
    plain(status, &refused.to_string())
}

/// A response with one sentence.
fn plain(status: StatusCode, sentence: &str) -> Response {
    (status, format!("{sentence}\n")).into_response()
}
