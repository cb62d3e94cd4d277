//! The agent's own API: a unix socket for the operator of this host (root and one group), and, where wanted, the same routes
//! over TLS for whoever shows a certificate of one authority, and a loopback port for Prometheus with nothing but metrics and
//! health. The lock beside the socket keeps a second agent away.
//!

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::{Extension, Router};
use berth_serve::{ReloadableTls, ServeLimits, TlsClient};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::access::{Access, Peer};
use crate::error::AdminError;
use crate::metrics_page::RenderMetrics;
use crate::requests::Request;
use crate::router;
use crate::socket::{self, SocketLock};
use crate::state::States;

/// Where the API is, and for whom.
#[derive(Debug, Clone)]
pub struct AdminOptions {
    /// The unix socket (`[agent] admin_socket`).
    pub socket: PathBuf,
    /// The group whose members may ask, beside root (`[agent] admin_group`).
    pub group: String,
    /// A loopback address for metrics and health (`[agent] metrics_listen`).
    pub metrics_listen: Option<SocketAddr>,
    /// An address for all routes, over TLS with certificates on both sides.
    pub tls: Option<TlsListen>,
}

/// Where the API is over TLS, and by which files.
#[derive(Debug, Clone)]
pub struct TlsListen {
    /// The address (`[agent] listen`).
    pub address: SocketAddr,
    /// Its settings (`[agent] tls_cert`, `tls_key`, `client_ca`); who holds a clone may replace them.
    pub door: ReloadableTls,
}

/// The API's sockets, open but not yet answering.
pub struct Door {
    socket: PathBuf,
    lock: Option<SocketLock>,
    unix: UnixListener,
    tcp: Option<TcpListener>,
    tls: Option<(TcpListener, ReloadableTls)>,
    access: Access,
}

/// What each of the listeners bears: a few operators, and a scraper.
pub(crate) const LIMITS: ServeLimits = ServeLimits {
    connections: 64,
    idle: Duration::from_millis(500),
    head: Duration::from_secs(10),
    body: Duration::from_secs(10),
    grace: Duration::from_secs(2),
};

impl Door {
    /// Opens the sockets, or finds that another agent has them. `taken` is the lock where the caller holds it already.
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
            Some(TlsListen { address, door }) => {
                let address = *address;
                let listener = TcpListener::bind(address).await;
                let listener =
                    listener.map_err(|source| AdminError::ListenTls { address, source })?;
                Some((listener, door.clone()))
            }
        };
        Ok(Self {
            socket: options.socket.clone(),
            lock,
            unix,
            tcp,
            tls,
            access,
        })
    }

    /// Answers from now on.
    pub fn serve(
        self,
        states: States,
        metrics: Arc<dyn RenderMetrics>,
        requests: mpsc::Sender<Request>,
        further: Router,
    ) -> Serving {
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let shared = router::Shared {
            states,
            metrics,
            requests,
        };
        if let Some(tcp) = self.tcp {
            let (stop, router) = (stop.clone(), router::public(shared.clone()));
            tasks.spawn(async move {
                berth_serve::serve(tcp, LIMITS, |_| router.clone(), stop.cancelled_owned()).await;
            });
        }
        if let Some((listener, door)) = self.tls {
            let router = router::certified(shared.clone(), further.clone());
            tasks.spawn(over_tls(listener, door, router, stop.clone()));
        }
        let router = router::admin(shared, self.access, further);
        tasks.spawn(on_socket(self.unix, router, LIMITS, stop.clone()));
        Serving {
            stop,
            tasks,
            socket: self.socket,
            _lock: self.lock,
        }
    }
}

/// Answers on the unix socket; each request carries who is at the other end of its connection.
pub(super) async fn on_socket(
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

/// Answers over TLS; each request carries whose certificate was shown on its connection.
async fn over_tls(
    listener: TcpListener,
    door: ReloadableTls,
    router: Router,
    stop: CancellationToken,
) {
    let known = move |client: TlsClient| {
        let router = router.clone().layer(Extension(ConnectInfo(Peer::REMOTE)));
        router.layer(Extension(client))
    };
    berth_serve::serve_tls(listener, door, LIMITS, known, stop.cancelled_owned()).await;
}

/// The API while it answers. Dropped, it answers no more.
pub struct Serving {
    stop: CancellationToken,
    tasks: JoinSet<()>,
    socket: PathBuf,
    _lock: Option<SocketLock>,
}

impl Serving {
    /// Lets answers under way end, for a short time, and removes the socket.
    pub async fn stop(mut self) {
        // Nobody new comes in by a name that is gone; another agent may come after the lock is dropped.
        if let Err(error) = std::fs::remove_file(&self.socket) {
            tracing::debug!(%error, "the admin socket was gone already");
        }
        self.stop.cancel();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        // Each listener gives up on its answers under way by itself.
        all.await;
    }
}
