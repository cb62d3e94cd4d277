//! The compute-hosts service: the shared database of compute hosts, their states, host aggregates, server groups and
//! scheduling records.
//!
//! | module | content |
//! |---|---|
//! | `hosts` | [`Hosts`]: the handle through which all callers in one process use the database |
//! | `report` | validation of the state that an agent reports for its host; pure |
//! | `state_reports` | stores, refreshes and returns the reported states |
//! | `node_state` | converts one reported node into the scheduler's `HostState`; pure |
//! | `scheduling_states` | current `HostState`s for a scheduling request, with a cache keyed by content digests |
//! | `compute_hosts` | hosts as services: heartbeat, disabled, forced down, removed |
//! | `aggregates` | host aggregates and availability zones |
//! | `guest_owners` | which conductor owns which guest |
//! | `server_groups` | server groups, and the host of each member |
//! | `scheduling_records` | records of past scheduling decisions |
//! | `store` | the tables, transactions and errors |
//! | `router`, `state`, `policies`, `handlers` | the internal HTTP routes for agents and operators |
//!
//! [`prepare`] creates the schema in a database, and [`router()`] builds the HTTP routes.
//!
//! ```text
//! agent --PUT /state (changed), PUT /seen (heartbeat)--> state_reports --> compute_hosts, compute_nodes
//! conductor --Hosts::states--> scheduling_states --> HostState for filters and weighers
//! ```
//!
//! An agent sends its host's state only when the state has changed, and otherwise a heartbeat. A scheduling request
//! reads the digests of all states, and loads only the states that are not in the cache.
//!
//! Used by `services/conductor` (scheduling), `services/compute` (show and change), `cli` (composition) and `tests`.

mod aggregates;
mod compute_hosts;
mod digest;
mod guest_owners;
mod handlers;
mod hosts;
mod node_state;
mod policies;
mod report;
mod router;
mod scheduling_records;
mod scheduling_states;
mod server_groups;
mod state;
mod state_reports;
mod store;

pub use aggregates::{AVAILABILITY_ZONE, AggregateUpdate, HostAggregate, HostAggregateError};
pub use compute_hosts::{ComputeHost, ComputeNode, HostError, ServiceStatus, ServiceUpdate};
pub use guest_owners::OwnedGuest;
pub use hosts::{Hosts, HostsOptions, RecordBounds};
pub use policies::default_policy;
pub use router::{HostsApiOptions, router};
pub use scheduling_records::{RecordError, SchedulingRecord, SchedulingRecordHead};
pub use server_groups::{
    GroupMember, NewServerGroup, PlacedMember, ServerGroupError, ServerGroupPolicy,
    StoredServerGroup,
};
pub use state_reports::HostStateError;
pub use store::HostTableError;
pub use store::schema::{VERSION as SCHEMA_VERSION, prepare};
