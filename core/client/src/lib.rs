//! Typed clients of OpenStack's services, over a connection pool, a unix socket or a router in this process.
//!
//! | type | purpose |
//! |---|---|
//! | [`HttpService`] | the transport: TCP and TLS, a unix socket, or a tower service in this process |
//! | [`Auth`] | account and service location: a Keystone session, a fixed token, or neither |
//! | [`Adapter`] | one service behind an [`HttpService`], with authentication, retries and request ids (keystoneauth's term) |
//! | [`AcceleratorClient`] | the accelerator service, Cyborg or Berth's own, in model types |
//! | [`ComputeClient`] | external events for Nova or an agent |
//! | [`GuestClient`], [`ConductorClient`] | the guest APIs of agents and the conductor |
//! | [`HostsClient`] | reports of host states to the scheduler |
//! | [`ImageClient`] | image records and data |
//! | [`Downloads`] | bodies that are too large for memory, piece by piece |
//! | [`IdentityClient`] | token validation by Keystone |
//! | [`NetworkClient`] | networks, ports and their bindings; [`network_info`] makes Nova's network model of them |
//! | [`PlacementClient`] | Placement in model types; each call pins its microversion |
//!
//! Callers: the agent, services that call each other, `berth`'s commands, tests. No other crate knows microversions or tokens.
//! Secrets are [`Secret`]s, which cannot be printed or serialised.

pub mod accelerator;
mod adapter;
mod answer;
mod call;
pub mod compute;
pub mod guest;
pub mod hosts;
pub mod identity;
pub mod image;
mod jitter;
pub mod keystone;
pub mod network;
mod observer;
pub mod placement;
mod retry;
mod sanitize;
mod transport;

pub use accelerator::{AcceleratorClient, AcceleratorError, ReportedArq};
pub use adapter::{Adapter, AdapterOptions, ConnectError};
pub use answer::{MalformedAnswer, ServiceRefusal};
pub use berth_model::Disposition;
pub use call::{Repeat, RequestLine, RouteTemplate, ServiceCallError};
pub use compute::{ComputeClient, EventsError};
pub use guest::{ConductorClient, GuestApiError, GuestClient};
pub use hosts::{HostsClient, HostsError};
pub use identity::{IdentityClient, ValidateError};
pub use image::{ImageClient, ImageError, ImageRecord};
pub use jitter::JitterRng;
pub use keystone::{Auth, AuthError, AuthOptions, AuthType, OptionsError, Secret, WallClock};
pub use network::{
    NetworkClient, NetworkClientError, NetworkExtensions, NetworkFacts, network_info,
};
pub use observer::{ExchangeOutcome, HttpExchange, RequestObserver};
pub use placement::{Candidate, Candidates, PlacementClient, PlacementError};
pub use retry::{Delay, RetryPolicy};
pub use transport::{
    ByteStream, DEFAULT_BODY_LIMIT, Delivery, Download, DownloadError, Downloads, HttpService,
    TransportError, TransportOptions, UpgradedConnection,
};
