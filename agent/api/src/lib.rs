//! The agent's API: a unix socket for the operators of this host (root and one group); optionally the same routes over
//! TLS for clients with a certificate of one authority; and a loopback port for Prometheus with metrics and health
//! only. A lock next to the socket prevents a second agent.
//!
//! | module | contents |
//! |---|---|
//! | `state`, `health` | the state that the service loop publishes |
//! | `requests` | requests of the API to the service loop |
//! | `admin` | opens the sockets and serves the routes on them |
//! | `socket` | opens the unix socket, detects a stale file or another agent |
//! | `access` | access control |
//! | `audit` | the senders of requests, for audit records |
//! | `router` | routes of the agent itself |
//! | `instances`, `devices`, `reconcile` | routes of guests, devices and the reconcile report |
//! | `compute_api` | the part of Nova's API by which services report events |
//! | `embedded_socket` | sockets for other APIs in this process |
//! | `body` | JSON bodies |
//! | `openapi`, `reference` | generated documentation |
//! | `client` | client, for `berth agent status`, `disable`, `enable` |

mod access;
mod admin;
mod audit;
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

pub use admin::{AdminListeners, AdminOptions, AdminServer, TlsListen};
pub use berth_audit::AuditTrail;
pub use berth_serve::{ClientFiles, ReloadableTls, SubjectName, TlsError, TlsFile, TlsFiles};
pub use compute_api::{EventAuth, compute_api};
pub use embedded_socket::EmbeddedSocket;
pub use error::AdminError;
pub use metrics_page::RenderMetrics;
pub use reference::admin_page;
pub use requests::{AgentRequest, TickOutcome};
pub use router::ROUTES;
pub use socket::SocketLock;
pub use state::{
    AgentState, ChangedProviders, FailureCause, LastPass, NodeState, PassResult, Phase, PlanState,
    States,
};
