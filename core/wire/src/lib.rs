//! JSON bodies as they travel, one module per API, and their way to and from the model.
//!
//! A body is read in two steps, so that an error can always name its field: [`decode`] turns bytes into a body of plain
//! numbers and texts, and the body's own `into_…` (or `TryFrom`) turns those into model types, checking ranges and names.
//! Bodies that can be large are written from borrowed structs; nothing here goes through `serde_json::Value`.
//!
//! Callers: `core/client` (the asking side) and the services (the answering side). No I/O, no clock.

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
pub mod placement;

pub use body::{BodyError, decode, encode};
pub use bounded::bounded;
