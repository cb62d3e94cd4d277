//! Listeners of the admin API: opens the sockets ([`AdminListeners`]) and serves the routes on them ([`AdminServer`]).
//!
//! - A unix socket offers all routes to the operators of this host (root and one group).
//! - Optionally, a TLS listener offers the same routes to clients with a certificate of one authority.
//! - Optionally, a loopback port offers only metrics and health, for Prometheus.
//!
//! A lock file next to the unix socket prevents a second agent.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::{Extension, Router};
use berth_audit::AuditTrail;
use berth_serve::{ReloadableTls, ServeLimits, SubjectName, TlsClient, for_loopback_names};
use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::access::{Access, Peer};
use crate::audit::audited;
use crate::error::AdminError;
use crate::metrics_page::RenderMetrics;
use crate::requests::AgentRequest;
use crate::router;
use crate::socket::{self, SocketLock};
use crate::state::States;

/// Seconds without a packet after which the kernel asks the peer of a connection, and between two such questions.
const KEEPALIVE_S: u32 = 30;
/// Questions without an answer after which a connection counts as lost.
const KEEPALIVE_PROBES: u32 = 3;

/// Enables TCP keepalive, which accepted connections inherit: the kernel closes a connection if its peer no longer answers. A serial
/// console has only one connection, may be idle for long, and must not stay with a lost controller.
fn notice_lost_peers(listener: &TcpListener) -> io::Result<()> {
    setsockopt(listener, sockopt::KeepAlive, &true)?;
    setsockopt(listener, sockopt::TcpKeepIdle, &KEEPALIVE_S)?;
    setsockopt(listener, sockopt::TcpKeepInterval, &KEEPALIVE_S)?;
    setsockopt(listener, sockopt::TcpKeepCount, &KEEPALIVE_PROBES)?;
    Ok(())
}

/// Addresses of the API and who may use them.
#[derive(Debug, Clone)]
pub struct AdminOptions {
    /// Path of the unix socket (`[agent] admin_socket`).
    pub socket: PathBuf,
    /// Group whose members may use the socket, in addition to root (`[agent] admin_group`).
    pub group: String,
    /// A loopback address for metrics and health (`[agent] metrics_listen`).
    pub metrics_listen: Option<SocketAddr>,
    /// An address for all routes, over TLS with certificates on both sides.
    pub tls: Option<TlsListen>,
    /// Gets a record of each request to the socket and over TLS.
    pub audit: AuditTrail,
}

/// TLS listener: its address and its certificate files.
#[derive(Debug, Clone)]
pub struct TlsListen {
    /// Socket address (`[agent] listen`).
    pub address: SocketAddr,
    /// Settings from `[agent] tls_cert`, `tls_key`, `client_ca` and `client_crl`. They can be replaced through any clone.
    pub settings: ReloadableTls,
    /// The clients that are served (`[agent] allowed_clients`). Empty: all that TLS has authenticated.
    pub allowed_clients: Vec<SubjectName>,
}

/// The opened sockets of the API. Nothing is answered until [`AdminListeners::serve`].
pub struct AdminListeners {
    socket: PathBuf,
    lock: Option<SocketLock>,
    unix: UnixListener,
    tcp: Option<TcpListener>,
    tls: Option<(TcpListener, TlsListen)>,
    access: Access,
    audit: AuditTrail,
}

/// The API in audit records.
const OBSERVER: &str = "service/agent";

/// Limits of each listener, sized for a few operators and one scraper.
pub(crate) const LIMITS: ServeLimits = ServeLimits {
    connections: 64,
    idle: Duration::from_millis(500),
    head: Duration::from_secs(10),
    body: Duration::from_secs(10),
    least_rate: 500,
    bodies: 16 << 20,
    grace: Duration::from_secs(2),
};

