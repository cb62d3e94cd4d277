//! GET /v1/guests/{uuid}/console/{kind}: a connection to a console of a running guest.
//!
//! Over the network and the admin socket the connection of the request is upgraded. In a process that has the agent itself,
//! there is none: the response then has the console as an extension ([`UpgradedConnection`]).

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use berth_agent_instances::{ConsoleConnection, GuestResources, Guests, OpenConsoleError};
use berth_client::UpgradedConnection;
use berth_model::{ConsoleKind, ConsumerUuid, error_chain};
use berth_virt::{ConsoleAddress, GuestError, VirtDriver};
use berth_wire::guest::{CONSOLE_PROTOCOL, ConsoleBody};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use crate::instances::guests_refusal;
use crate::refusal::refusal;

/// How long the end of a connection may take.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);

pub(super) async fn live_console<D: VirtDriver, R: GuestResources>(
    State(guests): State<Guests<D, R>>,
    Path((uuid, kind)): Path<(String, String)>,
    mut request: Request,
) -> Response {
    let uuid: Option<ConsumerUuid> = uuid.parse().ok();
    let kind: Option<ConsoleKind> = kind.parse().ok();
    let (Some(uuid), Some(kind)) = (uuid, kind) else {
        let message = "the path needs the UUID of a guest, and vnc or serial".to_owned();
        return refusal(StatusCode::NOT_FOUND, "not_found", message);
    };
    if !is_upgrade(request.headers()) {
        return match guests.console_address(uuid, kind).await {
            Ok(address) => Json(console_body(kind, &address)).into_response(),
            Err(error) => console_refusal(&error),
        };
    }
    let console = match guests.open_console(uuid, kind).await {
        Ok(console) => console,
        Err(error) => return console_refusal(&error),
    };
    tracing::info!(guest = %uuid, %kind, "a console was opened");
    let headers = [
        (header::CONNECTION, HeaderValue::from_static("upgrade")),
        (header::UPGRADE, HeaderValue::from_static(CONSOLE_PROTOCOL)),
    ];
    let mut response = (StatusCode::SWITCHING_PROTOCOLS, headers).into_response();
    match request.extensions_mut().remove::<OnUpgrade>() {
        Some(upgrade) => {
            tokio::spawn(async move {
                carry(upgrade, console).await;
                tracing::info!(guest = %uuid, %kind, "a console was closed");
            });
        }
        None => {
            let connection = UpgradedConnection::new(console);
            response.extensions_mut().insert(connection);
        }
    }
    response
}

/// Carries bytes until one side ends. Each direction has one buffer, so a slow side slows the other one down.
async fn carry(upgrade: OnUpgrade, console: ConsoleConnection) {
    let Ok(upgraded) = upgrade.await else {
        return;
    };
    let (mut from_client, mut to_client) = tokio::io::split(TokioIo::new(upgraded));
    let (mut from_guest, mut to_guest) = tokio::io::split(console);
    // A terminal never reports an end of file, so the end of either direction ends both.
    let ended = tokio::select! {
        ended = tokio::io::copy(&mut from_guest, &mut to_client) => ended,
        ended = tokio::io::copy(&mut from_client, &mut to_guest) => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a console's connection broke");
    }
    // Without a `close_notify` of TLS, the client cannot tell an end from a broken connection.
    let _ = timeout(SHUTDOWN_LIMIT, to_client.shutdown()).await;
}

fn is_upgrade(headers: &HeaderMap) -> bool {
    let protocol = headers.get(header::UPGRADE);
    protocol.is_some_and(|protocol| protocol == CONSOLE_PROTOCOL)
}

fn console_body(kind: ConsoleKind, address: &ConsoleAddress) -> ConsoleBody {
    let tcp = match address {
        ConsoleAddress::Tcp(address) => Some(address),
        ConsoleAddress::Terminal(_) => None,
    };
    ConsoleBody {
        kind: kind.to_string(),
        host: tcp.map(|address| address.ip().to_string()),
        port: tcp.map(|address| address.port()),
    }
}

fn console_refusal(error: &OpenConsoleError) -> Response {
    let (status, code) = match error {
        OpenConsoleError::Guests(error) => return guests_refusal(error),
        OpenConsoleError::Driver(GuestError::NoConsole { .. }) => {
            (StatusCode::CONFLICT, "no_console")
        }
        OpenConsoleError::Busy { .. } => (StatusCode::CONFLICT, "busy"),
        OpenConsoleError::Driver(GuestError::Refused { .. }) => {
            (StatusCode::CONFLICT, "hypervisor")
        }
        OpenConsoleError::Driver(_) | OpenConsoleError::Connect { .. } => {
            (StatusCode::SERVICE_UNAVAILABLE, "hypervisor")
        }
    };
    refusal(status, code, error_chain(error))
}
