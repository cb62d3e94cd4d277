//! The agent's own API: a unix socket for the operators of this host (root and one group); optionally the same routes over TLS for
//! clients with a certificate of one authority; and a loopback port for Prometheus with metrics and health only. A lock next to the
//! socket keeps a second agent away.
//!
//! | module | what it does |
//! |---|---|
//! | `state`, `health`, `requests` | what the service loop publishes, and what the API asks of it |
//! | `admin` | opens the sockets and serves them |
//! | `socket` | opens the socket, finding a stale file or another agent |
//! | `access` | who may ask |
//! | `router` | the routes |
//! | `instances`, `devices`, `reconcile` | the routes of instances, devices and the comparison |
//! | `compute_api` | the part of Nova's API by which services report events |
//! | `embedded_socket` | further APIs of this process, for the same people |
//! | `body` | the bodies as they travel |
//! | `openapi`, `reference` | its documents |
//! | `client` | the other end, for `berth agent status`, `disable`, `enable` |

mod access;
mod admin;
pub mod body;
pub mod client;
pub mod compute_api;
pub mod devices;
mod embedded_socket;
mod error;
pub mod health;
pub mod instances;
mod metrics_page;
pub mod openapi;
pub mod reconcile;
mod reference;
mod refusal;
mod requests;
mod router;
mod socket;
mod state;

pub use admin::{AdminOptions, Door, Serving, TlsListen};
pub use berth_serve::{ReloadableTls, TlsError, TlsFile, TlsFiles};
pub use compute_api::{EventSources, compute_api};
pub use embedded_socket::SocketBeside;
pub use error::AdminError;
pub use metrics_page::RenderMetrics;
pub use reference::admin_page;
pub use requests::{Request, TickOutcome};
pub use router::ROUTES;
pub use socket::SocketLock;
pub use state::{
    AgentState, LastPass, NodeState, PassResult, Phase, PlanState, States, Touched, Trouble,
};