impl AdminListeners {
    /// Opens the sockets. Pass the lock as `taken` if the caller holds it already; otherwise this takes the lock.
    ///
    /// # Errors
    ///
    /// Another agent holds the lock or the socket, or an address cannot be used.
    pub async fn open(
        options: &AdminOptions,
        taken: Option<&SocketLock>,
    ) -> Result<Self, AdminError> {
        let access = Access::of_group(&options.group);
        let lock = match taken {
            Some(_) => None,
            None => Some(SocketLock::take(&options.socket)?),
        };
        let unix = socket::bind(&options.socket, access.group()).await?;
        let tcp = match options.metrics_listen {
            None => None,
            Some(address) if !address.ip().is_loopback() => {
                return Err(AdminError::NotLoopback { address });
            }
            Some(address) => Some(
                TcpListener::bind(address)
                    .await
                    .map_err(|source| AdminError::Listen { address, source })?,
            ),
        };
        let tls = match &options.tls {
            None => None,
            Some(listen) => {
                let address = listen.address;
                let listener = TcpListener::bind(address).await;
                let listener = listener.and_then(|listener| {
                    notice_lost_peers(&listener)?;
                    Ok(listener)
                });
                let listener =
                    listener.map_err(|source| AdminError::ListenTls { address, source })?;
                Some((listener, listen.clone()))
            }
        };
        Ok(Self {
            socket: options.socket.clone(),
            lock,
            unix,
            tcp,
            tls,
            access,
            audit: options.audit.clone(),
        })
    }

    /// Starts to serve the routes on all listeners.
    pub fn serve(
        self,
        states: States,
        metrics: Arc<dyn RenderMetrics>,
        requests: mpsc::Sender<AgentRequest>,
        further: Router,
    ) -> AdminServer {
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let shared = router::AdminContext {
            states,
            metrics,
            requests,
        };
        if let Some(tcp) = self.tcp {
            let router = for_loopback_names(router::public_routes(shared.clone()));
            let stop = stop.clone();
            tasks.spawn(async move {
                berth_serve::serve(tcp, LIMITS, |_| router.clone(), stop.cancelled_owned()).await;
            });
        }
        if let Some((listener, listen)) = self.tls {
            let allowed = listen.allowed_clients.into();
            let router = router::tls_routes(shared.clone(), further.clone(), allowed);
            let router = audited(router, &self.audit, OBSERVER);
            tasks.spawn(serve_tls(listener, listen.settings, router, stop.clone()));
        }
        let router = router::admin(shared, self.access, further);
        let router = audited(router, &self.audit, OBSERVER);
        tasks.spawn(serve_unix(self.unix, router, LIMITS, stop.clone()));
        AdminServer {
            stop,
            tasks,
            socket: self.socket,
            _lock: self.lock,
        }
    }
}

/// Serves the router on the unix socket. Each request carries the peer credentials of its connection.
pub(super) async fn serve_unix(
    listener: UnixListener,
    router: Router,
    limits: ServeLimits,
    stop: CancellationToken,
) {
    let known = |socket: &UnixStream| {
        let peer = ConnectInfo(Peer::at(socket));
        router.clone().layer(Extension(peer))
    };
    berth_serve::serve(listener, limits, known, stop.cancelled_owned()).await;
}

/// Serves the router over TLS. Each request carries the client certificate of its connection.
async fn serve_tls(
    listener: TcpListener,
    settings: ReloadableTls,
    router: Router,
    stop: CancellationToken,
) {
    let known = move |client: TlsClient| {
        let router = router.clone().layer(Extension(ConnectInfo(Peer::REMOTE)));
        router.layer(Extension(client))
    };
    berth_serve::serve_tls(listener, settings, LIMITS, known, stop.cancelled_owned()).await;
}

/// The running API. Dropping it stops all listeners.
pub struct AdminServer {
    stop: CancellationToken,
    tasks: JoinSet<()>,
    socket: PathBuf,
    _lock: Option<SocketLock>,
}

impl AdminServer {
    /// Finishes running requests within a short grace period, and removes the socket.
    pub async fn stop(mut self) {
        // The socket is removed first, so that no new client connects. The lock is released last, so that another agent
        // starts only then.
        if let Err(error) = std::fs::remove_file(&self.socket) {
            tracing::debug!(%error, "the admin socket was already removed");
        }
        self.stop.cancel();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        // Each listener limits the time of its running requests itself.
        all.await;
    }
}
