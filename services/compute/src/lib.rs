//! The compute API: a subset of Nova's REST API, microversions 2.1 to 2.82, on top of Berth's conductor.
//!
//! It stores flavors, key pairs and the user-visible properties of servers. Everything else comes from other services:
//! boots from the conductor, guests from agents, hosts, aggregates and server groups from `services/hosts` (ADR 21).
//!
//! ```text
//! router -> handlers --> Compute --> store (SQL)
//!              |            |
//!            views          +--> conductor (boots, deletions) --> agents (server state, actions)
//!                           +--> hosts, image service, Placement, quota hook
//! ```
//!
//! A request records what is to be done in the database and answers. Background tasks carry it out, and the reconciler
//! continues whatever a crash interrupted.
//!
//! | module | contents |
//! |---|---|
//! | `compute` | [`Compute`], the service in one process, and its options |
//! | `flavors`, `key_pairs` | flavors and their access lists, key pairs |
//! | `servers` | the rows of servers |
//! | `instance_actions` | the history of servers, and the queue of pending actions |
//! | `server_state`, `server_status` | a server's state in Nova's terms (pure), and its computation from conductor, agent and row |
//! | `agents` | queries agents about guests |
//! | `server_reconciler` | the background loop: continues unfinished work |
//! | `server_actions`, `retry_schedule` | carries out actions through agents, with retries |
//! | `interface_changes` | attaches ports to servers, and detaches them, through the conductor |
//! | `owners`, `lost_servers` | ownership of servers by conductor journals, and guests without a server |
//! | `consoles` | tokens and URLs of consoles, and the connections that tokens open |
//! | `external_events` | forwards events of other services to agents |
//! | `network_info_healer` | reads the interfaces of servers again, some at each interval |
//! | `aggregate_mirror` | copies host aggregates to Placement |
//! | `images` | image lookup |
//! | `project_quotas` | the table of projects' own limits, and the rows that serialise the writers of a project |
//! | `store` | tables, schema and upgrade |
//! | `handlers`, `views`, `paging` | operations and their handlers, response documents, pages and links |
//! | `router`, `state`, `policies`, `project_path`, `microversions` | the router of all operations, shared handler state, default policy, paths with a project id, versions |
//! | `openapi` | the OpenAPI document, derived from the operations |
//!
//! [`prepare`] creates or upgrades the database, [`Compute`] is the service, [`router()`] builds its routes.
//! Used by `cli` (`berth up`, `berth compute serve`) and `tests`.

mod agents;
mod aggregate_mirror;
mod compute;
mod consoles;
mod external_events;
mod flavors;
mod handlers;
mod images;
mod instance_actions;
mod interface_changes;
mod key_pairs;
mod lost_servers;
mod microversions;
mod network_info_healer;
mod openapi;
mod owners;
mod paging;
mod policies;
mod project_path;
mod project_quotas;
mod retry_schedule;
mod router;
mod server_actions;
mod server_reconciler;
mod server_state;
mod server_status;
mod servers;
mod state;
mod store;
mod views;

pub use aggregate_mirror::AggregateMirrorError;
pub use compute::{Compute, ComputeOptions, ComputeParts};
pub use consoles::{
    ConsoleOptions, ConsoleToken, ConsoleUrlError, NoRandomness, OpenedConsole, TokenRefused,
};
pub use flavors::{ComputeFlavor, ComputeFlavorError, NewFlavor};
pub use images::{FoundImage, ImageAnswer, Images, ImagesError};
pub use instance_actions::{ActionOutcome, InstanceAction};
pub use key_pairs::{KeyPair, KeyPairError, NewKeyPair};
pub use openapi::openapi;
pub use policies::default_policy;
pub use project_quotas::{ProjectQuota, ProjectQuotaError};
pub use router::{ComputeApiOptions, router};
pub use server_state::{
    Action, ActionRefused, BootPhase, GuestObservation, GuestStatus, ServerFacts, ServerState,
    TaskState, UnknownWord, VmState,
};
pub use servers::{
    ConductorHandoff, Lock, Locker, NewServers, ServerError, ServerFlavor, ServerRecord,
    ServerUpdate, UnknownLocker,
};
pub use store::ComputeTableError;
pub use store::schema::{VERSION as SCHEMA_VERSION, prepare};
