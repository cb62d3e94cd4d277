//! The HTTP layer that all services share.
//!
//! A request passes these stages in order; any of them can end it with a [`Fault`]:
//!
//! ```text
//! audit -> request id -> token -> microversion -> content headers -> policy -> body -> handler -> Fault rendered -> response
//! ```
//!
//! The fault is rendered once, in the shape of the OpenStack service that the [`ApiDialect`] names, with the request
//! id and (from the microversion that has it) the error code. A panic in a handler becomes a 500.
//!
//! Each service wraps its router with [`with_service_layer()`]; `cli` chooses the [`ValidateToken`].

pub mod answer;
pub mod audit;
pub mod auth;
pub mod call;
pub mod client_address;
pub mod cors;
pub mod dialect;
pub mod fault;
pub mod fields;
pub mod microversion;
pub mod mount;
pub mod openapi;
pub mod operation;
pub mod policy;
pub mod prefix;
pub mod provider_roots;
pub mod query;
pub mod request_id;
pub mod schema;
pub mod serve;
pub mod service_layer;

pub use answer::ApiResponse;
pub use audit::{AuditTrail, RequestAudit, audited, audited_as};
pub use auth::{Caller, HostAccount, NoAuth2, TokenError, TokenRequest, TokenScope, ValidateToken};
pub use berth_serve::SubjectName;
pub use berth_wire::query_string;
pub use call::{ApiRequest, read_body};
pub use client_address::{TrustedProxies, client_address};
pub use cors::{CorsOptions, cors};
pub use dialect::ApiDialect;
pub use fault::Fault;
pub use microversion::{Microversion, MicroversionRange};
pub use mount::{found_at, mount, without_internal_routes};
pub use operation::{HeadRequests, LARGE_BODY, Operation, OperationSet};
pub use policy::{Policy, PolicyFile, PolicyFileError, PolicyFileErrors, PolicyRule, RuleDefault};
pub use prefix::{Prefix, PrefixError, under};
pub use provider_roots::{
    LookUpProviderRoot, ProviderLookup, ProviderLookupError, ProviderRoot, is_provider_of_host,
};
pub use query::QueryString;
pub use request_id::RequestId;
pub use schema::BodySchema;
pub use serve::{ClientAddress, HttpListener, for_loopback_names, serve_tcp, serve_unix};
pub use service_layer::{BODY_LIMIT, ServiceLayer, with_service_layer};
