//! What every service shares at the door.
//!
//! A request passes, in this order: its id, the token, the microversion, the shape of its
//! headers, the handler. What goes wrong anywhere is a [`Fault`], rendered once on the way out in
//! the shape OpenStack's services use, with the request id and (from the microversion that has
//! it) the error code. A panic in a handler is a 500 and never the end of the service.
//!
//! Callers: `services/*` wrap their router with [`door()`]; `cli` chooses the [`ValidateToken`].

pub mod answer;
pub mod auth;
pub mod call;
pub mod cors;
pub mod date;
pub mod door;
pub mod fault;
pub mod manners;
pub mod microversion;
pub mod mount;
pub mod openapi;
pub mod policy;
pub mod prefix;
pub mod query;
pub mod request_id;
pub mod routes;
pub mod schema;
pub mod serve;

pub use answer::Answer;
pub use auth::{Caller, NoAuth2, Scope, TokenError, TokenRequest, ValidateToken};
pub use call::{Call, read_body};
pub use cors::{Cors, cors};
pub use date::Timestamp;
pub use door::{Door, door};
pub use fault::Fault;
pub use manners::Manners;
pub use microversion::{Microversion, MicroversionRange};
pub use mount::{found_at, mount};
pub use policy::{Policy, PolicyFile, PolicyFileError, Rule};
pub use prefix::{Prefix, PrefixError, under};
pub use query::Query;
pub use request_id::RequestId;
pub use routes::Methods;
pub use schema::Schema;
pub use serve::{serve_tcp, serve_unix};
