//! What the cell asks of a compute service: messages of the compute RPC interface as typed requests.
//!
//! [`ComputeRequest::parse`] reads every method. A method that Berth does not serve is a request as well, because its instance must not
//! stay in a task state: [`outcome_of_unserved`] says what has to be saved.

mod arguments;
mod build;
mod method;
mod request;
mod unserved;

pub use arguments::{RequestError, arguments_to_backport};
pub use build::{BuildAndRunInstance, GuestPassword, InjectedFile, RebuildInstance};
pub use method::ComputeMethod;
pub use request::{ComputeRequest, NovaRebootType, UnservedRequest};
pub use unserved::{UnservedCleanup, UnservedOutcome, failure_of_unserved, outcome_of_unserved};
