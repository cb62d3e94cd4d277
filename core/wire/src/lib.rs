//! The serialised form of every API: JSON bodies, one module per API, and their conversion to and from the model.
//!
//! Parsing has two steps, so that an error can always name its field: [`decode`] turns bytes into a body of plain numbers and
//! texts, and the body's `into_…` (or `TryFrom`) converts it to model types and checks ranges and names. Large bodies are written
//! from borrowed structs, without `serde_json::Value`.
//!
//! Callers: `core/client` and the services. No I/O, no clock.

pub mod accelerator;
mod body;
mod bounded;
pub mod compute;
pub mod conductor;
pub mod guest;
pub mod host_state;
pub mod identity;
pub mod keystone;
pub mod metrics;
pub mod network_info;
pub mod neutron;
pub mod placement;

/// For services that do not use the model themselves.
pub use berth_model::{did_you_mean, nearest_name, printable, query_string};
pub use body::{BodyError, decode, encode};
pub use bounded::bounded;
