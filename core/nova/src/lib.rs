//! What a compute service of a Nova cell and its control plane say to each other: versioned objects, the calls to nova-conductor, the
//! requests of the compute RPC interface, and the versions of each release. The crate has no I/O.
//!
//! - [`NovaRelease`] has the versions of one release of Nova, as data. [`NovaRelease::for_minimum`] chooses the one that a cell needs.
//! - [`NovaObject`] is an object as a JSON tree. The types in [`objects`] have typed accessors; unknown fields survive.
//! - [`conductor::ConductorApi`] makes calls. A call never contains an object newer than the release: a conductor that receives one may
//!   stop answering all its callers for minutes.
//! - [`compute::ComputeRequest`] is what the cell asks.
//!
//! Envelopes, queues and requests' contexts belong to the messaging crate. JSON that comes from a peer must have passed a parser that
//! bounds its depth, as `serde_json` does.

pub mod compute;
pub mod conductor;
mod failure;
mod field;
mod object;
pub mod objects;
mod release;
mod scheduler;
mod states;
mod time;
mod version;

pub use failure::{ConductorFailure, NotAFailure, RemoteFailure, ReplyFailure};
pub use field::{FieldValue, NovaFieldError};
pub use object::{NotAnObject, NovaObject};
pub use release::{
    MethodEntry, NoFittingRelease, NovaRelease, ObjectManifest, RpcVersions, UnsendableObject,
};
pub use scheduler::SchedulerNews;
pub use states::{NovaPowerState, NovaTaskState, NovaVmState};
pub use time::{NotATime, NovaTime};
pub use version::{NotAVersion, ObjectVersion};
