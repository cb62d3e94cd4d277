//! The accelerator service: Cyborg's API v2, microversions 2.0 to 2.3. It manages device profiles, accelerator requests (ARQs)
//! and their binding, devices, deployables and attributes.
//!
//! ```text
//! agent ── device report ──► devices, deployables, attach handles
//! conductor ── create, bind ──► ARQs ── event (outbox) ──► compute API ──► agent
//! ```
//!
//! [`prepare`] creates the database schema, [`router()`] builds the API, and [`deliver_events`] sends the events about binds. A
//! request passes the service layer (`berth_http`), a handler (`handlers`) and the tables (`store`). Each change is one
//! transaction: a bind assigns all its handles or none, and its event is stored in the same transaction.
//!
//! Background tasks: [`end_late_programmings`] ends binds if their devices were not programmed in time, [`watch_providers`] checks
//! that the devices' resource providers exist in Placement, [`delete_idle_arqs`] deletes requests that hold no device.
//!
//! Agents report all devices of a host at once (`PUT /internal/v1/hosts/{host}/devices`). Only agents write the providers in
//! Placement. A report never removes what a request holds. Agents wait for operators' changes by long polling ([`HostChangeNotifier`]).
//! `cli` composes this crate, served or in process.

mod events;
mod handlers;
mod host_changes;
mod idle_arqs;
mod microversions;
mod policies;
mod programmings;
mod providers;
mod report;
mod router;
mod store;

pub use berth_http::{serve_tcp, serve_unix};
pub use events::{EventNotifier, EventReceivers, deliver_events};
pub use host_changes::HostChangeNotifier;
pub use idle_arqs::{IdleArqCollector, IdleArqsError, delete_idle_arqs};
pub use policies::default_policy;
pub use programmings::end_late_programmings;
pub use providers::watch_providers;
pub use router::{AcceleratorApiOptions, ServiceTokens, router};
pub use store::schema::{AcceleratorSchemaError, VERSION as SCHEMA_VERSION, prepare};
