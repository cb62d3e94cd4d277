//! Typed calls over any HTTP service: a pool of connections, a unix socket or a router in this process.
//!
//! | noun | here |
//! |---|---|
//! | [`HttpService`] | where requests go: TCP and TLS, a unix socket, or a tower service in this process |
//! | [`Auth`] | who asks, and where the service is: Keystone's session, a fixed token, or nobody |
//! | [`Adapter`] | keystoneauth's word: one service behind an [`HttpService`], with auth, retries, request ids |
//! | [`AcceleratorClient`] | the accelerator service's calls, Cyborg's or Berth's own, in model types |
//! | [`ComputeClient`] | external events, told to Nova or an agent |
//! | [`GuestClient`], [`ConductorClient`] | the agent's guests, and those the conductor was asked for |
//! | [`HostsClient`] | what hosts' agents tell the scheduler of their hosts |
//! | [`ImageClient`] | the image service: what an image is, its bytes |
//! | [`Downloads`] | what is too large to be held, piece by piece |
//! | [`IdentityClient`] | Keystone, asked whose a token is |
//! | [`PlacementClient`] | Placement's calls, each pinned to the microversion it needs, in model types |
//!
//! Callers: the agent, the services that call each other, `berth`'s commands, the tests. Nothing else in the house knows
//! a microversion or a token. Secrets are [`Secret`]s: they cannot be printed and cannot be serialised.

pub mod accelerator;
mod adapter;
mod call;
pub mod compute;
mod dice;
mod foreign;
pub mod guest;
pub mod hosts;
pub mod identity;
pub mod image;
pub mod keystone;
mod observer;
pub mod placement;
mod retry;
mod transport;

pub use accelerator::{AcceleratorClient, AcceleratorError, ToldArq};
pub use adapter::{Adapter, AdapterOptions, ConnectError};
pub use berth_model::Disposition;
pub use call::{CallError, Repeat, RequestLine, Route};
pub use compute::{ComputeClient, EventsError};
pub use dice::Dice;
pub use guest::{ConductorClient, GuestApiError, GuestClient};
pub use hosts::{HostsClient, HostsError};
pub use identity::{IdentityClient, ValidateError};
pub use image::{ImageClient, ImageError, ImageRecord};
pub use keystone::{Auth, AuthError, AuthOptions, AuthType, Clock, OptionsError, Secret};
pub use observer::{Exchange, Outcome, RequestObserver};
pub use placement::{Candidate, Candidates, PlacementClient, PlacementError};
pub use retry::{Delay, RetryPolicy};
pub use transport::{
    DEFAULT_BODY_LIMIT, Download, DownloadError, Downloads, HttpService, Sent, TransportError,
    TransportOptions,
};
