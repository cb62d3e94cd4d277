//! What the cloud knows of its compute hosts, in the shared database: for the scheduler, and for whoever shows or changes them.
//!
//! | room | noun |
//! |---|---|
//! | `hosts` | [`Hosts`]: all of it, as its users in one process have it |
//! | `report` | what an agent tells of its host, checked; pure |
//! | `host_states` | states as agents tell them: told whole, seen, shown |
//! | `host_state` | a node's state as filters and weighers read it; pure |
//! | `states` | the states that a scheduling request needs, fresh, and read only where they have changed |
//! | `compute_hosts` | hosts as services: heard of, disabled, said to be dead, removed |
//! | `aggregates` | host aggregates and availability zones |
//! | `guests` | which conductor has which guest |
//! | `server_groups` | which guests are to be together or apart, and where each was put |
//! | `scheduling_records` | records of where guests were put, and why |
//! | `store` | the tables |
//! | `router`, `policies`, `handlers` | the internal routes for agents and operators |
//!
//! [`prepare`] brings a database to the schema, [`router()`] makes the routes. An agent pushes its host's state when it has changed,
//! and otherwise says that it lives; a scheduling request reads the names of states, and only those states that it does not know.
//!
//! Callers: `services/conductor` schedules by it, `services/compute` shows and changes it, `cli` composes it, `tests`.

mod aggregates;
mod compute_hosts;
mod digest;
mod guests;
mod handlers;
mod host_state;
mod host_states;
mod hosts;
mod policies;
mod report;
mod router;
mod scheduling_records;
mod server_groups;
mod states;
mod store;

pub use aggregates::{AVAILABILITY_ZONE, AggregateError, AggregateUpdate, HostAggregate};
pub use compute_hosts::{ComputeHost, ComputeNode, HostError, ServiceStatus, ServiceUpdate};
pub use guests::OwnedGuest;
pub use host_states::HostStateError;
pub use hosts::{Hosts, HostsOptions};
pub use policies::default_policy;
pub use router::{Options, router};
pub use scheduling_records::{RecordBounds, RecordError, SchedulingRecord, SchedulingRecordHead};
pub use server_groups::{
    GroupMember, GroupPolicy, KeptServerGroup, NewServerGroup, PlacedMember, ServerGroupError,
};
pub use store::TableError;
pub use store::schema::{VERSION as SCHEMA_VERSION, prepare};
