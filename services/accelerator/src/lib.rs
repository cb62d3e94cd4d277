//! The accelerator API (Cyborg v2, microversions 2.0 to 2.3) as one router: device profiles, accelerator requests (ARQs) and
//! their binding, devices, deployables, attributes.
//!
//! [`prepare`] brings a database to the schema, [`router()`] makes the API over it, [`deliver_events`] tells compute APIs
//! what came of binds. A request passes the door (`berth_http`), a handler (`handlers/<noun>`) and the tables
//! (`store/<noun>`). Each change of state is one transaction: a bind takes all its handles or none, and the event that says
//! so is written in the same transaction, so that a crash between the two cannot be.
//!
//! A bind whose devices are to be programmed waits for their hosts; [`end_late_programmings`] ends its wait.
//! [`watch_providers`] looks whether Placement still has the devices' providers; [`delete_unbound_requests`] deletes requests that
//! hold nothing and that nobody wants any more.
//!
//! Devices come from the agents, whole per host (`PUT /internal/v1/hosts/{host}/devices`); their providers in Placement are
//! the agents' to write, never this service's. What a request holds is never taken away by a report. An agent waits for what an
//! operator changes ([`HostsBell`]), so that it need not come with its next report.
//!
//! Callers: `cli` (served or in process), `tests`.

mod changes;
mod events;
mod handlers;
mod microversions;
mod policies;
mod programmings;
mod providers;
mod report;
mod router;
mod store;
mod unbound;

pub use berth_http::{serve_tcp, serve_unix};
pub use changes::HostsBell;
pub use events::{EventReceivers, EventsBell, deliver_events};
pub use policies::default_policy;
pub use programmings::end_late_programmings;
pub use providers::watch_providers;
pub use router::{Options, ServiceTokens, router};
pub use store::schema::{SchemaError, VERSION as SCHEMA_VERSION, prepare};
pub use unbound::{UnboundError, UnboundRequests, delete_unbound_requests};
