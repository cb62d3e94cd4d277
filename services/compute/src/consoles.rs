//! Consoles of servers: tokens that open one console of one server, and the connections that they open.
//!
//! ```text
//! POST remote-consoles ─► token (its hash in the database) ─► URL with the token
//! proxy with the token ─► Compute::open_console ─► agent of the server's host ─► console of the guest
//! ```
//!
//! A token may be used again until it expires, because a user may reload the page. It is deleted with its server.

mod tokens;
mod url;

use std::time::Duration;

use berth_client::{ByteStream, GuestApiError, GuestClient};
use berth_model::{ConsoleKind, ConsumerUuid};
use berth_wire::guest::ConsoleBody;
use uuid::Uuid;

use crate::compute::Compute;
use crate::server_status::ServerWithStatus;
use crate::servers::ServerError;
use crate::store::ComputeTableError;

pub(crate) use tokens::delete_of;
pub use tokens::{ConsoleToken, NoRandomness};

/// The consoles that the API gives out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleOptions {
    /// The URL of the page with a screen (`[vnc] novncproxy_base_url`); `None`: there are no VNC consoles.
    pub vnc: Option<String>,
    /// The URL of the websocket of serial ports (`[serial_console] base_url`); `None`: there are no serial consoles.
    pub serial: Option<String>,
    /// How long a token is valid.
    pub token_ttl: Duration,
}

impl Default for ConsoleOptions {
    /// No consoles, and Nova's ten minutes.
    fn default() -> Self {
        Self {
            vnc: None,
            serial: None,
            token_ttl: Duration::from_mins(10),
        }
    }
}

impl ConsoleOptions {
    /// The base URL of this kind of console.
    fn base_url(&self, kind: ConsoleKind) -> Option<&str> {
        match kind {
            ConsoleKind::Vnc => self.vnc.as_deref(),
            ConsoleKind::Serial => self.serial.as_deref(),
        }
    }
}

/// Why a server has no URL of a console.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleUrlError {
    /// This cloud has no such consoles.
    #[error("this cloud has no {0} consoles")]
    NoProxy(ConsoleKind),
    /// The server has no host yet, or its host has no agent here.
    #[error("Instance {0} is not ready")]
    NotReady(Uuid),
    #[error(transparent)]
    Agent(#[from] GuestApiError),
    #[error(transparent)]
    Table(#[from] ComputeTableError),
    #[error(transparent)]
    Random(#[from] NoRandomness),
}

/// A connection to a console.
pub struct OpenedConsole {
    pub server: Uuid,
    /// The bytes of the console. They end with the guest.
    pub stream: Box<dyn ByteStream>,
    /// How long the token is still valid.
    pub valid_for: Duration,
}

/// Why a token opens no console.
#[derive(Debug, thiserror::Error)]
pub enum TokenRefused {
    /// The token is unknown, has expired, or is for another kind of console.
    #[error("the token is not valid")]
    Invalid,
    #[error("Instance {0} is not ready")]
    NotReady(Uuid),
    /// The agent refuses, or does not answer.
    #[error("the console of server {server} cannot be opened")]
    Agent { server: Uuid, source: GuestApiError },
    #[error(transparent)]
    Server(#[from] ServerError),
}

impl Compute {
    /// A URL that opens a console of a running server, with a new token.
    pub(crate) async fn console_url(
        &self,
        known: &ServerWithStatus,
        kind: ConsoleKind,
    ) -> Result<String, ConsoleUrlError> {
        let options = &self.inner.options.consoles;
        let base = options.base_url(kind);
        let base = base.ok_or(ConsoleUrlError::NoProxy(kind))?;
        let uuid = known.server.uuid;
        let agent = self.agent_of(known);
        let agent = agent.ok_or(ConsoleUrlError::NotReady(uuid))?;
        let address = agent
            .console_address(ConsumerUuid::from(uuid), kind)
            .await?;
        let host = known.placement.as_ref().map(|node| node.host.as_str());
        let token = self
            .create_console_token(NewConsoleToken {
                server: uuid,
                kind,
                host: address.host.as_deref().or(host).unwrap_or_default(),
                port: port_of(&address),
            })
            .await?;
        Ok(match kind {
            ConsoleKind::Vnc => url::with_token_in_path(base, &token),
            ConsoleKind::Serial => url::with_token(base, &token),
        })
    }

    /// Connects to the console that a token is for.
    ///
    /// Errors: The token is not valid for this kind, the server's guest has no such console now, or its agent does not answer.
    pub async fn open_console(
        &self,
        kind: ConsoleKind,
        token: &str,
    ) -> Result<OpenedConsole, TokenRefused> {
        let found = self.console_token(token).await.map_err(ServerError::from)?;
        let found = found.filter(|found| found.kind == kind);
        let found = found.ok_or(TokenRefused::Invalid)?;
        let server = found.server;
        let known = match self.server_with_status(server).await {
            Err(ServerError::NotFound { .. }) => return Err(TokenRefused::Invalid),
            known => known?,
        };
        if known.server.deleting {
            return Err(TokenRefused::Invalid);
        }
        let agent = self.agent_of(&known);
        let agent = agent.ok_or(TokenRefused::NotReady(server))?;
        let opened = agent.open_console(ConsumerUuid::from(server), kind).await;
        let stream = opened.map_err(|source| TokenRefused::Agent { server, source })?;
        Ok(OpenedConsole {
            server,
            stream,
            valid_for: found.valid_for,
        })
    }

    /// The agent of a server's host; `None` if it has no host, or its agent is not known.
    fn agent_of(&self, known: &ServerWithStatus) -> Option<GuestClient> {
        self.inner.conductor.agent(known.placement.as_ref()?)
    }
}

/// A token to be stored.
struct NewConsoleToken<'a> {
    server: Uuid,
    kind: ConsoleKind,
    /// The address of the console for operators, as in Nova.
    host: &'a str,
    port: u16,
}

/// A serial port of a guest has no port of its host; Nova's document needs a number.
fn port_of(address: &ConsoleBody) -> u16 {
    address.port.unwrap_or(0)
}
